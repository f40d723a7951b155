//! A model server that answers at once, and remembers what it was sent.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The model that writes summaries.
pub(crate) const WRITER: &str = "writer";

/// What a question begins with.
pub(crate) fn asked(session: usize, turn: usize) -> String {
    format!("ask-{session}-{turn}-")
}

/// What an answer begins with.
pub(crate) fn replied(session: usize, turn: usize) -> String {
    format!("re-{session}-{turn}-")
}

pub(crate) fn answer(session: usize, turn: usize) -> String {
    format!("{} It is as you say, and there is more to it than that.", replied(session, turn))
}

/// The mark that a message has.
pub(crate) fn mark(raw: &str) -> Option<String> {
    let at = raw.find("ask-").or_else(|| raw.find("re-"))?;
    let end = raw[at..].match_indices('-').nth(2)?.0;
    Some(raw[at..=at + end].to_owned())
}

/// The session of a mark.
pub(crate) fn session_of(mark: &str) -> Option<usize> {
    mark.split('-').nth(1)?.parse().ok()
}

/// What was sent of a session.
#[derive(Default)]
struct Sent {
    newest: Vec<String>,
    /// The number that the client gave that request.
    number: u64,
    breaks: usize,
    at: Option<Instant>,
}

pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    sent: Arc<Mutex<HashMap<usize, Sent>>>,
    /// How often a model was asked to summarise each question.
    written: Arc<Mutex<HashMap<String, usize>>>,
}

impl Upstream {
    /// Starts a server for as long as the test runs.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let sent: Arc<Mutex<HashMap<usize, Sent>>> = Arc::default();
        let written: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
        let (taking, writing) = (Arc::clone(&sent), Arc::clone(&written));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (sent, written) = (Arc::clone(&taking), Arc::clone(&writing));
                // A node that is killed does not hear the rest.
                thread::spawn(move || while matches!(serve(&stream, &sent, &written), Ok(true)) {});
            }
        });
        Self { address, sent, written }
    }

    /// How often the beginning of what was sent before changed.
    pub(crate) fn breaks(&self, session: usize) -> usize {
        self.sent.lock().unwrap().get(&session).map_or(0, |sent| sent.breaks)
    }

    /// How many questions were summarised, and those that were paid for more than once.
    pub(crate) fn written(&self) -> (usize, Vec<String>) {
        let written = self.written.lock().unwrap();
        let twice = written.iter().filter(|(_, times)| **times > 1).map(|(mark, _)| mark.clone());
        (written.len(), twice.collect())
    }

    /// The messages that were sent last.
    pub(crate) fn newest(&self, session: usize) -> Vec<String> {
        self.sent.lock().unwrap()[&session].newest.clone()
    }

    /// When a request of a session came last.
    pub(crate) fn called_at(&self, session: usize) -> Option<Instant> {
        self.sent.lock().unwrap().get(&session)?.at
    }
}

/// Answers one request; whether another one may come.
fn serve(
    stream: &TcpStream,
    sent: &Mutex<HashMap<usize, Sent>>,
    written: &Mutex<HashMap<String, usize>>,
) -> std::io::Result<bool> {
    stream.set_read_timeout(Some(Duration::from_secs(300)))?;
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") {
        let begin = head.len();
        if reader.read_line(&mut head)? == 0 {
            return Ok(false);
        }
        let line = head[begin..].to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let at = Instant::now();
    let request: Value = serde_json::from_slice(&body)?;
    let messages: Vec<String> =
        request["messages"].as_array().into_iter().flatten().map(Value::to_string).collect();
    if request["model"] == WRITER {
        let text = messages.concat();
        let marks = text.match_indices("ask-").filter_map(|(at, _)| mark(&text[at..]));
        let marks: std::collections::BTreeSet<String> = marks.collect();
        for mark in marks {
            *written.lock().unwrap().entry(mark).or_default() += 1;
        }
        thread::sleep(Duration::from_millis(200));
        return respond(stream, "Goal: to go on.\nDone: what was asked for.");
    }
    let newest = messages.last().and_then(|message| mark(message)).unwrap_or_default();
    let mut numbers = newest.split('-').skip(1).filter_map(|number| number.parse().ok());
    let (session, turn) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let number = request["seed"].as_u64().unwrap_or_default();
    note(&mut sent.lock().unwrap(), session, (number, messages), at);
    respond(stream, &answer(session, turn))
}

fn respond(mut stream: &TcpStream, text: &str) -> std::io::Result<bool> {
    let said = json!({"id": "c", "object": "chat.completion", "model": "odd", "choices": [{"index": 0, "finish_reason": "stop",
        "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}})
    .to_string();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{said}",
        said.len()
    )?;
    Ok(true)
}

fn note(
    all: &mut HashMap<usize, Sent>,
    session: usize,
    (number, messages): (u64, Vec<String>),
    at: Instant,
) {
    let sent = all.entry(session).or_default();
    // What a node sent before it was killed may be read after what another one sent instead.
    if number < sent.number {
        return;
    }
    sent.number = number;
    let goes_on = messages.starts_with(&sent.newest) || sent.newest.starts_with(&messages);
    sent.breaks += usize::from(!goes_on);
    (sent.newest, sent.at) = (messages, Some(at));
}
