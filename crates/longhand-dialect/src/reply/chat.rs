//! Answers of Chat Completions.

mod filter;

use std::collections::BTreeMap;

use longhand_core::json::{JsonKind, quote};

pub(super) use self::filter::{Chunks, join};
use super::{Pushed, Reply, ReplyCall, ReplyEvent, Stop, Usage, object};
use crate::view::{Object, View};

pub(super) fn read(view: View) -> Option<Reply> {
    let answer = view.object();
    let choice = answer.get("choices")?.elements().first()?.object();
    let message = choice.get("message")?;
    let mut stream = ChatStream::default();
    stream.attributes(&answer, &choice);
    stream.delta(0, message);
    let raw = message.is("role", "assistant").then(|| message.raw().to_owned());
    Some(stream.reply(raw))
}

/// A message as far as it has come.
#[derive(Clone, Debug, Default)]
pub(super) struct ChatStream {
    /// All fields but the role and the calls, in the order in which they came.
    fields: Vec<(String, Field)>,
    /// The calls of each choice; the reply has those of the first.
    calls: BTreeMap<u64, StreamedCalls>,
    usage: Option<Usage>,
    id: Option<String>,
    model: Option<String>,
    stop: Option<String>,
    ended: bool,
}

#[derive(Clone, Debug)]
enum Field {
    Text(String),
    List(Vec<String>),
    Other(String),
}

/// The calls of a choice, in the order in which they began.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamedCalls(Vec<StreamedCall>);

#[derive(Clone, Debug, Default)]
pub(super) struct StreamedCall {
    index: Option<u64>,
    id: String,
    /// `function` or `custom`.
    kind: String,
    name: String,
    arguments: String,
    /// What else came with it, as JSON.
    others: Vec<(String, String)>,
}

impl ChatStream {
    pub(super) fn push(&mut self, view: View) -> Pushed {
        let event = view.object();
        let choices = event.get("choices").map(View::elements);
        let mut ends = choices.as_ref().is_some_and(Vec::is_empty);
        let mut is_read = choices.is_some() || event.get("usage").is_some();
        let (mut text, mut first) = (String::new(), None);
        for choice in choices.unwrap_or_default() {
            let choice = choice.object();
            ends |= choice.get("finish_reason").is_some();
            let number = choice.number("index").unwrap_or(0);
            // Some servers send a message where a piece of one should be.
            if let Some(delta) = choice.get("delta").or_else(|| choice.get("message")) {
                text += &self.delta(number, delta);
                is_read &= number == 0 || !says_more_than_calls(delta);
            } else {
                is_read &= choice.get("finish_reason").is_some();
            }
            if number == 0 && first.is_none() {
                first = Some(choice);
            }
        }
        self.attributes(&event, first.as_ref().unwrap_or(&event));
        let event = if ends { ReplyEvent::End } else { ReplyEvent::Other };
        Pushed { text, event, is_read }
    }

    /// About how many bytes it has.
    pub(super) fn bytes(&self) -> usize {
        let fields = self.fields.iter().map(|(_, field)| field.bytes());
        let calls = self.calls.values().flat_map(|calls| &calls.0);
        fields.sum::<usize>() + calls.map(|call| call.arguments.len()).sum::<usize>()
    }

    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    pub(super) fn is_done(&self) -> bool {
        self.ended
    }

    fn attributes(&mut self, event: &Object, choice: &Object) {
        self.id = self.id.take().or_else(|| event.string("id"));
        self.model = self.model.take().or_else(|| event.string("model"));
        // An error is no end.
        let stop = choice.string("finish_reason").filter(|reason| reason != "error");
        self.stop = stop.or(self.stop.take());
        let reported = event.get("usage").or_else(|| event.get("x_groq")?.get("usage"));
        self.usage = reported.map(usage).or(self.usage);
    }

    /// Adds what came and gives the text among it. Of all choices but the first, only calls are kept.
    fn delta(&mut self, choice: u64, delta: View) -> String {
        let mut said = String::new();
        for (key, value) in delta.fields() {
            match (key.as_ref(), value.kind()) {
                ("role", _) | (_, JsonKind::Null) => {}
                ("tool_calls", JsonKind::Array) => {
                    value
                        .elements()
                        .into_iter()
                        .for_each(|call| self.calls.entry(choice).or_default().add(call));
                }
                _ if choice > 0 => {}
                (key, _) => {
                    if matches!(key, "content" | "refusal") {
                        said.push_str(&text_of(value));
                    }
                    self.field(key, value);
                }
            }
        }
        said
    }

