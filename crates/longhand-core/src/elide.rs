//! The policy that shrinks payloads and keeps the structure.

use crate::auto::{KEEP_TAIL, base, exact, finish};
use crate::draft::{Draft, Stage};
use crate::fold::live_block;
use crate::plan::{History, Plan, Settings};
use crate::project::project;
use crate::protect::{Protection, Rank, Users};
use crate::rescue::{candidates, clip_down};
use crate::{Budget, Scale, Size};

/// Replaces tool results, then assistant prose, oldest first, and no more than needed.
///
/// System and user messages and the newest messages are not touched, unless the settings allow clips as
/// the last resort.
pub(crate) fn elide(history: &History, budget: &Budget, settings: &Settings, scale: Scale) -> Plan {
    exact(history, budget, |budget| attempt(history, budget, settings, scale))
}

fn attempt(history: &History, budget: &Budget, settings: &Settings, scale: Scale) -> (Plan, Size) {
    let count = history.path.messages.len();
    let limits = budget.limits();
    let now = project(&history.path, history.live, history.wire);
    let mut draft = Draft::new(history, now, scale, settings.chars_min, false);
    let live = live_block(&draft);
    let block = live.as_ref().map_or(Size::ZERO, |(_, size)| *size);
    let around = base(&draft) + block;
    let whole = |sum: Size| {
        let size = around + sum;
        live.map_or(size, |(frame, _)| frame.joined(size))
    };
    let room = limits.saturating_sub(around);
    let has_room = around.is_within(&limits);
    let now = draft.total((0..count).rev(), Stage::Now, room);
    if let Some(sum) = now.filter(|_| has_room) {
        return (Plan::none(whole(sum), whole(sum).tokens, limits), Size::ZERO);
    }

    let keep_tail = settings.keep_tail.unwrap_or(KEEP_TAIL);
    let is_folded: Vec<bool> = (0..count).map(|at| draft.now.is_folded(at)).collect();
    let protection = Protection::of(history, |at| is_folded[at], keep_tail, Users::All);
    draft.allow((0..count).filter(|at| protection.rank(*at) == Rank::Old));
    let newest_first: Vec<usize> = (0..count).rev().collect();
    let smallest = draft.total(newest_first.iter().copied(), Stage::Prose, Size::MAX);
    let smallest = smallest.unwrap_or(Size::MAX);
    let floor = whole(smallest).tokens;
    let goal = Size { tokens: budget.goal().saturating_sub(around.tokens), ..room };
    for stage in [Stage::Results, Stage::Prose] {
        for limit in [goal, room] {
            let sum = draft.total(newest_first.iter().copied(), stage, limit);
            if let Some(mut sum) = sum.filter(|_| has_room) {
                draft.restore(&newest_first, stage, &mut sum, limit);
                let edits = draft.edits(0..count, stage);
                return finish(&mut draft, edits, String::new(), whole(sum), floor, limits);
            }
            if stage == Stage::Results {
                break;
            }
        }
    }
    let mut edits = draft.edits(0..count, Stage::Prose);
    let mut size = smallest;
    if settings.last_resort && has_room {
        let first_user = (0..count).find(|at| history.path.messages[*at].is_user_turn());
        let clips = candidates(&mut draft, &protection, &newest_first, first_user);
        let clips: Vec<_> =
            clips.iter().filter(|clip| protection.rank(clip.message()) == Rank::Last).collect();
        if let Some((clipped, clipped_size)) = clip_down(&draft, &clips, smallest, room) {
            edits.extend(clipped);
            size = clipped_size;
        }
    }
    finish(&mut draft, edits, String::new(), whole(size), floor, limits)
}
