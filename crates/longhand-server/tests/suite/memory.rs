//! Memory and time are bounded, for each request and for all of them together.
//!
//! Each measure is made in a process of its own, so that tests beside it do not count.
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use crate::common::{PATHS, Stage, answers, request, says, sqlite, user};
use longhand::Tokens;
use longhand_testkit::scripted::ScriptStep;
use serde_json::Value;
use tempfile::TempDir;

/// Says to a test that it is the process that is measured.
const CHILD: &str = "LONGHAND_MEASURED";

/// Runs a test of this binary in a process of its own, and gives what it printed after `peak`.
fn measured(test: &str) -> Option<u64> {
    if std::env::var_os(CHILD).is_some() {
        return None;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(CHILD, "1");
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}\n{errors}");
    let peak = told.split("peak ").nth(1).and_then(|rest| rest.split_whitespace().next());
    peak.map(|peak| peak.parse().unwrap())
}

/// The most memory that this process has had, in MB.
fn peak_mb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kb| kb / 1024)
}

/// Prints the most memory that was needed beyond what there was before.
fn tell(before: Option<u64>) {
    println!("peak {}", peak_mb().unwrap_or(0) - before.unwrap_or(0));
}

/// A request of so many messages of a letter each.
fn tiny(messages: usize) -> String {
    let list = vec![r#"{"role":"user","content":"a"}"#; messages].join(",");
    format!(r#"{{"model":"m","max_tokens":9,"messages":[{list}]}}"#)
}

/// Posts a body from a plain socket; gives the status.
fn post(address: SocketAddr, body: &str) -> u16 {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        PATHS[2],
        body.len()
    );
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0)
}

/// An upstream that takes anything and keeps nothing.
fn sink() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || swallow(stream));
        }
    });
    format!("http://{address}")
}

fn swallow(mut stream: TcpStream) {
    let (mut head, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    let end = loop {
        let read = stream.read(&mut buffer).unwrap_or(0);
        head.extend_from_slice(&buffer[..read]);
        match head.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            Some(at) => break at + 4,
            None if read == 0 => return,
            None => {}
        }
    };
    let text = String::from_utf8_lossy(&head[..end]).to_lowercase();
    let length = text.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
    let mut left = length.map_or(0, |length| length.parse::<usize>().unwrap());
    left = left.saturating_sub(head.len() - end);
    while left > 0 {
        let read = stream.read(&mut buffer).unwrap_or(0);
        if read == 0 {
            return;
        }
        left = left.saturating_sub(read);
    }
    let body = r#"{"type":"message","role":"assistant","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn"}"#;
    let length = body.len();
    let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\n";
    let _ = stream.write_all(format!("{head}content-length: {length}\r\n\r\n{body}").as_bytes());
}

