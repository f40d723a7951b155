//! `longhand archive`.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Error, Result};
use longhand::{ArchiveError, SqliteArchive};
use longhand_archive::{FileError, Unwiped};

use crate::args::{ArchiveArgs, ArchiveCommand, ArchiveCommandArgs, BackupArgs};
use crate::output::counted;
use crate::{CommandOutcome, hinted, output, progress, store};

/// How long a copy waits until the texts of removed sessions are wiped, so that it does not contain them.
const WIPE_WAIT: Duration = Duration::from_secs(5);

pub(crate) fn run(args: &ArchiveCommandArgs) -> Result<CommandOutcome> {
    match &args.command {
        ArchiveCommand::Backup(args) => backup(args),
    }
}

/// Opens the file of an archive that must be there.
pub(crate) fn open_file(args: &ArchiveArgs) -> Result<Arc<SqliteArchive>> {
    store::check_exists(args)?;
    Ok(Arc::new(SqliteArchive::open(store::path(args)?)?))
}

fn backup(args: &BackupArgs) -> Result<CommandOutcome> {
    let archive = open_file(&args.archive)?;
    if archive.wipe(WIPE_WAIT)? == Unwiped::Content {
        output::say(&store::addressed(
            "warning: the copy has texts of removed sessions, since another program keeps the archive locked\n\
             hint: end that program, run `longhand verify`, and make another copy",
        ));
    }
    let copied = archive.backup(&args.file, |done, all| {
        let percent = done.saturating_mul(100) / all.max(1);
        let what = if done < all { format!("copying, {percent}%") } else { "checking".to_owned() };
        progress::rename(&what);
    });
    copied.map_err(explained)?;
    if !args.quiet {
        let bytes = std::fs::metadata(&args.file).map_or(0, |file| file.len());
        let size = counted(bytes as usize, "byte");
        output::print(&format!("copied {size} to {}, and checked them", args.file.display()))?;
    }
    Ok(CommandOutcome::Done)
}

fn explained(error: ArchiveError) -> Error {
    if let Some(FileError::Exists { .. }) = error.file_error() {
        return hinted(error.to_string(), "a copy never replaces anything: give another name");
    }
    match &error {
        ArchiveError::Damaged { .. } | ArchiveError::Corrupt { .. } => hinted(
            format!("no copy was made: {error}"),
            "`longhand verify` lists all that is damaged in the archive",
        ),
        _ => error.into(),
    }
}
