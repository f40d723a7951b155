//! A tool with which a model brings back what a window left out.
//!
//! Its calls are answered here: what was asked for is inserted into the window, and the model answers
//! again. The client sees one answer without any of that.

mod before;
mod follow;
mod offer;
mod stream;

use futures_util::StreamExt;
use hyper::body::Bytes;
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use longhand_dialect::{Reply, ReplyFilter};

pub(crate) use self::before::offered_before;
use self::follow::RecallRounds;
pub(crate) use self::follow::RepeatableRequest;
pub(crate) use self::offer::offer;
use self::stream::JoinedStream;
use crate::answer::{AnswerChunks, Chunk, UpstreamAnswer};
use crate::headers::is_events;
use crate::listener::AnswerKind;
use crate::upstream::AnswerHead;

/// The name of the tool.
pub(crate) const NAME: &str = longhand_dialect::RECALL_TOOL;

/// What stands in a window for a call that asked for something again.
pub(crate) const ALREADY: &str =
    "[longhand recall: what you asked for with longhand_recall stands above already]";

/// The largest answer that is searched for calls, if it is no stream.
const WHOLE_BYTES_MAX: usize = 32 << 20;

/// Answers the calls of the recall tool in an answer, and gives what the client is to see.
pub(crate) async fn answered(request: RepeatableRequest, answer: UpstreamAnswer) -> UpstreamAnswer {
    let UpstreamAnswer { mut head, begun, rest } = answer;
    let chunks = match unpacked(&mut head, rest.after(begun), true).await {
        Ok(chunks) => chunks,
        Err((begun, rest)) => return UpstreamAnswer { head, begun, rest },
    };
    let rounds = RecallRounds::new(request);
    if is_events(&head.headers) {
        head.headers.remove(CONTENT_LENGTH);
        let rest = JoinedStream::new(rounds, chunks).stream();
        return UpstreamAnswer { head, begun: Vec::new(), rest };
    }
    joined(rounds, head, chunks).await
}

/// The last of the answers that are no streams, with what those before it said.
async fn joined(
    mut rounds: RecallRounds,
    mut head: AnswerHead,
    mut chunks: AnswerChunks,
) -> UpstreamAnswer {
    let mut filter = ReplyFilter::new(rounds.dialect(), NAME);
    let mut is_first = true;
    loop {
        let (begun, rest) = gather(chunks).await;
        let Some(body) = text(&begun) else { return UpstreamAnswer { head, begun, rest } };
        if is_first && !names_tool(body.as_bytes()) {
            // There is nothing to hide: whoever archives it reads it.
            if body.len() <= WHOLE_BYTES_MAX {
                head.headers.insert(CONTENT_LENGTH, body.len().into());
            }
            return UpstreamAnswer { head, begun, rest };
        }
        is_first = false;
        let Ok(reply) = Reply::read(rounds.dialect(), &body) else {
            return UpstreamAnswer { head, begun, rest };
        };
        let Some(next) = rounds.follow(&reply).await else {
            let shown = filter.whole(&body);
            head.headers.insert(CONTENT_LENGTH, shown.len().into());
            let (begun, rest) = (vec![Ok(shown.into())], AnswerChunks::of(Vec::new()));
            return UpstreamAnswer { head, begun, rest };
        };
        filter.go_on(&reply);
        (head, chunks) = match next {
            Ok(response) => AnswerHead::split(response),
            Err(failure) => failure.answer(),
        };
        chunks = match unpacked(&mut head, chunks, false).await {
            Ok(chunks) => chunks,
            Err((begun, rest)) => return UpstreamAnswer { head, begun, rest },
        };
        if !head.status.is_success() {
            return UpstreamAnswer { head, begun: Vec::new(), rest: chunks };
        }
    }
}

/// Whether the recall tool is named anywhere in a body.
fn names_tool(body: &[u8]) -> bool {
    memchr::memmem::find(body, NAME.as_bytes()).is_some()
}

/// Unpacks an answer, so that its calls can be found. Fails with the answer as it came.
///
/// With `only_with_calls`, it fails for an answer that does not name the tool as well: nobody has to read that.
async fn unpacked(
    head: &mut AnswerHead,
    chunks: AnswerChunks,
    only_with_calls: bool,
) -> Result<AnswerChunks, (Vec<Chunk>, AnswerChunks)> {
    let kind = AnswerKind::of(&head.headers);
    if !kind.is_packed() {
        return Ok(chunks);
    }
    let (pieces, rest) = gather(chunks).await;
    let plain = bytes(&pieces).and_then(|bytes| kind.unpacked(&bytes));
    let Some(plain) = plain.filter(|plain| !only_with_calls || names_tool(plain)) else {
        return Err((pieces, rest));
    };
    head.headers.remove(CONTENT_ENCODING);
    head.headers.remove(CONTENT_LENGTH);
    Ok(AnswerChunks::of(vec![Ok(plain.into())]))
}

/// Reads an answer to its end, or up to the largest size that is searched.
async fn gather(mut chunks: AnswerChunks) -> (Vec<Chunk>, AnswerChunks) {
    let (mut pieces, mut bytes) = (Vec::new(), 0);
    while bytes <= WHOLE_BYTES_MAX
        && let Some(chunk) = chunks.next().await
    {
        bytes += chunk.as_ref().map_or(0, Bytes::len);
        let broke = chunk.is_err();
        pieces.push(chunk);
        if broke {
            break;
        }
    }
    (pieces, chunks)
}

/// The text of the pieces; `None` if the answer broke off or is no text.
fn text(pieces: &[Chunk]) -> Option<String> {
    String::from_utf8(bytes(pieces)?).ok()
}

/// The bytes of the pieces; `None` if the answer broke off.
fn bytes(pieces: &[Chunk]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    for piece in pieces {
        body.extend_from_slice(piece.as_ref().ok()?);
    }
    Some(body)
}
