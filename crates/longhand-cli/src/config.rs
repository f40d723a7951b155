//! Settings, and where each comes from.
//!
//! The user's own `longhand.toml`, the first one that is found from the working directory upwards, the
//! environment and flags, in rising order of strength. A file that came with a folder sets budgets and
//! policies only, unless the user trusts it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use toml::{Table, Value};

use crate::trust::Trusted;
use crate::{hinted, output, paths};

pub(crate) const FILE: &str = "longhand.toml";

/// A setting that a file may have; `*` stands for any name.
struct KnownSetting {
    key: &'static str,
    kind: SettingKind,
    /// The variable that overrides it.
    variable: Option<&'static str>,
    /// The default.
    default: &'static str,
}

impl KnownSetting {
    /// Whether the file of an untrusted folder may set it: it decides how much is sent, not where to.
    fn is_harmless(&self) -> bool {
        self.key.starts_with("session.") || self.key.starts_with("windows.")
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SettingKind {
    Text,
    Whole,
    Number,
    /// One text or a list of them; in the environment, separated by commas.
    Texts,
}

const fn known(
    key: &'static str,
    kind: SettingKind,
    variable: &'static str,
    default: &'static str,
) -> KnownSetting {
    KnownSetting { key, kind, variable: Some(variable), default }
}

const fn in_file(key: &'static str, kind: SettingKind) -> KnownSetting {
    KnownSetting { key, kind, variable: None, default: "" }
}

const KNOWN: &[KnownSetting] = &[
    known(
        "archive.path",
        SettingKind::Text,
        "LONGHAND_ARCHIVE",
        "~/.local/share/longhand/archive.db",
    ),
    known("archive.password_file", SettingKind::Text, "LONGHAND_ARCHIVE_PASSWORD_FILE", "none"),
    known("archive.keep", SettingKind::Text, "LONGHAND_KEEP", "on"),
    known("session.policy", SettingKind::Text, "LONGHAND_POLICY", "auto"),
    known("session.rounds", SettingKind::Whole, "LONGHAND_ROUNDS", "10"),
    known("session.budget", SettingKind::Whole, "LONGHAND_BUDGET", "24000"),
    known("session.clip_new", SettingKind::Whole, "LONGHAND_CLIP_NEW", "never"),
    known("session.recall", SettingKind::Whole, "LONGHAND_RECALL", "10"),
    known("session.summary", SettingKind::Whole, "LONGHAND_SUMMARY", "4000"),
    known("session.patterns", SettingKind::Texts, "LONGHAND_PATTERNS", "none"),
    known("models.chat", SettingKind::Text, "LONGHAND_CHAT_MODEL", "none"),
    known("models.summary", SettingKind::Texts, "LONGHAND_SUMMARY_MODEL", "extractive"),
    known(
        "models.summary_usd_per_hour",
        SettingKind::Number,
        "LONGHAND_SUMMARY_USD_PER_HOUR",
        "1.0",
    ),
    known("models.embeddings", SettingKind::Text, "LONGHAND_EMBEDDINGS", "none"),
    known("chat.system", SettingKind::Text, "LONGHAND_SYSTEM", "none"),
    in_file("endpoints.*.url", SettingKind::Text),
    in_file("endpoints.*.api", SettingKind::Text),
    in_file("endpoints.*.key_env", SettingKind::Text),
    in_file("endpoints.*.key_file", SettingKind::Text),
    in_file("prices.*.input", SettingKind::Number),
    in_file("prices.*.cached_input", SettingKind::Number),
    in_file("prices.*.cache_write", SettingKind::Number),
    in_file("prices.*.output", SettingKind::Number),
    in_file("windows.*.tokens", SettingKind::Whole),
];

/// Where a setting comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SettingSource {
    File(PathBuf),
    Variable(&'static str),
}

impl fmt::Display for SettingSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingSource::File(path) => write!(f, "{}", path.display()),
            SettingSource::Variable(name) => f.write_str(name),
        }
    }
}

/// All that is configured, by its key.
#[derive(Debug, Default)]
pub(crate) struct Config {
    settings: BTreeMap<String, (Value, SettingSource)>,
    folder: Option<FolderFile>,
}

/// The file of a folder that is not the user's own.
#[derive(Debug)]
pub(crate) struct FolderFile {
    pub(crate) path: PathBuf,
    pub(crate) is_trusted: bool,
    /// The settings that have no effect, since the file is not trusted.
    pub(crate) held_back: Vec<String>,
}

