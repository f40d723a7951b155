//! What of a request is sent.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use longhand::{Call, Tokens};
use longhand_core::{Budget, Plan, Policy, Scale, Tally, folded_messages, original};
use longhand_dialect::{
    Binding, Conversation, Dialect, DialectError, Options, Overflow, Reply, Stop, Usage, read,
    read_after, read_shared, without_options,
};
use longhand_meter::{ImageRule, MeterError, MeterSpec, ModelFacts, Provider};
use serde_json::json;

use crate::archivist::Ticket;
use crate::asked::{Asked, SharedMeter};
use crate::calibration::{Calibration, TooLong};
use crate::digest::Digests;
use crate::held::{Held, Holdings};
use crate::lineage::{Root, Thread};
use crate::memo::{self, Memos};
use crate::metrics::{Flow, Metrics, Rung};
use crate::recorder::{Heard, Kept, Recorder, besides};
use crate::route::{Caller, Fields, Route};
use crate::sticky::Sticky;
use crate::{Settings, held, recall};

/// Makes windows.
pub(crate) struct Windows {
    settings: Settings,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) metrics: Arc<Metrics>,
    digests: Digests,
    calibration: Calibration,
    holdings: Holdings,
    memos: Memos,
    meters: Mutex<HashMap<String, SharedMeter>>,
    /// The sessions whose users were told that their budget is too small.
    noticed: Mutex<HashSet<String>>,
}

/// How many sessions are remembered as noticed.
const NOTICED_MAX: usize = 10_000;

/// What is sent for a request.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// The bytes; those of the request if there are none.
    pub(crate) body: Option<Bytes>,
    /// The size of the request, where it was counted.
    pub(crate) before: Option<Tokens>,
    /// The size of the window, where it was counted.
    pub(crate) after: Option<Tokens>,
    /// How many edits it has.
    pub(crate) edits: usize,
    /// The edits, as they are kept.
    pub(crate) sticky: Option<Arc<Sticky>>,
    /// How far it is over its limit.
    pub(crate) shortfall: Tokens,
    /// Whether the provider is told to drop thinking that the edits void.
    pub(crate) drops_thinking: bool,
}

