//! Reading sessions: where they stand, their paths and their batches.

use std::ops::{Range, RangeInclusive};

use longhand_core::session::{Node, Trail, Version};
use longhand_core::{Link, Seq};

use crate::ledger::{Ledger, Undecided};
use crate::page::{Cursor, Listing, Page};
use crate::storage::{EntryRecord, FoldStates, SessionFilter, Storage};
use crate::{ArchiveError, Entry, Head, KnownPath, LoggedBatch, Owner, SessionId, SessionInfo};

/// See [`crate::Archive::head`].
pub(super) async fn head<S: Storage + ?Sized>(
    storage: &S,
    id: SessionId,
) -> Result<Option<Head>, ArchiveError> {
    let Some(opened) = storage.open(id, Version::default()).await? else { return Ok(None) };
    let SessionInfo { entries, rounds, batches, bytes, first_ms, last_ms, .. } = opened.session;
    let (version, pins) = (opened.news.version, opened.news.pins);
    let (head, undos) = (opened.news.newest.map(|newest| newest.seq), version.undos);
    Ok(Some(Head { entries, rounds, head, batches, undos, bytes, first_ms, last_ms, pins }))
}

/// See [`crate::Archive::live`].
pub(super) async fn live<S: Storage + ?Sized>(
    storage: &S,
    id: SessionId,
    head: Option<Seq>,
) -> Result<Vec<LoggedBatch>, ArchiveError> {
    let Some(ledger) = Ledger::open(storage, id).await? else { return Ok(Vec::new()) };
    let live = ledger.state.live(ledger.head(head)?);
    let live: Vec<(u64, bool)> = live.into_iter().map(|number| (number, true)).collect();
    logged(storage, id, &live).await
}

/// Reads batches of the log, of which it is known whether they are live.
pub(super) async fn logged<S: Storage + ?Sized>(
    storage: &S,
    id: SessionId,
    batches: &[(u64, bool)],
) -> Result<Vec<LoggedBatch>, ArchiveError> {
    if batches.is_empty() {
        return Ok(Vec::new());
    }
    let numbers = batches.iter().map(|(number, _)| *number).collect();
    let records = storage.read_batches(id, numbers, FoldStates::All).await?;
    let logged = records.into_iter().zip(batches);
    Ok(logged.map(|(record, (number, is_live))| record.logged(*number, *is_live)).collect())
}

/// See [`crate::Archive::batches`].
pub(super) async fn batches<S: Storage + ?Sized>(
    storage: &S,
    id: SessionId,
    page: Page,
) -> Result<Listing<LoggedBatch>, ArchiveError> {
    let Some(ledger) = Ledger::open(storage, id).await? else { return Ok(Listing::empty()) };
    let log = ledger.state.log();
    let listing = page.take((1..=log.len()).rev(), |number| Cursor::number(*number));
    let numbers = listing.items.into_iter().map(|number| (number, log.is_live(number)));
    let numbers: Vec<(u64, bool)> = numbers.collect();
    Ok(Listing { items: logged(storage, id, &numbers).await?, next: listing.next })
}

/// See [`crate::Archive::path`].
pub async fn path<S: Storage + ?Sized>(
    storage: &S,
    id: SessionId,
    head: Option<Seq>,
    seqs: Range<u64>,
) -> Result<Vec<Entry>, ArchiveError> {
    let Some(ledger) = Ledger::open(storage, id).await? else { return Ok(Vec::new()) };
    let Some(head) = ledger.head(head)? else { return Ok(Vec::new()) };
    let seqs = ledger.state.tree().path(head, seqs);
    Ok(unrecorded(storage.bodies(id, seqs).await?))
}

/// The entries of a round, among others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundEntries {
    /// The entries; none if there is no such round.
    pub entries: Vec<Entry>,
    /// The first and the last round of all that were looked through.
    pub rounds: RangeInclusive<u64>,
}

/// The entries of a round that are on a path, among those with some numbers; `None` if there are none of these.
///
/// Rounds never decrease along a path, so that few entries are looked at to find one in thousands.
pub async fn round<S: Storage + ?Sized>(
    storage: &S,
    id: SessionId,
    head: Seq,
    seqs: Range<u64>,
    round: u64,
) -> Result<Option<RoundEntries>, ArchiveError> {
    let Some(ledger) = Ledger::open(storage, id).await? else { return Ok(None) };
    let Some(head) = ledger.head(Some(head))? else { return Ok(None) };
    let path = PathNumbers(ledger.state.tree().path(head, seqs));
    let Some(last) = path.len().checked_sub(1) else { return Ok(None) };
    let rounds = path.round(storage, id, 0).await?..=path.round(storage, id, last).await?;
    let first = path.first_from(storage, id, round).await?;
    let end = path.first_from(storage, id, round.saturating_add(1)).await?;
    let entries = storage.bodies(id, path.between(first, end)).await?;
    Ok(Some(RoundEntries { entries: unrecorded(entries), rounds }))
}

/// The numbers of the entries on a path, as ranges: each entry has a place on it, from 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathNumbers(pub Vec<Range<u64>>);

impl PathNumbers {
    /// How many entries it has.
    pub fn len(&self) -> u64 {
        self.0.iter().map(|range| range.end - range.start).sum()
    }

