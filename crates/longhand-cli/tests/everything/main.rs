//! Everything at once: proxies that are killed, commands, a disk that fills and empties, foreign locks, and a model
//! server that answers as it likes. In the end every turn that a client was acknowledged is in the archive, or
//! the proxy has named it.
//!
//! `LONGHAND_TURNS` says how many turns there are to be, `LONGHAND_SEED_FIRST` in which order things happen.
#![allow(clippy::unwrap_used)]
#![cfg(target_os = "linux")]

mod client;
mod proxies;
mod upstream;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use client::{ClientConversation, CompleteTurn};
use longhand::time;
use longhand::unread::{self, UnreadContent};
use longhand_archive::{Archive, Page, SqliteArchive};
use longhand_testkit::rng::Rng;
use proxies::{ArchiveFolder, RestartedProxy};

const CLIENTS: usize = 6;

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

/// What clients and commands were acknowledged so far.
#[derive(Default)]
struct Acknowledged {
    turns: Mutex<Vec<CompleteTurn>>,
    asked: AtomicUsize,
}

impl Acknowledged {
    fn next(&self) -> usize {
        self.asked.fetch_add(1, Ordering::SeqCst)
    }

    fn note(&self, turn: CompleteTurn) {
        self.turns.lock().unwrap().push(turn);
    }

    fn count(&self) -> usize {
        self.turns.lock().unwrap().len()
    }
}

#[test]
fn what_is_acknowledged_is_archived_or_named_whatever_happens() {
    let turns = setting("LONGHAND_TURNS", 150);
    let seed = setting("LONGHAND_SEED_FIRST", 11) as u64;
    let folder = tempfile::tempdir().unwrap();
    let place = ArchiveFolder::new(folder.path());
    let upstream = upstream::start();
    // One that may be killed says yes only when all is on disk; the other is ended with a word.
    let mut strict = RestartedProxy::start(&place, upstream, "--require-archive");
    let mut plain = RestartedProxy::start(&place, upstream, "");
    let addresses = [strict.address.to_string(), plain.address.to_string()];
    let acknowledged = Arc::new(Acknowledged::default());
    let is_over = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (acknowledged, addresses) = (Arc::clone(&acknowledged), addresses.clone());
            let mut rng = Rng::new(seed * 1_000 + client as u64);
            thread::spawn(move || talk(&mut rng, &addresses, &acknowledged, turns))
        })
        .collect();
    let watch = {
        let is_over = Arc::clone(&is_over);
        thread::spawn(move || {
            for client in clients {
                client.join().unwrap();
            }
            is_over.store(true, Ordering::SeqCst);
        })
    };
    let trouble =
        trouble(&mut Rng::new(seed), &place, &mut strict, &mut plain, &acknowledged, &is_over);
    watch.join().unwrap();
    // What could not be written is written by itself, or named at the end.
    thread::sleep(Duration::from_secs(3));
    strict.end(false);
    plain.end(false);
    judge(&place, &acknowledged, &strict, &plain, &trouble);
}

/// Talks in several conversations, now through one proxy and now through the other.
fn talk(rng: &mut Rng, addresses: &[String], acknowledged: &Acknowledged, turns: usize) {
    let mut conversations: Vec<ClientConversation> = Vec::new();
    // Bounded, too, if nothing is ever answered.
    for _ in 0..turns * 20 {
        if acknowledged.count() >= turns {
            return;
        }
        let number = acknowledged.next();
        if conversations.len() < 3 {
            conversations.push(ClientConversation::new(rng, number));
        }
        let at = rng.range(0..conversations.len());
        let address = rng.choose(addresses).clone();
        match conversations[at].ask(rng, number, &address) {
            Some(turn) => {
                acknowledged.note(turn);
                thread::sleep(Duration::from_millis(rng.range(0..20) as u64));
            }
            None => thread::sleep(Duration::from_millis(20)),
        }
        if conversations[at].is_long() {
            conversations.remove(at);
        }
    }
}

/// What was done to them, by name.
type TroubleCounts = HashMap<&'static str, usize>;

