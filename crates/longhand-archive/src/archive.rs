//! The one interface to wherever ledgers are kept.

pub(crate) mod append;
mod history;
mod money;
mod near;
mod ranked;
mod search;
mod transfer;

use std::ops::{ControlFlow, Range};

use longhand_core::session::Node;
use longhand_core::{Handle, Link, Seq};

use crate::page::{Listing, Page};
use crate::record::{
    After, Appended, Entry, Found, Head, Hit, KnownPath, LoggedBatch, NewBatch, NewEntry,
    NewSession, Reference, RequestRecord, Scope, SessionInfo,
};
use crate::storage::{Key, RequestFilter, SearchFilter, SessionFilter, Storage, Write};
use crate::wait::wait;
use crate::{ArchiveError, Damage, Owner, PreambleId, Record, Reserved, SessionId, Wish, ledger};

/// A durable home of ledgers: what can be asked of any [`Storage`].
///
/// Every storage is an archive, and there is no other way to be one: the rules about sessions are the same
/// whatever stores them.
///
/// A session's ledger is a tree of entries; a conversation is a path from a root to a *head*, which is
/// any entry. Where a call takes `head: Option<Seq>`, `None` stands for the entry appended last.
///
/// Calls block until they are done; what a call has acknowledged stays, through crash, kill and power
/// cut. Reading from a session that is unknown gives nothing; changing it gives
/// [`ArchiveError::UnknownSession`]. Naming an entry that a session does not have gives
/// [`ArchiveError::NoSuchEntries`].
pub trait Archive: Storage {
    /// Begins a session unless it is there.
    ///
    /// Gives [`ArchiveError::NotTheOwner`] if it is there and belongs to another owner. A session that
    /// is there keeps its dialect and name.
    fn begin(&self, id: SessionId, session: &NewSession) -> Result<(), ArchiveError>;

    /// Appends entries, each the child of the one before it, all or none.
    ///
    /// With [`After::Entry`], an entry with the same meaning that is already there is not written
    /// twice but found again, and the rest continues from it. Finding one again does not move the
    /// session's head. An entry that follows a silent one is found, too, where that one is left out.
    fn append(
        &self,
        id: SessionId,
        after: After,
        entries: &[NewEntry],
    ) -> Result<Appended, ArchiveError>;

    /// Adds a batch to the session's log, with a reference for every handle in it; returns its number.
    ///
    /// All entries that it edits must lie on the path to its head, otherwise it is
    /// [`ArchiveError::NotOnPath`]. Gives [`ArchiveError::Conflict`] unless `batch.after` is the newest
    /// live batch of that path.
    fn commit(&self, id: SessionId, batch: &NewBatch) -> Result<u64, ArchiveError>;

    /// Takes back the newest live batch that applies to a path and returns it; `None` if there is none.
    ///
    /// The log keeps it. Batches on other paths that build on it are no longer live either.
    fn undo(&self, id: SessionId, head: Option<Seq>) -> Result<Option<LoggedBatch>, ArchiveError>;

    /// Takes back a batch if it is the newest live one of the newest path; `None` if another one is, or none.
    fn undo_newest(&self, id: SessionId, batch: u64) -> Result<Option<LoggedBatch>, ArchiveError>;

    /// Returns the live batches of a path, oldest first.
    ///
    /// A batch applies to every path that holds all entries that it and the batches before it edit. Of
    /// those that apply, the one that edits the newest entry counts, with those that it builds on: what was
    /// made for a shorter path changes no longer one that has a batch of its own. Takes the same time
    /// however long the session is.
    fn live(&self, id: SessionId, head: Option<Seq>) -> Result<Vec<LoggedBatch>, ArchiveError>;

    /// Returns where a session stands; `None` if it is unknown.
    ///
    /// Takes the same time however long the session is.
    fn head(&self, id: SessionId) -> Result<Option<Head>, ArchiveError>;

    /// Returns a session at a glance; `None` if it is unknown.
    fn session(&self, id: SessionId) -> Result<Option<SessionInfo>, ArchiveError>;

    /// Finds the longest known beginning of a conversation among an owner's sessions.
    ///
    /// The links are those of messages that are not silent; silent entries between them are passed over.
    /// Where several sessions have it, the one that got it last is returned. Sessions whose record is
    /// damaged are passed over.
    fn find_path(&self, owner: Owner, links: &[Link]) -> Result<Option<KnownPath>, ArchiveError>;

