//! What a request waits for: few round trips to the database, and none while that is away.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use longhand_archive::{Archive, Page};
use longhand_testkit::rng::Rng;

use crate::cluster::client::{Conversation, KEYS, post};
use crate::cluster::node::{Node, NodePlace};
use crate::cluster::upstream::{self, Upstream};
use crate::server::server;
use crate::wire::Wire;

/// How late the database answers while round trips are counted.
const LATE: Duration = Duration::from_millis(220);

fn turn(rng: &mut Rng, conversation: &mut Conversation, node: &Node) -> Duration {
    let body = conversation.ask(rng);
    let begun = Instant::now();
    post(&node.address, conversation, &body).unwrap();
    conversation.answered();
    begun.elapsed()
}

/// A request of a session that a node knows waits for one round trip before it is sent on, and of one that it does not
/// know, for three: whatever was written to them elsewhere.
#[test]
fn a_request_waits_for_few_round_trips() {
    let Some(place) = NodePlace::find() else { return };
    let Some(server) = server() else { return };
    let database = server.database();
    let wire = Wire::to(server.port);
    let upstream = Upstream::start();
    let far = format!("{}?sslmode=disable", server.address(&database, wire.port));
    let far = Node::start(&place, &far, upstream.address, "--budget 3000");
    let near = server.address(&database, server.port);
    let near = Node::start(&place, &near, upstream.address, "--budget 3000");
    // Every connection of the far node is made before anything is late.
    for _ in 0..3 {
        thread::scope(|scope| {
            for number in 50..62 {
                let far = &far;
                scope.spawn(move || {
                    let mut rng = Rng::new(number as u64);
                    turn(&mut rng, &mut Conversation::new(number), far);
                });
            }
        });
    }
    let mut rng = Rng::new(3);
    let archive = server.open(&database, false);
    let mut waited = Vec::new();
    for (number, is_known, has_edits) in
        [(1, true, false), (2, true, true), (4, false, false), (5, false, true)]
    {
        let mut conversation = Conversation::new(number);
        let turns = if has_edits { 14 } else { 3 };
        for _ in 0..turns {
            turn(&mut rng, &mut conversation, if is_known { &far } else { &near });
        }
        if is_known {
            // Somebody else goes on with it.
            turn(&mut rng, &mut conversation, &near);
        }
        thread::sleep(Duration::from_millis(500));
        let edits = upstream.newest(number).iter().any(|message| message.contains("h:"));
        assert_eq!(edits, has_edits, "conversation {number}");
        wire.set_late(LATE);
        let body = conversation.ask_briefly();
        let begun = Instant::now();
        post(&far.address, &conversation, &body).unwrap();
        let trips =
            (upstream.called_at(number).unwrap() - begun).as_secs_f64() / LATE.as_secs_f64();
        wire.set_late(Duration::ZERO);
        conversation.answered();
        waited.push((number, is_known, has_edits, trips));
        // It takes a while until all that is late has come.
        thread::sleep(LATE * 8);
    }
    println!("round trips before the upstream is called (session, known, edits): {waited:.2?}");
    for (number, is_known, has_edits, trips) in waited {
        let most = if is_known { 1.0 } else { 3.0 };
        assert!(
            trips < most + 0.95,
            "{number}: {trips:.2} (known: {is_known}, edits: {has_edits})"
        );
    }
    drop((far, near));
    assert_eq!(archive.verify(None).unwrap(), []);
}

/// While the database answers after ten seconds, requests go on at once; what they say is written when it is back, and until then
/// readiness says that it is missing.
#[test]
fn a_database_that_is_late_slows_no_request_and_loses_nothing() {
    let Some(place) = NodePlace::find() else { return };
    let Some(server) = server() else { return };
    let database = server.database();
    let wire = Wire::to(server.port);
    let upstream = Upstream::start();
    let address = format!("{}?sslmode=disable", server.address(&database, wire.port));
    let node = Node::start(&place, &address, upstream.address, "--budget 100000");
    let talk = |first: usize, conversations: usize| -> Vec<Duration> {
        let times = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for client in 0..4 {
                let (node, times) = (&node, &times);
                scope.spawn(move || {
                    let mut rng = Rng::new(client as u64);
                    for at in 0..conversations {
                        let mut conversation = Conversation::new(first + at * 4 + client);
                        for _ in 0..10 {
                            let time = turn(&mut rng, &mut conversation, node);
                            times.lock().unwrap().push(time);
                        }
                    }
                });
            }
        });
        let mut times = times.into_inner().unwrap();
        times.sort_unstable();
        times
    };
    let p99 = |times: &[Duration]| times[times.len() * 99 / 100];
    let usual = talk(1_000, 10);
    wire.set_late(Duration::from_secs(10));
    let late = talk(2_000, 20);
    let readiness = ready(&node.address);
    assert!(readiness.contains("\"archive\":false"), "{readiness}");
    assert!(readiness.contains("\"messages\":"), "{readiness}");
    wire.set_late(Duration::ZERO);
    println!(
        "requests: {} with p99 {:?}; {} with p99 {:?}, at most {:?}, while the database answers after 10 s",
        usual.len(),
        p99(&usual),
        late.len(),
        p99(&late),
        late.last().unwrap(),
    );
    assert!(
        p99(&late) < p99(&usual) + Duration::from_millis(50),
        "{:?} in the place of {:?}",
        p99(&late),
        p99(&usual)
    );
    // Everything arrives, once.
    let begun = Instant::now();
    while !ready(&node.address).contains("\"missing\":[]") {
        assert!(begun.elapsed() < Duration::from_secs(60), "{}", ready(&node.address));
        thread::sleep(Duration::from_millis(200));
    }
    let archive = server.open(&database, false);
    let mut marks: Vec<String> = Vec::new();
    for session in archive.sessions(None, Page::ALL).unwrap().items {
        let entries = archive.entries(session.id, 0..u64::MAX).unwrap();
        marks.extend(entries.iter().filter_map(|entry| upstream::mark(&entry.raw)));
    }
    let all = marks.len();
    marks.sort_unstable();
    marks.dedup();
    assert_eq!((all, marks.len()), (2 * (usual.len() + late.len()), all));
    assert_eq!(archive.verify(None).unwrap(), []);
    // Those that it opened for what was late are closed again, or in its pool.
    assert!(wire.connections() <= 8, "{}", wire.connections());
}

fn ready(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET /longhand/ready HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\nconnection: close\r\n\r\n",
        KEYS[0]
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
