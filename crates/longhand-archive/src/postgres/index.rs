//! The search index, which is derived from the entries and follows them.
//!
//! Entries wait until some hundreds of them become a slice: one row that says of each entry where it belongs and how long
//! it is, and a row for every term with the entries that have it and the places. What waits is searched entry by entry.
//! Whoever takes entries out of `pending` has them: two nodes never index the same ones.

mod find;
mod known;
mod rank;
mod reach;
mod slice;

use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};

pub(super) use self::find::candidates;
pub(super) use self::known::vocabulary;
pub(super) use self::rank::best;
use self::slice::{BuiltSlice, Doc};
use super::entry::{self, StoredEntry};
use super::fault::Fault;
use super::log::of_numbers;
use super::server::Server;

type Value<'v> = (&'v (dyn ToSql + Sync), Type);

/// So many entries wait until they are worth a slice.
pub(super) const SLICE_MIN: u64 = 512;
/// No more entries, and no more text, are in one.
const SLICE_MAX: i64 = 1_024;
const SLICE_BYTES: usize = 16 << 20;
/// So many rows are written by a statement.
const ROWS: usize = 4_096;

/// Whoever changes the slices waits for others by this lock: "longindx".
const LOCK: i64 = 0x6c6f_6e67_696e_6478;

pub(super) const TRANSACTION: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// Puts entries that wait into slices until fewer than `least` are left; returns whether that was reached.
pub(super) async fn extend(server: &Server, least: u64) -> Result<bool, Fault> {
    loop {
        let entries = server.ask(|db| Box::pin(waiting(db))).await?;
        if entries.is_empty() || (entries.len() as u64) < least {
            return Ok(true);
        }
        let ids: Vec<i64> = entries.iter().map(|(id, ..)| *id).collect();
        let built = BuiltSlice::of(&entries);
        drop(entries);
        server
            .transact(TRANSACTION, |db| {
                let (ids, built) = (ids.clone(), &built);
                let built = built.clone();
                Box::pin(async move { insert(db, &ids, &built).await })
            })
            .await?;
    }
}

/// An entry for the index; a damaged one has no words.
type Indexed = (i64, Doc, String);

/// The oldest entries that wait.
async fn waiting(db: &Client) -> Result<Vec<Indexed>, Fault> {
    let sql = entry::select!(
        "JOIN (SELECT entry FROM longhand.pending ORDER BY entry LIMIT $1) p ON p.entry = e.id ORDER BY e.id"
    );
    let rows = db.query_typed(sql, &[(&SLICE_MAX, Type::INT8)]).await?;
    let stored: Vec<StoredEntry> = rows.iter().map(StoredEntry::read).collect();
    let mut numbers: Vec<i64> = stored.iter().map(|entry| entry.session).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let sessions = of_numbers(db, &numbers).await?;
    let mut bytes = 0;
    let mut indexed = Vec::new();
    for entry in stored {
        let Some(session) = sessions.iter().find(|session| session.number == entry.session) else {
            continue;
        };
        let (id, said_ms) = (entry.id, entry.said_ms());
        let (roles, text) = match entry.checked(session) {
            Ok(record) => {
                let roles = slice::roles(&record.entry.form, &record.entry.raw);
                (roles, record.searched().into_owned())
            }
            Err(Fault::Damage(_)) => (0, String::new()),
            Err(fault) => return Err(fault),
        };
        bytes += text.len();
        let doc =
            Doc { id, session: session.number, owner: session.owner(), length: 0, said_ms, roles };
        indexed.push((id, doc, text));
        if bytes > SLICE_BYTES {
            break;
        }
    }
    Ok(indexed)
}

