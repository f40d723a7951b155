//! Where a conversation may be cut.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::json::Cursor;
use crate::{Message, Part, Role};

/// Groups messages into ranges that move as a whole, in order and without gaps.
///
/// A call and its results stay together, however they are interleaved; so do reasoning and the item
/// that it led to, and calls of the provider's own tools whose results come later. A result whose call is
/// not here stays with the references before it: one of them may be the call. Providers refuse the one
/// without the other.
pub fn steps(messages: &[Message]) -> Vec<Range<usize>> {
    let mut last: Vec<usize> = (0..messages.len()).collect();
    let mut asked: FxHashMap<String, usize> = FxHashMap::default();
    let mut asked_elsewhere: FxHashMap<String, usize> = FxHashMap::default();
    let mut reference = None;
    for (at, message) in messages.iter().enumerate() {
        for result in message.results() {
            let call = asked.get(result.call.decode().as_ref()).copied();
            if let Some(call) = call.or(reference) {
                last[call] = last[call].max(at);
            }
        }
        if is_reference(message) {
            if let Some(before) = at.checked_sub(1).filter(|before| reference == Some(*before)) {
                last[before] = at;
            }
            reference = Some(at);
        }
        for call in message.calls() {
            asked.insert(call.id.decode().into_owned(), at);
        }
        for part in &message.parts {
            match foreign(part) {
                Some(Foreign::Call(id)) => _ = asked_elsewhere.insert(id, at),
                Some(Foreign::Result(id)) => {
                    if let Some(&call) = asked_elsewhere.get(&id) {
                        last[call] = last[call].max(at);
                    }
                }
                None => {}
            }
        }
        if leads_on(message) && at + 1 < messages.len() {
            last[at] = last[at].max(at + 1);
        }
    }
    let mut ranges = Vec::with_capacity(messages.len());
    let mut start = 0;
    let mut end = 0;
    for (at, last) in last.into_iter().enumerate() {
        end = end.max(last);
        if at == end {
            ranges.push(start..at + 1);
            start = at + 1;
            end = start;
        }
    }
    ranges
}

/// Whether a message is nothing but reasoning, which belongs to what comes after it.
fn leads_on(message: &Message) -> bool {
    message.role == Role::Assistant
        && !message.parts.is_empty()
        && message.parts.iter().all(|part| matches!(part, Part::Thinking(_)))
}

/// Whether a message is nothing but the name of one that the provider holds.
fn is_reference(message: &Message) -> bool {
    let (Role::Assistant, [Part::Other(raw)]) = (message.role, message.parts.as_slice()) else {
        return false;
    };
    let raw = raw.raw();
    let node = Cursor::new(raw).node().unwrap_or_default();
    let kind = node.get(raw, "type").and_then(|kind| kind.str(raw));
    node.get(raw, "id").is_some() && kind.is_none_or(|kind| kind == "item_reference")
}

/// A tool that is run by the provider, which we pass on as it came.
enum Foreign {
    Call(String),
    Result(String),
}

fn foreign(part: &Part) -> Option<Foreign> {
    let Part::Other(raw) = part else { return None };
    let raw = raw.raw();
    if !raw.contains("tool_use") {
        return None;
    }
    let node = Cursor::new(raw).node().ok()?;
    let string = |key: &str| Some(node.get(raw, key)?.str(raw)?.into_owned());
    string("tool_use_id").map(Foreign::Result).or_else(|| string("id").map(Foreign::Call))
}
