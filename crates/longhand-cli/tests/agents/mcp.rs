//! Real agents that find `longhand mcp` in their settings and use it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhand_testkit::scripted::{
    RecordedRequest, ScriptStep, ScriptedCall, ScriptedReply, ScriptedServer, ScriptedUsage,
};
use serde_json::{Value, json};

use crate::agent::PublishedAgent;
use crate::request::wire;
use crate::workspace::Workspace;

/// What an earlier session says, and what the agent is asked.
const KNOWN: &str = "The port of the parser is 4141.";
const PROMPT: &str = "Task MC-1199: which port did we choose for the parser in an earlier session?";
/// What only a session of another project says.
const FOREIGN: &str = "The port of the lexer is 5151.";

const REQUESTS_MAX: usize = 60;

/// What the model got to see.
#[derive(Debug, Default)]
struct SeenAnswers {
    tools: Vec<String>,
    /// What the calls of each tool answered: the last request that has it.
    found: String,
    read: String,
}

/// A model that searches, reads what it found, and searches for its own task.
struct McpPlay {
    seen: Arc<Mutex<SeenAnswers>>,
    /// Whether the server shows the agent's own session alone.
    is_own: bool,
}

impl McpPlay {
    fn answer(&self, request: &RecordedRequest) -> ScriptStep {
        if request.method != "POST" || wire(&request.path).is_none() {
            let body = r#"{"object":"list","data":[]}"#.to_owned();
            let status = if request.path.contains("/models") { 200 } else { 404 };
            let kind = vec![("content-type", "application/json".into())];
            return ScriptStep::Raw(status, kind, body);
        }
        let body: Value = serde_json::from_str(&request.body).unwrap_or_default();
        let mut seen = self.seen.lock().unwrap();
        let search = tool(&body, "search");
        let read = tool(&body, "read");
        let (Some(search), Some(read)) = (search, read) else { return said("No such tool.") };
        if !request.body.contains("MC-1199") {
            return said("A title");
        }
        seen.tools = vec![search.to_string(), read.to_string()];
        let query = if self.is_own { "MC-1199" } else { "port of the parser" };
        if let Some(found) = result(&body, "call_search_0001") {
            if let Some(answer) = result(&body, "call_read_0002") {
                seen.read = answer;
                return said("It is 4141.");
            }
            let handle = found.split(|c: char| !(c.is_alphanumeric() || c == ':'));
            let handle = handle.into_iter().find(|word| word.len() > 12 && word.contains(':'));
            let handle = handle.unwrap_or("none").to_owned();
            seen.found = found;
            return calls(&read, "call_read_0002", json!({"handle": handle}));
        }
        if self.is_own {
            // The proxy archives a request within 100 ms; no real model answers sooner.
            std::thread::sleep(Duration::from_secs(2));
        }
        calls(&search, "call_search_0001", json!({"query": query}))
    }
}

/// A tool of our server, as the client calls it; some clients keep tools of a server together.
fn tool(body: &Value, name: &str) -> Option<Value> {
    let tools = body["tools"].as_array()?;
    let is_ours =
        |full: &str| full.contains("longhand") && full != "longhand_recall" && full.ends_with(name);
    for tool in tools {
        let full = tool["name"].as_str().unwrap_or_default();
        if is_ours(full) {
            return Some(json!({"name": full}));
        }
        let inner = tool["tools"].as_array().into_iter().flatten();
        let mut inner = inner.filter_map(|inner| inner["name"].as_str());
        if full.contains("longhand") && inner.any(|inner| inner == name) {
            return Some(json!({"name": name, "namespace": full}));
        }
    }
    None
}

/// What a call answered, wherever the format has it.
fn result(value: &Value, id: &str) -> Option<String> {
    let is_result = |fields: &serde_json::Map<String, Value>| {
        let of = ["tool_use_id", "call_id", "tool_call_id"]
            .iter()
            .any(|key| fields.get(*key) == Some(&json!(id)));
        of && fields.get("type") != Some(&json!("function_call"))
    };
    match value {
        Value::Object(fields) if is_result(fields) => {
            let content = fields.get("content").or(fields.get("output"))?;
            Some(content.as_str().map_or_else(|| content.to_string(), str::to_owned))
        }
        Value::Object(fields) => fields.values().find_map(|value| result(value, id)),
        Value::Array(values) => values.iter().find_map(|value| result(value, id)),
        _ => None,
    }
}

fn said(text: &str) -> ScriptStep {
    reply(text, Vec::new())
}

fn calls(tool: &Value, id: &str, arguments: Value) -> ScriptStep {
    let name = tool["name"].as_str().unwrap_or_default().to_owned();
    if tool["namespace"].is_string() {
        return call_within(tool, id, &arguments);
    }
    reply("I look it up.", vec![ScriptedCall { id: id.to_owned(), name, arguments }])
}

