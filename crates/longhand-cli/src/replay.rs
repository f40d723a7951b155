//! `longhand replay`.

mod plot;
mod svg;
mod table;

use std::io::IsTerminal;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use longhand::Policy;
use longhand::app::RegretSums;
use longhand::replay::{Figures, Measure, Method, ReplayRun, ReplaySettings, Trace, replay};
use longhand_core::{Tokens, grouped};
use longhand_meter::MeterSpec;
use serde_json::{Value, json};

use crate::args::{InputArgs, MapWhen, ReplayArgs};
use crate::{CommandOutcome, hinted, input, output, progress, weigh};

/// How the reference of stateless elision counts.
const STATELESS_METER: &str = "chars:3.5";

/// The width of the lists of missing texts if there is no terminal.
const MISSING_COLUMNS: usize = 183;

/// A recorded conversation, with a run for each way to make windows.
struct ReplayedTrace {
    name: String,
    /// What tokens are counted with.
    meter: String,
    trace: Trace,
    settings: ReplaySettings,
    runs: Vec<ReplayRun>,
}

impl ReplayedTrace {
    /// Whether the provider's cache ran out before any of its requests.
    fn has_pauses(&self) -> bool {
        self.trace.pauses(&self.settings) > 0
    }
}

/// A way to make windows, with the name that tables give it.
struct Contender {
    name: &'static str,
    method: Method,
    /// Whether its windows are made without regard to pauses.
    ignores_pauses: bool,
}

impl Contender {
    fn new(name: &'static str, method: Method) -> Self {
        Self { name, method, ignores_pauses: false }
    }

    /// Whether a proxy makes windows so.
    fn is_proxy(&self) -> bool {
        matches!(self.method, Method::Standing(_))
    }
}

pub(crate) fn run(args: &ReplayArgs) -> Result<CommandOutcome> {
    let mut traces = read_all(args)?;
    let contenders = contenders(args, traces.iter().any(ReplayedTrace::has_pauses));
    let total: usize = traces.iter().map(|replayed| replayed.trace.requests()).sum();
    let progress = Progress::new(total * contenders.len(), !args.quiet && !args.json);
    let jobs: Vec<(usize, usize)> = (0..traces.len())
        .flat_map(|file| (0..contenders.len()).map(move |by| (file, by)))
        .collect();
    let done = progress.during(|progress| {
        parallel(&jobs, |(file, by)| {
            let ReplayedTrace { trace, settings, .. } = &traces[*file];
            let mut settings = settings.clone();
            settings.recall_tool = args.recall_tool && contenders[*by].is_proxy();
            settings.ignores_pauses = contenders[*by].ignores_pauses;
            if contenders[*by].method != Method::Stateless(Policy::Elide) {
                settings.stateless_meter = None;
            }
            replay(trace, contenders[*by].method, &settings, |_| progress.tick())
        })
    });
    for ((file, _), run) in jobs.iter().zip(done) {
        let run = run.map_err(|error| {
            anyhow::anyhow!(
                "{}: a window could not be read back ({error}); this is a bug",
                traces[*file].name
            )
        })?;
        traces[*file].runs.push(run);
    }
    if let Some(path) = &args.svg {
        output::write_file(path, &svg::draw(&traces, &contenders))?;
    }
    if args.json {
        output::print_json(&report(args, &traces, &contenders))?;
        return Ok(CommandOutcome::Done);
    }
    output::print(&written(args, &traces, &contenders))?;
    Ok(CommandOutcome::Done)
}

/// The policy that was asked for, then what it is compared with.
fn contenders(args: &ReplayArgs, have_pauses: bool) -> Vec<Contender> {
    let policy: Policy = args.policy.into();
    let standing = Contender::new(policy.name(), Method::Standing(policy));
    let mut all = vec![standing];
    if args.compare && have_pauses {
        let method = Method::Standing(policy);
        all.push(Contender { name: "no-pauses", method, ignores_pauses: true });
    }
    if args.compare {
        all.push(Contender::new("none", Method::Whole));
        all.push(Contender::new("drop-oldest", Method::Stateless(Policy::Trim)));
        all.push(Contender::new("elision", Method::Stateless(Policy::Elide)));
    }
    all
}

