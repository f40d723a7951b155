//! A round: what a user said and all that came of it.

use longhand_archive::{Entry, NewEntry};
use longhand_core::{Message, Part, Role, Scale, Text, Tokens};
use longhand_dialect::{Dialect, Finding, read};
use serde_json::{Value, json};

use crate::said::Said;
use crate::{SessionError, note};

/// A round to be recorded.
#[derive(Clone, Debug)]
pub struct Round {
    /// When it closed, in milliseconds since 1970 (UTC); never read from a clock here.
    pub at_ms: i64,
    pieces: Vec<Piece>,
}

/// What a call of a model took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
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

impl Call {
    /// Reads a call back from an entry; `None` if the entry is something else.
    pub fn of(entry: &Entry) -> Option<Self> {
        let raw: Value = (entry.form == Form::Call.as_str())
            .then(|| serde_json::from_str(&entry.raw).ok())??;
        let number = |key: &str| raw[key].as_u64();
        Some(Self {
            model: raw["model"].as_str()?.to_owned(),
            input: number("input")?,
            cached_input: number("cached_input")?,
            output: number("output")?,
            cost_micros: number("cost_micros"),
        })
    }

    /// The entry that keeps it.
    pub fn entry(&self, at_ms: i64) -> NewEntry {
        let (form, raw) = (Form::Call.as_str().to_owned(), self.json());
        NewEntry { opens_round: false, form, raw, text: String::new(), at_ms }
    }

    fn json(&self) -> String {
        let Self { model, input, cached_input, output, cost_micros } = self;
        let raw = json!({
            "model": model, "input": input, "cached_input": cached_input, "output": output,
            "cost_micros": cost_micros,
        });
        raw.to_string()
    }
}

/// One ledger entry in the making.
#[derive(Clone, Debug)]
struct Piece {
    form: Form,
    raw: String,
}

/// How an entry's bytes are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A message of that wire format.
    Message(Dialect),
    /// A tool's name and a short account of what it did.
    Trace,
    /// What a call of a model took.
    Call,
    /// What a ledger says of itself.
    Note,
}

impl Form {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Form::Message(dialect) => dialect.as_str(),
            Form::Trace => "trace",
            Form::Call => "call",
            Form::Note => "note",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        match name {
            "trace" => Some(Form::Trace),
            "call" => Some(Form::Call),
            "note" => Some(Form::Note),
            _ => name.parse().ok().map(Form::Message),
        }
    }
}

impl Round {
    /// A round of plain words.
    pub fn new(user: &str, assistant: &str, at_ms: i64) -> Self {
        let piece = |role: &str, text: &str| Piece {
            form: Form::Message(Dialect::Chat),
            raw: json!({"role": role, "content": text}).to_string(),
        };
        Self { at_ms, pieces: vec![piece("user", user), piece("assistant", assistant)] }
    }

    /// Adds an account of a tool: its name and a short summary of call and result.
    #[must_use]
    pub fn with_trace(mut self, name: &str, summary: &str) -> Self {
        let trace =
            Piece { form: Form::Trace, raw: json!({"name": name, "summary": summary}).to_string() };
        // A trace stands before the words that came of it.
        let at = self.pieces.len().saturating_sub(1);
        self.pieces.insert(at, trace);
        self
    }

    /// Adds what a call of a model took; it is kept beside the round and no model ever sees it.
    #[must_use]
    pub fn with_call(mut self, call: &Call) -> Self {
        self.pieces.push(Piece { form: Form::Call, raw: call.json() });
        self
    }

