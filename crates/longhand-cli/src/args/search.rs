//! What can be said to `longhand search`.

use clap::{Args, ValueEnum};

use super::ArchiveArgs;

#[derive(Args)]
#[command(after_help = "Example:
  longhand search retry storm --session demo
  longhand search 'conf*' --role user --since 2d")]
pub(crate) struct SearchArgs {
    /// What to find, as you would say it: words, a question, a name or a part of one. Words in double quotes are adjacent
    /// ('"retry storm"'), and 'conf*' finds words that begin with conf. Without words, the newest messages that pass the
    /// filters
    #[arg(value_name = "WORDS")]
    pub(crate) query: Vec<String>,
    /// Search only this session; a beginning of its name or id is enough
    #[arg(long, value_name = "SESSION")]
    pub(crate) session: Option<String>,
    /// Only sessions of this project: a folder, or the end of its path
    #[arg(long, value_name = "FOLDER")]
    pub(crate) project: Option<String>,
    /// Only sessions with this agent, such as claude-code
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
    /// Only messages that were said since this date or age: 2026-11-15, '2026-11-15 19:00', 90m, 12h, 3d, 2w. Of
    /// imported sessions, the times in their files count
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Only messages that were said before this date or age
    #[arg(long, value_name = "TIME")]
    pub(crate) before: Option<String>,
    /// Only messages of this role
    #[arg(long, value_enum, value_name = "ROLE")]
    pub(crate) role: Option<RoleName>,
    /// Only calls of this tool, and their results
    #[arg(long, value_name = "TOOL")]
    pub(crate) tool: Option<String>,
    /// Only messages that name this file
    #[arg(long, value_name = "PATH")]
    pub(crate) file: Option<String>,
    /// Take the words as a regular expression, and compare the newest messages with it (4,096 at most)
    #[arg(long)]
    pub(crate) regex: bool,
    /// Only messages that have all words, the newest first
    #[arg(long, conflicts_with = "regex")]
    pub(crate) newest: bool,
    /// Show N messages before and after each one
    #[arg(long, value_name = "N", default_value = "0", hide_default_value = true)]
    pub(crate) context: u64,
    /// How many to list at most
    #[arg(long, value_name = "N", default_value = "20")]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleName {
    User,
    Assistant,
    Tool,
    System,
}

impl RoleName {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
            Self::System => "system",
        }
    }
}
