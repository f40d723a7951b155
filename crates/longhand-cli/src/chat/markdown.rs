//! Renders Markdown for a terminal while it arrives: bold, code, headings, lists and tables.
//!
//! Text is held back only while its form is unknown: a mark at the end of a piece, and the rows of a table, which are
//! shown together.

use std::mem::take;

use super::table;

pub(super) const BOLD: &str = "\u{1b}[1m";
const CODE: &str = "\u{1b}[36m";
const DIM: &str = "\u{1b}[2m";
pub(super) const NORMAL: &str = "\u{1b}[0m";

/// Renders an answer piece by piece.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "styles hold independently of each other")]
pub(super) struct Markdown {
    /// The line that is being written, as far as it is not yet rendered.
    held: String,
    /// Whether the beginning of the line, which says what kind it is, was rendered.
    is_inside: bool,
    is_bold: bool,
    is_code: bool,
    is_heading: bool,
    /// Whether the lines are those of a code block.
    is_block: bool,
    /// The rows of a table that has not ended.
    rows: Vec<String>,
    /// The columns of the terminal.
    columns: usize,
}

impl Markdown {
    pub(super) fn new(columns: usize) -> Self {
        Self { columns, ..Self::default() }
    }

    /// Takes a piece and returns what can be shown now.
    pub(super) fn push(&mut self, piece: &str) -> String {
        let mut out = String::new();
        for (at, part) in piece.split('\n').enumerate() {
            if at > 0 {
                self.end_line(&mut out);
            }
            self.held.push_str(part);
        }
        self.render_held(false, &mut out);
        out
    }

    /// Returns what is left at the end of the answer.
    pub(super) fn end(&mut self) -> String {
        let mut out = String::new();
        if !self.held.is_empty() || self.is_inside {
            self.end_line(&mut out);
            out.pop();
        }
        self.end_table(&mut out);
        if out.ends_with('\n') {
            out.pop();
        }
        out
    }

    fn end_line(&mut self, out: &mut String) {
        if !self.is_inside && self.is_row() {
            self.rows.push(take(&mut self.held));
            return;
        }
        self.end_table(out);
        self.render_held(true, out);
        if self.is_bold || self.is_code || self.is_heading {
            out.push_str(NORMAL);
        }
        (self.is_bold, self.is_code, self.is_heading, self.is_inside) =
            (false, false, false, false);
        out.push('\n');
    }

    fn is_row(&self) -> bool {
        !self.is_block && self.held.trim_start().starts_with('|')
    }

    /// Renders the held text. A mark at its end stays held unless the line is complete.
    fn render_held(&mut self, is_complete: bool, out: &mut String) {
        if !self.is_inside && !self.begin_line(is_complete, out) {
            return;
        }
        let text = take(&mut self.held);
        if self.is_block {
            out.push_str(&text);
            return;
        }
        let mut rest = text.as_str();
        while let Some(letter) = rest.chars().next() {
            if !is_complete && matches!(rest, "*" | "\\") {
                rest.clone_into(&mut self.held);
                return;
            }
            let after = &rest[letter.len_utf8()..];
            rest = after;
            match letter {
                '`' => self.toggle_code(out),
                '*' if !self.is_code && after.starts_with('*') => {
                    rest = &after[1..];
                    self.is_bold = !self.is_bold;
                    self.style(out);
                }
                '\\' if !self.is_code && after.starts_with(|c: char| c.is_ascii_punctuation()) => {
                    out.extend(after.chars().next());
                    rest = &after[1..];
                }
                other => out.push(other),
            }
        }
    }

