//! Which entries have a term, and where: the postings of up to some dozens of entries in few bytes.
//!
//! What a chunk holds of each entry depends on the term: see [`Kind`].

use crate::number::{push_number, take_number};

/// The most entries of a chunk.
const DOCS_MAX: usize = 64;
/// The most places of a chunk, but for an entry that has more.
const PLACES_MAX: usize = 512;
/// Of one entry, the index knows so many places of a term. If there are more, it does not rule the entry out.
pub(super) const PLACES_OF_ENTRY_MAX: i64 = longhand_recall::PLACES_OF_ENTRY_MAX as i64;
/// With so few bytes, a chunk is the place of a term that one entry has once, as most have. Others have more bytes.
const LONE_BYTES_MAX: usize = 3;
/// Places before this one take so few bytes.
const LONE_PLACE_END: u32 = 1 << 21;
/// A number that would take more ones than these is written in full.
const ONES_MAX: u32 = 24;

/// What is known of an entry that has a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// How often, and where: which words of the entry are the term, counted from 0.
    Places,
    /// A number.
    Number,
    /// Nothing else.
    Only,
}

/// Postings, the oldest entry first. Entries are numbered from the first one of the segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) docs: Vec<u32>,
    /// How often the entry has the term, or the number.
    pub(super) values: Vec<i64>,
    /// Where the places of each entry begin.
    starts: Vec<usize>,
    places: Vec<u32>,
}

impl Chunk {
    pub(super) fn is_empty(&self) -> bool {
        self.docs.is_empty()
    }

    /// Whether it is large enough to stay as it is.
    pub(super) fn is_full(&self) -> bool {
        self.docs.len() >= DOCS_MAX || self.places.len() >= PLACES_MAX
    }

    /// Adds an entry that comes after all others.
    pub(super) fn push(&mut self, doc: u32, value: i64, places: &[u32]) {
        self.docs.push(doc);
        self.values.push(value);
        self.starts.push(self.places.len());
        let kept = places.len().min(PLACES_OF_ENTRY_MAX as usize);
        self.places.extend_from_slice(&places[..kept]);
    }

    /// Adds one entry of another chunk.
    pub(super) fn push_from(&mut self, other: &Chunk, at: usize) {
        self.push(other.docs[at], other.values[at], other.places(at));
    }

    /// The places of the term in an entry.
    pub(super) fn places(&self, at: usize) -> &[u32] {
        let start = self.starts.get(at).copied().unwrap_or(0);
        let end = self.starts.get(at + 1).copied().unwrap_or(self.places.len());
        &self.places[start..end]
    }

