//! Longhand's side of `cargo xtask scoreboard`, which compares it with other libraries:
//!
//! - `fit FILE BUDGET TIMES`: makes a conversation fit, and prints how long each time took
//! - `record ARCHIVE FIRST`: records rounds from standard input (a line each), and prints how long each
//!   took after the first so many
//! - `windows FILE BUDGET`: prints the window of each request, a line each
//! - `judge FILE BUDGET`: reads windows that others made, a line each, and prints the figures of
//!   `longhand replay` for them
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::error::Error;
use std::io::BufRead as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use longhand::driver::{Fitting, Summarised};
use longhand::replay::{
    BudgetShare, Figures, FoundShare, Method, ReplaySettings, Trace, judge, replay,
};
use longhand::{Extractive, Miner, Policy, Round, Session, SqliteArchive};
use longhand_core::{Budget, Meter, Tokens};
use longhand_dialect::{Conversation, read};
use longhand_meter::{ImageRule, MeterSpec};
use serde_json::{Value, json};

type ExampleResult = Result<(), Box<dyn Error>>;

fn main() -> ExampleResult {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["fit", file, budget, times] => fit(&open(file)?, budget.parse()?, times.parse()?),
        ["record", archive, first] => record(archive, first.parse()?),
        ["windows", file, budget] => windows(&open(file)?, budget.parse()?),
        ["judge", file, budget] => judged(&open(file)?, budget.parse()?),
        _ => Err("the first lines of this file say what can be done".into()),
    }
}

fn open(file: &str) -> Result<Conversation, Box<dyn Error>> {
    Ok(read(std::fs::read(file)?, None)?)
}

fn meter() -> Result<Arc<dyn Meter>, Box<dyn Error>> {
    Ok(Arc::from(MeterSpec::O200k.open(ImageRule::OPENAI_TILES)?))
}

/// Fits a conversation that is read already, as `compact` does: plan with the built-in summary, then text.
fn fit(conversation: &Conversation, budget: u64, times: usize) -> ExampleResult {
    let (mut cpu_ms, mut wall_ms) = (Vec::new(), Vec::new());
    for _ in 0..times {
        // A new meter each time: what an earlier one has counted does not help.
        let meter = meter()?;
        let (started, on_cpu_before) = (Instant::now(), on_cpu());
        let digest =
            Summarised::new(vec![Arc::new(Extractive)], Arc::clone(&meter), Miner::default());
        let fitting = Fitting::of(conversation, &[], &[], Tokens::ZERO, &*meter);
        let plan = fitting.plan(
            &Budget::of(Tokens(budget)),
            &longhand_core::PlanSettings { policy: Policy::Auto, ..Default::default() },
            &digest,
        );
        let window = conversation.apply(&[plan.batch]);
        cpu_ms.push(ms(on_cpu().saturating_sub(on_cpu_before)));
        wall_ms.push(ms(started.elapsed()));
        std::hint::black_box(window);
    }
    println!("{}", json!({"cpu_ms": cpu_ms, "wall_ms": wall_ms}));
    Ok(())
}

/// Records rounds; each is durable before the next is read.
fn record(archive: &str, first: usize) -> ExampleResult {
    let mut session = Session::open(Arc::new(SqliteArchive::open(archive)?), "scoreboard")?;
    let (mut cpu_ms, mut wall_ms) = (Vec::new(), Vec::new());
    for (number, line) in std::io::stdin().lock().lines().enumerate() {
        let round = Round::parse(&line?, 0)?;
        let (started, on_cpu_before) = (Instant::now(), process_on_cpu());
        session.record(&round)?;
        if number >= first {
            wall_ms.push(ms(started.elapsed()));
            cpu_ms.push(ms(process_on_cpu().saturating_sub(on_cpu_before)));
        }
    }
    println!("{}", json!({"cpu_ms": cpu_ms, "wall_ms": wall_ms}));
    Ok(())
}

/// Prints the windows that the proxy would send.
fn windows(conversation: &Conversation, budget: u64) -> ExampleResult {
    let meter = meter()?;
    let trace = Trace::new(conversation, &*meter)?;
    let settings = ReplaySettings::new(BudgetShare::Tokens(Tokens(budget)), meter);
    replay(&trace, Method::Standing(Policy::Auto), &settings, |window| println!("{window}"))?;
    Ok(())
}

/// Judges the windows of others. An empty line stands for the request as it is.
fn judged(conversation: &Conversation, budget: u64) -> ExampleResult {
    let meter = meter()?;
    let trace = Trace::new(conversation, &*meter)?;
    let settings = ReplaySettings::new(BudgetShare::Tokens(Tokens(budget)), meter);
    let mut lines = std::io::stdin().lock().lines();
    let mut missing = 0;
    let run = judge(&trace, &settings, |request| match lines.next() {
        Some(Ok(line)) if !line.is_empty() => line,
        Some(Ok(_)) => request.to_owned(),
        Some(Err(_)) | None => {
            missing += 1;
            request.to_owned()
        }
    })?;
    if missing > 0 || lines.next().is_some() {
        return Err(
            format!("there are {} requests, and not as many windows", trace.requests()).into()
        );
    }
    println!("{}", figures(&run.figures, trace.cost_whole(&settings)));
    Ok(())
}

/// Shares are pairs, so that those of several conversations can be added.
fn figures(figures: &Figures, cost_none: f64) -> Value {
    let pair = |share: &FoundShare| json!([share.kept, share.all]);
    let state = &figures.state;
    json!({
        "requests": figures.requests, "sent": figures.sent.0, "cached": figures.cached.0,
        "cost": figures.cost, "cost_none": cost_none, "over_budget": figures.over_budget,
        "invalid": figures.invalid, "breaks": figures.breaks,
        "need": pair(&figures.need), "ctx": pair(&figures.ctx), "state": pair(&state.total()),
        "changed": pair(&state.changed), "outcome": pair(&state.outcome),
        "commit": pair(&state.commit), "task": pair(&state.task), "user": pair(&state.user),
    })
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

/// The time that this thread has been on a processor (Linux).
fn on_cpu() -> Duration {
    nanos_on_cpu("/proc/thread-self/schedstat")
}

/// The time that all threads have been on a processor: a round may be written by another one.
fn process_on_cpu() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    threads.map(|thread| nanos_on_cpu(thread.path().join("schedstat"))).sum()
}

fn nanos_on_cpu(path: impl AsRef<std::path::Path>) -> Duration {
    let times = std::fs::read_to_string(path).unwrap_or_default();
    let nanos = times.split(' ').next().and_then(|first| first.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}
