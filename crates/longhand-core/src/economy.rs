//! What tokens cost, and when it pays to bring a window down before it is full.

use crate::{Message, Role, Tokens};

/// What a provider bills for tokens that it reads, in any unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachePrices {
    /// A token of a prefix that the provider has from an earlier request.
    pub cached: u64,
    /// Any other token; where the provider charges for filling its cache, with that charge.
    pub uncached: u64,
}

impl Default for CachePrices {
    /// A tenth for what was read before, as most providers have it.
    fn default() -> Self {
        Self { cached: 10, uncached: 100 }
    }
}

/// How long nobody has asked for a prefix that a provider keeps for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachePause {
    /// How long the provider keeps a prefix that nobody asks for, in milliseconds.
    pub life_ms: u64,
    /// How long nobody has asked for it, in milliseconds.
    pub idle_ms: u64,
}

impl CachePause {
    /// Whether the provider has dropped the prefix: whatever is sent now is read anew.
    pub fn is_over(self) -> bool {
        self.idle_ms >= self.life_ms
    }
}

/// What a provider bills, and how a conversation goes on.
///
/// ```
/// use longhand_core::{CachePrices, Economy, Tokens};
///
/// let economy = Economy::of(CachePrices::default(), Tokens(50_000), 100);
/// // With 500 tokens a request, a window that came down to 20,000 is brought down again at 46,832.
/// assert_eq!(economy.high_water(Tokens(20_000)), Tokens(46_832));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Economy {
    /// What tokens cost.
    pub prices: CachePrices,
    /// How much of what should come from the cache does come from there, in percent.
    pub reach_percent: u64,
    /// The tokens that a request adds to the one before it.
    pub growth: Tokens,
    /// How many requests are still to come.
    pub requests: u64,
    /// The pause before the next request, if it is known.
    pub pause: Option<CachePause>,
}

/// A window may grow this many times as far as would be cheapest.
const PATIENCE: u64 = 2;

/// How much more a token costs after a break than without, at the least, in prices of a cached one.
///
/// A model takes long to read a window without a cache, and every batch hides something. So a provider whose
/// cache saves little gets no more batches than one that bills a tenth.
const BREAK_MIN: u64 = 9;

impl Economy {
    /// The economy of a conversation that has grown to `tokens` in `requests` requests.
    ///
    /// The same number of requests is expected to follow.
    pub fn of(prices: CachePrices, tokens: Tokens, requests: u64) -> Self {
        let growth = Tokens(tokens.0 / requests.max(1));
        Self { prices, reach_percent: 100, growth, requests, pause: None }
    }

    /// Whether the next request is read anew whatever it shows, so that a batch costs nothing.
    pub fn is_cold(&self) -> bool {
        self.pause.is_some_and(CachePause::is_over)
    }

    /// What a token costs if its window is left alone.
    fn carried(&self) -> u64 {
        let CachePrices { cached, uncached } = self.prices;
        let reach = self.reach_percent.min(100);
        (cached.min(uncached) * reach + uncached * (100 - reach)) / 100
    }

    /// The extra price of a token that is read without the cache, as a fraction of the price of a carried one.
    fn broken(&self) -> (u64, u64) {
        let carried = self.carried();
        let more = self.prices.uncached.saturating_sub(carried);
        if more < carried.saturating_mul(BREAK_MIN) { (BREAK_MIN, 1) } else { (more, carried) }
    }

    /// The size at which a window that came down to `low` is brought down again.
    ///
    /// Between two batches a window grows from `low` by the growth of each request. After `n` requests
    /// it has cost `n²/2 × growth` carried tokens more than it had to, and a batch costs `low` tokens
    /// that are read anew. The sum for each request is least at `n² = 2 × low × broken / growth`, and it
    /// hardly differs around there. So a window is let grow twice as far: it keeps more in sight.
    pub fn high_water(&self, low: Tokens) -> Tokens {
        let (more, carried) = self.broken();
        if carried == 0 {
            return Tokens::MAX;
        }
        let square = u128::from(self.growth.0) * u128::from(low.0);
        let square = square.saturating_mul(2 * u128::from(more)) / u128::from(carried);
        let spread = u64::try_from(square.isqrt()).unwrap_or(u64::MAX);
        Tokens(low.0.saturating_add(spread.saturating_mul(PATIENCE)))
    }

