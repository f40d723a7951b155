//! What requests cost.

use longhand_core::undated;
use longhand_dialect::Usage;
use longhand_meter::{ModelFacts, Price};

use crate::Model;

/// The cost of a request and its answer in millionths of a dollar, rounded up.
pub fn cost_micros(price: &Price, usage: &Usage) -> u64 {
    let cached = usage.cached_input.min(usage.input);
    let written = usage.cache_write.min(usage.input - cached);
    let fresh = usage.input - cached - written;
    let of = |tokens: u64, price: u64| u128::from(tokens) * u128::from(price);
    let total = [
        of(fresh, price.input),
        of(cached, price.cached_input),
        of(written, price.cache_write),
        of(usage.output, price.output),
    ];
    let total = total.into_iter().fold(0, u128::saturating_add);
    u64::try_from(total.div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// The tokens that a call is billed for: the larger of the reported and the counted number.
///
/// Some answers report nothing, zero, text or a negative number, and a cap on spending must hold all the same.
/// Reported cached tokens are believed up to the reported input tokens.
pub(crate) fn used(reported: Option<Usage>, counted: Usage) -> Usage {
    let reported = reported.unwrap_or_default();
    let cached_input = reported.cached_input.min(reported.input);
    Usage {
        input: reported.input.max(counted.input),
        cached_input,
        cache_write: reported.cache_write.min(reported.input - cached_input),
        output: reported.output.max(counted.output),
    }
}

/// The list prices that [`ModelFacts`] knows, and those that the settings put in their place.
#[derive(Clone, Debug, Default)]
pub struct Prices {
    overrides: Vec<(String, Price)>,
}

impl Prices {
    const FREE: Price = Price { input: 0, cached_input: 0, cache_write: 0, output: 0 };

    /// Sets the price of a model: by its full name (`openrouter/qwen/qwen3`), or by its last part for
    /// all endpoints.
    pub fn set(&mut self, model: &str, price: Price) {
        self.overrides.retain(|(name, _)| name != model);
        self.overrides.push((model.to_owned(), price));
    }

    /// The price of a model; a model on this machine is free unless a price was set.
    pub fn of(&self, model: &Model) -> Option<Price> {
        if let Some(price) = self.set_for(&model.to_string()) {
            return Some(price);
        }
        if model.endpoint.is_loopback() {
            return Some(Self::FREE);
        }
        self.named(&model.name)
    }

    /// The price of a model that is known by its name alone.
    pub fn named(&self, name: &str) -> Option<Price> {
        let last = || name.rsplit('/').next();
        self.set_for(name).or_else(|| self.set_for(last()?)).or_else(|| ModelFacts::of(name).price)
    }

    fn set_for(&self, wanted: &str) -> Option<Price> {
        let matches = |name: &str| name == wanted || name == undated(wanted);
        self.overrides.iter().find(|(name, _)| matches(name)).map(|(_, price)| *price)
    }

    /// What an answer cost in millionths of a dollar, if the price is known.
    pub fn cost_micros(&self, model: &Model, usage: &Usage) -> Option<u64> {
        self.of(model).map(|price| cost_micros(&price, usage))
    }
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
    fn a_list_price_is_found_by_any_spelling() {
        let prices = Prices::default();
        for name in ["gpt-4o", "gpt-4o-2024-08-06", "openai/GPT-4o"] {
            let model = model("x", "https://example.com/v1", name);
            assert_eq!(prices.of(&model).map(|price| price.input), Some(2_500_000), "{name}");
        }
        assert_eq!(prices.named("unheard-of"), None);
    }

    #[test]
    fn what_runs_here_is_free_and_a_set_price_wins() {
        let mut prices = Prices::default();
        let local = model("ollama", "http://127.0.0.1:11434/v1", "gpt-4o");
        let usage = Usage { input: 1_000, output: 1_000, ..Usage::default() };
        assert_eq!(prices.cost_micros(&local, &usage), Some(0));
        prices.set("ollama/gpt-4o", Price { input: 1_000, output: 1_000, ..Prices::FREE });
        assert_eq!(prices.cost_micros(&local, &usage), Some(2));
        let remote = model("x", "https://example.com/v1", "gpt-4o");
        prices.set("gpt-4o", Price { input: 1_000_000, ..Prices::FREE });
        assert_eq!(prices.cost_micros(&remote, &usage), Some(1_000));
    }

    #[test]
    fn a_call_has_used_the_larger_of_what_is_reported_and_counted() {
        let counted = Usage { input: 1_000, output: 100, ..Usage::default() };
        let usage = |input, cached_input, cache_write, output| Usage {
            input,
            cached_input,
            cache_write,
            output,
        };
        for (reported, expected) in [
            (None, counted),
            (Some(usage(0, 0, 0, 0)), counted),
            (Some(usage(1_200, 800, 100, 150)), usage(1_200, 800, 100, 150)),
            (Some(usage(900, 600, 0, 150)), usage(1_000, 600, 0, 150)),
            // No discount beyond the total that was reported.
            (Some(usage(0, 5_000, 5_000, 0)), counted),
            (Some(usage(10, 5_000, 5_000, 0)), usage(1_000, 10, 0, 100)),
            (
                Some(usage(u64::MAX, u64::MAX, u64::MAX, u64::MAX)),
                usage(u64::MAX, u64::MAX, 0, u64::MAX),
            ),
        ] {
            assert_eq!(used(reported, counted), expected, "{reported:?}");
        }
        let dear = Price { input: u64::MAX, output: u64::MAX, ..Prices::FREE };
        assert_eq!(cost_micros(&dear, &usage(u64::MAX, 0, 0, u64::MAX)), u64::MAX);
    }

    #[test]
    fn every_kind_of_token_has_its_price() {
        let price = Price {
            input: 3_000_000,
            cached_input: 300_000,
            cache_write: 3_750_000,
            output: 15_000_000,
        };
        let usage = Usage { input: 1_000, cached_input: 600, cache_write: 200, output: 100 };
        assert_eq!(cost_micros(&price, &usage), 200 * 3 + 180 + 200 * 15 / 4 + 1_500);
        let odd = Usage { input: 10, cached_input: 600, cache_write: 200, output: 0 };
        assert_eq!(cost_micros(&price, &odd), 3);
        assert_eq!(cost_micros(&price, &Usage::default()), 0);
    }
}
