//! Answers that are not as their format says: the client gets every byte, the archive every word, and whoever looks is
//! told of what could not be read.
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use longhand::unread::{UnreadAnswer, UnreadContent, answers};
use longhand::{Archive, Redactor};
use longhand_archive::Page;
use longhand_server::RecallTool;
use serde_json::{Value, json};

use crate::common::raw::{Piece, RawServer};
use crate::common::{PATHS, Stage, id_of, log, request, until, user};

const EVENTS: &str = "text/event-stream; charset=utf-8";
const JSON: &str = "application/json";
const WORDS: &str = "One w1x two w2x three.";

/// A stream as a provider sends it.
fn stream(path: &str) -> String {
    let named =
        |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    let pieces: Vec<&str> = WORDS.split_inclusive(' ').collect();
    match path {
        "/v1/messages" => {
            let mut events = vec![
                json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": {"input_tokens": 9, "output_tokens": 1}}}),
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
                json!({"type": "ping"}),
            ];
            events.extend(pieces.iter().map(|piece| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}})));
            events.extend([
                json!({"type": "content_block_stop", "index": 0}),
                json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null}, "usage": {"output_tokens": 7}}),
                json!({"type": "message_stop"}),
            ]);
            events.iter().map(named).collect()
        }
        "/v1/responses" => {
            let item = json!({"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [{"type": "output_text", "text": WORDS, "annotations": []}]});
            let mut events = vec![
                json!({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "output": []}}),
                json!({"type": "response.output_item.added", "output_index": 0, "item": {"id": "msg_1", "type": "message", "content": []}}),
            ];
            events.extend(pieces.iter().map(|piece| json!({"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": piece})));
            events.extend([
                json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
                json!({"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "output": [item], "usage": {"input_tokens": 9, "output_tokens": 7}}}),
            ]);
            events.iter().map(named).collect()
        }
        _ => {
            let chunk = |delta: Value, finish: Value| {
                format!(
                    "data: {}\n\n",
                    json!({"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
                )
            };
            let mut events = vec![": OPENROUTER PROCESSING\n\n".to_owned()];
            events.push(chunk(json!({"role": "assistant", "content": ""}), json!(null)));
            events.extend(pieces.iter().map(|piece| chunk(json!({"content": piece}), json!(null))));
            events.push(chunk(json!({}), json!("stop")));
            events.push("data: [DONE]\n\n".to_owned());
            events.concat()
        }
    }
}

/// A whole answer.
fn whole(path: &str) -> String {
    match path {
        "/v1/messages" => json!({"type": "message", "role": "assistant", "content": [{"type": "text", "text": WORDS}], "stop_reason": "end_turn"}),
        "/v1/responses" => json!({"status": "completed", "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": WORDS}]}]}),
        _ => json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": WORDS}, "finish_reason": "stop"}]}),
    }
    .to_string()
}

/// The stream with something after its second event.
fn with_event(path: &str, event: &[u8]) -> Vec<u8> {
    let stream = stream(path);
    let at = stream.match_indices("\n\n").nth(1).unwrap().0 + 2;
    [&stream.as_bytes()[..at], event, &stream.as_bytes()[at..]].concat()
}

fn with_bad_utf8(text: &str) -> Vec<u8> {
    let bytes = text.replace("two ", "\u{1}").into_bytes();
    bytes.into_iter().map(|byte| if byte == 1 { 0xff } else { byte }).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).unwrap()
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).unwrap()
}

fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

type Pack = fn(&[u8]) -> Vec<u8>;

/// An answer that an upstream sends.
#[derive(Clone)]
struct Sent {
    what: &'static str,
    /// Whether a stream was asked for.
    stream: bool,
    kind: &'static str,
    coding: &'static str,
    body: Vec<u8>,
    /// Whether its words are in the message that is archived, or else what of it is kept as it came.
    words: bool,
    /// The label of the counter, and a piece of what is kept as it came.
    unread: Option<(&'static str, &'static str)>,
}

