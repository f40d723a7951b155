//! The log of batches, and which of them are live on a path.
//!
//! A batch reaches as far as the newest entry that it, or a batch that it builds on, edits. All that it
//! edits lies on the path to that entry, so a batch applies to a path exactly if its reach is on it. The
//! live batches of a path are the chain that ends with the one that reaches farthest; of two that reach
//! as far, with the newer one. A batch that was made for a shorter path thus changes no longer one that has
//! a batch of its own.

use std::collections::HashSet;

use longhand_core::Seq;
use rusqlite::{Connection, OptionalExtension as _, Row};

use super::fault::{Fault, illegible_as};
use super::seal::{Seal, Sealer};
use super::session::{self, Session, first_seal, optional, signed, unsigned};
use super::tree::{self, Node};
use super::{reference, transfer};
use crate::{
    ArchiveError, Conflict, Cursor, DamagedPart, Listing, LoggedBatch, NewBatch, Page, SessionId,
    codec,
};

/// See [`crate::Archive::commit`].
pub(super) fn commit(db: &Connection, session: &mut Session, new: &NewBatch) -> Result<u64, Fault> {
    let head = new.batch.head;
    session.require(head)?;
    let end = tree::node(db, session, head.0)?;
    let edited = new.batch.edited();
    require_on_path(db, session, &end, &edited)?;
    let log = Log::read(db, session)?;
    let newest = log.newest_live(db, session, Some(&end))?;
    let conflict = |newest| {
        let conflict = Conflict::Batch { after: new.after, newest };
        Fault::from(ArchiveError::Conflict { session: session.id, conflict })
    };
    if newest.map_or(0, |line| line.number) != new.after {
        return Err(conflict(newest.map_or(0, |line| line.number)));
    }
    let reach = edited.first().map(|entry| entry.0).max(newest.and_then(|line| line.reach));
    insert(db, session, new, reach)
}

/// Adds a batch to the log, with a reference for every handle in it.
fn insert(
    db: &Connection,
    session: &mut Session,
    new: &NewBatch,
    reach: Option<u64>,
) -> Result<u64, Fault> {
    let stored = StoredBatch {
        number: session.state.batches + 1,
        after: new.after,
        reach,
        at_ms: new.at_ms,
        receipt: new.receipt.clone(),
        edits: codec::encode(&new.batch),
    };
    stored.insert(db, session)?;
    for handle in codec::handles(&new.batch) {
        reference::add(db, session, handle, stored.number)?;
    }
    Ok(stored.number)
}

/// Adds a batch of another archive to the log exactly as it was there.
///
/// Whether it built on what was live then cannot be checked any more; that it edits its own path can.
pub(super) fn restore(
    db: &Connection,
    session: &mut Session,
    number: u64,
    new: &NewBatch,
) -> Result<(), Fault> {
    if number != session.state.batches + 1 || new.after >= number {
        return Err(transfer::unfit(session.id, format!("batch {number}")));
    }
    session.require(new.batch.head)?;
    let end = tree::node(db, session, new.batch.head.0)?;
    let edited = new.batch.edited();
    require_on_path(db, session, &end, &edited)?;
    let before = match new.after {
        0 => None,
        after => by_number(db, session, after)?.reach,
    };
    require_on_path(db, session, &end, before.map(Seq).as_slice())?;
    insert(db, session, new, edited.first().map(|entry| entry.0).max(before)).map(drop)
}

/// Takes a batch back that was undone in another archive.
pub(super) fn restore_undo(
    db: &Connection,
    session: &mut Session,
    batch: u64,
) -> Result<(), Fault> {
    let is_there = (1..=session.state.batches).contains(&batch);
    if !is_there || undo_log(db, session)?.contains(&batch) {
        return Err(transfer::unfit(session.id, format!("the undo of batch {batch}")));
    }
    insert_undo(db, session, batch)
}

fn require_on_path(
    db: &Connection,
    session: &Session,
    end: &Node,
    edited: &[Seq],
) -> Result<(), Fault> {
    // They come newest first, so that each is looked for from the one before.
    let mut at = end.clone();
    for entry in edited {
        match tree::ancestor(db, session, &at, entry.0)? {
            Some(found) if found.seq == entry.0 => at = found,
            _ => {
                let (session, entry, head) = (session.id, *entry, Seq(end.seq));
                return Err(ArchiveError::NotOnPath { session, entry, head }.into());
            }
        }
    }
    Ok(())
}

