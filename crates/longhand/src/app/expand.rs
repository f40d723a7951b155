//! Bringing back what a window left out, and what a search found.

use std::ops::Range;

use longhand_archive::ask::RoundEntries;
use longhand_archive::{Entry, Scope, ask, wait};
use longhand_core::{Handle, Original};
use longhand_dialect::Conversation;
use regex::RegexBuilder;
use serde::{Deserialize, Serialize};

use super::search::{REGEX_BYTES_MAX, entry_handle};
use super::{Access, App, AppError, Reach};
use crate::unread::UnreadContent;
use crate::{readable, recall};

/// What is brought back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExpandRequest {
    /// The handle of a window, such as `h:3kq9w2m1x7ab`; that of a message, such as `7f3a9c02b1d4:12`; of several,
    /// `7f3a9c02b1d4:12-15`; or a session.
    pub handle: String,
    /// Only this round of a fold.
    pub round: Option<u64>,
    /// The session in whose window the handle stands, by its name or id; it is looked into first.
    pub session: Option<String>,
    /// Messages and arguments as they came, a line of JSON each, and not as people read them.
    pub raw: bool,
    /// Only the lines that have this: a regular expression, or a text that is none.
    pub grep: Option<String>,
    /// The most messages of a session or a range that are read; all of them if it is not said.
    pub limit: Option<u64>,
}

impl ExpandRequest {
    /// Opens a handle in any session.
    pub fn of(handle: &str) -> Self {
        Self { handle: handle.to_owned(), ..Self::default() }
    }

    /// Whether the handle may be one.
    pub fn check(&self) -> Result<(), AppError> {
        self.target().map(drop)
    }

    fn target(&self) -> Result<Target<'_>, AppError> {
        let text = self.handle.trim();
        if let Some(handle) = Handle::parse(text) {
            return Ok(Target::Handle(handle));
        }
        let bad = || AppError::BadHandle(self.handle.clone());
        if text.is_empty() || text.starts_with("h:") {
            return Err(bad());
        }
        let entries =
            text.rsplit_once(':').and_then(|(name, numbers)| Some((name, range(numbers)?)));
        Ok(match entries {
            Some((name, entries)) => Target::Entries(name, entries),
            None => Target::Session(text),
        })
    }
}

/// What a handle names.
enum Target<'h> {
    Handle(Handle),
    Entries(&'h str, Range<u64>),
    Session(&'h str),
}

/// Reads `12` or `12-15`.
fn range(numbers: &str) -> Option<Range<u64>> {
    let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    Some(first..last.checked_add(1).filter(|end| *end > first)?)
}

/// What a handle stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Expanded {
    /// The handle.
    pub handle: String,
    /// `text`, or `json` for messages as they came, one on each line.
    pub form: String,
    /// The content.
    pub content: String,
    /// What leads to the messages that the limit left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest: Option<String>,
}

impl Expanded {
    fn of(handle: Handle, original: Original) -> Self {
        let (form, content) = match original {
            Original::Text(text) => ("text", text),
            Original::Json(json) => ("json", json),
        };
        Self { handle: handle.to_string(), form: form.to_owned(), content, rest: None }
    }

    pub(super) fn of_text(handle: String, content: String) -> Self {
        Self { handle, form: "text".to_owned(), content, rest: None }
    }

    /// Entries as they came, or as people read them.
    fn of_entries(handle: String, entries: &[Entry], raw: bool) -> Self {
        if !raw {
            return Self::of_text(handle, readable::entries(entries));
        }
        let lines: Vec<&str> = entries.iter().map(|entry| entry.raw.as_str()).collect();
        Self { handle, form: "json".to_owned(), content: lines.join("\n"), rest: None }
    }

    /// Opens a handle in the conversation that a window was made from, which no archive keeps.
    pub fn from_conversation(
        conversation: &Conversation,
        request: &ExpandRequest,
    ) -> Result<Self, AppError> {
        let Target::Handle(handle) = request.target()? else {
            return Err(AppError::BadHandle(request.handle.clone()));
        };
        let original = recall::open_from(conversation, handle);
        let original = original.ok_or_else(|| AppError::UnknownHandle(handle.to_string()))?;
        Ok(match original {
            Original::Json(json) if !request.raw => {
                let text = readable::json(&json, Some(conversation.dialect));
                Self::of_text(handle.to_string(), text)
            }
            original => Self::of(handle, original),
        }
        .grepped(request.grep.as_deref()))
    }

    /// Only the lines that have something.
    fn grepped(mut self, wanted: Option<&str>) -> Self {
        let Some(wanted) = wanted else { return self };
        let pattern = |text: &str| {
            RegexBuilder::new(text).case_insensitive(true).size_limit(REGEX_BYTES_MAX).build()
        };
        let pattern = pattern(wanted).or_else(|_| pattern(&regex::escape(wanted)));
        let has = |line: &&str| pattern.as_ref().is_ok_and(|pattern| pattern.is_match(line));
        let lines: Vec<&str> = self.content.lines().filter(has).collect();
        self.content = lines.join("\n");
        self
    }
}

