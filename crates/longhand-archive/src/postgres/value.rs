//! Values under keys: preambles, what was derived from sessions, what all share.

use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};

use super::fault::Fault;
use super::session::{self, array, hash, text};
use crate::seal::{Seal, Sealer};
use crate::{ArchiveError, Damage, DamagedPart, Key, Owner, PreambleId, SessionId, pack};

type Value<'v> = (&'v (dyn ToSql + Sync), Type);

/// See [`crate::Storage::get`].
pub(super) async fn get(db: &Client, key: &Key) -> Result<Option<String>, Fault> {
    match key {
        Key::Preamble(owner, id) => preamble(db, *owner, *id).await,
        Key::Derived(id, key) => derived(db, *id, key).await,
        Key::Shared(name) => {
            let sql = "SELECT value FROM longhand.value WHERE name = $1";
            let found = db.query_typed_opt(sql, &[(&name.as_bytes(), Type::BYTEA)]).await?;
            Ok(found.map(|row| text(row.get(0))))
        }
    }
}

async fn preamble(db: &Client, owner: Owner, id: PreambleId) -> Result<Option<String>, Fault> {
    let sql = "SELECT content FROM longhand.preamble WHERE owner = $1 AND id = $2";
    let values: [Value<'_>; 2] =
        [(&&owner.to_bytes()[..], Type::BYTEA), (&&id.to_bytes()[..], Type::BYTEA)];
    let Some(row) = db.query_typed_opt(sql, &values).await? else { return Ok(None) };
    let content = pack::unpack_text(row.get(0)).filter(|content| PreambleId::of(content) == id);
    content.map(Some).ok_or_else(|| Fault::Damage(damaged_preamble(id)))
}

pub(super) fn damaged_preamble(id: PreambleId) -> Damage {
    let part = DamagedPart::Preamble(id.to_string());
    Damage { session: None, part, detail: "failed its checksum".to_owned() }
}

/// Keeps a preamble unless it is there; a damaged one is overwritten.
pub(super) async fn keep_preamble(
    db: &Client,
    owner: Owner,
    content: &str,
) -> Result<(), tokio_postgres::Error> {
    let sql = "INSERT INTO longhand.preamble (owner, id, content) VALUES ($1, $2, $3) \
               ON CONFLICT (owner, id) DO UPDATE SET content = excluded.content \
               WHERE preamble.content <> excluded.content";
    let values: [Value<'_>; 3] = [
        (&&owner.to_bytes()[..], Type::BYTEA),
        (&&PreambleId::of(content).to_bytes()[..], Type::BYTEA),
        (&pack::pack(content.as_bytes()), Type::BYTEA),
    ];
    db.execute_typed(sql, &values).await.map(drop)
}

/// What is damaged must be derived again.
async fn derived(db: &Client, id: SessionId, key: &str) -> Result<Option<String>, Fault> {
    let sql = "SELECT d.seal, d.value FROM longhand.derived d \
               JOIN longhand.session s ON s.number = d.session WHERE s.id = $1 AND d.hash = $2";
    let values: [Value<'_>; 2] =
        [(&&id.to_bytes()[..], Type::BYTEA), (&&hash(key)[..], Type::BYTEA)];
    let found = db.query_typed_opt(sql, &values).await?;
    Ok(found.and_then(|row| {
        let value = pack::unpack_text(row.get(1))?;
        (seal_of_derived(id, key, &value)[..] == *row.get::<_, &[u8]>(0)).then_some(value)
    }))
}

pub(super) fn seal_of_derived(of: SessionId, key: &str, value: &str) -> Seal {
    Sealer::new("derived row")
        .bytes(&of.to_bytes())
        .bytes(key.as_bytes())
        .bytes(value.as_bytes())
        .seal()
}

pub(super) async fn keep_derived(
    db: &Client,
    session: i64,
    of: SessionId,
    key: &str,
    value: &str,
) -> Result<(), tokio_postgres::Error> {
    let sql = "INSERT INTO longhand.derived (session, hash, key, seal, value) VALUES ($1, $2, $3, $4, $5) \
               ON CONFLICT (session, hash) DO UPDATE SET seal = excluded.seal, value = excluded.value";
    let values: [Value<'_>; 5] = [
        (&session, Type::INT8),
        (&&hash(key)[..], Type::BYTEA),
        (&key.as_bytes(), Type::BYTEA),
        (&&seal_of_derived(of, key, value)[..], Type::BYTEA),
        (&pack::pack(value.as_bytes()), Type::BYTEA),
    ];
    db.execute_typed(sql, &values).await.map(drop)
}

/// See [`crate::Storage::keys`].
pub(super) async fn keys(db: &Client, id: SessionId, prefix: &str) -> Result<Vec<String>, Fault> {
    let sql = "SELECT d.key FROM longhand.derived d JOIN longhand.session s ON s.number = d.session \
               WHERE s.id = $1 AND substr(d.key, 1, length($2)) = $2 ORDER BY d.key";
    let values: [Value<'_>; 2] =
        [(&&id.to_bytes()[..], Type::BYTEA), (&prefix.as_bytes(), Type::BYTEA)];
    let rows = db.query_typed(sql, &values).await?;
    Ok(rows.iter().map(|row| text(row.get(0))).collect())
}

/// See [`crate::Storage::put`]. Runs within a transaction, and can be done twice.
pub(super) async fn put(
    db: &Client,
    key: &Key,
    expected: Option<&str>,
    value: &str,
) -> Result<bool, Fault> {
    // Who else puts a value under this key waits, also if there is none yet.
    let name = match key {
        Key::Preamble(owner, id) => blake3::hash(&[owner.to_bytes(), id.to_bytes()].concat()),
        Key::Derived(id, key) => blake3::hash(&[&id.to_bytes()[..], key.as_bytes()].concat()),
        Key::Shared(name) => blake3::hash(name.as_bytes()),
    };
    let lock = i64::from_le_bytes(array(&name.as_bytes()[..8]));
    db.execute_typed("SELECT pg_advisory_xact_lock($1)", &[(&lock, Type::INT8)]).await?;
    let found = match get(db, key).await {
        // A damaged one is overwritten.
        Err(Fault::Damage(_)) => expected.map(str::to_owned),
        found => found?,
    };
    if found.as_deref() != expected {
        return Ok(false);
    }
    match key {
        Key::Preamble(owner, _) => keep_preamble(db, *owner, value).await?,
        Key::Derived(id, key) => {
            let sql = session::select!("WHERE id = $1 FOR KEY SHARE");
            let found = db.query_typed_opt(sql, &[(&&id.to_bytes()[..], Type::BYTEA)]).await?;
            let unknown = || ArchiveError::UnknownSession { session: *id };
            let number: i64 = found.ok_or_else(unknown)?.get(0);
            keep_derived(db, number, *id, key, value).await?;
        }
        Key::Shared(name) => {
            let sql = "INSERT INTO longhand.value (name, value) VALUES ($1, $2) \
                       ON CONFLICT (name) DO UPDATE SET value = excluded.value";
            let values: [Value<'_>; 2] =
                [(&name.as_bytes(), Type::BYTEA), (&value.as_bytes(), Type::BYTEA)];
            db.execute_typed(sql, &values).await?;
        }
    }
    Ok(true)
}
