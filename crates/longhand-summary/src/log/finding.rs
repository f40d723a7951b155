//! How much a sentence of an agent tells: results and reasons do, announcements and praise do not.

use std::sync::LazyLock;

use longhand_core::cut;

/// What a sentence states by its words.
const REASON: u8 = 1;
const RESULT: u8 = 2;

/// Words that give a reason, and words that state a result.
#[rustfmt::skip]
static STATING: LazyLock<Phrases> = LazyLock::new(|| Phrases::of(&[
    (REASON, &[
        "because", "cause", "caused", "due to", "reason", "so that", "which means", "that means", "turns out",
        "the issue is", "the problem is", "the bug", "the fix", "instead", "rather than", "to avoid", "otherwise",
        "therefore", "the difference", "root cause", "that's why", "this is why", "contradicts", "since",
    ]),
    (RESULT, &[
        "fails", "failed", "failing", "passes", "passed", "pass", "works", "doesn't", "does not", "isn't", "is not",
        "aren't", "can't", "cannot", "won't", "wasn't", "didn't", "never", "no longer", "only", "must", "requires", "expects",
        "returns", "means", "missing", "wrong", "unused", "removed", "renamed", "changed", "moved", "replaced",
        "fixed", "restored", "reverted", "is now", "now uses", "default", "depends", "conflict", "deprecated",
        "rejected", "not", "no",
    ]),
]));

/// How announcements begin.
#[rustfmt::skip]
const PLANS: &[&str] = &[
    "let me", "let's", "now let", "now i", "i'll", "i will", "i'm going to", "i am going to", "i need to", "i should",
    "looking", "checking", "next", "first, let", "first let", "first, i", "now ", "time to", "going to", "proceeding",
    "continuing", "moving on", "here's a summary", "here is a summary", "here's what", "starting",
];

/// What a sentence with a colon at its end has if it announces what comes after it.
const INTENTIONS: &[&str] =
    &["let me", "let's", "i'll ", "i will ", "i'm going to ", "i am going to ", "i need to "];

/// Sentences that only praise or confirm.
#[rustfmt::skip]
const PRAISE: &[&str] = &[
    "excellent", "perfect", "great", "good", "done", "nice", "wonderful", "expected", "right", "all good", "ok", "okay",
    "understood", "clear", "i have a clear picture", "i have full context", "now i understand", "i have all the",
    "i now have", "now i have", "almost done", "i see", "all clear", "good progress", "great progress", "all green",
];

/// The most that a sentence can tell.
#[cfg(test)]
const WORTH_MAX: u32 = 4;

/// How much a sentence tells: nothing, or from 1 to 4.
pub(super) fn worth(sentence: &str) -> u32 {
    let low = lowered(sentence);
    let stated = STATING.marks_in(&low);
    let reasons = stated & REASON != 0;
    if is_praise(&low) && !reasons {
        return 0;
    }
    // "Expected — I'll use the alias" announces as well.
    let aside = low.split_once(['—', '–']).map(|(first, rest)| (first.trim(), rest.trim()));
    let rest = aside.filter(|(first, _)| is_praise(first)).map_or(&*low, |(_, rest)| rest);
    if announces(&low) || announces(rest) {
        // "I need to require it in both, since it is a macro" says why; "Let me look for the root cause" does not.
        let only_asks = begins_with_one_of(rest, &["let me", "now let me"]);
        return if reasons && !only_asks && !low.ends_with(':') { 2 } else { 0 };
    }
    1 + 2 * u32::from(reasons) + u32::from(stated & RESULT != 0)
}

/// Whether a sentence announces the next step.
pub(super) fn is_plan(sentence: &str) -> bool {
    announces(&lowered(cut::head(sentence, 120)))
}

fn announces(low: &str) -> bool {
    /// How a line begins that names the next of several steps.
    const STEPS: &[&str] =
        &["first ", "first, ", "second", "then ", "also ", "finally", "same for "];
    begins_with_one_of(low, PLANS)
        || (low.ends_with(':') && begins_with_one_of(low, STEPS))
        || (low.ends_with(':') && INTENTIONS.iter().any(|intention| low.contains(intention)))
}

/// Whether a sentence says no more than that all is well or understood.
fn is_praise(low: &str) -> bool {
    const WORDS_MAX: usize = 9;
    let bare = low.trim_end_matches(['.', '!', ':', ' ']);
    openings(bare, PRAISE).any(|praise| {
        bare.strip_prefix(praise).is_some_and(|rest| {
            rest.is_empty() || (rest.starts_with([' ', ',', '!', '.']) && !rest.contains('`'))
        })
    }) && bare.split(' ').count() <= WORDS_MAX
        && !bare.bytes().any(|byte| byte.is_ascii_digit())
}

/// Whether a text begins with one of these.
pub(super) fn begins_with_one_of(text: &str, known: &[&str]) -> bool {
    openings(text, known).any(|opening| text.starts_with(opening))
}

