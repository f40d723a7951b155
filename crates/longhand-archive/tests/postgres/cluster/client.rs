//! Conversations of clients, and their requests.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use longhand_testkit::filler;
use longhand_testkit::rng::Rng;
use serde_json::{Value, json};

use super::upstream;

/// The keys of callers, which all nodes know.
pub(crate) const KEYS: [&str; 2] = ["key-of-the-first-caller", "key-of-the-second-caller"];

/// A conversation, as far as its client was answered.
pub(crate) struct Conversation {
    pub(crate) number: usize,
    turns: usize,
    messages: Vec<Value>,
    /// How many requests were made.
    tries: usize,
}

impl Conversation {
    pub(crate) fn new(number: usize) -> Self {
        Self { number, turns: 0, messages: Vec::new(), tries: 0 }
    }

    /// The body of a request with the next question.
    pub(crate) fn ask(&mut self, rng: &mut Rng) -> String {
        let words = filler::words(rng.range(120..260), (self.number * 1_000 + self.turns) as u64);
        let mark = upstream::asked(self.number, self.turns);
        self.messages.push(json!({"role": "user", "content": format!("{mark} {words}")}));
        self.request()
    }

    /// The body of the next request; each has a number of its own.
    pub(crate) fn request(&mut self) -> String {
        self.tries += 1;
        json!({"model": "odd", "max_tokens": 100, "seed": self.tries, "messages": self.messages})
            .to_string()
    }

    /// The same with a question that fits into any window.
    pub(crate) fn ask_briefly(&mut self) -> String {
        let mark = upstream::asked(self.number, self.turns);
        self.messages.push(json!({"role": "user", "content": format!("{mark} And?")}));
        self.request()
    }

    /// Takes note of the answer.
    pub(crate) fn answered(&mut self) {
        let text = upstream::answer(self.number, self.turns);
        self.messages.push(json!({"role": "assistant", "content": text}));
        self.turns += 1;
    }

    /// What was acknowledged, in order.
    pub(crate) fn marks(&self) -> Vec<String> {
        let turn =
            |turn| [upstream::asked(self.number, turn), upstream::replied(self.number, turn)];
        (0..self.turns).flat_map(turn).collect()
    }
}

/// Posts a request; `Ok` if its answer came to its end.
pub(crate) fn post(address: &str, of: &Conversation, body: &str) -> Result<(), String> {
    let said = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect(address).map_err(said)?;
    stream.set_read_timeout(Some(Duration::from_secs(30))).map_err(said)?;
    // Some conversations are named by their client, the others are found by what was said.
    let name = match of.number % 3 {
        0 => format!("x-longhand-session: named-{}\r\n", of.number),
        _ => String::new(),
    };
    write!(
        stream,
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         authorization: Bearer {}\r\n{name}content-length: {}\r\nconnection: close\r\n\r\n{body}",
        KEYS[of.number % 2],
        body.len()
    )
    .map_err(said)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(said)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("no head")?;
    if head.starts_with("HTTP/1.1 200") && serde_json::from_str::<Value>(body).is_ok() {
        return Ok(());
    }
    Err(format!("{head}\n{body}"))
}
