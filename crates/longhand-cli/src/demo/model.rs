//! A model that plays a script, on loopback. Its prefix cache is a real one: what it reports as cached, it was sent before.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use longhand_core::Tokens;
use serde_json::{Value, json};

use super::story::{TITLE, TITLE_SYSTEM, Turn};

/// The model that is played: its counts and prices are known.
pub(crate) const MODEL: &str = "gpt-5-mini";

/// Providers cache prefixes in pieces of so many tokens.
const CACHED_PIECE: u64 = 128;
/// No request of the demo comes near it.
const BODY_BYTES_MAX: usize = 8 << 20;
const SILENCE: Duration = Duration::from_secs(10);

/// Counts the tokens of a text.
pub(crate) type Counter = Box<dyn Fn(&str) -> Tokens + Send>;

/// A model on loopback, until it is dropped.
pub(crate) struct ScriptedModel {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
}

struct Script {
    turns: std::vec::IntoIter<Turn>,
    calls: u64,
    /// The messages and tools of the newest request.
    newest: String,
    count: Counter,
}

impl ScriptedModel {
    /// Begins to listen.
    pub(crate) fn start(turns: Vec<Turn>, count: Counter) -> Result<Self> {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot listen on loopback")?;
        let address = listener.local_addr()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let script = Script { turns: turns.into_iter(), calls: 0, newest: String::new(), count };
        let script = Arc::new(Mutex::new(script));
        let over = Arc::clone(&is_over);
        thread::Builder::new().name("demo-model".to_owned()).spawn(move || {
            for stream in listener.incoming() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let script = Arc::clone(&script);
                // The proxy keeps its connections open, so each has a thread.
                thread::spawn(move || {
                    // A connection that ends early ends with its client, who tells.
                    let _ = serve(&stream, &script);
                });
            }
        })?;
        Ok(Self { address, is_over })
    }

    /// Its address, for the proxy.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for ScriptedModel {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // Wakes the thread that waits for a connection.
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(stream: &TcpStream, script: &Mutex<Script>) -> Result<()> {
    stream.set_write_timeout(Some(SILENCE))?;
    let mut reader = BufReader::new(stream);
    while let Some(body) = read_request(&mut reader)? {
        let request: Value = serde_json::from_str(&body).context("the request is no JSON")?;
        let answer =
            script.lock().unwrap_or_else(PoisonError::into_inner).answer(&request).to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            answer.len()
        );
        let mut out = stream;
        out.write_all((head + &answer).as_bytes())?;
    }
    Ok(())
}

/// Reads a request's body; `None` when the connection is over.
fn read_request(reader: &mut impl BufRead) -> Result<Option<String>> {
    let mut length = 0;
    let mut line = String::new();
    let mut is_first = true;
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        if line.trim().is_empty() && !is_first {
            break;
        }
        is_first = false;
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse::<usize>()?.min(BODY_BYTES_MAX);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some(String::from_utf8(body)?))
}

impl Script {
    fn answer(&mut self, request: &Value) -> Value {
        self.calls += 1;
        if request["messages"][0]["content"] == TITLE_SYSTEM {
            let input = (self.count)(&request["messages"].to_string()).0;
            return completion(
                self.calls,
                &json!({"role": "assistant", "content": TITLE}),
                input,
                0,
                6,
            );
        }
        let sent = format!("{}{}", request["tools"], request["messages"]);
        let same =
            sent.bytes().zip(self.newest.bytes()).take_while(|(one, other)| one == other).count();
        let input = (self.count)(&sent).0;
        let share = same as u64 * input / sent.len().max(1) as u64;
        let cached = share / CACHED_PIECE * CACHED_PIECE;
        self.newest = sent;
        let Some(turn) = self.turns.next() else {
            let message = json!({"role": "assistant", "content": "The demo is over."});
            return completion(self.calls, &message, input, cached, 5);
        };
        let mut message = json!({"role": "assistant", "content": turn.text});
        if let Some(call) = &turn.call {
            let function = json!({"name": call.tool, "arguments": call.arguments.to_string()});
            let id = format!("call_{}", self.calls);
            message["tool_calls"] = json!([{"id": id, "type": "function", "function": function}]);
        }
        let output = (self.count)(&message.to_string()).0;
        completion(self.calls, &message, input, cached, output)
    }
}

fn completion(number: u64, message: &Value, input: u64, cached: u64, output: u64) -> Value {
    let reason = if message["tool_calls"].is_array() { "tool_calls" } else { "stop" };
    json!({
        "id": format!("demo-{number}"), "object": "chat.completion", "created": 0, "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {
            "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output,
            "prompt_tokens_details": {"cached_tokens": cached},
        },
    })
}
