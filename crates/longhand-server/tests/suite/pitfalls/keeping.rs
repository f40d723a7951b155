//! Persistence, concurrency and operations.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use longhand::{Archive, MemoryArchive, Summariser, Tokens};
use longhand_core::Scale;
use longhand_summary::{Input, Summary, SummaryError};
use serde_json::Value;

use crate::common::{
    PATHS, Stage, answers, assistant, id_of, messages, reopened, request, says, sessions, sqlite,
    told, told_on_paths, until, user, words,
};
use longhand_testkit::faulty::{Fault, Faulty};
use longhand_testkit::gate::Gate;

/// What a client says in turn `turn`, and what it was answered before.
fn turn(turn: usize) -> Vec<Value> {
    let mut all = vec![user("Turn 0.")];
    for at in 1..=turn {
        all.extend([assistant("Go on."), user(&format!("Turn {at}."))]);
    }
    all
}

fn spoken(turns: usize) -> Vec<String> {
    (0..turns).flat_map(|at| [format!("Turn {at}."), "Go on.".to_owned()]).collect()
}

#[tokio::test]
async fn p59_what_an_archive_did_not_take_it_gets_with_the_next_request() {
    let (_folder, disk) = sqlite();
    let stores: [Arc<dyn Archive>; 2] = [Arc::new(MemoryArchive::default()), disk];
    for store in stores {
        for (path, fault) in
            [(PATHS[0], Fault::Error), (PATHS[1], Fault::ReadOnly), (PATHS[2], Fault::ReadOnly)]
        {
            let archive = Arc::new(Faulty::new(Arc::clone(&store), Fault::None));
            let proxy_archive = Arc::clone(&archive);
            let stage = Stage::with(answers(6), |settings| {
                settings.archive = proxy_archive;
                settings.budget = Some(Tokens(8_000));
            })
            .await;
            let mut session = String::new();
            for at in 0..6 {
                archive.set(if (2..5).contains(&at) { fault } else { Fault::None });
                let heads = stage.ask(path, &turn(at)).await;
                assert_eq!(heads.status, 200);
                session = heads.get("x-longhand-session").to_owned();
            }
            stage.proxy.stop().await;
            assert_eq!(words(path, &told(&*store, &session)), spoken(6), "{path} {fault:?}");
        }
        assert_eq!(store.verify(None).unwrap(), []);
    }
}

#[tokio::test]
async fn p60_an_archive_that_takes_nothing_is_seen() {
    let inner: Arc<dyn Archive> = Arc::new(MemoryArchive::default());
    let stage = Stage::with(answers(1), |settings| {
        settings.archive = Arc::new(Faulty::new(inner, Fault::Error));
    })
    .await;
    stage.ask(PATHS[0], &turn(0)).await;
    until("entries are counted as not archived", || stage.proxy.counts().unarchived > 0).await;
    assert_eq!(stage.proxy.counts().archived, 0);
    let ready = stage.client.get(stage.url("/longhand/ready")).send().await.unwrap();
    let ready: Value = serde_json::from_str(&ready.text().await.unwrap()).unwrap();
    assert_eq!(ready["archive"], false, "{ready}");
}

