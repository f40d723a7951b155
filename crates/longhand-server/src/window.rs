//! What of a request is sent.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use longhand::{Chain, Owner, SessionId, Tokens};
use longhand_archive::{PreambleId, Request};
use longhand_core::{
    Batch, Budget, Link, Meaning, Part, Plan, Policy, Tally, folded_messages, shown_edits,
};
use longhand_dialect::{
    Binding, Conversation, Dialect, DialectError, Options, Overflow, Reply, Stop, Usage, read,
    read_after, read_shared, without_options,
};
use longhand_meter::{ImageRule, MeterError, MeterSpec, ModelFacts, Provider};
use serde_json::{Value, json};

use crate::archivist::Ticket;
use crate::asked::{Asked, Purpose, SharedMeter, Weights};
use crate::calibration::{Calibration, TooLong};
use crate::digest::Digests;
use crate::held::{Held, behind_key};
use crate::memo::{self, Memos};
use crate::metrics::{Flow, Metrics, Rung};
use crate::route::{Caller, Fields, Route};
use crate::store::{Admitted, Commit, Heard, Live, Store, Told, now_ms, pieces, preamble};
use crate::{Settings, held, recall};

/// Makes windows.
pub(crate) struct Windows {
    settings: Settings,
    pub(crate) store: Arc<Store>,
    pub(crate) metrics: Arc<Metrics>,
    digests: Digests,
    calibration: Calibration,
    memos: Memos,
    meters: Mutex<HashMap<String, SharedMeter>>,
    /// The sessions whose users were told that their budget is too small.
    noticed: Mutex<HashSet<SessionId>>,
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
    /// The newest batch that it shows; 0 if it shows none.
    pub(crate) batch: u64,
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
    pub(crate) fn new(settings: &Settings, store: Store, metrics: Arc<Metrics>) -> Self {
        Self {
            settings: settings.clone(),
            store: Arc::new(store),
            digests: Digests::new(settings),
            metrics,
            calibration: Calibration::default(),
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
        if !upstream_knows_options && !route.as_is {
            options = Options::of(route.dialect, &text);
        }
        let stripped =
            if options.is_empty() { None } else { without_options(route.dialect, &text) };
        let text = stripped.map_or(text, Arc::new);
        let offer = (self.settings.expand_tool && !route.as_is)
            .then(|| recall::offer(route.dialect, &text))
            .flatten();
        let recalls = offer.is_some();
        let drops_thinking = offer.as_ref().is_some_and(|offer| offer.drops_thinking);
        let text = offer.map_or(text, |offer| Arc::new(offer.request));
        let mut stripped =
            (!options.is_empty() || recalls).then(|| Bytes::from(text.as_bytes().to_vec()));
        let mut before = self.memos.find(caller, route.dialect, &text);
        let mut conversation = match &before {
            Some(before) => read_after(text, &before.conversation)?,
            None => read_shared(text, Some(route.dialect))?,
        };
        let fields = Fields::of(&conversation);
        let mut caller = caller.clone();
        let mut held = None;
        if fields.previous.is_some() && !may_wait {
            return Ok(None);
        }
        if let Some(id) = &fields.previous
            && let Some((whole, own)) = self.held(caller.owner(), id, conversation.bytes())
        {
            let waits = own.behind.request(conversation.bytes());
            stripped = waits.map(Bytes::from).or(stripped);
            conversation = read(whole.into_bytes(), Some(route.dialect))?;
            held = Some(own);
        } else if let Some(id) = fields.previous.as_ref().or(fields.stored.as_ref()) {
            caller = caller.holding(id);
        }
        conversation.keep_thinking();
        before = before.filter(|before| before.caller == caller && held.is_none());
        let shared = before
            .as_ref()
            .map_or(0, |heard| memo::shared(&heard.conversation.messages, &conversation.messages));
        let told = told(conversation, caller, before.as_ref().map(|before| (&**before, shared)));
        if told.chain.said().next().is_none() {
            return Err(Trouble::Empty);
        }
        let model = told.conversation.model.as_deref().unwrap_or_default().to_owned();
        let limit = self.limit_of(&model, &fields, &options).filter(|_| !route.as_is);
        let fits = options.clear.is_none() && surely_fits(&told.conversation, limit);
        let is_at_hand = || fits && self.store.is_at_hand(&told.caller, &told.chain);
        if !may_wait && !is_at_hand() {
            return Ok(None);
        }
        let meter = self.meter(&told.conversation)?;
        let session = match &held {
            Some(held) => Some(self.store.by_id(held.session, told.caller.owner())),
            None => self.store.session(&told),
        };
        let session = session.ok_or(Trouble::Empty)?;
        let Admitted { heard, aside, ticket } = self.store.admit(&session, told, !route.counts);
        self.memos.keep(&heard, before.as_ref(), shared);
        let purpose = match (route.counts, aside) {
            (true, _) => Purpose::Count,
            (false, true) => Purpose::Aside,
            (false, false) => Purpose::Turn,
        };
        let tickets = Mutex::new(if route.counts { Vec::new() } else { vec![ticket] });
        let asked = Asked {
            heard,
            purpose,
            meter,
            fields,
            options,
            recalls,
            drops_thinking,
            behind: Mutex::default(),
            stripped,
            held,
            tickets,
            batch_ticket: Mutex::default(),
        };
        let window = match limit {
            Some(limit) => self.within(&asked, limit, fits)?,
            None => Window::untouched(&asked),
        };
        Ok(Some((asked, window)))
    }

    /// The whole of a request that goes on from an answer, and what the provider has of it.
    fn held(&self, owner: Owner, id: &str, request: &str) -> Option<(String, Held)> {
        let archive = &**self.store.archive();
        // The answer may still be on its way into the archive.
        self.store.settle();
        let held = Held::find(archive, owner, id)?;
        let whole = held::whole(request, &held.items(archive)?)?;
        Some((whole, held))
    }

    /// Has an answer archived after the request that it answers, and learns from what it took.
    pub(crate) fn answered(&self, asked: &Asked, sent: &Window, reply: &Reply) -> Option<Ticket> {
        let usage = reply.usage.unwrap_or_default();
        if let Some(after) = sent.after {
            self.calibration.saw(asked.model(), after, usage.input);
        }
        let mut request = self.bill(asked, sent, reply, usage);
        if reply.stop == Stop::Window {
            let sent_tokens = sent.after.unwrap_or(Tokens::ZERO);
            self.calibration.filled(asked.model(), sent_tokens, usage.input, usage.output);
        }
        let answer = asked.answer(reply)?;
        if let Some(id) = reply.id.as_ref().filter(|_| asked.dialect() == Dialect::Responses) {
            request.answer = Some(id.clone());
            if let Some(behind) = lock(&asked.behind).json() {
                let session = asked.heard.session.id;
                self.store.derive(session, behind_key(id), behind.to_string());
            }
        }
        self.store.answered(&asked.heard, answer, request)
    }

    /// Has what a model read noted when it went on from a call of ours; what it wrote is counted with the
    /// answer that the client sees.
    pub(crate) fn followed(&self, asked: &Asked, sent: &Window, reply: &Reply) {
        let usage = Usage { output: 0, ..reply.usage.unwrap_or_default() };
        let request = self.bill(asked, sent, reply, usage);
        if asked.is_recorded() {
            self.store.log(&asked.heard, request);
        }
    }

    /// Counts what an answer took; gives the line for the request log.
    fn bill(&self, asked: &Asked, sent: &Window, reply: &Reply, usage: Usage) -> Request {
        let model = reply.model.as_deref().unwrap_or_else(|| asked.model());
        let price = self.settings.prices.named(model);
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
            model: model.to_owned(),
            before: sent.before.map_or(usage.input, |before| before.0),
            sent: usage.input,
            cached: usage.cached_input,
            output: usage.output,
            cost_micros,
            edits: sent.edits as u64,
            answer: None,
            is_cut: reply.stop == Stop::Other("cut".to_owned()),
        }
    }

