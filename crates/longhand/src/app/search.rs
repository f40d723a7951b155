//! Searching everything that was ever said.

use std::collections::HashMap;
use std::collections::hash_map::Entry::{Occupied, Vacant};

use longhand_archive::{Scope, SearchFilter, SessionId, SessionInfo};
use longhand_core::Role;
use serde::{Deserialize, Serialize};

use super::{Access, App, AppError, Timestamp};

/// The most characters of a session's first words beside what was found in it.
const TASK_CHARS_MAX: usize = 200;

/// What is searched for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SearchRequest {
    /// Words, all of them in one message; words in double quotes stand side by side, and `conf*` may go on.
    pub query: String,
    /// Only in the conversation of this session; a beginning of its name or id is enough.
    pub session: Option<String>,
    /// Only messages of this role: `user`, `assistant`, `tool` or `system`.
    pub role: Option<String>,
    /// Only messages since this time.
    pub since: Option<Timestamp>,
    /// Only messages before this time.
    pub before: Option<Timestamp>,
    /// How many are found at most.
    pub limit: usize,
}

/// A message that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FoundEntry {
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
    /// The words around the first match, on one line.
    pub snippet: String,
    /// The user's first words in the session, 200 characters at most.
    pub task: String,
}

/// What a search found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FoundEntries {
    /// The messages, newest first.
    pub entries: Vec<FoundEntry>,
    /// Whether some messages were not looked at: the search index is being made, or says nothing about such a query.
    pub is_partial: bool,
}

const ROLES: [Role; 4] = [Role::System, Role::User, Role::Assistant, Role::Tool];

impl Default for SearchRequest {
    fn default() -> Self {
        Self {
            query: String::new(),
            session: None,
            role: None,
            since: None,
            before: None,
            limit: 20,
        }
    }
}

impl SearchRequest {
    /// Searches for words in all sessions.
    pub fn of(query: &str) -> Self {
        Self { query: query.to_owned(), ..Self::default() }
    }

    /// Whether there is anything to search for.
    pub fn check(&self) -> Result<(), AppError> {
        let is_empty = self.query.trim_matches(|c: char| c.is_whitespace() || c == '"').is_empty();
        if is_empty { Err(AppError::EmptyQuery) } else { Ok(()) }
    }

    /// The filters as the archive knows them; `None` if no message passes them.
    fn filter(&self) -> Option<SearchFilter> {
        let role = match self.role.as_deref() {
            None => None,
            Some(wanted) => Some(ROLES.into_iter().find(|role| role.as_str() == wanted)?),
        };
        let ms = |time: Timestamp| time.0;
        Some(SearchFilter { role, since_ms: self.since.map(ms), before_ms: self.before.map(ms) })
    }
}

impl App {
    /// Finds messages by their words, newest first.
    pub fn search(&self, request: &SearchRequest) -> Result<Vec<FoundEntry>, AppError> {
        Ok(self.find_entries(request)?.entries)
    }

    /// [`App::search`], which also tells whether every message was looked at.
    pub fn find_entries(&self, request: &SearchRequest) -> Result<FoundEntries, AppError> {
        request.check()?;
        let mut found = FoundEntries::default();
        let Some(filter) = request.filter() else { return Ok(found) };
        let scopes = match &request.session {
            Some(name) => {
                let (info, _) = self.look_up(name, Access::Read)?;
                let sessions = self.chain_of(&info)?;
                sessions.iter().rev().map(|info| Scope::Session(info.id)).collect()
            }
            None => vec![self.scope()],
        };
        let mut sessions: HashMap<SessionId, (String, String)> = HashMap::new();
        for scope in &scopes {
            let wanted = request.limit.saturating_sub(found.entries.len());
            let hits = self.hits(scope, &request.query, filter, wanted)?;
            found.is_partial |= hits.is_partial;
            for hit in hits.hits {
                let id = hit.hit.session;
                let (task, name) = match sessions.entry(id) {
                    Occupied(known) => known.get().clone(),
                    Vacant(place) => {
                        let info = self.session_of(id)?;
                        let words = |info: &SessionInfo| {
                            self.task(info).chars().take(TASK_CHARS_MAX).collect()
                        };
                        let named = info.map(|info| (words(&info), info.name));
                        place.insert(named.unwrap_or_default()).clone()
                    }
                };
                found.entries.push(FoundEntry {
                    session: name,
                    id: id.to_string(),
                    entry: hit.hit.seq.0,
                    round: hit.hit.round,
                    role: hit.role.as_str().to_owned(),
                    at: Timestamp(hit.at_ms),
                    snippet: hit.hit.snippet,
                    task,
                });
            }
        }
        Ok(found)
    }
}
