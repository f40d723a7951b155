//! Answers of Chat Completions without the calls of one tool.

use std::mem;

use longhand_core::json::{JsonKind, quote};

use super::{ChatStream, StreamedCall, StreamedCalls, usage};
use crate::edits::Edits;
use crate::reply::DONE;
use crate::reply::filter::{Before, apart};
use crate::sse::SseFrame;
use crate::view::View;

/// How many chunks wait for a name at most.
const WAITING_MAX: usize = 1_000;

/// The chunks of a completion, however many answers they come from.
#[derive(Debug, Default)]
pub(in crate::reply) struct Chunks {
    /// The fields that identify the completion in every chunk.
    head: Vec<(&'static str, String)>,
    /// Chunks with a call whose name is incomplete, and all after them, each with whether it belongs to the end.
    waiting: Vec<(SseFrame, bool)>,
    /// Whether the next text follows the text of an earlier answer.
    joins: bool,
    /// The end of an answer that has a hidden call: another answer may follow instead.
    tail: Vec<SseFrame>,
}

/// How much of a chunk is shown.
#[derive(Clone, Copy, PartialEq)]
enum ShownShare {
    All,
    /// Everything but the end.
    Words,
    /// Nothing but the end.
    End,
}

impl ChatStream {
    /// Whether a call of the tool has come.
    pub(in crate::reply) fn hides(&self, tool: &str) -> bool {
        self.calls.values().any(|calls| calls.hides(tool))
    }

    /// Whether a call that has begun may still turn out to be one of the tool.
    fn is_open(&self, tool: &str) -> bool {
        self.calls.values().flat_map(|calls| &calls.0).any(|call| call.is_open(tool))
    }

    /// Treats calls whose names stay incomplete as calls of the tool, so that they are hidden.
    fn close(&mut self, tool: &str) {
        let calls = self.calls.values_mut().flat_map(|calls| &mut calls.0);
        calls.filter(|call| call.is_open(tool)).for_each(|call| tool.clone_into(&mut call.name));
    }
}

impl StreamedCalls {
    fn hides(&self, tool: &str) -> bool {
        self.0.iter().any(|call| call.name == tool)
    }
}

impl StreamedCall {
    /// Some servers send names in pieces.
    fn is_open(&self, tool: &str) -> bool {
        let may_become = tool.starts_with(&self.name) && self.name != tool;
        self.name.is_empty() || (may_become && self.arguments.is_empty())
    }
}

impl Chunks {
    /// Takes a chunk and returns the visible part of it and of the chunks that waited for it.
    pub(in crate::reply) fn take(
        &mut self,
        frame: SseFrame,
        ends: bool,
        stream: &ChatStream,
        before: &Before,
    ) -> Vec<u8> {
        self.waiting.push((frame, ends));
        if !ends && self.waiting.len() < WAITING_MAX && stream.is_open(before.tool) {
            return Vec::new();
        }
        // The name decides about all that came before it.
        self.release(stream, before)
    }

    /// Lets the text of the next answer follow the text of this one.
    pub(in crate::reply) fn go_on(&mut self, before: &Before) {
        let head = mem::take(&mut self.head);
        let joins = !apart(&before.text).is_empty();
        *self = Self { head, joins, ..Self::default() };
    }

    /// Gives all that was held back.
    pub(in crate::reply) fn end(&mut self, stream: &mut ChatStream, before: &Before) -> Vec<u8> {
        if !self.waiting.is_empty() {
            stream.close(before.tool);
        }
        let mut seen = self.release(stream, before);
        for frame in mem::take(&mut self.tail) {
            seen.extend(self.seen(&frame, ShownShare::End, stream, before).unwrap_or_default());
        }
        seen
    }

    fn release(&mut self, stream: &ChatStream, before: &Before) -> Vec<u8> {
        let mut seen = Vec::new();
        for (frame, ends) in mem::take(&mut self.waiting) {
            self.note_head(&frame);
            let is_held = ends && stream.hides(before.tool);
            let share = if is_held { ShownShare::Words } else { ShownShare::All };
            seen.extend(self.seen(&frame, share, stream, before).unwrap_or_default());
            if is_held {
                self.tail.push(frame);
            }
        }
        seen
    }

