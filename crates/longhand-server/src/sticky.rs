//! Edits that are made once and kept.

use std::ops::Range;

use longhand_core::{Edit, Handle, Message, Part, Place, Tokens};
use serde_json::{Value, json};

use crate::lineage::Thread;

/// All edits of a window, by links of the chain instead of messages of one request.
#[derive(Clone, Debug)]
pub(crate) struct Sticky {
    edits: Vec<Edit>,
    /// How many links the chain had when they were made: to a shorter one they were never made.
    made: usize,
    /// What the window counted for then, without what is outside of messages.
    tokens: Tokens,
    /// The model whose meter counted.
    model: String,
}

impl Sticky {
    /// Keeps the edits of a plan, after which the messages count for so many tokens of a model; `None` if
    /// one of them lies outside the chain.
    pub(crate) fn new(
        edits: &[Edit],
        thread: &Thread,
        messages: &[Message],
        tokens: Tokens,
        model: &str,
    ) -> Option<Self> {
        let link = |message: usize| thread.at.binary_search(&message).ok();
        let place = |at: &Place| {
            let part = ordinal(&messages[at.message].parts, at.part);
            Some(Place { message: link(at.message)?, part })
        };
        let mut kept = Vec::with_capacity(edits.len());
        for edit in edits {
            let mut edit = edit.clone();
            match &mut edit {
                Edit::Stub { at, .. } | Edit::Clip { at, .. } | Edit::Unthink { at } => {
                    *at = place(at)?;
                }
                Edit::Fold { messages, .. } => {
                    for range in messages.iter_mut() {
                        let from = thread.at.partition_point(|at| *at < range.start);
                        let to = thread.at.partition_point(|at| *at < range.end);
                        *range = from..to;
                    }
                    messages.retain(|range| !range.is_empty());
                    messages.last()?;
                }
            }
            kept.push(edit);
        }
        let (made, model) = (thread.links.len(), model.to_owned());
        Some(Self { edits: kept, made, tokens, model })
    }

    /// How many links the chain had when the edits were made.
    pub(crate) fn made(&self) -> usize {
        self.made
    }

    /// What the window counted for when it was made, if the model is the same.
    pub(crate) fn tokens(&self, model: &str) -> Option<Tokens> {
        (self.model == model).then_some(self.tokens)
    }

    /// The edits as JSON, from which [`Self::parse`] reads them.
    pub(crate) fn json(&self) -> Value {
        let edits = self.edits.iter().map(|edit| match edit {
            Edit::Stub { at, handle, text } => {
                json!({"stub": [at.message, at.part], "handle": handle.to_string(), "text": text})
            }
            Edit::Clip { at, handle, text } => {
                json!({"clip": [at.message, at.part], "handle": handle.to_string(), "text": text})
            }
            Edit::Unthink { at } => json!({"unthink": [at.message, at.part]}),
            Edit::Fold { messages, handle, text } => {
                let ranges: Vec<_> = messages.iter().map(|own| [own.start, own.end]).collect();
                json!({"fold": ranges, "handle": handle.to_string(), "text": text})
            }
        });
        json!({
            "edits": edits.collect::<Vec<_>>(), "made": self.made, "tokens": self.tokens.0,
            "model": self.model,
        })
    }

    /// Reads edits that were kept.
    pub(crate) fn parse(whole: &Value) -> Option<Self> {
        let number = |value: &Value| Some(value.as_u64()? as usize);
        let pair = |value: &Value| Some((number(value.get(0)?)?, number(value.get(1)?)?));
        let edit = |value: &Value| -> Option<Edit> {
            let place =
                |key: &str| pair(value.get(key)?).map(|(message, part)| Place { message, part });
            if let Some(at) = place("unthink") {
                return Some(Edit::Unthink { at });
            }
            let handle = Handle::parse(value["handle"].as_str()?)?;
            let text = value["text"].as_str()?.to_owned();
            if let Some(at) = place("stub") {
                return Some(Edit::Stub { at, handle, text });
            }
            if let Some(at) = place("clip") {
                return Some(Edit::Clip { at, handle, text });
            }
            let ranges = value["fold"].as_array()?.iter();
            let messages: Option<Vec<Range<usize>>> = ranges
                .map(|own| pair(own).map(|(start, end)| start..end).filter(|own| !own.is_empty()))
                .collect();
            Some(Edit::Fold { messages: messages?, handle, text })
        };
        let edits: Option<Vec<Edit>> = whole["edits"].as_array()?.iter().map(edit).collect();
        Some(Self {
            edits: edits?,
            made: number(&whole["made"])?,
            tokens: Tokens(whole["tokens"].as_u64()?),
            model: whole["model"].as_str()?.to_owned(),
        })
    }

    /// The same edits in another request of the chain; `None` if that has not all that they touch.
    pub(crate) fn edits(&self, thread: &Thread, messages: &[Message]) -> Option<Vec<Edit>> {
        let mut edits = Vec::with_capacity(self.edits.len());
        for edit in &self.edits {
            let mut edit = edit.clone();
            match &mut edit {
                Edit::Stub { at, .. } | Edit::Clip { at, .. } => {
                    at.message = *thread.at.get(at.message)?;
                    at.part = part_of(&messages[at.message].parts, at.part, false)?;
                }
                Edit::Unthink { at } => {
                    at.message = *thread.at.get(at.message)?;
                    // A client may have taken it out itself.
                    match part_of(&messages[at.message].parts, at.part, true) {
                        Some(part) => at.part = part,
                        None => continue,
                    }
                }
                Edit::Fold { messages: ranges, .. } => {
                    for range in ranges.iter_mut() {
                        // Reasoning is no link and goes with what it led to.
                        let start = match range.start.checked_sub(1) {
                            Some(before) => thread.at.get(before)? + 1,
                            None => thread.lead,
                        };
                        *range = start..thread.at.get(range.end - 1)? + 1;
                    }
                }
            }
            edits.push(edit);
        }
        Some(edits)
    }
}

fn is_thinking(part: &Part) -> bool {
    matches!(part, Part::Thinking(_))
}

/// The number of a part among those of its kind: thinking comes and goes.
fn ordinal(parts: &[Part], at: usize) -> usize {
    let kind = is_thinking(&parts[at]);
    parts[..at].iter().filter(|part| is_thinking(part) == kind).count()
}

fn part_of(parts: &[Part], ordinal: usize, thinking: bool) -> Option<usize> {
    let mut own = parts.iter().enumerate().filter(|(_, part)| is_thinking(part) == thinking);
    own.nth(ordinal).map(|(at, _)| at)
}
