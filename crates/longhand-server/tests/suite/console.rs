//! The console: who is let in, what each route answers, and whether its figures are the provider's own.

mod scale;
mod schema;

use std::time::Duration;

use futures_util::StreamExt;
use longhand::Tokens;
use longhand_server::{ConsoleSettings, Settings};
use longhand_testkit::scripted::ScriptStep;
use serde_json::{Value, json};

use self::schema::{Description, Operation};
use crate::common::client::{Answer, Call};
use crate::common::{Stage, answers, assistant, id_of, messages, request, until, user};

const KEYS: [&str; 2] = ["key-of-ann-123456", "key-of-bob-123456"];
const API: &str = "/longhand/api/v1";

fn with_console(settings: &mut Settings) {
    settings.console = Some(ConsoleSettings::default());
}

fn keyed(settings: &mut Settings) {
    with_console(settings);
    settings.keys = KEYS.map(str::to_owned).to_vec();
}

/// A browser that is logged in.
struct Browser<'s> {
    stage: &'s Stage,
    cookie: String,
}

fn posted<'s>(stage: &'s Stage, path: &str, body: &Value) -> Call<'s> {
    let call = stage.client.post(stage.url(path)).header("content-type", "application/json");
    call.header("x-longhand-console", "1").body(body.to_string())
}

async fn login(stage: &Stage, body: &Value) -> (u16, String, Value) {
    let answer = posted(stage, &format!("{API}/login"), body).send().await.unwrap();
    let status = answer.status().as_u16();
    let cookie = answer.headers().get("set-cookie").map(|value| value.to_str().unwrap().to_owned());
    let body = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
    (status, cookie.unwrap_or_default(), body)
}

impl<'s> Browser<'s> {
    /// Opens the link that is printed.
    async fn with_link(stage: &'s Stage) -> Self {
        let link = stage.proxy.console_link().unwrap().unwrap();
        let (page, token) = link.split_once("#token=").unwrap();
        assert!(page.ends_with("/longhand/console/"), "{link}");
        Self::with(stage, &json!({"token": token})).await
    }

    async fn with(stage: &'s Stage, secret: &Value) -> Self {
        let (status, cookie, body) = login(stage, secret).await;
        assert_eq!(status, 200, "{body}");
        Self { stage, cookie: cookie.split(';').next().unwrap().to_owned() }
    }

    fn get(&self, path: &str) -> Call<'s> {
        self.stage.client.get(self.stage.url(path)).header("cookie", &self.cookie)
    }

    fn post(&self, path: &str, body: &Value) -> Call<'s> {
        posted(self.stage, path, body).header("cookie", &self.cookie)
    }

    /// The JSON of an answer, which must be as described.
    async fn ask(&self, path: &str) -> Value {
        let answer = self.get(&format!("{API}{path}")).send().await.unwrap();
        let (status, text) = (answer.status().as_u16(), answer.text().await.unwrap());
        assert_eq!(status, 200, "{path}: {text}");
        serde_json::from_str(&text).unwrap()
    }
}

/// An answer of a model, with what the provider says that it took.
fn billed(text: &str, [input, cached, output]: [u64; 3]) -> ScriptStep {
    let body = json!({
        "model": "scripted", "choices": [{"index": 0, "message": assistant(text), "finish_reason": "stop"}],
        "usage": {"prompt_tokens": input, "completion_tokens": output,
            "prompt_tokens_details": {"cached_tokens": cached}},
    });
    ScriptStep::Raw(200, vec![("content-type", "application/json".to_owned())], body.to_string())
}

