//! Brings back what a model asks for from its own conversation.

use longhand_archive::{Archive, Entry, Owner, Scope, SearchFilter, SessionId, ask, wait};
use longhand_core::{Handle, Original, Scale, Seq, Tokens};
use longhand_dialect::Dialect;
use serde_json::Value;

use crate::SessionError;
use crate::quote::{entry, hits, messages, quoted};
use crate::recall::open;

/// A conversation with all the sessions that it continues.
pub struct Past<'a> {
    archive: &'a dyn Archive,
    /// The newest first.
    sessions: Vec<(SessionId, Scope)>,
}

/// The answer to a recall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecallAnswer {
    /// The text for the model: quotes, or why there are none.
    pub text: String,
    /// How it was asked for.
    pub sought: RecallKind,
    /// Whether it was found.
    pub outcome: RecallOutcome,
}

/// What a recall was asked by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecallKind {
    /// A handle.
    Handle,
    /// Words to search for.
    Query,
}

/// Whether a recall found something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecallOutcome {
    /// Something was found.
    Found,
    /// The conversation does not have it.
    Unknown,
    /// The archive could not be read.
    Failed,
}

/// The most sessions that are followed back.
const SESSIONS_MAX: usize = 64;

/// The most hits of a search.
const HITS_MAX: usize = 10;

impl<'a> Past<'a> {
    /// A path of an owner's session and what it continues: other sessions of the owner, or the rest of the same session
    /// if the client has dropped its beginning.
    pub fn of(archive: &'a dyn Archive, owner: Owner, session: SessionId, path: &[Seq]) -> Self {
        let info = |id| archive.session(id).ok().flatten().filter(|info| info.owner == owner);
        let mut sessions = match (path.first(), path.last()) {
            (Some(Seq(0)), head) => vec![(session, Scope::Path { session, head: head.copied() })],
            _ => vec![(session, Scope::Session(session))],
        };
        while let Some((last, _)) = sessions.last()
            && sessions.len() < SESSIONS_MAX
        {
            let Some(of) = info(*last).and_then(|info| info.continues) else { break };
            if info(of).is_none() || sessions.iter().any(|(known, _)| *known == of) {
                break;
            }
            sessions.push((of, Scope::Session(of)));
        }
        Self { archive, sessions }
    }

    /// Brings back what the arguments of a call ask for, a JSON object with a `handle`, a `query` or both,
    /// in at most so many tokens.
    pub fn look_up(
        &self,
        dialect: Dialect,
        arguments: &str,
        scale: &Scale,
        limit: Tokens,
    ) -> RecallAnswer {
        let asked: Value = serde_json::from_str(arguments).unwrap_or_default();
        let field = |key: &str| {
            let text = asked[key].as_str().map(str::trim).filter(|text| !text.is_empty());
            text.map(str::to_owned)
        };
        let (handle, query) = (field("handle"), field("query"));
        let sought = if handle.is_some() { RecallKind::Handle } else { RecallKind::Query };
        let looked = match (&handle, &query) {
            (Some(handle), query) => self.named(dialect, handle).map(|named| {
                named.map(|(title, text)| quoted(&title, &text, query.as_deref(), scale, limit))
            }),
            (None, Some(query)) => self
                .searched(query)
                .map(|found| found.map(|found| hits(query, &found, scale, limit))),
            (None, None) => Ok(None),
        };
        let (outcome, text) = match looked {
            Ok(Some(text)) => (RecallOutcome::Found, text),
            Ok(None) => (RecallOutcome::Unknown, nothing(handle.as_deref(), query.as_deref())),
            Err(_) => (RecallOutcome::Failed, UNREADABLE.to_owned()),
        };
        RecallAnswer { text, sought, outcome }
    }

    /// What a handle or an entry stands for, with a title.
    fn named(
        &self,
        dialect: Dialect,
        name: &str,
    ) -> Result<Option<(String, String)>, SessionError> {
        if let Some((session, seq)) = self.place(name) {
            let entries = self.archive.entries(session, seq..seq.saturating_add(1))?;
            let said = entries.iter().find(|entry| is_said(entry)).map(entry);
            return Ok(said.map(|said| (format!("entry {name}"), said)));
        }
        let Some(handle) = handle(name) else { return Ok(None) };
        for (session, _) in &self.sessions {
            let found = open(self.archive, &Scope::Session(*session), handle)?;
            // Other sessions of the archive are not part of this conversation.
            let Some(found) = found.filter(|found| found.session == *session) else { continue };
            let text = match found.original {
                Original::Text(text) => text,
                Original::Json(json) => messages(dialect, &json),
            };
            return Ok(Some((handle.to_string(), text)));
        }
        Ok(None)
    }

