//! The requests that go on from a call of ours.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Method, StatusCode, Uri};
use longhand::Tokens;
use longhand::recall::{Past, UNREADABLE};
use longhand_core::{Role, Scale};
use longhand_dialect::{Dialect, Overflow, Reply, ReplyCall, Stop, recognise_for};
use longhand_model::http;
use serde_json::json;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::NAME;
use crate::answer::Chunks;
use crate::asked::Asked;
use crate::headers;
use crate::passage::Head;
use crate::upstream::{Response, Upstream};
use crate::window::{Window, Windows};

/// How often calls of ours are answered for one request.
const ROUNDS_MAX: usize = 4;

/// The most that a call brings back.
const BROUGHT_MAX: Tokens = Tokens(4_000);

/// The least room in which something can be brought back.
const ROOM_MIN: Tokens = Tokens(60);

/// What stands above what is brought back: the model does not see that it asked.
const HEAD: &str = "[longhand recall: what you asked for with longhand_recall, as quotes]";

const ENOUGH: &str =
    "That is enough: nothing more is brought back in this turn. Answer with what you have.";
const NO_ROOM: &str = "There is no room for it now. Answer with what you have.";

/// How a request can be sent once more.
pub(crate) struct Again {
    pub(crate) upstream: Upstream,
    pub(crate) method: Method,
    pub(crate) address: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) asked: Arc<Asked>,
    pub(crate) window: Window,
    pub(crate) windows: Arc<Windows>,
    /// The longest that our part may take.
    pub(crate) deadline: Duration,
}

/// Answers the calls of one request.
pub(super) struct Recall {
    again: Again,
    rounds: usize,
}

/// Why there is no next answer.
pub(super) struct Failure {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Recall {
    pub(super) fn new(again: Again) -> Self {
        Self { again, rounds: 0 }
    }

    pub(super) fn dialect(&self) -> Dialect {
        self.again.asked.dialect()
    }

    /// Brings back what an answer calls for and has the model answer again; `None` if that was the last.
    ///
    /// What is brought back follows the request in its window, from now on. A call that came with others
    /// is answered with the next request.
    pub(super) async fn follow(&mut self, reply: &Reply) -> Option<Result<Response, Failure>> {
        if self.rounds > 0 {
            self.again.windows.followed(&self.again.asked, &self.again.window, reply);
        }
        let calls = reply.calls(self.dialect()).into_iter();
        let (ours, others): (Vec<_>, Vec<_>) = calls.partition(|call| call.name == NAME);
        if ours.is_empty() || self.is_begun() {
            return None;
        }
        let goes_on = others.is_empty()
            && reply.stop == Stop::Tools
            && self.rounds <= ROUNDS_MAX
            && self.is_one_answer();
        self.count().await;
        self.make_room().await;
        let text = self.brought(&ours).await;
        let windows = Arc::clone(&self.again.windows);
        self.replace(move |asked| windows.bring(asked, text).ok()).await?;
        if !goes_on {
            return None;
        }
        self.rounds += 1;
        let mut sent = self.send().await;
        if let Some(overflow) = self.overflow(sent.as_ref().err()) {
            let (windows, window) = (Arc::clone(&self.again.windows), self.again.window.clone());
            let harder = move |asked: &Asked| windows.harder(asked, &window, overflow);
            if self.replace(harder).await.is_some() {
                sent = self.send().await;
            }
        }
        Some(sent)
    }

    /// Whether the client has begun the answer itself: nothing can come before it any more.
    fn is_begun(&self) -> bool {
        let last = self.again.asked.conversation().messages.last();
        last.is_some_and(|last| last.role == Role::Assistant)
    }

    /// Whether one answer was asked for and not several.
    fn is_one_answer(&self) -> bool {
        let count = self.again.asked.conversation().field("n");
        count.and_then(|count| count.parse::<u64>().ok()).is_none_or(|count| count <= 1)
    }

    /// Makes another window, on a thread that may wait; `None` if there is none.
    async fn replace(
        &mut self,
        make: impl FnOnce(&Asked) -> Option<Window> + Send + 'static,
    ) -> Option<()> {
        let asked = Arc::clone(&self.again.asked);
        let window = timeout(self.again.deadline, spawn_blocking(move || make(&asked))).await;
        self.again.window = window.ok()?.ok()??;
        Some(())
    }

