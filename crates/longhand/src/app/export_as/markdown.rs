//! A session for people to read.
//!
//! Whatever was said is text of others. It stands in fences that it cannot close and is never a heading, a link or HTML, so
//! that a program that shows the file loads nothing and nobody can pose as somebody else.

use std::io::{self, Write};

use longhand_archive::SessionInfo;
use longhand_core::{Message, Part, Role};

use super::SaidEntry;
use crate::{clean, time};

/// The fewest signs of a fence.
const FENCE_MIN: usize = 3;
/// The most characters of a title.
const TITLE_CHARS_MAX: usize = 100;

pub(super) fn write(
    info: &SessionInfo,
    task: &str,
    entries: &[SaidEntry],
    out: &mut dyn Write,
) -> io::Result<()> {
    let title: String = clean::line(task).chars().take(TITLE_CHARS_MAX).collect();
    writeln!(out, "# {}\n", escaped(if title.is_empty() { "A session" } else { &title }))?;
    let mut facts = vec![("Session", info.name.clone())];
    let agent = if info.origin.agent.is_empty() { &info.usage.agent } else { &info.origin.agent };
    facts.push(("Agent", agent.clone()));
    facts.push(("Folder", info.origin.project.clone()));
    facts.push(("From", time::format(info.first_ms)));
    facts.push(("To", time::format(info.last_ms)));
    for (what, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        writeln!(out, "- {what}: {}", escaped(&clean::line(value)))?;
    }
    writeln!(out)?;
    for entry in entries {
        write_entry(entry, out)?;
    }
    out.flush()
}

fn write_entry(entry: &SaidEntry, out: &mut dyn Write) -> io::Result<()> {
    let (number, at) = (entry.entry.seq, time::format(entry.entry.said_ms()));
    let heading = |who: &str| format!("## {} · {who} · {at}\n", number.0);
    if let Some((title, text)) = entry.note() {
        writeln!(out, "{}", heading("note"))?;
        writeln!(out, "{}\n", escaped(&clean::line(&title)))?;
        return fenced(&text, out);
    }
    let Some((_, message)) = &entry.said else { return Ok(()) };
    writeln!(out, "{}", heading(who(message)))?;
    message.parts.iter().try_for_each(|part| write_part(part, out))
}

fn who(message: &Message) -> &'static str {
    match message.role {
        Role::User if message.results().next().is_some() => "tool",
        role => role.as_str(),
    }
}

fn write_part(part: &Part, out: &mut dyn Write) -> io::Result<()> {
    match part {
        Part::Call(call) => {
            writeln!(out, "Call:\n")?;
            fenced(&format!("{} {}", call.name.decode(), call.arguments.decode()), out)
        }
        Part::Result(result) => {
            writeln!(out, "{}:\n", if result.error { "Failed" } else { "Result" })?;
            result.content.iter().try_for_each(|part| write_part(part, out))
        }
        Part::Thinking(thinking) => {
            let text = thinking.text.decode();
            if text.trim().is_empty() {
                return Ok(());
            }
            writeln!(out, "Thinking:\n")?;
            fenced(&text, out)
        }
        Part::Image(_) => writeln!(out, "(a picture)\n"),
        Part::Media(media) => {
            writeln!(out, "(a recording)\n")?;
            media.transcript.as_ref().map_or(Ok(()), |text| fenced(&text.decode(), out))
        }
        Part::File(_) => writeln!(out, "(a file)\n"),
        Part::Other(other) => fenced(&other.raw.decode(), out),
        part => part.text().map_or(Ok(()), |text| fenced(&text.decode(), out)),
    }
}

/// Writes a text between fences that are longer than any in it.
fn fenced(text: &str, out: &mut dyn Write) -> io::Result<()> {
    let text = clean::text(text);
    let text = text.trim_end();
    if text.is_empty() {
        return Ok(());
    }
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(FENCE_MIN.max(longest + 1));
    writeln!(out, "{fence}text\n{text}\n{fence}\n")
}

/// A line in which no character means anything but itself, and no word becomes a link.
fn escaped(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    for (at, c) in line.char_indices() {
        let (before, after) = (&line[..at], &line[at + c.len_utf8()..]);
        let begins_link = (c == ':' && after.starts_with('/'))
            || (c == '.' && before.to_ascii_lowercase().ends_with("www"));
        if begins_link || "\\`*_{}[]<>()#+!|~&@^$".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    // What begins a line of a list or a line across the page means something only there.
    if out.starts_with(['-', '=']) { format!("\\{out}") } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_cannot_end_its_fence() {
        for text in ["```\n# I am the user\n```", "a `````` b", "\u{1b}[2J\r```", "~~~\n<script>"] {
            let mut out = Vec::new();
            fenced(text, &mut out).unwrap();
            let out = String::from_utf8(out).unwrap();
            let fence = out.lines().next().unwrap().strip_suffix("text").unwrap();
            let closing = out.lines().filter(|line| line.trim_start().starts_with(fence)).count();
            assert_eq!(closing, 2, "{out}");
            assert!(!out.contains(['\u{1b}', '\r']), "{out}");
        }
        assert_eq!(escaped("# a [b](c) <i>"), r"\# a \[b\]\(c\) \<i\>");
        assert_eq!(escaped("- http://a www.b 1-2"), r"\- http\://a www\.b 1-2");
    }
}
