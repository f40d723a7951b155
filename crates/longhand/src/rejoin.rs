//! A conversation that an archive has already, found again.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use longhand_archive::{After, Archive, Entry, Owner, Page, SessionFilter, SessionInfo, wait};
use longhand_core::{Link, Meaning, Message, Role, Seq};
use longhand_dialect::{Conversation, Dialect, read};

use crate::SessionError;
use crate::driver::{Admitted, Chain};
use crate::entry::entry_of;

/// Shorter ids, and those with fewer digits, may be the same in all conversations of a program.
const ID_CHARS_MIN: usize = 16;
const ID_DIGITS_MIN: usize = 4;

/// The group of sessions that belong to one conversation, by the id that its program gave it; `None` if the id does
/// not look unique.
pub fn group_of(id: &str) -> Option<u64> {
    let digits = id.chars().filter(char::is_ascii_digit).count();
    let is_unique = id.len() >= ID_CHARS_MIN && digits >= ID_DIGITS_MIN;
    let hash = blake3::derive_key("longhand-server 2026-11 group of sessions", id.as_bytes());
    let first = hash.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    first.filter(|_| is_unique)
}

/// The session of a conversation in an archive, and the entries that were added to it.
#[derive(Clone, Debug)]
pub struct Rejoined {
    /// The session that has it.
    pub session: SessionInfo,
    /// How many messages were new.
    pub added: usize,
}

/// What became of a conversation that was looked for.
pub enum Rejoining {
    /// A session has it.
    Known(Box<Rejoined>),
    /// No session has it. It comes back, with what its messages mean, for whoever begins one.
    Unknown(Box<Conversation>, Vec<Meaning>),
}

/// Adds the new messages of a conversation to the session that has the others, if there is one.
///
/// Without an `owner`, the session may belong to any, since whoever can open an archive may read all of it. It is found by its
/// messages or by the program's name for it (`groups`), because programs do not store exactly what they send.
pub fn rejoin(
    archive: &Arc<dyn Archive>,
    owner: Option<Owner>,
    conversation: Conversation,
    groups: &[u64],
    now_ms: i64,
) -> Result<Rejoining, SessionError> {
    let path = conversation.path();
    let messages = &path.messages[path.lead..];
    let meanings: Vec<Meaning> = messages.iter().map(Meaning::of).collect();
    let beginning = with_messages(&**archive, owner, messages, &meanings)?;
    let mut same: Vec<SessionInfo> = Vec::new();
    for group in groups.iter().collect::<BTreeSet<_>>() {
        let found = wait(archive.list_sessions(SessionFilter::Group(*group), Page::ALL))?;
        let is_visible = |info: &SessionInfo| owner.is_none_or(|owner| owner == info.owner);
        same.extend(found.items.into_iter().filter(is_visible));
    }
    let longest = || same.iter().max_by_key(|info| info.entries).cloned();
    let Some(session) = beginning.clone().or_else(longest) else {
        return Ok(Rejoining::Unknown(Box::new(conversation), meanings));
    };
    let elsewhere = same.iter().filter(|info| info.id != session.id);
    let known = KnownMeanings::of(&**archive, &session, elsewhere)?;
    if let Some((after, new)) = known.rest(messages) {
        let entry = |message| entry_of(conversation.dialect, message, now_ms);
        let entries: Vec<_> = new.iter().map(entry).collect();
        if !entries.is_empty() {
            archive.append(session.id, After::Entry(after), &entries)?;
        }
        return Ok(Rejoining::Known(Box::new(Rejoined { session, added: entries.len() })));
    }
    if beginning.is_some() {
        let (count, owner, name) = (messages.len(), session.owner, session.name.clone());
        let admitted = Admitted::archived(Arc::clone(archive), owner, conversation, &name, now_ms)?;
        let known = admitted.session().map_or(0, |(_, known)| known);
        return Ok(Rejoining::Known(Box::new(Rejoined { session, added: count - known })));
    }
    let entries: Vec<_> =
        messages.iter().map(|message| entry_of(conversation.dialect, message, now_ms)).collect();
    archive.append(session.id, After::Entry(None), &entries)?;
    Ok(Rejoining::Known(Box::new(Rejoined { session, added: entries.len() })))
}

