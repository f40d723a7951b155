//! Puts the history that a provider stores into a Responses request that continues it.

use std::borrow::Cow;

use longhand_core::json::JsonKind;

use crate::edits::Edits;
use crate::view::View;
use crate::{Dialect, read, write};

/// A message as items of Responses, with commas between them; `None` if it cannot be read.
pub fn items_of(dialect: Dialect, message: &str) -> Option<String> {
    if dialect == Dialect::Responses {
        return Some(message.to_owned());
    }
    let messages = read(format!("[{message}]").into_bytes(), Some(dialect)).ok()?.messages;
    let sourced: Vec<_> = messages.iter().map(|message| (dialect, message)).collect();
    let list = write(&sourced, Dialect::Responses);
    Some(list.trim_start_matches('[').trim_end_matches(']').to_owned())
}

/// The request with all that came before in it, instead of the id of where that ends.
///
/// ```
/// let request = r#"{"previous_response_id":"r1","input":[{"b":2}]}"#;
/// let whole = longhand_dialect::with_history(request, &[r#"{"a":1}"#.to_owned()]).unwrap();
/// assert_eq!(whole, r#"{"previous_response_id":null,"input":[{"a":1},{"b":2}]}"#);
/// ```
pub fn with_history(request: &str, past: &[String]) -> Option<String> {
    let view = View::parse(request)?;
    let (input, id) = (view.get("input")?, view.get("previous_response_id")?);
    let raw = input.raw();
    let new = match input.kind() {
        JsonKind::Array => Cow::Borrowed(raw.get(1..raw.len() - 1)?.trim()),
        JsonKind::String => Cow::Owned(format!(r#"{{"role":"user","content":{raw}}}"#)),
        _ => return None,
    };
    let items = past.iter().map(String::as_str).chain(Some(&*new)).filter(|item| !item.is_empty());
    let mut edits = Edits::of(view);
    edits.replace(input, format!("[{}]", items.collect::<Vec<_>>().join(",")));
    edits.replace(id, "null");
    edits.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_past_is_put_before_what_is_new() {
        let past = [r#"{"role":"user","content":"a"}"#.to_owned(), r#"{"b":1}"#.to_owned()];
        for (request, expected) in [
            (
                r#"{"previous_response_id":"r1", "input": "c", "x":1.0}"#,
                r#"{"previous_response_id":null, "input": [{"role":"user","content":"a"},{"b":1},{"role":"user","content":"c"}], "x":1.0}"#,
            ),
            (
                r#"{"input":[ {"c":2} ],"previous_response_id":"r1"}"#,
                r#"{"input":[{"role":"user","content":"a"},{"b":1},{"c":2}],"previous_response_id":null}"#,
            ),
            (
                r#"{"input":[],"previous_response_id":"r1"}"#,
                r#"{"input":[{"role":"user","content":"a"},{"b":1}],"previous_response_id":null}"#,
            ),
        ] {
            assert_eq!(with_history(request, &past).as_deref(), Some(expected));
        }
        assert_eq!(with_history(r#"{"input":5,"previous_response_id":"r1"}"#, &past), None);
    }
}
