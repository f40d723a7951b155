//! Two writers with states of their own against one archive, in seeded histories.
//!
//! `LONGHAND_HISTORIES` says how many, `LONGHAND_SEED_FIRST` which is the first; the defaults are for every day. Of
//! a long run, one history in ten has a file.

use std::env;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use longhand_archive::{
    After, Archive, ArchiveError, Ledger, MemoryArchive, Owner, SqliteArchive, Write, wait,
};
use longhand_core::Seq;
use longhand_core::session::SessionState;
use longhand_testkit::faulty::{Fault, Faulty};
use longhand_testkit::two_writers::{Happened, play};

use crate::common::{begin, fork, fresh, id, named, quick_folder, record, reply, user, write_one};

fn setting(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |value| value.parse().unwrap())
}

/// Plays histories, and returns what happened in all of them together.
fn play_all(count: u64, mut one: impl FnMut(u64) -> Happened) -> Happened {
    let first = setting("LONGHAND_SEED_FIRST", 0);
    let mut all = Happened::default();
    for seed in first..first + count {
        let Happened { writes, conflicts, failures, births, records } = one(seed);
        all.writes += writes;
        all.conflicts += conflicts;
        all.failures += failures;
        all.births += births;
        all.records += records;
    }
    println!("{count} histories: {all:?}");
    // A history in which nobody is ever in another's way proves nothing.
    assert!(all.conflicts > count && all.births > count, "{all:?}");
    all
}

#[test]
fn two_writers_agree_with_memory_on_what_there_is() {
    let count = setting("LONGHAND_HISTORIES", 1_000);
    play_all(count, |seed| {
        let archive = MemoryArchive::new();
        play(seed, &archive, &archive)
    });
}

/// Each has connections of its own, as another process has.
#[test]
fn two_writers_agree_with_a_file_on_what_there_is() {
    let count = setting("LONGHAND_HISTORIES", 1_000) / 10;
    play_all(count, |seed| {
        let folder = quick_folder();
        let one = SqliteArchive::open(folder.path().join("archive.db")).unwrap();
        let other = SqliteArchive::open(one.file()).unwrap();
        let happened = play(seed, &one, &other);
        assert_eq!(one.verify(None).unwrap(), []);
        happened
    });
}

/// A ledger of a session with a fork, so that it does not know all links.
fn opened(archive: &dyn Archive) -> Ledger {
    record(archive, "s", &[user("0"), reply("1"), user("2"), reply("3")]);
    fork(archive, "s", Some(0), &[user("4")]);
    wait(Ledger::open(archive, id("s"))).unwrap().unwrap()
}

#[test]
fn what_a_session_that_is_gone_lacks_is_not_asked_for_again() {
    let (done, is_done) = mpsc::channel();
    thread::spawn(move || {
        let archive = MemoryArchive::new();
        let mut ledger = opened(&archive);
        archive.remove(id("s")).unwrap();
        let outcome = wait(ledger.append(&archive, After::Entry(Some(Seq(2))), &[user("new")]));
        done.send(outcome).unwrap();
    });
    let outcome = is_done.recv_timeout(Duration::from_secs(10)).expect("an answer");
    assert!(matches!(outcome, Err(ArchiveError::UnknownSession { .. })), "{outcome:?}");
}

#[test]
fn what_a_session_lacks_does_not_come_from_another_one_that_has_its_id() {
    let archive = MemoryArchive::new();
    let mut ledger = opened(&archive);
    archive.remove(id("s")).unwrap();
    record(&archive, "s", &[user("other")]);
    fork(&archive, "s", None, &[user("roots"), reply("a")]);
    fork(&archive, "s", None, &[user("of another"), reply("b")]);
    let outcome = wait(ledger.append(&archive, After::Entry(Some(Seq(3))), &[user("new")]));
    assert_eq!(outcome.unwrap().seqs, [Seq(5)]);
}

#[test]
fn a_pin_that_could_not_be_written_is_not_in_the_state_either() {
    let storage = Faulty::new(Arc::new(MemoryArchive::new()), Fault::None);
    let mut ledger = opened(&storage);
    let pin = |state: &mut SessionState, write: &mut Write| {
        write.pins = state.pinned(Seq(1), true);
        state.set_pins(write.pins.clone().unwrap_or_default());
        Ok(write.pins.is_some())
    };
    storage.set(Fault::ReadOnly);
    wait(ledger.change(&storage, pin)).unwrap_err();
    storage.set(Fault::None);
    assert_eq!(ledger.state.pins(), []);
    assert!(
        wait(ledger.change(&storage, pin)).unwrap(),
        "the pin is acknowledged, but not written"
    );
    assert_eq!(storage.head(id("s")).unwrap().unwrap().pins, [Seq(1)]);
}

#[test]
fn what_begins_a_session_that_is_there_is_refused_whatever_it_expects() {
    let (memory, (_folder, sqlite)) = (MemoryArchive::new(), fresh());
    for archive in [&memory as &dyn Archive, &sqlite] {
        record(archive, "s", &[user("0")]);
        let new = Some(named(Owner::LOCAL, "s"));
        let write = Write { session: id("s"), begin: new, ..Write::default() };
        let outcome = write_one(archive, write);
        assert_eq!(archive.head(id("s")).unwrap().unwrap().entries, 1);
        assert!(matches!(outcome, Err(ArchiveError::Conflict { .. })), "{outcome:?}");
    }
}

#[test]
fn nothing_is_removed_from_storage_that_cannot_be_written() {
    let storage = Faulty::new(Arc::new(MemoryArchive::new()), Fault::None);
    begin(&storage, "s");
    storage.set(Fault::ReadOnly);
    storage.remove(id("s")).unwrap_err();
}
