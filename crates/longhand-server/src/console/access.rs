//! Who may look: links that work once, keys, and the cookies that both are exchanged for.
//!
//! Of all secrets only hashes are kept, which compare in constant time. They live as long as the program does.

use std::collections::HashMap;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use blake3::Hash;
use hyper::HeaderMap;
use hyper::header::COOKIE;
use longhand::Owner;

use crate::ServerError;
use crate::credentials::Ownership;
use crate::lock::lock;

/// How long a cookie is good without being used.
const LOGIN_TIME: Duration = Duration::from_hours(24 * 7);

/// How many browsers may be logged in; one more takes the place of the one that was used longest ago.
const LOGINS_MAX: usize = 64;

/// How many links may wait to be opened.
const LINKS_MAX: usize = 64;

/// So many failed tries are answered in a while; then nobody may try.
const TRIES_MAX: usize = 10;
const TRIES_TIME: Duration = Duration::from_mins(1);

/// Whose sessions somebody sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Viewer {
    /// All of them: the link was printed to whoever started the program, and can open the archive.
    Everything,
    /// Those of a key.
    Owner(Owner),
}

/// What somebody logs in with.
#[derive(Debug)]
pub(super) enum Secret {
    /// The token of a link.
    Token(String),
    /// A key of the proxy.
    Key(String),
}

/// Why somebody is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoginError {
    /// The link was opened before, or is not of this program.
    NoLink,
    /// No such key.
    NoKey,
    /// Too many tries failed just now.
    TooMany,
    /// The system has no random bytes.
    NoRandom,
}

/// Who may look.
pub(super) struct Access {
    cookie: String,
    /// Where the cookie is sent to.
    path: String,
    keys: Vec<Hash>,
    ownership: Ownership,
    links: Mutex<Vec<Hash>>,
    logins: Mutex<HashMap<Hash, Login>>,
    failures: Mutex<Vec<Instant>>,
}

#[derive(Clone, Copy)]
struct Login {
    viewer: Viewer,
    used: Instant,
}

impl Access {
    pub(super) fn new(
        address: SocketAddr,
        prefix: &str,
        keys: &[String],
        ownership: Ownership,
    ) -> Self {
        Self {
            // Browsers send a cookie to every port of a host.
            cookie: format!("longhand-console-{}", address.port()),
            path: format!("{prefix}/longhand/"),
            keys: keys.iter().map(|key| blake3::hash(key.as_bytes())).collect(),
            ownership,
            links: Mutex::default(),
            logins: Mutex::default(),
            failures: Mutex::default(),
        }
    }

    /// The token of a new link.
    pub(super) fn new_link(&self) -> Result<String, ServerError> {
        let token = random().ok_or(ServerError::NoRandom)?;
        let mut links = lock(&self.links);
        if links.len() >= LINKS_MAX {
            links.remove(0);
        }
        links.push(blake3::hash(token.as_bytes()));
        Ok(token)
    }

    /// Exchanges a secret for a cookie, which is returned as a header has it. A token is good once.
    pub(super) fn login(&self, secret: &Secret) -> Result<(Viewer, String), LoginError> {
        let now = Instant::now();
        {
            let mut failures = lock(&self.failures);
            failures.retain(|at| now.duration_since(*at) < TRIES_TIME);
            if failures.len() >= TRIES_MAX {
                return Err(LoginError::TooMany);
            }
        }
        let viewer = match secret {
            Secret::Token(token) => self.take_link(token),
            Secret::Key(key) => self.key_viewer(key),
        };
        let viewer = viewer.inspect_err(|_| lock(&self.failures).push(now))?;
        let value = random().ok_or(LoginError::NoRandom)?;
        let mut logins = lock(&self.logins);
        logins.retain(|_, login| now.duration_since(login.used) < LOGIN_TIME);
        if logins.len() >= LOGINS_MAX {
            let oldest = logins.iter().min_by_key(|(_, login)| login.used).map(|(hash, _)| *hash);
            oldest.map(|hash| logins.remove(&hash));
        }
        logins.insert(blake3::hash(value.as_bytes()), Login { viewer, used: now });
        Ok((viewer, self.set_cookie(&value, LOGIN_TIME)))
    }

    fn take_link(&self, token: &str) -> Result<Viewer, LoginError> {
        let hash = blake3::hash(token.as_bytes());
        let mut links = lock(&self.links);
        let at = links.iter().position(|link| *link == hash).ok_or(LoginError::NoLink)?;
        links.remove(at);
        Ok(Viewer::Everything)
    }

    fn key_viewer(&self, key: &str) -> Result<Viewer, LoginError> {
        let hash = blake3::hash(key.as_bytes());
        // All are compared, so that time does not tell which one was nearly right.
        if self.keys.iter().filter(|known| **known == hash).count() == 0 {
            return Err(LoginError::NoKey);
        }
        Ok(Viewer::Owner(self.ownership.owner_of_key(key.as_bytes())))
    }