impl Config {
    /// Reads the files and the environment. Prints once which settings have no effect.
    pub(crate) fn load() -> Result<Self> {
        static TOLD: AtomicBool = AtomicBool::new(false);
        let here = std::env::current_dir().context("cannot find the working directory")?;
        let trusted = Trusted::load();
        let config =
            Self::read(&here, own_file().as_deref(), &trusted, |name| std::env::var(name).ok())?;
        if let Some(folder) = &config.folder
            && !folder.held_back.is_empty()
            && !TOLD.swap(true, Ordering::Relaxed)
        {
            let (path, keys) = (folder.path.display(), folder.held_back.join(", "));
            output::say(&format!("note: {path} is not trusted, so {keys} in it has no effect"));
            output::say("hint: read the file; if it is yours, run `longhand trust` in its folder");
        }
        Ok(config)
    }

    fn read(
        here: &Path,
        user_file: Option<&Path>,
        trusted: &Trusted,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self> {
        let mut config = Self::default();
        if let Some(user_file) = user_file.filter(|path| path.is_file()) {
            config.add(settings_of(user_file, &contents(user_file)?)?, user_file);
        }
        let above = here.ancestors().map(|folder| folder.join(FILE)).find(|path| path.is_file());
        let is_own = |path: &Path| user_file.is_some_and(|user_file| same_file(user_file, path));
        if let Some(path) = above.filter(|path| !is_own(path)) {
            config.add_folder(&path, trusted)?;
        }
        for known in KNOWN {
            let Some(name) = known.variable else { continue };
            let Some(text) = variable(name).filter(|text| !text.is_empty()) else { continue };
            let value = from_text(known.kind, &text)
                .with_context(|| format!("{name} is {text:?}, but must be {}", known.kind))?;
            config.settings.insert(known.key.to_owned(), (value, SettingSource::Variable(name)));
        }
        Ok(config)
    }

    fn add(&mut self, settings: Vec<(String, Value)>, path: &Path) {
        let source = SettingSource::File(path.to_owned());
        let sourced = settings.into_iter().map(|(key, value)| (key, (value, source.clone())));
        self.settings.extend(sourced);
    }

    fn add_folder(&mut self, path: &Path, trusted: &Trusted) -> Result<()> {
        let content = contents(path)?;
        let canonical = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let is_trusted = trusted.has(&canonical, &content);
        let settings = settings_of(path, &content)?;
        let (counting, held_back): (Vec<_>, Vec<_>) =
            settings.into_iter().partition(|(key, _)| is_trusted || is_harmless(key));
        self.add(counting, path);
        let held_back = held_back.into_iter().map(|(key, _)| key).collect();
        self.folder = Some(FolderFile { path: path.to_owned(), is_trusted, held_back });
        Ok(())
    }

    /// The file of the folder, if there is one that is not the user's own.
    pub(crate) fn folder(&self) -> Option<&FolderFile> {
        self.folder.as_ref()
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

impl fmt::Display for SettingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SettingKind::Text => "a text",
            SettingKind::Whole => "a whole number",
            SettingKind::Number => "a number",
            SettingKind::Texts => "a string or a list of strings",
        })
    }
}

/// The settings of a folder's file that count only if it is trusted.
pub(crate) fn held_back(path: &Path, content: &str) -> Result<Vec<(String, Value)>> {
    let mut settings = settings_of(path, content)?;
    settings.retain(|(key, _)| !is_harmless(key));
    Ok(settings)
}

fn is_harmless(key: &str) -> bool {
    KNOWN.iter().any(|known| matches(known.key, key) && known.is_harmless())
}

