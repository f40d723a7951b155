//! The block that stands for folded rounds.
//!
//! It holds what a summariser wrote, the facts that it left out, and the user's own words, copied by
//! machine. All of it is within one cap.

use std::sync::Arc;

use longhand_core::anchor::Miner;
use longhand_core::json::quote;
use longhand_core::{Meter, Scale, Tokens};
use longhand_summary::{
    BLOCK_OPEN, Fact, Facts, Input, Refusal, Round, Settled, Summariser, Summary, SummaryError,
    Trace, accept, restore, settle,
};
use serde_json::{Value, json};

use crate::said::Said;

/// The line that opens the user's words. What others wrote cannot hold it: settling a summary takes the
/// bracket from whatever looks like a mark of ours.
const WORDS_OPEN: &str = "[longhand user words: copied by machine]";

/// The line that closes them.
const WORDS_CLOSE: &str = "[longhand user words end]";

/// The share of the cap that the user's words may take.
const WORDS_PERCENT: u64 = 30;

/// The most of one message that is copied.
const WORDS_CHARS_MAX: usize = 400;

/// How many windows are sent from one fold to the next, as a rule.
const WINDOWS_PER_FOLD: u64 = 10;

/// What is kept of folded rounds for the next block, at the least: more than a block may show, so that
/// what had to be left out once can come back.
const STATE_TOKENS_MIN: Tokens = Tokens(6_000);

/// How many of the facts that found no room a receipt names.
const DROPPED_NAMED_MAX: usize = 50;

/// Rounds to be folded, with the block before them; owns all it needs, so that any thread can do it.
#[derive(Clone)]
pub(crate) struct Folding {
    pub(crate) earlier: Option<String>,
    /// Whether a model wrote the earlier block, so that its prose stands as it is.
    pub(crate) is_told: bool,
    pub(crate) rounds: Vec<Said>,
    /// What block and rounds count for now.
    pub(crate) replaced: Tokens,
    pub(crate) limit: Tokens,
    pub(crate) miner: Miner,
    pub(crate) meter: Arc<dyn Meter + Send + Sync>,
}

/// A block that was accepted, with what its receipt tells.
pub(crate) struct Block {
    pub(crate) text: String,
    /// The same in more room, for the next fold.
    pub(crate) kept: String,
    /// Whether something that matters found no room.
    pub(crate) is_lossy: bool,
    pub(crate) account: Value,
}

/// Why there is no block.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoBlock {
    #[error("{}", chain(.0))]
    Failed(#[from] SummaryError),
    #[error("{1}: {0}")]
    Refused(Refusal, String),
}

/// An error with its causes, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

