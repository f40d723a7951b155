//! Which session to go on with: found by what was said in it, with the command that goes on.
//!
//! What is in the archive is searched, whatever agent it was said to. Session files that the archive does not have are
//! searched as well, since the newest sessions are often not imported yet.

mod files;

use longhand_archive::{SessionFilter, SessionId, SessionInfo};
use serde::{Deserialize, Serialize};

use super::search::text_of;
use super::{Access, App, AppError, FoundEntry, ListRequest, SearchRequest, Timestamp};
use crate::agent_files::{AgentCommand, AgentFile};
use crate::rejoin::group_of;

/// How many messages are ranked for each session that is wanted.
const HITS_OF_SESSION: usize = 6;
/// How much better than the next one a session fits that is clearly the one: ten parts of the score to eight.
const CLEAR: (f64, f64) = (10.0, 8.0);
/// The program of sessions that no agent keeps.
const LONGHAND: &str = "longhand";

/// Which session is looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResumeRequest {
    /// What was said in it, or its name or id. Without any, the newest sessions are listed.
    pub query: String,
    /// Only sessions of this project: a folder, or the end of its path.
    pub project: Option<String>,
    /// The most sessions that are listed.
    pub limit: usize,
    /// The most bytes of a session file.
    pub bytes_max: u64,
    /// The time, in milliseconds since 1970.
    pub now_ms: i64,
}

/// Which sessions were found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ResumeReport {
    /// The sessions, best first; without a query, the newest first.
    pub sessions: Vec<ResumableSession>,
    /// Whether the first one is clearly meant. Otherwise somebody has to choose.
    pub is_clear: bool,
    /// Whether some messages or files were not looked at.
    pub is_partial: bool,
}

/// A session that one can go on with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ResumableSession {
    /// What names it for the next call: the agent's id, or the session's name in the archive.
    pub name: String,
    /// Its id in the archive; `None` if it is only in a file.
    pub session: Option<String>,
    /// The command that starts its agent; empty if that is not known.
    pub agent: String,
    /// The folder that it was worked in; empty if that is not known.
    pub project: String,
    /// The user's first words.
    pub task: String,
    /// When something was last said in it.
    pub last: Timestamp,
    /// The agent's file of it.
    pub file: Option<String>,
    /// What goes on in it.
    pub command: Option<AgentCommand>,
    /// Why there is no command.
    pub obstacle: Option<String>,
    /// How much of the query a message of it has.
    pub fit: QueryFit,
    /// How well that message fits, to be compared with sessions that have the same `fit`.
    pub score: f64,
    /// What was said, with the words around it.
    pub snippet: String,
}

/// How much of a query a message has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum QueryFit {
    /// Some of it, or other forms of its words.
    #[default]
    Partial,
    /// All its words.
    AllWords,
    /// All of it, just so.
    Verbatim,
    /// The session has this name or id.
    Name,
}

impl App {
    /// Finds the session that somebody wants to go on with; `files` are the session files of all agents.
    pub fn resumable(
        &self,
        request: &ResumeRequest,
        files: &[AgentFile],
    ) -> Result<ResumeReport, AppError> {
        let mut report = if request.query.trim().is_empty() {
            self.newest_resumable(request, files)?
        } else if let Some(named) = self.named_resumable(request, files)? {
            named
        } else {
            self.searched_resumable(request, files)?
        };
        report.sessions.truncate(request.limit);
        Ok(report)
    }

    /// The newest sessions.
    fn newest_resumable(
        &self,
        request: &ResumeRequest,
        files: &[AgentFile],
    ) -> Result<ResumeReport, AppError> {
        let mut report = ResumeReport::default();
        let page =
            self.sessions(&ListRequest { limit: Some(request.limit), ..ListRequest::default() })?;
        for listed in page.items {
            if let Some(info) = self.find_info(&listed.id)? {
                report.add(self.resumable_of(&info, files)?, request);
            }
        }
        let missing = self.missing_files(files)?;
        for file in missing.iter().rev().take(request.limit) {
            report.add(files::unread(file), request);
        }
        report.sessions.sort_by_key(|session| std::cmp::Reverse(session.last.0));
        Ok(report)
    }

