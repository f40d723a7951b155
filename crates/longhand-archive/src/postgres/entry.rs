//! Entries, each with a checksum of its own; the links chain them.

use std::ops::Range;

use longhand_core::session::{Fork, Node};
use longhand_core::{Link, Seq};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use super::fault::Fault;
use super::server::both;
use super::session::{StoredSession, array, number, text};
use crate::seal::{Seal, Sealer};
use crate::{ArchiveError, DamagedPart, Entry, EntryRecord, SessionId, excerpt, pack};

/// An entry as it is stored.
#[derive(Clone, Debug)]
pub(super) struct StoredEntry {
    pub(super) id: i64,
    pub(super) session: i64,
    pub(super) node: Node,
    pub(super) at_ms: i64,
    source_ms: Option<i64>,
    pub(super) form: String,
    seal: Vec<u8>,
    /// What search sees of it and the message, as they are stored; empty if they were not read.
    excerpt: Vec<u8>,
    body: Vec<u8>,
}

/// Selects entries.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT e.id, e.session, e.seq, e.parent, e.round, e.at_ms, e.source_ms, e.link, e.seal, e.form, \
             e.excerpt, e.body FROM longhand.entry e ",
            $rest
        )
    };
}
pub(super) use select;

use super::entry;

/// So many of the newest entries come with a session that is opened.
const NEWEST_NODES: i64 = 64;

/// The messages of a statement have at most about so many bytes.
const STATEMENT_BYTES: usize = 16 << 20;

impl StoredEntry {
    /// An entry that is about to be written.
    pub(super) fn new(of: SessionId, record: &EntryRecord) -> Self {
        let EntryRecord { entry, text } = record;
        let Entry { seq, parent, link, round, .. } = *entry;
        let mut stored = Self {
            id: 0,
            session: 0,
            node: Node { seq, parent, link, round },
            at_ms: entry.at_ms,
            source_ms: entry.source_ms,
            form: entry.form.clone(),
            seal: Vec::new(),
            excerpt: excerpt::encode(text, &entry.raw),
            body: pack::pack(entry.raw.as_bytes()),
        };
        stored.seal = stored.right_seal(of).to_vec();
        stored
    }

    pub(super) fn read(row: &Row) -> Self {
        let count = |column: usize| row.get::<_, i64>(column).cast_unsigned();
        let node = Node {
            seq: Seq(count(2)),
            parent: row.get::<_, Option<i64>>(3).map(|parent| Seq(parent.cast_unsigned())),
            link: Link(u128::from_be_bytes(array(row.get(7)))),
            round: count(4),
        };
        Self {
            id: row.get(0),
            session: row.get(1),
            node,
            at_ms: row.get(5),
            source_ms: row.get(6),
            form: text(row.get(9)),
            seal: row.get(8),
            excerpt: row.get(10),
            body: row.get(11),
        }
    }

    pub(super) fn seal(&self) -> &[u8] {
        &self.seal
    }

    /// See [`Entry::said_ms`].
    pub(super) fn said_ms(&self) -> i64 {
        self.source_ms.unwrap_or(self.at_ms)
    }

    /// What its seal should be. The message is sealed as it is stored.
    fn right_seal(&self, of: SessionId) -> Seal {
        let Node { seq, parent, link, round } = self.node;
        Sealer::new("entry row")
            .bytes(&of.to_bytes())
            .number(seq.0)
            .optional(parent.map(|parent| parent.0))
            .number(round)
            .time(self.at_ms)
            .optional(self.source_ms.map(i64::cast_unsigned))
            .bytes(&link.0.to_be_bytes())
            .bytes(self.form.as_bytes())
            .bytes(&self.excerpt)
            .bytes(blake3::hash(&self.body).as_bytes())
            .seal()
    }

