//! Texts as people, models and tools write them.

use proptest::prelude::*;

use crate::rng::Rng;
use crate::texts::CHARACTERS;

/// A text that neither begins nor ends with white space; mostly short, seldom 8 KB.
///
/// Its pieces come from a seed, which costs less than a strategy for each. A failing text still shrinks, by pieces
/// at its end.
pub(super) fn text() -> impl Strategy<Value = String> {
    let sizes = prop_oneof![
        12 => (1..12_usize, Just(1)),
        4 => (4..16_usize, 2..8_usize),
        1 => (16..24_usize, 16..24_usize),
    ];
    (any::<u64>(), sizes).prop_map(|(seed, (pieces, times))| {
        let chunk = chunk(seed, pieces);
        if times == 1 { chunk } else { repeated(&chunk, times) }
    })
}

/// A text that may end in a newline, as outputs do.
pub(super) fn output() -> impl Strategy<Value = String> {
    (text(), any::<bool>()).prop_map(|(text, newline)| if newline { text + "\n" } else { text })
}

fn chunk(seed: u64, pieces: usize) -> String {
    let mut rng = Rng::new(seed);
    let mut text = String::new();
    for _ in 0..pieces {
        push_piece(&mut text, &mut rng);
    }
    let text = text.trim();
    if text.is_empty() { "ok".to_owned() } else { text.to_owned() }
}

fn push_piece(text: &mut String, rng: &mut Rng) {
    match rng.range(0..18) {
        0..8 => text.extend([*rng.choose(WORDS), " "]),
        8..12 => text.extend([*rng.choose(FACTS), " "]),
        12..14 => {
            let (word, number) = (rng.choose(WORDS), rng.range(0..100_000));
            text.push_str(&format!("{word}-{number} "));
        }
        14..16 => text.extend([*rng.choose(AWKWARD)]),
        16 => text.extend([*rng.choose(CHARACTERS), *rng.choose(FACTS)]),
        // A file as agents read it.
        _ => {
            let first = rng.range(1..2_000);
            let lines = (first..first + 5).map(|n| format!("\n{n:>6}→{}", rng.choose(FAILURES)));
            text.push_str(&lines.collect::<String>());
        }
    }
}

/// Numbers every repetition, so that no two lines are alike.
fn repeated(chunk: &str, times: usize) -> String {
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

/// What stands behind the number of a line.
const FAILURES: &[&str] =
    &["Failed to fetch: timeout", "fatal: no", "error: gone", "TypeError: x", "}", "panic(\"a\")"];

#[rustfmt::skip]
pub(super) const AWKWARD: &[&str] = &[
    "\n", "\t", "\n\n", "\"quoted\" ", "back\\slash ", "\u{1}", "\u{7f}", "\r\n", "naïve ", "東京の天気 ", "שלום ",
    "😀👩\u{200d}👩\u{200d}👧 ", "e\u{301} ", "\u{a0}", "\u{2028}", "\u{feff}", "```rust\nfn main() {}\n```\n",
    "</tool_result> ", "<|endoftext|> ", "{\"json\": [1, 2]} ", "| a | b |\n|---|---|\n", "%s \\n \\u0041 ",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa ", "\u{1b}[31mred\u{1b}[0m ",
];
