//! The policy that shrinks payloads and keeps the structure.

use crate::auto::{KEEP_TAIL, exact, finish};
use crate::draft::Stage;
use crate::opening::Opening;
use crate::plan::{History, Plan, PlanSettings};
use crate::protect::{Rank, Users};
use crate::rescue::{candidates, clip_down};
use crate::{Budget, Scale, Size};

/// Replaces tool results, then assistant prose, oldest first, and no more than needed.
///
/// System and user messages and the newest messages are not touched, unless the settings allow clips as
/// the last resort.
pub(crate) fn elide(
    history: &History,
    budget: &Budget,
    settings: &PlanSettings,
    scale: Scale,
) -> Plan {
    exact(history, budget, |budget| attempt(history, budget, settings, scale))
}

fn attempt(
    history: &History,
    budget: &Budget,
    settings: &PlanSettings,
    scale: Scale,
) -> (Plan, Size) {
    let count = history.path.messages.len();
    let limits = budget.limits();
    let mut opening = Opening::of(history, scale, settings.chars_min, false);
    if let Some(size) = opening.now_within(&limits) {
        return (Plan::none(size, size.tokens, limits), Size::ZERO);
    }
    let around = opening.base + opening.standing();
    let room = limits.saturating_sub(around);
    let has_room = around.is_within(&limits);

    let keep_tail = settings.keep_tail.unwrap_or(KEEP_TAIL);
    let protection = opening.protection(keep_tail, Users::All);
    opening.draft.allow((0..count).filter(|at| protection.rank(*at) == Rank::Old));
    let newest_first: Vec<usize> = (0..count).rev().collect();
    let smallest = opening.draft.total(newest_first.iter().copied(), Stage::Prose, Size::MAX);
    let smallest = smallest.unwrap_or(Size::MAX);
    let floor = opening.whole(smallest).tokens;
    let goal = Size { tokens: budget.goal().saturating_sub(around.tokens), ..room };
    for stage in [Stage::Results, Stage::Prose] {
        for limit in [goal, room] {
            let sum = opening.draft.total(newest_first.iter().copied(), stage, limit);
            if let Some(mut sum) = sum.filter(|_| has_room) {
                let parts = opening.draft.parts_at(&newest_first, stage);
                opening.draft.restore(&parts, &mut sum, limit, 0);
                let edits = opening.draft.edits(0..count, stage);
                let size = opening.whole(sum);
                return finish(&mut opening.draft, edits, String::new(), size, floor, limits);
            }
            if stage == Stage::Results {
                break;
            }
        }
    }
    let mut edits = opening.draft.edits(0..count, Stage::Prose);
    let mut size = smallest;
    if settings.last_resort && has_room {
        let first_user = (0..count).find(|at| history.path.messages[*at].is_user_turn());
        let clips = candidates(&mut opening.draft, &protection, &newest_first, first_user);
        let clips: Vec<_> =
            clips.iter().filter(|clip| protection.rank(clip.message()) == Rank::Last).collect();
        if let Some((clipped, clipped_size)) = clip_down(&opening.draft, &clips, smallest, room) {
            edits.extend(clipped);
            size = clipped_size;
        }
    }
    let size = opening.whole(size);
    finish(&mut opening.draft, edits, String::new(), size, floor, limits)
}
