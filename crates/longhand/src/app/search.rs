//! Searching everything that was ever said.

use std::collections::HashMap;
use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::ops::Range;

use longhand_archive::{
    Entry, RankedFound, RankedHit, Scope, SearchFilter, SessionId, SessionInfo, ask, readable, wait,
};
use longhand_core::{Part, Role};
use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

use super::{Access, App, AppError, Reach, Timestamp};
use crate::driver::searchable;
use crate::recall;

/// The most characters of a session's first words beside what was found in it.
const TASK_CHARS_MAX: usize = 200;
/// The most memory that a regular expression may take.
pub(super) const REGEX_BYTES_MAX: usize = 1 << 20;
/// About so many characters are a token.
const CHARS_OF_TOKEN: usize = 4;
/// The most messages that are shown before and after one.
const CONTEXT_MAX: u64 = 20;
/// As many digits of a session's id as tell it from all others.
const HANDLE_DIGITS: usize = 12;

/// What is searched for. Without words, the newest messages are found that pass the filters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SearchRequest {
    /// Any text: words, a question, a name or a part of one. Words in double quotes stand side by side, and `conf*` may
    /// go on.
    pub query: String,
    /// Whether the query is a regular expression. Only the newest messages are compared with one, some thousands.
    pub regex: bool,
    /// Only messages that have all words, the newest first.
    pub newest: bool,
    /// Only in the conversation of this session; a beginning of its name or id is enough.
    pub session: Option<String>,
    /// Only in sessions of this project: a folder, or the end of its path.
    pub project: Option<String>,
    /// Only in sessions with this agent.
    pub agent: Option<String>,
    /// Only messages of this role: `user`, `assistant`, `tool` or `system`.
    pub role: Option<String>,
    /// Only calls of this tool, and their results.
    pub tool: Option<String>,
    /// Only messages that name this file.
    pub file: Option<String>,
    /// Only messages that were said since this time: as the file that they were imported from tells, or when they were
    /// recorded.
    pub since: Option<Timestamp>,
    /// Only messages that were said before this time.
    pub before: Option<Timestamp>,
    /// How many messages before and after each one come along.
    pub context: u64,
    /// How many are found at most.
    pub limit: usize,
}

/// A message that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FoundEntry {
    /// What `expand` takes to bring all of it back.
    pub handle: String,
    /// The name of its session.
    pub session: String,
    /// The id of its session.
    pub id: String,
    /// Its number in the session.
    pub entry: u64,
    /// Its round.
    pub round: u64,
    /// Who said it.
    pub role: String,
    /// When it was said.
    pub at: Timestamp,
    /// How well it fits; the first has the highest. 0 where messages are not ranked.
    pub score: f64,
    /// How many tokens it has, about.
    pub tokens: u64,
    /// How many messages say the same, with itself.
    pub repeats: u64,
    /// The words around the best passage, on one line.
    pub snippet: String,
    /// The user's first words in the session, 200 characters at most.
    pub task: String,
    /// The messages before it and after it, if they were asked for.
    pub context: Vec<ContextEntry>,
}

/// A message beside one that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ContextEntry {
    /// Its number in the session.
    pub entry: u64,
    /// Who said it.
    pub role: String,
    /// Its first words, on one line.
    pub text: String,
}

/// What a search found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FoundEntries {
    /// The messages, best first.
    pub entries: Vec<FoundEntry>,
    /// Whether some messages were not looked at: the search index is being made or says nothing about such a query, or
    /// too many would have had to be read.
    pub is_partial: bool,
}

const ROLES: [Role; 4] = [Role::System, Role::User, Role::Assistant, Role::Tool];

impl Default for SearchRequest {
    fn default() -> Self {
        Self {
            query: String::new(),
            regex: false,
            newest: false,
            session: None,
            project: None,
            agent: None,
            role: None,
            tool: None,
            file: None,
            since: None,
            before: None,
            context: 0,
            limit: 20,
        }
    }
}

impl SearchRequest {
    /// Searches for words in all sessions.
    pub fn of(query: &str) -> Self {
        Self { query: query.to_owned(), ..Self::default() }
    }

