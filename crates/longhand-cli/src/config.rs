//! What is configured, and where.
//!
//! `longhand.toml`, the environment and flags, in rising order of strength. The file is the first that
//! is found from the working directory upwards, or else the user's own.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use toml::{Table, Value};

use crate::hinted;

const FILE: &str = "longhand.toml";

/// A setting that a file may have; `*` stands for any name.
struct Known {
    key: &'static str,
    kind: Kind,
    /// The variable that overrides it.
    variable: Option<&'static str>,
    /// What is in force where nothing is said.
    default: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Whole,
    Number,
    /// One text or a list of them; in the environment, separated by commas.
    Texts,
}

const fn known(
    key: &'static str,
    kind: Kind,
    variable: &'static str,
    default: &'static str,
) -> Known {
    Known { key, kind, variable: Some(variable), default }
}

const fn in_file(key: &'static str, kind: Kind) -> Known {
    Known { key, kind, variable: None, default: "" }
}

const KNOWN: &[Known] = &[
    known(
        "archive.path",
        Kind::Text,
        "LONGHAND_ARCHIVE",
        "longhand/archive.db in the folder for data",
    ),
    known("session.policy", Kind::Text, "LONGHAND_POLICY", "auto"),
    known("session.rounds", Kind::Whole, "LONGHAND_ROUNDS", "10"),
    known("session.budget", Kind::Whole, "LONGHAND_BUDGET", "24000"),
    known("session.summary", Kind::Whole, "LONGHAND_SUMMARY", "4000"),
    known("session.patterns", Kind::Texts, "LONGHAND_PATTERNS", "none"),
    known("models.chat", Kind::Text, "LONGHAND_CHAT_MODEL", "none"),
    known("models.summary", Kind::Texts, "LONGHAND_SUMMARY_MODEL", "extractive"),
    known("models.summary_usd_per_hour", Kind::Number, "LONGHAND_SUMMARY_USD_PER_HOUR", "1.0"),
    known("chat.system", Kind::Text, "LONGHAND_SYSTEM", "none"),
    in_file("endpoints.*.url", Kind::Text),
    in_file("endpoints.*.api", Kind::Text),
    in_file("endpoints.*.key_env", Kind::Text),
    in_file("endpoints.*.key_file", Kind::Text),
    in_file("prices.*.input", Kind::Number),
    in_file("prices.*.cached_input", Kind::Number),
    in_file("prices.*.cache_write", Kind::Number),
    in_file("prices.*.output", Kind::Number),
    in_file("windows.*.tokens", Kind::Whole),
];

/// Where a setting comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    File(PathBuf),
    Variable(&'static str),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::File(path) => write!(f, "{}", path.display()),
            Source::Variable(name) => f.write_str(name),
        }
    }
}

/// All that is configured, by its key.
#[derive(Debug, Default)]
pub(crate) struct Config {
    settings: BTreeMap<String, (Value, Source)>,
    /// Whether the file is the user's own, and not one that came with a folder.
    is_own: bool,
}

impl Config {
    /// Reads the file and the environment.
    pub(crate) fn load() -> Result<Self> {
        let here = std::env::current_dir().context("cannot tell the working directory")?;
        let own = own_folder().map(|folder| folder.join("longhand").join(FILE));
        Self::read(&here, own.as_deref(), |name| std::env::var(name).ok())
    }

    fn read(
        here: &Path,
        own: Option<&Path>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self> {
        let above = here.ancestors().map(|folder| folder.join(FILE)).find(|path| path.is_file());
        let is_own = above.is_none() || above.as_deref() == own;
        let path = above.or_else(|| own.filter(|path| path.is_file()).map(Path::to_owned));
        let mut config = Self { is_own, ..Self::default() };
        if let Some(path) = path {
            config.add_file(&path)?;
        }
        for known in KNOWN {
            let Some(name) = known.variable else { continue };
            let Some(text) = variable(name).filter(|text| !text.is_empty()) else { continue };
            let value = from_text(known.kind, &text)
                .with_context(|| format!("{name} is {text:?}, which is no {}", known.kind))?;
            config.settings.insert(known.key.to_owned(), (value, Source::Variable(name)));
        }
        Ok(config)
    }

    fn add_file(&mut self, path: &Path) -> Result<()> {
        let name = path.display();
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
        let table: Table = text.parse().with_context(|| format!("{name} is not TOML"))?;
        let mut leaves = Vec::new();
        flatten("", &table, &mut leaves);
        for (key, value) in leaves {
            let Some(known) = KNOWN.iter().find(|known| matches(known.key, &key)) else {
                return Err(hinted(
                    format!("{name}: there is no setting `{key}`"),
                    format!("did you mean `{}`?", nearest(&key)),
                ));
            };
            if !is_kind(known.kind, &value) {
                bail!("{name}: `{key}` must be {}", known.kind);
            }
            self.settings.insert(key, (value, Source::File(path.to_owned())));
        }
        Ok(())
    }

    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.settings.get(key)?.0.as_str()
    }

