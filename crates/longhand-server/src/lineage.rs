//! Which session a request belongs to, by the hash chain of its messages.

use std::sync::Arc;

use longhand_core::{Message, Role};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::meaning::Link;
use crate::sticky::Sticky;

/// Where the chains of an owner begin.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    pub(crate) start: Link,
    /// The session that the client names, if it does.
    pub(crate) name: Option<String>,
}

impl Root {
    /// The chains of an owner, which may be a key; `held` is history that the provider keeps.
    pub(crate) fn new(owner: &str, name: Option<&str>, held: Option<&str>) -> Self {
        let start = Link::root(&[owner, name.unwrap_or_default(), held.unwrap_or_default()]);
        Self { start, name: name.map(str::to_owned) }
    }

    /// The id of a session that begins with a link.
    fn session(&self, first: Link, is_first: bool) -> String {
        match &self.name {
            Some(name) if is_first => name.clone(),
            Some(name) => format!("{name}~{}", first.short()),
            None => first.short(),
        }
    }
}

/// The messages of a request as a chain.
///
/// The leading system prompt is no link, since it changes between requests of one conversation; nor is
/// a message that only thinks.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    pub(crate) links: Vec<Link>,
    /// The message of each link.
    pub(crate) at: Vec<usize>,
    /// How many system prompts lead.
    pub(crate) lead: usize,
    /// What they say, so that side calls can be told.
    pub(crate) system: Link,
}

impl Thread {
    /// Chains the messages of a request.
    pub(crate) fn of(start: Link, messages: &[Message]) -> Self {
        let lead = messages.iter().take_while(|message| message.role == Role::System).count();
        let system = messages[..lead]
            .iter()
            .fold(Link::root(&[]), |link, message| link.next(message).unwrap_or(link));
        let mut thread = Self { links: Vec::new(), at: Vec::new(), lead, system };
        thread.append(start, &messages[lead..], lead);
        thread
    }

    /// Adds messages, the first of which has that index.
    pub(crate) fn append(&mut self, start: Link, messages: &[Message], first: usize) {
        let mut last = self.links.last().copied().unwrap_or(start);
        for (at, message) in messages.iter().enumerate() {
            if let Some(link) = last.next(message) {
                self.links.push(link);
                self.at.push(first + at);
                last = link;
            }
        }
    }

    /// The first message that a chain of so many links has not.
    pub(crate) fn after(&self, links: usize) -> usize {
        links.checked_sub(1).map_or(self.lead, |last| self.at[last] + 1)
    }
}

/// What is known of all chains.
///
/// All of it can be found again in an archive: a session is named after its first link.
#[derive(Debug, Default)]
pub(crate) struct Lineage {
    /// The session of each link.
    links: FxHashMap<Link, usize>,
    sessions: Vec<Known>,
    ids: FxHashSet<String>,
    /// The newest edits that reach up to a link, and how many came before them.
    windows: FxHashMap<Link, (Arc<Sticky>, usize)>,
}

#[derive(Debug)]
struct Known {
    id: String,
    tip: Link,
    /// The system prompt that it began with, if it began in this run.
    system: Option<Link>,
}

/// Where a chain was put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    /// The session that its end belongs to.
    pub(crate) session: String,
    /// How many of its links were known.
    pub(crate) known: usize,
    /// Whether a session began.
    pub(crate) begins: bool,
}

/// A full lineage is emptied rather than aged: what is needed is read from the archive again.
const LINKS_MAX: usize = 4_000_000;

impl Lineage {
    /// How many links of a chain are known.
    pub(crate) fn known(&self, links: &[Link]) -> usize {
        links.iter().rposition(|link| self.links.contains_key(link)).map_or(0, |at| at + 1)
    }

    /// The session in which an archive may have more of a chain than we know.
    pub(crate) fn candidate(&self, root: &Root, links: &[Link]) -> Option<String> {
        let known = self.known(links);
        let first = links.get(known)?;
        let own = root.session(*first, known == 0);
        let other = root.session(*first, false);
        [own, other].into_iter().find(|id| !self.ids.contains(id))
    }

    /// Takes in a session as an archive has it; `before` is the link that it goes on from.
    pub(crate) fn restore(&mut self, id: &str, before: Link, messages: &[Message]) {
        let mut thread = Thread::of(before, &[]);
        thread.append(before, messages, 0);
        let session = self.sessions.len();
        self.ids.insert(id.to_owned());
        let Some(tip) = thread.links.last().copied() else { return };
        self.sessions.push(Known { id: id.to_owned(), tip, system: None });
        for link in thread.links {
            self.links.entry(link).or_insert(session);
        }
    }

    /// Puts a chain where it belongs: what is new goes on in the session of what is known if that ends
    /// there, and begins a session otherwise.
    ///
    /// What is `aside` never goes on: the answer to a side call.
    pub(crate) fn place(&mut self, root: &Root, thread: &Thread, aside: bool) -> Option<Placed> {
        if self.links.len() + thread.links.len() > LINKS_MAX {
            *self = Self::default();
        }
        let known = self.known(&thread.links);
        let last = *thread.links.last()?;
        let before = known.checked_sub(1).map(|at| thread.links[at]);
        let own = before.and_then(|link| self.links.get(&link).copied());
        let Some(first) = thread.links.get(known) else {
            return Some(Placed { session: self.sessions[own?].id.clone(), known, begins: false });
        };
        let goes_on = own.filter(|at| Some(self.sessions[*at].tip) == before && !aside);
        let session = goes_on.unwrap_or_else(|| {
            let mut id = root.session(*first, known == 0);
            if self.ids.contains(&id) {
                id = root.session(*first, false);
            }
            self.ids.insert(id.clone());
            self.sessions.push(Known { id, tip: last, system: Some(thread.system) });
            self.sessions.len() - 1
        });
        self.sessions[session].tip = last;
        for link in &thread.links[known..] {
            self.links.insert(*link, session);
        }
        let id = self.sessions[session].id.clone();
        Some(Placed { session: id, known, begins: goes_on.is_none() })
    }

    /// Whether a request says nothing new, under another system prompt than its session began with.
    pub(crate) fn is_aside(&self, thread: &Thread) -> bool {
        let session = thread.links.last().and_then(|last| self.links.get(last));
        let system = session.and_then(|at| self.sessions[*at].system);
        system.is_some_and(|system| system != thread.system)
    }

    /// The newest edits that were made to a chain.
    pub(crate) fn window(&self, links: &[Link]) -> Option<Arc<Sticky>> {
        links.iter().rev().find_map(|link| self.windows.get(link)).map(|(own, _)| Arc::clone(own))
    }

    /// Keeps edits for all chains that have the messages they touch; gives the link that they reach and
    /// their generation.
    pub(crate) fn keep(&mut self, links: &[Link], window: Sticky) -> Option<(Link, usize)> {
        let link = *links.get(window.reaches()?)?;
        let generation = self.windows.get(&link).map_or(0, |(_, generation)| generation + 1);
        self.windows.insert(link, (Arc::new(window), generation));
        Some((link, generation))
    }
}

#[cfg(test)]
mod tests;
