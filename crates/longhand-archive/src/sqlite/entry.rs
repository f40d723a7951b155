//! Entries and the checksums that hold them together.

use std::collections::{BTreeMap, btree_map};
use std::ops::{ControlFlow, Range};

use longhand_core::Seq;
use longhand_core::{Link, Meaning};
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Row, params};

use super::body::{Bodies, RawHash};
use super::fault::{Fault, illegible_as};
use super::request::RequestLog;
use super::seal::{Seal, Sealer};
use super::session::{self, Session, first_seal, optional, signed, unsigned};
use super::transaction::attempt;
use super::tree::{self, Node};
use super::{batch, derived, preamble, transfer};
use crate::{
    Addition, After, Appended, ArchiveError, Conflict, DamagedPart, Entry, Expected, NewEntry,
    Record, SessionId, excerpt,
};

/// A new entry with all that can be worked out before its place is known.
#[derive(Clone, Debug)]
pub(super) struct ReadyEntry {
    meaning: Meaning,
    opens_round: bool,
    form: String,
    raw: String,
    raw_hash: RawHash,
    excerpt: Vec<u8>,
    at_ms: i64,
}

impl ReadyEntry {
    pub(super) fn new(entry: &NewEntry) -> Self {
        Self {
            meaning: entry.meaning,
            opens_round: entry.opens_round,
            form: entry.form.clone(),
            raw: entry.raw.clone(),
            raw_hash: RawHash::of(&entry.raw),
            excerpt: excerpt::encode(&entry.text, &entry.raw),
            at_ms: entry.at_ms,
        }
    }
}

impl ReadyEntry {
    /// An entry of another archive, whose place and link are known.
    pub(super) fn restored(entry: &Entry, text: &str) -> Self {
        Self {
            // Only links are made from it.
            meaning: Meaning(0),
            opens_round: false,
            form: entry.form.clone(),
            raw: entry.raw.clone(),
            raw_hash: RawHash::of(&entry.raw),
            excerpt: excerpt::encode(text, &entry.raw),
            at_ms: entry.at_ms,
        }
    }
}

/// An addition with all that can be worked out before its place is known.
#[derive(Clone, Debug)]
pub(super) struct ReadyAddition {
    addition: Addition,
    entries: Vec<ReadyEntry>,
}

impl ReadyAddition {
    pub(super) fn new(addition: &Addition) -> Self {
        let Addition {
            session,
            begin,
            after,
            expected,
            entries,
            batch,
            preamble,
            request,
            derived,
        } = addition;
        let addition = Addition {
            session: *session,
            begin: begin.clone(),
            after: *after,
            expected: *expected,
            entries: Vec::new(),
            batch: batch.clone(),
            preamble: preamble.clone(),
            request: request.clone(),
            derived: derived.clone(),
        };
        Self { addition, entries: entries.iter().map(ReadyEntry::new).collect() }
    }

    fn make(&self, write: &mut Statements, sessions: &mut OpenSessions) -> Result<Appended, Fault> {
        let db = write.db;
        let Addition { session: id, begin, after, expected, batch, preamble, .. } = &self.addition;
        if let Some(new) = begin {
            session::begin(db, *id, new)?;
        }
        let OpenSession { session, is_fresh } = match sessions.entry(*id) {
            btree_map::Entry::Occupied(open) => open.into_mut(),
            btree_map::Entry::Vacant(place) => {
                place.insert(OpenSession { session: session::require(db, *id)?, is_fresh: false })
            }
        };
        let expected = expected.as_ref();
        if let Some(expected) = expected.filter(|place| place.first.0 != session.state.entries) {
            return Err(other_place(session, expected));
        }
        let newest = session.state.newest().filter(|_| *is_fresh);
        let parent = match (newest, *after) {
            (Some(newest), After::Entry(Some(seq))) if newest.seq == seq.0 => Some(newest.clone()),
            _ => parent(db, session, *after)?,
        };
        let before = parent.as_ref().map(|parent| parent.link);
        if let Some(expected) = expected.filter(|place| place.before != before) {
            return Err(other_place(session, expected));
        }
        let mut appended = append_after(write, session, parent, &self.entries)?;
        *is_fresh |= appended.new > 0;
        if let Some(batch) = batch {
            appended.batch = Some(batch::commit(db, session, batch)?);
        }
        if let Some(preamble) = preamble {
            preamble::keep(db, session.owner, preamble)?;
        }
        if let Some(request) = &self.addition.request {
            write.requests.add(session, request)?;
        }
        if let Some((key, value)) = &self.addition.derived {
            derived::put_in(db, session, key, value)?;
        }
        Ok(appended)
    }
}

