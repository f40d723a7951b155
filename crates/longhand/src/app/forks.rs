//! The other paths of a session, as branches of a tree.

use std::collections::HashMap;

use longhand_archive::{Node, SessionInfo};
use longhand_core::Seq;
use serde::{Deserialize, Serialize};

use super::{App, AppError, Timestamp};

/// Another path of a session, apart from the one that it leaves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Fork {
    /// The entry after which it leaves; `None` if it has a beginning of its own.
    pub after: Option<u64>,
    /// Its first entry.
    pub first: u64,
    /// Its last entry.
    pub last: u64,
    /// How many entries it has.
    pub entries: u64,
    /// The user's first words on it.
    pub task: String,
    /// The time of its newest entry.
    pub at: Timestamp,
    /// Those that leave it in turn, newest first.
    pub forks: Vec<Self>,
}

impl App {
    /// The other paths of a session, with their first words.
    pub(super) fn forks_of(&self, info: &SessionInfo) -> Result<Vec<Fork>, AppError> {
        let branches = forks(&self.archive.tree(info.id)?);
        Ok(branches.iter().map(|branch| self.fork(info, branch)).collect())
    }

    fn fork(&self, info: &SessionInfo, branch: &Branch) -> Fork {
        let (task, at_ms) = self.words_of(info.id, &branch.entries);
        let place = |seq: Option<&Seq>| seq.map_or(0, |seq| seq.0);
        Fork {
            after: branch.after.map(|seq| seq.0),
            first: place(branch.entries.first()),
            last: place(branch.entries.last()),
            entries: branch.entries.len() as u64,
            task,
            at: Timestamp(at_ms.unwrap_or(info.last_ms)),
            forks: branch.forks.iter().map(|branch| self.fork(info, branch)).collect(),
        }
    }
}

/// Entries that follow one another, apart from the path that they leave.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Branch {
    /// The entry after which it leaves; `None` if it has a beginning of its own.
    after: Option<Seq>,
    /// Its entries, oldest first; there is at least one.
    entries: Vec<Seq>,
    /// Those that leave it in turn, newest first.
    forks: Vec<Self>,
}

/// Every path but the newest one, which is what `show` shows; newest first.
fn forks(nodes: &[Node]) -> Vec<Branch> {
    let mut children: HashMap<Option<Seq>, Vec<Seq>> = HashMap::new();
    // The newest entry on any path through an entry. A child has a greater number than its parent.
    let mut newest: HashMap<Seq, Seq> = HashMap::new();
    for node in nodes.iter().rev() {
        children.entry(node.parent).or_default().push(node.seq);
        let through = *newest.entry(node.seq).or_insert(node.seq);
        if let Some(parent) = node.parent {
            let known = newest.entry(parent).or_insert(through);
            *known = through.max(*known);
        }
    }
    for siblings in children.values_mut() {
        siblings.sort_by_key(|seq| std::cmp::Reverse(newest.get(seq).copied()));
    }
    branches(&children, None)
}

/// Follows the newest path from the children of an entry to its end, and gathers what leaves it.
///
/// It loops along a path, which may be long, and recurses only into forks of forks, which are few.
fn branches(children: &HashMap<Option<Seq>, Vec<Seq>>, from: Option<Seq>) -> Vec<Branch> {
    let mut found = Vec::new();
    let mut at = from;
    while let Some(siblings) = children.get(&at) {
        found.extend(siblings.iter().skip(1).map(|first| fork(children, at, *first)));
        at = siblings.first().copied();
    }
    found.sort_by_key(|fork| std::cmp::Reverse(fork.entries.last().copied()));
    found
}

fn fork(children: &HashMap<Option<Seq>, Vec<Seq>>, after: Option<Seq>, first: Seq) -> Branch {
    let mut entries = vec![first];
    let mut at = first;
    while let Some(next) = children.get(&Some(at)).and_then(|siblings| siblings.first()) {
        entries.push(*next);
        at = *next;
    }
    Branch { after, entries, forks: branches(children, Some(first)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhand_core::Link;

    /// A tree from the parent of each entry, and its forks as `after>first-last(…)`.
    fn shown(parents: &[Option<u64>]) -> String {
        let node = |(seq, parent): (usize, &Option<u64>)| Node {
            seq: Seq(seq as u64),
            parent: parent.map(Seq),
            link: Link(0),
            round: 0,
        };
        let nodes: Vec<Node> = parents.iter().enumerate().map(node).collect();
        text(&forks(&nodes))
    }

    fn text(forks: &[Branch]) -> String {
        let one = |fork: &Branch| {
            let after = fork.after.map_or("-".to_owned(), |seq| seq.0.to_string());
            let entries: Vec<String> = fork.entries.iter().map(|seq| seq.0.to_string()).collect();
            let below = text(&fork.forks);
            let below = if below.is_empty() { below } else { format!("({below})") };
            format!("{after}>{}{below}", entries.join(","))
        };
        forks.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_straight_path_has_no_forks() {
        assert_eq!(shown(&[]), "");
        assert_eq!(shown(&[None, Some(0), Some(1)]), "");
    }

    #[test]
    fn the_newest_path_is_the_conversation_and_others_leave_it() {
        // 0 1 2 3, rewound to 1: 4 5.
        assert_eq!(shown(&[None, Some(0), Some(1), Some(2), Some(1), Some(4)]), "1>2,3");
        // The old path was taken up again.
        assert_eq!(shown(&[None, Some(0), Some(1), Some(1), Some(2)]), "1>3");
    }

    #[test]
    fn a_fork_of_a_fork_is_below_it_and_another_beginning_is_a_fork() {
        let parents = [None, Some(0), Some(1), Some(2), Some(2), Some(0), None, Some(6), Some(5)];
        assert_eq!(shown(&parents), "->6,7 0>1,2,4(2>3)");
    }

    #[test]
    fn a_long_path_takes_no_stack() {
        let parents: Vec<Option<u64>> =
            (0..200_000).map(|seq: u64| seq.checked_sub(1)).chain([Some(3)]).collect();
        assert!(shown(&parents).starts_with("3>4,5,"));
    }
}
