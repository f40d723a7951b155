//! How items and blocks are read as parts, beyond plain text, calls and results.
#![allow(clippy::unwrap_used)]

mod common;

use common::{graves, parse};
use longhand_core::{Role, steps};
use longhand_dialect::{Conversation, Dialect};

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
