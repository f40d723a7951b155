//! Where in a text the words of a query stand together.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::query::unfolded;
use crate::rank::Ranker;
use crate::terms::term;
use crate::words::Folded;

/// As many words as a snippet shows.
const WORDS: usize = 25;
/// So many words of a text are looked through.
const WORDS_MAX: usize = 50_000;

impl Ranker {
    /// The part of a text that has most of the query; its beginning if it has nothing.
    pub fn passage_in(&self, text: &str) -> Range<usize> {
        let mut known: FxHashMap<&str, (usize, f32)> = FxHashMap::default();
        for wanted in self.terms() {
            let best = known.entry(&wanted.term).or_insert((wanted.word, wanted.weight));
            if wanted.weight > best.1 {
                *best = (wanted.word, wanted.weight);
            }
        }
        let folded = Folded::of(text);
        let mut spots: Vec<(usize, Range<usize>, usize, f32)> = Vec::new();
        for (place, word) in folded.words().take(WORDS_MAX).enumerate() {
            let itself = std::iter::once((word.start, word.text));
            for (start, text) in itself.chain(word.parts()) {
                if let Some((of, weight)) = known.get(&*term(text)) {
                    spots.push((place, start..start + text.len(), *of, *weight));
                }
            }
        }
        let mut best = (0.0, 0..0);
        for (at, (first, range, ..)) in spots.iter().enumerate() {
            let passage: Vec<_> =
                spots[at..].iter().take_while(|(place, ..)| place - first <= WORDS).collect();
            let mut surest = vec![0.0_f32; self.words.len()];
            for (_, _, word, weight) in &passage {
                surest[*word] = surest[*word].max(*weight);
            }
            let weight = self.weight_of(&surest);
            if weight > best.0 {
                let end = passage.last().map_or(range.end, |(_, last, ..)| last.end);
                best = (weight, range.start..end.max(range.end));
            }
        }
        unfolded(text, best.1.start)..unfolded(text, best.1.end)
    }
}
