//! What each agent needs to speak to the proxy: variables, arguments, or files in a temporary folder.
//!
//! Nothing of the user's own is changed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

/// Hosts that are reached directly, whatever proxy the environment names.
const LOCAL: &str = "127.0.0.1,localhost";

/// What an agent is started with.
pub(super) struct Recipe {
    /// Variables to set.
    pub(super) variables: Vec<(OsString, OsString)>,
    /// Arguments before the user's own.
    pub(super) arguments: Vec<OsString>,
    /// Files that are removed when the recipe is dropped.
    pub(super) folder: Option<TempDir>,
}

impl Recipe {
    /// The recipe for an agent by its name; `variable` reads the environment.
    pub(super) fn of(
        agent: &str,
        address: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self> {
        let below = format!("{address}/v1");
        let mut recipe = Self { variables: Vec::new(), arguments: Vec::new(), folder: None };
        // What most programs and clients read.
        for (name, value) in [
            ("OPENAI_BASE_URL", &below),
            ("OPENAI_API_BASE", &below),
            ("ANTHROPIC_BASE_URL", &address.to_owned()),
            ("ANTHROPIC_API_BASE", &address.to_owned()),
        ] {
            recipe.set(name, value);
        }
        for name in ["NO_PROXY", "no_proxy"] {
            let others = variable(name).filter(|others| !others.is_empty());
            let hosts =
                others.map_or_else(|| LOCAL.to_owned(), |others| format!("{others},{LOCAL}"));
            recipe.set(name, &hosts);
        }
        match agent {
            "codex" => {
                let value = json!(below);
                recipe.arguments = ["-c".into(), format!("openai_base_url={value}").into()].into();
            }
            "opencode" => {
                let before = variable("OPENCODE_CONFIG_CONTENT");
                recipe.set("OPENCODE_CONFIG_CONTENT", &opencode(before.as_deref(), &below)?);
            }
            "pi" => {
                let home = variable("HOME").or_else(|| variable("USERPROFILE"));
                let own = variable("PI_CODING_AGENT_DIR").map(PathBuf::from);
                let own = own.or_else(|| Some(Path::new(&home?).join(".pi/agent")));
                let folder = pi(own.as_deref(), address)?;
                recipe.set("PI_CODING_AGENT_DIR", &folder.path().to_string_lossy());
                recipe.folder = Some(folder);
            }
            _ => {}
        }
        Ok(recipe)
    }

    fn set(&mut self, name: &str, value: &str) {
        self.variables.push((name.into(), value.into()));
    }
}

/// Settings that opencode reads besides its files; what the user has there stays.
fn opencode(before: Option<&str>, below: &str) -> Result<String> {
    let mut config: Value = match before.filter(|before| !before.trim().is_empty()) {
        Some(before) => serde_json::from_str(before)
            .context("OPENCODE_CONFIG_CONTENT is not JSON, so it cannot be added to")?,
        None => json!({}),
    };
    for provider in ["openai", "anthropic"] {
        put(&mut config, &["provider", provider, "options", "baseURL"], json!(below));
    }
    Ok(config.to_string())
}

/// A copy of the user's folder for pi, with other addresses for two providers.
fn pi(own: Option<&Path>, address: &str) -> Result<TempDir> {
    let failed = "cannot make a folder for pi's settings";
    let folder = tempfile::Builder::new().prefix("longhand-pi-").tempdir().context(failed)?;
    let mut models = json!({});
    if let Some(own) = own {
        // Its sessions are to be found again, so its folder has to be there.
        std::fs::create_dir_all(own.join("sessions")).context(failed)?;
        for entry in std::fs::read_dir(own).context(failed)?.flatten() {
            if entry.file_name() != "models.json" {
                link(&entry.path(), &folder.path().join(entry.file_name())).context(failed)?;
            }
        }
        if let Ok(text) = std::fs::read_to_string(own.join("models.json")) {
            models = serde_json::from_str(&text).context("pi's models.json is not JSON")?;
        }
    }
    for (provider, url) in [("openai", format!("{address}/v1")), ("anthropic", address.to_owned())]
    {
        put(&mut models, &["providers", provider, "baseUrl"], json!(url));
    }
    std::fs::write(folder.path().join("models.json"), models.to_string()).context(failed)?;
    Ok(folder)
}

#[cfg(unix)]
fn link(target: &Path, at: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, at)
}

