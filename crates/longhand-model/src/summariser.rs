//! A summariser that asks a model.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use longhand_core::{Scale, Tokens};
use longhand_dialect::{Overflow, Reply, Stop, Usage};
use longhand_summary::{Input, Summariser, Summary, SummaryError};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::clean::{clean, finished, is_refusal};
use crate::pieces::{self, Segment};
use crate::price::used;
use crate::{
    Model, ModelClient, ModelError, ModelRequest, Price, Prices, Spending, cost_micros, prompt,
};

/// Has a model write summaries.
///
/// It blocks until the model has answered, so it belongs on a thread that may wait: never call it from
/// async code. The waiting for the network is done by a runtime, its own or one that it is given.
///
/// Input that is larger than the model's window goes in pieces, each folded into the summary of those
/// before it.
#[derive(Clone, Debug)]
pub struct ModelSummariser {
    name: String,
    model: Model,
    client: Arc<ModelClient>,
    home: Arc<Home>,
    prices: Arc<Prices>,
    spending: Option<Arc<Spending>>,
    instructions: Option<String>,
    stream: bool,
    output_max: Option<Tokens>,
    /// The model's window in tokens; 0 if it is not known.
    window: Arc<AtomicU64>,
    /// Whether the model was found to think at length before it writes.
    thinks: Arc<AtomicBool>,
    /// The limit that the newest refusals showed.
    learned: Arc<Mutex<Option<LearnedLimit>>>,
    /// The most input, by our meter, that was answered.
    passed: Arc<AtomicU64>,
}

/// The input limit that a model was found to have, and when.
#[derive(Clone, Copy, Debug)]
struct LearnedLimit {
    /// Its window, as it says.
    window: Option<u64>,
    /// The most input, by our meter.
    input_max: u64,
    at: Duration,
}

/// How long a limit is believed: it may have been said by mistake.
const LEARNED_TIME: Duration = Duration::from_mins(10);

/// How many times as large as ours a provider's count of the same input may be.
const COUNT_RATIO_MAX: u64 = 3;

/// What drives the network.
#[derive(Debug)]
enum Home {
    Own(Option<Runtime>),
    Shared(Handle),
}

impl Home {
    fn handle(&self) -> Option<&Handle> {
        match self {
            Self::Own(runtime) => runtime.as_ref().map(Runtime::handle),
            Self::Shared(handle) => Some(handle),
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Self::Own(runtime) = self
            && let Some(runtime) = runtime.take()
        {
            // Waiting here would panic where async code drops us.
            runtime.shutdown_background();
        }
    }
}

/// How often a request is made smaller before it is given up.
const SHRINKS_MAX: u32 = 5;

/// The price of a model whose price is unknown, so that a cap on spending still holds.
pub(crate) const UNKNOWN_PRICE: Price =
    Price { input: 5_000_000, cached_input: 5_000_000, cache_write: 6_250_000, output: 25_000_000 };

/// The most pieces that an input may take.
const PIECES_MAX: u32 = 64;

/// The least input that is worth asking for.
const ROOM_MIN: u64 = 128;

impl ModelSummariser {
    /// A summariser with a runtime of its own.
    pub fn new(client: Arc<ModelClient>, model: Model) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("longhand-model")
            .enable_all()
            .build()?;
        Ok(Self::at(client, model, Home::Own(Some(runtime))))
    }

    /// A summariser on a runtime that others use too, and that must outlive it.
    pub fn on(client: Arc<ModelClient>, model: Model, runtime: Handle) -> Self {
        Self::at(client, model, Home::Shared(runtime))
    }

    fn at(client: Arc<ModelClient>, model: Model, home: Home) -> Self {
        Self {
            name: model.to_string(),
            model,
            client,
            home: Arc::new(home),
            prices: Arc::default(),
            spending: None,
            instructions: None,
            stream: true,
            output_max: None,
            window: Arc::default(),
            thinks: Arc::default(),
            learned: Arc::default(),
            passed: Arc::default(),
        }
    }

    /// The same with other prices.
    #[must_use]
    pub fn with_prices(self, prices: Arc<Prices>) -> Self {
        Self { prices, ..self }
    }

