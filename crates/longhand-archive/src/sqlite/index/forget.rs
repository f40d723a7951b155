//! Taking entries out of the index.
//!
//! Only the blocks that have something of them are written anew, each once for many entries. A word that no entry has
//! any more is gone from the file.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use longhand_recall::{Folded, term};
use rusqlite::{Connection, OptionalExtension as _};

use super::block::{BlockReader, BlockWriter, TOTAL, kind, mark};
use super::chunk::Chunk;
use super::cursor::Cursor;
use super::segment::{self, Block, Blocks, Segment, Stream, damaged};
use super::slice::{frequent_term, pair_term};
use super::vocabulary;
use crate::number::{push_number, take_number};
use crate::sqlite::fault::Fault;

/// After so many terms the time is looked at.
const TERMS_AT_A_TIME: usize = 16;

/// What the index has of some entries, and how much of that is taken out.
///
/// Goes through the segments in the order of their ids. One that is made from others meanwhile has a greater id, so
/// that nothing comes back.
#[derive(Debug, Default)]
pub(in crate::sqlite) struct Forgetting {
    ids: Vec<i64>,
    /// Which entries may have a term.
    terms: BTreeMap<Vec<u8>, Vec<i64>>,
    /// Which entries have two words side by side.
    pairs: BTreeMap<(Vec<u8>, Vec<u8>), Vec<i64>>,
    /// The segment and its last term that are done.
    done: (i64, Vec<u8>),
}

/// A term with the numbers of the entries that are to be taken out.
type Doomed = (Vec<u8>, Vec<u32>);

impl Forgetting {
    /// Adds an entry; they come in the order of their ids.
    pub(in crate::sqlite) fn add(&mut self, id: i64, marks: &[Vec<u8>], text: &str) {
        self.ids.push(id);
        let numbers = [vec![mark::LENGTH], vec![mark::TIME]];
        let mut terms: BTreeSet<Vec<u8>> = marks.iter().cloned().chain(numbers).collect();
        let mut pairs = BTreeSet::new();
        let folded = Folded::of(text);
        let mut before: Vec<Vec<u8>> = Vec::new();
        for word in folded.words() {
            let bytes = |word: &str| term(word).as_bytes().to_vec();
            let parts: Vec<Vec<u8>> = word.parts().map(|(_, part)| bytes(part)).collect();
            let whole = bytes(word.text);
            pairs.extend(parts.windows(2).map(|pair| (pair[0].clone(), pair[1].clone())));
            for one in &before {
                let others = std::iter::once(&whole).chain(parts.first());
                pairs.extend(others.map(|other| (one.clone(), other.clone())));
            }
            before = std::iter::once(&whole).chain(parts.last()).cloned().collect();
            terms.extend(parts);
            terms.insert(whole);
        }
        for term in terms {
            self.terms.entry(term).or_default().push(id);
        }
        for pair in pairs {
            self.pairs.entry(pair).or_default().push(id);
        }
    }
    /// Goes on until it is time to end, at least for a little; returns whether nothing is left of the entries.
    pub(in crate::sqlite) fn go_on(
        &mut self,
        db: &Connection,
        deadline: Instant,
    ) -> Result<bool, Fault> {
        let mut segments = segment::all(db)?;
        segments.sort_by_key(|segment| segment.id);
        let has_some = |segment: &Segment| self.ids.iter().any(|id| segment.number(*id).is_some());
        segments.retain(|segment| segment.id >= self.done.0 && has_some(segment));
        let mut blocks = Blocks::new(db);
        for segment in &segments {
            let is_begun = segment.id == self.done.0;
            let after = if is_begun { std::mem::take(&mut self.done.1) } else { Vec::new() };
            let doomed = self.doomed(&mut blocks, segment, &after)?;
            let mut eraser = Eraser {
                blocks: &mut blocks,
                segment,
                erased: vec![0; doomed.len()],
                doomed,
                entries: 0,
                words: 0,
                written: None,
            };
            if let Some(term) = eraser.erase_until(deadline)? {
                self.done = (segment.id, term);
                return Ok(false);
            }
            self.done = (segment.id + 1, Vec::new());
        }
        Ok(true)
    }

