//! An edit changes what it names and not a byte more.

use crate::common::{Operation, fold, remove, render, replace};
use longhand_dialect::{Conversation, Dialect, read};

fn parse(source: &str, dialect: Dialect) -> Conversation {
    let read = read(source.as_bytes().to_vec(), None);
    let conversation = read.unwrap_or_else(|error| panic!("{error}: {source}"));
    assert_eq!(conversation.dialect, dialect);
    conversation
}

/// Applies edits; all that changes is that each first text becomes the second.
fn check(source: &str, dialect: Dialect, edits: &[Operation], changes: &[(&str, &str)]) {
    let mut expected = source.to_owned();
    for (old, new) in changes {
        assert_eq!(expected.matches(old).count(), 1, "{old}");
        expected = expected.replace(old, new);
    }
    let conversation = parse(source, dialect);
    assert_eq!(conversation.apply(&[]), source);
    assert_eq!(render(&conversation, edits), expected);
    let again = parse(&expected, dialect);
    assert_eq!(again.check(), conversation.check(), "the edit left it as valid as it was");
}

/// A note with all that must be escaped.
const NOTE: &str = "[a \"b\" \\ c\n\u{1} é 😀]";
const QUOTED: &str = r#""[a \"b\" \\ c\n\u0001 é 😀]""#;

const CHAT: &str = r#"
{ "n":1.0,"seed" : 1152921504606846976,"big":1e5,"n":2, "messages":[
	{"content":"caf\u00e9 😀 \/","role":"user","role":"user","x":[1E+5, {"y":-0.0}]} ,
  { "role":"assistant","content":"on it","tool_calls":[{"function":{"arguments":"{\"path\":\"a\\nb\"}","name":"f"},"id":"c1","type":"function","index":0}, {"id":"c2","type":"custom","custom":{"input":"free","name":"g"}}],"reasoning_content":"r"},
{"tool_call_id":"c1","content":"body one","role":"tool","weight":1.0}, {"tool_call_id":"c2","content":[{"type":"text","text":"body two","z":1.0}],"role":"tool"},
{"role":"assistant","content":[{"type":"text","text":"part one","cache":1e0},{"type":"video","v":0.10}],"refusal":null}
 ,{"role":"user","content":"bye"}
] , "stream":true}  "#;

