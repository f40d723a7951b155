//! One request on its way: understood, made to fit, sent, and answered.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::BoxError;
use axum::body::{Body, BodyDataStream, Bytes};
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use futures_util::{StreamExt, TryStreamExt, stream};
use longhand_dialect::decode;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::answer::{Chunks, Listener, Passing};
use crate::asked::Asked;
use crate::metrics::Bypass;
use crate::proxy::Shared;
use crate::recall::{self, Again};
use crate::recovery::{Peeked, peek};
use crate::route::{Caller, Route};
use crate::trail::Trail;
use crate::upstream::{Provider, Upstream};
use crate::window::{Window, lock};
use crate::{envelope, headers};

/// How often a request that was too long is shortened and sent again.
const RETRIES: usize = 2;

/// How long a window waits until its new batch is durable.
const BATCH_TIME_MAX: Duration = Duration::from_millis(50);

/// Why a request is refused that must be archived.
const NOT_ARCHIVED: &str = "Longhand could not archive the request, and must";

/// Smaller requests are understood at once; handing them to another thread would take longer.
const HERE_BYTES_MAX: usize = 64 << 10;

/// One request on its way.
pub(crate) struct Passage<'s> {
    pub(crate) shared: &'s Arc<Shared>,
    pub(crate) provider: Provider,
    pub(crate) upstream: &'s Upstream,
    pub(crate) parts: Parts,
    pub(crate) trail: Trail,
}

/// A text whose bytes are sent.
struct Shown(Arc<String>);

impl AsRef<[u8]> for Shown {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// What came of a body.
enum Collected {
    Whole(Vec<u8>),
    /// More than is looked into; the rest is still to come.
    Beginning(Bytes),
}

impl Passage<'_> {
    /// Passes a request on as it is.
    pub(crate) async fn pass(mut self, body: Option<reqwest::Body>) -> Response<Body> {
        match self.send(headers::onward(&self.parts.headers), body).await {
            Ok(response) => {
                let (head, rest) = split(response);
                self.trail.status(head.status);
                head.answer(Passing::new(Vec::new(), rest, self.trail))
            }
            Err(error) => error,
        }
    }

    /// Passes a body on as it comes, as far as it may go.
    pub(crate) async fn pass_stream(self, body: BodyDataStream) -> Response<Body> {
        let most = self.shared.settings.body_bytes_max;
        if number(&self.parts.headers, &CONTENT_LENGTH).is_some_and(|length| length > most) {
            return self.refuse(StatusCode::PAYLOAD_TOO_LARGE, "the request is too large");
        }
        let mut bytes = 0_u64;
        let (provider, exceeded) = (self.provider, Arc::new(AtomicBool::new(false)));
        let exceeds = Arc::clone(&exceeded);
        let limited = body.map_err(BoxError::from).and_then(move |chunk| {
            bytes += chunk.len() as u64;
            let fits = bytes <= most;
            exceeds.fetch_or(!fits, Ordering::Relaxed);
            std::future::ready(if fits {
                Ok(chunk)
            } else {
                Err("the request is too large".into())
            })
        });
        let response = self.pass(Some(reqwest::Body::wrap_stream(limited))).await;
        // An upstream may close the connection before it is told why the request broke off.
        if exceeded.load(Ordering::Relaxed) && response.status() == StatusCode::BAD_GATEWAY {
            let message = "the request is too large";
            return envelope::error(provider, StatusCode::PAYLOAD_TOO_LARGE, message);
        }
        response
    }

