//! Power cuts and disks that fail, by a shim between the archive and its disk (`shim.c`).
//!
//! A kill leaves to the disk what the system has in memory; a power cut does not. So a program writes to an
//! archive while the shim notes all that happens to its files. Then the disk is made anew as a cut at each
//! sync would have left it, and what was acknowledged until then must be there.
//!
//! `LONGHAND_POWER_OPS` says how many changes are made, `LONGHAND_POWER_STRIDE` which calls fail, and `LONGHAND_SEED_FIRST`
//! which of the unsynced writes survive; the defaults are for every day.

use std::collections::HashMap;
use std::env;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use longhand_archive::{
    Archive, ArchiveError, Ledger, MemoryArchive, NewEntry, Owner, Page, RequestRecord,
    SqliteArchive, Wish, Write, wait,
};
use longhand_core::Seq;
use longhand_core::session::SessionState;
use longhand_testkit::filler;
use longhand_testkit::rng::Rng;

use crate::common::{append_to, id, named, quick_folder, reply, stubs, user};

const FOLDER: &str = "LONGHAND_SHIM_FOLDER";
const LOG: &str = "LONGHAND_SHIM_LOG";
const SESSIONS: [&str; 4] = ["s0", "s1", "s2", "scratch"];

fn setting(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |value| value.parse().unwrap())
}

/// Makes change number `number`; each is one transaction.
fn change(archive: &dyn Archive, number: usize) -> Result<(), ArchiveError> {
    let session = SESSIONS[number % 3];
    let first = id("s0");
    match number % 10 {
        5 => {
            let newest = archive.live(first, None)?.last().map_or(0, |batch| batch.number);
            let head = archive.head(first)?.unwrap_or_default();
            let entry = head.entries / 2;
            archive.commit(first, &stubs(newest, head.entries - 1, &[entry])).map(drop)
        }
        6 => archive.pin(first, Seq(number as u64 % 2), number % 20 == 6),
        7 if number % 30 == 27 => archive.undo(first, None).map(drop),
        7 => archive.put_derived(first, "story", &format!("what a model told {number}")),
        8 if number % 20 == 18 => archive.remove(id("scratch")).map(drop),
        8 => archive.reserve(&Wish { at_ms: 1, micros: 1, cap_micros: 1_000 }).map(drop),
        9 => add(archive, "scratch", number, 12),
        _ => add(archive, session, number, 1 + number % 3),
    }
}

/// Adds entries to a session, some of them long, with a preamble and a line for the request log.
fn add(archive: &dyn Archive, name: &str, number: usize, count: usize) -> Result<(), ArchiveError> {
    let said =
        |at: usize| format!("{number}.{at} {}", filler::words(40 << (number % 8), number as u64));
    let entries = (0..count).map(|at| if at == 0 { user(&said(at)) } else { reply(&said(at)) });
    let entries: Vec<NewEntry> = entries.collect();
    let new = named(Owner::LOCAL, name);
    wait(async {
        let mut ledger = Ledger::open_or_begin(archive, id(name), &new).await?;
        let decide = |state: &mut SessionState, write: &mut Write| {
            let parent = state.tree().newest();
            append_to(state, write, parent, &entries)?;
            let preamble = number.is_multiple_of(4).then(|| format!("system prompt {number}"));
            write.preambles.extend(preamble);
            write.requests.push(RequestRecord { sent: number as u64, ..RequestRecord::default() });
            Ok(())
        };
        ledger.change(archive, decide).await
    })
}

/// All that an archive says of its sessions.
fn told(archive: &dyn Archive) -> Result<Vec<String>, ArchiveError> {
    let one = |name: &&str| {
        let id = id(name);
        let batches = archive.batches(id, Page::ALL)?.items;
        let requests = archive.requests(id, Page::ALL)?.items;
        let (head, entries) = (archive.head(id)?, archive.entries(id, 0..u64::MAX)?);
        let (live, derived) = (archive.live(id, None)?, archive.derived(id, "story")?);
        Ok(format!("{name} {head:?} {entries:?} {batches:?} {live:?} {requests:?} {derived:?}"))
    };
    SESSIONS.iter().map(one).collect()
}

