//! Texts cut to a size in bytes, never inside a character, into lines, and to what is not blank.

/// The start of a text, at most `bytes_max` bytes.
///
/// ```
/// assert_eq!(longhand_core::cut::head("12→code", 4), "12");
/// assert_eq!(longhand_core::cut::head("12→code", 5), "12→");
/// assert_eq!(longhand_core::cut::head("12", 5), "12");
/// ```
pub fn head(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// The end of a text, at most `bytes_max` bytes.
///
/// ```
/// assert_eq!(longhand_core::cut::tail("12→code", 6), "code");
/// assert_eq!(longhand_core::cut::tail("12→code", 7), "→code");
/// assert_eq!(longhand_core::cut::tail("12", 5), "12");
/// ```
pub fn tail(text: &str, bytes_max: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(bytes_max))..]
}

/// The lines of a text: `str::lines`, several times as fast.
///
/// ```
/// let lines: Vec<&str> = longhand_core::cut::lines("one\r\n\ntwo\n").collect();
/// assert_eq!(lines, ["one", "", "two"]);
/// ```
pub fn lines(text: &str) -> impl Iterator<Item = &str> + Clone {
    let mut start = 0;
    let last = Some(text.len()).filter(|_| !text.is_empty() && !text.ends_with('\n'));
    let ends = memchr::memchr_iter(b'\n', text.as_bytes()).chain(last);
    ends.map(move |end| {
        let line = &text[std::mem::replace(&mut start, end + 1)..end];
        line.strip_suffix('\r').filter(|_| end < text.len()).unwrap_or(line)
    })
}

/// A text without the white space around it: `str::trim`, faster where that is ASCII.
///
/// ```
/// use longhand_core::cut::trim;
///
/// assert_eq!(trim(" \t\u{a0}a b\u{2003} \n"), "a b");
/// assert_eq!(trim(" \u{b} "), "");
/// ```
pub fn trim(text: &str) -> &str {
    let bare = text.trim_ascii();
    let is_visible = |end: Option<&u8>| end.is_some_and(u8::is_ascii_graphic);
    let bytes = bare.as_bytes();
    if is_visible(bytes.first()) && is_visible(bytes.last()) { bare } else { bare.trim() }
}
