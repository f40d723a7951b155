//! History that a provider holds, by the id of its last answer.
//!
//! A request that goes on from such an answer brings only what is new. What it goes on from is in our
//! archive, so that it can be counted, and sent whole and shortened once it no longer fits.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use longhand::{Archive, Note, Owner};
use longhand_archive::{Entry, Reference, Scope};
use longhand_core::json::{Cursor, Kind};
use longhand_core::{Handle, Seq};
use longhand_dialect::{Dialect, read, write};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use crate::meaning::Link;
use crate::recall::Behind;
use crate::recorder::id_of;
use crate::sticky::Sticky;

/// Where the history of an answer ends, and the edits with which the provider has it.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) session: String,
    /// How many entries of the session are part of it.
    pub(crate) entries: u64,
    pub(crate) edits: Option<Arc<Sticky>>,
    /// What the provider has of the answer and the client has not.
    pub(crate) behind: Behind,
}

/// What is held of all answers.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    held: Mutex<FxHashMap<Link, Held>>,
}

/// A full memory is emptied: all of it is in the archive, too.
const HELD_MAX: usize = 100_000;

/// How many forks a history may have come through.
const FORKS_MAX: usize = 10_000;

impl Holdings {
    /// Remembers an answer of an owner; gives what the archive is to keep for its session.
    pub(crate) fn hold(&self, owner: Link, id: &str, held: Held) -> (Handle, String) {
        let key = owner.named(id);
        let edits = held.edits.as_ref().map(|edits| edits.json());
        let mut json = json!({
            "key": key.name(), "session": held.session, "entries": held.entries, "edits": edits,
        });
        if let Some(behind) = held.behind.json() {
            json["behind"] = behind;
        }
        let mut all = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= HELD_MAX {
            all.clear();
        }
        all.insert(key, held);
        (handle(key), json.to_string())
    }

    /// Finds an answer of an owner.
    pub(crate) fn find(&self, archive: &dyn Archive, owner: Link, id: &str) -> Option<Held> {
        let key = owner.named(id);
        let known = self.held.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        known.or_else(|| {
            let kept = archive.reference(&Scope::Owner(Owner::LOCAL), handle(key)).ok()??;
            let Reference::Kept { text, .. } = kept else { return None };
            let held: Value = serde_json::from_str(&text).ok()?;
            // A handle has few bits, and what a client says is kept under handles, too.
            if held["key"].as_str() != Some(&key.name()) {
                return None;
            }
            Some(Held {
                session: held["session"].as_str()?.to_owned(),
                entries: held["entries"].as_u64()?,
                edits: Sticky::parse(&held["edits"]).map(Arc::new),
                behind: Behind::parse(&held["behind"]),
            })
        })
    }
}

fn handle(key: Link) -> Handle {
    Handle::of(["longhand answer ", &key.name()])
}

impl Held {
    /// The history as items of a request, oldest first.
    pub(crate) fn items(&self, archive: &dyn Archive) -> Option<Vec<String>> {
        let (mut session, mut end) = (self.session.clone(), self.entries);
        let mut items: Vec<String> = Vec::new();
        for _ in 0..FORKS_MAX {
            let last = Seq(end.checked_sub(1)?);
            let entries = archive.path(id_of(&session), Some(last), 0..end).ok()?;
            // Nothing is read of a session that is unknown.
            entries.last()?;
            let mut own: Vec<String> = entries.iter().filter_map(item).collect();
            own.append(&mut items);
            items = own;
            let Some(Note::Fork { of, entries }) = entries.first().and_then(Note::of) else {
                return Some(items);
            };
            (session, end) = (of, entries);
        }
        None
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
