//! What can be said to `longhand archive`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::ArchiveArgs;

#[derive(Args)]
pub(crate) struct ArchiveCommandArgs {
    #[command(subcommand)]
    pub(crate) command: ArchiveCommand,
}

#[derive(Subcommand)]
pub(crate) enum ArchiveCommand {
    /// Copy the archive while it is in use, and check the copy
    Backup(BackupArgs),
}

#[derive(Args)]
#[command(
    after_help = "The copy holds everything that was recorded before the command started. It appears under its \
name when it is complete and checked. Copying the file by other means while a program uses the archive loses what is \
still in its log.

Example:
  longhand archive backup ~/backup/archive-monday.db"
)]
pub(crate) struct BackupArgs {
    /// The new file; one that exists is never overwritten
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
    /// Print nothing but errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
}
