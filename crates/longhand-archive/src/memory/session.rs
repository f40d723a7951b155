//! One session of an archive in memory.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use longhand_core::Seq;
use longhand_core::{Handle, Link};

use crate::codec::{self, Target};
use crate::{
    After, Appended, ArchiveError, Conflict, Cursor, Entry, Expected, Head, LoggedBatch, NewBatch,
    NewEntry, NewSession, PreambleId, Record, Reference, Request, SessionId, SessionInfo,
};

#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) id: SessionId,
    pub(super) new: NewSession,
    /// Its number among all sessions ever begun.
    pub(super) order: u64,
    entries: Vec<StoredEntry>,
    /// The newest entry with a link.
    linked: HashMap<Link, Seq>,
    /// The silent entries that follow an entry, oldest first.
    silent: HashMap<Option<Seq>, Vec<Seq>>,
    log: Vec<LoggedBatch>,
    /// In the order in which they were undone.
    undone: Vec<u64>,
    pins: BTreeSet<Seq>,
    /// The batch that had a handle first.
    references: HashMap<Handle, u64>,
    /// With their numbers among the requests of all sessions.
    pub(super) requests: Vec<(u64, Request)>,
    pub(super) derived: HashMap<String, String>,
}

#[derive(Clone, Debug)]
struct StoredEntry {
    entry: Entry,
    /// The entry before it that has the same link.
    same_link: Option<Seq>,
    /// What search sees of it.
    text: String,
    /// Its number among the entries of all sessions.
    order: u64,
}

