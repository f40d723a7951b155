//! The thread that archives, so that no request waits for a disk.
//!
//! It takes what has come in the meantime together: one transaction for all of it.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use longhand::{Archive, SessionId};
use longhand_archive::{Addition, After, Appended, ArchiveError, Form};
use longhand_core::{Handle, Seq};
use rustc_hash::FxHashSet;
use tokio::sync::oneshot;

use crate::ServerError;
use crate::metrics::Metrics;

/// The most jobs that wait, and the most bytes that they hold.
const JOBS_MAX: usize = 16_384;
const BYTES_MAX: usize = 256 << 20;

/// How many jobs go into one transaction.
const TOGETHER_MAX: usize = 1_024;

/// How often an addition is offered to another place when its own is taken.
const PLACES_MAX: usize = 8;

/// Something to be archived.
pub(crate) enum Work {
    /// Entries of a session.
    Append(Box<dyn Appending>),
    /// Something of a session under its handle.
    Keep(SessionId, Original),
    /// Something else; it says whether it was done.
    Other(Box<dyn FnOnce() -> bool + Send>),
}

/// A text that a handle stands for.
pub(crate) type Original = (Handle, String, Form);

/// Entries that know where they belong.
pub(crate) trait Appending: Send {
    /// What is to be added, where it belongs by now; `None` if it is there already.
    fn addition(&mut self) -> Option<Addition>;

    /// Its place is taken: finds another one and says whether there is one.
    fn displaced(&mut self) -> bool;

    /// Another process wrote at the same moment: it is archived, but under other numbers.
    fn moved(&mut self);

    /// The archive does not take it.
    fn refused(&mut self);
}

/// Tells whether work was done: it is durable then.
pub(crate) type Ticket = oneshot::Receiver<bool>;

struct Job {
    work: Work,
    bytes: usize,
    given: Instant,
    done: oneshot::Sender<bool>,
}

/// Takes work for the archive.
pub(crate) struct Archivist {
    desk: Mutex<Option<SyncSender<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    bytes: Arc<AtomicUsize>,
    metrics: Arc<Metrics>,
}

impl Archivist {
    /// Starts the thread; it lets work gather for so long.
    pub(crate) fn start(
        archive: Arc<dyn Archive>,
        linger: Duration,
        metrics: Arc<Metrics>,
    ) -> Result<Self, ServerError> {
        let bytes = Arc::new(AtomicUsize::new(0));
        let (desk, jobs) = sync_channel(JOBS_MAX);
        let clerk =
            Clerk { archive, linger, bytes: Arc::clone(&bytes), metrics: Arc::clone(&metrics) };
        let thread = thread::Builder::new()
            .name("longhand-archivist".to_owned())
            .spawn(move || clerk.run(&jobs))
            .map_err(ServerError::Thread)?;
        let (desk, thread) = (Mutex::new(Some(desk)), Mutex::new(Some(thread)));
        Ok(Self { desk, thread, bytes, metrics })
    }

    /// Has work done that holds so many bytes; `None` if there is too much to do already.
    pub(crate) fn give(&self, bytes: usize, work: Work) -> Option<Ticket> {
        let (done, ticket) = oneshot::channel();
        let job = Job { work, bytes, given: Instant::now(), done };
        let desk = self.desk.lock().unwrap_or_else(PoisonError::into_inner);
        let desk = desk.as_ref()?;
        self.metrics.archive_queued.inc();
        let held = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if held > BYTES_MAX || desk.try_send(job).is_err() {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.metrics.archive_queued.dec();
            return None;
        }
        Some(ticket)
    }

