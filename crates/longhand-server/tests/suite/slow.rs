//! An archive that takes its time holds up nobody: no thread waits for it, and no session for another one's calls.
//!
//! `LONGHAND_SLOW_MS` is the longest that a call of the archive takes in the test that measures; 5,000 is the
//! intended extreme, and takes minutes.
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::common::client::Client;
use crate::common::{PATHS, id_of, sessions, sqlite, told, until, user, words};
use futures_util::future::join_all;
use longhand::{Archive, MemoryArchive, Tokens};
use longhand_server::{Proxy, Settings, serve};
use longhand_testkit::faulty::{Fault, Faulty, METHODS};
use longhand_testkit::scripted::{ScriptStep, ScriptedServer};
use serde_json::{Value, json};

/// A request that takes longer than this hangs.
const PATIENCE: Duration = Duration::from_mins(10);

/// Answers every request with words of its own, and with an id where there are some.
fn upstream() -> ScriptedServer {
    let count = AtomicUsize::new(0);
    ScriptedServer::playing(100_000, move |request| {
        let number = count.fetch_add(1, Ordering::Relaxed);
        let text = format!("Answer {number}.");
        if request.path != PATHS[1] {
            return Some(ScriptStep::Answer(text));
        }
        let content = json!([{"type": "output_text", "text": text, "annotations": []}]);
        let body = json!({
            "id": format!("resp_{number}"), "object": "response", "status": "completed",
            "model": "scripted", "usage": {"input_tokens": 10, "output_tokens": 5},
            "output": [{"type": "message", "role": "assistant", "content": content}],
        });
        let kind = vec![("content-type", "application/json".to_owned())];
        Some(ScriptStep::Raw(200, kind, body.to_string()))
    })
}

async fn proxy(upstream: &ScriptedServer, archive: &Arc<Faulty>) -> Proxy {
    let mut settings = Settings::new(Arc::clone(archive) as Arc<dyn Archive>);
    settings.listen.set_port(0);
    settings.upstream_openai = Some(upstream.url());
    settings.budget = Some(Tokens(1_500));
    // What is slow does not fail here.
    settings.deadline = PATIENCE;
    settings.archive_silence = PATIENCE;
    settings.archive_farewell = Duration::from_mins(1);
    serve(settings).await.unwrap()
}

/// A conversation of a client, in either of two formats.
struct Talk {
    session: String,
    path: &'static str,
    /// Whether the provider holds what was said, so that only what is new is sent.
    is_held: bool,
    said: Vec<Value>,
    /// The id of the newest answer.
    answer: Value,
    client: Client,
}

impl Talk {
    fn new(at: usize) -> Self {
        let is_held = at % 4 == 3;
        Self {
            session: format!("slow {at:02}"),
            path: if is_held { PATHS[1] } else { PATHS[0] },
            is_held,
            said: Vec::new(),
            answer: Value::Null,
            client: Client::default(),
        }
    }

    /// Says something and hears the answer; gives what was made of it.
    async fn say(&mut self, proxy: &Proxy, words: &str) -> String {
        self.said.push(user(words));
        let body = match (self.is_held, &self.answer) {
            (true, Value::Null) => json!({"model": "scripted", "input": self.said}),
            (true, id) => {
                json!({"model": "scripted", "previous_response_id": id, "input": [user(words)]})
            }
            _ => json!({"model": "scripted", "messages": self.said}),
        };
        let url = format!("http://{}{}", proxy.address(), self.path);
        let asked = self.client.post(url).header("x-longhand-session", &self.session);
        let answer = asked.timeout(PATIENCE).body(body.to_string()).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{}", self.session);
        let outcome = answer.headers()["x-longhand"].to_str().unwrap().to_owned();
        let body: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
        self.answer = body["id"].clone();
        let message = match self.path {
            "/v1/responses" => &body["output"][0],
            _ => &body["choices"][0]["message"],
        };
        self.said.push(message.clone());
        outcome
    }
}

/// What is said in a turn: so much that the budget is soon used up, but for every second conversation.
fn turn(at: usize, turn: usize) -> String {
    let length = if at % 2 == 1 { 60 } else { 3 };
    format!("Turn {turn} of {at}: {}", "what is to be made of this and of that? ".repeat(length))
}

