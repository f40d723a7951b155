//! Answers in words that a model can use. What was said before is quoted: every line of it begins with `>`.

use longhand::app::{AppError, FoundEntries, FoundEntry, SessionPage, short_id};
use longhand::time;
use longhand_core::{Handle, cut};

/// The most bytes of a text that is read at once: some 6,000 tokens.
const READ_BYTES_MAX: usize = 24_000;

/// The most bytes of a session's first words.
const WORDS_BYTES_MAX: usize = 160;

/// The bytes of a handle such as `h:3kq9w2m1x7ab`.
const HANDLE_BYTES: usize = 14;

/// An error, and what to do about it.
pub(crate) fn problem(error: &AppError) -> String {
    match error.hint() {
        Some(hint) => format!("{error}. {hint}"),
        None => format!("{error}."),
    }
}

/// What a search found.
pub(crate) fn found(found: &FoundEntries) -> String {
    let mut text: String = found.entries.iter().map(hit).collect();
    if text.is_empty() {
        text.push_str("Nothing was found. Try other words, or leave out a filter.\n");
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

/// A part of a text from a byte on, with how to read more.
pub(crate) fn read(handle: &str, content: &str, from: usize) -> String {
    let start = cut::head(content, from.min(content.len())).len();
    let part = cut::head(&content[start..], READ_BYTES_MAX);
    let end = start + part.len();
    if content.is_empty() {
        return format!("{handle} has no such line.\n");
    }
    if part.is_empty() {
        return format!("{handle} ends before that: it has {} bytes.\n", content.len());
    }
    let more = if end < content.len() {
        format!(
            "[{} of {} bytes; go on with \"from\": {end}, or use \"grep\"]\n",
            end,
            content.len()
        )
    } else {
        String::new()
    };
    format!("{handle}\n{}{more}", quoted(part))
}

/// A list of sessions.
pub(crate) fn sessions(listed: &SessionPage) -> String {
    let mut text = String::new();
    for session in &listed.items {
        let id = short_id(&session.id);
        let (name, agent) = (one_line(&session.name), one_line(&session.agent));
        let date = time::format_local(session.last.0);
        let words = cut::head(&session.task, WORDS_BYTES_MAX);
        text.push_str(&format!("{id} {date} {name} {agent}, {} rounds\n", session.rounds));
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

/// Lines as quotes.
pub(crate) fn quoted(text: &str) -> String {
    text.lines().map(|line| format!("> {line}\n")).collect()
}

/// A name that is no more than one line.
fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// The handle among what a model copied with it: marks of a window, quotes, spaces.
pub(crate) fn handle_in(text: &str) -> &str {
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

    #[test]
    fn a_long_text_is_read_in_parts() {
        let content = "é\n".repeat(10_000);
        let first = read("a:1", &content, 0);
        assert!(first.contains("go on with \"from\": 24000"), "{}", &first[first.len() - 80..]);
        assert!(first.lines().skip(1).take(3).all(|line| line == "> é"));
        let last = read("a:1", &content, 24_001);
        assert!(!last.contains("go on"), "{}", &last[last.len() - 80..]);
        assert!(read("a:1", &content, 40_000).contains("ends before"));
    }
}
