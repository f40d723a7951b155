//! What was said, put where it belongs: in memory at once, in the archive soon.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use longhand::{Archive, Call, Note, searchable};
use longhand_archive::{ArchiveError, Content, Form, NewBatch, NewEntry, Original};
use longhand_core::{Handle, Message};
use longhand_dialect::{Conversation, Dialect, read, write};
use serde_json::Value;

use crate::archivist::{Archivist, Ticket};
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
    pub(crate) sticky: Arc<Sticky>,
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
        let (own, heard) = (Arc::clone(self), Arc::clone(heard));
        let session = placed.session.clone();
        let at_ms = now_ms();
        let new = chain(&heard, answer.as_deref()).after(placed.known);
        let bytes = new_messages(&heard, answer.as_deref(), new)
            .map(|message| message.raw.raw().len() + 256)
            .sum();
        let ticket = self.archivist.give(&session, bytes, move || {
            own.persist(&heard, answer.as_deref(), placed, aside, at_ms)
        });
        if ticket.is_none() {
            self.metrics.unarchived.inc();
            // What could not be taken now is new again with the next request.
            let own = Arc::clone(self);
            thread::spawn(move || own.lineage().forget(&session));
        }
        ticket
    }

    /// Writes what is new of a chain, wherever that is by now.
    fn persist(
        &self,
        heard: &Heard,
        answer: Option<&Answer>,
        mut placed: Placed,
        aside: bool,
        at_ms: i64,
    ) -> bool {
        for _ in 0..3 {
            let entries = entries(heard, answer, &placed, at_ms);
            if entries.is_empty() {
                return true;
            }
            let session = &placed.session;
            match attempt(|| self.archive.append_at(session, placed.first, &entries)) {
                Ok(()) => {
                    self.metrics.archived.inc_by(entries.len() as u64);
                    self.heed_undo(session);
                    return true;
                }
                Err(ArchiveError::Outrun { .. }) => {
                    // Another process keeps this session too, or some of it could not be written.
                    self.lineage().forget(session);
                    self.remember(&heard.root, &chain(heard, answer).links);
                    let mut lineage = self.lineage();
                    let Some(again) = place(&mut lineage, heard, answer, aside) else {
                        return false;
                    };
                    placed = again;
                }
                Err(_) => {
                    self.metrics.unarchived.inc_by(entries.len() as u64);
                    self.lineage().forget(session);
                    return false;
                }
            }
        }
        false
    }

    /// Lets go of edits that somebody has taken back.
    fn heed_undo(&self, session: &str) {
        if let Ok(Some(head)) = self.archive.head(session)
            && head.undone
        {
            let windows = self.windows(session);
            self.lineage().keep_only(session, windows);
        }
    }

    /// Has what came of a broken answer archived.
    pub(crate) fn cut(self: &Arc<Self>, session: &str, text: &str) {
        let mut lineage = self.lineage();
        let Some(first) = lineage.note(session, 1) else { return };
        let entry = Note::Cut { text: text.to_owned() }.entry(now_ms());
        let (own, session) = (Arc::clone(self), session.to_owned());
        self.archivist.give(&session.clone(), text.len(), move || {
            let done =
                attempt(|| own.archive.append_at(&session, first, std::slice::from_ref(&entry)));
            if done.is_err() {
                own.lineage().forget(&session);
            }
            done.is_ok()
        });
    }

    /// Has a batch of edits kept, with what they take out of sight.
    pub(crate) fn keep(self: &Arc<Self>, session: &str, kept: Kept) -> Option<Ticket> {
        self.lineage().keep(session, Arc::clone(&kept.sticky));
        let (own, session) = (Arc::clone(self), session.to_owned());
        let bytes = kept.originals.iter().map(|(_, original)| size(original)).sum();
        self.archivist.give(&session.clone(), bytes, move || {
            let done = own.keep_now(&session, kept);
            if done.is_err() {
                own.metrics.unarchived.inc();
            }
            done.is_ok()
        })
    }

    /// Has something kept under its handle.
    pub(crate) fn keep_original(self: &Arc<Self>, session: &str, original: (Handle, Original)) {
        let own = Arc::clone(self);
        self.archivist.give(session, 256, move || {
            attempt(|| own.archive.keep(std::slice::from_ref(&original))).is_ok()
        });
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

    /// Waits until what was given for a session so far is done.
    pub(crate) fn settle(&self, session: &str) {
        if let Some(ticket) = self.archivist.give(session, 0, || true) {
            let _ = ticket.blocking_recv();
        }
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
    let messages = new_messages(heard, answer, thread.after(placed.known)).map(|message| {
        let raw = raw(dialect, message);
        NewEntry {
            opens_round: message.is_user_turn(),
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

/// How often and how long to try when an archive is busy or its disk is full.
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(50);

fn attempt(act: impl Fn() -> Result<(), ArchiveError>) -> Result<(), ArchiveError> {
    let is_final = |error: &ArchiveError| {
        use ArchiveError::{Conflict, HandleTaken, Outrun};
        matches!(error, HandleTaken { .. } | Outrun { .. } | Conflict { .. })
    };
    let mut done = act();
    for attempt in 1..ATTEMPTS {
        match done {
            Err(ref error) if !is_final(error) => {
                thread::sleep(PAUSE * 2_u32.pow(attempt));
                done = act();
            }
            _ => break,
        }
    }
    done
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as i64
}
