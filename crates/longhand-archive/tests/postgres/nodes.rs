//! Several nodes on one database: what each has acknowledged is there, once and in order.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use longhand_archive::{After, Archive, NewSession, SessionId, Storage as _, wait};
use longhand_testkit::contract::samples::{id, named, user};

use crate::server::server;

/// Writers on two nodes append to two sessions while the server is restarted again and again.
#[test]
fn what_was_acknowledged_survives_restarts_of_the_server() {
    let Some(server) = crate::server::own_server() else { return };
    let database = server.database();
    let nodes = [server.open(&database, true), server.open(&database, false)];
    for name in ["a", "b"] {
        nodes[0].begin(id(name), &named(longhand_archive::Owner::LOCAL, name)).unwrap();
    }
    let is_over = AtomicBool::new(false);
    let acknowledged: Vec<(SessionId, u64, String)> = thread::scope(|scope| {
        let writers = (0..4_usize).map(|writer| {
            let (nodes, is_over) = (&nodes, &is_over);
            scope.spawn(move || {
                let mut acknowledged = Vec::new();
                let mut number = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let session = id(if writer % 2 == 0 { "a" } else { "b" });
                    let text = format!("{writer} says {number}");
                    number += 1;
                    // One that fails may be tried again by its caller; here it is only not acknowledged.
                    if let Ok(appended) =
                        nodes[writer / 2].append(session, After::Newest, &[user(&text)])
                    {
                        acknowledged.push((session, appended.seqs[0].0, text));
                    }
                }
                acknowledged
            })
        });
        let writers: Vec<_> = writers.collect();
        for mode in ["immediate", "fast", "immediate"] {
            thread::sleep(Duration::from_millis(700));
            server.restart(mode);
        }
        thread::sleep(Duration::from_millis(700));
        is_over.store(true, Ordering::Relaxed);
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    assert!(acknowledged.len() > 50, "{}", acknowledged.len());
    let mut seen: Vec<(SessionId, String)> = Vec::new();
    for name in ["a", "b"] {
        let count = nodes[0].head(id(name)).unwrap().unwrap().entries;
        let entries = nodes[1].entries(id(name), 0..count).unwrap();
        seen.extend(entries.into_iter().map(|entry| (id(name), entry.raw)));
    }
    for (session, seq, text) in &acknowledged {
        let there = nodes[0].entries(*session, *seq..seq + 1).unwrap();
        assert_eq!(there[0].raw, user(text).raw, "entry {seq} of {session}");
    }
    // Nothing twice: each text was said once.
    let all = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), all, "something was written twice");
    assert_eq!(nodes[0].verify(None).unwrap(), []);
}

/// A caller that blocks works inside a runtime with one thread, whose thread it is.
#[test]
fn a_blocking_caller_works_inside_a_runtime_with_one_thread() {
    let Some(server) = server() else { return };
    let archive = server.open(&server.database(), true);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        archive.begin(id("s"), &NewSession::default()).unwrap();
        archive.append(id("s"), After::Newest, &[user("blocking")]).unwrap();
        let opened = archive.open(id("s"), longhand_archive::Version::default()).await.unwrap();
        assert_eq!(opened.unwrap().session.entries, 1);
        // It may be dropped there, too.
        drop(archive);
    });
}

/// A node that is asked after another one has written needs what is new, and nothing else.
#[test]
fn a_node_opens_what_another_one_wrote() {
    let Some(server) = server() else { return };
    let database = server.database();
    let (one, other) = (server.open(&database, true), server.open(&database, false));
    longhand_testkit::contract::samples::record(&one, "s", &[user("0"), user("1")]);
    let before = wait(one.open(id("s"), longhand_archive::Version::default())).unwrap().unwrap();
    longhand_testkit::contract::samples::record(&other, "s", &[user("2")]);
    let news = wait(one.open(id("s"), before.news.version)).unwrap().unwrap().news;
    assert_eq!((news.version.entries, news.forks.len()), (3, 0));
    other.remove(id("s")).unwrap();
    assert_eq!(wait(one.open(id("s"), before.news.version)).unwrap(), None);
}