    /// The terms that are to be looked for in a segment, in order.
    fn doomed(
        &self,
        blocks: &mut Blocks<'_>,
        segment: &Segment,
        after: &[u8],
    ) -> Result<Vec<Doomed>, Fault> {
        let numbers =
            |ids: &[i64]| -> Vec<u32> { ids.iter().filter_map(|id| segment.number(*id)).collect() };
        let terms = self.terms.iter().map(|(term, ids)| (term.clone(), numbers(ids)));
        let mut doomed: Vec<Doomed> = terms.collect();
        // Pairs come before the words: as long as these are there, it is known which pairs there can be.
        if after.first().is_none_or(|first| *first <= mark::PAIR) {
            let frequent = frequent_words(blocks, segment)?;
            let is_frequent = |(one, other): &(Vec<u8>, Vec<u8>)| {
                frequent.contains(one) && frequent.contains(other)
            };
            let pairs = self.pairs.iter().filter(|(pair, _)| is_frequent(pair));
            doomed.extend(pairs.map(|((one, other), ids)| (pair_term(one, other), numbers(ids))));
        }
        doomed.retain(|(term, docs)| term.as_slice() > after && !docs.is_empty());
        doomed.sort_unstable();
        Ok(doomed)
    }
}

/// The words that are frequent somewhere in a segment.
fn frequent_words(blocks: &mut Blocks<'_>, segment: &Segment) -> Result<BTreeSet<Vec<u8>>, Fault> {
    let mut frequent = BTreeSet::new();
    let mut stream = Stream::new(blocks, segment.clone(), &[mark::FREQUENT], false)?;
    while let Some(item) = stream.peek(blocks)?
        && item.term.first() == Some(&mark::FREQUENT)
    {
        frequent.insert(item.term[1..].to_vec());
        stream.advance();
    }
    Ok(frequent)
}

/// Takes entries out of one segment.
struct Eraser<'e, 'd> {
    blocks: &'e mut Blocks<'d>,
    segment: &'e Segment,
    doomed: Vec<Doomed>,
    /// How many entries were taken out of each term.
    erased: Vec<u64>,
    /// How many entries were taken out of the segment, and how many words they had.
    entries: i64,
    words: i64,
    /// The block that was written last: it has nothing more of the entries.
    written: Option<i64>,
}

impl Eraser<'_, '_> {
    /// Returns the last term that was dealt with if others are left.
    fn erase_until(&mut self, deadline: Instant) -> Result<Option<Vec<u8>>, Fault> {
        for at in 0..self.doomed.len() {
            self.erase(at)?;
            if self.erased[at] > 0 {
                let term = self.doomed[at].0.clone();
                self.count_down(&term, self.erased[at])?;
                if term.first().is_some_and(|first| *first >= mark::WORDS) {
                    self.erase_word_if_gone(&term)?;
                }
            }
            // What was erased of the terms after this one would not be known any more.
            let may_break = || self.erased[at + 1..].iter().all(|erased| *erased == 0);
            let is_time = at % TERMS_AT_A_TIME == 0 && Instant::now() >= deadline;
            if is_time && at + 1 < self.doomed.len() && may_break() {
                self.correct_totals()?;
                return Ok(Some(self.doomed[at].0.clone()));
            }
        }
        self.correct_totals()?;
        Ok(None)
    }

    /// Erases the entries from the blocks of a term, the newest first.
    fn erase(&mut self, at: usize) -> Result<(), Fault> {
        let mut end = self.doomed[at].1.len();
        while end > 0 {
            let (term, docs) = &self.doomed[at];
            let Some(block) = self.blocks.find(self.segment, term, docs[end - 1])? else { break };
            let mut reader = BlockReader::new(&block.data);
            let first = reader.next().filter(|_| reader.term == *term).map(|item| item.first);
            // Entries before the first one of the block are in an earlier block.
            end = first.map_or(0, |first| docs.partition_point(|doc| *doc < first));
            if self.written != Some(block.id) {
                self.erase_from(&block, at)?;
            }
        }
        Ok(())
    }

    /// Erases the entries from all terms of a block.
    fn erase_from(&mut self, block: &Block, from: usize) -> Result<(), Fault> {
        let mut writer = BlockWriter::unlimited();
        let mut reader = BlockReader::new(&block.data);
        while let Some(item) = reader.next() {
            let doomed = &self.doomed[from..];
            let found = doomed.binary_search_by(|(term, _)| term.as_slice().cmp(&reader.term));
            let (Ok(found), true) = (found, item.first != TOTAL) else {
                writer.add(&reader.term, item.first, item.bytes);
                continue;
            };
            let kind = kind(&reader.term);
            let chunk = Chunk::decode(kind, item.first, item.bytes).ok_or_else(damaged)?;
            let mut rest = Chunk::default();
            for at in 0..chunk.docs.len() {
                if doomed[found].1.binary_search(&chunk.docs[at]).is_err() {
                    rest.push_from(&chunk, at);
                } else {
                    self.erased[from + found] += 1;
                    if reader.term == [mark::LENGTH] {
                        self.entries += 1;
                        self.words += chunk.values[at];
                    }
                }
            }
            if rest.docs.len() == chunk.docs.len() {
                writer.add(&reader.term, item.first, item.bytes);
            } else if !rest.is_empty() {
                writer.add(&reader.term, rest.docs[0], &rest.encode(kind));
            }
        }
        self.write(block, writer)?;
        self.written = Some(block.id);
        Ok(())
    }

