//! `longhand run`: any agent behind a private proxy.

mod agent;
mod folder;
#[cfg(target_os = "linux")]
mod launch;
mod recipe;
mod signals;
mod values;

#[cfg(target_os = "linux")]
pub(crate) use self::launch::launch;

use std::io::IsTerminal;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use longhand::app::{App, check_new_name};
use longhand_core::{Tokens, grouped};
use longhand_server::{Counts, LogSink, Missing, RecallTool, Settings, serve};
use tokio::runtime::Builder;

use self::agent::AgentProcess;
use self::folder::RunFolder;
use self::recipe::{Address, Recipe};
use crate::args::RunArgs;
use crate::config::Config;
use crate::output::{counted, harmless_line};
use crate::{CommandOutcome, console, embeddings, models, names, output, store};

/// How long the proxy waits for requests that are still under way when the program has ended.
const FAREWELL_MAX: Duration = Duration::from_secs(10);

/// Where requests go by default.
const OPENAI: &str = "https://api.openai.com";
const ANTHROPIC: &str = "https://api.anthropic.com";

/// How many random bytes a secret has.
const SECRET_BYTES: usize = 16;

pub(crate) fn run(args: &RunArgs) -> Result<CommandOutcome> {
    let program = args.command.first().context("there is no program to run")?;
    let agent = Path::new(program).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    args.name.as_deref().map_or(Ok(()), check_new_name)?;
    let warnings = RunWarnings::default();
    let begun_ms = store::now_ms();
    folder::sweep();
    let secret = secret()?;
    let settings = settings(args, &agent, &secret, warnings.log())?;
    let is_anthropic = settings.upstream_anthropic.as_deref().is_some_and(is_of_anthropic);
    let archive = Arc::clone(&settings.archive);
    let runtime = Builder::new_multi_thread().enable_all().max_blocking_threads(16).build();
    let runtime = runtime.context("cannot start the network threads")?;
    let (status, counts, missing) = runtime.block_on(async {
        let proxy = serve(settings).await?;
        let address = Address { url: format!("http://{}", proxy.address()), secret, is_anthropic };
        // A script that reads standard error has no use for it.
        if !args.quiet
            && std::io::stderr().is_terminal()
            && let Some(link) = proxy.console_link()?
        {
            output::say(&format!("longhand: console {link}"));
        }
        let folder = RunFolder::create()?;
        let recipe = Recipe::of(&agent, &address, &folder, |name| std::env::var(name).ok())?;
        let status = AgentProcess::start(&args.command, &recipe, &folder)?.wait().await?;
        drop(folder);
        let (counter, missing) = (proxy.counter(), proxy.missing());
        let _ = tokio::time::timeout(FAREWELL_MAX, proxy.stop()).await;
        anyhow::Ok((status, counter(), missing()))
    })?;
    // A request that never ends must not keep the program's caller waiting.
    runtime.shutdown_background();
    for line in crate::serve::not_archived(&missing) {
        output::say(&format!("longhand: warning: {}", harmless_line(&line)));
    }
    if !args.quiet {
        warnings.say();
        let newest = App::new(archive).newest(begun_ms)?;
        let shown = newest.map(|session| names::called(&session.name, &session.id));
        let told = told(&counts, &missing, &agent, shown.as_deref());
        output::say(&store::addressed(&format!("longhand: {told}")));
    }
    Ok(CommandOutcome::Status(status))
}

/// Whether an address is one of Anthropic's own.
fn is_of_anthropic(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split(['/', ':', '?']).next().unwrap_or_default();
    host == "anthropic.com" || host.ends_with(".anthropic.com")
}

