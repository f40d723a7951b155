//! The loop of the archivist: writes all jobs that have gathered in one transaction.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use longhand::driver::{PendingWrite, SessionWrite, WriteOutcome, WriteStep};
use longhand::{Archive, SessionId};
use longhand_archive::{ArchiveError, NewSession, Version, Write, wait};
use rustc_hash::FxHashSet;

use super::{ArchiveJob, ArchiveQueue, ArchiveWork, JobWaiter};
use crate::metrics::Metrics;

/// How many jobs go into one transaction.
const TOGETHER_MAX: usize = 1_024;

/// How many jobs are tried while the archive fails.
const PROBE: usize = 8;

/// After a group of so many jobs, the next ones gather for longer: a transaction has a fixed cost for each of its
/// sessions, however many jobs of the session are in it.
const CROWD: usize = 32;
const CROWD_LINGER: u32 = 3;

/// How often a thread that reads a ledger is checked.
const REREAD_TIME: Duration = Duration::from_millis(5);

/// How long other work waits for ledgers that are being read: it may depend on them.
const REREADING_TIME_MAX: Duration = Duration::from_millis(50);

/// How often a write that lost a race is placed anew at once; then it waits as after a failure.
const PLACES_MAX: usize = 8;

/// The pause after a failure; it doubles each time.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How long a waiter waits for a write that fails, or that loses races, before it is told so.
const PATIENCE: Duration = Duration::from_millis(1_500);
const PLACE_PATIENCE: Duration = Duration::from_secs(10);

/// How many times the usual time a stop waits for a ledger that is being read.
const FAREWELLS_MAX: u32 = 4;

/// A write to a session, and who waits for it.
type WaitingWrite = (Box<PendingWrite>, JobWaiter);

/// The thread's state.
pub(super) struct ArchiveWorker {
    archive: Arc<dyn Archive>,
    queue: Arc<ArchiveQueue>,
    metrics: Arc<Metrics>,
    /// The writes whose ledger is read again, each with the thread that reads it: one long session holds up no other.
    rereading: Vec<(JoinHandle<()>, WaitingWrite)>,
    /// The writes that are tried again, in the order in which they came.
    kept: Vec<WaitingWrite>,
    /// When an archive that fails is tried again, and how often it was.
    stalled: Option<(Instant, u32)>,
    /// Whether nothing of the last group could be written: what it waits for may come later in the queue.
    is_stuck: bool,
    /// The sessions whose last write failed.
    troubled: FxHashSet<SessionId>,
    /// How many jobs came together last.
    last: usize,
    /// Whether a write has panicked.
    is_careful: bool,
    /// When something was written last; since when no more jobs come.
    progressed: Instant,
    closed: Option<Instant>,
}

