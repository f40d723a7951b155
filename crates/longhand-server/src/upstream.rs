//! The servers that requests go on to.

use std::borrow::Cow;
use std::time::Duration;

use hyper::http::uri;
use hyper::{HeaderMap, Method, Request, StatusCode, Uri};
use longhand_model::http::{self, HttpClient, HttpError, RequestBody};

use crate::answer::{AnswerChunks, RelayedBody, ResponseBody};
use crate::route::{plain, unescaped};
use crate::{ServerError, Settings, headers};

/// An answer as it comes.
pub(crate) type UpstreamResponse = hyper::Response<http::ResponseBody>;

/// The status of an answer, and its headers that are passed on.
pub(crate) struct AnswerHead {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
}

impl AnswerHead {
    /// The head of an answer, and its body.
    pub(crate) fn split(response: UpstreamResponse) -> (Self, AnswerChunks) {
        let (parts, body) = response.into_parts();
        let head = Self { status: parts.status, headers: headers::end_to_end(&parts.headers) };
        (head, AnswerChunks::Upstream(body))
    }

    /// The same head for a client, with a body.
    pub(crate) fn response(self, body: RelayedBody) -> hyper::Response<ResponseBody> {
        let mut response = hyper::Response::new(ResponseBody::Relayed(body));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}

/// Whose API a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Provider {
    /// `OpenAI`, and whoever copies its API.
    OpenAi,
    /// Anthropic.
    Anthropic,
}

/// The configured servers, and the clients that reach them.
pub(crate) struct Upstreams {
    openai: Option<Upstream>,
    anthropic: Option<Upstream>,
}

/// One server.
#[derive(Clone)]
pub(crate) struct Upstream {
    scheme: uri::Scheme,
    authority: uri::Authority,
    /// The path of its address without `/v1`, without a slash at its end.
    path: String,
    client: HttpClient,
    /// The longest that it may send nothing.
    silence: Duration,
    /// Whether it knows the options by which a client has its provider shorten conversations.
    pub(crate) knows_options: bool,
}

impl Upstreams {
    pub(crate) fn new(settings: &Settings) -> Result<Self, ServerError> {
        let open = |url: &Option<String>| {
            url.as_deref().map(|url| Upstream::new(url, settings)).transpose()
        };
        let upstreams = Self {
            openai: open(&settings.upstream_openai)?,
            anthropic: open(&settings.upstream_anthropic)?,
        };
        if upstreams.openai.is_none() && upstreams.anthropic.is_none() {
            return Err(ServerError::NoUpstream);
        }
        Ok(upstreams)
    }

    /// Tells the provider by path and headers.
    ///
    /// Where only one server is configured, everything is for that one.
    pub(crate) fn provider(&self, uri: &Uri, headers: &HeaderMap) -> Provider {
        let is_messages = plain(uri.path()).starts_with("/v1/messages");
        let anthropic = match (&self.openai, &self.anthropic) {
            (Some(_), None) => is_messages,
            (None, _) => true,
            _ => {
                is_messages
                    || headers.contains_key("anthropic-version")
                    || headers.contains_key("x-api-key")
            }
        };
        if anthropic { Provider::Anthropic } else { Provider::OpenAi }
    }

    /// The server for requests in a provider's format.
    pub(crate) fn get(&self, provider: Provider) -> Option<&Upstream> {
        match provider {
            Provider::OpenAi => self.openai.as_ref(),
            Provider::Anthropic => self.anthropic.as_ref(),
        }
    }
}

impl Upstream {
    fn new(url: &str, settings: &Settings) -> Result<Self, ServerError> {
        let base = http::parse(url).map_err(|what| {
            // An address may have a password, which must not be shown.
            let shown = url.rsplit_once('@').map_or(url, |(_, place)| place);
            ServerError::Upstream { url: shown.to_owned(), what }
        })?;
        if base.scheme() == Some(&uri::Scheme::HTTPS) {
            http::trust().map_err(ServerError::Client)?;
        }
        let client = HttpClient::new(settings.connect, settings.upstream_silence);
        let knows_options = matches!(base.host(), Some("api.openai.com" | "api.anthropic.com"));
        let path = base.path().trim_end_matches('/');
        let path = path.strip_suffix("/v1").unwrap_or(path).to_owned();
        let uri::Parts { scheme: Some(scheme), authority: Some(authority), .. } = base.into_parts()
        else {
            return Err(ServerError::NoUpstream);
        };
        let silence = settings.upstream_silence;
        Ok(Self { scheme, authority, path, client, silence, knows_options })
    }

