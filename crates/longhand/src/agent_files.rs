//! Where agents keep their session files on this machine.
//!
//! A session is named as people know it: by its file, by the agent's id for it or the beginning of that, or as the newest one of an
//! agent (`claude@last`).

mod command;
mod content;
mod opencode;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use longhand_core::{Batch, project};
use longhand_dialect::{Conversation, SessionFileStart};
use thiserror::Error;

pub use self::command::{AgentCommand, shell_word};
pub use self::content::{AgentContent, has_base};

/// The file in which Copilot CLI keeps a session, in a folder that has its id.
const COPILOT_LOG: &str = "events.jsonl";
/// The folder that Codex moves sessions to.
const ARCHIVED: &str = "archived_sessions";
/// How deep below its folder an agent keeps session files.
const DEPTH_MAX: usize = 6;
/// The fewest characters of an id that name a session.
const ID_CHARS_MIN: usize = 4;

/// An agent whose session files can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Agent {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// pi.
    Pi,
    /// opencode, whose sessions are in a database.
    Opencode,
    /// Copilot CLI.
    Copilot,
}

/// A session file of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentFile {
    /// Whose it is.
    pub agent: Agent,
    /// Where it is.
    pub path: PathBuf,
    /// Which session of a database it is; `None` if the file is one session.
    pub session: Option<String>,
    /// The agent's id for the session, if its name tells it.
    pub id: Option<String>,
    /// Whether it is the session of a sub-agent.
    pub is_of_sub_agent: bool,
    /// When it last changed.
    pub modified: Option<SystemTime>,
    /// Its size; of a session in a database a number that grows with it.
    pub bytes: u64,
}

/// Why a session was not found.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FindFileError {
    /// The name fits none.
    #[error("no session file is called {0:?}")]
    Unknown(String),
    /// The name fits several.
    #[error("{name:?} names several session files, such as {} and {}", .first.display(), .second.display())]
    Ambiguous {
        /// The name.
        name: String,
        /// One of them.
        first: PathBuf,
        /// Another.
        second: PathBuf,
    },
    /// The agent has none.
    #[error("{agent} has no session files in {}", .folder.display())]
    None {
        /// The agent's name.
        agent: &'static str,
        /// Where they would be.
        folder: PathBuf,
    },
    /// The database of an agent cannot be read.
    #[error("cannot read the sessions in {}: {what}", .file.display())]
    Database {
        /// The database.
        file: PathBuf,
        /// Why.
        what: String,
    },
    /// The home folder is not known.
    #[error("your home folder is not known: HOME is not set")]
    NoHome,
    /// The folder could not be read.
    #[error("cannot read {}", .folder.display())]
    Io {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Agent {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Claude, Self::Codex, Self::Pi, Self::Opencode, Self::Copilot];

    /// The command that starts it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Pi => "pi",
            Self::Opencode => "opencode",
            Self::Copilot => "copilot",
        }
    }

    /// The folder with its session files; `variable` looks up a variable of the environment.
    pub fn folder(self, variable: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
        let (moved, usual, below) = match self {
            Self::Claude => ("CLAUDE_CONFIG_DIR", ".claude", "projects"),
            Self::Codex => ("CODEX_HOME", ".codex", "sessions"),
            Self::Pi => ("PI_CODING_AGENT_DIR", ".pi/agent", "sessions"),
            Self::Opencode => ("XDG_DATA_HOME", ".local/share", "opencode"),
            Self::Copilot => ("COPILOT_HOME", ".copilot", "session-state"),
        };
        let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = || set("HOME").or_else(|| set("USERPROFILE")).map(|home| home.join(usual));
        set(moved).or_else(home).map(|folder| folder.join(below))
    }

    /// Its session files, the newest last.
    pub fn files(
        self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Vec<AgentFile>, FindFileError> {
        let folder = self.folder(variable).ok_or(FindFileError::NoHome)?;
        let mut files = Vec::new();
        if self == Self::Opencode {
            files = opencode::sessions(&folder.join(opencode::FILE))?;
        } else if folder.is_dir() {
            self.gather(&folder, DEPTH_MAX, &mut files)?;
        }
        let archived = folder.with_file_name(ARCHIVED);
        if self == Self::Codex && archived.is_dir() {
            let mut moved = Vec::new();
            self.gather(&archived, DEPTH_MAX, &mut moved)?;
            files.extend(moved);
        }
        one_of_each(&mut files);
        files.sort_by(|one, other| (one.modified, &one.path).cmp(&(other.modified, &other.path)));
        Ok(files)
    }

    fn gather(
        self,
        folder: &Path,
        depth: usize,
        files: &mut Vec<AgentFile>,
    ) -> Result<(), FindFileError> {
        let failed = |source: io::Error| FindFileError::Io { folder: folder.to_owned(), source };
        for entry in fs::read_dir(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let path = entry.path();
            // A file may vanish at any time.
            let Ok(data) = entry.metadata() else { continue };
            if data.is_dir() && depth > 0 {
                self.gather(&path, depth - 1, files)?;
            } else if data.is_file() && self.keeps(&path) {
                files.push(AgentFile {
                    modified: data.modified().ok(),
                    bytes: data.len(),
                    ..AgentFile::of(self, &path)
                });
            }
        }
        Ok(())
    }
}

