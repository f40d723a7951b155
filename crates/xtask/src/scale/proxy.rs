//! The first request of an old session after the proxy was restarted.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use super::measure::{children_ms, end};
use super::operations::Stage;
use crate::failure::Failure;

/// How often the proxy is restarted.
const RUNS: usize = 5;
/// How long it takes until what is done after an answer is done.
const AT_REST: Duration = Duration::from_millis(400);

const ANSWER: &str = r#"{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"gpt-4.1","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10}}"#;

/// Processor time of the first request with so many bytes of a session that an earlier proxy has seen.
pub(super) fn first_request(stage: &Stage<'_>, size: usize) -> Result<f64, Failure> {
    let upstream = upstream()?;
    let conversation = Conversation::of(size);
    let archive = stage.folder().join("proxy.db");
    let _ = fs::remove_file(&archive);
    let mut costs = Vec::new();
    for run in 0..=RUNS {
        let idle = run_once(stage, &upstream, None)?;
        let busy = run_once(stage, &upstream, Some(&conversation.request(run)))?;
        // The first one brings the session.
        if run > 0 {
            costs.push((busy - idle).max(0.0));
        }
    }
    costs.sort_by(f64::total_cmp);
    Ok(costs[costs.len() / 2])
}

/// Starts a proxy, perhaps sends it a request, and ends it; returns its processor time.
fn run_once(stage: &Stage<'_>, upstream: &str, request: Option<&str>) -> Result<f64, Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("the proxy: {error}"));
    let before = children_ms();
    let mut command = stage.command();
    command.args(["serve", "--upstream", upstream, "--listen", "127.0.0.1:0", "--archive"]);
    command.arg(stage.folder().join("proxy.db"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let sent = match address(&mut child) {
        Some(address) => request.map_or(Ok(()), |request| send(&address, request)).map_err(failed),
        None => Err(Failure::new("the proxy did not say where it listens")),
    };
    thread::sleep(AT_REST);
    end(&mut child);
    sent?;
    Ok(children_ms() - before)
}

/// Reads from what the proxy prints where it listens.
fn address(child: &mut Child) -> Option<String> {
    let out = child.stdout.take()?;
    let err = child.stderr.take()?;
    let (tell, told) = std::sync::mpsc::channel();
    for stream in [Box::new(out) as Box<dyn Read + Send>, Box::new(err)] {
        let tell = tell.clone();
        thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                if let Some((_, rest)) = line.split_once("http://127.0.0.1:") {
                    let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
                    let _ = tell.send(format!("127.0.0.1:{port}"));
                }
            }
        });
    }
    told.recv_timeout(Duration::from_secs(20)).ok()
}

fn send(address: &str, body: &str) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_mins(1)))?;
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         authorization: Bearer none\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    if answer.starts_with("HTTP/1.1 200") {
        return Ok(());
    }
    Err(std::io::Error::other(answer.lines().next().unwrap_or_default().to_owned()))
}

/// A model that always says the same; it ends with this program.
fn upstream() -> Result<String, Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("a port: {error}"));
    let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || answer(&stream));
        }
    });
    Ok(format!("http://{address}"))
}

fn answer(stream: &TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let line = line.trim().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.is_empty() {
            break;
        }
    }
    std::io::copy(&mut reader.take(length), &mut std::io::sink()).ok()?;
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        ANSWER.len()
    );
    let mut stream = stream;
    stream.write_all(format!("{head}{ANSWER}").as_bytes()).ok()
}

/// A conversation of a given size, which goes on by a question at a time.
struct Conversation {
    messages: Vec<String>,
}

impl Conversation {
    fn of(size: usize) -> Self {
        let mut messages = Vec::new();
        let mut bytes = 0;
        while bytes < size {
            let number = messages.len();
            let text: String =
                (0..150).map(|word| format!("word{} ", (number * 31 + word * 7) % 5_000)).collect();
            let role = if number % 2 == 0 { "user" } else { "assistant" };
            let message = format!(r#"{{"role":"{role}","content":"{number} {text}"}}"#);
            bytes += message.len();
            messages.push(message);
        }
        Self { messages }
    }

    /// The request after so many more rounds.
    fn request(&self, rounds: usize) -> String {
        let later = (0..rounds).flat_map(|round| {
            [("assistant", "ok".to_owned()), ("user", format!("question {round}"))]
                .map(|(role, text)| format!(r#"{{"role":"{role}","content":"{text}"}}"#))
        });
        let mut messages = self.messages.clone();
        if messages.len().is_multiple_of(2) {
            messages.pop();
        }
        messages.extend(later);
        format!(r#"{{"model":"gpt-4.1","messages":[{}]}}"#, messages.join(","))
    }
}
