//! The policy that keeps the newest steps and folds the rest into a note.

use std::ops::Range;

use crate::auto::{NOTE_GAIN_MIN, exact, finish, joined};
use crate::draft::Stage;
use crate::edit::Edit;
use crate::fold::{NewFold, blocks_in, is_fold};
use crate::opening::Opening;
use crate::plan::{History, Plan, PlanSettings};
use crate::protect::{Rank, Unit, Users};
use crate::{Budget, Digest, Scale, Size, Tokens};

/// The most that a note may take.
const NOTE_TOKENS_MAX: Tokens = Tokens(4_000);

/// Splits sizes, oldest first, into a prefix to summarise and a suffix to keep: the answer is the
/// number of the first kept one.
///
/// Keeps from the newest on while the sum is within `budget - reserve`; nothing to summarise exactly
/// if all of it fits. Sizes are asked for newest first and no further than needed.
pub fn partition(
    count: usize,
    mut size: impl FnMut(usize, Tokens) -> Tokens,
    budget: Tokens,
    reserve: Tokens,
) -> usize {
    let mut left = budget.saturating_sub(reserve);
    for at in (0..count).rev() {
        let tokens = size(at, left);
        if tokens > left {
            return at + 1;
        }
        left -= tokens;
    }
    0
}

/// Keeps protected messages and the newest steps that fit, with a note on the rest.
pub(crate) fn trim(
    history: &History,
    budget: &Budget,
    settings: &PlanSettings,
    scale: Scale,
    digest: &dyn Digest,
) -> Plan {
    let keep = Keep::newest_steps(budget);
    let plan = keep_newest(history, budget, settings, scale, digest, keep);
    if plan.fits() {
        return plan;
    }
    // Rewriting an earlier note is better than dropping the newest message.
    let keep = Keep { note_for_few_tokens: true, ..keep };
    let plan = keep_newest(history, budget, settings, scale, digest, keep);
    if plan.fits() {
        return plan;
    }
    // A single message that is too big for the budget is summarised, even if it is the newest.
    let keep = Keep { newest_user: false, ..keep };
    keep_newest(history, budget, settings, scale, digest, keep)
}

/// How much [`keep_newest`] keeps.
#[derive(Clone, Copy)]
pub(crate) struct Keep {
    /// The most tokens of the note.
    pub(crate) note_max: Tokens,
    /// The most steps or rounds that stay.
    pub(crate) count_max: usize,
    /// Whether rounds are counted and kept together instead of steps.
    pub(crate) by_round: bool,
    /// Whether the newest user message stays, however large it is.
    pub(crate) newest_user: bool,
    /// Whether an earlier note is rewritten even if that frees only a few tokens.
    pub(crate) note_for_few_tokens: bool,
}

impl Keep {
    /// As many of the newest steps as fit.
    pub(crate) fn newest_steps(budget: &Budget) -> Self {
        Self {
            note_max: Tokens(budget.room().0 / 10).min(NOTE_TOKENS_MAX),
            count_max: usize::MAX,
            by_round: false,
            newest_user: true,
            note_for_few_tokens: false,
        }
    }
}

pub(crate) fn keep_newest(
    history: &History,
    budget: &Budget,
    settings: &PlanSettings,
    scale: Scale,
    digest: &dyn Digest,
    keep: Keep,
) -> Plan {
    exact(history, budget, |budget| attempt(history, budget, settings, scale, digest, keep))
}

