//! The index of some entries, made in memory.

use longhand_recall::{Folded, term};
use rustc_hash::FxHashMap;

use super::block::{BlockWriter, TOTAL, kind, mark};
use super::chunk::{Chunk, Kind};
use crate::number::push_number;

/// A word is frequent if one entry of so many of a slice has it,
const FREQUENT_SHARE: usize = 4;
/// and at least so many entries.
const FREQUENT_MIN: usize = 8;

/// What the index is to know of an entry.
#[derive(Clone, Debug, Default)]
pub(in crate::sqlite) struct IndexedEntry<'t> {
    pub(in crate::sqlite) id: i64,
    pub(in crate::sqlite) said_ms: i64,
    /// The terms that say where it belongs: see [`mark`].
    pub(in crate::sqlite) marks: &'t [Vec<u8>],
    pub(in crate::sqlite) text: &'t str,
}

/// A word of an entry, by the numbers of its terms.
#[derive(Clone, Copy)]
struct SaidWord {
    whole: u32,
    /// Its first and its last part; the word itself if it has none.
    first: u32,
    last: u32,
}

/// Gathers what the entries of a slice say, the oldest first.
#[derive(Default)]
pub(in crate::sqlite) struct SliceBuilder {
    first: i64,
    numbers: FxHashMap<Vec<u8>, u32>,
    /// Terms with entry and place, in the order of entries and places.
    places: Vec<(u32, u32, u32)>,
    /// Of each entry: its number, its time and its words.
    entries: Vec<(u32, i64, Vec<SaidWord>)>,
    /// Parts that follow one another inside a name.
    inside: Vec<(u32, u32, u32)>,
    marks: FxHashMap<Vec<u8>, Vec<u32>>,
    words: u64,
}

/// A slice, ready to be written.
#[derive(Debug, Default)]
pub(in crate::sqlite) struct BuiltSlice {
    pub(super) blocks: Vec<Vec<u8>>,
    pub(super) first: i64,
    pub(super) last: i64,
    pub(super) entries: i64,
    pub(super) words: i64,
    pub(super) oldest_ms: i64,
    pub(super) newest_ms: i64,
}

impl BuiltSlice {
    pub(in crate::sqlite) fn is_empty(&self) -> bool {
        self.entries == 0
    }
}

impl SliceBuilder {
    pub(in crate::sqlite) fn add(&mut self, entry: &IndexedEntry<'_>) {
        if self.entries.is_empty() {
            self.first = entry.id;
        }
        let doc = (entry.id - self.first) as u32;
        for mark in entry.marks {
            match self.marks.get_mut(mark) {
                Some(docs) => docs.push(doc),
                None => _ = self.marks.insert(mark.clone(), vec![doc]),
            }
        }
        let folded = Folded::of(entry.text);
        let mut words = Vec::with_capacity(entry.text.len() / 6);
        for (place, word) in folded.words().enumerate() {
            let place = place as u32;
            let whole = self.number(word.text);
            self.places.push((whole, doc, place));
            let mut said = SaidWord { whole, first: whole, last: whole };
            for (at, (_, part)) in word.parts().enumerate() {
                let part = self.number(part);
                self.places.push((part, doc, place));
                if at == 0 {
                    said.first = part;
                } else {
                    self.inside.push((doc, said.last, part));
                }
                said.last = part;
            }
            words.push(said);
        }
        self.words += words.len() as u64;
        self.entries.push((doc, entry.said_ms, words));
    }

    fn number(&mut self, word: &str) -> u32 {
        let term = term(word);
        if let Some(number) = self.numbers.get(term.as_bytes()) {
            return *number;
        }
        let number = self.numbers.len() as u32;
        self.numbers.insert(term.as_bytes().to_vec(), number);
        number
    }

    pub(in crate::sqlite) fn build(self, last: i64) -> BuiltSlice {
        let mut writer = BlockWriter::default();
        let mut terms: Vec<(&[u8], u32)> =
            self.numbers.iter().map(|(term, number)| (term.as_slice(), *number)).collect();
        terms.sort_unstable();
        let (starts, places) = self.grouped();
        let mut chunks: Vec<(Vec<u8>, Vec<Chunk>)> = Vec::new();
        chunks.push((
            vec![mark::LENGTH],
            self.numbers_of(|(_, _, words)| words.len().cast_signed() as i64),
        ));
        chunks.push((vec![mark::TIME], self.numbers_of(|(_, said_ms, _)| *said_ms)));
        chunks.extend(self.marks.iter().map(|(mark, docs)| (mark.clone(), only(docs))));
        chunks.extend(self.pairs(&terms, &starts, &places));
        chunks.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        for (term, chunks) in chunks {
            add(&mut writer, &term, chunks);
        }
        let mut place_writer = PlaceWriter::default();
        for (term, number) in terms {
            let of_term = starts[number as usize]..starts[number as usize + 1];
            place_writer.write(&mut writer, term, &places[of_term]);
        }
        writer.finish_block();
        let times = || self.entries.iter().map(|(_, said_ms, _)| *said_ms);
        BuiltSlice {
            blocks: writer.full,
            first: self.first,
            last,
            entries: self.entries.len().cast_signed() as i64,
            words: self.words.cast_signed(),
            oldest_ms: times().min().unwrap_or(0),
            newest_ms: times().max().unwrap_or(0),
        }
    }

