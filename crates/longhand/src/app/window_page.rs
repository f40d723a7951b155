//! A window line by line: what was sent against what was received.

use std::ops::Range;

use longhand_core::{Change, Message, Part, Place, Scale, Shown, cut};
use serde::{Deserialize, Serialize};

use super::prompt_parts::{PromptKind, PromptPart};
use super::seen_window::SeenWindow;
use super::{Access, App, AppError, Timestamp};
use crate::{Receipt, readable};

/// The most bytes of a text in a row.
const TEXT_BYTES_MAX: usize = 8_000;

/// How many rows a page has if nobody says.
const ROWS: usize = 200;

/// Which part of a window is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WindowRequest {
    /// The number of the request that it was made for; the window as it is now if it is not said.
    pub request: Option<u64>,
    /// The first row.
    pub from: usize,
    /// The most rows.
    pub limit: Option<usize>,
    /// Only rows that are not as they came.
    pub changed: bool,
}

/// A window, line by line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WindowPage {
    /// The number of the request that it was made for; `None` for the window as it is now.
    pub request: Option<u64>,
    /// The most tokens it may have; 0 if there is no limit.
    pub budget: u64,
    /// The tokens of the window: as its request was counted, or of all rows.
    pub tokens: u64,
    /// What they would be without edits.
    pub tokens_before: u64,
    /// How many rows are as they came.
    pub kept: u64,
    /// How many rows are shorter than they came.
    pub shortened: u64,
    /// How many entries are left out.
    pub left_out: u64,
    /// How many messages at the beginning are as they came, and not listed because there are too many.
    pub unlisted: u64,
    /// The batches that it was made with, oldest first.
    pub batches: Vec<WindowBatch>,
    /// The rows.
    pub items: Vec<WindowRow>,
    /// How many rows there are.
    pub total: u64,
    /// The row after the last one; `None` at the end.
    pub next: Option<u64>,
}

/// A batch that a window was made with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WindowBatch {
    /// Its number in the session's log.
    pub number: u64,
    /// When it was made.
    pub at: Timestamp,
    /// What it was made for: `budget`, `reference`, `recall` or `unknown`.
    pub why: String,
    /// Whether it was undone since.
    pub undone: bool,
    /// The tokens of the window without it.
    pub tokens_before: Option<u64>,
    /// The tokens of the window with it.
    pub tokens_after: Option<u64>,
}

/// What became of something that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowState {
    /// It is sent as it came.
    Kept,
    /// Less of it is sent.
    Shortened,
    /// Nothing of it is sent.
    LeftOut,
    /// It is text of ours: a fold, or what was recalled.
    Added,
}

/// What a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowKind {
    /// The system prompt.
    System,
    /// A tool that is offered, or another setting.
    Tools,
    /// Words.
    Text,
    /// A call of a tool.
    Call,
    /// The result of a call.
    Result,
    /// A picture.
    Image,
    /// Thinking of the model.
    Thinking,
    /// Something else.
    Other,
    /// The block of a fold.
    Fold,
    /// Text that was brought back.
    Insert,
    /// Messages that a fold stands for, in one row.
    Folded,
}

/// A line of a window: a part of a message, or a block that stands for several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WindowRow {
    /// Its place, from 0.
    pub row: u64,
    /// What became of what was received.
    pub state: RowState,
    /// What it is.
    pub kind: RowKind,
    /// The entry, or the first of several.
    pub entry: Option<u64>,
    /// The last entry of several.
    pub last: Option<u64>,
    /// The part of the entry, as edits name it.
    pub part: Option<u64>,
    /// The round.
    pub round: Option<u64>,
    /// Who said it.
    pub role: Option<String>,
    /// The name of the tool.
    pub name: Option<String>,
    /// What the model sees, at most 8,000 bytes of it.
    pub text: String,
    /// What was received, where that is something else; at most 8,000 bytes of it.
    pub original: Option<String>,
    /// Whether one of the two was cut.
    pub more: bool,
    /// What opens the original.
    pub handle: Option<String>,
    /// The batch that changed it.
    pub batch: Option<u64>,
    /// Why it was changed.
    pub why: Option<String>,
    /// What it takes in the window.
    pub tokens: u64,
    /// What it took as it came; of folded messages, an estimate.
    pub tokens_before: u64,
    /// The difference.
    pub saved: u64,
    /// Whether it stays in every window.
    pub pinned: bool,
}

/// Where a row comes from, before its texts are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowSource {
    /// A part of what comes before the messages.
    Prompt(usize),
    /// The block of the fold.
    Fold,
    /// One of the spans that the fold stands for.
    Folded(usize),
    /// An inserted text.
    Insert(usize),
    /// A part of a message.
    Part(usize, usize),
}

