//! What is on its way into a session of the archive.

use std::sync::Arc;

use longhand::{Archive, SessionId, Trail, entry_with};
use longhand_archive::{Addition, After, Appended, ArchiveError, Expected, NewSession, Request};
use longhand_core::{Link, Seq};

use super::session::State;
use super::{Answer, Heard, Live, Session, now_ms};

/// How often an addition looks for its place when others were first.
const PLACES_MAX: usize = 8;

/// What is on its way into a session.
pub(crate) struct Entering {
    session: Arc<Session>,
    said: Option<Said>,
    batch: Option<Entered>,
    preamble: Option<String>,
    request: Option<Request>,
    at_ms: i64,
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
    /// It cannot be added any more.
    Refused,
}

/// What came of it.
pub(crate) enum Outcome {
    Done,
    Failed,
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

    /// A line for the request log.
    pub(super) fn line(session: &Arc<Session>, request: Request) -> Self {
        Self { request: Some(request), ..Self::of(session) }
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    pub(crate) fn session_id(&self) -> SessionId {
        self.session.id
    }

    /// How many entries and batches it has.
    pub(crate) fn count(&self) -> u64 {
        let entries = self.said.as_ref().map_or(0, |said| said.links().len() - said.known);
        entries as u64 + u64::from(self.batch.is_some()) + u64::from(self.unread().is_some())
    }

    /// What of an answer could not be read.
    fn unread(&self) -> Option<&(String, String)> {
        self.said.as_ref()?.answer.as_ref()?.unread.as_ref()
    }

    /// About what it takes in memory: it holds all of its request.
    pub(super) fn bytes(&self) -> usize {
        let answer = self.said.as_ref().and_then(|said| said.answer.as_ref());
        let answer = answer.map_or(0, |answer| 2 * answer.text.len());
        let answer = answer + self.unread().map_or(0, |(_, value)| 2 * value.len());
        self.said.as_ref().map_or(256, |said| said.heard.share.bytes() as usize + answer)
    }

    /// What is to be added, where it belongs by now.
    pub(crate) fn step(&mut self) -> Step {
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
            said.add(&self.session, &state, self.at_ms, &mut addition);
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
                if let (Some(entered), Some(number)) = (&self.batch, appended.batch) {
                    let aside = entered.aside
                        && archive.undo(self.session.id, Some(entered.live.new.batch.head)).is_ok();
                    self.session.lock().committed(&entered.live, number, aside);
                }
                Outcome::Done
            }
            Err(ArchiveError::Conflict { .. }) if self.places < PLACES_MAX => {
                self.places += 1;
                if let Some(batch) = &self.batch {
                    self.session.lock().gave_up(&batch.live);
                    return Outcome::Failed;
                }
                self.session.doubt_later();
                Outcome::Again
            }
            Err(_) => {
                self.failed();
                Outcome::Failed
            }
        }
    }

    /// The archive did not take it; it is new again with the next request.
    pub(crate) fn failed(&self) {
        self.session.doubt_later();
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

    /// Adds what is new.
    fn add(&self, session: &Session, state: &State, at_ms: i64, addition: &mut Addition) {
        let Some(first) = self.trail.seqs.get(self.known).copied() else { return };
        let at = self.trail.path.partition_point(|seq| *seq < first);
        let before = at.checked_sub(1).map(|at| self.trail.path[at]);
        let heard = &self.heard;
        let dialect = heard.conversation.dialect;
        if first == Seq(0) {
            addition.begin = Some(NewSession {
                owner: session.owner,
                dialect: dialect.as_str().to_owned(),
                name: session.name.clone(),
                continues: session.continues,
                group: session.group,
                begun_ms: at_ms,
            });
        }
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
