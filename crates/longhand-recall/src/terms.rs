//! What the index calls a word.

use std::borrow::Cow;

use longhand_core::cut;

/// A word of at most so many bytes is its own term.
const TERM_BYTES_MAX: usize = 60;
/// So many bytes of a longer word are in its term, before a hash of all of it.
const HEAD_BYTES: usize = 44;
/// A shorter word is no number or hash that somebody copied.
const OPAQUE_BYTES_MIN: usize = 12;

/// The term of a word.
pub fn term(word: &str) -> Cow<'_, str> {
    if word.len() <= TERM_BYTES_MAX {
        return Cow::Borrowed(word);
    }
    let hash = blake3::hash(word.as_bytes()).to_hex();
    Cow::Owned(format!("{}{}", cut::head(word, HEAD_BYTES), &hash[..TERM_BYTES_MAX - HEAD_BYTES]))
}

/// What the terms of all words begin with that begin with a stem; other terms may, too.
pub fn term_beginning(stem: &str) -> &str {
    if stem.len() <= HEAD_BYTES { stem } else { cut::head(stem, HEAD_BYTES) }
}

/// Whether nobody looks for the middle of a word: that of an id, of a hash or of encoded bytes. Of these, only
/// beginnings are found.
pub fn is_opaque(word: &str) -> bool {
    let digits = || word.bytes().filter(u8::is_ascii_digit).count();
    word.len() > TERM_BYTES_MAX || (word.len() >= OPAQUE_BYTES_MIN && digits() * 4 >= word.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_are_told_apart_by_all_of_them() {
        let long = "a".repeat(70);
        let other = format!("{long}b");
        assert_ne!(term(&long), term(&other));
        assert!(term(&long).len() <= TERM_BYTES_MAX);
        assert!(term(&other).starts_with(term_beginning(&long)));
        assert_eq!(term("short"), "short");
        let wide = "数".repeat(40);
        assert!(term(&wide).starts_with(term_beginning(&wide)));
    }

    #[test]
    fn ids_are_opaque() {
        for (word, expected) in [
            ("4d8461b77aa1", true),
            ("abcdefabcdef", false),
            ("word3", false),
            ("part12345678", true),
            ("configuration", false),
        ] {
            assert_eq!(is_opaque(word), expected, "{word}");
        }
    }
}
