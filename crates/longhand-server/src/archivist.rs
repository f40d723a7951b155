//! The thread that archives, so that no request waits for a disk.
//!
//! It takes what has come in the meantime together: one transaction for all of it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use longhand::{Archive, SessionId};
use longhand_archive::{Addition, Appended, ArchiveError};
use rustc_hash::FxHashSet;
use tokio::sync::oneshot;

use crate::ServerError;
use crate::metrics::Metrics;
use crate::store::{Entering, Outcome, Step};

/// The most jobs that wait, and the most bytes that they hold.
const JOBS_MAX: usize = 16_384;
const BYTES_MAX: usize = 128 << 20;

/// How many jobs go into one transaction.
const TOGETHER_MAX: usize = 1_024;

/// If so many came together, the next ones gather for longer: a transaction reads and writes where each of
/// its sessions stands, however much of a session there is in it.
const CROWD: usize = 32;
const CROWD_LINGER: u32 = 3;

/// Something to be archived.
pub(crate) enum Work {
    /// Something of a session.
    Enter(Box<Entering>),
    /// Something else; it says whether it was done.
    Other(Box<dyn FnOnce() -> bool + Send>),
}

/// Tells whether work was done: it is durable then.
pub(crate) type Ticket = oneshot::Receiver<bool>;

struct Job {
    work: Work,
    waiter: Waiter,
}

/// Who waits for a job, since when.
struct Waiter {
    bytes: usize,
    given: Instant,
    done: oneshot::Sender<bool>,
}

