//! What is opened, what is refused, and who may read it.

use std::fs;
use std::path::Path;
use std::thread;

use longhand_archive::{
    After, Archive, ArchiveError, FileError, NewEntry, Owner, Page, Reference, Scope, SqliteArchive,
};
use longhand_core::{Original, Seq};
use rusqlite::Connection;

use crate::common::{
    fold, folds, fresh, id, record, reply, stub_handle, stubs, user, with_variants,
};

#[test]
fn what_was_written_is_there_when_opened_again() {
    let (folder, archive) = fresh();
    record(&archive, "s", &[user("one"), user("two")]);
    archive.commit(id("s"), &stubs(0, 1, &[0])).unwrap();
    archive.commit(id("s"), &folds(1, 1, 0, 1)).unwrap();
    let head = archive.head(id("s")).unwrap();
    let live = archive.live(id("s"), None).unwrap();
    drop(archive);
    let files: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(files.len(), 1, "a closed archive is one file: {files:?}");
    let archive = SqliteArchive::open(folder.path().join("archive.db")).unwrap();
    assert_eq!(archive.head(id("s")).unwrap(), head);
    assert_eq!(archive.live(id("s"), None).unwrap(), live);
    let found = |handle| archive.reference(&Scope::Session(id("s")), handle).unwrap();
    assert!(matches!(found(stub_handle(0)), Some(Reference::Part { .. })));
    assert!(matches!(found(fold(0, 1).handle()), Some(Reference::Fold { .. })));
    assert_eq!(archive.verify(None).unwrap(), []);
}

#[cfg(unix)]
#[test]
fn nobody_else_may_read_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let archive = SqliteArchive::open(folder.path().join("new/deep/archive.db")).unwrap();
    record(&archive, "s", &[user("one")]);
    let mode =
        |path: &str| fs::metadata(folder.path().join(path)).unwrap().permissions().mode() & 0o777;
    for file in ["archive.db", "archive.db-wal", "archive.db-shm"] {
        assert_eq!(mode(&format!("new/deep/{file}")), 0o600, "{file}");
    }
    assert_eq!((mode("new"), mode("new/deep")), (0o700, 0o700));
}

#[test]
fn those_who_create_it_at_once_share_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("archive.db");
    thread::scope(|scope| {
        for writer in 0..8 {
            let path = &path;
            scope.spawn(move || {
                let archive = SqliteArchive::open(path).unwrap();
                record(&archive, "s", &[user(&writer.to_string())]);
            });
        }
    });
    let archive = SqliteArchive::open(&path).unwrap();
    assert_eq!(archive.head(id("s")).unwrap().unwrap().entries, 8);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "no drafts are left");
}

/// Checks that a file is refused, by name, and left as it is.
fn refused(path: &Path) -> ArchiveError {
    let before = fs::read(path).unwrap();
    let error = SqliteArchive::open(path).unwrap_err();
    assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    assert_eq!(fs::read(path).unwrap(), before);
    error
}

#[test]
fn other_files_are_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in [("empty", ""), ("short", "SQLite"), ("text", "Dear diary, today I")] {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        let error = refused(&path);
        assert!(matches!(error, ArchiveError::NotAnArchive { .. }), "{name}: {error:?}");
    }
    let path = folder.path().join("other.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE session (id)").unwrap();
    let error = refused(&path);
    assert!(matches!(error, ArchiveError::NotAnArchive { .. }), "{error:?}");
}

#[test]
fn another_format_is_refused_and_left_alone() {
    let (folder, archive) = fresh();
    record(&archive, "s", &[user("one")]);
    drop(archive);
    let path = folder.path().join("archive.db");
    for format in [3, 99] {
        let db = Connection::open(&path).unwrap();
        db.execute_batch(&format!("PRAGMA user_version = {format}")).unwrap();
        drop(db);
        let error = refused(&path);
        assert!(
            matches!(error, ArchiveError::OtherFormat { found, .. } if found == format),
            "{error:?}"
        );
    }
}

#[test]
fn a_changed_table_is_noticed() {
    let (folder, archive) = fresh();
    drop(archive);
    let path = folder.path().join("archive.db");
    let db = Connection::open(&path).unwrap();
    db.execute_batch("ALTER TABLE pins RENAME COLUMN seqs TO seq").unwrap();
    drop(db);
    let error = refused(&path);
    assert!(matches!(error, ArchiveError::Corrupt { .. }), "{error:?}");
}

#[test]
fn places_that_cannot_be_written_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    // Modes do not bind root, so the places are impossible ones.
    for path in [
        Path::new("/proc/longhand/archive.db"),
        Path::new("/proc/archive.db"),
        &file.join("archive.db"),
        folder.path(),
    ] {
        let error = SqliteArchive::open(path).unwrap_err();
        assert!(matches!(error, ArchiveError::Unwritable { .. }), "{error:?}");
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    }
}