impl App {
    /// The window of a request, or the window as it is now, line by line.
    pub fn window_page(&self, name: &str, request: &WindowRequest) -> Result<WindowPage, AppError> {
        let (info, _) = self.look_up(name, Access::Read)?;
        let seen = self.seen_window(&info, request.request)?;
        let mut counter = Counter::new(&seen);
        let sources = sources(&seen);
        let sizes: Vec<(u64, u64)> =
            sources.iter().map(|source| counter.sizes(&seen, *source)).collect();
        let tokens: u64 = sizes.iter().map(|(_, now)| now).sum();
        let shown_before: u64 = sizes.iter().map(|(before, _)| before).sum();
        let folded = folded_tokens(&seen, shown_before, &sizes);
        let states: Vec<RowState> = sources.iter().map(|source| state(&seen, *source)).collect();
        let count = |wanted: RowState| states.iter().filter(|state| **state == wanted).count();
        let listed: Vec<usize> = (0..sources.len())
            .filter(|at| !request.changed || states[*at] != RowState::Kept)
            .collect();
        let range = page_of(listed.len(), request);
        let items = listed[range.clone()].iter().map(|at| {
            let (before, now) = match sources[*at] {
                RowSource::Folded(span) => (folded.get(span).copied().unwrap_or(0), 0),
                _ => sizes[*at],
            };
            let row = seen.row(sources[*at], states[*at]);
            let saved = before.saturating_sub(now);
            WindowRow { row: *at as u64, tokens: now, tokens_before: before, saved, ..row }
        });
        let told = seen.request.as_ref().map(|(_, request)| request);
        let unedited = shown_before + folded.iter().sum::<u64>();
        Ok(WindowPage {
            request: seen.request.as_ref().map(|(number, _)| *number),
            budget: seen.told_by.as_ref().map_or(0, |request| request.limit),
            tokens: told.map_or(tokens, |request| request.window),
            tokens_before: told.map_or(unedited, |request| request.before),
            kept: count(RowState::Kept) as u64,
            shortened: count(RowState::Shortened) as u64,
            left_out: seen.folded.iter().map(|(_, count)| count).sum(),
            unlisted: seen.unlisted,
            batches: seen.batches.iter().map(WindowBatch::of).collect(),
            items: items.collect(),
            total: listed.len() as u64,
            next: (range.end < listed.len()).then_some(range.end as u64),
        })
    }
}

fn page_of(rows: usize, request: &WindowRequest) -> Range<usize> {
    let start = request.from.min(rows);
    start..rows.min(start.saturating_add(request.limit.unwrap_or(ROWS)))
}

/// The rows of a window in order.
fn sources(seen: &SeenWindow) -> Vec<RowSource> {
    let mut rows: Vec<RowSource> = (0..seen.prompt.len()).map(RowSource::Prompt).collect();
    let mut inserts = seen.window.inserts.iter().map(|(before, _)| *before).enumerate().peekable();
    for at in 0..=seen.messages.len() {
        if seen.window.block.as_ref().is_some_and(|block| block.before == at) {
            rows.push(RowSource::Fold);
            rows.extend((0..seen.folded.len()).map(RowSource::Folded));
        }
        while let Some((insert, _)) = inserts.next_if(|(_, before)| *before == at) {
            rows.push(RowSource::Insert(insert));
        }
        let Some(message) = seen.messages.get(at) else { break };
        rows.extend((0..message.parts.len()).map(|part| RowSource::Part(at, part)));
    }
    rows
}

fn state(seen: &SeenWindow, source: RowSource) -> RowState {
    match source {
        RowSource::Prompt(_) => RowState::Kept,
        RowSource::Fold | RowSource::Insert(_) => RowState::Added,
        RowSource::Folded(_) => RowState::LeftOut,
        RowSource::Part(message, part) => match seen.window.change(message, part) {
            _ if seen.window.is_folded(message) => RowState::LeftOut,
            None => RowState::Kept,
            Some(Change::Text(_)) => RowState::Shortened,
            Some(Change::Removed) => RowState::LeftOut,
        },
    }
}

/// What the spans of the fold took as they came: what the request had without edits and is not shown, shared out by the
/// numbers of their entries. Without a request, what the receipts say that was saved.
fn folded_tokens(seen: &SeenWindow, shown_before: u64, sizes: &[(u64, u64)]) -> Vec<u64> {
    let saved_here: u64 = sizes.iter().map(|(before, now)| before.saturating_sub(*now)).sum();
    let all = match &seen.told_by {
        Some(request) if request.before > 0 => request.before.saturating_sub(shown_before),
        _ => seen.saved_by_receipts().saturating_sub(saved_here),
    };
    let count: u64 = seen.folded.iter().map(|(_, count)| count).sum();
    seen.folded.iter().map(|(_, entries)| all.saturating_mul(*entries) / count.max(1)).collect()
}

