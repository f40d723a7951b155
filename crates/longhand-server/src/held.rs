//! History that a provider holds, by the id of its last answer.
//!
//! A request that goes on from such an answer brings only what is new. What it goes on from is in our
//! archive, so that it can be counted, and sent whole and shortened once it no longer fits.

use std::borrow::Cow;

use longhand::{Archive, Owner, SessionId};
use longhand_archive::Entry;
use longhand_core::Seq;
use longhand_core::json::{Cursor, Kind};
use longhand_dialect::{Dialect, read, write};

/// Where the history of an answer ends, and how the provider has it.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) session: SessionId,
    head: Seq,
    /// The newest batch with which the provider has it; 0 if it has it as it is.
    pub(crate) batch: u64,
}

impl Held {
    /// Finds an answer of an owner.
    pub(crate) fn find(archive: &dyn Archive, owner: Owner, id: &str) -> Option<Self> {
        let (session, request) = archive.answer(owner, id).ok()??;
        Some(Self { session, head: request.head?, batch: request.batch })
    }

    /// The history as items of a request, oldest first.
    pub(crate) fn items(&self, archive: &dyn Archive) -> Option<Vec<String>> {
        let entries = archive.path(self.session, Some(self.head), 0..self.head.0 + 1).ok()?;
        // Nothing is read of a session that is unknown.
        entries.last()?;
        Some(entries.iter().filter_map(item).collect())
    }
}

/// A message as an item.
fn item(entry: &Entry) -> Option<String> {
    let dialect: Dialect = entry.form.parse().ok()?;
    if dialect == Dialect::Responses {
        return Some(entry.raw.clone());
    }
    let messages = read(format!("[{}]", entry.raw).into_bytes(), Some(dialect)).ok()?.messages;
    let sourced: Vec<_> = messages.iter().map(|message| (dialect, message)).collect();
    let list = write(&sourced, Dialect::Responses);
    Some(list.trim_start_matches('[').trim_end_matches(']').to_owned())
}

/// The request with all that came before in it, instead of the id of where that ends.
pub(crate) fn whole(request: &str, past: &[String]) -> Option<String> {
    let node = Cursor::new(request).node().ok()?;
    let (input, id) = (node.get(request, "input")?, node.get(request, "previous_response_id")?);
    let own = &request[input.span()];
    let new = match input.kind {
        Kind::Array => Cow::Borrowed(own.get(1..own.len() - 1)?.trim()),
        Kind::String => Cow::Owned(format!(r#"{{"role":"user","content":{own}}}"#)),
        _ => return None,
    };
    let items = past.iter().map(String::as_str).chain(Some(&*new)).filter(|item| !item.is_empty());
    let list = format!("[{}]", items.collect::<Vec<_>>().join(","));
    let mut splices = [(input.span(), list.as_str()), (id.span(), "null")];
    splices.sort_by_key(|(span, _)| span.start);
    let mut out = String::with_capacity(request.len() + list.len());
    let mut at = 0;
    for (span, text) in splices {
        out.push_str(&request[at..span.start]);
        out.push_str(text);
        at = span.end;
    }
    out.push_str(&request[at..]);
    Some(out)
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
            assert_eq!(whole(request, &past).as_deref(), Some(expected));
        }
        assert_eq!(whole(r#"{"input":5,"previous_response_id":"r1"}"#, &past), None);
    }
}
