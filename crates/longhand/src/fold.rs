//! The block that stands for folded rounds.
//!
//! It holds what a summariser wrote, the facts that it left out, and the user's own words, copied by
//! machine. All of it is within one cap, and every line of the copies is quoted.

use longhand_core::json::quote;
use longhand_core::{Role, Scale, Tokens};
use longhand_summary::{Facts, Input, Refusal, Round, Summariser, Summary, Trace, accept, settle};
use serde_json::json;

use crate::round::Kept;

/// The heading of the user's words; nothing that is quoted can hold a line like it.
const COPIED: &str = "\n\nThe user's own words, copied:";

/// The share of the cap that the user's words may take.
const COPIED_PERCENT: u64 = 30;

/// The most of one message that is copied.
const COPIED_CHARS_MAX: usize = 400;

/// A block that was accepted, with what its receipt tells.
pub(crate) struct Block {
    pub(crate) text: String,
    pub(crate) tokens: Tokens,
    pub(crate) account: serde_json::Value,
}

/// Why there is no block.
#[derive(Debug)]
pub(crate) enum NoBlock {
    Failed(String),
    Refused(Refusal),
}

/// Folds rounds and the block before them into a new block of at most `limit` tokens.
pub(crate) fn fold(
    earlier: Option<&str>,
    rounds: &[&Kept],
    pins: &[String],
    summariser: &dyn Summariser,
    limit: Tokens,
    scale: &Scale,
) -> Result<Block, NoBlock> {
    let (earlier_summary, earlier_words) = earlier.map_or((None, Vec::new()), split);
    let said: Vec<(String, String, Vec<(String, String)>)> = rounds
        .iter()
        .map(|round| (round.words(Role::User), round.words(Role::Assistant), round.tools()))
        .collect();
    let input_rounds: Vec<Round> = rounds
        .iter()
        .zip(&said)
        .map(|(round, (user, assistant, tools))| Round {
            number: round.number,
            user,
            assistant,
            tools: tools.iter().map(|(name, summary)| Trace { name, summary }).collect(),
        })
        .collect();
    let input = Input { earlier: earlier_summary, rounds: &input_rounds };
    let replaced: Tokens = earlier.map_or(Tokens::ZERO, |text| scale.text(text))
        + rounds.iter().map(|round| round.tokens).sum();
    // A block is shorter than what it stands for.
    let limit = limit.min(replaced.saturating_sub(Tokens(1)));

    let words = copied(earlier_words, rounds, &said, Tokens(limit.0 * COPIED_PERCENT / 100), scale);
    let words_tokens = if words.is_empty() { Tokens::ZERO } else { scale.text(&words) + Tokens(1) };
    let room = limit.saturating_sub(words_tokens);
    let ask = |input: &Input| {
        summariser
            .summarise(input, Tokens(room.0 * 2 / 3), scale)
            .map_err(|error| NoBlock::Failed(error.to_string()))
    };
    let mut summary = ask(&input)?;
    if let Err(Refusal::OverCap { .. }) = accept(&summary.text, replaced, room, scale) {
        // One more pass shortens it under the same rules.
        let shorter = ask(&Input { earlier: Some(&summary.text), rounds: &[] })?;
        summary = Summary {
            input_tokens: summary.input_tokens + shorter.input_tokens,
            output_tokens: summary.output_tokens + shorter.output_tokens,
            cost_micros: match (summary.cost_micros, shorter.cost_micros) {
                (None, None) => None,
                (one, two) => Some(one.unwrap_or(0) + two.unwrap_or(0)),
            },
            ..shorter
        };
    }
    accept(&summary.text, replaced, room, scale).map_err(NoBlock::Refused)?;

    let mut facts = Facts::default();
    pins.iter().for_each(|pin| facts.pin(pin));
    if let Some(earlier) = earlier_summary {
        facts.carry(earlier);
    }
    input_rounds.iter().for_each(|round| facts.read(round));
    let settled = settle(&summary.text, &facts, room, scale);
    let mut text = format!("{}{words}", settled.text);
    if scale.text(&text) > limit {
        text.truncate(settled.text.len());
    }
    let tokens = scale.text(&text);
    let account = json!({
        "summariser": summariser.name(),
        "model": summary.model,
        "input_tokens": summary.input_tokens.0,
        "output_tokens": summary.output_tokens.0,
        "cost_micros": summary.cost_micros,
        "anchors": {
            "kept": settled.kept.len(),
            "restored": settled.restored.len(),
            "dropped": settled.dropped.len(),
        },
    });
    Ok(Block { text, tokens, account })
}

/// Takes a block apart: the summary, and the copied words.
fn split(block: &str) -> (Option<&str>, Vec<String>) {
    match block.rsplit_once(COPIED) {
        Some((summary, words)) => (
            Some(summary),
            words.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect(),
        ),
        None => (Some(block), Vec::new()),
    }
}

/// Copies what the user said, the newest as far as there is room.
fn copied(
    earlier: Vec<String>,
    rounds: &[&Kept],
    said: &[(String, String, Vec<(String, String)>)],
    limit: Tokens,
    scale: &Scale,
) -> String {
    let new = rounds.iter().zip(said).filter(|(_, (user, ..))| !user.trim().is_empty()).map(
        |(round, (user, ..))| {
            let mut words: String = user.trim().chars().take(COPIED_CHARS_MAX).collect();
            if words.len() < user.trim().len() {
                words.push('…');
            }
            format!("- round {}: {}", round.number, quote(&words))
        },
    );
    let lines: Vec<String> = earlier.into_iter().chain(new).collect();
    let mut spent = scale.text(COPIED) + Tokens(1);
    let mut first = lines.len();
    for line in lines.iter().rev() {
        spent += scale.text(line) + Tokens(1);
        if spent > limit {
            break;
        }
        first -= 1;
    }
    if first == lines.len() {
        String::new()
    } else {
        format!("{COPIED}\n{}", lines[first..].join("\n"))
    }
}
