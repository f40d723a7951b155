//! An answer on its way back, and a copy of it for the archive.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::BoxError;
use axum::body::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, Stream};
use longhand_dialect::{Reply, ReplyReader, SseReader};

use crate::archivist::Ticket;
use crate::asked::Asked;
use crate::trail::Trail;
use crate::window::{Window, Windows};

/// A piece of an upstream's answer, or why there is no more of it.
pub(crate) type Chunk = Result<Bytes, BoxError>;

/// The pieces in their order.
pub(crate) type Chunks = BoxStream<'static, Chunk>;

/// The most of a whole answer that is copied.
const COPY_BYTES_MAX: usize = 32 << 20;

/// Passes chunks on as they come; a listener hears them all.
pub(crate) struct Passing {
    held: VecDeque<Chunk>,
    rest: Chunks,
    listener: Option<Listener>,
    /// The piece that waits until all is archived, if that is wanted.
    last: Option<Bytes>,
    waits: bool,
    ticket: Option<Ticket>,
    _trail: Trail,
}

impl Passing {
    /// Passes on what was held back, then the rest.
    pub(crate) fn new(held: Vec<Chunk>, rest: Chunks, trail: Trail) -> Self {
        let (listener, last, ticket) = (None, None, None);
        Self { held: held.into(), rest, listener, last, waits: false, ticket, _trail: trail }
    }

    /// Has an answer heard; if it `waits`, its last piece is held back until it is archived.
    pub(crate) fn heard_by(mut self, listener: Option<Listener>, waits: bool) -> Self {
        self.listener = listener;
        self.waits = waits;
        self
    }

    fn end(&mut self) -> Option<Ticket> {
        self.listener.take().and_then(Listener::end)
    }

    fn next(&mut self, context: &mut Context) -> Poll<Option<Chunk>> {
        match self.held.pop_front() {
            Some(chunk) => Poll::Ready(Some(chunk)),
            None => self.rest.as_mut().poll_next(context),
        }
    }
}

impl Stream for Passing {
    type Item = Chunk;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(ticket) = &mut self.ticket {
                let archived = ready!(ticket.poll_unpin(context));
                self.ticket = None;
                if archived != Ok(true) {
                    self.last = None;
                    return Poll::Ready(Some(Err("the answer could not be archived".into())));
                }
                return Poll::Ready(self.last.take().map(Ok));
            }
            match ready!(self.next(context)) {
                Some(Ok(chunk)) => {
                    if let Some(listener) = &mut self.listener {
                        listener.hear(&chunk);
                    }
                    if !self.waits {
                        return Poll::Ready(Some(Ok(chunk)));
                    }
                    if let Some(before) = self.last.replace(chunk) {
                        return Poll::Ready(Some(Ok(before)));
                    }
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => {
                    self.ticket = self.end().filter(|_| self.waits);
                    if self.ticket.is_none() {
                        return Poll::Ready(self.last.take().map(Ok));
                    }
                }
            }
        }
    }
}

impl Drop for Passing {
    /// A client may leave as soon as it has the last event, before the stream has ended.
    fn drop(&mut self) {
        self.end();
    }
}

/// Reads a copy of an answer.
pub(crate) struct Listener {
    copy: Copy,
    asked: Arc<Asked>,
    sent: Window,
    windows: Arc<Windows>,
}

enum Copy {
    Events(Box<(SseReader, ReplyReader)>),
    Whole(Vec<u8>),
    /// It cannot be read.
    Deaf,
}

impl Listener {
    pub(crate) fn new(
        asked: &Arc<Asked>,
        sent: Window,
        windows: &Arc<Windows>,
        in_events: bool,
    ) -> Self {
        let copy = if in_events {
            Copy::Events(Box::new((SseReader::default(), ReplyReader::new(asked.dialect()))))
        } else {
            Copy::Whole(Vec::new())
        };
        Self { copy, asked: Arc::clone(asked), sent, windows: Arc::clone(windows) }
    }

    fn hear(&mut self, chunk: &[u8]) {
        let understood = match &mut self.copy {
            Copy::Events(copy) => {
                let (events, reply) = &mut **copy;
                let events = events.push(chunk);
                events.is_ok_and(|events| events.iter().all(|event| reply.push(event).is_ok()))
            }
            Copy::Whole(bytes) => {
                bytes.extend_from_slice(chunk);
                bytes.len() <= COPY_BYTES_MAX
            }
            Copy::Deaf => true,
        };
        if !understood {
            self.copy = Copy::Deaf;
        }
    }

    /// Has the answer archived if it came to its end.
    fn end(mut self) -> Option<Ticket> {
        let reply = match std::mem::replace(&mut self.copy, Copy::Deaf) {
            Copy::Events(copy) => {
                let (events, mut reply) = *copy;
                if let Some(event) = events.finish() {
                    let _ = reply.push(&event);
                }
                if !reply.is_done() {
                    return self.broken(reply);
                }
                reply.finish().ok()
            }
            Copy::Whole(bytes) => std::str::from_utf8(&bytes)
                .ok()
                .and_then(|body| Reply::read(self.asked.dialect(), body).ok()),
            Copy::Deaf => None,
        };
        self.windows.answered(&self.asked, &self.sent, &reply?)
    }

    /// Has what came of an answer archived: the client may or may not go on from it.
    fn broken(self, reply: ReplyReader) -> Option<Ticket> {
        let came = reply.partial()?;
        self.windows.answered(&self.asked, &self.sent, &came)
    }
}
