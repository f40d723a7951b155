//! Files of format 1, which are read for one purpose: to be migrated.
//!
//! A row is given out if it is what was written, by the checksums of that format.

use std::io::Read as _;

use flate2::read::DeflateDecoder;
use longhand_core::session::BatchLine;
use longhand_core::{Batch, Link, Seq};
use rusqlite::{Connection, OptionalExtension as _, Row};

use super::body::RawHash;
use super::fault::{Fault, illegible_as, is_illegible};
use super::seal::{Seal, Sealer};
use super::session::{first_seal, optional, unsigned};
use crate::number::take_number;
use crate::{
    BatchRecord, Damage, DamagedPart, Entry, EntryRecord, NewSession, Origin, Owner, PreambleId,
    SessionId, codec, excerpt,
};

pub(super) const FORMAT: i64 = 1;

/// The longest batch.
const BATCH_BYTES_MAX: u64 = 1 << 30;

/// A session that was not removed.
#[derive(Clone, Debug)]
pub(super) struct OldSession {
    pub(super) row: i64,
    pub(super) id: SessionId,
    pub(super) new: NewSession,
    pub(super) totals: OldTotals,
}

/// How much a session has, and the checksums of what is last.
#[derive(Clone, Debug)]
pub(super) struct OldTotals {
    pub(super) entries: u64,
    pub(super) batches: u64,
    batch_seal: Seal,
    pub(super) undos: u64,
    undo_seal: Seal,
    pub(super) requests: u64,
    pins: Seal,
    entry_seal: Seal,
}

impl OldSession {
    pub(super) fn damage(&self, part: DamagedPart, detail: &str) -> Fault {
        Fault::damage(self.id, part, detail)
    }
}

