//! How well an entry fits a query.
//!
//! The score has three parts, each about 1 for an entry that has all the query asks for: how often it has the words
//! (BM25), how many of them its best passage has, and how many stand side by side as in the query. Rare words weigh
//! more; a form of a word, or what may be meant by a misspelt one, counts less than the word itself.

use crate::question::{AskedWord, Intent, Link, WordKind};
use crate::vocabulary::KnownTerm;

/// How soon more of the same word adds nothing.
const SATURATION: f32 = 1.2;
/// How much long entries lose.
const LENGTH_SHARE: f32 = 0.6;
/// Words this near to each other are one passage.
const PASSAGE_WORDS: u32 = 60;
/// What words side by side add.
const LINKED: f32 = 0.5;
/// What is left to an entry that has next to nothing of the query, beside one that has all of it.
const COVERAGE_MIN: f32 = 0.5;
/// What has all words comes first,
const HAS_ALL: f32 = 1.5;
/// and what lacks words that were put in quotes last.
const LACKS_PHRASE: f32 = 0.1;
/// So many places of a term are looked at.
const PLACES_MAX: usize = 256;

/// What there is to be found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// How many entries.
    pub entries: u64,
    /// How many words they have.
    pub words: u64,
}

/// A query with the terms that it may mean: scores entries by how often and where they have them.
#[derive(Clone, Debug)]
pub struct Ranker {
    pub(crate) words: Vec<RankedWord>,
    terms: Vec<RankedTerm>,
    links: Vec<Link>,
    phrases: Vec<Vec<usize>>,
    pub(crate) intent: Intent,
    length_mean: f32,
    /// What all words weigh together.
    weight: f32,
}

/// A word of the query.
#[derive(Clone, Debug)]
pub(crate) struct RankedWord {
    pub(crate) kind: WordKind,
    /// How many entries have it, in one form or another.
    pub(crate) entries: u64,
    /// How much it says.
    weight: f32,
    /// How much it says where it stands beside another.
    linked_weight: f32,
}

/// A term that is looked for.
#[derive(Clone, Debug)]
pub struct RankedTerm {
    /// The term.
    pub term: String,
    /// The word of the query, by its number.
    pub(crate) word: usize,
    pub(crate) weight: f32,
}

/// A term that an entry has.
#[derive(Clone, Debug, Default)]
pub struct FoundTerm {
    /// Its number in [`Ranker::terms`].
    pub term: usize,
    /// How often.
    pub frequency: u64,
    /// Which words of the entry it is, in order, as far as that is known.
    pub places: Vec<u32>,
}

/// What the index knows of an entry.
#[derive(Clone, Debug, Default)]
pub struct Measure {
    /// How many words it has.
    pub length: u64,
    /// The terms of the query that it has, in their order.
    pub found: Vec<FoundTerm>,
}

/// A place in an entry where a word of the query stands.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
struct Spot {
    place: u32,
    word: usize,
    weight: f32,
}

impl RankedWord {
    pub(crate) fn new(word: &AskedWord, known: &[(KnownTerm, f32)], totals: Totals) -> Self {
        let with: f32 = known.iter().map(|(known, weight)| known.entries as f32 * weight).sum();
        // What no entry has tells none from another.
        let idf = if known.is_empty() { 0.0 } else { idf(with, totals.entries as f32) };
        let idf = idf * letter_share(&word.text);
        let (share, linked_share) = match word.kind {
            WordKind::Content => (1.0, 1.0),
            WordKind::Filler => (0.1, 0.3),
            WordKind::Character => (0.3, 1.0),
            WordKind::Name => (0.5, 0.0),
        };
        Self {
            kind: word.kind,
            entries: known.iter().map(|(known, _)| known.entries).sum(),
            weight: idf * share,
            linked_weight: idf * linked_share,
        }
    }

    /// A word that was not asked for, and counts a share of one that was.
    pub(crate) fn telling(entries: u64, share: f32, totals: Totals) -> Self {
        let weight = share * idf(entries as f32, totals.entries as f32);
        Self { kind: WordKind::Filler, entries, weight, linked_weight: 0.0 }
    }

    /// Has it count for nothing.
    pub(crate) fn mute(&mut self) {
        (self.weight, self.linked_weight) = (0.0, 0.0);
    }

    /// Whether an entry that lacks it does not have all words.
    pub(crate) fn is_asked(&self) -> bool {
        matches!(self.kind, WordKind::Content | WordKind::Character)
    }
}

/// How much a word says that so many of all entries have.
pub(crate) fn idf(with: f32, all: f32) -> f32 {
    (1.0 + (all - with + 0.5).max(0.5) / (with + 0.5)).ln()
}

/// A letter of kana or Thai says less than a sign that is a word.
fn letter_share(word: &str) -> f32 {
    match word.chars().next().map_or(0, u32::from) {
        0x0e00..=0x0eff | 0x3040..=0x30ff => 0.4,
        _ => 1.0,
    }
}

impl Ranker {
    pub(crate) fn new(
        words: Vec<RankedWord>,
        terms: Vec<RankedTerm>,
        links: Vec<Link>,
        phrases: Vec<Vec<usize>>,
        intent: Intent,
        totals: Totals,
    ) -> Self {
        let counted = words.iter().filter(|word| word.kind != WordKind::Name);
        let weight = counted.map(|word| word.weight).sum();
        let length_mean = totals.words as f32 / (totals.entries as f32).max(1.0);
        Self { words, terms, links, phrases, intent, length_mean, weight }
    }

