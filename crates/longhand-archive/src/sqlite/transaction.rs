//! Transactions that write.

use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::fault::Fault;
use super::stamp::{self, Stamp};

/// How often a lock that another process holds is tried. SQLite's own waiting backs off, which
/// lets a busy neighbour starve us.
const POLL: Duration = Duration::from_millis(1);

/// An open transaction; dropping it rolls it back.
pub(super) struct Transaction<'d> {
    db: &'d Connection,
    before: ChangeCount,
}

/// The number of changes to rows, and the version of the schema.
type ChangeCount = (u64, i64);

impl<'d> Transaction<'d> {
    /// Begins as soon as no other process is writing, and gives up after `wait_max`.
    pub(super) fn begin(db: &'d Connection, wait_max: Duration) -> Result<Self, Fault> {
        let deadline = Instant::now() + wait_max;
        loop {
            match run(db, "BEGIN IMMEDIATE") {
                Ok(()) => return Ok(Self { db, before: change_count(db)? }),
                Err(fault) if fault.is_busy() && Instant::now() < deadline => thread::sleep(POLL),
                Err(fault) => return Err(fault),
            }
        }
    }

    /// Commits and returns the stamp once everything is on disk; `None` if the transaction changed nothing.
    pub(super) fn commit(self) -> Result<Option<Stamp>, Fault> {
        if change_count(self.db)? == self.before {
            run(self.db, "COMMIT")?;
            return Ok(None);
        }
        self.commit_stamped()
    }

    /// Commits with a stamp even if nothing was changed.
    pub(super) fn commit_stamped(self) -> Result<Option<Stamp>, Fault> {
        stamp::advance(self.db)?;
        let stamp = stamp::newest(self.db)?;
        run(self.db, "COMMIT")?;
        Ok(stamp)
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if !self.db.is_autocommit() {
            let _ = self.db.execute_batch("ROLLBACK");
        }
    }
}

/// Makes one change inside a transaction completely or not at all.
///
/// The inner error concerns this change alone; the outer one means that the transaction was rolled back.
pub(super) fn attempt<T>(
    db: &Connection,
    change: impl FnOnce(&Connection) -> Result<T, Fault>,
) -> Result<Result<T, Fault>, Fault> {
    run(db, "SAVEPOINT change")?;
    match change(db) {
        Ok(outcome) => {
            run(db, "RELEASE change")?;
            Ok(Ok(outcome))
        }
        // SQLite rolls the whole transaction back after some failures, such as a full disk.
        Err(fault) if db.is_autocommit() => Err(fault),
        Err(fault) => {
            db.execute_batch("ROLLBACK TO change; RELEASE change")?;
            Ok(Err(fault))
        }
    }
}

fn change_count(db: &Connection) -> Result<ChangeCount, Fault> {
    let mut select = db.prepare_cached("PRAGMA schema_version")?;
    Ok((db.total_changes(), select.query_row([], |row| row.get(0))?))
}

/// Runs a statement that is parsed only once.
fn run(db: &Connection, sql: &str) -> Result<(), Fault> {
    db.prepare_cached(sql)?.execute([])?;
    Ok(())
}
