//! What every wire format can say: rounds of steps, before they are written down.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::arguments::arguments;
use super::text::{output, text};
use crate::json::{Json, JsonLayout, object, raw};

#[derive(Clone, Debug)]
pub(super) struct GeneratedConversation {
    pub(super) system: Option<String>,
    /// A request body around the messages, or a bare array.
    pub(super) wrapped: bool,
    pub(super) id_prefix: &'static str,
    pub(super) layout: JsonLayout,
    pub(super) rounds: Vec<GeneratedRound>,
}

/// A user message and what follows; only the last round may lack both steps and answer.
#[derive(Clone, Debug)]
pub(super) struct GeneratedRound {
    pub(super) user: GeneratedText,
    pub(super) steps: Vec<GeneratedStep>,
    pub(super) answer: Option<GeneratedText>,
}

/// A text with the ways in which it may be written.
#[derive(Clone, Debug)]
pub(super) struct GeneratedText {
    pub(super) text: String,
    pub(super) thinking: Option<GeneratedThinking>,
    /// A list of blocks and not a string.
    pub(super) blocks: bool,
    pub(super) image: bool,
    pub(super) extra: Extra,
}

#[derive(Clone, Debug)]
pub(super) struct GeneratedThinking {
    pub(super) text: String,
    pub(super) signature: String,
    pub(super) hidden: bool,
}

/// A model's reply with at least one call.
#[derive(Clone, Debug)]
pub(super) struct GeneratedStep {
    pub(super) text: Option<String>,
    pub(super) thinking: Option<GeneratedThinking>,
    pub(super) calls: Vec<GeneratedCall>,
    /// Results may come in another order than their calls.
    pub(super) reversed: bool,
    pub(super) extra: Extra,
}

#[derive(Clone, Debug)]
pub(super) struct GeneratedCall {
    pub(super) name: &'static str,
    pub(super) arguments: String,
    pub(super) result: String,
    pub(super) shape: ResultShape,
    pub(super) failed: bool,
    pub(super) extra: Extra,
}

/// How a result is written, where the wire has a choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ResultShape {
    Text,
    Blocks,
    Image,
    Nothing,
}

/// A field that no format knows, or none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extra(Option<(&'static str, &'static str)>);

impl Extra {
    pub(super) fn add_to(self, json: Json) -> Json {
        match self.0 {
            Some((name, value)) => json.with(name, raw(value)),
            None => json,
        }
    }
}

impl GeneratedConversation {
    /// Gives every call its id: the same for a call and its result, different for all others.
    pub(super) fn ids(&self) -> impl Iterator<Item = String> + '_ {
        (1_u32..)
            .map(|n| format!("{}{:07x}", self.id_prefix, n.wrapping_mul(0x9e_3779) & 0xfff_ffff))
    }
}

impl GeneratedStep {
    /// Orders the results of a step.
    pub(super) fn ordered<T>(&self, mut results: Vec<T>) -> Vec<T> {
        if self.reversed {
            results.reverse();
        }
        results
    }
}

/// Writes the tools of a request body; their names are those of the calls.
pub(super) fn tool_schema() -> Json {
    raw(r#"{"type":"object","properties":{"path":{"type":"string"}},"minProperties":1.0}"#)
}

/// A picture of one pixel.
pub(super) const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

pub(super) const TOOLS: &[&str] =
    &["read_file", "apply_patch", "run_tests", "search", "mcp__fs-list"];

pub(super) fn conversation() -> impl Strategy<Value = GeneratedConversation> {
    let layout = (prop::bool::weighted(0.3), prop::bool::weighted(0.2))
        .prop_map(|(pretty, escaped)| JsonLayout { pretty, escaped });
    let prefix = select(&["call_", "toolu_01", "chatcmpl-tool-", "fc_"][..]);
    (option::of(text()), any::<bool>(), prefix, layout, vec(round(), 0..15)).prop_map(
        |(system, wrapped, id_prefix, layout, rounds)| GeneratedConversation {
            system,
            wrapped,
            id_prefix,
            layout,
            rounds: answered(rounds),
        },
    )
}

/// Two user messages in a row are not for every provider, so an idle round gets an answer.
fn answered(mut rounds: Vec<GeneratedRound>) -> Vec<GeneratedRound> {
    let last = rounds.len().saturating_sub(1);
    for round in &mut rounds[..last] {
        if round.steps.is_empty() && round.answer.is_none() {
            round.answer =
                Some(GeneratedText { image: false, thinking: None, ..round.user.clone() });
        }
    }
    rounds
}

fn round() -> impl Strategy<Value = GeneratedRound> {
    (said(), vec(step(), 0..4), option::weighted(0.8, said()))
        .prop_map(|(user, steps, answer)| GeneratedRound { user, steps, answer })
}

fn said() -> impl Strategy<Value = GeneratedText> {
    (text(), thinking(), any::<bool>(), prop::bool::weighted(0.1), extra()).prop_map(
        |(text, thinking, blocks, image, extra)| GeneratedText {
            text,
            thinking,
            blocks,
            image,
            extra,
        },
    )
}

fn thinking() -> impl Strategy<Value = Option<GeneratedThinking>> {
    let signature = "[A-Za-z0-9+/]{24,80}={0,2}";
    let thinking = (text(), signature, prop::bool::weighted(0.1))
        .prop_map(|(text, signature, hidden)| GeneratedThinking { text, signature, hidden });
    option::weighted(0.25, thinking)
}

fn step() -> impl Strategy<Value = GeneratedStep> {
    (option::of(text()), thinking(), vec(call(), 1..4), prop::bool::weighted(0.2), extra())
        .prop_map(|(text, thinking, calls, reversed, extra)| GeneratedStep {
            text,
            thinking,
            calls,
            reversed,
            extra,
        })
}

fn call() -> impl Strategy<Value = GeneratedCall> {
    (select(TOOLS), arguments(), output(), shape(), prop::bool::weighted(0.15), extra()).prop_map(
        |(name, arguments, result, shape, failed, extra)| GeneratedCall {
            name,
            arguments,
            result,
            shape,
            failed,
            extra,
        },
    )
}

fn shape() -> impl Strategy<Value = ResultShape> {
    prop_oneof![
        6 => Just(ResultShape::Text),
        3 => Just(ResultShape::Blocks),
        1 => Just(ResultShape::Image),
        1 => Just(ResultShape::Nothing),
    ]
}

fn extra() -> impl Strategy<Value = Extra> {
    let known_to_nobody = select(
        &[
            ("x_trace", r#"{"span": "a\/b", "n": 1.50}"#),
            ("metadata", "null"),
            ("vendor_hint", "[1e3,\"é\",{}]"),
            ("weight", "1.0"),
        ][..],
    );
    option::weighted(0.15, known_to_nobody).prop_map(Extra)
}

/// A picture as a data address.
pub(super) fn pixel_url() -> Json {
    format!("data:image/png;base64,{PIXEL}").into()
}

/// A block that has a type and a text.
pub(super) fn text_block(kind: &'static str, text: &str) -> Json {
    object([("type", kind.into()), ("text", text.into())])
}
