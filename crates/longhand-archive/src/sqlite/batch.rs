//! The log of batches as it is stored.

use std::collections::HashSet;

use longhand_core::Seq;
use longhand_core::session::BatchLine;
use rusqlite::{Connection, OptionalExtension as _, Row};

use super::derived::unpacked;
use super::fault::{Fault, illegible_as};
use super::seal::{Seal, Sealer};
use super::session::{StoredSession, first_seal, optional, signed, unsigned};
use super::{pack, reference};
use crate::{BatchRecord, DamagedPart, FoldStates, codec};

/// Adds a batch to the log, with a reference for every handle in it; the session is still to be saved.
pub(super) fn insert(
    db: &Connection,
    session: &mut StoredSession,
    record: &BatchRecord,
) -> Result<(), Fault> {
    let stored = StoredBatch {
        number: session.totals.batches + 1,
        after: record.line.after,
        reach: record.line.reach.map(|reach| reach.0),
        at_ms: record.at_ms,
        state_seal: (!record.batch.state.is_empty()).then(|| seal_of_state(&record.batch.state)),
        receipt: record.receipt.clone(),
        edits: codec::encode(&record.batch),
    };
    stored.insert(db, session, &record.batch.state)?;
    for handle in codec::handles(&record.batch) {
        reference::add(db, session, handle, stored.number)?;
    }
    Ok(())
}

/// Notes that a batch is undone; the session is still to be saved.
pub(super) fn insert_undo(
    db: &Connection,
    session: &mut StoredSession,
    batch: u64,
) -> Result<(), Fault> {
    let number = session.totals.undos + 1;
    let seal = seal_of_undo(&session.totals.undo_seal, number, batch);
    db.prepare_cached("INSERT INTO undo (session, number, batch, seal) VALUES (?1, ?2, ?3, ?4)")?
        .execute((session.row, signed(number), signed(batch), seal))?;
    session.totals.undos = number;
    session.totals.undo_seal = seal;
    Ok(())
}

/// Reads the lines of all batches after a number: what is needed to tell which are live.
pub(super) fn lines(
    db: &Connection,
    session: &StoredSession,
    since: u64,
) -> Result<Vec<BatchLine>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT number, after, reach FROM batch WHERE session = ?1 AND number > ?2 ORDER BY number",
    )?;
    let mut rows = select.query((session.row, signed(since)))?;
    let mut lines = Vec::new();
    while let Some(row) = rows.next()? {
        let number = since + lines.len() as u64 + 1;
        let read = || Ok((unsigned(row, 0)?, unsigned(row, 1)?, optional(row, 2)?));
        let (found, after, reach) = read().map_err(illegible_as(|| damaged(session, number)))?;
        if found != number {
            return Err(missing(session, number));
        }
        if after >= number || reach.is_some_and(|reach| reach >= session.totals.entries) {
            return Err(damaged(session, number));
        }
        lines.push(BatchLine { after, reach: reach.map(Seq) });
    }
    let count = since + lines.len() as u64;
    if count < session.totals.batches {
        return Err(missing(session, count + 1));
    }
    if count > session.totals.batches {
        return Err(damaged(session, count));
    }
    Ok(lines)
}

/// See [`crate::Storage::read_batches`].
pub(super) fn batches(
    db: &Connection,
    session: &StoredSession,
    numbers: &[u64],
    states: FoldStates,
) -> Result<Vec<BatchRecord>, Fault> {
    let mut records = Vec::with_capacity(numbers.len());
    let mut is_last = true;
    for number in numbers.iter().rev() {
        let stored = by_number(db, session, *number)?;
        let state_seal = stored.state_seal;
        let mut record = stored.decoded().ok_or_else(|| damaged(session, *number))?;
        if let Some(seal) = state_seal {
            if states.include(is_last) {
                record.batch.state = state(db, session, *number, &seal)?;
            }
            is_last = false;
        }
        records.push(record);
    }
    records.reverse();
    Ok(records)
}

/// Reads the state of a batch's fold, checked.
fn state(
    db: &Connection,
    session: &StoredSession,
    number: u64,
    seal: &Seal,
) -> Result<String, Fault> {
    let damaged = || damaged(session, number);
    let mut select =
        db.prepare_cached("SELECT state FROM batch WHERE session = ?1 AND number = ?2")?;
    let state = select.query_row((session.row, signed(number)), |row| unpacked(row, 0));
    let state = state.map_err(illegible_as(damaged))?.ok_or_else(damaged)?;
    if seal_of_state(&state) == *seal { Ok(state) } else { Err(damaged()) }
}

/// The states are sealed apart, so that a batch can be checked without its own.
fn seal_of_state(state: &str) -> Seal {
    Sealer::new("state").bytes(state.as_bytes()).seal()
}

/// The numbers of the undone batches, checked.
pub(super) fn undone(db: &Connection, session: &StoredSession) -> Result<HashSet<u64>, Fault> {
    Ok(undo_log(db, session)?.into_iter().collect())
}

