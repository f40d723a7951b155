//! Migrations of generated archives, whole and cut off.
//!
//! `LONGHAND_MIGRATED_BYTES` and `LONGHAND_KILLS` say how large an archive is and how often a migration is killed; the
//! defaults are for every day.

use std::collections::HashMap;
use std::env;
use std::ops::ControlFlow;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use longhand_core::{Batch, Link, Meaning, Seq};
use longhand_testkit::filler;
use longhand_testkit::rng::Rng;

use super::*;
use crate::number::push_number;
use crate::sqlite::seal::{Seal, Sealer};
use crate::sqlite::session::{first_seal, signed};
use crate::sqlite::{pack, session::StoredSession};
use crate::{
    After, Archive as _, BatchRecord, Key, NewBatch, NewEntry, NewSession, NoteFilter, Owner, Page,
    Record, RegretNote, Regretted, RequestRecord, Scope, Storage as _, Write, codec, wait,
};

/// The tables of format 1 that a migration reads.
const OLD_TABLES: &str = "
CREATE TABLE session (id INTEGER PRIMARY KEY AUTOINCREMENT, key BLOB UNIQUE, owner BLOB NOT NULL, continues BLOB,
    kin INTEGER, begun_ms INTEGER NOT NULL, seal BLOB NOT NULL, dialect TEXT NOT NULL, name TEXT NOT NULL) STRICT;
CREATE TABLE head (session INTEGER PRIMARY KEY REFERENCES session, entries INTEGER NOT NULL, bytes INTEGER NOT NULL,
    first_ms INTEGER NOT NULL, last_ms INTEGER NOT NULL, newest INTEGER NOT NULL, parent INTEGER, jump INTEGER,
    depth INTEGER NOT NULL, round INTEGER NOT NULL, link BLOB NOT NULL, entry_seal BLOB NOT NULL,
    batches INTEGER NOT NULL, batch_seal BLOB NOT NULL, undos INTEGER NOT NULL, undo_seal BLOB NOT NULL,
    requests INTEGER NOT NULL, pins BLOB NOT NULL, seal BLOB NOT NULL) STRICT;
CREATE TABLE entry (id INTEGER PRIMARY KEY, session INTEGER NOT NULL REFERENCES session, seq INTEGER NOT NULL,
    parent INTEGER, jump INTEGER, depth INTEGER NOT NULL, round INTEGER NOT NULL, at_ms INTEGER NOT NULL, body INTEGER,
    link BLOB NOT NULL, seal BLOB NOT NULL, hash BLOB NOT NULL, form TEXT NOT NULL, excerpt BLOB NOT NULL, raw TEXT,
    UNIQUE (session, seq)) STRICT;
CREATE TABLE batch (id INTEGER PRIMARY KEY, session INTEGER NOT NULL REFERENCES session, number INTEGER NOT NULL,
    after INTEGER NOT NULL, reach INTEGER, at_ms INTEGER NOT NULL, seal BLOB NOT NULL, receipt TEXT NOT NULL,
    edits BLOB NOT NULL) STRICT;
CREATE TABLE undo (id INTEGER PRIMARY KEY, session INTEGER NOT NULL REFERENCES session, number INTEGER NOT NULL,
    batch INTEGER NOT NULL, seal BLOB NOT NULL, UNIQUE (session, number)) STRICT;
CREATE TABLE pins (session INTEGER PRIMARY KEY REFERENCES session, seqs BLOB NOT NULL) STRICT;
CREATE TABLE preamble (id INTEGER PRIMARY KEY, key BLOB NOT NULL, owner BLOB NOT NULL, content TEXT NOT NULL,
    UNIQUE (key, owner)) STRICT;
