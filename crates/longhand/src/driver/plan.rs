//! Deciding what a window shows: only computing, nothing is read from the archive or written down.

use std::sync::Arc;

use longhand_archive::Note;
use longhand_core::{
    Batch, Budget, CachePause, CachePrices, Economy, Part, Plan, PlanSettings, Scale, Seq, Tokens,
};
use longhand_dialect::{Conversation, DialectError};

use super::admit::BatchCommit;
use super::live_batch::LiveBatch;
use super::regret;
use super::source::{CountedRequest, Purpose};
use super::twin::Twin;
use super::window::MadeWindow;
use crate::digest::Summarised;
use crate::receipt::{Receipt, ReceiptCause};

/// Decides whether a window must come down, and by which edits.
pub struct Planner {
    /// The policy, and what it leaves alone.
    pub settings: PlanSettings,
    /// What share of the budget a full window is brought down to, in percent.
    pub low_water_percent: u64,
}

/// How much a window may have, and what its tokens cost.
#[derive(Clone, Copy, Debug)]
pub struct WindowLimits {
    /// The most tokens.
    pub tokens: Tokens,
    /// What input costs from the provider's cache and without it.
    pub prices: CachePrices,
    /// How much of a prefix comes from that cache, in percent.
    pub cache_reach_percent: u64,
    /// How long the provider keeps a prefix that nobody asks for, in milliseconds; `None` if it has no cache that ends.
    pub cache_life_ms: Option<u64>,
    /// The room for earlier messages that are brought back for new ones, for all that are in view together.
    pub recall: Tokens,
}

/// Quotes in less room than this tell little: of a small budget they may take more, up to a quarter.
const RECALL_MIN: Tokens = Tokens(600);

impl WindowLimits {
    /// The room for what is brought back, in percent of the most tokens; 0 for none.
    pub fn recall_of(tokens: Tokens, percent: u64) -> Tokens {
        if percent == 0 {
            return Tokens::ZERO;
        }
        let share = Tokens(tokens.0 / 100 * percent.min(100));
        share.max(RECALL_MIN.min(Tokens(tokens.0 / 4)))
    }
}

/// The batches that hold for the path of a request, oldest first.
pub(crate) struct LiveEdits {
    pub(super) live: Vec<Arc<LiveBatch>>,
    batches: Vec<Batch>,
}

/// A window with the live edits, and whether that will do.
pub(crate) struct Review {
    pub(crate) window: MadeWindow,
    budget: Budget,
    /// The plan that clears tool uses, as the request asks its provider to.
    cleared: Option<Plan>,
    is_due: bool,
}

impl LiveEdits {
    pub(crate) fn new(live: Vec<Arc<LiveBatch>>) -> Self {
        let batches = live.iter().map(|live| live.batch().clone()).collect();
        Self { live, batches }
    }

    pub(crate) fn push(&mut self, live: Arc<LiveBatch>) {
        self.batches.push(live.batch().clone());
        self.live.push(live);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// The number of the newest batch; 0 if there is none.
    pub(crate) fn newest_number(&self) -> u64 {
        self.live.last().map_or(0, |live| live.number)
    }

    /// Whether a text was inserted by one of the batches.
    pub(crate) fn has_insert(&self, text: &str) -> bool {
        self.batches.iter().any(|batch| batch.inserts(text))
    }

    /// What the messages of a request from an index on fetched back, as notes.
    pub(crate) fn regrets(
        &self,
        source: &dyn CountedRequest,
        first: usize,
        at_ms: i64,
    ) -> Vec<Note> {
        if source.purpose() != Purpose::Turn {
            return Vec::new();
        }
        let number = |batch: usize| self.live.get(batch).map_or(0, |live| live.number);
        let scale = Scale::new(source.meter());
        regret::notes(&source.conversation().path(), &self.batches, number, first, &scale, at_ms)
    }

    /// The window with these edits.
    pub(crate) fn window(
        &self,
        source: &dyn CountedRequest,
        limit: Tokens,
    ) -> Result<MadeWindow, DialectError> {
        let Some(newest) = self.live.last() else {
            return Ok(MadeWindow::counted(source, limit));
        };
        let text = source.sent().apply(&self.batches);
        let tokens = size(source, newest, &text)?;
        let mut window = MadeWindow::edited(source, &self.batches, text, tokens, limit);
        window.batch = newest.number;
        Ok(window)
    }

    /// The batches, oldest first.
    pub(crate) fn batches(&self) -> &[Batch] {
        &self.batches
    }

    /// The window with these edits and a batch that is not in the log yet.
    pub(crate) fn window_with(
        &self,
        source: &dyn CountedRequest,
        batch: Batch,
        limit: Tokens,
    ) -> Result<MadeWindow, DialectError> {
        let mut batches = self.batches.clone();
        batches.push(batch);
        let text = source.sent().apply(&batches);
        let tokens = source.weigh(&text)?;
        Ok(MadeWindow::edited(source, &batches, text, tokens, limit))
    }

    /// The window with these edits and those of a new plan.
    pub(crate) fn with_plan(
        mut self,
        source: &dyn CountedRequest,
        plan: Plan,
        limit: Tokens,
    ) -> MadeWindow {
        let tokens = plan.size.tokens;
        self.batches.push(plan.batch);
        let text = source.sent().apply(&self.batches);
        MadeWindow::edited(source, &self.batches, text, tokens, limit)
    }

    /// A batch that shows what the newest results refer to and these edits leave out.
    pub(crate) fn referenced(
        &self,
        source: &dyn CountedRequest,
        limit: Tokens,
    ) -> Option<BatchCommit> {
        let after = self.live.last().filter(|_| source.purpose() == Purpose::Turn)?.number;
        // A token has some three bytes; what comes back may take a quarter of the window.
        let bytes_max = usize::try_from(limit.0).map_or(usize::MAX, |limit| limit / 4 * 3);
        let batch = source.fitting(&self.batches, &[]).brought_back(bytes_max)?;
        let receipt = Receipt::of(ReceiptCause::Reference, Some(limit));
        Some(BatchCommit { after, batch, receipt, aside: false })
    }
}

/// The size of a window, which is counted only if it was not before.
fn size(
    source: &dyn CountedRequest,
    newest: &LiveBatch,
    text: &str,
) -> Result<Tokens, DialectError> {
    let conversation = source.conversation();
    let rest = source.beyond(newest);
    // Which thinking is shown depends on where the batch was made.
    let is_alike = !conversation.wire().binds_thinking
        || conversation.path().message(newest.batch().head).is_some();
    let counted = newest.counted(source.model()).filter(|_| is_alike);
    let tokens = counted.map_or_else(|| source.weigh(text), |counted| Ok(counted + rest))?;
    if is_alike {
        newest.count(source.model(), tokens.saturating_sub(rest));
    }
    Ok(tokens)
}

impl Review {
    /// Whether the window can be sent as it is.
    pub(crate) fn is_settled(&self) -> bool {
        !self.is_due && self.cleared.is_none()
    }