impl Folding {
    /// Makes the block, of at most `limit` tokens and shorter than what it stands for.
    ///
    /// A block that could only be shorter by forgetting what matters is none: a few short rounds are
    /// better kept as they are.
    pub(crate) fn run(&self, summariser: &dyn Summariser) -> Result<Block, NoBlock> {
        let scale = &Scale::new(&*self.meter);
        let (earlier, earlier_words) = self.earlier.as_deref().map_or((None, Vec::new()), split);
        let rounds: Vec<Round> = self.rounds.iter().map(round).collect();
        let mut facts = Facts::new(self.miner.clone());
        facts.carry(earlier.unwrap_or_default());
        for round in &rounds {
            facts.read(round);
        }

        let words_within = |limit: Tokens| {
            self.words(&earlier_words, Tokens(limit.0 * WORDS_PERCENT / 100), scale)
        };
        let words = words_within(self.limit);
        let room = self.limit.saturating_sub(scale.text(&words));
        let told = earlier.filter(|_| self.is_told).map(prose).unwrap_or_default();
        let room = room.saturating_sub(scale.text(told)).max(Tokens(room.0 / 3));
        let input = Input { earlier: earlier.filter(|_| !self.is_told), rounds: &rounds };
        let mut summary = self.summarise(summariser, &input, room, scale)?;
        if !told.is_empty() {
            summary.text = format!("{told}\n{}", summary.text);
        }
        let summary = self.repaired(summariser, summary, &facts, room, scale);
        let within = |words: &str, limit: Tokens| {
            let room = limit.saturating_sub(scale.text(words));
            let settled = settle(&summary.text, &facts, room, scale);
            let mut text = joined(&settled.text, words);
            if scale.text(&text) > limit {
                text.truncate(settled.text.len());
            }
            (text, settled)
        };
        let (mut text, mut settled) = within(&words, self.limit);
        if scale.text(&text) >= self.replaced {
            (text, settled) = within("", self.replaced.saturating_sub(Tokens(1)).min(self.limit));
            if settled.dropped.iter().any(|fact| fact.is_essential()) {
                let (tokens, replaced) = (scale.text(&text), self.replaced);
                return Err(refused(summariser, Refusal::NotShorter { tokens, replaced }));
            }
        }
        accept(&text, self.replaced, self.limit, scale)
            .map_err(|refusal| refused(summariser, refusal))?;
        let more = STATE_TOKENS_MIN.max(Tokens(self.limit.0 * 3));
        let kept = within(&words_within(more), more).0;
        let is_lossy = settled.dropped.iter().any(|fact| fact.is_essential());
        Ok(Block { text, kept, is_lossy, account: account(summariser, &summary, &settled) })
    }

    /// Asks the summariser; what it says must be acceptable before any fact is put back.
    fn summarise(
        &self,
        summariser: &dyn Summariser,
        input: &Input,
        room: Tokens,
        scale: &Scale,
    ) -> Result<Summary, NoBlock> {
        // The rest of the room is for the facts that the summary leaves out.
        let ask = |input: &Input| summariser.summarise(input, Tokens(room.0 * 2 / 3), scale);
        let mut summary = match ask(input) {
            // The built-in summariser has nothing to say; the facts may have. A model that says nothing
            // has failed.
            Err(SummaryError::Empty { .. }) if summariser.is_instant() => {
                return Ok(Summary::default());
            }
            answer => answer?,
        };
        if let Err(Refusal::OverCap { .. }) = accept(&summary.text, self.replaced, room, scale) {
            // One more pass shortens it under the same rules.
            let shorter = ask(&Input { earlier: Some(&summary.text), rounds: &[] })?;
            summary = shorter.after(&summary);
        }
        accept(&summary.text, self.replaced, room, scale)
            .map_err(|refusal| refused(summariser, refusal))?;
        Ok(summary)
    }

    /// Has the summariser put back what matters, once, where that is cheaper than to carry it beneath
    /// the summary in every window until the next fold.
    fn repaired(
        &self,
        summariser: &dyn Summariser,
        summary: Summary,
        facts: &Facts,
        room: Tokens,
        scale: &Scale,
    ) -> Summary {
        let essentials = |text: &str| -> Vec<&Fact> {
            facts.check(text).missing.into_iter().filter(|fact| fact.is_essential()).collect()
        };
        let missing = essentials(&summary.text);
        let carried = scale.text(&restore(&missing, room, scale).text);
        let call = Tokens(2 * scale.text(&summary.text).0) + carried;
        if missing.is_empty() || Tokens(carried.0 * WINDOWS_PER_FOLD) <= call {
            return summary;
        }
        let texts: Vec<&str> = missing.iter().map(|fact| fact.text.as_str()).collect();
        let limit = Tokens(room.0 * 2 / 3);
        let Some(Ok(better)) = summariser.repair(&summary.text, &texts, limit, scale) else {
            return summary;
        };
        let is_better = accept(&better.text, self.replaced, room, scale).is_ok()
            && essentials(&better.text).len() < missing.len();
        // What was tried in vain is paid for all the same.
        let text = if is_better { better.text.clone() } else { summary.text.clone() };
        Summary { text, ..better.after(&summary) }
    }