    /// The most that a request may have, if there is a most.
    pub(crate) fn limit(&self, asked: &Asked) -> Option<Tokens> {
        self.limit_of(asked.model(), &asked.fields, &asked.options)
    }

    fn limit_of(&self, model: &str, fields: &Fields, options: &Options) -> Option<Tokens> {
        let reply = Tokens(fields.reply_max.unwrap_or(0));
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
        limit.into_iter().chain(options.compact_at).min()
    }

    /// The window within a limit: with the batches that hold as long as that fits, then with a new one.
    ///
    /// What `fits` for certain is not counted unless there are batches.
    pub(crate) fn within(
        &self,
        asked: &Asked,
        limit: Tokens,
        fits: bool,
    ) -> Result<Window, Trouble> {
        let session = &asked.heard.session;
        let archive = &**self.store.archive();
        let _turn = session.turn();
        let mut live = session.live(archive, &asked.heard.trail.path);
        if live.is_empty() && fits {
            return Ok(Window::untouched(asked));
        }
        let mut pins = None;
        loop {
            let batches: Vec<Batch> = live.iter().map(|live| live.batch().clone()).collect();
            let window = Self::shown(asked, &live, &batches, limit)?;
            let clear = asked.options.clear.as_ref();
            let cleared = clear.and_then(|rule| asked.fitting(&batches, &[]).cleared(rule));
            if window.shortfall == Tokens::ZERO && cleared.is_none() {
                return Ok(window);
            }
            let Some(pins) = &pins else {
                // Another process may have pinned, edited or undone something.
                pins = Some(session.pins(archive));
                live = session.live(archive, &asked.heard.trail.path);
                continue;
            };
            let digest = self.digests.digest(&self.store, session, &asked.meter);
            let cleared = cleared.filter(|plan| plan.tokens() <= limit);
            let plan = cleared.unwrap_or_else(|| {
                let budget = self.budget(asked, limit);
                asked.fitting(&batches, pins).plan(&budget, &self.planning(), &digest)
            });
            // Where nothing fits, a break of the prefix must be worth it.
            let is_worth = plan.fits() || live.is_empty() || !window.is_nearly(plan.tokens());
            if plan.is_noop() || !is_worth {
                return Ok(window);
            }
            let made = self.keep(asked, &plan, &window, limit, digest.account().as_ref());
            self.digests.tell(session, &digest);
            let mut batches = batches;
            batches.push(plan.batch);
            let mut shown = Window::of(asked, &batches, plan.size.tokens, limit);
            shown.batch = made.map_or(window.batch, |live| live.number);
            return Ok(shown);
        }
    }

