//! The table of figures, with their goals and how they grow.

use std::fmt::Write as _;

/// One figure of one archive.
#[derive(Clone, Debug)]
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) unit: &'static str,
    pub(super) value: f64,
    /// The most that it may be.
    pub(super) goal: Option<f64>,
}

/// All figures, those of the smaller archive first.
#[derive(Debug, Default)]
pub(super) struct Table {
    figures: Vec<(u64, Figure)>,
    pub(super) text_bytes: u64,
    pub(super) file_bytes: u64,
}

/// A row of the table: a figure of the largest archive that has it, and the one of a smaller archive.
struct Row<'t> {
    figure: &'t Figure,
    before: Option<(u64, &'t Figure)>,
    sessions: u64,
}

impl Row<'_> {
    /// By which power of the number of sessions the figure grows.
    fn exponent(&self) -> Option<f64> {
        let (sessions, before) = self.before?;
        let growth = (self.sessions as f64 / sessions as f64).log10();
        (before.value > 0.0 && self.figure.value > 0.0 && growth > 0.0)
            .then(|| (self.figure.value / before.value).log10() / growth)
    }

    fn is_missed(&self) -> bool {
        self.figure.goal.is_some_and(|goal| self.figure.value > goal)
    }
}

impl Table {
    pub(super) fn add(&mut self, sessions: u64, figures: Vec<Figure>) {
        self.figures.extend(figures.into_iter().map(|figure| (sessions, figure)));
    }

    fn rows(&self) -> Vec<Row<'_>> {
        let mut rows: Vec<Row<'_>> = Vec::new();
        for (sessions, figure) in &self.figures {
            let same = |row: &&mut Row<'_>| {
                row.figure.name == figure.name && row.figure.unit == figure.unit
            };
            match rows.iter_mut().find(same) {
                Some(row) => {
                    row.before = Some((row.sessions, row.figure));
                    row.figure = figure;
                    row.sessions = *sessions;
                }
                None => rows.push(Row { figure, before: None, sessions: *sessions }),
            }
        }
        rows
    }

    /// How many figures of the largest archive are above their goals.
    pub(super) fn missed(&self) -> usize {
        self.rows().iter().filter(|row| row.is_missed()).count()
    }

    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        let (text, file) = (self.text_bytes as f64 / 1e6, self.file_bytes as f64 / 1e6);
        let _ =
            writeln!(out, "{text:.0} MB of text in a file of {file:.0} MB, {:.2} ×\n", file / text);
        let rows = self.rows();
        let sizes = rows.iter().find_map(|row| Some((row.before?.0, row.sessions)));
        let (small, large) = sizes.unwrap_or_default();
        let _ = writeln!(
            out,
            "| operation | | {small} sessions | {large} sessions | goal | grows by |"
        );
        out.push_str("|---|---|---:|---:|---:|---:|\n");
        for row in rows {
            let before = row.before.map_or(String::new(), |(_, figure)| shown(figure.value));
            let goal = row.figure.goal.map_or(String::new(), |goal| format!("≤ {}", shown(goal)));
            let mark = if row.is_missed() { " ✗" } else { "" };
            let exponent = row.exponent().map_or(String::new(), |power| format!("n^{power:.2}"));
            let Figure { name, unit, value, .. } = row.figure;
            let value = shown(*value);
            let _ = writeln!(
                out,
                "| {name} | {unit} | {before} | {value}{mark} | {goal} | {exponent} |"
            );
        }
        out
    }

    pub(super) fn json(&self) -> String {
        let number = |number: Option<f64>| number.map_or("null".to_owned(), |n| format!("{n:.3}"));
        let rows = self.rows().into_iter().map(|row| {
            let Figure { name, unit, value, goal } = row.figure;
            format!(
                r#"{{"name":{name:?},"unit":{unit:?},"sessions":{},"value":{value:.3},"before":{},"goal":{},"exponent":{}}}"#,
                row.sessions,
                number(row.before.map(|(_, figure)| figure.value)),
                number(*goal),
                number(row.exponent()),
            )
        });
        let rows: Vec<String> = rows.collect();
        let (text, file) = (self.text_bytes, self.file_bytes);
        format!(
            "{{\"text_bytes\":{text},\"file_bytes\":{file},\"figures\":[\n{}\n]}}\n",
            rows.join(",\n")
        )
    }
}

fn shown(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_compares_two_archives_and_its_goal() {
        let figure = |value| Figure { name: "ls".to_owned(), unit: "ms", value, goal: Some(60.0) };
        let mut table = Table { text_bytes: 2_000_000, file_bytes: 1_000_000, ..Table::default() };
        table.add(200, vec![figure(10.0)]);
        assert_eq!(table.missed(), 0);
        table.add(2_000, vec![figure(100.0)]);
        assert_eq!(table.missed(), 1);
        assert!(
            table.text().contains("| ls | ms | 10.0 | 100 ✗ | ≤ 60.0 | n^1.00 |"),
            "{}",
            table.text()
        );
        assert!(table.json().contains(r#""before":10.000,"goal":60.000,"exponent":1.000"#));
    }
}
