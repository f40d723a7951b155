//! Finding the entries that fit a query best.

use std::borrow::Cow;
use std::sync::Arc;

use longhand_core::Seq;
use longhand_recall::{Expansion, Question, Ranker, ReadEntry, snippet};

use super::search::{ledger_damage, reach, search};
use crate::ledger::Ledger;
use crate::record::{Entry, RankedFound, RankedHit, Scope};
use crate::storage::{
    BestEntries, BestQuery, ScoredEntry, SearchFilter, SearchScope, Storage, VocabularyQuery,
};
use crate::{ArchiveError, Damage, SessionId, role};

/// So many entries are read and put in order, or twice as many as are wanted.
const READ_MIN: usize = 64;
/// No more are read, however few of them are accepted.
const READ_MAX: usize = 4_096;

/// Says which entries may be found, after they are read.
pub type Accepts<'a> = &'a (dyn Fn(SessionId, &Entry) -> bool + Sync);

/// Finds entries by their text, best first.
///
/// Any string is a query: words, a question, words in double quotes that stand side by side, a name or a part of one,
/// `conf*`. Other forms of words count, and what a misspelt word may mean. What has all words weighs most, then what has
/// the most telling ones; entries that say the same are one hit. Without words, the newest entries are found.
///
/// With several scopes, each must be a session or a path of one. Damaged entries are passed over; a search of sessions
/// that finds nothing else says so.
pub async fn ranked<S: Storage + ?Sized>(
    storage: &S,
    scopes: &[Scope],
    query: &str,
    filter: SearchFilter,
    limit: usize,
    accepts: Accepts<'_>,
) -> Result<RankedFound, ArchiveError> {
    let Some((within, paths)) = reach_all(storage, scopes).await? else {
        return Ok(RankedFound::default());
    };
    let is_on_path = |session: SessionId, seq: Seq| {
        let path = paths.iter().find(|(ledger, _)| ledger.opened.session.id == session);
        path.is_none_or(|(ledger, head)| ledger.state.tree().is_on_path(seq, *head))
    };
    let accepts = |scored: &ScoredEntry| {
        let entry = &scored.record.entry;
        is_on_path(scored.session, entry.seq) && accepts(scored.session, entry)
    };
    let question = Question::parse(query);
    let is_blank = query.trim().is_empty();
    let is_looked_for_inside = question.is_looked_for_inside();
    let mut found = RankedFound::default();
    if is_blank || !question.is_empty() {
        let ranker = Arc::new(ranker(storage, &within, question).await?);
        let best = BestQuery { ranker: Arc::clone(&ranker), within, filter, limit: 0 };
        let (best, damage) = read(storage, best, limit, &accepts).await?;
        found = RankedFound { hits: ordered(&ranker, &best, limit), is_partial: best.is_partial };
        if found.hits.is_empty()
            && let Some(damage) =
                damage.filter(|_| !matches!(scopes, [Scope::All | Scope::Owner(_)]))
        {
            return Err(ledger_damage(damage));
        }
    }
    if found.hits.is_empty() && !is_blank && !is_looked_for_inside {
        return literal(storage, scopes, query, filter, limit, &accepts).await;
    }
    Ok(found)
}

/// Asks the vocabulary what the words of a query may mean.
pub(super) async fn ranker<S: Storage + ?Sized>(
    storage: &S,
    within: &SearchScope,
    question: Question,
) -> Result<Ranker, ArchiveError> {
    let mut expansion = Expansion::new(question);
    let ask = |sought| storage.vocabulary(VocabularyQuery { within: within.clone(), sought });
    let vocabulary = ask(expansion.first()).await?;
    expansion.know(vocabulary.terms);
    let second = expansion.second();
    if !second.is_empty() {
        expansion.know_similar(ask(second).await?.terms);
    }
    Ok(expansion.ranker(vocabulary.totals))
}

