//! Blocks: chunks in the order of their keys, as many as fit a page.
//!
//! A key is a term and the first entry of a chunk. Of a term, what it shares with the term before it is left out; how
//! much that is and how much follows are the two halves of a byte, as a rule.

use std::cmp::Ordering;

use super::chunk::Kind;
use crate::number::{push_number, take_number};

/// A block with more bytes would not fit a page of the file.
pub(super) const BLOCK_BYTES_MAX: usize = 4_056;
const SUM_BYTES: usize = 4;
/// Half a byte that says that the rest of a number follows.
const HALF_FULL: u8 = 15;

/// What terms begin with that are no words; words begin with letters or digits.
pub(super) mod mark {
    /// How many words each entry has.
    pub(in crate::sqlite::index) const LENGTH: u8 = 1;
    /// When each entry was said.
    pub(in crate::sqlite::index) const TIME: u8 = 2;
    /// The entries of a session, of an owner, of a role.
    pub(in crate::sqlite::index) const SESSION: u8 = 3;
    pub(in crate::sqlite::index) const OWNER: u8 = 4;
    pub(in crate::sqlite::index) const ROLE: u8 = 5;
    /// The first entries of slices in which a word is frequent; without a word, of all slices.
    pub(in crate::sqlite::index) const FREQUENT: u8 = 6;
    /// Entries that have two words side by side which are both frequent.
    pub(in crate::sqlite::index) const PAIR: u8 = 7;
    /// The first of what is a word.
    pub(in crate::sqlite::index) const WORDS: u8 = 8;
}

/// What is known of the entries of a term.
pub(super) fn kind(term: &[u8]) -> Kind {
    match term.first() {
        Some(&(mark::LENGTH | mark::TIME)) => Kind::Number,
        Some(&first) if first < mark::WORDS => Kind::Only,
        _ => Kind::Places,
    }
}

/// After the chunks of a term that has several comes one that says how many entries they have.
pub(super) const TOTAL: u32 = u32::MAX;

/// A chunk in a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item<'b> {
    pub(super) first: u32,
    pub(super) bytes: &'b [u8],
}

/// Compares the keys of two chunks.
pub(super) fn compare(one: (&[u8], u32), other: (&[u8], u32)) -> Ordering {
    one.0.cmp(other.0).then(one.1.cmp(&other.1))
}

/// Fills blocks with chunks that come in the order of their keys.
#[derive(Debug)]
pub(super) struct BlockWriter {
    /// The blocks that are full.
    pub(super) full: Vec<Vec<u8>>,
    current: Vec<u8>,
    term: Vec<u8>,
    bytes_max: usize,
}

impl Default for BlockWriter {
    fn default() -> Self {
        Self { bytes_max: BLOCK_BYTES_MAX, ..Self::unlimited() }
    }
}

impl BlockWriter {
    /// Writes all into one block.
    pub(super) fn unlimited() -> Self {
        Self { full: Vec::new(), current: Vec::new(), term: Vec::new(), bytes_max: usize::MAX }
    }

    pub(super) fn add(&mut self, term: &[u8], first: u32, bytes: &[u8]) {
        let end = self.current.len();
        let shared = self.push(term, first, bytes);
        if end > 0 && self.current.len() > self.bytes_max {
            self.current.truncate(end);
            self.finish_block();
            self.push(term, first, bytes);
            self.term.clear();
            self.term.extend_from_slice(term);
        } else {
            self.term.truncate(shared);
            self.term.extend_from_slice(&term[shared..]);
        }
    }

    /// Adds a chunk; returns how much its term shares with the one before.
    fn push(&mut self, term: &[u8], first: u32, bytes: &[u8]) -> usize {
        if self.current.is_empty() {
            self.current.resize(SUM_BYTES, 0);
            self.term.clear();
        }
        let shared = self.term.iter().zip(term).take_while(|(one, other)| one == other).count();
        let lengths = [shared, term.len() - shared];
        let [high, low] = lengths.map(|length| length.min(HALF_FULL.into()) as u8);
        self.current.push(high << 4 | low);
        for length in lengths {
            if let Some(rest) = length.checked_sub(HALF_FULL.into()) {
                push_number(&mut self.current, rest as u64);
            }
        }
        self.current.extend_from_slice(&term[shared..]);
        push_number(&mut self.current, u64::from(first));
        push_number(&mut self.current, bytes.len() as u64);
        self.current.extend_from_slice(bytes);
        shared
    }

    pub(super) fn finish_block(&mut self) {
        if !self.current.is_empty() {
            let sum = sum(&self.current[SUM_BYTES..]);
            self.current[..SUM_BYTES].copy_from_slice(&sum);
            self.full.push(std::mem::take(&mut self.current));
        }
    }
}