    /// Whether there is anything to search for, and a regular expression is one.
    pub fn check(&self) -> Result<(), AppError> {
        let Self { session, project, agent, role, tool, file, since, before, .. } = self;
        let texts = [session, project, agent, role, tool, file];
        let has_filter =
            texts.iter().any(|filter| filter.is_some()) || since.is_some() || before.is_some();
        if self.is_blank() && !has_filter {
            return Err(AppError::EmptyQuery);
        }
        self.pattern().map(drop)
    }

    /// Whether the query looks like a regular expression and is not taken as one.
    pub fn looks_like_regex(&self) -> bool {
        let signs = [".*", ".+", "\\b", "\\d", "\\w", "\\s", "[a-z", "[A-Z", "[0-9", "(?", ")|("];
        let query = self.query.trim();
        let is_anchored = query.starts_with('^') || (query.ends_with('$') && query.len() > 1);
        let has_choice = query.contains('|') && query.contains('(') && query.contains(')');
        !self.regex && (is_anchored || has_choice || signs.iter().any(|sign| query.contains(sign)))
    }

    fn is_blank(&self) -> bool {
        self.query.trim_matches(|c: char| c.is_whitespace() || c == '"').is_empty()
    }

    fn pattern(&self) -> Result<Option<Regex>, AppError> {
        if !self.regex {
            return Ok(None);
        }
        let built = RegexBuilder::new(&self.query)
            .case_insensitive(!self.query.chars().any(char::is_uppercase))
            .multi_line(true)
            .size_limit(REGEX_BYTES_MAX)
            .build();
        Ok(Some(built.map_err(|error| AppError::BadRegex(error.to_string()))?))
    }

    /// The filters as the archive knows them; `None` if no message passes them.
    fn filter(&self) -> Option<SearchFilter> {
        let ms = |time: Timestamp| time.0;
        let role = match self.role.as_deref() {
            None => None,
            Some(wanted) => Some(ROLES.into_iter().find(|role| role.as_str() == wanted)?),
        };
        Some(SearchFilter { role, since_ms: self.since.map(ms), before_ms: self.before.map(ms) })
    }

    /// The words that messages are ranked by.
    fn words(&self) -> String {
        match &self.file {
            Some(file) if self.is_blank() || self.regex => format!("\"{file}\""),
            _ if self.is_blank() || self.regex => String::new(),
            _ => self.query.clone(),
        }
    }
}

impl App {
    /// Finds messages by their words, best first.
    pub fn search(&self, request: &SearchRequest) -> Result<Vec<FoundEntry>, AppError> {
        Ok(self.find_entries(request)?.entries)
    }

    /// [`App::search`], which also tells whether every message was looked at.
    pub fn find_entries(&self, request: &SearchRequest) -> Result<FoundEntries, AppError> {
        request.check()?;
        let Some(filter) = request.filter() else { return Ok(FoundEntries::default()) };
        let scopes = self.scopes(request)?;
        if scopes.is_empty() || request.limit == 0 {
            return Ok(FoundEntries::default());
        }
        let pattern = request.pattern()?;
        let found = if request.newest && pattern.is_none() && !request.is_blank() {
            self.newest_hits(&scopes, request, filter)?
        } else {
            self.ranked_hits(&scopes, request, filter, pattern.as_ref())?
        };
        let mut sessions: HashMap<SessionId, (String, String)> = HashMap::new();
        let mut entries = Vec::new();
        for hit in found.hits {
            let (task, name) = match sessions.entry(hit.session) {
                Occupied(known) => known.get().clone(),
                Vacant(place) => place.insert(self.titles(hit.session)?).clone(),
            };
            entries.push(self.found_entry(hit, task, name, request.context)?);
        }
        Ok(FoundEntries { entries, is_partial: found.is_partial })
    }

