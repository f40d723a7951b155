//! What tokens cost.

use longhand_dialect::Usage;

use crate::Model;

/// The price of a model in millionths of a dollar per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    /// Of tokens that are read.
    pub input: u64,
    /// Of tokens that are read from a cache.
    pub cached_input: u64,
    /// Of tokens that are written.
    pub output: u64,
}

impl Price {
    /// The price of a request and its answer in millionths of a dollar, rounded up.
    pub fn cost_micros(&self, usage: &Usage) -> u64 {
        let cached = usage.cached_input.min(usage.input);
        let written = usage.cache_write.min(usage.input - cached);
        let fresh = usage.input - cached - written;
        let total = u128::from(fresh) * u128::from(self.input)
            + u128::from(cached) * u128::from(self.cached_input)
            // Those who charge for writing to a cache want a quarter more.
            + u128::from(written) * u128::from(self.input) * 5 / 4
            + u128::from(usage.output) * u128::from(self.output);
        u64::try_from(total.div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}

/// List prices in cents per million tokens: input, cached input, output. They are an estimate as of
/// November 2026, without what some charge more for very long prompts; the settings override them.
const LIST: &[(&str, f64, f64, f64)] = &[
    ("gpt-4o", 250.0, 125.0, 1000.0),
    ("gpt-4o-mini", 15.0, 7.5, 60.0),
    ("gpt-4.1", 200.0, 50.0, 800.0),
    ("gpt-4.1-mini", 40.0, 10.0, 160.0),
    ("gpt-4.1-nano", 10.0, 2.5, 40.0),
    ("gpt-5", 125.0, 12.5, 1000.0),
    ("gpt-5-mini", 25.0, 2.5, 200.0),
    ("gpt-5-nano", 5.0, 0.5, 40.0),
    ("gpt-5.1", 125.0, 12.5, 1000.0),
    ("gpt-5.2", 175.0, 17.5, 1400.0),
    ("gpt-5.4", 250.0, 25.0, 1500.0),
    ("gpt-5.4-mini", 75.0, 7.5, 450.0),
    ("gpt-5.4-nano", 20.0, 2.0, 125.0),
    ("o3", 200.0, 50.0, 800.0),
    ("o4-mini", 110.0, 27.5, 440.0),
    ("claude-opus-4-5", 500.0, 50.0, 2500.0),
    ("claude-opus-4-6", 500.0, 50.0, 2500.0),
    ("claude-opus-4-7", 500.0, 50.0, 2500.0),
    ("claude-opus-4-8", 500.0, 50.0, 2500.0),
    ("claude-opus-5", 500.0, 50.0, 2500.0),
    ("claude-opus-4-1", 1500.0, 150.0, 7500.0),
    ("claude-opus-4", 1500.0, 150.0, 7500.0),
    ("claude-sonnet-4", 300.0, 30.0, 1500.0),
    ("claude-sonnet-4-5", 300.0, 30.0, 1500.0),
    ("claude-sonnet-4-6", 300.0, 30.0, 1500.0),
    ("claude-haiku-4-5", 100.0, 10.0, 500.0),
    ("claude-3-5-haiku", 80.0, 8.0, 400.0),
    ("claude-3-haiku", 25.0, 3.0, 125.0),
    ("gemini-2.5-pro", 125.0, 12.5, 1000.0),
    ("gemini-2.5-flash", 30.0, 3.0, 250.0),
    ("gemini-2.5-flash-lite", 10.0, 1.0, 40.0),
    ("grok-4", 300.0, 75.0, 1500.0),
    ("grok-4-fast", 20.0, 5.0, 50.0),
];

/// Prices by model.
#[derive(Clone, Debug)]
pub struct Prices {
    list: Vec<(String, Price)>,
}

impl Default for Prices {
    fn default() -> Self {
        let micros = |cents: f64| (cents * 10_000.0).round() as u64;
        let list = LIST.iter().map(|(name, input, cached, output)| {
            let price = Price {
                input: micros(*input),
                cached_input: micros(*cached),
                output: micros(*output),
            };
            ((*name).to_owned(), price)
        });
        Self { list: list.collect() }
    }
}

impl Prices {
    /// Sets the price of a model: by its full name (`openrouter/qwen/qwen3`), or by its last part for
    /// all endpoints.
    pub fn set(&mut self, model: &str, price: Price) {
        self.list.retain(|(name, _)| name != model);
        self.list.push((model.to_owned(), price));
    }

    /// The price of a model; what runs on this machine is free unless a price was set.
    pub fn of(&self, model: &Model) -> Option<Price> {
        if let Some(price) = self.find(&model.to_string()) {
            return Some(price);
        }
        if model.endpoint.is_loopback() {
            return Some(Price { input: 0, cached_input: 0, output: 0 });
        }
        self.named(&model.name)
    }

    /// The price of a model that is known by its name alone.
    pub fn named(&self, name: &str) -> Option<Price> {
        self.find(name).or_else(|| self.find(name.rsplit('/').next()?))
    }

    fn find(&self, wanted: &str) -> Option<Price> {
        let own = |name: &str| wanted.strip_prefix(name).is_some_and(is_version);
        self.list.iter().find(|(name, _)| own(name)).map(|(_, price)| *price)
    }

    /// What an answer cost in millionths of a dollar, if the price is known.
    pub fn cost_micros(&self, model: &Model, usage: &Usage) -> Option<u64> {
        self.of(model).map(|price| price.cost_micros(usage))
    }
}

/// Whether the rest of a name is a date or nothing: `gpt-5-mini` is no version of `gpt-5`.
fn is_version(rest: &str) -> bool {
    if rest.is_empty() || rest == "-latest" {
        return true;
    }
    let Some(date) = rest.strip_prefix(['-', '@']) else { return false };
    let digits = date.bytes().filter(u8::is_ascii_digit).count();
    digits >= 4 && date.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Api, Endpoint};

    fn model(endpoint: &str, url: &str, name: &str) -> Model {
        let endpoint = Endpoint::new(endpoint, Api::Chat, url);
        Model { endpoint: Arc::new(endpoint), name: name.into() }
    }

    #[test]
    fn a_model_has_its_own_price_and_not_that_of_a_relative() {
        let prices = Prices::default();
        for (name, input) in [
            ("gpt-4o", Some(2_500_000)),
            ("gpt-4o-2024-08-06", Some(2_500_000)),
            ("gpt-4o-mini", Some(150_000)),
            ("gpt-5-nano-2025-08-07", Some(50_000)),
            ("gpt-5-pro", None),
            ("gpt-5.9", None),
            ("claude-haiku-4-5-20251001", Some(1_000_000)),
            ("claude-opus-4-20250514", Some(15_000_000)),
            ("claude-opus-4-5", Some(5_000_000)),
            ("claude-opus-4-9", None),
            ("anthropic/claude-sonnet-4-5", Some(3_000_000)),
            ("unheard-of", None),
        ] {
            let model = model("x", "https://example.com/v1", name);
            assert_eq!(prices.of(&model).map(|price| price.input), input, "{name}");
        }
    }

    #[test]
    fn what_runs_here_is_free_and_a_set_price_wins() {
        let mut prices = Prices::default();
        let local = model("ollama", "http://127.0.0.1:11434/v1", "gpt-4o");
        let usage = Usage { input: 1_000, output: 1_000, ..Usage::default() };
        assert_eq!(prices.cost_micros(&local, &usage), Some(0));
        prices.set("ollama/gpt-4o", Price { input: 1_000, cached_input: 0, output: 1_000 });
        assert_eq!(prices.cost_micros(&local, &usage), Some(2));
        let remote = model("x", "https://example.com/v1", "gpt-4o");
        prices.set("gpt-4o", Price { input: 1_000_000, cached_input: 0, output: 0 });
        assert_eq!(prices.cost_micros(&remote, &usage), Some(1_000));
    }

    #[test]
    fn every_kind_of_token_has_its_price() {
        let price = Price { input: 3_000_000, cached_input: 300_000, output: 15_000_000 };
        let usage = Usage { input: 1_000, cached_input: 600, cache_write: 200, output: 100 };
        assert_eq!(price.cost_micros(&usage), 200 * 3 + 180 + 200 * 15 / 4 + 1_500);
        let odd = Usage { input: 10, cached_input: 600, cache_write: 200, output: 0 };
        assert_eq!(price.cost_micros(&odd), 3);
        assert_eq!(price.cost_micros(&Usage::default()), 0);
    }
}
