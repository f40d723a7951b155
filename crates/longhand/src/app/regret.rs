//! Which edits were regretted: what they had taken out of a model's sight was fetched back.

use longhand_archive::{EditSums, LoggedBatch, Note, NoteContent, SessionId};
use serde::{Deserialize, Serialize};

use super::{LoggedEdits, Timestamp};

/// How many edits were made, and how many of them were regretted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RegretSums {
    /// Edits that took something out of sight.
    pub edits: u64,
    /// Those of them whose text was fetched back.
    pub regretted: u64,
    /// How often something was fetched back.
    pub times: u64,
    /// The tokens that this cost.
    pub tokens: u64,
}

impl From<EditSums> for RegretSums {
    fn from(sums: EditSums) -> Self {
        let EditSums { made, regretted, regrets, tokens } = sums;
        Self { edits: made, regretted, times: regrets, tokens }
    }
}

/// Something that an edit had taken out of sight, and that was fetched back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LoggedRegret {
    /// The handle of the edit.
    pub handle: String,
    /// How it was noticed: `read again`, `asked again` or `recalled`.
    pub how: String,
    /// The entry that brought it back, if that was noted.
    pub by: Option<u64>,
    /// The tokens that it took.
    pub tokens: u64,
    /// When it was noticed.
    pub at: Timestamp,
}

impl RegretSums {
    /// Adds a batch.
    pub fn add(&mut self, logged: &LoggedEdits) {
        let regrets = &logged.regrets;
        let mut handles: Vec<&str> = regrets.iter().map(|regret| regret.handle.as_str()).collect();
        handles.sort_unstable();
        handles.dedup();
        self.edits += logged.edits;
        self.regretted += handles.len() as u64;
        self.times += regrets.len() as u64;
        self.tokens += regrets.iter().map(|regret| regret.tokens).sum::<u64>();
    }
}

/// The regrets of a batch, oldest first. One that two processes have noted is listed once.
pub(super) fn of_batch(notes: &[Note], batch: u64) -> Vec<LoggedRegret> {
    let mut regrets: Vec<LoggedRegret> = Vec::new();
    for note in notes {
        let NoteContent::Regret(regret) = &note.content else { continue };
        let handle = note.handle.to_string();
        let by = regret.by.map(|by| by.0);
        let is_known =
            regrets.iter().any(|known| by.is_some() && known.handle == handle && known.by == by);
        if regret.batch == batch && !is_known {
            let (how, tokens) = (regret.how.as_str().to_owned(), regret.tokens);
            regrets.push(LoggedRegret { handle, how, by, tokens, at: Timestamp(note.at_ms) });
        }
    }
    regrets
}

/// How many edits of a batch took something out of sight.
pub(super) fn hiding(logged: &LoggedBatch) -> u64 {
    logged.batch.edits.iter().filter(|edit| edit.handle().is_some()).count() as u64
}

/// What became of the edits of some batches of a session.
pub(super) fn sums(id: SessionId, batches: &[LoggedBatch], notes: &[Note]) -> RegretSums {
    let mut sums = RegretSums::default();
    for logged in batches {
        sums.add(&LoggedEdits::of(id, logged, notes));
    }
    sums
}
