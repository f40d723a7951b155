//! Which terms of a vocabulary a word of a query may mean, and how surely.

use std::collections::BTreeMap;

use memchr::memmem;

use crate::question::{AskedWord, WordKind};
use crate::spelling::{slips, slips_max};
use crate::stem::{Kinship, Stem, irregular};
use crate::terms::{is_opaque, term};

/// How much an entry with such a term counts, beside one with the very word.
const FORM: f32 = 0.9;
const FAMILY: f32 = 0.7;
const GOES_ON: f32 = 0.9;
const LONGER: f32 = 0.5;
const INSIDE: f32 = 0.45;
const ONE_SLIP: f32 = 0.7;
const TWO_SLIPS: f32 = 0.5;

/// A word goes on in another one, or stands inside of it, only if it has so many letters.
const LONGER_BYTES_MIN: usize = 4;
pub(crate) const INSIDE_BYTES_MIN: usize = 4;
/// The beginning of an id has so many letters, with a digit.
const ID_BYTES_MIN: usize = 5;
/// So many terms of a segment are counted.
const KEPT_MAX: usize = 128;

/// Terms that storage is asked for: those in its vocabulary that [`SoughtTerms::weight`] takes.
#[derive(Clone, Debug)]
pub struct SoughtTerms {
    word: String,
    letters: Vec<char>,
    mask: u32,
    stem: Option<Stem>,
    irregular: Vec<&'static str>,
    reach: Reach,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// The word itself.
    Exact,
    /// Words that begin so.
    Prefix,
    /// Its forms, and longer words that begin with it.
    Forms,
    /// Words that have it inside, and those that differ by slips.
    Similar,
}

/// Terms that lie together in a vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TermRange<'s> {
    /// One term.
    Term(&'s str),
    /// Those that begin so and are not opaque.
    Beginning(&'s str),
    /// Those that begin so, opaque ones too.
    IdBeginning(&'s str),
    /// Those that have this inside and are not opaque.
    Inside(&'s str),
}

impl TermRange<'_> {
    /// Whether a term lies in it, but for opaque ones, which may not count.
    pub(crate) fn has(&self, term: &str) -> bool {
        match self {
            TermRange::Term(other) => term == *other,
            TermRange::Beginning(beginning) | TermRange::IdBeginning(beginning) => {
                term.starts_with(beginning)
            }
            TermRange::Inside(word) => memmem::find(term.as_bytes(), word.as_bytes()).is_some(),
        }
    }
}

/// A term of a vocabulary.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KnownTerm {
    /// The term.
    pub term: String,
    /// How many entries have it.
    pub entries: u64,
}

impl KnownTerm {
    /// Adds up what two lists say of the same terms.
    pub fn joined(one: Vec<Self>, other: Vec<Self>) -> Vec<Self> {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for Self { term, entries } in one.into_iter().chain(other) {
            *counts.entry(term).or_default() += entries;
        }
        counts.into_iter().map(|(term, entries)| Self { term, entries }).collect()
    }
}

impl SoughtTerms {
    pub(crate) fn of(word: &AskedWord) -> Self {
        let reach = match word {
            _ if word.is_prefix => Reach::Prefix,
            _ if word.is_quoted || word.kind == WordKind::Filler => Reach::Exact,
            _ => Reach::Forms,
        };
        Self::new(&word.text, reach)
    }

    /// What a word may mean that is not known.
    pub(crate) fn similar(word: &AskedWord) -> Self {
        Self::new(&word.text, Reach::Similar)
    }

    fn new(word: &str, reach: Reach) -> Self {
        let has_forms = reach == Reach::Forms && !is_opaque(word);
        Self {
            word: term(word).into_owned(),
            letters: word.chars().collect(),
            mask: letter_mask(word),
            stem: Stem::of(word).filter(|_| has_forms),
            irregular: if has_forms { irregular(word).collect() } else { Vec::new() },
            reach,
        }
    }

    /// Where in a vocabulary the terms are that are sought. Ranges may overlap, and have other terms, too.
    pub fn ranges(&self) -> Vec<TermRange<'_>> {
        let itself = TermRange::Term(&self.word);
        let beginning = match self.reach {
            Reach::Exact => return vec![itself],
            Reach::Similar => {
                let first = self.word.chars().next().map_or(0, char::len_utf8);
                let inside = self.is_inside_sought().then_some(TermRange::Inside(&self.word));
                let slips = TermRange::Beginning(&self.word[..first]);
                return inside.into_iter().chain([slips]).collect();
            }
            Reach::Prefix => &self.word,
            Reach::Forms => match &self.stem {
                Some(stem) => stem.beginning(),
                None if self.word.len() >= LONGER_BYTES_MIN => &self.word,
                None => return vec![itself],
            },
        };
        let mut ranges = vec![itself];
        ranges.push(if self.may_be_id() {
            TermRange::IdBeginning(beginning)
        } else {
            TermRange::Beginning(beginning)
        });
        ranges.extend(self.irregular.iter().map(|other| TermRange::Term(other)));
        ranges
    }

    /// Of many terms, the ones that count: the surest, and of these the shortest.
    pub fn keep(&self, mut terms: Vec<String>) -> Vec<String> {
        terms.sort_unstable();
        terms.dedup();
        let weighed = terms.into_iter().map(|term| (self.weight(&term).unwrap_or(0.0), term));
        let mut weighed: Vec<(f32, String)> = weighed.collect();
        // Of equal length, they stay in order.
        weighed.sort_by(|(weight, one), (other_weight, other)| {
            other_weight.total_cmp(weight).then(one.len().cmp(&other.len()))
        });
        weighed.truncate(KEPT_MAX);
        weighed.into_iter().map(|(_, term)| term).collect()
    }

    fn is_inside_sought(&self) -> bool {
        self.reach == Reach::Similar && self.word.len() >= INSIDE_BYTES_MIN
    }

    /// Whether it may be the beginning of an id or a hash that somebody copied.
    fn may_be_id(&self) -> bool {
        self.word.len() >= ID_BYTES_MIN && self.word.bytes().any(|byte| byte.is_ascii_digit())
    }

    /// How surely a term is meant, from 0 to 1; `None` if it is not.
    pub fn weight(&self, term: &str) -> Option<f32> {
        if term == self.word {
            return Some(1.0);
        }
        if is_opaque(term) && !self.may_be_id() {
            return None;
        }
        match self.reach {
            Reach::Exact => None,
            Reach::Prefix => term.starts_with(&self.word).then_some(GOES_ON),
            Reach::Forms => self.form(term),
            Reach::Similar => self.similarity(term),
        }
    }

    fn form(&self, term: &str) -> Option<f32> {
        let kinship = || self.stem.as_ref()?.kinship(&Stem::of(term)?);
        match kinship() {
            Some(Kinship::Form) => Some(FORM),
            _ if self.irregular.contains(&term) => Some(FORM),
            Some(Kinship::Family) => Some(FAMILY),
            None => {
                let rest = term.strip_prefix(&*self.word)?;
                // A number goes on in another number, unless it is an id.
                let is_digit = |letter: Option<&u8>| letter.is_some_and(u8::is_ascii_digit);
                let is_number =
                    is_digit(self.word.as_bytes().last()) && is_digit(rest.as_bytes().first());
                let is_longer = !is_number || is_opaque(term);
                (self.word.len() >= LONGER_BYTES_MIN && is_longer).then_some(LONGER)
            }
        }
    }

    fn similarity(&self, term: &str) -> Option<f32> {
        if is_opaque(term) {
            return None;
        }
        let max = slips_max(self.letters.len());
        // Most words of a vocabulary are ruled out by their letters, which is much faster.
        // Hardly anybody slips in the first letter.
        if max > 0
            && self.letters.first().is_some_and(|first| term.starts_with(*first))
            && (self.mask ^ letter_mask(term)).count_ones() as usize <= 2 * max
        {
            let other: Vec<char> = term.chars().take(self.letters.len() + max + 1).collect();
            match slips(&self.letters, &other, max) {
                Some(0 | 1) => return Some(ONE_SLIP),
                Some(_) => return Some(TWO_SLIPS),
                _ => {}
            }
        }
        let is_inside = self.is_inside_sought()
            && memmem::find(term.as_bytes(), self.word.as_bytes()).is_some();
        is_inside.then_some(INSIDE)
    }
}

