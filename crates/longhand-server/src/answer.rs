//! An answer on its way back, and a copy of it for the archive.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::stream::BoxStream;
use futures_util::{FutureExt, Stream, StreamExt, stream};
use http_body_util::{Either, Full};
use hyper::body::{Body as HttpBody, Bytes, Frame};
use longhand_dialect::{Reply, ReplyError, ReplyReader, SseReader};
use longhand_model::http::{self, BoxError};
use tokio::time::{Sleep, sleep};

use crate::archivist::Ticket;
use crate::asked::Asked;
use crate::load::Share;
use crate::trail::Trail;
use crate::window::{Window, Windows};

/// A piece of an upstream's answer, or why there is no more of it.
pub(crate) type Chunk = Result<Bytes, BoxError>;

/// The pieces in their order.
pub(crate) enum Chunks {
    Upstream(http::Body),
    /// What was made of an upstream's answer.
    Stream(BoxStream<'static, Chunk>),
}

/// What a client gets: something of ours, or an answer that is passed on.
pub(crate) type Body = Either<Full<Bytes>, Passing>;

/// A body of ours.
pub(crate) fn known(text: String) -> Body {
    Either::Left(Full::from(text))
}

impl Chunks {
    pub(crate) fn of(pieces: Vec<Chunk>) -> Self {
        Self::Stream(stream::iter(pieces).boxed())
    }

    /// The same with some pieces before it.
    pub(crate) fn after(self, pieces: Vec<Chunk>) -> Self {
        Self::Stream(stream::iter(pieces).chain(self).boxed())
    }
}

impl Stream for Chunks {
    type Item = Chunk;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<Option<Chunk>> {
        match &mut *self {
            Self::Upstream(body) => body.poll_chunk(context).map_err(BoxError::from),
            Self::Stream(stream) => stream.poll_next_unpin(context),
        }
    }
}

/// The most of an answer that is copied.
const COPY_BYTES_MAX: usize = 32 << 20;

/// How long a broken answer stays open, so that what came of it is sent on first.
const BREAK_TIME: Duration = Duration::from_millis(20);

/// Passes chunks on as they come; a listener hears them all.
pub(crate) struct Passing {
    held: VecDeque<Chunk>,
    rest: Chunks,
    listener: Option<Listener>,
    /// Whether the end of the answer waits until all is archived.
    waits: bool,
    /// The piece that waits.
    last: Option<Bytes>,
    ticket: Option<Ticket>,
    /// Why the answer breaks off, and when.
    broken: Option<(BoxError, Pin<Box<Sleep>>)>,
    ended: bool,
    _trail: Trail,
}

impl Passing {
    /// Passes on what was held back, then the rest.
    pub(crate) fn new(held: Vec<Chunk>, rest: Chunks, trail: Trail) -> Self {
        Self {
            held: held.into(),
            rest,
            listener: None,
            waits: false,
            last: None,
            ticket: None,
            broken: None,
            ended: false,
            _trail: trail,
        }
    }

    /// Has an answer heard; if it `waits`, its end is held back until it is archived.
    pub(crate) fn heard_by(mut self, listener: Option<Listener>, waits: bool) -> Self {
        self.waits = waits && listener.is_some();
        self.listener = listener;
        self
    }

    fn next(&mut self, context: &mut Context) -> Poll<Option<Chunk>> {
        match self.held.pop_front() {
            Some(chunk) => Poll::Ready(Some(chunk)),
            None => self.rest.poll_next_unpin(context),
        }
    }

    /// Has a piece heard; gives what is sent on now.
    fn heard(&mut self, chunk: Bytes) -> Option<Bytes> {
        if let Some(listener) = &mut self.listener {
            listener.hear(&chunk);
        }
        if !self.waits {
            return Some(chunk);
        }
        match self.listener.as_ref().map(Listener::is_at_end) {
            Some(Some(false)) => Some(chunk),
            Some(Some(true)) => {
                self.last = Some(chunk);
                self.end();
                None
            }
            // The last piece of a whole answer is known by what follows it.
            _ => self.last.replace(chunk),
        }
    }

    /// Has the answer archived; its end waits for that.
    fn end(&mut self) {
        let heard = self.listener.take().map(Listener::end);
        if !self.waits {
            return;
        }
        match heard {
            Some(Heard::Kept(ticket)) => self.ticket = Some(ticket),
            Some(Heard::Nothing) => self.waits = false,
            Some(Heard::Unreadable) | None => self.refuse(),
        }
    }

    /// Breaks off what cannot be archived and must be.
    fn refuse(&mut self) {
        self.last = None;
        self.break_off("the answer could not be archived".into());
    }

