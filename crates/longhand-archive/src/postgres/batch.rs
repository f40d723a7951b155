//! The log of batches as it is stored.

use longhand_core::Seq;
use longhand_core::session::BatchLine;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use super::fault::Fault;
use super::server::both;
use super::session::{StoredSession, number};
use crate::seal::{Seal, Sealer};
use crate::storage::FoldStates;
use crate::{BatchRecord, DamagedPart, SessionId, codec, pack};

fn right_seal(of: SessionId, number: u64, record: &BatchRecord, state_seal: Option<&[u8]>) -> Seal {
    Sealer::new("batch row")
        .bytes(&of.to_bytes())
        .number(number)
        .number(record.line.after)
        .optional(record.line.reach.map(|reach| reach.0))
        .time(record.at_ms)
        .bytes(record.receipt.as_bytes())
        .bytes(&codec::encode(&record.batch))
        .bytes(state_seal.unwrap_or_default())
        .seal()
}

/// The states are sealed apart, so that a batch can be checked without its own.
fn seal_of_state(state: &str) -> Seal {
    Sealer::new("state").bytes(state.as_bytes()).seal()
}

/// Writes a batch, with a reference for every handle in it.
pub(super) async fn insert(
    db: &Client,
    session: i64,
    of: SessionId,
    at: u64,
    record: &BatchRecord,
) -> Result<(), tokio_postgres::Error> {
    let state = &record.batch.state;
    let state_seal = (!state.is_empty()).then(|| seal_of_state(state));
    let state_seal = state_seal.as_ref().map(|seal| &seal[..]);
    let seal = right_seal(of, at, record, state_seal);
    let packed_state = state_seal.map(|_| pack::pack(state.as_bytes()));
    let handles: Vec<Vec<u8>> =
        codec::handles(&record.batch).map(|handle| codec::letters(handle).into_bytes()).collect();
    let sql = "WITH handles AS (INSERT INTO longhand.reference \
               SELECT DISTINCT handle, $1::int8, $2::int8 FROM unnest($11::bytea[]) handle ON CONFLICT DO NOTHING) \
               INSERT INTO longhand.batch (session, number, after, reach, at_ms, seal, state_seal, receipt, edits, \
               state) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
    db.execute_typed(
        sql,
        &[
            (&session, Type::INT8),
            (&number(at), Type::INT8),
            (&number(record.line.after), Type::INT8),
            (&record.line.reach.map(|reach| number(reach.0)), Type::INT8),
            (&record.at_ms, Type::INT8),
            (&&seal[..], Type::BYTEA),
            (&state_seal, Type::BYTEA),
            (&pack::pack(record.receipt.as_bytes()), Type::BYTEA),
            (&pack::pack(&codec::encode(&record.batch)), Type::BYTEA),
            (&packed_state, Type::BYTEA),
            (&handles, Type::BYTEA_ARRAY),
        ],
    )
    .await
    .map(drop)
}

/// A line of the log, with the number of its session and its own.
type NumberedLine = (i64, u64, BatchLine);

/// Reads the lines of all batches after a number: what is needed to tell which are live.
pub(super) async fn lines(
    db: &Client,
    id: SessionId,
    since: u64,
) -> Result<Vec<NumberedLine>, Fault> {
    let sql = "SELECT session, number, after, reach FROM longhand.batch \
               WHERE session = (SELECT number FROM longhand.session WHERE id = $1) \
               AND number > $2 ORDER BY number";
    let values: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
        [(&&id.to_bytes()[..], Type::BYTEA), (&number(since), Type::INT8)];
    let rows = db.query_typed(sql, &values).await?;
    let read = |row: &Row| {
        let reach = row.get::<_, Option<i64>>(3).map(|reach| Seq(reach.cast_unsigned()));
        let after = row.get::<_, i64>(2).cast_unsigned();
        (row.get(0), row.get::<_, i64>(1).cast_unsigned(), BatchLine { after, reach })
    };
    Ok(rows.iter().map(read).collect())
}

