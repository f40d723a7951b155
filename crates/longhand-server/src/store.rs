//! The sessions in memory, each behind its own lock.
//!
//! A request is *admitted*: its messages are found in the ledger of its session or appended there, in
//! memory at once and in the archive soon. Its answer is appended after it. A batch of edits is *committed*
//! and holds for every path that has the entries which it edits.

mod live_session;
mod origins;
mod pending_write;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use longhand::{Archive, Chain, MemoryArchive, Owner, SessionId, Unread};
use longhand_archive::{
    ArchiveError, Key, KnownPath, NewBatch, NewSession, Note, Page, PreambleId, RequestRecord,
    SessionFilter, Write, find_path,
};
use longhand_core::session::{Node, Version};
use longhand_core::{Batch, Link, Message, Seq};
use rustc_hash::FxHashMap;

pub(crate) use self::live_session::{LiveBatch, LiveSession};
use self::live_session::{Patience, SessionMemory};
use self::origins::{Origin, Origins};
use self::pending_write::placed_at_once;
pub(crate) use self::pending_write::{PendingWrite, SessionWrite, WriteOutcome, WriteStep};
use crate::ServerError;
use crate::archivist::{ArchiveOutage, ArchiveWork, Archivist, ArchivistLimits, JobWeight, Ticket};
use crate::client::ClientProgram;
use crate::lock::lock;
use crate::metrics::Metrics;
use crate::missing::Missing;
use crate::request::admit::{AdmittedRequest, SessionPlace};
use crate::request::chain::preamble;
use crate::request::parse::ParsedRequest;
use crate::request::{PrepareError, Recording};
use crate::route::Caller;

/// A full index is emptied rather than aged: what is needed is read from the archive again.
const LINKS_MAX: usize = 500_000;

/// The memory for sessions that are left out of the archive, and after how many requests it is checked.
const FORGETFUL_BYTES_MAX: u64 = 64 << 20;
const FORGETTING_STEP: usize = 32;

/// The approximate memory of an entry besides its text.
const ENTRY_BYTES: u64 = 512;

/// The session whose request log lists what was passed on unread; it has no entries.
const UNREAD: &str = "(passed on unread)";

/// The sessions of one archive.
pub(crate) struct Store {
    archive: Arc<dyn Archive>,
    archivist: Archivist,
    metrics: Arc<Metrics>,
    index: Mutex<SessionIndex>,
    /// Whether its archive is in memory, and drops the oldest sessions.
    pub(crate) forgets: bool,
    /// How many requests were admitted.
    admitted: AtomicUsize,
}

/// The store of what is archived, and the one of what is not.
pub(crate) struct Stores {
    pub(crate) archived: Arc<Store>,
    /// Has the conversations that are left out of the archive.
    pub(crate) forgetful: Arc<Store>,
}

impl Stores {
    pub(crate) fn of(&self, forgets: bool) -> &Arc<Store> {
        if forgets { &self.forgetful } else { &self.archived }
    }
}

#[derive(Default)]
struct SessionIndex {
    /// By owner: nobody finds the sessions of others.
    sessions: FxHashMap<(Owner, SessionId), Arc<LiveSession>>,
    /// The session that has a link; if several have, the latest.
    links: FxHashMap<Link, SessionId>,
    origins: Origins,
}

/// An answer that is to be appended after its request.
pub(crate) struct NewAnswer {
    pub(crate) messages: Vec<Message>,
    /// The chain of the request and the answer.
    pub(crate) chain: Chain,
    /// Its text, by which a later summary is recognised.
    pub(crate) text: String,
    /// The key and the record of what could not be read.
    pub(crate) unread: Option<Note>,
}

/// A batch on its way into the log.
pub(crate) struct BatchCommit {
    /// The newest live batch on the path; 0 if there is none.
    pub(crate) after: u64,
    pub(crate) batch: Batch,
    pub(crate) receipt: String,
    /// Whether it is for this request alone: it is written, so that its handles open, and undone at once.
    pub(crate) aside: bool,
}

impl Store {
    pub(crate) fn new(
        archive: Arc<dyn Archive>,
        archivist: Archivist,
        metrics: Arc<Metrics>,
    ) -> Self {
        let (index, admitted) = (Mutex::default(), AtomicUsize::new(0));
        Self { archive, archivist, metrics, index, forgets: false, admitted }
    }

