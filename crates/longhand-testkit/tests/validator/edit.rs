//! Rules for edited conversations.

use longhand_testkit::{WireFormat, validate_edit};

#[rustfmt::skip]
const WORDS: &[(&str, &str)] = &[
    ("$go", r#"{"role":"user","content":"go"}"#),
    ("$fold", r#"{"role":"user","content":"a summary"}"#),
    ("$more", r#"{"role":"user","content":"more"}"#),
    ("$reply1", r#"{"role":"assistant","content":[$think1,{"type":"text","text":"one"}]}"#),
    ("$bare1", r#"{"role":"assistant","content":[{"type":"text","text":"one"}]}"#),
    ("$short1", r#"{"role":"assistant","content":[$think1,{"type":"text","text":"o"}]}"#),
    ("$call2", r#"{"role":"assistant","content":[$think2,{"type":"tool_use","id":"t2","name":"f","input":{}}]}"#),
    ("$rough2", r#"{"role":"assistant","content":[{"type":"tool_use","id":"t2","name":"f","input":{}}]}"#),
    ("$out2", r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t2","content":"2"}]}"#),
    ("$think1", r#"{"type":"thinking","thinking":"1","signature":"s1"}"#),
    ("$think2", r#"{"type":"thinking","thinking":"2","signature":"s2"}"#),
    ("$think3", r#"{"type":"thinking","thinking":"2","signature":"s3"}"#),
    ("$drop", r#"{"type":"adaptive","block_binding":{"prefix_mismatch_behavior":"drop_block"}}"#),
    ("$rs1", r#"{"type":"reasoning","id":"rs1","summary":[]}"#),
    ("$fc1", r#"{"type":"function_call","id":"fc1","call_id":"c1","name":"f","arguments":"{}"}"#),
    ("$fo1", r#"{"type":"function_call_output","call_id":"c1","output":"1"}"#),
];

fn check(dialect: WireFormat, binds: bool, before: &str, after: &str, expected: &[&str]) {
    let spelled = |text: &str| {
        WORDS.iter().fold(text.to_owned(), |text, (word, json)| text.replace(word, json))
    };
    assert_eq!(
        validate_edit(dialect, &spelled(before), &spelled(after), binds),
        expected,
        "{after}"
    );
}

#[test]
fn no_edit_breaks_nothing() {
    for (dialect, json) in [
        (WireFormat::Chat, r#"{"tools":[],"messages":[{"role":"system","content":"s"},$go]}"#),
        (WireFormat::Anthropic, r#"{"system":"s","messages":[$go,$reply1,$more,$call2,$out2]}"#),
        (WireFormat::Responses, r#"{"instructions":"s","input":[$go,$rs1,$fc1,$fo1]}"#),
    ] {
        check(dialect, true, json, json, &[]);
    }
}

#[test]
fn system_prompt_and_tools_stay() {
    let source = r#"{"tools":[{"a":1,"b":2}],"messages":[{"role":"system","content":"s"},$go]}"#;
    let order = r#"{"tools":[{"b":2,"a":1}],"messages":[{"role":"system","content":"s"},$go]}"#;
    check(WireFormat::Chat, false, source, order, &["tools: the edit changed it"]);
    let prompt = r#"{"tools":[{"a":1,"b":2}],"messages":[{"role":"system","content":"t"},$go]}"#;
    check(
        WireFormat::Chat,
        false,
        source,
        prompt,
        &["messages[0]: the edit changed a system message"],
    );
    check(
        WireFormat::Anthropic,
        false,
        r#"{"system":"s","messages":[$go]}"#,
        r#"{"system":"t","messages":[$go]}"#,
        &["system: the edit changed it"],
    );
    check(
        WireFormat::Responses,
        false,
        r#"{"instructions":"s","input":[$go]}"#,
        r#"{"input":[$go]}"#,
        &["instructions: the edit changed it"],
    );
}

#[test]
fn the_newest_user_message_stays() {
    let gone = "the newest user message is not there as it was";
    check(WireFormat::Chat, false, "[$go,$bare1,$more]", "[$fold,$more]", &[]);
    // A fold block is no user message, though it stands in one.
    let block = r#"{"role":"user","content":"[longhand fold h:x: 2 earlier messages]"}"#;
    check(WireFormat::Chat, false, &format!("[$go,{block},$bare1]"), "[$go,$bare1]", &[]);
    check(
        WireFormat::Chat,
        false,
        "[$go,$bare1,$more]",
        "[$go,$bare1,$fold]",
        &[&format!("messages[2]: {gone}")],
    );
    let merged = r#"[{"role":"user","content":[{"type":"text","text":"a summary"},{"type":"text","text":"more","cache_control":{"type":"ephemeral"}}]}]"#;
    check(WireFormat::Anthropic, false, "[$go,$bare1,$more]", merged, &[]);
    check(
        WireFormat::Responses,
        false,
        "[$go,$fc1,$fo1]",
        "[$fold,$fc1,$fo1]",
        &[&format!("input[0]: {gone}")],
    );
}

#[test]
fn thinking_is_kept_as_it_was() {
    let source = r"[$go,$reply1,$more,$call2,$out2]";
    let none = "the source has no such thinking block at this point";
    let changed = source.replace("$call2", r#"{"role":"assistant","content":[$think3,{"type":"tool_use","id":"t2","name":"f","input":{}}]}"#);
    check(
        WireFormat::Anthropic,
        false,
        source,
        &changed,
        &[
            &format!("messages[3].content[0]: {none}"),
            "messages: the edit changed the thinking of the latest reply",
        ],
    );
    check(
        WireFormat::Anthropic,
        false,
        source,
        "[$go,$reply1,$more,$rough2,$out2]",
        &["messages: the edit changed the thinking of the latest reply"],
    );
    check(WireFormat::Anthropic, false, source, "[$fold,$bare1,$more,$call2,$out2]", &[]);
    let doubled = "[$go,$reply1,$more,$reply1,$more,$call2,$out2]";
    check(
        WireFormat::Anthropic,
        false,
        source,
        doubled,
        &[&format!("messages[3].content[0]: {none}")],
    );
}

#[test]
fn bound_thinking_goes_after_an_edit() {
    let void = "the thinking is bound to a conversation that the edit changed";
    let source = "[$go,$reply1,$more,$call2,$out2]";
    check(
        WireFormat::Anthropic,
        true,
        source,
        "[$fold,$reply1,$more,$call2,$out2]",
        &[&format!("messages[1].content[0]: {void}")],
    );
    check(WireFormat::Anthropic, true, source, "[$fold,$bare1,$more,$call2,$out2]", &[]);
    // Thinking before the edit is still valid, also in the message that is edited.
    check(WireFormat::Anthropic, true, source, "[$go,$short1,$more,$call2,$out2]", &[]);
    // Without a tool loop that is open, no thinking is excused.
    let closed = "[$go,$reply1,$more,$call2,$out2,$bare1,$more]";
    check(
        WireFormat::Anthropic,
        true,
        closed,
        "[$go,$bare1,$more,$call2,$out2,$bare1,$more]",
        &[&format!("messages[3].content[0]: {void}")],
    );
    check(
        WireFormat::Anthropic,
        false,
        closed,
        "[$go,$bare1,$more,$call2,$out2,$bare1,$more]",
        &[],
    );
    let switch = |list: &str| format!(r#"{{"thinking":$drop,"messages":{list}}}"#);
    check(
        WireFormat::Anthropic,
        true,
        &switch(closed),
        &switch("[$go,$bare1,$more,$call2,$out2,$bare1,$more]"),
        &[],
    );
    let prompt =
        |prompt: &str| format!(r#"{{"system":"{prompt}","messages":[$go,$reply1,$more]}}"#);
    check(
        WireFormat::Anthropic,
        true,
        &prompt("s"),
        &prompt("t"),
        &["system: the edit changed it", &format!("messages[1].content[0]: {void}")],
    );
}

#[test]
fn reasoning_stays_with_its_item() {
    let source = "[$go,$rs1,$fc1,$fo1,$more]";
    check(WireFormat::Responses, false, source, "[$go,$more]", &[]);
    check(
        WireFormat::Responses,
        false,
        source,
        "[$go,$fc1,$fo1,$more]",
        &["input[1]: the item has lost its reasoning"],
    );
    let other = r#"[$go,{"type":"reasoning","id":"rs1","summary":[1]},$fc1,$fo1,$more]"#;
    check(
        WireFormat::Responses,
        false,
        source,
        other,
        &["input[1]: the source has no such reasoning at this point"],
    );
}
