//! Searching everything that was ever said.

use std::collections::HashMap;
use std::collections::hash_map::Entry::{Occupied, Vacant};

use longhand_archive::{Scope, SessionId, SessionInfo};
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

    pub(super) fn is_filtered(&self) -> bool {
        self.role.is_some() || self.since.is_some() || self.before.is_some()
    }

    /// Whether a message passes the filters.
    pub(super) fn passes(&self, role: &str, at_ms: i64) -> bool {
        self.role.as_deref().is_none_or(|wanted| wanted == role)
            && self.since.is_none_or(|since| at_ms >= since.0)
            && self.before.is_none_or(|before| at_ms < before.0)
    }
}

impl App {
    /// Finds messages by their words, newest first.
    pub fn search(&self, request: &SearchRequest) -> Result<Vec<FoundEntry>, AppError> {
        request.check()?;
        let scopes = match &request.session {
            Some(name) => {
                let (info, _) = self.look_up(name, Access::Read)?;
                let sessions = self.chain_of(&info)?;
                sessions.iter().rev().map(|info| Scope::Session(info.id)).collect()
            }
            None => vec![self.scope()],
        };
        let mut found: Vec<FoundEntry> = Vec::new();
        let mut sessions: HashMap<SessionId, (String, String)> = HashMap::new();
        for scope in &scopes {
            for hit in self.hits(scope, request, request.limit.saturating_sub(found.len()))? {
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
                found.push(FoundEntry {
                    session: name,
                    id: id.to_string(),
                    entry: hit.hit.seq.0,
                    round: hit.hit.round,
                    role: hit.role.to_owned(),
                    at: Timestamp(hit.at_ms),
                    snippet: hit.hit.snippet,
                    task,
                });
            }
        }
        Ok(found)
    }
}
