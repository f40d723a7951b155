//! A text without the escapes of JSON, however deep one JSON text is nested in another.

use std::ops::Range;

use memchr::memchr;

/// A text that was derived from another one, and where its pieces come from.
pub(super) struct UnescapedView {
    pub(super) text: String,
    /// In order, without gaps here.
    pieces: Vec<MappedRange>,
}

/// A range of the view and the range of the source that it stands for.
struct MappedRange {
    here: Range<usize>,
    there: Range<usize>,
    /// Whether it is one escape, which goes as a whole. In other pieces bytes correspond one to one.
    is_escape: bool,
}

impl UnescapedView {
    /// The text without escapes.
    ///
    /// In JSON that lies in JSON, a line ends with `\\n`, in the next with `\\\\n`: any number of backslashes
    /// before a letter of an escape is one. A Windows path may look like that, too; it is only looked at.
    pub(super) fn unescaped(source: &str) -> Self {
        let mut view = Self::empty(source);
        let mut at = 0;
        while let Some(found) = memchr(b'\\', &source.as_bytes()[at..]) {
            let start = at + found;
            view.copy(source, at..start);
            let (character, length) = escape(&source[start..]);
            at = start + length;
            let here = view.text.len();
            view.text.push(character);
            view.pieces.push(MappedRange {
                here: here..view.text.len(),
                there: start..at,
                is_escape: true,
            });
        }
        view.copy(source, at..source.len());
        view
    }

    /// The text without some ranges, which must be in order.
    pub(super) fn without(source: &str, gaps: &[Range<usize>]) -> Self {
        let mut view = Self::empty(source);
        let mut at = 0;
        for gap in gaps {
            view.copy(source, at..gap.start);
            at = gap.end;
        }
        view.copy(source, at..source.len());
        view
    }

    fn empty(source: &str) -> Self {
        Self { text: String::with_capacity(source.len()), pieces: Vec::new() }
    }

    fn copy(&mut self, source: &str, there: Range<usize>) {
        if there.is_empty() {
            return;
        }
        let here = self.text.len();
        self.text.push_str(&source[there.clone()]);
        self.pieces.push(MappedRange { here: here..self.text.len(), there, is_escape: false });
    }

    /// Where a range of this text is in its source; several ranges if something was left out within.
    pub(super) fn sources(&self, range: &Range<usize>) -> Vec<Range<usize>> {
        let mut sources: Vec<Range<usize>> = Vec::new();
        let first = self.pieces.partition_point(|piece| piece.here.end <= range.start);
        for MappedRange { here, there, is_escape } in &self.pieces[first..] {
            let (start, end) = (range.start.max(here.start), range.end.min(here.end));
            if start >= end {
                break;
            }
            let source = if *is_escape {
                there.clone()
            } else {
                there.start + (start - here.start)..there.start + (end - here.start)
            };
            match sources.last_mut() {
                Some(last) if last.end == source.start => last.end = source.end,
                _ => sources.push(source),
            }
        }
        sources
    }
}

/// The character that an escape stands for, and its length. What is no escape is a backslash.
fn escape(text: &str) -> (char, usize) {
    let slashes = text.bytes().take_while(|byte| *byte == b'\\').count();
    let rest = &text[slashes..];
    let character = match rest.bytes().next() {
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'b' | b'f') => ' ',
        Some(quote @ (b'"' | b'/' | b'\'')) => quote.into(),
        Some(b'u') => {
            let digits =
                rest.get(1..5).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
            let Some(code) = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()) else {
                return ('\\', slashes);
            };
            return (char::from_u32(code).unwrap_or('\u{fffd}'), slashes + 5);
        }
        _ => return ('\\', slashes),
    };
    (character, slashes + 1)
}
