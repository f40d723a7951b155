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

use longhand::{Archive, Chain, MemoryArchive, Owner, SessionId};
use longhand_archive::{NewBatch, NewSession, Page, Request};
use longhand_core::{Batch, Link, Message, Seq};
use longhand_dialect::Conversation;
use rustc_hash::FxHashMap;

use self::live_session::SessionState;
pub(crate) use self::live_session::{LiveBatch, LiveSession};
use self::origins::{Origin, Origins};
pub(crate) use self::pending_write::{PendingWrite, WriteOutcome, WriteStep};
use crate::ServerError;
use crate::archivist::{ArchiveOutage, ArchiveWork, Archivist, ArchivistLimits, JobWeight, Ticket};
use crate::client::ClientProgram;
use crate::lock::lock;
use crate::metrics::Metrics;
use crate::missing::Missing;
use crate::request::Recording;
use crate::request::admit::{AdmittedRequest, SessionPlace};
use crate::request::chain::preamble;
use crate::request::parse::ParsedRequest;
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
    pub(crate) unread: Option<(String, String)>,
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
    fn forget(&self) {
        let count = self.admitted.fetch_add(1, Ordering::Relaxed);
        if !self.forgets || !count.is_multiple_of(FORGETTING_STEP) {
            return;
        }
        let Ok(sessions) = self.archive.sessions(None, Page::ALL) else { return };
        let mut bytes = 0;
        for (at, session) in sessions.items.iter().enumerate() {
            bytes += session.bytes + ENTRY_BYTES * session.entries;
            if at > 0 && bytes > FORGETFUL_BYTES_MAX {
                let _ = self.archive.remove(session.id);
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

    /// Whether a request can be admitted without asking the archive.
    pub(crate) fn is_at_hand(&self, caller: &Caller, chain: &Chain) -> bool {
        self.indexed(caller, chain).is_some_and(|session| session.is_at_hand())
    }

    /// The session of a request: the one that it names, the one that has the longest part of its path, or a new one.
    /// `None` if that belongs to another owner.
    pub(crate) fn session(&self, parsed: &ParsedRequest) -> Option<Arc<LiveSession>> {
        let (caller, chain) = (&parsed.caller, &parsed.chained.chain);
        let (owner, group) = (caller.owner(), parsed.client.group);
        if let Some(known) = self.indexed(caller, chain) {
            return Some(known);
        }
        if let Some(id) = caller.session() {
            return self.loaded(id, owner, caller.name(), None, group);
        }
        let links: Vec<Link> = chain.said().collect();
        let first = links.first()?;
        // An archive that fails is asked again when the request is to be written down.
        if let Ok(Some(found)) = self.archive.find_path(owner, &links) {
            return self.loaded(found.session, owner, None, None, group);
        }
        let name = short(*first);
        let id = SessionId::named(owner, &name);
        let path = parsed.conversation().path();
        let messages = &path.messages[path.lead..];
        let origin = self.index().origins.of(owner, messages);
        match origin {
            Some(Origin::Same(same)) => self.loaded(same, owner, None, None, group),
            Some(Origin::Quoted(of)) => self.loaded(id, owner, Some(&name), Some(of), group),
            None => self.loaded(id, owner, Some(&name), None, group),
        }
    }

    /// A session of an owner by its id; `None` if it belongs to another owner.
    pub(crate) fn by_id(&self, id: SessionId, owner: Owner) -> Option<Arc<LiveSession>> {
        self.loaded(id, owner, None, None, None)
    }

    /// A session with its ledger from the archive; `None` if it belongs to another owner.
    fn loaded(
        &self,
        id: SessionId,
        owner: Owner,
        name: Option<&str>,
        continues: Option<SessionId>,
        group: Option<u64>,
    ) -> Option<Arc<LiveSession>> {
        let known = self.index().sessions.get(&(owner, id)).cloned();
        let session = known.unwrap_or_else(|| {
            let archived = || self.archive.session(id).ok().flatten().map(|info| info.name);
            let name = name.map(str::to_owned).or_else(archived).unwrap_or_else(|| id.to_string());
            let new = Arc::new(LiveSession::new(id, owner, name, continues, group));
            // Another request may have been faster.
            Arc::clone(self.index().sessions.entry((owner, id)).or_insert(new))
        });
        if session.catch_up(&*self.archive) {
            self.learn(&session, session.links());
        }
        (!session.is_foreign()).then_some(session)
    }

    /// Remembers which session has links.
    fn learn(&self, session: &LiveSession, links: Vec<Link>) {
        let mut index = self.index();
        if index.links.len() + links.len() > LINKS_MAX {
            *index = SessionIndex::default();
        }
        let audible = links.into_iter().filter(|link| !link.is_silent());
        index.links.extend(audible.map(|link| (link, session.id)));
    }

    /// Finds the messages of a request in its session, and appends those that are new there.
    ///
    /// The new messages of a request that is not archived get numbers that only this request uses.
    pub(crate) fn admit(
        self: &Arc<Self>,
        session: &Arc<LiveSession>,
        mut parsed: ParsedRequest,
        recording: Recording,
    ) -> SessionPlace {
        self.forget();
        session.catch_up(&*self.archive);
        self.read_calls(session, parsed.twin.stored(), &parsed.chained.chain);
        let mut state = session.lock();
        let shared = parsed.earlier.as_ref().map_or(0, |earlier| earlier.shared_messages);
        let (conversation, chain) = (parsed.twin.stored(), &mut parsed.chained.chain);
        let mut trail = state.follow(conversation, chain, shared);
        let links = chain.links();
        let known = trail.seqs.len();
        let is_aside = state.is_aside(known == links.len(), parsed.chained.system);
        if recording == Recording::Archived {
            state.extend(&mut trail, conversation, links);
        } else {
            let next = state.ledger.len();
            trail.seqs.extend((next..).take(links.len() - known).map(Seq));
        }
        parsed.twin.change(|conversation| conversation.number(trail.seqs.clone()));
        let (edition, home) = (state.edition, (Arc::clone(self), Arc::clone(session)));
        let (admitted, twin) = AdmittedRequest::new(parsed, home, trail, edition);
        let ticket = match recording {
            Recording::Archived => self.append(state, &admitted, known),
            Recording::Counted => None,
            Recording::Untaken => {
                drop(state);
                self.leave_out(&admitted, known);
                None
            }
        };
        SessionPlace { admitted, twin, is_aside, ticket }
    }

    /// Has all messages of a request archived after the first `known` ones.
    fn append(
        &self,
        mut state: MutexGuard<'_, SessionState>,
        admitted: &Arc<AdmittedRequest>,
        known: usize,
    ) -> Option<Ticket> {
        let session = &admitted.session;
        let unkept = state.unkept(admitted.trail.path.last().copied());
        // Queued under the lock, so that entries are written in the order of their numbers.
        let ticket = self.give(PendingWrite::request(admitted, known));
        for batch in unkept {
            self.give(PendingWrite::batch(session, state.edition, batch, false));
        }
        drop(state);
        let links = &admitted.chain.links()[known..];
        if !links.is_empty() {
            self.learn(session, links.to_vec());
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

    /// Reads the tool calls of entries that are compared with those of a request.
    ///
    /// The lock is not held while the archive is read. A changed call leads to another path, whose calls are read
    /// next.
    fn read_calls(&self, session: &LiveSession, conversation: &Conversation, chain: &Chain) {
        loop {
            let unread = session.lock().unread_calls(conversation, chain);
            let arguments = |seq| longhand::recall::arguments(&*self.archive, session.id, seq);
            let read = unread.into_iter().filter_map(|seq| Some((seq, arguments(seq)?)));
            let read: Vec<_> = read.collect();
            if read.is_empty() {
                return;
            }
            session.lock().learn_calls(read);
        }
    }

    /// Appends an answer after the request that it answers, with a line for the request log.
    pub(crate) fn answered(
        self: &Arc<Self>,
        admitted: &Arc<AdmittedRequest>,
        answer: NewAnswer,
        request: Request,
    ) -> Option<Ticket> {
        let session = &admitted.session;
        let mut state = session.lock();
        let links = answer.chain.links();
        let count = admitted.chain.links().len();
        let mut trail = if state.edition == admitted.edition {
            admitted.trail.clone()
        } else {
            state.ledger.follow(&links[..count])
        };
        if trail.seqs.len() == count {
            state.ledger.follow_on(&mut trail, &links[count..]);
        }
        let known = trail.seqs.len();
        let new = links[known..].to_vec();
        state.extend_with(&mut trail, admitted.with(&answer.messages).skip(known), &new);
        let preamble =
            (state.preamble != Some(admitted.preamble)).then(|| preamble(&admitted.conversation));
        state.preamble = Some(admitted.preamble);
        let edition = state.edition;
        let new_messages = answer.messages.iter().zip(&answer.chain.meanings()[count..]);
        self.index().origins.remember(session, &answer.text, new_messages);
        let write =
            PendingWrite::answered(admitted, answer, (trail, known, edition), request, preamble);
        let ticket = self.give(write);
        drop(state);
        self.learn(session, new);
        ticket
    }

    /// Adds a line to the request log of a session.
    pub(crate) fn log(&self, admitted: &Arc<AdmittedRequest>, request: Request) {
        self.give(PendingWrite::line(admitted, request));
    }

    /// Commits a batch of edits; the ticket tells when it is durable.
    pub(crate) fn enter(
        &self,
        admitted: &AdmittedRequest,
        commit: BatchCommit,
    ) -> (Arc<LiveBatch>, Option<Ticket>) {
        let session = &admitted.session;
        let mut state = session.lock();
        let BatchCommit { after, batch, receipt, aside } = commit;
        let new = NewBatch { after, at_ms: now_ms(), batch, receipt };
        let live = Arc::new(LiveBatch::new(state.next_batch(), new, &state.live));
        if state.edition != admitted.edition {
            // Another process was first: the numbers are not those of the archive.
            let (refusal, ticket) = tokio::sync::oneshot::channel();
            let _ = refusal.send(false);
            return (live, Some(ticket));
        }
        if !aside {
            state.live.push(Arc::clone(&live));
        }
        let write = PendingWrite::batch(session, state.edition, Arc::clone(&live), aside);
        (live, self.give(write))
    }

    /// Has something archived that was derived from a session.
    pub(crate) fn derive(&self, session: SessionId, key: String, value: String) {
        let archive = Arc::clone(&self.archive);
        let weight = JobWeight { new: value.len(), held: value.len() };
        let work = move || archive.put_derived(session, &key, &value).is_ok();
        self.archivist.give(weight, ArchiveWork::Other(Box::new(work)));
    }

    /// Logs a request that was passed on unread: its session is not known.
    pub(crate) fn bypassed(&self, owner: Owner, client: ClientProgram) {
        let archive = Arc::clone(&self.archive);
        let id = SessionId::named(owner, UNREAD);
        let new = NewSession { owner, name: UNREAD.to_owned(), ..NewSession::default() };
        let request = Request {
            at_ms: now_ms(),
            agent: client.agent,
            is_bypassed: true,
            ..Request::default()
        };
        let work = move || {
            archive.begin(id, &new).and_then(|()| archive.log_request(id, &request)).is_ok()
        };
        self.archivist.give(JobWeight::default(), ArchiveWork::Other(Box::new(work)));
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
    pub(crate) fn is_sound(&self) -> bool {
        let can_write = || self.archive.keep_preamble(Owner::LOCAL, "").is_ok();
        self.archive.head(SessionId::default()).is_ok()
            && (self.archivist.is_writing() || can_write())
    }

    /// Waits until everything that was queued so far is written.
    pub(crate) fn settle(&self) {
        if let Some(ticket) =
            self.archivist.give(JobWeight::default(), ArchiveWork::Other(Box::new(|| true)))
        {
            self.archivist.hurry();
            let _ = ticket.blocking_recv();
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
        store.forget();
        let is_there = |id: &SessionId| store.archive.session(*id).unwrap().is_some();
        let left: Vec<bool> = ids.iter().map(is_there).collect();
        assert_eq!(left.iter().filter(|is_there| **is_there).count(), 12, "{left:?}");
        assert!(left[8..].iter().all(|is_there| *is_there), "{left:?}");
    }
}