    /// Whether it has no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The place of an entry; `None` if it is not on the path.
    pub fn place(&self, entry: u64) -> Option<u64> {
        let mut before = 0;
        for range in &self.0 {
            if range.contains(&entry) {
                return Some(before + entry - range.start);
            }
            before += range.end - range.start;
        }
        None
    }

    /// The numbers of the entries from one place on the path up to another.
    pub fn between(&self, first: u64, end: u64) -> Vec<Range<u64>> {
        let mut before = 0;
        let mut between = Vec::new();
        for range in &self.0 {
            let count = range.end - range.start;
            let (skipped, taken) = (first.saturating_sub(before), end.saturating_sub(before));
            if skipped < count && skipped < taken {
                between.push(range.start + skipped..range.start + taken.min(count));
            }
            before += count;
        }
        between
    }

    /// The round of the entry at a place of the path.
    async fn round<S: Storage + ?Sized>(
        &self,
        storage: &S,
        id: SessionId,
        at: u64,
    ) -> Result<u64, ArchiveError> {
        let nodes = storage.nodes(id, self.between(at, at + 1)).await?;
        Ok(nodes.first().map_or(0, |node| node.round))
    }

    /// The first place of the path with a round or a later one.
    async fn first_from<S: Storage + ?Sized>(
        &self,
        storage: &S,
        id: SessionId,
        round: u64,
    ) -> Result<u64, ArchiveError> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = u64::midpoint(low, high);
            if self.round(storage, id, middle).await? < round {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }
}

/// See [`crate::Archive::entries`].
pub(super) async fn entries<S: Storage + ?Sized>(
    storage: &S,
    id: SessionId,
    seqs: Range<u64>,
) -> Result<Vec<Entry>, ArchiveError> {
    let end = seqs.end.min(count(storage, id).await?);
    if seqs.start >= end {
        return Ok(Vec::new());
    }
    Ok(unrecorded(storage.bodies(id, vec![seqs.start..end]).await?))
}

/// How many entries a session has.
async fn count<S: Storage + ?Sized>(storage: &S, id: SessionId) -> Result<u64, ArchiveError> {
    let found = storage.list_sessions(SessionFilter::Session(id), Page::first(1)).await?;
    match found.items.first() {
        None => Ok(0),
        // To read from it says what is wrong with it.
        Some(session) if session.is_damaged => storage.nodes(id, Vec::new()).await.map(|_| 0),
        Some(session) => Ok(session.entries),
    }
}

fn unrecorded(records: Vec<EntryRecord>) -> Vec<Entry> {
    records.into_iter().map(|record| record.entry).collect()
}

/// See [`crate::Archive::tree`].
pub(super) async fn tree<S: Storage + ?Sized>(
    storage: &S,
    id: SessionId,
) -> Result<Vec<Node>, ArchiveError> {
    let entries = count(storage, id).await?;
    storage.nodes(id, vec![0..entries]).await
}

/// See [`crate::Archive::find_path`].
pub async fn find_path<S: Storage + ?Sized>(
    storage: &S,
    owner: Owner,
    links: &[Link],
) -> Result<Option<KnownPath>, ArchiveError> {
    let mut best: Option<((usize, u64, Seq), KnownPath)> = None;
    for found in storage.links(owner, links.to_vec()).await? {
        match follow(storage, found, links).await {
            Ok(Some((activity, found))) => {
                let rank = (found.known, activity, found.seq);
                if best.as_ref().is_none_or(|(other, _)| rank > *other) {
                    best = Some((rank, found));
                }
            }
            Ok(None) | Err(ArchiveError::Damaged { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(best.map(|(_, found)| found))
}

/// Follows a conversation from an entry that has one of its links, to the last entry that is sound.
async fn follow<S: Storage + ?Sized>(
    storage: &S,
    found: KnownPath,
    links: &[Link],
) -> Result<Option<(u64, KnownPath)>, ArchiveError> {
    let Some(mut ledger) = Ledger::open(storage, found.session).await? else { return Ok(None) };
    let mut rest = &links[found.known..];
    loop {
        let followed = ledger.ask(storage, |state| {
            let mut trail = Trail::after(Some(found.seq));
            state.follow(&mut trail, rest).map_err(Undecided::Lack)?;
            Ok(trail)
        });
        let trail = followed.await?;
        let seq = trail.seqs.last().copied().unwrap_or(found.seq);
        let known = found.known + trail.seqs.len();
        match storage.nodes(found.session, vec![seq.0..seq.0 + 1]).await {
            Ok(_) => {
                return Ok(Some((
                    ledger.opened.session.activity,
                    KnownPath { seq, known, ..found },
                )));
            }
            Err(ArchiveError::Damaged { .. }) if known > found.known => {
                rest = &rest[..trail.seqs.len() - 1];
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_on_a_path_are_entries_and_back() {
        let path = PathNumbers(vec![0..3, 5..9]);
        assert_eq!((path.len(), path.is_empty()), (7, false));
        assert_eq!(path.between(0, 7), [0..3, 5..9]);
        assert_eq!(path.between(2, 5), [2..3, 5..7]);
        assert_eq!(path.between(4, 5), [6..7]);
        assert!(path.between(7, 9).is_empty());
        assert_eq!((path.place(6), path.place(4), path.place(9)), (Some(4), None, None));
    }
}
