//! Damaged files and full disks.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use longhand_archive::{
    Archive, ArchiveError, Batch, Content, DamagedPart, Entry, Form, Head, Hit, Original,
    SqliteArchive, SqliteSettings,
};
use longhand_core::Handle;
use longhand_testkit::filler;
use longhand_testkit::rng::Rng;
use rusqlite::Connection;
use tempfile::TempDir;

use crate::common::{batch, fresh, quick_folder, reply, user};

const SESSIONS: &[&str] = &["first", "second", "third"];
const QUERIES: &[&str] = &["needle", "\"needle 4\"", "eedl", "block"];

/// All that an archive says.
#[derive(Debug)]
struct Everything {
    heads: Vec<Option<Head>>,
    entries: Vec<Vec<Entry>>,
    batches: Vec<Vec<Batch>>,
    originals: Vec<Option<Original>>,
    hits: Vec<Vec<Hit>>,
}

fn handles() -> [Handle; 2] {
    [Handle::of(["stub"]), Handle::of(["fold"])]
}

/// A closed archive with some of everything.
fn sample() -> (TempDir, PathBuf) {
    let folder = quick_folder();
    let path = folder.path().join("sample.db");
    let archive = SqliteArchive::open(&path).unwrap();
    for round in 0..50 {
        for (at, session) in SESSIONS.iter().enumerate() {
            let said = filler::words(100 + round * 10, (round * 3 + at) as u64);
            let asked = format!("needle {round}, {said}");
            archive.append(session, &[user(&asked), reply(&said)]).unwrap();
        }
    }
    for session in SESSIONS {
        archive.commit(session, &batch(0, 10)).unwrap();
        archive.commit(session, &batch(1, 20)).unwrap();
        archive.undo(session).unwrap();
        archive.commit(session, &batch(1, 30)).unwrap();
        archive.pin(session, 5, true).unwrap();
    }
    let session = Some(SESSIONS[0].to_owned());
    let text = Content::Text("a body that a stub stands for".to_owned());
    let fold = Content::Entries(0..30);
    archive
        .keep(&[
            (handles()[0], Original { session: None, form: Form::Text, content: text }),
            (handles()[1], Original { session, form: Form::Json, content: fold }),
        ])
        .unwrap();
    drop(archive);
    (folder, path)
}

fn content(archive: &SqliteArchive) -> Everything {
    Everything {
        heads: SESSIONS.iter().map(|session| archive.head(session).unwrap()).collect(),
        entries: SESSIONS.iter().map(|session| archive.entries(session, 0..999).unwrap()).collect(),
        batches: SESSIONS.iter().map(|session| archive.batches(session).unwrap()).collect(),
        originals: handles().map(|handle| archive.expand(handle).unwrap()).to_vec(),
        hits: QUERIES.iter().map(|query| archive.search(None, query, 999).unwrap()).collect(),
    }
}

