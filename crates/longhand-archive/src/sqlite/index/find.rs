//! Which entries of a segment a query may find, the newest first.
//!
//! The index may name an entry that the query does not find, but never misses one: what it names is compared.

use std::cmp::Reverse;
use std::rc::Rc;

use longhand_recall::{Needle, Query, Strictness, term, term_beginning};

use super::block::{TOTAL, kind, mark};
use super::chunk::{Chunk, PLACES_OF_ENTRY_MAX};
use super::cursor::Cursor;
use super::known::each_around;
use super::segment::{Blocks, Segment, Stream, damaged};
use super::slice::{frequent_term, pair_term};
use crate::sqlite::fault::Fault;

/// How many parts of a query are looked up; the rest is compared in the entries found.
const NEEDLES_MAX: usize = 32;

/// What an entry must have besides the words.
#[derive(Clone, Debug, Default)]
pub(in crate::sqlite) struct Conditions {
    /// Terms of which it must have one of each list.
    pub(in crate::sqlite) marks: Vec<Vec<Vec<u8>>>,
    /// Whether few entries have the marks, as a rule.
    pub(in crate::sqlite) is_narrow: bool,
    /// The newest entry that counts.
    pub(in crate::sqlite) newest: i64,
    /// From when to when it was said.
    pub(in crate::sqlite) since_ms: Option<i64>,
    pub(in crate::sqlite) before_ms: Option<i64>,
}

impl Conditions {
    /// The times that are wanted; `None` if all are.
    fn times(&self) -> Option<(i64, i64)> {
        let last = self.before_ms.map_or(i64::MAX, |before| before.saturating_sub(1));
        let is_limited = self.since_ms.is_some() || self.before_ms.is_some();
        is_limited.then(|| (self.since_ms.unwrap_or(i64::MIN), last))
    }

    /// Whether no entry of a segment can have what is asked for.
    pub(super) fn rule_out(&self, segment: &Segment) -> bool {
        let is_of_time = self
            .times()
            .is_none_or(|(low, high)| segment.newest_ms >= low && segment.oldest_ms <= high);
        !is_of_time || self.newest < segment.first
    }

    /// What entries must belong to.
    pub(super) fn marks(&self) -> impl Iterator<Item = Node> {
        let term = |mark: &Vec<u8>| Node::Term(Cursor::new(mark.clone()));
        self.marks.iter().map(move |marks| match &marks[..] {
            [mark] => term(mark),
            marks => Node::Any(marks.iter().map(term).collect()),
        })
    }

    /// When entries must have been said.
    pub(super) fn time(&self) -> Option<Node> {
        self.times().map(|times| Node::Time(Cursor::new(vec![mark::TIME]), times))
    }

    /// The number of the newest entry of a segment that counts.
    pub(super) fn last(&self, segment: &Segment) -> u32 {
        segment.end().min((self.newest - segment.first).clamp(0, i64::from(u32::MAX) - 1) as u32)
    }
}

/// Something that entries have, which can be gone through from the newest to the oldest.
pub(super) enum Node {
    Term(Cursor),
    /// Entries with one of many terms, the oldest first.
    Docs(Vec<u32>),
    Phrase(Phrase),
    Any(Vec<Node>),
    Time(Cursor, (i64, i64)),
}

/// Words side by side.
pub(super) struct Phrase {
    words: Vec<Node>,
    pairs: Vec<Pair>,
}

/// Two words side by side: where both are frequent, the index knows which entries have them so.
struct Pair {
    cursor: Cursor,
    slices: Rc<Vec<u32>>,
    /// The slices in which both are frequent.
    frequent: Vec<u32>,
}

/// The entries of a segment that a query may find.
pub(in crate::sqlite) struct Finding<'s> {
    segment: &'s Segment,
    nodes: Vec<Node>,
    /// The number of the newest entry that is still to be looked at; `None` at the end.
    next: Option<u32>,
}

