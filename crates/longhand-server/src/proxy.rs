//! Requests in, answers out.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, BodyDataStream, Bytes, HttpBody};
use axum::extract::State;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use futures_util::{StreamExt, stream};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use crate::answer::{Chunks, Listener, Passing};
use crate::archivist::Archivist;
use crate::counters::{Counters, Counts, add};
use crate::recovery::{Peeked, peek};
use crate::route::{Caller, Route, route};
use crate::upstream::{Provider, Upstream, Upstreams};
use crate::window::{Asked, Window, Windows};
use crate::{ServerError, Settings, envelope, guard, headers};

/// How often a request that was too long is shortened and sent again.
const RETRIES: usize = 2;

/// A proxy that listens.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

struct Shared {
    settings: Settings,
    upstreams: Upstreams,
    windows: Arc<Windows>,
    archivist: Arc<Archivist>,
    counters: Arc<Counters>,
}

/// Starts a proxy; it runs until it is stopped.
pub async fn serve(settings: Settings) -> Result<Proxy, ServerError> {
    let listen = |source| ServerError::Listen { address: settings.listen, source };
    let upstreams = Upstreams::new(&settings)?;
    let listener = TcpListener::bind(settings.listen).await.map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;
    let counters = Arc::new(Counters::default());
    let archivist =
        Arc::new(Archivist::start(Arc::clone(&settings.archive), Arc::clone(&counters))?);
    let windows = Arc::new(Windows::new(&settings, Arc::clone(&archivist), Arc::clone(&counters)));
    let shared = Arc::new(Shared { settings, upstreams, windows, archivist, counters });
    let router = Router::new().fallback(handle).with_state(Arc::clone(&shared));
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(async move {
        let server = axum::serve(listener, router).with_graceful_shutdown(async {
            // A proxy that is dropped stops too.
            let _ = stopped.await;
        });
        // It ends with the shutdown and has no errors of its own.
        let _ = server.await;
    });
    Ok(Proxy { address, shared, stop, task })
}

impl Proxy {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has done so far.
    pub fn counts(&self) -> Counts {
        self.shared.counters.read()
    }

    /// Takes no more requests, finishes those under way, and waits until all is archived.
    pub async fn stop(self) {
        let _ = self.stop.send(());
        let _ = self.task.await;
        let archivist = Arc::clone(&self.shared.archivist);
        let _ = spawn_blocking(move || archivist.close()).await;
    }
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxy").field("address", &self.address).finish_non_exhaustive()
    }
}

async fn handle(State(shared): State<Arc<Shared>>, request: Request<Body>) -> Response<Body> {
    add(&shared.counters.requests, 1);
    let (parts, body) = request.into_parts();
    let provider = shared.upstreams.provider(&parts.uri, &parts.headers);
    if shared.settings.listen.ip().is_loopback() && !guard::is_local(&parts.uri, &parts.headers) {
        let message = "Longhand answers only programs of this machine";
        return envelope::error(provider, StatusCode::FORBIDDEN, message);
    }
    let Some(upstream) = shared.upstreams.get(provider) else {
        let message = "Longhand has no upstream for this request";
        return envelope::error(provider, StatusCode::NOT_FOUND, message);
    };
    let passage = Passage { shared: &shared, provider, upstream, parts };
    let Parts { method, uri, headers, .. } = &passage.parts;
    match route(method, uri.path(), headers) {
        Some(route) => passage.converse(route, body.into_data_stream()).await,
        None if body.is_end_stream() => passage.pass(None).await,
        None => passage.pass(Some(reqwest::Body::wrap_stream(body.into_data_stream()))).await,
    }
}

/// One request on its way.
struct Passage<'s> {
    shared: &'s Arc<Shared>,
    provider: Provider,
    upstream: &'s Upstream,
    parts: Parts,
}

