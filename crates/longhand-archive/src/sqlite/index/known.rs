//! Which terms a segment has of those that are sought, and how many entries have them.

use std::collections::BTreeMap;

use longhand_recall::{KnownTerm, SoughtTerms, TermRange, is_opaque};
use memchr::memmem::Finder;

use super::block::{BlockReader, mark};
use super::cursor::Cursor;
use super::find::{Node, seek_all};
use super::segment::{Blocks, Segment, Stream, damaged};
use super::vocabulary;
use crate::sqlite::fault::Fault;

/// The most chunks that are looked through for ids with a beginning.
const CHUNKS_MAX: usize = 16_384;
/// Of one segment, no more entries of a session are counted.
const COUNTED_MAX: u64 = 4_096;

/// How many entries of the segments have each of the terms that are sought; those that have one of the marks, if there
/// are any.
pub(in crate::sqlite) fn known(
    blocks: &mut Blocks<'_>,
    segments: &[Segment],
    sought: &SoughtTerms,
    marks: Option<&[Vec<u8>]>,
) -> Result<Vec<KnownTerm>, Fault> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for segment in segments {
        if let Some(marks) = marks
            && !has_any(blocks, segment, marks)?
        {
            continue;
        }
        for term in sought.keep(terms(blocks, segment, sought)?) {
            let entries = count(blocks, segment, &term, marks)?;
            *counts.entry(term).or_default() += entries;
        }
    }
    let known = counts.into_iter().filter(|(_, entries)| *entries > 0);
    Ok(known.map(|(term, entries)| KnownTerm { term, entries }).collect())
}

/// How many entries have one of the marks, and how many words these have; of very many, the newest of each segment.
pub(in crate::sqlite) fn totals_of(
    blocks: &mut Blocks<'_>,
    segments: &[Segment],
    marks: &[Vec<u8>],
) -> Result<(u64, u64), Fault> {
    let (mut entries, mut words) = (0, 0);
    for segment in segments {
        let mut nodes = [any(marks)];
        let mut lengths = Cursor::new(vec![mark::LENGTH]);
        let (mut next, mut left) = (Some(segment.end()), COUNTED_MAX);
        while left > 0
            && let Some(doc) = next
            && let Some(found) = seek_all(&mut nodes, blocks, segment, doc)?
        {
            left -= 1;
            entries += 1;
            if lengths.seek(blocks, segment, found)? == Some(found) {
                let length = lengths.posting(found)?.map_or(0, |(length, _)| length);
                words += length.max(0).cast_unsigned();
            }
            next = found.checked_sub(1);
        }
    }
    Ok((entries, words))
}

fn any(marks: &[Vec<u8>]) -> Node {
    Node::Any(marks.iter().map(|mark| Node::Term(Cursor::new(mark.clone()))).collect())
}

