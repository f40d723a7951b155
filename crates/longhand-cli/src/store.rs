//! The archive that a command works on.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result};
use longhand::app::{Access, App, SessionSummary, ViewSettings};
use longhand::driver::Summarised;
use longhand::{
    Archive, Extractive, Miner, Pattern, Policy, Redactor, Rolling, Session, SessionSettings,
    SqliteArchive, Summariser, Tokens,
};
use longhand_archive::{PostgresArchive, PostgresSettings, is_postgres, shown_address};

use crate::args::{ArchiveArgs, PolicyName, ProxyRecallArgs, RecallShareArgs, SessionArgs};
use crate::config::Config;
use crate::models::{ModelSetup, is_built_in};
use crate::weigh::SharedMeter;
use crate::{embeddings, hinted, names, output, paths, redaction};

/// The archive that a flag named, which commands in hints have to name, too.
static NAMED: OnceLock<PathBuf> = OnceLock::new();

/// Commands that work on no archive, or that end with another program's command line.
const WITHOUT_ARCHIVE: [&str; 6] = ["check", "completions", "count", "replay", "run", "trust"];

/// The archive that a flag named.
pub(crate) fn named() -> Option<&'static Path> {
    NAMED.get().map(PathBuf::as_path)
}

/// A command of ours in a sentence, on the archive that this one works on.
pub(crate) fn command(words: &str) -> String {
    addressed(&format!("`longhand {words}`"))
}

/// A hint whose commands work on the archive that this command works on.
pub(crate) fn addressed(hint: &str) -> String {
    let Some(archive) = NAMED.get() else { return hint.to_owned() };
    let archive = names::quoted(&shown(archive));
    let pieces = hint.split('`').enumerate().map(|(at, text)| {
        let name = text.strip_prefix("longhand ").and_then(|words| words.split(' ').next());
        let is_command = at % 2 == 1
            && !text.contains(" --archive ")
            && name.is_some_and(|name| !WITHOUT_ARCHIVE.contains(&name));
        if is_command { format!("{text} --archive {archive}") } else { text.to_owned() }
    });
    let pieces: Vec<String> = pieces.collect();
    pieces.join("`")
}

/// Opens the archive that was named, or the user's own; makes it if it is not there.
pub(crate) fn open(args: &ArchiveArgs) -> Result<Arc<dyn Archive>> {
    open_at(&path(args)?)
}

/// Opens an archive: a file, or one on a server.
pub(crate) fn open_at(path: &Path) -> Result<Arc<dyn Archive>> {
    let Some(address) = server_address(path) else {
        return Ok(Arc::new(SqliteArchive::open(path)?));
    };
    let password_file = Config::load()?.text("archive.password_file").map(PathBuf::from);
    let settings = PostgresSettings { password_file, ..PostgresSettings::default() };
    Ok(Arc::new(PostgresArchive::open_with(address, &settings)?))
}

/// The address of an archive on a server; `None` if it is a file.
pub(crate) fn server_address(path: &Path) -> Option<&str> {
    path.to_str().filter(|address| is_postgres(address))
}

/// What an archive is called in what is printed: never with a password.
pub(crate) fn shown(path: &Path) -> String {
    server_address(path).map_or_else(|| path.display().to_string(), shown_address)
}

/// What only a file has is not to be had from a server.
pub(crate) fn must_be_a_file(path: &Path, instead: &str) -> Result<()> {
    match server_address(path) {
        None => Ok(()),
        Some(_) => Err(hinted(format!("{} is on a server, and no file", shown(path)), instead)),
    }
}

/// What one can ask of the archive that was named, or of the user's own; it is made if it is not there.
pub(crate) fn app(args: &ArchiveArgs) -> Result<App> {
    Ok(App::new(open(args)?))
}

/// The same of an archive that must be there: looking at one makes none.
pub(crate) fn app_existing(args: &ArchiveArgs) -> Result<App> {
    check_exists(args)?;
    app(args)
}

/// Whether there is an archive; if not, the error says what makes one.
pub(crate) fn check_exists(args: &ArchiveArgs) -> Result<()> {
    if exists(args)? {
        return Ok(());
    }
    Err(hinted(
        format!("there is no archive at {}", shown(&path(args)?)),
        "`longhand run`, `serve`, `chat` and `record` create it; --archive names another",
    ))
}

