//! One session: where its entries are, and which edits its paths have.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use longhand::{Archive, Chain, Ledger, Owner, SessionId, Storyteller, Trail};
use longhand_archive::{ArchiveError, LoggedBatch, NewBatch, Page, PreambleId, SessionInfo};
use longhand_core::{Arguments, Batch, Link, Message, Seq, Tokens};
use longhand_dialect::Conversation;
use rustc_hash::{FxHashMap, FxHasher};

use crate::lock::lock;

/// How long a plan waits for another plan of the same session.
const TURN_TIME_MAX: Duration = Duration::from_millis(100);

/// How often a ledger is read again because it was written to in the meantime.
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
    state: Mutex<SessionState>,
    /// Held while a window is planned, so that no two plans start from the same window.
    planning: Mutex<()>,
    /// How often the ledger was doubted, and how many of these doubts the archive has settled.
    doubts: AtomicU64,
    settled: AtomicU64,
    /// Held while the ledger is read from the archive, so that no older one replaces it.
    reading: Mutex<()>,
    /// Whether the archive has a session of this id that belongs to somebody else.
    is_foreign: AtomicBool,
    /// Whether its ledger could not be read when that was tried last, since it is damaged.
    is_damaged: AtomicBool,
}

/// The ledger of a session, its live batches, and what is known of its entries.
#[derive(Default)]
pub(crate) struct SessionState {
    pub(crate) ledger: Ledger,
    /// Counts how often the ledger was read from the archive: numbers of an earlier edition are invalid.
    pub(crate) edition: u64,
    /// How many of its entries are known to be in the archive: the first ones.
    durable: u64,
    /// How often something of it was written.
    writes: u64,
    /// Hashes of the messages as the archive has them or will have them, as far as they are known.
    forms: FxHashMap<Seq, u64>,
    /// What is known of entries that have calls.
    calls: FxHashMap<Seq, EntryCalls>,
    /// Whether there may be entries with calls that only the archive knows.
    has_unread_calls: bool,
    /// The live batches of all paths, oldest first.
    pub(crate) live: Vec<Arc<LiveBatch>>,
    /// How many batches and undos the archive had when it was asked last, and the pins.
    seen: Option<(u64, u64)>,
    pub(crate) pins: Vec<Seq>,
    /// The system prompt of the first request that said something new.
    system: Option<Link>,
    /// What the newest request had besides messages.
    pub(crate) preamble: Option<PreambleId>,
    pub(crate) teller: Option<Storyteller>,
    /// The ledger before it was read again, while there are batches that the archive has not.
    before: Option<Ledger>,
}

/// The calls of an entry.
struct EntryCalls {
    arguments: Arguments,
    /// The form of the message in which a client sent it back last.
    sent: Option<u64>,
}

/// A batch that is not undone.
pub(crate) struct LiveBatch {
    pub(crate) number: u64,
    pub(crate) new: NewBatch,
    /// The entries that it edits, newest first.
    edited: Vec<Seq>,
    /// The newest entry that it or a batch before it edits.
    reach: Seq,
    is_kept: AtomicBool,
    /// The size of the messages up to its reach, and the model whose meter counted them.
    counted: Mutex<Option<(String, Tokens)>>,
}

