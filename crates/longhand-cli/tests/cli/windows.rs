//! Windows as users meet them: made again and again, from odd conversations, without an archive.

use serde_json::{Value, json};

use crate::run::Folder;
use crate::story::{StoryFormat, story};

/// All handles that a text shows.
fn handles(text: &str) -> Vec<String> {
    let at = text.match_indices("h:").map(|(at, _)| at);
    let handles = at.filter_map(|at| text.get(at..at + 14)).filter(|handle| {
        handle[2..].bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    });
    let mut handles: Vec<String> = handles.map(str::to_owned).collect();
    handles.sort_unstable();
    handles.dedup();
    handles
}

/// Eight steps of an agent and a new order, as Anthropic messages.
fn steps(number: usize) -> Vec<Value> {
    let mut messages = Vec::new();
    for step in 0..8 {
        let id = format!("toolu_{number}_{step}");
        let path = format!("src/f{number}_{step}.rs");
        let body = format!("{path}: line of code that says something\n").repeat(20);
        messages.push(json!({"role": "assistant", "content": [
            {"type": "text", "text": format!("Step {step} of task {number}: I read {path}.")},
            {"type": "tool_use", "id": id, "name": "read", "input": {"path": path}},
        ]}));
        messages.push(json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": id, "content": body},
        ]}));
    }
    messages.push(json!({"role": "assistant", "content": format!("Task {number} is done.")}));
    messages.push(json!({"role": "user", "content": format!("Next: ticket TW-{number}.")}));
    messages
}

#[test]
fn a_window_that_is_compacted_again_and_again_has_one_block_and_keeps_fitting() {
    let folder = Folder::new();
    let mut messages =
        vec![json!({"role": "user", "content": "Fix the build. Never push to main."})];
    for number in 0..25 {
        messages.extend(steps(number));
        let request = json!({"max_tokens": 100, "system": "You code.", "messages": messages});
        folder.write("in.json", request.to_string());
        let run = folder.run("compact in.json --budget 8000 -o out.json");
        assert_eq!(run.status, 0, "{number}: {run:?}");
        folder.assert_valid("out.json", "");
        let window = folder.json("out.json");
        let blocks = window.to_string().matches("[longhand fold ").count();
        assert!(blocks <= 1, "{number}: {blocks} blocks");
        assert!(window.to_string().contains("Never push to main."), "{number}");
        for handle in handles(&window["messages"].to_string()) {
            // Handles of earlier windows open from the files that those were made from.
            let is_new = !folder.read("in.json").contains(&handle);
            let opened = folder.run(&format!("expand {handle} --raw --from in.json"));
            assert!(opened.status == 0 || !is_new, "{number} {handle}: {opened:?}");
        }
        messages = window["messages"].as_array().unwrap().clone();
    }
}

#[test]
fn a_tool_that_returns_its_arguments_keeps_both_originals() {
    let body = json!({"a": "x".repeat(3_000)}).to_string();
    let call =
        json!([{"id": "c1", "type": "function", "function": {"name": "echo", "arguments": body}}]);
    let request = json!([
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": null, "tool_calls": call},
        {"role": "tool", "tool_call_id": "c1", "content": body},
        {"role": "assistant", "content": "fine ".repeat(100)},
        {"role": "user", "content": "b"}, {"role": "assistant", "content": "c"},
        {"role": "user", "content": "d"}, {"role": "assistant", "content": "e"},
    ]);
    let folder = Folder::with("in.json", request.to_string());
    let run = folder.run("compact in.json --budget 300 --archive a.db -o out.json --report r.json");
    assert_eq!(run.status, 0, "{run:?}");
    let stubbed = folder.json("r.json")["stubbed"].as_array().unwrap().len();
    assert!(stubbed >= 2, "{run:?}");
    for handle in handles(&folder.read("out.json")) {
        for place in ["--archive a.db", "--from in.json"] {
            let opened = folder.run(&format!("expand {handle} --raw {place}"));
            assert_eq!(opened.status, 0, "{opened:?}");
        }
    }
}

