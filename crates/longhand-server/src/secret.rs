//! The secret that callers of a private proxy have.

use hyper::Uri;
use hyper::header::{HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::http::uri::PathAndQuery;

/// The header in which Codex sends the value of `OPENAI_PROJECT`.
///
/// Codex takes its address as an argument, which other users of the machine can read, so the secret is not in it.
const PROJECT: HeaderName = HeaderName::from_static("openai-project");

/// What separates the secret from the user's own project.
const SEPARATOR: u8 = b'.';

/// The secret that every request must have, as the first piece of its path or in a header.
pub(crate) struct RunSecret {
    /// Hashes compare in constant time.
    hash: blake3::Hash,
    length: usize,
}

impl RunSecret {
    pub(crate) fn new(secret: &str) -> Self {
        Self { hash: blake3::hash(secret.as_bytes()), length: secret.len() }
    }

    /// Takes the secret out of a request. Returns whether it was there.
    pub(crate) fn take(&self, parts: &mut Parts) -> bool {
        let in_path = self.without(&parts.uri);
        let is_in_path = in_path.is_some();
        if let Some(uri) = in_path {
            parts.uri = uri;
        }
        // A caller may send it in both places, and it must go on in neither.
        self.take_header(parts) || is_in_path
    }

    /// The address without the secret, if its path begins with it.
    fn without(&self, uri: &Uri) -> Option<Uri> {
        let (first, rest) = match uri.path().strip_prefix('/')?.split_once('/') {
            Some((first, rest)) => (first, rest),
            None => (uri.path().strip_prefix('/')?, ""),
        };
        if !self.is(first.as_bytes()) {
            return None;
        }
        let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        let mut parts = uri.clone().into_parts();
        parts.path_and_query = Some(format!("/{rest}{query}").parse::<PathAndQuery>().ok()?);
        Uri::from_parts(parts).ok()
    }

    fn take_header(&self, parts: &mut Parts) -> bool {
        let Some(value) = parts.headers.get(&PROJECT) else { return false };
        let Some((secret, rest)) = value.as_bytes().split_at_checked(self.length) else {
            return false;
        };
        if !self.is(secret) {
            return false;
        }
        let project = rest.strip_prefix(&[SEPARATOR]).unwrap_or_default();
        let project = HeaderValue::from_bytes(project).ok().filter(|project| !project.is_empty());
        match project {
            Some(project) => parts.headers.insert(PROJECT, project),
            None => parts.headers.remove(PROJECT),
        };
        true
    }

    fn is(&self, text: &[u8]) -> bool {
        blake3::hash(text) == self.hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Request;

    /// The address and the project of a request after the secret was taken out; `None` if it was not there.
    fn taken(uri: &str, project: Option<&str>) -> Option<(String, Option<String>)> {
        let (mut parts, ()) = Request::builder().uri(uri).body(()).unwrap().into_parts();
        if let Some(project) = project {
            parts.headers.insert(PROJECT, project.parse().unwrap());
        }
        let is_there = RunSecret::new("s3cret").take(&mut parts);
        let project = parts.headers.get(PROJECT).map(|value| value.to_str().unwrap().to_owned());
        is_there.then(|| (parts.uri.to_string(), project))
    }

    #[test]
    fn the_secret_is_taken_out_of_path_and_header() {
        let kept = || Some("proj_1".to_owned());
        for (uri, sent, expected) in [
            ("/s3cret/v1/models?a=1", None, Some(("/v1/models?a=1", None))),
            ("/s3cret", None, Some(("/", None))),
            ("/s3cret//v1/", None, Some(("//v1/", None))),
            ("http://a:1/s3cret/v1", None, Some(("http://a:1/v1", None))),
            ("/s3cret/v1", Some("proj_1"), Some(("/v1", kept()))),
            ("/s3cret/v1", Some("s3cret.proj_1"), Some(("/v1", kept()))),
            ("/v1/models", Some("s3cret"), Some(("/v1/models", None))),
            ("/v1/models", Some("s3cret.proj_1"), Some(("/v1/models", kept()))),
            ("/v1/models", None, None),
            ("/v1/models", Some("proj_1"), None),
            ("/v1/models", Some("s3cre"), None),
            ("/s3cre/v1", None, None),
            ("/s3cret2/v1", None, None),
            ("/S3CRET/v1", None, None),
            ("/v1/s3cret", None, None),
            ("//s3cret/v1", None, None),
            ("/?s3cret", None, None),
        ] {
            let expected = expected.map(|(uri, project)| (uri.to_owned(), project));
            assert_eq!(taken(uri, sent), expected, "{uri} {sent:?}");
        }
    }
}
