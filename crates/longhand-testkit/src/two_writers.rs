//! Seeded histories of two writers, each with a state of its own, against one storage.
//!
//! Both write to one session from states that may be old, while a third one writes between their reading and
//! their writing, writes fail, and the session is removed and begun anew. What was acknowledged is kept as
//! the definitions have it (`definition.rs`), and in the end all must agree on it.
#![allow(clippy::unwrap_used)]

mod definition;

use std::sync::{Mutex, MutexGuard, PoisonError};

use longhand_archive::{
    After, Answer, Appended, Archive, ArchiveError, Conflict, Layer, Ledger, NewBatch, NewEntry,
    Owner, Page, Storage, Undecided, Version, Write, wait,
};
use longhand_core::session::{CommitError, SessionState, Trail};
use longhand_core::{Batch, Edit, Meaning, Seq};

use self::definition::Definition;
use crate::contract::samples::{append_to, commit_to, id, named, user};
use crate::rng::Rng;

const NAME: &str = "shared";

/// How many steps a history has at most.
const STEPS_MAX: usize = 60;

/// What happened in a history.
#[derive(Clone, Copy, Debug, Default)]
pub struct Happened {
    /// Writes that were acknowledged.
    pub writes: u64,
    /// Writes that were refused because another writer was first.
    pub conflicts: u64,
    /// Writes that failed.
    pub failures: u64,
    /// How often the session was begun.
    pub births: u64,
    /// How many entries, batches and undos there were in the end.
    pub records: u64,
}

/// Plays a history of two writers; each of them has its own way to the same storage, which must be empty.
///
/// # Panics
///
/// If a writer is told something wrong, or anything that was acknowledged is lost or doubled.
pub fn play(seed: u64, one: &dyn Archive, other: &dyn Archive) -> Happened {
    let mut history = History::new(seed, [one, other]);
    for _ in 0..history.rng.range(5..STEPS_MAX) {
        let side = history.rng.range(0..2);
        history.step(side);
    }
    history.compare();
    history.happened
}

/// What a writer's way to the storage does to its writes.
struct Way<'a> {
    beneath: &'a dyn Archive,
    trouble: Mutex<Trouble>,
}

#[derive(Default)]
struct Trouble {
    /// Whether the next write fails.
    fails: bool,
    /// What a third writer appends before each of the next writes.
    intrusions: Vec<NewEntry>,
    /// What it has appended.
    intruded: Vec<NewEntry>,
    conflicts: u64,
}

