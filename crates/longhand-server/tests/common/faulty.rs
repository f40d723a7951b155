//! An archive that fails on request.
#![allow(dead_code, clippy::unwrap_used)]

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhand::{Archive, ArchiveError};
use longhand_archive::{
    Addition, Appended, Batch, Damage, Entry, Head, Hit, NewBatch, NewEntry, Original, SessionInfo,
};
use longhand_core::Handle;

/// What happens.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// Nothing: it works.
    None,
    /// It takes long to say where a session stands.
    Slow(Duration),
    /// It takes long to write.
    SlowWrites(Duration),
    Panic,
    /// It cannot say where a session stands, and nothing can be written.
    Error,
    /// Nothing can be written.
    ReadOnly,
}

pub(crate) struct Faulty {
    inner: Arc<dyn Archive>,
    fault: Mutex<Fault>,
}

impl Faulty {
    pub(crate) fn new(inner: Arc<dyn Archive>, fault: Fault) -> Self {
        Self { inner, fault: Mutex::new(fault) }
    }

    /// From now on, this happens.
    pub(crate) fn set(&self, fault: Fault) {
        *self.fault.lock().unwrap() = fault;
    }

    fn fault(&self) -> Fault {
        *self.fault.lock().unwrap()
    }

    fn writable(&self) -> Result<(), ArchiveError> {
        match self.fault() {
            Fault::Error | Fault::ReadOnly => Err(closed()),
            Fault::SlowWrites(time) => {
                std::thread::sleep(time);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

fn closed() -> ArchiveError {
    ArchiveError::Closed { path: "faulty".into() }
}

type Kept<T> = Result<T, ArchiveError>;

impl Archive for Faulty {
    fn append(&self, session: &str, entries: &[NewEntry]) -> Kept<Appended> {
        self.writable()?;
        self.inner.append(session, entries)
    }

    fn append_at(&self, additions: &[Addition]) -> Kept<usize> {
        self.writable()?;
        self.inner.append_at(additions)
    }

    fn commit(&self, session: &str, batch: &NewBatch) -> Kept<u64> {
        self.writable()?;
        self.inner.commit(session, batch)
    }

    fn undo(&self, session: &str) -> Kept<Option<Batch>> {
        self.inner.undo(session)
    }

    fn head(&self, session: &str) -> Kept<Option<Head>> {
        match self.fault() {
            Fault::Slow(time) => std::thread::sleep(time),
            Fault::Panic => panic!("this archive panics, as the test wants it"),
            Fault::Error => return Err(closed()),
            _ => {}
        }
        self.inner.head(session)
    }

    fn entries(&self, session: &str, seqs: Range<u64>) -> Kept<Vec<Entry>> {
        self.inner.entries(session, seqs)
    }

    fn batches(&self, session: &str) -> Kept<Vec<Batch>> {
        self.inner.batches(session)
    }

    fn sessions(&self) -> Kept<Vec<SessionInfo>> {
        self.inner.sessions()
    }

    fn search(&self, session: Option<&str>, query: &str, limit: usize) -> Kept<Vec<Hit>> {
        self.inner.search(session, query, limit)
    }

    fn pin(&self, session: &str, seq: u64, pinned: bool) -> Kept<()> {
        self.inner.pin(session, seq, pinned)
    }

    fn keep(&self, originals: &[(Handle, Original)]) -> Kept<()> {
        self.writable()?;
        self.inner.keep(originals)
    }

    fn expand(&self, handle: Handle) -> Kept<Option<Original>> {
        self.inner.expand(handle)
    }

    fn expand_in(&self, session: &str, handle: Handle) -> Kept<Option<Original>> {
        self.inner.expand_in(session, handle)
    }

    fn verify(&self, session: Option<&str>) -> Kept<Vec<Damage>> {
        self.inner.verify(session)
    }

    fn remove(&self, session: &str) -> Kept<bool> {
        self.inner.remove(session)
    }
}