    /// The places of all terms, those of each term together: where each begins, and entries with places.
    fn grouped(&self) -> (Vec<usize>, Vec<(u32, u32)>) {
        let mut starts = vec![0; self.numbers.len() + 1];
        for (term, ..) in &self.places {
            starts[*term as usize + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut next = starts.clone();
        let mut grouped = vec![(0, 0); self.places.len()];
        for (term, doc, place) in &self.places {
            let at = &mut next[*term as usize];
            grouped[*at] = (*doc, *place);
            *at += 1;
        }
        (starts, grouped)
    }

    fn numbers_of(&self, of: impl Fn(&(u32, i64, Vec<SaidWord>)) -> i64) -> Vec<Chunk> {
        let mut list = vec![Chunk::default()];
        for entry in &self.entries {
            push(&mut list, entry.0, of(entry), &[]);
        }
        list
    }

    /// Which words are frequent, and which entries have two of them side by side.
    fn pairs(
        &self,
        terms: &[(&[u8], u32)],
        starts: &[usize],
        places: &[(u32, u32)],
    ) -> Vec<(Vec<u8>, Vec<Chunk>)> {
        let least = (self.entries.len() / FREQUENT_SHARE).max(FREQUENT_MIN);
        let is_frequent = |number: u32| {
            let of_term = &places[starts[number as usize]..starts[number as usize + 1]];
            let entries = || of_term.chunk_by(|(one, _), (other, _)| one == other).count();
            of_term.len() >= least && entries() >= least
        };
        let frequent: Vec<bool> = (0..terms.len() as u32).map(is_frequent).collect();
        let is_frequent = |number: u32| frequent[number as usize];
        let mut pairs: FxHashMap<(u32, u32), Vec<u32>> = FxHashMap::default();
        let mut add_pair = |doc: u32, one: u32, other: u32| {
            if is_frequent(one) && is_frequent(other) {
                let docs = pairs.entry((one, other)).or_default();
                if docs.last() != Some(&doc) {
                    docs.push(doc);
                }
            }
        };
        let mut inside = self.inside.iter().peekable();
        for (doc, _, words) in &self.entries {
            while let Some((_, one, other)) = inside.next_if(|(of, ..)| of == doc) {
                add_pair(*doc, *one, *other);
            }
            for pair in words.windows(2) {
                let (one, other) = (pair[0], pair[1]);
                add_pair(*doc, one.whole, other.whole);
                if one.last != one.whole {
                    add_pair(*doc, one.last, other.whole);
                }
                if other.first != other.whole {
                    add_pair(*doc, one.whole, other.first);
                    add_pair(*doc, one.last, other.first);
                }
            }
        }
        let mut names: Vec<&[u8]> = vec![&[]; terms.len()];
        for (term, number) in terms {
            names[*number as usize] = term;
        }
        let mut chunks = vec![(vec![mark::FREQUENT], only(&[0]))];
        let marked = (0..terms.len()).filter(|number| frequent[*number]);
        chunks.extend(marked.map(|number| (frequent_term(names[number]), only(&[0]))));
        chunks.extend(pairs.iter().map(|((one, other), docs)| {
            (pair_term(names[*one as usize], names[*other as usize]), only(docs))
        }));
        chunks
    }
}

/// Writes the places of one word after the other.
#[derive(Default)]
struct PlaceWriter {
    chunk: Chunk,
    encoded: Vec<u8>,
    of_entry: Vec<u32>,
}

impl PlaceWriter {
    /// Writes a word with its entries and places.
    fn write(&mut self, writer: &mut BlockWriter, term: &[u8], places: &[(u32, u32)]) {
        let (mut chunks, mut total) = (0, 0);
        for places in places.chunk_by(|(one, _), (other, _)| one == other) {
            self.of_entry.clear();
            self.of_entry.extend(places.iter().map(|(_, place)| *place));
            self.of_entry.dedup();
            if self.chunk.is_full() {
                self.flush(writer, term);
                chunks += 1;
            }
            let frequency = self.of_entry.len().cast_signed() as i64;
            self.chunk.push(places[0].0, frequency, &self.of_entry);
            total += 1;
        }
        self.flush(writer, term);
        if chunks > 0 {
            add_total(writer, term, total);
        }
    }

    fn flush(&mut self, writer: &mut BlockWriter, term: &[u8]) {
        self.chunk.encode_into(Kind::Places, &mut self.encoded);
        writer.add(term, self.chunk.docs[0], &self.encoded);
        self.chunk.clear();
    }
}

/// The term that marks where a word is frequent.
pub(super) fn frequent_term(word: &[u8]) -> Vec<u8> {
    [&[mark::FREQUENT], word].concat()
}

/// The term of two words side by side.
pub(super) fn pair_term(one: &[u8], other: &[u8]) -> Vec<u8> {
    [&[mark::PAIR], one, &[0], other].concat()
}

fn only(docs: &[u32]) -> Vec<Chunk> {
    let mut list = vec![Chunk::default()];
    for doc in docs {
        push(&mut list, *doc, 1, &[]);
    }
    list
}

fn push(list: &mut Vec<Chunk>, doc: u32, value: i64, places: &[u32]) {
    if list.last().is_none_or(Chunk::is_full) {
        list.push(Chunk::default());
    }
    if let Some(last) = list.last_mut() {
        last.push(doc, value, places);
    }
}

/// Writes the chunks of a term that is no word.
fn add(writer: &mut BlockWriter, term: &[u8], chunks: Vec<Chunk>) {
    let kind = kind(term);
    for chunk in chunks.into_iter().filter(|chunk| !chunk.is_empty()) {
        writer.add(term, chunk.docs[0], &chunk.encode(kind));
    }
}

/// After several chunks of a word: how many entries they have.
pub(super) fn add_total(writer: &mut BlockWriter, term: &[u8], total: u64) {
    let mut bytes = Vec::new();
    push_number(&mut bytes, total);
    writer.add(term, TOTAL, &bytes);
}
