//! Entries and the checksums that hold them together.

use std::ops::Range;

use longhand_core::{Link, Seq};
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Row, params};

use super::body::{Bodies, RawHash};
use super::fault::{Fault, illegible_as};
use super::pack;
use super::seal::{Seal, Sealer};
use super::session::{StoredSession, first_seal, optional, signed, unsigned};
use super::tree::{self, StoredNode};
use crate::{ArchiveError, DamagedPart, Entry, EntryRecord, SessionId, excerpt};

/// An entry with all that can be worked out before the file is locked.
#[derive(Clone, Debug)]
pub(super) struct ReadyEntry {
    entry: Entry,
    raw_hash: RawHash,
    /// The message as it is stored.
    packed: Vec<u8>,
    excerpt: Vec<u8>,
}

impl ReadyEntry {
    pub(super) fn new(record: EntryRecord) -> Self {
        let EntryRecord { entry, text } = record;
        let (raw_hash, packed) = (RawHash::of(&entry.raw), pack::pack(entry.raw.as_bytes()));
        Self { excerpt: excerpt::encode(&text, &entry.raw), entry, raw_hash, packed }
    }
}

/// The statements that entries need again and again, prepared once for all of a transaction.
pub(super) struct Statements<'d> {
    db: &'d Connection,
    insert: CachedStatement<'d>,
    bodies: Bodies<'d>,
    /// The id of the next entry.
    next_id: i64,
}

