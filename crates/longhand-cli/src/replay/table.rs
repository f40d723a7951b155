//! The figures of a replay as tables of at most 50 columns.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

use longhand::replay::{BudgetShare, Figures, FoundShare, Measure};
use longhand_core::{Tokens, grouped};

use super::{Contender, ReplayedTrace, cost_none, measure_name, median_cost, total};
use crate::output::counted;
use crate::usage;

/// How many columns a table has at the most.
const COLUMNS: usize = 50;

/// The figures of one file.
pub(super) fn of_file(replayed: &ReplayedTrace, contenders: &[Contender]) -> String {
    let ReplayedTrace { name, trace, settings, runs, meter } = replayed;
    let budget = settings.budget.of(trace.tokens());
    let tokens = number(trace.tokens());
    let size = format!("{tokens} tokens ({meter}), budget {}", number(budget));
    let mut text = format!("{}\n{size}\n", clipped(name, COLUMNS));
    let none = trace.cost_whole(settings);
    let rows: Vec<TableRow> = contenders
        .iter()
        .zip(runs)
        .map(|(by, run)| TableRow { name: by.name, figures: run.figures, none, median: None })
        .collect();
    text.push_str(&tables(&rows));
    text
}

/// The figures of all files together.
pub(super) fn of_all(
    budget: BudgetShare,
    traces: &[ReplayedTrace],
    contenders: &[Contender],
) -> String {
    let requests: usize = traces.iter().map(|replayed| replayed.trace.requests()).sum();
    let tokens: Tokens = traces.iter().map(|replayed| replayed.trace.tokens()).sum();
    let budget = match budget {
        BudgetShare::Tokens(tokens) => number(tokens),
        BudgetShare::Percent(percent) => format!("{percent}%"),
    };
    let meters: BTreeSet<&str> = traces.iter().map(|replayed| replayed.meter.as_str()).collect();
    let meter = match meters.first() {
        Some(meter) if meters.len() == 1 => meter,
        _ => "several meters",
    };
    let mut text = format!(
        "{}, {} tokens ({meter})\n{}, budget {budget}\n",
        counted(traces.len(), "conversation"),
        number(tokens),
        counted(requests, "request")
    );
    let none = cost_none(traces);
    let rows: Vec<TableRow> = contenders
        .iter()
        .enumerate()
        .map(|(at, by)| {
            let median = median_cost(traces, at).filter(|_| traces.len() > 1);
            TableRow { name: by.name, figures: total(traces, at), none, median }
        })
        .collect();
    text.push_str(&tables(&rows));
    let pauses: usize =
        traces.iter().map(|replayed| replayed.trace.pauses(&replayed.settings)).sum();
    if pauses > 0 {
        let pauses = counted(pauses, "pause");
        text.push_str(&format!("\nafter {pauses}, nothing was left in the cache\n"));
    }
    text
}

struct TableRow {
    name: &'static str,
    figures: Figures,
    /// What sending everything costs.
    none: f64,
    median: Option<f64>,
}

fn tables(rows: &[TableRow]) -> String {
    let mut text = format!(
        "\n{:<11} {:>6} {:>6} {:>7} {:>7} {:>6}\n",
        "policy", "cost", "median", "sent", "cached", "breaks"
    );
    for row in rows {
        let Figures { cost, sent, cached, breaks, .. } = row.figures;
        let _ = writeln!(
            text,
            "{:<11} {:>6} {:>6} {:>7} {:>7} {:>6}",
            row.name,
            percent((row.none > 0.0).then(|| cost * 100.0 / row.none)),
            percent(row.median),
            short(sent),
            short(cached),
            grouped(breaks as usize)
        );
    }
    let _ = write!(
        text,
        "\n{:<11} {:>6} {:>7} {:>5} {:>5} {:>5}\n",
        "policy", "over", "invalid", "need", "ctx", "state"
    );
    for row in rows {
        let Figures { over_budget, invalid, need, ctx, state, .. } = row.figures;
        let _ = writeln!(
            text,
            "{:<11} {:>6} {:>7} {:>5} {:>5} {:>5}",
            row.name,
            grouped(over_budget as usize),
            grouped(invalid as usize),
            share(need),
            share(ctx),
            share(state.total())
        );
    }
    let _ = write!(
        text,
        "\n{:<11} {:>7} {:>7} {:>6} {:>5} {:>5}\n",
        "state", "changed", "outcome", "commit", "tasks", "user"
    );
    for row in rows {
        let state = row.figures.state;
        let _ = writeln!(
            text,
            "{:<11} {:>7} {:>7} {:>6} {:>5} {:>5}",
            row.name,
            share(state.changed),
            share(state.outcome),
            share(state.commit),
            share(state.task),
            share(state.user)
        );
    }
    let regretted = rows.iter().filter_map(|row| {
        let regretted = usage::regretted(&row.figures.edits.into())?;
        Some(format!("{}: {regretted}\n", row.name))
    });
    let regretted: String = regretted.collect();
    if !regretted.is_empty() {
        text.push_str(&format!("\n{regretted}"));
    }
    text
}

