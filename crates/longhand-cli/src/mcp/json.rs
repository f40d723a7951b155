//! One entry of a settings file in JSON, which may have comments and commas at the end: it is set or taken out, and every
//! other byte stays.

use std::ops::Range;

use anyhow::{Context, Result, bail};
use longhand_core::json::{JsonCursor, JsonKind, JsonNode, quote};
use serde_json::Value;

/// The indentation of a file that shows none.
const INDENT: &str = "  ";

/// A settings file, read.
struct SettingsText<'t> {
    text: &'t str,
    /// The same text without comments.
    bare: String,
    /// The same without commas at the end of lists, which is JSON. Each has as many bytes.
    json: String,
    newline: &'static str,
}

/// What the file says.
pub(super) fn read(text: &str) -> Result<Value> {
    if text.trim().is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    let settings = SettingsText::of(text);
    serde_json::from_str(&settings.json).context("it is no JSON")
}

/// The text with an entry under these keys, in the place of one that is there.
pub(super) fn with_entry(text: &str, keys: &[&str], entry: &Value) -> Result<String> {
    let blank = if text.trim().is_empty() { "{}\n" } else { text };
    let settings = SettingsText::of(blank);
    let mut node = settings.root()?;
    for (depth, key) in keys.iter().enumerate() {
        let Some(place) = field(&settings, &node, key)? else {
            let inner = keys[depth + 1..].iter().rev();
            let value = inner.fold(entry.clone(), |value, key| serde_json::json!({*key: value}));
            return Ok(settings.with_field(&node, key, &value));
        };
        let (_, value) = node.fields[place];
        if depth + 1 == keys.len() {
            let indent = line_indent(blank, node.fields[place].0.span().start);
            let written = settings.written(entry, &indent);
            return Ok(spliced(blank, &[(value.span(), written)]));
        }
        node = settings.node_at(value.span().start, key)?;
    }
    bail!("no entry was named")
}

/// The text without the entry under these keys.
pub(super) fn without_entry(text: &str, keys: &[&str]) -> Result<String> {
    let settings = SettingsText::of(text);
    let mut node = settings.root()?;
    for (depth, key) in keys.iter().enumerate() {
        let Some(place) = field(&settings, &node, key)? else { return Ok(text.to_owned()) };
        if depth + 1 == keys.len() {
            return Ok(settings.without_field(&node, place));
        }
        node = settings.node_at(node.fields[place].1.span().start, key)?;
    }
    Ok(text.to_owned())
}

/// The place of a key among the fields of an object. A key that is there twice may mean either.
fn field(settings: &SettingsText, node: &JsonNode, key: &str) -> Result<Option<usize>> {
    let mut places =
        (0..node.fields.len()).filter(|place| node.fields[*place].0.is(&settings.json, key));
    let first = places.next();
    if places.next().is_some() {
        bail!("it has {key:?} twice");
    }
    Ok(first)
}

impl<'t> SettingsText<'t> {
    fn of(text: &'t str) -> Self {
        let bare = without_comments(text);
        let json = without_last_commas(&bare);
        let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
        Self { text, bare, json, newline }
    }

    fn root(&self) -> Result<JsonNode> {
        self.node_at(0, "the file")
    }

    fn node_at(&self, at: usize, name: &str) -> Result<JsonNode> {
        let node = JsonCursor::at(&self.json, at).node();
        let node = node.map_err(|error| anyhow::anyhow!("it is no JSON: {error:?}"))?;
        if node.value.kind != JsonKind::Object {
            bail!("{name} is {}, and no object", node.value.kind.describe());
        }
        Ok(node)
    }

    /// How this file indents one level.
    fn unit(&self) -> String {
        let root = self.root().unwrap_or_default();
        let first = root.fields.first().map(|(key, _)| key.span().start);
        let first = first.filter(|start| is_first_of_line(self.text, *start));
        let unit = first.map(|start| line_indent(self.text, start));
        unit.filter(|unit| !unit.is_empty()).unwrap_or_else(|| INDENT.to_owned())
    }

    /// A value over several lines, the first of which stands behind its key.
    fn written(&self, value: &Value, indent: &str) -> String {
        let unit = self.unit();
        let mut bytes = Vec::new();
        let formatter = serde_json::ser::PrettyFormatter::with_indent(unit.as_bytes());
        let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
        let written = serde::Serialize::serialize(value, &mut serializer);
        debug_assert!(written.is_ok(), "a value can be written");
        let text = String::from_utf8_lossy(&bytes);
        text.replace('\n', &format!("{}{indent}", self.newline))
    }

