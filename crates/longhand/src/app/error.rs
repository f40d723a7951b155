//! Why the application layer could not do what was asked.

use longhand_archive::ArchiveError;
use longhand_dialect::DialectError;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{FoundBy, LAST, SessionSummary, short_id};
use crate::SessionError;
use crate::agent_files::shell_word;
use crate::transfer::TransferError;

const HINT_LIST: &str = "`longhand ls` lists the sessions";
const HINT_LAST: &str =
    "@last is for reading; to change or remove a session, give its name: `longhand ls` lists them";
const HINT_WHOLE: &str = "give the whole name, or the id beside it";

/// Why something could not be done.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AppError {
    /// No session has this name.
    #[error(
        "there is no session {name:?}{}",
        listed("; a name is exact here, and these begin so", near)
    )]
    UnknownSession {
        /// The name that was given.
        name: String,
        /// Sessions whose name or id begins so, where a beginning is not enough.
        near: Vec<SessionSummary>,
        /// Whether there is any session at all.
        has_others: bool,
    },
    /// Several sessions could be meant.
    #[error("{} sessions {}{}", candidates.len(), meant(name, *by), listed("", candidates))]
    AmbiguousName {
        /// The name that was given.
        name: String,
        /// Whether they are called so, or begin so.
        by: FoundBy,
        /// The sessions.
        candidates: Vec<SessionSummary>,
    },
    /// Only the proxy adds to this session.
    #[error("session {:?} belongs to a key of the proxy", session.name)]
    ForeignOwner {
        /// The session.
        session: Box<SessionSummary>,
    },
    /// No session can have this name.
    #[error("a session cannot be called {name:?}")]
    BadName {
        /// The name.
        name: String,
    },
    /// A new session would have the name of one that is there.
    #[error("session {name:?} exists already")]
    NameTaken {
        /// The name.
        name: String,
        /// Whether messages can be added to that session.
        can_append: bool,
    },
    /// An export has sessions of another owner.
    #[error("the export has a session of another owner")]
    ForeignExport,
    /// The session has no such entry.
    #[error("session {session} has entries 0 to {}", entries.saturating_sub(1))]
    NoSuchEntry {
        /// The session as it was named.
        session: String,
        /// How many entries it has.
        entries: u64,
    },
    /// The session has no such request.
    #[error("session {session} has {requests} requests, numbered from 1")]
    NoSuchRequest {
        /// The session.
        session: String,
        /// How many requests its log has.
        requests: u64,
    },
    /// A batch that is to be undone is not the newest that is live.
    #[error(
        "batch {batch} is not the newest live one{}",
        newest.map(|newest| format!(", which is {newest}")).unwrap_or_default()
    )]
    OtherBatch {
        /// The batch that was named.
        batch: u64,
        /// The newest live one, if there is any.
        newest: Option<u64>,
    },
    /// A search without words.
    #[error("there is nothing to search for")]
    EmptyQuery,
    /// What was searched for is no regular expression.
    #[error("this is no regular expression: {0}")]
    BadRegex(String),
    /// The text is not a place in a list.
    #[error("{0:?} is not a page of this list")]
    BadPage(String),
    /// The text is not a handle.
    #[error("{0:?} is not a handle")]
    BadHandle(String),
    /// Nothing has this handle.
    #[error("the archive has nothing with the handle {0}")]
    UnknownHandle(String),
    /// An answer that could not be read was not kept.
    #[error(
        "this answer was not kept: it is no text, in which secrets could be found and taken out"
    )]
    NotKept,
    /// A round was asked for, and the handle stands for one text.
    #[error("this handle stands for a single text, which has no rounds")]
    NoRounds,
    /// The fold does not have this round.
    #[error("round {round} is not in this fold")]
    NoSuchRound {
        /// The round.
        round: u64,
        /// The first round that it has.
        first: u64,
        /// The last one.
        last: u64,
    },
    /// An import has nothing in it.
    #[error("there is nothing in it to import")]
    NothingToImport,
    /// An import has no name, and none was given.
    #[error("name the session with --id")]
    NoName,
    /// An import is too large.
    #[error("it has more than {max} bytes, the most that is read")]
    TooLarge {
        /// The most bytes.
        max: u64,
    },
    /// An import is no text.
    #[error("it is not UTF-8")]
    NotText,
    /// A round of an imported state cannot be read.
    #[error("window[{index}]: {error}")]
    BadStateRound {
        /// Its place, from 0.
        index: usize,
        /// What is wrong with it.
        error: SessionError,
    },
    /// An export or an import failed.
    #[error(transparent)]
    Transfer(TransferError),
    /// A session could not do it.
    #[error(transparent)]
    Session(SessionError),
    /// The archive failed.
    #[error(transparent)]
    Archive(ArchiveError),
    /// Something could not be read or written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// An error for other programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ErrorReport {
    /// What kind of error it is, such as `unknown_session`.
    pub error: String,
    /// What happened.
    pub message: String,
    /// What to do about it, where that is known.
    pub hint: Option<String>,
    /// The sessions that may have been meant.
    pub candidates: Vec<SessionSummary>,
}

