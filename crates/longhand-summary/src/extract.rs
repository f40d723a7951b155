//! The summary that needs no model: sentences picked from what was said.

mod candidate;
mod centrality;
mod pick;
mod write;

use longhand_core::{Scale, Tokens};

use self::candidate::candidates;
use self::pick::Picker;
use crate::{Input, Round};

/// How much of what was said is read, the newest: of a long import older rounds leave only their facts.
const READ_BYTES_MAX: usize = 256 * 1024;

/// How often room that the written summary leaves is filled again.
const PASSES: usize = 4;

/// Picks the sentences that tell most, in the order they were said, in at most `limit` tokens.
///
/// Central sentences, statements, failures and sentences full of anchors come first; what says the same
/// again is left out, and so are questions that were answered and blockers that were lifted. The users'
/// words are not in it, but say what matters. The sentences of the earlier summary compete with the new
/// ones, with an advantage. Time is linear in the input.
///
/// ```
/// use longhand_core::{Scale, Tokens};
/// use longhand_meter::{Chars, CharsPerToken};
/// use longhand_summary::{Input, Round, extract};
///
/// let meter = Chars::new("4".parse::<CharsPerToken>()?);
/// let rounds = [Round { number: 7, assistant: "Sure! Decision: we keep 512 slots.", ..Round::default() }];
/// let text = extract(&Input { earlier: None, rounds: &rounds }, Tokens(20), &Scale::new(&meter));
/// assert_eq!(text, "Round 7:\n[assistant] Decision: we keep 512 slots.");
/// # Ok::<(), longhand_meter::MeterError>(())
/// ```
pub fn extract(input: &Input, limit: Tokens, scale: &Scale) -> String {
    let input = Input { rounds: recent(input.rounds), ..*input };
    let candidates = candidates(&input);
    if candidates.is_empty() || limit == Tokens::ZERO {
        return String::new();
    }
    let central = centrality::centrality(&candidates);
    let mut picker = Picker::new(&candidates, &central, scale);
    let mut text = String::new();
    for _ in 0..PASSES {
        if !picker.fill(limit, scale) {
            break;
        }
        text = write::write(&candidates, &picker.picked);
        picker.spent = scale.text(&text);
    }
    // Joined, the pieces may count for more than they did one by one.
    while scale.text(&text) > limit {
        picker.picked.pop();
        text = write::write(&candidates, &picker.picked);
    }
    if text.is_empty() {
        let best = pick::best(&candidates, &central);
        text = write::write_within(&candidates[best], limit, scale);
    }
    text
}

/// The newest rounds, as many as are read, and one at the least.
fn recent<'r, 't>(rounds: &'r [Round<'t>]) -> &'r [Round<'t>] {
    let mut bytes = 0;
    let read = rounds.iter().rev().take_while(|round| {
        let before = bytes;
        let tools = round.tools.iter().map(|trace| trace.summary.len()).sum::<usize>();
        bytes += round.user.len() + round.assistant.len() + tools;
        before == 0 || bytes <= READ_BYTES_MAX
    });
    &rounds[rounds.len() - read.count()..]
}
