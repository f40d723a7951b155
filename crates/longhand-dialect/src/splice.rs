//! Byte edits to a source.

use std::ops::Range;

/// Replacements, insertions and removals, in any order.
#[derive(Default)]
pub(crate) struct Splices(Vec<(Range<usize>, String)>);

impl Splices {
    pub(crate) fn replace(&mut self, range: Range<usize>, with: String) {
        self.0.push((range, with));
    }

    pub(crate) fn insert(&mut self, at: usize, text: String) {
        self.0.push((at..at, text));
    }

    /// Takes elements out of a list together with one separator each; `instead` puts something in the
    /// place of some of them.
    pub(crate) fn remove(
        &mut self,
        list: &[Range<usize>],
        gone: &[bool],
        instead: &[(usize, String)],
    ) {
        let mut at = 0;
        while at < list.len() {
            if !gone[at] {
                at += 1;
                continue;
            }
            let first = at;
            while at < list.len() && gone[at] {
                at += 1;
            }
            let whole = list[first].start..list[at - 1].end;
            let with = instead.iter().find(|(index, _)| (first..at).contains(index));
            let (range, with) = match (with, first.checked_sub(1), list.get(at)) {
                (Some((_, with)), ..) => (whole, with.clone()),
                (None, Some(before), _) => (list[before].end..whole.end, String::new()),
                (None, None, Some(after)) => (whole.start..after.start, String::new()),
                (None, None, None) => (whole, String::new()),
            };
            self.replace(range, with);
        }
    }

    /// Writes the source with all edits; one that begins inside another is covered by it.
    pub(crate) fn apply(mut self, source: &str) -> String {
        self.0.sort_by_key(|(range, _)| (range.start, range.end));
        write(&self.0, source, 0..source.len())
    }

    /// Writes a range of the source with the edits in it.
    pub(crate) fn apply_within(&self, source: &str, within: Range<usize>) -> String {
        let inside = |range: &Range<usize>| within.start <= range.start && range.end <= within.end;
        let mut edits: Vec<_> = self.0.iter().filter(|(range, _)| inside(range)).cloned().collect();
        edits.sort_by_key(|(range, _)| (range.start, range.end));
        write(&edits, source, within)
    }
}

fn write(edits: &[(Range<usize>, String)], source: &str, within: Range<usize>) -> String {
    let mut out = String::with_capacity(4_096);
    let mut at = within.start;
    for (range, text) in edits {
        if range.start < at {
            continue;
        }
        out.push_str(&source[at..range.start]);
        out.push_str(text);
        at = range.end;
    }
    out.push_str(&source[at..within.end]);
    out
}
