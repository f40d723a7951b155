//! The sessions in memory: which of them a request belongs to, and where their writes go.

mod origins;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use longhand::driver::{Chain, Unread};
use longhand::driver::{
    LiveSession, NewAnswer, PendingWrite, PlacedRequest, RequestPlace, Settling, Sink, Ticket,
    UnplacedRequest, WriteWeight,
};
use longhand::{Archive, MemoryArchive, Owner, SessionId};
use longhand_archive::{
    ArchiveError, Key, KnownPath, NewSession, Page, PreambleId, RequestRecord, SessionFilter,
    Write, ask,
};
use longhand_core::Link;
use longhand_core::session::Version;
use rustc_hash::FxHashMap;

use self::origins::{Origin, Origins};
use crate::ServerError;
use crate::archivist::{ArchiveOutage, ArchiveWork, Archivist, ArchivistLimits};
use crate::client::ClientProgram;
use crate::lock::lock;
use crate::metrics::Metrics;
use crate::missing::Missing;
use crate::recall;
use crate::request::parse::ParsedRequest;
use crate::request::{PrepareError, Recording};
use crate::route::Caller;
use crate::timely::TimelyArchive;

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
    /// The archive as requests ask it, which do not wait for long.
    archive: Arc<dyn Archive>,
    /// The same for whoever asks it on a thread of its own.
    unlimited: Arc<dyn Archive>,
    /// The folder that clients work in, if it is known.
    pub(crate) project: String,
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

