//! Finding entries that have all of a query: the index names some, which are compared.

use std::collections::{BTreeMap, BTreeSet};

use longhand_recall::{
    Needle, Query, Strictness, TermRange, is_opaque, snippet, term, term_beginning,
};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::reach::{self, Reach, ReadSlice, Slice, Tail, VAIN_MAX};
use super::{Value, known};
use crate::postgres::fault::Fault;
use crate::postgres::session::text;
use crate::storage::{Candidate, Candidates, SearchQuery, SearchStatistics};
use crate::{Cursor, EntryRecord, Hit, SessionId};

/// How many parts of a query are looked up; the rest is compared in the entries found.
const NEEDLES_MAX: usize = 32;
/// A part that stands for more terms is not looked up.
const TERMS_MAX: usize = 4_096;
/// So many slices are looked through, and so many entries compared, at a time.
const SLICES: usize = 32;
const COMPARED: usize = 128;

/// What an entry must have: one reading of each needle, all words of the reading, one of the terms of a word.
struct Lookup {
    needles: Vec<Vec<Vec<Word>>>,
}

/// A word of a query: the terms that it may be.
#[derive(Default)]
struct Word {
    terms: Vec<String>,
    /// Whether its places tell whether words stand side by side: the word itself, and nothing else, is meant.
    is_itself: bool,
}

/// See [`crate::Storage::candidates`]. Damaged entries are skipped; the first one is reported.
pub(in crate::postgres) async fn candidates(
    db: &Client,
    wanted: &SearchQuery,
) -> Result<Candidates, Fault> {
    let Some(query) = Query::parse(&wanted.query) else { return Ok(Candidates::default()) };
    let Some(reach) = Reach::of(db, &wanted.within).await? else {
        return Ok(Candidates::default());
    };
    let statistics = statistics(db, &query).await?;
    let tail = Tail::read(db, &reach).await?;
    let end = wanted.after.map_or(i64::MAX, |after| after.major.cast_signed());
    let mut search = Search {
        wanted,
        query: &query,
        found: Candidates {
            statistics,
            is_partial: tail.is_partial,
            damage: tail.damage,
            ..Candidates::default()
        },
        vain: 0,
        last: None,
    };
    // What the index does not know yet is compared entry by entry, in its turn.
    let mut tail: BTreeMap<i64, (SessionId, EntryRecord)> = tail
        .entries
        .into_iter()
        .filter(|(id, ..)| *id < end)
        .map(|(id, session, record)| (id, (session, record)))
        .collect();
    let lookup = Lookup::of(db, &query, wanted.strictness).await?;
    let slices = match &lookup {
        None => Vec::new(),
        Some(lookup) => lookup.slices(db, reach.slices(db, &wanted.filter).await?).await?,
    };
    let mut named: BTreeSet<i64> = BTreeSet::new();
    let mut windows = slices.chunks(SLICES).peekable();
    while !search.is_over() {
        let window = windows.next();
        if let (Some(window), Some(lookup)) = (window, &lookup) {
            let ids: Vec<i64> = window.iter().map(|slice| slice.id).collect();
            for (_, slice) in reach::read(db, &ids, &lookup.terms()).await? {
                let docs = lookup.docs(&slice).into_iter().map(|at| &slice.docs[at]);
                let docs = docs.filter(|doc| doc.id < end && reach.takes(doc, &wanted.filter));
                named.extend(docs.map(|doc| doc.id));
            }
        }
        // The slices that come later may have entries up to their last ones.
        let safe =
            windows.peek().and_then(|window| window.first()).map_or(i64::MIN, |slice| slice.last);
        search.compare_down_to(db, safe, &mut named, &mut tail).await?;
        if window.is_none() {
            break;
        }
    }
    Ok(search.finished())
}

/// What there is of the words of a query.
async fn statistics(db: &Client, query: &Query) -> Result<SearchStatistics, Fault> {
    let words: Vec<String> = query.words().into_iter().map(str::to_owned).collect();
    let terms: Vec<String> = words.iter().map(|word| term(word).into_owned()).collect();
    let counts = known::counts(db, &terms).await?;
    let entries_with = terms.iter().map(|term| counts.get(term).copied().unwrap_or(0)).collect();
    let (entries, length) = known::totals(db).await?;
    Ok(SearchStatistics { words, entries_with, entries, length })
}

struct Search<'q> {
    wanted: &'q SearchQuery,
    query: &'q Query,
    found: Candidates,
    vain: usize,
    /// The entry that was compared last.
    last: Option<i64>,
}

