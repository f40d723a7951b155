//! A file that takes the place of an archive while that is in use, or after its process was killed.
//!
//! The log (`-wal`) stays behind under its name, beside a file that it does not belong to.

use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use longhand_archive::{After, Archive, FileError, SqliteArchive, Wish};
use tempfile::TempDir;

use crate::common::{begin, id, record, user};

const FILE: &str = "LONGHAND_REPLACED_FILE";

/// How another file comes to the place of the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// `mv other.db archive.db`
    Moved,
    /// `mv archive.db kept.db; mv other.db archive.db`
    Swapped,
    /// `cp other.db archive.db`
    Copied,
}

/// What the process with the archive has done when that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    HasWritten,
    HasRead,
    WasKilled,
}

#[test]
fn no_log_is_applied_to_a_file_that_it_does_not_belong_to() {
    for way in [Way::Moved, Way::Swapped, Way::Copied] {
        for holder in [Holder::HasWritten, Holder::HasRead, Holder::WasKilled] {
            for is_older_copy in [false, true] {
                check(way, holder, is_older_copy);
            }
        }
    }
}

fn check(way: Way, holder: Holder, is_older_copy: bool) {
    let told = format!("{way:?}, {holder:?}, older copy: {is_older_copy}");
    let stage = Stage::new(is_older_copy);
    let mut process = stage.start(holder);
    stage.replace(way);

    stage.look(&told);
    if holder != Holder::WasKilled {
        let answer = process.ask("write");
        assert!(answer.contains("replaced") || answer.contains("another file"), "{told}: {answer}");
        stage.look(&told);
        assert_eq!(process.ask("close"), "closed", "{told}");
        process.child.wait().unwrap();
    }
    stage.look(&told);

    // What the hint says: the log is put aside, and the archive is what was put there.
    for ending in ["-wal", "-shm"] {
        let _ = fs::remove_file(stage.beside(ending));
    }
    let archive = SqliteArchive::open(&stage.path).unwrap();
    stage.holds_what_was_put_there(&archive, &told);
    record(&archive, "other", &[user("on it goes")]);
    assert_eq!(archive.verify(None).unwrap(), [], "{told}");

    if way == Way::Swapped && holder == Holder::HasWritten {
        let kept = SqliteArchive::open(stage.folder.path().join("kept.db")).unwrap();
        assert_eq!(kept.entries(id("held"), 0..99).unwrap().len(), 24, "{told}");
        assert_eq!(kept.verify(None).unwrap(), [], "{told}");
    }
}

fn write(path: &Path, entries: usize) {
    let archive = SqliteArchive::open(path).unwrap();
    (0..entries).for_each(|_| drop(record(&archive, "held", &[user("said")])));
}

/// An archive with 20 entries, and another file for its place.
struct Stage {
    folder: TempDir,
    path: PathBuf,
    other: PathBuf,
    /// How many entries the sessions of the other file have: `held` and `other`.
    expected: [usize; 2],
}

impl Stage {
    fn new(is_older_copy: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("archive.db");
        let other = folder.path().join("other.db");
        write(&path, 10);
        if is_older_copy {
            fs::copy(&path, &other).unwrap();
        }
        write(&path, 10);
        let archive = SqliteArchive::open(&other).unwrap();
        record(&archive, "other", &[user("one"), user("two"), user("three")]);
        Self { folder, path, other, expected: [if is_older_copy { 10 } else { 0 }, 3] }
    }

    fn start(&self, holder: Holder) -> Process {
        let mut process = Process::start(&self.path);
        assert_eq!(process.ask("read"), "20");
        if holder != Holder::HasRead {
            (0..4).for_each(|_| assert_eq!(process.ask("write"), "written"));
        }
        if holder == Holder::WasKilled {
            process.child.kill().unwrap();
            process.child.wait().unwrap();
        }
        process
    }

    fn replace(&self, way: Way) {
        match way {
            Way::Moved => fs::rename(&self.other, &self.path).unwrap(),
            Way::Swapped => {
                fs::rename(&self.path, self.folder.path().join("kept.db")).unwrap();
                fs::rename(&self.other, &self.path).unwrap();
            }
            Way::Copied => drop(fs::copy(&self.other, &self.path).unwrap()),
        }
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(ending);
        name.into()
    }

