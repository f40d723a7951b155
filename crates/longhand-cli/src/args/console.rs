//! `longhand console`, and the console of a proxy.

use clap::Args;

use super::ArchiveArgs;

#[derive(Args)]
#[command(after_help = "Examples:
  longhand console
  longhand console fix-the-parser
  longhand console --archive work.db --read-only --no-open

It shows an archive in the browser: sessions, what their windows show, what was left out and why, and what that \
saved. The link that it prints works once, in one browser. `longhand serve` and `longhand run` have the same console.")]
pub(crate) struct ConsoleArgs {
    /// The session to open; a beginning of its name or id is enough, and @last is the newest
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
    /// The port to listen on, on this machine alone [default: a free one]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) port: u16,
    /// Show everything and change nothing: no pins, no undo
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Only print the link, and start no browser
    #[arg(long)]
    pub(crate) no_open: bool,
}

/// The console of a proxy.
#[derive(Args, Clone, Copy)]
pub(crate) struct ProxyConsoleArgs {
    /// Have no console: no page at /longhand/console/
    #[arg(long)]
    pub(crate) no_console: bool,
    /// Let the console show everything and change nothing
    #[arg(long, conflicts_with = "no_console")]
    pub(crate) console_read_only: bool,
}
