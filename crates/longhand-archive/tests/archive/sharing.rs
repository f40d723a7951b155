//! Several who use one file.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use longhand_archive::{Archive, ArchiveError, SqliteArchive, SqliteSettings};
use rusqlite::Connection;

use crate::common::{batch, fresh, user};

#[test]
fn each_sees_what_the_other_wrote() {
    let (_folder, one) = fresh();
    let other = SqliteArchive::open(one.path()).unwrap();
    for count in 0..10 {
        let (writer, reader) = if count % 2 == 0 { (&one, &other) } else { (&other, &one) };
        assert_eq!(writer.append("s", &[user(&format!("no{count}"))]).unwrap().first, count);
        assert_eq!(reader.head("s").unwrap().unwrap().entries, count + 1);
        assert_eq!(reader.search(None, &format!("no{count}"), 9).unwrap().len(), 1);
    }
    one.commit("s", &batch(0, 3)).unwrap();
    let late = other.commit("s", &batch(0, 5));
    assert!(matches!(late, Err(ArchiveError::Conflict { newest: 1, .. })), "{late:?}");
}

#[test]
fn two_that_write_at_once_both_get_their_place() {
    let (_folder, one) = fresh();
    let other = SqliteArchive::open(one.path()).unwrap();
    thread::scope(|scope| {
        for (archive, name) in [(&one, "one"), (&other, "other")] {
            for thread in 0..4 {
                scope.spawn(move || {
                    for count in 0..25 {
                        let said = format!("{name} {thread} {count}");
                        let seq = archive.append("s", &[user(&said)]).unwrap().first;
                        let there = archive.entries("s", seq..seq + 1).unwrap();
                        assert_eq!(there[0].raw, user(&said).raw);
                    }
                });
            }
        }
    });
    assert_eq!(one.head("s").unwrap().unwrap().entries, 200);
    assert_eq!(one.verify(None).unwrap(), []);
}

#[test]
fn a_lock_held_elsewhere_is_waited_for_and_then_named() {
    let (_folder, archive) = fresh();
    let path = archive.path().to_owned();
    drop(archive);
    let settings =
        SqliteSettings { wait_max: Duration::from_millis(300), ..SqliteSettings::default() };
    let archive = SqliteArchive::open_with(&path, &settings).unwrap();
    archive.append("s", &[user("before")]).unwrap();
    let other = Connection::open(&path).unwrap();

    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let started = Instant::now();
    let busy = archive.append("s", &[user("in vain")]);
    assert!(matches!(busy, Err(ArchiveError::Busy { .. })), "{busy:?}");
    assert!(started.elapsed() >= settings.wait_max);
    assert!(busy.unwrap_err().to_string().contains(&path.display().to_string()));
    // Readers wait for nobody.
    let started = Instant::now();
    assert_eq!(archive.head("s").unwrap().unwrap().entries, 1);
    assert_eq!(archive.search(None, "before", 9).unwrap().len(), 1);
    assert!(started.elapsed() < settings.wait_max);
    other.execute_batch("COMMIT").unwrap();

    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    thread::scope(|scope| {
        let append = scope.spawn(|| archive.append("s", &[user("after")]));
        thread::sleep(settings.wait_max / 3);
        other.execute_batch("COMMIT").unwrap();
        assert_eq!(append.join().unwrap().unwrap().first, 1);
    });
    assert_eq!(archive.verify(None).unwrap(), []);
}

#[test]
fn a_long_read_does_not_hold_up_writers() {
    let (_folder, archive) = fresh();
    for _ in 0..20 {
        archive.append("long", &vec![user(&"word ".repeat(200)); 100]).unwrap();
    }
    let (done, is_done) = mpsc::channel();
    thread::scope(|scope| {
        let archive = &archive;
        scope.spawn(move || {
            while is_done.try_recv().is_err() {
                assert_eq!(archive.search(Some("long"), "nowhere", 9).unwrap(), []);
            }
        });
        let started = Instant::now();
        for _ in 0..20 {
            archive.append("short", &[user("quick")]).unwrap();
        }
        done.send(()).unwrap();
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    });
}
