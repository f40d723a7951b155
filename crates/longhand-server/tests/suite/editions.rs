//! Two proxies on one archive, forks, commands, outages and clients that go away: every word is archived once, and no
//! window shows what belongs to another path.
//!
//! `LONGHAND_SEEDS` is how many histories are played, `LONGHAND_SEED_FIRST` the first of them.
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::client::Client;
use crate::common::{
    PATHS, Stage, assistant, faults, id_of, messages, reopened, request, sessions, sqlite, until,
    user,
};
use futures_util::future::join_all;
use longhand::{Archive, MemoryArchive, Tokens};
use longhand_core::Seq;
use longhand_server::{Proxy, Settings, serve};
use longhand_testkit::faulty::{Fault, Faulty};
use longhand_testkit::rng::Rng;
use longhand_testkit::scripted::{ScriptStep, ScriptedServer};
use serde_json::Value;

const SESSION: &str = "shared";

/// Another conversation that begins like [`messages`].
fn otherwise(path: &str, steps: usize, common: usize) -> Vec<Value> {
    let all = messages(path, steps);
    let mut mine = all[..=2 * common].to_vec();
    mine.extend(all[1 + 2 * common..].iter().map(|message| {
        let text = message.to_string().replace("file_", "other_").replace("call_", "another_");
        serde_json::from_str(&text).unwrap()
    }));
    mine
}

