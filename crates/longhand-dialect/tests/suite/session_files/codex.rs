//! Codex: items and events, also compressed.

use longhand_dialect::{Dialect, DialectError, read};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::common::{check, parse, show};

/// One line of Codex.
fn item(payload: &str) -> String {
    format!("{{\"timestamp\":\"t\",\"type\":\"response_item\",\"payload\":{payload}}}\n")
}

fn event(kind: &str, payload: &str) -> String {
    format!("{{\"timestamp\":\"t\",\"type\":\"{kind}\",\"payload\":{payload}}}\n")
}

fn asked(text: &str) -> String {
    item(&format!(
        r#"{{"type":"message","role":"user","content":[{{"type":"input_text","text":"{text}"}}]}}"#
    ))
}

fn answered(text: &str) -> String {
    item(&format!(
        r#"{{"type":"message","role":"assistant","content":[{{"type":"output_text","text":"{text}"}}]}}"#
    ))
}

fn codex() -> String {
    [
        event("session_meta", r#"{"id":"a","base_instructions":{"text":"be brief"}}"#),
        event("turn_context", r#"{"model":"gpt-5.5"}"#),
        item(r#"{"type":"message","role":"developer","content":[{"type":"input_text","text":"rules"}]}"#),
        asked("go"),
        event("event_msg", r#"{"type":"user_message","message":"go"}"#),
        item(r#"{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"e"}"#),
        item(r#"{"type":"function_call","call_id":"c1","name":"shell","arguments":"{}"}"#),
        item(r#"{"type":"custom_tool_call","call_id":"c2","name":"apply_patch","input":"*** patch"}"#),
        item(r#"{"type":"local_shell_call","call_id":"c3","status":"completed","action":{"type":"exec"}}"#),
        item(r#"{"type":"function_call_output","call_id":"c1","output":"one"}"#),
        item(r#"{"type":"custom_tool_call_output","call_id":"c2","output":[{"type":"input_text","text":"two"}]}"#),
        item(r#"{"type":"function_call_output","call_id":"c3","output":{"content":"three","success":true}}"#),
        item(r#"{"type":"web_search_call","status":"completed","action":{}}"#),
        item(r#"{"type":"ghost_snapshot","ghost_commit":{"id":"g"}}"#),
        event("compacted", r#"{"message":"what was","replacement_history":[{"type":"message","role":"user","content":[]}]}"#),
        answered("done"),
        event("turn_context", r#"{"model":"gpt-5.6"}"#),
    ]
    .concat()
}

#[rustfmt::skip]
const CODEX: &[&str] = &[
    "instructions system: be brief",
    "line 3 system: rules",
    "line 4 user: go",
    "line 6 assistant: (hm)",
    "line 7 assistant: c1=shell",
    "line 8 assistant: c2=apply_patch",
    "line 9 assistant: c3=local_shell + <{\"type\":\"local_shell_cal>",
    "line 10 tool: c1->one",
    "line 11 tool: c2->two",
    "line 12 tool: c3->three",
    "line 13 assistant: <{\"type\":\"web_search_call>",
    "line 16 assistant: done",
];

#[test]
fn codex_is_read_whole() {
    check(&codex(), Dialect::Codex, CODEX);
    let session = parse(&codex(), Dialect::Codex);
    assert_eq!(session.model.as_deref(), Some("gpt-5.6"));
    assert_eq!(session.check(), []);
    assert!(session.messages[7].raw.raw().starts_with(r#"{"timestamp""#), "the whole line");
}

#[test]
fn turns_that_were_rolled_back_are_left_out() {
    let rolled_back = |turns: u32| {
        let payload = format!(r#"{{"type":"thread_rolled_back","num_turns":{turns}}}"#);
        event("event_msg", &payload)
    };
    let turns =
        [asked("one"), answered("1"), asked("two"), answered("2"), asked("three"), answered("3")];
    let after = |turns: &[String], back: u32| {
        [turns.concat(), rolled_back(back), asked("again"), answered("4")].concat()
    };
    check(
        &after(&turns, 2),
        Dialect::Codex,
        &["line 1 user: one", "line 2 assistant: 1", "line 8 user: again", "line 9 assistant: 4"],
    );
    check(&after(&turns, 9), Dialect::Codex, &["line 8 user: again", "line 9 assistant: 4"]);
    check(
        &after(&turns[..2], 0),
        Dialect::Codex,
        &["line 1 user: one", "line 2 assistant: 1", "line 4 user: again", "line 5 assistant: 4"],
    );
}

#[test]
fn a_compressed_session_is_opened() {
    let packed = compress_to_vec(codex().as_bytes(), CompressionLevel::Fastest);
    assert!(packed.len() < codex().len());
    let session = read(packed.clone(), None).unwrap();
    assert_eq!(session.bytes(), codex());
    assert_eq!(show(&session).lines().collect::<Vec<_>>(), CODEX);
    for broken in [&packed[..4], &packed[..packed.len() / 2]] {
        assert!(matches!(read(broken.to_vec(), None), Err(DialectError::Zstd(_))));
    }
}
