//! Counts agree with an implementation that shares no code with ours.

use longhand_core::Meter;
use longhand_meter::{Cached, ImageRule, Vocabulary};
use proptest::prelude::*;

mod oracle;
mod recorded;
mod texts;

use oracle::{check, check_upper_bound, vocabularies};

#[test]
fn counts_of_many_kinds_of_text_are_exact() {
    for text in [
        "",
        " ",
        "hello world",
        "I'm sure they'LL say it's theirs, don't you'd?",
        "fn main() {\n    println!(\"{:>8}\", 0x1F_u32);\n}\n",
        "{\"id\":\"call_9f3\",\"args\":{\"path\":\"/etc/hosts\",\"n\":[1,22,333,4444]}}",
        "line one\r\nline two\r\n\r\n\tindented\r\n",
        "   leading, trailing   ",
        "a\u{a0}b\u{3000}c\u{2028}d\u{85}e\u{b}f",
        "東京特許許可局、今日は。「はい」！？ 한국어 문장입니다. 中文，没有空格。",
        "👨‍👩‍👧‍👦 🏳️‍🌈 ✊🏽 é e\u{301} ǅ ſ K 'ſ",
        "https://example.com/a/b?c=%20&d=#e.\n/f//g",
        "<|endoftext|><|im_start|>system<|fim_prefix|><|endofprompt|>",
        "٣١٤١٥٩ Ⅷ ² 12345678901234567890",
        "\0\u{1}\u{7f}\u{feff}\u{fffd} end",
    ] {
        check(text);
        check(&text.repeat(50));
        check(&text.repeat(1_000));
    }
}

#[test]
fn special_tokens_are_ordinary_text() {
    for (vocabulary, _) in vocabularies() {
        assert!(vocabulary.weigh("<|endoftext|>", u64::MAX) > 1);
    }
}

#[test]
fn unbroken_runs_are_counted_in_pieces() {
    check_runs(&["a", "Z", "0", " ", "\t", "\n", "-", "=", "*", "─", "—", "…", "═", "│", "█"]);
}

#[test]
fn unbroken_runs_of_other_scripts_are_counted_in_pieces() {
    check_runs(&[
        "-=",
        "\u{3000}",
        "字",
        "あ",
        "한",
        "é",
        "ا",
        "😀",
        "👨‍👩‍👧",
        "ab",
        " \n",
        "\r\n",
        "'s",
    ]);
}

fn check_runs(patterns: &[&str]) {
    for pattern in patterns {
        for bytes in [1_000, 3_000, 12_288, 12_300, 50_000, 200_000] {
            let run = pattern.repeat(bytes / pattern.len());
            check_upper_bound(&run);
            check_upper_bound(&format!("let rule = \"{run}\"; // done"));
        }
    }
}

/// Random letters of an alphabet, always the same.
fn random(alphabet: &str, length: usize) -> String {
    let alphabet: Vec<char> = alphabet.chars().collect();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let letters = (0..length).map(|_| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        alphabet[(state >> 33) as usize % alphabet.len()]
    });
    letters.collect()
}

#[test]
fn runs_without_a_break_are_never_counted_low_nor_high_by_a_thousandth() {
    let letters = "abcdefghijklmnopqrstuvwxyz";
    let mut runs: Vec<String> = vec![
        random("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", 60_000),
        random("0123456789abcdef", 60_000),
        random(letters, 60_000),
        random("ACGT", 60_000),
        random("01", 60_000),
        random("=-#*_~", 60_000),
        random("字あ한éا😀", 20_000),
        random("─═│█…", 20_000),
    ];
    for length in [2, 3, 5, 7, 16, 33, 100] {
        runs.push(random(letters, length).repeat(60_000 / length));
        runs.push(random("-=*#", length).repeat(60_000 / length));
        runs.push(random(" \t", length).repeat(60_000 / length));
    }
    for one in ["a", " ", "\t", "\n", "=", "─", "字"] {
        runs.push(one.repeat(60_000));
    }
    for run in runs {
        for (vocabulary, oracle) in vocabularies() {
            let (count, exact) = (vocabulary.weigh(&run, u64::MAX), oracle.count(&run) as u64);
            let start: String = run.chars().take(40).collect();
            assert!(
                exact <= count && count <= exact + exact / 1_000 + 1,
                "{count} for {exact}: {start:?}…"
            );
        }
    }
}

