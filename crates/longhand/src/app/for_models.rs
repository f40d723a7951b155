//! Answers in words that a model can use: what a search found, what a handle stands for, which sessions there are, and what
//! to do about an error. The recall tool and the MCP server show the same.
//!
//! What was said before is quoted: every line of it begins with `>`.

use std::collections::BTreeSet;

use longhand_core::{Handle, cut};
use regex::RegexBuilder;

use super::search::REGEX_BYTES_MAX;
use super::{AppError, Expanded, FoundEntries, FoundEntry, SessionPage, short_id};
pub use crate::quote::quoted;
use crate::time;

/// The most bytes of a text that is read at once: some 6,000 tokens.
const READ_BYTES_MAX: usize = 24_000;

/// The most bytes of a session's first words.
const WORDS_BYTES_MAX: usize = 160;

/// The bytes of a handle such as `h:3kq9w2m1x7ab`.
const HANDLE_BYTES: usize = 14;

/// How many lines are shown around one that was asked for.
const AROUND: usize = 2;

/// The most messages of a session that are read at once.
pub const MESSAGES_MAX: u64 = 2_000;

/// What a model is told if the archive cannot be read.
pub const UNREADABLE: &str = "The archive could not be read just now. That does not mean that there is nothing: \
go on without it, or try once more later.";

const UNKNOWN_HANDLE: &str = "Nothing here has that handle. A handle stands in a mark such as [longhand stub h:...], and \
before each message that a search found; copy one exactly, or search for words. The same handle will not work later \
either.";

/// Says whether a text is short enough for whoever reads it.
pub type Fits<'f> = &'f dyn Fn(&str) -> bool;

/// An error, and what to do about it.
pub fn problem(error: &AppError) -> String {
    match error {
        AppError::UnknownHandle(_) | AppError::BadHandle(_) => UNKNOWN_HANDLE.to_owned(),
        AppError::UnknownSession { name, .. } => {
            format!("There is no session {name:?} here. Leave it out, or give one that is listed.")
        }
        AppError::AmbiguousName { .. } => format!("{error}. Give the id of the one that is meant."),
        AppError::EmptyQuery => "Give words to search for.".to_owned(),
        AppError::NoSuchEntry { .. }
        | AppError::NotKept
        | AppError::NoRounds
        | AppError::NoSuchRound { .. } => format!("{error}."),
        _ => UNREADABLE.to_owned(),
    }
}

/// What a search found, as much of it as fits.
pub fn found(found: &FoundEntries, fits: Fits) -> String {
    let mut text = String::new();
    for hit in found.entries.iter().map(hit) {
        if !fits(&format!("{text}{hit}")) {
            break;
        }
        text.push_str(&hit);
    }
    if found.entries.is_empty() {
        text.push_str(
            "Nothing was found. Try other words, or parts of words, or leave out a filter.\n",
        );
    } else if text.is_empty() {
        text.push_str("There is no room for what was found.\n");
    }
    if found.is_partial {
        text.push_str("Not every message was looked at: the search index is being made.\n");
    }
    text
}

fn hit(found: &FoundEntry) -> String {
    let FoundEntry { handle, role, tokens, repeats, .. } = found;
    let (date, session) = (time::format_local(found.at.0), one_line(&found.session));
    let said = if *repeats > 1 { format!(", said {repeats} times") } else { String::new() };
    let words = quoted(&found.snippet);
    format!("{handle} {date} {role} in {session}, {tokens} tokens{said}\n{words}")
}

