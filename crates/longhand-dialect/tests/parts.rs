//! How items and blocks are read as parts, beyond plain text, calls and results.
#![allow(clippy::unwrap_used)]

mod common;

use common::{POLICIES, compact, graves, o200k, parse};
use longhand_core::{Budget, Part, Role, Settings, Tokens, steps};
use longhand_dialect::{Conversation, Dialect, write};

fn responses(items: &str) -> Conversation {
    parse(&format!("[{items}]"), Some(Dialect::Responses))
}

const USER: &str = r#"{"role":"user","content":"u"}"#;
const REQUEST: &str = r#"{"type":"mcp_approval_request","id":"mcpr_1","name":"n","arguments":"{}","server_label":"s"}"#;
const APPROVAL: &str =
    r#"{"type":"mcp_approval_response","approval_request_id":"mcpr_1","approve":true}"#;
const APPROVED: &str =
    r#"{"type":"mcp_call","id":"mcp_1","approval_request_id":"mcpr_1","name":"n","output":"o"}"#;

#[test]
fn a_request_for_approval_moves_with_its_answer_and_its_call() {
    let items = [USER, REQUEST, USER, APPROVAL, APPROVED, USER].join(",");
    let conversation = responses(&items);
    assert_eq!(graves(&conversation), Vec::<String>::new());
    assert_eq!(steps(&conversation.messages), [0..1, 1..5, 5..6]);
    assert_eq!(conversation.messages[3].role, Role::Tool);
    let reference = r#"{"type":"item_reference","id":"mcpr_1"}"#;
    let held = responses(&[USER, reference, USER, APPROVAL].join(","));
    assert_eq!(graves(&held), Vec::<String>::new());
    assert_eq!(steps(&held.messages), [0..1, 1..4]);
}

#[test]
fn an_approval_without_its_request_is_refused_and_mended() {
    let conversation = responses(&[USER, APPROVAL, REQUEST].join(","));
    assert_eq!(
        graves(&conversation),
        [r#"[1].approval_request_id: the approval of "mcpr_1" has no request before it"#]
    );
    let mended = conversation.repair().unwrap();
    assert_eq!(graves(&mended), Vec::<String>::new());
    assert!(!mended.bytes().contains("mcp_approval_response"));
    // The provider holds what came before, perhaps with the request.
    let held = format!(r#"{{"previous_response_id":"r","input":[{APPROVAL}]}}"#);
    assert_eq!(graves(&parse(&held, None)), Vec::<String>::new());
    // The call alone may well be all that is left of it.
    assert_eq!(graves(&responses(&[USER, APPROVED].join(","))), Vec::<String>::new());
}

#[test]
fn calls_of_server_tools_are_told_by_their_type() {
    let call =
        r#"{"type":"server_tool_use","id":"srvtoolu_\u0031","name":"web_search","input":{}}"#;
    let result = r#"{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]}"#;
    let json = format!(
        r#"[{USER},{{"role":"assistant","content":[{call}]}},{USER},{{"role":"assistant","content":[{result}]}}]"#
    );
    let conversation = parse(&json, Some(Dialect::Anthropic));
    assert_eq!(steps(&conversation.messages), [0..1, 1..4]);
}

/// An answer that may not be edited, in each dialect, with `WORDS` for its text.
const FIXED: [(Dialect, &str); 5] = [
    (
        Dialect::Responses,
        r#"{"role":"assistant","content":[{"type":"output_text","text":"WORDS","annotations":[{"type":"url_citation"}]}]}"#,
    ),
    (
        Dialect::Responses,
        r#"{"role":"assistant","content":[{"type":"refusal","refusal":"WORDS"}]}"#,
    ),
    (
        Dialect::Anthropic,
        r#"{"role":"assistant","content":[{"type":"text","text":"WORDS","citations":[{"type":"char_location"}]}]}"#,
    ),
    (Dialect::Chat, r#"{"role":"assistant","content":null,"refusal":"WORDS"}"#),
    (Dialect::Chat, r#"{"role":"assistant","content":[{"type":"refusal","refusal":"WORDS"}]}"#),
];

#[test]
fn words_that_may_not_be_edited_are_read_and_never_edited() {
    let words = "The tide table of Brest is in data/tides/brest.csv now. ".repeat(60);
    for (dialect, answer) in FIXED {
        let answer = answer.replace("WORDS", &words);
        let json = format!("[{USER},{answer},{USER},{answer},{USER}]");
        let before = parse(&json, Some(dialect));
        assert_eq!(graves(&before), Vec::<String>::new(), "{answer}");
        let [Part::FixedText(text)] = before.messages[1].parts.as_slice() else {
            panic!("{:?}", before.messages[1].parts)
        };
        assert_eq!(text.decode(), words);
        for to in [Dialect::Chat, Dialect::Responses, Dialect::Anthropic] {
            assert!(write(&[(dialect, &before.messages[1])], to).contains(&words));
        }
        for policy in POLICIES {
            let settings = Settings { policy, ..Settings::default() };
            let budget = Budget::of(Tokens(600));
            let compacted = compact(&json, Some(dialect), &budget, &settings, o200k());
            assert_eq!(graves(&compacted.after), Vec::<String>::new());
            for message in &compacted.after.messages {
                let raw = message.raw.raw();
                assert!(
                    !raw.contains("[longhand stub") && !raw.contains("[longhand clip"),
                    "{raw}"
                );
            }
            let is_folded = compacted.text.contains("[longhand fold");
            assert!(!is_folded || compacted.text.contains("data/tides/brest.csv"), "{policy:?}");
        }
    }
}

#[test]
fn empty_lists_of_citations_leave_text_editable() {
    for citations in ["null", "[ ]", "[]"] {
        let json = format!(
            r#"[{USER},{{"role":"assistant","content":[{{"type":"text","text":"a","citations":{citations}}}]}}]"#
        );
        let conversation = parse(&json, Some(Dialect::Anthropic));
        assert!(matches!(conversation.messages[1].parts[0], Part::Text(_)), "{citations}");
    }
}
