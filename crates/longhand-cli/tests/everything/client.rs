//! Clients that talk through proxies, and note what they were acknowledged.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use longhand_testkit::filler;
use longhand_testkit::rng::Rng;
use serde_json::{Value, json};

use crate::upstream;

/// A question and its answer that a client got complete.
#[derive(Clone, Debug)]
pub(crate) struct CompleteTurn {
    pub(crate) number: usize,
    /// What the proxy called the session.
    pub(crate) session: String,
    pub(crate) at_ms: i64,
    /// What the proxy said of itself, if anything.
    pub(crate) notice: Option<String>,
}

/// A conversation of one client.
pub(crate) struct ClientConversation {
    path: &'static str,
    name: Option<String>,
    messages: Vec<Value>,
}

impl ClientConversation {
    pub(crate) fn new(rng: &mut Rng, number: usize) -> Self {
        let path = *rng.choose(&["/v1/chat/completions", "/v1/messages", "/v1/responses"]);
        let name = rng.chance(0.3).then(|| format!("named-{number}"));
        Self { path, name, messages: Vec::new() }
    }

    pub(crate) fn is_long(&self) -> bool {
        self.messages.len() > 24
    }

    /// Asks question `number`; returns the turn if it was answered completely.
    pub(crate) fn ask(
        &mut self,
        rng: &mut Rng,
        number: usize,
        address: &str,
    ) -> Option<CompleteTurn> {
        let words = filler::words(rng.range(20..900), number as u64);
        let question = json!({"role": "user", "content": format!("ask-{number}- {words}")});
        self.messages.push(question);
        let list = if self.path == "/v1/responses" { "input" } else { "messages" };
        let body = json!({"model": "odd", "max_tokens": 100, list: self.messages, "stream": rng.chance(0.5)});
        let Some((session, notice)) = self.post(address, &body.to_string()) else {
            // It says something else instead.
            self.messages.pop();
            return None;
        };
        let text = upstream::answer_as_read(number);
        self.messages.push(match self.path {
            "/v1/responses" => json!({"type": "message", "role": "assistant",
                "content": [{"type": "output_text", "text": text}]}),
            "/v1/messages" => {
                json!({"role": "assistant", "content": [{"type": "text", "text": text}]})
            }
            _ => json!({"role": "assistant", "content": text}),
        });
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Some(CompleteTurn { number, session, at_ms: since.as_millis() as i64, notice })
    }

    /// Posts a request; the session and the notice of an answer that came to its end.
    fn post(&self, address: &str, body: &str) -> Option<(String, Option<String>)> {
        let mut stream = TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(Duration::from_mins(1))).ok()?;
        let name = self.name.as_ref().map(|name| format!("x-longhand-session: {name}\r\n"));
        let (path, name, length) = (self.path, name.unwrap_or_default(), body.len());
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\nauthorization: Bearer k\r\n{name}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
        )
        .ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        let header = |name: &str| {
            let value = |line: &str| {
                let (found, value) = line.split_once(':')?;
                found.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
            };
            head.lines().find_map(value)
        };
        let body = &answer[end + 4..];
        let is_whole = match header("content-length") {
            Some(length) => body.len().to_string() == length,
            None => header("transfer-encoding").is_some() && body.ends_with(b"0\r\n\r\n"),
        };
        if !head.starts_with("HTTP/1.1 200") || !is_whole {
            return None;
        }
        Some((header("x-longhand-session").unwrap_or_default(), header("x-longhand-notice")))
    }
}
