//! Streaming.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use longhand::{Archive, Tokens};
use longhand_testkit::scripted::ScriptStep;
use serde_json::{Value, json};

use crate::common::raw::{Piece, RawServer, chunked, whole};
use crate::common::{PATHS, Stage, answers, id_of, log, owner_of, request, until, user};
use longhand_testkit::gate::Gate;

const EVENTS: &str = "text/event-stream";

async fn before(upstream: &RawServer) -> Stage {
    Stage::with([], |settings| {
        settings.upstream_openai = Some(upstream.url());
        settings.upstream_anthropic = Some(upstream.url());
        settings.budget = Some(Tokens(8_000));
    })
    .await
}

/// A stream with everything in it that is easily cut in two.
fn events(path: &str) -> String {
    let line = |event: &Value| match event["type"].as_str() {
        Some(kind) => format!("event: {kind}\r\ndata: {event}\r\n\r\n"),
        None => format!(": note\ndata: {event}\n\n"),
    };
    let text = "Grüße 🦀,\n\"日本\"";
    let events = match path {
        "/v1/messages" => vec![
            json!({"type": "message_start", "message": {"model": "m", "role": "assistant", "content": [], "usage": {"input_tokens": 5}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}}),
            json!({"type": "message_stop"}),
        ],
        "/v1/responses" => {
            let item = json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]});
            vec![
                json!({"type": "response.output_text.delta", "output_index": 0, "delta": text}),
                json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
                json!({"type": "response.completed", "response": {"status": "completed", "output": [item]}}),
            ]
        }
        _ => vec![
            json!({"choices": [{"index": 0, "delta": {"role": "assistant", "content": text}}]}),
            json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
        ],
    };
    let end = if path == PATHS[0] { "data: [DONE]\n\n" } else { "" };
    events.iter().map(line).collect::<String>() + end
}

#[tokio::test]
async fn p24_a_stream_cut_at_any_byte_comes_as_it_went() {
    for path in PATHS {
        let stream = events(path);
        let sent = stream.clone();
        // A request says in its model's name where its answer is cut; 0 is everywhere.
        let upstream = RawServer::start(move |got| {
            let body: Value = serde_json::from_slice(&got.body).unwrap();
            let bytes = sent.as_bytes();
            match body["model"].as_str().unwrap().parse::<usize>().unwrap() {
                0 => chunked(EVENTS, &bytes.chunks(1).collect::<Vec<_>>()),
                at => chunked(EVENTS, &[&bytes[..at], &bytes[at..]]),
            }
        });
        let stage = before(&upstream).await;
        for at in 0..stream.len() {
            let asked = [user(&format!("Cut at {at}."))];
            let body = request(path, &asked, true).replace("scripted", &at.to_string());
            let answer = stage.post(path, &body).await.bytes().await.unwrap();
            assert_eq!(answer, stream.as_bytes(), "{path} {at}");
        }
        let archived = stage.archived().await;
        assert_eq!(archived.len(), stream.len());
        for (_, raws) in archived {
            let answer: Value = serde_json::from_str(&raws[1]).unwrap();
            let words = answer["content"].as_str().or(answer["content"][0]["text"].as_str());
            assert_eq!(words, Some("Grüße 🦀,\n\"日本\""), "{raws:?}");
        }
    }
}

#[tokio::test]
async fn p25_a_stream_without_its_end_is_passed_on_and_not_taken_for_whole() {
    for path in PATHS {
        let stream = events(path);
        // Before the last event, and after an error in the middle.
        let last = match path {
            "/v1/messages" => "event: message_delta",
            "/v1/responses" => "event: response.completed",
            _ => ": note",
        };
        let cut = stream.rfind(last);
        let error = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}\n\n";
        let cut = stream[..cut.unwrap()].to_owned();
        let half = stream[..stream.find("日").unwrap()].to_owned();
        for body in [cut.clone(), format!("{cut}{error}"), half] {
            let sent = body.clone();
            let upstream = RawServer::start(move |_| chunked(EVENTS, &[sent.as_bytes()]));
            let stage = before(&upstream).await;
            let answer = stage.post(path, &request(path, &[user("Hm?")], true)).await;
            assert_eq!(answer.text().await.unwrap(), body, "{path}");
            let archive = std::sync::Arc::clone(&stage.archive);
            let archived = stage.archived().await;
            let id = id_of(&*archive, &archived[0].0);
            let requests = archive.requests(id, longhand_archive::Page::ALL).unwrap().items;
            assert!(requests.iter().all(|request| request.is_cut), "{path}: {requests:#?}");
        }
    }
}