    /// Returns the entries of a path with numbers in a range, oldest first, each checked.
    ///
    /// What the path has before the range is not read.
    fn path(
        &self,
        id: SessionId,
        head: Option<Seq>,
        seqs: Range<u64>,
    ) -> Result<Vec<Entry>, ArchiveError>;

    /// Returns those of the entries that exist, whatever their path, each checked.
    fn entries(&self, id: SessionId, seqs: Range<u64>) -> Result<Vec<Entry>, ArchiveError>;

    /// Returns the tree of a session without what the entries say, in the order of their numbers, each
    /// checked.
    fn tree(&self, id: SessionId) -> Result<Vec<Node>, ArchiveError>;

    /// Returns the log of batches, newest first, those that are not live too.
    fn batches(&self, id: SessionId, page: Page) -> Result<Listing<LoggedBatch>, ArchiveError>;

    /// Returns all sessions, or those of an owner; those that an entry was appended to last come first.
    ///
    /// A session that gets an entry between two pages moves to the front, and no page repeats another.
    fn sessions(
        &self,
        owner: Option<Owner>,
        page: Page,
    ) -> Result<Listing<SessionInfo>, ArchiveError>;

    /// Finds entries that have all of a query, newest first. [`ask::ranked`] finds those that fit it best.
    ///
    /// Every string is a query. An entry matches if it has every word of the query, whatever the
    /// case and accents; words in double quotes, or joined by signs as in `GB/s`, must stand side by
    /// side, and one with a star, as in `conf*`, may go on. A name such as `OrderSerializer` is found whole and by its
    /// parts. Where no entry has the words, entries that contain them inside other words are found; of words that
    /// look like ids or hashes, only beginnings are.
    /// Damaged entries are passed over; a search of one session that finds nothing else says so.
    fn search(&self, scope: &Scope, query: &str, limit: usize) -> Result<Vec<Hit>, ArchiveError>;

    /// The same for some entries only; also says whether all of them were looked at.
    fn search_filtered(
        &self,
        scope: &Scope,
        query: &str,
        filter: SearchFilter,
        limit: usize,
    ) -> Result<Found, ArchiveError>;

    /// Gives a session another name. Its id stays, and with it all that leads to the session.
    fn rename(&self, id: SessionId, name: &str) -> Result<(), ArchiveError>;

    /// Pins or unpins an entry.
    fn pin(&self, id: SessionId, entry: Seq, pinned: bool) -> Result<(), ArchiveError>;

    /// Returns what a handle stands for; `None` if it is unknown within the scope.
    ///
    /// With a session as the scope, that session is looked into first, on all its paths, and then the
    /// others of its owner, oldest first. A handle has few bits: whoever opens one checks that the
    /// content has that handle.
    fn reference(&self, scope: &Scope, handle: Handle) -> Result<Option<Reference>, ArchiveError>;

    /// Keeps the system prompt and tools of a request, once for each owner.
    fn keep_preamble(&self, owner: Owner, content: &str) -> Result<PreambleId, ArchiveError>;

    /// Returns a preamble that the owner has kept.
    fn preamble(&self, owner: Owner, id: PreambleId) -> Result<Option<String>, ArchiveError>;

    /// Adds a line to the session's request log.
    fn log_request(&self, id: SessionId, request: &RequestRecord) -> Result<(), ArchiveError>;

    /// Returns the session's request log, newest first.
    fn requests(&self, id: SessionId, page: Page) -> Result<Listing<RequestRecord>, ArchiveError>;

    /// Finds the newest line of a request log of an owner by what the provider called the answer.
    fn answer(
        &self,
        owner: Owner,
        answer: &str,
    ) -> Result<Option<(SessionId, RequestRecord)>, ArchiveError>;

    /// Keeps something with the session, in the place of what was under that key: mostly what was derived
    /// from it. It is removed with the session, and by nothing else.
    fn put_derived(&self, id: SessionId, key: &str, value: &str) -> Result<(), ArchiveError>;

    /// Returns what was derived from the session; `None` if it must be derived again.
    fn derived(&self, id: SessionId, key: &str) -> Result<Option<String>, ArchiveError>;

    /// Returns the keys that begin with a prefix and have something under them, in their order.
    fn derived_keys(&self, id: SessionId, prefix: &str) -> Result<Vec<String>, ArchiveError>;

