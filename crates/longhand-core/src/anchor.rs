//! Facts worth carrying, found without a model.

mod block;
mod check;
mod cue;
mod figure;
mod identifier;
mod miner;
mod name;
mod patch;
mod pattern;
mod printed;
mod saying;
mod sentence;
mod statement;
mod telling;
mod version;
mod word;

use rustc_hash::FxHashMap;

pub use check::{check_of, is_check_tool, verdict_line};
pub use identifier::identifiers;
pub use miner::Miner;
pub use patch::{FileChange, patched};
pub use pattern::{Pattern, PatternError};
pub use printed::printed;
pub use saying::Saying;
pub use sentence::{Form, Sentence, sentences};
pub use statement::{Statement, statements};
pub use telling::{failure_line, telling_line};

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
}
