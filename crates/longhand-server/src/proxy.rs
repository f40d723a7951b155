//! The server: accepts connections, and dispatches requests.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::body::{Body as _, Incoming};
use hyper::header::UPGRADE;
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use longhand::time;
use longhand_model::http;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};
use tokio::time::timeout;

use crate::answer::ResponseBody;
use crate::archivist::{ArchiveOutage, Archivist, ArchivistLimits};
use crate::console::Console;
use crate::credentials::{Credentials, Ownership};
use crate::guard::{Guards, Refused};
use crate::in_place::InPlace;
use crate::knowledge::ModelKnowledge;
use crate::load::Load;
use crate::lock::lock;
use crate::log_line::LogLine;
use crate::mcp::McpRoute;
use crate::metrics::{Counts, Metrics};
use crate::missing::Missing;
use crate::notices::Notices;
use crate::passage::Passage;
use crate::record::AnswerRecorder;
use crate::redaction::Redaction;
use crate::request::maker::Windows;
use crate::request::parse::Parser;
use crate::route::{Caller, Destination, is_unknown_api, rooted};
use crate::store::{Store, Stores};
use crate::turns::Turns;
use crate::upstream::{Provider, Upstreams};
use crate::warnings::Warnings;
use crate::{ServerError, Settings, console, envelope, mcp, status};

/// The most that the head of a request may have.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// How often the archive is looked after. The timer also saves wake-ups, see [`accept`].
const HEARTBEAT: Duration = Duration::from_secs(1);

/// A proxy that listens.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// What all requests share, each part with its job.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    upstreams: Upstreams,
    pub(crate) stores: Stores,
    pub(crate) parser: Parser,
    pub(crate) knowledge: Arc<ModelKnowledge>,
    pub(crate) windows: Windows,
    pub(crate) recorder: AnswerRecorder,
    pub(crate) notices: Arc<Notices>,
    pub(crate) load: Arc<Load>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) warnings: Warnings,
    guards: Guards,
    console: Option<Arc<Console>>,
    mcp: McpRoute,
    ownership: Ownership,
    redaction: Redaction,
    permits: Arc<Semaphore>,
    pub(crate) turns: Arc<Turns>,
    /// What was wrong with the archive when it was looked at last.
    outage: Mutex<Option<ArchiveOutage>>,
}

/// Starts a proxy; it runs until it is stopped.
pub async fn serve(settings: Settings) -> Result<Proxy, ServerError> {
    let is_local = settings.listen.ip().is_loopback();
    if !is_local && settings.keys.is_empty() && !settings.open_to_all {
        return Err(ServerError::Open { address: settings.listen });
    }
    let listen = |source| ServerError::Listen { address: settings.listen, source };
    let upstreams = Upstreams::new(&settings)?;
    let listener = TcpListener::bind(settings.listen).await.map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;
    let shared = Arc::new(Shared::new(settings, upstreams, address)?);
    let (stop, stopped) = oneshot::channel::<()>();
    let task = start(listener, Arc::clone(&shared), stopped);
    Ok(Proxy { address, shared, stop, task })
}

/// Begins to accept connections.
///
/// Not in `serve`, and not inlined there: the crate that awaits an async function compiles its body, and with it all
/// that it spawns. Requests would be handled by code at the optimisation level of the command line.
#[inline(never)]
fn start(
    listener: TcpListener,
    shared: Arc<Shared>,
    stopped: oneshot::Receiver<()>,
) -> JoinHandle<()> {
    tokio::spawn(accept(listener, shared, stopped))
}

impl Proxy {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A link to the console that logs in whoever opens it first; `None` if there is no console.
    pub fn console_link(&self) -> Result<Option<String>, ServerError> {
        self.shared.console.as_ref().map(|console| console.link(None)).transpose()
    }

    /// What it has done so far.
    pub fn counts(&self) -> Counts {
        self.shared.metrics.counts()
    }

    /// A function that returns the counts at the time of its call, even after the proxy has stopped.
    pub fn counter(&self) -> impl Fn() -> Counts + 'static {
        let metrics = Arc::clone(&self.shared.metrics);
        move || metrics.counts()
    }

    /// A function that lists the messages that are not in the archive at the time of its call: those that wait to be
    /// written, and those that were given up.
    pub fn missing(&self) -> impl Fn() -> Vec<Missing> + 'static {
        let store = Arc::clone(&self.shared.stores.archived);
        move || store.missing()
    }

    /// Takes no more requests, finishes those under way within the grace period, and waits until everything is
    /// archived, or given up since the archive fails.
    pub async fn stop(self) {
        let _ = self.stop.send(());
        let _ = self.task.await;
        let shared = self.shared;
        let close = move || {
            shared.stores.archived.close();
            shared.stores.forgetful.close();
        };
        let _ = spawn_blocking(close).await;
    }
}

