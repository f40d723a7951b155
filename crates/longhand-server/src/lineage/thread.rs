//! The messages of a request as a chain.

use longhand_core::{Message, Part, Role, Seq, Text};

use crate::meaning::Link;

/// How many numbers there are for a link and the messages before it that are no links.
const SEQS_PER_LINK: u64 = 1 << 32;

/// Where the chains of an owner begin.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    pub(crate) start: Link,
    /// Whose chains they are.
    pub(crate) owner: Link,
    /// The session that the client names, if it does.
    name: Option<String>,
}

impl Root {
    /// The chains of an owner, which may be a key; `held` is history that the provider keeps and we do
    /// not have.
    pub(crate) fn new(owner: &str, name: Option<&str>, held: Option<&str>) -> Self {
        let start = Link::root(&[owner, name.unwrap_or_default(), held.unwrap_or_default()]);
        Self { start, owner: Link::root(&[owner]), name: name.map(str::to_owned) }
    }

    /// The id of a session that begins with a link.
    pub(super) fn session(&self, first: Link, is_first: bool) -> String {
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
    /// How many messages there are.
    pub(crate) end: usize,
}

impl Thread {
    /// Chains the messages of a request.
    pub(crate) fn of(start: Link, messages: &[Message]) -> Self {
        let lead = lead_of(messages);
        let system = messages[..lead]
            .iter()
            .fold(Link::root(&[]), |link, message| link.next(message).unwrap_or(link));
        let mut thread = Self { links: Vec::new(), at: Vec::new(), lead, system, end: lead };
        thread.append(start, &messages[lead..]);
        thread
    }

    /// Chains the messages of a request of which so many after the system prompt were chained before.
    pub(crate) fn going_on(
        start: Link,
        messages: &[Message],
        before: &Thread,
        shared: usize,
    ) -> Self {
        let mut thread = Self::of(start, &messages[..lead_of(messages)]);
        let links = before.at.partition_point(|at| at - before.lead < shared);
        thread.links.extend_from_slice(&before.links[..links]);
        thread.at.extend(before.at[..links].iter().map(|at| at - before.lead + thread.lead));
        thread.end += shared;
        let end = thread.end;
        thread.append(start, &messages[end..]);
        thread
    }

    /// Adds messages at the end.
    pub(crate) fn append(&mut self, start: Link, messages: &[Message]) {
        let mut last = self.links.last().copied().unwrap_or(start);
        for message in messages {
            if let Some(link) = last.next(message) {
                self.links.push(link);
                self.at.push(self.end);
                last = link;
            }
            self.end += 1;
        }
    }

    /// The number of each message after the system prompts, in growing order.
    ///
    /// A link has the same number in every request of its chain, whether a client sends thinking back or
    /// not: the last of those that are set aside for it.
    pub(crate) fn seqs(&self) -> Vec<Seq> {
        let (mut links, mut before) = (0, 0);
        let number = |message: usize| {
            if self.at.get(links as usize) == Some(&message) {
                (links, before) = (links + 1, 0);
                Seq(links * SEQS_PER_LINK - 1)
            } else {
                before += 1;
                Seq(links * SEQS_PER_LINK + before - 1)
            }
        };
        (self.lead..self.end).map(number).collect()
    }

    /// How many links a chain has up to the message of a number.
    pub(crate) fn links_until(seq: Seq) -> usize {
        ((seq.0 + 1) / SEQS_PER_LINK) as usize
    }

    /// The number of the first message after the link before.
    pub(crate) fn after_link_before(seq: Seq) -> Seq {
        Seq(seq.0 - seq.0 % SEQS_PER_LINK)
    }

    /// The first message that a chain of so many links has not.
    pub(crate) fn after(&self, links: usize) -> usize {
        links.checked_sub(1).map_or(self.lead, |last| self.at[last] + 1)
    }
}

/// How many system prompts lead.
fn lead_of(messages: &[Message]) -> usize {
    messages.iter().take_while(|message| message.role == Role::System).count()
}

/// The words of a message.
pub(super) fn words_of(message: &Message) -> String {
    message.parts.iter().filter_map(Part::text).map(Text::decode).collect()
}
