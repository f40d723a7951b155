//! What an answer brings: its words for the archive, what it cost, and what it teaches.

use longhand::Tokens;
use longhand::unread::{UnreadAnswer, UnreadContent};
use longhand_archive::Request;
use longhand_dialect::{Dialect, Reply, Stop, Unread, Usage};

use super::{NOTICED_MAX, Window, Windows};
use crate::archivist::Ticket;
use crate::asked::{Asked, Purpose};
use crate::calibration;
use crate::listener::UnreadPart;
use crate::lock::lock;
use crate::metrics::Flow;
use crate::store::now_ms;

impl Windows {
    /// Has an answer archived after the request that it answers, with what of it could not be read, and learns from
    /// what it took. Gives what a user should know as well.
    pub(crate) fn answered(
        &self,
        asked: &Asked,
        sent: &Window,
        reply: Option<Reply>,
        mut unread: Option<UnreadPart>,
    ) -> (Option<Ticket>, Option<String>) {
        let is_read = reply.is_some();
        let reply = self.redaction.reply(reply.unwrap_or_else(Reply::unread));
        let usage = reply.usage.unwrap_or_default();
        let (owner, model) = (asked.heard.caller.owner(), asked.model());
        let bytes = asked.shown().bytes().len() as u64;
        let told = self.calibration.saw(owner, model, sent.after, (usage.input, bytes));
        Self::keep_learned(asked, told);
        if asked.purpose == Purpose::Turn && reply.usage.is_some() {
            let request = (asked.heard.session.id, sent.batch);
            self.cache_reach.saw(owner, model, request, (usage.input, usage.cached_input));
        }
        let mut request = self.bill(asked, sent, &reply, usage);
        if reply.stop == Stop::Window {
            let sent_tokens = sent.after.unwrap_or(Tokens::ZERO);
            let used = (usage.input, usage.output);
            Self::keep_learned(asked, self.calibration.filled(owner, model, sent_tokens, used));
        }
        request.answer = reply.id.clone().filter(|_| asked.dialect() == Dialect::Responses);
        let redactor = self.settings.redactor.as_deref();
        let message = reply.message.clone();
        let answer = if is_read { asked.answer(reply) } else { None };
        if is_read && answer.is_none() {
            unread.get_or_insert_with(|| UnreadPart::message(message));
        }
        let mut answer = answer.unwrap_or_else(|| asked.no_answer());
        let store = &asked.heard.store;
        let kept = unread.as_ref().map(|part| part.kept(request.at_ms, redactor));
        let notice = unread.zip(kept.as_ref()).and_then(|(part, kept)| {
            self.metrics.unread(part.why);
            self.tell_of(asked, part.why, kept)
        });
        // What is left out of the archive is left out altogether.
        answer.unread = kept.filter(|_| !store.forgets).map(|kept| kept.record());
        (store.answered(&asked.heard, answer, request), notice)
    }

    /// What to tell a user of an answer that could not be read: now in the log, and with the next answer of its
    /// session.
    fn tell_of(&self, asked: &Asked, why: Unread, kept: &UnreadAnswer) -> Option<String> {
        let notice_of = |what: &str| format!("an answer could not be read, {what}: {why}");
        let notice = match (why, &kept.content) {
            (_, UnreadContent::Withheld) => notice_of(
                "and is not kept either, since secrets are to be taken out and cannot be found in it",
            ),
            // The client saw it break off, and the request log has it.
            (Unread::Cut, _) => return None,
            (Unread::Encoding, _) => {
                format!("an answer was read with signs in the place of what is no text: {why}")
            }
            _ if asked.heard.store.forgets => notice_of("and is not archived"),
            _ => notice_of(&format!(
                "all of it, and is kept as it came (`longhand expand {}`)",
                kept.handle()
            )),
        };
        let mut notices = lock(&self.unread_notices);
        if notices.len() >= NOTICED_MAX {
            notices.clear();
        }
        notices.insert(asked.heard.session.id, notice.clone());
        Some(notice)
    }

    /// Keeps what a request taught of its model.
    pub(super) fn keep_learned(asked: &Asked, told: Option<String>) {
        if let Some(told) = told.filter(|_| asked.is_recorded()) {
            asked.heard.store.derive(asked.heard.session.id, calibration::key(asked.model()), told);
        }
    }

    /// Has what a model read noted when it went on from a call of ours; what it wrote is counted with the
    /// answer that the client sees.
    pub(crate) fn followed(&self, asked: &Asked, sent: &Window, reply: &Reply) {
        let usage = Usage { output: 0, ..reply.usage.unwrap_or_default() };
        let request = self.bill(asked, sent, reply, usage);
        if asked.is_recorded() {
            asked.heard.store.log(&asked.heard, request);
        }
    }

    /// Counts what an answer took; gives the line for the request log.
    fn bill(&self, asked: &Asked, sent: &Window, reply: &Reply, usage: Usage) -> Request {
        let model = self.redaction.text(reply.model.as_deref().unwrap_or_else(|| asked.model()));
        let price = self.models.get(&model, &self.settings).price;
        let cost_micros = price.map(|price| longhand_model::cost_micros(&price, &usage));
        self.metrics.flow(Flow::Billed, usage.input);
        self.metrics.flow(Flow::Cached, usage.cached_input);
        self.metrics.flow(Flow::Output, usage.output);
        if let Some(micros) = cost_micros {
            self.metrics.cost.inc_by(micros as f64 / 1e6);
        }
        Request {
            at_ms: now_ms(),
            preamble: Some(asked.heard.preamble),
            head: asked.heard.trail.path.last().copied(),
            batch: sent.batch,
            model: model.into_owned(),
            agent: asked.heard.client.agent.clone(),
            limit: self.limit(asked).map_or(0, |limit| limit.0),
            before: sent.before.map_or(usage.input, |before| before.0),
            window: sent.after.map_or(usage.input, |after| after.0),
            sent: usage.input,
            cached: usage.cached_input,
            output: usage.output,
            cost_micros,
            edits: sent.edits as u64,
            answer: None,
            is_cut: reply.stop == Stop::Other("cut".to_owned()),
            is_aside: asked.purpose == Purpose::Aside,
            is_bypassed: false,
        }
    }
}
