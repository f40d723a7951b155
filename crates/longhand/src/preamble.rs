//! What a request has besides its messages, as the archive keeps it.

use longhand_core::{Scale, Tokens};
use serde_json::{Value, json};

/// Writes the system prompt and the tools of a request to a model, piece by piece.
pub fn write<'a>(model: &str, pieces: impl Iterator<Item = &'a str>) -> String {
    json!({"model": model, "with": pieces.collect::<Vec<_>>()}).to_string()
}

/// Counts the tokens of what [`write()`] wrote; `None` if it is something else.
pub fn tokens(written: &str, scale: &Scale) -> Option<Tokens> {
    let content: Value = serde_json::from_str(written).ok()?;
    let pieces = content["with"].as_array()?;
    Some(pieces.iter().filter_map(Value::as_str).map(|piece| scale.text(piece)).sum())
}
