//! Texts that break code which cuts or searches by bytes.
//!
//! A crate has a table of its functions that take text, and calls each with all of these: see [`call_all`].

use crate::json;
use crate::rng::Rng;

/// A function that takes text, by its name.
pub type Taker = (&'static str, fn(&str));

/// Calls every function of a table with every text. A panic says which function it was.
pub fn call_all(takers: &[Taker]) {
    let times = std::env::var("LONGHAND_TIMES").ok().and_then(|times| times.parse().ok());
    let texts: Vec<String> = shifted().chain((0..150 * times.unwrap_or(1)).map(mixed)).collect();
    for (name, take) in takers {
        let told = PanicNote { name };
        for text in &texts {
            take(text);
        }
        drop(told);
    }
}

/// Takes what a function returned, so that it is not left out as unused.
pub fn seen<T>(value: T) {
    drop(std::hint::black_box(value));
}

/// Says what was called when a call panics.
struct PanicNote {
    name: &'static str,
}

impl Drop for PanicNote {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("this was in {}", self.name);
        }
    }
}

/// Long texts of one character each, behind zero, one, … bytes: whatever number of bytes a function cuts at, that
/// is inside a character in one of them.
pub fn shifted() -> impl Iterator<Item = String> {
    const CHARACTERS: [&str; 4] = ["é", "→", "😀", "→\n"];
    const REPEATS: [usize; 4] = [9, 70, 900, 12_000];
    let longest = (0..3).map(|shift| "a".repeat(shift) + &"→".repeat(45_000));
    let all = CHARACTERS.iter().flat_map(|character| {
        REPEATS.iter().flat_map(move |repeats| {
            (0..character.len()).map(move |shift| "a".repeat(shift) + &character.repeat(*repeats))
        })
    });
    all.chain(longest)
}

/// A text of words that Longhand looks for, with characters of every kind beside them and no space between.
pub fn mixed(seed: u64) -> String {
    let mut rng = Rng::new(seed);
    let mut text = String::new();
    let pieces = if seed.is_multiple_of(16) { rng.range(200..900) } else { rng.range(1..40) };
    for number in 0..pieces {
        match rng.range(0..12) {
            0..5 => text.push_str(rng.choose::<&str>(CUES)),
            5..9 => text.push_str(rng.choose::<&str>(CHARACTERS)),
            9 => text.push_str(&format!("{:>6}→", number * 7)),
            10 => text.push_str(rng.choose::<&str>(&["\n", " ", "\r\n", "\n\n", ": "])),
            _ => {
                // The same thing many times makes a long line.
                let piece = rng.choose::<&str>(CHARACTERS);
                text.push_str(&piece.repeat(rng.range(1..200)));
            }
        }
    }
    text
}

/// A conversation of Chat Completions whose words, arguments and results are [`mixed`] texts and long ones.
pub fn conversation(seed: u64) -> String {
    let long: Vec<String> = shifted().collect();
    let text = |number: u64| match number % 9 {
        8 => json::quote(&long[(seed * 31 + number) as usize % long.len()]),
        _ => json::quote(&mixed(seed * 1_000 + number)),
    };
    let turn = |number: u64| {
        let (asked, said) = (text(number * 4), text(number * 4 + 1));
        let (wanted, found) = (text(number * 4 + 2), text(number * 4 + 3));
        let arguments = json::quote(&format!("{{\"command\":{wanted}}}"));
        format!(
            "{{\"role\":\"user\",\"content\":{asked}}},\n\
             {{\"role\":\"assistant\",\"content\":{said},\"tool_calls\":[{{\"id\":\"c{number}\",\
             \"type\":\"function\",\"function\":{{\"name\":\"bash\",\"arguments\":{arguments}}}}}]}},\n\
             {{\"role\":\"tool\",\"tool_call_id\":\"c{number}\",\"content\":{found}}}"
        )
    };
    format!("[{}]", (0..40).map(turn).collect::<Vec<_>>().join(",\n"))
}

