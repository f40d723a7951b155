//! The entries of one term in one segment, the newest first.

use std::ops::Range;
use std::rc::Rc;

use super::block::{BlockReader, TOTAL, kind};
use super::chunk::{self, Chunk};
use super::segment::{Blocks, Segment, damaged};
use crate::number::take_number;
use crate::sqlite::fault::Fault;

/// Goes through the entries of a term, from the newest to the oldest.
pub(super) struct Cursor {
    term: Vec<u8>,
    /// The chunks of the term in the block that was read last, the oldest first.
    items: Vec<(u32, Range<usize>)>,
    block: Option<Rc<Vec<u8>>>,
    /// Whether the block before this one may have chunks of the term.
    has_before: bool,
    /// Which of the chunks was read.
    chunk: Option<Box<ReadChunk>>,
}

struct ReadChunk {
    at: usize,
    chunk: Chunk,
    /// Where its places are in the block, as long as they were not read.
    places: Range<usize>,
}

impl Cursor {
    pub(super) fn new(term: Vec<u8>) -> Self {
        Self { term, items: Vec::new(), block: None, has_before: true, chunk: None }
    }

    pub(super) fn term(&self) -> &[u8] {
        &self.term
    }

    /// How many entries have the term.
    pub(super) fn count(
        &mut self,
        blocks: &mut Blocks<'_>,
        segment: &Segment,
    ) -> Result<u64, Fault> {
        let Some(block) = blocks.find(segment, &self.term, TOTAL)? else { return Ok(0) };
        let mut reader = BlockReader::new(&block.data);
        let mut count = 0;
        while let Some(item) = reader.next() {
            if reader.term == self.term {
                let mut bytes = item.bytes;
                match item.first {
                    TOTAL => return take_number(&mut bytes).ok_or_else(damaged),
                    _ => count += chunk::count(kind(&self.term), bytes),
                }
            } else if reader.term > self.term {
                break;
            }
        }
        Ok(count)
    }

    /// The newest entry up to one. Each call asks for an entry that is not newer than the one before.
    pub(super) fn seek(
        &mut self,
        blocks: &mut Blocks<'_>,
        segment: &Segment,
        doc: u32,
    ) -> Result<Option<u32>, Fault> {
        loop {
            if let Some(ReadChunk { chunk, .. }) = self.chunk.as_deref() {
                let after = chunk.docs.partition_point(|known| *known <= doc);
                if after > 0 {
                    return Ok(Some(chunk.docs[after - 1]));
                }
            }
            if !self.load(blocks, segment, doc)? {
                return Ok(None);
            }
        }
    }

    /// Reads the chunk that may have an entry; `false` if all entries are newer.
    fn load(
        &mut self,
        blocks: &mut Blocks<'_>,
        segment: &Segment,
        doc: u32,
    ) -> Result<bool, Fault> {
        let mut after = self.items.partition_point(|(first, _)| *first <= doc);
        if after == 0 {
            if !self.has_before {
                return Ok(false);
            }
            self.read_block(blocks, segment, doc)?;
            after = self.items.partition_point(|(first, _)| *first <= doc);
            if after == 0 {
                self.has_before = false;
                self.chunk = None;
                return Ok(false);
            }
        }
        let at = after - 1;
        let Some(block) = &self.block else { return Ok(false) };
        let (first, range) = self.items[at].clone();
        let end = range.end;
        let mut chunk = self.chunk.take().map_or_else(Chunk::default, |read| read.chunk);
        let rest = chunk.decode_docs_into(kind(&self.term), first, &block[range]);
        let places = end - rest.ok_or_else(damaged)?.len()..end;
        self.chunk = Some(Box::new(ReadChunk { at, chunk, places }));
        Ok(true)
    }

    fn read_block(
        &mut self,
        blocks: &mut Blocks<'_>,
        segment: &Segment,
        doc: u32,
    ) -> Result<(), Fault> {
        self.items.clear();
        self.chunk = None;
        let Some(block) = blocks.find(segment, &self.term, doc)? else { return Ok(()) };
        let start = block.data.as_ptr() as usize;
        let mut reader = BlockReader::new(&block.data);
        let mut is_first = true;
        self.has_before = false;
        while let Some(item) = reader.next() {
            if reader.term == self.term {
                self.has_before |= is_first;
                let from = item.bytes.as_ptr() as usize - start;
                if item.first != TOTAL {
                    self.items.push((item.first, from..from + item.bytes.len()));
                }
            } else if reader.term > self.term {
                break;
            }
            is_first = false;
        }
        self.block = Some(block.data);
        Ok(())
    }

    /// What is known of an entry that [`Cursor::seek`] has just found.
    pub(super) fn posting(&mut self, doc: u32) -> Result<Option<(i64, &[u32])>, Fault> {
        let Some((read, block)) = self.chunk.as_deref_mut().zip(self.block.as_ref()) else {
            return Ok(None);
        };
        let ReadChunk { chunk, places, .. } = read;
        let Ok(at) = chunk.docs.binary_search(&doc) else { return Ok(None) };
        chunk.decode_places(&block[places.clone()]).ok_or_else(damaged)?;
        places.start = places.end;
        Ok(Some((chunk.values[at], chunk.places(at))))
    }

    /// The newest entry up to one whose number is in a range.
    pub(super) fn seek_between(
        &mut self,
        blocks: &mut Blocks<'_>,
        segment: &Segment,
        mut doc: u32,
        (low, high): (i64, i64),
    ) -> Result<Option<u32>, Fault> {
        loop {
            let Some(found) = self.seek(blocks, segment, doc)? else { return Ok(None) };
            let Some(ReadChunk { at, chunk, .. }) = self.chunk.as_deref() else { return Ok(None) };
            let until = chunk.docs.partition_point(|known| *known <= found);
            let is_inside = |value: &i64| (low..=high).contains(value);
            if let Some(inside) = chunk.values[..until].iter().rposition(is_inside) {
                return Ok(Some(chunk.docs[inside]));
            }
            // Chunks before this one are passed over as far as they are out of the range.
            let (Some(block), at) = (&self.block, *at) else { return Ok(None) };
            let may_have = |(_, range): &(u32, Range<usize>)| {
                let between = chunk::numbers_between(&block[range.clone()]);
                between.is_none_or(|(lowest, highest)| lowest <= high && highest >= low)
            };
            let earlier = self.items[..at].iter().rposition(may_have);
            // The last entry of that chunk is before the first of the one after it.
            let after = self.items[earlier.map_or(0, |earlier| earlier + 1)].0;
            match after.checked_sub(1) {
                Some(next) => doc = next,
                None => return Ok(None),
            }
        }
    }
}