    /// Sends a conversation within its budget, and again if it is still too long.
    pub(crate) async fn converse(
        mut self,
        route: Route,
        mut body: BodyDataStream,
    ) -> Response<Body> {
        let (bytes, text) = match self.collect(&mut body).await {
            Ok(Collected::Whole(bytes)) => self.read(bytes),
            Ok(Collected::Beginning(_)) if self.shared.settings.require_archive => {
                let message = "the request is too large to be archived, and must be";
                return self.refuse(StatusCode::PAYLOAD_TOO_LARGE, message);
            }
            Ok(Collected::Beginning(bytes)) => {
                self.trail.bypassed(Bypass::TooLarge);
                let rest = stream::iter([Ok(bytes)]).chain(body);
                let body = Body::from_stream(rest).into_data_stream();
                return bypassed(self.pass_stream(body).await);
            }
            Err((status, message)) => return self.refuse(status, message),
        };
        let as_is = self.parts.headers.contains_key(headers::BYPASS);
        let route = Route { as_is, ..route };
        let prepared = match text {
            Some(text) => self.prepare(route, text).await,
            None => Err(Bypass::Unreadable),
        };
        let (asked, mut window) = match prepared {
            Ok(prepared) => prepared,
            Err(_) if self.shared.settings.require_archive => {
                return self.refuse(StatusCode::SERVICE_UNAVAILABLE, NOT_ARCHIVED);
            }
            Err(why) => {
                self.trail.bypassed(why);
                self.trail.added();
                return bypassed(self.pass(Some(bytes.into())).await);
            }
        };
        self.trail.added();
        let mut retries = 0;
        loop {
            // What a window leaves out is archived before it is sent, that of a smaller one, too.
            let is_kept = self.kept(&asked).await;
            if self.shared.settings.require_archive && !(is_kept && archived(&asked).await) {
                return self.refuse(StatusCode::SERVICE_UNAVAILABLE, NOT_ARCHIVED);
            }
            let onward = headers::onward_readable(&self.parts.headers, &window);
            let body = window.body.clone().unwrap_or_else(|| bytes.clone());
            let sent = Instant::now();
            let response = match self.send(onward, Some(body.into())).await {
                Ok(response) => response,
                Err(error) => return error,
            };
            self.trail.answered(sent.elapsed().as_secs_f64());
            let (mut head, mut rest) = split(response);
            let in_events = is_events(&head.headers);
            let length = number(&head.headers, &CONTENT_LENGTH);
            let Peeked { mut held, overflow } =
                peek(head.status, in_events, length, route.dialect, &mut rest).await;
            if let Some(overflow) = overflow
                && retries < RETRIES
                && !route.as_is
            {
                retries += 1;
                let (windows, own) = (Arc::clone(&self.shared.windows), Arc::clone(&asked));
                let sent = window.clone();
                let harder = spawn_blocking(move || windows.harder(&own, &sent, overflow));
                if let Ok(Ok(Some(smaller))) = timeout(self.shared.settings.deadline, harder).await
                {
                    self.shared.metrics.recovered.inc();
                    window = smaller;
                    continue;
                }
            }
            if asked.recalls
                && head.status.is_success()
                && !route.counts
                && let Some(again) = self.again(&asked, &window)
            {
                (head, held, rest) = recall::answered(again, (head, held, rest)).await;
            }
            self.trail.add("retries", retries);
            self.trail.window(&window);
            self.trail.name("model", asked.model());
            self.trail.name("session", asked.session_name().unwrap_or_default());
            self.trail.status(head.status);
            let notice = self.shared.windows.notice(&asked, &window);
            if let Some(notice) = &notice {
                self.trail.warned(notice);
            }
            let notice = notice.and_then(|notice| HeaderValue::try_from(notice).ok());
            let is_answer = head.status.is_success() && !route.counts;
            let windows = &self.shared.windows;
            let listener =
                is_answer.then(|| Listener::new(&asked, window.clone(), windows, in_events));
            let passing = Passing::new(held, rest, self.trail);
            let waits = self.shared.settings.require_archive;
            let mut response = head.answer(passing.heard_by(listener, waits));
            tell(response.headers_mut(), &asked, &window);
            if let Some(notice) = notice {
                response.headers_mut().insert(headers::NOTICE, notice);
            }
            return response;
        }
    }

