//! Requests as the model sees them, by rules of its own.

use longhand_core::Meter;
use longhand_meter::{ImageRule, Vocabulary};
use longhand_testkit::WireFormat;
use serde_json::Value;

/// About what a picture takes.
const PICTURE_TOKENS: u64 = 1_000;

/// Counts what a model would read.
pub(crate) struct TokenCounter(Vocabulary);

impl TokenCounter {
    pub(crate) fn new() -> Self {
        Self(Vocabulary::o200k(ImageRule::Flat(PICTURE_TOKENS)))
    }

    /// The tokens of all texts in a request.
    pub(crate) fn count(&self, value: &Value) -> u64 {
        match value {
            Value::String(text) if is_picture(text) => PICTURE_TOKENS,
            Value::String(text) => self.0.weigh(text, u64::MAX) / self.0.grains_per_token(),
            Value::Array(values) => values.iter().map(|value| self.count(value)).sum(),
            Value::Object(fields) => fields.values().map(|value| self.count(value)).sum(),
            _ => 1,
        }
    }
}

fn is_picture(text: &str) -> bool {
    text.len() > 2_000 && (text.starts_with("data:image") || !text.contains([' ', '\n']))
}

/// The format that a path takes.
pub(crate) fn wire(path: &str) -> Option<WireFormat> {
    match path.split('?').next()? {
        "/v1/chat/completions" => Some(WireFormat::Chat),
        "/v1/responses" => Some(WireFormat::Responses),
        "/v1/messages" => Some(WireFormat::Anthropic),
        _ => None,
    }
}

/// The messages of a request.
pub(crate) fn messages(wire: WireFormat, body: &Value) -> Vec<Value> {
    let field = if wire == WireFormat::Responses { "input" } else { "messages" };
    body[field].as_array().cloned().unwrap_or_default()
}

/// All text of the user's first messages.
pub(crate) fn opening(wire: WireFormat, body: &Value) -> String {
    let messages = messages(wire, body);
    let users = messages.iter().filter(|message| message["role"] == "user");
    users.take(4).map(|message| message["content"].to_string()).collect()
}

/// A request in the order in which providers read it, without marks that clients move: tools, system prompt,
/// messages.
pub(crate) fn read_order(wire: WireFormat, body: &Value) -> Vec<String> {
    let around = ["tools", "system", "instructions"].map(|key| body[key].clone());
    let mut pieces: Vec<Value> = around.into_iter().collect();
    pieces.extend(messages(wire, body));
    pieces
        .into_iter()
        .map(|mut piece| {
            unmark(&mut piece);
            piece.to_string()
        })
        .collect()
}

fn unmark(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(unmark),
        Value::Object(fields) => {
            fields.remove("cache_control");
            fields.values_mut().for_each(unmark);
        }
        _ => {}
    }
}

/// How many of the bytes of a request a provider has in its cache after the one before it, and whether
/// anything of that one was changed.
pub(crate) fn shared(before: &[String], now: &[String]) -> (usize, bool) {
    let common = before.iter().zip(now).take_while(|(one, other)| one == other).count();
    let bytes = now[..common].iter().map(String::len).sum();
    (bytes, common < before.len())
}
