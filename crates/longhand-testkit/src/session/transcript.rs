//! The messages of a session as they pile up.

use serde_json::{Value, json};

use crate::rng::Rng;

/// One call, with the arguments it is made with and the result it gets.
pub(super) struct TranscriptCall {
    pub(super) tool: &'static str,
    pub(super) arguments: Value,
    pub(super) result: String,
}

pub(super) struct Transcript {
    messages: Vec<Value>,
    bytes: usize,
    id_length: usize,
}

impl Transcript {
    pub(super) fn new(rng: &mut Rng) -> Self {
        Self { messages: Vec::new(), bytes: 0, id_length: rng.range(9..25) }
    }

    /// Counts the bytes of texts, arguments and results.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn into_messages(self) -> Value {
        Value::Array(self.messages)
    }

    pub(super) fn text(&mut self, role: &str, text: &str) {
        self.bytes += text.len();
        self.messages.push(json!({ "role": role, "content": text }));
    }

    /// Adds an assistant message with calls, and the results right after it.
    pub(super) fn step(&mut self, text: Option<&str>, calls: Vec<TranscriptCall>, rng: &mut Rng) {
        let mut tool_calls = Vec::new();
        let mut results = Vec::new();
        for call in calls {
            let mut id = "call_".to_owned();
            rng.push_letters(&mut id, ALPHANUMERIC, self.id_length);
            let arguments = call.arguments.to_string();
            self.bytes += arguments.len() + call.result.len();
            let function = json!({ "name": call.tool, "arguments": arguments });
            tool_calls.push(json!({ "id": id, "type": "function", "function": function }));
            results.push(json!({ "role": "tool", "tool_call_id": id, "content": call.result }));
        }
        self.bytes += text.map_or(0, str::len);
        self.messages
            .push(json!({ "role": "assistant", "content": text, "tool_calls": tool_calls }));
        self.messages.extend(results);
    }
}

const ALPHANUMERIC: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
