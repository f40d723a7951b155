//! Answers of the console, with the headers that keep its page to itself.

use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Response, StatusCode};
use longhand::ArchiveError;
use longhand::app::AppError;
use serde::Serialize;
use serde_json::json;

use super::access::Viewer;
use crate::answer::ResponseBody;

/// What the page may do: load its own files, and ask its own server.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(super) const JSON: &str = "application/json";

/// Why a question is not answered.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    report: serde_json::Value,
    /// The method that would be right.
    allow: Option<&'static str>,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, kind: &str, message: &str) -> Self {
        Self::with_hint(status, kind, message, None)
    }

    pub(super) fn with_hint(
        status: StatusCode,
        kind: &str,
        message: &str,
        hint: Option<&str>,
    ) -> Self {
        let candidates: [(); 0] = [];
        let report = json!({
            "error": kind, "message": message, "hint": hint, "candidates": candidates,
        });
        Self { status, report, allow: None }
    }

    pub(super) fn bad(message: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    pub(super) fn busy(message: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message)
    }

    pub(super) fn not_found(message: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    pub(super) fn method(allow: &'static str) -> Self {
        let message = format!("this answers {allow} alone");
        let refusal = Self::new(StatusCode::METHOD_NOT_ALLOWED, "wrong_method", &message);
        Self { allow: Some(allow), ..refusal }
    }

    /// What the application layer says. What an archive says of itself is for those who see all of it.
    pub(super) fn of(error: &AppError, viewer: Viewer) -> Self {
        let status = status_of(error);
        let mut report = error.report();
        if status.is_server_error() && viewer != Viewer::Everything {
            "the archive could not answer".clone_into(&mut report.message);
            report.hint = None;
        }
        Self { status, report: serde_json::to_value(report).unwrap_or_default(), allow: None }
    }

    pub(super) fn into_response(self) -> Response<ResponseBody> {
        let mut response = with_type(self.status, JSON, self.report.to_string().into_bytes());
        if let Some(allow) = self.allow {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
        }
        response
    }
}

fn status_of(error: &AppError) -> StatusCode {
    match error.kind() {
        "unknown_session" | "no_such_entry" | "no_such_request" | "no_such_round"
        | "unknown_handle" | "not_kept" => StatusCode::NOT_FOUND,
        "ambiguous_name" | "other_batch" | "name_taken" => StatusCode::CONFLICT,
        "foreign_owner" => StatusCode::FORBIDDEN,
        "bad_name" | "empty_query" | "bad_regex" | "bad_page" | "bad_handle" | "bad_import" => {
            StatusCode::BAD_REQUEST
        }
        _ => match error.archive_error() {
            Some(ArchiveError::Busy { .. }) => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        },
    }
}

/// An answer as JSON.
pub(super) fn json<T: Serialize>(answer: &T) -> Result<Vec<u8>, AppError> {
    Ok(serde_json::to_vec(answer).map_err(std::io::Error::other)?)
}

/// An answer of some type that nobody keeps.
pub(super) fn with_type(
    status: StatusCode,
    kind: &'static str,
    body: Vec<u8>,
) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::Text(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    guarded(response)
}

/// The same with the headers that all answers of the console have.
pub(super) fn guarded(mut response: Response<ResponseBody>) -> Response<ResponseBody> {
    let headers = response.headers_mut();
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
