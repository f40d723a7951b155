//! An archive in one SQLite file.
//!
//! Entries, batches and what belongs to them are the truth and are covered by checksums. The search
//! index is derived: it lags behind by a bounded number of entries, and is rebuilt when it is damaged.

mod background;
mod backup;
mod batch;
mod body;
mod derived;
mod entry;
mod fault;
mod file_error;
mod format1;
mod index;
mod indexable;
mod link;
mod list;
mod log;
mod maintenance;
mod migrate;
mod mount;
mod note;
mod open;
mod place;
mod preamble;
mod rank;
mod readers;
mod reference;
mod renew;
mod request;
mod schema;
mod search;
mod session;
mod stamp;
mod sweep;
mod tail;
mod threads;
mod transaction;
mod tree;
mod value;
mod verify;
mod write;
mod write_connection;
mod writer;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_channel::oneshot;
use longhand_core::session::{Node, Version};
use longhand_core::{Handle, Link};
use rusqlite::Connection;

use self::fault::Fault;
pub use self::file_error::FileError;
pub use self::migrate::{Migrated, MigrationSettings};
use self::place::Place;
use self::readers::Readers;
use self::session::StoredSession;
use self::sweep::Left;
use self::tail::KnownTail;
use self::threads::Threads;
use self::write::ReadyWrite;
use self::writer::Writer;
use crate::storage::{
    Answer, BatchRecord, Candidates, EntryRecord, FoldStates, Key, NoteFilter, Opened, Referenced,
    RequestFilter, SearchQuery, SessionFilter, Storage, Upkeep, Write,
};
use crate::wait::is_waiting;
use crate::{
    ArchiveError, BestEntries, BestQuery, Damage, KnownPath, Listing, Note, Owner, Page,
    RequestRecord, SessionId, SessionInfo, UsageLine, Vocabulary, VocabularyQuery, pack, seal,
    wait,
};

/// An archive in a file, which processes may share.
///
/// Calls that arrive while another one waits for the disk go into the next transaction together.
/// Readers have connections of their own and wait for nobody.
#[derive(Debug)]
pub struct SqliteArchive {
    // Closed first: a connection that reads keeps the log from being emptied.
    threads: Threads,
    file: Arc<SqliteFile>,
}

/// The file, its connections and the thread that writes.
#[derive(Debug)]
struct SqliteFile {
    path: PathBuf,
    wait_max: Duration,
    readers: Readers,
    writer: Writer,
    tail: KnownTail,
}

/// What is left of removed sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unwiped {
    /// Nothing is left.
    Nothing,
    /// This log may contain some of their texts, because a program is reading it.
    Log(PathBuf),
    /// The file contains some of their texts, because another program keeps it locked.
    Content,
}

/// How a [`SqliteArchive`] behaves.
#[derive(Clone, Debug)]
pub struct SqliteSettings {
    /// How long a write waits for another process that holds the file locked.
    pub wait_max: Duration,
    /// The size the file may grow to; `None` leaves it to the disk.
    pub file_bytes_max: Option<u64>,
}

impl Default for SqliteSettings {
    fn default() -> Self {
        Self { wait_max: Duration::from_secs(5), file_bytes_max: None }
    }
}

/// How long [`Upkeep::Wipe`] goes on without progress.
const WIPE_WAIT_MAX: Duration = Duration::from_secs(2);

impl SqliteFile {
    fn read<T>(
        &self,
        action: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, ArchiveError> {
        self.readers.read(action).inspect_err(|error| {
            if matches!(error.file_error(), Some(FileError::Moved { .. })) {
                self.writer.rescue();
            }
        })
    }

    /// Requests that the search index is rebuilt, and does not wait for it.
    fn reindex_later(&self) {
        drop(self.writer.write(index::reset));
    }

    fn wipe(&self, wait_max: Duration) -> Result<Unwiped, ArchiveError> {
        Ok(match self.writer.wipe(wait_max)? {
            Left::Nothing => Unwiped::Nothing,
            Left::Log => Unwiped::Log(place::log_of(&self.path)),
            Left::Content => Unwiped::Content,
        })
    }
}

impl SqliteArchive {
    /// Opens the archive at `path`; creates it, and the folders above, if there is nothing.
    ///
    /// An address such as `postgres://…` is refused: only files are supported.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ArchiveError> {
        Self::open_with(path, &SqliteSettings::default())
    }

    /// Opens the archive at `path` with these settings.
    pub fn open_with(
        path: impl AsRef<Path>,
        settings: &SqliteSettings,
    ) -> Result<Self, ArchiveError> {
        let path = path.as_ref().to_owned();
        let (connection, seen) = open::open(&path, settings)?;
        let wait_max = settings.wait_max;
        let place = Arc::new(Place::of(&path, &connection, &seen));
        // A log may have come between looking for one and opening it.
        place.check()?;
        let readers = Readers::new(path.clone(), Arc::clone(&place), wait_max);
        let writer = Writer::start(&path, place, connection, wait_max)?;
        let tail = KnownTail::default();
        let file = Arc::new(SqliteFile { path, wait_max, readers, writer, tail });
        Ok(Self { threads: Threads::default(), file })
    }

