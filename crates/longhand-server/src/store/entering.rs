//! What is on its way into a session of the archive.

use std::sync::Arc;

use longhand::{Archive, SessionId, Trail, entry_with};
use longhand_archive::{
    Addition, After, Appended, ArchiveError, Conflict, Expected, NewSession, Request,
};
use longhand_core::{Link, Seq};

use super::session::State;
use super::{Answer, Heard, Live, Session, now_ms};
use crate::archivist::Weight;

/// About what a message takes besides its text, and something else that is new.
const MESSAGE_BYTES: usize = 1 << 10;
const OTHER_BYTES: usize = 256;

/// What is on its way into a session.
pub(crate) struct Entering {
    session: Arc<Session>,
    said: Option<Said>,
    batch: Option<Entered>,
    preamble: Option<String>,
    request: Option<Request>,
    at_ms: i64,
    /// How often it has looked for its place since others were first.
    places: usize,
}

/// Messages, some of which are new.
struct Said {
    heard: Arc<Heard>,
    answer: Option<Answer>,
    /// Where all of them are, in an edition of the ledger, and how many were known.
    trail: Trail,
    known: usize,
    edition: u64,
}

/// A batch, with the edition of the ledger that has its numbers.
struct Entered {
    live: Arc<Live>,
    edition: u64,
    /// Whether it is undone at once.
    aside: bool,
}

/// What is to be done for it.
pub(crate) enum Step {
    Add(Box<Addition>),
    /// It is all there.
    Nothing,
    /// Something else has all of it and is not written yet.
    Later,
    /// It cannot be added any more.
    Refused,
}

/// What came of it.
pub(crate) enum Outcome {
    Done,
    /// It will not be taken, however often it is tried.
    Failed,
    /// It was not taken now.
    Kept,
    /// Others were first: it has another place once the ledger was read again.
    Again,
}

impl Entering {
    fn of(session: &Arc<Session>) -> Self {
        Self {
            session: Arc::clone(session),
            said: None,
            batch: None,
            preamble: None,
            request: None,
            at_ms: now_ms(),
            places: 0,
        }
    }

    /// A request of which so many messages were known.
    pub(super) fn heard(heard: &Arc<Heard>, known: usize) -> Self {
        let (trail, edition) = (heard.trail.clone(), heard.edition);
        let heard = Arc::clone(heard);
        let session = Arc::clone(&heard.session);
        let said = Some(Said { heard, answer: None, trail, known, edition });
        Self { said, ..Self::of(&session) }
    }

    /// An answer, the line of its request, and what the request had besides messages if that is new.
    pub(super) fn answered(
        heard: &Arc<Heard>,
        answer: Answer,
        (trail, known, edition): (Trail, usize, u64),
        request: Request,
        preamble: Option<String>,
    ) -> Self {
        let heard = Arc::clone(heard);
        let session = Arc::clone(&heard.session);
        let said = Some(Said { heard, answer: Some(answer), trail, known, edition });
        Self { said, preamble, request: Some(request), ..Self::of(&session) }
    }

    /// A batch, which is undone at once if it is `aside`.
    pub(super) fn batch(
        session: &Arc<Session>,
        edition: u64,
        live: Arc<Live>,
        aside: bool,
    ) -> Self {
        Self { batch: Some(Entered { live, edition, aside }), ..Self::of(session) }
    }

    /// A line for the request log, after the request that it tells of.
    pub(super) fn line(heard: &Arc<Heard>, request: Request) -> Self {
        let known = heard.chain.links().len();
        Self { request: Some(request), ..Self::heard(heard, known) }
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
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

    /// Whether it has no words: it is made anew if it is lost.
    pub(crate) fn is_batch(&self) -> bool {
        self.batch.is_some()
    }

    /// How many entries it has, an answer that could not be read among them.
    pub(crate) fn count(&self) -> u64 {
        let entries = self.said.as_ref().map_or(0, |said| said.links().len() - said.known);
        entries as u64 + u64::from(self.unread().is_some())
    }

    /// What of an answer could not be read.
    fn unread(&self) -> Option<&(String, String)> {
        self.said.as_ref()?.answer.as_ref()?.unread.as_ref()
    }

    /// About what it takes in memory.
    pub(super) fn weight(&self) -> Weight {
        let Some(said) = &self.said else { return Weight { new: OTHER_BYTES, held: OTHER_BYTES } };
        let messages = said.new_messages().map(|message| message.raw.raw().len() + MESSAGE_BYTES);
        let unread = self.unread().map_or(0, |(_, value)| value.len());
        let new = OTHER_BYTES + unread + messages.sum::<usize>();
        let held = usize::try_from(said.heard.share.bytes()).unwrap_or(usize::MAX);
        Weight { new, held: held.max(new) }
    }

    /// What is to be added, where it belongs by now.
    pub(crate) fn step(&mut self) -> Step {
        // Others were first, and nobody can read what they wrote.
        let is_lost = self.places > 0 && self.session.is_damaged();
        if self.session.is_foreign() || is_lost {
            return Step::Refused;
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
                return Step::Refused;
            }
            addition.batch = Some(batch.live.new.clone());
        }
        if let Some(said) = &mut self.said {
            if said.edition != state.edition {
                said.place(&mut state);
            }
            let newest = said.trail.path.last().copied();
            if said.known == said.links().len() && !state.is_durable(newest) {
                // What a damaged session lacks never comes.
                let is_damaged = self.session.is_damaged();
                return if is_damaged { Step::Refused } else { Step::Later };
            }
            said.add(&state, self.at_ms, &mut addition);
            if !state.is_durable(Some(Seq(0))) {
                addition.begin = Some(said.beginning(&self.session, self.at_ms));
            }
        }
        addition.request = self.request.clone().map(|request| {
            let head = self.said.as_ref().and_then(|said| said.trail.path.last().copied());
            Request { head: head.or(request.head), ..request }
        });
        addition.derived = self.unread().cloned();
        let is_empty = addition.entries.is_empty()
            && addition.batch.is_none()
            && addition.request.is_none()
            && addition.preamble.is_none();
        if is_empty { Step::Nothing } else { Step::Add(Box::new(addition)) }
    }

