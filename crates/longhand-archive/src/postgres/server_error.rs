//! What can go wrong only with an archive on a server.

use std::time::Duration;

use crate::{ArchiveError, Cause};

/// Why the server of a [`PostgresArchive`](crate::PostgresArchive) cannot be used. No password is in it.
///
/// It is the cause of an [`ArchiveError::Unusable`]; [`ArchiveError::server_error`] finds it there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The address cannot be read.
    #[error("the address of the archive cannot be read: {reason}")]
    Address {
        /// What is wrong with it.
        reason: String,
    },
    /// A file with a password or a certificate cannot be used.
    #[error("{file}: {reason}")]
    File {
        /// The file.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no connection to the server, or it was lost and did not come back in time.
    #[error("{archive} cannot be reached")]
    Unreachable {
        /// The archive.
        archive: String,
        /// What the system says.
        source: Cause,
    },
    /// The server did not answer in time.
    #[error("{archive} did not answer within {waited:.1?}")]
    Silent {
        /// The archive.
        archive: String,
        /// How long we waited.
        waited: Duration,
    },
    /// The server refuses the user.
    #[error("{archive} refuses the login: {reason}")]
    Login {
        /// The archive.
        archive: String,
        /// What the server says.
        reason: String,
    },
    /// The server has no such database.
    #[error("{archive}: {reason}")]
    NoDatabase {
        /// The archive.
        archive: String,
        /// What the server says.
        reason: String,
    },
    /// A transaction may have been made: the connection was lost while it was committed, and did not come back.
    #[error("{archive} was lost during a commit, which may have been made")]
    Uncertain {
        /// The archive.
        archive: String,
    },
    /// The server's encoding or release cannot be used.
    #[error("{archive} cannot be used: {reason}")]
    Unfit {
        /// The archive.
        archive: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl From<ServerError> for ArchiveError {
    fn from(error: ServerError) -> Self {
        ArchiveError::Unusable(error.into())
    }
}

impl ArchiveError {
    /// Returns what is wrong with the server of a [`PostgresArchive`](crate::PostgresArchive), if that is the error.
    pub fn server_error(&self) -> Option<&ServerError> {
        match self {
            ArchiveError::Unusable(cause) => cause.downcast_ref(),
            _ => None,
        }
    }
}
