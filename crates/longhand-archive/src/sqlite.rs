//! An archive in one SQLite file.
//!
//! Entries, batches and what belongs to them are the truth and are covered by checksums. The search
//! index is derived: it lags behind by a bounded number of entries, and is made anew when it is damaged.

mod background;
mod backup;
mod batch;
mod body;
mod derived;
mod entry;
mod fault;
mod index;
mod indexable;
mod log;
mod maintenance;
mod mount;
mod open;
mod path;
mod place;
mod preamble;
mod readers;
mod reference;
mod renew;
mod request;
mod schema;
mod seal;
mod search;
mod session;
mod spending;
mod stamp;
mod sweep;
mod transaction;
mod transfer;
mod tree;
mod verify;
mod write_connection;
mod writer;

use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use longhand_core::Seq;
use longhand_core::{Handle, Link};

use self::entry::{ReadyAddition, ReadyEntry};
use self::fault::Fault;
use self::place::Place;
use self::readers::Readers;
use self::sweep::Left;
use self::transfer::ReadyRecord;
use self::writer::Writer;
use crate::{
    Addition, After, Appended, Archive, ArchiveError, Damage, Entry, Found, Head, Hit, Listing,
    LoggedBatch, NewBatch, NewEntry, NewSession, Node, Owner, Page, PreambleId, Record, Reference,
    Request, Reserved, Scope, SessionId, SessionInfo, Wish,
};

/// An archive in a file, which processes may share.
///
/// Calls that arrive while another one waits for the disk go into the next transaction together.
/// Readers have connections of their own and wait for nobody.
#[derive(Debug)]
pub struct SqliteArchive {
    path: PathBuf,
    wait_max: Duration,
    readers: Readers,
    writer: Writer,
}

/// What is left of removed sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unwiped {
    /// Nothing is left.
    Nothing,
    /// This log may have texts of theirs: a program is reading it.
    Log(PathBuf),
    /// Texts of theirs are in the file: another program keeps it locked.
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

impl SqliteArchive {
    /// Opens the archive at `path`; creates it, and the folders above, if there is nothing.
    ///
    /// An address such as `postgres://…` is refused: only files are supported.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ArchiveError> {
        Self::open_with(path, &SqliteSettings::default())
    }

    /// Opens the archive at `path` with other than the usual settings.
    pub fn open_with(
        path: impl AsRef<Path>,
        settings: &SqliteSettings,
    ) -> Result<Self, ArchiveError> {
        let path = path.as_ref().to_owned();
        let connection = open::open(&path, settings)?;
        let wait_max = settings.wait_max;
        let place = Arc::new(Place::of(&path, &connection));
        // A log may have come between looking for one and opening it.
        place.check()?;
        let readers = Readers::new(path.clone(), Arc::clone(&place), wait_max);
        let writer = Writer::start(&path, place, connection, wait_max)?;
        Ok(Self { path, wait_max, readers, writer })
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.path
    }

    /// Makes the search index anew, in the background; until it is done, searches take longer.
    pub fn reindex(&self) -> Result<(), ArchiveError> {
        self.writer.write(index::reset)
    }

    /// Wipes what removed sessions left in the file and in its log. Others can write meanwhile.
    ///
    /// Gives up after `wait_max` without progress and says what is left; whoever uses the archive next goes on with it.
    pub fn wipe(&self, wait_max: Duration) -> Result<Unwiped, ArchiveError> {
        Ok(match self.writer.wipe(wait_max)? {
            Left::Nothing => Unwiped::Nothing,
            Left::Log => Unwiped::Log(place::log_of(&self.path)),
            Left::Content => Unwiped::Content,
        })
    }

    /// Writes a copy of the archive as it is now to a new file, and checks the copy. Others can write meanwhile.
    ///
    /// `progress` is told how many pages were copied, and of how many. Gives [`ArchiveError::Exists`] if there is
    /// something at `target`; it appears there when it is complete.
    pub fn backup(
        &self,
        target: impl AsRef<Path>,
        progress: impl FnMut(u64, u64),
    ) -> Result<(), ArchiveError> {
        self.readers.check()?;
        backup::backup(&self.path, target.as_ref(), self.wait_max, progress)
    }

    fn read<T>(
        &self,
        action: impl FnOnce(&rusqlite::Connection) -> Result<T, Fault>,
    ) -> Result<T, ArchiveError> {
        self.readers.read(action).inspect_err(|error| {
            if matches!(error, ArchiveError::Moved { .. }) {
                self.writer.rescue();
            }
        })
    }
}

