//! The paths that are ours: health, readiness and metrics.

use std::sync::Arc;
use std::time::Duration;

use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use longhand::time;
use serde_json::json;
use tokio::time::timeout;

use crate::answer::ResponseBody;
use crate::proxy::Shared;
use crate::store::Store;

/// How all paths of ours begin; no provider has such a path.
pub(crate) const PREFIX: &str = "/longhand/";

/// How long the archive may take to answer a readiness check.
const ARCHIVE_TIME_MAX: Duration = Duration::from_secs(2);

/// How many sessions with missing messages are listed.
const MISSING_MAX: usize = 100;

/// Answers a request to a path of ours.
pub(crate) async fn answer(shared: &Shared, parts: &Parts) -> Response<ResponseBody> {
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        return text(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "only GET\n".to_owned());
    }
    match parts.uri.path().strip_prefix(PREFIX).unwrap_or_default() {
        "health" => text(StatusCode::OK, JSON, json!({"status": "ok"}).to_string()),
        "ready" => ready(shared).await,
        "metrics" => {
            shared.metrics.held_bytes.set(shared.load.held().cast_signed());
            text(StatusCode::OK, OPEN_METRICS, shared.metrics.text())
        }
        _ => text(
            StatusCode::NOT_FOUND,
            "text/plain",
            "there are /longhand/health, /longhand/ready, /longhand/metrics and /longhand/mcp\n"
                .to_owned(),
        ),
    }
}

/// Whether requests are taken, how the archive does, and what is missing in it.
async fn ready(shared: &Shared) -> Response<ResponseBody> {
    let (metrics, store) = (&shared.metrics, &shared.stores.archived);
    let archive = is_there(Arc::clone(store)).await;
    let ready = archive || !shared.settings.require_archive;
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let outage = store.outage();
    // Who has a key does not learn what others call their sessions.
    let names_sessions = shared.settings.keys.is_empty();
    let missing = store.missing().into_iter().take(MISSING_MAX).map(|missing| {
        let [first, last] = [missing.first_ms, missing.last_ms].map(time::format);
        let session = names_sessions.then_some(missing.session);
        json!({
            "session": session, "messages": missing.messages, "first": first, "last": last,
            "given_up": missing.given_up,
        })
    });
    let body = json!({
        "ready": ready, "archive": archive, "archive_queue": metrics.archive_queued.get(),
        "unarchived": metrics.unarchived.get(), "troubled_sessions": metrics.troubled.get(),
        "failing_since": outage.as_ref().map(|outage| time::format(outage.since_ms)),
        "failing": outage.map(|outage| outage.why), "missing": missing.collect::<Vec<_>>(),
    });
    text(status, JSON, body.to_string())
}

/// Whether the archive answers and takes what it is given.
async fn is_there(store: Arc<Store>) -> bool {
    // An archive that panics is not there.
    let ask = tokio::spawn(async move { store.is_sound().await });
    matches!(timeout(ARCHIVE_TIME_MAX, ask).await, Ok(Ok(true)))
}

const JSON: &str = "application/json";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

fn text(status: StatusCode, kind: &'static str, body: String) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::text(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
