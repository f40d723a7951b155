//! What `verify` finds.

use std::fmt;

use longhand_core::cut;

use crate::SessionId;

/// Something in an archive that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The session it is in; `None` if it concerns the archive as a whole.
    pub session: Option<SessionId>,
    /// The damaged thing.
    pub part: DamagedPart,
    /// What is wrong with it.
    pub detail: String,
}

/// A thing that can be damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DamagedPart {
    /// The structure of the file.
    File,
    /// The session's own record.
    Session,
    /// The entry with this number.
    Entry(u64),
    /// The batch with this number.
    Batch(u64),
    /// The list of undone batches.
    Undos,
    /// The list of pins.
    Pins,
    /// What this handle stands for.
    Reference(String),
    /// The line of the request log with this number, from 1.
    Request(u64),
    /// The sums of its requests.
    Usage,
    /// The note with this number, from 1.
    Note(u64),
    /// A preamble.
    Preamble(String),
    /// What was derived from the session under this key, and can be derived again.
    Derived(String),
    /// The search index, which can be rebuilt from the entries.
    Index,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(session) = &self.session {
            write!(f, "session {session}: ")?;
        }
        write!(f, "{} {}", self.part, self.detail)
    }
}

impl fmt::Display for DamagedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DamagedPart::File => f.write_str("the file"),
            DamagedPart::Session => f.write_str("its record"),
            DamagedPart::Entry(seq) => write!(f, "entry {seq}"),
            DamagedPart::Batch(number) => write!(f, "batch {number}"),
            DamagedPart::Undos => f.write_str("its list of undone batches"),
            DamagedPart::Pins => f.write_str("its list of pins"),
            DamagedPart::Reference(handle) => write!(f, "reference {handle}"),
            DamagedPart::Request(number) => write!(f, "request {number}"),
            DamagedPart::Usage => f.write_str("the sums of its requests"),
            DamagedPart::Note(number) => write!(f, "note {number}"),
            DamagedPart::Preamble(id) => write!(f, "preamble {id}"),
            DamagedPart::Derived(key) => write!(f, "derived data {:?}", shortened(key)),
            DamagedPart::Index => f.write_str("the search index"),
        }
    }
}

const SHOWN_BYTES_MAX: usize = 60;

fn shortened(key: &str) -> &str {
    cut::head(key, SHOWN_BYTES_MAX)
}
