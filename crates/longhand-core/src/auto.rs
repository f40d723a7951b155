//! The default policy: stubs first, then a fold, and clips as the last resort.

use std::ops::Range;

use crate::draft::{At, Draft, Stage};
use crate::edit::{Batch, Edit};
use crate::elide::elide;
use crate::fold::{NewFold, blocks_in, live_block};
use crate::opening::Opening;
use crate::plan::{History, Plan, PlanSettings};
use crate::project::project;
use crate::protect::{Protection, Rank, Unit, Users};
use crate::regret::fetched_back;
use crate::rescue::Rescue;
use crate::trim::{Keep, keep_newest};
use crate::worth::Worth;
use crate::{Budget, Digest, Message, Scale, Size, Tokens};

/// How many of the newest messages are the tail at the least.
pub(crate) const KEEP_TAIL: usize = 4;

/// The most that a fold block may take.
const FOLD_TOKENS_MAX: Tokens = Tokens(6_000);

/// From this room on a block gets more than a tenth of it.
const BLOCK_EXTRA_FROM: Tokens = Tokens(8_000);

/// The most that a block may take of the room that protected messages leave, in percent, however many facts it has.
const BLOCK_PERCENT_MAX: u64 = 60;

/// The same limit if the protected messages alone do not fit and have to be clipped.
const RESCUE_PERCENT_MAX: u64 = 20;

/// A batch that has to clip protected messages leaves 1/N of the room above the goal free.
const RESCUE_FREE_PARTS: u64 = 3;

/// What was fetched back gets 1/N of the room at the most, and of what protected messages leave of it.
const FETCHED_PARTS: u64 = 8;

/// How many bodies may be too large to be given back before no others are tried.
const MISSES_MAX: usize = 12;

/// What folding nothing but earlier folds must free: less would only lose their index.
pub(crate) const NOTE_GAIN_MIN: Tokens = Tokens(8);

/// Replaces old results, then bulky arguments, then prose; then folds the oldest steps.
///
/// The first user message and the tail are touched only if nothing else helps. It fits whenever any
/// policy does.
pub(crate) fn auto(
    history: &History,
    budget: &Budget,
    settings: &PlanSettings,
    scale: Scale,
    digest: &dyn Digest,
) -> Plan {
    if let Some(plan) = early(history, budget, settings, scale, digest) {
        return plan;
    }
    let fetched = fetched(history, &scale);
    let planned = |settings: &PlanSettings| {
        let plan_goal = PlanGoal { window: Tokens::MAX, block: Tokens::ZERO, fetched: &fetched };
        with_all_that_matters(budget, plan_goal, |plan_goal| {
            exact(history, budget, |budget| {
                attempt(history, budget, settings, scale, digest, plan_goal)
            })
        })
    };
    let plan = planned(settings);
    if plan.fits() {
        // If the window would soon need another batch, plan a deeper one now that keeps only the newest step.
        let headroom = headroom(budget);
        if plan.is_noop() || settings.keep_tail.is_some() || lasts(&plan, budget) {
            return plan;
        }
        let deeper = planned(&PlanSettings { keep_tail: Some(0), ..*settings });
        let is_worth_it =
            deeper.fits() && deeper.tokens() + Tokens(headroom.0 / 2) <= plan.tokens();
        return if is_worth_it { deeper } else { plan };
    }
    let keep = Keep::newest_steps(budget);
    let trimmed = keep_newest(history, budget, settings, scale, digest, keep);
    let elided = elide(history, budget, &PlanSettings { last_resort: true, ..*settings }, scale);
    let floor = trimmed.floor.min(elided.floor).min(plan.floor);
    let mut best = plan;
    for other in [trimmed, elided] {
        if other.fits() {
            return other;
        }
        if other.tokens() < best.tokens() {
            best = other;
        }
    }
    best.floor = floor;
    shrinking(best, history, &scale)
}

