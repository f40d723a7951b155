//! The search index, which is derived from the entries and follows them.
//!
//! It is made of segments, each for a range of entries: postings of words with their places, of what entries belong to,
//! and of pairs of frequent words. New entries become segments of their own, a slice at a time, and segments are joined
//! in the background. Entries that are removed are taken out of the blocks that have them.

mod block;
mod check;
mod chunk;
mod cursor;
mod find;
mod forget;
mod join;
mod known;
mod segment;
mod slice;
#[cfg(test)]
mod tests;
mod vocabulary;
mod walk;

use std::time::Duration;

use longhand_core::Role;
use longhand_recall::term;
use rusqlite::{Connection, OptionalExtension as _};

use self::block::mark;
pub(super) use self::check::{entries_with, sum, sums};
use self::cursor::Cursor;
pub(super) use self::find::{Conditions, Finding};
pub(super) use self::forget::Forgetting;
pub(super) use self::join::{Joins, go_on, is_due, segments};
pub(super) use self::known::{known, totals_of};
use self::segment::State;
pub(super) use self::segment::{Blocks, Segment, live};
use self::slice::BuiltSlice;
pub(super) use self::slice::{IndexedEntry, SliceBuilder};
pub(super) use self::walk::{Walking, term_counts};
use super::body;
use super::fault::Fault;
use super::indexable::{self, IndexableEntry, Marks};
use super::seal::Seal;
use super::transaction::Transaction;
use crate::Owner;
use crate::role;

/// The version of what is in the index. An index of another version is made anew.
const VERSION: i64 = 2;

/// The tables. They are no part of the format: whoever does not find them makes them.
pub(super) const TABLES: &str = concat!(
    "CREATE TABLE IF NOT EXISTS index_state (id INTEGER PRIMARY KEY CHECK (id = 1), \
     version INTEGER NOT NULL) STRICT;",
    "CREATE TABLE IF NOT EXISTS index_segment (id INTEGER PRIMARY KEY AUTOINCREMENT, \
     state INTEGER NOT NULL, level INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, \
     is_cut INTEGER NOT NULL, entries INTEGER NOT NULL, words INTEGER NOT NULL, \
     oldest_ms INTEGER NOT NULL, newest_ms INTEGER NOT NULL, blocks INTEGER NOT NULL, \
     vocabulary INTEGER NOT NULL, joined BLOB) STRICT;",
    "CREATE TABLE IF NOT EXISTS index_block (id INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT;",
);

/// How long another process may write until the tables are made.
const READY_WAIT_MAX: Duration = Duration::from_secs(5);
/// How many entries are indexed at a time.
const SLICE_ENTRIES: i64 = 512;
/// How much text is indexed at a time.
const SLICE_BYTES: usize = 4 << 20;

/// Makes the tables if they are not there, and lets an index of another version be made anew.
pub(super) fn ready(db: &Connection) -> Result<(), Fault> {
    let version = || {
        let select = db.prepare("SELECT version FROM index_state");
        select.and_then(|mut select| select.query_row([], |row| row.get::<_, i64>(0)))
    };
    if version().is_ok_and(|version| version == VERSION) {
        return Ok(());
    }
    let transaction = Transaction::begin(db, READY_WAIT_MAX)?;
    db.execute_batch(TABLES)?;
    // What an earlier release made by the means of SQLite.
    db.execute_batch("DROP TABLE IF EXISTS word")?;
    db.execute("INSERT OR REPLACE INTO index_state VALUES (1, ?1)", [VERSION])?;
    reset(db)?;
    transaction.commit().map(drop)
}

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

fn set_indexed(db: &Connection, id: i64) -> Result<(), Fault> {
    db.prepare_cached("UPDATE state SET indexed = ?1")?.execute([id])?;
    Ok(())
}

/// Forgets that there were entries after one: their ids are used again.
pub(super) fn cut(db: &Connection, newest: i64) -> Result<(), Fault> {
    for segment in segment::all(db)?.iter().filter(|segment| segment.last > newest) {
        if segment.state == State::Growing || segment.first > newest {
            segment::set_state(db, segment.id, State::Dead)?;
        } else {
            db.prepare_cached("UPDATE index_segment SET last = ?2, is_cut = 1 WHERE id = ?1")?
                .execute((segment.id, newest))?;
        }
    }
    set_indexed(db, newest)
}

/// Some entries that are not in the index yet, with what it will have of them: worked out before the file is locked for
/// it.
#[derive(Debug)]
pub(super) struct Slice {
    after: i64,
    rows: Vec<SliceRow>,
    built: BuiltSlice,
}

#[derive(Debug)]
struct SliceRow {
    id: i64,
    /// Tells the entry from one that gets its id after it was removed.
    seal: Option<Seal>,
    /// The name of its body.
    hash: Option<Seal>,
    /// Whether its session is removed.
    is_removed: bool,
}