CREATE TABLE request (id INTEGER PRIMARY KEY, session INTEGER NOT NULL REFERENCES session, number INTEGER NOT NULL,
    at_ms INTEGER NOT NULL, preamble BLOB, head INTEGER, batch INTEGER NOT NULL, most INTEGER NOT NULL,
    before INTEGER NOT NULL, shown INTEGER NOT NULL, sent INTEGER NOT NULL, cached INTEGER NOT NULL,
    output INTEGER NOT NULL, cost INTEGER, edits INTEGER NOT NULL, seal BLOB NOT NULL, model TEXT NOT NULL,
    agent TEXT NOT NULL, answer TEXT, cut INTEGER NOT NULL, aside INTEGER NOT NULL, bypassed INTEGER NOT NULL,
    UNIQUE (session, number)) STRICT;
CREATE TABLE derived (id INTEGER PRIMARY KEY, session INTEGER NOT NULL REFERENCES session, key TEXT NOT NULL,
    seal BLOB NOT NULL, value TEXT NOT NULL, UNIQUE (session, key)) STRICT;
CREATE TABLE value (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
PRAGMA application_id = 1280265799; PRAGMA user_version = 1; PRAGMA journal_mode = WAL;";

/// Writes what an archive holds as format 1 had it.
fn downgrade(new: &Path, old: &Path) {
    let db = Connection::open(old).unwrap();
    db.execute_batch("PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF").unwrap();
    db.execute_batch(OLD_TABLES).unwrap();
    db.execute("ATTACH ?1 AS new", [new.to_str().unwrap()]).unwrap();
    // These are the same.
    db.execute_batch(
        "BEGIN; INSERT INTO undo SELECT * FROM new.undo; INSERT INTO pins SELECT * FROM new.pins;
         INSERT INTO request SELECT id, session, number, at_ms, preamble, head, batch, most, before, shown, sent,
         cached, output, cost, edits, seal, model, agent, answer, cut, aside, bypassed FROM new.request;
         INSERT INTO value SELECT * FROM new.value;",
    )
    .unwrap();
    let new = Connection::open(new).unwrap();
    let mut sessions: HashMap<i64, StoredSession> = HashMap::new();
    for (row, key) in rows(&new, "SELECT id, key FROM session ORDER BY id", |row| {
        Ok((row.get(0)?, row.get::<_, Option<[u8; 16]>>(1)?))
    }) {
        // One that was removed has entries and no name any more.
        let Some(id) = key.map(SessionId::from_bytes) else {
            let insert =
                "INSERT INTO session VALUES (?1, NULL, x'00', NULL, NULL, 0, x'00', '', '')";
            db.execute(insert, [row]).unwrap();
            continue;
        };
        let found = session::find_row(&new, id).unwrap().unwrap().new;
        let (owner, continues) = (found.owner.to_bytes(), found.continues.map(SessionId::to_bytes));
        let seal = Sealer::new("session")
            .bytes(&id.to_bytes())
            .bytes(&owner)
            .bytes(continues.as_ref().map_or(&[], |id| &id[..]))
            .optional(found.group)
            .time(found.begun_ms)
            .bytes(found.dialect.as_bytes())
            .bytes(found.name.as_bytes())
            .seal();
        let kin = found.group.map(u64::cast_signed);
        let (begun_ms, dialect, name) = (found.begun_ms, found.dialect, found.name);
        let values = (row, id.to_bytes(), owner, continues, kin, begun_ms, seal, dialect, name);
        let insert = "INSERT INTO session VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
        db.execute(insert, values).unwrap();
        sessions.insert(row, session::find(&new, id).unwrap().unwrap());
    }
    let newest = downgrade_entries(&new, &db, &sessions);
    for (row, session) in &sessions {
        let batch_seal = downgrade_batches(&new, &db, session);
        downgrade_values(&new, &db, session);
        downgrade_head(&new, &db, session, newest.get(row).copied(), batch_seal);
    }
    for (key, owner, content) in rows(&new, "SELECT key, owner, content FROM preamble", |row| {
        Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, Vec<u8>>(1)?, row.get::<_, Vec<u8>>(2)?))
    }) {
        let content = pack::unpack_text(&content).unwrap();
        let insert = "INSERT INTO preamble VALUES (NULL, ?1, ?2, ?3)";
        db.execute(insert, (key, owner, content)).unwrap();
    }
    db.execute_batch("COMMIT").unwrap();
}

