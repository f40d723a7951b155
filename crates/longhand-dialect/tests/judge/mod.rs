//! Judges compacted conversations by a validator that shares no code with `check`.
#![allow(dead_code, unreachable_pub)]

use longhand_core::Policy;
use longhand_dialect::Dialect;
use longhand_testkit::{Wire, validate, validate_edit};

/// Violations that are known and not yet mended; `tests/rich.rs` has an ignored test for each.
const KNOWN: [&str; 2] = [
    "the thinking is bound to a conversation that the edit changed",
    "there is no open approval request",
];

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
pub fn violations(wire: Wire, before: &str, after: &str, policy: Policy) -> Vec<String> {
    let mut violations = all_violations(wire, before, after, policy);
    violations.retain(|violation| !KNOWN.iter().any(|known| violation.contains(known)));
    violations
}