/// The statements that additions need again and again, prepared once for all of a transaction.
pub(super) struct Statements<'d> {
    db: &'d Connection,
    insert: CachedStatement<'d>,
    bodies: Bodies<'d>,
    requests: RequestLog<'d>,
}

impl<'d> Statements<'d> {
    pub(super) fn new(db: &'d Connection) -> Result<Self, Fault> {
        let insert = db.prepare_cached(
            "INSERT INTO entry (session, seq, parent, jump, depth, round, at_ms, body, link, seal, \
             hash, form, excerpt, raw) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        )?;
        Ok(Self { db, insert, bodies: Bodies::new(db)?, requests: RequestLog::new(db)? })
    }
}

/// The sessions that additions of one transaction are made to: read once, and written once at its end.
type OpenSessions = BTreeMap<SessionId, OpenSession>;

struct OpenSession {
    session: Session,
    /// Whether its newest entry was written in this transaction, so that it is not damaged.
    is_fresh: bool,
}

/// Makes each of several additions, or nothing of it. The outer failure says that the transaction is lost.
pub(super) fn make_all(
    db: &Connection,
    additions: &[ReadyAddition],
) -> Result<Vec<Result<Appended, Fault>>, Fault> {
    // Nearly always all of them can be made.
    if let Ok(all) = attempt(db, |db| make_together(db, additions))? {
        return Ok(all.into_iter().map(Ok).collect());
    }
    let one = |addition| {
        let made = attempt(db, |db| make_together(db, std::slice::from_ref(addition)))?;
        Ok(made.map(|mut appended| appended.remove(0)))
    };
    additions.iter().map(one).collect()
}

fn make_together(db: &Connection, additions: &[ReadyAddition]) -> Result<Vec<Appended>, Fault> {
    let mut sessions = OpenSessions::new();
    let mut write = Statements::new(db)?;
    let made = additions.iter().map(|addition| addition.make(&mut write, &mut sessions));
    let made = made.collect::<Result<Vec<Appended>, Fault>>()?;
    for open in sessions.values() {
        session::save(db, &open.session)?;
    }
    Ok(made)
}

fn other_place(session: &Session, expected: &Expected) -> Fault {
    let entries = session.state.entries;
    let conflict = Conflict::Entries { expected: expected.first.0, entries };
    ArchiveError::Conflict { session: session.id, conflict }.into()
}

/// See [`crate::Archive::append`].
pub(super) fn append(
    db: &Connection,
    session: &mut Session,
    after: After,
    entries: &[ReadyEntry],
) -> Result<Appended, Fault> {
    let parent = parent(db, session, after)?;
    let appended = append_after(&mut Statements::new(db)?, session, parent, entries)?;
    if appended.new > 0 {
        session::save(db, session)?;
    }
    Ok(appended)
}

/// The entry that new ones follow.
fn parent(db: &Connection, session: &Session, after: After) -> Result<Option<Node>, Fault> {
    match after {
        After::Newest => newest(db, session),
        After::Entry(None) => Ok(None),
        After::Entry(head) => session.path_end(db, head),
    }
}

fn append_after(
    write: &mut Statements,
    session: &mut Session,
    mut parent: Option<Node>,
    entries: &[ReadyEntry],
) -> Result<Appended, Fault> {
    let db = write.db;
    let round = parent.as_ref().map_or(0, |parent| parent.round);
    let mut appended = Appended { round, ..Appended::default() };
    // Nothing follows the newest entry, and nothing follows a new one.
    let next = parent.as_ref().map_or(0, |parent| parent.seq + 1);
    let mut may_be_there = next < session.state.entries;
    for entry in entries {
        let link = tree::chained(db, session, parent.as_ref())?.next(entry.meaning);
        let before = parent.as_ref().map(|parent| parent.seq);
        let found = if may_be_there { tree::child(db, session, before, link)? } else { None };
        let node = if let Some(node) = found {
            node
        } else {
            may_be_there = false;
            appended.new += 1;
            insert(write, session, parent.as_ref(), link, entry)?
        };
        if appended.seqs.is_empty() {
            appended.round = node.round;
        }
        appended.seqs.push(Seq(node.seq));
        parent = Some(node);
    }
    Ok(appended)
}

/// The entry appended last. Its seal is looked up: what is chained to a damaged one could not be read back.
fn newest(db: &Connection, session: &Session) -> Result<Option<Node>, Fault> {
    let Some(newest) = session.state.newest() else { return Ok(None) };
    let mut select = db.prepare_cached("SELECT seal FROM entry WHERE session = ?1 AND seq = ?2")?;
    let found: Result<Option<Seal>, rusqlite::Error> =
        select.query_row((session.row, signed(newest.seq)), |row| row.get(0)).optional();
    let damaged = || damaged(session, newest.seq);
    match found.map_err(illegible_as(damaged))? {
        None => Err(missing(session, newest.seq)),
        Some(seal) if newest.seal == seal => Ok(Some(newest.clone())),
        Some(_) => Err(damaged()),
    }
}

fn insert(
    write: &mut Statements,
    session: &mut Session,
    parent: Option<&Node>,
    link: Link,
    entry: &ReadyEntry,
) -> Result<Node, Fault> {
    let hash = entry.raw_hash.for_owner(session.owner);
    let mut stored = StoredEntry {
        node: Node {
            seq: session.state.entries,
            parent: parent.map(|parent| parent.seq),
            jump: parent.map(|parent| tree::jump_after(write.db, session, parent)),
            depth: parent.map_or(0, tree::depth_after),
            round: parent.map_or(0, |parent| parent.round + u64::from(entry.opens_round)),
            link,
            seal: Seal::default(),
        },
        at_ms: entry.at_ms,
        form: entry.form.clone(),
        excerpt: entry.excerpt.clone(),
        hash,
        raw: None,
        parent_seal: parent.map(|parent| parent.seal),
    };
    stored.node.seal = stored.right_seal(session.id, stored.parent_seal.as_ref());
    let body = write.bodies.find(&hash, &entry.raw)?;
    let node = &stored.node;
    write.insert.execute(params![
        session.row,
        signed(node.seq),
        node.parent.map(signed),
        node.jump.map(signed),
        signed(node.depth),
        signed(node.round),
        stored.at_ms,
        body,
        node.link.0.to_be_bytes(),
        node.seal,
        hash,
        stored.form,
        stored.excerpt,
        body.is_none().then_some(&entry.raw),
    ])?;
    let row = write.db.last_insert_rowid();
    if body.is_none() {
        write.bodies.remember(&hash, row)?;
    }
    session.state.add(stored.node.clone(), row, entry.raw.len(), entry.at_ms);
    Ok(stored.node)
}

/// Appends an entry of another archive exactly as it was there.
pub(super) fn restore(
    write: &mut Statements,
    session: &mut Session,
    place: &RestoredPlace,
    entry: &ReadyEntry,
) -> Result<(), Fault> {
    let RestoredPlace { seq, parent, link, round } = *place;
    let unfit = || transfer::unfit(session.id, format!("entry {}", seq.0));
    if seq.0 != session.state.entries || parent.is_some_and(|parent| parent >= seq) {
        return Err(unfit());
    }
    let newest = session.state.newest();
    let parent = match (parent, newest) {
        (Some(parent), Some(newest)) if newest.seq == parent.0 => Some(newest.clone()),
        (Some(parent), _) => Some(tree::node(write.db, session, parent.0)?),
        (None, _) => None,
    };
    let before = parent.as_ref().map_or(0, |parent| parent.round);
    let opens_round = match round.checked_sub(before) {
        Some(0) => false,
        Some(1) if parent.is_some() => true,
        _ => return Err(unfit()),
    };
    let entry = ReadyEntry { opens_round, ..entry.clone() };
    insert(write, session, parent.as_ref(), link, &entry).map(drop)
}

/// Where an entry was in another archive.
#[derive(Clone, Copy, Debug)]
pub(super) struct RestoredPlace {
    pub(super) seq: Seq,
    pub(super) parent: Option<Seq>,
    pub(super) link: Link,
    pub(super) round: u64,
}

/// An entry as it is stored.
#[derive(Clone, Debug)]
pub(super) struct StoredEntry {
    pub(super) node: Node,
    at_ms: i64,
    form: String,
    excerpt: Vec<u8>,
    /// The name of its body.
    pub(super) hash: Seal,
    /// `None` if the body is missing or was not asked for.
    raw: Option<String>,
    /// `None` for a root, or if the parent is missing.
    parent_seal: Option<Seal>,
}

impl StoredEntry {
    pub(super) fn read(row: &Row<'_>) -> Result<Self, rusqlite::Error> {
        let node = Node {
            seq: unsigned(row, 2)?,
            parent: optional(row, 3)?,
            jump: optional(row, 4)?,
            depth: unsigned(row, 5)?,
            round: unsigned(row, 6)?,
            link: Link(u128::from_be_bytes(row.get(8)?)),
            seal: row.get(9)?,
        };
        Ok(Self {
            node,
            at_ms: row.get(7)?,
            form: row.get(10)?,
            excerpt: row.get(11)?,
            hash: row.get(12)?,
            raw: row.get(13)?,
            parent_seal: row.get(14)?,
        })
    }

