//! One session in memory: its state, and what was read of it.
//!
//! Requests change the state at once, and the archive hears of it soon. When another process was first, or
//! something was not written, the session is *doubted*: what is not in the archive is forgotten, what others
//! wrote is taken in, and a new *edition* of the numbers begins. Whatever still waits for the archive is placed
//! anew then. No lock is held while the archive is asked.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use longhand_archive::{
    Archive, ArchiveError, Conflict, Entry, FoldStates, LoggedBatch, NewBatch, Opened, Origin,
    Owner, SessionId, unsound,
};
use longhand_core::session::{Trail, Version};
use longhand_core::{Link, Message, Seq};
use rustc_hash::FxHashMap;
use tokio::sync::MutexGuard as TurnGuard;

use super::live_batch::LiveBatch;
use super::lock;
use super::memory::{Patience, SessionMemory};
use super::placed::PlacedRequest;
use super::sink::Sink;
use crate::known_calls::Unread;
use crate::recall;

/// How often a session is read again because it was written to in the meantime.
const READS_MAX: usize = 3;

/// A session in memory.
pub struct LiveSession {
    /// Its id.
    pub id: SessionId,
    /// Whose it is.
    pub owner: Owner,
    /// What people call it.
    pub name: String,
    /// The session that a client summarised at the beginning of this one.
    pub continues: Option<SessionId>,
    /// A hash of what the client calls the conversation.
    pub group: Option<u64>,
    /// Whether its requests offer the recall tool, once that is decided: a change in the middle would void all that the
    /// provider has cached of it.
    pub offers_recall: OnceLock<bool>,
    /// Where it comes from, if it is new.
    pub origin: OnceLock<Origin>,
    memory: Mutex<SessionMemory>,
    /// Held while a window is planned, so that no two plans start from the same window.
    planning: tokio::sync::Mutex<()>,
    /// How often the session was doubted, and how many of these doubts the archive has settled.
    doubts: AtomicU64,
    settled: AtomicU64,
    /// Held while the session is read from the archive, so that no older state replaces a newer one.
    reading: tokio::sync::Mutex<()>,
    /// Whether the archive has a session of this id that belongs to somebody else.
    is_foreign: AtomicBool,
    /// Whether it could not be read when that was tried last, since it is damaged.
    is_damaged: AtomicBool,
}

impl LiveSession {
    /// A session that nothing is known of yet.
    pub fn new(
        id: SessionId,
        owner: Owner,
        name: String,
        continues: Option<SessionId>,
        group: Option<u64>,
    ) -> Self {
        Self {
            id,
            owner,
            name,
            continues,
            group,
            offers_recall: OnceLock::new(),
            origin: OnceLock::new(),
            memory: Mutex::new(SessionMemory::new(owner)),
            planning: tokio::sync::Mutex::default(),
            doubts: AtomicU64::new(1),
            settled: AtomicU64::new(0),
            reading: tokio::sync::Mutex::default(),
            is_foreign: AtomicBool::new(false),
            is_damaged: AtomicBool::new(false),
        }
    }