impl WindowBatch {
    fn of(logged: &longhand_archive::LoggedBatch) -> Self {
        let receipt = Receipt::read(&logged.receipt);
        Self {
            number: logged.number,
            at: Timestamp(logged.at_ms),
            why: receipt.why.unwrap_or(crate::receipt::ReceiptCause::Unknown).as_str().to_owned(),
            undone: !logged.is_live,
            tokens_before: receipt.tokens_before,
            tokens_after: receipt.tokens_after,
        }
    }
}

impl SeenWindow {
    /// What the batches saved when they were made.
    fn saved_by_receipts(&self) -> u64 {
        let saved = |logged: &longhand_archive::LoggedBatch| {
            let receipt = Receipt::read(&logged.receipt);
            Some(receipt.tokens_before?.saturating_sub(receipt.tokens_after?))
        };
        self.batches.iter().filter_map(saved).sum()
    }

    /// A row without its sizes.
    fn row(&self, source: RowSource, state: RowState) -> WindowRow {
        let blank = WindowRow {
            row: 0,
            state,
            kind: RowKind::Other,
            entry: None,
            last: None,
            part: None,
            round: None,
            role: None,
            name: None,
            text: String::new(),
            original: None,
            more: false,
            handle: None,
            batch: None,
            why: None,
            tokens: 0,
            tokens_before: 0,
            saved: 0,
            pinned: false,
        };
        match source {
            RowSource::Prompt(at) => {
                let PromptPart { kind, name, text } = &self.prompt[at];
                let is_system = *kind == PromptKind::System;
                let kind = if is_system { RowKind::System } else { RowKind::Tools };
                let role = is_system.then(|| "system".to_owned());
                WindowRow { kind, role, name: name.clone(), ..blank }.with_text(text)
            }
            RowSource::Fold => {
                let batch = self.fold_batch();
                let block = self.window.block.as_ref();
                let text = block.map(|block| block.text.as_str()).unwrap_or_default();
                WindowRow {
                    kind: RowKind::Fold,
                    entry: self.folded.first().map(|(span, _)| span.first.0),
                    last: self.folded.last().map(|(span, _)| span.last.0),
                    handle: block.map(|block| block.handle.to_string()),
                    batch: batch.map(|batch| batch.number),
                    ..blank
                }
                .with_text(text)
            }
            RowSource::Folded(at) => {
                let (span, _) = self.folded[at];
                let handle = self.window.block.as_ref().map(|block| block.handle.to_string());
                WindowRow {
                    kind: RowKind::Folded,
                    entry: Some(span.first.0),
                    last: Some(span.last.0),
                    handle,
                    batch: self.fold_batch().map(|batch| batch.number),
                    why: Some("old steps".to_owned()),
                    ..blank
                }
            }
            RowSource::Insert(at) => {
                let (before, text) = &self.window.inserts[at];
                let after = before.checked_sub(1).and_then(|at| self.seqs.get(at));
                WindowRow {
                    kind: RowKind::Insert,
                    entry: after.map(|seq| seq.0),
                    batch: self.insert_batch(text).map(|batch| batch.number),
                    why: Some("recalled".to_owned()),
                    ..blank
                }
                .with_text(text)
            }
            RowSource::Part(at, part) => self.part_row(at, part, blank),
        }
    }

    fn part_row(&self, at: usize, part: usize, blank: WindowRow) -> WindowRow {
        let message = &self.messages[at];
        let content = &message.parts[part];
        let seq = self.seqs[at];
        let place = Place { entry: seq, part: message.said_before(part) };
        let is_thinking = content.is_thinking();
        let received = readable::content(content);
        let (text, original) = match self.window.change(at, part) {
            None if !self.window.is_folded(at) => (received, None),
            Some(Change::Text(text)) => (text.clone(), Some(received)),
            _ => (String::new(), Some(received)),
        };
        let edit = if is_thinking { None } else { self.edit_of(place) };
        let edit = edit.filter(|_| original.is_some());
        let voided = original.is_some() && is_thinking;
        let why = edit.map(|edit| edit.why.clone()).filter(|why| !why.is_empty());
        let mut row = WindowRow {
            kind: RowKind::of(content),
            entry: Some(seq.0),
            part: (!is_thinking).then_some(place.part as u64),
            round: Some(self.rounds[at]),
            role: Some(Self::role(message).as_str().to_owned()),
            name: self.tool(content),
            handle: edit.and_then(|edit| edit.handle.clone()),
            batch: edit.map(|edit| edit.batch),
            why: why.or_else(|| voided.then(|| "an edit before it voids it".to_owned())),
            pinned: self.pins.contains(&seq),
            ..blank
        }
        .with_text(&text);
        if let Some(original) = original {
            row.more |= original.len() > TEXT_BYTES_MAX;
            row.original = Some(cut::head(&original, TEXT_BYTES_MAX).to_owned());
        }
        row
    }
}

