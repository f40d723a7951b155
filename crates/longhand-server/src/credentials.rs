//! The keys of a request, and the owner that they stand for.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use hyper::header::{AUTHORIZATION, HeaderName};
use hyper::{HeaderMap, Uri};
use longhand::Owner;
use serde_json::Value;

use crate::Settings;

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
}

/// Decides who owns the sessions of a request; nothing else does.
///
/// 1. The owner that the settings name: `run` serves the local user alone.
/// 2. Longhand's own key, where keys are set; the provider's keys then say nothing.
/// 3. The provider's API key. On loopback a token that is refreshed while people work stands for its account,
///    or for nobody in particular: it must not split their conversations.
/// 4. The local user on loopback, and nobody's owner elsewhere.
#[derive(Debug)]
pub(crate) struct Ownership {
    only: Option<Owner>,
    our_keys: Vec<blake3::Hash>,
    is_local: bool,
}

impl Ownership {
    pub(crate) fn new(settings: &Settings) -> Self {
        let our_keys = settings.keys.iter().map(|key| blake3::hash(key.as_bytes())).collect();
        Self { only: settings.owner, our_keys, is_local: settings.listen.ip().is_loopback() }
    }

    /// The owner of a request with these keys. Only a hash of them is kept.
    pub(crate) fn owner(&self, credentials: &Credentials) -> Owner {
        if let Some(only) = self.only {
            return only;
        }
        let is_ours = |key: &&[u8]| self.our_keys.contains(&blake3::hash(key));
        if let Some(ours) = credentials.keys().find(is_ours) {
            return hashed([ours]);
        }
        let accounts: BTreeSet<Vec<u8>> =
            credentials.keys().filter_map(|key| self.account(key)).collect();
        match (accounts.is_empty(), self.is_local) {
            (false, _) => hashed(accounts.iter().map(Vec::as_slice)),
            (true, true) => Owner::LOCAL,
            // The sessions of the commands on this machine are not for strangers.
            (true, false) => Owner::of(""),
        }
    }

    /// The owner of requests with this key of ours.
    pub(crate) fn owner_of_key(&self, key: &[u8]) -> Owner {
        self.owner(&Credentials { keys: vec![key.to_vec()] })
    }

    /// The part of a provider's key that stays the same when it is renewed; `None` if nothing does.
    ///
    /// What a token says of itself is not verified, so it counts only where all callers are on this machine.
    fn account(&self, key: &[u8]) -> Option<Vec<u8>> {
        if !self.is_local {
            return Some(key.to_vec());
        }
        if SHORT_LIVED.iter().any(|prefix| key.starts_with(prefix)) {
            return None;
        }
        match claims(key).filter(|claims| claims.get("exp").is_some()) {
            Some(claims) => {
                let claim = |name: &str| claims[name].as_str().filter(|value| !value.is_empty());
                let (issuer, subject) = (claim("iss")?, claim("sub")?);
                // No key begins like this: headers have no such byte.
                Some(format!("\0{}\0{issuer}\0{subject}", issuer.len()).into_bytes())
            }
            None => Some(key.to_vec()),
        }
    }
}

/// The prefixes of tokens that programs renew: Anthropic's, Google's, and GitHub's for apps and Copilot.
const SHORT_LIVED: [&[u8]; 5] = [b"sk-ant-oat", b"ya29.", b"ghu_", b"ghs_", b"tid="];

/// What a JSON web token says; keys without an end may have the same form.
fn claims(key: &[u8]) -> Option<Value> {
    let mut pieces = key.split(|byte| *byte == b'.');
    let mut piece = || {
        let json = from_base64url(pieces.next()?)?;
        serde_json::from_slice::<Value>(&json).ok().filter(Value::is_object)
    };
    let (_header, claims) = (piece()?, piece()?);
    Some(claims)
}

/// Decodes base64 in the alphabet of addresses, with or without padding.
fn from_base64url(text: &[u8]) -> Option<Vec<u8>> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for byte in text.trim_ascii_end().iter().filter(|byte| **byte != b'=') {
        let digit = ALPHABET.iter().position(|letter| letter == byte)?;
        bits = bits << 6 | digit as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    Some(bytes)
}

