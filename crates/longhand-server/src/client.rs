//! The program that sends a request, as its headers and its body name it.

use std::borrow::Cow;

use hyper::HeaderMap;
use hyper::header::{HeaderName, USER_AGENT};
use longhand::driver::group_of;
use longhand_dialect::Conversation;
use serde_json::Value;

use crate::Settings;
use crate::redaction::Redaction;

/// The most characters of a program's name: it comes from a header.
const NAME_CHARS_MAX: usize = 40;

/// Headers in which programs name their conversation; that of the parent comes before the sub-agent's.
const ID_HEADERS: [HeaderName; 7] = [
    HeaderName::from_static("x-parent-session-id"),
    HeaderName::from_static("x-claude-code-session-id"),
    HeaderName::from_static("session-id"),
    HeaderName::from_static("session_id"),
    HeaderName::from_static("thread-id"),
    HeaderName::from_static("conversation_id"),
    HeaderName::from_static("x-session-id"),
];

/// The program that sends a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientProgram {
    /// Its name; empty if it sends none.
    pub(crate) agent: String,
    /// A hash of what it calls the conversation: side calls and sub-agents of one have the same.
    pub(crate) group: Option<u64>,
}

impl ClientProgram {
    /// The client as the headers of a request name it.
    pub(crate) fn of(headers: &HeaderMap, settings: &Settings) -> Self {
        let header = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let name = header(USER_AGENT).unwrap_or_default();
        let agent = settings.agent.as_deref().unwrap_or(name);
        // Before it is cut: half a key would not be recognised.
        let agent = match Redaction::new(settings.redactor.as_ref()).text(agent) {
            Cow::Borrowed(agent) if settings.agent.is_none() => {
                agent.split(['/', ' ']).next().unwrap_or_default().to_owned()
            }
            agent => agent.into_owned(),
        };
        let agent = agent.chars().filter(|c| !c.is_control()).take(NAME_CHARS_MAX).collect();
        let group = ID_HEADERS.into_iter().find_map(header).and_then(group_of);
        Self { agent, group }
    }

    /// The same with the conversation's name from the body.
    pub(crate) fn with(mut self, conversation: &Conversation) -> Self {
        let field = |key: &str| serde_json::from_str::<Value>(conversation.field(key)?).ok();
        let in_metadata = || {
            let metadata = field("metadata")?;
            let user = metadata["user_id"].as_str()?;
            // Most clients name the user there; Claude Code names the session, too.
            session_in(user).and_then(|id| group_of(&id))
        };
        let by_cache = || group_of(field("prompt_cache_key")?.as_str()?);
        self.group = in_metadata().or_else(by_cache).or(self.group);
        self
    }
}

/// The session that Claude Code names in the place of a user: after other words, or in JSON.
fn session_in(user: &str) -> Option<String> {
    if let Ok(Value::Object(named)) = serde_json::from_str(user) {
        return Some(named.get("session_id")?.as_str()?.to_owned());
    }
    let (_, id) = user.rsplit_once("session")?;
    Some(id.trim_start_matches(['_', '-', ':']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhand::MemoryArchive;
    use longhand_dialect::{Dialect, read};
    use std::sync::Arc;

    fn client(headers: &[(&'static str, &'static str)], body: &str) -> ClientProgram {
        let settings = Settings::new(Arc::new(MemoryArchive::default()));
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        let conversation = read(body.as_bytes().to_vec(), Some(Dialect::Anthropic)).unwrap();
        ClientProgram::of(&map, &settings).with(&conversation)
    }

    #[test]
    fn a_program_is_known_by_its_name_and_its_conversation_by_its_id() {
        let body = |user: &str| {
            let messages = r#""messages":[{"role":"user","content":"Hi"}]"#;
            format!(
                r#"{{"model":"m","max_tokens":9,"metadata":{{"user_id":"{user}"}},{messages}}}"#
            )
        };
        let agent = ("user-agent", "claude-cli/2.1 (external, cli)");
        let one = client(&[agent], &body("user_1_session_0b5e4c1e-77a1-4c2e-9d51-0123456789ab"));
        assert_eq!(one.agent, "claude-cli");
        assert!(one.group.is_some());
        let other = client(&[agent], &body("user_1_session_0b5e4c1e-77a1-4c2e-9d51-0123456789ac"));
        assert_ne!(one.group, other.group);
        // Who the user is says nothing about the conversation, and a short word may be anything.
        assert_eq!(client(&[agent], &body("user-0123456789abcdef")).group, None);
        assert_eq!(client(&[("session_id", "main")], &body("u")).group, None);
        let id = ("session_id", "0b5e4c1e-77a1-4c2e-9d51-0123456789ab");
        assert_eq!(client(&[id], &body("u")).group, one.group, "an id is one wherever it stands");
        let user =
            r#"{\"device_id\":\"d\",\"session_id\":\"0b5e4c1e-77a1-4c2e-9d51-0123456789ab\"}"#;
        assert_eq!(client(&[], &body(user)).group, one.group);
        // A sub-agent of opencode names itself and its parent.
        let (main, sub) = ("ses_e1985e168ffe2rX4AHZax8wKzf", "ses_e19857ca1ffeyWvNiv0imXQKvM");
        let parent = client(&[("x-session-id", main)], &body("u"));
        let child = client(&[("x-session-id", sub), ("x-parent-session-id", main)], &body("u"));
        assert_eq!(parent.group, child.group);
    }
}