    fn field(&mut self, key: &str, value: View) {
        let new = match value.kind() {
            JsonKind::String => Field::Text(value.str().unwrap_or_default().into()),
            JsonKind::Array => Field::List(raw_elements(value)),
            _ => Field::Other(value.raw().to_owned()),
        };
        let Some((_, old)) = self.fields.iter_mut().find(|(name, _)| name == key) else {
            return self.fields.push((key.to_owned(), new));
        };
        match (old, new) {
            (Field::Text(old), Field::Text(new)) => old.push_str(&new),
            (Field::List(old), Field::List(new)) => old.extend(new),
            (Field::List(old), Field::Text(new)) if !new.is_empty() => old.push(text_part(&new)),
            (old @ Field::Text(_), Field::List(new)) => {
                let before = match &*old {
                    Field::Text(text) if !text.is_empty() => Some(text_part(text)),
                    _ => None,
                };
                *old = Field::List(before.into_iter().chain(new).collect());
            }
            (_, Field::Text(_)) => {}
            (old, new) => *old = new,
        }
    }

    /// Whether the message came to its end.
    pub(super) fn is_whole(&self) -> bool {
        self.stop.is_some() || self.ended
    }

    /// The message, if it came to its end.
    pub(super) fn finish(self) -> Option<Reply> {
        self.is_whole().then(|| self.reply(None))
    }

    /// The calls of a choice.
    fn calls(&self, choice: u64) -> &[StreamedCall] {
        self.calls.get(&choice).map(|calls| calls.0.as_slice()).unwrap_or_default()
    }

    /// The message as far as it has come, without calls that are incomplete.
    pub(super) fn partial(mut self) -> Reply {
        let calls = self.calls.entry(0).or_default();
        let mut is_whole = calls.whole().into_iter();
        calls.0.retain(|_| is_whole.next() == Some(true));
        self.fields.retain(|(key, _)| key != "function_call");
        self.reply(None)
    }

    /// The calls that are incomplete, as far as they have come.
    pub(super) fn unfinished(&self) -> Vec<String> {
        let calls = self.calls.iter().flat_map(|(choice, calls)| {
            // Of other choices, not even those that are complete are in the message.
            calls.0.iter().zip(calls.whole()).filter(move |(_, is_whole)| *choice > 0 || !is_whole)
        });
        let old = self.fields.iter().filter(|(key, _)| key == "function_call");
        calls.map(|(call, _)| call.json()).chain(old.map(|(_, field)| field.json())).collect()
    }

    /// The answer; its message is written unless it came whole.
    fn reply(self, message: Option<String>) -> Reply {
        let words = |key: &str| self.fields.iter().find(|(name, _)| name == key).map(|(_, f)| f);
        let content = words("content").map(Field::text).unwrap_or_default();
        let refusal = words("refusal").map(Field::text).unwrap_or_default();
        let calls = self.calls(0);
        let stop = match self.stop.as_deref() {
            _ if !refusal.is_empty() => Stop::Refused,
            Some("stop") | None if calls.is_empty() => Stop::End,
            Some("stop" | "tool_calls" | "function_call") | None => Stop::Tools,
            Some("length") => Stop::Length,
            Some("content_filter") => Stop::Refused,
            Some("model_context_window_exceeded") => Stop::Window,
            Some(other) => Stop::Other(other.to_owned()),
        };
        let message = message.unwrap_or_else(|| self.message());
        let has_more = !calls.is_empty() || words("function_call").is_some();
        let text = content + &refusal;
        let Self { id, usage, model, .. } = self;
        Reply { id, text, message, usage, stop, model, has_more }
    }

    fn message(&self) -> String {
        let content = self.fields.iter().find(|(key, _)| key == "content");
        let mut fields = vec![("role", quote("assistant"))];
        let calls = self.calls(0);
        let nothing = || if calls.is_empty() { quote("") } else { "null".to_owned() };
        fields.push(("content", content.map_or_else(nothing, |(_, field)| field.json())));
        let others = self.fields.iter().filter(|(key, _)| key != "content");
        fields.extend(others.map(|(key, field)| (key.as_str(), field.json())));
        if !calls.is_empty() {
            let calls: Vec<String> = calls.iter().map(StreamedCall::json).collect();
            fields.push(("tool_calls", format!("[{}]", calls.join(","))));
        }
        object(fields)
    }
}

impl StreamedCalls {
    /// Whether each of them is complete.
    fn whole(&self) -> Vec<bool> {
        let last = self.0.len().saturating_sub(1);
        (0..).zip(&self.0).map(|(at, call)| call.is_whole(at == last)).collect()
    }

    /// The call that a piece belongs to: by its index, or else its id. A piece without either continues
    /// the newest call.
    fn find(&self, piece: View) -> Option<usize> {
        let (index, id) = (piece.number("index"), piece.string("id").unwrap_or_default());
        let known = self.0.iter().position(|call| match index {
            Some(_) => call.index == index,
            None => call.id == id,
        });
        let newest = || self.0.len().checked_sub(1).filter(|_| index.is_none() && id.is_empty());
        known.or_else(newest)
    }

