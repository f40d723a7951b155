//! Sessions of agents that keep them in a form of their own, and imports that are killed, repeated and watched.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::run::{FinishedRun, Folder};

const CODEX: &str = "0199aaaa-1111-7222-8333-444455556666";
const FORK: &str = "0199bbbb-1111-7222-8333-444455556666";

fn imported(folder: &Folder, options: &str) -> Vec<Value> {
    let run = folder.run_null(&format!("import --json {options}"));
    assert_eq!((run.status, run.stderr.as_str()), (0, ""), "{run:?}");
    run.json()["files"].as_array().unwrap().clone()
}

fn added(files: &[Value]) -> Vec<u64> {
    files.iter().map(|file| file["added"].as_u64().unwrap()).collect()
}

fn searched(folder: &Folder, words: &str) -> FinishedRun {
    let run = folder.run(&format!("search {words} --json"));
    assert_eq!(run.status, 0, "{run:?}");
    run
}

#[test]
fn the_event_log_of_copilot_is_read() {
    let event = |kind: &str, second: u64, data: Value| {
        let time = format!("2026-01-02T03:04:{second:02}.000Z");
        format!(
            "{}\n",
            json!({"type": kind, "data": data, "id": format!("e{second}"), "timestamp": time})
        )
    };
    let log = [
        event("session.start", 1, json!({"sessionId": "s1", "context": {"cwd": "/src/app"}})),
        event("hook.start", 2, json!({"input": {}})),
        event("user.message", 3, json!({"content": "Find the astrolabe."})),
        event(
            "assistant.message",
            4,
            json!({"content": "I look.", "toolRequests": [
            {"type": "function", "toolCallId": "c1", "name": "shell", "arguments": "{\"command\":\"ls\"}"}]}),
        ),
        event(
            "tool.execution_complete",
            5,
            json!({"toolCallId": "c1", "success": true, "result": {"content": "sextant.txt"}}),
        ),
        event(
            "session.compaction_complete",
            6,
            json!({"summaryContent": "A gimbal was summarised."}),
        ),
        event("assistant.message", 7, json!({"content": "There is none.", "toolRequests": []})),
    ];
    let file = ".copilot/session-state/11112222-3333-4444-8555-666677778888/events.jsonl";
    let folder = Folder::with(file, log.concat());
    let run = folder.run(&format!("count {file} --json"));
    assert_eq!((run.status, &run.json()["tools"][0]["name"]), (0, &json!("shell")), "{run:?}");
    assert_eq!(added(&imported(&folder, "")), [5]);
    assert_eq!(added(&imported(&folder, "")), [0]);
    let found = searched(&folder, "sextant");
    assert!(found.stdout.contains("2026-01-02T03:04:05"), "{found:?}");
    assert!(searched(&folder, "gimbal --agent copilot --project /src").stdout.contains("gimbal"));
    // The log grows.
    let more = event("user.message", 8, json!({"content": "Thanks."}));
    folder.write(file, log.concat() + &more + "{\"type\":\"user.mess");
    assert_eq!(added(&imported(&folder, "")), [1]);
    let run = folder.run_null("resume astrolabe");
    let command = "cd /src/app && copilot --resume 11112222-3333-4444-8555-666677778888\n";
    assert_eq!(run.stdout, command, "{run:?}");
    // Alone it is the same session.
    let run = folder.run(&format!("import {file}"));
    assert_eq!(run.status, 0, "{run:?}");
    assert!(folder.run("verify").stdout.contains("1 session"));
}

/// A database as opencode 1.18 makes it, with the tables that matter.
fn opencode(folder: &Folder) -> rusqlite::Connection {
    let path = folder.path("data/opencode/opencode.db");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let database = rusqlite::Connection::open(path).unwrap();
    database
        .execute_batch(
            "PRAGMA journal_mode = WAL;
             CREATE TABLE session (id text PRIMARY KEY, parent_id text, directory text NOT NULL, title text NOT NULL,
                time_created integer NOT NULL, time_updated integer NOT NULL);
             CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL,
                time_updated integer NOT NULL, data text NOT NULL);
             CREATE TABLE part (id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL,
                time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);",
        )
        .unwrap();
    database
}

fn add_message(
    database: &rusqlite::Connection,
    session: &str,
    at: i64,
    facts: &Value,
    parts: &[Value],
) {
    let id = format!("msg_{at:04}");
    let row = rusqlite::params![id, session, at, at, facts.to_string()];
    database.execute("INSERT OR REPLACE INTO message VALUES (?1, ?2, ?3, ?4, ?5)", row).unwrap();
    for (number, part) in parts.iter().enumerate() {
        let row = rusqlite::params![
            format!("prt_{at:04}_{number}"),
            id,
            session,
            at,
            at,
            part.to_string()
        ];
        database
            .execute("INSERT OR REPLACE INTO part VALUES (?1, ?2, ?3, ?4, ?5, ?6)", row)
            .unwrap();
    }
}