#[tokio::test]
async fn p61_nobody_waits_for_who_holds_the_archive() {
    let (folder, archive) = sqlite();
    let stage = Stage::with(answers(20), |settings| {
        settings.archive = Arc::clone(&archive);
        settings.budget = Some(Tokens(8_000));
    })
    .await;
    stage.ask(PATHS[0], &turn(0)).await;
    let path = folder.path().join("archive.db");
    let other = rusqlite::Connection::open(path).unwrap();
    other.busy_timeout(Duration::from_mins(1)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut session = String::new();
    for at in 1..10 {
        let heads = stage.ask(PATHS[0], &turn(at)).await;
        assert_ne!(heads.get("x-longhand"), "bypassed");
        session = heads.get("x-longhand-session").to_owned();
    }
    // All was asked while the archive was held.
    other.execute_batch("COMMIT").unwrap();
    stage.proxy.stop().await;
    assert_eq!(words(PATHS[0], &told(&*archive, &session)), spoken(10));
}

#[tokio::test]
async fn p61_two_proxies_keep_one_conversation_in_one_order() {
    for path in PATHS {
        let (folder, archive) = sqlite();
        let mut stages = Vec::new();
        for _ in 0..2 {
            let proxy_archive = reopened(&folder);
            let stage = Stage::with(answers(40), |settings| {
                settings.archive = proxy_archive;
                settings.budget = Some(Tokens(8_000));
            });
            stages.push(stage.await);
        }
        for at in 0..12 {
            // In turns, and now and then both at once.
            if at % 4 == 3 {
                let asked = turn(at);
                tokio::join!(stages[0].ask(path, &asked), stages[1].ask(path, &asked));
            } else {
                stages[at % 2].ask(path, &turn(at)).await;
            }
        }
        stages[0].ask(path, &turn(12)).await;
        for stage in stages {
            stage.proxy.stop().await;
        }
        assert_eq!(archive.verify(None).unwrap(), []);
        let sessions = sessions(&*archive);
        // Who came second may have gone on in a fork.
        let paths = sessions.iter().flat_map(|session| told_on_paths(&*archive, &session.name));
        let all: Vec<_> = paths.map(|told| words(path, &told)).collect();
        assert!(all.contains(&spoken(13)), "{path} {all:#?}");
        let rows: u64 = sessions.iter().map(|session| session.entries).sum();
        // A message and an answer in each turn, and what was asked of both.
        assert!(rows <= 13 * 2 + 6, "{rows} rows in {} sessions", sessions.len());
    }
}

#[tokio::test]
async fn p62_forks_copy_no_history() {
    let path = PATHS[0];
    let stage = Stage::new(Some(1_000_000), answers(210)).await;
    let long = messages(path, 100);
    stage.ask(path, &long).await;
    for fork in 0..200 {
        let mut asked = long.clone();
        asked.push(assistant("Go on."));
        asked.push(user(&format!("Another question, {fork}.")));
        stage.ask(path, &asked).await;
    }
    let archived = stage.archived().await;
    let rows: usize = archived.iter().map(|(_, raws)| raws.len()).sum();
    assert_eq!(rows, 202 + 2 * 200);
}

#[tokio::test]
async fn p65_order_is_by_number_whatever_the_clock_says() {
    let path = PATHS[0];
    let stage = Stage::new(Some(8_000), answers(5)).await;
    let mut session = String::new();
    for at in 0..5 {
        stage.ask(path, &turn(at)).await.get("x-longhand-session").clone_into(&mut session);
    }
    let archive = Arc::clone(&stage.archive);
    stage.proxy.stop().await;
    let entries = archive.entries(id_of(&*archive, &session), 0..u64::MAX).unwrap();
    assert!(entries.iter().enumerate().all(|(at, entry)| entry.seq.0 == at as u64));
    assert_eq!(words(path, &told(&*archive, &session)), spoken(5));
}

/// Claims to be instant, and hangs the first time.
#[derive(Default)]
struct Hangs {
    asked: AtomicUsize,
    gate: Gate,
}

impl Summariser for Hangs {
    fn name(&self) -> &'static str {
        "hangs"
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn summarise(&self, _: &Input, _: Tokens, _: &Scale) -> Result<Summary, SummaryError> {
        if self.asked.fetch_add(1, Ordering::SeqCst) == 0 {
            self.gate.pass();
        }
        Err(SummaryError::Empty { name: "hangs".to_owned() })
    }
}

#[tokio::test]
async fn p66_a_part_of_ours_that_hangs_costs_one_deadline_and_not_the_service() {
    let path = PATHS[0];
    let hangs = Arc::new(Hangs::default());
    let summariser = Arc::clone(&hangs);
    let stage = Stage::with([says("a"), says("b"), says("c")], |settings| {
        settings.summarisers = vec![summariser];
        settings.budget = Some(Tokens(1_000));
        settings.deadline = Duration::from_secs(2);
    })
    .await;
    let asked: Vec<Value> = (0..20)
        .flat_map(|at| {
            let said = format!("What of {at}? {}", "all is well ".repeat(20));
            [user(&said), assistant("Nothing.")]
        })
        .chain([user("And?")])
        .collect();
    let body = request(path, &asked, false);
    assert_eq!(stage.post(path, &body).await.headers()["x-longhand"], "bypassed");
    assert_eq!(stage.sent()[0], body);
    assert!(hangs.asked.load(Ordering::SeqCst) > 0, "it was never asked");
    // Others do not wait for it, and it has its chance again.
    assert_eq!(stage.ask(path, &[user("Hm?")]).await.get("x-longhand"), "passed");
    assert_eq!(stage.post(path, &body).await.headers()["x-longhand"], "compacted");
    hangs.gate.open();
}