fn hashed<'k>(keys: impl IntoIterator<Item = &'k [u8]>) -> Owner {
    let mut hasher = OWNER.clone();
    for key in keys {
        hasher.update(&(key.len() as u64).to_le_bytes()).update(key);
    }
    Owner::of(&hasher.finalize().to_hex())
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
    use std::sync::Arc;

    use hyper::header::HeaderValue;
    use longhand::MemoryArchive;
    use serde_json::json;

    fn ownership(change: impl FnOnce(&mut Settings)) -> Ownership {
        let mut settings = Settings::new(Arc::new(MemoryArchive::default()));
        change(&mut settings);
        Ownership::new(&settings)
    }

    fn owner(uri: &'static str, pairs: &[(&'static str, &str)]) -> Owner {
        owner_by(&ownership(|_| {}), uri, pairs)
    }

    fn owner_by(ownership: &Ownership, uri: &'static str, pairs: &[(&'static str, &str)]) -> Owner {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        let more = [HeaderName::from_static("x-team")];
        ownership.owner(&Credentials::of(&Uri::from_static(uri), &headers, &more))
    }

    fn bearer(ownership: &Ownership, key: &str) -> Owner {
        owner_by(ownership, "/", &[("authorization", &format!("Bearer {key}"))])
    }

    fn token(claims: &Value) -> String {
        let piece = |json: &Value| to_base64url(json.to_string().as_bytes());
        let header = json!({"alg": "RS256", "typ": "JWT"});
        format!("{}.{}.c2lnbmF0dXJl", piece(&header), piece(claims))
    }

    fn to_base64url(bytes: &[u8]) -> String {
        let alphabet: Vec<char> = ('A'..='Z').chain('a'..='z').chain('0'..='9').collect();
        let letter = |digit: usize| *alphabet.get(digit).unwrap_or(&['-', '_'][digit & 1]);
        let bits: String = bytes.iter().map(|byte| format!("{byte:08b}")).collect();
        let digits = bits.as_bytes().chunks(6).map(|digit| {
            let digit = format!("{:0<6}", String::from_utf8_lossy(digit));
            letter(usize::from_str_radix(&digit, 2).unwrap())
        });
        digits.collect()
    }

    #[test]
    fn what_is_written_in_base64_is_read() {
        for text in ["", "a", "ab", "abc", "{\"sub\":\"Größe~?>\"}"] {
            let written = to_base64url(text.as_bytes());
            assert_eq!(from_base64url(written.as_bytes()).as_deref(), Some(text.as_bytes()));
        }
        assert_eq!(from_base64url(b"YWI="), Some(b"ab".to_vec()));
        assert_eq!(from_base64url(b"a+b"), None);
    }

    #[test]
    fn a_token_that_is_renewed_stays_its_account_s_on_loopback() {
        let owners = ownership(|_| {});
        let jwt = |issuer: &str, subject: &str, end: u64| {
            token(&json!({"iss": issuer, "sub": subject, "exp": end, "jti": end}))
        };
        let one = bearer(&owners, &jwt("https://auth.example", "ann", 1));
        assert_eq!(bearer(&owners, &jwt("https://auth.example", "ann", 2)), one);
        let others = [
            jwt("https://auth.example", "bob", 1),
            jwt("https://other.example", "ann", 1),
            jwt("https://auth.example\0ann", "", 1),
        ];
        for other in others {
            assert_ne!(bearer(&owners, &other), one, "{other}");
        }
        assert_ne!(one, Owner::LOCAL);
        // Nothing in these stays the same: they are the local user's.
        let nameless = token(&json!({"exp": 9, "scope": "all"}));
        for key in ["sk-ant-oat01-one", "sk-ant-oat01-two", "ya29.a0", "tid=1;exp=2", &nameless] {
            assert_eq!(bearer(&owners, key), Owner::LOCAL, "{key}");
        }
        // A key without an end is a key, whatever its form.
        let endless = |group: &str| token(&json!({"iss": "provider", "group": group}));
        assert_ne!(bearer(&owners, &endless("a")), bearer(&owners, &endless("b")));
        for key in ["a.b.c", "e30.e30.", "..", "eyJ", "sk-ant-api03-x"] {
            assert_ne!(bearer(&owners, key), Owner::LOCAL, "{key}");
        }
        // Where strangers call, nothing unverified is believed.
        let open = ownership(|settings| settings.listen = "0.0.0.0:1".parse().unwrap());
        let tokens = [1, 2].map(|end| bearer(&open, &jwt("https://auth.example", "ann", end)));
        assert_ne!(tokens[0], tokens[1]);
        let tokens = ["sk-ant-oat01-one", "sk-ant-oat01-two"].map(|key| bearer(&open, key));
        assert!(tokens[0] != tokens[1] && tokens[0] != owner_by(&open, "/", &[]));
        assert_ne!(owner_by(&open, "/", &[]), Owner::LOCAL);
    }

    #[test]
    fn our_own_key_says_it_all_where_keys_are_set_and_settings_come_first() {
        let keyed = ownership(|settings| settings.keys = vec!["ann".into(), "bob".into()]);
        let by = |pairs: &[(&'static str, &str)]| owner_by(&keyed, "/", pairs);
        let ann = by(&[("x-longhand-key", "ann")]);
        for pairs in [
            [("x-longhand-key", "ann"), ("authorization", "Bearer sk-one")],
            [("x-longhand-key", "ann"), ("authorization", "Bearer sk-two")],
            [("authorization", "Bearer ann"), ("x-api-key", "sk-three")],
        ] {
            assert_eq!(by(&pairs), ann, "{pairs:?}");
        }
        let bob = by(&[("x-longhand-key", "bob"), ("authorization", "Bearer sk-one")]);
        assert!(bob != ann && ann != Owner::LOCAL);
        let local = ownership(|settings| settings.owner = Some(Owner::LOCAL));
        for key in ["sk-one", "sk-ant-oat01-two", "ann"] {
            assert_eq!(bearer(&local, key), Owner::LOCAL, "{key}");
        }
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
