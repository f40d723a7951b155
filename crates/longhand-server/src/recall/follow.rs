//! The requests that go on from a call of ours.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderMap, Method, StatusCode};
use futures_util::{StreamExt, stream};
use longhand::Tokens;
use longhand_core::Scale;
use longhand_dialect::{Dialect, Reply, Stop, recognise};
use reqwest::{Client, Response, Url};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::calls::{Call, Calls, exchange, follow_up};
use super::json;
use super::lookup::{FAILED, look_up, scope};
use crate::answer::Chunks;
use crate::asked::Asked;
use crate::headers;
use crate::passage::Head;
use crate::window::{Window, Windows, lock};

/// How often calls of ours are answered for one request.
const ROUNDS_MAX: usize = 4;

/// The most that a call brings back.
const BROUGHT_MAX: Tokens = Tokens(4_000);

/// The least room in which something can be brought back.
const ROOM_MIN: Tokens = Tokens(60);

const ENOUGH: &str =
    "That is enough: nothing more is brought back in this turn. Answer with what you have.";
const NO_ROOM: &str = "There is no room for it now. Answer with what you have.";

/// How a request can be sent once more.
pub(crate) struct Again {
    pub(crate) client: Client,
    pub(crate) method: Method,
    pub(crate) address: Url,
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
    /// What came after the window so far, and what it counts for.
    more: Vec<String>,
    more_tokens: Tokens,
    rounds: usize,
}

/// The next request: its body, and what comes after the window in it.
struct Next {
    body: String,
    more: Vec<String>,
    more_tokens: Tokens,
}

/// Why there is no next answer.
pub(super) struct Failure {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Recall {
    pub(super) fn new(again: Again) -> Self {
        Self { again, more: Vec::new(), more_tokens: Tokens::ZERO, rounds: 0 }
    }

    pub(super) fn dialect(&self) -> Dialect {
        self.again.asked.dialect()
    }

    /// Answers the calls of ours in an answer and has the model go on; `None` if the answer is the last.
    pub(super) async fn follow(&mut self, reply: &Reply) -> Option<Result<Response, Failure>> {
        if self.rounds > 0 {
            self.again.windows.followed(&self.again.asked, &self.again.window, reply);
            lock(&self.again.asked.behind).id.clone_from(&reply.id);
        }
        let calls = Calls::of(self.dialect(), &reply.message);
        if calls.ours.is_empty() {
            return None;
        }
        let goes_on = !calls.others && reply.stop == Stop::Tools && self.rounds <= ROUNDS_MAX;
        let mut next = None;
        if goes_on && self.is_one_answer() {
            self.make_room().await;
            next = self.next(reply, &calls.ours, false).await;
        }
        let Some(mut next) = next else {
            let ids = calls.ours.into_iter().map(|call| call.id);
            lock(&self.again.asked.behind).calls.extend(ids);
            return None;
        };
        let mut sent = self.send(&next).await;
        if sent.as_ref().is_err_and(Failure::is_overflow)
            && let Some(shorter) = self.next(reply, &calls.ours, true).await
        {
            next = shorter;
            sent = self.send(&next).await;
        }
        self.rounds += 1;
        self.more = next.more;
        self.more_tokens = next.more_tokens;
        Some(sent)
    }

    /// Whether one answer was asked for and not several.
    fn is_one_answer(&self) -> bool {
        json::number(self.again.asked.conversation().bytes(), &["n"]).is_none_or(|n| n <= 1)
    }

    /// Has a window that is nearly full made smaller, so that something can be brought back into it.
    async fn make_room(&mut self) {
        let (asked, windows) = (Arc::clone(&self.again.asked), Arc::clone(&self.again.windows));
        let Some(limit) = windows.limit(&asked) else { return };
        // A provider that holds the history has it as it was sent.
        if self.left().0 >= limit.0 / 8 || asked.held.is_some() {
            return;
        }
        let lower = Tokens(limit.0 / 4 * 3).saturating_sub(self.more_tokens);
        let smaller = spawn_blocking(move || windows.within(&asked, lower, false));
        if let Ok(Ok(window)) = smaller.await
            && window.body.is_some()
            && window.after < self.again.window.after
        {
            self.again.window = window;
        }
    }