impl Way<'_> {
    fn trouble(&self) -> MutexGuard<'_, Trouble> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the third writer write, if it is about to.
    fn intrude(&self) {
        let Some(entry) = self.trouble().intrusions.pop() else { return };
        match self.beneath.append(id(NAME), After::Newest, std::slice::from_ref(&entry)) {
            Ok(_) => self.trouble().intruded.push(entry),
            Err(ArchiveError::UnknownSession { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

impl Layer for Way<'_> {
    fn beneath(&self) -> &dyn Storage {
        self.beneath
    }

    fn write(&self, writes: Vec<Write>) -> Answer<'_, Vec<Result<Version, ArchiveError>>> {
        Box::pin(async move {
            self.intrude();
            if std::mem::take(&mut self.trouble().fails) {
                return Err(ArchiveError::Closed { archive: "fails".to_owned() });
            }
            let outcomes = self.beneath.write(writes).await?;
            let is_conflict = |outcome: &&Result<Version, ArchiveError>| {
                matches!(outcome, Err(ArchiveError::Conflict { conflict: Conflict::Version, .. }))
            };
            self.trouble().conflicts += outcomes.iter().filter(is_conflict).count() as u64;
            Ok(outcomes)
        })
    }
}

struct History<'a> {
    seed: u64,
    rng: Rng,
    ways: [Way<'a>; 2],
    ledgers: [Option<Ledger>; 2],
    /// The session as it must be; `None` while there is none.
    session: Option<Definition>,
    /// Entries that were ever made up: each says something of its own.
    said: u64,
    happened: Happened,
}

impl<'a> History<'a> {
    fn new(seed: u64, archives: [&'a dyn Archive; 2]) -> Self {
        Self {
            seed,
            rng: Rng::new(seed),
            ways: archives.map(|beneath| Way { beneath, trouble: Mutex::default() }),
            ledgers: [None, None],
            session: None,
            said: 0,
            happened: Happened::default(),
        }
    }

    fn step(&mut self, side: usize) {
        match self.rng.range(0..100) {
            0..3 => self.remove(side),
            3..13 => self.refresh(side),
            13..16 => self.ledgers[side] = None,
            _ => {
                self.meet_trouble(side);
                self.write(side);
                self.ways[side].trouble().fails = false;
                self.ways[side].trouble().intrusions.clear();
            }
        }
    }

    fn meet_trouble(&mut self, side: usize) {
        let fails = self.rng.chance(0.07);
        let count = if self.rng.chance(0.2) { self.rng.range(1..4) } else { 0 };
        let intrusions = (0..count).map(|_| self.entry()).collect();
        let mut trouble = self.ways[side].trouble();
        (trouble.fails, trouble.intrusions) = (fails, intrusions);
    }

    fn remove(&mut self, side: usize) {
        let is_there = self.ways[side].beneath.remove(id(NAME)).unwrap();
        assert_eq!(is_there, self.session.take().is_some(), "seed {}", self.seed);
    }

    fn refresh(&mut self, side: usize) {
        let Some(ledger) = &mut self.ledgers[side] else { return };
        let is_begun = ledger.state.written() != Version::default();
        let is_there = wait(ledger.refresh(&self.ways[side])).unwrap();
        assert_eq!(is_there, self.session.is_some(), "seed {}", self.seed);
        if !is_there && is_begun {
            self.ledgers[side] = None;
        }
    }

    /// A message: one of few meanings, an odd one of which is silent, in words of its own.
    fn entry(&mut self) -> NewEntry {
        self.said += 1;
        let meaning = Meaning(self.rng.range(0..8) as u128);
        NewEntry { meaning, opens_round: self.rng.chance(0.4), ..user(&self.said.to_string()) }
    }

    /// Some entry of a state, or rarely one that it does not have.
    fn place(&mut self, state: &SessionState) -> Option<Seq> {
        let entries = state.tree().len() as usize + usize::from(self.rng.chance(0.05));
        if entries == 0 || self.rng.chance(0.1) {
            return None;
        }
        // Mostly a recent one, so that paths get long.
        let near = self.rng.range(0..entries.min(4));
        let any = self.rng.range(0..entries);
        Some(Seq(if self.rng.chance(0.7) { entries - 1 - near } else { any } as u64))
    }

    /// A batch for a path of a state, which builds on what is live there, mostly.
    fn batch(&mut self, state: &SessionState, head: Seq) -> NewBatch {
        let path: Vec<u64> = if state.tree().contains(head) {
            state.tree().path(head, 0..u64::MAX).into_iter().flatten().collect()
        } else {
            vec![head.0]
        };
        let count = self.rng.range(0..3);
        let edits = (0..count).map(|_| {
            let is_stray = self.rng.chance(0.05);
            let after =
                if is_stray { self.rng.range(0..9) as u64 } else { *self.rng.choose(&path) };
            Edit::Insert { after: Seq(after), text: String::new() }
        });
        let edits = edits.collect();
        let is_there = state.tree().contains(head);
        let newest = is_there.then(|| state.live(Some(head)).last().copied()).flatten();
        let after = newest.unwrap_or(0) + u64::from(self.rng.chance(0.05));
        NewBatch { after, batch: Batch { head, edits, ..Batch::default() }, ..NewBatch::default() }
    }

    /// Has a writer write something from the state that it has.
    fn write(&mut self, side: usize) {
        let new = named(Owner::LOCAL, NAME);
        let open = || wait(Ledger::open_or_begin(&self.ways[side], id(NAME), &new)).unwrap();
        let mut ledger = self.ledgers[side].take().unwrap_or_else(open);
        let before = ledger.clone();
        let place = self.place(&ledger.state);
        let outcome = match self.rng.range(0..10) {
            0..5 => self.append(side, &mut ledger, place),
            5 | 6 => self.commit(side, &mut ledger, place.unwrap_or_default()),
            7 => self.undo(side, &mut ledger, place),
            8 => self.pin(side, &mut ledger, place.unwrap_or_default()),
            _ => self.append_and_commit(side, &mut ledger, place),
        };
        match outcome {
            Ok(()) => {}
            Err(ArchiveError::UnknownSession { .. }) => {
                assert!(self.session.is_none(), "seed {}", self.seed);
                return;
            }
            Err(ArchiveError::Closed { .. }) => {
                self.happened.failures += 1;
                // Nothing of it was made, here or there.
                if ledger.state.written() == before.state.written() {
                    assert_same(&ledger.state, &before.state, self.seed);
                }
            }
            // Another session has the id now, and not so many entries.
            Err(ArchiveError::NoSuchEntries { .. }) => return,
            Err(error) => panic!("seed {}: {error}", self.seed),
        }
        self.ledgers[side] = Some(ledger);
    }

    /// Whether a state is that of the storage. If so, what it has just answered can be checked.
    ///
    /// What needs no write is answered from the state that a writer has, however old.
    fn is_current(&self, ledger: &Ledger) -> bool {
        let opened = wait(self.ways[0].beneath.open(id(NAME), Version::default())).unwrap();
        opened.is_some_and(|opened| opened.news.version == ledger.state.written())
    }

    /// Takes note of what the third writer did, and of a session that has begun meanwhile.
    fn catch_up(&mut self, side: usize, ledger: &Ledger) {
        let mut trouble = self.ways[side].trouble();
        self.happened.conflicts += std::mem::take(&mut trouble.conflicts);
        let intruded = std::mem::take(&mut trouble.intruded);
        drop(trouble);
        for entry in intruded {
            let session = self.session.as_mut().unwrap();
            let newest = session.newest();
            assert_eq!(session.append(newest, &[entry]).1, 1);
        }
        if self.session.is_none() && self.is_current(ledger) {
            self.session = Some(Definition::new(Owner::LOCAL.root()));
            self.happened.births += 1;
        }
    }

    fn append(
        &mut self,
        side: usize,
        ledger: &mut Ledger,
        place: Option<Seq>,
    ) -> Result<(), ArchiveError> {
        let entries: Vec<NewEntry> = (0..self.rng.range(1..5)).map(|_| self.entry()).collect();
        let after = if self.rng.chance(0.3) { After::Newest } else { After::Entry(place) };
        let outcome = wait(ledger.append(&self.ways[side], after, &entries));
        self.catch_up(side, ledger);
        let is_current = self.is_current(ledger);
        match outcome {
            Ok(Appended { seqs, new, .. }) if is_current => {
                let session = self.session.as_mut().unwrap();
                let after = match after {
                    After::Newest => session.newest(),
                    After::Entry(after) => after,
                };
                assert_eq!(session.append(after, &entries), (seqs, new), "seed {}", self.seed);
                self.happened.writes += u64::from(new > 0);
                Ok(())
            }
            Ok(Appended { new, .. }) => {
                assert_eq!(new, 0, "seed {}: acknowledged, but not there", self.seed);
                Ok(())
            }
            Err(ArchiveError::NoSuchEntries { .. }) => {
                let session = self.session.as_ref().filter(|_| is_current);
                if let Some(session) = session {
                    let After::Entry(Some(seq)) = after else { panic!("seed {}", self.seed) };
                    assert!(!session.contains(seq), "seed {}", self.seed);
                }
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn commit(&mut self, side: usize, ledger: &mut Ledger, head: Seq) -> Result<(), ArchiveError> {
        let new = self.batch(&ledger.state, head);
        let outcome = wait(ledger.commit(&self.ways[side], &new));
        self.catch_up(side, ledger);
        let is_current = self.is_current(ledger);
        let refused = match outcome {
            Ok(number) => {
                assert!(is_current, "seed {}: acknowledged, but not there", self.seed);
                let session = self.session.as_mut().unwrap();
                assert_eq!(session.commit(&new.batch, new.after), Ok(number), "{}", self.seed);
                self.happened.writes += 1;
                return Ok(());
            }
            Err(ArchiveError::NoSuchEntries { .. }) => CommitError::NoSuchEntry(head),
            Err(ArchiveError::NotOnPath { entry, .. }) => CommitError::NotOnPath(entry),
            Err(ArchiveError::Conflict { conflict: Conflict::Batch { newest, .. }, .. }) => {
                CommitError::NotNewest(newest)
            }
            Err(error) => return Err(error),
        };
        if is_current {
            let mut session = self.session.clone().unwrap();
            assert_eq!(session.commit(&new.batch, new.after), Err(refused), "seed {}", self.seed);
        }
        Ok(())
    }

    fn undo(
        &mut self,
        side: usize,
        ledger: &mut Ledger,
        head: Option<Seq>,
    ) -> Result<(), ArchiveError> {
        let decide = |state: &mut SessionState, write: &mut Write| {
            let head = head.filter(|head| state.tree().contains(*head));
            let newest = state.live(state.head(head)).pop();
            if let Some(number) = newest {
                state.undo(number);
                write.undos.push(number);
            }
            Ok(newest)
        };
        let outcome = wait(ledger.change(&self.ways[side], decide));
        self.catch_up(side, ledger);
        let undone = outcome?;
        if self.is_current(ledger) {
            let session = self.session.as_mut().unwrap();
            let head = head.filter(|head| session.contains(*head)).or(session.newest());
            assert_eq!(session.undo(head), undone, "seed {}", self.seed);
            self.happened.writes += u64::from(undone.is_some());
        } else {
            assert_eq!(undone, None, "seed {}: acknowledged, but not there", self.seed);
        }
        Ok(())
    }

    fn pin(&mut self, side: usize, ledger: &mut Ledger, entry: Seq) -> Result<(), ArchiveError> {
        let is_pinned = self.rng.chance(0.6);
        let decide = |state: &mut SessionState, write: &mut Write| {
            if state.tree().contains(entry) {
                write.pins = state.pinned(entry, is_pinned);
                if let Some(pins) = &write.pins {
                    state.set_pins(pins.clone());
                }
            }
            Ok(write.pins.is_some())
        };
        let outcome = wait(ledger.change(&self.ways[side], decide));
        self.catch_up(side, ledger);
        let is_changed = outcome?;
        if self.is_current(ledger) {
            let session = self.session.as_mut().unwrap();
            let is_change = session.contains(entry)
                && if is_pinned { session.pins.insert(entry) } else { session.pins.remove(&entry) };
            assert_eq!(is_change, is_changed, "seed {}", self.seed);
            self.happened.writes += u64::from(is_changed);
        } else {
            assert!(!is_changed, "seed {}: acknowledged, but not there", self.seed);
        }
        Ok(())
    }

    /// Appends, and commits a batch that edits what was appended, in one write: as a proxy does.
    fn append_and_commit(
        &mut self,
        side: usize,
        ledger: &mut Ledger,
        place: Option<Seq>,
    ) -> Result<(), ArchiveError> {
        let entries: Vec<NewEntry> = (0..self.rng.range(1..4)).map(|_| self.entry()).collect();
        let parent = |is_there: bool| place.filter(|_| is_there);
        let batch = |head: Seq, after: u64| {
            let edits = vec![Edit::Insert { after: head, text: String::new() }];
            let batch = Batch { head, edits, ..Batch::default() };
            NewBatch { after, batch, ..NewBatch::default() }
        };
        let decide = |state: &mut SessionState, write: &mut Write| {
            let parent = parent(place.is_some_and(|place| state.tree().contains(place)));
            let seqs = append_to(state, write, parent, &entries).map_err(Undecided::Lack)?;
            let head = seqs.last().copied().unwrap();
            let after = state.live(Some(head)).last().copied().unwrap_or(0);
            Ok((seqs, commit_to(state, write, &batch(head, after))))
        };
        let outcome = wait(ledger.change(&self.ways[side], decide));
        self.catch_up(side, ledger);
        let (seqs, number) = outcome?;
        assert!(self.is_current(ledger), "seed {}: acknowledged, but not there", self.seed);
        let session = self.session.as_mut().unwrap();
        let parent = parent(place.is_some_and(|place| session.contains(place)));
        assert_eq!(session.append(parent, &entries).0, seqs, "seed {}", self.seed);
        let head = seqs.last().copied().unwrap();
        let after = session.live(Some(head)).last().copied().unwrap_or(0);
        let new = batch(head, after);
        assert_eq!(session.commit(&new.batch, after), Ok(number), "seed {}", self.seed);
        self.happened.writes += 1;
        Ok(())
    }

    /// Compares all that the writers and the storage have with the definitions.
    fn compare(&mut self) {
        for side in 0..2 {
            self.refresh(side);
        }
        let seed = self.seed;
        let archive = self.ways[0].beneath;
        let opened = wait(Ledger::open(archive, id(NAME))).unwrap();
        let Some(session) = &self.session else {
            assert!(opened.is_none(), "seed {seed}");
            return;
        };
        let opened = opened.unwrap();
        for (way, ledger) in self.ways.iter().zip(&mut self.ledgers) {
            let Some(ledger) = ledger else { continue };
            assert_eq!(ledger.opened, opened.opened, "seed {seed}");
            assert_same(&ledger.state, &opened.state, seed);
            check_state(&ledger.state, session, seed);
            check_follow(way, ledger, session, &mut self.rng, seed);
        }
        check_state(&opened.state, session, seed);
        assert_eq!(archive.tree(id(NAME)).unwrap(), session.entries, "seed {seed}");
        let entries = archive.entries(id(NAME), 0..u64::MAX).unwrap();
        assert!(entries.iter().map(|entry| &entry.raw).eq(&session.raw), "seed {seed}");
        let batches = archive.batches(id(NAME), Page::ALL).unwrap().items;
        let logged = batches.iter().rev().map(|batch| (batch.number, batch.after, batch.is_live));
        let expected = (1..).zip(&session.log);
        let expected =
            expected.map(|(number, (after, _))| (number, *after, session.is_live(number)));
        assert!(logged.eq(expected), "seed {seed}");
        let records = session.entries.len() + session.log.len() + session.undone.len();
        self.happened.records = records as u64;
        for way in &self.ways {
            assert_eq!(way.beneath.verify(None).unwrap(), [], "seed {seed}");
        }
    }
}

fn assert_same(one: &SessionState, other: &SessionState, seed: u64) {
    assert_eq!(one.written(), other.written(), "seed {seed}");
    assert_eq!((one.tree(), one.log()), (other.tree(), other.log()), "seed {seed}");
    assert_eq!(one.pins(), other.pins(), "seed {seed}");
}

/// Compares a state with the definitions.
fn check_state(state: &SessionState, session: &Definition, seed: u64) {
    assert_eq!(state.tree().len(), session.entries.len() as u64, "seed {seed}");
    assert_eq!(state.log().len(), session.log.len() as u64, "seed {seed}");
    assert_eq!(state.log().undone(), session.undone, "seed {seed}");
    assert!(state.pins().iter().eq(&session.pins), "seed {seed}");
    for node in &session.entries {
        let seq = node.seq;
        assert_eq!(state.tree().parent(seq), node.parent, "seed {seed}: {seq:?}");
        assert!(state.link(seq).is_none_or(|link| link == node.link), "seed {seed}: {seq:?}");
        assert!(
            state.round(seq).is_ok_and(|round| round == node.round) || state.round(seq).is_err()
        );
        assert_eq!(state.live(Some(seq)), session.live(Some(seq)), "seed {seed}: {seq:?}");
        let path = state.tree().path(seq, 0..u64::MAX).into_iter().flatten().map(Seq);
        assert!(path.eq(session.path(Some(seq))), "seed {seed}: {seq:?}");
    }
}

/// Follows conversations in a state and in the definitions, known ones and such that go on otherwise.
fn check_follow(
    way: &Way<'_>,
    ledger: &mut Ledger,
    session: &Definition,
    rng: &mut Rng,
    seed: u64,
) {
    for _ in 0..8 {
        let entries = session.entries.len();
        if entries == 0 {
            return;
        }
        let head = Some(Seq(rng.range(0..entries) as u64));
        let path = session.path(head);
        let start = rng.range(0..path.len() + 1);
        let after = start.checked_sub(1).map(|start| path[start]);
        let mut links: Vec<_> =
            path[start..].iter().map(|seq| session.entries[seq.0 as usize].link).collect();
        if rng.chance(0.5) {
            links.retain(|link| !link.is_silent());
        }
        if rng.chance(0.5) {
            let last = links.last().copied().unwrap_or(session.root);
            links.push(last.next(Meaning(rng.range(0..8) as u128)));
        }
        let ask = |state: &mut SessionState| {
            let mut trail = Trail::after(after);
            state.follow(&mut trail, &links).map_err(Undecided::Lack)?;
            Ok(trail)
        };
        let trail = wait(ledger.ask(way, ask)).unwrap();
        let (end, seqs) = session.follow(after, &links);
        assert_eq!((trail.head(), trail.seqs), (end, seqs), "seed {seed}: {after:?} {links:?}");
    }
}
