//! Clearing of tool uses by a client's rules.

use crate::common::{count, fixed, graves, o200k, parse};
use longhand_core::{Clear, Edit, Handle, Part, Plan, Tokens, Trigger, clear, original};
use longhand_dialect::{Conversation, Dialect};
use longhand_testkit::arbitrary::{anthropic_json, chat_json, responses_json};
use proptest::prelude::*;

fn planned(conversation: &Conversation, rules: &Clear) -> Plan {
    clear(&conversation.history(fixed(conversation, o200k())), rules, o200k())
}

/// The messages of which something is replaced.
fn cleared(conversation: &Conversation, plan: &Plan) -> Vec<usize> {
    let stubs = plan.batch.edits.iter().filter_map(|edit| match edit {
        Edit::Stub { at, .. } => conversation.path().message(at.entry),
        _ => None,
    });
    stubs.collect()
}

/// Five tool uses of about 200 tokens each, the third with a bulky argument, and an answer.
fn session() -> String {
    let long = |id: usize| format!("line {id} of the log\\n").repeat(60);
    let turn = |id: usize| {
        let name = if id == 1 { "search" } else { "read" };
        let input = if id == 2 { long(id) } else { "a".to_owned() };
        format!(
            r#",{{"role":"assistant","content":[{{"type":"tool_use","id":"t{id}","name":"{name}","input":{{"path":"{input}"}}}}]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t{id}","content":"{}"}}]}}"#,
            long(id)
        )
    };
    let turns: String = (0..5).map(turn).collect();
    format!(
        r#"[{{"role":"user","content":"go"}}{turns},{{"role":"assistant","content":"done"}},{{"role":"user","content":"more"}}]"#
    )
}

#[test]
fn each_rule_does_what_it_says() {
    let conversation = parse(&session(), Some(Dialect::Anthropic));
    let whole = count(&conversation, o200k());
    let every = || Clear { trigger: Trigger::Uses(0), ..Clear::default() };
    let check = |rules: Clear, expected: &[usize]| {
        let messages = cleared(&conversation, &planned(&conversation, &rules));
        assert_eq!(messages, expected, "{rules:?}");
    };
    // Results stand in messages 2, 4, 6, 8 and 10; calls right before them.
    check(every(), &[2, 4]);
    check(Clear { keep: 0, ..every() }, &[2, 4, 6, 8, 10]);
    check(Clear { keep: 1, ..every() }, &[2, 4, 6, 8]);
    check(Clear { keep: 5, ..every() }, &[]);
    check(Clear { keep: usize::MAX, ..every() }, &[]);
    check(Clear { keep: 1, exclude: vec!["search".into()], ..every() }, &[2, 6, 8]);
    check(Clear { exclude: vec!["search".into(), "read".into()], ..every() }, &[]);
    check(Clear { keep: 1, inputs: true, ..every() }, &[2, 4, 5, 6, 8]);
    check(Clear { keep: 3, inputs: true, ..every() }, &[2, 4]);
    // Beyond the trigger, and not before.
    check(Clear { trigger: Trigger::Uses(5), ..every() }, &[]);
    check(Clear { trigger: Trigger::Uses(4), ..every() }, &[2, 4]);
    check(Clear { trigger: Trigger::Tokens(whole), ..every() }, &[]);
    check(Clear { trigger: Trigger::Tokens(whole - Tokens(1)), ..every() }, &[2, 4]);
    check(Clear::default(), &[]);
    // All that it frees, and no more.
    let freed = whole - planned(&conversation, &every()).tokens();
    assert!(freed > Tokens(200), "{freed}");
    check(Clear { at_least: freed, ..every() }, &[2, 4]);
    check(Clear { at_least: freed + Tokens(1), ..every() }, &[]);
}

