//! Session files where agents keep them: shortened into new sessions, mended, imported.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::run::Folder;

const ID: &str = "11112222-3333-4444-8555-666677778888";

/// A session of Claude Code with rounds of a long result each.
fn session(rounds: usize) -> String {
    let mut text = String::new();
    let mut parent = Value::Null;
    let mut add = |kind: &str, message: Value| {
        let uuid = format!("line-{}", text.lines().count());
        let time = format!("2026-01-02T03:{:02}:00.000Z", text.lines().count() % 60);
        let line = json!({"parentUuid": parent, "isSidechain": false, "cwd": "/src/my project", "sessionId": ID,
            "version": "2.1.39", "type": kind, "message": message, "uuid": uuid, "timestamp": time});
        text.push_str(&format!("{line}\n"));
        parent = json!(uuid);
    };
    for round in 0..rounds {
        let said = |content: Value| {
            json!({"id": format!("msg_{round}"), "role": "assistant", "model": "claude-opus-4-6",
                "content": [content], "usage": {"input_tokens": 20_000 + round * 900, "output_tokens": 50}})
        };
        add("user", json!({"role": "user", "content": format!("Make test_{round} pass.")}));
        add(
            "assistant",
            said(json!({"type": "tool_use", "id": format!("t{round}"), "name": "Bash",
            "input": {"command": "make test"}})),
        );
        let log: String =
            (0..60).map(|line| format!("src/part_{round}.rs:{line}: expected value\n")).collect();
        add(
            "user",
            json!({"role": "user",
            "content": [{"type": "tool_result", "tool_use_id": format!("t{round}"), "content": log}]}),
        );
    }
    add("user", json!({"role": "user", "content": "Thanks, and now the docs."}));
    text
}

fn kept_by_claude(rounds: usize) -> (Folder, String) {
    let file = format!(".claude/projects/-work/{ID}.jsonl");
    (Folder::with(&file, session(rounds)), file)
}

