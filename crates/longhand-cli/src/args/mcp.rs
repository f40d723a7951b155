//! What can be said to `longhand mcp`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::ArchiveArgs;

#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Example:
  longhand mcp install claude
  longhand mcp --scope all --write

A client starts it and speaks with it on standard input and output. It has three tools: search, read and sessions. It \
calls no model, and changes nothing without --write. `longhand serve` has the same over HTTP. docs/MCP.md has the rest."
)]
pub(crate) struct McpArgs {
    #[command(subcommand)]
    pub(crate) command: Option<McpCommand>,
    #[command(flatten)]
    pub(crate) serve: McpServeArgs,
}

#[derive(Subcommand)]
pub(crate) enum McpCommand {
    /// Add this server to the settings of an agent
    Install(McpInstallArgs),
    /// Take it out of the settings of an agent
    Uninstall(McpUninstallArgs),
}

/// What a server shows.
#[derive(Args)]
pub(crate) struct McpServeArgs {
    /// Which sessions the client sees
    #[arg(long, value_enum, default_value_t = McpReach::Project)]
    pub(crate) scope: McpReach,
    /// Only the sessions of this project [default: the folder that it is started in]
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["scope", "session"])]
    pub(crate) project: Option<PathBuf>,
    /// Only the conversation of this session
    #[arg(long, value_name = "SESSION", conflicts_with = "scope")]
    pub(crate) session: Option<String>,
    /// Also offer a tool that pins messages
    #[arg(long)]
    pub(crate) write: bool,
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
}

impl McpServeArgs {
    /// The scope as it is written, if it is not the usual one.
    pub(crate) fn scope_name(&self) -> Option<String> {
        let scope = Some(self.scope).filter(|scope| *scope != McpReach::Project)?;
        scope.to_possible_value().map(|value| value.get_name().to_owned())
    }
}

#[derive(Args)]
#[command(after_help = "Example:
  longhand mcp install claude
  longhand mcp install codex --scope all --print

It shows the change and asks before it writes. A copy of the file stays beside it (FILE.orig), comments and all other \
settings stay as they are, and `longhand mcp uninstall` takes the entry out again. The options say what the agent sees.")]
pub(crate) struct McpInstallArgs {
    #[command(flatten)]
    pub(crate) edit: McpEditArgs,
    #[command(flatten)]
    pub(crate) serve: McpServeArgs,
}

#[derive(Args)]
#[command(after_help = "Example:
  longhand mcp uninstall claude")]
pub(crate) struct McpUninstallArgs {
    #[command(flatten)]
    pub(crate) edit: McpEditArgs,
}

#[derive(Args)]
pub(crate) struct McpEditArgs {
    /// The agent whose settings are changed
    #[arg(value_enum, value_name = "AGENT")]
    pub(crate) agent: McpAgent,
    /// Write without a question
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Only print the change
    #[arg(long, conflicts_with = "yes")]
    pub(crate) print: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum McpAgent {
    Claude,
    Codex,
    Cursor,
    Zed,
    Opencode,
    Pi,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum McpReach {
    /// The session that the client says it serves
    Session,
    /// The sessions of the project
    Project,
    /// All sessions
    All,
}