    /// Where a request goes: the same path and query on this server.
    ///
    /// `None` if the path might lead out of the configured one.
    pub(crate) fn address(&self, uri: &Uri) -> Option<Uri> {
        let path = uri.path_and_query()?.clone();
        if !path.as_str().starts_with('/') || leads_upwards(path.path()) {
            return None;
        }
        let path = match self.path.as_str() {
            "" => path,
            base => format!("{base}{path}").parse().ok()?,
        };
        let (scheme, authority) = (self.scheme.clone(), self.authority.clone());
        Uri::builder().scheme(scheme).authority(authority).path_and_query(path).build().ok()
    }

    /// Its address, for people.
    pub(crate) fn shown(&self) -> String {
        format!("{}://{}", self.scheme, self.authority)
    }

    /// Sends a request and waits for the head of its answer.
    pub(crate) async fn send(
        &self,
        method: Method,
        address: Uri,
        headers: HeaderMap,
        body: RequestBody,
    ) -> Result<UpstreamResponse, HttpError> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = address;
        *request.headers_mut() = headers;
        self.client.send(request, self.silence).await
    }
}

/// How often a path is unescaped: a server may do so behind another one.
const UNESCAPED_MAX: usize = 4;

/// Whether any server might take a path for one that leads to the folder above.
fn leads_upwards(path: &str) -> bool {
    let mut path = Cow::Borrowed(path);
    for _ in 0..UNESCAPED_MAX {
        // Some take a backslash for a slash, and leave out what follows a semicolon.
        let mut pieces = path.split(['/', '\\']);
        let is_upwards = |piece: &str| piece.split(';').next().unwrap_or_default().trim() == "..";
        if path.contains(char::is_control) || pieces.any(is_upwards) {
            return true;
        }
        if !path.contains('%') {
            return false;
        }
        let next = String::from_utf8_lossy(&unescaped(&path)).into_owned();
        if next == path {
            return false;
        }
        path = Cow::Owned(next);
    }
    // What is escaped so often hides something.
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhand::MemoryArchive;
    use std::sync::Arc;

    fn address(base: &str, path: &str) -> Option<String> {
        let settings = Settings::new(Arc::new(MemoryArchive::default()));
        let upstream = Upstream::new(base, &settings).unwrap();
        upstream.address(&path.parse().unwrap()).map(|uri| uri.to_string())
    }

    #[test]
    fn the_path_is_kept_and_the_host_is_ours() {
        for (base, path, expected) in [
            ("http://a/v1", "/v1/models?x=1", Some("http://a/v1/models?x=1")),
            ("http://a", "/v1/models", Some("http://a/v1/models")),
            ("http://a/", "/", Some("http://a/")),
            (
                "https://a/api/v1/",
                "/v1/chat/completions",
                Some("https://a/api/v1/chat/completions"),
            ),
            ("http://a/v1", "http://evil/v1/models", Some("http://a/v1/models")),
            ("http://a/v1", "//evil/v1", Some("http://a//evil/v1")),
            ("http://a/one/v1", "/../two", None),
            ("http://a/one/v1", "/v1/.%2E/../two", None),
            ("http://a/v1", "/v1/..x/...", Some("http://a/v1/..x/...")),
            ("http://a/api/v1", "/v1/a%20b", Some("http://a/api/v1/a%20b")),
            ("http://a/api/v1", "/-admin", Some("http://a/api/-admin")),
            ("http://a/api", "/admin", Some("http://a/api/admin")),
            ("http://a/api/v1", "//admin", Some("http://a/api//admin")),
            ("http://a/api/v1", "http://evil/../admin", None),
            ("http://[::1]:8080/v1", "/v1/models", Some("http://[::1]:8080/v1/models")),
        ] {
            assert_eq!(address(base, path).as_deref(), expected, "{base} {path}");
        }
    }

    #[test]
    fn no_path_leads_out_of_the_configured_one() {
        for path in [
            "/..",
            "/../admin",
            "/v1/../../admin",
            "/%2e%2e/admin",
            "/.%2E/admin",
            "/v1/..%2f..%2fadmin",
            "/v1%2F..%2Fadmin",
            "/..%5cadmin",
            "/v1/..%5C..%5Cadmin",
            "/..;/admin",
            "/..;x=1/admin",
            "/%252e%252e/admin",
            "/%25252e%25252e%2fadmin",
            "/%2525252525252e./admin",
            "/..%00/admin",
            "/..%20/admin",
            "/.%0a./admin",
        ] {
            assert_eq!(address("http://a/api/v1", path), None, "{path}");
        }
    }

    #[test]
    fn what_is_no_upstream_is_refused() {
        let settings = Settings::new(Arc::new(MemoryArchive::default()));
        for url in ["", "ftp://a", "http://user:key@a/v1", "a.b:80/v1"] {
            let error = Upstream::new(url, &settings).err().unwrap();
            let source = std::error::Error::source(&error).map(ToString::to_string);
            assert!(!format!("{error} {error:?} {source:?}").contains("key@"), "{url}: {error}");
        }
    }
}
