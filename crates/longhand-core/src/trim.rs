//! The policy that keeps the newest steps and lets the rest go.

use std::ops::Range;

use crate::auto::stays;
use crate::draft::{Draft, Stage};
use crate::fold::{Frame, NOTE_GAIN_MIN, block, has_fold, headline_tokens, is_fold};
use crate::plan::{Edit, History, Plan};
use crate::step::steps;
use crate::{Budget, Digest, Scale, Tokens};

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

/// Keeps the system prompt and the newest steps that fit, with a note on the rest.
pub(crate) fn trim(history: &History, budget: &Budget, scale: Scale, digest: &dyn Digest) -> Plan {
    keep_newest(history, budget, scale, digest, &steps(history.messages), usize::MAX)
}

/// Keeps the system prompt and the newest units that fit, at most so many, with a note on the rest.
pub(crate) fn keep_newest(
    history: &History,
    budget: &Budget,
    scale: Scale,
    digest: &dyn Digest,
    units: &[Range<usize>],
    units_max: usize,
) -> Plan {
    let messages = history.messages;
    let is_system = |at: usize| stays(history, at);
    let units: Vec<Range<usize>> =
        units.iter().filter(|unit| !(*unit).clone().any(is_system)).cloned().collect();
    // The note of an earlier fold is none of them.
    let is_note = |unit: &Range<usize>| messages[unit.clone()].iter().all(is_fold);
    let before = units.iter().take_while(|unit| is_note(unit)).count();
    let surplus = (units.len() - before).saturating_sub(units_max);
    let first_allowed = if surplus == 0 { 0 } else { before + surplus };
    let all = joined(&units);
    let mut draft = Draft::new(history, scale, 0, false);
    let system: Vec<usize> =
        (0..messages.len()).filter(|at| !all.iter().any(|range| range.contains(at))).collect();
    let around = history.fixed
        + scale.framing().reply
        + draft.total(system.iter().copied(), Stage::Untouched, Tokens::MAX).unwrap_or(Tokens::MAX);
    let note_least = if all.is_empty() {
        Tokens::ZERO
    } else {
        headline_tokens(&all, &scale) + scale.framing().message
    };
    let floor = around + note_least;

    let mut unit = |at: usize, limit: Tokens, stage| {
        draft.total(units[at].clone().rev(), stage, limit).unwrap_or(Tokens::MAX)
    };
    // A window that was trimmed before has its note already.
    let noted = units.first().is_some_and(|unit| messages[unit.clone()].iter().any(has_fold));
    let reserve = if noted { Tokens::ZERO } else { budget.reserve };
    let whole = partition(
        units.len(),
        |at, limit| unit(at, limit, Stage::Untouched),
        budget.limit,
        reserve + around,
    );
    if whole == 0 && first_allowed == 0 && around + reserve <= budget.limit {
        let tokens =
            around + (0..units.len()).map(|at| unit(at, Tokens::MAX, Stage::Untouched)).sum();
        return Plan::new(Vec::new(), tokens, floor, budget.limit);
    }
    // The note has the reserve; where that is too small for any note, it takes what it needs.
    let goal = budget.goal() + budget.reserve;
    let taken = around + budget.reserve.max(note_least);
    let first = partition(units.len(), |at, limit| unit(at, limit, Stage::Edited), goal, taken)
        .max(first_allowed);
    let kept = &units[first..];
    let mut tokens =
        around + (first..units.len()).map(|at| unit(at, Tokens::MAX, Stage::Edited)).sum();
    let mut edits = draft.edits(kept.iter().cloned().flatten(), Stage::Edited);
    let folded = joined(&units[..first]);
    if !folded.is_empty() {
        let share = budget.reserve.max(Tokens(goal.0 / 10)).max(note_least);
        let space = goal.saturating_sub(tokens).min(share);
        let frame = Frame::of(history, &folded, &scale);
        let (handle, text) =
            block(messages, &folded, &scale, space.saturating_sub(frame.costs), digest);
        tokens = frame.add(tokens + scale.text(&text));
        edits.push(Edit::Fold { messages: folded, handle, text });
    }
    // Folding nothing but an earlier note would only lose its index; and a note that is no shorter than
    // what it stands for frees nothing.
    let news = units[..first]
        .iter()
        .flat_map(|unit| &messages[unit.clone()])
        .any(|message| !is_fold(message));
    let limit = if news || first == 0 { tokens } else { tokens + NOTE_GAIN_MIN };
    if let Some(whole) = draft.total((0..messages.len()).rev(), Stage::Untouched, limit) {
        let whole = whole + history.fixed + scale.framing().reply;
        if whole <= limit {
            return Plan::new(Vec::new(), whole, floor, budget.limit);
        }
    }
    Plan::new(edits, tokens, floor, budget.limit)
}

/// Joins neighbouring ranges.
pub(crate) fn joined(ranges: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut out: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match out.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => out.push(range.clone()),
        }
    }
    out
}
