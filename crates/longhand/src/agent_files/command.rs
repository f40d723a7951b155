//! The command that goes on in a session, in its folder.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use longhand_dialect::{Dialect, read_growing, unpack};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Agent, AgentFile, opencode};
use crate::driver::opening_of;

/// How much of a file is read to find its folder.
const BEGINNING: u64 = 256 << 10;
/// From so many characters on, Claude Code cuts the name that a folder has among its sessions.
const FOLDER_CHARS_MAX: usize = 200;

/// What goes on in a session of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AgentCommand {
    /// The folder that it has to run in; `None` if any will do, or none is known.
    pub folder: Option<String>,
    /// The program and its arguments.
    pub words: Vec<String>,
    /// Both as a line for a shell.
    pub line: String,
}

impl AgentCommand {
    /// Makes a command of a program and its arguments.
    pub fn new(folder: Option<String>, words: &[&str]) -> Self {
        let quoted: Vec<String> = words.iter().map(|word| escaped(word)).collect();
        let line = quoted.join(" ");
        let line = match &folder {
            Some(folder) => format!("cd {} && {line}", shell_word(folder)),
            None => line,
        };
        Self { folder, words: words.iter().map(ToString::to_string).collect(), line }
    }

    /// Goes on in the session of a file that has this id.
    pub fn resume(agent: Agent, path: &Path, id: &str, folder: Option<String>) -> Self {
        let path = path.to_string_lossy();
        match agent {
            Agent::Claude => Self::new(folder, &["claude", "--resume", id]),
            Agent::Codex => Self::new(folder, &["codex", "resume", id]),
            Agent::Pi => Self::new(folder, &["pi", "--session", &path]),
            Agent::Opencode => Self::new(folder, &["opencode", "--session", id]),
            Agent::Copilot => Self::new(folder, &["copilot", "--resume", id]),
        }
    }
}

impl AgentFile {
    /// The beginning of the file; `None` if it cannot be read.
    fn beginning(&self) -> Option<String> {
        if self.session.is_some() {
            return None;
        }
        let mut bytes = Vec::new();
        File::open(&self.path).ok()?.take(BEGINNING).read_to_end(&mut bytes).ok()?;
        // A packed file that is longer cannot be unpacked from its beginning.
        let bytes = unpack(bytes, BEGINNING * 16).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The user's first words, as the beginning of the file tells.
    pub fn opening(&self) -> Option<String> {
        if self.session.is_some() {
            return opencode::facts(self).map(|facts| facts.title);
        }
        let text = self.beginning()?;
        let lines = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
        let conversation = read_growing(Arc::new(lines.to_owned()), None).ok()?;
        let form = conversation.dialect.as_str();
        conversation.messages.iter().find_map(|message| opening_of(form, message.raw.raw()))
    }

    /// The folder that its agent was started in, as the beginning of the file tells.
    pub fn folder(&self) -> Option<String> {
        if self.session.is_some() {
            return opencode::facts(self).map(|facts| facts.folder);
        }
        let text = self.beginning()?;
        let mut folders = folders_in(&text);
        let first = folders.next();
        // The agent may have gone into other folders since; it looks for the session where it was started.
        let kept_under = self.path.parent()?.file_name()?.to_str()?;
        let is_start = |folder: &String| claude_name(folder) == kept_under;
        match &first {
            Some(folder) if self.agent == Agent::Claude && !is_start(folder) => {
                folders.find(is_start).or(first)
            }
            _ => first,
        }
    }

    /// What goes on in it; `None` if it has no id, or is a sub-agent's, in which nobody can go on.
    pub fn resume_command(&self) -> Option<AgentCommand> {
        let can_go_on = !self.is_of_sub_agent && !self.is_archived();
        let id = self.id.as_deref().filter(|_| can_go_on)?;
        Some(AgentCommand::resume(self.agent, &self.path, id, self.folder()))
    }
}

impl Agent {
    /// The agent whose session files have a format.
    pub fn of_dialect(dialect: Dialect) -> Option<Self> {
        match dialect {
            Dialect::ClaudeCode => Some(Self::Claude),
            Dialect::Codex => Some(Self::Codex),
            Dialect::Pi => Some(Self::Pi),
            _ => None,
        }
    }
}

fn folders_in(text: &str) -> impl Iterator<Item = String> {
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let folder = |line: Value| {
        let places = [&line["cwd"], &line["payload"]["cwd"], &line["data"]["context"]["cwd"]];
        places.into_iter().find_map(|place| Some(place.as_str()?.to_owned()))
    };
    lines.filter_map(folder).filter(|folder| !folder.is_empty())
}

/// What Claude Code calls a folder among its sessions.
fn claude_name(folder: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    // The hash that takes the place of the rest is not known here: such names fit no folder.
    folder.chars().map(plain).take(FOLDER_CHARS_MAX).collect()
}

/// A word of a command line, quoted for a shell if need be.
///
/// ```
/// use longhand::agent_files::shell_word;
///
/// assert_eq!(shell_word("notes/plan.md"), "notes/plan.md");
/// assert_eq!(shell_word("it's here"), r"'it'\''s here'");
/// assert_eq!(shell_word("-rf"), "'-rf'");
/// assert_eq!(shell_word("$(touch x)"), "'$(touch x)'");
/// assert_eq!(shell_word("a\nrm -rf ~"), "'arm -rf ~'");
/// ```
pub fn shell_word(word: &str) -> String {
    if word.starts_with('-') { in_quotes(word) } else { escaped(word) }
}

/// The same for a word that may be an option.
fn escaped(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_.@+:/".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) { word.to_owned() } else { in_quotes(word) }
}

fn in_quotes(word: &str) -> String {
    // A line break would end the command where it is pasted, and what a session says may be hostile.
    let word: String = word.chars().filter(|c| !c.is_control()).collect();
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_where_the_agent_was_started() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("-home-u-app");
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("11112222-3333-4444-8555-666677778888.jsonl");
        let lines =
            "{\"type\":\"summary\"}\n{\"cwd\":\"/home/u/app/src\"}\n{\"cwd\":\"/home/u/app\"}\n";
        std::fs::write(&path, lines).unwrap();
        let file = AgentFile::of(Agent::Claude, &path);
        assert_eq!(file.folder().as_deref(), Some("/home/u/app"));
        let command = file.resume_command().unwrap();
        let id = "11112222-3333-4444-8555-666677778888";
        assert_eq!(command.line, format!("cd /home/u/app && claude --resume {id}"));
        // Of another name, the first one counts.
        let path = home.path().join("11112222-3333-4444-8555-666677778888.jsonl");
        std::fs::write(&path, lines).unwrap();
        let file = AgentFile::of(Agent::Codex, &path);
        assert_eq!(file.folder().as_deref(), Some("/home/u/app/src"));
    }
}
