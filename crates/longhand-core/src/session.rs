//! A session as a value: its tree of entries, its log of batches, its pins and its version.
//!
//! All rules about a session are here: where a conversation goes on, which batches are live on a path,
//! whether a batch may be committed, what an undo leaves. Nothing here reads: what is not known yet is
//! named ([`Lack`]), whoever has storage loads it and asks again. What others wrote is taken in as
//! [`News`].

mod chain;
mod log;
mod tree;

use std::ops::Range;

use rustc_hash::FxHashMap;

pub use self::chain::{Chain, Trail};
pub use self::log::{BatchLine, BatchLog};
pub use self::tree::Tree;
use crate::{Batch, Link, Seq};

/// How much a session has of everything. Entries, batches and undos are only appended, so two states of
/// one session are equal if their versions are.
///
/// The default is the version of a session that does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Version {
    /// Tells a session from one of the same id that was removed before it began; never 0.
    pub birth: u64,
    /// How many entries it has, on all paths.
    pub entries: u64,
    /// How many batches its log has, undone ones too.
    pub batches: u64,
    /// How often a batch was undone.
    pub undos: u64,
    /// A hash of the pins; 0 without any.
    pub pins: u64,
}

/// An entry without what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its number in the session.
    pub seq: Seq,
    /// The entry it follows; `None` if a conversation begins with it.
    pub parent: Option<Seq>,
    /// The hash of what it and everything before it mean.
    pub link: Link,
    /// The round it belongs to, from 0.
    pub round: u64,
}

/// An entry that does not follow the one with the number before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fork {
    /// Its number in the session.
    pub first: Seq,
    /// The entry it follows; `None` if a conversation begins with it.
    pub parent: Option<Seq>,
    /// Its link.
    pub link: Link,
}

/// What a session has got since a version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Its version now.
    pub version: Version,
    /// The entry that was appended last.
    pub newest: Option<Node>,
    /// Entries since then that begin a run, in their order.
    pub forks: Vec<Fork>,
    /// Batches since then, in their order.
    pub batches: Vec<BatchLine>,
    /// What was undone since then, in that order.
    pub undone: Vec<u64>,
    /// All pinned entries, in order.
    pub pins: Vec<Seq>,
}

/// Entries whose links must be known before a question can be answered, by their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack(pub Vec<Range<u64>>);

/// Why a batch cannot be committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitError {
    /// The session has no such entry.
    NoSuchEntry(Seq),
    /// It edits an entry that is not on the path it was made for.
    NotOnPath(Seq),
    /// It does not build on the newest live batch of its path, which is this one; 0 if there is none.
    NotNewest(u64),
}

/// A record that does not follow from what a session has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfit;

/// What is known of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    link: Link,
    round: u64,
}

/// The state of a session.
#[derive(Clone, Debug)]
pub struct SessionState {
    root: Link,
    written: Version,
    tree: Tree,
    log: BatchLog,
    pins: Vec<Seq>,
    /// Those that storage has.
    pins_written: Vec<Seq>,
    /// Entries whose links are known, among them all that begin a run.
    known: FxHashMap<Seq, Known>,
    /// Entries that do not follow the one with the number before, by what they follow and their link.
    forks: FxHashMap<(Option<Seq>, Link), Seq>,
    /// The silent ones of these.
    silent_forks: FxHashMap<Option<Seq>, Vec<Seq>>,
}

/// The round of an entry of which only the link is known.
const ROUND_UNKNOWN: u64 = u64::MAX;

impl SessionState {
    /// A session without entries, whose chains begin at the root of its owner.
    pub fn new(root: Link) -> Self {
        Self {
            root,
            written: Version::default(),
            tree: Tree::default(),
            log: BatchLog::default(),
            pins: Vec::new(),
            pins_written: Vec::new(),
            known: FxHashMap::default(),
            forks: FxHashMap::default(),
            silent_forks: FxHashMap::default(),
        }
    }

    /// The version that storage has, as far as that is known.
    pub fn written(&self) -> Version {
        self.written
    }

    /// Its tree.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Its log of batches.
    pub fn log(&self) -> &BatchLog {
        &self.log
    }

    /// Its pinned entries, in order.
    pub fn pins(&self) -> &[Seq] {
        &self.pins
    }

    /// Where chains begin.
    pub fn root(&self) -> Link {
        self.root
    }

    /// The link of an entry, if it is known.
    pub fn link(&self, seq: Seq) -> Option<Link> {
        self.known.get(&seq).map(|known| known.link)
    }

    // What storage says.

