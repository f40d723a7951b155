//! The window of a request, or the window as it is now, read to be looked at.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use longhand_archive::{
    BatchRecord, Entry, FoldStates, Ledger, LoggedBatch, Page, RequestRecord, SessionInfo, wait,
};
use longhand_core::{
    Batch, EditKind, Message, Part, Path, Place, Projection, Role, Seq, Span, project,
};
use longhand_dialect::Dialect;

use super::inspect::meter_of;
use super::prompt_parts::{PromptPart, prompt_parts};
use super::{App, AppError};
use crate::{Receipt, SharedMeter, meter_for, recall};

/// The most messages that a window is looked through for, the newest ones: it has no more if it fits a model.
const MESSAGES_MAX: u64 = 20_000;

/// A window, with all that it was made of.
pub(super) struct SeenWindow {
    /// The number and the line of the request that it was made for; `None` for the window as it is now.
    pub(super) request: Option<(u64, RequestRecord)>,
    /// The request that tells the budget and the sizes: its own, or the newest one.
    pub(super) told_by: Option<RequestRecord>,
    /// What comes before the messages.
    pub(super) prompt: Vec<PromptPart>,
    pub(super) messages: Vec<Message>,
    pub(super) seqs: Vec<Seq>,
    /// The round and the form of each message.
    pub(super) rounds: Vec<u64>,
    /// The batches that it was made with, oldest first.
    pub(super) batches: Vec<LoggedBatch>,
    pub(super) window: Projection,
    /// What is folded, and how many entries of the path that is.
    pub(super) folded: Vec<(Span, u64)>,
    /// Messages at the beginning that are as they came, and too many to be listed.
    pub(super) unlisted: u64,
    pub(super) pins: HashSet<Seq>,
    pub(super) meter: SharedMeter,
    /// Which batches changed which parts.
    edits: HashMap<Place, PartEdit>,
    /// The names of tools by the ids of their calls.
    tools: HashMap<String, String>,
}

/// What changed a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PartEdit {
    /// The batch's number.
    pub(super) batch: u64,
    /// Why, as the receipt tells; empty if it does not.
    pub(super) why: String,
    /// Whether the part is cut to head and tail, and not replaced by a marker.
    pub(super) is_clip: bool,
    /// What opens it as it came.
    pub(super) handle: Option<String>,
}

/// The newest edits of parts among batches, the oldest of which comes first.
pub(super) fn part_edits(batches: &[LoggedBatch]) -> HashMap<Place, PartEdit> {
    let mut edits = HashMap::new();
    for logged in batches {
        let receipt = Receipt::read(&logged.receipt);
        let reasons = receipt.edits.iter().map(|edit| (edit.at.as_str(), edit.why.as_str()));
        let reasons: HashMap<&str, &str> = reasons.collect();
        for edit in &logged.batch.edits {
            let kind = edit.kind();
            let Some(place) = kind.place() else { continue };
            let why = reasons.get(format!("{}.{}", place.entry.0, place.part).as_str());
            edits.insert(
                place,
                PartEdit {
                    batch: logged.number,
                    why: why.copied().unwrap_or_default().to_owned(),
                    is_clip: matches!(kind, EditKind::Clip(_)),
                    handle: edit.handle().map(|handle| handle.to_string()),
                },
            );
        }
    }
    edits
}

impl SeenWindow {
    /// What changed a part.
    pub(super) fn edit_of(&self, place: Place) -> Option<&PartEdit> {
        self.edits.get(&place)
    }

    /// The newest batch with a fold.
    pub(super) fn fold_batch(&self) -> Option<&LoggedBatch> {
        self.batches.iter().rev().find(|logged| logged.batch.fold().is_some())
    }

    /// The batch that inserted a text.
    pub(super) fn insert_batch(&self, text: &str) -> Option<&LoggedBatch> {
        self.batches.iter().rev().find(|logged| logged.batch.inserts(text))
    }

    /// The name of the tool of a call or a result.
    pub(super) fn tool(&self, part: &Part) -> Option<String> {
        Self::tool_in(&self.tools, part)
    }

