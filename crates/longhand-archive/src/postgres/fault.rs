//! What can go wrong on the way to a statement, before it becomes an error of the archive.

use std::time::Duration;

use tokio_postgres::error::SqlState;

use super::ServerError;
use crate::{ArchiveError, Cause, Damage, DamagedPart, SessionId};

/// What can go wrong while a connection is used.
#[derive(Debug)]
pub(super) enum Fault {
    /// The server or the connection says so.
    Database(tokio_postgres::Error),
    /// No connection was to be had.
    NoConnection(Cause),
    /// The server did not answer in time.
    Late,
    /// What was read is not what was written.
    Damage(Damage),
    /// The request cannot be done.
    Refused(ArchiveError),
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

impl From<ArchiveError> for Fault {
    fn from(error: ArchiveError) -> Self {
        Self::Refused(error)
    }
}

/// States in which the server takes no statements, or has ended the connection; of another one, it may.
const LOST: [SqlState; 9] = [
    SqlState::ADMIN_SHUTDOWN,
    SqlState::CRASH_SHUTDOWN,
    SqlState::CANNOT_CONNECT_NOW,
    SqlState::CONNECTION_EXCEPTION,
    SqlState::CONNECTION_DOES_NOT_EXIST,
    SqlState::CONNECTION_FAILURE,
    SqlState::PROTOCOL_VIOLATION,
    SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
    SqlState::TOO_MANY_CONNECTIONS,
];

/// States after which the same transaction may succeed: another one was in its way.
const IN_THE_WAY: [SqlState; 3] = [
    SqlState::T_R_SERIALIZATION_FAILURE,
    SqlState::T_R_DEADLOCK_DETECTED,
    SqlState::UNIQUE_VIOLATION,
];

impl Fault {
    pub(super) fn damage(session: SessionId, part: DamagedPart, detail: &str) -> Self {
        Self::Damage(Damage { session: Some(session), part, detail: detail.to_owned() })
    }

    fn state(&self) -> Option<&SqlState> {
        match self {
            Self::Database(error) => error.code(),
            _ => None,
        }
    }

    /// Whether the server could not be asked, so that it can be asked again.
    pub(super) fn is_lost(&self) -> bool {
        match self {
            Self::Database(error) => match error.code() {
                Some(state) => LOST.contains(state),
                None => error.is_closed() || std::error::Error::source(error).is_some_and(is_io),
            },
            Self::NoConnection(cause) => {
                let database = cause.downcast_ref::<tokio_postgres::Error>();
                let state = database.and_then(tokio_postgres::Error::code);
                state.is_none_or(|state| LOST.contains(state))
                    && cause.downcast_ref::<ServerError>().is_none()
            }
            Self::Late => true,
            Self::Damage(_) | Self::Refused(_) => false,
        }
    }

    /// Whether the server takes no writes.
    pub(super) fn is_read_only(&self) -> bool {
        self.state().is_some_and(|state| *state == SqlState::READ_ONLY_SQL_TRANSACTION)
    }

    /// Whether another transaction was in the way.
    pub(super) fn is_in_the_way(&self) -> bool {
        self.state().is_some_and(|state| IN_THE_WAY.contains(state))
    }

    /// The error of the archive.
    pub(super) fn into_error(self, archive: &str, waited: Duration) -> ArchiveError {
        let archive = archive.to_owned();
        match self {
            Self::Refused(error) => error,
            Self::Damage(damage) => ArchiveError::Damaged { archive, damage: Box::new(damage) },
            Self::Late => ServerError::Silent { archive, waited }.into(),
            Self::NoConnection(cause) => match cause.downcast::<tokio_postgres::Error>() {
                Ok(error) => of_connection(archive, *error),
                Err(source) => match source.downcast::<ServerError>() {
                    Ok(error) => (*error).into(),
                    Err(source) => ServerError::Unreachable { archive, source }.into(),
                },
            },
            Self::Database(error) => of_statement(archive, error, waited),
        }
    }
}

fn is_io(error: &(dyn std::error::Error + 'static)) -> bool {
    error.downcast_ref::<std::io::Error>().is_some()
}

fn of_connection(archive: String, error: tokio_postgres::Error) -> ArchiveError {
    let says = |error: &tokio_postgres::Error| {
        error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned())
    };
    match error.code() {
        Some(state)
            if [SqlState::INVALID_PASSWORD, SqlState::INVALID_AUTHORIZATION_SPECIFICATION]
                .contains(state) =>
        {
            ServerError::Login { archive, reason: says(&error) }.into()
        }
        Some(state) if *state == SqlState::INVALID_CATALOG_NAME => {
            ServerError::NoDatabase { archive, reason: says(&error) }.into()
        }
        // A password is missing, or the server asks for a way to log in that is not known here.
        None if error.to_string().contains("password") => {
            ServerError::Login { archive, reason: "a password is needed".to_owned() }.into()
        }
        _ => ServerError::Unreachable { archive, source: error.into() }.into(),
    }
}

fn of_statement(archive: String, error: tokio_postgres::Error, waited: Duration) -> ArchiveError {
    let Some(state) = error.code() else {
        let source = error.into();
        return ServerError::Unreachable { archive, source }.into();
    };
    let is = |states: &[SqlState]| states.contains(state);
    if is(&[SqlState::LOCK_NOT_AVAILABLE]) {
        ArchiveError::Busy { archive, waited }
    } else if is(&[SqlState::DISK_FULL, SqlState::OUT_OF_MEMORY]) {
        ArchiveError::Full { archive, source: error.into() }
    } else if is(&[SqlState::READ_ONLY_SQL_TRANSACTION, SqlState::INSUFFICIENT_PRIVILEGE]) {
        ArchiveError::Unwritable { archive, source: error.into() }
    } else if is(&[SqlState::DATA_CORRUPTED, SqlState::INDEX_CORRUPTED]) {
        ArchiveError::Corrupt { archive, source: error.into() }
    } else if is(&LOST) {
        ServerError::Unreachable { archive, source: error.into() }.into()
    } else {
        ArchiveError::Failed { archive, source: error.into() }
    }
}
