//! A recorded conversation, request by request: what windows would have cost, and what they would have
//! remembered. docs/REPLAY.md defines every figure.
//!
//! ```
//! use std::sync::Arc;
//! use longhand::replay::{BudgetShare, Method, ReplaySettings, Trace, replay};
//! use longhand::Policy;
//! # use longhand_meter::{ImageRule, MeterSpec};
//! # let meter: Arc<dyn longhand_core::Meter> = Arc::from(MeterSpec::O200k.open(ImageRule::OpenAiDearer).unwrap());
//!
//! let chat = r#"[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}]"#;
//! let trace = Trace::new(&longhand_dialect::read(chat.into(), None)?, &*meter)?;
//! let settings = ReplaySettings::new(BudgetShare::Percent(50), meter);
//! let run = replay(&trace, Method::Standing(Policy::Auto), &settings, |_| ())?;
//! assert_eq!((run.figures.requests, run.figures.invalid), (1, 0));
//! # Ok::<(), longhand_dialect::DialectError>(())
//! ```

mod checks;
mod figures;
mod maker;
mod readable;
mod seen;
mod trace;
mod work;

use std::sync::Arc;

use longhand_core::{CachePause, CachePrices, Message, Meter, Policy, Scale, Tokens};
use longhand_dialect::{Conversation, DialectError, Finding, read_after, read_shared};
use longhand_summary::{Extractive, Summariser};

pub use self::figures::{Figures, FoundShare, Measure, WorkShares};
use self::maker::{Maker, MeasuredRequest, ReplayedWindow};
use self::seen::WindowTexts;
pub use self::trace::Trace;
use crate::Miner;

/// How windows are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Nothing is left out.
    Whole,
    /// As the proxy does it: a batch of edits holds until the window is full again.
    Standing(Policy),
    /// Every window is made anew from the whole conversation, just small enough to fit.
    Stateless(Policy),
}

/// The most tokens of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetShare {
    /// A fixed number.
    Tokens(Tokens),
    /// A share of the whole conversation.
    Percent(u64),
}

impl BudgetShare {
    /// The tokens that a conversation of a size gets.
    pub fn of(self, conversation: Tokens) -> Tokens {
        match self {
            Self::Tokens(tokens) => tokens,
            Self::Percent(percent) => {
                Tokens((u128::from(conversation.0) * u128::from(percent) / 100) as u64)
            }
        }
    }
}

/// How a trace is replayed; what is not set is as in `longhand serve`.
#[derive(Clone)]
pub struct ReplaySettings {
    /// The most tokens of a window.
    pub budget: BudgetShare,
    /// What share of the budget a full window is brought down to, in percent.
    pub low_water_percent: u64,
    /// Beyond what share of the budget a new tool result is clipped as it enters, in percent.
    pub clip_new_percent: Option<u64>,
    /// Whether every request has the recall tool, whose definition is counted.
    pub recall_tool: bool,
    /// Counts tokens.
    pub meter: Arc<dyn Meter>,
    /// What stateless methods count with, if not with that.
    pub stateless_meter: Option<Arc<dyn Meter>>,
    /// The summarisers of folded messages, in the order in which they are tried.
    pub summarisers: Vec<Arc<dyn Summariser>>,
    /// Knows the ids of the project.
    pub miner: Miner,
    /// What a token costs that the provider has from the request before.
    pub cached_price: f64,
    /// What any other token costs.
    pub uncached_price: f64,
    /// How long a prefix that nobody asks for stays in the cache, in milliseconds; `None` for as long as it takes.
    pub cache_life_ms: Option<u64>,
    /// Whether windows are made without regard to pauses, though they are billed by them.
    pub ignores_pauses: bool,
}

impl ReplaySettings {
    /// The usual settings.
    pub fn new(budget: BudgetShare, meter: Arc<dyn Meter>) -> Self {
        Self {
            budget,
            low_water_percent: 30,
            clip_new_percent: None,
            recall_tool: false,
            meter,
            stateless_meter: None,
            summarisers: vec![Arc::new(Extractive)],
            miner: Miner::default(),
            cached_price: 0.1,
            uncached_price: 1.0,
            cache_life_ms: None,
            ignores_pauses: false,
        }
    }
}

