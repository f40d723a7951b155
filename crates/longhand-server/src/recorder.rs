//! What was said, put where it belongs: in memory at once, in the archive soon.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use longhand::{Archive, Call, Note, searchable};
use longhand_archive::{Addition, ArchiveError, Content, Form, NewBatch, NewEntry, Original};
use longhand_core::{Handle, Message, Tokens};
use longhand_dialect::{Conversation, Dialect, read, write};
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
    pub(crate) originals: Vec<(Handle, longhand_core::Original)>,
    /// The text of the fold, if there is one.
    pub(crate) text: String,
    /// The last link that it covers.
    pub(crate) folded: Option<Link>,
    pub(crate) receipt: Value,
}

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
        if let Ok(Some(head)) = self.archive.head(session)
            && head.undone
        {
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
        let addition = Addition { session: session.to_owned(), first, entries: vec![entry] };
        let aside = Aside { recorder: Arc::clone(self), addition };
        self.archivist.give(bytes, Work::Append(Box::new(aside)));
    }

    /// Has a batch of edits kept, with what they take out of sight.
    pub(crate) fn keep(self: &Arc<Self>, session: &str, kept: Kept) -> Option<Ticket> {
        if let Some(sticky) = &kept.sticky {
            self.lineage().keep(session, Arc::clone(sticky));
        }
        let (own, session) = (Arc::clone(self), session.to_owned());
        let bytes = kept.originals.iter().map(|(_, original)| size(original)).sum();
        let work = move || {
            let done = own.keep_now(&session, kept);
            if done.is_err() {
                own.metrics.unarchived.inc();
            }
            done.is_ok()
        };
        self.archivist.give(bytes, Work::Other(Box::new(work)))
    }

    /// Has something kept under its handle.
    pub(crate) fn keep_original(&self, (handle, original): (Handle, Original)) {
        self.archivist.give(256, Work::Keep(handle, original));
    }

    fn keep_now(&self, session: &str, kept: Kept) -> Result<(), ArchiveError> {
        let folded = kept.folded.and_then(|link| self.lineage().entry(session, link));
        let originals: Vec<(Handle, Original)> = kept
            .originals
            .into_iter()
            .map(|(handle, own)| (handle, archived(session, own)))
            .collect();
        match attempt(|| self.archive.keep(&originals)) {
            Err(ArchiveError::HandleTaken { .. }) => {
                // One of them stands for something else; the others need not suffer for it.
                for original in originals {
                    let _ = self.archive.keep(&[original]);
                }
            }
            done => done?,
        }
        if kept.sticky.is_none() {
            return Ok(());
        }
        let mut batch = NewBatch {
            after: 0,
            at_ms: now_ms(),
            entries: 0..folded.map_or(0, |last| last + 1),
            text: kept.text,
            receipt: kept.receipt.to_string(),
        };
        loop {
            let head = self.archive.head(session)?;
            batch.after = head.and_then(|head| head.batch).map_or(0, |batch| batch.number);
            match attempt(|| self.archive.commit(session, &batch).map(|_| ())) {
                Err(ArchiveError::Conflict { .. }) => {}
                done => return done,
            }
        }
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
            let Ok(Some(head)) = self.archive.head(&id) else { return };
            let Ok(entries) = self.archive.entries(&id, 0..head.entries) else { return };
            let messages: Vec<(u64, Message)> = entries
                .iter()
                .filter_map(|entry| {
                    let dialect = entry.form.parse::<Dialect>().ok()?;
                    let body = format!("[{}]", entry.raw);
                    let messages = read(body.into_bytes(), Some(dialect)).ok()?.messages;
                    Some(messages.into_iter().map(|message| (entry.seq, message)))
                })
                .flatten()
                .collect();
            let windows = if head.batch.is_some() { self.windows(&id) } else { Vec::new() };
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
    fn windows(&self, id: &str) -> Vec<Sticky> {
        let batches = self.archive.batches(id).unwrap_or_default();
        let live = batches.iter().filter(|batch| !batch.undone);
        live.filter_map(|batch| {
            let receipt: Value = serde_json::from_str(&batch.receipt).ok()?;
            Sticky::parse(receipt.get("window")?)
        })
        .collect()
    }
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
        let raw = raw(dialect, message);
        // The notes before a session's first message opened its first round.
        let is_first = placed.first == 0 && placed.notes() > 0 && at == 0;
        NewEntry {
            opens_round: message.is_user_turn() && !is_first,
            form: dialect.as_str().to_owned(),
            text: searchable(dialect.as_str(), &raw),
            raw,
            at_ms,
        }
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

fn archived(session: &str, original: longhand_core::Original) -> Original {
    let (form, text) = match original {
        longhand_core::Original::Text(text) => (Form::Text, text),
        longhand_core::Original::Json(text) => (Form::Json, text),
    };
    Original { session: Some(session.to_owned()), form, content: Content::Text(text) }
}

fn size(original: &longhand_core::Original) -> usize {
    let (longhand_core::Original::Text(text) | longhand_core::Original::Json(text)) = original;
    text.len()
}

/// A message as an element of its format: the text of a request may be a bare string.
pub(crate) fn raw(dialect: Dialect, message: &Message) -> String {
    let own = message.raw.raw();
    if own.trim_start().starts_with('{') {
        return own.to_owned();
    }
    let other = if dialect == Dialect::Chat { Dialect::Responses } else { Dialect::Chat };
    let list = write(&[(other, message)], dialect);
    list.trim_start_matches('[').trim_end_matches(']').to_owned()
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
        let (session, first) = (self.placed.session.clone(), self.placed.first);
        (!entries.is_empty()).then_some(Addition { session, first, entries })
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

    fn refused(&mut self) {
        self.recorder.metrics.unarchived.inc_by(self.new_links() as u64);
        // It is new again with the next request.
        self.recorder.lineage().forget_placed(&self.placed);
    }
}

/// Entries that are no part of a chain.
struct Aside {
    recorder: Arc<Recorder>,
    addition: Addition,
}

impl Appending for Aside {
    fn addition(&mut self) -> Option<Addition> {
        Some(self.addition.clone())
    }

    fn displaced(&mut self) -> bool {
        false
    }

    fn refused(&mut self) {
        self.recorder.metrics.unarchived.inc_by(self.addition.entries.len() as u64);
        self.recorder.lineage().forget(&self.addition.session);
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as i64
}
