//! The archive that a command works on.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use longhand::{
    Archive, Extractive, Miner, Owner, Pattern, Policy, Redactor, Rolling, Session, SessionId,
    Settings, SqliteArchive, Summarised, Summariser, Tokens,
};
use longhand_archive::{Page, SessionInfo};

use crate::args::{ArchiveArgs, PolicyName, SessionArgs};
use crate::config::Config;
use crate::models::{Models, is_built_in};
use crate::weigh::SharedMeter;
use crate::{conversation, hinted, output, paths, redaction};

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
        "`longhand run`, `serve`, `chat` and `record` create it; --archive names another",
    ))
}

/// Takes secrets out of what goes into the archive, if that was asked for.
pub(crate) fn redactor_if(wanted: bool, args: &ArchiveArgs) -> Result<Option<Arc<Redactor>>> {
    if !wanted {
        return Ok(None);
    }
    Ok(Some(Arc::new(redaction::redactor(&path(args)?)?)))
}

/// Says whether there is an archive.
pub(crate) fn exists(args: &ArchiveArgs) -> Result<bool> {
    Ok(path(args)?.exists())
}

/// Where the archive is: as the flag says, or the settings, or in the user's folder for data.
pub(crate) fn path(args: &ArchiveArgs) -> Result<PathBuf> {
    let path = match &args.archive {
        Some(path) => path.clone(),
        None => match Config::load()?.text("archive.path") {
            Some(path) => PathBuf::from(path),
            None => default_path()?,
        },
    };
    if path.to_string_lossy().contains("://") {
        // Refused with its reason; nothing is created.
        SqliteArchive::open(&path)?;
    }
    Ok(path)
}

/// Opens a session of it, by its name or id; one that is not there opens empty.
pub(crate) fn session(
    archive: &Arc<dyn Archive>,
    name: &str,
    args: &SessionArgs,
) -> Result<Session> {
    let (id, name) = match find(archive, name)? {
        Some(info) => (info.id, info.name),
        None => (SessionId::named(Owner::LOCAL, name), name.to_owned()),
    };
    Ok(Session::open_id(Arc::clone(archive), id, &name, settings(args, archive)?)?)
}

/// Opens a session to look at it, with the budget that its newest request had.
pub(crate) fn shown(
    archive: &Arc<dyn Archive>,
    info: &SessionInfo,
    args: &SessionArgs,
) -> Result<Session> {
    let mut settings = settings(args, archive)?;
    if args.budget.is_none()
        && let Some(newest) = archive.requests(info.id, Page::first(1))?.items.first()
        && newest.limit > 0
    {
        settings.budget = Tokens(newest.limit);
    }
    Ok(Session::open_id(Arc::clone(archive), info.id, &info.name, settings)?)
}

/// How a session is kept, as flags and settings say.
fn settings(args: &SessionArgs, archive: &Arc<dyn Archive>) -> Result<Settings> {
    let config = Config::load()?;
    let mut settings = Settings::new()?;
    if let Some(budget) = args.budget.or(config.whole("session.budget")) {
        settings.budget = Tokens(budget);
    }
    settings.plan.policy = policy(args, &config)?;
    settings.plan.clip_new_percent = clip_new(args.clip_new, &config)?;
    settings.summarisers = summarisers(&config, &args.summariser, || Ok(Arc::clone(archive)))?;
    let patterns = match args.pattern.as_slice() {
        [] => config.texts("session.patterns").unwrap_or_default(),
        flags => flags.to_vec(),
    };
    let patterns = patterns.iter().map(|pattern| {
        pattern.parse::<Pattern>().with_context(|| format!("{pattern:?} is not a pattern"))
    });
    settings.miner = Miner::new(patterns.collect::<Result<_>>()?);
    Ok(settings)
}

/// The share of the budget beyond which a new result is clipped, as a flag or the settings say.
pub(crate) fn clip_new(flag: Option<u64>, config: &Config) -> Result<Option<u64>> {
    match flag.or(config.whole("session.clip_new")) {
        Some(percent) if !(1..=100).contains(&percent) => Err(hinted(
            format!("session.clip_new is {percent}"),
            "it is a share of the budget in percent, from 1 to 100",
        )),
        percent => Ok(percent),
    }
}

/// The policy that flags or settings name; a number of rounds means `rolling`.
fn policy(args: &SessionArgs, config: &Config) -> Result<Policy> {
    let rounds = args.rounds.or(config.whole("session.rounds").map(|rounds| rounds as usize));
    let summary = args.summary.or(config.whole("session.summary"));
    let named = match (args.policy, config.text("session.policy")) {
        (Some(flag), _) => Some(flag),
        (None, Some(name)) => {
            let name = <PolicyName as clap::ValueEnum>::from_str(name, true);
            Some(name.map_err(anyhow::Error::msg).context("session.policy in the settings")?)
        }
        (None, None) => None,
    };
    let default = if args.rounds.is_some() { PolicyName::Rolling } else { PolicyName::Auto };
    let defaults = Rolling::default();
    Ok(match named.unwrap_or(default) {
        PolicyName::Rolling => Policy::Rolling(Rolling {
            rounds_max: rounds.unwrap_or(defaults.rounds_max),
            summary_max: summary.map_or(defaults.summary_max, Tokens),
        }),
        other => other.into(),
    })
}