fn rows<T>(
    db: &Connection,
    sql: &str,
    read: impl Fn(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> Vec<T> {
    let mut select = db.prepare(sql).unwrap();
    let rows = select.query_map([], read).unwrap();
    rows.map(Result::unwrap).collect()
}

/// The checksum and the `jump` of an entry of format 1.
type OldNode = (Seal, Option<i64>);

/// Writes the entries, and returns what the last one of each session has.
fn downgrade_entries(
    new: &Connection,
    db: &Connection,
    sessions: &HashMap<i64, StoredSession>,
) -> HashMap<i64, OldNode> {
    let mut seals: HashMap<(i64, i64), OldNode> = HashMap::new();
    let mut newest = HashMap::new();
    let mut select = new
        .prepare(
            "SELECT entry.id, session, seq, parent, depth, round, at_ms, body, link, hash, form, excerpt, content \
             FROM entry LEFT JOIN body ON body.id = entry.id ORDER BY entry.id",
        )
        .unwrap();
    let mut insert = db
        .prepare(
            "INSERT INTO entry VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
        )
        .unwrap();
    let mut rows = select.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        let (id, session, seq): (i64, i64, i64) =
            (row.get(0).unwrap(), row.get(1).unwrap(), row.get(2).unwrap());
        let parent: Option<i64> = row.get(3).unwrap();
        // Early files had farther ancestors there.
        let jump = parent.map(|parent| if seq % 3 == 0 { parent / 2 } else { parent });
        let (depth, round, at_ms): (i64, i64, i64) =
            (row.get(4).unwrap(), row.get(5).unwrap(), row.get(6).unwrap());
        let body: Option<i64> = row.get(7).unwrap();
        let (link, hash): (Vec<u8>, Vec<u8>) = (row.get(8).unwrap(), row.get(9).unwrap());
        let (form, excerpt): (String, Vec<u8>) = (row.get(10).unwrap(), row.get(11).unwrap());
        let content: Option<Vec<u8>> = row.get(12).unwrap();
        let raw = body.is_none().then(|| pack::unpack_text(&content.unwrap()).unwrap());
        let session_id = sessions.get(&session).map(|session| session.id).unwrap_or_default();
        let before = match parent {
            Some(parent) => seals[&(session, parent)].0,
            None => first_seal(session_id, "entries"),
        };
        let seal = Sealer::new("entry")
            .bytes(&before)
            .number(seq.cast_unsigned())
            .optional(parent.map(i64::cast_unsigned))
            .optional(jump.map(i64::cast_unsigned))
            .number(depth.cast_unsigned())
            .number(round.cast_unsigned())
            .time(at_ms)
            .bytes(&link)
            .bytes(form.as_bytes())
            .bytes(&excerpt)
            .bytes(&hash)
            .seal();
        seals.insert((session, seq), (seal, jump));
        newest.insert(session, (seal, jump));
        insert
            .execute(rusqlite::params![
                id, session, seq, parent, jump, depth, round, at_ms, body, link, seal, hash, form,
                excerpt, raw
            ])
            .unwrap();
    }
    newest
}

/// Writes the batches, and returns the checksum of the last one.
fn downgrade_batches(new: &Connection, db: &Connection, session: &StoredSession) -> Seal {
    let numbers: Vec<u64> = (1..=session.totals.batches).collect();
    let mut before = first_seal(session.id, "batches");
    let records = batch::batches(new, session, &numbers, crate::FoldStates::All).unwrap();
    for (number, BatchRecord { line, at_ms, batch, receipt }) in numbers.into_iter().zip(records) {
        let edits = old_edits(&batch);
        let reach = line.reach.map(|reach| reach.0);
        before = Sealer::new("batch")
            .bytes(&before)
            .number(number)
            .number(line.after)
            .optional(reach)
            .time(at_ms)
            .bytes(receipt.as_bytes())
            .bytes(&edits)
            .seal();
        db.execute(
            "INSERT INTO batch VALUES (NULL, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            (
                session.row,
                signed(number),
                signed(line.after),
                reach.map(signed),
                at_ms,
                before,
                receipt,
                edits,
            ),
        )
        .unwrap();
    }
    before
}

