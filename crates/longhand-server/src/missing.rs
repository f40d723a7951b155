//! The messages that are not in the archive: those that wait to be written, and those that were given up.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use longhand::driver::LiveSession;

use crate::lock::lock;

/// How many sessions with lost messages are listed by name; the rest is listed together.
const NAMED_MAX: usize = 1_000;
const OTHERS: &str = "(other sessions)";

/// Messages of a session that are not in the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The name of the session.
    pub session: String,
    /// How many there are.
    pub messages: u64,
    /// When the first of them came, in milliseconds since 1970.
    pub first_ms: i64,
    /// When the last of them came.
    pub last_ms: i64,
    /// Why they were given up; `None` if they wait to be written.
    pub given_up: Option<String>,
}

/// All messages that are missing.
#[derive(Default)]
pub(crate) struct MissingList {
    content: Mutex<MissingMessages>,
}

#[derive(Default)]
struct MissingMessages {
    /// By the number of the job that writes them.
    waiting: BTreeMap<u64, Waiting>,
    given_up: Vec<Missing>,
}

struct Waiting {
    session: Arc<LiveSession>,
    at_ms: i64,
    messages: u64,
}

impl MissingList {
    /// Notes that messages wait to be written.
    pub(crate) fn waits(&self, job: u64, session: &Arc<LiveSession>, at_ms: i64, messages: u64) {
        if messages > 0 {
            let waiting = Waiting { session: Arc::clone(session), at_ms, messages };
            lock(&self.content).waiting.insert(job, waiting);
        }
    }

    /// Notes that messages no longer wait: they are written, or were given up.
    pub(crate) fn ends(&self, job: u64) {
        lock(&self.content).waiting.remove(&job);
    }

    /// Notes that messages will not be archived.
    pub(crate) fn give_up(&self, session: &str, at_ms: i64, messages: u64, why: &str) {
        if messages == 0 {
            return;
        }
        let mut content = lock(&self.content);
        let is_named = content.given_up.iter().any(|missing| missing.session == session);
        let is_full = !is_named && content.given_up.len() >= NAMED_MAX;
        let session = if is_full { OTHERS } else { session };
        let missing = Missing {
            session: session.to_owned(),
            messages,
            first_ms: at_ms,
            last_ms: at_ms,
            given_up: Some(why.to_owned()),
        };
        add(&mut content.given_up, missing);
    }

    /// All that is missing, by session; what was given up comes first.
    pub(crate) fn all(&self) -> Vec<Missing> {
        let content = lock(&self.content);
        let mut waiting = Vec::new();
        for missing in content.waiting.values() {
            let Waiting { session, at_ms, messages } = missing;
            let missing = Missing {
                session: session.name.clone(),
                messages: *messages,
                first_ms: *at_ms,
                last_ms: *at_ms,
                given_up: None,
            };
            add(&mut waiting, missing);
        }
        content.given_up.iter().cloned().chain(waiting).collect()
    }

    /// What was given up, by session.
    pub(crate) fn given_up(&self) -> Vec<Missing> {
        lock(&self.content).given_up.clone()
    }

    /// Whether anything was given up.
    pub(crate) fn has_given_up(&self) -> bool {
        !lock(&self.content).given_up.is_empty()
    }
}

/// Adds messages to those of the same session.
fn add(list: &mut Vec<Missing>, missing: Missing) {
    match list.iter_mut().find(|known| known.session == missing.session) {
        Some(known) => {
            known.messages += missing.messages;
            known.first_ms = known.first_ms.min(missing.first_ms);
            known.last_ms = known.last_ms.max(missing.last_ms);
        }
        None => list.push(missing),
    }
}