impl Passage<'_> {
    /// Passes a request on as it is.
    async fn pass(&self, body: Option<reqwest::Body>) -> Response<Body> {
        match self.send(headers::onward(&self.parts.headers), body).await {
            Ok(response) => {
                let (head, rest) = split(response);
                answer(head, Passing { held: [].into(), rest, listener: None })
            }
            Err(error) => error,
        }
    }

    /// Sends a conversation within its budget, and again if it is still too long.
    async fn converse(&self, route: Route, mut body: BodyDataStream) -> Response<Body> {
        let (bytes, whole) = match self.collect(&mut body).await {
            Ok(collected) => collected,
            Err(error) => return error,
        };
        if !whole {
            add(&self.shared.counters.bypassed, 1);
            let rest = stream::iter([Ok(bytes)]).chain(body);
            return marked(self.pass(Some(reqwest::Body::wrap_stream(rest))).await, "bypassed");
        }
        let prepared = self.prepare(route, &bytes).await;
        let (asked, mut window) = match prepared {
            Some((asked, window)) => (Some(asked), window),
            None => (None, Window::untouched()),
        };
        if asked.is_none() {
            add(&self.shared.counters.bypassed, 1);
        }
        let onward = headers::onward_readable(&self.parts.headers);
        let mut retries = 0;
        loop {
            let body = window.body.clone().unwrap_or_else(|| bytes.clone());
            let response = match self.send(onward.clone(), Some(body.into())).await {
                Ok(response) => response,
                Err(error) => return error,
            };
            let (head, mut rest) = split(response);
            let Some(asked) = &asked else {
                let response = answer(head, Passing { held: [].into(), rest, listener: None });
                return marked(response, "bypassed");
            };
            let in_events = is_events(&head.headers);
            let length = number(&head.headers, &CONTENT_LENGTH);
            let Peeked { held, overflow } =
                peek(head.status, in_events, length, route.dialect, &mut rest).await;
            if let Some(overflow) = overflow
                && retries < RETRIES
            {
                retries += 1;
                let (windows, own) = (Arc::clone(&self.shared.windows), Arc::clone(asked));
                let sent = window.clone();
                let harder = spawn_blocking(move || windows.harder(&own, &sent, overflow));
                if let Ok(Ok(Some(smaller))) = timeout(self.shared.settings.deadline, harder).await
                {
                    add(&self.shared.counters.recovered, 1);
                    window = smaller;
                    continue;
                }
            }
            let is_answer = head.status.is_success() && !route.counts;
            let listener = is_answer.then(|| Listener::new(asked, &self.shared.windows, in_events));
            let mut response = answer(head, Passing { held: held.into(), rest, listener });
            tell(response.headers_mut(), asked, &window);
            if window.body.is_some() {
                add(&self.shared.counters.compacted, 1);
            }
            return response;
        }
    }

    /// Reads the body, as far as it is looked into; says whether that is all of it.
    async fn collect(&self, body: &mut BodyDataStream) -> Result<(Bytes, bool), Response<Body>> {
        let mut bytes = Vec::with_capacity(
            number(&self.parts.headers, &CONTENT_LENGTH).unwrap_or(0).min(1 << 20) as usize,
        );
        while let Some(chunk) = body.next().await {
            let Ok(chunk) = chunk else {
                let message = "the request could not be read";
                return Err(envelope::error(self.provider, StatusCode::BAD_REQUEST, message));
            };
            bytes.extend_from_slice(&chunk);
            if bytes.len() > self.shared.settings.request_bytes_max {
                return Ok((bytes.into(), false));
            }
        }
        Ok((bytes.into(), true))
    }

    /// Understands a request and makes its window, unless that fails or takes too long.
    async fn prepare(&self, route: Route, bytes: &Bytes) -> Option<(Arc<Asked>, Window)> {
        let windows = Arc::clone(&self.shared.windows);
        let (bytes, caller) = (bytes.clone(), Caller::of(&self.parts.headers));
        let work = spawn_blocking(move || windows.prepare(route, &bytes, &caller));
        let done = timeout(self.shared.settings.deadline, work).await.ok()?.ok()?;
        done.ok().map(|(asked, window)| (Arc::new(asked), window))
    }

    async fn send(
        &self,
        headers: HeaderMap,
        body: Option<reqwest::Body>,
    ) -> Result<reqwest::Response, Response<Body>> {
        let wrong = |status, message| envelope::error(self.provider, status, message);
        let address = self.upstream.address(&self.parts.uri).ok_or_else(|| {
            wrong(StatusCode::BAD_REQUEST, "the path is not one of the upstream's")
        })?;
        let mut request =
            self.upstream.client.request(self.parts.method.clone(), address).headers(headers);
        if let Some(body) = body {
            request = request.body(body);
        }
        request.send().await.map_err(|error| {
            if error.is_timeout() {
                wrong(StatusCode::GATEWAY_TIMEOUT, "the upstream does not answer")
            } else {
                wrong(StatusCode::BAD_GATEWAY, "the upstream cannot be reached")
            }
        })
    }
}

/// The head of an answer.
struct Head {
    status: StatusCode,
    headers: HeaderMap,
}

fn split(response: reqwest::Response) -> (Head, Chunks) {
    let head = Head { status: response.status(), headers: headers::end_to_end(response.headers()) };
    (head, response.bytes_stream().boxed())
}

fn answer(head: Head, body: Passing) -> Response<Body> {
    let mut response = Response::new(Body::from_stream(body));
    *response.status_mut() = head.status;
    *response.headers_mut() = head.headers;
    response
}

fn is_events(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.trim_start().to_ascii_lowercase().starts_with("text/event-stream")
}

fn number(headers: &HeaderMap, name: &axum::http::HeaderName) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}

fn marked(mut response: Response<Body>, outcome: &'static str) -> Response<Body> {
    response.headers_mut().insert(headers::OUTCOME, HeaderValue::from_static(outcome));
    response
}

/// Tells the client what was done with its request.
fn tell(headers: &mut HeaderMap, asked: &Asked, window: &Window) {
    let outcome = if window.body.is_some() { "compacted" } else { "passed" };
    headers.insert(headers::OUTCOME, HeaderValue::from_static(outcome));
    if let Some(Ok(session)) = asked.session.as_deref().map(HeaderValue::from_str) {
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
