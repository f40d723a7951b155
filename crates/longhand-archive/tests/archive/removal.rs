//! Removing sessions beside others who use the archive.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use longhand_archive::{Archive, NewBatch, Owner, RequestRecord, Scope, SqliteArchive, Unwiped};
use longhand_core::Seq;

use crate::common::{begin, fresh, id, record, stubs, user};

/// Long enough for any machine: it only ends a test that would hang.
const PATIENCE: Duration = Duration::from_mins(2);

const CANARY: &str = "canarykey";

/// How often the removed text is in the file and its log.
fn traces(path: &Path) -> Vec<(String, usize)> {
    let count = |ending: &str| {
        let name = format!("{}{ending}", path.display());
        let bytes = fs::read(&name).unwrap_or_default();
        (ending.to_owned(), memchr::memmem::find_iter(&bytes, CANARY).count())
    };
    ["", "-wal", "-shm"].map(count).into_iter().filter(|(_, found)| *found > 0).collect()
}

/// A session with the text wherever a session has text.
fn say_it_everywhere(archive: &dyn Archive, name: &str, entries: usize) {
    let said = |n: usize| user(&format!("{CANARY}{n} is number {n} of nobody's keys"));
    record(archive, name, &(0..entries).map(said).collect::<Vec<_>>());
    let long = user(&format!("{CANARY} {}", "long text ".repeat(3_000)));
    record(archive, name, &[long, user("said by everyone")]);
    let batch = NewBatch { receipt: format!("{{\"why\":\"{CANARY}\"}}"), ..stubs(0, 1, &[0]) };
    archive.commit(id(name), &batch).unwrap();
    archive.pin(id(name), Seq(0), true).unwrap();
    archive.put_derived(id(name), CANARY, CANARY).unwrap();
    let preamble = archive.keep_preamble(Owner::LOCAL, &format!("system {CANARY}")).unwrap();
    let request = RequestRecord {
        preamble: Some(preamble),
        model: CANARY.to_owned(),
        answer: Some(CANARY.to_owned()),
        ..RequestRecord::default()
    };
    archive.log_request(id(name), &request).unwrap();
}

#[test]
fn nothing_of_a_removed_session_is_left_beside_a_program_that_writes() {
    let (folder, proxy) = fresh();
    let path = folder.path().join("archive.db");
    say_it_everywhere(&proxy, "drop", 400);
    record(&proxy, "keep", &[user("said by everyone")]);
    assert!(!traces(&path).is_empty());
    let has_ended = AtomicBool::new(false);
    let written = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut written = 1;
            while !has_ended.load(Ordering::Relaxed) || written < 20 {
                record(&proxy, "keep", &[user(&format!("turn {written} of another session"))]);
                written += 1;
            }
            written
        });
        let command = SqliteArchive::open(&path).unwrap();
        assert!(command.remove(id("drop")).unwrap());
        assert_eq!(command.wipe(PATIENCE).unwrap(), Unwiped::Nothing);
        has_ended.store(true, Ordering::Relaxed);
        let written = writer.join().unwrap();
        assert_eq!(traces(&path), [], "while both have it open");
        written
    });
    assert_eq!(traces(&path), [], "when the command has ended");
    record(&proxy, "keep", &[user("the proxy goes on")]);
    assert_eq!(proxy.head(id("keep")).unwrap().unwrap().entries, written + 1);
    assert_eq!(proxy.search(&Scope::All, CANARY, 9).unwrap(), []);
    assert_eq!(proxy.search(&Scope::All, "everyone", 9).unwrap().len(), 1);
    assert_eq!(proxy.verify(None).unwrap(), []);
    drop(proxy);
    assert_eq!(traces(&path), []);
}

#[test]
fn a_reader_that_needs_the_log_is_told_of_and_waited_for() {
    let (folder, archive) = fresh();
    let path = folder.path().join("archive.db");
    say_it_everywhere(&archive, "drop", 40);
    record(&archive, "keep", &[user("said by everyone")]);
    let reader = rusqlite::Connection::open(&path).unwrap();
    let count = "BEGIN; SELECT count(*) FROM entry";
    reader.execute_batch(count).unwrap();
    archive.remove(id("drop")).unwrap();
    let unwiped = archive.wipe(Duration::from_millis(300)).unwrap();
    assert_eq!(unwiped, Unwiped::Log(fs::canonicalize(&path).unwrap().with_extension("db-wal")));
    // It is no obstacle to anything else.
    record(&archive, "keep", &[user("more")]);
    assert_eq!(archive.verify(None).unwrap(), []);
    reader.execute_batch("COMMIT").unwrap();
    assert_eq!(archive.wipe(PATIENCE).unwrap(), Unwiped::Nothing);
    assert_eq!(traces(&path), []);
    drop(archive);
    assert_eq!(SqliteArchive::open(&path).unwrap().verify(None).unwrap(), []);
}

#[test]
fn a_name_can_be_used_again_while_its_last_session_is_being_wiped() {
    let (folder, archive) = fresh();
    for round in 0..5 {
        say_it_everywhere(&archive, "work", 60);
        archive.remove(id("work")).unwrap();
        begin(&archive, "work");
        record(&archive, "work", &[user(&format!("new beginning {round}"))]);
        // What gets the ids of removed entries is found, too.
        assert_eq!(archive.search(&Scope::All, "beginning", 9).unwrap().len(), 1);
        archive.remove(id("work")).unwrap();
    }
    assert_eq!(archive.wipe(PATIENCE).unwrap(), Unwiped::Nothing);
    assert_eq!(archive.verify(None).unwrap(), []);
    assert_eq!(traces(&folder.path().join("archive.db")), []);
}