    /// What is searched.
    fn scopes(&self, request: &SearchRequest) -> Result<Vec<Scope>, AppError> {
        let is_wanted = |info: &SessionInfo| {
            let (project, agent) = (&info.origin.project, &info.origin.agent);
            request.project.as_deref().is_none_or(|wanted| is_project(project, wanted))
                && request.agent.as_deref().is_none_or(|wanted| agent == wanted)
        };
        let sessions = match &request.session {
            Some(name) => {
                let (info, _) = self.look_up(name, Access::Read)?;
                self.chain_of(&info)?
            }
            None if request.project.is_none()
                && request.agent.is_none()
                && self.reach == Reach::All =>
            {
                return Ok(vec![self.scope()]);
            }
            None => match self.conversation_in_reach()? {
                Some(sessions) => sessions,
                None => self.all_sessions()?,
            },
        };
        let scope = |info: &SessionInfo| match self.reach {
            Reach::Path { session, head: Some(head) } if session == info.id => {
                Scope::Path { session, head: Some(head) }
            }
            _ => Scope::Session(info.id),
        };
        Ok(sessions.iter().filter(|info| is_wanted(info)).map(scope).collect())
    }

    fn ranked_hits(
        &self,
        scopes: &[Scope],
        request: &SearchRequest,
        filter: SearchFilter,
        pattern: Option<&Regex>,
    ) -> Result<RankedFound, AppError> {
        let accepts = |session: SessionId, entry: &Entry| {
            self.passes(request, filter, session, entry)
                && pattern.is_none_or(|pattern| pattern.is_match(&text_of(entry)))
        };
        let words = request.words();
        let found = ask::ranked(&*self.archive, scopes, &words, filter, request.limit, &accepts);
        let mut found = wait(found)?;
        for hit in &mut found.hits {
            if let Some(place) = pattern.and_then(|pattern| pattern.find(&hit.text)) {
                hit.snippet = longhand_archive::snippet(&hit.text, &place.range());
            }
        }
        Ok(found)
    }

    /// The messages that have all words, newest first.
    fn newest_hits(
        &self,
        scopes: &[Scope],
        request: &SearchRequest,
        filter: SearchFilter,
    ) -> Result<RankedFound, AppError> {
        let mut all = RankedFound::default();
        for scope in scopes.iter().rev() {
            let mut asked = request.limit;
            loop {
                let found = self.archive.search_filtered(scope, &request.query, filter, asked)?;
                let is_all = found.hits.len() < asked;
                let mut hits = Vec::new();
                for hit in found.hits {
                    let seqs = hit.seq.0..hit.seq.0 + 1;
                    let Some(entry) = self.archive.entries(hit.session, seqs)?.pop() else {
                        continue;
                    };
                    if self.passes(request, filter, hit.session, &entry) {
                        let text = text_of(&entry);
                        let (session, snippet) = (hit.session, hit.snippet);
                        hits.push(RankedHit {
                            session,
                            entry,
                            text,
                            snippet,
                            score: 0.0,
                            repeats: 1,
                        });
                    }
                }
                if is_all || all.hits.len() + hits.len() >= request.limit {
                    all.is_partial |= found.is_partial;
                    all.hits.extend(hits);
                    all.hits.truncate(request.limit);
                    break;
                }
                asked = asked.saturating_mul(4);
            }
        }
        Ok(all)
    }

    /// Whether a message passes the filters that storage knows nothing about, or not for sure.
    fn passes(
        &self,
        request: &SearchRequest,
        filter: SearchFilter,
        session: SessionId,
        entry: &Entry,
    ) -> bool {
        filter.role.is_none_or(|wanted| recall::role(entry).unwrap_or(Role::Tool) == wanted)
            && request.file.as_deref().is_none_or(|file| entry.raw.contains(file))
            && request.tool.as_deref().is_none_or(|tool| self.is_of_tool(session, entry, tool))
    }

    /// Whether a message calls a tool, or has the result of a call that the message before it made.
    fn is_of_tool(&self, session: SessionId, entry: &Entry, tool: &str) -> bool {
        let Some((_, message)) = recall::said(entry) else {
            return entry.raw.contains(tool);
        };
        let calls = |part: &Part| matches!(part, Part::Call(call) if call.name.decode() == tool);
        if message.parts.iter().any(calls) {
            return true;
        }
        let has_result = message.parts.iter().any(|part| matches!(part, Part::Result(_)));
        let Some(parent) = entry.parent.filter(|_| has_result) else { return false };
        let before = self.archive.entries(session, parent.0..parent.0 + 1).unwrap_or_default();
        let said = before.first().and_then(recall::said);
        said.is_some_and(|(_, message)| message.parts.iter().any(calls))
    }

