//! Sessions and archives that are moved, copied and removed while others use them.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use longhand::{Archive, Owner, SessionId, SqliteArchive};
use longhand_archive::{After, NewBatch, NewEntry, NewSession, RequestRecord};
use longhand_core::{Batch, Edit, Handle, Place, Seq};
use serde_json::json;

use crate::run::{FinishedRun, Folder};

fn done(run: FinishedRun) -> FinishedRun {
    assert_eq!((run.status, run.stderr.as_str()), (0, ""), "{run:?}");
    run
}

fn said(role: &str, text: &str) -> NewEntry {
    let raw = json!({"role": role, "content": text}).to_string();
    longhand::driver::new_entry("chat", raw, role == "user", 1_700_000_000_000).unwrap()
}

fn id(name: &str) -> SessionId {
    SessionId::named(Owner::LOCAL, name)
}

fn begin(archive: &dyn Archive, name: &str) -> SessionId {
    let new =
        NewSession { name: name.to_owned(), dialect: "chat".to_owned(), ..NewSession::default() };
    archive.begin(id(name), &new).unwrap();
    id(name)
}

/// A session in which the user took a message back, with a pin, batches, an undo and a request.
fn edited(folder: &Folder) {
    let archive = SqliteArchive::open(folder.path("a.db")).unwrap();
    let work = begin(&archive, "work");
    let opening = [said("user", "Tidy up."), said("assistant", "What may I delete?")];
    archive.append(work, After::Newest, &opening).unwrap();
    let wrong = [said("user", "delete the WRONG folder"), said("assistant", "Deleted.")];
    archive.append(work, After::Entry(Some(Seq(1))), &wrong).unwrap();
    let right = [said("user", "delete the right folder"), said("assistant", "It is gone.")];
    archive.append(work, After::Entry(Some(Seq(1))), &right).unwrap();
    for after in 0..2 {
        let at = Place { entry: Seq(after), part: 0 };
        let handle = Handle::of([format!("{after}").as_str()]);
        let edits = vec![Edit::Stub { at, handle, text: "[out of sight]".to_owned() }];
        let batch = Batch { head: Seq(5), edits, ..Batch::default() };
        let batch = NewBatch { after, batch, receipt: "{}".to_owned(), at_ms: 1 };
        archive.commit(work, &batch).unwrap();
    }
    archive.undo(work, None).unwrap();
    archive.pin(work, Seq(0), true).unwrap();
    let preamble = archive.keep_preamble(Owner::LOCAL, "You are careful.").unwrap();
    let request =
        RequestRecord { preamble: Some(preamble), head: Some(Seq(5)), ..RequestRecord::default() };
    archive.log_request(work, &request).unwrap();
    archive.put_derived(work, "story", "how it went").unwrap();
}

#[test]
fn an_export_brings_back_the_whole_session_and_no_retracted_branch() {
    let folder = Folder::new();
    edited(&folder);
    done(folder.run("export work --archive a.db -o work.jsonl"));
    let export = folder.read("work.jsonl");
    done(folder.run("import work.jsonl --archive b.db"));
    done(folder.run_fed("import --archive c.db", export.as_bytes()));
    for copy in ["b.db", "c.db"] {
        assert_eq!(done(folder.run(&format!("export work --archive {copy}"))).stdout, export);
        done(folder.run(&format!("verify --archive {copy}")));
        let context = done(folder.run(&format!("context work --archive {copy}"))).stdout;
        assert!(context.contains("right folder") && !context.contains("WRONG"), "{context}");
        for command in ["log work --json", "ls --json", "show work --json", "usage --json"] {
            let shown =
                |archive| done(folder.run(&format!("{command} --archive {archive}"))).stdout;
            assert_eq!(shown(copy), shown("a.db"), "{command}");
        }
    }
    let again = done(folder.run("import work.jsonl --archive b.db")).stdout;
    assert!(again.contains("nothing was added"), "{again}");
    assert_eq!(done(folder.run("export work --archive b.db")).stdout, export);
    // The first messages alone are not what is exported, but the messages of a copy are.
    done(folder.run("import work.jsonl --archive b.db --id copy --redact"));
    let context = done(folder.run("context copy --archive b.db")).stdout;
    assert!(context.contains("right folder") && !context.contains("WRONG"), "{context}");
}

#[test]
fn an_export_that_is_not_whole_is_refused_and_leaves_nothing() {
    let folder = Folder::new();
    edited(&folder);
    done(folder.run("export work --archive a.db -o work.jsonl"));
    let export = folder.read("work.jsonl");
    let lines: Vec<&str> = export.lines().collect();
    let without = |at: usize| [&lines[..at], &lines[at + 1..]].concat().join("\n");
    for (bad, words) in [
        (lines[..4].join("\n"), &["cut off after line 4", "hint: nothing was imported"][..]),
        (export[..export.len() - 300].to_owned(), &["line "]),
        (without(lines.len() - 2), &["the export was changed", "hint: "]),
        (without(3), &["line 4: entry 2 cannot follow here"]),
        (export.replace("the right folder", "the left folder"), &["its checksum is wrong"]),
        (
            export.replace("\"version\":4", "\"version\":99"),
            &["version 99", "hint: a later release"],
        ),
    ] {
        folder.write("bad.jsonl", &bad);
        folder.run("import bad.jsonl --archive b.db").assert_refused(words);
        assert!(!folder.path("b.db").exists(), "{words:?}");
    }
    folder.run("import work.jsonl --archive b.db --max-input 100").assert_refused(&["100 bytes"]);
    // What is there and differs is named.
    let archive = SqliteArchive::open(folder.path("b.db")).unwrap();
    begin(&archive, "work");
    archive.append(id("work"), After::Newest, &[said("user", "Something else.")]).unwrap();
    drop(archive);
    let named = format!("session \"work\" ({})", id("work"));
    folder.run("import work.jsonl --archive b.db").assert_refused(&[
        &named,
        "other content",
        "hint: --id",
    ]);
    done(folder.run("import work.jsonl --archive b.db --append"));
    let context = done(folder.run("context work --archive b.db")).stdout;
    assert!(context.contains("Something else.") && context.contains("right folder"), "{context}");
    assert!(!context.contains("WRONG"), "{context}");
}

