//! Answering calls of the recall tool, and repeating the request.

use std::sync::Arc;

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
use crate::answer::AnswerChunks;
use crate::headers;
use crate::proxy::Shared;
use crate::request::admit::AdmittedRequest;
use crate::request::maker;
use crate::request::prepare::PreparedRequest;
use crate::request::source::RequestSource;
use crate::request::window::RequestWindow;
use crate::upstream::{AnswerHead, Upstream, UpstreamResponse};

/// How many rounds of calls are answered for one request.
const ROUNDS_MAX: usize = 4;

/// The most that a call brings back.
const BROUGHT_MAX: Tokens = Tokens(4_000);

/// The least room that is enough to bring something back.
const ROOM_MIN: Tokens = Tokens(60);

/// The headline of what is brought back: the model does not see its call.
const HEAD: &str = "[longhand recall: what you asked for with longhand_recall, as quotes]";

const ENOUGH: &str =
    "That is enough: nothing more is brought back in this turn. Answer with what you have.";
const NO_ROOM: &str = "There is no room for it now. Answer with what you have.";

/// A request that can be sent once more.
pub(crate) struct RepeatableRequest {
    pub(crate) upstream: Upstream,
    pub(crate) method: Method,
    pub(crate) address: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) prepared: PreparedRequest,
    pub(crate) shared: Arc<Shared>,
}

/// Answers the calls of one request, round by round.
pub(super) struct RecallRounds {
    request: RepeatableRequest,
    rounds: usize,
}

/// Why there is no next answer.
pub(super) struct RecallFailure {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl RecallRounds {
    pub(super) fn new(request: RepeatableRequest) -> Self {
        Self { request, rounds: 0 }
    }

    pub(super) fn dialect(&self) -> Dialect {
        self.source().dialect()
    }

    fn source(&self) -> &Arc<RequestSource> {
        &self.request.prepared.source
    }