/// The rows of the sessions that were not removed, with their ids.
pub(super) fn session_rows(db: &Connection) -> Result<Vec<(i64, SessionId)>, Fault> {
    let mut select = db.prepare("SELECT id, key FROM session WHERE key IS NOT NULL ORDER BY id")?;
    let rows = select.query_map([], |row| {
        Ok((row.get(0)?, row.get(1).map(SessionId::from_bytes).unwrap_or_default()))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Reads a session's own record and its totals.
pub(super) fn session(db: &Connection, row: i64, id: SessionId) -> Result<OldSession, Fault> {
    let damaged = || Fault::damage(id, DamagedPart::Session, "failed its checksum");
    let mut select = db.prepare_cached(
        "SELECT owner, continues, kin, begun_ms, dialect, name, seal FROM session WHERE id = ?1",
    )?;
    let read = |row: &Row<'_>| {
        let continues: Option<[u8; 16]> = row.get(1)?;
        let new = NewSession {
            owner: Owner::from_bytes(row.get(0)?),
            dialect: row.get(4)?,
            name: row.get(5)?,
            continues: continues.map(SessionId::from_bytes),
            group: row.get::<_, Option<i64>>(2)?.map(i64::cast_unsigned),
            begun_ms: row.get(3)?,
            origin: Origin::default(),
            opening: String::new(),
        };
        Ok((new, row.get(6)?))
    };
    let found: Result<(NewSession, Seal), rusqlite::Error> = select.query_row([row], read);
    let (new, seal) = found.map_err(illegible_as(damaged))?;
    let right = Sealer::new("session")
        .bytes(&id.to_bytes())
        .bytes(&new.owner.to_bytes())
        .bytes(new.continues.map(SessionId::to_bytes).as_ref().map_or(&[], |bytes| &bytes[..]))
        .optional(new.group)
        .time(new.begun_ms)
        .bytes(new.dialect.as_bytes())
        .bytes(new.name.as_bytes())
        .seal();
    if right != seal {
        return Err(damaged());
    }
    let mut select = db.prepare_cached("SELECT * FROM head WHERE session = ?1")?;
    let read = |row: &Row<'_>| totals(row, id);
    let found = select.query_row([row], read).map_err(illegible_as(damaged))?;
    Ok(OldSession { row, id, new, totals: found.ok_or_else(damaged)? })
}

/// Reads a session's totals; `None` if they are not what was written.
fn totals(row: &Row<'_>, id: SessionId) -> Result<Option<OldTotals>, rusqlite::Error> {
    let bytes: u64 = unsigned(row, 2)?;
    let times: [i64; 3] = [row.get(3)?, row.get(4)?, row.get(5)?];
    let link: [u8; 16] = row.get(10)?;
    let totals = OldTotals {
        entries: unsigned(row, 1)?,
        entry_seal: row.get(11)?,
        batches: unsigned(row, 12)?,
        batch_seal: row.get(13)?,
        undos: unsigned(row, 14)?,
        undo_seal: row.get(15)?,
        requests: unsigned(row, 16)?,
        pins: row.get(17)?,
    };
    let right = Sealer::new("head")
        .bytes(&id.to_bytes())
        .number(totals.entries)
        .number(bytes)
        .time(times[0])
        .time(times[1])
        .time(times[2])
        .optional(optional(row, 6)?)
        .optional(optional(row, 7)?)
        .number(unsigned(row, 8)?)
        .number(unsigned(row, 9)?)
        .bytes(&link)
        .bytes(&totals.entry_seal)
        .number(totals.batches)
        .bytes(&totals.batch_seal)
        .number(totals.undos)
        .bytes(&totals.undo_seal)
        .number(totals.requests)
        .bytes(&totals.pins)
        .seal();
    Ok((right == row.get::<_, Seal>(18)?).then_some(totals))
}

/// An entry, and where it is stored.
#[derive(Debug)]
pub(super) struct OldEntry {
    pub(super) id: i64,
    /// The row that has its bytes, if that is another one.
    pub(super) body: Option<i64>,
    pub(super) record: EntryRecord,
}

/// Selects the entries of all sessions in the order of their arrival.
pub(super) const SELECT_ENTRIES: &str = "SELECT entry.id, entry.session, entry.seq, entry.parent, entry.jump, entry.depth, entry.round, \
     entry.at_ms, entry.body, entry.link, entry.seal, entry.hash, entry.form, entry.excerpt, \
     coalesce(entry.raw, (SELECT holder.raw FROM entry AS holder WHERE holder.id = entry.body)), \
     (SELECT up.seal FROM entry AS up WHERE up.session = entry.session AND up.seq = entry.parent) \
     FROM entry ORDER BY entry.id";

/// Reads an entry of a session that should have this number.
pub(super) fn entry(session: &OldSession, seq: u64, row: &Row<'_>) -> Result<OldEntry, Fault> {
    let damaged = || session.damage(DamagedPart::Entry(seq), "failed its checksum");
    let (found, entry) = read_entry(session, row).map_err(illegible_as(damaged))?;
    if found != seq {
        return Err(session.damage(DamagedPart::Entry(seq), "is missing"));
    }
    entry.ok_or_else(damaged)
}

/// Reads an entry; `None` if it is not what was written.
fn read_entry(
    session: &OldSession,
    row: &Row<'_>,
) -> Result<(u64, Option<OldEntry>), rusqlite::Error> {
    let (seq, parent, jump) = (unsigned(row, 2)?, optional(row, 3)?, optional(row, 4)?);
    let (depth, round, at_ms) = (unsigned(row, 5)?, unsigned(row, 6)?, row.get(7)?);
    let (link, seal, hash): ([u8; 16], Seal, Seal) = (row.get(9)?, row.get(10)?, row.get(11)?);
    let (form, excerpt): (String, Vec<u8>) = (row.get(12)?, row.get(13)?);
    let raw: String = row.get(14)?;
    let parent_seal: Option<Seal> = row.get(15)?;
    let before = parent_seal.unwrap_or_else(|| first_seal(session.id, "entries"));
    let right = Sealer::new("entry")
        .bytes(&before)
        .number(seq)
        .optional(parent)
        .optional(jump)
        .number(depth)
        .number(round)
        .time(at_ms)
        .bytes(&link)
        .bytes(form.as_bytes())
        .bytes(&excerpt)
        .bytes(&hash)
        .seal();
    let is_last = seq + 1 == session.totals.entries;
    let is_right = right == seal
        && RawHash::of(&raw).for_owner(session.new.owner) == hash
        && (!is_last || seal == session.totals.entry_seal);
    if !is_right {
        return Ok((seq, None));
    }
    let text = excerpt::decode(&excerpt, &raw).unwrap_or_default();
    let link = Link(u128::from_be_bytes(link));
    let (parent, source_ms) = (parent.map(Seq), None);
    let entry = Entry { seq: Seq(seq), parent, link, round, form, raw, at_ms, source_ms };
    let (id, body, record) = (row.get(0)?, row.get(8)?, EntryRecord { entry, text });
    Ok((seq, Some(OldEntry { id, body, record })))
}

/// Reads the batches of a session.
pub(super) fn batches(db: &Connection, session: &OldSession) -> Result<Vec<BatchRecord>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT number, after, reach, at_ms, seal, receipt, edits FROM batch \
         WHERE session = ?1 ORDER BY number",
    )?;
    let mut rows = select.query([session.row])?;
    let mut batches = Vec::new();
    let mut before = first_seal(session.id, "batches");
    for number in 1..=session.totals.batches {
        let part = || DamagedPart::Batch(number);
        let row = rows.next()?.ok_or_else(|| session.damage(part(), "is missing"))?;
        let damaged = || session.damage(part(), "failed its checksum");
        let read = || read_batch(row, number, &before);
        let (record, seal) = read().map_err(illegible_as(damaged))?.ok_or_else(damaged)?;
        before = seal;
        batches.push(record);
    }
    if before != session.totals.batch_seal {
        let part = DamagedPart::Batch(session.totals.batches);
        return Err(session.damage(part, "is not the one that was last"));
    }
    Ok(batches)
}