fn attempt(
    history: &History,
    budget: &Budget,
    settings: &PlanSettings,
    scale: Scale,
    digest: &dyn Digest,
    keep: Keep,
) -> (Plan, Size) {
    let messages = history.path.messages;
    let limits = budget.limits();
    let mut opening = Opening::of(history, scale, settings.chars_min, false);
    let (base, standing) = (opening.base, opening.standing());
    let users = if keep.newest_user { Users::Newest } else { Users::None };
    let protection = opening.protection(0, users);
    let groups = groups(history, &protection.units, keep.by_round);
    // The note of an earlier fold is no round.
    let is_note = |group: &[Unit]| group.iter().all(|unit| unit.is_block);
    let (notes, groups): (Vec<_>, Vec<_>) = groups.into_iter().partition(|group| is_note(group));
    let first_allowed = groups.len().saturating_sub(keep.count_max);

    let count = messages.len();
    let most = limits.saturating_sub(base);
    let has_room = base.is_within(&limits);
    if first_allowed == 0
        && let Some(size) = opening.now_within(&limits)
    {
        return (Plan::none(size, size.tokens, limits), Size::ZERO);
    }

    let never = protection.newest_first(|unit| unit.rank == Rank::Never);
    let blocks = blocks_in(&opening.draft, &(0..count).rev().collect::<Vec<_>>());
    opening.draft.absorb(&blocks);
    let never = opening.draft.total(never, Stage::Edited, Size::MAX).unwrap_or(Size::MAX);
    let foldable = |group: &[Unit]| -> Vec<Range<usize>> {
        let old = group.iter().filter(|unit| unit.rank < Rank::Never);
        old.map(|unit| unit.messages.clone()).collect()
    };
    let joined_with_notes = |groups: &[Vec<Unit>]| {
        let mut ranges: Vec<_> =
            notes.iter().chain(groups).flat_map(|group| foldable(group)).collect();
        ranges.sort_by_key(|range| range.start);
        joined(ranges)
    };
    let all = joined_with_notes(&groups);
    let (least, reserve) = if all.is_empty() && !opening.has_block() && blocks.is_empty() {
        (Size::ZERO, Size::ZERO)
    } else {
        let fold = NewFold::of(&opening.draft, &all, &blocks);
        (fold.least(&scale), fold.reserve(&scale))
    };
    let floor = base.tokens + never.tokens + least.tokens;
    let goal = budget.goal().saturating_sub(base.tokens);
    let note = keep.note_max.max(reserve.tokens);
    let space = Size { tokens: goal, ..most }.saturating_sub(never);
    let space =
        space.saturating_sub(Size { tokens: note, bytes: least.bytes + note.0 * 8, images: 0 });
    let mut kept = Size::ZERO;
    let mut first = groups.len();
    for (at, group) in groups.iter().enumerate().skip(first_allowed).rev() {
        let messages = foldable(group).into_iter().rev().flat_map(Iterator::rev);
        match opening.draft.total(messages, Stage::Edited, space.saturating_sub(kept)) {
            Some(size) if has_room => kept += size,
            _ => break,
        }
        first = at;
    }
    let folded = joined_with_notes(&groups[..first]);
    let fold = NewFold::of(&opening.draft, &folded, &blocks);
    let has_news = fold.has_news();
    let mut size = base + never + kept;
    let (mut edits, mut state) = (Vec::new(), String::new());
    if !folded.is_empty() || opening.has_block() || !blocks.is_empty() {
        let left = most.tokens.saturating_sub((never + kept).tokens);
        let frame = fold.frame;
        // A note that is as long as what it stands for frees nothing.
        let twice = Size { tokens: note + note, ..Size::MAX };
        let gone = folded.iter().cloned().flatten();
        let freed =
            opening.draft.total(gone, Stage::Now, twice).map_or(twice, |size| size + standing);
        let note = note.min(freed.tokens.saturating_sub(Tokens(1))).max(least.tokens);
        let (fold, written) = fold.write(note.min(left.max(least.tokens)), &[], &scale, digest);
        size = frame.joined(size + written.size);
        state = written.state;
        edits.push(Edit::Fold(fold));
    }
    // Folding nothing but an earlier note would only lose what it tells; and a note that is no shorter
    // than what it stands for frees nothing.
    let is_worth = has_news || keep.note_for_few_tokens;
    let gain_min = if is_worth { Tokens::ZERO } else { NOTE_GAIN_MIN };
    let limit = Size { tokens: size.tokens + gain_min, ..Size::MAX };
    if let Some(now) = opening.now_within(&limit) {
        // If the limit on bytes or images is exceeded, freeing those is worth a few tokens.
        let beyond_tokens = Size { tokens: Tokens::MAX, ..limits };
        let helps =
            !now.is_within(&beyond_tokens) && (now.bytes > size.bytes || now.images > size.images);
        if edits.is_empty() || !helps {
            return (Plan::none(now, now.tokens, limits), Size::ZERO);
        }
    }
    finish(&mut opening.draft, edits, state, size, floor, limits)
}

/// The steps, or the rounds that they make; what never goes is in no round.
fn groups(history: &History, units: &[Unit], by_round: bool) -> Vec<Vec<Unit>> {
    let messages = history.path.messages;
    let mut groups: Vec<Vec<Unit>> = Vec::new();
    for unit in units {
        let first = &messages[unit.messages.start];
        let opens = !by_round
            || first.is_user_turn()
            || is_fold(first)
            || groups.last().is_none_or(|group| is_fold(&messages[group[0].messages.start]));
        match groups.last_mut() {
            Some(group) if !opens => group.push(unit.clone()),
            _ => groups.push(vec![unit.clone()]),
        }
    }
    groups.retain(|group| group.iter().any(|unit| unit.in_round));
    groups
}
