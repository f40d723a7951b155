//! Taking an entry out of the index.
//!
//! Only the blocks that have something of it are written anew. A word that no entry has any more is gone from the file.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension as _};

use super::block::{BlockReader, BlockWriter, TOTAL, kind, mark};
use super::chunk::Chunk;
use super::cursor::Cursor;
use super::segment::{self, Block, Blocks, Segment, Stream, damaged};
use super::slice::{frequent_term, pair_term};
use super::vocabulary;
use crate::number::{push_number, take_number};
use crate::sqlite::fault::Fault;
use crate::terms::term;
use crate::words::Folded;

/// Takes an entry out of all segments. `marks` may have more terms than it has.
pub(in crate::sqlite) fn forget(
    db: &Connection,
    id: i64,
    marks: &[Vec<u8>],
    text: &str,
) -> Result<(), Fault> {
    let segments = segment::all(db)?;
    let mut of_entry: Vec<&Segment> =
        segments.iter().filter(|segment| segment.number(id).is_some()).collect();
    of_entry.sort_by_key(|segment| segment.id);
    if of_entry.is_empty() {
        return Ok(());
    }
    let terms = EntryTerms::of(text);
    let mut blocks = Blocks::new(db);
    for segment in of_entry {
        let Some(doc) = segment.number(id) else { continue };
        let mut eraser = Eraser { blocks: &mut blocks, segment, doc };
        for mark in marks {
            eraser.erase(mark)?;
        }
        eraser.erase(&[mark::LENGTH])?;
        eraser.erase(&[mark::TIME])?;
        // As long as their words are there: see below.
        eraser.erase_pairs(&terms.pairs)?;
        for word in &terms.words {
            if eraser.erase(word)? {
                eraser.erase_word(word)?;
            }
        }
        db.prepare_cached(
            "UPDATE index_segment SET entries = entries - 1, words = words - ?2 WHERE id = ?1",
        )?
        .execute((segment.id, terms.length))?;
    }
    Ok(())
}

/// The terms of an entry, and which of them follow one another.
struct EntryTerms {
    words: BTreeSet<Vec<u8>>,
    pairs: BTreeSet<(Vec<u8>, Vec<u8>)>,
    length: i64,
}

impl EntryTerms {
    fn of(text: &str) -> Self {
        let mut terms = Self { words: BTreeSet::new(), pairs: BTreeSet::new(), length: 0 };
        let folded = Folded::of(text);
        let mut before: Vec<Vec<u8>> = Vec::new();
        for word in folded.words() {
            terms.length += 1;
            let bytes = |word: &str| term(word).as_bytes().to_vec();
            let parts: Vec<Vec<u8>> = word.parts().map(|(_, part)| bytes(part)).collect();
            let whole = bytes(word.text);
            for pair in parts.windows(2) {
                terms.pairs.insert((pair[0].clone(), pair[1].clone()));
            }
            for one in &before {
                for other in std::iter::once(&whole).chain(parts.first()) {
                    terms.pairs.insert((one.clone(), other.clone()));
                }
            }
            before = std::iter::once(&whole).chain(parts.last()).cloned().collect();
            terms.words.extend(parts);
            terms.words.insert(whole);
        }
        terms
    }
}

/// Takes one entry out of one segment.
struct Eraser<'e, 'd> {
    blocks: &'e mut Blocks<'d>,
    segment: &'e Segment,
    doc: u32,
}

impl Eraser<'_, '_> {
    /// Erases that a term is in the entry; returns whether no entry of the segment has it any more.
    fn erase(&mut self, term: &[u8]) -> Result<bool, Fault> {
        let Some(block) = self.blocks.find(self.segment, term, self.doc)? else {
            return Ok(false);
        };
        let doc = self.doc;
        let mut has_erased = false;
        self.rewrite(&block, |found, first, bytes| {
            if found != term || first > doc {
                return Ok(Some((first, bytes.to_vec())));
            }
            let chunk = Chunk::decode(kind(term), first, bytes).ok_or_else(damaged)?;
            let Some(rest) = chunk.without(doc) else { return Ok(Some((first, bytes.to_vec()))) };
            has_erased = true;
            Ok((!rest.is_empty()).then(|| (rest.docs[0], rest.encode(kind(term)))))
        })?;
        if !has_erased {
            return Ok(false);
        }
        self.count_down(term)?;
        let mut cursor = Cursor::new(term.to_vec());
        Ok(cursor.seek(self.blocks, self.segment, TOTAL - 1)?.is_none())
    }

