//! `longhand mcp`, spoken with as clients do.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout};

use serde_json::{Value, json};

use crate::run::Folder;

/// A client of a server that runs.
struct McpClient {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    asked: u64,
}

impl McpClient {
    fn start(folder: &Folder, options: &str) -> Self {
        let mut child = folder.start(&format!("mcp --archive a.db {options}"));
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut client = Self { child, input, output, asked: 0 };
        let hello = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        });
        let answer = client.ask("initialize", &hello);
        assert_eq!(answer["result"]["serverInfo"]["name"], "longhand", "{answer}");
        client.tell(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn tell(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        let id = self.asked;
        self.tell(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the server ended");
            let answer: Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == id {
                return answer;
            }
        }
    }

    /// The text of a tool's answer, and whether it is an error.
    fn call(&mut self, tool: &str, arguments: &Value) -> (String, bool) {
        let answer = self.ask("tools/call", &json!({"name": tool, "arguments": arguments}));
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
        (text.to_owned(), result["isError"] == true)
    }

    /// Ends it as clients do: they close its input.
    fn end(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
    }
}

/// An archive with a session of this folder and two of others.
fn folder() -> Folder {
    let folder = Folder::new();
    let own = folder.path("").display().to_string();
    for (name, project, words) in [
        ("own", own.as_str(), "The port of the parser is 4141."),
        ("other", "/somewhere/else", "The port of the lexer is 5151."),
    ] {
        let line = |role: &str, text: &str, parent: Option<&str>, id: &str| {
            json!({
                "type": role, "uuid": id, "parentUuid": parent, "sessionId": name, "cwd": project,
                "version": "2.0.0", "timestamp": "2026-11-15T19:29:00.000Z",
                "message": {"role": role, "content": text},
            })
        };
        let asked = line("user", "What is the port?", None, "a1");
        let said = line("assistant", words, Some("a1"), "a2");
        folder.write(&format!("{name}.jsonl"), format!("{asked}\n{said}\n"));
        let run = folder.run(&format!("import {name}.jsonl --id {name} --archive a.db"));
        assert_eq!(run.status, 0, "{run:?}");
    }
    folder
}

