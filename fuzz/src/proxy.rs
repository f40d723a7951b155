//! Requests on their way through the proxy.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode};
use longhand::{MemoryArchive, Tokens};
use longhand_model::http::{HttpClient, full};
use longhand_server::{Proxy, Settings, serve};
use longhand_testkit::scripted::{RecordedRequest, ScriptStep, ScriptedServer};
use longhand_testkit::{WireFormat, validate};
use tokio::runtime::Runtime;

/// With the first one, everything fits.
const BUDGETS: [u64; 4] = [1_000_000, 2_000, 400, 60];

/// How many requests a proxy gets before the next one takes over: its archive is in memory.
const REQUESTS_MAX: u64 = 1_000;

/// The longest that a request may take.
const TIME_MAX: Duration = Duration::from_secs(20);

/// Headers that would say where the request ends, or whose it is.
const NOT_SET: [&str; 9] = [
    "authorization",
    "connection",
    "content-length",
    "expect",
    "host",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// What a client sends.
struct Case<'b> {
    wire: WireFormat,
    budget: usize,
    path: String,
    headers: HeaderMap,
    body: &'b [u8],
}

/// What came of a request.
struct Outcome {
    status: StatusCode,
    headers: HeaderMap,
    /// What the upstream got.
    sent: Option<RecordedRequest>,
}

/// Where the body begins: after the first empty line.
pub fn body_start(bytes: &[u8]) -> usize {
    bytes.windows(2).position(|pair| pair == b"\n\n").map_or(bytes.len(), |at| at + 2)
}

/// Sends bytes through the proxy as a request, twice.
///
/// The first byte chooses the format and the budget. A line that begins with a slash is the path, the
/// others up to an empty one are headers; all else is the body.
pub fn proxy(bytes: &[u8]) {
    thread_local!(static STAGE: RefCell<Option<Stage>> = const { RefCell::new(None) });
    let Some(case) = Case::of(bytes) else { return };
    STAGE.with_borrow_mut(|stage| {
        if stage.as_ref().is_none_or(|stage| stage.requests >= REQUESTS_MAX) {
            if let Some(stage) = stage.take() {
                stage.stop();
            }
            *stage = Some(Stage::new());
        }
        if let Some(stage) = stage {
            stage.requests += 1;
            let first = stage.send(&case);
            case.check(&first);
            let second = stage.send(&case);
            case.check(&second);
            let body = |outcome: Outcome| outcome.sent.map(|sent| sent.body);
            assert_eq!(body(first), body(second), "asked again, the window is another");
        }
    });
}

impl<'b> Case<'b> {
    fn of(bytes: &'b [u8]) -> Option<Self> {
        let start = body_start(bytes);
        let (head, body) = bytes.split_at(start);
        let (choice, head) = head.split_first()?;
        let wire = WireFormat::ALL[usize::from(choice % 3)];
        let budget = usize::from(choice / 3) % BUDGETS.len();
        let mut case =
            Self { wire, budget, path: path_of(wire).to_owned(), headers: HeaderMap::new(), body };
        for line in head.split(|byte| *byte == b'\n') {
            if line.starts_with(b"/") {
                case.path = String::from_utf8_lossy(line).into_owned();
            } else if let Some(at) = line.iter().position(|byte| *byte == b':') {
                case.set(&line[..at], &line[at + 1..]);
            }
        }
        Some(case)
    }

    fn set(&mut self, name: &[u8], value: &[u8]) {
        let name = HeaderName::from_bytes(name);
        let value = HeaderValue::from_bytes(value.trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value)
            && !NOT_SET.contains(&name.as_str())
            && !name.as_str().contains("key")
        {
            self.headers.append(name, value);
        }
    }

