//! The archive that a command works on.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use longhand::{
    Archive, Extractive, Folded, Miner, Pattern, Session, Settings, SqliteArchive, Summarised,
    Summariser,
};
use longhand_core::{Digest, Index, Rolling, Tokens};

use crate::args::{ArchiveArgs, RollingArgs};
use crate::config::Config;
use crate::models::{Models, is_built_in};
use crate::weigh::SharedMeter;
use crate::{hinted, output};

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

/// Where the archive is: as the flag says, or the settings, or in the platform's folder for data.
pub(crate) fn path(args: &ArchiveArgs) -> Result<PathBuf> {
    if let Some(path) = &args.archive {
        return Ok(path.clone());
    }
    Config::load()?.text("archive.path").map_or_else(default_path, |path| Ok(PathBuf::from(path)))
}

/// Opens a session of it.
pub(crate) fn session(
    archive: &Arc<dyn Archive>,
    id: &str,
    rolling: &RollingArgs,
) -> Result<Session> {
    let config = Config::load()?;
    let mut settings = Settings::new()?;
    let defaults = Rolling::default();
    let tokens = |flag: Option<u64>, key: &str, default: Tokens| {
        flag.or(config.whole(key)).map_or(default, Tokens)
    };
    settings.rolling = Rolling {
        rounds_max: rolling
            .rounds
            .or(config.whole("session.rounds").map(|rounds| rounds as usize))
            .unwrap_or(defaults.rounds_max),
        budget: tokens(rolling.budget, "session.budget", defaults.budget),
        summary_max: tokens(rolling.summary, "session.summary", defaults.summary_max),
        ..defaults
    };
    settings.summarisers = summarisers(&config, &rolling.summariser)?;
    let patterns = match rolling.pattern.as_slice() {
        [] => config.texts("session.patterns").unwrap_or_default(),
        own => own.to_vec(),
    };
    let patterns = patterns.iter().map(|pattern| {
        pattern.parse::<Pattern>().with_context(|| format!("{pattern:?} is not a pattern"))
    });
    settings.miner = Miner::new(patterns.collect::<Result<_>>()?);
    Ok(Session::open_with(Arc::clone(archive), id, settings)?)
}

/// How long a command waits for a model before it leaves the fold to the next one.
const FOLD_WAIT: Duration = Duration::from_mins(5);

/// Waits for summaries that are being written: everything recorded is safe without them.
pub(crate) fn finish_folding(session: &mut Session, quiet: bool) -> Result<Folded> {
    let mut folded = session.fold(now_ms(), Duration::ZERO)?;
    if session.is_folding() {
        if !quiet && std::io::stderr().is_terminal() {
            output::say("all of it is recorded; waiting for the summary");
        }
        let more = session.fold(now_ms(), FOLD_WAIT)?;
        folded = Folded { rounds: folded.rounds + more.rounds, over: more.over };
    }
    Ok(folded)
}

/// What tells of folded messages.
pub(crate) fn digest(names: &[String], meter: &SharedMeter) -> Result<Box<dyn Digest>> {
    let summarisers = summarisers(&Config::load()?, names)?;
    if summarisers.is_empty() {
        return Ok(Box::new(Index));
    }
    Ok(Box::new(Summarised::new(summarisers, Arc::clone(meter), Miner::default())))
}

/// Summarisers in the order they are tried, as flags or settings name them.
pub(crate) fn summarisers(config: &Config, names: &[String]) -> Result<Vec<Arc<dyn Summariser>>> {
    let names = summariser_names(config, names);
    match names.as_slice() {
        [] => Ok(vec![Arc::new(Extractive)]),
        [name] if name == "none" => Ok(Vec::new()),
        names if names.iter().all(|name| is_built_in(name)) => Ok(vec![Arc::new(Extractive)]),
        // They live as long as the program.
        names => Box::leak(Box::new(Models::new(config)?)).summarisers(names, None),
    }
}

/// The summarisers that flags or settings name.
pub(crate) fn summariser_names(config: &Config, flags: &[String]) -> Vec<String> {
    match flags {
        [] => config.texts("models.summary").unwrap_or_default(),
        flags => flags.to_vec(),
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
pub(crate) fn default_path() -> Result<PathBuf> {
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
