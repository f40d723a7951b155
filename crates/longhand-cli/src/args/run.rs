//! `longhand run` and `longhand usage`.

use std::ffi::OsString;

use clap::{Args, ValueEnum};

use super::{ArchiveArgs, ProxyConsoleArgs, ProxyRecallArgs, amount};

#[derive(Args)]
#[command(after_help = "Example:
  longhand run -- claude
  longhand run --budget 64k --name parser -- codex 'fix the parser'
  longhand run --upstream http://127.0.0.1:8080 -- aider --model openai/qwen3

Requests go where the program would have sent them: to the address in OPENAI_BASE_URL or \
ANTHROPIC_BASE_URL, or to the provider. The exit status is the program's, or 128 plus the number of the signal that killed it.")]
pub(crate) struct RunArgs {
    /// The most tokens of a request [default: the model's known window less the reply]
    #[arg(long, value_name = "N", value_parser = amount)]
    pub(crate) budget: Option<u64>,
    /// Clip a new tool result to its beginning and end as it comes in, if it takes more than this share of the
    /// budget, in percent [default: what the settings say, or never]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) clip_new: Option<u64>,
    /// The name of the session; the same name continues it [default: recognised by the messages]
    #[arg(long, value_name = "TASK")]
    pub(crate) name: Option<String>,
    /// Where requests go [default: where the program would have sent them]
    #[arg(long, value_name = "URL")]
    pub(crate) upstream: Option<String>,
    /// Answer a client that orders a summary of its conversation (Claude Code's /compact, Codex) with a fold from the
    /// archive, at once and without the model; an order to which the user added something goes to the model
    #[arg(long)]
    pub(crate) answer_compactions: bool,
    /// Offer models a tool that brings back what was left out, in every request [default: only in requests that have
    /// tools]
    #[arg(long, alias = "expand-tool")]
    pub(crate) recall_tool: bool,
    /// Never offer models that tool
    #[arg(long, conflicts_with = "recall_tool")]
    pub(crate) no_recall_tool: bool,
    /// How far that tool reaches
    #[arg(long, value_enum, value_name = "SCOPE", default_value_t = RecallChoice::Session)]
    pub(crate) recall_scope: RecallChoice,
    #[command(flatten)]
    pub(crate) brought_back: ProxyRecallArgs,
    #[command(flatten)]
    pub(crate) console: ProxyConsoleArgs,
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
    /// Print nothing at the end
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "AGENT"
    )]
    pub(crate) command: Vec<OsString>,
}

/// How far the recall tool reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RecallChoice {
    /// The conversation itself
    Session,
    /// All sessions of its project
    Project,
    /// All sessions of the caller
    All,
}

impl From<RecallChoice> for longhand::RecallReach {
    fn from(scope: RecallChoice) -> Self {
        match scope {
            RecallChoice::Session => Self::Session,
            RecallChoice::Project => Self::Project,
            RecallChoice::All => Self::All,
        }
    }
}

/// How a run starts itself once more.
#[cfg(target_os = "linux")]
#[derive(Args)]
pub(crate) struct LaunchArgs {
    /// The process that starts it
    #[arg(long)]
    pub(crate) parent: i32,
    /// The process group of the agent
    #[arg(long)]
    pub(crate) group: i32,
    /// The folder of the run, if this is its guard and not the agent
    #[arg(long)]
    pub(crate) folder: Option<std::path::PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

#[derive(Args)]
#[command(after_help = "Example:
  longhand usage
  longhand usage --by model --json

Costs are estimates, from the prices in the settings or the published ones. The cost without
Longhand assumes that the provider's cache keeps everything that was sent before. Errors are requests
that were passed on unchanged because something failed in the proxy.")]
pub(crate) struct UsageArgs {
    /// What a row stands for
    #[arg(long, value_enum, default_value = "day")]
    pub(crate) by: UsageBy,
    /// How many rows to list at most; 0 is all [default: 100, with --json all]
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum UsageBy {
    Day,
    Model,
    Agent,
    Session,
}

impl From<UsageBy> for longhand::app::UsageBy {
    fn from(by: UsageBy) -> Self {
        match by {
            UsageBy::Day => Self::Day,
            UsageBy::Agent => Self::Agent,
            UsageBy::Model => Self::Model,
            UsageBy::Session => Self::Session,
        }
    }
}