    /// What must hold, whatever was sent.
    fn check(&self, outcome: &Outcome) {
        let Outcome { status, headers, sent } = outcome;
        let is_plain = self.headers.is_empty() && self.path == path_of(self.wire);
        let Some(sent) = sent else {
            assert!(!is_plain, "a request is refused: {status} {headers:?}");
            assert!(!status.is_success(), "nobody was asked, and it is {status}");
            return;
        };
        let body = String::from_utf8_lossy(self.body);
        let is_encoded = self.headers.contains_key(CONTENT_ENCODING);
        if !is_plain && (is_encoded || self.path != path_of(self.wire)) {
            return;
        }
        // Options that have a provider shorten what it holds are ours to follow.
        let has_options =
            ["context_management", "truncation", "previous_response_id", "conversation"]
                .iter()
                .any(|option| body.contains(option));
        let edits = headers.get("x-longhand-edits").map(HeaderValue::as_bytes);
        if !has_options && (self.budget == 0 || edits == Some(b"0")) {
            assert_eq!(sent.body, body, "what fits is changed: {headers:?}");
        }
        let was_valid = str::from_utf8(self.body).is_ok() && validate(self.wire, &body).is_empty();
        if was_valid {
            let broken = validate(self.wire, &sent.body);
            assert_eq!(broken, [""; 0], "the valid stays valid: {}", sent.body);
        }
    }
}

fn path_of(wire: WireFormat) -> &'static str {
    match wire {
        WireFormat::Chat => "/v1/chat/completions",
        WireFormat::Responses => "/v1/responses",
        WireFormat::Anthropic => "/v1/messages",
    }
}

/// An answer that does not say what it cost: a proxy would learn from that.
fn answer_to(path: &str) -> &'static str {
    if path.ends_with("/responses") {
        r#"{"id":"r","status":"completed","output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Done."}]}]}"#
    } else if path.ends_with("/messages") {
        r#"{"type":"message","role":"assistant","content":[{"type":"text","text":"Done."}],"stop_reason":"end_turn"}"#
    } else {
        r#"{"choices":[{"message":{"role":"assistant","content":"Done."},"finish_reason":"stop"}]}"#
    }
}

/// A proxy for each budget, before a server that answers whatever it is asked.
struct Stage {
    runtime: Runtime,
    proxies: Vec<Proxy>,
    client: HttpClient,
    sent: Arc<Mutex<Option<RecordedRequest>>>,
    requests: u64,
    _upstream: ScriptedServer,
}

impl Stage {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap_or_else(|error| panic!("{error}"));
        let sent = Arc::new(Mutex::new(None));
        let heard = Arc::clone(&sent);
        let upstream = ScriptedServer::playing(usize::MAX, move |request| {
            *heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(request.clone());
            let kind = vec![("content-type", "application/json".to_owned())];
            Some(ScriptStep::Raw(200, kind, answer_to(&request.path).to_owned()))
        });
        let proxies = BUDGETS.map(|budget| {
            let mut settings = Settings::new(Arc::new(MemoryArchive::default()));
            settings.listen.set_port(0);
            settings.upstream_openai = Some(upstream.url());
            settings.upstream_anthropic = Some(upstream.url());
            settings.budget = Some(Tokens(budget));
            // A slow machine is no finding.
            settings.deadline = TIME_MAX;
            let proxy = runtime.block_on(serve(settings));
            proxy.unwrap_or_else(|error| panic!("{error}"))
        });
        let client = HttpClient::new(TIME_MAX, TIME_MAX);
        let proxies = proxies.into_iter().collect();
        Self { runtime, proxies, client, sent, requests: 0, _upstream: upstream }
    }

    /// Sends a request; every case has a key of its own, so that no case meets what another one left.
    fn send(&self, case: &Case) -> Outcome {
        let address = self.proxies[case.budget].address();
        let key = format!("Bearer case-{}", self.requests);
        let request = Request::post(format!("http://{address}{}", case.path))
            .header("authorization", key)
            .header(CONTENT_TYPE, "application/json")
            .body(full(case.body.to_vec()));
        let Ok(mut request) = request else {
            return Outcome {
                status: StatusCode::BAD_REQUEST,
                headers: HeaderMap::new(),
                sent: None,
            };
        };
        request.headers_mut().extend(case.headers.clone());
        let (status, headers) = self.runtime.block_on(async {
            let answer = self.client.send(request, TIME_MAX).await;
            let answer = answer.unwrap_or_else(|error| panic!("there is no answer: {error}"));
            let (head, body) = answer.into_parts();
            // An answer that breaks off is passed on as such.
            let _ = body.bytes().await;
            (head.status, head.headers)
        });
        let sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner).take();
        Outcome { status, headers, sent }
    }

    fn stop(self) {
        let proxies = self.proxies;
        self.runtime.block_on(async {
            for proxy in proxies {
                proxy.stop().await;
            }
        });
    }
}
