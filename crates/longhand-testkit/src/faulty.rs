//! Storage that fails on request. It sees every call, and every write.
#![allow(clippy::unwrap_used)]

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use futures_channel::oneshot;
use longhand_archive::{
    Answer, Archive, ArchiveError, BatchRecord, BestEntries, BestQuery, Candidates, Damage,
    EntryRecord, FoldStates, Key, KnownPath, Layer, Listing, Node, Note, NoteFilter, Opened, Owner,
    Page, Referenced, RequestFilter, RequestRecord, SearchQuery, SessionFilter, SessionId,
    SessionInfo, Storage, Upkeep, UsageLine, Vocabulary, VocabularyQuery, Write,
};
use longhand_core::session::Version;
use longhand_core::{Handle, Link};

use crate::gate::Gate;

/// What happens to a call.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// Nothing: it works.
    None,
    /// Looking into a session takes long.
    Slow(Duration),
    /// Looking into a session takes until [`Faulty::release`].
    Held,
    /// Writing takes long.
    SlowWrites(Duration),
    /// It panics.
    Panic,
    /// Nothing can be looked up or written.
    Error,
    /// Nothing can be written.
    ReadOnly,
    /// No batch can be written.
    NoBatches,
    /// Every call takes a time of its own, up to this.
    SlowCalls(Duration),
}

/// Storage that fails on request.
pub struct Faulty {
    inner: Arc<dyn Archive>,
    fault: Mutex<Fault>,
    held: Arc<Gate>,
    /// What happens to one method, of one session if that is named.
    rules: Mutex<Vec<(&'static str, Option<SessionId>, Fault)>>,
    /// How many calls there were.
    calls: Mutex<Vec<&'static str>>,
}

/// The methods that a proxy calls.
pub const METHODS: [&str; 9] = [
    "write",
    "open",
    "nodes",
    "bodies",
    "read_batches",
    "links",
    "references",
    "list_requests",
    "get",
];

/// What a call waits for before it is made.
enum Delay {
    None,
    Time(Duration),
    Gate,
}

impl Faulty {
    /// Storage that fails from the beginning, or not yet.
    pub fn new(inner: Arc<dyn Archive>, fault: Fault) -> Self {
        Self {
            inner,
            fault: Mutex::new(fault),
            held: Arc::default(),
            rules: Mutex::default(),
            calls: Mutex::default(),
        }
    }

    /// Lets go on what is held.
    pub fn release(&self) {
        self.held.open();
    }

    /// From now on, this happens to a method, of one session if that is named.
    pub fn rule(&self, method: &'static str, session: Option<SessionId>, fault: Fault) {
        self.rules.lock().unwrap().push((method, session, fault));
    }

    /// From now on, this happens.
    pub fn set(&self, fault: Fault) {
        *self.fault.lock().unwrap() = fault;
    }

    /// The calls so far, by method.
    pub fn calls(&self) -> Vec<&'static str> {
        self.calls.lock().unwrap().clone()
    }

    /// The fault that a rule has for a method.
    fn ruled(&self, method: &str, session: Option<SessionId>) -> Fault {
        let rules = self.rules.lock().unwrap();
        let meets = |rule: &&(&str, Option<SessionId>, Fault)| {
            rule.0 == method && (rule.1.is_none() || rule.1 == session)
        };
        rules.iter().rev().find(meets).map_or(Fault::None, |(_, _, fault)| *fault)
    }

    /// What a call meets: by a rule, or because all calls of its kind fail.
    fn met(&self, method: &'static str, session: Option<SessionId>) -> Result<Delay, ArchiveError> {
        self.calls.lock().unwrap().push(method);
        let is_write = matches!(method, "write" | "put" | "erase");
        match self.ruled(method, session) {
            Fault::None => {}
            Fault::Slow(time) | Fault::SlowWrites(time) => return Ok(Delay::Time(time)),
            Fault::SlowCalls(most) => return Ok(Delay::Time(self.some_of(most))),
            Fault::Held => return Ok(Delay::Gate),
            Fault::Panic => panic!("this storage panics in {method}, as the test wants it"),
            Fault::Error | Fault::ReadOnly | Fault::NoBatches => return Err(closed()),
        }
        let fault = *self.fault.lock().unwrap();
        match fault {
            Fault::SlowCalls(most) => Ok(Delay::Time(self.some_of(most))),
            Fault::Slow(time) if !is_write => Ok(Delay::Time(time)),
            Fault::SlowWrites(time) if is_write => Ok(Delay::Time(time)),
            Fault::Held if !is_write => Ok(Delay::Gate),
            Fault::Panic if !is_write => panic!("this storage panics, as the test wants it"),
            Fault::Error => Err(closed()),
            Fault::ReadOnly if is_write => Err(closed()),
            _ => Ok(Delay::None),
        }
    }

    /// A part of a time, another one for each call.
    fn some_of(&self, most: Duration) -> Duration {
        let count = self.calls.lock().unwrap().len() as u32;
        most * (count.wrapping_mul(2_654_435_761) >> 16) / (1 << 16)
    }

    /// Makes a call after what it meets.
    fn after<'f, T: 'f>(
        &'f self,
        method: &'static str,
        session: Option<SessionId>,
        call: impl FnOnce(&'f dyn Storage) -> Answer<'f, T> + Send + 'f,
    ) -> Answer<'f, T> {
        Box::pin(async move {
            let delay = self.met(method, session)?;
            self.pass(delay).await;
            call(&*self.inner).await
        })
    }

