//! The paths that are ours: health, readiness and metrics.

use std::time::Duration;

use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, Response, StatusCode};
use longhand::time;
use serde_json::json;
use std::sync::Arc;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::answer::{Body, known};
use crate::metrics::Metrics;
use crate::store::Store;

/// How all paths of ours begin; no provider has such a path.
pub(crate) const PREFIX: &str = "/longhand/";

/// The longest that an archive may take to say that it is there.
const ARCHIVE_TIME_MAX: Duration = Duration::from_secs(2);

/// How many sessions are named of which something is missing.
const MISSING_MAX: usize = 100;

/// Answers a request to a path of ours.
pub(crate) async fn answer(
    method: &Method,
    path: &str,
    metrics: &Metrics,
    store: &Arc<Store>,
    archive_is_required: bool,
    names_sessions: bool,
) -> Response<Body> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return text(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "only GET\n".to_owned());
    }
    match path.strip_prefix(PREFIX).unwrap_or_default() {
        "health" => text(StatusCode::OK, JSON, json!({"status": "ok"}).to_string()),
        "ready" => {
            let archive = is_there(Arc::clone(store)).await;
            let ready = archive || !archive_is_required;
            let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
            let trouble = store.trouble();
            let missing = store.missing().into_iter().take(MISSING_MAX).map(|lost| {
                let [first, last] = [lost.first_ms, lost.last_ms].map(time::format);
                // Who has a key of their own does not learn what others call their sessions.
                let session = names_sessions.then_some(lost.session);
                json!({
                    "session": session, "messages": lost.messages, "first": first, "last": last,
                    "given_up": lost.given_up,
                })
            });
            let body = json!({
                "ready": ready, "archive": archive, "archive_queue": metrics.archive_queued.get(),
                "unarchived": metrics.unarchived.get(), "troubled_sessions": metrics.troubled.get(),
                "failing_since": trouble.as_ref().map(|trouble| time::format(trouble.since_ms)),
                "failing": trouble.map(|trouble| trouble.why), "missing": missing.collect::<Vec<_>>(),
            });
            text(status, JSON, body.to_string())
        }
        "metrics" => text(StatusCode::OK, OPEN_METRICS, metrics.text()),
        _ => text(
            StatusCode::NOT_FOUND,
            "text/plain",
            "there are /longhand/health, /longhand/ready and /longhand/metrics\n".to_owned(),
        ),
    }
}

/// Whether the archive answers and takes what it is given.
async fn is_there(store: Arc<Store>) -> bool {
    let ask = spawn_blocking(move || store.is_sound());
    matches!(timeout(ARCHIVE_TIME_MAX, ask).await, Ok(Ok(true)))
}

const JSON: &str = "application/json";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

fn text(status: StatusCode, kind: &'static str, body: String) -> Response<Body> {
    let mut response = Response::new(known(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
