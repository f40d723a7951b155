//! Writing at once, for whoever waits for it anyway.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use longhand_archive::{Archive, ArchiveError, Note, SessionId, Write, attempts, outrun};
use tokio::sync::oneshot;

use super::live_session::LiveSession;
use super::lock;
use super::pending_write::{PendingWrite, SessionWrite, WriteOutcome, WriteStep};
use super::sink::{Settling, Sink, Ticket};

/// Takes the writes of one session, which are made when they are flushed.
pub struct Direct {
    archive: Arc<dyn Archive>,
    now_ms: AtomicI64,
    given: Mutex<GivenWrites>,
}

#[derive(Default)]
struct GivenWrites {
    writes: Vec<(PendingWrite, oneshot::Sender<bool>)>,
    notes: Vec<Write>,
}

impl Direct {
    /// Writes to an archive.
    pub fn new(archive: Arc<dyn Archive>) -> Self {
        Self { archive, now_ms: AtomicI64::new(0), given: Mutex::default() }
    }

    /// The archive.
    pub fn shared_archive(&self) -> &Arc<dyn Archive> {
        &self.archive
    }

    /// Sets the time, in milliseconds since 1970.
    pub fn set_time(&self, now_ms: i64) {
        self.now_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Takes notes on what a session shows.
    pub(crate) fn note(&self, session: SessionId, notes: Vec<Note>) {
        if !notes.is_empty() {
            lock(&self.given).notes.push(Write { session, notes, ..Write::default() });
        }
    }

    /// Makes all writes that were given, in one transaction if no other process comes first. A batch that is refused is
    /// told to whoever has its ticket; if anything else cannot be written, that is an error.
    pub async fn flush(&self, session: &Arc<LiveSession>) -> Result<(), ArchiveError> {
        let GivenWrites { mut writes, notes } = std::mem::take(&mut *lock(&self.given));
        for () in attempts() {
            if writes.is_empty() {
                break;
            }
            writes = match self.write(session, writes).await {
                Ok(left) => left,
                Err(error) => {
                    // What was not written is new again.
                    session.doubt_later();
                    return Err(error);
                }
            };
        }
        if !writes.is_empty() {
            session.doubt_later();
            return Err(outrun(session.id));
        }
        if !notes.is_empty() {
            for written in self.archive.write(notes).await? {
                written?;
            }
        }
        Ok(())
    }

    /// Makes as many writes as have their places; gives those back that are left.
    async fn write(
        &self,
        session: &Arc<LiveSession>,
        writes: Vec<(PendingWrite, oneshot::Sender<bool>)>,
    ) -> Result<Vec<(PendingWrite, oneshot::Sender<bool>)>, ArchiveError> {
        session.catch_up(&*self.archive).await?;
        let mut target = SessionWrite::new(session);
        let (mut added, mut left) = (Vec::new(), Vec::new());
        for (mut write, done) in writes {
            match write.step(&mut target) {
                WriteStep::Added => added.push((write, done)),
                WriteStep::Nothing => tell(done, true),
                WriteStep::Later => left.push((write, done)),
                WriteStep::Replace => {
                    session.ready_for(&*self.archive, &write.links()).await;
                    left.push((write, done));
                }
                WriteStep::Refused if write.is_batch() => tell(done, false),
                WriteStep::Refused => {
                    return Err(ArchiveError::NotTheOwner { session: session.id });
                }
            }
        }
        if added.is_empty() {
            return Ok(left);
        }
        let mut results = self.archive.write(vec![target.begin()]).await.inspect_err(|_| {
            target.end(None);
        })?;
        let unknown = ArchiveError::UnknownSession { session: session.id };
        let result = results.pop().unwrap_or(Err(unknown));
        target.end(Some(&result));
        let mut again = Vec::new();
        for (mut write, done) in added {
            match write.entered(&result) {
                WriteOutcome::Done => tell(done, true),
                WriteOutcome::Again => again.push((write, done)),
                WriteOutcome::Failed if write.is_batch() => tell(done, false),
                WriteOutcome::Failed | WriteOutcome::Kept => {
                    return Err(result.err().unwrap_or_else(|| outrun(session.id)));
                }
            }
        }
        again.append(&mut left);
        Ok(again)
    }
}

impl Sink for Direct {
    fn archive(&self) -> &dyn Archive {
        &*self.archive
    }

    fn background_archive(&self) -> &Arc<dyn Archive> {
        &self.archive
    }

    fn now_ms(&self) -> i64 {
        self.now_ms.load(Ordering::Relaxed)
    }

    /// Whoever waits hears of an archive that cannot be read.
    fn go_on_without(&self, error: ArchiveError) -> Result<(), ArchiveError> {
        Err(error)
    }

    fn give(&self, write: PendingWrite) -> Option<Ticket> {
        let (done, ticket) = oneshot::channel();
        lock(&self.given).writes.push((write, done));
        Some(ticket)
    }

    fn derive(&self, session: SessionId, key: &str, value: String) {
        let derived = vec![(key.to_owned(), value)];
        lock(&self.given).notes.push(Write { session, derived, ..Write::default() });
    }

    fn hurry(&self) {}

    fn settled<'s>(&'s self, session: &'s Arc<LiveSession>) -> Settling<'s> {
        Box::pin(self.flush(session))
    }
}

/// Tells whoever has the ticket of a write; few keep theirs.
fn tell(done: oneshot::Sender<bool>, is_done: bool) {
    let _ = done.send(is_done);
}