    /// What a batch for this window is made for.
    pub(crate) fn cause(&self) -> ReceiptCause {
        ReceiptCause::of_plan(&self.budget, self.tokens())
    }

    fn tokens(&self) -> Tokens {
        self.window.after.unwrap_or(Tokens::MAX)
    }
}

impl Planner {
    /// Whether a request without live edits needs no window: it fits by its bytes alone, and nothing in it is to be
    /// cleared or clipped.
    pub fn fits_untouched(&self, twin: &Twin<Conversation>, limit: Option<Tokens>) -> bool {
        let stored = twin.stored();
        surely_fits(stored, limit)
            && surely_fits(twin.sent(), limit)
            && limit.is_none_or(|limit| {
                !self.settings.may_clip_new(&stored.messages, &Budget::of(limit))
            })
    }

    /// Makes the window with the live edits, and looks whether it must come down.
    pub(crate) fn review(
        &self,
        source: &dyn CountedRequest,
        edits: &LiveEdits,
        limits: &WindowLimits,
    ) -> Result<Review, DialectError> {
        let window = edits.window(source, limits.tokens)?;
        let fitting = source.fitting(&edits.batches, &[]);
        let cleared = source.clear().and_then(|rule| fitting.cleared(rule));
        let budget = self.budget(source, limits);
        let tokens = window.after.unwrap_or(Tokens::MAX);
        let is_due = fitting.is_due(tokens, &budget, &self.settings);
        Ok(Review { window, budget, cleared, is_due })
    }

    /// Plans new edits on top of the live ones; `None` if there are none that are worth it.
    pub(crate) fn plan(
        &self,
        source: &dyn CountedRequest,
        edits: &LiveEdits,
        review: &mut Review,
        pins: &[Seq],
        digest: &Summarised,
    ) -> Option<Plan> {
        let fitting = source.fitting(&edits.batches, pins);
        let limit = review.budget.limit;
        let cleared = review.cleared.take().filter(|plan| plan.tokens() <= limit);
        let mut plan = match cleared {
            Some(plan) => Some(plan).filter(|plan| fitting.is_worth(plan, review.tokens())),
            None => fitting.due(review.tokens(), &review.budget, &self.settings, digest),
        }?;
        if !source.has_handles() {
            plan.batch = plan.batch.without_handles();
        }
        Some(plan)
    }

    fn budget(&self, source: &dyn CountedRequest, limits: &WindowLimits) -> Budget {
        let overhead = source.overhead();
        let budget = Budget::of(limits.tokens).with_low_water(self.low_water_percent, overhead);
        let economy = source.fitting(&[], &[]).economy(limits.prices, source.total(), overhead);
        let reach_percent = limits.cache_reach_percent;
        let pause = limits.cache_life_ms.zip(source.idle_ms());
        let pause = pause.map(|(life_ms, idle_ms)| CachePause { life_ms, idle_ms });
        budget.with_economy(Economy { reach_percent, pause, ..economy })
    }
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