impl ArchiveWorker {
    pub(super) fn new(
        archive: Arc<dyn Archive>,
        queue: Arc<ArchiveQueue>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            archive,
            queue,
            metrics,
            rereading: Vec::new(),
            kept: Vec::new(),
            stalled: None,
            is_stuck: false,
            troubled: FxHashSet::default(),
            last: 0,
            is_careful: false,
            progressed: Instant::now(),
            closed: None,
        }
    }

    pub(super) fn run(&mut self, jobs: &Receiver<ArchiveJob>) {
        loop {
            let first = match self.rest() {
                None => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(rest) => jobs.recv_timeout(rest),
            };
            let mut group = self.due();
            match first {
                Ok(first) => {
                    // Parked, it is not woken by each job that comes, but by those who wait.
                    let linger =
                        self.queue.limits.linger * if self.last < CROWD { 1 } else { CROWD_LINGER };
                    thread::park_timeout(linger.saturating_sub(first.waiter.given.elapsed()));
                    self.take(first, &mut group);
                    self.last = 1;
                    for job in jobs.try_iter().take(TOGETHER_MAX) {
                        self.take(job, &mut group);
                        self.last += 1;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let closed = *self.closed.get_or_insert_with(Instant::now);
                    if group.is_empty() && self.kept.is_empty() && self.rereading.is_empty() {
                        return;
                    }
                    if self.is_over(closed) {
                        self.give_up_all(group);
                        return;
                    }
                    if group.is_empty() {
                        thread::sleep(self.rest().unwrap_or(REREAD_TIME).min(PAUSE_MIN));
                    }
                }
            }
            self.enter(group);
        }
    }

    /// How long to wait for work if none comes; `None` if there is nothing else to do.
    fn rest(&self) -> Option<Duration> {
        let until = |at: Instant| at.saturating_duration_since(Instant::now());
        let rereading = (!self.rereading.is_empty()).then_some(REREAD_TIME);
        let kept = match self.stalled {
            Some((at, _)) => (!self.kept.is_empty()).then(|| until(at)),
            None => self.kept.iter().map(|(_, waiter)| until(waiter.due)).min(),
        };
        let rest = rereading.into_iter().chain(kept).min()?;
        Some(rest.max(REREAD_TIME))
    }

    /// Takes out what can be tried now: what waited for a ledger that was read, and what is due again.
    fn due(&mut self) -> Vec<WaitingWrite> {
        let now = Instant::now();
        if self.stalled.is_some_and(|(at, _)| now < at) {
            return Vec::new();
        }
        let mut group = self.reread();
        let most = match self.stalled {
            _ if self.is_stuck => usize::MAX,
            Some(_) => PROBE,
            None => TOGETHER_MAX,
        };
        let mut blocked = self.blocked();
        let mut rest = Vec::new();
        for entry in self.kept.drain(..) {
            let id = entry.0.session_id();
            if blocked.contains(&id) || group.len() >= most || entry.1.due > now {
                blocked.insert(id);
                rest.push(entry);
            } else {
                group.push(entry);
            }
        }
        self.kept = rest;
        group
    }

    /// The sessions whose ledgers are being read.
    fn blocked(&self) -> FxHashSet<SessionId> {
        self.rereading.iter().map(|(_, (write, _))| write.session_id()).collect()
    }

    /// Takes out what waited for threads that are done.
    fn reread(&mut self) -> Vec<WaitingWrite> {
        let (due, rest): (Vec<_>, Vec<_>) =
            self.rereading.drain(..).partition(|(thread, _)| thread.is_finished());
        self.rereading = rest;
        let entries = due.into_iter().map(|(thread, entry)| {
            let _ = thread.join();
            entry
        });
        entries.collect()
    }

    /// Waits a moment for ledgers that are read again, and enters what waited for them.
    fn wait_for_rereading(&mut self) {
        let started = Instant::now();
        while !self.rereading.is_empty() && started.elapsed() < REREADING_TIME_MAX {
            thread::sleep(REREAD_TIME);
            let group = self.due();
            self.enter(group);
        }
    }

    fn take(&mut self, job: ArchiveJob, group: &mut Vec<WaitingWrite>) {
        match job.work {
            ArchiveWork::Enter(write) => {
                let id = write.session_id();
                let is_behind = |(kept, _): &WaitingWrite| kept.session_id() == id;
                let waits = self.stalled.is_some()
                    || self.kept.iter().any(is_behind)
                    || self.rereading.iter().any(|(_, entry)| is_behind(entry));
                let entries = if waits { &mut self.kept } else { group };
                entries.push((write, job.waiter));
            }
            // It would take long, and then fail.
            ArchiveWork::Note(..) | ArchiveWork::Settle if self.stalled.is_some() => {
                self.finish(job.waiter, false);
            }
            ArchiveWork::Settle => {
                self.enter(std::mem::take(group));
                self.wait_for_rereading();
                self.finish(job.waiter, true);
            }
            ArchiveWork::Note(write, new) => {
                // It may need what was given before.
                self.enter(std::mem::take(group));
                self.wait_for_rereading();
                let done = unharmed(|| self.note(*write, new.as_deref())).unwrap_or(false);
                self.finish(job.waiter, done);
            }
        }
    }

    /// Writes what follows from no version. Returns whether it is written.
    fn note(&self, write: Write, new: Option<&NewSession>) -> bool {
        let is_begun = new.is_none_or(|new| self.archive.begin(write.session, new).is_ok());
        let written = is_begun.then(|| wait(self.archive.write(vec![write])));
        matches!(written, Some(Ok(outcomes)) if outcomes.iter().all(Result::is_ok))
    }

    /// Has all of a group entered in one transaction.
    fn enter(&mut self, group: Vec<WaitingWrite>) {
        if group.is_empty() {
            return;
        }
        // All writes to a session are one, in the order in which they came.
        let mut targets: Vec<(SessionWrite, Vec<WaitingWrite>)> = Vec::new();
        for (mut write, waiter) in group {
            // A session that was dropped from memory and read again has numbers of its own.
            let is_same = |target: &SessionWrite| Arc::ptr_eq(&target.session, write.session());
            let index = targets.iter().position(|(target, _)| is_same(target));
            let index = index.unwrap_or_else(|| {
                targets.push((SessionWrite::new(write.session()), Vec::new()));
                targets.len() - 1
            });
            let (target, added) = &mut targets[index];
            match unharmed(|| write.step(target)).unwrap_or(WriteStep::Refused) {
                WriteStep::Added => added.push((write, waiter)),
                WriteStep::Nothing => self.finish(waiter, true),
                WriteStep::Later => self.kept.push((write, waiter)),
                WriteStep::Replace
                    if write.places() > 0 && write.places().is_multiple_of(PLACES_MAX) =>
                {
                    write.rest();
                    self.trouble(write.session_id(), true);
                    self.keep((write, waiter), PLACE_PATIENCE);
                }
                WriteStep::Replace => self.again((write, waiter)),
                WriteStep::Refused => {
                    self.give_up((write, waiter), "its session is damaged or another owner's");
                }
            }
        }
        targets.retain(|(_, added)| !added.is_empty());
        self.is_stuck = targets.is_empty();
        if !targets.is_empty() {
            self.queue.begin();
            let writes = targets.iter_mut().map(|(target, _)| target.begin()).collect();
            let results = self.write(writes);
            self.queue.end(results.as_ref().err().map(ToString::to_string));
            if let Ok(results) = results {
                self.hear(results, targets);
            } else {
                for (target, _) in &targets {
                    target.end(None);
                }
                self.stall(targets.into_iter().flat_map(|(_, added)| added).collect());
            }
        }
        self.kept.sort_by_key(|(_, waiter)| waiter.number);
    }

    /// Handles the result of the write to each session.
    fn hear(
        &mut self,
        results: Vec<Option<Result<Version, ArchiveError>>>,
        targets: Vec<(SessionWrite, Vec<WaitingWrite>)>,
    ) {
        self.stalled = None;
        for (result, (target, group)) in results.into_iter().zip(targets) {
            target.end(result.as_ref());
            for write in group {
                self.hear_one(result.as_ref(), write);
            }
        }
    }

    fn hear_one(
        &mut self,
        result: Option<&Result<Version, ArchiveError>>,
        (mut write, waiter): WaitingWrite,
    ) {
        let outcome = match result {
            Some(result) => unharmed(|| write.entered(result)),
            None => (!write.is_batch()).then_some(WriteOutcome::Kept),
        };
        match outcome.unwrap_or(WriteOutcome::Failed) {
            WriteOutcome::Done => {
                self.metrics.archived.inc_by(write.new_entries());
                self.progressed = Instant::now();
                self.trouble(write.session_id(), false);
                self.finish(waiter, true);
            }
            WriteOutcome::Failed => {
                let why = match result {
                    Some(Err(error)) => error.to_string(),
                    _ => "the archive panicked".to_owned(),
                };
                self.give_up((write, waiter), &why);
            }
            WriteOutcome::Kept => {
                self.trouble(write.session_id(), true);
                self.keep((write, waiter), PATIENCE);
            }
            WriteOutcome::Again => self.again((write, waiter)),
        }
    }

    /// Has a session read again, in its own thread, since another process has written to it.
    fn again(&mut self, (mut write, waiter): WaitingWrite) {
        if self.blocked().contains(&write.session_id()) {
            self.kept.push((write, waiter));
            return;
        }
        let (session, archive) = (Arc::clone(write.session()), Arc::clone(&self.archive));
        let links = write.links();
        let read = move || {
            let _ = unharmed(|| wait(session.ready_for(&*archive, &links)));
        };
        match thread::Builder::new().name("longhand-reread".to_owned()).spawn(read) {
            Ok(thread) => self.rereading.push((thread, (write, waiter))),
            Err(_) => self.keep((write, waiter), PATIENCE),
        }
    }

    /// Makes all writes in one transaction. One that panics has no result, and then all are made one by one for a
    /// while.
    fn write(
        &mut self,
        writes: Vec<Write>,
    ) -> Result<Vec<Option<Result<Version, ArchiveError>>>, ArchiveError> {
        let count = writes.len();
        if !self.is_careful {
            let results = unharmed(|| wait(self.archive.write(writes)));
            self.is_careful = results.is_none();
            return match results {
                Some(results) => Ok(results?.into_iter().map(Some).collect()),
                None => Ok((0..count).map(|_| None).collect()),
            };
        }
        let mut all = Vec::with_capacity(count);
        for write in writes {
            let result = unharmed(|| wait(self.archive.write(vec![write]))).transpose()?;
            all.push(result.and_then(|mut results| results.pop()));
        }
        self.is_careful = all.iter().any(Option::is_none);
        Ok(all)
    }

    /// Keeps all writes since the archive failed; some are tried again after a pause.
    fn stall(&mut self, group: Vec<WaitingWrite>) {
        let tries = self.stalled.map_or(0, |(_, tries)| tries + 1);
        self.stalled = Some((Instant::now() + pause(tries), tries));
        self.kept.extend(group);
        for at in 0..self.kept.len() {
            let (write, waiter) = &mut self.kept[at];
            if waiter.given.elapsed() >= PATIENCE && tell(waiter, false) {
                self.metrics.unarchived.inc_by(write.count());
            }
        }
    }

    /// Keeps a write that failed; a waiter that waited for long is told.
    fn keep(&mut self, (write, mut waiter): WaitingWrite, patience: Duration) {
        waiter.due = Instant::now() + pause(waiter.tries);
        waiter.tries += 1;
        if waiter.given.elapsed() >= patience && tell(&mut waiter, false) {
            self.metrics.unarchived.inc_by(write.count());
        }
        self.kept.push((write, waiter));
    }

    /// Whether a stop has tried for long enough.
    fn is_over(&self, closed: Instant) -> bool {
        let farewell = self.queue.limits.farewell;
        let idle = self.progressed.max(closed).elapsed();
        let is_reading = !self.rereading.is_empty() && closed.elapsed() < farewell * FAREWELLS_MAX;
        idle >= farewell && !is_reading
    }

    fn give_up_all(&mut self, group: Vec<WaitingWrite>) {
        let rereading = std::mem::take(&mut self.rereading).into_iter().map(|(_, entry)| entry);
        let all: Vec<WaitingWrite> =
            group.into_iter().chain(rereading).chain(std::mem::take(&mut self.kept)).collect();
        for entry in all {
            self.give_up(entry, "the archive did not take it before the proxy stopped");
        }
    }

    /// Gives a write up: it is not archived unless a client sends it again.
    fn give_up(&mut self, (write, mut waiter): WaitingWrite, why: &str) {
        let messages = write.count();
        write.failed();
        self.queue.missing.give_up(&write.session().name, write.at_ms(), messages, why);
        self.metrics.lost.inc_by(messages);
        if messages > 0 {
            self.trouble(write.session_id(), true);
        }
        if tell(&mut waiter, false) {
            self.metrics.unarchived.inc_by(messages);
        }
        self.finish(waiter, false);
    }

    /// Notes whether the last write of a session failed.
    fn trouble(&mut self, session: SessionId, is_troubled: bool) {
        if is_troubled {
            self.troubled.insert(session);
        } else if !self.troubled.is_empty() {
            self.troubled.remove(&session);
        }
        self.metrics.troubled.set((self.troubled.len() as u64).cast_signed());
    }

    fn finish(&self, mut waiter: JobWaiter, done: bool) {
        self.queue.missing.ends(waiter.number);
        self.queue.free(waiter.weight);
        self.metrics.archive_queued.dec();
        self.metrics.archive_lag.observe(waiter.given.elapsed().as_secs_f64());
        tell(&mut waiter, done);
    }
}

/// Tells the waiter whether the write was done. Returns whether it was not told before.
fn tell(waiter: &mut JobWaiter, done: bool) -> bool {
    let teller = waiter.done.take();
    let is_new = teller.is_some();
    // Few wait for it.
    let _ = teller.map(|teller| teller.send(done));
    is_new
}

/// How long to wait after so many failures.
fn pause(tries: u32) -> Duration {
    (PAUSE_MIN * 2_u32.pow(tries.min(8))).min(PAUSE_MAX)
}

/// Runs work that may panic: a panic must not end the thread, or all later work would be lost.
fn unharmed<T>(work: impl FnOnce() -> T) -> Option<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).ok()
}
