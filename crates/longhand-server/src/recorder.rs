//! What was said, put where it belongs: in memory at once, in the archive soon.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use longhand::{Archive, Call, Note, Owner, SessionId, entry_of};
use longhand_archive::{Addition, After, ArchiveError, Form, NewBatch, NewEntry, NewSession, Page};
use longhand_core::{Batch, Handle, Message, Original, Seq, Tokens};
use longhand_dialect::{Conversation, Dialect, read};
use serde_json::Value;

use crate::archivist::{Appending, Archivist, Ticket, Work, attempt};
use crate::asked::SharedMeter;
use crate::lineage::{Lineage, Placed, Root, Stored, Thread};
use crate::meaning::Link;
use crate::metrics::Metrics;
use crate::sticky::Sticky;

/// Keeps sessions.
pub(crate) struct Recorder {
    archive: Arc<dyn Archive>,
    archivist: Archivist,
    lineage: Mutex<Lineage>,
    metrics: Arc<Metrics>,
}

/// A request as it was heard.
pub(crate) struct Heard {
    pub(crate) conversation: Conversation,
    pub(crate) root: Root,
    pub(crate) thread: Thread,
    /// What the request has besides its messages.
    pub(crate) with: Link,
    /// What each of its messages counts for, and by which meter, once that was asked for.
    pub(crate) weights: Mutex<Option<(SharedMeter, Vec<Tokens>)>>,
}

/// An answer to a request.
pub(crate) struct Answer {
    pub(crate) messages: Vec<Message>,
    /// The chain of the request and the answer.
    pub(crate) thread: Thread,
    /// What it took.
    pub(crate) call: Option<Call>,
    /// Its words.
    pub(crate) text: String,
}

/// A batch of edits to be kept.
pub(crate) struct Kept {
    /// The edits; none if they are for this request alone.
    pub(crate) sticky: Option<Arc<Sticky>>,
    pub(crate) originals: Vec<(Handle, Original)>,
    pub(crate) receipt: Value,
}

/// How often a batch is offered to the log while others are added to it.
const COMMITS_MAX: usize = 8;

/// Where a request belongs.
pub(crate) struct Place {
    pub(crate) session: String,
    /// Whether it is a side call.
    pub(crate) aside: bool,
    /// Tells when it is archived; `None` if the archive cannot take it.
    pub(crate) ticket: Option<Ticket>,
}

impl Recorder {
    pub(crate) fn new(
        archive: Arc<dyn Archive>,
        archivist: Archivist,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { archive, archivist, lineage: Mutex::default(), metrics }
    }

    /// Waits until all is archived; takes nothing more.
    pub(crate) fn close(&self) {
        self.archivist.close();
    }

    pub(crate) fn archive(&self) -> &Arc<dyn Archive> {
        &self.archive
    }

    pub(crate) fn lineage(&self) -> MutexGuard<'_, Lineage> {
        self.lineage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a request into its session and has what is new of it archived.
    pub(crate) fn heard(self: &Arc<Self>, heard: &Arc<Heard>) -> Option<Place> {
        let mut lineage = self.lineage();
        let thread = &heard.thread;
        let is_old = lineage.known(&thread.links) == thread.links.len();
        let aside = is_old && lineage.is_aside(thread);
        let placed = place(&mut lineage, heard, None, false)?;
        let messages = &heard.conversation.messages[thread.lead..];
        lineage.hear(
            &heard.root,
            &placed.session,
            "",
            &messages[messages.len().saturating_sub(2)..],
        );
        let session = placed.session.clone();
        // Given under the lock, so that entries are in the order of their links.
        let ticket = self.record(heard, None, placed, false);
        Some(Place { session, aside, ticket })
    }

    /// Has an answer archived after the request that it answers.
    pub(crate) fn answered(
        self: &Arc<Self>,
        heard: &Arc<Heard>,
        answer: Answer,
        aside: bool,
    ) -> Option<(String, Option<Ticket>)> {
        let answer = Arc::new(answer);
        let mut lineage = self.lineage();
        let placed = place(&mut lineage, heard, Some(&answer), aside)?;
        lineage.hear(&heard.root, &placed.session, &answer.text, &answer.messages);
        let session = placed.session.clone();
        Some((session, self.record(heard, Some(answer), placed, aside)))
    }

