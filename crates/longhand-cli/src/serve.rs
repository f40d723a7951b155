//! `longhand serve`.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use longhand::{Archive, MemoryArchive, Redactor, time};
use longhand_core::{Tokens, grouped};
use longhand_server::{
    Counts, HeaderName, LogSink, Missing, RecallTool, ServerError, Settings, serve,
};
use tokio::runtime::Builder;

use crate::args::ServeArgs;
use crate::config::Config;
use crate::output::{counted, counted_as};
use crate::{CommandOutcome, clean, console, embeddings, hinted, models, output, store, verbose};

pub(crate) fn run(args: &ServeArgs) -> Result<CommandOutcome> {
    let settings = settings(args)?;
    // More would only wait for the same disk, each with memory of its own.
    let runtime = Builder::new_multi_thread().enable_all().max_blocking_threads(16).build();
    let runtime = runtime.context("cannot start the network threads")?;
    let (counts, missing) = runtime.block_on(async {
        let proxy = serve(settings).await.map_err(explained)?;
        output::print(&format!("listening http://{}", proxy.address()))?;
        if !args.quiet {
            greeting(args, callable(proxy.address()))?.iter().for_each(|line| output::say(line));
            if let Some(link) = proxy.console_link()? {
                output::say(&format!("console   {link}"));
            }
        }
        stop_asked_for().await;
        if !args.quiet {
            output::say("finishing the requests under way; press Ctrl-C again to stop at once");
        }
        let (counter, missing) = (proxy.counter(), proxy.missing());
        tokio::select! {
            () = proxy.stop() => {}
            () = stop_asked_for() => {}
        }
        anyhow::Ok((counter(), missing()))
    })?;
    // Work for requests that are gone may still be under way; nobody waits for it.
    runtime.shutdown_background();
    // Lost entries are reported even with --quiet.
    for line in not_archived(&missing) {
        warn(&line);
    }
    if !args.quiet {
        output::say(&told(&counts, &missing));
    }
    Ok(CommandOutcome::Done)
}

/// What is not in the archive, by session and time.
pub(crate) fn not_archived(missing: &[Missing]) -> Vec<String> {
    let line = |lost: &Missing| {
        let [first, last] = [lost.first_ms, lost.last_ms].map(time::format);
        let why = lost.given_up.as_deref().unwrap_or("it waited for the archive until the end");
        let messages = counted(lost.messages as usize, "message");
        format!("session {}: {messages} from {first} to {last} not archived: {why}", lost.session)
    };
    missing.iter().map(line).collect()
}

/// Where requests go, how much of them, where they are kept, and how to use it.
fn greeting(args: &ServeArgs, address: SocketAddr) -> Result<Vec<String>> {
    let [openai, anthropic] = upstreams(args);
    let upstream = match (&openai, &anthropic) {
        (Some(one), Some(other)) if one == other => one.clone(),
        (Some(openai), Some(anthropic)) => format!("{openai} and {anthropic}"),
        (one, other) => one.clone().or(other.clone()).unwrap_or_default(),
    };
    let budget = match args.budget {
        Some(budget) => counted(budget as usize, "token"),
        None => "the context window of the model, less the reply".to_owned(),
    };
    let openai = openai.map(|_| format!("OPENAI_BASE_URL=http://{address}/v1 your-agent"));
    let anthropic = anthropic.map(|_| format!("ANTHROPIC_BASE_URL=http://{address} your-agent"));
    let archive = if args.no_archive || keeps_nothing(&Config::load()?)? {
        "none".to_owned()
    } else {
        store::shown(&store::path(&args.archive)?)
    };
    let mut lines = vec![
        format!("upstream  {upstream}"),
        format!("budget    {budget}"),
        format!("archive   {archive}"),
    ];
    lines.extend(openai.into_iter().chain(anthropic).map(|line| format!("use it    {line}")));
    Ok(lines)
}

/// An address that programs on this machine can call: 127.0.0.1 in place of 0.0.0.0.
fn callable(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}

/// Where requests go: in the formats of `OpenAI`, and in that of Anthropic.
fn upstreams(args: &ServeArgs) -> [Option<String>; 2] {
    [&args.upstream_openai, &args.upstream_anthropic]
        .map(|upstream| upstream.clone().or_else(|| args.upstream.clone()))
}

fn settings(args: &ServeArgs) -> Result<Settings> {
    let config = Config::load()?;
    let [openai, anthropic] = upstreams(args);
    if openai.is_none() && anthropic.is_none() {
        return Err(hinted(
            "no upstream: a proxy needs to know where requests go",
            "`longhand serve --upstream https://api.openai.com`, or the address of your own server",
        ));
    }
    let no_archive = args.no_archive || keeps_nothing(&config)?;
    if no_archive && args.require_archive {
        return Err(hinted(
            "archive.keep is off, and --require-archive wants an archive",
            "leave one of them out",
        ));
    }
    let archive: Arc<dyn Archive> =
        if no_archive { Arc::new(MemoryArchive::default()) } else { store::open(&args.archive)? };
    let redactor = store::redactor_if(args.redact, &args.archive)?;
    let tell = if args.quiet { |_: &str| () } else { warn };
    let embeddings = embeddings::configured(&config, &archive, &args.archive, tell)?;
    Ok(Settings {
        listen: args.listen,
        keys: args.api_key_file.as_deref().map(keys).transpose()?.unwrap_or_default(),
        mcp_token: args.mcp_token_file.as_deref().map(token).transpose()?,
        open_to_all: args.allow_anyone,
        credential_headers: credential_headers(&args.credential_header)?,
        upstream_openai: openai,
        upstream_anthropic: anthropic,
        budget: args.budget.map(Tokens),
        windows: windows(&config),
        low_water_percent: args.low_water,
        clip_new_percent: store::clip_new(args.clip_new, &config)?,
        policy: args.policy.into(),
        summarisers: store::summarisers(&config, &args.summariser, || Ok(Arc::clone(&archive)))?,
        prices: models::prices(&config),
        recall_percent: store::proxy_recall(args.brought_back, &config)?,
        answer_compactions: args.answer_compactions,
        embeddings,
        recall_tool: if args.recall_tool { RecallTool::Always } else { RecallTool::Never },
        recall_reach: args.recall_scope.into(),
        require_archive: args.require_archive,
        log: verbose::both(
            args.log.as_deref().map(|path| log(path, redactor.clone())).transpose()?,
            args.verbose.then(verbose::sink),
        ),
        redactor,
        console: console::of_proxy(args.console, &args.archive, &config)?,
        no_archive,
        warn: (!args.quiet).then(|| -> LogSink { Arc::new(|line: &str| warn(line)) }),
        ..Settings::new(archive)
    })
}

