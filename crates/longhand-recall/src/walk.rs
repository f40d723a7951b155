//! Which entries are looked at for a query: few of an archive of a million.

use crate::question::WordKind;
use crate::rank::Ranker;

/// So many entries of a walk are scored.
const ENTRIES_MAX: usize = 2_048;
/// So many if the words are all frequent, or the rarest are left out.
const ENTRIES_OF_FREQUENT_MAX: usize = 512;
/// How far back entries are looked for that have frequent words only.
const SPAN_OF_FREQUENT_MAX: u64 = 1 << 15;
/// Of so many frequent words, one may be missing.
const FREQUENT_WORDS_MAX: usize = 6;

/// A way through the entries, from the newest to the oldest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    /// Terms by their numbers in [`Ranker::terms`]: an entry must have one of each list.
    pub required: Vec<Vec<usize>>,
    /// After so many entries it ends.
    pub entries_max: usize,
    /// In a search of all sessions it goes back by no more entries than these, if it is limited.
    pub span_max: Option<u64>,
}

impl Ranker {
    /// The walks that find what fits best; one entry may be on several. Without words, all entries are on the way.
    ///
    /// Entries with a rare word are all looked at. Those that have only frequent words are if they have several, the
    /// newest first.
    pub fn walks(&self, limit: usize) -> Vec<Walk> {
        if self.terms().is_empty() {
            let all = Walk { required: Vec::new(), entries_max: limit, span_max: None };
            return Vec::from_iter(self.words.is_empty().then_some(all));
        }
        let mut words: Vec<usize> =
            (0..self.words.len()).filter(|at| self.words[*at].entries > 0).collect();
        // What most sentences have is looked for only if there is nothing else.
        if words.iter().any(|at| self.words[*at].kind != WordKind::Filler) {
            words.retain(|at| self.words[*at].kind != WordKind::Filler);
        }
        words.sort_by_key(|at| (!self.words[*at].is_asked(), self.words[*at].entries, *at));
        let mut sum = 0;
        let rare = words.iter().take_while(|at| {
            sum += self.words[**at].entries;
            sum <= ENTRIES_MAX as u64
        });
        let rare = rare.count();
        let any = |words: &[usize]| words.iter().flat_map(|at| self.terms_of(*at)).collect();
        let all = |words: &[usize]| words.iter().map(|at| self.terms_of(*at).collect()).collect();
        let frequent = |required: Vec<Vec<usize>>, entries_max: usize| Walk {
            required,
            entries_max,
            span_max: Some(SPAN_OF_FREQUENT_MAX),
        };
        let mut walks = Vec::new();
        if rare > 0 {
            let required = vec![any(&words[..rare])];
            walks.push(Walk { required, entries_max: ENTRIES_MAX, span_max: None });
        }
        let asked = words.iter().filter(|at| self.words[**at].is_asked()).count();
        let rest = &words[rare.min(asked)..asked];
        if rest.len() > 1 {
            walks.push(frequent(all(rest), ENTRIES_OF_FREQUENT_MAX));
        }
        if (3..=FREQUENT_WORDS_MAX).contains(&rest.len()) {
            for left_out in rest {
                let others: Vec<usize> =
                    rest.iter().copied().filter(|word| word != left_out).collect();
                walks.push(frequent(all(&others), ENTRIES_OF_FREQUENT_MAX / rest.len()));
            }
        }
        if rare == 0 {
            walks.push(frequent(vec![any(&words[..1])], ENTRIES_OF_FREQUENT_MAX));
        }
        walks
    }

    fn terms_of(&self, word: usize) -> impl Iterator<Item = usize> {
        let terms = self.terms().iter().enumerate();
        terms.filter(move |(_, term)| term.word == word).map(|(at, _)| at)
    }
}
