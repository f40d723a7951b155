//! Whether an archive is still the file that was opened.

use std::fs;
use std::path::{Path, PathBuf};

use crate::ArchiveError;

/// The files of an archive by their paths, and which files these were when it was opened.
#[derive(Clone, Debug)]
pub(super) struct Place {
    path: PathBuf,
    file: Option<FileId>,
    /// The log. Without it, what was written since it was last brought home is in no file that can be found.
    log: PathBuf,
    log_file: Option<FileId>,
}

/// The device and the number of a file there.
type FileId = (u64, u64);

impl Place {
    /// The files of an archive that is open.
    pub(super) fn of(path: &Path) -> Self {
        // SQLite keeps the log beside the file itself, not beside a link to it.
        let mut log = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()).into_os_string();
        log.push("-wal");
        let (log, path) = (PathBuf::from(log), path.to_owned());
        Self { file: file_id(&path), path, log_file: file_id(&log), log }
    }

    /// Refuses to go on with a file that nobody would find again: what is written to it would be lost.
    pub(super) fn check(&self) -> Result<(), ArchiveError> {
        let moved = |path: &Path| ArchiveError::Moved { archive: path.display().to_string() };
        if self.file != file_id(&self.path) {
            return Err(moved(&self.path));
        }
        if self.is_log_lost() {
            return Err(moved(&self.log));
        }
        Ok(())
    }

    /// Whether the archive is there and its log is not.
    pub(super) fn is_log_lost(&self) -> bool {
        self.log_file.is_some() && self.log_file != file_id(&self.log)
    }
}

#[cfg(unix)]
fn file_id(path: &Path) -> Option<FileId> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// Elsewhere a file that is open cannot be moved away.
#[cfg(not(unix))]
fn file_id(path: &Path) -> Option<FileId> {
    fs::metadata(path).ok().map(|_| (0, 0))
}
