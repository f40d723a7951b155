//! Conversations that nobody has used for long, removed beside programs that write.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use longhand::{Archive, Owner, SessionId, SqliteArchive};
use longhand_archive::{After, NewEntry, NewSession};
use longhand_core::Seq;
use serde_json::json;

use crate::run::Folder;

const CANARY: &str = "QUARTZ-0417";
/// Some time in 2023.
const LONG_AGO: i64 = 1_700_000_000_000;
/// The name of a session that nobody named.
const UNNAMED: &str = "a1b2c3d4e5f60718";

fn said(text: &str, at_ms: i64) -> NewEntry {
    let raw = json!({"role": "user", "content": text}).to_string();
    longhand::driver::new_entry("chat", raw, true, at_ms).unwrap()
}

fn add(archive: &dyn Archive, session: &NewSession, text: &str, at_ms: i64) -> SessionId {
    let id = SessionId::named(Owner::LOCAL, &session.name);
    let session = NewSession { dialect: "chat".to_owned(), ..session.clone() };
    archive.begin(id, &session).unwrap();
    let entries: Vec<NewEntry> =
        (0..40).map(|number| said(&format!("{text} {number}"), at_ms)).collect();
    archive.append(id, After::Newest, &entries).unwrap();
    id
}

fn named(name: &str) -> NewSession {
    NewSession { name: name.to_owned(), ..NewSession::default() }
}

fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

fn traces(path: &Path) -> usize {
    let files = ["", "-wal", "-shm"].map(|ending| format!("{}{ending}", path.display()));
    let count = |file: &String| {
        let bytes = fs::read(file).unwrap_or_default();
        bytes.windows(CANARY.len()).filter(|window| *window == CANARY.as_bytes()).count()
    };
    files.iter().map(count).sum()
}

#[test]
fn what_is_idle_goes_and_what_somebody_cares_for_stays() {
    let folder = Folder::new();
    let path = folder.path("a.db");
    let idle = add(&SqliteArchive::open(&path).unwrap(), &named(UNNAMED), CANARY, LONG_AGO);
    // Not while it is open: closing a file gives up all locks that a process has on it.
    assert!(traces(&path) > 0);
    let archive = SqliteArchive::open(&path).unwrap();
    add(&archive, &named("b1b2c3d4e5f60718"), "used today", now_ms());
    add(&archive, &named("the leak"), "named by a person", LONG_AGO);
    let pinned = add(&archive, &named("c1b2c3d4e5f60718"), "pinned", LONG_AGO);
    archive.pin(pinned, Seq(3), true).unwrap();
    // A session that another one continues, which was used today.
    let first = add(&archive, &named("d1b2c3d4e5f60718"), "the first part", LONG_AGO);
    let second = NewSession { continues: Some(first), ..named("e1b2c3d4e5f60718") };
    add(&archive, &second, "the second part", now_ms());

    let run = folder.run("archive prune --older-than 90d --dry-run --archive a.db");
    assert_eq!(run.status, 0, "{run:?}");
    for words in [UNNAMED, "1 conversation to remove", "1 pinned, 1 named", "nothing was removed"] {
        assert!(run.stdout.contains(words), "{words}: {run:?}");
    }
    let run = folder.run("archive prune --older-than 90d --archive a.db");
    assert!(run.status == 2 && run.stderr.contains("--yes"), "{run:?}");
    assert!(archive.session(idle).unwrap().is_some());

    let has_ended = AtomicBool::new(false);
    let (run, slowest) = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let id = SessionId::named(Owner::LOCAL, "b1b2c3d4e5f60718");
            let mut slowest = std::time::Duration::ZERO;
            while !has_ended.load(Ordering::Relaxed) {
                let begun = std::time::Instant::now();
                archive.append(id, After::Newest, &[said("it goes on", now_ms())]).unwrap();
                slowest = slowest.max(begun.elapsed());
            }
            slowest
        });
        let run = folder.run("archive prune --older-than 90d --yes --json --archive a.db");
        has_ended.store(true, Ordering::Relaxed);
        (run, writer.join().unwrap())
    });
    assert_eq!((run.status, run.stderr.as_str()), (0, ""), "{run:?}");
    assert_eq!(run.json()["removed"].as_array().unwrap().len(), 1, "{run:?}");
    assert!(slowest < std::time::Duration::from_secs(5), "a writer waited for {slowest:?}");
    assert!(archive.session(idle).unwrap().is_none());
    let left = folder.run("ls --all --json --archive a.db");
    assert_eq!(left.stdout.matches("\"id\"").count(), 5, "{left:?}");
    let run = folder.run("archive prune --older-than 90d --yes --archive a.db");
    assert!(run.status == 0 && run.stdout.contains("removed 0 conversations"), "{run:?}");
    assert_eq!(archive.verify(None).unwrap(), []);
    assert_eq!(traces(&path), 0);
}

#[test]
fn no_more_goes_than_the_size_needs_and_the_oldest_first() {
    let folder = Folder::new();
    let archive = SqliteArchive::open(folder.path("a.db")).unwrap();
    let names = ["a1b2c3d4e5f60710", "a1b2c3d4e5f60711", "a1b2c3d4e5f60712"];
    for (name, at_ms) in names.iter().zip(LONG_AGO..) {
        add(&archive, &named(name), &"some text ".repeat(10), at_ms);
    }
    let all: u64 = archive
        .sessions(None, longhand_archive::Page::ALL)
        .unwrap()
        .items
        .iter()
        .map(|info| info.bytes)
        .sum();
    let prune = |max: u64| {
        let line =
            format!("archive prune --older-than 30d --max-size {max} --yes --json --archive a.db");
        let run = folder.run(&line);
        assert_eq!(run.status, 0, "{run:?}");
        let removed = run.json()["removed"].as_array().unwrap().clone();
        let name = |one: &serde_json::Value| one["session"]["name"].as_str().unwrap().to_owned();
        removed.iter().map(name).collect::<Vec<_>>()
    };
    assert!(prune(all).is_empty());
    assert_eq!(prune(all - 1), names[..1]);
    assert_eq!(prune(0), names[1..]);
}