    /// What is known of it.
    pub fn lock(&self) -> MutexGuard<'_, SessionMemory> {
        lock(&self.memory)
    }

    /// Waits until no other plan is made: if two are made, the archive takes one of their batches.
    pub async fn turn(&self) -> TurnGuard<'_, ()> {
        self.planning.lock().await
    }

    /// Whether it can be used without asking the archive or waiting for a lock. A session with edits cannot: another
    /// process may have undone them.
    pub fn is_at_hand(&self) -> bool {
        !self.is_doubted()
            && self.memory.try_lock().is_ok_and(|memory| memory.state.log().is_empty())
    }

    /// Whether no path of it has edits, as far as that is known.
    pub fn is_unedited(&self) -> bool {
        self.lock().state.log().is_empty()
    }

    /// Whether its newest batch was undone, as far as that is known: then no more is edited than necessary.
    pub fn is_undone(&self) -> bool {
        let memory = self.lock();
        let log = memory.state.log();
        !log.is_empty() && !log.is_live(log.len())
    }

    /// Whether the archive must be asked before it is used.
    pub fn is_doubted(&self) -> bool {
        self.doubts.load(Ordering::Relaxed) != self.settled.load(Ordering::Relaxed)
    }

    /// Has the archive asked again when the session is needed next.
    pub fn doubt_later(&self) {
        self.doubts.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether it is damaged, as far as that was asked.
    pub fn is_damaged(&self) -> bool {
        self.is_damaged.load(Ordering::Relaxed)
    }

    /// Whether the archive has it as somebody else's, as far as that was asked.
    pub fn is_foreign(&self) -> bool {
        self.is_foreign.load(Ordering::Relaxed)
    }

    /// Puts the session to what the archive has if it is doubted.
    pub async fn catch_up(&self, archive: &dyn Archive) -> Result<(), ArchiveError> {
        self.read_until(archive, true).await
    }

    /// Takes in what other processes have written.
    pub async fn refresh(&self, archive: &dyn Archive) -> Result<(), ArchiveError> {
        let anew = self.is_doubted();
        self.read_until(archive, anew).await
    }

    /// Reads the session until nothing was written meanwhile, a few times. One that is read `anew` is read only as long
    /// as it is doubted.
    async fn read_until(&self, archive: &dyn Archive, anew: bool) -> Result<(), ArchiveError> {
        if anew && !self.is_doubted() {
            return Ok(());
        }
        let _reading = self.reading.lock().await;
        for _ in 0..READS_MAX {
            if (anew && !self.is_doubted()) || self.read(archive, anew).await? {
                return Ok(());
            }
        }
        let (session, conflict) = (self.id, Conflict::Version);
        Err(ArchiveError::Conflict { session, conflict })
    }

    /// Reads what is new from the archive. With `anew`, a new edition begins in any case, without what is not
    /// written. Returns false if something was written meanwhile.
    async fn read(&self, archive: &dyn Archive, anew: bool) -> Result<bool, ArchiveError> {
        let doubts = self.doubts.load(Ordering::Relaxed);
        let since = self.lock().state.written();
        let opened = archive.open(self.id, since).await;
        let is_damaged = matches!(opened, Err(ArchiveError::Damaged { .. }));
        self.is_damaged.store(is_damaged, Ordering::Relaxed);
        self.take_in(opened?, (since, doubts), anew)
    }

    /// Takes in what was read of a session of which nothing was known.
    pub fn begin_with(&self, opened: Opened) -> Result<(), ArchiveError> {
        let doubts = self.doubts.load(Ordering::Relaxed);
        self.take_in(Some(opened), (Version::default(), doubts), true).map(drop)
    }

    /// Takes in what was read since a version. Returns false if something was written meanwhile.
    fn take_in(
        &self,
        opened: Option<Opened>,
        (since, doubts): (Version, u64),
        anew: bool,
    ) -> Result<bool, ArchiveError> {
        let owner = opened.as_ref().map_or(self.owner, |opened| opened.session.owner);
        self.is_foreign.store(owner != self.owner, Ordering::Relaxed);
        if owner != self.owner {
            return Err(ArchiveError::NotTheOwner { session: self.id });
        }
        let mut memory = self.lock();
        if memory.state.written() != since {
            return Ok(false);
        }
        // Somebody may have guessed while this waited: no doubt is settled as long as the guess is in memory.
        let anew = anew || self.is_doubted();
        let now = opened.as_ref().map_or(Version::default(), |opened| opened.news.version);
        // What we are writing ourselves is no news. The birth of a session is not known before it is written.
        let birth = if since.birth == 0 { 0 } else { now.birth };
        let is_known = now == since || memory.under_way == Some(Version { birth, ..now });
        if anew || !is_known {
            let nodes = opened.as_ref().map(|opened| opened.nodes.clone()).unwrap_or_default();
            if !memory.begin_edition(opened) {
                self.is_damaged.store(true, Ordering::Relaxed);
                return Err(unsound(self.id));
            }
            // If one does not fit, it is asked for when it is needed, and checked.
            let _ = memory.state.learn(&nodes);
        }
        self.settled.store(doubts, Ordering::Relaxed);
        Ok(true)
    }

    /// Finds where the messages of a conversation are, and does something with that while nothing can change. What is
    /// not known is read first; if that fails, the session is doubted, and what is known counts if that is good enough.
    pub(super) async fn followed<T>(
        &self,
        sink: &dyn Sink,
        mut take: impl FnMut(&mut SessionMemory, Patience) -> Result<T, Unread>,
    ) -> Result<Option<T>, ArchiveError> {
        loop {
            let unread = match take(&mut self.lock(), Patience::Ask) {
                Ok(taken) => return Ok(Some(taken)),
                Err(unread) => unread,
            };
            if let Err(error) = self.load(sink.archive(), unread).await {
                sink.go_on_without(error).inspect_err(|_| self.doubt_later())?;
                // Both at once: a guess must not outlive the doubt about it.
                let mut memory = self.lock();
                self.doubt_later();
                return Ok(take(&mut memory, Patience::Guess).ok());
            }
        }
    }

    /// Reads what it takes to place a conversation with these links in the session as the archive has it now.
    pub async fn ready_for(&self, archive: &dyn Archive, links: &[Link]) {
        let _ = self.catch_up(archive).await;
        let lacking = || {
            let memory = self.lock();
            let mut trail = Trail::default();
            memory.state.follow(&mut trail, links)?;
            trail.head().map_or(Ok(0), |head| memory.state.round(head))
        };
        while let Err(lack) = lacking() {
            if self.load(archive, Unread::Nodes(lack)).await.is_err() {
                // It may be another session of that id by now.
                return self.doubt_later();
            }
        }
    }

    /// Reads what a question needs.
    pub async fn load(&self, archive: &dyn Archive, unread: Unread) -> Result<(), ArchiveError> {
        match unread {
            Unread::Nodes(lack) => {
                let count: u64 = lack.0.iter().map(|range| range.end - range.start).sum();
                let nodes = archive.nodes(self.id, lack.0).await.inspect_err(|error| {
                    let is_damaged = matches!(error, ArchiveError::Damaged { .. });
                    self.is_damaged.fetch_or(is_damaged, Ordering::Relaxed);
                })?;
                // A session that was removed has none of them.
                if nodes.len() as u64 == count && self.lock().state.learn(&nodes).is_ok() {
                    return Ok(());
                }
                Err(ArchiveError::UnknownSession { session: self.id })
            }
            Unread::Calls(seqs) => {
                let messages = self.messages_of(archive, &seqs).await?;
                let mut memory = self.lock();
                for seq in seqs {
                    memory.calls.learn(seq, messages.get(&seq));
                }
                Ok(())
            }
        }
    }

    /// Reads the messages of entries; those that are damaged are left out.
    async fn messages_of(
        &self,
        archive: &dyn Archive,
        seqs: &[Seq],
    ) -> Result<FxHashMap<Seq, Message>, ArchiveError> {
        let range = |seq: &Seq| seq.0..seq.0 + 1;
        let records = match archive.bodies(self.id, seqs.iter().map(range).collect()).await {
            Err(ArchiveError::Damaged { .. }) => {
                let mut records = Vec::new();
                for seq in seqs {
                    match archive.bodies(self.id, vec![range(seq)]).await {
                        Err(ArchiveError::Damaged { .. }) => {}
                        found => records.extend(found?),
                    }
                }
                records
            }
            records => records?,
        };
        let messages = records.iter().map(|record| &record.entry);
        Ok(messages.filter_map(|entry| Some((entry.seq, recall::said(entry)?.1))).collect())
    }

    /// The live batches of the path to a head, oldest first, as they are known.
    pub async fn live(
        &self,
        archive: &dyn Archive,
        head: Option<Seq>,
    ) -> Result<Vec<Arc<LiveBatch>>, ArchiveError> {
        let (edition, live, unread) = {
            let memory = self.lock();
            let live = memory.state.live(head);
            let is_unread = |number: &u64| !memory.batches.contains_key(number);
            let unread: Vec<u64> = live.iter().copied().filter(is_unread).collect();
            (memory.edition, live, unread)
        };
        self.read_batches(archive, edition, unread, FoldStates::Last).await?;
        let known = || {
            let memory = self.lock();
            live.iter().filter_map(|number| memory.batches.get(number).cloned()).collect()
        };
        let batches: Vec<Arc<LiveBatch>> = known();
        // Only the newest fold is gone on with. Those after it may have been undone since it was read.
        let newest = batches.iter().rfind(|live| live.batch().fold().is_some());
        let Some(newest) = newest.filter(|newest| !newest.has_state) else { return Ok(batches) };
        self.read_batches(archive, edition, vec![newest.number], FoldStates::All).await?;
        Ok(known())
    }

    /// Reads batches of an edition.
    async fn read_batches(
        &self,
        archive: &dyn Archive,
        edition: u64,
        numbers: Vec<u64>,
        states: FoldStates,
    ) -> Result<(), ArchiveError> {
        if numbers.is_empty() {
            return Ok(());
        }
        let records = archive.read_batches(self.id, numbers.clone(), states).await;
        let records = records.inspect_err(|_| self.doubt_later())?;
        let mut memory = self.lock();
        if memory.edition == edition {
            for (number, record) in numbers.into_iter().zip(records) {
                let LoggedBatch { after, at_ms, batch, receipt, .. } = record.logged(number, true);
                let has_state = states == FoldStates::All || !batch.state.is_empty();
                let new = NewBatch { after, at_ms, batch, receipt };
                let mut live = LiveBatch::new(number, new, &memory.state);
                live.has_state = has_state;
                memory.batches.insert(number, Arc::new(live));
            }
        }
        Ok(())
    }

    /// The entries of a path with numbers in a range, oldest first, as the archive has them.
    pub async fn entries(
        &self,
        archive: &dyn Archive,
        head: Option<Seq>,
        seqs: Range<u64>,
    ) -> Result<Vec<Entry>, ArchiveError> {
        let seqs = {
            let memory = self.lock();
            let head = memory.state.head(head);
            head.map(|head| memory.state.tree().path(head, seqs)).unwrap_or_default()
        };
        if seqs.is_empty() {
            return Ok(Vec::new());
        }
        let records = archive.bodies(self.id, seqs).await?;
        Ok(records.into_iter().map(|record| record.entry).collect())
    }

    /// The pinned entries, as they are known.
    pub fn pins(&self) -> Vec<Seq> {
        self.lock().state.pins().to_vec()
    }

    /// Whether a message is, byte for byte, the one that the archive has; `None` if that is not known.
    pub fn is_form(&self, seq: Seq, message: &Message) -> Option<bool> {
        self.lock().calls.is_form(seq, message)
    }

    /// Whether the messages of a request still have the numbers with which it was admitted.
    pub fn has_in_place(&self, placed: &PlacedRequest) -> bool {
        self.lock().has_in_place(placed)
    }

    /// Takes note of a write that is under way to a version.
    pub(super) fn writing(&self, version: Version) {
        self.lock().under_way = Some(version);
    }

    /// Takes note of what became of a write that was made in an edition.
    pub(super) fn wrote(&self, edition: u64, version: Option<Version>) {
        let mut memory = self.lock();
        memory.under_way = None;
        if let Some(version) = version.filter(|_| memory.edition == edition) {
            memory.state.wrote(version);
        }
    }
}

#[cfg(test)]
mod tests {
    use longhand_archive::{After, MemoryArchive, NewSession, wait};

    use super::*;
    use crate::Round;

    #[test]
    fn a_guess_does_not_outlive_the_doubt_about_it() {
        let archive = MemoryArchive::default();
        let id = SessionId::named(Owner::LOCAL, "s");
        archive.begin(id, &NewSession::default()).unwrap();
        let entries = Round::new("One?", "One.", 1).entries();
        archive.append(id, After::Newest, &entries).unwrap();
        let session = LiveSession::new(id, Owner::LOCAL, "s".to_owned(), None, None);
        wait(session.catch_up(&archive)).unwrap();
        // A reader found nothing to doubt and waits for its turn; then somebody guesses.
        let anew = session.is_doubted();
        {
            let mut memory = session.lock();
            session.doubt_later();
            let guessed = [(Link(7), true), (Link(8), false)];
            memory.state.extend(&mut Trail::default(), guessed).unwrap();
        }
        wait(session.read(&archive, anew)).unwrap();
        assert_eq!(session.lock().state.tree().len(), 2);
    }
}
