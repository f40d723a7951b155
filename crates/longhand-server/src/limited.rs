//! A body that is passed on as it comes, up to a limit.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Bytes, Frame, Incoming};
use longhand_model::http::BoxError;

/// The part of a body that was read already, then the rest.
pub(crate) struct LimitedBody {
    begun: Option<Bytes>,
    rest: Incoming,
    /// How many bytes more it may have.
    left: u64,
    is_exceeded: Arc<AtomicBool>,
}

impl LimitedBody {
    pub(crate) fn new(begun: Option<Bytes>, rest: Incoming, bytes_max: u64) -> Self {
        Self { begun, rest, left: bytes_max, is_exceeded: Arc::default() }
    }

    /// A flag that is set when the body exceeds its limit.
    pub(crate) fn is_exceeded(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_exceeded)
    }
}

impl Body for LimitedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let chunk = loop {
            if let Some(begun) = self.begun.take() {
                break begun;
            }
            let frame = ready!(Pin::new(&mut self.rest).poll_frame(context));
            let Some(frame) = frame.transpose()? else { return Poll::Ready(None) };
            // Trailers concern one connection only.
            if let Ok(chunk) = frame.into_data() {
                break chunk;
            }
        };
        let Some(left) = self.left.checked_sub(chunk.len() as u64) else {
            self.is_exceeded.store(true, Ordering::Relaxed);
            return Poll::Ready(Some(Err("the request is too large".into())));
        };
        self.left = left;
        Poll::Ready(Some(Ok(Frame::data(chunk))))
    }
}