impl<'s> Finding<'s> {
    /// `None` if the segment has none, which is soon known.
    pub(in crate::sqlite) fn new(
        blocks: &mut Blocks<'_>,
        segment: &'s Segment,
        query: &Query,
        strictness: Strictness,
        conditions: &Conditions,
    ) -> Result<Option<Self>, Fault> {
        if conditions.rule_out(segment) {
            return Ok(None);
        }
        let mut nodes = Vec::new();
        let mut maker = NodeMaker { blocks, segment, slices: None };
        let mut needles: Vec<&Needle> = query.needles.iter().take(NEEDLES_MAX).collect();
        // The longest first: most likely it is not there, and the entries of the others are not gathered.
        needles.sort_by_key(|needle| Reverse(needle.phrase.len()));
        for needle in needles {
            let made = match strictness {
                Strictness::Words => maker.needle(needle)?,
                Strictness::Substrings => maker.parts(needle)?,
            };
            match made {
                Made::Nothing => return Ok(None),
                Made::Anything => {}
                Made::Node(count, node) => nodes.push((count, node)),
            }
        }
        // The rarest first: the others are only asked about what it has.
        nodes.sort_by_key(|(count, _)| *count);
        let mut nodes: Vec<Node> = nodes.into_iter().map(|(_, node)| node).collect();
        nodes.splice(0..0, conditions.marks());
        nodes.extend(conditions.time());
        if nodes.is_empty() {
            nodes.push(Node::Term(Cursor::new(vec![mark::LENGTH])));
        }
        let next = Some(conditions.last(segment));
        Ok(Some(Self { segment, nodes, next }))
    }

    /// The id of the next entry.
    pub(in crate::sqlite) fn next(
        &mut self,
        blocks: &mut Blocks<'_>,
    ) -> Result<Option<i64>, Fault> {
        let Some(doc) = self.next else { return Ok(None) };
        let found = seek_all(&mut self.nodes, blocks, self.segment, doc)?;
        self.next = found.and_then(|found| found.checked_sub(1));
        Ok(found.map(|found| self.segment.first + i64::from(found)))
    }
}

/// The newest entry up to one that all nodes have.
pub(super) fn seek_all(
    nodes: &mut [Node],
    blocks: &mut Blocks<'_>,
    segment: &Segment,
    doc: u32,
) -> Result<Option<u32>, Fault> {
    seek_all_from(nodes, blocks, segment, doc, 0)
}

/// The same, if it is not older than the oldest one that is wanted.
pub(super) fn seek_all_from(
    nodes: &mut [Node],
    blocks: &mut Blocks<'_>,
    segment: &Segment,
    mut doc: u32,
    oldest: u32,
) -> Result<Option<u32>, Fault> {
    'again: loop {
        if doc < oldest {
            return Ok(None);
        }
        for node in nodes.iter_mut() {
            match node.seek(blocks, segment, doc)? {
                None => return Ok(None),
                Some(found) if found < doc => {
                    doc = found;
                    continue 'again;
                }
                Some(_) => {}
            }
        }
        return Ok(Some(doc));
    }
}

impl Node {
    fn seek(
        &mut self,
        blocks: &mut Blocks<'_>,
        segment: &Segment,
        doc: u32,
    ) -> Result<Option<u32>, Fault> {
        match self {
            Node::Term(cursor) => cursor.seek(blocks, segment, doc),
            Node::Docs(docs) => {
                let after = docs.partition_point(|known| *known <= doc);
                Ok(after.checked_sub(1).map(|at| docs[at]))
            }
            Node::Phrase(phrase) => phrase.seek(blocks, segment, doc),
            Node::Any(nodes) => {
                let mut newest = None;
                for node in nodes {
                    newest = newest.max(node.seek(blocks, segment, doc)?);
                }
                Ok(newest)
            }
            Node::Time(cursor, times) => cursor.seek_between(blocks, segment, doc, *times),
        }
    }
}

impl Phrase {
    fn seek(
        &mut self,
        blocks: &mut Blocks<'_>,
        segment: &Segment,
        mut doc: u32,
    ) -> Result<Option<u32>, Fault> {
        'again: loop {
            for pair in &mut self.pairs {
                match pair.seek(blocks, segment, doc)? {
                    None => return Ok(None),
                    Some(found) => doc = found,
                }
            }
            let Some(found) = seek_all(&mut self.words, blocks, segment, doc)? else {
                return Ok(None);
            };
            if found < doc {
                doc = found;
                continue 'again;
            }
            if self.is_run(doc)? {
                return Ok(Some(doc));
            }
            match doc.checked_sub(1) {
                Some(before) => doc = before,
                None => return Ok(None),
            }
        }
    }

    /// Whether the words may stand side by side in an entry: each in the place after the one before, or, for parts of a
    /// name, in the same.
    fn is_run(&mut self, doc: u32) -> Result<bool, Fault> {
        let mut ends: Option<(Vec<u32>, Vec<u8>)> = None;
        for word in &mut self.words {
            // What a word begins with may be in any place.
            let Node::Term(cursor) = word else { return Ok(true) };
            let term = cursor.term().to_vec();
            let Some((count, places)) = cursor.posting(doc)? else { return Ok(true) };
            if count > PLACES_OF_ENTRY_MAX {
                return Ok(true);
            }
            let places = match ends {
                None => places.to_vec(),
                Some((before, term_before)) => {
                    let is_next = |place: &&u32| {
                        let has = |wanted: u32| before.binary_search(&wanted).is_ok();
                        place.checked_sub(1).is_some_and(has)
                            || (term_before != term && has(**place))
                    };
                    places.iter().filter(is_next).copied().collect()
                }
            };
            if places.is_empty() {
                return Ok(false);
            }
            ends = Some((places, term));
        }
        Ok(true)
    }
}