    /// The sessions that are called so; `None` if the query is no name.
    fn named_resumable(
        &self,
        request: &ResumeRequest,
        files: &[AgentFile],
    ) -> Result<Option<ResumeReport>, AppError> {
        let query = request.query.trim();
        let mut report = ResumeReport::default();
        let named = |session: ResumableSession| ResumableSession { fit: QueryFit::Name, ..session };
        let found = match self.look_up(query, Access::Read) {
            Ok((info, _)) => vec![info],
            Err(AppError::AmbiguousName { .. }) => self.sessions_beginning(query)?,
            Err(AppError::UnknownSession { .. }) => Vec::new(),
            Err(error) => return Err(error),
        };
        // The beginning of a name is often just a word.
        let is_exact = |info: &&SessionInfo| info.name == query || info.id.to_string() == query;
        let is_name = looks_like_id(query) || found.iter().any(|info| is_exact(&info));
        for info in found.iter().filter(|info| looks_like_id(query) || is_exact(info)) {
            report.add(named(self.resumable_of(info, files)?), request);
        }
        for file in files.iter().filter(|file| looks_like_id(query) && file.is_called(query)) {
            report.add(named(files::unread(file)), request);
        }
        report.is_clear = report.sessions.len() == 1;
        Ok(Some(report).filter(|report| is_name && !report.sessions.is_empty()))
    }

    fn searched_resumable(
        &self,
        request: &ResumeRequest,
        files: &[AgentFile],
    ) -> Result<ResumeReport, AppError> {
        let mut report = self.hits_of(request, files)?;
        let missing = self.missing_files(files)?;
        let of_files = files::search(&missing, request)?;
        report.is_partial |= of_files.is_partial;
        of_files.sessions.into_iter().for_each(|session| report.add(session, request));
        report.rank();
        Ok(report)
    }

    /// The sessions of this archive that fit the query.
    fn hits_of(
        &self,
        request: &ResumeRequest,
        files: &[AgentFile],
    ) -> Result<ResumeReport, AppError> {
        let search = SearchRequest {
            limit: request.limit.saturating_mul(HITS_OF_SESSION),
            project: request.project.clone(),
            ..SearchRequest::of(&request.query)
        };
        let found = self.find_entries(&search)?;
        let mut report = ResumeReport { is_partial: found.is_partial, ..ResumeReport::default() };
        let words = words_of(&request.query);
        for hit in found.entries {
            let Ok(id) = hit.id.parse::<SessionId>() else { continue };
            let Some(info) = self.session_of(id)? else { continue };
            let fit = self.fit_of(id, &hit, &request.query, &words)?;
            let session = self.resumable_of(&info, files)?;
            let (score, snippet) = (hit.score, hit.snippet);
            report.add(ResumableSession { fit, score, snippet, ..session }, request);
        }
        Ok(report)
    }

    fn fit_of(
        &self,
        id: SessionId,
        hit: &FoundEntry,
        query: &str,
        words: &[String],
    ) -> Result<QueryFit, AppError> {
        let entries = self.archive.entries(id, hit.entry..hit.entry + 1)?;
        let Some(entry) = entries.first() else { return Ok(QueryFit::Partial) };
        let text = plain(&text_of(entry));
        Ok(if text.contains(&plain(query.trim_matches('"'))) {
            QueryFit::Verbatim
        } else if words.iter().all(|word| text.contains(word)) {
            QueryFit::AllWords
        } else {
            QueryFit::Partial
        })
    }

    /// What goes on in a session of the archive. A side call or a sub-agent leads to its conversation.
    fn resumable_of(
        &self,
        info: &SessionInfo,
        files: &[AgentFile],
    ) -> Result<ResumableSession, AppError> {
        let mut kin = vec![info.clone()];
        kin.extend(self.chain_of(info)?.into_iter().rev());
        if let Some(group) = info.group {
            kin.extend(self.listed_by(SessionFilter::Group(group))?);
        }
        let file = kin.iter().find_map(|info| Some((info, file_of(info, files)?)));
        let main = file.map_or(info, |(info, _)| info);
        let mut session = ResumableSession {
            name: main.name.clone(),
            session: Some(main.id.to_string()),
            project: main.origin.project.clone(),
            task: self.task(main),
            last: Timestamp(main.last_ms),
            ..ResumableSession::default()
        };
        if let Some((_, file)) = file {
            session.set_file(file);
            return Ok(session);
        }
        if !main.origin.file.is_empty() {
            session.agent.clone_from(&main.origin.agent);
            session.file = Some(main.origin.file.clone());
            session.obstacle = Some(format!(
                "{} is not among the sessions that its agent has on this machine",
                main.origin.file
            ));
        } else if main.usage.sums.requests == 0 && main.group.is_none() {
            LONGHAND.clone_into(&mut session.agent);
            session.command = Some(AgentCommand::new(None, &[LONGHAND, "chat", &main.name]));
        } else {
            session.agent.clone_from(&main.usage.agent);
            session.obstacle = Some(
                "it came through the proxy, and no session file of an agent belongs to it"
                    .to_owned(),
            );
        }
        Ok(session)
    }