    /// Writes an archive that has an earlier format to a new file, checks that, and puts it into the place of the old
    /// one, which is kept under another name. `None` if there is nothing to do.
    ///
    /// Gives [`FileError::InUse`] if another process has it open. If it fails or is killed, the archive is as it was,
    /// and it can be tried again.
    pub fn migrate(
        path: impl AsRef<Path>,
        settings: MigrationSettings<'_>,
    ) -> Result<Option<Migrated>, ArchiveError> {
        migrate::migrate(path.as_ref(), settings)
    }

    /// The path of the file.
    pub fn file(&self) -> &Path {
        &self.file.path
    }

    /// Rebuilds the search index in the background; until it is done, searches take longer.
    pub fn reindex(&self) -> Result<(), ArchiveError> {
        wait(self.file.writer.write(index::reset))
    }

    /// Brings the search index up to date: all entries that are there now are in it. Others can write meanwhile.
    ///
    /// Without it, the newest entries follow in the background, and searches read them one by one.
    pub fn index(&self) -> Result<(), ArchiveError> {
        self.file.writer.index()
    }

    /// Wipes what removed sessions left in the file and in its log. Others can write meanwhile.
    ///
    /// Gives up after `wait_max` without progress and says what is left; whoever uses the archive next goes on with it.
    pub fn wipe(&self, wait_max: Duration) -> Result<Unwiped, ArchiveError> {
        self.file.wipe(wait_max)
    }

    /// Writes a copy of the archive as it is now to a new file, and checks the copy. Others can write meanwhile.
    ///
    /// `progress` is told how many pages were copied, and of how many. Gives [`FileError::Exists`] if there is
    /// something at `target`; it appears there when it is complete.
    pub fn backup(
        &self,
        target: impl AsRef<Path>,
        progress: impl FnMut(u64, u64),
    ) -> Result<(), ArchiveError> {
        self.file.readers.check()?;
        backup::backup(&self.file.path, target.as_ref(), self.file.wait_max, progress)
    }

    /// Runs work on a thread of the storage.
    fn on_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(&SqliteFile) -> Result<T, ArchiveError> + Send + 'static,
    ) -> Answer<'static, T> {
        if is_waiting() {
            return Box::pin(std::future::ready(work(&self.file)));
        }
        let (reply, answer) = oneshot::channel();
        let file = Arc::clone(&self.file);
        self.threads.submit(move || {
            let outcome = work(&file);
            drop(file);
            let _ = reply.send(outcome);
        });
        let archive = self.file.path.display().to_string();
        Box::pin(async move { answer.await.unwrap_or(Err(ArchiveError::Closed { archive })) })
    }

    fn read<T: Send + 'static>(
        &self,
        action: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Answer<'static, T> {
        self.on_thread(|file| file.read(action))
    }

    /// Reads from a session; an unknown one gives the default value.
    fn read_session<T: Default + Send + 'static>(
        &self,
        id: SessionId,
        action: impl FnOnce(&Connection, &StoredSession) -> Result<T, Fault> + Send + 'static,
    ) -> Answer<'static, T> {
        self.read(move |db| match session::find(db, id)? {
            None => Ok(T::default()),
            Some(session) => action(db, &session),
        })
    }
}