#[test]
fn chat() {
    let check =
        |edits: &[Operation], changes: &[(&str, &str)]| check(CHAT, Dialect::Chat, edits, changes);
    check(&[replace(2, 0, NOTE)], &[(r#""body one""#, QUOTED)]);
    check(&[replace(3, 0, NOTE)], &[(r#"[{"type":"text","text":"body two","z":1.0}]"#, QUOTED)]);
    check(
        &[replace(1, 2, r#"{"path":"é\n"}"#)],
        &[(r#""{\"path\":\"a\\nb\"}""#, r#""{\"path\":\"é\\n\"}""#)],
    );
    check(&[replace(1, 3, NOTE)], &[(r#""free""#, QUOTED)]);
    check(&[replace(0, 0, NOTE)], &[(r#""caf\u00e9 😀 \/""#, QUOTED)]);
    check(&[replace(4, 0, NOTE)], &[(r#""part one""#, QUOTED)]);
    check(
        &[replace(1, 1, "x"), replace(2, 0, "y"), replace(3, 0, "z")],
        &[
            (r#""on it""#, r#""x""#),
            (r#""body one""#, r#""y""#),
            (r#"[{"type":"text","text":"body two","z":1.0}]"#, r#""z""#),
        ],
    );
    let (start, end) =
        (CHAT.find("{ \"role\":\"assistant\"").unwrap(), CHAT.find("\n ,{").unwrap());
    let folded = format!(r#"{{"role":"user","content":{QUOTED}}}"#);
    check(&[fold(&[(1, 5)], NOTE)], &[(&CHAT[start..end], &folded)]);
    check(
        &[replace(0, 0, "x"), fold(&[(1, 5)], NOTE)],
        &[(r#""caf\u00e9 😀 \/""#, r#""x""#), (&CHAT[start..end], &folded)],
    );
    // Two ranges make way for one block, where the first was.
    let calls = &CHAT[start..CHAT.find(",\n{\"role\":\"assistant\",\"content\":[").unwrap()];
    check(
        &[fold(&[(1, 4), (5, 6)], NOTE)],
        &[(calls, &folded), ("\n ,{\"role\":\"user\",\"content\":\"bye\"}", "")],
    );
}

const RESPONSES: &str = r#"{"store":false, "input" : [ {"content":"caf\u00e9 😀","role":"user","w":1.0},
 {"type":"reasoning","id":"rs_1","summary":[ ],"encrypted_content":"e\/"},
 {"arguments":"{\"n\":1.0}","call_id":"c1","name":"f","type":"function_call","id":"fc_1","status":"completed"},
 {"type":"custom_tool_call","call_id":"c2","name":"g","input":"free","input":"last"},
 {"type":"function_call_output","call_id":"c1","output":"body one","n":1152921504606846976},
 {"type":"custom_tool_call_output","call_id":"c2","output":[{"type":"input_text","text":"body two"}]},
 {"type":"hologram","x":1e5,"x":[ ]},
 {"type":"message","role":"assistant","phase":"final_answer","content":[{"type":"output_text","text":"part one","annotations":[]},{"type":"output_text","text":"cited","annotations":[{"start":1.0}]}],"id":"msg_1"},
 {"type":"message","role":"user","content":[{"type":"input_text","text":"bye"}]} ] ,"n" : 2}
"#;

#[test]
fn responses() {
    let check = |edits: &[Operation], changes: &[(&str, &str)]| {
        check(RESPONSES, Dialect::Responses, edits, changes);
    };
    check(&[replace(4, 0, NOTE)], &[(r#""body one""#, QUOTED)]);
    check(&[replace(5, 0, NOTE)], &[(r#"[{"type":"input_text","text":"body two"}]"#, QUOTED)]);
    check(&[replace(2, 0, r#"{"n":"é"}"#)], &[(r#""{\"n\":1.0}""#, r#""{\"n\":\"é\"}""#)]);
    // The last of doubled keys counts.
    check(&[replace(3, 0, NOTE)], &[(r#""last""#, QUOTED)]);
    check(&[replace(0, 0, NOTE)], &[(r#""caf\u00e9 😀""#, QUOTED)]);
    check(&[replace(7, 0, NOTE)], &[(r#""part one""#, QUOTED)]);
    let start = RESPONSES.find(r#"{"type":"reasoning""#).unwrap();
    let end = RESPONSES.find(",\n {\"type\":\"hologram\"").unwrap();
    let folded = format!(
        r#"{{"type":"message","role":"user","content":[{{"type":"input_text","text":{QUOTED}}}]}}"#
    );
    check(&[fold(&[(1, 6)], NOTE)], &[(&RESPONSES[start..end], &folded)]);
}

const ANTHROPIC: &str = r#"{"model":"m","system":[{"text":"caf\u00e9","type":"text"}] , "messages":[{"content":"first","role":"user"},
 {"role":"assistant","content":[{"signature":"s\/","thinking":"t","type":"thinking"}, {"type":"redacted_thinking","data":"d"},{"type":"text","text":"on it"},{"input":{ "n":1.0,"n":2,"m":1e5 },"name":"f","id":"t1","type":"tool_use"} ,{"type":"server_tool_use","id":"srv1","name":"web_search","input":{}},{"type":"web_search_tool_result","tool_use_id":"srv1","content":[ ]}]},
 {"role":"user","content":[{"content":"body one","tool_use_id":"t1","type":"tool_result","cache_control":{"type":"ephemeral"}}], "weight":1.0},
 {"role":"assistant","content":[{"type":"tool_use","id":"t2","name":"f","input":{}}]},
 {"role":"user","content":[{"type":"tool_result","tool_use_id":"t2","content":[{"type":"text","text":"body two"}],"is_error":false},{"type":"text","text":"and 😀"}]},
 {"role":"assistant","content":[{"type":"thinking","thinking":"u","signature":"v"},{"type":"text","text":"done"}]},
 {"role":"user","content":"bye"}], "n":1152921504606846976 }"#;

#[test]
fn anthropic() {
    let check = |edits: &[Operation], changes: &[(&str, &str)]| {
        check(ANTHROPIC, Dialect::Anthropic, edits, changes);
    };
    check(&[replace(3, 0, NOTE)], &[(r#""body one""#, QUOTED)]);
    check(&[replace(5, 0, NOTE)], &[(r#"[{"type":"text","text":"body two"}]"#, QUOTED)]);
    check(&[replace(2, 3, r#"{"n":"é"}"#)], &[(r#"{ "n":1.0,"n":2,"m":1e5 }"#, r#"{"n":"é"}"#)]);
    check(&[replace(1, 0, NOTE)], &[(r#""first""#, QUOTED)]);
    check(&[replace(5, 1, NOTE)], &[(r#""and 😀""#, QUOTED)]);
    check(&[remove(6, 0)], &[(r#"{"type":"thinking","thinking":"u","signature":"v"},"#, "")]);
    check(
        &[remove(2, 0), remove(2, 1)],
        &[(
            r#"{"signature":"s\/","thinking":"t","type":"thinking"}, {"type":"redacted_thinking","data":"d"},"#,
            "",
        )],
    );
    check(
        &[remove(2, 1), replace(2, 2, "x")],
        &[(r#", {"type":"redacted_thinking","data":"d"}"#, ""), (r#""on it""#, r#""x""#)],
    );
    // Roles alternate, so the block joins the turn before it, and the turn after it joins both. The mark
    // of what it stands for is now on the block.
    let mark = r#""cache_control":{"type":"ephemeral"}"#;
    let block = format!(r#"{{"type":"text","text":{QUOTED},{mark}}}"#);
    let start = ANTHROPIC.find(r#""first","role""#).unwrap();
    let end = ANTHROPIC.find(r#"], "n":11529"#).unwrap();
    let joined = format!(
        r#"[{{"type":"text","text":"first"}},{block},{{"type":"text","text":"bye"}}],"role":"user"}}"#
    );
    check(&[fold(&[(2, 7)], NOTE)], &[(&ANTHROPIC[start..end], &joined)]);
    // Between a user turn and an assistant turn nothing else has to move.
    let end =
        ANTHROPIC.find(",\n {\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\"").unwrap();
    let joined = format!(r#"[{{"type":"text","text":"first"}},{block}],"role":"user"}}"#);
    check(&[fold(&[(2, 4)], NOTE)], &[(&ANTHROPIC[start..end], &joined)]);
}

const CLAUDE_CODE: &str = r#"{"type":"summary","summary":"s","leafUuid":"u9"}
{"parentUuid":null,"isSidechain":false,"cwd":"/x","sessionId":"s1","version":"1.0","type":"user","message":{"role":"user","content":"caf\u00e9 😀"},"uuid":"u1","timestamp":"2025-01-01T00:00:00.0Z","n":1.0}
{"parentUuid":"u1","isSidechain":false,"message":{"id":"m1","role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s\/"}],"usage":{"n":1e5}},"type":"assistant","uuid":"u2"}
{"parentUuid":"u2","isSidechain":false,"message":{"id":"m1","role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{ "n":1.0,"n":2 }}]},"type":"assistant","uuid":"u3"}

{"type":"progress","parentUuid":"u3","uuid":"u4","data":1.0}
{"parentUuid":"u4","isSidechain":false,"type":"user","message":{"role":"user","content":[{"tool_use_id":"t1","type":"tool_result","content":"body one"}]},"uuid":"u5","toolUseResult":{"stdout":"body one"}}
{"parentUuid":"u5","isSidechain":false,"message":{"id":"m2","role":"assistant","content":[{"type":"text","text":"done"}]},"type":"assistant","uuid":"u6"}
{"parentUuid":"u6","type":"user","message":{"role":"user","content":"bye"},"uuid":"u7"}
"#;

/// The name of a fold's line.
const FOLD: &str = "683a6268-7430-3367-3763-346271656c6f";

#[test]
fn claude_code() {
    let check = |edits: &[Operation], changes: &[(&str, &str)]| {
        check(CLAUDE_CODE, Dialect::ClaudeCode, edits, changes);
    };
    // The copy for the terminal is no part of what the model sees.
    check(
        &[replace(2, 0, NOTE)],
        &[(r#""content":"body one""#, &format!(r#""content":{QUOTED}"#))],
    );
    check(&[replace(1, 1, r#"{"n":"é"}"#)], &[(r#"{ "n":1.0,"n":2 }"#, r#"{"n":"é"}"#)]);
    check(&[replace(0, 0, NOTE)], &[(r#""caf\u00e9 😀""#, QUOTED)]);
    check(&[replace(3, 0, NOTE)], &[(r#""done""#, QUOTED)]);
    let marker = format!(
        r#"{{"parentUuid":"u1","isSidechain":false,"type":"user","message":{{"role":"user","content":{QUOTED}}},"uuid":"{FOLD}"}}"#
    );
    let start = CLAUDE_CODE.find(r#"{"parentUuid":"u1""#).unwrap();
    let end = CLAUDE_CODE.find("\n{\"parentUuid\":\"u6\"").unwrap();
    check(
        &[fold(&[(1, 4)], NOTE)],
        &[
            (&CLAUDE_CODE[start..end], &marker),
            (r#""parentUuid":"u6""#, &format!(r#""parentUuid":"{FOLD}""#)),
        ],
    );
}

const CODEX: &str = r#"{"timestamp":"t0","type":"session_meta","payload":{"id":"x","base_instructions":{"text":"caf\u00e9"},"n":1.0}}
{"timestamp":"t1","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"hello 😀"}]}}
{"timestamp":"t2","type":"event_msg","payload":{"type":"user_message","message":"hello 😀","n":1e5}}
{"timestamp":"t3","type":"response_item","payload":{"arguments":"{\"n\":1.0}","type":"function_call","name":"f","call_id":"c1"}}
{"timestamp":"t4","type":"response_item","payload":{"type":"function_call_output","call_id":"c1","output":{"content":"body one","success":true}}}
{"timestamp":"t5","type":"event_msg","payload":{"type":"token_count","info":null}}
{"timestamp":"t6","type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"done"}]}}"#;

#[test]
fn codex() {
    let check = |edits: &[Operation], changes: &[(&str, &str)]| {
        check(CODEX, Dialect::Codex, edits, changes);
    };
    check(&[replace(3, 0, NOTE)], &[(r#"{"content":"body one","success":true}"#, QUOTED)]);
    check(&[replace(2, 0, r#"{"n":"é"}"#)], &[(r#""{\"n\":1.0}""#, r#""{\"n\":\"é\"}""#)]);
    check(&[replace(1, 0, NOTE)], &[(r#""text":"hello 😀""#, &format!(r#""text":{QUOTED}"#))]);
    check(&[replace(4, 0, NOTE)], &[(r#""done""#, QUOTED)]);
    let start = CODEX.find(r#"{"timestamp":"t3""#).unwrap();
    let end = CODEX.find("\n{\"timestamp\":\"t5\"").unwrap();
    let marker = format!(
        r#"{{"timestamp":"t3","type":"response_item","payload":{{"type":"message","role":"user","content":[{{"type":"input_text","text":{QUOTED}}}]}}}}"#
    );
    check(&[fold(&[(2, 4)], NOTE)], &[(&CODEX[start..end], &marker)]);
}

const PI: &str = r#"{"type":"session","version":3,"id":"s1","timestamp":"t0","n":1.0}
{"type":"message","id":"a","parentId":null,"timestamp":"t1","message":{"role":"user","content":"caf\u00e9 😀","timestamp":1e5}}
{"type":"message","id":"b","parentId":"a","timestamp":"t2","message":{"role":"assistant","content":[{"type":"thinking","thinking":"t","thinkingSignature":"s"},{"type":"text","text":"on it"},{"arguments":{ "n":1.0,"n":2 },"type":"toolCall","id":"t1","name":"f"}],"usage":{"input":1.0}}}
{"type":"model_change","id":"c","parentId":"b","timestamp":"t3","modelId":"m"}
{"type":"message","id":"d","parentId":"c","timestamp":"t4","message":{"role":"toolResult","toolCallId":"t1","toolName":"f","content":[{"type":"text","text":"body one"}],"isError":false}}
{"type":"message","id":"e","parentId":"d","timestamp":"t5","message":{"role":"assistant","content":[{"type":"text","text":"done"}]}}
{"type":"message","id":"f","parentId":"e","timestamp":"t6","message":{"role":"user","content":[{"type":"text","text":"bye"}]}}
"#;

#[test]
fn pi() {
    let check =
        |edits: &[Operation], changes: &[(&str, &str)]| check(PI, Dialect::Pi, edits, changes);
    let blocks = format!(r#"[{{"type":"text","text":{QUOTED}}}]"#);
    check(&[replace(2, 0, NOTE)], &[(r#"[{"type":"text","text":"body one"}]"#, &blocks)]);
    check(&[replace(1, 2, r#"{"n":"é"}"#)], &[(r#"{ "n":1.0,"n":2 }"#, r#"{"n":"é"}"#)]);
    check(&[replace(0, 0, NOTE)], &[(r#""caf\u00e9 😀""#, QUOTED)]);
    check(&[replace(3, 0, NOTE)], &[(r#""done""#, QUOTED)]);
    let start = PI.find(r#"{"type":"message","id":"b""#).unwrap();
    let end = PI.find("\n{\"type\":\"message\",\"id\":\"f\"").unwrap();
    let marker = format!(
        r#"{{"type":"message","id":"{FOLD}","parentId":"a","timestamp":"t2","message":{{"role":"user","content":{blocks}}}}}"#
    );
    check(
        &[fold(&[(1, 4)], NOTE)],
        &[(&PI[start..end], &marker), (r#""parentId":"e""#, &format!(r#""parentId":"{FOLD}""#))],
    );
}

#[test]
fn nothing_to_do_changes_nothing() {
    for source in
        [CHAT, RESPONSES, ANTHROPIC, CLAUDE_CODE, CODEX, PI, "[]", " [ ] \n", r#"{"input":"x" }"#]
    {
        let conversation = read(source.as_bytes().to_vec(), None).unwrap();
        assert_eq!(conversation.apply(&[]), source);
        assert_eq!(conversation.bytes(), source);
    }
}

#[test]
fn a_turn_that_is_shortened_and_takes_a_fold_in_stays_whole() {
    let source = r#"{"system":"s","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"long"},{"role":"assistant","content":"c"},{"role":"user","content":"d"},{"role":"assistant","content":"e"}]}"#;
    check(
        source,
        Dialect::Anthropic,
        &[replace(3, 0, "short"), fold(&[(4, 6)], "FOLD")],
        &[(
            r#"{"role":"user","content":"long"},{"role":"assistant","content":"c"},{"role":"user","content":"d"}"#,
            r#"{"role":"user","content":[{"type":"text","text":"short"},{"type":"text","text":"FOLD"}]}"#,
        )],
    );
}
