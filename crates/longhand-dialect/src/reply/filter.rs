//! Answers as a client sees them: several as one, without the calls of one tool.

mod parts;

use longhand_core::json::quote;

use self::parts::Parts;
use super::{DONE, Reply, ReplyEvent, ReplyPart, ReplyStream, Usage, anthropic, chat, responses};
use crate::Dialect;
use crate::edits::Edits;
use crate::sse::{SseFrame, SseFrames, write_event};
use crate::view::View;

/// Shows a client several answers as one, without the calls of one tool.
///
/// As long as there is nothing to take out, every event passes as it came.
///
/// ```
/// use longhand_dialect::{Dialect, ReplyFilter};
///
/// let mut filter = ReplyFilter::new(Dialect::Chat, "look");
/// let words = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hm.\"}}]}\n\n";
/// assert_eq!(filter.push(words), words);
/// let call = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\
///     \"function\":{\"name\":\"look\",\"arguments\":\"{}\"}}]}}]}\n\n";
/// assert_eq!(filter.push(call), b"");
/// assert!(filter.hides());
/// ```
#[derive(Debug)]
pub struct ReplyFilter {
    dialect: Dialect,
    frames: SseFrames,
    /// The answer that is read now, hidden calls included.
    stream: ReplyStream,
    /// An event of it is an error.
    failed: bool,
    shown: FilteredStream,
    before: Before,
}

/// The visible part of a stream, by the way its format divides it.
#[derive(Debug)]
enum FilteredStream {
    Chunks(chat::Chunks),
    Parts(Parts),
}

/// What a client has seen of the answers before this one.
#[derive(Debug)]
pub(super) struct Before {
    /// The tool whose calls are hidden.
    pub(super) tool: &'static str,
    /// Whether there are earlier answers.
    pub(super) goes_on: bool,
    pub(super) text: String,
    /// Their blocks or items, where a format has such.
    pub(super) parts: Vec<String>,
    /// The input tokens of the first answer, and the output tokens of all.
    usage: Option<Usage>,
}

/// Where the numbers of a usage stand in a format.
type UsageFields = Vec<(&'static [&'static str], u64)>;

impl ReplyFilter {
    /// Starts an answer in a wire format; the calls of a tool with this name are hidden.
    pub fn new(dialect: Dialect, tool: &'static str) -> Self {
        let stream = ReplyStream::new(dialect);
        let shown = match stream {
            ReplyStream::Chat(_) => FilteredStream::Chunks(chat::Chunks::default()),
            ReplyStream::Responses(_) | ReplyStream::Anthropic(_) => {
                FilteredStream::Parts(Parts::default())
            }
        };
        let before =
            Before { tool, goes_on: false, text: String::new(), parts: Vec::new(), usage: None };
        Self { dialect, frames: SseFrames::default(), stream, failed: false, shown, before }
    }

