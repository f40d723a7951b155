//! The thread that archives, so that no request waits for a disk.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use longhand::{Archive, searchable};
use longhand_archive::{ArchiveError, Content, Form, NewEntry, Original};
use longhand_core::{Handle, Message};
use longhand_dialect::{Dialect, write};

use crate::ServerError;
use crate::counters::{Counters, add};

/// Takes what is to be archived.
pub(crate) struct Archivist {
    queue: Mutex<Option<Sender<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

enum Job {
    Append { session: String, dialect: Dialect, raws: Vec<(bool, String)>, at_ms: i64 },
    Keep(Vec<(Handle, Original)>),
}

impl Archivist {
    pub(crate) fn start(
        archive: Arc<dyn Archive>,
        counters: Arc<Counters>,
    ) -> Result<Self, ServerError> {
        let (queue, jobs) = channel();
        let thread = thread::Builder::new()
            .name("longhand-archivist".to_owned())
            .spawn(move || run(&*archive, &counters, &jobs))
            .map_err(ServerError::Thread)?;
        Ok(Self { queue: Mutex::new(Some(queue)), thread: Mutex::new(Some(thread)) })
    }

    /// Appends messages to a session, soon.
    pub(crate) fn append(&self, session: &str, dialect: Dialect, messages: &[Message]) {
        let raws: Vec<(bool, String)> = messages
            .iter()
            .map(|message| (message.is_user_turn(), raw(dialect, message)))
            .collect();
        if !raws.is_empty() {
            self.send(Job::Append { session: session.to_owned(), dialect, raws, at_ms: now_ms() });
        }
    }

    /// Keeps what edits take out of sight, soon.
    pub(crate) fn keep(&self, session: &str, originals: Vec<(Handle, longhand_core::Original)>) {
        let archived = |original| {
            let (form, text) = match original {
                longhand_core::Original::Text(text) => (Form::Text, text),
                longhand_core::Original::Json(text) => (Form::Json, text),
            };
            Original { session: Some(session.to_owned()), form, content: Content::Text(text) }
        };
        let originals = originals.into_iter().map(|(handle, own)| (handle, archived(own)));
        self.send(Job::Keep(originals.collect()));
    }

    /// Waits until all is archived.
    pub(crate) fn close(&self) {
        drop(self.queue.lock().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }

    fn send(&self, job: Job) {
        if let Some(queue) = &*self.queue.lock().unwrap_or_else(PoisonError::into_inner) {
            // The thread ends only when the queue does.
            let _ = queue.send(job);
        }
    }
}

/// A message as an element of its format: the text of a request may be a bare string.
fn raw(dialect: Dialect, message: &Message) -> String {
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

fn run(archive: &dyn Archive, counters: &Counters, jobs: &Receiver<Job>) {
    while let Ok(job) = jobs.recv() {
        match job {
            Job::Append { session, dialect, raws, at_ms } => {
                let entries: Vec<NewEntry> = raws
                    .into_iter()
                    .map(|(opens_round, raw)| NewEntry {
                        opens_round,
                        form: dialect.as_str().to_owned(),
                        text: searchable(dialect.as_str(), &raw),
                        raw,
                        at_ms,
                    })
                    .collect();
                let done = persist(|| archive.append(&session, &entries).map(|_| ()));
                let counter = if done { &counters.archived } else { &counters.unarchived };
                add(counter, entries.len() as u64);
            }
            Job::Keep(originals) => {
                if !persist(|| archive.keep(&originals)) {
                    add(&counters.unarchived, originals.len() as u64);
                }
            }
        }
    }
}

fn persist(act: impl Fn() -> Result<(), ArchiveError>) -> bool {
    for attempt in 0..ATTEMPTS {
        match act() {
            Ok(()) => return true,
            Err(ArchiveError::HandleTaken { .. }) => return false,
            Err(_) => thread::sleep(PAUSE * 2_u32.pow(attempt)),
        }
    }
    false
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as i64
}