    /// Has what is new of a chain archived.
    fn record(
        self: &Arc<Self>,
        heard: &Arc<Heard>,
        answer: Option<Arc<Answer>>,
        placed: Placed,
        aside: bool,
    ) -> Option<Ticket> {
        let session = placed.session.clone();
        let new = chain(heard, answer.as_deref()).after(placed.known);
        let bytes = new_messages(heard, answer.as_deref(), new)
            .map(|message| message.raw.raw().len() + 256)
            .sum();
        let record = Record {
            recorder: Arc::clone(self),
            heard: Arc::clone(heard),
            answer,
            placed,
            aside,
            at_ms: now_ms(),
        };
        let ticket = self.archivist.give(bytes, Work::Append(Box::new(record)));
        if ticket.is_none() {
            self.metrics.unarchived.inc();
            // What could not be taken now is new again with the next request.
            let own = Arc::clone(self);
            thread::spawn(move || own.lineage().forget(&session));
        }
        ticket
    }

    /// Lets go of edits that somebody has taken back.
    pub(crate) fn heed_undo(&self, session: &str) {
        let newest = self.archive.batches(id_of(session), Page::first(1));
        if newest.is_ok_and(|newest| newest.items.iter().any(|batch| !batch.is_live)) {
            let windows = self.windows(session);
            self.lineage().keep_only(session, windows);
        }
    }

    /// Has what came of a broken answer archived.
    pub(crate) fn cut(self: &Arc<Self>, session: &str, text: &str) {
        self.note(session, |at_ms| Note::Cut { text: text.to_owned() }.entry(at_ms));
    }

    /// Has an entry archived that is no message.
    pub(crate) fn note(self: &Arc<Self>, session: &str, entry: impl FnOnce(i64) -> NewEntry) {
        let mut lineage = self.lineage();
        let Some(first) = lineage.note(session, 1) else { return };
        let entry = entry(now_ms());
        let bytes = entry.raw.len();
        let addition = Addition {
            session: id_of(session),
            begin: None,
            after: at(first),
            entries: vec![entry],
        };
        let aside = Aside { recorder: Arc::clone(self), session: session.to_owned(), addition };
        self.archivist.give(bytes, Work::Append(Box::new(aside)));
    }

    /// Has a batch of edits kept, with what they take out of sight.
    pub(crate) fn keep(self: &Arc<Self>, session: &str, kept: Kept) -> Option<Ticket> {
        if let Some(sticky) = &kept.sticky {
            self.lineage().keep(session, Arc::clone(sticky));
        }
        let (own, session) = (Arc::clone(self), session.to_owned());
        let bytes = kept.originals.iter().map(|(_, original)| original.as_str().len()).sum();
        let work = move || {
            let done = own.keep_now(id_of(&session), kept);
            if done.is_err() {
                own.metrics.unarchived.inc();
            }
            done.is_ok()
        };
        self.archivist.give(bytes, Work::Other(Box::new(work)))
    }

    /// Has JSON kept under a handle of a session.
    pub(crate) fn keep_json(&self, session: &str, (handle, json): (Handle, String)) {
        self.archivist.give(json.len(), Work::Keep(id_of(session), (handle, json, Form::Json)));
    }

    fn keep_now(&self, session: SessionId, kept: Kept) -> Result<(), ArchiveError> {
        let originals: Vec<(Handle, String, Form)> = kept
            .originals
            .into_iter()
            .map(|(handle, original)| match original {
                Original::Text(text) => (handle, text, Form::Text),
                Original::Json(json) => (handle, json, Form::Json),
            })
            .collect();
        // One whose handle stands for another text already is not kept; the others are.
        attempt(|| self.archive.keep(session, &originals))?;
        if kept.sticky.is_none() {
            return Ok(());
        }
        // The edits are in the receipt.
        let (batch, receipt) = (Batch::default(), kept.receipt.to_string());
        let mut batch = NewBatch { after: 0, at_ms: now_ms(), batch, receipt };
        let mut committed = Ok(());
        for _ in 0..COMMITS_MAX {
            let head = self.archive.head(session)?.and_then(|head| head.head);
            batch.batch.head = head.unwrap_or_default();
            let live = self.archive.live(session, head)?;
            batch.after = live.last().map_or(0, |batch| batch.number);
            committed = attempt(|| self.archive.commit(session, &batch).map(|_| ()));
            if !matches!(committed, Err(ArchiveError::Conflict { .. })) {
                break;
            }
        }
        committed
    }

