//! A proxy in front of a scripted server.
#![allow(dead_code, clippy::unwrap_used)]

use std::sync::Arc;

use longhand::{Archive, MemoryArchive, Tokens};
use longhand_server::{Proxy, Settings, serve};
use longhand_testkit::scripted::{ScriptedServer, Step};
use serde_json::{Value, json};

pub(crate) struct Stage {
    pub(crate) server: ScriptedServer,
    pub(crate) archive: Arc<MemoryArchive>,
    pub(crate) proxy: Proxy,
    pub(crate) client: reqwest::Client,
}

impl Stage {
    pub(crate) async fn new(budget: Option<u64>, steps: impl IntoIterator<Item = Step>) -> Self {
        Self::with(steps, |settings| settings.budget = budget.map(Tokens)).await
    }

    pub(crate) async fn with(
        steps: impl IntoIterator<Item = Step>,
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
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .unwrap();
        Self { server, archive, proxy, client }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.proxy.address())
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> reqwest::Response {
        let request = self.client.post(self.url(path)).header("authorization", "Bearer k");
        let request = request.header("content-type", "application/json");
        request.body(body.to_owned()).send().await.unwrap()
    }

    /// The bodies that the upstream got.
    pub(crate) fn sent(&self) -> Vec<String> {
        self.server.requests().into_iter().map(|request| request.body).collect()
    }

    /// Stops the proxy and gives every archived session as its raw messages.
    pub(crate) async fn archived(self) -> Vec<(String, Vec<String>)> {
        self.proxy.stop().await;
        let sessions = self.archive.sessions().unwrap();
        let entries = |id: &str| self.archive.entries(id, 0..u64::MAX).unwrap();
        sessions
            .into_iter()
            .map(|own| {
                let said = entries(&own.id).into_iter().filter(|entry| {
                    // Not what the ledger says of itself.
                    !matches!(entry.form.as_str(), "note" | "call")
                });
                (own.id, said.map(|entry| entry.raw).collect())
            })
            .collect()
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
