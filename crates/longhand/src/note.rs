//! What a ledger says of itself, between messages.

use longhand_archive::{Entry, NewEntry};
use serde_json::{Value, json};

use crate::entry::{Form, entry};

/// What a ledger says of itself; it is kept beside the messages and no model ever sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// The session goes on from the first `entries` entries of another one, and shares them.
    Fork {
        /// The other session.
        of: String,
        /// How many of its entries are shared.
        entries: u64,
    },
    /// The session begins with a client's own summary of another one.
    Continues {
        /// The other session.
        of: String,
    },
    /// What the model is sent besides the messages that follow: system prompt and tools.
    Request {
        /// The model.
        model: String,
        /// Each piece as it was received.
        with: Vec<String>,
    },
    /// An answer that broke off.
    Cut {
        /// What came of it.
        text: String,
    },
    /// A model had something of the session brought back.
    Recalled {
        /// What it named, if it did.
        handle: Option<String>,
        /// What it searched for, if it did.
        query: Option<String>,
        /// Whether there was such a thing.
        found: bool,
    },
}

impl Note {
    /// The entry that keeps it.
    pub fn entry(&self, at_ms: i64) -> NewEntry {
        let raw = match self {
            Note::Fork { of, entries } => json!({"note": "fork", "of": of, "entries": entries}),
            Note::Continues { of } => json!({"note": "continues", "of": of}),
            Note::Request { model, with } => {
                json!({"note": "request", "model": model, "with": with})
            }
            Note::Cut { text } => json!({"note": "cut", "text": text}),
            Note::Recalled { handle, query, found } => {
                json!({"note": "recalled", "handle": handle, "query": query, "found": found})
            }
        };
        entry(Form::Note, raw.to_string(), false, at_ms)
    }

    /// Reads a note back from an entry; `None` if the entry is something else.
    pub fn of(entry: &Entry) -> Option<Self> {
        if entry.form != Form::Note.as_str() {
            return None;
        }
        let raw: Value = serde_json::from_str(&entry.raw).ok()?;
        let text = |key: &str| raw[key].as_str().map(str::to_owned);
        Some(match raw["note"].as_str()? {
            "fork" => Note::Fork { of: text("of")?, entries: raw["entries"].as_u64()? },
            "continues" => Note::Continues { of: text("of")? },
            "request" => Note::Request {
                model: text("model")?,
                with: raw["with"]
                    .as_array()?
                    .iter()
                    .filter_map(|piece| piece.as_str().map(str::to_owned))
                    .collect(),
            },
            "cut" => Note::Cut { text: text("text")? },
            "recalled" => Note::Recalled {
                handle: text("handle"),
                query: text("query"),
                found: raw["found"].as_bool()?,
            },
            _ => return None,
        })
    }
}

/// What can be read of a note.
pub(crate) fn texts(raw: &str) -> Vec<String> {
    let note: Value = serde_json::from_str(raw).unwrap_or_default();
    let with = note["with"].as_array().into_iter().flatten();
    let pieces = with.chain(note.get("text")).filter_map(Value::as_str);
    pieces.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_come_back_and_are_found() {
        for (note, text) in [
            (Note::Fork { of: "a".into(), entries: 12 }, ""),
            (Note::Continues { of: "a".into() }, ""),
            (Note::Request { model: "m".into(), with: vec!["Be brief.".into()] }, "Be brief."),
            (Note::Cut { text: "half of".into() }, "half of"),
            (Note::Recalled { handle: None, query: Some("port".into()), found: true }, ""),
        ] {
            let NewEntry { form, raw, text: found, at_ms, .. } = note.entry(7);
            assert_eq!(found, text);
            let (seq, link) = (longhand_core::Seq(0), longhand_core::Link(0));
            let entry = Entry { seq, parent: None, link, round: 0, form, raw, at_ms };
            assert_eq!(Note::of(&entry), Some(note));
        }
    }
}
