//! What of a request is sent.

mod answered;
mod told;

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::body::Bytes;
use longhand::{Owner, SessionId, Tokens, TooLong, hidden_tokens, reasons_json};
use longhand_core::{
    Batch, Budget, CachePrices, Economy, Plan, Tally, folded_messages, shown_edits,
};
use longhand_dialect::{
    Binding, DialectError, Options, Overflow, read, read_on, read_shared, with_history,
    without_options,
};
use longhand_meter::MeterError;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use tokio::time::timeout;

use self::told::{stays_whole, surely_fits, told};
use crate::asked::{Asked, Purpose};
use crate::cache_reach::CacheReach;
use crate::calibration::Calibration;
use crate::client::Client;
use crate::digest::Digests;
use crate::held::Held;
use crate::load::{Load, SMALL_BYTES_MAX, Share, Working};
use crate::lock::lock;
use crate::memo::{self, MemoCache};
use crate::metrics::{Bypass, Metrics, Rung};
use crate::models::Models;
use crate::redaction::Redaction;
use crate::route::{Caller, Fields, Route};
use crate::store::{Admitted, Commit, LiveBatch, Recording, Store};
use crate::{Settings, recall};

/// Makes windows.
pub(crate) struct Windows {
    settings: Settings,
    redaction: Redaction,
    pub(crate) store: Arc<Store>,
    /// Has the conversations that are left out of the archive.
    pub(crate) forgetful: Arc<Store>,
    pub(crate) metrics: Arc<Metrics>,
    digests: Digests,
    cache_reach: CacheReach,
    calibration: Calibration,
    memos: MemoCache,
    models: Models,
    pub(crate) load: Arc<Load>,
    /// The sessions whose users were told that their budget is too small.
    noticed: Mutex<HashSet<SessionId>>,
    /// The sessions whose users are still to be told of an answer that could not be read.
    unread_notices: Mutex<FxHashMap<SessionId, String>>,
}

/// How long a window waits until its new batch is durable.
const BATCH_TIME_MAX: Duration = Duration::from_millis(50);

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
    #[error("the session belongs to another owner")]
    NotTheOwner,
    #[error("the request has more messages than there is memory for")]
    TooCostly,
}

impl From<Trouble> for Bypass {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::TooCostly => Bypass::TooLarge,
            Trouble::NotTheOwner => Bypass::NotTheOwner,
            Trouble::Dialect(_) | Trouble::Meter(_) | Trouble::Empty => Bypass::Unreadable,
        }
    }
}

/// Where a request comes from, and what it may take.
#[derive(Clone)]
pub(crate) struct Sender {
    pub(crate) caller: Caller,
    pub(crate) client: Client,
    pub(crate) share: Arc<Share>,
    /// Whether the archive has room for it.
    pub(crate) is_taken: bool,
}

/// What became of a new batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// It is durable, or there is none.
    Durable,
    /// It takes long.
    Late,
    /// The archive did not take it: another process was first, or it fails.
    Refused,
}

