//! The servers that requests go on to.

use axum::http::{HeaderMap, Uri};
use reqwest::{Client, Url, redirect};

use crate::{ServerError, Settings};

/// Whose format a request has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Provider {
    OpenAi,
    Anthropic,
}

/// The configured servers, and the clients that reach them.
pub(crate) struct Upstreams {
    openai: Option<Upstream>,
    anthropic: Option<Upstream>,
}

/// One server.
pub(crate) struct Upstream {
    /// Its address without `/v1`, without a slash at its end.
    base: Url,
    pub(crate) client: Client,
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

    /// Tells by path and headers whose request it is.
    ///
    /// Where only one server is configured, everything is for that one.
    pub(crate) fn provider(&self, uri: &Uri, headers: &HeaderMap) -> Provider {
        let path = uri.path();
        let anthropic = match (&self.openai, &self.anthropic) {
            (Some(_), None) => path.starts_with("/v1/messages"),
            (None, _) => true,
            _ => {
                path.starts_with("/v1/messages")
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
        let wrong = |what| ServerError::Upstream { url: url.to_owned(), what };
        let mut base = Url::parse(url.trim()).map_err(|_| wrong("it is no URL"))?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(wrong("only http and https are spoken"));
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err(wrong("credentials come with each request"));
        }
        base.set_query(None);
        base.set_fragment(None);
        let path = base.path().trim_end_matches('/');
        let path = path.strip_suffix("/v1").unwrap_or(path).to_owned();
        base.set_path(&path);
        // Whoever has chosen another provider of cryptography before keeps it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder()
            .redirect(redirect::Policy::none())
            .referer(false)
            .retry(reqwest::retry::never())
            .connect_timeout(settings.connect)
            .read_timeout(settings.upstream_silence);
        if is_loopback(&base) {
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(ServerError::Client)?;
        let knows_options = matches!(base.host_str(), Some("api.openai.com" | "api.anthropic.com"));
        Ok(Self { base, client, knows_options })
    }

    /// Where a request goes: the same path and query on this server.
    ///
    /// `None` if the path leads out of the configured one.
    pub(crate) fn address(&self, uri: &Uri) -> Option<Url> {
        let base = self.base.as_str().trim_end_matches('/');
        let path = uri.path_and_query().map_or("/", axum::http::uri::PathAndQuery::as_str);
        let address = Url::parse(&format!("{base}{path}")).ok()?;
        let same = address.origin() == self.base.origin()
            && address.path().starts_with(self.base.path().trim_end_matches('/'));
        (same && path.starts_with('/')).then_some(address)
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhand::MemoryArchive;
    use std::sync::Arc;

    fn address(base: &str, path: &str) -> Option<String> {
        let settings = Settings::new(Arc::new(MemoryArchive::default()));
        let upstream = Upstream::new(base, &settings).unwrap();
        upstream.address(&path.parse().unwrap()).map(Into::into)
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
        ] {
            assert_eq!(address(base, path).as_deref(), expected, "{base} {path}");
        }
    }

    #[test]
    fn what_is_no_upstream_is_refused() {
        let settings = Settings::new(Arc::new(MemoryArchive::default()));
        for url in ["", "ftp://a", "http://user:key@a/v1", "a.b:80/v1"] {
            assert!(Upstream::new(url, &settings).is_err(), "{url}");
        }
    }
}