    fn break_off(&mut self, error: BoxError) {
        self.waits = false;
        self.broken = Some((error, Box::pin(sleep(BREAK_TIME))));
    }
}

impl HttpBody for Passing {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            if let Some(ticket) = &mut self.ticket {
                let archived = ready!(ticket.poll_unpin(context));
                self.ticket = None;
                self.waits = false;
                if archived != Ok(true) {
                    self.refuse();
                }
            }
            if !self.waits
                && let Some(last) = self.last.take()
            {
                return Poll::Ready(Some(Ok(Frame::data(last))));
            }
            if let Some((_, time)) = &mut self.broken {
                ready!(time.poll_unpin(context));
                self.ended = true;
                return Poll::Ready(self.broken.take().map(|(error, _)| Err(error)));
            }
            if self.ended {
                return Poll::Ready(None);
            }
            match ready!(self.next(context)) {
                Some(Ok(chunk)) => {
                    if let Some(chunk) = self.heard(chunk) {
                        return Poll::Ready(Some(Ok(Frame::data(chunk))));
                    }
                }
                Some(Err(error)) => self.break_off(error),
                None => {
                    self.ended = true;
                    self.end();
                }
            }
        }
    }
}

impl Drop for Passing {
    /// A client may leave as soon as it has the last event, before the stream has ended.
    fn drop(&mut self) {
        self.listener.take().map(Listener::end);
    }
}

/// Reads a copy of an answer.
pub(crate) struct Listener {
    copy: Copy,
    /// The memory that the copy takes.
    share: Arc<Share>,
    bytes: usize,
    asked: Arc<Asked>,
    sent: Window,
    windows: Arc<Windows>,
}

/// What came of an answer.
enum Heard {
    /// It is being archived.
    Kept(Ticket),
    /// The provider reports an error, and said nothing before it.
    Nothing,
    /// It cannot be archived.
    Unreadable,
}

enum Copy {
    Events(Box<(SseReader, ReplyReader)>),
    /// The provider reported an error; what it had said before that is an answer that was cut off.
    Failed(Box<ReplyReader>),
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
        let (share, asked, windows) =
            (windows.load.share(), Arc::clone(asked), Arc::clone(windows));
        Self { copy, share, bytes: 0, asked, sent, windows }
    }

    fn hear(&mut self, chunk: &[u8]) {
        self.bytes += chunk.len();
        let has_room = self.bytes <= COPY_BYTES_MAX && self.share.grow(chunk.len() as u64);
        self.copy = match std::mem::replace(&mut self.copy, Copy::Deaf) {
            Copy::Failed(reply) => Copy::Failed(reply),
            _ if !has_room => Copy::Deaf,
            Copy::Events(copy) => read(copy, chunk),
            Copy::Whole(mut bytes) => {
                bytes.extend_from_slice(chunk);
                Copy::Whole(bytes)
            }
            Copy::Deaf => Copy::Deaf,
        };
    }

    /// Whether the last event was heard; `None` for what comes whole or cannot be read.
    fn is_at_end(&self) -> Option<bool> {
        match &self.copy {
            Copy::Events(copy) => Some(copy.1.is_done()),
            Copy::Failed(_) => Some(true),
            Copy::Whole(_) | Copy::Deaf => None,
        }
    }

    /// Has the answer archived, as far as it came: the client may or may not go on from it.
    fn end(mut self) -> Heard {
        let reply = match std::mem::replace(&mut self.copy, Copy::Deaf) {
            Copy::Events(copy) => {
                let (events, mut reply) = *copy;
                let last = events.finish().map(|event| reply.push(&event));
                match last {
                    Some(Err(ReplyError::Provider { .. })) => return self.failed(reply),
                    _ if reply.is_done() => reply.finish().ok(),
                    _ => reply.partial(),
                }
            }
            Copy::Failed(reply) => return self.failed(*reply),
            Copy::Whole(bytes) => {
                let body = std::str::from_utf8(&bytes).ok();
                match body.map(|body| Reply::read(self.asked.dialect(), body)) {
                    Some(Err(ReplyError::Provider { .. })) => return Heard::Nothing,
                    read => read.and_then(Result::ok),
                }
            }
            Copy::Deaf => None,
        };
        reply.map_or(Heard::Unreadable, |reply| self.keep(reply))
    }

    fn failed(self, reply: ReplyReader) -> Heard {
        reply.partial().map_or(Heard::Nothing, |reply| self.keep(reply))
    }

    fn keep(self, reply: Reply) -> Heard {
        let ticket = self.windows.answered(&self.asked, &self.sent, reply);
        ticket.map_or(Heard::Unreadable, Heard::Kept)
    }
}

/// Reads on.
fn read(mut copy: Box<(SseReader, ReplyReader)>, chunk: &[u8]) -> Copy {
    let (events, reply) = &mut *copy;
    let Ok(events) = events.push(chunk) else { return Copy::Deaf };
    for event in events {
        match reply.push(&event) {
            Ok(_) => {}
            Err(ReplyError::Provider { .. }) => return Copy::Failed(Box::new(copy.1)),
            Err(_) => return Copy::Deaf,
        }
    }
    Copy::Events(copy)
}
