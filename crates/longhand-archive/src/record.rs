//! What an archive takes in and gives back.

use longhand_core::{Batch, Fold, Handle, Link, Meaning, Original, Place, Regretted, Seq};

use crate::{Owner, PreambleId, SessionId, SessionUsage};

/// A session that is about to begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewSession {
    /// Whose it is.
    pub owner: Owner,
    /// The wire format that it is spoken in.
    pub dialect: String,
    /// What people call it.
    pub name: String,
    /// The session it goes on from: in another dialect, or after a client's own compaction.
    pub continues: Option<SessionId>,
    /// A hash of what the client calls the conversation: its side calls and sub-agents have the same.
    pub group: Option<u64>,
    /// When it begins, in milliseconds since 1970.
    pub begun_ms: i64,
    /// Where it comes from.
    pub origin: Origin,
    /// The user's first words, if they are known; see [`crate::Write::opening`].
    pub opening: String,
}

/// Where a session comes from, as far as that is known; what is not known is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The folder that the agent worked in.
    pub project: String,
    /// The agent that it was spoken with.
    pub agent: String,
    /// The file that it was imported from.
    pub file: String,
    /// How many bytes of that file were imported; see [`crate::Write::imported`].
    pub offset: u64,
}

/// One message on its way into a ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEntry {
    /// What it says; entries with the same past and the same meaning are the same entry.
    pub meaning: Meaning,
    /// Whether a round begins with it. An entry without a parent is always in round 0.
    pub opens_round: bool,
    /// What `raw` is: the name of a dialect, `trace`, `call` or `note`.
    pub form: String,
    /// The message as received.
    pub raw: String,
    /// What search sees of it.
    pub text: String,
    /// When it was recorded, in milliseconds since 1970; kept as given, never used for order.
    pub at_ms: i64,
    /// When it was said, if its source tells: the client, or the file that it was imported from.
    pub source_ms: Option<i64>,
}

/// One message in a ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number in the session, in the order of arrival.
    pub seq: Seq,
    /// The entry it follows; `None` if a conversation begins with it.
    pub parent: Option<Seq>,
    /// The hash of what it and everything before it mean.
    pub link: Link,
    /// The round it belongs to, from 0.
    pub round: u64,
    /// What `raw` is.
    pub form: String,
    /// The message as received.
    pub raw: String,
    /// When it was recorded, in milliseconds since 1970.
    pub at_ms: i64,
    /// When it was said, if its source tells.
    pub source_ms: Option<i64>,
}

impl Entry {
    /// When it was said, in milliseconds since 1970: as its source tells, or when it was recorded.
    pub fn said_ms(&self) -> i64 {
        self.source_ms.unwrap_or(self.at_ms)
    }
}

/// Where entries are appended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum After {
    /// After the entry that was appended last. Equal words said twice are two entries.
    #[default]
    Newest,
    /// After this entry, or at the beginning of a conversation. What is there already is found again.
    Entry(Option<Seq>),
}

/// Where appended entries ended up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Appended {
    /// The numbers of all entries given, new or found again.
    pub seqs: Vec<Seq>,
    /// How many were new; these are the last ones.
    pub new: u64,
    /// The round of the first one; without entries, of the one they would follow.
    pub round: u64,
}

/// A batch of edits on its way into the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewBatch {
    /// The newest live batch on its path, which it builds on; 0 if there is none.
    pub after: u64,
    /// When it was made, in milliseconds since 1970.
    pub at_ms: i64,
    /// The edits, and the path they were made for.
    pub batch: Batch,
    /// What was done, why and at what cost; kept as given.
    pub receipt: String,
}

/// A batch of edits in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedBatch {
    /// Its number in the session's log, from 1.
    pub number: u64,
    /// The batch it builds on; 0 if there is none.
    pub after: u64,
    /// When it was made, in milliseconds since 1970.
    pub at_ms: i64,
    /// The edits, and the path they were made for.
    pub batch: Batch,
    /// What was done, why and at what cost.
    pub receipt: String,
    /// Whether neither it nor a batch that it builds on was undone.
    pub is_live: bool,
}

/// Where a session stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// How many entries it has, on all paths.
    pub entries: u64,
    /// How many rounds the newest path has.
    pub rounds: u64,
    /// The entry appended last. The path to it is the newest path.
    pub head: Option<Seq>,
    /// How many batches its log has, undone ones too.
    pub batches: u64,
    /// How often a batch was undone.
    pub undos: u64,
    /// How many bytes its messages have.
    pub bytes: u64,
    /// The time of its first entry.
    pub first_ms: i64,
    /// The time of its newest entry.
    pub last_ms: i64,
    /// Its pinned entries, in order.
    pub pins: Vec<Seq>,
}

/// A session at a glance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionInfo {
    /// Its id.
    pub id: SessionId,
    /// Whose it is.
    pub owner: Owner,
    /// The wire format that it is spoken in.
    pub dialect: String,
    /// What people call it.
    pub name: String,
    /// The session it goes on from.
    pub continues: Option<SessionId>,
    /// A hash of what the client calls the conversation.
    pub group: Option<u64>,
    /// When it began, in milliseconds since 1970.
    pub begun_ms: i64,
    /// Where it comes from.
    pub origin: Origin,
    /// The user's first words; empty if they are not known.
    pub opening: String,
    /// What its requests took.
    pub usage: SessionUsage,
    /// How many entries it has, on all paths.
    pub entries: u64,
    /// How many rounds the newest path has.
    pub rounds: u64,
    /// How many batches its log has, undone ones too.
    pub batches: u64,
    /// How many bytes its messages have.
    pub bytes: u64,
    /// The time of its first entry.
    pub first_ms: i64,
    /// The time of its newest entry.
    pub last_ms: i64,
    /// Grows with every entry of any session: which of two was spoken in last.
    pub activity: u64,
    /// Whether this very record failed its checksum, so that nothing in it is certain; `verify` tells more.
    pub is_damaged: bool,
}