impl Search<'_> {
    fn is_full(&self) -> bool {
        self.found.hits.len() >= self.wanted.limit
    }

    fn is_over(&self) -> bool {
        self.is_full() || self.vain >= VAIN_MAX
    }

    /// Compares the entries that are newer than one, the newest first.
    async fn compare_down_to(
        &mut self,
        db: &Client,
        safe: i64,
        named: &mut BTreeSet<i64>,
        tail: &mut BTreeMap<i64, (SessionId, EntryRecord)>,
    ) -> Result<(), Fault> {
        while !self.is_over() {
            let newest = named.iter().rev().take_while(|id| **id > safe);
            let some: Vec<i64> = newest.take(COMPARED).copied().collect();
            let oldest = if some.len() < COMPARED { safe } else { some[COMPARED - 1] - 1 };
            let of_tail = tail.split_off(&oldest.saturating_add(1));
            if some.is_empty() && of_tail.is_empty() {
                return Ok(());
            }
            let read = reach::by_ids(db, &some).await?;
            self.found.damage = self.found.damage.take().or(read.damage);
            named.retain(|id| !some.contains(id));
            let mut entries = of_tail;
            entries.extend(
                read.entries.into_iter().map(|(id, session, record)| (id, (session, record))),
            );
            for (id, (session, record)) in entries.into_iter().rev() {
                if !self.is_over() {
                    self.compare(id, session, &record);
                }
            }
        }
        Ok(())
    }

    fn compare(&mut self, id: i64, session: SessionId, record: &EntryRecord) {
        self.last = Some(id);
        let (entry, text) = (&record.entry, record.searched());
        let is_wanted = self.wanted.filter.accepts(entry);
        let place = self.query.find(&text, self.wanted.strictness).filter(|_| is_wanted);
        let Some(place) = place else {
            self.vain += 1;
            return;
        };
        let hit =
            Hit { session, seq: entry.seq, round: entry.round, snippet: snippet(&text, &place) };
        let (frequencies, length) = self.query.frequencies(&text);
        self.found.hits.push(Candidate { hit, frequencies, length });
    }

    fn finished(mut self) -> Candidates {
        self.found.is_partial |= self.vain >= VAIN_MAX;
        if self.is_full() {
            let last = self.last.map(|last| Cursor::number(last.cast_unsigned()));
            self.found.next = last.filter(|_| self.wanted.limit > 0);
        }
        self.found
    }
}

impl Lookup {
    /// `None` if no entry of a slice can have all of the query.
    async fn of(db: &Client, query: &Query, strictness: Strictness) -> Result<Option<Self>, Fault> {
        let mut needles = Vec::new();
        let mut parts: Vec<&Needle> = query.needles.iter().take(NEEDLES_MAX).collect();
        // The longest first: most likely it is not there.
        parts.sort_by_key(|needle| std::cmp::Reverse(needle.phrase.len()));
        for needle in parts {
            let found = match strictness {
                Strictness::Words => readings(db, needle).await?,
                Strictness::Substrings => parts_of(db, needle).await?,
            };
            match found {
                None => {}
                Some(readings) if readings.is_empty() => return Ok(None),
                Some(readings) => needles.push(readings),
            }
        }
        Ok(Some(Self { needles }))
    }

    fn terms(&self) -> Vec<&str> {
        let words = self.needles.iter().flatten().flatten();
        let terms: BTreeSet<&str> =
            words.flat_map(|word| &word.terms).map(String::as_str).collect();
        terms.into_iter().collect()
    }