    /// The same within a cap.
    #[must_use]
    pub fn with_spending(self, spending: Arc<Spending>) -> Self {
        Self { spending: Some(spending), ..self }
    }

    /// The same for a model whose window is known.
    #[must_use]
    pub fn with_window(self, window: Tokens) -> Self {
        Self { window: Arc::new(AtomicU64::new(window.0)), ..self }
    }

    /// The same with something more to ask for, in the user's words.
    #[must_use]
    pub fn with_instructions(self, instructions: &str) -> Self {
        Self { instructions: Some(instructions.to_owned()), ..self }
    }

    /// The same with answers that come whole, for servers that cannot stream.
    #[must_use]
    pub fn without_stream(self) -> Self {
        Self { stream: false, ..self }
    }

    /// The same for a model whose answers are stopped at this many tokens.
    ///
    /// A small model may never stop. The unfinished rest is cut off.
    #[must_use]
    pub fn with_output_max(self, tokens: Tokens) -> Self {
        Self { output_max: Some(tokens), ..self }
    }

    /// Makes one call and reads the summary out of the answer.
    fn ask(
        &self,
        call: &SummaryCall,
        scale: &Scale,
        account: &mut Account,
    ) -> Result<Result<String, ModelError>, SummaryError> {
        let output = self.output(call.limit);
        let request = ModelRequest {
            max_output: Some(output),
            temperature: Some(0.0),
            stream: self.stream,
            ..ModelRequest::new(&call.system, &call.user)
        };
        let reservation = self.reserve(call.input(scale), output)?;
        let reply = match self.send(request)? {
            Ok(reply) => reply,
            Err(error) => {
                if !error.is_perhaps_billed() {
                    self.settle(reservation, 0);
                }
                return Ok(Err(error));
            }
        };
        let input = call.input(scale).0;
        let counted = Usage { input, output: scale.text(&reply.text).0, ..Usage::default() };
        let usage = used(reply.usage, counted);
        let cost = self.prices.cost_micros(&self.model, &usage);
        account.add(reply.usage.unwrap_or(counted), cost);
        self.settle(reservation, cost_micros(&self.price(), &usage));
        self.passed.fetch_max(input, Ordering::Relaxed);
        let text = clean(&reply.text);
        if text.is_empty()
            && reply.stop == Stop::Length
            && !self.thinks.swap(true, Ordering::Relaxed)
        {
            return self.ask(call, scale, account);
        }
        if reply.stop == Stop::Refused || is_refusal(&text) {
            let message = crate::secret::presentable(&text, None);
            let endpoint = self.model.endpoint.name.clone();
            return Ok(Err(ModelError::Refused { endpoint, message }));
        }
        // Some servers report every answer as complete; then the token count decides.
        let used_up = reply.usage.is_some_and(|usage| usage.output >= output.0);
        let is_cut = used_up || matches!(reply.stop, Stop::Length | Stop::Window);
        let text = if is_cut { finished(&text).to_owned() } else { text };
        if text.is_empty() {
            return Err(SummaryError::Empty { name: self.name.clone() });
        }
        Ok(Ok(text))
    }

    /// The price of the model, or the one that is assumed.
    fn price(&self) -> Price {
        self.prices.of(&self.model).unwrap_or(UNKNOWN_PRICE)
    }

    /// Reserves the most that a call may cost, by our count of its input and the limit of its answer.
    fn reserve(&self, input: Tokens, output: Tokens) -> Result<Option<u64>, SummaryError> {
        let Some(spending) = &self.spending else { return Ok(None) };
        // Providers count somewhat more than we do, and what is written to a cache costs more.
        let price = self.price();
        let dearer = Price { input: price.input.max(price.cache_write), ..price };
        let usage = Usage { input: input.0 + input.0 / 8, output: output.0, ..Usage::default() };
        let micros = cost_micros(&dearer, &usage);
        spending.reserve(self.client.clock().date(), micros).map_err(|why| self.unavailable(why))
    }

    fn settle(&self, reservation: Option<u64>, micros: u64) {
        if let Some(spending) = &self.spending {
            spending.settle(reservation, micros);
        }
    }