impl Shared {
    fn new(
        settings: Settings,
        upstreams: Upstreams,
        address: SocketAddr,
    ) -> Result<Self, ServerError> {
        let metrics = Arc::new(Metrics::new());
        let archive = Arc::clone(&settings.archive);
        let limits = ArchivistLimits::of(&settings);
        let archivist = Archivist::start(Arc::clone(&archive), limits, Arc::clone(&metrics))?;
        let archived =
            Store::new(archive, archivist, Arc::clone(&metrics), settings.project.clone());
        let forgetful = Arc::new(Store::forgetful()?);
        let redaction = Redaction::new(settings.redactor.as_ref());
        let knowledge = Arc::new(ModelKnowledge::new(&settings));
        let notices = Arc::<Notices>::default();
        Ok(Self {
            upstreams,
            stores: Stores { archived: Arc::new(archived), forgetful },
            parser: Parser::new(settings.recall_tool, redaction.clone()),
            windows: Windows::new(&settings, &knowledge, &metrics, &redaction),
            recorder: AnswerRecorder::new(&knowledge, &metrics, &redaction, &notices),
            knowledge,
            notices,
            load: Load::new(settings.memory_bytes_max),
            metrics,
            warnings: Warnings::new(settings.warn.clone(), redaction.clone()),
            guards: Guards::new(&settings, address),
            console: Console::of_proxy(&settings, address).map(Arc::new),
            mcp: McpRoute::default(),
            ownership: Ownership::new(&settings),
            redaction,
            permits: Arc::new(Semaphore::new(settings.requests_max)),
            turns: Arc::default(),
            outage: Mutex::default(),
            settings,
        })
    }

    /// Says what is wrong with the archive, and when that is over. Returns what is wrong now.
    pub(crate) fn look_after_archive(&self) -> Option<ArchiveOutage> {
        let store = &self.stores.archived;
        let outage = store.outage();
        let before = std::mem::replace(&mut *lock(&self.outage), outage.clone());
        if let Some(ArchiveOutage { since_ms, why }) = &outage {
            let since = time::format(*since_ms);
            self.warnings.once(&format!(
                "the archive takes nothing since {since}: {why}; what is said is kept in memory, and tried again"
            ));
        } else if let Some(ArchiveOutage { since_ms, .. }) = before {
            let since = time::format(since_ms);
            self.warnings
                .once(&format!("the archive, which took nothing since {since}, takes again"));
        }
        for Missing { session, first_ms, given_up, .. } in store.given_up() {
            let (at, why) = (time::format(first_ms), given_up.unwrap_or_default());
            self.warnings.once(&format!(
                "session {session}: what was said from {at} on is not all archived: {why}"
            ));
        }
        outage
    }
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxy").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Takes connections until it is stopped, then waits a while for those that are open.
async fn accept(listener: TcpListener, shared: Arc<Shared>, mut stopped: oneshot::Receiver<()>) {
    let (graceful, mut connections) = (GracefulShutdown::new(), JoinSet::new());
    // A thread that waits for the network is woken by every timer that is due before all others. Each
    // request sets some; with this one none of them is the first.
    let mut heartbeat = tokio::time::interval(HEARTBEAT);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
            _ = heartbeat.tick() => {
                shared.look_after_archive();
                continue;
            }
            // A proxy that is dropped stops too.
            _ = &mut stopped => break,
        };
        let Ok((stream, _)) = accepted else {
            // Perhaps too many files are open: some will be closed soon.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        connections.spawn(talk(stream, &shared, &graceful));
    }
    drop(listener);
    if let Some(console) = &shared.console {
        console.close();
    }
    let _ = timeout(shared.settings.grace, graceful.shutdown()).await;
    // What a client still sends or reads ends here; what came of an answer is archived all the same.
    connections.shutdown().await;
}