impl Windows {
    pub(crate) fn new(
        settings: &Settings,
        store: Store,
        forgetful: Store,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            settings: settings.clone(),
            redaction: Redaction::new(settings.redactor.as_ref()),
            store: Arc::new(store),
            forgetful: Arc::new(forgetful),
            digests: Digests::new(settings),
            metrics,
            cache_reach: CacheReach::default(),
            calibration: Calibration::default(),
            memos: MemoCache::default(),
            models: Models::default(),
            load: Load::new(settings.memory_bytes_max),
            noticed: Mutex::default(),
            unread_notices: Mutex::default(),
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
        sender: &Sender,
        upstream_knows_options: bool,
        may_wait: bool,
    ) -> Result<Option<(Asked, Window)>, Trouble> {
        let Sender { caller, client, share, is_taken } = sender;
        let came = Arc::clone(&text);
        let mut memo = self.memos.find(caller, route.dialect, &text);
        let counted = memo.as_ref().map(|(before, common)| (&before.working, *common));
        let mut working = Working::of(&text, counted, share).ok_or(Trouble::TooCostly)?;
        let mut options = Options::default();
        if !upstream_knows_options && !route.as_is {
            options = Options::of(route.dialect, &text);
        }
        let stripped =
            if options.is_empty() { None } else { without_options(route.dialect, &text) };
        let text = stripped.map_or(text, Arc::new);
        let store = if route.forgets { &self.forgetful } else { &self.store };
        // Where nothing is kept, nothing can be brought back.
        let offer = (self.settings.expand_tool && !route.as_is && !route.forgets && *is_taken)
            .then(|| recall::offer(route.dialect, &text))
            .flatten();
        let recalls = offer.is_some();
        let drops_thinking = offer.as_ref().is_some_and(|offer| offer.drops_thinking);
        let text = offer.map_or(text, |offer| Arc::new(offer.request));
        let stripped =
            (!options.is_empty() || recalls).then(|| Bytes::from(text.as_bytes().to_vec()));
        let redactor = self.settings.redactor.as_deref();
        let mut original = None;
        let mut text = text;
        if let Some(Cow::Owned(twin)) = redactor.map(|redactor| redactor.redact(&text)) {
            original = Some(read_shared(Arc::clone(&text), Some(route.dialect))?);
            text = Arc::new(twin);
        }
        let is_as_it_came = Arc::ptr_eq(&came, &text);
        drop(came);
        if !is_as_it_came {
            memo = self.memos.find(caller, route.dialect, &text);
        }
        let mut conversation = match &memo {
            Some((before, common)) => read_on(text, &before.conversation, *common)?,
            None => read_shared(text, Some(route.dialect))?,
        };
        let fields = Fields::of(original.as_ref().unwrap_or(&conversation));
        let fields = fields.redacted(&self.redaction);
        let mut caller = caller.clone();
        let mut held = None;
        if fields.previous.is_some() && !may_wait {
            return Ok(None);
        }
        if let Some(id) = &fields.previous
            && let Some((whole, own)) = Self::held(store, caller.owner(), id, conversation.bytes())
        {
            let working = Working::of(&whole, None, share).ok_or(Trouble::TooCostly)?;
            if !share.grow(whole.len() as u64 + working.bytes) {
                return Err(Trouble::TooCostly);
            }
            // Of the history that the provider holds, only the redacted form is known.
            if let Some(request) = &original {
                let (whole, _) =
                    Self::held(store, caller.owner(), id, request.bytes()).ok_or(Trouble::Empty)?;
                original = Some(read(whole.into_bytes(), Some(route.dialect))?);
            }
            conversation = read(whole.into_bytes(), Some(route.dialect))?;
            held = Some(own);
        } else if let Some(id) = fields.previous.as_ref().or(fields.stored.as_ref()) {
            caller = caller.holding(id);
        }
        conversation.keep_thinking();
        if let Some(original) = &mut original {
            original.keep_thinking();
        }
        let memo = memo.filter(|(before, _)| {
            before.caller == caller && held.is_none() && Arc::ptr_eq(&before.store, store)
        });
        let shared = memo.as_ref().map_or(0, |(before, common)| {
            memo::shared(&before.conversation, &conversation, *common)
        });
        let before = memo.map(|(before, _)| before);
        let before_with = before.as_ref().map(|before| (&**before, shared));
        let client = client.clone().with(&conversation);
        let bytes = working.bytes;
        if !is_as_it_came || held.is_some() {
            // It was counted in another text.
            working = Working::default();
        }
        let told = told(conversation, caller, client, (Arc::clone(share), working), before_with);
        if told.chain.said().next().is_none() {
            return Err(Trouble::Empty);
        }
        let model = told.conversation.model.as_deref().unwrap_or_default().to_owned();
        let owner = told.caller.owner();
        if !self.calibration.knows(owner, &model) {
            if !may_wait {
                return Ok(None);
            }
            self.calibration.load(&**store.archive(), owner, &model);
        }
        let limit = self.limit_of(owner, &model, &fields, &options).filter(|_| !route.as_is);
        let longer = original.as_ref().unwrap_or(&told.conversation);
        let fits = options.clear.is_none()
            && surely_fits(&told.conversation, limit)
            && surely_fits(longer, limit)
            && stays_whole(&told.conversation, limit, &self.planning());
        let is_at_hand = || fits && store.is_at_hand(&told.caller, &told.chain);
        if !may_wait && !is_at_hand() {
            return Ok(None);
        }
        // Planning takes twice as much again, for a moment.
        let planning = self.load.share();
        let is_small = bytes < SMALL_BYTES_MAX;
        if !share.grow(bytes) || !(is_small || planning.grow(2 * bytes)) {
            return Err(Trouble::TooCostly);
        }
        let meter = self.models.meter(&told.conversation, &self.settings)?;
        let session = match &held {
            Some(held) => store.by_id(held.session, told.caller.owner()),
            None => store.session(&told),
        };
        let session = session.ok_or(Trouble::NotTheOwner)?;
        let recording = match (route.counts, *is_taken) {
            (true, _) => Recording::Counted,
            (false, false) => Recording::Untaken,
            (false, true) => Recording::Archived,
        };
        let Admitted { admitted: heard, aside, ticket } = store.admit(&session, told, recording);
        self.memos.keep(&heard, before.as_ref(), shared);
        let purpose = match (recording, aside) {
            (Recording::Counted, _) => Purpose::Count,
            (Recording::Untaken, _) => Purpose::Untaken,
            (Recording::Archived, true) => Purpose::Aside,
            (Recording::Archived, false) => Purpose::Turn,
        };
        let is_recorded = recording == Recording::Archived;
        let tickets = Mutex::new(if is_recorded { vec![ticket] } else { Vec::new() });
        let original = original.map(|mut original| {
            original.number(heard.trail.seqs.clone());
            let hidden = hidden_tokens(&original, &heard.conversation, &*meter);
            (original, hidden)
        });
        let asked = Asked {
            heard,
            purpose,
            meter,
            fields,
            original,
            options,
            recalls,
            drops_thinking,
            stripped,
            held,
            tickets,
            batch_ticket: Mutex::default(),
        };
        let window = if route.as_is || (!may_wait && session.is_unedited()) {
            Window::untouched(&asked)
        } else if !may_wait {
            // Somebody has just edited it: the window is made where one may wait.
            return Ok(None);
        } else {
            self.within(&asked, limit.unwrap_or(Tokens::MAX), fits)?
        };
        Ok(Some((asked, window)))
    }

