//! Who may speak to a proxy; each kind of path has a guard of its own.

mod keys;
mod pages;

use std::net::SocketAddr;
use std::sync::Arc;

use hyper::Method;
use hyper::http::request::Parts;

use self::keys::Keys;
use self::pages::PageRule;
use crate::Settings;
use crate::console;
use crate::credentials::Credentials;
use crate::route::Destination;
use crate::secret::RunSecret;

/// The guards of all kinds of paths.
pub(crate) struct Guards {
    /// What every request must have, whatever its path: it is a piece of the path itself.
    secret: Option<RunSecret>,
    status: Guard,
    /// Never open: it reads the archive.
    mcp: Guard,
    conversation: Guard,
    pass_through: Guard,
    /// Of pages alone: the console asks for a login by itself.
    console: Guard,
}

/// Who is let in to one kind of path.
#[derive(Clone)]
pub(crate) struct Guard {
    pages: PageRule,
    keys: Arc<Keys>,
}

/// Why somebody is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It is a web page, or speaks to another name.
    Foreign,
    /// It does not have the secret of a private proxy.
    NoSecret,
    /// It has no key, or a wrong one.
    NoKey,
    /// A key is wanted, and this proxy has none.
    NoKeys,
    /// Our key is in the path, which the upstream would see.
    KeyInPath,
}

impl Guards {
    /// The guards of a proxy that listens on an address.
    pub(crate) fn new(settings: &Settings, address: SocketAddr) -> Self {
        let keys = Arc::new(Keys::new(&settings.keys));
        let guard = Guard { pages: PageRule::new(address), keys };
        // Where callers have keys, these say whose sessions they see.
        let mcp_keys = match settings.keys.as_slice() {
            [] => Keys::new(settings.mcp_token.as_slice()),
            keys => Keys::new(keys),
        };
        Self {
            secret: settings.secret.as_deref().map(RunSecret::new),
            status: guard.clone(),
            mcp: Guard { keys: Arc::new(mcp_keys.closed()), ..guard },
            conversation: guard.clone(),
            console: Guard::of_pages(address),
            pass_through: guard,
        }
    }

    /// Takes the secret out of a request, before anything else is read of it.
    pub(crate) fn take_secret(&self, parts: &mut Parts) -> Result<(), Refused> {
        let is_there = self.secret.as_ref().is_none_or(|secret| secret.take(parts));
        if is_there { Ok(()) } else { Err(Refused::NoSecret) }
    }

    /// The guard of a kind of path.
    pub(crate) fn of(&self, destination: Destination) -> &Guard {
        match destination {
            Destination::Status => &self.status,
            Destination::Mcp => &self.mcp,
            Destination::Conversation(_) => &self.conversation,
            Destination::PassThrough => &self.pass_through,
            Destination::Console => &self.console,
        }
    }
}

impl Guard {
    /// Lets in programs and our own pages, whatever key they have.
    pub(crate) fn of_pages(address: SocketAddr) -> Self {
        Self { pages: PageRule::new(address), keys: Arc::new(Keys::new(&[])) }
    }

    /// Whether a request comes from a program, or from a page that is served here; or somebody opens our page, in which
    /// nothing is archived.
    pub(crate) fn allows_page(&self, parts: &Parts) -> bool {
        let is_visit = || {
            parts.method == Method::GET
                && !parts.uri.path().starts_with(console::API)
                && self.pages.allows_visit(&parts.uri, &parts.headers)
        };
        self.pages.allows(&parts.uri, &parts.headers) || is_visit()
    }

