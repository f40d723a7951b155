//! The messages of a session, any range of a long one.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use longhand_archive::ask::PathNumbers;
use longhand_archive::{Entry, Ledger, LoggedBatch, SessionInfo, wait};
use longhand_core::{Fold, Place, Seq, cut};
use serde::{Deserialize, Serialize};

use super::search::entry_handle;
use super::seen_window::{PartEdit, SeenWindow, count_within, part_edits};
use super::window_page::RowKind;
use super::{Access, App, AppError, Timestamp};
use crate::entry::trace;
use crate::{readable, recall};

/// The most bytes of the text of a part.
const TEXT_BYTES_MAX: usize = 8_000;

/// How many messages a page has if nobody says.
const MESSAGES: u64 = 100;

/// About so many bytes are a token.
const BYTES_OF_TOKEN: u64 = 4;

/// Which messages are looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MessageRequest {
    /// The first position on the newest path.
    pub from: u64,
    /// Instead of that, an entry that stands in the middle of the page, if it is on the path.
    pub around: Option<u64>,
    /// The most messages.
    pub limit: Option<u64>,
    /// The messages of all paths: positions are then the numbers of entries.
    pub all: bool,
}

/// Messages in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MessagePage {
    /// The messages.
    pub items: Vec<SeenMessage>,
    /// How many messages the path has.
    pub total: u64,
    /// The position of the first item.
    pub from_at: u64,
    /// How many entries the session has, on all paths.
    pub entries: u64,
    /// How many rounds its newest path has.
    pub rounds: u64,
    /// The position after the last item; `None` at the end.
    pub next: Option<u64>,
    /// What is folded now.
    pub fold: Option<FoldRange>,
}

/// What a fold stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FoldRange {
    /// Its first entry.
    pub first: u64,
    /// Its last entry.
    pub last: u64,
    /// How many messages are folded.
    pub messages: u64,
    /// What opens it.
    pub handle: String,
    /// Its batch.
    pub batch: u64,
    /// What it says.
    pub text: String,
}

/// A message of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SeenMessage {
    /// Its number in the session.
    pub entry: u64,
    /// The entry that it follows.
    pub parent: Option<u64>,
    /// Its place on the newest path, from 0; `None` for an entry of another path.
    pub position: Option<u64>,
    /// Its round.
    pub round: u64,
    /// Who said it.
    pub role: String,
    /// When it was said.
    pub at: Timestamp,
    /// Whether the fold stands for it now.
    pub folded: bool,
    /// Whether it stays in every window.
    pub pinned: bool,
    /// How many tokens it has as it came, about.
    pub tokens: u64,
    /// What `expand` takes to bring all of it back.
    pub handle: String,
    /// Its parts.
    pub parts: Vec<SeenPart>,
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SeenPart {
    /// Its number, as edits name it; `None` for thinking.
    pub part: Option<u64>,
    /// What it is.
    pub kind: RowKind,
    /// The name of the tool, of a call or a result.
    pub name: Option<String>,
    /// What it says as people read it, at most 8,000 bytes of it.
    pub text: String,
    /// How many bytes that has in full.
    pub bytes: u64,
    /// Whether it was cut.
    pub more: bool,
    /// What the window shows of it now.
    pub state: PartState,
    /// What opens it, if it is shortened.
    pub handle: Option<String>,
    /// The batch that shortened it.
    pub batch: Option<u64>,
    /// Why it was shortened.
    pub why: Option<String>,
    /// What stands in the window in its place.
    pub shown: Option<String>,
}

/// What a window shows of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PartState {
    /// All of it.
    Kept,
    /// A marker in its place.
    Stubbed,
    /// Its head and tail.
    Clipped,
}

/// What the live batches of a path change, and what is pinned.
struct LiveEdits {
    edits: HashMap<Place, PartEdit>,
    shown: HashMap<Place, String>,
    fold: Option<(u64, Fold)>,
    pins: HashSet<Seq>,
}

impl App {
    /// Messages of a session, in order: those of the newest path, by their positions on it.
    pub fn message_page(
        &self,
        name: &str,
        request: &MessageRequest,
    ) -> Result<MessagePage, AppError> {
        let (info, _) = self.look_up(name, Access::Read)?;
        let empty = MessagePage {
            items: Vec::new(),
            total: 0,
            from_at: 0,
            entries: info.entries,
            rounds: info.rounds,
            next: None,
            fold: None,
        };
        let Some(ledger) = wait(Ledger::open(&*self.archive, info.id))? else { return Ok(empty) };
        let tree = ledger.state.tree();
        let newest = tree.newest().map_or_else(Vec::new, |head| tree.path(head, 0..u64::MAX));
        let newest = PathNumbers(newest);
        let path = if request.all { PathNumbers(vec![0..tree.len()]) } else { newest.clone() };
        let limit = request.limit.unwrap_or(MESSAGES);
        let around = request.around.and_then(|entry| path.place(entry));
        let from = around.map_or(request.from, |place| place.saturating_sub(limit / 2));
        let total = path.len();
        let from = from.min(total);
        let places = from..total.min(from.saturating_add(limit));
        let live = self.live_edits(&info, &ledger)?;
        let records = wait(self.archive.bodies(info.id, path.between(places.start, places.end)))?;
        let entries: Vec<Entry> = records.into_iter().map(|record| record.entry).collect();
        let tools = self.tools_before(&info, &entries)?;
        let one = |entry: &Entry| SeenMessage {
            position: newest.place(entry.seq.0),
            ..message(&info, entry, &live, &tools)
        };
        Ok(MessagePage {
            items: entries.iter().map(one).collect(),
            total,
            from_at: from,
            next: (places.end < total).then_some(places.end),
            fold: live.fold.as_ref().map(|(batch, fold)| fold_range(*batch, fold, &newest.0)),
            ..empty
        })
    }

