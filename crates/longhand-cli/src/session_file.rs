//! Session files of agents, as people name them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use longhand::agent_files::{self, FindFileError};

use crate::hinted;

/// Finds a session by its file, its id, or as the newest of an agent.
pub(crate) fn find(name: &str) -> Result<PathBuf> {
    let path = Path::new(name);
    if path.is_file() {
        return Ok(path.to_owned());
    }
    let found = agent_files::find(name, |name| std::env::var(name).ok());
    found.map(|file| file.path).map_err(|error| match error {
        FindFileError::Unknown(_) => hinted(
            error.to_string(),
            "give a file, the agent's id for the session, or claude@last, codex@last or pi@last",
        ),
        error => error.into(),
    })
}

/// Refuses to replace a file that has changed since it was read.
pub(crate) fn check_unchanged(path: &Path, text: &str) -> Result<()> {
    let now = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    if now == text.as_bytes() {
        return Ok(());
    }
    Err(hinted(
        format!("{} has changed since it was read; nothing was written", path.display()),
        "end the agent that writes it, and try again",
    ))
}

/// A random UUID.
pub(crate) fn new_id() -> Result<String> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).context("the system has no random bytes")?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]))
}
