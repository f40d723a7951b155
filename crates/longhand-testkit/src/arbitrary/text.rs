//! Texts as people, models and tools write them.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// A text that neither begins nor ends with white space; mostly short, seldom 8 KB.
pub(super) fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        12 => vec(piece(), 1..12).prop_map(|pieces| joined(&pieces)),
        4 => (vec(piece(), 4..16), 2..8_usize).prop_map(|(pieces, times)| repeated(&pieces, times)),
        1 => (vec(piece(), 16..24), 16..24_usize)
            .prop_map(|(pieces, times)| repeated(&pieces, times)),
    ]
}

/// A text that may end in a newline, as outputs do.
pub(super) fn output() -> impl Strategy<Value = String> {
    (text(), any::<bool>()).prop_map(|(text, newline)| if newline { text + "\n" } else { text })
}

fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => select(WORDS).prop_map(|word| format!("{word} ")),
        4 => select(FACTS).prop_map(|fact| format!("{fact} ")),
        2 => (select(WORDS), 0..100_000_u32).prop_map(|(word, n)| format!("{word}-{n} ")),
        2 => select(AWKWARD).prop_map(str::to_owned),
    ]
}

fn joined(pieces: &[String]) -> String {
    let text = pieces.concat();
    let text = text.trim();
    if text.is_empty() { "ok".to_owned() } else { text.to_owned() }
}

/// Numbers every repetition, so that no two lines are alike.
fn repeated(pieces: &[String], times: usize) -> String {
    let chunk = joined(pieces);
    (1..=times).map(|n| format!("{n}: {chunk}")).collect::<Vec<_>>().join("\n")
}

#[rustfmt::skip]
pub(super) const WORDS: &[&str] = &[
    "the", "build", "fails", "again", "please", "read", "and", "then", "fix", "it", "because", "window",
    "archive", "session", "token", "never", "always", "test", "passes", "now", "look", "at", "lines", "in",
];

#[rustfmt::skip]
pub(super) const FACTS: &[&str] = &[
    "src/fold.rs:214", "g-7f3k2", "s-91ac04d7", "TW-412", "9f2c1ab", "https://example.org/a?b=c&d=1",
    "v0.7.3", "0x1F", "42%", "$19.99", "E0308", "Decision: keep 512 slots, because size is not the cause.",
    "Never edit files under vendor/.", "Blocked: the fixture is missing.", "/etc/hosts",
    "Is the cursor signed?", "f47ac10b-58cc-4372-a567-0e02b2c3d479", "2025-03-11T09:14:22Z", "<b>&amp;</b>",
];

#[rustfmt::skip]
pub(super) const AWKWARD: &[&str] = &[
    "\n", "\t", "\n\n", "\"quoted\" ", "back\\slash ", "\u{1}", "\u{7f}", "\r\n", "naïve ", "東京の天気 ", "שלום ",
    "😀👩\u{200d}👩\u{200d}👧 ", "e\u{301} ", "\u{a0}", "\u{2028}", "\u{feff}", "```rust\nfn main() {}\n```\n",
    "</tool_result> ", "<|endoftext|> ", "{\"json\": [1, 2]} ", "| a | b |\n|---|---|\n", "%s \\n \\u0041 ",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa ", "\u{1b}[31mred\u{1b}[0m ",
];
