//! A session record by record, on its way out of an archive or into one.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use longhand_core::session::{Node, SessionState, Version};

use super::one;
use crate::ledger::{self, Ledger, Undecided, require};
use crate::page::Page;
use crate::storage::{
    BatchRecord, EntryRecord, FoldStates, Key, NoteFilter, RequestFilter, Storage, Write,
};
use crate::{ArchiveError, NewBatch, PreambleId, Record, RequestRecord, SessionId};

/// How many entries are read at a time.
const PAGE: u64 = 256;

/// How many requests are read at a time.
const REQUESTS: usize = 4_096;

/// Takes a record; says whether to go on.
type Take<'t> = &'t mut (dyn FnMut(Record) -> ControlFlow<()> + 't);

/// See [`crate::Archive::export`].
pub(super) async fn export<S: Storage + ?Sized>(
    storage: &S,
    id: SessionId,
    take: Take<'_>,
) -> Result<bool, ArchiveError> {
    let Some(ledger) = Ledger::open(storage, id).await? else { return Ok(false) };
    if take(Record::Session(ledger.opened.session.as_new())).is_continue()
        && entries(storage, &ledger, take).await?.is_continue()
        && batches(storage, &ledger, take).await?.is_continue()
        && requests(storage, &ledger, take).await?.is_continue()
        && derived(storage, id, take).await?.is_continue()
    {
        // What comes last is as good if it breaks off.
        let _ = notes(storage, id, take).await?;
    }
    Ok(true)
}

async fn entries<S: Storage + ?Sized>(
    storage: &S,
    ledger: &Ledger,
    take: Take<'_>,
) -> Result<ControlFlow<()>, ArchiveError> {
    let end = ledger.state.tree().len();
    let mut next = 0;
    while next < end {
        let page = next..end.min(next + PAGE);
        next = page.end;
        for EntryRecord { entry, text } in storage.bodies(ledger.id(), vec![page]).await? {
            if take(Record::Entry { entry, text }).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// The batches, what was undone of them, and the pins.
async fn batches<S: Storage + ?Sized>(
    storage: &S,
    ledger: &Ledger,
    take: Take<'_>,
) -> Result<ControlFlow<()>, ArchiveError> {
    for number in 1..=ledger.state.log().len() {
        for record in storage.read_batches(ledger.id(), vec![number], FoldStates::All).await? {
            let BatchRecord { line, at_ms, batch, receipt } = record;
            let batch = NewBatch { after: line.after, at_ms, batch, receipt };
            if take(Record::Batch { number, batch }).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }
    let undone = ledger.state.log().undone().iter().map(|number| Record::Undo(*number));
    let pins = Some(ledger.state.pins().to_vec()).filter(|pins| !pins.is_empty());
    Ok(undone.chain(pins.map(Record::Pins)).try_for_each(take))
}

/// The request log as it was, and before it the preambles that it names.
async fn requests<S: Storage + ?Sized>(
    storage: &S,
    ledger: &Ledger,
    take: Take<'_>,
) -> Result<ControlFlow<()>, ArchiveError> {
    let mut page = Page::first(REQUESTS);
    let mut newest_first: Vec<RequestRecord> = Vec::new();
    loop {
        let listing = storage.list_requests(RequestFilter::Session(ledger.id()), page).await?;
        newest_first.extend(listing.items.into_iter().map(|(_, request)| request));
        match listing.next {
            Some(next) => page.after = Some(next),
            None => break,
        }
    }
    // Others may have added some meanwhile.
    let skipped = (newest_first.len() as u64).saturating_sub(ledger.opened.requests);
    let requests: Vec<RequestRecord> =
        newest_first.into_iter().skip(skipped as usize).rev().collect();
    let mut named = BTreeSet::new();
    let ids = requests.iter().filter_map(|request| request.preamble);
    let ids: Vec<PreambleId> = ids.filter(|id| named.insert(*id)).collect();
    for id in ids {
        let key = Key::Preamble(ledger.opened.session.owner, id);
        let content = one(storage, key).await?;
        if content.is_some_and(|content| take(Record::Preamble(content)).is_break()) {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(requests.into_iter().map(Record::Request).try_for_each(take))
}

async fn notes<S: Storage + ?Sized>(
    storage: &S,
    id: SessionId,
    take: Take<'_>,
) -> Result<ControlFlow<()>, ArchiveError> {
    let notes = storage.notes(NoteFilter::Session(id)).await?;
    Ok(notes.into_iter().map(|(_, note)| Record::Note(note)).try_for_each(take))
}

async fn derived<S: Storage + ?Sized>(
    storage: &S,
    id: SessionId,
    take: Take<'_>,
) -> Result<ControlFlow<()>, ArchiveError> {
    for key in storage.keys(id, String::new()).await? {
        // What is damaged must be derived again.
        let value = one(storage, Key::Derived(id, key.clone())).await?;
        if value.is_some_and(|value| take(Record::Derived { key, value }).is_break()) {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// See [`crate::Archive::restore`].
pub(super) async fn restore<S: Storage + ?Sized>(
    storage: &S,
    id: SessionId,
    records: &[Record],
) -> Result<(), ArchiveError> {
    let (begin, records) = match records {
        [Record::Session(new), rest @ ..] => (Some(new), rest),
        records => (None, records),
    };
    let mut ledger = if let Some(new) = begin {
        let ledger = Ledger::open_or_begin(storage, id, new).await?;
        let is_there = ledger.state.written() != Version::default();
        if is_there && !ledger.opened.session.as_new().is_same(new) {
            return Err(unfit(id, "the record of the session"));
        }
        ledger
    } else {
        let unknown = ArchiveError::UnknownSession { session: id };
        Ledger::open(storage, id).await?.ok_or(unknown)?
    };
    let change = |state: &mut SessionState, write: &mut Write| {
        let before = write.clone();
        restore_all(id, state, records, write).inspect_err(|_| {
            state.rewind();
            *write = before;
        })
    };
    ledger.change(storage, change).await
}

/// Adds records to a state, and to what is written of it.
fn restore_all(
    id: SessionId,
    state: &mut SessionState,
    records: &[Record],
    write: &mut Write,
) -> Result<(), Undecided> {
    records.iter().try_for_each(|record| restore_one(id, state, record, write))
}

fn restore_one(
    id: SessionId,
    state: &mut SessionState,
    record: &Record,
    write: &mut Write,
) -> Result<(), Undecided> {
    match record {
        Record::Session(_) => return Err(unfit(id, "a second record of the session").into()),
        Record::Entry { entry, text } => {
            let (seq, parent, link, round) = (entry.seq, entry.parent, entry.link, entry.round);
            let restored = state.restore(Node { seq, parent, link, round })?;
            restored.map_err(|_| unfit(id, format!("entry {}", seq.0)))?;
            write.entries.push(EntryRecord { entry: entry.clone(), text: text.clone() });
        }
        Record::Batch { number, batch: new } => {
            // Whether it built on what was live then cannot be checked any more.
            if *number != state.log().len() + 1 || new.after >= *number {
                return Err(unfit(id, format!("batch {number}")).into());
            }
            let NewBatch { after, at_ms, batch, receipt } = new.clone();
            let line = state.line_of(&batch, after);
            let line =
                line.map_err(|error| ledger::refused(id, state, batch.head, after, error))?;
            state.commit(line);
            write.batches.push(BatchRecord { line, at_ms, batch, receipt });
        }
        Record::Undo(number) => {
            let is_there = state.log().line(*number).is_some();
            if !is_there || state.log().undone().contains(number) {
                return Err(unfit(id, format!("the undo of batch {number}")).into());
            }
            state.undo(*number);
            write.undos.push(*number);
        }
        Record::Pins(seqs) => {
            seqs.iter().try_for_each(|seq| require(id, state, *seq))?;
            write.pins = Some(seqs.clone());
        }
        Record::Preamble(content) => write.preambles.push(content.clone()),
        Record::Request(request) => write.requests.push(request.clone()),
        Record::Note(note) => write.notes.push(note.clone()),
        Record::Derived { key, value } => write.derived.push((key.clone(), value.clone())),
    }
    Ok(())
}

/// A record that does not follow from what the session has.
fn unfit(session: SessionId, record: impl Into<String>) -> ArchiveError {
    ArchiveError::Unfit { session, record: record.into() }
}