    /// Takes in what others wrote since [`SessionState::written`]. What was not written yet must have been
    /// forgotten before ([`SessionState::rewind`]).
    ///
    /// # Errors
    ///
    /// If the news contradict themselves; then the state is useless.
    pub fn apply(&mut self, news: News) -> Result<(), Unfit> {
        let before = self.written;
        if before.birth != 0 && before.birth != news.version.birth {
            return Err(Unfit);
        }
        for fork in news.forks {
            let is_next = fork.first.0 >= self.tree.len() && fork.first.0 < news.version.entries;
            if !is_next || fork.parent.is_some_and(|parent| parent >= fork.first) {
                return Err(Unfit);
            }
            if self.tree.is_empty() && fork.first.0 > 0 {
                return Err(Unfit);
            }
            self.tree.extend_to(fork.first.0);
            self.tree.push(fork.parent);
            self.remember(Node {
                seq: fork.first,
                parent: fork.parent,
                link: fork.link,
                round: ROUND_UNKNOWN,
            });
        }
        if self.tree.is_empty() && news.version.entries > 0 {
            return Err(Unfit);
        }
        self.tree.extend_to(news.version.entries);
        self.learn(news.newest.as_slice())?;
        for line in news.batches {
            let is_sound = line.after <= self.log.len()
                && line.reach.is_none_or(|reach| self.tree.contains(reach));
            if !is_sound {
                return Err(Unfit);
            }
            self.log.push(line);
        }
        for number in news.undone {
            self.log.undo(number);
        }
        self.pins_written.clone_from(&news.pins);
        self.pins = news.pins;
        self.written = news.version;
        let counts = (self.tree.len(), self.log.len(), self.log.undone().len() as u64);
        let expected = (news.version.entries, news.version.batches, news.version.undos);
        if counts == expected { Ok(()) } else { Err(Unfit) }
    }

    /// Takes in entries as storage has them.
    ///
    /// # Errors
    ///
    /// If one is not where the tree has it.
    pub fn learn(&mut self, nodes: &[Node]) -> Result<(), Unfit> {
        for node in nodes {
            let is_there =
                self.tree.contains(node.seq) && self.tree.parent(node.seq) == node.parent;
            let is_same = self.link(node.seq).is_none_or(|link| link == node.link);
            if !is_there || !is_same {
                return Err(Unfit);
            }
            self.known.insert(node.seq, Known { link: node.link, round: node.round });
        }
        Ok(())
    }

    /// What was appended here is in storage, which has this version now.
    pub fn wrote(&mut self, version: Version) {
        self.written = version;
        if self.pins != self.pins_written {
            self.pins_written.clone_from(&self.pins);
        }
    }

    /// The version that it will have once all of it is in storage.
    pub fn version(&self) -> Version {
        let undos = self.log.undone().len() as u64;
        Version { entries: self.tree.len(), batches: self.log.len(), undos, ..self.written }
    }

    /// Forgets what is not in storage yet.
    pub fn rewind(&mut self) {
        self.rewind_to(self.written);
        if self.pins != self.pins_written {
            self.pins.clone_from(&self.pins_written);
        }
    }

    /// Forgets the entries, batches and undos that came after a version.
    pub fn rewind_to(&mut self, version: Version) {
        for seq in (version.entries..self.tree.len()).map(Seq) {
            let Some(known) = self.known.remove(&seq) else { continue };
            let place = (self.tree.parent(seq), known.link);
            if self.forks.get(&place) == Some(&seq) {
                self.forks.remove(&place);
            }
            if let Some(silent) = self.silent_forks.get_mut(&place.0) {
                silent.retain(|other| *other != seq);
            }
        }
        self.tree.truncate(version.entries);
        self.log.truncate(version.batches, version.undos);
    }

    fn remember(&mut self, node: Node) {
        let Node { seq, parent, link, round } = node;
        self.known.insert(seq, Known { link, round });
        let is_next = parent.is_some() && parent == seq.0.checked_sub(1).map(Seq);
        if !is_next {
            self.forks.entry((parent, link)).or_insert(seq);
            if link.is_silent() {
                self.silent_forks.entry(parent).or_default().push(seq);
            }
        }
    }

    // Where a conversation goes on.