async fn ask_in(stage: &Stage, path: &str, messages: &[Value]) -> String {
    let asked = stage.client.post(stage.url(path)).header("x-longhand-session", SESSION);
    let answer = asked.body(request(path, messages, false)).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let outcome = answer.headers()["x-longhand"].to_str().unwrap().to_owned();
    answer.text().await.unwrap();
    outcome
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_window_never_shows_the_edits_of_another_path() {
    let path = PATHS[0];
    let (folder, disk) = sqlite();
    let archive = Arc::new(Faulty::new(Arc::clone(&disk), Fault::None));
    let proxy_archive = Arc::clone(&archive);
    let configure = |settings: &mut Settings| {
        settings.budget = Some(Tokens(4_000));
        settings.deadline = Duration::from_mins(1);
    };
    let steps = || vec![ScriptStep::Answer("Here.".to_owned()); 40];
    let ours = Stage::with(steps(), |settings| {
        configure(settings);
        settings.archive = proxy_archive;
    });
    let ours = Arc::new(ours.await);
    // Both have a window with edits.
    assert_eq!(ask_in(&ours, path, &messages(path, 14)).await, "compacted");
    until("all is archived", || (ours.proxy.missing())().is_empty()).await;
    let id = id_of(&*disk, SESSION);
    let before = disk.entries(id, 0..u64::MAX).unwrap().len();
    archive.rule("write", Some(id), Fault::Error);
    archive.rule("open", Some(id), Fault::Held);
    let count = |of: &str| archive.calls().iter().filter(|call| **call == of).count();
    let opened = count("open");
    let held = Arc::clone(&ours);
    // It has its place, and what is said of it is looked up.
    let asked = tokio::spawn(async move { ask_in(&held, path, &messages(path, 24)).await });
    until("it looks", || count("open") > opened).await;
    // Meanwhile another proxy says something else there, and edits that.
    let other = reopened(&folder);
    let theirs = Stage::with(steps(), |settings| {
        configure(settings);
        settings.archive = other;
    });
    let theirs = theirs.await;
    for steps in [22, 23, 24, 25, 28] {
        ask_in(&theirs, path, &otherwise(path, steps, 14)).await;
    }
    theirs.proxy.stop().await;
    assert!(disk.entries(id, 0..u64::MAX).unwrap().len() > before + 26);
    archive.rule("write", Some(id), Fault::None);
    archive.release();
    assert_eq!(asked.await.unwrap(), "compacted");
    let sent = ours.sent().pop().unwrap();
    let wrong = faults(path, &sent);
    assert!(wrong.is_empty(), "edits of another path are in the window: {wrong:?}");
    assert!(!sent.contains("other_"), "the other path is in the window:\n{sent}");
    assert!(sent.contains("line 23 of src/file_23.rs"), "its newest words are not:\n{sent}");
    let ours = Arc::into_inner(ours).unwrap();
    ours.proxy.stop().await;
    assert_eq!(disk.verify(None).unwrap(), []);
    let raws: Vec<String> =
        disk.entries(id, 0..u64::MAX).unwrap().into_iter().map(|entry| entry.raw).collect();
    for step in 0..24 {
        let result = format!("line {step} of src/file_{step}.rs");
        assert_eq!(raws.iter().filter(|raw| raw.contains(&result)).count(), 1, "{result}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_for_a_later_write_does_not_keep_it_from_being_made() {
    let path = PATHS[0];
    let (folder, disk) = sqlite();
    let archive = Arc::new(Faulty::new(Arc::clone(&disk), Fault::None));
    let own = Arc::clone(&archive);
    let stage = Stage::with(vec![ScriptStep::Answer("Here.".to_owned()); 40], |settings| {
        settings.budget = Some(Tokens(2_000));
        settings.archive = own;
    })
    .await;
    let asking = |words: &str| {
        let mut messages = messages(path, 10);
        messages.push(user(words));
        messages
    };
    assert_eq!(ask_in(&stage, path, &asking("What now?")).await, "compacted");
    until("all is archived", || (stage.proxy.missing())().is_empty()).await;
    archive.set(Fault::ReadOnly);
    for at in 0..10 {
        ask_in(&stage, path, &asking(&format!("Question {at}"))).await;
    }
    // Another process says something there: the next request has the first of the new numbers.
    let id = id_of(&*disk, SESSION);
    let entry =
        longhand::driver::new_entry("chat", r#"{"role":"user","content":"x"}"#.into(), true, 0);
    let other = reopened(&folder);
    other.append(id, longhand_archive::After::Newest, &[entry.unwrap()]).unwrap();
    ask_in(&stage, path, &asking("Question 10")).await;
    archive.set(Fault::None);
    until("all is archived", || (stage.proxy.missing())().is_empty()).await;
    stage.proxy.stop().await;
    let entries = disk.entries(id, 0..u64::MAX).unwrap();
    for at in 0..=10 {
        let question = format!("Question {at}\"");
        assert_eq!(entries.iter().filter(|entry| entry.raw.contains(&question)).count(), 1);
    }
    assert_eq!(disk.verify(None).unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_removed_while_it_is_read_begins_anew() {
    let path = PATHS[0];
    let memory: Arc<dyn Archive> = Arc::new(MemoryArchive::default());
    let (_folder, disk) = sqlite();
    for disk in [memory, disk] {
        let stage = async |archive: Arc<dyn Archive>| {
            let steps = vec![ScriptStep::Answer("Here.".to_owned()); 4];
            Stage::with(steps, |settings| settings.archive = archive).await
        };
        let first = stage(Arc::clone(&disk)).await;
        ask_in(&first, path, &messages(path, 10)).await;
        first.proxy.stop().await;
        let id = id_of(&*disk, SESSION);
        let archive = Arc::new(Faulty::new(Arc::clone(&disk), Fault::None));
        archive.rule("nodes", Some(id), Fault::Held);
        let second = Arc::new(stage(Arc::clone(&archive) as Arc<dyn Archive>).await);
        let asking = Arc::clone(&second);
        let asked = tokio::spawn(async move { ask_in(&asking, path, &messages(path, 11)).await });
        until("it is read", || archive.calls().contains(&"nodes")).await;
        assert!(disk.remove(id).unwrap());
        archive.release();
        assert_eq!(asked.await.unwrap(), "passed");
        Arc::into_inner(second).unwrap().proxy.stop().await;
        assert_eq!(disk.entries(id, 0..u64::MAX).unwrap().len(), 1 + 2 * 11 + 1);
    }
}

/// One client of a session; several begin alike.
struct Branch {
    session: String,
    said: Vec<Value>,
    client: Client,
    rng: Rng,
    name: String,
    /// How many requests were given up before they were answered.
    cancelled: usize,
    /// Whether the newest answer was passed on unread: it is archived with the next request.
    is_bypassed: bool,
}

impl Branch {
    /// Says something; `None` if it did not wait for the answer.
    async fn ask(&mut self, proxy: &Proxy, patience: Option<Duration>) -> Option<u16> {
        let url = format!("http://{}{}", proxy.address(), PATHS[0]);
        let asked = self.client.post(url).header("x-longhand-session", &self.session);
        let asked = asked.body(request(PATHS[0], &self.said, false)).send();
        let answer = match patience {
            Some(time) => tokio::time::timeout(time, asked).await.ok()?,
            None => asked.await,
        };
        let answer = answer.unwrap();
        let status = answer.status().as_u16();
        let outcome = answer.headers().get("x-longhand");
        self.is_bypassed = outcome.is_some_and(|outcome| outcome == "bypassed");
        let text = answer.text().await.unwrap();
        if status == 200 {
            let body: Value = serde_json::from_str(&text).unwrap();
            let words = body["choices"][0]["message"]["content"].as_str().unwrap();
            self.said.push(assistant(words));
        }
        Some(status)
    }

    /// Asks until there is an answer.
    async fn say(&mut self, proxies: &[Proxy], turn: usize) {
        let length = *self.rng.choose(&[1, 5, 40]);
        let words = format!("{} turn {turn}: {}", self.name, "and what of this? ".repeat(length));
        self.said.push(user(&words));
        loop {
            let proxy = &proxies[self.rng.range(0..proxies.len())];
            let hurries = self.rng.chance(0.15);
            let patience = Duration::from_millis(self.rng.range(1..40) as u64);
            match self.ask(proxy, hurries.then_some(patience)).await {
                Some(200) => return,
                Some(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                None => self.cancelled += 1,
            }
        }
    }
}

/// What happens to the archives while clients talk.
fn meddle(
    mut rng: Rng,
    archives: Vec<Arc<Faulty>>,
    disk: Arc<dyn Archive>,
    removes: bool,
    is_over: Arc<AtomicBool>,
) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        while !is_over.load(Ordering::Relaxed) {
            let archive = &archives[rng.range(0..archives.len())];
            let method =
                *rng.choose(&["open", "nodes", "read_batches", "write", "links", "bodies"]);
            match rng.range(0..8) {
                0 => archive.set(Fault::ReadOnly),
                1 => archive.set(Fault::Error),
                2 => archive.set(Fault::SlowCalls(Duration::from_millis(30))),
                3 => archive.rule(method, None, Fault::Panic),
                4 => archive.rule(method, None, Fault::Error),
                _ => {
                    for session in sessions(&*disk) {
                        if removes && rng.chance(0.05) {
                            let _ = disk.remove(session.id);
                            continue;
                        }
                        let _ = disk.undo(session.id, None);
                        let _ = disk.pin(session.id, Seq(rng.range(0..5) as u64), rng.chance(0.5));
                    }
                }
            }
            std::thread::sleep(Duration::from_millis(rng.range(5..60) as u64));
            for archive in &archives {
                archive.set(Fault::None);
                for method in ["open", "nodes", "read_batches", "write", "links", "bodies"] {
                    archive.rule(method, None, Fault::None);
                }
            }
            std::thread::sleep(Duration::from_millis(rng.range(0..30) as u64));
        }
    })
}

async fn play(seed: u64, turns: usize) {
    let mut rng = Rng::new(seed);
    let count = AtomicUsize::new(0);
    let upstream = ScriptedServer::playing(100_000, move |_| {
        Some(ScriptStep::Answer(format!("Answer {}.", count.fetch_add(1, Ordering::Relaxed))))
    });
    let (folder, disk) = sqlite();
    let (mut proxies, mut archives) = (Vec::new(), Vec::new());
    for at in 0..2 {
        let archive = Arc::new(Faulty::new(reopened(&folder), Fault::None));
        let mut settings = Settings::new(Arc::clone(&archive) as Arc<dyn Archive>);
        settings.listen.set_port(0);
        settings.upstream_openai = Some(upstream.url());
        settings.budget = Some(Tokens(1_200));
        settings.require_archive = at == 0 && seed.is_multiple_of(2);
        settings.deadline = Duration::from_millis(if seed.is_multiple_of(3) { 25 } else { 5_000 });
        archives.push(archive);
        proxies.push(serve(settings).await.unwrap());
    }
    let is_over = Arc::new(AtomicBool::new(false));
    let other = reopened(&folder);
    // What is removed comes back with the next request of its client.
    let removes = seed % 4 == 3;
    let ended = Arc::clone(&is_over);
    let meddler = meddle(Rng::new(seed + 1), archives.clone(), other, removes, ended);
    let branches = (0..6).map(|at| {
        let session = format!("forked {}", at / 3);
        let said = vec![user(&format!("The beginning of {}", at / 3)), assistant("So it begins.")];
        let rng = Rng::new(seed * 100 + at);
        let (client, name) = (Client::default(), format!("branch {at}"));
        Branch { session, said, client, rng, name, cancelled: 0, is_bypassed: false }
    });
    let _ = rng.next_u64();
    let talks = branches.map(async |mut branch| {
        for turn in 0..turns {
            branch.say(&proxies, turn).await;
        }
        branch
    });
    let branches: Vec<Branch> = join_all(talks).await;
    is_over.store(true, Ordering::Relaxed);
    meddler.join().unwrap();
    // All is well again: what is said now is archived with all that was said before it.
    let last = branches.into_iter().map(async |mut branch| {
        for time in 0..100 {
            branch.said.push(user(&format!("{} ends, said {time} times", branch.name)));
            while branch.ask(&proxies[0], None).await != Some(200) {}
            if !branch.is_bypassed {
                break;
            }
        }
        branch
    });
    let branches: Vec<Branch> = join_all(last).await;
    for proxy in &proxies {
        let waiting =
            || (proxy.missing())().into_iter().filter(|missing| missing.given_up.is_none());
        until("nothing waits", || waiting().count() == 0).await;
        let queue = async || {
            let url = format!("http://{}/longhand/ready", proxy.address());
            let answer = Client::default().get(url).send().await.unwrap();
            let ready: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
            ready["archive_queue"].clone()
        };
        for _ in 0..1_000 {
            if queue().await == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(queue().await, 0, "seed {seed}: something waits for ever");
    }
    for proxy in proxies {
        proxy.stop().await;
    }
    for sent in upstream.requests() {
        let wrong = faults(PATHS[0], &sent.body);
        assert!(wrong.is_empty(), "seed {seed}: {wrong:?}");
    }
    let cancelled: usize = branches.iter().map(|branch| branch.cancelled).sum();
    println!("seed {seed}: {cancelled} requests were given up by their clients");
    assert_once(&*disk, &branches, seed);
}

fn assert_once(disk: &dyn Archive, branches: &[Branch], seed: u64) {
    assert_eq!(disk.verify(None).unwrap(), [], "seed {seed}");
    for session in sessions(disk) {
        let entries = disk.entries(session.id, 0..u64::MAX).unwrap();
        let words = |raw: &str| {
            let message: Value = serde_json::from_str(raw).unwrap();
            message["content"].as_str().unwrap_or_default().to_owned()
        };
        let mut times: HashMap<String, usize> = HashMap::new();
        for entry in &entries {
            *times.entry(words(&entry.raw)).or_default() += 1;
        }
        let twice: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
        let lines = entries.iter().map(|entry| {
            let parent = entry.parent.map_or(-1, |seq| seq.0.cast_signed());
            format!("{} after {parent}: {:.30}", entry.seq.0, words(&entry.raw))
        });
        let lines = || lines.clone().collect::<Vec<_>>().join("\n");
        assert!(twice.is_empty(), "seed {seed}, {}: twice: {twice:?}\n{}", session.name, lines());
        let of_session = branches.iter().filter(|branch| branch.session == session.name);
        for branch in of_session {
            let last = words(&branch.said.last().unwrap().to_string());
            let head = entries.iter().find(|entry| words(&entry.raw) == last);
            let Some(head) = head else { panic!("seed {seed}: {last} is lost\n{}", lines()) };
            let path = disk.path(session.id, Some(head.seq), 0..u64::MAX).unwrap();
            let path: Vec<String> = path.iter().map(|entry| words(&entry.raw)).collect();
            let said: Vec<String> =
                branch.said.iter().map(|message| words(&message.to_string())).collect();
            assert_eq!(path, said, "seed {seed}, {}", branch.name);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_happens_to_two_proxies_every_word_is_there_once() {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let first = number("LONGHAND_SEED_FIRST").unwrap_or(0);
    for seed in first..first + number("LONGHAND_SEEDS").unwrap_or(4) {
        play(seed, 30).await;
    }
}
