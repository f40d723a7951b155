//! Who may speak to a proxy.

use hyper::header::{HOST, HeaderName, ORIGIN};
use hyper::http::request::Parts;
use hyper::http::uri::PathAndQuery;
use hyper::{HeaderMap, Uri};

use crate::credentials::{Credentials, parameters};
use crate::route::unescaped;
use crate::secret::Secret;

/// Where a browser says whether the page that asks is of the same site as what it asks for.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Who is let in.
pub(crate) struct Guard {
    keys: Vec<String>,
    /// Hashes of the keys, which compare in constant time.
    hashes: Vec<blake3::Hash>,
    only_local: bool,
    secret: Option<Secret>,
}

/// Why somebody is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It is a web page, or speaks to another name.
    Foreign,
    /// It does not have the secret of a private proxy.
    NoSecret,
    /// It has no key, or a wrong one.
    NoKey,
    /// Our key is in the path, which the upstream would see.
    KeyInPath,
}

impl Guard {
    /// Lets in who has one of the keys, if there are any, and the secret, if there is one; `only_local` keeps out
    /// whoever speaks to another name.
    pub(crate) fn new(keys: &[String], secret: Option<&str>, only_local: bool) -> Self {
        let hashes = keys.iter().map(|key| blake3::hash(key.as_bytes())).collect();
        Self { keys: keys.to_vec(), hashes, only_local, secret: secret.map(Secret::new) }
    }

    /// Takes the secret out of a request, before anything else is read of it.
    pub(crate) fn take_secret(&self, parts: &mut Parts) -> Result<(), Refused> {
        let is_there = self.secret.as_ref().is_none_or(|secret| secret.take(parts));
        if is_there { Ok(()) } else { Err(Refused::NoSecret) }
    }

    /// Checks a request, and takes our keys out of it: they are for nobody else.
    pub(crate) fn check(
        &self,
        parts: &mut Parts,
        credentials: &Credentials,
    ) -> Result<(), Refused> {
        if !is_local(&parts.uri, &parts.headers, self.only_local) {
            return Err(Refused::Foreign);
        }
        if self.keys.is_empty() {
            return Ok(());
        }
        // All are compared, so that time does not tell which one was nearly right.
        let known = credentials
            .keys()
            .map(blake3::hash)
            .filter(|hash| self.hashes.iter().filter(|own| *own == hash).count() > 0);
        if known.count() == 0 {
            return Err(Refused::NoKey);
        }
        self.take_keys(parts)
    }

    /// Removes every header and every parameter that has one of our keys in it.
    fn take_keys(&self, parts: &mut Parts) -> Result<(), Refused> {
        if self.is_in(&unescaped(parts.uri.path())) {
            return Err(Refused::KeyInPath);
        }
        let headers = std::mem::take(&mut parts.headers);
        let mut last: Option<HeaderName> = None;
        for (name, value) in headers {
            last = name.or(last);
            if let Some(name) = last.clone().filter(|_| !self.is_in(value.as_bytes())) {
                parts.headers.append(name, value);
            }
        }
        let is_ours = |parameter: &&str| self.is_in(&unescaped(parameter));
        if parameters(&parts.uri).any(|parameter| is_ours(&parameter)) {
            let kept: Vec<&str> = parameters(&parts.uri).filter(|own| !is_ours(own)).collect();
            let query =
                if kept.is_empty() { String::new() } else { format!("?{}", kept.join("&")) };
            let path = format!("{}{query}", parts.uri.path()).parse::<PathAndQuery>();
            let mut uri = std::mem::take(&mut parts.uri).into_parts();
            uri.path_and_query = Some(path.map_err(|_| Refused::KeyInPath)?);
            parts.uri = Uri::from_parts(uri).map_err(|_| Refused::KeyInPath)?;
        }
        Ok(())
    }

    /// Whether one of our keys stands in a text, as a word.
    fn is_in(&self, text: &[u8]) -> bool {
        let is_letter = |at: usize| text.get(at).is_some_and(u8::is_ascii_alphanumeric);
        self.keys.iter().map(String::as_bytes).filter(|key| !key.is_empty()).any(|key| {
            let mut places = text.windows(key.len()).enumerate();
            places.any(|(at, place)| {
                place == key
                    && !at.checked_sub(1).is_some_and(is_letter)
                    && !is_letter(at + key.len())
            })
        })
    }
}

/// Whether a request comes from a program and not from a web page.
///
/// A web page can make a browser send requests here. The browser says so in `Sec-Fetch-Site`; the page's own name
/// stands in `Origin`, and in `Host` if it had that name point to this machine. A page on another port of this
/// machine is no better: another user may serve it.
fn is_local(uri: &Uri, headers: &HeaderMap, only_local: bool) -> bool {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = text(HOST).or_else(|| uri.authority().map(hyper::http::uri::Authority::as_str));
    let is_own_origin = text(ORIGIN).is_none_or(|origin| {
        let origin = origin.split_once("://").map(|(_, host)| host);
        origin.is_some_and(|origin| host.is_some_and(|host| host.eq_ignore_ascii_case(origin)))
    });
    // A person who types the address is nobody's page.
    let is_own_page = text(FETCH_SITE).is_none_or(|site| ["none", "same-origin"].contains(&site));
    (!only_local || host.is_none_or(is_loopback)) && is_own_origin && is_own_page
}

