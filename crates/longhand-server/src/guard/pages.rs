//! Telling programs from web pages.
//!
//! A web page can make a browser send requests here. The browser says so in `Sec-Fetch-Site`. The origin of the page
//! stands in `Origin`, and its name in `Host` if the page had that name point to this machine. A page on another port
//! of this machine is no better: another user may serve it.

use std::net::{IpAddr, SocketAddr};

use hyper::header::{HOST, HeaderName, HeaderValue, ORIGIN};
use hyper::http::uri::Authority;
use hyper::{HeaderMap, Uri};

/// Where a browser says whether the page that asks is of the same site as what it asks for.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Where it says that a person opens a page, and that it will not be a part of another.
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// The port of an HTTP address that names none.
const HTTP_PORT: u16 = 80;

/// Lets in programs, and pages that this proxy serves itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageRule {
    /// Where the proxy listens.
    address: SocketAddr,
}

/// The host and the port of an address.
#[derive(Debug, PartialEq, Eq)]
struct HostAndPort {
    host: Host,
    port: u16,
}

#[derive(Debug, PartialEq, Eq)]
enum Host {
    Ip(IpAddr),
    /// In small letters.
    Name(String),
}

impl PageRule {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self { address }
    }

    /// Whether a request comes from a program, or from a page that this proxy serves.
    pub(super) fn allows(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let host = match headers.get(HOST) {
            Some(host) => Some(text(host)),
            None => uri.authority().map(Authority::as_str),
        };
        let mut origins = headers.get_all(ORIGIN).into_iter().map(text);
        let mut sites = headers.get_all(FETCH_SITE).into_iter().map(text);
        self.allows_host(host)
            && origins.all(|origin| self.is_ours(origin, host))
            // A person who types the address is nobody's page.
            && sites.all(|site| ["none", "same-origin"].contains(&site))
    }

    /// Whether somebody opens a page of ours by a link that stands elsewhere. What such a page says must be for everybody,
    /// and no other page may hold it in a frame.
    pub(super) fn allows_visit(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let host = match headers.get(HOST) {
            Some(host) => Some(text(host)),
            None => uri.authority().map(Authority::as_str),
        };
        let is = |name: &HeaderName, wanted: &str| {
            let mut values = headers.get_all(name).into_iter().map(text).peekable();
            values.peek().is_some() && values.all(|value| value == wanted)
        };
        self.allows_host(host)
            && !headers.contains_key(ORIGIN)
            && is(&FETCH_MODE, "navigate")
            && is(&FETCH_DEST, "document")
    }

    /// Who reaches a loopback address calls it by a name that nobody else can give.
    fn allows_host(&self, host: Option<&str>) -> bool {
        !self.address.ip().is_loopback()
            || host.is_none_or(|host| {
                HostAndPort::of(host).is_some_and(|place| place.host.is_loopback())
            })
    }

    /// Whether an origin is that of this proxy: the scheme, the host and the port.
    ///
    /// On a loopback address the host is `localhost` or the very address: another user may listen on the same port of
    /// another loopback address. Elsewhere nobody knows by which names a proxy is called, so the host is the one that
    /// the request was sent to.
    fn is_ours(&self, origin: &str, host: Option<&str>) -> bool {
        let Some((scheme, authority)) = origin.split_once("://") else { return false };
        let Some(place) = HostAndPort::of(authority) else { return false };
        let is_our_host = match self.address.ip() {
            ip if ip.is_loopback() => place.host == Host::Ip(ip) || place.host.is_localhost(),
            _ => host.and_then(HostAndPort::of).as_ref() == Some(&place),
        };
        scheme.eq_ignore_ascii_case("http") && place.port == self.address.port() && is_our_host
    }
}

impl HostAndPort {
    /// Reads `host` or `host:port`.
    fn of(authority: &str) -> Option<Self> {
        let authority = authority.parse::<Authority>().ok()?;
        if authority.as_str().contains('@') {
            return None;
        }
        let name = authority.host().trim_matches(['[', ']']);
        let host = match name.parse::<IpAddr>() {
            Ok(ip) => Host::Ip(ip),
            Err(_) => Host::Name(name.to_ascii_lowercase()),
        };
        let port = match authority.as_str().strip_prefix(authority.host())?.strip_prefix(':') {
            Some(port) => port.parse().ok()?,
            None => HTTP_PORT,
        };
        Some(Self { host, port })
    }
}

impl Host {
    fn is_localhost(&self) -> bool {
        matches!(self, Self::Name(name) if name == "localhost")
    }

    /// Whether it is this machine, by a name that nobody else can give.
    fn is_loopback(&self) -> bool {
        self.is_localhost() || matches!(self, Self::Ip(ip) if ip.is_loopback())
    }
}