impl Store {
    pub(crate) fn new(
        archive: Arc<dyn Archive>,
        archivist: Archivist,
        metrics: Arc<Metrics>,
        project: String,
    ) -> Self {
        let (index, admitted) = (Mutex::default(), AtomicUsize::new(0));
        let unlimited = Arc::clone(&archive);
        let archive = TimelyArchive::over(archive);
        Self { archive, unlimited, archivist, metrics, project, index, forgets: false, admitted }
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
        Ok(Self { forgets: true, ..Self::new(archive, archivist, metrics, String::new()) })
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

    /// Whether each request has its session compared with the archive: other nodes serve it, too.
    pub(crate) fn checks_sessions(&self) -> bool {
        self.archive.is_shared()
    }

    /// The session of a request, if it can be used without asking the archive.
    pub(crate) fn at_hand(&self, caller: &Caller, chain: &Chain) -> Option<Arc<LiveSession>> {
        if self.checks_sessions() {
            return None;
        }
        self.indexed(caller, chain).filter(|session| session.is_at_hand())
    }

    /// The session of a request: the one that it names, the one that has the longest part of its path, or a new one.
    /// `None` if that belongs to another owner.
    pub(crate) async fn session(&self, parsed: &ParsedRequest) -> Option<Arc<LiveSession>> {
        let (caller, chain) = (&parsed.details.caller, &parsed.unplaced.chained.chain);
        let (owner, group) = (caller.owner(), parsed.details.client.group);
        if let Some(known) = self.indexed(caller, chain) {
            if self.checks_sessions() {
                // What cannot be read now is written down later, and placed anew if others were first.
                let _ = known.refresh(&*self.archive).await;
            }
            return (!known.is_foreign()).then_some(known);
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
            let nodes = async {
                if !lack.0.is_empty() {
                    let _ = session.load(&*self.archive, Unread::Nodes(lack)).await;
                }
            };
            let edits = async {
                if self.checks_sessions() {
                    let _ = session.live(&*self.archive, Some(found.seq)).await;
                }
            };
            tokio::join!(nodes, edits);
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
            _ => ask::find_path(&*self.archive, owner, links).await,
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
        let is_known = known.is_some();
        let session = if let Some(session) = known {
            session
        } else {
            let opened = match name {
                Some(_) => None,
                None => self.archive.open(id, Version::default()).await.ok().flatten(),
            };
            let known = opened.as_ref().map(|opened| opened.session.name.clone());
            let name = name.map(str::to_owned).or(known).unwrap_or_else(|| id.to_string());
            let new = Arc::new(LiveSession::new(id, owner, name, continues, group));
            if let Some(opened) = opened {
                let _ = new.begin_with(opened);
            }
            // Another request may have been faster.
            Arc::clone(self.index().sessions.entry((owner, id)).or_insert(new))
        };
        let _ = if is_known && self.checks_sessions() {
            session.refresh(&*self.archive).await
        } else {
            session.catch_up(&*self.archive).await
        };
        (!session.is_foreign()).then_some(session)
    }

    /// Whether requests of a session offer the recall tool: those of a new one do, and the others go on as before.
    pub(crate) async fn offers_recall(&self, session: &LiveSession) -> bool {
        if let Some(known) = session.offers_recall.get() {
            return *known;
        }
        // Where the archive cannot be asked, no cache is put at risk.
        let offers = recall::offered_before(&*self.archive, session).await;
        let offers = offers.is_ok_and(|before| before.unwrap_or(true));
        *session.offers_recall.get_or_init(|| offers)
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
    pub(crate) async fn admit(
        &self,
        session: &Arc<LiveSession>,
        request: UnplacedRequest,
        goes_on: bool,
        recording: Recording,
    ) -> Result<RequestPlace, PrepareError> {
        self.forget().await;
        let is_recorded = recording == Recording::Archived;
        let place = session.admit(self, request, is_recorded).await?;
        let place = place.ok_or(PrepareError::Empty)?;
        self.admitted(&place, goes_on, recording);
        Ok(place)
    }

    /// The same without asking the archive; gives the request back if that is not possible.
    pub(crate) fn admit_at_once(
        &self,
        session: &Arc<LiveSession>,
        request: UnplacedRequest,
        goes_on: bool,
        recording: Recording,
    ) -> Result<RequestPlace, Option<Box<UnplacedRequest>>> {
        let place = session.admit_at_once(self, request, recording == Recording::Archived)?;
        self.admitted(&place, goes_on, recording);
        Ok(place)
    }

    /// Remembers where a request is. Of one that goes on from another in memory, only what is new is not known yet.
    fn admitted(&self, place: &RequestPlace, goes_on: bool, recording: Recording) {
        let RequestPlace { placed, known, is_first, .. } = place;
        match recording {
            Recording::Counted => {}
            Recording::Untaken => self.leave_out(placed, *known),
            Recording::Archived => {
                let links = placed.chain.links();
                let links = if *is_first || !goes_on { links } else { &links[*known..] };
                if !links.is_empty() {
                    self.learn(&placed.session, links);
                }
                let new = placed.with(&[]).zip(placed.chain.meanings()).skip(*known);
                self.index().origins.remember(&placed.session, "", new);
            }
        }
    }

    /// Notes that the new messages of a request and its answer will not be archived.
    fn leave_out(&self, request: &PlacedRequest, known: usize) {
        // Its answer is counted with it.
        let messages = (request.chain.links().len() - known + 1) as u64;
        self.metrics.unarchived.inc_by(messages);
        self.give_up(&request.session.name, messages, "too much waits for it already");
    }

    /// Appends an answer after the request that it answers, with a line for the request log.
    pub(crate) fn answered(
        &self,
        request: &Arc<PlacedRequest>,
        answer: NewAnswer,
        line: RequestRecord,
    ) -> Option<Ticket> {
        let session = &request.session;
        let count = request.chain.links().len();
        let new = answer.chain.links()[count..].to_vec();
        let new_messages = answer.messages.iter().zip(&answer.chain.meanings()[count..]);
        self.index().origins.remember(session, &answer.text, new_messages);
        let ticket = session.answered(self, request, answer, line);
        self.learn(session, &new);
        ticket
    }

    /// Remembers the summary that a client gets of a request, by which the conversation that begins with it is known.
    pub(crate) fn summarised(&self, request: &PlacedRequest, text: &str) {
        self.index().origins.remember(&request.session, text, std::iter::empty());
    }

    /// Adds a line to the request log of a session.
    pub(crate) fn log(&self, request: &Arc<PlacedRequest>, line: RequestRecord) {
        self.give(PendingWrite::line(request, line));
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
        self.archivist.give(WriteWeight::default(), note);
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

    /// The archive, for whoever asks it on a thread of its own.
    pub(crate) fn shared_archive(&self) -> Arc<dyn Archive> {
        Arc::clone(&self.unlimited)
    }

    /// Waits until everything that was queued so far is written.
    pub(crate) async fn settle(&self) {
        if let Some(ticket) = self.archivist.give(WriteWeight::default(), ArchiveWork::Settle) {
            self.archivist.hurry();
            let _ = ticket.await;
        }
    }

    /// Waits until everything is written, and takes nothing more.
    pub(crate) fn close(&self) {
        self.archivist.close();
    }
}

impl Sink for Store {
    fn archive(&self) -> &dyn Archive {
        &*self.archive
    }

    fn background_archive(&self) -> &Arc<dyn Archive> {
        &self.unlimited
    }

    fn now_ms(&self) -> i64 {
        now_ms()
    }

    /// What is in memory counts: an agent does not wait for a disk.
    fn go_on_without(&self, _: ArchiveError) -> Result<(), ArchiveError> {
        Ok(())
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

    fn derive(&self, session: SessionId, key: &str, value: String) {
        let weight = WriteWeight { new: value.len(), held: value.len() };
        let derived = vec![(key.to_owned(), value)];
        let write = Write { session, derived, ..Write::default() };
        self.archivist.give(weight, ArchiveWork::Note(Box::new(write), None));
    }

    fn hurry(&self) {
        self.archivist.hurry();
    }

    fn settled<'s>(&'s self, _: &'s Arc<LiveSession>) -> Settling<'s> {
        Box::pin(async {
            self.settle().await;
            Ok(())
        })
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
    use longhand::driver::new_entry;
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
