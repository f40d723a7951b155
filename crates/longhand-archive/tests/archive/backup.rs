//! Copies of an archive that is in use.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use longhand_archive::{Archive, ArchiveError, FileError, Scope, SqliteArchive};

use crate::common::{fresh, id, record, stubs, user};

#[test]
fn a_copy_has_all_that_was_acknowledged_before_it_began() {
    let (folder, archive) = fresh();
    let copy = folder.path().join("copy.db");
    let filler = "filler ".repeat(2_000);
    for number in 0..200 {
        record(&archive, "s", &[user(&format!("needle{number} {filler}"))]);
    }
    archive.commit(id("s"), &stubs(0, 3, &[1, 2])).unwrap();
    let acknowledged = AtomicU64::new(200);
    let has_ended = AtomicBool::new(false);
    let (before, mut steps) = thread::scope(|scope| {
        scope.spawn(|| {
            while !has_ended.load(Ordering::Relaxed) {
                let number = acknowledged.load(Ordering::Relaxed);
                record(&archive, "s", &[user(&format!("needle{number} {filler}"))]);
                acknowledged.fetch_add(1, Ordering::Relaxed);
            }
        });
        let before = acknowledged.load(Ordering::Relaxed);
        let mut steps = Vec::new();
        let outcome = archive.backup(&copy, |done, all| {
            // Somebody writes between any two steps.
            let seen = acknowledged.load(Ordering::Relaxed);
            while acknowledged.load(Ordering::Relaxed) < seen + 2 {
                thread::yield_now();
            }
            steps.push((done, all));
        });
        has_ended.store(true, Ordering::Relaxed);
        outcome.unwrap();
        (before, steps)
    });
    let (done, all) = steps.pop().unwrap_or((1, 1));
    assert!(done <= all && steps.is_sorted(), "{steps:?}");
    let mut beside: Vec<String> = fs::read_dir(folder.path())
        .unwrap()
        .map(|file| file.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    beside.sort_unstable();
    assert_eq!(beside, ["archive.db", "archive.db-shm", "archive.db-wal", "copy.db"]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let found = SqliteArchive::open(&copy).unwrap();
    assert_eq!(found.verify(None).unwrap(), []);
    let entries = found.head(id("s")).unwrap().unwrap().entries;
    assert!(entries >= before, "{entries} of {before}");
    assert_eq!(
        found.entries(id("s"), 0..before).unwrap(),
        archive.entries(id("s"), 0..before).unwrap()
    );
    assert_eq!(found.live(id("s"), None).unwrap(), archive.live(id("s"), None).unwrap());
    assert_eq!(found.search(&Scope::All, "needle7", 9).unwrap().len(), 1);
    // The copy is an archive of its own.
    record(&found, "s", &[user("only in the copy")]);
    record(&archive, "s", &[user("only in the original")]);
    assert_eq!(archive.verify(None).unwrap(), []);
}

#[test]
fn a_copy_never_replaces_anything() {
    let (folder, archive) = fresh();
    record(&archive, "s", &[user("one")]);
    let taken = folder.path().join("taken.db");
    fs::write(&taken, "mine").unwrap();
    for target in [&taken, &folder.path().join("archive.db")] {
        let error = archive.backup(target, |_, _| {}).unwrap_err();
        assert!(matches!(error.file_error(), Some(FileError::Exists { .. })), "{error:?}");
    }
    assert_eq!(fs::read_to_string(&taken).unwrap(), "mine");
    let nowhere = folder.path().join("no/such/folder/copy.db");
    let error = archive.backup(&nowhere, |_, _| {}).unwrap_err();
    assert!(matches!(error, ArchiveError::Unwritable { .. }), "{error:?}");
    assert_eq!(archive.verify(None).unwrap(), []);
}

#[test]
fn a_copy_of_a_damaged_archive_is_refused() {
    let (folder, archive) = fresh();
    record(&archive, "s", &[user("one"), user("two")]);
    let db = rusqlite::Connection::open(folder.path().join("archive.db")).unwrap();
    db.execute("UPDATE body SET content = x'006f' WHERE id = 2", []).unwrap();
    let copy = folder.path().join("copy.db");
    let error = archive.backup(&copy, |_, _| {}).unwrap_err();
    assert!(error.to_string().contains("entry 1 failed its checksum"), "{error}");
    assert!(!copy.exists());
}