impl ReplaySettings {
    /// Whether a pause is longer than a prefix stays in the cache.
    pub(crate) fn is_cold(&self, idle_ms: Option<u64>) -> bool {
        let pause = self.cache_life_ms.zip(idle_ms);
        pause.is_some_and(|(life_ms, idle_ms)| CachePause { life_ms, idle_ms }.is_over())
    }

    /// The prices as plans take them.
    fn prices(&self) -> CachePrices {
        let per_thousand = |price: f64| (price * 1_000.0).round() as u64;
        CachePrices {
            cached: per_thousand(self.cached_price),
            uncached: per_thousand(self.uncached_price),
        }
    }
}

/// The result of replaying a trace.
#[derive(Clone, Debug, Default)]
pub struct ReplayRun {
    /// The figures of all requests together.
    pub figures: Figures,
    /// The most tokens that a window was to have.
    pub budget: Tokens,
    /// Each request.
    pub requests: Vec<ReplayedRequest>,
}

/// One request of a replay.
#[derive(Clone, Debug)]
pub struct ReplayedRequest {
    /// The size of the conversation so far.
    pub whole: Tokens,
    /// The size of the window.
    pub tokens: Tokens,
    /// What of it the provider has from the request before.
    pub cached: Tokens,
    /// Whether it does not begin with the whole window before it.
    pub is_break: bool,
    /// Whether a batch was made for it.
    pub is_batch: bool,
    /// Whether the provider's cache had run out in the pause before it.
    pub is_cold: bool,
    /// Why the provider would refuse it at any size.
    pub faults: Vec<String>,
    /// The texts that the window should have and does not.
    pub missing: Vec<(Measure, String)>,
}

/// Replays a trace; `watch` is shown every window as it would be sent.
pub fn replay(
    trace: &Trace,
    method: Method,
    settings: &ReplaySettings,
    mut watch: impl FnMut(&str),
) -> Result<ReplayRun, DialectError> {
    let mut maker = Maker::new(method, settings, settings.budget.of(trace.tokens()));
    let (mut number, fixed) = (0, trace.fixed_of(settings));
    let make = |conversation: &Conversation| {
        let messages = trace.replies[number].start;
        number += 1;
        maker.window(&MeasuredRequest {
            conversation,
            weights: &trace.weights[..messages],
            fixed,
            meter: &*settings.meter,
            idle_ms: trace.idle_ms(number - 1),
        })
    };
    walk(trace, settings, make, &mut watch)
}

/// Judges windows that another program makes: `make` gets each request and returns what is sent for it.
///
/// Where a window differs from its request, a batch is counted.
pub fn judge(
    trace: &Trace,
    settings: &ReplaySettings,
    mut make: impl FnMut(&str) -> String,
) -> Result<ReplayRun, DialectError> {
    let make = |conversation: &Conversation| {
        let text = make(conversation.bytes());
        let is_new = text != conversation.bytes();
        Ok(ReplayedWindow::alone(Some(text), is_new))
    };
    walk(trace, settings, make, &mut |_| ())
}

/// Goes through a trace, request by request.
fn walk(
    trace: &Trace,
    settings: &ReplaySettings,
    mut make: impl FnMut(&Conversation) -> Result<ReplayedWindow, DialectError>,
    watch: &mut dyn FnMut(&str),
) -> Result<ReplayRun, DialectError> {
    let budget = settings.budget.of(trace.tokens());
    let mut shown = NewestWindow { fixed: trace.fixed_of(settings), ..NewestWindow::default() };
    let mut run = ReplayRun { budget, ..ReplayRun::default() };
    for (number, reply) in trace.replies.iter().enumerate() {
        let mut conversation = trace.conversation.beginning(reply.start)?;
        conversation.keep_thinking();
        let ReplayedWindow { text, is_new, edits } = make(&conversation)?;
        let window = match text {
            Some(text) => shown.read(text, &conversation)?,
            None => conversation,
        };
        let mut sent = shown.advance(window, trace, &Scale::new(&*settings.meter));
        sent.whole = trace.size(reply.start);
        sent.is_batch = is_new;
        if settings.is_cold(trace.idle_ms(number)) {
            (sent.is_cold, sent.cached) = (true, Tokens::ZERO);
        }
        shown.ask(trace, number, &mut run.figures, &mut sent);
        run.figures.bill(&sent, budget, settings);
        run.figures.edits.add(&edits);
        run.requests.push(sent);
        watch(shown.window.as_ref().map_or("", Conversation::bytes));
    }
    Ok(run)
}