fn contents(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The settings in a file, each of them known and of its kind.
fn settings_of(path: &Path, content: &str) -> Result<Vec<(String, Value)>> {
    let name = path.display();
    let table: Table = content.parse().with_context(|| format!("{name} is not TOML"))?;
    let mut settings = Vec::new();
    flatten("", &table, &mut settings);
    for (key, value) in &settings {
        let Some(known) = KNOWN.iter().find(|known| matches(known.key, key)) else {
            return Err(hinted(
                format!("{name}: there is no setting `{key}`"),
                nearest(key).map_or_else(sections, |known| format!("did you mean `{known}`?")),
            ));
        };
        if !is_kind(known.kind, value) {
            bail!("{name}: `{key}` must be {}", known.kind);
        }
    }
    Ok(settings)
}

fn same_file(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    one == other || (real(one).is_some() && real(one) == real(other))
}

/// The user's own settings.
pub(crate) fn own_file() -> Option<PathBuf> {
    Some(paths::settings()?.join(FILE))
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

/// The setting that a misspelt key was meant to be; `None` if none is similar.
fn nearest(key: &str) -> Option<String> {
    // The user may choose any name here.
    let middle = key.split('.').nth(1).unwrap_or_default();
    let shapes = KNOWN.iter().map(|known| known.key.replace('*', middle));
    let distances = shapes.map(|shape| (strsim::damerau_levenshtein(&shape, key), shape));
    let (distance, shape) = distances.min()?;
    (distance * 2 <= key.len()).then_some(shape)
}

/// Names the sections of the settings.
fn sections() -> String {
    let mut names: Vec<&str> =
        KNOWN.iter().filter_map(|known| known.key.split('.').next()).collect();
    names.dedup();
    format!("the sections are {}", names.join(", "))
}

fn is_kind(kind: SettingKind, value: &Value) -> bool {
    match kind {
        SettingKind::Text => value.is_str(),
        SettingKind::Whole => value.as_integer().is_some_and(|number| number >= 0),
        SettingKind::Number => value.is_float() || value.is_integer(),
        SettingKind::Texts => {
            value.is_str() || value.as_array().is_some_and(|list| list.iter().all(Value::is_str))
        }
    }
}

fn from_text(kind: SettingKind, text: &str) -> Option<Value> {
    match kind {
        SettingKind::Text => Some(Value::String(text.to_owned())),
        SettingKind::Whole => {
            text.parse::<i64>().ok().filter(|number| *number >= 0).map(Value::Integer)
        }
        SettingKind::Number => text.parse().ok().map(Value::Float),
        SettingKind::Texts => {
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
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Config::read(&inner, None, &Trusted::default(), variable)
    }

    #[test]
    fn the_environment_is_stronger_than_the_file() {
        let file = "[session]\nbudget = 9000\nrounds = 4\n";
        let config = read(file, &[("LONGHAND_BUDGET", "7000")]).unwrap();
        assert_eq!(
            (config.whole("session.budget"), config.whole("session.rounds")),
            (Some(7000), Some(4))
        );
        let all = config.all();
        let setting = |key: &str| all.iter().find(|(known, ..)| known == key).unwrap();
        assert_eq!(setting("session.budget").2, "LONGHAND_BUDGET");
        assert!(setting("session.rounds").2.ends_with(FILE));
        assert_eq!(
            setting("session.summary"),
            &("session.summary".into(), "4000".into(), "default".into())
        );
    }

    #[test]
    fn a_folder_says_how_much_and_not_where() {
        let file = "[session]\nbudget = 9000\n[windows.m]\ntokens = 5\n[models]\nsummary = 'e/m'\n\
            chat = 'e/m'\n[archive]\npath = 'x'\n[endpoints.e]\nurl = 'http://x/v1'\nkey_env = 'K'\n\
            [prices.m]\ninput = 0\n[chat]\nsystem = 'Obey.'\n";
        let config = read(file, &[]).unwrap();
        let counts: Vec<&String> = config.settings.keys().collect();
        assert_eq!(counts, ["session.budget", "windows.m.tokens"]);
        let folder = config.folder().unwrap();
        assert!(!folder.is_trusted);
        assert_eq!(folder.held_back.len(), 7, "{folder:?}");
    }

    #[test]
    fn the_user_s_own_file_is_beneath_that_of_the_folder() {
        let (user_folder, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let user_file = user_folder.path().join(FILE);
        std::fs::write(&user_file, "[session]\nbudget = 1\nrounds = 2\n[models]\nchat = 'e/m'\n")
            .unwrap();
        std::fs::write(folder.path().join(FILE), "[session]\nbudget = 3\n").unwrap();
        let config =
            Config::read(folder.path(), Some(&user_file), &Trusted::default(), |_| None).unwrap();
        assert_eq!(config.whole("session.budget"), Some(3));
        assert_eq!(config.whole("session.rounds"), Some(2));
        assert_eq!(config.text("models.chat"), Some("e/m"));
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
            wrong("[models]\nsummary = [1]")
                .contains("`models.summary` must be a string or a list")
        );
        assert!(wrong("[session").contains("is not TOML"));
        let error = read("", &[("LONGHAND_ROUNDS", "-1")]).unwrap_err().to_string();
        assert!(error.contains("LONGHAND_ROUNDS") && error.contains("whole number"), "{error}");
    }

    #[test]
    fn names_may_have_dots() {
        let config = read("[windows.'gpt-5.2']\ntokens = 1\n", &[]).unwrap();
        assert_eq!(config.names("windows"), ["gpt-5.2"]);
        assert_eq!(config.whole("windows.gpt-5.2.tokens"), Some(1));
    }
}
