//! Conversations as people see them: a session with the sessions that it continues, and its side calls.

use std::collections::HashMap;

use longhand_archive::{SessionId, SessionInfo};

use super::{App, AppError};

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

    pub(super) fn last_ms(&self) -> i64 {
        self.sessions.iter().chain(&self.aside).map(|info| info.last_ms).max().unwrap_or(0)
    }

    /// Its place in the list of conversations, which is sorted by it.
    pub(super) fn place(&self) -> (i64, SessionId) {
        (self.last_ms(), self.main().id)
    }
}

impl App {
    /// All conversations, newest first. A session without entries is none.
    pub(super) fn conversations(&self) -> Result<Vec<SessionChain>, AppError> {
        let mut sessions = self.all_sessions()?;
        sessions.retain(|info| info.entries > 0 || info.is_damaged);
        Ok(gathered(sessions))
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
        let has = |found: &SessionChain| found.sessions.iter().any(|other| other.id == info.id);
        match self.conversations()?.into_iter().find(has) {
            Some(found) => Ok(found.sessions),
            None => self.chain_up_to(info),
        }
    }
}

/// Groups sessions: those that continue one another, and those to which one client gave the same name.
fn gathered(sessions: Vec<SessionInfo>) -> Vec<SessionChain> {
    let mut roots: Vec<usize> = (0..sessions.len()).collect();
    let by_id: HashMap<SessionId, usize> =
        sessions.iter().enumerate().map(|(at, info)| (info.id, at)).collect();
    let mut by_group: HashMap<u64, usize> = HashMap::new();
    for (at, info) in sessions.iter().enumerate() {
        let before = info.continues.and_then(|id| by_id.get(&id).copied());
        let same = info.group.map(|group| *by_group.entry(group).or_insert(at));
        for other in before.into_iter().chain(same) {
            let (one, other) = (root(&roots, at), root(&roots, other));
            roots[one.max(other)] = one.min(other);
        }
    }
    let mut kin: HashMap<usize, Vec<SessionInfo>> = HashMap::new();
    for (at, info) in sessions.into_iter().enumerate() {
        kin.entry(root(&roots, at)).or_default().push(info);
    }
    let mut conversations: Vec<SessionChain> = kin.into_values().map(conversation).collect();
    conversations.sort_by_key(|found| std::cmp::Reverse(found.place()));
    conversations
}

fn root(roots: &[usize], mut at: usize) -> usize {
    while roots[at] != at {
        at = roots[at];
    }
    at
}

/// Finds the main session of related ones, with the sessions before and after it.
fn conversation(mut kin: Vec<SessionInfo>) -> SessionChain {
    let longest = kin.iter().enumerate().max_by_key(|(_, info)| (info.entries, info.last_ms));
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
    use longhand_archive::Owner;

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
        let other = info("other", 4, 45);
        let found = gathered(vec![other, third, agent, second, first, quote, title]);
        assert_eq!(found.len(), 2);
        assert_eq!(names(&found[0].sessions), ["first", "second", "third"]);
        assert_eq!(names(&found[0].aside), ["sub-agent", "quote", "title"]);
        assert_eq!(names(&found[1].sessions), ["other"]);
    }

    #[test]
    fn a_session_that_goes_on_from_itself_is_no_trap() {
        let mut one = info("one", 3, 1);
        one.continues = Some(one.id);
        assert_eq!(names(&gathered(vec![one])[0].sessions), ["one"]);
    }
}