fn talk(
    stream: TcpStream,
    shared: &Arc<Shared>,
    graceful: &GracefulShutdown,
) -> impl Future<Output = ()> + Send + 'static {
    // Small pieces are passed on at once.
    let _ = stream.set_nodelay(true);
    let for_all = Arc::clone(shared);
    let service = service_fn(move |request: Request<Incoming>| {
        let shared = Arc::clone(&for_all);
        async move { Ok::<_, Infallible>(handle(&shared, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(shared.settings.client_silence)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let watched = InPlace::new(graceful.watch(connection));
    async move {
        // A connection that breaks is the client's matter.
        let _ = watched.await;
    }
}

/// The warning about callers without the secret.
const STRANGER: &str = "a request without the secret of this run was refused: another program of this machine made it, \
     or the agent changes the path of its base URL";

/// The answer to a caller without the secret of a private proxy: it does not even say what this is.
fn stranger() -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::text(String::new()));
    *response.status_mut() = StatusCode::UNAUTHORIZED;
    response
}

async fn handle(shared: &Arc<Shared>, request: Request<Incoming>) -> Response<ResponseBody> {
    let (mut parts, body) = request.into_parts();
    if shared.guards.take_secret(&mut parts).is_err() {
        shared.warnings.once(STRANGER);
        return stranger();
    }
    // It costs the log and the counts of requests nothing.
    if let Some(console) = shared.console.as_ref().filter(|_| Console::has(parts.uri.path())) {
        if !shared.guards.of(Destination::Console).allows_page(&parts) {
            return console::refused(StatusCode::FORBIDDEN, console::FOREIGN);
        }
        return console.answer(parts, body).await;
    }
    let provider = shared.upstreams.provider(&parts.uri, &parts.headers);
    let permit = Arc::clone(&shared.permits).try_acquire_owned();
    let is_busy = permit.is_err();
    let log = shared.settings.log.as_ref();
    let mut log_line = LogLine::new(&shared.metrics, log, &shared.redaction, permit.ok());
    log_line.name("method", parts.method.as_str());
    log_line.name("path", parts.uri.path());
    let destination = Destination::of(&parts.method, &parts.uri);
    let credentials =
        Credentials::of(&parts.uri, &parts.headers, &shared.settings.credential_headers);
    if let Err((status, message)) = check(shared, destination, &mut parts, &credentials) {
        if destination == Destination::Mcp {
            log_line.refused(message);
            log_line.status(status);
            return mcp::refusal(status, message);
        }
        return refuse(log_line, provider, status, message);
    }
    // Without a console its paths are like others that are not there.
    if matches!(destination, Destination::Status | Destination::Console) {
        return status::answer(shared, &parts).await;
    }
    if destination == Destination::Mcp {
        let caller = mcp_caller(shared, &parts, credentials);
        return shared.mcp.answer(shared, &parts, &caller, body, log_line).await;
    }
    if is_web_socket(&parts.headers) {
        let message = "Longhand answers no WebSockets; send the request by HTTP";
        return refuse(log_line, provider, StatusCode::UPGRADE_REQUIRED, message);
    }
    if is_busy {
        let message = "Longhand has too much to do";
        return refuse(log_line, provider, StatusCode::SERVICE_UNAVAILABLE, message);
    }
    let Some(upstream) = shared.upstreams.get(provider) else {
        let message = "Longhand has no upstream for this request";
        return refuse(log_line, provider, StatusCode::NOT_FOUND, message);
    };
    prepare_path(shared, &mut parts);
    let caller = Caller::new(shared.ownership.owner(&credentials), &parts.headers)
        .or_named(shared.settings.session.as_deref())
        .redacted(&shared.redaction);
    let share = shared.load.share();
    let passage = Passage { shared, provider, upstream, parts, caller, share, log_line };
    match destination {
        Destination::Conversation(route) => passage.converse(route, body).await,
        _ if body.is_end_stream() => passage.pass(http::empty()).await,
        _ => passage.pass_stream(None, body).await,
    }
}

/// Who asks the archive. A key says whose sessions are seen; a token that was taken out says nothing.
fn mcp_caller(shared: &Shared, parts: &Parts, credentials: Credentials) -> Caller {
    let more = &shared.settings.credential_headers;
    let has_keys = !shared.settings.keys.is_empty();
    let left = || Credentials::of(&parts.uri, &parts.headers, more);
    let credentials = if has_keys { credentials } else { left() };
    Caller::new(shared.ownership.owner(&credentials), &parts.headers)
}

/// Whether a request would go on as a WebSocket. Clients that can do without go on by HTTP after the right refusal.
fn is_web_socket(headers: &HeaderMap) -> bool {
    let upgrade = headers.get(UPGRADE).and_then(|value| value.to_str().ok());
    upgrade.is_some_and(|upgrade| {
        upgrade.split(',').any(|name| name.trim().eq_ignore_ascii_case("websocket"))
    })
}

/// Has a request checked by the guard of its path, which takes our keys out of it.
fn check(
    shared: &Shared,
    destination: Destination,
    parts: &mut Parts,
    credentials: &Credentials,
) -> Result<(), (StatusCode, &'static str)> {
    shared.guards.of(destination).check(parts, credentials).map_err(|refused| match refused {
        Refused::KeyInPath => (StatusCode::BAD_REQUEST, "the path has a key of Longhand in it"),
        Refused::Foreign => {
            (StatusCode::FORBIDDEN, "Longhand answers only programs of this machine")
        }
        Refused::NoKeys => (
            StatusCode::UNAUTHORIZED,
            "Longhand shows its archive to nobody without a key: start it with --api-key-file or --mcp-token-file",
        ),
        Refused::NoKey | Refused::NoSecret => {
            (StatusCode::UNAUTHORIZED, "Longhand wants its key in x-longhand-key")
        }
    })?;
    if parts.method == Method::CONNECT {
        return Err((StatusCode::METHOD_NOT_ALLOWED, "Longhand is no tunnel"));
    }
    Ok(())
}

/// Puts a path below `/v1` where a client left that out, and warns of APIs that are not known.
fn prepare_path(shared: &Shared, parts: &mut Parts) {
    if let Some(rooted) = rooted(&parts.uri) {
        parts.uri = rooted;
    }
    let path = parts.uri.path();
    if is_unknown_api(&parts.method, path) {
        shared.warnings.once(&format!(
            "requests to {path} are passed on as they are: Longhand does not know that API"
        ));
    }
}

fn refuse(
    mut log_line: LogLine,
    provider: Provider,
    status: StatusCode,
    message: &str,
) -> Response<ResponseBody> {
    log_line.refused(message);
    log_line.status(status);
    envelope::error(provider, status, message)
}
