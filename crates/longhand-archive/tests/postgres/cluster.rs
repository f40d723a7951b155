//! Three proxies, one database behind a pooler: sessions go from node to node while nodes are killed and the database is
//! restarted.
//!
//! `cargo xtask cluster` runs it for three minutes; `LONGHAND_CLUSTER_SECONDS` and `LONGHAND_SEED_FIRST` say for how long and in
//! which order things happen.

pub(crate) mod client;
pub(crate) mod node;
pub(crate) mod upstream;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use longhand_archive::{Archive, Page, PostgresArchive};
use longhand_testkit::rng::Rng;

use self::client::{Conversation, post};
use self::node::{Node, NodePlace};
use self::upstream::Upstream;
use crate::server::{Server, own_server};

const NODES: usize = 3;
const SESSIONS: usize = 200;
const CLIENTS: usize = 10;

/// How long a client asks again until a request is answered.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

#[test]
fn three_nodes_keep_what_was_acknowledged_whatever_happens() {
    let Some(place) = NodePlace::find() else { return };
    let Some(server) = own_server() else { return };
    let seconds = setting("LONGHAND_CLUSTER_SECONDS", 25) as u64;
    let seed = setting("LONGHAND_SEED_FIRST", 5) as u64;
    let database = server.database();
    let address = server.address(&database, server.pooler_port.unwrap());
    let upstream = Upstream::start();
    place.set_writer(upstream.address);
    let options = "--require-archive --budget 2000";
    let mut nodes: Vec<Node> =
        (0..NODES).map(|_| Node::start(&place, &address, upstream.address, options)).collect();
    let addresses: Vec<String> = nodes.iter().map(|node| node.address.clone()).collect();
    let (is_over, failed) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut trouble = BTreeMap::new();
    let conversations: Vec<Conversation> = thread::scope(|scope| {
        let clients = (0..CLIENTS).map(|client| {
            let (addresses, is_over, failed) = (&addresses, &is_over, &failed);
            scope.spawn(move || {
                let mut rng = Rng::new(seed * 1_000 + client as u64);
                let mine = (client..SESSIONS).step_by(CLIENTS);
                let mut mine: Vec<Conversation> = mine.map(Conversation::new).collect();
                while !is_over.load(Ordering::Relaxed) {
                    let conversation = rng.range(0..mine.len());
                    talk(&mut rng, &mut mine[conversation], addresses, failed);
                }
                mine
            })
        });
        let clients: Vec<_> = clients.collect();
        make_trouble(&mut Rng::new(seed), seconds, &place, &mut nodes, &server, &mut trouble);
        is_over.store(true, Ordering::Relaxed);
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    for node in &mut nodes {
        node.end();
    }
    let archive = server.open(&database, false);
    judge(&archive, &conversations, &upstream, &trouble, failed.load(Ordering::Relaxed));
}

/// One turn: the same request is sent to one node after another until one has answered it.
fn talk(
    rng: &mut Rng,
    conversation: &mut Conversation,
    addresses: &[String],
    failed: &AtomicUsize,
) {
    let mut body = conversation.ask(rng);
    let begun = Instant::now();
    loop {
        let address = rng.choose(addresses);
        match post(address, conversation, &body) {
            Ok(()) => return conversation.answered(),
            Err(said) => {
                failed.fetch_add(1, Ordering::Relaxed);
                assert!(!said.contains("401") && !said.contains("403"), "{said}");
                assert!(begun.elapsed() < ANSWER_TIME_MAX, "{}: {said}", conversation.number);
                thread::sleep(Duration::from_millis(rng.range(5..60) as u64));
                body = conversation.request();
            }
        }
    }
}

fn make_trouble(
    rng: &mut Rng,
    seconds: u64,
    place: &NodePlace,
    nodes: &mut [Node],
    server: &Server,
    trouble: &mut BTreeMap<&'static str, usize>,
) {
    let begun = Instant::now();
    let mut restarts = ["immediate", "fast"].into_iter().cycle();
    let restart_every = Duration::from_secs((seconds / 3).max(8));
    let mut restarted = Instant::now();
    while begun.elapsed() < Duration::from_secs(seconds) {
        thread::sleep(Duration::from_millis(rng.range(500..2_500) as u64));
        let node = rng.range(0..nodes.len());
        nodes[node].kill();
        thread::sleep(Duration::from_millis(rng.range(0..400) as u64));
        nodes[node].again(place);
        *trouble.entry("nodes killed").or_default() += 1;
        if restarted.elapsed() > restart_every {
            server.restart(restarts.next().unwrap());
            *trouble.entry("restarts of the database").or_default() += 1;
            restarted = Instant::now();
        }
    }
}

/// Every turn that was acknowledged is there once, in its place, and windows changed their beginning only by batches.
fn judge(
    archive: &PostgresArchive,
    conversations: &[Conversation],
    upstream: &Upstream,
    trouble: &BTreeMap<&'static str, usize>,
    failed: usize,
) {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut paths: HashMap<usize, (Vec<String>, u64)> = HashMap::new();
    let sessions = archive.sessions(None, Page::ALL).unwrap().items;
    for session in &sessions {
        for entry in archive.entries(session.id, 0..u64::MAX).unwrap() {
            *places.entry(upstream::mark(&entry.raw).unwrap()).or_default() += 1;
        }
        let path = archive.path(session.id, None, 0..u64::MAX).unwrap();
        let marks: Vec<String> =
            path.iter().filter_map(|entry| upstream::mark(&entry.raw)).collect();
        if let Some(number) = marks.first().and_then(|mark| upstream::session_of(mark)) {
            let other = paths.insert(number, (marks, session.batches));
            assert!(other.is_none(), "conversation {number} is in two sessions");
        }
    }
    let (mut turns, mut breaks, mut batches) = (0, 0, 0);
    for conversation in conversations {
        let expected = conversation.marks();
        turns += expected.len() / 2;
        for mark in &expected {
            assert_eq!(places.get(mark), Some(&1), "{mark}");
        }
        if expected.is_empty() {
            continue;
        }
        let (path, made) = &paths[&conversation.number];
        assert_eq!(*path, expected, "conversation {}", conversation.number);
        let broken = upstream.breaks(conversation.number);
        assert!(broken as u64 <= *made, "{}: {broken} breaks, {made} batches", conversation.number);
        breaks += broken;
        batches += made;
    }
    println!(
        "cluster: {NODES} nodes, {} sessions, {turns} turns, {failed} requests sent again, {trouble:?}; \
         0 lost, 0 twice; {breaks} changes of prefixes by {batches} batches",
        sessions.len()
    );
    let (written, twice) = upstream.written();
    println!(
        "cluster: {written} questions were summarised by a model, {} of them twice",
        twice.len()
    );
    assert!(written > 0 && twice.is_empty(), "{written}: {twice:?}");
    assert!(turns > 200 && batches > 0, "{turns} turns, {batches} batches");
    assert_eq!(archive.verify(None).unwrap(), []);
}

/// An undo that was made elsewhere counts for the next request on every node, and so does a batch.
#[test]
fn what_one_node_edits_or_undoes_counts_on_all() {
    let Some(place) = NodePlace::find() else { return };
    let Some(server) = crate::server::server() else { return };
    let database = server.database();
    let address = server.address(&database, server.pooler_port.unwrap());
    let upstream = Upstream::start();
    let nodes: Vec<Node> = (0..2)
        .map(|_| Node::start(&place, &address, upstream.address, "--require-archive --budget 3000"))
        .collect();
    let archive = server.open(&database, false);
    let mut rng = Rng::new(7);
    let mut conversation = Conversation::new(1);
    let turn = |rng: &mut Rng, conversation: &mut Conversation, node: usize| {
        let body = conversation.ask(rng);
        post(&nodes[node].address, conversation, &body).unwrap();
        conversation.answered();
    };
    // Both know the session without edits; then one of them must shorten it.
    turn(&mut rng, &mut conversation, 0);
    turn(&mut rng, &mut conversation, 1);
    let batches = || archive.sessions(None, Page::ALL).unwrap().items[0].batches;
    while batches() == 0 {
        turn(&mut rng, &mut conversation, 0);
    }
    // The other one shows the same edits, although it has seen none of it: the prefix stays.
    let broken = upstream.breaks(1);
    turn(&mut rng, &mut conversation, 1);
    assert_eq!((upstream.breaks(1), batches()), (broken, 1));
    // A batch is undone by somebody else; what it hid is shown by both.
    let session = archive.sessions(None, Page::ALL).unwrap().items[0].id;
    archive.undo(session, None).unwrap().unwrap();
    let shown = upstream.newest(1);
    turn(&mut rng, &mut conversation, 1);
    assert!(upstream.newest(1).len() > shown.len() || batches() > 1, "the undo did not count");
    assert!(upstream.breaks(1) > broken);
    let entries = archive.path(session, None, 0..u64::MAX).unwrap().len();
    assert_eq!(entries, conversation.marks().len());
    // A pin counts, too: the entry stays in the window of whichever node makes the next batch.
    archive.pin(session, longhand_core::Seq(0), true).unwrap();
    let before = batches();
    while batches() == before {
        turn(&mut rng, &mut conversation, 1);
    }
    turn(&mut rng, &mut conversation, 0);
    assert!(upstream.newest(1).iter().any(|message| message.contains("ask-1-0-")));
}
