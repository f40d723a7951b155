//! Who may speak to a proxy.

use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, Uri};

/// Whether a request to a loopback address comes from a program of this machine.
///
/// A web page can make a browser send requests here: its own name stands in `Origin`, and in `Host` if
/// it had that name point to this machine.
pub(crate) fn is_local(uri: &Uri, headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = text(HOST).or_else(|| uri.authority().map(axum::http::uri::Authority::as_str));
    let origin_is_local = text(ORIGIN).is_none_or(|origin| {
        let host = origin.split_once("://").map(|(_, host)| host);
        host.is_some_and(is_loopback)
    });
    host.is_none_or(is_loopback) && origin_is_local
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

    #[test]
    fn web_pages_are_kept_out() {
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
            let mut headers = HeaderMap::new();
            for (name, value) in [(HOST, host), (ORIGIN, origin)] {
                if let Some(value) = value {
                    headers.insert(name, value.parse().unwrap());
                }
            }
            let found = is_local(&Uri::from_static("/v1/models"), &headers);
            assert_eq!(found, expected, "{host:?} {origin:?}");
        }
    }
}
