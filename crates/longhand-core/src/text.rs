//! Text as it was received.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A slice of a shared source, perhaps still JSON-escaped.
///
/// Most of a long history is never read: it is dropped, or passed on as it came. So the slice is
/// decoded only when somebody looks at it, and cloning it costs a reference count.
#[derive(Clone)]
pub struct Text {
    source: Arc<String>,
    start: u32,
    end: u32,
    escaped: bool,
}

impl Text {
    /// The same bytes of another source, if it is of that one.
    pub(crate) fn moved(&self, from: &Arc<String>, to: &Arc<String>) -> Self {
        let is_of_it = Arc::ptr_eq(&self.source, from);
        let (start, end) = (self.start as usize, self.end as usize);
        debug_assert!(!is_of_it || to.get(start..end) == Some(self.raw()));
        Self { source: Arc::clone(if is_of_it { to } else { &self.source }), ..*self }
    }

    /// Where it stands in a source; `None` if it is of another one.
    pub fn span_in(&self, source: &Arc<String>) -> Option<Range<usize>> {
        Arc::ptr_eq(&self.source, source).then_some(self.start as usize..self.end as usize)
    }

    /// Whether it is the same as another to the byte; at once if both are the same piece of one source.
    pub fn is_same(&self, other: &Self) -> bool {
        let one_source = Arc::ptr_eq(&self.source, &other.source);
        (one_source && (self.start, self.end) == (other.start, other.end))
            || self.raw() == other.raw()
    }

    /// Takes `source[start..end]` as it stands.
    pub fn slice(source: &Arc<String>, start: usize, end: usize) -> Self {
        Self::new(source, start, end, false)
    }

    /// Takes `source[start..end]`, the inside of a JSON string that has escapes.
    pub fn escaped(source: &Arc<String>, start: usize, end: usize) -> Self {
        Self::new(source, start, end, true)
    }

    fn new(source: &Arc<String>, start: usize, end: usize, escaped: bool) -> Self {
        debug_assert!(source.get(start..end).is_some());
        let bound = |n: usize| u32::try_from(n).expect("a source is under 4 GiB");
        Self { source: Arc::clone(source), start: bound(start), end: bound(end), escaped }
    }

    /// The bytes as they stand in the source, escapes and all.
    pub fn raw(&self) -> &str {
        &self.source[self.start as usize..self.end as usize]
    }

    /// The text that the bytes mean.
    pub fn decode(&self) -> Cow<'_, str> {
        if self.escaped { Cow::Owned(unescape(self.raw())) } else { Cow::Borrowed(self.raw()) }
    }

    /// Whether decoding loses nothing: an escape for half a pair of surrogates is no character, so that
    /// U+FFFD stands for it.
    pub fn is_exact(&self) -> bool {
        let mut rest = if self.escaped { self.raw() } else { "" };
        while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
            rest = &rest[at..];
            let (character, used) = escape_at(rest);
            if character == char::REPLACEMENT_CHARACTER && code_unit(rest) != Some(0xFFFD) {
                return false;
            }
            rest = &rest[used..];
        }
        true
    }

    /// Its size in the source; decoding can only make it smaller.
    pub fn raw_len(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// Whether it has no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Whether nothing but white space is in it, or nothing.
    pub fn is_blank(&self) -> bool {
        if self.escaped { self.decode().trim().is_empty() } else { self.raw().trim().is_empty() }
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        let end = text.len();
        Self::slice(&Arc::new(text), 0, end)
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

impl Default for Text {
    fn default() -> Self {
        Self::from("")
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.decode(), f)
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.decode() == other.decode()
    }
}

impl Eq for Text {}

/// Resolves JSON string escapes; what is not a legal escape stays as it is.
pub fn unescape(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        // Line breaks and quotes are by far the most.
        let plain = match rest.as_bytes().get(1) {
            Some(b'n') => '\n',
            Some(b'"') => '"',
            _ => {
                let (character, used) = escape_at(rest);
                out.push(character);
                rest = &rest[used..];
                continue;
            }
        };
        out.push(plain);
        rest = &rest[2..];
    }
    out.push_str(rest);
    out
}

/// Reads the escape at the start of `rest`: the character it means and its length.
fn escape_at(rest: &str) -> (char, usize) {
    let simple = |c| (c, 2);
    match rest.as_bytes().get(1) {
        Some(b'n') => simple('\n'),
        Some(b't') => simple('\t'),
        Some(b'r') => simple('\r'),
        Some(b'b') => simple('\u{8}'),
        Some(b'f') => simple('\u{c}'),
        Some(&c @ (b'"' | b'\\' | b'/')) => simple(c as char),
        Some(b'u') => match code_unit(rest) {
            Some(high @ 0xD800..=0xDBFF) => match rest.get(6..).and_then(code_unit) {
                Some(low @ 0xDC00..=0xDFFF) => {
                    let code = 0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00);
                    (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 12)
                }
                _ => (char::REPLACEMENT_CHARACTER, 6),
            },
            Some(unit) => (char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER), 6),
            None => ('\\', 1),
        },
        _ => ('\\', 1),
    }
}

/// Reads `\uXXXX` at the start of `rest`.
fn code_unit(rest: &str) -> Option<u32> {
    let digits = rest.strip_prefix("\\u")?.get(..4)?;
    digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_mean_what_json_says() {
        for (raw, text) in [
            (r#"a\nb\t\"q\" \\ \/"#, "a\nb\t\"q\" \\ /"),
            (r"\u00e9\u20AC", "é€"),
            (r"\ud83e\udd80!", "🦀!"),
            (r"lone \ud83e here", "lone \u{fffd} here"),
            (r"lone \udd80", "lone \u{fffd}"),
            (r"bad \q \u12 end\", r"bad \q \u12 end\"),
            (r"\ufffd \uFFFD \\ud83e", "\u{fffd} \u{fffd} \\ud83e"),
            ("plain 🦀", "plain 🦀"),
        ] {
            assert_eq!(unescape(raw), text, "{raw}");
            let source = Arc::new(raw.to_owned());
            let text = Text::escaped(&source, 0, raw.len());
            assert_eq!(text.is_exact(), !raw.contains("lone"), "{raw}");
        }
    }
}
