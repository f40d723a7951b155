//! The messages of a conversation that may be about a question, with those around them.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use longhand_core::Seq;
use longhand_recall::memory::AROUND;
use longhand_recall::{Question, Ranker};

use super::ranked::ranker;
use super::search::reach;
use crate::record::Scope;
use crate::storage::{BestQuery, EntryRecord, SearchFilter, SearchScope, Storage};
use crate::{ArchiveError, SessionId};

/// Messages that may be about a question.
pub struct NearEntries {
    /// Says what the words of the question count.
    pub ranker: Arc<Ranker>,
    /// The entries, in order.
    pub entries: Vec<EntryRecord>,
}

/// Reads the entries of a path that fit a question best, at most so many, others that may be about it, and those that
/// stand around them.
///
/// `None` if the session is unknown or nothing is asked for. Damaged entries are passed over.
pub async fn near<S: Storage + ?Sized>(
    storage: &S,
    (session, head): (SessionId, Option<Seq>),
    question: Question,
    filter: SearchFilter,
    limit: usize,
    others: &[Seq],
) -> Result<Option<NearEntries>, ArchiveError> {
    let scope = Scope::Path { session, head };
    let Some((_, path)) = reach(storage, &scope).await?.filter(|_| !question.is_empty()) else {
        return Ok(None);
    };
    let is_on_path = |seq: Seq| {
        path.as_ref().is_none_or(|(ledger, head)| ledger.state.tree().is_on_path(seq, *head))
    };
    let within = SearchScope::Sessions(vec![session]);
    let ranker = Arc::new(ranker(storage, &within, question).await?);
    let best = BestQuery { ranker: Arc::clone(&ranker), within, filter, limit };
    let mut entries: Vec<EntryRecord> =
        storage.best(best).await?.entries.into_iter().map(|scored| scored.record).collect();
    let newest = path.as_ref().map_or(0, |(_, head)| head.0);
    let is_read = |seq: &Seq| entries.iter().any(|record| record.entry.seq == *seq);
    let others = others.iter().filter(|seq| seq.0 <= newest && !is_read(seq));
    let others: BTreeSet<u64> = others.map(|seq| seq.0).collect();
    let others = others.into_iter().map(|seq| seq..seq + 1).collect();
    entries.extend(storage.bodies(session, others).await?);
    entries.retain(|record| is_on_path(record.entry.seq));
    entries.sort_unstable_by_key(|record| record.entry.seq);
    if filter == SearchFilter::default() {
        let missing = around(&entries, newest);
        let read = storage.bodies(session, missing).await?;
        entries.extend(read.into_iter().filter(|record| is_on_path(record.entry.seq)));
        entries.sort_unstable_by_key(|record| record.entry.seq);
    }
    Ok(Some(NearEntries { ranker, entries }))
}

/// The numbers around some entries, without their own.
fn around(entries: &[EntryRecord], newest: u64) -> Vec<Range<u64>> {
    let seqs = || entries.iter().map(|record| record.entry.seq.0);
    let near = |seq: u64| seq.saturating_sub(AROUND)..=seq.saturating_add(AROUND).min(newest);
    let mut missing: BTreeSet<u64> = seqs().flat_map(near).collect();
    seqs().for_each(|seq| _ = missing.remove(&seq));
    missing.into_iter().map(|seq| seq..seq + 1).collect()
}