/// How long a command waits for the summary of a model.
const STORY_WAIT: Duration = Duration::from_mins(5);

/// Waits for a summary that a model is writing, so that the next window has it: everything recorded is safe
/// without it.
pub(crate) fn wait_for_summary(session: &mut Session, quiet: bool) -> Result<()> {
    if session.settle(Duration::ZERO)? {
        return Ok(());
    }
    if !quiet && std::io::stderr().is_terminal() {
        output::say("everything is recorded; waiting for the summary");
    }
    session.settle(STORY_WAIT)?;
    Ok(())
}

/// Makes the text of folds.
///
/// What models cost is kept in the archive that is named, or else in the user's own.
pub(crate) fn digest(
    names: &[String],
    archive: Option<&Path>,
    meter: &SharedMeter,
) -> Result<Summarised> {
    let book = || open(&ArchiveArgs { archive: archive.map(Path::to_owned) });
    let summarisers = summarisers(&Config::load()?, names, book)?;
    Ok(Summarised::new(summarisers, Arc::clone(meter), Miner::default()))
}

/// Summarisers in the order they are tried, as flags or settings name them.
///
/// What models cost is kept in an archive, which is asked for if there are any.
pub(crate) fn summarisers(
    config: &Config,
    names: &[String],
    archive: impl FnOnce() -> Result<Arc<dyn Archive>>,
) -> Result<Vec<Arc<dyn Summariser>>> {
    let names = summariser_names(config, names);
    match names.as_slice() {
        [] => Ok(vec![Arc::new(Extractive)]),
        [name] if name == "none" => Ok(Vec::new()),
        names if names.iter().all(|name| is_built_in(name)) => Ok(vec![Arc::new(Extractive)]),
        // They live as long as the program.
        names => Box::leak(Box::new(Models::new(config, archive()?)?)).summarisers(names, None),
    }
}

/// The summarisers that flags or settings name.
pub(crate) fn summariser_names(config: &Config, flags: &[String]) -> Vec<String> {
    match flags {
        [] => config.texts("models.summary").unwrap_or_default(),
        flags => flags.to_vec(),
    }
}

/// Finds a session that must be there: a misspelt name must not look like an empty conversation.
pub(crate) fn known(archive: &Arc<dyn Archive>, name: &str) -> Result<SessionInfo> {
    if let Some(info) = find(archive, name)? {
        return Ok(info);
    }
    let hint = "`longhand ls` lists the sessions";
    // Quoted: a name may hold anything.
    let quoted = |info: SessionInfo| format!("{:?}", info.name);
    let begin: Vec<String> = beginning_with(archive, name)?.into_iter().map(quoted).collect();
    Err(match begin.as_slice() {
        [] => hinted(format!("there is no session {name:?}"), hint),
        [first, second, ..] if begin.len() > 2 => hinted(
            format!("{} sessions begin with {name:?}, such as {first} and {second}", begin.len()),
            hint,
        ),
        names => hinted(format!("{name:?} may mean {}", names.join(" or ")), hint),
    })
}

/// Finds a session by its name, its id, a beginning that only one of them has, or as `@last`.
pub(crate) fn find(archive: &Arc<dyn Archive>, name: &str) -> Result<Option<SessionInfo>> {
    let named = archive.session(SessionId::named(Owner::LOCAL, name))?;
    if named.is_some() {
        return Ok(named);
    }
    if name == "@last" {
        return conversation::newest_since(archive, i64::MIN);
    }
    if let Ok(id) = name.parse::<SessionId>() {
        return Ok(archive.session(id)?);
    }
    let mut sessions = beginning_with(archive, name)?;
    // A session with just that name, such as one that `compact` began, comes before those that begin with it.
    let exact = sessions.iter().position(|info| info.name == name);
    let only = (sessions.len() == 1).then_some(0);
    Ok(exact.or(only).map(|at| sessions.swap_remove(at)))
}

/// The sessions whose name or id begins so.
fn beginning_with(archive: &Arc<dyn Archive>, name: &str) -> Result<Vec<SessionInfo>> {
    if name.is_empty() {
        return Ok(Vec::new());
    }
    let mut sessions = archive.sessions(None, Page::ALL)?.items;
    sessions.retain(|info| {
        info.name.starts_with(name) || (name.len() >= 4 && info.id.to_string().starts_with(name))
    });
    Ok(sessions)
}

/// The time, for what is recorded now.
pub(crate) fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Where the user's archive is.
pub(crate) fn default_path() -> Result<PathBuf> {
    Ok(paths::data()?.join("archive.db"))
}