/// What the twin in memory says after each number of changes.
fn model(changes: usize) -> Vec<Vec<String>> {
    let twin = MemoryArchive::new();
    let mut states = vec![told(&twin).unwrap()];
    for number in 0..changes {
        change(&twin, number).unwrap();
        states.push(told(&twin).unwrap());
    }
    states
}

/// Builds the shim; `None` where there is no C compiler.
fn shim(folder: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/archive/shim.c");
    let shim = folder.join("shim.so");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&shim, &source])
        .args(["-ldl", "-lpthread"])
        .status();
    match built {
        Ok(status) => {
            assert!(status.success(), "the shim cannot be built");
            Some(shim)
        }
        Err(error) => {
            println!("skipped: there is no C compiler to build the shim with: {error}");
            None
        }
    }
}

/// Runs an ignored test of this module in a process of its own, with the shim before its disk.
fn run(test: &str, shim: &Path, folder: &Path, log: Option<&Path>) {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args([&format!("power::{test}"), "--exact", "--ignored", "--nocapture"])
        .env("LD_PRELOAD", shim)
        .env(FOLDER, folder);
    if let Some(log) = log {
        command.env(LOG, log);
    }
    assert!(command.status().unwrap().success(), "{test} failed");
}

#[test]
fn nothing_acknowledged_is_lost_by_a_power_cut_at_any_sync() {
    let changes = setting("LONGHAND_POWER_OPS", 60) as usize;
    let seed = setting("LONGHAND_SEED_FIRST", 7);
    let work = quick_folder();
    let Some(shim) = shim(work.path()) else { return };
    let (folder, log) = (work.path().join("disk"), work.path().join("log"));
    fs::create_dir(&folder).unwrap();
    run("script", &shim, &folder, Some(&log));
    let states = model(changes);
    let mut rng = Rng::new(seed);
    let mut disk = Disk::default();
    let (mut acknowledged, mut syncs, mut cuts, mut dropped) = (0, 0, 0, 0_usize);
    let log = fs::read(&log).unwrap();
    let records = records(&log);
    assert!(records.iter().any(|record| record.kind == 'S'), "the shim saw no sync");
    for (at, record) in records.iter().enumerate() {
        let is_sync = matches!(record.kind, 'S' | 'D');
        if is_sync || at + 1 == records.len() {
            syncs += usize::from(is_sync);
            for survivors in [Survivors::None, Survivors::Some, Survivors::All] {
                // Whatever a kill leaves has tests of its own.
                if matches!(survivors, Survivors::All) && !syncs.is_multiple_of(16) {
                    continue;
                }
                let case = format!("seed {seed}, cut at sync {syncs}, {survivors:?} survive");
                dropped += disk.pending();
                let cut = quick_folder();
                disk.restore(cut.path(), &folder, survivors, &mut rng);
                let archive = SqliteArchive::open(cut.path().join("archive.db"))
                    .unwrap_or_else(|error| panic!("{case}: {error}"));
                assert_eq!(archive.verify(None).unwrap(), [], "{case}");
                let told = told(&archive).unwrap();
                let next = states.get(acknowledged + 1);
                assert!(
                    told == states[acknowledged] || Some(&told) == next,
                    "{case}: {acknowledged} changes were acknowledged"
                );
                cuts += 1;
            }
        }
        acknowledged += usize::from(record.kind == 'A');
        disk.take(record);
    }
    println!(
        "power cuts: {changes} changes, {syncs} syncs, {cuts} cuts with {dropped} unsynced writes at stake, seed {seed}; nothing acknowledged was lost"
    );
    assert_eq!(acknowledged, changes);
    assert!(syncs > changes / 2 && dropped > changes, "{syncs} syncs, {dropped} dropped");
}

/// The program whose disk is cut off: it makes changes and notes each answer.
#[test]
#[ignore = "the process that the test above starts; by itself it has nothing to do"]
fn script() {
    let Ok(folder) = env::var(FOLDER) else { return };
    let changes = setting("LONGHAND_POWER_OPS", 60) as usize;
    let path = Path::new(&folder).join("archive.db");
    let mut acks =
        OpenOptions::new().create(true).append(true).open(Path::new(&folder).join("acks")).unwrap();
    let mut archive = SqliteArchive::open(&path).unwrap();
    for number in 0..changes {
        if number % 40 == 39 {
            // The last one who closes it brings the log home.
            drop(archive);
            archive = SqliteArchive::open(&path).unwrap();
        }
        change(&archive, number).unwrap();
        acks.write_all(format!("{number}\n").as_bytes()).unwrap();
    }
}

