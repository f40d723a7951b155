//! Answering a client that orders a summary of its conversation, from what the archive has.

use std::sync::Arc;

use hyper::Response;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use longhand::Tokens;
use longhand::driver::{Computing, HandedOver};
use longhand_archive::RequestRecord;
use longhand_dialect::{CompactionOrder, SaidText, SummaryForm, sealed_content};
use tokio::time::timeout;

use crate::answer::ResponseBody;
use crate::headers;
use crate::memo;
use crate::passage::Passage;
use crate::proxy::Shared;
use crate::request::collect::CollectedBody;
use crate::request::sealed;
use crate::request::source::RequestSource;
use crate::request::{PrepareError, Recording, RequestContext};
use crate::store::now_ms;
use crate::turns::Workers;

/// The most tokens of a summary.
const SUMMARY_TOKENS_MAX: Tokens = Tokens(8_000);

/// A summary has at most one in so many tokens of its conversation.
const SUMMARY_PARTS: u64 = 3;

/// A fold that a client gets as the summary that it ordered.
struct OrderedSummary {
    source: Arc<RequestSource>,
    made: HandedOver,
}

impl Passage<'_> {
    /// The answer to an order that is known, made without the upstream; `None` for every other request, and if
    /// anything on our side fails: then the request goes on as it came.
    pub(crate) async fn compaction(
        &mut self,
        context: &RequestContext,
        body: &CollectedBody,
    ) -> Option<Response<ResponseBody>> {
        let is_ours = self.shared.settings.answer_compactions
            && !context.as_is
            && !context.forgets
            && context.recording == Recording::Archived;
        let text = body.text.as_ref().ok().filter(|_| is_ours)?;
        let order = CompactionOrder::of(context.dialect, text)?;
        // A provider that knows such items makes its own.
        if order.form == SummaryForm::Sealed && context.upstream_knows_options {
            return None;
        }
        let opening = memo::key(&context.caller, text);
        let workers = Workers::new(&self.shared.turns, context.caller.owner(), opening);
        let conversation = Arc::new(order.conversation.clone());
        let (shared, context) = (Arc::clone(self.shared), context.clone());
        let work = tokio::spawn(shared.ordered_summary(context, conversation, workers));
        let made = timeout(self.shared.settings.deadline, work).await;
        let OrderedSummary { source, made } = made.ok()?.ok()?.ok()??;
        self.log_line.added();
        Some(self.answer(&order, &source, &made))
    }

    fn answer(
        &mut self,
        order: &CompactionOrder,
        source: &RequestSource,
        made: &HandedOver,
    ) -> Response<ResponseBody> {
        let (owner, session) = (source.admitted.caller.owner(), source.admitted.session().id);
        let is_sealed = order.form == SummaryForm::Sealed;
        let text = if is_sealed {
            sealed_content(&sealed::reference(owner, session, made.batch, &made.text))
        } else {
            order.form.write(&made.text)
        };
        let at_ms = now_ms();
        let said = SaidText {
            id: &format!("longhand_{at_ms:x}"),
            model: source.model(),
            at: at_ms / 1_000,
            text: &text,
            tokens: made.tokens.0,
        };
        let (kind, body) = if is_sealed {
            said.compaction_body(order.streams)
        } else {
            said.body(source.dialect(), order.streams)
        };
        let store = &source.admitted.store;
        store.summarised(&source.admitted.placed, &SummaryForm::Plain.write(&made.text));
        store.log(&source.admitted.placed, line(source, made, at_ms));
        self.log_line.compaction(order.agent, made.before, made.tokens);
        self.log_line.name("model", source.model());
        self.log_line.name("session", source.session_name().unwrap_or_default());
        let mut response = Response::new(ResponseBody::text(body));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert(headers::OUTCOME, HeaderValue::from_static("answered"));
        if let Some(Ok(session)) = source.session_name().map(HeaderValue::from_str) {
            headers.insert(headers::SESSION, session);
        }
        headers.insert(headers::BEFORE, made.before.0.into());
        headers.insert(headers::AFTER, made.tokens.0.into());
        response
    }
}

/// The line of the request log: no model has read or written anything.
fn line(source: &RequestSource, made: &HandedOver, at_ms: i64) -> RequestRecord {
    let placed = &source.admitted.placed;
    RequestRecord {
        at_ms,
        preamble: Some(placed.preamble),
        head: placed.trail.head(),
        model: source.model().to_owned(),
        agent: source.admitted.client.agent.clone(),
        before: made.before.0,
        cost_micros: Some(0),
        is_aside: true,
        ..RequestRecord::default()
    }
}

impl Shared {
    /// Folds the conversation of an order, in its place in its session, once the archive has it all.
    async fn ordered_summary(
        self: Arc<Self>,
        context: RequestContext,
        text: Arc<String>,
        workers: Workers,
    ) -> Result<Option<OrderedSummary>, PrepareError> {
        let mut offers_recall = None;
        for _ in 0..2 {
            let (shared, of) = (Arc::clone(&self), context.clone());
            let conversation = Arc::clone(&text);
            let parse = move || shared.parser.parse(&of, &conversation, offers_recall);
            let parsed = workers.compute(parse).await?;
            // What the provider holds is not in the request.
            if parsed.details.fields.previous.is_some() || parsed.details.fields.stored.is_some() {
                return Ok(None);
            }
            let _planning = parsed.reserve(&self.load)?;
            let source = match self.admit(&context, parsed, workers.clone()).await {
                Err(PrepareError::Tools { offers_recall: has }) => {
                    offers_recall = Some(has);
                    continue;
                }
                source => Arc::new(source?),
            };
            let made = self.windows.handed_over(&source).await?;
            // A handle that does not open yet is no good to whoever has nothing else.
            let is_kept = source.window.is_durable().await;
            return Ok(made.filter(|_| is_kept).map(|made| OrderedSummary { source, made }));
        }
        Ok(None)
    }
}

/// The most that a summary of so many tokens may have.
pub(crate) fn summary_max(conversation: Tokens) -> Tokens {
    SUMMARY_TOKENS_MAX.min(Tokens(conversation.0 / SUMMARY_PARTS))
}
