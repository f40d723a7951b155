//! `longhand serve`, with a server behind it that plays a script.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Child;
use std::time::Duration;

use longhand_testkit::scripted::{ScriptStep, ScriptedServer};
use serde_json::{Value, json};

use crate::run::Folder;

pub(crate) struct ServedProxy {
    child: Child,
    address: String,
}

impl ServedProxy {
    pub(crate) fn start(folder: &Folder, options: &str) -> Self {
        let mut child =
            folder.start(&format!("serve --listen 127.0.0.1:0 --archive a.db {options}"));
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening http://").unwrap().to_owned();
        Self { child, address }
    }

    /// Posts a request and gives the whole answer.
    pub(crate) fn post(&self, path: &str, body: &Value) -> String {
        self.post_with(path, body, "authorization: Bearer secret")
    }

    /// The same with another header.
    pub(crate) fn post_with(&self, path: &str, body: &Value, header: &str) -> String {
        let body = body.to_string();
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{header}\r\nconnection: close\r\n\r\n{body}",
            self.address,
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Asks it to end, and gives what it said.
    pub(crate) fn end(mut self) -> String {
        let told = std::process::Command::new("kill").arg(self.child.id().to_string()).status();
        assert!(told.unwrap().success());
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(self.child.wait().unwrap().success(), "{said}");
        said
    }
}

#[test]
fn an_agent_gets_an_endless_conversation_by_changing_one_url() {
    let server = ScriptedServer::start(
        (0..40).map(|number| ScriptStep::Answer(format!("Answer {number}."))),
    );
    let folder = Folder::new();
    let upstream = server.url();
    let proxy = ServedProxy::start(
        &folder,
        &format!("--upstream {} --budget 4000", upstream.trim_end_matches("/v1")),
    );
    let mut messages = vec![json!({"role": "system", "content": "Be brief."})];
    for number in 0..20 {
        let words = "a sentence about the work ".repeat(60);
        messages.push(json!({"role": "user", "content": format!("Question {number}: {words}")}));
        let answer =
            proxy.post("/v1/chat/completions", &json!({"model": "tiny", "messages": messages}));
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains(&format!("Answer {number}.")), "{answer}");
        messages.push(json!({"role": "assistant", "content": format!("Answer {number}.")}));
    }
    let address = proxy.address.clone();
    let said = proxy.end();
    assert!(said.contains("20 requests") && said.contains(" 0 not"), "{said}");
    for line in ["upstream  http://", "budget    4,000 tokens", "archive   a.db"] {
        assert!(said.contains(line), "no {line:?} in {said}");
    }
    assert!(said.contains(&format!("OPENAI_BASE_URL=http://{address}/v1 ")), "{said}");
    let requests = server.requests();
    assert_eq!(requests.len(), 20);
    for request in &requests {
        assert_eq!(request.header("authorization"), Some("Bearer secret"));
        folder.write("sent.json", &request.body);
        folder.assert_valid("sent.json", "");
        assert!(folder.count("sent.json", "--meter o200k") <= 4_000);
    }
    let found = folder.run("search Question --archive a.db --json").json();
    assert!(!found.as_array().unwrap().is_empty());
    assert_eq!(folder.run("verify --archive a.db").status, 0);
    let bytes = std::fs::read(folder.path("a.db")).unwrap();
    assert!(!bytes.windows(6).any(|window| window == b"secret"), "no key is archived");
    for session in folder.run("ls --archive a.db --json").json().as_array().unwrap() {
        let id = session["id"].as_str().unwrap();
        let export = folder.run(&format!("export {id} --archive a.db")).stdout;
        assert!(export.contains("Question") && !export.contains("secret"), "{export}");
    }
}

