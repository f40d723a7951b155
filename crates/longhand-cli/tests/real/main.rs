//! A real model server that goes on after a call of the recall tool.
//!
//! `cargo xtask test-model` starts the model and runs this; without it, it says that it was skipped.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use longhand_testkit::scripted::{ScriptStep, ScriptedCall, ScriptedReply, ScriptedServer};
use serde_json::{Value, json};
use tempfile::TempDir;

/// What a window of the test does not show, and a search finds.
const SECRET: &str = "The code of the vault is KX-4417.";

const BUDGET: u64 = 2_000;

struct Proxy {
    child: Child,
    _folder: TempDir,
    address: String,
}

impl Proxy {
    fn start(upstream: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_longhand"))
            .args(["serve", "--listen", "127.0.0.1:0", "--archive", "a.db", "--recall-tool"])
            .args(["--budget", &BUDGET.to_string(), "--upstream", upstream])
            .current_dir(folder.path())
            .env("HOME", folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening http://").unwrap().to_owned();
        Self { child, _folder: folder, address }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Posts a chat request and returns the status and the body of the answer.
fn post(address: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(
        stream,
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    if !head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        return (status, body.to_owned());
    }
    let chunks = body.split("\r\n").skip(1).step_by(2);
    (status, chunks.collect())
}

#[test]
fn a_call_is_answered_and_the_model_goes_on_with_it() {
    let Some(url) = std::env::var("LONGHAND_MODEL_URL").ok().filter(|url| !url.is_empty()) else {
        println!("skipped: LONGHAND_MODEL_URL is not set; `cargo xtask test-model` sets it");
        return;
    };
    let model = url.trim_start_matches("http://").trim_end_matches("/v1").to_owned();
    let mut is_first = true;
    // The template of this model has no tools, so it cannot call any: the call is scripted, and all else is the model's.
    let upstream = ScriptedServer::playing(4, move |request| {
        if std::mem::take(&mut is_first) {
            let call = ScriptedCall {
                id: "call_1".to_owned(),
                name: "longhand_recall".to_owned(),
                arguments: json!({"query": "code of the vault"}),
            };
            let reply = ScriptedReply { calls: vec![call], ..ScriptedReply::default() };
            return Some(ScriptStep::Reply(reply));
        }
        let (status, body) = post(&model, &request.body);
        let kind = vec![("content-type", "application/json".to_owned())];
        Some(ScriptStep::Raw(status, kind, body))
    });
    let proxy = Proxy::start(&upstream.url());
    let mut messages = vec![
        json!({"role": "user", "content": "Let us begin."}),
        json!({"role": "assistant", "content": SECRET}),
    ];
    for round in 0..60 {
        let words = format!("Note {round}: {}", "the weather is fine today. ".repeat(8));
        messages.push(json!({"role": "user", "content": words}));
        messages.push(json!({"role": "assistant", "content": format!("Noted {round}.")}));
    }
    messages.push(json!({"role": "user", "content": "What is the code of the vault?"}));
    let body =
        json!({"model": "smollm2-135m", "messages": messages, "max_tokens": 24, "temperature": 0});
    let (status, answer) = post(&proxy.address, &body.to_string());
    assert_eq!(status, 200, "{answer}");
    let sent = upstream.requests();
    assert_eq!(sent.len(), 2, "one call, and one answer");
    assert!(
        sent[1].body.contains("longhand recall") && sent[1].body.contains(&format!("> {SECRET}")),
        "{}",
        sent[1].body
    );
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let message = &answer["choices"][0]["message"];
    assert!(message["tool_calls"].as_array().is_none_or(Vec::is_empty), "{answer}");
    let said = message["content"].as_str().unwrap();
    assert!(!said.trim().is_empty(), "{answer}");
    println!("with what was brought back, the model says: {said}");
}
