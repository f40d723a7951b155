//! The application layer answers other programs as the command answers with `--json`.

use std::sync::Arc;

use longhand::app::App;
use longhand::archive::{Page, RequestRecord};
use longhand::{Archive, SqliteArchive};
use longhand_testkit::scripted::{ScriptStep, ScriptedServer};
use serde_json::{Value, json};

use crate::run::Folder;
use crate::serve::ServedProxy;

#[allow(dead_code, reason = "its main is for whoever runs the example")]
#[path = "../../../longhand/examples/binding.rs"]
mod binding;
#[allow(dead_code, reason = "its main is for whoever runs the example")]
#[path = "../../../longhand/examples/console.rs"]
mod console;

const HOSTILE: &str = "<script>alert('x')</script>\u{1b}[2J\u{202e}";

/// Sessions of which one is folded, and one has hostile words.
fn folder() -> Folder {
    let folder = Folder::new();
    let round = |at: usize| {
        let words = "A plain sentence about the work of that day. ".repeat(20);
        json!({"user": format!("Question {at} about src/part{at}.rs"), "assistant": words,
            "ts": "2026-11-15T10:00:00Z"})
    };
    let rounds: String = (0..12).map(|at| format!("{}\n", round(at))).collect();
    let run = folder.run_fed("record demo --archive a.db --policy rolling", rounds.as_bytes());
    assert_eq!(run.status, 0, "{run:?}");
    let hostile = json!({"user": format!("Question {HOSTILE}"), "assistant": HOSTILE,
        "ts": "2026-11-16T10:00:00Z"});
    let run = folder.run_fed("record <b>odd</b> --archive a.db", hostile.to_string().as_bytes());
    assert_eq!(run.status, 0, "{run:?}");
    folder
}

fn app(folder: &Folder) -> App {
    App::new(Arc::new(SqliteArchive::open(folder.path("a.db")).unwrap()))
}

#[test]
fn a_binding_returns_what_the_command_prints_as_json() {
    let (folder, copy) = (folder(), folder());
    let printed = |words: &str| folder.run(&format!("{words} --archive a.db --json")).json();
    for (call, words) in [
        (json!({"call": "list", "all": true}), "ls --all"),
        (
            json!({"call": "search", "query": "question", "role": "user"}),
            "search question --role user",
        ),
        (
            json!({"call": "search", "query": "part3", "session": "dem", "limit": 1}),
            "search part3 --session demo --limit 1",
        ),
        (json!({"call": "show", "session": "demo"}), "show demo"),
        (json!({"call": "log", "session": "demo"}), "log demo"),
    ] {
        let answer = binding::answer(&app(&folder), &call.to_string());
        let answer = if call["call"] == "list" { answer["items"].clone() } else { answer };
        assert!(!answer.as_array().is_some_and(Vec::is_empty), "{call}");
        assert_eq!(answer, printed(words), "{call}");
    }
    // What changes something is done once in each of two equal archives.
    let pin = json!({"call": "pin", "session": "demo", "entry": 2});
    assert_eq!(binding::answer(&app(&copy), &pin.to_string()), printed("pin demo 2"));
    let undo =
        binding::answer(&app(&copy), &json!({"call": "undo", "session": "demo"}).to_string());
    let printed_undo = printed("undo demo");
    for key in ["number", "undone", "stubs", "clips", "folded"] {
        assert_eq!(undo["undone"][key], printed_undo["undone"][key], "{key}");
    }
    assert_eq!(
        (&undo["undone"]["number"], &undo["session"]),
        (&json!(2), &printed_undo["session"])
    );
    let export = json!({"call": "export", "session": "demo"}).to_string();
    let exported = binding::answer(&app(&folder), &export);
    assert_eq!(exported["lines"], folder.run("export demo --archive a.db").stdout);
    assert_eq!(exported["report"]["entries"], 24);
}

#[test]
fn a_binding_is_told_what_was_wrong() {
    let folder = folder();
    let answer = |call: Value| binding::answer(&app(&folder), &call.to_string());
    let unknown = answer(json!({"call": "undo", "session": "dem"}));
    assert_eq!(
        (&unknown["error"], &unknown["candidates"][0]["name"]),
        (&json!("unknown_session"), &json!("demo"))
    );
    assert!(unknown["hint"].as_str().unwrap().contains("whole name"), "{unknown}");
    for (call, kind) in [
        (json!({"call": "pin", "session": "demo", "entry": 999}), "no_such_entry"),
        (json!({"call": "search", "query": "\" "}), "empty_query"),
        (json!({"call": "list", "after": "soon"}), "bad_page"),
        (json!({"call": "fly"}), "bad_call"),
    ] {
        assert_eq!(answer(call.clone())["error"], kind, "{call}");
    }
    assert_eq!(binding::answer(&app(&folder), "{")["error"], "bad_call");
}