    /// Sends a request from this thread and waits.
    ///
    /// The runtime does the work and this thread only waits, so that this works inside another runtime, too.
    fn send(&self, request: ModelRequest) -> Result<Result<Reply, ModelError>, SummaryError> {
        let gone = || self.unavailable("its runtime has ended".to_owned());
        let (done, answer) = mpsc::sync_channel(1);
        let (client, model) = (Arc::clone(&self.client), self.model.clone());
        self.home.handle().ok_or_else(gone)?.spawn(async move {
            let _ = done.send(client.complete(&model, &request, &mut |_| {}).await);
        });
        answer.recv().map_err(|_| gone())
    }

    fn known_window(&self) -> Option<u64> {
        let set = Some(self.window.load(Ordering::Relaxed)).filter(|window| *window > 0);
        self.learned().and_then(|learned| learned.window).or(set)
    }

    /// The limit that recent refusals showed.
    fn learned(&self) -> Option<LearnedLimit> {
        let learned = *self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        let age = |learned: &LearnedLimit| self.client.clock().now().saturating_sub(learned.at);
        learned.filter(|learned| age(learned) < LEARNED_TIME)
    }

    /// How much the answer may have: somewhat more than the summary, since the model counts in its own
    /// way, and much more for one that thinks.
    fn output(&self, limit: Tokens) -> Tokens {
        let thoughts = if self.thinks.load(Ordering::Relaxed) { 8_192 } else { 64 };
        let wanted = limit.0 + limit.0 / 2 + thoughts;
        let wanted = self.output_max.map_or(wanted, |most| wanted.min(most.0));
        Tokens(self.known_window().map_or(wanted, |window| wanted.min(window / 3)).max(1))
    }

    /// How much input the model takes by our meter, which may differ from its own.
    fn capacity(&self, output: Tokens) -> Option<Tokens> {
        let window = self.known_window().map(|window| (window * 9 / 10).saturating_sub(output.0));
        let learned = self.learned().map_or(u64::MAX, |learned| learned.input_max);
        Some(window.unwrap_or(u64::MAX).min(learned)).filter(|room| *room < u64::MAX).map(Tokens)
    }

    /// Learns from the refusal of a request of `sent` tokens.
    fn learn(&self, overflow: Overflow, sent: Tokens, output: Tokens) {
        let before = self.learned();
        let mut less = sent.0 / 2;
        let mut window = before.and_then(|learned| learned.window);
        // A limit below the size of a request that was answered is wrong.
        let passed = self.passed.load(Ordering::Relaxed);
        let said = overflow.limit.filter(|limit| !overflow.bytes && *limit > passed);
        if let Some(limit) = said {
            window = Some(limit);
            // Where the provider counts more than we do, its count is the measure, if it can be of this input.
            let most = sent.0.saturating_mul(COUNT_RATIO_MAX);
            let asked = overflow.asked.filter(|asked| *asked <= most).unwrap_or(0);
            let counted = asked.max(sent.0).max(1);
            let fits = (limit / 10 * 9).saturating_sub(output.0.min(limit / 3));
            let ours = u128::from(fits) * u128::from(sent.0) / u128::from(counted);
            less = u64::try_from(ours).unwrap_or(u64::MAX).min(sent.0 / 10 * 9);
        }
        let input_max = before.map_or(less, |learned| learned.input_max.min(less));
        let learned = LearnedLimit { window, input_max, at: self.client.clock().now() };
        *self.learned.lock().unwrap_or_else(PoisonError::into_inner) = Some(learned);
    }

    fn failed(&self, error: ModelError) -> SummaryError {
        match error {
            ModelError::Resting { .. } | ModelError::Endpoint { .. } => {
                self.unavailable(error.to_string())
            }
            ModelError::Empty { .. } => SummaryError::Empty { name: self.name.clone() },
            error => SummaryError::Failed { name: self.name.clone(), source: Box::new(error) },
        }
    }

    fn unavailable(&self, reason: String) -> SummaryError {
        SummaryError::Unavailable { name: self.name.clone(), reason }
    }
}

impl Summariser for ModelSummariser {
    fn name(&self) -> &str {
        &self.name
    }

