//! Entries and the chain of checksums that holds them together.

use std::ops::Range;

use rusqlite::{Connection, OptionalExtension as _, Row};

use super::fault::Fault;
use super::seal::{Seal, Sealer};
use super::session::{self, Session, signed, unsigned};
use crate::{Appended, DamagedPart, Entry, NewEntry, excerpt};

/// A new entry with all that can be worked out before its place is known.
#[derive(Clone, Debug)]
pub(super) struct ReadyEntry {
    opens_round: bool,
    form: String,
    raw: String,
    excerpt: Vec<u8>,
    at_ms: i64,
}

impl ReadyEntry {
    pub(super) fn new(entry: &NewEntry) -> Self {
        Self {
            opens_round: entry.opens_round,
            form: entry.form.clone(),
            raw: entry.raw.clone(),
            excerpt: excerpt::encode(&entry.text, &entry.raw),
            at_ms: entry.at_ms,
        }
    }
}

/// An entry as it is stored.
#[derive(Clone, Debug)]
pub(super) struct StoredEntry {
    pub(super) entry: Entry,
    pub(super) excerpt: Vec<u8>,
    pub(super) link: Seal,
}

impl StoredEntry {
    /// What its link should be, given the one before it.
    pub(super) fn link_after(&self, before: &Seal) -> Seal {
        let Entry { seq, round, form, raw, at_ms } = &self.entry;
        link(before, *seq, *round, *at_ms, form, &self.excerpt, raw)
    }

    /// What search sees of it; `None` if that does not fit the message.
    pub(super) fn text(&self) -> Option<String> {
        excerpt::decode(&self.excerpt, &self.entry.raw)
    }
}

fn link(
    before: &Seal,
    seq: u64,
    round: u64,
    at_ms: i64,
    form: &str,
    excerpt: &[u8],
    raw: &str,
) -> Seal {
    Sealer::new("entry")
        .bytes(before)
        .number(seq)
        .number(round)
        .time(at_ms)
        .bytes(form.as_bytes())
        .bytes(excerpt)
        .bytes(raw.as_bytes())
        .seal()
}

/// See [`crate::Archive::append`].
pub(super) fn append(
    db: &Connection,
    name: &str,
    entries: &[ReadyEntry],
) -> Result<Appended, Fault> {
    if entries.is_empty() {
        let state = session::find(db, name)?.map(|session| session.state);
        return Ok(Appended {
            first: state.as_ref().map_or(0, |state| state.entries),
            round: state.map_or(0, |state| state.rounds.saturating_sub(1)),
        });
    }
    let mut session = session::find_or_create(db, name)?;
    let state = &mut session.state;
    let first = state.entries;
    let mut first_round = None;
    let mut insert = db.prepare_cached(
        "INSERT INTO entry (session, seq, round, at_ms, link, form, excerpt, raw) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    for ReadyEntry { opens_round, form, raw, excerpt, at_ms } in entries {
        let seq = state.entries;
        if *opens_round || seq == 0 {
            state.rounds += 1;
        }
        if seq == 0 {
            state.first_ms = *at_ms;
        }
        let round = state.rounds - 1;
        first_round.get_or_insert(round);
        state.link = link(&state.link, seq, round, *at_ms, form, excerpt, raw);
        insert.execute((
            session.id,
            signed(seq),
            signed(round),
            at_ms,
            state.link,
            form,
            excerpt,
            raw,
        ))?;
        state.entries += 1;
        state.bytes += raw.len() as u64;
        state.last_ms = *at_ms;
    }
    session::save(db, &session)?;
    Ok(Appended { first, round: first_round.unwrap_or_default() })
}

/// Appends entries to a session that has so many; says whether it has.
pub(super) fn append_at(
    db: &Connection,
    name: &str,
    first: u64,
    entries: &[ReadyEntry],
) -> Result<bool, Fault> {
    let has = session::find(db, name)?.map_or(0, |session| session.state.entries);
    if has == first {
        append(db, name, entries)?;
    }
    Ok(has == first)
}

/// See [`crate::Archive::entries`].
pub(super) fn entries(db: &Connection, name: &str, seqs: Range<u64>) -> Result<Vec<Entry>, Fault> {
    let Some(session) = session::find(db, name)? else { return Ok(Vec::new()) };
    let mut entries = Vec::new();
    for_each(db, &session, seqs, |stored| {
        entries.push(stored.entry);
        Ok(())
    })?;
    Ok(entries)
}

/// Hands out those of the entries that exist, checked, one after another.
pub(super) fn for_each(
    db: &Connection,
    session: &Session,
    seqs: Range<u64>,
    mut action: impl FnMut(StoredEntry) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let end = seqs.end.min(session.state.entries);
    if seqs.start >= end {
        return Ok(());
    }
    let mut before = link_before(db, session, seqs.start)?;
    let mut next = seqs.start;
    let mut select = db.prepare_cached(SELECT_RANGE)?;
    let mut rows = select.query((session.id, signed(seqs.start), signed(end)))?;
    while let Some(row) = rows.next()? {
        let stored = stored(row).map_err(|_| damaged(session, next))?;
        if stored.entry.seq != next {
            return Err(missing(session, next));
        }
        if stored.link_after(&before) != stored.link {
            return Err(damaged(session, next));
        }
        before = stored.link;
        next += 1;
        action(stored)?;
    }
    if next < end {
        return Err(missing(session, next));
    }
    if next == session.state.entries && before != session.state.link {
        return Err(damaged(session, next - 1));
    }
    Ok(())
}

/// The link that the entry in a place was chained to.
pub(super) fn link_before(db: &Connection, session: &Session, seq: u64) -> Result<Seal, Fault> {
    let Some(before) = seq.checked_sub(1) else { return Ok(session.first_link()) };
    link_of(db, session, before)?.ok_or_else(|| missing(session, before))
}

fn link_of(db: &Connection, session: &Session, seq: u64) -> Result<Option<Seal>, Fault> {
    let mut select = db.prepare_cached("SELECT link FROM entry WHERE session = ?1 AND seq = ?2")?;
    Ok(select.query_row((session.id, signed(seq)), |row| row.get(0)).optional()?)
}

/// The columns that [`stored`] reads.
pub(super) const COLUMNS: &str = "id, seq, round, at_ms, link, form, excerpt, raw";

pub(super) const SELECT_RANGE: &str = "SELECT id, seq, round, at_ms, link, form, excerpt, raw FROM entry \
                            WHERE session = ?1 AND seq >= ?2 AND seq < ?3 ORDER BY seq";

pub(super) fn stored(row: &Row<'_>) -> Result<StoredEntry, rusqlite::Error> {
    let entry = Entry {
        seq: unsigned(row, 1)?,
        round: unsigned(row, 2)?,
        at_ms: row.get(3)?,
        form: row.get(5)?,
        raw: row.get(7)?,
    };
    Ok(StoredEntry { link: row.get(4)?, excerpt: row.get(6)?, entry })
}

fn damaged(session: &Session, seq: u64) -> Fault {
    session.damage(DamagedPart::Entry(seq), "failed its checksum")
}

fn missing(session: &Session, seq: u64) -> Fault {
    session.damage(DamagedPart::Entry(seq), "is missing")
}
