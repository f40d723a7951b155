//! `longhand usage`: what was sent, cached and saved, and what it cost.

use anyhow::Result;
use longhand::app::{RegretSums, UsageReport, UsageRequest, UsageRow};
use longhand_core::grouped;
use longhand_dialect::Usage;

use crate::args::{UsageArgs, UsageBy};
use crate::config::Config;
use crate::output::{harmless_line, short_number};
use crate::{CommandOutcome, models, names, output, store};

/// How many rows people see unless they ask for more.
const ROWS_MAX: usize = 100;

/// The columns that the figures of a row take.
const FIGURES_COLUMNS: usize = 67;

/// The most columns of a bar.
const BAR_COLUMNS: u64 = 40;

pub(crate) fn run(args: &UsageArgs) -> Result<CommandOutcome> {
    let app = store::app_existing(&args.archive)?;
    let prices = models::prices(&Config::load()?);
    let price = |model: &str, usage: &Usage| {
        prices.named(model).map(|price| longhand_model::cost_micros(&price, usage))
    };
    let limit = args.limit.or((!args.json).then_some(ROWS_MAX)).filter(|limit| *limit > 0);
    let report = app.usage(&UsageRequest { by: args.by.into(), limit }, &price)?;
    if args.json {
        output::print_json(&report)?;
    } else {
        output::print_wrapped(&table(args.by, &report, output::columns()))?;
    }
    Ok(CommandOutcome::Done)
}

/// What a row is about: a session by its name as it can be typed, and its first words.
fn title(row: &UsageRow) -> String {
    let key = row.key.clone().unwrap_or_default();
    let (Some(id), Some(name)) = (&row.id, &row.name) else { return harmless_line(&key) };
    let task: String = row.task.iter().flat_map(|task| task.chars()).take(30).collect();
    harmless_line(&format!("{} {task}", names::called(name, id))).trim_end().to_owned()
}

fn table(by: UsageBy, report: &UsageReport, columns: usize) -> String {
    const HEADINGS: [&str; 7] =
        ["requests", "sent", "cached", "saved", "≈cost", "≈without", "errors"];
    let rows: Vec<(String, &UsageRow)> = report.rows.iter().map(|row| (title(row), row)).collect();
    if rows.is_empty() {
        return "no requests yet; `longhand run -- AGENT` makes some\n".to_owned();
    }
    let heading = format!("{by:?}").to_lowercase();
    let keys = rows.iter().map(|(key, _)| key.chars().count());
    let width = keys.max().unwrap_or(0).max(heading.len()).clamp(5, 40);
    let cells = |key: &str, cells: [&str; 7]| {
        let [requests, sent, cached, saved, cost, without, fail_opens] = cells;
        format!(
            "{key:<width$} {requests:>8} {sent:>8} {cached:>8} {saved:>8} {cost:>9} {without:>9} {fail_opens:>10}\n"
        )
    };
    let is_narrow = columns < width + FIGURES_COLUMNS;
    let mut text = if is_narrow { String::new() } else { cells(&heading, HEADINGS) };
    let mut line = |key: &str, row: &UsageRow| {
        let key: String = key.chars().take(width.min(columns)).collect();
        let figures = figures(row);
        if is_narrow {
            let named = figures.iter().zip(HEADINGS).map(|(figure, of)| format!("{of} {figure}"));
            text.push_str(&format!("{key}\n  {}\n", named.collect::<Vec<_>>().join(", ")));
        } else {
            text.push_str(&cells(&key, figures.each_ref().map(String::as_str)));
        }
    };
    for (key, row) in &rows {
        line(key, row);
    }
    if rows.len() > 1 {
        line("total", &report.total);
    }
    if report.more > 0 {
        text.push_str(&format!("({} more; --limit 0 lists all)\n", report.more));
    }
    text.push_str(&chart(&rows, width, columns));
    if let Some(regrets) = regrets(&report.total.edits) {
        let has_some = report.total.edits.regretted > 0;
        let more = has_some.then(|| format!("; {} lists them", store::command("log SESSION")));
        text.push_str(&format!("\n{regrets}{}\n", more.unwrap_or_default()));
    }
    text
}

