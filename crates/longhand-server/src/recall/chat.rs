//! Answers of Chat Completions without our calls.

pub(super) mod whole;

use hyper::body::Bytes;
use longhand_core::json::quote;
use longhand_dialect::Reply;

use super::frames::Frame;
use super::sieve::Sieve;
use super::tally::Tally;
use super::{NAME, json};

/// How many chunks wait for a name at most.
const WAITING_MAX: usize = 1_000;

/// The chunks of a completion, however many answers they come from.
#[derive(Default)]
pub(super) struct Chunks {
    goes_on: bool,
    /// What names the completion in every chunk.
    head: Vec<(&'static str, String)>,
    calls: Vec<Known>,
    hides: bool,
    /// Chunks with a call whose name is still coming, and all after them.
    waiting: Vec<Frame>,
    /// The last letter that was shown.
    said: Option<char>,
    /// Whether this answer's words follow those of an earlier one.
    joins: bool,
    tail: Vec<Frame>,
    tally: Tally,
}

/// A call that has begun.
struct Known {
    choice: u64,
    index: Option<u64>,
    id: Option<String>,
    /// Where the client sees it; `None` if it does not.
    place: Option<u64>,
}

/// What a chunk is to the end of an answer.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    /// All of it.
    Whole,
    /// What is no end.
    Words,
    /// Nothing but the end.
    End,
}

/// A call whose name is still coming.
#[derive(Default)]
struct Opened {
    choice: u64,
    index: Option<u64>,
    id: Option<String>,
    name: String,
    has_arguments: bool,
}

impl Opened {
    /// Whether it may still turn out to be a call of ours: some servers send names in pieces.
    fn is_open(&self) -> bool {
        let may_be_ours = NAME.starts_with(&self.name) && self.name != NAME;
        self.name.is_empty() || (may_be_ours && !self.has_arguments)
    }
}

impl Sieve for Chunks {
    fn take(&mut self, frame: Frame) -> Vec<Bytes> {
        let ends = is_end(frame.data());
        self.waiting.push(frame);
        let opened = self.opened();
        let has_room = self.waiting.len() < WAITING_MAX;
        if !ends && has_room && opened.iter().any(Opened::is_open) {
            return Vec::new();
        }
        // The name decides about all that came before it.
        self.note(opened);
        let waiting = std::mem::take(&mut self.waiting);
        waiting.into_iter().filter_map(|frame| self.pass(frame)).collect()
    }

    fn hides(&self) -> bool {
        self.hides
    }

    fn go_on(&mut self, reply: &Reply) {
        self.tally.add(reply.usage.unwrap_or_default().output);
        self.goes_on = true;
        self.hides = false;
        self.joins = self.said.is_some_and(|last| last != '\n');
        self.calls.clear();
        self.tail.clear();
    }

    fn end(&mut self) -> Vec<Bytes> {
        let tail = std::mem::take(&mut self.tail);
        tail.iter().filter_map(|frame| self.told(frame, Part::End)).collect()
    }
}

impl Chunks {
    fn pass(&mut self, frame: Frame) -> Option<Bytes> {
        let data = frame.data();
        if self.head.is_empty() {
            let named = |key| Some((key, json::get(data, &[key])?.to_owned()));
            self.head = ["id", "created", "model"].into_iter().filter_map(named).collect();
        }
        self.tally.saw(json::get(data, &["usage"]));
        if !(is_end(data) && self.hides) {
            return self.told(&frame, Part::Whole);
        }
        let words = self.told(&frame, Part::Words);
        self.tail.push(frame);
        words
    }

    /// The calls that begin in the chunks that wait.
    fn opened(&self) -> Vec<Opened> {
        let mut opened: Vec<Opened> = Vec::new();
        let calls = self.waiting.iter().flat_map(|frame| each_call(frame.data()));
        for (choice, call) in calls.filter(|(choice, call)| self.known(*choice, call).is_none()) {
            let (index, id) = place(call);
            let mut begun = opened.iter_mut().rev().filter(|own| own.choice == choice);
            let known = match (index, &id) {
                (None, None) => begun.next(),
                (Some(_), _) => begun.find(|own| own.index == index),
                (None, Some(_)) => begun.find(|own| own.id == id),
            };
            let has_arguments = ["arguments", "input"].iter().any(|key| {
                let own =
                    ["function", "custom"].iter().find_map(|kind| json::string(call, &[kind, key]));
                own.is_some_and(|own| !own.is_empty())
            });
            let name = name(call).unwrap_or_default();
            match known {
                Some(known) => {
                    known.name.push_str(&name);
                    known.has_arguments |= has_arguments;
                    known.id = known.id.take().or(id);
                }
                None => opened.push(Opened { choice, index, id, name, has_arguments }),
            }
        }
        opened
    }

    fn known(&self, choice: u64, call: &str) -> Option<&Known> {
        let (index, id) = place(call);
        let mut own = self.calls.iter().rev().filter(|known| known.choice == choice);
        match (index, &id) {
            (None, None) => own.next(),
            (Some(_), _) => own.find(|known| known.index == index),
            (None, Some(_)) => own.find(|known| known.id == id),
        }
    }

    /// Takes note of calls whose names are known.
    fn note(&mut self, opened: Vec<Opened>) {
        for Opened { choice, index, id, name, .. } in opened {
            if name.is_empty() {
                continue;
            }
            let is_ours = name == NAME;
            self.hides |= is_ours;
            let place = (!is_ours).then(|| self.shown(choice));
            self.calls.push(Known { choice, index, id, place });
        }
    }

