//! `longhand search`.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::sync::Arc;

use anyhow::Result;
use longhand::{Archive, recall, time};
use longhand_archive::{Entry, Hit, Scope, SearchFilter, SessionInfo};
use serde_json::{Value, json};

use crate::args::{RoleName, SearchArgs};
use crate::output::harmless_line;
use crate::{CommandOutcome, conversation, hinted, output, store};

/// The session of an entry: its name, and its title for people.
#[derive(Clone, Default)]
struct FoundSession {
    name: String,
    title: String,
}

/// An entry that was found, with what is shown about it.
struct FoundEntry {
    hit: Hit,
    session: FoundSession,
    role: &'static str,
    at_ms: i64,
}

pub(crate) fn run(args: &SearchArgs) -> Result<CommandOutcome> {
    let query = args.query.join(" ");
    if query.trim_matches(|c: char| c.is_whitespace() || c == '"').is_empty() {
        return Err(hinted(
            "there is nothing to search for",
            "`longhand search retry storm` finds messages with both words",
        ));
    }
    let archive = store::open_existing(&args.archive)?;
    let scopes = match &args.session {
        Some(name) => {
            let sessions = conversation::of(&archive, &store::known(&archive, name)?)?;
            sessions.iter().rev().map(|info| Scope::Session(info.id)).collect()
        }
        None => vec![Scope::All],
    };
    let since = args.since.as_deref().map(|text| since(text, store::now_ms())).transpose()?;
    let mut found = Vec::new();
    let mut is_all = true;
    for scope in &scopes {
        let wanted = args.limit.saturating_sub(found.len());
        let (more, is_partial) = find(args, &query, &archive, scope, since, wanted)?;
        found.extend(more);
        is_all &= !is_partial;
    }
    if !is_all {
        output::say(
            "not every message was looked at: the search index is being made, or does not know this query",
        );
    }
    if args.json {
        let list: Vec<Value> = found.iter().map(FoundEntry::json).collect();
        output::print_json(&Value::Array(list))?;
    } else {
        let text: String = found.iter().map(|found| found.text(&query)).collect();
        output::print_styled(if found.is_empty() { "nothing found" } else { &text })?;
    }
    Ok(if found.is_empty() { CommandOutcome::No } else { CommandOutcome::Done })
}

/// Searches for more and more until there are enough that pass the filters.
fn find(
    args: &SearchArgs,
    query: &str,
    archive: &Arc<dyn Archive>,
    scope: &Scope,
    since: Option<i64>,
    wanted: usize,
) -> Result<(Vec<FoundEntry>, bool)> {
    if wanted == 0 {
        return Ok((Vec::new(), false));
    }
    let mut sessions = HashMap::new();
    // The archive leaves out what cannot have the role; who has it is known when the message is read.
    let is_filtered = args.role.is_some();
    let asked_role = args.role.map(RoleName::role);
    let filter = SearchFilter { role: asked_role, since_ms: since, before_ms: None };
    let mut asked = if is_filtered { wanted.saturating_mul(4) } else { wanted };
    loop {
        let searched = archive.search_filtered(scope, query, filter, asked)?;
        let (hits, is_partial) = (searched.hits, searched.is_partial);
        let is_all = hits.len() < asked;
        let mut found = Vec::new();
        for hit in hits {
            let session = if let Some(session) = sessions.get(&hit.session) {
                FoundSession::clone(session)
            } else {
                let info = archive.session(hit.session)?;
                let session = info.map(|info| FoundSession::of(archive, info)).unwrap_or_default();
                sessions.insert(hit.session, session.clone());
                session
            };
            let entry = archive.entries(hit.session, hit.seq.0..hit.seq.0 + 1)?.into_iter().next();
            let role = entry.as_ref().map_or("", role);
            let at_ms = entry.map_or(0, |entry| entry.at_ms);
            let passes = args.role.is_none_or(|asked| asked.as_str() == role);
            if passes && found.len() < wanted {
                found.push(FoundEntry { hit, session, role, at_ms });
            }
        }
        if is_all || found.len() >= wanted || !is_filtered {
            return Ok((found, is_partial));
        }
        asked = asked.saturating_mul(4);
    }
}

fn role(entry: &Entry) -> &'static str {
    recall::role(entry).map_or("tool", |role| role.as_str())
}

impl FoundSession {
    /// The title is what the session is called, and its first words if nobody named it.
    fn of(archive: &Arc<dyn Archive>, info: SessionInfo) -> Self {
        let id = conversation::short_id(&info);
        if !conversation::has_no_name(&info) {
            return Self { name: info.name, title: id };
        }
        let task = conversation::task(archive, &info);
        let words: Vec<&str> = task.split_whitespace().take(6).collect();
        let title = harmless_line(&format!("{id} {}", words.join(" "))).trim_end().to_owned();
        Self { name: info.name, title }
    }
}

impl FoundEntry {
    fn json(&self) -> Value {
        json!({
            "session": self.session.name, "id": self.hit.session.to_string(), "entry": self.hit.seq.0,
            "round": self.hit.round, "role": self.role, "at": time::format(self.at_ms),
            "snippet": self.hit.snippet,
        })
    }

    /// A line that says where it is, and the words, indented.
    fn text(&self, query: &str) -> String {
        let date = time::format_local(self.at_ms);
        let (round, entry) = (self.hit.round, self.hit.seq.0);
        let rest = format!("{date} {} round {round} entry {entry}", self.role);
        let room = output::columns().saturating_sub(rest.chars().count() + 2).max(8);
        let title: String = self.session.title.chars().take(room).collect();
        let place = output::wrapped(&format!("{title}  {rest}"), "");
        let words = output::wrapped(&harmless_line(&self.hit.snippet), "  ");
        format!("{place}\n{}\n", highlighted(&words, query))
    }
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
fn since(text: &str, now_ms: i64) -> Result<i64> {
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
        assert_eq!(since("3d", now).unwrap(), 7 * 24 * 3_600_000);
        assert_eq!(since("90m", now).unwrap(), now - 90 * 60_000);
        assert_eq!(since("1970-01-02T00:00:00Z", now).unwrap(), 24 * 3_600_000);
        for bad in ["", "d", "3x", "-3d", "soon", "é"] {
            assert!(since(bad, now).is_err(), "{bad}");
        }
    }
}
