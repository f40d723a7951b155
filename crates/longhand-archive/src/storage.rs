//! The seam to wherever ledgers are stored.
//!
//! Storage keeps records and bodies, and answers look-ups. It decides nothing but whether a session still
//! has the version that a write expects: no method takes the head of a path or says what is live. These
//! rules are in [`longhand_core::session`], and [`crate::Archive`] offers them over any storage.

use std::borrow::Cow;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

use longhand_core::session::{BatchLine, News, Node, Version};
use longhand_core::{Batch, Handle, Link, Role, Seq};
use longhand_recall::{KnownTerm, Ranker, SoughtTerms, Strictness, Totals, readable};

use crate::page::{Cursor, Listing, Page};
use crate::{
    ArchiveError, Damage, Entry, Hit, KnownPath, LoggedBatch, NewSession, Note, Owner, PreambleId,
    RequestRecord, SessionId, SessionInfo, UsageLine, role,
};

/// What a call of [`Storage`] comes to. It needs no runtime: [`crate::wait`] waits for it, too.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, ArchiveError>> + Send + 'a>>;

/// Where ledgers are stored.
///
/// Nothing blocks the thread that calls: what takes time is done elsewhere, and the answer comes when it is
/// done. Whoever drops an answer does not wait for it; a write may be made all the same. A write waits for
/// others no longer than the storage is set up for, and fails with [`ArchiveError::Busy`] then. What was
/// acknowledged stays, through crash, kill and power cut.
///
/// Looking into a session that is unknown gives nothing.
pub trait Storage: Send + Sync {
    /// Makes many writes in one transaction and returns what became of each: the version that the session has
    /// now, or [`ArchiveError::Conflict`] if it had another one than was expected.
    ///
    /// One that is refused or meets a damaged session fails alone, and nothing of it is written. The outer error
    /// means that none was made. Each session is written to once.
    fn write(&self, writes: Vec<Write>) -> Answer<'_, Vec<Result<Version, ArchiveError>>>;

    /// Returns a session with what it has got since a version; since the default version, that is all of it.
    ///
    /// All of it comes, too, if the version is of another session that had the same id.
    fn open(&self, id: SessionId, since: Version) -> Answer<'_, Option<Opened>>;

    /// Returns entries without what they say, in the order of the ranges, each checked. They must be there.
    fn nodes(&self, id: SessionId, seqs: Vec<Range<u64>>) -> Answer<'_, Vec<Node>>;

    /// Returns entries, in the order of the ranges, each checked. They must be there.
    fn bodies(&self, id: SessionId, seqs: Vec<Range<u64>>) -> Answer<'_, Vec<EntryRecord>>;

    /// Returns batches by number, in that order, each checked, with some of the states of their folds. They must be
    /// there.
    fn read_batches(
        &self,
        id: SessionId,
        numbers: Vec<u64>,
        states: FoldStates,
    ) -> Answer<'_, Vec<BatchRecord>>;

    /// Finds entries of an owner by the links of a conversation: those with the last link that is known, or with one
    /// of the seven links before it. Sessions that are damaged are passed over.
    ///
    /// None of the links is silent. Whoever has a link has all before it.
    fn links(&self, owner: Owner, links: Vec<Link>) -> Answer<'_, Vec<KnownPath>>;

    /// Returns the batches that had a handle first in each session, the oldest session first.
    fn references(&self, handle: Handle) -> Answer<'_, Vec<Referenced>>;

    /// Finds entries that have all of a query, newest first.
    fn candidates(&self, wanted: SearchQuery) -> Answer<'_, Candidates>;

    /// Returns which of the terms that are sought there are, and how much there is to be found.
    fn vocabulary(&self, wanted: VocabularyQuery) -> Answer<'_, Vocabulary>;

    /// Returns the entries with the highest scores among those on the ranker's walks, best first; of equal ones, the newest
    /// first. What counts is decided by the ranker alone.
    fn best(&self, wanted: BestQuery) -> Answer<'_, BestEntries>;

    /// Returns sessions; those that an entry was appended to last come first. One that is damaged comes with what is
    /// legible.
    fn list_sessions(&self, of: SessionFilter, page: Page) -> Answer<'_, Listing<SessionInfo>>;