/// A proxy with its archive on disk, as users have it: what an archive in memory holds is not what is measured.
async fn before_sink() -> (TempDir, Stage) {
    let upstream = sink();
    let (folder, archive) = sqlite();
    let stage = Stage::with([], |settings| {
        settings.upstream_anthropic = Some(upstream);
        settings.budget = Some(Tokens(20_000));
        settings.archive = archive;
    })
    .await;
    (folder, stage)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_requests_of_900_000_messages_take_little_more_than_their_bytes() {
    if let Some(peak) =
        measured("memory::five_requests_of_900_000_messages_take_little_more_than_their_bytes")
    {
        // The bodies are 26 MB each, here and in the client.
        println!("five of 900,000 messages: {peak} MB");
        assert!(peak < 450, "{peak} MB");
        return;
    }
    let (_folder, stage) = before_sink().await;
    let (address, body) = (stage.proxy.address(), std::sync::Arc::new(tiny(900_000)));
    let before = peak_mb();
    let posts = (0..5).map(|_| {
        let body = std::sync::Arc::clone(&body);
        tokio::task::spawn_blocking(move || post(address, &body))
    });
    for status in futures_util::future::join_all(posts).await {
        assert_eq!(status.unwrap(), 200, "it goes on as it is");
    }
    assert_eq!(stage.proxy.counts().bypassed, 5);
    tell(before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_are_worked_on_share_what_memory_there_is() {
    if let Some(peak) = measured("memory::requests_that_are_worked_on_share_what_memory_there_is") {
        println!("twenty of 60,000 messages: {peak} MB");
        assert!(peak < 700, "{peak} MB");
        return;
    }
    let (_folder, stage) = before_sink().await;
    let address = stage.proxy.address();
    let before = peak_mb();
    let posts = (0..20).map(|at| {
        let body = tiny(60_000 + at);
        tokio::task::spawn_blocking(move || post(address, &body))
    });
    for status in futures_util::future::join_all(posts).await {
        assert_eq!(status.unwrap(), 200);
    }
    tell(before);
}

/// A request of so many bytes, most of them blanks, packed to a thousandth of that.
fn packed(bytes: usize) -> Vec<u8> {
    let (head, blanks) = (r#"{"model":"m","max_tokens":9,"messages":["#, " ".repeat(bytes));
    let text = format!(r#"{head}{blanks}{{"role":"user","content":"a"}}]}}"#);
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_unpacks_to_much_takes_no_more_than_there_is() {
    if let Some(peak) = measured("memory::what_unpacks_to_much_takes_no_more_than_there_is") {
        println!("64 packed requests of 60 MB: {peak} MB");
        assert!(peak < 600, "{peak} MB");
        return;
    }
    let (_folder, stage) = before_sink().await;
    let (url, body) = (stage.url(PATHS[2]), packed(60 << 20));
    assert!(body.len() < 80 << 10, "{}", body.len());
    let before = peak_mb();
    let posts = (0..64).map(|_| {
        let call = stage.client.post(url.clone()).header("content-encoding", "gzip");
        let call = call.body(body.clone());
        async move { call.send().await.unwrap().status().as_u16() }
    });
    let mut most = 0;
    let held = async || {
        let metrics = stage.client.get(stage.url("/longhand/metrics")).send().await.unwrap();
        let text = metrics.text().await.unwrap();
        let held =
            text.split("\nlonghand_request_memory_bytes ").nth(1).unwrap().split('\n').next();
        held.unwrap().parse::<u64>().unwrap()
    };
    let mut statuses = std::pin::pin!(futures_util::future::join_all(posts));
    let statuses = loop {
        tokio::select! {
            statuses = &mut statuses => break statuses,
            held = held() => {
                most = most.max(held);
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    };
    assert!(statuses.iter().all(|status| *status == 200), "none is refused: {statuses:?}");
    assert!(most <= 384 << 20, "{most}");
    assert!(stage.proxy.counts().bypassed > 0, "what has no room goes on as it is");
    // Work that is late gives its memory back when it ends.
    for _ in 0..1_000 {
        if held().await < 100 << 20 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let left = held().await;
    assert!(left < 100 << 20, "what was reserved is given back: {left}");
    let call = stage.client.post(url).header("content-encoding", "gzip").body(packed(4 << 20));
    let answer = call.send().await.unwrap();
    assert_ne!(answer.headers()["x-longhand"], "bypassed", "and what has room is looked into");
    tell(before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_stall_hold_no_more_than_is_allowed_and_not_for_long() {
    if let Some(peak) =
        measured("memory::bodies_that_stall_hold_no_more_than_is_allowed_and_not_for_long")
    {
        println!("twelve stalled of 60 MB: {peak} MB");
        assert!(peak < 450, "{peak} MB");
        return;
    }
    let stage = Stage::with(answers(4), |settings| {
        settings.client_silence = Duration::from_secs(4);
    })
    .await;
    let address = stage.proxy.address();
    let before = peak_mb();
    let stall = move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let (piece, pieces) = (vec![b' '; 1 << 20], 60);
        let length = pieces * piece.len();
        let head = format!(
            "POST {} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n",
            PATHS[2]
        );
        let mut sent = stream.write_all(head.as_bytes());
        for _ in 0..pieces - 1 {
            sent = sent.and_then(|()| stream.write_all(&piece));
        }
        // A byte now and then does not keep it, however many there are.
        stream.set_nonblocking(true).unwrap();
        let is_over = (0..480).any(|_| {
            std::thread::sleep(Duration::from_millis(250));
            sent.is_err() || stream.write_all(b" ").is_err() || stream.peek(&mut [0]).is_ok()
        });
        assert!(is_over, "it was kept");
        stream.set_nonblocking(false).unwrap();
        let mut answer = [0; 2048];
        let read = stream.read(&mut answer).unwrap_or(0);
        String::from_utf8_lossy(&answer[..read]).into_owned()
    };
    let stalled: Vec<_> = (0..12).map(|_| tokio::task::spawn_blocking(stall)).collect();
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    // Others are served meanwhile.
    let heads = stage.ask(PATHS[2], &[user("Is anybody there?")]).await;
    assert_eq!((heads.status, heads.get("x-longhand")), (200, "passed"));
    let metrics = stage.client.get(stage.url("/longhand/metrics")).send().await.unwrap();
    let metrics = metrics.text().await.unwrap();
    assert!(metrics.contains("longhand_request_memory_bytes "), "{metrics}");
    let told: Vec<String> =
        futures_util::future::join_all(stalled).await.into_iter().map(Result::unwrap).collect();
    let refused = told.iter().filter(|answer| answer.starts_with("HTTP/1.1 503")).count();
    assert!(refused >= 4, "{told:?}");
    for answer in told.iter().filter(|answer| answer.starts_with("HTTP/1.1 503")) {
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("retry-after: 1"), "{head}");
        let body: Value = serde_json::from_str(body).unwrap();
        assert_eq!(
            (&body["type"], &body["error"]["type"]),
            (&"error".into(), &"overloaded_error".into())
        );
    }
    assert!(
        told.iter().any(|answer| answer.starts_with("HTTP/1.1 408") || answer.is_empty()),
        "{told:?}"
    );
    let heads = stage.ask(PATHS[2], &[user("And now?")]).await;
    assert_eq!(heads.status, 200);
    tell(before);
}

#[tokio::test]
async fn a_stop_waits_no_longer_than_its_grace_for_who_stalls_or_never_ends() {
    let endless = ScriptStep::Drip("word ".repeat(200), Duration::from_secs(20));
    let stage = Stage::with([endless, says("late")], |settings| {
        settings.grace = Duration::from_millis(500);
    })
    .await;
    let archive = std::sync::Arc::clone(&stage.archive);
    let path = PATHS[2];
    let answer = stage.post(path, &request(path, &[user("Hm?")], true)).await;
    assert_eq!(answer.status(), 200);
    let reading = tokio::spawn(answer.text());
    let mut stalled = TcpStream::connect(stage.proxy.address()).unwrap();
    let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{{");
    stalled.write_all(head.as_bytes()).unwrap();
    tokio::time::sleep(Duration::from_millis(400)).await;
    // The stream would go on for hours.
    tokio::time::timeout(Duration::from_mins(1), stage.proxy.stop()).await.unwrap();
    assert!(reading.await.unwrap().is_err(), "the stream was broken off");
    // What came of it is there.
    let sessions = crate::common::sessions(&*archive);
    assert_eq!((sessions.len(), sessions[0].entries), (1, 2));
}

#[tokio::test]
async fn an_answer_without_an_end_is_passed_on_and_not_gathered() {
    let piece = format!("data: {}\n\n", r#"{"choices":[{"index":0,"delta":{"content":"WORDS"}}]}"#)
        .replace("WORDS", &"word ".repeat(50_000));
    let stage = Stage::with(
        [ScriptStep::Raw(
            200,
            vec![("content-type", "text/event-stream".to_owned())],
            piece.repeat(40),
        )],
        |settings| settings.memory_bytes_max = 4 << 20,
    )
    .await;
    let answer = stage.post(PATHS[0], &request(PATHS[0], &[user("Hm?")], true)).await;
    assert_eq!(answer.text().await.unwrap().len(), piece.len() * 40);
    until_released(&stage).await;
}

/// Waits until no request takes memory any more, but for those that are remembered.
async fn until_released(stage: &Stage) {
    for _ in 0..100 {
        let metrics = stage.client.get(stage.url("/longhand/metrics")).send().await.unwrap();
        let metrics = metrics.text().await.unwrap();
        let line = metrics.lines().find(|line| line.starts_with("longhand_request_memory_bytes "));
        let held: f64 = line.unwrap().rsplit(' ').next().unwrap().parse().unwrap();
        if held < 100_000.0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("memory is still held");
}
