//! An archive on a `PostgreSQL` server, which any number of nodes share.
//!
//! The rows of a session are written under a lock of its row, whose counts are its version: whoever expects another one
//! is refused. Connections keep no state between transactions and statements have no names, so that poolers which hand a
//! connection to another client after each transaction can stand in between.

mod address;
mod batch;
mod check;
mod entry;
mod erase;
mod fault;
mod index;
mod list;
mod log;
mod schema;
mod server;
mod server_error;
mod session;
mod tls;
mod value;
mod write;

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use longhand_core::session::{Node, Version};
use longhand_core::{Handle, Link};

use self::address::{Address, ProcessEnvironment};
use self::fault::Fault;
use self::server::{Asked, LOOK, Server, Waiting};
pub use self::server_error::ServerError;
use self::write::ReadyWrite;
use crate::storage::{
    Answer, BatchRecord, BestEntries, BestQuery, Candidates, EntryRecord, FoldStates, Key,
    NoteFilter, Opened, Referenced, RequestFilter, SearchQuery, SessionFilter, Storage, Upkeep,
    Vocabulary, VocabularyQuery, Write,
};
use crate::{
    ArchiveError, Damage, KnownPath, Listing, Note, Owner, Page, RequestRecord, SessionId,
    SessionInfo, UsageLine, wait,
};

/// How a [`PostgresArchive`] behaves.
#[derive(Clone, Debug)]
pub struct PostgresSettings {
    /// How long a call waits for a connection, and tries again while the server is away.
    pub wait_max: Duration,
    /// How long a statement may take.
    pub statement_max: Duration,
    /// The most connections that this process has at a time.
    pub connections_max: usize,
    /// A file that has the password and nothing else.
    pub password_file: Option<PathBuf>,
}

impl Default for PostgresSettings {
    fn default() -> Self {
        Self {
            wait_max: Duration::from_secs(5),
            statement_max: Duration::from_mins(1),
            connections_max: 8,
            password_file: None,
        }
    }
}

/// An archive on a server.
///
/// The threads that wait for the server are its own, so that it works in any runtime and without one.
pub struct PostgresArchive {
    waiting: Arc<Waiting>,
    server: Arc<Server>,
    indexing: Arc<Indexing>,
    /// How a transaction that writes begins.
    begin: Arc<str>,
}

impl fmt::Debug for PostgresArchive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresArchive").field(&self.server.name).finish()
    }
}

/// When this node has put what it wrote into the search index.
#[derive(Debug, Default)]
struct Indexing {
    /// How many entries it has written since.
    written: AtomicU64,
    is_running: AtomicBool,
}

/// Whether an address names an archive on a server, and not a file.
pub fn is_postgres(address: &str) -> bool {
    ["postgres://", "postgresql://"].iter().any(|scheme| address.starts_with(scheme))
}

/// An address as it may be shown: without its password.
pub fn shown_address(address: &str) -> String {
    Address::parse(address, &ProcessEnvironment).map_or_else(
        |_| address.split("//").next().unwrap_or_default().to_owned() + "//…",
        |address| address.to_string(),
    )
}

impl PostgresArchive {
    /// Opens the archive at an address such as `postgres://user@host/database`; makes its tables if they are not there.
    ///
    /// The password is that of the address, or that of `PGPASSWORD`, or of the file that `PGPASSFILE` names.
    pub fn open(address: &str) -> Result<Self, ArchiveError> {
        Self::open_with(address, &PostgresSettings::default())
    }

