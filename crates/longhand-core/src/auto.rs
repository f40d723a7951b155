//! The default policy: stubs first, then a fold, and clips as the last resort.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::clip::{clip, clip_least};
use crate::draft::{Draft, Stage};
use crate::fold::{Frame, NOTE_GAIN_MIN, block, handle_of, headline, headline_tokens, is_fold};
use crate::plan::{Edit, History, Original, Place, Plan, Settings, content};
use crate::step::steps;
use crate::stub::is_ours;
use crate::trim::joined;
use crate::{Budget, Digest, Handle, Part, Role, Scale, Tokens};

/// How many of the newest messages are the tail at the least.
const KEEP_TAIL: usize = 4;

/// The most that a fold block may take.
const FOLD_TOKENS_MAX: Tokens = Tokens(4_000);

/// Replaces old results, then bulky arguments, then prose; then folds the oldest steps.
///
/// The system prompt, the first and the newest user message and the tail stay as they are, unless
/// they alone are over budget: then their largest tool results are clipped.
pub(crate) fn auto(
    history: &History,
    budget: &Budget,
    settings: &Settings,
    scale: Scale,
    digest: &dyn Digest,
) -> Plan {
    let count = history.messages.len();
    let around = history.fixed + scale.framing().reply;
    let mut draft = Draft::new(history, scale, settings.chars_min, true);
    let mut layout = Layout::of(history, settings.keep_tail.unwrap_or(KEEP_TAIL));
    let room = budget.room();
    let untouched = draft.total((0..count).rev(), Stage::Untouched, room.saturating_sub(around));
    if let Some(whole) = untouched.filter(|_| around <= room) {
        let floor = Rescue::new(&mut draft, &mut layout).floor;
        return Plan::new(Vec::new(), around + whole, around + floor, room);
    }

    let rescue = Rescue::new(&mut draft, &mut layout);
    let floor = around + rescue.floor;
    let most = room.saturating_sub(around);
    let kept = draft.total(layout.kept(), Stage::Edited, most);
    let Some(kept) = kept.filter(|kept| *kept + rescue.headline <= most && around <= room) else {
        let (edits, tokens) = rescue.clip(&mut draft, &layout, most);
        return Plan::new(edits, around + tokens, floor, room);
    };
    // The target is a wish: for its sake the block is kept small, but nothing new is clipped.
    let goal = budget.goal();
    let share = Tokens(goal.0 / 10).min(FOLD_TOKENS_MAX).max(rescue.headline);
    let space = goal.saturating_sub(around).max(kept + share).min(most);
    let left = space - kept;
    let tail = if settings.keep_tail.is_some() {
        Tokens::ZERO
    } else {
        layout.grow_tail(&mut draft, Tokens((left - rescue.headline).0 / 2))
    };
    let left = left - tail;

    let old = layout.old();
    draft.allow(&old);
    for stage in [Stage::Results, Stage::Arguments, Stage::Prose] {
        if let Some(mut sum) = draft.total(old.iter().copied(), stage, left) {
            draft.restore(&old, stage, &mut sum, left);
            let edits = draft.edits(0..count, stage);
            return Plan::new(edits, around + kept + tail + sum, floor, room);
        }
    }

    // Too much even as stubs: the oldest steps go, and a block with an index takes their place.
    let share = share.min(left);
    let mut sum = Tokens::ZERO;
    let mut first = layout.units.len();
    for (at, unit) in layout.units.iter().enumerate().rev().filter(|(_, unit)| unit.old) {
        let limit = left - share - sum;
        match draft.total(unit.messages.clone().rev(), Stage::Prose, limit) {
            Some(tokens) => sum += tokens,
            None => break,
        }
        first = at;
    }
    let folded = layout.fold(first);
    let frame = Frame::of(history, &folded, &scale);
    let (handle, text) =
        block(history.messages, &folded, &scale, share.saturating_sub(frame.costs), digest);
    let mut total = sum + scale.text(&text) + frame.costs;
    let still: Vec<usize> =
        old.into_iter().filter(|at| !folded.iter().any(|range| range.contains(at))).collect();
    for stage in [Stage::Prose, Stage::Arguments, Stage::Results] {
        draft.restore(&still, stage, &mut total, left);
    }
    let shown = (0..count).filter(|at| !folded.iter().any(|range| range.contains(at)));
    let mut edits = draft.edits(shown, Stage::Prose);
    edits.push(Edit::Fold { messages: folded, handle, text });
    Plan::new(edits, (around + kept + tail + total).saturating_sub(frame.frees), floor, room)
}