    /// Takes the next bytes of a stream and gives those that a client sees now.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let frames = self.frames.push(bytes);
        frames.into_iter().flat_map(|frame| self.take(frame)).collect()
    }

    /// Takes what came last of a stream that has ended, even if it is no whole event.
    pub fn close(&mut self) -> Vec<u8> {
        let tool = self.before.tool.as_bytes();
        let names = |raw: &[u8]| raw.windows(tool.len()).any(|piece| piece == tool);
        match self.frames.finish() {
            // A piece of an event may be one of a hidden call.
            Some(rest) if rest.event.is_some() || !names(&rest.raw) => self.take(rest),
            _ => Vec::new(),
        }
    }

    /// Whether the last event of the answer has come.
    pub fn is_done(&self) -> bool {
        !self.failed && self.stream.is_done()
    }

    /// Whether the answer has a call that is hidden. Then its end is held back.
    pub fn hides(&self) -> bool {
        match (&self.shown, &self.stream) {
            (FilteredStream::Parts(parts), _) => parts.hides(),
            (_, ReplyStream::Chat(stream)) => stream.hides(self.before.tool),
            _ => false,
        }
    }

    /// The answer with its hidden calls, if it came to its end.
    pub fn reply(&self) -> Option<Reply> {
        if self.failed { None } else { self.stream.clone().finish() }
    }

    /// Continues with another answer instead of ending this one.
    pub fn go_on(&mut self, reply: &Reply) {
        let before = &mut self.before;
        before.goes_on = true;
        before.text = before.joined_text(&reply.text);
        before.add_usage(reply.usage);
        if let Some(message) = View::parse(&reply.message) {
            let parts = match self.dialect {
                Dialect::Anthropic | Dialect::ClaudeCode => {
                    let blocks = message.get("content").map(View::elements).unwrap_or_default();
                    before.kept(&blocks, anthropic::part)
                }
                Dialect::Responses | Dialect::Codex => {
                    before.kept(&message.elements(), responses::part)
                }
                Dialect::Chat | Dialect::Pi => Vec::new(),
            };
            before.parts.extend(parts);
        }
        self.frames = SseFrames::default();
        self.stream = ReplyStream::new(self.dialect);
        self.failed = false;
        match &mut self.shown {
            FilteredStream::Chunks(chunks) => chunks.go_on(&self.before),
            FilteredStream::Parts(parts) => parts.go_on(),
        }
    }

    /// Returns the events that were held back, if no other answer follows.
    pub fn end(&mut self) -> Vec<u8> {
        match (&mut self.shown, &mut self.stream) {
            (FilteredStream::Chunks(chunks), ReplyStream::Chat(stream)) => {
                chunks.end(stream, &self.before)
            }
            (FilteredStream::Parts(parts), stream) => parts.end(stream, &self.before),
            (FilteredStream::Chunks(_), _) => Vec::new(),
        }
    }

    /// The last answer as a client sees it, where answers come whole.
    pub fn whole(&self, body: &str) -> String {
        let Some(view) = View::parse(body) else { return body.to_owned() };
        let mut edits = Edits::of(view);
        match self.dialect {
            Dialect::Chat | Dialect::Pi => chat::join(view, &mut edits, &self.before),
            Dialect::Anthropic | Dialect::ClaudeCode => {
                anthropic::join(view, &mut edits, &self.before);
            }
            Dialect::Responses | Dialect::Codex => {
                responses::hide_tool(view, &mut edits, self.before.tool);
                responses::join(view, "[]", &mut edits, &self.before);
            }
        }
        edits.finish().unwrap_or_else(|| body.to_owned())
    }

    /// An error that a provider answered with, as an event in the middle of a stream.
    pub fn error(&self, body: &str) -> Vec<u8> {
        let error = View::parse(body).and_then(|view| view.get("error"));
        let field = |key: &str| error.and_then(|error| error.string(key));
        let message = field("message");
        let message =
            message.as_deref().unwrap_or("the upstream failed in the middle of an answer");
        let message = quote(message);
        let error = match error {
            Some(error) if error.raw().starts_with('{') => error.raw().to_owned(),
            _ => format!(r#"{{"type":"api_error","message":{message}}}"#),
        };
        match self.dialect {
            Dialect::Chat | Dialect::Pi => write_event("", &format!(r#"{{"error":{error}}}"#)),
            Dialect::Anthropic | Dialect::ClaudeCode => {
                write_event("error", &format!(r#"{{"type":"error","error":{error}}}"#))
            }
            Dialect::Responses | Dialect::Codex => {
                let code = quote(field("code").as_deref().unwrap_or("server_error"));
                let event =
                    format!(r#"{{"type":"error","code":{code},"message":{message},"param":null}}"#);
                write_event("error", &event)
            }
        }
    }

    fn take(&mut self, frame: SseFrame) -> Vec<u8> {
        let event = self.read(&frame);
        match (&mut self.shown, &self.stream) {
            (FilteredStream::Chunks(chunks), ReplyStream::Chat(stream)) => {
                chunks.take(frame, event == ReplyEvent::End, stream, &self.before)
            }
            (FilteredStream::Parts(parts), stream) => {
                parts.take(frame, event, stream, &self.before)
            }
            (FilteredStream::Chunks(_), _) => frame.raw,
        }
    }

    /// Reads an event into the answer and returns its role.
    fn read(&mut self, frame: &SseFrame) -> ReplyEvent {
        let data = frame.data();
        if data == DONE {
            self.stream.end();
            return ReplyEvent::End;
        }
        if data.is_empty() {
            return ReplyEvent::Other;
        }
        let is_error = frame.event.as_ref().is_some_and(|event| event.name == "error");
        let Some(view) = frame.view() else {
            self.failed |= is_error;
            return ReplyEvent::Other;
        };
        self.failed |= is_error || super::provider_error(view, data).is_some();
        self.stream.push(view).event
    }
}

impl Before {
    /// The parts of an answer that are shown: no calls of the tool, and no reasoning that led to nothing
    /// else.
    fn kept(&self, parts: &[View], part: fn(View) -> ReplyPart) -> Vec<String> {
        let (mut kept, mut waiting) = (Vec::new(), Vec::new());
        let mut hides = false;
        for view in parts {
            match part(*view) {
                ReplyPart::Call(name) if name == self.tool => hides = true,
                ReplyPart::Reasoning => waiting.push(view.raw().to_owned()),
                _ => {
                    kept.append(&mut waiting);
                    kept.push(view.raw().to_owned());
                }
            }
        }
        if !hides {
            kept.append(&mut waiting);
        }
        kept
    }

    /// The list of all parts that are shown, if these are the last; `None` if these are all.
    pub(super) fn joined(&self, parts: &[View], part: fn(View) -> ReplyPart) -> Option<String> {
        let kept = self.kept(parts, part);
        if !self.goes_on && kept.len() == parts.len() {
            return None;
        }
        let all: Vec<&str> = self.parts.iter().chain(&kept).map(String::as_str).collect();
        Some(format!("[{}]", all.join(",")))
    }

    /// All words, if these are the last.
    pub(super) fn joined_text(&self, text: &str) -> String {
        let apart = if text.is_empty() { "" } else { apart(&self.text) };
        format!("{}{apart}{text}", self.text)
    }

    fn add_usage(&mut self, usage: Option<Usage>) {
        self.usage = match (self.usage, usage) {
            (Some(first), Some(next)) => Some(first.and_then(next)),
            (first, next) => first.or(next),
        };
    }

    /// Writes the usage of all answers into the last one; `fields` says where its numbers stand.
    ///
    /// The input tokens are those of the first answer, since later requests had messages that the client never gets.
    pub(super) fn write_usage(
        &self,
        usage: View,
        edits: &mut Edits,
        last: Usage,
        fields: fn(Usage) -> UsageFields,
    ) {
        let Some(first) = self.usage else { return };
        for (path, tokens) in fields(first.and_then(last)) {
            if let Some(field) = usage.path(path) {
                edits.replace(field, tokens.to_string());
            }
        }
    }
}

/// What stands between a text and the next one, if the next is not empty.
pub(super) fn apart(text: &str) -> &'static str {
    if text.is_empty() || text.ends_with('\n') { "" } else { "\n\n" }
}

#[cfg(test)]
mod tests;
