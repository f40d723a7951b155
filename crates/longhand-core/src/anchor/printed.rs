//! What a command printed, where an agent wraps it in JSON.

use std::borrow::Cow;

use crate::json::{JsonCursor, JsonKind, JsonNode};

/// What agents call the parts of an output, in the order in which they are read.
const OUTPUTS: &[&str] = &["output", "stdout", "output_head", "output_tail", "stderr"];

/// What agents call the exit status.
const STATUSES: &[&str] = &["returncode", "return_code", "exit_code", "exitCode", "exit_status"];

/// The output in `{"returncode": 1, "output": "…"}`, with its line breaks; a status other than 0 is said in a
/// line before it. Any other text comes back as it is.
///
/// Inside the JSON a log is a single line, so its lines could not be looked at one by one.
pub fn printed(text: &str) -> Cow<'_, str> {
    unwrapped(text).map_or(Cow::Borrowed(text), Cow::Owned)
}

fn unwrapped(text: &str) -> Option<String> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    let mut cursor = JsonCursor::new(text);
    let node = cursor.node().ok()?;
    cursor.end().ok()?;
    let status = status(text, &node).or_else(|| {
        let nested = node.get(text, "metadata").filter(|value| value.kind == JsonKind::Object)?;
        status(text, &JsonCursor::at(text, nested.span().start).node().ok()?)
    })?;
    let outputs: Vec<Cow<'_, str>> =
        OUTPUTS.iter().filter_map(|key| node.get(text, key)?.str(text)).collect();
    if outputs.is_empty() {
        return None;
    }
    let said = if status == 0 { String::new() } else { format!("Exit code {status}\n") };
    Some(said + &outputs.join("\n"))
}

fn status(text: &str, node: &JsonNode) -> Option<i64> {
    let value = STATUSES.iter().find_map(|key| node.get(text, key))?;
    text[value.span()].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_in_json_is_read_as_lines() {
        for (wrapped, expected) in [
            (r#"{"returncode": 0, "output": "a\n<b>\n"}"#, "a\n<b>\n"),
            ("{\n  \"returncode\": 2,\n  \"output\": \"x\"\n}", "Exit code 2\nx"),
            (r#"{"output":"x","metadata":{"exit_code":-9,"duration":1}}"#, "Exit code -9\nx"),
            (r#"{"stderr":"no","exitCode":1,"stdout":"yes"}"#, "Exit code 1\nyes\nno"),
            (r#"{"returncode":0,"output_head":"a","output_tail":"z"}"#, "a\nz"),
        ] {
            assert_eq!(printed(wrapped), expected, "{wrapped}");
        }
    }

    #[test]
    fn other_texts_are_as_they_are() {
        for text in [
            "a\nb",
            "{",
            r#"{"output": "x"}"#,
            r#"{"returncode": 0}"#,
            r#"{"returncode": "0", "output": "x"}"#,
            r#"{"returncode": 0, "output": "x"} and more"#,
            r#"{"output": "x", "metadata": 7}"#,
        ] {
            assert_eq!(printed(text), text);
        }
    }
}