    /// Of slices, those that may have what the first needle asks for.
    async fn slices(&self, db: &Client, slices: Vec<Slice>) -> Result<Vec<Slice>, Fault> {
        let Some(readings) = self.needles.first() else { return Ok(slices) };
        let firsts = readings.iter().filter_map(|words| words.first());
        let terms: Vec<&[u8]> = firsts.flat_map(|word| &word.terms).map(String::as_bytes).collect();
        let ids: Vec<i64> = slices.iter().map(|slice| slice.id).collect();
        let sql =
            "SELECT DISTINCT slice FROM longhand.posting WHERE term = ANY($1) AND slice = ANY($2)";
        let values: [Value<'_>; 2] = [(&terms, Type::BYTEA_ARRAY), (&ids, Type::INT8_ARRAY)];
        let rows = db.query_typed(sql, &values).await?;
        let named: BTreeSet<i64> = rows.iter().map(|row| row.get(0)).collect();
        Ok(slices.into_iter().filter(|slice| named.contains(&slice.id)).collect())
    }

    /// The entries of a slice that may have all of the query.
    fn docs(&self, slice: &ReadSlice) -> Vec<usize> {
        let mut docs: Option<BTreeSet<usize>> = None;
        for readings in &self.needles {
            let mut of_needle = BTreeSet::new();
            for words in readings {
                of_needle.extend(of_reading(slice, words));
            }
            docs = Some(match docs {
                None => of_needle,
                Some(docs) => docs.intersection(&of_needle).copied().collect(),
            });
        }
        docs.map_or_else(|| (0..slice.docs.len()).collect(), |docs| docs.into_iter().collect())
    }
}

/// The entries of a slice with words that may stand side by side.
fn of_reading(slice: &ReadSlice, words: &[Word]) -> BTreeSet<usize> {
    let of_word = |word: &Word| -> BTreeSet<usize> {
        let postings = word.terms.iter().filter_map(|term| slice.terms.get(term));
        postings.flatten().map(|posting| posting.doc).collect()
    };
    let mut docs: Option<BTreeSet<usize>> = None;
    for word in words {
        let of_word = of_word(word);
        docs = Some(match docs {
            None => of_word,
            Some(docs) => docs.intersection(&of_word).copied().collect(),
        });
    }
    let mut docs = docs.unwrap_or_default();
    docs.retain(|doc| is_run(slice, words, *doc));
    docs
}

/// Whether words may stand side by side in an entry: each in the place after the one before, or, for parts of a name, in
/// the same.
fn is_run(slice: &ReadSlice, words: &[Word], doc: usize) -> bool {
    let mut before: Option<(Vec<u32>, &str)> = None;
    for word in words {
        let [term] = word.terms.as_slice() else { return true };
        let postings = slice.terms.get(term);
        let posting = postings.and_then(|postings| {
            let at = postings.binary_search_by_key(&doc, |posting| posting.doc).ok()?;
            postings.get(at)
        });
        let Some(posting) = posting else { return false };
        // Of a frequent word, some places are not known.
        if !word.is_itself || posting.count > posting.places.len() as u64 {
            return true;
        }
        let places: Vec<u32> = match &before {
            None => posting.places.clone(),
            Some((ends, other)) => {
                let is_next = |place: &&u32| {
                    let has = |wanted: u32| ends.binary_search(&wanted).is_ok();
                    place.checked_sub(1).is_some_and(has) || (other != term && has(**place))
                };
                posting.places.iter().filter(is_next).copied().collect()
            }
        };
        if places.is_empty() {
            return false;
        }
        before = Some((places, term));
    }
    true
}

/// The readings of a needle whose words are all known; `None` if the index does not tell.
async fn readings(db: &Client, needle: &Needle) -> Result<Option<Vec<Vec<Word>>>, Fault> {
    if needle.readings.is_empty() {
        return Ok(None);
    }
    let mut readings = Vec::new();
    for words in &needle.readings {
        let terms: Vec<String> = words.iter().map(|word| term(word).into_owned()).collect();
        let known = known::counts(db, &terms).await?;
        let mut found = Vec::new();
        for (at, term) in terms.into_iter().enumerate() {
            if needle.is_prefix && at + 1 == words.len() {
                let beginning = term_beginning(&words[at]);
                let terms = of_range(db, TermRange::IdBeginning(beginning)).await?;
                if terms.len() > TERMS_MAX {
                    return Ok(None);
                }
                found.push(Word { terms, is_itself: false });
            } else {
                let terms: Vec<String> =
                    known.contains_key(&term).then_some(term).into_iter().collect();
                found.push(Word { terms, is_itself: true });
            }
        }
        if found.iter().all(|word| !word.terms.is_empty()) {
            readings.push(found);
        }
    }
    Ok(Some(readings))
}

/// The words that may have the text of a needle inside.
async fn parts_of(db: &Client, needle: &Needle) -> Result<Option<Vec<Vec<Word>>>, Fault> {
    let Some(words) = needle.readings.first() else { return Ok(None) };
    let last = words.len() - 1;
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let terms = match at {
            // A word in the middle is whole, and the last one at least begins a word.
            _ if at > 0 && at < last => of_range(db, TermRange::Term(&term(word))).await?,
            _ if at > 0 => of_range(db, TermRange::IdBeginning(term_beginning(word))).await?,
            _ => around(db, word, last > 0).await?,
        };
        if terms.len() > TERMS_MAX {
            return Ok(None);
        }
        if terms.is_empty() {
            return Ok(Some(Vec::new()));
        }
        found.push(Word { terms, is_itself: false });
    }
    Ok(Some(vec![found]))
}

/// The terms that have a word inside, or at their end. Of opaque ones, beginnings are found.
async fn around(db: &Client, word: &str, is_end: bool) -> Result<Vec<String>, Fault> {
    let whole_term = term(word);
    let mut terms = if is_end {
        of_range(db, TermRange::Term(&whole_term)).await?
    } else {
        of_range(db, TermRange::IdBeginning(term_beginning(word))).await?
    };
    let inside = of_range(db, TermRange::Inside(word)).await?;
    terms.extend(
        inside.into_iter().filter(|term| !is_opaque(term) && (!is_end || term.ends_with(word))),
    );
    terms.sort_unstable();
    terms.dedup();
    Ok(terms)
}

/// The terms of the vocabulary in a range; of very many, some more than are looked up.
async fn of_range(db: &Client, range: TermRange<'_>) -> Result<Vec<String>, Fault> {
    let (condition, values) = known::bounds(range);
    let parameters: Vec<Value<'_>> = values.iter().map(|value| (value as _, Type::BYTEA)).collect();
    let limit = TERMS_MAX + 1;
    let sql =
        format!("SELECT term FROM longhand.term t WHERE {condition} ORDER BY term LIMIT {limit}");
    Ok(db.query_typed(&sql, &parameters).await?.iter().map(|row| text(row.get(0))).collect())
}
