//! Which session a name means.
//!
//! Where something is written or removed, a name is exact: a misspelt one must not reach another conversation. Where
//! something is only read, a beginning is enough if one session alone has it.

use std::sync::Arc;

use longhand_archive::{Owner, Page, SessionId, SessionInfo};
use serde::{Deserialize, Serialize};

use super::kin::SessionChain;
use super::{App, AppError, SessionSummary};
use crate::session::name::free_id;
use crate::{Session, SessionSettings};

/// Stands for the newest conversation where something is read.
pub const LAST: &str = "@last";

/// What a session is looked up for, which decides how much of its name must be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Something is read: a beginning that one session alone has is enough, and so is `@last`.
    Read,
    /// Something is written or removed: the whole name or id is needed.
    Change,
}

/// How a session was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FoundBy {
    /// By its whole name or id.
    Whole,
    /// By the beginning of its name or id.
    Beginning,
    /// As the newest one.
    Newest,
}

/// A session that a name means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FoundSession {
    /// The session.
    pub session: SessionSummary,
    /// How it was found. If not by its whole name, a person should be told which one it is.
    pub by: FoundBy,
}

impl App {
    /// Finds the session that a name means; an unknown name is an error that lists what may have been meant.
    pub fn find(&self, name: &str, access: Access) -> Result<FoundSession, AppError> {
        let (info, by) = self.look_up(name, access)?;
        Ok(FoundSession { session: SessionSummary::of(&info), by })
    }

    /// Finds a session by its whole name or id; `None` if there is none, so that one can begin.
    pub fn find_exact(&self, name: &str) -> Result<Option<SessionSummary>, AppError> {
        Ok(self.find_info(name)?.as_ref().map(SessionSummary::of))
    }

    /// The newest conversation that something was said in since a time; its main session.
    pub fn newest(&self, since_ms: i64) -> Result<Option<SessionSummary>, AppError> {
        Ok(self.newest_since(since_ms)?.as_ref().map(SessionSummary::of))
    }

    /// Opens a session to add to it, by its whole name or id; one that is not there opens empty, and begins with its first
    /// round.
    pub fn open(&self, name: &str, settings: SessionSettings) -> Result<Session, AppError> {
        let own = self.owner.unwrap_or(Owner::LOCAL);
        if let Some(info) = self.find_info(name)? {
            if info.owner != own {
                return Err(AppError::ForeignOwner {
                    session: Box::new(SessionSummary::of(&info)),
                });
            }
            return self.opened(&info, settings);
        }
        check_new_name(name)?;
        let id = self.free_id(name)?;
        Ok(Session::open_id(Arc::clone(&self.archive), id, name, settings)?)
    }

    /// Opens a session that must be there, by its whole name or id, to make a window of it.
    pub fn open_existing(
        &self,
        name: &str,
        settings: SessionSettings,
    ) -> Result<Session, AppError> {
        let (info, _) = self.look_up(name, Access::Change)?;
        self.opened(&info, settings)
    }

    /// The id of a new session with a name that no session has.
    pub(super) fn free_id(&self, name: &str) -> Result<SessionId, AppError> {
        Ok(free_id(&*self.archive, self.owner.unwrap_or(Owner::LOCAL), name)?)
    }

    pub(super) fn opened(
        &self,
        info: &SessionInfo,
        settings: SessionSettings,
    ) -> Result<Session, AppError> {
        Ok(Session::open_id(Arc::clone(&self.archive), info.id, &info.name, settings)?)
    }

    /// The one place that decides which session a name means.
    pub(super) fn look_up(
        &self,
        name: &str,
        access: Access,
    ) -> Result<(SessionInfo, FoundBy), AppError> {
        if let Some(info) = self.find_info(name)? {
            return Ok((info, FoundBy::Whole));
        }
        let begin = || self.sessions_beginning(name);
        if access == Access::Change {
            return Err(self.unknown(name, &begin()?)?);
        }
        if name == LAST {
            let newest = self.newest_since(i64::MIN)?;
            let newest = newest.map(|info| (info, FoundBy::Newest));
            return newest.map_or_else(|| Err(self.unknown(name, &[])?), Ok);
        }
        match one_of(begin()?, name, FoundBy::Beginning)? {
            Some(info) => Ok((info, FoundBy::Beginning)),
            None => Err(self.unknown(name, &[])?),
        }
    }

    /// The session with exactly this name or id.
    pub(super) fn find_info(&self, name: &str) -> Result<Option<SessionInfo>, AppError> {
        // A whole id is never ambiguous, whatever sessions are called.
        if let Ok(id) = name.parse::<SessionId>()
            && let Some(info) = self.session_of(id)?
        {
            return Ok(Some(info));
        }
        one_of(self.sessions_called(name)?, name, FoundBy::Whole)
    }

    fn newest_since(&self, since_ms: i64) -> Result<Option<SessionInfo>, AppError> {
        let newest = self.conversations(Page::first(1))?.items.pop();
        let is_new =
            |found: &SessionChain| found.newest().is_some_and(|newest| newest.last_ms >= since_ms);
        Ok(newest.filter(is_new).map(|found| found.main().clone()))
    }

    fn unknown(&self, name: &str, near: &[SessionInfo]) -> Result<AppError, AppError> {
        Ok(AppError::UnknownSession {
            name: name.to_owned(),
            has_others: !near.is_empty() || self.has_sessions()?,
            near: near.iter().map(SessionSummary::of).collect(),
        })
    }
}

/// Whether a new session may have this name.
pub fn check_new_name(name: &str) -> Result<(), AppError> {
    if name.trim().is_empty() || name == LAST {
        return Err(AppError::BadName { name: name.to_owned() });
    }
    Ok(())
}

/// The only candidate; an error names them if there are more.
fn one_of(
    mut candidates: Vec<SessionInfo>,
    name: &str,
    by: FoundBy,
) -> Result<Option<SessionInfo>, AppError> {
    if candidates.len() > 1 {
        let candidates = candidates.iter().map(SessionSummary::of).collect();
        return Err(AppError::AmbiguousName { name: name.to_owned(), by, candidates });
    }
    Ok(candidates.pop())
}
