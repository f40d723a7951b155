//! Every generated conversation is valid.

use longhand_testkit::arbitrary::{anthropic_json, chat_json, responses_json, text_action_json};
use longhand_testkit::{Wire, validate, validate_edit};
use proptest::prelude::*;

fn check(dialect: Wire, json: &str) -> Result<(), TestCaseError> {
    prop_assert_eq!(validate(dialect, json), Vec::<String>::new());
    prop_assert_eq!(validate_edit(dialect, json, json, true), Vec::<String>::new());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn chat(json in chat_json()) {
        check(Wire::Chat, &json)?;
    }

    #[test]
    fn anthropic(json in anthropic_json()) {
        check(Wire::Anthropic, &json)?;
    }

    #[test]
    fn responses(json in responses_json()) {
        check(Wire::Responses, &json)?;
    }

    #[test]
    fn text_action(json in text_action_json()) {
        check(Wire::Chat, &json)?;
    }
}
