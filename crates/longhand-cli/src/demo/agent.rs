//! The agent of the demo: it sends its whole conversation with each request, as agents do.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::model::MODEL;
use super::story::{self, Turn};

const SILENCE: Duration = Duration::from_secs(30);

/// An agent that works behind a proxy.
pub(crate) struct DemoAgent {
    proxy: SocketAddr,
    messages: Vec<Value>,
}

impl DemoAgent {
    pub(crate) fn new(proxy: SocketAddr) -> Self {
        Self { proxy, messages: vec![json!({"role": "system", "content": story::SYSTEM})] }
    }

    /// Plays one turn: what the user says, what the model answers, and the result of the tool that it calls.
    pub(crate) fn play(&mut self, turn: &Turn) -> Result<()> {
        if !turn.user.is_empty() {
            self.messages.push(json!({"role": "user", "content": turn.user}));
        }
        let body = json!({"model": MODEL, "tools": story::tools(), "messages": self.messages});
        let mut answer = self.send(&body)?;
        let message = answer["choices"][0]["message"].take();
        let id = message["tool_calls"][0]["id"].clone();
        self.messages.push(message);
        if let Some(call) = &turn.call {
            self.messages.push(json!({"role": "tool", "tool_call_id": id, "content": call.result}));
        }
        Ok(())
    }

    /// Asks for a title, as agents do beside the conversation.
    pub(crate) fn ask_title(&self) -> Result<()> {
        let messages = [
            json!({"role": "system", "content": story::TITLE_SYSTEM}),
            // The first message is the system prompt.
            self.messages.get(1).cloned().unwrap_or_default(),
        ];
        self.send(&json!({"model": MODEL, "messages": messages})).map(drop)
    }

    fn send(&self, body: &Value) -> Result<Value> {
        let body = body.to_string();
        let mut stream = TcpStream::connect(self.proxy).context("the proxy of the demo is gone")?;
        stream.set_read_timeout(Some(SILENCE))?;
        // HTTP/1.0 knows no answers in pieces: all of one comes until the connection ends.
        let head = format!(
            "POST /v1/chat/completions HTTP/1.0\r\nhost: {}\r\nuser-agent: demo-agent/1\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.proxy,
            body.len()
        );
        stream.write_all((head + &body).as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let Some((head, body)) = answer.split_once("\r\n\r\n") else {
            bail!("the proxy sent half an answer")
        };
        if head.split(' ').nth(1) != Some("200") {
            bail!("the proxy answered: {}", head.lines().next().unwrap_or_default());
        }
        serde_json::from_str(body).context("the answer is no JSON")
    }
}