impl Archive for SqliteArchive {
    fn begin(&self, id: SessionId, session: &NewSession) -> Result<(), ArchiveError> {
        // Most sessions are there, and looking costs no sync.
        if self.read(|db| session::is_begun(db, id, session.owner))? {
            return Ok(());
        }
        let session = session.clone();
        self.writer.write(move |db| session::begin(db, id, &session))
    }

    fn append(
        &self,
        id: SessionId,
        after: After,
        entries: &[NewEntry],
    ) -> Result<Appended, ArchiveError> {
        let entries: Vec<ReadyEntry> = entries.iter().map(ReadyEntry::new).collect();
        self.writer
            .write(move |db| entry::append(db, &mut session::require(db, id)?, after, &entries))
    }

    fn append_all(
        &self,
        additions: &[Addition],
    ) -> Result<Vec<Result<Appended, ArchiveError>>, ArchiveError> {
        let additions: Vec<ReadyAddition> = additions.iter().map(ReadyAddition::new).collect();
        let outcomes = self.writer.write(move |db| entry::make_all(db, &additions))?;
        let archive = self.path.display().to_string();
        let named = |fault: Fault| fault.into_error(&archive, self.wait_max);
        Ok(outcomes.into_iter().map(|outcome| outcome.map_err(named)).collect())
    }

    fn commit(&self, id: SessionId, batch: &NewBatch) -> Result<u64, ArchiveError> {
        let batch = batch.clone();
        self.writer.write(move |db| batch::commit(db, &mut session::require(db, id)?, &batch))
    }

    fn undo(&self, id: SessionId, head: Option<Seq>) -> Result<Option<LoggedBatch>, ArchiveError> {
        self.writer.write(move |db| batch::undo(db, id, head))
    }

    fn live(&self, id: SessionId, head: Option<Seq>) -> Result<Vec<LoggedBatch>, ArchiveError> {
        self.read(|db| batch::live(db, id, head))
    }

    fn head(&self, id: SessionId) -> Result<Option<Head>, ArchiveError> {
        self.read(|db| session::head(db, id))
    }

    fn session(&self, id: SessionId) -> Result<Option<SessionInfo>, ArchiveError> {
        self.read(|db| session::info(db, id))
    }

    fn find_path(&self, owner: Owner, links: &[Link]) -> Result<Option<Found>, ArchiveError> {
        self.read(|db| path::find(db, owner, links))
    }

    fn path(
        &self,
        id: SessionId,
        head: Option<Seq>,
        seqs: Range<u64>,
    ) -> Result<Vec<Entry>, ArchiveError> {
        self.read(|db| entry::path(db, id, head, seqs))
    }

    fn entries(&self, id: SessionId, seqs: Range<u64>) -> Result<Vec<Entry>, ArchiveError> {
        self.read(|db| entry::entries(db, id, seqs))
    }

    fn tree(&self, id: SessionId) -> Result<Vec<Node>, ArchiveError> {
        self.read(|db| tree::all(db, id))
    }

    fn batches(&self, id: SessionId, page: Page) -> Result<Listing<LoggedBatch>, ArchiveError> {
        self.read(|db| batch::batches(db, id, page))
    }

    fn sessions(
        &self,
        owner: Option<Owner>,
        page: Page,
    ) -> Result<Listing<SessionInfo>, ArchiveError> {
        self.read(|db| session::sessions(db, owner, page))
    }