    /// Checks a request, and takes our keys out of it: they are for nobody else.
    pub(crate) fn check(
        &self,
        parts: &mut Parts,
        credentials: &Credentials,
    ) -> Result<(), Refused> {
        if !self.pages.allows(&parts.uri, &parts.headers) {
            return Err(Refused::Foreign);
        }
        self.keys.check(parts, credentials)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Request;
    use hyper::header::HeaderValue;
    use longhand::MemoryArchive;

    fn guards(keys: &[&str]) -> Guards {
        let mut settings = Settings::new(Arc::new(MemoryArchive::default()));
        settings.keys = keys.iter().map(|key| (*key).to_owned()).collect();
        Guards::new(&settings, "0.0.0.0:4141".parse().unwrap())
    }

    /// What is left of a request that is let in.
    fn checked(
        guard: &Guard,
        uri: &str,
        pairs: &[(&'static str, &str)],
    ) -> Result<String, Refused> {
        let (mut parts, ()) = Request::builder().uri(uri).body(()).unwrap().into_parts();
        for (name, value) in pairs {
            parts.headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        let credentials = Credentials::of(&parts.uri, &parts.headers, &[]);
        guard.check(&mut parts, &credentials)?;
        let values: Vec<_> = parts.headers.values().map(|value| value.to_str().unwrap()).collect();
        Ok(format!("{} [{}]", parts.uri, values.join(" ")))
    }

    /// A request to each kind of path, with the guard of that.
    fn each(guards: &Guards) -> [(&'static str, &Guard); 4] {
        [
            (Method::GET, "/longhand/metrics"),
            (Method::POST, "/longhand/mcp"),
            (Method::POST, "/v1/chat/completions"),
            (Method::GET, "/v1/models"),
        ]
        .map(|(method, path)| (path, guards.of(Destination::of(&method, &path.parse().unwrap()))))
    }

    #[test]
    fn web_pages_are_kept_out() {
        for (path, guard) in each(&guards(&["one"])) {
            for page in [
                ("origin", "https://evil.example"),
                ("origin", "http://longhand.lan:3000"),
                ("origin", "null"),
                ("sec-fetch-site", "cross-site"),
            ] {
                let host = ("host", "longhand.lan:4141");
                let key = ("x-longhand-key", "one");
                let found = checked(guard, path, &[host, key, page]);
                assert_eq!(found, Err(Refused::Foreign), "{path} {page:?}");
                assert!(checked(guard, path, &[host, key]).is_ok(), "{path}");
            }
        }
    }

    #[test]
    fn every_kind_of_path_wants_a_key() {
        for (path, guard) in each(&guards(&["one"])) {
            assert_eq!(checked(guard, path, &[]), Err(Refused::NoKey), "{path}");
            let found = checked(guard, path, &[("x-longhand-key", "one")]);
            assert_eq!(found, Ok(format!("{path} []")), "{path}");
        }
    }

    #[test]
    fn the_archive_is_never_open() {
        let mut settings = Settings::new(Arc::new(MemoryArchive::default()));
        let address = "127.0.0.1:4141".parse().unwrap();
        let path = "/longhand/mcp";
        let pairs = |key: &'static str| [("x-longhand-key", key)];
        let guard = &Guards::new(&settings, address).mcp;
        assert_eq!(checked(guard, path, &[]), Err(Refused::NoKeys));
        assert_eq!(checked(guard, path, &pairs("")), Err(Refused::NoKeys));
        settings.mcp_token = Some("token".to_owned());
        let guards = Guards::new(&settings, address);
        assert_eq!(checked(&guards.mcp, path, &[]), Err(Refused::NoKey));
        assert_eq!(checked(&guards.mcp, path, &pairs("tok")), Err(Refused::NoKey));
        assert!(checked(&guards.mcp, path, &pairs("token")).is_ok());
        assert!(
            checked(&guards.conversation, "/", &[]).is_ok(),
            "the token is for that path alone"
        );
        // A key says whose sessions are seen, and a token does not.
        settings.keys = vec!["key".to_owned()];
        let guards = Guards::new(&settings, address);
        assert_eq!(checked(&guards.mcp, path, &pairs("token")), Err(Refused::NoKey));
        assert!(checked(&guards.mcp, path, &pairs("key")).is_ok());
    }

    #[test]
    fn keys_are_wanted_and_stay_here() {
        let guards = guards(&["one", "two"]);
        let guard = &guards.pass_through;
        for (uri, pairs, expected) in [
            ("/", vec![], None),
            ("/", vec![("authorization", "Bearer three")], None),
            ("/", vec![("authorization", "Bearer on")], None),
            ("/", vec![("x-longhand-key", "")], None),
            ("/", vec![("x-api-key", "one"), ("origin", "https://evil.example")], None),
            ("/one/x", vec![("x-api-key", "one")], None),
            (
                "/",
                vec![("x-longhand-key", "two"), ("authorization", "Bearer p")],
                Some("/ [Bearer p]"),
            ),
            ("/", vec![("authorization", "bearer one"), ("x-api-key", "p")], Some("/ [p]")),
            ("/", vec![("x-api-key", "one")], Some("/ []")),
            ("/?key=two&a=1", vec![("x-api-key", "p")], Some("/?a=1 [p]")),
            ("/?key=t%77o", vec![], Some("/ []")),
            (
                "/?a=phone&b=one",
                vec![
                    ("x-api-key", "one"),
                    ("x-api-key", "p"),
                    ("x-api-key", "one"),
                    ("api-key", "two"),
                ],
                Some("/?a=phone [p]"),
            ),
            (
                "/",
                vec![
                    ("x-longhand-key", "one"),
                    ("authorization", "Bearer one"),
                    ("cookie", "k=one; a=1"),
                ],
                Some("/ []"),
            ),
        ] {
            let found = checked(guard, uri, &pairs).ok();
            assert_eq!(found.as_deref(), expected, "{uri} {pairs:?}");
        }
    }
}
