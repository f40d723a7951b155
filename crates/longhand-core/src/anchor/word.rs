//! The words of a text, as far as they may be anchors.

/// The longest word that can be an anchor; beyond it lies encoded data.
const WORD_BYTES_MAX: usize = 200;

/// Splits a text at what cannot be part of an anchor.
pub(super) struct Words<'t> {
    text: &'t str,
    at: usize,
}

/// A stretch of text without a break.
#[derive(Clone, Copy)]
pub(super) struct Word<'t> {
    text: &'t str,
    start: usize,
    end: usize,
    marks: u8,
}

impl<'t> Words<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    /// Goes on from a place that lies beyond the word that was given last.
    pub(super) fn skip_to(&mut self, at: usize) {
        self.at = self.at.max(at);
    }
}

impl<'t> Iterator for Words<'t> {
    type Item = Word<'t>;

    fn next(&mut self) -> Option<Word<'t>> {
        let bytes = self.text.as_bytes();
        while self.at < bytes.len() {
            let start = self.at;
            let mut marks = 0;
            let mut end = bytes.len();
            for (at, byte) in bytes[start..].iter().enumerate() {
                let class = CLASSES[*byte as usize];
                if class == BREAK {
                    end = start + at;
                    break;
                }
                marks |= class;
            }
            self.at = end + 1;
            // Most words are all letters, and no anchor is.
            if end > start && marks != LETTER {
                return Some(Word { text: self.text, start, end, marks });
            }
        }
        None
    }
}

impl<'t> Word<'t> {
    /// Where it begins in the text.
    pub(super) fn start(self) -> usize {
        self.start
    }

    /// All of it.
    pub(super) fn whole(self) -> &'t str {
        &self.text[self.start..self.end]
    }

    /// Whether it has all of these marks.
    pub(super) fn has(self, marks: u8) -> bool {
        self.marks & marks == marks
    }

    /// The word without what stands around it, unless it is too short or too long for a name.
    pub(super) fn bare(self) -> Option<&'t str> {
        if !(3..=WORD_BYTES_MAX).contains(&(self.end - self.start)) || self.has(FOREIGN) {
            return None;
        }
        let whole = self.whole();
        // Takes `src/a.rs` from `path=src/a.rs`; an address keeps its query.
        let word = if self.has(OTHER) && !whole.contains("://") {
            whole.rsplit('=').next().unwrap_or(whole)
        } else {
            whole
        };
        let word = word.trim_end_matches(['.', ':', '!', '?', '-', '*', '#', '/']);
        (word.len() >= 3).then_some(word)
    }
}

const BREAK: u8 = 0;
pub(super) const LETTER: u8 = 1;
pub(super) const DIGIT: u8 = 2;
pub(super) const DOT: u8 = 4;
pub(super) const SLASH: u8 = 8;
pub(super) const COLON: u8 = 16;
pub(super) const DASH: u8 = 32;
/// Any other mark of ASCII.
pub(super) const OTHER: u8 = 64;
/// What is beyond ASCII.
pub(super) const FOREIGN: u8 = 128;

/// What each byte is to a word.
const CLASSES: [u8; 256] = {
    let mut classes = [OTHER; 256];
    let mut byte = 0;
    while byte < 256 {
        let own = byte as u8;
        classes[byte] = match own {
            b'A'..=b'Z' | b'a'..=b'z' => LETTER,
            b'0'..=b'9' => DIGIT,
            b'.' => DOT,
            b'/' => SLASH,
            b':' => COLON,
            b'-' => DASH,
            0x80.. => FOREIGN,
            _ if is_break(own) => BREAK,
            _ => OTHER,
        };
        byte += 1;
    }
    classes
};

/// Whether a byte cannot be part of an anchor that is one word.
pub(super) const fn is_break(byte: u8) -> bool {
    byte <= b' '
        || byte == 0x7f
        || matches!(byte, b'"' | b'\'' | b'`' | b',' | b';' | b'|' | b'\\')
        || matches!(byte, b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'<' | b'>')
}