/// Whether a message is a system prompt that no fold may take.
///
/// Where roles must alternate, one in the middle can only stand beside the turns it was between.
pub(crate) fn stays(history: &History, at: usize) -> bool {
    history.messages[at].role == Role::System && (at == 0 || !history.wire.alternates)
}

/// Which steps are kept as they are, and which are old.
struct Layout {
    units: Vec<Unit>,
}

struct Unit {
    messages: Range<usize>,
    /// May be edited and folded.
    old: bool,
    /// Grew into the tail: kept, but not at any price.
    tail: bool,
}

impl Layout {
    fn of(history: &History, keep_tail: usize) -> Self {
        let messages = history.messages;
        let is_user = |at: &usize| messages[*at].is_user_turn() && !is_fold(&messages[*at]);
        let first = (0..messages.len()).find(is_user);
        let newest = (0..messages.len()).rev().find(is_user);
        let tail = messages.len().saturating_sub(keep_tail);
        let is_system = |at: usize| stays(history, at);
        let kept =
            |at: usize| at >= tail || Some(at) == first || Some(at) == newest || is_system(at);
        let units = steps(messages)
            .into_iter()
            .map(|range| Unit { old: !range.clone().any(kept), messages: range, tail: false })
            .collect();
        Self { units }
    }

    /// Messages that are never folded, newest first.
    fn kept(&self) -> Vec<usize> {
        self.newest_first(|unit| !unit.old && !unit.tail)
    }

    /// Messages that may be edited, newest first.
    fn old(&self) -> Vec<usize> {
        self.newest_first(|unit| unit.old)
    }

    fn newest_first(&self, which: impl Fn(&Unit) -> bool) -> Vec<usize> {
        self.units
            .iter()
            .rev()
            .filter(|unit| which(unit))
            .flat_map(|unit| unit.messages.clone().rev())
            .collect()
    }

    /// Lets the tail take the steps before it while they are within `limit`; says what they take.
    fn grow_tail(&mut self, draft: &mut Draft, limit: Tokens) -> Tokens {
        let mut taken = Tokens::ZERO;
        for unit in self.units.iter_mut().rev().filter(|unit| unit.old) {
            match draft.total(unit.messages.clone().rev(), Stage::Edited, limit - taken) {
                Some(tokens) => taken += tokens,
                None => break,
            }
            (unit.old, unit.tail) = (false, true);
        }
        taken
    }

    /// The old messages before the unit `first`.
    fn fold(&self, first: usize) -> Vec<Range<usize>> {
        let old: Vec<_> = self.units[..first]
            .iter()
            .filter(|unit| unit.old)
            .map(|unit| unit.messages.clone())
            .collect();
        joined(&old)
    }
}

/// What is left to do when the kept part alone is too big: fold all else, clip its results.
struct Rescue {
    headline: Tokens,
    floor: Tokens,
    folded: Vec<Range<usize>>,
    kept: Tokens,
    clips: Vec<Candidate>,
}

struct Candidate {
    at: Place,
    handle: Handle,
    body: String,
    id: u64,
    full: u64,
    least: u64,
}

