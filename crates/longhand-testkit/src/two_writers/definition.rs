//! A session that follows the definitions word for word: it walks whole paths.

use std::collections::BTreeSet;

use longhand_archive::{NewEntry, Node};
use longhand_core::session::CommitError;
use longhand_core::{Batch, Link, Seq};

/// A session as all that was acknowledged makes it.
#[derive(Clone, Debug)]
pub(super) struct Definition {
    pub(super) root: Link,
    pub(super) entries: Vec<Node>,
    /// What each entry says, as received.
    pub(super) raw: Vec<String>,
    /// What each batch builds on, and what it edits.
    pub(super) log: Vec<(u64, Vec<Seq>)>,
    pub(super) undone: Vec<u64>,
    pub(super) pins: BTreeSet<Seq>,
}

impl Definition {
    pub(super) fn new(root: Link) -> Self {
        Self {
            root,
            entries: Vec::new(),
            raw: Vec::new(),
            log: Vec::new(),
            undone: Vec::new(),
            pins: BTreeSet::new(),
        }
    }

    pub(super) fn contains(&self, seq: Seq) -> bool {
        seq.0 < self.entries.len() as u64
    }

    pub(super) fn newest(&self) -> Option<Seq> {
        self.entries.last().map(|node| node.seq)
    }

    fn node(&self, seq: Seq) -> &Node {
        &self.entries[seq.0 as usize]
    }

    /// All entries up to a head, oldest first.
    pub(super) fn path(&self, head: Option<Seq>) -> Vec<Seq> {
        let mut path: Vec<Seq> =
            std::iter::successors(head, |seq| self.node(*seq).parent).collect();
        path.reverse();
        path
    }

    /// The links of what is said after an entry.
    pub(super) fn links_after(&self, parent: Option<Seq>, entries: &[NewEntry]) -> Vec<Link> {
        let mut said = self.path(parent).into_iter().rev().map(|seq| self.node(seq).link);
        let mut last = said.find(|link| !link.is_silent()).unwrap_or(self.root);
        let link = |entry: &NewEntry| {
            let link = last.next(entry.meaning);
            if !link.is_silent() {
                last = link;
            }
            link
        };
        entries.iter().map(link).collect()
    }

    /// The entries with a link that follow another one, or only silent ones after it.
    fn children(&self, parent: Option<Seq>, link: Link) -> Vec<Seq> {
        let children = self.entries.iter().filter(|node| node.parent == parent);
        let found = children.flat_map(|node| {
            if node.link == link {
                vec![node.seq]
            } else if node.link.is_silent() && !link.is_silent() {
                self.children(Some(node.seq), link)
            } else {
                Vec::new()
            }
        });
        found.collect()
    }

    /// The newest of the longest paths after an entry that have the links: its end, and its entries that have
    /// them.
    pub(super) fn follow(&self, after: Option<Seq>, links: &[Link]) -> (Option<Seq>, Vec<Seq>) {
        let mut ends: Vec<Option<Seq>> = vec![after];
        let mut known = 0;
        for link in links {
            let next = ends.iter().flat_map(|end| self.children(*end, *link)).map(Some);
            let next: Vec<Option<Seq>> = next.collect();
            if next.is_empty() {
                break;
            }
            ends = next;
            known += 1;
        }
        let end = ends.into_iter().max().flatten();
        let passed = &self.path(end)[self.path(after).len()..];
        let mut wanted = links[..known].iter();
        let mut next = wanted.next();
        let mut seqs = Vec::new();
        for seq in passed {
            if next == Some(&self.node(*seq).link) {
                seqs.push(*seq);
                next = wanted.next();
            }
        }
        assert_eq!(seqs.len(), known);
        (end, seqs)
    }

    /// Appends what is not there yet; returns the numbers of all, and how many were new.
    pub(super) fn append(&mut self, after: Option<Seq>, entries: &[NewEntry]) -> (Vec<Seq>, u64) {
        let links = self.links_after(after, entries);
        let (mut parent, mut seqs) = self.follow(after, &links);
        let known = seqs.len();
        for (link, entry) in links[known..].iter().zip(&entries[known..]) {
            let seq = Seq(self.entries.len() as u64);
            let round = parent.map(|parent| self.node(parent).round);
            let round = round.map_or(0, |round| round + u64::from(entry.opens_round));
            self.entries.push(Node { seq, parent, link: *link, round });
            self.raw.push(entry.raw.clone());
            seqs.push(seq);
            parent = Some(seq);
        }
        let new = (seqs.len() - known) as u64;
        (seqs, new)
    }

    pub(super) fn is_live(&self, number: u64) -> bool {
        let (after, _) = &self.log[number as usize - 1];
        !self.undone.contains(&number) && (*after == 0 || self.is_live(*after))
    }

    /// The entries that a batch and those that it builds on edit.
    fn edited(&self, number: u64) -> Vec<Seq> {
        let Some(index) = number.checked_sub(1) else { return Vec::new() };
        let (after, edited) = &self.log[index as usize];
        [self.edited(*after), edited.clone()].concat()
    }

    /// The live batches of a path, oldest first.
    pub(super) fn live(&self, head: Option<Seq>) -> Vec<u64> {
        let path = self.path(head);
        let live = (1..=self.log.len() as u64).filter(|number| self.is_live(*number));
        let reaching = live.filter_map(|number| {
            let edited = self.edited(number);
            let applies = edited.iter().all(|seq| path.contains(seq));
            applies.then(|| (edited.into_iter().max(), number))
        });
        let newest = reaching.max().map(|(_, number)| number);
        let before =
            |number: &u64| Some(self.log[*number as usize - 1].0).filter(|after| *after > 0);
        let mut chain: Vec<u64> = std::iter::successors(newest, before).collect();
        chain.reverse();
        chain
    }

    /// Commits a batch and returns its number, or says why not.
    pub(super) fn commit(&mut self, batch: &Batch, after: u64) -> Result<u64, CommitError> {
        if !self.contains(batch.head) {
            return Err(CommitError::NoSuchEntry(batch.head));
        }
        let path = self.path(Some(batch.head));
        if let Some(stray) = batch.edited().into_iter().find(|seq| !path.contains(seq)) {
            return Err(CommitError::NotOnPath(stray));
        }
        let newest = self.live(Some(batch.head)).last().copied().unwrap_or(0);
        if newest != after {
            return Err(CommitError::NotNewest(newest));
        }
        self.log.push((after, batch.edited()));
        Ok(self.log.len() as u64)
    }

    /// Takes back the newest live batch of a path and returns it.
    pub(super) fn undo(&mut self, head: Option<Seq>) -> Option<u64> {
        let newest = self.live(head).pop()?;
        self.undone.push(newest);
        Some(newest)
    }
}