    /// Writes it. The first entry is in the key.
    pub(super) fn encode(&self, kind: Kind) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(8 + self.docs.len() * 2 + self.places.len() * 2);
        self.encode_into(kind, &mut bytes);
        bytes
    }

    /// Writes it in the place of what was there.
    pub(super) fn encode_into(&self, kind: Kind, bytes: &mut Vec<u8>) {
        bytes.clear();
        if let (Kind::Places, [1], [place @ ..LONE_PLACE_END]) =
            (kind, &*self.values, &*self.places)
        {
            push_number(bytes, u64::from(*place));
            return;
        }
        push_number(bytes, self.docs.len() as u64);
        match kind {
            Kind::Only => self.encode_docs(bytes),
            Kind::Number => {
                let (low, high) = self.range();
                push_number(bytes, zigzag(low));
                push_number(bytes, high.abs_diff(low));
                self.values.iter().for_each(|value| push_number(bytes, value.abs_diff(low)));
                self.encode_docs(bytes);
            }
            Kind::Places if self.docs.len() == 1 => {
                push_number(bytes, self.values[0].cast_unsigned());
                self.each_gap(|gap| push_number(bytes, u64::from(gap)));
            }
            Kind::Places => self.encode_places(bytes),
        }
    }

    fn encode_docs(&self, bytes: &mut Vec<u8>) {
        let steps = || self.docs.windows(2).map(|pair| pair[1] - pair[0] - 1);
        let mut bits = BitWriter::new(bytes, steps());
        steps().for_each(|step| bits.number(step));
        bits.finish();
    }

    /// The entries with how often they have the term, and then the places: these are read only if they are asked for.
    fn encode_places(&self, bytes: &mut Vec<u8>) {
        let start = bytes.len();
        let steps = || self.docs.windows(2).map(|pair| pair[1] - pair[0] - 1);
        let mut bits = BitWriter::new(bytes, steps());
        for (step, frequency) in std::iter::once(0).chain(steps()).zip(&self.values) {
            bits.number(step);
            bits.ones((frequency - 1).clamp(0, i64::from(u32::MAX)) as u32);
        }
        bits.finish();
        // How many bytes these are comes before them.
        let end = bytes.len();
        push_number(bytes, (end - start) as u64);
        let moved = bytes.len() - end;
        bytes[start..].rotate_right(moved);
        let (mut total, mut count) = (0, 0);
        self.each_gap(|gap| {
            total += u64::from(gap);
            count += 1;
        });
        let mut bits = BitWriter::for_mean(bytes, total / u64::max(count, 1));
        self.each_gap(|gap| bits.number(gap));
        bits.finish();
    }

    /// The places as differences: each to the one before it in its entry.
    fn each_gap(&self, mut take: impl FnMut(u32)) {
        for at in 0..self.docs.len() {
            let mut next = 0;
            for place in self.places(at) {
                take(place - next);
                next = place + 1;
            }
        }
    }

    /// The lowest and the highest number.
    fn range(&self) -> (i64, i64) {
        let low = self.values.iter().min().copied().unwrap_or(0);
        (low, self.values.iter().max().copied().unwrap_or(low))
    }

    pub(super) fn clear(&mut self) {
        self.docs.clear();
        self.values.clear();
        self.starts.clear();
        self.places.clear();
    }

    /// Reads a chunk; `None` if it is none.
    pub(super) fn decode(kind: Kind, first: u32, bytes: &[u8]) -> Option<Self> {
        let mut chunk = Self::default();
        chunk.decode_into(kind, first, bytes)?;
        Some(chunk)
    }

    /// The same, in the place of what it had.
    pub(super) fn decode_into(&mut self, kind: Kind, first: u32, bytes: &[u8]) -> Option<()> {
        let places = self.decode_docs_into(kind, first, bytes)?;
        self.decode_places(places)
    }

    /// Reads entries and numbers, and returns the rest, which [`Chunk::decode_places`] reads: most entries that are
    /// passed are not asked for places.
    pub(super) fn decode_docs_into<'b>(
        &mut self,
        kind: Kind,
        first: u32,
        mut bytes: &'b [u8],
    ) -> Option<&'b [u8]> {
        self.clear();
        if kind == Kind::Places && bytes.len() <= LONE_BYTES_MAX {
            self.push(first, 1, &[u32::try_from(take_number(&mut bytes)?).ok()?]);
            return Some(&[]);
        }
        let count = usize::try_from(take_number(&mut bytes)?).ok()?;
        // Each takes some bits at least.
        if count == 0 || count > bytes.len().saturating_mul(8) + 1 {
            return None;
        }
        let chunk = self;
        match kind {
            Kind::Only => {
                chunk.decode_docs(first, count, bytes)?;
                chunk.values.resize(count, 1);
            }
            Kind::Number => {
                let low = unzigzag(take_number(&mut bytes)?);
                take_number(&mut bytes)?;
                for _ in 0..count {
                    chunk.values.push(low.checked_add_unsigned(take_number(&mut bytes)?)?);
                }
                chunk.decode_docs(first, count, bytes)?;
            }
            Kind::Places if count == 1 => {
                chunk.docs.push(first);
                let frequency = i64::try_from(take_number(&mut bytes)?).ok()?;
                chunk.values.push(frequency);
                let mut gaps = || u32::try_from(take_number(&mut bytes)?).ok();
                chunk.decode_gaps(&mut gaps)?;
            }
            Kind::Places => {
                let length = usize::try_from(take_number(&mut bytes)?).ok()?;
                let (docs, places) = bytes.split_at_checked(length)?;
                let mut bits = BitReader::new(docs)?;
                let mut next = first;
                for _ in 0..count {
                    let doc = bits.number()?.checked_add(next)?;
                    chunk.docs.push(doc);
                    chunk.values.push(i64::from(bits.ones()?) + 1);
                    next = doc.checked_add(1)?;
                }
                // There are some, or it is no chunk.
                return (!places.is_empty()).then_some(places);
            }
        }
        Some(&[])
    }

    /// Reads the rest of a chunk, if there is one.
    pub(super) fn decode_places(&mut self, rest: &[u8]) -> Option<()> {
        if rest.is_empty() {
            return Some(());
        }
        let mut bits = BitReader::new(rest)?;
        self.decode_gaps(&mut || bits.number())
    }

    fn decode_docs(&mut self, first: u32, count: usize, bytes: &[u8]) -> Option<()> {
        self.docs.push(first);
        let mut bits = BitReader::new(bytes)?;
        for at in 1..count {
            let next = self.docs[at - 1].checked_add(1)?;
            self.docs.push(bits.number()?.checked_add(next)?);
        }
        Some(())
    }

    fn decode_gaps(&mut self, gap: &mut dyn FnMut() -> Option<u32>) -> Option<()> {
        for frequency in &self.values {
            self.starts.push(self.places.len());
            let mut next = 0;
            for _ in 0..(*frequency).min(PLACES_OF_ENTRY_MAX) {
                let place = gap()?.checked_add(next)?;
                self.places.push(place);
                next = place.checked_add(1)?;
            }
        }
        Some(())
    }
}

