//! Judges compacted conversations by a validator that shares no code with `check`.
use longhand_core::Policy;
use longhand_dialect::Dialect;
use longhand_testkit::{WireFormat, validate, validate_edit};

pub(crate) fn dialect_of(wire: WireFormat) -> Dialect {
    match wire {
        WireFormat::Chat => Dialect::Chat,
        WireFormat::Responses => Dialect::Responses,
        WireFormat::Anthropic => Dialect::Anthropic,
    }
}

/// Returns what is wrong with a compacted conversation.
pub(crate) fn violations(
    wire: WireFormat,
    before: &str,
    after: &str,
    policy: Policy,
) -> Vec<String> {
    let mut violations = validate(wire, after);
    let edits = validate_edit(wire, before, after, before.contains("claude-opus-5-5"));
    // Only `auto` promises to keep the newest user message.
    let promised =
        |violation: &String| policy == Policy::Auto || !violation.contains("newest user");
    violations.extend(edits.into_iter().filter(promised));
    violations
}
