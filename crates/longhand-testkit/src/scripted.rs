//! A model server that plays a script.

mod reply;
mod wire;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

pub use self::reply::{ScriptedCall, ScriptedReply, ScriptedUsage};
use self::wire::AnswerFormat;
pub use self::wire::{USAGE_INPUT, USAGE_OUTPUT};

/// What the server does with one request.
///
/// The path decides which of the three formats an answer is in, and the request whether it is streamed.
#[derive(Clone, Debug)]
pub enum ScriptStep {
    /// Answers with a text.
    Answer(String),
    /// Answers in full, with calls of tools if there are any.
    Reply(ScriptedReply),
    /// Answers with more text than it was sent.
    Longer,
    /// Answers with a text, little by little, with pauses.
    Drip(String, Duration),
    /// Declines to answer, in the way of the format.
    Refuse(String),
    /// Wants fewer requests: status 429, perhaps with `Retry-After`.
    Limited(Option<String>),
    /// Fails with a status and an error in JSON.
    Status(u16),
    /// Says that the prompt is too long, in the way of the format.
    TooLong {
        /// The most tokens.
        limit: u64,
        /// The tokens that it counted.
        asked: u64,
    },
    /// Status 200 with an error in the body or stream.
    ErrorBody(String),
    /// Never answers.
    Hang,
    /// Sends the first half of an answer and closes the connection.
    Cut(String),
    /// Closes the connection without a word.
    Drop,
    /// Status 200 and the right type, but nothing that can be read.
    Garbage,
    /// Status 200 and nothing at all.
    Empty,
    /// A page for people.
    Page,
    /// Points to another address.
    Redirect(String),
    /// A status, headers and a body, as they are.
    Raw(u16, Vec<(&'static str, String)>, String),
}

/// A request that came in.
#[derive(Clone, Debug)]
pub struct RecordedRequest {
    /// The method.
    pub method: String,
    /// The path.
    pub path: String,
    /// The headers, their names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

impl RecordedRequest {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// How long a connection may take, so that a test that hangs ends.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(20);

/// The most requests that a server takes.
const REQUESTS_MAX: usize = 2_000;

/// A server on a port of its own that plays its steps in order, one for each request.
///
/// When the script is over, every further request fails with status 410.
pub struct ScriptedServer {
    address: SocketAddr,
    shared: Arc<ServerState>,
    thread: Option<JoinHandle<()>>,
}

/// Says what is done with a request.
type ModelScript = Box<dyn FnMut(&RecordedRequest) -> Option<ScriptStep> + Send>;

struct ServerState {
    model: Mutex<ModelScript>,
    requests_max: usize,
    requests: Mutex<Vec<RecordedRequest>>,
    ended: AtomicBool,
}

impl ScriptedServer {
    /// Starts a server.
    pub fn start(steps: impl IntoIterator<Item = ScriptStep>) -> Self {
        let mut steps = steps.into_iter().collect::<Vec<_>>().into_iter();
        Self::playing(REQUESTS_MAX, move |_| steps.next())
    }

    /// Starts a server that looks at each request before it answers; requests are taken one by one.
    ///
    /// After `requests_max` requests, or where there is no answer, every further one fails with status 410.
    pub fn playing(
        requests_max: usize,
        model: impl FnMut(&RecordedRequest) -> Option<ScriptStep> + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("a bound port");
        let shared = Arc::new(ServerState {
            model: Mutex::new(Box::new(model)),
            requests_max,
            requests: Mutex::default(),
            ended: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            for stream in listener.incoming() {
                if accepting.ended.load(Ordering::SeqCst) {
                    break;
                }
                let shared = Arc::clone(&accepting);
                if let Ok(stream) = stream {
                    thread::spawn(move || {
                        // A client that goes away is part of many scripts.
                        let _ = shared.serve(stream);
                    });
                }
            }
        });
        Self { address, shared, thread: Some(thread) }
    }

    /// The base address, up to `/v1`.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.requests.lock().expect("no test panics here").clone()
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl ServerState {
    fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        stream.set_read_timeout(Some(CONNECTION_TIME_MAX))?;
        stream.set_write_timeout(Some(CONNECTION_TIME_MAX))?;
        let Some(request) = read_request(&stream)? else { return Ok(()) };
        let step = {
            // Both in one go, so that the nth request gets the nth step.
            let mut requests = self.requests.lock().expect("no test panics here");
            let mut model = self.model.lock().expect("no test panics here");
            let step = if requests.len() < self.requests_max { model(&request) } else { None };
            requests.push(request.clone());
            step
        };
        let step = step.unwrap_or_else(|| {
            let body = r#"{"error":{"message":"the script is over"}}"#;
            ScriptStep::Raw(410, vec![("content-type", "application/json".into())], body.into())
        });
        self.play(&step, &request, &mut stream)
    }

    fn play(
        &self,
        step: &ScriptStep,
        request: &RecordedRequest,
        out: &mut TcpStream,
    ) -> std::io::Result<()> {
        let wire = AnswerFormat::of(request);
        match step {
            ScriptStep::Answer(text) => {
                whole(out, 200, &[], &wire.content_type(), &wire.answer(text))
            }
            ScriptStep::Reply(reply) => {
                whole(out, 200, &[], &wire.content_type(), &wire.reply(reply))
            }
            ScriptStep::Longer => {
                let text = format!("{} ", "and so on,".repeat(20).replace(' ', "-"));
                let text = text.repeat(request.body.len() / 100 + 10);
                whole(out, 200, &[], &wire.content_type(), &wire.answer(&text))
            }
            ScriptStep::Drip(text, pause) => {
                let body = wire.answer(text);
                head(out, 200, &[], &wire.content_type(), Some(body.len()))?;
                let size = body.len().div_ceil(8).max(1);
                for piece in body.as_bytes().chunks(size) {
                    out.write_all(piece)?;
                    out.flush()?;
                    self.wait(*pause);
                }
                Ok(())
            }
            ScriptStep::Refuse(text) => {
                whole(out, 200, &[], &wire.content_type(), &wire.refusal(text))
            }
            ScriptStep::Limited(retry_after) => {
                let headers: Vec<(&str, String)> =
                    retry_after.iter().map(|after| ("retry-after", after.clone())).collect();
                whole(out, 429, &headers, JSON, &wire.error("rate_limit_error", "slow down"))
            }
            ScriptStep::Status(status) => {
                whole(out, *status, &[], JSON, &wire.error("server_error", "out of order"))
            }
            ScriptStep::TooLong { limit, asked } => {
                whole(out, 400, &[], JSON, &wire.too_long(*limit, *asked))
            }
            ScriptStep::ErrorBody(message) => {
                whole(out, 200, &[], &wire.content_type(), &wire.error_in_answer(message))
            }
            ScriptStep::Hang => {
                self.wait(CONNECTION_TIME_MAX);
                Ok(())
            }
            ScriptStep::Cut(text) => {
                let body = wire.answer(text);
                head(out, 200, &[], &wire.content_type(), Some(body.len()))?;
                out.write_all(&body.as_bytes()[..body.len() / 2])
            }
            ScriptStep::Drop => Ok(()),
            ScriptStep::Garbage => {
                let body = "\u{1}\u{2} not { json ] at all\n\ndata: neither this\n\n";
                whole(out, 200, &[], &wire.content_type(), body)
            }
            ScriptStep::Empty => whole(out, 200, &[], &wire.content_type(), ""),
            ScriptStep::Page => {
                whole(out, 200, &[], "text/html", "<html><body>Welcome</body></html>")
            }
            ScriptStep::Redirect(url) => {
                whole(out, 307, &[("location", url.clone())], "text/plain", "elsewhere")
            }
            ScriptStep::Raw(status, headers, body) => whole(out, *status, headers, "", body),
        }
    }

    /// Waits, unless the server is over.
    fn wait(&self, time: Duration) {
        let end = Instant::now() + time;
        while !self.ended.load(Ordering::SeqCst) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            thread::sleep(left.min(Duration::from_millis(10)));
        }
    }
}

const JSON: &str = "application/json";

fn read_request(stream: &TcpStream) -> std::io::Result<Option<RecordedRequest>> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.trim_end().split_once(':') {
            headers.push((name.to_lowercase(), value.trim().to_owned()));
        }
    }
    let mut recorded = RecordedRequest { method, path, headers, body: String::new() };
    let length = recorded.header("content-length").and_then(|length| length.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    recorded.body = String::from_utf8_lossy(&body).into_owned();
    Ok(Some(recorded))
}

fn head(
    out: &mut TcpStream,
    status: u16,
    headers: &[(&str, String)],
    content_type: &str,
    length: Option<usize>,
) -> std::io::Result<()> {
    let mut text = format!("HTTP/1.1 {status} scripted\r\nconnection: close\r\n");
    if !content_type.is_empty() {
        text.push_str(&format!("content-type: {content_type}\r\n"));
    }
    if let Some(length) = length {
        text.push_str(&format!("content-length: {length}\r\n"));
    }
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    out.write_all(format!("{text}\r\n").as_bytes())
}

fn whole(
    out: &mut TcpStream,
    status: u16,
    headers: &[(&str, String)],
    content_type: &str,
    body: &str,
) -> std::io::Result<()> {
    // A stream has no length; the others do.
    let length = (content_type != wire::EVENTS).then_some(body.len());
    head(out, status, headers, content_type, length)?;
    out.write_all(body.as_bytes())
}