/// The longest known beginning of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownPath {
    /// The session that has it.
    pub session: SessionId,
    /// The last entry that is known.
    pub seq: Seq,
    /// How many links are known.
    pub known: usize,
}

/// What a search or a handle may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All sessions of all owners.
    All,
    /// All sessions of one owner.
    Owner(Owner),
    /// One session.
    Session(SessionId),
    /// One path of a session.
    Path {
        /// The session.
        session: SessionId,
        /// The path's last entry; `None` for the newest path.
        head: Option<Seq>,
    },
}

/// An entry that fits a query, with how well it does.
#[derive(Clone, Debug, PartialEq)]
pub struct RankedHit {
    /// The session it is in.
    pub session: SessionId,
    /// The entry.
    pub entry: Entry,
    /// What search sees of it.
    pub text: String,
    /// The words around the best passage, on one line.
    pub snippet: String,
    /// How well it fits; of one search, the first hit has the highest.
    pub score: f32,
    /// How many entries say the same, with itself, as far as they were read.
    pub repeats: u64,
}

/// The entries that fit a query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RankedFound {
    /// The entries, best first.
    pub hits: Vec<RankedHit>,
    /// Whether some entries were not looked at: the index is still being made, or too many were not accepted.
    pub is_partial: bool,
}

/// An entry that a search found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hit {
    /// The session it is in.
    pub session: SessionId,
    /// Its number in the session.
    pub seq: Seq,
    /// Its round.
    pub round: u64,
    /// The words around the first match, on one line.
    pub snippet: String,
}

/// What a search has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The entries, newest first.
    pub hits: Vec<Hit>,
    /// Whether some entries were not looked at: the index is still being made, or knows nothing about the query.
    pub is_partial: bool,
}

/// What a handle stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// A part of an entry.
    Part {
        /// The session of the entry.
        session: SessionId,
        /// The part.
        place: Place,
    },
    /// The entries that a batch folded.
    Fold {
        /// The session of the batch.
        session: SessionId,
        /// The batch's number.
        batch: u64,
        /// Its fold.
        fold: Fold,
    },
    /// A form of a part that the entry has otherwise.
    Variant {
        /// The session of the batch that has it.
        session: SessionId,
        /// The content.
        original: Original,
    },
}

impl Reference {
    /// The session that has it.
    pub fn session(&self) -> SessionId {
        match self {
            Self::Part { session, .. }
            | Self::Fold { session, .. }
            | Self::Variant { session, .. } => *session,
        }
    }
}

/// A line of the request log; all of it is kept as given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestRecord {
    /// When it was sent, in milliseconds since 1970.
    pub at_ms: i64,
    /// Its system prompt and tools.
    pub preamble: Option<PreambleId>,
    /// The last entry of the path it was made from.
    pub head: Option<Seq>,
    /// The newest live batch on that path; 0 for none.
    pub batch: u64,
    /// The model asked.
    pub model: String,
    /// The program that asked, as far as it is known.
    pub agent: String,
    /// The most tokens that a request could have; 0 if there was no limit.
    pub limit: u64,
    /// Tokens that the conversation has without edits, by our own count.
    pub before: u64,
    /// Tokens of the window by the same count.
    pub window: u64,
    /// Tokens that were sent, as the provider counts them.
    pub sent: u64,
    /// Tokens that the provider read from its cache.
    pub cached: u64,
    /// Tokens of the answer.
    pub output: u64,
    /// The price in millionths of a dollar, if it is known.
    pub cost_micros: Option<u64>,
    /// How many edits its window had.
    pub edits: u64,
    /// What the provider calls the answer, if requests can go on from it by that name.
    pub answer: Option<String>,
    /// Whether the answer broke off.
    pub is_cut: bool,
    /// Whether it was a side call: a title, or another question about what was said.
    pub is_aside: bool,
    /// Whether it was passed on as it was because our side failed.
    pub is_bypassed: bool,
}

/// Something that is noted beside a request; all of it is kept as given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// When that request was sent, in milliseconds since 1970.
    pub at_ms: i64,
    /// What opens it, or what it is about.
    pub handle: Handle,
    /// What is noted.
    pub content: NoteContent,
}

/// What a [`Note`] says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoteContent {
    /// An answer that could not be read, which the handle opens.
    Unread(String),
    /// The model needed what the handle stands for, which a batch had taken out of its sight.
    Regret(RegretNote),
}

/// How an edit was regretted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegretNote {
    /// The batch's number.
    pub batch: u64,
    /// How that was noticed.
    pub how: Regretted,
    /// The entry that brought back what was hidden; `None` if that was not noted.
    pub by: Option<Seq>,
    /// What that cost, in tokens.
    pub tokens: u64,
    /// Whether the same edit had been regretted before.
    pub again: bool,
}

impl NewSession {
    /// Whether two records are of the same session: all but its name and what is learned of it later.
    pub fn is_same(&self, other: &Self) -> bool {
        let begun = |session: &Self| {
            let origin = Origin { offset: 0, ..session.origin.clone() };
            Self { origin, name: String::new(), opening: String::new(), ..session.clone() }
        };
        begun(self) == begun(other)
    }
}

impl SessionInfo {
    /// The session as it would begin with what is known of it now.
    pub fn as_new(&self) -> NewSession {
        let Self { owner, continues, group, begun_ms, .. } = *self;
        NewSession {
            owner,
            dialect: self.dialect.clone(),
            name: self.name.clone(),
            continues,
            group,
            begun_ms,
            origin: self.origin.clone(),
            opening: self.opening.clone(),
        }
    }
}