    /// Waits until what was given so far is done.
    pub(crate) fn settle(&self) {
        if let Some(ticket) = self.archivist.give(0, Work::Other(Box::new(|| true))) {
            let _ = ticket.blocking_recv();
        }
    }

    /// Whether the archive has to be asked about a chain: an earlier run may have known more of it, or
    /// there are edits that somebody may have taken back.
    pub(crate) fn may_ask(&self, root: &Root, links: &[Link]) -> bool {
        let lineage = self.lineage();
        lineage.candidate(root, links).is_some() || lineage.window(links).is_some()
    }

    /// Reads from the archive what an earlier run knew of a chain.
    pub(crate) fn remember(&self, root: &Root, links: &[Link]) {
        loop {
            let (id, known) = {
                let lineage = self.lineage();
                let Some(id) = lineage.candidate(root, links) else { return };
                (id, lineage.known(links))
            };
            let Ok(Some(head)) = self.archive.head(id_of(&id)) else { return };
            let Ok(entries) = self.archive.path(id_of(&id), head.head, 0..head.entries) else {
                return;
            };
            let messages: Vec<(u64, Message)> = entries
                .iter()
                .filter_map(|entry| {
                    let dialect = entry.form.parse::<Dialect>().ok()?;
                    let body = format!("[{}]", entry.raw);
                    let messages = read(body.into_bytes(), Some(dialect)).ok()?.messages;
                    Some(messages.into_iter().map(|message| (entry.seq.0, message)))
                })
                .flatten()
                .collect();
            let windows = if head.batches > 0 { self.windows(&id) } else { Vec::new() };
            let noted = entries.iter().rev().find_map(|entry| match Note::of(entry)? {
                Note::Request { model, with } => {
                    Some(hash_of(&model, with.iter().map(String::as_str)))
                }
                _ => None,
            });
            let entries = head.entries;
            let stored = Stored { id: &id, entries, messages: &messages, windows, noted };
            self.lineage().restore(root, &links[..known], stored);
        }
    }

    /// The live edits of a session, oldest first.
    fn windows(&self, session: &str) -> Vec<Sticky> {
        let live = self.archive.live(id_of(session), None).unwrap_or_default();
        let window = |receipt: &str| {
            let receipt: Value = serde_json::from_str(receipt).ok()?;
            Sticky::parse(receipt.get("window")?)
        };
        live.iter().filter_map(|batch| window(&batch.receipt)).collect()
    }
}

/// The id under which the archive has a session.
pub(crate) fn id_of(session: &str) -> SessionId {
    SessionId::named(Owner::LOCAL, session)
}

/// Where the entry of a number goes: after the one before it.
fn at(entry: u64) -> After {
    After::Entry(entry.checked_sub(1).map(Seq))
}

/// The chain of a request, with its answer if there is one.
fn chain<'h>(heard: &'h Heard, answer: Option<&'h Answer>) -> &'h Thread {
    answer.map_or(&heard.thread, |answer| &answer.thread)
}

fn new_messages<'h>(
    heard: &'h Heard,
    answer: Option<&'h Answer>,
    first: usize,
) -> impl Iterator<Item = &'h Message> {
    let answered = answer.map(|answer| answer.messages.as_slice()).unwrap_or_default();
    heard.conversation.messages.iter().chain(answered).skip(first)
}

fn place(
    lineage: &mut Lineage,
    heard: &Heard,
    answer: Option<&Answer>,
    aside: bool,
) -> Option<Placed> {
    let after = u64::from(answer.is_some_and(|answer| answer.call.is_some()));
    let messages = &heard.conversation.messages;
    lineage.place(&heard.root, chain(heard, answer), messages, heard.with, aside, after)
}

