//! The thread that writes to the archive, so that no request waits for a disk.
//!
//! Its queue keeps every job until it is written: an archive that fails is tried again and again. The queue refuses
//! nothing; while it is too long, requests are held back before they are read (`room`).

mod worker;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use longhand::Archive;
use longhand::driver::{PendingWrite, Ticket, WriteWeight};
use longhand_archive::{NewSession, Write};
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

use self::worker::ArchiveWorker;
use crate::lock::lock;
use crate::metrics::Metrics;
use crate::missing::MissingList;
use crate::store::now_ms;
use crate::{ServerError, Settings};

/// The most jobs that wait before requests are held back.
const JOBS_MAX: usize = 16_384;

/// How often a request that waits for room checks whether the archive fails.
const LOOK_TIME: Duration = Duration::from_millis(250);

/// A job of the archivist.
pub(crate) enum ArchiveWork {
    /// Writes to a session.
    Enter(Box<PendingWrite>),
    /// Writes what follows from no version of a session, which begins with it if it is to. It is not tried again.
    Note(Box<Write>, Option<Box<NewSession>>),
    /// Says when everything before it is written.
    Settle,
}

struct ArchiveJob {
    work: ArchiveWork,
    waiter: JobWaiter,
}

/// Who waits for a job, since when, and how much memory the job holds.
struct JobWaiter {
    number: u64,
    weight: WriteWeight,
    given: Instant,
    /// `None` once the waiter was told that it takes long.
    done: Option<oneshot::Sender<bool>>,
    /// When it is tried again, and how often it was tried.
    due: Instant,
    tries: u32,
}

/// Why writing to the archive fails, and since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArchiveOutage {
    pub(crate) since_ms: i64,
    pub(crate) why: String,
}

/// The limits of an archivist.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArchivistLimits {
    /// How long work may gather.
    pub(crate) linger: Duration,
    /// How many bytes of new messages may wait, and how many may be held in memory for them.
    pub(crate) new_max: usize,
    pub(crate) held_max: usize,
    /// How long a write may take before the archive counts as failing.
    pub(crate) silence: Duration,
    /// How long a stop tries to write to an archive that fails.
    pub(crate) farewell: Duration,
}

impl ArchivistLimits {
    pub(crate) fn of(settings: &Settings) -> Self {
        Self {
            linger: settings.archive_linger(),
            new_max: settings.archive_bytes_max,
            held_max: usize::try_from(settings.memory_bytes_max / 2).unwrap_or(usize::MAX),
            silence: settings.archive_silence,
            farewell: settings.archive_farewell,
        }
    }
}

/// The size of the queue, and the state of the archive.
struct ArchiveQueue {
    limits: ArchivistLimits,
    jobs: AtomicUsize,
    new: AtomicUsize,
    held: AtomicUsize,
    /// Notified whenever a job is done.
    freed: Notify,
    state: Mutex<WriterState>,
    missing: MissingList,
}

#[derive(Default)]
struct WriterState {
    /// Since when a write is under way.
    writing: Option<(Instant, i64)>,
    failing: Option<ArchiveOutage>,
}

/// Takes work for the archive.
pub(crate) struct Archivist {
    jobs: Mutex<Option<Sender<ArchiveJob>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    queue: Arc<ArchiveQueue>,
    numbers: AtomicU64,
    metrics: Arc<Metrics>,
}

impl Archivist {
    /// Starts the thread.
    pub(crate) fn start(
        archive: Arc<dyn Archive>,
        limits: ArchivistLimits,
        metrics: Arc<Metrics>,
    ) -> Result<Self, ServerError> {
        let (sender, jobs) = channel();
        let queue = Arc::new(ArchiveQueue {
            limits,
            jobs: AtomicUsize::new(0),
            new: AtomicUsize::new(0),
            held: AtomicUsize::new(0),
            freed: Notify::new(),
            state: Mutex::default(),
            missing: MissingList::default(),
        });
        let mut worker = ArchiveWorker::new(archive, Arc::clone(&queue), Arc::clone(&metrics));
        let thread = thread::Builder::new()
            .name("longhand-archivist".to_owned())
            .spawn(move || worker.run(&jobs))
            .map_err(ServerError::Thread)?;
        let (jobs, thread) = (Mutex::new(Some(sender)), Mutex::new(Some(thread)));
        Ok(Self { jobs, thread, queue, numbers: AtomicU64::new(0), metrics })
    }

