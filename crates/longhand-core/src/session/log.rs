//! The log of batches, and which of them are live on a path.
//!
//! A batch reaches as far as the newest entry that it, or a batch that it builds on, edits. All that it
//! edits lies on the path to that entry, so a batch applies to a path exactly if its reach is on it. The
//! live batches of a path are the chain that ends with the one that reaches farthest; of two that reach
//! as far, with the newer one. A batch for a shorter path thus never affects a longer path that has a
//! batch of its own.

use rustc_hash::FxHashSet;

use super::tree::Tree;
use crate::Seq;

/// What of a batch tells whether it is live on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLine {
    /// The number of the batch that it builds on; 0 if there is none.
    pub after: u64,
    /// The newest entry that it or a batch before it edits; `None` if they edit nothing.
    pub reach: Option<Seq>,
}

/// The log of a session's batches, which are numbered from 1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchLog {
    lines: Vec<BatchLine>,
    is_live: Vec<bool>,
    /// In the order in which they were undone.
    undone: Vec<u64>,
    /// The live ones by how far they reach, the farthest last.
    ranked: Vec<u64>,
}

impl BatchLog {
    /// How many batches it has, undone ones too.
    pub fn len(&self) -> u64 {
        self.lines.len() as u64
    }

    /// Whether it has no batches.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The batches that were undone by name, in the order in which that was done.
    pub fn undone(&self) -> &[u64] {
        &self.undone
    }

    /// The line of a batch; `None` for 0.
    pub fn line(&self, number: u64) -> Option<&BatchLine> {
        self.lines.get(number.checked_sub(1)? as usize)
    }

    /// Whether neither a batch nor one that it builds on was undone.
    pub fn is_live(&self, number: u64) -> bool {
        number.checked_sub(1).is_some_and(|index| self.is_live.get(index as usize) == Some(&true))
    }

    /// The newest live batch of the path to a head; 0 if there is none.
    pub fn newest_live(&self, tree: &Tree, head: Option<Seq>) -> u64 {
        let mut at = head;
        for number in self.ranked.iter().rev().copied() {
            let Some(reach) = self.line(number).and_then(|line| line.reach) else { return number };
            if let Some(seq) = at.filter(|seq| reach <= *seq) {
                at = tree.ancestor(seq, reach);
                if at == Some(reach) {
                    return number;
                }
            }
        }
        0
    }

    /// A batch and those that it builds on, oldest first.
    pub fn chain(&self, newest: u64) -> Vec<u64> {
        let newest = Some(newest).filter(|number| *number > 0);
        let before =
            |number: &u64| self.line(*number).map(|line| line.after).filter(|after| *after > 0);
        let mut chain: Vec<u64> = std::iter::successors(newest, before).collect();
        chain.reverse();
        chain
    }

    /// Adds a batch and returns its number. It builds on one that is in the log.
    pub(super) fn push(&mut self, line: BatchLine) -> u64 {
        self.lines.push(line);
        let number = self.len();
        let is_live = line.after == 0 || self.is_live(line.after);
        self.is_live.push(is_live);
        if is_live {
            let rank = |number: u64| (self.lines[number as usize - 1].reach, number);
            let place = self.ranked.partition_point(|other| rank(*other) < rank(number));
            self.ranked.insert(place, number);
        }
        number
    }

    /// Takes a batch back; those that build on it are no longer live either.
    pub(super) fn undo(&mut self, number: u64) {
        self.undone.push(number);
        self.rank_again();
    }

    /// Forgets what was added last, but for so many batches and undos.
    pub(super) fn truncate(&mut self, batches: u64, undos: u64) {
        if (self.len(), self.undone.len() as u64) == (batches, undos) {
            return;
        }
        self.lines.truncate(batches as usize);
        self.undone.truncate(undos as usize);
        self.rank_again();
    }

    fn rank_again(&mut self) {
        let undone: FxHashSet<u64> = self.undone.iter().copied().collect();
        self.is_live.clear();
        for (line, number) in self.lines.iter().zip(1_u64..) {
            let builds_on_live = line.after == 0 || self.is_live[line.after as usize - 1];
            self.is_live.push(builds_on_live && !undone.contains(&number));
        }
        let live = (1..=self.len()).filter(|number| self.is_live[*number as usize - 1]);
        self.ranked = live.collect();
        let lines = &self.lines;
        self.ranked.sort_unstable_by_key(|number| (lines[*number as usize - 1].reach, *number));
    }
}
