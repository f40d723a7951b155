//! The console: a page that shows an archive in a browser, and the API behind it.
//!
//! The page has no archived text in it, so everybody may load it. The API shows some, and wants a login: the token of a
//! link that the program printed, or a key of the proxy, is exchanged for a cookie. All of it is answered apart from
//! requests: a few questions at a time, on threads of their own, each with a deadline.

mod access;
mod api;
mod assets;
mod events;
mod export;
mod query;
mod response;
mod routes;
mod standalone;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use longhand::app::{App, AppError};
use longhand::{Archive, Redactor};
use longhand_model::Prices;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use self::access::{Access, Viewer};
use self::events::Events;
use self::response::Refusal;
pub(crate) use self::standalone::FOREIGN;
pub use self::standalone::{ConsoleServer, serve_console};
use crate::answer::ResponseBody;
use crate::credentials::Ownership;
use crate::{ServerError, Settings};

/// How the addresses of the page begin.
pub(crate) const PAGE: &str = "/longhand/console";

/// How the addresses of the API begin.
pub(crate) const API: &str = "/longhand/api/";

/// How many questions may be asked of the archive at once: some of its threads stay free for requests.
const QUESTIONS_MAX: usize = 2;

/// How many questions may wait for their turn.
const WAITING_MAX: usize = 64;

/// How long an answer may take, with its wait for others.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);

/// How a console is set up.
#[derive(Clone, Debug, Default)]
pub struct ConsoleSettings {
    /// Whether nothing can be changed: no pin, no undo.
    pub is_read_only: bool,
    /// What people call the archive; it is shown to those who see all of it.
    pub archive_name: Option<String>,
    /// What models cost.
    pub prices: Prices,
}

/// A console over an archive.
pub(crate) struct Console {
    archive: Arc<dyn Archive>,
    settings: ConsoleSettings,
    /// The budget of the proxy that runs here, too.
    budget: Option<u64>,
    has_proxy: bool,
    address: SocketAddr,
    /// What the addresses of a private proxy begin with.
    prefix: String,
    redactor: Option<Arc<Redactor>>,
    access: Access,
    events: Arc<Events>,
    /// Those who ask or wait, and those who ask.
    waiting: Arc<Semaphore>,
    questions: Arc<Semaphore>,
    exports: Arc<Semaphore>,
}

impl Console {
    /// The console of a proxy; `None` if it has none.
    pub(crate) fn of_proxy(settings: &Settings, address: SocketAddr) -> Option<Self> {
        let console = settings.console.clone()?;
        let prefix =
            settings.secret.as_ref().map(|secret| format!("/{secret}")).unwrap_or_default();
        let access = Access::new(address, &prefix, &settings.keys, Ownership::new(settings));
        let archive = Arc::clone(&settings.archive);
        Some(Self {
            budget: settings.budget.map(|budget| budget.0),
            has_proxy: true,
            prefix,
            redactor: settings.redactor.clone(),
            ..Self::new(archive, console, address, access)
        })
    }

    /// A console without a proxy.
    pub(crate) fn alone(
        archive: Arc<dyn Archive>,
        settings: ConsoleSettings,
        address: SocketAddr,
    ) -> Self {
        let ownership = Ownership::new(&Settings::new(Arc::clone(&archive)));
        Self::new(archive, settings, address, Access::new(address, "", &[], ownership))
    }

    fn new(
        archive: Arc<dyn Archive>,
        settings: ConsoleSettings,
        address: SocketAddr,
        access: Access,
    ) -> Self {
        Self {
            events: Arc::new(Events::new(App::new(Arc::clone(&archive)))),
            archive,
            settings,
            budget: None,
            has_proxy: false,
            address,
            prefix: String::new(),
            redactor: None,
            access,
            waiting: Arc::new(Semaphore::new(WAITING_MAX)),
            questions: Arc::new(Semaphore::new(QUESTIONS_MAX)),
            exports: Arc::new(Semaphore::new(1)),
        }
    }

    /// Whether an address is one of the console's.
    pub(crate) fn has(path: &str) -> bool {
        path.starts_with(API)
            || path.strip_prefix(PAGE).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// A link that logs in whoever opens it first; with a place in the page, it leads there.
    pub(crate) fn link(&self, place: Option<&str>) -> Result<String, ServerError> {
        let token = self.access.new_link()?;
        let place = place.map(|place| format!("&to={place}")).unwrap_or_default();
        let (address, prefix) = (callable(self.address), &self.prefix);
        Ok(format!("http://{address}{prefix}{PAGE}/#token={token}{place}"))
    }

    /// Ends the streams of events, which would go on for ever.
    pub(crate) fn close(&self) {
        self.events.close();
    }

    /// Answers a request that is no other page's.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        parts: Parts,
        body: Incoming,
    ) -> Response<ResponseBody> {
        let answer = match parts.uri.path().strip_prefix(PAGE) {
            Some(file) => assets::answer(&parts, file),
            None => self.api(parts, body).await,
        };
        answer.unwrap_or_else(Refusal::into_response)
    }

    /// What somebody sees of the archive.
    fn app(&self, viewer: Viewer) -> App {
        match viewer {
            Viewer::Everything => App::new(Arc::clone(&self.archive)),
            Viewer::Owner(owner) => App::of_owner(Arc::clone(&self.archive), owner),
        }
    }

    /// Asks the archive on a thread of its own, when it is its turn. Whoever does not wait any longer leaves the thread to
    /// end by itself: it goes on counting as one that asks.
    async fn ask<T: Send + 'static>(
        &self,
        viewer: Viewer,
        question: impl FnOnce(&App) -> Result<T, AppError> + Send + 'static,
    ) -> Result<T, Refusal> {
        let Ok(waiting) = Arc::clone(&self.waiting).try_acquire_owned() else {
            return Err(Refusal::busy("too much is asked at once"));
        };
        let answer = async {
            let permit = Arc::clone(&self.questions).acquire_owned().await;
            let app = self.app(viewer);
            let answer = app.ask(move |app| {
                let answer = question(app);
                drop(permit);
                answer
            });
            answer.await.map_err(|error| Refusal::of(&error, viewer))
        };
        let answer = timeout(ANSWER_TIME_MAX, answer).await;
        drop(waiting);
        answer
            .unwrap_or_else(|_| Err(Refusal::busy("it took too long; ask for less, or try again")))
    }
}

/// An address that programs on this machine can call: 127.0.0.1 in place of 0.0.0.0.
fn callable(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}

/// The answer to somebody whom a guard does not let in.
pub(crate) fn refused(status: StatusCode, why: &str) -> Response<ResponseBody> {
    let kind = if status == StatusCode::FORBIDDEN { "foreign_page" } else { "not_allowed" };
    Refusal::new(status, kind, why).into_response()
}
