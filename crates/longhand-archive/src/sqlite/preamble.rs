//! System prompts and tools, stored once for each owner.

use rusqlite::{Connection, OptionalExtension as _};

use super::derived::unpacked;
use super::fault::{Fault, illegible_as};
use super::pack;
use crate::{Damage, DamagedPart, Owner, PreambleId};

/// Stores a preamble unless it is there; a damaged one is overwritten.
pub(super) fn keep(db: &Connection, owner: Owner, content: &str) -> Result<PreambleId, Fault> {
    let id = PreambleId::of(content);
    db.prepare_cached(
        "INSERT INTO preamble (key, owner, content) VALUES (?1, ?2, ?3) \
         ON CONFLICT DO UPDATE SET content = excluded.content WHERE content <> excluded.content",
    )?
    .execute((id.to_bytes(), owner.to_bytes(), pack::pack(content.as_bytes())))?;
    Ok(id)
}

/// See [`crate::Storage::get`].
pub(super) fn find(db: &Connection, owner: Owner, id: PreambleId) -> Result<Option<String>, Fault> {
    let mut select =
        db.prepare_cached("SELECT content FROM preamble WHERE key = ?1 AND owner = ?2")?;
    let found = select.query_row((id.to_bytes(), owner.to_bytes()), |row| unpacked(row, 0));
    let damaged = || Fault::Damage(damage(id));
    match found.optional().map_err(illegible_as(damaged))? {
        None => Ok(None),
        Some(Some(content)) if PreambleId::of(&content) == id => Ok(Some(content)),
        Some(_) => Err(damaged()),
    }
}

pub(super) fn damage(id: PreambleId) -> Damage {
    let part = DamagedPart::Preamble(id.to_string());
    Damage { session: None, part, detail: "failed its checksum".to_owned() }
}

/// Removes the preambles that only requests of a removed session used.
pub(super) fn remove_unused(db: &Connection, session: i64, owner: [u8; 16]) -> Result<(), Fault> {
    db.prepare_cached(
        "DELETE FROM preamble WHERE owner = ?2 \
         AND key IN (SELECT preamble FROM request WHERE session = ?1) \
         AND NOT EXISTS (SELECT 1 FROM request JOIN session ON session.id = request.session \
         WHERE request.preamble = preamble.key AND session.owner = ?2 \
         AND session.key IS NOT NULL AND session.id <> ?1)",
    )?
    .execute((session, owner))?;
    Ok(())
}
