//! The archive as an MCP server over HTTP: who is let in, what each sees, and what hostile input comes to.
use std::time::Duration;

use crate::common::client::{Answer, Call};
use crate::common::{Stage, says, user};
use futures_util::future::join_all;
use longhand_server::Settings;
use serde_json::{Value, json};

const PATH: &str = "/longhand/mcp";
const KEYS: [&str; 2] = ["key-of-ann", "key-of-bob"];
const TOKEN: &str = "token-of-the-machine";

fn keyed(settings: &mut Settings) {
    settings.keys = KEYS.map(str::to_owned).to_vec();
}

fn with_token(settings: &mut Settings) {
    settings.mcp_token = Some(TOKEN.to_owned());
}

/// A message to the server, not sent yet.
fn message<'s>(stage: &'s Stage, key: &str, body: impl Into<hyper::body::Bytes>) -> Call<'s> {
    let call = stage.client.post(stage.url(PATH)).header("content-type", "application/json");
    call.header("accept", "application/json, text/event-stream").bearer_auth(key).body(body)
}

async fn read(answer: Answer) -> (u16, Value) {
    let status = answer.status().as_u16();
    let text = answer.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

async fn ask(stage: &Stage, key: &str, method: &str, params: Value) -> (u16, Value) {
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    read(message(stage, key, body.to_string()).send().await.unwrap()).await
}

/// The text of a tool's answer, and whether it is an error.
async fn call(stage: &Stage, key: &str, tool: &str, arguments: Value) -> (String, bool) {
    let params = json!({"name": tool, "arguments": arguments});
    let (status, answer) = ask(stage, key, "tools/call", params).await;
    assert_eq!((status, &answer["id"]), (200, &json!(7)), "{answer}");
    let result = &answer["result"];
    let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
    (text.to_owned(), result["isError"] == true)
}

/// Says something in a session of a key, and waits until it can be found.
async fn say(stage: &Stage, key: &str, session: &str, text: &str) {
    let body = json!({"model": "scripted", "messages": [user(text)]});
    let sent = stage.client.post(stage.url("/v1/chat/completions")).bearer_auth(key);
    let sent = sent.header("x-longhand-session", session).body(body.to_string());
    assert!(sent.send().await.unwrap().status().is_success());
    loop {
        let words = text.split(' ').next_back().unwrap();
        if call(stage, key, "search", json!({"query": words})).await.0.contains(text) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn it_is_never_open() {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    let stage = Stage::with([], |_| ()).await;
    let none = stage.client.post(stage.url(PATH)).body(body.clone()).send().await.unwrap();
    let (status, said) = read(none).await;
    assert_eq!(status, 401);
    assert!(said["error"]["message"].as_str().unwrap().contains("--mcp-token-file"), "{said}");
    let stage = Stage::with([], with_token).await;
    for key in ["", "token", "sk-of-a-provider"] {
        let (status, said) = read(message(&stage, key, body.clone()).send().await.unwrap()).await;
        assert_eq!(status, 401, "{said}");
    }
    for (name, value) in [
        ("origin", "https://evil.example"),
        ("origin", "http://127.0.0.1:1"),
        ("sec-fetch-site", "cross-site"),
        ("host", "evil.example"),
    ] {
        let call = message(&stage, TOKEN, body.clone()).header(name, value);
        let (status, _) = read(call.send().await.unwrap()).await;
        assert_eq!(status, 403, "{name}: {value}");
    }
    let ours = format!("http://{}", stage.proxy.address());
    let call = message(&stage, TOKEN, body).header("origin", &ours);
    let (status, said) = read(call.send().await.unwrap()).await;
    assert_eq!((status, said["result"]["tools"].as_array().unwrap().len()), (200, 3), "{said}");
    assert!(stage.sent().is_empty(), "nothing of it goes upstream");
}

#[tokio::test]
async fn each_key_sees_its_own_sessions() {
    let stage = Stage::with([says("ok"), says("ok"), says("ok")], keyed).await;
    let [ann, bob] = KEYS;
    say(&stage, ann, "hers", "the vault of Ann opens with axolotl").await;
    say(&stage, ann, "second", "Ann has another animal, a pangolin").await;
    say(&stage, bob, "his", "the vault of Bob opens with okapi").await;
    let (hit, _) = call(&stage, ann, "search", json!({"query": "axolotl"})).await;
    let handle = hit.split(' ').next().unwrap().to_owned();
    assert!(call(&stage, ann, "read", json!({"handle": handle})).await.0.contains("axolotl"));
    for arguments in [
        json!({"handle": handle}),
        json!({"handle": "hers"}),
        json!({"handle": handle.split(':').next().unwrap()}),
    ] {
        let (text, is_error) = call(&stage, bob, "read", arguments.clone()).await;
        assert!(is_error && !text.contains("axolotl"), "{arguments}: {text}");
    }
    for arguments in [json!({"query": "axolotl"}), json!({"query": "vault", "session": "hers"})] {
        let (text, _) = call(&stage, bob, "search", arguments.clone()).await;
        assert!(!text.contains("opens with axolotl"), "{arguments}: {text}");
    }
    let (text, _) = call(&stage, bob, "sessions", json!({})).await;
    assert!(text.contains(" his") && !text.contains("hers") && !text.contains("Ann"), "{text}");
    let (_, listed) = ask(&stage, bob, "resources/list", json!({})).await;
    assert!(!listed.to_string().contains("hers"), "{listed}");
    let (_, prompt) = ask(
        &stage,
        bob,
        "prompts/get",
        json!({"name": "resume", "arguments": {"session": "hers"}}),
    )
    .await;
    assert!(prompt["error"].is_object() && !prompt.to_string().contains("axolotl"), "{prompt}");
    // Nothing can be written.
    let (text, is_error) = call(&stage, ann, "pin", json!({"handle": handle})).await;
    assert!(is_error && text.contains("no such tool"), "{text}");
    // A session that is named is all there is.
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "search", "arguments": {"query": "axolotl pangolin"}}});
    let narrow = message(&stage, ann, body.to_string()).header("x-longhand-session", "second");
    let (_, found) = read(narrow.send().await.unwrap()).await;
    let found = found.to_string();
    assert!(found.contains("pangolin") && !found.contains("axolotl"), "{found}");
}