/// The plan for a window that is not full yet: a batch if that costs less than to carry the window on, or
/// else nothing. `None` if it is full.
fn early(
    history: &History,
    budget: &Budget,
    settings: &PlanSettings,
    scale: Scale,
    digest: &dyn Digest,
) -> Option<Plan> {
    let economy = budget.economy.filter(|_| budget.high() < budget.room())?;
    let limits = budget.limits();
    let now = Opening::of(history, scale, settings.chars_min, true).now_within(&limits)?;
    let nothing = Plan::none(now, now.tokens, limits);
    if now.tokens <= budget.high() {
        return Some(nothing);
    }
    // A batch that frees too little would soon be followed by another.
    let most = Tokens(budget.goal().0.midpoint(budget.high().0));
    let fetched = fetched(history, &scale);
    let plan_goal = PlanGoal { window: most, block: Tokens::ZERO, fetched: &fetched };
    let plan = with_all_that_matters(budget, plan_goal, |plan_goal| {
        exact(history, budget, |budget| {
            attempt(history, budget, settings, scale, digest, plan_goal)
        })
    });
    let saved = now.tokens.saturating_sub(plan.tokens());
    let read_anew = plan.tokens().saturating_sub(history.fixed.tokens);
    let is_due = plan.fits() && plan.tokens() <= most && economy.pays(saved, read_anew);
    Some(if is_due && !plan.is_noop() { plan } else { nothing })
}

/// The messages in sight that brought back what an edit had hidden.
fn fetched(history: &History, scale: &Scale) -> Vec<usize> {
    if history.live.is_empty() {
        return Vec::new();
    }
    let now = project(&history.path, history.live, history.wire);
    fetched_back(&history.path, history.live, |at| now.is_folded(at), scale)
}

/// The plan, unless it does not fit and makes the window no smaller: then nothing is done.
fn shrinking(plan: Plan, history: &History, scale: &Scale) -> Plan {
    let limits = Size { tokens: plan.tokens(), ..Size::MAX };
    match Opening::of(history, *scale, 0, true).now_within(&limits) {
        Some(size) => plan.replaced_by_nothing(size),
        None => plan,
    }
}

/// Plans again with less room if the thinking that the edits leave alone makes the window too large.
///
/// A draft leaves out all thinking that any edit could void. What lies before the first edit stays.
pub(crate) fn exact(
    history: &History,
    budget: &Budget,
    attempt: impl Fn(&Budget) -> (Plan, Size),
) -> Plan {
    let (plan, kept) = attempt(budget);
    if kept == Size::ZERO || !history.wire.binds_thinking {
        return plan;
    }
    let limits = budget.limits();
    let size = plan.size + kept;
    if size.is_within(&limits) || !plan.fits() {
        let mut exact = Plan::new(plan.batch, size, plan.floor + kept.tokens, limits);
        exact.block_wanted = plan.block_wanted;
        return exact;
    }
    // With less room the first edit can only move towards the start, so less thinking stays.
    let less = Budget {
        limit: budget.limit.saturating_sub(kept.tokens),
        target: budget.target.map(|target| target.saturating_sub(kept.tokens)),
        ..*budget
    };
    let (plan, kept) = attempt(&less);
    Plan::new(plan.batch, plan.size + kept, plan.floor + kept.tokens, limits)
}

/// What a plan should come to.
#[derive(Clone, Copy)]
struct PlanGoal<'p> {
    /// Where the window would surely have more tokens, nothing is changed.
    window: Tokens,
    /// The tokens that the block should have at the least.
    block: Tokens,
    /// The messages that brought back what an edit had hidden, the newest first.
    fetched: &'p [usize],
}

