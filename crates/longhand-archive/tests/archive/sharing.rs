//! Several who use one file.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use longhand_archive::{
    After, Archive, ArchiveError, Conflict, Ledger, Scope, SqliteArchive, SqliteSettings, wait,
};
use longhand_core::Seq;
use rusqlite::Connection;

use crate::common::{append_to, begin, commit_to, fresh, id, record, stubs, user, write_one};

#[test]
fn each_sees_what_the_other_wrote() {
    let (_folder, one) = fresh();
    let other = SqliteArchive::open(one.file()).unwrap();
    for count in 0..10 {
        let (writer, reader) = if count % 2 == 0 { (&one, &other) } else { (&other, &one) };
        assert_eq!(record(writer, "s", &[user(&format!("no{count}"))]).seqs, [Seq(count)]);
        assert_eq!(reader.head(id("s")).unwrap().unwrap().entries, count + 1);
        assert_eq!(reader.search(&Scope::All, &format!("no{count}"), 9).unwrap().len(), 1);
    }
    one.commit(id("s"), &stubs(0, 9, &[3])).unwrap();
    let late = other.commit(id("s"), &stubs(0, 9, &[5]));
    let Err(ArchiveError::Conflict { conflict, .. }) = late else { panic!("{late:?}") };
    assert_eq!(conflict, Conflict::Batch { after: 0, newest: 1 });
    other.undo(id("s"), None).unwrap();
    assert_eq!(one.live(id("s"), None).unwrap(), []);
}

#[test]
fn two_that_write_at_once_both_get_their_place() {
    let (_folder, one) = fresh();
    let other = SqliteArchive::open(one.file()).unwrap();
    thread::scope(|scope| {
        for (archive, name) in [(&one, "one"), (&other, "other")] {
            for thread in 0..4 {
                scope.spawn(move || {
                    for count in 0..25 {
                        let said = format!("{name} {thread} {count}");
                        let seq = record(archive, "s", &[user(&said)]).seqs[0].0;
                        let there = archive.entries(id("s"), seq..seq + 1).unwrap();
                        assert_eq!(there[0].raw, user(&said).raw);
                    }
                });
            }
        }
    });
    assert_eq!(one.head(id("s")).unwrap().unwrap().entries, 200);
    assert_eq!(one.verify(None).unwrap(), []);
}

#[test]
fn of_two_that_saw_the_same_version_one_is_refused() {
    let (_folder, one) = fresh();
    let other = SqliteArchive::open(one.file()).unwrap();
    begin(&one, "s");
    let mut told = Vec::new();
    for count in 0..20 {
        let seen = wait(Ledger::open(&one, id("s"))).unwrap().unwrap();
        let add = |archive: &SqliteArchive, name: &str| {
            let mut ledger = seen.clone();
            let (mut write, state) = (ledger.write(), &mut ledger.state);
            let entry = user(&format!("{name} {count}"));
            append_to(state, &mut write, state.tree().newest(), &[entry]).unwrap();
            commit_to(state, &mut write, &stubs(count, count, &[count]));
            write_one(archive, write)
        };
        let outcomes = thread::scope(|scope| {
            let writer = scope.spawn(|| add(&one, "one"));
            [add(&other, "other"), writer.join().unwrap()]
        });
        assert_ne!(outcomes[0].is_ok(), outcomes[1].is_ok());
        let is_one = outcomes[1].is_ok();
        for outcome in outcomes {
            match outcome {
                Ok(version) => assert_eq!(version.batches, count + 1),
                Err(ArchiveError::Conflict { conflict, .. }) => {
                    assert_eq!(conflict, Conflict::Version);
                }
                Err(error) => panic!("{error}"),
            }
        }
        told.push(user(&format!("{} {count}", if is_one { "one" } else { "other" })));
        let entries = other.entries(id("s"), 0..99).unwrap();
        assert!(entries.iter().map(|entry| &entry.raw).eq(told.iter().map(|entry| &entry.raw)));
    }
    assert_eq!(one.live(id("s"), None).unwrap().len(), 20);
    assert_eq!(one.verify(None).unwrap(), []);
}

#[test]
fn a_lock_held_elsewhere_is_waited_for_and_then_named() {
    let (_folder, archive) = fresh();
    let path = archive.file().to_owned();
    drop(archive);
    let settings =
        SqliteSettings { wait_max: Duration::from_millis(300), ..SqliteSettings::default() };
    let archive = SqliteArchive::open_with(&path, &settings).unwrap();
    record(&archive, "s", &[user("before")]);
    let other = Connection::open(&path).unwrap();

    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let started = Instant::now();
    let busy = archive.append(id("s"), After::Newest, &[user("in vain")]);
    assert!(matches!(busy, Err(ArchiveError::Busy { .. })), "{busy:?}");
    assert!(started.elapsed() >= settings.wait_max);
    assert!(busy.unwrap_err().to_string().contains(&path.display().to_string()));
    // Readers wait for nobody: the lock is still held.
    assert_eq!(archive.head(id("s")).unwrap().unwrap().entries, 1);
    assert_eq!(archive.search(&Scope::All, "before", 9).unwrap().len(), 1);
    other.execute_batch("COMMIT").unwrap();

    drop(archive);
    let archive = SqliteArchive::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    thread::scope(|scope| {
        let append = scope.spawn(|| archive.append(id("s"), After::Newest, &[user("after")]));
        thread::sleep(Duration::from_millis(100));
        other.execute_batch("COMMIT").unwrap();
        assert_eq!(append.join().unwrap().unwrap().seqs, [Seq(1)]);
    });
    assert_eq!(archive.verify(None).unwrap(), []);
}

#[test]
fn a_long_read_does_not_hold_up_writers() {
    let (_folder, archive) = fresh();
    for _ in 0..20 {
        record(&archive, "long", &vec![user(&"word ".repeat(200)); 100]);
    }
    let (done, is_done) = mpsc::channel();
    thread::scope(|scope| {
        let archive = &archive;
        scope.spawn(move || {
            while is_done.try_recv().is_err() {
                assert_eq!(archive.search(&Scope::Session(id("long")), "nowhere", 9).unwrap(), []);
            }
        });
        for _ in 0..20 {
            record(archive, "short", &[user("quick")]);
        }
        done.send(()).unwrap();
    });
}