/// Whether an archive has all that was said, each once and in its order.
fn assert_once(archive: &dyn Archive, talks: &[Talk]) {
    for talk in talks {
        let said: Vec<String> = talk.said.iter().map(Value::to_string).collect();
        let there = words(talk.path, &told(archive, &talk.session));
        assert_eq!(there, words(talk.path, &said), "{}", talk.session);
        let entries = archive.entries(id_of(archive, &talk.session), 0..u64::MAX).unwrap();
        assert_eq!(entries.len(), talk.said.len(), "{}: something is there twice", talk.session);
    }
    assert_eq!(sessions(archive).len(), talks.len());
    assert_eq!(archive.verify(None).unwrap(), []);
}

/// Asks a proxy whether it is well, on a connection of its own, again and again; measures each answer.
struct Probe {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Duration>>,
}

impl Probe {
    fn start(address: SocketAddr, pause: Duration) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_nodelay(true).unwrap();
            stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
            let mut times = Vec::new();
            while !ended.load(Ordering::Relaxed) {
                let begun = Instant::now();
                health(&mut stream);
                times.push(begun.elapsed());
                thread::sleep(pause);
            }
            times
        });
        Self { is_over, thread }
    }

    fn times(self) -> Vec<Duration> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// Asks once.
fn health(stream: &mut TcpStream) {
    stream.write_all(b"GET /longhand/health HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let (mut read, mut buffer) = (Vec::new(), [0; 1_024]);
    while !read.windows(15).any(|part| part == br#"{"status":"ok"}"#) {
        let count = stream.read(&mut buffer).unwrap();
        assert!(count > 0, "the connection was closed: {}", String::from_utf8_lossy(&read));
        read.extend_from_slice(&buffer[..count]);
    }
}

/// One of many times, by how many percent are shorter.
fn percentile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    times[(times.len() - 1) * percent / 100]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_slow_archive_holds_up_nobody_and_costs_no_word() {
    let most = std::env::var("LONGHAND_SLOW_MS").map_or(100, |most| most.parse().unwrap());
    let most = Duration::from_millis(most);
    let (upstream, (_folder, disk)) = (upstream(), sqlite());
    let mut talks: Vec<Talk> = (0..16).map(Talk::new).collect();
    let (mut probed, mut asked) = (Vec::new(), Vec::new());
    let mut outcomes = Vec::new();
    // The second proxy begins with nothing in memory.
    for turns in [0..4, 4..7] {
        let archive = Arc::new(Faulty::new(Arc::clone(&disk), Fault::SlowCalls(most)));
        let proxy = proxy(&upstream, &archive).await;
        let probe = Probe::start(proxy.address(), Duration::from_millis(50));
        let all = talks.into_iter().enumerate().map(async |(at, mut talk)| {
            let mut heard = Vec::new();
            for number in turns.clone() {
                let begun = Instant::now();
                let outcome = talk.say(&proxy, &turn(at, number)).await;
                heard.push((outcome, begun.elapsed()));
            }
            (talk, heard)
        });
        let all = join_all(all).await;
        probed.extend(probe.times());
        let missing = proxy.missing();
        proxy.stop().await;
        assert_eq!(missing(), []);
        talks = Vec::new();
        for (talk, heard) in all {
            talks.push(talk);
            for (outcome, time) in heard {
                outcomes.push(outcome);
                asked.push(time);
            }
        }
    }
    assert_once(&*disk, &talks);
    let count = |of: &str| outcomes.iter().filter(|outcome| *outcome == of).count();
    assert_eq!(count("bypassed"), 0);
    assert!(count("compacted") > 10 && count("passed") > 10, "{outcomes:?}");
    let [half, most_of, longest] = [50, 99, 100].map(|percent| percentile(&mut probed, percent));
    println!(
        "calls up to {most:?}, {} health probes: p50 {half:?} p99 {most_of:?} max {longest:?}",
        probed.len()
    );
    let [half_asked, longest] = [50, 100].map(|percent| percentile(&mut asked, percent));
    println!(
        "{} requests: p50 {half_asked:?} max {longest:?}; {} compacted",
        asked.len(),
        count("compacted")
    );
    // Were a thread to wait for the archive, every second probe would wait with it.
    assert!(half < Duration::from_millis(25), "half of the probes took longer than {half:?}");
}

/// Every method that a proxy calls, but for writes: they are made on a thread of their own.
fn methods() -> Vec<&'static str> {
    let more = ["list_sessions", "get"];
    METHODS.into_iter().chain(more).filter(|method| *method != "write").collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn no_thread_of_the_runtime_waits_for_the_archive() {
    let mut reached = Vec::new();
    for method in ["write", "put"].into_iter().chain(methods()) {
        let upstream = upstream();
        let disk: Arc<dyn Archive> = Arc::new(MemoryArchive::default());
        // What a proxy of before has left.
        let before = Arc::new(Faulty::new(Arc::clone(&disk), Fault::None));
        let first = proxy(&upstream, &before).await;
        let mut talks: Vec<Talk> = (0..4).map(Talk::new).collect();
        for (at, talk) in talks.iter_mut().enumerate() {
            for number in 0..4 {
                talk.say(&first, &turn(at, number)).await;
            }
        }
        first.stop().await;
        let archive = Arc::new(Faulty::new(Arc::clone(&disk), Fault::None));
        archive.rule(method, None, Fault::Held);
        let second = Arc::new(proxy(&upstream, &archive).await);
        let asked: Vec<_> = talks
            .into_iter()
            .enumerate()
            .map(|(at, mut talk)| {
                let proxy = Arc::clone(&second);
                tokio::spawn(async move {
                    talk.say(&proxy, &turn(at, 4)).await;
                    talk
                })
            })
            .collect();
        let is_held = || archive.calls().contains(&method);
        let is_done = || asked.iter().all(tokio::task::JoinHandle::is_finished);
        until("it is held, or is never called", || is_held() || is_done()).await;
        if is_held() {
            reached.push(method);
            let address = second.address();
            let probe = move || health(&mut TcpStream::connect(address).unwrap());
            tokio::task::spawn_blocking(probe).await.unwrap();
        }
        archive.release();
        let talks = join_all(asked).await.into_iter().map(Result::unwrap).collect::<Vec<_>>();
        Arc::into_inner(second).unwrap().stop().await;
        assert_once(&*disk, &talks);
    }
    for method in ["write", "open", "nodes", "read_batches", "list_requests", "list_sessions"] {
        assert!(reached.contains(&method), "{method} was never called: {reached:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_session_waits_for_its_own_calls_only() {
    let (upstream, (_folder, disk)) = (upstream(), sqlite());
    let before = Arc::new(Faulty::new(Arc::clone(&disk), Fault::None));
    let first = proxy(&upstream, &before).await;
    let mut talks: Vec<Talk> = (0..16).map(Talk::new).collect();
    for (at, talk) in talks.iter_mut().enumerate() {
        for number in 0..3 {
            talk.say(&first, &turn(at, number)).await;
        }
    }
    first.stop().await;
    let archive = Arc::new(Faulty::new(Arc::clone(&disk), Fault::None));
    // Whatever is asked of these sessions takes until the others are done.
    let (ours, theirs): (Vec<usize>, Vec<usize>) = (0..16).partition(|at| *at >= 14);
    for at in &theirs {
        for method in ["open", "nodes", "bodies", "read_batches"] {
            archive.rule(method, Some(id_of(&*disk, &talks[*at].session)), Fault::Held);
        }
    }
    let second = Arc::new(proxy(&upstream, &archive).await);
    let going_on = |(mut talk, at): (Talk, usize), turns: std::ops::Range<usize>| {
        let proxy = Arc::clone(&second);
        tokio::spawn(async move {
            for number in turns {
                talk.say(&proxy, &turn(at, number)).await;
            }
            talk
        })
    };
    let free = talks.split_off(theirs.len());
    let slow: Vec<_> = talks.into_iter().zip(theirs).map(|talk| going_on(talk, 3..4)).collect();
    let are_held = || archive.calls().iter().filter(|call| **call == "open").count() >= slow.len();
    until("they are held", are_held).await;
    let fast = free.into_iter().zip(ours).map(|talk| going_on(talk, 3..6));
    let free = join_all(fast).await;
    assert!(!slow.iter().any(tokio::task::JoinHandle::is_finished), "they are still held");
    archive.release();
    let held = join_all(slow).await;
    Arc::into_inner(second).unwrap().stop().await;
    let talks = held.into_iter().chain(free).map(Result::unwrap).collect::<Vec<_>>();
    assert_once(&*disk, &talks);
}