#[test]
fn what_the_model_has_not_seen_stays() {
    let open = session()
        .replace(r#",{"role":"assistant","content":"done"},{"role":"user","content":"more"}"#, "");
    let conversation = parse(&open, Some(Dialect::Anthropic));
    let rules = Clear { trigger: Trigger::Uses(0), keep: 0, ..Clear::default() };
    let messages = cleared(&conversation, &planned(&conversation, &rules));
    assert_eq!(messages, [2, 4, 6, 8]);
}

#[test]
fn a_cleared_window_reads_like_this() {
    let conversation = parse(&session(), Some(Dialect::Anthropic));
    let rules = Clear { trigger: Trigger::Uses(0), keep: 2, inputs: true, ..Clear::default() };
    let plan = planned(&conversation, &rules);
    let window = parse(&conversation.apply(&[plan.batch]), Some(Dialect::Anthropic));
    assert_eq!(
        crate::common::show(&window),
        r#"0 user go
1 assistant call:read {"path":"a"}
2 user -> [longhand stub h:7jpngfkdwpqg:…
3 assistant call:search {"path":"a"}
4 user -> [longhand stub h:bz9tghdaj5c5: 1,080 chars of search path=a, not shown]
5 assistant call:read {"path":"[longhand stub h:kfxew27s308t: 1,080 chars not shown]"}
6 user -> [longhand stub h:h1cbs27zgkh8: 1,080 chars of read, not shown, read it again to see it]
7 assistant call:read {"path":"a"}
8 user -> line 3 of the log
9 assistant call:read {"path":"a"}
10 user -> line 4 of the log
11 assistant done
12 user more
"#
    );
}

fn rules() -> impl Strategy<Value = Clear> {
    let trigger = prop_oneof![
        (0..20usize).prop_map(Trigger::Uses),
        (0..4_000u64).prop_map(|tokens| Trigger::Tokens(Tokens(tokens))),
    ];
    let exclude =
        prop::collection::vec(prop::sample::select(vec!["read_file", "search", "x"]), 0..2);
    let at_least = prop_oneof![2 => Just(0u64), 1 => 0..2_000u64];
    (trigger, 0..6usize, at_least, exclude, any::<bool>()).prop_map(
        |(trigger, keep, at_least, exclude, inputs)| Clear {
            trigger,
            keep,
            at_least: Tokens(at_least),
            exclude: exclude.into_iter().map(Into::into).collect(),
            inputs,
        },
    )
}

proptest! {
    #![proptest_config(crate::common::cases(300))]

    /// Validity, an honest size, handles and originals, and that clearing what is cleared does nothing.
    #[test]
    fn clearing_keeps_the_laws(
        (json, dialect) in prop_oneof![
            chat_json().prop_map(|json| (json, Dialect::Chat)),
            anthropic_json().prop_map(|json| (json, Dialect::Anthropic)),
            responses_json().prop_map(|json| (json, Dialect::Responses)),
        ],
        rules in rules(),
    ) {
        let before = parse(&json, Some(dialect));
        let plan = planned(&before, &rules);
        let text = before.apply(std::slice::from_ref(&plan.batch));
        let after = parse(&text, Some(dialect));
        prop_assert_eq!(graves(&after), Vec::<String>::new());
        let tokens = count(&after, o200k());
        prop_assert!(tokens <= plan.tokens() && plan.fits() && plan.floor <= plan.tokens());
        if plan.is_noop() {
            prop_assert_eq!(&text, &json);
        } else {
            prop_assert!(tokens + rules.at_least <= count(&before, o200k()));
            prop_assert!(!cleared(&before, &plan).is_empty());
        }
        for edit in &plan.batch.edits {
            match (edit, original(&before.path(), edit)) {
                (Edit::Stub { at, handle, .. }, Some(kept)) => {
                    prop_assert_eq!(Handle::of([kept.as_str()]), *handle);
                    let (message, part) = before.path().find(*at).unwrap();
                    let is_call = match &before.messages[message].parts[part] {
                        Part::Call(_) => true,
                        Part::Result(_) => false,
                        other => return Err(TestCaseError::fail(format!("{other:?}"))),
                    };
                    prop_assert!(rules.inputs || !is_call);
                }
                other => return Err(TestCaseError::fail(format!("{other:?}"))),
            }
        }
        prop_assert!(planned(&after, &rules).is_noop(), "clearing twice is clearing once");
    }
}
