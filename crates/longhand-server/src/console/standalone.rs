//! The console without a proxy.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use longhand::Archive;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use super::{Console, ConsoleSettings, refused};
use crate::ServerError;
use crate::answer::ResponseBody;
use crate::guard::Guard;

/// How many connections there may be.
const CONNECTIONS_MAX: usize = 256;

/// How long the head of a request may take.
const HEAD_TIME_MAX: Duration = Duration::from_secs(30);

/// The most that it may have.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// How long a stop waits for answers that are under way.
const GRACE: Duration = Duration::from_secs(2);

/// A console that listens.
pub struct ConsoleServer {
    console: Arc<Console>,
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// Starts a console over an archive, without a proxy; it runs until it is stopped.
///
/// It has links and no keys, so it is for this machine alone.
pub async fn serve_console(
    archive: Arc<dyn Archive>,
    settings: ConsoleSettings,
    listen: SocketAddr,
) -> Result<ConsoleServer, ServerError> {
    if !listen.ip().is_loopback() {
        return Err(ServerError::Open { address: listen });
    }
    let failed = |source| ServerError::Listen { address: listen, source };
    let listener = TcpListener::bind(listen).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let console = Arc::new(Console::alone(archive, settings, address));
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(accept(listener, Arc::clone(&console), address, stopped));
    Ok(ConsoleServer { console, address, stop, task })
}

impl ConsoleServer {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A link that logs in whoever opens it first; with a place in the page, it leads there.
    pub fn link(&self, place: Option<&str>) -> Result<String, ServerError> {
        self.console.link(place)
    }

    /// Takes no more requests, and ends.
    pub async fn stop(self) {
        let _ = self.stop.send(());
        let _ = self.task.await;
    }
}

async fn accept(
    listener: TcpListener,
    console: Arc<Console>,
    address: SocketAddr,
    mut stopped: oneshot::Receiver<()>,
) {
    let guard = Arc::new(Guard::of_pages(address));
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
            // A console that is dropped stops, too.
            _ = &mut stopped => break,
        };
        let (Ok((stream, _)), Ok(permit)) = (accepted, Arc::clone(&permits).try_acquire_owned())
        else {
            // Perhaps too many are open: some will be closed soon.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (console, guard) = (Arc::clone(&console), Arc::clone(&guard));
        let service = service_fn(move |request: Request<Incoming>| {
            let (console, guard) = (Arc::clone(&console), Arc::clone(&guard));
            async move { Ok::<_, Infallible>(handle(&console, &guard, request).await) }
        });
        connections.spawn(async move {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIME_MAX)
                .max_buf_size(HEAD_BYTES_MAX)
                .serve_connection(TokioIo::new(stream), service);
            // A connection that breaks is the client's matter.
            let _ = connection.await;
            drop(permit);
        });
    }
    console.close();
    let all = async { while connections.join_next().await.is_some() {} };
    let _ = timeout(GRACE, all).await;
}

async fn handle(
    console: &Arc<Console>,
    guard: &Guard,
    request: Request<Incoming>,
) -> Response<ResponseBody> {
    let (parts, body) = request.into_parts();
    if !guard.allows_page(&parts) {
        return refused(StatusCode::FORBIDDEN, FOREIGN);
    }
    if Console::has(parts.uri.path()) {
        return console.answer(parts, body).await;
    }
    refused(StatusCode::NOT_FOUND, "there is /longhand/console/ alone")
}

/// What pages of others are told.
pub(crate) const FOREIGN: &str = "the console answers its own page alone";