#[tokio::test]
async fn p26_the_first_byte_is_not_delayed_and_nothing_is_kept_until_the_end() {
    futures_util::future::join_all(PATHS.map(first_byte_and_rest)).await;
}

async fn first_byte_and_rest(path: &str) {
    let stream = events(path);
    // All that comes up to the first words.
    let words = stream.find("日").unwrap();
    let end = |mark| stream[words..].find(mark).map(|at| words + at + str::len(mark));
    let first = end("\n\n").or(end("\r\n\r\n")).unwrap();
    let gate = Arc::new(Gate::default());
    let (begins, ends) = stream.as_bytes().split_at(first);
    let (begins, ends) = (begins.to_vec(), ends.to_vec());
    let rest = Arc::clone(&gate);
    let upstream = RawServer::start(move |_| {
        let (begins, ends, rest) = ([head(), begins.clone()], ends.clone(), Arc::clone(&rest));
        let ends = std::iter::once_with(move || {
            rest.pass();
            ends
        });
        begins.into_iter().chain(ends).map(|piece| (piece, Duration::ZERO))
    });
    let stage = before(&upstream).await;
    let answer = stage.post(path, &request(path, &[user("Hm?")], true)).await;
    let mut chunks = answer.bytes_stream();
    let mut bytes = 0;
    while bytes < first {
        bytes += chunks.next().await.unwrap().unwrap().len();
    }
    // All of it came before there was more.
    gate.open();
    while let Some(chunk) = chunks.next().await {
        bytes += chunk.unwrap().len();
    }
    assert_eq!(bytes, stream.len());
}

fn head() -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: {EVENTS}\r\n\r\n").into_bytes()
}

