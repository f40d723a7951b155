//! Words as search sees them.
//!
//! The index keeps words, so a change here needs a migration that rebuilds the index.

use std::borrow::Cow;
use std::ops::Range;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Returns the words of a folded text, in order, with their places.
///
/// A word is a run of letters and digits. Scripts that put no space between words, and symbols
/// such as emoji, count as a word per character, so that words side by side are a substring.
pub(crate) fn words(text: &str) -> impl Iterator<Item = (Range<usize>, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            at = after_ascii(text, at, false);
            let start = at;
            let (first, length) = kind_at(text, start)?;
            at += length;
            match first {
                Kind::Gap => continue,
                Kind::Alone => {}
                Kind::Letter => loop {
                    at = after_ascii(text, at, true);
                    match kind_at(text, at) {
                        Some((Kind::Letter, length)) => at += length,
                        _ => break,
                    }
                },
            }
            return Some((start..at, &text[start..at]));
        }
    })
}

/// Where a run of ASCII ends that is all letters and digits, or has none of them.
fn after_ascii(text: &str, from: usize, is_letters: bool) -> usize {
    let rest = &text.as_bytes()[from..];
    let is_inside = |byte: &u8| byte.is_ascii() && byte.is_ascii_alphanumeric() == is_letters;
    from + rest.iter().position(|byte| !is_inside(byte)).unwrap_or(rest.len())
}

/// The kind and the length of the character in a place; `None` at the end.
fn kind_at(text: &str, at: usize) -> Option<(Kind, usize)> {
    let byte = *text.as_bytes().get(at)?;
    if byte.is_ascii() {
        let is_letter = byte.is_ascii_alphanumeric();
        return Some((if is_letter { Kind::Letter } else { Kind::Gap }, 1));
    }
    let letter = text[at..].chars().next()?;
    Some((kind(letter), letter.len_utf8()))
}

/// Makes spellings that differ only in case, accents or width equal.
pub(crate) fn fold(text: &str) -> Cow<'_, str> {
    if !text.bytes().any(|byte| byte.is_ascii_uppercase() || !byte.is_ascii()) {
        return Cow::Borrowed(text);
    }
    let mut folded = String::with_capacity(text.len());
    let mut rest = text;
    // No letter of ASCII is composed with what follows once accents are gone, so that runs of it
    // can be folded by themselves, which is a hundred times faster.
    while !rest.is_empty() {
        let ascii = rest.bytes().position(|byte| !byte.is_ascii()).unwrap_or(rest.len());
        let start = folded.len();
        folded.push_str(&rest[..ascii]);
        folded[start..].make_ascii_lowercase();
        rest = &rest[ascii..];
        let other = rest.bytes().position(|byte| byte.is_ascii()).unwrap_or(rest.len());
        let bare = rest[..other].nfkd().filter(|letter| !is_accent(*letter));
        folded.extend(bare.nfc().flat_map(char::to_lowercase));
        rest = &rest[other..];
    }
    Cow::Owned(folded)
}

/// Marks on Latin, Greek and Cyrillic letters; those of other scripts make another letter.
fn is_accent(letter: char) -> bool {
    ('\u{300}'..='\u{36f}').contains(&letter)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Gap,
    Letter,
    Alone,
}

/// The kind of a character beyond ASCII.
fn kind(letter: char) -> Kind {
    let is_word = letter.is_alphanumeric() || is_combining_mark(letter);
    match u32::from(letter) {
        // Thai to Myanmar, Hangul, Khmer, and from CJK radicals over kana and Han to Yi.
        0x0e00..=0x109f
        | 0x1100..=0x11ff
        | 0x1780..=0x17ff
        | 0x2e80..=0xa4cf
        | 0xac00..=0xd7ff
        | 0xf900..=0xfaff
        | 0xff66..=0xffdc
        | 0x1_b000..=0x1_b16f
        | 0x2_0000..=0x3_ffff
            if is_word =>
        {
            Kind::Alone
        }
        // Arrows, mathematical signs, dingbats; emoji.
        0x2190..=0x2bff | 0x1_f000..=0x1_faff => Kind::Alone,
        // Selectors of an emoji's look.
        0xfe00..=0xfe0f => Kind::Gap,
        _ if is_word => Kind::Letter,
        _ => Kind::Gap,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let folded = fold(text);
        let found: Vec<&str> = words(&folded).map(|(_, word)| word).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn identifiers_and_paths_are_words_side_by_side() {
        check("see src/sqlite/open.rs:42", &["see", "src", "sqlite", "open", "rs", "42"]);
        check(
            "g-12ab don't GB/s snake_case",
            &["g", "12ab", "don", "t", "gb", "s", "snake", "case"],
        );
    }

    #[test]
    fn case_accents_and_width_do_not_matter() {
        check("Café CAFE\u{301} ＡＢＣ Straße", &["cafe", "cafe", "abc", "straße"]);
    }

    proptest::proptest! {
        #[test]
        fn folding_in_runs_is_folding(text in "[a-zA-Zéßǅ\u{301}\u{338}\u{3099}\u{1100}\u{1161}ｶﾞがＡﬁ数 .]{0,30}") {
            let bare = text.nfkd().filter(|letter| !is_accent(*letter));
            let whole: String = bare.nfc().flat_map(char::to_lowercase).collect();
            proptest::prop_assert_eq!(fold(&text), whole);
        }
    }

    #[test]
    fn scripts_without_spaces_count_by_character() {
        check("数据库abc、がか", &["数", "据", "库", "abc", "が", "か"]);
        check("ไทย 서버", &["ไ", "ท", "ย", "서", "버"]);
    }

    #[test]
    fn emoji_are_words_and_signs_are_not() {
        check("ship 🚀! -> ❤\u{fe0f} * \"", &["ship", "🚀", "❤"]);
        check("", &[]);
    }
}