#[test]
fn a_client_searches_and_reads_the_sessions_of_its_project() {
    let folder = folder();
    let mut client = McpClient::start(&folder, "");
    let tools = client.ask("tools/list", &json!({}));
    let names: Vec<&str> = tools["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["search", "read", "sessions"]);
    let (found, _) = client.call("search", &json!({"query": "port of the parser"}));
    assert!(found.contains("> The port of the parser is 4141."), "{found}");
    let handle = found.split(' ').next().unwrap();
    let (read, _) = client.call("read", &json!({"handle": handle}));
    assert!(read.contains("4141"), "{read}");
    let (grepped, _) = client.call("read", &json!({"handle": "own", "grep": "4141"}));
    assert!(grepped.contains("4141") && !grepped.contains("What is"), "{grepped}");
    let (listed, _) = client.call("sessions", &json!({}));
    assert!(listed.contains(" own claude-code,") && !listed.contains(" other "), "{listed}");
    let resources = client.ask("resources/list", &json!({}));
    let uri = &resources["result"]["resources"][0]["uri"];
    let resource = client.ask("resources/read", &json!({"uri": uri}));
    assert!(resource["result"]["contents"][0]["text"].as_str().unwrap().contains("4141"));
    let prompt = client.ask("prompts/get", &json!({"name": "resume", "arguments": {}}));
    let text = prompt["result"]["messages"][0]["content"]["text"].as_str().unwrap();
    assert!(text.contains("4141") && !text.contains("5151"), "{text}");
    client.end();
}

#[test]
fn nothing_is_seen_beyond_the_scope() {
    let folder = folder();
    let all = folder.run("search lexer --archive a.db --json").json();
    let foreign = all[0]["handle"].as_str().unwrap().to_owned();
    for options in ["", "--session own", "--project ."] {
        let mut client = McpClient::start(&folder, options);
        for (tool, arguments) in [
            ("read", json!({"handle": foreign})),
            ("read", json!({"handle": "other"})),
            ("search", json!({"query": "port", "session": "other"})),
            ("pin", json!({"handle": foreign})),
            ("read", json!({})),
            ("nothing", json!({})),
        ] {
            let (text, is_error) = client.call(tool, &arguments);
            assert!(is_error && !text.contains("5151"), "{options} {tool} {arguments}: {text}");
        }
        let (found, _) = client.call("search", &json!({"query": "lexer port 5151"}));
        assert!(!found.contains("5151"), "{options}: {found}");
        let hostile = "\"(* AND NEAR OR ".repeat(700);
        let (_, is_error) = client.call("search", &json!({"query": hostile}));
        assert!(!is_error);
        client.end();
    }
    let mut client = McpClient::start(&folder, "--scope all --write");
    assert!(client.call("search", &json!({"query": "lexer"})).0.contains("5151"));
    let (pinned, is_error) = client.call("pin", &json!({"handle": foreign}));
    assert!(!is_error, "{pinned}");
    client.end();
    assert!(folder.run("export other --archive a.db").stdout.contains("pins"), "it is pinned");
}

#[test]
fn a_client_without_an_archive_is_told_what_makes_one() {
    let folder = Folder::new();
    let mut client = McpClient::start(&folder, "");
    let (text, is_error) = client.call("search", &json!({"query": "port"}));
    assert!(is_error && text.contains("no archive") && text.contains("longhand run"), "{text}");
    assert!(!folder.path("a.db").exists());
    client.end();
    for both in
        ["--scope all --project .", "--scope all --session own", "--project . --session own"]
    {
        let run = folder.run(&format!("mcp {both} --archive a.db"));
        assert!(run.status == 2 && run.stderr.contains("cannot be used with"), "{both}: {run:?}");
    }
    let run = folder.run("mcp --scope session --archive a.db");
    assert!(run.status == 2 && run.stderr.contains("--session"), "{run:?}");
}

#[test]
fn hostile_lines_are_answered_or_passed_over() {
    let folder = folder();
    let all = folder.run("search lexer --archive a.db --json").json();
    let foreign = all[0]["handle"].as_str().unwrap().to_owned();
    let mut client = McpClient::start(&folder, "");
    let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
    for line in [
        "no json".to_owned(),
        "{}".to_owned(),
        "[]".to_owned(),
        "\u{1b}[2J\0".to_owned(),
        deep.clone(),
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{deep}}}"#),
        r#"{"jsonrpc":"2.0","id":"x","result":{}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}"#
            .to_owned(),
        format!(r#"{{"x":"{}"}}"#, "x".repeat(4 << 20)),
    ] {
        writeln!(client.input.as_mut().unwrap(), "{line}").unwrap();
    }
    let unknown = client.ask("no/such", &json!({}));
    assert!(unknown["error"].is_object(), "{unknown}");
    let wrong = client.ask("tools/call", &json!({"name": 7}));
    assert!(wrong["error"].is_object(), "{wrong}");
    // Many at once, some of them cancelled: every other one is answered, whatever the order.
    let call = |id: u64, arguments: &Value| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": "search", "arguments": arguments}})
    };
    for id in 1_000..1_060 {
        client.tell(&call(id, &json!({"query": format!("port {foreign} {id}").repeat(20)})));
        if id % 3 == 0 {
            let cancelled = json!({"requestId": id, "reason": "enough"});
            client.tell(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled}));
        }
    }
    let mut awaited: Vec<u64> = (1_000..1_060).filter(|id| id % 3 != 0).collect();
    while !awaited.is_empty() {
        let mut line = String::new();
        assert!(client.output.read_line(&mut line).unwrap() > 0, "the server ended");
        assert!(!line.contains("5151"), "{line}");
        let answer: Value = serde_json::from_str(&line).unwrap();
        awaited.retain(|id| answer["id"] != *id);
    }
    assert!(client.call("search", &json!({"query": "parser"})).0.contains("4141"));
    client.end();
}

#[test]
fn a_client_that_goes_away_ends_it() {
    let folder = folder();
    let mut client = McpClient::start(&folder, "");
    let asked = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call",
        "params": {"name": "search", "arguments": {"query": "port"}}});
    client.tell(&asked);
    // It reads nothing more, and closes both ends.
    let McpClient { mut child, input, output, .. } = client;
    drop((input, output));
    assert!(child.wait().unwrap().code().is_some(), "it ended by itself");
    let mut silent = folder.start("mcp --archive a.db");
    drop(silent.stdin.take());
    let status = silent.wait().unwrap();
    assert!(status.code().is_some_and(|code| code <= 2), "{status:?}");
    // One that speaks another version is told which one is spoken.
    let mut other = folder.start("mcp --archive a.db");
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "1999-01-01", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}});
    writeln!(other.stdin.as_mut().unwrap(), "{hello}").unwrap();
    let mut line = String::new();
    BufReader::new(other.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let answer: Value = serde_json::from_str(&line).unwrap();
    assert!(answer["result"]["protocolVersion"].as_str().unwrap() > "2024", "{answer}");
    drop(other.stdin.take());
    other.wait().unwrap();
}