/// Reads the traces that are large enough; of several files, those that are none are named and left out.
fn read_all(args: &ReplayArgs) -> Result<Vec<ReplayedTrace>> {
    let read = parallel(&args.files, |path| read_one(args, path));
    let (mut traces, mut small) = (Vec::new(), 0);
    for (path, replayed) in args.files.iter().zip(read) {
        match replayed {
            Ok(replayed) if replayed.trace.requests() == 0 => {
                let what = format!(
                    "{}: there is no assistant message, so there is no request to replay",
                    path.display()
                );
                if args.files.len() == 1 {
                    bail!(what);
                }
                output::say(&format!("skipped: {what}"));
            }
            Ok(replayed) if replayed.trace.tokens() < Tokens(args.min_tokens) => small += 1,
            Ok(replayed) => traces.push(replayed),
            Err(error) if args.files.len() == 1 => return Err(error),
            Err(error) => output::say(&format!("skipped: {error:#}")),
        }
    }
    if traces.is_empty() {
        let least = grouped(args.min_tokens as usize);
        return Err(match small {
            0 => hinted(
                "there is no conversation to replay",
                "name the format with --dialect if the files hold conversations",
            ),
            _ => hinted(
                format!("no conversation has {least} tokens or more"),
                "a smaller --min-tokens includes smaller ones",
            ),
        });
    }
    if small > 0 && !args.quiet {
        let least = grouped(args.min_tokens as usize);
        output::say(&format!("skipped: {small} of fewer than {least} tokens"));
    }
    Ok(traces)
}

fn read_one(args: &ReplayArgs, path: &Path) -> Result<ReplayedTrace> {
    let input =
        InputArgs { file: Some(path.to_owned()), dialect: args.dialect, max_input: args.max_input };
    let conversation = input::read(&input)?;
    let weigh::NamedMeter { name: meter_name, meter, .. } =
        weigh::open(args.meter.meter.clone(), &conversation)?;
    let trace = Trace::new(&conversation, &*meter)
        .map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
    let reference: MeterSpec = STATELESS_METER.parse()?;
    let settings = ReplaySettings {
        low_water_percent: args.low_water,
        clip_new_percent: args.clip_new,
        stateless_meter: Some(Arc::from(reference.open(longhand_meter::ImageRule::OpenAiDearer)?)),
        cached_price: args.cached_price,
        uncached_price: args.uncached_price,
        ..ReplaySettings::new(args.budget, meter)
    };
    let life_ms = args.cache_minutes.map(|minutes| minutes.saturating_mul(60_000));
    let settings = ReplaySettings {
        cache_life_ms: life_ms.or(trace.cache_life_ms()).filter(|life_ms| *life_ms > 0),
        ..settings
    };
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let name = output::harmless_line(&name);
    Ok(ReplayedTrace { name, meter: meter_name, trace, settings, runs: Vec::new() })
}

/// What is printed for people.
fn written(args: &ReplayArgs, traces: &[ReplayedTrace], contenders: &[Contender]) -> String {
    let mut text = String::new();
    let to_terminal = std::io::stdout().is_terminal();
    let draws =
        matches!(args.plot, MapWhen::Always) || (matches!(args.plot, MapWhen::Auto) && to_terminal);
    if args.each {
        for replayed in traces {
            text.push_str(&table::of_file(replayed, contenders));
            text.push('\n');
        }
    }
    if draws && (args.each || traces.len() == 1) {
        for replayed in traces {
            text.push_str(&plot::draw(replayed, plot::width()));
            text.push('\n');
        }
    }
    text.push_str(&table::of_all(args.budget, traces, contenders));
    if let Some(most) = args.missing {
        let columns = plot::columns().unwrap_or(MISSING_COLUMNS);
        text.push_str(&table::missing(traces, most, columns));
    }
    text
}

