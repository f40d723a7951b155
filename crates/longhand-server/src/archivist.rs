//! The threads that archive, so that no request waits for a disk.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use rustc_hash::FxHasher;
use tokio::sync::oneshot;

use crate::ServerError;
use crate::metrics::Metrics;

/// How many threads write; what they write at the same time goes to the disk together.
const THREADS: usize = 8;

/// The most jobs of one thread that wait, and the most bytes that all of them hold.
const JOBS_MAX: usize = 4_096;
const BYTES_MAX: usize = 256 << 20;

/// Does work on the archive soon, in the order in which it was given for each session.
pub(crate) struct Archivist {
    desks: Mutex<Vec<SyncSender<Job>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    bytes: Arc<AtomicUsize>,
    metrics: Arc<Metrics>,
}

struct Job {
    work: Box<dyn FnOnce() -> bool + Send>,
    bytes: usize,
    given: Instant,
    done: oneshot::Sender<bool>,
}

/// Tells whether work was done: it is durable then.
pub(crate) type Ticket = oneshot::Receiver<bool>;

impl Archivist {
    pub(crate) fn start(metrics: Arc<Metrics>) -> Result<Self, ServerError> {
        let bytes = Arc::new(AtomicUsize::new(0));
        let (mut desks, mut threads) = (Vec::new(), Vec::new());
        for _ in 0..THREADS {
            let (desk, jobs) = sync_channel(JOBS_MAX);
            let (bytes, metrics) = (Arc::clone(&bytes), Arc::clone(&metrics));
            let thread = thread::Builder::new()
                .name("longhand-archivist".to_owned())
                .spawn(move || run(&jobs, &bytes, &metrics))
                .map_err(ServerError::Thread)?;
            desks.push(desk);
            threads.push(thread);
        }
        Ok(Self { desks: Mutex::new(desks), threads: Mutex::new(threads), bytes, metrics })
    }

    /// Has work done that holds so many bytes; `None` if there is too much to do already.
    pub(crate) fn give(
        &self,
        session: &str,
        bytes: usize,
        work: impl FnOnce() -> bool + Send + 'static,
    ) -> Option<Ticket> {
        let (done, ticket) = oneshot::channel();
        let job = Job { work: Box::new(work), bytes, given: Instant::now(), done };
        let mut hasher = FxHasher::default();
        session.hash(&mut hasher);
        let desks = self.desks.lock().unwrap_or_else(PoisonError::into_inner);
        let desk = desks.get((hasher.finish() % THREADS as u64) as usize)?;
        if self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > BYTES_MAX {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            return None;
        }
        self.metrics.archive_queued.inc();
        match desk.try_send(job) {
            Ok(()) => Some(ticket),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.bytes.fetch_sub(bytes, Ordering::Relaxed);
                self.metrics.archive_queued.dec();
                None
            }
        }
    }

    /// Waits until all is done; takes nothing more.
    pub(crate) fn close(&self) {
        self.desks.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            let _ = thread.join();
        }
    }
}

fn run(jobs: &Receiver<Job>, bytes: &AtomicUsize, metrics: &Metrics) {
    while let Ok(job) = jobs.recv() {
        // A panic must not end the thread: all later work would be lost.
        let work = std::panic::AssertUnwindSafe(job.work);
        let done = std::panic::catch_unwind(work).unwrap_or(false);
        bytes.fetch_sub(job.bytes, Ordering::Relaxed);
        metrics.archive_queued.dec();
        metrics.archive_lag.observe(job.given.elapsed().as_secs_f64());
        // Few wait for it.
        let _ = job.done.send(done);
    }
}
