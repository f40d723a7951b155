//! The body of an answer, and how long it may say nothing.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body as _, Bytes, Incoming};
use tokio::time::{Instant, Sleep, sleep};

use super::HttpError;

/// The body of an answer as it comes.
#[derive(Debug)]
pub struct ResponseBody {
    incoming: Incoming,
    silence: Silence,
    /// The longest silence between two pieces.
    silence_max: Duration,
}

impl ResponseBody {
    pub(super) fn new(incoming: Incoming, mut silence: Silence, silence_max: Duration) -> Self {
        silence.heard();
        Self { incoming, silence, silence_max }
    }

    /// Polls for the next piece; `None` is the end.
    pub fn poll_chunk(&mut self, context: &mut Context) -> Poll<Option<Result<Bytes, HttpError>>> {
        loop {
            match Pin::new(&mut self.incoming).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => {
                    self.silence.change(self.silence_max);
                    if let Ok(chunk) = frame.into_data() {
                        return Poll::Ready(Some(Ok(chunk)));
                    }
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error.into()))),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => {
                    ready!(self.silence.poll(context));
                    return Poll::Ready(Some(Err(HttpError::Silent)));
                }
            }
        }
    }

    /// Waits for the next piece; `None` is the end.
    pub async fn chunk(&mut self) -> Option<Result<Bytes, HttpError>> {
        std::future::poll_fn(|context| self.poll_chunk(context)).await
    }

    /// Reads all of it.
    pub async fn bytes(mut self) -> Result<Vec<u8>, HttpError> {
        let mut bytes = Vec::new();
        while let Some(chunk) = self.chunk().await {
            bytes.extend_from_slice(&chunk?);
        }
        Ok(bytes)
    }
}

/// In how many ticks a silence is measured.
const TICKS: u32 = 4;

/// Notices when no bytes came for too long.
///
/// Incoming bytes only reset a counter; they neither read the clock nor move a timer. One timer per answer ticks
/// now and then and counts the ticks without bytes in between.
#[derive(Debug)]
pub(super) struct Silence {
    limit: Duration,
    timer: Pin<Box<Sleep>>,
    quiet: u32,
}

impl Silence {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, timer: Box::pin(sleep(limit / TICKS)), quiet: 1 }
    }

    /// Gives it another limit.
    pub(super) fn change(&mut self, limit: Duration) {
        self.heard();
        if limit != self.limit {
            *self = Self::new(limit);
        }
    }

    pub(super) fn heard(&mut self) {
        // The tick that has begun is not all quiet.
        self.quiet = 0;
    }

    /// Is ready when no bytes came for the limit, or up to a tick longer.
    pub(super) fn poll(&mut self, context: &mut Context) -> Poll<()> {
        loop {
            ready!(self.timer.as_mut().poll(context));
            if self.quiet >= TICKS {
                return Poll::Ready(());
            }
            self.quiet += 1;
            self.timer.as_mut().reset(Instant::now() + self.limit / TICKS);
        }
    }
}