    /// Corrects how many entries have a term, where that is written.
    fn count_down(&mut self, term: &[u8], erased: u64) -> Result<(), Fault> {
        let Some(block) = self.blocks.find(self.segment, term, TOTAL)? else { return Ok(()) };
        let mut writer = BlockWriter::unlimited();
        let mut reader = BlockReader::new(&block.data);
        let mut has_total = false;
        while let Some(item) = reader.next() {
            if reader.term != term || item.first != TOTAL {
                writer.add(&reader.term, item.first, item.bytes);
                continue;
            }
            has_total = true;
            let mut bytes = item.bytes;
            let total = take_number(&mut bytes).ok_or_else(damaged)?.saturating_sub(erased);
            if total > 0 {
                let mut bytes = Vec::new();
                push_number(&mut bytes, total);
                writer.add(&reader.term, TOTAL, &bytes);
            }
        }
        if has_total { self.write(&block, writer) } else { Ok(()) }
    }

    /// Erases a word that no entry has any more from where it stands besides.
    fn erase_word_if_gone(&mut self, word: &[u8]) -> Result<(), Fault> {
        let mut cursor = Cursor::new(word.to_vec());
        if cursor.seek(self.blocks, self.segment, TOTAL - 1)?.is_some() {
            return Ok(());
        }
        let frequent = frequent_term(word);
        while let Some(block) = self.blocks.find(self.segment, &frequent, TOTAL)? {
            let mut writer = BlockWriter::unlimited();
            let mut reader = BlockReader::new(&block.data);
            let mut has_word = false;
            while let Some(item) = reader.next() {
                if reader.term == frequent {
                    has_word = true;
                } else {
                    writer.add(&reader.term, item.first, item.bytes);
                }
            }
            if !has_word {
                break;
            }
            self.write(&block, writer)?;
        }
        self.erase_from_vocabulary(word)
    }

    fn erase_from_vocabulary(&mut self, word: &[u8]) -> Result<(), Fault> {
        let first = self.segment.vocabulary_id(0);
        let (mut low, mut high) = (first, first + self.segment.vocabulary - 1);
        let mut found: Option<(i64, Vec<u8>)> = None;
        let db = self.blocks.db;
        let mut select = db.prepare_cached(
            "SELECT id, data FROM index_block WHERE id <= ?1 AND id >= ?2 ORDER BY id DESC LIMIT 1",
        )?;
        while low <= high {
            let middle = low + (high - low) / 2;
            let block: Option<(i64, Vec<u8>)> = select
                .query_row((middle, first), |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?;
            match block {
                Some((id, words)) if vocabulary::first(&words) > word => high = id - 1,
                block => {
                    low = middle + 1;
                    found = block.or(found);
                }
            }
        }
        let Some((id, words)) = found else { return Ok(()) };
        vocabulary::without(&words, word).map_or(Ok(()), |rest| replace(db, id, &rest))
    }

    fn write(&mut self, block: &Block, mut writer: BlockWriter) -> Result<(), Fault> {
        writer.finish_block();
        let data = writer.full.pop().unwrap_or_default();
        if data != **block.data {
            replace(self.blocks.db, block.id, &data)?;
            self.blocks.clear();
        }
        Ok(())
    }

    fn correct_totals(&self) -> Result<(), Fault> {
        if self.entries > 0 {
            let sql =
                "UPDATE index_segment SET entries = entries - ?2, words = words - ?3 WHERE id = ?1";
            let mut update = self.blocks.db.prepare_cached(sql)?;
            update.execute((self.segment.id, self.entries, self.words))?;
        }
        Ok(())
    }
}

/// Replaces a block; an empty one is deleted.
fn replace(db: &Connection, id: i64, data: &[u8]) -> Result<(), Fault> {
    if data.is_empty() {
        db.prepare_cached("DELETE FROM index_block WHERE id = ?1")?.execute([id])?;
    } else {
        db.prepare_cached("UPDATE index_block SET data = ?2 WHERE id = ?1")?.execute((id, data))?;
    }
    Ok(())
}