#[test]
fn a_proxy_that_is_killed_goes_on_in_the_same_session() {
    let server = ScriptedServer::start(
        (0..40).map(|number| ScriptStep::Answer(format!("Answer {number}."))),
    );
    let folder = Folder::new();
    let options = format!("--upstream {} --budget 3000", server.url().trim_end_matches("/v1"));
    let mut messages = Vec::new();
    for number in 0..12 {
        let mut proxy = ServedProxy::start(&folder, &options);
        for part in 0..2 {
            let words = "a sentence about the work ".repeat(60);
            let question = format!("Question {number}.{part}: {words}");
            messages.push(json!({"role": "user", "content": question}));
            let answer =
                proxy.post("/v1/chat/completions", &json!({"model": "tiny", "messages": messages}));
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            let said = format!("Answer {}.", 2 * number + part);
            assert!(answer.contains(&said), "{answer}");
            messages.push(json!({"role": "assistant", "content": said}));
        }
        // Right after the last byte, when the newest words may not be on the disk yet.
        proxy.child.kill().unwrap();
        proxy.child.wait().unwrap();
    }
    let proxy = ServedProxy::start(&folder, &options);
    messages.push(json!({"role": "user", "content": "And now?"}));
    proxy.post("/v1/chat/completions", &json!({"model": "tiny", "messages": messages}));
    proxy.end();
    assert_eq!(folder.run("verify --archive a.db").status, 0);
    let sessions = folder.run("ls --archive a.db --json").json();
    assert_eq!(sessions.as_array().unwrap().len(), 1, "{sessions}");
    let id = sessions[0]["id"].as_str().unwrap().to_owned();
    let exported = folder.run(&format!("export {id} --archive a.db")).exported_entries();
    for message in &messages {
        let words = message["content"].as_str().unwrap();
        assert_eq!(exported.matches(&words[..words.len().min(14)]).count(), 1, "{words}");
    }
}

#[test]
fn flags_and_settings_are_used() {
    let server = ScriptedServer::start(vec![ScriptStep::Answer("Yes.".to_owned()); 4]);
    let folder = Folder::new();
    folder.write("longhand.toml", "[windows.tiny]\ntokens = 3100\n");
    folder.write("keys", "# ours\nkey-of-sixteen-or-more\n");
    folder.write("log.jsonl", "");
    let options = format!(
        "--upstream-openai {} --api-key-file keys --log log.jsonl --require-archive --low-water 50 --policy trim --summariser none --expand-tool -q",
        server.url()
    );
    let proxy = ServedProxy::start(&folder, &options);
    let words = "a sentence about the work ".repeat(60);
    let messages: Vec<Value> = (0..20)
        .map(|at| {
            let role = if at % 2 == 0 { "user" } else { "assistant" };
            json!({"role": role, "content": format!("{at}: {words}")})
        })
        .chain([json!({"role": "user", "content": "And now?"})])
        .collect();
    let body = json!({"model": "tiny", "max_tokens": 100, "messages": messages});
    let path = "/v1/chat/completions";
    assert!(proxy.post(path, &body).starts_with("HTTP/1.1 401"));
    assert!(server.requests().is_empty());
    let answer = proxy.post_with(path, &body, "x-longhand-key: key-of-sixteen-or-more");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let said = proxy.end();
    assert!(!said.contains("requests"), "-q: {said}");
    let sent = server.requests().remove(0);
    assert!(sent.header("x-longhand-key").is_none());
    assert!(sent.body.contains("longhand_recall"));
    assert!(!sent.body.contains("longhand stub"), "trim takes whole steps");
    folder.write("sent.json", &sent.body);
    let tokens = folder.count("sent.json", "--meter o200k");
    assert!((700..=1_500).contains(&tokens), "half of 3,000: {tokens}");
    let log = folder.read("log.jsonl");
    assert_eq!(log.lines().count(), 2, "{log}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(folder.path("log.jsonl")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "it was there before, and anybody could read it");
    }
    assert!(!log.contains("key-of-sixteen") && !log.contains("sentence"), "{log}");
}

#[test]
fn a_proxy_without_an_upstream_is_refused_with_a_hint() {
    Folder::new()
        .run("serve")
        .assert_refused(&["where requests go", "hint: `longhand serve --upstream"]);
    Folder::new()
        .run("serve --upstream nonsense --archive a.db")
        .assert_refused(&["`nonsense` cannot be an upstream"]);
    Folder::new()
        .run("serve --upstream http://127.0.0.1:9 --listen 0.0.0.0:0 --archive a.db")
        .assert_refused(&["can be reached by others", "hint: "]);
}
