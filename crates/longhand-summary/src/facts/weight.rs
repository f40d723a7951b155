//! Which facts come first, and which are forgotten.

use std::cmp::Reverse;

use longhand_core::Role;
use longhand_core::anchor::{Anchor, AnchorKind, Miner};

use super::{Entry, Fact, Facts};

/// The classes of facts, the lightest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// A name, a version, a figure.
    #[default]
    Word,
    /// The id of a goal, a session, or of the project's own pattern.
    OwnId,
    /// A question in passing, or a statement that may be a quotation.
    Remark,
    Question,
    Blocker,
    Decision,
    Rule,
    Pin,
}

/// Beyond twice so many words, and statements, the lighter half is forgotten.
const WORDS_MAX: usize = 2_000;
const STATEMENTS_MAX: usize = 500;

impl Facts {
    /// Weighs facts of one class: sentences by their age, words by their kind, use and age.
    pub(super) fn score(&self, entry: &Entry) -> u64 {
        let Fact { kind, class, round, uses, .. } = &entry.fact;
        if *class > Class::OwnId {
            return round.unwrap_or_default();
        }
        let age = match round {
            Some(round) => self.newest.saturating_sub(*round),
            // Words in a block have lost their round, but not their order.
            None => 16 + entry.carried_at,
        };
        let kind = match kind {
            AnchorKind::Id => 6,
            AnchorKind::Path => 4,
            AnchorKind::Figure => 2,
            _ => 3,
        };
        100_000 * kind * u64::from(1 + uses.ilog2()) / (8 + age)
    }

    /// Keeps the number of facts in bounds, however long the session and however hostile a text.
    pub(super) fn forget_the_lightest(&mut self) {
        let mut keep = vec![true; self.entries.len()];
        for (classes, max) in
            [(Class::Word..=Class::OwnId, WORDS_MAX), (Class::Remark..=Class::Rule, STATEMENTS_MAX)]
        {
            let own = |(_, entry): &(usize, &Entry)| classes.contains(&entry.fact.class);
            let mut own: Vec<_> = self.entries.iter().enumerate().filter(own).collect();
            // With a margin, so that most rounds need not sort.
            if own.len() > 2 * max {
                own.sort_by_cached_key(|(at, entry)| {
                    Reverse((!entry.settled, entry.fact.class, self.score(entry), *at))
                });
                own[max..].iter().for_each(|(at, _)| keep[*at] = false);
            }
        }
        if keep.iter().all(|keep| *keep) {
            return;
        }
        let mut next = 0;
        let places: Vec<Option<usize>> = keep
            .iter()
            .map(|keep| {
                next += usize::from(*keep);
                keep.then(|| next - 1)
            })
            .collect();
        self.settles_from = places[..self.settles_from].iter().flatten().count();
        let mut kept = keep.into_iter();
        self.entries.retain(|_| kept.next().unwrap_or_default());
        self.places.retain(|_, at| places[*at].inspect(|place| *at = *place).is_some());
        self.asked = self.asked.iter().filter_map(|at| places[*at]).collect();
    }
}

/// The class of a statement.
pub(super) fn class_of(kind: AnchorKind, by: Role, headed: bool) -> Class {
    match kind {
        // A tool quotes whatever it reads.
        _ if by == Role::Tool => Class::Remark,
        AnchorKind::Rule => Class::Rule,
        AnchorKind::Decision => Class::Decision,
        AnchorKind::Blocker => Class::Blocker,
        AnchorKind::Question if headed => Class::Question,
        _ => Class::Remark,
    }
}

/// The class of a word.
pub(super) fn class_of_word(anchor: Anchor, miner: &Miner) -> Class {
    let goal_or_session = anchor.text.starts_with("g-") || anchor.text.starts_with("s-");
    if anchor.kind == AnchorKind::Id && (goal_or_session || miner.is_own_id(anchor.text)) {
        Class::OwnId
    } else {
        Class::Word
    }
}
