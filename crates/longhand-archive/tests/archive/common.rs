//! What the tests share.

use longhand_archive::{MigrationSettings, SqliteArchive, SqliteSettings};
pub(crate) use longhand_testkit::contract::samples::*;
use tempfile::TempDir;

/// An archive in a folder that goes away.
pub(crate) fn fresh() -> (TempDir, SqliteArchive) {
    let folder = tempfile::tempdir().unwrap();
    let archive = SqliteArchive::open(folder.path().join("archive.db")).unwrap();
    (folder, archive)
}

/// A folder in memory where there is one: for tests with many writes and nothing to prove about
/// disks.
pub(crate) fn quick_folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// A migration that tells of no progress.
pub(crate) fn migration(opening: &dyn Fn(&str, &str) -> Option<String>) -> MigrationSettings<'_> {
    MigrationSettings {
        file: SqliteSettings::default(),
        leaves_damaged: false,
        opening,
        progress: Box::new(|_, _| {}),
    }
}
