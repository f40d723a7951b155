//! Sending a window, and sending a smaller one if it is too long.

use std::sync::Arc;
use std::time::Instant;

use hyper::StatusCode;
use hyper::body::Bytes;
use longhand_dialect::Overflow;
use longhand_model::http;
use tokio::time::timeout;

use crate::answer::UpstreamAnswer;
use crate::headers;
use crate::passage::{Exit, Passage};
use crate::recall::{self, RepeatableRequest};
use crate::recovery::peek;
use crate::request::collect::CollectedBody;
use crate::request::commit;
use crate::request::prepare::{NOT_ARCHIVED, PreparedRequest};
use crate::request::window::RequestWindow;
use crate::request::{Recording, RequestContext};
use crate::upstream::AnswerHead;

/// How often a request that was too long is shortened and sent again.
const RETRIES_MAX: usize = 2;

/// A request that was sent, and the answer that came.
pub(crate) struct AnsweredRequest {
    pub(crate) prepared: PreparedRequest,
    pub(crate) answer: UpstreamAnswer,
    /// How often it was shortened since it was too long.
    pub(crate) retries: usize,
    pub(crate) recording: Recording,
}

impl Passage<'_> {
    /// Sends a request within its limit, and again if it is still too long; answers the calls of the recall tool.
    pub(crate) async fn send(
        &mut self,
        context: &RequestContext,
        body: &CollectedBody,
        mut prepared: PreparedRequest,
    ) -> Result<AnsweredRequest, Exit> {
        let mut retries = 0;
        loop {
            self.wait_until_archived(&prepared).await?;
            let (mut answer, overflow) = self.try_send(&prepared, &body.bytes).await?;
            if let Some(overflow) = overflow
                && retries < RETRIES_MAX
                && !context.as_is
            {
                retries += 1;
                if let Some(smaller) = self.smaller(&prepared, overflow).await {
                    self.shared.metrics.recovered.inc();
                    prepared.window = smaller;
                    continue;
                }
            }
            if prepared.source.changes.offers_recall
                && answer.head.status.is_success()
                && context.recording != Recording::Counted
                && let Some(request) = self.repeatable(&prepared)
            {
                answer = recall::answered(request, answer).await;
            }
            return Ok(AnsweredRequest { prepared, answer, retries, recording: context.recording });
        }
    }

    /// Waits until what a window leaves out is archived, and the whole request where that must be.
    async fn wait_until_archived(&self, prepared: &PreparedRequest) -> Result<(), Exit> {
        let source = &prepared.source;
        let may_send = self.shared.windows.waiter.may_send(source).await;
        let must_archive = self.shared.settings.require_archive;
        if must_archive && !(may_send && commit::archived(source).await) {
            return Err(Exit::Refused(StatusCode::SERVICE_UNAVAILABLE, NOT_ARCHIVED));
        }
        Ok(())
    }

    /// Sends a window once, and looks whether it was found too long.
    async fn try_send(
        &mut self,
        prepared: &PreparedRequest,
        body: &Bytes,
    ) -> Result<(UpstreamAnswer, Option<Overflow>), Exit> {
        let PreparedRequest { source, window, .. } = prepared;
        let onward = headers::onward_readable(&self.parts.headers, window);
        let body = window.body.clone().unwrap_or_else(|| body.clone());
        let sent = Instant::now();
        let response = self.forward(onward, http::full(body)).await;
        let response = response.map_err(|error| Exit::Answered(Box::new(error)))?;
        self.log_line.answered(sent.elapsed().as_secs_f64());
        let (head, mut rest) = AnswerHead::split(response);
        let (begun, overflow) = peek(&head, source, &mut rest).await;
        Ok((UpstreamAnswer { head, begun, rest }, overflow))
    }

    /// A smaller window, if it is made in time.
    async fn smaller(
        &self,
        prepared: &PreparedRequest,
        overflow: Overflow,
    ) -> Option<RequestWindow> {
        let (shared, prepared) = (Arc::clone(self.shared), prepared.clone());
        let make = async move {
            shared.windows.smaller(&prepared.source, &prepared.window, overflow).await
        };
        timeout(self.shared.settings.deadline, tokio::spawn(make)).await.ok()?.ok()?
    }

    /// The request as it can be sent once more after a recall.
    fn repeatable(&self, prepared: &PreparedRequest) -> Option<RepeatableRequest> {
        Some(RepeatableRequest {
            upstream: self.upstream.clone(),
            method: self.parts.method.clone(),
            address: self.upstream.address(&self.parts.uri)?,
            headers: headers::onward_readable(&self.parts.headers, &prepared.window),
            prepared: prepared.clone(),
            shared: Arc::clone(self.shared),
        })
    }
}
