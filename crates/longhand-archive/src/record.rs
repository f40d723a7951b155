//! What an archive takes in and gives back.

use std::ops::Range;

use longhand_core::Handle;

/// One message on its way into a ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEntry {
    /// Whether a round begins with it. The first entry of a session always opens round 0.
    pub opens_round: bool,
    /// The wire format of `raw`.
    pub form: String,
    /// The message as received.
    pub raw: String,
    /// What search sees of it.
    pub text: String,
    /// When it was said, in milliseconds since 1970; kept as given, never used for order.
    pub at_ms: i64,
}

/// One message in a ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its place in the session, from 0.
    pub seq: u64,
    /// The round it belongs to, from 0.
    pub round: u64,
    /// The wire format of `raw`.
    pub form: String,
    /// The message as received.
    pub raw: String,
    /// When it was said, in milliseconds since 1970.
    pub at_ms: i64,
}

/// Where appended entries ended up; other writers may have come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The place of the first of them.
    pub first: u64,
    /// The round of the first of them.
    pub round: u64,
}

/// Entries on their way to a certain place of a ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addition {
    /// The session.
    pub session: String,
    /// How many entries it has before.
    pub first: u64,
    /// What comes then.
    pub entries: Vec<NewEntry>,
}

/// A batch of edits on its way into the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewBatch {
    /// The newest live batch that it builds on; 0 if there is none.
    pub after: u64,
    /// When it was made, in milliseconds since 1970.
    pub at_ms: i64,
    /// The entries it folds.
    pub entries: Range<u64>,
    /// The block that stands in their place.
    pub text: String,
    /// What was done, why and at what cost; kept as given.
    pub receipt: String,
}

/// A batch of edits in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Its place in the session's log, from 1.
    pub number: u64,
    /// The batch it builds on; 0 if there is none.
    pub after: u64,
    /// When it was made, in milliseconds since 1970.
    pub at_ms: i64,
    /// The entries it folds.
    pub entries: Range<u64>,
    /// The block that stands in their place.
    pub text: String,
    /// What was done, why and at what cost.
    pub receipt: String,
    /// Whether it was taken back.
    pub undone: bool,
}

/// The address of what a batch folds: committing the batch keeps the entries under it.
pub fn fold_handle(session: &str, entries: &Range<u64>) -> Handle {
    let range = format!("\0{}..{}", entries.start, entries.end);
    Handle::of([session, range.as_str()])
}

/// Where a session stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// How many entries it has.
    pub entries: u64,
    /// How many rounds it has.
    pub rounds: u64,
    /// Its newest live batch.
    pub batch: Option<Batch>,
    /// Whether the newest batch of its log was taken back.
    pub undone: bool,
    /// Its pinned entries, in order.
    pub pins: Vec<u64>,
}

/// A session at a glance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionInfo {
    /// Its id; whatever is still legible of it if it is damaged.
    pub id: String,
    /// How many entries it has.
    pub entries: u64,
    /// How many rounds it has.
    pub rounds: u64,
    /// How many batches its log has, undone ones too.
    pub batches: u64,
    /// How many bytes its messages have.
    pub bytes: u64,
    /// The time of its first entry.
    pub first_ms: i64,
    /// The time of its newest entry.
    pub last_ms: i64,
    /// Whether this very record failed its checksum; `verify` tells more.
    pub damaged: bool,
}

/// An entry that a search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The session it is in.
    pub session: String,
    /// Its place in the session.
    pub seq: u64,
    /// Its round.
    pub round: u64,
    /// The words around the first match, on one line.
    pub snippet: String,
}

/// Content that an edit took out of sight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Original {
    /// The session it belongs to, with which it is removed.
    pub session: Option<String>,
    /// What kind of text it is.
    pub form: Form,
    /// The content, or where it is.
    pub content: Content,
}

/// What kind of text an original is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Plain text.
    Text,
    /// JSON as it was received.
    Json,
}

/// The content of an original.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// The text itself.
    Text(String),
    /// Entries of its session, which hold the text already: a fold.
    Entries(Range<u64>),
}
