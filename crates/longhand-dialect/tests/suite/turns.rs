//! Conversations that are compacted again and again while they grow.

use crate::common::{cases, compact, count, o200k, parse};
use crate::judge::{dialect_of, violations};
use longhand_core::{Budget, PlanSettings, Policy, Tokens};
use longhand_testkit::WireFormat;
use longhand_testkit::arbitrary::{GrowingRequest, turns};
use longhand_testkit::rng::Rng;
use proptest::prelude::*;

const TURNS: usize = 100;

fn grower() -> impl Strategy<Value = (WireFormat, GrowingRequest)> {
    prop_oneof![
        turns(WireFormat::Chat).prop_map(|request| (WireFormat::Chat, request)),
        turns(WireFormat::Responses).prop_map(|request| (WireFormat::Responses, request)),
        turns(WireFormat::Anthropic).prop_map(|request| (WireFormat::Anthropic, request)),
    ]
}

/// Compacts a request and checks that the outcome is valid and no larger.
fn window(wire: WireFormat, json: &str, limit: Tokens) -> Result<String, TestCaseError> {
    let dialect = Some(dialect_of(wire));
    let compacted = compact(json, dialect, &Budget::of(limit), &PlanSettings::default(), o200k());
    let violations = violations(wire, json, &compacted.text, Policy::Auto);
    prop_assert_eq!(violations, Vec::<String>::new(), "{}", &compacted.text);
    prop_assert!(compacted.tokens <= count(&parse(json, dialect), o200k()));
    prop_assert!(compacted.tokens <= limit || !compacted.plan.fits());
    Ok(compacted.text)
}

proptest! {
    // A hundred turns are too slow to shrink, and a seed is enough to repeat them.
    #![proptest_config(ProptestConfig { max_shrink_iters: 0, ..cases(8) })]

    /// A client that sends its whole history every time.
    #[test]
    fn a_whole_history_is_compacted_at_every_turn((wire, mut request) in grower(), seed in any::<u64>(), limit in 800..6_000u64) {
        let mut rng = Rng::new(seed);
        for _ in 0..TURNS {
            request.append(&mut rng);
            window(wire, &request.json(), Tokens(limit))?;
        }
    }

    /// A client that goes on from the window.
    #[test]
    fn a_window_is_compacted_at_every_turn((wire, mut request) in grower(), seed in any::<u64>(), limit in 800..6_000u64) {
        let mut rng = Rng::new(seed);
        for _ in 0..TURNS {
            request.append(&mut rng);
            let window = window(wire, &request.json(), Tokens(limit))?;
            request.adopt(&window);
        }
    }
}