    /// The entry, if it is what was written.
    pub(super) fn checked(self, session: &StoredSession) -> Result<EntryRecord, Fault> {
        let Node { seq, parent, link, round } = self.node;
        let damaged = || session.damage(DamagedPart::Entry(seq.0), "failed its checksum");
        let is_newest = seq.0 + 1 == session.info.entries;
        if self.right_seal(session.id())[..] != self.seal
            || (is_newest && session.newest() != Some(self.node))
        {
            return Err(damaged());
        }
        let raw = pack::unpack_text(&self.body).ok_or_else(damaged)?;
        let text = excerpt::decode(&self.excerpt, &raw).ok_or_else(damaged)?;
        let (form, at_ms, source_ms) = (self.form, self.at_ms, self.source_ms);
        let entry = Entry { seq, parent, link, round, form, raw, at_ms, source_ms };
        Ok(EntryRecord { entry, text })
    }
}

/// See [`crate::Storage::bodies`]: entries with numbers in ranges, which must all be there. One round trip.
pub(super) async fn bodies(
    db: &Client,
    id: SessionId,
    seqs: &[Range<u64>],
) -> Result<Vec<EntryRecord>, Fault> {
    let starts: Vec<i64> = seqs.iter().map(|range| number(range.start)).collect();
    let ends: Vec<i64> = seqs.iter().map(|range| number(range.end)).collect();
    let reading = async {
        let sql = entry::select!(
            "JOIN unnest($2::int8[], $3::int8[]) WITH ORDINALITY w(low, high, place) \
             ON e.seq >= w.low AND e.seq < w.high \
             WHERE e.session = (SELECT number FROM longhand.session WHERE id = $1) ORDER BY w.place, e.seq"
        );
        let [one, two, three] = [Type::BYTEA, Type::INT8_ARRAY, Type::INT8_ARRAY];
        let id = &id.to_bytes()[..];
        db.query_typed(sql, &[(&id, one), (&starts, two), (&ends, three)]).await
    };
    let (found, rows) = both(super::session::find(db, id), reading).await;
    let Some(session) = found? else { return Ok(Vec::new()) };
    let mut records = Vec::new();
    for range in seqs {
        let entries = session.info.entries;
        if range.end > entries {
            let range = range.clone();
            return Err(ArchiveError::NoSuchEntries { session: id, range, entries }.into());
        }
    }
    if seqs.iter().all(Range::is_empty) {
        return Ok(records);
    }
    let rows = rows?;
    if rows.first().is_some_and(|row| row.get::<_, i64>(1) != session.number) {
        // Another session had the id in between.
        return Box::pin(bodies(db, id, seqs)).await;
    }
    let mut rows = rows.iter();
    for seq in seqs.iter().cloned().flatten() {
        let missing = || session.damage(DamagedPart::Entry(seq), "is missing");
        let stored = rows.next().map(StoredEntry::read).ok_or_else(missing)?;
        if stored.node.seq.0 != seq {
            return Err(missing());
        }
        records.push(stored.checked(&session)?);
    }
    Ok(records)
}

/// The entries from a number on that do not follow the one with the number before, with the numbers of their sessions.
pub(super) async fn forks(
    db: &Client,
    id: SessionId,
    since: u64,
) -> Result<Vec<(i64, Fork)>, Fault> {
    let sql = "SELECT session, seq, parent, link FROM longhand.entry \
               WHERE session = (SELECT number FROM longhand.session WHERE id = $1) \
               AND parent IS DISTINCT FROM seq - 1 AND seq >= $2 ORDER BY seq";
    let values: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
        [(&&id.to_bytes()[..], Type::BYTEA), (&number(since), Type::INT8)];
    let rows = db.query_typed(sql, &values).await?;
    let read = |row: &Row| {
        let parent = row.get::<_, Option<i64>>(2).map(|parent| Seq(parent.cast_unsigned()));
        let link = Link(u128::from_be_bytes(array(row.get(3))));
        (row.get(0), Fork { first: Seq(row.get::<_, i64>(1).cast_unsigned()), parent, link })
    };
    Ok(rows.iter().map(read).collect())
}

