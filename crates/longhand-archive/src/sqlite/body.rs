//! The bytes of messages, stored once for each owner.

use rusqlite::{Connection, OptionalExtension as _};

use super::fault::Fault;
use super::seal::{Seal, Sealer};
use crate::Owner;

/// The hash of a message's bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawHash([u8; 32]);

impl RawHash {
    pub(super) fn of(raw: &str) -> Self {
        Self(*blake3::hash(raw.as_bytes()).as_bytes())
    }

    /// The name of the body: equal bytes of two owners are two bodies.
    pub(super) fn for_owner(self, owner: Owner) -> Seal {
        Sealer::new("body").bytes(&owner.to_bytes()).bytes(&self.0).seal()
    }
}

/// Stores a body under the id of its entry; returns the id of the body if it is there already.
///
/// A body that is there but damaged is written anew: an entry that is about to be acknowledged must not
/// refer to it.
pub(super) fn put(
    db: &Connection,
    entry: i64,
    hash: &Seal,
    raw: &str,
) -> Result<Option<i64>, Fault> {
    let mut select = db.prepare_cached("SELECT id, raw = ?2 FROM body WHERE hash = ?1 LIMIT 1")?;
    let found = select.query_row((hash, raw), |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    match found {
        Some((_, true)) => {}
        Some((row, false)) => {
            db.prepare_cached("UPDATE body SET raw = ?2 WHERE id = ?1")?.execute((row, raw))?;
        }
        None => {
            db.prepare_cached("INSERT INTO body (id, hash, raw) VALUES (?1, ?2, ?3)")?
                .execute((entry, hash, raw))?;
        }
    }
    Ok(found.map(|(row, _)| row))
}

/// The id that the next entry gets: one that no entry and no body has or had after it.
pub(super) fn next_id(db: &Connection) -> Result<i64, Fault> {
    let mut select = db.prepare_cached(
        "SELECT max((SELECT coalesce(max(id), 0) FROM entry), \
         (SELECT coalesce(max(id), 0) FROM body)) + 1",
    )?;
    Ok(select.query_row([], |row| row.get(0))?)
}

/// Removes a body that no entry uses: neither the one that had it first, nor a later one.
pub(super) fn remove_unused(db: &Connection, row: i64) -> Result<(), Fault> {
    db.prepare_cached(
        "DELETE FROM body WHERE id = ?1 \
         AND NOT EXISTS (SELECT 1 FROM entry WHERE id = ?1 AND body IS NULL) \
         AND NOT EXISTS (SELECT 1 FROM entry WHERE body = ?1)",
    )?
    .execute([row])?;
    Ok(())
}
