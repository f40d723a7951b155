//! What can be said to `longhand search`.

use clap::{Args, ValueEnum};

use super::ArchiveArgs;

#[derive(Args)]
#[command(after_help = "Example:
  longhand search retry storm --session demo
  longhand search 'conf*' --role user --since 2d")]
pub(crate) struct SearchArgs {
    /// Words to find, all of them in one message; words in double quotes must be adjacent ('"retry storm"'), and
    /// 'conf*' finds words that begin with conf
    #[arg(required = true, value_name = "WORDS")]
    pub(crate) query: Vec<String>,
    /// Search only this session; a beginning of its name or id is enough
    #[arg(long, value_name = "SESSION")]
    pub(crate) session: Option<String>,
    /// Only messages since this date or age: 2026-11-15, '2026-11-15 19:00', 90m, 12h, 3d, 2w
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Only messages of this role
    #[arg(long, value_enum, value_name = "ROLE")]
    pub(crate) role: Option<RoleName>,
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
