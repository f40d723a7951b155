//! An archive in one SQLite file.
//!
//! Entries, batches and originals are the truth and are covered by checksums. The search index is
//! derived: it lags behind by a bounded number of entries, and is made anew when it is damaged.

mod batch;
mod caretaker;
mod chores;
mod desk;
mod entry;
mod fault;
mod index;
mod mount;
mod open;
mod original;
mod readers;
mod schema;
mod seal;
mod search;
mod session;
mod sweep;
mod transaction;
mod verify;
mod writer;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use longhand_core::Handle;

use self::entry::ReadyEntry;
use self::fault::Fault;
use self::readers::Readers;
use self::writer::Writer;
use crate::{
    Addition, Appended, Archive, ArchiveError, Batch, Damage, Entry, Head, Hit, NewBatch, NewEntry,
    Original, SessionInfo,
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
        let readers = Readers::new(path.clone(), wait_max);
        let writer = Writer::start(path.clone(), connection, wait_max)?;
        Ok(Self { path, wait_max, readers, writer })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the search index anew, in the background; until it is done, searches take longer.
    pub fn reindex(&self) -> Result<(), ArchiveError> {
        self.writer.write(index::reset)
    }

    fn read<T>(
        &self,
        action: impl FnOnce(&rusqlite::Connection) -> Result<T, Fault>,
    ) -> Result<T, ArchiveError> {
        self.readers.read(action)
    }
}

impl Archive for SqliteArchive {
    fn append(&self, session: &str, entries: &[NewEntry]) -> Result<Appended, ArchiveError> {
        let session = session.to_owned();
        let entries: Vec<ReadyEntry> = entries.iter().map(ReadyEntry::new).collect();
        self.writer.write(move |db| entry::append(db, &session, &entries))
    }

    fn append_at(&self, additions: &[Addition]) -> Result<usize, ArchiveError> {
        let ready: Vec<(String, u64, Vec<ReadyEntry>)> = additions
            .iter()
            .map(|Addition { session, first, entries }| {
                (session.clone(), *first, entries.iter().map(ReadyEntry::new).collect())
            })
            .collect();
        self.writer.write(move |db| {
            for (made, (session, first, entries)) in ready.iter().enumerate() {
                if !entry::append_at(db, session, *first, entries)? {
                    return Ok(made);
                }
            }
            Ok(ready.len())
        })
    }

    fn commit(&self, session: &str, batch: &NewBatch) -> Result<u64, ArchiveError> {
        let (session, batch) = (session.to_owned(), batch.clone());
        self.writer.write(move |db| batch::commit(db, &session, &batch))
    }

    fn undo(&self, session: &str) -> Result<Option<Batch>, ArchiveError> {
        let session = session.to_owned();
        self.writer.write(move |db| batch::undo(db, &session))
    }

    fn head(&self, session: &str) -> Result<Option<Head>, ArchiveError> {
        self.read(|db| session::head(db, session))
    }

    fn entries(&self, session: &str, seqs: Range<u64>) -> Result<Vec<Entry>, ArchiveError> {
        self.read(|db| entry::entries(db, session, seqs))
    }

    fn batches(&self, session: &str) -> Result<Vec<Batch>, ArchiveError> {
        self.read(|db| batch::batches(db, session))
    }

    fn sessions(&self) -> Result<Vec<SessionInfo>, ArchiveError> {
        self.read(session::sessions)
    }

    fn search(
        &self,
        session: Option<&str>,
        query: &str,
        limit: usize,
    ) -> Result<Vec<Hit>, ArchiveError> {
        search::search(self, session, query, limit)
    }

    fn pin(&self, session: &str, seq: u64, pinned: bool) -> Result<(), ArchiveError> {
        let session = session.to_owned();
        self.writer.write(move |db| session::pin(db, &session, seq, pinned))
    }

    fn keep(&self, originals: &[(Handle, Original)]) -> Result<(), ArchiveError> {
        let originals = originals.to_vec();
        self.writer.write(move |db| original::keep(db, &originals))
    }

    fn expand(&self, handle: Handle) -> Result<Option<Original>, ArchiveError> {
        self.read(|db| original::expand(db, handle))
    }

    fn expand_in(&self, session: &str, handle: Handle) -> Result<Option<Original>, ArchiveError> {
        self.read(|db| original::expand_in(db, session, handle))
    }

    fn verify(&self, session: Option<&str>) -> Result<Vec<Damage>, ArchiveError> {
        verify::verify(&self.path, self.wait_max, session)
    }

    /// The session is gone at once; its content is wiped from the file in the background, and
    /// closing the archive waits for that.
    fn remove(&self, session: &str) -> Result<bool, ArchiveError> {
        let session = session.to_owned();
        self.writer.write(move |db| session::remove(db, &session))
    }
}
