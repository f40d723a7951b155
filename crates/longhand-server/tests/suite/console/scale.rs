//! How long the console takes with many sessions, and with a long one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use longhand::driver::new_entry;
use longhand::{Archive, Owner, SessionId};
use longhand_archive::{After, NewEntry, NewSession, RequestRecord};
use longhand_core::Seq;
use longhand_server::{ConsoleServer, ConsoleSettings, serve_console};
use serde_json::{Value, json};

use super::API;
use crate::common::client::Client;
use crate::common::sqlite;

const SESSIONS: usize = 10_000;
const ROUNDS: usize = 100_000;

fn said(role: &str, text: &str, opens_round: bool, at_ms: i64) -> NewEntry {
    let raw = json!({"role": role, "content": text}).to_string();
    new_entry("chat", raw, opens_round, at_ms).unwrap()
}

fn fill(archive: &dyn Archive) -> SessionId {
    for at in 0..SESSIONS {
        let name = format!("task-{at}");
        let id = SessionId::named(Owner::LOCAL, &name);
        let opening = format!("Please look into the {at}th thing of the list.");
        let new = NewSession { name, dialect: "chat".to_owned(), opening, ..NewSession::default() };
        archive.begin(id, &new).unwrap();
        let at_ms = at as i64 * 1_000;
        archive
            .append(
                id,
                After::Newest,
                &[said("user", "Hello?", true, at_ms), said("assistant", "Yes.", false, at_ms)],
            )
            .unwrap();
        let request = RequestRecord {
            at_ms,
            model: "m".to_owned(),
            agent: "a".to_owned(),
            before: 900,
            window: 700,
            sent: 710,
            cached: 300,
            output: 9,
            head: Some(Seq(0)),
            ..RequestRecord::default()
        };
        archive.log_request(id, &request).unwrap();
    }
    let id = SessionId::named(Owner::LOCAL, "long");
    archive
        .begin(
            id,
            &NewSession {
                name: "long".to_owned(),
                dialect: "chat".to_owned(),
                ..NewSession::default()
            },
        )
        .unwrap();
    for chunk in 0..ROUNDS / 1_000 {
        let entries: Vec<NewEntry> = (chunk * 1_000..(chunk + 1) * 1_000)
            .flat_map(|round| {
                let at_ms = round as i64;
                [
                    said(
                        "user",
                        &format!("Question {round}: what of file_{round}.rs?"),
                        true,
                        at_ms,
                    ),
                    said(
                        "assistant",
                        &format!(
                            "file_{round}.rs is fine. {}",
                            "It has a few more lines. ".repeat(20)
                        ),
                        false,
                        at_ms,
                    ),
                ]
            })
            .collect();
        archive.append(id, After::Newest, &entries).unwrap();
    }
    id
}

struct Clock<'s> {
    console: &'s ConsoleServer,
    client: Client,
    cookie: String,
}

impl Clock<'_> {
    async fn ask(&self, path: &str) -> (Duration, Value) {
        let url = format!("http://{}{API}{path}", self.console.address());
        let begun = Instant::now();
        let answer = self.client.get(url).header("cookie", &self.cookie).send().await.unwrap();
        let status = answer.status().as_u16();
        let text = answer.text().await.unwrap();
        let time = begun.elapsed();
        assert_eq!(status, 200, "{path}: {text}");
        println!("{:>8.1} ms {:>9} bytes  {path}", time.as_secs_f64() * 1e3, text.len());
        (time, serde_json::from_str(&text).unwrap())
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "fills an archive for a minute; run it by name, in a build with optimisations, to measure"]
async fn large_archives_and_long_sessions_are_shown_soon() {
    let (_folder, archive) = sqlite();
    let filled = Arc::clone(&archive);
    let long = tokio::task::spawn_blocking(move || fill(&*filled)).await.unwrap();
    let listen = "127.0.0.1:0".parse().unwrap();
    let console = serve_console(archive, ConsoleSettings::default(), listen).await.unwrap();
    let link = console.link(None).unwrap();
    let client = Client::default();
    let login = client.post(format!("http://{}{API}/login", console.address()));
    let token = json!({"token": link.split_once("#token=").unwrap().1});
    let login = login.header("content-type", "application/json").header("x-longhand-console", "1");
    let answer = login.body(token.to_string()).send().await.unwrap();
    let cookie = answer.headers().get("set-cookie").unwrap().to_str().unwrap();
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let clock = Clock { console: &console, client, cookie };
    let mut first_page = Duration::ZERO;
    for path in ["/me", "/sessions?limit=50", "/usage?by=day"] {
        first_page += clock.ask(path).await.0;
    }
    println!("first page: {first_page:?}");
    assert!(first_page < Duration::from_secs(1), "{first_page:?}");
    clock.ask("/sessions?q=9876th").await;
    clock.ask("/sessions?limit=50&kin=true").await;
    clock.ask("/usage?by=session&limit=100").await;
    clock.ask("/usage?by=agent").await;
    clock.ask("/findings").await;
    clock.ask(&format!("/sessions/{long}")).await;
    let mut slowest = Duration::ZERO;
    for from in [0, 60_000, 123_456, 199_900] {
        let (time, page) =
            clock.ask(&format!("/sessions/{long}/messages?from={from}&limit=100")).await;
        assert_eq!(
            (&page["total"], page["items"].as_array().unwrap().len()),
            (&json!(ROUNDS * 2), 100)
        );
        slowest = slowest.max(time);
    }
    assert!(slowest < Duration::from_millis(100), "{slowest:?}");
    clock.ask(&format!("/sessions/{long}/window?limit=200")).await;
    clock.ask(&format!("/sessions/{long}/map")).await;
    console.stop().await;
}
