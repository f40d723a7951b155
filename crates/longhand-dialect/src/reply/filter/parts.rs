//! Streams whose events name the part of the answer that they belong to: a block or an item.

use std::collections::BTreeMap;
use std::mem;

use super::Before;
use crate::edits::Edits;
use crate::reply::{ReplyEvent, ReplyPart, ReplyStream, anthropic, responses};
use crate::sse::SseFrame;
use crate::view::View;

/// The parts of an answer, however many answers they come from.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// Whether each part of this answer is hidden.
    hidden: BTreeMap<u64, bool>,
    /// Whether a call is shown, for which the answer waits.
    asks_client: bool,
    /// Reasoning that waits for its item, because providers refuse it alone.
    reasoning: Vec<(u64, SseFrame)>,
    /// The end of an answer that has a hidden call: another answer may follow instead.
    tail: Vec<SseFrame>,
    numbering: responses::Numbering,
}

impl Parts {
    pub(super) fn hides(&self) -> bool {
        self.hidden.values().any(|is_hidden| *is_hidden)
    }

    pub(super) fn go_on(&mut self) {
        let numbering = mem::take(&mut self.numbering);
        *self = Self { numbering, ..Self::default() };
    }

    /// Takes an event and returns the visible part of it and of the events that waited for it.
    pub(super) fn take(
        &mut self,
        frame: SseFrame,
        event: ReplyEvent,
        stream: &ReplyStream,
        before: &Before,
    ) -> Vec<u8> {
        match event {
            ReplyEvent::Start if before.goes_on => Vec::new(),
            ReplyEvent::Part { index, begins } => {
                self.part(index, begins.as_ref(), frame, stream, before)
            }
            ReplyEvent::End if self.hides() => {
                self.tail.push(frame);
                Vec::new()
            }
            ReplyEvent::End => {
                let mut seen = self.release(stream, before);
                seen.extend(self.last(frame, stream, before));
                seen
            }
            ReplyEvent::Start | ReplyEvent::Other => self.seen(frame, None, stream, before),
        }
    }

    /// Gives all that was held back, but for reasoning that led to a hidden call.
    pub(super) fn end(&mut self, stream: &ReplyStream, before: &Before) -> Vec<u8> {
        let mut seen = if self.hides() { Vec::new() } else { self.release(stream, before) };
        for frame in mem::take(&mut self.tail) {
            seen.extend(self.last(frame, stream, before));
        }
        seen
    }

    fn part(
        &mut self,
        index: u64,
        begins: Option<&ReplyPart>,
        frame: SseFrame,
        stream: &ReplyStream,
        before: &Before,
    ) -> Vec<u8> {
        let is_known = self.hidden.contains_key(&index);
        let waits = self.reasoning.iter().any(|(waiting, _)| *waiting == index);
        if waits || (!is_known && begins == Some(&ReplyPart::Reasoning)) {
            self.reasoning.push((index, frame));
            return Vec::new();
        }
        let mut seen = Vec::new();
        if !is_known {
            let is_hidden = matches!(begins, Some(ReplyPart::Call(name)) if name == before.tool);
            if !is_hidden {
                self.asks_client |= matches!(begins, Some(ReplyPart::Call(_)));
                seen = self.release(stream, before);
            }
            self.hidden.insert(index, is_hidden);
        }
        if !self.hidden[&index] {
            seen.extend(self.seen(frame, Some(index), stream, before));
        }
        seen
    }

    /// The reasoning that waited, now that it is known what it led to.
    fn release(&mut self, stream: &ReplyStream, before: &Before) -> Vec<u8> {
        let waiting = mem::take(&mut self.reasoning);
        let release = |(index, frame)| {
            self.hidden.insert(index, false);
            self.seen(frame, Some(index), stream, before)
        };
        waiting.into_iter().flat_map(release).collect()
    }

    /// Where the client sees a part.
    fn place(&self, index: u64, before: &Before) -> u64 {
        let hidden = self.hidden.range(..index).filter(|(_, is_hidden)| **is_hidden).count();
        (before.parts.len() as u64 + index).saturating_sub(hidden as u64)
    }

    fn seen(
        &mut self,
        frame: SseFrame,
        index: Option<u64>,
        stream: &ReplyStream,
        before: &Before,
    ) -> Vec<u8> {
        let key =
            if matches!(stream, ReplyStream::Responses(_)) { "output_index" } else { "index" };
        let place = |event: View, edits: &mut Edits, parts: &Self| {
            let index = index.filter(|index| event.number(key) == Some(*index));
            let place = index.map(|index| parts.place(index, before));
            if let Some(place) = place.filter(|_| place != index) {
                edits.set(event, key, &place.to_string());
            }
        };
        self.write(frame, stream, before, place)
    }

    /// An event of the end, which tells of all that was shown.
    fn last(&mut self, frame: SseFrame, stream: &ReplyStream, before: &Before) -> Vec<u8> {
        self.write(frame, stream, before, |event, edits, parts| {
            if !before.goes_on && !parts.hides() {
                return;
            }
            if let ReplyStream::Responses(stream) = stream {
                if let Some(response) = event.get("response") {
                    responses::join(response, &stream.output(), edits, before);
                }
            } else if let Some(delta) = event.get("delta") {
                anthropic::end(delta, event.get("usage"), edits, before, parts.asks_client);
            }
        })
    }

    fn write(
        &mut self,
        frame: SseFrame,
        stream: &ReplyStream,
        before: &Before,
        change: impl FnOnce(View, &mut Edits, &Self),
    ) -> Vec<u8> {
        let Some(event) = frame.view() else { return frame.raw };
        let mut edits = Edits::of(event);
        change(event, &mut edits, self);
        if matches!(stream, ReplyStream::Responses(_)) {
            if let Some(response) = event.get("response") {
                responses::hide_tool(response, &mut edits, before.tool);
            }
            let changes = before.goes_on || self.hides();
            self.numbering.write(event, &mut edits, before.goes_on, changes);
        }
        match edits.finish() {
            Some(data) => frame.with(&data),
            None => frame.raw,
        }
    }
}
