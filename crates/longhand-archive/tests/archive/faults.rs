//! Damaged files and full disks.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::thread;

use longhand_archive::{
    After, Archive, ArchiveError, DamagedPart, Entry, Head, Hit, Ledger, LoggedBatch, Node, Note,
    NoteContent, Owner, Page, PreambleId, Reference, RequestRecord, Scope, SessionId,
    SqliteArchive, SqliteSettings, Storage, Version, Write, wait,
};
use longhand_core::Handle;
use longhand_core::{Original, Seq};
use longhand_testkit::filler;
use longhand_testkit::rng::Rng;
use rusqlite::Connection;
use tempfile::TempDir;

use crate::common::{
    append_to, fold, folds, fork, fresh, id, links, named as session_named, quick_folder, record,
    reply, silent, stub_handle, stubs, user, with_variants,
};

const SESSIONS: &[&str] = &["first", "second", "third"];
const QUERIES: &[&str] = &["needle", "\"needle 4\"", "eedl", "block"];

/// All that an archive says.
#[derive(Debug)]
struct Everything {
    heads: Vec<Option<Head>>,
    entries: Vec<Vec<Entry>>,
    paths: Vec<Vec<Entry>>,
    trees: Vec<Vec<Node>>,
    batches: Vec<Vec<LoggedBatch>>,
    live: Vec<Vec<LoggedBatch>>,
    requests: Vec<Vec<RequestRecord>>,
    answers: Vec<Option<(SessionId, RequestRecord)>>,
    derived: Vec<Option<String>>,
    references: Vec<Option<Reference>>,
    hits: Vec<Vec<Hit>>,
    preamble: Option<String>,
}

fn handles() -> [Handle; 3] {
    [Handle::of(["variant"]), fold(0, 30).handle(), stub_handle(5)]
}

/// A path that leaves the newest one early.
const SIDE: Option<Seq> = Some(Seq(101));

/// A closed archive with some of everything.
fn sample() -> (TempDir, PathBuf) {
    // Many tests damage a copy; it is written once.
    static BYTES: LazyLock<Vec<u8>> = LazyLock::new(sample_bytes);
    let folder = quick_folder();
    let path = folder.path().join("sample.db");
    fs::write(&path, &*BYTES).unwrap();
    (folder, path)
}

fn sample_bytes() -> Vec<u8> {
    let folder = quick_folder();
    let path = folder.path().join("sample.db");
    let archive = SqliteArchive::open(&path).unwrap();
    for round in 0..50 {
        if round == 40 {
            // The rest is found without the index, unless the time is quiet.
            archive.index().unwrap();
        }
        for (at, session) in SESSIONS.iter().enumerate() {
            let said = filler::words(100 + round * 10, (round * 3 + at) as u64);
            let asked = format!("needle {round}, {said}");
            record(&archive, session, &[user(&asked), reply(&said)]);
        }
    }
    let preamble = archive.keep_preamble(Owner::LOCAL, "system prompt and tools").unwrap();
    for (at, session) in SESSIONS.iter().enumerate() {
        let id = id(session);
        // Two sides: 100 and 101 follow 40, and 102 goes on after 99.
        fork(&archive, session, Some(40), &[user("aside"), reply(&format!("side {at}"))]);
        fork(&archive, session, Some(99), &[user(&format!("on it goes {at}"))]);
        archive.commit(id, &stubs(0, 102, &[5, 7])).unwrap();
        archive.commit(id, &folds(1, 102, 0, 20)).unwrap();
        archive.undo(id, None).unwrap();
        let mut stated = folds(1, 102, 0, 30);
        stated.batch.state = format!("1\nwhat the digest left of {session}");
        archive.commit(id, &stated).unwrap();
        archive.commit(id, &stubs(3, 101, &[101])).unwrap();
        archive.pin(id, Seq(5), true).unwrap();
        for sent in 0..3 {
            let (preamble, answer) = (Some(preamble), Some(answer(session, sent)));
            let request = RequestRecord { preamble, sent, answer, ..RequestRecord::default() };
            archive.log_request(id, &request).unwrap();
        }
        archive.put_derived(id, "story", "what a model told").unwrap();
        let content = NoteContent::Unread(format!("half an answer in {session}"));
        let notes = vec![Note { at_ms: 5, handle: Handle::of([*session]), content }];
        let write = Write { session: id, notes, ..Write::default() };
        wait(archive.write(vec![write])).unwrap().remove(0).unwrap();
    }
    let text = Original::Text("a body that a stub stands for".to_owned());
    let variant = with_variants(stubs(3, 102, &[102]), &[(handles()[0], text)]);
    archive.commit(id(SESSIONS[0]), &variant).unwrap();
    drop(archive);
    fs::read(&path).unwrap()
}

