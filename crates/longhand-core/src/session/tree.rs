//! Which entry follows which.
//!
//! Nearly every entry follows the one before it, so a tree is stored as *runs*: stretches of numbers in
//! which each entry's parent is the number before. A session without forks is one run, however long it
//! is. Besides its parent every run knows one farther up, its *jump*. The lengths of the jumps follow the
//! skew binary numbers (Myers, "An applicative random-access stack", 1983), so that any ancestor is found
//! in a number of steps that grows with the logarithm of the number of runs.

use std::ops::Range;

use crate::Seq;

/// The tree of a session's entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    runs: Vec<Run>,
    entries: u64,
}

/// Entries with consecutive numbers, each the parent of the next.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Run {
    first: Seq,
    /// What its first entry follows, and the run that has it.
    parent: Option<(Seq, usize)>,
    /// How many runs are above it.
    depth: usize,
    /// A run farther up, and the entry by which a path leaves that run.
    jump: (usize, Seq),
}

/// A place on a path: an entry and the run that has it.
#[derive(Clone, Copy)]
struct Position {
    seq: Seq,
    run: usize,
}

impl Tree {
    /// How many entries it has, on all paths.
    pub fn len(&self) -> u64 {
        self.entries
    }

    /// Whether it has no entries.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// How many runs it has.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Whether it has an entry.
    pub fn contains(&self, seq: Seq) -> bool {
        seq.0 < self.entries
    }

    /// The entry that was appended last.
    pub fn newest(&self) -> Option<Seq> {
        self.entries.checked_sub(1).map(Seq)
    }

    /// The entry that an entry of the tree follows; `None` if a conversation begins with it.
    pub fn parent(&self, seq: Seq) -> Option<Seq> {
        let run = &self.runs[self.run_of(seq)];
        if seq == run.first { run.parent.map(|(parent, _)| parent) } else { Some(Seq(seq.0 - 1)) }
    }

    /// Appends an entry, and returns its number. The parent is an entry of the tree.
    pub fn push(&mut self, parent: Option<Seq>) -> Seq {
        let seq = Seq(self.entries);
        let follows_newest = parent.is_some() && parent == self.newest();
        if !follows_newest {
            self.begin_run(seq, parent);
        }
        self.entries += 1;
        seq
    }

    /// Appends entries that each follow the one before, up to a number of entries in all.
    pub(super) fn extend_to(&mut self, entries: u64) {
        self.entries = self.entries.max(entries);
    }

    /// Forgets the entries that were appended last, but for so many.
    pub fn truncate(&mut self, entries: u64) {
        self.entries = self.entries.min(entries);
        let kept = self.runs.partition_point(|run| run.first.0 < self.entries);
        self.runs.truncate(kept);
    }

    /// The newest entry up to `limit` on the path to a head.
    pub fn ancestor(&self, head: Seq, limit: Seq) -> Option<Seq> {
        let mut at = Position { seq: head, run: self.run_of(head) };
        loop {
            let run = &self.runs[at.run];
            if limit >= run.first {
                return Some(at.seq.min(limit));
            }
            let (jump, exit) = run.jump;
            at = if self.runs[jump].first > limit && jump != at.run {
                Position { seq: exit, run: jump }
            } else {
                let (seq, run) = run.parent?;
                Position { seq, run }
            };
        }
    }

    /// Whether an entry lies on the path to a head.
    pub fn is_on_path(&self, seq: Seq, head: Seq) -> bool {
        self.ancestor(head, seq) == Some(seq)
    }

    /// The entries of a path with numbers in a range: consecutive numbers together, oldest first.
    pub fn path(&self, head: Seq, seqs: Range<u64>) -> Vec<Range<u64>> {
        let last = seqs.end.checked_sub(1).filter(|_| seqs.start < seqs.end);
        let mut next = last.and_then(|last| self.ancestor(head, Seq(last)));
        let mut ranges = Vec::new();
        while let Some(last) = next
            && last.0 >= seqs.start
        {
            let run = &self.runs[self.run_of(last)];
            ranges.push(run.first.0.max(seqs.start)..last.0 + 1);
            next = run.parent.map(|(parent, _)| parent);
        }
        ranges.reverse();
        ranges
    }

    /// The number after the last entry of the run that an entry is in.
    pub(super) fn run_end(&self, seq: Seq) -> u64 {
        self.runs.get(self.run_of(seq) + 1).map_or(self.entries, |next| next.first.0)
    }

