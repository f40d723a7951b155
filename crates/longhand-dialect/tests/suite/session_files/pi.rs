//! pi: a list in early files, a tree in later ones.

use longhand_dialect::Dialect;

use super::common::{check, fold, links, pairs, parse, render};

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
    let window = render(&parse(&odd, Dialect::Pi), &[fold(&[(0, 1)])]);
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
    let window = render(&session, &[fold(&[(1, 4)])]);
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
    let window = render(&session, &[fold(&[(1, 2), (4, 5)])]);
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
    let window = render(&session, &[fold(&[(1, 2), (3, 4)])]);
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
    assert_eq!(render(&again, &[fold(&[(1, 2)])]).lines().count(), window.lines().count());
    // Where all after it goes, the fold is the leaf.
    let window = render(&session, &[fold(&[(1, 4)])]);
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
    let window = render(&parse(&lines, Dialect::Pi), &[fold(&[(0, 1)])]);
    check(&window, Dialect::Pi, &["line 2 user: F", "line 3 user: go", "line 4 user: go"]);
    let window = render(&parse(&lines, Dialect::Pi), &[fold(&[(1, 2)])]);
    assert_eq!(
        links(&window, "id", "parentId"),
        pairs(&[("s", "-"), ("a", "-"), ("fold", "a"), ("c", "fold")])
    );
    let window = render(&parse(&lines, Dialect::Pi), &[fold(&[(0, 2)])]);
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
    render(&session, &[fold(&[(0, 1)])]);
}