/// The entries of what is new: notes, messages, and what the answer took.
fn entries(heard: &Heard, answer: Option<&Answer>, placed: &Placed, at_ms: i64) -> Vec<NewEntry> {
    let thread = chain(heard, answer);
    if placed.known == thread.links.len() {
        return Vec::new();
    }
    let dialect = heard.conversation.dialect;
    let request = || Note::Request {
        model: heard.conversation.model.clone().unwrap_or_default(),
        with: pieces(&heard.conversation, thread).map(str::to_owned).collect(),
    };
    let notes = placed.origin.clone().into_iter();
    let notes = notes.chain(placed.notes_request.then(request)).map(|note| note.entry(at_ms));
    let new = new_messages(heard, answer, thread.after(placed.known)).enumerate();
    let messages = new.map(|(at, message)| {
        let entry = entry_of(dialect, message, at_ms);
        // The notes before a session's first message opened its first round.
        let is_first = placed.first == 0 && placed.notes() > 0 && at == 0;
        NewEntry { opens_round: entry.opens_round && !is_first, ..entry }
    });
    let call = answer.and_then(|answer| answer.call.as_ref()).map(|call| call.entry(at_ms));
    notes.chain(messages).chain(call).collect()
}

/// What a request has besides messages, piece by piece.
fn pieces<'c>(conversation: &'c Conversation, thread: &Thread) -> impl Iterator<Item = &'c str> {
    let system = conversation.messages[..thread.lead].iter().map(|message| message.raw.raw());
    system.chain(conversation.attributes.iter().map(longhand_core::Text::raw))
}

/// A hash of what a request has besides messages.
pub(crate) fn besides(conversation: &Conversation, thread: &Thread) -> Link {
    let model = conversation.model.as_deref().unwrap_or_default();
    hash_of(model, pieces(conversation, thread))
}

fn hash_of<'p>(model: &str, pieces: impl Iterator<Item = &'p str>) -> Link {
    pieces.fold(Link::root(&[model]), Link::named)
}

/// A request or an answer on its way into the archive.
struct Record {
    recorder: Arc<Recorder>,
    heard: Arc<Heard>,
    answer: Option<Arc<Answer>>,
    placed: Placed,
    aside: bool,
    at_ms: i64,
}

impl Record {
    /// How many links of the chain are not archived yet.
    fn new_links(&self) -> usize {
        chain(&self.heard, self.answer.as_deref()).links.len() - self.placed.known
    }
}

impl Appending for Record {
    fn addition(&mut self) -> Option<Addition> {
        // Numbers that fit in a session that was put otherwise meanwhile fit by chance.
        if self.new_links() > 0 && !self.recorder.lineage().is_current(&self.placed) {
            self.displaced();
        }
        let entries = entries(&self.heard, self.answer.as_deref(), &self.placed, self.at_ms);
        let Placed { session: name, first, .. } = &self.placed;
        let begin = (*first == 0).then(|| NewSession {
            dialect: self.heard.conversation.dialect.as_str().to_owned(),
            name: name.clone(),
            begun_ms: self.at_ms,
            ..NewSession::default()
        });
        let addition = Addition { session: id_of(name), begin, after: at(*first), entries };
        (!addition.entries.is_empty()).then_some(addition)
    }

    /// Another process keeps this session, too, or some of it could not be written before.
    fn displaced(&mut self) -> bool {
        let links = &chain(&self.heard, self.answer.as_deref()).links;
        self.recorder.lineage().forget_placed(&self.placed);
        self.recorder.remember(&self.heard.root, links);
        let mut lineage = self.recorder.lineage();
        let again = place(&mut lineage, &self.heard, self.answer.as_deref(), self.aside);
        let is_placed = again.is_some();
        if let Some(placed) = again {
            self.placed = placed;
        }
        is_placed
    }

    fn moved(&mut self) {
        self.recorder.lineage().forget_placed(&self.placed);
    }

    fn refused(&mut self) {
        self.recorder.metrics.unarchived.inc_by(self.new_links() as u64);
        // It is new again with the next request.
        self.recorder.lineage().forget_placed(&self.placed);
    }
}

/// Entries that are no part of a chain.
struct Aside {
    recorder: Arc<Recorder>,
    session: String,
    addition: Addition,
}

impl Appending for Aside {
    fn addition(&mut self) -> Option<Addition> {
        Some(self.addition.clone())
    }

    fn displaced(&mut self) -> bool {
        false
    }

    fn moved(&mut self) {
        self.recorder.lineage().forget(&self.session);
    }

    fn refused(&mut self) {
        self.recorder.metrics.unarchived.inc_by(self.addition.entries.len() as u64);
        self.recorder.lineage().forget(&self.session);
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as i64
}
