//! The durable home of ledgers.
//!
//! [`Archive`] is the one interface. [`SqliteArchive`] keeps a file that survives crashes and may be
//! shared by processes; [`MemoryArchive`] behaves the same and forgets.
//!
//! A session's ledger is a tree of entries, numbered in the order of arrival. Forks and rewinds are
//! other paths of the same tree and copy nothing. What edits a window is a batch in the session's log,
//! which names entries by number; what a handle stands for is a reference to an entry, never a copy.
//!
//! ```
//! use longhand_archive::{After, Archive, NewEntry, NewSession, Owner, Scope, SessionId, SqliteArchive};
//! use longhand_core::Meaning;
//!
//! let folder = tempfile::tempdir()?;
//! let archive = SqliteArchive::open(folder.path().join("archive.db"))?;
//! let session = SessionId::named(Owner::LOCAL, "work");
//! archive.begin(session, &NewSession { name: "work".to_owned(), ..NewSession::default() })?;
//! let said = "Deploy with `make ship`.";
//! archive.append(session, After::Newest, &[NewEntry {
//!     meaning: Meaning::of_content(said),
//!     opens_round: true,
//!     form: "text".to_owned(),
//!     raw: said.to_owned(),
//!     text: said.to_owned(),
//!     at_ms: 0,
//!     source_ms: None,
//! }])?;
//! assert_eq!(archive.search(&Scope::All, "make ship", 10)?[0].snippet, said);
//! assert!(archive.verify(None)?.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod archive;
mod codec;
mod damage;
mod error;
mod excerpt;
mod id;
mod layer;
mod ledger;
mod memory;
mod number;
mod pack;
mod page;
#[cfg(feature = "postgres")]
mod postgres;
mod record;
mod role;
mod seal;
mod spending;
mod sqlite;
mod storage;
mod transfer;
mod usage;
mod wait;

pub use archive::append::append_to;
pub use archive::{Archive, ask};
pub use damage::{Damage, DamagedPart};
pub use error::{ArchiveError, Cause, Conflict};
pub use id::{Owner, ParseIdError, PreambleId, SessionId};
pub use layer::Layer;
pub use ledger::{Ledger, Undecided, attempts, outrun, unsound};
pub use longhand_core::Regretted;
pub use longhand_core::session::{Node, Version};
pub use longhand_recall::{Strictness, readable, snippet};
pub use memory::MemoryArchive;
pub use page::{Cursor, Listing, Page};
#[cfg(feature = "postgres")]
pub use postgres::{PostgresArchive, PostgresSettings, ServerError, is_postgres, shown_address};
pub use record::{
    After, Appended, Entry, Found, Head, Hit, KnownPath, LoggedBatch, NewBatch, NewEntry,
    NewSession, Note, NoteContent, Origin, RankedFound, RankedHit, Reference, RegretNote,
    RequestRecord, Scope, SessionInfo,
};
pub use spending::{Reserved, Wish};
pub use sqlite::{FileError, Migrated, MigrationSettings, SqliteArchive, SqliteSettings, Unwiped};
pub use storage::{
    Answer, BatchRecord, BestEntries, BestQuery, Candidate, Candidates, EntryRecord, FoldStates,
    Key, NoteFilter, Opened, Referenced, RequestFilter, ScoredEntry, SearchFilter, SearchQuery,
    SearchScope, SearchStatistics, SessionFilter, Storage, Upkeep, Vocabulary, VocabularyQuery,
    Write,
};
pub use transfer::Record;
pub use usage::{EditSums, EditedSums, RequestSums, SessionUsage, UsageLine};
pub use wait::wait;