/// A session whose window was brought down: a tool loop behind a system prompt and tools.
async fn filled(change: impl FnOnce(&mut Settings)) -> Stage {
    let mut steps = answers(4);
    steps.push(billed("<b>done</b>", [5_000, 2_000, 30]));
    // For whoever goes on from there.
    steps.extend(answers(1));
    let stage = Stage::with(steps, |settings| {
        settings.budget = Some(Tokens(4_000));
        change(settings);
    })
    .await;
    let key = stage_key(&stage);
    for count in [2, 8, 14, 20, 26] {
        let mut all = vec![
            json!({"role": "system", "content": "You mend builds. <script>alert(1)</script>"}),
        ];
        all.extend(messages("/v1/chat/completions", count));
        let mut body: Value =
            serde_json::from_str(&request("/v1/chat/completions", &all, false)).unwrap();
        let tool = |name: &str| json!({"type": "function", "function": {"name": name, "parameters": {"type": "object"}}});
        body["tools"] = json!([tool("read"), tool("mcp__github__search")]);
        let call = stage.client.post(stage.url("/v1/chat/completions"));
        let call = call.header("content-type", "application/json").bearer_auth(&key);
        let call = call.header("x-longhand-session", "fix-build");
        let answer = call.body(body.to_string()).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        answer.text().await.unwrap();
    }
    let archive = stage.archive.clone();
    until("five requests are archived", || {
        let sessions = crate::common::sessions(&*archive);
        sessions.iter().any(|info| info.usage.sums.requests == 5)
    })
    .await;
    stage
}

fn stage_key(_: &Stage) -> String {
    KEYS[0].to_owned()
}

/// A path of the API for a session.
fn path_of(operation: &Operation, session: &str) -> String {
    let query = if operation.path.ends_with("/expand") {
        format!("?handle={session}")
    } else {
        String::new()
    };
    format!("{}{query}", operation.path.replace("{session}", session))
}

fn body_of(operation: &Operation) -> Value {
    match operation.path.rsplit('/').next().unwrap() {
        "pins" => json!({"entry": 0, "pinned": true}),
        "undo" => json!({"batch": 1}),
        _ => json!({}),
    }
}

async fn status_and_text(answer: Answer) -> (u16, String) {
    (answer.status().as_u16(), answer.text().await.unwrap())
}