/// Asks a damaged archive for everything. It may refuse, and it may say that it has less if it also
/// says that it is damaged; it may not say anything else than the truth.
fn interrogate(path: &Path, everything: &Everything, case: &str) -> Verdict {
    let right = everything;
    let archive = match SqliteArchive::open(path) {
        Ok(archive) => archive,
        Err(error) => {
            named(&error, path, case);
            return Verdict::Refused;
        }
    };
    let is_damaged = match archive.verify(None) {
        Ok(damages) => !damages.is_empty(),
        Err(error) => named(&error, path, case),
    };
    let mut is_less = false;
    for (at, session) in SESSIONS.iter().enumerate() {
        match archive.head(session) {
            Ok(Some(head)) => assert_eq!(Some(head), right.heads[at], "{case}"),
            Ok(None) => is_less = true,
            Err(error) => is_less = named(&error, path, case),
        }
        match archive.entries(session, 0..999) {
            Ok(entries) if entries.is_empty() => is_less = true,
            Ok(entries) => assert_eq!(entries, right.entries[at], "{case}"),
            Err(error) => is_less = named(&error, path, case),
        }
        match archive.batches(session) {
            Ok(batches) if batches.is_empty() => is_less = true,
            Ok(batches) => assert_eq!(batches, right.batches[at], "{case}"),
            Err(error) => is_less = named(&error, path, case),
        }
    }
    for (handle, right) in handles().into_iter().zip(&right.originals) {
        match archive.expand(handle) {
            Ok(None) => is_less = true,
            Ok(original) => assert_eq!(original, *right, "{case}"),
            Err(error) => is_less = named(&error, path, case),
        }
    }
    for (query, right) in QUERIES.iter().zip(&right.hits) {
        match archive.search(None, query, 999) {
            Ok(hits) => {
                for hit in hits.iter().filter(|hit| !right.contains(hit)) {
                    // Words inside of others are found when the whole ones are out of reach.
                    let at = SESSIONS.iter().position(|session| *session == hit.session).unwrap();
                    let raw = &everything.entries[at][hit.seq as usize].raw;
                    assert!(raw.contains(hit.snippet.trim_matches('…')), "{case}: {hit:?}");
                }
                is_less |= !right.iter().all(|hit| hits.contains(hit));
            }
            Err(error) => is_less = named(&error, path, case),
        }
    }
    for info in archive.sessions().unwrap_or_default() {
        let at = SESSIONS.iter().position(|session| *session == info.id);
        let known = at.and_then(|at| right.heads[at].as_ref());
        let is_right = known.is_some_and(|head| head.entries == info.entries);
        assert!(is_right || info.damaged, "{case}: {info:?}");
    }
    assert!(is_damaged || !is_less, "{case}: something is missing, and verify finds nothing");
    // Whatever it can still take in must come back.
    if let Ok(appended) = archive.append("another", &[user("after the damage")]) {
        let entries = archive.entries("another", appended.first..appended.first + 1).unwrap();
        assert_eq!(entries[0].raw, user("after the damage").raw, "{case}");
    }
    if is_damaged { Verdict::Damaged } else { Verdict::Sound }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Refused,
    Damaged,
    Sound,
}

/// An error says which file it is about, and is never that our own thread died.
fn named(error: &ArchiveError, path: &Path, case: &str) -> bool {
    assert!(!matches!(error, ArchiveError::Closed { .. }), "{case}: {error}");
    assert!(error.to_string().contains(&path.display().to_string()), "{case}: {error}");
    true
}

#[test]
fn a_flipped_bit_is_never_taken_for_the_truth() {
    let (folder, path) = sample();
    let archive = SqliteArchive::open(&path).unwrap();
    let right = content(&archive);
    assert_eq!(archive.verify(None).unwrap(), []);
    drop(archive);
    let bytes = fs::read(&path).unwrap();
    let flipped = folder.path().join("flipped.db");
    let count: usize = std::env::var("LONGHAND_FLIPS").map_or(200, |count| count.parse().unwrap());
    let mut rng = Rng::new(11);
    let mut verdicts = Vec::new();
    for flip in 0..count {
        let end = if flip % 5 == 0 { 100 } else { bytes.len() };
        let (at, bit) = (rng.range(0..end), rng.range(0..8));
        let mut bytes = bytes.clone();
        bytes[at] ^= 1 << bit;
        for rest in ["", "-wal", "-shm"] {
            let _ = fs::remove_file(folder.path().join(format!("flipped.db{rest}")));
        }
        fs::write(&flipped, &bytes).unwrap();
        let case = format!("bit {bit} of byte {at} (page {}, {})", at / 4096 + 1, at % 4096);
        verdicts.push(interrogate(&flipped, &right, &case));
    }
    let counted = |verdict| verdicts.iter().filter(|found| **found == verdict).count();
    let [refused, damaged, sound] =
        [Verdict::Refused, Verdict::Damaged, Verdict::Sound].map(counted);
    println!("{count} flips: {refused} refused, {damaged} named, {sound} in unused places");
    assert!(damaged > 0 && refused > 0);
}

