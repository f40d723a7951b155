//! Running a proxy: what it tells, whom it refuses, and how it stops.
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{
    PATHS, Stage, answers, assistant, log, messages, reply, request, says, told, until, user,
};
use futures_util::StreamExt;
use http_body_util::StreamBody;
use hyper::body::Frame;
use longhand::{Archive, MemoryArchive, Summariser, Tokens};
use longhand_core::Scale;
use longhand_model::http;
use longhand_summary::{Input, Summary, SummaryError};
use longhand_testkit::faulty::{Fault, Faulty};
use longhand_testkit::gate::Gate;
use longhand_testkit::scripted::{ScriptStep, USAGE_INPUT, USAGE_OUTPUT};
use serde_json::{Value, json};

async fn get(stage: &Stage, path: &str) -> (u16, String) {
    let answer = stage.client.get(stage.url(path)).send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

/// The value of a series.
fn series(metrics: &str, name: &str) -> Option<f64> {
    let line = metrics
        .lines()
        .find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')));
    line?.rsplit(' ').next()?.parse().ok()
}

#[tokio::test]
async fn it_says_that_it_lives_and_whether_it_is_ready() {
    for (fault, required, status, archive) in [
        (Fault::None, true, 200, true),
        (Fault::None, false, 200, true),
        (Fault::Error, false, 200, false),
        (Fault::Error, true, 503, false),
        (Fault::Panic, true, 503, false),
        (Fault::Slow(Duration::from_secs(4)), true, 503, false),
    ] {
        let stage = Stage::with([], |settings| {
            settings.archive = Arc::new(Faulty::new(Arc::new(MemoryArchive::default()), fault));
            settings.require_archive = required;
        })
        .await;
        assert_eq!(get(&stage, "/longhand/health").await, (200, r#"{"status":"ok"}"#.to_owned()));
        let (found, body) = get(&stage, "/longhand/ready").await;
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((found, &body["archive"]), (status, &json!(archive)), "{fault:?}");
        assert_eq!(get(&stage, "/longhand/else").await.0, 404);
        let posted = stage.client.post(stage.url("/longhand/health")).send().await.unwrap();
        assert_eq!(posted.status(), 405);
        assert!(stage.sent().is_empty());
    }
}

#[tokio::test]
async fn the_numbers_are_right() {
    let path = PATHS[0];
    let too_long = ScriptStep::TooLong { limit: 3_000, asked: 9_000 };
    let stage = Stage::new(Some(4_000), [answers(2), vec![too_long], answers(4)].concat()).await;
    let priced = |body: String| body.replace("scripted", "gpt-4o");
    let mut sums = [0, 0];
    let mut ask = async |body: String| {
        let answer = stage.post(path, &body).await;
        for (sum, end) in sums.iter_mut().zip(["before", "after"]) {
            let header = answer.headers().get(format!("x-longhand-tokens-{end}"));
            *sum += header.map_or(0, |value| value.to_str().unwrap().parse::<u64>().unwrap());
        }
        answer.text().await.unwrap();
    };
    ask(priced(request(path, &[user("Hm?")], false))).await;
    ask(priced(request(path, &messages(path, 20), true))).await;
    ask(request(path, &messages(path, 10), false)).await;
    ask("not { json".to_owned()).await;
    stage.client.get(stage.url("/v1/models")).send().await.unwrap().text().await.unwrap();
    until("all is archived", || stage.proxy.counts().archived >= 45).await;
    let (_, metrics) = get(&stage, "/longhand/metrics").await;
    let [before, after] = sums;
    for (name, expected) in [
        ("longhand_requests_total", 6),
        (r#"longhand_conversations_total{outcome="passed"}"#, 1),
        (r#"longhand_conversations_total{outcome="compacted"}"#, 2),
        (r#"longhand_conversations_total{outcome="bypassed"}"#, 1),
        (r#"longhand_fail_opens_total{why="unreadable"}"#, 1),
        // One for each that is too long, and one more for the upstream.
        ("longhand_batches_total", 3),
        ("longhand_recovered_total", 1),
        (r#"longhand_tokens_total{kind="in"}"#, before),
        (r#"longhand_tokens_total{kind="sent"}"#, after),
        (r#"longhand_tokens_total{kind="saved"}"#, before - after),
        (r#"longhand_tokens_total{kind="billed"}"#, 3 * USAGE_INPUT),
        (r#"longhand_tokens_total{kind="output"}"#, 3 * USAGE_OUTPUT),
        ("longhand_unarchived_total", 0),
        ("longhand_open_requests", 1),
    ] {
        assert_eq!(series(&metrics, name), Some(expected as f64), "{name}\n{metrics}");
    }
    // The answers call themselves scripted, which has no price.
    assert_eq!(series(&metrics, "longhand_cost_dollars_total"), Some(0.0), "{metrics}");
    for name in [
        "folds_total",
        "archived_total",
        "archive_lag_seconds_bucket",
        "added_seconds_sum",
        "upstream_seconds_count",
        "archive_queue",
    ] {
        assert!(metrics.contains(&format!("longhand_{name}")), "{name}\n{metrics}");
    }
    assert!(metrics.ends_with("# EOF\n"));
}

#[tokio::test]
async fn a_priced_model_s_cost_is_added_up() {
    let path = PATHS[0];
    let body = json!({"model": "gpt-4o", "choices": [{"index": 0, "message": assistant("Well."), "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10_000, "prompt_tokens_details": {"cached_tokens": 6_000}, "completion_tokens": 1_000}});
    let kind = vec![("content-type", "application/json".to_owned())];
    let stage = Stage::new(None, vec![ScriptStep::Raw(200, kind, body.to_string()); 2]).await;
    for said in ["Hm?", "Oh?"] {
        stage.ask(path, &[user(said)]).await;
    }
    let (_, metrics) = get(&stage, "/longhand/metrics").await;
    // 4 000 at 2.50, 6 000 at 1.25, 1 000 at 10 dollars a million, twice.
    let cost = series(&metrics, "longhand_cost_dollars_total").unwrap();
    assert!((cost - 0.055).abs() < 1e-9, "{cost}");
}

#[tokio::test]
async fn lines_of_the_log_are_json_without_words_or_keys() {
    let (log, lines) = log();
    let stage = Stage::with([answers(2), vec![ScriptStep::Status(500)]].concat(), |settings| {
        settings.log = Some(log);
        settings.budget = Some(Tokens(3_000));
        settings.keys = vec!["canary-ours".to_owned()];
    })
    .await;
    for (key, steps) in
        [("canary-ours", 1), ("canary-ours", 20), ("canary-ours", 2), ("canary-wrong", 1)]
    {
        let body = request(PATHS[0], &messages(PATHS[0], steps), false);
        let request = stage.client.post(stage.url(PATHS[0])).header("x-longhand-key", key);
        let request = request.bearer_auth("canary-theirs").header("x-longhand-session", "work");
        request.body(body).send().await.unwrap().text().await.unwrap();
    }
    stage.proxy.stop().await;
    let lines = lines.lock().unwrap().clone();
    let parsed: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let outcomes: Vec<_> = parsed
        .iter()
        .map(|line| (line["outcome"].as_str().unwrap(), line["status"].as_u64().unwrap()))
        .collect();
    assert_eq!(outcomes, [("passed", 200), ("compacted", 200), ("passed", 500), ("refused", 401)]);
    for line in &parsed {
        for field in ["at", "level", "method", "path", "status", "ms"] {
            assert!(!line[field].is_null(), "{field}: {line}");
        }
    }
    for field in [
        "model",
        "session",
        "edits",
        "tokens_before",
        "tokens_after",
        "added_ms",
        "upstream_ms",
        "retries",
    ] {
        assert!(!parsed[1][field].is_null(), "{field}: {}", parsed[1]);
    }
    let all = lines.join("\n");
    for word in ["canary", "build fails", "all is well", "file_", "Go on"] {
        assert!(!all.contains(word), "{word}: {all}");
    }
}

#[tokio::test]
async fn a_stop_finishes_a_slow_stream_and_takes_nobody_new() {
    let slow = ScriptStep::Drip("one two three".to_owned(), Duration::from_millis(100));
    let stage = Stage::new(Some(8_000), [slow, says("late")]).await;
    let path = PATHS[2];
    let address = stage.proxy.address();
    let answer = stage.post(path, &request(path, &[user("Hm?")], true)).await;
    let read = tokio::spawn(answer.text());
    let stop = tokio::spawn(stage.proxy.stop());
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!stop.is_finished());
    assert!(TcpStream::connect(address).is_err(), "a new connection was taken");
    assert!(read.await.unwrap().unwrap().contains("message_stop"));
    tokio::time::timeout(Duration::from_mins(1), stop).await.unwrap().unwrap();
}

/// A stage whose answers wait for the archive.
async fn strict(fault: Fault, steps: Vec<ScriptStep>) -> (Stage, Arc<Faulty>, Arc<MemoryArchive>) {
    let store = Arc::new(MemoryArchive::default());
    let archive = Arc::new(Faulty::new(Arc::clone(&store) as Arc<dyn Archive>, fault));
    let proxy_archive = Arc::clone(&archive);
    let stage = Stage::with(steps, |settings| {
        settings.archive = proxy_archive;
        settings.require_archive = true;
        settings.budget = Some(Tokens(8_000));
    })
    .await;
    (stage, archive, store)
}

#[tokio::test]
async fn the_last_byte_of_an_answer_means_that_it_is_archived() {
    for path in PATHS {
        for stream in [false, true] {
            let fault = Fault::SlowWrites(Duration::from_millis(200));
            let (stage, _, store) = strict(fault, answers(1)).await;
            let answer = stage.post(path, &request(path, &[user("Hm?")], stream)).await;
            let session = answer.headers()["x-longhand-session"].to_str().unwrap().to_owned();
            assert_eq!(
                told(&*store, &session).len(),
                1,
                "the question is archived before it is sent"
            );
            let mut chunks = answer.bytes_stream();
            while let Some(chunk) = chunks.next().await {
                chunk.unwrap();
            }
            assert_eq!(told(&*store, &session).len(), 2, "{path} {stream}");
        }
    }
}

#[tokio::test]
async fn what_cannot_be_archived_is_not_sent() {
    for fault in [Fault::ReadOnly, Fault::Error, Fault::Panic] {
        tokio::join!(
            refused_while(fault, PATHS[0], "/error/code"),
            refused_while(fault, PATHS[2], "/type")
        );
    }
}

async fn refused_while(fault: Fault, path: &str, pointer: &str) {
    let (stage, archive, _) = strict(fault, answers(2)).await;
    let answer = stage.post(path, &request(path, &[user("Hm?")], true)).await;
    assert_eq!(answer.status(), 503, "{fault:?}");
    let body: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
    assert!(body.pointer(pointer).is_some(), "{body}");
    assert_eq!(body["error"]["type"], "overloaded_error");
    assert!(stage.sent().is_empty(), "{fault:?}");
    archive.set(Fault::None);
    assert_eq!(stage.ask(path, &[user("Hm?")]).await.status, 200, "{fault:?} is over");
}

#[tokio::test]
async fn an_answer_that_cannot_be_archived_ends_in_an_error() {
    futures_util::future::join_all(PATHS.map(ends_in_an_error)).await;
}

async fn ends_in_an_error(path: &str) {
    let slow = ScriptStep::Drip("one two three".to_owned(), Duration::from_millis(60));
    let (stage, archive, _) = strict(Fault::None, vec![slow]).await;
    let answer = stage.post(path, &request(path, &[user("Hm?")], true)).await;
    assert_eq!(answer.status(), 200);
    archive.set(Fault::ReadOnly);
    assert!(answer.text().await.is_err(), "{path}");
}

#[tokio::test]
async fn keys_are_wanted_and_stay_here() {
    let stage = Stage::with(answers(10), |settings| settings.keys = vec!["ours".to_owned()]).await;
    let ask = async |headers: &[(&str, &str)]| {
        let mut request =
            stage.client.post(stage.url(PATHS[2])).body(request(PATHS[2], &[user("Hm?")], false));
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        request.send().await.unwrap().status().as_u16()
    };
    for (headers, expected) in [
        (vec![], 401),
        (vec![("x-longhand-key", "theirs")], 401),
        (vec![("authorization", "Bearer our")], 401),
        (vec![("authorization", "Basic ours")], 401),
        (vec![("x-longhand-key", "ours"), ("x-api-key", "theirs")], 200),
        (vec![("authorization", "Bearer ours"), ("x-api-key", "theirs")], 200),
        (vec![("x-api-key", "ours"), ("authorization", "Bearer theirs")], 200),
        (vec![("api-key", "ours"), ("x-api-key", "theirs")], 200),
    ] {
        assert_eq!(ask(&headers).await, expected, "{headers:?}");
    }
    let seen = stage.server.requests();
    assert_eq!(seen.len(), 4);
    for request in seen {
        let values: Vec<&str> = request.headers.iter().map(|(_, value)| value.as_str()).collect();
        assert!(!values.iter().any(|value| value.contains("ours")), "{values:?}");
        assert!(values.iter().any(|value| value.ends_with("theirs")), "{values:?}");
    }
}

#[tokio::test]
async fn too_many_are_told_to_come_back() {
    let slow = ScriptStep::Drip("one two three".to_owned(), Duration::from_millis(50));
    let stage =
        Stage::with([slow, says("b"), says("c")], |settings| settings.requests_max = 1).await;
    let path = PATHS[0];
    let first = stage.post(path, &request(path, &[user("Hm?")], true)).await;
    let second = stage.post(path, &request(path, &[user("Oh?")], true)).await;
    assert_eq!(second.status(), 503);
    assert_eq!(second.headers()["retry-after"], "1");
    let body: Value = serde_json::from_str(&second.text().await.unwrap()).unwrap();
    assert_eq!(body["error"]["type"], "overloaded_error");
    assert_eq!(get(&stage, "/longhand/health").await.0, 200, "who looks after it is let in");
    first.text().await.unwrap();
    until("there is room", || stage.proxy.counts().requests > 0).await;
    assert_eq!(stage.ask(path, &[user("Oh?")]).await.status, 200);
    assert_eq!(stage.sent().len(), 2);
}

#[tokio::test]
async fn a_client_that_falls_silent_is_let_go() {
    let stage =
        Stage::with([], |settings| settings.client_silence = Duration::from_millis(300)).await;
    let address = stage.proxy.address();
    let talk = move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let head = format!(
            "POST {} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{{",
            PATHS[2]
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = [0; 512];
        let length = stream.read(&mut answer).unwrap();
        String::from_utf8_lossy(&answer[..length]).into_owned()
    };
    let answer = tokio::task::spawn_blocking(talk).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(answer.contains(r#""type":"error""#), "{answer}");
    assert!(stage.sent().is_empty());
}

#[tokio::test]
async fn what_is_larger_than_anything_is_refused() {
    for path in [PATHS[0], PATHS[2], "/v1/files"] {
        for sized in [true, false] {
            // An upstream that answers at once may do so before the limit is reached.
            let stage = Stage::with([ScriptStep::Hang], |settings| {
                settings.request_bytes_max = 1_000;
                settings.body_bytes_max = 5_000;
            })
            .await;
            let body = request(path, &messages(path, 20), false).into_bytes();
            let frame = |chunk: &[u8]| Ok::<_, std::io::Error>(Frame::data(chunk.to_vec().into()));
            let chunks: Vec<_> = body.chunks(700).map(frame).collect();
            let body = if sized {
                http::full(body)
            } else {
                http::boxed(StreamBody::new(futures_util::stream::iter(chunks)))
            };
            let answer = stage.client.post(stage.url(path)).streamed(body).send().await.unwrap();
            assert_eq!(answer.status(), 413, "{path} {sized}");
            assert!(stage.sent().iter().all(|sent| sent.len() <= 5_000));
        }
    }
}

/// A model that answers when it is let.
struct Model {
    gate: Gate,
    says: Option<&'static str>,
    asked: AtomicUsize,
    answered: AtomicUsize,
}

impl Summariser for Model {
    fn name(&self) -> &'static str {
        "model"
    }

    fn summarise(&self, _: &Input, _: Tokens, _: &Scale) -> Result<Summary, SummaryError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.gate.pass();
        self.answered.fetch_add(1, Ordering::SeqCst);
        let text = self.says.ok_or(SummaryError::Empty { name: "model".to_owned() })?;
        let model = Some("model".to_owned());
        Ok(Summary { text: text.to_owned(), model, ..Summary::default() })
    }
}

/// A conversation of so many rounds, which is folded by and by.
fn rounds(path: &str, count: usize) -> (Vec<Value>, Vec<ScriptStep>) {
    let mut all = Vec::new();
    let mut steps = Vec::new();
    for at in 0..count {
        let item = json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": format!("Answer {at}.")}]});
        let answer = match path {
            "/v1/responses" => item,
            "/v1/messages" => {
                json!({"role": "assistant", "content": [{"type": "text", "text": format!("Answer {at}.")}]})
            }
            _ => assistant(&format!("Answer {at}.")),
        };
        all.push(user(&format!("Question {at}: {}", "what of this and that? ".repeat(60))));
        all.push(answer.clone());
        steps.push(reply(path, &answer));
    }
    (all, steps)
}

#[tokio::test]
async fn a_model_s_words_come_with_the_next_batch_and_nobody_waits_for_them() {
    const WORDS: &str = "The axolotl told them everything about this and that.";
    for (is_late, says, appears) in
        [(false, Some(WORDS), true), (false, None, false), (true, Some(WORDS), false)]
    {
        let path = PATHS[0];
        let (asked, answered) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let model = Arc::new(Model { gate: Gate::default(), says, asked, answered });
        if !is_late {
            model.gate.open();
        }
        let summariser = Arc::clone(&model);
        let (all, steps) = rounds(path, 30);
        let stage = Stage::with(steps, |settings| {
            settings.budget = Some(Tokens(4_000));
            settings.summarisers.insert(0, summariser);
        })
        .await;
        let mut batches = 0;
        let mut seen = Vec::new();
        for at in 0..30 {
            stage.ask(path, &all[..=2 * at]).await;
            let sent = stage.sent().pop().unwrap();
            let made = stage.proxy.counts().batches;
            if made > batches {
                seen.push(sent.contains("axolotl"));
                let count = |of: &AtomicUsize| of.load(Ordering::SeqCst);
                until("the model was asked", || count(&model.asked) > 0).await;
                if !is_late {
                    until("it answered", || count(&model.answered) == count(&model.asked)).await;
                }
            } else {
                assert_eq!(
                    sent.contains("axolotl"),
                    seen.last() == Some(&true),
                    "only a batch changes it"
                );
            }
            batches = made;
        }
        assert!(seen.len() >= 3, "{seen:?}");
        assert!(model.asked.load(Ordering::SeqCst) > 0, "it was never asked");
        assert!(!seen[0], "what is folded first is told at once");
        assert_eq!(seen.iter().any(|it| *it), appears, "{is_late} {seen:?}");
        assert_eq!(stage.proxy.counts().bypassed, 0);
        model.gate.open();
    }
}

#[tokio::test]
async fn what_is_too_large_to_be_archived_is_refused_where_it_must_be() {
    let stage = Stage::with([ScriptStep::Answer("no".to_owned())], |settings| {
        settings.request_bytes_max = 1_000;
        settings.require_archive = true;
    })
    .await;
    let body = request(PATHS[0], &messages(PATHS[0], 20), false);
    assert_eq!(stage.post(PATHS[0], &body).await.status(), 413);
    assert!(stage.sent().is_empty());
}
