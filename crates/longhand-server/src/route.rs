//! What a request is about, before anything is done with it.

use axum::http::{HeaderMap, Method};
use longhand_dialect::{Conversation, Dialect};

use crate::guard::CREDENTIALS;
use crate::headers::{KEY, SESSION};
use crate::lineage::Root;

/// What a path does with a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// The format of the conversation.
    pub(crate) dialect: Dialect,
    /// Whether it is only counted.
    pub(crate) counts: bool,
}

/// What happens to a conversation that is posted to a path; `None` if the path takes none.
pub(crate) fn route(method: &Method, path: &str) -> Option<Route> {
    if method != Method::POST {
        return None;
    }
    let dialect = match path {
        "/v1/chat/completions" => Dialect::Chat,
        "/v1/responses" => Dialect::Responses,
        "/v1/messages" | "/v1/messages/count_tokens" => Dialect::Anthropic,
        _ => return None,
    };
    Some(Route { dialect, counts: path.ends_with("/count_tokens") })
}

/// Whose request it is, and which session it names.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// A hash of the credentials, so that sessions of different keys never meet.
    owner: String,
    name: Option<String>,
}

impl Caller {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut hasher =
            blake3::Hasher::new_derive_key("longhand-server 2026-11 owner of sessions");
        let keys: Vec<_> =
            CREDENTIALS.into_iter().chain([KEY]).map(|name| headers.get(name)).collect();
        for key in &keys {
            hasher.update(key.map(axum::http::HeaderValue::as_bytes).unwrap_or_default());
            hasher.update(&[0]);
        }
        let owner = hasher.finalize().to_hex()[..16].to_owned();
        // Two keys may use one name for different sessions.
        let suffix = if keys.iter().any(Option::is_some) {
            format!("@{}", &owner[..8])
        } else {
            String::new()
        };
        let named = headers.get(SESSION).and_then(|value| value.to_str().ok()).map(str::trim);
        let name = named
            .map(|name| name.strip_suffix(&suffix).unwrap_or(name))
            .filter(|name| !name.is_empty())
            .map(|name| format!("{name}{suffix}"));
        Self { owner, name }
    }

    /// Where a chain begins; `held` names history that only the provider has.
    pub(crate) fn root(&self, held: Option<&String>) -> Root {
        Root::new(&self.owner, self.name.as_deref(), held.map(String::as_str))
    }
}

/// What matters of a request besides its messages.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields {
    /// The most tokens that the reply may have.
    pub(crate) reply_max: Option<u64>,
    /// The answer that it goes on from, of which the provider holds the history.
    pub(crate) previous: Option<String>,
    /// A conversation that the provider holds.
    pub(crate) stored: Option<String>,
}

impl Fields {
    pub(crate) fn of(conversation: &Conversation) -> Self {
        let number = |key: &str| conversation.field(key)?.parse().ok();
        let string = |key: &str| serde_json::from_str(conversation.field(key)?).ok();
        Self {
            reply_max: ["max_completion_tokens", "max_output_tokens", "max_tokens"]
                .into_iter()
                .find_map(number),
            previous: string("previous_response_id"),
            stored: string("conversation"),
        }
    }
}
