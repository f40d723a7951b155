//! One session in memory: its state, and what was read of it.
//!
//! Requests change the state at once, and the archive hears of it soon. When another process was first, or
//! something was not written, the session is *doubted*: what is not in the archive is forgotten, what others
//! wrote is taken in, and a new *edition* of the numbers begins. Whatever still waits for the archive is placed
//! anew then. No lock is held while the archive is asked.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use longhand::{Archive, Chain, KnownCalls, Owner, SessionId, Storyteller, Trail, Unread, recall};
use longhand_archive::{ArchiveError, FoldStates, NewBatch, Opened, PreambleId};
use longhand_core::session::{CommitError, Node, SessionState, Version};
use longhand_core::{Batch, Link, Message, Seq, Tokens};
use rustc_hash::FxHashMap;
use tokio::sync::MutexGuard as TurnGuard;
use tokio::time::timeout;

use crate::lock::lock;
use crate::request::admit::AdmittedRequest;

/// How long a plan waits for another plan of the same session.
const TURN_TIME_MAX: Duration = Duration::from_millis(100);

/// How often a session is read again because it was written to in the meantime.
const READS_MAX: usize = 3;

/// A session in memory.
pub(crate) struct LiveSession {
    pub(crate) id: SessionId,
    pub(crate) owner: Owner,
    pub(crate) name: String,
    /// The session that a client summarised at the beginning of this one.
    pub(crate) continues: Option<SessionId>,
    /// A hash of what the client calls the conversation.
    pub(crate) group: Option<u64>,
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

/// The state of a session, and what was read of its entries and batches.
pub(crate) struct SessionMemory {
    pub(crate) state: SessionState,
    /// Counts how often the state was put back to what the archive has: numbers of an earlier edition are invalid.
    pub(crate) edition: u64,
    calls: KnownCalls,
    /// The batches that were made here or read, by number.
    batches: FxHashMap<u64, Arc<LiveBatch>>,
    /// Batches that were made here and lost their numbers before they were written.
    orphans: Vec<Arc<LiveBatch>>,
    /// The version that the archive has once the write that is under way is made.
    under_way: Option<Version>,
    /// The system prompt of the first request that said something new.
    system: Option<Link>,
    /// What the newest request had besides messages.
    pub(crate) preamble: Option<PreambleId>,
    pub(crate) teller: Option<Storyteller>,
}

/// A batch of edits with what is known of it.
pub(crate) struct LiveBatch {
    pub(crate) number: u64,
    pub(crate) new: NewBatch,
    /// The newest entry that it or a batch before it edits.
    reach: Seq,
    /// The entries that it edits, with their links.
    edited: Vec<(Seq, Option<Link>)>,
    /// The size of the messages up to its reach, and the model whose meter counted them.
    counted: Mutex<Option<(String, Tokens)>>,
}

impl LiveBatch {
    fn new(number: u64, new: NewBatch, state: &SessionState) -> Self {
        let edited = new.batch.edited().into_iter().map(|seq| (seq, state.link(seq))).collect();
        let reach = state.log().line(number).and_then(|line| line.reach).unwrap_or_default();
        Self { number, new, reach, edited, counted: Mutex::default() }
    }

    pub(crate) fn batch(&self) -> &Batch {
        &self.new.batch
    }

    /// The newest entry that it or a batch before it edits.
    pub(crate) fn reach(&self) -> Seq {
        self.reach
    }

    /// What the messages up to there count for, if that is known for a model.
    pub(crate) fn counted(&self, model: &str) -> Option<Tokens> {
        let counted = lock(&self.counted);
        counted.as_ref().filter(|(by, _)| by == model).map(|(_, tokens)| *tokens)
    }

    pub(crate) fn count(&self, model: &str, tokens: Tokens) {
        let mut counted = lock(&self.counted);
        *counted = Some((model.to_owned(), tokens));
    }
}

impl LiveSession {
    pub(super) fn new(
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
            memory: Mutex::new(SessionMemory::new(owner)),
            planning: tokio::sync::Mutex::default(),
            doubts: AtomicU64::new(1),
            settled: AtomicU64::new(0),
            reading: tokio::sync::Mutex::default(),
            is_foreign: AtomicBool::new(false),
            is_damaged: AtomicBool::new(false),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, SessionMemory> {
        lock(&self.memory)
    }

    /// Waits until no other plan is made, for a while: if two are made, the archive takes one of their batches.
    pub(crate) async fn turn(&self) -> Option<TurnGuard<'_, ()>> {
        timeout(TURN_TIME_MAX, self.planning.lock()).await.ok()
    }