    fn search(&self, scope: &Scope, query: &str, limit: usize) -> Result<Vec<Hit>, ArchiveError> {
        search::search(self, scope, query, limit)
    }

    fn pin(&self, id: SessionId, entry: Seq, pinned: bool) -> Result<(), ArchiveError> {
        self.writer.write(move |db| session::pin(db, id, entry, pinned))
    }

    fn reference(&self, scope: &Scope, handle: Handle) -> Result<Option<Reference>, ArchiveError> {
        self.read(|db| reference::find(db, scope, handle))
    }

    fn keep_preamble(&self, owner: Owner, content: &str) -> Result<PreambleId, ArchiveError> {
        let id = PreambleId::of(content);
        // Most preambles are there, and looking costs no sync. A damaged one is written anew.
        let known = self.preamble(owner, id);
        if known.is_ok_and(|known| known.is_some()) {
            return Ok(id);
        }
        let content = content.to_owned();
        self.writer.write(move |db| preamble::keep(db, owner, &content))
    }

    fn preamble(&self, owner: Owner, id: PreambleId) -> Result<Option<String>, ArchiveError> {
        self.read(|db| preamble::find(db, owner, id))
    }

    fn log_request(&self, id: SessionId, request: &Request) -> Result<(), ArchiveError> {
        let request = request.clone();
        self.writer.write(move |db| {
            let mut session = session::require(db, id)?;
            request::RequestLog::new(db)?.add(&mut session, &request)?;
            session::save(db, &session)
        })
    }

    fn requests(&self, id: SessionId, page: Page) -> Result<Listing<Request>, ArchiveError> {
        self.read(|db| request::requests(db, id, page))
    }

    fn answer(
        &self,
        owner: Owner,
        answer: &str,
    ) -> Result<Option<(SessionId, Request)>, ArchiveError> {
        self.read(|db| request::answer(db, owner, answer))
    }

    fn put_derived(&self, id: SessionId, key: &str, value: &str) -> Result<(), ArchiveError> {
        let (key, value) = (key.to_owned(), value.to_owned());
        self.writer.write(move |db| derived::put(db, id, &key, &value))
    }

    fn derived(&self, id: SessionId, key: &str) -> Result<Option<String>, ArchiveError> {
        self.read(|db| derived::find(db, id, key))
    }

    fn export(
        &self,
        id: SessionId,
        take: &mut dyn FnMut(Record) -> ControlFlow<()>,
    ) -> Result<bool, ArchiveError> {
        self.read(|db| transfer::export(db, id, take))
    }

    fn restore(&self, id: SessionId, records: &[Record]) -> Result<(), ArchiveError> {
        let records: Vec<ReadyRecord> = records.iter().map(ReadyRecord::new).collect();
        self.writer.write(move |db| transfer::restore(db, id, &records))
    }

    fn derived_keys(&self, id: SessionId, prefix: &str) -> Result<Vec<String>, ArchiveError> {
        self.read(|db| derived::keys(db, id, prefix))
    }

    fn reserve(&self, wish: &Wish) -> Result<Reserved, ArchiveError> {
        let wish = *wish;
        self.writer.write(move |db| spending::reserve(db, &wish))
    }

    fn settle(&self, reservation: u64, micros: u64) -> Result<(), ArchiveError> {
        self.writer.write(move |db| spending::settle(db, reservation, micros))
    }

    fn verify(&self, session: Option<SessionId>) -> Result<Vec<Damage>, ArchiveError> {
        self.readers.check()?;
        verify::verify(&self.path, self.wait_max, session)
    }

    /// The session is gone at once; its content is wiped from the file in the background, and
    /// closing the archive waits for that.
    fn remove(&self, id: SessionId) -> Result<bool, ArchiveError> {
        self.writer.write(move |db| session::remove(db, id))
    }
}
