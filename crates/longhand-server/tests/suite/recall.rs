//! The tool with which a model brings back what a window left out.
use std::time::Duration;

use crate::common::{PATHS, Stage, messages, reopened, request, sqlite};
use futures_util::StreamExt;
use longhand::Tokens;
use longhand::recall::RecallReach;
use longhand_core::{Handle, Scale};
use longhand_dialect::{Dialect, Reply, ReplyReader, SseReader};
use longhand_meter::{ImageProvider, ImageRule, MeterSpec};
use longhand_server::{RecallTool, Settings};
use longhand_testkit::scripted::{self, ScriptStep, ScriptedCall, ScriptedReply};
use serde_json::{Value, json};

const NAME: &str = "longhand_recall";
const HEAD: &str = "[longhand recall: what you asked for with longhand_recall, as quotes]";
const BUDGET: Tokens = Tokens(3_000);

/// The format of a path.
fn dialect(path: &str) -> Dialect {
    match path {
        "/v1/responses" => Dialect::Responses,
        "/v1/messages" => Dialect::Anthropic,
        _ => Dialect::Chat,
    }
}

fn offers(settings: &mut Settings) {
    settings.budget = Some(BUDGET);
    // Windows have stubs and not only a block.
    settings.low_water_percent = 70;
    settings.recall_tool = RecallTool::Always;
}

fn says(id: &str, text: &str, calls: &[(&str, &str, Value)]) -> ScriptStep {
    let calls = calls.iter().map(|(id, name, arguments)| ScriptedCall {
        id: (*id).to_owned(),
        name: (*name).to_owned(),
        arguments: arguments.clone(),
    });
    ScriptStep::Reply(ScriptedReply {
        id: id.into(),
        text: text.into(),
        calls: calls.collect(),
        ..Default::default()
    })
}

/// The formats, each streamed and not.
fn each() -> impl Iterator<Item = (&'static str, bool)> {
    PATHS.into_iter().flat_map(|path| [(path, false), (path, true)])
}

/// The first handle that a window shows.
fn handle_in(window: &str) -> String {
    let (at, _) = window.match_indices("[longhand stub h:").next().unwrap();
    let handle = &window[at + 15..at + 29];
    assert!(Handle::parse(handle).is_some(), "{handle}");
    handle.to_owned()
}

/// What the newest call of ours brought back: the last words of the request that goes on from it.
fn brought(path: &str, body: &str) -> String {
    let shown = longhand_dialect::read(body.into(), Some(dialect(path))).unwrap();
    let text = shown.messages.last().unwrap().parts.last().unwrap().text().unwrap().decode();
    text.strip_prefix(HEAD).unwrap().trim_start().to_owned()
}

/// The handle that the window of a long session shows: the same content has the same handle.
async fn handle(path: &str) -> String {
    let stage = Stage::with([ScriptStep::Answer("ok".into())], offers).await;
    stage.post(path, &request(path, &messages(path, 20), false)).await;
    handle_in(&stage.sent()[0])
}

/// Reads an answer as a client would.
fn read(path: &str, stream: bool, body: &str) -> Reply {
    assert!(!body.contains(NAME), "{path} {stream}: {body}");
    if !stream {
        return Reply::read(dialect(path), body).unwrap();
    }
    let mut reader = ReplyReader::new(dialect(path));
    for event in SseReader::default().push(body.as_bytes()).unwrap() {
        reader.push(&event).unwrap();
    }
    assert!(reader.is_done(), "{path}: {body}");
    well_formed(path, body);
    reader.finish().unwrap()
}

