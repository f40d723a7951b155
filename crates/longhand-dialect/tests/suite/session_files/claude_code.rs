//! Claude Code: one block a line, chained by parents.

use longhand_dialect::Dialect;

use super::common::{FOLD, check, fold, links, pairs, parse, remove, render};

/// One line of Claude Code.
fn line(uuid: &str, parent: &str, kind: &str, message: &str, more: &str) -> String {
    let parent = if parent.is_empty() { "null".to_owned() } else { format!("\"{parent}\"") };
    format!(
        r#"{{"parentUuid":{parent},"type":"{kind}","message":{message},"uuid":"{uuid}"{more}}}"#
    ) + "\n"
}

fn user(uuid: &str, parent: &str, text: &str) -> String {
    line(uuid, parent, "user", &format!(r#"{{"role":"user","content":"{text}"}}"#), "")
}

fn result(uuid: &str, parent: &str, call: &str) -> String {
    let message = format!(
        r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{call}","content":"of {call}"}}]}}"#
    );
    line(uuid, parent, "user", &message, "")
}

/// A block of the assistant's message `id`.
fn said(uuid: &str, parent: &str, id: &str, block: &str) -> String {
    let message = format!(r#"{{"id":"{id}","role":"assistant","content":[{block}]}}"#);
    line(uuid, parent, "assistant", &message, "")
}

fn text(text: &str) -> String {
    format!(r#"{{"type":"text","text":"{text}"}}"#)
}

fn call(id: &str) -> String {
    format!(r#"{{"type":"tool_use","id":"{id}","name":"f","input":{{}}}}"#)
}

const THINKING: &str = r#"{"type":"thinking","thinking":"hm","signature":"s"}"#;

fn progress(uuid: &str, parent: &str) -> String {
    format!("{{\"type\":\"progress\",\"parentUuid\":\"{parent}\",\"uuid\":\"{uuid}\"}}\n")
}

#[test]
fn blocks_of_one_message_are_joined_and_results_follow_their_calls() {
    let lines = [
        user("1", "", "go"),
        said("2", "1", "m1", THINKING),
        said("3", "2", "m1", &text("both")),
        said("4", "3", "m1", &call("t1")),
        progress("5", "4"),
        result("6", "5", "t1"),
        said("7", "4", "m1", &call("t2")),
        said("8", "7", "m1", &call("t3")),
        // The next reply has begun before the last result is in.
        result("9", "8", "t3"),
        said("10", "9", "m2", &text("so far")),
        result("11", "7", "t2"),
        user("12", "10", "thanks"),
    ]
    .concat();
    check(
        &lines,
        Dialect::ClaudeCode,
        &[
            "line 1 user: go",
            "line 2 assistant: (hm) + both + t1=f + t2=f + t3=f",
            "line 6 user: t1->of t1",
            "line 9 user: t3->of t3",
            "line 11 user: t2->of t2",
            "line 10 assistant: so far",
            "line 12 user: thanks",
        ],
    );
    let conversation = parse(&lines, Dialect::ClaudeCode);
    let raw = conversation.messages[1].raw.raw();
    let pieces: Vec<&str> = lines.lines().filter(|line| line.contains("\"m1\"")).collect();
    assert_eq!(pieces.len(), 5);
    assert!(pieces.iter().all(|line| raw.contains(line)), "all its lines: {raw}");
    assert_eq!(conversation.check(), []);
}

#[test]
fn results_in_one_line_and_errors_are_read() {
    let both = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t2","content":[{"type":"text","text":"two"}],"is_error":true},{"type":"tool_result","tool_use_id":"t1"}]}"#;
    let lines = [
        user("1", "", "go"),
        said("2", "1", "m1", &format!("{},{}", call("t1"), call("t2"))),
        line("3", "2", "user", both, ""),
    ]
    .concat();
    check(
        &lines,
        Dialect::ClaudeCode,
        &["line 1 user: go", "line 2 assistant: t1=f + t2=f", "line 3 user: t2->!two + t1->"],
    );
}

#[test]
fn messages_without_an_id_stay_apart() {
    let reply = |uuid: &str| {
        line(
            uuid,
            "1",
            "assistant",
            r#"{"role":"assistant","content":[{"type":"text","text":"a"}]}"#,
            "",
        )
    };
    check(
        &[user("1", "", "go"), reply("2"), reply("3")].concat(),
        Dialect::ClaudeCode,
        &["line 1 user: go", "line 2 assistant: a", "line 3 assistant: a"],
    );
}

#[test]
fn side_chains_are_left_out_unless_there_is_nothing_else() {
    let side = |uuid: &str, text: &str| {
        let message = format!(r#"{{"role":"user","content":"{text}"}}"#);
        line(uuid, "1", "user", &message, r#","isSidechain":true"#)
    };
    let lines = [user("1", "", "go"), side("2", "aside"), user("3", "1", "on")].concat();
    check(&lines, Dialect::ClaudeCode, &["line 1 user: go", "line 3 user: on"]);
    let lines = [side("1", "task"), side("2", "more")].concat();
    check(&lines, Dialect::ClaudeCode, &["line 1 user: task", "line 2 user: more"]);
}

#[test]
fn summaries_of_earlier_compactions_are_left_out() {
    let summary = line(
        "4",
        "3",
        "user",
        r#"{"role":"user","content":"what was"}"#,
        r#","isCompactSummary":true"#,
    );
    let lines = [
        "{\"type\":\"summary\",\"summary\":\"s\",\"leafUuid\":\"9\"}\n".to_owned(),
        user("1", "", "go"),
        said("2", "1", "m1", &text("done")),
        "{\"type\":\"system\",\"subtype\":\"compact_boundary\",\"parentUuid\":null,\"logicalParentUuid\":\"2\",\"uuid\":\"3\"}\n".to_owned(),
        summary,
        user("5", "4", "on"),
        "{\"type\":\"file-history-snapshot\",\"messageId\":\"5\"}\n".to_owned(),
        "{\"type\":\"user\",\"message\":\"not one\",\"uuid\":\"6\"}\n".to_owned(),
    ]
    .concat();
    check(
        &lines,
        Dialect::ClaudeCode,
        &["line 2 user: go", "line 3 assistant: done", "line 6 user: on"],
    );
    let window = render(&parse(&lines, Dialect::ClaudeCode), &[fold(&[(0, 2)])]);
    assert_eq!(window.lines().count(), 7);
    let logical = window.lines().find(|line| line.contains("logicalParentUuid")).unwrap();
    assert!(logical.contains(&format!(r#""logicalParentUuid":"{FOLD}""#)), "{logical}");
}

#[test]
fn a_blank_block_is_no_fault_of_a_log_and_a_broken_message_is() {
    let lines = [user("1", "", " "), said("2", "1", "m1", &text(""))].concat();
    assert_eq!(parse(&lines, Dialect::ClaudeCode).check(), []);
    let lines = line("1", "", "user", r#"{"role":"bot","content":"x"}"#, "")
        + &line("2", "1", "user", r#"{"role":"user"}"#, "");
    let found: Vec<String> =
        parse(&lines, Dialect::ClaudeCode).check().iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "line 1.message.role: expected user or assistant",
            "line 2.message.content: a message needs content"
        ]
    );
}

/// A session whose chain runs through progress lines.
fn chain() -> String {
    [
        user("1", "", "go"),
        said("2", "1", "m1", THINKING),
        said("3", "2", "m1", &call("t1")),
        progress("4", "3"),
        result("5", "4", "t1"),
        progress("6", "5"),
        said("7", "6", "m2", &text("ok")),
        user("8", "7", "more"),
        said("9", "8", "m3", THINKING),
        said("10", "9", "m3", &text("done")),
        user("11", "10", "bye"),
    ]
    .concat()
}

#[test]
fn a_fold_takes_the_lines_between_and_is_linked_in() {
    let session = parse(&chain(), Dialect::ClaudeCode);
    assert_eq!(session.messages.len(), 7);
    let window = render(&session, &[fold(&[(1, 3)])]);
    // The progress line inside is gone, the one after it is not.
    assert_eq!(
        links(&window, "uuid", "parentUuid"),
        pairs(&[
            ("1", "-"),
            ("fold", "1"),
            ("6", "fold"),
            ("7", "6"),
            ("8", "7"),
            ("9", "8"),
            ("10", "9"),
            ("11", "10")
        ])
    );
    check(
        &window,
        Dialect::ClaudeCode,
        &[
            "line 1 user: go",
            "line 2 user: F",
            "line 4 assistant: ok",
            "line 5 user: more",
            "line 6 assistant: (hm) + done",
            "line 8 user: bye",
        ],
    );
    let from_the_start = render(&session, &[fold(&[(0, 4)])]);
    assert_eq!(
        links(&from_the_start, "uuid", "parentUuid"),
        pairs(&[("fold", "-"), ("8", "fold"), ("9", "8"), ("10", "9"), ("11", "10")])
    );
}

#[test]
fn a_fold_in_two_pieces_leaves_what_is_between_them_in_the_chain() {
    let window = render(&parse(&chain(), Dialect::ClaudeCode), &[fold(&[(1, 4), (5, 6)])]);
    assert_eq!(
        links(&window, "uuid", "parentUuid"),
        pairs(&[("1", "-"), ("fold", "1"), ("8", "fold"), ("11", "8")])
    );
}

#[test]
fn a_line_of_thinking_is_taken_out_and_bridged() {
    let session = parse(&chain(), Dialect::ClaudeCode);
    let unthink = |message| remove(message, 0);
    let window = render(&session, &[unthink(1), unthink(5)]);
    assert_eq!(window.lines().count(), chain().lines().count() - 2);
    assert_eq!(
        links(&window, "uuid", "parentUuid"),
        pairs(&[
            ("1", "-"),
            ("3", "1"),
            ("4", "3"),
            ("5", "4"),
            ("6", "5"),
            ("7", "6"),
            ("8", "7"),
            ("10", "8"),
            ("11", "10")
        ])
    );
    let both = render(&session, &[fold(&[(1, 3)]), unthink(5)]);
    assert_eq!(
        links(&both, "uuid", "parentUuid"),
        pairs(&[
            ("1", "-"),
            ("fold", "1"),
            ("6", "fold"),
            ("7", "6"),
            ("8", "7"),
            ("10", "8"),
            ("11", "10")
        ])
    );
    // A fold after a line of thinking is linked to what is left before that.
    let lines = [
        user("1", "", "go"),
        said("2", "1", "m1", &text("ok")),
        said("3", "2", "m1", THINKING),
        said("4", "3", "m1", THINKING),
        user("5", "4", "on"),
        said("6", "5", "m2", &text("done")),
    ];
    let at = |part| remove(1, part);
    let after =
        render(&parse(&lines.concat(), Dialect::ClaudeCode), &[at(1), at(2), fold(&[(2, 3)])]);
    assert_eq!(
        links(&after, "uuid", "parentUuid"),
        pairs(&[("1", "-"), ("2", "1"), ("fold", "2"), ("6", "fold")])
    );
    // What stands before the fold does not lead to it.
    let before = render(&session, &[unthink(1), fold(&[(5, 6)])]);
    assert_eq!(
        links(&before, "uuid", "parentUuid"),
        pairs(&[
            ("1", "-"),
            ("3", "1"),
            ("4", "3"),
            ("5", "4"),
            ("6", "5"),
            ("7", "6"),
            ("8", "7"),
            ("fold", "8"),
            ("11", "fold")
        ])
    );
}

#[test]
fn a_circle_of_parents_has_an_end() {
    let lines = [user("1", "2", "a"), user("2", "1", "b"), user("3", "3", "c")].concat();
    render(&parse(&lines, Dialect::ClaudeCode), &[fold(&[(0, 2)])]);
}
