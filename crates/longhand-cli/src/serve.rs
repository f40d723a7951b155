//! `longhand serve`.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use longhand_core::{Tokens, grouped};
use longhand_server::{Counts, Log, ServerError, Settings, serve};
use tokio::runtime::Builder;

use crate::args::ServeArgs;
use crate::config::Config;
use crate::{Outcome, hinted, models, output, store};

pub(crate) fn run(args: &ServeArgs) -> Result<Outcome> {
    let settings = settings(args)?;
    // More would only wait for the same disk, each with memory of its own.
    let runtime = Builder::new_multi_thread().enable_all().max_blocking_threads(16).build();
    let counts = runtime.context("cannot start the network's threads")?.block_on(async {
        let proxy = serve(settings).await.map_err(explained)?;
        output::print(&format!("listening http://{}", proxy.address()))?;
        stop_asked_for().await;
        if !args.quiet {
            output::say("finishing what is under way; once more to stop at once");
        }
        let counts = proxy.counts();
        tokio::select! {
            () = proxy.stop() => {}
            () = stop_asked_for() => {}
        }
        anyhow::Ok(counts)
    })?;
    if !args.quiet {
        output::say(&told(&counts));
    }
    Ok(Outcome::Done)
}

fn settings(args: &ServeArgs) -> Result<Settings> {
    let config = Config::load()?;
    let upstream = |own: &Option<String>| own.clone().or_else(|| args.upstream.clone());
    let (openai, anthropic) = (upstream(&args.upstream_openai), upstream(&args.upstream_anthropic));
    if openai.is_none() && anthropic.is_none() {
        return Err(hinted(
            "a proxy needs to know where requests go",
            "longhand serve --upstream https://api.openai.com, or the address of your own server",
        ));
    }
    Ok(Settings {
        listen: args.listen,
        keys: args.api_key_file.as_deref().map(keys).transpose()?.unwrap_or_default(),
        open_to_all: args.allow_anyone,
        upstream_openai: openai,
        upstream_anthropic: anthropic,
        budget: args.budget.map(Tokens),
        windows: windows(&config),
        low_water_percent: args.low_water,
        policy: args.policy.into(),
        summarisers: store::summarisers(&config, &args.summariser)?,
        prices: models::prices(&config),
        expand_tool: args.expand_tool,
        require_archive: args.require_archive,
        log: args.log.as_deref().map(log).transpose()?,
        ..Settings::new(store::open(&args.archive)?)
    })
}

/// The windows of models that the settings know.
fn windows(config: &Config) -> HashMap<String, Tokens> {
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

const KEY_CHARS_MIN: usize = 16;

/// Writes lines to a file, or to standard error.
fn log(path: &Path) -> Result<Log> {
    let out: Box<dyn Write + Send> = if path.as_os_str() == "-" {
        Box::new(std::io::stderr())
    } else {
        let file = OpenOptions::new().create(true).append(true).open(path);
        Box::new(file.with_context(|| format!("cannot write to {}", path.display()))?)
    };
    let out = Mutex::new(out);
    Ok(Arc::new(move |line: &str| {
        let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
        // A full disk must not stop requests.
        let _ = out.write_all(format!("{line}\n").as_bytes());
    }))
}

fn explained(error: ServerError) -> anyhow::Error {
    match error {
        ServerError::Open { .. } => hinted(
            error.to_string(),
            "--api-key-file names a file with keys that callers must have; --allow-anyone wants none",
        ),
        error => error.into(),
    }
}

/// Waits for Ctrl-C, or for being told to end.
async fn stop_asked_for() {
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

fn told(counts: &Counts) -> String {
    let number = |count: u64| grouped(count as usize);
    format!(
        "{} requests: {} shortened, {} sent again shorter, {} passed on as they were because our side failed; {} entries archived, {} not",
        number(counts.requests),
        number(counts.compacted),
        number(counts.recovered),
        number(counts.bypassed),
        number(counts.archived),
        number(counts.unarchived)
    )
}
