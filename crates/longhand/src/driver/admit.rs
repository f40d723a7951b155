//! What requests do to a session: they get their places, their answers follow them, and batches are made for them.

use std::sync::Arc;

use longhand_archive::{
    After, Appended, Archive, ArchiveError, Conflict, NewBatch, NewEntry, NewSession,
    RequestRecord, Undecided, Write, append_to, attempts, outrun,
};
use longhand_core::Batch;
use longhand_core::session::Version;
use tokio::sync::oneshot;

use super::chained::preamble;
use super::live_batch::LiveBatch;
use super::live_session::LiveSession;
use super::memory::{FreshPlace, Patience, SessionMemory};
use super::pending_write::{PendingWrite, placed_at_once};
use super::placed::{NewAnswer, PlacedRequest, RequestPlace, UnplacedRequest};
use super::sink::{Sink, Ticket};
use crate::known_calls::Unread;
use crate::receipt::Receipt;

/// A batch on its way into the log.
pub struct BatchCommit {
    /// The newest live batch on the path; 0 if there is none.
    pub after: u64,
    /// Its edits.
    pub batch: Batch,
    /// What was done, why and at what cost; when is noted as it is committed.
    pub receipt: Receipt,
    /// Whether it is for this request alone: it is written, so that its handles open, and undone at once.
    pub aside: bool,
}

impl LiveSession {
    /// Finds the messages of a request in the session, and has those written that are new there, if it is to be recorded.
    /// `None` if nothing is known of the session and nothing can be read.
    pub async fn admit(
        self: &Arc<Self>,
        sink: &dyn Sink,
        request: UnplacedRequest,
        is_recorded: bool,
    ) -> Result<Option<RequestPlace>, ArchiveError> {
        if let Err(error) = self.catch_up(sink.archive()).await {
            sink.go_on_without(error)?;
        }
        let mut request = Some(request);
        let place = self.followed(sink, |memory, patience| {
            let fresh = memory.place(self, &mut request, is_recorded, patience)?;
            Ok(write_down(sink, memory, fresh, is_recorded))
        });
        place.await
    }

    /// The same without asking the archive; gives the request back if that is not possible.
    pub fn admit_at_once(
        self: &Arc<Self>,
        sink: &dyn Sink,
        request: UnplacedRequest,
        is_recorded: bool,
    ) -> Result<RequestPlace, Option<Box<UnplacedRequest>>> {
        let mut request = Some(request);
        let memory = &mut self.lock();
        match memory.place(self, &mut request, is_recorded, Patience::Ask) {
            Ok(fresh) => Ok(write_down(sink, memory, fresh, is_recorded)),
            Err(_) => Err(request.map(Box::new)),
        }
    }

    /// Appends entries, which are durable when this returns. The session begins with them if the archive does not have it.
    pub async fn append(
        &self,
        archive: &dyn Archive,
        new: &NewSession,
        after: After,
        entries: &[NewEntry],
    ) -> Result<Appended, ArchiveError> {
        for () in attempts() {
            self.catch_up(archive).await?;
            let (appended, mut write, edition) = {
                let mut memory = self.lock();
                let mut write = Write::to(self.id, memory.state.written());
                let appended = append_to(self.id, &mut memory.state, after, entries, &mut write);
                (appended, write, memory.edition)
            };
            let appended = match appended {
                Ok(appended) => appended,
                Err(Undecided::Lack(lack)) => {
                    self.load(archive, Unread::Nodes(lack)).await?;
                    continue;
                }
                Err(Undecided::Refused(error)) => return Err(error),
            };
            if write.expected == Some(Version::default()) {
                write.begin = Some(new.clone());
            }
            if write.is_empty() {
                return Ok(appended);
            }
            let written = match archive.write(vec![write]).await {
                Ok(mut outcomes) => outcomes.pop().unwrap_or_else(|| Err(outrun(self.id))),
                Err(error) => Err(error),
            };
            match written {
                Ok(version) => {
                    self.wrote(edition, Some(version));
                    let newest_ms = entries.iter().map(|entry| entry.at_ms).max();
                    newest_ms.inspect(|at_ms| self.lock().used(*at_ms));
                    return Ok(appended);
                }
                // Another process was first, or has removed the session: then it begins anew.
                Err(
                    ArchiveError::Conflict { conflict: Conflict::Version, .. }
                    | ArchiveError::UnknownSession { .. },
                ) => self.doubt_later(),
                Err(error) => {
                    self.doubt_later();
                    return Err(error);
                }
            }
        }
        Err(outrun(self.id))
    }

    /// Has an answer written after the request that it answers, with a line for the request log.
    pub fn answered(
        &self,
        sink: &dyn Sink,
        request: &Arc<PlacedRequest>,
        answer: NewAnswer,
        line: RequestRecord,
    ) -> Option<Ticket> {
        let mut memory = self.lock();
        let placed = placed_at_once(&mut memory, request, &answer);
        let preamble =
            (memory.preamble != Some(request.preamble)).then(|| preamble(&request.conversation));
        memory.preamble = Some(request.preamble);
        let at_ms = sink.now_ms();
        memory.used(at_ms);
        sink.give(PendingWrite::answered(request, answer, placed, line, preamble, at_ms))
    }

    /// Has a batch written that was made for a request, or for messages that the archive has; the ticket tells when it is
    /// durable.
    pub fn commit(
        self: &Arc<Self>,
        sink: &dyn Sink,
        request: Option<&PlacedRequest>,
        commit: BatchCommit,
    ) -> (Arc<LiveBatch>, Option<Ticket>) {
        let mut memory = self.lock();
        let BatchCommit { after, batch, receipt, aside } = commit;
        let at_ms = sink.now_ms();
        let new = NewBatch { after, at_ms, batch, receipt: receipt.write(at_ms) };
        let is_current = request.is_none_or(|request| memory.has_in_place(request));
        let committed = is_current.then(|| memory.commit(new.clone(), aside).ok()).flatten();
        let Some(live) = committed else {
            // Its numbers are of an earlier edition, or another request was first.
            let (refusal, ticket) = oneshot::channel();
            let _ = refusal.send(false);
            return (memory.uncommitted(new), Some(ticket));
        };
        let write = PendingWrite::batch(self, memory.edition, Arc::clone(&live), aside);
        (live, sink.give(write))
    }
}

/// Has the new messages of a request written. The session is locked, so that entries come in the order of their numbers.
fn write_down(
    sink: &dyn Sink,
    memory: &mut SessionMemory,
    fresh: FreshPlace,
    is_recorded: bool,
) -> RequestPlace {
    let FreshPlace { placed, twin, known, nodes, is_first, is_aside } = fresh;
    let idle_ms = memory.idle_ms(sink.now_ms());
    let mut ticket = None;
    if is_recorded {
        ticket = sink.give(PendingWrite::request(&placed, nodes, sink.now_ms()));
        for batch in memory.adopted() {
            sink.give(PendingWrite::batch(&placed.session, memory.edition, batch, false));
        }
    }
    RequestPlace { placed, twin, known, is_first, is_aside, idle_ms, ticket }
}
