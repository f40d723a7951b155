//! The thread that writes, and the queue of calls that share its transactions.
//!
//! Each transaction takes the calls that arrived during the one before it. So a single caller waits for its own sync
//! only, and many callers share one.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use futures_channel::oneshot;
use rusqlite::Connection;

use super::background::BackgroundThread;
use super::fault::Fault;
use super::maintenance;
use super::place::Place;
use super::sweep::Left;
use super::write_connection::{WriteConnection, WriteJob};
use crate::ArchiveError;

/// How many calls share a transaction at most.
const GROUP_MAX: usize = 256;
/// How long a transaction waits for as many calls as the last one had: they were woken together
/// and arrive one by one, and a sync of the disk takes far longer.
const GATHER_MAX: Duration = Duration::from_micros(300);

/// Queues changes for the thread that writes.
#[derive(Debug)]
pub(super) struct Writer {
    archive: String,
    queue: Arc<WriteQueue>,
    thread: Option<JoinHandle<()>>,
    place: Arc<Place>,
    connection: Arc<Mutex<WriteConnection>>,
}

#[derive(Debug, Default)]
struct WriteQueue {
    waiting: Mutex<Waiting>,
    /// Told when a call joins the queue.
    arrival: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    jobs: Vec<Box<dyn WriteJob>>,
    is_closed: bool,
}

impl Writer {
    pub(super) fn start(
        path: &Path,
        place: Arc<Place>,
        db: Connection,
        wait_max: Duration,
    ) -> Result<Self, ArchiveError> {
        let archive = path.display().to_string();
        let connection = WriteConnection::new(archive.clone(), db, Arc::clone(&place), wait_max);
        let connection = Arc::new(Mutex::new(connection));
        let background =
            BackgroundThread::start(path, Arc::clone(&place), Arc::clone(&connection))?;
        let queue = Arc::new(WriteQueue::default());
        let worker = WriteWorker {
            queue: Arc::clone(&queue),
            connection: Arc::clone(&connection),
            background,
            crowd: 1,
        };
        let thread = thread::Builder::new()
            .name("longhand-writer".to_owned())
            .spawn(move || worker.run())
            .map_err(|source| ArchiveError::Unwritable {
                archive: archive.clone(),
                source: source.into(),
            })?;
        Ok(Self { archive, queue, thread: Some(thread), place, connection })
    }

    /// Performs a change; the answer comes when it is on disk.
    ///
    /// The action may run twice, in transactions of which only the last is kept.
    pub(super) fn write<T: Send + 'static>(
        &self,
        action: impl Fn(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> impl Future<Output = Result<T, ArchiveError>> + Send + 'static {
        let (reply, answer) = oneshot::channel();
        self.queue.waiting().jobs.push(Box::new(QueuedWrite { action, outcome: None, reply }));
        self.queue.arrival.notify_one();
        let archive = self.archive.clone();
        async move { answer.await.unwrap_or(Err(ArchiveError::Closed { archive })) }
    }

    /// Wipes what removed sessions left, in steps between which others may write, until `wait_max` has passed without
    /// any progress.
    pub(super) fn wipe(&self, wait_max: Duration) -> Result<Left, ArchiveError> {
        let mut deadline = Instant::now() + wait_max;
        loop {
            let outcome = WriteConnection::locked(&self.connection).wipe_some();
            let left = match outcome {
                Ok(Left::Nothing) => return Ok(Left::Nothing),
                Ok(Left::Content) => {
                    deadline = Instant::now() + wait_max;
                    Left::Content
                }
                Ok(Left::Log) => Left::Log,
                Err(fault) if fault.is_busy() => Left::Content,
                Err(fault) => return Err(fault.into_error(&self.archive, wait_max)),
            };
            if Instant::now() >= deadline {
                return Ok(left);
            }
            thread::sleep(maintenance::LEAVE);
        }
    }

    /// Extends the index until it has all entries that are there now, in steps between which others may write.
    pub(super) fn index(&self) -> Result<(), ArchiveError> {
        let (mut goal, wait_max) = (None, WriteConnection::locked(&self.connection).wait_max);
        let mut deadline = Instant::now() + wait_max;
        loop {
            let outcome = WriteConnection::locked(&self.connection).index_some(&mut goal);
            match outcome {
                Ok(true) => return Ok(()),
                Ok(false) => deadline = Instant::now() + wait_max,
                Err(fault) if fault.is_busy() && Instant::now() < deadline => {}
                Err(fault) => return Err(fault.into_error(&self.archive, wait_max)),
            }
            thread::sleep(maintenance::LEAVE);
        }
    }

    /// See [`Place::rescue`].
    pub(super) fn rescue(&self) {
        self.place.rescue(&WriteConnection::locked(&self.connection).db);
    }
}

impl Drop for Writer {
    /// Waits until all that was given is written.
    fn drop(&mut self) {
        self.queue.waiting().is_closed = true;
        self.queue.arrival.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl WriteQueue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the thread works with.
struct WriteWorker {
    queue: Arc<WriteQueue>,
    connection: Arc<Mutex<WriteConnection>>,
    background: BackgroundThread,
    /// How many calls the last transaction had.
    crowd: usize,
}

impl WriteWorker {
    fn run(mut self) {
        while let Some(group) = self.gather() {
            // The caller of a change that panics gets an error.
            let _ = catch_unwind(AssertUnwindSafe(|| {
                let connection = &mut *WriteConnection::locked(&self.connection);
                connection.commit(group);
                connection.maintenance.help(&connection.db);
                self.background.tell(connection.maintenance.due());
            }));
        }
    }

    /// Waits for calls; `None` if no more will come.
    fn gather(&mut self) -> Option<Vec<Box<dyn WriteJob>>> {
        let is_idle = |waiting: &mut Waiting| waiting.jobs.is_empty() && !waiting.is_closed;
        let waiting = self.queue.arrival.wait_while(self.queue.waiting(), is_idle);
        let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
        if waiting.jobs.len() < self.crowd {
            let is_thin =
                |waiting: &mut Waiting| waiting.jobs.len() < self.crowd && !waiting.is_closed;
            let gathered = self.queue.arrival.wait_timeout_while(waiting, GATHER_MAX, is_thin);
            (waiting, _) = gathered.unwrap_or_else(PoisonError::into_inner);
        }
        self.crowd = waiting.jobs.len().min(GROUP_MAX);
        let group: Vec<Box<dyn WriteJob>> = waiting.jobs.drain(..self.crowd).collect();
        (!group.is_empty()).then_some(group)
    }
}

/// A queued change, and the channel for its outcome.
struct QueuedWrite<T, A> {
    action: A,
    outcome: Option<T>,
    reply: oneshot::Sender<Result<T, ArchiveError>>,
}

impl<T, A> fmt::Debug for QueuedWrite<T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("QueuedWrite")
    }
}

impl<T: Send, A: Fn(&Connection) -> Result<T, Fault> + Send> WriteJob for QueuedWrite<T, A> {
    fn run(&mut self, db: &Connection) -> Result<(), Fault> {
        self.outcome = Some((self.action)(db)?);
        Ok(())
    }

    fn answer(self: Box<Self>, failure: Option<ArchiveError>) {
        let outcome = match (failure, self.outcome) {
            (Some(failure), _) => Err(failure),
            (None, Some(outcome)) => Ok(outcome),
            // Dropping the channel gives the caller an error.
            (None, None) => return,
        };
        let _ = self.reply.send(outcome);
    }
}