/// What happened to a file, as the shim noted it.
struct Record {
    kind: char,
    file: u64,
    at: u64,
    bytes: Vec<u8>,
}

fn records(mut log: &[u8]) -> Vec<Record> {
    let mut records = Vec::new();
    while log.len() >= 25 {
        let number = |at: usize| u64::from_le_bytes(log[at..at + 8].try_into().unwrap());
        let (file, at, length) = (number(1), number(9), number(17) as usize);
        records.push(Record {
            kind: log[0] as char,
            file,
            at,
            bytes: log[25..25 + length].to_vec(),
        });
        log = &log[25 + length..];
    }
    records
}

/// Which of the writes survive that were not synced.
#[derive(Clone, Copy, Debug)]
enum Survivors {
    None,
    /// Some, in no order, the last of them perhaps torn.
    Some,
    All,
}

/// What is on a disk, and what is only on its way there.
#[derive(Default)]
struct Disk {
    files: HashMap<u64, Content>,
    names: HashMap<String, u64>,
    /// A name that a file gets or, without a file, loses.
    pending_names: Vec<(String, Option<u64>)>,
}

#[derive(Default)]
struct Content {
    bytes: Vec<u8>,
    pending: Vec<Change>,
}

#[derive(Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Truncate(usize),
}

impl Change {
    fn make(&self, bytes: &mut Vec<u8>) {
        match self {
            Change::Write(at, new) => {
                bytes.resize(bytes.len().max(at + new.len()), 0);
                bytes[*at..at + new.len()].copy_from_slice(new);
            }
            Change::Truncate(length) => bytes.resize(*length, 0),
        }
    }
}

impl Disk {
    fn take(&mut self, record: &Record) {
        let text = || String::from_utf8(record.bytes.clone()).unwrap();
        let content = self.files.entry(record.file).or_default();
        match record.kind {
            'W' => content.pending.push(Change::Write(record.at as usize, record.bytes.clone())),
            'T' => content.pending.push(Change::Truncate(record.at as usize)),
            'S' => {
                for change in std::mem::take(&mut content.pending) {
                    change.make(&mut content.bytes);
                }
            }
            'C' => {
                if record.at == 0 {
                    *content = Content::default();
                }
                self.pending_names.push((text(), Some(record.file)));
            }
            'U' => self.pending_names.push((text(), None)),
            'R' => {
                let both = text();
                let (old, new) = both.split_once('\0').unwrap();
                let file = self.file(old);
                self.pending_names.extend([(old.to_owned(), None), (new.to_owned(), file)]);
            }
            'D' => {
                let names = std::mem::take(&mut self.pending_names);
                name(&mut self.names, names.iter());
            }
            _ => {}
        }
    }

    fn file(&self, path: &str) -> Option<u64> {
        let newest = self.pending_names.iter().rev().find(|(name, _)| name == path);
        newest.map_or_else(|| self.names.get(path).copied(), |(_, file)| *file)
    }

    /// How many writes are not synced.
    fn pending(&self) -> usize {
        self.files.values().map(|content| content.pending.len()).sum()
    }

    /// Writes the files as a power cut leaves them.
    fn restore(&self, folder: &Path, old: &Path, survivors: Survivors, rng: &mut Rng) {
        let mut names = self.names.clone();
        match survivors {
            Survivors::None => {}
            // Names come to the disk in their order.
            Survivors::Some => {
                let count = rng.range(0..self.pending_names.len() + 1);
                name(&mut names, self.pending_names[..count].iter());
            }
            Survivors::All => name(&mut names, self.pending_names.iter()),
        }
        for (path, file) in names {
            let name = Path::new(&path).strip_prefix(old).unwrap();
            // The index of the log is in memory and made anew.
            if path.ends_with("-shm") || path.ends_with("acks") {
                continue;
            }
            let mut bytes = Vec::new();
            if let Some(content) = self.files.get(&file) {
                bytes.clone_from(&content.bytes);
                for change in &content.pending {
                    match survivors {
                        Survivors::All => change.make(&mut bytes),
                        Survivors::Some if rng.chance(0.5) => torn(change, rng).make(&mut bytes),
                        Survivors::None | Survivors::Some => {}
                    }
                }
            }
            fs::write(folder.join(name), bytes).unwrap();
        }
    }
}

