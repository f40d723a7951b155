//! Tools that Claude Code defers: what loads them survives a session that is shortened again and again.

use std::sync::{Arc, Mutex};

use longhand_testkit::scripted::{
    RecordedRequest, ScriptStep, ScriptedCall, ScriptedReply, ScriptedServer, ScriptedUsage,
};
use longhand_testkit::validate;
use serde_json::{Value, json};

use crate::agent::PublishedAgent;
use crate::request::wire;
use crate::task::LOGS;
use crate::workspace::Workspace;

const PROMPT: &str = "Task DT-5512: read all logs, then fetch the page.";

/// System prompt and tools take half of it, and a log a seventh.
const BUDGET: u64 = 48_000;

/// What the model is asked, and what was wrong with it.
#[derive(Default)]
struct SeenTurns {
    step: usize,
    faults: Vec<String>,
    /// Whether the request had what loads the tool, of all requests after that.
    loaded: Vec<bool>,
    deferred: usize,
    folded: usize,
}

impl SeenTurns {
    fn answer(&mut self, request: &RecordedRequest, defers: bool) -> ScriptStep {
        let Some(wire) = wire(&request.path).filter(|_| request.method == "POST") else {
            let kind = vec![("content-type", "application/json".into())];
            return ScriptStep::Raw(404, kind, "{}".to_owned());
        };
        if !request.body.contains("DT-5512") || !request.body.contains("\"Bash\"") {
            return said("A title", Vec::new());
        }
        self.faults.extend(validate(wire, &request.body));
        let body: Value = serde_json::from_str(&request.body).unwrap_or_default();
        let tools = body["tools"].as_array().cloned().unwrap_or_default();
        self.deferred += tools.iter().filter(|tool| tool["defer_loading"] == true).count();
        self.folded += usize::from(request.body.contains("[longhand fold "));
        let id = format!("toolu_{:04}_DT5512", self.step);
        self.step += 1;
        let call = |name: &str, arguments: Value| {
            vec![ScriptedCall { id: id.clone(), name: name.to_owned(), arguments }]
        };
        if defers && self.step == 1 {
            return said("I load it.", call("ToolSearch", json!({"query": "select:WebFetch"})));
        }
        self.loaded.push(body["messages"].to_string().contains(r#""type":"tool_reference""#));
        if self.step <= LOGS {
            let command = format!("sh check.sh {}", self.step);
            return said("Next.", call("Bash", json!({"command": command, "description": "log"})));
        }
        said("All logs are read.", Vec::new())
    }
}

fn said(text: &str, calls: Vec<ScriptedCall>) -> ScriptStep {
    let used = ScriptedUsage { input: 1_000, cached: 0, output: 50 };
    let (id, text) = (format!("reply_{}", calls.len()), text.to_owned());
    ScriptStep::Reply(ScriptedReply { id, text, calls, used })
}

fn check(defers: bool) {
    let Some(agent) = PublishedAgent::named("claude") else { return };
    let agent = agent.with_variable("ENABLE_TOOL_SEARCH", if defers { "true" } else { "false" });
    let workspace = Workspace::new();
    let seen = Arc::<Mutex<SeenTurns>>::default();
    let play = Arc::clone(&seen);
    let server = ScriptedServer::playing(200, move |request| {
        Some(play.lock().unwrap().answer(request, defers))
    });
    let url = server.url().trim_end_matches("/v1").to_owned();
    let ended = agent.run(&workspace, &url, (BUDGET, false), (PROMPT, ""), || false);
    assert_eq!(ended.status, Some(0), "{}", ended.output);
    let seen = seen.lock().unwrap();
    assert_eq!(seen.faults, Vec::<String>::new());
    assert!(seen.folded > 2, "it was shortened: {}", seen.folded);
    println!("claude: {} deferred tools, {} folded requests", seen.deferred, seen.folded);
    if defers {
        assert!(seen.deferred > 0 && seen.loaded.iter().all(|loaded| *loaded), "{:?}", seen.loaded);
    } else {
        assert!(seen.deferred == 0 && !seen.loaded.contains(&true));
    }
}

#[test]
fn claude() {
    check(true);
    check(false);
}
