//! Where an archive is: an address as libpq has it, and a password from where it is kept.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use super::ServerError;

const CONNECT_MAX: Duration = Duration::from_secs(10);

/// A parsed address. It shows itself without its password.
#[derive(Clone)]
pub(super) struct Address {
    pub(super) config: Config,
    pub(super) security: Security,
    /// The file with the certificates that are trusted; the system's own if there is none.
    pub(super) root_certificates: Option<PathBuf>,
    shown: String,
}

/// What is asked of a connection's encryption, as `sslmode` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Security {
    /// No encryption, or any: the certificate is not checked.
    Unchecked,
    /// The certificate must be signed by an authority that is trusted.
    Authority,
    /// It must also be that of the host.
    Host,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// Where passwords are, besides the address.
pub(super) trait Environment {
    /// A variable of the environment.
    fn variable(&self, name: &str) -> Option<String>;
}

/// The environment of this process.
pub(super) struct ProcessEnvironment;

impl Environment for ProcessEnvironment {
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok().filter(|value| !value.is_empty())
    }
}

impl Address {
    /// Reads `postgres://user@host:port/database?sslmode=…`.
    ///
    /// Of what libpq has and the parser does not: `sslmode=verify-ca|verify-full`, `sslrootcert`, `passfile`. The
    /// password is that of the address, or of `PGPASSWORD`, or of the password file.
    pub(super) fn parse(text: &str, environment: &dyn Environment) -> Result<Self, ServerError> {
        let bad = |reason: &str| ServerError::Address { reason: reason.to_owned() };
        let (base, query) = text.split_once('?').unwrap_or((text, ""));
        let mut security = None;
        let mut root_certificates = environment.variable("PGSSLROOTCERT").map(PathBuf::from);
        let mut password_file = environment.variable("PGPASSFILE").map(PathBuf::from);
        let mut rest: Vec<String> = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            match key {
                "sslmode" => security = Some(value.to_owned()),
                "sslrootcert" => root_certificates = Some(PathBuf::from(decoded(value))),
                "passfile" => password_file = Some(PathBuf::from(decoded(value))),
                _ => rest.push(pair.to_owned()),
            }
        }
        let query = if rest.is_empty() { String::new() } else { format!("?{}", rest.join("&")) };
        // What the parser says may quote the address, with its password.
        let mut config: Config = format!("{base}{query}")
            .parse()
            .map_err(|_| bad("it must look like postgres://user@host:5432/database"))?;
        let mode = security.or_else(|| environment.variable("PGSSLMODE"));
        let (mode, security) = match mode.as_deref().unwrap_or("prefer") {
            "disable" => (SslMode::Disable, Security::Unchecked),
            "allow" | "prefer" => (SslMode::Prefer, Security::Unchecked),
            // As libpq does: with certificates to be trusted, they are.
            "require" if root_certificates.is_some() => (SslMode::Require, Security::Authority),
            "require" => (SslMode::Require, Security::Unchecked),
            "verify-ca" => (SslMode::Require, Security::Authority),
            "verify-full" => (SslMode::Require, Security::Host),
            other => return Err(bad(&format!("sslmode `{other}` is not known"))),
        };
        config.ssl_mode(mode);
        if config.get_hosts().is_empty() {
            config.host(environment.variable("PGHOST").as_deref().unwrap_or("localhost"));
        }
        if config.get_user().is_none() {
            let user = environment.variable("PGUSER").or_else(|| environment.variable("USER"));
            config.user(user.as_deref().unwrap_or("postgres"));
        }
        if config.get_dbname().is_none()
            && let Some(name) = environment.variable("PGDATABASE")
        {
            config.dbname(name);
        }
        if config.get_application_name().is_none() {
            config.application_name("longhand");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_MAX);
        }
        config.keepalives_idle(Duration::from_secs(30));
        config.keepalives_interval(Duration::from_secs(5));
        config.keepalives_retries(3);
        if config.get_password().is_none() {
            if let Some(password) = environment.variable("PGPASSWORD") {
                config.password(password);
            } else {
                let home = || Some(PathBuf::from(environment.variable("HOME")?).join(".pgpass"));
                let named = password_file.is_some();
                if let Some(file) = password_file.or_else(home)
                    && let Some(password) = from_password_file(&file, named, &config)?
                {
                    config.password(password);
                }
            }
        }
        let shown = shown(&config);
        Ok(Self { config, security, root_certificates, shown })
    }

    /// Takes the password from a file of its own, which has nothing else.
    pub(super) fn with_key_file(mut self, file: &Path) -> Result<Self, ServerError> {
        let shown = file.display().to_string();
        let unusable = |reason: String| ServerError::File { file: shown.clone(), reason };
        let text = std::fs::read_to_string(file).map_err(|error| unusable(error.to_string()))?;
        let password = text.trim_end_matches(['\r', '\n']);
        if password.is_empty() {
            return Err(unusable("there is no password in it".to_owned()));
        }
        self.config.password(password);
        Ok(self)
    }
}

fn shown(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.clone(),
        #[cfg(unix)]
        Some(Host::Unix(path)) => path.display().to_string(),
        None => String::new(),
    };
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let user = config.get_user().map(|user| format!("{user}@")).unwrap_or_default();
    let port = config.get_ports().first().filter(|port| **port != 5432);
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    let name = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("postgres://{user}{host}{port}/{name}")
}

