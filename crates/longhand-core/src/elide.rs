//! The policy that shrinks payloads and keeps the structure.

use crate::draft::{Draft, Stage};
use crate::plan::{History, Plan, Settings};
use crate::{Budget, Scale, Tokens};

/// How many of the newest messages stay as they are unless told otherwise.
const KEEP_TAIL: usize = 4;

/// Replaces tool results, then assistant prose, oldest first, and no more than needed.
///
/// System and user messages and the newest messages are never touched.
pub(crate) fn elide(history: &History, budget: &Budget, settings: &Settings, scale: Scale) -> Plan {
    let count = history.messages.len();
    let tail = count.saturating_sub(settings.keep_tail.unwrap_or(KEEP_TAIL));
    let mut draft = Draft::new(history, scale, settings.chars_min, false);
    draft.allow(&(0..tail).collect::<Vec<_>>());

    let newest_first: Vec<usize> = (0..count).rev().collect();
    let around = history.fixed + scale.framing().reply;
    let total = |draft: &mut Draft, stage, limit: Tokens| {
        draft.total(newest_first.iter().copied(), stage, limit.saturating_sub(around))
    };
    let over = around > budget.room();
    let floor = around + total(&mut draft, Stage::Prose, Tokens::MAX).unwrap_or(Tokens::MAX);
    if !over && let Some(whole) = total(&mut draft, Stage::Untouched, budget.room()) {
        return Plan::new(Vec::new(), around + whole, floor, budget.room());
    }
    for stage in [Stage::Results, Stage::Prose] {
        let room = budget.goal().saturating_sub(around);
        if !over && let Some(mut sum) = total(&mut draft, stage, budget.goal()) {
            draft.restore(&newest_first, stage, &mut sum, room);
            return Plan::new(draft.edits(0..count, stage), around + sum, floor, budget.room());
        }
    }
    Plan::new(draft.edits(0..count, Stage::Prose), floor, floor, budget.room())
}