    /// Returns the owners that have sessions, in order.
    fn owners(&self) -> Answer<'_, Vec<Owner>>;

    /// Returns lines of request logs, newest first.
    fn list_requests(
        &self,
        of: RequestFilter,
        page: Page,
    ) -> Answer<'_, Listing<(SessionId, RequestRecord)>>;

    /// Returns what requests took since the day of a time, by session, day and model; in no order.
    fn usage(&self, since_ms: i64) -> Answer<'_, Vec<UsageLine>>;

    /// Returns what is noted beside requests, each checked, with the session that it belongs to: in the order in which it
    /// was noted, the oldest session first.
    fn notes(&self, of: NoteFilter) -> Answer<'_, Vec<(SessionId, Note)>>;

    /// Returns values by their keys; `None` for one that is not there, or must be derived again.
    fn get(&self, keys: Vec<Key>) -> Answer<'_, Vec<Option<String>>>;

    /// Returns the keys that begin with a prefix and that a session has values under, in their order.
    fn keys(&self, id: SessionId, prefix: String) -> Answer<'_, Vec<String>>;

    /// Puts a value under a key if the one that is there is as expected; returns whether it was.
    fn put(&self, key: Key, expected: Option<String>, value: String) -> Answer<'_, bool>;

    /// Removes a session with all that belongs to it; returns whether there was one.
    ///
    /// Bodies and preambles that another session of the owner uses stay.
    fn erase(&self, id: SessionId) -> Answer<'_, bool>;

    /// Checks everything, or one session, and returns what is damaged.
    fn check(&self, session: Option<SessionId>) -> Answer<'_, Vec<Damage>>;

    /// Does what keeps it fast and clean, as far as that is due; returns whether nothing is left to do.
    fn maintain(&self, upkeep: Upkeep) -> Answer<'_, bool>;

    /// Whether several nodes serve the same sessions from it: then what one of them has in memory is checked before it is
    /// used.
    fn is_shared(&self) -> bool {
        false
    }
}

/// What is written to one session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Write {
    /// The session.
    pub session: SessionId,
    /// Begins the session; then the version that is expected is the default.
    pub begin: Option<NewSession>,
    /// The version that the session must have. Without one, only what follows from no version can be written:
    /// preambles, requests, notes, derived values, a name, and what lists show.
    pub expected: Option<Version>,
    /// Entries, numbered from the version's on.
    pub entries: Vec<EntryRecord>,
    /// Batches, numbered from the version's on.
    pub batches: Vec<BatchRecord>,
    /// Batches that are undone, by number.
    pub undos: Vec<u64>,
    /// All pinned entries, in order, in the place of those that are there.
    pub pins: Option<Vec<Seq>>,
    /// System prompts with tools, to be kept for the owner.
    pub preambles: Vec<String>,
    /// Lines for the request log.
    pub requests: Vec<RequestRecord>,
    /// What is noted beside requests.
    pub notes: Vec<Note>,
    /// Values under keys, in the place of those that are there.
    pub derived: Vec<(String, String)>,
    /// The user's first words, which lists show. Kept unless the session has some.
    pub opening: Option<String>,
    /// How many bytes of the file that the session comes from are in it by now.
    pub imported: Option<u64>,
    /// What people call the session from now on.
    pub name: Option<String>,
}

/// An entry with what search sees of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryRecord {
    /// The entry.
    pub entry: Entry,
    /// What search sees of it, as it is stored: see [`EntryRecord::searched`].
    pub text: String,
}

impl EntryRecord {
    /// What is compared with a query, and shown of a hit.
    pub fn searched(&self) -> Cow<'_, str> {
        readable(&self.text)
    }
}

/// A batch as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchRecord {
    /// What tells whether it is live on a path.
    pub line: BatchLine,
    /// When it was made, in milliseconds since 1970.
    pub at_ms: i64,
    /// The edits, and the path they were made for.
    pub batch: Batch,
    /// What was done, why and at what cost.
    pub receipt: String,
}

