//! Conversations as `ls` lists them: a session with the sessions that it continues, and its side calls.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use anyhow::Result;
use longhand::{Archive, SessionId};
use longhand_archive::{Page, SessionInfo};

use crate::output;

/// How many of the first entries are looked through for the user's words.
pub(crate) const OPENING_ENTRIES: u64 = 12;

/// A conversation.
#[derive(Clone, Debug)]
pub(crate) struct SessionChain {
    /// Its sessions; each continues the one before it.
    pub(crate) sessions: Vec<SessionInfo>,
    /// Its side calls and sub-agents, newest first.
    pub(crate) aside: Vec<SessionInfo>,
}

impl SessionChain {
    /// Its newest session.
    pub(crate) fn main(&self) -> &SessionInfo {
        &self.sessions[self.sessions.len() - 1]
    }

    fn last_ms(&self) -> i64 {
        self.sessions.iter().chain(&self.aside).map(|info| info.last_ms).max().unwrap_or(0)
    }
}

/// All conversations, newest first. A session without entries is none.
pub(crate) fn all(archive: &Arc<dyn Archive>) -> Result<Vec<SessionChain>> {
    let sessions = archive.sessions(None, Page::ALL)?.items;
    Ok(gathered(sessions.into_iter().filter(|info| info.entries > 0 || info.is_damaged).collect()))
}

/// The newest conversation that something was said in since a time; its main session.
pub(crate) fn newest_since(
    archive: &Arc<dyn Archive>,
    since_ms: i64,
) -> Result<Option<SessionInfo>> {
    let newest = all(archive)?.into_iter().next();
    Ok(newest.filter(|found| found.last_ms() >= since_ms).map(|found| found.main().clone()))
}

/// The sessions of a conversation up to one of them, oldest first.
pub(crate) fn up_to(archive: &Arc<dyn Archive>, info: &SessionInfo) -> Result<Vec<SessionInfo>> {
    let mut sessions = vec![info.clone()];
    let mut next = info.continues;
    while let Some(id) = next.filter(|id| sessions.iter().all(|info| info.id != *id)) {
        let Some(before) = archive.session(id)? else { break };
        next = before.continues;
        sessions.push(before);
    }
    sessions.reverse();
    Ok(sessions)
}

/// The sessions of the conversation that a session belongs to. For a side call: that session and those it continues.
pub(crate) fn of(archive: &Arc<dyn Archive>, info: &SessionInfo) -> Result<Vec<SessionInfo>> {
    let found = all(archive)?
        .into_iter()
        .find(|found| found.sessions.iter().any(|session| session.id == info.id));
    match found {
        Some(found) => Ok(found.sessions),
        None => up_to(archive, info),
    }
}

/// The most characters of a name that is shown; of a longer one, the id is.
const NAME_CHARS_MAX: usize = 64;

/// What a session is called wherever it is shown, as it can be given on the command line: its name, quoted for a shell
/// if need be, or its id if the name cannot be typed.
pub(crate) fn short_id(info: &SessionInfo) -> String {
    let name = &info.name;
    let is_typed = !name.trim().is_empty()
        && name.chars().count() <= NAME_CHARS_MAX
        && output::harmless_line(name) == *name;
    if is_typed { quoted(name) } else { digits(info) }
}

/// The id of a session, as short as it is shown and accepted.
pub(crate) fn digits(info: &SessionInfo) -> String {
    info.id.to_string().chars().take(16).collect()
}

/// What sessions are called in a list: those that share a name are told apart by their ids.
pub(crate) struct Labels {
    shared: HashSet<String>,
}

impl Labels {
    pub(crate) fn of(conversations: &[SessionChain]) -> Self {
        let (mut seen, mut shared) = (HashSet::new(), HashSet::new());
        for info in conversations.iter().flat_map(|found| found.sessions.iter().chain(&found.aside))
        {
            if !seen.insert(info.name.as_str()) {
                shared.insert(info.name.clone());
            }
        }
        Self { shared }
    }

    pub(crate) fn label(&self, info: &SessionInfo) -> String {
        let label = short_id(info);
        let id = digits(info);
        if self.shared.contains(&info.name) && label != id {
            format!("{id} {label}")
        } else {
            label
        }
    }
}

/// A word of a command line.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_.@+:/".contains(c);
    if !word.is_empty() && !word.starts_with('-') && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Whether a session was given no name: then its name is a hash.
pub(crate) fn has_no_name(info: &SessionInfo) -> bool {
    info.name.len() == 16 && info.name.chars().all(|c| c.is_ascii_hexdigit())
}

/// The first words of the task.
pub(crate) fn task(archive: &Arc<dyn Archive>, info: &SessionInfo) -> String {
    let entries = archive.entries(info.id, 0..OPENING_ENTRIES.min(info.entries));
    // A damaged entry has no words; `verify` reports it.
    let entries = entries.unwrap_or_default();
    let words = entries.iter().find_map(|entry| longhand::user_words(&entry.form, &entry.raw));
    words.unwrap_or_default()
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
    conversations.sort_by_key(|found| std::cmp::Reverse((found.last_ms(), found.main().id)));
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
    use longhand::Owner;

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
