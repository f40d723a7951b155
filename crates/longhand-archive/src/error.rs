//! What can go wrong with an archive.

use std::error::Error;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

use longhand_core::Seq;

use crate::{Damage, SessionId};

/// The error of the storage beneath an archive.
pub type Cause = Box<dyn Error + Send + Sync>;

/// Why an archive did not do what it was asked to.
///
/// Whatever the error, nothing of the request was written, and nothing acknowledged before is lost.
/// `archive` says where the archive is: the path of a file, or an address.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// Another writer came first; look again and retry.
    #[error("session {session}: {conflict}")]
    Conflict {
        /// The session.
        session: SessionId,
        /// What the other writer did.
        conflict: Conflict,
    },
    /// The session belongs to somebody else.
    #[error("session {session} belongs to another owner")]
    NotTheOwner {
        /// The session.
        session: SessionId,
    },
    /// There is no such session.
    #[error("session {session} is not in the archive")]
    UnknownSession {
        /// The session asked for.
        session: SessionId,
    },
    /// The request names entries that the session does not have.
    #[error("session {session} has {entries} entries, not {}..{}", range.start, range.end)]
    NoSuchEntries {
        /// The session.
        session: SessionId,
        /// What was asked for.
        range: Range<u64>,
        /// How many it has.
        entries: u64,
    },
    /// A batch edits an entry that is not on the path it was made for.
    #[error("session {session}: entry {} is not on the path to entry {}", entry.0, head.0)]
    NotOnPath {
        /// The session.
        session: SessionId,
        /// The entry.
        entry: Seq,
        /// The last entry of the path.
        head: Seq,
    },
    /// A record that was to be restored does not follow from what the session has.
    #[error("session {session}: {record} does not follow from what the archive has of it")]
    Unfit {
        /// The session.
        session: SessionId,
        /// The record.
        record: String,
    },
    /// What was read is not what was written.
    #[error("{archive}: {damage}")]
    Damaged {
        /// The archive.
        archive: String,
        /// What is damaged.
        damage: Box<Damage>,
    },
    /// The archive is broken in its structure.
    #[error("{archive} is damaged")]
    Corrupt {
        /// The archive.
        archive: String,
        /// What its storage says.
        source: Cause,
    },
    /// What was opened is not an archive; it was left as it is.
    #[error("{archive} is not an archive: {reason}")]
    NotAnArchive {
        /// What was opened.
        archive: String,
        /// How one can tell.
        reason: String,
    },
    /// The archive was written by another release; it was left as it is.
    #[error("{archive} has format {found}, and this release reads format {known}")]
    OtherFormat {
        /// The archive.
        archive: String,
        /// Its format.
        found: i64,
        /// The one that is known here.
        known: i64,
    },
    /// Another process kept the archive locked.
    #[error("{archive} was locked by another process for {waited:.1?}")]
    Busy {
        /// The archive.
        archive: String,
        /// How long we waited.
        waited: Duration,
    },
    /// There is no room left for it.
    #[error("{archive} cannot grow: the disk is full")]
    Full {
        /// The archive.
        archive: String,
        /// What its storage says.
        source: Cause,
    },
    /// The archive cannot be opened, created or written.
    #[error("{archive} cannot be written")]
    Unwritable {
        /// The archive.
        archive: String,
        /// What the system says.
        source: Cause,
    },
    /// The storage refuses to go on with what is there, for a reason that only this kind of storage has.
    #[error(transparent)]
    Unusable(Cause),
    /// Reading or writing failed in another way.
    #[error("{archive}: reading or writing failed")]
    Failed {
        /// The archive.
        archive: String,
        /// What its storage says.
        source: Cause,
    },
    /// The archive was closed before it answered.
    #[error("{archive}: the archive is closed")]
    Closed {
        /// The archive.
        archive: String,
    },
}

/// What another writer did first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// The batch builds on one that is not the newest live one on its path.
    Batch {
        /// What the new batch builds on.
        after: u64,
        /// The newest live batch; 0 if there is none.
        newest: u64,
    },
    /// The session has another version than the write expects.
    Version,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Conflict::Batch { after, newest } => {
                write!(f, "the newest batch is {newest}, not {after}")
            }
            Conflict::Version => f.write_str("another writer was first"),
        }
    }
}
