//! The ids of a project.

use super::Pattern;
use super::word::words;

/// Finds the ids of a project by what they look like.
///
/// ```
/// use longhand_core::anchor::Miner;
///
/// let miner = Miner::new(vec!["ACME-x#".parse()?]);
/// let found: Vec<_> = miner.ids("job=ACME-x7 took 30 ms in v1.2.3").collect();
/// assert_eq!(found, ["ACME-x7"]);
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
    /// Takes words of these patterns for ids.
    pub fn new(patterns: Vec<Pattern>) -> Self {
        let openings = std::array::from_fn(|byte| {
            patterns.iter().any(|pattern| pattern.can_open_with(byte as u8))
        });
        Self { patterns, openings }
    }

    /// The ids in a text, in the order they stand in it, repeats included.
    pub fn ids<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> {
        let text = if self.patterns.is_empty() { "" } else { text };
        words(text).filter(|word| {
            self.openings[word.as_bytes()[0] as usize]
                && self.patterns.iter().any(|pattern| pattern.matches(word))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_by_their_patterns() {
        let miner = Miner::new(vec!["ACME-#".parse().unwrap(), "job_@".parse().unwrap()]);
        let text = "ACME-77, job_x and g-7: id=ACME-8. (ACME-x) \"job_12\": https://a.b/?q=ACME-9";
        let found: Vec<_> = miner.ids(text).collect();
        assert_eq!(found, ["ACME-77", "job_x", "ACME-8", "job_12"]);
        assert_eq!(Miner::default().ids(text).count(), 0);
    }
}
