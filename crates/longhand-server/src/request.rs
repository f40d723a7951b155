//! The way of a request to a conversation, one file for each step.
//!
//! | step | what comes of it | touches |
//! |---|---|---|
//! | `collect` | `CollectedBody`: the bytes and their text | the connection |
//! | `parse` | `ParsedRequest`: the conversation, read and chained | nothing: it only computes |
//! | `history` | the same, with the history that the provider holds before it | the archive |
//! | `admit` | `AdmittedRequest`: it has its place in a session | the session and the archive |
//! | `prepare` | `PreparedRequest`: with the window that is sent for it | see below |
//! | `send` | `AnsweredRequest`: with the head of its answer | the upstream |
//! | `respond` | the response that the client gets | nothing |
//!
//! Sessions, windows and what is written of them are the driver's (`longhand::driver`); what it writes goes to the
//! `Store`, and `Workers` compute for it.

pub(crate) mod admit;
pub(crate) mod collect;
pub(crate) mod commit;
pub(crate) mod compaction;
pub(crate) mod history;
pub(crate) mod maker;
pub(crate) mod parse;
pub(crate) mod pass;
pub(crate) mod prepare;
pub(crate) mod respond;
pub(crate) mod sealed;
pub(crate) mod send;
pub(crate) mod source;
pub(crate) mod window;

use std::sync::Arc;

use longhand::driver::{Purpose, WindowError};
use longhand_archive::ArchiveError;
use longhand_dialect::{Dialect, DialectError};
use longhand_meter::MeterError;

use crate::client::ClientProgram;
use crate::load::MemoryShare;
use crate::metrics::Bypass;
use crate::route::Caller;

/// What is known of a request before its body is read.
#[derive(Clone)]
pub(crate) struct RequestContext {
    /// The format of the conversation.
    pub(crate) dialect: Dialect,
    pub(crate) recording: Recording,
    /// Whether it is sent as it is.
    pub(crate) as_is: bool,
    /// Whether it is left out of the archive.
    pub(crate) forgets: bool,
    pub(crate) caller: Caller,
    pub(crate) client: ClientProgram,
    /// The memory that it takes.
    pub(crate) share: Arc<MemoryShare>,
    /// Whether the upstream knows the options by which a client has its provider shorten conversations.
    pub(crate) upstream_knows_options: bool,
}

/// What is done with the messages of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recording {
    /// They are archived.
    Archived,
    /// They are only counted.
    Counted,
    /// They are answered and not archived: too much waits for an archive that fails.
    Untaken,
}

impl Recording {
    /// What a request is for.
    pub(crate) fn purpose(self, is_aside: bool) -> Purpose {
        match (self, is_aside) {
            (Self::Counted, _) => Purpose::Count,
            (Self::Untaken, _) => Purpose::Untaken,
            (Self::Archived, true) => Purpose::Aside,
            (Self::Archived, false) => Purpose::Turn,
        }
    }
}

impl RequestContext {
    /// Whether messages are lost for the archive if the request is passed on as it is.
    pub(crate) fn is_lost_unread(&self) -> bool {
        self.recording != Recording::Counted && !self.forgets
    }
}

/// Why no window can be made for a request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PrepareError {
    #[error(transparent)]
    Dialect(#[from] DialectError),
    #[error(transparent)]
    Meter(#[from] MeterError),
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    #[error("the request has no messages")]
    Empty,
    #[error("the session belongs to another owner")]
    NotTheOwner,
    #[error("the request has more messages than there is memory for")]
    TooCostly,
    #[error("the session was renumbered meanwhile")]
    Renumbered,
    #[error("other requests of the session have other tools")]
    Tools {
        /// Whether the recall tool is one of them.
        offers_recall: bool,
    },
}

impl From<WindowError> for PrepareError {
    fn from(error: WindowError) -> Self {
        match error {
            WindowError::Dialect(error) => Self::Dialect(error),
            WindowError::Archive(error) => Self::Archive(error),
            WindowError::Renumbered => Self::Renumbered,
        }
    }
}

impl From<PrepareError> for Bypass {
    fn from(error: PrepareError) -> Self {
        match error {
            PrepareError::TooCostly => Bypass::TooLarge,
            PrepareError::NotTheOwner => Bypass::NotTheOwner,
            PrepareError::Renumbered | PrepareError::Tools { .. } | PrepareError::Archive(_) => {
                Bypass::Late
            }
            PrepareError::Dialect(_) | PrepareError::Meter(_) | PrepareError::Empty => {
                Bypass::Unreadable
            }
        }
    }
}
