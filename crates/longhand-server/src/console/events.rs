//! What changes, as server-sent events.
//!
//! While nobody listens, nothing is done. The first who listens starts a task that looks at the newest sessions, twice a
//! second; it ends after the last one has left. So it does not matter who writes: this program, another one, or another
//! machine. Whoever is too slow is told that something was missed, and never slows anybody.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use longhand::app::{App, Change, Watch};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, watch};
use tokio::time::{Instant, interval_at, sleep, timeout};

use super::Console;
use super::access::Viewer;
use super::query::Query;
use super::response::{Refusal, guarded};
use crate::answer::{Chunk, ResponseBody};
use crate::lock::lock;

/// How often the archive is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How long a look may take.
const LOOK_TIME_MAX: Duration = Duration::from_secs(5);

/// How long a stream may be silent.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// How many changes are kept for a listener that is slow.
const KEPT_MAX: usize = 256;

/// How many may listen.
const LISTENERS_MAX: usize = 32;

/// What is sent.
#[derive(Clone)]
enum Told {
    Change(Arc<Change>),
    /// There was more than can be told.
    Missed,
}

/// Tells those who listen what changes.
pub(super) struct Events {
    app: App,
    told: broadcast::Sender<Told>,
    listeners: Arc<Semaphore>,
    /// Whether the task that looks is running.
    is_looking: Mutex<bool>,
    /// Whether it has looked once: from then on nothing is missed.
    has_looked: watch::Sender<bool>,
    closed: watch::Sender<bool>,
}

impl Events {
    pub(super) fn new(app: App) -> Self {
        Self {
            app,
            told: broadcast::channel(KEPT_MAX).0,
            listeners: Arc::new(Semaphore::new(LISTENERS_MAX)),
            is_looking: Mutex::new(false),
            has_looked: watch::channel(false).0,
            closed: watch::channel(false).0,
        }
    }

    /// Tells a change that was made here. Pins are in no list of sessions, so nobody else would notice them.
    pub(super) fn tell(&self, change: Change) {
        // Without listeners it fails, and nobody misses it.
        let _ = self.told.send(Told::Change(Arc::new(change)));
    }

    /// Ends all streams.
    pub(super) fn close(&self) {
        self.closed.send_replace(true);
    }

    /// Looks at the archive as long as somebody listens.
    fn look(self: &Arc<Self>) {
        let mut is_looking = lock(&self.is_looking);
        if std::mem::replace(&mut *is_looking, true) {
            return;
        }
        self.has_looked.send_replace(false);
        drop(is_looking);
        let events = Arc::clone(self);
        tokio::spawn(async move {
            let mut seen = Watch::default();
            loop {
                let app = events.app.clone();
                let mut looked = std::mem::take(&mut seen);
                let look = async move {
                    app.ask(move |app| {
                        let changes = app.changes(&mut looked);
                        Ok((looked, changes?))
                    })
                    .await
                };
                // An archive that is busy or fails is looked at again; what changed meanwhile is not known then.
                match timeout(LOOK_TIME_MAX, look).await {
                    Ok(Ok((looked, changes))) => {
                        seen = looked;
                        for change in changes.items {
                            events.tell(change);
                        }
                        if changes.has_more {
                            let _ = events.told.send(Told::Missed);
                        }
                    }
                    Ok(Err(_)) | Err(_) => {
                        let _ = events.told.send(Told::Missed);
                    }
                }
                events.has_looked.send_replace(true);
                sleep(LOOK_EVERY).await;
                let mut is_looking = lock(&events.is_looking);
                if events.told.receiver_count() == 0 || *events.closed.borrow() {
                    *is_looking = false;
                    return;
                }
            }
        });
    }
}

/// Somebody who listens.
struct Listener {
    told: broadcast::Receiver<Told>,
    has_looked: watch::Receiver<bool>,
    closed: watch::Receiver<bool>,
    viewer: Viewer,
    session: Option<String>,
    beat: tokio::time::Interval,
    /// Whether anything was sent.
    has_begun: bool,
    _permit: OwnedSemaphorePermit,
}

impl Listener {
    fn may_see(&self, change: &Change) -> bool {
        let is_theirs = match self.viewer {
            Viewer::Everything => true,
            Viewer::Owner(owner) => change.owner == owner,
        };
        is_theirs && self.session.as_ref().is_none_or(|session| *session == change.session)
    }

    /// The next piece of the stream; `None` at its end.
    async fn next(&mut self) -> Option<String> {
        if !std::mem::replace(&mut self.has_begun, true) {
            tokio::select! {
                _ = self.has_looked.wait_for(|has_looked| *has_looked) => {}
                _ = self.closed.wait_for(|is_closed| *is_closed) => return None,
            }
            return Some(event(&json!({"kind": "hello"})));
        }
        loop {
            if *self.closed.borrow() {
                return None;
            }
            tokio::select! {
                changed = self.closed.changed() => {
                    changed.ok()?;
                }
                told = self.told.recv() => match told {
                    Ok(Told::Change(change)) if self.may_see(&change) => {
                        return Some(event(&serde_json::to_value(&*change).unwrap_or_default()));
                    }
                    Ok(Told::Change(_)) => {}
                    Ok(Told::Missed) | Err(broadcast::error::RecvError::Lagged(_)) => {
                        return Some(event(&json!({"kind": "missed"})));
                    }
                    Err(broadcast::error::RecvError::Closed) => return None,
                },
                _ = self.beat.tick() => return Some(":\n\n".to_owned()),
            }
        }
    }
}

fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

impl Console {
    /// Begins a stream of events.
    pub(super) fn listen(
        &self,
        viewer: Viewer,
        mut query: Query,
    ) -> Result<Response<ResponseBody>, Refusal> {
        let session = query.words("session");
        query.end()?;
        let events = &self.events;
        let Ok(permit) = Arc::clone(&events.listeners).try_acquire_owned() else {
            return Err(Refusal::busy("too many listen already"));
        };
        // Before anybody looks for it, or the task may find nobody who listens, and end.
        let told = events.told.subscribe();
        events.look();
        let listener = Listener {
            told,
            has_looked: events.has_looked.subscribe(),
            closed: events.closed.subscribe(),
            viewer,
            session,
            beat: interval_at(Instant::now() + SILENCE_MAX, SILENCE_MAX),
            has_begun: false,
            _permit: permit,
        };
        let pieces = stream::unfold(listener, |mut listener| async move {
            let piece = listener.next().await?;
            Some((Chunk::Ok(Bytes::from(piece)), listener))
        });
        let mut response = Response::new(ResponseBody::Stream(pieces.boxed()));
        *response.status_mut() = StatusCode::OK;
        let kind = HeaderValue::from_static("text/event-stream");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        Ok(guarded(response))
    }
}