#[tokio::test]
async fn a_token_sees_what_callers_without_a_key_said() {
    let stage = Stage::with([says("ok"), says("ok")], with_token).await;
    let say = async |key: Option<&str>, text: &str| {
        let sent = stage.client.post(stage.url("/v1/chat/completions"));
        let sent = key.into_iter().fold(sent, Call::bearer_auth);
        let body = json!({"model": "scripted", "messages": [user(text)]});
        assert!(sent.body(body.to_string()).send().await.unwrap().status().is_success());
    };
    say(Some("sk-somebody"), "somebody has a quokka").await;
    say(None, "nobody has a quagga").await;
    let (mut found, mut tries) = (String::new(), 0);
    while !found.contains("quagga") {
        assert!(tries < 1_000, "{found}");
        found = call(&stage, TOKEN, "search", json!({"query": "quagga quokka"})).await.0;
        tries += 1;
    }
    assert!(!found.contains("quokka"), "{found}");
    // With the key of a provider beside it, the sessions of that key are seen.
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "search", "arguments": {"query": "quagga quokka"}}});
    let both = message(&stage, TOKEN, body.to_string()).header("x-api-key", "sk-somebody");
    let (_, found) = read(both.send().await.unwrap()).await;
    let found = found.to_string();
    assert!(found.contains("quokka") && !found.contains("quagga"), "{found}");
}