fn classes(path: &str) -> Vec<Sent> {
    let (stream, whole) = (stream(path), whole(path));
    let events = |what, body: Vec<u8>| Sent {
        what,
        stream: true,
        kind: EVENTS,
        coding: "",
        body,
        words: true,
        unread: None,
    };
    let json = |what, body: Vec<u8>| Sent { stream: false, kind: JSON, ..events(what, body) };
    let cut = stream.find("three").unwrap();
    let cut = stream[..cut].rfind("\n\n").unwrap() + 2;
    let mut all = vec![
        events("a stream", stream.clone().into_bytes()),
        json("a whole answer", whole.clone().into_bytes()),
        events("[PING]", with_event(path, b"data: [PING]\n\n")),
        events("a named ping", with_event(path, b"event: ping\ndata: {}\n\n")),
        events("a keep-alive comment", with_event(path, b": keep-alive\n\n")),
        events("a ping first", [b"data: [PING]\n\n", stream.as_bytes()].concat()),
        Sent {
            unread: Some(("events", "no json at w9x")),
            ..events("no JSON", with_event(path, b"data: no json at w9x\n\n"))
        },
        Sent {
            unread: Some(("events", "w9x")),
            ..events(
                "an unknown type",
                with_event(
                    path,
                    b"event: credits\ndata: {\"type\":\"credits\",\"left\":\"w9x\"}\n\n",
                ),
            )
        },
        Sent {
            unread: Some(("events", "w9x")),
            ..events(
                "a damaged event",
                with_event(path, b"data: {\"choices\":[{\"delta\":{\"content\":\"w9x\n\n"),
            )
        },
        Sent {
            unread: Some(("events", "w9x")),
            ..events("a stray line", with_event(path, b"warning: w9x\n\n"))
        },
        Sent {
            unread: Some(("encoding", "")),
            ..events("no UTF-8 in a stream", with_bad_utf8(&stream))
        },
        Sent { unread: Some(("encoding", "")), ..json("no UTF-8", with_bad_utf8(&whole)) },
        Sent {
            unread: Some(("trailing", "}]w9x")),
            ..json("trailing garbage", format!("{whole}\n}}]w9x").into_bytes())
        },
        events("a cut stream", stream.as_bytes()[..cut].to_vec()),
        Sent {
            stream: false,
            ..events("a stream to one who asked for none", stream.clone().into_bytes())
        },
        Sent {
            stream: true,
            ..json("a whole answer to one who asked for a stream", whole.clone().into_bytes())
        },
        Sent {
            kind: EVENTS,
            stream: true,
            ..json("a whole answer that says it is a stream", whole.clone().into_bytes())
        },
        Sent { kind: JSON, ..events("a stream that says it is none", stream.clone().into_bytes()) },
        Sent {
            words: false,
            unread: Some(("format", "<html>w9x")),
            ..json("another answer", b"<html>w9x</html>".to_vec())
        },
        Sent {
            words: false,
            unread: Some(("format", "w9x")),
            ..events("another stream", b"data: w9x\n\ndata: [DONE]\n\n".to_vec())
        },
        Sent {
            words: false,
            unread: Some(("format", "\"w9x\"")),
            ..json("another object", br#"{"text": "w9x"}"#.to_vec())
        },
        Sent {
            words: false,
            coding: "br",
            unread: Some(("packing", "")),
            ..json("br", vec![0x8b, 0x02, 0x80, 0xff, 0x00, 0x03])
        },
        Sent {
            words: false,
            coding: "gzip",
            unread: Some(("packing", "")),
            ..json("no gzip", b"\x1f\x8b\x08 nothing of it".to_vec())
        },
        Sent { coding: "identity", ..json("identity", whole.clone().into_bytes()) },
    ];
    let codings: [(&str, Pack); 5] =
        [("gzip", gzip), ("x-gzip", gzip), ("deflate", zlib), ("deflate", deflate), ("zstd", zstd)];
    for (coding, pack) in codings {
        all.push(Sent { coding, ..events(coding, pack(stream.as_bytes())) });
        all.push(Sent { coding, ..json(coding, pack(whole.as_bytes())) });
        let foreign = pack(&with_event(path, b"data: [PING]\n\ndata: not w9x\n\n"));
        all.push(Sent { coding, unread: Some(("events", "not w9x")), ..events(coding, foreign) });
    }
    all
}

/// How an answer goes over the wire: with its length, or in chunks of so many bytes.
fn on_the_wire(sent: &Sent, size: Option<usize>) -> Vec<Piece> {
    let coding = if sent.coding.is_empty() {
        String::new()
    } else {
        format!("content-encoding: {}\r\n", sent.coding)
    };
    let head =
        format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: {}\r\n{coding}", sent.kind);
    let Some(size) = size else {
        let bytes =
            [format!("{head}content-length: {}\r\n\r\n", sent.body.len()).as_bytes(), &sent.body]
                .concat();
        return vec![(bytes, Duration::ZERO)];
    };
    let mut bytes = format!("{head}transfer-encoding: chunked\r\n\r\n").into_bytes();
    for chunk in sent.body.chunks(size) {
        bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    vec![(bytes, Duration::ZERO)]
}

/// A stage before an upstream that has these answers, by the name of the model that is asked for.
async fn before(
    all: &[Sent],
    size: Option<usize>,
    set: impl FnOnce(&mut longhand_server::Settings),
) -> Stage {
    let all = all.to_vec();
    let upstream = RawServer::start(move |got| {
        let body: Value = serde_json::from_slice(&got.body).unwrap();
        on_the_wire(&all[body["model"].as_str().unwrap().parse::<usize>().unwrap()], size)
    });
    Stage::with([], |settings| {
        settings.upstream_openai = Some(upstream.url());
        settings.upstream_anthropic = Some(upstream.url());
        set(settings);
    })
    .await
}

async fn ask(stage: &Stage, path: &str, at: usize, sent: &Sent) -> crate::common::client::Answer {
    let body = request(path, &[user("Hm?")], sent.stream).replace("scripted", &at.to_string());
    let asked = stage.client.post(stage.url(path)).header("x-longhand-session", &format!("s{at}"));
    asked.header("authorization", "Bearer k").body(body).send().await.unwrap()
}

fn kept(archive: &dyn Archive, session: &str) -> Vec<UnreadAnswer> {
    answers(archive, id_of(archive, session)).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_arrives_and_every_word_is_kept() {
    for path in PATHS {
        let all = classes(path);
        for (size, require, recalls) in [
            (None, false, false),
            (Some(7), false, false),
            (Some(100_000), true, false),
            (Some(50), false, true),
        ] {
            let (warn, warnings) = log();
            let stage = before(&all, size, |settings| {
                settings.require_archive = require;
                settings.recall_tool = if recalls { RecallTool::Always } else { RecallTool::Never };
                settings.warn = Some(warn);
            })
            .await;
            for (at, sent) in all.iter().enumerate() {
                let before = stage.proxy.counts().unread;
                let what = format!("{path}, {}, {size:?} {require} {recalls}", sent.what);
                let answer = ask(&stage, path, at, sent).await;
                assert_eq!(answer.status(), 200, "{what}");
                let coding = answer.headers().get("content-encoding").cloned();
                assert_eq!(coding.is_some(), !sent.coding.is_empty(), "{what}");
                let bytes = answer.bytes().await.unwrap_or_else(|error| panic!("{what}: {error}"));
                assert!(bytes == sent.body, "{what}: the client got other bytes");
                let counted = || stage.proxy.counts().unread - before;
                let expected = u64::from(sent.unread.is_some());
                until(&what, || counted() == expected).await;
            }
            let metrics = stage.client.get(stage.url("/longhand/metrics")).send().await.unwrap();
            let metrics = metrics.text().await.unwrap();
            let archive = Arc::clone(&stage.archive);
            assert_eq!(stage.proxy.counts().unarchived, 0);
            stage.proxy.stop().await;
            for (at, sent) in all.iter().enumerate() {
                let (what, session) = (format!("{path}, {}", sent.what), format!("s{at}"));
                let id = id_of(&*archive, &session);
                let entries = archive.entries(id, 0..u64::MAX).unwrap();
                assert_eq!(entries.len(), 1 + usize::from(sent.words), "{what}");
                for word in ["w1x", "w2x"].iter().filter(|_| sent.words) {
                    assert!(entries[1].raw.contains(word), "{what}: {}", entries[1].raw);
                }
                let requests = archive.requests(id, Page::ALL).unwrap().items;
                assert_eq!(requests.len(), 1, "{what}");
                let is_cut = sent.what == "a cut stream" || !sent.words;
                assert_eq!(requests[0].is_cut, is_cut, "{what}");
                let unread = kept(&*archive, &session);
                let Some((why, piece)) = sent.unread else {
                    assert_eq!(unread, [], "{what}");
                    continue;
                };
                let label = format!("longhand_unread_answers_total{{why=\"{why}\"}}");
                assert!(metrics.contains(&label), "{what}: {metrics}");
                let [unread] = &unread[..] else { panic!("{what}: {unread:?}") };
                assert_eq!(unread.at_ms, requests[0].at_ms, "{what}");
                assert_eq!(
                    (unread.bytes, unread.coding.as_str()),
                    (sent.body.len() as u64, sent.coding),
                    "{what}"
                );
                match &unread.content {
                    UnreadContent::Text(text) => assert!(text.contains(piece), "{what}: {text}"),
                    UnreadContent::Base64(_) => {
                        let opened = longhand::unread::open(&*archive, unread.handle()).unwrap();
                        assert_eq!(opened.as_ref(), Some(unread), "{what}");
                        assert_eq!(
                            UnreadContent::of(&sent.body, None, true),
                            unread.content,
                            "{what}"
                        );
                    }
                    UnreadContent::Withheld => panic!("{what}: nothing is kept"),
                }
                let warned = warnings
                    .lock()
                    .unwrap()
                    .iter()
                    .any(|line| line.contains(&format!("session {session}:")));
                assert!(warned, "{what}: {:?}", warnings.lock().unwrap());
            }
            assert_eq!(archive.verify(None).unwrap(), []);
            assert!(metrics.contains("longhand_foreign_events_total"), "{metrics}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_asks_is_told_with_the_answer_or_with_the_next_one() {
    for path in PATHS {
        let all = classes(path);
        let stage = before(&all, None, |_| {}).await;
        for (at, sent) in all.iter().enumerate() {
            let before = stage.proxy.counts().unread;
            let answer = ask(&stage, path, at, sent).await;
            let notice = answer.headers().get("x-longhand-notice").cloned();
            answer.bytes().await.unwrap();
            // A body that has come whole, or cannot be unpacked, is known before its head is sent on.
            let is_told = notice.is_some() || (sent.unread.is_some() && sent.kind != JSON);
            assert_eq!(is_told, sent.unread.is_some(), "{path} {}: {notice:?}", sent.what);
            let expected = before + u64::from(sent.unread.is_some());
            until("it is counted", || stage.proxy.counts().unread == expected).await;
            let next = ask(&stage, path, at, sent).await;
            let notice = next.headers().get("x-longhand-notice").cloned();
            next.bytes().await.unwrap();
            assert_eq!(notice.is_some(), sent.unread.is_some(), "{path} {}: {notice:?}", sent.what);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_are_taken_out_of_what_cannot_be_read_or_it_is_not_kept() {
    let secret = format!("sk-ant-api03-{}", "a1B2c3D4".repeat(11));
    for path in PATHS {
        let json = |what, coding, body: Vec<u8>| Sent {
            what,
            stream: false,
            kind: JSON,
            coding,
            body,
            words: false,
            unread: None,
        };
        let all = [
            json("text", "", format!("<html>{secret} w9x").into_bytes()),
            json("binary", "br", format!("\u{1}{secret}").into_bytes()),
            json("bytes", "", [secret.as_bytes(), b"\0\xff\0"].concat()),
            Sent {
                kind: EVENTS,
                stream: true,
                ..json(
                    "pieces",
                    "",
                    format!("data: {}\n\ndata: {}\n\n", &secret[..30], &secret[30..]).into_bytes(),
                )
            },
        ];
        let (warn, warnings) = log();
        let stage = before(&all, None, |settings| {
            settings.redactor = Some(Arc::new(Redactor::new([1; 32])));
            settings.warn = Some(warn);
        })
        .await;
        for (at, sent) in all.iter().enumerate() {
            let bytes = ask(&stage, path, at, sent).await.bytes().await.unwrap();
            assert!(bytes == sent.body, "{path} {}", sent.what);
        }
        let archive = Arc::clone(&stage.archive);
        stage.proxy.stop().await;
        for (at, sent) in all.iter().enumerate() {
            let [unread] = &kept(&*archive, &format!("s{at}"))[..] else { panic!("{}", sent.what) };
            match (&unread.content, sent.what) {
                (UnreadContent::Text(text), "text") => {
                    assert!(text.contains("w9x") && !text.contains(&secret[..30]), "{text}");
                }
                (UnreadContent::Withheld, "binary" | "bytes" | "pieces") => {
                    let told = warnings.lock().unwrap().iter().any(|line| {
                        line.contains(&format!("session s{at}:")) && line.contains("not kept")
                    });
                    assert!(told, "{path} {}: {:?}", sent.what, warnings.lock().unwrap());
                }
                other => panic!("{path}: {other:?}"),
            }
        }
    }
}

/// Twenty alternatives for each of 16,000 tokens, in events as a provider sends them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_of_any_length_is_archived_if_its_message_is_not_too_long() {
    let alternative = r#"{"token":" alternative","logprob":-12.3456789,"bytes":[32,97,108,116,101,114,110,97,116,105,118,101]}"#;
    let listed = format!(
        r#"[{{"token":"word ","logprob":-0.1,"bytes":[119],"top_logprobs":[{}]}}]"#,
        vec![alternative; 20].join(",")
    );
    for (path, count) in [(PATHS[0], 16_000), (PATHS[1], 16_000)] {
        let event = match path {
            "/v1/responses" => format!(
                "data: {{\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"word \",\"logprobs\":{listed}}}\n\n"
            ),
            _ => format!(
                "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"word \"}},\"logprobs\":{{\"content\":{listed}}}}}]}}\n\n"
            ),
        };
        let end = match path {
            "/v1/responses" => {
                "data: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"status\":\"completed\",\"output\":[]}}\n\n"
            }
            _ => {
                "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
            }
        };
        let body = format!("{}{end}", event.repeat(count)).into_bytes();
        assert!(body.len() > 33 << 20, "{}", body.len());
        for (coding, pack) in [("", None), ("gzip", Some(gzip as Pack))] {
            let body = pack.map_or_else(|| body.clone(), |pack| pack(&body));
            let sent = Sent {
                what: "long",
                stream: true,
                kind: EVENTS,
                coding,
                body,
                words: true,
                unread: None,
            };
            for require in [false, true] {
                let stage = before(std::slice::from_ref(&sent), Some(60_000), |settings| {
                    settings.require_archive = require;
                })
                .await;
                let bytes = ask(&stage, path, 0, &sent).await.bytes().await.unwrap();
                assert!(bytes == sent.body, "{path} {require}");
                let (archive, counts) = (Arc::clone(&stage.archive), stage.proxy.counts());
                stage.proxy.stop().await;
                let entries = archive.entries(id_of(&*archive, "s0"), 0..u64::MAX).unwrap();
                assert_eq!(entries.len(), 2, "{path} {coding} {require}");
                assert_eq!(entries[1].raw.matches("word ").count(), count, "{path} {coding}");
                assert_eq!(counts.unread, 0, "{path} {coding}");
            }
        }
    }
}

/// A stream with a call of our tool.
fn calling(path: &str) -> String {
    let named =
        |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    let arguments = r#"{"query":"Hm"}"#;
    match path {
        "/v1/messages" => [
            json!({"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": []}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "toolu_1", "name": "longhand_recall", "input": {}}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": arguments}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 7}}),
            json!({"type": "message_stop"}),
        ]
        .iter()
        .map(named)
        .collect(),
        "/v1/responses" => {
            let item = json!({"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "longhand_recall", "arguments": arguments});
            [
                json!({"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": []}}),
                json!({"type": "response.output_item.added", "output_index": 0, "item": item}),
                json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
                json!({"type": "response.completed", "response": {"id": "r", "status": "completed", "output": [item]}}),
            ]
            .iter()
            .map(named)
            .collect()
        }
        _ => {
            let call = json!({"index": 0, "id": "call_1", "type": "function", "function": {"name": "longhand_recall", "arguments": arguments}});
            let chunk = |delta: Value, finish: Value| format!("data: {}\n\n", json!({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}));
            let events = [
                chunk(json!({"role": "assistant", "content": null, "tool_calls": [call]}), json!(null)),
                chunk(json!({}), json!("tool_calls")),
            ];
            events.concat() + "data: [DONE]\n\n"
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_ours_are_answered_in_answers_that_are_not_as_their_format_says() {
    for path in PATHS {
        let (first, second) = (calling(path), stream(path));
        let at = first.find("\n\n").unwrap() + 2;
        let foreign = format!("{}data: [PING]\n\ndata: no json\n\n{}", &first[..at], &first[at..]);
        for (what, coding, first, second) in [
            (
                "foreign events",
                "",
                foreign.clone().into_bytes(),
                with_event(path, b"data: [PING]\n\n"),
            ),
            ("packed", "gzip", gzip(foreign.as_bytes()), gzip(second.as_bytes())),
        ] {
            let of = |body: Vec<u8>| Sent {
                what,
                stream: true,
                kind: EVENTS,
                coding,
                body,
                words: true,
                unread: None,
            };
            let (first, second) = (of(first), of(second));
            let asked = first.clone();
            let upstream = RawServer::start(move |got| {
                let goes_on = String::from_utf8_lossy(&got.body).contains("[longhand recall:");
                on_the_wire(if goes_on { &second } else { &first }, Some(64))
            });
            let stage = Stage::with([], |settings| {
                settings.upstream_openai = Some(upstream.url());
                settings.upstream_anthropic = Some(upstream.url());
                settings.recall_tool = RecallTool::Always;
            })
            .await;
            let answer = ask(&stage, path, 0, &asked).await;
            assert!(answer.headers().get("content-encoding").is_none(), "{path} {what}");
            let text = answer.text().await.unwrap();
            assert!(
                !text.contains("longhand_recall") && text.contains("w2x"),
                "{path} {what}: {text}"
            );
            assert_eq!(upstream.got().len(), 2, "{path} {what}");
            let archived = stage.archived().await;
            assert!(archived[0].1.last().unwrap().contains("w1x two w2x"), "{path} {what}");
        }
    }
}
