//! Words as search sees them.
//!
//! The index keeps words, so a change here needs another version of the index.

use std::borrow::Cow;
use std::ops::Range;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Returns the words of a folded text, in order, with their places.
///
/// A word is a run of letters and digits. Scripts that put no space between words, and symbols
/// such as emoji, count as a word per character, so that words side by side are a substring.
fn words(text: &str) -> impl Iterator<Item = (Range<usize>, &str)> {
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

/// A text in which spellings that differ only in case, accents or width are equal.
#[derive(Debug)]
pub struct Folded<'t> {
    /// The text.
    pub text: Cow<'t, str>,
    /// Where a capital begins a part of a name such as `OrderSerializer`, in order.
    humps: Vec<usize>,
}

/// A word of a folded text.
#[derive(Clone, Copy, Debug)]
pub struct Word<'f> {
    /// Where it begins.
    pub start: usize,
    /// The word.
    pub text: &'f str,
    humps: &'f [usize],
}

/// A name has parts if these have so many letters on average: what has shorter ones is no name.
const PART_BYTES_MIN: usize = 3;

impl<'t> Folded<'t> {
    /// Folds a text.
    pub fn of(text: &'t str) -> Self {
        if !text.bytes().any(|byte| byte.is_ascii_uppercase() || !byte.is_ascii()) {
            return Self { text: Cow::Borrowed(text), humps: Vec::new() };
        }
        let mut folded = String::with_capacity(text.len());
        let mut humps = Vec::new();
        let mut rest = text;
        // No letter of ASCII is composed with what follows once accents are gone, so that runs of it
        // can be folded by themselves, which is a hundred times faster.
        while !rest.is_empty() {
            let ascii = rest.bytes().position(|byte| !byte.is_ascii()).unwrap_or(rest.len());
            let start = folded.len();
            add_humps(&rest.as_bytes()[..ascii], start, &mut humps);
            folded.push_str(&rest[..ascii]);
            folded[start..].make_ascii_lowercase();
            rest = &rest[ascii..];
            let other = rest.bytes().position(|byte| byte.is_ascii()).unwrap_or(rest.len());
            let bare = rest[..other].nfkd().filter(|letter| !is_accent(*letter));
            folded.extend(bare.nfc().flat_map(char::to_lowercase));
            rest = &rest[other..];
        }
        Self { text: Cow::Owned(folded), humps }
    }

    /// Its words, in order.
    pub fn words(&self) -> impl Iterator<Item = Word<'_>> {
        self.words_of(0..self.text.len())
    }

    /// The words of a part of it.
    pub fn words_of(&self, range: Range<usize>) -> impl Iterator<Item = Word<'_>> {
        let first = range.start;
        let mut humps = &self.humps[self.humps.partition_point(|hump| *hump <= first)..];
        words(&self.text[range]).map(move |(place, text)| {
            let (start, end) = (first + place.start, first + place.end);
            let before = humps.iter().take_while(|hump| **hump <= start).count();
            humps = &humps[before..];
            let inside = humps.iter().take_while(|hump| **hump < end).count();
            let (inside, rest) = humps.split_at(inside);
            humps = rest;
            Word { start, text, humps: inside }
        })
    }
}

/// Finds where parts of names begin: at a capital after a small letter or a digit, and at the last of several
/// capitals if a small letter follows.
fn add_humps(ascii: &[u8], start: usize, humps: &mut Vec<usize>) {
    for (at, around) in ascii.windows(2).enumerate() {
        let [before, letter] = [around[0], around[1]];
        if letter.is_ascii_uppercase() && before.is_ascii_alphanumeric() {
            let next = ascii.get(at + 2);
            if !before.is_ascii_uppercase() || next.is_some_and(u8::is_ascii_lowercase) {
                humps.push(start + at + 1);
            }
        }
    }
}

impl<'f> Word<'f> {
    /// Where it ends.
    pub fn end(&self) -> usize {
        self.start + self.text.len()
    }

    /// The parts of a name, each with where it begins; nothing if the word has none. The index knows of the parts only
    /// that they are in the same place, so a word in which one comes twice in a row does not count as a name.
    pub fn parts(&self) -> impl Iterator<Item = (usize, &'f str)> {
        let (start, text, humps) = (self.start, self.text, self.humps);
        let part = move |number: usize| {
            let from = if number == 0 { 0 } else { humps[number - 1] - start };
            let end = humps.get(number).map_or(text.len(), |hump| hump - start);
            (start + from, &text[from..end])
        };
        let is_name = !humps.is_empty()
            && text.len() >= (humps.len() + 1) * PART_BYTES_MIN
            && (0..humps.len()).all(|number| part(number).1 != part(number + 1).1);
        (0..if is_name { humps.len() + 1 } else { 0 }).map(part)
    }
}

/// Whether a character is a word by itself.
pub(crate) fn is_alone(letter: char) -> bool {
    !letter.is_ascii() && kind(letter) == Kind::Alone
}

/// Makes spellings that differ only in case, accents or width equal.
pub fn fold(text: &str) -> Cow<'_, str> {
    Folded::of(text).text
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
        let folded = Folded::of(text);
        let found: Vec<&str> = folded.words().map(|word| word.text).collect();
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
    fn names_have_parts() {
        let parts = |text: &str| -> Vec<String> {
            let folded = Folded::of(text);
            let parts = folded.words().flat_map(|word| word.parts().collect::<Vec<_>>());
            parts.map(|(start, part)| format!("{start}{part}")).collect()
        };
        assert_eq!(
            parts("see OrderSerializer and HTTPServer"),
            ["4order", "9serializer", "24http", "28server"]
        );
        assert_eq!(parts("sha256Sum parseJSON"), ["0sha256", "6sum", "10parse", "15json"]);
        assert_eq!(parts("é OrderUp"), ["2order", "7up"]);
        assert_eq!(parts("plain snake_case CONSTANT Title aB3dE9f xY orderOrder"), [""; 0]);
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