    fn run_of(&self, seq: Seq) -> usize {
        self.runs.partition_point(|run| run.first <= seq).saturating_sub(1)
    }

    fn begin_run(&mut self, first: Seq, parent: Option<Seq>) {
        let index = self.runs.len();
        let parent = parent.map(|parent| (parent, self.run_of(parent)));
        let (depth, jump) = match parent {
            None => (0, (index, first)),
            Some((exit, above)) => (self.runs[above].depth + 1, self.jump_after(exit, above)),
        };
        self.runs.push(Run { first, parent, depth, jump });
    }

    /// The jump of a run whose paths go on through an entry of the run above it.
    fn jump_after(&self, exit: Seq, above: usize) -> (usize, Seq) {
        let depth = |run: usize| self.runs[run].depth;
        let (near, _) = self.runs[above].jump;
        let (far, far_exit) = self.runs[near].jump;
        let is_joined =
            depth(above) > depth(near) && depth(above) - depth(near) == depth(near) - depth(far);
        if is_joined { (far, far_exit) } else { (above, exit) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Trees of all shapes, each with the parents of its entries.
    fn trees() -> Vec<(Tree, Vec<Option<Seq>>)> {
        let mut seed = 7_u64;
        let mut random = move |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        let mut trees = Vec::new();
        for shape in 0..60 {
            let (mut tree, mut parents) = (Tree::default(), Vec::new());
            for seq in 0..300_u64 {
                let parent = match (seq, random(100)) {
                    (0, _) | (_, 0) => None,
                    (_, dice) if dice < shape => Some(Seq(seq.saturating_sub(1 + random(5)))),
                    (_, dice) if dice > 95 => Some(Seq(random(seq))),
                    _ => Some(Seq(seq - 1)),
                };
                tree.push(parent);
                parents.push(parent);
            }
            trees.push((tree, parents));
        }
        trees
    }

    #[test]
    fn ancestors_are_those_that_one_finds_step_by_step() {
        for (tree, parents) in trees() {
            for head in (0..tree.len()).step_by(7).map(Seq) {
                let path: Vec<Seq> =
                    std::iter::successors(Some(head), |seq| parents[seq.0 as usize]).collect();
                for limit in (0..tree.len()).map(Seq) {
                    let expected = path.iter().copied().find(|seq| *seq <= limit);
                    assert_eq!(tree.ancestor(head, limit), expected, "{head:?} {limit:?}");
                    assert_eq!(tree.is_on_path(limit, head), path.contains(&limit));
                }
                for range in [0..tree.len(), 10..40, 0..0, 200..u64::MAX] {
                    let found: Vec<u64> =
                        tree.path(head, range.clone()).into_iter().flatten().collect();
                    let expected = path.iter().rev().map(|seq| seq.0);
                    let expected: Vec<u64> = expected.filter(|seq| range.contains(seq)).collect();
                    assert_eq!(found, expected, "{head:?} {range:?}");
                }
                assert_eq!(tree.parent(head), parents[head.0 as usize]);
            }
        }
    }

    #[test]
    fn what_was_appended_last_can_be_forgotten() {
        for (mut tree, parents) in trees() {
            let all = tree.clone();
            tree.truncate(140);
            assert_eq!(tree.newest(), Some(Seq(139)));
            for parent in &parents[140..] {
                tree.push(*parent);
            }
            assert_eq!(tree, all);
        }
    }

    #[test]
    fn a_long_session_is_small_and_every_ancestor_is_near() {
        let mut tree = Tree::default();
        for seq in 0..200_000_u64 {
            tree.push(seq.checked_sub(1).map(Seq));
        }
        assert_eq!(tree.runs(), 1);
        // A client that rewrites its newest message every time: each entry begins a run.
        let mut forked = Tree::default();
        forked.push(None);
        for _ in 0..50_000_u64 {
            let parent = forked.newest().and_then(|newest| forked.parent(newest)).or(Some(Seq(0)));
            forked.push(parent);
            forked.push(forked.newest());
        }
        let head = forked.newest().unwrap_or_default();
        let (mut at, mut steps) = (forked.run_of(head), 0);
        while let Some((_, parent)) = forked.runs[at].parent {
            let (jump, _) = forked.runs[at].jump;
            at = if jump == at { parent } else { jump };
            steps += 1;
        }
        assert!(steps < 64, "{steps} steps for {} runs", forked.runs());
    }
}
