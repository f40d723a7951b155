//! Answers that break off: what came of them is passed on, and no more is held back than must be.
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::common::raw::{Piece, RawServer, exchange};
use crate::common::{PATHS, Stage, request, user};
use longhand_dialect::{Reply, SseReader};
use longhand_server::{RecallTool, Settings};
use longhand_testkit::scripted::ScriptStep;

/// The bytes of an answer as a provider sends it.
async fn answer_of(path: &str, stream: bool) -> String {
    let stage = Stage::new(None, [ScriptStep::Answer("One two three four.".into())]).await;
    stage.post(path, &request(path, &[user("Hm?")], stream)).await.text().await.unwrap()
}

fn head(stream: bool, length: usize) -> String {
    let kind = if stream { "text/event-stream" } else { "application/json" };
    let length = if stream { String::new() } else { format!("content-length: {length}\r\n") };
    format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: {kind}\r\n{length}\r\n")
}

/// A stage before an upstream that sends these pieces.
async fn before(pieces: Vec<Piece>, require: bool) -> Stage {
    before_with(pieces, |settings| settings.require_archive = require).await
}

async fn before_with(pieces: Vec<Piece>, set: impl FnOnce(&mut Settings)) -> Stage {
    let upstream = RawServer::start(move |_| pieces.clone());
    Stage::with([], |settings| {
        settings.upstream_openai = Some(upstream.url());
        settings.upstream_anthropic = Some(upstream.url());
        set(settings);
    })
    .await
}

fn post(path: &str, stream: bool) -> Vec<u8> {
    let body = request(path, &[user("Hm?")], stream);
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}")
        .into_bytes()
}

