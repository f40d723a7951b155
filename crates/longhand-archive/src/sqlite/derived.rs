//! Values kept with a session under keys, mostly derived from its entries.

use rusqlite::{Connection, OptionalExtension as _, Row};

use super::fault::{Fault, is_illegible};
use super::pack;
use super::seal::{Seal, Sealer};
use super::session::{self, StoredSession};
use crate::SessionId;

/// Keeps a value under a key, in the place of the one that is there.
pub(super) fn put(
    db: &Connection,
    session: &StoredSession,
    key: &str,
    value: &str,
) -> Result<(), Fault> {
    db.prepare_cached(
        "INSERT INTO derived (session, key, seal, value) VALUES (?1, ?2, ?3, ?4) \
         ON CONFLICT DO UPDATE SET seal = excluded.seal, value = excluded.value",
    )?
    .execute((
        session.row,
        key,
        right_seal(session.id, key, value),
        pack::pack(value.as_bytes()),
    ))?;
    Ok(())
}

/// Finds a value. What is damaged must be derived again.
pub(super) fn find(db: &Connection, id: SessionId, key: &str) -> Result<Option<String>, Fault> {
    let Some(session) = session::find(db, id)? else { return Ok(None) };
    let mut select =
        db.prepare_cached("SELECT seal, value FROM derived WHERE session = ?1 AND key = ?2")?;
    let found = select.query_row((session.row, key), |row| Ok((row.get(0)?, unpacked(row, 1)?)));
    match found.optional() {
        Ok(found) => Ok(found
            .and_then(|(seal, value): (Seal, Option<String>)| Some((seal, value?)))
            .filter(|(seal, value)| right_seal(id, key, value) == *seal)
            .map(|(_, value)| value)),
        Err(error) if is_illegible(&error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// See [`crate::Storage::keys`].
pub(super) fn keys(db: &Connection, id: SessionId, prefix: &str) -> Result<Vec<String>, Fault> {
    let Some(session) = session::find(db, id)? else { return Ok(Vec::new()) };
    let mut select = db.prepare_cached(
        "SELECT key FROM derived WHERE session = ?1 AND key >= ?2 \
         AND substr(key, 1, length(?2)) = ?2 ORDER BY key",
    )?;
    let keys = select.query_map((session.row, prefix), |row| row.get(0))?;
    Ok(keys.collect::<Result<_, rusqlite::Error>>()?)
}

/// Reads a value; `None` if it cannot be unpacked.
pub(super) fn unpacked(row: &Row<'_>, column: usize) -> Result<Option<String>, rusqlite::Error> {
    Ok(pack::unpack_text(row.get_ref(column)?.as_blob()?))
}

pub(super) fn right_seal(session: SessionId, key: &str, value: &str) -> Seal {
    Sealer::new("derived")
        .bytes(&session.to_bytes())
        .bytes(key.as_bytes())
        .bytes(value.as_bytes())
        .seal()
}
