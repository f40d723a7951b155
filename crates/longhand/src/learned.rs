//! What is learned about a model from its answers: how it counts tokens, and its limit.

use longhand_core::Tokens;
use longhand_dialect::Overflow;
use serde_json::{Value, json};

/// What was learned about a model, each with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Learned {
    /// How many tokens the model counts for a hundred of ours.
    percent: (u64, i64),
    /// The most tokens that it accepts, by our count.
    most: Option<(Most, i64)>,
    /// The largest recent request that it accepted, by our count.
    passed: (Tokens, i64),
    /// The percentage and the limit that the archive has.
    kept_percent: u64,
    kept_most: Option<(Most, i64)>,
}

/// The most tokens that a model accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Most {
    /// In a request, without its reply.
    Request(Tokens),
    /// In a request and its reply together.
    Both(Tokens),
}

/// A request that was found too long.
#[derive(Clone, Copy, Debug)]
pub struct TooLong {
    /// Its tokens, by our count.
    pub tokens: Tokens,
    /// The most that its reply may have; zero if it does not say.
    pub reply: u64,
}

/// Requests of fewer tokens say too little: framing counts for more than text.
const TOKENS_MIN: u64 = 500;

/// The limits between which an upstream's count is believed to be about the same request.
const PERCENT: std::ops::RangeInclusive<u64> = 50..=300;

/// How long a count is believed: a server may get another model under the same name.
const LEARNED_MS: i64 = 24 * 60 * 60 * 1_000;

/// How long a limit is believed. One wrong error must not shorten a conversation for long; a right one is
/// learned again from the next request that is too long, which costs no more than sending that twice.
const LIMIT_MS: i64 = 10 * 60 * 1_000;

/// How long a request that passed is evidence against a limit below it.
const PASSED_MS: i64 = 60 * 60 * 1_000;

/// A percentage that differs by less is not stored.
const PERCENT_STEP: u64 = 5;

impl Default for Learned {
    fn default() -> Self {
        Self {
            percent: (100, 0),
            most: None,
            passed: (Tokens::ZERO, 0),
            kept_percent: 100,
            kept_most: None,
        }
    }
}

impl Learned {
    /// Drops everything that is too old to be believed.
    #[must_use]
    pub fn at(self, now: i64) -> Self {
        let is_fresh = |at: i64, time| now.saturating_sub(at).abs() <= time;
        let Self { percent, most, passed, .. } = self;
        Self {
            percent: if is_fresh(percent.1, LEARNED_MS) { percent } else { (100, now) },
            most: most.filter(|(_, at)| is_fresh(*at, LIMIT_MS)),
            passed: if is_fresh(passed.1, PASSED_MS) { passed } else { (Tokens::ZERO, now) },
            ..self
        }
    }

    /// Compares a count of ours with the one that a request was billed for.
    pub fn saw(&mut self, counted: Tokens, billed: u64, now: i64) {
        if counted.0 < TOKENS_MIN {
            return;
        }
        // The request was answered, whatever was billed. A server that reads only the end of a request refuses none.
        self.took(counted, now);
        if is_believable(billed, counted.0) {
            // The dearest of late: a window must not be too long because the one before was prose.
            let percent = billed.saturating_mul(100).div_ceil(counted.0);
            self.percent = (percent.max(self.percent.0 - self.percent.0 / 50), now);
        }
    }

    /// A request of `tokens` was answered, so a lower limit is wrong.
    pub fn took(&mut self, tokens: Tokens, now: i64) {
        let passed = self.passed.0.0;
        self.passed = (tokens.max(Tokens(passed - passed / 50)), now);
        self.most = self.most.filter(|(Most::Request(most) | Most::Both(most), _)| *most >= tokens);
    }

    /// The most by our count for a request with such a reply, given the most by the model's.
    pub fn limit(self, limit: Option<Tokens>, reply: u64) -> Option<Tokens> {
        // A model that counts less than we do is not given more: it may be a cache that is not counted.
        let known = limit.map(|limit| Tokens(scaled(limit.0, 100, self.percent.0.max(100))));
        let most = match self.most {
            Some((Most::Request(most), _)) => Some(most),
            // A reply that has no room beside any request is the provider's to refuse.
            Some((Most::Both(most), _)) if most.0 > reply => Some(Tokens(most.0 - reply)),
            Some((Most::Both(_), _)) | None => None,
        };
        known.into_iter().chain(most).min()
    }

