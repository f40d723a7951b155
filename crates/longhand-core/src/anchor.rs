//! Facts worth carrying, found without a model.

mod cue;
mod figure;
mod miner;
mod name;
mod pattern;
mod saying;
mod sentence;
mod statement;
mod version;
mod word;

use rustc_hash::FxHashMap;

pub use miner::Miner;
pub use pattern::{Pattern, PatternError};
pub use saying::Saying;
pub use sentence::{Form, Sentence, sentences};
pub use statement::{Statement, statements};

use self::name::name;
use self::word::Words;

/// What kind of fact it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AnchorKind {
    /// A goal, session, ticket or commit id, a UUID.
    Id,
    /// A file or folder.
    Path,
    /// An address on the web.
    Url,
    /// An error code.
    Code,
    /// A version of something.
    Version,
    /// A number with its unit.
    Figure,
    /// A sentence that says what was decided.
    Decision,
    /// A sentence that says what is in the way.
    Blocker,
    /// A sentence that asks what nobody has answered.
    Question,
    /// A sentence with which the user gave a standing order.
    Rule,
    /// Words that somebody pinned.
    Pin,
}

/// A fact that must survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Anchor<'t> {
    /// Its kind.
    pub kind: AnchorKind,
    /// The words, as they stand in the text.
    pub text: &'t str,
}

/// Finds the names in a text: ids, paths, addresses and codes, in the order they stand in it, repeats
/// included.
///
/// [`Miner`] finds versions and figures too, and [`statements`] finds sentences.
pub fn mine(text: &str) -> impl Iterator<Item = Anchor<'_>> {
    Words::new(text).filter_map(name)
}

/// Gives the distinct anchors of some texts, the most used first, then the most recent.
pub fn ranked<'t>(texts: impl IntoIterator<Item = &'t str>) -> Vec<Anchor<'t>> {
    let mut uses: FxHashMap<Anchor<'t>, (usize, usize)> = FxHashMap::default();
    let mut order = 0;
    for anchor in texts.into_iter().flat_map(mine) {
        order += 1;
        let entry = uses.entry(anchor).or_default();
        *entry = (entry.0 + 1, order);
    }
    let mut ranked: Vec<_> = uses.into_iter().collect();
    ranked.sort_by_key(|(_, rank)| std::cmp::Reverse(*rank));
    ranked.into_iter().map(|(anchor, _)| anchor).collect()
}

/// Gives the first line that reports a failure, or else states a decision or a blocker.
pub fn telling_line(text: &str) -> Option<&str> {
    const FAILURES: &[&str] = &["error", "fatal", "panic", "failed", "failure", "exception"];
    const STATEMENTS: &[&str] =
        &["decision", "decided", "blocked", "blocker", "unblocked", "open question"];
    let panics = memchr::memmem::find(text.as_bytes(), b"panicked at").is_some();
    let mut stated = None;
    for line in text.lines() {
        if panics && line.contains("panicked at") {
            return Some(line.trim());
        }
        let start = line.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
        // Few lines begin with a letter that any of the words begins with.
        match start.as_bytes().first().map(u8::to_ascii_lowercase) {
            Some(b'e' | b'f' | b'p') if opens_with(start, FAILURES) => return Some(line.trim()),
            Some(b'd' | b'b' | b'u' | b'o')
                if stated.is_none() && opens_with(start, STATEMENTS) =>
            {
                stated = Some(line.trim());
            }
            _ => {}
        }
    }
    stated
}

/// Whether a line begins with one of the words as a heading: `error: …`, `Decision: …`, `error[E1]…`.
fn opens_with(line: &str, words: &[&str]) -> bool {
    words.iter().any(|word| {
        let heading = line.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
        heading && line[word.len()..].starts_with([':', '[', '(', ' '])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use AnchorKind::{Code, Id, Path, Url};

    #[test]
    fn anchors_are_told_from_words() {
        let text = "see src/wheel/slot.rs:40, `Cargo.toml`; g-7f3 and s-01: JIRA-88 (#4512) at \
                    https://example.org/a?b=1 commit 9fceb02d0a — error[E0308]. either/or and/or \
                    3.5 1,000 don't v1.2.3 path=./a/b 550e8400-e29b-41d4-a716-446655440000 deadbeef";
        let found: Vec<_> = mine(text).map(|anchor| (anchor.kind, anchor.text)).collect();
        assert_eq!(
            found,
            [
                (Path, "src/wheel/slot.rs:40"),
                (Path, "Cargo.toml"),
                (Id, "g-7f3"),
                (Id, "s-01"),
                (Id, "JIRA-88"),
                (Id, "#4512"),
                (Url, "https://example.org/a?b=1"),
                (Id, "9fceb02d0a"),
                (Code, "E0308"),
                (Path, "./a/b"),
                (Id, "550e8400-e29b-41d4-a716-446655440000"),
            ]
        );
    }

    #[test]
    fn the_most_used_and_then_the_newest_come_first() {
        let ranked: Vec<_> = ranked(["a.rs b.rs", "b.rs c.rs"]).iter().map(|a| a.text).collect();
        assert_eq!(ranked, ["b.rs", "c.rs", "a.rs"]);
    }

    #[test]
    fn a_failure_tells_more_than_a_decision() {
        assert_eq!(telling_line("ok\nDecision: 512 slots\nerror: boom\n"), Some("error: boom"));
        assert_eq!(telling_line("ok\n- Blocked: no key\n"), Some("- Blocked: no key"));
        assert_eq!(telling_line("all fine"), None);
    }
}