/// Plans again with a larger block if it has no room for all that matters, such as a user's words.
///
/// Not if the window would then soon need another batch: a tight session would pay for one with nearly every request.
fn with_all_that_matters(
    budget: &Budget,
    plan_goal: PlanGoal<'_>,
    planned: impl Fn(PlanGoal<'_>) -> Plan,
) -> Plan {
    let plan = planned(plan_goal);
    let Some(block) = plan.block_wanted else { return plan };
    let other = planned(PlanGoal { block, ..plan_goal });
    let costs_a_batch = lasts(&plan, budget) && !lasts(&other, budget);
    if other.fits() && !other.is_noop() && !costs_a_batch { other } else { plan }
}

/// Whether a window has room for the next requests.
fn lasts(plan: &Plan, budget: &Budget) -> bool {
    plan.tokens() + headroom(budget) <= budget.room()
}

/// What should stay free of a session's window; nothing if it has no target.
fn headroom(budget: &Budget) -> Tokens {
    Tokens((budget.room() - budget.goal()).0 / 2)
}

fn attempt(
    history: &History,
    budget: &Budget,
    settings: &PlanSettings,
    scale: Scale,
    digest: &dyn Digest,
    plan_goal: PlanGoal<'_>,
) -> (Plan, Size) {
    let count = history.path.messages.len();
    let limits = budget.limits();
    let mut opening = Opening::of(history, scale, settings.chars_min, true);
    if let Some(size) = opening.now_within(&Size { tokens: budget.high(), ..limits }) {
        return (Plan::none(size, size.tokens, limits), Size::ZERO);
    }
    let (base, standing) = (opening.base, opening.standing());
    let most = limits.saturating_sub(base);
    let has_room = base.is_within(&limits);

    let keep_tail = settings.keep_tail.unwrap_or(KEEP_TAIL);
    let protection = opening.protection(keep_tail, Users::FirstAndNewest);
    let mut layout = StepLayout::of(protection);
    let blocks = blocks_in(&opening.draft, &layout.kept());
    layout.fold_only_what_frees(&mut opening.draft, &blocks);
    let all = NewFold::of(&opening.draft, &layout.fold(layout.units().len()), &blocks);
    let folds = layout.has_old() || opening.has_block() || !blocks.is_empty();
    let headline = if folds { all.least(&scale) } else { Size::ZERO };
    let reserve = if folds { all.reserve(&scale) } else { Size::ZERO };
    opening.draft.absorb(&blocks);
    let kept = opening.draft.total(layout.kept(), Stage::Edited, most);
    let headroom = Tokens((budget.room() - budget.goal()).0 / RESCUE_FREE_PARTS);
    let Some(kept) = kept.filter(|kept| (*kept + headline).is_within(&most) && has_room) else {
        let rescue =
            Rescue { draft: opening.draft, layout, blocks, base, headline, limits, headroom };
        return rescue.plan(rescue_share(budget, plan_goal), digest);
    };
    if base.tokens + kept.tokens + headline.tokens > plan_goal.window {
        return (Plan::none(Size::MAX, Tokens::MAX, limits), Size::ZERO);
    }
    // Stubs alone: the blocks that stand now stay.
    let floor = || base.tokens + kept.tokens + headline.tokens;
    // What was fetched back once would be fetched back again: it comes on top of the target.
    let fetched = if settings.keep_tail.is_some() {
        Size::ZERO
    } else {
        let beside = most.saturating_sub(kept + headline);
        let share = Tokens(budget.room().0.min(beside.tokens.0) / FETCHED_PARTS);
        let share = Size { tokens: share, ..beside };
        let has_block = opening.has_block();
        layout.keep_steps(&mut opening.draft, plan_goal.fetched, share, has_block)
    };
    let kept = kept + fetched;
    // The target is a wish: for its sake the block is kept small, but nothing protected is clipped.
    // Half of what the block gets beyond a tenth comes on top; the rest is taken from what stays in sight.
    let goal = budget.goal() + fetched.tokens + Tokens(block_extra(budget).0 / 2);
    let beside_kept = most.tokens.saturating_sub(kept.tokens);
    let block = plan_goal.block.min(Tokens(beside_kept.0 * BLOCK_PERCENT_MAX / 100));
    let share = block_share(budget).max(reserve.tokens).max(block);
    let wanted = goal.saturating_sub(base.tokens).max(kept.tokens + share).min(most.tokens);
    let left = Size { tokens: wanted, ..most }.saturating_sub(kept);
    let tail = if settings.keep_tail.is_some() {
        Size::ZERO
    } else {
        // Somebody who takes over needs the newest messages as they are more than old ones in part.
        let held = if hands_over(budget) { reserve.tokens } else { reserve.tokens.max(block) };
        let half = Tokens(left.tokens.saturating_sub(held).0 / 2);
        layout.grow_tail(&mut opening.draft, Size { tokens: half, ..left })
    };
    let left = left.saturating_sub(tail);

    let old = layout.old();
    opening.draft.allow(layout.editable());
    let worth = Worth::of(history, old.first().map_or(0, |newest| newest + 1));
    let blocks_now = opening.draft.parts(&blocks);
    let beside = left.saturating_sub(standing).saturating_sub(blocks_now);
    // If more requests are to come, the block's index of names is worth more than the oldest step.
    let wants_block = budget.goal() < budget.room() && layout.has_foldable();
    let stages = [Stage::Results, Stage::Arguments, Stage::Prose];
    for stage in stages.into_iter().filter(|_| !wants_block) {
        if let Some(mut sum) = opening.draft.total(old.iter().copied(), stage, beside)
            && (standing + blocks_now).is_within(&left)
        {
            let ranked = worth.ranked(&opening.draft, &old, stage);
            opening.draft.restore(&ranked, &mut sum, beside, MISSES_MAX);
            let edits = opening.draft.edits(0..count, stage);
            if edits.is_empty() {
                break;
            }
            let size = opening.whole(kept + tail + sum + blocks_now);
            return finish(&mut opening.draft, edits, String::new(), size, floor(), limits);
        }
    }

    if !layout.has_old() && !opening.has_block() && blocks.is_empty() {
        // Without an edit the thinking stays, which `kept` leaves out.
        return Rescue { draft: opening.draft, layout, blocks, base, headline, limits, headroom }
            .plan(rescue_share(budget, plan_goal), digest);
    }

    // Too much even as stubs: the oldest steps go, and a block takes their place.
    let share = share.min(left.tokens);
    let mut sum = Size::ZERO;
    let mut first = layout.units().len();
    let reserved = Size { tokens: share, bytes: BLOCK_BYTES, images: 0 };
    let space = left.saturating_sub(reserved);
    // One at least goes: thinking leaves only with an edit before it.
    let messages = layout.foldable().filter(|(_, unit)| !unit.is_block);
    for (at, unit) in messages.collect::<Vec<_>>().into_iter().skip(1).rev() {
        let limit = space.saturating_sub(sum);
        match opening.draft.total(unit.messages.clone().rev(), Stage::Prose, limit) {
            Some(size) => sum += size,
            None => break,
        }
        first = at;
    }
    let folded = layout.fold(first);
    let mut fold = NewFold::of(&opening.draft, &folded, &blocks);
    fold.hands_over = hands_over(budget);
    let frame = fold.frame;
    let is_shown = |at: &usize| !folded.iter().any(|range| range.contains(at));
    let still: Vec<usize> = old.into_iter().filter(is_shown).collect();
    let restore = |draft: &mut Draft, total: &mut Size| {
        for stage in [Stage::Prose, Stage::Arguments, Stage::Results] {
            let ranked = worth.ranked(draft, &still, stage);
            draft.restore(&ranked, total, left, MISSES_MAX);
        }
    };
    let mut total = sum + reserved;
    restore(&mut opening.draft, &mut total);
    let edits = opening.draft.edits((0..count).filter(is_shown), Stage::Prose);
    let hidden = opening.draft.hidden(&edits);
    let (fold, written) = fold.write(share, &hidden, &scale, digest);
    let mut total = total.saturating_sub(reserved) + written.size;
    restore(&mut opening.draft, &mut total);
    let mut edits = opening.draft.edits((0..count).filter(is_shown), Stage::Prose);
    edits.push(Edit::Fold(fold));
    let size = frame.joined(base + kept + tail + total);
    let (mut plan, kept) = finish(&mut opening.draft, edits, written.state, size, floor(), limits);
    plan.block_wanted = Some(written.wanted).filter(|wanted| *wanted > share);
    (plan, kept)
}

/// The tokens of a block if protected messages have to be clipped to make room for it.
fn rescue_share(budget: &Budget, plan_goal: PlanGoal<'_>) -> Tokens {
    let most = Tokens(budget.room().0 * RESCUE_PERCENT_MAX / 100);
    block_share(budget).min(most).max(plan_goal.block.min(most))
}

/// What a block gets: a sixth of the target, or a tenth of the room and what a larger room adds.
fn block_share(budget: &Budget) -> Tokens {
    let share = budget.room().0 / 10 + block_extra(budget).0;
    Tokens((budget.goal().0 / 6).max(share)).min(FOLD_TOKENS_MAX)
}

/// Whether a window is made once: it has no target to come down to, from which it would grow again.
fn hands_over(budget: &Budget) -> bool {
    budget.goal() == budget.room()
}

/// What a block gets beyond a tenth of the room, up to 5% of it: longer conversations have more names.
fn block_extra(budget: &Budget) -> Tokens {
    let room = budget.room().0;
    let extra = (room.saturating_sub(BLOCK_EXTRA_FROM.0) / 8).min(room / 20);
    Tokens(extra).min(Tokens(FOLD_TOKENS_MAX.0.saturating_sub(room / 10)))
}

/// What the bytes of a block are reckoned with before it is written.
const BLOCK_BYTES: u64 = 32 * 1024;

/// Makes a batch of edits, with the thinking before the first of them, which stays.
pub(crate) fn finish(
    draft: &mut Draft,
    mut edits: Vec<Edit>,
    state: String,
    size: Size,
    floor: Tokens,
    limits: Size,
) -> (Plan, Size) {
    edits.sort_by_key(|edit| (edit.first(), matches!(edit, Edit::Fold(_))));
    let path = draft.history.path;
    let first = edits.first().map_or(path.messages.len(), |edit| path.from(edit.first()));
    let kept = draft.thinking_before(first);
    let head = path.seqs.last().copied().unwrap_or_default();
    (Plan::new(Batch { head, edits, state, variants: Vec::new() }, size, floor, limits), kept)
}

fn is_old(unit: &Unit) -> bool {
    unit.rank == Rank::Old
}

/// Whether a unit may be kept beside the fixed tail.
fn grows(unit: &Unit) -> bool {
    is_old(unit) && !unit.is_block
}

/// Which steps are kept as they are, and which are old.
pub(crate) struct StepLayout {
    protection: Protection,
    /// Units of the extended tail and those that were fetched back: kept verbatim, but folded before the fixed tail is clipped.
    tail: Vec<bool>,
}

impl StepLayout {
    pub(crate) fn of(protection: Protection) -> Self {
        let tail = vec![false; protection.units.len()];
        Self { protection, tail }
    }

    pub(crate) fn units(&self) -> &[Unit] {
        &self.protection.units
    }

    pub(crate) fn protection(&self) -> &Protection {
        &self.protection
    }

    /// Messages that are never folded, newest first.
    pub(crate) fn kept(&self) -> Vec<usize> {
        self.protection.newest_first(|unit| unit.rank > Rank::Old)
    }

    /// Messages that may be edited and folded, newest first.
    pub(crate) fn old(&self) -> Vec<usize> {
        self.newest_first(|unit, in_tail| is_old(unit) && !in_tail)
    }

    /// Whether there is a step to fold.
    fn has_foldable(&self) -> bool {
        self.foldable().any(|(_, unit)| !unit.is_block)
    }

    fn has_old(&self) -> bool {
        self.units().iter().any(is_old)
    }

    fn newest_first(&self, which: impl Fn(&Unit, bool) -> bool) -> Vec<usize> {
        let units = self.units().iter().zip(&self.tail).rev();
        let units = units.filter(|(unit, tail)| which(unit, **tail));
        units.flat_map(|(unit, _)| unit.messages.clone().rev()).collect()
    }

    /// Messages whose parts may be replaced.
    fn editable(&self) -> Vec<usize> {
        let messages = self.old().into_iter();
        messages.filter(|at| self.protection.rank(*at) == Rank::Old).collect()
    }

    /// Extends the tail by the steps before it while they are within `limit`. Returns what they take.
    fn grow_tail(&mut self, draft: &mut Draft, limit: Size) -> Size {
        let mut taken = Size::ZERO;
        for at in (self.oldest_kept()..self.tail.len()).rev() {
            let unit = &self.protection.units[at];
            if !grows(unit) || self.tail[at] {
                continue;
            }
            let left = limit.saturating_sub(taken);
            match draft.total(unit.messages.clone().rev(), Stage::Edited, left) {
                Some(size) => taken += size,
                None => break,
            }
            self.tail[at] = true;
        }
        taken
    }

    /// Keeps the old steps of these messages as they are, each that is still within `limit`. Returns what they take.
    ///
    /// If a block stands before them, even the oldest one may be kept; some other always goes.
    fn keep_steps(
        &mut self,
        draft: &mut Draft,
        messages: &[usize],
        limit: Size,
        has_block: bool,
    ) -> Size {
        let mut taken = Size::ZERO;
        let oldest = if has_block { 0 } else { self.oldest_kept() };
        for message in messages {
            let units = self.protection.units.iter();
            let at = units.clone().position(|unit| unit.messages.contains(message));
            let Some(at) = at.filter(|at| *at >= oldest && !self.tail[*at]) else { continue };
            let is_left = |(unit, tail): &(&Unit, &bool)| grows(unit) && !**tail;
            let unit = &self.protection.units[at];
            if !grows(unit) || units.zip(&self.tail).filter(is_left).count() < 2 {
                continue;
            }
            let left = limit.saturating_sub(taken);
            if let Some(size) = draft.total(unit.messages.clone().rev(), Stage::Edited, left) {
                taken += size;
                self.tail[at] = true;
            }
        }
        taken
    }

    /// The first unit that may be kept beside the tail.
    ///
    /// The oldest one is left: thinking leaves only with an edit before it.
    fn oldest_kept(&self) -> usize {
        self.protection.units.iter().position(grows).map_or(0, |oldest| oldest + 1)
    }

    /// The first message of the user.
    pub(crate) fn first_user(draft: &Draft) -> Option<usize> {
        let messages = draft.history.path.messages;
        messages.iter().position(Message::is_user_turn)
    }

    /// The old units before the tail, with their numbers.
    fn foldable(&self) -> impl DoubleEndedIterator<Item = (usize, &Unit)> {
        let units = self.units().iter().enumerate();
        units.filter(|(at, unit)| is_old(unit) && !self.tail[*at])
    }

    /// The old messages before the unit `first`.
    pub(crate) fn fold(&self, first: usize) -> Vec<Range<usize>> {
        let old = self.foldable().filter(|(at, unit)| *at < first || unit.is_block);
        joined(old.map(|(_, unit)| unit.messages.clone()))
    }

    /// Keeps the old messages if folding all of them would free nothing.
    fn fold_only_what_frees(&mut self, draft: &mut Draft, blocks: &[At]) {
        let folded = self.fold(self.units().len());
        if folded.is_empty() {
            return;
        }
        let fold = NewFold::of(draft, &folded, blocks);
        let scale = draft.scale;
        let mut least = fold.least(&scale);
        // A fold of earlier folds alone would only shorten their text.
        if !fold.has_news() {
            least.tokens += NOTE_GAIN_MIN;
        }
        let freed_by_block = live_block(draft).map_or(Size::ZERO, |(_, size)| size);
        let freed = freed_by_block + draft.parts(blocks);
        let least = Size { bytes: u64::MAX, images: u64::MAX, ..least };
        let old = draft.total(self.old(), Stage::Edited, least.saturating_sub(freed));
        if old.is_some() && freed.tokens < least.tokens {
            for unit in &mut self.protection.units {
                unit.rank = unit.rank.max(Rank::Last);
            }
        }
    }
}

/// Joins neighbouring ranges.
pub(crate) fn joined(ranges: impl IntoIterator<Item = Range<usize>>) -> Vec<Range<usize>> {
    let mut out: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match out.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => out.push(range),
        }
    }
    out
}
