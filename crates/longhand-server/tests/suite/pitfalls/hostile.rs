//! Security: hostile input is bounded, and others do not notice it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use longhand::Tokens;

use crate::common::raw::{RawServer, exchange, whole};
use crate::common::{PATHS, Stage, answers, request, user};

/// A stage, and a check that others are still served.
async fn unharmed(stage: &Stage) {
    let heads = stage.ask(PATHS[2], &[user("Is anybody there?")]).await;
    assert_eq!((heads.status, heads.get("x-longhand")), (200, "passed"));
}

#[tokio::test]
async fn p74_any_depth_passes_unread_or_read() {
    let deep = 100_000;
    let (open, close) = ("[".repeat(deep), "]".repeat(deep));
    let objects = format!("{}1{}", r#"{"a":"#.repeat(deep), "}".repeat(deep));
    for path in PATHS {
        let list = if path == PATHS[1] { "input" } else { "messages" };
        let message = r#"{"role":"user","content":"hi"}"#;
        for body in [
            open.clone(),
            format!(r#"{{"model":"m","{list}":[{message}],"metadata":{open}{close}}}"#),
            format!(r#"{{"model":"m","{list}":[{message}],"tools":[{objects}]}}"#),
            format!(r#"{{"model":"m","{list}":[{{"role":"user","content":{open}{close}}}]}}"#),
            format!(
                r#"{{"model":"m","{list}":[{{"role":"user","content":[{{"type":"x","y":{objects}}}]}}]}}"#
            ),
        ] {
            let stage = Stage::new(Some(100), answers(2)).await;
            let answer = stage.post(path, &body).await;
            assert_eq!(answer.status(), 200, "{path} {body:.60}");
            assert_eq!(stage.sent().len(), 1);
            unharmed(&stage).await;
        }
    }
}

#[tokio::test]
async fn p74_a_million_blocks_are_bounded() {
    let blocks = vec![r#"{"type":"text","text":"a"}"#; 1_000_000].join(",");
    let path = PATHS[2];
    let body = format!(
        r#"{{"model":"m","max_tokens":9,"messages":[{{"role":"user","content":[{blocks}]}}]}}"#
    );
    let stage = Stage::with(answers(2), |settings| {
        settings.budget = Some(Tokens(1_000));
        settings.deadline = Duration::from_secs(1);
    })
    .await;
    let asked = stage.post(path, &body);
    let other = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        unharmed(&stage).await;
    };
    let (answer, ()) = tokio::join!(asked, other);
    assert_eq!(answer.status(), 200);
}

#[tokio::test]
async fn p74_no_second_request_is_smuggled() {
    let upstream = RawServer::start(|_| whole("application/json", "{}"));
    let stage = Stage::with([], |settings| {
        settings.upstream_openai = Some(upstream.url());
        settings.budget = Some(Tokens(8_000));
    })
    .await;
    let here = stage.proxy.address();
    let hidden = "GET /v1/hidden HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let long = format!("{:x}\r\n{hidden}\r\n0\r\n\r\n", hidden.len());
    for path in [PATHS[0], "/v1/files"] {
        for (headers, body) in [
            ("content-length: 4\r\ntransfer-encoding: chunked\r\n", long.clone()),
            ("transfer-encoding: chunked\r\ncontent-length: 4\r\n", long.clone()),
            ("content-length: 4\r\ncontent-length: 60\r\n", hidden.to_owned()),
            ("content-length: +4\r\n", hidden.to_owned()),
            ("transfer-encoding: chunked, identity\r\n", long.clone()),
            ("transfer-encoding: xchunked\r\n", long.clone()),
            ("transfer-encoding : chunked\r\n", long.clone()),
        ] {
            let before = upstream.got().len();
            let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
            let answer = exchange(here, format!("{head}{headers}\r\n{body}").into_bytes()).await;
            let got = upstream.got().split_off(before);
            assert!(got.len() <= 1, "{path} {headers}: {got:?}");
            for request in got {
                assert!(
                    request.head.starts_with(&format!("POST {path} ")),
                    "{headers}: {request:?}"
                );
                let heads = request.head.to_lowercase();
                let both = heads.contains("content-length") && heads.contains("transfer-encoding");
                assert!(!both, "{path} {headers}: {heads}");
                // The whole body as its chunks say, not the part that a length says.
                assert_eq!(request.body, hidden.as_bytes(), "{path} {headers}");
            }
            assert!(answer.starts_with("HTTP/1.1 "), "{path} {headers}: {answer}");
        }
    }
}

#[tokio::test]
async fn p74_a_head_is_bounded_in_size_and_time() {
    let stage = Stage::with(answers(4), |settings| {
        settings.client_silence = Duration::from_millis(400);
    })
    .await;
    let here = stage.proxy.address();
    let megabyte = "a".repeat(1 << 20);
    let many: String = (0..5_000).map(|at| format!("x-{at}: 1\r\n")).collect();
    for (headers, target) in [
        (format!("x-long: {megabyte}\r\n"), "/v1/models".to_owned()),
        (many, "/v1/models".to_owned()),
        (String::new(), format!("/{megabyte}")),
    ] {
        let head = format!("GET {target} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
        let answer = exchange(here, head.into_bytes()).await;
        let status = answer.get(9..12).unwrap_or_default();
        assert!(["431", "414", "400", ""].contains(&status), "{answer}");
    }
    // Many that say a letter at a time are sent away.
    let slow = tokio::task::spawn_blocking(move || {
        let streams: Vec<TcpStream> = (0..50)
            .map(|_| {
                let mut stream = TcpStream::connect(here).unwrap();
                stream.write_all(b"GET /v1/models HTTP/1.1\r\nhost: loc").unwrap();
                stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
                stream
            })
            .collect();
        for _ in 0..8 {
            std::thread::sleep(Duration::from_millis(100));
            for mut stream in &streams {
                let _ = stream.write_all(b"x");
            }
        }
        streams.into_iter().all(|mut stream| {
            let mut rest = Vec::new();
            // Closed, with or without a word.
            !matches!(stream.read_to_end(&mut rest), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
        })
    });
    unharmed(&stage).await;
    assert!(slow.await.unwrap(), "a slow client was kept");
    unharmed(&stage).await;
    assert_eq!(stage.sent().len(), 2);
}

#[tokio::test]
async fn p74_handles_and_names_are_no_paths() {
    let stage = Stage::new(Some(8_000), answers(8)).await;
    let here = stage.proxy.address();
    for path in ["/longhand/../../etc/passwd", "/longhand/%2e%2e/%2e%2e/x", "/longhand/h:../../x"] {
        let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let answer = exchange(here, head.into_bytes()).await;
        assert!(!answer.contains("root:"), "{answer}");
    }
    for name in ["../../x", "a/b", "é", "%00", &"n".repeat(5_000)] {
        let body = request(PATHS[0], &[user("Hm?")], false);
        let request = stage.client.post(stage.url(PATHS[0])).header("x-longhand-session", name);
        assert_eq!(request.body(body).send().await.unwrap().status(), 200, "{name:.20}");
    }
    unharmed(&stage).await;
}