/// Why a request goes on as it is.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    #[error(transparent)]
    Dialect(#[from] DialectError),
    #[error(transparent)]
    Meter(#[from] MeterError),
    #[error("the request has no messages")]
    Empty,
}

impl Windows {
    pub(crate) fn new(settings: &Settings, recorder: Recorder, metrics: Arc<Metrics>) -> Self {
        Self {
            settings: settings.clone(),
            recorder: Arc::new(recorder),
            digests: Digests::new(settings),
            metrics,
            calibration: Calibration::default(),
            holdings: Holdings::default(),
            memos: Memos::default(),
            meters: Mutex::default(),
            noticed: Mutex::default(),
        }
    }

    /// Reads a request, finds its session, has what is new archived, and makes the window.
    ///
    /// What it asks of its provider is done here unless the upstream knows how to. Where the archive has
    /// to be asked and that may not be, there is nothing.
    pub(crate) fn prepare(
        &self,
        route: Route,
        text: Arc<String>,
        caller: &Caller,
        upstream_knows_options: bool,
        may_wait: bool,
    ) -> Result<Option<(Asked, Window)>, Trouble> {
        let mut options = Options::default();
        if !upstream_knows_options {
            options = Options::of(route.dialect, &text);
        }
        let stripped =
            if options.is_empty() { None } else { without_options(route.dialect, &text) };
        let text = stripped.map_or(text, Arc::new);
        let offer =
            self.settings.expand_tool.then(|| recall::offer(route.dialect, &text)).flatten();
        let recalls = offer.is_some();
        let drops_thinking = offer.as_ref().is_some_and(|offer| offer.drops_thinking);
        let text = offer.map_or(text, |offer| Arc::new(offer.request));
        let mut stripped =
            (!options.is_empty() || recalls).then(|| Bytes::from(text.as_bytes().to_vec()));
        let mut before = self.memos.find(&caller.root(None), route.dialect, &text);
        let mut conversation = match &before {
            Some(before) => read_after(text, &before.conversation)?,
            None => read_shared(text, Some(route.dialect))?,
        };
        let fields = Fields::of(&conversation);
        let mut root = caller.root(fields.previous.as_ref().or(fields.stored.as_ref()));
        let mut held = None;
        if fields.previous.is_some() && !may_wait {
            return Ok(None);
        }
        if let Some(id) = &fields.previous
            && let Some((whole, own)) = self.held(&caller.root(None), id, conversation.bytes())
        {
            let waits = own.behind.request(conversation.bytes());
            stripped = waits.map(Bytes::from).or(stripped);
            conversation = read(whole.into_bytes(), Some(route.dialect))?;
            root = caller.root(None);
            held = Some(own);
        }
        conversation.keep_thinking();
        before = before.filter(|before| before.root.start == root.start);
        let messages = &conversation.messages;
        let shared =
            before.as_ref().map_or(0, |own| memo::shared(&own.conversation.messages, messages));
        let thread = match &before {
            Some(before) => Thread::going_on(root.start, messages, &before.thread, shared),
            None => Thread::of(root.start, messages),
        };
        if thread.links.is_empty() {
            return Err(Trouble::Empty);
        }
        conversation.number(thread.seqs());
        if !may_wait && self.recorder.may_ask(&root, &thread.links) {
            return Ok(None);
        }
        let with = besides(&conversation, &thread);
        let meter = self.meter(&conversation)?;
        let scale = Scale::new(&*meter);
        let fixed = conversation.attributes.iter().map(|text| scale.text(&text.decode())).sum();
        self.recorder.remember(&root, &thread.links);
        let weights = before.as_ref().and_then(|before| weights(before, shared, &thread));
        let weights = Mutex::new(weights);
        let heard = Arc::new(Heard { conversation, root, thread, with, weights });
        self.memos.keep(&heard, before.as_ref(), shared);
        let place = if route.counts { None } else { self.recorder.heard(&heard) };
        let (session, aside, ticket) = match place {
            Some(place) => (Some(place.session), place.aside, place.ticket),
            None => (None, false, None),
        };
        let tickets = Mutex::new(if session.is_some() { vec![ticket] } else { Vec::new() });
        let asked = Asked {
            heard,
            session,
            aside,
            meter,
            fixed,
            fields,
            options,
            recalls,
            drops_thinking,
            behind: Mutex::default(),
            stripped,
            held,
            tickets,
        };
        let window = match self.limit(&asked) {
            Some(limit) => self.within(&asked, limit)?,
            None => Window::untouched(&asked),
        };
        Ok(Some((asked, window)))
    }

    /// The whole of a request that goes on from an answer, and what the provider has of it.
    fn held(&self, root: &Root, id: &str, request: &str) -> Option<(String, Held)> {
        let archive = &**self.recorder.archive();
        let held = self.holdings.find(archive, root.owner, id)?;
        // The answer may still be on its way into the archive.
        self.recorder.settle();
        let whole = held::whole(request, &held.items(archive)?)?;
        Some((whole, held))
    }

    /// Has an answer archived after the request that it answers, and learns from what it took.
    pub(crate) fn answered(&self, asked: &Asked, sent: &Window, reply: &Reply) -> Option<Ticket> {
        let usage = reply.usage.unwrap_or_default();
        if let Some(after) = sent.after {
            self.calibration.saw(asked.model(), after, usage.input);
        }
        let call = self.bill(asked, reply, usage);
        if reply.stop == Stop::Window {
            let sent_tokens = sent.after.unwrap_or(Tokens::ZERO);
            self.calibration.filled(asked.model(), sent_tokens, usage.input, usage.output);
        }
        let answer = asked.answer(reply, call)?;
        let tip = *answer.thread.links.last()?;
        let (session, ticket) = self.recorder.answered(&asked.heard, answer, asked.aside)?;
        if let Some(id) = reply.id.as_ref().filter(|_| asked.dialect() == Dialect::Responses)
            && let Some(last) = self.recorder.lineage().entry(&session, tip)
        {
            let edits = sent.sticky.clone();
            let behind = lock(&asked.behind).clone();
            let held = Held { session: session.clone(), entries: last + 1, edits, behind };
            let pointer = self.holdings.hold(asked.heard.root.owner, id, held);
            self.recorder.keep_json(&session, pointer);
        }
        ticket
    }

    /// Has what a model read noted when it went on from a call of ours; what it wrote is counted with the
    /// answer that the client sees.
    pub(crate) fn followed(&self, asked: &Asked, reply: &Reply) {
        let usage = Usage { output: 0, ..reply.usage.unwrap_or_default() };
        let call = self.bill(asked, reply, usage);
        if let Some(session) = &asked.session {
            self.recorder.note(session, |at_ms| call.entry(at_ms));
        }
    }

    /// Counts what an answer took.
    fn bill(&self, asked: &Asked, reply: &Reply, usage: Usage) -> Call {
        let model = reply.model.as_deref().unwrap_or_else(|| asked.model());
        let price = self.settings.prices.named(model);
        let cost_micros = price.map(|price| longhand_model::cost_micros(&price, &usage));
        self.metrics.flow(Flow::Billed, usage.input);
        self.metrics.flow(Flow::Cached, usage.cached_input);
        self.metrics.flow(Flow::Output, usage.output);
        if let Some(micros) = cost_micros {
            self.metrics.cost.inc_by(micros as f64 / 1e6);
        }
        Call {
            model: model.to_owned(),
            input: usage.input,
            cached_input: usage.cached_input,
            output: usage.output,
            cost_micros,
        }
    }

    /// The most that a request may have, if there is a most.
    pub(crate) fn limit(&self, asked: &Asked) -> Option<Tokens> {
        let model = asked.model();
        let reply = Tokens(asked.fields.reply_max.unwrap_or(0));
        let known = || {
            let facts = ModelFacts::of(model);
            let facts = match self.settings.windows.get(model) {
                Some(window) => facts.with_window(*window),
                None => facts,
            };
            facts.input_limit(reply)
        };
        let own = self.settings.budget.or_else(known);
        let limit = self.calibration.limit(model, own, reply.0);
        limit.into_iter().chain(asked.options.compact_at).min()
    }

    /// The window within a limit: with the edits of the last one as long as that fits, then with a new
    /// batch of them.
    pub(crate) fn within(&self, asked: &Asked, limit: Tokens) -> Result<Window, Trouble> {
        let conversation = asked.conversation();
        let thread = &asked.heard.thread;
        let sticky = match &asked.held {
            Some(held) => held.edits.clone(),
            None => self.newest(asked),
        };
        let mut last = None;
        let kept = sticky.and_then(|sticky| {
            let batch = sticky.batch(&conversation.path())?;
            Some((sticky, batch))
        });
        if let Some((sticky, batch)) = kept {
            let edits = batch.edits.len();
            let text = conversation.apply(&[batch]);
            let tokens = match sticky.tokens(asked.model()) {
                Some(then) => then + asked.overhead() + asked.since(thread.after(sticky.made())),
                None => asked.weigh(&text)?,
            };
            let clears = asked.wants_clearing(&text)?;
            let mut window = Window::of(asked, edits, text, tokens, limit);
            window.sticky = Some(sticky);
            if tokens <= limit && !clears {
                if asked.held.is_some() {
                    // The provider has it so.
                    window.body.clone_from(&asked.stripped);
                }
                return Ok(window);
            }
            last = Some(window);
        } else if asked.options.clear.is_none() {
            let total = asked.total();
            if total <= limit {
                let (before, after) = (Some(total), Some(total));
                return Ok(Window { before, after, ..Window::untouched(asked) });
            }
        }
        let cleared = asked.cleared().filter(|plan| plan.tokens() <= limit && !plan.is_noop());
        let digest = self.digests.digest(asked);
        let plan = cleared.unwrap_or_else(|| {
            asked.plan(&self.budget(asked, limit), self.settings.policy, &digest)
        });
        match last {
            // Where nothing fits, a break of the prefix must be worth it.
            Some(last) if !plan.fits() && last.is_nearly(plan.tokens()) => Ok(last),
            _ if plan.is_noop() => Ok(Window {
                before: Some(plan.tokens()),
                after: Some(plan.tokens()),
                shortfall: plan.shortfall,
                ..Window::untouched(asked)
            }),
            _ => {
                let text = conversation.apply(std::slice::from_ref(&plan.batch));
                let edits = plan.batch.edits.len();
                let mut window = Window::of(asked, edits, text, plan.tokens(), limit);
                window.sticky = self.keep(asked, &plan, &window, limit, digest.account().as_ref());
                self.digests.prepare(asked, &plan);
                Ok(window)
            }
        }
    }

    /// The newest edits that were made to a request's past.
    fn newest(&self, asked: &Asked) -> Option<Arc<Sticky>> {
        let links = &asked.heard.thread.links;
        let sticky = self.recorder.lineage().window(links)?;
        let Some(session) = &asked.session else { return Some(sticky) };
        // Somebody may have taken a batch back since.
        self.recorder.heed_undo(session);
        self.recorder.lineage().window(links)
    }

    /// What to tell a user, once a session: no window fits, since what every one has is too much.
    pub(crate) fn notice(&self, asked: &Asked, window: &Window) -> Option<String> {
        let after = window.after.filter(|_| window.shortfall > Tokens::ZERO)?;
        let (limit, overhead) = (self.limit(asked)?, asked.overhead());
        if overhead <= limit {
            return None;
        }
        let mut noticed = lock(&self.noticed);
        if noticed.len() >= NOTICED_MAX {
            noticed.clear();
        }
        noticed.insert(asked.session.clone()?).then(|| {
            format!(
                "system prompt and tools take {overhead} tokens of {limit}; a budget of {after} would do"
            )
        })
    }

    fn budget(&self, asked: &Asked, limit: Tokens) -> Budget {
        Budget::of(limit).with_low_water(self.settings.low_water_percent, asked.overhead())
    }

    /// Keeps a new batch of edits with its receipt.
    fn keep(
        &self,
        asked: &Asked,
        plan: &Plan,
        window: &Window,
        limit: Tokens,
        fold: Option<&serde_json::Value>,
    ) -> Option<Arc<Sticky>> {
        let session = asked.session.as_ref()?;
        let path = asked.conversation().path();
        let tokens = plan.tokens().saturating_sub(asked.overhead());
        let sticky = Arc::new(Sticky::new(&plan.batch, &path, tokens, asked.model())?);
        let Tally { stubs, clips, .. } = Tally::of(&plan.batch.edits);
        let folded = folded_messages(&plan.batch);
        self.metrics.batches.inc();
        self.metrics.fold(Rung::Stub, stubs as u64);
        self.metrics.fold(Rung::Clip, clips as u64);
        let by_model = fold.is_some_and(|fold| !fold["earlier"]["model"].is_null());
        let rung = if by_model { Rung::ModelFold } else { Rung::Fold };
        self.metrics.fold(rung, u64::from(folded > 0));
        let receipt = json!({
            "why": "budget", "budget": limit.0, "policy": policy_name(self.settings.policy),
            "tokens_before": window.before.map(|tokens| tokens.0), "tokens_after": plan.tokens().0,
            "shortfall": plan.shortfall.0, "stubbed": stubs, "clipped": clips,
            "folded": folded, "fold": fold, "window": sticky.json(),
        });
        let edits = plan.batch.edits.iter();
        let originals =
            edits.filter_map(|edit| Some((edit.handle()?, original(&path, edit)?))).collect();
        // A side call must not change what its session sends.
        let own = (!asked.aside).then(|| Arc::clone(&sticky));
        let kept = Kept { sticky: own, originals, receipt };
        let ticket = self.recorder.keep(session, kept);
        lock(&asked.tickets).push(ticket);
        Some(sticky)
    }

    /// A smaller window after an upstream has found one too long; `None` if there is no smaller one.
    ///
    /// What the upstream says of its limit and its count is remembered for the model.
    pub(crate) fn harder(
        &self,
        asked: &Asked,
        sent: &Window,
        overflow: Overflow,
    ) -> Option<Window> {
        let own = sent.after.unwrap_or_else(|| asked.total());
        let too_long = TooLong { tokens: own, reply: asked.fields.reply_max.unwrap_or(0) };
        let limit = self.calibration.overflowed(asked.model(), too_long, overflow)?;
        let window = self.within(asked, limit).ok()?;
        let smaller = window.body.is_some() && window.after.is_some_and(|after| after < own);
        smaller.then_some(window)
    }

    fn meter(&self, conversation: &Conversation) -> Result<SharedMeter, MeterError> {
        let model = conversation.model.as_deref();
        let provider = match conversation.dialect {
            Dialect::Anthropic => Provider::Anthropic,
            _ => Provider::OpenAi,
        };
        let spec = MeterSpec::for_model(model.unwrap_or_default());
        let images = ImageRule::for_model(provider, model);
        let name = format!("{spec} {images:?}");
        let mut meters = lock(&self.meters);
        if let Some(meter) = meters.get(&name) {
            return Ok(Arc::clone(meter));
        }
        let meter: SharedMeter = Arc::from(spec.open(images)?);
        meters.insert(name, Arc::clone(&meter));
        Ok(meter)
    }
}

impl Window {
    /// The request as it is.
    pub(crate) fn untouched(asked: &Asked) -> Self {
        Self {
            body: asked.stripped.clone(),
            before: None,
            after: None,
            edits: 0,
            sticky: None,
            shortfall: Tokens::ZERO,
            drops_thinking: asked.drops_thinking,
        }
    }

    fn of(asked: &Asked, edits: usize, text: String, after: Tokens, limit: Tokens) -> Self {
        Self {
            body: Some(Bytes::from(text)),
            before: Some(asked.total()),
            after: Some(after),
            edits,
            sticky: None,
            shortfall: after.saturating_sub(limit),
            drops_thinking: asked.drops_thinking
                || (edits > 0 && asked.conversation().binding() == Binding::Switch),
        }
    }

    /// Whether something was left out.
    pub(crate) fn is_compacted(&self) -> bool {
        self.edits > 0
    }

    /// Whether another size saves less than a tenth.
    fn is_nearly(&self, tokens: Tokens) -> bool {
        self.after.is_some_and(|after| tokens.0.saturating_mul(10) >= after.0.saturating_mul(9))
    }
}

/// What is known of the weights of a request that shares so many messages with an earlier one.
fn weights(heard: &Heard, shared: usize, thread: &Thread) -> Option<(SharedMeter, Vec<Tokens>)> {
    let before = &heard.thread;
    // Another system prompt has another weight, and weights are by place.
    let same = before.system == thread.system && before.lead == thread.lead;
    let known = lock(&heard.weights);
    let (meter, weights) = known.as_ref().filter(|_| same)?;
    let most = (thread.lead + shared).min(weights.len());
    Some((Arc::clone(meter), weights[..most].to_vec()))
}

fn policy_name(policy: Policy) -> &'static str {
    match policy {
        Policy::Auto => "auto",
        Policy::Elide => "elide",
        Policy::Trim => "trim",
        Policy::Rolling(_) => "rolling",
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