    fn note_head(&mut self, frame: &SseFrame) {
        if self.head.is_empty()
            && let Some(chunk) = frame.view()
        {
            let named = |key| Some((key, chunk.get(key)?.raw().to_owned()));
            self.head = ["id", "created", "model"].into_iter().filter_map(named).collect();
        }
    }

    /// The visible part of a chunk.
    fn seen(
        &mut self,
        frame: &SseFrame,
        share: ShownShare,
        stream: &ChatStream,
        before: &Before,
    ) -> Option<Vec<u8>> {
        if frame.data() == DONE && share == ShownShare::Words {
            return None;
        }
        let as_it_came = || Some(frame.raw.clone());
        if !before.goes_on && !stream.hides(before.tool) {
            return as_it_came();
        }
        let Some(chunk) = frame.view() else { return as_it_came() };
        let Some(choices) = chunk.get("choices").map(View::elements) else { return as_it_came() };
        let edits = Edits::of(chunk);
        let mut writer = ChunkWriter { edits, share, stream, before, joins: &mut self.joins };
        let gone: Vec<bool> = choices.iter().map(|choice| !writer.choice(*choice)).collect();
        let counted = chunk.get("usage");
        let has_more = share != ShownShare::Words && (choices.is_empty() || counted.is_some());
        if !gone.contains(&false) && !has_more {
            return None;
        }
        let mut edits = writer.edits;
        edits.remove(&choices, &gone);
        match counted {
            Some(counted) if share == ShownShare::Words => edits.replace(counted, "null"),
            Some(counted) => write_usage(counted, &mut edits, before),
            None => {}
        }
        if before.goes_on {
            for (key, value) in self.head.iter().filter(|(key, _)| chunk.get(key).is_some()) {
                edits.set(chunk, key, value);
            }
        }
        edits.finish().map_or_else(as_it_came, |data| Some(frame.with(&data)))
    }
}

/// Writes the visible part of one chunk.
struct ChunkWriter<'c> {
    edits: Edits<'c>,
    share: ShownShare,
    stream: &'c ChatStream,
    before: &'c Before,
    /// Whether the next text follows the text of an earlier answer.
    joins: &'c mut bool,
}

