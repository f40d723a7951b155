//! `longhand usage`: what was sent, cached and saved, and what it cost.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use longhand::Archive;
use longhand_archive::{Page, RequestRecord, SessionInfo};
use longhand_dialect::Usage;
use longhand_model::Prices;
use serde_json::{Value, json};

use crate::args::{UsageArgs, UsageBy};
use crate::config::Config;
use crate::output::{harmless_line, short_number};
use crate::{CommandOutcome, conversation, ls, models, output, store};

/// The columns that the figures of a row take.
const FIGURES_COLUMNS: usize = 67;

/// The most columns of a bar.
const BAR_COLUMNS: u64 = 40;

/// What a row adds up.
#[derive(Clone, Debug, Default, PartialEq)]
struct Sum {
    requests: u64,
    sent: u64,
    cached: u64,
    output: u64,
    saved: u64,
    fail_opens: u64,
    /// In millionths of a dollar.
    cost: u64,
    cost_without: u64,
    /// How many requests had no known price.
    unpriced: u64,
}

impl Sum {
    fn add(&mut self, other: &Sum) {
        self.requests += other.requests;
        self.sent += other.sent;
        self.cached += other.cached;
        self.output += other.output;
        self.saved += other.saved;
        self.fail_opens += other.fail_opens;
        self.cost += other.cost;
        self.cost_without += other.cost_without;
        self.unpriced += other.unpriced;
    }
}

pub(crate) fn run(args: &UsageArgs) -> Result<CommandOutcome> {
    let archive = store::open_existing(&args.archive)?;
    let prices = models::prices(&Config::load()?);
    let mut rows: BTreeMap<String, Sum> = BTreeMap::new();
    for info in archive.sessions(None, Page::ALL)?.items {
        let mut requests = archive.requests(info.id, Page::ALL)?.items;
        requests.reverse();
        let name = name(&archive, &info, args.by);
        for (key, sum) in sums(&requests, &prices) {
            let key = match args.by {
                UsageBy::Session => name.clone(),
                UsageBy::Model => key.model,
                UsageBy::Day => key.day,
            };
            rows.entry(key).or_default().add(&sum);
        }
    }
    let mut total = Sum::default();
    for sum in rows.values() {
        total.add(sum);
    }
    if args.json {
        let rows: Vec<Value> = rows.iter().map(|(key, sum)| value(Some(key), sum)).collect();
        let report = json!({"by": format!("{:?}", args.by).to_lowercase(), "rows": rows,
            "total": value(None, &total), "costs": "estimates, in dollars"});
        output::print_json(&report)?;
        return Ok(CommandOutcome::Done);
    }
    output::print_wrapped(&table(args.by, &rows, &total, output::columns()))?;
    Ok(CommandOutcome::Done)
}

fn name(archive: &Arc<dyn Archive>, info: &SessionInfo, by: UsageBy) -> String {
    if by != UsageBy::Session {
        return String::new();
    }
    let task: String = conversation::task(archive, info).chars().take(30).collect();
    format!("{} {task}", conversation::short_id(info)).trim_end().to_owned()
}

/// The groups that a request belongs to.
struct UsageKey {
    day: String,
    model: String,
}

/// What each request of a session took, and would have taken without edits.
fn sums(requests: &[RequestRecord], prices: &Prices) -> Vec<(UsageKey, Sum)> {
    let has_cache = requests.iter().any(|request| request.cached > 0);
    let mut before = 0;
    let sums = requests.iter().map(|request| {
        let day = longhand::time::format(request.at_ms).chars().take(10).collect();
        let model = if request.model.is_empty() { "(unknown)" } else { &request.model };
        let key = UsageKey { day, model: model.to_owned() };
        if request.is_bypassed {
            return (key, Sum { requests: 1, fail_opens: 1, ..Sum::default() });
        }
        let all = without_edits(request);
        let mut sum = Sum {
            requests: 1,
            sent: request.sent,
            cached: request.cached,
            output: request.output,
            saved: ls::saved(request),
            ..Sum::default()
        };
        match (request.cost_micros, prices.named(&request.model)) {
            (Some(cost), Some(price)) if request.edits > 0 => {
                // All that was sent before would still be in the provider's cache.
                let cached_input = if has_cache { all.min(before) } else { 0 };
                let usage =
                    Usage { input: all, cached_input, output: request.output, ..Usage::default() };
                sum.cost = cost;
                sum.cost_without = longhand_model::cost_micros(&price, &usage);
            }
            (Some(cost), _) => (sum.cost, sum.cost_without) = (cost, cost),
            (None, _) => sum.unpriced = 1,
        }
        before = all;
        (key, sum)
    });
    sums.collect()
}

/// The tokens that a request would have had without edits, as the provider counts.
fn without_edits(request: &RequestRecord) -> u64 {
    match request.window {
        0 => request.sent,
        window => {
            let scaled = u128::from(request.before) * u128::from(request.sent) / u128::from(window);
            u64::try_from(scaled).unwrap_or(u64::MAX)
        }
    }
}

fn value(key: Option<&str>, sum: &Sum) -> Value {
    let mut value = json!({
        "requests": sum.requests, "sent": sum.sent, "cached": sum.cached, "output": sum.output,
        "saved": sum.saved, "cost": dollars(sum.cost), "cost_without": dollars(sum.cost_without),
        "unpriced": sum.unpriced, "fail_opens": sum.fail_opens,
    });
    if let Some(key) = key {
        value["key"] = key.into();
    }
    value
}

fn dollars(micros: u64) -> f64 {
    micros as f64 / 1e6
}

