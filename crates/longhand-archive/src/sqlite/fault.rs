//! Errors inside, before they know their file.

use std::io;
use std::path::Path;
use std::time::Duration;

use rusqlite::ErrorCode;

use crate::{ArchiveError, Damage, DamagedPart};

/// Why something inside did not work out.
#[derive(Debug)]
pub(super) enum Fault {
    /// SQLite says so.
    Sqlite(rusqlite::Error),
    /// A checksum says so.
    Damage(Damage),
    /// The request cannot be met.
    Refused(ArchiveError),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Fault::Sqlite(error)
    }
}

impl From<ArchiveError> for Fault {
    fn from(error: ArchiveError) -> Self {
        Fault::Refused(error)
    }
}

impl Fault {
    pub(super) fn damage(session: &str, part: DamagedPart, detail: &str) -> Self {
        let (session, detail) = (Some(session.to_owned()), detail.to_owned());
        Fault::Damage(Damage { session, part, detail })
    }

    pub(super) fn is_busy(&self) -> bool {
        let code = match self {
            Fault::Sqlite(error) => error.sqlite_error_code(),
            _ => None,
        };
        matches!(code, Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
    }

    pub(super) fn into_error(self, path: &Path, waited: Duration) -> ArchiveError {
        match self {
            Fault::Sqlite(error) => classified(error, path, waited),
            Fault::Damage(damage) => ArchiveError::Damaged { path: path.to_owned(), damage },
            Fault::Refused(error) => error,
        }
    }
}

/// Names the trouble that SQLite reports.
pub(super) fn classified(error: rusqlite::Error, path: &Path, waited: Duration) -> ArchiveError {
    let path = path.to_owned();
    if is_corruption(&error) {
        return ArchiveError::Corrupt { path, source: error };
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            ArchiveError::Busy { path, waited }
        }
        Some(ErrorCode::DiskFull) => ArchiveError::Full { path, source: error },
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            ArchiveError::Unwritable { path, source: io::Error::other(error) }
        }
        _ => ArchiveError::Database { path, source: error },
    }
}

/// A value of the wrong type is corruption too: the tables are strict.
pub(super) fn is_corruption(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::Utf8Error(..)
        | rusqlite::Error::QueryReturnedNoRows => true,
        other => matches!(
            other.sqlite_error_code(),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
        ),
    }
}