    /// The first words of a session and its name.
    fn titles(&self, id: SessionId) -> Result<(String, String), AppError> {
        let words = |info: &SessionInfo| self.task(info).chars().take(TASK_CHARS_MAX).collect();
        let named = self.session_of(id)?.map(|info| (words(&info), info.name));
        Ok(named.unwrap_or_default())
    }

    fn found_entry(
        &self,
        hit: RankedHit,
        task: String,
        session: String,
        context: u64,
    ) -> Result<FoundEntry, AppError> {
        let id = hit.session.to_string();
        let seq = hit.entry.seq.0;
        let role = recall::role(&hit.entry).unwrap_or(Role::Tool);
        Ok(FoundEntry {
            handle: entry_handle(&id, seq..seq + 1),
            session,
            entry: seq,
            round: hit.entry.round,
            role: role.as_str().to_owned(),
            at: Timestamp(hit.entry.said_ms()),
            score: (f64::from(hit.score) * 1_000.0).round() / 1_000.0,
            tokens: hit.text.chars().count().div_ceil(CHARS_OF_TOKEN) as u64,
            repeats: hit.repeats,
            snippet: hit.snippet,
            task,
            context: self.context_of(hit.session, seq, context)?,
            id,
        })
    }

    /// The messages around one, by their numbers.
    fn context_of(
        &self,
        session: SessionId,
        seq: u64,
        count: u64,
    ) -> Result<Vec<ContextEntry>, AppError> {
        let count = count.min(CONTEXT_MAX);
        let Some(info) = self.session_of(session)?.filter(|_| count > 0) else {
            return Ok(Vec::new());
        };
        let around = seq.saturating_sub(count)..(seq + count + 1).min(info.entries);
        let entries = self.archive.entries(session, around)?;
        let others = entries.iter().filter(|entry| entry.seq.0 != seq);
        let context = others.map(|entry| {
            let text = text_of(entry);
            ContextEntry {
                entry: entry.seq.0,
                role: recall::role(entry).unwrap_or(Role::Tool).as_str().to_owned(),
                text: longhand_archive::snippet(&text, &(0..0)),
            }
        });
        Ok(context.collect())
    }
}

/// What search sees of an entry.
pub(super) fn text_of(entry: &Entry) -> String {
    readable(&searchable(&entry.form, &entry.raw)).into_owned()
}

/// What leads to entries of a session: `7f3a9c02b1d4:12`, or `7f3a9c02b1d4:12-15`.
pub(super) fn entry_handle(id: &str, entries: Range<u64>) -> String {
    let id = short_id(id);
    let Range { start, end } = entries;
    if end == start + 1 { format!("{id}:{start}") } else { format!("{id}:{start}-{}", end - 1) }
}

/// As much of a session's id as handles have.
pub(crate) fn short_id(id: &str) -> &str {
    id.get(..HANDLE_DIGITS).unwrap_or(id)
}

/// Whether a folder is the one that is wanted, is inside of it, or has that name.
pub(super) fn is_project(project: &str, wanted: &str) -> bool {
    let (project, wanted) = (project.trim_end_matches('/'), wanted.trim_end_matches('/'));
    let is_inside = |rest: &str| rest.is_empty() || rest.starts_with('/');
    let ends_so = project.strip_suffix(wanted).is_some_and(|rest| rest.ends_with('/'));
    !wanted.is_empty() && (project.strip_prefix(wanted).is_some_and(is_inside) || ends_so)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_a_folder_or_the_end_of_one() {
        for (wanted, expected) in [
            ("/home/u/app", true),
            ("/home/u", true),
            ("app", true),
            ("u/app/", true),
            ("/home/u/ap", false),
            ("pp", false),
            ("", false),
        ] {
            assert_eq!(is_project("/home/u/app", wanted), expected, "{wanted}");
        }
    }

    #[test]
    fn what_looks_like_a_regular_expression_is_told() {
        for (query, expected) in [
            ("foo.*bar", true),
            ("^error", true),
            ("(a|b)", true),
            (r"\d+ tests", true),
            ("why did it fail?", false),
            ("a | b", false),
            ("f(x)", false),
            ("conf*", false),
            ("$", false),
        ] {
            assert_eq!(SearchRequest::of(query).looks_like_regex(), expected, "{query}");
        }
    }
}