    /// The most by our count after a request was found too long; `None` if no shorter one would do, since it
    /// asks for too long a reply.
    ///
    /// The limit that the upstream reports is remembered, unless a larger request was answered recently.
    pub fn overflowed(&mut self, sent: TooLong, overflow: Overflow, now: i64) -> Option<Tokens> {
        let sent_tokens = sent.tokens.0;
        let guess = Tokens(scaled(sent_tokens, 6, 10));
        let Some(limit) = overflow.limit.filter(|_| !overflow.bytes) else { return Some(guess) };
        // A count that cannot be about this request is ignored.
        let both = sent_tokens.saturating_add(sent.reply);
        let asked = overflow.asked.filter(|asked| {
            [sent_tokens, both].iter().any(|counted| is_believable(*asked, *counted))
        });
        let with_reply = |asked: u64| {
            let prompt = asked.saturating_sub(sent.reply);
            sent.reply > 0
                && prompt > 0
                && prompt.abs_diff(sent_tokens) < asked.abs_diff(sent_tokens)
        };
        let (limit, most) = match asked {
            Some(asked) if asked > limit && with_reply(asked) => {
                let room = limit.checked_sub(sent.reply).filter(|room| *room > 0)?;
                // By our count, and a little less: what is asked for may be cut or rounded.
                let room = scaled(sent_tokens, room, asked - sent.reply);
                let limit = Tokens(scaled(room, 19, 20));
                (limit, Most::Both(Tokens(limit.0.saturating_add(sent.reply))))
            }
            Some(asked) if asked > limit => {
                let limit = Tokens(scaled(scaled(sent_tokens, limit, asked), 19, 20));
                (limit, Most::Request(limit))
            }
            None if limit < sent_tokens => {
                let limit = Tokens(scaled(limit, 9, 10));
                (limit, Most::Request(limit))
            }
            // The request alone is within it, so its reply is counted, too.
            None if limit > sent.reply && limit - sent.reply < sent_tokens => {
                let beside_reply = Tokens(scaled(limit - sent.reply, 9, 10));
                (beside_reply, Most::Both(Tokens(scaled(limit, 9, 10))))
            }
            None if sent.reply >= limit => return None,
            _ => return Some(guess),
        };
        if limit < self.passed.0 {
            return Some(guess);
        }
        self.most = Some((most, now));
        Some(limit)
    }

    /// Learns from a reply that broke off because the window was full: what its request has by our count,
    /// and what request and reply have by the model's.
    pub fn filled(&mut self, counted: Tokens, input: u64, output: u64, now: i64) {
        let most = Tokens(scaled(counted.0, input.saturating_add(output), input));
        if counted.0 >= TOKENS_MIN && input > 0 && most >= self.passed.0 {
            self.most = Some((Most::Both(most), now));
        }
    }

    /// The text that the archive should store, if it differs from the stored one.
    pub fn to_keep(&mut self) -> Option<String> {
        let is_news = self.percent.0.abs_diff(self.kept_percent) >= PERCENT_STEP
            || self.most != self.kept_most;
        is_news.then(|| {
            (self.kept_percent, self.kept_most) = (self.percent.0, self.most);
            self.told()
        })
    }

    /// What two nodes have learned of the same model: the dearer count, the longer request, the newer limit.
    #[must_use]
    pub fn merged(self, other: Self) -> Self {
        let newer = |one: Option<(Most, i64)>, other: Option<(Most, i64)>| match (one, other) {
            (Some(one), Some(other)) => Some(if other.1 > one.1 { other } else { one }),
            (one, other) => one.or(other),
        };
        let passed = self.passed.max(other.passed);
        // A request that was answered later proves a lower limit wrong.
        let holds = |(most, at): &(Most, i64)| {
            let (Most::Request(tokens) | Most::Both(tokens)) = most;
            passed.1 <= *at || *tokens >= passed.0
        };
        Self {
            percent: self.percent.max(other.percent),
            most: newer(self.most, other.most).filter(holds),
            passed,
            ..self
        }
    }

    /// As an archive keeps it.
    fn told(self) -> String {
        let (kind, most) = match self.most {
            Some((Most::Request(most), at)) => ("request", Some((most.0, at))),
            Some((Most::Both(most), at)) => ("both", Some((most.0, at))),
            None => ("none", None),
        };
        let passed = (self.passed.0.0, self.passed.1);
        json!({"percent": self.percent, "kind": kind, "most": most, "passed": passed}).to_string()
    }