/// Makes trouble until the clients are done.
fn trouble(
    rng: &mut Rng,
    place: &ArchiveFolder,
    strict: &mut RestartedProxy,
    plain: &mut RestartedProxy,
    acknowledged: &Acknowledged,
    is_over: &AtomicBool,
) -> TroubleCounts {
    let mut trouble = TroubleCounts::new();
    let pause = |rng: &mut Rng, ms: std::ops::Range<usize>| {
        thread::sleep(Duration::from_millis(rng.range(ms) as u64));
    };
    while !is_over.load(Ordering::SeqCst) {
        pause(rng, 5..60);
        let what = match rng.range(0..16) {
            0 | 1 => {
                strict.end(true);
                strict.again(place);
                "kills"
            }
            2 => {
                plain.end(false);
                plain.again(place);
                "restarts"
            }
            3 => {
                fs::write(place.full_sign(), "").unwrap();
                pause(rng, 50..800);
                fs::remove_file(place.full_sign()).unwrap();
                "full disks"
            }
            4 => {
                let other = rusqlite::Connection::open(place.archive()).unwrap();
                other.busy_timeout(Duration::from_secs(10)).unwrap();
                if other.execute_batch("BEGIN IMMEDIATE").is_ok() {
                    pause(rng, 50..800);
                    other.execute_batch("COMMIT").unwrap();
                }
                "foreign locks"
            }
            5 | 6 => {
                let number = acknowledged.next();
                let name = format!("cli-{}", number % 5);
                let round =
                    format!(r#"{{"user": "ask-{number}- noted", "assistant": "re-{number}-"}}"#);
                if place.run(&format!("record {name}"), &round).0 {
                    acknowledged.note(CompleteTurn {
                        number,
                        session: name,
                        at_ms: 0,
                        notice: None,
                    });
                }
                "records"
            }
            7 => {
                let session = some_session(rng, acknowledged);
                place.run(&format!("undo {session}"), "");
                "undos"
            }
            8 => {
                let session = some_session(rng, acknowledged);
                place.run(&format!("pin {session} 0"), "");
                "pins"
            }
            9 => {
                let name = format!("gone-{}", rng.range(0..3));
                place.run(&format!("record {name}"), r#"{"user": "a", "assistant": "b"}"#);
                place.run(&format!("rm {name} --yes"), "");
                "removals"
            }
            10 => {
                place.run("search noted", "");
                "searches"
            }
            11 => {
                place.run("ls", "");
                "listings"
            }
            12 => {
                let number = acknowledged.next();
                let (done, said) = place.run(&format!("archive backup disk/copy-{number}.db"), "");
                assert!(done || !said.is_empty());
                "backups"
            }
            _ => continue,
        };
        *trouble.entry(what).or_default() += 1;
    }
    trouble
}

/// The session of a turn that was acknowledged.
fn some_session(rng: &mut Rng, acknowledged: &Acknowledged) -> String {
    let turns = acknowledged.turns.lock().unwrap();
    if turns.is_empty() { "none".to_owned() } else { rng.choose(&turns).session.clone() }
}

/// Looks for every turn, one by one.
fn judge(
    place: &ArchiveFolder,
    acknowledged: &Acknowledged,
    strict: &RestartedProxy,
    plain: &RestartedProxy,
    trouble: &TroubleCounts,
) {
    let archive = SqliteArchive::open(place.archive()).unwrap();
    assert_eq!(archive.verify(None).unwrap(), []);
    let mut asked: HashMap<usize, usize> = HashMap::new();
    let mut answered: HashMap<usize, usize> = HashMap::new();
    let mut unread = HashSet::new();
    for session in archive.sessions(None, Page::ALL).unwrap().items {
        for entry in archive.entries(session.id, 0..u64::MAX).unwrap() {
            for (mark, found) in [("ask-", &mut asked), ("re-", &mut answered)] {
                if let Some(number) = numbered(&entry.raw, mark) {
                    *found.entry(number).or_default() += 1;
                }
            }
        }
        for answer in unread::answers(&archive, session.id).unwrap() {
            if let UnreadContent::Text(text) = answer.content {
                unread.extend(numbered(&text, "re-"));
            }
        }
    }
    let turns = acknowledged.turns.lock().unwrap();
    let (mut named, mut kept, mut lost, mut twice) = (0, 0, Vec::new(), Vec::new());
    for turn in &*turns {
        let places = (asked.get(&turn.number), answered.get(&turn.number));
        match places {
            (Some(1), Some(1)) => {}
            (Some(1), None) if unread.contains(&turn.number) => kept += 1,
            (Some(_), Some(_)) => twice.push((turn, places)),
            _ if is_named(plain, turn) || is_named(strict, turn) => named += 1,
            _ => lost.push((turn, upstream::Manner::of(turn.number), places)),
        }
    }
    let mut trouble: Vec<String> =
        trouble.iter().map(|(what, count)| format!("{count} {what}")).collect();
    trouble.sort();
    println!(
        "everything: {} turns, {}; {} lost, {} twice, {named} named, {kept} kept as they came; {} notices",
        turns.len(),
        trouble.join(", "),
        lost.len(),
        twice.len(),
        turns.iter().filter(|turn| turn.notice.is_some()).count()
    );
    assert!(lost.is_empty(), "{:#?}\n{}\n{}", &lost[..lost.len().min(5)], strict.said, plain.said);
    assert!(twice.is_empty(), "{:#?}", &twice[..twice.len().min(5)]);
}

/// Whether a proxy has said in the end that something of a session, from before a turn to after it, is missing.
fn is_named(proxy: &RestartedProxy, turn: &CompleteTurn) -> bool {
    let is_it = |line: &&str| line.contains("not archived") && line.contains(&turn.session);
    let mut lines = proxy.said.lines().filter(is_it);
    lines.any(|line| {
        let mut times = line.split(' ').filter_map(time::parse);
        let (first, last) = (times.next().unwrap_or(i64::MAX), times.next().unwrap_or(0));
        // A question is said before its answer is complete.
        (first - 60_000..=last + 60_000).contains(&turn.at_ms)
    })
}

/// The number behind a mark in an entry.
fn numbered(raw: &str, mark: &str) -> Option<usize> {
    let (_, rest) = raw.split_once(mark)?;
    rest.split('-').next()?.parse().ok()
}
