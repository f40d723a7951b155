//! The state of a session against its definitions, which walk whole paths.

use std::collections::BTreeSet;

use super::*;
use crate::Edit;

/// A session that follows the definitions word for word.
#[derive(Default)]
struct Definition {
    entries: Vec<Node>,
    log: Vec<(BatchLine, Vec<Seq>)>,
    undone: BTreeSet<u64>,
}

impl Definition {
    fn path(&self, head: Option<Seq>) -> Vec<Seq> {
        let parent = |seq: &Seq| self.entries[seq.0 as usize].parent;
        let mut path: Vec<Seq> = std::iter::successors(head, parent).collect();
        path.reverse();
        path
    }

    /// The entries with a link that follow another one, or only silent ones after it.
    fn children(&self, parent: Option<Seq>, link: Link) -> Vec<Seq> {
        let children = self.entries.iter().filter(|node| node.parent == parent);
        let found = children.flat_map(|node| match node {
            node if node.link == link => vec![node.seq],
            node if node.link.is_silent() && !link.is_silent() => {
                self.children(Some(node.seq), link)
            }
            _ => Vec::new(),
        });
        found.collect()
    }

    /// The newest of the longest paths after an entry that have the links, with how many of them.
    fn follow(&self, after: Option<Seq>, links: &[Link]) -> (Option<Seq>, usize) {
        let mut ends: Vec<Option<Seq>> = vec![after];
        for (known, link) in links.iter().enumerate() {
            let next = ends.iter().flat_map(|end| self.children(*end, *link)).map(Some);
            let next: Vec<Option<Seq>> = next.collect();
            if next.is_empty() {
                return (ends.into_iter().max().flatten(), known);
            }
            ends = next;
        }
        (ends.into_iter().max().flatten(), links.len())
    }

    fn is_live(&self, number: u64) -> bool {
        let (line, _) = &self.log[number as usize - 1];
        !self.undone.contains(&number) && (line.after == 0 || self.is_live(line.after))
    }

    /// The entries that a batch and those that it builds on edit.
    fn edited(&self, number: u64) -> Vec<Seq> {
        let Some((line, edited)) = number.checked_sub(1).map(|index| &self.log[index as usize])
        else {
            return Vec::new();
        };
        edited.iter().copied().chain(self.edited(line.after)).collect()
    }