    /// Waits until all is done; takes nothing more.
    pub(crate) fn close(&self) {
        drop(self.desk.lock().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

/// Does the work.
struct Clerk {
    archive: Arc<dyn Archive>,
    linger: Duration,
    bytes: Arc<AtomicUsize>,
    metrics: Arc<Metrics>,
}

/// Work of one kind that is done together.
#[derive(Default)]
struct Pile {
    appends: Vec<(Box<dyn Appending>, Slip)>,
    keeps: Vec<(SessionId, Original, Slip)>,
}

/// What is left of a job: who waits for it, since when.
struct Slip {
    bytes: usize,
    given: Instant,
    done: oneshot::Sender<bool>,
}

impl Clerk {
    fn run(&self, jobs: &Receiver<Job>) {
        while let Ok(first) = jobs.recv() {
            // Asleep, it is not woken by each job that comes.
            thread::sleep(self.linger.saturating_sub(first.given.elapsed()));
            let mut pile = Pile::default();
            self.take(first, &mut pile);
            for job in jobs.try_iter().take(TOGETHER_MAX) {
                self.take(job, &mut pile);
            }
            self.flush(&mut pile);
        }
    }

    fn take(&self, job: Job, pile: &mut Pile) {
        let Job { work, bytes, given, done } = job;
        let slip = Slip { bytes, given, done };
        match work {
            Work::Append(append) => pile.appends.push((append, slip)),
            Work::Keep(session, original) => pile.keeps.push((session, original, slip)),
            Work::Other(work) => {
                // It may need what was given before.
                self.flush(pile);
                // A panic must not end the thread: all later work would be lost.
                let work = std::panic::AssertUnwindSafe(work);
                self.finish(slip, std::panic::catch_unwind(work).unwrap_or(false));
            }
        }
    }

    fn flush(&self, pile: &mut Pile) {
        self.append(std::mem::take(&mut pile.appends));
        for (session, original, slip) in std::mem::take(&mut pile.keeps) {
            let original = [original];
            let kept = attempt(|| self.archive.keep(session, &original));
            self.finish(slip, matches!(kept, Ok(0)));
        }
    }

    fn append(&self, mut appends: Vec<(Box<dyn Appending>, Slip)>) {
        let mut displaced = 0;
        while !appends.is_empty() {
            let mut additions = Vec::with_capacity(appends.len());
            let mut left = Vec::with_capacity(appends.len());
            for (mut append, slip) in appends {
                match append.addition() {
                    Some(addition) => {
                        additions.push(addition);
                        left.push((append, slip));
                    }
                    None => self.finish(slip, true),
                }
            }
            appends = left;
            let Ok(results) = attempt(|| self.append_in_place(&additions)) else { break };
            let made = appends.drain(..results.len());
            for ((result, addition), (mut append, slip)) in results.iter().zip(&additions).zip(made)
            {
                match result {
                    Ok(appended) => {
                        self.metrics.archived.inc_by(appended.new);
                        if !appended.seqs.iter().map(|seq| seq.0).eq(seqs(addition)) {
                            append.moved();
                        }
                    }
                    Err(_) => append.refused(),
                }
                self.finish(slip, result.is_ok());
                displaced = 0;
            }
            if !results.is_empty() {
                continue;
            }
            let Some((append, _)) = appends.first_mut() else { return };
            displaced += 1;
            if displaced > PLACES_MAX || !append.displaced() {
                let (mut append, slip) = appends.remove(0);
                append.refused();
                self.finish(slip, false);
                displaced = 0;
            }
        }
        for (mut append, slip) in appends {
            append.refused();
            self.finish(slip, false);
        }
    }

    /// Makes additions in the places that they are meant for, in one transaction; ends before the first
    /// one whose session has more or fewer entries than it thinks.
    ///
    /// It also ends before the second one of a session. Another process may write between the check and
    /// the transaction, and then the first one gets other numbers than the second one builds on.
    fn append_in_place(
        &self,
        additions: &[Addition],
    ) -> Result<Vec<Result<Appended, ArchiveError>>, ArchiveError> {
        let mut seen: FxHashSet<SessionId> = FxHashSet::default();
        let mut in_place = 0;
        for addition in additions {
            if !seen.insert(addition.session) {
                break;
            }
            let head = self.archive.head(addition.session)?;
            if head.map_or(0, |head| head.entries) != seqs(addition).start {
                break;
            }
            in_place += 1;
        }
        self.archive.append_all(&additions[..in_place])
    }

    fn finish(&self, slip: Slip, done: bool) {
        self.bytes.fetch_sub(slip.bytes, Ordering::Relaxed);
        self.metrics.archive_queued.dec();
        self.metrics.archive_lag.observe(slip.given.elapsed().as_secs_f64());
        // Few wait for it.
        let _ = slip.done.send(done);
    }
}

/// The numbers that the entries of an addition are meant to get.
fn seqs(addition: &Addition) -> Range<u64> {
    let first = match addition.after {
        After::Entry(Some(Seq(before))) => before + 1,
        After::Entry(None) | After::Newest => 0,
    };
    first..first + addition.entries.len() as u64
}

/// How often and how long to try when an archive is busy or its disk is full.
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(50);

/// Tries until it is done, or until trying again would not help.
pub(crate) fn attempt<T>(act: impl Fn() -> Result<T, ArchiveError>) -> Result<T, ArchiveError> {
    let is_final = |error: &ArchiveError| {
        matches!(
            error,
            ArchiveError::Conflict { .. }
                | ArchiveError::UnknownSession { .. }
                | ArchiveError::NoSuchEntries { .. }
        )
    };
    let mut done = act();
    for attempt in 1..ATTEMPTS {
        match done {
            Err(ref error) if !is_final(error) => {
                thread::sleep(PAUSE * 2_u32.pow(attempt));
                done = act();
            }
            _ => break,
        }
    }
    done
}