    fn add(&mut self, piece: View) {
        let at = self.find(piece).unwrap_or_else(|| {
            self.0.push(StreamedCall { index: piece.number("index"), ..StreamedCall::default() });
            self.0.len() - 1
        });
        self.0[at].add(piece);
    }
}

impl Field {
    fn json(&self) -> String {
        match self {
            Self::Text(text) => quote(text),
            Self::List(elements) => format!("[{}]", elements.join(",")),
            Self::Other(raw) => raw.clone(),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Text(text) | Self::Other(text) => text.len(),
            Self::List(elements) => elements.iter().map(String::len).sum(),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::List(_) => View::parse(&self.json()).map(text_of).unwrap_or_default(),
            Self::Other(_) => String::new(),
        }
    }
}

impl StreamedCall {
    /// A call that came whole.
    fn of(call: View) -> Self {
        let mut complete = Self::default();
        complete.add(call);
        complete
    }

    fn add(&mut self, piece: View) {
        if self.id.is_empty() {
            self.id = piece.string("id").unwrap_or_default();
        }
        for (key, value) in piece.fields() {
            match key.as_ref() {
                "index" | "id" => {}
                "type" => self.kind = value.str().unwrap_or_default().into(),
                "function" | "custom" => {
                    if self.kind.is_empty() {
                        self.kind = key.into_owned();
                    }
                    // Some servers send a name in pieces, others the whole name again and again.
                    let name = value.string("name").unwrap_or_default();
                    if self.arguments.is_empty() && self.name != name {
                        self.name.push_str(&name);
                    }
                    for key in ["arguments", "input"] {
                        let more = value.get(key).map(|more| match more.kind() {
                            JsonKind::String => more.str().unwrap_or_default(),
                            // Some servers send an object where a string should be.
                            _ => more.raw().into(),
                        });
                        self.arguments.push_str(&more.unwrap_or_default());
                    }
                }
                _ if value.kind() == JsonKind::Null => {}
                _ => {
                    self.others.retain(|(name, _)| *name != key);
                    self.others.push((key.into_owned(), value.raw().to_owned()));
                }
            }
        }
    }

    /// Whether nothing of it is missing; free text ends where another call begins.
    fn is_whole(&self, is_last: bool) -> bool {
        let arguments = match self.kind.as_str() {
            "custom" => !is_last,
            _ => View::parse_nested(&self.arguments).is_some(),
        };
        arguments && !self.id.is_empty() && !self.name.is_empty()
    }

    fn json(&self) -> String {
        let kind = if self.kind.is_empty() { "function" } else { &self.kind };
        let arguments = if kind == "custom" { "input" } else { "arguments" };
        let inner = object([("name", quote(&self.name)), (arguments, quote(&self.arguments))]);
        let fields = [("id", quote(&self.id)), ("type", quote(kind)), (kind, inner)];
        let others = self.others.iter().map(|(key, raw)| (key.as_str(), raw.clone()));
        object(fields.into_iter().chain(others))
    }
}

/// Whether a message or a piece of one has more than is read of a choice that is not the first.
fn says_more_than_calls(message: View) -> bool {
    message.fields().iter().any(|(key, value)| {
        !matches!(key.as_ref(), "role" | "tool_calls") && !matches!(value.raw(), "null" | r#""""#)
    })
}

/// Whether a completion has choices of which something is not read.
pub(super) fn has_more(completion: View) -> bool {
    let choices = completion.get("choices").map(View::elements).unwrap_or_default();
    choices.len() > 1
}

/// The text of a content that is a string or a list of parts.
fn text_of(content: View) -> String {
    match content.str() {
        Some(text) => text.into_owned(),
        None => content.elements().into_iter().filter_map(|part| part.string("text")).collect(),
    }
}

fn text_part(text: &str) -> String {
    crate::render::text_block(&quote(text))
}

fn raw_elements(list: View) -> Vec<String> {
    list.elements().into_iter().map(|element| element.raw().to_owned()).collect()
}

/// The calls of a message.
pub(super) fn calls(message: View) -> Vec<ReplyCall> {
    let listed = message.get("tool_calls").map(View::elements).unwrap_or_default();
    let calls = listed.into_iter().map(StreamedCall::of);
    calls.map(|StreamedCall { name, arguments, .. }| ReplyCall { name, arguments }).collect()
}

fn usage(view: View) -> Usage {
    let view = view.object();
    let details = view.get("prompt_tokens_details");
    let detail = |key: &str| details.and_then(|details| details.number(key));
    Usage {
        input: view.number("prompt_tokens").unwrap_or(0),
        cached_input: detail("cached_tokens")
            .or_else(|| view.number("prompt_cache_hit_tokens"))
            .unwrap_or(0),
        cache_write: detail("cache_write_tokens").unwrap_or(0),
        output: view.number("completion_tokens").unwrap_or(0),
    }
}
