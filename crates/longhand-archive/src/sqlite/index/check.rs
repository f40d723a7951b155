//! What the index says of each entry, in one number.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use rusqlite::Connection;

use super::block::{BlockReader, TOTAL, kind, mark};
use super::chunk::Chunk;
use super::cursor::Cursor;
use super::segment::{self, Blocks, Stream, damaged};
use super::slice::{IndexedEntry, SliceBuilder};
use crate::sqlite::fault::Fault;

/// For every entry in the index, a sum over its words and over where it belongs. Its time and its role do not count: if
/// they are wrong, the entry is. Nor do pairs: which there are depends on the other entries.
pub(in crate::sqlite) fn sums(db: &Connection) -> Result<HashMap<i64, u64>, Fault> {
    let mut sums = HashMap::new();
    let mut blocks = Blocks::new(db);
    for segment in segment::live(db)? {
        let mut stream = Stream::new(&mut blocks, segment.clone(), &[], true)?;
        while let Some(item) = stream.peek(&mut blocks)? {
            if item.first != TOTAL {
                let chunk = Chunk::decode(kind(item.term), item.first, item.bytes);
                let newest = segment.end();
                add(item.term, &chunk.ok_or_else(damaged)?, |doc, part| {
                    if doc <= newest {
                        let sum: &mut u64 = sums.entry(segment.first + i64::from(doc)).or_default();
                        *sum = sum.wrapping_add(part);
                    }
                });
            }
            stream.advance();
        }
    }
    Ok(sums)
}

/// The sum that an entry should have.
pub(in crate::sqlite) fn sum(entry: &IndexedEntry<'_>) -> u64 {
    let mut builder = SliceBuilder::default();
    builder.add(entry);
    let mut sum: u64 = 0;
    for block in builder.build(entry.id).blocks {
        let mut reader = BlockReader::new(&block);
        while let Some(item) = reader.next() {
            if item.first != TOTAL
                && let Some(chunk) = Chunk::decode(kind(&reader.term), item.first, item.bytes)
            {
                add(&reader.term, &chunk, |_, part| sum = sum.wrapping_add(part));
            }
        }
    }
    sum
}

/// Hands in what a chunk adds to the sums of its entries.
fn add(term: &[u8], chunk: &Chunk, mut take: impl FnMut(u32, u64)) {
    if matches!(term.first(), Some(&(mark::TIME | mark::ROLE | mark::FREQUENT | mark::PAIR))) {
        return;
    }
    for (at, doc) in chunk.docs.iter().enumerate() {
        let mut hasher = DefaultHasher::new();
        (term, chunk.values[at], chunk.places(at)).hash(&mut hasher);
        take(*doc, hasher.finish());
    }
}

/// The ids of all entries that have a term.
pub(in crate::sqlite) fn entries_with(
    db: &Connection,
    term: &[u8],
) -> Result<BTreeSet<i64>, Fault> {
    let mut blocks = Blocks::new(db);
    let mut ids = BTreeSet::new();
    for segment in segment::live(db)? {
        let mut cursor = Cursor::new(term.to_vec());
        let mut next = Some(segment.end());
        while let Some(doc) = next
            && let Some(found) = cursor.seek(&mut blocks, &segment, doc)?
        {
            ids.insert(segment.first + i64::from(found));
            next = found.checked_sub(1);
        }
    }
    Ok(ids)
}