/// The lowest and the highest number of a chunk of numbers, without reading the rest of it.
pub(super) fn numbers_between(mut bytes: &[u8]) -> Option<(i64, i64)> {
    take_number(&mut bytes)?;
    let low = unzigzag(take_number(&mut bytes)?);
    Some((low, low.checked_add_unsigned(take_number(&mut bytes)?)?))
}

/// How many entries a chunk has, without reading the rest of it.
pub(super) fn count(kind: Kind, mut bytes: &[u8]) -> u64 {
    let is_lone = kind == Kind::Places && bytes.len() <= LONE_BYTES_MAX;
    if is_lone { 1 } else { take_number(&mut bytes).unwrap_or(0) }
}

fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63).cast_unsigned()
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

/// Writes numbers by their low bits, and the rest as a row of ones. How many low bits is in the first byte.
struct BitWriter<'b> {
    bytes: &'b mut Vec<u8>,
    low_bits: u32,
    pending: u64,
    count: u32,
}

impl<'b> BitWriter<'b> {
    /// For numbers such as these.
    fn new(bytes: &'b mut Vec<u8>, numbers: impl Iterator<Item = u32>) -> Self {
        let (count, total) =
            numbers.fold((0, 0), |(count, total), number| (count + 1, total + u64::from(number)));
        Self::for_mean(bytes, total / u64::max(count, 1))
    }

    /// For numbers that are this large on average.
    fn for_mean(bytes: &'b mut Vec<u8>, mean: u64) -> Self {
        // Where numbers are random, this many low bits take the least room.
        let low_bits = (mean * 7 / 10).checked_ilog2().unwrap_or(0);
        bytes.push(low_bits as u8);
        Self { bytes, low_bits, pending: 0, count: 0 }
    }

    fn number(&mut self, number: u32) {
        let high = number >> self.low_bits;
        if high >= ONES_MAX {
            self.in_full(number);
        } else {
            self.ones(high);
            self.put(u64::from(number) & ((1 << self.low_bits) - 1), self.low_bits);
        }
    }

    /// A number that is small as a rule.
    fn ones(&mut self, number: u32) {
        if number >= ONES_MAX {
            self.in_full(number);
        } else {
            // The zero after the ones ends them.
            self.put((1 << number) - 1, number + 1);
        }
    }

    fn in_full(&mut self, number: u32) {
        self.put((1 << ONES_MAX) - 1, ONES_MAX);
        self.put(u64::from(number), 32);
    }

    fn put(&mut self, bits: u64, count: u32) {
        self.pending |= bits << self.count;
        self.count += count;
        while self.count >= 8 {
            self.bytes.push(self.pending as u8);
            self.pending >>= 8;
            self.count -= 8;
        }
    }

    fn finish(self) {
        if self.count > 0 {
            self.bytes.push(self.pending as u8);
        }
    }
}

struct BitReader<'b> {
    bytes: &'b [u8],
    low_bits: u32,
    pending: u64,
    count: u32,
}

impl<'b> BitReader<'b> {
    fn new(bytes: &'b [u8]) -> Option<Self> {
        let (low_bits, bytes) = bytes.split_first()?;
        let low_bits = u32::from(*low_bits);
        (low_bits < u32::BITS).then_some(Self { bytes, low_bits, pending: 0, count: 0 })
    }