/// Checks that a stream is one of its format.
fn well_formed(path: &str, body: &str) {
    let events: Vec<String> =
        SseReader::default().push(body.as_bytes()).unwrap().into_iter().map(|it| it.data).collect();
    let parsed: Vec<Value> =
        events.iter().filter_map(|event| serde_json::from_str(event).ok()).collect();
    let count = |kind: &str| parsed.iter().filter(|event| event["type"] == kind).count();
    match dialect(path) {
        Dialect::Chat => {
            assert_eq!(events.iter().filter(|event| *event == "[DONE]").count(), 1);
            assert_eq!(events.last().unwrap(), "[DONE]");
            let choices = || parsed.iter().map(|event| &event["choices"][0]);
            assert_eq!(choices().filter(|it| !it["finish_reason"].is_null()).count(), 1, "{body}");
            assert_eq!(choices().filter(|it| !it["delta"]["role"].is_null()).count(), 1, "{body}");
            assert!(parsed.iter().all(|event| event["id"] == parsed[0]["id"]), "{body}");
        }
        Dialect::Anthropic => {
            for kind in ["message_start", "message_delta", "message_stop"] {
                assert_eq!(count(kind), 1, "{kind}: {body}");
            }
            let starts = parsed.iter().filter(|event| event["type"] == "content_block_start");
            for (at, start) in starts.enumerate() {
                assert_eq!(start["index"], at, "{body}");
            }
        }
        _ => {
            for kind in ["response.created", "response.completed"] {
                assert_eq!(count(kind), 1, "{kind}: {body}");
            }
            let ids = parsed.iter().filter_map(|event| event["response"]["id"].as_str());
            assert!(ids.into_iter().all(|id| id == parsed[0]["response"]["id"]), "{body}");
            for (at, event) in parsed.iter().enumerate() {
                assert_eq!(event["sequence_number"], at, "{body}");
            }
            let added = parsed.iter().filter(|event| event["type"] == "response.output_item.added");
            for (at, event) in added.enumerate() {
                assert_eq!(event["output_index"], at, "{body}");
            }
            let done = parsed.iter().filter(|event| event["type"] == "response.output_item.done");
            let done: Vec<&Value> = done.map(|event| &event["item"]).collect();
            let output = parsed.last().unwrap()["response"]["output"].as_array().unwrap();
            assert_eq!(done, output.iter().collect::<Vec<_>>(), "{body}");
        }
    }
}

/// What a valid request counts for.
fn tokens(path: &str, body: &str) -> Tokens {
    let shown = longhand_dialect::read(body.into(), Some(dialect(path))).unwrap();
    let faults: Vec<_> =
        shown.check().into_iter().filter(longhand_dialect::Finding::is_fault).collect();
    assert!(faults.is_empty(), "{path}: {faults:?}");
    let provider =
        if path == "/v1/messages" { ImageProvider::Anthropic } else { ImageProvider::OpenAi };
    let images = ImageRule::for_model(provider, Some("scripted"));
    let meter = MeterSpec::for_model("scripted").open(images).unwrap();
    let scale = Scale::new(&*meter);
    let messages: Tokens =
        shown.messages.iter().map(|message| scale.message(message, Tokens::MAX)).sum();
    let fixed: Tokens =
        shown.attributes.iter().map(|attribute| scale.text(&attribute.decode())).sum();
    messages + fixed + scale.framing().reply
}

/// The conversation after an answer, as the client goes on with it.
fn after(mut before: Vec<Value>, reply: &Reply, text: &str) -> Vec<Value> {
    let said: Value = serde_json::from_str(&reply.message).unwrap();
    match said {
        Value::Array(items) => before.extend(items),
        message => before.push(message),
    }
    before.push(json!({"role": "user", "content": text}));
    before
}

