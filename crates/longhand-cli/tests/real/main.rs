//! A real model that calls the recall tool of a proxy.
//!
//! `cargo xtask test-model` starts the model and runs this; without it, it says that it was skipped.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

/// What must come back from a part of the conversation that no window shows.
const SECRET: &str = "The code of the vault is KX-4417.";

struct Proxy {
    child: Child,
    folder: TempDir,
    address: String,
}

impl Proxy {
    fn start(upstream: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_longhand"))
            .args(["serve", "--listen", "127.0.0.1:0", "--archive", "a.db", "--recall-tool"])
            .args(["--budget", "1500", "--upstream", upstream])
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
        Self { child, folder, address }
    }

    fn send(&self, head: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        let host = &self.address;
        write!(
            stream,
            "{head} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        (status, body.to_owned())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How many recalls of a kind and outcome the metrics count.
fn recalls(metrics: &str) -> u64 {
    let lines = metrics.lines().filter(|line| line.starts_with("longhand_recalls_total{"));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

#[test]
fn it_calls_the_recall_tool_and_its_client_sees_one_answer() {
    let Some(url) = std::env::var("LONGHAND_MODEL_URL").ok().filter(|url| !url.is_empty()) else {
        println!("skipped: LONGHAND_MODEL_URL is not set; `cargo xtask test-model` sets it");
        return;
    };
    let proxy = Proxy::start(&url);
    let mut messages = vec![
        json!({"role": "user", "content": format!("Remember this. {SECRET}")}),
        json!({"role": "assistant", "content": "I will."}),
    ];
    for round in 0..30 {
        let filler =
            format!("Note {round}: {}", "the weather is fine and nothing happens. ".repeat(12));
        messages.push(json!({"role": "user", "content": filler}));
        messages.push(json!({"role": "assistant", "content": format!("Noted {round}.")}));
    }
    messages.push(json!({"role": "user", "content": "What is the code of the vault? Look it up."}));
    // It is too small to call a tool of itself, so it must call one; there is only ours.
    let body = json!({"model": "smollm2-135m", "messages": messages, "max_tokens": 96,
        "temperature": 0, "tool_choice": "required"});
    let (status, answer) = proxy.send("POST /v1/chat/completions", &body.to_string());
    assert_eq!(status, 200, "{answer}");
    assert!(!answer.contains("longhand_recall"), "the client sees no call of ours: {answer}");
    let (_, metrics) = proxy.send("GET /longhand/metrics", "");
    let count = recalls(&metrics);
    println!("the model called the tool {count} times: {answer}");
    assert!(count > 0, "the model called nothing: {answer}\n{metrics}");
    // What it got is in the window of the session from then on, as a quote.
    let shown = Command::new(env!("CARGO_BIN_EXE_longhand"))
        .args(["log", "@last", "--archive", "a.db", "--json"])
        .current_dir(proxy.folder.path())
        .env("HOME", proxy.folder.path())
        .output()
        .unwrap();
    let log: Value = serde_json::from_slice(&shown.stdout).unwrap_or_default();
    assert!(log.to_string().contains("insert"), "nothing was brought back: {log}");
}