    /// Counts a window that was sent uncounted.
    async fn count(&mut self) {
        if self.again.window.after.is_none() {
            let asked = Arc::clone(&self.again.asked);
            let total = timeout(self.again.deadline, spawn_blocking(move || asked.total())).await;
            self.again.window.after = total.ok().and_then(Result::ok);
        }
    }

    /// Has a window that is nearly full made smaller, so that something can be brought back into it.
    async fn make_room(&mut self) {
        let (windows, own) = (Arc::clone(&self.again.windows), self.again.window.after);
        let Some(limit) = windows.limit(&self.again.asked) else { return };
        if self.left() >= Tokens(limit.0 / 8) {
            return;
        }
        let lower = Tokens(limit.0 / 4 * 3);
        let is_smaller = move |window: &Window| window.body.is_some() && window.after < own;
        self.replace(move |asked| windows.within(asked, lower, false).ok().filter(is_smaller))
            .await;
    }

    /// What is left of the budget.
    fn left(&self) -> Tokens {
        let Again { asked, windows, window, .. } = &self.again;
        let limit = windows.limit(asked).unwrap_or(Tokens::MAX);
        limit.saturating_sub(window.after.unwrap_or(limit))
    }

    /// What calls ask for, as it is to stand in the window.
    async fn brought(&self, calls: &[ReplyCall]) -> String {
        let share = Tokens((self.left().0 / 4).min(BROUGHT_MAX.0) / calls.len().max(1) as u64);
        let note = if self.rounds >= ROUNDS_MAX {
            Some(ENOUGH)
        } else if share < ROOM_MIN {
            Some(NO_ROOM)
        } else {
            None
        };
        let texts = match note {
            Some(note) => vec![note.to_owned()],
            None => self.look_up(calls, share).await,
        };
        format!("{HEAD}\n{}", texts.join("\n\n"))
    }

    /// Looks up what calls ask for; it takes no longer than our part may.
    async fn look_up(&self, calls: &[ReplyCall], limit: Tokens) -> Vec<String> {
        let (asked, windows) = (Arc::clone(&self.again.asked), Arc::clone(&self.again.windows));
        let calls: Vec<String> = calls.iter().map(|call| call.arguments.clone()).collect();
        let work = move || {
            let (store, scale) = (&asked.heard.store, Scale::new(&*asked.meter));
            let archive = &**store.archive();
            // What was just taken out of sight may still be on its way into the archive.
            store.settle();
            let session = &asked.heard.session;
            let past = Past::of(archive, session.owner, session.id, &asked.heard.trail.path);
            let found = calls.iter().map(|arguments| {
                let found = past.look_up(asked.dialect(), arguments, &scale, limit);
                windows.metrics.recalled(&found);
                found.text
            });
            found.collect()
        };
        match timeout(self.again.deadline, spawn_blocking(work)).await {
            Ok(Ok(texts)) => texts,
            _ => vec![UNREADABLE.to_owned()],
        }
    }

    /// What a failure says of a request that was too long.
    fn overflow(&self, failure: Option<&Failure>) -> Option<Overflow> {
        let Failure { status, body, .. } = failure?;
        let request = self.again.asked.conversation().bytes();
        recognise_for(status.as_u16(), &String::from_utf8_lossy(body), request)
    }

    async fn send(&self) -> Result<Response, Failure> {
        let Again { upstream, method, address, headers, asked, window, windows, .. } = &self.again;
        if !windows.is_kept(asked).await {
            return Err(Failure::new("the archive could not take what was brought back"));
        }
        let (method, address, headers) = (method.clone(), address.clone(), headers.clone());
        let body = http::full(window.body.clone().unwrap_or_default());
        let sent = upstream.send(method, address, headers, body).await;
        let response = sent.map_err(|_| Failure::new("the upstream cannot be reached"))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let (status, headers) = (response.status(), headers::end_to_end(response.headers()));
        let body = response.into_body().bytes().await.unwrap_or_default();
        Err(Failure { status, headers, body: body.into() })
    }
}

impl Failure {
    fn new(message: &str) -> Self {
        let error = json!({"type": "api_error", "message": message, "code": "longhand"});
        let body = json!({"type": "error", "error": error}).to_string();
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Self { status: StatusCode::BAD_GATEWAY, headers, body: body.into() }
    }

    /// The failure as an answer.
    pub(super) fn answer(self) -> (Head, Chunks) {
        let head = Head { status: self.status, headers: self.headers };
        (head, Chunks::of(vec![Ok(self.body)]))
    }
}