/// Reads the best entries, more of them until enough are accepted.
async fn read<S: Storage + ?Sized>(
    storage: &S,
    mut wanted: BestQuery,
    limit: usize,
    accepts: &(dyn Fn(&ScoredEntry) -> bool + Sync),
) -> Result<(BestEntries, Option<Damage>), ArchiveError> {
    wanted.limit = limit.saturating_mul(2).clamp(READ_MIN, READ_MAX);
    loop {
        let mut best = storage.best(wanted.clone()).await?;
        let is_all = best.entries.len() < wanted.limit && best.damage.is_none();
        best.entries.retain(|scored| accepts(scored));
        let has_enough = best.entries.len() >= limit;
        if is_all || has_enough || wanted.limit >= READ_MAX {
            best.is_partial |= !is_all && !has_enough;
            let damage = best.damage.take();
            return Ok((best, damage));
        }
        wanted.limit = wanted.limit.saturating_mul(4).min(READ_MAX);
    }
}

fn ordered(ranker: &Ranker, best: &BestEntries, limit: usize) -> Vec<RankedHit> {
    let speaker = |scored: &ScoredEntry| {
        let Entry { form, raw, .. } = &scored.record.entry;
        role::likely(form, raw)
    };
    let texts: Vec<Cow<'_, str>> =
        best.entries.iter().map(|scored| scored.record.searched()).collect();
    let read: Vec<ReadEntry<'_>> = best
        .entries
        .iter()
        .zip(&texts)
        .map(|(scored, text)| ReadEntry {
            score: scored.score,
            text,
            speaker: speaker(scored),
            at_ms: scored.record.entry.said_ms(),
        })
        .collect();
    let placed = ranker.order(&read).into_iter().take(limit);
    placed
        .map(|place| {
            let ScoredEntry { session, record, .. } = &best.entries[place.entry];
            let text = &texts[place.entry];
            let around = ranker.passage_in(text);
            RankedHit {
                session: *session,
                entry: record.entry.clone(),
                snippet: snippet(text, &around),
                text: text.clone().into_owned(),
                score: place.score,
                repeats: place.repeats,
            }
        })
        .collect()
}

/// Finds what has the very text of the query, newest first: signs, and parts of words.
async fn literal<S: Storage + ?Sized>(
    storage: &S,
    scopes: &[Scope],
    query: &str,
    filter: SearchFilter,
    limit: usize,
    accepts: &(dyn Fn(&ScoredEntry) -> bool + Sync),
) -> Result<RankedFound, ArchiveError> {
    let mut found = RankedFound::default();
    for scope in scopes {
        let hits = search(storage, scope, query, filter, limit).await?;
        found.is_partial |= hits.is_partial;
        for hit in hits.hits {
            let range = hit.seq.0..hit.seq.0 + 1;
            let Some(record) = storage.bodies(hit.session, vec![range]).await?.pop() else {
                continue;
            };
            let scored = ScoredEntry { session: hit.session, record, score: 0.0 };
            if found.hits.len() < limit && accepts(&scored) {
                found.hits.push(RankedHit {
                    session: hit.session,
                    text: scored.record.searched().into_owned(),
                    entry: scored.record.entry,
                    snippet: hit.snippet,
                    score: 0.0,
                    repeats: 1,
                });
            }
        }
    }
    Ok(found)
}

/// Looks scopes up; `None` if they hold nothing. Also returns the paths that some of them are limited to.
async fn reach_all<S: Storage + ?Sized>(
    storage: &S,
    scopes: &[Scope],
) -> Result<Option<(SearchScope, Vec<(Ledger, Seq)>)>, ArchiveError> {
    let mut sessions = Vec::new();
    let mut paths = Vec::new();
    for scope in scopes {
        match scope {
            Scope::All => return Ok(Some((SearchScope::All, Vec::new()))),
            Scope::Owner(owner) => return Ok(Some((SearchScope::Owner(*owner), Vec::new()))),
            Scope::Session(session) => sessions.push(*session),
            Scope::Path { session, .. } => {
                let Some((_, path)) = reach(storage, scope).await? else { continue };
                sessions.push(*session);
                paths.extend(path);
            }
        }
    }
    Ok((!sessions.is_empty()).then_some((SearchScope::Sessions(sessions), paths)))
}
