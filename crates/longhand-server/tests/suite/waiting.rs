//! What was acknowledged is archived, or somebody is told: whatever the archive does meanwhile.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::client::Client;
use crate::common::{
    PATHS, assistant, id_of, log, reopened, request, sessions, sqlite, until, user,
};
use futures_util::future::join_all;
use longhand::{Archive, ArchiveError, Tokens};
use longhand_archive::{Answer, Layer, SqliteArchive, SqliteSettings, Storage, Write};
use longhand_core::Seq;
use longhand_core::session::Version;
use longhand_server::{Proxy, Settings, serve};
use longhand_testkit::faulty::{Fault, Faulty};
use longhand_testkit::scripted::{ScriptStep, ScriptedServer};
use serde_json::Value;

/// Answers every request with words of its own.
fn upstream() -> ScriptedServer {
    let count = AtomicUsize::new(0);
    ScriptedServer::playing(100_000, move |_| {
        Some(ScriptStep::Answer(format!("Answer {}.", count.fetch_add(1, Ordering::Relaxed))))
    })
}

async fn proxy(
    upstream: &ScriptedServer,
    archive: Arc<dyn Archive>,
    change: impl FnOnce(&mut Settings),
) -> Proxy {
    let mut settings = Settings::new(archive);
    settings.listen.set_port(0);
    settings.upstream_openai = Some(upstream.url());
    change(&mut settings);
    serve(settings).await.unwrap()
}

/// A conversation of a client.
struct Talk {
    session: String,
    said: Vec<Value>,
    client: Client,
    /// The notice of the newest answer.
    notice: String,
}

impl Talk {
    fn new(session: &str) -> Self {
        let (said, notice) = (Vec::new(), String::new());
        Self { session: session.to_owned(), said, client: Client::default(), notice }
    }

    /// Says something and hears the answer; gives the status.
    async fn say(&mut self, proxy: &Proxy, words: &str) -> u16 {
        self.said.push(user(words));
        let url = format!("http://{}{}", proxy.address(), PATHS[0]);
        let asked = self.client.post(url).header("x-longhand-session", &self.session);
        let answer = asked.body(request(PATHS[0], &self.said, false)).send().await.unwrap();
        let status = answer.status().as_u16();
        let notice = answer.headers().get("x-longhand-notice");
        self.notice = notice.map(|notice| notice.to_str().unwrap().to_owned()).unwrap_or_default();
        let text = answer.text().await.unwrap();
        if status == 200 {
            let body: Value = serde_json::from_str(&text).unwrap();
            let words = body["choices"][0]["message"]["content"].as_str().unwrap();
            self.said.push(assistant(words));
        } else {
            self.said.pop();
        }
        status
    }

    /// All of it in words.
    fn words(&self) -> Vec<String> {
        self.said.iter().map(|message| message["content"].as_str().unwrap().to_owned()).collect()
    }
}

/// The words of all entries of a session.
fn archived(archive: &dyn Archive, session: &str) -> Vec<String> {
    let entries = archive.entries(id_of(archive, session), 0..u64::MAX).unwrap().into_iter();
    let words = |raw: String| {
        let message: Value = serde_json::from_str(&raw).unwrap();
        message["content"].as_str().unwrap_or_default().to_owned()
    };
    entries.map(|entry| words(entry.raw)).collect()
}