/// How many edits were regretted, and what that took; `None` if there are no edits.
pub(crate) fn regrets(edits: &RegretSums) -> Option<String> {
    let regretted = regretted(edits)?;
    let times = match edits.times {
        0 => return Some(regretted),
        1 => "once".to_owned(),
        times => format!("{} times", grouped(times as usize)),
    };
    Some(format!("{regretted} (fetched back {times}, {} tokens)", grouped(edits.tokens as usize)))
}

/// How many edits were regretted; `None` if there are no edits.
pub(crate) fn regretted(edits: &RegretSums) -> Option<String> {
    let RegretSums { edits, regretted, .. } = *edits;
    let (noun, verb) = if edits == 1 { ("edit", "was") } else { ("edits", "were") };
    let (regretted, all) = (grouped(regretted as usize), grouped(edits as usize));
    (edits > 0).then(|| format!("{regretted} of {all} {noun} {verb} regretted"))
}

/// The figures as a table has them.
fn figures(row: &UsageRow) -> [String; 7] {
    let is_unpriced = row.unpriced == row.requests;
    let cost = |dollars: f64| if is_unpriced { "?".to_owned() } else { format!("${dollars:.2}") };
    [
        short_number(row.requests),
        short_number(row.sent),
        if row.cached_reported || row.cached > 0 {
            short_number(row.cached)
        } else {
            "?".to_owned()
        },
        short_number(row.saved),
        cost(row.cost),
        cost(row.cost_without),
        short_number(row.fail_opens),
    ]
}

/// What was sent and what was left out, a bar for each row.
fn chart(rows: &[(String, &UsageRow)], width: usize, columns: usize) -> String {
    // A short key and a short bar where there are few columns.
    let width = width.min(columns / 2);
    let bar_columns = BAR_COLUMNS.min((columns.saturating_sub(width + 2) as u64).max(4));
    let most = rows.iter().map(|(_, row)| row.sent + row.saved).max().unwrap_or(0);
    if most == 0 {
        return String::new();
    }
    let cells = |tokens: u64| (tokens.saturating_mul(bar_columns)).div_ceil(most) as usize;
    let mut text = "\n".to_owned();
    for (key, row) in rows {
        let key: String = key.chars().take(width).collect();
        let (sent, all) = (cells(row.sent), cells(row.sent + row.saved));
        let bar = format!("{}{}", "█".repeat(sent), "░".repeat(all.saturating_sub(sent)));
        text.push_str(&format!("{key:<width$} {bar}\n"));
    }
    text.push_str("█ sent  ░ saved; costs are estimates\n");
    if rows.iter().any(|(_, row)| !row.cached_reported && row.cached == 0) {
        text.push_str("cached ?: no provider reported any\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_terminal_gets_figures_with_their_names() {
        let report = serde_json::json!({
            "by": "day", "costs": "",
            "rows": [{"requests": 12, "sent": 3_100_000, "cached": 0, "output": 0, "saved": 900_000,
                "cost": 0.0, "cost_without": 0.0, "unpriced": 0, "fail_opens": 0, "key": "2026-11-17"}],
            "total": {"requests": 0, "sent": 0, "cached": 0, "output": 0, "saved": 0,
                "cost": 0.0, "cost_without": 0.0, "unpriced": 0, "fail_opens": 0},
        });
        let report: UsageReport = serde_json::from_value(report).unwrap();
        let wide = table(UsageBy::Day, &report, 120);
        assert!(wide.starts_with("day        requests     sent"), "{wide}");
        let narrow = table(UsageBy::Day, &report, 50);
        assert!(narrow.starts_with("2026-11-17\n  requests 12, sent 3.1m, cached ?,"), "{narrow}");
        let bars = narrow.lines().skip(2);
        assert!(bars.clone().all(|line| line.chars().count() <= 50), "{narrow}");
        assert!(bars.clone().any(|line| line.contains('█')), "{narrow}");
    }
}
