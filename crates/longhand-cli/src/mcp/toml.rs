//! One table of a settings file in TOML: it is set or taken out, and every other byte stays.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use toml::Table;

/// A table of the file: from its header to its last line that is no comment.
struct Section {
    names: Vec<String>,
    start: usize,
    end: usize,
}

/// What the file says.
pub(super) fn read(text: &str) -> Result<Value> {
    let table: Table = toml::from_str(text).context("it is no TOML")?;
    serde_json::to_value(table).context("it has a value that JSON cannot have")
}

/// The text with a table of these names, in the place of one that is there.
pub(super) fn with_entry(text: &str, names: &[&str], entry: &Value) -> Result<String> {
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let mut written = format!("[{}]{newline}", names.join("."));
    for (key, value) in entry.as_object().into_iter().flatten() {
        let value = toml::Value::try_from(value).context("it cannot be written as TOML")?;
        written.push_str(&format!("{key} = {value}{newline}"));
    }
    let is_there = names.iter().try_fold(&read(text)?, |value, name| value.get(name)).is_some();
    if is_there {
        let Some(section) = sections(text)?.into_iter().find(|section| section.names == names)
        else {
            bail!("it has {} in a form that is not changed here", names.join("."));
        };
        return Ok(format!("{}{written}{}", &text[..section.start], &text[section.end..]));
    }
    let gap = match text {
        "" => "",
        text if text.ends_with('\n') => newline,
        _ => &newline.repeat(2),
    };
    Ok(format!("{text}{gap}{written}"))
}

/// The text without the table of these names, and without those inside of it.
pub(super) fn without_entry(text: &str, names: &[&str]) -> Result<String> {
    let mut new = text.to_owned();
    for section in sections(text)?.into_iter().rev() {
        let is_ours =
            section.names.iter().map(String::as_str).take(names.len()).eq(names.iter().copied());
        if !is_ours {
            continue;
        }
        let (before, after) = (&new[..section.start], &new[section.end..]);
        let gap = ["\r\n\r\n", "\n\n"].into_iter().find(|gap| before.ends_with(gap));
        let is_gap = after.is_empty() || after.starts_with(['\n', '\r']);
        let before = match gap.filter(|_| is_gap) {
            Some(gap) => &before[..before.len() - gap.len() / 2],
            None => before,
        };
        new = format!("{before}{after}");
    }
    Ok(new)
}

/// The tables that have a header.
fn sections(text: &str) -> Result<Vec<Section>> {
    let starts = headers(text);
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts
        .iter()
        .zip(ends)
        .map(|(start, next)| {
            let header = text[*start..next].lines().next().unwrap_or_default();
            Ok(Section {
                names: names(header)?,
                start: *start,
                end: content_end(text, *start, next),
            })
        })
        .collect()
}

/// The end of the last line that says something.
fn content_end(text: &str, start: usize, next: usize) -> usize {
    let mut end = start;
    let mut at = start;
    for line in text[start..next].split_inclusive('\n') {
        at += line.len();
        let line = line.trim();
        if !line.is_empty() && !line.starts_with('#') {
            end = at;
        }
    }
    end
}

/// The names in a header, such as `[a."b c"]`.
fn names(header: &str) -> Result<Vec<String>> {
    let table: Table = toml::from_str(header).context("it has a header that cannot be read")?;
    let mut names = Vec::new();
    let mut next = table.into_iter().next();
    while let Some((name, value)) = next {
        names.push(name);
        next = match value {
            toml::Value::Table(table) => table.into_iter().next(),
            toml::Value::Array(items) => match items.into_iter().next() {
                Some(toml::Value::Table(table)) => table.into_iter().next(),
                _ => None,
            },
            _ => None,
        };
    }
    Ok(names)
}

/// Where the lines begin that are headers: not those of a text or a list over several lines.
fn headers(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let (mut found, mut at, mut depth, mut line) = (Vec::new(), 0, 0_usize, Some(0));
    while at < bytes.len() {
        let is_first = line.is_some_and(|start: usize| text[start..at].trim().is_empty());
        match bytes[at] {
            b'[' if depth == 0 && is_first => {
                found.extend(line.take());
                at = line_end(bytes, at);
                continue;
            }
            b'#' => {
                at = line_end(bytes, at);
                continue;
            }
            quote @ (b'"' | b'\'') => {
                at = string_end(bytes, at, quote);
                line = None;
                continue;
            }
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'\n' => line = Some(at + 1),
            _ => {}
        }
        at += 1;
    }
    found
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |length| at + length)
}

/// Where a string ends, on one line or on several.
fn string_end(bytes: &[u8], start: usize, quote: u8) -> usize {
    let is_long = bytes[start..].starts_with(&[quote; 3]);
    let mut at = start + if is_long { 3 } else { 1 };
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if quote == b'"' => at += 2,
            byte if byte == quote && !is_long => return at + 1,
            _ if is_long && bytes[at..].starts_with(&[quote; 3]) => {
                // A text may end with two quotation marks of its own.
                let marks = bytes[at..].iter().take_while(|byte| **byte == quote).count();
                return at + marks.min(5);
            }
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NAMES: [&str; 2] = ["mcp_servers", "ours"];
    const ENTRY: &str = "[mcp_servers.ours]\ncommand = \"x\"\nargs = [\"mcp\"]\n";

    fn entry() -> Value {
        json!({"command": "x", "args": ["mcp"]})
    }

    #[test]
    fn every_other_byte_stays() {
        let long = "# mine\nmodel = \"gpt\" # best\nprompt = \"\"\"\n[mcp_servers.ours]\n\"\"\"\n\n[a]\nlist = [\n  [1],\n]\n\n# the last one\n[mcp_servers.\"b c\"]\ncommand = 'y'\n";
        for (text, expected) in [
            ("", ENTRY.to_owned()),
            ("a = 1\n", format!("a = 1\n\n{ENTRY}")),
            ("a = 1", format!("a = 1\n\n{ENTRY}")),
            (long, format!("{long}\n{ENTRY}")),
        ] {
            let set = with_entry(text, &NAMES, &entry()).unwrap();
            assert_eq!(set, expected);
            let mut wanted = read(text).unwrap();
            wanted["mcp_servers"]["ours"] = entry();
            assert_eq!(read(&set).unwrap(), wanted);
            assert_eq!(without_entry(&set, &NAMES).unwrap().trim_end(), text.trim_end());
        }
    }

    #[test]
    fn a_table_is_replaced_where_it_stands() {
        let text = "[mcp_servers.ours]\r\ncommand = \"old\"\r\n\r\n[mcp_servers.ours.env]\r\nA = \"1\"\r\n\r\n# next\r\n[b]\r\nx = 1\r\n";
        let set = with_entry(text, &NAMES, &entry()).unwrap();
        let expected = "[mcp_servers.ours]\r\ncommand = \"x\"\r\nargs = [\"mcp\"]\r\n\r\n[mcp_servers.ours.env]\r\nA = \"1\"\r\n\r\n# next\r\n[b]\r\nx = 1\r\n";
        assert_eq!(set, expected);
        let gone = without_entry(text, &NAMES).unwrap();
        assert!(gone.ends_with("# next\r\n[b]\r\nx = 1\r\n") && !gone.contains("ours"), "{gone}");
    }

    #[test]
    fn unusual_files_are_refused() {
        for text in [
            "= 1",
            "[mcp_servers]\nours = {command = \"x\"}\n",
            "mcp_servers.ours.command = \"x\"\n",
        ] {
            assert!(with_entry(text, &NAMES, &entry()).is_err(), "{text}");
        }
    }
}
