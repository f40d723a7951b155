//! Messages as people read them: a heading for each, real line breaks, and what an edit changes as a diff.

use longhand_archive::Entry;
use longhand_core::{Message, Part, ToolCall};
use longhand_dialect::Dialect;
use serde_json::Value;

use crate::entry::trace;
use crate::{quote, recall, time};

/// Keys under which tools that edit files take the old text and the new one.
const EDITS: [(&str, &str); 4] =
    [("old_string", "new_string"), ("old_str", "new_str"), ("oldText", "newText"), ("old", "new")];

/// Entries, each under a heading.
pub(crate) fn entries(entries: &[Entry]) -> String {
    let said = entries.iter().map(|entry| {
        let role = recall::role(entry).map_or("note", |role| role.as_str());
        let date = time::format_local(entry.said_ms());
        let text = match recall::said(entry) {
            Some((_, said)) => message(&said),
            None => match trace(&entry.raw) {
                Some((name, summary)) => format!("{name}: {summary}"),
                None => entry.raw.clone(),
            },
        };
        format!("## {role}, entry {}, {date}\n\n{}\n", entry.seq.0, text.trim_end())
    });
    said.collect::<Vec<_>>().join("\n")
}

/// The earlier blocks that a fold stands for, which come before its messages as JSON strings.
pub(crate) fn blocks(lines: &str) -> String {
    let blocks = lines.lines().map_while(|line| serde_json::from_str::<String>(line).ok());
    blocks.map(|block| format!("{block}\n\n")).collect()
}

/// A JSON text that a handle stands for: messages, one on each line, or the arguments of a call.
pub(crate) fn json(text: &str, dialect: Option<Dialect>) -> String {
    if let Ok(Value::Object(arguments)) = serde_json::from_str(text)
        && !["role", "type"].iter().any(|key| arguments.contains_key(*key))
    {
        return fields(&Value::Object(arguments));
    }
    dialect.map_or_else(|| text.to_owned(), |dialect| quote::messages(dialect, text))
}

fn message(message: &Message) -> String {
    message.parts.iter().filter_map(part).collect::<Vec<_>>().join("\n\n")
}

fn part(part: &Part) -> Option<String> {
    Some(match part {
        Part::Call(call) => format!("### calls {}\n\n{}", call.name.decode(), arguments(call)),
        Part::Result(result) => {
            result.content.iter().filter_map(self::part).collect::<Vec<_>>().join("\n")
        }
        part => return quote::part(part),
    })
}

/// What a part says, without a heading.
pub(crate) fn content(part: &Part) -> String {
    match part {
        Part::Call(call) => arguments(call),
        Part::Thinking(thinking) => thinking.text.decode().into_owned(),
        Part::Result(result) => result.content.iter().map(content).collect::<Vec<_>>().join("\n"),
        part => quote::part(part).unwrap_or_default(),
    }
}

fn arguments(call: &ToolCall) -> String {
    let arguments = call.arguments.decode();
    let read = serde_json::from_str(&arguments);
    read.map_or_else(|_| arguments.to_string(), |value| fields(&value))
}

/// The fields of an object, the old and the new text of an edit as a diff.
fn fields(value: &Value) -> String {
    let Value::Object(fields) = value else { return shown(value) };
    let mut lines = Vec::new();
    let edit =
        EDITS.iter().find(|(old, new)| fields.contains_key(*old) && fields.contains_key(*new));
    for (key, value) in fields {
        let is_edit = edit.is_some_and(|(old, new)| key == old || key == new);
        let text = shown(value);
        match text.contains('\n') {
            _ if is_edit => {}
            true => lines.push(format!("{key}:\n{text}")),
            false => lines.push(format!("{key}: {text}")),
        }
    }
    if let Some((old, new)) = edit {
        lines.push(diff(&shown(&fields[*old]), &shown(&fields[*new])));
    }
    lines.join("\n")
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) if items.iter().all(Value::is_object) => {
            items.iter().map(fields).collect::<Vec<_>>().join("\n")
        }
        other => other.to_string(),
    }
}

/// The lines that an edit takes out and puts in, between those that it leaves at the beginning and at the end.
fn diff(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let same =
        |one: &mut dyn Iterator<Item = (&&str, &&str)>| one.take_while(|(a, b)| a == b).count();
    let head = same(&mut old.iter().zip(&new));
    let tail = same(&mut old[head..].iter().rev().zip(new[head..].iter().rev()));
    let lines = |sign: &str, lines: &[&str]| -> Vec<String> {
        lines.iter().map(|line| format!("{sign}{line}")).collect()
    };
    let parts = [
        lines(" ", &old[..head]),
        lines("-", &old[head..old.len() - tail]),
        lines("+", &new[head..new.len() - tail]),
        lines(" ", &old[old.len() - tail..]),
    ];
    parts.concat().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_is_a_diff() {
        let arguments = r#"{"path":"a.rs","old_string":"fn a() {\n  1\n}","new_string":"fn a() {\n  2\n  3\n}"}"#;
        assert_eq!(json(arguments, None), "path: a.rs\n fn a() {\n-  1\n+  2\n+  3\n }");
        assert_eq!(diff("", "x"), "+x");
        assert_eq!(diff("x", ""), "-x");
        assert_eq!(diff("a\na", "a"), " a\n-a");
    }

    #[test]
    fn line_breaks_are_real() {
        let arguments = r#"{"path":"a.md","content":"one\ntwo","deep":{"x":1}}"#;
        assert_eq!(json(arguments, None), "path: a.md\ncontent:\none\ntwo\ndeep: {\"x\":1}");
        let line = r#"{"role":"user","content":"hello\nyou"}"#;
        assert_eq!(json(line, Some(Dialect::Chat)), "user: hello\nyou");
        assert_eq!(json("[1", None), "[1");
    }
}
