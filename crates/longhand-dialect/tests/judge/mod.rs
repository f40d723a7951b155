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

/// Returns what is wrong with a compacted conversation.
pub fn violations(wire: Wire, before: &str, after: &str, policy: Policy) -> Vec<String> {
    let mut violations = validate(wire, after);
    let edits = validate_edit(wire, before, after, before.contains("claude-opus-5-5"));
    // Only `auto` promises to keep the newest user message.
    let promised =
        |violation: &String| policy == Policy::Auto || !violation.contains("newest user");
    violations.extend(edits.into_iter().filter(promised));
    // What follows a reply that ends with a command may be its output, and no words of the user.
    let acts = ["```", "Action", ">", "$ "].iter().any(|mark| before.contains(mark));
    violations.retain(|violation| !(acts && violation.contains("newest user")));
    violations.retain(|violation| !is_excused(violation, after));
    violations
}

/// Where the judge is stricter than we are: about the newest reply.
///
/// Its thinking stays while calls of it are open, also if the conversation ends with them; and if nothing
/// else makes the window fit, the newest step is folded with its thinking.
fn is_excused(violation: &str, after: &str) -> bool {
    let is_bound = violation.contains("the thinking is bound to a conversation");
    let is_latest = violation.contains("changed the thinking of the latest reply");
    is_latest || is_bound && violation.starts_with(&newest_reply(after))
}

/// The place of the newest reply of an Anthropic request.
fn newest_reply(json: &str) -> String {
    let document: Value = serde_json::from_str(json).unwrap_or_default();
    let messages = document.as_array().or(document["messages"].as_array());
    let messages = messages.map_or(&[][..], Vec::as_slice);
    let index = messages.iter().rposition(|message| message["role"] == "assistant");
    index.map_or_else(String::new, |index| format!("messages[{index}]."))
}
