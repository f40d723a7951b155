//! The tree of a session's entries, as far as it takes to find a conversation in it.

use longhand_archive::Node;
use longhand_core::{Link, Meaning, Message, Seq};
use rustc_hash::FxHashMap;

/// The links of a conversation's messages, one each.
#[derive(Clone, Debug)]
pub struct Chain {
    links: Vec<Link>,
    meanings: Vec<Meaning>,
    root: Link,
}

impl Chain {
    /// A conversation that begins at the root of its owner.
    pub fn new(root: Link) -> Self {
        Self { links: Vec::new(), meanings: Vec::new(), root }
    }

    /// The first messages of a conversation.
    #[must_use]
    pub fn beginning(&self, messages: usize) -> Self {
        let (links, meanings) = (&self.links[..messages], &self.meanings[..messages]);
        Self { links: links.to_vec(), meanings: meanings.to_vec(), root: self.root }
    }

    /// Adds messages at the end.
    pub fn extend<'m>(&mut self, messages: impl IntoIterator<Item = &'m Message>) {
        for message in messages {
            self.push(message);
        }
    }

    /// Adds a message at the end.
    pub fn push(&mut self, message: &Message) {
        self.add(Meaning::of(message));
    }

    fn add(&mut self, meaning: Meaning) {
        let last = self.said().next_back().unwrap_or(self.root);
        self.links.push(last.next(meaning));
        self.meanings.push(meaning);
    }

    /// Distinguishes a message from one that differs only in the arguments of its calls.
    fn tell_apart(&mut self, at: usize, message: &Message) {
        let mut meanings = self.meanings.split_off(at);
        self.links.truncate(at);
        meanings[0] = Meaning::with_arguments(message);
        for meaning in meanings {
            self.add(meaning);
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

/// The tree of a session's entries.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// By number.
    nodes: Vec<Node>,
    children: FxHashMap<(Option<Seq>, Link), Seq>,
    /// Silent entries by those that they follow.
    silent: FxHashMap<Seq, Vec<Seq>>,
}

/// Where the messages of a conversation are in a ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trail {
    /// The entry of each message that is known, from the first on.
    pub seqs: Vec<Seq>,
    /// All entries on the way to the last of them: silent ones may be left out of a conversation.
    pub path: Vec<Seq>,
}

impl Trail {
    /// Leaves out all from a message on.
    fn cut(&mut self, at: usize) {
        self.seqs.truncate(at);
        let last = self.seqs.last();
        self.path.truncate(last.map_or(0, |last| self.path.partition_point(|seq| seq <= last)));
    }
}

impl Ledger {
    /// A ledger as an archive has it.
    pub fn of(nodes: Vec<Node>) -> Self {
        let mut ledger = Self::default();
        for node in nodes {
            ledger.add(node.parent, node.link);
        }
        ledger
    }

    /// How many entries it has.
    pub fn len(&self) -> u64 {
        self.nodes.len() as u64
    }

    /// Whether it has no entries.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The link of an entry.
    pub fn link(&self, seq: Seq) -> Option<Link> {
        self.nodes.get(seq.0 as usize).map(|node| node.link)
    }

    /// All links, in the order of their entries.
    pub fn links(&self) -> impl Iterator<Item = Link> {
        self.nodes.iter().map(|node| node.link)
    }

    /// Follows a conversation as far as it is known, and branches where the arguments of a call were changed.
    ///
    /// `has_same_calls` says whether a message calls its tools as an entry does; of the first `compared`
    /// messages that is known.
    pub fn follow_told(
        &self,
        chain: &mut Chain,
        messages: &[Message],
        compared: usize,
        mut has_same_calls: impl FnMut(Seq, &Message) -> bool,
    ) -> Trail {
        let mut trail = self.follow(chain.links());
        for (at, message) in messages.iter().enumerate().skip(compared) {
            let Some(seq) = trail.seqs.get(at) else { break };
            if message.calls().next().is_some() && !has_same_calls(*seq, message) {
                chain.tell_apart(at, message);
                trail.cut(at);
                self.follow_on(&mut trail, &chain.links()[at..]);
            }
        }
        trail
    }

    /// Follows a conversation as far as it is known.
    pub fn follow(&self, links: &[Link]) -> Trail {
        let mut trail = Trail::default();
        self.follow_on(&mut trail, links);
        trail
    }