#[test]
fn the_database_of_opencode_is_read_while_the_agent_has_it_open() {
    let folder = Folder::new();
    let database = opencode(&folder);
    let session = |id: &str, parent: Option<&str>| {
        let row = rusqlite::params![id, parent, "/src/app", "A title", 1, 1];
        database.execute("INSERT INTO session VALUES (?1, ?2, ?3, ?4, ?5, ?6)", row).unwrap();
    };
    let (main, helper) = ("ses_e09e144f6ffe1234567890abcd", "ses_e09e144f6ffe1234567890wxyz");
    session(main, None);
    session(helper, Some(main));
    let text = |words: &str| json!({"type": "text", "text": words});
    let tool = json!({"type": "tool", "tool": "bash", "callID": "c1", "state": {"status": "completed",
        "input": {"command": "ls"}, "output": "sextant.txt", "time": {"start": 3, "end": 4}}});
    let done = json!({"role": "assistant", "time": {"created": 3, "completed": 5}, "finish": "tool-calls"});
    add_message(&database, main, 2, &json!({"role": "user"}), &[text("Find the astrolabe.")]);
    add_message(&database, main, 3, &done, &[json!({"type": "step-start"}), text("I look."), tool]);
    let summary = json!({"role": "assistant", "summary": true, "time": {"completed": 6}});
    add_message(&database, main, 6, &summary, &[text("A gimbal was summarised.")]);
    let open = json!({"role": "assistant", "time": {"created": 7}});
    add_message(&database, main, 7, &open, &[text("There")]);
    add_message(&database, helper, 4, &json!({"role": "user"}), &[text("Look for a quadrant.")]);

    let mut new = added(&imported(&folder, ""));
    new.sort_unstable();
    assert_eq!(new, [1, 4]);
    assert_eq!(added(&imported(&folder, "")), [0, 0]);
    // What was still being written comes when it is there.
    let done = json!({"role": "assistant", "time": {"created": 7, "completed": 9}});
    add_message(&database, main, 7, &done, &[text("There is none, says the cartographer.")]);
    database.execute("UPDATE message SET time_updated = 9 WHERE id = 'msg_0007'", []).unwrap();
    let mut new = added(&imported(&folder, ""));
    new.sort_unstable();
    assert_eq!(new, [0, 1]);
    for words in ["sextant", "gimbal", "cartographer --agent opencode"] {
        searched(&folder, words);
    }
    // The sub-agent is below its session.
    let listed = folder.run("ls --all --json").json();
    let conversations = listed.as_array().or_else(|| listed["items"].as_array()).unwrap().clone();
    assert_eq!(conversations.len(), 1, "{conversations:?}");
    let run = folder.run_null("resume quadrant");
    assert_eq!(run.stdout, format!("cd /src/app && opencode --session {main}\n"), "{run:?}");
    // A database of something else says what it has.
    let other = rusqlite::Connection::open(folder.path("other.db")).unwrap();
    other.execute_batch("CREATE TABLE lighthouse (id)").unwrap();
    let run = folder.run("import other.db");
    assert!(run.status == 2 && run.stderr.contains("lighthouse"), "{run:?}");
}

fn line(kind: &str, payload: &Value) -> String {
    format!("{}\n", json!({"timestamp": "2026-01-02T03:04:05Z", "type": kind, "payload": payload}))
}

fn said(role: &str, words: &str) -> String {
    let kind = if role == "user" { "input_text" } else { "output_text" };
    line(
        "response_item",
        &json!({"type": "message", "role": role, "content": [{"type": kind, "text": words}]}),
    )
}

fn rollout(id: &str) -> String {
    format!("2026/01/02/rollout-2026-01-02T03-04-05-{id}.jsonl")
}