impl Pair {
    fn seek(
        &mut self,
        blocks: &mut Blocks<'_>,
        segment: &Segment,
        mut doc: u32,
    ) -> Result<Option<u32>, Fault> {
        loop {
            let after = self.slices.partition_point(|start| *start <= doc);
            let Some(start) = after.checked_sub(1).map(|at| self.slices[at]) else {
                return Ok(Some(doc));
            };
            if self.frequent.binary_search(&start).is_err() {
                return Ok(Some(doc));
            }
            if let Some(found) = self.cursor.seek(blocks, segment, doc)?.filter(|at| *at >= start) {
                return Ok(Some(found));
            }
            match start.checked_sub(1) {
                Some(before) => doc = before,
                None => return Ok(None),
            }
        }
    }
}

/// What became of a part of a query.
enum Made {
    /// No entry of the segment has it.
    Nothing,
    /// The index does not tell.
    Anything,
    /// Some entries have it, and about so many.
    Node(u64, Node),
}

struct NodeMaker<'m, 'd> {
    blocks: &'m mut Blocks<'d>,
    segment: &'m Segment,
    /// Where slices begin.
    slices: Option<Rc<Vec<u32>>>,
}

impl NodeMaker<'_, '_> {
    /// Entries with the words of a needle.
    fn needle(&mut self, needle: &Needle) -> Result<Made, Fault> {
        if needle.readings.is_empty() {
            return Ok(Made::Anything);
        }
        let mut nodes = Vec::new();
        let mut total = 0;
        for reading in &needle.readings {
            if let Made::Node(count, node) = self.reading(reading, needle.is_prefix)? {
                total += count;
                nodes.push(node);
            }
        }
        Ok(one_of(total, nodes))
    }

    fn reading(&mut self, words: &[String], is_prefix: bool) -> Result<Made, Fault> {
        let mut nodes = Vec::new();
        let mut rarest = u64::MAX;
        let terms: Vec<Vec<u8>> = words.iter().map(|word| term(word).as_bytes().to_vec()).collect();
        for (at, word) in words.iter().enumerate() {
            let is_open = is_prefix && at + 1 == words.len();
            let (count, node) = if is_open {
                let docs = self.docs_beginning(term_beginning(word).as_bytes())?;
                (docs.len() as u64, Node::Docs(docs))
            } else {
                let mut cursor = Cursor::new(terms[at].clone());
                (cursor.count(self.blocks, self.segment)?, Node::Term(cursor))
            };
            if count == 0 {
                return Ok(Made::Nothing);
            }
            rarest = rarest.min(count);
            nodes.push(node);
        }
        if nodes.len() == 1 {
            return Ok(nodes.pop().map_or(Made::Nothing, |node| Made::Node(rarest, node)));
        }
        let mut pairs = Vec::new();
        let closed = if is_prefix { &terms[..terms.len() - 1] } else { &terms };
        for pair in closed.windows(2) {
            pairs.extend(self.pair(&pair[0], &pair[1])?);
        }
        Ok(Made::Node(rarest, Node::Phrase(Phrase { words: nodes, pairs })))
    }

