//! The search index, which is derived from the entries and follows them.

use memchr::memmem::Finder;
use rusqlite::{Connection, OptionalExtension as _};

use super::body;
use super::fault::Fault;
use super::indexable::{self, IndexableEntry, Marks};
use super::seal::Seal;
use crate::Owner;
use crate::terms::TERM_BYTES_MAX;

/// How many entries are indexed at a time.
const SLICE_ENTRIES: i64 = 256;
/// How much text is indexed at a time.
const SLICE_BYTES: usize = 4 << 20;
/// How many pages of the index are rewritten at a time.
const PURGE_PAGES: i64 = 64;
/// A word inside of more terms than these is looked for in the entries themselves.
const TERMS_AROUND_MAX: usize = 500;

/// How many of the newest entries are not in the index yet.
pub(super) fn lag(db: &Connection) -> Result<i64, Fault> {
    Ok(newest(db)?.saturating_sub(indexed(db)?))
}

/// The newest entry's id.
pub(super) fn newest(db: &Connection) -> Result<i64, Fault> {
    let mut select = db.prepare_cached("SELECT coalesce(max(id), 0) FROM entry")?;
    Ok(select.query_row([], |row| row.get(0))?)
}

/// The id of the newest entry that is in the index.
pub(super) fn indexed(db: &Connection) -> Result<i64, Fault> {
    let mut select = db.prepare_cached("SELECT indexed FROM state")?;
    Ok(select.query_row([], |row| row.get(0))?)
}

pub(super) fn set_indexed(db: &Connection, id: i64) -> Result<(), Fault> {
    db.prepare_cached("UPDATE state SET indexed = ?1")?.execute([id])?;
    Ok(())
}

/// Some entries that are not in the index yet, with their terms: worked out before the file is
/// locked for it.
#[derive(Debug)]
pub(super) struct Slice {
    after: i64,
    rows: Vec<SliceRow>,
}

#[derive(Debug)]
struct SliceRow {
    id: i64,
    /// Tells the entry from one that gets its id after it was removed.
    seal: Option<Seal>,
    terms: String,
    /// The name of its body.
    hash: Option<Seal>,
}

const SELECT_AFTER: &str = indexable::select!("entry.id > ?1 ORDER BY entry.id LIMIT ?2");

/// Reads the oldest entries that are not in the index yet.
pub(super) fn prepare(db: &Connection) -> Result<Slice, Fault> {
    let transaction = db.unchecked_transaction()?;
    let after = indexed(db)?;
    let mut select = db.prepare_cached(SELECT_AFTER)?;
    let mut found = select.query((after, SLICE_ENTRIES))?;
    let mut marks = Marks::new(db);
    let mut rows = Vec::new();
    let mut bytes = 0;
    while bytes < SLICE_BYTES
        && let Some(row) = found.next()?
    {
        // A damaged entry has no terms.
        let IndexableEntry { id, session, seal, hash, text } = IndexableEntry::read(row)?;
        let text = text.unwrap_or_default();
        bytes += text.len();
        let terms = marks.terms(session, &text)?;
        rows.push(SliceRow { id, seal, terms, hash });
    }
    drop(found);
    drop(select);
    transaction.finish()?;
    Ok(Slice { after, rows })
}

/// Adds a slice to the index, unless its entries have changed since it was read.
pub(super) fn extend(db: &Connection, slice: &Slice) -> Result<(), Fault> {
    let Some(last) = slice.rows.last() else { return Ok(()) };
    let mut select = db.prepare_cached("SELECT seal FROM entry WHERE id = ?1")?;
    let mut is_there = |row: &SliceRow| -> Result<bool, Fault> {
        let seal = select.query_row([row.id], |found| Ok(found.get(0).ok())).optional()?;
        Ok(seal == Some(row.seal))
    };
    let mut is_current = indexed(db)? == slice.after;
    for row in &slice.rows {
        is_current = is_current && is_there(row)?;
    }
    if !is_current {
        return Ok(());
    }
    let mut insert = db.prepare_cached("INSERT INTO word (rowid, words) VALUES (?1, ?2)")?;
    let mut notes = body::Notes::new(db)?;
    for row in &slice.rows {
        insert.execute((row.id, &row.terms))?;
        if let Some(hash) = &row.hash {
            notes.add(hash, row.id)?;
        }
    }
    body::forget_recent(db, last.id)?;
    set_indexed(db, last.id)
}

/// Marks what the index knows of an entry as deleted.
pub(super) fn forget(db: &Connection, id: i64, terms: &str) -> Result<(), Fault> {
    db.prepare_cached("INSERT INTO word (word, rowid, words) VALUES ('delete', ?1, ?2)")?
        .execute((id, terms))?;
    Ok(())
}

/// Rewrites a part of the index without what is marked as deleted; returns whether that was all.
pub(super) fn purge(db: &Connection, has_begun: bool) -> Result<bool, Fault> {
    let pages = if has_begun { PURGE_PAGES } else { -PURGE_PAGES };
    let changes = db.total_changes();
    db.prepare_cached("INSERT INTO word (word, rank) VALUES ('merge', ?1)")?.execute([pages])?;
    // FTS5 tells by the number of changes that there was nothing left to do.
    Ok(db.total_changes() - changes < 2)
}

/// Empties the index; [`extend`] fills it again.
pub(super) fn reset(db: &Connection) -> Result<(), Fault> {
    db.execute("INSERT INTO word (word) VALUES ('delete-all')", [])?;
    set_indexed(db, 0)
}

/// The words that mark the session and the owner of an entry.
pub(super) fn marks(session: i64, owner: Owner) -> String {
    format!("{} {}", session_mark(session), owner_mark(owner))
}

/// A word that all entries of a session have and that no text can have: in a text, its first letter would be a word
/// of its own.
pub(super) fn session_mark(session: i64) -> String {
    format!("\u{3400}{session}")
}

/// The same for all entries of an owner.
pub(super) fn owner_mark(owner: Owner) -> String {
    format!("\u{3401}{owner}")
}

/// Makes the list of all terms readable to a connection.
pub(super) fn prepare_vocabulary(db: &Connection) -> Result<(), Fault> {
    db.execute_batch("CREATE VIRTUAL TABLE temp.vocabulary USING fts5vocab (main, word, row)")?;
    Ok(())
}

/// For each of the words, the terms that may be longer words with it inside; `None` for a word
/// that is in too many.
pub(super) fn terms_around(
    db: &Connection,
    words: &[&str],
) -> Result<Vec<Option<Vec<String>>>, Fault> {
    let finders: Vec<Finder> = words.iter().map(|word| Finder::new(word.as_bytes())).collect();
    let mut around = vec![Some(Vec::new()); words.len()];
    let mut select = db.prepare_cached("SELECT term FROM temp.vocabulary")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let term = row.get_ref(0)?.as_str().unwrap_or_default();
        // The rest of a term that was cut off may contain anything.
        let is_cut = term.len() + 3 >= TERM_BYTES_MAX;
        for (finder, around) in finders.iter().zip(&mut around) {
            if let Some(terms) = around
                && (is_cut || finder.find(term.as_bytes()).is_some())
            {
                terms.push(term.to_owned());
                if terms.len() > TERMS_AROUND_MAX {
                    *around = None;
                }
            }
        }
    }
    Ok(around)
}