    /// The same by the names of tools that calls have, by their ids.
    pub(super) fn tool_in(tools: &HashMap<String, String>, part: &Part) -> Option<String> {
        match part {
            Part::Call(call) => Some(call.name.decode().into_owned()),
            Part::Result(result) => tools.get(&*result.call.decode()).cloned(),
            _ => None,
        }
    }

    /// Who says a message: results are the tool's.
    pub(super) fn role(message: &Message) -> Role {
        let has_result = message.parts.iter().any(|part| matches!(part, Part::Result(_)));
        if has_result { Role::Tool } else { message.role }
    }
}

impl App {
    /// A line of the request log by its number, from 1.
    pub(super) fn request_numbered(
        &self,
        info: &SessionInfo,
        number: u64,
    ) -> Result<RequestRecord, AppError> {
        let page = Page::below(number.saturating_add(1), 1);
        let found = self.archive.requests(info.id, page)?.items.into_iter().next();
        let count = self.request_count(info)?;
        found
            .filter(|_| (1..=count).contains(&number))
            .ok_or_else(|| AppError::NoSuchRequest { session: info.name.clone(), requests: count })
    }

    /// How many lines the request log of a session has.
    pub(super) fn request_count(&self, info: &SessionInfo) -> Result<u64, AppError> {
        let opened = wait(self.archive.open(info.id, longhand_archive::Version::default()))?;
        Ok(opened.map_or(0, |opened| opened.requests))
    }

    /// Reads the window of a request, or the window as it is now.
    pub(super) fn seen_window(
        &self,
        info: &SessionInfo,
        number: Option<u64>,
    ) -> Result<SeenWindow, AppError> {
        let request = match number {
            Some(number) => Some((number, self.request_numbered(info, number)?)),
            None => None,
        };
        let told_by = match &request {
            Some((_, request)) => Some(request.clone()),
            None => self.newest_request(info.id)?,
        };
        let ledger = wait(Ledger::open(&*self.archive, info.id))?;
        let head = request.as_ref().and_then(|(_, request)| request.head);
        let (ranges, batches, pins) = match &ledger {
            None => (Vec::new(), Vec::new(), HashSet::new()),
            Some(ledger) => {
                let (tree, log) = (ledger.state.tree(), ledger.state.log());
                let head = head.filter(|head| tree.contains(*head)).or(tree.newest());
                let numbers = match &request {
                    Some((_, request)) => log.chain(request.batch.min(log.len())),
                    None => ledger.state.live(head),
                };
                let live: Vec<(u64, bool)> =
                    numbers.iter().map(|number| (*number, log.is_live(*number))).collect();
                let path = head.map_or_else(Vec::new, |head| tree.path(head, 0..u64::MAX));
                let batches = self.batches_numbered(info, &live)?;
                (path, batches, ledger.state.pins().iter().copied().collect())
            }
        };
        let meter = match &told_by {
            Some(request) => meter_of(info, request)?,
            None => meter_for(info.dialect.parse().unwrap_or(Dialect::Chat), None)?,
        };
        let spans = batches.iter().rev().find_map(|logged| logged.batch.fold());
        let spans = spans.map(|fold| fold.spans.clone()).unwrap_or_default();
        let folded = spans.iter().map(|span| (*span, count_within(&ranges, span))).collect();
        let mut shown = outside(&ranges, &spans);
        let unlisted = skip_oldest(&mut shown, MESSAGES_MAX);
        let entries = wait(self.archive.bodies(info.id, shown))?;
        let prompt = self.prompt_of(info, told_by.as_ref())?;
        let mut seen = SeenWindow {
            request,
            told_by,
            prompt,
            messages: Vec::new(),
            seqs: Vec::new(),
            rounds: Vec::new(),
            batches,
            window: Projection::default(),
            folded,
            unlisted,
            pins,
            meter,
            edits: HashMap::new(),
            tools: HashMap::new(),
        };
        let mut wire = info.dialect.parse().unwrap_or(Dialect::Chat).wire();
        for record in &entries {
            let Entry { seq, round, .. } = record.entry;
            let Some((dialect, message)) = recall::said(&record.entry) else { continue };
            wire.binds_thinking |= dialect.wire().binds_thinking;
            seen.seqs.push(seq);
            seen.rounds.push(round);
            for call in message.calls() {
                let (id, name) = (call.id.decode(), call.name.decode());
                seen.tools.insert(id.into_owned(), name.into_owned());
            }
            seen.messages.push(message);
        }
        let live: Vec<Batch> = seen.batches.iter().map(|logged| logged.batch.clone()).collect();
        let path = Path { messages: &seen.messages, lead: 0, seqs: &seen.seqs };
        seen.window = project(&path, &live, wire);
        seen.edits = part_edits(&seen.batches);
        Ok(seen)
    }

