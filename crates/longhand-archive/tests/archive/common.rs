//! What the tests share.

use longhand_archive::{
    After, Appended, Archive, Entry, MemoryArchive, NewBatch, NewEntry, NewSession, Owner,
    SessionId, SqliteArchive,
};
use longhand_core::{Batch, Edit, Fold, Original, Place, Seq, Span};
use longhand_core::{Handle, Link, Meaning};
use tempfile::TempDir;

/// Runs a test on a fresh archive of every kind.
pub(crate) fn check(test: impl Fn(&dyn Archive)) {
    test(&MemoryArchive::new());
    let (_folder, archive) = fresh();
    test(&archive);
    assert_eq!(archive.verify(None).unwrap(), []);
}

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

/// The id of a session of this machine's own.
pub(crate) fn id(name: &str) -> SessionId {
    SessionId::named(Owner::LOCAL, name)
}

/// What begins a session with a name.
pub(crate) fn named(owner: Owner, name: &str) -> NewSession {
    NewSession {
        owner,
        dialect: "chat".to_owned(),
        name: name.to_owned(),
        continues: None,
        group: None,
        begun_ms: 5,
    }
}

/// Begins a session unless it is there.
pub(crate) fn begin(archive: &dyn Archive, name: &str) -> SessionId {
    archive.begin(id(name), &named(Owner::LOCAL, name)).unwrap();
    id(name)
}

/// Appends after the newest entry of a session, which is begun if need be.
pub(crate) fn record(archive: &dyn Archive, name: &str, entries: &[NewEntry]) -> Appended {
    archive.append(begin(archive, name), After::Newest, entries).unwrap()
}

/// Appends after an entry, or as a root.
pub(crate) fn fork(
    archive: &dyn Archive,
    name: &str,
    parent: Option<u64>,
    entries: &[NewEntry],
) -> Vec<u64> {
    let appended = archive.append(id(name), After::Entry(parent.map(Seq)), entries).unwrap();
    numbers(&appended.seqs)
}

pub(crate) fn numbers(seqs: &[Seq]) -> Vec<u64> {
    seqs.iter().map(|seq| seq.0).collect()
}

pub(crate) fn seqs(entries: &[Entry]) -> Vec<u64> {
    entries.iter().map(|entry| entry.seq.0).collect()
}

/// An entry that opens a round.
pub(crate) fn user(text: &str) -> NewEntry {
    NewEntry {
        meaning: Meaning::of_content(text),
        opens_round: true,
        form: "chat".to_owned(),
        raw: format!(r#"{{"role":"user","content":{}}}"#, quoted(text)),
        text: text.to_owned(),
        at_ms: 1_700_000_000_000,
    }
}

/// An entry that belongs to the round before it.
pub(crate) fn reply(text: &str) -> NewEntry {
    NewEntry {
        meaning: Meaning::of_content(&format!("reply {text}")),
        opens_round: false,
        at_ms: 1_700_000_000_500,
        ..user(text)
    }
}

/// An entry that says nothing.
pub(crate) fn silent(text: &str) -> NewEntry {
    let reply = reply(text);
    // The lowest bit marks it.
    NewEntry { meaning: Meaning(reply.meaning.0 | 1), ..reply }
}

/// The links of a conversation.
pub(crate) fn links(owner: Owner, entries: &[NewEntry]) -> Vec<Link> {
    let mut last = owner.root();
    let next = entries.iter().map(|entry| {
        let link = last.next(entry.meaning);
        if !link.is_silent() {
            last = link;
        }
        link
    });
    next.collect()
}

/// The links by which a conversation is looked for: those of silent entries do not count.
pub(crate) fn said(owner: Owner, entries: &[NewEntry]) -> Vec<Link> {
    links(owner, entries).into_iter().filter(|link| !link.is_silent()).collect()
}

/// A batch with contents that entries have in another form.
pub(crate) fn with_variants(new: NewBatch, variants: &[(Handle, Original)]) -> NewBatch {
    NewBatch { batch: Batch { variants: variants.to_vec(), ..new.batch }, ..new }
}

/// A batch that stubs a part of each of some entries.
pub(crate) fn stubs(after: u64, head: u64, entries: &[u64]) -> NewBatch {
    let edits = entries.iter().map(|entry| Edit::Stub {
        at: Place { entry: Seq(*entry), part: 0 },
        handle: stub_handle(*entry),
        text: format!("[entry {entry} is out of sight]"),
    });
    batch(after, head, edits.collect())
}

pub(crate) fn stub_handle(entry: u64) -> Handle {
    Handle::of([format!("part of {entry}").as_str()])
}

/// A batch that folds the entries from one to another.
pub(crate) fn folds(after: u64, head: u64, first: u64, last: u64) -> NewBatch {
    batch(after, head, vec![Edit::Fold(fold(first, last))])
}

pub(crate) fn fold(first: u64, last: u64) -> Fold {
    Fold {
        spans: vec![Span { first: Seq(first), last: Seq(last) }],
        blocks: vec![],
        sum: u128::from(first) << 64 | u128::from(last),
        text: format!("[entries {first} to {last} are folded]"),
    }
}

pub(crate) fn batch(after: u64, head: u64, edits: Vec<Edit>) -> NewBatch {
    NewBatch {
        after,
        at_ms: 7,
        batch: Batch { head: Seq(head), edits, state: "state".to_owned(), variants: Vec::new() },
        receipt: format!(r#"{{"after":{after}}}"#),
    }
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '\n' => quoted.push_str("\\n"),
            letter if letter.is_control() => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(letter)));
            }
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}