    /// Follows what comes after a trail, as far as the session has it.
    ///
    /// Silent entries in between are skipped, so several paths may have the same links: the longest counts, and
    /// of several the newest.
    pub fn follow(&self, trail: &mut Trail, links: &[Link]) -> Result<(), Lack> {
        let start = trail.head();
        let (mut ends, mut next) = (vec![start], Vec::new());
        for (index, link) in links.iter().enumerate() {
            for end in &ends {
                let found = self.children(*end, *link, &mut next);
                found.map_err(|lacking| self.lack_from(lacking, links.len() - index))?;
            }
            if next.is_empty() {
                break;
            }
            std::mem::swap(&mut ends, &mut next);
            next.clear();
        }
        let end = ends.into_iter().flatten().max().filter(|end| Some(*end) != start);
        let first = start.map_or(0, |start| start.0 + 1);
        let passed = end.map(|end| self.tree.path(end, first..end.0 + 1)).unwrap_or_default();
        let mut links = links.iter();
        let mut link = links.next();
        for seq in passed.into_iter().flatten().map(Seq) {
            trail.path.push(seq);
            if self.known.get(&seq).map(|known| &known.link) == link {
                trail.seqs.push(seq);
                link = links.next();
            }
        }
        Ok(())
    }

    /// The entries that must be known to follow a conversation of so many messages which is known up to an
    /// entry: those on the way there, and some after it.
    pub fn lack_to(&self, entry: Seq, messages: usize) -> Lack {
        let mut ranges = self.tree.path(entry, 0..entry.0 + 1);
        let passed: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        if let Some(last) = ranges.last_mut() {
            let rest = (messages as u64).saturating_sub(passed);
            last.end = self.tree.run_end(entry).min(last.end + rest);
        }
        self.unknown(ranges)
    }

    /// Finds the entries with a link that follow another one, or only silent ones after it. Fails with an entry whose
    /// link must be known.
    fn children(
        &self,
        parent: Option<Seq>,
        link: Link,
        found: &mut Vec<Option<Seq>>,
    ) -> Result<(), Seq> {
        found.extend(self.child(parent, link)?.map(Some));
        if link.is_silent() {
            return Ok(());
        }
        let mut silent = self.silent_children(parent)?;
        while let Some(seq) = silent.pop() {
            found.extend(self.child(Some(seq), link)?.map(Some));
            silent.extend(self.silent_children(Some(seq))?);
        }
        Ok(())
    }

    /// The entry with a link that follows another one; of several, the oldest.
    fn child(&self, parent: Option<Seq>, link: Link) -> Result<Option<Seq>, Seq> {
        if let Some(next) = self.next_in_run(parent)
            && self.known.get(&next).ok_or(next)?.link == link
        {
            return Ok(Some(next));
        }
        Ok(self.forks.get(&(parent, link)).copied())
    }

    /// The silent entries that follow another one.
    fn silent_children(&self, parent: Option<Seq>) -> Result<Vec<Seq>, Seq> {
        let forks = self.silent_forks.get(&parent).into_iter().flatten();
        let mut silent: Vec<Seq> = forks.copied().collect();
        if let Some(next) = self.next_in_run(parent)
            && self.known.get(&next).ok_or(next)?.link.is_silent()
        {
            silent.push(next);
        }
        Ok(silent)
    }

    /// The entry that follows another one with the next number.
    fn next_in_run(&self, parent: Option<Seq>) -> Option<Seq> {
        let next = parent?.0 + 1;
        (next < self.tree.run_end(parent?)).then_some(Seq(next))
    }

    /// What to load when an entry is not known and up to so many after it may be asked for.
    fn lack_from(&self, entry: Seq, messages: usize) -> Lack {
        let end = self.tree.run_end(entry).min(entry.0 + messages as u64);
        self.unknown(vec![entry.0..end.max(entry.0 + 1)])
    }

    /// The parts of ranges whose entries are not known.
    fn unknown(&self, ranges: Vec<Range<u64>>) -> Lack {
        let mut lacking: Vec<Range<u64>> = Vec::new();
        for seq in ranges.into_iter().flatten() {
            if self.known.get(&Seq(seq)).is_some_and(|known| known.round != ROUND_UNKNOWN) {
                continue;
            }
            match lacking.last_mut() {
                Some(range) if range.end == seq => range.end += 1,
                _ => lacking.push(seq..seq + 1),
            }
        }
        Lack(lacking)
    }

    // Appending.

    /// The chain of what follows an entry.
    pub fn chain_after(&self, entry: Option<Seq>) -> Result<Chain, Lack> {
        let mut next = entry;
        while let Some(seq) = next {
            let known = self.known.get(&seq).ok_or_else(|| self.lack_from(seq, 1))?;
            if !known.link.is_silent() {
                return Ok(Chain::new(known.link));
            }
            next = self.tree.parent(seq);
        }
        Ok(Chain::new(self.root))
    }