/// Whether an archive has all that was said, each once.
fn assert_once(archive: &dyn Archive, talks: &[Talk]) {
    for talk in talks {
        let mut there = archived(archive, &talk.session);
        let mut said = talk.words();
        there.sort();
        said.sort();
        assert_eq!(there, said, "{}", talk.session);
    }
    assert_eq!(archive.verify(None).unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_first_requests_at_once_lose_no_answer() {
    let (upstream, (_folder, disk)) = (upstream(), sqlite());
    let proxy = proxy(&upstream, Arc::clone(&disk), |_| {}).await;
    let talks = (0..8).map(|at| {
        let mut talk = Talk::new(&format!("large {at}"));
        for message in 0..5_000 {
            talk.said.push(user(&format!("Question {message} of {at}")));
            talk.said.push(assistant(&format!("Reply {message} of {at}")));
        }
        talk
    });
    let talks = talks.map(async |mut talk| {
        assert_eq!(talk.say(&proxy, "And now?").await, 200);
        talk
    });
    let talks = join_all(talks).await;
    assert_eq!(proxy.counts().bypassed, 0);
    proxy.stop().await;
    assert_once(&*disk, &talks);
}

#[tokio::test]
async fn a_session_that_was_removed_begins_anew() {
    for required in [false, true] {
        let (upstream, (folder, disk)) = (upstream(), sqlite());
        let change = |settings: &mut Settings| settings.require_archive = required;
        let proxy = proxy(&upstream, Arc::clone(&disk), change).await;
        let mut talks = ["removed", "kept"].map(Talk::new);
        for turn in 0..3 {
            for talk in &mut talks {
                assert_eq!(talk.say(&proxy, &format!("Turn {turn}.")).await, 200);
            }
        }
        let is_there = |session: &longhand_archive::SessionInfo| session.entries == 6;
        until("all is archived", || {
            sessions(&*disk).iter().filter(|session| is_there(session)).count() == 2
        })
        .await;
        let id = id_of(&*disk, "removed");
        assert!(reopened(&folder).remove(id).unwrap());
        for turn in 3..5 {
            for talk in &mut talks {
                assert_eq!(talk.say(&proxy, &format!("Turn {turn}.")).await, 200, "{required}");
            }
        }
        proxy.stop().await;
        assert_once(&*disk, &talks);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_proxies_beside_undo_and_pin_refuse_nothing_and_keep_all_once() {
    let (upstream, (folder, disk)) = (upstream(), sqlite());
    let mut proxies = Vec::new();
    for _ in 0..2 {
        let change = |settings: &mut Settings| {
            settings.require_archive = true;
            // What is refused is refused because another one was first again and again, not because time is up.
            settings.deadline = Duration::from_mins(1);
            settings.budget = Some(Tokens(1_500));
        };
        proxies.push(proxy(&upstream, reopened(&folder), change).await);
    }
    let ended = Arc::new(AtomicBool::new(false));
    let (archive, is_ended) = (reopened(&folder), Arc::clone(&ended));
    let meddler = std::thread::spawn(move || {
        let mut undone = 0;
        for round in 0_u64.. {
            for session in sessions(&*archive) {
                if archive.undo(session.id, None).is_ok_and(|undone| undone.is_some()) {
                    undone += 1;
                }
                let _ = archive.pin(session.id, Seq(round % 7), round % 2 == 0);
            }
            if is_ended.load(Ordering::Relaxed) {
                return undone;
            }
            std::thread::sleep(Duration::from_millis(3));
        }
        undone
    });
    let talks = (0..4).map(async |at| {
        let mut talk = Talk::new(&format!("shared {at}"));
        for turn in 0..60 {
            let words = format!("Turn {turn} of {at}: {}", "what of this? ".repeat(20));
            let status = talk.say(&proxies[(turn + at) % 2], &words).await;
            assert_eq!(status, 200, "{turn} of {at}");
        }
        talk
    });
    let talks = join_all(talks).await;
    ended.store(true, Ordering::Relaxed);
    let undone = meddler.join().unwrap();
    assert!(undone > 0, "there was something to undo");
    for proxy in proxies {
        proxy.stop().await;
    }
    assert_once(&*disk, &talks);
}

/// What the proxy says of itself.
async fn ready(proxy: &Proxy) -> Value {
    let url = format!("http://{}/longhand/ready", proxy.address());
    let answer = Client::default().get(url).send().await.unwrap();
    serde_json::from_str(&answer.text().await.unwrap()).unwrap()
}

/// Makes turns while an archive takes nothing, and looks whether that is told; then all of it is archived
/// without another request.
async fn bears_an_outage(
    upstream: &ScriptedServer,
    archive: Arc<dyn Archive>,
    begin: impl FnOnce(),
    end: impl FnOnce(),
) {
    let (warn, warnings) = log();
    let change = |settings: &mut Settings| settings.warn = Some(warn);
    let proxy = proxy(upstream, Arc::clone(&archive), change).await;
    let mut talks = ["one", "other"].map(Talk::new);
    for talk in &mut talks {
        assert_eq!(talk.say(&proxy, "Before.").await, 200);
        assert_eq!(talk.notice, "");
    }
    until("all is archived", || (proxy.missing())().is_empty()).await;
    begin();
    // Once it is noticed, every answer says so.
    for talk in &mut talks {
        for turn in 0..100 {
            assert_eq!(talk.say(&proxy, &format!("Turn {turn}.")).await, 200);
            if turn > 20 && !talk.notice.is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(talk.notice.contains("the archive takes nothing since"), "{}", talk.notice);
    }
    let told = ready(&proxy).await;
    assert!(told["failing"].is_string(), "{told}");
    for (at, talk) in talks.iter().enumerate() {
        let missing = told["missing"].as_array().unwrap();
        let record = missing.iter().find(|record| record["session"] == talk.session.as_str());
        let record = record.unwrap_or_else(|| panic!("{at}: {told}"));
        assert!(record["messages"].as_u64() > Some(20), "{record}");
        assert!(record["given_up"].is_null() && record["first"].is_string(), "{record}");
    }
    end();
    until("all is archived", || (proxy.missing())().is_empty()).await;
    assert!(ready(&proxy).await["failing"].is_null());
    until("it is said that it is over", || warnings.lock().unwrap().len() > 1).await;
    let warnings = warnings.lock().unwrap().clone();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].contains("the archive takes nothing since"), "{warnings:?}");
    assert!(warnings[1].contains("takes again"), "{warnings:?}");
    assert_once(&*archive, &talks);
    proxy.stop().await;
}

#[tokio::test]
async fn a_disk_that_is_full_for_a_while_costs_no_word() {
    let (upstream, (_folder, disk)) = (upstream(), sqlite());
    let archive = Arc::new(Faulty::new(disk, Fault::None));
    let faulty = Arc::clone(&archive);
    let begin = || faulty.set(Fault::ReadOnly);
    let end = || faulty.set(Fault::None);
    bears_an_outage(&upstream, Arc::clone(&archive) as Arc<dyn Archive>, begin, end).await;
}

#[tokio::test]
async fn a_foreign_lock_costs_no_word() {
    let (upstream, (folder, _)) = (upstream(), sqlite());
    let path = folder.path().join("archive.db");
    let wait_max = Duration::from_millis(50);
    let settings = SqliteSettings { wait_max, ..SqliteSettings::default() };
    let archive = Arc::new(SqliteArchive::open_with(&path, &settings).unwrap());
    let other = rusqlite::Connection::open(&path).unwrap();
    other.busy_timeout(Duration::from_secs(20)).unwrap();
    let begin = || other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let end = || other.execute_batch("COMMIT").unwrap();
    bears_an_outage(&upstream, archive, begin, end).await;
}

/// An archive whose writes wait while it is shut.
struct Gate {
    inner: Arc<dyn Archive>,
    is_shut: AtomicBool,
    /// How many writes wait.
    waiting: AtomicUsize,
}

impl Layer for Gate {
    fn beneath(&self) -> &dyn Storage {
        &*self.inner
    }

    fn write(&self, writes: Vec<Write>) -> Answer<'_, Vec<Result<Version, ArchiveError>>> {
        Box::pin(async move {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            while self.is_shut.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            self.inner.write(writes).await
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_too_much_waits_requests_are_held_back_and_then_refused() {
    for (time_max, expected) in [(Duration::from_mins(10), 200), (Duration::ZERO, 503)] {
        let (upstream, (_folder, disk)) = (upstream(), sqlite());
        let (is_shut, waiting) = (AtomicBool::new(true), AtomicUsize::new(0));
        let gate = Arc::new(Gate { inner: Arc::clone(&disk), is_shut, waiting });
        let proxy_archive = Arc::clone(&gate);
        let change = |settings: &mut Settings| {
            settings.archive_bytes_max = 1;
            settings.archive_wait = time_max;
            // It is slow, and does not fail.
            settings.archive_silence = Duration::from_mins(10);
        };
        let proxy = proxy(&upstream, proxy_archive, change).await;
        let mut talks = vec![Talk::new("first"), Talk::new("second")];
        assert_eq!(talks[0].say(&proxy, "Who is there?").await, 200, "there was room");
        until("something waits", || gate.waiting.load(Ordering::SeqCst) > 0).await;
        let mut second = talks.pop().unwrap();
        let status = {
            let asked = second.say(&proxy, "Me.");
            tokio::pin!(asked);
            if expected == 200 {
                let early = tokio::time::timeout(Duration::from_millis(300), &mut asked).await;
                assert!(early.is_err(), "it is held back");
                assert_eq!(upstream.requests().len(), 1);
                gate.is_shut.store(false, Ordering::SeqCst);
            }
            asked.await
        };
        assert_eq!(status, expected);
        gate.is_shut.store(false, Ordering::SeqCst);
        talks.extend((status == 200).then_some(second));
        let missing = proxy.missing();
        proxy.stop().await;
        assert_eq!(missing(), []);
        assert_once(&*disk, &talks);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_saturated_archive_drops_nothing() {
    let (upstream, (_folder, disk)) = (upstream(), sqlite());
    let slow = Fault::SlowWrites(Duration::from_millis(30));
    let archive = Arc::new(Faulty::new(Arc::clone(&disk), slow));
    let change = |settings: &mut Settings| settings.archive_bytes_max = 20_000;
    let proxy = proxy(&upstream, archive, change).await;
    let talks = (0..12).map(async |at| {
        let mut talk = Talk::new(&format!("busy {at}"));
        for turn in 0..12 {
            let words = format!("Turn {turn} of {at}: {}", "more and more ".repeat(200));
            assert_eq!(talk.say(&proxy, &words).await, 200, "{turn} of {at}");
        }
        talk
    });
    let talks = join_all(talks).await;
    let missing = proxy.missing();
    proxy.stop().await;
    assert_eq!(missing(), []);
    assert_once(&*disk, &talks);
}

#[tokio::test]
async fn what_no_longer_finds_room_is_named_and_archived_with_the_next_request() {
    let (upstream, (_folder, disk)) = (upstream(), sqlite());
    let archive = Arc::new(Faulty::new(Arc::clone(&disk), Fault::ReadOnly));
    let proxy_archive = Arc::clone(&archive);
    let (warn, warnings) = log();
    let change = |settings: &mut Settings| {
        settings.archive_bytes_max = 1;
        settings.warn = Some(warn);
    };
    let proxy = proxy(&upstream, proxy_archive, change).await;
    let mut talks = [Talk::new("full")];
    for turn in 0..30 {
        assert_eq!(talks[0].say(&proxy, &format!("Turn {turn}.")).await, 200);
        if talks[0].notice.contains("are not archived") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(talks[0].notice.contains("are not archived"), "{}", talks[0].notice);
    let told = ready(&proxy).await;
    let given_up = |record: &&Value| record["session"] == "full" && record["given_up"].is_string();
    assert!(told["missing"].as_array().unwrap().iter().any(|record| given_up(&record)), "{told}");
    assert!(warnings.lock().unwrap().iter().any(|line| line.contains("session full")));
    archive.set(Fault::None);
    until("there is room", || {
        !(proxy.missing())().iter().any(|missing| missing.given_up.is_none())
    })
    .await;
    assert_eq!(talks[0].say(&proxy, "And now?").await, 200);
    proxy.stop().await;
    assert_once(&*disk, &talks);
}

#[tokio::test]
async fn a_stop_names_what_is_missing() {
    let (upstream, (_folder, disk)) = (upstream(), sqlite());
    let archive = Arc::new(Faulty::new(Arc::clone(&disk), Fault::None));
    let proxy_archive = Arc::clone(&archive);
    let change = |settings: &mut Settings| settings.archive_farewell = Duration::from_millis(200);
    let proxy = proxy(&upstream, proxy_archive, change).await;
    let mut talks = ["lost", "kept"].map(Talk::new);
    for talk in &mut talks {
        assert_eq!(talk.say(&proxy, "Before.").await, 200);
    }
    until("all is archived", || (proxy.missing())().is_empty()).await;
    archive.set(Fault::ReadOnly);
    let before = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis() as i64;
    assert_eq!(talks[0].say(&proxy, "Is this heard?").await, 200);
    let missing = proxy.missing();
    proxy.stop().await;
    let missing = missing();
    assert_eq!(missing.len(), 1, "{missing:?}");
    assert_eq!((missing[0].session.as_str(), missing[0].messages), ("lost", 2));
    assert!(missing[0].given_up.is_some() && missing[0].first_ms >= before, "{missing:?}");
    talks[0].said.truncate(2);
    assert_once(&*disk, &talks);
}
