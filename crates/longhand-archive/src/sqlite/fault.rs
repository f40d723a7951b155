//! Errors inside the backend, before the path of the archive is added.

use std::time::Duration;

use rusqlite::ErrorCode;

use crate::{ArchiveError, Damage, DamagedPart, SessionId};

/// An error without the path of its archive.
#[derive(Debug)]
pub(super) enum Fault {
    /// SQLite reports it.
    Sqlite(rusqlite::Error),
    /// A checksum does not match.
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
    pub(super) fn damage(session: SessionId, part: DamagedPart, detail: &str) -> Self {
        Fault::Damage(Damage { session: Some(session), part, detail: detail.to_owned() })
    }

    pub(super) fn is_busy(&self) -> bool {
        let code = match self {
            Fault::Sqlite(error) => error.sqlite_error_code(),
            _ => None,
        };
        matches!(code, Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
    }

    pub(super) fn into_error(self, archive: &str, waited: Duration) -> ArchiveError {
        match self {
            Fault::Sqlite(error) => classified(error, archive, waited),
            Fault::Damage(damage) => {
                ArchiveError::Damaged { archive: archive.to_owned(), damage: Box::new(damage) }
            }
            Fault::Refused(error) => error,
        }
    }
}

/// Turns the error of reading a row into damage if the row is there but illegible.
pub(super) fn illegible_as(
    damage: impl FnOnce() -> Fault,
) -> impl FnOnce(rusqlite::Error) -> Fault {
    move |error| if is_illegible(&error) { damage() } else { error.into() }
}

/// Classifies an error of SQLite.
fn classified(error: rusqlite::Error, archive: &str, waited: Duration) -> ArchiveError {
    let archive = archive.to_owned();
    let is_corruption = is_corruption(&error);
    let code = error.sqlite_error_code();
    let source = error.into();
    match code {
        _ if is_corruption => ArchiveError::Corrupt { archive, source },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            ArchiveError::Busy { archive, waited }
        }
        Some(ErrorCode::DiskFull) => ArchiveError::Full { archive, source },
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            ArchiveError::Unwritable { archive, source }
        }
        _ => ArchiveError::Failed { archive, source },
    }
}

/// A value of the wrong type is corruption too: the tables are strict.
pub(super) fn is_corruption(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    is_illegible(error)
        || matches!(code, Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// Returns whether a row was found but its values are not what its table holds.
pub(super) fn is_illegible(error: &rusqlite::Error) -> bool {
    matches!(
        error,
        rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..)
            | rusqlite::Error::QueryReturnedNoRows
    )
}