    /// Brings back what an answer calls for and has the model answer again; `None` if the answer is the last.
    ///
    /// What is brought back follows the request in this window and all later ones. If the answer also calls tools of
    /// the client, the model sees it with the client's next request.
    pub(super) async fn follow(
        &mut self,
        reply: &Reply,
    ) -> Option<Result<UpstreamResponse, RecallFailure>> {
        if self.rounds > 0 {
            self.request.shared.recorder.record_recall(&self.request.prepared, reply);
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
        self.replace(async move |shared, prepared| {
            shared.windows.insert(&prepared.source, text).await.ok()
        })
        .await?;
        if !goes_on {
            return None;
        }
        self.rounds += 1;
        Some(self.send_within_limit().await)
    }

    /// Sends the request, and once more with a smaller window if it is too long.
    async fn send_within_limit(&mut self) -> Result<UpstreamResponse, RecallFailure> {
        let sent = self.send().await;
        let Some(overflow) = self.overflow(sent.as_ref().err()) else { return sent };
        let smaller = self
            .replace(async move |shared, PreparedRequest { source, window, .. }| {
                shared.windows.smaller(&source, &window, overflow).await
            })
            .await;
        if smaller.is_some() { self.send().await } else { sent }
    }

    /// Whether the client has begun the answer itself: nothing can be inserted before that.
    fn is_begun(&self) -> bool {
        let last = self.source().conversation().messages.last();
        last.is_some_and(|last| last.role == Role::Assistant)
    }

    /// Whether one answer was asked for and not several.
    fn is_one_answer(&self) -> bool {
        let count = self.source().conversation().field("n");
        count.and_then(|count| count.parse::<u64>().ok()).is_none_or(|count| count <= 1)
    }

    /// Makes another window, in a task of its own; `None` if there is none.
    async fn replace<F>(
        &mut self,
        make: impl FnOnce(Arc<Shared>, PreparedRequest) -> F,
    ) -> Option<()>
    where
        F: Future<Output = Option<RequestWindow>> + Send + 'static,
    {
        let shared = Arc::clone(&self.request.shared);
        let work = tokio::spawn(make(shared, self.request.prepared.clone()));
        let window = timeout(self.request.shared.settings.deadline, work).await;
        self.request.prepared.window = window.ok()?.ok()??;
        Some(())
    }

    /// Counts a window that was sent uncounted.
    async fn count(&mut self) {
        if self.request.prepared.window.after.is_none() {
            let source = Arc::clone(self.source());
            let work = tokio::spawn(async move { maker::total(&source).await });
            let total = timeout(self.request.shared.settings.deadline, work).await;
            self.request.prepared.window.after = total.ok().and_then(Result::ok);
        }
    }

    /// Has a window that is nearly full made smaller, so that something can be brought back into it.
    async fn make_room(&mut self) {
        let Some(limit) = self.limit() else { return };
        let Some(tokens) = self.request.prepared.window.after else { return };
        if self.left() >= Tokens(limit.0 / 8) {
            return;
        }
        let lower = Tokens(limit.0 / 4 * 3);
        self.replace(async move |shared, prepared| {
            shared.windows.below(&prepared.source, lower, tokens).await
        })
        .await;
    }

    fn limit(&self) -> Option<Tokens> {
        self.request.shared.knowledge.limit_of(self.source())
    }

    /// What is left of the budget.
    fn left(&self) -> Tokens {
        let limit = self.limit().unwrap_or(Tokens::MAX);
        limit.saturating_sub(self.request.prepared.window.after.unwrap_or(limit))
    }

    /// What calls ask for, as the window shows it.
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

    /// Looks up what calls ask for, within the deadline.
    async fn look_up(&self, calls: &[ReplyCall], limit: Tokens) -> Vec<String> {
        let (source, shared) = (Arc::clone(self.source()), Arc::clone(&self.request.shared));
        let calls: Vec<String> = calls.iter().map(|call| call.arguments.clone()).collect();
        let work = async move {
            // What was just left out of the window may not be written yet.
            source.admitted.store.settle().await;
            // It waits for the archive, and has no turn meanwhile.
            spawn_blocking(move || looked_up(&source, &shared, &calls, limit)).await
        };
        match timeout(self.request.shared.settings.deadline, tokio::spawn(work)).await {
            Ok(Ok(Ok(texts))) => texts,
            _ => vec![UNREADABLE.to_owned()],
        }
    }

    /// The overflow that a failure reports, if it does.
    fn overflow(&self, failure: Option<&RecallFailure>) -> Option<Overflow> {
        let RecallFailure { status, body, .. } = failure?;
        let request = self.source().conversation().bytes();
        recognise_for(status.as_u16(), &String::from_utf8_lossy(body), request)
    }

    async fn send(&self) -> Result<UpstreamResponse, RecallFailure> {
        let RepeatableRequest { upstream, method, address, headers, prepared, shared } =
            &self.request;
        if !shared.windows.waiter.may_send(&prepared.source).await {
            let message = "the archive could not take what was brought back";
            return Err(RecallFailure::new(message));
        }
        let (method, address, headers) = (method.clone(), address.clone(), headers.clone());
        let body = http::full(prepared.window.body.clone().unwrap_or_default());
        let sent = upstream.send(method, address, headers, body).await;
        let response = sent.map_err(|_| RecallFailure::new("the upstream cannot be reached"))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let (status, headers) = (response.status(), headers::end_to_end(response.headers()));
        let body = response.into_body().bytes().await.unwrap_or_default();
        Err(RecallFailure { status, headers, body: body.into() })
    }
}

/// Looks up what calls ask for in the session of a request.
fn looked_up(
    source: &RequestSource,
    shared: &Shared,
    calls: &[String],
    limit: Tokens,
) -> Vec<String> {
    let AdmittedRequest { store, placed, .. } = &*source.admitted;
    let (session, path) = (&placed.session, &placed.trail.path);
    let (archive, reach) = (store.shared_archive(), shared.settings.recall_reach);
    let past = Past::of(archive, session.owner, session.id, path, reach);
    let scale = Scale::new(&*source.window.meter);
    let found = calls.iter().map(|arguments| {
        let found = past.look_up(arguments, &scale, limit);
        shared.metrics.recalled(&found);
        found.text
    });
    found.collect()
}

impl RecallFailure {
    fn new(message: &str) -> Self {
        let error = json!({"type": "api_error", "message": message, "code": "longhand"});
        let body = json!({"type": "error", "error": error}).to_string();
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Self { status: StatusCode::BAD_GATEWAY, headers, body: body.into() }
    }

    /// The failure as an answer.
    pub(super) fn answer(self) -> (AnswerHead, AnswerChunks) {
        let head = AnswerHead { status: self.status, headers: self.headers };
        (head, AnswerChunks::of(vec![Ok(self.body)]))
    }
}