fn name<'n>(
    names: &mut HashMap<String, u64>,
    changes: impl Iterator<Item = &'n (String, Option<u64>)>,
) {
    for (path, file) in changes {
        match file {
            Some(file) => names.insert(path.clone(), *file),
            None => names.remove(path),
        };
    }
}

/// A disk writes sectors, not pages: of one write in four only some come.
fn torn(change: &Change, rng: &mut Rng) -> Change {
    match change {
        Change::Write(at, bytes) if rng.chance(0.25) && bytes.len() > 512 => {
            let sectors = rng.range(1..bytes.len().div_ceil(512));
            Change::Write(*at, bytes[..sectors * 512].to_vec())
        }
        other => other.clone(),
    }
}

#[test]
fn a_disk_that_fails_at_any_call_loses_nothing_acknowledged() {
    let work = quick_folder();
    let Some(shim) = shim(work.path()) else { return };
    let folder = work.path().join("disk");
    fs::create_dir(&folder).unwrap();
    run("failing", &shim, &folder, None);
}

/// How many changes are made on a disk that fails.
const CHANGES: usize = 24;

/// The program whose disk fails at the first call, the second, and so on, until all went well.
#[test]
#[ignore = "the process that the test above starts; by itself it has nothing to do"]
fn failing() {
    let Ok(folder) = env::var(FOLDER) else { return };
    let stride = setting("LONGHAND_POWER_STRIDE", 7) as usize;
    // ENOSPC, EIO and EAGAIN, which SQLite calls FULL, IOERR and BUSY.
    for (kind, error) in [("write", 28), ("write", 5), ("sync", 5), ("read", 5), ("lock", 11)] {
        let mut faults = 0;
        for call in (1..).step_by(stride) {
            let place = Path::new(&folder).join(format!("{kind}-{error}-{call}"));
            fs::create_dir(&place).unwrap();
            let case = format!("{kind} {call} fails with error {error}");
            if !is_met(&place.join("archive.db"), kind, error, call, &case) {
                break;
            }
            faults += 1;
            fs::remove_dir_all(&place).unwrap();
        }
        println!(
            "failing disk: {faults} calls of {kind} failed with error {error}, every {stride}th; nothing acknowledged was lost"
        );
        assert!(faults > 2, "{kind}");
    }
}

/// Makes changes on a disk on which one call fails. Returns whether there was that call.
fn is_met(path: &Path, kind: &str, error: i32, call: usize, case: &str) -> bool {
    // The shim takes orders in the names of files to be removed.
    let _ = fs::remove_file(format!("/longhand-fault/{kind}/{error}/{call}"));
    let open = || match SqliteArchive::open(path) {
        Ok(archive) => archive,
        Err(error) => {
            assert!(error.to_string().contains("archive.db"), "{case}: {error} names the file");
            SqliteArchive::open(path).unwrap_or_else(|error| panic!("{case}: {error}"))
        }
    };
    let mut archive = open();
    let twin = MemoryArchive::new();
    for number in 0..CHANGES {
        let before = told(&twin).unwrap();
        let outcome = change(&archive, number);
        change(&twin, number).unwrap();
        let Err(error) = outcome else { continue };
        assert!(error.to_string().contains("archive.db"), "{case}: {error} names the file");
        // It was not acknowledged: it is there as a whole, or not at all and can be made now.
        drop(archive);
        archive = open();
        let found = told(&archive).unwrap_or_else(|error| panic!("{case}: {error}"));
        if found == before {
            change(&archive, number).unwrap_or_else(|error| panic!("{case}: {error}"));
        }
        assert!(told(&archive).unwrap() == told(&twin).unwrap(), "{case}, change {number}");
    }
    let counted = fs::remove_file(format!("/longhand-count/{kind}")).unwrap_err();
    let is_met = counted.raw_os_error().unwrap() >= 1_000 + i32::try_from(call).unwrap();
    let _ = fs::remove_file("/longhand-fault/none/0/0");
    drop(archive);
    let archive = open();
    assert!(told(&archive).unwrap() == told(&twin).unwrap(), "{case}");
    assert_eq!(archive.verify(None).unwrap(), [], "{case}");
    is_met
}