#[tokio::test]
async fn what_a_handle_stands_for_comes_back_unseen() {
    for (path, stream) in each() {
        let handle = handle(path).await;
        let stage = Stage::with(
            [
                says("r1", "Let me look.", &[("call_x1", NAME, json!({"handle": handle}))]),
                says("r2", "All is well.", &[]),
                ScriptStep::Answer("good".into()),
            ],
            offers,
        )
        .await;
        let asked = messages(path, 20);
        let body = stage.post(path, &request(path, &asked, stream)).await.text().await.unwrap();
        let reply = read(path, stream, &body);
        assert!(reply.text.starts_with("Let me look."), "{path} {stream}: {body}");
        assert!(reply.text.ends_with("All is well."), "{path} {stream}: {body}");
        let usage = reply.usage.unwrap();
        assert_eq!(
            (usage.input, usage.output),
            (scripted::USAGE_INPUT, 2 * scripted::USAGE_OUTPUT)
        );
        let sent = stage.sent();
        let brought = brought(path, &sent[1]);
        assert!(brought.starts_with(&handle) && brought.contains("\n> line "), "{brought}");
        let asked = after(asked, &reply, "Go on.");
        stage.post(path, &request(path, &asked, stream)).await.text().await.unwrap();
        let sent = stage.sent();
        assert_eq!(sent.len(), 3);
        for pair in sent.windows(2) {
            assert!(goes_on(&pair[0], &pair[1]), "{path} {stream}: {}", pair[1]);
        }
        let offered: Vec<_> = sent.iter().map(|body| tools(body)).collect();
        assert!(
            offered.iter().all(|tools| *tools == offered[0] && tools.contains(NAME)),
            "{offered:?}"
        );
        assert!(!sent[2].contains("call_x1"), "{}", sent[2]);
        let sessions = stage.archived().await;
        assert_eq!(sessions.len(), 1, "{path} {stream}");
        assert!(sessions[0].1.iter().all(|said| !said.contains(NAME)));
    }
}

