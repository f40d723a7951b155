//! One conversation is one session, whatever key it was sent with and however it came into the archive.

use std::process::Command;

use longhand_testkit::scripted::{ScriptStep, ScriptedServer};
use serde_json::{Value, json};

use crate::run::Folder;

/// A program that posts a file with a key, to where the variables say.
const POST: &str = r#"#!/bin/bash
set -e
base=${OPENAI_BASE_URL%/}
test "$3" = /messages && base=${ANTHROPIC_BASE_URL%/}/v1
address=${base#http://}
host=${address%%/*}
path=/${address#*/}$3
body=$(cat "$1")
exec 3<>"/dev/tcp/${host%%:*}/${host##*:}"
printf 'POST %s HTTP/1.1\r\nhost: %s\r\nauthorization: Bearer %s\r\ncontent-type: application/json\r\ncontent-length: %s\r\nconnection: close\r\n\r\n%s' "$path" "$host" "$2" "$(printf %s "$body" | wc -c)" "$body" >&3
cat <&3 | tail -n 1
"#;

fn folder() -> Folder {
    let folder = Folder::with("agent", POST);
    let made = Command::new("chmod").arg("+x").arg(folder.path("agent")).status();
    assert!(made.unwrap().success());
    folder
}

/// A conversation of so many rounds, with answers as the server gives them.
fn messages(rounds: usize) -> Vec<Value> {
    let question = |at: usize| json!({"role": "user", "content": format!("Question {at}?")});
    let answer = |at: usize| json!({"role": "assistant", "content": format!("Answer {at}.")});
    (0..rounds).flat_map(|at| [question(at), answer(at)]).collect()
}

fn answers(count: usize) -> ScriptedServer {
    ScriptedServer::start((0..count).map(|number| ScriptStep::Answer(format!("Answer {number}."))))
}

fn sessions(folder: &Folder) -> Vec<Value> {
    let listed = folder.run("ls --all --archive a.db --json").json();
    listed.as_array().unwrap().clone()
}

#[test]
fn a_run_is_the_local_user_s_whatever_its_keys_and_an_import_adds_what_is_new() {
    let (server, folder) = (answers(3), folder());
    for (turn, key) in ["sk-ant-oat01-one", "sk-proj-two", "anything"].into_iter().enumerate() {
        let mut all = messages(turn + 1);
        all.pop();
        folder.write("in.json", json!({"model": "gpt-4o", "messages": all}).to_string());
        let upstream = server.url();
        let command = format!("./agent in.json {key} /chat/completions");
        let run = folder.run(&format!("run --archive a.db --upstream {upstream} -- {command}"));
        assert!(run.stdout.contains(&format!("Answer {turn}.")), "{run:?}");
    }
    let listed = sessions(&folder);
    assert_eq!(listed.len(), 1, "{listed:?}");
    // A file with all of it, and one that went on elsewhere.
    for (rounds, expected) in [(3, "nothing to import"), (5, "imported 4 entries"), (5, "nothing")]
    {
        folder.write(
            "kept.json",
            json!({"model": "gpt-4o", "messages": messages(rounds)}).to_string(),
        );
        let run = folder.run("import kept.json --archive a.db");
        assert!(run.status == 0 && run.stdout.contains(expected), "{rounds}: {run:?}");
        assert_eq!(sessions(&folder).len(), 1, "{rounds}");
    }
    let shown = folder.run("export @last --archive a.db").stdout;
    for at in 0..5 {
        assert_eq!(shown.matches(&format!("Answer {at}.")).count(), 1, "{shown}");
    }
    // What is named otherwise is wanted otherwise.
    assert_eq!(folder.run("import kept.json --id copy --archive a.db").status, 0);
    assert_eq!(sessions(&folder).len(), 2);
}

#[test]
fn an_agent_s_own_file_of_a_session_that_went_through_the_proxy_is_known() {
    let (server, folder) = (answers(2), folder());
    let id = "0b5e4c1e-77a1-4c2e-9d51-0123456789ab";
    let long = "a long answer about the work that was done ".repeat(4);
    let line = |at: usize, role: &str, content: Value| {
        let parent = at.checked_sub(1).map(|at| format!("m{at}"));
        json!({"type": role, "uuid": format!("m{at}"), "parentUuid": parent, "sessionId": id,
            "isSidechain": false, "timestamp": "2026-11-17T10:00:00.000Z",
            "message": {"role": role, "id": format!("msg_{at}"), "content": content}})
    };
    for turn in 0..2 {
        let mut all = messages(turn + 1);
        all.pop();
        // On the wire there is more than in the file.
        all[0]["content"] = json!([
            {"type": "text", "text": "<system-reminder>Be kind.</system-reminder>"},
            {"type": "text", "text": "Question 0?"}]);
        let request = json!({"model": "claude-sonnet-4", "max_tokens": 99, "messages": all,
            "metadata": {"user_id": format!("user_1_account_2_session_{id}")}});
        folder.write("in.json", request.to_string());
        let command = format!("./agent in.json sk-ant-oat01-{turn} /messages");
        let run =
            folder.run(&format!("run --archive a.db --upstream {} -- {command}", server.url()));
        assert!(run.stdout.contains(&format!("Answer {turn}.")), "{run:?}");
    }
    assert_eq!(sessions(&folder).len(), 1);
    let mut lines = vec![
        line(0, "user", json!("Question 0?")),
        line(1, "assistant", json!([{"type": "text", "text": "Answer 0."}])),
        line(2, "user", json!("Question 1?")),
        line(3, "assistant", json!([{"type": "text", "text": "Answer 1."}])),
    ];
    let file = |lines: &[Value]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    folder.write(&format!("{id}.jsonl"), file(&lines));
    let import = format!("import {id}.jsonl --archive a.db");
    let run = folder.run(&import);
    assert!(run.status == 0 && run.stdout.contains("nothing to import"), "{run:?}");
    // It went on without the proxy: what is new is kept, in the same session.
    lines.push(line(4, "user", json!("And then?")));
    lines.push(line(5, "assistant", json!([{"type": "text", "text": long}])));
    folder.write(&format!("{id}.jsonl"), file(&lines));
    let run = folder.run(&import);
    assert!(run.status == 0 && run.stdout.contains("imported 2 entries"), "{run:?}");
    assert_eq!(sessions(&folder).len(), 1);
    assert!(folder.run("search then --archive a.db").stdout.contains("And then?"));
    let run = folder.run(&import);
    assert!(run.status == 0 && run.stdout.contains("nothing to import"), "{run:?}");
}

#[test]
fn a_file_that_is_imported_again_adds_nothing_whatever_messages_it_has() {
    let folder = Folder::new();
    let message = |role: &str, content: &str| json!({"role": role, "content": content});
    let mut all = vec![
        message("system", "sysalpha"),
        message("user", "one"),
        message("assistant", "first"),
        message("system", "bravo"),
        message("user", "two"),
        message("developer", "charlie"),
        message("assistant", "second"),
        message("user", "unanswered"),
    ];
    folder.write("mid.json", json!({"model": "gpt-4o", "messages": all}).to_string());
    let run = folder.run("import mid.json --archive a.db");
    assert!(run.stdout.contains("7 entries"), "{run:?}");
    assert!(run.stdout.contains("the system prompt is not imported"), "{run:?}");
    for _ in 0..2 {
        let run = folder.run("import mid.json --archive a.db");
        assert!(run.stdout.contains("nothing to import"), "{run:?}");
    }
    all.push(message("assistant", "third"));
    folder.write("mid.json", json!({"model": "gpt-4o", "messages": all}).to_string());
    let run = folder.run("import mid.json --archive a.db");
    assert!(run.stdout.contains("imported 1 entry"), "{run:?}");
    let exported = folder.run("export mid --archive a.db").stdout;
    for word in ["one", "first", "bravo", "two", "charlie", "second", "unanswered", "third"] {
        let lines = exported.lines().filter(|line| line.starts_with("{\"entry\""));
        let found = lines.filter(|line| line.contains(&format!("\\\"{word}\\\""))).count();
        assert_eq!(found, 1, "{word}: {exported}");
    }
}

#[test]
fn results_that_a_client_sends_together_are_the_same_conversation() {
    let (server, folder) = (answers(1), folder());
    let calls = json!([{"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a"}},
        {"type": "tool_use", "id": "t2", "name": "read", "input": {"path": "b"}}]);
    let result = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": "found"});
    let id = "0b5e4c1e-77a1-4c2e-9d51-0123456789ac";
    let request = json!({"model": "claude-sonnet-4", "max_tokens": 99, "messages": [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": calls},
        {"role": "user", "content": [result("t1"), result("t2")]}],
        "metadata": {"user_id": format!("user_1_account_2_session_{id}")}});
    folder.write("in.json", request.to_string());
    let command =
        format!("run --archive a.db --upstream {} -- ./agent in.json k /messages", server.url());
    assert!(folder.run(&command).stdout.contains("Answer 0."));
    let line = |at: usize, role: &str, content: Value| {
        let parent = at.checked_sub(1).map(|at| format!("m{at}"));
        json!({"type": role, "uuid": format!("m{at}"), "parentUuid": parent, "sessionId": id,
            "isSidechain": false, "timestamp": "2026-11-17T10:00:00.000Z",
            "message": {"role": role, "id": format!("msg_{at}"), "content": content}})
    };
    // The agent keeps each result in a line of its own.
    let lines = [
        line(0, "user", json!("Look.")),
        line(1, "assistant", calls),
        line(2, "user", json!([result("t1")])),
        line(3, "user", json!([result("t2")])),
        line(4, "assistant", json!([{"type": "text", "text": "Answer 0."}])),
    ];
    folder.write(&format!("{id}.jsonl"), lines.map(|line| format!("{line}\n")).concat());
    let run = folder.run(&format!("import {id}.jsonl --archive a.db"));
    assert!(run.status == 0 && run.stdout.contains("nothing to import"), "{run:?}");
    assert_eq!(sessions(&folder).len(), 1);
}
