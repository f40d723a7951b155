//! Passing a request on as it is.

use std::sync::atomic::Ordering;

use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_LENGTH;
use hyper::{HeaderMap, Response, StatusCode};
use longhand_model::http::{self, HttpError, RequestBody};

use crate::answer::{RelayedBody, ResponseBody};
use crate::limited::LimitedBody;
use crate::passage::Passage;
use crate::upstream::{AnswerHead, UpstreamResponse};
use crate::{envelope, headers};

impl Passage<'_> {
    /// Passes a request on as it is.
    pub(crate) async fn pass(mut self, body: RequestBody) -> Response<ResponseBody> {
        match self.forward(headers::onward(&self.parts.headers), body).await {
            Ok(response) => {
                let (head, rest) = AnswerHead::split(response);
                self.log_line.upstream_status(head.status);
                head.response(RelayedBody::new(Vec::new(), rest, self.log_line))
            }
            Err(error) => error,
        }
    }

    /// Passes a body on as it comes, as far as it may go, after what was read of it.
    pub(crate) async fn pass_stream(
        self,
        begun: Option<Bytes>,
        rest: Incoming,
    ) -> Response<ResponseBody> {
        let bytes_max = self.shared.settings.body_bytes_max;
        let length = headers::number(&self.parts.headers, &CONTENT_LENGTH);
        if length.is_some_and(|length| length > bytes_max) {
            return self.refuse(StatusCode::PAYLOAD_TOO_LARGE, "the request is too large");
        }
        let (provider, limited) = (self.provider, LimitedBody::new(begun, rest, bytes_max));
        let is_exceeded = limited.is_exceeded();
        let response = self.pass(http::boxed(limited)).await;
        // An upstream may close the connection before it is told why the request broke off.
        if is_exceeded.load(Ordering::Relaxed) && response.status() == StatusCode::BAD_GATEWAY {
            let message = "the request is too large";
            return envelope::error(provider, StatusCode::PAYLOAD_TOO_LARGE, message);
        }
        response
    }

    /// Sends a request to its upstream; if that fails, there is an answer of ours.
    pub(crate) async fn forward(
        &mut self,
        headers: HeaderMap,
        body: RequestBody,
    ) -> Result<UpstreamResponse, Response<ResponseBody>> {
        let Some(address) = self.upstream.address(&self.parts.uri) else {
            let message = "the path is not one of the upstream's";
            return Err(self.failed(StatusCode::BAD_REQUEST, message));
        };
        let sent = self.upstream.send(self.parts.method.clone(), address, headers, body).await;
        sent.map_err(|error| self.unanswered(&error))
    }

    /// The answer for a request that the upstream did not answer.
    fn unanswered(&mut self, error: &HttpError) -> Response<ResponseBody> {
        let cause = error.to_string();
        let (status, message) = match error {
            HttpError::BrokeOff => {
                self.log_line.name("cause", &cause);
                let message = "the request is too large or broke off";
                return self.failed(StatusCode::PAYLOAD_TOO_LARGE, message);
            }
            HttpError::Late | HttpError::Silent => {
                (StatusCode::GATEWAY_TIMEOUT, "the upstream does not answer")
            }
            _ => (StatusCode::BAD_GATEWAY, "the upstream cannot be reached"),
        };
        self.log_line.unanswered(&cause);
        let address = self.upstream.shown();
        self.shared.warnings.once(&format!("{message}: {address}: {cause}"));
        self.failed(status, message)
    }

    fn failed(&mut self, status: StatusCode, message: &str) -> Response<ResponseBody> {
        self.log_line.status(status);
        self.log_line.name("error", message);
        envelope::error(self.provider, status, message)
    }
}
