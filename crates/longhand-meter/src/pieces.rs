//! Cuts a text where its count does not change.

use longhand_core::cut;

/// The least and the most that a piece aims at: a small limit is passed within a small piece.
const PIECE_BYTES: std::ops::RangeInclusive<usize> = 256..=4 * 1024;

/// The longest stretch without a safe place that is counted whole.
///
/// A multiple of 3, 48 and 128: the lengths of digit groups and of the longest tokens for lines and
/// spaces, so that a rule of `─` or a page of blanks is seldom cut inside a token.
const RUN_BYTES_MAX: usize = 3 * 1024;

/// Counts `text` piece by piece with `count`; stops once it is over `limit`.
///
/// The sum is the count of the whole, as long as every piece ends at a safe place. A run of more than
/// [`RUN_BYTES_MAX`] bytes without one is cut regardless, because merging a run takes more than linear
/// time; each such cut is charged a token, so that the sum errs on the safe side.
pub(crate) fn count_in_pieces(text: &str, limit: u64, count: impl Fn(&str) -> u64) -> u64 {
    let mut sum = 0;
    let bytes = usize::try_from(limit).unwrap_or(usize::MAX).saturating_mul(8);
    for piece in pieces(text, bytes.clamp(*PIECE_BYTES.start(), *PIECE_BYTES.end())) {
        sum += count(piece.text) + u64::from(piece.forced);
        if sum > limit {
            break;
        }
    }
    sum
}

struct TextPiece<'t> {
    text: &'t str,
    /// Whether it was cut where the count may change.
    forced: bool,
}

/// Cuts `text` into pieces of about `bytes`.
fn pieces(text: &str, bytes: usize) -> impl Iterator<Item = TextPiece<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (length, forced) = piece_len(rest, bytes);
        let (text, after) = rest.split_at(length);
        rest = after;
        (!text.is_empty()).then_some(TextPiece { text, forced })
    })
}

fn piece_len(text: &str, bytes: usize) -> (usize, bool) {
    if text.len() <= bytes {
        return (text.len(), false);
    }
    if let Some(place) = last_safe_place(cut::head(text, bytes)) {
        return (place, false);
    }
    if text.len() <= RUN_BYTES_MAX {
        return (text.len(), false);
    }
    let far = cut::head(text, RUN_BYTES_MAX.max(bytes));
    last_safe_place(far).map_or((far.len(), true), |place| (place, false))
}

fn last_safe_place(run: &str) -> Option<usize> {
    let chars = run.char_indices().rev();
    let mut pairs = chars.clone().skip(1).zip(chars);
    let (_, (place, _)) = pairs.find(|((_, before), (_, after))| is_safe(*before, *after))?;
    Some(place)
}

/// Whether a pre-token must end between two characters, whatever is around them.
///
/// In the patterns of `o200k` and `cl100k` a space only ever follows whitespace within a pre-token, a
/// letter is followed by letters, marks and contractions, a digit by digits. Between punctuation and
/// what comes next nothing is certain: it may take line breaks, slashes or a word.
fn is_safe(before: char, after: char) -> bool {
    (after == ' ' && !before.is_whitespace())
        || (is_letter(before) && ends_word(after))
        || (before.is_ascii_digit() && after.is_ascii() && !after.is_ascii_digit())
}

fn is_letter(char: char) -> bool {
    char.is_ascii_alphabetic()
        || matches!(char, 'ぁ'..='ゖ' | 'ァ'..='ヺ' | 'ー' | '㐀'..='䶿' | '一'..='鿿' | '가'..='힣')
}

fn ends_word(char: char) -> bool {
    if char.is_ascii() {
        !char.is_ascii_alphabetic() && char != '\''
    } else {
        matches!(char, '、'..='〃' | '〈'..='】' | '・' | '！' | '（' | '）' | '，' | '．' | '：' | '；' | '？')
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tiktoken::CoreBpe;

    /// One character of every kind that the patterns tell apart, and the likely traps.
    const NASTY: &str = "aZsStTdlLrRvVeEmM'’09²٣Ⅷ \u{a0}\u{3000}\u{85}\u{2028}\t\u{b}\u{c}\r\n/.,!-_\
                         (\"<|>{}éßÉǅʰſKªا字々〇〆ーゞ゙あア゠・한ᄀ、。，！？「」…\u{301}\u{200d}\u{fe0f}😀👨\u{0}\u{7f}";

    fn vocabularies() -> [&'static CoreBpe; 2] {
        ["o200k_base", "cl100k_base"].map(|name| tiktoken::get_encoding(name).unwrap())
    }

    fn check_places(text: &str) {
        let chars: Vec<(usize, char)> = text.char_indices().collect();
        let places = chars.windows(2).filter(|pair| is_safe(pair[0].1, pair[1].1));
        for (head, tail) in places.map(|pair| text.split_at(pair[1].0)) {
            for oracle in [bpe_openai::o200k_base(), bpe_openai::cl100k_base()] {
                let parts = oracle.split(head).chain(oracle.split(tail));
                assert!(parts.eq(oracle.split(text)), "{head:?} + {tail:?}");
            }
            for vocabulary in vocabularies() {
                let parts = vocabulary.count(head) + vocabulary.count(tail);
                assert_eq!(parts, vocabulary.count(text), "{head:?} + {tail:?}");
            }
        }
    }

    fn nasty_text(chars_max: usize) -> impl Strategy<Value = String> {
        let alphabet: Vec<char> = NASTY.chars().collect();
        prop::collection::vec(prop::sample::select(alphabet), 0..chars_max)
            .prop_map(|chars| chars.into_iter().collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..Default::default() })]

        #[test]
        fn a_safe_place_changes_no_count(text in nasty_text(12)) {
            check_places(&text);
        }

        #[test]
        fn a_safe_place_changes_no_count_in_ascii(text in "[ a-cA-C'sStT019\\r\\n/.!\\-]{0,12}") {
            check_places(&text);
        }
    }

    #[test]
    fn every_character_is_safe_where_it_is_called_so() {
        for char in ('\0'..=char::MAX).filter(|&char| is_letter(char) || ends_word(char)) {
            for before in ["字", "a", " あ", "!", "'"] {
                check_places(&format!("{before}{char}、b"));
                check_places(&format!("{before}{char}。\n"));
            }
        }
    }

    #[test]
    fn pieces_are_the_text() {
        let words = "let x = 1; // 漢字、かな。\r\n".repeat(2_000);
        for text in ["", "a", &words, &"a".repeat(10_000), &"😀".repeat(5_000)] {
            for bytes in [256, 1_000, 4_096] {
                let joined: String = pieces(text, bytes).map(|piece| piece.text).collect();
                assert_eq!(joined, text);
                assert!(pieces(text, bytes).all(|piece| piece.text.len() <= 4_096));
            }
        }
        assert!(pieces(&words, 4_096).count() > 10);
    }
}
