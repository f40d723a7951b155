//! What handles stand for: parts and folds that batches name.

use longhand_core::Handle;
use rusqlite::Connection;

use super::fault::Fault;
use super::session::{self, StoredSession, signed, unsigned};
use crate::Referenced;
use crate::codec::letters;

/// Notes that a batch has a handle, unless an earlier one of the session has it.
pub(super) fn add(
    db: &Connection,
    session: &StoredSession,
    handle: Handle,
    batch: u64,
) -> Result<(), Fault> {
    db.prepare_cached("INSERT OR IGNORE INTO reference VALUES (?1, ?2, ?3)")?.execute((
        letters(handle),
        session.row,
        signed(batch),
    ))?;
    Ok(())
}

/// See [`crate::Storage::references`].
///
/// Damaged sessions are skipped, since their owner is uncertain.
pub(super) fn find(db: &Connection, handle: Handle) -> Result<Vec<Referenced>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT session, batch FROM reference WHERE handle = ?1 ORDER BY session",
    )?;
    let mut rows = select.query([letters(handle)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        match session::by_row(db, row.get(0)?) {
            Ok(Some(session)) => {
                let batch = unsigned(row, 1)?;
                found.push(Referenced { session: session.id, owner: session.owner, batch });
            }
            Ok(None) | Err(Fault::Damage(_)) => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(found)
}