    fn summarise(
        &self,
        input: &Input,
        limit: Tokens,
        scale: &Scale,
    ) -> Result<Summary, SummaryError> {
        let mut queue = pieces::segments(input.rounds);
        let mut earlier = input.earlier.filter(|text| !text.trim().is_empty()).map(str::to_owned);
        if limit == Tokens::ZERO || queue.is_empty() && earlier.is_none() {
            return Err(SummaryError::Empty { name: self.name.clone() });
        }
        let system = |limit| prompt::fold(limit, self.instructions.as_deref());
        let frame = scale.text(&system(limit)) + scale.text(&closing(limit)) + Tokens(32);
        let mut account = Account::default();
        let mut shrinks = 0;
        for _ in 0..PIECES_MAX {
            let output = self.output(limit);
            let room = self.capacity(output).map(|capacity| capacity.saturating_sub(frame));
            if room.is_some_and(|room| room.0 < ROOM_MIN) {
                return Err(self.unavailable("its window is too small".to_owned()));
            }
            // A summary that fills the window would leave no room for the next piece.
            let target = room.map_or(limit, |room| limit.min(Tokens(room.0 / 3)));
            let before = queue.clone();
            let mut taken = earlier.clone();
            let mut head = so_far(taken.as_deref());
            if room.is_some_and(|room| scale.text(&head).0 > room.0 / 2) {
                // An earlier summary that fills more than half of the room is sent in pieces, like the rounds.
                let text = taken.take().unwrap_or_default();
                queue.push_front(Segment { source: "earlier summary".to_owned(), text });
                head = so_far(None);
            }
            let left = room.map(|room| room.saturating_sub(scale.text(&head)));
            let piece = pieces::take(&mut queue, left, scale);
            let user = format!("{head}{piece}{}", closing(target));
            let call = SummaryCall { system: system(target), user, limit: target };
            match self.ask(&call, scale, &mut account)? {
                Ok(text) if queue.is_empty() => return Ok(account.summary(text, &self.name)),
                Ok(text) if scale.text(&text) > target => {
                    earlier = Some(within(&text, target, scale));
                }
                Ok(text) => earlier = Some(text),
                Err(ModelError::TooLong { overflow, .. }) if shrinks < SHRINKS_MAX => {
                    shrinks += 1;
                    self.learn(overflow, call.input(scale), output);
                    queue = before;
                }
                Err(error) => return Err(self.failed(error)),
            }
        }
        Err(self.unavailable(format!("the input takes more than {PIECES_MAX} pieces")))
    }
}

/// As many lines of a text, from the first on, as there is room for.
fn within(text: &str, limit: Tokens, scale: &Scale) -> String {
    let mut kept = String::new();
    for line in text.lines() {
        let longer = format!("{kept}{line}\n");
        if scale.text(&longer) > limit {
            break;
        }
        kept = longer;
    }
    kept
}

struct SummaryCall {
    system: String,
    user: String,
    limit: Tokens,
}

impl SummaryCall {
    fn input(&self, scale: &Scale) -> Tokens {
        scale.text(&self.system) + scale.text(&self.user)
    }
}

/// The usage and cost of the calls for one summary.
#[derive(Default)]
struct Account {
    input: Tokens,
    output: Tokens,
    cost: Option<u64>,
}

impl Account {
    fn add(&mut self, usage: Usage, cost: Option<u64>) {
        self.input = Tokens(self.input.0.saturating_add(usage.input));
        self.output = Tokens(self.output.0.saturating_add(usage.output));
        self.cost = match (self.cost, cost) {
            (None, cost) => cost,
            (sum, None) => sum,
            (Some(sum), Some(cost)) => Some(sum.saturating_add(cost)),
        };
    }

    fn summary(self, text: String, model: &str) -> Summary {
        Summary {
            text,
            model: Some(model.to_owned()),
            input_tokens: self.input,
            output_tokens: self.output,
            cost_micros: self.cost,
        }
    }
}

fn so_far(earlier: Option<&str>) -> String {
    prompt::quote("summary so far", earlier.unwrap_or("(none yet)"))
}

fn closing(limit: Tokens) -> String {
    format!("\nThe quotes end here. Write the summary now, in at most {limit} tokens.")
}