/// Tells whether a block is what was written.
fn sum(bytes: &[u8]) -> [u8; SUM_BYTES] {
    let mix =
        |sum: u64, piece: u64| (sum.rotate_left(5) ^ piece).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (pieces, rest) = bytes.as_chunks();
    let sum =
        pieces.iter().fold(bytes.len() as u64, |sum, piece| mix(sum, u64::from_le_bytes(*piece)));
    let sum = rest.iter().fold(sum, |sum, byte| mix(sum, u64::from(*byte)));
    ((sum >> 32) as u32 ^ sum as u32).to_le_bytes()
}

/// Reads the chunks of a block, one after the other.
#[derive(Clone, Debug)]
pub(super) struct BlockReader<'b> {
    rest: &'b [u8],
    /// The term of the chunk that was read last.
    pub(super) term: Vec<u8>,
}

impl<'b> BlockReader<'b> {
    /// `None` if the block is not what was written.
    pub(super) fn checked(block: &'b [u8]) -> Option<Self> {
        let (found, rest) = block.split_at_checked(SUM_BYTES)?;
        (found == sum(rest)).then_some(Self { rest, term: Vec::new() })
    }

    /// For a block that was checked before.
    pub(super) fn new(block: &'b [u8]) -> Self {
        Self { rest: block.get(SUM_BYTES..).unwrap_or_default(), term: Vec::new() }
    }

    /// The key of the first chunk, of whose term nothing is left out.
    pub(super) fn first_key(block: &'b [u8]) -> Option<(&'b [u8], u32)> {
        let mut reader = Self::new(block);
        let (halves, rest) = reader.rest.split_first()?;
        reader.rest = rest;
        reader.length(halves >> 4).filter(|shared| *shared == 0)?;
        let length = reader.length(halves & HALF_FULL)?;
        let (term, mut rest) = reader.rest.split_at_checked(length)?;
        Some((term, u32::try_from(take_number(&mut rest)?).ok()?))
    }

    /// The next chunk, whose term is in `term` then.
    pub(super) fn next(&mut self) -> Option<Item<'b>> {
        let (halves, rest) = self.rest.split_first()?;
        self.rest = rest;
        let shared = self.length(halves >> 4)?;
        let length = self.length(halves & HALF_FULL)?;
        let (ending, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        self.term.truncate(shared);
        self.term.extend_from_slice(ending);
        let first = u32::try_from(take_number(&mut self.rest)?).ok()?;
        let length = usize::try_from(take_number(&mut self.rest)?).ok()?;
        let (bytes, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(Item { first, bytes })
    }

    fn length(&mut self, half: u8) -> Option<usize> {
        let rest = if half < HALF_FULL { 0 } else { take_number(&mut self.rest)? };
        usize::try_from(rest).ok()?.checked_add(half.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_come_back_in_order() {
        let terms: Vec<String> = (0..2_000).map(|number| format!("term{number:05}")).collect();
        let mut writer = BlockWriter::default();
        for term in &terms {
            writer.add(term.as_bytes(), 7, &[1, 2, 3]);
            writer.add(term.as_bytes(), 9, b"");
        }
        writer.finish_block();
        assert!(writer.full.iter().all(|block| block.len() <= BLOCK_BYTES_MAX));
        let mut found = Vec::new();
        for block in &writer.full {
            let mut reader = BlockReader::checked(block).unwrap();
            let first = reader.clone().next().unwrap().first;
            let mut ahead = reader.clone();
            ahead.next();
            assert_eq!(BlockReader::first_key(block), Some((&ahead.term[..], first)));
            while let Some(item) = reader.next() {
                let term = String::from_utf8(reader.term.clone()).unwrap();
                found.push((term, item.first, item.bytes.to_vec()));
            }
        }
        let right = terms
            .iter()
            .flat_map(|term| [(term.clone(), 7, vec![1, 2, 3]), (term.clone(), 9, vec![])]);
        assert_eq!(found, right.collect::<Vec<_>>());
        let mut damaged = writer.full[0].clone();
        damaged[100] ^= 1;
        assert!(BlockReader::checked(&damaged).is_none());
    }

    #[test]
    fn what_does_not_fit_gets_a_block_of_its_own() {
        let mut writer = BlockWriter::default();
        writer.add(b"a", 0, &[0; 10]);
        writer.add(b"b", 0, &[0; 9_000]);
        writer.add(b"c", 0, &[0; 10]);
        writer.finish_block();
        assert_eq!(writer.full.len(), 3);
    }
}