    /// Answers in the place of the upstream.
    pub(crate) fn refuse(mut self, status: StatusCode, message: &str) -> Response<Body> {
        self.trail.refused(message);
        self.trail.status(status);
        envelope::error(self.provider, status, message)
    }

    /// Reads the body, as far as it is looked into.
    async fn collect(
        &self,
        body: &mut BodyDataStream,
    ) -> Result<Collected, (StatusCode, &'static str)> {
        let settings = &self.shared.settings;
        let length = number(&self.parts.headers, &CONTENT_LENGTH).unwrap_or(0);
        let mut bytes = Vec::with_capacity(length.min(1 << 20) as usize);
        loop {
            let chunk = match timeout(settings.client_silence, body.next()).await {
                Ok(None) => return Ok(Collected::Whole(bytes)),
                Ok(Some(Ok(chunk))) => chunk,
                Ok(Some(Err(_))) => {
                    return Err((StatusCode::BAD_REQUEST, "the request could not be read"));
                }
                Err(_) => {
                    return Err((StatusCode::REQUEST_TIMEOUT, "the request did not come in time"));
                }
            };
            bytes.extend_from_slice(&chunk);
            if bytes.len() > settings.request_bytes_max {
                return Ok(Collected::Beginning(bytes.into()));
            }
        }
    }

    /// The body as it came, and as a text if it is one.
    fn read(&self, body: Vec<u8>) -> (Bytes, Option<Arc<String>>) {
        let coding = self.parts.headers.get(CONTENT_ENCODING);
        let Some(coding) = coding.filter(|coding| *coding != "identity") else {
            return match String::from_utf8(body) {
                Ok(text) => {
                    let text = Arc::new(text);
                    (Bytes::from_owner(Shown(Arc::clone(&text))), Some(text))
                }
                Err(error) => (error.into_bytes().into(), None),
            };
        };
        let most = self.shared.settings.request_bytes_max as u64;
        let plain = coding.to_str().ok().and_then(|coding| decode(&body, coding, most).ok());
        let text = plain.and_then(|plain| String::from_utf8(plain).ok()).map(Arc::new);
        (body.into(), text)
    }

    /// Understands a request and makes its window, unless that fails or takes too long.
    async fn prepare(
        &self,
        route: Route,
        text: Arc<String>,
    ) -> Result<(Arc<Asked>, Window), Bypass> {
        let windows = Arc::clone(&self.shared.windows);
        let caller = Caller::of(&self.parts.headers);
        let knows = self.upstream.knows_options;
        if text.len() <= HERE_BYTES_MAX {
            let text = Arc::clone(&text);
            let work = || windows.prepare(route, text, &caller, knows, false);
            match catch_unwind(AssertUnwindSafe(work)) {
                Ok(Ok(Some((asked, window)))) => return Ok((Arc::new(asked), window)),
                Ok(Ok(None)) => {}
                Ok(Err(_)) => return Err(Bypass::Unreadable),
                Err(_) => return Err(Bypass::Panicked),
            }
        }
        let work = spawn_blocking(move || windows.prepare(route, text, &caller, knows, true));
        match timeout(self.shared.settings.deadline, work).await {
            Ok(Ok(Ok(Some((asked, window))))) => Ok((Arc::new(asked), window)),
            Ok(Ok(Ok(None) | Err(_))) => Err(Bypass::Unreadable),
            Ok(Err(_)) => Err(Bypass::Panicked),
            Err(_) => Err(Bypass::Late),
        }
    }

    /// Waits until a new batch is durable, so that its handles open; not for ever unless it must be.
    async fn kept(&self, asked: &Asked) -> bool {
        let Some(ticket) = lock(&asked.batch_ticket).take() else { return true };
        if self.shared.settings.require_archive {
            return ticket.await == Ok(true);
        }
        let is_kept = matches!(timeout(BATCH_TIME_MAX, ticket).await, Ok(Ok(true)));
        if !is_kept {
            self.shared.metrics.late.inc();
        }
        is_kept
    }

