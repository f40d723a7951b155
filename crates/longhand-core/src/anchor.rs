//! Facts worth carrying, found without a model.

mod block;
mod check;
mod cue;
mod definition;
mod identifier;
mod miner;
mod patch;
mod pattern;
mod printed;
mod saying;
mod sentence;
mod statement;
mod telling;
mod word;

use rustc_hash::FxHashMap;

pub use check::{check_of, is_check_tool, verdict_line};
pub use definition::{after_number, is_definition, unnumbered};
pub use identifier::{IdentifierRun, identifiers, runs};
pub use miner::Miner;
pub use patch::{FileChange, patched};
pub use pattern::{Pattern, PatternError};
pub use printed::printed;
pub use saying::Saying;
pub use sentence::{Sentence, SentenceForm, sentences};
pub use statement::{Statement, statements};
pub use telling::{failure_line, grave_line, telling_line};

/// The distinct identifiers of some texts, the most used first, then the most recent.
pub fn ranked<'t>(texts: impl IntoIterator<Item = &'t str>) -> Vec<&'t str> {
    let mut uses: FxHashMap<&str, (usize, usize)> = FxHashMap::default();
    for (name, order) in texts.into_iter().flat_map(identifiers).zip(1..) {
        let entry = uses.entry(name).or_default();
        *entry = (entry.0 + 1, order);
    }
    let mut ranked: Vec<_> = uses.into_iter().collect();
    ranked.sort_by_key(|(_, rank)| std::cmp::Reverse(*rank));
    ranked.into_iter().map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_used_and_then_the_newest_come_first() {
        assert_eq!(ranked(["aa.rs bb.rs", "bb.rs cc.rs"]), ["bb.rs", "cc.rs", "aa.rs"]);
    }
}
