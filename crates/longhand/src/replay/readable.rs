//! What can be read in a message, in a form in which texts can be compared.

use longhand_core::{Message, Part, ToolCall};
use serde_json::Value;

/// The readable text of a part: words, the values in a call's arguments, what a tool answered.
///
/// Names of tools, ids of calls, keys of arguments and thinking are left out: no window has to remember them.
pub(super) fn part(part: &Part) -> String {
    let mut text = String::new();
    gather(part, &mut text);
    plain(&text)
}

/// The readable text of a whole message.
pub(super) fn message(message: &Message) -> String {
    let mut text = String::new();
    for part in &message.parts {
        gather(part, &mut text);
    }
    plain(&text)
}

/// The text of a message as it stands, line by line.
pub(super) fn lines(message: &Message) -> String {
    let mut text = String::new();
    for part in message.parts.iter().filter(|part| part.text().is_some()) {
        gather(part, &mut text);
    }
    text
}

/// What a tool answered, line by line.
pub(super) fn answer(result: &longhand_core::ToolResult) -> String {
    let mut text = String::new();
    result.content.iter().for_each(|part| gather(part, &mut text));
    text
}

/// The arguments of a call; `None` if they are not JSON.
pub(super) fn arguments(call: &ToolCall) -> Option<Value> {
    serde_json::from_str(&call.arguments.decode()).ok()
}

fn gather(part: &Part, into: &mut String) {
    let mut add = |text: &str| {
        into.push_str(text);
        into.push('\n');
    };
    match part {
        Part::Text(text) | Part::FixedText(text) => add(&text.decode()),
        Part::Other(other) => add(&other.raw.decode()),
        Part::Call(call) => match arguments(call) {
            Some(value) => values(&value, &mut add),
            None => add(&call.arguments.decode()),
        },
        Part::Result(result) => result.content.iter().for_each(|part| gather(part, into)),
        Part::Media(media) => media.transcript.iter().for_each(|text| add(&text.decode())),
        Part::File(file) => file.text.iter().for_each(|text| add(&text.decode())),
        Part::Thinking(_) | Part::Image(_) => {}
    }
}

/// The strings and numbers in a JSON value.
fn values(value: &Value, add: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => add(text),
        Value::Number(number) => add(&number.to_string()),
        Value::Array(values_) => values_.iter().for_each(|value| values(value, add)),
        Value::Object(fields) => fields.values().for_each(|value| values(value, add)),
        Value::Null | Value::Bool(_) => {}
    }
}

/// A text without what quoting and printing change: escapes as in JSON are undone, colours are gone,
/// and white space is one space.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut gap = false;
    while let Some(c) = chars.next() {
        let c = match (c, chars.peek()) {
            ('\\', Some('n' | 'r' | 't')) => {
                chars.next();
                ' '
            }
            ('\\', Some('"' | '\\' | '/')) => chars.next().unwrap_or(c),
            ('\u{1b}', Some('[')) => {
                while chars.next().is_some_and(|c| !c.is_ascii_alphabetic()) {}
                continue;
            }
            _ => c,
        };
        if c.is_whitespace() {
            gap = true;
            continue;
        }
        if gap && !out.is_empty() {
            out.push(' ');
        }
        gap = false;
        out.push(c);
    }
    out
}

/// The first characters of a text.
pub(super) fn opening(text: &str, chars: usize) -> &str {
    text.char_indices().nth(chars).map_or(text, |(end, _)| text[..end].trim_end())
}

/// The identifier-like strings of a text: runs of five or more of `[A-Za-z0-9_./:@#-]` that have a
/// digit or one of `_`, `/`, `.` and `-`.
pub(super) fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    let is_part =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | ':' | '@' | '#' | '-');
    let tells = |c: char| c.is_ascii_digit() || matches!(c, '_' | '/' | '.' | '-');
    let runs = text.split(move |c| !is_part(c));
    runs.filter(move |run| run.len() >= 5 && run.contains(tells))
}

#[cfg(test)]
mod tests {
    use longhand_dialect::read;
    use longhand_testkit::notation;

    use super::*;

    #[test]
    fn identifiers_are_five_of_the_class_with_a_telling_sign() {
        let text =
            "see src/a.rs, plain words, ab_c, ab_cd (TW-659) 12345: v1.2 user@host:80 café-99";
        let found: Vec<&str> = identifiers(text).collect();
        assert_eq!(found, ["src/a.rs", "ab_cd", "TW-659", "12345:", "user@host:80"]);
    }

    #[test]
    fn quoting_and_layout_make_no_difference() {
        let said = "Fix \"it\",\n\tplease: a\\b";
        for shown in [said.to_owned(), serde_json::to_string(said).unwrap()] {
            assert!(plain(&shown).contains(r#"Fix "it", please: a\b"#), "{shown}");
        }
        assert_eq!(plain("\u{1b}[1;32mok\u{1b}[0m  3\n"), "ok 3");
    }

    #[test]
    fn a_call_is_read_by_its_values() {
        let chat = notation::chat(
            r#"a go call:edit_file#1{"file_path":"src/a.rs","edits":[{"new_text":"x\ny","line":12345}]} | t #1 done"#,
        );
        let conversation = read(chat.into_bytes(), None).unwrap();
        let text = message(&conversation.messages[0]);
        assert!(
            ["go", "src/a.rs", "x y", "12345"].iter().all(|value| text.contains(value)),
            "{text}"
        );
        assert!(!text.contains("file_path") && !text.contains("edit"), "{text}");
        assert_eq!(message(&conversation.messages[1]), "done");
    }

    #[test]
    fn an_opening_is_counted_in_characters() {
        assert_eq!(opening("äöü", 2), "äö");
        assert_eq!(opening("ab cd", 3), "ab");
        assert_eq!(opening("ab", 9), "ab");
    }
}
