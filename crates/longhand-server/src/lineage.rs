//! Which session a request belongs to, by the hash chain of its messages.

mod thread;

use std::sync::Arc;

use longhand::Note;
use longhand_core::Message;
use rustc_hash::FxHashMap;

pub(crate) use self::thread::{Root, Thread};
use crate::meaning::Link;
use crate::sticky::Sticky;

/// What is known of all chains.
///
/// All of it can be found again in an archive: a session is named after its first link.
#[derive(Debug, Default)]
pub(crate) struct Lineage {
    links: FxHashMap<Link, Spot>,
    sessions: Vec<Known>,
    ids: FxHashMap<String, u32>,
    /// The sessions of tool calls by their ids, to know a client's own compaction by.
    calls: FxHashMap<Link, u32>,
}

/// Where the message of a link is.
#[derive(Clone, Copy, Debug)]
struct Spot {
    session: u32,
    entry: u32,
}

impl Spot {
    /// Where a fork after so many links leaves from.
    fn parent(self, links: usize) -> Parent {
        Parent { session: self.session, links, entries: u64::from(self.entry) + 1 }
    }
}

#[derive(Debug)]
struct Known {
    id: String,
    owner: Link,
    tip: Link,
    /// How many entries it has or will have once the queue is empty.
    entries: u64,
    /// The system prompt that it began with, if it began in this run.
    system: Option<Link>,
    /// What its requests had besides messages when that was last noted.
    noted: Option<Link>,
    parent: Option<Parent>,
    windows: Vec<Arc<Sticky>>,
    /// Its newest answer, trimmed.
    said: String,
    /// Its own links, in order.
    links: Vec<Link>,
}

/// Where a fork leaves its parent.
#[derive(Clone, Copy, Debug)]
struct Parent {
    session: u32,
    /// How many links they share.
    links: usize,
    /// How many entries of the parent that is.
    entries: u64,
}

/// Where a chain was put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    /// The session that its end belongs to.
    pub(crate) session: String,
    /// How many of its links were known.
    pub(crate) known: usize,
    /// The entry that what is new begins with.
    pub(crate) first: u64,
    /// What a session that begins goes on from.
    pub(crate) origin: Option<Note>,
    /// Whether system prompt and tools are new to the session.
    pub(crate) notes_request: bool,
    /// The session as it was known then, and its parent.
    known_as: (u32, Option<u32>),
}

/// A session as an archive has it.
pub(crate) struct Stored<'s> {
    pub(crate) id: &'s str,
    /// How many entries it has.
    pub(crate) entries: u64,
    /// Its messages, each with its entry.
    pub(crate) messages: &'s [(u64, Message)],
    pub(crate) windows: Vec<Sticky>,
    /// What its requests have besides messages.
    pub(crate) noted: Option<Link>,
}

/// A full lineage is emptied rather than aged: what is needed is read from the archive again.
const LINKS_MAX: usize = 4_000_000;

/// How many of the newest sessions may be what a client has summarised.
const RECENT_MAX: usize = 64;

/// The shortest answer that is known again in a summary, and the most of one that is remembered.
const SAID_BYTES: std::ops::RangeInclusive<usize> = 80..=64 << 10;

impl Lineage {
    /// How many links of a chain are known.
    pub(crate) fn known(&self, links: &[Link]) -> usize {
        links.iter().rposition(|link| self.links.contains_key(link)).map_or(0, |at| at + 1)
    }

    /// The session in which an archive may have more of a chain than we know.
    ///
    /// What goes on from a session that began in this run is not in it, unless another process writes
    /// there, too; that is found when it is to be archived.
    pub(crate) fn candidate(&self, root: &Root, links: &[Link]) -> Option<String> {
        let known = self.known(links);
        let first = links.get(known)?;
        let last = known.checked_sub(1).and_then(|last| self.links.get(&links[last]));
        if last.is_some_and(|spot| self.sessions[spot.session as usize].system.is_some()) {
            return None;
        }
        let own = root.session(*first, known == 0);
        let other = root.session(*first, false);
        [own, other].into_iter().find(|id| !self.ids.contains_key(id))
    }

    /// Takes in a session as an archive has it; `past` is the chain that it goes on from.
    pub(crate) fn restore(&mut self, root: &Root, past: &[Link], stored: Stored) {
        // Two requests may have read it at the same time.
        if self.ids.contains_key(stored.id) {
            return;
        }
        let before = past.last().copied().unwrap_or(root.start);
        let parent = past.last().and_then(|last| self.links.get(last));
        let parent = parent.map(|spot| spot.parent(past.len()));
        let session = self.sessions.len() as u32;
        let mut tip = before;
        let mut links = Vec::with_capacity(stored.messages.len());
        for (entry, message) in stored.messages {
            if let Some(link) = tip.next(message) {
                let spot = Spot { session, entry: *entry as u32 };
                self.links.entry(link).or_insert(spot);
                links.push(link);
                tip = link;
            }
        }
        self.ids.insert(stored.id.to_owned(), session);
        self.sessions.push(Known {
            id: stored.id.to_owned(),
            owner: root.owner,
            tip,
            entries: stored.entries,
            system: None,
            noted: stored.noted,
            parent,
            windows: stored.windows.into_iter().map(Arc::new).collect(),
            said: String::new(),
            links,
        });
    }

