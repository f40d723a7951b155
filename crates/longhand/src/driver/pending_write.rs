//! Writes to a session that wait for the archive.

use std::cmp::Ordering;
use std::sync::Arc;

use longhand_archive::{
    ArchiveError, BatchRecord, Conflict, Entry, EntryRecord, NewBatch, NewEntry, NewSession, Note,
    NoteContent, RequestRecord, SessionId, Write,
};
use longhand_core::session::{Chain, Node, Trail, Version};
use longhand_core::{Link, Message};

use super::live_batch::LiveBatch;
use super::live_session::LiveSession;
use super::memory::SessionMemory;
use super::placed::{NewAnswer, PlacedRequest};
use crate::entry::{entry_with, opening};
use crate::known_calls::Unread;

/// The approximate memory of a message besides its text, and of a write without messages.
const MESSAGE_BYTES: usize = 1 << 10;
const OTHER_BYTES: usize = 256;

/// The memory of a write.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteWeight {
    /// The bytes of new messages.
    pub new: usize,
    /// All bytes that it keeps in memory, with the rest of its request.
    pub held: usize,
}

/// A write that waits for the archive.
pub struct PendingWrite {
    session: Arc<LiveSession>,
    messages: Option<PendingMessages>,
    batch: Option<PendingBatch>,
    preamble: Option<String>,
    request: Option<RequestRecord>,
    notes: Vec<Note>,
    at_ms: i64,
    /// How often it was placed anew since another process was first, or waited for that.
    places: usize,
}

/// Messages, some of which are new.
struct PendingMessages {
    request: Arc<PlacedRequest>,
    answer: Option<NewAnswer>,
    /// Where they are; `None` if that must still be found.
    placed: Option<PlacedMessages>,
}

/// Where messages are in an edition of the numbers.
pub(super) struct PlacedMessages {
    pub(super) trail: Trail,
    /// The entries of those that are new: the last ones.
    pub(super) nodes: Vec<Node>,
    pub(super) edition: u64,
}

/// A batch, with the edition of its numbers.
struct PendingBatch {
    live: Arc<LiveBatch>,
    edition: u64,
    /// Whether it is undone at once.
    aside: bool,
}

/// What to do for a write now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteStep {
    /// It was added to what is written to its session.
    Added,
    /// Everything is in the archive.
    Nothing,
    /// Another write has all of it, or comes before it, and is not done yet.
    Later,
    /// It must find its place first.
    Replace,
    /// It cannot be added any more.
    Refused,
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// It is in the archive.
    Done,
    /// It will not be taken, however often it is tried.
    Failed,
    /// It was not taken now.
    Kept,
    /// Another process was first: it has another place once the session was read again.
    Again,
}

/// What is written to a session in one transaction.
pub struct SessionWrite {
    /// The session.
    pub session: Arc<LiveSession>,
    write: Write,
    edition: u64,
}

impl SessionWrite {
    /// Nothing yet, on top of what the archive has.
    pub fn new(session: &Arc<LiveSession>) -> Self {
        let memory = session.lock();
        let write = Write::to(session.id, memory.state.written());
        let edition = memory.edition;
        drop(memory);
        Self { session: Arc::clone(session), write, edition }
    }

    /// Takes note that it is under way, and gives what is to be written.
    pub fn begin(&mut self) -> Write {
        let Write { entries, batches, undos, .. } = &self.write;
        let expected = self.write.expected.unwrap_or_default();
        self.session.writing(Version {
            entries: expected.entries + entries.len() as u64,
            batches: expected.batches + batches.len() as u64,
            undos: expected.undos + undos.len() as u64,
            ..expected
        });
        std::mem::take(&mut self.write)
    }

    /// Takes note of what became of it.
    pub fn end(&self, outcome: Option<&Result<Version, ArchiveError>>) {
        let version = outcome.and_then(|outcome| outcome.as_ref().ok().copied());
        self.session.wrote(self.edition, version);
    }

    /// The number that the next entry gets.
    fn next_entry(&self) -> u64 {
        self.write.expected.unwrap_or_default().entries + self.write.entries.len() as u64
    }

    /// The number that the next batch gets.
    fn next_batch(&self) -> u64 {
        self.write.expected.unwrap_or_default().batches + self.write.batches.len() as u64 + 1
    }
}