    fn live(&self, head: Option<Seq>) -> Vec<u64> {
        let path = self.path(head);
        let live = (1..=self.log.len() as u64).filter(|number| self.is_live(*number));
        let applies = |number: &u64| self.edited(*number).iter().all(|seq| path.contains(seq));
        let reach = |number: &u64| (self.edited(*number).into_iter().max(), *number);
        let newest = live.filter(applies).max_by_key(reach);
        let before =
            |number: &u64| Some(self.log[*number as usize - 1].0.after).filter(|after| *after > 0);
        let mut chain: Vec<u64> = std::iter::successors(newest, before).collect();
        chain.reverse();
        chain
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

const ROOT: Link = Link(0);

/// One of few messages; an odd one is silent.
fn meaning(random: &mut Random) -> crate::Meaning {
    crate::Meaning(u128::from(random.below(8)))
}

/// Follows links in both and compares; what the state lacks is told from the definition.
fn follow(
    state: &mut SessionState,
    definition: &Definition,
    after: Option<Seq>,
    links: &[Link],
) -> Trail {
    let trail = loop {
        let mut trail = Trail::after(after);
        match state.follow(&mut trail, links) {
            Ok(()) => break trail,
            Err(Lack(ranges)) => {
                let seqs: Vec<u64> = ranges.into_iter().flatten().collect();
                assert!(!seqs.is_empty() && seqs.len() <= links.len());
                for seq in seqs {
                    assert_eq!(state.link(Seq(seq)), None);
                    state.learn(&[definition.entries[seq as usize]]).unwrap();
                }
            }
        }
    };
    let (end, known) = definition.follow(after, links);
    assert_eq!((trail.head(), trail.seqs.len()), (end, known));
    let found = trail.seqs.iter().map(|seq| definition.entries[seq.0 as usize].link);
    assert!(found.eq(links[..known].iter().copied()));
    if known > 0 {
        let skipped = after.map_or(0, |after| definition.path(Some(after)).len() - 1);
        assert_eq!(trail.path, definition.path(end)[skipped..]);
    }
    trail
}

/// The news of a definition since a version.
fn news(definition: &Definition, since: Version, undone: &[u64], pins: &[Seq]) -> News {
    let new = definition.entries.iter().skip(since.entries as usize);
    let is_fork =
        |node: &&Node| node.parent.is_none() || node.parent != node.seq.0.checked_sub(1).map(Seq);
    let fork = |node: &Node| Fork { first: node.seq, parent: node.parent, link: node.link };
    News {
        version: Version {
            birth: 1,
            entries: definition.entries.len() as u64,
            batches: definition.log.len() as u64,
            undos: undone.len() as u64,
            pins: 0,
        },
        newest: definition.entries.last().copied(),
        forks: new.filter(is_fork).map(fork).collect(),
        batches: definition
            .log
            .iter()
            .skip(since.batches as usize)
            .map(|(line, _)| *line)
            .collect(),
        undone: undone[since.undos as usize..].to_vec(),
        pins: pins.to_vec(),
    }
}

#[test]
fn a_state_decides_as_the_definitions_do() {
    for seed in 0..300 {
        let mut random = Random(seed);
        let mut definition = Definition::default();
        let mut undone = Vec::new();
        // One that makes the changes, and one that hears of them now and then.
        let (mut state, mut other) = (SessionState::new(ROOT), SessionState::new(ROOT));
        for _ in 0..40 {
            let entries = definition.entries.len() as u64;
            let head = (entries > 0).then(|| Seq(random.below(entries)));
            match random.below(10) {
                0..=5 => {
                    let after = head.filter(|_| random.below(4) > 0);
                    let mut chain = state.chain_after(after).unwrap();
                    for _ in 0..=random.below(4) {
                        chain.push(meaning(&mut random));
                    }
                    let mut trail = follow(&mut state, &definition, after, chain.links());
                    let known = trail.seqs.len();
                    let new = chain.links()[known..].iter().map(|link| (*link, false));
                    definition.entries.extend(state.extend(&mut trail, new).unwrap());
                }
                6 | 7 if head.is_some() => {
                    let head = head.unwrap_or_default();
                    let path = definition.path(Some(head));
                    let edited = path[random.below(path.len() as u64) as usize];
                    let edits = vec![Edit::Insert { after: edited, text: String::new() }];
                    let batch = Batch { head, edits, ..Batch::default() };
                    let after = definition.live(Some(head)).last().copied().unwrap_or(0);
                    assert_eq!(
                        state.check_commit(&batch, after + 1),
                        Err(CommitError::NotNewest(after))
                    );
                    let line = state.check_commit(&batch, after).unwrap();
                    state.commit(line);
                    definition.log.push((line, vec![edited]));
                }
                8 => {
                    if let Some(newest) = state.live(head).last() {
                        state.undo(*newest);
                        definition.undone.insert(*newest);
                        undone.push(*newest);
                    }
                }
                _ => {
                    let news = news(&definition, other.written(), &undone, &[]);
                    other.apply(news).unwrap();
                }
            }
            for head in (0..definition.entries.len() as u64).map(Seq).map(Some).chain([None]) {
                assert_eq!(state.live(head), definition.live(head), "seed {seed}, {head:?}");
            }
        }
        other.apply(news(&definition, other.written(), &undone, &[])).unwrap();
        assert_eq!((other.tree(), other.log()), (state.tree(), state.log()), "seed {seed}");
        for node in &definition.entries {
            let links: Vec<Link> = definition
                .path(Some(node.seq))
                .iter()
                .map(|seq| definition.entries[seq.0 as usize].link)
                .collect();
            follow(&mut other, &definition, None, &links);
        }
    }
}

#[test]
fn what_is_not_written_can_be_forgotten() {
    for seed in 0..100 {
        let mut random = Random(seed);
        let mut state = SessionState::new(ROOT);
        let extend = |state: &mut SessionState, random: &mut Random| {
            let entries = state.tree().len();
            let after = (entries > 0).then(|| Seq(random.below(entries)));
            let mut chain = state.chain_after(after).unwrap();
            chain.push(meaning(random));
            let mut trail = Trail::after(after);
            state.follow(&mut trail, chain.links()).unwrap();
            let known = trail.seqs.len();
            let links: Vec<Link> = chain.links()[known..].to_vec();
            state.extend(&mut trail, links.into_iter().map(|link| (link, true))).unwrap();
        };
        for _ in 0..20 {
            extend(&mut state, &mut random);
        }
        state.commit(BatchLine { after: 0, reach: None });
        let version =
            Version { birth: 1, entries: state.tree().len(), batches: 1, undos: 0, pins: 0 };
        state.wrote(version);
        let written = state.clone();
        for _ in 0..20 {
            extend(&mut state, &mut random);
        }
        state.commit(BatchLine { after: 1, reach: None });
        state.undo(1);
        state.rewind();
        assert_eq!((state.tree(), state.log()), (written.tree(), written.log()), "seed {seed}");
        assert_eq!((&state.known, &state.forks), (&written.known, &written.forks));
    }
}

#[test]
fn news_that_contradict_themselves_are_refused() {
    let fork = |first, parent: Option<u64>| Fork {
        first: Seq(first),
        parent: parent.map(Seq),
        link: Link(2),
    };
    let version = Version { birth: 1, entries: 3, ..Version::default() };
    let sound = News { version, forks: vec![fork(0, None), fork(2, Some(0))], ..News::default() };
    assert_eq!(SessionState::new(ROOT).apply(sound.clone()), Ok(()));
    let batch = BatchLine { after: 0, reach: Some(Seq(3)) };
    for news in [
        News { forks: Vec::new(), ..sound.clone() },
        News { forks: vec![fork(1, None)], ..sound.clone() },
        News { forks: vec![fork(0, Some(0))], ..sound.clone() },
        News { forks: vec![fork(0, None), fork(2, Some(2))], ..sound.clone() },
        News { forks: vec![fork(0, None), fork(3, Some(0))], ..sound.clone() },
        News { batches: vec![batch], version: Version { batches: 1, ..version }, ..sound.clone() },
        News { undone: vec![1], ..sound },
    ] {
        assert_eq!(SessionState::new(ROOT).apply(news.clone()), Err(Unfit), "{news:?}");
    }
}

/// A client may send any number of messages that only think.
#[test]
fn many_silent_messages_are_passed_over() {
    let mut state = SessionState::new(ROOT);
    let mut chain = Chain::new(ROOT);
    for meaning in std::iter::once(2).chain((0..200_000).map(|number| 2 * number + 1)).chain([4]) {
        chain.push(crate::Meaning(meaning));
    }
    let links = chain.links().iter().map(|link| (*link, false));
    state.extend(&mut Trail::default(), links).unwrap();
    let said: Vec<Link> = chain.said().collect();
    let mut trail = Trail::default();
    state.follow(&mut trail, &said).unwrap();
    assert_eq!(trail.seqs, [Seq(0), Seq(200_001)]);
    assert_eq!(trail.path.len(), 200_002);
}
