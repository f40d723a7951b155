//! What was left out of a session's windows, and why.

use longhand_archive::{Ledger, LoggedBatch, Note, Page, SessionId, SessionInfo, wait};
use longhand_core::Tally;
use serde::{Deserialize, Serialize};

use super::{Access, App, AppError, LoggedRegret, Timestamp, regret};
use crate::Receipt;
use crate::unread::{self, UnreadAnswer, UnreadContent};

/// A line of a session's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum LogLine {
    /// Edits that were made together.
    Edits(Box<LoggedEdits>),
    /// An answer that could not be read.
    Unread(UnreadLine),
}

/// A batch of edits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LoggedEdits {
    /// Its number in the session's log, from 1.
    pub number: u64,
    /// Whether it was undone, or one that it builds on.
    pub undone: bool,
    /// How many parts became stubs.
    pub stubs: u64,
    /// How many parts were clipped.
    pub clips: u64,
    /// How many entries are folded.
    pub folded: u64,
    /// How many of its edits took something out of sight.
    #[serde(default)]
    pub edits: u64,
    /// Those that were regretted: what they took out of sight was fetched back.
    #[serde(default)]
    pub regrets: Vec<LoggedRegret>,
    /// Why it was made, and what it saves.
    pub receipt: Receipt,
    /// When it was made.
    pub at: Timestamp,
    /// The id of its session.
    pub session: String,
}

/// An answer that could not be read, or not all of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UnreadLine {
    /// The handle that opens it.
    pub unread: String,
    /// When its request was sent, in milliseconds since 1970.
    pub at_ms: i64,
    /// Why it could not be read.
    pub why: String,
    /// Its `Content-Type`.
    #[serde(rename = "type")]
    pub content_type: String,
    /// Its `Content-Encoding`.
    pub coding: String,
    /// How many bytes it had.
    pub bytes: u64,
    /// Whether it was kept.
    pub kept: bool,
    /// What it was kept as: `text` or `base64`.
    pub form: Option<String>,
    /// The id of its session.
    pub session: String,
}

impl LoggedEdits {
    pub(super) fn of(session: SessionId, logged: &LoggedBatch, notes: &[Note]) -> Self {
        let Tally { stubs, clips, folded, .. } = Tally::of(&logged.batch.edits);
        Self {
            number: logged.number,
            undone: !logged.is_live,
            stubs: stubs as u64,
            clips: clips as u64,
            folded,
            edits: regret::hiding(logged),
            regrets: regret::of_batch(notes, logged.number),
            receipt: Receipt::read(&logged.receipt),
            at: Timestamp(logged.at_ms),
            session: session.to_string(),
        }
    }
}

impl UnreadLine {
    fn of(session: SessionId, answer: UnreadAnswer) -> Self {
        let form = match answer.content {
            UnreadContent::Text(_) => Some("text"),
            UnreadContent::Base64(_) => Some("base64"),
            UnreadContent::Withheld => None,
        };
        Self {
            unread: answer.handle().to_string(),
            at_ms: answer.at_ms,
            kept: form.is_some(),
            form: form.map(str::to_owned),
            why: answer.why,
            content_type: answer.kind,
            coding: answer.coding,
            bytes: answer.bytes,
            session: session.to_string(),
        }
    }
}

/// The batches of a session, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LogPage {
    /// The batches.
    pub items: Vec<LoggedEdits>,
    /// Answers that could not be read; on the first page alone.
    pub unread: Vec<UnreadLine>,
    /// Where the next page begins; `None` on the last one.
    pub next: Option<String>,
    /// The batch that an undo would take back.
    pub undoable: Option<u64>,
}

impl App {
    /// The batches of one session, newest first; `after` is [`LogPage::next`] of the page before.
    pub fn log_page(
        &self,
        name: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<LogPage, AppError> {
        let (info, _) = self.look_up(name, Access::Read)?;
        let cursor = |text: &str| text.parse().map_err(|_| AppError::BadPage(text.to_owned()));
        let page = Page { after: after.map(cursor).transpose()?, limit };
        let found = self.archive.batches(info.id, page)?;
        let notes = self.notes_of(info.id)?;
        let items = found.items.iter().map(|logged| LoggedEdits::of(info.id, logged, &notes));
        let unread = if after.is_none() { unread::among(&notes) } else { Vec::new() };
        Ok(LogPage {
            items: items.collect(),
            unread: unread.into_iter().map(|answer| UnreadLine::of(info.id, answer)).collect(),
            next: found.next.map(|next| next.to_string()),
            undoable: self.undoable(&info)?,
        })
    }

    /// The batch that an undo takes back: the newest live one of the newest path.
    pub(super) fn undoable(&self, info: &SessionInfo) -> Result<Option<u64>, AppError> {
        let ledger = wait(Ledger::open(&*self.archive, info.id))?;
        Ok(ledger.and_then(|ledger| ledger.state.live(ledger.state.tree().newest()).pop()))
    }

    /// Lists the edits of a conversation, oldest first, and after them the answers that could not be read.
    pub fn log(&self, name: &str) -> Result<Vec<LogLine>, AppError> {
        let (info, _) = self.look_up(name, Access::Read)?;
        let (mut edits, mut unread) = (Vec::new(), Vec::new());
        for info in self.chain_of(&info)? {
            let batches = self.archive.batches(info.id, Page::ALL)?.items;
            let notes = self.notes_of(info.id)?;
            let line = |logged| LogLine::Edits(Box::new(LoggedEdits::of(info.id, logged, &notes)));
            edits.extend(batches.iter().rev().map(line));
            let answers = unread::among(&notes).into_iter();
            unread.extend(answers.map(|answer| LogLine::Unread(UnreadLine::of(info.id, answer))));
        }
        edits.extend(unread);
        Ok(edits)
    }
}