/// Which states of folds come with batches: they are long, and only the newest one of a path is ever used. Those that
/// do not come are empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoldStates {
    /// All of them.
    All,
    /// That of the last batch asked for that has one.
    Last,
    /// None of them.
    None,
}

/// A session as storage has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Who it is, and how much it has.
    pub session: SessionInfo,
    /// What it has got since the version that was asked for.
    pub news: News,
    /// The newest of its new entries, where asking for them later would take another round trip.
    pub nodes: Vec<Node>,
    /// How many lines its request log has.
    pub requests: u64,
}

/// A batch that has a handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Referenced {
    /// The session of the batch.
    pub session: SessionId,
    /// Its owner.
    pub owner: Owner,
    /// The batch's number.
    pub batch: u64,
}

/// What a search looks for, and from where on.
#[derive(Clone, Debug)]
pub struct SearchQuery {
    /// The words.
    pub query: String,
    /// Whether the words may stand inside other words.
    pub strictness: Strictness,
    /// Where they are looked for.
    pub within: SearchScope,
    /// Which entries are wanted.
    pub filter: SearchFilter,
    /// The `next` of the answer before.
    pub after: Option<Cursor>,
    /// The most hits.
    pub limit: usize,
}

/// Where a search looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SearchScope {
    /// In all sessions of all owners.
    All,
    /// In all sessions of an owner.
    Owner(Owner),
    /// In some sessions.
    Sessions(Vec<SessionId>),
}

/// Which terms a vocabulary is asked for.
#[derive(Clone, Debug)]
pub struct VocabularyQuery {
    /// Where entries must have the terms.
    pub within: SearchScope,
    /// The terms.
    pub sought: Vec<SoughtTerms>,
}

/// What a vocabulary has.
///
/// Of a few sessions, their entries count; otherwise those of all sessions of all owners, since counting is too slow there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vocabulary {
    /// The terms, for each of those that were sought, in order.
    pub terms: Vec<Vec<KnownTerm>>,
    /// How much there is to be found.
    pub totals: Totals,
}

/// In so many sessions it is counted how many entries have a term.
const COUNTED_SESSIONS_MAX: usize = 16;

impl SearchScope {
    /// The sessions whose entries count in a [`Vocabulary`]; `None` if all do.
    pub(crate) fn counted_sessions(&self) -> Option<&[SessionId]> {
        match self {
            Self::Sessions(sessions) if sessions.len() <= COUNTED_SESSIONS_MAX => Some(sessions),
            _ => None,
        }
    }
}

/// Which entries are the best.
#[derive(Clone, Debug)]
pub struct BestQuery {
    /// Says how well an entry fits.
    pub ranker: Arc<Ranker>,
    /// Where they are looked for.
    pub within: SearchScope,
    /// Which entries are wanted.
    pub filter: SearchFilter,
    /// The most entries.
    pub limit: usize,
}

/// The best entries.
#[derive(Clone, Debug, Default)]
pub struct BestEntries {
    /// The entries, best first.
    pub entries: Vec<ScoredEntry>,
    /// Whether some entries were not looked at, because the index is still being made.
    pub is_partial: bool,
    /// An entry that could not be read.
    pub damage: Option<Damage>,
}

/// An entry with its score.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoredEntry {
    /// Its session.
    pub session: SessionId,
    /// The entry.
    pub record: EntryRecord,
    /// How well it fits.
    pub score: f32,
}

/// Which entries a search is to find.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchFilter {
    /// Only messages that may be of this role. Storage does not read messages: some that it finds have another one.
    pub role: Option<Role>,
    /// Only what was said since then, in milliseconds since 1970: see [`Entry::said_ms`].
    pub since_ms: Option<i64>,
    /// Only what was said before, in milliseconds since 1970.
    pub before_ms: Option<i64>,
}

/// What a search has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidates {
    /// The entries, newest first.
    pub hits: Vec<Candidate>,
    /// What tells how much each word of the query says.
    pub statistics: SearchStatistics,
    /// Whether some entries were not compared, because the index is still being made or knows nothing about the query.
    pub is_partial: bool,
    /// Where the search goes on; `None` if it has seen everything.
    pub next: Option<Cursor>,
    /// An entry that could not be read.
    pub damage: Option<Damage>,
}

