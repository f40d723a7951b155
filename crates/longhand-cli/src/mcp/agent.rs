//! The agents: where each keeps its MCP servers, and in which form.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{json as json_file, toml as toml_file};
use crate::args::McpAgent;
use crate::hinted;

/// What our server is called in every file.
pub(super) const NAME: &str = "longhand";

/// How a settings file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileFormat {
    Json,
    Toml,
}

/// Where an agent keeps its servers.
pub(super) struct AgentSettings {
    /// What people call it.
    pub(super) name: &'static str,
    /// The command that starts it.
    program: &'static str,
    /// Its settings file, which may not be there.
    pub(super) file: PathBuf,
    /// Its own folder, which is there if it ever ran.
    folder: PathBuf,
    pub(super) format: FileFormat,
    /// The keys under which the servers are.
    parents: &'static [&'static str],
    form: EntryForm,
}

/// How an entry says what is to be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryForm {
    /// `command` and `args`.
    Plain,
    /// The same with its `type`.
    Typed,
    /// One list.
    List,
}

impl AgentSettings {
    /// Finds the settings file of an agent.
    pub(super) fn of(agent: McpAgent) -> Result<Self> {
        let home = etcetera::home_dir().context("cannot find your home folder: HOME is not set")?;
        let set = |name: &str| {
            std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
        };
        let config = || set("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
        Ok(match agent {
            McpAgent::Claude => {
                let configured = set("CLAUDE_CONFIG_DIR");
                let folder = configured.clone().unwrap_or_else(|| home.join(".claude"));
                Self {
                    name: "Claude Code",
                    program: "claude",
                    file: configured.unwrap_or(home).join(".claude.json"),
                    folder,
                    format: FileFormat::Json,
                    parents: &["mcpServers"],
                    form: EntryForm::Typed,
                }
            }
            McpAgent::Codex => {
                let folder = set("CODEX_HOME").unwrap_or_else(|| home.join(".codex"));
                Self {
                    name: "Codex",
                    program: "codex",
                    file: folder.join("config.toml"),
                    folder,
                    format: FileFormat::Toml,
                    parents: &["mcp_servers"],
                    form: EntryForm::Plain,
                }
            }
            McpAgent::Cursor => {
                let folder = home.join(".cursor");
                Self {
                    name: "Cursor",
                    program: "cursor",
                    file: folder.join("mcp.json"),
                    folder,
                    format: FileFormat::Json,
                    parents: &["mcpServers"],
                    form: EntryForm::Plain,
                }
            }
            McpAgent::Zed => {
                let folder = config().join("zed");
                Self {
                    name: "Zed",
                    program: "zed",
                    file: folder.join("settings.json"),
                    folder,
                    format: FileFormat::Json,
                    parents: &["context_servers"],
                    form: EntryForm::Plain,
                }
            }
            McpAgent::Opencode => {
                let folder = config().join("opencode");
                let named = ["opencode.jsonc", "opencode.json"].map(|name| folder.join(name));
                let there = named.iter().find(|file| file.exists()).cloned();
                let file = set("OPENCODE_CONFIG").or(there).unwrap_or_else(|| named[1].clone());
                Self {
                    name: "opencode",
                    program: "opencode",
                    file,
                    folder,
                    format: FileFormat::Json,
                    parents: &["mcp"],
                    form: EntryForm::List,
                }
            }
            McpAgent::Pi => {
                return Err(hinted(
                    "pi has no MCP servers of its own, so there is nothing to install",
                    "`longhand run -- pi` offers its model a tool that searches the session; pi itself can call \
                     `longhand search WORDS` and `longhand expand HANDLE`, if its AGENTS.md says so",
                ));
            }
        })
    }

    /// Whether there is any sign of the agent.
    pub(super) fn is_there(&self) -> bool {
        self.file.exists() || self.folder.is_dir() || in_path(self.program).is_some()
    }

    /// Says that it is not there.
    pub(super) fn missing(&self) -> anyhow::Error {
        let Self { name, program, folder, .. } = self;
        hinted(
            format!(
                "{name} is not here: there is no {} and no {program} in PATH",
                folder.display()
            ),
            "--print shows the entry all the same",
        )
    }

    /// The keys that lead to our entry in a file that says this.
    pub(super) fn keys(&self, says: &Value) -> Vec<&'static str> {
        let mut keys = self.parents.to_vec();
        // Newer files of opencode have one level more.
        if self.form == EntryForm::List && says["mcp"]["servers"].is_object() {
            keys.push("servers");
        }
        keys.push(NAME);
        keys
    }

    /// The entry that starts a program with arguments.
    pub(super) fn entry(&self, program: &str, arguments: &[String]) -> Value {
        match self.form {
            EntryForm::Plain => json!({"command": program, "args": arguments}),
            EntryForm::Typed => json!({"type": "stdio", "command": program, "args": arguments}),
            EntryForm::List => {
                let command: Vec<&str> =
                    [program].into_iter().chain(arguments.iter().map(String::as_str)).collect();
                json!({"type": "local", "command": command, "enabled": true})
            }
        }
    }

    pub(super) fn read(&self, text: &str) -> Result<Value> {
        match self.format {
            FileFormat::Json => json_file::read(text),
            FileFormat::Toml => toml_file::read(text),
        }
    }

    pub(super) fn with_entry(&self, text: &str, keys: &[&str], entry: &Value) -> Result<String> {
        match self.format {
            FileFormat::Json => json_file::with_entry(text, keys, entry),
            FileFormat::Toml => toml_file::with_entry(text, keys, entry),
        }
    }

    pub(super) fn without_entry(&self, text: &str, keys: &[&str]) -> Result<String> {
        match self.format {
            FileFormat::Json => json_file::without_entry(text, keys),
            FileFormat::Toml => toml_file::without_entry(text, keys),
        }
    }
}

/// Whether an entry starts `longhand mcp`, and not another server of that name.
pub(super) fn is_ours(entry: &Value) -> bool {
    let command = &entry["command"];
    let first = command.as_str().or_else(|| command[0].as_str()).unwrap_or_default();
    let arguments = entry["args"].as_array().or(command.as_array());
    let starts = arguments.is_some_and(|words| words.iter().take(2).any(|word| word == "mcp"));
    Path::new(first).file_stem() == Some(OsStr::new(NAME)) && starts
}

/// How an agent calls this program: by the name in PATH that stays the same when it is updated, with its whole path, since
/// programs with windows have another PATH than terminals.
pub(super) fn program() -> Result<String> {
    let running = std::env::current_exe().context("cannot find the path of this program")?;
    let found = in_path(NAME).filter(|found| {
        found
            .canonicalize()
            .ok()
            .zip(running.canonicalize().ok())
            .is_some_and(|(one, other)| one == other)
    });
    let path = found.unwrap_or(running);
    let text = path.to_str().map(str::to_owned);
    text.with_context(|| format!("the path of this program is no text: {}", path.display()))
}

fn in_path(program: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let mut files = std::env::split_paths(&folders).map(|folder| folder.join(program));
    files.find(|file| file.is_absolute() && file.is_file())
}
