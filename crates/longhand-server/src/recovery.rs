//! Recognising an answer that says that the request was too long.

use std::time::Duration;

use futures_util::StreamExt;
use hyper::body::Bytes;
use hyper::header::CONTENT_LENGTH;
use longhand_dialect::{
    Dialect, Overflow, Reply, ReplyError, ReplyReader, SseReader, Stop, recognise_for,
};
use tokio::time::{Instant, timeout_at};

use crate::answer::{AnswerChunks, Chunk};
use crate::headers;
use crate::listener::AnswerKind;
use crate::request::source::RequestSource;
use crate::upstream::AnswerHead;

/// The most of an answer that is held back to see what it is.
const HELD_BYTES_MAX: usize = 64 << 10;

/// The longest that the beginning of a good answer is held back.
const HELD_TIME_MAX: Duration = Duration::from_secs(2);

/// The longest wait for the rest of an error.
const ERROR_TIME_MAX: Duration = Duration::from_secs(10);

/// How providers say that the window was full; nothing else is taken for [`Stop::Window`].
const FULL: &str = "model_context_window_exceeded";

/// Reads as much of an answer as it takes to know whether it says that the request was too long.
///
/// Of a stream that is what comes before the first word; of another answer, all of it if it is short.
pub(crate) async fn peek(
    head: &AnswerHead,
    source: &RequestSource,
    rest: &mut AnswerChunks,
) -> (Vec<Chunk>, Option<Overflow>) {
    let (status, kind) = (head.status, AnswerKind::of(&head.headers));
    let length = headers::number(&head.headers, &CONTENT_LENGTH);
    let (dialect, request) = (source.dialect(), source.conversation().bytes());
    let is_error = status.is_client_error() || status.is_server_error();
    let is_short = length.is_some_and(|length| length <= HELD_BYTES_MAX as u64);
    if is_error || (!kind.in_events && is_short) {
        let begun = gather(rest, if is_error { ERROR_TIME_MAX } else { HELD_TIME_MAX }).await;
        let bytes: Vec<&[u8]> = begun.iter().flatten().map(AsRef::as_ref).collect();
        let bytes = bytes.concat();
        let body = kind.text(&bytes);
        let overflow =
            recognise_for(status.as_u16(), &body, request).or_else(|| full(dialect, &body));
        return (begun, overflow);
    }
    // What is packed is read at its end.
    if kind.in_events && status.is_success() && !kind.is_packed() {
        opening(rest, dialect, request).await
    } else {
        (Vec::new(), None)
    }
}

/// Recognises an empty answer that stopped because the window was full.
fn full(dialect: Dialect, body: &str) -> Option<Overflow> {
    if !body.contains(FULL) {
        return None;
    }
    let reply = Reply::read(dialect, body).ok()?;
    let is_full = reply.stop == Stop::Window && reply.is_empty();
    is_full.then_some(Overflow { limit: None, asked: None, bytes: false })
}

async fn gather(rest: &mut AnswerChunks, time: Duration) -> Vec<Chunk> {
    let end = Instant::now() + time;
    let mut begun = Vec::new();
    let mut bytes = 0;
    while bytes <= HELD_BYTES_MAX
        && let Ok(Some(chunk)) = timeout_at(end, rest.next()).await
    {
        bytes += chunk.as_ref().map_or(0, Bytes::len);
        begun.push(chunk);
    }
    begun
}

/// Reads the beginning of a stream, up to the first event that is part of an answer.
async fn opening(
    rest: &mut AnswerChunks,
    dialect: Dialect,
    request: &str,
) -> (Vec<Chunk>, Option<Overflow>) {
    let end = Instant::now() + HELD_TIME_MAX;
    let mut begun = Vec::new();
    let (mut events, mut reply) = (SseReader::new(HELD_BYTES_MAX), ReplyReader::new(dialect));
    while let Ok(Some(chunk)) = timeout_at(end, rest.next()).await {
        let new = chunk.as_ref().ok().and_then(|chunk| events.push(chunk).ok());
        begun.push(chunk);
        let Some(new) = new else { return (begun, None) };
        for event in new {
            match reply.push(&event) {
                Ok(None) if is_preamble(&event.data) => {}
                Err(ReplyError::Provider { overflow, .. }) => {
                    let is_ours = |status| recognise_for(status, &event.data, request).is_some();
                    return (begun, overflow.filter(|_| is_ours(200) || is_ours(400)));
                }
                _ => return (begun, None),
            }
        }
    }
    (begun, None)
}

/// Whether an event only says that an answer is to come.
fn is_preamble(data: &str) -> bool {
    const KINDS: [&str; 5] =
        ["message_start", "ping", "response.created", "response.in_progress", "response.queued"];
    let head: String = data.chars().take(200).filter(|c| !c.is_whitespace()).collect();
    KINDS.iter().any(|kind| head.contains(&format!(r#""type":"{kind}""#)))
        || (head.contains(r#""choices""#) && data.contains(r#""role""#))
}