impl<'d> Statements<'d> {
    pub(super) fn new(db: &'d Connection) -> Result<Self, Fault> {
        let insert = db.prepare_cached(
            "INSERT INTO entry (id, session, seq, parent, depth, round, at_ms, source_ms, body, link, \
             seal, hash, form, excerpt) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        )?;
        // A body may have outlived the entry that brought it.
        let newest = "SELECT max(coalesce((SELECT max(id) FROM entry), 0), \
                      coalesce((SELECT max(id) FROM body), 0))";
        let newest: i64 = db.prepare_cached(newest)?.query_row([], |row| row.get(0))?;
        Ok(Self { db, insert, bodies: Bodies::new(db)?, next_id: newest + 1 })
    }

    /// Appends entries; the session is still to be saved.
    pub(super) fn append(
        &mut self,
        session: &mut StoredSession,
        entries: &[ReadyEntry],
    ) -> Result<(), Fault> {
        let mut newest: Option<StoredNode> = None;
        for ready in entries {
            let (seq, parent) = (ready.entry.seq, ready.entry.parent);
            if seq.0 != session.totals.entries || parent.is_some_and(|parent| parent >= seq) {
                let record = format!("entry {}", seq.0);
                return Err(ArchiveError::Unfit { session: session.id, record }.into());
            }
            let parent = match (parent, newest.take()) {
                (None, _) => None,
                (Some(parent), Some(newest)) if newest.seq == parent.0 => Some(newest),
                (Some(parent), _) => Some(self.parent(session, parent)?),
            };
            newest = Some(self.add(session, parent.as_ref(), ready)?);
        }
        Ok(())
    }

    /// Adds an entry that another file has under an id; its bytes are in the body with the id `body`, or its own.
    pub(super) fn restore(
        &mut self,
        session: &mut StoredSession,
        id: i64,
        body: Option<i64>,
        ready: &ReadyEntry,
    ) -> Result<(), Fault> {
        let parent = ready.entry.parent.map(|parent| self.parent(session, parent)).transpose()?;
        self.bodies.restore(body.unwrap_or(id), &ready.packed)?;
        self.insert(session, parent.as_ref(), ready, id, body).map(drop)
    }

    /// Adds an entry under the next id; bytes that are there already are not stored again.
    fn add(
        &mut self,
        session: &mut StoredSession,
        parent: Option<&StoredNode>,
        ready: &ReadyEntry,
    ) -> Result<StoredNode, Fault> {
        let id = self.next_id;
        let hash = ready.raw_hash.for_owner(session.owner);
        let body = self.bodies.find(&hash, &ready.entry.raw, &ready.packed)?;
        if body.is_none() {
            self.bodies.add(&hash, id, &ready.packed)?;
        }
        let node = self.insert(session, parent, ready, id, body)?;
        self.next_id += 1;
        Ok(node)
    }

    /// Reads the entry that another one is to follow. Its seal is looked up: what is chained to a damaged one could
    /// not be read back.
    fn parent(&self, session: &StoredSession, parent: Seq) -> Result<StoredNode, Fault> {
        let Some(newest) = session.totals.newest().filter(|newest| newest.seq == parent.0) else {
            return tree::node(self.db, session, parent.0);
        };
        let sql = "SELECT seal FROM entry WHERE session = ?1 AND seq = ?2";
        let mut select = self.db.prepare_cached(sql)?;
        let found: Result<Option<Seal>, rusqlite::Error> =
            select.query_row((session.row, signed(newest.seq)), |row| row.get(0)).optional();
        let damaged = || damaged(session, newest.seq);
        match found.map_err(illegible_as(damaged))? {
            None => Err(missing(session, newest.seq)),
            Some(seal) if newest.seal == seal => Ok(newest.clone()),
            Some(_) => Err(damaged()),
        }
    }

    fn insert(
        &mut self,
        session: &mut StoredSession,
        parent: Option<&StoredNode>,
        ready: &ReadyEntry,
        id: i64,
        body: Option<i64>,
    ) -> Result<StoredNode, Fault> {
        let Entry { seq, link, round, form, raw, at_ms, source_ms, .. } = &ready.entry;
        let hash = ready.raw_hash.for_owner(session.owner);
        let mut stored = StoredEntry {
            node: StoredNode {
                seq: seq.0,
                parent: parent.map(|parent| parent.seq),
                depth: parent.map_or(0, tree::depth_after),
                round: *round,
                link: *link,
                seal: Seal::default(),
            },
            at_ms: *at_ms,
            source_ms: *source_ms,
            form: form.clone(),
            excerpt: ready.excerpt.clone(),
            hash,
            raw: None,
            parent_seal: parent.map(|parent| parent.seal),
        };
        stored.node.seal = stored.right_seal(session.id, stored.parent_seal.as_ref());
        let node = &stored.node;
        self.insert.execute(params![
            id,
            session.row,
            signed(node.seq),
            node.parent.map(signed),
            signed(node.depth),
            signed(node.round),
            stored.at_ms,
            stored.source_ms,
            body,
            node.link.0.to_be_bytes(),
            node.seal,
            hash,
            stored.form,
            stored.excerpt,
        ])?;
        session.totals.add(stored.node.clone(), id, raw.len(), *at_ms);
        Ok(stored.node)
    }
}

/// An entry as it is stored.
#[derive(Clone, Debug)]
pub(super) struct StoredEntry {
    pub(super) node: StoredNode,
    pub(super) at_ms: i64,
    source_ms: Option<i64>,
    pub(super) form: String,
    excerpt: Vec<u8>,
    /// The name of its body.
    pub(super) hash: Seal,
    /// `None` if the body is missing or was not asked for.
    pub(super) raw: Option<String>,
    /// `None` for a root, or if the parent is missing.
    parent_seal: Option<Seal>,
}

impl StoredEntry {
    pub(super) fn read(row: &Row<'_>) -> Result<Self, rusqlite::Error> {
        let node = StoredNode {
            seq: unsigned(row, 2)?,
            parent: optional(row, 3)?,
            depth: unsigned(row, 4)?,
            round: unsigned(row, 5)?,
            link: Link(u128::from_be_bytes(row.get(8)?)),
            seal: row.get(9)?,
        };
        Ok(Self {
            node,
            at_ms: row.get(6)?,
            source_ms: row.get(7)?,
            form: row.get(10)?,
            excerpt: row.get(11)?,
            hash: row.get(12)?,
            raw: row.get_ref(13)?.as_blob().ok().and_then(pack::unpack_text),
            parent_seal: row.get(14)?,
        })
    }

    /// What its seal should be, given the one of its parent.
    pub(super) fn right_seal(&self, session: SessionId, parent_seal: Option<&Seal>) -> Seal {
        let StoredNode { seq, parent, depth, round, link, .. } = &self.node;
        let first = parent_seal.is_none().then(|| first_seal(session, "entries"));
        let before = parent_seal.or(first.as_ref());
        Sealer::new("entry")
            .bytes(before.map_or(&[], |seal| seal))
            .number(*seq)
            .optional(*parent)
            .number(*depth)
            .number(*round)
            .time(self.at_ms)
            .optional(self.source_ms.map(i64::cast_unsigned))
            .bytes(&link.0.to_be_bytes())
            .bytes(self.form.as_bytes())
            .bytes(&self.excerpt)
            .bytes(&self.hash)
            .seal()
    }

    /// Whether it is what was written, but for its body.
    pub(super) fn has_right_seal(&self, session: &StoredSession) -> bool {
        self.right_seal(session.id, self.parent_seal.as_ref()) == self.node.seal
    }

    /// Whether its body is what was written.
    pub(super) fn has_right_body(&self, session: &StoredSession) -> bool {
        let raw_hash = self.raw.as_deref().map(RawHash::of);
        raw_hash.is_some_and(|hash| hash.for_owner(session.owner) == self.hash)
    }