/// The lines of a session after a number; fails if one is missing or makes no sense.
pub(super) fn checked_lines(
    session: &StoredSession,
    since: u64,
    lines: Vec<NumberedLine>,
) -> Result<Vec<BatchLine>, Fault> {
    let wanted = since + 1..=session.info.batches;
    let mut lines = lines.into_iter().filter(|(of, ..)| *of == session.number);
    let mut checked = Vec::new();
    for at in wanted {
        match lines.next() {
            Some((_, found, line)) if found == at => {
                let is_beyond = line.reach.is_some_and(|reach| reach.0 >= session.info.entries);
                if line.after >= at || is_beyond {
                    return Err(damaged(session, at));
                }
                checked.push(line);
            }
            _ => return Err(session.damage(DamagedPart::Batch(at), "is missing")),
        }
    }
    Ok(checked)
}

fn damaged(session: &StoredSession, number: u64) -> Fault {
    session.damage(DamagedPart::Batch(number), "failed its checksum")
}

/// See [`crate::Storage::read_batches`].
pub(super) async fn batches(
    db: &Client,
    id: SessionId,
    numbers: &[u64],
    states: FoldStates,
) -> Result<Vec<BatchRecord>, Fault> {
    let wanted: Vec<i64> = numbers.iter().copied().map(number).collect();
    let sql = "SELECT b.number, b.after, b.reach, b.at_ms, b.seal, b.state_seal, b.receipt, b.edits, \
               CASE WHEN $3 = 2 OR ($3 = 1 AND w.place = (SELECT max(p.place) \
               FROM unnest($2::int8[]) WITH ORDINALITY p(number, place) JOIN longhand.batch s \
               ON s.session = b.session AND s.number = p.number AND s.state_seal IS NOT NULL)) THEN b.state END, b.session \
               FROM unnest($2::int8[]) WITH ORDINALITY w(number, place) \
               JOIN longhand.batch b ON b.session = (SELECT number FROM longhand.session WHERE id = $1) \
               AND b.number = w.number ORDER BY w.place";
    let mode: i32 = match states {
        FoldStates::None => 0,
        FoldStates::Last => 1,
        FoldStates::All => 2,
    };
    let reading = async {
        let id = &id.to_bytes()[..];
        let values: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
            [(&id, Type::BYTEA), (&wanted, Type::INT8_ARRAY), (&mode, Type::INT4)];
        db.query_typed(sql, &values).await
    };
    let (found, rows) = both(super::session::find(db, id), reading).await;
    let Some(session) = found? else { return Ok(Vec::new()) };
    let rows = rows?;
    if rows.first().is_some_and(|row| row.get::<_, i64>(9) != session.number) {
        // Another session had the id in between.
        return Box::pin(batches(db, id, numbers, states)).await;
    }
    let mut records: Vec<BatchRecord> = Vec::new();
    let mut rows = rows.iter();
    for at in numbers {
        let missing = || session.damage(DamagedPart::Batch(*at), "is missing");
        let row = rows.next().ok_or_else(missing)?;
        if row.get::<_, i64>(0).cast_unsigned() != *at {
            return Err(missing());
        }
        records.push(read(&session, *at, row)?);
    }
    Ok(records)
}

fn read(session: &StoredSession, at: u64, row: &Row) -> Result<BatchRecord, Fault> {
    let bad = || damaged(session, at);
    let state_seal: Option<&[u8]> = row.get(5);
    let reach = row.get::<_, Option<i64>>(2).map(|reach| Seq(reach.cast_unsigned()));
    let mut record = BatchRecord {
        line: BatchLine { after: row.get::<_, i64>(1).cast_unsigned(), reach },
        at_ms: row.get(3),
        batch: pack::unpack(row.get(7)).and_then(|edits| codec::decode(&edits)).ok_or_else(bad)?,
        receipt: pack::unpack_text(row.get(6)).ok_or_else(bad)?,
    };
    if right_seal(session.id(), at, &record, state_seal)[..] != *row.get::<_, &[u8]>(4) {
        return Err(bad());
    }
    if let (Some(seal), Some(state)) = (state_seal, row.get::<_, Option<&[u8]>>(8)) {
        let state = pack::unpack_text(state).ok_or_else(bad)?;
        if seal_of_state(&state)[..] != *seal {
            return Err(bad());
        }
        record.batch.state = state;
    }
    Ok(record)
}
