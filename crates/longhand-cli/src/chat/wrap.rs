//! Breaks lines between words while text arrives.

use std::mem::take;

use unicode_width::UnicodeWidthChar;

/// Text that is wrapped for a terminal as it comes.
///
/// Only the word that is being written is held back: it may have to begin a line.
pub(super) struct Wrap {
    columns: usize,
    /// The columns that the line has so far.
    used: usize,
    /// Whether nothing but spaces was written of the line.
    is_start: bool,
    /// Where the text of the line begins, after spaces and the mark of a list; the next line begins there, too.
    indent: usize,
    /// The spaces after it, and the word after them.
    spaces: usize,
    word: String,
    word_columns: usize,
    /// Whether a sequence for the terminal is being written, which takes no columns.
    is_sequence: bool,
}

impl Wrap {
    pub(super) fn new(columns: usize) -> Self {
        Self {
            columns,
            used: 0,
            is_start: true,
            indent: 0,
            spaces: 0,
            word: String::new(),
            word_columns: 0,
            is_sequence: false,
        }
    }

    /// Takes a piece and returns what can be shown now.
    pub(super) fn push(&mut self, piece: &str) -> String {
        let mut out = String::new();
        for c in piece.chars() {
            if self.is_sequence || c == '\u{1b}' {
                self.is_sequence = !c.is_ascii_alphabetic();
                self.word.push(c);
            } else if c == '\n' {
                self.end_word(&mut out);
                out.push('\n');
                (self.used, self.spaces, self.indent, self.is_start) = (0, 0, 0, true);
            } else if c == ' ' {
                self.end_word(&mut out);
                self.spaces += 1;
            } else {
                let columns = c.width().unwrap_or(0);
                // A word that fills a line goes on in the next one.
                if self.word_columns + columns > self.room() {
                    self.end_word(&mut out);
                }
                self.word.push(c);
                self.word_columns += columns;
            }
        }
        out
    }

    /// Returns what is left at the end.
    pub(super) fn end(&mut self) -> String {
        let mut out = String::new();
        self.end_word(&mut out);
        out
    }

    /// The columns that a word has in a line of its own.
    fn room(&self) -> usize {
        let before = if self.is_start { self.spaces } else { self.indent };
        self.columns.saturating_sub(before).max(1)
    }

    fn end_word(&mut self, out: &mut String) {
        if self.word_columns > 0 {
            let spaces = take(&mut self.spaces);
            if take(&mut self.is_start) {
                self.indent = spaces + list_mark(&self.word);
                if self.indent > self.columns / 2 {
                    self.indent = 0;
                }
            }
            if self.used > 0 && self.used + spaces + self.word_columns > self.columns {
                out.push_str(&format!("\n{}", " ".repeat(self.indent)));
                self.used = self.indent;
            } else {
                out.push_str(&" ".repeat(spaces));
                self.used += spaces;
            }
        }
        out.push_str(&take(&mut self.word));
        self.used += take(&mut self.word_columns);
    }
}

/// The columns of a word and the space after it, if it is the mark of an item in a list: `•` or `1.`
fn list_mark(word: &str) -> usize {
    let is_number = |digits: &str| !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit());
    let is_mark = word == "•" || word.strip_suffix('.').is_some_and(is_number);
    if is_mark { word.chars().count() + 1 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_however_the_pieces_are_cut() {
        for (text, shown) in [
            ("one two three four", "one two\nthree four"),
            ("  in code\nnext", "  in code\nnext"),
            ("abcdefghijklmn op", "abcdefghij\nklmn op"),
            ("ab \u{1b}[1mbold words\u{1b}[0m", "ab \u{1b}[1mbold\nwords\u{1b}[0m"),
            ("日本語の長い文章です", "日本語の長\nい文章です"),
            ("ends here \n", "ends here\n"),
            ("• one two three", "• one two\n  three"),
            ("1. one two three\nfour five six", "1. one two\n   three\nfour five\nsix"),
            ("  code abc def", "  code abc\n  def"),
            ("  abcdefghijkl", "  abcdefgh\n  ijkl"),
            ("", ""),
        ] {
            for size in 1..6 {
                let letters: Vec<char> = text.chars().collect();
                let mut wrap = Wrap::new(10);
                let pieces = letters.chunks(size).map(|piece| piece.iter().collect::<String>());
                let mut out: String = pieces.map(|piece| wrap.push(&piece)).collect();
                out.push_str(&wrap.end());
                assert_eq!(out, shown, "in pieces of {size}");
            }
        }
    }
}