/// Characters of two to four bytes, and those that are no letters: arrows, emoji with joiners and skin colours,
/// combining marks, wide scripts, right-to-left text and its marks, spaces of every width, boxes, controls.
#[rustfmt::skip]
pub const CHARACTERS: &[&str] = &[
    "→", "⎿", "…", "—", "“", "’", "é", "ß", "İ", "ŉ", "ﬁ", "Å", "e\u{301}", "a\u{308}\u{323}\u{35c}",
    "😀", "👩\u{200d}👩\u{200d}👧", "👍🏽", "🇩🇪", "❤\u{fe0f}", "東京", "。", "？", "한국어", "नमस्ते", "ไทย", "שלום", "مرحبا",
    "\u{202e}txt\u{202c}", "\u{2066}a\u{2069}", "\u{200b}", "\u{200d}", "\u{feff}", "\u{ad}", "\u{a0}", "\u{3000}",
    "\u{2003}", "\u{2028}", "\u{2029}", "\u{85}", "─", "│", "└──", "█", "✓", "✗", "•", "\0", "\u{1}", "\u{7f}",
    "\u{1b}[31m", "\u{1b}[0m", "\u{1b}[", "\u{1b}", "\u{fffd}", "\u{e000}", "\u{10ffff}", "\u{e0041}", "\\", "\\u",
    "\\u00", "\\ud83e", "\\ud83e\\udd80", "\\\"", "\"", "'", "`", "\t", "\r", "𝒳", "Ⅷ", "１２",
];

/// What the readers of texts look for.
#[rustfmt::skip]
const CUES: &[&str] = &[
    "fatal: ", "FATAL", "ERROR", "Failed", "failed:", "failure[", "panic", "panicked at ", "error", "error: ", "error TS1: ",
    "TypeError: ", "Traceback (most recent call last)", "FAIL ", "exit code 1", "Decision: ", "decided", "Blocked: ",
    "unblocked", "open question", "must", "never", "because", "since ", "e.g.", "i.e.", "no.", "?", "!", ".", ":",
    "test result: ok. 3 passed; 0 failed", "12 passed, 1 failed in 0.3s", "[main 1a2b3c4] subject", "On branch main",
    "cargo test", "npm run lint && ", "$ ", "```", "```rust", "~~~", "<system-reminder>", "</system-reminder>",
    "<task_result>", "<command-name>", "<think>", "</think>", "<quote", "--- a/src/a.rs", "+++ b/src/a.rs",
    "*** Update File: src/a.rs", "@@ -1,2 +1,2 @@", "diff --git a/x b/x", "/home/u/project/src/main.rs", "src/lib.rs:12:5",
    "g-7f3k2", "--option", "#12", "h:0t3pyr0jk00x", "[longhand stub h:0t3pyr0jk00x: ", "[longhand fold h:0t3pyr0jk00x: ",
    "The user said:", "Decided:", "- [x] ", "- ", "1. ", "# ", "| a |", "I ran this command:", "And got this output:",
    "Observation: ", "(Open file: /a/b.py)", "{\"a\": \"", "\"}", "{\"role\":\"user\",\"content\":\"", "[1, 2]", "null",
    "maximum context length is 8192 tokens", "resulted in 9,999 tokens", "prompt is too long: ", "Bearer sk-aaaaaaaaaaaaaaaaaaaa",
    "AKIAIOSFODNN7EXAMPLE", "data: ", "event: ", "[DONE]", "claude-opus-4-20250514", "gpt-4o-2024-08-06", "ft:", ":free",
    "2026-11-17T20:00:00Z", "3d", "<|im_start|>", "user:", "Assistant: ", "cat <<'EOF' > a.txt", "rm -rf ", "sed -i ",
    "I am ", "allergic", "thank you", "Perfect!", "Let me ", "yes", "JSON",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_bytes_is_inside_a_character() {
        for bytes in 1..30_000 {
            assert!(shifted().any(|text| text.len() > bytes && !text.is_char_boundary(bytes)));
        }
    }

    #[test]
    fn mixed_texts_are_the_same_each_time() {
        assert_eq!(mixed(3), mixed(3));
        assert_ne!(mixed(3), mixed(4));
    }
}
