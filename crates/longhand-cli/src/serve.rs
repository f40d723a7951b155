//! `longhand serve`.

use anyhow::{Context, Result};
use longhand_core::{Tokens, grouped};
use longhand_server::{Counts, Settings, serve};
use tokio::runtime::Builder;

use crate::args::ServeArgs;
use crate::{Outcome, hinted, output, store};

pub(crate) fn run(args: &ServeArgs) -> Result<Outcome> {
    let upstream = |own: &Option<String>| own.clone().or_else(|| args.upstream.clone());
    let (openai, anthropic) = (upstream(&args.upstream_openai), upstream(&args.upstream_anthropic));
    if openai.is_none() && anthropic.is_none() {
        return Err(hinted(
            "a proxy needs to know where requests go",
            "longhand serve --upstream https://api.openai.com, or the address of your own server",
        ));
    }
    if !args.listen.ip().is_loopback() {
        return Err(hinted(
            format!(
                "{} can be reached by others, and the proxy has no key of its own yet",
                args.listen
            ),
            "listen on 127.0.0.1, behind something that checks who asks",
        ));
    }
    let settings = Settings {
        listen: args.listen,
        upstream_openai: openai,
        upstream_anthropic: anthropic,
        budget: args.budget.map(Tokens),
        ..Settings::new(store::open(&args.archive)?)
    };
    let runtime = Builder::new_multi_thread().enable_all().build();
    let counts = runtime.context("cannot start the network's threads")?.block_on(async {
        let proxy = serve(settings).await?;
        output::print(&format!("listening http://{}", proxy.address()))?;
        stop_asked_for().await;
        let counts = proxy.counts();
        proxy.stop().await;
        anyhow::Ok(counts)
    })?;
    if !args.quiet {
        output::say(&told(&counts));
    }
    Ok(Outcome::Done)
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
        "{} requests: {} shortened, {} sent again shorter, {} passed on as they were because our side failed; {} messages archived, {} not",
        number(counts.requests),
        number(counts.compacted),
        number(counts.recovered),
        number(counts.bypassed),
        number(counts.archived),
        number(counts.unarchived)
    )
}
