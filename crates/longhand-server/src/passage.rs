//! One request on its way: understood, made to fit, sent, and answered.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use http_body_util::{BodyExt, Either};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Response, StatusCode};
use longhand::time;
use longhand_dialect::{DialectError, decode_within};
use longhand_model::http::{self, HttpError, RequestBody};
use tokio::task::spawn_blocking;
use tokio::time::{timeout, timeout_at};

use crate::answer::{Body, Chunk, Chunks, Passing};
use crate::asked::{Asked, Purpose};
use crate::client::Client;
use crate::limited::Limited;
use crate::listener::{AnswerKind, Listener};
use crate::load::Share;
use crate::lock::lock;
use crate::log_line::LogLine;
use crate::metrics::Bypass;
use crate::proxy::Shared;
use crate::recall::{self, Again};
use crate::recovery::{Peeked, peek};
use crate::route::{Caller, Route};
use crate::upstream::{Provider, Upstream};
use crate::window::{Kept, Sender, Window};
use crate::{envelope, headers, memo, upstream};

/// How often a request that was too long is shortened and sent again.
const RETRIES: usize = 2;

/// Why a request is refused that must be archived.
const NOT_ARCHIVED: &str = "Longhand could not archive the request, and must";

/// Why a request is refused that would have to wait for too long.
const TOO_MUCH_TO_ARCHIVE: &str = "Longhand has more to archive than it may hold";

/// How often a window is made anew when other processes edit its session at the same time.
const CONFLICTS_MAX: usize = 8;

/// Why a request is refused that would take too much memory.
const TOO_MUCH: &str = "Longhand holds as much of requests as it may";

/// How much of a body must come in the time in which a client may be silent.
const PACE_BYTES: usize = 64 << 10;

/// The most that is set aside for a body before any of it has come; pages count once they are written.
const RESERVED_BYTES_MAX: u64 = 2 << 20;

/// Smaller requests are understood at once; handing them to another thread would take longer.
const HERE_BYTES_MAX: usize = 64 << 10;

