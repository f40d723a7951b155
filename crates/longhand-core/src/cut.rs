//! Texts cut to a size in bytes, never inside a character.

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
