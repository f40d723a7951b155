//! Who may speak to a proxy.

use hyper::header::{HOST, HeaderName, ORIGIN};
use hyper::http::request::Parts;
use hyper::http::uri::PathAndQuery;
use hyper::{HeaderMap, Uri};

use crate::credentials::{Credentials, parameters};
use crate::route::unescaped;

/// Who is let in.
pub(crate) struct Guard {
    keys: Vec<String>,
    /// Hashes of the keys, which compare in constant time.
    hashes: Vec<blake3::Hash>,
    only_local: bool,
}

/// Why somebody is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It is a web page, or speaks to another name.
    Foreign,
    /// It has no key, or a wrong one.
    NoKey,
    /// Our key is in the path, which the upstream would see.
    KeyInPath,
}

impl Guard {
    /// Lets in who has one of the keys, if there are any; `only_local` keeps out web pages.
    pub(crate) fn new(keys: &[String], only_local: bool) -> Self {
        let hashes = keys.iter().map(|key| blake3::hash(key.as_bytes())).collect();
        Self { keys: keys.to_vec(), hashes, only_local }
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
/// A web page can make a browser send requests here: its own name stands in `Origin`, and in `Host` if
/// it had that name point to this machine.
fn is_local(uri: &Uri, headers: &HeaderMap, only_local: bool) -> bool {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = text(HOST).or_else(|| uri.authority().map(hyper::http::uri::Authority::as_str));
    let origin_is_local = text(ORIGIN).is_none_or(|origin| {
        let host = origin.split_once("://").map(|(_, host)| host);
        host.is_some_and(is_loopback)
    });
    (!only_local || host.is_none_or(is_loopback)) && origin_is_local
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
        let guard = Guard::new(&[], true);
        for (host, origin, expected) in [
            (Some("127.0.0.1:4141"), None, true),
            (Some("localhost"), None, true),
            (Some("[::1]:4141"), Some("http://localhost:3000"), true),
            (None, None, true),
            (Some("evil.example:4141"), None, false),
            (Some("127.0.0.1.evil.example"), None, false),
            (Some("localhost"), Some("https://evil.example"), false),
            (Some("localhost"), Some("null"), false),
            (Some("user@localhost@evil"), None, false),
        ] {
            let pairs: Vec<_> = [("host", host), ("origin", origin)]
                .into_iter()
                .filter_map(|(name, value)| Some((name, value?)))
                .collect();
            let found = checked(&guard, "/v1/models", &pairs);
            assert_eq!(found.is_ok(), expected, "{host:?} {origin:?}");
        }
    }

    #[test]
    fn keys_are_wanted_and_stay_here() {
        let guard = Guard::new(&["one".to_owned(), "two".to_owned()], false);
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