/// What the provider calls an answer in a session.
fn answer(session: &str, sent: u64) -> String {
    format!("answer {sent} in {session}")
}

fn content(archive: &SqliteArchive) -> Everything {
    fn each<T>(action: impl Fn(SessionId) -> Result<T, ArchiveError>) -> Vec<T> {
        SESSIONS.iter().map(|session| action(id(session)).unwrap()).collect()
    }
    Everything {
        heads: each(|id| archive.head(id)),
        entries: each(|id| archive.entries(id, 0..999)),
        paths: each(|id| archive.path(id, SIDE, 0..999)),
        trees: each(|id| archive.tree(id)),
        batches: each(|id| archive.batches(id, Page::ALL).map(|listing| listing.items)),
        live: each(|id| archive.live(id, None)),
        requests: each(|id| archive.requests(id, Page::ALL).map(|listing| listing.items)),
        answers: SESSIONS
            .iter()
            .map(|session| archive.answer(Owner::LOCAL, &answer(session, 2)).unwrap())
            .collect(),
        derived: each(|id| archive.derived(id, "story")),
        references: handles().map(|handle| archive.reference(&Scope::All, handle).unwrap()).into(),
        hits: QUERIES
            .iter()
            .map(|query| archive.search(&Scope::All, query, 999).unwrap())
            .collect(),
        preamble: archive.preamble(Owner::LOCAL, preamble()).unwrap(),
    }
}

fn preamble() -> PreambleId {
    PreambleId::of("system prompt and tools")
}

/// What a damaged archive said, compared with the truth. It may refuse, and it may have nothing, but it
/// may not say anything else. Returns whether it said less.
fn says_less<T: PartialEq + std::fmt::Debug>(
    said: Result<T, ArchiveError>,
    right: &T,
    is_empty: impl Fn(&T) -> bool,
    path: &Path,
    case: &str,
) -> bool {
    match said {
        Ok(said) if is_empty(&said) => !is_empty(right),
        Ok(said) => {
            assert_eq!(said, *right, "{case}");
            false
        }
        Err(error) => named(&error, path, case),
    }
}

