//! Lists of sessions.

use std::collections::BTreeSet;

use longhand_archive::{Page, SessionInfo};
use serde::{Deserialize, Serialize};

use super::kin::{SessionChain, is_listed};
use super::resume_command::resume_command;
use super::{Access, App, AppError, Fork, ResumeCommand, Timestamp};

/// How many digits of an id are shown and accepted.
pub(super) const SHORT_ID_DIGITS: usize = 16;

/// Which sessions are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ListRequest {
    /// Whether earlier sessions, side calls, sub-agents and forks are listed with their conversation.
    pub all: bool,
    /// The most conversations of a page; `None` for all.
    pub limit: Option<usize>,
    /// [`SessionPage::next`] of the page before.
    pub after: Option<String>,
    /// Only conversations with all of these words in the name, the first words, the agent, the model or the folder of one
    /// of their sessions. Some thousands of sessions are looked through for a page; there may be more if it has a `next`.
    pub words: Option<String>,
}

/// A page of conversations, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SessionPage {
    /// The conversations.
    pub items: Vec<ListedSession>,
    /// Where the next page begins; `None` on the last one.
    pub next: Option<String>,
    /// How many side calls and sub-agents these have.
    pub aside: u64,
    /// Names that several sessions have: these are told apart by their ids.
    pub shared_names: Vec<String>,
}

/// A conversation in a list, with the figures of all its sessions; or one of its sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ListedSession {
    /// The id of the newest session.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its wire format.
    pub dialect: String,
    /// The user's first words.
    pub task: String,
    /// The program that sent the newest request; empty if that is not known.
    pub agent: String,
    /// The model that it asked.
    pub model: String,
    /// The folder that the agent worked in; empty if that is not known.
    #[serde(default)]
    pub project: String,
    /// How many rounds it has.
    pub rounds: u64,
    /// How many entries it has, on all paths.
    pub entries: u64,
    /// How many batches its log has, undone ones too.
    pub batches: u64,
    /// How many bytes its messages have.
    pub bytes: u64,
    /// How many requests were sent.
    pub requests: u64,
    /// The tokens of the newest request; 0 if they were not counted.
    pub tokens: u64,
    /// What it would have had without edits.
    pub tokens_ever: u64,
    /// The tokens that all requests did not send.
    pub saved: u64,
    /// The time of its newest entry.
    pub last: Timestamp,
    /// Whether its record failed its checksum.
    pub damaged: bool,
    /// What goes on with it, if that is known.
    #[serde(default)]
    pub resume: Option<ResumeCommand>,
    /// The sessions that it continues, oldest first; only if all are listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<Vec<Self>>,
    /// Its side calls and sub-agents, newest first; only if all are listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aside: Option<Vec<Self>>,
    /// Its other paths, newest first; only if all are listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forks: Option<Vec<Fork>>,
}

/// A session at a glance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SessionSummary {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its wire format.
    pub dialect: String,
    /// How many rounds its newest path has.
    pub rounds: u64,
    /// How many entries it has, on all paths.
    pub entries: u64,
    /// How many bytes its messages have.
    pub bytes: u64,
    /// When it began.
    pub begun: Timestamp,
    /// The time of its newest entry.
    pub last: Timestamp,
    /// Whether its record failed its checksum.
    pub damaged: bool,
}

impl SessionSummary {
    pub(super) fn of(info: &SessionInfo) -> Self {
        Self {
            id: info.id.to_string(),
            name: info.name.clone(),
            dialect: info.dialect.clone(),
            rounds: info.rounds,
            entries: info.entries,
            bytes: info.bytes,
            begun: Timestamp(info.begun_ms),
            last: Timestamp(info.last_ms),
            damaged: info.is_damaged,
        }
    }
}

/// An id as short as it is shown and accepted.
pub fn short_id(id: &str) -> &str {
    id.get(..SHORT_ID_DIGITS).unwrap_or(id)
}

