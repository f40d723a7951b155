//! A tool with which a model brings back what a window left out.
//!
//! Its calls are answered here: what was asked for is inserted into the window, and the model answers
//! again. The client sees one answer without any of that.

mod follow;
mod offer;
mod stream;

use futures_util::StreamExt;
use hyper::body::Bytes;
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use longhand_dialect::{Reply, ReplyFilter};

pub(crate) use self::follow::Again;
use self::follow::Recall;
pub(crate) use self::offer::offer;
use self::stream::Joined;
use crate::answer::{Chunk, Chunks};
use crate::listener::AnswerKind;
use crate::passage::{Head, is_events, split};

/// The name of the tool.
pub(crate) const NAME: &str = "longhand_recall";

/// What stands in a window for a call that asked for something again.
pub(crate) const ALREADY: &str =
    "[longhand recall: what you asked for with longhand_recall stands above already]";

/// The most of a whole answer that is looked into.
const WHOLE_BYTES_MAX: usize = 32 << 20;

/// An answer: its head, what has come of its body, and the rest.
pub(crate) type Answer = (Head, Vec<Chunk>, Chunks);

/// Answers the calls of ours in an answer, and gives what the client is to see.
pub(crate) async fn answered(again: Again, answer: Answer) -> Answer {
    let recall = Recall::new(again);
    let (mut head, begun, rest) = answer;
    let chunks = match unpacked(&mut head, rest.after(begun), true).await {
        Ok(chunks) => chunks,
        Err((pieces, rest)) => return (head, pieces, rest),
    };
    if is_events(&head.headers) {
        head.headers.remove(CONTENT_LENGTH);
        return (head, Vec::new(), Joined::new(recall, chunks).stream());
    }
    whole(recall, head, chunks).await
}

async fn whole(mut recall: Recall, mut head: Head, mut chunks: Chunks) -> Answer {
    let dialect = recall.dialect();
    let mut filter = ReplyFilter::new(dialect, NAME);
    loop {
        let (pieces, rest) = gather(chunks).await;
        let body = text(&pieces);
        let read = body.as_deref().and_then(|body| Reply::read(dialect, body).ok());
        let (Some(body), Some(reply)) = (body, read) else {
            return (head, pieces, rest);
        };
        if let Some(next) = recall.follow(&reply).await {
            let next = match next {
                Ok(response) => split(response),
                Err(failure) => failure.answer(),
            };
            filter.go_on(&reply);
            head = next.0;
            chunks = match unpacked(&mut head, next.1, false).await {
                Ok(chunks) => chunks,
                Err((pieces, rest)) => return (head, pieces, rest),
            };
            if head.status.is_success() {
                continue;
            }
            return (head, Vec::new(), chunks);
        }
        let shown = filter.whole(&body);
        head.headers.insert(CONTENT_LENGTH, shown.len().into());
        return (head, vec![Ok(shown.into())], Chunks::of(Vec::new()));
    }
}

/// Unpacks an answer, so that calls of ours can be found in it; gives it back as it came where that cannot be done.
///
/// One that has no such call is given back, too, if nobody has to read it.
async fn unpacked(
    head: &mut Head,
    chunks: Chunks,
    only_with_calls: bool,
) -> Result<Chunks, (Vec<Chunk>, Chunks)> {
    let kind = AnswerKind::of(&head.headers);
    if !kind.is_packed() {
        return Ok(chunks);
    }
    let (pieces, rest) = gather(chunks).await;
    let plain = bytes(&pieces).and_then(|bytes| kind.unpacked(&bytes));
    let calls = |plain: &Vec<u8>| memchr::memmem::find(plain, NAME.as_bytes()).is_some();
    let Some(plain) = plain.filter(|plain| !only_with_calls || calls(plain)) else {
        return Err((pieces, rest));
    };
    head.headers.remove(CONTENT_ENCODING);
    head.headers.remove(CONTENT_LENGTH);
    Ok(Chunks::of(vec![Ok(plain.into())]))
}

/// Reads an answer to its end, or as much of it as is looked into.
async fn gather(mut chunks: Chunks) -> (Vec<Chunk>, Chunks) {
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

/// The pieces of an answer as a text; `None` if it broke off or is none.
fn text(pieces: &[Chunk]) -> Option<String> {
    String::from_utf8(bytes(pieces)?).ok()
}

/// The pieces of an answer as one; `None` if it broke off.
fn bytes(pieces: &[Chunk]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    for piece in pieces {
        body.extend_from_slice(piece.as_ref().ok()?);
    }
    Some(body)
}
