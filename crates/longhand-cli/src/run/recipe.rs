//! What each agent needs to speak to the proxy: variables, arguments, or files in a private folder.
//!
//! Nothing of the user's own is changed. The secret of a run stands only where other users cannot look: in variables and
//! in the private folder, never in arguments.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::folder::RunFolder;
use super::values::{self, ValueChange};

/// Hosts that are reached directly, whatever proxy the environment names.
const LOCAL: &str = "127.0.0.1,localhost";

/// Where the proxy is.
pub(super) struct Address {
    /// Its address without a path.
    pub(super) url: String,
    /// What every request must have.
    pub(super) secret: String,
    /// Whether requests for Anthropic Messages go to Anthropic itself.
    pub(super) is_anthropic: bool,
}

impl Address {
    /// The address with the secret in its path.
    fn private(&self) -> String {
        format!("{}/{}", self.url, self.secret)
    }
}

/// What an agent is started with.
pub(super) struct Recipe {
    /// Variables to set.
    pub(super) variables: Vec<(OsString, OsString)>,
    /// Arguments before the user's own. Everybody on this machine can read them.
    pub(super) arguments: Vec<OsString>,
}

impl Recipe {
    /// The recipe for an agent by its name; `variable` reads the environment.
    pub(super) fn of(
        agent: &str,
        address: &Address,
        folder: &RunFolder,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self> {
        let root = address.private();
        let below = format!("{root}/v1");
        let mut recipe = Self { variables: Vec::new(), arguments: Vec::new() };
        // What most programs and clients read.
        for (name, value) in [
            ("OPENAI_BASE_URL", &below),
            ("OPENAI_API_BASE", &below),
            ("ANTHROPIC_BASE_URL", &root),
            ("ANTHROPIC_API_BASE", &root),
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
                // Codex takes its address as an argument or from its settings. The secret goes into a variable that it
                // sends as a header, before the user's own value.
                let url = json!(format!("{}/v1", address.url));
                recipe.arguments = ["-c".into(), format!("openai_base_url={url}").into()].into();
                let project = variable("OPENAI_PROJECT").filter(|project| !project.is_empty());
                let project = project.map(|project| format!(".{project}")).unwrap_or_default();
                recipe.set("OPENAI_PROJECT", &format!("{}{project}", address.secret));
            }
            "claude" => {
                // Behind an address that is not the provider's, it would send the schemas of all tools.
                let is_set = variable("ENABLE_TOOL_SEARCH").is_some();
                if address.is_anthropic && !is_set {
                    recipe.set("ENABLE_TOOL_SEARCH", "true");
                }
            }
            "opencode" => {
                let before = variable("OPENCODE_CONFIG_CONTENT");
                recipe.set("OPENCODE_CONFIG_CONTENT", &opencode(before.as_deref(), &below)?);
            }
            "pi" => {
                let home = variable("HOME").or_else(|| variable("USERPROFILE"));
                let settings = variable("PI_CODING_AGENT_DIR").filter(|path| !path.is_empty());
                let settings = settings.map(PathBuf::from);
                let settings = settings.or_else(|| Some(Path::new(&home?).join(".pi/agent")));
                let settings = settings.context("HOME is not set, so pi has no settings")?;
                let settings = pi(&settings, &root, folder)?;
                recipe.set("PI_CODING_AGENT_DIR", &settings.to_string_lossy());
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
        let keys = ["provider", provider, "options", "baseURL"];
        values::set(&mut config, &ValueChange::new(&keys, below));
    }
    Ok(config.to_string())
}

/// A private copy of pi's folder, with other addresses for two providers.
fn pi(settings: &Path, root: &str, folder: &RunFolder) -> Result<PathBuf> {
    // Its sessions are to be found again, so their folder has to be there.
    let sessions = settings.join("sessions");
    std::fs::create_dir_all(&sessions)
        .with_context(|| format!("cannot make {}", sessions.display()))?;
    let settings = std::path::absolute(settings).context("pi's folder cannot be found")?;
    let change =
        |provider: &str, url: &str| ValueChange::new(&["providers", provider, "baseUrl"], url);
    let changes = vec![change("openai", &format!("{root}/v1")), change("anthropic", root)];
    folder.shadow(&settings, "models.json", changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(agent: &str, set: impl Fn(&str) -> Option<String>) -> Result<(Recipe, RunFolder)> {
        made_for(true, agent, set)
    }

    fn made_for(
        is_anthropic: bool,
        agent: &str,
        set: impl Fn(&str) -> Option<String>,
    ) -> Result<(Recipe, RunFolder)> {
        let (url, secret) = ("http://127.0.0.1:9".to_owned(), "s3cret".to_owned());
        let address = Address { url, secret, is_anthropic };
        let folder = RunFolder::create().unwrap();
        Ok((Recipe::of(agent, &address, &folder, set)?, folder))
    }

    fn variable(recipe: &Recipe, name: &str) -> String {
        let found = recipe.variables.iter().rfind(|(known, _)| known.as_os_str() == name);
        found.unwrap().1.to_string_lossy().into_owned()
    }

    #[test]
    fn every_program_gets_the_usual_variables() {
        let set = |name: &str| (name == "NO_PROXY").then(|| "intranet".to_owned());
        let (recipe, _folder) = made("anything", set).unwrap();
        assert_eq!(variable(&recipe, "OPENAI_BASE_URL"), "http://127.0.0.1:9/s3cret/v1");
        assert_eq!(variable(&recipe, "OPENAI_API_BASE"), "http://127.0.0.1:9/s3cret/v1");
        assert_eq!(variable(&recipe, "ANTHROPIC_BASE_URL"), "http://127.0.0.1:9/s3cret");
        assert_eq!(variable(&recipe, "NO_PROXY"), "intranet,127.0.0.1,localhost");
        assert!(recipe.arguments.is_empty());
    }

    #[test]
    fn claude_code_defers_tools_for_its_own_provider_unless_the_user_decided() {
        let name = "ENABLE_TOOL_SEARCH";
        let sets = |recipe: &Recipe| recipe.variables.iter().any(|(known, _)| known == name);
        assert_eq!(variable(&made("claude", |_| None).unwrap().0, name), "true");
        assert!(
            !sets(&made_for(false, "claude", |_| None).unwrap().0),
            "others know no such tools"
        );
        let decided = |asked: &str| (asked == name).then(|| "false".to_owned());
        assert!(!sets(&made("claude", decided).unwrap().0));
        assert!(!sets(&made("codex", |_| None).unwrap().0));
    }

    #[test]
    fn no_argument_has_the_secret() {
        for agent in ["claude", "codex", "opencode", "aider", "llm", "mini", "python"] {
            let (recipe, _folder) = made(agent, |_| None).unwrap();
            assert!(!format!("{:?}", recipe.arguments).contains("s3cret"), "{agent}");
        }
        let (codex, _folder) = made("codex", |_| None).unwrap();
        assert_eq!(codex.arguments, ["-c", "openai_base_url=\"http://127.0.0.1:9/v1\""]);
        assert_eq!(variable(&codex, "OPENAI_PROJECT"), "s3cret");
        let set = |name: &str| (name == "OPENAI_PROJECT").then(|| "proj_1".to_owned());
        assert_eq!(variable(&made("codex", set).unwrap().0, "OPENAI_PROJECT"), "s3cret.proj_1");
    }

    #[test]
    fn what_the_user_has_configured_stays() {
        let before = r#"{"theme":"x","provider":{"openai":{"options":{"timeout":9}}}}"#;
        let set = |name: &str| (name == "OPENCODE_CONFIG_CONTENT").then(|| before.to_owned());
        let (recipe, _folder) = made("opencode", set).unwrap();
        let config: Value =
            serde_json::from_str(&variable(&recipe, "OPENCODE_CONFIG_CONTENT")).unwrap();
        assert_eq!(config["theme"], "x");
        let options = json!({"timeout": 9, "baseURL": "http://127.0.0.1:9/s3cret/v1"});
        assert_eq!(config["provider"]["openai"]["options"], options);
        assert!(made("opencode", |_| Some("no json".to_owned())).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn pi_has_its_folder_and_gets_other_addresses() {
        let home = tempfile::tempdir().unwrap();
        let user_folder = home.path().join(".pi/agent");
        std::fs::create_dir_all(&user_folder).unwrap();
        std::fs::write(user_folder.join("auth.json"), "{}").unwrap();
        let models = r#"{"providers":{"mine":{"baseUrl":"http://m"},"openai":{"headers":{}}}}"#;
        std::fs::write(user_folder.join("models.json"), models).unwrap();
        let path = home.path().to_string_lossy().into_owned();
        let (recipe, folder) = made("pi", |name| (name == "HOME").then(|| path.clone())).unwrap();
        let settings = PathBuf::from(variable(&recipe, "PI_CODING_AGENT_DIR"));
        assert_eq!(std::fs::read_to_string(settings.join("auth.json")).unwrap(), "{}");
        let made: Value =
            serde_json::from_str(&std::fs::read_to_string(settings.join("models.json")).unwrap())
                .unwrap();
        assert_eq!(made["providers"]["mine"]["baseUrl"], "http://m");
        assert_eq!(made["providers"]["anthropic"]["baseUrl"], "http://127.0.0.1:9/s3cret");
        assert_eq!(made["providers"]["openai"]["baseUrl"], "http://127.0.0.1:9/s3cret/v1");
        assert!(made["providers"]["openai"]["headers"].is_object());
        std::fs::write(settings.join("sessions/new"), "kept").unwrap();
        drop(folder);
        assert!(!settings.exists());
        assert_eq!(std::fs::read_to_string(user_folder.join("models.json")).unwrap(), models);
        assert_eq!(std::fs::read_to_string(user_folder.join("sessions/new")).unwrap(), "kept");
    }
}