/// A batch as format 1 stored it: long ones are deflated.
fn old_edits(batch: &Batch) -> Vec<u8> {
    let mut plain = Vec::new();
    push_number(&mut plain, batch.head.0);
    let rest = codec::encode(batch).split_off(plain.len());
    push_number(&mut plain, batch.state.len() as u64);
    plain.extend_from_slice(batch.state.as_bytes());
    plain.extend(rest);
    if plain.len() < 256 {
        return [&[2, 0], &plain[..]].concat();
    }
    let mut bytes = vec![2, 1];
    push_number(&mut bytes, plain.len() as u64);
    let mut deflater = DeflateEncoder::new(bytes, Compression::fast());
    std::io::Write::write_all(&mut deflater, &plain).unwrap();
    deflater.finish().unwrap()
}

/// Writes what was derived, answers that could not be read among it.
fn downgrade_values(new: &Connection, db: &Connection, session: &StoredSession) {
    let mut kept: Vec<(String, String)> = Vec::new();
    for key in derived::keys(new, session.id, "").unwrap() {
        let value = derived::find(new, session.id, &key).unwrap().unwrap();
        kept.push((key, value));
    }
    for (_, note) in note::of_session(new, session.id).unwrap() {
        let NoteContent::Unread(answer) = note.content else { panic!("format 1 has no regret") };
        kept.push((format!("unread-answer/{}/{}", note.at_ms, note.handle), answer));
    }
    for (key, value) in kept {
        let seal = derived::right_seal(session.id, &key, &value);
        let insert = "INSERT INTO derived VALUES (NULL, ?1, ?2, ?3, ?4)";
        db.execute(insert, (session.row, key, seal, value)).unwrap();
    }
}

fn downgrade_head(
    new: &Connection,
    db: &Connection,
    session: &StoredSession,
    newest: Option<OldNode>,
    batch_seal: Seal,
) {
    let totals = &session.totals;
    let node = totals.newest().cloned();
    let (entry_seal, jump) = newest.unwrap_or((first_seal(session.id, "entries"), None));
    let parent = node.as_ref().and_then(|node| node.parent);
    let (depth, round) = node.as_ref().map_or((0, 0), |node| (node.depth, node.round));
    let link = node.map_or(Link(0), |node| node.link).0.to_be_bytes();
    let pins: Option<Vec<u8>> = new
        .query_row("SELECT seqs FROM pins WHERE session = ?1", [session.row], |row| row.get(0))
        .ok();
    let pins = Sealer::new("pins").bytes(&pins.unwrap_or_default()).seal();
    let seal = Sealer::new("head")
        .bytes(&session.id.to_bytes())
        .number(totals.entries)
        .number(totals.bytes)
        .time(totals.first_ms)
        .time(totals.last_ms)
        .time(totals.newest_row)
        .optional(parent)
        .optional(jump.map(i64::cast_unsigned))
        .number(depth)
        .number(round)
        .bytes(&link)
        .bytes(&entry_seal)
        .number(totals.batches)
        .bytes(&batch_seal)
        .number(totals.undos)
        .bytes(&totals.undo_seal)
        .number(totals.requests)
        .bytes(&pins)
        .seal();
    db.execute(
        "INSERT INTO head VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)",
        rusqlite::params![
            session.row,
            signed(totals.entries),
            signed(totals.bytes),
            totals.first_ms,
            totals.last_ms,
            totals.newest_row,
            parent.map(signed),
            jump,
            signed(depth),
            signed(round),
            link,
            entry_seal,
            signed(totals.batches),
            batch_seal,
            signed(totals.undos),
            totals.undo_seal,
            signed(totals.requests),
            pins,
            seal
        ],
    )
    .unwrap();
}

const OWNERS: [Owner; 2] = [Owner::LOCAL, Owner(7)];