impl PendingWrite {
    fn of(session: &Arc<LiveSession>, at_ms: i64) -> Self {
        Self {
            session: Arc::clone(session),
            messages: None,
            batch: None,
            preamble: None,
            request: None,
            notes: Vec::new(),
            at_ms,
            places: 0,
        }
    }

    /// A request with the new messages that it brings.
    pub(super) fn request(request: &Arc<PlacedRequest>, nodes: Vec<Node>, at_ms: i64) -> Self {
        let (trail, edition) = (request.trail.clone(), request.edition);
        let placed = Some(PlacedMessages { trail, nodes, edition });
        let messages = PendingMessages { request: Arc::clone(request), answer: None, placed };
        Self { messages: Some(messages), ..Self::of(&request.session, at_ms) }
    }

    /// An answer, the line of its request, and what the request had besides messages if that is new.
    pub(super) fn answered(
        request: &Arc<PlacedRequest>,
        answer: NewAnswer,
        placed: Option<PlacedMessages>,
        line: RequestRecord,
        preamble: Option<String>,
        at_ms: i64,
    ) -> Self {
        let (request, answer) = (Arc::clone(request), Some(answer));
        let session = Arc::clone(&request.session);
        let messages = Some(PendingMessages { request, answer, placed });
        Self { messages, preamble, request: Some(line), ..Self::of(&session, at_ms) }
    }

    /// A batch, which is undone at once if it is `aside`.
    pub(super) fn batch(
        session: &Arc<LiveSession>,
        edition: u64,
        live: Arc<LiveBatch>,
        aside: bool,
    ) -> Self {
        let at_ms = live.new.at_ms;
        Self { batch: Some(PendingBatch { live, edition, aside }), ..Self::of(session, at_ms) }
    }

    /// A line for the request log, after the request that it tells of.
    pub fn line(request: &Arc<PlacedRequest>, line: RequestRecord) -> Self {
        let at_ms = line.at_ms;
        Self { request: Some(line), ..Self::request(request, Vec::new(), at_ms) }
    }

    /// Notes on what a request shows, after it.
    pub(super) fn notes(request: &Arc<PlacedRequest>, notes: Vec<Note>, at_ms: i64) -> Self {
        Self { notes, ..Self::request(request, Vec::new(), at_ms) }
    }

    /// The session that it is for.
    pub fn session(&self) -> &Arc<LiveSession> {
        &self.session
    }

    /// The id of that.
    pub fn session_id(&self) -> SessionId {
        self.session.id
    }

    /// When it came.
    pub fn at_ms(&self) -> i64 {
        self.at_ms
    }

    /// How often it was placed anew.
    pub fn places(&self) -> usize {
        self.places
    }

    /// Takes note that it waits before it is placed once more.
    pub fn rest(&mut self) {
        self.places += 1;
    }

    /// Whether it has no words: it is made anew if it is lost.
    pub fn is_batch(&self) -> bool {
        self.batch.is_some()
    }

    /// How many entries it has, an answer that could not be read among them.
    pub fn count(&self) -> u64 {
        let entries = self.messages.as_ref().map_or(0, PendingMessages::count);
        entries as u64 + u64::from(self.unread().is_some())
    }

    /// How many entries it added.
    pub fn new_entries(&self) -> u64 {
        self.messages.as_ref().map_or(0, PendingMessages::count) as u64
    }

    /// What of an answer could not be read.
    fn unread(&self) -> Option<&Note> {
        self.messages.as_ref()?.answer.as_ref()?.unread.as_ref()
    }

    /// About what it takes in memory.
    pub fn weight(&self) -> WriteWeight {
        let Some(messages) = &self.messages else {
            return WriteWeight { new: OTHER_BYTES, held: OTHER_BYTES };
        };
        let count = messages.count();
        let new = messages.all().rev().take(count);
        let bytes = new.map(|message| message.raw.raw().len() + MESSAGE_BYTES).sum::<usize>();
        let unread = self.unread().map_or(0, |note| match &note.content {
            NoteContent::Unread(answer) => answer.len(),
            NoteContent::Regret(_) => 0,
        });
        let new = OTHER_BYTES + unread + bytes;
        let held = usize::try_from(messages.request.bytes()).unwrap_or(usize::MAX);
        WriteWeight { new, held: held.max(new) }
    }