    pub(crate) fn whole(&self, key: &str) -> Option<u64> {
        u64::try_from(self.settings.get(key)?.0.as_integer()?).ok()
    }

    pub(crate) fn number(&self, key: &str) -> Option<f64> {
        match self.settings.get(key)?.0 {
            Value::Integer(number) => Some(number as f64),
            Value::Float(number) => Some(number),
            _ => None,
        }
    }

    pub(crate) fn texts(&self, key: &str) -> Option<Vec<String>> {
        match &self.settings.get(key)?.0 {
            Value::String(text) => Some(vec![text.clone()]),
            Value::Array(list) => {
                Some(list.iter().filter_map(|text| Some(text.as_str()?.to_owned())).collect())
            }
            _ => None,
        }
    }

    /// The names that stand for `*` under a section.
    pub(crate) fn names(&self, section: &str) -> Vec<String> {
        let names = self.settings.keys().filter_map(|key| {
            let (name, _) = key.strip_prefix(section)?.strip_prefix('.')?.rsplit_once('.')?;
            Some(name.to_owned())
        });
        let mut names: Vec<String> = names.collect();
        names.dedup();
        names
    }

    /// Whether keys may be sent where the file says: only if it is the user's own. A file that came
    /// with a folder could name a host that collects them.
    pub(crate) fn may_use_keys(&self) -> bool {
        self.is_own
    }

    /// Every setting that is known: its key, its value, and where that comes from.
    pub(crate) fn all(&self) -> Vec<(String, String, String)> {
        let shown = |key: &str, default: &str| match self.settings.get(key) {
            Some((value, source)) => {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                (key.to_owned(), text, source.to_string())
            }
            None => (key.to_owned(), default.to_owned(), "default".to_owned()),
        };
        let fixed = KNOWN.iter().filter(|known| !known.key.contains('*'));
        let mut all: Vec<_> = fixed.map(|known| shown(known.key, known.default)).collect();
        let named = self.settings.keys().filter(|key| {
            KNOWN.iter().any(|known| known.key.contains('*') && matches(known.key, key))
        });
        all.extend(named.map(|key| shown(key, "")));
        all
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Text => "a text",
            Kind::Whole => "a whole number",
            Kind::Number => "a number",
            Kind::Texts => "a text or a list of texts",
        })
    }
}

/// The platform's folder for settings.
fn own_folder() -> Option<PathBuf> {
    let folder =
        |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if cfg!(windows) {
        folder("APPDATA")
    } else if cfg!(target_os = "macos") {
        Some(folder("HOME")?.join("Library/Application Support"))
    } else {
        folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")))
    }
}

fn flatten(prefix: &str, table: &Table, leaves: &mut Vec<(String, Value)>) {
    for (key, value) in table {
        let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            Value::Table(table) => flatten(&key, table, leaves),
            value => leaves.push((key, value.clone())),
        }
    }
}

/// Whether a key is one of a known shape; a name in the middle may have dots.
fn matches(shape: &str, key: &str) -> bool {
    match shape.split_once('*') {
        None => shape == key,
        Some((before, after)) => {
            key.len() > before.len() + after.len()
                && key.starts_with(before)
                && key.ends_with(after)
        }
    }
}

fn nearest(key: &str) -> String {
    // A name that the user chose is right, whatever it is.
    let middle = key.split('.').nth(1).unwrap_or_default();
    let shapes = KNOWN.iter().map(|known| known.key.replace('*', middle));
    shapes.min_by_key(|shape| strsim::damerau_levenshtein(shape, key)).unwrap_or_default()
}

