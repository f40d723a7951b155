//! The thread that archives, so that no request waits for a disk.
//!
//! It takes what has come in the meantime together: one transaction for all of it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use longhand::Archive;
use longhand_archive::ArchiveError;
use tokio::sync::oneshot;

use crate::ServerError;
use crate::metrics::Metrics;
use crate::store::{Entering, Outcome, Step};

/// The most jobs that wait, and the most bytes that they hold.
const JOBS_MAX: usize = 16_384;
const BYTES_MAX: usize = 256 << 20;

/// How many jobs go into one transaction.
const TOGETHER_MAX: usize = 1_024;

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

    /// Has it begin at once: somebody waits.
    pub(crate) fn hurry(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = &*thread {
            thread.thread().unpark();
        }
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

/// What is left of a job: who waits for it, since when.
struct Slip {
    bytes: usize,
    given: Instant,
    done: oneshot::Sender<bool>,
}

impl Clerk {
    fn run(&self, jobs: &Receiver<Job>) {
        while let Ok(first) = jobs.recv() {
            // Parked, it is not woken by each job that comes, but by those who wait.
            thread::park_timeout(self.linger.saturating_sub(first.given.elapsed()));
            let mut pile = Vec::new();
            self.take(first, &mut pile);
            for job in jobs.try_iter().take(TOGETHER_MAX) {
                self.take(job, &mut pile);
            }
            self.enter(&mut pile);
        }
    }

    fn take(&self, job: Job, pile: &mut Vec<(Box<Entering>, Slip)>) {
        let Job { work, bytes, given, done } = job;
        let slip = Slip { bytes, given, done };
        match work {
            Work::Enter(entering) => pile.push((entering, slip)),
            Work::Other(work) => {
                // It may need what was given before.
                self.enter(pile);
                self.finish(slip, unharmed(work).unwrap_or(false));
            }
        }
    }

    /// Has all of a pile entered in one transaction, and what others were faster than in the next.
    fn enter(&self, pile: &mut Vec<(Box<Entering>, Slip)>) {
        while !pile.is_empty() {
            let mut additions = Vec::with_capacity(pile.len());
            let mut left = Vec::with_capacity(pile.len());
            for (mut entering, slip) in pile.drain(..) {
                match unharmed(|| entering.step()).unwrap_or(Step::Refused) {
                    Step::Add(addition) => {
                        additions.push(*addition);
                        left.push((entering, slip));
                    }
                    Step::Nothing => self.finish(slip, true),
                    Step::Refused => {
                        self.metrics.unarchived.inc_by(entering.count());
                        self.finish(slip, false);
                    }
                }
            }
            let entered = unharmed(|| attempt(|| self.archive.append_all(&additions)));
            let Some(Ok(results)) = entered else {
                for (entering, slip) in left {
                    entering.failed();
                    self.metrics.unarchived.inc_by(entering.count());
                    self.finish(slip, false);
                }
                return;
            };
            for (result, (mut entering, slip)) in results.iter().zip(left) {
                match entering.entered(&*self.archive, result) {
                    Outcome::Done => {
                        self.metrics
                            .archived
                            .inc_by(result.as_ref().map_or(0, |appended| appended.new));
                        self.finish(slip, true);
                    }
                    Outcome::Failed => {
                        self.metrics.unarchived.inc_by(entering.count());
                        self.finish(slip, false);
                    }
                    Outcome::Again => pile.push((entering, slip)),
                }
            }
        }
    }

    fn finish(&self, slip: Slip, done: bool) {
        self.bytes.fetch_sub(slip.bytes, Ordering::Relaxed);
        self.metrics.archive_queued.dec();
        self.metrics.archive_lag.observe(slip.given.elapsed().as_secs_f64());
        // Few wait for it.
        let _ = slip.done.send(done);
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
