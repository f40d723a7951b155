//! The API: each question is put to the application layer, and its answer is JSON.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue, SET_COOKIE};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use longhand::app::{
    App, AppError, ChangeKind, ExpandRequest, ListRequest, MessageRequest, SearchRequest, UsageBy,
    UsageRequest, ViewSettings, WindowRequest,
};
use longhand_dialect::Usage;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::access::{LoginError, Secret, Viewer};
use super::query::Query;
use super::response::{JSON, Refusal, json, with_type};
use super::routes::{Question, question};
use super::{Console, export};
use crate::answer::ResponseBody;

/// No page of another site can send this header without asking first, and nobody is told that it may.
const OURS: HeaderName = HeaderName::from_static("x-longhand-console");

/// The largest body of a question.
const BODY_BYTES_MAX: usize = 64 << 10;

/// How long a body may take to come.
const BODY_TIME_MAX: Duration = Duration::from_secs(10);

/// The description of the API.
const OPEN_API: &str = include_str!("openapi.json");

/// How many conversations are looked through for findings.
const FINDING_SESSIONS: usize = 10;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LoginBody {
    token: Option<String>,
    key: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PinBody {
    entry: u64,
    pinned: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UndoBody {
    batch: u64,
}

/// Who is logged in, and to what.
#[derive(Serialize)]
struct Me<'c> {
    version: &'static str,
    archive: Option<&'c str>,
    owner: &'static str,
    read_only: bool,
    proxy: bool,
    budget: Option<u64>,
}

type Answer = Result<Response<ResponseBody>, Refusal>;

impl Console {
    /// Answers a question.
    pub(super) async fn api(self: &Arc<Self>, parts: Parts, body: Incoming) -> Answer {
        let (question, session) = question(&parts.method, parts.uri.path())?;
        let viewer = match question {
            Question::Login => None,
            _ => Some(self.access.viewer(&parts.headers).ok_or_else(not_logged_in)?),
        };
        if parts.method == Method::POST {
            check_post(&parts, question)?;
        }
        let query = Query::of(&parts.uri)?;
        let Some(viewer) = viewer else {
            query.end()?;
            return self.login(read(body).await?);
        };
        match question {
            Question::Login => Err(not_logged_in()),
            Question::Logout => {
                query.end()?;
                let mut response = with_type(StatusCode::NO_CONTENT, JSON, Vec::new());
                response.headers_mut().remove(CONTENT_TYPE);
                set_cookie(&mut response, &self.access.logout(&parts.headers))?;
                Ok(response)
            }
            Question::Pin | Question::Undo => {
                self.change(viewer, question, session, query, body).await
            }
            Question::Events => self.listen(viewer, query),
            Question::Export => export::answer(self, viewer, session, query).await,
            Question::OpenApi => {
                query.end()?;
                Ok(with_type(StatusCode::OK, JSON, OPEN_API.as_bytes().to_vec()))
            }
            Question::Me => {
                query.end()?;
                let me = serde_json::to_vec(&self.me(viewer)).unwrap_or_default();
                Ok(with_type(StatusCode::OK, JSON, me))
            }
            question => self.read_only_question(viewer, question, session, query).await,
        }
    }

    fn me(&self, viewer: Viewer) -> Me<'_> {
        let sees_all = viewer == Viewer::Everything;
        Me {
            version: env!("CARGO_PKG_VERSION"),
            archive: self.settings.archive_name.as_deref().filter(|_| sees_all),
            owner: if sees_all { "everyone" } else { "key" },
            read_only: self.settings.is_read_only,
            proxy: self.has_proxy,
            budget: self.budget,
        }
    }

    fn login(&self, body: LoginBody) -> Answer {
        let secret = match body {
            LoginBody { token: Some(token), key: None } => Secret::Token(token),
            LoginBody { token: None, key: Some(key) } => Secret::Key(key),
            _ => return Err(Refusal::bad("give either `token` or `key`")),
        };
        let (viewer, cookie) = self.access.login(&secret).map_err(login_refused)?;
        let me = serde_json::to_vec(&self.me(viewer)).unwrap_or_default();
        let mut response = with_type(StatusCode::OK, JSON, me);
        set_cookie(&mut response, &cookie)?;
        Ok(response)
    }

    /// Pins, unpins or undoes.
    async fn change(
        &self,
        viewer: Viewer,
        question: Question,
        session: String,
        query: Query,
        body: Incoming,
    ) -> Answer {
        query.end()?;
        if self.settings.is_read_only {
            let message = "this console is read-only";
            return Err(Refusal::new(StatusCode::FORBIDDEN, "read_only", message));
        }
        let is_pin = question == Question::Pin;
        let (kind, answer) = if is_pin {
            let PinBody { entry, pinned } = read(body).await?;
            let pin = move |app: &App| {
                let report = app.pin(&session, entry, pinned)?;
                Ok((app.changed(&report.session, ChangeKind::Pins)?, json(&report)?))
            };
            self.ask(viewer, pin).await?
        } else {
            let UndoBody { batch } = read(body).await?;
            let undo = move |app: &App| {
                let report = app.undo_batch(&session, batch)?;
                Ok((app.changed(&report.session, ChangeKind::Batch)?, json(&report)?))
            };
            self.ask(viewer, undo).await?
        };
        self.events.tell(kind);
        Ok(with_type(StatusCode::OK, JSON, answer))
    }

    /// Answers what changes nothing.
    async fn read_only_question(
        &self,
        viewer: Viewer,
        question: Question,
        session: String,
        query: Query,
    ) -> Answer {
        let prices = self.settings.prices.clone();
        let ask = asked(question, session, query, prices)?;
        let answer = self.ask(viewer, move |app| ask(app)).await?;
        Ok(with_type(StatusCode::OK, JSON, answer))
    }
}