/// Which letters a word has.
fn letter_mask(word: &str) -> u32 {
    word.chars().fold(0, |mask, letter| mask | 1 << (u32::from(letter) % 32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Question;
    use crate::texts::Texts;

    fn found(query: &str, text: &str, is_similar: bool) -> Vec<String> {
        let mut texts = Texts::default();
        texts.add(text);
        let word = &Question::parse(query).words[0];
        let sought = if is_similar { SoughtTerms::similar(word) } else { SoughtTerms::of(word) };
        let known: Vec<String> =
            texts.known(&sought, |_| true).into_iter().map(|known| known.term).collect();
        let in_range = |term: &str| {
            let is_opaque_meant =
                |range: &TermRange| matches!(range, TermRange::Term(_) | TermRange::IdBeginning(_));
            sought
                .ranges()
                .iter()
                .any(|range| range.has(term) && (is_opaque_meant(range) || !is_opaque(term)))
        };
        for term in &known {
            assert!(in_range(term), "{query}: {term}");
        }
        known
    }

    #[test]
    fn forms_are_found_in_the_ranges_that_are_asked_for() {
        let text =
            "resolve resolved resolution resolver resort chose choose choosing 数 4d8461b77aa1";
        assert_eq!(
            found("resolutions", text, false),
            ["resolution", "resolve", "resolved", "resolver"]
        );
        assert_eq!(found("chosen", text, false), ["choose", "chose"]);
        assert_eq!(found("4d8461b", text, false), ["4d8461b77aa1"]);
        assert_eq!(found("part3", "part3 part31 part3x", false), ["part3", "part3x"]);
        assert_eq!(found("数据", text, false), ["数"]);
        assert_eq!(found("\"resolved\"", text, false), ["resolved"]);
        assert_eq!(
            found("reso*", text, false),
            ["resolution", "resolve", "resolved", "resolver", "resort"]
        );
    }

    #[test]
    fn unknown_words_are_found_in_others() {
        assert_eq!(found("abbruch", "der Verbindungsabbruch", true), ["verbindungsabbruch"]);
        assert_eq!(found("concurent", "concurrent current", true), ["concurrent"]);
        assert_eq!(found("tee", "the tree", true), [""; 0]);
    }
}
