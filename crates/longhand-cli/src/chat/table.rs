//! Tables of Markdown, drawn to fit the terminal.

use unicode_width::UnicodeWidthStr;

use super::markdown::{BOLD, NORMAL};
use super::wrap::Wrap;

/// The space between two columns of a table.
const GAP: usize = 2;

/// Draws the rows of a table in at most `columns_max` columns of the terminal; wide cells continue in the next line.
pub(super) fn drawn(rows: &[String], columns_max: usize) -> String {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| cells(row)).collect();
    let has_head = rows.get(1).is_some_and(|row| is_rule(row));
    let rows: Vec<Vec<String>> = rows.into_iter().filter(|row| !is_rule(row)).collect();
    let widths = widths(&rows, columns_max);
    let mut out = String::new();
    for (number, row) in rows.iter().enumerate() {
        let cells: Vec<Vec<String>> =
            row.iter().zip(&widths).map(|(cell, width)| lines(cell, *width)).collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        for at in 0..height {
            let mut line = String::new();
            for (cell, width) in cells.iter().zip(&widths) {
                let text = cell.get(at).map_or("", String::as_str);
                line.push_str(text);
                line.push_str(&" ".repeat(width.saturating_sub(text.width()) + GAP));
            }
            let line = line.trim_end();
            if number == 0 && has_head {
                out.push_str(&format!("{BOLD}{line}{NORMAL}\n"));
            } else {
                out.push_str(&format!("{line}\n"));
            }
        }
    }
    out
}

/// The cells of a row, without the marks inside them.
fn cells(row: &str) -> Vec<String> {
    let row = row.trim().trim_start_matches('|');
    let row = row.strip_suffix('|').unwrap_or(row);
    row.split('|').map(|cell| cell.trim().replace("**", "").replace('`', "")).collect()
}

/// Whether a row is the line of dashes below the head.
fn is_rule(row: &[String]) -> bool {
    row.iter().all(|cell| !cell.is_empty() && cell.chars().all(|c| matches!(c, '-' | ':')))
}

/// The width of every column: that of its widest cell, or less if the table would be too wide.
fn widths(rows: &[Vec<String>], columns_max: usize) -> Vec<usize> {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widest = |at: usize| rows.iter().filter_map(|row| Some(row.get(at)?.width())).max();
    let mut widths: Vec<usize> = (0..count).map(|at| widest(at).unwrap_or(0)).collect();
    let room = columns_max.saturating_sub(GAP * count.saturating_sub(1)).max(count);
    while widths.iter().sum::<usize>() > room
        && let Some(width) = widths.iter_mut().max()
    {
        *width -= 1;
    }
    widths
}

/// The lines of a cell.
fn lines(cell: &str, width: usize) -> Vec<String> {
    let mut wrap = Wrap::new(width.max(1));
    let text = wrap.push(cell) + &wrap.end();
    text.split('\n').map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(table: &str, columns: usize) -> String {
        let rows: Vec<String> = table.lines().map(str::to_owned).collect();
        drawn(&rows, columns).replace(BOLD, "<b>").replace(NORMAL, "</>")
    }

    #[test]
    fn columns_are_as_wide_as_their_cells() {
        let table = "| name | n |\n|------|--:|\n| `long name` | 1 |";
        assert_eq!(shown(table, 40), "<b>name       n</>\nlong name  1\n");
        assert_eq!(shown("| a | b |", 40), "a  b\n");
        assert_eq!(shown("| 日本 | b |\n| x | y |", 40), "日本  b\nx     y\n");
    }

    #[test]
    fn a_wide_table_is_drawn_in_the_columns_that_there_are() {
        let table = "| file | what it has | ok |\n|---|---|---|\n| a.log | all that the service says | yes |";
        let narrow =
            "<b>file   what it has   ok</>\na.log  all that the  yes\n       service says\n";
        assert_eq!(shown(table, 24), narrow);
        // Even where there is hardly any room nothing is left out.
        assert_eq!(shown("| abc | de |", 4), "a  d\nb  e\nc\n");
    }
}
