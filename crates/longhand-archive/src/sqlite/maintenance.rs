//! Work that nobody waits for: keeping the index up to date, and wiping what was removed.

use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::fault::{Fault, is_corruption};
use super::index::Slice;
use super::sweep::Stage;
use super::transaction::Transaction;
use super::{index, sweep};

/// Entries that the index may lag behind in a quiet time.
const LAG_QUIET: i64 = 32;
/// Entries that the index may lag behind while others write.
const LAG_EASY: i64 = 256;
/// Entries that the index may lag behind until those who append must help. Searches read these one
/// by one.
const LAG_MAX: i64 = 2_048;
/// Maintenance gives way to other processes.
const WAIT_MAX: Duration = Duration::from_millis(20);
/// How long maintenance rests after it failed.
const REST: Duration = Duration::from_secs(10);

/// When there is something to do, the later the more pressing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    Never,
    WhenQuiet,
    Now,
}

/// What there is to do, as far as is known; done a part at a time.
#[derive(Debug)]
pub(super) struct Maintenance {
    lag: i64,
    /// How much of the lag came from here.
    debt: i64,
    has_removed: bool,
    /// Whether what was removed was left behind by others.
    is_inherited: bool,
    stage: Stage,
    resting_until: Option<Instant>,
    /// Whether the index was begun anew once; if that does not help, nothing here does.
    has_reset_index: bool,
}

impl Maintenance {
    pub(super) fn new(db: &Connection) -> Self {
        let mut maintenance = Self {
            lag: 0,
            debt: 0,
            has_removed: false,
            is_inherited: true,
            stage: Stage::default(),
            resting_until: None,
            has_reset_index: false,
        };
        maintenance.note(db);
        maintenance.debt = 0;
        maintenance
    }

    /// Looks at what there is to do.
    pub(super) fn note(&mut self, db: &Connection) {
        let lag = index::lag(db).unwrap_or(0);
        self.debt = (self.debt + lag - self.lag).clamp(0, lag.max(0));
        self.lag = lag;
        self.has_removed = sweep::is_due(db).unwrap_or(false);
        self.is_inherited &= self.has_removed;
    }

    /// Says when something should be done.
    pub(super) fn due(&mut self) -> Due {
        if self.resting_until.is_some_and(|until| Instant::now() < until) {
            return Due::Never;
        }
        self.resting_until = None;
        match self.lag {
            _ if self.has_removed => Due::Now,
            LAG_EASY.. => Due::Now,
            LAG_QUIET.. => Due::WhenQuiet,
            _ => Due::Never,
        }
    }

    /// Returns whether the index is what to work on next.
    pub(super) fn is_index_next(&self) -> bool {
        !self.has_removed
    }

    /// Does a part of what is to be done; `slice` is what the index needs, if it is there yet.
    pub(super) fn do_one(&mut self, db: &Connection, slice: Option<Slice>) {
        let outcome = if self.has_removed { self.sweep(db) } else { extend(db, slice) };
        if let Err(fault) = outcome {
            self.recover(db, &fault);
        }
        self.note(db);
    }

    /// Extends the index by as much as was added here, if it lags behind by more than it may.
    pub(super) fn help(&mut self, db: &Connection) {
        let goal = LAG_MAX.max(self.lag - self.debt);
        while self.lag > goal && self.due() != Due::Never {
            let before = self.lag;
            if let Err(fault) = extend(db, None) {
                self.recover(db, &fault);
            }
            self.note(db);
            if self.lag >= before {
                // Others are at it, or it does not work.
                break;
            }
        }
        if self.lag >= LAG_MAX {
            self.debt = 0;
        }
    }

    /// Does what should not be left to the next one who opens the archive: above all, what was
    /// removed here is wiped.
    pub(super) fn finish(&mut self, db: &Connection) {
        self.note(db);
        while self.has_removed && !self.is_inherited && self.due() == Due::Now {
            self.do_one(db, None);
        }
        if self.due() == Due::Now {
            self.do_one(db, None);
        }
    }

    fn sweep(&mut self, db: &Connection) -> Result<(), Fault> {
        let transaction = Transaction::begin(db, WAIT_MAX)?;
        self.stage = sweep::sweep(db, self.stage)?;
        transaction.commit().map(drop)
    }

    fn recover(&mut self, db: &Connection, fault: &Fault) {
        if fault.is_busy() {
            return;
        }
        let is_damaged = matches!(fault, Fault::Sqlite(error) if is_corruption(error));
        if is_damaged && !self.has_reset_index {
            self.has_reset_index = true;
            let reset = Transaction::begin(db, WAIT_MAX).and_then(|transaction| {
                index::reset(db)?;
                transaction.commit()
            });
            if reset.is_ok() {
                return;
            }
        }
        self.resting_until = Some(Instant::now() + REST);
    }
}

fn extend(db: &Connection, slice: Option<Slice>) -> Result<(), Fault> {
    let slice = slice.map_or_else(|| index::prepare(db), Ok)?;
    let transaction = Transaction::begin(db, WAIT_MAX)?;
    index::extend(db, &slice)?;
    transaction.commit().map(drop)
}