    /// The terms that are looked for.
    pub fn terms(&self) -> &[RankedTerm] {
        &self.terms
    }

    /// How well an entry fits, from what an index knows of it.
    pub fn score(&self, measure: &Measure) -> f32 {
        if self.weight <= 0.0 {
            return 0.0;
        }
        let mut frequencies = vec![0.0_f32; self.words.len()];
        let mut surest = vec![0.0_f32; self.words.len()];
        let mut spots: Vec<Spot> = Vec::new();
        for found in &measure.found {
            let RankedTerm { word, weight, .. } = self.terms[found.term];
            frequencies[word] += found.frequency as f32 * weight;
            surest[word] = surest[word].max(weight);
            let places = found.places.iter().take(PLACES_MAX);
            spots.extend(places.map(|place| Spot { place: *place, word, weight }));
        }
        spots.sort_unstable_by(|one, other| {
            one.place.cmp(&other.place).then(one.word.cmp(&other.word))
        });
        let passage = self.passage(&spots) / self.weight;
        let coverage = self.weight_of(&surest) / self.weight;
        let score = self.said(&frequencies, measure.length) / self.weight
            + passage
            + LINKED * self.linked(&spots);
        let score = score * (COVERAGE_MIN + (coverage.midpoint(passage)).powi(2));
        let has_all =
            self.words.iter().zip(&surest).all(|(word, surest)| !word.is_asked() || *surest > 0.0);
        let score = if has_all { score * HAS_ALL } else { score };
        let has_phrases = self.phrases.iter().all(|phrase| has_run(phrase, &spots));
        if has_phrases { score } else { score * LACKS_PHRASE }
    }

    /// How often it has the words.
    fn said(&self, frequencies: &[f32], length: u64) -> f32 {
        self.bm25(frequencies, length as f32 / self.length_mean.max(1.0), LENGTH_SHARE)
    }

    /// BM25 of a text of some length, relative to the mean: long ones lose a share of what they have.
    pub(crate) fn bm25(&self, frequencies: &[f32], relative: f32, length_share: f32) -> f32 {
        let long = SATURATION * (1.0 - length_share + length_share * relative);
        let words = self.words.iter().zip(frequencies);
        words.map(|(word, count)| word.weight * count * (SATURATION + 1.0) / (count + long)).sum()
    }

    /// What words weigh together, each as surely as it is there.
    pub(crate) fn weight_of(&self, surest: &[f32]) -> f32 {
        let words = self.words.iter().zip(surest).filter(|(word, _)| word.kind != WordKind::Name);
        words.map(|(word, surest)| word.weight * surest).sum()
    }

    /// The weight of the words in the best passage.
    fn passage(&self, spots: &[Spot]) -> f32 {
        let mut best = 0.0_f32;
        let mut surest = vec![0.0_f32; self.words.len()];
        for (at, first) in spots.iter().enumerate() {
            surest.fill(0.0);
            let passage =
                spots[at..].iter().take_while(|spot| spot.place - first.place <= PASSAGE_WORDS);
            for spot in passage {
                surest[spot.word] = surest[spot.word].max(spot.weight);
            }
            best = best.max(self.weight_of(&surest));
        }
        best
    }

    /// The share of links whose words stand side by side, or almost.
    fn linked(&self, spots: &[Spot]) -> f32 {
        let (mut sum, mut all) = (0.0, 0.0);
        for link in &self.links {
            let weights = [link.first, link.second].map(|word| self.words[word].linked_weight);
            let weight = link.strength * weights[0].midpoint(weights[1]);
            all += weight;
            let of_first = spots.iter().enumerate().filter(|(_, spot)| spot.word == link.first);
            let nearest =
                of_first.map(|(at, first)| nearness(first, around(spots, at), link.second));
            sum += weight * nearest.fold(0.0_f32, f32::max);
        }
        if all > 0.0 { sum / all } else { 0.0 }
    }
}

/// What is at most a few words away from a spot.
fn around(spots: &[Spot], at: usize) -> &[Spot] {
    let place = spots[at].place;
    let before = spots[..at].iter().rev().take_while(|spot| place - spot.place <= 1).count();
    let after = spots[at..].iter().take_while(|spot| spot.place - place <= 3).count();
    &spots[at - before..at + after]
}

/// How near a word stands to a spot, at best: 1 right after it, or in the same place as parts of a name are.
fn nearness(first: &Spot, around: &[Spot], word: usize) -> f32 {
    let near = around.iter().filter(|spot| spot.word == word).map(|second| {
        let near = match i64::from(second.place) - i64::from(first.place) {
            0 | 1 => 1.0,
            2 => 0.6,
            _ => 0.4,
        };
        near * first.weight.min(second.weight)
    });
    near.fold(0.0, f32::max)
}

/// Whether words stand side by side in this order; parts of a name may be in the same place.
fn has_run(phrase: &[usize], spots: &[Spot]) -> bool {
    let has = |place: u32, word: usize| {
        let start = spots.partition_point(|spot| spot.place < place);
        spots[start..].iter().take_while(|spot| spot.place == place).any(|spot| spot.word == word)
    };
    let Some((first, rest)) = phrase.split_first() else { return true };
    spots.iter().filter(|spot| spot.word == *first).any(|first| {
        let mut place = first.place;
        rest.iter().all(|word| {
            let is_next = has(place + 1, *word);
            place += u32::from(is_next);
            is_next || has(place, *word)
        })
    })
}