impl LiveBatch {
    /// A batch on top of those that are live.
    pub(super) fn new(number: u64, new: NewBatch, live: &[Arc<LiveBatch>]) -> Self {
        let edited = new.batch.edited();
        let before = live.iter().find(|live| live.number == new.after).map(|live| live.reach);
        let reach = edited.first().copied().max(before).unwrap_or_default();
        let (is_kept, counted) = (AtomicBool::new(false), Mutex::default());
        Self { number, new, edited, reach, is_kept, counted }
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

    pub(super) fn keep(&self) {
        self.is_kept.store(true, Ordering::Relaxed);
    }

    fn is_kept(&self) -> bool {
        self.is_kept.load(Ordering::Relaxed)
    }

    /// A path that has the newest edited entry has all that lie before it.
    fn applies_to(&self, path: &[Seq]) -> bool {
        path.binary_search(&self.reach).is_ok()
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
        let (state, planning) = (Mutex::default(), Mutex::default());
        let (doubts, settled) = (AtomicU64::new(1), AtomicU64::new(0));
        let (is_foreign, is_damaged) = (AtomicBool::new(false), AtomicBool::new(false));
        Self {
            id,
            owner,
            name,
            continues,
            group,
            state,
            planning,
            doubts,
            settled,
            reading: Mutex::default(),
            is_foreign,
            is_damaged,
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, SessionState> {
        lock(&self.state)
    }

    /// Waits until no other plan is made, for a while: if two are made, the archive takes one of their batches.
    pub(crate) fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        let started = Instant::now();
        while started.elapsed() < TURN_TIME_MAX {
            match self.planning.try_lock() {
                Ok(turn) => return Some(turn),
                Err(TryLockError::Poisoned(turn)) => return Some(turn.into_inner()),
                Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(1)),
            }
        }
        None
    }

    /// Whether it can be used without asking the archive or waiting for a lock. A session with edits cannot: another
    /// process may have undone them.
    pub(super) fn is_at_hand(&self) -> bool {
        let state = self.state.try_lock();
        let is_known = |state: &SessionState| state.live.is_empty() && !state.has_unread_calls;
        !self.is_doubted() && state.is_ok_and(|state| is_known(&state))
    }

    /// Whether no path of it has edits, as far as that is known.
    pub(crate) fn is_unedited(&self) -> bool {
        self.lock().live.is_empty()
    }

    pub(crate) fn is_doubted(&self) -> bool {
        self.doubts.load(Ordering::Relaxed) != self.settled.load(Ordering::Relaxed)
    }

    /// Has the archive asked again when the session is needed next.
    pub(super) fn doubt_later(&self) {
        self.doubts.fetch_add(1, Ordering::Relaxed);
    }

    /// Reads the ledger from the archive if it is doubted. Returns whether it did. If that fails, what is in memory
    /// counts.
    pub(crate) fn catch_up(&self, archive: &dyn Archive) -> bool {
        if !self.is_doubted() {
            return false;
        }
        let _reading = lock(&self.reading);
        self.is_doubted() && (0..READS_MAX).any(|_| self.read(archive))
    }

    /// Reads the ledger from the archive. Returns whether all of it could be read.
    ///
    /// The lock is not held while the archive is read.
    fn read(&self, archive: &dyn Archive) -> bool {
        let (doubts, writes) = (self.doubts.load(Ordering::Relaxed), self.lock().writes);
        let Ok(info) = archive.session(self.id) else { return false };
        if !self.is_ours(info.as_ref()) {
            return false;
        }
        // What is new has neither entries nor batches.
        let nodes = if info.is_some() { archive.tree(self.id) } else { Ok(Vec::new()) };
        let is_damaged = matches!(nodes, Err(ArchiveError::Damaged { .. }));
        self.is_damaged.store(is_damaged, Ordering::Relaxed);
        let Ok(nodes) = nodes else { return false };
        let ledger = Ledger::of(nodes);
        {
            let mut state = self.lock();
            if state.writes != writes {
                return false;
            }
            state.begin_edition(ledger);
        }
        self.settled.store(doubts, Ordering::Relaxed);
        if info.is_some() {
            self.read_batches(archive);
        }
        true
    }

    /// Whether the owner may read what the archive has of it.
    ///
    /// A record that failed its checksum proves nothing.
    fn is_ours(&self, info: Option<&SessionInfo>) -> bool {
        let is_foreign = info.is_some_and(|info| info.owner != self.owner);
        self.is_foreign.store(is_foreign, Ordering::Relaxed);
        let is_damaged = info.is_some_and(|info| info.is_damaged);
        self.is_damaged.store(is_damaged, Ordering::Relaxed);
        !is_foreign && !is_damaged
    }

    /// Whether its ledger is damaged, as far as that was asked.
    pub(super) fn is_damaged(&self) -> bool {
        self.is_damaged.load(Ordering::Relaxed)
    }

    /// Whether the archive has it as somebody else's, as far as that was asked.
    pub(super) fn is_foreign(&self) -> bool {
        self.is_foreign.load(Ordering::Relaxed)
    }

    /// Reads the log of batches and the pins if somebody has changed them.
    fn read_batches(&self, archive: &dyn Archive) {
        let Ok(Some(head)) = archive.head(self.id) else { return };
        let now = (head.batches, head.undos);
        {
            let mut state = self.lock();
            state.pins = head.pins;
            if state.seen == Some(now) {
                return;
            }
        }
        if let Ok(log) = archive.batches(self.id, Page::ALL) {
            self.lock().hold(now, log.items);
        }
    }

    pub(super) fn links(&self) -> Vec<Link> {
        self.lock().ledger.links().collect()
    }

    /// The live batches of a path, oldest first, as the archive has them by now.
    pub(crate) fn live(&self, archive: &dyn Archive, path: &[Seq]) -> Vec<Arc<LiveBatch>> {
        let has_batches = !self.lock().live.is_empty();
        if has_batches {
            self.read_batches(archive);
        }
        let state = self.lock();
        let mut live: Vec<Arc<LiveBatch>> = Vec::new();
        let applies = state.live.iter().filter(|live| live.applies_to(path));
        let newest = applies.max_by_key(|live| (live.reach, live.number));
        let mut next = newest.map(|live| live.number);
        while let Some(number) = next.filter(|number| *number > 0) {
            let Some(batch) = state.live.iter().find(|live| live.number == number) else { break };
            next = Some(batch.new.after);
            live.push(Arc::clone(batch));
        }
        live.reverse();
        live
    }

    /// The pinned entries, as the archive has them by now.
    pub(crate) fn pins(&self, archive: &dyn Archive) -> Vec<Seq> {
        self.read_batches(archive);
        self.lock().pins.clone()
    }

    /// Whether a message is, byte for byte, the one that the archive has; `None` if that is not known.
    pub(crate) fn is_form(&self, seq: Seq, message: &Message) -> Option<bool> {
        self.lock().forms.get(&seq).map(|form| *form == form_of(message))
    }
}

impl SessionState {
    /// Begins again with a ledger as the archive has it.
    fn begin_edition(&mut self, ledger: Ledger) {
        let before = std::mem::replace(&mut self.ledger, ledger);
        self.edition += 1;
        self.durable = self.ledger.len();
        self.forms.clear();
        self.calls.clear();
        self.has_unread_calls = !self.ledger.is_empty();
        self.preamble = None;
        self.live.retain(|live| !live.is_kept());
        self.before = (!self.live.is_empty()).then_some(before);
        if self.ledger.is_empty() {
            self.pins.clear();
        }
        self.seen = self.ledger.is_empty().then_some((0, 0));
    }

