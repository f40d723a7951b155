//! An archive that fails on request.
#![allow(dead_code, clippy::unwrap_used)]

use std::ops::{ControlFlow, Range};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhand::{Archive, ArchiveError, Owner, SessionId};
use longhand_archive::{
    Addition, After, Appended, Damage, Entry, Found, Head, Hit, Listing, LoggedBatch, NewBatch,
    NewEntry, NewSession, Node, Page, PreambleId, Record, Reference, Request, Reserved, Scope,
    SessionInfo, Wish,
};
use longhand_core::{Handle, Link, Seq};

use longhand_testkit::gate::Gate;

/// What happens.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// Nothing: it works.
    None,
    /// It takes long to say where a session stands.
    Slow(Duration),
    /// It says where a session stands only after [`Faulty::release`].
    Held,
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
    held: Gate,
    /// What happens to one method, of one session if that is named.
    rules: Mutex<Vec<(&'static str, Option<SessionId>, Fault)>>,
}

/// The methods that a proxy calls.
pub(crate) const METHODS: [&str; 12] = [
    "append_all",
    "undo",
    "head",
    "session",
    "find_path",
    "entries",
    "batches",
    "tree",
    "answer",
    "reference",
    "put_derived",
    "derived",
];

impl Faulty {
    pub(crate) fn new(inner: Arc<dyn Archive>, fault: Fault) -> Self {
        Self { inner, fault: Mutex::new(fault), held: Gate::default(), rules: Mutex::default() }
    }

    /// Lets go on what is held.
    pub(crate) fn release(&self) {
        self.held.open();
    }

    /// From now on, this happens to a method, of one session if that is named.
    pub(crate) fn rule(&self, method: &'static str, session: Option<SessionId>, fault: Fault) {
        self.rules.lock().unwrap().push((method, session, fault));
    }

    /// The fault that a rule has for a method.
    fn ruled(&self, method: &str, session: Option<SessionId>) -> Fault {
        let rules = self.rules.lock().unwrap();
        let meets = |rule: &&(&str, Option<SessionId>, Fault)| {
            rule.0 == method && (rule.1.is_none() || rule.1 == session)
        };
        rules.iter().rev().find(meets).map_or(Fault::None, |(_, _, fault)| *fault)
    }

    fn meet(&self, method: &str, session: Option<SessionId>) -> Result<(), ArchiveError> {
        match self.ruled(method, session) {
            Fault::None => Ok(()),
            Fault::Slow(time) | Fault::SlowWrites(time) => {
                std::thread::sleep(time);
                Ok(())
            }
            Fault::Held => {
                self.held.pass();
                Ok(())
            }
            Fault::Panic => panic!("this archive panics in {method}, as the test wants it"),
            Fault::Error | Fault::ReadOnly | Fault::NoBatches => Err(closed()),
        }
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
            Fault::Held => self.held.pass(),
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
        let faults: Vec<Kept<()>> =
            additions.iter().map(|own| self.meet("append_all", Some(own.session))).collect();
        let sound = additions.iter().zip(&faults).filter(|(_, fault)| fault.is_ok());
        let sound: Vec<Addition> = sound.map(|(own, _)| own.clone()).collect();
        let mut made = self.inner.append_all(&sound)?.into_iter();
        Ok(faults.into_iter().map(|fault| fault.and_then(|()| made.next().unwrap())).collect())
    }

    fn commit(&self, id: SessionId, batch: &NewBatch) -> Kept<u64> {
        self.writable()?;
        if matches!(self.fault(), Fault::NoBatches) {
            return Err(closed());
        }
        self.inner.commit(id, batch)
    }

    fn undo(&self, id: SessionId, head: Option<Seq>) -> Kept<Option<LoggedBatch>> {
        self.meet("undo", Some(id))?;
        self.inner.undo(id, head)
    }

    fn live(&self, id: SessionId, head: Option<Seq>) -> Kept<Vec<LoggedBatch>> {
        self.inner.live(id, head)
    }

    fn head(&self, id: SessionId) -> Kept<Option<Head>> {
        self.meet("head", Some(id))?;
        self.readable()?;
        self.inner.head(id)
    }

    fn session(&self, id: SessionId) -> Kept<Option<SessionInfo>> {
        self.meet("session", Some(id))?;
        self.inner.session(id)
    }

    fn find_path(&self, owner: Owner, links: &[Link]) -> Kept<Option<Found>> {
        self.meet("find_path", None)?;
        self.readable()?;
        self.inner.find_path(owner, links)
    }

    fn path(&self, id: SessionId, head: Option<Seq>, seqs: Range<u64>) -> Kept<Vec<Entry>> {
        self.inner.path(id, head, seqs)
    }

    fn entries(&self, id: SessionId, seqs: Range<u64>) -> Kept<Vec<Entry>> {
        self.meet("entries", Some(id))?;
        self.inner.entries(id, seqs)
    }

    fn batches(&self, id: SessionId, page: Page) -> Kept<Listing<LoggedBatch>> {
        self.meet("batches", Some(id))?;
        self.readable()?;
        self.inner.batches(id, page)
    }

    fn tree(&self, id: SessionId) -> Kept<Vec<Node>> {
        self.meet("tree", Some(id))?;
        self.readable()?;
        self.inner.tree(id)
    }

    fn answer(&self, owner: Owner, answer: &str) -> Kept<Option<(SessionId, Request)>> {
        self.meet("answer", None)?;
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
        self.meet("reference", None)?;
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
        self.meet("put_derived", Some(id))?;
        self.writable()?;
        self.inner.put_derived(id, key, value)
    }

    fn derived(&self, id: SessionId, key: &str) -> Kept<Option<String>> {
        self.meet("derived", Some(id))?;
        self.inner.derived(id, key)
    }

    fn export(&self, id: SessionId, take: &mut dyn FnMut(Record) -> ControlFlow<()>) -> Kept<bool> {
        self.inner.export(id, take)
    }

    fn restore(&self, id: SessionId, records: &[Record]) -> Kept<()> {
        self.writable()?;
        self.inner.restore(id, records)
    }

    fn derived_keys(&self, id: SessionId, prefix: &str) -> Kept<Vec<String>> {
        self.inner.derived_keys(id, prefix)
    }

    fn reserve(&self, wish: &Wish) -> Kept<Reserved> {
        self.inner.reserve(wish)
    }

    fn settle(&self, reservation: u64, micros: u64) -> Kept<()> {
        self.inner.settle(reservation, micros)
    }

    fn verify(&self, session: Option<SessionId>) -> Kept<Vec<Damage>> {
        self.inner.verify(session)
    }

    fn remove(&self, id: SessionId) -> Kept<bool> {
        self.inner.remove(id)
    }
}
