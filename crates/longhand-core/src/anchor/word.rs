//! The words of a text, as far as they may be ids.

/// The shortest and the longest word that can be an id; beyond it lies encoded data.
const WORD_BYTES_MIN: usize = 3;
const WORD_BYTES_MAX: usize = 200;

/// The words of a text, without what stands around them.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c| u8::try_from(c).is_ok_and(is_break)).filter_map(bare)
}

/// A word without its punctuation, unless it is too short or too long for an id.
fn bare(word: &str) -> Option<&str> {
    if word.len() > WORD_BYTES_MAX {
        return None;
    }
    // Takes `ACME-7` from `id=ACME-7`; an address keeps its query.
    let word =
        if word.contains("://") { word } else { word.rsplit('=').next().unwrap_or_default() };
    let word = word.trim_end_matches(['.', ':', '!', '?', '-', '*', '#', '/']);
    (word.len() >= WORD_BYTES_MIN).then_some(word)
}

/// Whether a byte cannot be part of an id.
pub(super) const fn is_break(byte: u8) -> bool {
    byte <= b' '
        || byte == 0x7f
        || matches!(byte, b'"' | b'\'' | b'`' | b',' | b';' | b'|' | b'\\')
        || matches!(byte, b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'<' | b'>')
}