/// Whether the settings say that conversations are not archived.
fn keeps_nothing(config: &Config) -> Result<bool> {
    match config.text("archive.keep") {
        None | Some("on") => Ok(false),
        Some("off") => Ok(true),
        Some(other) => Err(hinted(format!("archive.keep is `{other}`"), "it must be on or off")),
    }
}

/// The windows of models that the settings know.
pub(crate) fn windows(config: &Config) -> HashMap<String, Tokens> {
    let names = config.names("windows").into_iter();
    names
        .filter_map(|name| {
            let tokens = config.whole(&format!("windows.{name}.tokens"))?;
            Some((name, Tokens(tokens)))
        })
        .collect()
}

/// The keys in a file.
fn keys(path: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read keys from {}", path.display()))?;
    let lines =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let keys: Vec<String> = lines.map(str::to_owned).collect();
    let is_weak = |key: &String| key.len() < KEY_CHARS_MIN;
    if keys.is_empty() || keys.iter().any(is_weak) {
        return Err(hinted(
            format!(
                "{} needs a key of at least {KEY_CHARS_MIN} characters on each line",
                path.display()
            ),
            "`openssl rand -hex 32` makes one",
        ));
    }
    Ok(keys)
}

/// The one token in a file.
fn token(path: &Path) -> Result<String> {
    let mut tokens = keys(path)?;
    if tokens.len() > 1 {
        bail!("{} has more than one token", path.display());
    }
    Ok(tokens.remove(0))
}

const KEY_CHARS_MIN: usize = 16;

/// Writes lines to a file, or to standard error.
fn log(path: &Path, redactor: Option<Arc<Redactor>>) -> Result<LogSink> {
    let out: Box<dyn Write + Send> = if path.as_os_str() == "-" {
        Box::new(std::io::stderr())
    } else {
        let file = private(path);
        Box::new(file.with_context(|| format!("cannot write to {}", path.display()))?)
    };
    let out = Mutex::new(out);
    Ok(Arc::new(move |line: &str| {
        let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
        // A full disk must not stop requests.
        let line = redactor.as_ref().map_or(line.into(), |redactor| redactor.redact(line));
        let _ = out.write_all(format!("{}\n", clean::json(&line)).as_bytes());
    }))
}

/// Opens a file to append to. Only its owner can read it, even if it existed before.
fn private(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    #[cfg(unix)]
    if file.metadata()?.is_file() {
        use std::os::unix::fs::PermissionsExt;
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

/// The headers with keys that callers have besides the usual ones.
fn credential_headers(names: &[String]) -> Result<Vec<HeaderName>> {
    let parsed = names.iter().map(|name| {
        name.parse().map_err(|_| {
            hinted(format!("`{name}` is not a valid header name"), "x-team-key is one")
        })
    });
    parsed.collect()
}

/// Says what the person at the terminal must know.
fn warn(line: &str) {
    output::say(&format!("warning: {}", output::harmless_line(line)));
}

fn explained(error: ServerError) -> anyhow::Error {
    match error {
        ServerError::Open { .. } => hinted(
            error.to_string(),
            "--api-key-file FILE lists the keys that callers may use; --allow-anyone asks for none",
        ),
        error => error.into(),
    }
}

/// Waits for Ctrl-C or SIGTERM.
pub(crate) async fn stop_asked_for() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut told) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = told.recv() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}

fn told(counts: &Counts, missing: &[Missing]) -> String {
    let number = |count: u64| grouped(count as usize);
    let missing = missing.iter().map(|session| session.messages).sum();
    format!(
        "{}: {} shortened, {} sent again shorter, {} passed on unchanged because of an error here; {} archived, {} not",
        counted(counts.requests as usize, "request"),
        number(counts.compacted),
        number(counts.recovered),
        number(counts.bypassed),
        counted_as(counts.archived as usize, "entry", "entries"),
        number(missing)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    #[test]
    fn the_greeting_names_an_address_that_can_be_called_and_no_archive_that_is_not_used() {
        let line = "longhand serve --upstream http://127.0.0.1:1 --no-archive";
        let Command::Serve(args) = Cli::parse_from(line.split(' ')).command else { panic!() };
        for (listening, called) in [
            ("0.0.0.0:4141", "127.0.0.1:4141"),
            ("[::]:4141", "[::1]:4141"),
            ("192.0.2.7:4141", "192.0.2.7:4141"),
        ] {
            let lines = greeting(&args, callable(listening.parse().unwrap())).unwrap();
            assert!(lines.contains(&"archive   none".to_owned()), "{lines:?}");
            let address = format!("use it    OPENAI_BASE_URL=http://{called}/v1 your-agent");
            assert!(lines.contains(&address), "{lines:?}");
        }
    }
}
