//! The keys that a caller shows, wherever providers take one.

use std::sync::LazyLock;

use hyper::header::{AUTHORIZATION, HeaderName};
use hyper::{HeaderMap, Uri};
use longhand::Owner;

use crate::headers::KEY;
use crate::route::unescaped;

/// The headers in which providers take a key.
const HEADERS: [HeaderName; 5] = [
    AUTHORIZATION,
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("x-goog-api-key"),
    HeaderName::from_static("api-key"),
    KEY,
];

/// The parameters of an address in which providers take a key.
const PARAMETERS: [&str; 4] = ["key", "api_key", "api-key", "access_token"];

/// Hashes the keys of an owner, before the first of them.
static OWNER: LazyLock<blake3::Hasher> =
    LazyLock::new(|| blake3::Hasher::new_derive_key("longhand-server 2026-11 owner of sessions"));

/// The distinct keys of a request, in order.
///
/// Only their values count: a key is the same whether it comes as a bearer token or in `x-api-key`.
#[derive(Default)]
pub(crate) struct Credentials {
    keys: Vec<Vec<u8>>,
}

impl Credentials {
    /// Reads the keys of a request; `more` are headers that hold keys besides the usual ones.
    pub(crate) fn of(uri: &Uri, headers: &HeaderMap, more: &[HeaderName]) -> Self {
        let names = HEADERS.into_iter().chain(more.iter().cloned());
        let values = names.flat_map(|name| headers.get_all(name));
        let in_headers = values.map(|value| token(value.as_bytes()).to_vec());
        let in_address = parameters(uri).filter_map(|parameter| {
            let (name, value) = parameter.split_once('=')?;
            let name = unescaped(name);
            let is_key = PARAMETERS.iter().any(|key| name.eq_ignore_ascii_case(key.as_bytes()));
            is_key.then(|| unescaped(value).trim_ascii().to_vec())
        });
        let mut keys: Vec<Vec<u8>> =
            in_headers.chain(in_address).filter(|key| !key.is_empty()).collect();
        keys.sort();
        keys.dedup();
        Self { keys }
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.iter().map(Vec::as_slice)
    }

    /// Whoever has these keys, of which only a hash is kept; `nobody` stands for callers without any.
    pub(crate) fn owner(&self, nobody: Owner) -> Owner {
        if self.keys.is_empty() {
            return nobody;
        }
        let mut hasher = OWNER.clone();
        for key in &self.keys {
            hasher.update(&(key.len() as u64).to_le_bytes()).update(key);
        }
        Owner::of(&hasher.finalize().to_hex())
    }
}

/// A header's value without the word that says what kind of key it is.
fn token(value: &[u8]) -> &[u8] {
    let value = value.trim_ascii();
    match value.split_at_checked(7) {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case(b"bearer ") => key.trim_ascii(),
        _ if value.eq_ignore_ascii_case(b"bearer") => b"",
        _ => value,
    }
}

/// The parameters of an address as they are written.
pub(crate) fn parameters(uri: &Uri) -> impl Iterator<Item = &str> {
    uri.query().unwrap_or_default().split('&')
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn owner(uri: &'static str, pairs: &[(&'static str, &str)]) -> Owner {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        let more = [HeaderName::from_static("x-team")];
        Credentials::of(&Uri::from_static(uri), &headers, &more).owner(Owner::LOCAL)
    }

    #[test]
    fn an_owner_is_whoever_has_the_key_in_any_form() {
        let one = owner("/", &[("authorization", "Bearer k")]);
        for (uri, pairs) in [
            ("/", [("authorization", "bearer  k ")]),
            ("/", [("x-api-key", "k")]),
            ("/", [("x-goog-api-key", "k")]),
            ("/", [("api-key", "k")]),
            ("/", [("x-longhand-key", "k")]),
            ("/", [("x-team", "k")]),
            ("/v1/messages?alt=sse&key=k", [("x-else", "1")]),
            ("/?KEY=%6B", [("x-else", "1")]),
        ] {
            assert_eq!(owner(uri, &pairs), one, "{uri} {pairs:?}");
        }
        for (uri, pairs) in [
            ("/", vec![("authorization", "Bearer K")]),
            ("/", vec![("authorization", "Basic k")]),
            ("/", vec![("x-api-key", "k"), ("x-api-key", "l")]),
            ("/?key=kk", vec![]),
            ("/?key=k", vec![("x-api-key", "l")]),
        ] {
            let other = owner(uri, &pairs);
            assert!(other != one && other != Owner::LOCAL, "{uri} {pairs:?}");
        }
        for (uri, pairs) in [
            ("/", vec![]),
            ("/?monkey=k", vec![("x-key", "k")]),
            ("/?key=", vec![("authorization", "Bearer ")]),
        ] {
            assert_eq!(owner(uri, &pairs), Owner::LOCAL, "{uri} {pairs:?}");
        }
    }

    #[test]
    fn the_order_of_keys_says_nothing_and_their_borders_do() {
        let pairs = [("x-api-key", "ab"), ("api-key", "c")];
        let one = owner("/", &pairs);
        assert_eq!(owner("/", &[("x-api-key", "c"), ("api-key", "ab")]), one);
        assert_ne!(owner("/", &[("x-api-key", "a"), ("api-key", "bc")]), one);
    }
}