/// What a handle stands for, from a byte on, as much of it as fits, and how to read more. If lines are `wanted`, only these
/// and those around them.
pub fn read(expanded: &Expanded, wanted: Option<&str>, from: usize, fits: Fits) -> String {
    let Expanded { handle, content, rest: left_out, .. } = expanded;
    let lines = wanted.and_then(|wanted| lines_about(content, wanted));
    let note = match (&lines, wanted) {
        (Some(_), _) => ", only the lines about that",
        (None, Some(_)) => ", of which no line has that",
        (None, None) => "",
    };
    let text = lines.as_deref().unwrap_or(content);
    let title = format!("{handle}{note}");
    let start = cut::head(text, from.min(text.len())).len();
    let rest = &text[start..];
    if rest.is_empty() {
        return format!("{title} ends before that: it has {} bytes.\n", text.len());
    }
    let left_out = match left_out {
        Some(handle) => format!("[more messages: {handle}]\n"),
        None => String::new(),
    };
    let mut bytes = rest.len().min(READ_BYTES_MAX);
    loop {
        let told = format!("{title}\n{}{left_out}", shown(rest, start, bytes));
        if fits(&told) || bytes == 0 {
            return told;
        }
        bytes = bytes * 4 / 5;
    }
}

/// So many bytes of a text that begins at a place: of a beginning also the end, which often tells how it went.
fn shown(rest: &str, start: usize, bytes: usize) -> String {
    if bytes >= rest.len() {
        return quoted(rest);
    }
    let tail_bytes = if start == 0 { bytes / 3 } else { 0 };
    let head = complete_lines(cut::head(rest, bytes - tail_bytes));
    let tail = cut::tail(rest, tail_bytes);
    let gone = rest.len() - head.len() - tail.len();
    let next = start + head.len();
    let note = format!(
        "[{gone} bytes are left out here; go on with \"from\": {next}, or ask for the lines with some words]\n"
    );
    let quotes = |text: &str| if text.is_empty() { String::new() } else { quoted(text) };
    format!("{}{note}{}", quotes(head), quotes(tail))
}

/// A beginning without a last line that is cut, if it has another one.
fn complete_lines(text: &str) -> &str {
    text.rfind('\n').map_or(text, |end| &text[..=end])
}

/// The lines that have what is wanted, with those around them: a regular expression; else all of its words; else any.
fn lines_about(text: &str, wanted: &str) -> Option<String> {
    let pattern =
        RegexBuilder::new(wanted).case_insensitive(true).size_limit(REGEX_BYTES_MAX).build();
    let lower = wanted.to_lowercase();
    let words: Vec<&str> = lower
        .split_whitespace()
        .map(|word| word.trim_matches('"'))
        .filter(|word| !word.is_empty())
        .collect();
    let lines: Vec<&str> = text.lines().collect();
    let having = |has: &dyn Fn(&str) -> bool| -> Vec<usize> {
        (0..lines.len()).filter(|at| has(lines[*at])).collect()
    };
    let all = |line: &str| {
        let line = line.to_lowercase();
        words.iter().all(|word| line.contains(word))
    };
    let any = |line: &str| {
        let line = line.to_lowercase();
        words.iter().any(|word| line.contains(word))
    };
    let ways: [&dyn Fn(&str) -> bool; 3] =
        [&|line| pattern.as_ref().is_ok_and(|pattern| pattern.is_match(line)), &all, &any];
    let hits = ways.into_iter().map(having).find(|hits| !hits.is_empty())?;
    let shown: BTreeSet<usize> = hits
        .into_iter()
        .flat_map(|hit| hit.saturating_sub(AROUND)..(hit + AROUND + 1).min(lines.len()))
        .collect();
    let (mut told, mut next) = (String::new(), 0);
    for at in shown {
        if at > next {
            told.push_str("…\n");
        }
        told.push_str(lines[at]);
        told.push('\n');
        next = at + 1;
    }
    Some(told)
}

/// A list of sessions.
pub fn sessions(listed: &SessionPage) -> String {
    let mut text = String::new();
    for session in &listed.items {
        let id = short_id(&session.id);
        let (name, agent) = (one_line(&session.name), one_line(&session.agent));
        let date = time::format_local(session.last.0);
        let words = cut::head(&session.task, WORDS_BYTES_MAX);
        let agent = if agent.is_empty() { agent } else { format!(" {agent}") };
        let rounds = if session.rounds == 1 { "round" } else { "rounds" };
        text.push_str(&format!("{id} {date} {name}{agent}, {} {rounds}\n", session.rounds));
        text.push_str(&quoted(&one_line(words)));
    }
    if text.is_empty() {
        text.push_str("There are no sessions here yet.\n");
    }
    if listed.next.is_some() {
        text.push_str("There are more; give a higher limit, or search.\n");
    }
    text
}

