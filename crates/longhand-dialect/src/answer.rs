//! Answers as they come over the wire, with the bytes that could not be read.

use std::borrow::Cow;
use std::fmt;

use crate::Dialect;
use crate::lean::LeanBuffer;
use crate::reply::{Reply, ReplyReader, Taken, has_more, provider_error};
use crate::sse::{SseEvent, SseReader, write_event};
use crate::view::View;

/// The most bytes that are kept of an answer, and of its unreadable parts.
const KEPT_BYTES_MAX: usize = 32 << 20;
const UNREAD_BYTES_MAX: usize = 16 << 20;

/// How many bytes come in before the kept bytes are counted again.
const COUNT_BYTES: usize = 64 << 10;

/// Reads an answer as it comes, whole or as a stream, and keeps what it cannot read.
///
/// It never fails. Events of another format are skipped, and bytes that are not UTF-8 become replacement characters.
/// If nothing can be read, the raw bytes are returned.
///
/// ```
/// use longhand_dialect::{AnswerReader, Dialect};
///
/// let mut reader = AnswerReader::new(Dialect::Chat, true);
/// reader.push(b"data: [PING]\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"Hello.\"},");
/// reader.push(b"\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n");
/// let answer = reader.finish();
/// assert_eq!(answer.reply.unwrap().text, "Hello.");
/// assert_eq!(answer.foreign_events, 1);
/// ```
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent facts, not states")]
pub struct AnswerReader {
    dialect: Dialect,
    /// Whether the head of the answer says that it is a stream.
    in_events: bool,
    shape: AnswerShape,
    /// The bytes as they came, as long as none of them was understood.
    raw: Vec<u8>,
    /// The events that were skipped or never ended.
    unread: Vec<u8>,
    is_understood: bool,
    foreign_events: u64,
    /// Whether the provider reports an error.
    failed: bool,
    bytes: u64,
    /// How many bytes the reply had, and after how many it is counted again.
    kept: usize,
    count_at: u64,
    kept_max: usize,
    /// Whether there was no room for the rest.
    is_full: bool,
}

#[derive(Debug)]
enum AnswerShape {
    /// Too few bytes have come to decide.
    Unknown,
    Events(Box<(SseReader, ReplyReader)>),
    Whole(LeanBuffer),
}

/// The result of reading an answer.
#[derive(Debug)]
pub struct ReadAnswer {
    /// The answer as far as it could be read; `None` if it says nothing.
    pub reply: Option<Reply>,
    /// Why some of it could not be read.
    pub unread: Option<Unread>,
    /// What could not be read, as it came; empty if it is too little to matter.
    pub rest: Vec<u8>,
    /// How many bytes the answer had.
    pub bytes: u64,
    /// How many events were passed over.
    pub foreign_events: u64,
    /// Whether the provider reports an error.
    pub failed: bool,
}

/// Why an answer, or some of it, could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unread {
    /// It has more than there is room for.
    Size,
    /// It is no answer in its format.
    Format,
    /// It is packed in a way that is not known, or damaged.
    Packing,
    /// Something follows it that is no part of it.
    Trailing,
    /// Some events are not of its format.
    Events,
    /// It has several choices, of which the first is the answer.
    Choices,
    /// Some bytes are no text.
    Encoding,
    /// It broke off, and this was still being written.
    Cut,
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Size => "it is larger than what is kept of an answer",
            Self::Format => "it is no answer in its format",
            Self::Packing => "it is packed in a way that cannot be undone",
            Self::Trailing => "something follows the answer that is no part of it",
            Self::Events => "it has events that are not of its format",
            Self::Choices => "it has several choices, of which the first is archived as the answer",
            Self::Encoding => "it has bytes that are no UTF-8",
            Self::Cut => "it broke off in the middle of this",
        })
    }
}

impl AnswerReader {
    /// Starts an answer; `in_events` is what its head says of its shape.
    pub fn new(dialect: Dialect, in_events: bool) -> Self {
        Self::within(dialect, in_events, KEPT_BYTES_MAX)
    }

    /// Starts an answer of which at most `kept_max` bytes are kept.
    fn within(dialect: Dialect, in_events: bool, kept_max: usize) -> Self {
        Self {
            dialect,
            in_events,
            shape: AnswerShape::Unknown,
            raw: Vec::new(),
            unread: Vec::new(),
            is_understood: false,
            foreign_events: 0,
            failed: false,
            bytes: 0,
            kept: 0,
            count_at: COUNT_BYTES as u64,
            kept_max,
            is_full: false,
        }
    }