const SELECT_AFTER: &str = indexable::select!("entry.id > ?1 ORDER BY entry.id LIMIT ?2");

/// Reads the oldest entries that are not in the index yet.
pub(super) fn prepare(db: &Connection) -> Result<Slice, Fault> {
    let transaction = db.unchecked_transaction()?;
    let after = indexed(db)?;
    let mut select = db.prepare_cached(SELECT_AFTER)?;
    let mut found = select.query((after, SLICE_ENTRIES))?;
    let mut marks = Marks::new(db);
    let mut rows: Vec<SliceRow> = Vec::new();
    let mut builder = SliceBuilder::default();
    let mut bytes = 0;
    while bytes < SLICE_BYTES
        && let Some(row) = found.next()?
    {
        // A damaged entry has no words.
        let entry = IndexableEntry::read(row)?;
        let text = entry.text.as_deref().unwrap_or_default();
        bytes += text.len();
        let (id, said_ms) = (entry.id, entry.said_ms);
        let is_removed = marks.is_removed(&entry)?;
        if !is_removed {
            builder.add(&IndexedEntry { id, said_ms, marks: &marks.of(&entry)?, text });
        }
        rows.push(SliceRow { id, seal: entry.seal, hash: entry.hash, is_removed });
    }
    drop(found);
    drop(select);
    transaction.finish()?;
    let last = rows.last().map_or(after, |row| row.id);
    Ok(Slice { after, rows, built: builder.build(last) })
}

/// Adds a slice to the index, unless its entries have changed since it was read.
pub(super) fn extend(db: &Connection, slice: &Slice) -> Result<(), Fault> {
    let Some(last) = slice.rows.last() else { return Ok(()) };
    let mut select = db.prepare_cached(
        "SELECT entry.seal, EXISTS (SELECT 1 FROM session WHERE session.id = entry.session \
         AND session.key IS NULL) FROM entry WHERE entry.id = ?1",
    )?;
    let mut is_there = |row: &SliceRow| -> Result<bool, Fault> {
        let read = |found: &rusqlite::Row<'_>| Ok((found.get(0).ok(), found.get(1)?));
        let found = select.query_row([row.id], read).optional()?;
        Ok(found == Some((row.seal, row.is_removed)))
    };
    let mut is_current = indexed(db)? == slice.after;
    for row in &slice.rows {
        is_current = is_current && is_there(row)?;
    }
    if !is_current {
        return Ok(());
    }
    if !slice.built.is_empty() {
        segment::insert_slice(db, &slice.built)?;
    }
    let mut notes = body::Notes::new(db)?;
    for row in &slice.rows {
        if let Some(hash) = &row.hash {
            notes.add(hash, row.id)?;
        }
    }
    body::forget_recent(db, last.id)?;
    set_indexed(db, last.id)
}

/// Empties the index; [`extend`] fills it again. What it had is deleted in the background.
pub(super) fn reset(db: &Connection) -> Result<(), Fault> {
    db.execute("UPDATE index_segment SET state = 2", [])?;
    set_indexed(db, 0)
}

/// In how many entries of the segments each word is.
pub(super) fn counts(
    blocks: &mut Blocks<'_>,
    segments: &[Segment],
    words: &[&str],
) -> Result<Vec<u64>, Fault> {
    let mut counts = vec![0; words.len()];
    for segment in segments {
        for (count, word) in counts.iter_mut().zip(words) {
            let mut cursor = Cursor::new(term(word).as_bytes().to_vec());
            *count += cursor.count(blocks, segment)?;
        }
    }
    Ok(counts)
}

/// How many entries and words the segments have.
pub(super) fn totals(segments: &[Segment]) -> (u64, u64) {
    let sum = |of: fn(&Segment) -> i64| segments.iter().map(of).sum::<i64>().max(0).cast_unsigned();
    (sum(|segment| segment.entries), sum(|segment| segment.words))
}

/// The terms that all entries of a session, of an owner, of a role have.
pub(super) fn session_mark(session: i64) -> Vec<u8> {
    [&[mark::SESSION], session.to_string().as_bytes()].concat()
}

pub(super) fn owner_mark(owner: Owner) -> Vec<u8> {
    [&[mark::OWNER], owner.to_string().as_bytes()].concat()
}

pub(super) fn role_mark(role: Role) -> Vec<u8> {
    [&[mark::ROLE], role.as_str().as_bytes()].concat()
}

/// The marks of the roles that a message may have.
pub(super) fn role_marks(form: &str, raw: &str) -> impl Iterator<Item = Vec<u8>> {
    role::ROLES.into_iter().filter(move |role| role::may_have(form, raw, *role)).map(role_mark)
}