#[test]
fn pages_of_sessions_make_up_the_list() {
    let folder = folder();
    let all = folder.run("ls --archive a.db --json").json();
    let mut call = json!({"call": "list", "limit": 1});
    let mut seen = Vec::new();
    loop {
        let page = binding::answer(&app(&folder), &call.to_string());
        seen.extend(page["items"].as_array().unwrap().clone());
        assert_eq!(page["items"].as_array().unwrap().len(), 1);
        if page["next"].is_null() {
            break;
        }
        call["after"] = page["next"].clone();
    }
    assert_eq!(Value::Array(seen), all);
    let one = folder.run("ls --archive a.db --limit 1").stdout;
    assert!(one.contains("(there are older conversations; --limit 0 lists all)"), "{one}");
    assert_eq!(folder.run("ls --archive a.db --limit 0").stdout.lines().count(), 2);
}

#[test]
fn a_console_shows_the_same_and_no_hostile_text_gets_through() {
    let folder = folder();
    let page = console::page(&app(&folder), "question").unwrap();
    assert!(!page.contains("<script>") && !page.contains("<b>"), "{page}");
    for session in folder.run("ls --archive a.db --json").json().as_array().unwrap() {
        let id = format!("<li data-id=\"{}\">", session["id"].as_str().unwrap());
        assert!(page.contains(&id), "{page}");
    }
    let found = folder.run("search question --archive a.db --json").json();
    assert_eq!(page.matches("<li>").count(), found.as_array().unwrap().len(), "{page}");
    let shown = folder.run("show @last --archive a.db --json").json();
    let map = &shown["map"];
    assert!(
        page.contains(&format!("{} verbatim, {} free</p>", map["verbatim"], map["free"])),
        "{page}"
    );
}

#[test]
fn hints_can_be_typed_as_they_stand_and_lists_say_only_what_is_known() {
    let folder = folder();
    let id = longhand::SessionId::named(longhand::Owner::LOCAL, "demo");
    let archive = SqliteArchive::open(folder.path("a.db")).unwrap();
    // A title that an agent asked for is no measure of the conversation.
    let title = RequestRecord { is_aside: true, ..RequestRecord::default() };
    archive.log_request(id, &title).unwrap();
    drop(archive);
    let listed = folder.run("ls --archive a.db").stdout;
    assert!(listed.contains(" bytes ") && !listed.contains("0 of 0"), "{listed}");
    let hint = "`longhand export demo --archive a.db` keeps a copy";
    folder.run("rm demo --archive a.db").assert_refused(&[hint]);
    folder.run("pin demo 99 --archive a.db").assert_refused(&[" --session demo --archive a.db`"]);
    folder.run("expand h:odd --archive none.db").assert_refused(&["is not a handle"]);
    let one = folder.run("verify demo --archive a.db").stdout;
    assert_eq!(one, "sound: 1 session, 24 entries\n");
}

#[test]
fn receipts_have_the_same_keys_whoever_wrote_them() {
    let folder = folder();
    let said = |by: &str, at: usize| {
        let role = if at.is_multiple_of(2) { "user" } else { "assistant" };
        json!({"role": role, "content": format!("{by} {at}: {}", "a word about the work ".repeat(40))})
    };
    let request = |by: &str| {
        let messages: Vec<Value> = (0..41).map(|at| said(by, at)).collect();
        json!({"model": "gpt-4o", "messages": messages})
    };
    folder.write("in.json", request("a file").to_string());
    let run = folder.run("compact in.json --budget 2000 -o out --archive a.db");
    assert_eq!(run.status, 0, "{run:?}");
    let server = ScriptedServer::start([ScriptStep::Answer("Done.".to_owned())]);
    let options = format!("--upstream {} --budget 3000", server.url());
    let proxy = ServedProxy::start(&folder, &options);
    proxy.post("/v1/chat/completions", &request("an agent"));
    proxy.end();
    let archive = SqliteArchive::open(folder.path("a.db")).unwrap();
    let mut seen = Vec::new();
    for info in archive.sessions(None, Page::ALL).unwrap().items {
        for batch in archive.batches(info.id, Page::ALL).unwrap().items {
            let receipt: Value = serde_json::from_str(&batch.receipt).unwrap();
            let keys: Vec<String> = receipt.as_object().unwrap().keys().cloned().collect();
            assert!(receipt["tokens_after"].is_u64() && receipt["why"] == "budget", "{receipt}");
            seen.push((info.name.clone(), keys));
        }
    }
    let names: std::collections::BTreeSet<&str> =
        seen.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names.len(), 3, "a session, a file and the proxy: {names:?}");
    assert!(seen.iter().all(|(_, keys)| *keys == seen[0].1), "{seen:?}");
}