    /// Reads where an entry is: `e:12` in the session itself, `e:12/1` in the one it continues.
    fn place(&self, name: &str) -> Option<(SessionId, u64)> {
        let name = name.trim().strip_prefix("e:")?;
        let (seq, back) = name.split_once('/').unwrap_or((name, "0"));
        let (session, _) = self.sessions.get(back.parse::<usize>().ok()?)?;
        Some((*session, seq.parse().ok()?))
    }

    /// The entries that fit a query best, each as where it is and a few words of it.
    fn searched(&self, query: &str) -> Result<Option<Vec<(String, String)>>, SessionError> {
        let scopes: Vec<Scope> = self.sessions.iter().map(|(_, scope)| *scope).collect();
        let filter = SearchFilter::default();
        let is_message = |_: SessionId, entry: &Entry| is_said(entry);
        let found = ask::ranked(self.archive, &scopes, query, filter, HITS_MAX, &is_message);
        let hits = wait(found)?.hits.into_iter().filter_map(|hit| {
            let back = self.sessions.iter().position(|(session, _)| *session == hit.session)?;
            let back = if back == 0 { String::new() } else { format!("/{back}") };
            Some((format!("e:{}{back}", hit.entry.seq.0), hit.snippet))
        });
        let hits: Vec<(String, String)> = hits.collect();
        Ok((!hits.is_empty()).then_some(hits))
    }
}

/// What the model is told if the archive cannot be read.
pub const UNREADABLE: &str = "The archive could not be read just now. That does not mean that there is nothing: \
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

/// Reads a handle, even among other words.
fn handle(name: &str) -> Option<Handle> {
    let within =
        || name.match_indices("h:").find_map(|(at, _)| Handle::parse(name.get(at..at + 14)?));
    Handle::parse(name).or_else(within)
}

/// Whether an entry is a message and not what the ledger says of itself.
fn is_said(entry: &Entry) -> bool {
    entry.form.parse::<Dialect>().is_ok()
}

#[cfg(test)]
mod tests {
    use longhand_archive::{After, MemoryArchive, NewBatch, NewEntry, NewSession};
    use longhand_core::Batch;
    use longhand_meter::{ImageProvider, ImageRule, MeterSpec};

    use super::*;
    use crate::driver::new_entry;

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
        archive.begin(id, &new).unwrap();
        archive.append(id, After::Entry(None), said).unwrap();
        archive.commit(id, &NewBatch { batch, ..NewBatch::default() }).unwrap();
        id
    }

    #[test]
    fn a_conversation_has_what_it_goes_on_from_and_no_more() {
        let archive = MemoryArchive::default();
        let old = session(&archive, "old", None, &[said("ancient port 1")]);
        let newer = session(&archive, "own", Some(old), &[said("port 2"), said("port 3")]);
        archive.append(newer, After::Entry(Some(Seq(0))), &[said("port 4")]).unwrap();
        session(&archive, "other", None, &[said("port 5")]);
        let path = Scope::Path { session: newer, head: Some(Seq(2)) };
        let stranger = Owner::of("another");
        let past = |owner| Past::of(&archive, owner, newer, &[Seq(0), Seq(2)]);
        assert_eq!(past(stranger).sessions, [(newer, path)]);
        let past = past(Owner::LOCAL);
        assert_eq!(past.sessions, [(newer, path), (old, Scope::Session(old))]);
        let images = ImageRule::for_model(ImageProvider::OpenAi, None);
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
            let found = past.look_up(Dialect::Chat, &arguments, &scale, Tokens(1_000));
            for expected in expected {
                assert!(found.text.contains(expected), "{arguments}: {}", found.text);
            }
            for absent in ["port 3", "port 5"] {
                assert!(!found.text.contains(absent), "{arguments}: {}", found.text);
            }
        }
    }
}
