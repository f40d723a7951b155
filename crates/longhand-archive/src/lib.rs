//! The durable home of ledgers.
//!
//! [`Archive`] is the one interface. [`SqliteArchive`] keeps a file that survives crashes and may be
//! shared by processes; [`MemoryArchive`] behaves the same and forgets.
//!
//! ```
//! use longhand_archive::{Archive, NewEntry, SqliteArchive};
//!
//! let folder = tempfile::tempdir()?;
//! let archive = SqliteArchive::open(folder.path().join("archive.db"))?;
//! let said = "Deploy with `make ship`.";
//! archive.append("work", &[NewEntry {
//!     opens_round: true,
//!     form: "text".to_owned(),
//!     raw: said.to_owned(),
//!     text: said.to_owned(),
//!     at_ms: 0,
//! }])?;
//! assert_eq!(archive.search(None, "make ship", 10)?[0].snippet, said);
//! assert!(archive.verify(None)?.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod archive;
mod damage;
mod error;
mod excerpt;
mod memory;
mod query;
mod record;
mod sqlite;
mod words;

pub use archive::Archive;
pub use damage::{Damage, DamagedPart};
pub use error::ArchiveError;
pub use memory::MemoryArchive;
pub use record::{
    Addition, Appended, Batch, Content, Entry, Form, Head, Hit, NewBatch, NewEntry, Original,
    SessionInfo, fold_handle,
};
pub use sqlite::{SqliteArchive, SqliteSettings};
