//! How the window of each request is made.

use std::sync::Arc;

use longhand_archive::{EditSums, NewBatch, Owner};
use longhand_core::session::{Chain, Trail};
use longhand_core::{Batch, Budget, Digest, Digested, Folded, Meter, Policy, Scale, Tokens};
use longhand_dialect::{Conversation, DialectError};

use super::{Method, ReplaySettings};
use crate::digest::Summarised;
use crate::driver::{
    CountedRequest, LiveBatch, LiveEdits, Planner, SessionMemory, WindowLimits, first_new,
};
use crate::fit::Fitting;

/// Makes the windows of one conversation, request by request.
pub(super) struct Maker<'m> {
    method: Method,
    settings: &'m ReplaySettings,
    limit: Tokens,
    /// The session that the conversation is, in memory.
    session: SessionMemory,
    chain: Chain,
    trail: Trail,
}

/// A request whose window is to be made.
pub(super) struct MeasuredRequest<'a> {
    pub(super) conversation: &'a Conversation,
    /// What each of its messages counts for.
    pub(super) weights: &'a [Tokens],
    /// What it takes besides messages.
    pub(super) fixed: Tokens,
    pub(super) meter: &'a dyn Meter,
    /// How long nothing was sent before it, in milliseconds.
    pub(super) idle_ms: Option<u64>,
}

impl CountedRequest for MeasuredRequest<'_> {
    fn conversation(&self) -> &Conversation {
        self.conversation
    }

    fn meter(&self) -> &dyn Meter {
        self.meter
    }

    fn fixed(&self) -> Tokens {
        self.fixed
    }

    fn idle_ms(&self) -> Option<u64> {
        self.idle_ms
    }

    fn since(&self, first: usize) -> Tokens {
        self.weights[first.min(self.weights.len())..].iter().copied().sum()
    }
}

/// A window as it would be sent.
pub(super) struct ReplayedWindow {
    /// Its bytes; `None` if they are those of the request.
    pub(super) text: Option<String>,
    /// Whether a batch was made for it.
    pub(super) is_new: bool,
    /// What became of edits.
    pub(super) edits: EditSums,
}

impl ReplayedWindow {
    /// A window of which nobody keeps edits.
    pub(super) fn alone(text: Option<String>, is_new: bool) -> Self {
        Self { text, is_new, edits: EditSums::default() }
    }
}

impl<'m> Maker<'m> {
    pub(super) fn new(method: Method, settings: &'m ReplaySettings, limit: Tokens) -> Self {
        let owner = Owner::LOCAL;
        Self {
            method,
            settings,
            limit,
            session: SessionMemory::new(owner),
            chain: Chain::new(owner.root()),
            trail: Trail::default(),
        }
    }

    pub(super) fn window(
        &mut self,
        request: &MeasuredRequest,
    ) -> Result<ReplayedWindow, DialectError> {
        match self.method {
            Method::Whole => Ok(ReplayedWindow::alone(None, false)),
            Method::Standing(policy) => self.standing(request, policy),
            Method::Stateless(policy) => Ok(self.stateless(request, policy)),
        }
    }

    /// The window with the batches that hold as long as that fits, then with a new one, as the proxy makes it.
    fn standing(
        &mut self,
        request: &MeasuredRequest,
        policy: Policy,
    ) -> Result<ReplayedWindow, DialectError> {
        let (settings, limit) = (self.settings, self.limit);
        let planner = Planner {
            settings: longhand_core::PlanSettings {
                policy,
                clip_new_percent: settings.clip_new_percent,
                ..longhand_core::PlanSettings::default()
            },
            low_water_percent: settings.low_water_percent,
        };
        let (prices, cache_reach_percent) = (settings.prices(), 100);
        let recall = Tokens::ZERO;
        let cache_life_ms = settings.cache_life_ms.filter(|_| !settings.ignores_pauses);
        let limits =
            WindowLimits { tokens: limit, prices, cache_reach_percent, cache_life_ms, recall };
        let digest = Summarised::new(
            settings.summarisers.clone(),
            Arc::clone(&settings.meter),
            settings.miner.clone(),
        );
        let digest = digest.keeping_state();
        let known = self.trail.seqs.len();
        self.admit(request.conversation);
        let mut edits = LiveEdits::new(self.session.live(self.trail.head()));
        let first = first_new(&request.conversation.path(), known);
        let noted = edits.regrets(request, first, 0);
        let mut sums = EditSums::total(&[], &noted);
        let mut is_new = false;
        if let Some(referenced) = edits.referenced(request, limit)
            && let Some(live) = self.commit(referenced.after, referenced.batch)
        {
            sums.add(&EditSums::total(&[live.batch()], &[]));
            edits.push(live);
            is_new = true;
        }
        let mut review = planner.review(request, &edits, &limits)?;
        let plan = if review.is_settled() {
            None
        } else {
            planner.plan(request, &edits, &mut review, &[], &digest)
        };
        let committed = plan
            .and_then(|plan| Some((self.commit(edits.newest_number(), plan.batch.clone())?, plan)));
        let Some((live, plan)) = committed else {
            return Ok(ReplayedWindow { text: review.window.text, is_new, edits: sums });
        };
        sums.add(&EditSums::total(&[live.batch()], &[]));
        live.count(request.model(), plan.tokens().saturating_sub(request.beyond(&live)));
        let text = edits.with_plan(request, plan, limit).text;
        Ok(ReplayedWindow { text, is_new: true, edits: sums })
    }

    /// Commits a batch, if that is possible.
    fn commit(&mut self, after: u64, batch: Batch) -> Option<Arc<LiveBatch>> {
        let new = NewBatch { after, batch, ..NewBatch::default() };
        self.session.commit(new, false).ok()
    }

    /// Appends the messages that are new in a request.
    fn admit(&mut self, conversation: &Conversation) {
        let path = conversation.path();
        let known = self.trail.seqs.len();
        let new = &path.messages[(path.lead + known).min(path.messages.len())..];
        self.chain.extend(new);
        // In a state that has appended all of its entries itself, nothing is unknown.
        let _ = self.session.extend(&mut self.trail, new.iter(), &self.chain.links()[known..]);
    }

    /// A window that is made from the whole request, whatever the one before it was.
    fn stateless(&self, request: &MeasuredRequest, policy: Policy) -> ReplayedWindow {
        let meter = self.settings.stateless_meter.as_ref().unwrap_or(&self.settings.meter);
        let scale = Scale::new(&**meter);
        let attributes = request.conversation.attributes.iter();
        let fixed = attributes.map(|text| scale.text(&text.decode())).sum();
        let planning =
            longhand_core::PlanSettings { policy, ..longhand_core::PlanSettings::default() };
        let fitting = Fitting::of(request.conversation, &[], &[], fixed, &**meter);
        let plan = fitting.plan(&Budget::of(self.limit), &planning, &SilentDigest);
        let is_new = !plan.is_noop();
        let text = is_new.then(|| request.conversation.apply(&[plan.batch]));
        ReplayedWindow::alone(text, is_new)
    }
}

/// Writes nothing about what is left out, as a client that drops its oldest messages.
struct SilentDigest;

impl Digest for SilentDigest {
    fn digest(&self, _: &Folded, _: Tokens, _: &Scale) -> Digested {
        Digested::default()
    }
}
