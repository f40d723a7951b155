//! Marks that ask a provider to keep in its cache all that comes before them.

use std::ops::Range;
use std::sync::Arc;

use longhand_core::Message;
use longhand_core::json::{JsonCursor, JsonKind, JsonValue};

use crate::conversation::{Conversation, MessageLayout};
use crate::source::{mentions, start_of};

/// Anthropic's mark, which gateways take in Chat Completions too.
pub(crate) const CACHE_CONTROL: &str = "cache_control";

/// The fields that are marks; the other one is `OpenAI`'s.
const KEYS: [&str; 2] = [CACHE_CONTROL, "prompt_cache_breakpoint"];

/// How many of its marks Anthropic takes in one request.
pub(crate) const CACHE_MARKS_MAX: usize = 4;

/// The fields that hold what can be marked.
const LISTS: [&str; 6] = ["tools", "system", "messages", "input", "content", "output"];

/// How many lists there are around what can be marked, at the most.
const DEPTH: usize = 4;

/// A mark in a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) key: &'static str,
    /// Its value.
    pub(crate) span: Range<usize>,
    /// Whether it lasts for an hour; such marks stand before all others.
    pub(crate) hour: bool,
    /// Whether it is on the request as a whole.
    pub(crate) whole: bool,
}

/// Finds the marks of a request in the order in which its provider reads them; text that only mentions
/// one does not count.
pub(crate) fn marks(source: &str) -> Vec<Mark> {
    let mut found = Vec::new();
    if mentions(source, &KEYS)
        && let Ok(request) = JsonCursor::at(source, start_of(source)).node()
    {
        gather(source, request.value, DEPTH, &mut found);
        for mark in &mut found {
            let on_request = request.get(source, mark.key);
            mark.whole = on_request.is_some_and(|value| value.span() == mark.span);
        }
    }
    found
}

fn gather(source: &str, value: JsonValue, depth: usize, found: &mut Vec<Mark>) {
    let cursor = &mut JsonCursor::at(source, value.span().start);
    match value.kind {
        JsonKind::Array if depth > 0 => {
            // It was checked when it was read.
            let _ = cursor.elements(|cursor| {
                gather(source, cursor.value()?, depth - 1, found);
                Ok(())
            });
        }
        JsonKind::Object => {
            let node = cursor.node().unwrap_or_default();
            for key in LISTS {
                if let Some(list) =
                    node.get(source, key).filter(|value| value.kind == JsonKind::Array)
                {
                    gather(source, list, depth, found);
                }
            }
            for key in KEYS {
                let value = node.get(source, key).filter(|value| value.kind != JsonKind::Null);
                let Some(value) = value else { continue };
                let fields = JsonCursor::at(source, value.span().start).node().unwrap_or_default();
                let hour = fields.get(source, "ttl").is_some_and(|ttl| ttl.is(source, "1h"));
                found.push(Mark { key, span: value.span(), hour, whole: false });
            }
        }
        _ => {}
    }
}

/// Whether a message may have a mark. It is looked at once, however many requests have it.
fn may_be_marked(message: &Message, layout: &MessageLayout) -> bool {
    *layout.may_be_marked.get_or_init(|| mentions(message.raw.raw(), &KEYS))
}

impl Conversation {
    /// The newest cache mark of the folded messages, as a JSON field for the block of the fold.
    ///
    /// The block stands where the fold begins. If a one-hour mark follows, only a one-hour mark is allowed there.
    pub(crate) fn mark_of_fold(&self, folded: &[bool], first: usize) -> String {
        let source = self.bytes();
        let (Some(start), Some(end)) = (self.elements.get(first), self.elements.last()) else {
            return String::new();
        };
        let is_folded =
            |layout: &MessageLayout| layout.elements.iter().any(|element| folded[*element]);
        let mut layouts = self.messages.iter().zip(&self.layout);
        let is_marked = |(message, layout): (&Message, &Arc<MessageLayout>)| {
            is_folded(layout) && may_be_marked(message, layout)
        };
        if self.dialect.is_session_file() || !layouts.any(is_marked) {
            return String::new();
        }
        let is_folded = |mark: &Mark| {
            let after = self.elements.partition_point(|element| element.start <= mark.span.start);
            let around = after.checked_sub(1).filter(|at| mark.span.end <= self.elements[*at].end);
            around.is_some_and(|at| folded[at])
        };
        let (moved, kept): (Vec<Mark>, Vec<Mark>) = marks(source).into_iter().partition(is_folded);
        let after = start.start..end.end;
        let hour_after = kept.iter().any(|mark| mark.hour && after.contains(&mark.span.start));
        let newest = moved.iter().rev().find(|mark| mark.hour || !hour_after);
        let is_full = |key: &str| {
            let of_this_kind = kept.iter().filter(|mark| mark.key == key).count();
            key == CACHE_CONTROL && of_this_kind >= CACHE_MARKS_MAX
        };
        newest.filter(|mark| !is_full(mark.key)).map_or_else(String::new, |mark| mark.field(source))
    }

    /// The newest mark inside a value that makes way for a text, as a field.
    pub(crate) fn mark_within(&self, span: &Range<usize>) -> String {
        let source = self.bytes();
        let mut found = Vec::new();
        if !self.dialect.is_session_file()
            && mentions(&source[span.clone()], &KEYS)
            && let Ok(value) = JsonCursor::at(source, span.start).value()
        {
            gather(source, value, 1, &mut found);
        }
        found.last().map_or_else(String::new, |mark| mark.field(source))
    }
}

impl Mark {
    /// A comma and the field, to follow others.
    fn field(&self, source: &str) -> String {
        format!(",\"{}\":{}", self.key, &source[self.span.clone()])
    }
}