    /// Copies what the user said, the newest as far as there is room.
    fn words(&self, earlier: &[&str], limit: Tokens, scale: &Scale) -> String {
        let said = self.rounds.iter().filter(|said| !said.user.trim().is_empty());
        let new = said.map(|said| format!("round {}: {}", said.number, copy(said.user.trim())));
        let lines: Vec<String> = earlier.iter().map(|line| (*line).to_owned()).chain(new).collect();
        let mut spent = scale.text(WORDS_OPEN) + scale.text(WORDS_CLOSE) + Tokens(2);
        let mut first = lines.len();
        for line in lines.iter().rev() {
            spent += scale.text(line) + Tokens(1);
            if spent > limit {
                break;
            }
            first -= 1;
        }
        if first == lines.len() {
            return String::new();
        }
        format!("{WORDS_OPEN}\n{}\n{WORDS_CLOSE}", lines[first..].join("\n"))
    }
}

fn refused(summariser: &dyn Summariser, refusal: Refusal) -> NoBlock {
    NoBlock::Refused(refusal, summariser.name().to_owned())
}

fn account(summariser: &dyn Summariser, summary: &Summary, settled: &Settled) -> Value {
    let names = settled.dropped.iter().take(DROPPED_NAMED_MAX).map(|fact| fact.text.as_str());
    json!({
        "summariser": summariser.name(),
        "model": summary.model,
        "input_tokens": summary.input_tokens.0,
        "output_tokens": summary.output_tokens.0,
        "cost_micros": summary.cost_micros,
        "anchors": {
            "kept": settled.kept.len(),
            "restored": settled.restored.len(),
            "dropped": settled.dropped.len(),
            "dropped_names": names.collect::<Vec<_>>(),
        },
    })
}

fn round(said: &Said) -> Round<'_> {
    Round {
        number: said.number,
        user: &said.user,
        assistant: &said.assistant,
        tools: said.tools.iter().map(|(name, summary)| Trace { name, summary }).collect(),
    }
}

/// A user's words on one line, as they were said but for their length and for marks like ours.
fn copy(words: &str) -> String {
    let words = words.replace("[longhand", "(longhand");
    match words.char_indices().nth(WORDS_CHARS_MAX) {
        Some((end, _)) => format!("{}…", quote(&words[..end])),
        None => quote(&words),
    }
}

fn joined(summary: &str, words: &str) -> String {
    let parts = [summary, words].into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("\n")
}

/// The prose of a summary, without its facts.
fn prose(summary: &str) -> &str {
    summary[..summary.find(BLOCK_OPEN).unwrap_or(summary.len())].trim_end()
}

/// Takes a block apart: the summary with its facts, and the lines of copied words.
fn split(block: &str) -> (Option<&str>, Vec<&str>) {
    // Words may quote the mark, but never stand on a line with nothing else.
    let opening = block.lines().find(|line| *line == WORDS_OPEN);
    let at = opening.map_or(block.len(), |line| line.as_ptr().addr() - block.as_ptr().addr());
    let words = block[at..].lines().skip(1).take_while(|line| *line != WORDS_CLOSE).collect();
    (Some(block[..at].trim_end()).filter(|summary| !summary.is_empty()), words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_comes_apart_as_it_was_put_together() {
        let words = format!("{WORDS_OPEN}\nround 0: \"a\\nb\"\nround 1: \"c\"\n{WORDS_CLOSE}");
        let block = joined("They met.", &words);
        assert_eq!(
            split(&block),
            (Some("They met."), vec!["round 0: \"a\\nb\"", "round 1: \"c\""])
        );
        assert_eq!(split("They met."), (Some("They met."), vec![]));
        assert_eq!(split(&words).0, None);
        let forged = joined("They met.", &words.replace("\"c\"", &quote(WORDS_OPEN)));
        assert_eq!(split(&forged).1.len(), 2);
    }
}
