//! A session as one HTML file, sent as it is written.

use std::io::{self, Write};
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use hyper::body::Bytes;
use hyper::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use longhand::Redactor;
use longhand::app::{Access, short_id};
use tokio::sync::mpsc;

use super::Console;
use super::access::Viewer;
use super::query::Query;
use super::response::{Refusal, guarded};
use crate::answer::{Chunk, ResponseBody};

/// So much is written before it is sent.
const PIECE_BYTES: usize = 64 << 10;

/// How many pieces may wait to be sent.
const PIECES_MAX: usize = 4;

/// Sends what is written; a client that has gone breaks it off.
struct Sender {
    piece: Vec<u8>,
    pieces: mpsc::Sender<Chunk>,
}

impl Write for Sender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = Bytes::from(std::mem::take(&mut self.piece));
        self.pieces.blocking_send(Ok(piece)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// Begins to send a session.
pub(super) async fn answer(
    console: &Arc<Console>,
    viewer: Viewer,
    session: String,
    mut query: Query,
) -> Result<Response<ResponseBody>, Refusal> {
    let wants_redaction = query.flag("redact")?;
    query.end()?;
    let find = move |app: &longhand::app::App| app.find(&session, Access::Read);
    let found = console.ask(viewer, find).await?;
    let redactor = match (wants_redaction, &console.redactor) {
        (false, _) => None,
        (true, Some(redactor)) => Some(Arc::clone(redactor)),
        (true, None) => Some(Arc::new(new_redactor()?)),
    };
    let Ok(permit) = Arc::clone(&console.exports).try_acquire_owned() else {
        return Err(Refusal::busy("another session is being exported"));
    };
    let (pieces, received) = mpsc::channel(PIECES_MAX);
    let (app, id) = (console.app(viewer), found.session.id.clone());
    tokio::spawn(async move {
        let failed = pieces.clone();
        let mut sender = Sender { piece: Vec::new(), pieces };
        let export = app.ask(move |app| {
            let result = app.export_html(&id, redactor.as_deref(), &mut sender);
            drop(permit);
            result
        });
        // The head is sent already: an end without the last piece tells that something is missing.
        if let Err(error) = export.await {
            let _ = failed.send(Err(error.to_string().into())).await;
        }
    });
    let pieces =
        stream::unfold(
            received,
            |mut received| async move { Some((received.recv().await?, received)) },
        );
    let mut response = Response::new(ResponseBody::Stream(pieces.boxed()));
    *response.status_mut() = StatusCode::OK;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    let name = format!("attachment; filename=\"longhand-{}.html\"", short_id(&found.session.id));
    let name = HeaderValue::from_str(&name).map_err(|_| Refusal::bad("no name"))?;
    headers.insert(CONTENT_DISPOSITION, name);
    Ok(guarded(response))
}

fn new_redactor() -> Result<Redactor, Refusal> {
    let mut key = [0; 32];
    getrandom::fill(&mut key).map_err(|_| Refusal::busy("the system has no random bytes"))?;
    Ok(Redactor::new(key))
}