fn said(text: &str, opens_round: bool) -> NewEntry {
    NewEntry {
        meaning: Meaning::of_content(text),
        opens_round,
        form: "text".to_owned(),
        raw: text.to_owned(),
        text: text.chars().rev().take(40).collect(),
        at_ms: i64::try_from(text.len()).unwrap(),
        source_ms: None,
    }
}

/// Fills an archive with sessions of at least so many bytes in all; one of them was removed and is not wiped yet.
fn fill(path: &Path, bytes_min: u64) {
    let archive = crate::SqliteArchive::open(path).unwrap();
    let mut rng = Rng::new(bytes_min);
    let mut bytes = 0;
    let mut number = 0_u64;
    while bytes < bytes_min || number < 6 {
        let id = SessionId(number.into());
        let new = NewSession {
            owner: OWNERS[usize::from(number.is_multiple_of(3))],
            name: format!("session {number}"),
            continues: number.checked_sub(2).map(|before| SessionId(before.into())),
            group: number.is_multiple_of(2).then_some(number),
            begun_ms: number.cast_signed(),
            ..NewSession::default()
        };
        archive.begin(id, &new).unwrap();
        for part in 0..4 {
            let shared = format!("shared {}", filler::words(200, part));
            let entry = |at: u64| match at % 7 {
                0 => said(&shared, true),
                _ => said(
                    &format!("{at} {}", filler::words(rng.range(5..900), number * 99 + at)),
                    at.is_multiple_of(3),
                ),
            };
            let entries: Vec<NewEntry> = (part * 40..part * 40 + 40).map(entry).collect();
            bytes += entries.iter().map(|entry| entry.raw.len() as u64).sum::<u64>();
            let after = if part == 2 { After::Entry(Some(Seq(50))) } else { After::Newest };
            archive.append(id, after, &entries).unwrap();
        }
        fill_session(&archive, id, new.owner, number);
        number += 1;
    }
    drop(archive);
    // As a kill right after the removal leaves it.
    let db = open::open(path, &SqliteSettings::default()).unwrap().0;
    assert!(session::remove(&db, SessionId(1)).unwrap());
}

/// Adds something of every other kind.
fn fill_session(archive: &crate::SqliteArchive, id: SessionId, owner: Owner, number: u64) {
    for (after, last, state) in [(0, 5, "short"), (1, 20, "a longer state, ".repeat(99).as_str())] {
        let batch = codec::sample(last, last + number, state);
        archive
            .commit(id, &NewBatch { after, at_ms: 3, batch, receipt: "why".to_owned() })
            .unwrap();
    }
    if number.is_multiple_of(2) {
        archive.undo(id, Some(Seq(40))).unwrap();
        archive.pin(id, Seq(number % 100), true).unwrap();
    }
    let preamble = archive.keep_preamble(owner, &format!("tools {}", number % 2)).unwrap();
    for at_ms in 0..3 {
        let (model, answer) = ("a model".to_owned(), Some(format!("answer {number}")));
        let preamble = Some(preamble);
        let request = RequestRecord {
            at_ms,
            preamble,
            model,
            answer,
            sent: number,
            ..RequestRecord::default()
        };
        archive.log_request(id, &request).unwrap();
    }
    archive.put_derived(id, "story", &format!("the story of {number}")).unwrap();
    let content = NoteContent::Unread(format!("{{\"why\":\"{number}\"}}"));
    let notes = vec![Note { at_ms: 2, handle: Handle::of([&*number.to_string()]), content }];
    wait(archive.write(vec![Write { session: id, notes, ..Write::default() }]))
        .unwrap()
        .remove(0)
        .unwrap();
    let key = Key::Shared(format!("shared {number}"));
    assert!(wait(archive.put(key, None, "value".to_owned())).unwrap());
}

