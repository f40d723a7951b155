//! Removing a session with all that belongs to it.

use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::fault::Fault;
use super::session::array;
use super::write::preamble_lock;
use super::{index, session};
use crate::{Owner, SessionId};

/// What a session has, in an order in which nothing is left without what it refers to.
const OF_SESSION: [&str; 9] = [
    "DELETE FROM longhand.pending WHERE entry IN (SELECT id FROM longhand.entry WHERE session = $1)",
    "DELETE FROM longhand.reference WHERE session = $1",
    "DELETE FROM longhand.batch WHERE session = $1",
    "DELETE FROM longhand.usage WHERE session = $1",
    "DELETE FROM longhand.note WHERE session = $1",
    "DELETE FROM longhand.derived WHERE session = $1",
    "DELETE FROM longhand.request WHERE session = $1",
    "DELETE FROM longhand.entry WHERE session = $1",
    "DELETE FROM longhand.session WHERE number = $1",
];

/// Preambles that only requests of this session name.
const PREAMBLES: &str = "\
    DELETE FROM longhand.preamble p WHERE p.owner = $2 \
    AND p.id IN (SELECT r.preamble FROM longhand.request r WHERE r.session = $1) \
    AND NOT EXISTS (SELECT 1 FROM longhand.request r JOIN longhand.session s ON s.number = r.session \
    WHERE r.preamble = p.id AND s.owner = $2 AND s.number <> $1)";

/// See [`crate::Storage::erase`]. Runs within a transaction.
pub(super) async fn erase(db: &Client, id: SessionId) -> Result<bool, Fault> {
    let sql = session::select!("WHERE id = $1 FOR UPDATE");
    let found = db.query_typed_opt(sql, &[(&&id.to_bytes()[..], Type::BYTEA)]).await?;
    let Some(row) = found else { return Ok(false) };
    let number: i64 = row.get(0);
    let owner = Owner::from_bytes(array(row.get(2)));
    index::forget(db, number).await?;
    let lock = preamble_lock(owner);
    db.execute_typed("SELECT pg_advisory_xact_lock($1)", &[(&lock, Type::INT8)]).await?;
    let owner = owner.to_bytes();
    db.execute_typed(PREAMBLES, &[(&number, Type::INT8), (&&owner[..], Type::BYTEA)]).await?;
    for sql in OF_SESSION {
        db.execute_typed(sql, &[(&number, Type::INT8)]).await?;
    }
    Ok(true)
}