/// A name that is no more than one line.
fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// The handle among what a model copied with it: marks of a window, quotes, spaces.
pub fn handle_in(text: &str) -> &str {
    let text = text.trim().trim_matches(['"', '`', '\'']);
    let mut places = text.match_indices("h:");
    let within = places.find_map(|(at, _)| {
        text.get(at..at + HANDLE_BYTES).filter(|handle| Handle::parse(handle).is_some())
    });
    within.unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_found_in_its_mark() {
        for (text, expected) in [
            ("h:3kq9w2m1x7ab", "h:3kq9w2m1x7ab"),
            ("[longhand stub h:3kq9w2m1x7ab: a file]", "h:3kq9w2m1x7ab"),
            (" `7f3a9c02b1d4:12` ", "7f3a9c02b1d4:12"),
            ("[nothing]", "[nothing]"),
        ] {
            assert_eq!(handle_in(text), expected);
        }
    }

    fn read(content: &str, wanted: Option<&str>, from: usize, fits: Fits) -> String {
        let expanded = Expanded::of_text("a:1".to_owned(), content.to_owned());
        super::read(&expanded, wanted, from, fits)
    }

    /// Reads all of a text in parts, as a model would; the byte 0 is special, since the end comes with it.
    fn read_on(content: &str, bytes_max: usize) -> String {
        let fits = |text: &str| text.len() <= bytes_max;
        let (mut from, mut all) = (1, "x".to_owned());
        loop {
            let part = read(content, None, from, &fits);
            let quotes = part.lines().skip(1).filter_map(|line| line.strip_prefix("> "));
            all.push_str(&quotes.collect::<Vec<_>>().join("\n"));
            let next = part.split("\"from\": ").nth(1).and_then(|rest| rest.split(',').next());
            let Some(next) = next else { return all };
            assert!(next.parse::<usize>().unwrap() > from, "{part}");
            from = next.parse().unwrap();
            all.push('\n');
        }
    }

    #[test]
    fn a_long_text_is_read_in_parts() {
        let content: String = (0..9_000).map(|at| format!("x é {at}\n")).collect();
        let first = read(&content, None, 0, &|_| true);
        assert!(first.contains("> x é 0\n") && first.ends_with("> x é 8999\n"), "{first}");
        assert!(
            first.len() < READ_BYTES_MAX + 20_000
                && first.contains("are left out here; go on with")
        );
        assert_eq!(read_on(&content, 2_000).trim_end(), content.trim_end());
        assert!(read(&content, None, 400_000, &|_| true).contains("ends before"));
        assert!(read(&content, None, 0, &|text| text.len() < 900).len() < 900);
    }

    #[test]
    fn lines_are_found_by_words_and_expressions() {
        let text: String = (0..20).map(|at| format!("line {at} of it\n")).collect();
        for (wanted, expected) in [
            ("LINE 7", "…|line 5 of it|line 6 of it|line 7 of it|line 8 of it|line 9 of it|"),
            ("it 7 line", "…|line 5 of it|line 6 of it|line 7 of it|line 8 of it|line 9 of it|"),
            (r"\b3\b", "…|line 1 of it|line 2 of it|line 3 of it|line 4 of it|line 5 of it|"),
            ("nowhere 0", "line 0 of it|line 1 of it|line 2 of it|"),
            ("(((", ""),
        ] {
            let told = lines_about(&text, wanted).unwrap_or_default().replace('\n', "|");
            assert!(told.starts_with(expected), "{wanted}: {told}");
            assert_eq!(told.is_empty(), expected.is_empty(), "{wanted}: {told}");
        }
        let told = read(&text, Some("zzz"), 0, &|_| true);
        assert!(told.starts_with("a:1, of which no line has that\n> line 0"), "{told}");
    }
}
