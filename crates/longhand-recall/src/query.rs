//! Search queries, and whether a text matches one.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashSet};
use std::ops::Range;

use crate::terms::is_opaque;
use crate::words::{Folded, Word, fold};

/// How many words of a query are counted.
const WORDS_MAX: usize = 64;

/// A query, ready to be compared with texts.
#[derive(Debug)]
pub struct Query {
    /// What the text must have.
    pub needles: Vec<Needle>,
}

/// Something that must be in the text.
#[derive(Debug)]
pub struct Needle {
    /// Its words, which must stand side by side; none if it consists of signs. The second reading has the parts of
    /// its names.
    pub readings: Vec<Vec<String>>,
    /// Its text, for finding it inside words.
    pub phrase: String,
    /// Whether the last word may go on: `conf*` finds `config`.
    pub is_prefix: bool,
}

/// How strictly a text is compared with a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// Words are whole, or parts of a name such as `OrderSerializer`.
    Words,
    /// Words may be parts of others.
    Substrings,
}

impl Query {
    /// Reads any string as a query; `None` if it is blank.
    pub fn parse(query: &str) -> Option<Self> {
        let folded = Folded::of(query);
        let all: &str = &folded.text;
        let needle = |part: &str| {
            let start = part.as_ptr() as usize - all.as_ptr() as usize;
            Needle::new(&folded, start..start + part.len())
        };
        let mut needles: Vec<Needle> = Vec::new();
        for (position, part) in all.split('"').enumerate() {
            if position % 2 == 1 {
                needles.extend(needle(part));
            } else {
                needles.extend(part.split_whitespace().filter_map(needle));
            }
        }
        if needles.is_empty() {
            needles.extend(needle(all));
        }
        let mut known = HashSet::new();
        needles.retain(|needle| {
            let Needle { readings, phrase, is_prefix } = needle;
            known.insert((readings.clone(), phrase.clone(), *is_prefix))
        });
        (!needles.is_empty()).then_some(Self { needles })
    }

    /// The distinct words of the query, in order; of a very long one, those of its beginning.
    pub fn words(&self) -> BTreeSet<&str> {
        let words = self.needles.iter().filter_map(|needle| needle.readings.first());
        words.flatten().map(String::as_str).take(WORDS_MAX).collect()
    }

    /// Returns the place of the first needle, if the text has all of them.
    pub fn find(&self, text: &str, strictness: Strictness) -> Option<Range<usize>> {
        let folded = Folded::of(text);
        let haystack = Haystack { folded: &folded, strictness, words: OnceCell::new() };
        let mut first: Option<Range<usize>> = None;
        for needle in &self.needles {
            let place = haystack.find(needle)?;
            if first.as_ref().is_none_or(|first| place.start < first.start) {
                first = Some(place);
            }
        }
        first.map(|place| unfolded(text, place.start)..unfolded(text, place.end))
    }

    /// How often a text has each of [`Query::words`], and how many words it has.
    pub fn frequencies(&self, text: &str) -> (Vec<u64>, u64) {
        let words: Vec<&str> = self.words().into_iter().collect();
        let mut frequencies = vec![0; words.len()];
        let mut length = 0;
        for word in Folded::of(text).words() {
            length += 1;
            let parts = word.parts().map(|(_, part)| part);
            for found in std::iter::once(word.text).chain(parts) {
                if let Ok(at) = words.binary_search(&found) {
                    frequencies[at] += 1;
                }
            }
        }
        (frequencies, length)
    }
}