impl App {
    /// Lists conversations, newest first.
    pub fn sessions(&self, request: &ListRequest) -> Result<SessionPage, AppError> {
        let cursor = |text: &str| text.parse().map_err(|_| AppError::BadPage(text.to_owned()));
        let after = request.after.as_deref().map(cursor).transpose()?;
        let limit = request.limit.unwrap_or(usize::MAX);
        let words = request.words.as_deref().unwrap_or_default().to_lowercase();
        let words: Vec<&str> = words.split_whitespace().collect();
        let has_words = |info: &SessionInfo| self.has_words(info, &words);
        let wanted: Option<&dyn Fn(&SessionInfo) -> bool> =
            if words.is_empty() { None } else { Some(&has_words) };
        let found = self.conversations_with(Page { after, limit }, wanted)?;
        // What is left may be empty sessions, and those of conversations that are listed.
        let mut next = found.next;
        if next.is_some()
            && wanted.is_none()
            && self.conversations(Page { after: next, limit: 1 })?.items.is_empty()
        {
            next = None;
        }
        let one = |found| self.conversation(found, request.all);
        Ok(SessionPage {
            items: found.items.iter().map(one).collect::<Result<_, _>>()?,
            next: next.map(|next| next.to_string()),
            aside: found.items.iter().map(|found| found.aside.len() as u64).sum(),
            shared_names: self.shared_names(&found.items)?,
        })
    }

    /// A conversation with its earlier sessions, side calls, sub-agents and forks, by one of its sessions.
    pub fn kin_of(&self, name: &str) -> Result<ListedSession, AppError> {
        let (info, _) = self.look_up(name, Access::Read)?;
        self.conversation(&self.chain_with_kin(&info)?, true)
    }

    /// Whether a session has all of these words, in small letters, where lists show it.
    fn has_words(&self, info: &SessionInfo, words: &[&str]) -> bool {
        let usage = &info.usage;
        let fields =
            [&info.name, &usage.agent, &usage.model, &info.origin.project, &info.origin.agent];
        let fields = fields.map(|field| field.to_lowercase()).join("\n");
        let left: Vec<&&str> = words.iter().filter(|word| !fields.contains(**word)).collect();
        if left.is_empty() {
            return true;
        }
        let task = self.task(info).to_lowercase();
        left.iter().all(|word| task.contains(**word))
    }

    /// The names of these sessions that others have, too.
    fn shared_names(&self, conversations: &[SessionChain]) -> Result<Vec<String>, AppError> {
        let sessions =
            conversations.iter().flat_map(|found| found.sessions.iter().chain(&found.aside));
        let names: BTreeSet<&str> = sessions.map(|info| info.name.as_str()).collect();
        let mut shared = Vec::new();
        for name in names {
            if self.sessions_named(name)?.iter().filter(|info| is_listed(info)).count() > 1 {
                shared.push(name.to_owned());
            }
        }
        Ok(shared)
    }

    fn conversation(&self, found: &SessionChain, all: bool) -> Result<ListedSession, AppError> {
        let mut listed = self.listed(found.main(), &found.sessions);
        if all {
            let one = |info: &SessionInfo| {
                let mut listed = self.listed(info, std::slice::from_ref(info));
                listed.forks = Some(self.forks_of(info)?);
                Ok(listed)
            };
            let earlier: Result<_, AppError> = found.earlier().iter().map(one).collect();
            let aside: Result<_, AppError> = found.aside.iter().map(one).collect();
            listed.earlier = Some(earlier?);
            listed.aside = Some(aside?);
            listed.forks = Some(self.forks_of(found.main())?);
        }
        Ok(listed)
    }

    /// A session with the figures of these sessions.
    fn listed(&self, info: &SessionInfo, sessions: &[SessionInfo]) -> ListedSession {
        let sum = |count: fn(&SessionInfo) -> u64| sessions.iter().map(count).sum::<u64>();
        let mut listed = ListedSession {
            id: info.id.to_string(),
            name: info.name.clone(),
            dialect: info.dialect.clone(),
            task: self.task(&sessions[0]),
            rounds: sum(|info| info.rounds),
            entries: sum(|info| info.entries),
            batches: sum(|info| info.batches),
            bytes: sum(|info| info.bytes),
            project: info.origin.project.clone(),
            agent: info.origin.agent.clone(),
            last: Timestamp(info.last_ms),
            damaged: info.is_damaged,
            resume: resume_command(info),
            ..ListedSession::default()
        };
        for info in sessions {
            let usage = &info.usage;
            listed.requests += usage.sums.requests;
            listed.saved += usage.sums.saved;
            if !usage.model.is_empty() || !usage.agent.is_empty() || usage.before > 0 {
                if !usage.agent.is_empty() {
                    listed.agent.clone_from(&usage.agent);
                }
                listed.model.clone_from(&usage.model);
                listed.tokens = usage.window;
                listed.tokens_ever = usage.before;
            }
        }
        listed
    }
}