#[tokio::test]
async fn p27_answers_of_another_kind_than_was_asked_for_are_passed_on() {
    for path in PATHS {
        for (stream, kind, body) in [
            (false, EVENTS, events(path)),
            (true, "application/json", r#"{"unexpected": true}"#.to_owned()),
            (true, "text/plain", "hello".to_owned()),
            (false, "application/json", String::new()),
        ] {
            let sent = body.clone();
            let upstream = RawServer::start(move |_| whole(kind, &sent));
            let stage = before(&upstream).await;
            let answer = stage.post(path, &request(path, &[user("Hm?")], stream)).await;
            assert_eq!(answer.status(), 200);
            assert_eq!(answer.headers()["content-type"], kind);
            assert_eq!(answer.text().await.unwrap(), body, "{path} {kind}");
        }
        let nothing = ScriptStep::Raw(204, vec![], String::new());
        let stage = Stage::new(Some(8_000), [nothing]).await;
        assert_eq!(stage.ask(path, &[user("Hm?")]).await.status, 204);
    }
}

#[tokio::test]
async fn p29_who_leaves_is_not_worked_for() {
    // The upstream goes on for a minute if it is let.
    let upstream = RawServer::start(|_| {
        let ping: Piece = (b": still here\n\n".to_vec(), Duration::from_millis(10));
        std::iter::once((head(), Duration::ZERO)).chain(vec![ping; 6_000])
    });
    let stage = before(&upstream).await;
    let path = PATHS[0];
    let answer = stage.post(path, &request(path, &[user("Hm?")], true)).await;
    let mut chunks = answer.bytes_stream();
    chunks.next().await.unwrap().unwrap();
    drop(chunks);
    until("the upstream is left alone", || upstream.left() == 1).await;
    assert_eq!(upstream.got().len(), 1);

    // Before the head of an answer came, too.
    let silent = RawServer::start(|_| {
        let nothing: Piece = (Vec::new(), Duration::from_millis(500));
        vec![nothing, (head(), Duration::from_millis(100)), (vec![b'.'; 1 << 20], Duration::ZERO)]
    });
    let stage = before(&silent).await;
    let asked = stage.client.post(stage.url(path)).body(request(path, &[user("Hm?")], true));
    let answer = asked.timeout(Duration::from_millis(200)).send().await;
    assert!(answer.unwrap_err().is_timeout());
    until("the upstream is left alone", || silent.left() == 1).await;
    assert_eq!(silent.got().len(), 1);
}

#[tokio::test]
async fn p29_nothing_is_sent_twice_unless_it_is_too_long() {
    for step in [
        ScriptStep::Status(400),
        ScriptStep::Status(500),
        ScriptStep::Status(529),
        ScriptStep::Limited(None),
        ScriptStep::Drop,
        ScriptStep::Cut("one two three four".to_owned()),
        ScriptStep::ErrorBody("out of order".to_owned()),
    ] {
        for stream in [false, true] {
            let path = PATHS[2];
            let stage = Stage::new(Some(8_000), [vec![step.clone()], answers(3)].concat()).await;
            let body = request(path, &[user("Hm?")], stream);
            if let Ok(answer) = stage.client.post(stage.url(path)).body(body).send().await {
                let _ = answer.text().await;
            }
            assert_eq!(stage.sent().len(), 1, "{step:?}");
        }
    }
}

#[tokio::test]
async fn p30_a_rebuilt_answer_has_all_that_was_streamed() {
    let path = "/v1/messages";
    let delta = |index: u64, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let start = |index: u64, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let stop = |index: u64| json!({"type": "content_block_stop", "index": index});
    let cited = json!({"type": "char_location", "cited_text": "so it is", "document_index": 0});
    let events = [
        json!({"type": "message_start", "message": {"model": "claude-sonnet-4-5", "role": "assistant", "content": [], "usage": {"input_tokens": 10, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 30}}}),
        start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(0, json!({"type": "thinking_delta", "thinking": "Hm."})),
        delta(0, json!({"type": "signature_delta", "signature": "c2ln"})),
        stop(0),
        start(1, json!({"type": "text", "text": ""})),
        delta(1, json!({"type": "text_delta", "text": "So."})),
        delta(1, json!({"type": "citations_delta", "citation": cited})),
        stop(1),
        start(2, json!({"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}})),
        delta(2, json!({"type": "input_json_delta", "partial_json": "{\"path\":"})),
        delta(2, json!({"type": "input_json_delta", "partial_json": "\"a.rs\"}"})),
        stop(2),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 7}}),
        json!({"type": "message_stop"}),
    ];
    let stream: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let upstream = RawServer::start(move |_| chunked(EVENTS, &[stream.as_bytes()]));
    let (log, _) = log();
    let stage = Stage::with([], |settings| {
        settings.upstream_anthropic = Some(upstream.url());
        settings.log = Some(log);
    })
    .await;
    stage.post(path, &request(path, &[user("Hm?")], true)).await.text().await.unwrap();
    let archive = std::sync::Arc::clone(&stage.archive);
    let archived = stage.archived().await;
    let answer: Value = serde_json::from_str(&archived[0].1[1]).unwrap();
    let expected = json!([
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "text", "text": "So.", "citations": [cited]},
        {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a.rs"}},
    ]);
    assert_eq!(answer["content"], expected);
    let requests = archive
        .requests(id_of(&*archive, &archived[0].0), longhand_archive::Page::ALL)
        .unwrap()
        .items;
    let [request] = &requests[..] else { panic!("{requests:?}") };
    assert_eq!((request.sent, request.cached, request.output), (60, 20, 7));
    let preamble = archive.preamble(owner_of(&*archive, &archived[0].0), request.preamble.unwrap());
    assert!(preamble.unwrap().unwrap().contains("scripted"));
}