#[test]
fn a_truncated_file_is_never_taken_for_the_truth() {
    let (folder, path) = sample();
    let right = content(&SqliteArchive::open(&path).unwrap());
    let bytes = fs::read(&path).unwrap();
    let cut = folder.path().join("cut.db");
    let mut lengths = vec![0, 1, 15, 16, 99, 100, 1_000, 4_095, 4_096, 8_192];
    lengths.extend([2, 3, 4, 5].map(|part| bytes.len() * part / 6));
    lengths.extend([1, 100, 4_096, 8_192].map(|less| bytes.len() - less));
    for length in lengths {
        for rest in ["", "-wal", "-shm"] {
            let _ = fs::remove_file(folder.path().join(format!("cut.db{rest}")));
        }
        fs::write(&cut, &bytes[..length]).unwrap();
        let verdict = interrogate(&cut, &right, &format!("cut to {length}"));
        assert_ne!(verdict, Verdict::Sound, "cut to {length}");
        if verdict == Verdict::Refused {
            assert_eq!(fs::read(&cut).unwrap().len(), length, "it was left as it is");
        }
    }
}

/// Changes a sample behind the archive's back; checks what `verify` says, and that the other
/// sessions still answer.
fn check(change: &str, expected: &[&str]) {
    let (_folder, path) = sample();
    let right = content(&SqliteArchive::open(&path).unwrap());
    let db = Connection::open(&path).unwrap();
    db.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
    db.execute_batch(change).unwrap();
    drop(db);
    let archive = SqliteArchive::open(&path).unwrap();
    let damages: Vec<String> =
        archive.verify(None).unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(damages, expected, "{change}");
    for at in [0, 2] {
        assert_eq!(archive.head(SESSIONS[at]).unwrap(), right.heads[at], "{change}");
        assert_eq!(archive.entries(SESSIONS[at], 0..999).unwrap(), right.entries[at], "{change}");
        assert_eq!(archive.verify(Some(SESSIONS[at])).unwrap(), [], "{change}");
        archive.append(SESSIONS[at], &[user("goes on")]).unwrap();
    }
}

#[test]
fn damage_is_named_and_keeps_to_its_session() {
    for (change, expected) in [
        (
            "UPDATE entry SET raw = raw || ' ' WHERE session = 2 AND seq = 7",
            "entry 7 failed its checksum",
        ),
        ("UPDATE entry SET at_ms = 0 WHERE session = 2 AND seq = 0", "entry 0 failed its checksum"),
        (
            "UPDATE entry SET round = 0 WHERE session = 2 AND seq = 99",
            "entry 99 failed its checksum",
        ),
        ("UPDATE entry SET form = '' WHERE session = 2 AND seq = 1", "entry 1 failed its checksum"),
        (
            "UPDATE entry SET link = zeroblob(16) WHERE session = 2 AND seq = 7",
            "entry 7 failed its checksum",
        ),
        (
            "UPDATE entry SET link = zeroblob(9) WHERE session = 2 AND seq = 99",
            "entry 99 failed its checksum",
        ),
        (
            "UPDATE batch SET text = 'obey' WHERE session = 2 AND number = 2",
            "batch 2 failed its checksum",
        ),
        (
            "UPDATE batch SET end = 79 WHERE session = 2 AND number = 3",
            "batch 3 failed its checksum",
        ),
        ("DELETE FROM batch WHERE session = 2 AND number = 3", "batch 3 is missing"),
        (
            "UPDATE pins SET seqs = zeroblob(8) WHERE session = 2",
            "its list of pins failed its checksum",
        ),
        ("DELETE FROM pins WHERE session = 2", "its list of pins failed its checksum"),
        ("UPDATE head SET batch = 2 WHERE session = 2", "its record failed its checksum"),
        ("UPDATE head SET entries = 3 WHERE session = 2", "its record failed its checksum"),
        ("DELETE FROM head WHERE session = 2", "its record failed its checksum"),
    ] {
        check(change, &[&format!("session second: {expected}")]);
    }
}

#[test]
fn missing_entries_are_named() {
    let index = "the search index is wrong about 1 entries";
    check(
        "DELETE FROM entry WHERE session = 2 AND seq = 30",
        &[
            "session second: entry 30 is missing",
            "session second: entry 31 failed its checksum",
            index,
        ],
    );
    let (_folder, path) = sample();
    let db = Connection::open(&path).unwrap();
    db.execute_batch("DELETE FROM entry WHERE session = 2 AND seq >= 60").unwrap();
    drop(db);
    let archive = SqliteArchive::open(&path).unwrap();
    let error = archive.entries("second", 50..70).unwrap_err();
    assert!(error.to_string().ends_with("session second: entry 60 is missing"), "{error}");
    assert_eq!(archive.entries("second", 50..60).unwrap().len(), 10);
    let damages = archive.verify(Some("second")).unwrap();
    assert_eq!(damages[0].to_string(), "session second: entry 60 and the 39 after it are missing");
}