/// Removes secrets from what goes into the archive, if that was asked for.
pub(crate) fn redactor_if(wanted: bool, args: &ArchiveArgs) -> Result<Option<Arc<Redactor>>> {
    if !wanted {
        return Ok(None);
    }
    Ok(Some(Arc::new(redaction::redactor(&path(args)?)?)))
}

/// Says whether there is an archive.
pub(crate) fn exists(args: &ArchiveArgs) -> Result<bool> {
    let path = path(args)?;
    // Whether there is one on a server is known when it is opened.
    Ok(server_address(&path).is_some() || path.exists())
}

/// Where the archive is: as the flag says, or the settings, or in the user's folder for data.
pub(crate) fn path(args: &ArchiveArgs) -> Result<PathBuf> {
    let path = match &args.archive {
        Some(path) => NAMED.get_or_init(|| path.clone()).clone(),
        None => match Config::load()?.text("archive.path") {
            Some(path) => PathBuf::from(path),
            None => default_path()?,
        },
    };
    if path.to_string_lossy().contains("://") && server_address(&path).is_none() {
        // Refused with its reason; nothing is created.
        SqliteArchive::open(&path)?;
    }
    Ok(path)
}

/// Opens the session with exactly this name or id, to add to it; one that is not there opens empty.
pub(crate) fn session(app: &App, name: &str, args: &SessionArgs) -> Result<Session> {
    Ok(app.open(name, settings(args, app.archive())?)?)
}

/// Opens a session that must be there, to make a window of it.
pub(crate) fn existing_session(app: &App, name: &str, args: &SessionArgs) -> Result<Session> {
    Ok(app.open_existing(name, settings(args, app.archive())?)?)
}

/// Finds a session to read; says which one it is, if it was not named in full.
pub(crate) fn readable(app: &App, name: &str) -> Result<SessionSummary> {
    let found = app.find(name, Access::Read)?;
    names::say_taken(&found);
    Ok(found.session)
}

/// The budget that a session is looked at with.
pub(crate) fn view(args: &SessionArgs) -> Result<ViewSettings> {
    let budget_default = Config::load()?.whole("session.budget");
    Ok(ViewSettings { budget: args.budget, budget_default })
}

/// How a session is kept, as flags and settings say.
fn settings(args: &SessionArgs, archive: &Arc<dyn Archive>) -> Result<SessionSettings> {
    let config = Config::load()?;
    let mut settings = SessionSettings::new()?;
    let named = ArchiveArgs { archive: NAMED.get().cloned() };
    let tell = |problem: &str| output::say(&format!("warning: {problem}"));
    settings.embeddings = embeddings::configured(&config, archive, &named, tell)?;
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

/// The share of the budget for what comes back unasked in a session, as flags or the settings say.
pub(crate) fn recall(args: RecallShareArgs) -> Result<u64> {
    if args.no_recall {
        return Ok(0);
    }
    recall_share(args.recall_percent, &Config::load()?)
}

/// The same for a proxy, where nothing does unless that is asked for.
pub(crate) fn proxy_recall(args: ProxyRecallArgs, config: &Config) -> Result<u64> {
    if args.recall { recall_share(args.recall_percent, config) } else { Ok(0) }
}

fn recall_share(flag: Option<u64>, config: &Config) -> Result<u64> {
    match flag.or(config.whole("session.recall")) {
        Some(percent) if percent > 100 => Err(hinted(
            format!("session.recall is {percent}"),
            "it is a share of the budget in percent, from 0 to 100",
        )),
        percent => Ok(percent.unwrap_or(SessionSettings::RECALL_PERCENT)),
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
        names => Box::leak(Box::new(ModelSetup::new(config, archive()?)?)).summarisers(names, None),
    }
}

/// The summarisers that flags or settings name.
pub(crate) fn summariser_names(config: &Config, flags: &[String]) -> Vec<String> {
    match flags {
        [] => config.texts("models.summary").unwrap_or_default(),
        flags => flags.to_vec(),
    }
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