impl Needle {
    fn new(folded: &Folded<'_>, range: Range<usize>) -> Option<Self> {
        let text = &folded.text[range.clone()];
        let start = range.start + (text.len() - text.trim_start().len());
        let text = text.trim();
        let stem = text.strip_suffix('*').filter(|stem| stem.ends_with(char::is_alphanumeric));
        let (text, is_prefix) = (stem.unwrap_or(text), stem.is_some());
        let words: Vec<Word<'_>> = folded.words_of(start..start + text.len()).collect();
        let whole: Vec<String> = words.iter().map(|word| word.text.to_owned()).collect();
        let parts: Vec<String> = words
            .iter()
            .flat_map(|word| {
                let parts: Vec<String> = word.parts().map(|(_, part)| part.to_owned()).collect();
                if parts.is_empty() { vec![word.text.to_owned()] } else { parts }
            })
            .collect();
        let mut readings = vec![whole];
        if parts != readings[0] {
            readings.push(parts);
        }
        readings.retain(|reading| !reading.is_empty());
        (!text.is_empty()).then(|| Self { readings, phrase: text.to_owned(), is_prefix })
    }
}

/// A folded text, and its words if a needle asks for them.
struct Haystack<'t> {
    folded: &'t Folded<'t>,
    strictness: Strictness,
    words: OnceCell<Vec<Word<'t>>>,
}

impl Haystack<'_> {
    fn find(&self, needle: &Needle) -> Option<Range<usize>> {
        if self.strictness == Strictness::Substrings || needle.readings.is_empty() {
            return self.find_substring(&needle.phrase);
        }
        let words = self.words.get_or_init(|| self.folded.words().collect());
        let found = needle.readings.iter().filter_map(|reading| {
            (0..words.len()).find_map(|at| run(&words[at..], reading, needle.is_prefix))
        });
        found.min_by_key(|place| place.start)
    }

    /// Of an opaque word, only the beginning is found.
    fn find_substring(&self, phrase: &str) -> Option<Range<usize>> {
        let text: &str = &self.folded.text;
        let mut words = self.folded.words();
        let mut word = words.next();
        let mut places = memchr::memmem::find_iter(text.as_bytes(), phrase.as_bytes());
        let start = places.find(|start| {
            while word.as_ref().is_some_and(|word| word.end() <= *start) {
                word = words.next();
            }
            !word.as_ref().is_some_and(|word| word.start < *start && is_opaque(word.text))
        })?;
        Some(start..start + phrase.len())
    }
}