    fn live_edits(&self, info: &SessionInfo, ledger: &Ledger) -> Result<LiveEdits, AppError> {
        let numbers = ledger.state.live(ledger.state.tree().newest());
        let numbers: Vec<(u64, bool)> = numbers.into_iter().map(|number| (number, true)).collect();
        let batches: Vec<LoggedBatch> = self.batches_numbered(info, &numbers)?;
        let fold = batches
            .iter()
            .rev()
            .find_map(|logged| logged.batch.fold().map(|fold| (logged.number, fold.clone())));
        let mut shown = HashMap::new();
        for edit in batches.iter().flat_map(|logged| &logged.batch.edits) {
            if let Some(place) = edit.kind().place() {
                shown.insert(place, edit.text().to_owned());
            }
        }
        let pins = ledger.state.pins().iter().copied().collect();
        Ok(LiveEdits { edits: part_edits(&batches), shown, fold, pins })
    }

    /// The names of the tools that were called, by the ids of the calls. The call of the first result may be before it.
    fn tools_before(
        &self,
        info: &SessionInfo,
        entries: &[Entry],
    ) -> Result<HashMap<String, String>, AppError> {
        let before = entries.first().and_then(|entry| entry.parent);
        let before = match before {
            Some(parent) => {
                let ranges = vec![parent.0..parent.0 + 1];
                wait(self.archive.bodies(info.id, ranges))?
            }
            None => Vec::new(),
        };
        let all = before.iter().map(|record| &record.entry).chain(entries);
        let mut tools = HashMap::new();
        for (_, message) in all.filter_map(recall::said) {
            for call in message.calls() {
                tools.insert(call.id.decode().into_owned(), call.name.decode().into_owned());
            }
        }
        Ok(tools)
    }
}

fn fold_range(batch: u64, fold: &Fold, path: &[Range<u64>]) -> FoldRange {
    FoldRange {
        first: fold.first().0,
        last: fold.spans.last().map_or(0, |span| span.last.0),
        messages: fold.spans.iter().map(|span| count_within(path, span)).sum(),
        handle: fold.handle().to_string(),
        batch,
        text: fold.text.clone(),
    }
}

fn message(
    info: &SessionInfo,
    entry: &Entry,
    live: &LiveEdits,
    tools: &HashMap<String, String>,
) -> SeenMessage {
    let seq = entry.seq;
    let said = recall::said(entry);
    let parts = if let Some((_, message)) = &said {
        let part = |at: usize| {
            let part = &message.parts[at];
            let place = Place { entry: seq, part: message.said_before(at) };
            seen_part(part, place, SeenWindow::tool_in(tools, part), live)
        };
        (0..message.parts.len()).map(part).collect()
    } else {
        let (name, text) = match trace(&entry.raw) {
            Some((name, summary)) => (Some(name), summary),
            None => (None, entry.raw.clone()),
        };
        vec![SeenPart { name, ..SeenPart::of_text(RowKind::Other, &text) }]
    };
    SeenMessage {
        entry: seq.0,
        parent: entry.parent.map(|parent| parent.0),
        position: None,
        round: entry.round,
        role: said.as_ref().map_or("tool", |(_, said)| SeenWindow::role(said).as_str()).to_owned(),
        at: Timestamp(entry.said_ms()),
        folded: live.fold.as_ref().is_some_and(|(_, fold)| fold.contains(seq)),
        pinned: live.pins.contains(&seq),
        tokens: entry.raw.len() as u64 / BYTES_OF_TOKEN,
        handle: entry_handle(&info.id.to_string(), seq.0..seq.0 + 1),
        parts,
    }
}

fn seen_part(
    part: &longhand_core::Part,
    place: Place,
    name: Option<String>,
    live: &LiveEdits,
) -> SeenPart {
    let seen = SeenPart { name, ..SeenPart::of_text(RowKind::of(part), &readable::content(part)) };
    if part.is_thinking() {
        return seen;
    }
    let seen = SeenPart { part: Some(place.part as u64), ..seen };
    let Some(edit) = live.edits.get(&place) else { return seen };
    SeenPart {
        state: if edit.is_clip { PartState::Clipped } else { PartState::Stubbed },
        handle: edit.handle.clone(),
        batch: Some(edit.batch),
        why: Some(edit.why.clone()).filter(|why| !why.is_empty()),
        shown: live.shown.get(&place).cloned(),
        ..seen
    }
}

impl SeenPart {
    fn of_text(kind: RowKind, text: &str) -> Self {
        Self {
            part: None,
            kind,
            name: None,
            text: cut::head(text, TEXT_BYTES_MAX).to_owned(),
            bytes: text.len() as u64,
            more: text.len() > TEXT_BYTES_MAX,
            state: PartState::Kept,
            handle: None,
            batch: None,
            why: None,
            shown: None,
        }
    }
}
