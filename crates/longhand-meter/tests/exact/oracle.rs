//! The second opinion on counts.

use longhand_core::Meter;
use longhand_meter::{ImageRule, Vocabulary};

/// Our vocabularies, each with the tokenizer that checks it.
pub(crate) fn vocabularies() -> [(Vocabulary, &'static bpe_openai::Tokenizer); 2] {
    [
        (Vocabulary::o200k(ImageRule::OPENAI_TILES), bpe_openai::o200k_base()),
        (Vocabulary::cl100k(ImageRule::OPENAI_TILES), bpe_openai::cl100k_base()),
    ]
}

/// Checks that a text is counted exactly.
pub(crate) fn check(text: &str) {
    for (vocabulary, oracle) in vocabularies() {
        let start: String = text.chars().take(80).collect();
        assert_eq!(vocabulary.weigh(text, u64::MAX), oracle.count(text) as u64, "{start:?}…");
    }
}

/// Checks a text with an unbroken run: at least the exact count, at most 0.01% and a token for
/// each 12 KiB more.
pub(crate) fn check_upper_bound(text: &str) {
    for (vocabulary, oracle) in vocabularies() {
        let (count, exact) = (vocabulary.weigh(text, u64::MAX), oracle.count(text) as u64);
        let start: String = text.chars().take(80).collect();
        assert!(
            exact <= count && count <= exact + exact / 10_000 + 1 + text.len() as u64 / 12_288,
            "{count} for {exact}: {start:?}…"
        );
    }
}
