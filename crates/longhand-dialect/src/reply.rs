//! What a model answers, whole or as a stream.

mod anthropic;
mod chat;
mod filter;
mod responses;

use longhand_core::json::JsonKind;

pub use self::filter::ReplyFilter;

use crate::Dialect;
use crate::overflow::{Overflow, recognise};
use crate::sse::SseEvent;
use crate::view::View;

/// A model's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The provider's name for it, where the answer says so.
    pub id: Option<String>,
    /// All text of it, thinking left out.
    pub text: String,
    /// The answer in its wire format, ready to be appended to a conversation: a message for Chat
    /// Completions and Anthropic, the list of output items for Responses.
    pub message: String,
    /// What it was billed for, where the answer says so.
    pub usage: Option<Usage>,
    /// Why it ended.
    pub stop: Stop,
    /// The model that gave it, where the answer says so.
    pub model: Option<String>,
    /// Whether there is more than text and thinking in it, such as a tool call.
    pub has_more: bool,
}

/// A call of a tool that the client has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyCall {
    /// The name of the tool; empty for a tool that goes by its type alone.
    pub name: String,
    /// A JSON object, if the model got it right.
    pub arguments: String,
}

/// The tokens of a request and its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// All that was read, cached or not.
    pub input: u64,
    /// The part of it that was read from a cache.
    pub cached_input: u64,
    /// The part of it that was written to a cache.
    pub cache_write: u64,
    /// All that was written, thinking included.
    pub output: u64,
}

impl Usage {
    /// What two answers took that are one to the client: the second has read the first's question again.
    fn and_then(self, next: Self) -> Self {
        Self { output: self.output.saturating_add(next.output), ..self }
    }
}

/// Why an answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// It was complete.
    End,
    /// It reached the most tokens that it may have.
    Length,
    /// It waits for the results of tools.
    Tools,
    /// The model refused, or a filter stopped it.
    Refused,
    /// The window was full.
    Window,
    /// Something else, in the provider's word; `cut` if the rest of it never came.
    Other(String),
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplyError {
    /// The provider reports an error in place of an answer, or in the middle of one.
    #[error("the provider reports an error: {message}")]
    Provider {
        /// The provider's name for it.
        code: Option<String>,
        /// What the provider says.
        message: String,
        /// Whether it means that the request was too long.
        overflow: Option<Overflow>,
    },
    /// The stream ended in the middle.
    #[error("the answer was cut off")]
    Cut,
    /// It is not JSON.
    #[error("the answer is not JSON")]
    NotJson,
    /// It is JSON, but no answer in this format.
    #[error("the answer is not in the format {0}")]
    NotAnAnswer(Dialect),
}

impl Reply {
    /// Reads an answer that came whole.
    ///
    /// ```
    /// use longhand_dialect::{Dialect, Reply, Stop};
    ///
    /// let body = r#"{"choices":[{"message":{"role":"assistant","content":"Hello."},"finish_reason":"stop"}]}"#;
    /// let reply = Reply::read(Dialect::Chat, body)?;
    /// assert_eq!((reply.text.as_str(), reply.stop), ("Hello.", Stop::End));
    /// assert_eq!(reply.message, r#"{"role":"assistant","content":"Hello."}"#);
    /// # Ok::<(), longhand_dialect::ReplyError>(())
    /// ```
    pub fn read(dialect: Dialect, body: &str) -> Result<Self, ReplyError> {
        let view = View::parse(body).ok_or(ReplyError::NotJson)?;
        if let Some(error) = provider_error(view, body) {
            return Err(error);
        }
        Self::of(dialect, view).ok_or(ReplyError::NotAnAnswer(dialect))
    }

    /// Reads an answer from a value, even if the value also reports an error.
    pub(crate) fn of(dialect: Dialect, view: View) -> Option<Self> {
        match dialect {
            Dialect::Chat | Dialect::Pi => chat::read(view),
            Dialect::Responses | Dialect::Codex => responses::read(view),
            Dialect::Anthropic | Dialect::ClaudeCode => anthropic::read(view),
        }
    }

