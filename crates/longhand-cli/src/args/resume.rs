//! What can be said to `longhand resume`.

use clap::Args;

use super::{ArchiveArgs, amount};

#[derive(Args)]
#[command(
    after_help = "The session is looked for in the archive, whatever agent it was said to, and in session files of Claude \
Code, Codex and pi that are not imported yet. If several fit equally well, they are listed with what chooses each, \
nothing is run, and the exit status is 1. Only the command goes to standard output.

Example:
  longhand resume retry queue backoff     # prints `cd … && claude --resume …`
  longhand resume --go retry queue        # runs it
  longhand resume 0199aaaa                # by the beginning of its id
  longhand resume codex@last
  longhand resume                         # lists the newest sessions"
)]
pub(crate) struct ResumeArgs {
    /// What was said in the session; or its name, the agent's id for it or the beginning of that, or claude@last, codex@last
    /// or pi@last [default: list the newest]
    #[arg(value_name = "QUERY")]
    pub(crate) query: Vec<String>,
    /// Run the command instead of printing it
    #[arg(long)]
    pub(crate) go: bool,
    /// Only sessions of this project: a folder, or the end of its path
    #[arg(long, value_name = "FOLDER")]
    pub(crate) project: Option<String>,
    /// The most sessions that are listed
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) limit: usize,
    /// Leave out session files of more bytes than this (suffixes k, m and g)
    #[arg(long, value_name = "BYTES", default_value = "256m", value_parser = amount)]
    pub(crate) max_input: u64,
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
    /// Print JSON
    #[arg(long, conflicts_with = "go")]
    pub(crate) json: bool,
}