    /// Whether an entry is known to be in the archive; without one there is nothing to know.
    pub(super) fn is_durable(&self, seq: Option<Seq>) -> bool {
        seq.is_none_or(|seq| seq.0 < self.durable)
    }

    /// Entries of an edition are in the archive, up to this one.
    pub(super) fn wrote(&mut self, edition: u64, newest: Option<Seq>) {
        self.writes += 1;
        if edition == self.edition {
            self.durable = self.durable.max(newest.map_or(0, |newest| newest.0 + 1));
        }
    }

    /// The batches that the archive does not have yet, to be written again now that it has their entries.
    ///
    /// A batch is given up if its entries have other numbers now.
    pub(super) fn unkept(&mut self, head: Option<Seq>) -> Vec<Arc<LiveBatch>> {
        let Some(before) = self.before.take().filter(|_| head.is_some()) else { return Vec::new() };
        let ledger = &self.ledger;
        let stays = |seq: &Seq| before.link(*seq) == ledger.link(*seq);
        self.live.retain(|live| live.is_kept() || live.edited.iter().all(stays));
        self.live.iter().filter(|live| !live.is_kept()).cloned().collect()
    }

    /// Takes over the batches of the archive, newest first, and keeps those that are not written yet.
    fn hold(&mut self, now: (u64, u64), log: Vec<LoggedBatch>) {
        let unkept = self.live.iter().filter(|live| !live.is_kept()).cloned();
        let unkept: Vec<Arc<LiveBatch>> = unkept.filter(|live| live.number > now.0).collect();
        let known = std::mem::take(&mut self.live);
        for logged in log.into_iter().rev().filter(|logged| logged.is_live) {
            let same = known.iter().find(|live| live.number == logged.number);
            let live = same.filter(|live| live.new.batch == logged.batch).cloned();
            self.live.push(live.unwrap_or_else(|| {
                let LoggedBatch { number, after, at_ms, batch, receipt, .. } = logged;
                let new = NewBatch { after, at_ms, batch, receipt };
                let live = LiveBatch::new(number, new, &self.live);
                live.keep();
                Arc::new(live)
            }));
        }
        self.live.extend(unkept);
        self.seen = Some(now);
    }