    /// Opens the archive at an address with these settings.
    pub fn open_with(address: &str, settings: &PostgresSettings) -> Result<Self, ArchiveError> {
        let mut address = Address::parse(address, &ProcessEnvironment)?;
        if let Some(file) = &settings.password_file {
            address = address.with_key_file(file)?;
        }
        let server = Arc::new(Server::new(&address, settings.clone())?);
        let waiting = Arc::new(Waiting::new(&server.name)?);
        let opening = Arc::clone(&server);
        let syncs = wait(waiting.run(&server, async move {
            schema::prepare(&opening).await?;
            opening.ask(|db| Box::pin(syncs(db))).await
        }))?;
        // What was acknowledged stays, whatever is usual on this server.
        let sync = if syncs { "" } else { "; SET LOCAL synchronous_commit = on" };
        let wait_ms = settings.wait_max.as_millis();
        let begin = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = {wait_ms}{sync}"
        );
        Ok(Self { waiting, server, indexing: Arc::default(), begin: begin.into() })
    }

    /// The address, without the password.
    pub fn address(&self) -> &str {
        &self.server.name
    }

    /// Asks the server, and again if the connection is lost.
    fn ask<T: Send + 'static>(
        &self,
        work: impl for<'c> Fn(&'c tokio_postgres::Client) -> Asked<'c, T> + Send + Sync + 'static,
    ) -> Answer<'static, T> {
        let server = Arc::clone(&self.server);
        self.waiting.run(&self.server, async move { server.ask(work).await })
    }

    /// Asks the server within a transaction.
    fn transact<T: Send + 'static>(
        &self,
        begin: &'static str,
        work: impl for<'c> Fn(&'c tokio_postgres::Client) -> Asked<'c, T> + Send + Sync + 'static,
    ) -> Answer<'static, T> {
        let server = Arc::clone(&self.server);
        self.waiting.run(&self.server, async move { server.transact(begin, work).await })
    }

    /// Puts entries into the search index in the background, if many wait.
    fn wrote(&self, entries: u64) {
        if entries == 0 {
            return;
        }
        let indexing = Arc::clone(&self.indexing);
        let written = indexing.written.fetch_add(entries, Ordering::Relaxed) + entries;
        if written < index::SLICE_MIN || indexing.is_running.swap(true, Ordering::AcqRel) {
            return;
        }
        let server = Arc::clone(&self.server);
        self.waiting.begin(async move {
            indexing.written.store(0, Ordering::Relaxed);
            // What cannot be indexed now is searched entry by entry, and tried again with what is written next.
            let _ = index::extend(&server, index::SLICE_MIN).await;
            indexing.is_running.store(false, Ordering::Release);
        });
    }
}

/// Whether the server waits for its disk before it acknowledges.
async fn syncs(db: &tokio_postgres::Client) -> Result<bool, Fault> {
    let sql = "SELECT current_setting('synchronous_commit') <> 'off'";
    Ok(db.query_typed_one(sql, &[]).await?.get(0))
}

