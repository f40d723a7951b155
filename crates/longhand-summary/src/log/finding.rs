//! How much a sentence of an agent tells: results and reasons do, announcements and praise do not.

use longhand_core::cut;

/// Words that give a reason.
#[rustfmt::skip]
const REASONS: &[&str] = &[
    "because", "cause", "caused", "due to", "reason", "so that", "which means", "that means", "turns out",
    "the issue is", "the problem is", "the bug", "the fix", "instead", "rather than", "to avoid", "otherwise",
    "therefore", "the difference", "root cause", "that's why", "this is why", "contradicts", "since",
];

/// Words that state a result.
#[rustfmt::skip]
const RESULTS: &[&str] = &[
    "fails", "failed", "failing", "passes", "passed", "pass", "works", "doesn't", "does not", "isn't", "is not",
    "aren't", "can't", "cannot", "won't", "wasn't", "didn't", "never", "no longer", "only", "must", "requires", "expects",
    "returns", "means", "missing", "wrong", "unused", "removed", "renamed", "changed", "moved", "replaced",
    "fixed", "restored", "reverted", "is now", "now uses", "default", "depends", "conflict", "deprecated",
    "rejected", "not", "no",
];

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
    let reasons = has_any(&low, REASONS);
    if is_praise(&low) && !reasons {
        return 0;
    }
    if announces(&low) {
        // "I need to require it in both, since it is a macro" says why.
        return if reasons && !low.ends_with(':') { 2 } else { 0 };
    }
    1 + 2 * u32::from(reasons) + u32::from(has_any(&low, RESULTS))
}

/// Whether a sentence announces the next step.
pub(super) fn is_plan(sentence: &str) -> bool {
    announces(&lowered(cut::head(sentence, 120)))
}

fn announces(low: &str) -> bool {
    PLANS.iter().any(|opening| low.starts_with(opening))
        || (low.ends_with(':') && INTENTIONS.iter().any(|intention| low.contains(intention)))
}

/// Whether a sentence says no more than that all is well or understood.
fn is_praise(low: &str) -> bool {
    const WORDS_MAX: usize = 9;
    let bare = low.trim_end_matches(['.', '!', ':', ' ']);
    bare.split(' ').count() <= WORDS_MAX
        && PRAISE.iter().any(|praise| {
            bare.strip_prefix(praise).is_some_and(|rest| {
                rest.is_empty() || (rest.starts_with([' ', ',', '!', '.']) && !rest.contains('`'))
            })
        })
        && !bare.bytes().any(|byte| byte.is_ascii_digit())
}

fn lowered(sentence: &str) -> String {
    let start = sentence.trim_start_matches(|c: char| !c.is_alphanumeric() && c != '`');
    start.replace('’', "'").to_lowercase()
}

/// Whether a text has one of the phrases, each beginning and ending with a word.
pub(super) fn has_any(low: &str, phrases: &[&str]) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let bytes = low.as_bytes();
    phrases.iter().any(|phrase| {
        memchr::memmem::find_iter(bytes, phrase.as_bytes()).any(|at| {
            let before = at.checked_sub(1).map(|before| bytes[before]);
            let after = bytes.get(at + phrase.len()).copied();
            !before.is_some_and(is_word) && !after.is_some_and(is_word)
        })
    })
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
            "This is larger, so I'll do it in two steps:",
        ] {
            assert_eq!(worth(sentence), 0, "{sentence}");
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
