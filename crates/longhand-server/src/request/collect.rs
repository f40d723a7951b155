//! Reading the body of a request, and its text.

use std::sync::Arc;
use std::time::Instant;

use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use longhand_dialect::{DialectError, decode_within};
use tokio::task::spawn_blocking;
use tokio::time::{timeout, timeout_at};

use crate::headers::number;
use crate::load::MemoryShare;
use crate::metrics::Bypass;
use crate::passage::{Exit, Passage};
use crate::request::RequestContext;

/// Why a request is refused that would take too much memory.
const NO_MEMORY: &str = "Longhand's memory for requests is used up; retry later";

/// How much of a body must come in the time in which a client may be silent.
const PACE_BYTES: usize = 64 << 10;

/// The most that is set aside for a body before any of it has come; pages count once they are written.
const RESERVED_BYTES_MAX: u64 = 2 << 20;

/// A body that has come.
pub(crate) struct CollectedBody {
    /// The bytes as they came.
    pub(crate) bytes: Bytes,
    /// The text that they are, without compression; or why there is none.
    pub(crate) text: Result<Arc<String>, Bypass>,
}

/// A text whose bytes are sent.
struct SharedText(Arc<String>);

impl AsRef<[u8]> for SharedText {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl Passage<'_> {
    /// Reads the body of a request that can be looked into.
    pub(crate) async fn collect(
        &self,
        context: &RequestContext,
        body: &mut Incoming,
    ) -> Result<CollectedBody, Exit> {
        let bytes = self.read_body(context, body).await?;
        let must_archive = self.shared.settings.require_archive;
        if context.forgets && must_archive {
            let message = "Longhand must archive every request";
            return Err(Exit::Refused(StatusCode::FORBIDDEN, message));
        }
        Ok(self.decoded(bytes).await)
    }

    /// Reads all bytes of a body, unless it has more than is looked into.
    async fn read_body(
        &self,
        context: &RequestContext,
        body: &mut Incoming,
    ) -> Result<Vec<u8>, Exit> {
        let settings = &self.shared.settings;
        let length = number(&self.parts.headers, &CONTENT_LENGTH).unwrap_or(0);
        if !self.share.may_grow(length.min(settings.request_bytes_max as u64)) {
            return Err(Exit::Refused(StatusCode::SERVICE_UNAVAILABLE, NO_MEMORY));
        }
        let reserved = length.min(RESERVED_BYTES_MAX) as usize;
        let mut bytes = self.shared.load.buffers.take(reserved);
        let mut due = Instant::now() + settings.client_silence;
        let mut awaited = PACE_BYTES;
        while let Some(chunk) = next_chunk(body, due).await? {
            if !self.share.grow(chunk.len() as u64) {
                return Err(Exit::Refused(StatusCode::SERVICE_UNAVAILABLE, NO_MEMORY));
            }
            bytes.extend_from_slice(&chunk);
            if bytes.len() > settings.request_bytes_max {
                return Err(self.too_large(context, bytes));
            }
            if bytes.len() >= awaited {
                due = Instant::now() + settings.client_silence;
                awaited = bytes.len() + PACE_BYTES;
            }
        }
        Ok(bytes)
    }

    /// What happens to a body that has more than is looked into.
    fn too_large(&self, context: &RequestContext, begun: Vec<u8>) -> Exit {
        if self.shared.settings.require_archive {
            let message = "the request is too large to be archived, and must be";
            return Exit::Refused(StatusCode::PAYLOAD_TOO_LARGE, message);
        }
        Exit::PassedOn {
            why: Bypass::TooLarge,
            is_lost: context.is_lost_unread(),
            begun: self.share.with(begun.into()),
            has_more: true,
        }
    }

    /// The body as it came, and as a text if it is one.
    async fn decoded(&self, body: Vec<u8>) -> CollectedBody {
        let coding = self.parts.headers.get(CONTENT_ENCODING);
        let Some(coding) = coding.filter(|coding| *coding != "identity") else {
            return plain(body);
        };
        let (bytes, bytes_max) = (Bytes::from(body), self.shared.settings.request_bytes_max as u64);
        let (packed, coding) = (bytes.clone(), coding.to_str().unwrap_or_default().to_owned());
        let share = Arc::clone(&self.share);
        let unpack = spawn_blocking(move || unpacked(&packed, &coding, bytes_max, &share));
        let text = match timeout(self.shared.settings.deadline, unpack).await {
            Ok(Ok(text)) => text,
            Ok(Err(_)) => Err(Bypass::Panicked),
            Err(_) => Err(Bypass::Late),
        };
        CollectedBody { bytes, text }
    }
}

/// The next bytes of a body, which must come in time; `None` at its end.
async fn next_chunk(body: &mut Incoming, due: Instant) -> Result<Option<Bytes>, Exit> {
    loop {
        let frame = match timeout_at(due.into(), body.frame()).await {
            Ok(None) => return Ok(None),
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(_))) => {
                let message = "the request could not be read";
                return Err(Exit::Refused(StatusCode::BAD_REQUEST, message));
            }
            Err(_) => {
                let message = "the request did not come in time";
                return Err(Exit::Refused(StatusCode::REQUEST_TIMEOUT, message));
            }
        };
        // Trailers concern one connection only.
        if let Ok(chunk) = frame.into_data() {
            return Ok(Some(chunk));
        }
    }
}

/// A body that is not compressed.
fn plain(body: Vec<u8>) -> CollectedBody {
    match String::from_utf8(body) {
        Ok(text) => {
            let text = Arc::new(text);
            let bytes = Bytes::from_owner(SharedText(Arc::clone(&text)));
            CollectedBody { bytes, text: Ok(text) }
        }
        Err(error) => {
            CollectedBody { bytes: error.into_bytes().into(), text: Err(Bypass::Unreadable) }
        }
    }
}

/// Unpacks a body; the memory for it is reserved before it is used.
fn unpacked(
    packed: &[u8],
    coding: &str,
    bytes_max: u64,
    share: &MemoryShare,
) -> Result<Arc<String>, Bypass> {
    let mut reserved = 0;
    let mut room = |more: u64| {
        let has_room = share.grow(more);
        reserved += if has_room { more } else { 0 };
        has_room
    };
    let plain = decode_within(packed, coding, bytes_max, &mut room).map(|mut plain| {
        plain.shrink_to_fit();
        plain
    });
    let kept = plain.as_ref().map_or(0, |plain| plain.len() as u64);
    share.shrink(reserved.saturating_sub(kept));
    let plain = plain.map_err(|error| match error {
        DialectError::TooLarge { .. } => Bypass::TooLarge,
        _ => Bypass::Unreadable,
    })?;
    String::from_utf8(plain).map(Arc::new).map_err(|_| Bypass::Unreadable)
}
