//! Which edits were regretted: what they had taken out of a model's sight was fetched back.

use std::collections::BTreeMap;

use longhand_archive::{EditSums, LoggedBatch, Note, NoteContent, Page, SessionId};
use longhand_core::Edit;
use serde::{Deserialize, Serialize};

use super::{Access, App, AppError, LoggedEdits, Timestamp};
use crate::Receipt;
use crate::receipt::kind_and_place;

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

/// Which edits of a session were regretted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RegretReport {
    /// How many edits were made, and how many of them were regretted.
    pub sums: RegretSums,
    /// Those that were regretted, newest first.
    pub items: Vec<RegrettedEdit>,
}

/// An edit that was regretted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RegrettedEdit {
    /// Its batch.
    pub batch: u64,
    /// When the batch was made.
    pub at: Timestamp,
    /// What opens what it hides.
    pub handle: String,
    /// `stub`, `clip` or `fold`.
    pub edit: Option<String>,
    /// The entry and its part (`7.0`), or the entries of a fold (`3-8`).
    pub place: Option<String>,
    /// Why it was made, if the receipt tells.
    pub why: Option<String>,
    /// Each time that what it hides was fetched back.
    pub times: Vec<LoggedRegret>,
}

impl App {
    /// Which edits of a session were regretted: what they had hidden was fetched back.
    pub fn regret(&self, name: &str) -> Result<RegretReport, AppError> {
        let (info, _) = self.look_up(name, Access::Read)?;
        let notes = self.notes_of(info.id)?;
        let batches = self.archive.batches(info.id, Page::ALL)?.items;
        let mut items = Vec::new();
        for logged in &batches {
            let mut times: BTreeMap<String, Vec<LoggedRegret>> = BTreeMap::new();
            for regret in of_batch(&notes, logged.number) {
                times.entry(regret.handle.clone()).or_default().push(regret);
            }
            items.extend(times.into_iter().map(|(handle, times)| regretted(logged, handle, times)));
        }
        Ok(RegretReport { sums: sums(info.id, &batches, &notes), items })
    }
}

fn regretted(logged: &LoggedBatch, handle: String, times: Vec<LoggedRegret>) -> RegrettedEdit {
    let receipt = Receipt::read(&logged.receipt);
    let is_it = |edit: &&Edit| edit.handle().is_some_and(|other| other.to_string() == handle);
    let edit = logged.batch.edits.iter().find(is_it);
    let (edit, place) = edit.map(kind_and_place).unzip();
    let why = receipt.edits.into_iter().find(|known| Some(&known.at) == place.as_ref());
    let why = why.map(|known| known.why);
    RegrettedEdit {
        batch: logged.number,
        at: Timestamp(logged.at_ms),
        handle,
        edit: edit.map(str::to_owned),
        place,
        why,
        times,
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