impl Figures {
    fn bill(&mut self, sent: &ReplayedRequest, budget: Tokens, settings: &ReplaySettings) {
        let uncached = sent.tokens.saturating_sub(sent.cached);
        self.requests += 1;
        self.sent += sent.tokens;
        self.cached += sent.cached;
        self.cost += sent.cached.0 as f64 * settings.cached_price
            + uncached.0 as f64 * settings.uncached_price;
        self.over_budget += u64::from(sent.tokens > budget);
        self.invalid += u64::from(!sent.faults.is_empty());
        self.breaks += u64::from(sent.is_break);
        self.batches += u64::from(sent.is_batch);
        self.pauses += u64::from(sent.is_cold);
    }
}

/// The newest window.
#[derive(Default)]
struct NewestWindow {
    /// What it takes besides messages.
    fixed: Tokens,
    window: Option<Conversation>,
    weights: Vec<Tokens>,
    /// All that can be read in it.
    all: WindowTexts,
    /// What can be read in it and stands there as it was received.
    original: WindowTexts,
}

impl NewestWindow {
    /// Reads a window. Messages that it shares with the window before are not read again.
    fn read(&self, text: String, asked: &Conversation) -> Result<Conversation, DialectError> {
        let text = Arc::new(text);
        match &self.window {
            Some(before) => read_after(text, before),
            None => read_shared(text, Some(asked.dialect)),
        }
    }

    /// Moves on to the next window.
    fn advance(&mut self, window: Conversation, trace: &Trace, scale: &Scale) -> ReplayedRequest {
        let before = self.window.as_ref().map_or(&[][..], |before| &before.messages);
        let shared = shared(before, &window.messages);
        let is_break = shared < before.len();
        let is_first = self.window.is_none();
        let new = || window.messages[shared..].iter();
        self.weights.truncate(shared);
        let fixed = if is_first { Tokens::ZERO } else { self.fixed };
        let cached = fixed + self.weights.iter().copied().sum();
        self.weights.extend(new().map(|message| scale.message(message, Tokens::MAX)));
        self.all.advance(shared, new().map(readable::message));
        let original = |message: &Message| -> String {
            let parts = message.parts.iter().map(readable::part);
            let kept: Vec<String> = parts.filter(|text| trace.originals.contains(text)).collect();
            kept.join(" ")
        };
        self.original.advance(shared, new().map(original));
        let tokens: Tokens = self.weights.iter().copied().sum();
        let tokens = tokens + self.fixed + scale.framing().reply;
        let faults = window.check().into_iter().filter(Finding::is_fault);
        let faults = faults.map(|fault| fault.to_string()).collect();
        self.window = Some(window);
        ReplayedRequest {
            whole: Tokens::ZERO,
            tokens,
            cached,
            is_break,
            is_batch: false,
            is_cold: false,
            faults,
            missing: Vec::new(),
        }
    }

    /// Looks in the window for the texts that it should have.
    fn ask(
        &mut self,
        trace: &Trace,
        number: usize,
        figures: &mut Figures,
        sent: &mut ReplayedRequest,
    ) {
        for (measure, number) in &trace.questions.requests[number] {
            let text = &trace.questions.texts[*number];
            let is_kept = self.all.first(*number, text).is_some();
            figures.note(*measure, is_kept);
            if *measure == Measure::Need {
                figures.ctx.note(self.original.first(*number, text).is_some());
            }
            if !is_kept {
                sent.missing.push((*measure, text.clone()));
            }
        }
    }
}

/// How many messages two windows begin with alike, to the byte.
fn shared(one: &[Message], other: &[Message]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one.raw.is_same(&other.raw)).count()
}
