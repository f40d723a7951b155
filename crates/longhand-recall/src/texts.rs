//! Texts that no index knows yet, measured one by one.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use crate::rank::{FoundTerm, Measure, Ranker, Totals};
use crate::terms::term;
use crate::vocabulary::{KnownTerm, SoughtTerms};
use crate::walk::Walk;
use crate::words::Folded;

/// Of one text, so many places of a term are known; the index of a file knows no more.
pub const PLACES_OF_ENTRY_MAX: u32 = 1_024;

/// A text that has a term: its number, how often, and the first places.
pub type TextPosting = (usize, u64, Vec<u32>);

/// An index in memory of some texts.
#[derive(Debug, Default)]
pub struct Texts {
    /// The number of each term.
    numbers: FxHashMap<Box<str>, u32>,
    /// Of each term, by its number, the texts that have it and where, in order.
    places: Vec<Vec<(u32, u32)>>,
    lengths: Vec<u64>,
}

impl Texts {
    /// Adds a text; they are numbered from 0.
    pub fn add(&mut self, text: &str) {
        let number = self.lengths.len() as u32;
        let mut length = 0;
        for (place, word) in Folded::of(text).words().enumerate() {
            length += 1;
            self.note(number, place as u32, word.text);
            for (_, part) in word.parts() {
                self.note(number, place as u32, part);
            }
        }
        self.lengths.push(length);
    }

    fn note(&mut self, text: u32, place: u32, word: &str) {
        let number = self.number(&term(word));
        let places = &mut self.places[number as usize];
        // A word and a part of it may be the same term.
        if places.last() != Some(&(text, place)) {
            places.push((text, place));
        }
    }

    fn number(&mut self, term: &str) -> u32 {
        if let Some(number) = self.numbers.get(term) {
            return *number;
        }
        let number = self.places.len() as u32;
        self.numbers.insert(term.into(), number);
        self.places.push(Vec::new());
        number
    }

    /// The texts that have a term, each with its places.
    fn with(&self, term: &str) -> impl Iterator<Item = (usize, &[(u32, u32)])> {
        let places =
            self.numbers.get(term).map_or(&[][..], |number| &self.places[*number as usize]);
        let of_texts = places.chunk_by(|(one, _), (other, _)| one == other);
        of_texts.map(|places| (places[0].0 as usize, places))
    }

    /// Adds a text of which another index tells how many words it has, and of some terms how often and where it has them.
    ///
    /// That index names the first [`PLACES_OF_ENTRY_MAX`] places of a term; the others are only counted.
    pub fn add_measured(
        &mut self,
        length: u64,
        terms: impl IntoIterator<Item = (String, u64, Vec<u32>)>,
    ) {
        let text = self.lengths.len() as u32;
        for (term, count, first) in terms {
            let after = first.last().map_or(0, |last| last + 1);
            let others = count.saturating_sub(first.len() as u64) as u32;
            let number = self.number(&term);
            let places = first.into_iter().chain(after..after.saturating_add(others));
            self.places[number as usize].extend(places.map(|place| (text, place)));
        }
        self.lengths.push(length);
    }

    /// How many words each text has.
    pub fn lengths(&self) -> &[u64] {
        &self.lengths
    }

    /// Each term with the texts that have it.
    pub fn postings(&self) -> impl Iterator<Item = (&str, Vec<TextPosting>)> {
        self.numbers.keys().map(|term| {
            let texts = self.with(term).map(|(number, places)| {
                let first = places.iter().take(PLACES_OF_ENTRY_MAX as usize);
                (number, places.len() as u64, first.map(|(_, place)| *place).collect())
            });
            (&**term, texts.collect())
        })
    }

    /// How many texts and words are counted.
    pub fn totals(&self, is_counted: impl Fn(usize) -> bool) -> Totals {
        let lengths = self.lengths.iter().enumerate().filter(|(number, _)| is_counted(*number));
        lengths.fold(Totals::default(), |totals, (_, length)| Totals {
            entries: totals.entries + 1,
            words: totals.words + length,
        })
    }

    /// The terms that are sought, with how many of the texts have them that are counted.
    pub fn known(
        &self,
        sought: &SoughtTerms,
        is_counted: impl Fn(usize) -> bool,
    ) -> Vec<KnownTerm> {
        let ranges = sought.ranges();
        // Most terms are in none of the ranges, which is soon known.
        let is_sought = |term: &&str| {
            ranges.iter().any(|range| range.has(term)) && sought.weight(term).is_some()
        };
        let terms = self.numbers.keys().map(|term| &**term);
        let found = terms.filter(is_sought).map(str::to_owned).collect();
        let mut known = Vec::new();
        for term in sought.keep(found) {
            let entries = self.with(&term).filter(|(number, _)| is_counted(*number)).count() as u64;
            if entries > 0 {
                known.push(KnownTerm { term, entries });
            }
        }
        known.sort_unstable();
        known
    }

    /// What the texts have of a query that have anything of it.
    fn found(&self, ranker: &Ranker) -> FxHashMap<usize, Measure> {
        let mut measures: FxHashMap<usize, Measure> = FxHashMap::default();
        for (at, wanted) in ranker.terms().iter().enumerate() {
            for (number, places) in self.with(&wanted.term) {
                let length = self.lengths[number];
                let measure =
                    measures.entry(number).or_insert_with(|| Measure { length, found: Vec::new() });
                let first = places.iter().take(PLACES_OF_ENTRY_MAX as usize);
                let (frequency, places) = (places.len() as u64, first.map(|(_, at)| *at).collect());
                measure.found.push(FoundTerm { term: at, frequency, places });
            }
        }
        measures
    }

    /// What each text has of a query.
    pub(crate) fn measures(&self, ranker: &Ranker) -> Vec<Measure> {
        let mut found = self.found(ranker);
        let blank = |number: usize| Measure { length: self.lengths[number], found: Vec::new() };
        let numbers = 0..self.lengths.len();
        numbers.map(|number| found.remove(&number).unwrap_or_else(|| blank(number))).collect()
    }

    /// How many texts have a word.
    pub(crate) fn with_word(&self, word: &str) -> u64 {
        self.with(&term(word)).count() as u64
    }

    /// The texts on a ranker's walks that are wanted, with what they have of the query; the newest is the last one that
    /// was added.
    pub fn walked(
        &self,
        ranker: &Ranker,
        limit: usize,
        is_wanted: impl Fn(usize) -> bool,
    ) -> Vec<(usize, Measure)> {
        let mut measures = self.found(ranker);
        let has = |number: usize, terms: &[usize]| {
            let measure = measures.get(&number);
            measure.is_some_and(|measure| {
                measure.found.iter().any(|found| terms.contains(&found.term))
            })
        };
        let mut walked = BTreeSet::new();
        for Walk { required, entries_max, .. } in ranker.walks(limit) {
            let all = (0..self.lengths.len()).rev().filter(|number| is_wanted(*number));
            let on_way = all.filter(|number| required.iter().all(|terms| has(*number, terms)));
            walked.extend(on_way.take(entries_max));
        }
        let blank = |number: usize| Measure { length: self.lengths[number], found: Vec::new() };
        let measure = |number| (number, measures.remove(&number).unwrap_or_else(|| blank(number)));
        walked.into_iter().map(measure).collect()
    }
}