/// An entry that was found, with what tells how well it fits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidate {
    /// The entry.
    pub hit: Hit,
    /// How often it has each of the words in [`SearchStatistics::words`].
    pub frequencies: Vec<u64>,
    /// How many words it has.
    pub length: u64,
}

/// What there is of the words of a query, in all sessions of all owners. Entries that are not in the index yet do not
/// count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchStatistics {
    /// The distinct words of the query, in order.
    pub words: Vec<String>,
    /// How many entries have each of the words.
    pub entries_with: Vec<u64>,
    /// How many entries there are.
    pub entries: u64,
    /// How many words they have.
    pub length: u64,
}

impl SearchFilter {
    /// Whether an entry is wanted.
    pub(crate) fn accepts(&self, entry: &Entry) -> bool {
        self.accepts_parts(&entry.form, &entry.raw, entry.said_ms())
    }

    /// The same of an entry's parts.
    pub(crate) fn accepts_parts(&self, form: &str, raw: &str, said_ms: i64) -> bool {
        self.since_ms.is_none_or(|since| said_ms >= since)
            && self.before_ms.is_none_or(|before| said_ms < before)
            && self.role.is_none_or(|asked| role::may_have(form, raw, asked))
    }
}

/// Which sessions are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionFilter {
    /// All of all owners.
    All,
    /// Those of an owner.
    Owner(Owner),
    /// One, if it is there.
    Session(SessionId),
    /// Those of all owners that have a name.
    Named(String),
    /// Those of all owners whose names begin so.
    NamePrefix(String),
    /// Those whose ids begin with these hexadecimal digits.
    IdPrefix(String),
    /// Those of one conversation of a client; see [`NewSession::group`].
    Group(u64),
    /// Those that continue a session.
    Continuing(SessionId),
}

/// Which lines of request logs are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestFilter {
    /// Those of a session.
    Session(SessionId),
    /// Those of an owner's sessions whose answer the provider calls so.
    Answer(Owner, String),
}

/// Which notes are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteFilter {
    /// Those of a session.
    Session(SessionId),
    /// Those of all sessions that have a handle.
    Handle(Handle),
}

/// Under what a value is kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// A system prompt with tools that an owner has kept.
    Preamble(Owner, PreambleId),
    /// Something that was derived from a session.
    Derived(SessionId, String),
    /// Something that all share.
    Shared(String),
}

/// What is to be done for a storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upkeep {
    /// Makes the search index anew, in the background; until it is done, searches take longer.
    Reindex,
    /// Brings the search index up to date and waits for it.
    Index,
    /// Wipes what removed sessions left. Gives up after a while without progress.
    Wipe,
}

impl FoldStates {
    /// Whether the state of a batch is wanted, of which it is said whether a later batch with a state was asked for.
    pub(crate) fn include(self, is_last: bool) -> bool {
        match self {
            Self::All => true,
            Self::Last => is_last,
            Self::None => false,
        }
    }
}

impl BatchRecord {
    /// The batch as a line of the log.
    pub fn logged(self, number: u64, is_live: bool) -> LoggedBatch {
        let Self { line, at_ms, batch, receipt } = self;
        LoggedBatch { number, after: line.after, at_ms, batch, receipt, is_live }
    }
}

impl Write {
    /// A write to a session that must have a version.
    pub fn to(session: SessionId, expected: Version) -> Self {
        Self { session, expected: Some(expected), ..Self::default() }
    }

    /// Whether there is nothing to be written.
    pub fn is_empty(&self) -> bool {
        let Self { begin, entries, batches, undos, pins, preambles, requests, .. } = self;
        let Self { notes, derived, opening, imported, .. } = self;
        begin.is_none()
            && pins.is_none()
            && entries.is_empty()
            && batches.is_empty()
            && undos.is_empty()
            && preambles.is_empty()
            && requests.is_empty()
            && notes.is_empty()
            && derived.is_empty()
            && opening.is_none()
            && imported.is_none()
            && self.name.is_none()
    }
}
