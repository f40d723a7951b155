//! The arguments of `demo` and `top`.

use clap::Args;

use super::ArchiveArgs;

#[derive(Args)]
#[command(
    after_help = "The model is a script; proxy, archive and console are the real ones, in a temporary folder that is \
removed at the end. Nothing leaves this machine, and your own archive is not touched.

Example:
  longhand demo"
)]
pub(crate) struct DemoArgs {
    /// Print the link and open no browser
    #[arg(long)]
    pub(crate) no_open: bool,
    /// Play without pauses
    #[arg(long)]
    pub(crate) fast: bool,
    /// End when all is played
    #[arg(long)]
    pub(crate) end: bool,
}

#[derive(Args)]
#[command(after_help = "Keys: up and down choose a session, Enter shows it alone, q ends.

Example:
  longhand top")]
pub(crate) struct TopArgs {
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
    /// How often to look, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(100..=600_000))]
    pub(crate) every: u64,
}