    /// Batches by number, without the states of their folds, which nobody looks at.
    pub(super) fn batches_numbered(
        &self,
        info: &SessionInfo,
        live: &[(u64, bool)],
    ) -> Result<Vec<LoggedBatch>, AppError> {
        if live.is_empty() {
            return Ok(Vec::new());
        }
        let numbers: Vec<u64> = live.iter().map(|(number, _)| *number).collect();
        let records: Vec<BatchRecord> =
            wait(self.archive.read_batches(info.id, numbers, FoldStates::None))?;
        let logged = records.into_iter().zip(live);
        Ok(logged.map(|(record, (number, is_live))| record.logged(*number, *is_live)).collect())
    }

    /// The system prompt and the tools of a request, as far as the archive has them.
    fn prompt_of(
        &self,
        info: &SessionInfo,
        request: Option<&RequestRecord>,
    ) -> Result<Vec<PromptPart>, AppError> {
        let Some(id) = request.and_then(|request| request.preamble) else { return Ok(Vec::new()) };
        let written = self.archive.preamble(info.owner, id)?;
        Ok(written.map(|written| prompt_parts(&written)).unwrap_or_default())
    }
}

/// How many entries of a path lie within a span.
pub(super) fn count_within(path: &[Range<u64>], span: &Span) -> u64 {
    let count = |range: &Range<u64>| {
        let (start, end) = (range.start.max(span.first.0), range.end.min(span.last.0 + 1));
        end.saturating_sub(start)
    };
    path.iter().map(count).sum()
}

/// The entries of a path that lie in none of the spans.
fn outside(path: &[Range<u64>], spans: &[Span]) -> Vec<Range<u64>> {
    let mut left: Vec<Range<u64>> = path.to_vec();
    for span in spans {
        let cut = |range: Range<u64>| {
            let before = range.start..range.end.min(span.first.0);
            let after = range.start.max(span.last.0 + 1)..range.end;
            [before, after].into_iter().filter(|range| range.start < range.end)
        };
        left = left.into_iter().flat_map(cut).collect();
    }
    left
}

/// Leaves out the oldest entries beyond so many; returns how many that are.
fn skip_oldest(ranges: &mut Vec<Range<u64>>, max: u64) -> u64 {
    let count: u64 = ranges.iter().map(|range| range.end - range.start).sum();
    let skipped = count.saturating_sub(max);
    let mut left = skipped;
    ranges.retain_mut(|range| {
        let from_here = left.min(range.end - range.start);
        range.start += from_here;
        left -= from_here;
        range.start < range.end
    });
    skipped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(first: u64, last: u64) -> Span {
        Span { first: Seq(first), last: Seq(last) }
    }

    #[test]
    fn folded_entries_are_not_read() {
        let path = [0..4, 6..10];
        assert_eq!(outside(&path, &[]), path);
        assert_eq!(outside(&path, &[span(0, 2), span(7, 7)]), [3..4, 6..7, 8..10]);
        assert_eq!(outside(&path, &[span(2, 8)]), [0..2, 9..10]);
        assert_eq!((count_within(&path, &span(2, 8)), count_within(&path, &span(4, 5))), (5, 0));
    }

    #[test]
    fn the_newest_entries_are_read_of_very_many() {
        let mut ranges = vec![0..4, 6..10];
        assert_eq!((skip_oldest(&mut ranges, 8), ranges.clone()), (0, vec![0..4, 6..10]));
        assert_eq!((skip_oldest(&mut ranges, 3), ranges), (5, vec![7..10]));
    }
}
