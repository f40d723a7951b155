//! Sessions, entries and batches for tests of archives, and the writes that they come to.

use longhand_archive::{
    After, Appended, Archive, ArchiveError, BatchRecord, Entry, EntryRecord, Ledger, NewBatch,
    NewEntry, NewSession, Owner, SessionId, Undecided, Version, Write, wait,
};
use longhand_core::session::{Lack, Node, SessionState, Trail};
use longhand_core::{Batch, Edit, Fold, Original, Place, Seq, Span};
use longhand_core::{Handle, Link, Meaning};

/// Appends entries to a state, and to what is written of it; returns the numbers of all of them.
///
/// What follows the parent already is found again, as [`Archive::append`] does.
pub fn append_to(
    state: &mut SessionState,
    write: &mut Write,
    parent: Option<Seq>,
    entries: &[NewEntry],
) -> Result<Vec<Seq>, Lack> {
    let mut chain = state.chain_after(parent)?;
    for entry in entries {
        chain.push(entry.meaning);
    }
    let mut trail = Trail::after(parent);
    state.follow(&mut trail, chain.links())?;
    let new = &entries[trail.seqs.len()..];
    let links = &chain.links()[trail.seqs.len()..];
    let nodes = state.extend(
        &mut trail,
        links.iter().zip(new).map(|(link, entry)| (*link, entry.opens_round)),
    )?;
    let records = nodes.into_iter().zip(new).map(|(node, new)| {
        let Node { seq, parent, link, round } = node;
        let NewEntry { form, raw, text, at_ms, source_ms, .. } = new.clone();
        let entry = Entry { seq, parent, link, round, form, raw, at_ms, source_ms };
        EntryRecord { entry, text }
    });
    write.entries.extend(records);
    Ok(trail.seqs)
}

/// Commits a batch to a state, and to what is written of it; returns its number.
pub fn commit_to(state: &mut SessionState, write: &mut Write, new: &NewBatch) -> u64 {
    let NewBatch { after, at_ms, batch, receipt } = new.clone();
    let line = state.check_commit(&batch, after).unwrap();
    write.batches.push(BatchRecord { line, at_ms, batch, receipt });
    state.commit(line)
}

/// A write that appends entries after the newest one of a session as it is now, and begins the session if
/// it is not there.
pub fn append_write(archive: &dyn Archive, name: &str, entries: &[NewEntry]) -> Write {
    let new = named(Owner::LOCAL, name);
    let mut ledger = wait(Ledger::open_or_begin(archive, id(name), &new)).unwrap();
    let mut write = ledger.write();
    let decide = |state: &mut SessionState| {
        let parent = state.tree().newest();
        append_to(state, &mut write, parent, entries).map_err(Undecided::Lack)
    };
    wait(ledger.ask(archive, decide)).unwrap();
    write
}

/// Makes one write in a transaction of its own.
pub fn write_one(archive: &dyn Archive, write: Write) -> Result<Version, ArchiveError> {
    wait(archive.write(vec![write]))?.remove(0)
}

/// The id of a session of this machine's own.
pub fn id(name: &str) -> SessionId {
    SessionId::named(Owner::LOCAL, name)
}

/// What begins a session with a name.
pub fn named(owner: Owner, name: &str) -> NewSession {
    NewSession {
        owner,
        dialect: "chat".to_owned(),
        name: name.to_owned(),
        continues: None,
        group: None,
        begun_ms: 5,
        ..NewSession::default()
    }
}

/// Begins a session unless it is there.
pub fn begin(archive: &dyn Archive, name: &str) -> SessionId {
    archive.begin(id(name), &named(Owner::LOCAL, name)).unwrap();
    id(name)
}

/// Appends after the newest entry of a session, which is begun if need be.
pub fn record(archive: &dyn Archive, name: &str, entries: &[NewEntry]) -> Appended {
    archive.append(begin(archive, name), After::Newest, entries).unwrap()
}

/// Appends after an entry, or as a root.
pub fn fork(
    archive: &dyn Archive,
    name: &str,
    parent: Option<u64>,
    entries: &[NewEntry],
) -> Vec<u64> {
    let appended = archive.append(id(name), After::Entry(parent.map(Seq)), entries).unwrap();
    numbers(&appended.seqs)
}

/// The numbers of entries.
pub fn numbers(seqs: &[Seq]) -> Vec<u64> {
    seqs.iter().map(|seq| seq.0).collect()
}

/// The numbers of entries that were read.
pub fn seqs(entries: &[Entry]) -> Vec<u64> {
    entries.iter().map(|entry| entry.seq.0).collect()
}

/// An entry that opens a round.
pub fn user(text: &str) -> NewEntry {
    NewEntry {
        meaning: Meaning::of_content(text),
        opens_round: true,
        form: "chat".to_owned(),
        raw: format!(r#"{{"role":"user","content":{}}}"#, quoted(text)),
        text: text.to_owned(),
        at_ms: 1_700_000_000_000,
        source_ms: None,
    }
}

/// An entry that belongs to the round before it.
pub fn reply(text: &str) -> NewEntry {
    NewEntry {
        meaning: Meaning::of_content(&format!("reply {text}")),
        opens_round: false,
        at_ms: 1_700_000_000_500,
        ..user(text)
    }
}

/// An entry that says nothing.
pub fn silent(text: &str) -> NewEntry {
    let reply = reply(text);
    // The lowest bit marks it.
    NewEntry { meaning: Meaning(reply.meaning.0 | 1), ..reply }
}

/// The links of a conversation.
pub fn links(owner: Owner, entries: &[NewEntry]) -> Vec<Link> {
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
pub fn said(owner: Owner, entries: &[NewEntry]) -> Vec<Link> {
    links(owner, entries).into_iter().filter(|link| !link.is_silent()).collect()
}

/// A batch with contents that entries have in another form.
pub fn with_variants(new: NewBatch, variants: &[(Handle, Original)]) -> NewBatch {
    NewBatch { batch: Batch { variants: variants.to_vec(), ..new.batch }, ..new }
}

/// A batch that stubs a part of each of some entries.
pub fn stubs(after: u64, head: u64, entries: &[u64]) -> NewBatch {
    let edits = entries.iter().map(|entry| Edit::Stub {
        at: Place { entry: Seq(*entry), part: 0 },
        handle: stub_handle(*entry),
        text: format!("[entry {entry} is out of sight]"),
    });
    batch(after, head, edits.collect())
}

/// The handle of the part that [`stubs`] takes out of an entry.
pub fn stub_handle(entry: u64) -> Handle {
    Handle::of([format!("part of {entry}").as_str()])
}

/// A batch that folds the entries from one to another.
pub fn folds(after: u64, head: u64, first: u64, last: u64) -> NewBatch {
    batch(after, head, vec![Edit::Fold(fold(first, last))])
}

/// The fold of [`folds`].
pub fn fold(first: u64, last: u64) -> Fold {
    Fold {
        spans: vec![Span { first: Seq(first), last: Seq(last) }],
        blocks: vec![],
        sum: u128::from(first) << 64 | u128::from(last),
        text: format!("[entries {first} to {last} are folded]"),
    }
}

/// A batch for the path to a head.
pub fn batch(after: u64, head: u64, edits: Vec<Edit>) -> NewBatch {
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