    /// The number that the next batch gets.
    pub(super) fn next_batch(&self) -> u64 {
        let newest = self.live.last().map_or(0, |live| live.number);
        newest.max(self.seen.map_or(0, |(batches, _)| batches)) + 1
    }

    /// A batch is in the log under a number, and was undone at once if it is `aside`.
    pub(super) fn committed(&mut self, live: &LiveBatch, number: u64, aside: bool) {
        live.keep();
        let (batches, undos) = self.seen.unwrap_or_default();
        // Where others have written, the log is read again.
        let is_next = number == live.number && (batches + 1 == number || self.seen.is_none());
        self.seen = is_next.then_some((number, undos + u64::from(aside)));
    }

    /// A batch is not in the log and will not be.
    pub(super) fn gave_up(&mut self, live: &LiveBatch) {
        self.live.retain(|other| other.number < live.number || other.is_kept());
        self.seen = None;
    }

    /// Whether a request is a side call: nothing of it is new, and its system prompt is another one.
    pub(super) fn is_aside(&mut self, is_known: bool, system: Link) -> bool {
        let first = *self.system.get_or_insert(system);
        is_known && first != system
    }

    /// The entries whose calls must be compared with those of a request and are not known.
    pub(super) fn unread_calls(&mut self, conversation: &Conversation, chain: &Chain) -> Vec<Seq> {
        if !self.has_unread_calls {
            return Vec::new();
        }
        let path = conversation.path();
        let entries = self.follow(conversation, &mut chain.clone(), 0).seqs;
        let called =
            entries.into_iter().zip(&path.messages[path.lead..]).filter(|(seq, message)| {
                message.calls().next().is_some()
                    && !self.calls.contains_key(seq)
                    && self.forms.get(seq) != Some(&form_of(message))
            });
        called.map(|(seq, _)| seq).collect()
    }

    /// Takes note of the calls of entries.
    pub(super) fn learn_calls(&mut self, calls: Vec<(Seq, Arguments)>) {
        for (seq, arguments) in calls {
            self.calls.entry(seq).or_insert(EntryCalls { arguments, sent: None });
        }
    }

    /// Finds the messages of a request; those whose calls were changed are new.
    pub(super) fn follow(
        &mut self,
        conversation: &Conversation,
        chain: &mut Chain,
        shared: usize,
    ) -> Trail {
        let path = conversation.path();
        let messages = &path.messages[path.lead..];
        let calls = &mut self.calls;
        let has_same_calls = |seq, message: &Message| {
            let form = form_of(message);
            if self.forms.get(&seq) == Some(&form) {
                return true;
            }
            // What cannot be compared is taken for the same.
            let Some(calls) = calls.get_mut(&seq) else { return true };
            if calls.sent != Some(form) && calls.arguments.agree(&Arguments::of(message)) {
                calls.sent = Some(form);
            }
            calls.sent == Some(form)
        };
        self.ledger.follow_told(chain, messages, shared, has_same_calls)
    }

    /// Appends the messages of a request that are new.
    pub(super) fn extend(
        &mut self,
        trail: &mut Trail,
        conversation: &Conversation,
        links: &[Link],
    ) {
        let known = trail.seqs.len();
        let path = conversation.path();
        let messages = path.messages[path.lead..].iter().skip(known);
        self.extend_with(trail, messages, &links[known..]);
    }

    /// Appends messages.
    pub(super) fn extend_with<'m>(
        &mut self,
        trail: &mut Trail,
        messages: impl Iterator<Item = &'m Message>,
        links: &[Link],
    ) {
        let first = trail.seqs.len();
        self.ledger.extend(trail, links);
        for (seq, message) in trail.seqs[first..].iter().zip(messages) {
            self.forms.insert(*seq, form_of(message));
            if message.calls().next().is_some() {
                let arguments = Arguments::of(message);
                self.calls.insert(*seq, EntryCalls { arguments, sent: None });
            }
        }
    }
}

fn form_of(message: &Message) -> u64 {
    let mut hasher = FxHasher::default();
    message.raw.raw().hash(&mut hasher);
    hasher.finish()
}