#[test]
fn an_address_is_not_taken_for_a_path() {
    for address in ["postgres://me:secret@host/db", "postgresql://h", "sqlite://x.db", "s3+x://b"] {
        let error = SqliteArchive::open(address).unwrap_err();
        let is_refused = matches!(error.file_error(), Some(FileError::UnsupportedAddress { .. }));
        assert!(is_refused, "{error:?}");
        assert!(error.to_string().contains("path of a file"), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
        assert!(!Path::new(address.split('/').next().unwrap()).exists(), "{address}");
    }
}

#[test]
fn removing_a_session_wipes_its_words() {
    let (folder, archive) = fresh();
    let secret = |n: usize| user(&format!("number {n}: sk-verysecretkey{n} belongs to nobody"));
    record(&archive, "keep", &[user("harmless words")]);
    record(&archive, "drop", &(0..300).map(secret).collect::<Vec<_>>());
    // What both said is one body.
    let shared = user("said in both");
    record(&archive, "drop", std::slice::from_ref(&shared));
    record(&archive, "keep", &[user("harmless again"), shared.clone()]);
    assert_eq!(archive.search(&Scope::All, "verysecretkey7", 9).unwrap().len(), 1);
    assert!(archive.remove(id("drop")).unwrap());
    assert_eq!(archive.search(&Scope::All, "verysecretkey7", 9).unwrap(), []);
    drop(archive);
    let bytes = fs::read(folder.path().join("archive.db")).unwrap();
    let count = memchr::memmem::find_iter(&bytes, "verysecretkey").count();
    assert_eq!(count, 0, "traces in the file");
    let archive = SqliteArchive::open(folder.path().join("archive.db")).unwrap();
    assert_eq!(archive.entries(id("keep"), 0..9).unwrap()[2].raw, shared.raw);
    assert_eq!(archive.search(&Scope::All, "harmless", 9).unwrap().len(), 2);
    assert_eq!(archive.verify(None).unwrap(), []);
}

#[cfg(unix)]
#[test]
fn a_log_that_is_removed_is_noticed_and_nothing_in_it_is_lost() {
    for reads_first in [false, true] {
        let (folder, archive) = fresh();
        let path = folder.path().join("archive.db");
        for count in 0..20 {
            record(&archive, "s", &[user(&format!("no{count}"))]);
        }
        fs::remove_file(folder.path().join("archive.db-wal")).unwrap();
        let error = if reads_first {
            archive.head(id("s")).unwrap_err()
        } else {
            archive.append(id("s"), After::Newest, &[user("late")]).unwrap_err()
        };
        assert!(matches!(error.file_error(), Some(FileError::Moved { .. })), "{error:?}");
        assert!(error.to_string().contains("archive.db-wal"), "{error}");
        // As a kill would leave it: nobody closes anything.
        let copy = folder.path().join("copy.db");
        fs::copy(&path, &copy).unwrap();
        let rescued = SqliteArchive::open(&copy).unwrap();
        assert_eq!(rescued.entries(id("s"), 0..99).unwrap().len(), 20);
        assert_eq!(rescued.verify(None).unwrap(), []);
        drop(archive);
        let archive = SqliteArchive::open(&path).unwrap();
        assert_eq!(record(&archive, "s", &[user("on it goes")]).seqs, [Seq(20)]);
    }
}

#[cfg(unix)]
#[test]
fn a_link_leads_to_the_archive_and_a_dangling_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (real, link) = (folder.path().join("real/archive.db"), folder.path().join("link.db"));
    let archive = SqliteArchive::open(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let linked = SqliteArchive::open(&link).unwrap();
    record(&archive, "s", &[user("one")]);
    assert_eq!(record(&linked, "s", &[user("two")]).seqs, [Seq(1)]);
    drop((archive, linked));
    assert_eq!(SqliteArchive::open(&real).unwrap().head(id("s")).unwrap().unwrap().entries, 2);
    fs::remove_file(&real).unwrap();
    let error = SqliteArchive::open(&link).unwrap_err();
    assert!(error.to_string().contains("link.db"), "{error}");
}

#[test]
fn a_clock_that_runs_backwards_changes_no_order() {
    let (_folder, archive) = fresh();
    for count in 0..9_i64 {
        let said = NewEntry { at_ms: 1_000_000 - count * 50_000, ..user(&format!("no{count}")) };
        record(&archive, "s", &[said]);
        record(&archive, &format!("t{count}"), &[user("x")]);
    }
    let entries = archive.entries(id("s"), 0..99).unwrap();
    let said: Vec<bool> = entries
        .iter()
        .enumerate()
        .map(|(at, entry)| entry.raw.contains(&format!("no{at}")))
        .collect();
    assert_eq!(said, [true; 9]);
    let names: Vec<String> = archive
        .sessions(None, Page::first(2))
        .unwrap()
        .items
        .into_iter()
        .map(|session| session.name)
        .collect();
    assert_eq!(names, ["t8", "s"], "by what was appended last");
    assert_eq!(archive.verify(None).unwrap(), []);
}

#[test]
fn variants_come_back_after_reopening() {
    let (_folder, archive) = fresh();
    let variants = [
        (stub_handle(0), Original::Text("as it was sent \0 \u{1f600}".to_owned())),
        (stub_handle(1), Original::Json(String::new())),
    ];
    record(&archive, "s", &[user("0"), reply("1")]);
    let new = with_variants(stubs(0, 1, &[0]), &variants);
    archive.commit(id("s"), &new).unwrap();
    let path = archive.file().to_owned();
    drop(archive);
    let archive = SqliteArchive::open(path).unwrap();
    for (handle, original) in variants {
        let found = archive.reference(&Scope::Owner(Owner::LOCAL), handle).unwrap();
        assert_eq!(found, Some(Reference::Variant { session: id("s"), original }));
    }
    assert_eq!(archive.live(id("s"), None).unwrap()[0].batch, new.batch);
    assert_eq!(archive.verify(None).unwrap(), []);
}
