//! Claude Code in a terminal: `/compact` is answered by us, and the session goes on.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use longhand_testkit::scripted::{
    RecordedRequest, ScriptStep, ScriptedReply, ScriptedServer, ScriptedUsage,
};
use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use serde_json::{Value, json};

use crate::agent::PublishedAgent;
use crate::request::wire;
use crate::workspace::Workspace;

/// The longest that the client may take for what it does on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// The most that our part of an answer may take, in milliseconds.
const ANSWER_MS_MAX: f64 = 200.0;

/// What the user says first; no other text has it.
const ASKED: &str = "Task CP-3311: the lexer listens on port 4177. Say something about it.";

/// A proxy that is ended with its test.
struct ServeProcess {
    child: Child,
    url: String,
}

impl ServeProcess {
    fn start(workspace: &Workspace, upstream: &str) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_longhand"))
            .args(["serve", "--listen", "127.0.0.1:0", "--answer-compactions", "--log"])
            .arg(workspace.home().join("log.jsonl"))
            .args(["--upstream", upstream, "--archive"])
            .arg(workspace.archive())
            .env("HOME", workspace.home())
            .current_dir(workspace.home())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let said = lines.find_map(|line| Some(line.ok()?.strip_prefix("listening ")?.to_owned()));
        Self { child, url: said.unwrap() }
    }
}

impl Drop for ServeProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn answered(request: &RecordedRequest) -> ScriptStep {
    if request.method != "POST" || wire(&request.path).is_none() {
        let kind = vec![("content-type", "application/json".into())];
        return ScriptStep::Raw(404, kind, "{}".to_owned());
    }
    let used = ScriptedUsage { input: 9_000, cached: 0, output: 50 };
    let text = "The lexer reads a character at a time.".to_owned();
    ScriptStep::Reply(ScriptedReply { id: "reply_1".to_owned(), text, calls: Vec::new(), used })
}

/// What Claude Code asks before its first prompt is answered.
fn settle_questions(workspace: &Workspace) {
    let project = workspace.project().to_string_lossy().into_owned();
    let settings = json!({
        "hasCompletedOnboarding": true, "theme": "dark", "numStartups": 3,
        "bypassPermissionsModeAccepted": true,
        "customApiKeyResponses": {"approved": ["sk-ant-none"], "rejected": []},
        "projects": {project: {"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true}},
    });
    std::fs::write(workspace.home().join(".claude.json"), settings.to_string()).unwrap();
}

/// A client in a terminal, and all that it has shown.
struct Terminal {
    child: Box<dyn portable_pty::Child + Send + Sync>,
    keys: Box<dyn Write + Send>,
    shown: Arc<Mutex<String>>,
    _master: Box<dyn portable_pty::MasterPty + Send>,
}

impl Terminal {
    fn open(agent: &PublishedAgent, workspace: &Workspace, url: &str) -> Self {
        let size = PtySize { rows: 50, cols: 160, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(agent.program());
        command.args(["--model", "claude-sonnet-4-5"]);
        command.env_clear();
        let home = workspace.home().to_string_lossy().into_owned();
        let path = std::env::var("PATH").unwrap_or_default();
        for (name, value) in agent.variables().chain([
            ("ANTHROPIC_BASE_URL", url),
            ("ANTHROPIC_API_KEY", "sk-ant-none"),
            ("TERM", "xterm-256color"),
            ("LANG", "C.UTF-8"),
            ("HOME", &home),
            ("PATH", &path),
        ]) {
            command.env(name, value);
        }
        command.cwd(workspace.project());
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let mut reader = pair.master.try_clone_reader().unwrap();
        let keys = pair.master.take_writer().unwrap();
        let shown = Arc::<Mutex<String>>::default();
        let screen = Arc::clone(&shown);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                screen.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        Self { child, keys, shown, _master: pair.master }
    }

    /// Waits until something is so; what was shown tells why it never was.
    fn wait(&self, what: &str, is_so: impl Fn(&str) -> bool) {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if is_so(&self.shown.lock().unwrap()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let shown = self.shown.lock().unwrap();
        let end: String = shown.chars().rev().take(4_000).collect();
        panic!("{what}: {}", end.chars().rev().collect::<String>());
    }

    /// Types a line; the client takes what comes with its end for pasted.
    fn say(&mut self, line: &str) {
        self.keys.write_all(line.as_bytes()).unwrap();
        self.keys.flush().unwrap();
        std::thread::sleep(Duration::from_millis(1_500));
        self.keys.write_all(b"\r").unwrap();
        self.keys.flush().unwrap();
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The requests of the conversation: titles and the like have no tools.
fn turns(server: &ScriptedServer) -> Vec<RecordedRequest> {
    let is_turn = |request: &RecordedRequest| {
        let body: Value = serde_json::from_str(&request.body).unwrap_or_default();
        wire(&request.path).is_some()
            && body["tools"].as_array().is_some_and(|tools| tools.len() > 3)
    };
    server.requests().into_iter().filter(is_turn).collect()
}

#[test]
fn claude() {
    let Some(agent) = PublishedAgent::named("claude") else { return };
    let workspace = Workspace::new();
    settle_questions(&workspace);
    let server = ScriptedServer::playing(60, |request| Some(answered(request)));
    let upstream = server.url().trim_end_matches("/v1").to_owned();
    let proxy = ServeProcess::start(&workspace, &upstream);
    let mut terminal = Terminal::open(&agent, &workspace, &proxy.url);
    terminal.wait("it is ready", |shown| shown.contains("for short"));
    for (number, words) in [ASKED, "And what of the parser?"].into_iter().enumerate() {
        terminal.say(words);
        terminal.wait("it has asked", |_| turns(&server).len() > number);
        terminal.wait("it is done", |shown| shown.matches("done ").count() > number);
    }
    terminal.say("/compact");
    terminal.wait("it has compacted", |shown| shown.contains("Compacted"));
    terminal.say("Go on, please.");
    terminal.wait("it goes on", |_| turns(&server).len() > 2);
    terminal.wait("it is done again", |shown| shown.matches("done ").count() > 2);
    drop(terminal);
    let all = server.requests();
    assert!(!all.iter().any(|request| request.body.contains("Respond with TEXT ONLY")));
    let last = turns(&server).pop().unwrap().body;
    assert!(last.contains("[longhand fold ") && last.contains("port 4177"), "{last:.3000}");
    assert!(last.contains("Go on, please."));
    let log = std::fs::read_to_string(workspace.home().join("log.jsonl")).unwrap();
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let ours: Vec<Value> = lines.filter(|line| line["outcome"] == "answered").collect();
    assert_eq!(ours.len(), 1, "{log}");
    let took = ours[0]["ms"].as_f64().unwrap();
    println!("claude: /compact was answered in {took} ms: {}", ours[0]);
    assert!(took < ANSWER_MS_MAX, "{took} ms");
    drop(proxy);
    let handle = last.split("[longhand fold ").nth(1).unwrap().split(':').take(2);
    let handle = handle.collect::<Vec<_>>().join(":");
    let (opens, original) = workspace.longhand(&["expand", &handle]);
    assert!(opens && original.contains("CP-3311"), "{handle}: {original}");
    let sessions = workspace.longhand(&["ls", "--json"]).1;
    let sessions: Vec<Value> = serde_json::from_str(&sessions).unwrap();
    let logs = sessions.iter().map(|session| {
        let id = session["id"].as_str().unwrap_or_default();
        workspace.longhand(&["log", id]).1
    });
    let logs: String = logs.collect();
    assert!(logs.contains("the summary that the client ordered"), "{logs}");
}
