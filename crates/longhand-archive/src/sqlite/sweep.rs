//! Wiping what removed sessions leave behind.

use rusqlite::{Connection, OptionalExtension as _};

use super::fault::Fault;
use super::indexable::{self, IndexableEntry, Marks};
use super::{body, index};

/// How many entries are wiped at a time.
const SLICE_ENTRIES: i64 = 256;

/// Returns whether anything is left of a removed session.
pub(super) fn is_due(db: &Connection) -> Result<bool, Fault> {
    Ok(removed(db)?.is_some())
}

fn removed(db: &Connection) -> Result<Option<i64>, Fault> {
    let mut select = db.prepare_cached("SELECT id FROM session WHERE key IS NULL LIMIT 1")?;
    Ok(select.query_row([], |row| row.get(0)).optional()?)
}

/// How far the wiping of a session is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// Entries are left, or nobody has looked yet.
    #[default]
    Entries,
    /// The index still has their words, under marks that say they are deleted.
    Words,
}

/// Wipes a part of a removed session; returns how far it is then.
pub(super) fn sweep(db: &Connection, stage: Stage) -> Result<Stage, Fault> {
    let Some(session) = removed(db)? else { return Ok(Stage::Entries) };
    if wipe_entries(db, session)? {
        return Ok(Stage::Entries);
    }
    for table in ["batch", "undo", "pins", "reference", "request", "derived", "head"] {
        db.execute(&format!("DELETE FROM {table} WHERE session = ?1"), [session])?;
    }
    if !index::purge(db, stage == Stage::Words)? {
        return Ok(Stage::Words);
    }
    db.execute("DELETE FROM session WHERE id = ?1", [session])?;
    // Ids are used again from the newest entry on.
    index::set_indexed(db, index::indexed(db)?.min(index::newest(db)?))?;
    Ok(Stage::Entries)
}

const SELECT_SOME: &str = indexable::select!("entry.session = ?1 LIMIT ?2");

/// Wipes some entries, and the bytes that no other entry refers to; `false` if there were none left.
fn wipe_entries(db: &Connection, session: i64) -> Result<bool, Fault> {
    let mut select = db.prepare_cached(SELECT_SOME)?;
    let mut rows = select.query((session, SLICE_ENTRIES))?;
    let mut ids: Vec<i64> = Vec::new();
    let mut marks = Marks::new(db);
    let indexed = index::indexed(db)?;
    while let Some(row) = rows.next()? {
        let IndexableEntry { id, text, .. } = IndexableEntry::read(row)?;
        if id <= indexed {
            let terms = marks.terms(session, &text.unwrap_or_default())?;
            index::forget(db, id, &terms)?;
        }
        ids.push(id);
    }
    drop(rows);
    for id in &ids {
        body::hand_over(db, *id)?;
        db.prepare_cached("DELETE FROM entry WHERE id = ?1")?.execute([id])?;
    }
    Ok(!ids.is_empty())
}
