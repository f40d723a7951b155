//! What a window still shows of a conversation.

use rustc_hash::FxHashSet;

use crate::edit::{Batch, Edit, Fold, Place, Seq};
use crate::project::shown_edits;
use crate::{Message, Part};

/// What a window shows and what it leaves out, by its live batches.
///
/// It is made once for a window; each question is answered without going through the batches again.
#[derive(Clone, Debug, Default)]
pub struct InView<'b> {
    fold: Option<&'b Fold>,
    stubbed: FxHashSet<Place>,
    inserts: Vec<(Seq, &'b str)>,
}

impl<'b> InView<'b> {
    /// What a window of these batches shows, oldest batch first.
    pub fn of(live: &'b [Batch]) -> Self {
        let mut view = Self::default();
        for edit in shown_edits(live) {
            match edit {
                Edit::Fold(fold) => view.fold = Some(fold),
                Edit::Stub { at, .. } => _ = view.stubbed.insert(*at),
                Edit::Insert { after, text } => view.inserts.push((*after, text)),
                Edit::Clip { .. } => {}
            }
        }
        view
    }

    /// Whether it shows every message.
    pub fn is_complete(&self) -> bool {
        self.fold.is_none() && self.stubbed.is_empty()
    }

    /// Whether nothing is left in view of what a message says. Of a clipped one something is.
    pub fn hides(&self, entry: Seq, message: &Message) -> bool {
        let is_stubbed = |(at, _): (usize, &Part)| {
            self.stubbed.contains(&Place { entry, part: message.said_before(at) })
        };
        let mut said = message.parts.iter().enumerate().filter(|(_, part)| !part.is_thinking());
        self.is_folded(entry) || (!self.stubbed.is_empty() && said.all(is_stubbed))
    }

    /// Whether an entry is folded. The ranges of a fold are in order.
    pub fn is_folded(&self, entry: Seq) -> bool {
        self.fold.is_some_and(|fold| {
            let after = fold.spans.partition_point(|span| span.first <= entry);
            after.checked_sub(1).is_some_and(|at| fold.spans[at].contains(entry))
        })
    }

    /// The block of the fold.
    pub fn block(&self) -> Option<&'b str> {
        self.fold.map(|fold| fold.text.as_str())
    }

    /// The inserted texts, each with the entry that it follows.
    pub fn inserts(&self) -> impl Iterator<Item = (Seq, &'b str)> {
        self.inserts.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Handle, Role, Span, Text};

    fn message(parts: usize) -> Message {
        let parts = (0..parts).map(|part| Part::Text(Text::from(part.to_string()))).collect();
        Message::new(Role::User, None, parts, Text::from("{}"))
    }

    fn stub(entry: u64, part: usize) -> Edit {
        let at = Place { entry: Seq(entry), part };
        Edit::Stub { at, handle: Handle::of(["x"]), text: "[x]".to_owned() }
    }

    #[test]
    fn what_is_folded_or_all_stubbed_is_hidden() {
        let span = |first, last| Span { first: Seq(first), last: Seq(last) };
        let fold = Fold {
            spans: vec![span(1, 3), span(5, 5)],
            blocks: Vec::new(),
            sum: 0,
            text: "block".to_owned(),
        };
        let live = [
            Batch { edits: vec![stub(2, 0), stub(7, 0), stub(8, 0)], ..Batch::default() },
            Batch::inserting(Seq(2), "folded, too".to_owned()),
            Batch { edits: vec![Edit::Fold(fold)], ..Batch::default() },
            Batch::inserting(Seq(8), "quote".to_owned()),
        ];
        let view = InView::of(&live);
        let hidden: Vec<u64> = (0..10).filter(|seq| view.hides(Seq(*seq), &message(1))).collect();
        assert_eq!(hidden, [1, 2, 3, 5, 7, 8]);
        assert!(!view.hides(Seq(7), &message(2)), "another part of it is in view");
        assert_eq!(view.inserts().collect::<Vec<_>>(), [(Seq(8), "quote")]);
        assert_eq!((view.block(), view.is_complete()), (Some("block"), false));
        assert!(InView::of(&live[3..]).is_complete());
    }
}
