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
//! **Waiting.** Every function waits for the archive. In an asynchronous program, [`App::ask`] runs them on a thread of their own.
//!
//! **Times** are [`Timestamp`]: milliseconds in Rust, `2026-11-15T19:29:00.000Z` in JSON.

mod asks;
mod context_map;
mod copy;
mod error;
mod expand;
mod export;
mod export_as;
mod findings;
pub mod for_models;
mod forks;
mod html;
mod import;
mod import_files;
mod inspect;
mod kin;
mod list;
mod log;
mod lookup;
mod manage;
mod messages;
pub(crate) mod past;
mod payoff;
mod prompt_parts;
mod prune;
mod record;
mod regret;
mod requests;
mod resume;
mod resume_command;
pub(crate) mod search;
mod seen_window;
mod timestamp;
mod usage;
mod watch;
mod window_page;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread;

use longhand_archive::{Archive, Owner, SessionId};
use longhand_core::Seq;
use tokio::sync::oneshot;

pub use self::context_map::{ContextMap, MapKind, MapPart};
pub use self::copy::{CopyProgress, CopyReport, UncopiedSession};
pub use self::error::{AppError, ErrorReport};
pub use self::expand::{ExpandRequest, Expanded};
pub use self::export::{ExportReport, SessionState, StateRound, StateToolCall};
pub use self::export_as::{ExportAsRequest, ExportForm, ExportedAs};
pub use self::findings::{Finding, FindingKind, FindingList, FindingWeight};
pub use self::forks::Fork;
pub use self::import::{
    ImportFile, ImportOutcome, ImportReport, ImportRequest, ImportSource, ImportedSession,
};
pub use self::import_files::{FileImport, FileOutcome};
pub use self::inspect::{NewestRequest, SessionView, ViewSettings, WindowMap};
pub use self::list::{ListRequest, ListedSession, SessionPage, SessionSummary, short_id};
pub use self::log::{LogLine, LogPage, LoggedEdits, UnreadLine};
pub use self::lookup::{Access, FoundBy, FoundSession, LAST, check_new_name};
pub use self::manage::{
    ArchiveHealth, DamageLine, Pin, PinList, PinReport, RemoveReport, RenameReport, UndoReport,
    VerifyReport,
};
pub use self::messages::{
    FoldRange, MessagePage, MessageRequest, PartState, SeenMessage, SeenPart,
};
pub use self::payoff::{BatchPayoff, PayoffPage};
pub use self::prune::{IdleConversation, PrunePlan, PruneRequest, PrunedConversation};
pub use self::record::{RecordReport, WindowReport};
pub use self::regret::{LoggedRegret, RegretReport, RegretSums, RegrettedEdit};
pub use self::requests::{CacheBreak, RequestLine, RequestPage};
pub use self::resume::{QueryFit, ResumableSession, ResumeReport, ResumeRequest};
pub use self::resume_command::ResumeCommand;
pub use self::search::{ContextEntry, FoundEntries, FoundEntry, SearchRequest};
pub use self::timestamp::Timestamp;
pub use self::usage::{ConversationCost, Cost, UsageBy, UsageReport, UsageRequest, UsageRow};
pub use self::watch::{Change, ChangeKind, Changes, Watch};
pub use self::window_page::{RowKind, RowState, WindowBatch, WindowPage, WindowRequest, WindowRow};

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
    /// One conversation, by the id that the client's program gave it; by the name of a session as well.
    Client(String),
    /// One path of a session, and the sessions that it continues.
    Path {
        /// The session.
        session: SessionId,
        /// The path's last entry; `None` for all of the session.
        head: Option<Seq>,
    },
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

    /// Asks on a thread of its own, for whoever must not block one, such as a task of an asynchronous runtime.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use longhand::MemoryArchive;
    /// use longhand::app::{App, AppError, ListRequest};
    ///
    /// async fn count(app: &App) -> Result<usize, AppError> {
    ///     app.ask(|app| Ok(app.sessions(&ListRequest::default())?.items.len())).await
    /// }
    /// let app = App::new(Arc::new(MemoryArchive::default()));
    /// assert_eq!(longhand_archive::wait(count(&app)).unwrap(), 0);
    /// ```
    pub async fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&App) -> Result<T, AppError> + Send + 'static,
    ) -> Result<T, AppError> {
        let (reply, answer) = oneshot::channel();
        let app = self.clone();
        let work = move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| ask(&app)));
            let _ = reply.send(outcome);
        };
        thread::Builder::new().name("longhand-app".to_owned()).spawn(work)?;
        match answer.await {
            Ok(Ok(answer)) => answer,
            // It is the caller's panic.
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => Err(io::Error::other("the thread that was asked has ended").into()),
        }
    }

    /// The archive that is asked.
    pub fn archive(&self) -> &Arc<dyn Archive> {
        &self.archive
    }
}