impl ChunkWriter<'_> {
    /// Writes a choice; gives whether it is seen.
    fn choice(&mut self, choice: View) -> bool {
        let none = StreamedCalls::default();
        let calls = self.stream.calls.get(&choice.number("index").unwrap_or(0)).unwrap_or(&none);
        let finish = choice.get("finish_reason");
        let is_seen = match choice.get("delta") {
            Some(delta) if self.share == ShownShare::End => {
                self.edits.replace(delta, "{}");
                false
            }
            Some(delta) => self.delta(delta, calls),
            None => self.share == ShownShare::All,
        };
        match finish {
            Some(finish) if self.share == ShownShare::Words => self.edits.replace(finish, "null"),
            Some(finish) => write_finish(finish, &mut self.edits, calls, self.before),
            None => {}
        }
        is_seen || (finish.is_some() && self.share != ShownShare::Words)
    }

    /// Writes a delta; gives whether it is seen.
    fn delta(&mut self, delta: View, calls: &StreamedCalls) -> bool {
        let pieces = delta.get("tool_calls").map(View::elements).unwrap_or_default();
        let gone: Vec<bool> = pieces.iter().map(|piece| !self.call(*piece, calls)).collect();
        let is_gone = |key: &str| match key {
            "tool_calls" => !gone.is_empty() && !gone.contains(&false),
            "role" => self.before.goes_on,
            _ => false,
        };
        self.edits.remove(&pieces, &gone);
        self.edits.remove_fields(delta, is_gone);
        let words = delta.get("content").filter(|content| content.kind() == JsonKind::String);
        if let Some(words) = words.filter(|words| words.raw() != r#""""#)
            && mem::take(self.joins)
        {
            self.edits.insert(words.span().start + 1, r"\n\n");
        }
        let fields = delta.fields();
        let says = |value: View| !matches!(value.raw(), "null" | r#""""# | "[]");
        let is_untouched = !gone.contains(&true) && !fields.iter().any(|(key, _)| is_gone(key));
        (is_untouched && self.share == ShownShare::All)
            || fields.iter().any(|(key, value)| !is_gone(key) && says(*value))
    }

    /// Renumbers a piece of a call among the calls that are shown. Returns whether the call is shown.
    fn call(&mut self, piece: View, calls: &StreamedCalls) -> bool {
        let tool = self.before.tool;
        let Some(at) = calls.find(piece) else { return true };
        if calls.0[at].name == tool {
            return false;
        }
        let hidden = calls.0[..at].iter().filter(|call| call.name == tool).count();
        if let Some(index) = piece.number("index").filter(|_| hidden > 0) {
            let place = index.saturating_sub(hidden as u64);
            self.edits.set(piece, "index", &place.to_string());
        }
        true
    }
}

/// Corrects the finish reason of a choice whose calls may all be hidden.
fn write_finish(finish: View, edits: &mut Edits, calls: &StreamedCalls, before: &Before) {
    let asks_client = calls.0.iter().any(|call| call.name != before.tool);
    if !asks_client && finish.raw() == r#""tool_calls""# {
        edits.replace(finish, r#""stop""#);
    }
}

fn write_usage(counted: View, edits: &mut Edits, before: &Before) {
    before.write_usage(counted, edits, usage(counted), |all| {
        vec![
            (&["prompt_tokens"], all.input),
            (&["prompt_tokens_details", "cached_tokens"], all.cached_input),
            (&["prompt_tokens_details", "cache_write_tokens"], all.cache_write),
            (&["prompt_cache_hit_tokens"], all.cached_input),
            (&["prompt_cache_miss_tokens"], all.input.saturating_sub(all.cached_input)),
            (&["completion_tokens"], all.output),
            (&["total_tokens"], all.input.saturating_add(all.output)),
        ]
    });
}

/// Writes a whole completion so that the words of earlier ones come first and no call of a tool is left.
pub(in crate::reply) fn join(completion: View, edits: &mut Edits, before: &Before) {
    for choice in completion.get("choices").map(View::elements).unwrap_or_default() {
        if let Some(message) = choice.get("message") {
            join_message(message, choice.get("finish_reason"), edits, before);
        }
    }
    if let Some(counted) = completion.get("usage") {
        write_usage(counted, edits, before);
    }
}

fn join_message(message: View, finish: Option<View>, edits: &mut Edits, before: &Before) {
    let listed = message.get("tool_calls").map(View::elements).unwrap_or_default();
    let calls = StreamedCalls(listed.iter().map(|call| StreamedCall::of(*call)).collect());
    let gone: Vec<bool> = calls.0.iter().map(|call| call.name == before.tool).collect();
    let hides_all = !gone.is_empty() && !gone.contains(&false);
    let content = message.get("content");
    let words = match content.map(View::str) {
        None => Some(String::new()),
        Some(text) => text.map(Into::into),
    };
    // A message has words or calls.
    let words = words.filter(|_| !before.text.is_empty() || (hides_all && content.is_none()));
    let words = words.map(|words| quote(&before.joined_text(&words)));
    if hides_all {
        if let Some(finish) = finish {
            write_finish(finish, edits, &calls, before);
        }
        let has_content = message.fields().iter().any(|(key, _)| key == "content");
        if let Some(words) = words.as_ref().filter(|_| !has_content) {
            return edits.replace_field(message, "tool_calls", "content", words);
        }
        edits.remove_fields(message, |key| key == "tool_calls");
    } else {
        edits.remove(&listed, &gone);
    }
    if let Some(words) = words {
        edits.set(message, "content", &words);
    }
}
