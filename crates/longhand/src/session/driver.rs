//! A session's way to its archive, for whoever waits for it.

use std::ops::Range;
use std::sync::Arc;

use longhand_archive::{
    After, Appended, Archive, Entry, NewEntry, NewSession, Owner, SessionId, wait,
};
use longhand_core::{Batch, Link, Meter, Path, Scale, Seq};

use super::agent::FittedRequest;
use crate::SessionError;
use crate::driver::{BatchCommit, Direct, LiveBatch, LiveSession, regret_notes};

/// A session, what is written to it, and the request of an agent that was made to fit last.
pub(super) struct SessionDriver {
    pub(super) live: Arc<LiveSession>,
    pub(super) sink: Direct,
    pub(super) newest: Option<FittedRequest>,
}

impl SessionDriver {
    /// Opens a session, whose ever it is; one that is not there is the local user's.
    pub(super) fn open(
        archive: Arc<dyn Archive>,
        id: SessionId,
        name: &str,
    ) -> Result<Self, SessionError> {
        let owner = archive.session(id)?.map_or(Owner::LOCAL, |info| info.owner);
        let live = LiveSession::new(id, owner, name.to_owned(), None, None);
        Ok(Self { live: Arc::new(live), sink: Direct::new(archive), newest: None })
    }

    /// Takes in what was written since, by whomever.
    pub(super) fn refresh(&self) -> Result<(), SessionError> {
        Ok(wait(self.live.refresh(&**self.sink.shared_archive()))?)
    }

    /// The live batches of the path to a head, oldest first.
    pub(super) fn live(&self, head: Option<Seq>) -> Result<Vec<Arc<LiveBatch>>, SessionError> {
        let head = self.live.lock().state.head(head);
        Ok(wait(self.live.live(&**self.sink.shared_archive(), head))?)
    }

    /// Whether an entry is on the path to the newest one.
    pub(super) fn is_on_path(&self, seq: Seq) -> bool {
        let memory = self.live.lock();
        let tree = memory.state.tree();
        tree.newest().is_some_and(|newest| seq <= newest && tree.is_on_path(seq, newest))
    }

    /// The link of an entry.
    pub(super) fn link(&self, seq: Seq) -> Result<Option<Link>, SessionError> {
        let range = seq.0..seq.0 + 1;
        let nodes = wait(self.sink.shared_archive().nodes(self.live.id, vec![range]))?;
        Ok(nodes.first().map(|node| node.link))
    }

    /// The entries of a path with numbers in a range, oldest first.
    pub(super) fn entries(
        &self,
        head: Option<Seq>,
        seqs: Range<u64>,
    ) -> Result<Vec<Entry>, SessionError> {
        Ok(wait(self.live.entries(&**self.sink.shared_archive(), head, seqs))?)
    }

    /// Appends entries to the session, which begins with them if the archive does not have it.
    pub(super) fn append(
        &self,
        new: &NewSession,
        after: After,
        entries: &[NewEntry],
    ) -> Result<Appended, SessionError> {
        Ok(wait(self.live.append(&**self.sink.shared_archive(), new, after, entries))?)
    }

    /// Notes what the messages of a path from an index on fetched back.
    pub(super) fn note_regrets(
        &self,
        path: &Path,
        live: &[Batch],
        first: usize,
        meter: &dyn Meter,
        at_ms: i64,
    ) -> Result<(), SessionError> {
        let numbers = self.live.lock().state.live(path.seqs.last().copied());
        let number = |batch: usize| numbers.get(batch).copied().unwrap_or(0);
        let notes = regret_notes(path, live, number, first, &Scale::new(meter), at_ms);
        self.sink.note(self.live.id, self.live.new_notes(notes));
        Ok(wait(self.sink.flush(&self.live))?)
    }

    /// Commits a batch and returns its number; `None` if another writer was first.
    pub(super) fn commit(
        &self,
        commit: BatchCommit,
        now_ms: i64,
    ) -> Result<Option<u64>, SessionError> {
        self.sink.set_time(now_ms);
        let (batch, ticket) = self.live.commit(&self.sink, None, commit);
        wait(self.sink.flush(&self.live))?;
        let is_durable = ticket.is_some_and(|mut ticket| ticket.try_recv() == Ok(true));
        Ok(is_durable.then_some(batch.number))
    }
}