impl Agent {
    /// Whether a file among its sessions is one.
    fn keeps(self, path: &Path) -> bool {
        let is_log = || path.file_name().is_some_and(|name| name == COPILOT_LOG);
        is_session_file(path)
            && (self != Self::Copilot || is_log() || id_of(stem_of(path)).is_some())
    }
}

/// Leaves one file of each session: agents pack old ones and move them, and may have both for a time.
fn one_of_each(files: &mut Vec<AgentFile>) {
    let is_packed = |file: &AgentFile| file.path.extension().is_some_and(|end| end == "zst");
    files.sort_by_key(|file| (file.is_archived(), is_packed(file)));
    let mut seen = std::collections::HashSet::new();
    files.retain(|file| {
        let is_own = file.agent != Agent::Codex || file.id.is_none();
        is_own || seen.insert(file.id.clone())
    });
}

impl AgentFile {
    /// A file that is known to be an agent's.
    pub fn of(agent: Agent, path: &Path) -> Self {
        let stem = stem_of(path);
        let below = path.parent().and_then(Path::file_name);
        let is_log = path.file_name().is_some_and(|name| name == COPILOT_LOG);
        let named = if is_log { below.and_then(|folder| folder.to_str()) } else { id_of(stem) };
        Self {
            agent: if is_log { Agent::Copilot } else { agent },
            session: None,
            id: named.map(str::to_owned),
            is_of_sub_agent: stem.starts_with("agent-")
                || below.is_some_and(|folder| folder == "subagents"),
            modified: None,
            bytes: 0,
            path: path.to_owned(),
        }
    }

    /// Whether its agent has put it aside.
    pub fn is_archived(&self) -> bool {
        self.path.components().any(|piece| piece.as_os_str() == ARCHIVED)
    }

    /// What it is called where people read it.
    pub fn place(&self) -> String {
        let path = self.path.display();
        self.session
            .as_ref()
            .map_or_else(|| path.to_string(), |session| format!("{path}#{session}"))
    }

    /// What names it: its id, or the name of the file.
    pub fn name(&self) -> String {
        self.id.clone().unwrap_or_else(|| stem_of(&self.path).to_owned())
    }

    /// Whether this is its id, the beginning of that, or the name of the file.
    pub fn is_called(&self, name: &str) -> bool {
        let begins = |id: &String| name.len() >= ID_CHARS_MIN && id.starts_with(name);
        self.id.as_ref().is_some_and(begins) || stem_of(&self.path) == name
    }
}

/// The sessions in a database of opencode; `None` if a file is no database.
pub fn in_database(file: &Path) -> Result<Option<Vec<AgentFile>>, FindFileError> {
    if opencode::is_database(file) { opencode::sessions(file).map(Some) } else { Ok(None) }
}

/// The session files of all agents, the newest last.
pub fn all(
    variable: impl Fn(&str) -> Option<String> + Copy,
) -> Result<Vec<AgentFile>, FindFileError> {
    let mut files = Vec::new();
    for agent in Agent::ALL {
        files.extend(agent.files(variable)?);
    }
    files.sort_by(|one, other| (one.modified, &one.path).cmp(&(other.modified, &other.path)));
    Ok(files)
}