    /// The window with the batches that hold.
    fn shown(
        asked: &Asked,
        live: &[Arc<Live>],
        batches: &[Batch],
        limit: Tokens,
    ) -> Result<Window, Trouble> {
        let Some(newest) = live.last() else {
            let total = asked.total();
            let (before, after) = (Some(total), Some(total));
            let shortfall = total.saturating_sub(limit);
            return Ok(Window { before, after, shortfall, ..Window::untouched(asked) });
        };
        let conversation = asked.conversation();
        let text = conversation.apply(batches);
        let path = conversation.path();
        let rest = asked.beyond(newest);
        // Which thinking is shown depends on where the batch was made.
        let is_alike =
            !conversation.wire().binds_thinking || path.message(newest.batch().head).is_some();
        let counted = newest.counted(asked.model()).filter(|_| is_alike);
        let tokens = counted.map_or_else(|| asked.weigh(&text), |counted| Ok(counted + rest))?;
        if is_alike {
            newest.count(asked.model(), tokens.saturating_sub(rest));
        }
        let mut window = Window::with(asked, batches, text, tokens, limit);
        window.batch = newest.number;
        if asked.held.as_ref().is_some_and(|held| held.batch == newest.number) {
            // The provider has it so.
            window.body.clone_from(&asked.stripped);
        }
        Ok(window)
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
        (asked.is_recorded() && noticed.insert(asked.heard.session.id)).then(|| {
            format!(
                "system prompt and tools take {overhead} tokens of {limit}; a budget of {after} would do"
            )
        })
    }

    fn planning(&self) -> longhand_core::Settings {
        longhand_core::Settings {
            policy: self.settings.policy,
            ..longhand_core::Settings::default()
        }
    }

    fn budget(&self, asked: &Asked, limit: Tokens) -> Budget {
        Budget::of(limit).with_low_water(self.settings.low_water_percent, asked.overhead())
    }

