//! Archives of every format that was ever released: this version migrates all of them, reads them and adds to them.
//!
//! `frozen/N.db` is a file of format N, and is never written anew. `LONGHAND_BLESS=1` makes the file of
//! a format that has none yet.

use std::fs;
use std::path::{Path, PathBuf};

use longhand_archive::{
    After, Archive, ArchiveError, MemoryArchive, NewEntry, NewSession, Note, NoteContent,
    NoteFilter, Origin, Owner, Page, RegretNote, Regretted, RequestRecord, Scope, SessionId,
    SqliteArchive, Write, wait,
};
use longhand_core::Seq;
use rusqlite::Connection;

use crate::common::{
    batch, begin, fold, fork, id, migration, named, record, reply, stub_handle, stubs, user,
};

/// The format that this version writes.
const NEWEST: i64 = 2;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/archive/frozen")
}

/// Writes something of every kind that an archive of a format can hold.
fn fill(archive: &dyn Archive, format: i64) {
    fill_1(archive);
    if format >= 2 {
        fill_2(archive);
    }
}

/// What format 2 brought: where sessions and entries come from, states of folds beside their batches, and notes.
fn fill_2(archive: &dyn Archive) {
    let origin = Origin {
        project: "/home/me/work".to_owned(),
        agent: "an agent".to_owned(),
        file: "a.jsonl".to_owned(),
        offset: 7,
    };
    let (session, opening) = (id("second"), "Mend the lease.".to_owned());
    let new = NewSession { origin, opening, ..named(Owner::LOCAL, "second") };
    archive.begin(session, &new).unwrap();
    let said = NewEntry { source_ms: Some(-7), ..user("Mend the lease.") };
    let noise: String = (0..300).map(|n| format!("{:x}", n * n * 7_919)).collect();
    record(archive, "second", &[said, reply(&noise), reply("Done.")]);
    for (after, last, state) in [(0, 1, "one"), (1, 2, "two")] {
        let mut new = batch(after, 2, vec![longhand_core::Edit::Fold(fold(0, last))]);
        new.batch.state = format!("1\n{}", state.repeat(50));
        archive.commit(session, &new).unwrap();
    }
    let how = Regretted::Recalled;
    let regret = RegretNote { batch: 1, how, by: None, tokens: 0, again: false };
    let regret = NoteContent::Regret(regret);
    let contents = [NoteContent::Unread("half an answer".to_owned()), regret];
    let notes = contents.map(|content| Note { at_ms: 9, handle: stub_handle(2), content });
    let write = Write { session, notes: notes.to_vec(), ..Write::default() };
    wait(archive.write(vec![write])).unwrap().remove(0).unwrap();
}

