//! A conversation that an archive has already, found again.

use std::collections::HashSet;
use std::sync::Arc;

use longhand_archive::{After, Archive, Owner, Page, SessionInfo};
use longhand_core::{Link, Meaning, Message, Role};
use longhand_dialect::{Conversation, Dialect, read};

use crate::entry::entry_of;
use crate::{Admitted, Chain, SessionError};

/// What an archive had of a conversation, and what was added to it.
#[derive(Clone, Debug)]
pub struct Rejoined {
    /// The session that has it.
    pub session: SessionInfo,
    /// How many messages were new.
    pub added: usize,
}

/// Adds what is new of a conversation to the session that has the rest; `None` if none has.
///
/// The session may be anybody's: whoever can open an archive may read all of it. It is known by its messages,
/// or by what the program calls it (`groups`), since what programs send and what they keep differ in places.
pub fn rejoin(
    archive: &Arc<dyn Archive>,
    conversation: Conversation,
    groups: &[u64],
    now_ms: i64,
) -> Result<Option<Rejoined>, SessionError> {
    let sessions = archive.sessions(None, Page::ALL)?.items;
    let path = conversation.path();
    let (lead, count) = (path.lead, path.messages.len() - path.lead);
    if let Some(session) = with_messages(&**archive, &sessions, &path.messages[lead..])? {
        let (owner, name) = (session.owner, session.name.clone());
        let admitted = Admitted::archived(Arc::clone(archive), owner, conversation, &name, now_ms)?;
        let known = admitted.session().map_or(0, |(_, known)| known);
        return Ok(Some(Rejoined { session, added: count - known }));
    }
    let messages = &path.messages[lead..];
    let is_same = |info: &&SessionInfo| info.group.is_some_and(|group| groups.contains(&group));
    let same: Vec<&SessionInfo> = sessions.iter().filter(is_same).collect();
    let Some(session) = same.iter().max_by_key(|info| info.entries).copied().cloned() else {
        return Ok(None);
    };
    let mut known = HashSet::new();
    for info in same {
        known.extend(answers(&**archive, info)?);
    }
    let is_new = |message: &Message| is_answer(message) && !known.contains(&Meaning::of(message));
    if !messages.iter().any(is_new) {
        return Ok(Some(Rejoined { session, added: 0 }));
    }
    let entries: Vec<_> =
        messages.iter().map(|message| entry_of(conversation.dialect, message, now_ms)).collect();
    archive.append(session.id, After::Entry(None), &entries)?;
    Ok(Some(Rejoined { session, added: entries.len() }))
}

/// The session that begins as a conversation does, up to an answer at least: many begin with the same question.
fn with_messages(
    archive: &dyn Archive,
    sessions: &[SessionInfo],
    messages: &[Message],
) -> Result<Option<SessionInfo>, SessionError> {
    let mut owners: Vec<Owner> = sessions.iter().map(|info| info.owner).collect();
    owners.sort_unstable();
    owners.dedup();
    let mut best = None;
    for owner in owners {
        let mut chain = Chain::new(owner.root());
        chain.extend(messages);
        let links: Vec<Link> = chain.said().collect();
        let Some(found) = archive.find_path(owner, &links)? else { continue };
        let said = messages.iter().zip(chain.links()).filter(|(_, link)| !link.is_silent());
        let has_answer = said.take(found.known).any(|(message, _)| is_answer(message));
        if has_answer && best.is_none_or(|(known, _)| known < found.known) {
            best = Some((found.known, found.session));
        }
    }
    Ok(best.and_then(|(_, id)| sessions.iter().find(|info| info.id == id).cloned()))
}

fn is_answer(message: &Message) -> bool {
    message.role == Role::Assistant
}

/// What the answers of a session mean.
fn answers(archive: &dyn Archive, info: &SessionInfo) -> Result<Vec<Meaning>, SessionError> {
    let entries = archive.entries(info.id, 0..info.entries)?;
    let messages = entries.iter().filter_map(|entry| {
        let dialect: Dialect = entry.form.parse().ok()?;
        Some(read(format!("[{}]", entry.raw).into_bytes(), Some(dialect)).ok()?.messages)
    });
    Ok(messages.flatten().filter(is_answer).map(|message| Meaning::of(&message)).collect())
}