    /// Has a new batch committed with its receipt; one for a request that is not recorded is for it alone.
    fn keep(
        &self,
        asked: &Asked,
        plan: &Plan,
        window: &Window,
        limit: Tokens,
        fold: Option<&Value>,
    ) -> Option<Arc<Live>> {
        let Tally { stubs, clips, .. } = Tally::of(&plan.batch.edits);
        let folded = folded_messages(&plan.batch);
        self.metrics.batches.inc();
        self.metrics.fold(Rung::Stub, stubs as u64);
        self.metrics.fold(Rung::Clip, clips as u64);
        let by_model = fold.is_some_and(|fold| !fold["story"]["model"].is_null());
        let rung = if by_model { Rung::ModelFold } else { Rung::Fold };
        self.metrics.fold(rung, u64::from(folded > 0));
        if !asked.is_recorded() {
            return None;
        }
        let receipt = json!({
            "why": "budget", "budget": limit.0, "policy": policy_name(self.settings.policy),
            "tokens_before": window.before.map(|tokens| tokens.0), "tokens_after": plan.tokens().0,
            "shortfall": plan.shortfall.0, "stubbed": stubs, "clipped": clips,
            "folded": folded, "fold": fold,
        });
        let session = &asked.heard.session;
        let batch = asked.fitting(&[], &[]).with_variants(
            &plan.batch,
            &**self.store.archive(),
            session.id,
            |seq, message| session.is_form(seq, message),
        );
        let (live, ticket) = self.store.enter(
            &asked.heard,
            Commit {
                after: window.batch,
                batch,
                receipt: receipt.to_string(),
                aside: asked.purpose == Purpose::Aside,
            },
        );
        self.store.hurry();
        live.count(asked.model(), plan.tokens().saturating_sub(asked.beyond(&live)));
        *lock(&asked.batch_ticket) = ticket;
        Some(live)
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
        let window = self.within(asked, limit, false).ok()?;
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
            batch: 0,
            shortfall: Tokens::ZERO,
            drops_thinking: asked.drops_thinking,
        }
    }

    fn of(asked: &Asked, batches: &[Batch], after: Tokens, limit: Tokens) -> Self {
        Self::with(asked, batches, asked.conversation().apply(batches), after, limit)
    }

    fn with(asked: &Asked, batches: &[Batch], text: String, after: Tokens, limit: Tokens) -> Self {
        let edits = shown_edits(batches).len();
        let is_bound = edits > 0 && asked.conversation().binding() == Binding::Switch;
        Self {
            body: Some(Bytes::from(text)),
            before: Some(asked.total()),
            after: Some(after),
            edits,
            batch: 0,
            shortfall: after.saturating_sub(limit),
            drops_thinking: asked.drops_thinking || is_bound,
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

/// Chains a request; what it shares with an earlier one was chained before.
fn told(conversation: Conversation, caller: Caller, before: Option<(&Heard, usize)>) -> Told {
    let path = conversation.path();
    let root = caller.owner().root();
    let shared = before.map_or(0, |(_, shared)| shared);
    let mut chain = match before {
        Some((before, shared)) => before.chain.beginning(shared, root),
        None => Chain::new(root),
    };
    chain.extend(&path.messages[path.lead + shared..]);
    let same = before.map(|(before, _)| before).filter(|before| {
        before.conversation.model == conversation.model
            && pieces(&before.conversation).eq(pieces(&conversation))
    });
    let system = || {
        let lead = path.messages[..path.lead].iter();
        lead.fold(Link::root(b""), |link, message| link.next(Meaning::of(message)))
    };
    let (system, preamble) = match same {
        Some(same) => (same.system, same.preamble),
        None => (system(), PreambleId::of(&preamble(&conversation))),
    };
    let weights = same.and_then(|before| weights(before, path.lead + shared));
    Told { conversation, chain, caller, system, preamble, weights }
}

/// What is known of the weights of a request whose first messages an earlier one has, too.
fn weights(before: &Heard, shared: usize) -> Option<Weights> {
    let known = lock(&before.weights);
    let Weights { meter, messages, fixed } = known.as_ref()?;
    let most = shared.min(messages.len());
    Some(Weights { meter: Arc::clone(meter), messages: messages[..most].to_vec(), fixed: *fixed })
}

/// About what a message takes besides its bytes, in tokens, and generously.
const MESSAGE_TOKENS_MAX: u64 = 16;

/// Whether a request fits by its bytes alone: no token has less than one, but pictures have many tokens.
fn surely_fits(conversation: &Conversation, limit: Option<Tokens>) -> bool {
    let Some(limit) = limit else { return true };
    let messages = &conversation.messages;
    let bytes = conversation.bytes().len() as u64;
    let parts = || messages.iter().flat_map(|message| &message.parts);
    let is_text = |part: &Part| match part {
        Part::Image(_) | Part::Media(_) | Part::File(_) | Part::Other(_) => false,
        Part::Result(result) => result.content.iter().all(|part| part.text().is_some()),
        _ => true,
    };
    bytes + MESSAGE_TOKENS_MAX * (messages.len() as u64 + 1) <= limit.0 && parts().all(is_text)
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
