//! Entries of a ledger: what is in them, and how they are read again.

use longhand_archive::NewEntry;
use longhand_core::{Meaning, Message, Part};
use longhand_dialect::{Dialect, read};
use serde_json::Value;

use crate::source::source_ms;

/// How an entry's bytes are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A message of that wire format.
    Message(Dialect),
    /// A tool's name and a short account of what it did.
    Trace,
    /// The tokens and the cost of a call to a model.
    Call,
}

impl Form {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Form::Message(dialect) => dialect.as_str(),
            Form::Trace => "trace",
            Form::Call => "call",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        match name {
            "trace" => Some(Form::Trace),
            "call" => Some(Form::Call),
            _ => name.parse().ok().map(Form::Message),
        }
    }
}

/// An entry on its way into a ledger; `None` if there is no such form.
pub fn new_entry(form: &str, raw: String, opens_round: bool, at_ms: i64) -> Option<NewEntry> {
    Some(entry(Form::parse(form)?, raw, opens_round, at_ms))
}

pub(crate) fn entry(form: Form, raw: String, opens_round: bool, at_ms: i64) -> NewEntry {
    let meaning = match form {
        Form::Message(dialect) => meaning(&messages(dialect, &raw), &raw),
        Form::Trace | Form::Call => Meaning::of_content(&raw),
    };
    let text = texts(form, &raw).join("\n");
    let source_ms = match form {
        Form::Message(dialect) => source_ms(dialect, &raw),
        Form::Trace | Form::Call => None,
    };
    let form = form.as_str().to_owned();
    NewEntry { meaning, opens_round, form, raw, text, at_ms, source_ms }
}

/// An entry for a message that has been read already.
pub fn entry_of(dialect: Dialect, message: &Message, at_ms: i64) -> NewEntry {
    entry_with(dialect, message, Meaning::of(message), at_ms)
}

/// An entry for a message whose meaning is known already.
pub fn entry_with(dialect: Dialect, message: &Message, meaning: Meaning, at_ms: i64) -> NewEntry {
    let raw = raw_of(dialect, message);
    NewEntry {
        meaning,
        opens_round: message.is_user_turn(),
        form: dialect.as_str().to_owned(),
        text: texts_of_message(message).join("\n"),
        source_ms: source_ms(dialect, &raw),
        raw,
        at_ms,
    }
}

fn meaning(messages: &[Message], raw: &str) -> Meaning {
    match messages {
        [message] => Meaning::of(message),
        _ => Meaning::of_content(raw),
    }
}

/// A message as an element of its format: the one message of a request may be a bare string.
fn raw_of(dialect: Dialect, message: &Message) -> String {
    let raw = message.raw.raw();
    if raw.trim_start().starts_with('{') {
        return raw.to_owned();
    }
    let other = if dialect == Dialect::Chat { Dialect::Responses } else { Dialect::Chat };
    let list = longhand_dialect::write(&[(other, message)], dialect);
    list.trim_start_matches('[').trim_end_matches(']').to_owned()
}

/// Whether entries of this form can be read.
pub fn is_form(form: &str) -> bool {
    Form::parse(form).is_some()
}

/// What search sees of an entry, by its form.
pub fn searchable(form: &str, raw: &str) -> String {
    Form::parse(form).map(|form| texts(form, raw).join("\n")).unwrap_or_default()
}

/// The words of an entry if the user wrote them, without what clients put around them.
pub fn user_words(form: &str, raw: &str) -> Option<String> {
    let Form::Message(dialect) = Form::parse(form)? else { return None };
    let messages = messages(dialect, raw);
    let said = messages.iter().filter(|message| message.is_user_turn());
    said.flat_map(words_of).next()
}

/// The most characters of a session's opening.
const OPENING_CHARS_MAX: usize = 200;

/// The user's first words among messages, as lists show them; empty if there are none.
pub fn opening<'m>(messages: impl IntoIterator<Item = &'m Message>) -> String {
    let said = messages.into_iter().filter(|message| message.is_user_turn());
    said.flat_map(words_of).next().map(|words| clipped(&words)).unwrap_or_default()
}

/// The user's first words, as lists show them, if an entry has some.
pub fn opening_of(form: &str, raw: &str) -> Option<String> {
    user_words(form, raw).map(|words| clipped(&words))
}

fn clipped(words: &str) -> String {
    words.chars().take(OPENING_CHARS_MAX).collect()
}

/// What the user wrote in a message, part by part.
pub(crate) fn words_of(message: &Message) -> impl Iterator<Item = String> {
    let texts = message.parts.iter().filter_map(Part::text);
    texts.filter_map(|text| longhand_summary::user_words(&text.decode()))
}

/// All that can be read of a message or trace.
fn texts(form: Form, raw: &str) -> Vec<String> {
    match form {
        Form::Call => Vec::new(),
        Form::Trace => trace(raw).map_or_else(Vec::new, |(name, summary)| vec![name, summary]),
        Form::Message(dialect) => {
            messages(dialect, raw).iter().flat_map(texts_of_message).collect()
        }
    }
}

/// A tool's name and the account of what it did.
pub(crate) fn trace(raw: &str) -> Option<(String, String)> {
    let value: Value = serde_json::from_str(raw).ok()?;
    let field = |key: &str| Some(value.get(key)?.as_str()?.to_owned());
    Some((field("name")?, field("summary")?))
}

/// All that can be read of a message.
pub(crate) fn texts_of_message(message: &Message) -> Vec<String> {
    let mut out = Vec::new();
    for part in &message.parts {
        match part {
            Part::Call(call) => {
                out.push(format!("{} {}", call.name.decode(), call.arguments.decode()));
            }
            Part::Result(result) => {
                let texts = result.content.iter().filter_map(Part::text);
                out.extend(texts.map(|text| text.decode().into_owned()));
            }
            Part::Other(other) => out.push(other.raw.decode().into_owned()),
            part => out.extend(part.text().map(|text| text.decode().into_owned())),
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
