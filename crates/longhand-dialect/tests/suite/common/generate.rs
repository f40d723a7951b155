//! Conversations, settings and budgets for laws.

use longhand_core::{Budget, PlanSettings, Tokens};
use longhand_dialect::Dialect;
use longhand_testkit::arbitrary::{anthropic_json, chat_json, responses_json, text_action_json};
use proptest::prelude::*;

use super::POLICIES;

pub(crate) fn conversation() -> impl Strategy<Value = (String, Dialect)> {
    prop_oneof![
        3 => chat_json().prop_map(|json| (json, Dialect::Chat)),
        3 => anthropic_json().prop_map(|json| (json, Dialect::Anthropic)),
        3 => responses_json().prop_map(|json| (json, Dialect::Responses)),
        1 => text_action_json().prop_map(|json| (json, Dialect::Chat)),
    ]
}

pub(crate) fn settings() -> impl Strategy<Value = PlanSettings> {
    (
        0..POLICIES.len(),
        prop::option::weighted(0.3, 0..12usize),
        prop_oneof![3 => Just(256usize), 1 => 0..600usize],
    )
        .prop_map(|(policy, keep_tail, chars_min)| PlanSettings {
            policy: POLICIES[policy],
            keep_tail,
            chars_min,
            ..PlanSettings::default()
        })
}

/// A budget as a share of what the conversation has, so that all of its range matters.
pub(crate) fn share() -> impl Strategy<Value = (u64, u64, Option<u64>)> {
    (
        1..1_300u64,
        prop_oneof![3 => Just(0u64), 1 => 0..400u64],
        prop::option::weighted(0.2, 1..1_000u64),
    )
}

pub(crate) fn budget(total: Tokens, (limit, reserve, target): (u64, u64, Option<u64>)) -> Budget {
    let limit = (total.0 * limit / 1_000).max(1);
    Budget {
        reserve: Tokens(limit * reserve / 1_000),
        target: target.map(|target| Tokens(limit * target / 1_000)),
        ..Budget::of(Tokens(limit))
    }
}
