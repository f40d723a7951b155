//! Adding to sessions: entries, batches, undos and pins.

use std::collections::BTreeMap;

use longhand_core::session::{Node, SessionState, Trail};
use longhand_core::{Link, Seq};

use super::history;
use crate::ledger::{self, Conflicts, Ledger, Undecided, change, require};
use crate::storage::{BatchRecord, EntryRecord, Storage, Write};
use crate::{
    Addition, After, Appended, ArchiveError, Conflict, Entry, LoggedBatch, NewBatch, NewEntry,
    NewSession, SessionId,
};

/// See [`crate::Archive::begin`].
pub(super) async fn begin<S: Storage + ?Sized>(
    storage: &S,
    id: SessionId,
    session: &NewSession,
) -> Result<(), ArchiveError> {
    // Most sessions are there, and looking costs no sync.
    let mut ledger = Ledger::open_or_begin(storage, id, session).await?;
    ledger.change(storage, |_, _| Ok(())).await?;
    Ledger::open_or_begin(storage, id, session).await.map(drop)
}

/// See [`crate::Archive::append`].
pub(super) async fn append<S: Storage + ?Sized>(
    storage: &S,
    id: SessionId,
    after: After,
    entries: &[NewEntry],
) -> Result<Appended, ArchiveError> {
    change(storage, id, |state, write| append_to(id, state, after, entries, write)).await
}

/// Appends entries to a state, and to what is written of it.
pub(crate) fn append_to(
    id: SessionId,
    state: &mut SessionState,
    after: After,
    entries: &[NewEntry],
    write: &mut Write,
) -> Result<Appended, Undecided> {
    let parent = parent(id, state, after)?;
    let mut chain = state.chain_after(parent)?;
    for entry in entries {
        chain.push(entry.meaning);
    }
    let mut trail = Trail::after(parent);
    state.follow(&mut trail, chain.links())?;
    let known = trail.seqs.len();
    let before = trail.seqs.first().copied().or(parent).map(|seq| state.round(seq)).transpose()?;
    let new = chain.links().iter().zip(entries).skip(known);
    let nodes = state.extend(&mut trail, new.map(|(link, entry)| (*link, entry.opens_round)))?;
    let first = nodes.first().filter(|_| known == 0).map(|node| node.round);
    let round = first.or(before).unwrap_or(0);
    let new = nodes.len() as u64;
    let records = nodes.into_iter().zip(&entries[known..]).map(|(node, entry)| record(node, entry));
    write.entries.extend(records);
    Ok(Appended { seqs: trail.seqs, new, round, batch: None })
}

/// The entry that new ones follow.
fn parent(id: SessionId, state: &SessionState, after: After) -> Result<Option<Seq>, ArchiveError> {
    match after {
        After::Newest => Ok(state.tree().newest()),
        After::Entry(parent) => {
            parent.map_or(Ok(()), |parent| require(id, state, parent))?;
            Ok(parent)
        }
    }
}

fn record(node: Node, entry: &NewEntry) -> EntryRecord {
    let Node { seq, parent, link, round } = node;
    let NewEntry { form, raw, text, at_ms, .. } = entry.clone();
    EntryRecord { entry: Entry { seq, parent, link, round, form, raw, at_ms }, text }
}

/// See [`crate::Archive::commit`].
pub(super) async fn commit<S: Storage + ?Sized>(
    storage: &S,
    id: SessionId,
    batch: &NewBatch,
) -> Result<u64, ArchiveError> {
    change(storage, id, |state, write| Ok(commit_to(id, state, batch, write)?)).await
}

/// Commits a batch to a state, and to what is written of it.
pub(crate) fn commit_to(
    id: SessionId,
    state: &mut SessionState,
    new: &NewBatch,
    write: &mut Write,
) -> Result<u64, ArchiveError> {
    let NewBatch { after, at_ms, batch, receipt } = new.clone();
    let line = state.check_commit(&batch, after);
    let line = line.map_err(|error| ledger::refused(id, state, batch.head, after, error))?;
    write.batches.push(BatchRecord { line, at_ms, batch, receipt });
    Ok(state.commit(line))
}

/// See [`crate::Archive::undo`].
pub(super) async fn undo<S: Storage + ?Sized>(
    storage: &S,
    id: SessionId,
    head: Option<Seq>,
) -> Result<Option<LoggedBatch>, ArchiveError> {
    let decide = |state: &mut SessionState, write: &mut Write| {
        head.map_or(Ok(()), |head| require(id, state, head))?;
        let newest = state.live(state.head(head)).pop();
        if let Some(number) = newest {
            state.undo(number);
            write.undos.push(number);
        }
        Ok(newest)
    };
    match change(storage, id, decide).await {
        Err(ArchiveError::UnknownSession { .. }) | Ok(None) => Ok(None),
        Err(error) => Err(error),
        Ok(Some(number)) => {
            let batch = history::logged(storage, id, &[(number, false)]).await?.pop();
            Ok(batch)
        }
    }
}

/// See [`crate::Archive::pin`].
pub(super) async fn pin<S: Storage + ?Sized>(
    storage: &S,
    id: SessionId,
    entry: Seq,
    is_pinned: bool,
) -> Result<(), ArchiveError> {
    change(storage, id, |state, write| {
        require(id, state, entry)?;
        write.pins = state.pinned(entry, is_pinned);
        if let Some(pins) = &write.pins {
            state.set_pins(pins.clone());
        }
        Ok(())
    })
    .await
}

