//! What can be said to `longhand export` and `import`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use longhand::app::ExportForm;

use super::{ArchiveArgs, SessionArgs, amount};

#[derive(Args)]
#[command(
    after_help = "With --as, the messages of the newest path are written: all that was said, and nothing that only Longhand \
knows. The system prompt stays out, since every program brings its own; pictures become notes. A session that is not in the \
archive may be a session file of an agent, or claude@last.

Example:
  longhand export demo -o demo.jsonl
  longhand export demo --as markdown -o demo.md
  longhand export @last --as chat | longhand count
  longhand export codex@last --as claude-code    # says where the file belongs, and what goes on in it"
)]
pub(crate) struct ExportArgs {
    /// The session, by its name or id as `longhand ls` shows it; a beginning is enough, and @last is the newest
    #[arg(value_name = "SESSION")]
    pub(crate) id: String,
    /// Write the messages for another program: as a request, as a session file of an agent, or for people to read
    #[arg(long = "as", value_enum, value_name = "FORM", conflicts_with = "format")]
    pub(crate) form: Option<ExportFormName>,
    /// What to write: all that is kept of the session, or the state of the window
    #[arg(long, value_enum, default_value = "jsonl")]
    pub(crate) format: ExportFormat,
    /// Write here instead of to standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
    #[command(flatten)]
    pub(crate) session: SessionArgs,
}

/// What a session is written as.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum ExportFormName {
    /// Messages of Chat Completions
    Chat,
    /// A request of Anthropic Messages
    Anthropic,
    /// Items of Responses
    Responses,
    /// A session file of Claude Code
    ClaudeCode,
    /// A session file of Codex
    Codex,
    /// A session file of pi
    Pi,
    /// For people to read
    Markdown,
}

impl From<ExportFormName> for ExportForm {
    fn from(name: ExportFormName) -> Self {
        match name {
            ExportFormName::Chat => Self::Chat,
            ExportFormName::Anthropic => Self::Anthropic,
            ExportFormName::Responses => Self::Responses,
            ExportFormName::ClaudeCode => Self::ClaudeCode,
            ExportFormName::Codex => Self::Codex,
            ExportFormName::Pi => Self::Pi,
            ExportFormName::Markdown => Self::Markdown,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum ExportFormat {
    /// Every message, fork, pin, edit and request, one per line, with a checksum
    Jsonl,
    /// Summary, verbatim rounds and counts as one JSON object
    State,
}

#[derive(Args)]
#[command(
    after_help = "An export comes back with all that it has, or not at all if it was cut off or changed. If the \
archive has the beginning of it, the rest is added; if it has something else under that id, nothing is. With \
--append and --redact, only the messages and their forks are taken.

Without a file, all sessions of Claude Code, Codex, pi, opencode and Copilot on this machine are imported, and what is new \
in those that were imported before. Of a folder, all session files are. A file that is gone removes nothing.

Example:
  longhand import                     # what your agents have kept
  longhand import --dry-run
  longhand import --watch             # and what they will write
  longhand import demo.jsonl --id copy"
)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct ImportArgs {
    /// Exports, state files, session files or folders of these; - is standard input [default: what your agents have kept;
    /// standard input if something is piped into it]
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Only list what would be imported
    #[arg(long, conflicts_with_all = ["id", "append"])]
    pub(crate) dry_run: bool,
    /// Go on and import what is new every two seconds, until Ctrl-C
    #[arg(long, conflicts_with_all = ["id", "append", "dry_run"])]
    pub(crate) watch: bool,
    /// The session [default: the id in the file, or the file's name]
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
    /// Add to an existing session
    #[arg(long)]
    pub(crate) append: bool,
    /// Replace keys and passwords in the archive by marks
    #[arg(long)]
    pub(crate) redact: bool,
    /// Refuse a conversation of more bytes than this, or an export with a longer line (suffixes k, m and g)
    #[arg(long, value_name = "BYTES", default_value = "256m", value_parser = amount)]
    pub(crate) max_input: u64,
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
