//! A proxy in front of a scripted server.
pub(crate) mod client;
pub(crate) mod raw;

use std::sync::{Arc, Mutex};

use client::{Answer, Client};
use longhand::recall;
use longhand::{Archive, MemoryArchive, Owner, SessionId, Tokens};
use longhand_archive::{LoggedBatch, Page, Scope, SessionInfo, SqliteArchive};
use longhand_core::{Handle, Part, Seq};
use longhand_dialect::{Conversation, Dialect, Finding, read};
use longhand_server::{LogSink, Proxy, Settings, serve};
use longhand_testkit::scripted::{ScriptStep, ScriptedServer};
use serde_json::{Value, json};

pub(crate) struct Stage {
    pub(crate) server: ScriptedServer,
    pub(crate) archive: Arc<MemoryArchive>,
    pub(crate) proxy: Proxy,
    pub(crate) client: Client,
}

impl Stage {
    pub(crate) async fn new(
        budget: Option<u64>,
        steps: impl IntoIterator<Item = ScriptStep>,
    ) -> Self {
        Self::with(steps, |settings| settings.budget = budget.map(Tokens)).await
    }

    pub(crate) async fn with(
        steps: impl IntoIterator<Item = ScriptStep>,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let server = ScriptedServer::start(steps);
        let archive = Arc::new(MemoryArchive::default());
        let mut settings = Settings::new(Arc::clone(&archive) as Arc<dyn Archive>);
        settings.listen.set_port(0);
        settings.upstream_openai = Some(server.url());
        settings.upstream_anthropic = Some(server.url());
        change(&mut settings);
        let proxy = serve(settings).await.unwrap();
        Self { server, archive, proxy, client: Client::default() }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.proxy.address())
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Answer {
        let request = self.client.post(self.url(path)).header("authorization", "Bearer k");
        let request = request.header("content-type", "application/json");
        request.body(body.to_owned()).send().await.unwrap()
    }

    /// Posts a conversation and reads the whole answer; gives the head of it.
    pub(crate) async fn ask(&self, path: &str, messages: &[Value]) -> Heads {
        let answer = self.post(path, &request(path, messages, false)).await;
        let heads = Heads { status: answer.status().as_u16(), headers: answer.headers().clone() };
        answer.text().await.unwrap();
        heads
    }

    /// The bodies that the upstream got.
    pub(crate) fn sent(&self) -> Vec<String> {
        self.server.requests().into_iter().map(|request| request.body).collect()
    }

    /// Stops the proxy and gives every archived session as its raw messages.
    pub(crate) async fn archived(self) -> Vec<(String, Vec<String>)> {
        self.proxy.stop().await;
        sessions(&*self.archive)
            .into_iter()
            .map(|session| {
                let entries = self.archive.entries(session.id, 0..u64::MAX).unwrap().into_iter();
                (session.name, entries.map(|entry| entry.raw).collect())
            })
            .collect()
    }
}

/// The head of an answer.
pub(crate) struct Heads {
    pub(crate) status: u16,
    headers: hyper::HeaderMap,
}

impl Heads {
    /// A header; empty if it is missing.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.get(name).parse().ok()
    }
}

/// A tool loop of so many steps, each with a result of some 300 tokens.
pub(crate) fn messages(path: &str, steps: usize) -> Vec<Value> {
    let anthropic = path == "/v1/messages";
    let mut messages = vec![json!({"role": "user", "content": "Find out why the build fails."})];
    for step in 0..steps {
        let id = format!("call_{step}");
        let output = format!("line {step} of src/file_{step}.rs: all is well here\n").repeat(25);
        let arguments = json!({"path": format!("src/file_{step}.rs")});
        match path {
            _ if anthropic => {
                let call =
                    json!({"type": "tool_use", "id": id, "name": "read", "input": arguments});
                let result = json!({"type": "tool_result", "tool_use_id": id, "content": output});
                messages.push(json!({"role": "assistant", "content": [call]}));
                messages.push(json!({"role": "user", "content": [result]}));
            }
            "/v1/responses" => {
                messages.push(json!({"type": "function_call", "call_id": id, "name": "read", "arguments": arguments.to_string()}));
                messages
                    .push(json!({"type": "function_call_output", "call_id": id, "output": output}));
            }
            _ => {
                let function = json!({"name": "read", "arguments": arguments.to_string()});
                let call = json!({"id": id, "type": "function", "function": function});
                messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
                messages.push(json!({"role": "tool", "tool_call_id": id, "content": output}));
            }
        }
    }
    messages
}

/// A request with these messages.
pub(crate) fn request(path: &str, messages: &[Value], stream: bool) -> String {
    let key = if path == "/v1/responses" { "input" } else { "messages" };
    let mut body = json!({"model": "scripted", "max_tokens": 100, "stream": stream});
    body[key] = json!(messages);
    // White space that any rewriting would lose.
    format!(" {body}\n")
}

pub(crate) const PATHS: [&str; 3] = ["/v1/chat/completions", "/v1/responses", "/v1/messages"];

/// An answer with a message of the model, as a client would send it back, and no word of what it took.
pub(crate) fn reply(path: &str, message: &Value) -> ScriptStep {
    let body = match path {
        "/v1/messages" => {
            json!({"type": "message", "role": "assistant", "content": message["content"], "stop_reason": "end_turn"})
        }
        "/v1/responses" => json!({"status": "completed", "output": [message]}),
        _ => json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}),
    };
    ScriptStep::Raw(200, vec![("content-type", "application/json".to_owned())], body.to_string())
}

/// The model's side of the loop of [`messages`], from its second call on.
pub(crate) fn calls(path: &str, steps: usize) -> Vec<ScriptStep> {
    let all = messages(path, steps + 1);
    (1..=steps).map(|step| reply(path, &all[1 + 2 * step])).collect()
}