    /// An answer of which nothing could be read.
    pub fn unread() -> Self {
        Self {
            id: None,
            text: String::new(),
            message: String::new(),
            usage: None,
            stop: Stop::Other(CUT.to_owned()),
            model: None,
            has_more: false,
        }
    }

    /// The calls that wait for the client, if this is an answer in `dialect`.
    ///
    /// ```
    /// use longhand_dialect::{Dialect, Reply};
    ///
    /// let body = r#"{"content":[{"type":"tool_use","id":"a","name":"read","input":{"path":"x"}}]}"#;
    /// let calls = Reply::read(Dialect::Anthropic, body)?.calls(Dialect::Anthropic);
    /// assert_eq!((calls[0].name.as_str(), calls[0].arguments.as_str()), ("read", r#"{"path":"x"}"#));
    /// # Ok::<(), longhand_dialect::ReplyError>(())
    /// ```
    pub fn calls(&self, dialect: Dialect) -> Vec<ReplyCall> {
        let Some(message) = View::parse(&self.message) else { return Vec::new() };
        match dialect {
            Dialect::Chat | Dialect::Pi => chat::calls(message),
            Dialect::Responses | Dialect::Codex => responses::calls(message),
            Dialect::Anthropic | Dialect::ClaudeCode => anthropic::calls(message),
        }
    }

    /// Whether it neither says nor asks anything.
    pub fn is_empty(&self) -> bool {
        !self.has_more && self.text.trim().is_empty()
    }
}

/// Reads an answer event by event.
///
/// It only listens: who passes a stream on can hand it a copy of each event.
///
/// ```
/// use longhand_dialect::{Dialect, ReplyReader, SseReader};
///
/// let stream = b"data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n\n\
///     data: {\"choices\":[{\"delta\":{\"content\":\"lo.\"},\"finish_reason\":\"stop\"}]}\n\n\
///     data: [DONE]\n\n";
/// let mut reader = ReplyReader::new(Dialect::Chat);
/// for event in SseReader::default().push(stream)? {
///     if let Some(text) = reader.push(&event)? {
///         print!("{text}");
///     }
/// }
/// assert_eq!(reader.finish()?.text, "Hello.");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ReplyReader {
    stream: ReplyStream,
    /// Whether events came, but none that is JSON.
    is_foreign: Option<bool>,
}

/// An answer as far as it has come.
#[derive(Clone, Debug)]
enum ReplyStream {
    Chat(chat::ChatStream),
    Responses(responses::ResponsesStream),
    Anthropic(anthropic::AnthropicStream),
}

/// The role of an event in its answer.
#[derive(Debug, PartialEq)]
enum ReplyEvent {
    /// It begins the answer.
    Start,
    /// It belongs to one part of the answer and may begin it.
    Part { index: u64, begins: Option<ReplyPart> },
    /// It belongs to the end of the answer.
    End,
    /// It says something else.
    Other,
}

/// The result of adding an event to a stream.
#[derive(Debug)]
struct Pushed {
    /// The text that it adds.
    text: String,
    event: ReplyEvent,
    /// Whether all of it was read: it is an event of this format, and nothing in it was left out.
    is_read: bool,
}

/// The result of reading an event.
#[derive(Debug, PartialEq)]
pub(crate) enum Taken {
    /// It says nothing.
    Nothing,
    /// It was read, and adds this text.
    Text(String),
    /// It was skipped: it is no event of this format, or only part of it was read.
    Foreign(String),
}

/// The kind of a part of an answer.
#[derive(Debug, PartialEq)]
enum ReplyPart {
    /// A call of the tool with this name.
    Call(String),
    /// Reasoning that is refused without what it led to.
    Reasoning,
    Other,
}