/// Asks a damaged archive for everything. It may refuse, and it may say that it has less if it also
/// says that it is damaged; it may not say anything else than the truth.
fn interrogate(path: &Path, right: &Everything, case: &str) -> Verdict {
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
        let id = id(session);
        let none = Option::is_none;
        is_less |= says_less(archive.head(id), &right.heads[at], none, path, case);
        let empty = Vec::is_empty;
        is_less |= says_less(archive.entries(id, 0..999), &right.entries[at], empty, path, case);
        is_less |= says_less(archive.path(id, SIDE, 0..999), &right.paths[at], empty, path, case);
        is_less |= says_less(archive.tree(id), &right.trees[at], Vec::is_empty, path, case);
        is_less |= says_less(archive.live(id, None), &right.live[at], Vec::is_empty, path, case);
        let batches = archive.batches(id, Page::ALL).map(|listing| listing.items);
        is_less |= says_less(batches, &right.batches[at], Vec::is_empty, path, case);
        let requests = archive.requests(id, Page::ALL).map(|listing| listing.items);
        is_less |= says_less(requests, &right.requests[at], Vec::is_empty, path, case);
        let answer = archive.answer(Owner::LOCAL, &answer(session, 2));
        is_less |= says_less(answer, &right.answers[at], Option::is_none, path, case);
        let derived = archive.derived(id, "story");
        is_less |= says_less(derived, &right.derived[at], Option::is_none, path, case);
    }
    for (handle, right) in handles().into_iter().zip(&right.references) {
        match archive.reference(&Scope::All, handle) {
            // Each session has a reference of its own, and the next one answers for a damaged one.
            Ok(Some(Reference::Part { place, .. })) => {
                assert!(
                    matches!(right, Some(Reference::Part { place: right, .. }) if *right == place)
                );
            }
            Ok(Some(Reference::Fold { fold, batch, .. })) => {
                assert!(matches!(right, Some(Reference::Fold { fold: right, batch: number, .. })
                    if *right == fold && *number == batch));
            }
            said => is_less |= says_less(said, right, Option::is_none, path, case),
        }
    }
    let said = archive.preamble(Owner::LOCAL, preamble());
    is_less |= says_less(said, &right.preamble, Option::is_none, path, case);
    for (query, expected) in QUERIES.iter().zip(&right.hits) {
        match archive.search(&Scope::All, query, 999) {
            Ok(hits) => {
                for hit in hits.iter().filter(|hit| !expected.contains(hit)) {
                    // Words inside of others are found when the whole ones are out of reach.
                    let at = SESSIONS.iter().position(|name| id(name) == hit.session).unwrap();
                    let raw = &right.entries[at][hit.seq.0 as usize].raw;
                    assert!(raw.contains(hit.snippet.trim_matches('…')), "{case}: {hit:?}");
                }
                is_less |= !expected.iter().all(|hit| hits.contains(hit));
            }
            Err(error) => is_less = named(&error, path, case),
        }
    }
    let listing = archive.sessions(None, Page::ALL).map(|listing| listing.items);
    for info in listing.unwrap_or_default() {
        let at = SESSIONS.iter().position(|name| id(name) == info.id);
        let known = at.and_then(|at| right.heads[at].as_ref());
        let is_right = known.is_some_and(|head| head.entries == info.entries);
        assert!(is_right || info.is_damaged, "{case}: {info:?}");
    }
    assert!(is_damaged || !is_less, "{case}: something is missing, and verify finds nothing");
    // Whatever it can still take in must come back.
    let begun = archive.begin(id("another"), &session_named(Owner::LOCAL, "another"));
    let said = [user("after the damage")];
    let appended = begun.and_then(|()| archive.append(id("another"), After::Newest, &said));
    if let Ok(appended) = appended {
        let first = appended.seqs[0].0;
        let entries = archive.entries(id("another"), first..first + 1).unwrap();
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
    let count: usize = std::env::var("LONGHAND_FLIPS").map_or(100, |count| count.parse().unwrap());
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
        let id = id(SESSIONS[at]);
        assert_eq!(archive.head(id).unwrap(), right.heads[at], "{change}");
        assert_eq!(archive.entries(id, 0..999).unwrap(), right.entries[at], "{change}");
        assert_eq!(archive.tree(id).unwrap(), right.trees[at], "{change}");
        assert_eq!(archive.live(id, None).unwrap(), right.live[at], "{change}");
        let found = archive.answer(Owner::LOCAL, &answer(SESSIONS[at], 2)).unwrap();
        assert_eq!(found, right.answers[at], "{change}");
        assert_eq!(archive.verify(Some(id)).unwrap(), [], "{change}");
        archive.append(id, After::Newest, &[user("goes on")]).unwrap();
    }
    // Together with the damaged one, too; and they are found and listed.
    let said = [user("goes on together")];
    let write = |name: &&str| {
        // One that cannot be opened cannot be written to either.
        let opened = wait(Ledger::open(&archive, id(name)));
        let Ok(Some(mut ledger)) = opened else { return Write::to(id(name), Version::default()) };
        let mut write = ledger.write();
        let parent = ledger.state.tree().newest();
        append_to(&mut ledger.state, &mut write, parent, &said).unwrap();
        write
    };
    let outcomes = wait(archive.write(SESSIONS.iter().map(write).collect())).unwrap();
    assert!(outcomes[0].is_ok() && outcomes[2].is_ok(), "{change}: {outcomes:?}");
    let hits = archive.search(&Scope::All, "goes on together", 9).unwrap();
    assert_eq!(hits.len(), outcomes.iter().filter(|outcome| outcome.is_ok()).count(), "{change}");
    assert_eq!(archive.search(&Scope::All, "nowhere at all", 9).unwrap(), [], "{change}");
    assert_eq!(archive.sessions(None, Page::ALL).unwrap().items.len(), 3, "{change}");
}