/// A session on its way: what is decided, and what is written of it.
struct Pending {
    ledger: Ledger,
    write: Write,
    /// The additions that are in it, with what became of them.
    added: Vec<(usize, Appended)>,
}

/// See [`crate::Archive::append_all`].
///
/// All additions to one session are one write.
pub(super) async fn append_all<S: Storage + ?Sized>(
    storage: &S,
    additions: &[Addition],
) -> Result<Vec<Result<Appended, ArchiveError>>, ArchiveError> {
    let mut outcomes: Vec<Option<Result<Appended, ArchiveError>>> = Vec::new();
    outcomes.resize_with(additions.len(), || None);
    let mut conflicts = Conflicts::default();
    while outcomes.iter().any(Option::is_none) {
        let mut pending: BTreeMap<SessionId, Pending> = BTreeMap::new();
        for (index, addition) in additions.iter().enumerate() {
            if outcomes[index].is_some() {
                continue;
            }
            match add(storage, &mut pending, index, addition).await {
                Ok(()) => {}
                Err(error) => outcomes[index] = Some(Err(error)),
            }
        }
        let (pending, writes): (Vec<Pending>, Vec<Write>) =
            pending.into_values().map(Pending::split).unzip();
        if writes.is_empty() {
            break;
        }
        for (pending, outcome) in pending.into_iter().zip(storage.write(writes).await?) {
            match outcome {
                Ok(_) => {
                    for (index, appended) in pending.added {
                        outcomes[index] = Some(Ok(appended));
                    }
                }
                // Another writer was first: decided anew.
                Err(ArchiveError::Conflict { conflict: Conflict::Version, .. })
                    if conflicts.may_retry() => {}
                Err(error) => {
                    for (index, _) in pending.added {
                        outcomes[index] = Some(Err(ledger::same(&error)));
                    }
                }
            }
        }
    }
    let unmade = |session| Err(ArchiveError::UnknownSession { session });
    let outcomes = outcomes.into_iter().zip(additions);
    Ok(outcomes.map(|(outcome, addition)| outcome.unwrap_or(unmade(addition.session))).collect())
}

impl Pending {
    /// Opens a session, or begins it.
    async fn open<S: Storage + ?Sized>(
        storage: &S,
        addition: &Addition,
    ) -> Result<Self, ArchiveError> {
        let id = addition.session;
        let ledger = match &addition.begin {
            Some(new) => Ledger::open_or_begin(storage, id, new).await?,
            None => {
                let unknown = ArchiveError::UnknownSession { session: id };
                Ledger::open(storage, id).await?.ok_or(unknown)?
            }
        };
        Ok(Self { write: ledger.write(), ledger, added: Vec::new() })
    }

    fn split(mut self) -> (Self, Write) {
        let write = std::mem::take(&mut self.write);
        (self, write)
    }
}

/// Makes an addition to the state of its session, or nothing of it.
async fn add<S: Storage + ?Sized>(
    storage: &S,
    all: &mut BTreeMap<SessionId, Pending>,
    index: usize,
    addition: &Addition,
) -> Result<(), ArchiveError> {
    let id = addition.session;
    let (mut pending, is_new) = match all.remove(&id) {
        Some(pending) => (pending, false),
        None => (Pending::open(storage, addition).await?, true),
    };
    let (before, mut write) = (pending.ledger.state.version(), pending.write.clone());
    let owner = pending.ledger.opened.session.owner;
    let outcome = if addition.begin.as_ref().is_some_and(|new| new.owner != owner) {
        Err(ArchiveError::NotTheOwner { session: id })
    } else {
        pending.ledger.ask(storage, |state| make(state, addition, &mut write)).await
    };
    match outcome {
        Ok(appended) => {
            pending.write = write;
            pending.added.push((index, appended));
            all.insert(id, pending);
            Ok(())
        }
        Err(error) => {
            if !is_new {
                pending.ledger.state.rewind_to(before);
                all.insert(id, pending);
            }
            Err(error)
        }
    }
}

/// Adds to a state, and to what is written of it.
fn make(
    state: &mut SessionState,
    addition: &Addition,
    write: &mut Write,
) -> Result<Appended, Undecided> {
    let id = addition.session;
    if let Some(expected) = &addition.expected {
        let entries = state.tree().len();
        let conflict = Conflict::Entries { expected: expected.first.0, entries };
        let conflict = ArchiveError::Conflict { session: id, conflict };
        if expected.first.0 != entries {
            return Err(conflict.into());
        }
        let parent = parent(id, state, addition.after)?;
        if let Some(parent) = parent {
            state.chain_after(Some(parent))?;
        }
        let before: Option<Link> = parent.and_then(|parent| state.link(parent));
        if expected.before != before {
            return Err(conflict.into());
        }
    }
    let mut appended = append_to(id, state, addition.after, &addition.entries, write)?;
    if let Some(batch) = &addition.batch {
        appended.batch = Some(commit_to(id, state, batch, write)?);
    }
    write.preambles.extend(addition.preamble.clone());
    write.requests.extend(addition.request.clone());
    write.derived.extend(addition.derived.clone());
    Ok(appended)
}