    /// Whose sessions the sender of a request sees; `None` without a cookie of ours.
    pub(super) fn viewer(&self, headers: &HeaderMap) -> Option<Viewer> {
        let now = Instant::now();
        let mut logins = lock(&self.logins);
        self.cookies(headers).find_map(|hash| {
            let login = logins.get_mut(&hash)?;
            if now.duration_since(login.used) >= LOGIN_TIME {
                logins.remove(&hash);
                return None;
            }
            login.used = now;
            Some(login.viewer)
        })
    }

    /// Ends a login. Returns the header that has the browser forget the cookie.
    pub(super) fn logout(&self, headers: &HeaderMap) -> String {
        let mut logins = lock(&self.logins);
        for hash in self.cookies(headers) {
            logins.remove(&hash);
        }
        self.set_cookie("", Duration::ZERO)
    }

    fn cookies(&self, headers: &HeaderMap) -> impl Iterator<Item = Hash> {
        let values = headers.get_all(COOKIE).into_iter().filter_map(|value| value.to_str().ok());
        let pairs = values.flat_map(|value| value.split(';')).filter_map(|pair| {
            let (name, value) = pair.trim().split_once('=')?;
            (name == self.cookie).then(|| blake3::hash(value.as_bytes()))
        });
        pairs.take(8)
    }

    fn set_cookie(&self, value: &str, age: Duration) -> String {
        format!(
            "{}={value}; Path={}; Max-Age={}; HttpOnly; SameSite=Strict",
            self.cookie,
            self.path,
            age.as_secs()
        )
    }
}

/// A secret that nobody can guess.
fn random() -> Option<String> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hyper::header::HeaderValue;
    use longhand::MemoryArchive;

    use super::*;
    use crate::Settings;

    fn access(keys: &[&str]) -> Access {
        let mut settings = Settings::new(Arc::new(MemoryArchive::default()));
        settings.keys = keys.iter().map(|key| (*key).to_owned()).collect();
        let ownership = Ownership::new(&settings);
        Access::new("127.0.0.1:4141".parse().unwrap(), "", &settings.keys, ownership)
    }

    fn with_cookie(set_cookie: &str) -> HeaderMap {
        let pair = set_cookie.split(';').next().unwrap();
        let mut headers = HeaderMap::new();
        let value = format!("other=1; {pair}; longhand-console-4142=2");
        headers.insert(COOKIE, HeaderValue::from_str(&value).unwrap());
        headers
    }

    #[test]
    fn a_link_works_once() {
        let access = access(&[]);
        let token = access.new_link().unwrap();
        let (viewer, cookie) = access.login(&Secret::Token(token.clone())).unwrap();
        assert_eq!(viewer, Viewer::Everything);
        assert!(cookie.starts_with("longhand-console-4141="), "{cookie}");
        for attribute in ["; HttpOnly", "; SameSite=Strict", "; Path=/longhand/"] {
            assert!(cookie.contains(attribute), "{cookie}");
        }
        assert_eq!(access.login(&Secret::Token(token)).unwrap_err(), LoginError::NoLink);
        assert_eq!(access.viewer(&with_cookie(&cookie)), Some(Viewer::Everything));
        assert_eq!(access.viewer(&HeaderMap::new()), None);
        assert_eq!(access.viewer(&with_cookie("longhand-console-4141=guess; x")), None);
        let forgotten = access.logout(&with_cookie(&cookie));
        assert!(forgotten.contains("Max-Age=0"), "{forgotten}");
        assert_eq!(access.viewer(&with_cookie(&cookie)), None);
    }

    #[test]
    fn each_key_has_its_owner_and_no_other_text_is_one() {
        let keyed = access(&["key-of-ann", "key-of-bob"]);
        let viewer = |key: &str| keyed.login(&Secret::Key(key.to_owned())).map(|login| login.0);
        let ann = viewer("key-of-ann").unwrap();
        assert_eq!(viewer("key-of-ann").unwrap(), ann);
        assert_ne!(viewer("key-of-bob").unwrap(), ann);
        assert_ne!(ann, Viewer::Everything);
        assert_eq!(viewer("key-of-an"), Err(LoginError::NoKey));
        assert_eq!(viewer(""), Err(LoginError::NoKey));
        assert_eq!(access(&[]).login(&Secret::Key(String::new())).unwrap_err(), LoginError::NoKey);
    }

    #[test]
    fn guesses_are_few_and_logins_have_a_limit() {
        let keyed = access(&["key-of-ann"]);
        for _ in 0..TRIES_MAX {
            let guess = Secret::Key("guess".to_owned());
            assert_eq!(keyed.login(&guess).unwrap_err(), LoginError::NoKey);
        }
        let right = Secret::Key("key-of-ann".to_owned());
        assert_eq!(keyed.login(&right).unwrap_err(), LoginError::TooMany);
        let access = access(&[]);
        let mut first = None;
        for _ in 0..=LOGINS_MAX {
            let token = access.new_link().unwrap();
            let (_, cookie) = access.login(&Secret::Token(token)).unwrap();
            first.get_or_insert(cookie);
        }
        assert_eq!(lock(&access.logins).len(), LOGINS_MAX);
        assert_eq!(access.viewer(&with_cookie(&first.unwrap())), None, "the oldest made room");
    }
}