#[test]
fn damage_is_named_and_keeps_to_its_session() {
    for (change, expected) in [
        (
            "UPDATE body SET content = CAST(content || ' ' AS BLOB) \
             WHERE id = (SELECT id FROM entry WHERE session = 2 AND seq = 7)",
            "entry 7 failed its checksum",
        ),
        (
            "UPDATE entry SET hash = zeroblob(16) WHERE session = 2 AND seq = 7",
            "entry 7 failed its checksum",
        ),
        (
            "UPDATE entry SET body = 1 WHERE session = 2 AND seq = 7; \
             DELETE FROM body WHERE id = (SELECT id FROM entry WHERE session = 2 AND seq = 7)",
            "entry 7 failed its checksum",
        ),
        ("UPDATE entry SET at_ms = 0 WHERE session = 2 AND seq = 0", "entry 0 failed its checksum"),
        (
            "UPDATE entry SET round = 0 WHERE session = 2 AND seq = 99",
            "entry 99 failed its checksum",
        ),
        ("UPDATE entry SET form = '' WHERE session = 2 AND seq = 1", "entry 1 failed its checksum"),
        (
            "UPDATE entry SET parent = 41 WHERE session = 2 AND seq = 100",
            "entry 100 failed its checksum",
        ),
        (
            "UPDATE entry SET source_ms = 50 WHERE session = 2 AND seq = 99",
            "entry 99 failed its checksum",
        ),
        (
            "UPDATE entry SET link = zeroblob(16) WHERE session = 2 AND seq = 7",
            "entry 7 failed its checksum",
        ),
        ("UPDATE entry SET depth = 8 WHERE session = 2 AND seq = 7", "entry 7 failed its checksum"),
        (
            "UPDATE entry SET seal = zeroblob(16) WHERE session = 2 AND seq = 40",
            "entry 40 failed its checksum",
        ),
        (
            "UPDATE entry SET seal = zeroblob(9) WHERE session = 2 AND seq = 102",
            "entry 102 failed its checksum",
        ),
        (
            "UPDATE batch SET receipt = x'006f' WHERE session = 2 AND number = 2",
            "batch 2 failed its checksum",
        ),
        (
            "UPDATE batch SET edits = x'0100' WHERE session = 2 AND number = 1",
            "batch 1 failed its checksum",
        ),
        (
            "UPDATE batch SET reach = 7 WHERE session = 2 AND number = 3",
            "batch 3 failed its checksum",
        ),
        ("DELETE FROM batch WHERE session = 2 AND number = 4", "batch 4 is missing"),
        (
            "UPDATE batch SET state = x'006f' WHERE session = 2 AND number = 3",
            "batch 3 failed its checksum",
        ),
        (
            "UPDATE batch SET state = NULL WHERE session = 2 AND number = 3",
            "batch 3 failed its checksum",
        ),
        (
            "UPDATE batch SET state_seal = NULL WHERE session = 2 AND number = 3",
            "batch 3 failed its checksum",
        ),
        (
            "UPDATE usage SET sums = zeroblob(15) WHERE session = 2",
            "the sums of its requests are not what they took",
        ),
        ("DELETE FROM usage WHERE session = 2", "the sums of its requests are not what they took"),
        ("UPDATE note SET at_ms = 6 WHERE session = 2", "note 1 failed its checksum"),
        ("UPDATE note SET content = x'016f' WHERE session = 2", "note 1 failed its checksum"),
        ("DELETE FROM note WHERE session = 2", "note 1 is missing"),
        (
            "UPDATE undo SET batch = 1 WHERE session = 2",
            "its list of undone batches failed its checksum",
        ),
        ("DELETE FROM undo WHERE session = 2", "its list of undone batches failed its checksum"),
        (
            "UPDATE pins SET seqs = zeroblob(8) WHERE session = 2",
            "its list of pins failed its checksum",
        ),
        ("DELETE FROM pins WHERE session = 2", "its list of pins failed its checksum"),
        (
            "UPDATE head SET owner = randomblob(16) WHERE session = 2",
            "its record failed its checksum",
        ),
        ("UPDATE head SET opening = 'obey' WHERE session = 2", "its record failed its checksum"),
        ("UPDATE session SET project = '/etc' WHERE id = 2", "its record failed its checksum"),
        ("UPDATE head SET batches = 2 WHERE session = 2", "its record failed its checksum"),
        ("UPDATE head SET entries = 3 WHERE session = 2", "its record failed its checksum"),
        ("DELETE FROM head WHERE session = 2", "its record failed its checksum"),
        ("UPDATE session SET name = 'x' WHERE id = 2", "its record failed its checksum"),
        ("UPDATE session SET owner = zeroblob(3) WHERE id = 2", "its record failed its checksum"),
        (
            "UPDATE request SET sent = 9 WHERE session = 2 AND number = 2",
            "request 2 failed its checksum",
        ),
        (
            "UPDATE request SET answer = 'other' WHERE session = 2 AND number = 3",
            "request 3 failed its checksum",
        ),
        (
            "UPDATE request SET answer = NULL WHERE session = 2 AND number = 1",
            "request 1 failed its checksum",
        ),
        ("DELETE FROM request WHERE session = 2 AND number = 3", "request 3 is missing"),
        (
            "UPDATE derived SET value = x'006f' WHERE session = 2",
            "derived data \"story\" failed its checksum",
        ),
    ] {
        check(change, &[&format!("session {}: {expected}", id("second"))]);
    }
}