impl App {
    /// Opens a handle.
    pub fn expand(&self, request: &ExpandRequest) -> Result<Expanded, AppError> {
        let expanded = match request.target()? {
            Target::Handle(handle) => self.expand_handle(request, handle),
            Target::Entries(name, entries) => self.expand_entries(request, name, Some(entries)),
            Target::Session(name) => self.expand_entries(request, name, None),
        }?;
        Ok(expanded.grepped(request.grep.as_deref()))
    }

    fn expand_handle(&self, request: &ExpandRequest, handle: Handle) -> Result<Expanded, AppError> {
        let scope = match &request.session {
            Some(name) => Scope::Session(self.look_up(name, Access::Read)?.0.id),
            None => match self.scope_of(handle)? {
                Some(scope) => scope,
                None => return self.unread(handle),
            },
        };
        if self.reach != Reach::All
            && let Some(found) = wait(ask::reference(&*self.archive, &scope, handle))?
            && self.session_of(found.session())?.is_none()
        {
            return Err(AppError::UnknownHandle(handle.to_string()));
        }
        if let Some(round) = request.round
            && let Some(found) = recall::open_round(&*self.archive, &scope, handle, round)?
        {
            let entries = of_round(&found, round)?;
            return Ok(Expanded::of_entries(handle.to_string(), entries, request.raw));
        }
        match recall::open(&*self.archive, &scope, handle)? {
            None => self.unread(handle),
            Some(_) if request.round.is_some() => Err(AppError::NoRounds),
            Some(recalled) if request.raw => Ok(Expanded::of(handle, recalled.original)),
            Some(recalled) if !recalled.entries.is_empty() => {
                let text = [
                    readable::blocks(recalled.original.as_str()),
                    readable::entries(&recalled.entries),
                ];
                Ok(Expanded::of_text(handle.to_string(), text.concat()))
            }
            Some(recalled) => Ok(match recalled.original {
                Original::Text(text) => Expanded::of_text(handle.to_string(), text),
                Original::Json(json) => {
                    let text = readable::json(&json, recalled.dialect);
                    Expanded::of_text(handle.to_string(), text)
                }
            }),
        }
    }

    /// Entries of a session by their numbers; without numbers, those of its newest path.
    fn expand_entries(
        &self,
        request: &ExpandRequest,
        name: &str,
        entries: Option<Range<u64>>,
    ) -> Result<Expanded, AppError> {
        let (info, _) = self.look_up(name, Access::Read).map_err(|error| match error {
            AppError::UnknownSession { .. } => AppError::BadHandle(request.handle.clone()),
            error => error,
        })?;
        let id = info.id.to_string();
        let whole = entries.is_none();
        let wanted = entries.unwrap_or(0..info.entries);
        if wanted.end > info.entries {
            return Err(AppError::NoSuchEntry { session: info.name, entries: info.entries });
        }
        let end = request.limit.map_or(wanted.end, |limit| wanted.start.saturating_add(limit));
        let range = wanted.start..end.min(wanted.end);
        let head = match self.reach {
            Reach::Path { session, head } if session == info.id => head,
            _ => None,
        };
        let found = if whole || head.is_some() {
            self.archive.path(info.id, head, range.clone())?
        } else {
            self.archive.entries(info.id, range.clone())?
        };
        if found.is_empty() && !whole {
            return Err(AppError::BadHandle(request.handle.clone()));
        }
        let handle = if whole { id.clone() } else { entry_handle(&id, wanted.clone()) };
        let rest = range.end..wanted.end;
        let rest = (!rest.is_empty()).then(|| entry_handle(&id, rest));
        Ok(Expanded { rest, ..Expanded::of_entries(handle, &found, request.raw) })
    }

    /// An answer that could not be read, as it came; one that is no text comes as base64.
    fn unread(&self, handle: Handle) -> Result<Expanded, AppError> {
        let answer = self.unread_answer(handle)?;
        match answer.map(|answer| answer.content) {
            None => Err(AppError::UnknownHandle(handle.to_string())),
            Some(UnreadContent::Text(text) | UnreadContent::Base64(text)) => {
                Ok(Expanded::of(handle, Original::Text(text)))
            }
            Some(UnreadContent::Withheld) => Err(AppError::NotKept),
        }
    }
}

/// The messages of one round of a fold.
fn of_round(found: &RoundEntries, round: u64) -> Result<&[Entry], AppError> {
    if found.entries.is_empty() {
        let (first, last) = (*found.rounds.start(), *found.rounds.end());
        return Err(AppError::NoSuchRound { round, first, last });
    }
    Ok(&found.entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_a_first_and_a_last() {
        assert_eq!(range("12"), Some(12..13));
        assert_eq!(range("12-15"), Some(12..16));
        for bad in ["", "x", "5-3", "1-", "-1", "18446744073709551615"] {
            assert_eq!(range(bad), None, "{bad}");
        }
    }
}