    /// How a request can be sent once more.
    fn again(&self, asked: &Arc<Asked>, window: &Window) -> Option<Again> {
        Some(Again {
            client: self.upstream.client.clone(),
            method: self.parts.method.clone(),
            address: self.upstream.address(&self.parts.uri)?,
            headers: headers::onward_readable(&self.parts.headers, window),
            asked: Arc::clone(asked),
            window: window.clone(),
            windows: Arc::clone(&self.shared.windows),
            deadline: self.shared.settings.deadline,
        })
    }

    /// Sends a request on; if that fails, there is an answer of ours.
    async fn send(
        &mut self,
        headers: HeaderMap,
        body: Option<reqwest::Body>,
    ) -> Result<reqwest::Response, Response<Body>> {
        let Some(address) = self.upstream.address(&self.parts.uri) else {
            let message = "the path is not one of the upstream's";
            return Err(self.failed(StatusCode::BAD_REQUEST, message));
        };
        let mut request =
            self.upstream.client.request(self.parts.method.clone(), address).headers(headers);
        if let Some(body) = body {
            request = request.body(body);
        }
        request.send().await.map_err(|error| {
            if error.is_timeout() {
                self.failed(StatusCode::GATEWAY_TIMEOUT, "the upstream does not answer")
            } else if broke_off(&error) {
                self.failed(StatusCode::PAYLOAD_TOO_LARGE, "the request is too large or broke off")
            } else {
                self.failed(StatusCode::BAD_GATEWAY, "the upstream cannot be reached")
            }
        })
    }

    fn failed(&mut self, status: StatusCode, message: &str) -> Response<Body> {
        self.trail.status(status);
        self.trail.name("error", message);
        envelope::error(self.provider, status, message)
    }
}

/// Whether it is the client's body that ended a request.
fn broke_off(error: &reqwest::Error) -> bool {
    let mut sources = std::iter::successors(std::error::Error::source(error), |own| own.source());
    sources.any(|own| own.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_user))
}

/// Waits until all that a request brought is archived; says whether it is.
async fn archived(asked: &Asked) -> bool {
    let tickets = std::mem::take(&mut *lock(&asked.tickets));
    for ticket in tickets {
        let Some(ticket) = ticket else { return false };
        if ticket.await != Ok(true) {
            return false;
        }
    }
    true
}

/// The head of an answer.
pub(crate) struct Head {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
}

impl Head {
    fn answer(self, body: Passing) -> Response<Body> {
        let mut response = Response::new(Body::from_stream(body));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}

pub(crate) fn split(response: reqwest::Response) -> (Head, Chunks) {
    let head = Head { status: response.status(), headers: headers::end_to_end(response.headers()) };
    (head, response.bytes_stream().map_err(BoxError::from).boxed())
}

pub(crate) fn is_events(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.trim_start().to_ascii_lowercase().starts_with("text/event-stream")
}

fn number(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}

fn bypassed(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(headers::OUTCOME, HeaderValue::from_static("bypassed"));
    response
}

/// Says in the headers of an answer what was done.
fn tell(headers: &mut HeaderMap, asked: &Asked, window: &Window) {
    let outcome = if window.is_compacted() { "compacted" } else { "passed" };
    headers.insert(headers::OUTCOME, HeaderValue::from_static(outcome));
    if let Some(Ok(session)) = asked.session_name().map(HeaderValue::from_str) {
        headers.insert(headers::SESSION, session);
    }
    headers.insert(headers::EDITS, window.edits.into());
    let shortfall = Some(window.shortfall).filter(|shortfall| shortfall.0 > 0);
    for (name, tokens) in [
        (headers::BEFORE, window.before),
        (headers::AFTER, window.after),
        (headers::SHORTFALL, shortfall),
    ] {
        if let Some(tokens) = tokens {
            headers.insert(name, tokens.0.into());
        }
    }
}
