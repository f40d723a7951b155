//! Finding the entries that fit a query best: the ranker says which ways to go, and how well an entry fits.

use std::collections::BTreeSet;

use longhand_recall::{Best, Ranker, Texts, Walk};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::Value;
use super::reach::{self, Reach, ReadSlice, Slice, Tail};
use crate::postgres::fault::Fault;
use crate::storage::{BestEntries, BestQuery, ScoredEntry, SearchFilter};

/// So many slices are read at a time.
const SLICES: usize = 64;

/// A term with how often and where an entry has it.
type MeasuredTerm = (String, u64, Vec<u32>);

/// An entry on the ranker's walks: its text, or what the index tells of it.
enum Found {
    Text(String),
    Measured(u64, Vec<MeasuredTerm>),
}

/// See [`crate::Storage::best`]. Damaged entries are skipped; the first one is reported.
pub(in crate::postgres) async fn best(
    db: &Client,
    wanted: &BestQuery,
) -> Result<BestEntries, Fault> {
    let Some(reach) = Reach::of(db, &wanted.within).await? else {
        return Ok(BestEntries::default());
    };
    let tail = Tail::read(db, &reach).await?;
    let ranker: &Ranker = &wanted.ranker;
    let walks = ranker.walks(wanted.limit);
    let mut found: Vec<(i64, Found)> = Vec::new();
    for (id, _, record) in &tail.entries {
        if wanted.filter.accepts(&record.entry) {
            found.push((*id, Found::Text(record.searched().into_owned())));
        }
    }
    let newest = found.last().map_or(0, |(id, _)| *id);
    let slices = on_walks(db, &reach, wanted, &walks, newest).await?;
    let terms: Vec<&str> = ranker.terms().iter().map(|term| term.term.as_str()).collect();
    for slices in slices.chunks(SLICES) {
        for (_, slice) in reach::read(db, slices, &terms).await? {
            measure(&slice, ranker, &walks, |doc| reach.takes(doc, &wanted.filter), &mut found);
        }
    }
    found.sort_unstable_by_key(|(id, _)| *id);
    let mut texts = Texts::default();
    let mut ids = Vec::with_capacity(found.len());
    for (id, found) in found {
        ids.push(id);
        match found {
            Found::Text(text) => texts.add(&text),
            Found::Measured(length, terms) => texts.add_measured(length, terms),
        }
    }
    let mut best = Best::new(wanted.limit);
    for (number, measure) in texts.walked(ranker, wanted.limit, |_| true) {
        best.add(ranker.score(&measure), ids[number].cast_unsigned());
    }
    read_best(db, wanted, best, tail).await
}

/// Reads the best entries in their order.
async fn read_best(
    db: &Client,
    wanted: &BestQuery,
    best: Best,
    tail: Tail,
) -> Result<BestEntries, Fault> {
    let sorted = best.into_sorted();
    let ids: Vec<i64> = sorted.iter().map(|(_, id)| id.cast_signed()).collect();
    let mut read = reach::by_ids(db, &ids).await?;
    read.entries.sort_unstable_by_key(|(id, ..)| *id);
    let scored = sorted.into_iter().filter_map(|(score, id)| {
        let at = read.entries.binary_search_by_key(&id.cast_signed(), |(id, ..)| *id).ok()?;
        let (_, session, record) = &read.entries[at];
        let is_wanted = wanted.filter.accepts(&record.entry);
        is_wanted.then(|| ScoredEntry { session: *session, record: record.clone(), score })
    });
    let entries = scored.collect();
    Ok(BestEntries { entries, is_partial: tail.is_partial, damage: tail.damage.or(read.damage) })
}

/// The slices that may have an entry on a walk.
async fn on_walks(
    db: &Client,
    reach: &Reach,
    wanted: &BestQuery,
    walks: &[Walk],
    newest: i64,
) -> Result<Vec<i64>, Fault> {
    let all = reach.slices(db, &wanted.filter).await?;
    let newest = all.first().map_or(newest, |slice| slice.last.max(newest));
    let is_narrow = reach.is_narrow(&wanted.filter);
    let mut chosen: BTreeSet<i64> = BTreeSet::new();
    for walk in walks {
        let oldest = match walk.span_max {
            Some(span) if !is_narrow => newest.saturating_sub_unsigned(span),
            _ => i64::MIN,
        };
        let near: Vec<Slice> = all.iter().filter(|slice| slice.last >= oldest).copied().collect();
        match walk.required.first() {
            None => chosen.extend(enough(&near, walk.entries_max, is_narrow, &wanted.filter)),
            Some(terms) => {
                let terms = terms.iter().map(|at| wanted.ranker.terms()[*at].term.as_bytes());
                let terms: Vec<&[u8]> = terms.collect();
                let near: Vec<i64> = near.iter().map(|slice| slice.id).collect();
                let sql = "SELECT DISTINCT slice FROM longhand.posting WHERE term = ANY($1) AND slice = ANY($2)";
                let values: [Value<'_>; 2] =
                    [(&terms, Type::BYTEA_ARRAY), (&near, Type::INT8_ARRAY)];
                chosen.extend(
                    db.query_typed(sql, &values).await?.iter().map(|row| row.get::<_, i64>(0)),
                );
            }
        }
    }
    Ok(chosen.into_iter().collect())
}

/// The newest slices with so many entries; all of them, if some entries may not be wanted.
fn enough(slices: &[Slice], entries: usize, is_narrow: bool, filter: &SearchFilter) -> Vec<i64> {
    let takes_all = !is_narrow && *filter == SearchFilter::default();
    let mut left = i64::try_from(entries).unwrap_or(i64::MAX);
    let enough = slices.iter().take_while(|slice| {
        let goes_on = left > 0 || !takes_all;
        left = left.saturating_sub(slice.entries);
        goes_on
    });
    enough.map(|slice| slice.id).collect()
}

/// Takes the entries of a slice that are on a walk.
fn measure(
    slice: &ReadSlice,
    ranker: &Ranker,
    walks: &[Walk],
    is_wanted: impl Fn(&super::slice::Doc) -> bool,
    found: &mut Vec<(i64, Found)>,
) {
    let has = |doc: usize, term: usize| {
        let postings = slice.terms.get(&ranker.terms()[term].term);
        postings.is_some_and(|postings| {
            postings.binary_search_by_key(&doc, |posting| posting.doc).is_ok()
        })
    };
    let is_on_walk = |doc: usize| {
        walks
            .iter()
            .any(|walk| walk.required.iter().all(|terms| terms.iter().any(|term| has(doc, *term))))
    };
    let mut on_walks: Vec<Option<Vec<MeasuredTerm>>> = slice
        .docs
        .iter()
        .enumerate()
        .map(|(at, doc)| (is_wanted(doc) && is_on_walk(at)).then(Vec::new))
        .collect();
    for (term, postings) in &slice.terms {
        for posting in postings {
            if let Some(Some(terms)) = on_walks.get_mut(posting.doc) {
                terms.push((term.clone(), posting.count, posting.places.clone()));
            }
        }
    }
    let measured = slice.docs.iter().zip(on_walks);
    found.extend(
        measured.filter_map(|(doc, terms)| Some((doc.id, Found::Measured(doc.length, terms?)))),
    );
}
