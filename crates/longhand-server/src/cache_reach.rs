//! How much of a prefix really comes from a provider's cache, as its answers say.

use std::collections::HashMap;
use std::sync::Mutex;

use longhand::{Owner, SessionId};
use rustc_hash::FxHashMap;

use crate::lock::lock;

/// Prefixes of fewer tokens are not cached by every provider.
const CACHED_TOKENS_MIN: u64 = 2_048;

/// How many sessions and models are remembered.
const SESSIONS_MAX: usize = 10_000;
const MODELS_MAX: usize = 10_000;

/// What was seen of providers' caches, for each owner and model.
#[derive(Debug, Default)]
pub(crate) struct CacheReach {
    /// In percent, once a model was seen to have a cache.
    models: Mutex<FxHashMap<(Owner, String), u64>>,
    /// The newest batch of each session, and what its newest request was billed for.
    billed: Mutex<HashMap<SessionId, (u64, u64)>>,
}

impl CacheReach {
    /// Compares the cached tokens of a request with the size of the request before it, which should all be cached.
    ///
    /// `request` is the session and its newest batch, `usage` the input tokens and how many of them were cached.
    pub(crate) fn saw(
        &self,
        owner: Owner,
        model: &str,
        request: (SessionId, u64),
        usage: (u64, u64),
    ) {
        let ((session, batch), (input, cached)) = (request, usage);
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
        let saw = |batch, input, cached| reach.saw(owner, "m", (session, batch), (input, cached));
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
}
