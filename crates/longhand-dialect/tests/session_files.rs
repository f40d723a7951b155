//! Session files of Claude Code, Codex and pi: which lines are the conversation, and what an edit does
//! to the others.

use std::fmt::Write as _;
use std::path::PathBuf;

use longhand_core::{Edit, Handle, Message, Part, Place, Role};
use longhand_dialect::{Conversation, Dialect, DialectError, read};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

fn parse(lines: &str, dialect: Dialect) -> Conversation {
    let read = read(lines.as_bytes().to_vec(), None);
    let conversation = read.unwrap_or_else(|error| panic!("{error}: {lines}"));
    assert_eq!(conversation.dialect, dialect);
    assert_eq!(conversation.apply(&[]), lines);
    conversation
}

/// Prints one line per message: where it stands, who speaks, and its parts.
fn show(conversation: &Conversation) -> String {
    let mut out = String::new();
    for (at, message) in conversation.messages.iter().enumerate() {
        let parts: Vec<String> = message.parts.iter().map(shown).collect();
        let (name, role) = (conversation.name_of(at), message.role.as_str());
        let _ = writeln!(out, "{name} {role}: {}", parts.join(" + "));
    }
    out
}

fn shown(part: &Part) -> String {
    match part {
        Part::Text(text) => text.decode().into_owned(),
        Part::Thinking(thinking) => format!("({})", thinking.text.decode()),
        Part::Image(image) => format!("image {:?}", image.pixels),
        Part::File(_) => "file".to_owned(),
        Part::Call(call) => format!("{}={}", call.id.decode(), call.name.decode()),
        Part::Result(result) => {
            let content: Vec<String> = result.content.iter().map(shown).collect();
            let mark = if result.error { "!" } else { "" };
            format!("{}->{mark}{}", result.call.decode(), content.join(","))
        }
        Part::Other(raw) => format!("<{}>", raw.raw().chars().take(24).collect::<String>()),
    }
}

fn check(lines: &str, dialect: Dialect, expected: &[&str]) {
    let conversation = parse(lines, dialect);
    let found = show(&conversation);
    assert_eq!(found.lines().collect::<Vec<_>>(), expected, "\n{found}");
    assert!(conversation.check().iter().all(|finding| !finding.grave));
}

fn fold(messages: &[(usize, usize)]) -> Edit {
    let messages = messages.iter().map(|(start, end)| *start..*end).collect();
    Edit::Fold { messages, handle: Handle::of(["x"]), text: "F".to_owned() }
}

/// The name that a fold's line goes by.
const FOLD: &str = "683a6268-7430-3367-3763-346271656c6f";

/// What links a window's lines: name and parent of each.
fn links(window: &str, id: &str, parent: &str) -> Vec<(String, String)> {
    let lines = window.lines().filter(|line| !line.is_empty());
    let lines = lines.map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let text = |value: &serde_json::Value| match value.as_str() {
        Some(FOLD) => "fold".to_owned(),
        Some(name) => name.to_owned(),
        None => "-".to_owned(),
    };
    lines
        .filter(|line| line[id].is_string())
        .map(|line| (text(&line[id]), text(&line[parent])))
        .collect()
}

fn pairs<'p>(pairs: &[(&'p str, &'p str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

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
    let own: Vec<&str> = lines.lines().filter(|line| line.contains("\"m1\"")).collect();
    assert_eq!(own.len(), 5);
    assert!(own.iter().all(|line| raw.contains(line)), "all its lines: {raw}");
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
    let window = parse(&lines, Dialect::ClaudeCode).apply(&[fold(&[(0, 2)])]);
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
    let window = session.apply(&[fold(&[(1, 3)])]);
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
    let from_the_start = session.apply(&[fold(&[(0, 4)])]);
    assert_eq!(
        links(&from_the_start, "uuid", "parentUuid"),
        pairs(&[("fold", "-"), ("8", "fold"), ("9", "8"), ("10", "9"), ("11", "10")])
    );
}

#[test]
fn a_fold_in_two_pieces_leaves_what_is_between_them_in_the_chain() {
    let window = parse(&chain(), Dialect::ClaudeCode).apply(&[fold(&[(1, 4), (5, 6)])]);
    assert_eq!(
        links(&window, "uuid", "parentUuid"),
        pairs(&[("1", "-"), ("fold", "1"), ("8", "fold"), ("11", "8")])
    );
}

