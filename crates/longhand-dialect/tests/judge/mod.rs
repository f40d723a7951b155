//! Judges compacted conversations by a validator that shares no code with `check`.
#![allow(dead_code, unreachable_pub)]

use longhand_core::Policy;
use longhand_dialect::Dialect;
use longhand_testkit::{Wire, validate, validate_edit};
use serde_json::Value;

pub fn dialect_of(wire: Wire) -> Dialect {
    match wire {
        Wire::Chat => Dialect::Chat,
        Wire::Responses => Dialect::Responses,
        Wire::Anthropic => Dialect::Anthropic,
    }
}

/// Returns what is wrong with a compacted conversation, known faults included.
pub fn all_violations(wire: Wire, before: &str, after: &str, policy: Policy) -> Vec<String> {
    let mut violations = validate(wire, after);
    let edits = validate_edit(wire, before, after, before.contains("claude-opus-5-5"));
    // Only `auto` promises to keep the newest user message.
    let promised =
        |violation: &String| policy == Policy::Auto || !violation.contains("newest user");
    violations.extend(edits.into_iter().filter(promised));
    violations
}

/// Returns what is wrong with a compacted conversation and not known yet.
///
/// `tests/rich.rs` has an ignored test for each fault that is known.
pub fn violations(wire: Wire, before: &str, after: &str, policy: Policy) -> Vec<String> {
    let mut violations = all_violations(wire, before, after, policy);
    let newest_reply = newest_reply(after);
    violations.retain(|violation| {
        let is_bound = violation.contains("the thinking is bound to a conversation");
        let is_newest = violation.starts_with(&newest_reply);
        !(is_bound && is_newest) && !violation.contains("there is no open approval request")
    });
    violations
}

/// The place of the newest reply of an Anthropic request.
fn newest_reply(json: &str) -> String {
    let document: Value = serde_json::from_str(json).unwrap_or_default();
    let messages = document.as_array().or(document["messages"].as_array());
    let messages = messages.map_or(&[][..], Vec::as_slice);
    let index = messages.iter().rposition(|message| message["role"] == "assistant");
    index.map_or_else(String::new, |index| format!("messages[{index}]."))
}
