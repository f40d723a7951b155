//! Settings of a session.

use std::sync::Arc;

use longhand_core::anchor::Miner;
use longhand_core::{CachePrices, Meter, Policy, Rolling, Tokens};
use longhand_meter::{ImageRule, MeterSpec};
use longhand_summary::{Extractive, Summariser};

use super::SessionError;
use crate::driver::WindowLimits;
use crate::embeddings::Embeddings;
use crate::redact::Redactor;

/// Settings of a session.
#[derive(Clone)]
pub struct SessionSettings {
    /// The most tokens of a window.
    pub budget: Tokens,
    /// The size to which a window is shortened when it no longer fits, in percent of the budget.
    ///
    /// A provider bills what it has seen before at a fraction, so a window is changed seldom and deeply.
    pub low_water_percent: u64,
    /// The room for earlier messages that are brought back for new ones, in percent of the budget, for all that are in
    /// view together; 0 for none. Nothing is brought back while nothing is left out, or while there is no room for it.
    pub recall_percent: u64,
    /// What the model's tokens cost, if that is known: a window is brought down before it is full where
    /// that is cheaper.
    pub prices: Option<CachePrices>,
    /// How long the provider keeps a prefix that nobody asks for, in milliseconds, if that is known: a batch that would
    /// be due soon is made after such a pause, since it costs nothing then. If not set, `fit` goes by the request, and rounds
    /// by [`Self::CACHE_LIFE_MS`]. It counts only where there are prices.
    pub cache_life_ms: Option<u64>,
    /// How the window is made to fit.
    pub plan: longhand_core::PlanSettings,
    /// Summarisers in the order they are tried; with none, blocks list names and the users' words.
    pub summarisers: Vec<Arc<dyn Summariser>>,
    /// How tokens are counted.
    pub meter: Arc<dyn Meter>,
    /// Knows the ids of this project.
    pub miner: Miner,
    /// Takes secrets out of what is recorded.
    pub redactor: Option<Arc<Redactor>>,
    /// Knows what the messages of the session's archive mean, so that recall finds what was said in other words.
    pub embeddings: Option<Arc<Embeddings>>,
}

impl SessionSettings {
    /// The usual [`Self::recall_percent`].
    pub const RECALL_PERCENT: u64 = 10;

    /// The longest that usual providers keep a prefix without being asked to, in milliseconds.
    pub const CACHE_LIFE_MS: u64 = 3_600_000;

    /// The defaults: a budget of 24,000 tokens as o200k counts them, the policy `auto`, the built-in summariser.
    pub fn new() -> Result<Self, SessionError> {
        let meter = MeterSpec::O200k.open(ImageRule::OpenAiDearer)?;
        Ok(Self {
            budget: Tokens(24_000),
            low_water_percent: 30,
            recall_percent: Self::RECALL_PERCENT,
            prices: None,
            cache_life_ms: None,
            plan: longhand_core::PlanSettings::default(),
            summarisers: vec![Arc::new(Extractive)],
            meter: Arc::from(meter),
            miner: Miner::default(),
            redactor: None,
            embeddings: None,
        })
    }

    /// Keeps the newest rounds verbatim and folds on every round.
    #[must_use]
    pub fn rolling(mut self, rolling: Rolling) -> Self {
        self.plan.policy = Policy::Rolling(rolling);
        self
    }

    /// The room for what is brought back, of a budget.
    pub(super) fn recall(&self, budget: Tokens) -> Tokens {
        WindowLimits::recall_of(budget, self.recall_percent)
    }

    pub(super) fn is_rolling(&self) -> bool {
        matches!(self.plan.policy, Policy::Rolling(_))
    }
}