/// See [`crate::Archive::undo`].
pub(super) fn undo(
    db: &Connection,
    id: SessionId,
    head: Option<Seq>,
) -> Result<Option<LoggedBatch>, Fault> {
    let Some(mut session) = session::find(db, id)? else { return Ok(None) };
    let end = session.path_end(db, head)?;
    let log = Log::read(db, &session)?;
    let Some(newest) = log.newest_live(db, &session, end.as_ref())? else { return Ok(None) };
    let batch = batch(db, &session, newest, false)?;
    insert_undo(db, &mut session, batch.number)?;
    session::save(db, &session)?;
    Ok(Some(batch))
}

/// Notes that a batch is undone; the session is still to be saved.
fn insert_undo(db: &Connection, session: &mut Session, batch: u64) -> Result<(), Fault> {
    let number = session.state.undos + 1;
    let seal = seal_of_undo(&session.state.undo_seal, number, batch);
    db.prepare_cached("INSERT INTO undo (session, number, batch, seal) VALUES (?1, ?2, ?3, ?4)")?
        .execute((session.row, signed(number), signed(batch), seal))?;
    session.state.undos = number;
    session.state.undo_seal = seal;
    Ok(())
}

/// See [`crate::Archive::live`].
pub(super) fn live(
    db: &Connection,
    id: SessionId,
    head: Option<Seq>,
) -> Result<Vec<LoggedBatch>, Fault> {
    let Some(session) = session::find(db, id)? else { return Ok(Vec::new()) };
    let end = session.path_end(db, head)?;
    let log = Log::read(db, &session)?;
    let newest = log.newest_live(db, &session, end.as_ref())?;
    let chain = std::iter::successors(newest, |line| log.line(line.after));
    let batches: Result<Vec<LoggedBatch>, Fault> =
        chain.map(|line| batch(db, &session, line, true)).collect();
    batches.map(|mut batches| {
        batches.reverse();
        batches
    })
}

/// See [`crate::Archive::batches`].
pub(super) fn batches(
    db: &Connection,
    id: SessionId,
    page: Page,
) -> Result<Listing<LoggedBatch>, Fault> {
    let Some(session) = session::find(db, id)? else { return Ok(Listing::empty()) };
    let log = Log::read(db, &session)?;
    let lines = log.lines.iter().rev();
    let listing = page.take(lines, |line| Cursor::number(line.number));
    let items = listing.items.into_iter().map(|line| batch(db, &session, line, line.is_live));
    Ok(Listing { items: items.collect::<Result<_, _>>()?, next: listing.next })
}

/// All batches of a session, as far as it takes to tell which are live.
struct Log {
    /// By number, from 1.
    lines: Vec<Line>,
}

struct Line {
    number: u64,
    after: u64,
    reach: Option<u64>,
    is_live: bool,
}

impl Log {
    fn read(db: &Connection, session: &Session) -> Result<Self, Fault> {
        let undone = undone(db, session)?;
        let mut select = db.prepare_cached(
            "SELECT number, after, reach FROM batch WHERE session = ?1 ORDER BY number",
        )?;
        let mut rows = select.query([session.row])?;
        let mut log = Self { lines: Vec::new() };
        while let Some(row) = rows.next()? {
            let number = log.lines.len() as u64 + 1;
            let read = || Ok((unsigned(row, 0)?, unsigned(row, 1)?, optional(row, 2)?));
            let (found, after, reach) =
                read().map_err(illegible_as(|| damaged(session, number)))?;
            if found != number {
                return Err(missing(session, number));
            }
            if after >= number || reach.is_some_and(|reach| reach >= session.state.entries) {
                return Err(damaged(session, number));
            }
            let builds_on_live = log.line(after).is_none_or(|line| line.is_live);
            let is_live = builds_on_live && !undone.contains(&number);
            log.lines.push(Line { number, after, reach, is_live });
        }
        let count = log.lines.len() as u64;
        if count < session.state.batches {
            return Err(missing(session, count + 1));
        }
        if count > session.state.batches {
            return Err(damaged(session, count));
        }
        Ok(log)
    }

    fn line(&self, number: u64) -> Option<&Line> {
        self.lines.get(number.checked_sub(1)? as usize)
    }

