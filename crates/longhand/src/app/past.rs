//! Brings back what a model asks for from its own conversation.

use std::sync::Arc;

use longhand_archive::{Archive, Owner, SessionId};
use longhand_core::{Scale, Seq, Tokens};
use longhand_dialect::{RECALL_TOOL, ToolOffer};
use serde_json::Value;

use super::{App, AppError, ExpandRequest, Reach, SearchRequest, for_models};

/// The tool with which a model asks for it.
pub const TOOL: ToolOffer = ToolOffer {
    name: RECALL_TOOL,
    description: "Brings back what was said before and is no longer shown. With a query it searches, and names a handle \
for each message that it finds. With a handle it reads: one of these, or the one in a mark that begins with [longhand, \
h: and twelve letters and digits. With both it reads only the lines with these words.",
    parameters: r#"{"type":"object","properties":{"query":{"type":"string","description":"Words to search for"},"handle":{"type":"string","description":"What to read"},"from":{"type":"integer","description":"The byte to read on from"}}}"#,
};

/// How far the recall tool of a conversation reaches; never to other owners.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecallReach {
    /// The conversation itself.
    #[default]
    Session,
    /// All sessions of its project; the conversation itself if it has none.
    Project,
    /// All sessions of its owner.
    All,
}

/// What a model may look up from its conversation.
pub struct Past {
    app: App,
    session: SessionId,
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

/// The most hits of a search.
const HITS_MAX: usize = 10;

/// What a call asks for.
struct RecallRequest {
    handle: Option<String>,
    query: Option<String>,
    from: usize,
}

impl Past {
    /// A path of an owner's session and what it continues: other sessions of the owner, or the rest of the same session
    /// if the client has dropped its beginning. With a wider reach, other sessions as well.
    pub fn of(
        archive: Arc<dyn Archive>,
        owner: Owner,
        session: SessionId,
        path: &[Seq],
        reach: RecallReach,
    ) -> Self {
        let head = path.last().copied().filter(|_| path.first() == Some(&Seq(0)));
        let app = App::of_owner(archive, owner);
        let project = || app.project_of(session).ok().filter(|project| !project.is_empty());
        let reach = match reach {
            RecallReach::All => Reach::All,
            RecallReach::Project => project().map_or(Reach::Path { session, head }, Reach::Project),
            RecallReach::Session => Reach::Path { session, head },
        };
        Self { app: app.within(reach), session }
    }

    /// Brings back what the arguments of a call ask for, a JSON object with a `handle`, a `query` or both, in at most so
    /// many tokens.
    pub fn look_up(&self, arguments: &str, scale: &Scale, limit: Tokens) -> RecallAnswer {
        let asked = RecallRequest::read(arguments);
        let sought = if asked.handle.is_some() { RecallKind::Handle } else { RecallKind::Query };
        let fits = |text: &str| scale.text(text) <= limit;
        match self.answer(&asked, &fits) {
            Ok((outcome, text)) => RecallAnswer { text, sought, outcome },
            Err(error) => {
                let text = for_models::problem(&error);
                let is_failure = text == for_models::UNREADABLE;
                let outcome =
                    if is_failure { RecallOutcome::Failed } else { RecallOutcome::Unknown };
                RecallAnswer { text, sought, outcome }
            }
        }
    }

    fn answer(
        &self,
        asked: &RecallRequest,
        fits: for_models::Fits,
    ) -> Result<(RecallOutcome, String), AppError> {
        let RecallRequest { handle, query, from } = asked;
        let (Some(handle), query) = (handle, query) else {
            let Some(query) = query else {
                let text = "Give a handle, a query, or both.".to_owned();
                return Ok((RecallOutcome::Unknown, text));
            };
            let request = SearchRequest { limit: HITS_MAX, ..SearchRequest::of(query) };
            let found = self.app.find_entries(&request)?;
            let is_empty = found.entries.is_empty();
            let outcome = if is_empty { RecallOutcome::Unknown } else { RecallOutcome::Found };
            return Ok((outcome, for_models::found(&found, fits)));
        };
        let handle = match self.app.earlier_place(self.session, handle)? {
            Some(handle) => handle,
            None => for_models::handle_in(handle).to_owned(),
        };
        let limit = Some(for_models::MESSAGES_MAX);
        let expanded = self.app.expand(&ExpandRequest { limit, ..ExpandRequest::of(&handle) })?;
        let text = for_models::read(&expanded, query.as_deref(), *from, fits);
        Ok((RecallOutcome::Found, text))
    }
}

impl RecallRequest {
    fn read(arguments: &str) -> Self {
        let asked: Value = serde_json::from_str(arguments).unwrap_or_default();
        let field = |key: &str| {
            let text = asked[key].as_str().map(str::trim).filter(|text| !text.is_empty());
            text.map(str::to_owned)
        };
        let from =
            asked["from"].as_u64().map_or(0, |from| usize::try_from(from).unwrap_or(usize::MAX));
        Self { handle: field("handle"), query: field("query"), from }
    }
}

impl App {
    /// The project of a session.
    fn project_of(&self, session: SessionId) -> Result<String, AppError> {
        Ok(self.session_of(session)?.map(|info| info.origin.project).unwrap_or_default())
    }