/// The place of wanted words from the first of the words on. A word of the text counts whole, or as its parts.
fn run(words: &[Word<'_>], wanted: &[String], is_prefix: bool) -> Option<Range<usize>> {
    let first = words.first()?;
    if let Some(end) = follow(words, wanted, is_prefix) {
        return Some(first.start..end);
    }
    let parts: Vec<(usize, &str)> = first.parts().collect();
    (1..parts.len()).find_map(|part| {
        let end = follow_parts(&parts[part..], &words[1..], wanted, is_prefix)?;
        Some(parts[part].0..end)
    })
}

/// Where wanted words end that begin with the first of the words.
fn follow(words: &[Word<'_>], wanted: &[String], is_prefix: bool) -> Option<usize> {
    let (word, rest) = words.split_first()?;
    let (first, left) = wanted.split_first()?;
    let is_last = left.is_empty();
    if is_equal(word.text, first, is_prefix && is_last) {
        if is_last {
            return Some(word.end());
        }
        if let Some(end) = follow(rest, left, is_prefix) {
            return Some(end);
        }
    }
    let parts: Vec<(usize, &str)> = word.parts().collect();
    follow_parts(&parts, rest, wanted, is_prefix)
}

/// The same from a part of a name on.
fn follow_parts(
    parts: &[(usize, &str)],
    rest: &[Word<'_>],
    wanted: &[String],
    is_prefix: bool,
) -> Option<usize> {
    let mut left = wanted;
    for (start, part) in parts {
        let (first, others) = left.split_first()?;
        if !is_equal(part, first, is_prefix && others.is_empty()) {
            return None;
        }
        if others.is_empty() {
            return Some(start + part.len());
        }
        left = others;
    }
    if parts.is_empty() { None } else { follow(rest, left, is_prefix) }
}

fn is_equal(word: &str, wanted: &str, may_go_on: bool) -> bool {
    word == wanted || (may_go_on && word.starts_with(wanted))
}

/// Returns the place in a text that folding moves to `at`, or one close to it.
pub(crate) fn unfolded(text: &str, at: usize) -> usize {
    if text.is_ascii() {
        return at;
    }
    let mut folded = 0;
    let mut letter_bytes = [0; 4];
    for (place, letter) in text.char_indices() {
        if folded >= at {
            return place;
        }
        folded += fold(letter.encode_utf8(&mut letter_bytes)).len();
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(query: &str, text: &str, expected: bool) {
        let found = Query::parse(query).and_then(|query| query.find(text, Strictness::Words));
        assert_eq!(found.is_some(), expected, "{query} in {text}: {found:?}");
    }

    #[test]
    fn any_string_is_a_query() {
        for query in [
            "GB/s",
            "don't",
            "a-b",
            "\"",
            "NEAR",
            "*",
            "AND OR NOT",
            "数据",
            "🚀",
            "a:b^c",
            "(",
            "\0",
            "--",
        ] {
            check(query, &format!("before {query} after"), true);
            check(query, "nothing of the kind", false);
        }
        assert!(Query::parse(" \n").is_none());
    }

    #[test]
    fn every_needle_must_be_there() {
        check("build broken", "the build is broken", true);
        check("build mended", "the build is broken", false);
        check("build ->", "build -> test", true);
        check("build ->", "build, test", false);
    }

    #[test]
    fn quotes_ask_for_words_side_by_side() {
        check("\"is broken\"", "the build is\nbroken", true);
        check("\"build broken\"", "the build is broken", false);
        check("\"build is", "the build is broken", true);
        check("据库", "数据库", true);
        check("库据", "数据库", false);
    }

    #[test]
    fn a_star_asks_for_the_beginning_of_a_word() {
        check("conf*", "the configuration", true);
        check("conf*", "an unconfigured server", false);
        check("\"the conf*\"", "the configuration", true);
        check("th* configuration", "the configuration", true);
        check("conf", "the configuration", false);
    }

    #[test]
    fn names_are_found_whole_and_in_parts() {
        let text = "see the OrderSerializer error in processed_events";
        for query in
            ["OrderSerializer", "orderserializer", "order", "serializer", "order_serializer"]
        {
            check(query, text, true);
        }
        check("\"the order\"", text, true);
        check("\"serializer error\"", text, true);
        check("\"OrderSerializer error\"", text, true);
        check("\"orderserializer error in\"", text, true);
        check("\"the serializer\"", text, false);
        check("\"order error\"", text, false);
        check("\"serializer order\"", text, false);
        check("seri*", text, true);
        check("processedEvents", text, true);
        check("OrderSerializer", "an order serializer", true);
    }

    #[test]
    fn of_an_id_only_the_beginning_is_found() {
        let query = Query::parse("8461b7").unwrap();
        assert_eq!(query.find("is 4d8461b77aa1", Strictness::Substrings), None);
        assert_eq!(query.find("4d8461b77aa1 8461b7zz", Strictness::Substrings), Some(13..19));
        let query = Query::parse("4d8461").unwrap();
        assert_eq!(query.find("数4d8461b77aa1", Strictness::Substrings), Some(3..9));
    }

    #[test]
    fn words_are_counted() {
        let query = Query::parse("order \"the error\"").unwrap();
        assert_eq!(query.words().into_iter().collect::<Vec<_>>(), ["error", "order", "the"]);
        assert_eq!(query.frequencies("The OrderBook, the order"), (vec![0, 2, 2], 4));
    }

    #[test]
    fn parts_of_words_are_found_when_asked_for() {
        let query = Query::parse("ANDLE").unwrap();
        assert_eq!(query.find("the handles", Strictness::Words), None);
        assert_eq!(query.find("the handles", Strictness::Substrings), Some(5..10));
        assert_eq!(query.find("ÄÖ héandlé", Strictness::Substrings), Some(8..14));
    }
}