    /// Hands over everything that is kept of a session, in one state of it, each record checked; returns whether
    /// there is such a session.
    ///
    /// The session itself comes first, then its entries, batches, undos, pins, preambles, requests, what was
    /// derived from it and notes, each in their order. Whoever takes them can break it off.
    fn export(
        &self,
        id: SessionId,
        take: &mut dyn FnMut(Record) -> ControlFlow<()>,
    ) -> Result<bool, ArchiveError>;

    /// Adds records that come after those that a session has, exactly as they are; all or none.
    ///
    /// [`Record::Session`] begins the session; one that is there must be the same. Pins replace those that are
    /// there. Gives [`ArchiveError::Unfit`] for a record that does not follow from what the session has.
    fn restore(&self, id: SessionId, records: &[Record]) -> Result<(), ArchiveError>;

    /// Reserves money for a call of a model, if all calls of the last hour leave enough of the cap.
    ///
    /// Processes that share an archive share what is left. A clock that runs backwards frees nothing: what
    /// was reserved later than now counts as reserved now.
    fn reserve(&self, wish: &Wish) -> Result<Reserved, ArchiveError>;

    /// Says what a call has cost, in the place of what was reserved for it.
    fn settle(&self, reservation: u64, micros: u64) -> Result<(), ArchiveError>;

    /// Checks everything, or one session, and returns what is damaged.
    ///
    /// Damage is not an error here: an error means that checking itself was impossible.
    fn verify(&self, session: Option<SessionId>) -> Result<Vec<Damage>, ArchiveError>;

    /// Removes a session with all that belongs to it; returns whether there was one.
    ///
    /// Messages and preambles that another session of the owner uses stay.
    fn remove(&self, id: SessionId) -> Result<bool, ArchiveError>;
}

impl<S: Storage + ?Sized> Archive for S {
    fn begin(&self, id: SessionId, session: &NewSession) -> Result<(), ArchiveError> {
        wait(append::begin(self, id, session))
    }

    fn append(
        &self,
        id: SessionId,
        after: After,
        entries: &[NewEntry],
    ) -> Result<Appended, ArchiveError> {
        wait(append::append(self, id, after, entries))
    }

    fn commit(&self, id: SessionId, batch: &NewBatch) -> Result<u64, ArchiveError> {
        wait(append::commit(self, id, batch))
    }

    fn undo(&self, id: SessionId, head: Option<Seq>) -> Result<Option<LoggedBatch>, ArchiveError> {
        wait(append::undo(self, id, head, None))
    }

    fn undo_newest(&self, id: SessionId, batch: u64) -> Result<Option<LoggedBatch>, ArchiveError> {
        wait(append::undo(self, id, None, Some(batch)))
    }

    fn live(&self, id: SessionId, head: Option<Seq>) -> Result<Vec<LoggedBatch>, ArchiveError> {
        wait(history::live(self, id, head))
    }

    fn head(&self, id: SessionId) -> Result<Option<Head>, ArchiveError> {
        wait(history::head(self, id))
    }

    fn session(&self, id: SessionId) -> Result<Option<SessionInfo>, ArchiveError> {
        let found = wait(self.list_sessions(SessionFilter::Session(id), Page::first(1)))?;
        Ok(found.items.into_iter().next())
    }

    fn find_path(&self, owner: Owner, links: &[Link]) -> Result<Option<KnownPath>, ArchiveError> {
        wait(history::find_path(self, owner, links))
    }

    fn path(
        &self,
        id: SessionId,
        head: Option<Seq>,
        seqs: Range<u64>,
    ) -> Result<Vec<Entry>, ArchiveError> {
        wait(history::path(self, id, head, seqs))
    }

    fn entries(&self, id: SessionId, seqs: Range<u64>) -> Result<Vec<Entry>, ArchiveError> {
        wait(history::entries(self, id, seqs))
    }

    fn tree(&self, id: SessionId) -> Result<Vec<Node>, ArchiveError> {
        wait(history::tree(self, id))
    }

    fn batches(&self, id: SessionId, page: Page) -> Result<Listing<LoggedBatch>, ArchiveError> {
        wait(history::batches(self, id, page))
    }

    fn sessions(
        &self,
        owner: Option<Owner>,
        page: Page,
    ) -> Result<Listing<SessionInfo>, ArchiveError> {
        wait(self.list_sessions(owner.map_or(SessionFilter::All, SessionFilter::Owner), page))
    }

    fn search(&self, scope: &Scope, query: &str, limit: usize) -> Result<Vec<Hit>, ArchiveError> {
        let found = wait(search::search(self, scope, query, SearchFilter::default(), limit))?;
        Ok(found.hits)
    }

