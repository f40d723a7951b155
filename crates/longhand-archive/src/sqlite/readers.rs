//! Connections for reading.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::Connection;

use super::fault::Fault;
use super::open;
use super::place::Place;
use crate::ArchiveError;

const IDLE_MAX: usize = 8;

/// A pool of connections: one for each reader at a time, some of them kept for the next readers.
#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    place: Arc<Place>,
    archive: String,
    wait_max: Duration,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(super) fn new(path: PathBuf, place: Arc<Place>, wait_max: Duration) -> Self {
        Self { archive: path.display().to_string(), path, place, wait_max, idle: Mutex::default() }
    }

    /// Reads one state of the archive, whatever is written meanwhile.
    pub(super) fn read<T>(
        &self,
        action: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, ArchiveError> {
        self.place.check()?;
        let outcome = self.try_read(action);
        // If the file was just replaced, what was read may come from both files.
        self.place.check()?;
        outcome.map_err(|fault| fault.into_error(&self.archive, self.wait_max))
    }

    /// Refuses to go on with a file that was moved or replaced.
    pub(super) fn check(&self) -> Result<(), ArchiveError> {
        self.place.check()
    }

    fn try_read<T>(
        &self,
        action: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let db = match self.take() {
            Some(db) => db,
            None => self.connect()?,
        };
        let transaction = db.unchecked_transaction()?;
        let outcome = action(&db);
        // After a fault the connection is dropped: it may have cached what is wrong. A request that
        // cannot be met, such as for an entry that does not exist, is no fault.
        if let Err(Fault::Sqlite(_) | Fault::Damage(_)) = outcome {
            return outcome;
        }
        transaction.finish()?;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push(db);
        }
        outcome
    }

    fn take(&self) -> Option<Connection> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn connect(&self) -> Result<Connection, Fault> {
        let db = open::connect(&self.path, self.wait_max)?;
        db.pragma_update(None, "query_only", true)?;
        Ok(db)
    }
}
