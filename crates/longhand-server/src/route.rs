//! Where a request belongs, who sent it, and which fields of it matter.

use std::borrow::Cow;

use hyper::{HeaderMap, Method, Uri};
use longhand::{Owner, SessionId};
use longhand_dialect::{Conversation, Dialect};

use crate::console::Console;
use crate::headers::SESSION;
use crate::redaction::Redaction;
use crate::{mcp, status};

/// Where a request belongs, by its method and path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// A path of ours: health, readiness and metrics.
    Status,
    /// The archive as an MCP server.
    Mcp,
    /// The console.
    Console,
    /// A conversation, which is archived and made to fit.
    Conversation(Route),
    /// Anything else goes on to the upstream as it is.
    PassThrough,
}

impl Destination {
    pub(crate) fn of(method: &Method, uri: &Uri) -> Self {
        if uri.path() == mcp::PATH {
            return Self::Mcp;
        }
        if Console::has(uri.path()) {
            return Self::Console;
        }
        if uri.path().starts_with(status::PREFIX) {
            return Self::Status;
        }
        let rooted = rooted(uri);
        match route(method, rooted.as_ref().unwrap_or(uri).path()) {
            Some(route) => Self::Conversation(route),
            None => Self::PassThrough,
        }
    }
}

/// What a path does with a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// The format of the conversation.
    pub(crate) dialect: Dialect,
    /// Whether it is only counted.
    pub(crate) counts: bool,
}

/// What happens to a conversation that is posted to a path; `None` if the path takes none.
fn route(method: &Method, path: &str) -> Option<Route> {
    if method != Method::POST {
        return None;
    }
    let path = plain(path);
    // Some providers have other words before these, or none.
    let ends = |tail: &str| path.ends_with(tail);
    let dialect = if ends("/chat/completions") {
        Dialect::Chat
    } else if ends("/v1/responses") || path == "/responses" {
        Dialect::Responses
    } else if ["/v1/messages", "/v1/messages/count_tokens"].into_iter().any(ends) {
        Dialect::Anthropic
    } else {
        return None;
    };
    Some(Route { dialect, counts: path.ends_with("/count_tokens") })
}

/// The same address below `/v1`, for clients that leave that out.
pub(crate) fn rooted(uri: &Uri) -> Option<Uri> {
    let path = plain(uri.path());
    let is_known = matches!(&*path, "/chat/completions" | "/responses" | "/messages");
    if !is_known {
        return None;
    }
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    format!("/v1{path}{query}").parse().ok()
}

/// Pieces of paths to which other APIs post conversations.
const OTHER_APIS: [&str; 6] =
    ["generatecontent", "/completions", "/converse", "/invoke", "/api/chat", "/api/generate"];

/// Whether a conversation is posted in a format that is not known here.
pub(crate) fn is_unknown_api(method: &Method, path: &str) -> bool {
    if method != Method::POST || route(method, path).is_some() {
        return false;
    }
    let lower = path.to_ascii_lowercase();
    OTHER_APIS.iter().any(|api| lower.contains(api))
}

/// A path as servers understand it: without escapes and empty pieces, in small letters.
pub(crate) fn plain(path: &str) -> Cow<'_, str> {
    if is_plain(path) {
        return Cow::Borrowed(path);
    }
    let bytes = unescaped(path);
    let text = String::from_utf8_lossy(&bytes).to_lowercase();
    let pieces = text.split('/').filter(|piece| !piece.is_empty());
    pieces.flat_map(|piece| ["/", piece]).collect()
}

/// Whether a path is written as most clients do: in small letters, without escapes and empty pieces.
fn is_plain(path: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii() && !byte.is_ascii_uppercase() && byte != b'%';
    path.starts_with('/')
        && !path.ends_with('/')
        && !path.contains("//")
        && path.bytes().all(is_plain)
}

/// A piece of an address without `%` escapes.
pub(crate) fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let hex = |byte: u8| char::from(byte).to_digit(16);
        let escaped = match after {
            [high, low, ..] if *first == b'%' => hex(*high).zip(hex(*low)),
            _ => None,
        };
        let (byte, used) = match escaped {
            Some((high, low)) => ((high * 16 + low) as u8, 3),
            None => (*first, 1),
        };
        bytes.push(byte);
        rest = &rest[used..];
    }
    bytes
}

