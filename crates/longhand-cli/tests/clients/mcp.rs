//! The official MCP clients, over both transports.

use std::path::Path;
use std::process::Command;

use longhand_testkit::scripted::ScriptedServer;
use serde_json::json;

use crate::client::{ClientLanguage, clients};
use crate::proxy::TestedProxy;

const PROGRAM: &str = env!("CARGO_BIN_EXE_longhand");
const TOKEN: &str = "0123456789abcdef0123";

/// Records a session of the local user in an archive.
fn record(folder: &Path) {
    std::fs::write(
        folder.join("round.json"),
        r#"{"user": "What is the port of the parser?", "assistant": "The port of the parser is 4141."}"#,
    )
    .unwrap();
    let made = Command::new(PROGRAM)
        .args(["record", "work", "round.json", "--archive", "a.db", "--quiet"])
        .current_dir(folder)
        .env("HOME", folder)
        .status();
    assert!(made.unwrap().success());
}

fn check(client: &ClientLanguage, arguments: &str) {
    let seen = client.run("mcp_calls", arguments);
    assert_eq!(seen["tools"], json!(["search", "read", "sessions"]), "{seen:#}");
    let text = |key: &str| seen[key][0].as_str().unwrap();
    assert!(text("found").contains("> The port of the parser is 4141."), "{seen:#}");
    assert!(text("read").contains("port of the parser"), "{seen:#}");
    assert!(text("sessions").contains(" work,"), "{seen:#}");
    assert_eq!(seen["wrong"][1], true, "{seen:#}");
    assert!(text("wrong").contains("Nothing here has that handle"), "{seen:#}");
    assert_eq!(seen["many"], json!(vec![false; 12]), "{seen:#}");
    for key in ["resource", "prompt"] {
        assert!(
            seen[key].as_str().unwrap().contains("> The port of the parser is 4141."),
            "{seen:#}"
        );
    }
    assert_eq!(seen["prompts"], json!(["resume"]), "{seen:#}");
    assert!(seen["error"].as_str().unwrap().contains("resume"), "{seen:#}");
}

/// The handshakes that a client knows: that of earlier versions, and the one that it prefers.
fn handshakes(client: &ClientLanguage) -> &'static [&'static str] {
    match client {
        ClientLanguage::Python(_) => &["legacy", "auto"],
        ClientLanguage::Node(_) => &["auto"],
    }
}

#[test]
fn official_clients_use_it_over_standard_input_and_output() {
    for client in clients() {
        let folder = tempfile::tempdir().unwrap();
        record(folder.path());
        let archive = folder.path().join("a.db");
        for mode in handshakes(&client) {
            check(&client, &format!("stdio {PROGRAM} {} {mode}", archive.display()));
        }
    }
}

#[test]
fn official_clients_use_it_over_http() {
    for client in clients() {
        let upstream = ScriptedServer::start([]);
        let folder = tempfile::tempdir().unwrap();
        record(folder.path());
        std::fs::write(folder.path().join("token"), TOKEN).unwrap();
        let proxy = TestedProxy::start_in(
            folder,
            &["--upstream", &upstream.url(), "--budget", "4000", "--mcp-token-file", "token"],
        );
        for mode in handshakes(&client) {
            check(&client, &format!("http {}/longhand/mcp {TOKEN} {mode}", proxy.url));
        }
        assert!(upstream.requests().is_empty(), "nothing of it goes upstream");
    }
}
