//! Whether the index says of every entry what its text says.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use rusqlite::Connection;

use super::damage;
use crate::sqlite::fault::Fault;
use crate::sqlite::index;
use crate::sqlite::indexable::{self, IndexableEntry, Marks};
use crate::{Damage, DamagedPart};

const SELECT_INDEXED: &str = indexable::select!("entry.id <= ?1");

/// Compares all words of all entries.
pub(super) fn check_all(db: &Connection) -> Result<Vec<Damage>, Fault> {
    let transaction = db.unchecked_transaction()?;
    let mut sums = sums_in_index(db)?;
    let (newest, indexed) = (index::newest(db)?, index::indexed(db)?);
    let mut select = db.prepare(SELECT_INDEXED)?;
    let mut rows = select.query([indexed])?;
    let mut marks = Marks::new(db);
    let mut wrong = u64::from(indexed > newest || indexed < 0);
    while let Some(row) = rows.next()? {
        let entry = IndexableEntry::read(row)?;
        let sum = sums.remove(&entry.id);
        // A damaged entry is named elsewhere, and no fault of the index.
        let Some(text) = entry.text else { continue };
        let terms = marks.terms(entry.session, &text)?;
        let right = terms.split(' ').map(hash).fold(0, u64::wrapping_add);
        wrong += u64::from(sum != Some(right));
    }
    drop(rows);
    drop(select);
    transaction.finish()?;
    Ok(report(wrong + sums.len() as u64))
}

/// Compares only which entries are in it.
pub(super) fn check_session(db: &Connection, session: i64) -> Result<Vec<Damage>, Fault> {
    let transaction = db.unchecked_transaction()?;
    let wrong: i64 = db.query_row(
        "SELECT count(*) FROM entry WHERE session = ?1 AND id <= ?2 AND id NOT IN \
         (SELECT rowid FROM word WHERE word MATCH ?3)",
        (session, index::indexed(db)?, format!("\"{}\"", index::session_mark(session))),
        |row| row.get(0),
    )?;
    transaction.finish()?;
    Ok(report(wrong.cast_unsigned()))
}

/// For every entry in the index, a sum over its words.
fn sums_in_index(db: &Connection) -> Result<HashMap<i64, u64>, Fault> {
    db.execute_batch(
        "CREATE VIRTUAL TABLE IF NOT EXISTS temp.term USING fts5vocab (main, word, instance)",
    )?;
    let mut select = db.prepare("SELECT doc, term FROM temp.term")?;
    let mut rows = select.query([])?;
    let mut sums = HashMap::new();
    while let Some(row) = rows.next()? {
        let sum: &mut u64 = sums.entry(row.get(0)?).or_default();
        *sum = sum.wrapping_add(hash(row.get_ref(1)?.as_str().unwrap_or_default()));
    }
    Ok(sums)
}

fn hash(term: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    term.hash(&mut hasher);
    hasher.finish()
}

fn report(wrong: u64) -> Vec<Damage> {
    let detail = format!("is wrong about {wrong} entries");
    Vec::from_iter((wrong > 0).then(|| damage(None, DamagedPart::Index, &detail)))
}