impl Session {
    pub(super) fn new(id: SessionId, order: u64, new: NewSession) -> Self {
        Self {
            id,
            new,
            order,
            entries: Vec::new(),
            linked: HashMap::new(),
            silent: HashMap::new(),
            log: Vec::new(),
            undone: Vec::new(),
            pins: BTreeSet::new(),
            references: HashMap::new(),
            requests: Vec::new(),
            derived: HashMap::new(),
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.entries.len() as u64
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().map(|stored| &stored.entry)
    }

    pub(super) fn entry(&self, seq: Seq) -> &Entry {
        &self.entries[seq.0 as usize].entry
    }

    pub(super) fn text(&self, seq: Seq) -> &str {
        &self.entries[seq.0 as usize].text
    }

    pub(super) fn order_of(&self, seq: Seq) -> u64 {
        self.entries[seq.0 as usize].order
    }

    pub(super) fn by_link(&self, link: Link) -> Option<Seq> {
        self.linked.get(&link).copied()
    }

    /// How recently an entry was appended, and for sessions without entries, which is newer.
    pub(super) fn activity(&self) -> Cursor {
        let major = self.entries.last().map_or(0, |stored| stored.order);
        Cursor { major, minor: self.order }
    }

    fn newest(&self) -> Option<Seq> {
        self.entries.last().map(|stored| stored.entry.seq)
    }

    fn require(&self, seq: Seq) -> Result<(), ArchiveError> {
        let entries = self.count();
        if seq.0 < entries {
            return Ok(());
        }
        let range = seq.0..seq.0.saturating_add(1);
        Err(ArchiveError::NoSuchEntries { session: self.id, range, entries })
    }

    /// The path to an entry, oldest first.
    pub(super) fn path(&self, head: Option<Seq>) -> Result<Vec<Seq>, ArchiveError> {
        head.map_or(Ok(()), |head| self.require(head))?;
        let head = head.or(self.newest());
        let mut path: Vec<Seq> =
            std::iter::successors(head, |seq| self.entry(*seq).parent).collect();
        path.reverse();
        Ok(path)
    }

    pub(super) fn append(
        &mut self,
        after: After,
        entries: &[NewEntry],
        order: u64,
    ) -> Result<Appended, ArchiveError> {
        let mut parent = match after {
            After::Newest => self.newest(),
            After::Entry(parent) => parent,
        };
        parent.map_or(Ok(()), |parent| self.require(parent))?;
        let round = parent.map_or(0, |parent| self.entry(parent).round);
        let mut appended = Appended { round, ..Appended::default() };
        for new in entries {
            let link = self.chained(parent).next(new.meaning);
            let seq = if let Some(seq) = self.child(parent, link) {
                seq
            } else {
                appended.new += 1;
                self.push(parent, link, new, order + appended.new)
            };
            if appended.seqs.is_empty() {
                appended.round = self.entry(seq).round;
            }
            appended.seqs.push(seq);
            parent = Some(seq);
        }
        Ok(appended)
    }

    /// The link that what follows an entry goes on from.
    fn chained(&self, entry: Option<Seq>) -> Link {
        let up = std::iter::successors(entry, |seq| self.entry(*seq).parent);
        let mut links = up.map(|seq| self.entry(seq).link);
        links.find(|link| !link.is_silent()).unwrap_or_else(|| self.new.owner.root())
    }

    /// The entry with a link that follows another one, or only silent ones after it.
    fn child(&self, parent: Option<Seq>, link: Link) -> Option<Seq> {
        let mut parents = vec![parent];
        while let Some(parent) = parents.pop() {
            let found = self.with_link(link).filter(|seq| self.entry(*seq).parent == parent).last();
            if found.is_some() || link.is_silent() {
                return found;
            }
            // The oldest one comes next.
            let silent = self.silent.get(&parent).into_iter().flatten();
            parents.extend(silent.rev().map(|seq| Some(*seq)));
        }
        None
    }

    /// The entries with a link, newest first.
    fn with_link(&self, link: Link) -> impl Iterator<Item = Seq> {
        let newest = self.linked.get(&link).copied();
        std::iter::successors(newest, |seq| self.entries[seq.0 as usize].same_link)
    }

    /// Refuses entries that would come elsewhere than expected.
    pub(super) fn check_place(
        &self,
        after: After,
        expected: &Expected,
    ) -> Result<(), ArchiveError> {
        let parent = match after {
            After::Newest => self.newest(),
            After::Entry(parent) => parent,
        };
        let entries = self.count();
        let conflict = Conflict::Entries { expected: expected.first.0, entries };
        let conflict = Err(ArchiveError::Conflict { session: self.id, conflict });
        if entries != expected.first.0 {
            return conflict;
        }
        parent.map_or(Ok(()), |parent| self.require(parent))?;
        let before = parent.map(|parent| self.entry(parent).link);
        if before == expected.before { Ok(()) } else { conflict }
    }

    fn push(&mut self, parent: Option<Seq>, link: Link, new: &NewEntry, order: u64) -> Seq {
        let seq = Seq(self.count());
        let round =
            parent.map_or(0, |parent| self.entry(parent).round + u64::from(new.opens_round));
        let NewEntry { form, raw, text, at_ms, .. } = new.clone();
        self.keep(Entry { seq, parent, link, round, form, raw, at_ms }, text, order)
    }

    fn keep(&mut self, entry: Entry, text: String, order: u64) -> Seq {
        let Entry { seq, parent, link, .. } = entry;
        let same_link = self.linked.insert(link, seq);
        if link.is_silent() {
            self.silent.entry(parent).or_default().push(seq);
        }
        self.entries.push(StoredEntry { entry, same_link, text, order });
        seq
    }

    /// Forgets the entries that were appended last.
    pub(super) fn truncate(&mut self, count: u64) {
        while self.count() > count {
            let Some(StoredEntry { entry, same_link, .. }) = self.entries.pop() else { break };
            match same_link {
                Some(before) => self.linked.insert(entry.link, before),
                None => self.linked.remove(&entry.link),
            };
            if entry.link.is_silent() {
                self.silent.get_mut(&entry.parent).and_then(Vec::pop);
            }
        }
    }

    pub(super) fn commit(&mut self, new: &NewBatch) -> Result<u64, ArchiveError> {
        let head = new.batch.head;
        self.require(head)?;
        let path: BTreeSet<Seq> = self.path(Some(head))?.into_iter().collect();
        let edited = new.batch.edited();
        if let Some(entry) = edited.iter().find(|entry| !path.contains(entry)) {
            return Err(ArchiveError::NotOnPath { session: self.id, entry: *entry, head });
        }
        let newest = self.newest_live(Some(head))?;
        if newest != new.after {
            let conflict = Conflict::Batch { after: new.after, newest };
            return Err(ArchiveError::Conflict { session: self.id, conflict });
        }
        Ok(self.add_to_log(new))
    }

    fn add_to_log(&mut self, new: &NewBatch) -> u64 {
        let number = self.log.len() as u64 + 1;
        for handle in codec::handles(&new.batch) {
            self.references.entry(handle).or_insert(number);
        }
        let NewBatch { after, at_ms, batch, receipt } = new.clone();
        self.log.push(LoggedBatch { number, after, at_ms, batch, receipt, is_live: true });
        number
    }

    /// Everything that is kept of it.
    pub(super) fn records(&self, preamble: impl Fn(PreambleId) -> Option<String>) -> Vec<Record> {
        let mut records = vec![Record::Session(self.new.clone())];
        records.extend(self.entries.iter().map(|stored| Record::Entry {
            entry: stored.entry.clone(),
            text: stored.text.clone(),
        }));
        records.extend(self.log.iter().map(|logged| {
            let LoggedBatch { number, after, at_ms, batch, receipt, .. } = logged.clone();
            Record::Batch { number, batch: NewBatch { after, at_ms, batch, receipt } }
        }));
        records.extend(self.undone.iter().map(|batch| Record::Undo(*batch)));
        if !self.pins.is_empty() {
            records.push(Record::Pins(self.pins.iter().copied().collect()));
        }
        let mut named = BTreeSet::new();
        let preambles = self.requests.iter().filter_map(|(_, request)| request.preamble);
        let preambles: Vec<PreambleId> = preambles.filter(|id| named.insert(*id)).collect();
        records.extend(preambles.into_iter().filter_map(preamble).map(Record::Preamble));
        records.extend(self.requests.iter().map(|(_, request)| Record::Request(request.clone())));
        let derived: BTreeMap<&String, &String> = self.derived.iter().collect();
        records.extend(
            derived
                .into_iter()
                .map(|(key, value)| Record::Derived { key: key.clone(), value: value.clone() }),
        );
        records
    }

    pub(super) fn require_same(&self, new: &NewSession) -> Result<(), ArchiveError> {
        if self.new == *new { Ok(()) } else { Err(self.unfit("the record of the session")) }
    }

    fn unfit(&self, record: &str) -> ArchiveError {
        ArchiveError::Unfit { session: self.id, record: record.to_owned() }
    }

    /// Adds a record of another archive that is neither the session's own, a preamble nor a request.
    pub(super) fn restore(&mut self, record: &Record, order: u64) -> Result<(), ArchiveError> {
        match record {
            Record::Entry { entry, text } => self.restore_entry(entry, text, order),
            Record::Batch { number, batch } => self.restore_batch(*number, batch),
            Record::Undo(batch) => {
                let is_there = (1..=self.log.len() as u64).contains(batch);
                if !is_there || self.undone.contains(batch) {
                    return Err(self.unfit(&format!("the undo of batch {batch}")));
                }
                self.undone.push(*batch);
                Ok(())
            }
            Record::Pins(seqs) => {
                seqs.iter().try_for_each(|seq| self.require(*seq))?;
                self.pins = seqs.iter().copied().collect();
                Ok(())
            }
            Record::Derived { key, value } => {
                self.derived.insert(key.clone(), value.clone());
                Ok(())
            }
            Record::Session(_) | Record::Preamble(_) | Record::Request(_) => {
                Err(self.unfit("a record that is not of its kind"))
            }
        }
    }

    fn restore_entry(&mut self, entry: &Entry, text: &str, order: u64) -> Result<(), ArchiveError> {
        let (seq, parent, round) = (entry.seq, entry.parent, entry.round);
        let is_next = seq.0 == self.count() && parent.is_none_or(|parent| parent < seq);
        let rounds = is_next.then(|| match parent {
            None => 0..=0,
            Some(parent) => self.entry(parent).round..=self.entry(parent).round + 1,
        });
        if !rounds.is_some_and(|rounds| rounds.contains(&round)) {
            return Err(self.unfit(&format!("entry {}", seq.0)));
        }
        self.keep(entry.clone(), text.to_owned(), order);
        Ok(())
    }

    fn restore_batch(&mut self, number: u64, new: &NewBatch) -> Result<(), ArchiveError> {
        if number != self.log.len() as u64 + 1 || new.after >= number {
            return Err(self.unfit(&format!("batch {number}")));
        }
        let head = new.batch.head;
        self.require(head)?;
        let path: BTreeSet<Seq> = self.path(Some(head))?.into_iter().collect();
        let chain = std::iter::successors(Some((new.after, &new.batch)), |(after, _)| {
            let before = &self.log[after.checked_sub(1)? as usize];
            Some((before.after, &before.batch))
        });
        let edited: Vec<Seq> = chain.flat_map(|(_, batch)| batch.edited()).collect();
        if let Some(entry) = edited.into_iter().find(|entry| !path.contains(entry)) {
            return Err(ArchiveError::NotOnPath { session: self.id, entry, head });
        }
        self.add_to_log(new);
        Ok(())
    }

    /// The whole log, oldest first.
    pub(super) fn batches(&self) -> Vec<LoggedBatch> {
        let live = self.log.iter().zip(self.is_live());
        live.map(|(batch, is_live)| LoggedBatch { is_live, ..batch.clone() }).collect()
    }

    /// Which batches of the log are neither undone nor built on one that is.
    fn is_live(&self) -> Vec<bool> {
        let mut is_live: Vec<bool> = Vec::with_capacity(self.log.len());
        for batch in &self.log {
            let builds_on_live = batch.after == 0 || is_live[batch.after as usize - 1];
            is_live.push(builds_on_live && !self.undone.contains(&batch.number));
        }
        is_live
    }

    /// The newest batch that counts for the path to an entry, or 0.
    fn newest_live(&self, head: Option<Seq>) -> Result<u64, ArchiveError> {
        let path: BTreeSet<Seq> = self.path(head)?.into_iter().collect();
        // How far each batch reaches with those that it builds on; `None` if they do not apply.
        let mut reaches: Vec<Option<Option<Seq>>> = Vec::with_capacity(self.log.len());
        for (batch, is_live) in self.log.iter().zip(self.is_live()) {
            let before = batch.after.checked_sub(1).map_or(Some(None), |at| reaches[at as usize]);
            let edited = batch.batch.edited();
            let applies = is_live && edited.iter().all(|seq| path.contains(seq));
            reaches
                .push(before.filter(|_| applies).map(|reach| reach.max(edited.first().copied())));
        }
        let applying = reaches.iter().zip(1_u64..).filter_map(|(reach, at)| Some(((*reach)?, at)));
        Ok(applying.max().map_or(0, |(_, number)| number))
    }

    pub(super) fn live(&self, head: Option<Seq>) -> Result<Vec<LoggedBatch>, ArchiveError> {
        let logged = |number: u64| number.checked_sub(1).map(|at| &self.log[at as usize]);
        let newest = logged(self.newest_live(head)?);
        let chain = std::iter::successors(newest, |batch| logged(batch.after));
        let mut live: Vec<LoggedBatch> = chain.cloned().collect();
        live.reverse();
        Ok(live)
    }

    pub(super) fn undo(&mut self, head: Option<Seq>) -> Result<Option<LoggedBatch>, ArchiveError> {
        let Some(batch) = self.live(head)?.pop() else { return Ok(None) };
        self.undone.push(batch.number);
        Ok(Some(LoggedBatch { is_live: false, ..batch }))
    }

    pub(super) fn pin(&mut self, entry: Seq, pinned: bool) -> Result<(), ArchiveError> {
        self.require(entry)?;
        if pinned {
            self.pins.insert(entry);
        } else {
            self.pins.remove(&entry);
        }
        Ok(())
    }

    pub(super) fn reference(&self, handle: Handle) -> Option<Reference> {
        let session = self.id;
        let number = *self.references.get(&handle)?;
        let batch = &self.log[number as usize - 1];
        codec::target(&batch.batch, handle).map(|target| match target {
            Target::Part(place) => Reference::Part { session, place },
            Target::Fold(fold) => Reference::Fold { session, batch: number, fold },
            Target::Variant(original) => Reference::Variant { session, original },
        })
    }

    pub(super) fn head(&self) -> Head {
        let SessionInfo { entries, rounds, batches, bytes, first_ms, last_ms, .. } = self.info();
        let pins = self.pins.iter().copied().collect();
        let (head, undos) = (self.newest(), self.undone.len() as u64);
        Head { entries, rounds, head, batches, undos, bytes, first_ms, last_ms, pins }
    }

    pub(super) fn info(&self) -> SessionInfo {
        let NewSession { owner, dialect, name, continues, group, begun_ms } = self.new.clone();
        let newest = self.entries().last();
        SessionInfo {
            id: self.id,
            owner,
            dialect,
            name,
            continues,
            group,
            begun_ms,
            entries: self.count(),
            rounds: newest.map_or(0, |entry| entry.round + 1),
            batches: self.log.len() as u64,
            bytes: self.entries().map(|entry| entry.raw.len() as u64).sum(),
            first_ms: self.entries().next().map_or(0, |entry| entry.at_ms),
            last_ms: newest.map_or(0, |entry| entry.at_ms),
            is_damaged: false,
        }
    }
}