    fn with_field(&self, node: &JsonNode, key: &str, value: &Value) -> String {
        let span = node.value.span();
        let (open, close) = (span.start, span.end - 1);
        let (inside, newline) = (&self.text[open + 1..close], self.newline);
        // Behind the last comment.
        let end = open + 1 + inside.trim_end().len();
        let Some((last_key, last)) = node.fields.last() else {
            let outer = line_indent(self.text, open);
            let indent = format!("{outer}{}", self.unit());
            let member = format!("{}: {}", quote(key), self.written(value, &indent));
            let tail = if self.text[end..close].contains('\n') && !inside.trim().is_empty() {
                String::new()
            } else {
                format!("{newline}{outer}")
            };
            let gap = if inside.trim().is_empty() { open + 1..close } else { end..end };
            return spliced(self.text, &[(gap, format!("{newline}{indent}{member}{tail}"))]);
        };
        let last_end = last.span().end;
        let has_comma = self.bare[last_end..close].contains(',');
        let comma = |at: bool| if at { "," } else { "" };
        if !is_first_of_line(self.text, last_key.span().start) {
            let member = format!(" {}: {value}{}", quote(key), comma(has_comma));
            let place = if has_comma { end } else { last_end };
            return spliced(self.text, &[(place..place, format!("{}{member}", comma(!has_comma)))]);
        }
        let indent = line_indent(self.text, last_key.span().start);
        let member = format!("{}: {}", quote(key), self.written(value, &indent));
        let line = format!("{newline}{indent}{member}{}", comma(has_comma));
        let splices = [
            (last_end..last_end, comma(!has_comma).to_owned()),
            (end.max(last_end)..end.max(last_end), line),
        ];
        spliced(self.text, &splices)
    }

    fn without_field(&self, node: &JsonNode, place: usize) -> String {
        let (key, value) = node.fields[place];
        let (open, close) = (node.value.span().start, node.value.span().end - 1);
        let (start, value_end) = (key.span().start, value.span().end);
        let next = node.fields.get(place + 1).map_or(close, |(key, _)| key.span().start);
        let comma = self.bare[value_end..next].find(',').map(|at| value_end + at);
        let end = comma.map_or(value_end, |comma| comma + 1);
        let blank = |at: usize| {
            at - self.text[..at].chars().rev().take_while(|c| matches!(c, ' ' | '\t')).count()
        };
        let mut from = blank(start);
        let mut to = end;
        if is_first_of_line(self.text, start) {
            let before = &self.text[..from];
            from = before.strip_suffix("\r\n").or(before.strip_suffix('\n')).map_or(from, str::len);
        } else if self.text[..from].ends_with('{') {
            from = start;
            to += self.text[end..].len() - self.text[end..].trim_start_matches([' ', '\t']).len();
        }
        let mut splices = Vec::new();
        if comma.is_none()
            && let Some((_, before)) = place.checked_sub(1).map(|before| node.fields[before])
        {
            let before_end = before.span().end;
            let comma = self.bare[before_end..start].find(',').map(|at| before_end + at);
            splices.extend(comma.map(|at| (at..at + 1, String::new())));
            from = from.max(comma.map_or(from, |at| at + 1));
        }
        splices.push((from..to, String::new()));
        let is_empty =
            self.text[open + 1..from].trim().is_empty() && self.text[to..close].trim().is_empty();
        if node.fields.len() == 1 && is_empty {
            splices = vec![(open + 1..close, String::new())];
        }
        spliced(self.text, &splices)
    }
}

/// The text with other bytes in some places, which are in order.
fn spliced(text: &str, splices: &[(Range<usize>, String)]) -> String {
    let (mut new, mut at) = (String::with_capacity(text.len() + 256), 0);
    for (range, insert) in splices {
        new.push_str(&text[at..range.start]);
        new.push_str(insert);
        at = range.end;
    }
    new.push_str(&text[at..]);
    new
}

/// The white space at the beginning of the line that a byte is on.
fn line_indent(text: &str, at: usize) -> String {
    let line = &text[text[..at].rfind('\n').map_or(0, |end| end + 1)..];
    line.chars().take_while(|c| matches!(c, ' ' | '\t')).collect()
}

fn is_first_of_line(text: &str, at: usize) -> bool {
    let before = text[..at].trim_end_matches([' ', '\t']);
    before.ends_with('\n')
}

/// Blanks what is written between `//` and the end of a line, and between `/*` and `*/`.
fn without_comments(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    if text.starts_with('\u{feff}') {
        bytes[..3].fill(b' ');
    }
    let mut at = 0;
    while at < bytes.len() {
        match &bytes[at..] {
            [b'"', ..] => at = string_end(&bytes, at),
            [b'/', b'/', ..] => {
                let end = bytes[at..].iter().position(|byte| *byte == b'\n');
                let end = end.map_or(bytes.len(), |length| at + length);
                bytes[at..end].fill(b' ');
                at = end;
            }
            [b'/', b'*', ..] => {
                let end = bytes[at + 2..].windows(2).position(|pair| pair == b"*/");
                // One without an end is no comment, and the text no JSON.
                let Some(end) = end.map(|length| at + 2 + length + 2) else { break };
                bytes[at..end]
                    .iter_mut()
                    .filter(|byte| **byte != b'\n')
                    .for_each(|byte| *byte = b' ');
                at = end;
            }
            _ => at += 1,
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

/// Blanks the commas behind which a list ends.
fn without_last_commas(bare: &str) -> String {
    let mut bytes = bare.as_bytes().to_vec();
    let (mut at, mut comma) = (0, None);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                comma = None;
                at = string_end(&bytes, at);
                continue;
            }
            b',' => comma = Some(at),
            b'}' | b']' => {
                if let Some(comma) = comma.take() {
                    bytes[comma] = b' ';
                }
            }
            byte if byte.is_ascii_whitespace() => {}
            _ => comma = None,
        }
        at += 1;
    }
    String::from_utf8(bytes).unwrap_or_else(|_| bare.to_owned())
}