#[test]
fn a_limit_stops_the_count() {
    let text = "All work and no play. ".repeat(1_000_000);
    let meter = Vocabulary::o200k(ImageRule::OPENAI_TILES);
    let count = meter.weigh(&text, 1_000);
    assert!(count > 1_000 && count < 5_000);
}

#[test]
fn a_limit_is_only_ever_exceeded_truly() {
    let text = "All work, no play; 12 times a day.\n".repeat(400);
    for (meter, _) in vocabularies() {
        let exact = meter.weigh(&text, u64::MAX);
        for limit in [0, 1, exact / 2, exact - 1, exact, exact + 1] {
            let count = meter.weigh(&text, limit);
            assert!(count == exact || (exact > limit && count > limit));
        }
    }
}

#[test]
fn a_cache_changes_no_count() {
    let texts: Vec<String> = (0..200).map(|n| "All work, no play; 12 a day.\n".repeat(n)).collect();
    for (meter, _) in vocabularies() {
        let cached = Cached::new(meter);
        let check_all = || {
            for text in texts.iter().chain(&texts) {
                assert_eq!(cached.weigh(text, u64::MAX), meter.weigh(text, u64::MAX));
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(check_all);
            }
        });
    }
}

fn chunks(parts: &'static [&'static str], chunks_max: usize) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(parts), 0..chunks_max)
        .prop_map(|parts| parts.concat())
}

const NASTY: &[&str] = &[
    "a",
    "Z",
    "s",
    "'",
    "'s",
    "'LL",
    "’",
    "0",
    "99",
    "²",
    " ",
    "  ",
    "\u{a0}",
    "\u{3000}",
    "\t",
    "\r",
    "\n",
    "\r\n",
    "/",
    ".",
    "!",
    "//",
    "_",
    "(",
    "<|endoftext|>",
    "é",
    "É",
    "ǅ",
    "ʰ",
    "ſ",
    "ا",
    "字",
    "々",
    "〇",
    "ー",
    "あ",
    "ア",
    "・",
    "한",
    "、",
    "。",
    "！",
    "\u{301}",
    "\u{200d}",
    "😀",
    "👨‍👩‍👧",
    "\0",
];

const CODE: &[&str] = &[
    "let ",
    "x",
    " = ",
    "camelCase",
    "HTTPServer",
    "snake_case",
    "0xff",
    "1_000.5",
    "\n",
    "\n    ",
    "\t",
    "// ",
    "/* ",
    "*/",
    "{",
    "}",
    "()",
    ";\n",
    "\"",
    "\\n",
    "'a'",
    "don't",
    "&&",
    "->",
    "::",
    "<T>",
    "#[",
    "https://a.b/c?d=e",
    "YWJjZGVm",
    "==",
    "}\r\n\r\n",
    "{\"k\":",
    "null,",
    "[1, 2]",
    "漢字",
    "😀",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..Default::default() })]

    #[test]
    fn nasty_texts_are_exact(text in chunks(NASTY, 60)) {
        check(&text);
    }

    #[test]
    fn code_is_exact(text in chunks(CODE, 60)) {
        check(&text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..Default::default() })]

    #[test]
    fn long_nasty_texts_are_exact(text in chunks(NASTY, 12_000)) {
        check(&text);
    }

    #[test]
    fn long_code_is_exact(text in chunks(CODE, 8_000)) {
        check(&text);
    }
}