    fn search_filtered(
        &self,
        scope: &Scope,
        query: &str,
        filter: SearchFilter,
        limit: usize,
    ) -> Result<Found, ArchiveError> {
        wait(search::search(self, scope, query, filter, limit))
    }

    fn rename(&self, id: SessionId, name: &str) -> Result<(), ArchiveError> {
        let write = Write { session: id, name: Some(name.to_owned()), ..Write::default() };
        wait(ledger::write_one(self, write)).map(drop)
    }

    fn pin(&self, id: SessionId, entry: Seq, pinned: bool) -> Result<(), ArchiveError> {
        wait(append::pin(self, id, entry, pinned))
    }

    fn reference(&self, scope: &Scope, handle: Handle) -> Result<Option<Reference>, ArchiveError> {
        wait(search::reference(self, scope, handle))
    }

    fn keep_preamble(&self, owner: Owner, content: &str) -> Result<PreambleId, ArchiveError> {
        let id = PreambleId::of(content);
        let key = Key::Preamble(owner, id);
        // Most are there, and looking costs no sync. A damaged one is written anew.
        if !wait(one(self, key.clone())).is_ok_and(|known| known.is_some()) {
            wait(self.put(key, None, content.to_owned()))?;
        }
        Ok(id)
    }

    fn preamble(&self, owner: Owner, id: PreambleId) -> Result<Option<String>, ArchiveError> {
        wait(one(self, Key::Preamble(owner, id)))
    }

    fn log_request(&self, id: SessionId, request: &RequestRecord) -> Result<(), ArchiveError> {
        let requests = vec![request.clone()];
        let write = Write { session: id, requests, ..Write::default() };
        wait(ledger::write_one(self, write)).map(drop)
    }

    fn requests(&self, id: SessionId, page: Page) -> Result<Listing<RequestRecord>, ArchiveError> {
        let listing = wait(self.list_requests(RequestFilter::Session(id), page))?;
        let items = listing.items.into_iter().map(|(_, request)| request).collect();
        Ok(Listing { items, next: listing.next })
    }

    fn answer(
        &self,
        owner: Owner,
        answer: &str,
    ) -> Result<Option<(SessionId, RequestRecord)>, ArchiveError> {
        let filter = RequestFilter::Answer(owner, answer.to_owned());
        Ok(wait(self.list_requests(filter, Page::first(1)))?.items.into_iter().next())
    }

    fn put_derived(&self, id: SessionId, key: &str, value: &str) -> Result<(), ArchiveError> {
        let derived = vec![(key.to_owned(), value.to_owned())];
        let write = Write { session: id, derived, ..Write::default() };
        wait(ledger::write_one(self, write)).map(drop)
    }

    fn derived(&self, id: SessionId, key: &str) -> Result<Option<String>, ArchiveError> {
        wait(one(self, Key::Derived(id, key.to_owned())))
    }

    fn derived_keys(&self, id: SessionId, prefix: &str) -> Result<Vec<String>, ArchiveError> {
        wait(self.keys(id, prefix.to_owned()))
    }

    fn export(
        &self,
        id: SessionId,
        take: &mut dyn FnMut(Record) -> ControlFlow<()>,
    ) -> Result<bool, ArchiveError> {
        wait(transfer::export(self, id, take))
    }

    fn restore(&self, id: SessionId, records: &[Record]) -> Result<(), ArchiveError> {
        wait(transfer::restore(self, id, records))
    }

    fn reserve(&self, wish: &Wish) -> Result<Reserved, ArchiveError> {
        wait(money::reserve(self, wish))
    }

    fn settle(&self, reservation: u64, micros: u64) -> Result<(), ArchiveError> {
        wait(money::settle(self, reservation, micros))
    }

    fn verify(&self, session: Option<SessionId>) -> Result<Vec<Damage>, ArchiveError> {
        wait(self.check(session))
    }

    fn remove(&self, id: SessionId) -> Result<bool, ArchiveError> {
        wait(self.erase(id))
    }
}

/// Questions of [`Archive`] for those who must not wait.
pub mod ask {
    pub use super::history::{PathNumbers, RoundEntries, find_path, path, round};
    pub use super::near::{NearEntries, near};
    pub use super::ranked::{Accepts, ranked};
    pub use super::search::{reference, search};
}

/// One value by its key.
async fn one<S: Storage + ?Sized>(storage: &S, key: Key) -> Result<Option<String>, ArchiveError> {
    Ok(storage.get(vec![key]).await?.into_iter().next().flatten())
}
