//! Session files of agents: whole lines go or stay, and the chain between them holds.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::run::Folder;

/// A session file and how its lines are chained: the fields of a line's name and its parent's.
struct SessionFile {
    dialect: &'static str,
    links: Option<(&'static str, &'static str)>,
    lines: Vec<String>,
}

impl SessionFile {
    fn all(rounds: usize) -> [Self; 3] {
        [claude_code(rounds), codex(rounds), pi(rounds)]
    }

    fn text(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\n")).collect()
    }

    fn folder(&self) -> Folder {
        Folder::with("in.jsonl", self.text())
    }
}

fn log(round: usize) -> String {
    (1..=30).map(|line| format!("src/part_{round}.rs:{line}: \"warning\" naïve 🦀\n")).collect()
}

fn patch(round: usize) -> String {
    (1..=25).map(|line| format!("+let x{line} = {round};\n")).collect()
}

/// Lines of one block each, that share a message; progress runs through the chain.
fn claude_code(rounds: usize) -> SessionFile {
    let mut lines = vec![json!({"type": "summary", "summary": "Earlier", "leafUuid": "gone"})];
    let mut add = |kind: &str, message: Value, extra: Value| {
        let number = lines.len();
        let parent = if number == 1 { Value::Null } else { json!(format!("line-{}", number - 1)) };
        let mut line = json!({
            "parentUuid": parent, "isSidechain": false, "userType": "external", "cwd": "/work",
            "sessionId": "s-1", "version": "2.1.39", "type": kind,
        });
        if !message.is_null() {
            line["message"] = message;
        }
        for (key, value) in extra.as_object().unwrap() {
            line[key] = value.clone();
        }
        line["uuid"] = json!(format!("line-{number}"));
        lines.push(line);
    };
    for round in 1..=rounds {
        let said = |content: Value| {
            json!({"id": format!("msg_{round}"), "type": "message", "role": "assistant",
                "model": "claude-opus-4-6", "content": [content], "usage": {"output_tokens": 5}})
        };
        let result = |id: &str, content: &str| {
            json!({"role": "user", "content": [
                {"tool_use_id": format!("{id}{round}"), "type": "tool_result", "content": content}]})
        };
        add(
            "user",
            json!({"role": "user", "content": format!("Make test_{round} pass.")}),
            json!({}),
        );
        add(
            "assistant",
            said(json!({"type": "thinking", "thinking": "Hm.", "signature": "c2ln"})),
            json!({}),
        );
        add("assistant", said(json!({"type": "text", "text": "I will read it."})), json!({}));
        let input = json!({"file_path": format!("src/part_{round}.rs")});
        let call =
            json!({"type": "tool_use", "id": format!("r{round}"), "name": "Read", "input": input});
        add("assistant", said(call), json!({}));
        add("progress", Value::Null, json!({"data": {"type": "hook_progress"}, "toolUseID": "x"}));
        add("user", result("r", &log(round)), json!({"toolUseResult": {"numLines": 30}}));
        let input = json!({"file_path": format!("src/part_{round}.rs"), "content": patch(round)});
        let call =
            json!({"type": "tool_use", "id": format!("w{round}"), "name": "Write", "input": input});
        let wrote = json!({"id": format!("msg_{round}b"), "role": "assistant", "content": [call]});
        add("assistant", wrote, json!({}));
        add("user", result("w", "done"), json!({}));
        let done = json!([{"type": "text", "text": format!("test_{round} passes.")}]);
        let done = json!({"id": format!("msg_{round}c"), "role": "assistant", "content": done});
        add("assistant", done, json!({"requestId": format!("req_{round}")}));
    }
    add("user", json!({"role": "user", "content": "Thanks, and now the docs."}), json!({}));
    let lines = lines.iter().map(ToString::to_string).collect();
    SessionFile { dialect: "claude-code", links: Some(("uuid", "parentUuid")), lines }
}

