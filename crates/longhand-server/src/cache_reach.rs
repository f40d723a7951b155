//! How much of a prefix really comes from a provider's cache, as its answers say.

use std::collections::HashMap;
use std::sync::Mutex;

use longhand::{Owner, SessionId};
use longhand_core::CachePause;
use rustc_hash::FxHashMap;

use crate::lock::lock;

/// Prefixes of fewer tokens are not cached by every provider.
const CACHED_TOKENS_MIN: u64 = 2_048;

/// A prefix of which so much was cached was not dropped, in percent: its system prompt alone may be in other sessions.
const KEPT_PERCENT_MIN: u64 = 90;

/// How many sessions and models are remembered.
const SESSIONS_MAX: usize = 10_000;
const MODELS_MAX: usize = 10_000;

/// What was seen of providers' caches, for each owner and model.
#[derive(Debug, Default)]
pub(crate) struct CacheReach {
    /// In percent, once a model was seen to have a cache.
    models: Mutex<FxHashMap<(Owner, String), u64>>,
    /// The longest pause after which a prefix was still in the cache, beyond what was promised, in milliseconds.
    lives: Mutex<FxHashMap<(Owner, String), u64>>,
    /// The newest batch of each session, and what its newest request was billed for.
    billed: Mutex<HashMap<SessionId, (u64, u64)>>,
}

/// A request whose answer tells something of a cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeenRequest {
    pub(crate) session: SessionId,
    /// The newest batch of its window.
    pub(crate) batch: u64,
    /// The pause before it.
    pub(crate) pause: CachePause,
}

impl CacheReach {
    /// Compares the cached tokens of a request with the size of the request before it, which should all be cached,
    /// unless there was a pause.
    ///
    /// `usage` is the input tokens and how many of them were cached.
    pub(crate) fn saw(&self, owner: Owner, model: &str, request: SeenRequest, usage: (u64, u64)) {
        let (SeenRequest { session, batch, pause }, (input, cached)) = (request, usage);
        let mut billed = lock(&self.billed);
        if billed.len() >= SESSIONS_MAX {
            billed.clear();
        }
        let before = billed.insert(session, (batch, input));
        let grown = before.filter(|(newest, tokens)| *newest == batch && *tokens <= input);
        let Some((_, before)) = grown.filter(|(_, tokens)| *tokens >= CACHED_TOKENS_MIN) else {
            return;
        };
        let percent = (cached.saturating_mul(100) / before).min(100);
        if pause.is_over() {
            // A miss was to be expected, and says nothing of how far the cache reaches.
            if percent >= KEPT_PERCENT_MIN {
                self.outlived(owner, model, pause.idle_ms);
            }
            return;
        }
        let mut models = lock(&self.models);
        if models.len() >= MODELS_MAX {
            models.clear();
        }
        let key = (owner, model.to_owned());
        let known = models.get(&key).copied();
        // A provider that never reported cached tokens may not report them at all.
        if known.is_some() || cached > 0 {
            models.insert(key, (known.unwrap_or(100) * 7 + percent).div_ceil(8));
        }
    }

    /// Takes note that a prefix was in the cache after a pause.
    fn outlived(&self, owner: Owner, model: &str, idle_ms: u64) {
        let mut lives = lock(&self.lives);
        if lives.len() >= MODELS_MAX {
            lives.clear();
        }
        let life_ms = lives.entry((owner, model.to_owned())).or_default();
        *life_ms = idle_ms.max(*life_ms);
    }

    /// How long a prefix stays in a model's cache, in milliseconds: as promised, or longer if that was seen.
    pub(crate) fn life_ms(&self, owner: Owner, model: &str, promised_ms: u64) -> u64 {
        let seen_ms = lock(&self.lives).get(&(owner, model.to_owned())).copied().unwrap_or(0);
        // What was there after a pause was there for that long at the least.
        promised_ms.max(seen_ms.saturating_add(u64::from(seen_ms > 0)))
    }

    /// How much of a prefix comes from a model's cache, in percent.
    pub(crate) fn percent(&self, owner: Owner, model: &str) -> u64 {
        lock(&self.models).get(&(owner, model.to_owned())).copied().unwrap_or(100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_that_is_seen_to_miss_reaches_less_far() {
        let reach = CacheReach::default();
        let (owner, other) = (Owner::LOCAL, Owner::of("other"));
        let session = SessionId::named(owner, "s");
        let pause = CachePause { life_ms: 300_000, idle_ms: 1_000 };
        let saw = |batch, input, cached| {
            reach.saw(owner, "m", SeenRequest { session, batch, pause }, (input, cached));
        };
        for _ in 0..9 {
            saw(1, 5_000, 0);
        }
        assert_eq!(reach.percent(owner, "m"), 100, "it never spoke of a cache");
        saw(1, 5_000, 5_000);
        assert_eq!(reach.percent(owner, "m"), 100);
        saw(1, 5_000, 0);
        assert_eq!(reach.percent(owner, "m"), 88);
        saw(2, 5_000, 0);
        saw(2, 900, 0);
        saw(2, 5_000, 0);
        assert_eq!(reach.percent(owner, "m"), 88, "new batches and other paths say nothing");
        assert_eq!(reach.percent(other, "m"), 100);
    }

    #[test]
    fn a_pause_says_how_long_a_cache_lives_and_not_how_far_it_reaches() {
        let reach = CacheReach::default();
        let (owner, other) = (Owner::LOCAL, Owner::of("other"));
        let session = SessionId::named(owner, "s");
        let saw = |idle_ms, cached| {
            let pause = CachePause { life_ms: 300_000, idle_ms };
            reach.saw(owner, "m", SeenRequest { session, batch: 1, pause }, (5_000, cached));
        };
        saw(0, 0);
        saw(0, 5_000);
        saw(400_000, 0);
        assert_eq!(reach.percent(owner, "m"), 100);
        saw(400_000, 4_000);
        assert_eq!(reach.life_ms(owner, "m", 300_000), 300_000, "only a part was there");
        saw(400_000, 5_000);
        assert_eq!(reach.life_ms(owner, "m", 300_000), 400_001);
        assert_eq!(reach.life_ms(owner, "m", 3_600_000), 3_600_000);
        assert_eq!(reach.life_ms(other, "m", 300_000), 300_000);
    }
}