    /// Puts a chain where it belongs: what is new goes on in the session of what is known if that ends
    /// there, and begins a session otherwise.
    ///
    /// What is `aside` never goes on: the answer to a side call. `with` is what else the request has, and
    /// `after` how many entries are to follow the messages.
    pub(crate) fn place(
        &mut self,
        root: &Root,
        thread: &Thread,
        messages: &[Message],
        with: Link,
        aside: bool,
        after: u64,
    ) -> Option<Placed> {
        if self.links.len() + thread.links.len() > LINKS_MAX {
            *self = Self::default();
        }
        let known = self.known(&thread.links);
        let last = *thread.links.last()?;
        let before = known.checked_sub(1).map(|at| thread.links[at]);
        let spot = before.and_then(|link| self.links.get(&link).copied());
        if known == thread.links.len() {
            let at = spot?.session;
            let own = &self.sessions[at as usize];
            let (session, first) = (own.id.clone(), own.entries);
            return Some(Placed {
                session,
                known,
                first,
                origin: None,
                notes_request: false,
                known_as: (at, None),
            });
        }
        let tip = |spot: &Spot| self.sessions[spot.session as usize].tip;
        let goes_on = spot.filter(|spot| Some(tip(spot)) == before && !aside);
        let (session, origin) = match goes_on {
            Some(spot) => (spot.session, None),
            None => self.begin(root, thread, messages, known, spot),
        };
        let own = &mut self.sessions[session as usize];
        let notes_request = own.noted != Some(with);
        own.noted = Some(with);
        own.tip = last;
        let parent = origin.as_ref().and(own.parent).map(|parent| parent.session);
        let placed = Placed {
            session: own.id.clone(),
            known,
            first: own.entries,
            origin,
            notes_request,
            known_as: (session, parent),
        };
        let new = thread.after(known);
        let first = placed.first + placed.notes();
        own.entries = first + (thread.end - new) as u64 + after;
        own.links.extend_from_slice(&thread.links[known..]);
        for (link, at) in thread.links[known..].iter().zip(&thread.at[known..]) {
            let entry = (first + (at - new) as u64) as u32;
            self.links.insert(*link, Spot { session, entry });
        }
        Some(placed)
    }

    /// Begins a session with what is new of a chain; says what it goes on from.
    fn begin(
        &mut self,
        root: &Root,
        thread: &Thread,
        messages: &[Message],
        known: usize,
        last: Option<Spot>,
    ) -> (u32, Option<Note>) {
        let parent = last.map(|spot| spot.parent(known));
        let origin = if let Some(own) = parent {
            let of = self.sessions[own.session as usize].id.clone();
            Some(Note::Fork { of, entries: own.entries })
        } else {
            let of = self.continued(root, messages);
            of.map(|of| Note::Continues { of: of.to_owned() })
        };
        let first = thread.links[known];
        let mut id = root.session(first, known == 0);
        if self.ids.contains_key(&id) {
            id = root.session(first, false);
        }
        let session = self.sessions.len() as u32;
        if let Some(old) = self.sessions.len().checked_sub(RECENT_MAX) {
            self.sessions[old].said = String::new();
        }
        self.ids.insert(id.clone(), session);
        self.sessions.push(Known {
            id,
            owner: root.owner,
            tip: first,
            entries: 0,
            system: Some(thread.system),
            noted: None,
            parent,
            windows: Vec::new(),
            said: String::new(),
            links: Vec::new(),
        });
        (session, origin)
    }

    /// Whether a session and its parent are known as they were when something was put there.
    ///
    /// If not, another writer came first: that the numbers fit would be chance.
    pub(crate) fn is_current(&self, placed: &Placed) -> bool {
        let (own, parent) = placed.known_as;
        let is_known = |id: &str, at: u32| self.ids.get(id) == Some(&at);
        let parent_is_known = match (&placed.origin, parent) {
            (Some(Note::Fork { of, .. }), Some(parent)) => is_known(of, parent),
            _ => true,
        };
        is_known(&placed.session, own) && parent_is_known
    }

    /// Counts entries that are no messages.
    pub(crate) fn note(&mut self, session: &str, entries: u64) -> Option<u64> {
        let own = &mut self.sessions[*self.ids.get(session)? as usize];
        let first = own.entries;
        own.entries += entries;
        Some(first)
    }