/// The format that a path takes.
pub(crate) fn dialect(path: &str) -> Dialect {
    match path {
        "/v1/messages" => Dialect::Anthropic,
        "/v1/responses" => Dialect::Responses,
        _ => Dialect::Chat,
    }
}

pub(crate) fn conversation(path: &str, body: &str) -> Conversation {
    read(body.as_bytes().to_vec(), Some(dialect(path))).unwrap()
}

/// What a provider would refuse of a body at any size.
pub(crate) fn faults(path: &str, body: &str) -> Vec<Finding> {
    conversation(path, body).check().into_iter().filter(Finding::is_fault).collect()
}

/// Whether a body goes on with all that another one has of messages.
pub(crate) fn is_prefix(one: &str, other: &str) -> bool {
    // After the last message there are only brackets and settings.
    let end = one.rfind(']').unwrap_or(one.len());
    other.as_bytes().get(..end) == Some(&one.as_bytes()[..end])
}

pub(crate) fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

pub(crate) fn assistant(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

pub(crate) fn says(text: &str) -> ScriptStep {
    ScriptStep::Answer(text.to_owned())
}

/// So many answers.
pub(crate) fn answers(count: usize) -> Vec<ScriptStep> {
    vec![says("Go on."); count]
}

/// An archive in a folder that goes away.
pub(crate) fn sqlite() -> (tempfile::TempDir, Arc<dyn Archive>) {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let archive = reopened(&folder);
    (folder, archive)
}

/// The archive of a folder, as another process has it.
/// All that lies in the folder of an archive, as it is and, where the archive compresses it, as it can be read.
pub(crate) fn legible(folder: &tempfile::TempDir) -> String {
    let mut all = String::new();
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        all.push_str(&String::from_utf8_lossy(&bytes));
    }
    let archive = reopened(folder);
    for session in sessions(&*archive) {
        let take = &mut |record: longhand_archive::Record| {
            all.push_str(&format!("{record:?}\n"));
            std::ops::ControlFlow::Continue(())
        };
        archive.export(session.id, take).unwrap();
    }
    all
}

pub(crate) fn reopened(folder: &tempfile::TempDir) -> Arc<dyn Archive> {
    Arc::new(SqliteArchive::open(folder.path().join("archive.db")).unwrap())
}

/// The id of the session of a name.
pub(crate) fn id_of(archive: &dyn Archive, session: &str) -> SessionId {
    let found = sessions(archive).into_iter().find(|info| info.name == session);
    found.unwrap_or_else(|| panic!("there is a session {session}")).id
}

/// Whose the session of a name is.
pub(crate) fn owner_of(archive: &dyn Archive, session: &str) -> Owner {
    archive.session(id_of(archive, session)).unwrap().unwrap().owner
}

/// All sessions, in the order of their names.
pub(crate) fn sessions(archive: &dyn Archive) -> Vec<SessionInfo> {
    let mut sessions = archive.sessions(None, Page::ALL).unwrap().items;
    sessions.sort_by(|one, other| one.name.cmp(&other.name));
    sessions
}

/// All batches of a session, oldest first.
pub(crate) fn batches(archive: &dyn Archive, session: &str) -> Vec<LoggedBatch> {
    let mut batches = archive.batches(id_of(archive, session), Page::ALL).unwrap().items;
    batches.reverse();
    batches
}

/// What a handle stands for in any session.
pub(crate) fn opened(archive: &dyn Archive, handle: Handle) -> Option<String> {
    let found = recall::open(archive, &Scope::All, handle).unwrap();
    found.map(|found| found.original.as_str().to_owned())
}

/// A log, and the lines that it has taken.
pub(crate) fn log() -> (LogSink, Arc<Mutex<Vec<String>>>) {
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let taken = Arc::clone(&lines);
    (Arc::new(move |line| taken.lock().unwrap().push(line.to_owned())), lines)
}

/// Waits until something is so; a minute without it is a failure, also on a busy machine.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..6_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("in a minute it never was: {what}");
}

/// All that was said on the newest path of a session.
pub(crate) fn told(archive: &dyn Archive, session: &str) -> Vec<String> {
    told_until(archive, session, None)
}

/// What was said on every path of a session.
pub(crate) fn told_on_paths(archive: &dyn Archive, session: &str) -> Vec<Vec<String>> {
    let entries = archive.entries(id_of(archive, session), 0..u64::MAX).unwrap();
    let is_last = |seq: &Seq| entries.iter().all(|entry| entry.parent != Some(*seq));
    let ends = entries.iter().map(|entry| entry.seq).filter(is_last);
    ends.map(|end| told_until(archive, session, Some(end))).collect()
}

fn told_until(archive: &dyn Archive, session: &str, head: Option<Seq>) -> Vec<String> {
    let entries = archive.path(id_of(archive, session), head, 0..u64::MAX).unwrap();
    entries.into_iter().map(|entry| entry.raw).collect()
}

/// The words of messages as an archive has them, one after the other.
pub(crate) fn words(path: &str, raws: &[String]) -> Vec<String> {
    let list = format!("[{}]", raws.join(","));
    let text = |part: &Part| match part {
        Part::Text(text) => text.decode().into_owned(),
        Part::Call(call) => format!("{}({})", call.name.decode(), call.id.decode()),
        Part::Result(result) => format!("-> {}", result.call.decode()),
        _ => String::new(),
    };
    let messages = read(list.into_bytes(), Some(dialect(path))).unwrap().messages;
    messages.iter().map(|message| message.parts.iter().map(text).collect()).collect()
}
