//! What a request is about, before anything is done with it.

use axum::http::{HeaderMap, Method};
use longhand::{Owner, SessionId};
use longhand_dialect::{Conversation, Dialect};

use crate::guard::CREDENTIALS;
use crate::headers::{KEY, SESSION};

/// What a path does with a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// The format of the conversation.
    pub(crate) dialect: Dialect,
    /// Whether it is only counted.
    pub(crate) counts: bool,
    /// Whether it is sent as it is.
    pub(crate) as_is: bool,
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
    Some(Route { dialect, counts: path.ends_with("/count_tokens"), as_is: false })
}

/// Whose request it is, and which session it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    owner: Owner,
    name: Option<String>,
}

impl Caller {
    /// The owner of the credentials in a request, of which only a hash is kept.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let keys: Vec<_> =
            CREDENTIALS.into_iter().chain([KEY]).map(|name| headers.get(name)).collect();
        let mut owner = Owner::LOCAL;
        if keys.iter().any(Option::is_some) {
            let mut hasher =
                blake3::Hasher::new_derive_key("longhand-server 2026-11 owner of sessions");
            for key in keys {
                let key = key.map(axum::http::HeaderValue::as_bytes).unwrap_or_default();
                hasher.update(&(key.len() as u64).to_le_bytes()).update(key);
            }
            owner = Owner::of(&hasher.finalize().to_hex());
        }
        let named = headers.get(SESSION).and_then(|value| value.to_str().ok()).map(str::trim);
        let name = named.filter(|name| !name.is_empty()).map(str::to_owned);
        Self { owner, name }
    }

    pub(crate) fn owner(&self) -> Owner {
        self.owner
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The session that it names.
    pub(crate) fn session(&self) -> Option<SessionId> {
        self.name.as_ref().map(|name| SessionId::named(self.owner, name))
    }

    /// The same for history that only the provider has: its requests are a session of their own.
    pub(crate) fn holding(&self, history: &str) -> Self {
        let name = self
            .name
            .as_ref()
            .map_or_else(|| history.to_owned(), |name| format!("{name} {history}"));
        Self { owner: self.owner, name: Some(name) }
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