/// One request on its way.
pub(crate) struct Passage<'s> {
    pub(crate) shared: &'s Arc<Shared>,
    pub(crate) provider: Provider,
    pub(crate) upstream: &'s Upstream,
    pub(crate) parts: Parts,
    pub(crate) caller: Caller,
    /// The memory that it takes.
    pub(crate) share: Arc<Share>,
    pub(crate) log_line: LogLine,
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
    pub(crate) async fn pass(mut self, body: RequestBody) -> Response<Body> {
        match self.send(headers::onward(&self.parts.headers), body).await {
            Ok(response) => {
                let (head, rest) = split(response);
                self.log_line.upstream_status(head.status);
                head.answer(Passing::new(Vec::new(), rest, self.log_line))
            }
            Err(error) => error,
        }
    }

    /// Passes a body on as it comes, as far as it may go, after what was read of it.
    pub(crate) async fn pass_stream(self, begun: Option<Bytes>, rest: Incoming) -> Response<Body> {
        let most = self.shared.settings.body_bytes_max;
        if number(&self.parts.headers, &CONTENT_LENGTH).is_some_and(|length| length > most) {
            return self.refuse(StatusCode::PAYLOAD_TOO_LARGE, "the request is too large");
        }
        let (provider, limited) = (self.provider, Limited::new(begun, rest, most));
        let is_exceeded = limited.is_exceeded();
        let response = self.pass(http::boxed(limited)).await;
        // An upstream may close the connection before it is told why the request broke off.
        if is_exceeded.load(Ordering::Relaxed) && response.status() == StatusCode::BAD_GATEWAY {
            let message = "the request is too large";
            return envelope::error(provider, StatusCode::PAYLOAD_TOO_LARGE, message);
        }
        response
    }

    /// Sends a conversation within its budget, and again if it is still too long.
    pub(crate) async fn converse(mut self, route: Route, mut body: Incoming) -> Response<Body> {
        let has = |name: HeaderName| self.parts.headers.contains_key(name);
        let as_is = has(headers::BYPASS);
        let forgets = self.shared.settings.no_archive || has(headers::NO_ARCHIVE);
        let is_taken = route.counts || forgets || self.has_room().await;
        if !is_taken && (self.shared.settings.require_archive || self.archive_works()) {
            return self.refuse(StatusCode::SERVICE_UNAVAILABLE, TOO_MUCH_TO_ARCHIVE);
        }
        let (bytes, text) = match self.collect(&mut body).await {
            Ok(Collected::Whole(bytes)) => self.read(bytes).await,
            Ok(Collected::Beginning(_)) if self.shared.settings.require_archive => {
                let message = "the request is too large to be archived, and must be";
                return self.refuse(StatusCode::PAYLOAD_TOO_LARGE, message);
            }
            Ok(Collected::Beginning(bytes)) => {
                self.bypass(Bypass::TooLarge, !route.counts && !forgets);
                return bypassed(self.pass_stream(Some(bytes), body).await);
            }
            Err((status, message)) => return self.refuse(status, message),
        };
        if forgets && self.shared.settings.require_archive {
            return self.refuse(StatusCode::FORBIDDEN, "Longhand must archive every request");
        }
        let route = Route { as_is, forgets, ..route };
        let prepared = match &text {
            Ok(text) => self.prepare(route, text, is_taken).await,
            Err(why) => Err(*why),
        };
        let (mut asked, mut window) = match prepared {
            Ok(prepared) => prepared,
            Err(_) if self.shared.settings.require_archive => {
                return self.refuse(StatusCode::SERVICE_UNAVAILABLE, NOT_ARCHIVED);
            }
            Err(why) => {
                self.bypass(why, !route.counts && !forgets);
                self.log_line.added();
                let body = self.share.with(bytes);
                return bypassed(self.pass(http::full(body)).await);
            }
        };
        let mut conflicts = 0;
        while self.shared.windows.kept(&asked).await == Kept::Refused {
            // Another process has edited the session, or undone an edit: the window is made anew from there.
            let again = match &text {
                Ok(text) if conflicts < CONFLICTS_MAX && self.archive_works() => {
                    self.prepare(route, text, is_taken).await.ok()
                }
                _ => None,
            };
            conflicts += 1;
            match again {
                Some(again) => (asked, window) = again,
                None if self.shared.settings.require_archive => {
                    return self.refuse(StatusCode::SERVICE_UNAVAILABLE, NOT_ARCHIVED);
                }
                None => {
                    self.shared.metrics.late.inc();
                    break;
                }
            }
        }
        self.log_line.added();
        let mut retries = 0;
        loop {
            // What a window leaves out is archived before it is sent, that of a smaller one, too.
            let is_kept = self.shared.windows.is_kept(&asked).await;
            if self.shared.settings.require_archive && !(is_kept && archived(&asked).await) {
                return self.refuse(StatusCode::SERVICE_UNAVAILABLE, NOT_ARCHIVED);
            }
            let onward = headers::onward_readable(&self.parts.headers, &window);
            let body = window.body.clone().unwrap_or_else(|| bytes.clone());
            let sent = Instant::now();
            let response = match self.send(onward, http::full(body)).await {
                Ok(response) => response,
                Err(error) => return error,
            };
            self.log_line.answered(sent.elapsed().as_secs_f64());
            let (mut head, mut rest) = split(response);
            let kind = AnswerKind::of(&head.headers);
            let length = number(&head.headers, &CONTENT_LENGTH);
            let Peeked { mut held, overflow } =
                peek(head.status, &kind, length, &asked, &mut rest).await;
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
            self.log_line.add("retries", retries);
            self.log_line.window(&window);
            self.log_line.name("model", asked.model());
            self.log_line.name("session", asked.session_name().unwrap_or_default());
            self.log_line.upstream_status(head.status);
            let is_answer =
                head.status.is_success() && !route.counts && asked.purpose != Purpose::Untaken;
            let kind = AnswerKind::of(&head.headers);
            let windows = &self.shared.windows;
            let foreseen = || {
                let is_whole = is_all(&head.headers, &held);
                let why = kind.foreseen(asked.dialect(), &held, is_whole).filter(|_| is_answer)?;
                Some(format!("this answer cannot be read, or not all of it: {why}"))
            };
            let notice = windows.notice(&asked, &window).or_else(foreseen);
            if let Some(notice) = &notice {
                self.log_line.warned(notice);
                let session = asked.session_name().unwrap_or_default();
                self.shared.warnings.once(&format!("session {session}: {notice}"));
            }
            let notices = notice.into_iter().chain(self.archive_notice(&asked));
            let notice = notices.collect::<Vec<_>>().join("; ");
            let notice = HeaderValue::try_from(notice).ok().filter(|notice| !notice.is_empty());
            let listener =
                is_answer.then(|| Listener::new(&asked, window.clone(), self.shared, kind));
            let passing = Passing::new(held, rest, self.log_line);
            let waits = self.shared.settings.require_archive;
            let length = number(&head.headers, &CONTENT_LENGTH);
            let mut response = head.answer(passing.heard_by(listener, length, waits));
            tell(response.headers_mut(), &asked, &window);
            if let Some(notice) = notice {
                response.headers_mut().insert(headers::NOTICE, notice);
            }
            return response;
        }
    }

    /// Waits until the archive has room for what a request brings; says whether it has.
    async fn has_room(&self) -> bool {
        self.shared.windows.store.room(self.shared.settings.archive_wait).await
    }

    /// Whether the archive takes what it is given.
    fn archive_works(&self) -> bool {
        self.shared.windows.store.trouble().is_none()
    }

    /// What to tell a user of an archive that takes nothing.
    fn archive_notice(&self, asked: &Asked) -> Option<String> {
        let trouble = self.shared.look_after_archive();
        if asked.purpose == Purpose::Untaken {
            return Some(
                "this request and its answer are not archived: the archive takes nothing"
                    .to_owned(),
            );
        }
        let since = time::format(trouble.filter(|_| asked.is_recorded())?.since_ms);
        Some(format!(
            "the archive takes nothing since {since}; what is said is kept in memory until it does"
        ))
    }

    /// Takes note that a request goes on as it is, and whether words are lost by that.
    fn bypass(&mut self, why: Bypass, is_lost: bool) {
        self.log_line.bypassed(why);
        self.shared.warnings.once(&format!(
            "a request was passed on as it was: {}",
            match why {
                Bypass::TooLarge => "it is larger than what is looked into",
                Bypass::Unreadable => "it could not be read as a conversation",
                Bypass::Late => "our part took too long",
                Bypass::Panicked => "our part failed",
                Bypass::NotTheOwner => "its session belongs to another key",
            }
        ));
        if is_lost {
            let client = Client::of(&self.parts.headers, &self.shared.settings);
            let owner = self.caller.owner();
            self.shared.windows.store.bypassed(owner, client);
        }
    }

    /// Answers in the place of the upstream.
    pub(crate) fn refuse(mut self, status: StatusCode, message: &str) -> Response<Body> {
        self.log_line.refused(message);
        self.log_line.status(status);
        envelope::error(self.provider, status, message)
    }

    /// Reads the body, as far as it is looked into.
    async fn collect(&self, body: &mut Incoming) -> Result<Collected, (StatusCode, &'static str)> {
        let settings = &self.shared.settings;
        let length = number(&self.parts.headers, &CONTENT_LENGTH).unwrap_or(0);
        if !self.share.may_grow(length.min(settings.request_bytes_max as u64)) {
            return Err((StatusCode::SERVICE_UNAVAILABLE, TOO_MUCH));
        }
        let reserved = length.min(RESERVED_BYTES_MAX) as usize;
        let mut bytes = self.shared.windows.load.buffers.take(reserved);
        let mut due = Instant::now() + settings.client_silence;
        let mut awaited = PACE_BYTES;
        loop {
            let frame = match timeout_at(due.into(), body.frame()).await {
                Ok(None) => return Ok(Collected::Whole(bytes)),
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(_))) => {
                    return Err((StatusCode::BAD_REQUEST, "the request could not be read"));
                }
                Err(_) => {
                    return Err((StatusCode::REQUEST_TIMEOUT, "the request did not come in time"));
                }
            };
            let Ok(chunk) = frame.into_data() else { continue };
            if !self.share.grow(chunk.len() as u64) {
                return Err((StatusCode::SERVICE_UNAVAILABLE, TOO_MUCH));
            }
            bytes.extend_from_slice(&chunk);
            if bytes.len() > settings.request_bytes_max {
                return Ok(Collected::Beginning(self.share.with(bytes.into())));
            }
            if bytes.len() >= awaited {
                due = Instant::now() + settings.client_silence;
                awaited = bytes.len() + PACE_BYTES;
            }
        }
    }

    /// The body as it came, and as a text if it is one.
    async fn read(&self, body: Vec<u8>) -> (Bytes, Result<Arc<String>, Bypass>) {
        let coding = self.parts.headers.get(CONTENT_ENCODING);
        let Some(coding) = coding.filter(|coding| *coding != "identity") else {
            return match String::from_utf8(body) {
                Ok(text) => {
                    let text = Arc::new(text);
                    (Bytes::from_owner(Shown(Arc::clone(&text))), Ok(text))
                }
                Err(error) => (error.into_bytes().into(), Err(Bypass::Unreadable)),
            };
        };
        let (body, most) = (Bytes::from(body), self.shared.settings.request_bytes_max as u64);
        let (packed, coding) = (body.clone(), coding.to_str().unwrap_or_default().to_owned());
        let share = Arc::clone(&self.share);
        let unpack = spawn_blocking(move || unpacked(&packed, &coding, most, &share));
        let text = match timeout(self.shared.settings.deadline, unpack).await {
            Ok(Ok(text)) => text,
            Ok(Err(_)) => Err(Bypass::Panicked),
            Err(_) => Err(Bypass::Late),
        };
        (body, text)
    }

    /// Understands a request and makes its window, unless that fails or takes too long.
    async fn prepare(
        &self,
        route: Route,
        text: &Arc<String>,
        is_taken: bool,
    ) -> Result<(Arc<Asked>, Window), Bypass> {
        let (windows, text) = (Arc::clone(&self.shared.windows), Arc::clone(text));
        let sender = Sender {
            caller: self.caller.clone(),
            client: Client::of(&self.parts.headers, &self.shared.settings),
            share: Arc::clone(&self.share),
            is_taken,
        };
        let knows = self.upstream.knows_options;
        if text.len() <= HERE_BYTES_MAX {
            let text = Arc::clone(&text);
            let work = || windows.prepare(route, text, &sender, knows, false);
            match catch_unwind(AssertUnwindSafe(work)) {
                Ok(Ok(Some((asked, window)))) => return Ok((Arc::new(asked), window)),
                Ok(Ok(None)) => {}
                Ok(Err(trouble)) => return Err(trouble.into()),
                Err(_) => return Err(Bypass::Panicked),
            }
        }
        let work = async {
            let turn = self
                .shared
                .turns
                .wait(sender.caller.owner(), memo::key(&sender.caller, &text))
                .await;
            let prepare = move || {
                // Work that is late still takes a thread.
                let _turn = turn;
                windows.prepare(route, text, &sender, knows, true)
            };
            spawn_blocking(prepare).await
        };
        match timeout(self.shared.settings.deadline, work).await {
            Ok(Ok(Ok(Some((asked, window))))) => Ok((Arc::new(asked), window)),
            Ok(Ok(Ok(None))) => Err(Bypass::Unreadable),
            Ok(Ok(Err(trouble))) => Err(trouble.into()),
            Ok(Err(_)) => Err(Bypass::Panicked),
            Err(_) => Err(Bypass::Late),
        }
    }

    /// How a request can be sent once more.
    fn again(&self, asked: &Arc<Asked>, window: &Window) -> Option<Again> {
        Some(Again {
            upstream: self.upstream.clone(),
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
        body: RequestBody,
    ) -> Result<upstream::Response, Response<Body>> {
        let Some(address) = self.upstream.address(&self.parts.uri) else {
            let message = "the path is not one of the upstream's";
            return Err(self.failed(StatusCode::BAD_REQUEST, message));
        };
        let sent = self.upstream.send(self.parts.method.clone(), address, headers, body).await;
        sent.map_err(|error| {
            let cause = error.to_string();
            let (status, message) = match error {
                HttpError::BrokeOff => {
                    self.log_line.name("cause", &cause);
                    let message = "the request is too large or broke off";
                    return self.failed(StatusCode::PAYLOAD_TOO_LARGE, message);
                }
                HttpError::Late | HttpError::Silent => {
                    (StatusCode::GATEWAY_TIMEOUT, "the upstream does not answer")
                }
                _ => (StatusCode::BAD_GATEWAY, "the upstream cannot be reached"),
            };
            self.log_line.unanswered(&cause);
            let shown = self.upstream.shown();
            self.shared.warnings.once(&format!("{message}: {shown}: {cause}"));
            self.failed(status, message)
        })
    }

    fn failed(&mut self, status: StatusCode, message: &str) -> Response<Body> {
        self.log_line.status(status);
        self.log_line.name("error", message);
        envelope::error(self.provider, status, message)
    }
}

/// Unpacks a body; the memory for it is reserved before it is used.
fn unpacked(packed: &[u8], coding: &str, most: u64, share: &Share) -> Result<Arc<String>, Bypass> {
    let mut reserved = 0;
    let mut room = |more: u64| {
        let has_room = share.grow(more);
        reserved += if has_room { more } else { 0 };
        has_room
    };
    let plain = decode_within(packed, coding, most, &mut room).map(|mut plain| {
        plain.shrink_to_fit();
        plain
    });
    let kept = plain.as_ref().map_or(0, |plain| plain.len() as u64);
    share.shrink(reserved.saturating_sub(kept));
    let plain = plain.map_err(|error| match error {
        DialectError::TooLarge { .. } => Bypass::TooLarge,
        _ => Bypass::Unreadable,
    })?;
    String::from_utf8(plain).map(Arc::new).map_err(|_| Bypass::Unreadable)
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
        let mut response = Response::new(Either::Right(body));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}

pub(crate) fn split(response: upstream::Response) -> (Head, Chunks) {
    let (parts, body) = response.into_parts();
    let head = Head { status: parts.status, headers: headers::end_to_end(&parts.headers) };
    (head, Chunks::Upstream(body))
}

/// The type of an answer that comes in events.
const EVENTS: &[u8] = b"text/event-stream";

pub(crate) fn is_events(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let beginning = kind.trim_start().as_bytes().get(..EVENTS.len());
    beginning.is_some_and(|beginning| beginning.eq_ignore_ascii_case(EVENTS))
}

/// Whether all of a body has come.
fn is_all(headers: &HeaderMap, held: &[Chunk]) -> bool {
    let bytes: Option<u64> = held.iter().map(|chunk| Some(chunk.as_ref().ok()?.len() as u64)).sum();
    bytes.is_some() && bytes == number(headers, &CONTENT_LENGTH)
}

fn number(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}

fn bypassed(mut response: Response<Body>) -> Response<Body> {
    let notice = HeaderValue::from_static("this request and its answer are not archived");
    response.headers_mut().insert(headers::NOTICE, notice);
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