    /// Adds it to what is written to its session, if it has its place there.
    pub fn step(&mut self, target: &mut SessionWrite) -> WriteStep {
        // Another process was first, and nobody can read what it wrote.
        let is_lost = self.places > 0 && self.session.is_damaged();
        if self.session.is_foreign() || is_lost {
            return WriteStep::Refused;
        }
        let is_doubted = self.session.is_doubted();
        let mut memory = self.session.lock();
        if let Some(batch) = &self.batch {
            let is_current = batch.edition == memory.edition && batch.edition == target.edition;
            return match batch.live.number.cmp(&target.next_batch()) {
                _ if is_doubted || !is_current => WriteStep::Refused,
                Ordering::Less => WriteStep::Refused,
                Ordering::Greater => WriteStep::Later,
                Ordering::Equal => batch.add(&memory, target),
            };
        }
        let Some(messages) = &mut self.messages else { return WriteStep::Nothing };
        if is_doubted || memory.edition != target.edition {
            return WriteStep::Replace;
        }
        if messages.placed.as_ref().is_none_or(|placed| placed.edition != memory.edition) {
            messages.placed = messages.find_place(&mut memory).ok();
        }
        let Some(placed) = &messages.placed else { return WriteStep::Replace };
        if let Some(first) = placed.nodes.first() {
            match first.seq.0.cmp(&target.next_entry()) {
                Ordering::Less => return WriteStep::Replace,
                Ordering::Greater => return WriteStep::Later,
                Ordering::Equal => {}
            }
        } else if placed.trail.head().is_some_and(|head| head.0 >= target.next_entry()) {
            // What a damaged session lacks never comes.
            let is_damaged = self.session.is_damaged();
            return if is_damaged { WriteStep::Refused } else { WriteStep::Later };
        }
        drop(memory);
        self.add_messages(target)
    }

    /// Adds new messages, and what came with them.
    fn add_messages(&self, target: &mut SessionWrite) -> WriteStep {
        let Some((messages, placed)) =
            self.messages.as_ref().and_then(|messages| Some((messages, messages.placed.as_ref()?)))
        else {
            return WriteStep::Replace;
        };
        let is_empty = placed.nodes.is_empty()
            && self.request.is_none()
            && self.preamble.is_none()
            && self.notes.is_empty()
            && self.unread().is_none();
        if is_empty {
            return WriteStep::Nothing;
        }
        if target.write.expected == Some(Version::default()) && target.write.begin.is_none() {
            target.write.begin = Some(messages.beginning(&self.session, self.at_ms));
        }
        target.write.entries.extend(messages.records(placed, self.at_ms));
        target.write.preambles.extend(self.preamble.clone());
        target.write.requests.extend(self.request.clone().map(|request| {
            let head = placed.trail.head();
            RequestRecord { head: head.or(request.head), ..request }
        }));
        target.write.notes.extend(self.unread().cloned());
        target.write.notes.extend(self.notes.iter().cloned());
        WriteStep::Added
    }

    /// What must be known of its session before it can be placed: the links of its messages.
    pub fn links(&mut self) -> Vec<Link> {
        self.places += 1;
        self.messages.as_ref().map(|messages| messages.chain().links().to_vec()).unwrap_or_default()
    }

    /// Hears what the archive made of it.
    pub fn entered(&mut self, result: &Result<Version, ArchiveError>) -> WriteOutcome {
        match result {
            Ok(_) => WriteOutcome::Done,
            // Another process has written there, or has removed the session: then it begins anew.
            Err(
                ArchiveError::Conflict { conflict: Conflict::Version, .. }
                | ArchiveError::UnknownSession { .. }
                | ArchiveError::NoSuchEntries { .. },
            ) => {
                self.session.doubt_later();
                if self.is_batch() { WriteOutcome::Failed } else { WriteOutcome::Again }
            }
            Err(
                ArchiveError::Damaged { .. }
                | ArchiveError::NotTheOwner { .. }
                | ArchiveError::Unfit { .. },
            ) => WriteOutcome::Failed,
            Err(_) if self.is_batch() => {
                // It is offered again with the next request.
                self.session.doubt_later();
                WriteOutcome::Failed
            }
            Err(_) => WriteOutcome::Kept,
        }
    }