    /// The whole of a request that goes on from an answer, and what the provider has of it.
    fn held(store: &Store, owner: Owner, id: &str, request: &str) -> Option<(String, Held)> {
        let archive = &**store.archive();
        // The answer may still be on its way into the archive.
        store.settle();
        let held = Held::find(archive, owner, id)?;
        let whole = with_history(request, &held.items(archive)?)?;
        Some((whole, held))
    }

    /// The most that a request may have, if there is a most.
    pub(crate) fn limit(&self, asked: &Asked) -> Option<Tokens> {
        self.limit_of(asked.heard.caller.owner(), asked.model(), &asked.fields, &asked.options)
    }

    fn limit_of(
        &self,
        owner: Owner,
        model: &str,
        fields: &Fields,
        options: &Options,
    ) -> Option<Tokens> {
        let reply = Tokens(fields.reply_max.unwrap_or(0));
        let known = || self.models.get(model, &self.settings).facts.input_limit(reply);
        let own = self.settings.budget.or_else(known);
        let limit = self.calibration.limit(owner, model, own, reply.0);
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
        let (session, store) = (&asked.heard.session, &asked.heard.store);
        let archive = &**store.archive();
        let _turn = session.turn();
        let mut live = session.live(archive, &asked.heard.trail.path);
        if live.is_empty() && fits {
            return Ok(Window::untouched(asked));
        }
        if let Some(back) = Self::bring_back(asked, &live, limit) {
            live.push(back);
        }
        let mut pins = None;
        loop {
            let batches: Vec<Batch> = live.iter().map(|live| live.batch().clone()).collect();
            let window = Self::shown(asked, &live, &batches, limit)?;
            let clear = asked.options.clear.as_ref();
            let cleared = clear.and_then(|rule| asked.fitting(&batches, &[]).cleared(rule));
            let budget = self.budget(asked, limit);
            let shown = window.after.unwrap_or(Tokens::MAX);
            let is_due = asked.fitting(&batches, &[]).is_due(shown, &budget, &self.planning());
            if !is_due && cleared.is_none() {
                return Ok(window);
            }
            let Some(pins) = &pins else {
                // Another process may have pinned, edited or undone something.
                pins = Some(session.pins(archive));
                live = session.live(archive, &asked.heard.trail.path);
                continue;
            };
            let digest = self.digests.digest(store, session, &asked.meter);
            let fitting = asked.fitting(&batches, pins);
            let plan = match cleared.filter(|plan| plan.tokens() <= limit) {
                Some(plan) => Some(plan).filter(|plan| fitting.is_worth(plan, shown)),
                None => fitting.due(shown, &budget, &self.planning(), &digest),
            };
            let Some(mut plan) = plan else { return Ok(window) };
            if store.forgets {
                plan.batch = plan.batch.without_handles();
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
        live: &[Arc<LiveBatch>],
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
        let text = asked.shown().apply(batches);
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

    /// Has something that was brought back follow the request, in this window and in those that come.
    pub(crate) fn bring(&self, asked: &Asked, text: String) -> Result<Window, Trouble> {
        let limit = self.limit(asked).unwrap_or(Tokens::MAX);
        let (session, path) = (&asked.heard.session, &asked.heard.trail.path);
        let newest = path.last().copied().ok_or(Trouble::Empty)?;
        let _turn = session.turn();
        let store = &asked.heard.store;
        let mut live = session.live(&**store.archive(), path);
        let is_there = live.iter().any(|live| live.batch().inserts(&text));
        let text = if is_there { recall::ALREADY.to_owned() } else { text };
        // It may quote what the model asked for.
        let text = self.redaction.owned(text);
        let after = live.last().map_or(0, |live| live.number);
        let batch = Batch::inserting(newest, text);
        let receipt = json!({"why": "recall", "budget": limit.0}).to_string();
        let commit = Commit { after, batch, receipt, aside: false };
        live.push(Self::enter(asked, commit));
        let batches: Vec<Batch> = live.iter().map(|live| live.batch().clone()).collect();
        Self::shown(asked, &live, &batches, limit)
    }

    /// Brings back what the newest results refer to and the live batches leave out.
    fn bring_back(asked: &Asked, live: &[Arc<LiveBatch>], limit: Tokens) -> Option<Arc<LiveBatch>> {
        let after = live.last().filter(|_| asked.purpose == Purpose::Turn)?.number;
        let batches: Vec<Batch> = live.iter().map(|live| live.batch().clone()).collect();
        // A token has some three bytes; what comes back may take a quarter of the window.
        let bytes_max = usize::try_from(limit.0).map_or(usize::MAX, |limit| limit / 4 * 3);
        let batch = asked.fitting(&batches, &[]).brought_back(bytes_max)?;
        let receipt = json!({"why": "reference", "budget": limit.0}).to_string();
        let commit = Commit { after, batch, receipt, aside: false };
        Some(Self::enter(asked, commit))
    }

    /// Has a batch committed; the window that shows it waits until it is durable.
    fn enter(asked: &Asked, commit: Commit) -> Arc<LiveBatch> {
        let store = &asked.heard.store;
        let (live, ticket) = store.enter(&asked.heard, commit);
        store.hurry();
        *lock(&asked.batch_ticket) = ticket;
        live
    }

    /// Waits until a new batch is durable, so that its handles open: for ever if it must be, else a while.
    pub(crate) async fn kept(&self, asked: &Asked) -> Kept {
        let Some(ticket) = lock(&asked.batch_ticket).take() else { return Kept::Durable };
        let heard = if self.settings.require_archive {
            Ok(ticket.await)
        } else {
            timeout(BATCH_TIME_MAX, ticket).await
        };
        match heard {
            Ok(Ok(true)) => Kept::Durable,
            Ok(_) => Kept::Refused,
            Err(_) => {
                self.metrics.late.inc();
                Kept::Late
            }
        }
    }

    /// Waits until a new batch is durable; says whether the window may be sent.
    pub(crate) async fn is_kept(&self, asked: &Asked) -> bool {
        let is_refused = self.kept(asked).await == Kept::Refused;
        if is_refused {
            self.metrics.late.inc();
        }
        !(is_refused && self.settings.require_archive)
    }

    /// What to tell a user with an answer: that the one before could not be read, or once a session, that no window
    /// fits.
    pub(crate) fn notice(&self, asked: &Asked, window: &Window) -> Option<String> {
        let unread = lock(&self.unread_notices).remove(&asked.heard.session.id);
        unread.or_else(|| self.shortfall_notice(asked, window))
    }

    /// Says that no window fits, since what every one has is too much.
    fn shortfall_notice(&self, asked: &Asked, window: &Window) -> Option<String> {
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
            clip_new_percent: self.settings.clip_new_percent,
            ..longhand_core::Settings::default()
        }
    }

    fn budget(&self, asked: &Asked, limit: Tokens) -> Budget {
        let overhead = asked.overhead();
        let budget = Budget::of(limit).with_low_water(self.settings.low_water_percent, overhead);
        let price = self.models.get(asked.model(), &self.settings).price;
        let prices = price.map_or_else(CachePrices::default, |price| CachePrices {
            cached: price.cached_input,
            uncached: price.cache_write.max(price.input),
        });
        let economy = asked.fitting(&[], &[]).economy(prices, asked.total(), overhead);
        let reach_percent = self.cache_reach.percent(asked.heard.caller.owner(), asked.model());
        budget.with_economy(Economy { reach_percent, ..economy })
    }

    /// Has a new batch committed with its receipt; one for a request that is not recorded is for it alone.
    fn keep(
        &self,
        asked: &Asked,
        plan: &Plan,
        window: &Window,
        limit: Tokens,
        fold: Option<&Value>,
    ) -> Option<Arc<LiveBatch>> {
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
            "why": "budget", "budget": limit.0, "policy": self.settings.policy.name(),
            "tokens_before": window.before.map(|tokens| tokens.0), "tokens_after": plan.tokens().0,
            "shortfall": plan.shortfall.0, "stubbed": stubs, "clipped": clips,
            "folded": folded, "fold": fold,
            "edits": reasons_json(&asked.conversation().path(), &plan.batch),
        });
        let (session, store) = (&asked.heard.session, &asked.heard.store);
        let batch = asked.fitting(&[], &[]).with_variants(
            &plan.batch,
            &**store.archive(),
            session.id,
            |seq, message| session.is_form(seq, message),
        );
        let (after, receipt) = (window.batch, receipt.to_string());
        let aside = asked.purpose == Purpose::Aside;
        let live = Self::enter(asked, Commit { after, batch, receipt, aside });
        live.count(asked.model(), plan.tokens().saturating_sub(asked.beyond(&live)));
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
        let (owner, model) = (asked.heard.caller.owner(), asked.model());
        let (limit, told) = self.calibration.overflowed(owner, model, too_long, overflow)?;
        Self::keep_learned(asked, told);
        let window = self.within(asked, limit, false).ok()?;
        let smaller = window.body.is_some() && window.after.is_some_and(|after| after < own);
        smaller.then_some(window)
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
        Self::with(asked, batches, asked.shown().apply(batches), after, limit)
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
}