/// Those that have the first letter of a text.
fn openings<'k>(text: &str, known: &'k [&'k str]) -> impl Iterator<Item = &'k str> {
    let first = text.as_bytes().first().copied();
    known.iter().copied().filter(move |opening| opening.as_bytes().first().copied() == first)
}

fn lowered(sentence: &str) -> String {
    let start = sentence.trim_start_matches(|c: char| !c.is_alphanumeric() && c != '`');
    if start.is_ascii() {
        return start.to_ascii_lowercase();
    }
    start.replace('’', "'").to_lowercase()
}

/// Phrases that are looked for in lower-case texts, each beginning and ending with a word, and a mark of what they say.
///
/// They are kept by their first letter: a search for each of them in each sentence took longer than all else.
pub(super) struct Phrases {
    by_letter: [PhraseList; 26],
    /// All marks that there are.
    marks: u8,
}

/// Phrases that begin with the same letter.
#[derive(Default)]
struct PhraseList {
    /// The letters that come second in them, as bits.
    seconds: u32,
    phrases: Vec<(u8, &'static [u8])>,
}

impl Phrases {
    pub(super) fn of(lists: &[(u8, &[&'static str])]) -> Self {
        let mut all = Self { by_letter: Default::default(), marks: 0 };
        for (mark, phrases) in lists {
            all.marks |= mark;
            for phrase in *phrases {
                let &[first, second, ..] = phrase.as_bytes() else { continue };
                let letters = letter_of(first).zip(letter_of(second));
                debug_assert!(letters.is_some(), "{phrase} begins with no two letters");
                let Some((first, second)) = letters else { continue };
                let list = &mut all.by_letter[first];
                list.seconds |= 1 << second;
                list.phrases.push((*mark, phrase.as_bytes()));
            }
        }
        all
    }

    /// Whether a text has one of them.
    pub(super) fn are_in(&self, low: &str) -> bool {
        self.marks_in(low) != 0
    }

    /// The marks of those that a text has.
    fn marks_in(&self, low: &str) -> u8 {
        let bytes = low.as_bytes();
        let (mut is_inside, mut found) = (false, 0);
        for (at, pair) in bytes.windows(2).enumerate() {
            let begins = !std::mem::replace(&mut is_inside, is_of_word(pair[0]));
            if !begins || !is_inside {
                continue;
            }
            let letters = letter_of(pair[0]).zip(letter_of(pair[1]));
            let Some((first, second)) = letters else { continue };
            let list = &self.by_letter[first];
            if list.seconds & (1 << second) == 0 {
                continue;
            }
            let rest = &bytes[at..];
            for (mark, phrase) in &list.phrases {
                let ends = || !rest.get(phrase.len()).is_some_and(|byte| is_of_word(*byte));
                if rest.starts_with(phrase) && ends() {
                    found |= mark;
                }
            }
            if found == self.marks {
                break;
            }
        }
        found
    }
}

fn letter_of(byte: u8) -> Option<usize> {
    byte.is_ascii_lowercase().then(|| usize::from(byte - b'a'))
}

/// Whether a byte is part of a word of ASCII.
pub(super) fn is_of_word(byte: u8) -> bool {
    const OF_WORD: [bool; 256] = {
        let mut table = [false; 256];
        let mut byte = 0_u8;
        while byte < 128 {
            table[byte as usize] = byte.is_ascii_alphanumeric() || byte == b'_';
            byte += 1;
        }
        table
    };
    OF_WORD[usize::from(byte)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announcements_and_praise_tell_nothing() {
        for sentence in [
            "First let me see where we left off:",
            "Now I'll add the route.",
            "Perfect!",
            "Good, it works now.",
            "I have a clear picture of the code.",
            "Great! Now let me run the tests:",
            "Let me start with the investigation of the root cause.",
            "Let me run the tests to verify the fix works.",
            "This is larger, so I'll do it in two steps:",
            "First the write at line 253:",
            "Expected — I'll use that alias in the next edits of the file.",
        ] {
            assert_eq!(worth(sentence), 0, "{sentence}");
        }
    }

    #[test]
    fn a_phrase_begins_and_ends_with_a_word() {
        let phrases = Phrases::of(&[(1, &["no", "do not", "don't"])]);
        for (text, expected) in [
            ("no, never", true),
            ("please do not push", true),
            ("i don't", true),
            ("nothing is known", false),
            ("do nothing", false),
            ("piano", false),
            ("x_no", false),
        ] {
            assert_eq!(phrases.are_in(text), expected, "{text}");
        }
    }

    #[test]
    fn reasons_and_results_tell_most() {
        let order = [
            "The wheel turns.",
            "The wheel does not turn.",
            "The wheel does not turn, because `drain` runs first.",
        ];
        let worths: Vec<u32> = order.iter().map(|sentence| worth(sentence)).collect();
        assert!(worths.is_sorted() && worths[2] == WORTH_MAX, "{worths:?}");
        assert_eq!(worth("I need to require it in both files, since it is a macro."), 2);
    }
}
