//! History that a provider holds, by the id of its last answer.
//!
//! A request that goes on from such an answer brings only what is new. What it goes on from is in our
//! archive, so that it can be counted, and sent whole and shortened once it no longer fits.

use longhand::{Archive, Owner, SessionId};
use longhand_archive::Entry;
use longhand_core::Seq;
use longhand_dialect::items_of;

/// Where the history of an answer ends, and how the provider has it.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) session: SessionId,
    head: Seq,
    /// The newest batch with which the provider has it; 0 if it has it as it is.
    pub(crate) batch: u64,
}

impl Held {
    /// Finds an answer of an owner.
    pub(crate) fn find(archive: &dyn Archive, owner: Owner, id: &str) -> Option<Self> {
        let (session, request) = archive.answer(owner, id).ok()??;
        Some(Self { session, head: request.head?, batch: request.batch })
    }

    /// The history as items of a request, oldest first.
    pub(crate) fn items(&self, archive: &dyn Archive) -> Option<Vec<String>> {
        let entries = archive.path(self.session, Some(self.head), 0..self.head.0 + 1).ok()?;
        // Nothing is read of a session that is unknown.
        entries.last()?;
        let items = |entry: &Entry| items_of(entry.form.parse().ok()?, &entry.raw);
        Some(entries.iter().filter_map(items).collect())
    }
}
