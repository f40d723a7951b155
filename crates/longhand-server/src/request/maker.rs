//! Windows for requests, within what their models take.

use std::sync::Arc;
use std::time::Duration;

use longhand::Tokens;
use longhand::driver::TooLong;
use longhand::driver::{
    Computing, Digests, HandedOver, MadeWindow, PlannedEdits, Planner, WindowError, WindowLimits,
    WindowMaker,
};
use longhand_dialect::Overflow;
use tokio::time::timeout;

use crate::Settings;
use crate::knowledge::{ModelKnowledge, keep_learned};
use crate::limited_summariser::limited;
use crate::metrics::{Metrics, Rung};
use crate::recall;
use crate::redaction::Redaction;
use crate::request::commit::BatchWaiter;
use crate::request::compaction::summary_max;
use crate::request::source::RequestSource;
use crate::request::window::RequestWindow;

/// How long a plan waits for another plan of the same session.
const TURN_TIME_MAX: Duration = Duration::from_millis(100);

/// How long it may take to find what comes back unasked: a request does not wait for more.
const RECALL_TIME_MAX: Duration = Duration::from_millis(500);

/// Makes the windows of requests.
pub(crate) struct Windows {
    maker: WindowMaker,
    pub(crate) waiter: BatchWaiter,
    knowledge: Arc<ModelKnowledge>,
    metrics: Arc<Metrics>,
    redaction: Redaction,
    /// The room for what is brought back unasked, in percent of the limit.
    recall_percent: u64,
}

impl Windows {
    pub(crate) fn new(
        settings: &Settings,
        knowledge: &Arc<ModelKnowledge>,
        metrics: &Arc<Metrics>,
        redaction: &Redaction,
    ) -> Self {
        let planner = Planner {
            settings: longhand_core::PlanSettings {
                policy: settings.policy,
                clip_new_percent: settings.clip_new_percent,
                ..longhand_core::PlanSettings::default()
            },
            low_water_percent: settings.low_water_percent,
        };
        let digests = Digests::new(&limited(&settings.summarisers), settings.miner.clone());
        let embeddings = settings.embeddings.clone();
        Self {
            maker: WindowMaker { planner: Arc::new(planner), digests, embeddings },
            waiter: BatchWaiter::new(settings, metrics),
            knowledge: Arc::clone(knowledge),
            metrics: Arc::clone(metrics),
            redaction: redaction.clone(),
            recall_percent: settings.recall_percent,
        }
    }

    /// Decides whether windows must come down.
    pub(crate) fn planner(&self) -> &Planner {
        &self.maker.planner
    }

    /// The window within a limit: with the live edits as long as that fits, then with a new batch.
    ///
    /// If the request `fits` for certain, it is not counted unless there are live edits.
    pub(crate) async fn window(
        &self,
        source: &RequestSource,
        limit: Tokens,
        fits: bool,
    ) -> Result<RequestWindow, WindowError> {
        // A new batch would have a history sent once more that the provider holds.
        let percent = if source.history.is_none() { self.recall_percent } else { 0 };
        self.window_with(source, limit, fits, WindowLimits::recall_of(limit, percent)).await
    }

    /// The same, with so much room for what is brought back unasked.
    async fn window_with(
        &self,
        source: &RequestSource,
        limit: Tokens,
        fits: bool,
        recall: Tokens,
    ) -> Result<RequestWindow, WindowError> {
        let RequestSource { window, admitted, workers, .. } = source;
        let _turn = timeout(TURN_TIME_MAX, admitted.session().turn()).await;
        let (owner, model) = (admitted.caller.owner(), source.model());
        let limits = WindowLimits {
            tokens: limit,
            prices: self.knowledge.cache_prices(model),
            cache_reach_percent: self.knowledge.cache_reach.percent(owner, model),
            cache_life_ms: self.knowledge.cache_life_ms(source),
            recall,
        };
        let store = &*admitted.store;
        let mut made = self.maker.fitted(store, workers, window, limits, fits).await?;
        if let Some(planned) = &made.planned {
            self.count(planned);
        }
        let remembered = self.maker.remembered(store, window, limits, &made);
        if let Ok(Some(batch)) = timeout(RECALL_TIME_MAX, remembered).await.unwrap_or(Ok(None)) {
            made = self.maker.with_remembered(store, workers, window, limits, made, batch).await?;
        }
        Ok(RequestWindow::of(source, made))
    }

    fn count(&self, planned: &PlannedEdits) {
        let PlannedEdits { stubs, clips, folded, by_model } = planned;
        self.metrics.batches.inc();
        self.metrics.fold(Rung::Stub, *stubs as u64);
        self.metrics.fold(Rung::Clip, *clips as u64);
        let rung = if *by_model { Rung::ModelFold } else { Rung::Fold };
        self.metrics.fold(rung, u64::from(*folded > 0));
    }

    /// A smaller window after an upstream has found one too long; `None` if there is none.
    ///
    /// What the upstream says of its limit and its count is remembered for the model.
    pub(crate) async fn smaller(
        &self,
        source: &RequestSource,
        sent: &RequestWindow,
        overflow: Overflow,
    ) -> Option<RequestWindow> {
        let tokens = match sent.after {
            Some(tokens) => tokens,
            None => total(source).await,
        };
        let too_long = TooLong { tokens, reply: source.fields.reply_max.unwrap_or(0) };
        let (owner, model) = (source.admitted.caller.owner(), source.model());
        let calibration = &self.knowledge.calibration;
        let (limit, learned) = calibration.overflowed(owner, model, too_long, overflow)?;
        keep_learned(source, learned);
        self.below(source, limit, tokens).await
    }

    /// The window within a limit, if it has less than so many tokens.
    pub(crate) async fn below(
        &self,
        source: &RequestSource,
        limit: Tokens,
        tokens: Tokens,
    ) -> Option<RequestWindow> {
        let window = self.window_with(source, limit, false, Tokens::ZERO).await.ok()?;
        let is_smaller = window.body.is_some() && window.after.is_some_and(|after| after < tokens);
        is_smaller.then_some(window)
    }

    /// A fold of all that a request says, for a client that goes on with it alone.
    pub(crate) async fn handed_over(
        &self,
        source: &RequestSource,
    ) -> Result<Option<HandedOver>, WindowError> {
        let RequestSource { window, admitted, workers, .. } = source;
        let _turn = timeout(TURN_TIME_MAX, admitted.session().turn()).await;
        let limit = summary_max(total(source).await);
        self.maker.handed_over(&*admitted.store, workers, window, limit).await
    }

    /// Has a text follow the request that was brought back, in this window and in those that come.
    pub(crate) async fn insert(
        &self,
        source: &RequestSource,
        text: String,
    ) -> Result<RequestWindow, WindowError> {
        let RequestSource { window, admitted, workers, .. } = source;
        let limit = self.knowledge.limit_of(source).unwrap_or(Tokens::MAX);
        let _turn = timeout(TURN_TIME_MAX, admitted.session().turn()).await;
        // It may quote what the model asked for.
        let texts = (self.redaction.owned(text), recall::ALREADY);
        let made: MadeWindow =
            self.maker.insert(&*admitted.store, workers, window, limit, texts).await?;
        Ok(RequestWindow::of(source, made))
    }
}

/// The size of a request by our count.
pub(crate) async fn total(source: &RequestSource) -> Tokens {
    let counted = Arc::clone(&source.window);
    source.workers.compute(move || counted.total()).await
}