    /// Hears what the archive made of it.
    pub(crate) fn entered(
        &mut self,
        archive: &dyn Archive,
        result: &Result<Appended, ArchiveError>,
    ) -> Outcome {
        match result {
            Ok(appended) => {
                if let Some(said) = &self.said {
                    self.session.lock().wrote(said.edition, said.trail.path.last().copied());
                }
                if let (Some(entered), Some(number)) = (&self.batch, appended.batch) {
                    let aside = entered.aside
                        && archive.undo(self.session.id, Some(entered.live.new.batch.head)).is_ok();
                    self.session.lock().committed(&entered.live, number, aside);
                }
                Outcome::Done
            }
            Err(ArchiveError::Conflict { conflict: Conflict::Batch { .. }, .. }) => {
                if let Some(batch) = &self.batch {
                    self.session.lock().gave_up(&batch.live);
                }
                Outcome::Failed
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
                    return Outcome::Failed;
                }
                self.places += 1;
                Outcome::Again
            }
            Err(
                ArchiveError::Damaged { .. }
                | ArchiveError::NotTheOwner { .. }
                | ArchiveError::NotOnPath { .. },
            ) => Outcome::Failed,
            Err(_) if self.is_batch() => {
                // It is offered again with the next request.
                self.session.doubt_later();
                Outcome::Failed
            }
            Err(_) => Outcome::Kept,
        }
    }

    /// The archive will not take it; its words are new again with the next request.
    pub(crate) fn failed(&self) {
        if !self.is_batch() {
            self.session.doubt_later();
        }
    }
}

impl Said {
    fn links(&self) -> &[Link] {
        self.answer.as_ref().map_or(&self.heard.chain, |answer| &answer.chain).links()
    }

    fn new_messages(&self) -> impl Iterator<Item = &longhand_core::Message> {
        let more = self.answer.as_ref().map_or(&[][..], |answer| &answer.messages);
        self.heard.with(more).skip(self.known)
    }

    /// Finds its place in a ledger that was read again.
    fn place(&mut self, state: &mut State) {
        let links = self.links().to_vec();
        self.trail = state.ledger.follow(&links);
        self.known = self.trail.seqs.len();
        let mut trail = std::mem::take(&mut self.trail);
        state.extend_with(&mut trail, self.new_messages(), &links[self.known..]);
        (self.trail, self.edition) = (trail, state.edition);
    }

    /// The session as it begins with it.
    fn beginning(&self, session: &Session, at_ms: i64) -> NewSession {
        NewSession {
            owner: session.owner,
            dialect: self.heard.conversation.dialect.as_str().to_owned(),
            name: session.name.clone(),
            continues: session.continues,
            group: session.group,
            begun_ms: at_ms,
        }
    }

    /// Adds what is new.
    fn add(&self, state: &State, at_ms: i64, addition: &mut Addition) {
        let Some(first) = self.trail.seqs.get(self.known).copied() else { return };
        let at = self.trail.path.partition_point(|seq| *seq < first);
        let before = at.checked_sub(1).map(|at| self.trail.path[at]);
        let heard = &self.heard;
        let dialect = heard.conversation.dialect;
        addition.after = After::Entry(before);
        let before = before.and_then(|before| state.ledger.link(before));
        addition.expected = Some(Expected { first, before });
        let chain = self.answer.as_ref().map_or(&heard.chain, |answer| &answer.chain);
        let meanings = &chain.meanings()[self.known..];
        let new = self.new_messages().zip(meanings);
        let entries = new.map(|(message, meaning)| entry_with(dialect, message, *meaning, at_ms));
        addition.entries = entries.collect();
    }
}