    /// A store for conversations that are left out of the archive: all of it is in memory.
    pub(crate) fn forgetful() -> Result<Self, ServerError> {
        let metrics = Arc::new(Metrics::new());
        let archive: Arc<dyn Archive> = Arc::new(MemoryArchive::default());
        let limits = ArchivistLimits {
            linger: Duration::ZERO,
            new_max: usize::MAX,
            held_max: usize::MAX,
            silence: Duration::MAX,
            farewell: Duration::ZERO,
        };
        let archivist = Archivist::start(Arc::clone(&archive), limits, Arc::clone(&metrics))?;
        Ok(Self { forgets: true, ..Self::new(archive, archivist, metrics) })
    }

    /// Drops the sessions that were unused for longest, if all take too much memory.
    async fn forget(&self) {
        let count = self.admitted.fetch_add(1, Ordering::Relaxed);
        if !self.forgets || !count.is_multiple_of(FORGETTING_STEP) {
            return;
        }
        let sessions = self.archive.list_sessions(SessionFilter::All, Page::ALL).await;
        let Ok(sessions) = sessions else { return };
        let mut bytes = 0;
        for (at, session) in sessions.items.iter().enumerate() {
            bytes += session.bytes + ENTRY_BYTES * session.entries;
            if at > 0 && bytes > FORGETFUL_BYTES_MAX {
                let _ = self.archive.erase(session.id).await;
                self.index().sessions.remove(&(session.owner, session.id));
            }
        }
    }

    pub(crate) fn archive(&self) -> &Arc<dyn Archive> {
        &self.archive
    }