/// The value of a header; what is no text is nobody's name.
fn text(value: &HeaderValue) -> &str {
    value.to_str().unwrap_or("?")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(listens: &str, headers: &[(&'static str, &str)]) -> bool {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        let rule = PageRule::new(listens.parse().unwrap());
        rule.allows(&"/v1/models".parse().unwrap(), &map)
    }

    #[test]
    fn programs_of_this_machine_are_let_in_and_pages_of_others_are_not() {
        for (host, site, expected) in [
            (Some("127.0.0.1:4141"), None, true),
            (Some("localhost"), Some("none"), true),
            (Some("LocalHost:4141"), Some("same-origin"), true),
            (Some("[::1]:4141"), None, true),
            (None, None, true),
            (Some("evil.example:4141"), None, false),
            (Some("127.0.0.1.evil.example"), None, false),
            (Some("evil.example"), Some("same-origin"), false),
            (Some("user@localhost@evil"), None, false),
            (Some("user@localhost"), None, false),
            // Links, pictures and scripts have no origin.
            (Some("localhost:4141"), Some("cross-site"), false),
            (Some("localhost:4141"), Some("same-site"), false),
            (Some("localhost:4141"), Some("anything"), false),
        ] {
            let pairs: Vec<_> = [("host", host), ("sec-fetch-site", site)]
                .into_iter()
                .filter_map(|(name, value)| Some((name, value?)))
                .collect();
            assert_eq!(allows("127.0.0.1:4141", &pairs), expected, "{host:?} {site:?}");
        }
    }

    #[test]
    fn a_link_elsewhere_may_open_a_page_and_do_nothing_else() {
        let visits = |pairs: &[(&'static str, &str)]| {
            let mut map = HeaderMap::new();
            for (name, value) in pairs {
                map.append(*name, value.parse().unwrap());
            }
            let rule = PageRule::new("127.0.0.1:4141".parse().unwrap());
            rule.allows_visit(&"/longhand/console/".parse().unwrap(), &map)
        };
        let host = ("host", "127.0.0.1:4141");
        let (mode, dest) = (("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document"));
        assert!(visits(&[host, mode, dest, ("sec-fetch-site", "cross-site")]));
        for others in [
            vec![host],
            vec![host, mode],
            vec![host, mode, ("sec-fetch-dest", "iframe")],
            vec![host, ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "script")],
            vec![host, mode, dest, ("origin", "null")],
            vec![("host", "evil.example:4141"), mode, dest],
        ] {
            assert!(!visits(&others), "{others:?}");
        }
    }

    #[test]
    fn an_origin_is_that_of_the_address_we_listen_on() {
        for (listens, origin, expected) in [
            ("127.0.0.1:4141", "http://127.0.0.1:4141", true),
            ("127.0.0.1:4141", "http://localhost:4141", true),
            ("127.0.0.1:4141", "HTTP://LOCALHOST:4141", true),
            ("127.0.0.1:80", "http://localhost", true),
            ("127.0.0.1:80", "http://localhost:65616", false),
            ("[::1]:4141", "http://[::1]:4141", true),
            ("[::1]:4141", "http://[0:0:0:0:0:0:0:1]:4141", true),
            ("[::1]:4141", "http://localhost:4141", true),
            // Another port of this machine, also if none is written.
            ("127.0.0.1:4141", "http://127.0.0.1:3000", false),
            ("127.0.0.1:4141", "http://localhost:4142", false),
            ("127.0.0.1:4141", "http://localhost", false),
            ("127.0.0.1:4141", "http://localhost:", false),
            ("127.0.0.1:4141", "http://localhost:94141", false),
            ("[::1]:4141", "http://[::1]:3000", false),
            // Another scheme.
            ("127.0.0.1:4141", "https://localhost:4141", false),
            ("127.0.0.1:4141", "ws://localhost:4141", false),
            ("127.0.0.1:4141", "localhost:4141", false),
            ("127.0.0.1:4141", "://localhost:4141", false),
            // Another loopback address, where somebody else may listen on the same port.
            ("127.0.0.1:4141", "http://[::1]:4141", false),
            ("127.0.0.1:4141", "http://127.0.0.2:4141", false),
            ("[::1]:4141", "http://127.0.0.1:4141", false),
            // No origin, or nobody's.
            ("127.0.0.1:4141", "null", false),
            ("127.0.0.1:4141", "", false),
            ("127.0.0.1:4141", "http://", false),
            ("127.0.0.1:4141", "https://evil.example", false),
            ("127.0.0.1:4141", "http://localhost.evil.example:4141", false),
            ("127.0.0.1:4141", "http://user@localhost:4141", false),
            ("127.0.0.1:4141", "http://localhost:4141/", false),
        ] {
            let host = ("host", listens);
            let found = allows(listens, &[host, ("origin", origin)]);
            assert_eq!(found, expected, "{listens} {origin}");
            let twice = [host, ("origin", "http://localhost:4141"), ("origin", origin)];
            assert!(expected || !allows(listens, &twice), "{listens} {origin}: all must be ours");
        }
    }

    #[test]
    fn elsewhere_an_origin_is_the_host_that_was_called_on_our_port() {
        for (host, origin, expected) in [
            ("10.0.0.5:4141", "http://10.0.0.5:4141", true),
            ("longhand.lan:4141", "http://Longhand.LAN:4141", true),
            ("[fd00::5]:4141", "http://[fd00::5]:4141", true),
            ("longhand.lan:4141", "http://other.lan:4141", false),
            ("longhand.lan:4141", "https://longhand.lan:4141", false),
            // The same name on a port that is not ours.
            ("longhand.lan:3000", "http://longhand.lan:3000", false),
            ("longhand.lan", "http://longhand.lan", false),
            ("longhand.lan:4141", "http://longhand.lan:3000", false),
            ("longhand.lan:4141", "null", false),
        ] {
            let found = allows("0.0.0.0:4141", &[("host", host), ("origin", origin)]);
            assert_eq!(found, expected, "{host} {origin}");
        }
        assert!(!allows("0.0.0.0:4141", &[("origin", "http://longhand.lan:4141")]), "no host");
        assert!(allows("0.0.0.0:4141", &[("host", "longhand.lan:3000")]), "a program");
    }
}