/// A question to the application layer.
type Asked = Box<dyn FnOnce(&App) -> Result<Vec<u8>, AppError> + Send>;

/// Reads the parameters of a question. All that can be wrong with them is said before anything is asked.
fn asked(
    question: Question,
    session: String,
    mut query: Query,
    prices: longhand_model::Prices,
) -> Result<Asked, Refusal> {
    let asked: Asked = match question {
        Question::Sessions => {
            let request = ListRequest {
                all: query.flag("kin")?,
                limit: Some(query.limit(50, 500)?),
                after: query.text("after"),
                words: query.words("q"),
            };
            Box::new(move |app| json(&app.sessions(&request)?))
        }
        Question::Search => {
            let request = search_request(&mut query)?;
            Box::new(move |app| json(&app.find_entries(&request)?))
        }
        Question::Session => {
            let view = ViewSettings { budget: query.number("budget")?, budget_default: None };
            Box::new(move |app| json(&app.show(&session, &view)?))
        }
        Question::Kin => Box::new(move |app| json(&app.kin_of(&session)?)),
        Question::Map => {
            let request = query.number("request")?;
            Box::new(move |app| json(&app.context_map(&session, request)?))
        }
        Question::Requests => {
            let (limit, after) = (query.limit(200, 2_000)?, query.text("after"));
            Box::new(move |app| json(&app.request_page(&session, after.as_deref(), limit)?))
        }
        Question::Messages => {
            let request = MessageRequest {
                from: query.number("from")?.unwrap_or(0),
                around: query.number("around")?,
                limit: Some(query.limit(100, 500)? as u64),
                all: query.flag("all")?,
            };
            Box::new(move |app| json(&app.message_page(&session, &request)?))
        }
        Question::Window => {
            let request = WindowRequest {
                request: query.number("request")?,
                from: query.number("from")?.unwrap_or(0) as usize,
                limit: Some(query.limit(200, 1_000)?),
                changed: query.flag("changed")?,
            };
            Box::new(move |app| json(&app.window_page(&session, &request)?))
        }
        Question::Log => {
            let (limit, after) = (query.limit(50, 500)?, query.text("after"));
            Box::new(move |app| json(&app.log_page(&session, after.as_deref(), limit)?))
        }
        Question::Payoff => {
            let (limit, after) = (query.limit(50, 500)?, query.text("after"));
            Box::new(move |app| json(&app.payoff(&session, after.as_deref(), limit)?))
        }
        Question::Regret => Box::new(move |app| json(&app.regret(&session)?)),
        Question::Pins => Box::new(move |app| json(&app.pins(&session)?)),
        Question::SessionFindings => Box::new(move |app| json(&app.session_findings(&session)?)),
        Question::Findings => {
            let sessions = query.limit(FINDING_SESSIONS, 50)?;
            Box::new(move |app| json(&app.findings(sessions)?))
        }
        Question::Expand => {
            let request = ExpandRequest {
                handle: query.words("handle").ok_or_else(|| Refusal::bad("`handle` is missing"))?,
                round: query.number("round")?,
                session: query.words("session"),
                raw: query.flag("raw")?,
                grep: query.words("grep"),
                limit: Some(query.limit(200, 1_000)? as u64),
            };
            Box::new(move |app| json(&app.expand(&request)?))
        }
        Question::Usage => {
            let by = match query.text("by").as_deref() {
                None | Some("day") => UsageBy::Day,
                Some("model") => UsageBy::Model,
                Some("agent") => UsageBy::Agent,
                Some("session") => UsageBy::Session,
                Some(_) => return Err(Refusal::bad("`by` is day, model, agent or session")),
            };
            let request = UsageRequest { by, limit: Some(query.limit(100, 1_000)?) };
            Box::new(move |app| {
                let price = |model: &str, usage: &Usage| {
                    prices.named(model).map(|price| longhand_model::cost_micros(&price, usage))
                };
                json(&app.usage(&request, &price)?)
            })
        }
        _ => return Err(Refusal::not_found("there is no such address")),
    };
    query.end()?;
    Ok(asked)
}