fn fill_1(archive: &dyn Archive) {
    let long = "a line of a log that compresses well\n".repeat(200);
    record(
        archive,
        "work",
        &[user("Mend the lease."), reply("Read."), reply(&long), user("Go on.")],
    );
    fork(archive, "work", Some(1), &[reply("Another way.\n\"quoted\" \\ é 😀"), user("Yes.")]);
    archive.commit(id("work"), &stubs(0, 3, &[2])).unwrap();
    archive.commit(id("work"), &batch(1, 3, vec![longhand_core::Edit::Fold(fold(1, 2))])).unwrap();
    archive.undo(id("work"), Some(Seq(3))).unwrap();
    archive.pin(id("work"), Seq(0), true).unwrap();
    archive.put_derived(id("work"), "summary", "The lease is renewed too late.").unwrap();
    let preamble = archive.keep_preamble(Owner::LOCAL, r#"{"system":"Be brief."}"#).unwrap();
    let request = RequestRecord {
        at_ms: 9,
        preamble: Some(preamble),
        model: "a-model".to_owned(),
        answer: Some("reply_1".to_owned()),
        ..RequestRecord::default()
    };
    archive.log_request(id("work"), &request).unwrap();
    let stranger = Owner::of("a key");
    let theirs = SessionId::named(stranger, "theirs");
    archive.begin(theirs, &named(stranger, "theirs")).unwrap();
    archive.append(theirs, After::Newest, &[user("Mend the lease.")]).unwrap();
    let next = begin(archive, "next");
    archive.append(next, After::Newest, &[user("A new day.")]).unwrap();
}

/// All that can be read of an archive that was filled.
fn read(archive: &dyn Archive) -> String {
    let mut lines = Vec::new();
    let theirs = SessionId::named(Owner::of("a key"), "theirs");
    for session in [id("work"), id("next"), id("second"), theirs] {
        lines.push(format!("{:?}", wait(archive.notes(NoteFilter::Session(session))).unwrap()));
        lines.push(format!("{:?}", archive.session(session).unwrap()));
        lines.push(format!("{:?}", archive.head(session).unwrap()));
        lines.push(format!("{:?}", archive.entries(session, 0..u64::MAX).unwrap()));
        lines.push(format!("{:?}", archive.tree(session).unwrap()));
        for head in [None, Some(Seq(0))] {
            lines.push(format!("{:?}", archive.path(session, head, 0..u64::MAX).unwrap()));
            lines.push(format!("{:?}", archive.live(session, head).unwrap()));
        }
        lines.push(format!("{:?}", archive.batches(session, Page::first(99)).unwrap()));
        lines.push(format!("{:?}", archive.requests(session, Page::first(99)).unwrap()));
        lines.push(format!("{:?}", archive.derived(session, "summary").unwrap()));
    }
    let scope = Scope::Owner(Owner::LOCAL);
    lines.push(format!("{:?}", archive.reference(&scope, stub_handle(2)).unwrap()));
    let hits = archive.search(&scope, "lease", 9).unwrap();
    lines.push(hits.iter().map(|hit| format!("{} {}", hit.session, hit.seq.0)).collect());
    lines.join("\n")
}

/// Migrates a file that no other command opens.
fn migrate(path: &Path, format: i64) {
    let before = fs::read(path).unwrap();
    let error = SqliteArchive::open(path).unwrap_err();
    assert!(matches!(error, ArchiveError::OtherFormat { found, .. } if found == format));
    let migrated = SqliteArchive::migrate(path, migration(&|_, _| None)).unwrap().unwrap();
    assert_eq!((migrated.sessions, migrated.entries, migrated.left_out), (3, 8, vec![]));
    assert_eq!(fs::read(migrated.kept).unwrap(), before, "it is kept as it was");
}

#[test]
fn files_of_every_released_format_are_read_and_added_to() {
    let newest = folder().join(format!("{NEWEST}.db"));
    if !newest.exists() && std::env::var_os("LONGHAND_BLESS").is_some() {
        fs::create_dir_all(folder()).unwrap();
        fill(&SqliteArchive::open(&newest).unwrap(), NEWEST);
    }
    for format in 1..=NEWEST {
        let expected = MemoryArchive::new();
        fill(&expected, format);
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("archive.db");
        fs::copy(folder().join(format!("{format}.db")), &path).unwrap();
        if format < NEWEST {
            migrate(&path, format);
        }
        let archive = SqliteArchive::open(&path).unwrap();
        assert_eq!(archive.verify(None).unwrap(), [], "format {format}");
        assert_eq!(read(&archive), read(&expected), "format {format}");
        record(&archive, "work", &[user("What comes later.")]);
        drop(archive);
        let archive = SqliteArchive::open(&path).unwrap();
        assert_eq!(archive.verify(None).unwrap(), [], "format {format}, added to");
        let entries = archive.entries(id("work"), 0..u64::MAX).unwrap();
        assert!(entries.last().unwrap().raw.contains("What comes later."), "format {format}");
        // There is nothing more to migrate.
        drop(archive);
        assert_eq!(SqliteArchive::migrate(&path, migration(&|_, _| None)).unwrap(), None);
    }
}

/// The search index is derived: one that an earlier build made is dropped, and searches work until there is another.
#[test]
fn the_index_of_an_earlier_build_is_made_anew() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("archive.db");
    fs::copy(folder().join("2.db"), &path).unwrap();
    let number = |sql: &str| -> i64 {
        Connection::open(&path).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
    };
    let old_tables = "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'word%'";
    assert_ne!(number(old_tables), 0);
    let hits = || {
        let archive = SqliteArchive::open(&path).unwrap();
        let hits = archive.search(&Scope::All, "lease", 9).unwrap();
        hits.iter().map(|hit| (hit.session, hit.seq)).collect::<Vec<_>>()
    };
    let before = hits();
    assert_ne!(before, []);
    assert_eq!(number(old_tables), 0);
    let said: Vec<_> = (0..300).map(|number| user(&format!("Number {number}."))).collect();
    record(&SqliteArchive::open(&path).unwrap(), "work", &said);
    assert_eq!(hits(), before);
    SqliteArchive::open(&path).unwrap().index().unwrap();
    assert_eq!(hits(), before);
    assert!(number("SELECT indexed FROM state") >= 256);
    assert_ne!(number("SELECT count(*) FROM index_block"), 0);
    assert_eq!(SqliteArchive::open(&path).unwrap().verify(None).unwrap(), []);
}