impl AppError {
    /// What to do about it, where that is known.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::UnknownSession { near, .. } if !near.is_empty() => HINT_WHOLE,
            Self::UnknownSession { name, has_others: true, .. } if name == LAST => HINT_LAST,
            Self::UnknownSession { .. } => HINT_LIST,
            Self::AmbiguousName { by: FoundBy::Beginning, .. } => HINT_WHOLE,
            Self::AmbiguousName { .. } => "give the id of the one that is meant",
            Self::ForeignOwner { .. } => {
                "only the proxy adds to it; another name begins a session of your own"
            }
            Self::BadName { .. } => {
                "a name is exact where something is written; `longhand ls` lists the sessions"
            }
            Self::NameTaken { can_append: true, .. } => "--append adds to it; --id names another",
            Self::NameTaken { .. } => "give another name; `longhand ls` lists those that are taken",
            Self::ForeignExport => "its messages alone can be added to a session of your own",
            Self::NoSuchEntry { session, .. } => {
                return Some(format!(
                    "`longhand search WORDS --session {}` shows entries by number",
                    shell_word(session)
                ));
            }
            Self::OtherBatch { .. } => "see what was done since, and name the newest batch",
            Self::EmptyQuery => {
                "give words, or a filter such as --session, --project, --role or --since"
            }
            Self::BadRegex(_) => "without --regex, the words are searched for as they are",
            Self::BadPage(_) => "give what the page before it has as `next`",
            Self::BadHandle(_) => "a handle is `h:` and twelve letters and digits",
            Self::UnknownHandle(_) => {
                "--archive names another archive, --from the file that was shortened"
            }
            Self::NotKept => "`longhand log` has its time and its size",
            Self::NoRounds => "leave out --round",
            Self::NoSuchRound { first, last, .. } => {
                return Some(format!("it has rounds {first} to {last}"));
            }
            Self::TooLarge { .. } => "--max-input 4g raises the limit",
            Self::Transfer(error) => return transfer_hint(error).map(str::to_owned),
            _ => return None,
        };
        Some(hint.to_owned())
    }

    /// The sessions that may have been meant.
    pub fn candidates(&self) -> &[SessionSummary] {
        match self {
            Self::UnknownSession { near: sessions, .. }
            | Self::AmbiguousName { candidates: sessions, .. } => sessions,
            Self::ForeignOwner { session } => std::slice::from_ref(session),
            _ => &[],
        }
    }

    /// What happened, without the sessions that may have been meant.
    pub fn summary(&self) -> String {
        match self {
            Self::UnknownSession { name, near, .. } if !near.is_empty() => {
                format!("there is no session {name:?}; a name is exact here, and these begin so")
            }
            Self::AmbiguousName { name, by, candidates } => {
                format!("{} sessions {}", candidates.len(), meant(name, *by))
            }
            other => other.to_string(),
        }
    }

    /// The kind of error, for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::UnknownSession { .. } => "unknown_session",
            Self::AmbiguousName { .. } => "ambiguous_name",
            Self::ForeignOwner { .. } | Self::ForeignExport => "foreign_owner",
            Self::BadName { .. } | Self::NoName => "bad_name",
            Self::NameTaken { .. } => "name_taken",
            Self::NoSuchEntry { .. } => "no_such_entry",
            Self::NoSuchRequest { .. } => "no_such_request",
            Self::OtherBatch { .. } => "other_batch",
            Self::EmptyQuery => "empty_query",
            Self::BadRegex(_) => "bad_regex",
            Self::BadPage(_) => "bad_page",
            Self::BadHandle(_) => "bad_handle",
            Self::UnknownHandle(_) => "unknown_handle",
            Self::NotKept => "not_kept",
            Self::NoRounds | Self::NoSuchRound { .. } => "no_such_round",
            Self::NothingToImport
            | Self::TooLarge { .. }
            | Self::NotText
            | Self::BadStateRound { .. } => "bad_import",
            Self::Transfer(_) => "transfer",
            Self::Session(_) => "session",
            Self::Archive(_) => "archive",
            Self::Io(_) => "io",
        }
    }

    /// The error for other programs.
    pub fn report(&self) -> ErrorReport {
        ErrorReport {
            error: self.kind().to_owned(),
            message: self.summary(),
            hint: self.hint(),
            candidates: self.candidates().to_vec(),
        }
    }

    /// What the archive says, if it is the cause.
    pub fn archive_error(&self) -> Option<&ArchiveError> {
        match self {
            Self::Archive(error)
            | Self::Session(SessionError::Archive(error))
            | Self::Transfer(TransferError::Archive(error)) => Some(error),
            _ => None,
        }
    }
}

impl From<ArchiveError> for AppError {
    fn from(error: ArchiveError) -> Self {
        Self::Archive(error)
    }
}

impl From<SessionError> for AppError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Archive(error) => Self::Archive(error),
            error => Self::Session(error),
        }
    }
}

impl From<TransferError> for AppError {
    fn from(error: TransferError) -> Self {
        match error {
            TransferError::Archive(error) => Self::Archive(error),
            TransferError::Io(error) => Self::Io(error),
            error => Self::Transfer(error),
        }
    }
}

impl From<DialectError> for AppError {
    fn from(error: DialectError) -> Self {
        Self::Session(error.into())
    }
}

fn transfer_hint(error: &TransferError) -> Option<&'static str> {
    Some(match error {
        TransferError::Differs { .. } => {
            "--id names the copy otherwise; --append adds its messages to the end"
        }
        TransferError::Cut { .. } | TransferError::Changed(_) => {
            "nothing was imported; was the export broken off? write it again"
        }
        TransferError::OtherVersion { .. } => "a later release of longhand can read it",
        TransferError::LongLine { .. } => "--max-input 4g raises the limit",
        _ => return None,
    })
}

fn meant(name: &str, by: FoundBy) -> String {
    match by {
        FoundBy::Beginning => format!("begin with {name:?}"),
        FoundBy::Whole | FoundBy::Newest => format!("are called {name:?}"),
    }
}

fn listed(before: &str, sessions: &[SessionSummary]) -> String {
    if sessions.is_empty() {
        return String::new();
    }
    let one = |session: &SessionSummary| format!("{:?} ({})", session.name, short_id(&session.id));
    format!("{before}: {}", sessions.iter().map(one).collect::<Vec<_>>().join(", "))
}
