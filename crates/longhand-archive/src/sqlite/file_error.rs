//! What can go wrong only with an archive that is a file.

use crate::ArchiveError;

/// Why the file of a [`SqliteArchive`](crate::SqliteArchive) cannot be used.
///
/// It is the cause of an [`ArchiveError::Unusable`]; [`ArchiveError::file_error`] finds it there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// There is something where a new file should be; it was left as it is.
    #[error("{path} exists already")]
    Exists {
        /// The path.
        path: String,
    },
    /// The address names another kind of storage than a file.
    #[error("`{address}` is not supported: give the path of a file, for example `longhand.db`")]
    UnsupportedAddress {
        /// What was to be opened, without its password.
        address: String,
    },
    /// The file is on a file system on which concurrent writers would destroy it.
    #[error("{archive} is on a network file system ({kind})")]
    Network {
        /// The path of the archive.
        archive: String,
        /// The kind of file system.
        kind: String,
    },
    /// The path no longer leads to the file that was opened; nothing more is written to either.
    #[error("{archive} was moved, removed or replaced while it was in use")]
    Moved {
        /// The path of the archive, or of its log.
        archive: String,
    },
    /// Another process has the file open, which must not be open to be migrated.
    #[error("{archive} is in use by another program")]
    InUse {
        /// The path of the archive.
        archive: String,
    },
    /// The log beside the archive goes on from another file, or from another state of this one; neither
    /// was touched.
    #[error("the log {log} belongs to another file than {archive}")]
    ForeignLog {
        /// The path of the archive.
        archive: String,
        /// The path of the log, which ends in `-wal`.
        log: String,
    },
    /// This program was built with a release of SQLite that can damage archives.
    #[error("{archive} cannot be opened safely: {reason}")]
    Unsafe {
        /// The path of the archive.
        archive: String,
        /// What is wrong with the library.
        reason: String,
    },
}

impl From<FileError> for ArchiveError {
    fn from(error: FileError) -> Self {
        ArchiveError::Unusable(error.into())
    }
}

impl ArchiveError {
    /// Returns what is wrong with the file of a [`SqliteArchive`](crate::SqliteArchive), if that is the error.
    pub fn file_error(&self) -> Option<&FileError> {
        match self {
            ArchiveError::Unusable(cause) => cause.downcast_ref(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn people_read_the_particulars_once() {
        let error = ArchiveError::from(FileError::Exists { path: "copy.db".to_owned() });
        assert_eq!(error.to_string(), "copy.db exists already");
        assert!(error.source().is_none(), "a printed chain would say it twice");
        assert!(matches!(error.file_error(), Some(FileError::Exists { .. })));
    }
}
