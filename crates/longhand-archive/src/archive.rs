//! The one interface to wherever ledgers are kept.

use std::ops::Range;

use longhand_core::Handle;

use crate::record::{
    Addition, Appended, Batch, Content, Entry, Head, Hit, NewBatch, NewEntry, Original, SessionInfo,
};
use crate::{ArchiveError, Damage};

/// A durable home of ledgers.
///
/// Any string is a session's id. A session begins with its first entry. Calls block until they are
/// done; what a call has acknowledged stays, through crash, kill and power cut.
pub trait Archive: Send + Sync {
    /// Appends entries to a session, all or none.
    fn append(&self, session: &str, entries: &[NewEntry]) -> Result<Appended, ArchiveError>;

    /// Appends entries to sessions in their places, all in one go; says how many additions were made.
    ///
    /// It ends at the first one whose session has more or fewer entries than it thinks: another writer
    /// came first, and what follows may build on it. An error means that none was made.
    fn append_at(&self, additions: &[Addition]) -> Result<usize, ArchiveError>;

    /// Adds a batch to the session's log and returns its number.
    ///
    /// What it folds is kept under [`fold_handle`](crate::fold_handle) along with it.
    /// Gives [`ArchiveError::Conflict`] unless `batch.after` is the newest live batch.
    fn commit(&self, session: &str, batch: &NewBatch) -> Result<u64, ArchiveError>;

    /// Takes back the newest live batch and returns it; `None` if there is none.
    ///
    /// The log keeps it, and the batch it was built on is the newest again.
    fn undo(&self, session: &str) -> Result<Option<Batch>, ArchiveError>;

    /// Returns where a session stands; `None` if it is unknown.
    ///
    /// Takes the same time however long the session is.
    fn head(&self, session: &str) -> Result<Option<Head>, ArchiveError>;

    /// Returns those of the entries that exist, each checked against the chain of checksums.
    fn entries(&self, session: &str, seqs: Range<u64>) -> Result<Vec<Entry>, ArchiveError>;

    /// Returns the whole log of batches, oldest first, undone ones too.
    fn batches(&self, session: &str) -> Result<Vec<Batch>, ArchiveError>;

    /// Returns all sessions in the order of their ids.
    fn sessions(&self) -> Result<Vec<SessionInfo>, ArchiveError>;

    /// Finds entries by their text, newest first, in one session or in all.
    ///
    /// Every string is a query. An entry matches if it has every word of the query, whatever the
    /// case and accents; words in double quotes, or joined by signs as in `GB/s`, must stand side by
    /// side. Where no entry has the words, entries that contain them inside other words are found.
    fn search(
        &self,
        session: Option<&str>,
        query: &str,
        limit: usize,
    ) -> Result<Vec<Hit>, ArchiveError>;

    /// Pins or unpins an entry.
    fn pin(&self, session: &str, seq: u64, pinned: bool) -> Result<(), ArchiveError>;

    /// Keeps originals under their handles, all or none.
    ///
    /// Gives [`ArchiveError::HandleTaken`] if a handle stands for other content already.
    fn keep(&self, originals: &[(Handle, Original)]) -> Result<(), ArchiveError>;

    /// Returns what a handle stands for; `None` if it is unknown.
    fn expand(&self, handle: Handle) -> Result<Option<Original>, ArchiveError>;

    /// Returns what a handle stands for in one session; `None` if that session has nothing under it.
    fn expand_in(&self, session: &str, handle: Handle) -> Result<Option<Original>, ArchiveError>;

    /// Checks everything, or one session, and returns what is damaged.
    ///
    /// Damage is not an error here: an error means that checking itself was impossible.
    fn verify(&self, session: Option<&str>) -> Result<Vec<Damage>, ArchiveError>;

    /// Removes a session with its batches, pins and originals; says whether there was one.
    fn remove(&self, session: &str) -> Result<bool, ArchiveError>;

    /// Returns an original's text; the messages of a fold stand on a line each.
    fn text_of(&self, original: &Original) -> Result<String, ArchiveError> {
        match (&original.content, &original.session) {
            (Content::Text(text), _) => Ok(text.clone()),
            (Content::Entries(range), session) => {
                let session = session.as_deref().unwrap_or_default();
                let entries = self.entries(session, range.clone())?;
                if (entries.len() as u64) < range.end.saturating_sub(range.start) {
                    return Err(ArchiveError::NoSuchEntries {
                        session: session.to_owned(),
                        range: range.clone(),
                        entries: range.start + entries.len() as u64,
                    });
                }
                let raws: Vec<&str> = entries.iter().map(|entry| entry.raw.as_str()).collect();
                Ok(raws.join("\n"))
            }
        }
    }
}
