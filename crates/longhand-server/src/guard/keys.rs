//! The keys of which a caller must have one.

use hyper::Uri;
use hyper::header::HeaderName;
use hyper::http::request::Parts;
use hyper::http::uri::PathAndQuery;

use super::Refused;
use crate::credentials::{Credentials, parameters};
use crate::route::unescaped;

/// The keys of a path; without any, everybody is let in, or nobody.
pub(super) struct Keys {
    texts: Vec<String>,
    /// Whether nobody is let in without a key, even if there is none.
    is_closed: bool,
    /// Hashes of the keys, which compare in constant time.
    hashes: Vec<blake3::Hash>,
}

impl Keys {
    pub(super) fn new(keys: &[String]) -> Self {
        let hashes = keys.iter().map(|key| blake3::hash(key.as_bytes())).collect();
        Self { texts: keys.to_vec(), is_closed: false, hashes }
    }

    /// The same for a path that is never open.
    pub(super) fn closed(self) -> Self {
        Self { is_closed: true, ..self }
    }

    /// Checks that a request has one of the keys, and takes them out: they are for nobody else.
    pub(super) fn check(
        &self,
        parts: &mut Parts,
        credentials: &Credentials,
    ) -> Result<(), Refused> {
        if self.texts.is_empty() {
            return if self.is_closed { Err(Refused::NoKeys) } else { Ok(()) };
        }
        // All are compared, so that time does not tell which one was nearly right.
        let known = credentials
            .keys()
            .map(blake3::hash)
            .filter(|hash| self.hashes.iter().filter(|known| *known == hash).count() > 0);
        if known.count() == 0 {
            return Err(Refused::NoKey);
        }
        self.take(parts)
    }

    /// Removes every header and every parameter that has one of our keys in it.
    fn take(&self, parts: &mut Parts) -> Result<(), Refused> {
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
            let kept: Vec<&str> =
                parameters(&parts.uri).filter(|parameter| !is_ours(parameter)).collect();
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
        self.texts.iter().map(String::as_bytes).filter(|key| !key.is_empty()).any(|key| {
            let mut places = text.windows(key.len()).enumerate();
            places.any(|(at, place)| {
                place == key
                    && !at.checked_sub(1).is_some_and(is_letter)
                    && !is_letter(at + key.len())
            })
        })
    }
}