    /// Whether a request says nothing new, under another system prompt than its session began with.
    pub(crate) fn is_aside(&self, thread: &Thread) -> bool {
        let spot = thread.links.last().and_then(|last| self.links.get(last));
        let system = spot.and_then(|spot| self.sessions[spot.session as usize].system);
        system.is_some_and(|system| system != thread.system)
    }

    /// The newest edits that were made to a chain, or to the part of it that a fork shares.
    pub(crate) fn window(&self, links: &[Link]) -> Option<Arc<Sticky>> {
        let mut shared = self.known(links);
        let mut session = self.links.get(links.get(shared.checked_sub(1)?)?)?.session;
        loop {
            let own = &self.sessions[session as usize];
            let within = own.windows.iter().filter(|window| window.made() <= shared);
            if let Some(newest) = within.max_by_key(|window| window.made()) {
                return Some(Arc::clone(newest));
            }
            let parent = own.parent?;
            shared = shared.min(parent.links);
            session = parent.session;
        }
    }

    /// Keeps the edits that a session has from now on.
    pub(crate) fn keep(&mut self, session: &str, window: Arc<Sticky>) {
        if let Some(session) = self.ids.get(session) {
            self.sessions[*session as usize].windows.push(window);
        }
    }

    /// Keeps only these edits of a session.
    pub(crate) fn keep_only(&mut self, session: &str, windows: Vec<Sticky>) {
        if let Some(session) = self.ids.get(session) {
            self.sessions[*session as usize].windows = windows.into_iter().map(Arc::new).collect();
        }
    }

    /// The entry of a link, if it is in that session.
    pub(crate) fn entry(&self, session: &str, link: Link) -> Option<u64> {
        let spot = self.links.get(&link)?;
        (self.ids.get(session) == Some(&spot.session)).then(|| u64::from(spot.entry))
    }

    /// Forgets a session in which something was put, unless it is known anew since.
    pub(crate) fn forget_placed(&mut self, placed: &Placed) {
        if self.ids.get(&placed.session) == Some(&placed.known_as.0) {
            self.forget(&placed.session);
        }
    }

    /// Forgets a session, so that what an archive has of it counts.
    pub(crate) fn forget(&mut self, session: &str) {
        let Some(at) = self.ids.remove(session) else { return };
        for link in std::mem::take(&mut self.sessions[at as usize].links) {
            if self.links.get(&link).is_some_and(|spot| spot.session == at) {
                self.links.remove(&link);
            }
        }
    }

    /// Whether a session is still known as it was.
    fn is_known(&self, at: u32) -> bool {
        self.ids.get(&self.sessions[at as usize].id) == Some(&at)
    }

    /// Remembers what a client's own summary of a session can be known by.
    pub(crate) fn hear(&mut self, root: &Root, session: &str, said: &str, messages: &[Message]) {
        let Some(at) = self.ids.get(session).copied() else { return };
        let said = said.trim();
        if SAID_BYTES.contains(&said.len()) {
            said.clone_into(&mut self.sessions[at as usize].said);
        }
        for call in messages.iter().flat_map(Message::calls) {
            if let Some(id) = call_id(root, &call.id.decode()) {
                self.calls.insert(id, at);
            }
        }
    }

    /// The session of the same owner that a new chain goes on from in a client's own words: it has calls
    /// of it, or quotes its newest answer.
    fn continued(&self, root: &Root, messages: &[Message]) -> Option<&str> {
        let calls = messages.iter().flat_map(Message::calls);
        let mut calls = calls.filter_map(|call| call_id(root, &call.id.decode()));
        let of = |id: Link| self.calls.get(&id).filter(|at| self.is_known(**at));
        if let Some(session) = calls.find_map(of) {
            return Some(&self.sessions[*session as usize].id);
        }
        let opening: Vec<String> = messages.iter().take(6).map(thread::words_of).collect();
        let recent = self.sessions.iter().rev().take(RECENT_MAX);
        let quoted = |known: &&Known| {
            !known.said.is_empty()
                && known.owner == root.owner
                && self.ids.contains_key(&known.id)
                && opening.iter().any(|words| words.contains(&known.said))
        };
        recent.into_iter().find(quoted).map(|known| known.id.as_str())
    }
}

/// A call's id among those of an owner; short ids are not unique enough.
fn call_id(root: &Root, id: &str) -> Option<Link> {
    (id.trim().len() >= 12).then(|| root.owner.named(id.trim()))
}

impl Placed {
    /// How many entries come before the messages.
    pub(crate) fn notes(&self) -> u64 {
        u64::from(self.origin.is_some()) + u64::from(self.notes_request)
    }
}

#[cfg(test)]
mod tests;
