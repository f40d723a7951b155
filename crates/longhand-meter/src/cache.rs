//! Counts that are remembered.

use std::sync::{Mutex, MutexGuard, PoisonError};

use longhand_core::{Framing, Image, Meter, Tokens};
use rustc_hash::FxHashMap;

/// A meter that counts each text once.
///
/// Texts are known by half of their BLAKE3 hash, which nobody can find a collision for.
pub struct Cached<M> {
    meter: M,
    counts: Mutex<FxHashMap<u128, u64>>,
}

impl<M: Meter> Cached<M> {
    /// Shorter texts are counted as fast as they are looked up.
    const TEXT_BYTES_MIN: usize = 64;

    /// A text longer than this for each grain of the limit is given up on sooner than hashed.
    const BYTES_PER_GRAIN_MAX: u64 = 64;

    /// Some 10 MB. A full cache is emptied rather than aged: whoever still needs a text counts it once
    /// more, and that is rare enough to cost less than keeping an order.
    const COUNTS_MAX: usize = 200_000;

    /// Remembers what `meter` counts.
    pub fn new(meter: M) -> Self {
        Self { meter, counts: Mutex::default() }
    }

    /// A poisoned map is still a map of correct counts.
    fn counts(&self) -> MutexGuard<'_, FxHashMap<u128, u64>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, key: u128, count: u64) {
        let mut counts = self.counts();
        if counts.len() >= Self::COUNTS_MAX {
            counts.clear();
        }
        counts.insert(key, count);
    }
}

impl<M: Meter> Meter for Cached<M> {
    fn weigh(&self, text: &str, limit: u64) -> u64 {
        if text.len() < Self::TEXT_BYTES_MIN
            || text.len() as u64 / Self::BYTES_PER_GRAIN_MAX > limit
        {
            return self.meter.weigh(text, limit);
        }
        let key = key(text);
        let known = self.counts().get(&key).copied();
        known.unwrap_or_else(|| {
            let count = self.meter.weigh(text, limit);
            // Above the limit the count may have been cut short.
            if count <= limit {
                self.remember(key, count);
            }
            count
        })
    }

    fn grains_per_token(&self) -> u64 {
        self.meter.grains_per_token()
    }

    fn image(&self, image: &Image) -> Tokens {
        self.meter.image(image)
    }

    fn framing(&self) -> Framing {
        self.meter.framing()
    }
}

fn key(text: &str) -> u128 {
    let mut half = [0; 16];
    blake3::Hasher::new().update(text.as_bytes()).finalize_xof().fill(&mut half);
    u128::from_le_bytes(half)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Counts bytes, stops at the limit, and tells how often it was asked.
    #[derive(Default)]
    struct CountingMeter {
        asked: AtomicUsize,
    }

    impl Meter for CountingMeter {
        fn weigh(&self, text: &str, limit: u64) -> u64 {
            self.asked.fetch_add(1, Ordering::Relaxed);
            (text.len() as u64).min(limit.saturating_add(1))
        }

        fn image(&self, _: &Image) -> Tokens {
            Tokens(7)
        }

        fn framing(&self) -> Framing {
            Framing { message: Tokens(1), name: Tokens(2), reply: Tokens(3), ids: true }
        }
    }

    fn check(texts: &[&str], limits: &[u64], asked: usize) {
        let cached = Cached::new(CountingMeter::default());
        for (text, &limit) in texts.iter().zip(limits) {
            let count = cached.weigh(text, limit);
            let exact = text.len() as u64;
            assert!(count == exact || (exact > limit && count > limit));
        }
        assert_eq!(cached.meter.asked.load(Ordering::Relaxed), asked);
    }

    #[test]
    fn a_text_is_counted_once() {
        let (a, b) = ("a".repeat(100), "b".repeat(100));
        check(&[&a, &a, &b, &a, &b], &[u64::MAX; 5], 2);
    }

    #[test]
    fn a_short_text_is_not_kept() {
        check(&["short", "short"], &[u64::MAX; 2], 2);
    }

    #[test]
    fn a_count_that_was_cut_short_is_not_kept() {
        let text = "a".repeat(100);
        check(&[&text, &text, &text, &text, &text], &[10, 99, 100, 10, 1], 3);
    }

    #[test]
    fn a_text_far_over_the_limit_is_not_hashed() {
        let text = "a".repeat(1_000_000);
        check(&[&text, &text, &text], &[1_000; 3], 3);
    }

    #[test]
    fn a_full_cache_starts_again() {
        let cached = Cached::new(CountingMeter::default());
        let most = Cached::<CountingMeter>::COUNTS_MAX;
        cached.counts().extend((0..most as u128).map(|key| (key, 0)));
        let text = "a".repeat(100);
        assert_eq!(cached.weigh(&text, u64::MAX), 100);
        assert_eq!(cached.counts().len(), 1);
        assert_eq!(cached.weigh(&text, u64::MAX), 100);
        assert_eq!(cached.meter.asked.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn the_rest_is_the_meter_s_own() {
        let cached = Cached::new(CountingMeter::default());
        assert_eq!(cached.grains_per_token(), 1);
        assert_eq!(cached.image(&Image::default()), Tokens(7));
        assert_eq!(cached.framing(), CountingMeter::default().framing());
    }
}
