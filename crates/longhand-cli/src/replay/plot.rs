//! The prompt size of every request, drawn with characters.

use std::fmt::Write;

use longhand::replay::{ReplayRun, ReplayedRequest};
use longhand_core::Tokens;

use super::ReplayedTrace;
use super::table::short;

/// The rows of a plot.
const ROWS: u64 = 10;

/// The columns of its scale.
const SCALE: usize = 6;

/// The most columns that are used.
const COLUMNS_MAX: usize = 100;

/// The columns that a plot may have.
pub(super) fn width() -> usize {
    columns().unwrap_or(72).clamp(20, COLUMNS_MAX)
}

/// The columns that there are, where that is known.
pub(super) fn columns() -> Option<usize> {
    crate::output::columns_known()
}

/// Draws the windows of the first policy, one column for one request or for several.
pub(super) fn draw(replayed: &ReplayedTrace, width: usize) -> String {
    replayed.runs.first().map(|run| draw_run(run, width)).unwrap_or_default()
}

fn draw_run(run: &ReplayRun, width: usize) -> String {
    let columns = buckets(run, width.saturating_sub(SCALE + 2).max(1));
    let top = columns.iter().map(|column| column.whole).max().unwrap_or_default().max(run.budget);
    let level = |tokens: Tokens| (tokens.0 * ROWS).div_ceil(top.0.max(1));
    let mut text = String::new();
    for row in (1..=ROWS).rev() {
        let label = if row == ROWS {
            short(top)
        } else if row == level(run.budget) {
            short(run.budget)
        } else {
            String::new()
        };
        let cells = columns.iter().map(|column| {
            if level(column.tokens) >= row {
                '█'
            } else if row == level(run.budget) {
                '─'
            } else if level(column.whole) == row {
                '·'
            } else {
                ' '
            }
        });
        let line: String = cells.collect();
        let _ = writeln!(text, "{}", format!("{label:>SCALE$} {line}").trim_end());
    }
    let marks: String = columns
        .iter()
        .map(|column| match (column.is_batch, column.is_break) {
            (_, true) => 'x',
            (true, false) => 'b',
            (false, false) => ' ',
        })
        .collect();
    let _ = writeln!(text, "{}", format!("{:>SCALE$} {marks}", "").trim_end());
    let legend = ["█ window", "· without", "─ budget", "x break", "b batch"];
    // Each name takes at most 11 columns.
    for names in legend.chunks((width.saturating_sub(SCALE) / 11).max(1)) {
        let _ = writeln!(text, "{:>SCALE$} {}", "", names.join("  "));
    }
    text
}

/// What a column shows: the largest of its requests.
#[derive(Default)]
struct Column {
    tokens: Tokens,
    whole: Tokens,
    is_batch: bool,
    is_break: bool,
}

fn buckets(run: &ReplayRun, most: usize) -> Vec<Column> {
    let requests = &run.requests;
    let count = requests.len().min(most).max(1);
    let column = |at: usize| {
        let mut column = Column::default();
        let bucket: &[ReplayedRequest] =
            &requests[at * requests.len() / count..(at + 1) * requests.len() / count];
        for sent in bucket {
            column.tokens = column.tokens.max(sent.tokens);
            column.whole = column.whole.max(sent.whole);
            column.is_batch |= sent.is_batch;
            column.is_break |= sent.is_break;
        }
        column
    };
    (0..count).map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(whole: u64, tokens: u64) -> ReplayedRequest {
        ReplayedRequest {
            whole: Tokens(whole),
            tokens: Tokens(tokens),
            cached: Tokens::ZERO,
            is_break: tokens < whole && tokens.is_multiple_of(1000),
            is_batch: tokens < whole && tokens.is_multiple_of(1000),
            is_cold: false,
            faults: Vec::new(),
            missing: Vec::new(),
        }
    }

    #[test]
    fn a_plot_is_as_wide_as_it_may_be() {
        let requests: Vec<ReplayedRequest> =
            (1..300).map(|at| sent(at * 500, (at * 500).min(40_000 + at % 60 * 500))).collect();
        let run = ReplayRun { budget: Tokens(75_000), requests, ..ReplayRun::default() };
        for width in [20, 50, 100] {
            let text = draw_run(&run, width);
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(widest.is_some_and(|widest| widest <= width), "{width}:\n{text}");
            assert!(text.contains('█') && text.contains('·') && text.contains('x'), "{text}");
            assert!(text.lines().all(|line| !line.ends_with(' ')), "{text}");
        }
        assert!(!draw_run(&ReplayRun::default(), 50).is_empty());
    }

    #[test]
    fn one_request_is_one_column() {
        let requests = vec![sent(10, 10), sent(20, 10)];
        let text =
            draw_run(&ReplayRun { budget: Tokens(15), requests, ..ReplayRun::default() }, 50);
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows[0], "    20  ·", "{text}");
        assert_eq!(rows[2], "    15 ──", "{text}");
        assert_eq!(rows[9], "       ██", "{text}");
    }
}