    /// Reads a round as one line of JSON: `{"user","assistant","ts"?,"tool_calls"?}` or `{"messages":[…]}`
    /// in any dialect.
    pub fn parse(line: &str, now_ms: i64) -> Result<Self, SessionError> {
        let wrong = |what: &str| SessionError::Round(what.to_owned());
        let value: Value = serde_json::from_str(line).map_err(|error| wrong(&error.to_string()))?;
        let at_ms = value.get("ts").map_or(Ok(now_ms), timestamp).map_err(|what| wrong(&what))?;
        if value.get("messages").is_some() || value.get("input").is_some() {
            return Self::from_conversation(line.as_bytes().to_vec(), None, at_ms);
        }
        let text = |key: &str| match value.get(key) {
            Some(Value::String(text)) => Ok(text.as_str()),
            Some(_) => Err(wrong(&format!("`{key}` must be a string"))),
            None => Err(wrong(&format!("a round needs `{key}`, or `messages`"))),
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
        let pieces: Vec<Piece> = conversation
            .messages
            .iter()
            .filter(|message| message.role != Role::System)
            .map(|message| Piece { form, raw: message.raw.raw().to_owned() })
            .collect();
        if pieces.is_empty() {
            return Err(SessionError::Round("a round needs at least one message".to_owned()));
        }
        Ok(Self { at_ms, pieces })
    }

    /// Splits a whole conversation into rounds: each begins with what the user says.
    pub fn split_conversation(bytes: Vec<u8>, at_ms: i64) -> Result<Vec<NewEntry>, SessionError> {
        let conversation = read(bytes, None)?;
        let form = Form::Message(conversation.dialect);
        let mut entries: Vec<NewEntry> = Vec::new();
        for message in conversation.messages.iter().filter(|message| message.role != Role::System) {
            let raw = message.raw.raw().to_owned();
            entries.push(NewEntry {
                opens_round: message.is_user_turn() || entries.is_empty(),
                form: form.as_str().to_owned(),
                text: texts(form, &raw).join("\n"),
                raw,
                at_ms,
            });
        }
        Ok(entries)
    }

    /// The entries that the archive is to keep.
    pub fn entries(&self) -> Vec<NewEntry> {
        let mut entries: Vec<NewEntry> = self
            .pieces
            .iter()
            .map(|piece| NewEntry {
                opens_round: false,
                form: piece.form.as_str().to_owned(),
                text: texts(piece.form, &piece.raw).join("\n"),
                raw: piece.raw.clone(),
                at_ms: self.at_ms,
            })
            .collect();
        if let Some(first) = entries.first_mut() {
            first.opens_round = true;
        }
        entries
    }
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

/// Whether entries of this form can be read.
pub fn is_form(form: &str) -> bool {
    Form::parse(form).is_some()
}

/// What search sees of an entry, by its form.
pub fn searchable(form: &str, raw: &str) -> String {
    Form::parse(form).map(|form| texts(form, raw).join("\n")).unwrap_or_default()
}

/// All that can be read of an archived entry.
pub(crate) fn texts_of(entry: &Entry) -> Vec<String> {
    Form::parse(&entry.form).map(|form| texts(form, &entry.raw)).unwrap_or_default()
}

/// All that can be read of a message or trace.
fn texts(form: Form, raw: &str) -> Vec<String> {
    match form {
        Form::Call => return Vec::new(),
        Form::Note => return note::texts(raw),
        Form::Message(_) | Form::Trace => {}
    }
    let Form::Message(dialect) = form else {
        let value: Value = serde_json::from_str(raw).unwrap_or_default();
        return ["name", "summary"]
            .iter()
            .filter_map(|key| Some(value.get(key)?.as_str()?.to_owned()))
            .collect();
    };
    let mut out = Vec::new();
    for message in messages(dialect, raw) {
        for part in &message.parts {
            match part {
                Part::Text(text) | Part::FixedText(text) => out.push(text.decode().into_owned()),
                Part::Other(other) => out.push(other.raw.decode().into_owned()),
                Part::Call(call) => {
                    out.push(format!("{} {}", call.name.decode(), call.arguments.decode()));
                }
                Part::Result(result) => {
                    let texts = result.content.iter().filter_map(Part::text);
                    out.extend(texts.map(|text| text.decode().into_owned()));
                }
                Part::Media(media) => {
                    out.extend(media.transcript.iter().map(|text| text.decode().into_owned()));
                }
                Part::Thinking(_) | Part::Image(_) | Part::File(_) => {}
            }
        }
    }
    out
}

/// Reads the message of an entry again.
pub(crate) fn messages(dialect: Dialect, raw: &str) -> Vec<Message> {
    let text = if dialect.is_session_file() { raw.to_owned() } else { format!("[{raw}]") };
    read(text.into_bytes(), Some(dialect))
        .map(|conversation| conversation.messages)
        .unwrap_or_default()
}

/// A round as the window holds it.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) number: u64,
    pub(crate) entries: std::ops::Range<u64>,
    pub(crate) at_ms: i64,
    pub(crate) messages: Vec<(Dialect, Message)>,
    pub(crate) traces: Vec<(String, String)>,
    pub(crate) tokens: Tokens,
}

impl Kept {
    /// Puts rounds together from entries that are in order.
    pub(crate) fn from_entries(entries: &[Entry], scale: &Scale) -> Vec<Self> {
        let mut rounds: Vec<Self> = Vec::new();
        for entry in entries {
            let own = match rounds.last_mut() {
                Some(last) if last.number == entry.round => last,
                _ => {
                    rounds.push(Self {
                        number: entry.round,
                        entries: entry.seq..entry.seq,
                        at_ms: entry.at_ms,
                        messages: Vec::new(),
                        traces: Vec::new(),
                        tokens: Tokens::ZERO,
                    });
                    let Some(last) = rounds.last_mut() else { continue };
                    last
                }
            };
            own.entries.end = entry.seq + 1;
            own.at_ms = entry.at_ms;
            match Form::parse(&entry.form) {
                Some(Form::Message(dialect)) => {
                    for message in messages(dialect, &entry.raw) {
                        own.tokens += scale.message(&message, Tokens::MAX);
                        own.messages.push((dialect, message));
                    }
                }
                Some(Form::Trace) => {
                    let mut fields = texts(Form::Trace, &entry.raw).into_iter();
                    if let (Some(name), Some(summary)) = (fields.next(), fields.next()) {
                        own.traces.push((name, summary));
                    }
                }
                Some(Form::Call | Form::Note) => {}
                None => own.messages.push((
                    Dialect::Chat,
                    Message {
                        role: Role::User,
                        name: None,
                        parts: Vec::new(),
                        raw: Text::from(entry.raw.as_str()),
                    },
                )),
            }
        }
        rounds
    }

    /// What was said in it.
    pub(crate) fn said(&self) -> Said {
        let messages: Vec<&Message> = self.messages.iter().map(|(_, message)| message).collect();
        let mut said = Said::of(self.number, &messages);
        said.tools.splice(..0, self.traces.iter().cloned());
        said
    }
}