    /// Another process opens the archive: it sees what was put there, or is told what is wrong.
    fn look(&self, told: &str) {
        match SqliteArchive::open(&self.path) {
            Ok(archive) => self.holds_what_was_put_there(&archive, told),
            Err(error) => match error.file_error() {
                Some(FileError::ForeignLog { log, .. }) => assert!(log.ends_with("-wal"), "{log}"),
                _ => panic!("{told}: {error:?}"),
            },
        }
    }

    fn holds_what_was_put_there(&self, archive: &SqliteArchive, told: &str) {
        let count = |name| archive.entries(id(name), 0..99).map_or(0, |entries| entries.len());
        assert_eq!(["held", "other"].map(count), self.expected, "{told}");
        assert_eq!(archive.verify(None).unwrap(), [], "{told}");
    }
}

/// A process that holds an archive open and does what it is told.
struct Process {
    child: Child,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Process {
    fn start(path: &Path) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["replaced::holder", "--exact", "--ignored", "--nocapture"])
            .env(FILE, path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { asks: child.stdin.take().unwrap(), answers, child }
    }

    fn ask(&mut self, what: &str) -> String {
        writeln!(self.asks, "{what}").unwrap();
        let mut line = String::new();
        // The test harness prints lines of its own.
        loop {
            line.clear();
            assert_ne!(self.answers.read_line(&mut line).unwrap(), 0, "the process is gone");
            if let Some((_, answer)) = line.split_once("answer: ") {
                return answer.trim_end().to_owned();
            }
        }
    }
}

#[test]
#[ignore = "the process that the tests above start; by itself it has nothing to do"]
fn holder() {
    let Ok(file) = env::var(FILE) else { return };
    let mut archive = Some(SqliteArchive::open(file).unwrap());
    for line in std::io::stdin().lines() {
        let open = archive.as_ref().unwrap();
        let answer = match line.unwrap().as_str() {
            "read" => open.entries(id("held"), 0..99).map(|entries| entries.len().to_string()),
            "write" => open
                .append(id("held"), After::Newest, &[user("more")])
                .map(|_| "written".to_owned()),
            _ => {
                archive = None;
                Ok("closed".to_owned())
            }
        };
        println!("answer: {}", answer.unwrap_or_else(|error| error.to_string()));
        if archive.is_none() {
            return;
        }
    }
}

/// A second opener in a process, and its end, take no locks from the first one.
#[test]
fn two_openers_in_one_process_keep_their_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("archive.db");
    let first = SqliteArchive::open(&path).unwrap();
    begin(&first, "held");
    record(&first, "held", &[user("one")]);
    drop(SqliteArchive::open(&path).unwrap());
    let mut process = Process::start(&path);
    assert_eq!(process.ask("write"), "written");
    assert_eq!(process.ask("close"), "closed");
    process.child.wait().unwrap();
    record(&first, "held", &[user("three")]);
    assert_eq!(first.entries(id("held"), 0..99).unwrap().len(), 3);
}

/// A log is known by the stamps in it, so every transaction that changes anything leaves one: a table
/// alone, too.
#[test]
fn a_log_with_nothing_but_a_new_table_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("archive.db");
    let archive = SqliteArchive::open(&path).unwrap();
    let wish = Wish { micros: 9, cap_micros: 5, at_ms: 1_000 };
    archive.reserve(&wish).unwrap();
    assert_eq!(SqliteArchive::open(&path).unwrap().verify(None).unwrap(), []);
}

/// A file that was made before there were stamps gets one, and nothing else changes.
#[test]
fn a_file_without_stamps_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("archive.db");
    write(&path, 3);
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch("DROP TABLE stamp").unwrap();
    drop(db);
    let archive = SqliteArchive::open(&path).unwrap();
    record(&archive, "held", &[user("four")]);
    // What is there now is in the log alone.
    let other = SqliteArchive::open(&path).unwrap();
    assert_eq!(other.entries(id("held"), 0..99).unwrap().len(), 4);
    assert_eq!(other.verify(None).unwrap(), []);
}
