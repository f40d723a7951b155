//! Writes to a session that wait for the archive.

use std::sync::Arc;

use longhand::{Archive, SessionId, Trail, entry_with};
use longhand_archive::{
    Addition, After, Appended, ArchiveError, Conflict, Expected, NewSession, Request,
};
use longhand_core::{Link, Seq};

use super::live_session::SessionState;
use super::{LiveBatch, LiveSession, NewAnswer, now_ms};
use crate::archivist::JobWeight;
use crate::request::admit::AdmittedRequest;

/// The approximate memory of a message besides its text, and of a write without messages.
const MESSAGE_BYTES: usize = 1 << 10;
const OTHER_BYTES: usize = 256;

/// A write that waits for the archive.
pub(crate) struct PendingWrite {
    session: Arc<LiveSession>,
    messages: Option<PendingMessages>,
    batch: Option<PendingBatch>,
    preamble: Option<String>,
    request: Option<Request>,
    at_ms: i64,
    /// How often it was placed anew since another process was first.
    places: usize,
}

/// Messages, some of which are new.
struct PendingMessages {
    admitted: Arc<AdmittedRequest>,
    answer: Option<NewAnswer>,
    /// The entries of all of them in an edition of the ledger, and how many were known.
    trail: Trail,
    known: usize,
    edition: u64,
}

/// A batch, with the edition of the ledger that has its numbers.
struct PendingBatch {
    live: Arc<LiveBatch>,
    edition: u64,
    /// Whether it is undone at once.
    aside: bool,
}

/// What to do for a write now.
pub(crate) enum WriteStep {
    Add(Box<Addition>),
    /// Everything is in the archive.
    Nothing,
    /// Another write has all of it and is not done yet.
    Later,
    /// It cannot be added any more.
    Refused,
}

/// What came of a write.
pub(crate) enum WriteOutcome {
    Done,
    /// It fails however often it is tried.
    Failed,
    /// It failed and is tried again.
    Kept,
    /// Another process was first: it gets another place once the ledger was read again.
    Again,
}

impl PendingWrite {
    fn of(session: &Arc<LiveSession>) -> Self {
        Self {
            session: Arc::clone(session),
            messages: None,
            batch: None,
            preamble: None,
            request: None,
            at_ms: now_ms(),
            places: 0,
        }
    }

    /// A request of which so many messages were known.
    pub(super) fn request(admitted: &Arc<AdmittedRequest>, known: usize) -> Self {
        let (trail, edition) = (admitted.trail.clone(), admitted.edition);
        let admitted = Arc::clone(admitted);
        let session = Arc::clone(&admitted.session);
        let messages = Some(PendingMessages { admitted, answer: None, trail, known, edition });
        Self { messages, ..Self::of(&session) }
    }

    /// An answer, the line of its request, and what the request had besides messages if that is new.
    pub(super) fn answered(
        admitted: &Arc<AdmittedRequest>,
        answer: NewAnswer,
        (trail, known, edition): (Trail, usize, u64),
        request: Request,
        preamble: Option<String>,
    ) -> Self {
        let admitted = Arc::clone(admitted);
        let session = Arc::clone(&admitted.session);
        let messages =
            Some(PendingMessages { admitted, answer: Some(answer), trail, known, edition });
        Self { messages, preamble, request: Some(request), ..Self::of(&session) }
    }

    /// A batch, which is undone at once if it is `aside`.
    pub(super) fn batch(
        session: &Arc<LiveSession>,
        edition: u64,
        live: Arc<LiveBatch>,
        aside: bool,
    ) -> Self {
        Self { batch: Some(PendingBatch { live, edition, aside }), ..Self::of(session) }
    }

    /// A line for the request log, after the request that it tells of.
    pub(super) fn line(admitted: &Arc<AdmittedRequest>, request: Request) -> Self {
        let known = admitted.chain.links().len();
        Self { request: Some(request), ..Self::request(admitted, known) }
    }

    pub(crate) fn session(&self) -> &Arc<LiveSession> {
        &self.session
    }

    pub(crate) fn session_id(&self) -> SessionId {
        self.session.id
    }

    pub(crate) fn at_ms(&self) -> i64 {
        self.at_ms
    }

    pub(crate) fn places(&self) -> usize {
        self.places
    }

    /// Whether it is a batch: that is made anew if it is lost.
    pub(crate) fn is_batch(&self) -> bool {
        self.batch.is_some()
    }

    /// How many entries it has, an answer that could not be read among them.
    pub(crate) fn count(&self) -> u64 {
        let entries =
            self.messages.as_ref().map_or(0, |messages| messages.links().len() - messages.known);
        entries as u64 + u64::from(self.unread().is_some())
    }

    /// What of an answer could not be read.
    fn unread(&self) -> Option<&(String, String)> {
        self.messages.as_ref()?.answer.as_ref()?.unread.as_ref()
    }

    /// About what it takes in memory.
    pub(super) fn weight(&self) -> JobWeight {
        let Some(messages) = &self.messages else {
            return JobWeight { new: OTHER_BYTES, held: OTHER_BYTES };
        };
        let sizes = messages.new_messages().map(|message| message.raw.raw().len() + MESSAGE_BYTES);
        let unread = self.unread().map_or(0, |(_, value)| value.len());
        let new = OTHER_BYTES + unread + sizes.sum::<usize>();
        let held = usize::try_from(messages.admitted.share.bytes()).unwrap_or(usize::MAX);
        JobWeight { new, held: held.max(new) }
    }

