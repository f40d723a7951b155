//! What can go wrong with an archive.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use longhand_core::Handle;

use crate::Damage;

/// Why an archive did not do what it was asked to.
///
/// Whatever the error, nothing of the request was written, and nothing acknowledged before is lost.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The batch builds on one that is not the newest any more.
    #[error("session {}: the newest batch is {newest}, not {after}", shown(.session))]
    Conflict {
        /// The session.
        session: String,
        /// What the new batch builds on.
        after: u64,
        /// The newest live batch.
        newest: u64,
    },
    /// There is no such session.
    #[error("session {} is not in the archive", shown(.session))]
    UnknownSession {
        /// The session asked for.
        session: String,
    },
    /// The request names entries that the session does not have.
    #[error("session {} has {entries} entries, not {}..{}", shown(.session), range.start, range.end)]
    NoSuchEntries {
        /// The session.
        session: String,
        /// What was asked for.
        range: Range<u64>,
        /// How many it has.
        entries: u64,
    },
    /// An original made of entries does not say whose.
    #[error("original {handle} consists of entries but names no session")]
    NoSession {
        /// The original.
        handle: Handle,
    },
    /// The handle stands for other content already.
    #[error("handle {handle} already stands for other content")]
    HandleTaken {
        /// The handle.
        handle: Handle,
    },
    /// What was read is not what was written.
    #[error("{}: {damage}", path.display())]
    Damaged {
        /// The archive.
        path: PathBuf,
        /// What is damaged.
        damage: Damage,
    },
    /// The file is broken in its structure.
    #[error("{} is damaged", path.display())]
    Corrupt {
        /// The archive.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// The file is something else; it was left as it is.
    #[error("{} is not an archive: {reason}", path.display())]
    NotAnArchive {
        /// The file.
        path: PathBuf,
        /// How one can tell.
        reason: &'static str,
    },
    /// The archive was written by a later release; it was left as it is.
    #[error("{} has format {found}, and this release knows up to {known}", path.display())]
    Newer {
        /// The archive.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The newest that is known here.
        known: i64,
    },
    /// Another process kept the archive locked.
    #[error("{} was locked by another process for {waited:.1?}", path.display())]
    Busy {
        /// The archive.
        path: PathBuf,
        /// How long we waited.
        waited: Duration,
    },
    /// There is no room left for it.
    #[error("{} cannot grow: the disk is full", path.display())]
    Full {
        /// The archive.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// The archive is on a file system on which concurrent writers would destroy it.
    #[error("{} is on a network file system ({kind})", path.display())]
    Network {
        /// The archive.
        path: PathBuf,
        /// The kind of file system.
        kind: String,
    },
    /// The file cannot be opened, created or written.
    #[error("{} cannot be written", path.display())]
    Unwritable {
        /// The archive.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Reading or writing the file failed in another way.
    #[error("{}: the database failed", path.display())]
    Database {
        /// The archive.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// This program was built with an SQLite that can damage its files.
    #[error("SQLite {found} is linked, and archives need at least {least}")]
    OldSqlite {
        /// The version that is linked.
        found: &'static str,
        /// The first one that will do.
        least: &'static str,
    },
    /// The thread that writes is gone.
    #[error("{}: the archive is closed", path.display())]
    Closed {
        /// The archive.
        path: PathBuf,
    },
}

const SHOWN_CHARS_MAX: usize = 60;

/// A session id as people can read it: ids may be long and hold any character.
pub(crate) fn shown(session: &str) -> String {
    let mut shown: String =
        session.chars().take(SHOWN_CHARS_MAX).flat_map(char::escape_debug).collect();
    if session.chars().nth(SHOWN_CHARS_MAX).is_some() {
        shown.push('…');
    }
    if shown.is_empty() { "\"\"".to_owned() } else { shown }
}