#[test]
fn missing_entries_are_named() {
    let second = id("second");
    check(
        "DELETE FROM entry WHERE session = 2 AND seq = 30",
        &[
            &format!("session {second}: entry 30 is missing"),
            &format!("session {second}: entry 31 failed its checksum"),
            "the file has 1 texts that belong to no entry",
            "the search index is wrong about 1 entries",
        ],
    );
    let (_folder, path) = sample();
    let db = Connection::open(&path).unwrap();
    db.execute_batch("DELETE FROM entry WHERE session = 2 AND seq >= 60").unwrap();
    drop(db);
    let archive = SqliteArchive::open(&path).unwrap();
    let error = archive.entries(second, 50..70).unwrap_err();
    assert!(error.to_string().ends_with("entry 60 is missing"), "{error}");
    assert_eq!(archive.entries(second, 50..60).unwrap().len(), 10);
    let damages = archive.verify(Some(second)).unwrap();
    let expected = format!("session {second}: entry 60 and the 42 after it are missing");
    assert_eq!(damages[0].to_string(), expected);
}

#[test]
fn references_preambles_and_the_index_are_checked() {
    let [variant, folded, stub] = handles();
    let (first, second) = (id("first"), id("second"));
    let letters = |handle: Handle| handle.to_string().split_off(2);
    check(
        &format!("DELETE FROM reference WHERE session = 2 AND handle = '{}'", letters(stub)),
        &[&format!("session {second}: reference {stub} is missing")],
    );
    check(
        &format!(
            "UPDATE reference SET batch = 1 WHERE session = 2 AND handle = '{}'",
            letters(folded)
        ),
        &[&format!("session {second}: reference {folded} names another batch")],
    );
    check(
        "UPDATE preamble SET content = x'006f'",
        &[&format!("preamble {} failed its checksum", preamble())],
    );
    let (_folder, path) = sample();
    let db = Connection::open(&path).unwrap();
    let obeyed = "unhex(replace(hex(edits), hex('a body'), hex('obey!!')))";
    let changed = format!("UPDATE batch SET edits = {obeyed} WHERE edits <> {obeyed}");
    assert_eq!(db.execute(&changed, []).unwrap(), 1);
    drop(db);
    let archive = SqliteArchive::open(&path).unwrap();
    let damages = archive.verify(None).unwrap();
    let expected = format!("session {first}: batch 5 failed its checksum");
    assert_eq!(damages.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected.as_str()]);
    let error = archive.reference(&Scope::Session(first), variant).unwrap_err().to_string();
    assert!(error.ends_with(&expected), "{error}");
    // To another session it is as if it were not there.
    assert_eq!(archive.reference(&Scope::Session(second), variant).unwrap(), None);
    let (_folder, path) = sample();
    let db = Connection::open(&path).unwrap();
    db.execute_batch("UPDATE state SET indexed = 9999").unwrap();
    drop(db);
    let archive = SqliteArchive::open(&path).unwrap();
    let damages = archive.verify(None).unwrap();
    assert_eq!(damages[0].part, DamagedPart::Index, "{damages:?}");
}

#[test]
fn what_is_said_again_mends_a_damaged_message() {
    let (_folder, archive) = fresh();
    record(&archive, "s", &[user("one"), user("two")]);
    let tools = archive.keep_preamble(Owner::LOCAL, "tools").unwrap();
    let db = Connection::open(archive.file()).unwrap();
    db.execute_batch("UPDATE body SET content = x'006f'; UPDATE preamble SET content = x'006f'")
        .unwrap();
    drop(db);
    archive.entries(id("s"), 0..2).unwrap_err();
    archive.preamble(Owner::LOCAL, tools).unwrap_err();
    record(&archive, "t", &[user("two"), user("one")]);
    archive.keep_preamble(Owner::LOCAL, "tools").unwrap();
    assert_eq!(archive.entries(id("s"), 0..2).unwrap()[0].raw, user("one").raw);
    assert_eq!(archive.preamble(Owner::LOCAL, tools).unwrap().as_deref(), Some("tools"));
    assert_eq!(archive.verify(None).unwrap(), []);
}

