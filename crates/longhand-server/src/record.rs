//! What an answer brings: its words for the archive, what it cost, and what it teaches.

use std::sync::Arc;

use longhand::Tokens;
use longhand::driver::{NewAnswer, Purpose, Ticket};
use longhand_archive::RequestRecord;
use longhand_core::CachePause;
use longhand_dialect::{Dialect, Reply, Stop, Usage};

use crate::cache_reach::SeenRequest;
use crate::knowledge::{ModelKnowledge, keep_learned};
use crate::listener::UnreadPart;
use crate::metrics::{Metrics, TokenFlow};
use crate::notices::Notices;
use crate::redaction::Redaction;
use crate::request::prepare::PreparedRequest;
use crate::store::now_ms;

/// Records answers.
pub(crate) struct AnswerRecorder {
    knowledge: Arc<ModelKnowledge>,
    metrics: Arc<Metrics>,
    redaction: Redaction,
    notices: Arc<Notices>,
}

impl AnswerRecorder {
    pub(crate) fn new(
        knowledge: &Arc<ModelKnowledge>,
        metrics: &Arc<Metrics>,
        redaction: &Redaction,
        notices: &Arc<Notices>,
    ) -> Self {
        Self {
            knowledge: Arc::clone(knowledge),
            metrics: Arc::clone(metrics),
            redaction: redaction.clone(),
            notices: Arc::clone(notices),
        }
    }

    /// Has an answer archived after the request that it answers, with what of it could not be read, and learns from
    /// what it took. Returns what a user should know as well.
    pub(crate) fn record(
        &self,
        prepared: &PreparedRequest,
        reply: Option<Reply>,
        unread: Option<UnreadPart>,
    ) -> (Option<Ticket>, Option<String>) {
        let admitted = &prepared.source.admitted;
        let is_read = reply.is_some();
        let reply = self.redaction.reply(reply.unwrap_or_else(Reply::unread));
        self.learn(prepared, &reply);
        let mut request = self.bill(prepared, &reply, reply.usage.unwrap_or_default());
        request.answer =
            reply.id.clone().filter(|_| admitted.placed.dialect() == Dialect::Responses);
        let (mut answer, unread) = answer_of(prepared, reply, is_read, unread);
        let kept = unread.as_ref().map(|part| part.kept(request.at_ms, self.redaction.redactor()));
        let notice = unread.zip(kept.as_ref()).and_then(|(part, kept)| {
            self.metrics.unread(part.why);
            self.notices.unread(&prepared.source, part.why, kept)
        });
        // What is left out of the archive is left out altogether.
        let store = &admitted.store;
        answer.unread = kept.filter(|_| !store.forgets).map(|kept| kept.note());
        (store.answered(&admitted.placed, answer, request), notice)
    }

    /// Logs the input tokens of a request that was repeated after a recall. Its output is counted with the answer
    /// that the client sees.
    pub(crate) fn record_recall(&self, prepared: &PreparedRequest, reply: &Reply) {
        let usage = Usage { output: 0, ..reply.usage.unwrap_or_default() };
        let request = self.bill(prepared, reply, usage);
        if prepared.source.is_recorded() {
            prepared.source.admitted.store.log(&prepared.source.admitted.placed, request);
        }
    }

    /// Learns how the model counts, what it takes, and how far its cache reaches.
    fn learn(&self, prepared: &PreparedRequest, reply: &Reply) {
        let PreparedRequest { source, window, .. } = prepared;
        let (owner, model) = (source.admitted.caller.owner(), source.model());
        let ModelKnowledge { calibration, cache_reach, .. } = &*self.knowledge;
        let usage = reply.usage.unwrap_or_default();
        let bytes = source.sent().bytes().len() as u64;
        keep_learned(source, calibration.saw(owner, model, window.after, (usage.input, bytes)));
        if source.window.purpose == Purpose::Turn && reply.usage.is_some() {
            let idle_ms = source.window.idle_ms.unwrap_or(0);
            let life_ms = source.sent().cache_life_ms();
            let request = SeenRequest {
                session: source.admitted.session().id,
                batch: window.batch,
                pause: CachePause { life_ms, idle_ms },
            };
            cache_reach.saw(owner, model, request, (usage.input, usage.cached_input));
        }
        if reply.stop == Stop::Window {
            let tokens = window.after.unwrap_or(Tokens::ZERO);
            let usage = (usage.input, usage.output);
            keep_learned(source, calibration.filled(owner, model, tokens, usage));
        }
    }

    /// Counts what an answer took. Returns the line for the request log.
    fn bill(&self, prepared: &PreparedRequest, reply: &Reply, usage: Usage) -> RequestRecord {
        let PreparedRequest { source, window, .. } = prepared;
        let model = self.redaction.text(reply.model.as_deref().unwrap_or_else(|| source.model()));
        let price = self.knowledge.models.get(&model).price;
        let cost_micros = price.map(|price| longhand_model::cost_micros(&price, &usage));
        self.metrics.flow(TokenFlow::Billed, usage.input);
        self.metrics.flow(TokenFlow::Cached, usage.cached_input);
        self.metrics.flow(TokenFlow::Output, usage.output);
        if let Some(micros) = cost_micros {
            self.metrics.cost.inc_by(micros as f64 / 1e6);
        }
        RequestRecord {
            at_ms: now_ms(),
            preamble: Some(source.admitted.placed.preamble),
            head: source.admitted.placed.trail.head(),
            batch: window.batch,
            model: model.into_owned(),
            agent: source.admitted.client.agent.clone(),
            limit: self.knowledge.limit_of(source).map_or(0, |limit| limit.0),
            before: window.before.map_or(usage.input, |before| before.0),
            window: window.after.map_or(usage.input, |after| after.0),
            sent: usage.input,
            cached: usage.cached_input,
            output: usage.output,
            cost_micros,
            edits: window.edits as u64,
            answer: None,
            is_cut: reply.stop == Stop::Other("cut".to_owned()),
            is_aside: source.window.purpose == Purpose::Aside,
            is_bypassed: false,
        }
    }
}

/// The messages of a reply; what is no message in its format is kept as unread.
fn answer_of(
    prepared: &PreparedRequest,
    reply: Reply,
    is_read: bool,
    mut unread: Option<UnreadPart>,
) -> (NewAnswer, Option<UnreadPart>) {
    let request = &prepared.source.admitted.placed;
    let message = reply.message.clone();
    let answer = if is_read { request.answer(reply) } else { None };
    if is_read && answer.is_none() {
        unread.get_or_insert_with(|| UnreadPart::message(message));
    }
    (answer.unwrap_or_else(|| request.no_answer()), unread)
}
