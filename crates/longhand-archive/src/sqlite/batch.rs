//! The log of batches.
//!
//! A batch names the one it builds on, and the session's head names the newest live one. Undoing
//! moves the head back; batches that can no longer be reached from it are undone. No row of the log
//! is ever changed.

use rusqlite::{Connection, OptionalExtension as _, Row};

use super::fault::Fault;
use super::original;
use super::seal::{Seal, Sealer};
use super::session::{self, Session, signed, unsigned};
use crate::{ArchiveError, Batch, Content, DamagedPart, Form, NewBatch, Original, fold_handle};

/// See [`crate::Archive::commit`].
pub(super) fn commit(db: &Connection, name: &str, batch: &NewBatch) -> Result<u64, Fault> {
    let mut session = session::require(db, name)?;
    let newest = session.state.batch;
    if batch.after != newest {
        let session = name.to_owned();
        return Err(ArchiveError::Conflict { session, after: batch.after, newest }.into());
    }
    session.require(&batch.entries)?;
    let number = session.state.batches + 1;
    let NewBatch { after, at_ms, entries, text, receipt } = batch.clone();
    let batch = Batch { number, after, at_ms, entries, text, receipt, undone: false };
    let link = link(&session.state.batch_link, &batch);
    let mut insert = db.prepare_cached(
        "INSERT INTO batch (session, number, after, at_ms, first, end, link, text, receipt) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    insert.execute((
        session.id,
        signed(number),
        signed(batch.after),
        batch.at_ms,
        signed(batch.entries.start),
        signed(batch.entries.end),
        link,
        &batch.text,
        &batch.receipt,
    ))?;
    session.state.batches = number;
    session.state.batch = number;
    session.state.batch_link = link;
    session::save(db, &session)?;
    if !batch.entries.is_empty() {
        let handle = fold_handle(name, &batch.entries);
        let content = Content::Entries(batch.entries);
        let original = Original { session: Some(name.to_owned()), form: Form::Json, content };
        original::keep_one(db, handle, &original)?;
    }
    Ok(number)
}

/// See [`crate::Archive::undo`].
pub(super) fn undo(db: &Connection, name: &str) -> Result<Option<Batch>, Fault> {
    let Some(mut session) = session::find(db, name)? else { return Ok(None) };
    if session.state.batch == 0 {
        return Ok(None);
    }
    let mut batch = newest_live(db, &session, session.state.batch)?;
    session.state.batch = batch.after;
    session::save(db, &session)?;
    batch.undone = true;
    Ok(Some(batch))
}

/// See [`crate::Archive::batches`].
pub(super) fn batches(db: &Connection, name: &str) -> Result<Vec<Batch>, Fault> {
    let Some(session) = session::find(db, name)? else { return Ok(Vec::new()) };
    let mut select = db.prepare_cached(SELECT_ALL)?;
    let mut rows = select.query([session.id])?;
    let mut batches: Vec<Batch> = Vec::new();
    let mut before = session.first_batch_link();
    while let Some(row) = rows.next()? {
        let number = batches.len() as u64 + 1;
        let (batch, link) = stored(row).map_err(|_| damaged(&session, number))?;
        if batch.number != number {
            return Err(missing(&session, number));
        }
        if self::link(&before, &batch) != link || batch.after >= number {
            return Err(damaged(&session, number));
        }
        before = link;
        batches.push(batch);
    }
    if (batches.len() as u64) < session.state.batches {
        return Err(missing(&session, batches.len() as u64 + 1));
    }
    if before != session.state.batch_link || batches.len() as u64 > session.state.batches {
        return Err(damaged(&session, batches.len() as u64));
    }
    let mut live = session.state.batch;
    while let Some(batch) = live.checked_sub(1).and_then(|at| batches.get_mut(at as usize)) {
        batch.undone = false;
        live = batch.after;
    }
    Ok(batches)
}

pub(super) const SELECT_ALL: &str = "SELECT number, after, at_ms, first, end, link, text, receipt \
                                     FROM batch WHERE session = ?1 ORDER BY number";

/// Reads a batch that the head names.
pub(super) fn newest_live(db: &Connection, session: &Session, number: u64) -> Result<Batch, Fault> {
    let mut select = db.prepare_cached(
        "SELECT number, after, at_ms, first, end, link, text, receipt FROM batch \
         WHERE session = ?1 AND number = ?2",
    )?;
    let found = select.query_row((session.id, signed(number)), stored).optional();
    let (mut batch, link) =
        found.map_err(|_| damaged(session, number))?.ok_or_else(|| missing(session, number))?;
    if self::link(&link_before(db, session, number)?, &batch) != link {
        return Err(damaged(session, number));
    }
    batch.undone = false;
    Ok(batch)
}

fn link_before(db: &Connection, session: &Session, number: u64) -> Result<Seal, Fault> {
    if number == 1 {
        return Ok(session.first_batch_link());
    }
    let mut select =
        db.prepare_cached("SELECT link FROM batch WHERE session = ?1 AND number = ?2")?;
    let found = select.query_row((session.id, signed(number) - 1), |row| row.get(0)).optional()?;
    found.ok_or_else(|| missing(session, number - 1))
}

pub(super) fn link(before: &Seal, batch: &Batch) -> Seal {
    Sealer::new("batch")
        .bytes(before)
        .number(batch.number)
        .number(batch.after)
        .time(batch.at_ms)
        .number(batch.entries.start)
        .number(batch.entries.end)
        .bytes(batch.text.as_bytes())
        .bytes(batch.receipt.as_bytes())
        .seal()
}

/// Reads a batch; all count as undone until the head says otherwise.
pub(super) fn stored(row: &Row<'_>) -> Result<(Batch, Seal), rusqlite::Error> {
    let batch = Batch {
        number: unsigned(row, 0)?,
        after: unsigned(row, 1)?,
        at_ms: row.get(2)?,
        entries: unsigned(row, 3)?..unsigned(row, 4)?,
        text: row.get(6)?,
        receipt: row.get(7)?,
        undone: true,
    };
    Ok((batch, row.get(5)?))
}

fn damaged(session: &Session, number: u64) -> Fault {
    session.damage(DamagedPart::Batch(number), "failed its checksum")
}

fn missing(session: &Session, number: u64) -> Fault {
    session.damage(DamagedPart::Batch(number), "is missing")
}