impl ReplyStream {
    fn new(dialect: Dialect) -> Self {
        match dialect {
            Dialect::Chat | Dialect::Pi => Self::Chat(chat::ChatStream::default()),
            Dialect::Responses | Dialect::Codex => {
                Self::Responses(responses::ResponsesStream::default())
            }
            Dialect::Anthropic | Dialect::ClaudeCode => {
                Self::Anthropic(anthropic::AnthropicStream::default())
            }
        }
    }

    /// Takes an event.
    fn push(&mut self, view: View) -> Pushed {
        match self {
            Self::Chat(stream) => stream.push(view),
            Self::Responses(stream) => stream.push(view),
            Self::Anthropic(stream) => stream.push(view),
        }
    }

    /// One of the same format, of which nothing has come.
    fn begun_again(&self) -> Self {
        match self {
            Self::Chat(_) => Self::Chat(chat::ChatStream::default()),
            Self::Responses(_) => Self::Responses(responses::ResponsesStream::default()),
            Self::Anthropic(_) => Self::Anthropic(anthropic::AnthropicStream::default()),
        }
    }

    /// Takes the mark after the last event, which one format has.
    fn end(&mut self) {
        if let Self::Chat(stream) = self {
            stream.end();
        }
    }

    fn is_done(&self) -> bool {
        match self {
            Self::Chat(stream) => stream.is_done(),
            Self::Responses(stream) => stream.is_done(),
            Self::Anthropic(stream) => stream.is_done(),
        }
    }

    fn is_whole(&self) -> bool {
        match self {
            Self::Chat(stream) => stream.is_whole(),
            Self::Responses(stream) => stream.is_done(),
            Self::Anthropic(stream) => stream.is_whole(),
        }
    }

    fn finish(self) -> Option<Reply> {
        match self {
            Self::Chat(stream) => stream.finish(),
            Self::Responses(stream) => stream.finish(),
            Self::Anthropic(stream) => stream.finish(),
        }
    }

    fn partial(self) -> Option<Reply> {
        match self {
            Self::Chat(stream) => Some(stream.partial()),
            Self::Responses(stream) => stream.partial(),
            Self::Anthropic(stream) => stream.partial(),
        }
    }
}

impl ReplyReader {
    /// Starts an answer in a wire format.
    pub fn new(dialect: Dialect) -> Self {
        Self { stream: ReplyStream::new(dialect), is_foreign: None }
    }

    /// Takes the next event and gives the text that it adds.
    ///
    /// An event that is not of this format is passed over: gateways send some of their own.
    pub fn push(&mut self, event: &SseEvent) -> Result<Option<String>, ReplyError> {
        Ok(match self.take(event)? {
            Taken::Nothing => None,
            Taken::Text(text) | Taken::Foreign(text) => Some(text).filter(|text| !text.is_empty()),
        })
    }

    /// Takes the next event; says whether it was read.
    pub(crate) fn take(&mut self, event: &SseEvent) -> Result<Taken, ReplyError> {
        let data = event.data.trim();
        if data == DONE {
            self.stream.end();
            return Ok(Taken::Nothing);
        }
        if data.is_empty() {
            return Ok(Taken::Nothing);
        }
        let Some(view) = View::parse(data) else {
            if event.name == "error" {
                return Err(plain_error(data));
            }
            self.is_foreign.get_or_insert(true);
            return Ok(Taken::Foreign(String::new()));
        };
        self.is_foreign = Some(false);
        // What reports an error may have words as well.
        let Pushed { text, is_read, .. } = self.stream.push(view);
        if let Some(error) = provider_error(view, data) {
            return Err(error);
        }
        if event.name == "error" {
            return Err(plain_error(data));
        }
        Ok(if is_read { Taken::Text(text) } else { Taken::Foreign(text) })
    }