fn session_files(folder: &Folder) -> Vec<String> {
    let entries = fs::read_dir(folder.path(".claude/projects/-work")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_session_is_shortened_into_a_new_one_and_the_old_one_stays() {
    let (folder, file) = kept_by_claude(40);
    let (named, newest) = (format!("count --quiet {file}"), "count --quiet claude@last");
    assert_eq!(folder.run(newest).stdout, folder.run(&named).stdout);
    folder.run("check codex@last").assert_refused(&["codex has no session files"]);
    let run = folder.run("compact --resume claude@last --budget 25k");
    assert_eq!(run.status, 0, "{run:?}");
    assert_eq!(folder.read(&file), session(40));
    let new = run.stdout.trim().strip_prefix("cd '/src/my project' && claude --resume ").unwrap();
    assert_eq!(session_files(&folder).len(), 2);
    let text = folder.read(&format!(".claude/projects/-work/{new}.jsonl"));
    let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!((&first["subtype"], &first["sessionId"]), (&json!("compact_boundary"), &json!(new)));
    assert!(text.lines().count() < 60 && text.contains("now the docs"), "{}", text.lines().count());
    // What is left out is found in the old file, as the fold says.
    let handle = &text[text.find("h:").unwrap()..][..14];
    assert!(text.contains("longhand expand --from"), "{text}");
    let run = folder.run(&format!("expand --from {file} {handle}"));
    assert!(run.status == 0 && run.stdout.contains("Make test_"), "{run:?}");
    // By the beginning of its id, and where it fits already.
    let run = folder.run("compact --resume 11112222 --budget 900k");
    assert!(run.status == 0 && run.stdout.ends_with(&format!("claude --resume {ID}\n")), "{run:?}");
    assert_eq!(session_files(&folder).len(), 2);
    folder.run("compact --resume codex@last").assert_refused(&["codex has no session files"]);
    folder.run("compact --resume ffffffff").assert_refused(&["claude@last"]);
}

#[test]
fn a_session_is_replaced_with_a_copy_kept() {
    let (folder, file) = kept_by_claude(40);
    let run = folder.run(&format!("compact --resume {ID} --replace --budget 25k"));
    assert_eq!(run.status, 0, "{run:?}");
    assert_eq!(folder.read(&format!("{file}.orig")), session(40));
    assert!(run.stdout.ends_with(&format!("claude --resume {ID}\n")), "{run:?}");
    assert!(folder.read(&file).len() < session(40).len() / 2);
}

#[test]
fn before_and_after_are_one_count() {
    let (folder, file) = kept_by_claude(40);
    let run = folder.run(&format!("compact {file} --budget 32k -o out.jsonl --report report.json"));
    assert_eq!(run.status, 0, "{run:?}");
    let report = folder.json("report.json");
    let tokens = |at: &str| report[at]["tokens"].as_u64().unwrap();
    assert!(tokens("before") > 45_000 && tokens("after") <= 32_000, "{report}");
    assert_eq!(folder.count(&file, ""), tokens("before"));
    // The system prompt and the tools are in both: 20,000 tokens were counted for the first, short question.
    let run = folder.run(&format!("count {file} --json"));
    assert!((19_900..20_000).contains(&run.json()["attributes"].as_u64().unwrap()), "{run:?}");
}

#[test]
fn a_damaged_session_is_shown_and_mended() {
    let (folder, file) = kept_by_claude(3);
    let damaged =
        session(3).replace("\"parentUuid\":\"line-2\"", "\"parentUuid\":\"gone\"") + "{\"cut";
    folder.write(&file, &damaged);
    let run = folder.run("repair claude@last --dry-run");
    assert!(
        run.status == 1 && run.stdout.contains("line 4: its parent is not in the file"),
        "{run:?}"
    );
    for words in
        ["as it was: the agent does not load 3 lines", "mended: the agent loads all messages"]
    {
        assert!(run.stdout.contains(words), "{words}: {run:?}");
    }
    assert_eq!(folder.read(&file), damaged);
    let run = folder.run("repair claude@last");
    assert!(run.status == 0 && run.stdout.contains("2 faults"), "{run:?}");
    assert_eq!(folder.read(&file), session(3));
    assert_eq!(folder.read(&format!("{file}.orig")), damaged);
    let run = folder.run("repair claude@last");
    assert!(run.status == 0 && run.stdout.contains("has no fault"), "{run:?}");
}

#[test]
fn what_agents_keep_is_imported_once_and_grows() {
    let (folder, file) = kept_by_claude(3);
    let sub = format!(".claude/projects/-work/{ID}/subagents/agent-1.jsonl");
    folder.write(&sub, session(1).replace("\"isSidechain\":false", "\"isSidechain\":true"));
    let import = |options: &str| {
        let run = folder.run_null(&format!("import --json {options}"));
        assert_eq!(run.status, 0, "{run:?}");
        let files = run.json()["files"].as_array().unwrap().clone();
        let of = |path: &Path| {
            let found = files.iter().find(|file| Path::new(file["file"].as_str().unwrap()) == path);
            let found = found.unwrap();
            (found["outcome"].as_str().unwrap().to_owned(), found["added"].as_u64().unwrap())
        };
        (of(&folder.path(&file)), of(&folder.path(&sub)))
    };
    let outcome = |name: &str, added: u64| (name.to_owned(), added);
    assert_eq!(import("--dry-run"), (outcome("new", 0), outcome("new", 0)));
    assert_eq!(import(""), (outcome("new", 10), outcome("new", 4)));
    assert_eq!(import(""), (outcome("same", 0), outcome("same", 0)));
    // It grows by two rounds, the last line of which is still being written.
    let longer = session(5);
    let grown = longer.replace(&longer[longer.trim_end().rfind('\n').unwrap() + 1..], "{\"parent");
    folder.write(&file, &grown);
    assert_eq!(import("").0.0, "grown");
    let run = folder.run("search part_4 --json");
    assert!(run.stdout.contains("2026-01-02T03:1"), "the time is that of the message: {run:?}");
    let run = folder.run("verify");
    assert!(run.status == 0 && run.stdout.contains("2 sessions"), "{run:?}");
    // A file that is gone removes nothing.
    fs::remove_file(folder.path(&sub)).unwrap();
    assert_eq!(folder.run_null("import --json").status, 0);
    assert!(folder.run("verify").stdout.contains("2 sessions"));
}

#[test]
fn count_tells_servers_repeats_and_what_a_compaction_cost() {
    let mut text = String::new();
    let mut parent = Value::Null;
    let mut number = 0;
    let mut add = |kind: &str, more: Value| {
        let mut line = json!({"parentUuid": parent, "isSidechain": false, "cwd": "/src", "sessionId": ID,
            "type": kind, "uuid": format!("line-{number}"), "timestamp": "2026-01-02T03:04:05.000Z"});
        line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        number += 1;
        text.push_str(&format!("{line}\n"));
        parent = line["uuid"].clone();
    };
    let answer = |id: &str, name: &str, path: &str| {
        json!({"message": {"id": format!("m-{id}"), "role": "assistant", "content": [
            {"type": "tool_use", "id": id, "name": name, "input": {"path": path}}]}})
    };
    let result = |id: &str, words: &str| {
        json!({"message": {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": id, "content": words.repeat(40)}]}})
    };
    add("user", json!({"message": {"role": "user", "content": "Read it."}}));
    add("assistant", answer("t1", "Read", "a.rs"));
    add("user", result("t1", "a line of a.rs\n"));
    add("assistant", answer("t2", "Read", "b.rs"));
    add("user", result("t2", "a line of b.rs\n"));
    add(
        "system",
        json!({"subtype": "compact_boundary", "parentUuid": null, "compactMetadata": {"trigger": "auto"}}),
    );
    add(
        "user",
        json!({"isCompactSummary": true, "isVisibleInTranscriptOnly": true,
        "message": {"role": "user", "content": "Two files were read."}}),
    );
    for (id, name) in [("t3", "Read"), ("t4", "mcp__charts__find"), ("t5", "mcp__charts__find")] {
        add("assistant", answer(id, name, "a.rs"));
        add("user", result(id, "a line of a.rs\n"));
    }
    let folder = Folder::with("session.jsonl", text);
    let report = folder.run("count session.jsonl --json").json();
    assert_eq!(report["servers"][0]["name"], "charts", "{report}");
    assert_eq!(
        (&report["servers"][0]["calls"], &report["repeated"]["results"]),
        (&json!(2), &json!(2))
    );
    let compacted = &report["session"]["compacted"];
    assert_eq!(
        (compacted.as_array().unwrap().len(), &compacted[0]["summary_words"]),
        (1, &json!(4))
    );
    assert_eq!(compacted[0]["calls_again"], 1, "{report}");
    assert!(
        compacted[0]["tokens_before"].as_u64().unwrap()
            > compacted[0]["summary_tokens"].as_u64().unwrap()
    );
    let handle = report["largest"][0]["handle"].as_str().unwrap();
    let run = folder.run(&format!("expand --from session.jsonl {handle}"));
    assert!(run.status == 0 && run.stdout.contains("a line of a.rs"), "{run:?}");
    let run = folder.run("count session.jsonl");
    for words in [
        "servers of MCP",
        "repeated",
        "compaction 1: ",
        "(4 words); after it 1 call was made again",
    ] {
        assert!(run.stdout.contains(words), "{words}: {run:?}");
    }
}