    /// Takes the next bytes, however they are cut.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        if self.is_full {
            return;
        }
        match &mut self.shape {
            AnswerShape::Unknown => self.begin(bytes, false),
            AnswerShape::Whole(body) => body.push(bytes),
            AnswerShape::Events(_) => self.read(bytes),
        }
        if self.held() > self.kept_max {
            self.stop();
        }
    }

    /// Takes nothing more: there is no room for it.
    pub fn stop(&mut self) {
        self.is_full = true;
    }

    /// About how many bytes it holds.
    pub fn held(&self) -> usize {
        let shape = match &self.shape {
            AnswerShape::Unknown => 0,
            AnswerShape::Whole(body) => body.len(),
            AnswerShape::Events(readers) => readers.0.held() + self.kept,
        };
        shape + self.raw.len() + self.unread.len()
    }

    /// Whether the last event was read; `None` if the answer is not a stream.
    pub fn is_done(&self) -> Option<bool> {
        match &self.shape {
            AnswerShape::Events(readers) => Some(self.failed || readers.1.is_done()),
            AnswerShape::Unknown if self.in_events => Some(false),
            AnswerShape::Unknown | AnswerShape::Whole(_) => None,
        }
    }

    /// Ends the answer wherever it is.
    pub fn finish(mut self) -> ReadAnswer {
        if matches!(self.shape, AnswerShape::Unknown) {
            self.begin(&[], true);
        }
        match std::mem::replace(&mut self.shape, AnswerShape::Unknown) {
            AnswerShape::Events(readers) => self.finish_events(*readers),
            AnswerShape::Whole(mut body) => {
                let body = body.take();
                self.finish_whole(&body)
            }
            AnswerShape::Unknown => self.answer(None, None),
        }
    }

    /// Finds out what has begun.
    fn begin(&mut self, bytes: &[u8], is_all: bool) {
        self.raw.extend_from_slice(bytes);
        let is_stream = match is_stream(&self.raw, self.in_events) {
            Some(is_stream) => is_stream,
            None if is_all && !self.raw.is_empty() => self.in_events,
            None => return,
        };
        let begun = std::mem::take(&mut self.raw);
        if is_stream {
            self.shape = AnswerShape::Events(Self::readers(self.dialect));
            self.read(&begun);
        } else {
            let mut body = LeanBuffer::lean();
            body.push(&begun);
            self.shape = AnswerShape::Whole(body);
        }
    }

    fn readers(dialect: Dialect) -> Box<(SseReader, ReplyReader)> {
        Box::new((SseReader::lean(), ReplyReader::new(dialect)))
    }

    /// Reads on in a stream.
    fn read(&mut self, bytes: &[u8]) {
        if !self.is_understood {
            self.raw.extend_from_slice(within(bytes, &self.raw));
        }
        let AnswerShape::Events(readers) = &mut self.shape else { return };
        let events = readers.0.push_past(bytes);
        let strays = readers.0.take_strays();
        for event in &events {
            self.take(event);
        }
        for stray in strays {
            self.foreign_events += 1;
            self.set_aside(format!("{stray}\n").as_bytes());
        }
        if self.bytes >= self.count_at
            && let AnswerShape::Events(readers) = &self.shape
        {
            self.kept = readers.1.bytes();
            self.count_at = self.bytes + COUNT_BYTES as u64;
        }
    }

    fn take(&mut self, event: &SseEvent) {
        let AnswerShape::Events(readers) = &mut self.shape else { return };
        match readers.1.take(event) {
            Ok(Taken::Nothing) => {}
            Ok(Taken::Text(_)) => self.understood(),
            Ok(Taken::Foreign(_)) => {
                self.foreign_events += 1;
                if !is_heartbeat(event) {
                    self.set_aside(&write_event(&event.name, &event.data));
                }
            }
            Err(_) => {
                self.failed = true;
                self.understood();
            }
        }
    }

    /// Drops the raw bytes; from now on only skipped events are kept.
    fn understood(&mut self) {
        self.is_understood = true;
        self.raw = Vec::new();
    }

    fn set_aside(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(within(bytes, &self.unread));
    }

    fn finish_events(mut self, (mut events, mut reply): (SseReader, ReplyReader)) -> ReadAnswer {
        let is_lossy = events.is_lossy();
        let (too_large, begun_line) = (events.too_large(), events.begun_line().to_vec());
        let _ = events.take_strays();
        if let Some(event) = events.finish() {
            self.shape = AnswerShape::Events(Box::new((SseReader::default(), reply)));
            self.take(&event);
            let AnswerShape::Events(readers) =
                std::mem::replace(&mut self.shape, AnswerShape::Unknown)
            else {
                return self.answer(None, None);
            };
            reply = readers.1;
        }
        let is_done = reply.is_done() && !self.failed;
        let mut unread = None;
        if self.is_full || too_large > 0 {
            unread = Some(Unread::Size);
        } else if !self.is_understood && (self.foreign_events > 0 || !begun_line.is_empty()) {
            unread = Some(Unread::Format);
        } else if !self.unread.is_empty() {
            unread = Some(Unread::Events);
        } else if is_lossy {
            unread = Some(Unread::Encoding);
        }
        if self.is_understood && !is_done {
            // Calls and thinking that were still being written, and the piece of an event at the end.
            for piece in reply.unfinished() {
                self.set_aside(format!("{piece}\n").as_bytes());
            }
            self.set_aside(&begun_line);
            if !self.unread.is_empty() {
                unread = unread.or(Some(Unread::Cut));
            }
        }
        let reply = if is_done { reply.finish().ok() } else { reply.partial() };
        let reply = reply.filter(|_| self.is_understood);
        self.answer(reply, unread)
    }

    fn finish_whole(mut self, body: &[u8]) -> ReadAnswer {
        let text = String::from_utf8_lossy(body);
        let is_lossy = matches!(text, Cow::Owned(_));
        let first = View::parse_first(&text);
        let reply = first.and_then(|(view, _)| Reply::of(self.dialect, view));
        let is_error = |view: View| provider_error(view, view.raw()).is_some();
        if first.is_some_and(|(view, _)| is_error(view)) {
            self.failed = true;
            return self.answer(reply.filter(|reply| !reply.is_empty()), None);
        }
        let (Some((view, rest)), Some(reply)) = (first, reply) else {
            return self.unreadable(body);
        };
        let mut unread = is_lossy.then_some(Unread::Encoding);
        if has_more(self.dialect, view) {
            self.set_aside(body);
            unread = Some(Unread::Choices);
        } else if !rest.trim().is_empty() {
            self.set_aside(rest.trim().as_bytes());
            unread = Some(Unread::Trailing);
        }
        self.answer(Some(reply), unread)
    }

    /// An answer of which nothing is read.
    fn unreadable(mut self, body: &[u8]) -> ReadAnswer {
        if body.trim_ascii().is_empty() {
            return self.answer(None, None);
        }
        // A stream may begin with something of another kind.
        if self.in_events && memchr::memmem::find(body, b"\ndata:").is_some() {
            self.in_events = false;
            self.shape = AnswerShape::Events(Self::readers(self.dialect));
            self.read(body);
            return self.finish();
        }
        self.set_aside(body);
        let unread = if self.is_full { Unread::Size } else { Unread::Format };
        self.answer(None, Some(unread))
    }

    fn answer(self, reply: Option<Reply>, unread: Option<Unread>) -> ReadAnswer {
        ReadAnswer {
            reply,
            unread,
            rest: if self.is_understood || self.raw.is_empty() { self.unread } else { self.raw },
            bytes: self.bytes,
            foreign_events: self.foreign_events,
            failed: self.failed,
        }
    }
}