/// What the windows of the first policy lack most often.
pub(super) fn missing(traces: &[ReplayedTrace], most: usize, columns: usize) -> String {
    let mut counts: HashMap<(&str, &str, &str), usize> = HashMap::new();
    for replayed in traces {
        for (measure, text) in replayed.runs[0].requests.iter().flat_map(|sent| &sent.missing) {
            *counts.entry((measure_name(*measure), &replayed.name, text)).or_default() += 1;
        }
    }
    let mut out = String::new();
    for measure in [
        Measure::Need,
        Measure::Changed,
        Measure::Outcome,
        Measure::Commit,
        Measure::Task,
        Measure::User,
    ] {
        let name = measure_name(measure);
        let mut missing: Vec<_> = counts.iter().filter(|((of, _, _), _)| *of == name).collect();
        missing.sort_by(|one, other| other.1.cmp(one.1).then(one.0.cmp(other.0)));
        if !missing.is_empty() {
            let _ = writeln!(out, "\nmissing, {name} ({} different):", grouped(missing.len()));
        }
        for ((_, file, text), count) in missing.into_iter().take(most) {
            let file = clipped(file.trim_end_matches(".json").trim_end_matches(".jsonl"), 16);
            let text = crate::output::harmless_line(text);
            let _ = writeln!(
                out,
                "{count:>5} {file:<16} {}",
                clipped(&text, columns.max(COLUMNS) - 23)
            );
        }
    }
    out
}

fn share(share: FoundShare) -> String {
    share.percent().map_or_else(|| "-".to_owned(), |percent| format!("{percent:.1}"))
}

fn percent(percent: Option<f64>) -> String {
    percent.map_or_else(|| "-".to_owned(), |percent| format!("{percent:.1}%"))
}

fn number(tokens: Tokens) -> String {
    grouped(tokens.0 as usize)
}

/// A number in few characters: `12.3M`.
pub(super) fn short(tokens: Tokens) -> String {
    match tokens.0 {
        count @ 0..10_000 => count.to_string(),
        count @ 10_000..1_000_000 => format!("{:.0}k", count as f64 / 1e3),
        count => format!("{:.1}M", count as f64 / 1e6),
    }
}

fn clipped(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    text.chars().take(columns - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_narrow() {
        let mut figures = Figures {
            requests: 99_999,
            sent: Tokens(999_949_999),
            cached: Tokens(999_949_999),
            cost: 999.9,
            over_budget: 99_999,
            invalid: 99_999,
            breaks: 99_999,
            need: FoundShare { kept: 1, all: 1 },
            ..Figures::default()
        };
        (figures.edits.made, figures.edits.regretted) = (99_999, 99_999);
        let row = TableRow { name: "drop-oldest", figures, none: 100.0, median: Some(999.9) };
        let text = tables(&[row]);
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
    }

    #[test]
    fn numbers_are_short() {
        for (tokens, expected) in [(9_999, "9999"), (12_345, "12k"), (12_345_678, "12.3M")] {
            assert_eq!(short(Tokens(tokens)), expected);
        }
        assert_eq!(clipped("abcdef", 4), "abc…");
    }
}
