//! Conversations as people see them: a session with the sessions that it continues, and its side calls.

use std::collections::HashSet;
use std::path::Path;

use longhand_archive::{Cursor, Page, SessionFilter, SessionInfo};

use super::{App, AppError};
use crate::agent_files::{Agent, AgentFile};

/// How many sessions are read at a time where only some are wanted.
const FILTERED_AT_A_TIME: usize = 500;

/// How many sessions are looked through where only some are wanted.
const FILTERED_MAX: usize = 10_000;

/// A conversation.
#[derive(Clone, Debug)]
pub(super) struct SessionChain {
    /// Its sessions; each continues the one before it.
    pub(super) sessions: Vec<SessionInfo>,
    /// Its side calls and sub-agents, newest first.
    pub(super) aside: Vec<SessionInfo>,
}

impl SessionChain {
    /// Its newest session.
    pub(super) fn main(&self) -> &SessionInfo {
        &self.sessions[self.sessions.len() - 1]
    }

    /// All sessions but the newest one, oldest first.
    pub(super) fn earlier(&self) -> &[SessionInfo] {
        &self.sessions[..self.sessions.len() - 1]
    }

    /// The session that was spoken in last, whose place in the list of sessions is that of the conversation.
    pub(super) fn newest(&self) -> Option<&SessionInfo> {
        self.newest_of(&|_| true)
    }

    /// The same of those that are wanted.
    fn newest_of(&self, wanted: &dyn Fn(&SessionInfo) -> bool) -> Option<&SessionInfo> {
        let all = self.sessions.iter().chain(&self.aside).filter(|info| wanted(info));
        all.max_by_key(|info| (info.activity, info.id))
    }
}

/// A part of a list of conversations.
#[derive(Debug, Default)]
pub(super) struct ChainPage {
    pub(super) items: Vec<SessionChain>,
    /// Where the next one begins; `None` if there is nothing after it.
    pub(super) next: Option<Cursor>,
}

impl App {
    /// Conversations, those spoken in last first. A session without entries is none.
    ///
    /// No more sessions are read than those that are related to the conversations of the page.
    pub(super) fn conversations(&self, page: Page) -> Result<ChainPage, AppError> {
        self.conversations_with(page, None)
    }

    /// Those of which a session is wanted. Some thousands of sessions are looked through at once; where to go on is told,
    /// also if nothing was found.
    pub(super) fn conversations_with(
        &self,
        page: Page,
        wanted: Option<&dyn Fn(&SessionInfo) -> bool>,
    ) -> Result<ChainPage, AppError> {
        let is_wanted = |info: &SessionInfo| wanted.is_none_or(|wanted| wanted(info));
        let mut looked_through = 0;
        let mut found = ChainPage { next: page.after, ..ChainPage::default() };
        let mut seen = HashSet::new();
        while found.items.len() < page.limit {
            let missing = page.limit - found.items.len();
            let limit = if wanted.is_some() { missing.max(FILTERED_AT_A_TIME) } else { missing };
            let sessions = self.archive.sessions(self.owner, Page { after: found.next, limit })?;
            let sight = self.sight()?;
            looked_through += sessions.items.len();
            let mut next = sessions.next;
            for info in sessions.items.into_iter().filter(is_listed) {
                if !sight.includes(&info) || seen.contains(&info.id) || !is_wanted(&info) {
                    continue;
                }
                let kin = self.kin(&info)?;
                seen.extend(kin.iter().map(|info| info.id));
                let chain = conversation(kin);
                // One that was spoken in after this session is on an earlier page.
                if chain.newest_of(&is_wanted).is_some_and(|newest| newest.id == info.id) {
                    found.items.push(chain);
                    if found.items.len() == page.limit && wanted.is_some() {
                        next = Some(Cursor::after_activity(info.activity));
                        break;
                    }
                }
            }
            found.next = next;
            if found.next.is_none() || (wanted.is_some() && looked_through >= FILTERED_MAX) {
                break;
            }
        }
        Ok(found)
    }

    /// The conversation that a session belongs to; `None` if it has no entries.
    pub(super) fn conversation_of(
        &self,
        info: &SessionInfo,
    ) -> Result<Option<SessionChain>, AppError> {
        let kin = self.kin(info)?;
        Ok(kin.iter().any(is_listed).then(|| conversation(kin)))
    }

    /// The conversation that a session belongs to, with all that is related to it.
    pub(super) fn chain_with_kin(&self, info: &SessionInfo) -> Result<SessionChain, AppError> {
        Ok(conversation(self.kin(info)?))
    }

    /// The sessions of a conversation up to one of them, oldest first.
    pub(super) fn chain_up_to(&self, info: &SessionInfo) -> Result<Vec<SessionInfo>, AppError> {
        let mut sessions = vec![info.clone()];
        let mut next = info.continues;
        while let Some(id) = next.filter(|id| sessions.iter().all(|info| info.id != *id)) {
            let Some(before) = self.session_of(id)? else { break };
            next = before.continues;
            sessions.push(before);
        }
        sessions.reverse();
        Ok(sessions)
    }