#[test]
fn a_line_of_thinking_is_taken_out_and_bridged() {
    let session = parse(&chain(), Dialect::ClaudeCode);
    let unthink = |message| Edit::Unthink { at: Place { message, part: 0 } };
    let window = session.apply(&[unthink(1), unthink(5)]);
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
    let both = session.apply(&[fold(&[(1, 3)]), unthink(5)]);
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
    let at = |part| Edit::Unthink { at: Place { message: 1, part } };
    let after = parse(&lines.concat(), Dialect::ClaudeCode).apply(&[at(1), at(2), fold(&[(2, 3)])]);
    assert_eq!(
        links(&after, "uuid", "parentUuid"),
        pairs(&[("1", "-"), ("2", "1"), ("fold", "2"), ("6", "fold")])
    );
    // What stands before the fold does not lead to it.
    let before = session.apply(&[unthink(1), fold(&[(5, 6)])]);
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
    "line 12 tool: c3-><{\"content\":\"three\",\"succ>",
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

/// One line of pi; `id` is empty in early files.
fn entry(id: &str, parent: &str, kind: &str, more: &str) -> String {
    let parent = if parent.is_empty() { "null".to_owned() } else { format!("\"{parent}\"") };
    let links =
        if id.is_empty() { String::new() } else { format!(r#""id":"{id}","parentId":{parent},"#) };
    format!("{{\"type\":\"{kind}\",{links}\"timestamp\":\"t\",{more}}}\n")
}

fn message(id: &str, parent: &str, message: &str) -> String {
    entry(id, parent, "message", &format!(r#""message":{message}"#))
}

#[rustfmt::skip]
const PI_MESSAGES: [&str; 7] = [
    r#"{"role":"user","content":"go"}"#,
    r#"{"role":"assistant","content":[{"type":"thinking","thinking":"hm","thinkingSignature":"s"},{"type":"text","text":"on it"},{"type":"toolCall","id":"t1","name":"bash","arguments":{"command":"ls"}}],"stopReason":"toolUse"}"#,
    r#"{"role":"toolResult","toolCallId":"t1","toolName":"bash","content":[{"type":"text","text":"one"},{"type":"image","data":"R0lGODlhAQACAIAAAAAAAP///ywAAAAAAQACAAACAkQKADs=","mimeType":"image/gif"}],"isError":true}"#,
    r#"{"role":"assistant","content":[],"stopReason":"aborted"}"#,
    r#"{"role":"bashExecution","command":"ls","output":"x","exitCode":0}"#,
    r#"{"role":"bashExecution","command":"env","output":"secret","excludeFromContext":true}"#,
    r#"{"role":"user","content":[{"type":"text","text":"bye"},{"type":"hologram"}]}"#,
];

#[test]
fn an_early_pi_session_is_a_list() {
    let header =
        "{\"type\":\"session\",\"id\":\"s\",\"provider\":\"anthropic\",\"modelId\":\"m\"}\n"
            .to_owned();
    let messages: Vec<String> = PI_MESSAGES.iter().map(|json| message("", "", json)).collect();
    let compaction = entry("", "", "compaction", r#""summary":"what was","firstKeptEntryIndex":1"#);
    let change = entry("", "", "thinking_level_change", r#""thinkingLevel":"high""#);
    let lines =
        [header, messages[..3].concat(), compaction, change, messages[3..].concat()].concat();
    check(
        &lines,
        Dialect::Pi,
        &[
            "line 2 user: go",
            "line 3 assistant: (hm) + on it + t1=bash",
            "line 4 tool: t1->!one,image Some((1, 2))",
            "line 8 user: <{\"role\":\"bashExecution\",>",
            "line 10 user: bye + <{\"type\":\"hologram\"}>",
        ],
    );
    assert_eq!(parse(&lines, Dialect::Pi).check(), []);
    // A name that is no string makes no tree of it, and neither does a fold.
    let odd = lines.replace("\"timestamp\":", "\"id\":7,\"timestamp\":");
    let window = parse(&odd, Dialect::Pi).apply(&[fold(&[(0, 1)])]);
    assert_eq!(parse(&window, Dialect::Pi).messages.len(), 5, "{window}");
}

/// A tree: a, b, then a branch c, d that was left for e, f.
fn tree(header: bool) -> String {
    let header = if header { "{\"type\":\"session\",\"version\":3,\"id\":\"s\"}\n" } else { "" };
    [
        header.to_owned(),
        message("a", "", PI_MESSAGES[0]),
        message(
            "b",
            "a",
            r#"{"role":"assistant","content":[{"type":"text","text":"which way?"}]}"#,
        ),
        message("c", "b", r#"{"role":"user","content":"left"}"#),
        message("d", "c", r#"{"role":"assistant","content":[{"type":"text","text":"a wall"}]}"#),
        entry("e", "b", "branch_summary", r#""fromId":"d","summary":"left is a wall""#),
        message("f", "e", r#"{"role":"user","content":"right"}"#),
        entry(
            "g",
            "f",
            "custom_message",
            r#""customType":"x","content":[{"type":"text","text":"a note"}],"display":true"#,
        ),
        message("h", "g", r#"{"role":"assistant","content":[{"type":"text","text":"a door"}]}"#),
        entry("i", "h", "compaction", r#""summary":"what was","firstKeptEntryId":"f""#),
        entry("j", "i", "label", r#""targetId":"h","label":"here""#),
    ]
    .concat()
}

#[test]
fn a_later_pi_session_is_the_path_to_its_last_leaf() {
    check(
        &tree(true),
        Dialect::Pi,
        &[
            "line 2 user: go",
            "line 3 assistant: which way?",
            "line 6 user: left is a wall",
            "line 7 user: right",
            "line 8 user: a note",
            "line 9 assistant: a door",
        ],
    );
    let headless = parse(&tree(false), Dialect::Pi);
    assert_eq!(headless.messages.len(), 6);
    // A line without a name, such as one of tomorrow, is no leaf.
    let more = tree(true) + "{\"type\":\"tomorrow\"}\n";
    assert_eq!(parse(&more, Dialect::Pi).messages.len(), 6);
}

#[test]
fn folds_leave_a_pi_session_on_one_path() {
    let session = parse(&tree(true), Dialect::Pi);
    let window = session.apply(&[fold(&[(1, 4)])]);
    // The branch that was left goes with the lines it stands among.
    assert_eq!(
        links(&window, "id", "parentId"),
        pairs(&[
            ("s", "-"),
            ("a", "-"),
            ("fold", "a"),
            ("g", "fold"),
            ("h", "g"),
            ("i", "h"),
            ("j", "i")
        ])
    );
    check(
        &window,
        Dialect::Pi,
        &["line 2 user: go", "line 3 user: F", "line 4 user: a note", "line 5 assistant: a door"],
    );
    let window = session.apply(&[fold(&[(1, 2), (4, 5)])]);
    check(
        &window,
        Dialect::Pi,
        &[
            "line 2 user: go",
            "line 3 user: F",
            "line 6 user: left is a wall",
            "line 7 user: right",
            "line 8 assistant: a door",
        ],
    );
}

/// A leaf d after a branch x that was left.
fn left_branch() -> String {
    let says = |id: &str, parent: &str, role: &str| {
        let content = format!(r#"{{"role":"{role}","content":[{{"type":"text","text":"{id}"}}]}}"#);
        message(id, parent, &content)
    };
    [
        "{\"type\":\"session\",\"version\":3,\"id\":\"s\"}\n".to_owned(),
        says("a", "", "user"),
        says("b", "a", "assistant"),
        says("c", "b", "user"),
        says("x", "c", "assistant"),
        says("d", "c", "assistant"),
    ]
    .concat()
}

#[test]
fn a_branch_that_was_left_stays_so_when_the_leaf_is_folded() {
    let session = parse(&left_branch(), Dialect::Pi);
    let window = session.apply(&[fold(&[(1, 2), (3, 4)])]);
    let kept = ["line 2 user: a", "line 3 user: F", "line 4 user: c"];
    check(&window, Dialect::Pi, &kept);
    let links = links(&window, "id", "parentId");
    assert_eq!(
        links[..5],
        pairs(&[("s", "-"), ("a", "-"), ("fold", "a"), ("c", "fold"), ("x", "c")])
    );
    assert_eq!(links[5].1, "c", "{window}");
    assert!(window.ends_with("}\n"), "{window}");
    // Once is enough.
    let again = parse(&window, Dialect::Pi);
    assert_eq!(again.check(), []);
    assert_eq!(again.apply(&[fold(&[(1, 2)])]).lines().count(), window.lines().count());
    // Where all after it goes, the fold is the leaf.
    let window = session.apply(&[fold(&[(1, 4)])]);
    check(&window, Dialect::Pi, &["line 2 user: a", "line 3 user: F"]);
    assert_eq!(window.lines().count(), 3);
}

#[test]
fn two_lines_of_one_name_are_found() {
    let lines = left_branch().replace(r#""id":"x""#, r#""id":"b""#);
    let findings = parse(&lines, Dialect::Pi).check();
    assert_eq!(findings.len(), 1);
    assert!(findings[0].grave);
    assert_eq!(findings[0].to_string(), "line 5.id: the id \"b\" is used in line 3 already");
}

#[test]
fn a_parent_that_stands_after_its_child_is_none() {
    let lines = [
        "{\"type\":\"session\",\"id\":\"s\"}\n".to_owned(),
        message("a", "b", PI_MESSAGES[0]),
        message("b", "a", PI_MESSAGES[0]),
        message("c", "b", PI_MESSAGES[0]),
    ]
    .concat();
    let window = parse(&lines, Dialect::Pi).apply(&[fold(&[(0, 1)])]);
    check(&window, Dialect::Pi, &["line 2 user: F", "line 3 user: go", "line 4 user: go"]);
    let window = parse(&lines, Dialect::Pi).apply(&[fold(&[(1, 2)])]);
    assert_eq!(
        links(&window, "id", "parentId"),
        pairs(&[("s", "-"), ("a", "-"), ("fold", "a"), ("c", "fold")])
    );
    let window = parse(&lines, Dialect::Pi).apply(&[fold(&[(0, 2)])]);
    assert_eq!(
        links(&window, "id", "parentId"),
        pairs(&[("s", "-"), ("fold", "-"), ("c", "fold")])
    );
}

#[test]
fn a_circle_of_parents_has_an_end() {
    let lines = [
        "{\"type\":\"session\",\"id\":\"s\"}\n".to_owned(),
        message("a", "b", PI_MESSAGES[0]),
        message("b", "a", PI_MESSAGES[0]),
    ]
    .concat();
    let session = parse(&lines, Dialect::Pi);
    assert!(session.messages.len() <= 3);
    session.apply(&[fold(&[(0, 1)])]);
    let lines = [user("1", "2", "a"), user("2", "1", "b"), user("3", "3", "c")].concat();
    parse(&lines, Dialect::ClaudeCode).apply(&[fold(&[(0, 2)])]);
}

/// The third-party files that are measured against, where they are at hand.
fn shared() -> Option<PathBuf> {
    let near = || concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared").into();
    let path = std::env::var_os("LONGHAND_SHARED").map_or_else(near, PathBuf::from);
    path.join("data/formats").is_dir().then_some(path)
}

#[test]
fn real_files_have_the_messages_that_are_known_of_them() {
    let Some(shared) = shared() else {
        eprintln!("no shared data here: real session files are not read");
        return;
    };
    let manifest = std::fs::read(shared.join("data/traces/MANIFEST.json")).unwrap();
    let manifest: Vec<serde_json::Value> = serde_json::from_slice(&manifest).unwrap();
    for (file, dialect, trace) in [
        ("claude-code/spotter-ae4a77f8.jsonl", Dialect::ClaudeCode, "cc-spotter-ae4a77f8"),
        (
            "claude-code/claude-code-viewer-5c0375b4.jsonl",
            Dialect::ClaudeCode,
            "cc-claude-code-viewer-5c0375b4",
        ),
        ("pi/large-session.jsonl", Dialect::Pi, "pi-large-session"),
        ("codex/agent-sessions-small.jsonl", Dialect::Codex, "codex-agent-sessions-small"),
    ] {
        let bytes = std::fs::read_to_string(shared.join("data/formats").join(file)).unwrap();
        let session = parse(&bytes, dialect);
        let known =
            manifest.iter().find(|entry| entry["file"] == format!("traces/{trace}.json")).unwrap();
        let known = |role: &str| known["roles"][role].as_u64().unwrap() as usize;
        let count =
            |is: &dyn Fn(&Message) -> bool| session.messages.iter().filter(|m| is(m)).count();
        assert_eq!(count(&Message::is_user_turn), known("user"), "{file}");
        assert!(session.check().iter().all(|finding| !finding.grave), "{file}");
        if dialect == Dialect::Codex {
            // The trace has only some of its items, joined.
            continue;
        }
        let results: usize = session.messages.iter().map(|message| message.results().count()).sum();
        assert_eq!(results, known("tool"), "{file}");
        // The trace leaves out a reply whose only call was never answered.
        let replies = count(&|message| message.role == Role::Assistant);
        assert!(
            (known("assistant")..=known("assistant") + 1).contains(&replies),
            "{file}: {replies}"
        );
    }
    let side =
        std::fs::read(shared.join("data/formats/claude-code/spotter-ae4a77f8-acompact.jsonl"));
    assert_eq!(read(side.unwrap(), None).unwrap().messages.len(), 2, "all of it is side chain");
    let other = std::fs::read(shared.join("data/formats/copilot/agent-sessions-small.jsonl"));
    assert!(matches!(read(other.unwrap(), None), Err(DialectError::NotAConversation(_))));
}
