//! The laws before an independent judge, on conversations that hold everything a format can hold.

use crate::common::{POLICIES, cases, check_contract, compact, count, fixed, graves, o200k, parse};
use crate::judge::{dialect_of, violations};
use longhand_core::{Budget, PlanSettings, Policy, Tokens, plan};
use longhand_dialect::{Binding, Dialect};
use longhand_testkit::WireFormat;
use longhand_testkit::arbitrary::{
    anthropic_json, chat_json, responses_json, rich_anthropic, rich_chat, rich_responses,
    text_action_json,
};
use proptest::prelude::*;

/// What every compaction of a valid conversation owes, to a share of its size in thousandths.
fn check(json: &str, wire: WireFormat, policy: usize, share: u64) -> Result<(), TestCaseError> {
    let dialect = Some(dialect_of(wire));
    let before = parse(json, dialect);
    prop_assert_eq!(graves(&before), Vec::<String>::new());
    prop_assert_eq!(before.apply(&[]), json);
    let budget = Budget::of(Tokens((count(&before, o200k()).0 * share / 1_000).max(1)));
    let settings = PlanSettings { policy: POLICIES[policy], ..PlanSettings::default() };
    let compacted = compact(json, dialect, &budget, &settings, o200k());
    let found = violations(wire, json, &compacted.text, settings.policy);
    prop_assert_eq!(found, Vec::<String>::new(), "{:?} {}", settings.policy, &compacted.text);
    check_contract(&compacted, &budget, &settings, o200k());
    let twice = compact(&compacted.text, dialect, &budget, &settings, o200k());
    if compacted.plan.fits() {
        prop_assert_eq!(&twice.text, &compacted.text);
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn plain_conversations(chat in chat_json(), responses in responses_json(), anthropic in anthropic_json(), actions in text_action_json(), policy in 0..POLICIES.len(), share in 1..1_100u64) {
        check(&chat, WireFormat::Chat, policy, share)?;
        check(&responses, WireFormat::Responses, policy, share)?;
        check(&anthropic, WireFormat::Anthropic, policy, share)?;
        check(&actions, WireFormat::Chat, policy, share)?;
    }

    #[test]
    fn rich_conversations_of_chat(json in rich_chat(), policy in 0..POLICIES.len(), share in 1..1_100u64) {
        check(&json, WireFormat::Chat, policy, share)?;
    }

    #[test]
    fn rich_conversations_of_responses(json in rich_responses(), policy in 0..POLICIES.len(), share in 1..1_100u64) {
        check(&json, WireFormat::Responses, policy, share)?;
    }

    #[test]
    fn rich_conversations_of_anthropic(json in rich_anthropic(), policy in 0..POLICIES.len(), share in 1..1_100u64) {
        check(&json, WireFormat::Anthropic, policy, share)?;
    }

    #[test]
    fn thinking_may_stay_where_the_provider_drops_it(json in rich_anthropic(), share in 1..1_100u64) {
        let mut before = parse(&json, Some(Dialect::Anthropic));
        before.keep_thinking();
        if before.binding() != Binding::Removed {
            let budget = Budget::of(Tokens((count(&before, o200k()).0 * share / 1_000).max(1)));
            let history = before.history(fixed(&before, o200k()));
            let after = before.apply(&[plan(&history, &budget, &PlanSettings::default(), o200k()).batch]);
            let found = violations(WireFormat::Anthropic, &json, &after, Policy::Auto);
            prop_assert_eq!(found, Vec::<String>::new(), "{}", after);
        }
    }
}

/// Compacts to every share of the size under every policy.
fn check_all(json: &str, wire: WireFormat) {
    let dialect = Some(dialect_of(wire));
    let total = count(&parse(json, dialect), o200k()).0;
    for tenth in 1..10 {
        for policy in POLICIES {
            let settings = PlanSettings { policy, ..PlanSettings::default() };
            let budget = Budget::of(Tokens(total * tenth / 10));
            let compacted = compact(json, dialect, &budget, &settings, o200k());
            let found = violations(wire, json, &compacted.text, policy);
            assert_eq!(found, Vec::<String>::new(), "{policy:?}: {}", compacted.text);
        }
    }
}

/// No tool loop is open here, so that the provider takes the newest reply without its thinking, and
/// refuses it with thinking that is bound to what an edit changed.
#[test]
fn bound_thinking_goes_from_the_newest_reply_of_a_closed_loop() {
    let output = "line of a log\\n".repeat(200);
    check_all(
        &format!(
            r#"{{"model":"claude-opus-5-5","max_tokens":4096,"messages":[{{"role":"user","content":"go"}},{{"role":"assistant","content":[{{"type":"tool_use","id":"t1","name":"f","input":{{}}}}]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t1","content":"{output}"}}]}},{{"role":"assistant","content":[{{"type":"thinking","thinking":"hm","signature":"c2ln"}},{{"type":"text","text":"done"}}]}},{{"role":"user","content":"thanks"}}]}}"#
        ),
        WireFormat::Anthropic,
    );
}

#[test]
fn an_approval_stays_with_its_request() {
    let query = "word ".repeat(400);
    check_all(
        &format!(
            r#"[{{"role":"user","content":"go"}},{{"type":"mcp_approval_request","id":"mcpr_1","server_label":"docs","name":"search","arguments":"{{\"query\":\"{query}\"}}"}},{{"type":"mcp_approval_response","approval_request_id":"mcpr_1","approve":true}},{{"type":"mcp_call","id":"mcp_1","server_label":"docs","name":"search","arguments":"{{}}","output":"found"}},{{"role":"assistant","content":"done"}},{{"role":"user","content":"thanks"}}]"#
        ),
        WireFormat::Responses,
    );
}
