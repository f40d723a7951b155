//! Valid conversations of every shape, for property tests.

mod anthropic;
mod arguments;
mod chat;
mod conversation;
mod growing;
mod responses;
mod text;
mod text_action;

use proptest::arbitrary::any;
use proptest::collection::vec;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, RngSeed};

use self::conversation::conversation;
pub use self::growing::{GrowingRequest, PieceSize};
use crate::rng::Rng;
use crate::validator::WireFormat;

/// How many cases a law is tried on: always the same few, so that a test that passed goes on passing.
///
/// `LONGHAND_CASES` asks for another number, `LONGHAND_TIMES` for a multiple of the few; these are new cases unless
/// `LONGHAND_SEED_FIRST` names their seed.
pub fn cases(few: u32) -> Config {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let times = || number("LONGHAND_TIMES").map(|times| times.saturating_mul(few.into()));
    let asked = number("LONGHAND_CASES").or_else(times);
    let rng_seed = match (asked, number("LONGHAND_SEED_FIRST")) {
        (None, _) => RngSeed::Fixed(1),
        (Some(_), Some(seed)) => RngSeed::Fixed(seed),
        (Some(_), None) => RngSeed::Random,
    };
    Config {
        cases: asked.map_or(few, |asked| asked.try_into().unwrap_or(u32::MAX)),
        rng_algorithm: RngAlgorithm::XorShift,
        rng_seed,
        failure_persistence: None,
        max_shrink_iters: 400,
        ..Config::default()
    }
}

/// Conversations in the form of Chat Completions: a bare array or a request body.
pub fn chat_json() -> impl Strategy<Value = String> {
    conversation().prop_map(|conversation| chat::render(&conversation))
}

/// Conversations in the form of Anthropic Messages: a bare array or a request body.
pub fn anthropic_json() -> impl Strategy<Value = String> {
    conversation().prop_map(|conversation| anthropic::render(&conversation))
}

/// Conversations in the form of Responses: a bare array of items or a request body.
pub fn responses_json() -> impl Strategy<Value = String> {
    conversation().prop_map(|conversation| responses::render(&conversation))
}

/// Chat conversations of an agent without tools: replies end in a fenced command, and the next
/// user message is what the shell printed.
pub fn text_action_json() -> impl Strategy<Value = String> {
    text_action::conversation()
}

/// Requests that turns can be appended to, each with a model, settings and layout of its own.
pub fn turns(dialect: WireFormat) -> impl Strategy<Value = GrowingRequest> {
    any::<u64>().prop_map(move |seed| GrowingRequest::new(dialect, PieceSize::Light, seed))
}

/// Conversations with all that a format can hold: tools that the provider runs, thinking, pictures,
/// files, system messages among the others, what clients wrap around a user's words.
///
/// Every turn has its own seed, so that a failing case shrinks to few turns.
pub fn rich(dialect: WireFormat, weight: PieceSize) -> impl Strategy<Value = String> {
    (any::<u64>(), vec(any::<u64>(), 1..24)).prop_map(move |(seed, turns)| {
        let mut request = GrowingRequest::new(dialect, weight, seed);
        for seed in turns {
            request.append(&mut Rng::new(seed));
        }
        request.json()
    })
}

/// Rich conversations in the form of Chat Completions.
pub fn rich_chat() -> impl Strategy<Value = String> {
    rich(WireFormat::Chat, PieceSize::Light)
}

/// Rich conversations in the form of Anthropic Messages.
pub fn rich_anthropic() -> impl Strategy<Value = String> {
    rich(WireFormat::Anthropic, PieceSize::Light)
}

/// Rich conversations in the form of Responses.
pub fn rich_responses() -> impl Strategy<Value = String> {
    rich(WireFormat::Responses, PieceSize::Light)
}
