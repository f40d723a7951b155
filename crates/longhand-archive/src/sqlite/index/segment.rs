//! Segments: each is the index of a range of entries, in blocks.
//!
//! Segments of entries side by side are joined, so that there are never many; see [`super::join`].

use std::cmp::Ordering;
use std::ops::Range;
use std::rc::Rc;

use rusqlite::{Connection, OptionalExtension as _, Row};
use rustc_hash::FxHashMap;

use super::block::{BlockReader, compare};
use super::slice::BuiltSlice;
use crate::sqlite::fault::Fault;

/// Blocks of a segment are numbered from its id times this.
const BLOCKS_MAX: i64 = 1 << 24;
/// From this number on, the blocks of a segment hold its words.
const VOCABULARY_FIRST: i64 = 1 << 23;
/// How many blocks are kept in memory during a search.
const CACHE_BLOCKS_MAX: usize = 2_048;

/// What a segment is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Searches use it.
    Live,
    /// It is made from others, and not complete.
    Growing,
    /// Another one has taken its place.
    Dead,
}

/// A row of the table `index_segment`.
#[derive(Clone, Debug)]
pub(in crate::sqlite) struct Segment {
    pub(super) id: i64,
    pub(super) state: State,
    /// How often its entries were joined with others.
    pub(super) level: i64,
    /// The ids of its first and last entry.
    pub(super) first: i64,
    pub(super) last: i64,
    /// Whether it has entries after the last, which do not count any more.
    pub(super) is_cut: bool,
    pub(super) entries: i64,
    pub(super) words: i64,
    pub(super) oldest_ms: i64,
    pub(super) newest_ms: i64,
    /// How many blocks it has got.
    pub(super) blocks: i64,
    /// How many of them hold its words.
    pub(super) vocabulary: i64,
    /// The last term that is in a growing one.
    pub(super) joined: Option<Vec<u8>>,
}

const COLUMNS: &str = "id, state, level, first, last, is_cut, entries, words, oldest_ms, \
                       newest_ms, blocks, vocabulary, joined";

impl Segment {
    fn read(row: &Row<'_>) -> Result<Self, rusqlite::Error> {
        let state = match row.get(1)? {
            0 => State::Live,
            1 => State::Growing,
            _ => State::Dead,
        };
        Ok(Self {
            id: row.get(0)?,
            state,
            level: row.get(2)?,
            first: row.get(3)?,
            last: row.get(4)?,
            is_cut: row.get(5)?,
            entries: row.get(6)?,
            words: row.get(7)?,
            oldest_ms: row.get(8)?,
            newest_ms: row.get(9)?,
            blocks: row.get(10)?,
            vocabulary: row.get(11)?,
            joined: row.get(12)?,
        })
    }

    /// The number of an entry in the segment; `None` if it is of another one.
    pub(super) fn number(&self, id: i64) -> Option<u32> {
        (self.first..=self.last).contains(&id).then(|| (id - self.first) as u32)
    }

    /// The number of its last entry.
    pub(super) fn end(&self) -> u32 {
        (self.last - self.first).max(0) as u32
    }

    /// The ids that its blocks may have.
    pub(super) fn block_ids(&self) -> std::ops::Range<i64> {
        self.id * BLOCKS_MAX..(self.id + 1) * BLOCKS_MAX
    }

    pub(super) fn vocabulary_id(&self, number: i64) -> i64 {
        self.id * BLOCKS_MAX + VOCABULARY_FIRST + number
    }
}

