//! Addresses of servers.

use std::net::IpAddr;

use hyper::Uri;

/// Why something is not the address of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// It is no web address.
    #[error("it is not of the form https://host/v1")]
    Form,
    /// Anybody who sees the address would see the credentials.
    #[error("it holds a password; a key has its own place")]
    Credentials,
}

/// Reads the address of a server. What follows its path is left out.
pub fn parse(text: &str) -> Result<Uri, AddressError> {
    let uri: Uri = text.trim().parse().map_err(|_| AddressError::Form)?;
    let is_web = matches!(uri.scheme_str(), Some("http" | "https"));
    let authority = uri.authority().filter(|_| is_web).ok_or(AddressError::Form)?;
    if authority.as_str().contains('@') {
        return Err(AddressError::Credentials);
    }
    // A port that is no number would be taken for none.
    let has_port = authority.as_str() != authority.host();
    if authority.host().is_empty() || (has_port && authority.port_u16().is_none()) {
        return Err(AddressError::Form);
    }
    at(&uri, uri.path()).ok_or(AddressError::Form)
}

/// Another path on the same server; `None` if it is none.
pub fn at(server: &Uri, path: &str) -> Option<Uri> {
    let mut parts = server.clone().into_parts();
    parts.path_and_query = Some(path.parse().ok()?);
    Uri::from_parts(parts).ok()
}

/// Whether an address is on this machine.
pub fn is_loopback(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_web_addresses_are_addresses() {
        for (text, expected) in [
            ("http://a", Ok("http://a/")),
            (" https://a.b:8443/api/v1/?key=1#top ", Ok("https://a.b:8443/api/v1/")),
            ("http://[::1]:9/v1", Ok("http://[::1]:9/v1")),
            ("HTTP://A/v1", Ok("http://A/v1")),
            ("http://user:key@a/v1", Err(AddressError::Credentials)),
            ("http://user@a/v1", Err(AddressError::Credentials)),
            ("http://a:99999/v1", Err(AddressError::Form)),
            ("http://a:x/v1", Err(AddressError::Form)),
            ("http:///v1", Err(AddressError::Form)),
            ("http://", Err(AddressError::Form)),
            ("ftp://a", Err(AddressError::Form)),
            ("file:///secret", Err(AddressError::Form)),
            ("a.b:80/v1", Err(AddressError::Form)),
            ("nonsense", Err(AddressError::Form)),
            ("", Err(AddressError::Form)),
        ] {
            let found = parse(text).map(|uri| uri.to_string());
            assert_eq!(found.as_deref(), expected.as_deref(), "{text}");
        }
    }
}