fn codex(rounds: usize) -> SessionFile {
    let base = json!({"text": "You are Codex."});
    let mut lines = vec![
        json!({"timestamp": "t0", "type": "session_meta", "payload": {"id": "s-1", "cwd": "/work", "base_instructions": base}}),
        json!({"timestamp": "t1", "type": "turn_context", "payload": {"model": "gpt-5.1-codex", "cwd": "/work"}}),
    ];
    let mut add = |kind: &str, payload: Value| {
        let timestamp = format!("t{}", lines.len());
        lines.push(json!({"timestamp": timestamp, "type": kind, "payload": payload}));
    };
    for round in 1..=rounds {
        let (read, write) = (format!("r{round}"), format!("w{round}"));
        let ask = json!([{"type": "input_text", "text": format!("Make test_{round} pass.")}]);
        add("response_item", json!({"type": "message", "role": "user", "content": ask}));
        add("event_msg", json!({"type": "user_message", "message": "Make it pass."}));
        add(
            "response_item",
            json!({"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}),
        );
        add(
            "response_item",
            json!({"type": "function_call", "name": "shell", "arguments": "{\"command\":[\"make\"]}", "call_id": read}),
        );
        add(
            "response_item",
            json!({"type": "function_call_output", "call_id": read, "output": log(round)}),
        );
        add(
            "response_item",
            json!({"type": "custom_tool_call", "name": "apply_patch", "input": patch(round), "call_id": write, "status": "completed"}),
        );
        add(
            "response_item",
            json!({"type": "custom_tool_call_output", "call_id": write, "output": "Success."}),
        );
        add("event_msg", json!({"type": "token_count", "info": null}));
        let done = json!([{"type": "output_text", "text": format!("test_{round} passes.")}]);
        add("response_item", json!({"type": "message", "role": "assistant", "content": done}));
    }
    let ask = json!([{"type": "input_text", "text": "Thanks, and now the docs."}]);
    add("response_item", json!({"type": "message", "role": "user", "content": ask}));
    SessionFile {
        dialect: "codex",
        links: None,
        lines: lines.iter().map(ToString::to_string).collect(),
    }
}

/// A tree with a branch that was given up.
fn pi(rounds: usize) -> SessionFile {
    let mut lines = vec![
        json!({"type": "session", "version": 3, "id": "s-1", "timestamp": "t", "cwd": "/work"}),
    ];
    let mut parent = Value::Null;
    let mut add = |kind: &str, key: &str, value: Value, on_path: bool| {
        let id = format!("e{}", lines.len());
        let mut line = json!({"type": kind, "id": id, "parentId": parent, "timestamp": "t"});
        line[key] = value;
        if on_path {
            parent = json!(id);
        }
        lines.push(line);
    };
    add("model_change", "modelId", json!("claude-sonnet-4-5"), true);
    for round in 1..=rounds {
        let text = |text: &str| json!([{"type": "text", "text": text}]);
        let ask = format!("Make test_{round} pass.");
        add("message", "message", json!({"role": "user", "content": text(&ask)}), true);
        add(
            "message",
            "message",
            json!({"role": "assistant", "content": text("A dead end.")}),
            false,
        );
        let read = json!({"path": format!("src/part_{round}.rs")});
        let write = json!({"path": format!("src/part_{round}.rs"), "content": patch(round)});
        let calls = json!([
            {"type": "thinking", "thinking": "Hm.", "thinkingSignature": "c2ln"},
            {"type": "text", "text": "Both at once."},
            {"type": "toolCall", "id": format!("r{round}"), "name": "read", "arguments": read},
            {"type": "toolCall", "id": format!("w{round}"), "name": "write", "arguments": write},
        ]);
        add(
            "message",
            "message",
            json!({"role": "assistant", "content": calls, "stopReason": "toolUse"}),
            true,
        );
        for (call, said) in [("r", log(round)), ("w", "done".to_owned())] {
            let result = json!({"role": "toolResult", "toolCallId": format!("{call}{round}"),
                "toolName": "x", "content": text(&said), "isError": false});
            add("message", "message", result, true);
        }
        let done = text(&format!("test_{round} passes."));
        add("message", "message", json!({"role": "assistant", "content": done}), true);
    }
    let ask = json!([{"type": "text", "text": "Thanks, and now the docs."}]);
    add("message", "message", json!({"role": "user", "content": ask}), true);
    let lines = lines.iter().map(ToString::to_string).collect();
    SessionFile { dialect: "pi", links: Some(("id", "parentId")), lines }
}

#[test]
fn sessions_are_recognised_checked_and_counted() {
    for session in SessionFile::all(3) {
        let folder = session.folder();
        for options in [String::new(), format!("--dialect {}", session.dialect)] {
            let check = folder.run(&format!("check in.jsonl --json {options}")).json();
            assert_eq!(check["dialect"], session.dialect);
            assert_eq!((&check["valid"], &check["findings"]), (&json!(true), &json!([])));
            let count = folder.run(&format!("count in.jsonl --json {options}")).json();
            assert_eq!(count["dialect"], session.dialect);
            assert!(count["tokens"].as_u64().unwrap() > 1_000, "{count}");
            assert_eq!(count["messages"].as_array().unwrap().len(), check["messages"]);
        }
        let piped = folder.run_fed("check", session.text().as_bytes());
        assert_eq!(piped.status, 0, "{piped:?}");
    }
}

#[test]
fn a_session_that_fits_comes_out_as_it_went_in() {
    for session in SessionFile::all(3) {
        // Lines may be separated as their author liked.
        for text in
            [session.text(), session.lines.join("\r\n\r\n") + "\n", session.lines.join("\n")]
        {
            let folder = Folder::with("in.jsonl", &text);
            let run = folder.run("compact in.jsonl --budget 1m -o out");
            assert_eq!(run.status, 0, "{run:?}");
            assert!(folder.read("out") == text, "{}", session.dialect);
        }
    }
}

#[test]
fn lines_are_untouched_or_say_what_happened_to_them() {
    for session in SessionFile::all(12) {
        let folder = session.folder();
        for options in [
            "--budget 6000",
            "--budget 3000",
            "--budget 1200",
            "--budget 30",
            "--budget 5000 --policy elide",
            "--budget 2000 --policy trim",
        ] {
            let options = &format!("{options} --meter chars:3.5");
            let run = folder.run(&format!("compact in.jsonl {options} -o out --report report"));
            let what = format!("{} {options}: {run:?}", session.dialect);
            assert!([0, 3].contains(&run.status), "{what}");
            folder.assert_valid("out", "");
            let report = folder.json("report");
            assert_eq!(report["dialect"], session.dialect, "{what}");
            assert_eq!(
                report["after"]["tokens"],
                folder.count("out", "--meter chars:3.5"),
                "{what}"
            );
            check_lines(&session, &folder.read("out"), &what);
            let again = folder.run(&format!("compact out {options} -o again"));
            assert!(
                folder.read("again") == folder.read("out") || options.contains("trim"),
                "{what}, then {again:?}"
            );
        }
    }
}

/// Checks the lines of a window against those of its session.
fn check_lines(session: &SessionFile, window: &str, what: &str) {
    let is_ours = |line: &str| line.contains("[longhand ");
    let parent = session.links.map_or("", |(_, parent)| parent);
    let parse = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    let unlinked = |line: &str| {
        let mut line = parse(line);
        line.as_object_mut().unwrap().shift_remove(parent);
        // What was counted for a longer context no longer holds.
        if let Some(message) = line.get_mut("message").and_then(Value::as_object_mut) {
            message.shift_remove("usage");
        }
        line
    };
    let mut before: BTreeSet<_> = session.lines.iter().map(String::as_str).collect();
    let mut untouched = 0;
    for line in window.lines() {
        if before.remove(line) {
            untouched += 1;
        } else if !is_ours(line) {
            let old = session.lines.iter().find(|old| unlinked(old) == unlinked(line));
            assert!(old.is_some(), "{what}: {line}");
        }
    }
    assert!(untouched > 0, "{what}: {window}");
    // Its parent may be folded, so that it follows the block.
    let last = [window.lines().last(), session.lines.last().map(String::as_str)];
    assert_eq!(unlinked(last[0].unwrap()), unlinked(last[1].unwrap()), "{what}");
    if !what.contains("trim") {
        assert_eq!(window.lines().next(), session.lines.first().map(String::as_str), "{what}");
    }

    let Some((id, parent)) = session.links else { return };
    let lines: Vec<_> = window.lines().map(parse).collect();
    let ids: BTreeSet<_> = lines.iter().filter_map(|line| line[id].as_str()).collect();
    let parents: Vec<_> = lines.iter().filter_map(|line| line[parent].as_str()).collect();
    assert!(!parents.is_empty(), "{what}");
    for parent in parents {
        assert!(ids.contains(parent), "{what}: no line {parent}");
    }
}

#[test]
fn the_conversation_can_be_followed_from_its_last_line_to_its_first() {
    for session in SessionFile::all(12).into_iter().filter(|session| session.links.is_some()) {
        let (id, parent) = session.links.unwrap();
        let folder = session.folder();
        for budget in [30, 1_200, 3_000, 6_000] {
            folder.run(&format!("compact in.jsonl --budget {budget} -o out"));
            let window = folder.read("out");
            let lines: Vec<Value> =
                window.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let mut path = Vec::new();
            let mut next = lines.last();
            while let Some(line) = next {
                path.push(line.to_string());
                assert!(path.len() <= lines.len(), "the chain runs in a circle");
                next =
                    lines.iter().find(|other| other[id].is_string() && other[id] == line[parent]);
            }
            let said = path.join("\n");
            for wanted in ["Make test_1 pass.", "Thanks, and now the docs."] {
                // Where there is no room at all, the first message is told of by the block.
                if budget == 30 && wanted.contains("test_1") {
                    continue;
                }
                assert!(said.contains(wanted), "{} {budget}: {said}", session.dialect);
            }
            let marks = ["fold", "stub"].map(|mark| format!("[longhand {mark} "));
            for mark in marks.iter().filter(|mark| window.contains(*mark)) {
                assert!(said.contains(mark), "{} {budget}: {said}", session.dialect);
            }
        }
    }
}

#[test]
fn what_a_session_leaves_out_comes_back() {
    for session in SessionFile::all(12) {
        let folder = session.folder();
        for options in ["--budget 6000", "--budget 2000", "--budget 2000 --policy trim"] {
            let line = format!("compact in.jsonl {options} -o out --report report --archive kept");
            let run = folder.run(&line);
            assert_eq!(run.status, 0, "{run:?}");
            let report = folder.json("report");
            let entries =
                ["stubbed", "clipped", "folded"].map(|list| report[list].as_array().unwrap());
            for entry in entries.into_iter().flatten() {
                let handle = entry["handle"].as_str().unwrap();
                assert!(folder.read("out").contains(handle), "{entry}");
                let run = folder.run(&format!("expand {handle} --raw --archive kept"));
                assert_eq!(run.status, 0, "{run:?}");
                check_original(&session, entry, &run.stdout);
            }
        }
    }
}

/// Checks that expanded content is what the session had there.
fn check_original(session: &SessionFile, entry: &Value, content: &str) {
    if entry["messages"].is_array() {
        assert!(content.lines().count() >= entry["count"].as_u64().unwrap() as usize);
        for line in content.lines() {
            assert!(session.lines.iter().any(|other| other == line), "{}: {line}", session.dialect);
        }
        return;
    }
    let quoted = Value::from(content).to_string();
    let number: usize =
        entry["at"].as_str().unwrap().strip_prefix("line ").unwrap().parse().unwrap();
    // A message of Claude Code is spread over lines; it is named by its first.
    let near = &session.lines[number - 1..session.lines.len().min(number + 3)];
    let found = near.iter().any(|line| line.contains(&quoted) || line.contains(content));
    assert!(found, "{} {entry}: {content}", session.dialect);
}

#[test]
fn a_session_cut_off_in_the_middle_of_a_call_is_taken_as_it_is() {
    for session in SessionFile::all(8) {
        let cut = session.lines.len() - 5;
        let text: String = session.lines[..cut].iter().map(|line| format!("{line}\n")).collect();
        let folder = Folder::with("in.jsonl", text);
        let check = folder.run("check in.jsonl");
        assert_eq!(check.status, 0, "{} {check:?}", session.dialect);
        let run = folder.run("compact in.jsonl --budget 2500 -o out");
        assert_eq!(run.status, 0, "{} {run:?}", session.dialect);
        folder.assert_valid("out", "");
    }
}

#[test]
fn a_session_with_a_torn_last_line_is_named_by_it() {
    for session in SessionFile::all(2) {
        let text = session.text();
        let folder = Folder::with("in.jsonl", &text[..text.len() - 9]);
        let line = format!("line {}", session.lines.len());
        folder.run("compact in.jsonl --budget 900 -o out").assert_refused(&["in.jsonl", &line]);
        assert_eq!(folder.names(), ["in.jsonl"]);
    }
}

#[test]
fn a_session_is_imported_and_its_window_is_valid_in_every_format() {
    for session in SessionFile::all(6) {
        let folder = session.folder();
        // As if it had been broken off: the last call is never answered.
        let cut = session.lines.iter().rposition(|line| line.contains("part_5.rs:1:")).unwrap();
        let broken: String = session.lines[..cut].iter().map(|line| format!("{line}\n")).collect();
        folder.write("broken.jsonl", broken);
        for file in ["in", "broken"] {
            let run = folder.run(&format!("import {file}.jsonl --archive {file}.db"));
            assert_eq!(run.status, 0, "{} {file}: {run:?}", session.dialect);
            for dialect in ["chat", "responses", "anthropic"] {
                let line = format!(
                    "context {file} --archive {file}.db --dialect {dialect} --message next"
                );
                let window = folder.run(&line);
                assert_eq!(window.status, 0, "{} {file}: {window:?}", session.dialect);
                assert!(window.stdout.contains("part_4.rs:1:"), "{} {file}", session.dialect);
                folder.write("window.json", window.stdout);
                folder.assert_valid("window.json", &format!("--dialect {dialect}"));
            }
        }
    }
}