/// The numbers of the undone batches, checked, in the order in which they were undone.
pub(super) fn undo_log(db: &Connection, session: &StoredSession) -> Result<Vec<u64>, Fault> {
    let damaged = || session.damage(DamagedPart::Undos, "failed its checksum");
    let mut select = db.prepare_cached(
        "SELECT number, batch, seal FROM undo WHERE session = ?1 ORDER BY number",
    )?;
    let mut rows = select.query([session.row])?;
    let mut undone = Vec::new();
    let mut count = 0;
    let mut seal = first_seal(session.id, "undos");
    while let Some(row) = rows.next()? {
        count += 1;
        let read = || Ok((unsigned(row, 0)?, unsigned(row, 1)?, row.get(2)?));
        let (number, batch, found): (u64, u64, Seal) = read().map_err(illegible_as(damaged))?;
        seal = seal_of_undo(&seal, number, batch);
        if number != count || seal != found {
            return Err(damaged());
        }
        undone.push(batch);
    }
    if count != session.totals.undos || seal != session.totals.undo_seal {
        return Err(damaged());
    }
    Ok(undone)
}

fn seal_of_undo(before: &Seal, number: u64, batch: u64) -> Seal {
    Sealer::new("undo").bytes(before).number(number).number(batch).seal()
}

/// A batch as it is stored.
pub(super) struct StoredBatch {
    pub(super) number: u64,
    after: u64,
    pub(super) reach: Option<u64>,
    at_ms: i64,
    /// `None` if its fold has no state.
    state_seal: Option<Seal>,
    receipt: String,
    edits: Vec<u8>,
}

pub(super) const SELECT_ALL: &str = "SELECT number, after, reach, at_ms, seal, state_seal, \
                                     receipt, edits, state \
                                     FROM batch WHERE session = ?1 ORDER BY number";

impl StoredBatch {
    /// Reads a batch and its seal.
    pub(super) fn read(row: &Row<'_>) -> Result<(Self, Seal), rusqlite::Error> {
        let packed = |column| Ok::<_, rusqlite::Error>(row.get_ref(column)?.as_blob()?);
        let illegible = |column| {
            let kind = rusqlite::types::Type::Blob;
            rusqlite::Error::InvalidColumnType(column, "packed".to_owned(), kind)
        };
        let stored = Self {
            number: unsigned(row, 0)?,
            after: unsigned(row, 1)?,
            reach: optional(row, 2)?,
            at_ms: row.get(3)?,
            state_seal: row.get(5)?,
            receipt: pack::unpack_text(packed(6)?).ok_or_else(|| illegible(6))?,
            edits: pack::unpack(packed(7)?).ok_or_else(|| illegible(7))?,
        };
        Ok((stored, row.get(4)?))
    }

    fn insert(
        &self,
        db: &Connection,
        session: &mut StoredSession,
        state: &str,
    ) -> Result<(), Fault> {
        let seal = self.right_seal(&session.totals.batch_seal);
        let mut insert = db.prepare_cached(
            "INSERT INTO batch (session, number, after, reach, at_ms, seal, state_seal, receipt, edits, \
             state) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?;
        insert.execute((
            session.row,
            signed(self.number),
            signed(self.after),
            self.reach.map(signed),
            self.at_ms,
            seal,
            self.state_seal,
            pack::pack(self.receipt.as_bytes()),
            pack::pack(&self.edits),
            self.state_seal.map(|_| pack::pack(state.as_bytes())),
        ))?;
        session.totals.batches = self.number;
        session.totals.batch_seal = seal;
        Ok(())
    }

    /// What its seal should be, given the one of the batch before it in the log.
    pub(super) fn right_seal(&self, before: &Seal) -> Seal {
        Sealer::new("batch")
            .bytes(before)
            .number(self.number)
            .number(self.after)
            .optional(self.reach)
            .time(self.at_ms)
            .bytes(self.receipt.as_bytes())
            .bytes(&self.edits)
            .bytes(self.state_seal.as_ref().map_or(&[], |seal| seal))
            .seal()
    }

    /// Whether this is the state of its fold.
    pub(super) fn has_state(&self, state: Option<&str>) -> bool {
        self.state_seal == state.map(seal_of_state)
    }

    /// The batch without the state of its fold; `None` if its edits are illegible.
    pub(super) fn decoded(self) -> Option<BatchRecord> {
        Some(BatchRecord {
            line: BatchLine { after: self.after, reach: self.reach.map(Seq) },
            at_ms: self.at_ms,
            batch: codec::decode(&self.edits)?,
            receipt: self.receipt,
        })
    }
}

/// Reads a batch by its number, checked.
pub(super) fn by_number(
    db: &Connection,
    session: &StoredSession,
    number: u64,
) -> Result<StoredBatch, Fault> {
    let mut select = db.prepare_cached(
        "SELECT number, after, reach, at_ms, seal, state_seal, receipt, edits, \
         (SELECT seal FROM batch AS before WHERE before.session = ?1 AND before.number = ?2 - 1) \
         FROM batch WHERE session = ?1 AND number = ?2",
    )?;
    let read = |row: &Row<'_>| {
        let before: Option<Seal> = row.get(8)?;
        StoredBatch::read(row).map(|(stored, seal)| (stored, seal, before))
    };
    let found = select.query_row((session.row, signed(number)), read).optional();
    let (stored, seal, before) = found
        .map_err(illegible_as(|| damaged(session, number)))?
        .ok_or_else(|| missing(session, number))?;
    let before = before.unwrap_or_else(|| first_seal(session.id, "batches"));
    let is_last = number == session.totals.batches;
    if stored.right_seal(&before) != seal || (is_last && seal != session.totals.batch_seal) {
        return Err(damaged(session, number));
    }
    Ok(stored)
}

pub(super) fn damaged(session: &StoredSession, number: u64) -> Fault {
    session.damage(DamagedPart::Batch(number), "failed its checksum")
}

pub(super) fn missing(session: &StoredSession, number: u64) -> Fault {
    session.damage(DamagedPart::Batch(number), "is missing")
}
