//! Restarts the log, so that nothing of what was wiped is left in it.
//!
//! SQLite could truncate the log to nothing. But a file without a log whose newest transaction is unknown looks like
//! another file to every process that has the archive open. So the log is copied into the archive, and the next
//! transaction overwrites it from its beginning and cuts off the rest: at every moment there is a log that names its file.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use super::fault::Fault;
use super::log::WriteAheadLog;
use super::open::LOG_BYTES_KEPT;
use super::transaction::Transaction;

/// Copies the log into the archive and restarts it; returns whether its old content is gone.
///
/// It is not if a reader still needs the log, or if another process writes first.
pub(super) fn renew(db: &Connection, log: &Path, wait_max: Duration) -> Result<bool, Fault> {
    let before = salt(log);
    // Most of it without keeping writers out.
    checkpoint(db, "PASSIVE")?;
    if !checkpoint(db, "RESTART")? {
        return Ok(false);
    }
    limit(db, 0)?;
    let begun = begin_anew(db, wait_max);
    limit(db, LOG_BYTES_KEPT)?;
    begun?;
    let mut now = WriteAheadLog::open(log).ok().flatten();
    let has_leftovers = now.as_mut().is_some_and(|log| log.has_leftovers().unwrap_or(true));
    Ok(!has_leftovers && now.map(|log| log.salt()) != before)
}

fn salt(log: &Path) -> Option<[u8; 8]> {
    WriteAheadLog::open(log).ok().flatten().map(|log| log.salt())
}

/// Returns whether it was complete.
fn checkpoint(db: &Connection, mode: &str) -> Result<bool, Fault> {
    let pragma = format!("PRAGMA wal_checkpoint({mode})");
    let busy: i64 = db.query_row(&pragma, [], |row| row.get(0))?;
    Ok(busy == 0)
}

fn limit(db: &Connection, bytes: u64) -> Result<(), Fault> {
    Ok(db.query_row(&format!("PRAGMA journal_size_limit = {bytes}"), [], |_| Ok(()))?)
}

/// A transaction that changes nothing but its stamp.
fn begin_anew(db: &Connection, wait_max: Duration) -> Result<(), Fault> {
    Transaction::begin(db, wait_max)?.commit_stamped().map(drop)
}