    /// What to do for it now, by the current edition of the ledger.
    pub(crate) fn step(&mut self) -> WriteStep {
        // Others were first, and nobody can read what they wrote.
        let is_lost = self.places > 0 && self.session.is_damaged();
        if self.session.is_foreign() || is_lost {
            return WriteStep::Refused;
        }
        let mut state = self.session.lock();
        let mut addition = Addition {
            session: self.session.id,
            preamble: self.preamble.clone(),
            ..Addition::default()
        };
        if let Some(batch) = &self.batch {
            if batch.edition != state.edition {
                state.gave_up(&batch.live);
                return WriteStep::Refused;
            }
            addition.batch = Some(batch.live.new.clone());
        }
        if let Some(messages) = &mut self.messages {
            if messages.edition != state.edition {
                messages.place(&mut state);
            }
            let newest = messages.trail.path.last().copied();
            if messages.known == messages.links().len() && !state.is_durable(newest) {
                // What a damaged session lacks never comes.
                let is_damaged = self.session.is_damaged();
                return if is_damaged { WriteStep::Refused } else { WriteStep::Later };
            }
            messages.add(&state, self.at_ms, &mut addition);
            if !state.is_durable(Some(Seq(0))) {
                addition.begin = Some(messages.beginning(&self.session, self.at_ms));
            }
        }
        addition.request = self.request.clone().map(|request| {
            let head =
                self.messages.as_ref().and_then(|messages| messages.trail.path.last().copied());
            Request { head: head.or(request.head), ..request }
        });
        addition.derived = self.unread().cloned();
        let is_empty = addition.entries.is_empty()
            && addition.batch.is_none()
            && addition.request.is_none()
            && addition.preamble.is_none();
        if is_empty { WriteStep::Nothing } else { WriteStep::Add(Box::new(addition)) }
    }

    /// Takes the result of the archive.
    pub(crate) fn entered(
        &mut self,
        archive: &dyn Archive,
        result: &Result<Appended, ArchiveError>,
    ) -> WriteOutcome {
        match result {
            Ok(appended) => {
                if let Some(messages) = &self.messages {
                    self.session
                        .lock()
                        .wrote(messages.edition, messages.trail.path.last().copied());
                }
                if let (Some(batch), Some(number)) = (&self.batch, appended.batch) {
                    let aside = batch.aside
                        && archive.undo(self.session.id, Some(batch.live.new.batch.head)).is_ok();
                    self.session.lock().committed(&batch.live, number, aside);
                }
                WriteOutcome::Done
            }
            Err(ArchiveError::Conflict { conflict: Conflict::Batch { .. }, .. }) => {
                if let Some(batch) = &self.batch {
                    self.session.lock().gave_up(&batch.live);
                }
                WriteOutcome::Failed
            }
            // Another process has written there, or has removed the session: then it begins anew.
            Err(
                ArchiveError::Conflict { .. }
                | ArchiveError::UnknownSession { .. }
                | ArchiveError::NoSuchEntries { .. },
            ) => {
                self.session.doubt_later();
                if let Some(batch) = &self.batch {
                    self.session.lock().gave_up(&batch.live);
                    return WriteOutcome::Failed;
                }
                self.places += 1;
                WriteOutcome::Again
            }
            Err(
                ArchiveError::Damaged { .. }
                | ArchiveError::NotTheOwner { .. }
                | ArchiveError::NotOnPath { .. },
            ) => WriteOutcome::Failed,
            Err(_) if self.is_batch() => {
                // It is offered again with the next request.
                self.session.doubt_later();
                WriteOutcome::Failed
            }
            Err(_) => WriteOutcome::Kept,
        }
    }

    /// Notes that it was given up: its messages are new again with the next request.
    pub(crate) fn failed(&self) {
        if !self.is_batch() {
            self.session.doubt_later();
        }
    }
}

impl PendingMessages {
    fn links(&self) -> &[Link] {
        self.answer.as_ref().map_or(&self.admitted.chain, |answer| &answer.chain).links()
    }

    fn new_messages(&self) -> impl Iterator<Item = &longhand_core::Message> {
        let more = self.answer.as_ref().map_or(&[][..], |answer| &answer.messages);
        self.admitted.with(more).skip(self.known)
    }

    /// Finds its place in a ledger that was read again.
    fn place(&mut self, state: &mut SessionState) {
        let links = self.links().to_vec();
        self.trail = state.ledger.follow(&links);
        self.known = self.trail.seqs.len();
        let mut trail = std::mem::take(&mut self.trail);
        state.extend_with(&mut trail, self.new_messages(), &links[self.known..]);
        (self.trail, self.edition) = (trail, state.edition);
    }

    /// The new session, if these are its first messages.
    fn beginning(&self, session: &LiveSession, at_ms: i64) -> NewSession {
        NewSession {
            owner: session.owner,
            dialect: self.admitted.conversation.dialect.as_str().to_owned(),
            name: session.name.clone(),
            continues: session.continues,
            group: session.group,
            begun_ms: at_ms,
        }
    }

    /// Adds what is new.
    fn add(&self, state: &SessionState, at_ms: i64, addition: &mut Addition) {
        let Some(first) = self.trail.seqs.get(self.known).copied() else { return };
        let at = self.trail.path.partition_point(|seq| *seq < first);
        let before = at.checked_sub(1).map(|at| self.trail.path[at]);
        let admitted = &self.admitted;
        let dialect = admitted.conversation.dialect;
        addition.after = After::Entry(before);
        let before = before.and_then(|before| state.ledger.link(before));
        addition.expected = Some(Expected { first, before });
        let chain = self.answer.as_ref().map_or(&admitted.chain, |answer| &answer.chain);
        let meanings = &chain.meanings()[self.known..];
        let new = self.new_messages().zip(meanings);
        let entries = new.map(|(message, meaning)| entry_with(dialect, message, *meaning, at_ms));
        addition.entries = entries.collect();
    }
}