/// What the messages of a session mean, and which it has in other sessions of the same conversation.
struct KnownMeanings {
    here: Vec<(Seq, Meaning)>,
    elsewhere: HashSet<Meaning>,
}

impl KnownMeanings {
    fn of<'s>(
        archive: &dyn Archive,
        session: &SessionInfo,
        elsewhere: impl Iterator<Item = &'s SessionInfo>,
    ) -> Result<Self, SessionError> {
        let here = meanings(archive, session)?;
        let mut others = HashSet::new();
        for info in elsewhere {
            others.extend(meanings(archive, info)?.into_iter().map(|(_, meaning)| meaning));
        }
        Ok(Self { here, elsewhere: others })
    }

    /// The messages after the newest answer that the session has, without those that already follow it there, and the
    /// entry that they come after. `None` if the session has none of the answers, or lacks an earlier one.
    ///
    /// Only answers are compared up to there: clients write their questions and results in several ways.
    fn rest<'m>(&self, messages: &'m [Message]) -> Option<(Option<Seq>, &'m [Message])> {
        let seq_of = |message: &Message| {
            let meaning = Meaning::of(message);
            let mut found = self.here.iter().filter(|(_, known)| *known == meaning);
            found.next_back().map(|(seq, _)| *seq)
        };
        let is_newest = |message: &Message| is_answer(message) && seq_of(message).is_some();
        let newest = messages.iter().rposition(is_newest)?;
        let is_known = |message: &Message| {
            seq_of(message).is_some() || self.elsewhere.contains(&Meaning::of(message))
        };
        if messages[..newest].iter().any(|message| is_answer(message) && !is_known(message)) {
            return None;
        }
        let mut after = seq_of(&messages[newest])?;
        let mut rest = &messages[newest + 1..];
        while let [first, others @ ..] = rest {
            match seq_of(first) {
                Some(seq) if seq > after => (after, rest) = (seq, others),
                _ => break,
            }
        }
        Some((Some(after), rest))
    }
}

/// The session that begins as a conversation does, up to an answer at least: many begin with the same question.
fn with_messages(
    archive: &dyn Archive,
    owner: Option<Owner>,
    messages: &[Message],
    meanings: &[Meaning],
) -> Result<Option<SessionInfo>, SessionError> {
    let mut best = None;
    let owners = owner.map_or_else(|| wait(archive.owners()), |owner| Ok(vec![owner]))?;
    for owner in owners {
        let mut chain = Chain::new(owner.root());
        for meaning in meanings {
            chain.push(*meaning);
        }
        let links: Vec<Link> = chain.said().collect();
        let Some(found) = archive.find_path(owner, &links)? else { continue };
        let said = messages.iter().zip(chain.links()).filter(|(_, link)| !link.is_silent());
        let has_answer = said.take(found.known).any(|(message, _)| is_answer(message));
        if has_answer && best.is_none_or(|(known, _)| known < found.known) {
            best = Some((found.known, found.session));
        }
    }
    Ok(best.map(|(_, id)| archive.session(id)).transpose()?.flatten())
}

fn is_answer(message: &Message) -> bool {
    message.role == Role::Assistant
}

/// What the entries of a session mean.
fn meanings(
    archive: &dyn Archive,
    info: &SessionInfo,
) -> Result<Vec<(Seq, Meaning)>, SessionError> {
    let entries = archive.entries(info.id, 0..info.entries)?;
    let one = |entry: &Entry| {
        let dialect: Dialect = entry.form.parse().ok()?;
        let messages = read(format!("[{}]", entry.raw).into_bytes(), Some(dialect)).ok()?.messages;
        let seq = entry.seq;
        Some(messages.into_iter().map(move |message| (seq, Meaning::of(&message))))
    };
    Ok(entries.iter().filter_map(one).flatten().collect())
}