/// Adds a slice, unless somebody else has taken some of its entries.
async fn insert(db: &Client, ids: &[i64], built: &BuiltSlice) -> Result<(), Fault> {
    db.execute_typed("SELECT pg_advisory_xact_lock($1)", &[(&LOCK, Type::INT8)]).await?;
    let sql = "SELECT entry FROM longhand.pending WHERE entry = ANY($1) FOR UPDATE";
    let taken = db.query_typed(sql, &[(&ids, Type::INT8_ARRAY)]).await?;
    if taken.len() != ids.len() {
        return Ok(());
    }
    let sql = "DELETE FROM longhand.pending WHERE entry = ANY($1)";
    db.execute_typed(sql, &[(&ids, Type::INT8_ARRAY)]).await?;
    let sql = "INSERT INTO longhand.slice (last, entries, words, oldest_ms, newest_ms, docs) \
               VALUES ($1, $2, $3, $4, $5, $6) RETURNING id";
    let entries = (ids.len() as u64).cast_signed();
    let values: [Value<'_>; 6] = [
        (&built.last, Type::INT8),
        (&entries, Type::INT8),
        (&built.words, Type::INT8),
        (&built.oldest_ms, Type::INT8),
        (&built.newest_ms, Type::INT8),
        (&built.docs, Type::BYTEA),
    ];
    let slice: i64 = db.query_typed_one(sql, &values).await?.get(0);
    for rows in built.postings.chunks(ROWS) {
        let terms: Vec<&[u8]> = rows.iter().map(|(term, ..)| &term[..]).collect();
        let counts: Vec<i64> = rows.iter().map(|(_, entries, _)| *entries).collect();
        let data: Vec<&[u8]> = rows.iter().map(|(.., data)| &data[..]).collect();
        let sql = "INSERT INTO longhand.posting (slice, term, entries, data) \
                   SELECT $1, * FROM unnest($2::bytea[], $3::int8[], $4::bytea[])";
        let values: [Value<'_>; 4] = [
            (&slice, Type::INT8),
            (&terms, Type::BYTEA_ARRAY),
            (&counts, Type::INT8_ARRAY),
            (&data, Type::BYTEA_ARRAY),
        ];
        db.execute_typed(sql, &values).await?;
        let sql = "INSERT INTO longhand.term AS t (term, entries) \
                   SELECT term, n FROM unnest($1::bytea[], $2::int8[]) w(term, n) WHERE substr(term, 1, 1) > '\\x01' \
                   ON CONFLICT (term) DO UPDATE SET entries = t.entries + excluded.entries";
        let values: [Value<'_>; 2] = [(&terms, Type::BYTEA_ARRAY), (&counts, Type::INT8_ARRAY)];
        db.execute_typed(sql, &values).await?;
    }
    Ok(())
}

/// Takes the words of a session out of the index: the slices that have some are given up, and what else they have waits
/// again. Runs within a transaction.
pub(super) async fn forget(db: &Client, session: i64) -> Result<(), Fault> {
    db.execute_typed("SELECT pg_advisory_xact_lock($1)", &[(&LOCK, Type::INT8)]).await?;
    let sql = "SELECT s.id, s.docs FROM longhand.slice s \
               WHERE s.id IN (SELECT slice FROM longhand.posting WHERE term = $1)";
    let rows = db.query_typed(sql, &[(&slice::session_mark(session), Type::BYTEA)]).await?;
    let slices: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    let docs = rows.iter().flat_map(|row| slice::docs(row.get(1)).unwrap_or_default());
    let again: Vec<i64> = docs.filter(|doc| doc.session != session).map(|doc| doc.id).collect();
    give_up(db, &slices, &again).await
}

async fn give_up(db: &Client, slices: &[i64], again: &[i64]) -> Result<(), Fault> {
    if slices.is_empty() {
        return Ok(());
    }
    let sql = "UPDATE longhand.term t SET entries = t.entries - p.entries FROM \
               (SELECT term, sum(entries)::int8 AS entries FROM longhand.posting WHERE slice = ANY($1) GROUP BY term) p \
               WHERE t.term = p.term";
    db.execute_typed(sql, &[(&slices, Type::INT8_ARRAY)]).await?;
    for sql in [
        "DELETE FROM longhand.term t USING longhand.posting p \
         WHERE p.slice = ANY($1) AND t.term = p.term AND t.entries <= 0",
        "DELETE FROM longhand.posting WHERE slice = ANY($1)",
        "DELETE FROM longhand.slice WHERE id = ANY($1)",
    ] {
        db.execute_typed(sql, &[(&slices, Type::INT8_ARRAY)]).await?;
    }
    let sql = "INSERT INTO longhand.pending SELECT unnest($1::int8[]) ON CONFLICT DO NOTHING";
    db.execute_typed(sql, &[(&again, Type::INT8_ARRAY)]).await?;
    Ok(())
}

/// Empties the index; all entries wait again. Runs within a transaction.
pub(super) async fn reset(db: &Client) -> Result<(), Fault> {
    db.execute_typed("SELECT pg_advisory_xact_lock($1)", &[(&LOCK, Type::INT8)]).await?;
    for sql in [
        "DELETE FROM longhand.posting",
        "DELETE FROM longhand.term",
        "DELETE FROM longhand.slice",
        "INSERT INTO longhand.pending SELECT id FROM longhand.entry ON CONFLICT DO NOTHING",
    ] {
        db.execute_typed(sql, &[]).await?;
    }
    Ok(())
}

/// Whether the index has every entry once, and counts them right.
pub(super) async fn is_sound(db: &Client) -> Result<bool, Fault> {
    let sql = "SELECT (SELECT count(*) FROM longhand.entry) = (SELECT count(*) FROM longhand.pending) \
               + (SELECT coalesce(sum(entries), 0)::int8 FROM longhand.slice) \
               AND NOT EXISTS (SELECT 1 FROM longhand.pending p \
               WHERE NOT EXISTS (SELECT 1 FROM longhand.entry e WHERE e.id = p.entry)) \
               AND NOT EXISTS (SELECT 1 FROM (SELECT term, sum(entries) AS entries FROM longhand.posting \
               WHERE substr(term, 1, 1) > '\\x01' GROUP BY term) p \
               FULL JOIN longhand.term t ON t.term = p.term WHERE t.entries IS DISTINCT FROM p.entries)";
    Ok(db.query_typed_one(sql, &[]).await?.get(0))
}
