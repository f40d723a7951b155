//! A round: a user message and everything until the next one.

use longhand_archive::NewEntry;
use longhand_core::{Role, cut};
use longhand_dialect::{Dialect, Finding, read};
use serde_json::{Value, json};

use crate::SessionError;
use crate::entry::{Form, entry, entry_of};
use crate::redact::Redactor;

/// How much of a line that is not JSON an error shows.
const FOUND_CHARS_MAX: usize = 20;

/// A round to be recorded.
#[derive(Clone, Debug)]
pub struct Round {
    /// When it closed, in milliseconds since 1970 (UTC); never read from a clock here.
    pub at_ms: i64,
    pieces: Vec<RoundEntry>,
}

/// The tokens and the cost of a call to a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelCall {
    /// The model, with its endpoint.
    pub model: String,
    /// Tokens that it read, cached or not.
    pub input: u64,
    /// Those of them that came from a cache.
    pub cached_input: u64,
    /// Tokens that it wrote.
    pub output: u64,
    /// The price in millionths of a dollar, where it is known.
    pub cost_micros: Option<u64>,
}

impl ModelCall {
    fn json(&self) -> String {
        let Self { model, input, cached_input, output, cost_micros } = self;
        let raw = json!({
            "model": model, "input": input, "cached_input": cached_input, "output": output,
            "cost_micros": cost_micros,
        });
        raw.to_string()
    }
}

/// A ledger entry that is not recorded yet.
#[derive(Clone, Debug)]
struct RoundEntry {
    form: Form,
    raw: String,
}

impl Round {
    /// A round of plain words.
    pub fn new(user: &str, assistant: &str, at_ms: i64) -> Self {
        let piece = |role: &str, text: &str| RoundEntry {
            form: Form::Message(Dialect::Chat),
            raw: json!({"role": role, "content": text}).to_string(),
        };
        Self { at_ms, pieces: vec![piece("user", user), piece("assistant", assistant)] }
    }

    /// Adds an account of a tool: its name and a short summary of call and result.
    #[must_use]
    pub fn with_trace(mut self, name: &str, summary: &str) -> Self {
        let trace = RoundEntry {
            form: Form::Trace,
            raw: json!({"name": name, "summary": summary}).to_string(),
        };
        // A trace stands before the words that came of it.
        let at = self.pieces.len().saturating_sub(1);
        self.pieces.insert(at, trace);
        self
    }

    /// Adds the tokens and the cost of a call; they are kept with the round and never sent to a model.
    #[must_use]
    pub fn with_call(mut self, call: &ModelCall) -> Self {
        self.pieces.push(RoundEntry { form: Form::Call, raw: call.json() });
        self
    }

    /// Reads a round as one line of JSON: `{"user","assistant","ts"?,"tool_calls"?}` or `{"messages":[…]}`
    /// in any dialect.
    pub fn parse(line: &str, now_ms: i64) -> Result<Self, SessionError> {
        let wrong = |what: &str| SessionError::Round(what.to_owned());
        let value: Value =
            serde_json::from_str(line).map_err(|error| wrong(&not_json(line, &error)))?;
        let at_ms = value.get("ts").map_or(Ok(now_ms), timestamp).map_err(|what| wrong(&what))?;
        if value.get("messages").is_some() || value.get("input").is_some() {
            return Self::from_conversation(line.as_bytes().to_vec(), None, at_ms);
        }
        let text = |key: &str| match value.get(key) {
            Some(Value::String(text)) => Ok(text.as_str()),
            Some(_) => Err(wrong(&format!("`{key}` must be a string"))),
            None => Err(wrong(&format!(
                "a round needs `{key}` beside `{}`, or `messages`",
                if key == "user" { "assistant" } else { "user" }
            ))),
        };
        let mut round = Self::new(text("user")?, text("assistant")?, at_ms);
        for (index, trace) in
            value.get("tool_calls").and_then(Value::as_array).into_iter().flatten().enumerate()
        {
            let field = |key: &str| {
                trace
                    .get(key)
                    .and_then(Value::as_str)
                    .ok_or_else(|| wrong(&format!("tool_calls[{index}].{key} must be a string")))
            };
            round = round.with_trace(field("name")?, field("summary")?);
        }
        Ok(round)
    }

    /// Takes the messages of a conversation as one round, in `dialect` or in the one it is found to be in.
    pub fn from_conversation(
        bytes: Vec<u8>,
        dialect: Option<Dialect>,
        at_ms: i64,
    ) -> Result<Self, SessionError> {
        let conversation = read(bytes, dialect)?;
        if let Some(finding) = conversation.check().into_iter().find(Finding::is_fault) {
            return Err(SessionError::Round(finding.to_string()));
        }
        let form = Form::Message(conversation.dialect);
        let pieces: Vec<RoundEntry> = conversation
            .messages
            .iter()
            .filter(|message| message.role != Role::System)
            .map(|message| RoundEntry { form, raw: message.raw.raw().to_owned() })
            .collect();
        if pieces.is_empty() {
            return Err(SessionError::Round("a round needs at least one message".to_owned()));
        }
        Ok(Self { at_ms, pieces })
    }

    /// Splits a whole conversation into rounds: each begins with what the user says.
    pub fn split_conversation(bytes: Vec<u8>, at_ms: i64) -> Result<Vec<NewEntry>, SessionError> {
        let conversation = read(bytes, None)?;
        let path = conversation.path();
        let said = path.messages[path.lead..].iter();
        Ok(said.map(|message| entry_of(conversation.dialect, message, at_ms)).collect())
    }

    /// The round with marks in the place of secrets.
    #[must_use]
    pub fn redacted(&self, redactor: &Redactor) -> Self {
        let redacted = |piece: &RoundEntry| RoundEntry {
            form: piece.form,
            raw: redactor.redact(&piece.raw).into_owned(),
        };
        Self { at_ms: self.at_ms, pieces: self.pieces.iter().map(redacted).collect() }
    }

    /// The entries that the archive is to keep.
    pub fn entries(&self) -> Vec<NewEntry> {
        let pieces = self.pieces.iter().enumerate();
        let entry = |(at, piece): (usize, &RoundEntry)| {
            entry(piece.form, piece.raw.clone(), at == 0, self.at_ms)
        };
        pieces.map(entry).collect()
    }
}

/// Where a line stops being JSON, and what stands there instead.
fn not_json(line: &str, error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "the line ends before its JSON does".to_owned();
    }
    // The column counts bytes. A word such as `nothing` is wrong from its beginning, not from its second letter on.
    let sound = cut::head(line, error.column().saturating_sub(1));
    let start = sound.trim_end_matches(char::is_alphanumeric).len();
    let column = line[..start].chars().count() + 1;
    let found: String = line[start..].chars().take(FOUND_CHARS_MAX).collect();
    format!("column {column}: expected JSON, found {found:?}")
}

fn timestamp(value: &Value) -> Result<i64, String> {
    match value {
        Value::Number(number) => {
            number.as_i64().ok_or_else(|| "`ts` must be whole milliseconds".to_owned())
        }
        Value::String(text) => {
            crate::time::parse(text).ok_or_else(|| format!("`ts` is not a time: {text:?}"))
        }
        _ => Err("`ts` must be a time".to_owned()),
    }
}
