//! Checks that an archive is still the file that was opened, and that the log beside it belongs to it.

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::FileError;
use super::log::WriteAheadLog;
use super::stamp::{self, FileStamp, Stamp};
use crate::ArchiveError;

/// How long a log that seems to belong to another file is looked at again: another process may be copying it into the
/// archive and restarting it.
const DOUBT: Duration = Duration::from_millis(100);
const DOUBT_POLL: Duration = Duration::from_millis(10);
/// How often it is looked at in any case: on a busy machine all of that time may pass between two looks.
const DOUBT_LOOKS_MIN: usize = 5;

/// The files of an archive by their paths, and which files these were when it was opened.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    file: Option<FileId>,
    /// The log. Without it, what was written since the last checkpoint is lost.
    log: PathBuf,
    log_file: Option<FileId>,
    known: Mutex<KnownContent>,
}

/// What earlier checks found out about the archive's content.
#[derive(Debug)]
struct KnownContent {
    /// The change time of the file when a check last succeeded.
    changed: Option<ChangeTime>,
    /// The change time of the file when a check last failed: the next check of the same file does not wait.
    refused: Option<ChangeTime>,
    /// The newest transaction that this process has seen, and the page that has its stamp.
    newest: Option<FileStamp>,
}

/// The device and the number of a file there.
type FileId = (u64, u64);

/// Seconds and nanoseconds.
type ChangeTime = (i64, i64);

/// Which files were there when they were found to belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SeenFiles([Option<(FileId, ChangeTime, u64)>; 2]);

impl SeenFiles {
    fn of(path: &Path, log: &Path) -> Self {
        let seen = |path: &Path| {
            let found = fs::metadata(path).ok()?;
            Some((id_of(&found), change_time(&found), found.len()))
        };
        // Opening an archive makes an empty log.
        Self([seen(path), seen(log).filter(|(.., length)| *length > 0)])
    }
}

impl Place {
    /// The files of an archive that is open in `db`; `seen` are those that were checked before it was opened.
    pub(super) fn of(path: &Path, db: &Connection, seen: &SeenFiles) -> Self {
        let log = log_of(path);
        let newest = stamp::of(db).ok().flatten();
        // Where nothing has come between, the check need not be made again.
        let changed = (SeenFiles::of(path, &log) == *seen).then_some(seen.0[0]).flatten();
        let changed = changed.map(|(_, changed, _)| changed);
        let known = Mutex::new(KnownContent { changed, refused: None, newest });
        Self { file: file_id(path), path: path.to_owned(), log_file: file_id(&log), log, known }
    }

    /// The file's path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Fails if the file is no longer at its path, since what is written to it would be lost, or if its content was
    /// replaced.
    pub(super) fn check(&self) -> Result<(), ArchiveError> {
        let moved = |path: &Path| FileError::Moved { archive: path.display().to_string() };
        let found = fs::metadata(&self.path).ok();
        if self.file != found.as_ref().map(id_of) {
            return Err(moved(&self.path).into());
        }
        if self.is_log_lost() {
            return Err(moved(&self.log).into());
        }
        // The file changes only when its log is copied into it.
        let changed = found.as_ref().map(change_time);
        let (newest, patience) = {
            let known = self.known();
            if known.changed == changed {
                return Ok(());
            }
            let patience = if known.refused == changed { Duration::ZERO } else { DOUBT };
            (known.newest.map(|newest| newest.now), patience)
        };
        let outcome = check_log(&self.path, &self.log, newest, patience);
        let mut known = self.known();
        let noted = if outcome.is_ok() { &mut known.changed } else { &mut known.refused };
        *noted = changed;
        outcome
    }

    /// Notes which transaction is the newest, after one was made here.
    pub(super) fn note(&self, now: Option<Stamp>) {
        let mut known = self.known();
        if let (Some(newest), Some(now)) = (&mut known.newest, now) {
            newest.now = now;
        }
    }

    /// Copies the log into the archive if one of the two was moved away from the other: as long as both are open
    /// here, nothing is lost. Returns whether the file has all of the log.
    pub(super) fn rescue(&self, db: &Connection) -> bool {
        let is_moved = self.file != file_id(&self.path);
        // Another file may have come to the old path, and its log to the old log.
        let is_ours = self.is_log_lost() || (is_moved && self.has_newest());
        let rescue = || db.query_row("PRAGMA wal_checkpoint(FULL)", [], |row| row.get::<_, i64>(0));
        // If that fails, too, the error that led here says what is wrong.
        is_ours && rescue().is_ok_and(|busy| busy == 0)
    }

