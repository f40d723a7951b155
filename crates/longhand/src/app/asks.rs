//! The questions that the application layer puts to an archive, each in one place.

use std::collections::HashSet;

use longhand_archive::{
    Entry, Note, NoteFilter, Owner, Page, RequestRecord, Scope, SessionFilter, SessionId,
    SessionInfo, UsageLine, wait,
};
use longhand_core::{Handle, Seq};

use super::list::SHORT_ID_DIGITS;
use super::{Access, App, AppError, Reach};
use crate::rejoin::group_of;
use crate::unread::{self, UnreadAnswer};

/// The least digits of an id that say which one is meant.
const ID_DIGITS_MIN: usize = 4;

/// How many of the first entries are looked through for the user's words.
const OPENING_ENTRIES: u64 = 12;

/// Which sessions an app sees, looked up.
pub(super) struct Sight {
    owner: Option<Owner>,
    project: Option<String>,
    conversation: Option<HashSet<SessionId>>,
}

impl Sight {
    pub(super) fn includes(&self, info: &SessionInfo) -> bool {
        let is_of_project =
            |project: &String| super::search::is_project(&info.origin.project, project);
        self.owner.is_none_or(|owner| owner == info.owner)
            && self.project.as_ref().is_none_or(is_of_project)
            && self.conversation.as_ref().is_none_or(|sessions| sessions.contains(&info.id))
    }
}

impl App {
    /// All sessions, those used last first.
    pub(super) fn all_sessions(&self) -> Result<Vec<SessionInfo>, AppError> {
        let mut sessions = self.archive.sessions(self.owner, Page::ALL)?.items;
        let sight = self.sight()?;
        sessions.retain(|info| sight.includes(info));
        Ok(sessions)
    }

    /// What is noted beside the requests of a session.
    pub(super) fn notes_of(&self, id: SessionId) -> Result<Vec<Note>, AppError> {
        let notes = wait(self.archive.notes(NoteFilter::Session(id)))?;
        Ok(notes.into_iter().map(|(_, note)| note).collect())
    }

    /// Whether it sees all sessions of the archive.
    pub(super) fn sees_all(&self) -> bool {
        self.owner.is_none() && self.reach == Reach::All
    }

    /// Which sessions it sees.
    pub(super) fn sight(&self) -> Result<Sight, AppError> {
        let conversation = self.conversation_in_reach()?;
        let conversation =
            conversation.map(|sessions| sessions.into_iter().map(|info| info.id).collect());
        let project = match &self.reach {
            Reach::Project(project) => Some(project.clone()),
            _ => None,
        };
        Ok(Sight { owner: self.owner, project, conversation })
    }

    /// The sessions of the one conversation that it sees; `None` if it sees more.
    pub(super) fn conversation_in_reach(&self) -> Result<Option<Vec<SessionInfo>>, AppError> {
        // They are looked for among all.
        let all = Self { reach: Reach::All, ..self.clone() };
        match &self.reach {
            Reach::All | Reach::Project(_) => Ok(None),
            Reach::Session(name) => {
                let (info, _) = all.look_up(name, Access::Read)?;
                all.chain_of(&info).map(Some)
            }
            Reach::Client(id) => {
                if let Some(info) = all.find_info(id)? {
                    return all.chain_of(&info).map(Some);
                }
                let group = group_of(id).map(SessionFilter::Group);
                group.map_or_else(|| Ok(Vec::new()), |group| all.listed_by(group)).map(Some)
            }
            Reach::Path { session, .. } => match all.session_of(*session)? {
                Some(info) => all.chain_up_to(&info).map(Some),
                None => Ok(Some(Vec::new())),
            },
        }
    }

    /// What to look for a handle in; `None` if nothing within reach has it. The same content may have been left out of
    /// sessions that are not within reach, too.
    pub(super) fn scope_of(&self, handle: Handle) -> Result<Option<Scope>, AppError> {
        if self.reach == Reach::All {
            return Ok(Some(self.scope()));
        }
        let is_theirs = |owner| self.owner.is_none_or(|own| own == owner);
        let mut found = wait(self.archive.references(handle))?;
        found.retain(|found| is_theirs(found.owner));
        if let Some(sessions) = self.conversation_in_reach()? {
            let ids: HashSet<SessionId> = sessions.iter().map(|info| info.id).collect();
            let found = found.iter().find(|found| ids.contains(&found.session));
            return Ok(found.map(|found| Scope::Session(found.session)));
        }
        let sight = self.sight()?;
        for found in found {
            let info = self.archive.session(found.session)?;
            if info.is_some_and(|info| sight.includes(&info)) {
                return Ok(Some(Scope::Session(found.session)));
            }
        }
        Ok(None)
    }

    /// Whether there is any session.
    pub(super) fn has_sessions(&self) -> Result<bool, AppError> {
        if self.reach != Reach::All {
            return Ok(!self.all_sessions()?.is_empty());
        }
        Ok(!self.archive.sessions(self.owner, Page::first(1))?.items.is_empty())
    }

