//! What it costs to keep every word: durable appends, reads of the newest rounds, the file's size.
//!
//! `LONGHAND_BENCH_ROUNDS` is the length of the long session, 100,000 if not given.

#![expect(clippy::unwrap_used, reason = "a bench that cannot run stops")]

use std::env;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use criterion::Criterion;
use longhand_archive::{
    After, Archive, NewEntry, NewSession, Owner, Scope, SessionId, SqliteArchive,
};
use longhand_core::Meaning;
use longhand_testkit::rng::Rng;
use rusqlite::Connection;

const ROUND_BYTES: usize = 6_000;
const SHORT: usize = 100;
const LONG: usize = 100_000;
/// Rounds that go into one transaction while a session is built.
const BUILD_ROUNDS: usize = 200;
const SAMPLES: usize = 500;
const WRITERS: usize = 16;
const LOAD: Duration = Duration::from_secs(4);
const WINDOW_ROUNDS: u64 = 10;

fn main() {
    let mut criterion = Criterion::default().sample_size(20).configure_from_args();
    let long = env::var("LONGHAND_BENCH_ROUNDS").map_or(LONG, |rounds| rounds.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let mut table = Table::default();
    let path = folder.path().join("long.db");
    let bytes = build(&path, long);
    let file = fs::metadata(&path).unwrap().len();
    table.add("file / text", ratio(file, bytes), "<= 1.4", file as f64 <= 1.4 * bytes as f64);
    let short = folder.path().join("short.db");
    build(&short, SHORT);
    appends(&mut table, &path, &short, &folder.path().join("bare.db"));
    crowd(&mut table, &folder.path().join("crowd.db"));
    reads(&mut criterion, &mut table, &path);
    table.print(long);
}

fn id(name: &str) -> SessionId {
    SessionId::named(Owner::LOCAL, name)
}

/// Fills a session and returns how many bytes of messages it has.
fn build(path: &Path, rounds: usize) -> u64 {
    let archive = SqliteArchive::open(path).unwrap();
    archive.begin(id("s"), &NewSession::default()).unwrap();
    let mut bytes = 0;
    for start in (0..rounds).step_by(BUILD_ROUNDS) {
        let entries: Vec<NewEntry> = (start..rounds.min(start + BUILD_ROUNDS))
            .flat_map(|number| round(number as u64))
            .collect();
        bytes += entries.iter().map(|entry| entry.raw.len() as u64).sum::<u64>();
        archive.append(id("s"), After::Newest, &entries).unwrap();
    }
    // What is still to be done for the index would be done while something else is measured.
    archive.index().unwrap();
    bytes
}

/// Appends to a long and a short session and inserts into a bare table, in turn, so that all three
/// meet the same disk.
fn appends(table: &mut Table, long: &Path, short: &Path, bare: &Path) {
    let archives = [long, short].map(|path| SqliteArchive::open(path).unwrap());
    let bare = Bare::open(bare);
    let mut times: [Vec<Duration>; 3] = Default::default();
    for number in 0..3 * SAMPLES {
        let entries = round(1_000_000 + number as u64 / 3);
        // Whoever comes first after the others has the disk to itself; all take turns.
        let turn = (number + number / 3) % 3;
        times[turn].push(timed(|| match archives.get(turn) {
            Some(archive) => _ = archive.append(id("s"), After::Newest, &entries).unwrap(),
            None => bare.insert(&entries),
        }));
    }
    let [long, short, bare] = times.map(Times::new);
    table.add("append, long session: p50", long.p50(), "", true);
    table.add("append, short session: p50", short.p50(), "", true);
    let slower = long.median() / short.median();
    table.add("long / short: p50", format!("{slower:.2}"), "<= 1.2", slower <= 1.2);
    table.add("append, long session: mean", long.mean_shown(), "", true);
    table.add("bare insert: p50", bare.p50(), "", true);
    table.add("bare insert: mean", bare.mean_shown(), "", true);
    let rate = bare.mean() / long.mean();
    table.add("rate / bare rate, long session", format!("{rate:.2}"), ">= 0.8", rate >= 0.8);
    let rate = bare.mean() / short.mean();
    table.add("rate / bare rate, short session", format!("{rate:.2}"), ">= 0.8", rate >= 0.8);
}

/// One writer alone, then many, each with a session of its own.
fn crowd(table: &mut Table, path: &Path) {
    let archive = SqliteArchive::open(path).unwrap();
    let rate = |writers: usize| {
        let started = Instant::now();
        let counts: usize = thread::scope(|scope| {
            let threads: Vec<_> = (0..writers)
                .map(|writer| {
                    let archive = &archive;
                    scope.spawn(move || {
                        let session = id(&format!("{writers} {writer}"));
                        archive.begin(session, &NewSession::default()).unwrap();
                        let rounds: Vec<_> =
                            (0..50).map(|n| round(n + writer as u64 * 50)).collect();
                        let mut count = 0;
                        while started.elapsed() < LOAD {
                            archive.append(session, After::Newest, &rounds[count % 50]).unwrap();
                            count += 1;
                        }
                        count
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        counts as f64 / started.elapsed().as_secs_f64()
    };
    let (alone, many) = (rate(1), rate(WRITERS));
    table.add("one session, rounds/s", format!("{alone:.0}"), "", true);
    table.add("16 sessions, rounds/s", format!("{many:.0}"), "", true);
    let gain = many / alone;
    table.add("16 sessions / one", format!("{gain:.1}"), ">= 10", gain >= 10.0);
}

/// The newest rounds of the long session, as a window needs them.
fn reads(criterion: &mut Criterion, table: &mut Table, path: &Path) {
    let archive = SqliteArchive::open(path).unwrap();
    criterion.bench_function("head and newest 10 rounds", |bencher| {
        bencher.iter(|| black_box(newest_rounds(&archive)));
    });
    let warm = Times::new((0..SAMPLES).map(|_| timed(|| _ = newest_rounds(&archive))).collect());
    table.add("head + 10 rounds, warm: p50", warm.p50(), "<= 1 ms", warm.median() <= 0.001);
    for (name, query) in [
        ("search, a word of one round", "figure77777"),
        ("search, a frequent word", "archive"),
        ("search, inside of words", "igure7777"),
    ] {
        let time = timed(|| drop(archive.search(&Scope::Session(id("s")), query, 10).unwrap()));
        table.add(name, shown(time.as_secs_f64()), "", true);
    }
    drop(archive);
    let cold = (0..20).map(|_| {
        timed(|| {
            let archive = SqliteArchive::open(path).unwrap();
            newest_rounds(&archive);
        })
    });
    let cold = Times::new(cold.collect());
    table.add("open + head + 10 rounds: p50", cold.p50(), "<= 20 ms", cold.median() <= 0.020);
}

fn newest_rounds(archive: &SqliteArchive) -> usize {
    let head = archive.head(id("s")).unwrap().unwrap();
    let start = head.entries.saturating_sub(2 * WINDOW_ROUNDS);
    archive.path(id("s"), None, start..head.entries).unwrap().len()
}

/// A table with what every store needs, and nothing else.
struct Bare(Connection);

impl Bare {
    fn open(path: &Path) -> Self {
        let db = Connection::open(path).unwrap();
        db.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
             CREATE TABLE entry (id INTEGER PRIMARY KEY, session TEXT, seq INTEGER, raw TEXT);",
        )
        .unwrap();
        Self(db)
    }

    fn insert(&self, entries: &[NewEntry]) {
        self.0.execute_batch("BEGIN IMMEDIATE").unwrap();
        let insert = "INSERT INTO entry (session, seq, raw) VALUES ('s', ?1, ?2)";
        let mut insert = self.0.prepare_cached(insert).unwrap();
        for (entry, seq) in entries.iter().zip(0..) {
            insert.execute((seq, &entry.raw)).unwrap();
        }
        self.0.execute_batch("COMMIT").unwrap();
    }
}

/// A question and an answer with prose, code and names of their own.
fn round(number: u64) -> [NewEntry; 2] {
    let mut rng = Rng::new(number);
    let question = text(&mut rng, number, ROUND_BYTES / 5);
    let answer = text(&mut rng, number, ROUND_BYTES * 4 / 5);
    let entry = |opens_round, role, text: String| {
        let raw = format!(r#"{{"role":"{role}","content":"{}"}}"#, escaped(&text));
        let meaning = Meaning::of_content(&raw);
        let (form, at_ms) = ("chat".to_owned(), number.cast_signed());
        NewEntry { meaning, opens_round, form, raw, text, at_ms, source_ms: None }
    };
    [entry(true, "user", question), entry(false, "assistant", answer)]
}

fn text(rng: &mut Rng, number: u64, bytes: usize) -> String {
    const SOURCES: &[&str] = &[
        include_str!("../src/archive.rs"),
        include_str!("../src/error.rs"),
        include_str!("../src/excerpt.rs"),
        include_str!("../src/memory.rs"),
        include_str!("../../longhand-recall/src/query.rs"),
        include_str!("../src/sqlite/writer.rs"),
        include_str!("../../../ARCHITECTURE.md"),
        include_str!("../../../CONTRIBUTING.md"),
        include_str!("../../../README.md"),
    ];
    let mut text = format!("figure{number} g-{:08x}: ", rng.next_u64() as u32);
    while text.len() < bytes {
        let source = rng.choose(SOURCES);
        let start = source.floor_char_boundary(rng.range(0..source.len() - 300));
        let end = source.floor_char_boundary(start + rng.range(40..300));
        text.push_str(&source[start..end]);
        text.push_str(&format!(" {:x} ", rng.next_u64() as u16));
    }
    text.truncate(text.floor_char_boundary(bytes));
    text
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\t', "\\t")
}

fn timed(action: impl FnOnce()) -> Duration {
    let started = Instant::now();
    action();
    started.elapsed()
}

/// Durations, sorted.
struct Times(Vec<Duration>);

impl Times {
    fn new(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    fn median(&self) -> f64 {
        self.0[self.0.len() / 2].as_secs_f64()
    }

    fn mean(&self) -> f64 {
        self.0.iter().sum::<Duration>().as_secs_f64() / self.0.len() as f64
    }

    fn p50(&self) -> String {
        shown(self.median())
    }

    fn mean_shown(&self) -> String {
        shown(self.mean())
    }
}

fn shown(seconds: f64) -> String {
    format!("{:.3} ms", seconds * 1_000.0)
}

fn ratio(one: u64, other: u64) -> String {
    format!("{:.2}", one as f64 / other as f64)
}

#[derive(Default)]
struct Table(Vec<(String, String, String, bool)>);

impl Table {
    fn add(&mut self, name: &str, value: impl Into<String>, target: &str, is_met: bool) {
        self.0.push((name.to_owned(), value.into(), target.to_owned(), is_met));
    }

    fn print(&self, long: usize) {
        println!("rounds of {ROUND_BYTES} bytes; long: {long} rounds, short: {SHORT}");
        for (name, value, target, is_met) in &self.0 {
            let verdict = match (target.as_str(), is_met) {
                ("", _) => "",
                (_, true) => "ok",
                (_, false) => "MISSED",
            };
            println!("{name:34} {value:>12}  {target:9} {verdict}");
        }
    }
}