#[test]
fn auto_fits_a_chat_of_long_pastes_whenever_another_policy_does() {
    let mut messages = Vec::new();
    for number in 0..8 {
        let paste = format!("paste {number} lorem ipsum dolor ").repeat(300);
        messages.push(json!({"role": "user", "content": paste}));
        messages.push(json!({"role": "assistant", "content": "noted"}));
    }
    messages.push(json!({"role": "user", "content": "so?"}));
    let folder = Folder::with("in.json", Value::Array(messages).to_string());
    for budget in [12_000, 6_000, 3_000, 1_000, 300, 120] {
        let run = folder.run(&format!("compact in.json --budget {budget} -o out.json"));
        assert_eq!(run.status, 0, "{budget}: {run:?}");
        assert!(folder.count("out.json", "") <= budget);
        folder.assert_valid("out.json", "");
    }
}

#[test]
fn an_archive_that_does_not_exist_yet_is_refused_by_name() {
    let folder = Folder::with("in.json", story(StoryFormat::Chat, 6));
    for line in [
        "compact in.json --budget 2000 --archive mysql://localhost/x -o out.json",
        "ls --archive mysql://localhost/x",
        "record demo --archive mysql://localhost/x",
        "context demo --archive mysql://localhost/x",
    ] {
        folder.run(line).assert_refused(&["mysql://localhost/x"]);
    }
    assert_eq!(folder.names(), ["in.json"], "nothing was created");
}

#[test]
fn a_conversation_that_grows_is_found_again_and_stays_as_it_was() {
    for format in StoryFormat::ALL {
        let folder = Folder::new();
        let mut last = String::new();
        let mut batches = 0;
        for rounds in 2..14 {
            folder.write(
                "in.json",
                story(format, rounds).replace("And now finish it, please.", "Go on."),
            );
            let run = folder
                .run("compact in.json --budget 6000 --target 2500 --archive a.db -o out.json");
            assert_eq!(run.status, 0, "{format:?} {rounds}: {run:?}");
            folder.assert_valid("out.json", "");
            let listed = folder.run("ls --archive a.db --json").json();
            let sessions = listed.as_array().unwrap();
            assert_eq!(sessions.len(), 1, "{format:?}: one conversation is one session");
            let made: u64 = sessions[0]["batches"].as_u64().unwrap();
            // The newest message differs from one request to the next, since it is not answered yet.
            let window = folder.read("out.json");
            let shared =
                window.bytes().zip(last.bytes()).take_while(|(one, two)| one == two).count();
            let end = last.rfind("Go on.").unwrap_or(0);
            assert!(made > batches || shared + 60 >= end, "{format:?} {rounds}: {shared} of {end}");
            (last, batches) = (window, made);
        }
        assert!(batches >= 1, "{format:?}");
    }
}

#[test]
fn bound_thinking_is_left_to_a_provider_that_can_drop_it() {
    let mut messages = vec![json!({"role": "user", "content": "go"})];
    for step in 0..12 {
        let id = format!("t{step}");
        messages.push(json!({"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
            {"type": "tool_use", "id": id, "name": "f", "input": {}},
        ]}));
        messages.push(json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": id, "content": "word ".repeat(200)},
        ]}));
    }
    let request = json!({"model": "claude-opus-5-5", "max_tokens": 100,
        "thinking": {"type": "adaptive"}, "messages": messages});
    let folder = Folder::with("in.json", request.to_string());
    let run = folder.run("compact in.json --budget 2500 -o out.json");
    assert_eq!(run.status, 0, "{run:?}");
    assert!(folder.read("out.json").contains("prefix_mismatch_behavior"), "{run:?}");
    assert!(run.stderr.contains("anthropic-beta: thinking-binding-controls-2026-08-01"), "{run:?}");
}