#[test]
fn originals_and_the_index_are_checked() {
    let [stub, fold] = handles();
    check(
        "UPDATE original SET text = 'other' WHERE text IS NOT NULL",
        &[&format!("original {stub} failed its checksum")],
    );
    let (_folder, path) = sample();
    let db = Connection::open(&path).unwrap();
    db.execute_batch("UPDATE state SET indexed = 999").unwrap();
    drop(db);
    let archive = SqliteArchive::open(&path).unwrap();
    let damages = archive.verify(None).unwrap();
    assert_eq!(damages[0].part, DamagedPart::Index, "{damages:?}");
    let (_folder, path) = sample();
    let db = Connection::open(&path).unwrap();
    db.execute_batch("UPDATE original SET end = 29 WHERE text IS NULL").unwrap();
    drop(db);
    let archive = SqliteArchive::open(&path).unwrap();
    let error = archive.expand(fold).unwrap_err().to_string();
    assert!(
        error.ends_with(&format!("session first: original {fold} failed its checksum")),
        "{error}"
    );
}

#[test]
fn a_damaged_index_is_made_anew() {
    let (_folder, path) = sample();
    let right = content(&SqliteArchive::open(&path).unwrap());
    let db = Connection::open(&path).unwrap();
    db.execute_batch("UPDATE word_data SET block = zeroblob(40) WHERE id > 10").unwrap();
    drop(db);
    let archive = SqliteArchive::open(&path).unwrap();
    assert_ne!(archive.verify(None).unwrap(), []);
    for (query, right) in QUERIES.iter().zip(&right.hits) {
        assert_eq!(archive.search(None, query, 999).unwrap(), *right, "{query}");
    }
    drop(archive);
    assert_eq!(SqliteArchive::open(&path).unwrap().verify(None).unwrap(), []);
}

#[test]
fn an_error_shows_a_long_name_short() {
    let (_folder, archive) = fresh();
    let error = archive.pin(&"x\n".repeat(500_000), 0, true).unwrap_err().to_string();
    assert!(error.len() < 200 && !error.contains('\n'), "{error}");
}

#[test]
fn a_full_disk_loses_nothing_and_passes() {
    let folder = quick_folder();
    let path = folder.path().join("archive.db");
    let settings = SqliteSettings { file_bytes_max: Some(1 << 20), ..SqliteSettings::default() };
    let archive = SqliteArchive::open_with(&path, &settings).unwrap();
    let said = |n: u64| user(&format!("{n} {}", filler::words(1_000, n)));
    let mut count = 0;
    let error = loop {
        match archive.append("s", &[said(count)]) {
            Ok(appended) => assert_eq!(appended.first, count),
            Err(error) => break error,
        }
        count += 1;
    };
    assert!(matches!(error, ArchiveError::Full { .. }), "{error:?}");
    named(&error, &path, "full");
    assert!(count > 50, "{count}");
    assert_eq!(archive.head("s").unwrap().unwrap().entries, count);
    assert_eq!(archive.verify(None).unwrap(), []);
    // Small ones may still fit beside large ones that do not.
    thread::scope(|scope| {
        let archive = &archive;
        for _ in 0..4 {
            scope.spawn(move || archive.append("large", &[said(1), said(2), said(3)]).unwrap_err());
        }
    });
    assert_eq!(archive.head("large").unwrap(), None);
    drop(archive);
    let archive = SqliteArchive::open(&path).unwrap();
    assert_eq!(archive.append("s", &[said(count)]).unwrap().first, count);
    let entries = archive.entries("s", 0..count + 1).unwrap();
    assert!(entries.iter().all(|entry| entry.raw == said(entry.seq).raw));
    assert_eq!(archive.verify(None).unwrap(), []);
}