    pub(super) fn is_right(&self, session: &StoredSession) -> bool {
        self.has_right_seal(session) && self.has_right_body(session)
    }

    /// See [`Entry::said_ms`].
    pub(super) fn said_ms(&self) -> i64 {
        self.source_ms.unwrap_or(self.at_ms)
    }

    /// What search sees of it; `None` if that does not fit the message.
    pub(super) fn text(&self) -> Option<String> {
        excerpt::decode(&self.excerpt, self.raw.as_deref()?)
    }

    /// The entry, if it is what was written.
    pub(super) fn checked(self, session: &StoredSession) -> Option<EntryRecord> {
        if !self.is_right(session) {
            return None;
        }
        let text = self.text().unwrap_or_default();
        let StoredNode { seq, parent, link, round, .. } = self.node;
        let entry = Entry {
            seq: Seq(seq),
            parent: parent.map(Seq),
            link,
            round,
            form: self.form,
            raw: self.raw?,
            at_ms: self.at_ms,
            source_ms: self.source_ms,
        };
        Some(EntryRecord { entry, text })
    }
}

/// Selects what [`StoredEntry::read`] reads, with or without the body.
macro_rules! select {
    (raw, $rest:literal) => {
        entry::select!(
            "(SELECT content FROM body WHERE body.id = coalesce(entry.body, entry.id))",
            $rest
        )
    };
    ($raw:literal, $rest:literal) => {
        concat!(
            "SELECT entry.id, entry.session, entry.seq, entry.parent, entry.depth, entry.round, \
             entry.at_ms, entry.source_ms, entry.link, entry.seal, entry.form, entry.excerpt, \
             entry.hash, ",
            $raw,
            ", (SELECT up.seal FROM entry AS up \
             WHERE up.session = entry.session AND up.seq = entry.parent) \
             FROM entry WHERE ",
            $rest
        )
    };
}
pub(super) use select;

use super::entry;

pub(super) const SELECT_WITHOUT_RAW: &str =
    select!("NULL", "entry.session = ?1 AND entry.seq = ?2");
pub(super) const SELECT_RANGE_WITHOUT_RAW: &str =
    select!("NULL", "entry.session = ?1 AND entry.seq >= ?2 AND entry.seq < ?3 ORDER BY entry.seq");
pub(super) const SELECT_RANGE: &str =
    select!(raw, "entry.session = ?1 AND entry.seq >= ?2 AND entry.seq < ?3 ORDER BY entry.seq");

/// Reads the entries with numbers in ranges, which must all be there.
pub(super) fn each(
    db: &Connection,
    session: &StoredSession,
    select: &str,
    seqs: &[Range<u64>],
    mut take: impl FnMut(u64, StoredEntry) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let entries = session.totals.entries;
    let mut select = db.prepare_cached(select)?;
    for range in seqs {
        if range.end > entries {
            let range = range.clone();
            return Err(ArchiveError::NoSuchEntries { session: session.id, range, entries }.into());
        }
        let mut rows = select.query((session.row, signed(range.start), signed(range.end)))?;
        for seq in range.clone() {
            let row = rows.next()?.ok_or_else(|| missing(session, seq))?;
            let stored = StoredEntry::read(row).map_err(illegible_as(|| damaged(session, seq)))?;
            if stored.node.seq != seq {
                return Err(missing(session, seq));
            }
            take(seq, stored)?;
        }
    }
    Ok(())
}

/// See [`crate::Storage::bodies`].
pub(super) fn bodies(
    db: &Connection,
    session: &StoredSession,
    seqs: &[Range<u64>],
) -> Result<Vec<EntryRecord>, Fault> {
    let mut records = Vec::new();
    each(db, session, SELECT_RANGE, seqs, |seq, stored| {
        records.push(checked(session, seq, stored)?);
        Ok(())
    })?;
    Ok(records)
}

/// Returns the entry if it is what was written; the newest one must also match the totals of the session.
fn checked(session: &StoredSession, seq: u64, stored: StoredEntry) -> Result<EntryRecord, Fault> {
    let newest = session.totals.newest().filter(|newest| newest.seq == stored.node.seq);
    if newest.is_some_and(|newest| *newest != stored.node) {
        return Err(damaged(session, seq));
    }
    stored.checked(session).ok_or_else(|| damaged(session, seq))
}

pub(super) fn damaged(session: &StoredSession, seq: u64) -> Fault {
    session.damage(DamagedPart::Entry(seq), "failed its checksum")
}

pub(super) fn missing(session: &StoredSession, seq: u64) -> Fault {
    session.damage(DamagedPart::Entry(seq), "is missing")
}