    /// Corrects how many entries have a term, where that is written.
    fn count_down(&mut self, term: &[u8]) -> Result<(), Fault> {
        let Some(block) = self.blocks.find(self.segment, term, TOTAL)? else { return Ok(()) };
        self.rewrite(&block, |found, first, mut bytes| {
            if found != term || first != TOTAL {
                return Ok(Some((first, bytes.to_vec())));
            }
            let total = take_number(&mut bytes).ok_or_else(damaged)?.saturating_sub(1);
            let mut bytes = Vec::new();
            push_number(&mut bytes, total);
            Ok((total > 0).then_some((first, bytes)))
        })
    }

    /// Erases a word that no entry has any more from where it stands besides.
    fn erase_word(&mut self, word: &[u8]) -> Result<(), Fault> {
        let frequent = frequent_term(word);
        while let Some(block) = self.blocks.find(self.segment, &frequent, TOTAL)?
            && has_term(&block, &frequent)
        {
            self.rewrite(&block, |found, first, bytes| {
                Ok((found != frequent).then(|| (first, bytes.to_vec())))
            })?;
        }
        self.erase_from_vocabulary(word)
    }

    fn erase_from_vocabulary(&mut self, word: &[u8]) -> Result<(), Fault> {
        let first = self.segment.vocabulary_id(0);
        let (mut low, mut high) = (first, first + self.segment.vocabulary - 1);
        let mut found: Option<(i64, Vec<u8>)> = None;
        let db = self.blocks.db;
        while low <= high {
            let middle = low + (high - low) / 2;
            let block: Option<(i64, Vec<u8>)> = db
                .prepare_cached(
                    "SELECT id, data FROM index_block WHERE id <= ?1 AND id >= ?2 \
                     ORDER BY id DESC LIMIT 1",
                )?
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
        match vocabulary::without(&words, word) {
            None => Ok(()),
            Some(rest) => write(db, id, &rest),
        }
    }

    /// Erases the pairs of words that are frequent somewhere: there are no others.
    fn erase_pairs(&mut self, pairs: &BTreeSet<(Vec<u8>, Vec<u8>)>) -> Result<(), Fault> {
        let mut frequent = BTreeSet::new();
        let mut stream = Stream::new(self.blocks, self.segment.clone(), &[mark::FREQUENT], false)?;
        while let Some(item) = stream.peek(self.blocks)?
            && item.term.first() == Some(&mark::FREQUENT)
        {
            frequent.insert(item.term[1..].to_vec());
            stream.advance();
        }
        for (one, other) in pairs {
            if frequent.contains(one) && frequent.contains(other) {
                self.erase(&pair_term(one, other))?;
            }
        }
        Ok(())
    }

    /// Writes a block anew with what is to become of each of its chunks.
    fn rewrite(
        &mut self,
        block: &Block,
        mut change: impl FnMut(&[u8], u32, &[u8]) -> Result<Option<(u32, Vec<u8>)>, Fault>,
    ) -> Result<(), Fault> {
        let mut writer = BlockWriter::unlimited();
        let mut reader = BlockReader::new(&block.data);
        while let Some(item) = reader.next() {
            if let Some((first, bytes)) = change(&reader.term, item.first, item.bytes)? {
                writer.add(&reader.term, first, &bytes);
            }
        }
        writer.finish_block();
        let data = writer.full.pop().unwrap_or_default();
        if data != **block.data {
            write(self.blocks.db, block.id, &data)?;
            self.blocks.clear();
        }
        Ok(())
    }
}

fn has_term(block: &Block, term: &[u8]) -> bool {
    let mut reader = BlockReader::new(&block.data);
    while reader.next().is_some() {
        if reader.term == term {
            return true;
        }
    }
    false
}

/// Replaces a block; an empty one is deleted.
fn write(db: &Connection, id: i64, data: &[u8]) -> Result<(), Fault> {
    if data.is_empty() {
        db.prepare_cached("DELETE FROM index_block WHERE id = ?1")?.execute([id])?;
    } else {
        db.prepare_cached("UPDATE index_block SET data = ?2 WHERE id = ?1")?.execute((id, data))?;
    }
    Ok(())
}