/// Whether a request has all messages of another one before its own; the last may have grown.
fn goes_on(one: &str, other: &str) -> bool {
    let end = one.find(r#"],"tools":"#).unwrap();
    other.starts_with(one[..end].trim_end_matches([']', '}']))
}

/// The tools of a request, byte for byte.
fn tools(body: &str) -> &str {
    let start = body.find(r#""tools":"#).unwrap();
    &body[start..start + body[start..].find("}]").unwrap()]
}

#[tokio::test]
async fn words_are_found_and_what_is_unknown_is_said() {
    for (query, expected) in [
        (json!({"query": "file_3.rs"}), " tokens\n> "),
        (json!({"query": "don't \"GB/s NEAR("}), "Nothing was found"),
        (json!({"query": "\"(* AND NEAR OR ".repeat(700)}), "Nothing was found"),
        (json!({"handle": "h:000000000000"}), "Nothing here has that handle"),
        (json!({"handle": "[longhand stub"}), "Nothing here has that handle"),
        (json!({}), "Give a handle"),
        (json!({"handle": "e:3"}), "> "),
        (json!({"handle": "e:99999"}), "has entries 0 to"),
        (json!({"handle": 7, "query": ["x"], "from": -1}), "Give a handle"),
    ] {
        let path = PATHS[0];
        let call = says("r1", "", &[("call_1", NAME, query.clone())]);
        let stage = Stage::with([call, ScriptStep::Answer("ok".into())], offers).await;
        let body = request(path, &messages(path, 20), false);
        let answer = stage.post(path, &body).await.text().await.unwrap();
        assert_eq!(read(path, false, &answer).text, "ok");
        let brought = brought(path, &stage.sent()[1]);
        assert!(brought.contains(expected), "{query}: {brought}");
        let metrics = stage.client.get(stage.url("/longhand/metrics")).send().await.unwrap();
        assert!(metrics.text().await.unwrap().contains("longhand_recalls_total{kind="));
    }
}

#[tokio::test]
async fn what_a_search_found_is_read_by_its_handle() {
    let path = PATHS[0];
    let found = says("r1", "", &[("call_1", NAME, json!({"query": "file_3.rs"}))]);
    let stage = Stage::with([found, ScriptStep::Answer("ok".into())], offers).await;
    let asked = messages(path, 20);
    stage.post(path, &request(path, &asked, false)).await.text().await.unwrap();
    let hits = brought(path, &stage.sent()[1]);
    let hit = hits.lines().find(|line| line.ends_with(" tokens")).unwrap();
    let handle = hit.split(' ').next().unwrap();
    // The session has the same handles in another process that reads the same requests.
    let read = json!({"handle": handle, "query": "file_3"});
    let steps = [says("r2", "", &[("call_2", NAME, read)]), ScriptStep::Answer("ok".into())];
    let again = Stage::with(steps, |settings| {
        offers(settings);
        settings.archive = stage.archive.clone();
    })
    .await;
    again.post(path, &request(path, &asked, false)).await.text().await.unwrap();
    let text = brought(path, &again.sent()[1]);
    assert!(text.contains(&format!("{handle}, only the lines about that")), "{text}");
    assert!(text.contains("> ") && text.contains("file_3"), "{text}");
}

#[tokio::test]
async fn a_wider_reach_has_the_owner_s_other_sessions_and_nobody_else_s() {
    let path = PATHS[0];
    for (reach, has_other) in [(RecallReach::Session, false), (RecallReach::All, true)] {
        let call = says("r1", "", &[("call_1", NAME, json!({"query": "zebra"}))]);
        let answers = || ScriptStep::Answer("ok".into());
        let steps = [answers(), answers(), call, answers()];
        let stage = Stage::with(steps, |settings| {
            offers(settings);
            settings.recall_reach = reach;
        })
        .await;
        for (key, said) in
            [("mine", "my zebra is 4141"), ("theirs", "their zebra is 5151"), ("mine", "hello")]
        {
            let said = [json!({"role": "user", "content": said})];
            let sent = stage.client.post(stage.url(path));
            let sent = sent.header("authorization", &format!("Bearer {key}"));
            sent.body(request(path, &said, false)).send().await.unwrap().text().await.unwrap();
        }
        let brought = brought(path, stage.sent().last().unwrap());
        assert_eq!(brought.contains("4141"), has_other, "{reach:?}: {brought}");
        assert!(!brought.contains("5151"), "{reach:?}: {brought}");
    }
}

#[tokio::test]
async fn what_others_said_stays_theirs() {
    let path = PATHS[0];
    let handle = handle(path).await;
    let asked = json!({"handle": handle, "query": ""});
    let stage = Stage::with(
        [
            ScriptStep::Answer("ok".into()),
            says("r1", "", &[("call_1", NAME, asked)]),
            ScriptStep::Answer("ok".into()),
        ],
        offers,
    )
    .await;
    stage.post(path, &request(path, &messages(path, 20), false)).await.text().await.unwrap();
    let hello = [json!({"role": "user", "content": "hello"})];
    let other = stage.client.post(stage.url(path)).header("authorization", "Bearer other");
    let other = other.body(request(path, &hello, false)).send().await.unwrap();
    assert_eq!(read(path, false, &other.text().await.unwrap()).text, "ok");
    assert!(brought(path, &stage.sent()[2]).contains("Nothing here has that handle"));
}

#[tokio::test]
async fn calls_of_the_client_stay_and_ours_go() {
    for (path, stream) in each() {
        let ours = |id| (id, NAME, json!({"query": "x"}));
        let theirs = |id| (id, "read", json!({"path": "src/lib.rs"}));
        let mixed = [ours("id_1a"), theirs("id_2b"), ours("id_3c"), theirs("id_4d")];
        let steps = [says("r1", "Both.", &mixed), ScriptStep::Answer("good".into())];
        let stage = Stage::with(steps, offers).await;
        let asked = messages(path, 2);
        let body = request(path, &asked, stream);
        let answer = stage.post(path, &body).await.text().await.unwrap();
        let reply = read(path, stream, &answer);
        assert_eq!((reply.text.as_str(), reply.stop), ("Both.", longhand_dialect::Stop::Tools));
        for (id, is_there) in [("id_1a", false), ("id_2b", true), ("id_3c", false), ("id_4d", true)]
        {
            assert_eq!(answer.contains(id), is_there, "{path} {stream}: {answer}");
        }
        if path == PATHS[0] && stream {
            assert!(
                answer.contains(r#""index":1,"#) && !answer.contains(r#""index":2,"#),
                "{answer}"
            );
        }
        assert_eq!(stage.sent().len(), 1);
        // What was asked for besides is there with the next request.
        let said: Value = serde_json::from_str(&reply.message).unwrap();
        let results: Vec<Value> = ["id_2b", "id_4d"].map(|id| result(path, id)).into();
        let results = match dialect(path) {
            Dialect::Anthropic => vec![json!({"role": "user", "content": results})],
            _ => results,
        };
        let said = said.as_array().cloned().unwrap_or_else(|| vec![said]);
        let asked = [asked, said, results].concat();
        stage.post(path, &request(path, &asked, stream)).await.text().await.unwrap();
        let sent = stage.sent();
        assert!(crate::common::faults(path, &sent[1]).is_empty());
        assert!(goes_on(&sent[0], &sent[1]) && sent[1].contains(HEAD), "{}", sent[1]);
    }
}

/// What the client's tool gave.
fn result(path: &str, id: &str) -> Value {
    match dialect(path) {
        Dialect::Chat => json!({"role": "tool", "tool_call_id": id, "content": "fn"}),
        Dialect::Anthropic => json!({"type": "tool_result", "tool_use_id": id, "content": "fn"}),
        _ => json!({"type": "function_call_output", "call_id": id, "output": "fn"}),
    }
}

#[tokio::test]
async fn whoever_never_has_enough_is_stopped() {
    for (path, stream) in each() {
        let steps = (0..9).map(|at| {
            let id = format!("call_{at}x");
            says(&format!("r{at}"), "", &[(id.as_str(), NAME, json!({"query": "line"}))])
        });
        let stage = Stage::with(steps, offers).await;
        let body = request(path, &messages(path, 20), stream);
        let answer = stage.post(path, &body).await.text().await.unwrap();
        let reply = read(path, stream, &answer);
        assert_eq!(
            (reply.text.as_str(), reply.stop),
            ("", longhand_dialect::Stop::End),
            "{path} {stream}"
        );
        let sent = stage.sent();
        assert_eq!(sent.len(), 6);
        for body in &sent {
            assert!(tokens(path, body) <= BUDGET, "{path}: {}", tokens(path, body));
        }
        assert!(sent[5].contains("That is enough") && !sent[4].contains("That is enough"));
    }
}

#[tokio::test]
async fn words_pass_on_before_the_call_is_answered() {
    for path in PATHS {
        let call = says("r1", "Let me look.", &[("call_1", NAME, json!({"query": "line"}))]);
        let stage = Stage::with([call, ScriptStep::Hang], offers).await;
        let response = stage.post(path, &request(path, &messages(path, 2), true)).await;
        let mut seen = String::new();
        let mut chunks = response.bytes_stream();
        let read = async {
            while !seen.contains("ook.") {
                seen += &String::from_utf8_lossy(&chunks.next().await.unwrap().unwrap());
            }
        };
        tokio::time::timeout(Duration::from_mins(1), read).await.unwrap();
        assert!(!seen.contains(NAME) && !seen.contains("call_1"), "{seen}");
    }
}

#[tokio::test]
async fn without_a_call_every_byte_passes() {
    for (path, stream) in each() {
        let read = ("call_1", "read", json!({"path": "a.rs"}));
        for step in [
            ScriptStep::Answer("One two three.".into()),
            says("r1", "Words.", &[read.clone(), ("call_2", "read", json!({"path": "b.rs"}))]),
            ScriptStep::Drip("One two three four.".into(), Duration::from_millis(2)),
            ScriptStep::Refuse("No.".into()),
            ScriptStep::Garbage,
            ScriptStep::Empty,
            ScriptStep::ErrorBody("out of order".into()),
            ScriptStep::Status(500),
        ] {
            let mut bodies = Vec::new();
            for offered in [false, true] {
                let stage = Stage::with([step.clone()], |settings| {
                    settings.recall_tool =
                        if offered { RecallTool::Always } else { RecallTool::Never };
                })
                .await;
                let answer = stage.post(path, &request(path, &messages(path, 1), stream)).await;
                bodies.push((answer.status(), answer.text().await.unwrap()));
                assert_eq!(stage.sent()[0].contains(NAME), offered);
            }
            assert_eq!(bodies[0], bodies[1], "{path} {stream} {step:?}");
        }
    }
}

#[tokio::test]
async fn a_client_that_has_such_a_tool_keeps_it() {
    for (path, stream) in each() {
        let call = says("r1", "", &[("call_1", NAME, json!({"query": "x"}))]);
        let stage = Stage::with([call], offers).await;
        let tool = match dialect(path) {
            Dialect::Chat => json!({"type": "function", "function": {"name": NAME}}),
            _ => json!({"type": "function", "name": NAME}),
        };
        let mut body: Value =
            serde_json::from_str(&request(path, &messages(path, 1), stream)).unwrap();
        body["tools"] = json!([tool]);
        let answer = stage.post(path, &body.to_string()).await.text().await.unwrap();
        assert!(answer.contains(NAME), "{answer}");
        assert_eq!(stage.sent(), [body.to_string()]);
    }
}

#[tokio::test]
async fn a_full_window_makes_room() {
    for path in PATHS {
        let body = request(path, &messages(path, 12), false);
        let stage = Stage::with([ScriptStep::Answer("ok".into())], |settings| {
            settings.recall_tool = RecallTool::Always;
            settings.budget = Some(Tokens(1));
        })
        .await;
        let whole = stage.post(path, &body).await;
        let tokens: u64 =
            whole.headers()["x-longhand-tokens-before"].to_str().unwrap().parse().unwrap();
        let call = says("r1", "", &[("call_1", NAME, json!({"query": "file_3.rs"}))]);
        let stage = Stage::with([call, ScriptStep::Answer("ok".into())], |settings| {
            settings.recall_tool = RecallTool::Always;
            settings.budget = Some(Tokens(tokens + 10));
        })
        .await;
        let answer = stage.post(path, &body).await.text().await.unwrap();
        assert_eq!(read(path, false, &answer).text, "ok");
        let sent = stage.sent();
        assert!(brought(path, &sent[1]).contains(" tokens\n> "), "{path}");
        assert!(sent[1].len() < sent[0].len(), "{path}");
    }
}

#[tokio::test]
async fn an_upstream_that_fails_in_between_is_heard() {
    for (path, stream) in each() {
        for (step, expected) in [
            (ScriptStep::Status(500), "out of order"),
            (ScriptStep::Drop, "the upstream cannot be reached"),
            (ScriptStep::TooLong { limit: 1_000, asked: 2_000 }, "2000"),
        ] {
            let call = says("r1", "Hm.", &[("call_1", NAME, json!({"query": "line"}))]);
            let is_too_long = matches!(step, ScriptStep::TooLong { .. });
            let stage = Stage::with([call, step.clone(), step], offers).await;
            let answer = stage.post(path, &request(path, &messages(path, 2), stream)).await;
            assert_eq!(answer.status().is_success(), stream, "{path} {stream}");
            let body = answer.text().await.unwrap();
            assert!(body.contains(expected) && body.contains("error"), "{path} {stream}: {body}");
            assert!(!body.contains(NAME));
            assert_eq!(
                stage.sent().len(),
                if is_too_long { 3 } else { 2 },
                "{path} {stream}: {body}"
            );
        }
    }
}

#[tokio::test]
async fn history_that_the_provider_holds_goes_on() {
    let path = "/v1/responses";
    for stream in [false, true] {
        let mixed =
            [("id_1a", NAME, json!({"query": "x"})), ("id_2b", "read", json!({"path": "a.rs"}))];
        let stage = Stage::with(
            [
                says("r1", "", &[("id_0", NAME, json!({"query": "hello"}))]),
                says("r2", "Hi.", &[]),
                says("r3", "", &mixed),
                says("r4", "Done.", &[]),
            ],
            offers,
        )
        .await;
        let ask = async |previous: Option<String>, input: Value| {
            let body = json!({"model": "scripted", "stream": stream, "input": input, "previous_response_id": previous});
            let answer = stage.post(path, &body.to_string()).await.text().await.unwrap();
            read(path, stream, &answer)
        };
        let first = ask(None, json!("hello")).await;
        let second = ask(first.id, json!("read it")).await;
        let output = json!([{"type": "function_call_output", "call_id": "id_2b", "output": "fn"}]);
        let third = ask(second.id, output).await;
        assert_eq!(third.text, "Done.");
        let sent = stage.sent();
        // The provider has a call that nobody answered, so it gets the whole conversation instead.
        for body in &sent {
            assert!(
                crate::common::faults(path, body).is_empty() && !body.contains("id_1a"),
                "{body}"
            );
            let body: Value = serde_json::from_str(body).unwrap();
            assert_eq!(body["previous_response_id"], Value::Null);
        }
        assert!(sent[3].contains("hello") && sent[3].contains("Hi.") && sent[3].contains("id_2b"));
        assert_eq!(stage.archived().await.len(), 1);
    }
}

#[tokio::test]
async fn thinking_that_a_hidden_call_voids_is_dropped_by_the_provider() {
    let stage = Stage::with([ScriptStep::Answer("ok".into())], offers).await;
    let body = json!({"model": "claude-opus-5-5", "max_tokens": 100, "thinking": {"type": "adaptive"},
        "messages": [{"role": "user", "content": "hello"}]});
    stage.post("/v1/messages", &body.to_string()).await.text().await.unwrap();
    let sent = &stage.server.requests()[0];
    assert!(sent.body.contains("drop_block"), "{}", sent.body);
    assert!(sent.header("anthropic-beta").unwrap().contains("thinking-binding"));
}

#[tokio::test]
async fn what_is_counted_has_the_tool_too() {
    let counted = || ScriptStep::Raw(200, vec![], r#"{"input_tokens":5}"#.into());
    let stage = Stage::with([counted(), ScriptStep::Answer("ok".into())], offers).await;
    let body = request("/v1/messages", &messages("/v1/messages", 1), false);
    stage.post("/v1/messages/count_tokens", &body).await.text().await.unwrap();
    stage.post("/v1/messages", &body).await.text().await.unwrap();
    let sent = stage.sent();
    assert_eq!(tools(&sent[0]), tools(&sent[1]));
}

#[tokio::test]
async fn handles_are_good_after_a_restart() {
    let (folder, _) = sqlite();
    let path = PATHS[2];
    let with = |steps: Vec<ScriptStep>| {
        let archive = reopened(&folder);
        Stage::with(steps, move |settings| {
            offers(settings);
            settings.archive = archive;
        })
    };
    let asked = messages(path, 20);
    let stage = with(vec![ScriptStep::Answer("ok".into())]).await;
    stage.post(path, &request(path, &asked, false)).await.text().await.unwrap();
    let handle = handle_in(&stage.sent()[0]);
    stage.proxy.stop().await;
    let stage = with(vec![
        says("r1", "", &[("call_1", NAME, json!({"handle": handle}))]),
        ScriptStep::Answer("ok".into()),
    ])
    .await;
    let answer = stage.post(path, &request(path, &asked, true)).await.text().await.unwrap();
    assert_eq!(read(path, true, &answer).text, "ok");
    assert!(brought(path, &stage.sent()[1]).contains("\n> line "));
    stage.proxy.stop().await;
}

/// A request with a tool of the client.
fn with_tool(path: &str, steps: usize) -> Value {
    let mut body: Value =
        serde_json::from_str(&request(path, &messages(path, steps), false)).unwrap();
    body["tools"] = match dialect(path) {
        Dialect::Chat => json!([{"type": "function", "function": {"name": "read"}}]),
        Dialect::Responses => json!([{"type": "function", "name": "read"}]),
        _ => json!([{"name": "read", "input_schema": {"type": "object"}}]),
    };
    body
}

#[tokio::test]
async fn a_session_goes_on_with_the_tools_that_it_began_with() {
    for path in PATHS {
        for began_with in [false, true] {
            let (folder, _archive) = sqlite();
            // Two processes, each with two requests.
            for (process, settings_say) in [began_with, true].into_iter().enumerate() {
                let stage = Stage::with(vec![ScriptStep::Answer("ok".into()); 3], |settings| {
                    let tool =
                        if settings_say { RecallTool::BesideOthers } else { RecallTool::Never };
                    settings.archive = reopened(&folder);
                    settings.recall_tool = tool;
                })
                .await;
                if process == 1 {
                    // A request that cannot have the tool changes nothing for those after it.
                    let mut forced = with_tool(path, 2);
                    forced["tool_choice"] = match dialect(path) {
                        Dialect::Anthropic => json!({"type": "none"}),
                        _ => json!("none"),
                    };
                    stage.post(path, &forced.to_string()).await.text().await.unwrap();
                }
                for turn in 0..2 {
                    let body = with_tool(path, 1 + 2 * process + turn);
                    stage.post(path, &body.to_string()).await.text().await.unwrap();
                }
                let has_tool: Vec<bool> =
                    stage.sent().iter().rev().take(2).map(|sent| sent.contains(NAME)).collect();
                assert_eq!(has_tool, [began_with; 2], "{path}, process {process}");
                stage.proxy.stop().await;
            }
        }
    }
}

#[tokio::test]
async fn a_request_that_forces_a_tool_or_has_none_stays_as_it_is() {
    for path in PATHS {
        let stage = Stage::with(vec![ScriptStep::Answer("ok".into()); 3], |settings| {
            settings.recall_tool = RecallTool::BesideOthers;
        })
        .await;
        let plain = request(path, &[json!({"role": "user", "content": "A title?"})], false);
        let mut forced = with_tool(path, 1);
        forced["tool_choice"] = match dialect(path) {
            Dialect::Chat => json!({"type": "function", "function": {"name": "read"}}),
            Dialect::Responses => json!({"type": "function", "name": "read"}),
            _ => json!({"type": "tool", "name": "read"}),
        };
        let mut forbidden = with_tool(path, 2);
        forbidden["tool_choice"] = match dialect(path) {
            Dialect::Anthropic => json!({"type": "none"}),
            _ => json!("none"),
        };
        for body in [plain, forced.to_string(), forbidden.to_string()] {
            stage.post(path, &body).await.text().await.unwrap();
            assert_eq!(*stage.sent().last().unwrap(), body, "{path}");
        }
    }
}

/// A conversation about harbours that does not fit, and a question about its beginning.
fn harbours(question: &str) -> String {
    let mut messages = vec![
        json!({"role": "user", "content": "Which harbours are there?"}),
        json!({"role": "assistant", "content": format!(
            "{} The harbour of Orchidtown is called Heronport. {}",
            longhand_testkit::filler::words(60, 1), longhand_testkit::filler::words(60, 2),
        )}),
    ];
    for number in 3..60 {
        let answer = longhand_testkit::filler::words(90, number);
        messages.push(json!({"role": "user", "content": "Go on."}));
        messages.push(json!({"role": "assistant", "content": answer}));
    }
    messages.push(json!({"role": "user", "content": question}));
    json!({"model": "m", "messages": messages}).to_string()
}

#[tokio::test]
async fn what_a_user_asks_about_comes_back_unasked() {
    const QUOTES: &str = "[longhand recall: earlier messages";
    let question = "What is the harbour of Orchidtown called?";
    for percent in [0, 20] {
        let (_folder, archive) = sqlite();
        let answers = [ScriptStep::Answer("ok".into()), ScriptStep::Answer("ok".into())];
        let stage = Stage::with(answers, |settings| {
            settings.archive = archive;
            settings.budget = Some(BUDGET);
            settings.recall_percent = percent;
        })
        .await;
        let short = r#"{"model":"m","messages":[{"role":"user","content":"Hello, harbour."}]}"#;
        stage.post("/v1/chat/completions", short).await.text().await.unwrap();
        stage.post("/v1/chat/completions", &harbours(question)).await.text().await.unwrap();
        let sent = stage.sent();
        assert_eq!(sent[0], short);
        let window: Value = serde_json::from_str(&sent[1]).unwrap();
        let shown = window["messages"].as_array().unwrap();
        let [.., before, asked] = &shown[..] else { panic!("{window}") };
        assert_eq!(asked["content"], question);
        let quotes = before["content"].as_str().unwrap();
        let has_quotes = quotes.starts_with(QUOTES) && quotes.contains("called Heronport.");
        assert_eq!(has_quotes, percent > 0, "{quotes}");
        assert!(tokens("/v1/chat/completions", &sent[1]) <= BUDGET);
    }
}
