//! What is sent for a request.

use longhand_core::{Batch, Plan, Tally, Tokens, folded_messages, shown_edits};
use longhand_dialect::Binding;

use super::source::CountedRequest;
use crate::receipt::FoldReceipt;

/// What is sent for a request.
#[derive(Clone, Debug)]
pub struct MadeWindow {
    /// Its text; `None` if that is the request as it came.
    pub text: Option<String>,
    /// The size of the request, where it was counted.
    pub before: Option<Tokens>,
    /// The size of the window, where it was counted.
    pub after: Option<Tokens>,
    /// How many edits it has.
    pub edits: usize,
    /// The newest batch that it shows; 0 if it shows none.
    pub batch: u64,
    /// How far it is over its limit.
    pub shortfall: Tokens,
    /// Whether the provider must be told to drop thinking, which the edits void.
    pub voids_thinking: bool,
    /// What was planned for it, if something was.
    pub planned: Option<PlannedEdits>,
}

/// What a plan did.
#[derive(Clone, Debug)]
pub struct PlannedEdits {
    /// How many stubs it made.
    pub stubs: usize,
    /// How many clips it made.
    pub clips: usize,
    /// How many messages it folded.
    pub folded: u64,
    /// Whether a model has written something of its fold.
    pub by_model: bool,
}

impl PlannedEdits {
    pub(super) fn new(plan: &Plan, fold: Option<&FoldReceipt>) -> Self {
        let Tally { stubs, clips, .. } = Tally::of(&plan.batch.edits);
        let by_model = fold.is_some_and(|fold| fold.by_model().is_some());
        Self { stubs, clips, folded: folded_messages(&plan.batch), by_model }
    }
}

impl MadeWindow {
    /// The request without any edit, and not counted.
    pub fn untouched() -> Self {
        Self {
            text: None,
            before: None,
            after: None,
            edits: 0,
            batch: 0,
            shortfall: Tokens::ZERO,
            voids_thinking: false,
            planned: None,
        }
    }

    /// The request without any edit, and its size.
    pub(super) fn counted(source: &dyn CountedRequest, limit: Tokens) -> Self {
        let total = source.total();
        let (before, after) = (Some(total), Some(total));
        let shortfall = total.saturating_sub(limit);
        Self { before, after, shortfall, ..Self::untouched() }
    }

    /// The text of a window that shows these batches and has so many tokens.
    pub(super) fn edited(
        source: &dyn CountedRequest,
        batches: &[Batch],
        text: String,
        after: Tokens,
        limit: Tokens,
    ) -> Self {
        let edits = shown_edits(batches).len();
        Self {
            text: Some(text),
            before: Some(source.total()),
            after: Some(after),
            edits,
            shortfall: after.saturating_sub(limit),
            voids_thinking: edits > 0 && source.conversation().binding() == Binding::Switch,
            ..Self::untouched()
        }
    }
}