    /// The archive will not take it; its words are new again with the next request.
    pub fn failed(&self) {
        let edition = self.session.lock().edition;
        // A batch of an earlier edition is not in memory any more.
        if self.batch.as_ref().is_none_or(|batch| batch.edition == edition) {
            self.session.doubt_later();
        }
    }
}

impl PendingBatch {
    fn add(&self, memory: &SessionMemory, target: &mut SessionWrite) -> WriteStep {
        let number = self.live.number;
        let Some(line) = memory.state.log().line(number) else { return WriteStep::Refused };
        // It may only edit entries that are there when it is written.
        if line.reach.is_some_and(|reach| reach.0 >= target.next_entry()) {
            return WriteStep::Later;
        }
        let NewBatch { at_ms, batch, receipt, .. } = self.live.new.clone();
        target.write.batches.push(BatchRecord { line: *line, at_ms, batch, receipt });
        if self.aside {
            target.write.undos.push(number);
        }
        WriteStep::Added
    }
}

impl PendingMessages {
    fn chain(&self) -> &Chain {
        self.answer.as_ref().map_or(&self.request.chain, |answer| &answer.chain)
    }

    /// All messages of the request and the answer.
    fn all(&self) -> impl DoubleEndedIterator<Item = &Message> {
        let more = self.answer.as_ref().map_or(&[][..], |answer| &answer.messages);
        self.request.with(more)
    }

    /// How many are new, as far as that is known.
    fn count(&self) -> usize {
        let unplaced = || self.answer.as_ref().map_or(0, |answer| answer.messages.len());
        self.placed.as_ref().map_or_else(unplaced, |placed| placed.nodes.len())
    }

    /// Finds where they are, and appends those that are new.
    fn find_place(&self, memory: &mut SessionMemory) -> Result<PlacedMessages, Unread> {
        let links = self.chain().links();
        let mut trail = Trail::default();
        memory.state.follow(&mut trail, links).map_err(Unread::Nodes)?;
        let known = trail.seqs.len();
        let nodes = memory.extend(&mut trail, self.all().skip(known), &links[known..])?;
        Ok(PlacedMessages { trail, nodes, edition: memory.edition })
    }

    /// The session as it begins with them.
    fn beginning(&self, session: &LiveSession, at_ms: i64) -> NewSession {
        NewSession {
            owner: session.owner,
            dialect: self.request.dialect().as_str().to_owned(),
            name: session.name.clone(),
            continues: session.continues,
            group: session.group,
            begun_ms: at_ms,
            opening: opening(self.all()),
            origin: session.origin.get().cloned().unwrap_or_default(),
        }
    }

    /// The new ones as they are stored.
    fn records(&self, placed: &PlacedMessages, at_ms: i64) -> impl Iterator<Item = EntryRecord> {
        let known = placed.trail.seqs.len() - placed.nodes.len();
        let dialect = self.request.dialect();
        let new = self.all().zip(self.chain().meanings()).skip(known).zip(&placed.nodes);
        new.map(move |((message, meaning), node)| {
            let NewEntry { form, raw, text, at_ms, source_ms, .. } =
                entry_with(dialect, message, *meaning, at_ms);
            let Node { seq, parent, link, round } = *node;
            let entry = Entry { seq, parent, link, round, form, raw, at_ms, source_ms };
            EntryRecord { entry, text }
        })
    }
}

/// Finds where the messages of an answer are, without asking the archive; `None` if that is not possible.
pub(super) fn placed_at_once(
    memory: &mut SessionMemory,
    request: &PlacedRequest,
    answer: &NewAnswer,
) -> Option<PlacedMessages> {
    if memory.edition != request.edition {
        return None;
    }
    let (links, count) = (answer.chain.links(), request.chain.links().len());
    let mut trail = request.trail.clone();
    if trail.seqs.len() != count {
        return None;
    }
    memory.state.follow(&mut trail, &links[count..]).ok()?;
    let known = trail.seqs.len();
    let messages = request.with(&answer.messages).skip(known);
    let nodes = memory.extend(&mut trail, messages, &links[known..]).ok()?;
    Some(PlacedMessages { trail, nodes, edition: memory.edition })
}
