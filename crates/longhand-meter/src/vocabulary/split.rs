//! Cuts a text into the pieces that are merged apart, as the patterns of the vocabularies do.
//!
//! The patterns are regular expressions with backtracking and one look-ahead. Each function here says
//! which part of the pattern it stands for; `tests/exact` compares with a regex engine.

use super::layout::class::{LOWER, MARK, NUMBER, OTHER, SPACE, UPPER};

static CLASS_INDEX: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/classes.index"));
static CLASS_BLOCKS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/classes.blocks"));

const LETTER: u8 = UPPER | LOWER;

/// Which pattern cuts a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SplitPattern {
    O200k,
    Cl100k,
}

impl SplitPattern {
    /// Where the piece that begins at `start` ends; `start` must be before the end of the text.
    #[inline]
    pub(crate) fn piece_end(self, text: &str, start: usize) -> usize {
        let text = Classified { text };
        match self {
            Self::O200k => text.o200k_end(start),
            Self::Cl100k => text.cl100k_end(start),
        }
    }
}

#[derive(Clone, Copy)]
struct Classified<'t> {
    text: &'t str,
}

impl Classified<'_> {
    fn o200k_end(self, start: usize) -> usize {
        let (first, length) = self.class_at(start);
        if first & LETTER != 0 {
            let (cased, any) = self.word_ends(start);
            return self.after_contraction(cased.unwrap_or(any));
        }
        if first & NUMBER != 0 {
            return self.number_end(start);
        }
        if !self.is_line_break(start) {
            // `[^\r\n\p{L}\p{N}]?` takes the first character. A mark may also begin the word itself.
            let (cased, any) = self.word_ends(start + length);
            let with_mark = if first & MARK == 0 { (None, start) } else { self.word_ends(start) };
            let end = cased.or(with_mark.0).or((any > start + length).then_some(any));
            if let Some(end) = end.or((with_mark.1 > start).then_some(with_mark.1)) {
                return self.after_contraction(end);
            }
        }
        self.punctuation_end(start, true).unwrap_or_else(|| self.space_end(start))
    }

    fn cl100k_end(self, start: usize) -> usize {
        let contraction = self.after_contraction(start);
        if contraction > start {
            return contraction;
        }
        let (first, length) = self.class_at(start);
        if first & NUMBER != 0 {
            return self.number_end(start);
        }
        // `[^\r\n\p{L}\p{N}]?\p{L}+`
        let letters = if first & LETTER != 0 || self.is_line_break(start) { 0 } else { length };
        let end = self.run_end(start + letters, LETTER);
        if end > start + letters {
            return end;
        }
        self.punctuation_end(start, false).unwrap_or_else(|| self.space_end(start))
    }

    /// Where `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+` ends, if it matches, and
    /// `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*`, which is only asked for if the first
    /// does not match; `start` if that does not match either.
    #[inline]
    fn word_ends(self, start: usize) -> (Option<usize>, usize) {
        let mut end = start;
        // The first expression gives back characters until one is left that may be lower case.
        let mut lower_end = None;
        loop {
            let (class, length) = self.class_at(end);
            if class & (UPPER | MARK) == 0 {
                break;
            }
            end += length;
            if class & (LOWER | MARK) != 0 {
                lower_end = Some(end);
            }
        }
        if self.class_at(end).0 & LOWER != 0 {
            return (Some(self.run_end(end, LOWER | MARK)), end);
        }
        (lower_end, end)
    }

    /// `(?i:'s|'t|'re|'ve|'m|'ll|'d)?`
    #[inline]
    fn after_contraction(self, start: usize) -> usize {
        if self.byte(start) != b'\'' {
            return start;
        }
        let lower = |at: usize| self.byte(at).to_ascii_lowercase();
        match (lower(start + 1), lower(start + 2)) {
            (b's' | b't' | b'm' | b'd', _) => start + 2,
            // The last pair of bytes is ſ, which is a lower-case s.
            (b'r' | b'v', b'e') | (b'l', b'l') | (0xC5, 0xBF) => start + 3,
            _ => start,
        }
    }

    /// `\p{N}{1,3}`
    #[inline]
    fn number_end(self, start: usize) -> usize {
        let mut end = start;
        for _ in 0..3 {
            match self.class_at(end) {
                (class, length) if class & NUMBER != 0 => end += length,
                _ => break,
            }
        }
        end
    }

    /// ` ?[^\s\p{L}\p{N}]+[\r\n]*`, at the end also with slashes.
    #[inline]
    fn punctuation_end(self, start: usize, slashes: bool) -> Option<usize> {
        let marks = start + usize::from(self.byte(start) == b' ');
        let mut end = self.run_end(marks, OTHER | MARK);
        if end == marks {
            return None;
        }
        while self.is_line_break(end) || (slashes && self.byte(end) == b'/') {
            end += 1;
        }
        Some(end)
    }

    /// `\s*[\r\n]+|\s+(?!\S)|\s+`
    #[inline]
    fn space_end(self, start: usize) -> usize {
        let (mut end, mut last) = (start, start);
        let mut break_end = None;
        loop {
            let (class, length) = self.class_at(end);
            if class & SPACE == 0 {
                break;
            }
            let is_break = self.is_line_break(end);
            (last, end) = (end, end + length);
            if is_break {
                break_end = Some(end);
            }
        }
        // The last space before a word goes with the word, unless it is the only one.
        let kept = if end == self.text.len() || last == start { end } else { last };
        break_end.unwrap_or(kept)
    }

    #[inline]
    fn run_end(self, start: usize, classes: u8) -> usize {
        let mut end = start;
        loop {
            match self.class_at(end) {
                (class, length) if class & classes != 0 => end += length,
                _ => return end,
            }
        }
    }

    #[inline]
    fn is_line_break(self, at: usize) -> bool {
        matches!(self.byte(at), b'\r' | b'\n')
    }

    /// The byte at a place; 0 after the end, which no rule asks for.
    #[inline]
    fn byte(self, at: usize) -> u8 {
        self.text.as_bytes().get(at).copied().unwrap_or(0)
    }

    /// The class of the character at a place and its length; no class after the end.
    #[inline]
    fn class_at(self, at: usize) -> (u8, usize) {
        match self.text.as_bytes().get(at) {
            Some(&byte) if byte < 0x80 => (ASCII_CLASSES[usize::from(byte)], 1),
            Some(_) => self.class_beyond_ascii(at),
            None => (0, 0),
        }
    }

    fn class_beyond_ascii(self, at: usize) -> (u8, usize) {
        let Some(char) = self.text[at..].chars().next() else { return (0, 0) };
        let block = usize::from(CLASS_INDEX[char as usize >> 8]);
        (CLASS_BLOCKS[block << 8 | char as usize & 0xFF], char.len_utf8())
    }
}

const ASCII_CLASSES: [u8; 128] = {
    let mut classes = [OTHER; 128];
    let mut at = 0_u8;
    while at < 128 {
        classes[at as usize] = match at {
            b'A'..=b'Z' => UPPER,
            b'a'..=b'z' => LOWER,
            b'0'..=b'9' => NUMBER,
            b' ' | b'\t'..=b'\r' => SPACE,
            _ => OTHER,
        };
        at += 1;
    }
    classes
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_the_standard_library() {
        for char in '\0'..=char::MAX {
            let text = char.to_string();
            let (class, length) = Classified { text: &text }.class_at(0);
            assert_eq!(length, text.len());
            assert_eq!(class & SPACE != 0, char.is_whitespace(), "{char:?}");
            // A table of another Unicode version may differ in characters that are new.
            if char.is_ascii() {
                assert_eq!(class & LETTER != 0, char.is_alphabetic(), "{char:?}");
                assert_eq!(class & NUMBER != 0, char.is_numeric(), "{char:?}");
            }
        }
    }
}