/// Resolves `%2F` and the like.
fn decoded(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| str::from_utf8(digits).ok());
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let (byte, after) = match code.filter(|_| byte == b'%') {
            Some(code) => (code, &after[2..]),
            None => (byte, after),
        };
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Finds the password for a connection in lines `host:port:database:user:password`.
fn from_password_file(
    file: &Path,
    is_named: bool,
    config: &Config,
) -> Result<Option<String>, ServerError> {
    let unusable = |reason: &str| ServerError::File {
        file: file.display().to_string(),
        reason: reason.to_owned(),
    };
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if is_named => return Err(unusable(&error.to_string())),
        Err(_) => return Ok(None),
    };
    if is_open_to_others(file) {
        if is_named {
            return Err(unusable("others can read it: `chmod 600` keeps them from it"));
        }
        return Ok(None);
    }
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.clone(),
        _ => "localhost".to_owned(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432).to_string();
    let user = config.get_user().unwrap_or_default();
    let wanted = [&host, &port, config.get_dbname().unwrap_or(user), user];
    let password = text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let fields = split_fields(line);
        let [patterns @ .., password] = fields.as_slice() else { return None };
        let fits = patterns.len() == wanted.len()
            && patterns
                .iter()
                .zip(wanted)
                .all(|(pattern, value)| pattern == "*" || pattern == value);
        fits.then(|| password.clone())
    });
    Ok(password)
}

/// Splits a line at colons; a backslash takes the next character as it is.
fn split_fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        let letter = match letter {
            ':' => {
                fields.push(String::new());
                continue;
            }
            '\\' => letters.next().unwrap_or('\\'),
            letter => letter,
        };
        if let Some(field) = fields.last_mut() {
            field.push(letter);
        }
    }
    fields
}

#[cfg(unix)]
fn is_open_to_others(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(file).is_ok_and(|meta| meta.permissions().mode() & 0o077 != 0)
}

#[cfg(not(unix))]
fn is_open_to_others(_file: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    struct Made(HashMap<&'static str, String>);

    impl Environment for Made {
        fn variable(&self, name: &str) -> Option<String> {
            self.0.get(name).cloned()
        }
    }

    fn made(pairs: &[(&'static str, &str)]) -> Made {
        Made(pairs.iter().map(|(name, value)| (*name, (*value).to_owned())).collect())
    }

    fn parse(text: &str, pairs: &[(&'static str, &str)]) -> Address {
        Address::parse(text, &made(pairs)).unwrap()
    }

    #[test]
    fn an_address_shows_itself_without_its_password() {
        for (text, shown) in [
            ("postgres://me:s3cret@db.example:6543/work", "postgres://me@db.example:6543/work"),
            (
                "postgresql://me:s3cret@db.example/work?sslmode=disable",
                "postgres://me@db.example/work",
            ),
            ("postgres://me@[::1]/work", "postgres://me@[::1]/work"),
        ] {
            let address = parse(text, &[]);
            assert_eq!(address.to_string(), shown);
            assert!(!format!("{address:?}").contains("s3cret"));
        }
        for bad in [
            "postgres://me:s3cret@db:x/work",
            "postgres://me:s3cret@db/a?sslmode=s",
            "postgres://h/?x=s3cret",
        ] {
            let error = Address::parse(bad, &made(&[])).unwrap_err().to_string();
            assert!(!error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn encryption_is_as_libpq_has_it() {
        let mode = |query: &str, pairs: &[(&'static str, &str)]| {
            let address = parse(&format!("postgres://me@h/d{query}"), pairs);
            (address.config.get_ssl_mode(), address.security)
        };
        assert_eq!(mode("", &[]), (SslMode::Prefer, Security::Unchecked));
        assert_eq!(mode("", &[("PGSSLMODE", "verify-full")]), (SslMode::Require, Security::Host));
        assert_eq!(mode("?sslmode=disable", &[]), (SslMode::Disable, Security::Unchecked));
        assert_eq!(mode("?sslmode=require", &[]), (SslMode::Require, Security::Unchecked));
        assert_eq!(
            mode("?sslmode=require&sslrootcert=%2Fca.pem", &[]),
            (SslMode::Require, Security::Authority)
        );
        assert_eq!(mode("?sslmode=verify-ca", &[]), (SslMode::Require, Security::Authority));
    }

    #[test]
    #[cfg(unix)]
    fn passwords_come_from_where_libpq_looks() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pass");
        std::fs::write(&file, "# all\nother:*:*:*:no\nh:5432:d:me:p\\:a\\\\ss\n*:*:*:*:rest\n")
            .unwrap();
        let file_text = file.display().to_string();
        let password = |text: &str, pairs: &[(&'static str, &str)]| {
            let address = Address::parse(text, &made(pairs));
            address.map(|address| {
                address
                    .config
                    .get_password()
                    .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
            })
        };
        let named = [("PGPASSFILE", file_text.as_str())];
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(
            password("postgres://me@h/d", &named).unwrap_err().to_string().contains("chmod 600")
        );
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(password("postgres://me@h/d", &named).unwrap(), some("p:a\\ss"));
        assert_eq!(password("postgres://you@h/d", &named).unwrap(), some("rest"));
        assert_eq!(password("postgres://me:mine@h/d", &named).unwrap(), some("mine"));
        let both = [named[0], ("PGPASSWORD", "variable")];
        assert_eq!(password("postgres://me@h/d", &both).unwrap(), some("variable"));
        assert_eq!(password("postgres://me@h/d", &[]).unwrap(), None);
        let key = folder.path().join("key");
        std::fs::write(&key, "from a key file\n").unwrap();
        let address = parse("postgres://me@h/d", &[]).with_key_file(&key).unwrap();
        assert_eq!(address.config.get_password(), Some(&b"from a key file"[..]));
    }
}