    fn index(&self) -> MutexGuard<'_, SessionIndex> {
        lock(&self.index)
    }

    /// The session of a request, if it is in memory.
    fn indexed(&self, caller: &Caller, chain: &Chain) -> Option<Arc<LiveSession>> {
        let index = self.index();
        let id = match caller.session() {
            Some(id) => id,
            None => *chain.said().rev().find_map(|link| index.links.get(&link))?,
        };
        index.sessions.get(&(caller.owner(), id)).filter(|session| !session.is_foreign()).cloned()
    }

    /// The session of a request, if it can be used without asking the archive.
    pub(crate) fn at_hand(&self, caller: &Caller, chain: &Chain) -> Option<Arc<LiveSession>> {
        self.indexed(caller, chain).filter(|session| session.is_at_hand())
    }

    /// The session of a request: the one that it names, the one that has the longest part of its path, or a new one.
    /// `None` if that belongs to another owner.
    pub(crate) async fn session(&self, parsed: &ParsedRequest) -> Option<Arc<LiveSession>> {
        let (caller, chain) = (&parsed.caller, &parsed.chained.chain);
        let (owner, group) = (caller.owner(), parsed.client.group);
        if let Some(known) = self.indexed(caller, chain) {
            return Some(known);
        }
        if let Some(id) = caller.session() {
            return self.loaded(id, owner, caller.name(), None, group).await;
        }
        let links: Vec<Link> = chain.said().collect();
        let first = *links.first()?;
        // An archive that fails is asked again when the request is to be written down.
        if let Ok(Some(found)) = self.known_path(owner, &links).await {
            let session = self.loaded(found.session, owner, None, None, group).await?;
            // What the request needs of it is read at once.
            let lack = session.lock().state.lack_to(found.seq, chain.links().len());
            if !lack.0.is_empty() {
                session.load(&*self.archive, Unread::Nodes(lack)).await;
            }
            return Some(session);
        }
        let name = short(first);
        let id = SessionId::named(owner, &name);
        let origin = {
            let path = parsed.conversation().path();
            self.index().origins.of(owner, &path.messages[path.lead..])
        };
        match origin {
            Some(Origin::Same(same)) => self.loaded(same, owner, None, None, group).await,
            Some(Origin::Quoted(of)) => self.loaded(id, owner, Some(&name), Some(of), group).await,
            None => self.loaded(id, owner, Some(&name), None, group).await,
        }
    }

    /// Where the archive has a conversation. If only one session has it, how far is looked at when that is open.
    async fn known_path(
        &self,
        owner: Owner,
        links: &[Link],
    ) -> Result<Option<KnownPath>, ArchiveError> {
        let found = self.archive.links(owner, links.to_vec()).await?;
        match &found[..] {
            [first, others @ ..] if others.iter().all(|other| other.session == first.session) => {
                Ok(Some(*first))
            }
            [] => Ok(None),
            _ => find_path(&*self.archive, owner, links).await,
        }
    }

    /// A session of an owner by its id; `None` if it belongs to another owner.
    pub(crate) async fn by_id(&self, id: SessionId, owner: Owner) -> Option<Arc<LiveSession>> {
        self.loaded(id, owner, None, None, None).await
    }

    /// A session with its state from the archive; `None` if it belongs to another owner.
    async fn loaded(
        &self,
        id: SessionId,
        owner: Owner,
        name: Option<&str>,
        continues: Option<SessionId>,
        group: Option<u64>,
    ) -> Option<Arc<LiveSession>> {
        let known = self.index().sessions.get(&(owner, id)).cloned();
        let session = if let Some(session) = known {
            session
        } else {
            let name = match name {
                Some(name) => name.to_owned(),
                None => self.name_of(id).await,
            };
            let new = Arc::new(LiveSession::new(id, owner, name, continues, group));
            // Another request may have been faster.
            Arc::clone(self.index().sessions.entry((owner, id)).or_insert(new))
        };
        session.catch_up(&*self.archive).await;
        (!session.is_foreign()).then_some(session)
    }

    /// What people call a session, as far as the archive knows.
    async fn name_of(&self, id: SessionId) -> String {
        let found = self.archive.list_sessions(SessionFilter::Session(id), Page::first(1)).await;
        let name = found.ok().and_then(|found| Some(found.items.into_iter().next()?.name));
        name.unwrap_or_else(|| id.to_string())
    }

    /// Remembers which session has links.
    fn learn(&self, session: &LiveSession, links: &[Link]) {
        let mut index = self.index();
        if index.links.len() + links.len() > LINKS_MAX {
            *index = SessionIndex::default();
        }
        let audible = links.iter().filter(|link| !link.is_silent());
        index.links.extend(audible.map(|link| (*link, session.id)));
    }

    /// Finds the messages of a request in its session, and appends those that are new there.
    ///
    /// The new messages of a request that is not archived get numbers that only this request uses.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        session: &Arc<LiveSession>,
        parsed: ParsedRequest,
        recording: Recording,
    ) -> Result<SessionPlace, PrepareError> {
        self.forget().await;
        session.catch_up(&*self.archive).await;
        let mut parsed = Some(parsed);
        let place = session.followed(&*self.archive, |memory, patience| {
            self.place(session, memory, &mut parsed, recording, patience)
        });
        place.await.ok_or(PrepareError::Empty)
    }

    /// The same without asking the archive; gives the request back if that is not possible.
    pub(crate) fn admit_at_once(
        self: &Arc<Self>,
        session: &Arc<LiveSession>,
        parsed: ParsedRequest,
        recording: Recording,
    ) -> Result<SessionPlace, Option<Box<ParsedRequest>>> {
        let mut parsed = Some(parsed);
        let memory = &mut session.lock();
        let place = self.place(session, memory, &mut parsed, recording, Patience::Ask);
        place.map_err(|_| parsed.map(Box::new))
    }

    /// Gives a request its place. Nothing has changed if something must be read first.
    fn place(
        self: &Arc<Self>,
        session: &Arc<LiveSession>,
        memory: &mut SessionMemory,
        request: &mut Option<ParsedRequest>,
        recording: Recording,
        patience: Patience,
    ) -> Result<SessionPlace, Unread> {
        let Some(mut parsed) = request.take() else { return Err(Unread::Calls(Vec::new())) };
        let is_new = memory.state.written() == Version::default() || parsed.earlier.is_none();
        let followed = {
            let path = parsed.twin.stored().path();
            let compared = parsed.earlier.as_ref().map_or(0, |earlier| earlier.shared_messages);
            let messages = &path.messages[path.lead..];
            let chain = &mut parsed.chained.chain;
            memory.follow(messages, chain, compared, patience).and_then(|mut trail| {
                let (known, links) = (trail.seqs.len(), chain.links());
                if recording == Recording::Archived {
                    let new = messages[known..].iter();
                    let nodes = memory.extend(&mut trail, new, &links[known..])?;
                    return Ok((trail, nodes, known));
                }
                let next = memory.state.tree().len();
                trail.seqs.extend((next..).take(links.len() - known).map(Seq));
                Ok((trail, Vec::new(), known))
            })
        };
        let (trail, nodes, known) = match followed {
            Ok(followed) => followed,
            Err(unread) => {
                *request = Some(parsed);
                return Err(unread);
            }
        };
        let is_known = known == parsed.chained.chain.links().len();
        let is_aside = memory.is_aside(is_known, parsed.chained.system);
        parsed.twin.change(|conversation| conversation.number(trail.seqs.clone()));
        let (edition, home) = (memory.edition, (Arc::clone(self), Arc::clone(session)));
        let (admitted, twin) = AdmittedRequest::new(parsed, home, trail, edition);
        let ticket = match recording {
            Recording::Archived => self.append(memory, &admitted, nodes, known, is_new),
            Recording::Counted => None,
            Recording::Untaken => {
                self.leave_out(&admitted, known);
                None
            }
        };
        Ok(SessionPlace { admitted, twin, is_aside, ticket })
    }

    /// Has the new messages of a request archived. It is called under the lock of the session, so that entries are
    /// queued in the order of their numbers.
    fn append(
        &self,
        memory: &mut SessionMemory,
        admitted: &Arc<AdmittedRequest>,
        nodes: Vec<Node>,
        known: usize,
        is_new: bool,
    ) -> Option<Ticket> {
        let session = &admitted.session;
        let ticket = self.give(PendingWrite::request(admitted, nodes));
        for batch in memory.adopted() {
            self.give(PendingWrite::batch(session, memory.edition, batch, false));
        }
        let links = admitted.chain.links();
        // Of a conversation that goes on in memory, the rest is known.
        let links = if is_new { links } else { &links[known..] };
        if !links.is_empty() {
            self.learn(session, links);
        }
        let new = admitted.with(&[]).zip(admitted.chain.meanings()).skip(known);
        self.index().origins.remember(session, "", new);
        ticket
    }

    /// Notes that the new messages of a request and its answer will not be archived.
    fn leave_out(&self, admitted: &AdmittedRequest, known: usize) {
        // Its answer is counted with it.
        let messages = (admitted.chain.links().len() - known + 1) as u64;
        self.metrics.unarchived.inc_by(messages);
        self.give_up(&admitted.session.name, messages, "too much waits for it already");
    }

    /// Appends an answer after the request that it answers, with a line for the request log.
    pub(crate) fn answered(
        self: &Arc<Self>,
        admitted: &Arc<AdmittedRequest>,
        answer: NewAnswer,
        request: RequestRecord,
    ) -> Option<Ticket> {
        let session = &admitted.session;
        let count = admitted.chain.links().len();
        let new = answer.chain.links()[count..].to_vec();
        let mut memory = session.lock();
        let placed = placed_at_once(&mut memory, admitted, &answer);
        let preamble =
            (memory.preamble != Some(admitted.preamble)).then(|| preamble(&admitted.conversation));
        memory.preamble = Some(admitted.preamble);
        let new_messages = answer.messages.iter().zip(&answer.chain.meanings()[count..]);
        self.index().origins.remember(session, &answer.text, new_messages);
        let write = PendingWrite::answered(admitted, answer, placed, request, preamble);
        let ticket = self.give(write);
        drop(memory);
        self.learn(session, &new);
        ticket
    }

    /// Adds a line to the request log of a session.
    pub(crate) fn log(&self, admitted: &Arc<AdmittedRequest>, request: RequestRecord) {
        self.give(PendingWrite::line(admitted, request));
    }

    /// Commits a batch of edits; the ticket tells when it is durable.
    pub(crate) fn enter(
        &self,
        admitted: &AdmittedRequest,
        commit: BatchCommit,
    ) -> (Arc<LiveBatch>, Option<Ticket>) {
        let session = &admitted.session;
        let mut memory = session.lock();
        let BatchCommit { after, batch, receipt, aside } = commit;
        let new = NewBatch { after, at_ms: now_ms(), batch, receipt };
        let is_current = memory.has_in_place(admitted);
        let committed = is_current.then(|| memory.commit(new.clone(), aside).ok()).flatten();
        let Some(live) = committed else {
            // Its numbers are of an earlier edition, or another request was first.
            let (refusal, ticket) = tokio::sync::oneshot::channel();
            let _ = refusal.send(false);
            return (memory.uncommitted(new), Some(ticket));
        };
        let write = PendingWrite::batch(session, memory.edition, Arc::clone(&live), aside);
        (live, self.give(write))
    }

    /// Has something archived that was derived from a session.
    pub(crate) fn derive(&self, session: SessionId, key: String, value: String) {
        let weight = JobWeight { new: value.len(), held: value.len() };
        let write = Write { session, derived: vec![(key, value)], ..Write::default() };
        self.archivist.give(weight, ArchiveWork::Note(Box::new(write), None));
    }

    /// Logs a request that was passed on unread: its session is not known.
    pub(crate) fn bypassed(&self, owner: Owner, client: ClientProgram) {
        let id = SessionId::named(owner, UNREAD);
        let new = NewSession { owner, name: UNREAD.to_owned(), ..NewSession::default() };
        let request = RequestRecord {
            at_ms: now_ms(),
            agent: client.agent,
            is_bypassed: true,
            ..RequestRecord::default()
        };
        let write = Write { session: id, requests: vec![request], ..Write::default() };
        let note = ArchiveWork::Note(Box::new(write), Some(Box::new(new)));
        self.archivist.give(JobWeight::default(), note);
        self.give_up(UNREAD, 1, "it was passed on as it was");
    }

    /// Waits until the queue has room for another request. Returns whether it has.
    pub(crate) async fn room(&self, time_max: Duration) -> bool {
        self.archivist.room(time_max).await
    }

    /// What is wrong with the archive, if writing fails.
    pub(crate) fn outage(&self) -> Option<ArchiveOutage> {
        self.archivist.outage()
    }

    /// The messages that are not in the archive.
    pub(crate) fn missing(&self) -> Vec<Missing> {
        self.archivist.missing().all()
    }

    /// The messages that were given up.
    pub(crate) fn given_up(&self) -> Vec<Missing> {
        let missing = self.archivist.missing();
        if missing.has_given_up() { missing.given_up() } else { Vec::new() }
    }

    /// Notes that messages of a session will not be archived.
    pub(crate) fn give_up(&self, session: &str, messages: u64, why: &str) {
        self.metrics.lost.inc_by(messages);
        self.archivist.missing().give_up(session, now_ms(), messages, why);
    }

    fn give(&self, write: PendingWrite) -> Option<Ticket> {
        let session = Arc::clone(write.session());
        let (count, weight) = (write.count(), write.weight());
        let ticket = self.archivist.give(weight, ArchiveWork::Enter(Box::new(write)));
        if ticket.is_none() {
            self.metrics.unarchived.inc_by(count);
            self.give_up(&session.name, count, "the proxy has stopped");
            // It is new again with the next request.
            session.doubt_later();
        }
        ticket
    }

    /// Whether the archive can be read and written.
    pub(crate) async fn is_sound(&self) -> bool {
        let can_read = self.archive.open(SessionId::default(), Version::default()).await.is_ok();
        can_read && (self.archivist.is_writing() || self.can_write().await)
    }

    /// Whether the archive takes a value that means nothing.
    async fn can_write(&self) -> bool {
        let key = Key::Preamble(Owner::LOCAL, PreambleId::of(""));
        self.archive.put(key, None, String::new()).await.is_ok()
    }

    /// Waits until everything that was queued so far is written.
    pub(crate) async fn settle(&self) {
        if let Some(ticket) = self.archivist.give(JobWeight::default(), ArchiveWork::Settle) {
            self.archivist.hurry();
            let _ = ticket.await;
        }
    }

    /// Has the queue written at once: somebody waits.
    pub(crate) fn hurry(&self) {
        self.archivist.hurry();
    }

    /// Waits until everything is written, and takes nothing more.
    pub(crate) fn close(&self) {
        self.archivist.close();
    }
}

/// The name of a session that no client named.
fn short(first: Link) -> String {
    format!("{:016x}", (first.0 >> 64) as u64)
}

pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhand::new_entry;
    use longhand_archive::{After, NewSession};

    #[test]
    fn what_is_not_archived_is_forgotten_oldest_first() {
        let store = Store::forgetful().unwrap();
        let text = "word ".repeat(1 << 20);
        let ids: Vec<SessionId> =
            (0..20).map(|at| SessionId::named(Owner::LOCAL, &format!("{at}"))).collect();
        for id in &ids {
            store.archive.begin(*id, &NewSession::default()).unwrap();
            let raw = format!(r#"{{"role":"user","content":"{text}"}}"#);
            let entry = new_entry("chat", raw, true, 0).unwrap();
            store.archive.append(*id, After::Newest, &[entry]).unwrap();
        }
        longhand_archive::wait(store.forget());
        let is_there = |id: &SessionId| store.archive.session(*id).unwrap().is_some();
        let left: Vec<bool> = ids.iter().map(is_there).collect();
        assert_eq!(left.iter().filter(|is_there| **is_there).count(), 12, "{left:?}");
        assert!(left[8..].iter().all(|is_there| *is_there), "{left:?}");
    }
}
