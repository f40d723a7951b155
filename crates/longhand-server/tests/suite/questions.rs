//! Ever new questions after one beginning: one session with thousands of paths, each of which costs the same.
//!
//! `LONGHAND_QUESTIONS` is how many there are; with 20,000 or more, memory is judged as well.
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::client::Client;
use crate::common::{PATHS, assistant, sessions, sqlite, user};
use futures_util::future::join_all;
use longhand::{Archive, Tokens};
use longhand_server::{Proxy, Settings, serve};
use longhand_testkit::faulty::{Fault, Faulty};
use serde_json::{Value, json};

const CONNECTIONS: usize = 8;

/// From so many on, it is a measurement with a process of its own.
const MANY: usize = 20_000;

/// A model server that keeps nothing, and its address.
fn upstream() -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    // It ends with the test.
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let count = Arc::clone(&count);
            thread::spawn(move || serve_one(&stream, &count));
        }
    });
    format!("http://{address}/v1")
}

fn serve_one(stream: &TcpStream, count: &AtomicUsize) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
            let line = line.trim().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let text = format!("Answer {}.", count.fetch_add(1, Ordering::Relaxed));
        let message = assistant(&text);
        let usage = json!({"prompt_tokens": 10, "completion_tokens": 5});
        let choice = json!({"index": 0, "message": message, "finish_reason": "stop"});
        let body = json!({"choices": [choice], "usage": usage}).to_string();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length:";
        write!(writer, "{head} {}\r\n\r\n{body}", body.len()).ok()?;
    }
}

async fn proxy(upstream: &str, archive: &Arc<Faulty>) -> Proxy {
    let mut settings = Settings::new(Arc::clone(archive) as Arc<dyn Archive>);
    settings.listen.set_port(0);
    settings.upstream_openai = Some(upstream.to_owned());
    settings.budget = Some(Tokens(50_000));
    serve(settings).await.unwrap()
}

/// A request with the beginning that all have, and a question.
fn asking(question: usize) -> String {
    let mut messages =
        vec![json!({"role": "system", "content": "Sort what users write. ".repeat(20)})];
    for example in 0..6 {
        messages.push(user(&format!("Example {example}: {}", "so it is written. ".repeat(10))));
        messages.push(assistant(&format!("Kind {example}")));
    }
    messages.push(user(&format!("Question {question}: {}", "what is this? ".repeat(8))));
    json!({"model": "scripted", "messages": messages}).to_string()
}

async fn ask(client: &Client, proxy: &Proxy, question: usize) -> Duration {
    let body = asking(question);
    let url = format!("http://{}{}", proxy.address(), PATHS[0]);
    let begun = Instant::now();
    let answer = client.post(url).body(body).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["x-longhand"], "passed");
    answer.bytes().await.unwrap();
    begun.elapsed()
}

/// What this process has used so far: time of processors in ms, and memory in kB.
fn used() -> (u64, u64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let fields: Vec<u64> =
        after_name.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
    let ticks = fields.get(11).unwrap_or(&0) + fields.get(12).unwrap_or(&0);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let memory = memory.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    (ticks * 10, memory.unwrap_or(0))
}

/// How often something other than a write was asked of an archive.
fn reads(archive: &Faulty) -> usize {
    archive.calls().iter().filter(|call| **call != "write").count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_questions_after_one_beginning_cost_the_same() {
    let count = std::env::var("LONGHAND_QUESTIONS").map_or(2_000, |count| count.parse().unwrap());
    let (upstream, (_folder, disk)) = (upstream(), sqlite());
    let archive = Arc::new(Faulty::new(Arc::clone(&disk), Fault::None));
    let proxy_one = proxy(&upstream, &archive).await;
    let clients: Vec<Client> = (0..CONNECTIONS).map(|_| Client::default()).collect();
    ask(&clients[0], &proxy_one, count).await;
    let mut tenths = Vec::new();
    for tenth in 0..10 {
        let (next, end) = (AtomicUsize::new(count / 10 * tenth), count / 10 * (tenth + 1));
        let (begun, before) = (Instant::now(), used());
        let reads_before = reads(&archive);
        let all = clients.iter().map(async |client| {
            let mut times = Vec::new();
            loop {
                let question = next.fetch_add(1, Ordering::Relaxed);
                if question >= end {
                    return times;
                }
                times.push(ask(client, &proxy_one, question).await);
            }
        });
        let mut times: Vec<Duration> = join_all(all).await.into_iter().flatten().collect();
        times.sort_unstable();
        let after = used();
        let (half, most) = (times[times.len() / 2], times[times.len() * 99 / 100]);
        let processor_us = (after.0 - before.0) * 1_000 / times.len() as u64;
        println!(
            "tenth {tenth}: p50 {half:?} p99 {most:?}, {processor_us} us of processors each, {} a second, RSS {} kB",
            (times.len() as f64 / begun.elapsed().as_secs_f64()) as u64,
            after.1,
        );
        tenths.push((half, processor_us, after.1, reads(&archive) - reads_before));
    }
    // Nothing is read for a question whose session is in memory.
    assert!(tenths.iter().all(|tenth| tenth.3 == 0), "{tenths:?}");
    let (first, last) = (tenths[1], tenths[9]);
    // A cost that grows with the questions before it would be five times as high.
    assert!(last.0 < first.0 * 3 + Duration::from_millis(2), "{tenths:?}");
    if count >= MANY {
        assert!(last.1 < first.1 * 2, "{tenths:?}");
        let bytes = (last.2 - first.2) * 1_024 / (count as u64 / 10 * 8);
        println!("{bytes} bytes of memory for each question");
        assert!(bytes < 2_048, "{bytes} bytes of memory for each question");
    }
    proxy_one.stop().await;
    let archive = Arc::new(Faulty::new(Arc::clone(&disk), Fault::None));
    let (begun, proxy_two) = (Instant::now(), proxy(&upstream, &archive).await);
    let started = begun.elapsed();
    let first = ask(&clients[0], &proxy_two, count + 1).await;
    let calls = archive.calls();
    let second = ask(&clients[0], &proxy_two, count + 2).await;
    println!(
        "after a restart (start {started:?}): first request {first:?}, second {second:?}; {calls:?}"
    );
    assert!(calls.len() < 16, "{calls:?}");
    proxy_two.stop().await;
    let all = sessions(&*disk);
    let counted: Vec<u64> = all.iter().map(|session| session.entries).collect();
    assert_eq!(counted, [12 + 2 * (count as u64 + 3)], "each message is there once");
    if count < MANY {
        assert_once(&*disk, all[0].id, count + 3);
    }
}

/// Whether every question is there once, on a path of its own after the beginning.
fn assert_once(disk: &dyn Archive, session: longhand::SessionId, count: usize) {
    let entries = disk.entries(session, 0..u64::MAX).unwrap();
    let mut asked = vec![0; count];
    for entry in &entries {
        let message: Value = serde_json::from_str(&entry.raw).unwrap();
        let words = message["content"].as_str().unwrap();
        if let Some(question) = words.strip_prefix("Question ") {
            assert_eq!(entry.parent.map(|parent| parent.0), Some(11), "{words}");
            let number: usize = question.split(':').next().unwrap().parse().unwrap();
            asked[number] += 1;
        }
    }
    assert!(asked.iter().all(|times| *times == 1), "{asked:?}");
    assert_eq!(disk.verify(Some(session)).unwrap(), []);
}