    fn fill(&mut self) {
        while self.count <= 56
            && let Some((byte, rest)) = self.bytes.split_first()
        {
            self.pending |= u64::from(*byte) << self.count;
            self.count += 8;
            self.bytes = rest;
        }
    }

    fn number(&mut self) -> Option<u32> {
        self.fill();
        let high = self.pending.trailing_ones().min(ONES_MAX);
        if high == ONES_MAX {
            return self.ones();
        }
        self.take(high + 1)?;
        let low = self.take(self.low_bits)?;
        Some((high << self.low_bits) | low as u32)
    }

    fn ones(&mut self) -> Option<u32> {
        self.fill();
        let ones = self.pending.trailing_ones().min(ONES_MAX);
        if ones == ONES_MAX {
            self.take(ONES_MAX)?;
            return self.take(32).map(|number| number as u32);
        }
        self.take(ones + 1)?;
        Some(ones)
    }

    fn take(&mut self, count: u32) -> Option<u64> {
        self.fill();
        let bits = self.pending & ((1_u64 << count) - 1);
        self.count = self.count.checked_sub(count)?;
        self.pending >>= count;
        Some(bits)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(kind: Kind, postings: &[(u32, i64, Vec<u32>)]) {
        let mut chunk = Chunk::default();
        for (doc, value, places) in postings {
            chunk.push(*doc, *value, places);
        }
        let bytes = chunk.encode(kind);
        let back = Chunk::decode(kind, chunk.docs[0], &bytes).unwrap();
        assert_eq!((&back.docs, &back.values), (&chunk.docs, &chunk.values));
        assert_eq!(back.places, chunk.places);
        assert_eq!(count(kind, &bytes), chunk.docs.len() as u64);
        if kind == Kind::Number {
            assert_eq!(numbers_between(&bytes), Some(chunk.range()));
        }
        for end in 0..bytes.len() {
            // Whatever comes back, nothing panics.
            let _ = Chunk::decode(kind, 0, &bytes[..end]);
        }
    }

    proptest! {
        #[test]
        fn postings_come_back(
            postings in prop::collection::btree_map(
                0..1_000_u32,
                prop::collection::btree_set(prop_oneof![0..400_u32, 0..9_000_000_u32], 1..20),
                1..70,
            ),
            times in prop::collection::vec(any::<i32>(), 70),
        ) {
            let postings: Vec<_> = postings
                .into_iter()
                .map(|(doc, places)| (doc, places.len().cast_signed() as i64, Vec::from_iter(places)))
                .collect();
            check(Kind::Places, &postings);
            let numbers = postings.iter().zip(times);
            let numbers: Vec<_> =
                numbers.map(|((doc, ..), time)| (*doc, i64::from(time), Vec::new())).collect();
            check(Kind::Number, &numbers);
            let only: Vec<_> = postings.iter().map(|(doc, ..)| (*doc, 1, Vec::new())).collect();
            check(Kind::Only, &only);
        }
    }

    #[test]
    fn a_word_that_was_said_once_takes_its_place_and_no_more() {
        for (place, bytes) in [(0, 1), (300, 2), (LONE_PLACE_END - 1, 3), (LONE_PLACE_END, 6)] {
            check(Kind::Places, &[(9, 1, vec![place])]);
            let mut chunk = Chunk::default();
            chunk.push(9, 1, &[place]);
            assert_eq!(chunk.encode(Kind::Places).len(), bytes);
        }
        // The shortest of the others are longer than that.
        check(Kind::Places, &[(9, 2, vec![0, 1])]);
        check(Kind::Places, &[(9, 1, vec![0]), (10, 1, vec![0])]);
    }

    #[test]
    fn a_word_that_is_repeated_without_end_keeps_its_number() {
        let places: Vec<u32> = (0..5_000).collect();
        let mut chunk = Chunk::default();
        chunk.push(3, 5_000, &places);
        chunk.push(4, 1, &[9]);
        let back = Chunk::decode(Kind::Places, 3, &chunk.encode(Kind::Places)).unwrap();
        assert_eq!(back.values, [5_000, 1]);
        assert_eq!(back.places(0).len(), PLACES_OF_ENTRY_MAX as usize);
        assert_eq!(back.places(1), [9]);
    }
}