impl Rescue {
    fn new(draft: &mut Draft, layout: &mut Layout) -> Self {
        let scale = draft.scale;
        let messages = draft.history.messages;
        let mut folded = layout.fold(layout.units.len());
        let mut headline = Tokens::ZERO;
        if !folded.is_empty() {
            headline =
                headline_tokens(&folded, &scale) + Frame::of(draft.history, &folded, &scale).costs;
        }
        // Folding nothing but earlier folds would only lose their index.
        let news = layout.old().iter().any(|at| !is_fold(&messages[*at]));
        // A fold that takes more than it frees is none.
        let least = if news { headline } else { headline + NOTE_GAIN_MIN };
        if draft.total(layout.old(), Stage::Edited, least).is_some() {
            layout.units.iter_mut().for_each(|unit| unit.old = false);
            folded.clear();
            headline = Tokens::ZERO;
        }
        let kept = draft.total(layout.kept(), Stage::Edited, Tokens::MAX).unwrap_or(Tokens::MAX);
        let mut clips = Vec::new();
        for message in layout.kept().into_iter().filter(|at| messages[*at].role != Role::System) {
            for (part, own) in messages[message].parts.iter().enumerate() {
                let Part::Result(result) = own else { continue };
                if result.fixed {
                    continue;
                }
                let (Original::Text(body) | Original::Json(body)) = content(own);
                let handle = Handle::of([body.as_str()]);
                let Some(text) = clip_least(handle, &body).filter(|_| !is_ours(&body)) else {
                    continue;
                };
                let at = Place { message, part };
                let id = scale.id(&result.call);
                let least = id + scale.meter().weigh(&text, u64::MAX);
                let full = draft.full(at, u64::MAX);
                if least < full {
                    clips.push(Candidate { at, handle, body, id, full, least });
                }
            }
        }
        let saved =
            whole_tokens(clips.iter().map(|clip| (clip.at, clip.full - clip.least)), &scale);
        let floor = headline + kept.saturating_sub(saved);
        Self { headline, floor, folded, kept, clips }
    }

    /// Folds all that may be folded and clips the largest results until the rest is within `space`.
    fn clip(self, draft: &mut Draft, layout: &Layout, space: Tokens) -> (Vec<Edit>, Tokens) {
        let scale = draft.scale;
        let mut edits = draft.edits(layout.kept(), Stage::Edited);
        let mut tokens = self.kept;
        if !self.folded.is_empty() {
            let handle = handle_of(draft.history.messages, &self.folded);
            let text = headline(handle, &self.folded);
            tokens = Frame::of(draft.history, &self.folded, &scale).add(tokens + scale.text(&text));
            edits.push(Edit::Fold { messages: self.folded, handle, text });
        }
        // Each message may lose a fraction of a token to rounding.
        let lost = self.clips.len() as u64 * (scale.grains(Tokens(1)) - 1);
        let level = water_level(&self.clips, scale.grains(tokens.saturating_sub(space)) + lost);
        let mut saved = Vec::new();
        for Candidate { at, handle, body, id, full, least } in self.clips {
            if full <= level {
                continue;
            }
            let Some(text) = clip(handle, &body, &scale, level.max(least) - id) else { continue };
            saved.push((at, full - (id + scale.meter().weigh(&text, u64::MAX))));
            edits.push(Edit::Clip { at, handle, text });
        }
        (edits, tokens.saturating_sub(whole_tokens(saved, &scale)))
    }
}

/// What savings come to in tokens at the least: a message is rounded as a whole.
fn whole_tokens(saved: impl IntoIterator<Item = (Place, u64)>, scale: &Scale) -> Tokens {
    let mut by_message: FxHashMap<usize, u64> = FxHashMap::default();
    for (at, grains) in saved {
        *by_message.entry(at.message).or_default() += grains;
    }
    by_message.values().map(|grains| Tokens(grains / scale.grains(Tokens(1)))).sum()
}

/// The weight to clip every heavier result to, so that together they save at least `over`.
fn water_level(clips: &[Candidate], over: u64) -> u64 {
    let saved = |level: u64| -> u64 {
        clips.iter().map(|clip| clip.full.saturating_sub(level.max(clip.least))).sum()
    };
    let (mut low, mut high) = (0, clips.iter().map(|clip| clip.full).max().unwrap_or(0));
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if saved(middle) >= over { low = middle } else { high = middle - 1 }
    }
    low
}