/// A call of a tool that its client keeps together with others, as Responses streams it.
fn call_within(tool: &Value, id: &str, arguments: &Value) -> ScriptStep {
    let item = json!({"type": "function_call", "id": "item_1", "status": "completed", "call_id": id,
        "name": tool["name"], "namespace": tool["namespace"], "arguments": arguments.to_string()});
    let usage = json!({"input_tokens": 1_000, "output_tokens": 50, "total_tokens": 1_050});
    let response = json!({"id": format!("resp_{id}"), "object": "response", "status": "completed",
        "output": [item], "usage": usage});
    let begun = json!({"id": format!("resp_{id}"), "object": "response", "status": "in_progress", "output": []});
    let events = [
        json!({"type": "response.created", "response": begun}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": item}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        json!({"type": "response.completed", "response": response}),
    ];
    let event = |event: &Value| {
        format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
    };
    let kind = vec![("content-type", "text/event-stream".to_owned())];
    ScriptStep::Raw(200, kind, events.iter().map(event).collect())
}

fn reply(text: &str, calls: Vec<ScriptedCall>) -> ScriptStep {
    let used = ScriptedUsage { input: 1_000, cached: 0, output: 50 };
    ScriptStep::Reply(ScriptedReply {
        id: "reply_1".to_owned(),
        text: text.to_owned(),
        calls,
        used,
    })
}

/// Imports a session of a project, as Claude Code writes it.
fn import(workspace: &Workspace, name: &str, project: &str, words: &str) {
    let line = |role: &str, text: &str, parent: Option<&str>, id: &str| {
        json!({"type": role, "uuid": id, "parentUuid": parent, "sessionId": name, "cwd": project,
            "version": "2.0.0", "timestamp": "2026-11-15T19:29:00.000Z",
            "message": {"role": role, "content": text}})
    };
    let asked = line("user", "What is the port?", None, "a1");
    let answered = line("assistant", words, Some("a1"), "a2");
    let file = workspace.home().join(format!("{name}.jsonl"));
    std::fs::write(&file, format!("{asked}\n{answered}\n")).unwrap();
    let (imported, said) = workspace.longhand(&["import", file.to_str().unwrap(), "--id", name]);
    assert!(imported, "{said}");
}

fn play(agent: &PublishedAgent, scope: &str) -> SeenAnswers {
    let workspace = Workspace::new();
    import(&workspace, "earlier", workspace.project().to_str().unwrap(), KNOWN);
    import(&workspace, "elsewhere", "/somewhere/else", FOREIGN);
    for folder in [".claude", ".codex"] {
        std::fs::create_dir_all(workspace.home().join(folder)).unwrap();
    }
    let install = ["mcp", "install", agent.name, "--yes", "--scope", scope];
    let (installed, said) = workspace.longhand(&install);
    assert!(installed, "{said}");
    let seen = Arc::<Mutex<SeenAnswers>>::default();
    let play = McpPlay { seen: Arc::clone(&seen), is_own: scope == "session" };
    let server = ScriptedServer::playing(REQUESTS_MAX, move |request| Some(play.answer(request)));
    let url = server.url().trim_end_matches("/v1").to_owned();
    let ended = agent.run(&workspace, &url, (1_000_000, false), (PROMPT, ""), || false);
    if let Some(folder) = std::env::var_os("LONGHAND_AGENTS_KEEP") {
        for (number, request) in server.requests().iter().enumerate() {
            let name = format!("mcp-{}-{scope}-{number:03}.json", agent.name);
            std::fs::write(std::path::Path::new(&folder).join(name), &request.body).unwrap();
        }
    }
    assert_eq!(ended.status, Some(0), "{}", ended.output);
    drop(server);
    std::mem::take(&mut *seen.lock().unwrap())
}

fn check(name: &'static str) {
    let Some(agent) = PublishedAgent::named(name) else { return };
    let seen = play(&agent, "project");
    assert!(seen.found.contains(KNOWN), "{seen:#?}");
    assert!(seen.read.contains("entry") && seen.read.contains("port"), "{seen:#?}");
    assert!(!seen.found.contains("5151"), "a session of another project: {seen:#?}");
    println!("{name}: found and used {:?}", seen.tools);
}

#[test]
fn claude() {
    check("claude");
    // It tells its servers which session they serve.
    let Some(agent) = PublishedAgent::named("claude") else { return };
    let seen = play(&agent, "session");
    assert!(seen.found.contains("MC-1199") && !seen.found.contains("4141"), "{seen:#?}");
    println!("claude: found its own session");
}

#[test]
fn codex() {
    check("codex");
}