/// Whose request it is, and which session it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    owner: Owner,
    name: Option<String>,
}

impl Caller {
    /// An owner, and the session that the headers name.
    pub(crate) fn new(owner: Owner, headers: &HeaderMap) -> Self {
        let named = headers.get(SESSION).and_then(|value| value.to_str().ok()).map(str::trim);
        let name = named.filter(|name| !name.is_empty()).map(str::to_owned);
        Self { owner, name }
    }

    /// The same; a caller that names no session gets this one.
    pub(crate) fn or_named(mut self, name: Option<&str>) -> Self {
        self.name = self.name.or_else(|| name.map(str::to_owned));
        self
    }

    /// The same without secrets in the name.
    pub(crate) fn redacted(mut self, redaction: &Redaction) -> Self {
        self.name = self.name.map(|name| redaction.owned(name));
        self
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

    /// The same for history that only the provider has: its requests get their own session.
    ///
    /// No client can choose such a name: headers do not have that letter.
    fn holding(&self, history: &str) -> Self {
        let name = self.name.as_deref().unwrap_or_default();
        Self { owner: self.owner, name: Some(format!("{name}›{history}")) }
    }
}

/// The fields of a request that matter besides its messages.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestFields {
    /// The most tokens that the reply may have.
    pub(crate) reply_max: Option<u64>,
    /// The answer that it goes on from, of which the provider holds the history.
    pub(crate) previous: Option<String>,
    /// A conversation that the provider holds.
    pub(crate) stored: Option<String>,
}

impl RequestFields {
    /// The same without secrets in the names of histories.
    pub(crate) fn redacted(mut self, redaction: &Redaction) -> Self {
        for id in [&mut self.previous, &mut self.stored] {
            *id = id.take().map(|id| redaction.owned(id));
        }
        self
    }

    /// The caller of the request. One that continues history of the provider gets its own session, until that history
    /// is found in the archive.
    pub(crate) fn caller(&self, caller: &Caller) -> Caller {
        match self.previous.as_ref().or(self.stored.as_ref()) {
            Some(id) => caller.holding(id),
            None => caller.clone(),
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_is_known_however_its_path_is_written() {
        for path in [
            "/v1/chat/completions",
            "/v1/chat/completions/",
            "//v1/chat//completions",
            "/v1/chat%2Fcompletions",
            "/v1/%63hat/completions",
            "/V1/Chat/Completions",
            "/chat/completions",
            "/openai/deployments/x/chat/completions",
        ] {
            let dialect = route(&Method::POST, path).map(|route| route.dialect);
            assert_eq!(dialect, Some(Dialect::Chat), "{path}");
        }
        for path in ["/v1/chat", "/v1/chat/completions/x", "/v1/models", "/", "/%zz%", "/v1%"]
            .into_iter()
            .chain(["/v1/threads/t/messages", "/v1/responses/r/cancel", "/v1/x/responses"])
        {
            assert_eq!(route(&Method::POST, path), None, "{path}");
        }
        assert_eq!(route(&Method::GET, "/v1/messages"), None);
    }

    #[test]
    fn a_client_may_leave_out_the_version_and_another_api_is_told() {
        let to = |path: &str| rooted(&path.parse().unwrap()).map(|uri| uri.to_string());
        assert_eq!(to("/messages?beta=true").as_deref(), Some("/v1/messages?beta=true"));
        assert_eq!(to("/chat/completions").as_deref(), Some("/v1/chat/completions"));
        assert_eq!(to("/v1/messages"), None);
        assert_eq!(to("/models"), None);
        let is_other = |path: &str| is_unknown_api(&Method::POST, path);
        assert!(is_other("/v1beta/models/gemini-3:streamGenerateContent"));
        assert!(is_other("/model/x/converse-stream") && is_other("/v1/completions"));
        assert!(!is_other("/v1/chat/completions") && !is_other("/v1/embeddings"));
    }
}