/// The newest entries of a session from a number on, without what they say, with the number of the session.
pub(super) async fn newest_nodes(
    db: &Client,
    id: SessionId,
    since: u64,
) -> Result<Vec<(i64, Node)>, Fault> {
    let sql = "SELECT session, seq, parent, round, link FROM longhand.entry \
               WHERE session = (SELECT number FROM longhand.session WHERE id = $1) AND seq >= $2 \
               ORDER BY seq DESC LIMIT $3";
    let values: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] = [
        (&&id.to_bytes()[..], Type::BYTEA),
        (&number(since), Type::INT8),
        (&NEWEST_NODES, Type::INT8),
    ];
    let rows = db.query_typed(sql, &values).await?;
    let read = |row: &Row| {
        let parent = row.get::<_, Option<i64>>(2).map(|parent| Seq(parent.cast_unsigned()));
        let link = Link(u128::from_be_bytes(array(row.get(4))));
        let [seq, round] = [1, 3].map(|column| row.get::<_, i64>(column).cast_unsigned());
        (row.get(0), Node { seq: Seq(seq), parent, link, round })
    };
    Ok(rows.iter().map(read).collect())
}

/// Entries in the order in which they are written, as many at a time as a statement takes.
pub(super) fn statements(entries: &[StoredEntry]) -> impl Iterator<Item = &[StoredEntry]> {
    let mut rest = entries;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = rest.iter().take_while(|entry| {
            let fits = bytes < STATEMENT_BYTES;
            bytes += entry.body.len() + entry.excerpt.len();
            fits
        });
        let (some, others) = rest.split_at(fits.count());
        rest = others;
        (!some.is_empty()).then_some(some)
    })
}

/// Writes entries, which have their ids; search does not know them yet.
pub(super) async fn insert(
    db: &Client,
    entries: &[StoredEntry],
) -> Result<(), tokio_postgres::Error> {
    fn all<'e, T>(entries: &'e [StoredEntry], of: impl Fn(&'e StoredEntry) -> T) -> Vec<T> {
        entries.iter().map(of).collect()
    }
    let counted =
        |of: fn(&StoredEntry) -> u64| -> Vec<i64> { all(entries, |entry| number(of(entry))) };
    let links = all(entries, |entry| entry.node.link.0.to_be_bytes().to_vec());
    let sql = "WITH waiting AS (INSERT INTO longhand.pending SELECT unnest($3::int8[])) \
               INSERT INTO longhand.entry (session, seq, id, parent, round, at_ms, source_ms, link, seal, form, \
               excerpt, body) SELECT * FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::int8[], $5::int8[], \
               $6::int8[], $7::int8[], $8::bytea[], $9::bytea[], $10::bytea[], $11::bytea[], $12::bytea[])";
    db.execute_typed(
        sql,
        &[
            (&all(entries, |entry| entry.session), Type::INT8_ARRAY),
            (&counted(|entry| entry.node.seq.0), Type::INT8_ARRAY),
            (&all(entries, |entry| entry.id), Type::INT8_ARRAY),
            (&all(entries, |entry| entry.node.parent.map(|seq| number(seq.0))), Type::INT8_ARRAY),
            (&counted(|entry| entry.node.round), Type::INT8_ARRAY),
            (&all(entries, |entry| entry.at_ms), Type::INT8_ARRAY),
            (&all(entries, |entry| entry.source_ms), Type::INT8_ARRAY),
            (&links, Type::BYTEA_ARRAY),
            (&all(entries, |entry| &entry.seal[..]), Type::BYTEA_ARRAY),
            (&all(entries, |entry| entry.form.as_bytes()), Type::BYTEA_ARRAY),
            (&all(entries, |entry| &entry.excerpt[..]), Type::BYTEA_ARRAY),
            (&all(entries, |entry| &entry.body[..]), Type::BYTEA_ARRAY),
        ],
    )
    .await
    .map(drop)
}