#[test]
fn a_copy_that_lags_behind_is_completed() {
    let folder = Folder::new();
    edited(&folder);
    done(folder.run("export work --archive a.db -o early.jsonl"));
    done(folder.run("import early.jsonl --archive b.db"));
    let archive = SqliteArchive::open(folder.path("a.db")).unwrap();
    archive.append(id("work"), After::Newest, &[said("user", "And the logs?")]).unwrap();
    drop(archive);
    done(folder.run("export work --archive a.db -o late.jsonl"));
    let told = done(folder.run("import late.jsonl --archive b.db")).stdout;
    assert!(told.contains("added 1 entry to work"), "{told}");
    assert_eq!(done(folder.run("export work --archive b.db")).stdout, folder.read("late.jsonl"));
    let told = done(folder.run("import early.jsonl --archive b.db")).stdout;
    assert!(told.contains("and more; nothing was added"), "{told}");
}

const CANARY: &str = "canarykey";

fn traces(path: &Path) -> usize {
    let files = ["", "-wal", "-shm"].map(|ending| format!("{}{ending}", path.display()));
    let count = |file: &String| {
        let bytes = fs::read(file).unwrap_or_default();
        bytes.windows(CANARY.len()).filter(|window| *window == CANARY.as_bytes()).count()
    };
    files.iter().map(count).sum()
}

fn with_canary(archive: &dyn Archive, name: &str) {
    let entries: Vec<NewEntry> =
        (0..300).map(|number| said("user", &format!("{CANARY} {number} of mine"))).collect();
    archive.append(begin(archive, name), After::Newest, &entries).unwrap();
}

#[test]
fn rm_beside_a_program_that_writes_leaves_no_text_in_any_file() {
    let folder = Folder::new();
    let path = folder.path("a.db");
    let proxy = SqliteArchive::open(&path).unwrap();
    with_canary(&proxy, "drop");
    begin(&proxy, "keep");
    let has_ended = AtomicBool::new(false);
    let run = thread::scope(|scope| {
        scope.spawn(|| {
            while !has_ended.load(Ordering::Relaxed) {
                let entry = said("user", "another conversation goes on");
                proxy.append(id("keep"), After::Newest, &[entry]).unwrap();
            }
        });
        let run = folder.run("rm drop --yes --archive a.db");
        has_ended.store(true, Ordering::Relaxed);
        run
    });
    done(run);
    assert_eq!(traces(&path), 0);
    assert_eq!(proxy.verify(None).unwrap(), []);
}

#[test]
fn rm_says_what_is_left_where_a_program_reads_from_the_log() {
    let folder = Folder::new();
    let path = folder.path("a.db");
    let proxy = SqliteArchive::open(&path).unwrap();
    with_canary(&proxy, "drop");
    let reader = rusqlite::Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM entry").unwrap();
    let run = folder.run("rm drop --yes --archive a.db");
    assert_eq!(run.status, 0, "{run:?}");
    for words in ["warning: texts of what was removed are still in the log ", "hint: "] {
        assert!(run.stderr.contains(words), "{run:?}");
    }
    assert!(traces(&path) > 0);
    drop(reader);
    done(folder.run("verify --archive a.db"));
    assert_eq!(traces(&path), 0);
}

#[test]
fn an_archive_is_copied_while_a_program_writes() {
    let folder = Folder::new();
    let proxy = SqliteArchive::open(folder.path("a.db")).unwrap();
    begin(&proxy, "work");
    let has_ended = AtomicBool::new(false);
    let entry = |number: u64| said("user", &format!("turn {number}"));
    for number in 0..50 {
        proxy.append(id("work"), After::Newest, &[entry(number)]).unwrap();
    }
    let run = thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 50;
            while !has_ended.load(Ordering::Relaxed) {
                proxy.append(id("work"), After::Newest, &[entry(number)]).unwrap();
                number += 1;
            }
        });
        let run = folder.run("archive backup copy.db --archive a.db");
        has_ended.store(true, Ordering::Relaxed);
        run
    });
    let told = done(run).stdout;
    assert!(told.contains(" to copy.db, and checked them"), "{told}");
    done(folder.run("verify --archive copy.db"));
    let copy = SqliteArchive::open(folder.path("copy.db")).unwrap();
    assert!(copy.head(id("work")).unwrap().unwrap().entries >= 50);
    let beside: Vec<String> =
        folder.names().into_iter().filter(|name| name.contains(".new-")).collect();
    assert_eq!(beside, [] as [&str; 0]);
    folder
        .run("archive backup copy.db --archive a.db")
        .assert_refused(&["copy.db exists already", "hint: "]);
    folder
        .run("archive backup other.db --archive none.db")
        .assert_refused(&["there is no archive at none.db"]);
    assert!(!folder.path("other.db").exists());
}
