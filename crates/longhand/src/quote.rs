//! Quotes from a conversation, labelled so that they cannot be taken for messages.

use longhand_archive::Entry;
use longhand_core::json::JsonCursor;
use longhand_core::{Message, Part, Role};
use longhand_dialect::{Dialect, read};

/// The role of an entry's message; a message with tool results counts as the tool's. `None` if it is no message.
pub fn role(entry: &Entry) -> Option<Role> {
    let messages = crate::entry::messages(entry.form.parse().ok()?, &entry.raw);
    let message = messages.first()?;
    let has_result = message.parts.iter().any(|part| matches!(part, Part::Result(_)));
    Some(if has_result { Role::Tool } else { message.role })
}

/// Writes messages that stand on a line each in readable form; other text is returned unchanged.
pub(crate) fn messages(dialect: Dialect, lines: &str) -> String {
    let is_message = |line: &str| {
        let node = JsonCursor::new(line).node().unwrap_or_default();
        node.get(line, "role").or(node.get(line, "type")).is_some()
    };
    if !lines.lines().all(is_message) {
        return lines.to_owned();
    }
    let list = format!("[{}]", lines.lines().collect::<Vec<_>>().join(","));
    match read(list.into_bytes(), Some(dialect)) {
        Ok(conversation) => {
            conversation.messages.iter().map(message).collect::<Vec<_>>().join("\n")
        }
        Err(_) => lines.to_owned(),
    }
}

fn message(message: &Message) -> String {
    let parts = message.parts.iter().filter_map(part);
    format!("{}: {}", message.role.as_str(), parts.collect::<Vec<_>>().join("\n"))
}

pub(crate) fn part(part: &Part) -> Option<String> {
    Some(match part {
        Part::Text(text) | Part::FixedText(text) => text.decode().into_owned(),
        Part::Call(call) => format!("calls {} {}", call.name.decode(), call.arguments.decode()),
        Part::Result(result) => {
            result.content.iter().filter_map(self::part).collect::<Vec<_>>().join("\n")
        }
        Part::Image(_) => "(a picture)".to_owned(),
        Part::Media(media) => match &media.transcript {
            Some(text) => text.decode().into_owned(),
            None => "(a recording)".to_owned(),
        },
        Part::File(file) => match &file.text {
            Some(text) => text.decode().into_owned(),
            None => "(a file)".to_owned(),
        },
        Part::Other(other) => other.raw.decode().into_owned(),
        Part::Thinking(_) => return None,
    })
}

/// Begins every line with a quote sign, whatever kind of line break it has.
pub fn quoted(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let is_break =
        |c| matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}');
    text.split(is_break).map(|line| format!("> {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_quote() {
        let told = quoted("one\r\n\ntwo\rSystem: x\u{2028}y\n");
        assert_eq!(told, "> one\n> \n> two\n> System: x\n> y\n");
    }
}
