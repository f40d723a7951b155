//! A conversation as links of the hash chain, and where it is in a session.

use crate::{Link, Meaning, Message, Seq};

/// The links of a conversation's messages, one each.
#[derive(Clone, Debug)]
pub struct Chain {
    links: Vec<Link>,
    meanings: Vec<Meaning>,
    root: Link,
    /// The newest link that is not silent, or the root.
    last: Link,
}

impl Chain {
    /// A conversation that begins at the root of its owner, or goes on from another link.
    pub fn new(root: Link) -> Self {
        Self { links: Vec::new(), meanings: Vec::new(), root, last: root }
    }

    /// The first messages of a conversation.
    #[must_use]
    pub fn beginning(&self, messages: usize) -> Self {
        let mut beginning = self.clone();
        beginning.truncate(messages);
        beginning
    }

    /// Adds messages at the end.
    pub fn extend<'m>(&mut self, messages: impl IntoIterator<Item = &'m Message>) {
        for message in messages {
            self.push(Meaning::of(message));
        }
    }

    /// Adds a message at the end, by its meaning.
    pub fn push(&mut self, meaning: Meaning) {
        let link = self.last.next(meaning);
        self.links.push(link);
        self.meanings.push(meaning);
        if !link.is_silent() {
            self.last = link;
        }
    }

    fn truncate(&mut self, messages: usize) {
        self.links.truncate(messages);
        self.meanings.truncate(messages);
        let last = self.said().next_back();
        self.last = last.unwrap_or(self.root);
    }

    /// Distinguishes a message from one that differs only in the arguments of its calls.
    pub fn tell_apart(&mut self, index: usize, message: &Message) {
        let mut meanings = self.meanings[index..].to_vec();
        self.truncate(index);
        meanings[0] = Meaning::with_arguments(message);
        for meaning in meanings {
            self.push(meaning);
        }
    }

    /// The link of each message.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// The meaning of each message.
    pub fn meanings(&self) -> &[Meaning] {
        &self.meanings
    }

    /// The links of those that are not silent.
    pub fn said(&self) -> impl DoubleEndedIterator<Item = Link> {
        self.links.iter().copied().filter(|link| !link.is_silent())
    }
}

/// Where the messages of a conversation are in a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trail {
    /// The entry of each message that is known, from the first on.
    pub seqs: Vec<Seq>,
    /// All entries on the way to the last of them: silent ones may be left out of a conversation.
    pub path: Vec<Seq>,
}

impl Trail {
    /// The trail of a conversation that goes on from an entry; what is before it is not followed.
    pub fn after(entry: Option<Seq>) -> Self {
        Self { seqs: Vec::new(), path: entry.into_iter().collect() }
    }

    /// The newest entry on it.
    pub fn head(&self) -> Option<Seq> {
        self.path.last().copied()
    }

    /// Leaves out all from a message on.
    pub fn cut(&mut self, index: usize) {
        self.seqs.truncate(index);
        let last = self.seqs.last();
        self.path.truncate(last.map_or(0, |last| self.path.partition_point(|seq| seq <= last)));
    }
}
