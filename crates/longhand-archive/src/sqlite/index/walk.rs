//! A way through the entries of a segment that have what a query asks for, with what they have of it.

use longhand_recall::{FoundTerm, Measure, Ranker, Walk};

use super::block::mark;
use super::cursor::Cursor;
use super::find::{Conditions, Node, seek_all_from};
use super::segment::{Blocks, Segment};
use crate::sqlite::fault::Fault;

/// Goes through the entries of a segment on a [`Walk`], the newest first.
pub(in crate::sqlite) struct Walking<'s> {
    segment: &'s Segment,
    nodes: Vec<Node>,
    /// The terms that the segment has, by their numbers.
    terms: Vec<(usize, Cursor)>,
    lengths: Cursor,
    next: Option<u32>,
    /// The oldest entry that it goes back to.
    oldest: u32,
}

/// How many entries of a segment have each term of a ranker.
pub(in crate::sqlite) fn term_counts(
    blocks: &mut Blocks<'_>,
    segment: &Segment,
    ranker: &Ranker,
) -> Result<Vec<u64>, Fault> {
    let terms = ranker.terms().iter();
    terms.map(|term| Cursor::new(bytes(&term.term)).count(blocks, segment)).collect()
}

impl<'s> Walking<'s> {
    /// `None` if the segment has nothing on the way, which is soon known.
    pub(in crate::sqlite) fn new(
        segment: &'s Segment,
        ranker: &Ranker,
        counts: &[u64],
        walk: &Walk,
        conditions: &Conditions,
    ) -> Option<Self> {
        let oldest = match walk.span_max {
            Some(span) if !conditions.is_narrow => conditions.newest.saturating_sub_unsigned(span),
            _ => i64::MIN,
        };
        if conditions.rule_out(segment) || segment.last < oldest {
            return None;
        }
        let cursor = |at: &usize| Cursor::new(bytes(&ranker.terms()[*at].term));
        let mut required: Vec<(u64, Node)> = Vec::new();
        for terms in &walk.required {
            let known: Vec<usize> = terms.iter().copied().filter(|at| counts[*at] > 0).collect();
            if known.is_empty() {
                return None;
            }
            let nodes = known.iter().map(|at| Node::Term(cursor(at))).collect();
            required.push((known.iter().map(|at| counts[*at]).sum(), Node::Any(nodes)));
        }
        // The rarest first: the others are only asked about what it has.
        required.sort_by_key(|(count, _)| *count);
        let mut nodes: Vec<Node> = required.into_iter().map(|(_, node)| node).collect();
        nodes.extend(conditions.marks().chain(conditions.time()));
        if nodes.is_empty() {
            nodes.push(Node::Term(Cursor::new(vec![mark::LENGTH])));
        }
        let known = (0..counts.len()).filter(|at| counts[*at] > 0);
        Some(Self {
            segment,
            nodes,
            terms: known.map(|at| (at, cursor(&at))).collect(),
            lengths: Cursor::new(vec![mark::LENGTH]),
            next: Some(conditions.last(segment)),
            oldest: oldest.saturating_sub(segment.first).clamp(0, i64::from(u32::MAX)) as u32,
        })
    }

    /// The id of the next entry.
    pub(in crate::sqlite) fn next(
        &mut self,
        blocks: &mut Blocks<'_>,
    ) -> Result<Option<i64>, Fault> {
        let Some(doc) = self.next else { return Ok(None) };
        let found = seek_all_from(&mut self.nodes, blocks, self.segment, doc, self.oldest)?;
        self.next = found.and_then(|found| found.checked_sub(1));
        Ok(found.map(|found| self.segment.first + i64::from(found)))
    }

    /// What the entry has that was found last.
    pub(in crate::sqlite) fn measure(
        &mut self,
        blocks: &mut Blocks<'_>,
        id: i64,
    ) -> Result<Measure, Fault> {
        let Some(doc) = self.segment.number(id) else { return Ok(Measure::default()) };
        let mut measure = Measure::default();
        if self.lengths.seek(blocks, self.segment, doc)? == Some(doc) {
            let length = self.lengths.posting(doc)?.map_or(0, |(length, _)| length);
            measure.length = length.max(0).cast_unsigned();
        }
        for (term, cursor) in &mut self.terms {
            if cursor.seek(blocks, self.segment, doc)? == Some(doc)
                && let Some((frequency, places)) = cursor.posting(doc)?
            {
                let frequency = frequency.max(0).cast_unsigned();
                measure.found.push(FoundTerm { term: *term, frequency, places: places.to_vec() });
            }
        }
        Ok(measure)
    }
}

fn bytes(term: &str) -> Vec<u8> {
    term.as_bytes().to_vec()
}