    /// The round of an entry.
    pub fn round(&self, seq: Seq) -> Result<u64, Lack> {
        let known = self.known.get(&seq).filter(|known| known.round != ROUND_UNKNOWN);
        known.map(|known| known.round).ok_or_else(|| Lack(vec![seq.0..seq.0 + 1]))
    }

    /// Appends what comes after a trail: the link of each message, and whether a round begins with it. Returns the
    /// new entries.
    pub fn extend(
        &mut self,
        trail: &mut Trail,
        messages: impl IntoIterator<Item = (Link, bool)>,
    ) -> Result<Vec<Node>, Lack> {
        let mut round = trail.head().map(|head| self.round(head)).transpose()?;
        let mut nodes = Vec::new();
        for (link, opens_round) in messages {
            let parent = trail.head();
            let round_now = round.map_or(0, |round| round + u64::from(opens_round));
            let seq = self.tree.push(parent);
            let node = Node { seq, parent, link, round: round_now };
            self.remember(node);
            trail.path.push(seq);
            trail.seqs.push(seq);
            nodes.push(node);
            round = Some(round_now);
        }
        Ok(nodes)
    }

    /// Appends an entry exactly as another archive has it.
    ///
    /// # Errors
    ///
    /// If it does not follow from what the session has.
    pub fn restore(&mut self, node: Node) -> Result<Result<(), Unfit>, Lack> {
        let is_next = node.seq.0 == self.tree.len();
        if !is_next || node.parent.is_some_and(|parent| parent >= node.seq) {
            return Ok(Err(Unfit));
        }
        let rounds = match node.parent {
            None => 0..=0,
            Some(parent) => self.round(parent).map(|round| round..=round + 1)?,
        };
        if !rounds.contains(&node.round) {
            return Ok(Err(Unfit));
        }
        self.tree.push(node.parent);
        self.remember(node);
        Ok(Ok(()))
    }

    // Batches, undo and pins.

    /// The path's end: the entry, or without one the entry that was appended last.
    pub fn head(&self, head: Option<Seq>) -> Option<Seq> {
        head.or(self.tree.newest())
    }

    /// The live batches of the path to a head, oldest first, by number.
    ///
    /// A batch applies to every path that holds all entries that it and the batches before it edit. Of
    /// those that apply, the one that edits the newest entry counts, with those that it builds on.
    pub fn live(&self, head: Option<Seq>) -> Vec<u64> {
        self.log.chain(self.log.newest_live(&self.tree, head))
    }

    /// Whether a batch that builds on another one may be committed; if so, its line in the log.
    pub fn check_commit(&self, batch: &Batch, after: u64) -> Result<BatchLine, CommitError> {
        self.check_path(batch, None)?;
        let newest = self.log.newest_live(&self.tree, Some(batch.head));
        if newest == after {
            self.line_of(batch, after)
        } else {
            Err(CommitError::NotNewest(newest))
        }
    }

    /// The line of a batch that builds on another one, which need not be live.
    pub fn line_of(&self, batch: &Batch, after: u64) -> Result<BatchLine, CommitError> {
        let before = self.log.line(after).and_then(|line| line.reach);
        self.check_path(batch, before)?;
        Ok(BatchLine { after, reach: batch.edited().first().copied().max(before) })
    }

    /// Whether all that a batch edits, and another entry, lies on its path.
    fn check_path(&self, batch: &Batch, other: Option<Seq>) -> Result<(), CommitError> {
        if !self.tree.contains(batch.head) {
            return Err(CommitError::NoSuchEntry(batch.head));
        }
        let edited = batch.edited().into_iter().chain(other);
        let is_stray = |seq: &Seq| !self.tree.is_on_path(*seq, batch.head);
        edited.into_iter().find(is_stray).map_or(Ok(()), |seq| Err(CommitError::NotOnPath(seq)))
    }

    /// Adds a batch to the log and returns its number.
    pub fn commit(&mut self, line: BatchLine) -> u64 {
        self.log.push(line)
    }

    /// Takes a batch back.
    pub fn undo(&mut self, number: u64) {
        self.log.undo(number);
    }

    /// The pins with an entry pinned or not; `None` if that changes nothing.
    pub fn pinned(&self, entry: Seq, is_pinned: bool) -> Option<Vec<Seq>> {
        let mut pins = self.pins.clone();
        match (pins.binary_search(&entry), is_pinned) {
            (Err(index), true) => pins.insert(index, entry),
            (Ok(index), false) => {
                pins.remove(index);
            }
            _ => return None,
        }
        Some(pins)
    }

    /// Sets the pins.
    pub fn set_pins(&mut self, pins: Vec<Seq>) {
        self.pins = pins;
    }
}

#[cfg(test)]
mod tests;
