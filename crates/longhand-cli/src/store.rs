//! The archive that a command works on.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use longhand::{
    Archive, Extractive, Miner, Pattern, Session, Settings, SqliteArchive, Summarised, Summariser,
};
use longhand_core::{Digest, Index, Rolling, Tokens};

use crate::args::{ArchiveArgs, RollingArgs};
use crate::hinted;
use crate::weigh::SharedMeter;

/// Opens the archive that was named, or the user's own; makes it if it is not there.
pub(crate) fn open(args: &ArchiveArgs) -> Result<Arc<dyn Archive>> {
    Ok(Arc::new(SqliteArchive::open(path(args)?)?))
}

/// Opens an archive only to look at it: one that is not there is an error, not a new one.
pub(crate) fn open_existing(args: &ArchiveArgs) -> Result<Arc<dyn Archive>> {
    if exists(args)? {
        return open(args);
    }
    Err(hinted(
        format!("there is no archive at {}", path(args)?.display()),
        "`longhand record` and `longhand compact --archive` make one",
    ))
}

/// Says whether there is an archive.
pub(crate) fn exists(args: &ArchiveArgs) -> Result<bool> {
    Ok(path(args)?.exists())
}

fn path(args: &ArchiveArgs) -> Result<PathBuf> {
    args.archive.clone().map_or_else(default_path, Ok)
}

/// Opens a session of it.
pub(crate) fn session(
    archive: &Arc<dyn Archive>,
    id: &str,
    rolling: &RollingArgs,
) -> Result<Session> {
    let mut settings = Settings::new()?;
    let defaults = Rolling::default();
    settings.rolling = Rolling {
        rounds_max: rolling.rounds.unwrap_or(defaults.rounds_max),
        budget: rolling.budget.map_or(defaults.budget, Tokens),
        summary_max: rolling.summary.map_or(defaults.summary_max, Tokens),
        ..defaults
    };
    settings.summarisers = summarisers(&rolling.summariser)?;
    let patterns = rolling.pattern.iter().map(|pattern| {
        pattern.parse::<Pattern>().with_context(|| format!("{pattern:?} is not a pattern"))
    });
    settings.miner = Miner::new(patterns.collect::<Result<_>>()?);
    Ok(Session::open_with(Arc::clone(archive), id, settings)?)
}

/// What tells of folded messages, by its name.
pub(crate) fn digest(name: &str, meter: &SharedMeter) -> Result<Box<dyn Digest>> {
    match name {
        "none" => Ok(Box::new(Index)),
        _ => Ok(Box::new(Summarised::new(summarisers(name)?, Arc::clone(meter), Miner::default()))),
    }
}

/// Summarisers in the order they are tried, by name.
pub(crate) fn summarisers(name: &str) -> Result<Vec<Arc<dyn Summariser>>> {
    match name {
        "none" => Ok(Vec::new()),
        "extractive" => Ok(vec![Arc::new(Extractive)]),
        _ => Err(hinted(
            format!("there is no summariser {name:?}"),
            "`extractive` and `none` are the ones there are",
        )),
    }
}

/// Refuses a session that is not there: a misspelt id must not look like an empty conversation.
pub(crate) fn known(archive: &Arc<dyn Archive>, id: &str) -> Result<longhand_archive::Head> {
    archive.head(id)?.ok_or_else(|| {
        hinted(format!("there is no session {id:?}"), "`longhand ls` lists those there are")
    })
}

/// The time, for what is recorded now.
pub(crate) fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Where the user's archive is: the platform's folder for data.
fn default_path() -> Result<PathBuf> {
    let folder =
        |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || folder("HOME").context("HOME is not set; name the archive with --archive");
    let data = if cfg!(windows) {
        folder("APPDATA").context("APPDATA is not set; name the archive with --archive")?
    } else if cfg!(target_os = "macos") {
        home()?.join("Library/Application Support")
    } else {
        match folder("XDG_DATA_HOME") {
            Some(folder) => folder,
            None => home()?.join(".local/share"),
        }
    };
    Ok(data.join("longhand").join("archive.db"))
}
