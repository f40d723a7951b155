//! Byte edits to a source.

use std::ops::Range;

/// Replacements, insertions and removals, in any order.
#[derive(Default)]
pub(crate) struct Splices(Vec<Splice>);

/// A range of the source and what takes its place.
#[derive(Clone)]
struct Splice {
    range: Range<usize>,
    text: String,
    /// Whether it takes out elements of a list, and with them all edits to them.
    is_removal: bool,
}

impl Splices {
    pub(crate) fn replace(&mut self, range: Range<usize>, with: String) {
        self.0.push(Splice { range, text: with, is_removal: false });
    }

    pub(crate) fn insert(&mut self, at: usize, text: String) {
        self.replace(at..at, text);
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
            let removed = list[first].start..list[at - 1].end;
            let with = instead.iter().find(|(index, _)| (first..at).contains(index));
            let (range, text) = match (with, first.checked_sub(1), list.get(at)) {
                (Some((_, with)), ..) => (removed, with.clone()),
                (None, Some(before), _) => (list[before].end..removed.end, String::new()),
                (None, None, Some(after)) => (removed.start..after.start, String::new()),
                (None, None, None) => (removed, String::new()),
            };
            self.0.push(Splice { range, text, is_removal: true });
        }
    }

    /// Writes the source with all edits.
    ///
    /// An edit inside the range of another is dropped. Two edits that only touch both apply. An insertion goes after
    /// an edit that ends at its position and before one that begins there.
    pub(crate) fn apply(self, source: &str) -> String {
        write(self.0, source, 0..source.len())
    }

    /// Writes a range of the source with the edits in it.
    pub(crate) fn apply_within(&self, source: &str, within: Range<usize>) -> String {
        let inside =
            |edit: &&Splice| within.start <= edit.range.start && edit.range.end <= within.end;
        let edits = self.0.iter().filter(inside).cloned().collect();
        write(edits, source, within)
    }
}

fn write(mut edits: Vec<Splice>, source: &str, within: Range<usize>) -> String {
    // What covers others comes first, but for insertions, which nothing at their place covers. The sort is
    // stable: insertions at one place keep their order.
    edits.sort_by_key(|Splice { range, is_removal, .. }| {
        (range.start, !range.is_empty(), within.end.saturating_sub(range.end), !is_removal)
    });
    let mut out = String::with_capacity(4_096);
    let mut at = within.start;
    for Splice { range, text, .. } in edits {
        if range.start < at && range.end <= at {
            continue;
        }
        out.push_str(&source[at.min(range.start)..range.start]);
        out.push_str(&text);
        at = at.max(range.end);
    }
    out.push_str(&source[at..within.end]);
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An element of a list and what happens to it.
    #[derive(Clone, Debug)]
    struct Element {
        text: String,
        /// What stands before it, but for the first.
        separator: &'static str,
        is_gone: bool,
        /// A range of it that is replaced, in bytes.
        stub: Option<(usize, usize)>,
        insert_before: bool,
        insert_after: bool,
    }

    fn element() -> impl Strategy<Value = Element> {
        let separator = prop::sample::select(vec![",", ", ", "\n", " ,\n"]);
        let stub = prop::option::of((0..9usize, 0..9usize));
        ("[a-z]{1,8}", separator, any::<bool>(), stub, any::<[bool; 2]>()).prop_map(
            |(text, separator, is_gone, stub, inserts)| {
                let [insert_before, insert_after] = inserts;
                // A removed element is nobody's to insert at.
                let (insert_before, insert_after) =
                    (insert_before && !is_gone, insert_after && !is_gone);
                let stub = stub.map(|(start, length)| {
                    let start = start.min(text.len() - 1);
                    (start, (start + 1 + length).min(text.len()))
                });
                Element { text, separator, is_gone, stub, insert_before, insert_after }
            },
        )
    }

    /// The list as it should come out: every element by itself, with what stood before it in the source.
    fn naive(elements: &[Element], instead: Option<usize>) -> String {
        let mut out = String::from("[ ");
        let mut is_first = true;
        let mut add = |element: &Element, text: &str| {
            if !std::mem::take(&mut is_first) {
                out.push_str(element.separator);
            }
            out.push_str(text);
        };
        let mut at = 0;
        while let Some(element) = elements.get(at) {
            let gone = elements[at..].iter().take_while(|element| element.is_gone).count();
            if gone > 0 {
                if instead.is_some_and(|instead| (at..at + gone).contains(&instead)) {
                    add(element, "INSTEAD");
                }
                at += gone;
                continue;
            }
            let mut text = element.text.clone();
            if let Some((start, end)) = element.stub {
                text.replace_range(start..end, "STUB");
            }
            let before = if element.insert_before { "BEFORE" } else { "" };
            let after = if element.insert_after { "AFTER" } else { "" };
            add(element, &format!("{before}{text}{after}"));
            at += 1;
        }
        out + " ]"
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn edits_that_touch_all_apply(
            elements in prop::collection::vec(element(), 1..12),
            instead in prop::option::of(0..12usize),
            order in Just([0, 1, 2]).prop_shuffle(),
        ) {
            let instead = instead.filter(|at| elements.get(*at).is_some_and(|element| element.is_gone));
            let mut source = String::from("[ ");
            let mut list = Vec::new();
            for (at, element) in elements.iter().enumerate() {
                source.push_str(if at > 0 { element.separator } else { "" });
                list.push(source.len()..source.len() + element.text.len());
                source.push_str(&element.text);
            }
            source.push_str(" ]");
            let gone: Vec<bool> = elements.iter().map(|element| element.is_gone).collect();
            let mut splices = Splices::default();
            for kind in order {
                if kind == 0 {
                    splices.remove(&list, &gone, &instead.map(|at| (at, "INSTEAD".to_owned())).into_iter().collect::<Vec<_>>());
                }
                for (element, span) in elements.iter().zip(&list) {
                    if let Some((start, end)) = element.stub.filter(|_| kind == 1) {
                        splices.replace(span.start + start..span.start + end, "STUB".to_owned());
                    }
                    if kind == 2 && element.insert_before {
                        splices.insert(span.start, "BEFORE".to_owned());
                    }
                    if kind == 2 && element.insert_after {
                        splices.insert(span.end, "AFTER".to_owned());
                    }
                }
            }
            prop_assert_eq!(splices.apply_within(&source, 0..source.len()), naive(&elements, instead));
            prop_assert_eq!(splices.apply(&source), naive(&elements, instead));
        }
    }

    #[test]
    fn removals_that_overlap_are_one() {
        let mut splices = Splices::default();
        splices.replace(4..8, String::new());
        splices.replace(2..6, String::new());
        splices.replace(3..5, "inside".to_owned());
        splices.insert(8, "x".to_owned());
        assert_eq!(splices.apply("0123456789"), "01x89");
    }
}
