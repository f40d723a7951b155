//! The bodies that clients get.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::stream::BoxStream;
use futures_util::{FutureExt, Stream, StreamExt, stream};
use http_body_util::Full;
use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use longhand::driver::Ticket;
use longhand_model::http::{self, BoxError};
use tokio::time::{Sleep, sleep};

use crate::listener::{Listener, StoredAnswer};
use crate::log_line::LogLine;
use crate::upstream::AnswerHead;

/// A piece of an answer, or the error that ends it.
pub(crate) type Chunk = Result<Bytes, BoxError>;

/// The pieces of an answer.
pub(crate) enum AnswerChunks {
    Upstream(http::ResponseBody),
    /// Several answers of an upstream, joined.
    Stream(BoxStream<'static, Chunk>),
}

/// An answer: its head, what has come of its body, and the rest.
pub(crate) struct UpstreamAnswer {
    pub(crate) head: AnswerHead,
    pub(crate) begun: Vec<Chunk>,
    pub(crate) rest: AnswerChunks,
}

/// What a client gets.
#[expect(clippy::large_enum_variant, reason = "answers that are passed on are the most frequent")]
pub(crate) enum ResponseBody {
    /// A text of ours.
    Text(Full<Bytes>),
    /// The answer of an upstream, passed on as it comes.
    Relayed(RelayedBody),
    /// A stream of ours, such as server-sent events.
    Stream(BoxStream<'static, Chunk>),
}

impl ResponseBody {
    pub(crate) fn text(text: String) -> Self {
        Self::Text(Full::from(text))
    }
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut *self {
            Self::Text(body) => Pin::new(body).poll_frame(context).map_err(BoxError::from),
            Self::Relayed(body) => Pin::new(body).poll_frame(context),
            Self::Stream(stream) => stream.poll_next_unpin(context).map_ok(Frame::data),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Text(body) => body.is_end_stream(),
            Self::Relayed(body) => body.is_end_stream(),
            Self::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Text(body) => body.size_hint(),
            Self::Relayed(body) => body.size_hint(),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}

impl AnswerChunks {
    pub(crate) fn of(pieces: Vec<Chunk>) -> Self {
        Self::Stream(stream::iter(pieces).boxed())
    }

    /// The same with some pieces before it.
    pub(crate) fn after(self, pieces: Vec<Chunk>) -> Self {
        Self::Stream(stream::iter(pieces).chain(self).boxed())
    }
}

impl Stream for AnswerChunks {
    type Item = Chunk;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<Option<Chunk>> {
        match &mut *self {
            Self::Upstream(body) => body.poll_chunk(context).map_err(BoxError::from),
            Self::Stream(stream) => stream.poll_next_unpin(context),
        }
    }
}

/// How long a broken answer stays open, so that what has come of it is sent first.
const BREAK_TIME: Duration = Duration::from_millis(20);

/// Passes chunks on as they come; a listener reads them all.
pub(crate) struct RelayedBody {
    held: VecDeque<Chunk>,
    rest: AnswerChunks,
    listener: Option<Listener>,
    /// The length of the answer, if its head names it, and how many bytes have come.
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

impl RelayedBody {
    /// Passes on what was held back, then the rest.
    pub(crate) fn new(held: Vec<Chunk>, rest: AnswerChunks, log_line: LogLine) -> Self {
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

    /// Has an answer read by a listener; if it `waits`, its end is held back until it is archived.
    pub(crate) fn listened_to(
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

    /// Has a piece read. Returns what is sent on now.
    fn relay(&mut self, chunk: Bytes) -> Option<Bytes> {
        self.came += chunk.len() as u64;
        if let Some(listener) = &mut self.listener {
            listener.read(&chunk);
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
            // Which piece is the last is known only when nothing follows.
            _ => self.last.replace(chunk),
        }
    }

    /// Has the answer archived; its end waits for that.
    fn end(&mut self) {
        let stored = self.end_listening(false);
        if !self.waits {
            return;
        }
        match stored {
            Some(StoredAnswer::Written(ticket)) => self.ticket = Some(ticket),
            Some(StoredAnswer::Nothing) => self.waits = false,
            Some(StoredAnswer::Refused) | None => self.refuse(),
        }
    }

    /// Tells the listener that no more comes.
    fn end_listening(&mut self, is_cut: bool) -> Option<StoredAnswer> {
        let (stored, notice) = self.listener.take()?.end(is_cut);
        if let Some(notice) = notice {
            self.log_line.warned(&notice);
        }
        Some(stored)
    }

    /// Breaks off an answer that must be archived and cannot be.
    fn refuse(&mut self) {
        self.last = None;
        self.break_off("the answer could not be archived".into());
    }

    fn break_off(&mut self, error: BoxError) {
        self.waits = false;
        self.broken = Some((error, Box::pin(sleep(BREAK_TIME))));
    }
}

impl HttpBody for RelayedBody {
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
                    if let Some(chunk) = self.relay(chunk) {
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

impl Drop for RelayedBody {
    /// Ends the listening: a client may close the connection right after the last event, and hyper does not poll
    /// for the end of a body that has a length.
    fn drop(&mut self) {
        let is_cut = self.length.is_none_or(|length| self.came < length);
        self.end_listening(is_cut);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    #[tokio::test]
    async fn a_body_can_be_a_stream_of_events_of_ours() {
        let events = ["event: one\n\n", "event: two\n\n"];
        let pieces = events.map(|event| Ok(Bytes::from_static(event.as_bytes())));
        let mut body = ResponseBody::Stream(stream::iter(pieces).boxed());
        assert_eq!((body.is_end_stream(), body.size_hint().exact()), (false, None));
        for event in events {
            let frame = body.frame().await.unwrap().unwrap();
            assert_eq!(frame.into_data().unwrap(), event, "each event is a frame of its own");
        }
        assert!(body.frame().await.is_none());
        assert_eq!(ResponseBody::text("four".to_owned()).size_hint().exact(), Some(4));
    }

    #[tokio::test]
    async fn a_stream_of_ours_may_break_off() {
        let pieces = vec![Ok(Bytes::from_static(b"event: one\n\n")), Err("gone".into())];
        let mut body = ResponseBody::Stream(stream::iter(pieces).boxed());
        assert!(body.frame().await.unwrap().is_ok());
        assert_eq!(body.frame().await.unwrap().unwrap_err().to_string(), "gone");
    }
}
