//! Mining with the ids of a project.

use super::figure::figure;
use super::name::name;
use super::version::is_version;
use super::word::{DIGIT, DOT, OTHER, Word, Words};
use super::{Anchor, AnchorKind, Pattern};

/// Finds every anchor that is a word or two: names, versions, figures, and ids by pattern.
///
/// ```
/// use longhand_core::anchor::Miner;
///
/// let miner = Miner::new(vec!["ACME-x#".parse()?]);
/// let found: Vec<_> = miner.mine("ACME-x7 took 30 ms in v1.2.3").map(|anchor| anchor.text).collect();
/// assert_eq!(found, ["ACME-x7", "30 ms", "v1.2.3"]);
/// # Ok::<(), longhand_core::anchor::PatternError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Miner {
    patterns: Vec<Pattern>,
    openings: [bool; 256],
}

impl Default for Miner {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl Miner {
    /// Also takes words of these patterns for ids, if they have more to them than letters.
    pub fn new(patterns: Vec<Pattern>) -> Self {
        let openings = std::array::from_fn(|byte| {
            patterns.iter().any(|pattern| pattern.can_open_with(byte as u8))
        });
        Self { patterns, openings }
    }

    /// Finds the anchors of a text, in the order they stand in it, repeats included.
    pub fn mine<'t>(&self, text: &'t str) -> impl Iterator<Item = Anchor<'t>> {
        let mut words = Words::new(text);
        std::iter::from_fn(move || {
            loop {
                let word = words.next()?;
                if let Some(anchor) =
                    self.own_id(word).or_else(|| name(word)).or_else(|| version(word))
                {
                    return Some(anchor);
                }
                if word.has(DIGIT)
                    && let Some((start, end)) = figure(text, word.start(), word.whole())
                {
                    words.skip_to(end);
                    return Some(Anchor { kind: AnchorKind::Figure, text: &text[start..end] });
                }
            }
        })
    }

    /// Whether a project has named ids of its own.
    pub fn has_patterns(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// Whether a word is an id by one of the patterns.
    pub fn is_own_id(&self, word: &str) -> bool {
        self.patterns.iter().any(|pattern| pattern.matches(word))
    }

    fn own_id<'t>(&self, word: Word<'t>) -> Option<Anchor<'t>> {
        // What stands before a `=` is not part of the id.
        let opens = word.has(OTHER) || self.openings[word.whole().as_bytes()[0] as usize];
        if self.patterns.is_empty() || !opens {
            return None;
        }
        let text = word.bare()?;
        (self.openings[text.as_bytes()[0] as usize] && self.is_own_id(text))
            .then_some(Anchor { kind: AnchorKind::Id, text })
    }
}

fn version(word: Word) -> Option<Anchor> {
    if !word.has(DIGIT | DOT) {
        return None;
    }
    let text = word.bare()?;
    is_version(text).then_some(Anchor { kind: AnchorKind::Version, text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use AnchorKind::{Figure, Id, Path, Version};

    #[test]
    fn versions_figures_and_own_ids_are_found_beside_names() {
        let miner = Miner::new(vec!["ACME-#".parse().unwrap(), "job_@".parse().unwrap()]);
        let text = "ACME-77, job_x and g-7: upgrade to v1.2.3 (was 0.8.4) cut src/a.rs from 1,200 ms to \
                    30 ms, 12% of $19.99; 512 slots, 3.5 times, serde==1.0.219";
        let found: Vec<_> = miner.mine(text).map(|anchor| (anchor.kind, anchor.text)).collect();
        assert_eq!(
            found,
            [
                (Id, "ACME-77"),
                (Id, "job_x"),
                (Id, "g-7"),
                (Version, "v1.2.3"),
                (Version, "0.8.4"),
                (Path, "src/a.rs"),
                (Figure, "1,200 ms"),
                (Figure, "30 ms"),
                (Figure, "12%"),
                (Figure, "$19.99"),
                (Version, "1.0.219"),
            ]
        );
    }
}