/// As much of some bytes as there is room for after others.
fn within<'b>(bytes: &'b [u8], held: &[u8]) -> &'b [u8] {
    &bytes[..bytes.len().min(UNREAD_BYTES_MAX.saturating_sub(held.len()))]
}

/// Whether an answer is a stream of events, by how it begins: some servers name another type than they send.
fn is_stream(begun: &[u8], in_events: bool) -> Option<bool> {
    const FIELDS: [&[u8]; 5] = [b"data:", b"event:", b":", b"id:", b"retry:"];
    const MARK: &[u8] = "\u{feff}".as_bytes();
    if begun.len() < MARK.len() && MARK.starts_with(begun) {
        return None;
    }
    let begun = begun.strip_prefix(MARK).unwrap_or(begun).trim_ascii_start();
    match begun.first() {
        None => None,
        Some(b'{' | b'[') => Some(false),
        Some(_) if in_events => Some(true),
        Some(_) if FIELDS.iter().any(|field| begun.starts_with(field)) => Some(true),
        Some(_) if FIELDS.iter().any(|field| field.starts_with(begun)) => None,
        Some(_) => Some(false),
    }
}

/// Whether an event only says that the connection is alive.
fn is_heartbeat(event: &SseEvent) -> bool {
    const WORDS: [&str; 5] = ["ping", "keepalive", "keep-alive", "keep_alive", "heartbeat"];
    const BYTES_MAX: usize = 100;
    let is_word = |text: &str| WORDS.iter().any(|word| text.eq_ignore_ascii_case(word));
    let data = event.data.trim();
    let word = data.trim_matches(|letter| matches!(letter, '[' | ']' | '"' | ' '));
    let kind = || View::parse(data).and_then(|view| view.string("type"));
    data.len() < BYTES_MAX
        && (is_word(word) || is_word(&event.name) || kind().is_some_and(|kind| is_word(&kind)))
}

#[cfg(test)]
mod tests;