    /// Waits without blocking the thread of whoever waits.
    async fn pass(&self, delay: Delay) {
        let (sender, receiver) = oneshot::channel();
        let held = Arc::clone(&self.held);
        let wait: Box<dyn FnOnce() + Send> = match delay {
            Delay::None => return,
            Delay::Time(time) => Box::new(move || thread::sleep(time)),
            Delay::Gate => Box::new(move || held.pass()),
        };
        thread::spawn(move || {
            wait();
            let _ = sender.send(());
        });
        let _ = receiver.await;
    }
}

fn closed() -> ArchiveError {
    ArchiveError::Closed { archive: "faulty".to_owned() }
}

impl Layer for Faulty {
    fn beneath(&self) -> &dyn Storage {
        &*self.inner
    }

    fn write(&self, writes: Vec<Write>) -> Answer<'_, Vec<Result<Version, ArchiveError>>> {
        Box::pin(async move {
            if writes.is_empty() {
                return Ok(Vec::new());
            }
            let fault = *self.fault.lock().unwrap();
            if matches!(fault, Fault::Error | Fault::ReadOnly) {
                return Err(closed());
            }
            let mut faults = Vec::new();
            for write in &writes {
                let is_refused = matches!(fault, Fault::NoBatches) && !write.batches.is_empty();
                let met = self.met("write", Some(write.session));
                faults.push(match met {
                    _ if is_refused => Err(closed()),
                    Err(error) => Err(error),
                    Ok(delay) => {
                        // One transaction waits once.
                        if faults.is_empty() || matches!(delay, Delay::Gate) {
                            self.pass(delay).await;
                        }
                        Ok(())
                    }
                });
            }
            let sound = writes.into_iter().zip(&faults).filter(|(_, fault)| fault.is_ok());
            let sound: Vec<Write> = sound.map(|(write, _)| write).collect();
            let mut made = self.inner.write(sound).await?.into_iter();
            Ok(faults.into_iter().map(|fault| fault.and_then(|()| made.next().unwrap())).collect())
        })
    }

    fn open(&self, id: SessionId, since: Version) -> Answer<'_, Option<Opened>> {
        self.after("open", Some(id), move |inner| inner.open(id, since))
    }

    fn nodes(&self, id: SessionId, seqs: Vec<Range<u64>>) -> Answer<'_, Vec<Node>> {
        self.after("nodes", Some(id), move |inner| inner.nodes(id, seqs))
    }

    fn bodies(&self, id: SessionId, seqs: Vec<Range<u64>>) -> Answer<'_, Vec<EntryRecord>> {
        self.after("bodies", Some(id), move |inner| inner.bodies(id, seqs))
    }

    fn read_batches(
        &self,
        id: SessionId,
        numbers: Vec<u64>,
        states: FoldStates,
    ) -> Answer<'_, Vec<BatchRecord>> {
        self.after("read_batches", Some(id), move |inner| inner.read_batches(id, numbers, states))
    }

    fn links(&self, owner: Owner, links: Vec<Link>) -> Answer<'_, Vec<KnownPath>> {
        self.after("links", None, move |inner| inner.links(owner, links))
    }

    fn references(&self, handle: Handle) -> Answer<'_, Vec<Referenced>> {
        self.after("references", None, move |inner| inner.references(handle))
    }

    fn vocabulary(&self, wanted: VocabularyQuery) -> Answer<'_, Vocabulary> {
        self.after("vocabulary", None, move |inner| inner.vocabulary(wanted))
    }

    fn best(&self, wanted: BestQuery) -> Answer<'_, BestEntries> {
        self.after("best", None, move |inner| inner.best(wanted))
    }

    fn candidates(&self, wanted: SearchQuery) -> Answer<'_, Candidates> {
        self.after("candidates", None, move |inner| inner.candidates(wanted))
    }

    fn list_sessions(&self, of: SessionFilter, page: Page) -> Answer<'_, Listing<SessionInfo>> {
        let session = match of {
            SessionFilter::Session(id) => Some(id),
            _ => None,
        };
        self.after("list_sessions", session, move |inner| inner.list_sessions(of, page))
    }

    fn owners(&self) -> Answer<'_, Vec<Owner>> {
        self.after("owners", None, |inner| inner.owners())
    }

    fn list_requests(
        &self,
        of: RequestFilter,
        page: Page,
    ) -> Answer<'_, Listing<(SessionId, RequestRecord)>> {
        self.after("list_requests", None, move |inner| inner.list_requests(of, page))
    }

    fn usage(&self, since_ms: i64) -> Answer<'_, Vec<UsageLine>> {
        self.after("usage", None, move |inner| inner.usage(since_ms))
    }

    fn notes(&self, of: NoteFilter) -> Answer<'_, Vec<(SessionId, Note)>> {
        let session = match of {
            NoteFilter::Session(id) => Some(id),
            NoteFilter::Handle(_) => None,
        };
        self.after("notes", session, move |inner| inner.notes(of))
    }

    fn get(&self, keys: Vec<Key>) -> Answer<'_, Vec<Option<String>>> {
        self.after("get", None, move |inner| inner.get(keys))
    }

    fn keys(&self, id: SessionId, prefix: String) -> Answer<'_, Vec<String>> {
        self.after("keys", Some(id), move |inner| inner.keys(id, prefix))
    }

    fn erase(&self, id: SessionId) -> Answer<'_, bool> {
        self.after("erase", Some(id), move |inner| inner.erase(id))
    }

    fn check(&self, session: Option<SessionId>) -> Answer<'_, Vec<Damage>> {
        self.after("check", session, move |inner| inner.check(session))
    }

    fn maintain(&self, upkeep: Upkeep) -> Answer<'_, bool> {
        self.after("maintain", None, move |inner| inner.maintain(upkeep))
    }

    fn put(&self, key: Key, expected: Option<String>, value: String) -> Answer<'_, bool> {
        self.after("put", None, move |inner| inner.put(key, expected, value))
    }
}