/// All segments, the newest first.
pub(super) fn all(db: &Connection) -> Result<Vec<Segment>, Fault> {
    let select = format!("SELECT {COLUMNS} FROM index_segment ORDER BY first DESC, id DESC");
    let mut select = db.prepare_cached(&select)?;
    let rows = select.query_map([], Segment::read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The segments that searches use, the newest first.
pub(in crate::sqlite) fn live(db: &Connection) -> Result<Vec<Segment>, Fault> {
    let mut segments = all(db)?;
    segments.retain(|segment| segment.state == State::Live);
    Ok(segments)
}

/// Adds a segment; returns its id.
pub(super) fn insert(db: &Connection, segment: &Segment) -> Result<i64, Fault> {
    let state = state_number(segment.state);
    db.prepare_cached(
        "INSERT INTO index_segment (state, level, first, last, is_cut, entries, words, oldest_ms, \
         newest_ms, blocks, vocabulary) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 0, 0)",
    )?
    .execute((
        state,
        segment.level,
        segment.first,
        segment.last,
        segment.is_cut,
        segment.entries,
        segment.words,
        segment.oldest_ms,
        segment.newest_ms,
    ))?;
    Ok(db.last_insert_rowid())
}

pub(super) fn set_state(db: &Connection, id: i64, state: State) -> Result<(), Fault> {
    db.prepare_cached("UPDATE index_segment SET state = ?2 WHERE id = ?1")?
        .execute((id, state_number(state)))?;
    Ok(())
}

fn state_number(state: State) -> i64 {
    match state {
        State::Live => 0,
        State::Growing => 1,
        State::Dead => 2,
    }
}

/// Adds a slice as a segment of its own.
pub(super) fn insert_slice(db: &Connection, slice: &BuiltSlice) -> Result<(), Fault> {
    let segment = Segment {
        id: 0,
        state: State::Live,
        level: 0,
        first: slice.first,
        last: slice.last,
        is_cut: false,
        entries: slice.entries,
        words: slice.words,
        oldest_ms: slice.oldest_ms,
        newest_ms: slice.newest_ms,
        blocks: 0,
        vocabulary: 0,
        joined: None,
    };
    let id = insert(db, &segment)?;
    append(db, &Segment { id, ..segment }, &slice.blocks, &[])
}

/// Adds blocks at the end of a segment.
pub(super) fn append(
    db: &Connection,
    segment: &Segment,
    blocks: &[Vec<u8>],
    vocabulary: &[Vec<u8>],
) -> Result<(), Fault> {
    let mut insert = db.prepare_cached("INSERT INTO index_block (id, data) VALUES (?1, ?2)")?;
    for (id, block) in (segment.block_ids().start + segment.blocks..).zip(blocks) {
        insert.execute((id, block))?;
    }
    for (id, words) in (segment.vocabulary_id(segment.vocabulary)..).zip(vocabulary) {
        insert.execute((id, words))?;
    }
    db.prepare_cached(
        "UPDATE index_segment SET blocks = blocks + ?2, vocabulary = vocabulary + ?3 WHERE id = ?1",
    )?
    .execute((segment.id, blocks.len() as u32, vocabulary.len() as u32))?;
    Ok(())
}

/// A block and its id.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) id: i64,
    pub(super) data: Rc<Vec<u8>>,
}

/// Reads blocks.
pub(in crate::sqlite) struct Blocks<'d> {
    pub(super) db: &'d Connection,
    known: FxHashMap<i64, Block>,
}

impl<'d> Blocks<'d> {
    pub(in crate::sqlite) fn new(db: &'d Connection) -> Self {
        Self { db, known: FxHashMap::default() }
    }

    /// Forgets what was read: some of it was changed.
    pub(super) fn clear(&mut self) {
        self.known.clear();
    }