/// Whether a host, perhaps with a port, is this machine by a name that nobody else can give.
fn is_loopback(host: &str) -> bool {
    let Ok(authority) = host.parse::<hyper::http::uri::Authority>() else { return false };
    let name = authority.host().trim_matches(['[', ']']);
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Request;
    use hyper::header::HeaderValue;

    /// What is left of a request that is let in.
    fn checked(
        guard: &Guard,
        uri: &str,
        pairs: &[(&'static str, &str)],
    ) -> Result<String, Refused> {
        let (mut parts, ()) = Request::builder().uri(uri).body(()).unwrap().into_parts();
        for (name, value) in pairs {
            parts.headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        let credentials = Credentials::of(&parts.uri, &parts.headers, &[]);
        guard.check(&mut parts, &credentials)?;
        let values: Vec<_> = parts.headers.values().map(|value| value.to_str().unwrap()).collect();
        Ok(format!("{} [{}]", parts.uri, values.join(" ")))
    }

    #[test]
    fn web_pages_are_kept_out() {
        for (host, origin, site, expected) in [
            (Some("127.0.0.1:4141"), None, None, true),
            (Some("localhost"), None, Some("none"), true),
            (Some("localhost:4141"), Some("http://localhost:4141"), Some("same-origin"), true),
            (None, None, None, true),
            (Some("evil.example:4141"), None, None, false),
            (Some("127.0.0.1.evil.example"), None, None, false),
            (Some("evil.example"), Some("http://evil.example"), Some("same-origin"), false),
            (Some("localhost"), Some("https://evil.example"), None, false),
            (Some("localhost"), Some("null"), None, false),
            (Some("user@localhost@evil"), None, None, false),
            // A page that another user of this machine serves.
            (Some("[::1]:4141"), Some("http://localhost:3000"), None, false),
            (Some("localhost:4141"), Some("http://localhost:3000"), Some("same-site"), false),
            // Links, pictures and scripts have no origin.
            (Some("localhost:4141"), None, Some("cross-site"), false),
            (Some("localhost:4141"), None, Some("same-site"), false),
            (Some("localhost:4141"), None, Some("anything"), false),
        ] {
            let pairs: Vec<_> = [("host", host), ("origin", origin), ("sec-fetch-site", site)]
                .into_iter()
                .filter_map(|(name, value)| Some((name, value?)))
                .collect();
            let found = checked(&Guard::new(&[], None, true), "/v1/models", &pairs);
            assert_eq!(found.is_ok(), expected, "{host:?} {origin:?} {site:?}");
            // Wherever it listens, only the name may be another.
            if origin.is_some_and(|origin| !origin.ends_with(host.unwrap_or("?"))) {
                let found = checked(&Guard::new(&[], None, false), "/v1/models", &pairs);
                assert!(found.is_err(), "{host:?} {origin:?} {site:?}");
            }
        }
    }

    #[test]
    fn keys_are_wanted_and_stay_here() {
        let guard = Guard::new(&["one".to_owned(), "two".to_owned()], None, false);
        for (uri, pairs, expected) in [
            ("/", vec![], None),
            ("/", vec![("authorization", "Bearer three")], None),
            ("/", vec![("authorization", "Bearer on")], None),
            ("/", vec![("x-longhand-key", "")], None),
            ("/", vec![("x-api-key", "one"), ("origin", "https://evil.example")], None),
            ("/one/x", vec![("x-api-key", "one")], None),
            (
                "/",
                vec![("x-longhand-key", "two"), ("authorization", "Bearer p")],
                Some("/ [Bearer p]"),
            ),
            ("/", vec![("authorization", "bearer one"), ("x-api-key", "p")], Some("/ [p]")),
            ("/", vec![("x-api-key", "one")], Some("/ []")),
            ("/?key=two&a=1", vec![("x-api-key", "p")], Some("/?a=1 [p]")),
            ("/?key=t%77o", vec![], Some("/ []")),
            (
                "/?a=phone&b=one",
                vec![
                    ("x-api-key", "one"),
                    ("x-api-key", "p"),
                    ("x-api-key", "one"),
                    ("api-key", "two"),
                ],
                Some("/?a=phone [p]"),
            ),
            (
                "/",
                vec![
                    ("x-longhand-key", "one"),
                    ("authorization", "Bearer one"),
                    ("cookie", "k=one; a=1"),
                ],
                Some("/ []"),
            ),
        ] {
            let found = checked(&guard, uri, &pairs).ok();
            assert_eq!(found.as_deref(), expected, "{uri} {pairs:?}");
        }
    }
}