    /// Renders what a line begins with. Returns false if that is not known yet.
    fn begin_line(&mut self, is_complete: bool, out: &mut String) -> bool {
        let held = self.held.clone();
        let trimmed = held.trim_start();
        let indent = held.len() - trimmed.len();
        let is_mark = |c: char| matches!(c, '#' | '-' | '*' | '+' | '`' | '|' | '>');
        if trimmed.starts_with("```") || (trimmed.starts_with("``") && !is_complete) {
            if is_complete {
                self.is_block = !self.is_block;
                let language = trimmed.trim_start_matches('`').trim();
                out.push_str(&format!("{DIM}{language}{NORMAL}"));
                self.held.clear();
                self.is_inside = true;
            }
            return false;
        }
        if !is_complete && (trimmed.is_empty() || (trimmed.starts_with('|') && !self.is_block)) {
            return false;
        }
        if !is_complete && trimmed.chars().all(is_mark) && trimmed.len() < 7 {
            return false;
        }
        self.end_table(out);
        self.is_inside = true;
        if self.is_block {
            out.push_str("  ");
            return true;
        }
        let marks = trimmed.len() - trimmed.trim_start_matches('#').len();
        if (1..=6).contains(&marks) && trimmed[marks..].starts_with(' ') {
            self.is_heading = true;
            out.push_str(BOLD);
            trimmed[marks + 1..].clone_into(&mut self.held);
        } else if let Some(item) =
            ["- ", "* ", "+ "].iter().find_map(|mark| trimmed.strip_prefix(mark))
        {
            out.push_str(&format!("{}• ", &held[..indent]));
            item.clone_into(&mut self.held);
        }
        true
    }

    fn toggle_code(&mut self, out: &mut String) {
        self.is_code = !self.is_code;
        self.style(out);
    }

    fn style(&self, out: &mut String) {
        out.push_str(NORMAL);
        if self.is_bold || self.is_heading {
            out.push_str(BOLD);
        }
        if self.is_code {
            out.push_str(CODE);
        }
    }

    /// Shows the rows of a table together.
    fn end_table(&mut self, out: &mut String) {
        out.push_str(&table::drawn(&take(&mut self.rows), self.columns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Renders a text in pieces of every size; they must all give the same.
    fn rendered(text: &str) -> String {
        let whole = in_pieces(text, text.len().max(1));
        for size in 1..6 {
            assert_eq!(in_pieces(text, size), whole, "in pieces of {size}");
        }
        whole.replace(BOLD, "<b>").replace(CODE, "<c>").replace(NORMAL, "</>").replace(DIM, "<d>")
    }

    fn in_pieces(text: &str, size: usize) -> String {
        let letters: Vec<char> = text.chars().collect();
        let mut markdown = Markdown::new(80);
        let pieces = letters.chunks(size).map(|piece| piece.iter().collect::<String>());
        let mut out: String = pieces.map(|piece| markdown.push(&piece)).collect();
        out.push_str(&markdown.end());
        out
    }

    #[test]
    fn plain_words_are_shown_as_they_are() {
        for text in
            ["hello", "two\nlines", "a * b = c", "2 < 3 | 4", "", "an end\n\nand more", "x_y_z"]
        {
            assert_eq!(rendered(text), text);
        }
    }

    #[test]
    fn marks_become_styles() {
        for (text, shown) in [
            ("**bold** word", "</><b>bold</> word"),
            ("run `ls -l` now", "run </><c>ls -l</> now"),
            ("# Title\nbody", "<b>Title</>\nbody"),
            ("- one\n  * two", "• one\n  • two"),
            ("1. first", "1. first"),
            ("`a**b`", "</><c>a**b</>"),
            ("\\*not bold\\*", "*not bold*"),
            ("**never closed\nnext", "</><b>never closed</>\nnext"),
            ("```rust\nlet x = **y;\n```\nend", "<d>rust</>\n  let x = **y;\n<d></>\nend"),
        ] {
            assert_eq!(rendered(text), shown, "{text}");
        }
    }

    #[test]
    fn tables_have_columns() {
        let table = "| name | n |\n|------|--:|\n| `long name` | 1 |\nafter";
        assert_eq!(rendered(table), "<b>name       n</>\nlong name  1\nafter");
        assert_eq!(rendered("| a | b |"), "a  b");
    }

    #[test]
    fn words_are_not_held_back() {
        let mut markdown = Markdown::new(80);
        assert_eq!(markdown.push("Hello wor"), "Hello wor");
        assert_eq!(markdown.push("ld **no"), format!("ld {NORMAL}{BOLD}no"));
    }
}