    /// What has come of calls and thinking that [`ReplyReader::partial`] leaves out.
    pub(crate) fn unfinished(&self) -> Vec<String> {
        if self.stream.is_whole() {
            return Vec::new();
        }
        let mut pieces = match &self.stream {
            ReplyStream::Chat(stream) => stream.unfinished(),
            ReplyStream::Responses(stream) => stream.unfinished(),
            ReplyStream::Anthropic(stream) => stream.unfinished(),
        };
        // What has only thinking is no answer yet.
        let message = |stream: ReplyStream| {
            stream.partial().filter(Reply::is_empty).map(|reply| reply.message)
        };
        let empty = message(self.stream.begun_again());
        let thinking = message(self.stream.clone());
        pieces.extend(thinking.filter(|thinking| empty.as_ref() != Some(thinking)));
        pieces
    }

    /// About how many bytes the answer has so far.
    pub(crate) fn bytes(&self) -> usize {
        match &self.stream {
            ReplyStream::Chat(stream) => stream.bytes(),
            ReplyStream::Responses(stream) => stream.bytes(),
            ReplyStream::Anthropic(stream) => stream.bytes(),
        }
    }

    /// Whether nothing more is to come.
    pub fn is_done(&self) -> bool {
        self.stream.is_done()
    }

    /// Ends the stream.
    pub fn finish(self) -> Result<Reply, ReplyError> {
        let is_foreign = self.is_foreign == Some(true);
        let missing = if is_foreign { ReplyError::NotJson } else { ReplyError::Cut };
        self.stream.finish().ok_or(missing)
    }

    /// Ends the stream wherever it is; `None` if nothing was said.
    ///
    /// An answer that was cut off has the text so far and all complete parts. Unfinished calls and thinking are
    /// left out, so that it can be appended to a conversation.
    pub fn partial(self) -> Option<Reply> {
        if self.stream.is_whole() {
            return self.stream.finish();
        }
        let reply = self.stream.partial()?;
        Some(Reply { stop: Stop::Other(CUT.to_owned()), ..reply }).filter(|reply| !reply.is_empty())
    }
}

/// Whether a whole answer has choices beside the first.
pub(crate) fn has_more(dialect: Dialect, answer: View) -> bool {
    matches!(dialect, Dialect::Chat | Dialect::Pi) && chat::has_more(answer)
}

/// Why an answer ended of which the rest never came.
const CUT: &str = "cut";

/// What stands after the last event of a stream of Chat Completions.
const DONE: &str = "[DONE]";

/// Reads the error that an answer or event reports, in any of the known shapes.
pub(crate) fn provider_error(view: View, raw: &str) -> Option<ReplyError> {
    if !raw.contains("error") {
        return None;
    }
    if view.kind() == JsonKind::Array {
        return provider_error(*view.elements().first()?, raw);
    }
    let choice = || view.get("choices")?.elements().first().copied();
    let flat = || (view.is("type", "error") || view.is("object", "error")).then_some(view);
    let error = view
        .get("error")
        .or_else(|| view.path(&["response", "error"]))
        .or_else(|| choice()?.get("error"))
        .or_else(flat)
        // Some gateways have the field in every answer.
        .filter(|error| !matches!(error.raw(), "false" | "0" | r#""""# | "{}" | "[]"))?;
    let code = ["code", "type"].iter().find_map(|key| {
        let code = error.get(key)?;
        Some(code.str().map_or_else(|| code.raw().to_owned(), Into::into))
    });
    let message = ["message", "error", "detail"]
        .iter()
        .find_map(|key| error.string(key))
        .or_else(|| error.str().map(Into::into))
        .unwrap_or_else(|| error.raw().to_owned());
    Some(ReplyError::Provider { code, message, overflow: recognise(200, raw) })
}

fn plain_error(data: &str) -> ReplyError {
    ReplyError::Provider { code: None, message: data.to_owned(), overflow: recognise(400, data) }
}

/// Writes an object of fields that are JSON already.
fn object<'f>(fields: impl IntoIterator<Item = (&'f str, String)>) -> String {
    let fields = fields
        .into_iter()
        .map(|(key, value)| format!("{}:{value}", longhand_core::json::quote(key)));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests;