fn read_batch(
    row: &Row<'_>,
    number: u64,
    before: &Seal,
) -> Result<Option<(BatchRecord, Seal)>, rusqlite::Error> {
    let (found, after, reach) = (unsigned(row, 0)?, unsigned(row, 1)?, optional(row, 2)?);
    let (at_ms, seal): (i64, Seal) = (row.get(3)?, row.get(4)?);
    let (receipt, edits): (String, Vec<u8>) = (row.get(5)?, row.get(6)?);
    let right = Sealer::new("batch")
        .bytes(before)
        .number(found)
        .number(after)
        .optional(reach)
        .time(at_ms)
        .bytes(receipt.as_bytes())
        .bytes(&edits)
        .seal();
    let line = BatchLine { after, reach: reach.map(Seq) };
    let batch = decoded(&edits).filter(|_| right == seal && found == number);
    Ok(batch.map(|batch| (BatchRecord { line, at_ms, batch, receipt }, seal)))
}

/// Reads a batch as format 1 stores it.
fn decoded(bytes: &[u8]) -> Option<Batch> {
    const VERSION: u8 = 2;
    const PLAIN: u8 = 0;
    const DEFLATED: u8 = 1;
    match bytes.strip_prefix(&[VERSION])?.split_first()? {
        (&PLAIN, plain) => codec::decode_with_state(plain),
        (&DEFLATED, mut packed) => {
            let length = take_number(&mut packed).filter(|length| *length <= BATCH_BYTES_MAX)?;
            let mut plain = Vec::new();
            DeflateDecoder::new(packed).take(length + 1).read_to_end(&mut plain).ok()?;
            codec::decode_with_state(&plain).filter(|_| plain.len() as u64 == length)
        }
        _ => None,
    }
}

/// Reads which batches of a session were undone, in that order.
pub(super) fn undos(db: &Connection, session: &OldSession) -> Result<Vec<u64>, Fault> {
    let damaged = || session.damage(DamagedPart::Undos, "failed its checksum");
    let mut select =
        db.prepare_cached("SELECT batch FROM undo WHERE session = ?1 ORDER BY number")?;
    let mut rows = select.query([session.row])?;
    let mut undone = Vec::new();
    let mut seal = first_seal(session.id, "undos");
    while let Some(row) = rows.next()? {
        let batch = unsigned(row, 0).map_err(illegible_as(damaged))?;
        undone.push(batch);
        let number = undone.len() as u64;
        seal = Sealer::new("undo").bytes(&seal).number(number).number(batch).seal();
    }
    let is_right = undone.len() as u64 == session.totals.undos && seal == session.totals.undo_seal;
    if is_right { Ok(undone) } else { Err(damaged()) }
}

/// Reads the pins of a session.
pub(super) fn pins(db: &Connection, session: &OldSession) -> Result<Vec<Seq>, Fault> {
    let mut select = db.prepare_cached("SELECT seqs FROM pins WHERE session = ?1")?;
    let seqs: Option<Vec<u8>> = select.query_row([session.row], |row| row.get(0)).optional()?;
    let seqs = seqs.unwrap_or_default();
    if Sealer::new("pins").bytes(&seqs).seal() != session.totals.pins {
        return Err(session.damage(DamagedPart::Pins, "failed its checksum"));
    }
    let (seqs, _) = seqs.as_chunks();
    Ok(seqs.iter().map(|seq| Seq(u64::from_le_bytes(*seq))).collect())
}

/// Reads what is kept under the keys of a session. What is damaged and can be derived again is left out.
pub(super) fn derived(
    db: &Connection,
    session: &OldSession,
) -> Result<Vec<(String, String)>, Fault> {
    let mut select =
        db.prepare_cached("SELECT key, value, seal FROM derived WHERE session = ?1 ORDER BY key")?;
    let mut rows = select.query([session.row])?;
    let mut derived = Vec::new();
    while let Some(row) = rows.next()? {
        let read = || Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let read: Result<(String, String, Seal), rusqlite::Error> = read();
        match read {
            Ok((key, value, seal)) => {
                let right = super::derived::right_seal(session.id, &key, &value);
                if right == seal {
                    derived.push((key, value));
                }
            }
            Err(error) if is_illegible(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(derived)
}

/// Reads the next preamble with its owner.
pub(super) fn preamble(row: &Row<'_>) -> Result<(Owner, String), Fault> {
    let id = row.get(0).map(PreambleId::from_bytes).unwrap_or_default();
    let damaged = || {
        let part = DamagedPart::Preamble(id.to_string());
        Fault::Damage(Damage { session: None, part, detail: "failed its checksum".to_owned() })
    };
    let read = || Ok((Owner::from_bytes(row.get(1)?), row.get(2)?));
    let (owner, content): (Owner, String) = read().map_err(illegible_as(damaged))?;
    if PreambleId::of(&content) == id { Ok((owner, content)) } else { Err(damaged()) }
}
