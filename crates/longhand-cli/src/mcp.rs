//! `longhand mcp`.

mod agent;
mod install;
mod json;
mod toml;

use std::io::IsTerminal;
use std::sync::Arc;

use anyhow::{Context, Result};
use longhand::app::Reach;
use longhand_mcp::{Settings, serve_stdio};
use tokio::runtime::Builder;

use crate::args::{McpArgs, McpCommand, McpReach, McpServeArgs};
use crate::{CommandOutcome, hint, hinted, output, store, text};

/// Where Claude Code tells programs that it starts which session they serve.
const CLIENT_SESSION: &str = "CLAUDE_CODE_SESSION_ID";

pub(crate) fn run(args: &McpArgs) -> Result<CommandOutcome> {
    match &args.command {
        Some(McpCommand::Install(args)) => install::install(args),
        Some(McpCommand::Uninstall(args)) => install::uninstall(args),
        None => serve(&args.serve),
    }
}

fn serve(args: &McpServeArgs) -> Result<CommandOutcome> {
    let (reach, archive) = (reach(args)?, args.archive.clone());
    // A model reads why there is no archive: a client shows nobody what a server prints.
    let open = move || {
        let opened = store::app_existing(&archive).map(|app| app.within(reach.clone()));
        opened.map_err(|error| match hint(&error) {
            Some(hint) => format!("{}. {hint}", text(&error)),
            None => text(&error),
        })
    };
    let settings = Settings { may_write: args.write, ..Settings::new(Arc::new(open)) };
    let runtime = Builder::new_current_thread().enable_all().build();
    if std::io::stdin().is_terminal() {
        output::say(
            "waiting for an MCP client on standard input; `longhand mcp install claude` adds this server to one",
        );
    }
    let served = runtime.context("cannot start the server")?.block_on(serve_stdio(settings));
    served.map_err(|error| {
        hinted(
            error.to_string(),
            "a client starts it: `longhand mcp install claude` adds it to one",
        )
    })?;
    Ok(CommandOutcome::Done)
}

/// Which sessions the client sees.
fn reach(args: &McpServeArgs) -> Result<Reach> {
    if let Some(session) = &args.session {
        return Ok(Reach::Session(session.clone()));
    }
    Ok(match args.scope {
        McpReach::All => Reach::All,
        McpReach::Session => {
            let session = std::env::var(CLIENT_SESSION).ok().filter(|id| !id.trim().is_empty());
            Reach::Client(session.ok_or_else(|| {
                hinted(
                    format!("the client does not say which session it serves: {CLIENT_SESSION} is not set"),
                    "name it with --session, or let it see its project with --scope project",
                )
            })?)
        }
        McpReach::Project => {
            let folder = match &args.project {
                Some(folder) => std::path::absolute(folder),
                None => std::env::current_dir(),
            };
            let folder = folder.context("the folder of the project is not known")?;
            Reach::Project(folder.display().to_string())
        }
    })
}
