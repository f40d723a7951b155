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

/// Where a text has a term.
#[derive(Clone, Debug, Default)]
struct Places {
    count: u64,
    first: Vec<u32>,
    last: u32,
}

/// A text that has a term: its number, how often, and the first places.
pub type TextPosting<'t> = (usize, u64, &'t [u32]);

/// An index in memory of some texts.
#[derive(Debug, Default)]
pub struct Texts {
    /// Of each term, the texts that have it, with places.
    terms: FxHashMap<String, Vec<(usize, Places)>>,
    lengths: Vec<u64>,
    /// Whether no other terms are looked at than those that are known.
    is_closed: bool,
    /// Whether it is not noted where terms stand.
    is_placeless: bool,
}

impl Places {
    /// Adds a place that is not before the last one. A word and a part of it may be the same term.
    fn add(&mut self, place: u32) {
        if self.count > 0 && self.last == place {
            return;
        }
        self.count += 1;
        self.last = place;
        if self.first.len() < PLACES_OF_ENTRY_MAX as usize {
            self.first.push(place);
        }
    }
}

impl Texts {
    /// Texts of which nothing else is known than where they have the terms of a ranker.
    pub fn for_ranker(ranker: &Ranker) -> Self {
        let terms = ranker.terms().iter().map(|wanted| (wanted.term.clone(), Vec::new()));
        Self { terms: terms.collect(), is_closed: true, ..Self::default() }
    }

    /// Texts of which it is known what terms they have, but not where.
    pub fn for_vocabulary() -> Self {
        Self { is_placeless: true, ..Self::default() }
    }

    /// Adds a text; they are numbered from 0.
    pub fn add(&mut self, text: &str) {
        let number = self.lengths.len();
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

    fn note(&mut self, number: usize, place: u32, word: &str) {
        let term = term(word);
        let known = match self.terms.get_mut(&*term) {
            Some(known) => known,
            None if self.is_closed => return,
            None => self.terms.entry(term.into_owned()).or_default(),
        };
        if known.last().is_none_or(|(last, _)| *last != number) {
            known.push((number, Places::default()));
        }
        if let Some((_, places)) = known.last_mut().filter(|_| !self.is_placeless) {
            places.add(place);
        }
    }

    /// Adds a text of which another index tells how many words it has, and of some terms how often and where it has them.
    pub fn add_measured(
        &mut self,
        length: u64,
        terms: impl IntoIterator<Item = (String, u64, Vec<u32>)>,
    ) {
        let number = self.lengths.len();
        for (term, count, first) in terms {
            let last = first.last().copied().unwrap_or(0);
            self.terms.entry(term).or_default().push((number, Places { count, first, last }));
        }
        self.lengths.push(length);
    }

    /// How many words each text has.
    pub fn lengths(&self) -> &[u64] {
        &self.lengths
    }

    /// Each term with the texts that have it.
    pub fn postings(&self) -> impl Iterator<Item = (&str, Vec<TextPosting<'_>>)> {
        self.terms.iter().map(|(term, texts)| {
            let texts = texts.iter();
            let texts = texts.map(|(number, places)| (*number, places.count, &places.first[..]));
            (term.as_str(), texts.collect())
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
        let found = self.terms.keys().filter(|term| sought.weight(term).is_some());
        let mut known = Vec::new();
        for term in sought.keep(found.cloned().collect()) {
            let texts = self.terms.get(&term).into_iter().flatten();
            let entries = texts.filter(|(number, _)| is_counted(*number)).count() as u64;
            if entries > 0 {
                known.push(KnownTerm { term, entries });
            }
        }
        known.sort_unstable();
        known
    }

    /// The texts on a ranker's walks that are wanted, with what they have of the query; the newest is the last one that
    /// was added.
    pub fn walked(
        &self,
        ranker: &Ranker,
        limit: usize,
        is_wanted: impl Fn(usize) -> bool,
    ) -> Vec<(usize, Measure)> {
        let mut measures: FxHashMap<usize, Measure> = FxHashMap::default();
        for (at, wanted) in ranker.terms().iter().enumerate() {
            for (number, places) in self.terms.get(&wanted.term).into_iter().flatten() {
                let length = self.lengths[*number];
                let measure = measures
                    .entry(*number)
                    .or_insert_with(|| Measure { length, found: Vec::new() });
                let (frequency, places) = (places.count, places.first.clone());
                measure.found.push(FoundTerm { term: at, frequency, places });
            }
        }
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
