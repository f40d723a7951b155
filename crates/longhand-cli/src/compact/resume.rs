//! A shortened session, written as a new session of its agent.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use longhand::agent_files::{self, Agent, AgentCommand};
use longhand::time;
use longhand_core::{Batch, HandleOpener, Tokens};
use longhand_dialect::{Conversation, Dialect, SessionFileStart};
use longhand_meter::ModelFacts;

use crate::names::quoted;
use crate::{hinted, output, session_file, store};

/// The most tokens of a window that a default budget counts on: longer ones cost more, or are for some users only.
const WINDOW_MAX: Tokens = Tokens(200_000);
/// How much of the room a new session takes, in percent.
const ROOM_PERCENT: u64 = 30;

/// A session that is gone on with.
pub(super) struct ResumedSession {
    path: PathBuf,
}

/// A session that is to be written.
pub(super) struct ResumableSession {
    pub(super) text: String,
    /// What goes on in it.
    pub(super) command: String,
    path: PathBuf,
    /// The file whose place it takes, if it does.
    replaces: bool,
    old: PathBuf,
}

/// The tokens that a resumed session is brought down to.
pub(super) fn default_budget(conversation: &Conversation, fixed: Tokens) -> Tokens {
    let model = conversation.model.as_deref().unwrap_or_default();
    let window = ModelFacts::of(model).window.unwrap_or(WINDOW_MAX).min(WINDOW_MAX);
    let room = window.saturating_sub(fixed).0;
    fixed + Tokens(room * ROOM_PERCENT / 100)
}

impl ResumedSession {
    /// Finds a session by its file, its id, or as the newest of an agent.
    pub(super) fn find(name: &str) -> Result<Self> {
        Ok(Self { path: session_file::find(name)? })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// How the agent opens a handle of the new session.
    pub(super) fn opener(&self, archive: Option<&Path>) -> HandleOpener {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let command = match archive {
            Some(archive) => ("--archive", absolute(archive)),
            None => ("--from", absolute(&self.path)),
        };
        let command =
            format!("longhand expand {} {}", command.0, quoted(&command.1.to_string_lossy()));
        // A window keeps it as long as the program runs, which makes one.
        HandleOpener::Command(command.leak())
    }

    /// What goes on in the session as it is.
    pub(super) fn command_of_old(&self, conversation: &Conversation) -> String {
        let id = agent_files::AgentFile::of(Agent::Claude, &self.path).id;
        let stem = || self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        command(conversation, &self.path, &id.unwrap_or_else(stem))
    }

    /// Makes the new session.
    pub(super) fn new_session(
        &self,
        conversation: &Conversation,
        live: &[Batch],
        before: Tokens,
        replaces: bool,
    ) -> Result<ResumableSession> {
        let now_ms = store::now_ms();
        let old_id = agent_files::AgentFile::of(Agent::Claude, &self.path).id;
        let id = match old_id.filter(|_| replaces) {
            Some(id) => id,
            None => session_file::new_id()?,
        };
        let file = SessionFileStart {
            id: id.clone(),
            time: time::format(now_ms),
            parent: self.path.to_string_lossy().into_owned(),
            tokens_before: before.0,
        };
        let Some(text) = agent_files::as_new_session(conversation, live, &file) else {
            return Err(hinted(
                format!("{} is no session file", self.path.display()),
                "without --resume, `longhand compact` takes any conversation",
            ));
        };
        let path =
            if replaces { self.path.clone() } else { self.new_path(conversation.dialect, &file) };
        if replaces && path.extension().is_some_and(|extension| extension == "zst") {
            bail!("{} is compressed; without --replace a new session is written", path.display());
        }
        let command = command(conversation, &path, &id);
        Ok(ResumableSession { text, command, path, replaces, old: self.path.clone() })
    }

    /// Where the agent looks for a session with this id.
    fn new_path(&self, dialect: Dialect, file: &SessionFileStart) -> PathBuf {
        let seconds = file.time.split('.').next().unwrap_or_default().replace(':', "-");
        let name = match dialect {
            Dialect::Codex => format!("rollout-{seconds}-{}.jsonl", file.id),
            Dialect::Pi => format!("{}_{}.jsonl", file.time.replace([':', '.'], "-"), file.id),
            _ => format!("{}.jsonl", file.id),
        };
        self.path.with_file_name(name)
    }
}

impl ResumableSession {
    /// Writes it. The old file is not touched, or kept as a copy.
    pub(super) fn write(&self, conversation: &Conversation) -> Result<()> {
        if self.replaces {
            session_file::check_unchanged(&self.old, conversation.bytes())?;
            let copy = output::keep_copy(&self.old)?;
            output::say(&format!("the old session is kept as {}", copy.display()));
        }
        output::write_file(&self.path, &self.text)?;
        if let Ok(old) = std::fs::metadata(&self.old) {
            // A file that keeps its contents but not its mode is no reason to fail.
            let _ = std::fs::set_permissions(&self.path, old.permissions());
        }
        Ok(())
    }
}

/// What goes on in a session, in its folder.
fn command(conversation: &Conversation, path: &Path, id: &str) -> String {
    let agent = Agent::of_dialect(conversation.dialect).unwrap_or(Agent::Claude);
    let command = AgentCommand::resume(agent, path, id, conversation.folder());
    format!("{}\n", command.line)
}
