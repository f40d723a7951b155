//! Answers of Responses without our calls.

use std::collections::HashMap;

use hyper::body::Bytes;
use longhand_dialect::Reply;

use super::calls;
use super::frames::Frame;
use super::sieve::Sieve;
use super::tally::Tally;
use super::{json, offer};

/// The items of an answer, however many answers they come from.
#[derive(Default)]
pub(super) struct Items {
    goes_on: bool,
    /// Where the client sees each item of this answer; `None` if it does not.
    places: HashMap<u64, Option<u64>>,
    /// How many items the client has seen.
    shown: u64,
    hides: bool,
    /// Reasoning is refused without what it led to, so it waits for that.
    reasoning: Vec<(u64, Frame)>,
    /// The items of earlier answers that were shown.
    before: Vec<String>,
    /// The items of this answer that are complete.
    done: Vec<String>,
    /// What the first answer is called, as JSON: clients want all to go by one name.
    id: Option<String>,
    sequence: Option<u64>,
    tail: Vec<Frame>,
    tally: Tally,
}

impl Sieve for Items {
    fn take(&mut self, frame: Frame) -> Vec<Bytes> {
        let data = frame.data();
        let kind = json::string(data, &["type"]).unwrap_or_default();
        if self.id.is_none() {
            self.id = json::get(data, &["response", "id"]).map(str::to_owned);
        }
        match (kind.as_str(), json::number(data, &["output_index"])) {
            ("response.created" | "response.in_progress" | "response.queued", _)
                if self.goes_on =>
            {
                Vec::new()
            }
            ("response.completed" | "response.incomplete" | "response.done", _) => {
                self.tally.saw(json::get(data, &["response", "usage"]));
                if self.hides {
                    self.tail.push(frame);
                    return Vec::new();
                }
                let mut out = self.reasoned();
                out.push(self.last(&frame));
                out
            }
            (_, Some(index)) => self.item(index, &kind, frame),
            _ => vec![self.told(&frame, None)],
        }
    }

    fn hides(&self) -> bool {
        self.hides
    }

    fn go_on(&mut self, reply: &Reply) {
        self.tally.add(reply.usage.unwrap_or_default().output);
        self.before.extend(shown(&reply.message).into_iter().map(str::to_owned));
        self.goes_on = true;
        self.hides = false;
        self.places.clear();
        self.reasoning.clear();
        self.done.clear();
        self.tail.clear();
    }

    fn end(&mut self) -> Vec<Bytes> {
        let tail = std::mem::take(&mut self.tail);
        tail.iter().map(|frame| self.last(frame)).collect()
    }
}

impl Items {
    fn item(&mut self, index: u64, kind: &str, frame: Frame) -> Vec<Bytes> {
        let mut out = Vec::new();
        let item = json::get(frame.data(), &["item"]).unwrap_or_default();
        if kind == "response.output_item.done" {
            self.done.push(item.to_owned());
        }
        let waits = self.reasoning.iter().any(|(own, _)| *own == index);
        if waits || (json::is(item, &["type"], "reasoning") && !self.places.contains_key(&index)) {
            self.reasoning.push((index, frame));
            return out;
        }
        if !self.places.contains_key(&index) {
            let place = if calls::is_ours(item) {
                self.hides = true;
                None
            } else {
                out = self.reasoned();
                Some(self.next())
            };
            self.places.insert(index, place);
        }
        if let Some(place) = self.places[&index] {
            out.push(self.told(&frame, Some(place)));
        }
        out
    }

    /// The reasoning that waited, now that it is known what it led to.
    fn reasoned(&mut self) -> Vec<Bytes> {
        let waiting = std::mem::take(&mut self.reasoning);
        let told = waiting.into_iter().map(|(index, frame)| {
            let place = match self.places.get(&index) {
                Some(place) => *place,
                None => Some(self.next()),
            };
            self.places.insert(index, place);
            self.told(&frame, place)
        });
        told.collect()
    }

    fn next(&mut self) -> u64 {
        self.shown += 1;
        self.shown - 1
    }

    /// An event in its place, without our tool in what is told of the request.
    fn told(&mut self, frame: &Frame, place: Option<u64>) -> Bytes {
        let data = frame.data();
        let mut told = data.to_owned();
        if let Some(response) = json::get(data, &["response"]) {
            told = json::with(&told, &["response"], &without_tool(response));
        }
        if place != json::number(data, &["output_index"])
            && let Some(place) = place
        {
            told = json::with(&told, &["output_index"], &place.to_string());
        }
        self.numbered(frame, told)
    }

    /// The event at the end, which holds all items.
    fn last(&mut self, frame: &Frame) -> Bytes {
        let response = json::get(frame.data(), &["response"]).unwrap_or_default();
        let mut told = frame.data().to_owned();
        if self.goes_on || self.hides {
            let done = json::list(&self.done);
            let output = json::get(response, &["output"]).filter(|output| *output != "[]");
            let whole = json::with(response, &["output"], output.unwrap_or(&done));
            let whole = self::whole(&whole, &self.before, &self.tally);
            told = json::with(&told, &["response"], &whole);
        } else {
            told = json::with(&told, &["response"], &without_tool(response));
        }
        self.numbered(frame, told)
    }

    /// Names and numbers an event after the one before, once some were left out.
    fn numbered(&mut self, frame: &Frame, mut told: String) -> Bytes {
        if let Some(id) = self.id.as_ref().filter(|_| self.goes_on)
            && json::get(&told, &["response"]).is_some()
        {
            told = json::with(&told, &["response", "id"], id);
        }
        if let Some(own) = json::number(&told, &["sequence_number"]) {
            let next = self.sequence.map(|last| last + 1);
            let number = next.filter(|_| self.goes_on || self.hides).unwrap_or(own);
            if number != own {
                told = json::with(&told, &["sequence_number"], &number.to_string());
            }
            self.sequence = Some(number);
        }
        if told == frame.data() { frame.raw.clone() } else { frame.with(&told) }
    }
}

/// The items that are shown: none of ours, nor reasoning that led to nothing else.
pub(super) fn shown(items: &str) -> Vec<&str> {
    let (mut kept, mut waiting) = (Vec::new(), Vec::new());
    let mut hides = false;
    for item in json::elements(items) {
        if calls::is_ours(item) {
            hides = true;
        } else if json::is(item, &["type"], "reasoning") {
            waiting.push(item);
        } else {
            kept.append(&mut waiting);
            kept.push(item);
        }
    }
    if !hides {
        kept.append(&mut waiting);
    }
    kept
}

/// A whole answer after the items of earlier ones.
pub(super) fn whole(body: &str, before: &[String], tally: &Tally) -> String {
    let own = shown(json::get(body, &["output"]).unwrap_or_default());
    let items: Vec<&str> = before.iter().map(String::as_str).chain(own).collect();
    let mut told = json::with(&without_tool(body), &["output"], &json::list(&items));
    if let Some(usage) = json::get(body, &["usage"]) {
        told = json::with(&told, &["usage"], &tally.told(usage));
    }
    told
}

/// What is told of a request, without our tool.
pub(super) fn without_tool(response: &str) -> String {
    let tools = json::elements(json::get(response, &["tools"]).unwrap_or_default());
    if !tools.iter().any(|tool| offer::is_ours(tool)) {
        return response.to_owned();
    }
    let kept: Vec<&str> = tools.into_iter().filter(|tool| !offer::is_ours(tool)).collect();
    json::with(response, &["tools"], &json::list(&kept))
}
