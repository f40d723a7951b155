//! Answers of Anthropic Messages without our calls.

use std::collections::HashMap;

use hyper::body::Bytes;
use longhand_dialect::Reply;

use super::calls::is_ours;
use super::frames::Frame;
use super::json;
use super::sieve::Sieve;
use super::tally::Tally;

/// The blocks of a message, however many answers they come from.
#[derive(Default)]
pub(super) struct Blocks {
    /// Whether an earlier answer has begun the message.
    goes_on: bool,
    /// Where the client sees each block of this answer; `None` if it does not.
    places: HashMap<u64, Option<u64>>,
    /// How many blocks the client has seen.
    shown: u64,
    hides: bool,
    calls: bool,
    tail: Vec<Frame>,
    tally: Tally,
}

impl Sieve for Blocks {
    fn take(&mut self, frame: Frame) -> Vec<Bytes> {
        let data = frame.data();
        match json::string(data, &["type"]).as_deref() {
            Some("message_start") => {
                self.tally.saw(json::get(data, &["message", "usage"]));
                if self.goes_on {
                    return Vec::new();
                }
            }
            Some("content_block_start" | "content_block_delta" | "content_block_stop") => {
                let index = json::number(data, &["index"]).unwrap_or(0);
                if let Some(block) = json::get(data, &["content_block"]) {
                    self.begin(index, block);
                }
                return match self.places.get(&index).copied().unwrap_or(Some(index)) {
                    Some(place) if place == index => vec![frame.raw],
                    Some(place) => {
                        vec![frame.with(&json::with(data, &["index"], &place.to_string()))]
                    }
                    None => Vec::new(),
                };
            }
            Some("message_delta" | "message_stop") => {
                if self.hides {
                    self.tail.push(frame);
                    return Vec::new();
                }
                return vec![self.last(frame)];
            }
            _ => {}
        }
        vec![frame.raw]
    }

    fn hides(&self) -> bool {
        self.hides
    }

    fn go_on(&mut self, reply: &Reply) {
        self.tally.add(reply.usage.unwrap_or_default().output);
        self.goes_on = true;
        self.hides = false;
        self.places.clear();
        self.tail.clear();
    }

    fn end(&mut self) -> Vec<Bytes> {
        std::mem::take(&mut self.tail).into_iter().map(|frame| self.last(frame)).collect()
    }
}

impl Blocks {
    fn begin(&mut self, index: u64, block: &str) {
        let place = if is_ours(block) {
            self.hides = true;
            None
        } else {
            self.calls |= json::is(block, &["type"], "tool_use");
            self.shown += 1;
            Some(self.shown - 1)
        };
        self.places.insert(index, place);
    }

    /// An event of the end, which tells of all that was shown.
    fn last(&self, frame: Frame) -> Bytes {
        let data = frame.data();
        if !(self.goes_on || self.hides) || !json::is(data, &["type"], "message_delta") {
            return frame.raw;
        }
        let mut told = data.to_owned();
        if !self.calls && json::is(data, &["delta", "stop_reason"], "tool_use") {
            told = json::with(&told, &["delta", "stop_reason"], r#""end_turn""#);
        }
        if let Some(usage) = json::get(data, &["usage"]) {
            told = json::with(&told, &["usage"], &self.tally.told(usage));
        }
        frame.with(&told)
    }
}

/// The blocks of a whole answer that are shown.
pub(super) fn shown(body: &str) -> Vec<&str> {
    let blocks = json::elements(json::get(body, &["content"]).unwrap_or_default());
    blocks.into_iter().filter(|block| !is_ours(block)).collect()
}

/// A whole answer after the blocks of earlier ones.
pub(super) fn whole(body: &str, before: &[String], tally: &Tally) -> String {
    let own = shown(body);
    let blocks: Vec<&str> = before.iter().map(String::as_str).chain(own).collect();
    let mut told = json::with(body, &["content"], &json::list(&blocks));
    let calls = blocks.iter().any(|block| json::is(block, &["type"], "tool_use"));
    if !calls && json::is(body, &["stop_reason"], "tool_use") {
        told = json::with(&told, &["stop_reason"], r#""end_turn""#);
    }
    if let Some(usage) = json::get(body, &["usage"]) {
        told = json::with(&told, &["usage"], &tally.told(usage));
    }
    told
}