    /// The handle of an entry as the recall tool named it once: `e:12` in a session itself, `e:12/1` in the one that it
    /// continues. Windows of that time may still show it.
    fn earlier_place(&self, session: SessionId, name: &str) -> Result<Option<String>, AppError> {
        let Some(name) = name.strip_prefix("e:") else { return Ok(None) };
        let (entry, back) = name.split_once('/').unwrap_or((name, "0"));
        let (Ok(entry), Ok(back)) = (entry.parse::<u64>(), back.parse::<usize>()) else {
            return Ok(None);
        };
        let Some(info) = self.session_of(session)? else { return Ok(None) };
        let chain = self.chain_up_to(&info)?;
        let place = chain.iter().rev().nth(back);
        Ok(place.map(|info| format!("{}:{entry}", info.id)))
    }
}

#[cfg(test)]
mod tests {
    use longhand_archive::{After, MemoryArchive, NewBatch, NewEntry, NewSession};
    use longhand_core::{Batch, Handle, Original};
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
        let archive = Arc::new(MemoryArchive::default());
        let old = session(&*archive, "old", None, &[said("ancient port 1")]);
        let newer = session(&*archive, "own", Some(old), &[said("port 2"), said("port 3")]);
        archive.append(newer, After::Entry(Some(Seq(0))), &[said("port 4")]).unwrap();
        let other = session(&*archive, "other", None, &[said("port 5")]);
        let foreign = SessionId::named(Owner::of("foreign"), "foreign");
        let of_foreign = NewSession { owner: Owner::of("foreign"), ..NewSession::default() };
        archive.begin(foreign, &of_foreign).unwrap();
        archive.append(foreign, After::Entry(None), &[said("port 6")]).unwrap();
        let images = ImageRule::for_model(ImageProvider::OpenAi, None);
        let meter = MeterSpec::for_model("").open(images).unwrap();
        let scale = Scale::new(&*meter);
        let looked = |owner, reach, arguments: &str| {
            let past = Past::of(archive.clone(), owner, newer, &[Seq(0), Seq(2)], reach);
            past.look_up(arguments, &scale, Tokens(1_000)).text
        };
        let handle = |of: &str| Handle::of([of]).to_string();
        let entry = |of: SessionId, seq: u64| format!("{}:{seq}", &of.to_string()[..12]);
        let read = |handle: &str| format!(r#"{{"handle":"{handle}"}}"#);
        let query = r#"{"query":"port"}"#;
        for (arguments, expected) in [
            (query.to_owned(), &["> port 4\n", "> port 2\n", "> ancient port 1\n"][..]),
            (query.to_owned(), &[&*entry(newer, 2), &*entry(newer, 0), &*entry(old, 0)]),
            (read(&entry(newer, 0)), &["## user, entry 0", "> port 2"]),
            (read(&format!("{}-2", entry(newer, 0))), &["> port 2", "> port 4"]),
            (read(&newer.to_string()), &["> port 2", "> port 4"]),
            (read(&entry(newer, 1)), &["Nothing here has that handle"]),
            (read(&entry(newer, 7)), &["has entries 0 to 2"]),
            (read(&entry(other, 0)), &["Nothing here has that handle"]),
            (read("other"), &["Nothing here has that handle"]),
            (read("e:0"), &["> port 2"]),
            (read("e:0/1"), &["> ancient port 1"]),
            (read("e:1"), &["Nothing here"]),
            (read("e:0/9"), &["Nothing here"]),
            (read(&handle("port 2")), &["> port 2"]),
            (
                read(&format!("[longhand stub {}: x]", handle("ancient port 1"))),
                &["> ancient port 1"],
            ),
            (read(&handle("port 5")), &["Nothing here"]),
            ("no json".to_owned(), &["Give a handle"]),
        ] {
            let told = looked(Owner::LOCAL, RecallReach::Session, &arguments);
            for expected in expected {
                assert!(told.contains(expected), "{arguments}: {told}");
            }
            for absent in ["port 3", "port 5", "port 6"] {
                assert!(!told.contains(absent), "{arguments}: {told}");
            }
            let stranger = looked(Owner::of("another"), RecallReach::All, &arguments);
            assert!(!stranger.contains("port"), "{arguments}: {stranger}");
        }
        // A wider reach has other sessions, and never those of others.
        for (reach, has_other) in [(RecallReach::Project, false), (RecallReach::All, true)] {
            let told = looked(Owner::LOCAL, reach, query);
            assert!(told.contains("port 4") && !told.contains("port 6"), "{reach:?}: {told}");
            assert_eq!(told.contains("port 5"), has_other, "{reach:?}: {told}");
            let told = looked(Owner::LOCAL, reach, &read(&entry(foreign, 0)));
            assert!(!told.contains("port 6"), "{reach:?}: {told}");
        }
    }
}