#[test]
fn a_damaged_session_is_passed_over_when_a_conversation_is_looked_for() {
    let (_folder, archive) = fresh();
    let said = [user("one"), reply("two")];
    record(&archive, "s", &said);
    record(&archive, "t", &said);
    let chain = links(Owner::LOCAL, &said);
    let found = || archive.find_path(Owner::LOCAL, &chain).unwrap().map(|found| found.session);
    assert_eq!(found(), Some(id("t")));
    let db = Connection::open(archive.file()).unwrap();
    db.execute_batch("UPDATE head SET bytes = 0 WHERE session = 2").unwrap();
    assert_eq!(found(), Some(id("s")));
    db.execute_batch("UPDATE entry SET round = 9 WHERE session = 1").unwrap();
    assert_eq!(found(), None);
}

#[test]
fn a_conversation_goes_on_before_an_entry_that_is_damaged() {
    let (_folder, archive) = fresh();
    let told = [user("one"), reply("two"), user("three")];
    record(&archive, "s", &told);
    // The same with a thought between; it is the newer one.
    let thoughtful = [user("one"), silent("thought"), reply("two"), user("three")];
    assert_eq!(fork(&archive, "s", None, &thoughtful), [0, 3, 4, 5]);
    let chain = links(Owner::LOCAL, &told);
    let found = || archive.find_path(Owner::LOCAL, &chain).unwrap().map(|found| found.seq.0);
    assert_eq!(found(), Some(5));
    let db = Connection::open(archive.file()).unwrap();
    db.execute_batch("UPDATE entry SET round = 9 WHERE seq = 5").unwrap();
    assert_eq!(found(), Some(4));
    let error = archive.tree(id("s")).unwrap_err();
    assert!(error.to_string().ends_with("entry 5 failed its checksum"), "{error}");
    db.execute_batch("DELETE FROM entry WHERE seq = 5").unwrap();
    let error = archive.tree(id("s")).unwrap_err();
    assert!(error.to_string().ends_with("entry 5 is missing"), "{error}");
}

#[test]
fn a_damaged_index_is_made_anew() {
    let (_folder, path) = sample();
    let right = content(&SqliteArchive::open(&path).unwrap());
    let db = Connection::open(&path).unwrap();
    db.execute_batch("UPDATE index_block SET data = zeroblob(40)").unwrap();
    drop(db);
    let archive = SqliteArchive::open(&path).unwrap();
    assert_ne!(archive.verify(None).unwrap(), []);
    for (query, right) in QUERIES.iter().zip(&right.hits) {
        assert_eq!(archive.search(&Scope::All, query, 999).unwrap(), *right, "{query}");
    }
    drop(archive);
    assert_eq!(SqliteArchive::open(&path).unwrap().verify(None).unwrap(), []);
}

#[test]
fn a_full_disk_loses_nothing_and_passes() {
    let folder = quick_folder();
    let path = folder.path().join("archive.db");
    let settings = SqliteSettings { file_bytes_max: Some(1 << 20), ..SqliteSettings::default() };
    let archive = SqliteArchive::open_with(&path, &settings).unwrap();
    let said = |n: u64| user(&format!("{n} {}", filler::words(1_000, n)));
    let mut count = 0;
    record(&archive, "s", &[]);
    record(&archive, "large", &[]);
    let append = |name: &str, entries: &[_]| archive.append(id(name), After::Newest, entries);
    let error = loop {
        match append("s", &[said(count)]) {
            Ok(appended) => assert_eq!(appended.seqs, [Seq(count)]),
            Err(error) => break error,
        }
        count += 1;
    };
    assert!(matches!(error, ArchiveError::Full { .. }), "{error:?}");
    named(&error, &path, "full");
    assert!(count > 50, "{count}");
    assert_eq!(archive.head(id("s")).unwrap().unwrap().entries, count);
    assert_eq!(archive.verify(None).unwrap(), []);
    // Small ones may still fit beside large ones that do not.
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| append("large", &[said(1_001), said(1_002), said(1_003)]).unwrap_err());
        }
    });
    assert_eq!(archive.head(id("large")).unwrap().unwrap().entries, 0);
    drop(archive);
    let archive = SqliteArchive::open(&path).unwrap();
    assert_eq!(record(&archive, "s", &[said(count)]).seqs, [Seq(count)]);
    let entries = archive.path(id("s"), None, 0..count + 1).unwrap();
    assert!(entries.iter().all(|entry| entry.raw == said(entry.seq.0).raw));
    assert_eq!(archive.verify(None).unwrap(), []);
}