impl Storage for SqliteArchive {
    fn write(&self, writes: Vec<Write>) -> Answer<'_, Vec<Result<Version, ArchiveError>>> {
        let writes: Vec<ReadyWrite> = writes.into_iter().map(ReadyWrite::new).collect();
        let outcomes = self.file.writer.write(move |db| write::make_all(db, &writes));
        Box::pin(async move {
            let archive = self.file.path.display().to_string();
            let named = |fault: Fault| fault.into_error(&archive, self.file.wait_max);
            Ok(outcomes.await?.into_iter().map(|outcome| outcome.map_err(named)).collect())
        })
    }

    fn open(&self, id: SessionId, since: Version) -> Answer<'_, Option<Opened>> {
        self.read(move |db| session::open(db, id, since))
    }

    fn nodes(&self, id: SessionId, seqs: Vec<Range<u64>>) -> Answer<'_, Vec<Node>> {
        self.read_session(id, move |db, session| tree::nodes(db, session, &seqs))
    }

    fn bodies(&self, id: SessionId, seqs: Vec<Range<u64>>) -> Answer<'_, Vec<EntryRecord>> {
        self.read_session(id, move |db, session| entry::bodies(db, session, &seqs))
    }

    fn read_batches(
        &self,
        id: SessionId,
        numbers: Vec<u64>,
        states: FoldStates,
    ) -> Answer<'_, Vec<BatchRecord>> {
        self.read_session(id, move |db, session| batch::batches(db, session, &numbers, states))
    }

    fn links(&self, owner: Owner, links: Vec<Link>) -> Answer<'_, Vec<KnownPath>> {
        self.read(move |db| link::find(db, owner, &links))
    }

    fn references(&self, handle: Handle) -> Answer<'_, Vec<Referenced>> {
        self.read(move |db| reference::find(db, handle))
    }

    fn candidates(&self, wanted: SearchQuery) -> Answer<'_, Candidates> {
        self.on_thread(move |file| search::search(file, &wanted))
    }

    fn vocabulary(&self, wanted: VocabularyQuery) -> Answer<'_, Vocabulary> {
        self.on_thread(move |file| rank::vocabulary(file, &wanted))
    }

    fn best(&self, wanted: BestQuery) -> Answer<'_, BestEntries> {
        self.on_thread(move |file| rank::best(file, &wanted))
    }

    fn list_sessions(&self, of: SessionFilter, page: Page) -> Answer<'_, Listing<SessionInfo>> {
        self.read(move |db| list::sessions(db, &of, page))
    }

    fn owners(&self) -> Answer<'_, Vec<Owner>> {
        self.read(list::owners)
    }

    fn list_requests(
        &self,
        of: RequestFilter,
        page: Page,
    ) -> Answer<'_, Listing<(SessionId, RequestRecord)>> {
        self.read(move |db| match of {
            RequestFilter::Session(id) => request::requests(db, id, page),
            RequestFilter::Answer(owner, answer) => {
                let items = Vec::from_iter(request::answer(db, owner, &answer)?);
                Ok(Listing { items, next: None })
            }
        })
    }

    fn usage(&self, since_ms: i64) -> Answer<'_, Vec<UsageLine>> {
        self.read(move |db| request::usage(db, since_ms))
    }

    fn notes(&self, of: NoteFilter) -> Answer<'_, Vec<(SessionId, Note)>> {
        self.read(move |db| match of {
            NoteFilter::Session(id) => note::of_session(db, id),
            NoteFilter::Handle(handle) => note::with_handle(db, handle),
        })
    }

    fn get(&self, keys: Vec<Key>) -> Answer<'_, Vec<Option<String>>> {
        self.read(move |db| {
            let value = |key: &Key| match key {
                Key::Preamble(owner, id) => preamble::find(db, *owner, *id),
                Key::Derived(id, key) => derived::find(db, *id, key),
                Key::Shared(name) => value::find(db, name),
            };
            keys.iter().map(value).collect()
        })
    }

    fn keys(&self, id: SessionId, prefix: String) -> Answer<'_, Vec<String>> {
        self.read(move |db| derived::keys(db, id, &prefix))
    }

    fn put(&self, key: Key, expected: Option<String>, value: String) -> Answer<'_, bool> {
        let expected = move |found: Option<String>| found == expected;
        Box::pin(self.file.writer.write(move |db| match &key {
            Key::Preamble(owner, id) => {
                // A damaged one is overwritten.
                let is_expected = preamble::find(db, *owner, *id).map_or(true, &expected);
                is_expected.then(|| preamble::keep(db, *owner, &value)).transpose()?;
                Ok(is_expected)
            }
            Key::Derived(id, key) => {
                let unknown = ArchiveError::UnknownSession { session: *id };
                let session = session::find(db, *id)?.ok_or(unknown)?;
                let is_expected = expected(derived::find(db, *id, key)?);
                is_expected.then(|| derived::put(db, &session, key, &value)).transpose()?;
                Ok(is_expected)
            }
            Key::Shared(name) => value::put(db, name, &expected, &value),
        }))
    }

    /// The session is gone at once; its content is wiped from the file in the background, and
    /// closing the archive waits for that.
    fn erase(&self, id: SessionId) -> Answer<'_, bool> {
        Box::pin(self.file.writer.write(move |db| session::remove(db, id)))
    }

    fn check(&self, session: Option<SessionId>) -> Answer<'_, Vec<Damage>> {
        self.on_thread(move |file| {
            file.readers.check()?;
            verify::verify(&file.path, file.wait_max, session)
        })
    }

    fn maintain(&self, upkeep: Upkeep) -> Answer<'_, bool> {
        match upkeep {
            Upkeep::Reindex => {
                let reset = self.file.writer.write(index::reset);
                Box::pin(async move { reset.await.map(|()| true) })
            }
            Upkeep::Index => self.on_thread(|file| file.writer.index().map(|()| true)),
            Upkeep::Wipe => {
                self.on_thread(|file| Ok(file.wipe(WIPE_WAIT_MAX)? == Unwiped::Nothing))
            }
        }
    }
}
