//! What is learned of models while they answer.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use longhand::Tokens;
use longhand_dialect::Overflow;

/// What each model was found to count and to take.
#[derive(Debug, Default)]
pub(crate) struct Calibration {
    models: Mutex<HashMap<String, Learned>>,
}

#[derive(Clone, Copy, Debug)]
struct Learned {
    /// Its tokens for a hundred of ours.
    percent: u64,
    /// The most that it takes by our count.
    limit: Option<Tokens>,
}

/// Requests of fewer tokens say too little: framing counts for more than text.
const TOKENS_MIN: u64 = 500;

/// Beyond these, what an upstream says of a request is about something else.
const PERCENT: std::ops::RangeInclusive<u64> = 50..=300;

impl Default for Learned {
    fn default() -> Self {
        Self { percent: 100, limit: None }
    }
}

impl Calibration {
    /// Compares a count of ours with the one that a request was billed for.
    pub(crate) fn saw(&self, model: &str, own: Tokens, billed: u64) {
        if own.0 < TOKENS_MIN {
            return;
        }
        let percent = billed.saturating_mul(100).div_ceil(own.0);
        if PERCENT.contains(&percent) {
            // The dearest of late: a window must not be too long because the one before was prose.
            let mut models = self.lock();
            let learned = models.entry(model.to_owned()).or_default();
            learned.percent = percent.max(learned.percent - learned.percent / 50);
        }
    }

    /// The most by our count, given the most by the model's.
    pub(crate) fn limit(&self, model: &str, limit: Option<Tokens>) -> Option<Tokens> {
        let learned = self.lock().get(model).copied().unwrap_or_default();
        // A model that counts less than we do is not given more: it may be a cache that is not counted.
        let own = limit.map(|limit| Tokens(scaled(limit.0, 100, learned.percent.max(100))));
        own.into_iter().chain(learned.limit).min()
    }

    /// The most by our count after a request was found too long that had `own` tokens.
    pub(crate) fn overflowed(&self, model: &str, own: Tokens, overflow: Overflow) -> Tokens {
        let limit = match (overflow.limit, overflow.asked) {
            // By our count, and a little less: what is asked for may be cut or rounded.
            (Some(limit), Some(asked)) if asked > limit && !overflow.bytes => {
                Tokens(scaled(own.0, limit, asked) * 19 / 20)
            }
            (Some(limit), None) if limit < own.0 && !overflow.bytes => Tokens(limit * 9 / 10),
            _ => Tokens(own.0 * 6 / 10),
        };
        if !overflow.bytes && overflow.limit.is_some() {
            self.lock().entry(model.to_owned()).or_default().limit = Some(limit);
        }
        limit
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Learned>> {
        let mut models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        // Names come from requests.
        if models.len() > 10_000 {
            models.clear();
        }
        models
    }
}

fn scaled(number: u64, by: u64, of: u64) -> u64 {
    (u128::from(number) * u128::from(by) / u128::from(of.max(1))) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_that_counts_more_is_given_less() {
        let calibration = Calibration::default();
        let limit = |model| calibration.limit(model, Some(Tokens(10_000))).map(|tokens| tokens.0);
        assert_eq!(limit("m"), Some(10_000));
        calibration.saw("m", Tokens(10), 90);
        calibration.saw("m", Tokens(1_000), 9_000);
        calibration.saw("m", Tokens(1_000), 700);
        assert_eq!(limit("m"), Some(10_000), "too short, absurd, or less than ours");
        calibration.saw("m", Tokens(1_000), 1_250);
        assert_eq!(limit("m"), Some(8_000));
        assert_eq!(limit("other"), Some(10_000));
        for _ in 0..100 {
            calibration.saw("m", Tokens(1_000), 1_000);
        }
        assert_eq!(limit("m"), Some(10_000), "it is forgotten in time");
    }

    #[test]
    fn what_an_upstream_says_of_its_limit_is_remembered() {
        let calibration = Calibration::default();
        let overflow = |limit, asked, bytes| Overflow { limit, asked, bytes };
        for (said, expected) in [
            (overflow(Some(3_000), Some(9_000), false), 1_582),
            (overflow(Some(3_000), None, false), 2_700),
            (overflow(None, None, false), 3_000),
            (overflow(Some(3_000), None, true), 3_000),
        ] {
            assert_eq!(calibration.overflowed("m", Tokens(5_000), said).0, expected);
        }
        assert_eq!(calibration.limit("m", None), Some(Tokens(2_700)));
        assert_eq!(calibration.limit("other", None), None);
    }
}
