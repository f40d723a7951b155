//! What can be said to `longhand archive`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{ArchiveArgs, amount};

#[derive(Args)]
pub(crate) struct ArchiveCommandArgs {
    #[command(subcommand)]
    pub(crate) command: ArchiveCommand,
}

#[derive(Subcommand)]
pub(crate) enum ArchiveCommand {
    /// Copy the archive while it is in use, and check the copy
    Backup(BackupArgs),
    /// Copy all sessions of an archive into another one: a file or a server
    Copy(CopyArgs),
    /// Bring an archive of an earlier release to the format of this one
    Migrate(MigrateArgs),
    /// Remove conversations that were not used for long
    Prune(PruneArgs),
}

#[derive(Args)]
#[command(
    after_help = "A conversation goes as a whole, with its side calls and sub-agents, and only if nothing was said in any of \
its sessions for so long. What has a pinned message or a name that somebody gave stays. The command lists what it would \
remove, and asks. Programs that write to the archive do not wait. The texts are wiped from the file as with `longhand rm`; \
exports, backups and the files of your agents are not touched, so `longhand import` brings back what agents still have.

Example:
  longhand archive prune --older-than 90d --dry-run
  longhand archive prune --older-than 90d
  longhand archive prune --older-than 30d --max-size 5g --yes"
)]
pub(crate) struct PruneArgs {
    /// Remove conversations in which nothing was said for so long: 12h, 90d, 8w; or since a date such as 2026-05-01
    #[arg(long, value_name = "AGE")]
    pub(crate) older_than: String,
    /// Remove no more of them, the oldest first, than it takes for all messages together to have at most so many bytes
    /// (suffixes k, m and g)
    #[arg(long, value_name = "BYTES", value_parser = amount)]
    pub(crate) max_size: Option<u64>,
    /// Only list what would be removed
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
#[command(
    after_help = "The archive is written anew beside the old file, and checked; then it takes the old file's place. \
The old file is kept as FILE.format1: remove it when you are content. No other program may use the archive meanwhile. If \
the command is interrupted, or the disk is full, the archive is as it was: run the command again.

Example:
  longhand archive migrate"
)]
pub(crate) struct MigrateArgs {
    /// The archive [default: the one that --archive or the settings name]
    pub(crate) file: Option<PathBuf>,
    /// Leave out the sessions that are damaged; the old file keeps them
    #[arg(long)]
    pub(crate) without_damaged: bool,
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
    /// Print nothing but errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
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

#[derive(Args)]
#[command(
    after_help = "Each of the two is a file or an address such as postgres://user@host/database. TO is made if it is not \
there; what it has already stays. Every session is copied with everything that is kept of it, then read from TO and compared. \
Programs may go on writing to FROM: what they write is copied by another pass, or the session is named. If the command is \
interrupted, run it again: it goes on where it stopped. The status is 1 if a session could not be copied, \
and a line says why.

Example:
  longhand archive copy ~/.local/share/longhand/archive.db postgres://longhand@db.example/longhand"
)]
pub(crate) struct CopyArgs {
    /// The archive that is read
    pub(crate) from: PathBuf,
    /// The archive that is written to
    pub(crate) to: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print nothing but errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
}