    /// Whether a batch saves more in later requests than it costs to read `read_anew` tokens without the cache.
    pub fn pays(&self, saved: Tokens, read_anew: Tokens) -> bool {
        if self.is_cold() {
            return saved > Tokens::ZERO;
        }
        let (more, carried) = self.broken();
        let saved = u128::from(saved.0) * u128::from(self.requests) * u128::from(carried);
        saved > u128::from(read_anew.0) * u128::from(more)
    }
}

/// How many requests a conversation was made of, the next one included: each reply answered one.
///
/// Items of a reply that follow one another are one reply.
pub fn requests(messages: &[Message]) -> u64 {
    let is_reply = |message: &Message| message.role == Role::Assistant;
    let replies = messages.chunk_by(|one, next| is_reply(one) == is_reply(next));
    1 + replies.filter(|turn| turn.first().is_some_and(is_reply)).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Budget;

    fn economy(cached: u64, uncached: u64) -> Economy {
        Economy::of(CachePrices { cached, uncached }, Tokens(100_000), 100)
    }

    #[test]
    fn a_dearer_break_waits_longer() {
        let low = Tokens(10_000);
        // 2 × √(18 × 1,000 × 10,000)
        assert_eq!(economy(10, 100).high_water(low), Tokens(10_000 + 2 * 13_416));
        // The cache is written to at a quarter more: 2 × √(23 × …)
        assert_eq!(economy(10, 125).high_water(low), Tokens(10_000 + 2 * 15_165));
        // What costs nothing is left alone.
        assert_eq!(economy(0, 100).high_water(low), Tokens::MAX);
        // A cache that saves little is no reason to break more often.
        assert_eq!(economy(50, 100).high_water(low), economy(10, 100).high_water(low));
    }

    #[test]
    fn a_cache_that_misses_makes_breaks_cheaper() {
        let economy = |reach_percent| Economy { reach_percent, ..economy(5, 125) };
        let highs: Vec<Tokens> =
            [100, 98, 80, 0].map(|reach| economy(reach).high_water(Tokens(10_000))).to_vec();
        assert!(highs[0] > highs[1] && highs[1] > highs[2] && highs[2] == highs[3], "{highs:?}");
    }

    #[test]
    fn a_batch_pays_in_the_requests_to_come() {
        let economy = |requests| Economy { requests, ..economy(10, 100) };
        assert!(economy(10).pays(Tokens(1_000), Tokens(1_000)));
        assert!(!economy(9).pays(Tokens(1_000), Tokens(1_000)));
        assert!(economy(1).pays(Tokens(1_000), Tokens(100)));
        assert!(!economy(0).pays(Tokens(1_000), Tokens::ZERO));
    }

    #[test]
    fn a_pause_makes_breaks_free() {
        let pause = |idle_ms| Some(CachePause { life_ms: 300_000, idle_ms });
        let after = |idle_ms| Economy { requests: 1, pause: pause(idle_ms), ..economy(10, 100) };
        assert!(!after(299_999).is_cold() && after(300_000).is_cold());
        assert!(!after(299_999).pays(Tokens(1_000), Tokens(1_000)));
        assert!(after(300_000).pays(Tokens(1_000), Tokens(1_000)));
        assert!(!after(300_000).pays(Tokens::ZERO, Tokens::ZERO));
        // Between the target and the size of the next batch, 60% of the way is near enough.
        let budget = Budget::of(Tokens(50_000)).with_low_water(20, Tokens::ZERO);
        let high = |idle_ms| budget.with_economy(after(idle_ms)).high();
        assert_eq!((budget.goal(), high(0)), (Tokens(10_000), Tokens(36_832)));
        assert_eq!(high(300_000), Tokens(10_000 + 26_832 * 60 / 100));
    }
}