    /// What is known of two words side by side; `None` if they are frequent nowhere.
    fn pair(&mut self, one: &[u8], other: &[u8]) -> Result<Option<Pair>, Fault> {
        let frequent = self.docs_of(&frequent_term(one))?;
        if frequent.is_empty() {
            return Ok(None);
        }
        let of_other = self.docs_of(&frequent_term(other))?;
        let is_both = |start: &u32| of_other.binary_search(start).is_ok();
        let frequent: Vec<u32> = frequent.into_iter().filter(is_both).collect();
        if frequent.is_empty() {
            return Ok(None);
        }
        let slices = match &self.slices {
            Some(slices) => Rc::clone(slices),
            None => Rc::new(self.docs_of(&[mark::FREQUENT])?),
        };
        self.slices = Some(Rc::clone(&slices));
        let cursor = Cursor::new(pair_term(one, other));
        Ok(Some(Pair { cursor, slices, frequent }))
    }

    /// All entries of a term, the oldest first.
    fn docs_of(&mut self, term: &[u8]) -> Result<Vec<u32>, Fault> {
        let mut cursor = Cursor::new(term.to_vec());
        let mut docs = Vec::new();
        let mut next = Some(TOTAL - 1);
        while let Some(doc) = next
            && let Some(found) = cursor.seek(self.blocks, self.segment, doc)?
        {
            docs.push(found);
            next = found.checked_sub(1);
        }
        docs.reverse();
        Ok(docs)
    }

    /// Entries with words that begin so, the oldest first.
    fn docs_beginning(&mut self, beginning: &[u8]) -> Result<Vec<u32>, Fault> {
        let mut stream = Stream::new(self.blocks, self.segment.clone(), beginning, true)?;
        let mut docs = Vec::new();
        while let Some(item) = stream.peek(self.blocks)?
            && item.term.starts_with(beginning)
        {
            if item.first != TOTAL {
                let chunk = Chunk::decode(kind(item.term), item.first, item.bytes);
                docs.extend(chunk.ok_or_else(damaged)?.docs);
            }
            stream.advance();
        }
        docs.sort_unstable();
        docs.dedup();
        Ok(docs)
    }

    /// Entries that may have the text of a needle inside of words.
    fn parts(&mut self, needle: &Needle) -> Result<Made, Fault> {
        let Some(words) = needle.readings.first() else { return Ok(Made::Anything) };
        let mut nodes = Vec::new();
        let mut rarest = u64::MAX;
        let last = words.len() - 1;
        for (at, word) in words.iter().enumerate() {
            let docs = match at {
                // A word in the middle is whole, and the last one at least begins a word.
                _ if at > 0 && at < last => self.docs_of(term(word).as_bytes())?,
                _ if at > 0 => self.docs_beginning(term_beginning(word).as_bytes())?,
                _ => self.docs_around(word, last > 0)?,
            };
            if docs.is_empty() {
                return Ok(Made::Nothing);
            }
            rarest = rarest.min(docs.len() as u64);
            nodes.push(Node::Docs(docs));
        }
        if nodes.len() == 1 {
            return Ok(nodes.pop().map_or(Made::Nothing, |node| Made::Node(rarest, node)));
        }
        let phrase = Phrase { words: nodes, pairs: Vec::new() };
        Ok(Made::Node(rarest, Node::Phrase(phrase)))
    }

    /// Entries with words that have this inside, or at their end.
    fn docs_around(&mut self, word: &str, is_end: bool) -> Result<Vec<u32>, Fault> {
        // Of opaque words, beginnings are found.
        let mut docs = if is_end {
            self.docs_of(term(word).as_bytes())?
        } else {
            self.docs_beginning(term_beginning(word).as_bytes())?
        };
        for term in self.terms_around(word, is_end)? {
            docs.extend(self.docs_of(&term)?);
        }
        docs.sort_unstable();
        docs.dedup();
        Ok(docs)
    }

    /// The terms that are not opaque and have a word inside, but not at their beginning; or at their end, if they are not
    /// the word.
    fn terms_around(&mut self, word: &str, is_end: bool) -> Result<Vec<Vec<u8>>, Fault> {
        let mut terms = Vec::new();
        each_around(self.blocks, self.segment, word, &mut |term| {
            let is_end_of = || term.ends_with(word.as_bytes()) && term != word.as_bytes();
            if if is_end { is_end_of() } else { !term.starts_with(word.as_bytes()) } {
                terms.push(term.to_vec());
            }
        })?;
        terms.dedup();
        Ok(terms)
    }
}

/// Entries that one of the nodes has.
fn one_of(count: u64, mut nodes: Vec<Node>) -> Made {
    match nodes.len() {
        0 => Made::Nothing,
        1 => nodes.pop().map_or(Made::Nothing, |node| Made::Node(count, node)),
        _ => Made::Node(count, Node::Any(nodes)),
    }
}
