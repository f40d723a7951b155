//! Which terms there are of those that are sought, and how many entries have them.

use std::collections::{BTreeMap, BTreeSet};

use longhand_recall::{KnownTerm, SoughtTerms, TermRange, Texts, Totals, is_opaque};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::Value;
use super::reach::{self, Reach, Tail};
use crate::postgres::fault::Fault;
use crate::postgres::session::text;
use crate::storage::{SearchFilter, SearchScope, Vocabulary, VocabularyQuery};

/// See [`crate::Storage::vocabulary`].
pub(in crate::postgres) async fn vocabulary(
    db: &Client,
    wanted: &VocabularyQuery,
) -> Result<Vocabulary, Fault> {
    let counted = wanted.within.counted_sessions();
    let within =
        counted.map_or(SearchScope::All, |sessions| SearchScope::Sessions(sessions.to_vec()));
    let Some(reach) = Reach::of(db, &within).await? else {
        let terms = vec![Vec::new(); wanted.sought.len()];
        return Ok(Vocabulary { terms, ..Vocabulary::default() });
    };
    let tail = Tail::read(db, &reach).await?;
    let mut texts = Texts::default();
    tail.entries.iter().for_each(|(.., record)| texts.add(&record.searched()));
    let of_tail = texts.totals(|_| true);
    let of_index = match &reach {
        Reach::All | Reach::Owner(_) => Counts::of_all(db).await?,
        Reach::Sessions(_) => Counts::within(db, &reach).await?,
    };
    let mut terms = Vec::new();
    for sought in &wanted.sought {
        let known = of_index.known(db, sought).await?;
        terms.push(KnownTerm::joined(known, texts.known(sought, |_| true)));
    }
    let Totals { entries, words } = of_index.totals;
    let totals = Totals { entries: entries + of_tail.entries, words: words + of_tail.words };
    Ok(Vocabulary { terms, totals })
}

/// How much the slices have: all of them, or what those have that are within reach.
struct Counts {
    totals: Totals,
    /// The entries that count, by slice; `None` if all do.
    docs: Option<BTreeMap<i64, BTreeSet<usize>>>,
}

impl Counts {
    async fn of_all(db: &Client) -> Result<Self, Fault> {
        let (entries, words) = totals(db).await?;
        Ok(Self { totals: Totals { entries, words }, docs: None })
    }

    async fn within(db: &Client, reach: &Reach) -> Result<Self, Fault> {
        let slices = reach.slices(db, &SearchFilter::default()).await?;
        let ids: Vec<i64> = slices.iter().map(|slice| slice.id).collect();
        let mut totals = Totals::default();
        let mut docs: BTreeMap<i64, BTreeSet<usize>> = BTreeMap::new();
        for (id, slice) in reach::read(db, &ids, &[]).await? {
            for (at, doc) in slice.docs.iter().enumerate() {
                if reach.contains(doc.session, doc.owner) {
                    totals.entries += 1;
                    totals.words += doc.length;
                    docs.entry(id).or_default().insert(at);
                }
            }
        }
        Ok(Self { totals, docs: Some(docs) })
    }

    async fn known(&self, db: &Client, sought: &SoughtTerms) -> Result<Vec<KnownTerm>, Fault> {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for range in sought.ranges() {
            // Ranges may overlap: what one has found again is the same.
            for (term, entries) in self.of_range(db, range).await? {
                counts.insert(term, entries);
            }
        }
        counts.retain(|term, entries| *entries > 0 && sought.weight(term).is_some());
        let kept = sought.keep(counts.keys().cloned().collect());
        let known = kept.into_iter().map(|term| {
            let entries = counts.get(&term).copied().unwrap_or(0);
            KnownTerm { term, entries }
        });
        Ok(known.collect())
    }

    async fn of_range(
        &self,
        db: &Client,
        range: TermRange<'_>,
    ) -> Result<Vec<(String, u64)>, Fault> {
        let (condition, values) = bounds(range);
        let takes_opaque = matches!(range, TermRange::Term(_) | TermRange::IdBeginning(_));
        let mut parameters: Vec<Value<'_>> =
            values.iter().map(|value| (value as _, Type::BYTEA)).collect();
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        let Some(docs) = &self.docs else {
            let sql = format!("SELECT term, entries FROM longhand.term t WHERE {condition}");
            for row in db.query_typed(&sql, &parameters).await? {
                counts.insert(text(row.get(0)), row.get::<_, i64>(1).max(0).cast_unsigned());
            }
            counts.retain(|term, _| takes_opaque || !is_opaque(term));
            return Ok(counts.into_iter().collect());
        };
        let slices: Vec<i64> = docs.keys().copied().collect();
        let place = parameters.len() + 1;
        parameters.push((&slices, Type::INT8_ARRAY));
        let sql = format!(
            "SELECT term, slice, data FROM longhand.posting t \
             WHERE {condition} AND substr(t.term, 1, 1) > '\\x01' AND t.slice = ANY(${place})"
        );
        for row in db.query_typed(&sql, &parameters).await? {
            let term = text(row.get(0));
            let Some(docs) = docs.get(&row.get(1)) else { continue };
            if !takes_opaque && is_opaque(&term) {
                continue;
            }
            let postings = super::slice::postings(row.get(2)).ok_or_else(reach::damaged)?;
            let entries = postings.iter().filter(|posting| docs.contains(&posting.doc)).count();
            *counts.entry(term).or_default() += entries as u64;
        }
        Ok(counts.into_iter().collect())
    }
}

/// What a term must be to lie in a range.
pub(super) fn bounds(range: TermRange<'_>) -> (&'static str, Vec<Vec<u8>>) {
    match range {
        TermRange::Term(term) => ("t.term = $1", vec![term.as_bytes().to_vec()]),
        TermRange::Beginning(beginning) | TermRange::IdBeginning(beginning) => {
            let low = beginning.as_bytes().to_vec();
            // No byte of a text is as large as this one.
            let high = [beginning.as_bytes(), &[0xff]].concat();
            ("t.term >= $1 AND t.term < $2", vec![low, high])
        }
        TermRange::Inside(word) => ("position($1 in t.term) > 0", vec![word.as_bytes().to_vec()]),
    }
}

/// How many entries and words the slices have.
pub(super) async fn totals(db: &Client) -> Result<(u64, u64), Fault> {
    let sql =
        "SELECT coalesce(sum(entries), 0)::int8, coalesce(sum(words), 0)::int8 FROM longhand.slice";
    let row = db.query_typed_one(sql, &[]).await?;
    let count = |column: usize| row.get::<_, i64>(column).max(0).cast_unsigned();
    Ok((count(0), count(1)))
}

/// How many entries of all slices have each of some terms.
pub(super) async fn counts(db: &Client, terms: &[String]) -> Result<BTreeMap<String, u64>, Fault> {
    let terms: Vec<&[u8]> = terms.iter().map(String::as_bytes).collect();
    let sql = "SELECT term, entries FROM longhand.term WHERE term = ANY($1)";
    let rows = db.query_typed(sql, &[(&terms, Type::BYTEA_ARRAY)]).await?;
    let read =
        |row: &tokio_postgres::Row| (text(row.get(0)), row.get::<_, i64>(1).max(0).cast_unsigned());
    Ok(rows.iter().map(read).collect())
}