    /// The block with an id, or the one before it if that is gone; `None` if none is left in the range.
    fn at_or_before(&mut self, id: i64, first: i64) -> Result<Option<Block>, Fault> {
        if let Some(block) = self.known.get(&id) {
            return Ok(Some(block.clone()));
        }
        let mut select = self.db.prepare_cached(
            "SELECT id, data FROM index_block WHERE id <= ?1 AND id >= ?2 ORDER BY id DESC LIMIT 1",
        )?;
        let found: Option<(i64, Vec<u8>)> =
            select.query_row((id, first), |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        let Some((found, data)) = found else { return Ok(None) };
        if BlockReader::checked(&data).is_none() {
            return Err(damaged());
        }
        let block = Block { id: found, data: Rc::new(data) };
        if self.known.len() >= CACHE_BLOCKS_MAX {
            self.known.clear();
        }
        self.known.insert(id, block.clone());
        Ok(Some(block))
    }

    /// The block that has a key, or would have it; `None` if the segment has only greater keys.
    pub(super) fn find(
        &mut self,
        segment: &Segment,
        term: &[u8],
        doc: u32,
    ) -> Result<Option<Block>, Fault> {
        let first = segment.block_ids().start;
        let (mut low, mut high) = (first, first + segment.blocks - 1);
        let mut found = None;
        while low <= high {
            let middle = low + (high - low) / 2;
            let Some(block) = self.at_or_before(middle, first)? else {
                low = middle + 1;
                continue;
            };
            let key = BlockReader::first_key(&block.data).ok_or_else(damaged)?;
            if compare(key, (term, doc)) == Ordering::Greater {
                high = block.id - 1;
            } else {
                low = middle + 1;
                found = Some(block);
            }
        }
        Ok(found)
    }

    /// The first block of a segment after one with an id.
    pub(super) fn after(&mut self, segment: &Segment, id: i64) -> Result<Option<Block>, Fault> {
        let end = segment.block_ids().start + segment.blocks;
        let mut select = self.db.prepare_cached(
            "SELECT id, data FROM index_block WHERE id > ?1 AND id < ?2 ORDER BY id LIMIT 1",
        )?;
        let found: Option<(i64, Vec<u8>)> =
            select.query_row((id, end), |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        let Some((id, data)) = found else { return Ok(None) };
        if BlockReader::checked(&data).is_none() {
            return Err(damaged());
        }
        Ok(Some(Block { id, data: Rc::new(data) }))
    }
}

/// The chunks of a segment from a key on, in order.
pub(super) struct Stream {
    segment: Segment,
    block: Option<Block>,
    /// The terms of the block, one after the other.
    terms: Vec<u8>,
    items: Vec<StreamPlace>,
    /// The chunk that comes next.
    at: usize,
}

/// Where a chunk of the block is, and its term among the terms.
struct StreamPlace {
    term: Range<usize>,
    first: u32,
    bytes: Range<usize>,
}

/// A chunk with its key.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamItem<'s> {
    pub(super) term: &'s [u8],
    pub(super) first: u32,
    pub(super) bytes: &'s [u8],
}

impl Stream {
    /// The chunks of terms that are greater than one; with `is_from`, also those of the term.
    pub(super) fn new(
        blocks: &mut Blocks<'_>,
        segment: Segment,
        term: &[u8],
        is_from: bool,
    ) -> Result<Self, Fault> {
        let block = match blocks.find(&segment, term, 0)? {
            Some(block) => Some(block),
            None => blocks.after(&segment, segment.block_ids().start - 1)?,
        };
        let mut stream = Self { segment, block, terms: Vec::new(), items: Vec::new(), at: 0 };
        stream.load()?;
        while let Some(item) = stream.peek(blocks)? {
            if item.term > term || (is_from && item.term == term) {
                break;
            }
            stream.advance();
        }
        Ok(stream)
    }

    fn load(&mut self) -> Result<(), Fault> {
        self.terms.clear();
        self.items.clear();
        self.at = 0;
        let Some(block) = &self.block else { return Ok(()) };
        let start = block.data.as_ptr() as usize;
        let mut reader = BlockReader::new(&block.data);
        let mut term = 0..0;
        while let Some(item) = reader.next() {
            if self.items.is_empty() || self.terms[term.clone()] != reader.term {
                term = self.terms.len()..self.terms.len() + reader.term.len();
                self.terms.extend_from_slice(&reader.term);
            }
            let from = item.bytes.as_ptr() as usize - start;
            let bytes = from..from + item.bytes.len();
            self.items.push(StreamPlace { term: term.clone(), first: item.first, bytes });
        }
        if self.items.is_empty() { Err(damaged()) } else { Ok(()) }
    }

    /// The next chunk, which stays the next until [`Stream::advance`].
    pub(super) fn peek(
        &mut self,
        blocks: &mut Blocks<'_>,
    ) -> Result<Option<StreamItem<'_>>, Fault> {
        if self.at >= self.items.len()
            && let Some(block) = self.block.take()
        {
            self.block = blocks.after(&self.segment, block.id)?;
            self.load()?;
        }
        let Some((block, place)) = self.block.as_ref().zip(self.items.get(self.at)) else {
            return Ok(None);
        };
        Ok(Some(StreamItem {
            term: &self.terms[place.term.clone()],
            first: place.first,
            bytes: &block.data[place.bytes.clone()],
        }))
    }

    pub(super) fn advance(&mut self) {
        self.at += 1;
    }
}

/// What is there is no index.
pub(super) fn damaged() -> Fault {
    Fault::Sqlite(rusqlite::Error::SqliteFailure(
        rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT),
        Some("a block of the search index is damaged".to_owned()),
    ))
}
