//! What a proxy has done so far.

use std::sync::atomic::{AtomicU64, Ordering};

/// How often what happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that came in.
    pub requests: u64,
    /// Requests that were shortened.
    pub compacted: u64,
    /// New batches of edits, each of which changes the prefix.
    pub batches: u64,
    /// Requests that went on as they were because our side failed.
    pub bypassed: u64,
    /// Requests that an upstream found too long and that were shortened again.
    pub recovered: u64,
    /// Messages that were archived.
    pub archived: u64,
    /// Messages that the archive did not take.
    pub unarchived: u64,
}

/// Counters that many threads share.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) requests: AtomicU64,
    pub(crate) compacted: AtomicU64,
    pub(crate) batches: AtomicU64,
    pub(crate) bypassed: AtomicU64,
    pub(crate) recovered: AtomicU64,
    pub(crate) archived: AtomicU64,
    pub(crate) unarchived: AtomicU64,
}

impl Counters {
    pub(crate) fn read(&self) -> Counts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            requests: get(&self.requests),
            compacted: get(&self.compacted),
            batches: get(&self.batches),
            bypassed: get(&self.bypassed),
            recovered: get(&self.recovered),
            archived: get(&self.archived),
            unarchived: get(&self.unarchived),
        }
    }
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}