    /// A session by its whole id.
    pub(super) fn session_of(&self, id: SessionId) -> Result<Option<SessionInfo>, AppError> {
        let found = self.archive.session(id)?;
        let sight = self.sight()?;
        Ok(found.filter(|info| sight.includes(info)))
    }

    /// The sessions with exactly this name or short id.
    pub(super) fn sessions_called(&self, name: &str) -> Result<Vec<SessionInfo>, AppError> {
        let mut sessions = self.sessions_named(name)?;
        if name.len() == SHORT_ID_DIGITS {
            let others = self.listed_by(SessionFilter::IdPrefix(name.to_owned()))?;
            sessions.extend(others.into_iter().filter(|info| info.name != name));
        }
        Ok(sessions)
    }

    /// The sessions whose name or id begins so, without empty ones, which are listed nowhere; those used last first.
    pub(super) fn sessions_beginning(&self, name: &str) -> Result<Vec<SessionInfo>, AppError> {
        if name.is_empty() {
            return Ok(Vec::new());
        }
        let mut sessions = self.listed_by(SessionFilter::NamePrefix(name.to_owned()))?;
        if name.len() >= ID_DIGITS_MIN {
            let others = self.listed_by(SessionFilter::IdPrefix(name.to_owned()))?;
            sessions.extend(others.into_iter().filter(|info| !info.name.starts_with(name)));
        }
        sessions.retain(|info| info.entries > 0);
        sessions.sort_by_key(|info| std::cmp::Reverse(info.last_ms));
        Ok(sessions)
    }

    /// The sessions with exactly this name.
    pub(super) fn sessions_named(&self, name: &str) -> Result<Vec<SessionInfo>, AppError> {
        self.listed_by(SessionFilter::Named(name.to_owned()))
    }

    pub(super) fn listed_by(&self, filter: SessionFilter) -> Result<Vec<SessionInfo>, AppError> {
        let mut sessions = wait(self.archive.list_sessions(filter, Page::ALL))?.items;
        let sight = self.sight()?;
        sessions.retain(|info| sight.includes(info));
        Ok(sessions)
    }

    /// What requests took, by session, day and model.
    pub(super) fn usage_lines(&self) -> Result<Vec<UsageLine>, AppError> {
        let mut lines = wait(self.archive.usage(i64::MIN))?;
        if !self.sees_all() {
            let sessions = self.all_sessions()?;
            let ids: HashSet<SessionId> = sessions.iter().map(|info| info.id).collect();
            lines.retain(|line| ids.contains(&line.session));
        }
        Ok(lines)
    }

    /// The first words of the user in a session.
    pub(super) fn task(&self, info: &SessionInfo) -> String {
        if !info.opening.is_empty() {
            return info.opening.clone();
        }
        let entries = self.archive.entries(info.id, 0..OPENING_ENTRIES.min(info.entries));
        // A damaged entry has no words; `verify` reports it.
        first_words(entries.unwrap_or_default().iter())
    }

    /// The first words of the user among these entries, and the time of the last one.
    pub(super) fn words_of(&self, id: SessionId, entries: &[Seq]) -> (String, Option<i64>) {
        let entry = |seq: &Seq| {
            let found = self.archive.entries(id, seq.0..seq.0 + 1);
            found.unwrap_or_default().into_iter().next()
        };
        let opening: Vec<Entry> =
            entries.iter().take(OPENING_ENTRIES as usize).filter_map(entry).collect();
        (first_words(opening.iter()), entries.last().and_then(entry).map(|entry| entry.at_ms))
    }

    /// The request log of a session, oldest first.
    pub(super) fn requests_of(&self, id: SessionId) -> Result<Vec<RequestRecord>, AppError> {
        let mut requests = self.archive.requests(id, Page::ALL)?.items;
        requests.reverse();
        Ok(requests)
    }

    /// The newest line of a session's request log.
    pub(super) fn newest_request(&self, id: SessionId) -> Result<Option<RequestRecord>, AppError> {
        Ok(self.archive.requests(id, Page::first(1))?.items.into_iter().next())
    }

    /// What handles and searches may reach.
    pub(super) fn scope(&self) -> Scope {
        self.owner.map_or(Scope::All, Scope::Owner)
    }

    /// The answer that could not be read and has this handle.
    pub(super) fn unread_answer(&self, handle: Handle) -> Result<Option<UnreadAnswer>, AppError> {
        let may_open = |session| self.sees_all() || matches!(self.session_of(session), Ok(Some(_)));
        Ok(unread::open_among(&*self.archive, handle, may_open)?)
    }
}

fn first_words<'e>(mut entries: impl Iterator<Item = &'e Entry>) -> String {
    let words = entries.find_map(|entry| crate::driver::opening_of(&entry.form, &entry.raw));
    words.unwrap_or_default()
}
