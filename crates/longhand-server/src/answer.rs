//! An answer on its way back, and a copy of it for the archive.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Bytes;
use futures_util::Stream;
use futures_util::stream::BoxStream;
use longhand_dialect::{Reply, ReplyReader, SseReader};

use crate::window::{Asked, Windows};

/// A piece of an upstream's answer, or why there is no more of it.
pub(crate) type Chunk = Result<Bytes, reqwest::Error>;

/// The pieces in their order.
pub(crate) type Chunks = BoxStream<'static, Chunk>;

/// The most of a whole answer that is copied.
const COPY_BYTES_MAX: usize = 32 << 20;

/// Passes chunks on as they come; a listener hears them all.
pub(crate) struct Passing {
    pub(crate) held: VecDeque<Chunk>,
    pub(crate) rest: Chunks,
    pub(crate) listener: Option<Listener>,
}

impl Stream for Passing {
    type Item = Chunk;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<Option<Self::Item>> {
        let next = match self.held.pop_front() {
            Some(chunk) => Poll::Ready(Some(chunk)),
            None => self.rest.as_mut().poll_next(context),
        };
        match &next {
            Poll::Ready(Some(Ok(chunk))) => {
                if let Some(listener) = &mut self.listener {
                    listener.hear(chunk);
                }
            }
            Poll::Ready(None) => self.end(),
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        next
    }
}

impl Passing {
    fn end(&mut self) {
        if let Some(listener) = self.listener.take() {
            listener.end();
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
    windows: Arc<Windows>,
}

enum Copy {
    Events(Box<(SseReader, ReplyReader)>),
    Whole(Vec<u8>),
    /// It cannot be read.
    Deaf,
}

impl Listener {
    pub(crate) fn new(asked: &Arc<Asked>, windows: &Arc<Windows>, in_events: bool) -> Self {
        let copy = if in_events {
            Copy::Events(Box::new((SseReader::default(), ReplyReader::new(asked.dialect()))))
        } else {
            Copy::Whole(Vec::new())
        };
        Self { copy, asked: Arc::clone(asked), windows: Arc::clone(windows) }
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
    fn end(self) {
        let reply = match self.copy {
            Copy::Events(copy) => {
                let (events, mut reply) = *copy;
                if let Some(event) = events.finish() {
                    let _ = reply.push(&event);
                }
                reply.finish().ok()
            }
            Copy::Whole(bytes) => std::str::from_utf8(&bytes)
                .ok()
                .and_then(|body| Reply::read(self.asked.dialect(), body).ok()),
            Copy::Deaf => None,
        };
        if let Some(reply) = reply {
            self.windows.answered(&self.asked, &reply);
        }
    }
}
