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
    most: Option<Most>,
    /// The largest request of late that it took, by our count.
    passed: Tokens,
}

/// The most that a model takes.
#[derive(Clone, Copy, Debug)]
enum Most {
    /// In a request, whatever its reply.
    Request(Tokens),
    /// In a request and its reply.
    Both(Tokens),
}

/// A request that was found too long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TooLong {
    /// What it has by our count.
    pub(crate) tokens: Tokens,
    /// The most that its reply may have; zero if it does not say.
    pub(crate) reply: u64,
}

/// Requests of fewer tokens say too little: framing counts for more than text.
const TOKENS_MIN: u64 = 500;

/// Beyond these, what an upstream says of a request is about something else.
const PERCENT: std::ops::RangeInclusive<u64> = 50..=300;

impl Default for Learned {
    fn default() -> Self {
        Self { percent: 100, most: None, passed: Tokens::ZERO }
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
            learned.passed = own.max(Tokens(learned.passed.0 - learned.passed.0 / 50));
        }
    }

    /// The most by our count for a request with such a reply, given the most by the model's.
    pub(crate) fn limit(&self, model: &str, limit: Option<Tokens>, reply: u64) -> Option<Tokens> {
        let learned = self.lock().get(model).copied().unwrap_or_default();
        // A model that counts less than we do is not given more: it may be a cache that is not counted.
        let own = limit.map(|limit| Tokens(scaled(limit.0, 100, learned.percent.max(100))));
        let most = match learned.most {
            Some(Most::Request(most)) => Some(most),
            // A reply that has no room beside any request is the provider's to refuse.
            Some(Most::Both(most)) if most.0 > reply => Some(Tokens(most.0 - reply)),
            Some(Most::Both(_)) | None => None,
        };
        own.into_iter().chain(most).min()
    }

    /// The most by our count after a request was found too long; `None` if no shorter one would do, since
    /// it asks for too long a reply.
    ///
    /// What the upstream says of its limit is remembered, unless more than that has passed of late.
    pub(crate) fn overflowed(
        &self,
        model: &str,
        sent: TooLong,
        overflow: Overflow,
    ) -> Option<Tokens> {
        let sent_tokens = sent.tokens.0;
        let guess = Tokens(sent_tokens * 6 / 10);
        let Some(limit) = overflow.limit.filter(|_| !overflow.bytes) else { return Some(guess) };
        let with_reply = |asked: u64| {
            let prompt = asked.saturating_sub(sent.reply);
            sent.reply > 0
                && prompt > 0
                && prompt.abs_diff(sent_tokens) < asked.abs_diff(sent_tokens)
        };
        let (limit, most) = match overflow.asked {
            Some(asked) if asked > limit && with_reply(asked) => {
                let room = limit.checked_sub(sent.reply).filter(|room| *room > 0)?;
                // By our count, and a little less: what is asked for may be cut or rounded.
                let limit = Tokens(scaled(sent_tokens, room, asked - sent.reply) * 19 / 20);
                (limit, Most::Both(Tokens(limit.0 + sent.reply)))
            }
            Some(asked) if asked > limit => {
                let limit = Tokens(scaled(sent_tokens, limit, asked) * 19 / 20);
                (limit, Most::Request(limit))
            }
            None if limit < sent_tokens => {
                let limit = Tokens(limit * 9 / 10);
                (limit, Most::Request(limit))
            }
            // The request alone is within it, so its reply is counted, too.
            None if limit > sent.reply && limit - sent.reply < sent_tokens => {
                let beside_reply = Tokens((limit - sent.reply) * 9 / 10);
                (beside_reply, Most::Both(Tokens(limit * 9 / 10)))
            }
            None if sent.reply >= limit => return None,
            _ => return Some(guess),
        };
        let mut models = self.lock();
        let learned = models.entry(model.to_owned()).or_default();
        if limit >= learned.passed {
            learned.most = Some(most);
        }
        Some(limit)
    }

    /// Learns from a reply that broke off because the window was full, with what its request has by our
    /// count and both by the model's.
    pub(crate) fn filled(&self, model: &str, own: Tokens, input: u64, output: u64) {
        if own.0 >= TOKENS_MIN && input > 0 {
            let most = Tokens(scaled(own.0, input + output, input));
            self.lock().entry(model.to_owned()).or_default().most = Some(Most::Both(most));
        }
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
        let limit =
            |model| calibration.limit(model, Some(Tokens(10_000)), 0).map(|tokens| tokens.0);
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
        let sent = TooLong { tokens: Tokens(5_000), reply: 0 };
        for (said, expected) in [
            (overflow(Some(3_000), Some(9_000), false), 1_582),
            (overflow(Some(3_000), None, false), 2_700),
            (overflow(None, None, false), 3_000),
            (overflow(Some(3_000), None, true), 3_000),
        ] {
            assert_eq!(calibration.overflowed("m", sent, said), Some(Tokens(expected)));
        }
        assert_eq!(calibration.limit("m", None, 0), Some(Tokens(2_700)));
        assert_eq!(calibration.limit("other", None, 0), None);
    }

    #[test]
    fn the_reply_is_not_taken_for_a_part_of_the_request() {
        let calibration = Calibration::default();
        let limit = |reply| calibration.limit("m", None, reply).map(|tokens| tokens.0);
        let refused = |tokens, reply, limit, asked| {
            let (sent, bytes) = (TooLong { tokens: Tokens(tokens), reply }, false);
            calibration.overflowed("m", sent, Overflow { limit: Some(limit), asked, bytes })
        };
        assert_eq!(refused(30_000, 200_000, 128_000, Some(230_400)), None);
        assert_eq!(refused(30_000, 200_000, 128_000, None), None);
        assert_eq!(limit(0), None, "no request would have done");
        assert_eq!(refused(10_000, 4_000, 8_000, Some(14_000)), Some(Tokens(3_800)));
        assert_eq!((limit(0), limit(4_000), limit(9_000)), (Some(7_800), Some(3_800), None));
    }

    #[test]
    fn a_limit_below_what_has_passed_is_not_believed() {
        let calibration = Calibration::default();
        calibration.saw("m", Tokens(20_000), 20_000);
        let sent = TooLong { tokens: Tokens(10_000), reply: 0 };
        let said = Overflow { limit: Some(300), asked: None, bytes: false };
        assert_eq!(calibration.overflowed("m", sent, said), Some(Tokens(270)));
        assert_eq!(calibration.limit("m", None, 0), None);
    }
}
