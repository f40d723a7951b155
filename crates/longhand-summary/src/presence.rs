//! Whether a summary tells a fact.

use longhand_core::anchor::{AnchorKind, sentences};
use memchr::memmem;
use rustc_hash::FxHashMap;

use crate::Fact;
use crate::quote;
use crate::terms::terms;

/// What a summary tells, ready to be asked.
pub(crate) struct Told {
    /// All of it on one line.
    flat: String,
    sentences: Vec<Sentence>,
    /// The sentences that have a term, in order.
    places: FxHashMap<u64, Vec<u32>>,
}

struct Sentence {
    denies: bool,
}

impl Told {
    pub(crate) fn new(summary: &str) -> Self {
        let lines: Vec<_> = summary.split('\n').map(quote::line).collect();
        let flat = lines.join(" ");
        let mut told = Self { flat, sentences: Vec::new(), places: FxHashMap::default() };
        for sentence in sentences(summary) {
            let at = told.sentences.len() as u32;
            for term in terms(sentence.text) {
                told.places.entry(term).or_default().push(at);
            }
            told.sentences.push(Sentence { denies: denies(sentence.text) });
        }
        told
    }

    /// Whether a fact is told: a user's words as they are, a word by itself, a sentence by most of the
    /// terms that carry it.
    pub(crate) fn has(&self, fact: &Fact) -> bool {
        match fact.kind {
            AnchorKind::Pin | AnchorKind::Rule => self.flat.contains(&quote::line(&fact.text)),
            AnchorKind::Decision | AnchorKind::Blocker | AnchorKind::Question => self.implies(fact),
            _ => self.has_word(&fact.text),
        }
    }

    fn has_word(&self, word: &str) -> bool {
        memmem::find_iter(self.flat.as_bytes(), word).any(|at| {
            let joins = |c: char| c.is_alphanumeric() || c == '_';
            let before = self.flat[..at].chars().next_back();
            let mut after = self.flat[at + word.len()..].chars();
            let next = after.next();
            let goes_on = |c: Option<char>| c.is_some_and(|c| "-./".contains(c));
            // "1.5 ms" does not tell of "5 ms", nor "g-7-b" of "g-7".
            let opens = !before.is_some_and(joins) && !goes_on(before);
            opens && !next.is_some_and(joins) && !(goes_on(next) && after.next().is_some_and(joins))
        })
    }

    /// Whether a sentence, or two in a row, has three quarters of a fact's terms, all of its numbers, and
    /// says no if the fact does.
    fn implies(&self, fact: &Fact) -> bool {
        if fact.terms.is_empty() {
            return self.flat.contains(&fact.text);
        }
        let denied = denies(&fact.text);
        let numbers = terms(&with_digits(&fact.text));
        // One bit for each term: a statement has at most 300 characters, so that few have more than 64.
        let mut found: FxHashMap<u32, u64> = FxHashMap::default();
        for (term, bit) in fact.terms.iter().zip(0..64) {
            for at in self.places.get(term).into_iter().flatten() {
                *found.entry(*at).or_default() |= 1 << bit;
            }
        }
        let count = fact.terms.len().min(64) as u32;
        let needed = fact.terms.iter().zip(0..64).filter(|(term, _)| numbers.contains(term));
        let needed = needed.fold(0, |bits, (_, bit)| bits | 1_u64 << bit);
        found.iter().any(|(at, bits)| {
            let next = at + 1;
            let both = bits | found.get(&next).copied().unwrap_or_default();
            let says_no = |at: u32| self.sentences.get(at as usize).is_some_and(|said| said.denies);
            let enough = |bits: u64| bits.count_ones() * 4 >= count * 3 && bits & needed == needed;
            (enough(*bits) && (!denied || says_no(*at)))
                || (enough(both) && (!denied || says_no(*at) || says_no(next)))
        })
    }
}

/// The words of a text that have digits in them.
fn with_digits(text: &str) -> String {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.filter(|word| word.contains(|c: char| c.is_ascii_digit())).collect::<Vec<_>>().join(" ")
}

/// Whether a sentence says no to something.
fn denies(text: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '\'' && c != '’').any(|word| {
        let word = word.to_ascii_lowercase().replace('’', "'");
        word.ends_with("n't")
            || matches!(&*word, "no" | "not" | "never" | "without" | "cannot" | "nor" | "neither")
    })
}

#[cfg(test)]
mod tests {
    use crate::{Facts, Round};

    /// Says which facts of a round's two texts a summary does not tell.
    #[track_caller]
    fn check(user: &str, assistant: &str, summary: &str, missing: &[&str]) {
        let mut facts = Facts::default();
        facts.read(&Round { number: 1, user, assistant, ..Round::default() });
        let found: Vec<_> = facts.check(summary).missing.iter().map(|fact| &*fact.text).collect();
        assert_eq!(found, missing, "{summary}");
    }

    #[test]
    fn words_are_told_as_whole_words() {
        let said = "Took 5 ms for g-7 in src/a.rs.";
        check("", said, "In src/a.rs:3, g-7 took (5 ms).", &[]);
        check(
            "",
            said,
            "In lib/src/a.rs, g-7-b and g-77 took 1.5 ms.",
            &["g-7", "src/a.rs", "5 ms"],
        );
    }

    #[test]
    fn sentences_are_told_by_their_terms() {
        let said = "Decision: the wheel keeps 512 slots, because a larger wheel costs memory.";
        check("", said, "The wheel is kept at 512 slots. A larger one costs memory.", &[]);
        check(
            "",
            said,
            "The wheel keeps 1024 slots, because a larger wheel costs memory.",
            &[said],
        );
        check(
            "",
            said,
            "A wheel has slots. Nothing else happened. Memory is larger at 512 costs.",
            &[said],
        );
        let said = "We decided that the sweep does not take leases.";
        check("", said, "The sweep takes leases.", &[said]);
        check("", said, "The sweep won't take leases.", &[]);
    }

    #[test]
    fn rules_are_told_in_the_users_words() {
        let rule = "Never edit files under vendor/.";
        check(
            rule,
            "Ok.",
            "The user said: never edit files under vendor/, unless it helps.",
            &[rule],
        );
        check(rule, "Ok.", "The user said: Never edit\nfiles under vendor/.", &[]);
    }
}
