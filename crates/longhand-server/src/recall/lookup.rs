//! What a call brings back.

use longhand::recall::{entry, hits, open, quoted, readable_messages};
use longhand::{Archive, Owner, SessionError, SessionId, Tokens};
use longhand_archive::{Entry, Scope as Reach};
use longhand_core::{Handle, Original, Scale, Seq};
use longhand_dialect::Dialect;
use serde_json::Value;

use crate::metrics::{Recalled, Sought};

/// What makes up a conversation, the newest first.
pub(super) type Scope = Vec<(SessionId, Reach)>;

/// What a call brought back.
pub(super) struct Found {
    pub(super) text: String,
    pub(super) sought: Sought,
    pub(super) outcome: Recalled,
}

/// How many sessions a conversation may have gone through.
const SESSIONS_MAX: usize = 64;

/// The most hits of a search.
const HITS_MAX: usize = 10;

/// A path of an owner's session, and what it goes on from: other sessions of the owner, or the rest of its
/// own if the client has dropped how it began.
pub(super) fn scope(
    archive: &dyn Archive,
    owner: Owner,
    session: SessionId,
    path: &[Seq],
) -> Scope {
    let info = |id| archive.session(id).ok().flatten().filter(|info| info.owner == owner);
    let mut scope = match (path.first(), path.last()) {
        (Some(Seq(0)), head) => vec![(session, Reach::Path { session, head: head.copied() })],
        _ => vec![(session, Reach::Session(session))],
    };
    while let Some((last, _)) = scope.last()
        && scope.len() < SESSIONS_MAX
    {
        let Some(of) = info(*last).and_then(|info| info.continues) else { break };
        if info(of).is_none() || scope.iter().any(|(known, _)| *known == of) {
            break;
        }
        scope.push((of, Reach::Session(of)));
    }
    scope
}

/// Answers a call from the sessions in its scope, in at most so many tokens.
pub(super) fn look_up(
    archive: &dyn Archive,
    scope: &Scope,
    dialect: Dialect,
    arguments: &str,
    scale: &Scale,
    limit: Tokens,
) -> Found {
    let asked: Value = serde_json::from_str(arguments).unwrap_or_default();
    let field = |key: &str| {
        let own = asked[key].as_str().map(str::trim).filter(|own| !own.is_empty());
        own.map(str::to_owned)
    };
    let (handle, query) = (field("handle"), field("query"));
    let sought = if handle.is_some() { Sought::Handle } else { Sought::Query };
    let looked = match (&handle, &query) {
        (Some(handle), query) => named(archive, scope, dialect, handle).map(|own| {
            own.map(|(title, own)| quoted(&title, &own, query.as_deref(), scale, limit))
        }),
        (None, Some(query)) => searched(archive, scope, query)
            .map(|found| found.map(|found| hits(query, &found, scale, limit))),
        (None, None) => Ok(None),
    };
    let (outcome, text) = match looked {
        Ok(Some(text)) => (Recalled::Found, text),
        Ok(None) => (Recalled::Unknown, nothing(handle.as_deref(), query.as_deref())),
        Err(_) => (Recalled::Failed, FAILED.to_owned()),
    };
    Found { text, sought, outcome }
}

pub(super) const FAILED: &str = "The archive could not be read just now. That does not mean that there is nothing: \
go on without it, or try once more later.";

/// Says that there is nothing, and what else can be done.
fn nothing(handle: Option<&str>, query: Option<&str>) -> String {
    match (handle, query) {
        (Some(_), _) => "Nothing in this conversation has that handle. Handles stand in texts such as \
            [longhand stub h:...]; copy one exactly, or give a query instead. The same handle will not work \
            later either."
            .to_owned(),
        (None, Some(_)) => "Nothing that was said in this conversation has these words. Try fewer or other \
            words, or parts of words."
            .to_owned(),
        (None, None) => "Give a handle, a query, or both.".to_owned(),
    }
}

/// What a handle or an entry stands for, with a title.
fn named(
    archive: &dyn Archive,
    scope: &Scope,
    dialect: Dialect,
    name: &str,
) -> Result<Option<(String, String)>, SessionError> {
    if let Some((session, seq)) = place(scope, name) {
        let entries = archive.entries(session, seq..seq.saturating_add(1))?;
        let said = entries.iter().find(|entry| is_said(entry)).map(entry);
        return Ok(said.map(|said| (format!("entry {name}"), said)));
    }
    let Some(handle) = handle(name) else { return Ok(None) };
    for (session, _) in scope {
        let Some(found) = open(archive, &Reach::Session(*session), handle)? else { continue };
        // Other sessions of the archive are not part of this conversation.
        if found.session != *session {
            continue;
        }
        let own = match found.original {
            Original::Text(text) => text,
            Original::Json(json) => readable_messages(dialect, &json),
        };
        return Ok(Some((handle.to_string(), own)));
    }
    Ok(None)
}

/// Reads a handle, even among other words.
fn handle(name: &str) -> Option<Handle> {
    let within =
        || name.match_indices("h:").find_map(|(at, _)| Handle::parse(name.get(at..at + 14)?));
    Handle::parse(name).or_else(within)
}

