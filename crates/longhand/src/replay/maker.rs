//! How the window of each request is made.

use std::sync::Arc;

use longhand_core::session::{Chain, SessionState, Trail};
use longhand_core::{
    Batch, Budget, Digest, Digested, Folded, Link, Meter, Policy, Scale, Seq, Tokens,
};
use longhand_dialect::Conversation;

use super::{Method, ReplaySettings};
use crate::digest::Summarised;
use crate::fit::Fitting;

/// Makes the windows of one conversation, request by request.
pub(super) struct Maker<'m> {
    method: Method,
    settings: &'m ReplaySettings,
    limit: Tokens,
    /// The session that the conversation is, in memory.
    session: SessionState,
    chain: Chain,
    trail: Trail,
    /// The batches of its log.
    batches: Vec<Batch>,
    /// The newest entry that the newest of them reaches, and what the messages up to there count for.
    counted: Option<(Seq, Tokens)>,
}

/// A request whose window is to be made.
pub(super) struct MeasuredRequest<'a> {
    pub(super) conversation: &'a Conversation,
    /// What each of its messages counts for.
    pub(super) weights: &'a [Tokens],
    /// What it takes besides messages.
    pub(super) fixed: Tokens,
    /// The size of the request.
    pub(super) total: Tokens,
}

/// A window as it would be sent.
pub(super) struct MadeWindow {
    /// Its bytes; `None` if they are those of the request.
    pub(super) text: Option<String>,
    /// Whether a batch was made for it.
    pub(super) is_new: bool,
}

impl MeasuredRequest<'_> {
    /// What every window of it has: tools, settings and the system prompt.
    fn overhead(&self) -> Tokens {
        let lead = self.conversation.path().lead;
        self.fixed + self.weights[..lead].iter().copied().sum()
    }

    /// What a window counts for besides the messages up to an entry.
    fn beyond(&self, reach: Seq) -> Tokens {
        let after = self.conversation.path().after(reach);
        self.overhead() + self.weights[after..].iter().copied().sum()
    }
}

impl<'m> Maker<'m> {
    pub(super) fn new(method: Method, settings: &'m ReplaySettings, limit: Tokens) -> Self {
        let root = Link::root(b"");
        Self {
            method,
            settings,
            limit,
            session: SessionState::new(root),
            chain: Chain::new(root),
            trail: Trail::default(),
            batches: Vec::new(),
            counted: None,
        }
    }

    pub(super) fn window(&mut self, request: &MeasuredRequest) -> MadeWindow {
        match self.method {
            Method::Whole => MadeWindow { text: None, is_new: false },
            Method::Standing(policy) => self.standing(request, policy),
            Method::Stateless(policy) => self.stateless(request, policy),
        }
    }

    /// The window with the batches that hold as long as that fits, then with a new one, as in the proxy.
    fn standing(&mut self, request: &MeasuredRequest, policy: Policy) -> MadeWindow {
        let shown =
            self.counted.map_or(request.total, |(reach, tokens)| tokens + request.beyond(reach));
        let planning = longhand_core::PlanSettings {
            policy,
            clip_new_percent: self.settings.clip_new_percent,
            ..longhand_core::PlanSettings::default()
        };
        let digest = Summarised::new(
            self.settings.summarisers.clone(),
            Arc::clone(&self.settings.meter),
            self.settings.miner.clone(),
        );
        let digest = digest.keeping_state();
        self.admit(request.conversation);
        let live = self.session.live(self.trail.head());
        let after = live.last().copied().unwrap_or(0);
        let mut live: Vec<Batch> =
            live.into_iter().map(|number| self.batches[number as usize - 1].clone()).collect();
        let fitting = fitting(request, &live, &*self.settings.meter);
        let (settings, overhead) = (self.settings, request.overhead());
        let economy = fitting.economy(settings.prices(), request.total, overhead);
        let budget = Budget::of(self.limit)
            .with_low_water(settings.low_water_percent, overhead)
            .with_economy(economy);
        let plan = fitting.due(shown, &budget, &planning, &digest);
        let committed =
            plan.and_then(|plan| Some((self.session.check_commit(&plan.batch, after).ok()?, plan)));
        let is_new = committed.is_some();
        if let Some((line, plan)) = committed {
            let reach = line.reach.unwrap_or_default();
            let tokens = plan.tokens().saturating_sub(request.beyond(reach));
            self.counted = Some((reach, tokens));
            self.session.commit(line);
            self.batches.push(plan.batch.clone());
            live.push(plan.batch);
        }
        let text = (!live.is_empty()).then(|| request.conversation.apply(&live));
        MadeWindow { text, is_new }
    }

    /// Appends the messages that are new in a request.
    fn admit(&mut self, conversation: &Conversation) {
        let path = conversation.path();
        let known = self.trail.seqs.len();
        let new = &path.messages[(path.lead + known).min(path.messages.len())..];
        self.chain.extend(new);
        let links = self.chain.links()[known..].iter().zip(new);
        let links = links.map(|(link, message)| (*link, message.is_user_turn()));
        // In a state that has appended all of its entries itself, nothing is unknown.
        let _ = self.session.extend(&mut self.trail, links);
    }

    /// A window that is made from the whole request, whatever the one before it was.
    fn stateless(&self, request: &MeasuredRequest, policy: Policy) -> MadeWindow {
        let meter = self.settings.stateless_meter.as_ref().unwrap_or(&self.settings.meter);
        let scale = Scale::new(&**meter);
        let attributes = request.conversation.attributes.iter();
        let fixed = attributes.map(|text| scale.text(&text.decode())).sum();
        let planning =
            longhand_core::PlanSettings { policy, ..longhand_core::PlanSettings::default() };
        let fitting = Fitting::of(request.conversation, &[], &[], fixed, &**meter);
        let plan = fitting.plan(&Budget::of(self.limit), &planning, &SilentDigest);
        let is_new = !plan.is_noop();
        MadeWindow { text: is_new.then(|| request.conversation.apply(&[plan.batch])), is_new }
    }
}

fn fitting<'a>(
    request: &MeasuredRequest<'a>,
    live: &'a [Batch],
    meter: &'a dyn Meter,
) -> Fitting<'a> {
    Fitting::of(request.conversation, live, &[], request.fixed, meter)
}

/// Writes nothing about what is left out, as a client that drops its oldest messages.
struct SilentDigest;

impl Digest for SilentDigest {
    fn digest(&self, _: &Folded, _: Tokens, _: &Scale) -> Digested {
        Digested::default()
    }
}
