//! Whether the index says of every entry what its text says.

use std::collections::BTreeSet;

use rusqlite::Connection;

use super::damage;
use crate::sqlite::fault::Fault;
use crate::sqlite::index::{self, IndexedEntry};
use crate::sqlite::indexable::{self, IndexableEntry, Marks};
use crate::{Damage, DamagedPart};

const SELECT_INDEXED: &str = indexable::select!("entry.id <= ?1");

/// Compares all words of all entries.
pub(super) fn check_all(db: &Connection) -> Result<Vec<Damage>, Fault> {
    let transaction = db.unchecked_transaction()?;
    let mut sums = index::sums(db)?;
    let (newest, indexed) = (index::newest(db)?, index::indexed(db)?);
    let mut select = db.prepare(SELECT_INDEXED)?;
    let mut rows = select.query([indexed])?;
    let mut marks = Marks::new(db);
    let removed = removed_sessions(db)?;
    let mut wrong = u64::from(indexed > newest || indexed < 0);
    while let Some(row) = rows.next()? {
        let entry = IndexableEntry::read(row)?;
        let sum = sums.remove(&entry.id);
        // What is about to be wiped is in the index or not.
        if removed.contains(&entry.session) {
            continue;
        }
        let marks = marks.of(&entry)?;
        // A damaged entry is named elsewhere, and no fault of the index.
        let Some(text) = entry.text else { continue };
        let (id, said_ms) = (entry.id, entry.said_ms);
        let right = index::sum(&IndexedEntry { id, said_ms, marks: &marks, text: &text });
        wrong += u64::from(sum != Some(right));
    }
    drop(rows);
    drop(select);
    transaction.finish()?;
    Ok(report(wrong + sums.len() as u64))
}

fn removed_sessions(db: &Connection) -> Result<BTreeSet<i64>, Fault> {
    let mut select = db.prepare("SELECT id FROM session WHERE key IS NULL")?;
    let rows = select.query_map([], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Compares only which entries are in it.
pub(super) fn check_session(db: &Connection, session: i64) -> Result<Vec<Damage>, Fault> {
    let transaction = db.unchecked_transaction()?;
    let found = index::entries_with(db, &index::session_mark(session))?;
    let mut select = db.prepare("SELECT id FROM entry WHERE session = ?1 AND id <= ?2")?;
    let ids = select.query_map((session, index::indexed(db)?), |row| row.get::<_, i64>(0))?;
    let mut wrong = 0;
    for id in ids {
        wrong += u64::from(!found.contains(&id?));
    }
    drop(select);
    transaction.finish()?;
    Ok(report(wrong))
}

fn report(wrong: u64) -> Vec<Damage> {
    let detail = format!("is wrong about {wrong} entries");
    Vec::from_iter((wrong > 0).then(|| damage(None, DamagedPart::Index, &detail)))
}
