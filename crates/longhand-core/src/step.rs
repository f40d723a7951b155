//! Where a conversation may be cut.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::{Message, Part, PartLink, Role};

/// Groups messages into ranges that move as a whole, in order and without gaps.
///
/// A call and its results stay together, however they are interleaved; so do reasoning and the item
/// that it led to, and unknown parts that a [`PartLink`] joins. A result whose call is not here stays with the
/// references before it: one of them may be the call. Providers refuse the one without the other.
pub fn steps(messages: &[Message]) -> Vec<Range<usize>> {
    let mut last: Vec<usize> = (0..messages.len()).collect();
    let mut asked: FxHashMap<String, usize> = FxHashMap::default();
    let mut linked: FxHashMap<String, usize> = FxHashMap::default();
    let mut reference = None;
    for (at, message) in messages.iter().enumerate() {
        for result in message.results() {
            let call = asked.get(result.call.decode().as_ref()).copied();
            if let Some(call) = call.or(reference) {
                last[call] = last[call].max(at);
            }
        }
        if message.is_reference() {
            if let Some(before) = at.checked_sub(1).filter(|before| reference == Some(*before)) {
                last[before] = at;
            }
            reference = Some(at);
        }
        for call in message.calls() {
            asked.insert(call.id.decode().into_owned(), at);
        }
        for part in &message.parts {
            let Part::Other(other) = part else { continue };
            match &other.link {
                // What the provider holds may be the call.
                PartLink::Call(id) | PartLink::Reference(id) => {
                    linked.insert(id.decode().into_owned(), at);
                }
                PartLink::Result(id) => {
                    if let Some(&call) = linked.get(id.decode().as_ref()) {
                        last[call] = last[call].max(at);
                    }
                }
                PartLink::None => {}
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