fn has_any(blocks: &mut Blocks<'_>, segment: &Segment, marks: &[Vec<u8>]) -> Result<bool, Fault> {
    for mark in marks {
        if Cursor::new(mark.clone()).seek(blocks, segment, segment.end())?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn count(
    blocks: &mut Blocks<'_>,
    segment: &Segment,
    term: &str,
    marks: Option<&[Vec<u8>]>,
) -> Result<u64, Fault> {
    let mut cursor = Cursor::new(term.as_bytes().to_vec());
    let Some(marks) = marks else { return cursor.count(blocks, segment) };
    if cursor.count(blocks, segment)? == 0 {
        return Ok(0);
    }
    let mut nodes = [any(marks), Node::Term(cursor)];
    let (mut count, mut next) = (0, Some(segment.end()));
    while count < COUNTED_MAX
        && let Some(doc) = next
        && let Some(found) = seek_all(&mut nodes, blocks, segment, doc)?
    {
        count += 1;
        next = found.checked_sub(1);
    }
    Ok(count)
}

/// The terms of a segment that are sought.
fn terms(
    blocks: &mut Blocks<'_>,
    segment: &Segment,
    sought: &SoughtTerms,
) -> Result<Vec<String>, Fault> {
    let mut terms = Vec::new();
    let mut take = |term: &[u8]| {
        let term = str::from_utf8(term).ok().filter(|term| sought.weight(term).is_some());
        terms.extend(term.map(str::to_owned));
    };
    for range in sought.ranges() {
        match range {
            TermRange::Term(term) => take(term.as_bytes()),
            TermRange::Beginning(beginning) => {
                each_word(blocks, segment, beginning.as_bytes(), &mut take)?;
            }
            TermRange::Inside(word) => each_around(blocks, segment, word, &mut take)?,
            TermRange::IdBeginning(beginning) => {
                each_term(blocks, segment, beginning.as_bytes(), &mut take)?;
            }
        }
    }
    Ok(terms)
}

/// Goes through the words that begin so and are not opaque.
fn each_word(
    blocks: &mut Blocks<'_>,
    segment: &Segment,
    beginning: &[u8],
    take: &mut dyn FnMut(&[u8]),
) -> Result<(), Fault> {
    if segment.vocabulary > 0 {
        return each_in_vocabulary(blocks, segment, beginning, take);
    }
    each_term(blocks, segment, beginning, &mut |term| {
        if str::from_utf8(term).is_ok_and(|term| !is_opaque(term)) {
            take(term);
        }
    })
}

/// Goes through the words that have another one inside and are not opaque.
pub(super) fn each_around(
    blocks: &mut Blocks<'_>,
    segment: &Segment,
    word: &str,
    take: &mut dyn FnMut(&[u8]),
) -> Result<(), Fault> {
    let finder = Finder::new(word);
    if segment.vocabulary == 0 {
        let mut block = blocks.find(segment, &[mark::WORDS], 0)?;
        if block.is_none() {
            block = blocks.after(segment, segment.block_ids().start - 1)?;
        }
        while let Some(current) = block {
            let mut reader = BlockReader::new(&current.data);
            while reader.next().is_some() {
                // Marks come before words. A term with several chunks is taken as often.
                if reader.term.len() >= word.len()
                    && reader.term.first().is_some_and(|first| *first >= mark::WORDS)
                    && finder.find(&reader.term).is_some()
                    && str::from_utf8(&reader.term).is_ok_and(|term| !is_opaque(term))
                {
                    take(&reader.term);
                }
            }
            block = blocks.after(segment, current.id)?;
        }
        return Ok(());
    }
    let first = segment.vocabulary_id(0);
    let mut select =
        blocks.db.prepare_cached("SELECT data FROM index_block WHERE id >= ?1 AND id < ?2")?;
    let mut rows = select.query((first, first + segment.vocabulary))?;
    while let Some(row) = rows.next()? {
        let words = row.get_ref(0)?.as_blob().map_err(|_| damaged())?;
        let mut from = 0;
        while let Some(at) = finder.find(&words[from..]) {
            let (start, end) = vocabulary::word_at(words, from + at);
            take(&words[start..end]);
            from = end;
        }
    }
    Ok(())
}

/// Goes through the terms that begin so, among their entries: slower, but opaque ones are there, too.
fn each_term(
    blocks: &mut Blocks<'_>,
    segment: &Segment,
    beginning: &[u8],
    take: &mut dyn FnMut(&[u8]),
) -> Result<(), Fault> {
    let from = if beginning.is_empty() { &[mark::WORDS] } else { beginning };
    let mut stream = Stream::new(blocks, segment.clone(), from, true)?;
    let mut before: Vec<u8> = Vec::new();
    let mut left = CHUNKS_MAX;
    while let Some(item) = stream.peek(blocks)?
        && item.term.starts_with(beginning)
        && left > 0
    {
        if item.term != before {
            before.clear();
            before.extend_from_slice(item.term);
            take(item.term);
            left -= 1;
        }
        stream.advance();
    }
    Ok(())
}

fn each_in_vocabulary(
    blocks: &mut Blocks<'_>,
    segment: &Segment,
    beginning: &[u8],
    take: &mut dyn FnMut(&[u8]),
) -> Result<(), Fault> {
    let (first, end) = (segment.vocabulary_id(0), segment.vocabulary_id(segment.vocabulary));
    let mut select = blocks.db.prepare_cached(
        "SELECT id, data FROM index_block WHERE id >= ?1 AND id < ?2 ORDER BY id",
    )?;
    // The last block whose first word is not after the beginning.
    let (mut low, mut high) = (first, end);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        let mut rows = select.query((middle, high))?;
        match rows.next()? {
            None => high = middle,
            Some(row) => {
                let words = row.get_ref(1)?.as_blob().map_err(|_| damaged())?;
                if vocabulary::first(words) <= beginning {
                    low = row.get(0)?;
                } else {
                    high = middle;
                }
            }
        }
    }
    let mut rows = select.query((low, end))?;
    while let Some(row) = rows.next()? {
        let words = row.get_ref(1)?.as_blob().map_err(|_| damaged())?;
        for word in vocabulary::words(words) {
            if word.starts_with(beginning) {
                take(word);
            } else if word > beginning {
                return Ok(());
            }
        }
    }
    Ok(())
}