impl WindowRow {
    fn with_text(mut self, text: &str) -> Self {
        self.more |= text.len() > TEXT_BYTES_MAX;
        cut::head(text, TEXT_BYTES_MAX).clone_into(&mut self.text);
        self
    }
}

impl RowKind {
    pub(super) fn of(part: &Part) -> Self {
        match part {
            Part::Text(_) | Part::FixedText(_) => Self::Text,
            Part::Thinking(_) => Self::Thinking,
            Part::Image(_) => Self::Image,
            Part::Call(_) => Self::Call,
            Part::Result(_) => Self::Result,
            Part::Media(_) | Part::File(_) | Part::Other(_) => Self::Other,
        }
    }
}

/// So many bytes are counted; the tokens of what comes after them are estimated.
const COUNTED_BYTES_MAX: usize = 16 << 20;

/// About so many bytes are a token.
const BYTES_OF_TOKEN: usize = 4;

/// Counts what a window is made of.
pub(super) struct Counter<'w> {
    scale: Scale<'w>,
    left: usize,
}

impl<'w> Counter<'w> {
    pub(super) fn new(seen: &'w SeenWindow) -> Self {
        Self { scale: Scale::new(&*seen.meter), left: COUNTED_BYTES_MAX }
    }

    pub(super) fn text(&mut self, text: &str) -> u64 {
        if self.is_enough(text.len()) {
            return (text.len() / BYTES_OF_TOKEN) as u64;
        }
        self.scale.text(text).0
    }

    /// Whether no more is counted exactly.
    fn is_enough(&mut self, bytes: usize) -> bool {
        let is_enough = bytes > self.left;
        self.left = self.left.saturating_sub(bytes);
        is_enough
    }

    /// The tokens of a part as it came, and as a text that stands in its place.
    pub(super) fn part(
        &mut self,
        message: &Message,
        part: usize,
        change: Option<&Change>,
    ) -> (u64, u64) {
        let content = &message.parts[part];
        // What a message takes beside its parts counts with the first one.
        let around = if part == 0 { self.scale.around(message) } else { 0 };
        let tokens = |grains: u64| self.scale.tokens(grains).0;
        let bytes = message.raw.raw_len() / message.parts.len().max(1);
        if bytes > self.left {
            self.left = 0;
            let before = (bytes / BYTES_OF_TOKEN) as u64;
            let now = match change {
                None => before,
                Some(Change::Text(text)) => (text.len() / BYTES_OF_TOKEN) as u64,
                Some(Change::Removed) => 0,
            };
            return (before, now);
        }
        let before = tokens(around.saturating_add(self.scale.part(content, u64::MAX)));
        let now = match change {
            None => before,
            Some(Change::Text(text)) => {
                tokens(around.saturating_add(self.scale.replaced(content, text)))
            }
            Some(Change::Removed) => 0,
        };
        self.left -= bytes;
        (before, now)
    }

    /// The tokens of a row as it came, and as it is shown. What is folded is not read.
    fn sizes(&mut self, seen: &SeenWindow, source: RowSource) -> (u64, u64) {
        match source {
            RowSource::Prompt(at) => {
                let tokens = self.text(&seen.prompt[at].text);
                (tokens, tokens)
            }
            RowSource::Fold => {
                let text = seen.window.block.as_ref().map(|block| block.text.as_str());
                (0, text.map_or(0, |text| self.text(text)))
            }
            RowSource::Folded(_) => (0, 0),
            RowSource::Insert(at) => (0, self.text(&seen.window.inserts[at].1)),
            RowSource::Part(message, part) => {
                let change = match &seen.window.messages[message] {
                    Shown::Folded => Some(&Change::Removed),
                    _ => seen.window.change(message, part),
                };
                self.part(&seen.messages[message], part, change)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_lie_within_the_rows() {
        let page =
            |from, limit| page_of(10, &WindowRequest { from, limit, ..WindowRequest::default() });
        assert_eq!(page(0, None), 0..10);
        assert_eq!(page(4, Some(3)), 4..7);
        assert_eq!(page(8, Some(3)), 8..10);
        assert_eq!(page(usize::MAX, Some(usize::MAX)), 10..10);
    }
}
