//! What can be said to `longhand mcp`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::ArchiveArgs;

#[derive(Args)]
#[command(after_help = "Example:
  claude mcp add longhand -- longhand mcp
  longhand mcp --scope all --write

A client starts it and speaks with it on standard input and output. It has three tools: search, read and sessions. It \
calls no model, and changes nothing without --write. docs/MCP.md says how to add it to other clients.")]
pub(crate) struct McpArgs {
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum McpReach {
    /// The session that the client says it serves
    Session,
    /// The sessions of the project
    Project,
    /// All sessions
    All,
}