/// Takes work for the archive.
pub(crate) struct Archivist {
    queue: Mutex<Option<SyncSender<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    bytes: Arc<AtomicUsize>,
    is_writing: Arc<AtomicBool>,
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
        let (queue, jobs) = sync_channel(JOBS_MAX);
        let is_writing = Arc::new(AtomicBool::new(true));
        let mut worker = Worker {
            archive,
            linger,
            bytes: Arc::clone(&bytes),
            is_writing: Arc::clone(&is_writing),
            metrics: Arc::clone(&metrics),
            rereading: Vec::new(),
            troubled: FxHashSet::default(),
            last: 0,
        };
        let thread = thread::Builder::new()
            .name("longhand-archivist".to_owned())
            .spawn(move || worker.run(&jobs))
            .map_err(ServerError::Thread)?;
        let (queue, thread) = (Mutex::new(Some(queue)), Mutex::new(Some(thread)));
        Ok(Self { queue, thread, bytes, is_writing, metrics })
    }

    /// Has work done that holds so many bytes; `None` if there is too much to do already.
    pub(crate) fn give(&self, bytes: usize, work: Work) -> Option<Ticket> {
        let (done, ticket) = oneshot::channel();
        let job = Job { work, waiter: Waiter { bytes, given: Instant::now(), done } };
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = queue.as_ref()?;
        self.metrics.archive_queued.inc();
        let held = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        // What is alone too large is taken if nothing else waits.
        if (held > BYTES_MAX && held > bytes) || queue.try_send(job).is_err() {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.metrics.archive_queued.dec();
            return None;
        }
        Some(ticket)
    }

    /// Whether the archive took what it was given last.
    pub(crate) fn is_writing(&self) -> bool {
        self.is_writing.load(Ordering::Relaxed)
    }

    /// Has it begin at once: somebody waits.
    pub(crate) fn hurry(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = &*thread {
            thread.thread().unpark();
        }
    }

    /// Waits until all is done; takes nothing more.
    pub(crate) fn close(&self) {
        drop(self.queue.lock().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

/// Does the work.
struct Worker {
    archive: Arc<dyn Archive>,
    linger: Duration,
    bytes: Arc<AtomicUsize>,
    is_writing: Arc<AtomicBool>,
    metrics: Arc<Metrics>,
    /// What waits until the ledger of its session was read again, each with the thread that does so: one long
    /// session holds up no other.
    rereading: Vec<(JoinHandle<()>, Entry)>,
    /// The sessions that the archive did not take something of last.
    troubled: FxHashSet<SessionId>,
    /// How many jobs came together last.
    last: usize,
}

/// Something of a session, and who waits for it.
type Entry = (Box<Entering>, Waiter);

/// How often it is looked whether a ledger was read.
const REREAD_TIME: Duration = Duration::from_millis(5);

/// How long work that may depend on it waits for a ledger that is read.
const REREADING_TIME_MAX: Duration = Duration::from_millis(50);

impl Worker {
    fn run(&mut self, jobs: &Receiver<Job>) {
        loop {
            let first = if self.rereading.is_empty() {
                jobs.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                jobs.recv_timeout(REREAD_TIME)
            };
            let mut group = self.reread(JoinHandle::is_finished);
            match first {
                Ok(first) => {
                    // Parked, it is not woken by each job that comes, but by those who wait.
                    let linger = self.linger * if self.last < CROWD { 1 } else { CROWD_LINGER };
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
                    group.extend(self.reread(|_| true));
                    if group.is_empty() {
                        return;
                    }
                }
            }
            self.enter(&mut group);
        }
    }

    /// Takes out what waited for threads that are done, or are to be waited for.
    fn reread(&mut self, is_due: impl Fn(&JoinHandle<()>) -> bool) -> Vec<Entry> {
        let (due, rest): (Vec<_>, Vec<_>) =
            self.rereading.drain(..).partition(|(thread, _)| is_due(thread));
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
            let mut group = self.reread(JoinHandle::is_finished);
            self.enter(&mut group);
        }
    }

    fn take(&mut self, job: Job, group: &mut Vec<Entry>) {
        match job.work {
            Work::Enter(entering) => group.push((entering, job.waiter)),
            Work::Other(work) => {
                // It may need what was given before.
                self.enter(group);
                self.wait_for_rereading();
                self.finish(job.waiter, unharmed(work).unwrap_or(false));
            }
        }
    }

    /// Has all of a group entered in one transaction.
    fn enter(&mut self, group: &mut Vec<Entry>) {
        let mut additions = Vec::with_capacity(group.len());
        let mut left = Vec::with_capacity(group.len());
        for (mut entering, waiter) in group.drain(..) {
            match unharmed(|| entering.step()).unwrap_or(Step::Refused) {
                Step::Add(addition) => {
                    additions.push(*addition);
                    left.push((entering, waiter));
                }
                Step::Nothing => self.finish(waiter, true),
                Step::Refused => self.failed(&entering, waiter),
            }
        }
        if additions.is_empty() {
            return;
        }
        let results = self.append(&additions);
        for (result, (mut entering, waiter)) in results.iter().zip(left) {
            let entered = || {
                let Some(result) = result else {
                    entering.failed();
                    return Outcome::Failed;
                };
                entering.entered(&*self.archive, result)
            };
            match unharmed(entered).unwrap_or(Outcome::Failed) {
                Outcome::Done => {
                    let appended = result.as_ref().and_then(|result| result.as_ref().ok());
                    self.metrics.archived.inc_by(appended.map_or(0, |appended| appended.new));
                    self.trouble(entering.session_id(), false);
                    self.finish(waiter, true);
                }
                Outcome::Failed => self.failed(&entering, waiter),
                Outcome::Again => self.again(entering, waiter),
            }
        }
    }

    /// Others were first: has the ledger of the session read again, in a thread of its own.
    fn again(&mut self, entering: Box<Entering>, waiter: Waiter) {
        let (session, archive) = (Arc::clone(entering.session()), Arc::clone(&self.archive));
        let read = move || {
            let _ = unharmed(|| session.catch_up(&*archive));
        };
        match thread::Builder::new().name("longhand-reread".to_owned()).spawn(read) {
            Ok(thread) => self.rereading.push((thread, (entering, waiter))),
            Err(_) => self.failed(&entering, waiter),
        }
    }

    /// Adds all in one transaction; if that panics, each in one of its own, so that none suffers for
    /// another. What cannot be added has no result.
    fn append(&self, additions: &[Addition]) -> Vec<Option<Result<Appended, ArchiveError>>> {
        match unharmed(|| attempt(|| self.archive.append_all(additions))) {
            Some(Ok(results)) => {
                self.is_writing.store(true, Ordering::Relaxed);
                results.into_iter().map(Some).collect()
            }
            None if additions.len() > 1 => {
                additions.chunks(1).flat_map(|single| self.append(single)).collect()
            }
            Some(Err(_)) => {
                self.is_writing.store(false, Ordering::Relaxed);
                additions.iter().map(|_| None).collect()
            }
            None => vec![None],
        }
    }

    fn failed(&mut self, entering: &Entering, waiter: Waiter) {
        self.metrics.unarchived.inc_by(entering.count());
        self.trouble(entering.session_id(), true);
        self.finish(waiter, false);
    }

    /// Takes note of whether the archive took something of a session.
    fn trouble(&mut self, session: SessionId, is_troubled: bool) {
        if is_troubled {
            self.troubled.insert(session);
        } else if !self.troubled.is_empty() {
            self.troubled.remove(&session);
        }
        self.metrics.troubled.set((self.troubled.len() as u64).cast_signed());
    }

    fn finish(&self, waiter: Waiter, done: bool) {
        self.bytes.fetch_sub(waiter.bytes, Ordering::Relaxed);
        self.metrics.archive_queued.dec();
        self.metrics.archive_lag.observe(waiter.given.elapsed().as_secs_f64());
        // Few wait for it.
        let _ = waiter.done.send(done);
    }
}

/// Does something that may panic; that must not end the thread, or all later work would be lost.
fn unharmed<T>(work: impl FnOnce() -> T) -> Option<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).ok()
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
                | ArchiveError::Moved { .. }
                | ArchiveError::ForeignLog { .. }
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
