//! Folds that are summarised keep the laws of folds that are listed.
use std::sync::Arc;

use longhand::driver::Summarised;
use longhand::{Extractive, Miner};
use longhand_core::{Budget, Meter, PlanSettings, Policy, Rolling, Scale, Tokens, plan_with};
use longhand_dialect::{Conversation, Dialect, read};
use longhand_meter::{ImageRule, MeterSpec};
use longhand_testkit::arbitrary::{anthropic_json, cases, chat_json, responses_json};
use proptest::prelude::*;

fn meter() -> Arc<dyn Meter> {
    Arc::from(MeterSpec::O200k.open(ImageRule::OPENAI_TILES).unwrap())
}

fn count(conversation: &Conversation, scale: &Scale) -> Tokens {
    let messages = conversation.messages.iter().map(|message| scale.message(message, Tokens::MAX));
    messages.sum::<Tokens>() + fixed(conversation, scale) + scale.framing().reply
}

fn fixed(conversation: &Conversation, scale: &Scale) -> Tokens {
    conversation.attributes.iter().map(|text| scale.text(&text.decode())).sum()
}

fn conversation() -> impl Strategy<Value = (String, Dialect)> {
    prop_oneof![
        chat_json().prop_map(|json| (json, Dialect::Chat)),
        anthropic_json().prop_map(|json| (json, Dialect::Anthropic)),
        responses_json().prop_map(|json| (json, Dialect::Responses)),
    ]
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn a_summarised_window_fits_is_valid_and_stays_as_it_is(
        (json, dialect) in conversation(),
        policy in prop::sample::select(vec![
            Policy::Auto,
            Policy::Trim,
            Policy::Rolling(Rolling { rounds_max: 2, ..Rolling::default() }),
        ]),
        share in 20..900u64,
    ) {
        let meter = meter();
        let scale = Scale::new(&*meter);
        let digest = Summarised::new(vec![Arc::new(Extractive)], Arc::clone(&meter), Miner::default());
        let settings = PlanSettings { policy, ..PlanSettings::default() };
        let parse = |json: &str| read(json.as_bytes().to_vec(), Some(dialect)).unwrap();
        let before = parse(&json);
        let budget = Budget::of(Tokens((count(&before, &scale).0 * share / 1_000).max(1)));
        let compact = |json: &str| {
            let before = parse(json);
            let history = before.history(fixed(&before, &scale));
            let plan = plan_with(&history, &budget, &settings, &*meter, &digest);
            (before.apply(std::slice::from_ref(&plan.batch)), plan)
        };
        let (once, plan) = compact(&json);
        let window = parse(&once);
        prop_assert!(window.check().iter().all(|finding| !finding.grave), "{:?}", window.check());
        let tokens = count(&window, &scale);
        prop_assert!(tokens <= plan.tokens(), "the plan says {} and it is {}", plan.tokens(), tokens);
        prop_assert!(!plan.fits() || tokens <= budget.limit);
        // A window that came to be by a number of rounds and not by its size may be folded again.
        if plan.fits() && !matches!(policy, Policy::Rolling(_)) {
            prop_assert_eq!(compact(&once).0, once);
        }
    }
}