    /// What its seal should be, given the one of its parent.
    pub(super) fn right_seal(&self, session: SessionId, parent_seal: Option<&Seal>) -> Seal {
        let Node { seq, parent, jump, depth, round, link, .. } = &self.node;
        let first = parent_seal.is_none().then(|| first_seal(session, "entries"));
        let before = parent_seal.or(first.as_ref());
        Sealer::new("entry")
            .bytes(before.map_or(&[], |seal| seal))
            .number(*seq)
            .optional(*parent)
            .optional(*jump)
            .number(*depth)
            .number(*round)
            .time(self.at_ms)
            .bytes(&link.0.to_be_bytes())
            .bytes(self.form.as_bytes())
            .bytes(&self.excerpt)
            .bytes(&self.hash)
            .seal()
    }

    /// Whether it is what was written, but for its body.
    pub(super) fn has_right_seal(&self, session: &Session) -> bool {
        self.right_seal(session.id, self.parent_seal.as_ref()) == self.node.seal
    }

    /// Whether its body is what was written.
    pub(super) fn has_right_body(&self, session: &Session) -> bool {
        let raw_hash = self.raw.as_deref().map(RawHash::of);
        raw_hash.is_some_and(|hash| hash.for_owner(session.owner) == self.hash)
    }

    pub(super) fn is_right(&self, session: &Session) -> bool {
        self.has_right_seal(session) && self.has_right_body(session)
    }