fn table(by: UsageBy, rows: &BTreeMap<String, Sum>, total: &Sum, columns: usize) -> String {
    const HEADINGS: [&str; 7] =
        ["requests", "sent", "cached", "saved", "≈cost", "≈without", "errors"];
    if rows.is_empty() {
        return "no requests yet; `longhand run -- AGENT` makes some\n".to_owned();
    }
    let heading = format!("{by:?}").to_lowercase();
    let keys = rows.keys().map(|key| key.chars().count());
    let width = keys.max().unwrap_or(0).max(heading.len()).clamp(5, 40);
    let cells = |key: &str, cells: [&str; 7]| {
        let [requests, sent, cached, saved, cost, without, fail_opens] = cells;
        format!(
            "{key:<width$} {requests:>8} {sent:>8} {cached:>8} {saved:>8} {cost:>9} {without:>9} {fail_opens:>10}\n"
        )
    };
    let is_narrow = columns < width + FIGURES_COLUMNS;
    let mut text = if is_narrow { String::new() } else { cells(&heading, HEADINGS) };
    let mut line = |key: &str, sum: &Sum| {
        let key: String = harmless_line(key).chars().take(width.min(columns)).collect();
        let figures = sum.figures();
        if is_narrow {
            let named = figures.iter().zip(HEADINGS).map(|(figure, of)| format!("{of} {figure}"));
            text.push_str(&format!("{key}\n  {}\n", named.collect::<Vec<_>>().join(", ")));
        } else {
            text.push_str(&cells(&key, figures.each_ref().map(String::as_str)));
        }
    };
    for (key, sum) in rows {
        line(key, sum);
    }
    if rows.len() > 1 {
        line("total", total);
    }
    text + &chart(rows, width, columns)
}

impl Sum {
    /// The figures as a table has them.
    fn figures(&self) -> [String; 7] {
        let is_unpriced = self.unpriced == self.requests;
        let cost = |micros: u64| {
            if is_unpriced { "?".to_owned() } else { format!("${:.2}", dollars(micros)) }
        };
        [
            short_number(self.requests),
            short_number(self.sent),
            short_number(self.cached),
            short_number(self.saved),
            cost(self.cost),
            cost(self.cost_without),
            short_number(self.fail_opens),
        ]
    }
}

/// What was sent and what was left out, a bar for each row.
fn chart(rows: &BTreeMap<String, Sum>, width: usize, columns: usize) -> String {
    // A short key and a short bar where there are few columns.
    let width = width.min(columns / 2);
    let bar_columns = BAR_COLUMNS.min((columns.saturating_sub(width + 2) as u64).max(4));
    let most = rows.values().map(|sum| sum.sent + sum.saved).max().unwrap_or(0);
    if most == 0 {
        return String::new();
    }
    let cells = |tokens: u64| (tokens.saturating_mul(bar_columns)).div_ceil(most) as usize;
    let mut text = "\n".to_owned();
    for (key, sum) in rows {
        let key: String = harmless_line(key).chars().take(width).collect();
        let (sent, all) = (cells(sum.sent), cells(sum.sent + sum.saved));
        let bar = format!("{}{}", "█".repeat(sent), "░".repeat(all.saturating_sub(sent)));
        text.push_str(&format!("{key:<width$} {bar}\n"));
    }
    text.push_str("█ sent  ░ saved; costs are estimates\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhand_model::Price;

    fn request(before: u64, window: u64, cached: u64) -> RequestRecord {
        let edits = u64::from(before > window);
        RequestRecord {
            model: "m".to_owned(),
            before,
            window,
            // This provider counts half as much as we do.
            sent: window / 2,
            cached,
            output: 10,
            edits,
            cost_micros: Some(window),
            ..RequestRecord::default()
        }
    }

    #[test]
    fn a_narrow_terminal_gets_figures_with_their_names() {
        let sum = Sum { requests: 12, sent: 3_100_000, saved: 900_000, ..Sum::default() };
        let rows = BTreeMap::from([("2026-11-17".to_owned(), sum)]);
        let wide = table(UsageBy::Day, &rows, &Sum::default(), 120);
        assert!(wide.starts_with("day        requests     sent"), "{wide}");
        let narrow = table(UsageBy::Day, &rows, &Sum::default(), 50);
        assert!(narrow.starts_with("2026-11-17\n  requests 12, sent 3.1m, cached 0,"), "{narrow}");
        let bars = narrow.lines().skip(2);
        assert!(bars.clone().all(|line| line.chars().count() <= 50), "{narrow}");
        assert!(bars.clone().any(|line| line.contains('█')), "{narrow}");
    }

    #[test]
    fn what_it_would_have_cost_is_reckoned_with_the_cache_that_would_have_held() {
        let mut prices = Prices::default();
        let price = Price { input: 1_000_000, cached_input: 100_000, cache_write: 0, output: 0 };
        prices.set("m", price);
        let log = [request(1_000, 1_000, 400), request(2_000, 600, 0), request(2_200, 800, 300)];
        let sums: Vec<Sum> = sums(&log, &prices).into_iter().map(|(_, sum)| sum).collect();
        // Nothing was edited: it would have cost the same.
        assert_eq!((sums[0].saved, sums[0].cost, sums[0].cost_without), (0, 1_000, 1_000));
        // 1,000 provider tokens, of which the first request had 500.
        assert_eq!((sums[1].saved, sums[1].cost_without), (1_400, 500 + 50));
        assert_eq!((sums[2].saved, sums[2].cost_without), (1_400, 100 + 100));
    }

    #[test]
    fn a_request_that_failed_open_is_one() {
        let log = [RequestRecord { is_bypassed: true, ..RequestRecord::default() }];
        let (key, sum) = sums(&log, &Prices::default()).remove(0);
        assert_eq!(key.model, "(unknown)");
        assert_eq!(sum, Sum { requests: 1, fail_opens: 1, ..Sum::default() });
    }
}
