//! Search queries, and whether a text matches one.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::ops::Range;

use longhand_core::cut;

use crate::words::{fold, words};

/// A query, ready to be compared with texts.
#[derive(Debug)]
pub(crate) struct Query {
    needles: Vec<Needle>,
}

/// Something that must be in the text.
#[derive(Debug)]
struct Needle {
    /// Its words, which must stand side by side; none if it consists of signs.
    words: Vec<String>,
    /// Its text, for finding it inside words.
    phrase: String,
    /// Whether the last word may go on: `conf*` finds `config`.
    is_prefix: bool,
}

/// How strictly a text is compared with a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// Words are whole.
    Words,
    /// Words may be parts of others.
    Substrings,
}

impl Query {
    /// Reads any string as a query; `None` if it is blank.
    pub(crate) fn parse(query: &str) -> Option<Self> {
        let query = fold(query);
        let mut needles: Vec<Needle> = Vec::new();
        for (position, part) in query.split('"').enumerate() {
            if position % 2 == 1 {
                needles.extend(Needle::new(part));
            } else {
                needles.extend(part.split_whitespace().filter_map(Needle::new));
            }
        }
        if needles.is_empty() {
            needles.extend(Needle::new(&query));
        }
        (!needles.is_empty()).then_some(Self { needles })
    }

    /// The distinct words of the query.
    pub(crate) fn words(&self) -> BTreeSet<&str> {
        self.needles.iter().flat_map(|needle| &needle.words).map(String::as_str).collect()
    }

    /// The distinct words of the query, each with whether it may be the beginning of a longer one.
    pub(crate) fn terms(&self) -> BTreeSet<(&str, bool)> {
        let terms = |needle: &'_ Needle| {
            let last = needle.words.len().saturating_sub(1);
            let is_prefix = needle.is_prefix;
            (0..needle.words.len()).map(move |at| (at, is_prefix && at == last))
        };
        let needles = self.needles.iter();
        needles
            .flat_map(|needle| terms(needle).map(|(at, is)| (needle.words[at].as_str(), is)))
            .collect()
    }

    /// Returns the place of the first needle, if the text has all of them.
    pub(crate) fn find(&self, text: &str, strictness: Strictness) -> Option<Range<usize>> {
        let haystack = Haystack { folded: fold(text), strictness, words: OnceCell::new() };
        let mut first: Option<Range<usize>> = None;
        for needle in &self.needles {
            let place = haystack.find(needle)?;
            if first.as_ref().is_none_or(|first| place.start < first.start) {
                first = Some(place);
            }
        }
        first.map(|place| unfolded(text, place.start)..unfolded(text, place.end))
    }
}

impl Needle {
    fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        let stem = text.strip_suffix('*').filter(|stem| stem.ends_with(char::is_alphanumeric));
        let (text, is_prefix) = (stem.unwrap_or(text), stem.is_some());
        let words = words(text).map(|(_, word)| word.to_owned()).collect();
        (!text.is_empty()).then(|| Self { words, phrase: text.to_owned(), is_prefix })
    }
}

/// A folded text, and its words if a needle asks for them.
struct Haystack<'t> {
    folded: Cow<'t, str>,
    strictness: Strictness,
    words: OnceCell<Vec<Range<usize>>>,
}

impl Haystack<'_> {
    fn find(&self, needle: &Needle) -> Option<Range<usize>> {
        match self.strictness {
            Strictness::Words if !needle.words.is_empty() => self.find_words(needle),
            _ => self.find_substring(&needle.phrase),
        }
    }

    fn find_words(&self, needle: &Needle) -> Option<Range<usize>> {
        let wanted = &needle.words;
        let words = self
            .words
            .get_or_init(|| words(&self.folded).map(|(place, _)| place).collect::<Vec<_>>());
        let is_run = |run: &&[Range<usize>]| {
            run.iter().zip(wanted).enumerate().all(|(at, (place, wanted))| {
                let word = &self.folded[place.clone()];
                let may_go_on = needle.is_prefix && at + 1 == needle.words.len();
                word == wanted || (may_go_on && word.starts_with(wanted.as_str()))
            })
        };
        let run = words.windows(wanted.len()).find(is_run)?;
        Some(run[0].start..run[wanted.len() - 1].end)
    }

    fn find_substring(&self, phrase: &str) -> Option<Range<usize>> {
        let start = memchr::memmem::find(self.folded.as_bytes(), phrase.as_bytes())?;
        Some(start..start + phrase.len())
    }
}

/// Returns the place in a text that folding moves to `at`, or one close to it.
fn unfolded(text: &str, at: usize) -> usize {
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

const SNIPPET_BYTES_BEFORE: usize = 60;
const SNIPPET_BYTES_MAX: usize = 200;

/// Returns the text around a place, on one line.
pub(crate) fn snippet(text: &str, place: &Range<usize>) -> String {
    let start = cut::head(text, place.start.saturating_sub(SNIPPET_BYTES_BEFORE)).len();
    let end = start + cut::head(&text[start..], SNIPPET_BYTES_MAX).len();
    let start = if start == 0 { 0 } else { start + gap(&text[start..place.start.max(start)]) };
    let mut line = String::new();
    if start > 0 {
        line.push('…');
    }
    let mut is_blank = true;
    for letter in text[start..end].chars() {
        let letter = if letter.is_control() { ' ' } else { letter };
        if !(is_blank && letter.is_whitespace()) {
            line.push(letter);
        }
        is_blank = letter.is_whitespace();
    }
    line.truncate(line.trim_end().len());
    if end < text.len() {
        line.push('…');
    }
    line
}

/// Where the first whole word begins.
fn gap(text: &str) -> usize {
    let mut letters = text.char_indices().skip_while(|(_, letter)| !letter.is_whitespace());
    letters.next().map_or(0, |(at, letter)| at + letter.len_utf8())
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
        let query = Query::parse("a conf* a").unwrap();
        assert_eq!(query.terms().into_iter().collect::<Vec<_>>(), [("a", false), ("conf", true)]);
    }

    #[test]
    fn parts_of_words_are_found_when_asked_for() {
        let query = Query::parse("ANDLE").unwrap();
        assert_eq!(query.find("the handles", Strictness::Words), None);
        assert_eq!(query.find("the handles", Strictness::Substrings), Some(5..10));
        assert_eq!(query.find("ÄÖ héandlé", Strictness::Substrings), Some(8..14));
    }

    #[test]
    fn a_snippet_is_one_line_around_the_match() {
        let text = format!("{}the\n\n  needle\tis here {}", "hay ".repeat(50), "straw ".repeat(50));
        let place = Query::parse("needle").unwrap().find(&text, Strictness::Words).unwrap();
        let snippet = snippet(&text, &place);
        assert!(snippet.starts_with("…hay "), "{snippet}");
        assert!(snippet.contains("hay the needle is here straw"), "{snippet}");
        assert!(snippet.ends_with("straw…") || snippet.ends_with('…'), "{snippet}");
    }
}
