//! Writing: one at a time, many together.
//!
//! Whoever calls while nobody writes does the writing, for itself and for all who came meanwhile;
//! the others wait for their answers. When it is done, the first of those who came too late takes
//! over. A lone caller thus pays for no change of threads, and a crowd shares its transactions.

use std::fmt;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::background::BackgroundThread;
use super::fault::Fault;
use super::maintenance;
use super::place::Place;
use super::sweep::Left;
use super::write_connection::{Job, WriteConnection};
use crate::ArchiveError;

/// How many calls share a transaction at most.
const GROUP_MAX: usize = 256;
/// How long a transaction waits for as many calls as the last one had: they were woken together
/// and arrive one by one, and a sync of the disk takes far longer.
const GATHER_MAX: Duration = Duration::from_micros(300);

/// Performs changes.
#[derive(Debug)]
pub(super) struct Writer {
    archive: String,
    place: Arc<Place>,
    queue: Mutex<Queue>,
    /// Told when a call joins the queue.
    arrival: Condvar,
    connection: Arc<Mutex<WriteConnection>>,
    background: BackgroundThread,
}

#[derive(Debug)]
struct Queue {
    jobs: Vec<Box<dyn Job>>,
    /// Whether somebody writes, or is on its way to.
    is_led: bool,
    /// How many calls the last transaction had.
    crowd: usize,
}

impl Writer {
    pub(super) fn start(
        path: &Path,
        place: Arc<Place>,
        db: Connection,
        wait_max: Duration,
    ) -> Result<Self, ArchiveError> {
        let queue = Mutex::new(Queue { jobs: Vec::new(), is_led: false, crowd: 1 });
        let archive = path.display().to_string();
        let connection = WriteConnection::new(archive.clone(), db, Arc::clone(&place), wait_max);
        let connection = Arc::new(Mutex::new(connection));
        let background =
            BackgroundThread::start(path, Arc::clone(&place), Arc::clone(&connection))?;
        Ok(Self { archive, place, queue, arrival: Condvar::new(), connection, background })
    }

    /// Performs a change and returns when it is on disk.
    ///
    /// The action may run twice, in transactions of which only the last is kept.
    pub(super) fn write<T: Send + 'static>(
        &self,
        action: impl Fn(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, ArchiveError> {
        self.place.check().inspect_err(|_| self.rescue())?;
        let done = self.write_together(action)?;
        self.place.check().inspect_err(|_| self.rescue()).map(|()| done)
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

    /// See [`Place::rescue`].
    pub(super) fn rescue(&self) {
        self.place.rescue(&WriteConnection::locked(&self.connection).db);
    }

    fn write_together<T: Send + 'static>(
        &self,
        action: impl Fn(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, ArchiveError> {
        let (reply, replies) = mpsc::sync_channel(2);
        if !self.enqueue(Box::new(Write { action, outcome: None, reply })) {
            match self.next_reply(&replies)? {
                Reply::Done(outcome) => return outcome,
                Reply::Lead => {}
            }
        }
        self.lead();
        match self.next_reply(&replies)? {
            Reply::Done(outcome) => outcome,
            Reply::Lead => Err(self.closed()),
        }
    }

    /// Adds a call to the queue; says whether it must lead.
    fn enqueue(&self, job: Box<dyn Job>) -> bool {
        let mut queue = self.queue();
        queue.jobs.push(job);
        self.arrival.notify_one();
        !std::mem::replace(&mut queue.is_led, true)
    }

    /// Performs what is in the queue, and hands over to whoever came meanwhile.
    fn lead(&self) {
        let _handover = Handover(self);
        let connection = &mut *WriteConnection::locked(&self.connection);
        connection.commit(self.gather());
        connection.maintenance.help(&connection.db);
        self.background.tell(connection.maintenance.due());
    }

    fn gather(&self) -> Vec<Box<dyn Job>> {
        let deadline = Instant::now() + GATHER_MAX;
        let mut queue = self.queue();
        while queue.jobs.len() < queue.crowd {
            let rest = deadline.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                break;
            }
            let woken = self.arrival.wait_timeout(queue, rest);
            queue = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        queue.crowd = queue.jobs.len().min(GROUP_MAX);
        let crowd = queue.crowd;
        queue.jobs.drain(..crowd).collect()
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_reply<T>(&self, replies: &Receiver<Reply<T>>) -> Result<Reply<T>, ArchiveError> {
        replies.recv().map_err(|_| self.closed())
    }

    fn closed(&self) -> ArchiveError {
        ArchiveError::Closed { archive: self.archive.clone() }
    }
}

/// Ends the lead of one caller, also when it panics: the next one takes over, or nobody leads.
struct Handover<'w>(&'w Writer);

impl Drop for Handover<'_> {
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        match queue.jobs.first() {
            Some(next) => next.lead(),
            None => queue.is_led = false,
        }
    }
}

/// A call's change and the way back to it.
struct Write<T, A> {
    action: A,
    outcome: Option<T>,
    reply: SyncSender<Reply<T>>,
}

enum Reply<T> {
    Done(Result<T, ArchiveError>),
    Lead,
}

impl<T, A> fmt::Debug for Write<T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Write")
    }
}

impl<T: Send, A: Fn(&Connection) -> Result<T, Fault> + Send> Job for Write<T, A> {
    fn run(&mut self, db: &Connection) -> Result<(), Fault> {
        self.outcome = Some((self.action)(db)?);
        Ok(())
    }

    fn answer(self: Box<Self>, failure: Option<ArchiveError>) {
        let outcome = match (failure, self.outcome) {
            (Some(failure), _) => Err(failure),
            (None, Some(outcome)) => Ok(outcome),
            // Dropping the reply tells the caller that nothing came of it.
            (None, None) => return,
        };
        let _ = self.reply.send(Reply::Done(outcome));
    }

    fn lead(&self) {
        let _ = self.reply.send(Reply::Lead);
    }
}
