//! What a model answers, whole or as a stream.

mod anthropic;
mod chat;
mod responses;

use longhand_core::json::Kind;

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
        match dialect {
            Dialect::Chat | Dialect::Pi => chat::read(view),
            Dialect::Responses | Dialect::Codex => responses::read(view),
            Dialect::Anthropic | Dialect::ClaudeCode => anthropic::read(view),
        }
        .ok_or(ReplyError::NotAnAnswer(dialect))
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
    stream: Stream,
}

#[derive(Debug)]
enum Stream {
    Chat(chat::Stream),
    Responses(responses::Stream),
    Anthropic(anthropic::Stream),
}

impl ReplyReader {
    /// Starts an answer in a wire format.
    pub fn new(dialect: Dialect) -> Self {
        let stream = match dialect {
            Dialect::Chat | Dialect::Pi => Stream::Chat(chat::Stream::default()),
            Dialect::Responses | Dialect::Codex => Stream::Responses(responses::Stream::default()),
            Dialect::Anthropic | Dialect::ClaudeCode => {
                Stream::Anthropic(anthropic::Stream::default())
            }
        };
        Self { stream }
    }

    /// Takes the next event and gives the text that it adds.
    pub fn push(&mut self, event: &SseEvent) -> Result<Option<String>, ReplyError> {
        let data = event.data.trim();
        if data == "[DONE]" {
            if let Stream::Chat(stream) = &mut self.stream {
                stream.end();
            }
            return Ok(None);
        }
        if data.is_empty() {
            return Ok(None);
        }
        let Some(view) = View::parse(data) else {
            return Err(match event.name.as_str() {
                "error" => plain_error(data),
                _ => ReplyError::NotJson,
            });
        };
        if let Some(error) = provider_error(view, data) {
            return Err(error);
        }
        if event.name == "error" {
            return Err(plain_error(data));
        }
        let text = match &mut self.stream {
            Stream::Chat(stream) => stream.push(view),
            Stream::Responses(stream) => stream.push(view),
            Stream::Anthropic(stream) => stream.push(view),
        };
        Ok(Some(text).filter(|text| !text.is_empty()))
    }

    /// Whether nothing more is to come.
    pub fn is_done(&self) -> bool {
        match &self.stream {
            Stream::Chat(stream) => stream.is_done(),
            Stream::Responses(stream) => stream.is_done(),
            Stream::Anthropic(stream) => stream.is_done(),
        }
    }

    /// Ends the stream.
    pub fn finish(self) -> Result<Reply, ReplyError> {
        match self.stream {
            Stream::Chat(stream) => stream.finish(),
            Stream::Responses(stream) => stream.finish(),
            Stream::Anthropic(stream) => stream.finish(),
        }
        .ok_or(ReplyError::Cut)
    }

    /// Ends the stream wherever it is; `None` if nothing was said.
    ///
    /// Of an answer that was cut off there is the text so far, and whatever is complete: calls and thinking
    /// that were still being written are left out, so that it can be appended to a conversation.
    pub fn partial(self) -> Option<Reply> {
        let whole = match &self.stream {
            Stream::Chat(stream) => stream.is_whole(),
            Stream::Responses(stream) => stream.is_done(),
            Stream::Anthropic(stream) => stream.is_whole(),
        };
        if whole {
            return self.finish().ok();
        }
        let reply = match self.stream {
            Stream::Chat(stream) => stream.partial(),
            Stream::Responses(stream) => stream.partial()?,
            Stream::Anthropic(stream) => stream.partial()?,
        };
        Some(Reply { stop: Stop::Other("cut".to_owned()), ..reply }).filter(|it| !it.is_empty())
    }
}

/// Finds the error that an answer or event is, in whatever shape.
fn provider_error(view: View, raw: &str) -> Option<ReplyError> {
    if !raw.contains("error") {
        return None;
    }
    if view.kind() == Kind::Array {
        return provider_error(*view.elements().first()?, raw);
    }
    let choice = || view.get("choices")?.elements().first().copied();
    let flat = || (view.is("type", "error") || view.is("object", "error")).then_some(view);
    let error = view
        .get("error")
        .or_else(|| view.path(&["response", "error"]))
        .or_else(|| choice()?.get("error"))
        .or_else(flat)?;
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