    /// Reads the text that an archive has stored.
    pub fn read(told: &str) -> Option<Self> {
        let told: Value = serde_json::from_str(told).ok()?;
        let pair = |key: &str| Some((told[key][0].as_u64()?, told[key][1].as_i64()?));
        let most =
            |kind: fn(Tokens) -> Most| pair("most").map(|(most, at)| (kind(Tokens(most)), at));
        let percent = pair("percent").filter(|(percent, _)| PERCENT.contains(percent))?;
        let (passed, at) = pair("passed")?;
        let most = match told["kind"].as_str()? {
            "request" => most(Most::Request),
            "both" => most(Most::Both),
            _ => None,
        };
        let passed = (Tokens(passed), at);
        Some(Self { percent, most, passed, kept_percent: percent.0, kept_most: most })
    }
}

/// Whether a provider's count can be about a request of `ours` tokens by our count.
fn is_believable(theirs: u64, ours: u64) -> bool {
    PERCENT.contains(&theirs.saturating_mul(100).div_ceil(ours.max(1)))
}

fn scaled(number: u64, by: u64, of: u64) -> u64 {
    let scaled = u128::from(number) * u128::from(by) / u128::from(of.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(learned: Learned, reply: u64) -> Option<u64> {
        learned.limit(None, reply).map(|tokens| tokens.0)
    }

    #[test]
    fn a_model_that_counts_more_is_given_less() {
        let mut learned = Learned::default();
        let limit =
            |learned: Learned| learned.limit(Some(Tokens(10_000)), 0).map(|counted| counted.0);
        for (counted, billed) in [(10, 90), (1_000, 9_000), (1_000, 700)] {
            learned.saw(Tokens(counted), billed, 0);
            assert_eq!(limit(learned), Some(10_000), "too short, absurd, or less than ours");
        }
        learned.saw(Tokens(1_000), 1_250, 0);
        assert_eq!(limit(learned), Some(8_000));
        assert_eq!(limit(learned.at(LEARNED_MS + 1)), Some(10_000), "it is forgotten in time");
        for _ in 0..100 {
            learned.saw(Tokens(1_000), 1_000, 0);
        }
        assert_eq!(limit(learned), Some(10_000), "and by what comes after");
    }

    #[test]
    fn what_an_upstream_says_of_its_limit_is_remembered_for_minutes() {
        let mut learned = Learned::default();
        let overflow = |limit, asked, bytes| Overflow { limit, asked, bytes };
        let sent = TooLong { tokens: Tokens(5_000), reply: 0 };
        for (said, expected) in [
            (overflow(Some(3_000), Some(9_000), false), 1_582),
            (overflow(Some(3_000), None, false), 2_700),
            (overflow(None, None, false), 3_000),
            (overflow(Some(3_000), None, true), 3_000),
        ] {
            assert_eq!(learned.overflowed(sent, said, 7), Some(Tokens(expected)));
        }
        assert_eq!(limit(learned, 0), Some(2_700));
        assert_eq!(limit(learned.at(LIMIT_MS), 0), Some(2_700));
        assert_eq!(limit(learned.at(LIMIT_MS + 8), 0), None);
    }

    #[test]
    fn the_reply_is_not_taken_for_a_part_of_the_request() {
        let mut learned = Learned::default();
        let refused = |learned: &mut Learned, tokens, reply, limit, asked| {
            let (sent, bytes) = (TooLong { tokens: Tokens(tokens), reply }, false);
            learned.overflowed(sent, Overflow { limit: Some(limit), asked, bytes }, 0)
        };
        assert_eq!(refused(&mut learned, 30_000, 200_000, 128_000, Some(230_400)), None);
        assert_eq!(refused(&mut learned, 30_000, 200_000, 128_000, None), None);
        assert_eq!(limit(learned, 0), None, "no request would have done");
        let found = refused(&mut learned, 10_000, 4_000, 8_000, Some(14_000));
        assert_eq!(found, Some(Tokens(3_800)));
        let limits = [0, 4_000, 9_000].map(|reply| limit(learned, reply));
        assert_eq!(limits, [Some(7_800), Some(3_800), None]);
    }

    #[test]
    fn a_limit_below_what_has_passed_is_not_believed() {
        let mut learned = Learned::default();
        learned.saw(Tokens(20_000), 20_000, 0);
        let sent = TooLong { tokens: Tokens(10_000), reply: 0 };
        let said = Overflow { limit: Some(300), asked: None, bytes: false };
        assert_eq!(learned.overflowed(sent, said, 0), Some(Tokens(6_000)), "a guess, for once");
        learned.filled(Tokens(600), 600, 10, 0);
        assert_eq!(limit(learned, 0), None);
        let mut later = learned.at(PASSED_MS + 1);
        assert_eq!(later.overflowed(sent, said, 0), Some(Tokens(270)), "that was long ago");
    }

    #[test]
    fn numbers_that_are_not_about_the_request_teach_nothing() {
        let said = |limit, asked| Overflow { limit: Some(limit), asked: Some(asked), bytes: false };
        let after = |tokens, reply, said| {
            let mut learned = Learned::default();
            let sent = TooLong { tokens: Tokens(tokens), reply };
            learned.overflowed(sent, said, 0).map(|tokens| tokens.0)
        };
        // Without the absurd count, the limit alone is what was said.
        assert_eq!(after(2_300, 0, said(2_000, 99_999)), Some(1_800));
        assert_eq!(after(2_300, 0, said(2_000, 2_500)), Some(1_748));
        assert_eq!(after(2_300, 100, said(2_000, u64::MAX)), Some(1_800));
        // A limit far above what was sent cannot be why it was refused.
        assert_eq!(after(2_300, 0, said(1_000_000, 99_999_999)), Some(1_380));
        for (tokens, reply, limit, asked) in [
            (u64::MAX, u64::MAX, u64::MAX, u64::MAX),
            (u64::MAX, 1, 300, u64::MAX),
            (1, u64::MAX - 1, u64::MAX, u64::MAX),
            (0, 0, 0, 0),
        ] {
            let said = said(limit, asked);
            after(tokens, reply, said);
            after(tokens, reply, Overflow { asked: None, ..said });
            Learned::default().filled(Tokens(tokens), limit, asked, 0);
        }
    }

    #[test]
    fn a_limit_that_another_node_learned_holds_until_something_longer_passes() {
        let (mut one, mut other) = (Learned::default(), Learned::default());
        one.saw(Tokens(2_000), 2_000, 5);
        let sent = TooLong { tokens: Tokens(5_000), reply: 0 };
        let said = Overflow { limit: Some(3_000), asked: None, bytes: false };
        other.overflowed(sent, said, 10);
        assert_eq!(limit(one.merged(other), 0), Some(2_700));
        assert_eq!(limit(other.merged(one), 0), Some(2_700));
        one.saw(Tokens(4_000), 4_000, 20);
        assert_eq!(limit(one.merged(other), 0), None);
        assert_eq!(limit(other.merged(one), 0), None);
    }

    #[test]
    fn what_passes_lifts_a_limit_below_it() {
        let sent = TooLong { tokens: Tokens(5_000), reply: 0 };
        let said = Overflow { limit: Some(3_000), asked: None, bytes: false };
        for (passed, billed, expected) in [
            (2_000, 2_000, Some(2_700)),
            (4_000, 4_000, None),
            // An answer is an answer, whatever it reports.
            (4_000, 0, None),
            (4_000, 900, None),
        ] {
            let mut learned = Learned::default();
            learned.overflowed(sent, said, 0);
            learned.saw(Tokens(passed), billed, 0);
            assert_eq!(limit(learned, 0), expected, "{passed} {billed}");
        }
    }

    #[test]
    fn what_was_learned_is_read_as_it_was_kept() {
        let mut learned = Learned::default();
        assert_eq!(Learned::read(&learned.told()), Some(learned));
        learned.saw(Tokens(20_000), 25_000, 11);
        for most in [Most::Request(Tokens(9)), Most::Both(Tokens(8))] {
            learned.most = Some((most, 12));
            let kept = learned.to_keep();
            assert_eq!(kept.and_then(|kept| Learned::read(&kept)), Some(learned));
            assert_eq!(learned.to_keep(), None, "it is kept already");
        }
        for odd in ["", "{}", r#"{"percent":[1,0],"kind":"none","passed":[0,0]}"#] {
            assert_eq!(Learned::read(odd), None, "{odd}");
        }
    }
}
