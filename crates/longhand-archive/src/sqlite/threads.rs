//! Threads on which storage works, so that no caller's thread is blocked.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The most threads at a time.
const THREADS_MAX: usize = 8;

/// How long a thread waits for more to do before it ends.
const IDLE_MAX: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

/// As many threads as there is work for, up to a limit.
#[derive(Debug, Default)]
pub(super) struct Threads {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<JobQueue>,
    changed: Condvar,
}

#[derive(Default)]
struct JobQueue {
    jobs: VecDeque<Job>,
    /// Threads that wait for a job.
    idle: usize,
    threads: Vec<JoinHandle<()>>,
    is_closed: bool,
}

impl fmt::Debug for JobQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "queue of {} jobs for {} threads", self.jobs.len(), self.threads.len())
    }
}

impl Threads {
    /// Runs a job on a thread. If no thread can be started, the job is dropped.
    pub(super) fn submit(&self, job: impl FnOnce() + Send + 'static) {
        let mut queue = self.shared.queue();
        queue.jobs.push_back(Box::new(job));
        if queue.idle >= queue.jobs.len() {
            self.shared.changed.notify_one();
            return;
        }
        queue.threads.retain(|thread| !thread.is_finished());
        if queue.threads.len() < THREADS_MAX {
            let shared = Arc::clone(&self.shared);
            let builder = thread::Builder::new().name("longhand-storage".to_owned());
            match builder.spawn(move || shared.work()) {
                Ok(thread) => queue.threads.push(thread),
                Err(_) if queue.threads.is_empty() => queue.jobs.clear(),
                Err(_) => {}
            }
        }
    }
}

impl Drop for Threads {
    /// Waits until all is done: connections that are still open would keep the log from being emptied.
    fn drop(&mut self) {
        let threads = {
            let mut queue = self.shared.queue();
            queue.is_closed = true;
            std::mem::take(&mut queue.threads)
        };
        self.shared.changed.notify_all();
        for thread in threads {
            // The last one who had the storage may have been such a thread.
            if thread.thread().id() != thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, JobQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some(job) = self.next() {
            // The caller of a job that panics gets an error.
            let _ = catch_unwind(AssertUnwindSafe(job));
        }
    }

    /// Waits for a job; `None` if there is none for a while, or none will come.
    fn next(&self) -> Option<Job> {
        let mut queue = self.queue();
        queue.idle += 1;
        let has_none = |queue: &mut JobQueue| queue.jobs.is_empty() && !queue.is_closed;
        let waited = self.changed.wait_timeout_while(queue, IDLE_MAX, has_none);
        let (mut queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
        queue.idle -= 1;
        queue.jobs.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn all_jobs_are_done_even_after_one_has_panicked() {
        let done = Arc::new(AtomicUsize::new(0));
        let threads = Threads::default();
        let (first, started) = mpsc::channel();
        for number in 0..100 {
            let (done, first) = (Arc::clone(&done), first.clone());
            threads.submit(move || {
                let _ = first.send(());
                assert!(number % 7 != 0, "a job that panics");
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
        started.recv().unwrap();
        assert!(threads.shared.queue().threads.len() <= THREADS_MAX);
        drop(threads);
        assert_eq!(done.load(Ordering::Relaxed), 85);
    }
}