    /// Removes a log that was copied into its file, which is no longer beside it.
    pub(super) fn remove_log(&self) {
        if !self.is_log_lost() && self.has_newest() {
            let _ = fs::remove_file(&self.log);
            let _ = fs::remove_file(beside(&self.path, "-shm"));
        }
    }

    /// Whether the log is there and has the newest transaction that is known here. Whoever made the last
    /// one in a log finds it there.
    fn has_newest(&self) -> bool {
        let Some(newest) = self.known().newest else { return false };
        let log = WriteAheadLog::open(&self.log).ok().flatten();
        log.is_some_and(|mut log| log.names(newest.page, newest.now).unwrap_or(false))
    }

    /// Whether the archive is there and its log is not.
    fn is_log_lost(&self) -> bool {
        self.log_file.is_some() && self.log_file != file_id(&self.log)
    }

    fn known(&self) -> MutexGuard<'_, KnownContent> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Fails if the log beside a file does not continue it; returns what was checked.
pub(super) fn check_beside(path: &Path) -> Result<SeenFiles, ArchiveError> {
    let log = log_of(path);
    let seen = SeenFiles::of(path, &log);
    check_log(path, &log, None, DOUBT)?;
    Ok(seen)
}

/// `newest` is the last known transaction of a file that is open: without a log, no other one can follow.
fn check_log(
    path: &Path,
    log: &Path,
    newest: Option<Stamp>,
    patience: Duration,
) -> Result<(), ArchiveError> {
    let deadline = Instant::now() + patience;
    let mut looks_left = if patience.is_zero() { 1 } else { DOUBT_LOOKS_MIN };
    while !belongs(path, log, newest) {
        looks_left = looks_left.saturating_sub(1);
        if looks_left == 0 && Instant::now() >= deadline {
            let (archive, log) = (path.display().to_string(), log.display().to_string());
            return Err(FileError::ForeignLog { archive, log }.into());
        }
        thread::sleep(DOUBT_POLL);
    }
    Ok(())
}

/// Says whether a log goes on from what its file holds. What cannot be read is left to SQLite.
fn belongs(path: &Path, log: &Path, newest: Option<Stamp>) -> bool {
    let length = fs::metadata(log).ok().map(|log| log.len());
    // Where there is no log, nothing need be read.
    if length.is_none() || (length == Some(0) && newest.is_none()) {
        return true;
    }
    let Ok(Some(file)) = stamp::of_file(path) else { return true };
    if length == Some(0) {
        return newest.is_none_or(|newest| newest.agrees(file.now));
    }
    let Ok(Some(mut log)) = WriteAheadLog::open(log) else { return true };
    let is_named = log.names(file.page, file.now).unwrap_or(true);
    is_named || !log.has_transaction().unwrap_or(false)
}

/// SQLite keeps the log beside the file itself, not beside a link to it.
pub(super) fn log_of(path: &Path) -> PathBuf {
    beside(path, "-wal")
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()).into_os_string();
    name.push(ending);
    PathBuf::from(name)
}

/// Whether two paths lead to one file; where that cannot be told, they do not.
pub(super) fn is_same_file(one: &Path, other: &Path) -> bool {
    let (one, other) = (file_id(one), file_id(other));
    cfg!(unix) && one.is_some() && one == other
}

fn file_id(path: &Path) -> Option<FileId> {
    fs::metadata(path).ok().as_ref().map(id_of)
}

#[cfg(unix)]
fn id_of(file: &Metadata) -> FileId {
    use std::os::unix::fs::MetadataExt;
    (file.dev(), file.ino())
}

/// Elsewhere a file that is open cannot be moved away.
#[cfg(not(unix))]
fn id_of(_file: &Metadata) -> FileId {
    (0, 0)
}

#[cfg(unix)]
fn change_time(file: &Metadata) -> ChangeTime {
    use std::os::unix::fs::MetadataExt;
    (file.ctime(), file.ctime_nsec())
}

#[cfg(not(unix))]
fn change_time(file: &Metadata) -> ChangeTime {
    let changed = file.modified().ok();
    let since = changed.and_then(|changed| changed.duration_since(std::time::UNIX_EPOCH).ok());
    since.map_or((0, 0), |since| (since.as_secs().cast_signed(), since.subsec_nanos().into()))
}