#[tokio::test]
async fn hostile_messages_are_errors() {
    let stage = Stage::with([says("ok")], keyed).await;
    let [ann, bob] = KEYS;
    say(&stage, ann, "hers", "the vault of Ann opens with axolotl").await;
    let rpc = |method: &str, params: Value| {
        json!({"jsonrpc": "2.0", "id": 3, "method": method, "params": params}).to_string()
    };
    let tool = |name: &str, arguments: Value| {
        rpc("tools/call", json!({"name": name, "arguments": arguments}))
    };
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for (body, expected) in [
        ("no json".to_owned(), 400),
        (String::new(), 400),
        ("[]".to_owned(), 400),
        (format!("[{}]", rpc("tools/list", json!({}))), 400),
        ("{}".to_owned(), 400),
        (deep.clone(), 400),
        (format!(r#"{{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{deep}}}"#), 400),
        (r#"{"jsonrpc":"2.0","id":3,"result":{}}"#.to_owned(), 400),
        (r#"{"jsonrpc":"1.0","id":3,"method":"tools/list"}"#.to_owned(), 400),
        (r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned(), 202),
        (
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}"#
                .to_owned(),
            202,
        ),
        (rpc("no/such", json!({})), 200),
        (rpc("tools/call", json!({})), 200),
        (tool("nothing", json!({})), 200),
        (tool("read", json!({"handle": 7})), 200),
        (tool("read", json!({"handle": "hers", "from": 1e300})), 200),
        (tool("search", json!({"query": "\"(* AND NEAR OR ".repeat(700)})), 200),
        (tool("search", json!({"query": "a".repeat(900_000)})), 200),
        (tool("read", json!({"handle": "hers:0-18446744073709551614"})), 200),
        (tool("read", json!({"handle": "../../x", "grep": "(((((".repeat(1_000)})), 200),
        (rpc("resources/read", json!({"uri": "longhand://session/hers"})), 200),
        (rpc("resources/read", json!({"uri": "file:///etc/passwd"})), 200),
        (rpc("prompts/get", json!({"name": "other"})), 200),
        (format!(r#"{{"x":"{}"}}"#, "x".repeat(2 << 20)), 413),
    ] {
        let (status, said) = read(message(&stage, bob, body.clone()).send().await.unwrap()).await;
        let shown = &body[..body.len().min(100)];
        assert_eq!(status, expected, "{shown}: {said}");
        assert!(!said.to_string().contains("opens with"), "{shown}: {said}");
    }
    for (version, expected) in
        [("2025-06-18", 200), ("2024-11-05", 200), ("1999-01-01", 400), ("x", 400)]
    {
        let body = rpc("tools/list", json!({}));
        let call = message(&stage, bob, body).header("mcp-protocol-version", version);
        assert_eq!(read(call.send().await.unwrap()).await.0, expected, "{version}");
    }
    for method in ["GET", "DELETE", "PUT", "OPTIONS"] {
        let call = stage.client.request(method.parse().unwrap(), stage.url(PATH));
        let answer = call.bearer_auth(bob).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 405, "{method}");
    }
    let form = stage.client.post(stage.url(PATH)).header("content-type", "text/plain");
    let form = form.bearer_auth(bob).body(rpc("tools/list", json!({})));
    assert_eq!(form.send().await.unwrap().status().as_u16(), 415);
    let hello = json!({"protocolVersion": "1999-01-01", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}});
    let (_, said) = ask(&stage, bob, "initialize", hello).await;
    assert_ne!(said["result"]["protocolVersion"], "1999-01-01", "{said}");
    assert_eq!(stage.sent().len(), 1, "nothing of it went upstream");
}

#[tokio::test]
async fn many_callers_and_those_that_go_away_hold_up_nobody() {
    let stage = Stage::with([says("ok"), says("still here")], keyed).await;
    let [ann, _] = KEYS;
    say(&stage, ann, "hers", "the vault of Ann opens with axolotl").await;
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "search", "arguments": {"query": "vault axolotl ".repeat(2_000)}}});
    let body = body.to_string();
    // They are sent and not waited for.
    for _ in 0..20 {
        let sent = message(&stage, ann, body.clone()).send();
        let _ = tokio::time::timeout(Duration::from_millis(2), sent).await;
    }
    let calls = (0..24)
        .map(|_| async { read(message(&stage, ann, body.clone()).send().await.unwrap()).await.0 });
    let said = async {
        let body = json!({"model": "scripted", "messages": [user("hello")]});
        let sent = stage.client.post(stage.url("/v1/chat/completions")).bearer_auth(ann);
        sent.body(body.to_string()).send().await.unwrap().text().await.unwrap()
    };
    let (statuses, said) = tokio::join!(join_all(calls), said);
    assert!(said.contains("still here"), "{said}");
    assert!(statuses.iter().all(|status| [200, 503].contains(status)), "{statuses:?}");
    assert!(statuses.contains(&200), "{statuses:?}");
    assert!(
        call(&stage, ann, "search", json!({"query": "axolotl"})).await.0.contains("opens with")
    );
}
