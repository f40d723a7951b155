//! Background work: keeping the index up to date, and wiping what was removed.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::fault::{Fault, is_corruption};
use super::index::{Joins, Slice};
use super::renew::renew;
use super::sweep::{self, Left, Sweep};
use super::transaction::Transaction;
use super::{index, place};

/// Entries that the index may lag behind in a quiet time.
const LAG_QUIET: i64 = 32;
/// Entries that the index may lag behind while others write.
const LAG_EASY: i64 = 512;
/// Entries that the index may lag behind before it no longer gives way to those who write. Searches read these one by
/// one.
const LAG_MAX: i64 = 1_024;
/// Entries that the index may lag behind until those who append must wait for it.
const LAG_FAR: i64 = 2_048;
/// Searches should not have to look into more segments of the index than these.
const SEGMENTS_MAX: usize = 40;
/// How long a transaction goes on joining segments.
const JOIN_STEP: Duration = Duration::from_millis(10);
/// Whoever adds a segment joins for so many steps: as much as that makes necessary in the long run.
const JOINS_PER_SLICE: u32 = 3;
/// Maintenance gives way to other processes.
const WAIT_MAX: Duration = Duration::from_millis(20);
/// How long maintenance rests after it failed.
const REST: Duration = Duration::from_secs(10);

/// How long the file is left to other processes between two steps of wiping: they try every millisecond.
pub(super) const LEAVE: Duration = Duration::from_millis(5);
/// How long to wait before trying again to restart the log.
const LOG_REST: Duration = Duration::from_secs(1);
/// How often restarting the log is tried when the archive is closed.
const LOG_TRIES_AT_END: usize = 20;
/// How long other processes may keep the file locked until closing the archive leaves the wiping to them.
const BUSY_AT_END: Duration = Duration::from_secs(5);

/// When there is something to do, in rising order of urgency.
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
    /// When segments of the index are to be joined.
    join_due: Due,
    /// Whether there are so many segments that searches take longer.
    is_scattered: bool,
    /// For how many steps this process has yet to join, for what it added.
    joins_owed: u32,
    /// How many of the missing entries this process has appended.
    debt: i64,
    left: Left,
    /// Whether what was removed was left behind by others.
    is_inherited: bool,
    sweep: Sweep,
    log: PathBuf,
    log_resting_until: Option<Instant>,
    resting_until: Option<Instant>,
    /// Whether the index was rebuilt once; it is not tried twice.
    has_reset_index: bool,
}

impl Maintenance {
    pub(super) fn new(db: &Connection, archive: &Path) -> Self {
        let mut maintenance = Self {
            lag: 0,
            join_due: Due::Never,
            is_scattered: false,
            joins_owed: 0,
            debt: 0,
            left: Left::Nothing,
            is_inherited: true,
            sweep: Sweep::default(),
            log: place::log_of(archive),
            log_resting_until: None,
            resting_until: None,
            has_reset_index: false,
        };
        maintenance.note(db);
        maintenance.note_segments(db);
        maintenance.debt = 0;
        maintenance
    }

    /// Looks at what there is to do.
    pub(super) fn note(&mut self, db: &Connection) {
        let lag = index::lag(db).unwrap_or(0);
        self.debt = (self.debt + lag - self.lag).clamp(0, lag.max(0));
        self.lag = lag;
        self.left = sweep::left(db).unwrap_or(Left::Nothing);
        self.is_inherited &= self.left != Left::Nothing;
    }

    /// Looks at the segments of the index, which change only here.
    fn note_segments(&mut self, db: &Connection) {
        let is_due = |joins| index::is_due(db, joins).unwrap_or(false);
        if !is_due(self.joins()) {
            self.joins_owed = 0;
        }
        self.is_scattered = index::segments(db).is_ok_and(|count| count > SEGMENTS_MAX);
        self.join_due = match is_due(Joins::All) {
            true if self.joins_owed > 0 || self.is_scattered => Due::Now,
            true => Due::WhenQuiet,
            false => Due::Never,
        };
    }

    /// What is joined while others write: large segments wait for a quiet time, as long as there are few.
    fn joins(&self) -> Joins {
        if self.is_scattered { Joins::All } else { Joins::Small }
    }

    /// Says when something should be done.
    pub(super) fn due(&mut self) -> Due {
        if self.resting_until.is_some_and(|until| Instant::now() < until) {
            return Due::Never;
        }
        self.resting_until = None;
        match self.lag {
            _ if self.left == Left::Content => Due::Now,
            LAG_EASY.. => Due::Now,
            _ if self.is_log_due() => Due::Now,
            LAG_QUIET.. => self.join_due.max(Due::WhenQuiet),
            _ => self.join_due,
        }
    }

    fn is_log_due(&self) -> bool {
        let is_resting = self.log_resting_until.is_some_and(|until| Instant::now() < until);
        self.left == Left::Log && !is_resting
    }

    /// What is left of removed sessions, as far as is known.
    pub(super) fn left(&self) -> Left {
        self.left
    }

