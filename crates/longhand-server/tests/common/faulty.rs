//! An archive that fails on request.
#![allow(dead_code, clippy::unwrap_used)]

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhand::{Archive, ArchiveError, Owner, SessionId};
use longhand_archive::{
    Addition, After, Appended, Damage, Entry, Found, Head, Hit, Listing, LoggedBatch, NewBatch,
    NewEntry, NewSession, Node, Page, PreambleId, Reference, Request, Scope, SessionInfo,
};
use longhand_core::{Handle, Link, Seq};

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
    /// No batch can be committed.
    NoBatches,
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

    fn readable(&self) -> Result<(), ArchiveError> {
        match self.fault() {
            Fault::Slow(time) => std::thread::sleep(time),
            Fault::Panic => panic!("this archive panics, as the test wants it"),
            Fault::Error => return Err(closed()),
            _ => {}
        }
        Ok(())
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
    ArchiveError::Closed { archive: "faulty".to_owned() }
}

type Kept<T> = Result<T, ArchiveError>;

impl Archive for Faulty {
    fn begin(&self, id: SessionId, session: &NewSession) -> Kept<()> {
        self.writable()?;
        self.inner.begin(id, session)
    }

    fn append(&self, id: SessionId, after: After, entries: &[NewEntry]) -> Kept<Appended> {
        self.writable()?;
        self.inner.append(id, after, entries)
    }

    fn append_all(&self, additions: &[Addition]) -> Kept<Vec<Kept<Appended>>> {
        self.writable()?;
        if matches!(self.fault(), Fault::NoBatches) {
            let without: Vec<Addition> =
                additions.iter().filter(|own| own.batch.is_none()).cloned().collect();
            let mut made = self.inner.append_all(&without)?.into_iter();
            let each = additions.iter().map(|own| match &own.batch {
                Some(_) => Err(closed()),
                None => made.next().unwrap_or_else(|| Err(closed())),
            });
            return Ok(each.collect());
        }
        self.inner.append_all(additions)
    }

    fn commit(&self, id: SessionId, batch: &NewBatch) -> Kept<u64> {
        self.writable()?;
        if matches!(self.fault(), Fault::NoBatches) {
            return Err(closed());
        }
        self.inner.commit(id, batch)
    }

    fn undo(&self, id: SessionId, head: Option<Seq>) -> Kept<Option<LoggedBatch>> {
        self.inner.undo(id, head)
    }

    fn live(&self, id: SessionId, head: Option<Seq>) -> Kept<Vec<LoggedBatch>> {
        self.inner.live(id, head)
    }

    fn head(&self, id: SessionId) -> Kept<Option<Head>> {
        self.readable()?;
        self.inner.head(id)
    }

    fn session(&self, id: SessionId) -> Kept<Option<SessionInfo>> {
        self.inner.session(id)
    }

    fn find_path(&self, owner: Owner, links: &[Link]) -> Kept<Option<Found>> {
        self.readable()?;
        self.inner.find_path(owner, links)
    }

    fn path(&self, id: SessionId, head: Option<Seq>, seqs: Range<u64>) -> Kept<Vec<Entry>> {
        self.inner.path(id, head, seqs)
    }

    fn entries(&self, id: SessionId, seqs: Range<u64>) -> Kept<Vec<Entry>> {
        self.inner.entries(id, seqs)
    }

    fn batches(&self, id: SessionId, page: Page) -> Kept<Listing<LoggedBatch>> {
        self.readable()?;
        self.inner.batches(id, page)
    }

    fn tree(&self, id: SessionId) -> Kept<Vec<Node>> {
        self.readable()?;
        self.inner.tree(id)
    }

    fn answer(&self, owner: Owner, answer: &str) -> Kept<Option<(SessionId, Request)>> {
        self.readable()?;
        self.inner.answer(owner, answer)
    }

    fn sessions(&self, owner: Option<Owner>, page: Page) -> Kept<Listing<SessionInfo>> {
        self.inner.sessions(owner, page)
    }

    fn search(&self, scope: &Scope, query: &str, limit: usize) -> Kept<Vec<Hit>> {
        self.inner.search(scope, query, limit)
    }

    fn pin(&self, id: SessionId, entry: Seq, pinned: bool) -> Kept<()> {
        self.inner.pin(id, entry, pinned)
    }

    fn reference(&self, scope: &Scope, handle: Handle) -> Kept<Option<Reference>> {
        self.inner.reference(scope, handle)
    }

    fn keep_preamble(&self, owner: Owner, content: &str) -> Kept<PreambleId> {
        self.writable()?;
        self.inner.keep_preamble(owner, content)
    }

    fn preamble(&self, owner: Owner, id: PreambleId) -> Kept<Option<String>> {
        self.inner.preamble(owner, id)
    }

    fn log_request(&self, id: SessionId, request: &Request) -> Kept<()> {
        self.writable()?;
        self.inner.log_request(id, request)
    }

    fn requests(&self, id: SessionId, page: Page) -> Kept<Listing<Request>> {
        self.inner.requests(id, page)
    }

    fn put_derived(&self, id: SessionId, key: &str, value: &str) -> Kept<()> {
        self.writable()?;
        self.inner.put_derived(id, key, value)
    }

    fn derived(&self, id: SessionId, key: &str) -> Kept<Option<String>> {
        self.inner.derived(id, key)
    }

    fn verify(&self, session: Option<SessionId>) -> Kept<Vec<Damage>> {
        self.inner.verify(session)
    }

    fn remove(&self, id: SessionId) -> Kept<bool> {
        self.inner.remove(id)
    }
}