/// All that an archive has, but for what is not in format 1.
fn content(path: &Path) -> Vec<String> {
    let archive = crate::SqliteArchive::open(path).unwrap();
    let mut lines = Vec::new();
    for info in archive.sessions(None, Page::ALL).unwrap().items {
        lines.push(format!("{info:?}"));
        let is_there = archive.export(info.id, &mut |record: Record| {
            lines.push(format!("{record:?}"));
            ControlFlow::Continue(())
        });
        assert!(is_there.unwrap());
        lines
            .push(format!("{:?}", wait(archive.open(info.id, crate::Version::default())).unwrap()));
        for batch in archive.batches(info.id, Page::ALL).unwrap().items {
            for handle in codec::handles(&batch.batch) {
                let reference = archive.reference(&Scope::Session(info.id), handle).unwrap();
                lines.push(format!("{handle} {:?}", reference.unwrap()));
            }
        }
        let answer = archive.answer(info.owner, &lines[0]).unwrap();
        lines.push(format!("{answer:?}"));
        lines.push(format!("{:?}", archive.path(info.id, Some(Seq(45)), 0..u64::MAX).unwrap()));
    }
    for number in 0..6 {
        let handle = Handle::of([&*number.to_string()]);
        lines.push(format!("{:?}", wait(archive.notes(NoteFilter::Handle(handle))).unwrap()));
        let key = Key::Shared(format!("shared {number}"));
        lines.push(format!("{:?}", wait(archive.get(vec![key])).unwrap()));
    }
    assert_eq!(archive.verify(None).unwrap(), []);
    lines
}

fn quiet<'m>() -> MigrationSettings<'m> {
    MigrationSettings {
        file: SqliteSettings::default(),
        leaves_damaged: false,
        opening: &|_, _| None,
        progress: Box::new(|_, _| {}),
    }
}

/// An archive of format 1, and what it must be afterwards.
fn sample(bytes: u64) -> (tempfile::TempDir, PathBuf, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let (new, old) = (folder.path().join("new.db"), folder.path().join("archive.db"));
    fill(&new, bytes);
    downgrade(&new, &old);
    let expected = content(&new);
    fs::remove_file(new).unwrap();
    (folder, old, expected)
}

