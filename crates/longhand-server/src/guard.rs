//! Who may speak to a proxy.

use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri};

use crate::headers::KEY;

/// Where clients put the keys of their provider.
pub(crate) const CREDENTIALS: [HeaderName; 3] =
    [AUTHORIZATION, HeaderName::from_static("x-api-key"), HeaderName::from_static("api-key")];

/// Who is let in.
pub(crate) struct Guard {
    /// Hashes, which compare in constant time.
    keys: Vec<blake3::Hash>,
    only_local: bool,
}

/// Why somebody is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It is a web page, or speaks to another name.
    Foreign,
    /// It has no key, or a wrong one.
    NoKey,
}

impl Guard {
    /// Lets in who has one of the keys, if there are any; `only_local` keeps out web pages.
    pub(crate) fn new(keys: &[String], only_local: bool) -> Self {
        Self { keys: keys.iter().map(|key| blake3::hash(key.as_bytes())).collect(), only_local }
    }

    /// Checks a request, and takes our key out of its headers: it is for nobody else.
    pub(crate) fn check(&self, uri: &Uri, headers: &mut HeaderMap) -> Result<(), Refused> {
        if !is_local(uri, headers, self.only_local) {
            return Err(Refused::Foreign);
        }
        if self.keys.is_empty() {
            return Ok(());
        }
        let held = std::iter::once(KEY).chain(CREDENTIALS);
        for name in held {
            if headers.get(&name).is_some_and(|value| self.knows(value)) {
                if name != KEY {
                    let own = headers.remove(&name);
                    headers.extend(own.map(|own| (KEY, own)));
                }
                return Ok(());
            }
        }
        Err(Refused::NoKey)
    }

    fn knows(&self, value: &HeaderValue) -> bool {
        let value = value.as_bytes();
        let key = match value.get(..7) {
            Some(scheme) if scheme.eq_ignore_ascii_case(b"bearer ") => &value[7..],
            _ => value,
        };
        let hash = blake3::hash(key.trim_ascii());
        // All are compared, so that time does not tell which one was nearly right.
        self.keys.iter().filter(|own| **own == hash).count() > 0
    }
}

/// Whether a request comes from a program and not from a web page.
///
/// A web page can make a browser send requests here: its own name stands in `Origin`, and in `Host` if
/// it had that name point to this machine.
fn is_local(uri: &Uri, headers: &HeaderMap, only_local: bool) -> bool {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = text(HOST).or_else(|| uri.authority().map(axum::http::uri::Authority::as_str));
    let origin_is_local = text(ORIGIN).is_none_or(|origin| {
        let host = origin.split_once("://").map(|(_, host)| host);
        host.is_some_and(is_loopback)
    });
    (!only_local || host.is_none_or(is_loopback)) && origin_is_local
}

/// Whether a host, perhaps with a port, is this machine by a name that nobody else can give.
fn is_loopback(host: &str) -> bool {
    let Ok(authority) = host.parse::<axum::http::uri::Authority>() else { return false };
    let name = authority.host().trim_matches(['[', ']']);
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        });
        pairs.collect()
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
            let found = guard.check(&Uri::from_static("/v1/models"), &mut headers(&pairs));
            assert_eq!(found.is_ok(), expected, "{host:?} {origin:?}");
        }
    }

    #[test]
    fn keys_are_wanted_and_stay_here() {
        let guard = Guard::new(&["one".to_owned(), "two".to_owned()], false);
        for (pairs, expected) in [
            (vec![], false),
            (vec![("authorization", "Bearer three")], false),
            (vec![("authorization", "Bearer on")], false),
            (vec![("x-longhand-key", "")], false),
            (vec![("x-longhand-key", "two"), ("authorization", "Bearer provider")], true),
            (vec![("authorization", "bearer one"), ("x-api-key", "provider")], true),
            (vec![("x-api-key", "one")], true),
            (vec![("x-api-key", "one"), ("origin", "https://evil.example")], false),
        ] {
            let mut headers = headers(&pairs);
            let found = guard.check(&Uri::from_static("/"), &mut headers);
            assert_eq!(found.is_ok(), expected, "{pairs:?}");
            if found.is_ok() {
                let left: Vec<_> =
                    CREDENTIALS.iter().filter_map(|name| headers.get(name)).collect();
                assert!(
                    left.iter().all(|value| value.as_bytes().ends_with(b"provider")),
                    "{left:?}"
                );
                assert!(headers.contains_key(KEY));
            }
        }
    }
}
