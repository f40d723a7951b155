//! Writers that are killed.
//!
//! `LONGHAND_KILLS` says how often; the default is for every day.

use std::collections::HashMap;
use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use longhand_archive::{
    Archive, ArchiveError, NewEntry, PreambleId, RequestRecord, SqliteArchive, Write,
};
use longhand_core::Seq;
use longhand_testkit::rng::Rng;

use crate::common::{append_write, begin, fork, id, record, reply, stubs, user, write_one};

const KILLS: usize = 30;
const FILE: &str = "LONGHAND_CRASH_FILE";
const ACKS: &str = "LONGHAND_CRASH_ACKS";
const WRITER: &str = "LONGHAND_CRASH_WRITER";

#[test]
fn nothing_acknowledged_is_lost_or_doubled_by_kill() {
    let kills = env::var("LONGHAND_KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("archive.db");
    let first = env::var("LONGHAND_SEED_FIRST").map_or(7, |first| first.parse().unwrap());
    let mut rng = Rng::new(first);
    let mut seen = Seen::default();
    for round in 0..kills {
        let acks = [0, 1].map(|writer| folder.path().join(format!("acks-{writer}")));
        let mut writers: Vec<Child> = (0..2)
            .map(|writer| start(&file, &acks[writer], &format!("{round}.{writer}")))
            .collect();
        // Sometimes before the archive exists, sometimes in the middle of a sync.
        let life = Duration::from_micros(rng.range(0..150_000) as u64);
        thread::sleep(life);
        if rng.chance(0.5) {
            writers[0].kill().unwrap();
            thread::sleep(life / 4);
        }
        for writer in &mut writers {
            writer.kill().unwrap();
            writer.wait().unwrap();
        }
        for acks in &acks {
            seen.read(acks);
        }
        let archive = SqliteArchive::open(&file).unwrap();
        seen.check(&archive);
        assert_eq!(archive.verify(None).unwrap(), [], "after kill {round}");
    }
    println!("kill -9: {kills} kills, {} acknowledged entries, none lost", seen.acknowledged);
    assert!(kills < 10 || seen.acknowledged > kills, "the writers hardly wrote");
}

fn start(file: &Path, acks: &Path, name: &str) -> Child {
    File::create(acks).unwrap();
    Command::new(env::current_exe().unwrap())
        .args(["crash::writer", "--exact", "--ignored", "--nocapture"])
        .envs([(FILE, file.as_os_str()), (ACKS, acks.as_os_str()), (WRITER, name.as_ref())])
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

/// The program that is killed: it writes until then, and notes every answer.
#[test]
#[ignore = "the process that the tests above start and kill; by itself it has nothing to do"]
fn writer() {
    let (Ok(file), Ok(acks), Ok(name)) = (env::var(FILE), env::var(ACKS), env::var(WRITER)) else {
        return;
    };
    let archive = SqliteArchive::open(file).unwrap();
    let acks = Mutex::new(OpenOptions::new().append(true).open(acks).unwrap());
    thread::scope(|scope| {
        for thread in 0..3 {
            let (archive, acks, name) = (&archive, &acks, &name);
            scope.spawn(move || {
                let private = format!("own {name}.{thread}");
                for count in 0.. {
                    let session = if thread < 2 { "shared" } else { &private };
                    let said =
                        format!("{name}.{thread} {count} {}", "and so on ".repeat(count % 50));
                    let entries = [user(&said), reply(&said)];
                    let seq = record(archive, session, &entries).seqs[0].0;
                    let ack = format!("{session}\t{seq}\t{said}\n");
                    acks.lock().unwrap().write_all(ack.as_bytes()).unwrap();
                    if thread == 2 {
                        other_work(archive, &private, count, &entries);
                    }
                }
            });
        }
    });
}

/// Batches, forks, pins and removals, so that they are cut off as well.
fn other_work(archive: &SqliteArchive, private: &str, count: usize, entries: &[NewEntry]) {
    let live = archive.live(id(private), None).unwrap();
    let newest = live.last().map_or(0, |batch| batch.number);
    match count % 5 {
        0 => drop(archive.commit(id(private), &stubs(newest, 2 * count as u64, &[0])).unwrap()),
        1 => archive.pin(id(private), Seq(count as u64), true).unwrap(),
        2 => scratch(archive, &entries[0]),
        // These messages are shared with other sessions, one of which is removed now and then.
        3 => {
            begin(archive, "forks");
            fork(archive, "forks", None, entries);
        }
        _ => drop(archive.remove(id("scratch")).unwrap()),
    }
}

/// Adds some of everything to a session that another writer may be about to remove.
fn scratch(archive: &SqliteArchive, entry: &NewEntry) {
    loop {
        let request = RequestRecord {
            preamble: Some(PreambleId::of(&entry.raw)),
            answer: Some(entry.text.clone()),
            ..RequestRecord::default()
        };
        let write = Write {
            preambles: vec![entry.raw.clone()],
            requests: vec![request],
            ..append_write(archive, "scratch", &vec![entry.clone(); 40])
        };
        match write_one(archive, write) {
            Ok(_) => return,
            // Another writer has added to it, or removed it.
            Err(ArchiveError::Conflict { .. } | ArchiveError::UnknownSession { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// What was acknowledged so far.
#[derive(Default)]
struct Seen {
    /// By session, place and text.
    acks: HashMap<String, Vec<(u64, String)>>,
    acknowledged: usize,
}

impl Seen {
    fn read(&mut self, acks: &Path) {
        let text = fs::read_to_string(acks).unwrap();
        // The last line may be cut off; then its writer was not told.
        for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            let mut parts = line.trim_end_matches('\n').split('\t');
            let (session, seq, said) = (parts.next(), parts.next(), parts.next());
            let ack = (seq.unwrap().parse().unwrap(), said.unwrap().to_owned());
            self.acks.entry(session.unwrap().to_owned()).or_default().push(ack);
            self.acknowledged += 1;
        }
    }

    fn check(&mut self, archive: &SqliteArchive) {
        for (session, acks) in &self.acks {
            let entries = archive.entries(id(session), 0..u64::MAX).unwrap();
            for (seq, said) in acks {
                let pair = &entries[*seq as usize..][..2];
                assert_eq!(pair[0].raw, user(said).raw, "{session} {seq}");
                assert_eq!(pair[1].raw, reply(said).raw, "{session} {seq}");
                assert_eq!(pair[0].round, pair[1].round);
            }
            // Every text is there once, as a pair, and in the order of its writer.
            let mut counts: HashMap<&str, i64> = HashMap::new();
            for pair in entries.chunks(2) {
                assert_eq!(pair[0].raw, pair[1].raw);
                let said = pair[0].raw.split("\"content\":\"").nth(1).unwrap();
                let (writer, rest) = said.split_once(' ').unwrap();
                let count = rest.split(' ').next().unwrap().parse().unwrap();
                let before = counts.insert(writer, count).unwrap_or(-1);
                assert!(before < count, "{session}: {writer} {count} after {before}");
            }
        }
        // Sessions of writers that are gone do not change any more.
        self.acks.retain(|session, _| session == "shared");
    }
}
