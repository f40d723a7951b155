//! A session record by record, on its way from one archive to another.

use longhand_core::Seq;

use crate::{Entry, NewBatch, NewSession, Note, RequestRecord};

/// One thing that an archive keeps of a session.
///
/// All records of a session are the session: an archive that they are restored to gives the same again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The session itself; the first record.
    Session(NewSession),
    /// An entry.
    Entry {
        /// The entry.
        entry: Entry,
        /// What search sees of it.
        text: String,
    },
    /// A batch of the log, live or not.
    Batch {
        /// Its number in the log, from 1.
        number: u64,
        /// The batch.
        batch: NewBatch,
    },
    /// A batch was undone, by its number.
    Undo(u64),
    /// The pinned entries, in order; there are some.
    Pins(Vec<Seq>),
    /// A system prompt with tools that requests of the session name.
    Preamble(String),
    /// A line of the request log.
    Request(RequestRecord),
    /// Something that is noted beside a request.
    Note(Note),
    /// Something that was derived from the session.
    Derived {
        /// What it is called.
        key: String,
        /// What was derived.
        value: String,
    },
}