    /// The sessions of the conversation that a session belongs to, oldest first. For a side call: that session and those
    /// it continues.
    pub(super) fn chain_of(&self, info: &SessionInfo) -> Result<Vec<SessionInfo>, AppError> {
        let found = conversation(self.kin(info)?);
        if found.sessions.iter().any(|other| other.id == info.id) {
            return Ok(found.sessions);
        }
        self.chain_up_to(info)
    }

    /// A session with all that are related to it, in any number of steps: those that one continues or that continue it,
    /// and those to which one client gave the same name.
    fn kin(&self, info: &SessionInfo) -> Result<Vec<SessionInfo>, AppError> {
        let mut kin = vec![info.clone()];
        let mut known = HashSet::from([info.id]);
        let mut groups = HashSet::new();
        let mut at = 0;
        while let Some(one) = kin.get(at) {
            let mut others = self.listed_by(SessionFilter::Continuing(one.id))?;
            if let Some(before) = one.continues {
                others.extend(self.session_of(before)?);
            }
            if let Some(group) = one.group.filter(|group| groups.insert(*group)) {
                others.extend(self.listed_by(SessionFilter::Group(group))?);
            }
            kin.extend(others.into_iter().filter(|other| known.insert(other.id)));
            at += 1;
        }
        kin.retain(|other| is_listed(other) || other.id == info.id);
        Ok(kin)
    }
}

/// Whether a session is shown in lists.
pub(super) fn is_listed(info: &SessionInfo) -> bool {
    info.entries > 0 || info.is_damaged
}

/// Whether a session was imported from a file of a sub-agent.
fn is_of_sub_agent(info: &SessionInfo) -> bool {
    let file = Path::new(&info.origin.file);
    !info.origin.file.is_empty() && AgentFile::of(Agent::Claude, file).is_of_sub_agent
}

/// Finds the main session of related ones, with the sessions before and after it.
fn conversation(mut kin: Vec<SessionInfo>) -> SessionChain {
    // A sub-agent may have more to say than the session that it works for.
    let is_main = |info: &SessionInfo| !is_of_sub_agent(info);
    let longest =
        kin.iter().enumerate().max_by_key(|(_, info)| (is_main(info), info.entries, info.last_ms));
    let at = longest.map_or(0, |(at, _)| at);
    let mut sessions = vec![kin.swap_remove(at)];
    while let Some(before) = sessions[0].continues
        && let Some(at) = kin.iter().position(|info| info.id == before)
    {
        sessions.insert(0, kin.swap_remove(at));
    }
    loop {
        let newest = &sessions[sessions.len() - 1];
        // A side call may quote the conversation, too, but the conversation goes on after it.
        let follows =
            |info: &SessionInfo| info.continues == Some(newest.id) && info.last_ms > newest.last_ms;
        let after = kin.iter().enumerate().filter(|(_, info)| follows(info));
        let Some((at, _)) = after.max_by_key(|(_, info)| info.last_ms) else { break };
        sessions.push(kin.swap_remove(at));
    }
    kin.sort_by_key(|info| std::cmp::Reverse((info.last_ms, info.id)));
    SessionChain { sessions, aside: kin }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhand_archive::{Owner, SessionId};

    fn info(name: &str, entries: u64, last_ms: i64) -> SessionInfo {
        let id = SessionId::named(Owner::LOCAL, name);
        SessionInfo { id, name: name.to_owned(), entries, last_ms, ..SessionInfo::default() }
    }

    fn names(sessions: &[SessionInfo]) -> Vec<&str> {
        sessions.iter().map(|info| info.name.as_str()).collect()
    }

    #[test]
    fn a_conversation_has_its_sessions_in_order_and_its_side_calls_below() {
        let group = Some(7);
        let first = SessionInfo { group, ..info("first", 90, 10) };
        let title = SessionInfo { group, ..info("title", 2, 3) };
        let agent = SessionInfo { group, ..info("sub-agent", 20, 40) };
        let second = SessionInfo { continues: Some(first.id), ..info("second", 40, 30) };
        let third = SessionInfo { continues: Some(second.id), ..info("third", 5, 50) };
        let quote = SessionInfo { continues: Some(first.id), ..info("quote", 2, 9) };
        let found = conversation(vec![third, agent, second, first, quote, title]);
        assert_eq!(names(&found.sessions), ["first", "second", "third"]);
        assert_eq!(names(&found.aside), ["sub-agent", "quote", "title"]);
    }

    #[test]
    fn a_session_that_goes_on_from_itself_is_no_trap() {
        let mut one = info("one", 3, 1);
        one.continues = Some(one.id);
        assert_eq!(names(&conversation(vec![one]).sessions), ["one"]);
    }
}
