//! What a session file says, wherever its parts are.
//!
//! A session of Codex that was forked in a newer version has only what came after the fork: what came before is the beginning
//! of another file.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use longhand_dialect::{Transcript, unpack};
use serde_json::Value;

use super::{AgentFile, DEPTH_MAX, id_of, is_session_file, opencode, stem_of};
use crate::app::AppError;

/// The most forks of forks that are followed.
const BASES_MAX: usize = 64;

/// What a session file says.
pub enum AgentContent {
    /// Lines in a form that is read as it is.
    Lines {
        /// The lines.
        text: String,
        /// Whether a part of them comes from other files.
        has_base: bool,
    },
    /// What was told in messages of Chat Completions.
    Told(Transcript),
}

impl AgentFile {
    /// Reads it; a file of more bytes is refused.
    pub fn content(&self, bytes_max: u64) -> Result<AgentContent, AppError> {
        if self.session.is_some() {
            let told = opencode::transcript(self).map_err(std::io::Error::other)?;
            return Ok(AgentContent::Told(told));
        }
        let mut text = text_of(&self.path, bytes_max)?;
        if let Some(told) = Transcript::of(&text) {
            return Ok(AgentContent::Told(told));
        }
        let mut seen = HashSet::from([self.path.clone()]);
        let mut has_base = false;
        while let Some(base) = Base::of(&text).filter(|_| seen.len() <= BASES_MAX) {
            let Some(path) = base.file(&self.path).filter(|path| seen.insert(path.clone())) else {
                break;
            };
            let before = text_of(&path, bytes_max)?;
            let end = usize::try_from(base.bytes).unwrap_or(usize::MAX).min(before.len());
            // The base has grown by whole lines since.
            let end =
                before.get(..end).map_or(0, |before| before.rfind('\n').map_or(0, |at| at + 1));
            text = format!("{}{text}", &before[..end]);
            if text.len() as u64 > bytes_max {
                return Err(AppError::TooLarge { max: bytes_max });
            }
            has_base = true;
        }
        Ok(AgentContent::Lines { text, has_base })
    }

    /// The id of the conversation that a session in a database belongs to.
    pub(crate) fn main_session(&self) -> Option<String> {
        opencode::main_session(self)
    }
}

/// Whether the beginning of a session is in another file.
pub fn has_base(bytes: &[u8]) -> bool {
    let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    std::str::from_utf8(first).is_ok_and(|first| Base::of(first).is_some())
}

/// Where the beginning of a fork is.
struct Base {
    /// The id of the session that has it.
    thread: String,
    /// How many of its bytes belong to the fork.
    bytes: u64,
}

impl Base {
    /// The base that the first line names.
    fn of(text: &str) -> Option<Self> {
        let first = text.lines().next().filter(|line| line.contains("\"history_base\""))?;
        let line: Value = serde_json::from_str(first).ok()?;
        let base = &line["payload"]["history_base"];
        let thread = base["thread_id"].as_str()?.to_owned();
        Some(Self { thread, bytes: base["end_byte_offset"].as_u64()? })
    }

    /// The file of the session, among those of the agent that keeps `beside`.
    fn file(&self, beside: &Path) -> Option<PathBuf> {
        let folder = beside.ancestors().find(|folder| {
            let is_root = |name: &str| folder.file_name().is_some_and(|of| of == name);
            is_root("sessions") || is_root(super::ARCHIVED)
        });
        let home = folder.and_then(Path::parent);
        let mut found = Vec::new();
        match home {
            Some(home) => {
                for name in ["sessions", super::ARCHIVED] {
                    self.look_in(&home.join(name), DEPTH_MAX, &mut found);
                }
            }
            None => self.look_in(beside.parent()?, 0, &mut found),
        }
        found.into_iter().min_by_key(|path| path.extension().is_some_and(|end| end == "zst"))
    }

    fn look_in(&self, folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                if depth > 0 {
                    self.look_in(&path, depth - 1, found);
                }
            } else if is_session_file(&path) && id_of(stem_of(&path)) == Some(&self.thread) {
                found.push(path);
            }
        }
    }
}

fn text_of(path: &Path, bytes_max: u64) -> Result<String, AppError> {
    let bytes = fs::read(path)?;
    if bytes.len() as u64 > bytes_max {
        return Err(AppError::TooLarge { max: bytes_max });
    }
    String::from_utf8(unpack(bytes, bytes_max)?).map_err(|_| AppError::NotText)
}
