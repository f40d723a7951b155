//! `longhand search`.

use std::io::IsTerminal;

use anyhow::Result;
use longhand::app::{ContextEntry, FoundEntry, SearchRequest, Timestamp};
use longhand::time;

use crate::args::SearchArgs;
use crate::output::harmless_line;
use crate::{CommandOutcome, hinted, names, output, store};

pub(crate) fn run(args: &SearchArgs) -> Result<CommandOutcome> {
    let query = args.query.join(" ");
    let now_ms = store::now_ms();
    let time = |text: &Option<String>| {
        text.as_deref().map(|text| time_of(text, now_ms).map(Timestamp)).transpose()
    };
    let mut request = SearchRequest {
        role: args.role.map(|role| role.as_str().to_owned()),
        since: time(&args.since)?,
        before: time(&args.before)?,
        session: args.session.clone(),
        project: args.project.clone(),
        agent: args.agent.clone(),
        tool: args.tool.clone(),
        file: args.file.clone(),
        regex: args.regex,
        newest: args.newest,
        context: args.context,
        limit: args.limit,
        ..SearchRequest::of(&query)
    };
    request.check()?;
    let app = store::app_existing(&args.archive)?;
    if let Some(name) = &args.session {
        request.session = Some(store::readable(&app, name)?.id);
    }
    let found = app.find_entries(&request)?;
    if found.is_partial {
        output::say(
            "not every message was looked at: the search index is being made or does not know this query, or too \
             many messages had to be read; --session and --since narrow it down",
        );
    }
    if request.looks_like_regex() {
        output::say("hint: --regex takes the words as a regular expression");
    }
    let found = found.entries;
    if args.json {
        output::print_json(&found)?;
    } else {
        let text: String = found.iter().map(|found| text(found, &query)).collect();
        output::print_styled(if found.is_empty() { "nothing found" } else { &text })?;
    }
    Ok(if found.is_empty() { CommandOutcome::No } else { CommandOutcome::Done })
}

/// A line that says where it is, and the words, indented; between them what was said before, and after them what
/// followed.
fn text(found: &FoundEntry, query: &str) -> String {
    let date = time::format_local(found.at.0);
    let repeats =
        if found.repeats > 1 { format!(" {} times", found.repeats) } else { String::new() };
    let rest = format!(
        "{date} {} entry {} {} tokens{repeats}  {}",
        found.role, found.entry, found.tokens, found.handle
    );
    let room = output::columns().saturating_sub(rest.chars().count() + 2).max(8);
    let title: String = title(found).chars().take(room).collect();
    let place = output::wrapped(&format!("{title}  {rest}"), "");
    let words = output::wrapped(&harmless_line(&found.snippet), "  ");
    let beside = |is_shown: &dyn Fn(&&ContextEntry) -> bool| -> String {
        let context = found.context.iter().filter(is_shown);
        let line = |entry: &ContextEntry| {
            let text = format!("{} {}: {}", entry.entry, entry.role, entry.text);
            format!("{}\n", output::wrapped(&harmless_line(&text), "    "))
        };
        context.map(line).collect()
    };
    let (before, after) =
        (beside(&|other| other.entry < found.entry), beside(&|other| other.entry > found.entry));
    format!("{place}\n{before}{}\n{after}", highlighted(&words, query))
}

/// What the session is called, and its first words if nobody named it.
fn title(found: &FoundEntry) -> String {
    let called = names::called(&found.session, &found.id);
    if !names::is_hash(&found.session) {
        return called;
    }
    let words: Vec<&str> = found.task.split_whitespace().take(6).collect();
    harmless_line(&format!("{called} {}", words.join(" "))).trim_end().to_owned()
}

/// Marks the words of the query, where a terminal shows them.
pub(crate) fn highlighted(text: &str, query: &str) -> String {
    let is_wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    if !std::io::stdout().is_terminal() || !is_wanted {
        return text.to_owned();
    }
    marked(text, query, "\u{1b}[1m", "\u{1b}[0m")
}

fn marked(text: &str, query: &str, start: &str, end: &str) -> String {
    let words = query.split(|c: char| c.is_whitespace() || c == '"');
    let words: Vec<String> = words
        .map(|word| word.trim_end_matches('*').to_lowercase())
        .filter(|word| !word.is_empty())
        .collect();
    let mut out = String::new();
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let length = words.iter().filter_map(|word| beginning(rest, word)).max();
        if let Some(length) = length {
            out.push_str(&format!("{start}{}{end}", &rest[..length]));
            rest = &rest[length..];
        } else {
            out.push(letter);
            rest = &rest[letter.len_utf8()..];
        }
    }
    out
}

/// How many bytes of a text are this word, whatever its case.
fn beginning(text: &str, word: &str) -> Option<usize> {
    let mut left = word;
    for (at, letter) in text.char_indices() {
        if left.is_empty() {
            return Some(at);
        }
        let lower: String = letter.to_lowercase().collect();
        left = left.strip_prefix(lower.as_str())?;
    }
    left.is_empty().then_some(text.len())
}

/// Reads `2026-11-15`, `2026-11-15 19:00`, or how long ago: `90m`, `12h`, `3d`, `2w`.
pub(crate) fn time_of(text: &str, now_ms: i64) -> Result<i64> {
    let minutes = |unit: char| match unit {
        'm' => Some(1),
        'h' => Some(60),
        'd' => Some(24 * 60),
        'w' => Some(7 * 24 * 60),
        _ => None,
    };
    let ago = || {
        let unit = text.chars().last()?;
        let number: i64 = text[..text.len() - unit.len_utf8()].parse().ok().filter(|n| *n >= 0)?;
        let ms = number.checked_mul(minutes(unit)? * 60_000)?;
        Some(now_ms.saturating_sub(ms))
    };
    ago().or_else(|| time::parse_local(text)).ok_or_else(|| {
        hinted(
            format!("{text:?} is not a time"),
            "give a date such as 2026-11-15, or how long ago: 90m, 12h, 3d, 2w",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_marked_whatever_their_case() {
        for (text, query, expected) in [
            ("The Lock file", "lock", "The <Lock> file"),
            ("configuration", "conf*", "<conf>iguration"),
            ("a lock, a LOCK", "\"a lock\"", "<a> <lock>, <a> <LOCK>"),
            ("ÉTÉ", "été", "<ÉTÉ>"),
            ("nothing", "x", "nothing"),
        ] {
            assert_eq!(marked(text, query, "<", ">"), expected);
        }
    }

    #[test]
    fn times_are_dates_or_ages() {
        let now = 10 * 24 * 3_600_000;
        assert_eq!(time_of("3d", now).unwrap(), 7 * 24 * 3_600_000);
        assert_eq!(time_of("90m", now).unwrap(), now - 90 * 60_000);
        assert_eq!(time_of("1970-01-02T00:00:00Z", now).unwrap(), 24 * 3_600_000);
        for bad in ["", "d", "3x", "-3d", "soon", "é"] {
            assert!(time_of(bad, now).is_err(), "{bad}");
        }
    }
}
