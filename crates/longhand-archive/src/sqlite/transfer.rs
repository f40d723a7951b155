//! A session record by record.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use longhand_core::Seq;
use rusqlite::Connection;

use super::entry::{self, ReadyEntry, RestoredPlace, Statements};
use super::fault::{Fault, illegible_as};
use super::session::{self, Session};
use super::{batch, derived, preamble, request};
use crate::{ArchiveError, DamagedPart, Entry, NewBatch, NewSession, Record, SessionId};

/// Takes a record; says whether to go on.
type Take<'t> = &'t mut dyn FnMut(Record) -> ControlFlow<()>;

/// See [`crate::Archive::export`].
pub(super) fn export(db: &Connection, id: SessionId, take: Take<'_>) -> Result<bool, Fault> {
    let Some(session) = session::find(db, id)? else { return Ok(false) };
    let damaged = || session.damage(DamagedPart::Session, "failed its checksum");
    let row = session::find_row(db, id).map_err(illegible_as(damaged))?.ok_or_else(damaged)?;
    if take(Record::Session(row.new)).is_continue()
        && entry::export(db, &session, take)?.is_continue()
        && batches(db, &session, take)?.is_continue()
        && pins(db, &session, take)?.is_continue()
        && requests(db, &session, take)?.is_continue()
    {
        // What comes last is as good if it breaks off.
        let _ = derived::all(db, &session, take)?;
    }
    Ok(true)
}

fn batches(db: &Connection, session: &Session, take: Take<'_>) -> Result<ControlFlow<()>, Fault> {
    for number in 1..=session.state.batches {
        let found = batch::by_number(db, session, number)?.decoded(true);
        let found = found.ok_or_else(|| batch::damaged(session, number))?;
        let batch = NewBatch {
            after: found.after,
            at_ms: found.at_ms,
            batch: found.batch,
            receipt: found.receipt,
        };
        if take(Record::Batch { number, batch }).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    for number in batch::undo_log(db, session)? {
        if take(Record::Undo(number)).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

fn pins(db: &Connection, session: &Session, take: Take<'_>) -> Result<ControlFlow<()>, Fault> {
    let pins: Vec<Seq> = session::pins(db, session)?.into_iter().map(Seq).collect();
    Ok(if pins.is_empty() { ControlFlow::Continue(()) } else { take(Record::Pins(pins)) })
}

/// The request log, and before it the preambles that it names.
fn requests(db: &Connection, session: &Session, take: Take<'_>) -> Result<ControlFlow<()>, Fault> {
    let mut select = db.prepare_cached(request::SELECT_ALL)?;
    let mut named = BTreeSet::new();
    for is_preamble in [true, false] {
        let mut rows = select.query([session.row])?;
        for number in 1..=session.state.requests {
            let missing = || request::damaged(session, number, "is missing");
            let row = rows.next()?.ok_or_else(missing)?;
            let request = request::checked(session, number, row)?;
            let record = if is_preamble {
                let id = request.preamble.filter(|id| named.insert(*id));
                let content = id.map(|id| preamble::find(db, session.owner, id)).transpose()?;
                content.flatten().map(Record::Preamble)
            } else {
                Some(Record::Request(request))
            };
            if record.is_some_and(|record| take(record).is_break()) {
                return Ok(ControlFlow::Break(()));
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// A record with all that can be worked out before the file is locked.
pub(super) enum ReadyRecord {
    Entry(RestoredPlace, ReadyEntry),
    Other(Record),
}

impl ReadyRecord {
    pub(super) fn new(record: &Record) -> Self {
        match record {
            Record::Entry { entry, text } => {
                let Entry { seq, parent, link, round, .. } = entry;
                let (seq, parent, link, round) = (*seq, *parent, *link, *round);
                let place = RestoredPlace { seq, parent, link, round };
                Self::Entry(place, ReadyEntry::restored(entry, text))
            }
            other => Self::Other(other.clone()),
        }
    }
}

/// See [`crate::Archive::restore`].
pub(super) fn restore(
    db: &Connection,
    id: SessionId,
    records: &[ReadyRecord],
) -> Result<(), Fault> {
    let mut records = records.iter().peekable();
    if let Some(ReadyRecord::Other(Record::Session(new))) = records.peek() {
        begin(db, id, new)?;
        records.next();
    }
    let mut session = session::require(db, id)?;
    let mut statements = Statements::new(db)?;
    for record in records {
        match record {
            ReadyRecord::Entry(place, entry) => {
                entry::restore(&mut statements, &mut session, place, entry)?;
            }
            ReadyRecord::Other(record) => restore_other(db, &mut session, record)?,
        }
    }
    session::save(db, &session)
}

/// A session that is there must be the same.
fn begin(db: &Connection, id: SessionId, new: &NewSession) -> Result<(), Fault> {
    session::begin(db, id, new)?;
    let found = session::find_row(db, id)?.map(|row| row.new);
    if found.as_ref() == Some(new) { Ok(()) } else { Err(unfit(id, "the record of the session")) }
}

fn restore_other(db: &Connection, session: &mut Session, record: &Record) -> Result<(), Fault> {
    match record {
        Record::Session(_) | Record::Entry { .. } => {
            return Err(unfit(session.id, "a second record of the session"));
        }
        Record::Batch { number, batch } => batch::restore(db, session, *number, batch)?,
        Record::Undo(number) => batch::restore_undo(db, session, *number)?,
        Record::Pins(seqs) => {
            seqs.iter().try_for_each(|seq| session.require(*seq))?;
            let seqs: Vec<u64> = seqs.iter().map(|seq| seq.0).collect();
            session::set_pins(db, session, &seqs)?;
        }
        Record::Preamble(content) => {
            preamble::keep(db, session.owner, content)?;
        }
        Record::Request(request) => request::RequestLog::new(db)?.add(session, request)?,
        Record::Derived { key, value } => derived::put_in(db, session, key, value)?,
    }
    Ok(())
}

/// A record that cannot follow what the session has.
pub(super) fn unfit(session: SessionId, record: impl Into<String>) -> Fault {
    ArchiveError::Unfit { session, record: record.into() }.into()
}
