//! What `verify` finds.

use std::fmt;

use crate::error::shown;

/// Something in an archive that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The session it is in; `None` if it concerns the file as a whole.
    pub session: Option<String>,
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
    /// The entry in this place.
    Entry(u64),
    /// The batch with this number.
    Batch(u64),
    /// The list of pins.
    Pins,
    /// The original with this handle.
    Original(String),
    /// The search index, which can be made anew from the entries.
    Index,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(session) = &self.session {
            write!(f, "session {}: ", shown(session))?;
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
            DamagedPart::Pins => f.write_str("its list of pins"),
            DamagedPart::Original(handle) => write!(f, "original {handle}"),
            DamagedPart::Index => f.write_str("the search index"),
        }
    }
}
