//! `longhand demo`: proxy, archive and a scripted model in a temporary place, a session that plays, and the console on it.

mod agent;
mod model;
mod story;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use longhand::app::{App, AppError, ListRequest, RequestLine};
use longhand::{Archive, Dialect, Owner, SqliteArchive, Tokens};
use longhand_core::{Scale, grouped};
use longhand_server::{ConsoleSettings, Proxy, RecallTool, Settings, serve};
use tokio::runtime::Builder;
use tokio::time::sleep;

use self::agent::DemoAgent;
use self::model::{Counter, MODEL, ScriptedModel};
use self::story::Turn;
use crate::args::DemoArgs;
use crate::config::Config;
use crate::output::short_number;
use crate::{CommandOutcome, console, models, output};

/// The budget of the demo: small, so that a minute shows several batches.
const BUDGET: Tokens = Tokens(32_000);

/// The pause after each request, so that one can watch.
const PAUSE: Duration = Duration::from_millis(700);

/// A request stands in the archive soon after its answer.
const LOGGED_MAX: Duration = Duration::from_secs(5);
const LOGGED_POLL: Duration = Duration::from_millis(25);

/// After this turn, the agent asks for a title.
const TITLE_AT: usize = 1;

/// More than the demo has.
const REQUESTS_MAX: usize = 1_000;

/// The folder that the session is said to be of.
const PROJECT: &str = "/home/demo/quayside";

pub(crate) fn run(args: &DemoArgs) -> Result<CommandOutcome> {
    let folder = tempfile::Builder::new().prefix("longhand-demo-").tempdir();
    let folder = folder.context("cannot make a folder for the demo")?;
    let runtime = Builder::new_multi_thread().enable_all().max_blocking_threads(16).build();
    let runtime = runtime.context("cannot start the network threads")?;
    let done = runtime.block_on(async {
        let archive: Arc<dyn Archive> =
            Arc::new(SqliteArchive::open(folder.path().join("archive.db"))?);
        let turns = story::turns();
        let model = ScriptedModel::start(turns.clone(), counter()?)?;
        let proxy = serve(settings(&archive, &model)?).await?;
        let outcome = tokio::select! {
            played = show(args, &proxy, turns, archive) => played,
            () = crate::serve::stop_asked_for() => Ok(()),
        };
        proxy.stop().await;
        outcome
    });
    runtime.shutdown_background();
    folder.close().context("the folder of the demo could not be removed")?;
    done?;
    output::say("the demo is over; its files are removed");
    Ok(CommandOutcome::Done)
}

fn settings(archive: &Arc<dyn Archive>, model: &ScriptedModel) -> Result<Settings> {
    let prices = models::prices(&Config::load()?);
    Ok(Settings {
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        owner: Some(Owner::LOCAL),
        upstream_openai: Some(model.url()),
        budget: Some(BUDGET),
        prices: prices.clone(),
        recall_tool: RecallTool::Never,
        project: PROJECT.to_owned(),
        agent: Some("demo-agent".to_owned()),
        console: Some(ConsoleSettings {
            archive_name: Some("the demo's own".to_owned()),
            prices,
            ..ConsoleSettings::default()
        }),
        ..Settings::new(Arc::clone(archive))
    })
}

/// Counts as the model that is played does.
fn counter() -> Result<Counter> {
    let meter = longhand::meter_for(Dialect::Chat, Some(MODEL))?;
    Ok(Box::new(move |text| Scale::new(&*meter).text(text)))
}

/// Plays the session, and waits until the user has seen enough.
async fn show(
    args: &DemoArgs,
    proxy: &Proxy,
    turns: Vec<Turn>,
    archive: Arc<dyn Archive>,
) -> Result<()> {
    let link = proxy.console_link()?.context("the demo has no console")?;
    output::print(&format!("console {link}"))?;
    output::say(&format!(
        "A coding agent works behind the proxy, and its window may have {} tokens. The model is a script, \
         counted and priced as {MODEL}; all else is real. Nothing leaves this machine.",
        grouped(BUDGET.0 as usize)
    ));
    // The page that leads there is removed when the demo ends.
    let _opened = if args.no_open { None } else { console::open_browser(&link) };
    let app = App::new(archive);
    let mut agent = DemoAgent::new(proxy.address());
    let mut newest = 0;
    for (at, turn) in turns.into_iter().enumerate() {
        let asks_title = at == TITLE_AT;
        let user = turn.user;
        let played = tokio::task::spawn_blocking(move || {
            agent.play(&turn)?;
            if asks_title {
                agent.ask_title()?;
            }
            anyhow::Ok(agent)
        });
        agent = played.await??;
        if !user.is_empty() {
            output::say(&format!("\n> {user}"));
        }
        if let Some(line) = logged(&app, newest).await? {
            output::say(&told(&line));
            newest = line.number;
        }
        if !args.fast {
            sleep(PAUSE).await;
        }
    }
    output::say(&summary(&app).await?);
    if args.end {
        return Ok(());
    }
    output::say("The console stays open: Ctrl-C ends the demo.");
    std::future::pending().await
}

/// The newest request of the session, once it is another than the one before.
async fn logged(app: &App, before: u64) -> Result<Option<RequestLine>> {
    let tries = LOGGED_MAX.as_millis() / LOGGED_POLL.as_millis();
    for _ in 0..tries {
        let lines = app.ask(|app| requests(app, 2)).await?;
        let line = lines.into_iter().find(|line| !line.aside);
        if let Some(line) = line.filter(|line| line.number > before) {
            return Ok(Some(line));
        }
        sleep(LOGGED_POLL).await;
    }
    Ok(None)
}

/// So many of the newest requests of the longest session: the others are side calls.
fn requests(app: &App, count: usize) -> Result<Vec<RequestLine>, AppError> {
    let page = app.sessions(&ListRequest::default())?;
    let Some(main) = page.items.iter().max_by_key(|item| item.entries) else {
        return Ok(Vec::new());
    };
    Ok(app.request_page(&main.id, None, count)?.items)
}

/// A request in a line.
fn told(line: &RequestLine) -> String {
    let (window, before) = (short_number(line.window), short_number(line.before));
    let number = line.number;
    if line.before <= line.window {
        return format!("request {number:>3}  {window:>6} tokens, passed on as it came");
    }
    let left_out = short_number(line.before - line.window);
    format!(
        "request {number:>3}  {window:>6} tokens of {before}, {left_out} left out by batch {}",
        line.batch
    )
}

/// What the demo has shown.
async fn summary(app: &App) -> Result<String> {
    let mut lines = app.ask(|app| requests(app, REQUESTS_MAX)).await?;
    lines.retain(|line| !line.aside);
    let sum = |of: fn(&RequestLine) -> u64| lines.iter().map(of).sum::<u64>();
    let (before, window) = (sum(|line| line.before), sum(|line| line.window));
    let saved = before.saturating_sub(window);
    let over = lines.iter().filter(|line| line.before > line.budget).count();
    let batches = lines.iter().map(|line| line.batch).max().unwrap_or(0);
    Ok(format!(
        "\nOf {} tokens, {} were not sent ({}%), in {batches} batches. {over} of {} requests would have been over the \
         budget; all were sent within it. Nothing is lost: the console opens every stub and fold to its original.",
        grouped(before as usize),
        grouped(saved as usize),
        saved * 100 / before.max(1),
        lines.len()
    ))
}