/// A secret that nobody can guess.
fn secret() -> Result<String> {
    let mut bytes = [0; SECRET_BYTES];
    getrandom::fill(&mut bytes).context("the system has no random bytes")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn settings(args: &RunArgs, agent: &str, secret: &str, warn: LogSink) -> Result<Settings> {
    let config = Config::load()?;
    let from = |name: &str| std::env::var(name).ok().filter(|url| !url.trim().is_empty());
    let upstream = |names: &[&str], default: &str| {
        let set = || names.iter().find_map(|name| from(name));
        Some(args.upstream.clone().or_else(set).unwrap_or_else(|| default.to_owned()))
    };
    let archive = store::open(&args.archive)?;
    let told = Arc::clone(&warn);
    let tell = move |problem: &str| told(problem);
    let embeddings = embeddings::configured(&config, &archive, &args.archive, tell)?;
    Ok(Settings {
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        owner: Some(longhand::Owner::LOCAL),
        secret: Some(secret.to_owned()),
        upstream_openai: upstream(&["OPENAI_BASE_URL", "OPENAI_API_BASE"], OPENAI),
        upstream_anthropic: upstream(&["ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE"], ANTHROPIC),
        budget: args.budget.map(Tokens),
        windows: crate::serve::windows(&config),
        clip_new_percent: store::clip_new(args.clip_new, &config)?,
        summarisers: store::summarisers(&config, &[], || Ok(Arc::clone(&archive)))?,
        prices: models::prices(&config),
        recall_percent: store::proxy_recall(args.brought_back, &config)?,
        answer_compactions: args.answer_compactions,
        embeddings,
        recall_tool: match (args.recall_tool, args.no_recall_tool) {
            (_, true) => RecallTool::Never,
            (true, _) => RecallTool::Always,
            _ => RecallTool::BesideOthers,
        },
        recall_reach: args.recall_scope.into(),
        session: args.name.clone(),
        project: std::env::current_dir()
            .map(|folder| folder.display().to_string())
            .unwrap_or_default(),
        agent: Some(agent.to_owned()),
        warn: Some(warn),
        console: console::of_proxy(args.console, &args.archive, &config)?,
        ..Settings::new(archive)
    })
}

/// Warnings that are printed after the agent has ended.
#[derive(Clone, Default)]
struct RunWarnings(Arc<Mutex<Vec<String>>>);

impl RunWarnings {
    fn log(&self) -> LogSink {
        let lines = Arc::clone(&self.0);
        Arc::new(move |line: &str| {
            lines.lock().unwrap_or_else(PoisonError::into_inner).push(line.to_owned());
        })
    }

    fn say(&self) {
        for line in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            output::say(&format!("longhand: warning: {}", harmless_line(line)));
        }
    }
}

/// The line at the end.
fn told(counts: &Counts, missing: &[Missing], agent: &str, session: Option<&str>) -> String {
    let number = |count: u64| grouped(count as usize);
    if counts.requests == 0 {
        return format!(
            "no request reached the proxy: {agent} may not read OPENAI_BASE_URL or ANTHROPIC_BASE_URL; \
             docs/agents says how to set it up"
        );
    }
    let mut line = counted(counts.requests as usize, "request");
    let troubles = troubles(counts);
    line.push_str(&troubles);
    if counts.saved > 0 {
        line.push_str(&format!(
            ", {} of them shortened: {} tokens were not sent again",
            number(counts.compacted),
            number(counts.saved)
        ));
    } else if !troubles.is_empty() {
        // Whether the others fit is of little interest beside that.
    } else if counts.requests == 1 {
        line.push_str(", which fit as it was");
    } else {
        line.push_str(", all of which fit as they were");
    }
    if counts.bypassed > 0 {
        line.push_str(&format!("; {} passed on unread", number(counts.bypassed)));
    }
    let missing: u64 = missing.iter().map(|session| session.messages).sum();
    if missing > 0 {
        let messages = counted(missing as usize, "message");
        line.push_str(&format!("; {messages} could not be archived"));
    }
    match session {
        Some(session) => {
            line.push_str(&format!("; `longhand show {session}`, `longhand ls`, `longhand usage`"));
        }
        None => line.push_str("; `longhand ls`, `longhand usage`"),
    }
    line
}

/// How many requests have failed, and how.
fn troubles(counts: &Counts) -> String {
    let mut told = match (counts.requests, counts.unanswered) {
        (_, 0) => String::new(),
        (1, _) => ", which was not answered".to_owned(),
        (all, count) if all == count => ", none of which was answered".to_owned(),
        (_, 1) => ", 1 of which was not answered".to_owned(),
        (_, count) => format!(", {} of which were not answered", grouped(count as usize)),
    };
    let others = [
        (counts.failed, "answered with an error by the upstream"),
        (counts.refused, "refused by Longhand"),
    ];
    for (count, what) in others {
        told.push_str(&match (counts.requests, count) {
            (_, 0) => String::new(),
            (1, _) => format!(", which was {what}"),
            (all, count) if all == count => format!(", all of which were {what}"),
            (_, 1) => format!(", 1 of which was {what}"),
            (_, count) => format!(", {} of which were {what}", grouped(count as usize)),
        });
    }
    told
}
