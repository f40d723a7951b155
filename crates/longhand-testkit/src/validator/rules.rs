//! What the rules of all formats are written with.

use serde_json::Value;

/// The violations that were found so far.
#[derive(Debug, Default)]
pub(super) struct ViolationReport {
    pub(super) violations: Vec<String>,
}

impl ViolationReport {
    pub(super) fn add(&mut self, place: &str, violation: impl AsRef<str>) {
        self.violations.push(format!("{place}: {}", violation.as_ref()));
    }

    /// Adds a violation unless the condition holds, which it returns.
    pub(super) fn demand(&mut self, condition: bool, place: &str, violation: &str) -> bool {
        if !condition {
            self.add(place, violation);
        }
        condition
    }
}

/// Returns a field if it is a string.
pub(super) fn text_field<'v>(value: &'v Value, name: &str) -> Option<&'v str> {
    value.get(name)?.as_str()
}

/// Returns a field if it is a string that is not empty.
pub(super) fn filled_field<'v>(value: &'v Value, name: &str) -> Option<&'v str> {
    text_field(value, name).filter(|text| !text.is_empty())
}

/// Returns a field unless it is absent or null.
pub(super) fn present<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    value.get(name).filter(|value| !value.is_null())
}

pub(super) fn kind_of(value: &Value) -> &str {
    text_field(value, "type").unwrap_or_default()
}

pub(super) fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// Whether a name has 1 to 64 letters, digits, `_` or `-`.
pub(super) fn is_tool_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && is_identifier(name)
}

/// Whether a text has only letters, digits, `_` and `-`.
pub(super) fn is_identifier(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

/// Checks the name of a tool or of the tool that a call is for.
pub(super) fn check_tool_name(holder: &Value, place: &str, report: &mut ViolationReport) {
    let Some(name) = text_field(holder, "name") else {
        return report.add(place, "the tool has no name");
    };
    report.demand(is_tool_name(name), place, "a tool name has 1 to 64 letters, digits, `_` or `-`");
}

/// Checks that the arguments of a function are a string that holds a JSON object.
pub(super) fn check_arguments(holder: &Value, place: &str, report: &mut ViolationReport) {
    let Some(arguments) = text_field(holder, "arguments") else {
        return report.add(place, "`arguments` is not a string");
    };
    let parsed: Option<Value> = serde_json::from_str(arguments).ok();
    let is_object = parsed.is_some_and(|arguments| arguments.is_object());
    report.demand(is_object, place, "`arguments` does not hold a JSON object");
}

/// Checks that a string field is there and holds more than white space.
pub(super) fn check_text(block: &Value, name: &str, place: &str, report: &mut ViolationReport) {
    match text_field(block, name) {
        None => report.add(place, format!("`{name}` is not a string")),
        Some(text) => {
            report.demand(!is_blank(text), place, "the text is empty");
        }
    }
}