/// Where a string ends that begins with a quotation mark.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const KEYS: [&str; 2] = ["servers", "ours"];

    /// Sets an entry, and takes it out again: what is left must be what was there.
    fn check(text: &str, expected: &str) {
        let entry = json!({"command": "x", "args": ["mcp"]});
        let set = with_entry(text, &KEYS, &entry).unwrap();
        let shown = set.replace("\r\n", "⏎").replace('\n', "⏎");
        assert_eq!(shown, expected.replace("ENTRY", r#"{"command":"x","args":["mcp"]}"#), "{set}");
        let mut wanted = read(text).unwrap();
        wanted["servers"]["ours"] = entry;
        assert_eq!(read(&set).unwrap(), wanted);
        let gone = without_entry(&set, &KEYS).unwrap();
        wanted["servers"].as_object_mut().unwrap().remove("ours");
        assert_eq!(read(&gone).unwrap(), wanted);
        if text.contains("\"servers\"") {
            assert_eq!(gone, text);
        }
    }

    #[test]
    fn every_other_byte_stays() {
        for (text, expected) in [
            (
                r#"{"servers": {"a": 1}, "b": 1.0}"#,
                r#"{"servers": {"a": 1, "ours": ENTRY}, "b": 1.0}"#,
            ),
            (
                "{\n\t\"b\": 1, // one\n\t\"servers\": {\n\t\t\"a\": {} // last\n\t}\n}",
                "{⏎\t\"b\": 1, // one⏎\t\"servers\": {⏎\t\t\"a\": {}, // last⏎\t\t\"ours\": {⏎\t\t\t\"command\": \"x\",⏎\t\t\t\"args\": [⏎\t\t\t\t\"mcp\"⏎\t\t\t]⏎\t\t}⏎\t}⏎}",
            ),
            (
                "{\r\n  \"servers\": {\r\n    \"a\": [1,],\r\n    /* \"ours\": {}, */\r\n  },\r\n}\r\n",
                "{⏎  \"servers\": {⏎    \"a\": [1,],⏎    /* \"ours\": {}, */⏎    \"ours\": {⏎      \"command\": \"x\",⏎      \"args\": [⏎        \"mcp\"⏎      ]⏎    },⏎  },⏎}⏎",
            ),
            (
                "{\"servers\": {}}",
                "{\"servers\": {⏎  \"ours\": {⏎    \"command\": \"x\",⏎    \"args\": [⏎      \"mcp\"⏎    ]⏎  }⏎}}",
            ),
            (
                "{\n  \"servers\": {\n    // none\n  }\n}\n",
                "{⏎  \"servers\": {⏎    // none⏎    \"ours\": {⏎      \"command\": \"x\",⏎      \"args\": [⏎        \"mcp\"⏎      ]⏎    }⏎  }⏎}⏎",
            ),
            (
                "",
                "{⏎  \"servers\": {⏎    \"ours\": {⏎      \"command\": \"x\",⏎      \"args\": [⏎        \"mcp\"⏎      ]⏎    }⏎  }⏎}⏎",
            ),
            (
                "\u{feff}{\n  \"url\": \"https://x/*\" // é\n}\n",
                "\u{feff}{⏎  \"url\": \"https://x/*\", // é⏎  \"servers\": {⏎    \"ours\": {⏎      \"command\": \"x\",⏎      \"args\": [⏎        \"mcp\"⏎      ]⏎    }⏎  }⏎}⏎",
            ),
        ] {
            check(text, expected);
        }
    }

    #[test]
    fn an_entry_is_replaced_where_it_stands() {
        let text = "{\n  \"servers\": {\n    \"ours\": {\"command\": \"old\"}, // kept\n    \"b\": {}\n  }\n}\n";
        let set = with_entry(text, &KEYS, &json!("new")).unwrap();
        assert_eq!(set, text.replace("{\"command\": \"old\"}", "\"new\""));
        let gone = without_entry(text, &KEYS).unwrap();
        assert_eq!(gone, "{\n  \"servers\": { // kept\n    \"b\": {}\n  }\n}\n");
        let single = r#"{"servers": {"ours": 1, "b": 2}}"#;
        assert_eq!(without_entry(single, &KEYS).unwrap(), r#"{"servers": {"b": 2}}"#);
    }

    #[test]
    fn unusual_files_are_refused() {
        for text in [
            "[]",
            "{",
            "{\"servers\": 1}",
            "{\"servers\": {}, \"servers\": {}}",
            "// only\n",
            "{/*",
        ] {
            assert!(with_entry(text, &KEYS, &json!({})).is_err(), "{text}");
        }
        assert!(read("{\"a\": 1 \"b\": 2}").is_err());
    }
}
