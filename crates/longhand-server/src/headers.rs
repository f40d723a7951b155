//! The headers of Longhand, and which headers are passed on.

use hyper::HeaderMap;
use hyper::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST,
    HeaderName, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use longhand_dialect::BINDING_BETA;

use crate::request::window::RequestWindow;

/// Names the session of a request; in an answer, the session that was found.
pub(crate) const SESSION: HeaderName = HeaderName::from_static("x-longhand-session");
/// What was done with a request: `passed`, `compacted` or `bypassed`.
pub(crate) const OUTCOME: HeaderName = HeaderName::from_static("x-longhand");
/// The tokens that came in.
pub(crate) const BEFORE: HeaderName = HeaderName::from_static("x-longhand-tokens-before");
/// The tokens that were sent.
pub(crate) const AFTER: HeaderName = HeaderName::from_static("x-longhand-tokens-after");
/// How many edits the window has.
pub(crate) const EDITS: HeaderName = HeaderName::from_static("x-longhand-edits");
/// How far the window is over its budget, if it is.
pub(crate) const SHORTFALL: HeaderName = HeaderName::from_static("x-longhand-shortfall");

/// What a user should know, once a session.
pub(crate) const NOTICE: HeaderName = HeaderName::from_static("x-longhand-notice");

/// Has a request sent as it is; it is archived all the same.
pub(crate) const BYPASS: HeaderName = HeaderName::from_static("x-longhand-bypass");

/// Leaves a conversation out of the archive: its edits are kept in memory for a while.
pub(crate) const NO_ARCHIVE: HeaderName = HeaderName::from_static("x-longhand-no-archive");

/// The key that a caller needs where one is wanted.
pub(crate) const KEY: HeaderName = HeaderName::from_static("x-longhand-key");

/// How all headers of ours begin; none of them is passed on.
const OURS: &str = "x-longhand";

/// Names the beta features that a request to Anthropic uses.
const BETA: HeaderName = HeaderName::from_static("anthropic-beta");

const HOP_BY_HOP: [HeaderName; 7] =
    [CONNECTION, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];

/// The headers of a request as the upstream gets them; its body stays as it is.
pub(crate) fn onward(headers: &HeaderMap) -> HeaderMap {
    let mut passed = end_to_end(headers);
    passed.remove(HOST);
    // It was answered when the body was read.
    passed.remove(EXPECT);
    passed
}

/// The headers of a request that is sent as a window and whose answer we want to read.
pub(crate) fn onward_readable(headers: &HeaderMap, window: &RequestWindow) -> HeaderMap {
    let mut passed = onward(headers);
    passed.remove(CONTENT_LENGTH);
    if window.body.is_some() {
        // What we write is not compressed.
        passed.remove(CONTENT_ENCODING);
    }
    if window.drops_thinking {
        passed.append(BETA, HeaderValue::from_static(BINDING_BETA));
    }
    // A compressed answer is read only at its end, and not if it is compressed with brotli.
    passed.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    passed
}

/// Says in an answer that its request went on as it came.
pub(crate) fn tell_bypassed(headers: &mut HeaderMap) {
    let notice = HeaderValue::from_static("this request and its answer are not archived");
    headers.insert(NOTICE, notice);
    headers.insert(OUTCOME, HeaderValue::from_static("bypassed"));
}

/// The value of a header that is a number.
pub(crate) fn number(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}

/// The type of an answer that comes in events.
const EVENTS: &[u8] = b"text/event-stream";

/// Whether an answer comes in events.
pub(crate) fn is_events(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let beginning = kind.trim_start().as_bytes().get(..EVENTS.len());
    beginning.is_some_and(|beginning| beginning.eq_ignore_ascii_case(EVENTS))
}

/// The headers without those of one connection, and without ours.
pub(crate) fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let listed: Vec<String> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    let mut passed = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        let stays = !HOP_BY_HOP.contains(name)
            && !matches!(name.as_str(), "keep-alive" | "proxy-connection")
            && !name.as_str().starts_with(OURS)
            && !listed.iter().any(|listed| listed == name.as_str());
        if stays {
            passed.append(name, value.clone());
        }
    }
    passed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_a_connection_stays_there() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "keep-alive, X-Private"),
            ("keep-alive", "timeout=5"),
            ("x-private", "1"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("x-longhand-session", "s"),
            ("host", "127.0.0.1"),
            ("authorization", "Bearer k"),
            ("x-twice", "1"),
            ("x-twice", "2"),
        ] {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let mut names: Vec<String> =
            onward(&headers).iter().map(|(name, _)| name.to_string()).collect();
        names.sort();
        assert_eq!(names, ["authorization", "x-twice", "x-twice"]);
    }
}
