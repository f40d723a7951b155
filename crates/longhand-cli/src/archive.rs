//! `longhand archive`.

mod copy;
mod prune;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Error, Result};
use longhand::{Archive, ArchiveError, SqliteArchive};
use longhand_archive::{FileError, Migrated, MigrationSettings, SqliteSettings, Unwiped};

use crate::args::{ArchiveArgs, ArchiveCommand, ArchiveCommandArgs, BackupArgs, MigrateArgs};
use crate::output::{counted, counted_as};
use crate::{CommandOutcome, hinted, output, progress, store};

/// How long a copy waits until the texts of removed sessions are wiped, so that it does not contain them.
const WIPE_WAIT: Duration = Duration::from_secs(5);

pub(crate) fn run(args: &ArchiveCommandArgs) -> Result<CommandOutcome> {
    match &args.command {
        ArchiveCommand::Backup(args) => backup(args),
        ArchiveCommand::Copy(args) => copy::copy(args),
        ArchiveCommand::Migrate(args) => migrate(args),
        ArchiveCommand::Prune(args) => prune::run(args),
    }
}

fn migrate(args: &MigrateArgs) -> Result<CommandOutcome> {
    let path = match &args.file {
        Some(file) => file.clone(),
        None => store::path(&args.archive)?,
    };
    store::must_be_a_file(
        &path,
        "the tables on a server are brought up to date by whatever opens them first",
    )?;
    if !path.exists() {
        return Err(hinted(
            format!("there is no archive at {}", path.display()),
            "name it: `longhand archive migrate FILE`",
        ));
    }
    progress::rename("reading");
    let settings = MigrationSettings {
        file: SqliteSettings::default(),
        leaves_damaged: args.without_damaged,
        opening: &longhand::driver::opening_of,
        progress: Box::new(|done, all| {
            let percent = done.saturating_mul(100) / all.max(1);
            let what =
                if done < all { format!("writing, {percent}%") } else { "checking".to_owned() };
            progress::rename(&what);
        }),
    };
    let migrated = SqliteArchive::migrate(&path, settings).map_err(unmigrated)?;
    let Some(Migrated { kept, sessions, entries, left_out }) = migrated else {
        if !args.quiet {
            output::print(&format!("{} has the newest format already", path.display()))?;
        }
        return Ok(CommandOutcome::Done);
    };
    for damage in &left_out {
        output::say(&format!("left out: {damage}"));
    }
    if !args.quiet {
        let sessions = counted(sessions as usize, "session");
        let entries = counted_as(entries as usize, "entry", "entries");
        output::print(&format!(
            "migrated {sessions} with {entries}, and checked them\n\
             the old file is kept as {}; remove it when you are content",
            kept.display()
        ))?;
    }
    Ok(CommandOutcome::Done)
}

fn unmigrated(error: ArchiveError) -> Error {
    match &error {
        ArchiveError::Damaged { .. } => hinted(
            format!("nothing was migrated: {error}"),
            "--without-damaged leaves such sessions out; the old file keeps them",
        ),
        _ => error.into(),
    }
}

/// An archive that must be there, and its file if it is one.
pub(crate) struct OpenedArchive {
    pub(crate) archive: Arc<dyn Archive>,
    pub(crate) file: Option<Arc<SqliteArchive>>,
}

/// Opens an archive that must be there.
pub(crate) fn open_existing(args: &ArchiveArgs) -> Result<OpenedArchive> {
    if store::server_address(&store::path(args)?).is_some() {
        return Ok(OpenedArchive { archive: store::open(args)?, file: None });
    }
    let file = open_file(args)?;
    Ok(OpenedArchive { archive: file.clone(), file: Some(file) })
}

/// Opens the file of an archive that must be there.
fn open_file(args: &ArchiveArgs) -> Result<Arc<SqliteArchive>> {
    store::check_exists(args)?;
    let path = store::path(args)?;
    store::must_be_a_file(
        &path,
        "`pg_dump --schema=longhand` makes a copy of it; `longhand archive copy FROM TO` copies all sessions into a file",
    )?;
    Ok(Arc::new(SqliteArchive::open(path)?))
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
