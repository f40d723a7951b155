//! What all of them are read and shown by.

use std::fmt::Write as _;

use longhand_core::Part;
use longhand_dialect::{Conversation, Dialect, read};

use crate::common::{self as operations, Operation};
pub(crate) use crate::common::{remove, render};

pub(crate) fn parse(lines: &str, dialect: Dialect) -> Conversation {
    let read = read(lines.as_bytes().to_vec(), None);
    let conversation = read.unwrap_or_else(|error| panic!("{error}: {lines}"));
    assert_eq!(conversation.dialect, dialect);
    assert_eq!(conversation.apply(&[]), lines);
    conversation
}

/// Prints one line per message: where it stands, who speaks, and its parts.
pub(crate) fn show(conversation: &Conversation) -> String {
    let mut out = String::new();
    for (at, message) in conversation.messages.iter().enumerate() {
        let parts: Vec<String> = message.parts.iter().map(shown).collect();
        let (name, role) = (conversation.name_of(at), message.role.as_str());
        let _ = writeln!(out, "{name} {role}: {}", parts.join(" + "));
    }
    out
}

pub(crate) fn shown(part: &Part) -> String {
    match part {
        Part::Text(text) => text.decode().into_owned(),
        Part::Thinking(thinking) => format!("({})", thinking.text.decode()),
        Part::FixedText(text) => format!("fixed {:?}", text.decode()),
        Part::Media(media) => format!("media {:?}", media.kind),
        Part::Image(image) => format!("image {:?}", image.pixels),
        Part::File(_) => "file".to_owned(),
        Part::Call(call) => format!("{}={}", call.id.decode(), call.name.decode()),
        Part::Result(result) => {
            let content: Vec<String> = result.content.iter().map(shown).collect();
            let mark = if result.error { "!" } else { "" };
            format!("{}->{mark}{}", result.call.decode(), content.join(","))
        }
        Part::Other(other) => format!("<{}>", other.raw.raw().chars().take(24).collect::<String>()),
    }
}

pub(crate) fn check(lines: &str, dialect: Dialect, expected: &[&str]) {
    let conversation = parse(lines, dialect);
    let found = show(&conversation);
    assert_eq!(found.lines().collect::<Vec<_>>(), expected, "\n{found}");
    assert!(conversation.check().iter().all(|finding| !finding.grave));
}

pub(crate) fn fold(ranges: &[(usize, usize)]) -> Operation {
    operations::fold(ranges, "F")
}

/// The name that a fold's line goes by.
pub(crate) const FOLD: &str = "683a6268-7430-3367-3763-346271656c6f";

/// What links a window's lines: name and parent of each.
pub(crate) fn links(window: &str, id: &str, parent: &str) -> Vec<(String, String)> {
    let lines = window.lines().filter(|line| !line.is_empty());
    let lines = lines.map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let text = |value: &serde_json::Value| match value.as_str() {
        Some(FOLD) => "fold".to_owned(),
        Some(name) => name.to_owned(),
        None => "-".to_owned(),
    };
    lines
        .filter(|line| line[id].is_string())
        .map(|line| (text(&line[id]), text(&line[parent])))
        .collect()
}

pub(crate) fn pairs<'p>(pairs: &[(&'p str, &'p str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}