#[cfg(not(unix))]
fn link(target: &Path, at: &Path) -> std::io::Result<()> {
    if target.is_dir() {
        std::os::windows::fs::symlink_dir(target, at)
    } else {
        std::fs::copy(target, at).map(|_| ())
    }
}

/// Sets a value in nested objects; a value on the way that is no object is replaced by one.
fn put(value: &mut Value, keys: &[&str], new: Value) {
    let Some((key, rest)) = keys.split_first() else {
        *value = new;
        return;
    };
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    if let Value::Object(fields) = value {
        put(fields.entry(*key).or_insert(Value::Null), rest, new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(recipe: &Recipe, name: &str) -> String {
        let found = recipe.variables.iter().rfind(|(own, _)| own.as_os_str() == name);
        found.unwrap().1.to_string_lossy().into_owned()
    }

    #[test]
    fn every_program_gets_the_usual_variables() {
        let set = |name: &str| (name == "NO_PROXY").then(|| "intranet".to_owned());
        let recipe = Recipe::of("anything", "http://127.0.0.1:9", set).unwrap();
        assert_eq!(variable(&recipe, "OPENAI_BASE_URL"), "http://127.0.0.1:9/v1");
        assert_eq!(variable(&recipe, "OPENAI_API_BASE"), "http://127.0.0.1:9/v1");
        assert_eq!(variable(&recipe, "ANTHROPIC_BASE_URL"), "http://127.0.0.1:9");
        assert_eq!(variable(&recipe, "NO_PROXY"), "intranet,127.0.0.1,localhost");
        assert!(recipe.arguments.is_empty());
        let codex = Recipe::of("codex", "http://127.0.0.1:9", |_| None).unwrap();
        assert_eq!(codex.arguments, ["-c", "openai_base_url=\"http://127.0.0.1:9/v1\""]);
    }

    #[test]
    fn what_the_user_has_configured_stays() {
        let before = r#"{"theme":"x","provider":{"openai":{"options":{"timeout":9}}}}"#;
        let set = |name: &str| (name == "OPENCODE_CONFIG_CONTENT").then(|| before.to_owned());
        let recipe = Recipe::of("opencode", "http://127.0.0.1:9", set).unwrap();
        let config: Value =
            serde_json::from_str(&variable(&recipe, "OPENCODE_CONFIG_CONTENT")).unwrap();
        assert_eq!(config["theme"], "x");
        let options = json!({"timeout": 9, "baseURL": "http://127.0.0.1:9/v1"});
        assert_eq!(config["provider"]["openai"]["options"], options);
        assert!(Recipe::of("opencode", "http://a", |_| Some("no json".to_owned())).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn pi_keeps_itsfolder_and_gets_other_addresses() {
        let home = tempfile::tempdir().unwrap();
        let own = home.path().join(".pi/agent");
        std::fs::create_dir_all(&own).unwrap();
        std::fs::write(own.join("auth.json"), "{}").unwrap();
        let models = r#"{"providers":{"mine":{"baseUrl":"http://m"},"openai":{"headers":{}}}}"#;
        std::fs::write(own.join("models.json"), models).unwrap();
        let path = home.path().to_string_lossy().into_owned();
        let set = |name: &str| (name == "HOME").then(|| path.clone());
        let recipe = Recipe::of("pi", "http://127.0.0.1:9", set).unwrap();
        let folder = PathBuf::from(variable(&recipe, "PI_CODING_AGENT_DIR"));
        assert_eq!(std::fs::read_to_string(folder.join("auth.json")).unwrap(), "{}");
        let made: Value =
            serde_json::from_str(&std::fs::read_to_string(folder.join("models.json")).unwrap())
                .unwrap();
        assert_eq!(made["providers"]["mine"]["baseUrl"], "http://m");
        assert_eq!(made["providers"]["anthropic"]["baseUrl"], "http://127.0.0.1:9");
        assert_eq!(made["providers"]["openai"]["baseUrl"], "http://127.0.0.1:9/v1");
        assert!(made["providers"]["openai"]["headers"].is_object());
        std::fs::write(folder.join("sessions/new"), "kept").unwrap();
        drop(recipe);
        assert!(!folder.exists());
        assert_eq!(std::fs::read_to_string(own.join("models.json")).unwrap(), models);
        assert_eq!(std::fs::read_to_string(own.join("sessions/new")).unwrap(), "kept");
    }
}
