//! An answer on its way back, and a copy of it for the archive.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::stream::BoxStream;
use futures_util::{FutureExt, Stream, StreamExt, stream};
use http_body_util::{Either, Full};
use hyper::body::{Body as HttpBody, Bytes, Frame};
use longhand_model::http::{self, BoxError};
use tokio::time::{Sleep, sleep};

use crate::archivist::Ticket;
use crate::listener::{Listener, StoredAnswer};
use crate::log_line::LogLine;

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

/// How long a broken answer stays open, so that what came of it is sent on first.
const BREAK_TIME: Duration = Duration::from_millis(20);

/// Passes chunks on as they come; a listener hears them all.
pub(crate) struct Passing {
    held: VecDeque<Chunk>,
    rest: Chunks,
    listener: Option<Listener>,
    /// How many bytes the answer has, where its head says so, and how many have come.
    length: Option<u64>,
    came: u64,
    /// Whether the end of the answer waits until all is archived.
    waits: bool,
    /// The piece that waits.
    last: Option<Bytes>,
    ticket: Option<Ticket>,
    /// Why the answer breaks off, and when.
    broken: Option<(BoxError, Pin<Box<Sleep>>)>,
    ended: bool,
    log_line: LogLine,
}

impl Passing {
    /// Passes on what was held back, then the rest.
    pub(crate) fn new(held: Vec<Chunk>, rest: Chunks, log_line: LogLine) -> Self {
        Self {
            held: held.into(),
            rest,
            listener: None,
            length: None,
            came: 0,
            waits: false,
            last: None,
            ticket: None,
            broken: None,
            ended: false,
            log_line,
        }
    }

    /// Has an answer heard; if it `waits`, its end is held back until it is archived.
    pub(crate) fn heard_by(
        mut self,
        listener: Option<Listener>,
        length: Option<u64>,
        waits: bool,
    ) -> Self {
        self.length = length;
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
        self.came += chunk.len() as u64;
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
        let heard = self.hear_end(false);
        if !self.waits {
            return;
        }
        match heard {
            Some(StoredAnswer::Kept(ticket)) => self.ticket = Some(ticket),
            Some(StoredAnswer::Nothing) => self.waits = false,
            Some(StoredAnswer::Refused) | None => self.refuse(),
        }
    }

    /// Tells the listener that no more comes.
    fn hear_end(&mut self, is_cut: bool) -> Option<StoredAnswer> {
        let (heard, notice) = self.listener.take()?.end(is_cut);
        if let Some(notice) = notice {
            self.log_line.warned(&notice);
        }
        Some(heard)
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
    /// A client may leave as soon as it has the last event, before the stream has ended. Nobody asks for the end of
    /// what has a length.
    fn drop(&mut self) {
        let is_cut = self.length.is_none_or(|length| self.came < length);
        self.hear_end(is_cut);
    }
}