/// Finds a session by an id, the beginning of one, or as the newest of an agent, such as `claude@last`.
pub fn find(
    name: &str,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<AgentFile, FindFileError> {
    if let Some((agent, "last")) = name.split_once('@')
        && let Some(agent) = Agent::ALL.into_iter().find(|known| known.as_str() == agent)
    {
        let files = agent.files(&variable)?;
        let newest = files.into_iter().rfind(|file| !file.is_of_sub_agent);
        let folder = agent.folder(&variable).unwrap_or_default();
        return newest.ok_or(FindFileError::None { agent: agent.as_str(), folder });
    }
    let mut found: Vec<AgentFile> = Vec::new();
    for agent in Agent::ALL {
        let files = agent.files(&variable)?;
        found.extend(files.into_iter().filter(|file| file.is_called(name)));
    }
    let is_exact = |file: &AgentFile| file.id.as_deref() == Some(name);
    if found.iter().any(is_exact) {
        found.retain(is_exact);
    }
    match found.as_slice() {
        [] => Err(FindFileError::Unknown(name.to_owned())),
        [file] => Ok(file.clone()),
        [first, second, ..] => Err(FindFileError::Ambiguous {
            name: name.to_owned(),
            first: first.path.clone(),
            second: second.path.clone(),
        }),
    }
}

fn is_session_file(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    [".jsonl", ".jsonl.zst"].iter().any(|end| name.ends_with(end))
}

fn stem_of(path: &Path) -> &str {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.split_once(".jsonl").map_or(name, |(stem, _)| stem)
}

/// The UUID at the end of a name.
fn id_of(stem: &str) -> Option<&str> {
    let id = stem.get(stem.len().checked_sub(36)?..)?;
    let is_uuid = id.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    });
    is_uuid.then_some(id)
}

/// Writes what the live batches leave of a session as a new session of its agent; `None` if it is no session file.
pub fn as_new_session(
    conversation: &Conversation,
    live: &[Batch],
    file: &SessionFileStart,
) -> Option<String> {
    let window = project(&conversation.path(), live, conversation.wire());
    conversation.as_new_session(&window, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0199aaaa-1111-7222-8333-444455556666";

    fn made(files: &[&str]) -> (tempfile::TempDir, impl Fn(&str) -> Option<String> + use<>) {
        let home = tempfile::tempdir().unwrap();
        for file in files {
            let path = home.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "{}\n").unwrap();
        }
        let path = home.path().to_str().unwrap().to_owned();
        (home, move |name: &str| (name == "HOME").then(|| path.clone()))
    }

    #[test]
    fn sessions_are_found_by_id_by_its_beginning_and_as_the_newest() {
        let codex = format!(".codex/sessions/2026/11/18/rollout-2026-11-18T10-00-00-{ID}.jsonl");
        let other = ".claude/projects/-a-b/11112222-1111-4222-8333-444455556666.jsonl";
        let (_home, variable) =
            made(&[&codex, other, ".claude/projects/-a-b/agent-a1b2c3d4e5.jsonl"]);
        for name in [ID, &ID[..8], "codex@last"] {
            let found = find(name, &variable).unwrap();
            assert_eq!((found.agent, found.id.as_deref()), (Agent::Codex, Some(ID)), "{name}");
        }
        let newest = find("claude@last", &variable).unwrap();
        assert!(newest.path.ends_with("11112222-1111-4222-8333-444455556666.jsonl"));
        assert!(matches!(find("pi@last", &variable), Err(FindFileError::None { .. })));
        assert!(matches!(find("019", &variable), Err(FindFileError::Unknown(_))));
        assert!(matches!(find("0199bbbb", &variable), Err(FindFileError::Unknown(_))));
    }

    #[test]
    fn a_beginning_of_two_ids_is_no_name() {
        let at = |id: &str| format!(".claude/projects/-a/{id}-1111-4222-8333-444455556666.jsonl");
        let (_home, variable) = made(&[&at("11112222"), &at("11112233")]);
        assert!(matches!(find("111122", &variable), Err(FindFileError::Ambiguous { .. })));
        assert!(find("11112233", &variable).is_ok());
    }

    #[test]
    fn a_folder_that_was_moved_is_used() {
        let variable = |name: &str| match name {
            "HOME" => Some("/home/u".to_owned()),
            "CODEX_HOME" => Some("/data/codex".to_owned()),
            _ => None,
        };
        assert_eq!(Agent::Codex.folder(variable).unwrap(), Path::new("/data/codex/sessions"));
        assert_eq!(Agent::Pi.folder(variable).unwrap(), Path::new("/home/u/.pi/agent/sessions"));
    }
}
