//! Adding to sessions: entries, batches, undos and pins.

use longhand_core::Seq;
use longhand_core::session::{Node, SessionState, Trail};

use super::history;
use crate::ledger::{self, Ledger, Undecided, change, require};
use crate::storage::{BatchRecord, EntryRecord, Storage, Write};
use crate::{
    After, Appended, ArchiveError, Entry, LoggedBatch, NewBatch, NewEntry, NewSession, SessionId,
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
pub fn append_to(
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
    Ok(Appended { seqs: trail.seqs, new, round })
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
    let NewEntry { form, raw, text, at_ms, source_ms, .. } = entry.clone();
    EntryRecord { entry: Entry { seq, parent, link, round, form, raw, at_ms, source_ms }, text }
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

/// See [`crate::Archive::undo`], and [`crate::Archive::undo_newest`] where a batch is expected.
pub(super) async fn undo<S: Storage + ?Sized>(
    storage: &S,
    id: SessionId,
    head: Option<Seq>,
    expected: Option<u64>,
) -> Result<Option<LoggedBatch>, ArchiveError> {
    let decide = |state: &mut SessionState, write: &mut Write| {
        head.map_or(Ok(()), |head| require(id, state, head))?;
        let newest = state.live(state.head(head)).pop();
        let newest = newest.filter(|newest| expected.is_none_or(|batch| batch == *newest));
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