    /// What search sees of it; `None` if that does not fit the message.
    pub(super) fn text(&self) -> Option<String> {
        excerpt::decode(&self.excerpt, self.raw.as_deref()?)
    }

    /// The entry, if it is what was written.
    fn checked(self, session: &Session) -> Option<Entry> {
        if !self.is_right(session) {
            return None;
        }
        let Node { seq, parent, link, round, .. } = self.node;
        Some(Entry {
            seq: Seq(seq),
            parent: parent.map(Seq),
            link,
            round,
            form: self.form,
            raw: self.raw?,
            at_ms: self.at_ms,
        })
    }
}

/// What [`StoredEntry::read`] reads, with or without the body, wherever that is.
macro_rules! select {
    (raw, $rest:literal) => {
        entry::select!(
            "coalesce(entry.raw, (SELECT own.raw FROM entry AS own WHERE own.id = entry.body))",
            $rest
        )
    };
    ($raw:literal, $rest:literal) => {
        concat!(
            "SELECT entry.id, entry.session, entry.seq, entry.parent, entry.jump, entry.depth, \
             entry.round, entry.at_ms, entry.link, entry.seal, entry.form, entry.excerpt, \
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
pub(super) const SELECT_ALL_WITHOUT_RAW: &str =
    select!("NULL", "entry.session = ?1 AND entry.seq < ?2 ORDER BY entry.seq");
const SELECT: &str = select!(raw, "entry.session = ?1 AND entry.seq = ?2");
pub(super) const SELECT_RANGE: &str =
    select!(raw, "entry.session = ?1 AND entry.seq >= ?2 AND entry.seq < ?3 ORDER BY entry.seq");

/// Hands over all entries, each checked, with what search sees of them.
pub(super) fn export(
    db: &Connection,
    session: &Session,
    take: &mut dyn FnMut(Record) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, Fault> {
    let mut select = db.prepare_cached(SELECT_RANGE)?;
    let mut rows = select.query((session.row, 0, signed(session.state.entries)))?;
    for seq in 0..session.state.entries {
        let row = rows.next()?.ok_or_else(|| missing(session, seq))?;
        let stored = StoredEntry::read(row).map_err(illegible_as(|| damaged(session, seq)))?;
        if stored.node.seq != seq {
            return Err(missing(session, seq));
        }
        let text = stored.text().unwrap_or_default();
        let entry = checked(session, seq, Ok(stored))?;
        if take(Record::Entry { entry, text }).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// See [`crate::Archive::entries`].
pub(super) fn entries(
    db: &Connection,
    id: SessionId,
    seqs: Range<u64>,
) -> Result<Vec<Entry>, Fault> {
    let Some(session) = session::find(db, id)? else { return Ok(Vec::new()) };
    let end = seqs.end.min(session.state.entries);
    let mut entries = Vec::new();
    if seqs.start >= end {
        return Ok(entries);
    }
    let mut select = db.prepare_cached(SELECT_RANGE)?;
    let mut rows = select.query((session.row, signed(seqs.start), signed(end)))?;
    let mut next = seqs.start;
    while let Some(row) = rows.next()? {
        let stored = StoredEntry::read(row);
        if stored.as_ref().is_ok_and(|stored| stored.node.seq != next) {
            return Err(missing(&session, next));
        }
        entries.push(checked(&session, next, stored)?);
        next += 1;
    }
    if next < end {
        return Err(missing(&session, next));
    }
    Ok(entries)
}

/// See [`crate::Archive::path`].
pub(super) fn path(
    db: &Connection,
    id: SessionId,
    head: Option<Seq>,
    seqs: Range<u64>,
) -> Result<Vec<Entry>, Fault> {
    let Some(session) = session::find(db, id)? else { return Ok(Vec::new()) };
    let end = session.path_end(db, head)?;
    let (Some(end), Some(limit)) = (end, seqs.end.checked_sub(1)) else { return Ok(Vec::new()) };
    let last = tree::ancestor(db, &session, &end, limit)?;
    let mut next = last.map(|last| last.seq);
    let mut select = db.prepare_cached(SELECT)?;
    let mut entries = Vec::new();
    while let Some(seq) = next
        && seq >= seqs.start
    {
        let mut rows = select.query((session.row, signed(seq)))?;
        let row = rows.next()?.ok_or_else(|| missing(&session, seq))?;
        let entry = checked(&session, seq, StoredEntry::read(row))?;
        next = entry.parent.map(|parent| parent.0);
        entries.push(entry);
    }
    entries.reverse();
    Ok(entries)
}

/// Gives the entry if it is what was written, and the newest one if it is the one that was last.
fn checked(
    session: &Session,
    seq: u64,
    stored: Result<StoredEntry, rusqlite::Error>,
) -> Result<Entry, Fault> {
    let stored = stored.map_err(illegible_as(|| damaged(session, seq)))?;
    let newest = session.state.newest().filter(|newest| newest.seq == stored.node.seq);
    if newest.is_some_and(|newest| *newest != stored.node) {
        return Err(damaged(session, seq));
    }
    stored.checked(session).ok_or_else(|| damaged(session, seq))
}

pub(super) fn damaged(session: &Session, seq: u64) -> Fault {
    session.damage(DamagedPart::Entry(seq), "failed its checksum")
}

pub(super) fn missing(session: &Session, seq: u64) -> Fault {
    session.damage(DamagedPart::Entry(seq), "is missing")
}