    /// How many calls of a choice are shown.
    fn shown(&self, choice: u64) -> u64 {
        let own = self.calls.iter().filter(|known| known.choice == choice);
        own.filter(|known| known.place.is_some()).count() as u64
    }

    /// What is seen of a chunk.
    fn told(&mut self, frame: &Frame, part: Part) -> Option<Bytes> {
        let data = frame.data();
        if data == "[DONE]" {
            return (part != Part::Words).then(|| frame.raw.clone());
        }
        let Some(choices) = json::get(data, &["choices"]) else { return Some(frame.raw.clone()) };
        let mut told = data.to_owned();
        let own = json::elements(choices);
        let kept: Vec<String> = own.iter().filter_map(|choice| self.choice(choice, part)).collect();
        if kept.len() != own.len() || kept.iter().zip(&own).any(|(kept, own)| kept != own) {
            told = json::with(&told, &["choices"], &json::list(&kept));
        }
        let usage = json::get(data, &["usage"]);
        let is_gone = kept.is_empty() && !own.is_empty();
        if part == Part::Words {
            if kept.is_empty() {
                return None;
            }
            if usage.is_some() {
                told = json::with(&told, &["usage"], "null");
            }
        } else if is_gone && usage.is_none() {
            return None;
        }
        if self.goes_on {
            for (key, value) in &self.head {
                told = json::with(&told, &[key], value);
            }
            if let Some(usage) = usage.filter(|_| part != Part::Words) {
                told = json::with(&told, &["usage"], &self.tally.told(usage));
            }
        }
        Some(if told == data { frame.raw.clone() } else { frame.with(&told) })
    }

    /// What is seen of a choice.
    fn choice(&mut self, choice: &str, part: Part) -> Option<String> {
        let number = json::number(choice, &["index"]).unwrap_or(0);
        let mut told = choice.to_owned();
        let mut changed = false;
        if part == Part::End {
            told = json::with(&told, &["delta"], "{}");
        } else if let Some(delta) = json::get(choice, &["delta"]) {
            let new = self.delta(number, delta);
            changed = new != delta;
            told = json::with(&told, &["delta"], &new);
        }
        let ends = json::get(choice, &["finish_reason"]).is_some() && part != Part::Words;
        if part == Part::Words {
            told = json::with(&told, &["finish_reason"], "null");
        }
        if ends
            && self.shown(number) == 0
            && (self.hides || self.goes_on)
            && json::is(choice, &["finish_reason"], "tool_calls")
        {
            told = json::with(&told, &["finish_reason"], r#""stop""#);
        }
        let says = json::get(&told, &["delta"]).is_some_and(says);
        (ends || says || (!changed && part == Part::Whole)).then_some(told)
    }

    fn delta(&mut self, choice: u64, delta: &str) -> String {
        let mut told = delta.to_owned();
        if let Some(own) = json::get(delta, &["tool_calls"]) {
            let own = json::elements(own);
            let kept: Vec<String> = own
                .iter()
                .filter_map(|call| {
                    let Some(known) = self.known(choice, call) else {
                        return Some((*call).to_owned());
                    };
                    let place = known.place?;
                    let is_other =
                        json::number(call, &["index"]).is_some_and(|index| index != place);
                    let moved = is_other.then(|| json::with(call, &["index"], &place.to_string()));
                    Some(moved.unwrap_or_else(|| (*call).to_owned()))
                })
                .collect();
            if kept.is_empty() && !own.is_empty() {
                told = json::without(&told, "tool_calls");
            } else if kept != own {
                told = json::with(&told, &["tool_calls"], &json::list(&kept));
            }
        }
        if self.goes_on && json::get(&told, &["role"]).is_some() {
            told = json::without(&told, "role");
        }
        if let Some(words) = json::string(&told, &["content"]).filter(|words| !words.is_empty()) {
            if std::mem::take(&mut self.joins) {
                told = json::with(&told, &["content"], &quote(&format!("\n\n{words}")));
            }
            self.said = words.chars().next_back();
        }
        told
    }
}

/// Whether a delta brings anything.
fn says(delta: &str) -> bool {
    json::fields(delta).iter().any(|(_, value)| !matches!(*value, "null" | "\"\"" | "[]"))
}

/// Whether a chunk belongs to the end of an answer.
fn is_end(data: &str) -> bool {
    let choices = json::get(data, &["choices"]).map(json::elements);
    data == "[DONE]"
        || choices.is_some_and(|choices| {
            choices.is_empty()
                || choices.iter().any(|choice| json::get(choice, &["finish_reason"]).is_some())
        })
}

/// By what a call is known again: its index, or its id.
fn place(call: &str) -> (Option<u64>, Option<String>) {
    let id = json::string(call, &["id"]).filter(|id| !id.is_empty());
    (json::number(call, &["index"]), id)
}

/// The calls of a chunk, each with its choice.
fn each_call(data: &str) -> impl Iterator<Item = (u64, &str)> {
    let choices = json::elements(json::get(data, &["choices"]).unwrap_or_default());
    choices.into_iter().flat_map(|choice| {
        let number = json::number(choice, &["index"]).unwrap_or(0);
        let own = json::get(choice, &["delta", "tool_calls"]).unwrap_or_default();
        json::elements(own).into_iter().map(move |call| (number, call))
    })
}

fn name(call: &str) -> Option<String> {
    ["function", "custom"].iter().find_map(|kind| json::string(call, &[kind, "name"]))
}