/// Reads where an entry is: `e:12` in the session itself, `e:12/1` in the one it goes on from.
fn place(scope: &Scope, name: &str) -> Option<(SessionId, u64)> {
    let name = name.trim().strip_prefix("e:")?;
    let (seq, back) = name.split_once('/').unwrap_or((name, "0"));
    let (session, _) = scope.get(back.parse::<usize>().ok()?)?;
    Some((*session, seq.parse().ok()?))
}

/// The entries that have the words of a query, each as where it is and a few words of it.
fn searched(
    archive: &dyn Archive,
    scope: &Scope,
    query: &str,
) -> Result<Option<Vec<(String, String)>>, SessionError> {
    let mut hits = Vec::new();
    for (back, (session, reach)) in scope.iter().enumerate() {
        for hit in archive.search(reach, query, HITS_MAX * 4)? {
            let seq = hit.seq.0;
            if hits.len() >= HITS_MAX {
                continue;
            }
            let own = archive.entries(*session, seq..seq + 1)?;
            if own.first().is_some_and(is_said) {
                let back = if back == 0 { String::new() } else { format!("/{back}") };
                hits.push((format!("e:{seq}{back}"), hit.snippet));
            }
        }
    }
    Ok((!hits.is_empty()).then_some(hits))
}

/// Whether an entry is a message and not what the ledger says of itself.
fn is_said(entry: &Entry) -> bool {
    entry.form.parse::<Dialect>().is_ok()
}

#[cfg(test)]
mod tests {
    use longhand::{MemoryArchive, new_entry};
    use longhand_archive::{Addition, After, NewBatch, NewEntry, NewSession};
    use longhand_core::Batch;
    use longhand_meter::{ImageRule, MeterSpec, Provider};

    use super::*;

    fn said(text: &str) -> NewEntry {
        let raw = format!(r#"{{"role":"user","content":"{text}"}}"#);
        new_entry("chat", raw, true, 0).unwrap()
    }

    /// A session that has its first entry under a handle.
    fn session(
        archive: &dyn Archive,
        name: &str,
        of: Option<SessionId>,
        said: &[NewEntry],
    ) -> SessionId {
        let id = SessionId::named(Owner::LOCAL, name);
        let new = NewSession { name: name.to_owned(), continues: of, ..NewSession::default() };
        let text = said[0].text.clone();
        let variants = vec![(Handle::of([text.as_str()]), Original::Text(text))];
        let batch = Batch { head: Seq(0), variants, ..Batch::default() };
        let addition = Addition {
            session: id,
            begin: Some(new),
            after: After::Entry(None),
            entries: said.to_vec(),
            batch: Some(NewBatch { batch, ..NewBatch::default() }),
            ..Addition::default()
        };
        archive.append_all(&[addition]).unwrap().remove(0).unwrap();
        id
    }

    #[test]
    fn a_conversation_has_what_it_goes_on_from_and_no_more() {
        let archive = MemoryArchive::default();
        let old = session(&archive, "old", None, &[said("ancient port 1")]);
        let own = session(&archive, "own", Some(old), &[said("port 2"), said("port 3")]);
        archive.append(own, After::Entry(Some(Seq(0))), &[said("port 4")]).unwrap();
        session(&archive, "other", None, &[said("port 5")]);
        let path = Reach::Path { session: own, head: Some(Seq(2)) };
        let stranger = Owner::of("another");
        assert_eq!(super::scope(&archive, stranger, own, &[Seq(0), Seq(2)]), [(own, path)]);
        let scope = scope(&archive, Owner::LOCAL, own, &[Seq(0), Seq(2)]);
        assert_eq!(scope, [(own, path), (old, Reach::Session(old))]);
        let images = ImageRule::for_model(Provider::OpenAi, None);
        let meter = MeterSpec::for_model("").open(images).unwrap();
        let handle = |of: &str| Handle::of([of]).to_string();
        for (arguments, expected) in [
            (r#"{"query":"port"}"#.to_owned(), &["e:2 > port 4", "e:0 > port 2", "e:0/1 >"][..]),
            (r#"{"handle":"e:0"}"#.to_owned(), &["> user: port 2"]),
            (r#"{"handle":"e:7"}"#.to_owned(), &["Nothing in"]),
            (r#"{"handle":"e:0/9"}"#.to_owned(), &["Nothing in"]),
            (format!(r#"{{"handle":"{}"}}"#, handle("port 2")), &["> port 2"]),
            (
                format!(r#"{{"handle":"[longhand stub {}: x]"}}"#, handle("ancient port 1")),
                &["> ancient port 1"],
            ),
            (format!(r#"{{"handle":"{}"}}"#, handle("port 5")), &["Nothing in"]),
            ("no json".to_owned(), &["Give a handle"]),
        ] {
            let scale = Scale::new(&*meter);
            let found = look_up(&archive, &scope, Dialect::Chat, &arguments, &scale, Tokens(1_000));
            for expected in expected {
                assert!(found.text.contains(expected), "{arguments}: {}", found.text);
            }
            for absent in ["port 3", "port 5"] {
                assert!(!found.text.contains(absent), "{arguments}: {}", found.text);
            }
        }
    }
}