fn names(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

#[test]
fn all_of_an_archive_is_there_afterwards_and_the_old_file_too() {
    let (folder, path, expected) = sample(100_000);
    let before = fs::read(&path).unwrap();
    let mut told = Vec::new();
    let progress = Box::new(|done, all| told.push((done, all)));
    let opening = |form: &str, raw: &str| {
        (form == "text" && raw.starts_with("3 ")).then(|| "first words".to_owned())
    };
    let settings = MigrationSettings { progress, opening: &opening, ..quiet() };
    let migrated = migrate(&path, settings).unwrap().unwrap();
    let all = migrated.entries;
    assert!(told.contains(&(256, all)) && told.last() == Some(&(all, all)), "{told:?}");
    assert_eq!(names(folder.path()), ["archive.db", "archive.db.format1"]);
    assert_eq!(fs::read(&migrated.kept).unwrap(), before);
    let found = content(&path);
    assert!(found.iter().any(|line| line.contains("first words")));
    let without = |line: &String| line.replace("first words", "");
    assert_eq!(found.iter().map(without).collect::<Vec<_>>(), expected);
    // What was removed is not carried along.
    let archive = crate::SqliteArchive::open(&path).unwrap();
    assert_eq!(archive.session(SessionId(1)).unwrap(), None);
    let again = NewSession { owner: OWNERS[0], ..NewSession::default() };
    archive.begin(SessionId(1), &again).unwrap();
    let birth = wait(archive.open(SessionId(1), crate::Version::default())).unwrap().unwrap();
    assert_eq!(birth.news.version.birth, migrated.sessions + 2, "no session had it before");
    let how = Regretted::Recalled;
    let regret = RegretNote { batch: 1, how, by: None, tokens: 0, again: false };
    let regret = NoteContent::Regret(regret);
    let notes = vec![Note { at_ms: 0, handle: Handle::of(["x"]), content: regret }];
    let write = Write { session: SessionId(0), notes, ..Write::default() };
    wait(archive.write(vec![write])).unwrap().remove(0).unwrap();
    assert_eq!(archive.verify(None).unwrap(), []);
}

#[test]
fn a_file_that_is_in_use_is_left_alone() {
    let (folder, path, expected) = sample(0);
    let db = Connection::open(&path).unwrap();
    let _: i64 = db.query_row("SELECT count(*) FROM entry", [], |row| row.get(0)).unwrap();
    let error = migrate(&path, quiet()).unwrap_err();
    assert!(matches!(error.file_error(), Some(FileError::InUse { .. })), "{error:?}");
    drop(db);
    assert_eq!(names(folder.path()), ["archive.db"]);
    // Nobody can use it while it is migrated either.
    let progress = |_, _| {
        let db = Connection::open(&path).unwrap();
        db.busy_timeout(Duration::ZERO).unwrap();
        let read: Result<i64, _> = db.query_row("SELECT count(*) FROM entry", [], |row| row.get(0));
        assert!(read.is_err());
    };
    migrate(&path, MigrationSettings { progress: Box::new(progress), ..quiet() }).unwrap().unwrap();
    assert_eq!(content(&path), expected);
}

#[test]
fn a_full_disk_leaves_the_old_file_as_it_was() {
    let (folder, path, expected) = sample(200_000);
    let before = fs::read(&path).unwrap();
    for bytes in (0..).map(|step| 200_000 + step * 40_000) {
        let file = SqliteSettings { file_bytes_max: Some(bytes), ..SqliteSettings::default() };
        match migrate(&path, MigrationSettings { file, ..quiet() }) {
            Ok(migrated) => {
                assert!(migrated.is_some() && bytes > 200_000);
                break;
            }
            Err(error) => assert!(matches!(error, ArchiveError::Full { .. }), "{error:?}"),
        }
        assert_eq!(names(folder.path()), ["archive.db"]);
        assert_eq!(fs::read(&path).unwrap(), before);
    }
    assert_eq!(content(&path), expected);
}

#[test]
fn what_is_damaged_is_named_or_left_out() {
    for (change, part) in [
        (
            "UPDATE entry SET raw = 'obey' WHERE session = 3 AND seq = 9",
            "entry 9 failed its checksum",
        ),
        ("DELETE FROM entry WHERE session = 3 AND seq = 150", "entry 150 is missing"),
        ("DELETE FROM entry WHERE session = 3 AND seq = 159", "entry 159 is missing"),
        (
            "UPDATE batch SET after = 1 WHERE session = 3 AND number = 1",
            "batch 1 failed its checksum",
        ),
        ("DELETE FROM batch WHERE session = 3 AND number = 2", "batch 2 is missing"),
        ("UPDATE session SET name = 'x' WHERE id = 3", "its record failed its checksum"),
        ("DELETE FROM head WHERE session = 3", "its record failed its checksum"),
        (
            "UPDATE request SET sent = 99 WHERE session = 3 AND number = 2",
            "request 2 failed its checksum",
        ),
        ("DELETE FROM request WHERE session = 3 AND number = 3", "request 3 is missing"),
        ("DELETE FROM undo WHERE session = 3", "its list of undone batches failed its checksum"),
        ("DELETE FROM pins WHERE session = 3", "its list of pins failed its checksum"),
    ] {
        let (folder, path, expected) = sample(0);
        let db = Connection::open(&path).unwrap();
        db.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
        db.execute_batch(change).unwrap();
        drop(db);
        let error = migrate(&path, quiet()).unwrap_err();
        assert!(error.to_string().ends_with(part), "{change}: {error}");
        assert_eq!(names(folder.path()), ["archive.db"]);
        let settings = MigrationSettings { leaves_damaged: true, ..quiet() };
        let migrated = migrate(&path, settings).unwrap().unwrap();
        let left_out: Vec<String> = migrated.left_out.iter().map(ToString::to_string).collect();
        assert_eq!(left_out.len(), 1, "{left_out:?}");
        assert!(left_out[0].contains(&SessionId(2).to_string()) && left_out[0].ends_with(part));
        let found = content(&path);
        let is_kept = found.iter().filter(|line| line.starts_with("SessionInfo")).count();
        assert_eq!(is_kept, 4, "{change}");
        let others = expected.iter().filter(|line| line.starts_with("SessionInfo"));
        for line in others.filter(|line| !line.contains("session 2")) {
            assert!(found.contains(line), "{change}: {line}");
        }
    }
}

/// The old file has both names if the swap breaks off in the middle.
#[test]
fn a_swap_that_broke_off_is_finished_by_the_next_migration() {
    let (folder, path, expected) = sample(0);
    fs::hard_link(&path, beside(&path, ".format1")).unwrap();
    fs::write(beside(&path, ".migrating"), "a draft of a migration that was killed").unwrap();
    let migrated = migrate(&path, quiet()).unwrap().unwrap();
    assert_eq!(migrated.kept, beside(&path, ".format1"));
    assert_eq!(names(folder.path()), ["archive.db", "archive.db.format1"]);
    assert_eq!(content(&path), expected);
    // An old file of an earlier migration is not overwritten.
    let (folder, path, _) = sample(0);
    fs::write(beside(&path, ".format1"), "another").unwrap();
    let migrated = migrate(&path, quiet()).unwrap().unwrap();
    assert_eq!(migrated.kept, beside(&path, ".format1-2"));
    assert_eq!(names(folder.path()), ["archive.db", "archive.db.format1", "archive.db.format1-2"]);
}

const FILE: &str = "LONGHAND_MIGRATED_FILE";

#[test]
fn a_migration_can_be_killed_at_any_point() {
    let number = |name: &str, default| env::var(name).map_or(default, |text| text.parse().unwrap());
    let bytes = number("LONGHAND_MIGRATED_BYTES", 2_000_000);
    let kills = number("LONGHAND_KILLS", 12);
    let (folder, path, expected) = sample(bytes);
    let before = blake3::hash(&fs::read(&path).unwrap());
    let started = Instant::now();
    let copy = folder.path().join("copy.db");
    fs::copy(&path, &copy).unwrap();
    assert!(start(&copy).wait().unwrap().success());
    let whole = started.elapsed();
    fs::remove_file(&copy).unwrap();
    fs::remove_file(beside(&copy, ".format1")).unwrap();
    let mut rng = Rng::new(kills);
    let mut finished = 0;
    for kill in 0..kills {
        let mut child = start(&path);
        thread::sleep(
            whole.mul_f64(1.1 * (kill as f64 + rng.range(0..100) as f64 / 100.0) / kills as f64),
        );
        child.kill().unwrap();
        child.wait().unwrap();
        let kept = beside(&path, ".format1");
        let is_old = blake3::hash(&fs::read(&path).unwrap()) == before;
        if is_old {
            continue;
        }
        // It was done before the kill; it begins again from the old file.
        finished += 1;
        assert_eq!(blake3::hash(&fs::read(&kept).unwrap()), before, "kill {kill}");
        assert_eq!(content(&path), expected, "kill {kill}");
        for ending in ["-wal", "-shm"] {
            let _ = fs::remove_file(beside(&path, ending));
        }
        fs::rename(&kept, &path).unwrap();
    }
    let migrated = migrate(&path, quiet()).unwrap().unwrap();
    assert_eq!(content(&path), expected);
    assert_eq!(names(folder.path()), ["archive.db", "archive.db.format1"]);
    let (entries, size) = (migrated.entries, fs::metadata(&migrated.kept).unwrap().len());
    println!(
        "{kills} kills of a migration of {size} bytes, {entries} entries: {finished} were too late, nothing lost"
    );
}

fn start(path: &Path) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["sqlite::migrate::tests::child", "--exact", "--ignored"])
        .env(FILE, path)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
#[ignore = "the process that the test above starts and kills; by itself it has nothing to do"]
fn child() {
    let Ok(path) = env::var(FILE) else { return };
    migrate(Path::new(&path), quiet()).unwrap().unwrap();
}