    /// Returns whether the index is what to work on next; in a quiet time, a few entries are worth a slice.
    pub(super) fn is_index_next(&self, due: Due) -> bool {
        let lag_min = if due == Due::Now { LAG_EASY } else { LAG_QUIET };
        let is_first = self.lag >= LAG_EASY || !self.is_log_due();
        self.left != Left::Content && self.lag >= lag_min && is_first
    }

    /// Does a part of what is to be done; `slice` is what the index needs, if it is there yet.
    pub(super) fn do_one(&mut self, db: &Connection, due: Due, slice: Option<Slice>) {
        let outcome = if self.is_index_next(due) {
            self.joins_owed += JOINS_PER_SLICE;
            extend(db, slice)
        } else if self.left == Left::Content || self.is_log_due() {
            self.wipe_some(db)
        } else {
            self.joins_owed = self.joins_owed.saturating_sub(1);
            join(db, if due == Due::Now { self.joins() } else { Joins::All })
        };
        if let Err(fault) = outcome {
            self.recover(db, &fault);
        }
        self.note(db);
        self.note_segments(db);
    }

    /// Goes on with wiping what was removed.
    pub(super) fn wipe_some(&mut self, db: &Connection) -> Result<(), Fault> {
        if let Some(portion) = Sweep::prepare(db)? {
            let transaction = Transaction::begin(db, WAIT_MAX)?;
            self.sweep.wipe(db, &portion, Instant::now() + sweep::STEP)?;
            return transaction.commit().map(drop);
        }
        if !renew(db, &self.log, WAIT_MAX)? {
            self.log_resting_until = Some(Instant::now() + LOG_REST);
            return Ok(());
        }
        self.log_resting_until = None;
        let transaction = Transaction::begin(db, WAIT_MAX)?;
        sweep::forget_wiped(db)?;
        transaction.commit().map(drop)
    }

    /// Returns whether the index lags behind by so much that it must not give way.
    pub(super) fn is_behind(&self) -> bool {
        self.lag > LAG_MAX
    }

    /// Extends the index before more is appended, if it lags too far behind.
    pub(super) fn help(&mut self, db: &Connection) {
        self.catch_up(db, LAG_FAR);
    }

    /// Extends the index by as much as was added here, until it lags behind by no more than it may.
    fn catch_up(&mut self, db: &Connection, lag_max: i64) {
        let goal = lag_max.max(self.lag - self.debt);
        while self.lag > goal && self.due() != Due::Never {
            let before = self.lag;
            let join_some = || (0..JOINS_PER_SLICE).try_for_each(|_| join(db, self.joins()));
            if let Err(fault) = extend(db, None).and_then(|()| join_some()) {
                self.recover(db, &fault);
            }
            self.note(db);
            self.note_segments(db);
            if self.lag >= before {
                // Another process is extending it, or it fails.
                break;
            }
        }
        if self.lag >= lag_max {
            self.debt = 0;
        }
    }

    /// Goes on with the index up to an entry; returns whether that was all.
    pub(super) fn index_some(&mut self, db: &Connection, goal: i64) -> Result<bool, Fault> {
        if index::indexed(db)? < goal {
            extend(db, None)?;
        }
        join(db, Joins::All)?;
        self.note(db);
        self.note_segments(db);
        Ok(index::indexed(db)? >= goal && self.join_due == Due::Never)
    }

    /// Finishes what should not wait until the archive is opened again: above all, wiping what was removed here.
    pub(super) fn finish(&mut self, db: &Connection) {
        self.note(db);
        let mut log_tries = 0;
        let mut busy_since = None;
        while self.left != Left::Nothing && !self.is_inherited && self.resting_until.is_none() {
            log_tries += usize::from(self.left == Left::Log);
            let outcome = self.wipe_some(db);
            match &outcome {
                Err(fault) if fault.is_busy() => {
                    busy_since.get_or_insert_with(Instant::now);
                }
                _ => busy_since = None,
            }
            if let Err(fault) = outcome {
                self.recover(db, &fault);
            }
            self.note(db);
            let is_stuck = busy_since.is_some_and(|since: Instant| since.elapsed() > BUSY_AT_END);
            if is_stuck || log_tries > LOG_TRIES_AT_END {
                break;
            }
            thread::sleep(LEAVE);
        }
        self.catch_up(db, LAG_MAX);
        let mut parts = 1 + self.joins_owed;
        while parts > 0 && self.due() == Due::Now {
            self.do_one(db, Due::Now, None);
            parts -= 1;
        }
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

/// Joins segments of the index for a while.
fn join(db: &Connection, joins: Joins) -> Result<(), Fault> {
    if !index::is_due(db, joins)? {
        return Ok(());
    }
    let transaction = Transaction::begin(db, WAIT_MAX)?;
    index::go_on(db, joins, Instant::now() + JOIN_STEP)?;
    transaction.commit().map(drop)
}

fn extend(db: &Connection, slice: Option<Slice>) -> Result<(), Fault> {
    let slice = slice.map_or_else(|| index::prepare(db), Ok)?;
    let transaction = Transaction::begin(db, WAIT_MAX)?;
    index::extend(db, &slice)?;
    transaction.commit().map(drop)
}