#[test]
fn sessions_of_codex_are_whole_wherever_their_parts_are() {
    let meta = line("session_meta", &json!({"id": CODEX, "cwd": "/src"}));
    let base = meta + &said("user", "Chart the harbour.") + &said("assistant", "Charted.");
    let later = said("user", "This came after the fork.");
    let origin =
        json!({"thread_id": CODEX, "end_ordinal_exclusive": 3, "end_byte_offset": base.len()});
    let fork = line(
        "session_meta",
        &json!({"id": FORK, "cwd": "/src", "history_mode": "paginated",
        "history_base": origin}),
    ) + &said("user", "And the lighthouse.");
    let folder = Folder::new();
    folder.write(&format!(".codex/sessions/{}", rollout(CODEX)), base.clone() + &later);
    folder.write(&format!(".codex/sessions/{}", rollout(FORK)), &fork);
    // The same again, packed and put aside.
    let packed = zstd(&(base + &later));
    folder.write(&format!(".codex/archived_sessions/{}.zst", rollout(CODEX)), &packed);
    let mut new = added(&imported(&folder, ""));
    new.sort_unstable();
    assert_eq!(new, [3, 3]);
    let run = folder.run(&format!("export {FORK} --as markdown"));
    assert!(
        run.stdout.contains("Chart the harbour.") && !run.stdout.contains("after the fork"),
        "{run:?}"
    );
    let run = folder.run(&format!("compact --resume {FORK} --budget 500k"));
    assert!(run.status == 0 && run.stdout.contains(&format!("codex resume {FORK}")), "{run:?}");
    let counted = |id: &str| folder.count(&format!(".codex/sessions/{}", rollout(id)), "");
    assert!(counted(FORK) > counted(CODEX) / 2, "{} {}", counted(FORK), counted(CODEX));
    // Only the packed file is left.
    fs::remove_file(folder.path(&format!(".codex/sessions/{}", rollout(CODEX)))).unwrap();
    assert!(added(&imported(&folder, "")).iter().all(|new| *new == 0));
    let run = folder.run_null("resume after the fork");
    assert!(run.status == 2 && run.stderr.contains("archive"), "{run:?}");
    assert!(folder.run("verify").stdout.contains("2 sessions"));
}

/// A frame of zstd with one raw block.
fn zstd(text: &str) -> Vec<u8> {
    let size = u32::try_from(text.len()).unwrap();
    let block = (size << 3 | 1).to_le_bytes();
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0];
    frame.extend(size.to_le_bytes());
    frame.extend(&block[..3]);
    frame.extend(text.as_bytes());
    frame
}

#[test]
fn a_form_that_is_unknown_says_what_it_has() {
    let folder =
        Folder::with("new.jsonl", "{\"type\":\"astrolabe\",\"x\":1}\n{\"type\":\"sextant\"}\n");
    for command in ["count new.jsonl", "import new.jsonl"] {
        let run = folder.run(command);
        assert!(run.status == 2 && run.stderr.contains("astrolabe, sextant"), "{run:?}");
    }
}

/// Sessions of Claude Code with something different in each message.
fn many(folder: &Folder, files: usize, rounds: usize) {
    for file in 0..files {
        let id = format!("{file:08}-3333-4444-8555-666677778888");
        let mut text = String::new();
        for at in 0..rounds * 2 {
            let role = if at % 2 == 0 { "user" } else { "assistant" };
            let parent = if at == 0 { Value::Null } else { json!(format!("{id}-{}", at - 1)) };
            let words = format!("message {at} of {file} {}", "and so on ".repeat(40));
            let line = json!({"parentUuid": parent, "cwd": "/src", "sessionId": id, "type": role,
                "message": {"role": role, "content": words}, "uuid": format!("{id}-{at}"),
                "timestamp": "2026-01-02T03:04:05.000Z"});
            text.push_str(&format!("{line}\n"));
        }
        folder.write(&format!(".claude/projects/-src/{id}.jsonl"), text);
    }
}

#[test]
fn an_import_that_is_killed_loses_nothing_and_doubles_nothing() {
    let (files, rounds) = (24, 40);
    let folder = Folder::new();
    many(&folder, files, rounds);
    let mut killed = 0;
    for kill in 1..=6 {
        let mut child =
            folder.command("import").stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(kill * 70));
        killed += usize::from(child.try_wait().unwrap().is_none());
        let _ = child.kill();
        child.wait().unwrap();
    }
    assert!(killed > 0, "every import was done before it was killed");
    imported(&folder, "");
    let expected = format!("sound: {files} sessions, {} entries", grouped(files * rounds * 2));
    let run = folder.run("verify");
    assert!(run.stdout.starts_with(&expected), "{expected}: {run:?}");
    assert!(imported(&folder, "").iter().all(|file| file["outcome"] == "same"));
}

fn grouped(number: usize) -> String {
    format!("{},{:03}", number / 1_000, number % 1_000)
}

#[test]
fn a_watch_takes_what_comes_and_removes_nothing() {
    let folder = Folder::new();
    many(&folder, 1, 2);
    let mut child = folder.start("import --watch");
    let has = |words: &str| folder.run(&format!("search {words}")).status == 0;
    let until = |words: &str| {
        let begun = Instant::now();
        while !has(words) {
            assert!(begun.elapsed() < Duration::from_mins(1), "{words} never came");
            std::thread::sleep(Duration::from_millis(200));
        }
    };
    until("\"message 3 of 0\"");
    let file = ".claude/projects/-src/00000000-3333-4444-8555-666677778888.jsonl";
    many(&folder, 1, 3);
    until("\"message 5 of 0\"");
    fs::remove_file(folder.path(file)).unwrap();
    many(&folder, 2, 1);
    until("\"message 1 of 1\"");
    let _ = child.kill();
    child.wait().unwrap();
    assert!(has("\"message 5 of 0\""));
}
