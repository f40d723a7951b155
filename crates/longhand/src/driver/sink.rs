//! Where the writes of sessions go.

use std::pin::Pin;
use std::sync::Arc;

use longhand_archive::{Archive, ArchiveError, SessionId};
use tokio::sync::oneshot;

use super::live_session::LiveSession;
use super::pending_write::PendingWrite;

/// Waits for writes.
pub type Settling<'s> = Pin<Box<dyn Future<Output = Result<(), ArchiveError>> + Send + 's>>;

/// Tells whether a write is durable. One that is not may be later.
pub type Ticket = oneshot::Receiver<bool>;

/// Takes the writes of sessions: at once, or in a queue.
pub trait Sink: Send + Sync {
    /// The archive that is written to.
    fn archive(&self) -> &dyn Archive;

    /// The same archive for work in the background.
    fn background_archive(&self) -> &Arc<dyn Archive>;

    /// The time, in milliseconds since 1970.
    fn now_ms(&self) -> i64;

    /// Says whether to go on with what is known where the archive cannot be read.
    fn go_on_without(&self, error: ArchiveError) -> Result<(), ArchiveError>;

    /// Takes a write; `None` if it will never be made. It is called under the lock of its session, so that writes come in
    /// the order of their numbers.
    fn give(&self, write: PendingWrite) -> Option<Ticket>;

    /// Takes a value that was derived from a session.
    fn derive(&self, session: SessionId, key: &str, value: String);

    /// Has everything written at once: somebody waits.
    fn hurry(&self);

    /// Waits until the archive has what was given for a session, so that what is looked up there does not depend on how
    /// fast it writes.
    fn settled<'s>(&'s self, session: &'s Arc<LiveSession>) -> Settling<'s>;
}
