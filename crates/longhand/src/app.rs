//! What a person or a program asks of an archive: sessions, search, what a window shows, usage, pins, undo, exports.
//!
//! [`App`] is one small handle over an [`Archive`]. Its functions take names and plain requests, decide all that is to be
//! decided, and return owned structs with public fields that serialise by `serde`. The command prints them (its `--json`
//! is exactly these structs); a console, an MCP server and bindings for other languages return the same ones.
//!
//! ```
//! use std::sync::Arc;
//! use longhand::app::{App, ListRequest, SearchRequest};
//! use longhand::{MemoryArchive, Round, Session};
//!
//! let archive = Arc::new(MemoryArchive::default());
//! let mut session = Session::open(archive.clone(), "demo")?;
//! session.record(&Round::new("Where is the config?", "In etc/app.toml.", 0))?;
//!
//! let app = App::new(archive);
//! let listed = app.sessions(&ListRequest::default())?;
//! assert_eq!(listed.items[0].task, "Where is the config?");
//! let found = app.search(&SearchRequest::of("config"))?;
//! assert_eq!((found[0].session.as_str(), found[0].entry), ("demo", 0));
//! let json = serde_json::to_string(&app.show("demo", &Default::default())?)?;
//! assert!(json.contains(r#""verbatim":[0,1]"#));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Names.** Where something is written or removed, a name is exact: a misspelt one must not reach another conversation.
//! Where something is only read, a beginning is enough if one session alone has it, and `@last` is the newest one
//! ([`App::find`]). Every function that takes a session takes its name, its id or its [`short_id`].
//!
//! **Errors** are one type, [`AppError`]: what happened, the sessions that were meant perhaps, and a hint.
//!
//! **Times** are [`Timestamp`]: milliseconds in Rust, `2026-11-15T19:29:00.000Z` in JSON.

mod asks;
mod error;
mod expand;
mod export;
mod forks;
mod import;
mod import_files;
mod inspect;
mod kin;
mod list;
mod log;
mod lookup;
mod manage;
mod record;
mod search;
mod timestamp;
mod usage;

use std::sync::Arc;

use longhand_archive::{Archive, Owner};

pub use self::error::{AppError, ErrorReport};
pub use self::expand::{ExpandRequest, Expanded};
pub use self::export::{ExportReport, SessionState, StateRound, StateToolCall};
pub use self::forks::Fork;
pub use self::import::{
    ImportFile, ImportOutcome, ImportReport, ImportRequest, ImportSource, ImportedSession,
};
pub use self::import_files::{FileImport, FileOutcome};
pub use self::inspect::{NewestRequest, SessionView, ViewSettings, WindowMap};
pub use self::list::{ListRequest, ListedSession, SessionPage, SessionSummary, short_id};
pub use self::log::{LogLine, LoggedEdits, UnreadLine};
pub use self::lookup::{Access, FoundBy, FoundSession, LAST, check_new_name};
pub use self::manage::{
    ArchiveHealth, DamageLine, PinReport, RemoveReport, RenameReport, UndoReport, VerifyReport,
};
pub use self::record::{RecordReport, WindowReport};
pub use self::search::{ContextEntry, FoundEntries, FoundEntry, SearchRequest};
pub use self::timestamp::Timestamp;
pub use self::usage::{ConversationCost, Cost, UsageBy, UsageReport, UsageRequest, UsageRow};

/// What one can ask of an archive.
#[derive(Clone)]
pub struct App {
    archive: Arc<dyn Archive>,
    /// Whose sessions it sees; `None` for all.
    owner: Option<Owner>,
    /// Which of these it sees.
    reach: Reach,
}

/// Which sessions an [`App`] sees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// All of them.
    #[default]
    All,
    /// Those of a project: a folder, or the end of its path.
    Project(String),
    /// One conversation, by the name or id of one of its sessions.
    Session(String),
}

impl App {
    /// Sees all sessions: whoever can open an archive may read all of it.
    pub fn new(archive: Arc<dyn Archive>) -> Self {
        Self { archive, owner: None, reach: Reach::All }
    }

    /// Sees the sessions of one owner alone, for a server that answers several.
    pub fn of_owner(archive: Arc<dyn Archive>, owner: Owner) -> Self {
        Self { archive, owner: Some(owner), reach: Reach::All }
    }

    /// Sees no other sessions than these: nothing else is listed, found or opened.
    #[must_use]
    pub fn within(self, reach: Reach) -> Self {
        Self { reach, ..self }
    }

    /// The archive that is asked.
    pub fn archive(&self) -> &Arc<dyn Archive> {
        &self.archive
    }
}