    /// The files of sessions that the archive does not have up to their end; those of sub-agents are left out.
    fn missing_files(&self, files: &[AgentFile]) -> Result<Vec<AgentFile>, AppError> {
        let mut missing = Vec::new();
        for file in files.iter().filter(|file| !file.is_of_sub_agent) {
            if self.is_missing(file)? {
                missing.push(file.clone());
            }
        }
        Ok(missing)
    }
}

impl ResumeReport {
    /// Adds a session, or what was found in one that is there.
    fn add(&mut self, session: ResumableSession, request: &ResumeRequest) {
        let is_wanted = |wanted: &String| super::search::is_project(&session.project, wanted);
        if !request.project.as_ref().is_none_or(is_wanted) {
            return;
        }
        let is_same = |known: &&mut ResumableSession| {
            known.name == session.name || (known.file.is_some() && known.file == session.file)
        };
        match self.sessions.iter_mut().find(is_same) {
            None => self.sessions.push(session),
            Some(known) => {
                let last = known.last.max(session.last);
                if session.rank() > known.rank() {
                    let (archived, task) = (known.session.take(), std::mem::take(&mut known.task));
                    *known = session;
                    known.session = archived.or(known.session.take());
                    if known.task.is_empty() {
                        known.task = task;
                    }
                }
                known.last = last;
            }
        }
    }

    /// Puts the best first, and decides whether it is clearly meant.
    fn rank(&mut self) {
        self.sessions.sort_by(|one, other| {
            other.rank().partial_cmp(&one.rank()).unwrap_or(std::cmp::Ordering::Equal)
        });
        self.is_clear = match self.sessions.as_slice() {
            [] => false,
            [_] => true,
            [first, second, ..] => {
                let (clear, next) = CLEAR;
                first.fit > second.fit || first.score * next > second.score * clear
            }
        };
    }
}

impl ResumableSession {
    fn rank(&self) -> (QueryFit, f64) {
        (self.fit, self.score)
    }

    fn set_file(&mut self, file: &AgentFile) {
        file.agent.as_str().clone_into(&mut self.agent);
        self.file = Some(file.place());
        if let Some(id) = &file.id {
            self.name.clone_from(id);
        }
        self.command = file.resume_command().map(|command| {
            let AgentCommand { folder, words, .. } = command;
            let known = Some(self.project.clone()).filter(|folder| !folder.is_empty());
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            AgentCommand::new(folder.or(known), &words)
        });
        if let Some(folder) = self.command.as_ref().and_then(|command| command.folder.clone()) {
            self.project = folder;
        }
        if self.command.is_none() {
            let obstacle = if file.is_archived() {
                "its agent has put it into its archive, and finds it only when it is back"
            } else {
                "its file has no id that its agent takes"
            };
            self.obstacle = Some(obstacle.to_owned());
        }
    }
}

/// The agent's file of a session: the one that it was imported from, or the one whose id its client gave.
fn file_of<'f>(info: &SessionInfo, files: &'f [AgentFile]) -> Option<&'f AgentFile> {
    let mains = || files.iter().filter(|file| !file.is_of_sub_agent);
    if !info.origin.file.is_empty() {
        let by_place = mains().find(|file| file.place() == info.origin.file);
        // Agents move files, for instance into an archive of their own.
        return by_place.or_else(|| mains().find(|file| file.id.as_ref() == Some(&info.name)));
    }
    let group = info.group?;
    mains().find(|file| file.id.as_deref().and_then(group_of) == Some(group))
}

/// Whether this can be an id or the beginning of one, and is hardly a word.
fn looks_like_id(query: &str) -> bool {
    query.len() >= 6
        && query.chars().any(|c| c.is_ascii_digit())
        && query.chars().all(|c| c.is_ascii_hexdigit() || c == '-')
}

/// The words of a query, as they are compared.
fn words_of(query: &str) -> Vec<String> {
    let words = query.split(|c: char| !c.is_alphanumeric() && c != '_').map(plain);
    words.filter(|word| !word.is_empty()).collect()
}

/// A text in small letters, with one space between words.
fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}
