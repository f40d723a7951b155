use std::sync::Arc;

use longhand_testkit::arbitrary::{anthropic_json, chat_json, responses_json};
use proptest::prelude::*;

use super::*;
use crate::{read, read_after};

/// Items that mean something to those before or after them.
const ITEMS: [&str; 8] = [
    r#"{"type":"item_reference","id":"msg_1"}"#,
    r#"{"id":"fc_1"}"#,
    r#"{"type":"compaction","encrypted_content":"e"}"#,
    r#"{"type":"compaction_trigger"}"#,
    r#"{"type":"reasoning","id":"rs_1","summary":[]}"#,
    r#"{"type":"function_call_output","call_id":"held","output":"o"}"#,
    r#"{"type":"mcp_approval_request","id":"mcpr_1"}"#,
    r#"{"type":"mcp_approval_response","approval_request_id":"mcpr_1","approve":true}"#,
];

/// What a request may say after its list.
const FIELDS: [&str; 5] = [
    "",
    r#","store":false"#,
    r#","previous_response_id":"r""#,
    r#","instructions":"be brief""#,
    r#","model":"claude-opus-5-5","system":[ ]"#,
];

/// A conversation of the testkit as a request, with items of ours among its own.
fn request() -> impl Strategy<Value = (Dialect, String, Vec<String>)> {
    let generated = prop_oneof![
        1 => chat_json().prop_map(|json| (Dialect::Chat, json)),
        1 => anthropic_json().prop_map(|json| (Dialect::Anthropic, json)),
        3 => responses_json().prop_map(|json| (Dialect::Responses, json)),
    ];
    let items = prop::collection::vec((0..ITEMS.len(), any::<prop::sample::Index>()), 0..6);
    (generated, items).prop_map(|((dialect, json), items)| {
        let whole = read(json.into_bytes(), Some(dialect)).unwrap();
        let mut list: Vec<String> =
            whole.elements.iter().map(|span| whole.bytes()[span.clone()].to_owned()).collect();
        for (item, place) in items.iter().filter(|_| dialect == Dialect::Responses) {
            list.insert(place.index(list.len() + 1), ITEMS[*item].to_owned());
        }
        let key = if dialect == Dialect::Responses { "input" } else { "messages" };
        (dialect, format!(r#"{{"{key}":["#), list)
    })
}

/// All that reading makes of a request.
fn shown(conversation: &Conversation) -> String {
    let Conversation { messages, attributes, model, elements, layout, findings, .. } = conversation;
    let continues = conversation.continues;
    format!(
        "{messages:?} {attributes:?} {model:?} {elements:?} {layout:?} {findings:?} {continues:?}"
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    /// A request that goes on from any shorter one is read as if it stood alone.
    #[test]
    fn reading_on_is_reading(
        (dialect, head, list) in request(),
        before_fields in prop::sample::select(FIELDS.to_vec()),
        after_fields in prop::sample::select(FIELDS.to_vec()),
    ) {
        let text = |count: usize, fields: &str| {
            Arc::new(format!("{head}{}]{fields}}}", list[..count].join(" , ")))
        };
        let whole = text(list.len(), after_fields);
        let expected = shown(&crate::read_shared(Arc::clone(&whole), Some(dialect)).unwrap());
        for count in 0..=list.len() {
            let before = crate::read_shared(text(count, before_fields), Some(dialect)).unwrap();
            let after = read_after(Arc::clone(&whole), &before).unwrap();
            prop_assert_eq!(shown(&after), &*expected, "after {} of {}", count, list.len());
        }
    }
}

#[test]
fn a_beginning_is_the_request_of_that_time() {
    for (text, messages, expected) in [
        (
            r#"[ {"role":"user","content":"a"} , {"role":"assistant","content":"b"} ]"#,
            1,
            r#"[ {"role":"user","content":"a"} ]"#,
        ),
        (
            r#"{"system":"s","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}],"model":"claude-opus-5"}"#,
            2,
            r#"{"system":"s","messages":[{"role":"user","content":"a"}],"model":"claude-opus-5"}"#,
        ),
        (
            r#"{"instructions":"s","input":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}"#,
            1,
            r#"{"instructions":"s","input":[]}"#,
        ),
    ] {
        let whole = read(text.as_bytes().to_vec(), None).unwrap();
        let beginning = whole.beginning(messages).unwrap();
        assert_eq!((beginning.bytes(), beginning.messages.len()), (expected, messages));
        assert_eq!(whole.beginning(whole.messages.len()).unwrap().bytes(), text);
    }
}
