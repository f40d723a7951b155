//! What changes in an archive, for whoever looks on.
//!
//! An archive may be written by other processes and other machines, so nobody is told of it: the newest sessions are
//! compared with what they were before. Entries, batches and requests change their records.

use std::collections::HashMap;

use longhand_archive::{Owner, Page, SessionId, SessionInfo};
use serde::{Deserialize, Serialize};

use super::requests::RequestLine;
use super::{App, AppError, Timestamp};

/// How many sessions may change between two looks, the newest ones.
const SESSIONS: usize = 50;

/// How many new requests of a session are told one by one.
const REQUESTS_MAX: u64 = 20;

/// What was known of an archive when it was looked at last.
#[derive(Debug, Default)]
pub struct Watch {
    known: HashMap<SessionId, Mark>,
    /// Whether it was looked at before.
    has_looked: bool,
}

/// What tells whether a session has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mark {
    entries: u64,
    batches: u64,
    requests: u64,
}

/// Something that changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Change {
    /// What.
    pub kind: ChangeKind,
    /// The id of the session.
    pub session: String,
    /// Its name.
    pub name: String,
    /// The user's first words in it.
    pub task: String,
    /// How many entries it has, on all paths.
    pub entries: u64,
    /// How many rounds its newest path has.
    pub rounds: u64,
    /// How many batches its log has, undone ones too.
    pub batches: u64,
    /// The time of its newest entry.
    pub last: Timestamp,
    /// The request, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<RequestLine>,
    /// Whose session it is.
    #[serde(skip)]
    pub owner: Owner,
}

/// What changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ChangeKind {
    /// A session has new entries, or is new.
    Session,
    /// A request was answered.
    Request,
    /// There is a new batch, or one was undone.
    Batch,
    /// An entry was pinned or unpinned.
    Pins,
}

/// What changed since somebody looked last.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Changes {
    /// What changed, oldest first.
    pub items: Vec<Change>,
    /// Whether more changed than that.
    pub has_more: bool,
}

impl App {
    /// What changed since the last look; at the first look, nothing.
    pub fn changes(&self, watch: &mut Watch) -> Result<Changes, AppError> {
        let sessions = self.archive.sessions(self.owner, Page::first(SESSIONS))?.items;
        let is_first = !std::mem::replace(&mut watch.has_looked, true);
        let mut changes = Changes::default();
        let mut sessions_seen = 0;
        let mut known = HashMap::new();
        for info in &sessions {
            let usage = &info.usage.sums;
            let mark =
                Mark { entries: info.entries, batches: info.batches, requests: usage.requests };
            known.insert(info.id, mark);
            let before = watch.known.get(&info.id).copied();
            if is_first || before == Some(mark) {
                continue;
            }
            sessions_seen += 1;
            // An old session that was not among the newest is known by nobody; its requests are old.
            let requests = before.map_or(u64::from(mark.requests > 0), |before| {
                mark.requests.saturating_sub(before.requests)
            });
            self.add_changes(info, before.unwrap_or_default(), mark, requests, &mut changes)?;
        }
        changes.items.reverse();
        changes.has_more |= !is_first && sessions_seen >= SESSIONS;
        watch.known = known;
        Ok(changes)
    }

    /// Adds what changed in a session, newest first.
    fn add_changes(
        &self,
        info: &SessionInfo,
        before: Mark,
        now: Mark,
        requests: u64,
        changes: &mut Changes,
    ) -> Result<(), AppError> {
        if requests > 0 {
            let below = self.request_count(info)?.saturating_add(1);
            let limit = requests.min(REQUESTS_MAX);
            changes.has_more |= requests > limit;
            for line in self.request_lines(info, below, limit as usize)? {
                let change = self.change(info, ChangeKind::Request);
                changes.items.push(Change { request: Some(line), ..change });
            }
        }
        if now.batches != before.batches {
            changes.items.push(self.change(info, ChangeKind::Batch));
        }
        if now.entries != before.entries {
            changes.items.push(self.change(info, ChangeKind::Session));
        }
        Ok(())
    }

    fn change(&self, info: &SessionInfo, kind: ChangeKind) -> Change {
        Change {
            kind,
            session: info.id.to_string(),
            name: info.name.clone(),
            task: self.task(info),
            entries: info.entries,
            rounds: info.rounds,
            batches: info.batches,
            last: Timestamp(info.last_ms),
            request: None,
            owner: info.owner,
        }
    }

    /// What to tell those who look on after a pin or an undo that was made here.
    pub fn changed(&self, name: &str, kind: ChangeKind) -> Result<Change, AppError> {
        let (info, _) = self.look_up(name, super::Access::Read)?;
        Ok(self.change(&info, kind))
    }
}