    /// The end of the chain of live batches that apply to a path.
    fn newest_live(
        &self,
        db: &Connection,
        session: &Session,
        end: Option<&Node>,
    ) -> Result<Option<&Line>, Fault> {
        let mut live: Vec<&Line> = self.lines.iter().filter(|line| line.is_live).collect();
        live.sort_unstable_by_key(|line| std::cmp::Reverse((line.reach, line.number)));
        let mut at = end.cloned();
        for line in live {
            let (Some(reach), Some(node)) = (line.reach, &at) else {
                // It edits nothing, or there are no entries.
                if line.reach.is_none() {
                    return Ok(Some(line));
                }
                continue;
            };
            if reach > node.seq {
                continue;
            }
            at = tree::ancestor(db, session, node, reach)?;
            if at.as_ref().is_some_and(|node| node.seq == reach) {
                return Ok(Some(line));
            }
        }
        Ok(None)
    }
}

/// The batches that were undone by name, checked.
pub(super) fn undone(db: &Connection, session: &Session) -> Result<HashSet<u64>, Fault> {
    Ok(undo_log(db, session)?.into_iter().collect())
}

/// The same in the order in which they were undone.
pub(super) fn undo_log(db: &Connection, session: &Session) -> Result<Vec<u64>, Fault> {
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
    if count != session.state.undos || seal != session.state.undo_seal {
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
    receipt: String,
    edits: Vec<u8>,
}

pub(super) const SELECT_ALL: &str = "SELECT number, after, reach, at_ms, seal, receipt, edits \
                                     FROM batch WHERE session = ?1 ORDER BY number";

impl StoredBatch {
    /// Reads a batch and its seal.
    pub(super) fn read(row: &Row<'_>) -> Result<(Self, Seal), rusqlite::Error> {
        let stored = Self {
            number: unsigned(row, 0)?,
            after: unsigned(row, 1)?,
            reach: optional(row, 2)?,
            at_ms: row.get(3)?,
            receipt: row.get(5)?,
            edits: row.get(6)?,
        };
        Ok((stored, row.get(4)?))
    }

    fn insert(&self, db: &Connection, session: &mut Session) -> Result<(), Fault> {
        let seal = self.right_seal(&session.state.batch_seal);
        let mut insert = db.prepare_cached(
            "INSERT INTO batch (session, number, after, reach, at_ms, seal, receipt, edits) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?;
        insert.execute((
            session.row,
            signed(self.number),
            signed(self.after),
            self.reach.map(signed),
            self.at_ms,
            seal,
            &self.receipt,
            &self.edits,
        ))?;
        session.state.batches = self.number;
        session.state.batch_seal = seal;
        session::save(db, session)
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
            .seal()
    }

    /// The batch; `None` if its edits are illegible.
    pub(super) fn decoded(self, is_live: bool) -> Option<LoggedBatch> {
        Some(LoggedBatch {
            number: self.number,
            after: self.after,
            at_ms: self.at_ms,
            batch: codec::decode(&self.edits)?,
            receipt: self.receipt,
            is_live,
        })
    }
}

/// Reads a batch of the log, checked.
fn batch(
    db: &Connection,
    session: &Session,
    line: &Line,
    is_live: bool,
) -> Result<LoggedBatch, Fault> {
    let stored = by_number(db, session, line.number)?;
    // The line came from an index, which is no part of what is checked.
    if (stored.after, stored.reach) != (line.after, line.reach) {
        return Err(damaged(session, line.number));
    }
    stored.decoded(is_live).ok_or_else(|| damaged(session, line.number))
}

/// Reads a batch by its number, checked.
pub(super) fn by_number(
    db: &Connection,
    session: &Session,
    number: u64,
) -> Result<StoredBatch, Fault> {
    let mut select = db.prepare_cached(
        "SELECT number, after, reach, at_ms, seal, receipt, edits, \
         (SELECT seal FROM batch AS before WHERE before.session = ?1 AND before.number = ?2 - 1) \
         FROM batch WHERE session = ?1 AND number = ?2",
    )?;
    let read = |row: &Row<'_>| {
        let before: Option<Seal> = row.get(7)?;
        StoredBatch::read(row).map(|(stored, seal)| (stored, seal, before))
    };
    let found = select.query_row((session.row, signed(number)), read).optional();
    let (stored, seal, before) = found
        .map_err(illegible_as(|| damaged(session, number)))?
        .ok_or_else(|| missing(session, number))?;
    let before = before.unwrap_or_else(|| first_seal(session.id, "batches"));
    let is_last = number == session.state.batches;
    if stored.right_seal(&before) != seal || (is_last && seal != session.state.batch_seal) {
        return Err(damaged(session, number));
    }
    Ok(stored)
}

pub(super) fn damaged(session: &Session, number: u64) -> Fault {
    session.damage(DamagedPart::Batch(number), "failed its checksum")
}

pub(super) fn missing(session: &Session, number: u64) -> Fault {
    session.damage(DamagedPart::Batch(number), "is missing")
}
