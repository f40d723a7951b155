//! A conversation from a file or a pipe.

use std::fs::File;
use std::io::{IsTerminal, Read, StdinLock};
use std::path::Path;

use anyhow::{Context, Result};
use longhand::agent_files::{Agent, AgentContent, AgentFile};
use longhand_core::grouped;
use longhand_dialect::{Conversation, DialectError};

use crate::args::InputArgs;
use crate::{hinted, output, session_file};

/// What the input is called in messages.
pub(crate) fn name(args: &InputArgs) -> String {
    let file = args.file.as_deref().filter(|path| path.as_os_str() != "-");
    file.map_or_else(|| "standard input".to_owned(), |path| path.display().to_string())
}

/// Reads the conversation that the arguments name.
pub(crate) fn read(args: &InputArgs) -> Result<Conversation> {
    let file = args.file.as_deref().filter(|path| path.as_os_str() != "-");
    let name = name(args);
    let newest =
        file.filter(|path| is_newest(path)).map(|_| session_file::find(&name)).transpose()?;
    let file = newest.as_deref().or(file);
    let bytes = match file {
        Some(path) => {
            let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
            let size = file.metadata().map_or(0, |data| data.len());
            if size > args.max_input {
                return Err(too_large(&name, args.max_input));
            }
            load(file, args.max_input, &name)?
        }
        None => load(standard_input(), args.max_input, &name)?,
    };
    let bytes = match file.filter(|_| longhand::agent_files::has_base(&bytes)) {
        Some(path) => with_base(path, args.max_input).with_context(|| name.clone())?,
        None => bytes,
    };
    let unpacked = longhand_dialect::unpack(bytes, args.max_input);
    unpacked.and_then(|bytes| longhand_dialect::read_as_loaded(bytes, args.dialect.0)).map_err(
        |error| match &error {
            DialectError::NotAConversation(_) => hinted(
                format!("{name}: {error}"),
                "name the format with --dialect if it is one of those",
            ),
            DialectError::Json { what, .. } if what.contains("ends") || what.contains("no end") => {
                hinted(
                    format!("{name}: {error}"),
                    "the file looks cut off; was it still being written?",
                )
            }
            _ => anyhow::anyhow!("{name}: {error}"),
        },
    )
}

/// Whether the newest session of an agent is meant, such as `claude@last`, and not a file.
fn is_newest(path: &Path) -> bool {
    path.to_str().is_some_and(|name| name.ends_with("@last")) && !path.exists()
}

/// A session that was forked, with what came before the fork.
fn with_base(path: &Path, max: u64) -> Result<Vec<u8>> {
    match AgentFile::of(Agent::Codex, path).content(max)? {
        AgentContent::Lines { text, .. } => Ok(text.into_bytes()),
        AgentContent::Told(told) => Ok(told.as_list().into_bytes()),
    }
}

/// Refuses a session file with lines that cannot be read, where nothing may be passed over.
pub(crate) fn check_read(conversation: &Conversation, name: &str) -> Result<()> {
    let unread = conversation.loaded().and_then(|loaded| loaded.unread.first());
    let Some(line) = unread else { return Ok(()) };
    Err(hinted(
        format!(
            "{name}: line {line} cannot be read; perhaps it ends in its middle, since the file is still being written"
        ),
        "`longhand repair` takes out a last line that is cut; `longhand compact --resume` passes such lines over",
    ))
}

/// Standard input. On a terminal it prints that the command reads what is typed.
pub(crate) fn standard_input() -> StdinLock<'static> {
    if std::io::stdin().is_terminal() {
        output::say("reading from standard input; Ctrl-D ends it");
    }
    std::io::stdin().lock()
}

fn load(reader: impl Read, max: u64, name: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(max + 1).read_to_end(&mut bytes).with_context(|| format!("cannot read {name}"))?;
    if bytes.len() as u64 > max {
        return Err(too_large(name, max));
    }
    Ok(bytes)
}

pub(crate) fn too_large(name: &str, max: u64) -> anyhow::Error {
    let number = |bytes: u64| grouped(bytes as usize);
    hinted(
        format!("{name} has more than {} bytes, the most that is read", number(max)),
        "--max-input 4g raises the limit",
    )
}