    /// Queues a job; `None` once the archivist is closed.
    pub(crate) fn give(&self, weight: WriteWeight, work: ArchiveWork) -> Option<Ticket> {
        let (done, ticket) = oneshot::channel();
        let (given, number) = (Instant::now(), self.numbers.fetch_add(1, Ordering::Relaxed));
        let waiter = JobWaiter { number, weight, given, done: Some(done), due: given, tries: 0 };
        if let ArchiveWork::Enter(write) = &work {
            let (session, messages) = (write.session(), write.count());
            self.queue.missing.waits(number, session, write.at_ms(), messages);
        }
        self.queue.add(weight);
        self.metrics.archive_queued.inc();
        let jobs = lock(&self.jobs);
        let is_given =
            jobs.as_ref().is_some_and(|jobs| jobs.send(ArchiveJob { work, waiter }).is_ok());
        if !is_given {
            self.queue.missing.ends(number);
            self.queue.free(weight);
            self.metrics.archive_queued.dec();
        }
        is_given.then_some(ticket)
    }

    /// Waits until the queue has room for another request. Returns whether it has.
    ///
    /// It does not wait for an archive that fails.
    pub(crate) async fn room(&self, time_max: Duration) -> bool {
        let deadline = Instant::now() + time_max;
        loop {
            let freed = self.queue.freed.notified();
            if self.queue.has_room() {
                return true;
            }
            let rest = deadline.saturating_duration_since(Instant::now());
            if rest.is_zero() || self.outage().is_some() {
                return false;
            }
            // A notification may be missed: then it looks again.
            let _ = timeout(rest.min(LOOK_TIME), freed).await;
        }
    }

    /// What is wrong with the archive, if it fails or does not answer.
    pub(crate) fn outage(&self) -> Option<ArchiveOutage> {
        let state = lock(&self.queue.state);
        let silent = || {
            let (_, since_ms) =
                state.writing.filter(|(at, _)| at.elapsed() > self.queue.limits.silence)?;
            Some(ArchiveOutage { since_ms, why: "it does not answer".to_owned() })
        };
        state.failing.clone().or_else(silent)
    }

    /// Whether the last write succeeded.
    pub(crate) fn is_writing(&self) -> bool {
        lock(&self.queue.state).failing.is_none()
    }

    /// The messages that are not in the archive.
    pub(crate) fn missing(&self) -> &MissingList {
        &self.queue.missing
    }

    /// Has the queue written at once: somebody waits.
    pub(crate) fn hurry(&self) {
        let thread = lock(&self.thread);
        if let Some(thread) = &*thread {
            thread.thread().unpark();
        }
    }

    /// Waits until all jobs are done, or given up since the archive fails. Takes no more jobs.
    pub(crate) fn close(&self) {
        drop(lock(&self.jobs).take());
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl ArchiveQueue {
    fn has_room(&self) -> bool {
        self.jobs.load(Ordering::Relaxed) < JOBS_MAX
            && self.new.load(Ordering::Relaxed) < self.limits.new_max
            && self.held.load(Ordering::Relaxed) < self.limits.held_max
    }

    fn add(&self, weight: WriteWeight) {
        self.jobs.fetch_add(1, Ordering::Relaxed);
        self.new.fetch_add(weight.new, Ordering::Relaxed);
        self.held.fetch_add(weight.held, Ordering::Relaxed);
    }

    fn free(&self, weight: WriteWeight) {
        self.jobs.fetch_sub(1, Ordering::Relaxed);
        self.new.fetch_sub(weight.new, Ordering::Relaxed);
        self.held.fetch_sub(weight.held, Ordering::Relaxed);
        self.freed.notify_waiters();
    }

    /// Notes that a write begins.
    fn begin(&self) {
        lock(&self.state).writing = Some((Instant::now(), now_ms()));
    }

    /// Notes that a write has ended, and why it failed if it did.
    fn end(&self, failure: Option<String>) {
        let mut state = lock(&self.state);
        let begun_ms = state.writing.take().map_or_else(now_ms, |(_, since_ms)| since_ms);
        match (failure, &mut state.failing) {
            (None, failing) => *failing = None,
            (Some(why), Some(failing)) => failing.why = why,
            (Some(why), failing) => *failing = Some(ArchiveOutage { since_ms: begun_ms, why }),
        }
    }
}