impl Storage for PostgresArchive {
    fn write(&self, writes: Vec<Write>) -> Answer<'_, Vec<Result<Version, ArchiveError>>> {
        let server = Arc::clone(&self.server);
        let begin = Arc::clone(&self.begin);
        let entries: u64 = writes.iter().map(|write| write.entries.len() as u64).sum();
        let outcomes = self.waiting.run(&self.server, async move {
            let ready: Arc<[ReadyWrite]> = writes.into_iter().map(ReadyWrite::new).collect();
            write::make_all(&server, &begin, &ready).await
        });
        Box::pin(async move {
            let outcomes = outcomes.await?;
            self.wrote(entries);
            Ok(outcomes)
        })
    }

    fn open(&self, id: SessionId, since: Version) -> Answer<'_, Option<Opened>> {
        self.ask(move |db| Box::pin(session::open(db, id, since)))
    }

    fn nodes(&self, id: SessionId, seqs: Vec<Range<u64>>) -> Answer<'_, Vec<Node>> {
        let bodies = self.bodies(id, seqs);
        Box::pin(async move {
            let node = |record: EntryRecord| {
                let crate::Entry { seq, parent, link, round, .. } = record.entry;
                Node { seq, parent, link, round }
            };
            Ok(bodies.await?.into_iter().map(node).collect())
        })
    }

    fn bodies(&self, id: SessionId, seqs: Vec<Range<u64>>) -> Answer<'_, Vec<EntryRecord>> {
        self.ask(move |db| {
            let seqs = seqs.clone();
            Box::pin(async move { entry::bodies(db, id, &seqs).await })
        })
    }

    fn read_batches(
        &self,
        id: SessionId,
        numbers: Vec<u64>,
        states: FoldStates,
    ) -> Answer<'_, Vec<BatchRecord>> {
        self.ask(move |db| {
            let numbers = numbers.clone();
            Box::pin(async move { batch::batches(db, id, &numbers, states).await })
        })
    }

    fn links(&self, owner: Owner, links: Vec<Link>) -> Answer<'_, Vec<KnownPath>> {
        let links: Arc<[Link]> = links.into();
        self.ask(move |db| {
            let links = Arc::clone(&links);
            Box::pin(async move { list::links(db, owner, &links).await })
        })
    }

    fn references(&self, handle: Handle) -> Answer<'_, Vec<Referenced>> {
        self.ask(move |db| Box::pin(list::references(db, handle)))
    }

    fn candidates(&self, wanted: SearchQuery) -> Answer<'_, Candidates> {
        self.transact(LOOK, move |db| {
            let wanted = wanted.clone();
            Box::pin(async move { index::candidates(db, &wanted).await })
        })
    }

    fn vocabulary(&self, wanted: VocabularyQuery) -> Answer<'_, Vocabulary> {
        self.transact(LOOK, move |db| {
            let wanted = wanted.clone();
            Box::pin(async move { index::vocabulary(db, &wanted).await })
        })
    }

    fn best(&self, wanted: BestQuery) -> Answer<'_, BestEntries> {
        self.transact(LOOK, move |db| {
            let wanted = wanted.clone();
            Box::pin(async move { index::best(db, &wanted).await })
        })
    }

    fn list_sessions(&self, of: SessionFilter, page: Page) -> Answer<'_, Listing<SessionInfo>> {
        self.ask(move |db| {
            let of = of.clone();
            Box::pin(async move { list::sessions(db, &of, page).await })
        })
    }

    fn owners(&self) -> Answer<'_, Vec<Owner>> {
        self.ask(|db| Box::pin(list::owners(db)))
    }

    fn list_requests(
        &self,
        of: RequestFilter,
        page: Page,
    ) -> Answer<'_, Listing<(SessionId, RequestRecord)>> {
        self.ask(move |db| {
            let of = of.clone();
            Box::pin(async move {
                match of {
                    RequestFilter::Session(id) => log::requests(db, id, page).await,
                    RequestFilter::Answer(owner, answer) => log::answer(db, owner, &answer).await,
                }
            })
        })
    }

    fn usage(&self, since_ms: i64) -> Answer<'_, Vec<UsageLine>> {
        self.ask(move |db| Box::pin(log::usage(db, since_ms)))
    }

    fn notes(&self, of: NoteFilter) -> Answer<'_, Vec<(SessionId, Note)>> {
        self.ask(move |db| {
            Box::pin(async move {
                match of {
                    NoteFilter::Session(id) => log::notes(db, id).await,
                    NoteFilter::Handle(handle) => log::notes_with(db, handle).await,
                }
            })
        })
    }

    fn get(&self, keys: Vec<Key>) -> Answer<'_, Vec<Option<String>>> {
        let keys: Arc<[Key]> = keys.into();
        self.ask(move |db| {
            let keys = Arc::clone(&keys);
            Box::pin(async move {
                let values = keys.iter().map(|key| value::get(db, key));
                // Each is asked for before the one before it is answered.
                let values = futures_util::future::join_all(values).await;
                values.into_iter().collect()
            })
        })
    }

    fn keys(&self, id: SessionId, prefix: String) -> Answer<'_, Vec<String>> {
        self.ask(move |db| {
            let prefix = prefix.clone();
            Box::pin(async move { value::keys(db, id, &prefix).await })
        })
    }

    fn put(&self, key: Key, expected: Option<String>, value: String) -> Answer<'_, bool> {
        self.transact(index::TRANSACTION, move |db| {
            let (key, expected, value) = (key.clone(), expected.clone(), value.clone());
            Box::pin(async move { value::put(db, &key, expected.as_deref(), &value).await })
        })
    }

    fn erase(&self, id: SessionId) -> Answer<'_, bool> {
        self.transact(index::TRANSACTION, move |db| Box::pin(erase::erase(db, id)))
    }

    fn check(&self, session: Option<SessionId>) -> Answer<'_, Vec<Damage>> {
        let server = Arc::clone(&self.server);
        self.waiting.run(&self.server, async move {
            if let Some(id) = session {
                return server.transact(LOOK, |db| Box::pin(check::session(db, id))).await;
            }
            let mut damages = Vec::new();
            let mut after = 0;
            loop {
                let some = server.ask(|db| Box::pin(check::sessions(db, after))).await?;
                let Some((last, _)) = some.last() else { break };
                after = *last;
                for (_, id) in some {
                    match server.transact(LOOK, |db| Box::pin(check::session(db, id))).await {
                        Ok(found) => damages.extend(found),
                        // It was removed meanwhile.
                        Err(Fault::Refused(ArchiveError::UnknownSession { .. })) => {}
                        Err(fault) => return Err(fault),
                    }
                }
            }
            damages.extend(server.transact(LOOK, |db| Box::pin(check::shared(db))).await?);
            Ok(damages)
        })
    }

    fn maintain(&self, upkeep: Upkeep) -> Answer<'_, bool> {
        let server = Arc::clone(&self.server);
        match upkeep {
            Upkeep::Index => {
                self.waiting.run(&self.server, async move { index::extend(&server, 1).await })
            }
            Upkeep::Reindex => self.waiting.run(&self.server, async move {
                server.transact(index::TRANSACTION, |db| Box::pin(index::reset(db))).await?;
                index::extend(&server, 1).await
            }),
            // What is removed is gone from the tables; the server reuses its room when it vacuums.
            Upkeep::Wipe => Box::pin(async { Ok(true) }),
        }
    }

    fn is_shared(&self) -> bool {
        true
    }
}