    /// The request with an answer and what its calls brought back; `None` if there is no room for it.
    async fn next(&self, reply: &Reply, calls: &[Call], is_full: bool) -> Option<Next> {
        let dialect = self.dialect();
        let left = self.left();
        let room = left.saturating_sub(self.weigh(&exchange(dialect, reply, &[])));
        let share = Tokens((room.0 / 4).min(BROUGHT_MAX.0) / calls.len().max(1) as u64);
        let texts = if self.rounds >= ROUNDS_MAX {
            vec![ENOUGH.to_owned(); calls.len()]
        } else if is_full || share < ROOM_MIN {
            vec![NO_ROOM.to_owned(); calls.len()]
        } else {
            self.look_up(calls, share).await
        };
        let results: Vec<(&Call, String)> = calls.iter().zip(texts).collect();
        let new = exchange(dialect, reply, &results);
        let tokens = self.weigh(&new);
        if tokens > left {
            return None;
        }
        let more: Vec<String> = self.more.iter().cloned().chain(new).collect();
        let sent = self.again.window.body.as_ref()?;
        let body = follow_up(dialect, std::str::from_utf8(sent).ok()?, &more)?;
        Some(Next { body, more, more_tokens: self.more_tokens + tokens })
    }

    /// What is left of the budget.
    fn left(&self) -> Tokens {
        let limit = self.again.windows.limit(&self.again.asked).unwrap_or(Tokens::MAX);
        limit.saturating_sub(self.again.window.after.unwrap_or(Tokens::ZERO) + self.more_tokens)
    }

    fn weigh(&self, more: &[String]) -> Tokens {
        let scale = Scale::new(&*self.again.asked.meter);
        more.iter().map(|own| scale.text(own) + scale.framing().message).sum()
    }

    /// Looks up what calls ask for; it takes no longer than our part may.
    async fn look_up(&self, calls: &[Call], limit: Tokens) -> Vec<String> {
        let (asked, windows) = (Arc::clone(&self.again.asked), Arc::clone(&self.again.windows));
        let (wanted, failed) = (calls.to_vec(), || vec![FAILED.to_owned(); calls.len()]);
        let work = move || {
            let (store, scale) = (&windows.store, Scale::new(&*asked.meter));
            let archive = &**store.archive();
            // What was just taken out of sight may still be on its way into the archive.
            store.settle();
            let heard = &asked.heard;
            let scope = scope(archive, heard.session.id, &heard.trail.path);
            let found = wanted.iter().map(|call| {
                let found =
                    look_up(archive, &scope, asked.dialect(), &call.arguments, &scale, limit);
                windows.metrics.recalled(found.sought, found.outcome);
                found.text
            });
            found.collect()
        };
        match timeout(self.again.deadline, spawn_blocking(work)).await {
            Ok(Ok(texts)) => texts,
            _ => failed(),
        }
    }

    async fn send(&self, next: &Next) -> Result<Response, Failure> {
        let Again { client, method, address, headers, .. } = &self.again;
        let request = client.request(method.clone(), address.clone()).headers(headers.clone());
        let response =
            request.body(next.body.clone()).send().await.map_err(|_| Failure::unreachable())?;
        if response.status().is_success() {
            return Ok(response);
        }
        let (status, headers) = (response.status(), headers::end_to_end(response.headers()));
        let body = response.bytes().await.unwrap_or_default();
        Err(Failure { status, headers, body })
    }
}

impl Failure {
    fn unreachable() -> Self {
        let body = r#"{"type":"error","error":{"type":"api_error","message":"the upstream cannot be reached","code":"longhand"}}"#;
        let mut headers = HeaderMap::new();
        headers.insert(
            axum::http::header::CONTENT_TYPE,
            axum::http::HeaderValue::from_static("application/json"),
        );
        Self { status: StatusCode::BAD_GATEWAY, headers, body: body.into() }
    }

    /// Whether the request was too long.
    fn is_overflow(&self) -> bool {
        recognise(self.status.as_u16(), &String::from_utf8_lossy(&self.body)).is_some()
    }

    /// The failure as an answer.
    pub(super) fn answer(self) -> (Head, Chunks) {
        let head = Head { status: self.status, headers: self.headers };
        (head, stream::iter([Ok(self.body)]).boxed())
    }
}