#[tokio::test]
async fn no_route_answers_those_who_are_not_let_in() {
    let stage = filled(keyed).await;
    let session = id_of(&*stage.archive, "fix-build").to_string();
    let browser = Browser::with(&stage, &json!({"key": KEYS[0]})).await;
    let bob = Browser::with(&stage, &json!({"key": KEYS[1]})).await;
    let description = Description::read();
    let operations = description.operations();
    assert!(operations.len() > 20);
    for operation in &operations {
        let path = path_of(operation, &session);
        let call = |cookie: Option<&str>| {
            let call = if operation.method == "POST" {
                posted(&stage, &path, &body_of(operation))
            } else {
                stage.client.get(stage.url(&path))
            };
            match cookie {
                Some(cookie) => call.header("cookie", cookie),
                None => call,
            }
        };
        let fits = |status: u16, text: &str| {
            let faults = description.faults(&operation.method, &operation.path, status, text);
            assert!(faults.is_empty(), "{faults:#?}");
        };
        // Nobody, and somebody who guesses.
        let port = stage.proxy.address().port();
        let guess = format!("longhand-console-{port}={}", "0".repeat(64));
        for cookie in [None, Some(guess.as_str())] {
            let (status, text) = status_and_text(call(cookie).send().await.unwrap()).await;
            let expected = if operation.is_public { 400 } else { 401 };
            assert_eq!(status, expected, "{path} {cookie:?}: {text}");
            fits(status, &text);
            assert!(!text.contains("fix-build") && !text.contains("mend builds"), "{path}");
        }
        // Other pages, with the cookie of somebody who is logged in.
        for (name, value) in [
            ("origin", "https://evil.example"),
            ("origin", "http://127.0.0.1:1"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("host", "evil.example"),
        ] {
            let call = call(Some(&browser.cookie)).header(name, value);
            let (status, text) = status_and_text(call.send().await.unwrap()).await;
            assert_eq!(status, 403, "{path} {name}: {value}");
            fits(status, &text);
        }
        // The wrong method.
        let other = if operation.method == "POST" { "PUT" } else { "DELETE" };
        let call = stage.client.request(other.parse().unwrap(), stage.url(&path));
        let call = call.header("cookie", &browser.cookie).header("x-longhand-console", "1");
        let (status, text) = status_and_text(call.send().await.unwrap()).await;
        assert_eq!(status, 405, "{path}");
        fits(status, &text);
        // A page that cannot set headers.
        if operation.method == "POST" {
            let call = stage.client.post(stage.url(&path)).header("cookie", &browser.cookie);
            let call =
                call.header("content-type", "text/plain").body(body_of(operation).to_string());
            let (status, text) = status_and_text(call.send().await.unwrap()).await;
            assert_eq!(status, 403, "{path}: {text}");
            let get = browser.get(&operation.path.replace("{session}", &session));
            let (status, text) = status_and_text(get.send().await.unwrap()).await;
            let has_get = operation.path.ends_with("/pins");
            assert_eq!(status, if has_get { 200 } else { 405 }, "{path}: {text}");
        }
        // Another owner: as if it were not there.
        if operation.path.contains("{session}") {
            let call = if operation.method == "POST" {
                bob.post(&path, &body_of(operation))
            } else {
                bob.get(&path)
            };
            let (status, text) = status_and_text(call.send().await.unwrap()).await;
            assert_eq!(status, 404, "{path}: {text}");
            fits(status, &text);
        } else if operation.method == "GET" && !operation.path.ends_with("/events") {
            let (_, text) = status_and_text(bob.get(&path).send().await.unwrap()).await;
            let is_theirs = text.contains("fix-build") || text.contains("mend builds");
            assert!(!is_theirs || operation.path.ends_with("openapi.json"), "{path}: {text}");
        }
    }
    assert_eq!(stage.sent().len(), 5, "nothing of it goes upstream");
}

#[tokio::test]
async fn every_answer_is_as_described() {
    let stage = filled(with_console).await;
    let session = id_of(&*stage.archive, "fix-build").to_string();
    let browser = Browser::with_link(&stage).await;
    let description = Description::read();
    let pin = browser
        .post(&format!("{API}/sessions/{session}/pins"), &json!({"entry": 1, "pinned": true}));
    let (status, text) = status_and_text(pin.send().await.unwrap()).await;
    assert_eq!(status, 200, "{text}");
    let log = browser.ask(&format!("/sessions/{session}/log")).await;
    let handle = log["items"][0]["receipt"]["edits"][0]["at"].as_str().unwrap().to_owned();
    assert!(!handle.is_empty(), "{log}");
    let newest =
        browser.ask(&format!("/sessions/{session}/requests?limit=1")).await["items"][0]["number"]
            .clone();
    for (path, queries) in [
        ("/me", vec![""]),
        ("/openapi.json", vec![""]),
        ("/sessions", vec!["", "?kin=true&limit=1", "?q=fix", "?q=nothing+has+this"]),
        ("/search", vec!["?q=build", "?q=build&context=2&role=user", "?role=tool&limit=3"]),
        ("/sessions/{session}", vec!["", "?budget=900"]),
        ("/sessions/{session}/kin", vec![""]),
        ("/sessions/{session}/map", vec!["", "?request=1", "?request=5"]),
        ("/sessions/{session}/requests", vec!["", "?limit=2", "?after=3"]),
        (
            "/sessions/{session}/messages",
            vec!["", "?from=3&limit=2", "?around=4&limit=3", "?all=true"],
        ),
        (
            "/sessions/{session}/window",
            vec!["", "?request=5", "?request=5&changed=true", "?from=2&limit=3"],
        ),
        ("/sessions/{session}/log", vec!["", "?limit=1"]),
        ("/sessions/{session}/payoff", vec![""]),
        ("/sessions/{session}/regret", vec![""]),
        ("/sessions/{session}/pins", vec![""]),
        ("/sessions/{session}/findings", vec![""]),
        (
            "/expand",
            vec![
                "?handle={session}",
                "?handle={session}:1",
                "?handle={session}:1-2&raw=true&grep=line",
            ],
        ),
        ("/usage", vec!["", "?by=model", "?by=agent", "?by=session&limit=1"]),
        ("/findings", vec!["", "?limit=3"]),
    ] {
        for query in queries {
            let address = format!("{API}{path}{query}").replace("{session}", &session);
            let (status, text) = status_and_text(browser.get(&address).send().await.unwrap()).await;
            assert_eq!(status, 200, "{address}: {text}");
            let faults = description.faults("GET", &format!("{API}{path}"), status, &text);
            assert!(faults.is_empty(), "{faults:#?}");
        }
    }
    for (path, query, expected) in [
        ("/sessions", "?limit=0", 400),
        ("/sessions", "?after=x", 400),
        ("/sessions", "?unknown=1", 400),
        ("/search", "", 400),
        ("/search", "?q=(&regex=true", 400),
        ("/expand", "", 400),
        ("/expand", "?handle=h:000000000000", 404),
        ("/expand", "?handle=h:", 400),
        ("/usage", "?by=week", 400),
        ("/sessions/{session}/window", "?request=99", 404),
        ("/sessions/{session}/requests", "?after=x", 400),
        ("/sessions/{session}/log", "?after=x", 400),
    ] {
        let address = format!("{API}{path}{query}").replace("{session}", &session);
        let (status, text) = status_and_text(browser.get(&address).send().await.unwrap()).await;
        assert_eq!(status, expected, "{address}: {text}");
        let faults = description.faults("GET", &format!("{API}{path}"), status, &text);
        assert!(faults.is_empty(), "{faults:#?}");
    }
    // An undo names the batch that it takes back.
    let undo = |batch: &Value| {
        browser.post(&format!("{API}/sessions/{session}/undo"), &json!({"batch": batch}))
    };
    let undoable = &log["undoable"];
    let path = format!("{API}/sessions/{{session}}/undo");
    for (batch, expected) in [(json!(999), 409), (undoable.clone(), 200), (undoable.clone(), 409)] {
        let (status, text) = status_and_text(undo(&batch).send().await.unwrap()).await;
        assert_eq!(status, expected, "{text}");
        let faults = description.faults("POST", &path, status, &text);
        assert!(faults.is_empty(), "{faults:#?}");
    }
    assert!(newest.is_u64());
}

#[tokio::test]
async fn what_was_sent_is_what_the_upstream_got() {
    let stage = filled(with_console).await;
    let session = id_of(&*stage.archive, "fix-build").to_string();
    let browser = Browser::with_link(&stage).await;
    let sent: Value = serde_json::from_str(&stage.sent()[4]).unwrap();
    let page = browser.ask(&format!("/sessions/{session}/window?request=5&limit=1000")).await;
    let rows = page["items"].as_array().unwrap();
    let with = |state: &str| rows.iter().filter(|row| row["state"] == state).count();
    assert!(with("shortened") > 0 || with("left_out") > 0, "{page}");
    assert!(page["tokens"].as_u64() < page["tokens_before"].as_u64(), "{page}");
    // Each text of the upstream's request stands in a row, in order, and no row has another.
    let mut texts = rows.iter().filter(|row| row["state"] != "left_out");
    for message in sent["messages"].as_array().unwrap() {
        let Some(text) = message["content"].as_str() else { continue };
        let is_it =
            |row: &&Value| row["text"].as_str().is_some_and(|shown| shown.trim() == text.trim());
        assert!(texts.any(|row| is_it(&row)), "{text:?} is in no row");
    }
    for row in rows.iter().filter(|row| row["state"] == "shortened") {
        assert!(row["batch"].as_u64() > Some(0) && row["why"].is_string(), "{row}");
        let handle = row["handle"].as_str().unwrap();
        let expanded = browser.ask(&format!("/expand?handle={handle}&session={session}")).await;
        let original = row["original"].as_str().unwrap();
        assert!(
            expanded["content"].as_str().unwrap().contains(original.lines().next().unwrap()),
            "{row}"
        );
        assert!(row["saved"].as_u64() > Some(0), "{row}");
    }
    let map = browser.ask(&format!("/sessions/{session}/map?request=5")).await;
    let parts = map["parts"].as_array().unwrap();
    let sum: u64 = parts.iter().map(|part| part["tokens"].as_u64().unwrap()).sum();
    assert_eq!(map["tokens"], sum);
    let kinds: Vec<&str> = parts.iter().map(|part| part["kind"].as_str().unwrap()).collect();
    assert!(
        ["system", "tools", "mcp", "verbatim"].iter().all(|kind| kinds.contains(kind)),
        "{map}"
    );
    assert!(parts.iter().any(|part| part["kind"] == "mcp" && part["name"] == "github"), "{map}");
}

#[tokio::test]
async fn figures_are_the_providers_own() {
    let usages = [[1_000, 0, 10], [1_200, 1_000, 20], [1_500, 1_200, 30]];
    let steps = usages.iter().map(|usage| billed("ok", *usage));
    let stage = Stage::with(steps, with_console).await;
    let mut said = Vec::new();
    for at in 0..usages.len() {
        said.push(user(&format!("Question {at}, please.")));
        let body = json!({"model": "scripted", "messages": said});
        stage.post("/v1/chat/completions", &body.to_string()).await.text().await.unwrap();
        said.push(assistant("ok"));
    }
    let archive = stage.archive.clone();
    until("three requests are archived", || {
        crate::common::sessions(&*archive).iter().any(|info| info.usage.sums.requests == 3)
    })
    .await;
    let sum = |at: usize| usages.iter().map(|usage| usage[at]).sum::<u64>();
    let browser = Browser::with_link(&stage).await;
    for by in ["day", "model", "agent", "session"] {
        let usage = browser.ask(&format!("/usage?by={by}")).await;
        for row in [&usage["total"], &usage["rows"][0]] {
            assert_eq!(row["requests"], 3, "{by}: {usage}");
            assert_eq!(row["sent"], sum(0), "{by}: {usage}");
            assert_eq!(row["cached"], sum(1), "{by}: {usage}");
            assert_eq!(row["output"], sum(2), "{by}: {usage}");
            assert_eq!(row["cached_reported"], true, "{by}: {usage}");
        }
    }
    let listed = browser.ask("/sessions").await;
    let session = listed["items"][0]["id"].as_str().unwrap();
    let requests = browser.ask(&format!("/sessions/{session}/requests")).await;
    let found: Vec<[u64; 3]> = requests["items"]
        .as_array()
        .unwrap()
        .iter()
        .rev()
        .map(|line| ["sent", "cached", "output"].map(|key| line[key].as_u64().unwrap()))
        .collect();
    assert_eq!(found, usages);
    // The archive says the same to whoever asks it otherwise.
    let app = longhand::app::App::new(stage.archive.clone());
    let report = app.usage(&longhand::app::UsageRequest::default(), &|_, _| None).unwrap();
    assert_eq!((report.total.sent, report.total.cached), (sum(0), sum(1)));
}

#[tokio::test]
async fn what_a_provider_does_not_report_is_not_nothing() {
    let body = json!({
        "model": "scripted", "choices": [{"index": 0, "message": assistant("ok"), "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 50, "completion_tokens": 5},
    });
    let step = ScriptStep::Raw(
        200,
        vec![("content-type", "application/json".to_owned())],
        body.to_string(),
    );
    let stage = Stage::with([step], with_console).await;
    let request = json!({"model": "scripted", "messages": [user("Hello?")]});
    stage.post("/v1/chat/completions", &request.to_string()).await.text().await.unwrap();
    let archive = stage.archive.clone();
    until("it is archived", || {
        crate::common::sessions(&*archive).iter().any(|info| info.usage.sums.requests == 1)
    })
    .await;
    let browser = Browser::with_link(&stage).await;
    let usage = browser.ask("/usage").await;
    assert_eq!(
        (&usage["total"]["cached"], &usage["total"]["cached_reported"]),
        (&json!(0), &json!(false))
    );
    let session = browser.ask("/sessions").await["items"][0]["id"].as_str().unwrap().to_owned();
    let line = &browser.ask(&format!("/sessions/{session}/requests")).await["items"][0];
    assert_eq!((&line["sent"], &line["cached"]), (&json!(50), &Value::Null));
}

#[tokio::test]
async fn a_link_works_once_and_only_a_logout_ends_a_login() {
    let stage = Stage::with([], with_console).await;
    let link = stage.proxy.console_link().unwrap().unwrap();
    let token = link.split_once("#token=").unwrap().1;
    let (status, cookie, me) = login(&stage, &json!({"token": token})).await;
    assert_eq!((status, &me["owner"], &me["proxy"]), (200, &json!("everyone"), &json!(true)));
    for attribute in ["HttpOnly", "SameSite=Strict", "Path=/longhand/"] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    let (status, cookie, refused) = login(&stage, &json!({"token": token})).await;
    assert_eq!((status, cookie.as_str(), &refused["error"]), (401, "", &json!("used_link")));
    for bad in [json!({}), json!({"token": "a", "key": "b"}), json!({"other": 1}), json!([])] {
        assert_eq!(login(&stage, &bad).await.0, 400, "{bad}");
    }
    let browser = Browser::with_link(&stage).await;
    browser.ask("/me").await;
    let logout = browser.post(&format!("{API}/logout"), &json!({})).send().await.unwrap();
    assert_eq!(logout.status(), 204);
    assert_eq!(browser.get(&format!("{API}/me")).send().await.unwrap().status(), 401);
}

#[tokio::test]
async fn a_console_that_is_read_only_changes_nothing() {
    let stage = filled(|settings| {
        settings.console =
            Some(ConsoleSettings { is_read_only: true, ..ConsoleSettings::default() });
    })
    .await;
    let session = id_of(&*stage.archive, "fix-build").to_string();
    let browser = Browser::with_link(&stage).await;
    assert_eq!(browser.ask("/me").await["read_only"], true);
    for (path, body) in
        [("pins", json!({"entry": 1, "pinned": true})), ("undo", json!({"batch": 1}))]
    {
        let call = browser.post(&format!("{API}/sessions/{session}/{path}"), &body);
        let (status, text) = status_and_text(call.send().await.unwrap()).await;
        assert_eq!(status, 403, "{text}");
        assert!(text.contains("read_only"), "{text}");
    }
    assert_eq!(browser.ask(&format!("/sessions/{session}/pins")).await["items"], json!([]));
}

#[tokio::test]
async fn the_page_is_for_everybody_and_holds_nothing() {
    let stage = filled(with_console).await;
    let page = stage.client.get(stage.url("/longhand/console/")).send().await.unwrap();
    assert_eq!(page.status(), 200);
    let headers = page.headers().clone();
    let header = |name: &str| headers.get(name).unwrap().to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "text/html; charset=utf-8");
    assert_eq!(header("x-content-type-options"), "nosniff");
    assert_eq!(header("referrer-policy"), "no-referrer");
    let policy = header("content-security-policy");
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
    let tag = header("etag");
    let text = page.text().await.unwrap();
    assert!(!text.contains("fix-build"), "{text}");
    assert!(!text.contains("style=") && !text.contains("<style"), "no inline styles: {text}");
    let again = stage.client.get(stage.url("/longhand/console/")).header("if-none-match", &tag);
    assert_eq!(again.send().await.unwrap().status(), 304);
    for (path, expected) in [
        ("/longhand/console", 308),
        ("/longhand/console/../../Cargo.toml", 404),
        ("/longhand/console/%2e%2e/openapi.json", 404),
        ("/longhand/console/nothing.js", 404),
        ("/longhand/consoles", 404),
    ] {
        let answer = stage.client.get(stage.url(path)).send().await.unwrap();
        assert_eq!(answer.status(), expected, "{path}");
    }
    // An answer of the API is kept by nobody.
    let browser = Browser::with_link(&stage).await;
    let me = browser.get(&format!("{API}/me")).send().await.unwrap();
    assert_eq!(me.headers().get("cache-control").unwrap(), "no-store");
    // A link elsewhere may open the page, and nothing else.
    let visit = |path: &str| {
        let call = browser.get(path).header("sec-fetch-site", "cross-site");
        call.header("sec-fetch-mode", "navigate").header("sec-fetch-dest", "document")
    };
    assert_eq!(visit("/longhand/console/").send().await.unwrap().status(), 200);
    assert_eq!(visit(&format!("{API}/me")).send().await.unwrap().status(), 403);
    // Without a console there is none.
    let without = Stage::with([], |_| ()).await;
    for path in ["/longhand/console/", "/longhand/api/v1/me"] {
        assert_eq!(
            without.client.get(without.url(path)).send().await.unwrap().status(),
            404,
            "{path}"
        );
    }
    assert!(without.proxy.console_link().unwrap().is_none());
}

#[tokio::test]
async fn what_changes_is_told_to_those_who_listen_and_may_see_it() {
    let stage = filled(keyed).await;
    let ann = Browser::with(&stage, &json!({"key": KEYS[0]})).await;
    let bob = Browser::with(&stage, &json!({"key": KEYS[1]})).await;
    let listen = async |browser: &Browser<'_>| {
        let answer = browser.get(&format!("{API}/events")).send().await.unwrap();
        assert_eq!(answer.headers().get("content-type").unwrap(), "text/event-stream");
        answer.bytes_stream()
    };
    let (mut hers, mut his) = (listen(&ann).await, listen(&bob).await);
    let hello = hers.next().await.unwrap().unwrap();
    assert_eq!(&hello[..], b"data: {\"kind\":\"hello\"}\n\n");
    his.next().await.unwrap().unwrap();
    let body =
        json!({"model": "scripted", "messages": [user("A new session of Ann, with an axolotl.")]});
    let call = stage.client.post(stage.url("/v1/chat/completions")).bearer_auth(KEYS[0]);
    call.header("x-longhand-session", "second")
        .body(body.to_string())
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    let mut told = String::new();
    let description = Description::read();
    tokio::time::timeout(Duration::from_secs(30), async {
        while !told.contains(r#""kind":"request""#) {
            told.push_str(&String::from_utf8_lossy(&hers.next().await.unwrap().unwrap()));
        }
    })
    .await
    .unwrap();
    assert!(told.contains(r#""name":"second""#), "{told}");
    for line in told.lines().filter_map(|line| line.strip_prefix("data: ")) {
        let faults = description.event_faults(line);
        assert!(faults.is_empty(), "{faults:#?}");
    }
    let heard = tokio::time::timeout(Duration::from_millis(1_500), his.next()).await;
    assert!(heard.is_err(), "nothing of hers is told to Bob: {heard:?}");
    // Streams end when the proxy does, and hold nothing up.
    let begun = std::time::Instant::now();
    let Stage { proxy, .. } = stage;
    proxy.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn an_export_is_one_file_in_which_nothing_runs() {
    let stage = filled(with_console).await;
    let session = id_of(&*stage.archive, "fix-build").to_string();
    let browser = Browser::with_link(&stage).await;
    let answer = browser.get(&format!("{API}/sessions/{session}/export")).send().await.unwrap();
    let name = answer.headers().get("content-disposition").unwrap().to_str().unwrap().to_owned();
    assert!(name.starts_with("attachment; filename=\"longhand-"), "{name}");
    let html = answer.text().await.unwrap();
    assert!(html.ends_with("</html>\n"), "it is complete");
    assert!(html.contains("&lt;b&gt;done&lt;/b&gt;"), "{html}");
    assert!(!html.contains("<script") && !html.contains("<b>done"), "nothing is markup");
    assert!(html.contains("Find out why the build fails."), "{html}");
    for outside in ["http://", "https://", " src=", "url("] {
        assert!(!html.contains(outside), "{outside} in {html}");
    }
}

/// Tries the API with whatever fits its description, and with what does not. `cargo xtask test-console` names the program;
/// without it, nothing is tried.
#[tokio::test(flavor = "multi_thread")]
async fn schemathesis_finds_no_answer_that_is_not_described() {
    let Ok(program) = std::env::var("LONGHAND_SCHEMATHESIS") else { return };
    let stage = filled(with_console).await;
    let session = id_of(&*stage.archive, "fix-build").to_string();
    let browser = Browser::with_link(&stage).await;
    let folder = tempfile::tempdir().unwrap();
    // Sessions that there are, so that not all is tried on names of nothing. The stream never ends, and a logout would end
    // the login that all others need.
    let mut description: Value = serde_json::from_str(schema::OPEN_API).unwrap();
    for methods in description["paths"].as_object_mut().unwrap().values_mut() {
        for operation in methods.as_object_mut().unwrap().values_mut() {
            let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut);
            for parameter in parameters.into_iter().flatten() {
                if parameter["name"] == "session" && parameter["in"] == "path" {
                    parameter["schema"] = json!({"enum": [session, "fix-build", "nobody"]});
                }
            }
        }
    }
    let file = folder.path().join("openapi.json");
    std::fs::write(&file, description.to_string()).unwrap();
    let (url, cookie) = (stage.url(""), browser.cookie.clone());
    let run = tokio::task::spawn_blocking(move || {
        std::process::Command::new(program)
            .current_dir(folder.path())
            .arg("run")
            .arg(&file)
            .args(["--url", &url, "-H", &format!("Cookie: {cookie}")])
            .args(["-H", "x-longhand-console: 1", "--max-examples", "40", "--seed", "1"])
            .args(["--exclude-path", "/longhand/api/v1/events"])
            .args(["--exclude-path", "/longhand/api/v1/logout"])
            .args(["--exclude-path", "/longhand/api/v1/login"])
            .args(["--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,unsupported_method"])
            .output()
    });
    let output = run.await.unwrap().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    println!("{said}");
    assert_eq!(stage.sent().len(), 5, "nothing of it goes upstream");
}
