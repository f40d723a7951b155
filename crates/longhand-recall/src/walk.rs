//! Which entries are looked at for a query: few of an archive of a million.

use crate::rank::Ranker;

/// So many entries of a walk are scored.
const ENTRIES_MAX: usize = 4_096;
/// So many if the words are all frequent, or the rarest are left out.
const ENTRIES_OF_FREQUENT_MAX: usize = 1_024;

/// A way through the entries, from the newest to the oldest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    /// Terms by their numbers in [`Ranker::terms`]: an entry must have one of each list.
    pub required: Vec<Vec<usize>>,
    /// After so many entries it ends.
    pub entries_max: usize,
}

impl Ranker {
    /// The walks that find what fits best; one entry may be on several. Without words, all entries are on the way.
    ///
    /// Entries with a rare word are all looked at. Those that have only frequent words are if they have several, the
    /// newest first.
    pub fn walks(&self, limit: usize) -> Vec<Walk> {
        if self.terms().is_empty() {
            let is_blank = self.words.is_empty();
            return Vec::from_iter(
                is_blank.then(|| Walk { required: Vec::new(), entries_max: limit }),
            );
        }
        let mut words: Vec<usize> =
            (0..self.words.len()).filter(|at| self.words[*at].entries > 0).collect();
        words.sort_by_key(|at| (!self.words[*at].is_asked(), self.words[*at].entries, *at));
        let mut sum = 0;
        let rare = words.iter().take_while(|at| {
            sum += self.words[**at].entries;
            sum <= ENTRIES_MAX as u64
        });
        let rare = rare.count();
        let any = |words: &[usize]| words.iter().flat_map(|at| self.terms_of(*at)).collect();
        let all = |words: &[usize]| words.iter().map(|at| self.terms_of(*at).collect()).collect();
        let frequent = ENTRIES_OF_FREQUENT_MAX;
        let mut walks = Vec::new();
        if rare > 0 {
            walks.push(Walk { required: vec![any(&words[..rare])], entries_max: ENTRIES_MAX });
        }
        let asked = words.iter().filter(|at| self.words[**at].is_asked()).count();
        let rest = &words[rare.min(asked)..asked];
        if rest.len() > 1 {
            walks.push(Walk { required: all(rest), entries_max: frequent });
        }
        for left_out in (0..rest.len()).filter(|_| rest.len() > 2) {
            let others: Vec<usize> = rest
                .iter()
                .enumerate()
                .filter(|(at, _)| *at != left_out)
                .map(|(_, word)| *word)
                .collect();
            walks.push(Walk { required: all(&others), entries_max: frequent / rest.len() });
        }
        if rare == 0 {
            walks.push(Walk { required: vec![any(&words[..1])], entries_max: frequent });
        }
        walks
    }

    fn terms_of(&self, word: usize) -> impl Iterator<Item = usize> {
        let terms = self.terms().iter().enumerate();
        terms.filter(move |(_, term)| term.word == word).map(|(at, _)| at)
    }
}