fn search_request(query: &mut Query) -> Result<SearchRequest, Refusal> {
    let role = query.words("role");
    let roles = ["user", "assistant", "tool", "system"];
    if role.as_ref().is_some_and(|role| !roles.contains(&role.as_str())) {
        return Err(Refusal::bad("`role` is user, assistant, tool or system"));
    }
    let context = query.number("context")?.unwrap_or(0);
    if context > 20 {
        return Err(Refusal::bad("`context` is 20 at most"));
    }
    Ok(SearchRequest {
        query: query.text("q").unwrap_or_default(),
        regex: query.flag("regex")?,
        newest: query.flag("newest")?,
        session: query.words("session"),
        project: query.words("project"),
        agent: query.words("agent"),
        role,
        tool: query.words("tool"),
        file: query.words("file"),
        since: query.time("since")?,
        before: query.time("before")?,
        context,
        limit: query.limit(20, 100)?,
    })
}

fn not_logged_in() -> Refusal {
    let hint = "open the link that the program printed, or `longhand console` for a new one; or log in with a key of the proxy";
    Refusal::with_hint(StatusCode::UNAUTHORIZED, "not_logged_in", "log in first", Some(hint))
}

fn login_refused(error: LoginError) -> Refusal {
    let unauthorized = StatusCode::UNAUTHORIZED;
    match error {
        LoginError::NoLink => Refusal::with_hint(
            unauthorized,
            "used_link",
            "this link was opened before, or is of a program that has ended",
            Some("`longhand console` opens a new one"),
        ),
        LoginError::NoKey => Refusal::new(unauthorized, "wrong_key", "the proxy has no such key"),
        LoginError::TooMany => {
            let message = "too many tries failed; wait a minute";
            Refusal::new(StatusCode::TOO_MANY_REQUESTS, "too_many_tries", message)
        }
        LoginError::NoRandom => Refusal::busy("the system has no random bytes"),
    }
}

/// What makes sure that a page of ours sends it, whatever the browser.
fn check_post(parts: &Parts, question: Question) -> Result<(), Refusal> {
    if !parts.headers.contains_key(OURS) {
        let message = "a page of the console sends the header x-longhand-console";
        return Err(Refusal::new(StatusCode::FORBIDDEN, "foreign_page", message));
    }
    if question == Question::Logout {
        return Ok(());
    }
    let kind = parts.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default();
    if kind.trim_ascii().eq_ignore_ascii_case(JSON.as_bytes()) {
        return Ok(());
    }
    let message = "the body is application/json";
    Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_json", message))
}

async fn read<T: DeserializeOwned>(body: Incoming) -> Result<T, Refusal> {
    let bytes: Bytes =
        match timeout(BODY_TIME_MAX, Limited::new(body, BODY_BYTES_MAX).collect()).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
                let message = "the body is too large";
                return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message));
            }
            Ok(Err(_)) => return Err(Refusal::bad("the body could not be read")),
            Err(_) => return Err(Refusal::bad("the body did not come in time")),
        };
    serde_json::from_slice(&bytes).map_err(|error| Refusal::bad(&format!("the body: {error}")))
}

fn set_cookie(response: &mut Response<ResponseBody>, cookie: &str) -> Result<(), Refusal> {
    let value = HeaderValue::from_str(cookie).map_err(|_| Refusal::busy("no cookie"))?;
    response.headers_mut().insert(SET_COOKIE, value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::super::routes::{ROOT, ROUTES};
    use super::*;

    #[test]
    fn every_address_is_described_and_nothing_else_is() {
        let described: Value = serde_json::from_str(OPEN_API).unwrap();
        let mut found = BTreeSet::new();
        for (path, methods) in described["paths"].as_object().unwrap() {
            for method in methods.as_object().unwrap().keys() {
                found.insert(format!("{method} {path}"));
            }
        }
        let mut expected = BTreeSet::new();
        for route in ROUTES {
            let path = format!("{ROOT}{}", route.path.replace('*', "{session}"));
            expected.extend(route.get.map(|_| format!("get {path}")));
            expected.extend(route.post.map(|_| format!("post {path}")));
        }
        assert_eq!(found, expected);
        assert_eq!(described["openapi"], "3.1.0");
    }
}