/// The figures as JSON.
fn report(args: &ReplayArgs, traces: &[ReplayedTrace], contenders: &[Contender]) -> Value {
    let files: Vec<Value> = traces
        .iter()
        .map(|replayed| {
            let cost_none = replayed.trace.cost_whole(&replayed.settings);
            let runs = contenders.iter().zip(&replayed.runs);
            let policies: serde_json::Map<_, _> = runs
                .map(|(by, run)| (by.name.to_owned(), figures_json(&run.figures, cost_none)))
                .collect();
            let budget = args.budget.of(replayed.trace.tokens()).0;
            json!({"file": replayed.name, "meter": replayed.meter, "tokens": replayed.trace.tokens().0, "budget": budget, "policies": policies})
        })
        .collect();
    let cost_none = cost_none(traces);
    let total: serde_json::Map<_, _> = (0..contenders.len())
        .map(|by| {
            let mut figures = figures_json(&total(traces, by), cost_none);
            figures["median_cost"] = json!(median_cost(traces, by));
            (contenders[by].name.to_owned(), figures)
        })
        .collect();
    json!({"files": files, "total": total})
}

fn figures_json(figures: &Figures, cost_none: f64) -> Value {
    let Figures { need, ctx, state, .. } = figures;
    json!({
        "requests": figures.requests, "sent": figures.sent.0, "cached": figures.cached.0,
        "cost": figures.cost, "cost_none": cost_none, "over_budget": figures.over_budget,
        "invalid": figures.invalid, "breaks": figures.breaks, "batches": figures.batches,
        "pauses": figures.pauses,
        "edits": RegretSums::from(figures.edits),
        "need": need.percent(), "ctx": ctx.percent(),
        "state": {
            "changed": state.changed.percent(), "outcome": state.outcome.percent(),
            "commit": state.commit.percent(), "task": state.task.percent(),
            "user": state.user.percent(), "all": state.total().percent(),
        },
    })
}

/// The figures of all traces by one way to make windows.
fn total(traces: &[ReplayedTrace], by: usize) -> Figures {
    let mut total = Figures::default();
    for replayed in traces {
        total += replayed.runs[by].figures;
    }
    total
}

/// What sending everything would cost.
fn cost_none(traces: &[ReplayedTrace]) -> f64 {
    traces.iter().map(|replayed| replayed.trace.cost_whole(&replayed.settings)).sum()
}

/// The median over all traces of the cost against sending everything, in percent.
fn median_cost(traces: &[ReplayedTrace], by: usize) -> Option<f64> {
    let share = |replayed: &ReplayedTrace| {
        let none = replayed.trace.cost_whole(&replayed.settings);
        (none > 0.0).then(|| replayed.runs[by].figures.cost * 100.0 / none)
    };
    let mut shares: Vec<f64> = traces.iter().filter_map(share).collect();
    shares.sort_by(f64::total_cmp);
    let middle = shares.len() / 2;
    match shares.len() {
        0 => None,
        even if even % 2 == 0 => Some(f64::midpoint(shares[middle - 1], shares[middle])),
        _ => Some(shares[middle]),
    }
}

/// Does something with every item, on as many threads as there are cores.
fn parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(items.len());
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(items.len()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((at, item)) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    items.get(at).map(|item| (at, item))
                } {
                    let result = work(item);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((at, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// How far a replay is, on a terminal and only if it takes its time.
struct Progress {
    done: AtomicUsize,
    total: usize,
    is_shown: bool,
    is_over: AtomicBool,
}

impl Progress {
    fn new(total: usize, is_wanted: bool) -> Self {
        let is_shown = is_wanted && std::io::stderr().is_terminal();
        Self { done: AtomicUsize::new(0), total, is_shown, is_over: AtomicBool::new(false) }
    }

    fn tick(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// Shows progress while something is done.
    fn during<R>(&self, work: impl FnOnce(&Self) -> R) -> R {
        std::thread::scope(|scope| {
            if self.is_shown {
                scope.spawn(|| self.show());
            }
            let result = work(self);
            self.is_over.store(true, Ordering::Relaxed);
            result
        })
    }

    fn show(&self) {
        let begun = Instant::now();
        let mut was_shown = false;
        while !self.is_over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(50));
            if begun.elapsed() > Duration::from_secs(1) {
                let done = grouped(self.done.load(Ordering::Relaxed));
                progress::show(&format!("{done} of {} requests", grouped(self.total)));
                was_shown = true;
            }
        }
        if was_shown {
            progress::show("");
        }
    }
}

/// The name of a measure in tables.
fn measure_name(measure: Measure) -> &'static str {
    match measure {
        Measure::Need => "need",
        Measure::Changed => "changed",
        Measure::Outcome => "outcome",
        Measure::Commit => "commit",
        Measure::Task => "task",
        Measure::User => "user",
    }
}
