//! The archive as an MCP server, for callers with a key: they see what their key's sessions say.
//!
//! One message is one request, and no session is kept. A message has limits of its own, so that no request of the proxy
//! waits for it.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use longhand::app::{App, Reach};
use longhand_mcp::{ArchiveServer, HttpAnswer, Settings, VERSION_HEADER};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::answer::ResponseBody;
use crate::log_line::LogLine;
use crate::proxy::Shared;
use crate::route::Caller;

/// Where it is.
pub(crate) const PATH: &str = "/longhand/mcp";

/// The largest message.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// How many messages may be read or answered at once.
const MESSAGES_MAX: usize = 32;

/// How many questions may be asked of the archive at once: some of its threads stay free for requests.
const CALLS_MAX: usize = 2;

/// How long an answer may take, with its wait for others.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(20);

/// The codes of JSON-RPC for errors of ours.
const REFUSED: i32 = -32_000;
const INVALID: i32 = -32_600;

/// What all messages share.
pub(crate) struct McpRoute {
    messages: Semaphore,
    calls: Arc<Semaphore>,
}

impl Default for McpRoute {
    fn default() -> Self {
        Self { messages: Semaphore::new(MESSAGES_MAX), calls: Arc::new(Semaphore::new(CALLS_MAX)) }
    }
}

impl McpRoute {
    /// Answers a message of a caller who was let in.
    pub(crate) async fn answer(
        &self,
        shared: &Shared,
        parts: &Parts,
        caller: &Caller,
        body: Incoming,
        mut log_line: LogLine,
    ) -> Response<ResponseBody> {
        let answer = match self.read(shared, parts, body).await {
            Ok(message) => self.ask(shared, parts, caller, &message).await,
            Err(refused) => refused,
        };
        let response = response(answer);
        log_line.status(response.status());
        response
    }

    /// Reads the message.
    async fn read(
        &self,
        shared: &Shared,
        parts: &Parts,
        body: Incoming,
    ) -> Result<Bytes, HttpAnswer> {
        if parts.method != Method::POST {
            let why = "send each message with POST; there is no stream to listen to, and no session to end";
            return Err(refused(StatusCode::METHOD_NOT_ALLOWED, INVALID, why));
        }
        let kind = parts.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        let is_json = |kind: &[u8]| kind.to_ascii_lowercase().starts_with(b"application/json");
        if !kind.is_none_or(is_json) {
            let why = "a message is application/json";
            return Err(refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, INVALID, why));
        }
        let Ok(_permit) = self.messages.try_acquire() else {
            return Err(refused(
                StatusCode::SERVICE_UNAVAILABLE,
                REFUSED,
                "Longhand has too much to do",
            ));
        };
        let read = Limited::new(body, MESSAGE_BYTES_MAX).collect();
        match timeout(shared.settings.client_silence, read).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
                let why = "the message is too large";
                Err(refused(StatusCode::PAYLOAD_TOO_LARGE, INVALID, why))
            }
            Ok(Err(_)) => {
                Err(refused(StatusCode::BAD_REQUEST, INVALID, "the message could not be read"))
            }
            Err(_) => {
                let why = "the message did not come in time";
                Err(refused(StatusCode::REQUEST_TIMEOUT, INVALID, why))
            }
        }
    }

    /// Asks the archive, as the caller may see it.
    async fn ask(
        &self,
        shared: &Shared,
        parts: &Parts,
        caller: &Caller,
        message: &[u8],
    ) -> HttpAnswer {
        let Ok(_permit) = self.messages.try_acquire() else {
            return refused(
                StatusCode::SERVICE_UNAVAILABLE,
                REFUSED,
                "Longhand has too much to do",
            );
        };
        let reach = caller.name().map_or(Reach::All, |name| Reach::Session(name.to_owned()));
        let archive = shared.stores.archived.shared_archive();
        let app = App::of_owner(archive, caller.owner()).within(reach);
        let open = Arc::new(move || Ok(app.clone()));
        let settings = Settings { calls: Arc::clone(&self.calls), ..Settings::new(open) };
        let version =
            parts.headers.get(VERSION_HEADER).map(|version| version.to_str().unwrap_or("?"));
        let server = ArchiveServer::new(settings);
        timeout(ANSWER_TIME_MAX, server.answer(message, version)).await.unwrap_or_else(|_| {
            let why = "it took too long; ask for less, or try once more later";
            refused(StatusCode::SERVICE_UNAVAILABLE, REFUSED, why)
        })
    }
}

fn refused(status: StatusCode, code: i32, why: &str) -> HttpAnswer {
    HttpAnswer::error(status.as_u16(), &Value::Null, code, why)
}

/// A refusal of somebody who is not let in.
pub(crate) fn refusal(status: StatusCode, why: &str) -> Response<ResponseBody> {
    response(refused(status, REFUSED, why))
}

fn response(answer: HttpAnswer) -> Response<ResponseBody> {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let has_body = answer.body.is_some();
    let mut response = Response::new(ResponseBody::text(answer.body.unwrap_or_default()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    if has_body {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(ALLOW, HeaderValue::from_static("POST"));
    }
    response
}
