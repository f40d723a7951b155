//! The connection that writes.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::fault::Fault;
use super::index;
use super::maintenance::Maintenance;
use super::place::Place;
use super::sweep::Left;
use super::transaction::{Transaction, attempt};
use crate::ArchiveError;

/// A change that waits for its turn.
pub(super) trait WriteJob: Send + fmt::Debug {
    /// Makes the change inside the open transaction.
    fn run(&mut self, db: &Connection) -> Result<(), Fault>;
    /// Sends the outcome to the caller.
    fn answer(self: Box<Self>, failure: Option<ArchiveError>);
}

/// The connection that writes, and what it takes to use it.
#[derive(Debug)]
pub(super) struct WriteConnection {
    archive: String,
    pub(super) db: Connection,
    place: Arc<Place>,
    pub(super) wait_max: Duration,
    pub(super) maintenance: Maintenance,
    /// How many groups of changes there have been.
    pub(super) commits: u64,
}

impl WriteConnection {
    pub(super) fn new(
        archive: String,
        db: Connection,
        place: Arc<Place>,
        wait_max: Duration,
    ) -> Self {
        // Inside a transaction there is nothing to wait for, and before it we wait ourselves.
        let _ = db.busy_timeout(Duration::ZERO);
        let maintenance = Maintenance::new(&db, place.path());
        Self { archive, db, place, wait_max, maintenance, commits: 0 }
    }

    /// Takes the connection. A panic while it was held left nothing half done: a transaction that is
    /// not committed is taken back.
    pub(super) fn locked(connection: &Mutex<WriteConnection>) -> MutexGuard<'_, WriteConnection> {
        connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the changes of a group in one transaction and answers when it is on disk. If the
    /// transaction fails, each change gets one of its own, so that none fails for another.
    pub(super) fn commit(&mut self, mut group: Vec<Box<dyn WriteJob>>) {
        self.commits += 1;
        let outcome = self.check_place().and_then(|()| self.try_commit(&mut group));
        // What was written to a file that was just replaced is in no archive.
        let outcome = outcome.and_then(|failures| self.check_place().map(|()| failures));
        match outcome {
            Ok(failures) => {
                for (job, failure) in group.into_iter().zip(failures) {
                    job.answer(failure.map(|fault| self.named(fault)));
                }
                self.maintenance.note(&self.db);
            }
            Err(fault) if fault.is_busy() => {
                for job in group {
                    let waited = self.wait_max;
                    job.answer(Some(ArchiveError::Busy { archive: self.archive.clone(), waited }));
                }
            }
            Err(fault) if group.len() == 1 => {
                let failure = self.named(fault);
                if let Some(job) = group.pop() {
                    job.answer(Some(failure));
                }
            }
            Err(_) => group.into_iter().for_each(|job| self.commit(vec![job])),
        }
    }

    /// Refuses to go on with a file that was moved or replaced; what the log has of it is rescued.
    fn check_place(&self) -> Result<(), Fault> {
        self.place.check().inspect_err(|_| {
            self.place.rescue(&self.db);
        })?;
        Ok(())
    }

    /// Goes on with wiping what was removed; returns what is left of it.
    pub(super) fn wipe_some(&mut self) -> Result<Left, Fault> {
        self.place.check()?;
        self.maintenance.note(&self.db);
        if self.maintenance.left() != Left::Nothing {
            self.maintenance.wipe_some(&self.db)?;
            self.maintenance.note(&self.db);
        }
        Ok(self.maintenance.left())
    }

    /// Goes on with the index, up to an entry that is the newest if none is given; returns whether that was all.
    pub(super) fn index_some(&mut self, goal: &mut Option<i64>) -> Result<bool, Fault> {
        self.place.check()?;
        let goal = match *goal {
            Some(goal) => goal,
            None => *goal.insert(index::newest(&self.db)?),
        };
        self.maintenance.index_some(&self.db, goal)
    }

    /// Gives the failures of single changes, or why the whole transaction failed.
    fn try_commit(&self, group: &mut [Box<dyn WriteJob>]) -> Result<Vec<Option<Fault>>, Fault> {
        let transaction = Transaction::begin(&self.db, self.wait_max)?;
        // Others may have held the file locked for a while.
        self.place.check()?;
        if let [job] = group {
            job.run(&self.db)?;
            self.place.note(transaction.commit()?);
            return Ok(vec![None]);
        }
        let mut failures = Vec::with_capacity(group.len());
        for job in group {
            failures.push(attempt(&self.db, |db| job.run(db))?.err());
        }
        self.place.note(transaction.commit()?);
        Ok(failures)
    }

    fn named(&self, fault: Fault) -> ArchiveError {
        fault.into_error(&self.archive, self.wait_max)
    }
}

impl Drop for WriteConnection {
    /// Copies the log into the archive, which connections do not do by themselves: see `open::connect`.
    fn drop(&mut self) {
        if self.place.check().is_ok() {
            let _ = self.db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false);
        } else if self.place.rescue(&self.db) {
            self.place.remove_log();
        }
    }
}