fn is_kind(kind: Kind, value: &Value) -> bool {
    match kind {
        Kind::Text => value.is_str(),
        Kind::Whole => value.as_integer().is_some_and(|number| number >= 0),
        Kind::Number => value.is_float() || value.is_integer(),
        Kind::Texts => {
            value.is_str() || value.as_array().is_some_and(|list| list.iter().all(Value::is_str))
        }
    }
}

fn from_text(kind: Kind, text: &str) -> Option<Value> {
    match kind {
        Kind::Text => Some(Value::String(text.to_owned())),
        Kind::Whole => text.parse::<i64>().ok().filter(|number| *number >= 0).map(Value::Integer),
        Kind::Number => text.parse().ok().map(Value::Float),
        Kind::Texts => {
            let texts = text.split(',').map(|text| Value::String(text.trim().to_owned()));
            Some(Value::Array(texts.collect()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: &str, variables: &[(&str, &str)]) -> Result<Config> {
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join(FILE), file)?;
        let inner = folder.path().join("a/b");
        std::fs::create_dir_all(&inner)?;
        let variable = |name: &str| {
            let found = variables.iter().find(|(own, _)| *own == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Config::read(&inner, None, variable)
    }

    #[test]
    fn the_environment_is_stronger_than_the_file() {
        let file = "[session]\nbudget = 9000\nrounds = 4\n[models]\nsummary = 'ollama/qwen3'\n";
        let config = read(file, &[("LONGHAND_BUDGET", "7000")]).unwrap();
        assert_eq!(
            (config.whole("session.budget"), config.whole("session.rounds")),
            (Some(7000), Some(4))
        );
        assert_eq!(config.texts("models.summary").unwrap(), ["ollama/qwen3"]);
        let all = config.all();
        let setting = |key: &str| all.iter().find(|(own, ..)| own == key).unwrap();
        assert_eq!(setting("session.budget").2, "LONGHAND_BUDGET");
        assert!(setting("session.rounds").2.ends_with(FILE));
        assert_eq!(
            setting("session.summary"),
            &("session.summary".into(), "4000".into(), "default".into())
        );
        assert!(!config.may_use_keys(), "it came with the folder");
    }

    #[test]
    fn an_unknown_key_is_an_error_that_names_the_nearest() {
        for (file, wrong, near) in [
            ("[session]\nbudgt = 1", "session.budgt", "session.budget"),
            ("[endpoints.mine]\nurll = 'x'", "endpoints.mine.urll", "endpoints.mine.url"),
            ("[chat]\nsistem = 'x'", "chat.sistem", "chat.system"),
        ] {
            let error = read(file, &[]).unwrap_err();
            assert!(error.to_string().contains(&format!("no setting `{wrong}`")), "{error}");
            let hint = &error.downcast_ref::<crate::Hinted>().unwrap().hint;
            assert_eq!(hint, &format!("did you mean `{near}`?"));
        }
    }

    #[test]
    fn values_of_the_wrong_kind_are_named() {
        let wrong = |file: &str| read(file, &[]).unwrap_err().to_string();
        assert!(
            wrong("[session]\nbudget = 'many'").contains("`session.budget` must be a whole number")
        );
        assert!(
            wrong("[models]\nsummary = [1]").contains("`models.summary` must be a text or a list")
        );
        assert!(wrong("[session").contains("is not TOML"));
        let error = read("", &[("LONGHAND_ROUNDS", "-1")]).unwrap_err().to_string();
        assert!(error.contains("LONGHAND_ROUNDS") && error.contains("whole number"), "{error}");
    }

    #[test]
    fn names_of_endpoints_and_prices_may_have_dots() {
        let file =
            "[endpoints.home]\nurl = 'http://127.0.0.1:1/v1'\n[prices.'gpt-5.2']\ninput = 1\n";
        let config = read(file, &[]).unwrap();
        assert_eq!(config.names("endpoints"), ["home"]);
        assert_eq!(config.names("prices"), ["gpt-5.2"]);
        assert_eq!(config.number("prices.gpt-5.2.input"), Some(1.0));
    }
}