    /// Whether it can be used without asking the archive or waiting for a lock. A session with edits cannot: another
    /// process may have undone them.
    pub(super) fn is_at_hand(&self) -> bool {
        !self.is_doubted()
            && self.memory.try_lock().is_ok_and(|memory| memory.state.log().is_empty())
    }

    /// Whether no path of it has edits, as far as that is known.
    pub(crate) fn is_unedited(&self) -> bool {
        self.lock().state.log().is_empty()
    }

    pub(crate) fn is_doubted(&self) -> bool {
        self.doubts.load(Ordering::Relaxed) != self.settled.load(Ordering::Relaxed)
    }

    /// Has the archive asked again when the session is needed next.
    pub(super) fn doubt_later(&self) {
        self.doubts.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether it is damaged, as far as that was asked.
    pub(super) fn is_damaged(&self) -> bool {
        self.is_damaged.load(Ordering::Relaxed)
    }

    /// Whether the archive has it as somebody else's, as far as that was asked.
    pub(super) fn is_foreign(&self) -> bool {
        self.is_foreign.load(Ordering::Relaxed)
    }

    /// Puts the session to what the archive has if it is doubted. If that fails, what is in memory counts.
    pub(crate) async fn catch_up(&self, archive: &dyn Archive) {
        if self.is_doubted() {
            let _reading = self.reading.lock().await;
            for _ in 0..READS_MAX {
                if !self.is_doubted() || self.read(archive, true).await {
                    return;
                }
            }
        }
    }

    /// Takes in what other processes have written.
    async fn refresh(&self, archive: &dyn Archive) {
        if self.is_doubted() {
            return self.catch_up(archive).await;
        }
        let _reading = self.reading.lock().await;
        for _ in 0..READS_MAX {
            if self.read(archive, false).await {
                return;
            }
        }
    }

    /// Reads what is new from the archive. With `anew`, a new edition begins in any case, without what is not
    /// written. Returns false if something was written meanwhile, or nothing could be read.
    async fn read(&self, archive: &dyn Archive, anew: bool) -> bool {
        let doubts = self.doubts.load(Ordering::Relaxed);
        let since = self.lock().state.written();
        let opened = archive.open(self.id, since).await;
        let is_damaged = matches!(opened, Err(ArchiveError::Damaged { .. }));
        self.is_damaged.store(is_damaged, Ordering::Relaxed);
        let Ok(opened) = opened else { return false };
        let owner = opened.as_ref().map_or(self.owner, |opened| opened.session.owner);
        self.is_foreign.store(owner != self.owner, Ordering::Relaxed);
        if owner != self.owner {
            return false;
        }
        let mut memory = self.lock();
        if memory.state.written() != since {
            return false;
        }
        let now = opened.as_ref().map_or(Version::default(), |opened| opened.news.version);
        // What we are writing ourselves is no news. The birth of a session is not known before it is written.
        let birth = if since.birth == 0 { 0 } else { now.birth };
        let is_known = now == since || memory.under_way == Some(Version { birth, ..now });
        if (anew || !is_known) && !memory.begin_edition(opened) {
            self.is_damaged.store(true, Ordering::Relaxed);
            return false;
        }
        self.settled.store(doubts, Ordering::Relaxed);
        true
    }

    /// Finds where the messages of a conversation are, and does something with that while nothing can change. What is
    /// not known is read first; if that fails, the session is doubted, and what is known counts.
    pub(super) async fn followed<T>(
        &self,
        archive: &dyn Archive,
        mut take: impl FnMut(&mut SessionMemory, Patience) -> Result<T, Unread>,
    ) -> Option<T> {
        loop {
            let unread = match take(&mut self.lock(), Patience::Ask) {
                Ok(taken) => return Some(taken),
                Err(unread) => unread,
            };
            if !self.load(archive, unread).await {
                // Both at once: a guess must not outlive the doubt about it.
                let mut memory = self.lock();
                self.doubt_later();
                return take(&mut memory, Patience::Guess).ok();
            }
        }
    }

    /// Reads what it takes to place a conversation with these links in the session as the archive has it now.
    pub(crate) async fn ready_for(&self, archive: &dyn Archive, links: &[Link]) {
        self.catch_up(archive).await;
        let lacking = || {
            let memory = self.lock();
            let mut trail = Trail::default();
            memory.state.follow(&mut trail, links)?;
            trail.head().map_or(Ok(0), |head| memory.state.round(head))
        };
        while let Err(lack) = lacking() {
            if !self.load(archive, Unread::Nodes(lack)).await {
                // It may be another session of that id by now.
                return self.doubt_later();
            }
        }
    }

    /// Reads what a question needs; says whether it could be read.
    pub(super) async fn load(&self, archive: &dyn Archive, unread: Unread) -> bool {
        match unread {
            Unread::Nodes(lack) => {
                let count: u64 = lack.0.iter().map(|range| range.end - range.start).sum();
                match archive.nodes(self.id, lack.0).await {
                    // A session that was removed has none of them.
                    Ok(nodes) => {
                        nodes.len() as u64 == count && self.lock().state.learn(&nodes).is_ok()
                    }
                    Err(error) => {
                        let is_damaged = matches!(error, ArchiveError::Damaged { .. });
                        self.is_damaged.fetch_or(is_damaged, Ordering::Relaxed);
                        false
                    }
                }
            }
            Unread::Calls(seqs) => {
                let Some(messages) = self.messages_of(archive, &seqs).await else { return false };
                let mut memory = self.lock();
                for seq in seqs {
                    memory.calls.learn(seq, messages.get(&seq));
                }
                true
            }
        }
    }

    /// Reads the messages of entries; those that are damaged are left out. `None` if the archive cannot be read now.
    async fn messages_of(
        &self,
        archive: &dyn Archive,
        seqs: &[Seq],
    ) -> Option<FxHashMap<Seq, Message>> {
        let range = |seq: &Seq| seq.0..seq.0 + 1;
        let records = match archive.bodies(self.id, seqs.iter().map(range).collect()).await {
            Ok(records) => records,
            Err(ArchiveError::Damaged { .. }) => {
                let mut records = Vec::new();
                for seq in seqs {
                    match archive.bodies(self.id, vec![range(seq)]).await {
                        Ok(found) => records.extend(found),
                        Err(ArchiveError::Damaged { .. }) => {}
                        Err(_) => return None,
                    }
                }
                records
            }
            Err(_) => return None,
        };
        let messages = records.iter().map(|record| &record.entry);
        Some(messages.filter_map(|entry| Some((entry.seq, recall::said(entry)?.1))).collect())
    }

    /// The live batches of a path, oldest first, as the archive has them by now.
    pub(crate) async fn live(&self, archive: &dyn Archive, path: &[Seq]) -> Vec<Arc<LiveBatch>> {
        if !self.is_unedited() {
            self.refresh(archive).await;
        }
        let (edition, live, unread) = {
            let memory = self.lock();
            let live = memory.state.live(path.last().copied());
            let is_unread = |number: &u64| !memory.batches.contains_key(number);
            let unread: Vec<u64> = live.iter().copied().filter(is_unread).collect();
            (memory.edition, live, unread)
        };
        if !unread.is_empty() {
            let Ok(records) = archive.read_batches(self.id, unread.clone(), FoldStates::All).await
            else {
                self.doubt_later();
                return Vec::new();
            };
            let mut memory = self.lock();
            if memory.edition == edition {
                for (number, record) in unread.into_iter().zip(records) {
                    let longhand_archive::LoggedBatch { after, at_ms, batch, receipt, .. } =
                        record.logged(number, true);
                    let new = NewBatch { after, at_ms, batch, receipt };
                    let live = LiveBatch::new(number, new, &memory.state);
                    memory.batches.insert(number, Arc::new(live));
                }
            }
        }
        let memory = self.lock();
        live.iter().filter_map(|number| memory.batches.get(number).cloned()).collect()
    }

    /// The pinned entries, as the archive has them by now.
    pub(crate) async fn pins(&self, archive: &dyn Archive) -> Vec<Seq> {
        self.refresh(archive).await;
        self.lock().state.pins().to_vec()
    }

    /// Whether a message is, byte for byte, the one that the archive has; `None` if that is not known.
    pub(crate) fn is_form(&self, seq: Seq, message: &Message) -> Option<bool> {
        self.lock().calls.is_form(seq, message)
    }

    /// Whether the messages of a request still have the numbers with which it was admitted.
    pub(crate) fn has_in_place(&self, admitted: &AdmittedRequest) -> bool {
        self.lock().has_in_place(admitted)
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

/// What to do about what is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// It is asked for.
    Ask,
    /// It cannot be read: what is known counts.
    Guess,
}

impl SessionMemory {
    fn new(owner: Owner) -> Self {
        Self {
            state: SessionState::new(owner.root()),
            edition: 0,
            calls: KnownCalls::default(),
            batches: FxHashMap::default(),
            orphans: Vec::new(),
            under_way: None,
            system: None,
            preamble: None,
            teller: None,
        }
    }

    /// Puts the state to what the archive has; `None` if it does not have the session. Says whether that was sound.
    fn begin_edition(&mut self, opened: Option<Opened>) -> bool {
        self.edition += 1;
        let written = self.state.written();
        let unwritten = (written.batches + 1..=self.state.log().len())
            .filter(|number| self.state.log().is_live(*number));
        let orphans: Vec<Arc<LiveBatch>> =
            unwritten.filter_map(|number| self.batches.get(&number).cloned()).collect();
        self.orphans.extend(orphans);
        self.preamble = None;
        self.under_way = None;
        self.state.rewind();
        let birth = opened.as_ref().map_or(0, |opened| opened.news.version.birth);
        if birth != written.birth {
            // Another session of that id, or none.
            self.state = SessionState::new(self.state.root());
        }
        let entries = self.state.tree().len();
        self.calls.forget_from(Seq(entries));
        let batches = self.state.log().len();
        self.batches.retain(|number, _| *number <= batches);
        let is_sound = opened.is_none_or(|opened| self.state.apply(opened.news).is_ok());
        // One whose number is taken was written after all, or another batch was.
        let batches = self.state.log().len();
        self.orphans.retain(|orphan| orphan.number > batches);
        is_sound
    }

    /// Whether the messages of a request still have the numbers with which it was admitted.
    pub(super) fn has_in_place(&self, admitted: &AdmittedRequest) -> bool {
        let mut places = admitted.trail.seqs.iter().zip(admitted.chain.links());
        self.edition == admitted.edition
            || places.all(|(seq, link)| self.state.link(*seq) == Some(*link))
    }

    /// Finds the messages of a request; those whose calls were changed are new.
    pub(super) fn follow(
        &mut self,
        messages: &[Message],
        chain: &mut Chain,
        compared: usize,
        patience: Patience,
    ) -> Result<Trail, Unread> {
        match self.calls.follow(&self.state, chain, messages, compared) {
            Err(_) if patience == Patience::Guess => Ok(Trail::default()),
            followed => followed,
        }
    }

    /// Appends messages with their links. Returns the new entries.
    pub(super) fn extend<'m>(
        &mut self,
        trail: &mut Trail,
        messages: impl Iterator<Item = &'m Message>,
        links: &[Link],
    ) -> Result<Vec<Node>, Unread> {
        let messages: Vec<&Message> = messages.take(links.len()).collect();
        let new = links.iter().zip(&messages);
        let new = new.map(|(link, message)| (*link, message.is_user_turn()));
        let nodes = self.state.extend(trail, new).map_err(Unread::Nodes)?;
        for (node, message) in nodes.iter().zip(messages) {
            self.calls.remember(node.seq, message);
        }
        Ok(nodes)
    }

    /// Commits a batch. One that is `aside` is undone at once: it is there so that its handles open.
    pub(super) fn commit(
        &mut self,
        new: NewBatch,
        aside: bool,
    ) -> Result<Arc<LiveBatch>, CommitError> {
        let checked = self.state.check_commit(&new.batch, new.after)?;
        let number = self.state.commit(checked);
        if aside {
            self.state.undo(number);
        }
        let committed = Arc::new(LiveBatch::new(number, new, &self.state));
        self.batches.insert(number, Arc::clone(&committed));
        Ok(committed)
    }

    /// A batch that the log does not have.
    pub(super) fn uncommitted(&self, new: NewBatch) -> Arc<LiveBatch> {
        Arc::new(LiveBatch::new(self.state.log().len() + 1, new, &self.state))
    }

    /// Commits the batches again that lost their numbers, now that there are entries again. Those whose entries have
    /// other numbers are given up.
    pub(super) fn adopted(&mut self) -> Vec<Arc<LiveBatch>> {
        let mut adopted = Vec::new();
        for orphan in std::mem::take(&mut self.orphans) {
            let stays = |(seq, link): &(Seq, Option<Link>)| self.state.link(*seq) == *link;
            let head = orphan.new.batch.head;
            if !orphan.edited.iter().all(stays) || !self.state.tree().contains(head) {
                continue;
            }
            let after = self.state.live(Some(head)).last().copied().unwrap_or(0);
            let new = NewBatch { after, ..orphan.new.clone() };
            adopted.extend(self.commit(new, false));
        }
        adopted
    }

    /// Whether a request is a side call: nothing of it is new, and its system prompt is another one.
    pub(super) fn is_aside(&mut self, is_known: bool, system: Link) -> bool {
        let first = *self.system.get_or_insert(system);
        is_known && first != system
    }
}
