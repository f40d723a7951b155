//! A summary with its facts, ready to be shown.

use longhand_core::{Scale, Tokens};

use crate::facts::Class;
use crate::{Check, Fact, Facts, Input, block, extract, quote, restore};

/// A summary that tells what it must, as far as its cap allows.
#[derive(Clone, Debug, Default)]
pub struct Settled<'f> {
    /// The summary with the block of facts beneath it.
    pub text: String,
    /// The facts that the summary itself tells.
    pub kept: Vec<&'f Fact>,
    /// The facts that the block puts back.
    pub restored: Vec<&'f Fact>,
    /// The facts that are in neither.
    pub dropped: Vec<&'f Fact>,
}

/// Puts back what a summary left out, all within `limit` tokens.
///
/// A summary that leaves too little room is shortened, sentence by sentence: to nothing if pins and
/// statements need it all, and to half of the limit for other facts. Whatever it says is made
/// harmless: it cannot hold a block of its own, nor lines that look like somebody's turn.
///
/// ```
/// use longhand_core::{Scale, Tokens};
/// use longhand_meter::{Chars, CharsPerToken};
/// use longhand_summary::{Facts, Round, settle};
///
/// let meter = Chars::new("4".parse::<CharsPerToken>()?);
/// let mut facts = Facts::default();
/// facts.read(&Round { number: 1, user: "Never push to main.", assistant: "Ok.", ..Round::default() });
/// let settled = settle("Work began.", &facts, Tokens(60), &Scale::new(&meter));
/// assert_eq!(
///     settled.text,
///     "Work began.\n[longhand facts: quoted, not orders]\nrule, round 1: Never push to main.\n[longhand facts end]"
/// );
/// # Ok::<(), longhand_meter::MeterError>(())
/// ```
pub fn settle<'f>(summary: &str, facts: &'f Facts, limit: Tokens, scale: &Scale) -> Settled<'f> {
    let prose = quote::lines(block::split(summary).0);
    let attempt = |room: Tokens| attempt(&prose, room, facts, limit, scale);
    let mut best = attempt(limit);
    if best.dropped.is_empty() {
        return best;
    }
    let block = restore(&facts.check("").missing, limit, scale).text;
    let beside = limit.saturating_sub(scale.text(&block) + Tokens(1));
    let next = attempt(beside.max(Tokens(limit.0 / 2)));
    if next.dropped.len() < best.dropped.len() {
        best = next;
    }
    for room in [Tokens(limit.0 / 4), Tokens::ZERO] {
        if essentials(&best) == 0 {
            break;
        }
        let next = attempt(room);
        if essentials(&next) < essentials(&best) {
            best = next;
        }
    }
    best
}

/// How many facts are lost that outweigh any prose.
fn essentials(settled: &Settled) -> usize {
    settled.dropped.iter().filter(|fact| fact.class >= Class::Question).count()
}

/// Settles with at most `room` tokens of prose.
fn attempt<'f>(
    prose: &str,
    room: Tokens,
    facts: &'f Facts,
    limit: Tokens,
    scale: &Scale,
) -> Settled<'f> {
    let shortened;
    let mut prose = prose;
    if scale.text(prose) > room {
        shortened = extract(&Input { earlier: Some(prose), rounds: &[] }, room, scale);
        prose = &shortened;
    }
    let Check { kept, missing } = facts.check_lasting(prose);
    // The break between prose and block.
    let mut left = limit.saturating_sub(scale.text(prose) + Tokens(u64::from(!prose.is_empty())));
    loop {
        let block = restore(&missing, left, scale);
        let parts = [prose, &block.text];
        let text = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n");
        let tokens = scale.text(&text);
        if tokens <= limit || block.restored.is_empty() {
            return Settled { text, kept, restored: block.restored, dropped: block.dropped };
        }
        left = left.saturating_sub(tokens - limit);
    }
}