/// The body of an answer as it was received, its chunks joined.
fn body(answer: &str) -> String {
    let Some((head, body)) = answer.split_once("\r\n\r\n") else { return String::new() };
    if !head.to_lowercase().contains("transfer-encoding: chunked") {
        return body.to_owned();
    }
    let (mut rest, mut joined) = (body, String::new());
    while let Some((size, after)) = rest.split_once("\r\n")
        && let Ok(size) = usize::from_str_radix(size, 16)
        && size > 0
    {
        joined.push_str(&after[..size.min(after.len())]);
        rest = after.get(size + 2..).unwrap_or_default();
    }
    joined
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_came_of_an_answer_arrives() {
    // How many cuts are made in each answer; more than it has bytes are one at every byte.
    let most = std::env::var("LONGHAND_CUTS").map_or(8, |most| most.parse::<usize>().unwrap());
    let mut made = 0;
    for path in PATHS {
        for stream in [false, true] {
            let whole = answer_of(path, stream).await;
            for (require, recalls) in [(false, false), (true, false), (false, true)] {
                let count = most.min(whole.len());
                for cut in (0..count).map(|part| whole.len() * part / count) {
                    made += 1;
                    let sent = format!("{}{}", head(stream, whole.len()), &whole[..cut]);
                    // A stream without a length ends as a chunk that never came.
                    let sent = if stream {
                        let head = head(true, 0)
                            .replace("\r\n\r\n", "\r\ntransfer-encoding: chunked\r\n\r\n");
                        format!("{head}{:x}\r\n{}", whole.len(), &whole[..cut])
                    } else {
                        sent
                    };
                    let pieces = vec![(sent.into_bytes(), Duration::ZERO)];
                    let stage = before_with(pieces, |settings| {
                        settings.require_archive = require;
                        settings.recall_tool =
                            if recalls { RecallTool::Always } else { RecallTool::Never };
                    })
                    .await;
                    let got = exchange(stage.proxy.address(), post(path, stream)).await;
                    let what = format!("{path} {stream} {require} {recalls} at {cut}: {got}");
                    assert!(got.starts_with("HTTP/1.1 200"), "{what}");
                    assert_eq!(body(&got), whole[..cut], "{what}");
                    assert!(!got.ends_with("0\r\n\r\n"), "{what}");
                }
            }
        }
    }
    println!(
        "cut answers: {made} on three wires, whole and streamed, with --require-archive, with --expand-tool, with neither"
    );
}

/// Reads until a text has come.
fn until(stream: &mut TcpStream, text: &str) {
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    while !String::from_utf8_lossy(&seen).contains(text) {
        let read = stream.read(&mut buffer).unwrap();
        assert!(read > 0, "{}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&buffer[..read]);
    }
}

fn connect(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(bytes).unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_word_waits_for_the_next_one_and_the_end_not_for_the_connection() {
    // Longer than the client waits for anything.
    let long = Duration::from_mins(10);
    for path in PATHS {
        let whole = answer_of(path, true).await;
        let events = SseReader::default().push(whole.as_bytes()).unwrap();
        let said = events.iter().position(|event| event.data.contains("One")).unwrap();
        let middle = whole.find(&events[said + 1].data).unwrap();
        let middle = whole[..middle].rfind("\n\n").unwrap() + 2;
        for (sent, awaited) in
            [(&whole[..middle], "One"), (&whole[..], &events.last().unwrap().data)]
        {
            let sent = format!("{}{sent}", head(true, 0)).into_bytes();
            let stage = before(vec![(sent, long)], true).await;
            let (address, asked) = (stage.proxy.address(), post(path, true));
            let awaited = awaited.to_owned();
            let read = move || until(&mut connect(address, &asked), &awaited);
            tokio::task::spawn_blocking(read).await.unwrap();
        }
    }
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_is_not_broken_off_where_all_must_be_archived() {
    for path in PATHS {
        for require in [false, true] {
            let stage =
                Stage::with([ScriptStep::Garbage], |settings| settings.require_archive = require)
                    .await;
            let answer = stage.post(path, &request(path, &[user("Hm?")], false)).await;
            assert!(answer.text().await.is_ok(), "{path} {require}");
            assert_eq!(stage.proxy.counts().unread, 1, "{path} {require}");
        }
        let whole = answer_of(path, false).await;
        assert!(Reply::read(crate::common::dialect(path), &whole).is_ok());
    }
}

#[tokio::test]
async fn where_all_must_be_archived_no_path_and_no_answer_is_an_exception() {
    for (path, forms) in [
        (
            PATHS[0],
            vec![
                "/v1/chat/completions/",
                "/v1//chat/completions",
                "/v1/%63hat%2fcompletions",
                "/V1/Chat/Completions",
            ],
        ),
        (PATHS[1], vec!["/v1/responses/", "/v1/%72esponses", "//v1/Responses"]),
        (PATHS[2], vec!["/v1/messages/", "/v1%2Fmessages", "/v1/message%73/"]),
    ] {
        for form in forms {
            let stage = Stage::with([ScriptStep::Answer("Here.".into())], |settings| {
                settings.require_archive = true;
            })
            .await;
            let body = request(path, &[user("Hm?")], false);
            let answer = stage.post(form, &body).await;
            let session = answer.headers().get("x-longhand-session").cloned();
            assert!(session.is_some(), "{form}: {:?}", answer.headers());
            // The scripted server may not know the path; what it says is not archived as a message.
            let _ = answer.text().await;
            let archived = stage.archived().await;
            assert_eq!(archived.len(), 1, "{form}");
            assert!(archived[0].1[0].contains("Hm?"), "{form}");
        }
        // A refusal of the model is an answer, too.
        let stage = Stage::with([ScriptStep::Refuse("I must not.".into())], |settings| {
            settings.require_archive = true;
        })
        .await;
        stage.post(path, &request(path, &[user("Hm?")], false)).await.text().await.unwrap();
        let archived = stage.archived().await;
        assert_eq!(archived[0].1.len(), 2, "{path}");
        assert!(archived[0].1[1].contains("I must not."), "{path}");
        // What cannot be unpacked is kept as it came.
        let kind = vec![
            ("content-type", "application/json".to_owned()),
            ("content-encoding", "gzip".to_owned()),
        ];
        let stage =
            Stage::with([ScriptStep::Raw(200, kind, "\u{1f}packed".to_owned())], |settings| {
                settings.require_archive = true;
            })
            .await;
        let answer = stage.post(path, &request(path, &[user("Hm?")], false)).await;
        assert!(answer.text().await.is_ok(), "{path}");
        assert_eq!(stage.proxy.counts().unread, 1, "{path}");
    }
}

/// A provider may give up in the middle of an answer: an error is the last that comes.
#[tokio::test]
async fn an_error_in_the_middle_of_an_answer_arrives_and_what_came_before_is_kept() {
    let error = |path: &str| match path {
        "/v1/messages" => concat!(
            "event: error\n",
            r#"data: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            "\n\n"
        ),
        "/v1/responses" => concat!(
            "event: error\n",
            r#"data: {"type":"error","code":"server_error","message":"Overloaded","param":null}"#,
            "\n\n"
        ),
        _ => "data: {\"error\":{\"code\":502,\"message\":\"Overloaded\"}}\n\n",
    };
    for path in PATHS {
        let whole = answer_of(path, true).await;
        // After the first words, and before them.
        let middle = whole.find("three").unwrap();
        let middle = whole[..middle].rfind("\n\n").unwrap() + 2;
        for (came, said) in [(&whole[..middle], true), ("", false)] {
            for require in [false, true] {
                let sent = format!("{came}{}", error(path));
                let piece = format!("{}{sent}", head(true, 0)).into_bytes();
                let stage = before(vec![(piece, Duration::ZERO)], require).await;
                let answer = stage.post(path, &request(path, &[user("Hm?")], true)).await;
                let what = format!("{path} {said} {require}");
                assert_eq!(answer.text().await.unwrap(), sent, "{what}");
                let archived = stage.archived().await;
                assert_eq!(archived[0].1.len(), 1 + usize::from(said), "{what}: {archived:?}");
                if said {
                    assert!(archived[0].1[1].contains("One"), "{what}: {archived:?}");
                }
            }
        }
        // An error in the place of an answer is no answer, and arrives.
        for (require, stream) in [(false, false), (false, true), (true, false), (true, true)] {
            let stage = Stage::with([ScriptStep::ErrorBody("Overloaded".to_owned())], |settings| {
                settings.require_archive = require;
            })
            .await;
            let answer = stage.post(path, &request(path, &[user("Hm?")], stream)).await;
            let told = answer.text().await.unwrap();
            assert!(told.contains("Overloaded"), "{path} {require} {stream}: {told}");
            assert_eq!(stage.archived().await[0].1.len(), 1, "{path} {require} {stream}");
        }
    }
}