    /// Follows what comes after a trail, as far as that is known.
    pub fn follow_on(&self, trail: &mut Trail, links: &[Link]) {
        for link in links {
            let Some(seq) = self.step(&mut trail.path, *link) else { break };
            trail.seqs.push(seq);
        }
    }

    /// Moves to the entry with this link of the chain; silent entries in between are skipped.
    fn step(&self, path: &mut Vec<Seq>, link: Link) -> Option<Seq> {
        let at = path.last().copied();
        if let Some(child) = self.children.get(&(at, link)) {
            path.push(*child);
            return Some(*child);
        }
        let silent = self.silent.get(&at?).filter(|_| !link.is_silent())?;
        silent.iter().find_map(|seq| {
            path.push(*seq);
            let found = self.step(path, link);
            if found.is_none() {
                path.pop();
            }
            found
        })
    }

    /// Appends what comes after a trail.
    pub fn extend(&mut self, trail: &mut Trail, links: &[Link]) {
        for link in links {
            let seq = self.add(trail.path.last().copied(), *link);
            trail.path.push(seq);
            trail.seqs.push(seq);
        }
    }

    fn add(&mut self, parent: Option<Seq>, link: Link) -> Seq {
        let seq = Seq(self.len());
        self.nodes.push(Node { seq, parent, link, round: 0 });
        self.children.entry((parent, link)).or_insert(seq);
        if let Some(parent) = parent.filter(|_| link.is_silent()) {
            self.silent.entry(parent).or_default().push(seq);
        }
        seq
    }
}

#[cfg(test)]
mod tests {
    use longhand_archive::Owner;
    use longhand_dialect::{Dialect, read};

    use super::*;

    /// One letter is one message; a small one only thinks.
    fn chain(letters: &str) -> Chain {
        let mut chain = Chain::new(Owner::LOCAL.root());
        for letter in letters.chars() {
            let raw = if letter.is_lowercase() {
                format!(
                    r#"[{{"role":"assistant","content":[{{"type":"thinking","thinking":"{letter}","signature":"s"}}]}}]"#
                )
            } else {
                format!(r#"[{{"role":"user","content":"{letter}"}}]"#)
            };
            let conversation = read(raw.into_bytes(), Some(Dialect::Anthropic)).unwrap();
            chain.push(&conversation.messages[0]);
        }
        chain
    }

    fn seqs(numbers: &[u64]) -> Vec<Seq> {
        numbers.iter().copied().map(Seq).collect()
    }

    #[test]
    fn what_is_known_is_followed_and_the_rest_appended() {
        let mut ledger = Ledger::default();
        for (letters, known, expected) in [
            ("AB", 0, &[0, 1][..]),
            ("ABC", 2, &[0, 1, 2]),
            ("AXC", 1, &[0, 3, 4]),
            ("ABC", 3, &[0, 1, 2]),
            ("Z", 0, &[5]),
        ] {
            let chain = chain(letters);
            let mut trail = ledger.follow(chain.links());
            assert_eq!(trail.seqs.len(), known, "{letters}");
            ledger.extend(&mut trail, &chain.links()[known..]);
            assert_eq!(trail.seqs, seqs(expected), "{letters}");
            assert_eq!(trail.seqs, trail.path);
        }
        let again = Ledger::of(ledger.nodes.clone());
        assert_eq!(again.follow(chain("AXC").links()), ledger.follow(chain("AXC").links()));
    }

    #[test]
    fn silent_messages_may_be_left_out() {
        let mut ledger = Ledger::default();
        ledger.extend(&mut Trail::default(), chain("AtuBC").links());
        let without = ledger.follow(chain("ABC").links());
        assert_eq!((without.seqs, without.path), (seqs(&[0, 3, 4]), seqs(&[0, 1, 2, 3, 4])));
        assert_eq!(ledger.follow(chain("AtBC").links()).seqs, seqs(&[0, 1, 3, 4]));
        // One that was not there leads elsewhere.
        assert_eq!(ledger.follow(chain("ABtC").links()).seqs, seqs(&[0, 3]));
        let (with, without) = (chain("AtuBC"), chain("ABC"));
        assert!(with.said().eq(without.said()));
        let mut begun = with.beginning(3);
        for meaning in &with.meanings()[3..] {
            begun.add(*meaning);
        }
        assert_eq!(begun.links(), with.links());
    }
}
