//! What a long conversation costs: its window, warm and after a cold open, and a recorded round.
//!
//! `LONGHAND_BENCH_ROUNDS` is the length of the long session, 100,000 if not given.
#![expect(clippy::unwrap_used, reason = "a bench that cannot run stops")]

use std::env;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use longhand::{
    Archive, Owner, Prompt, Round, Session, SessionId, SessionSettings, SqliteArchive, Summariser,
    Tokens,
};
use longhand_archive::{After, NewEntry, NewSession};
use longhand_core::Scale;
use longhand_summary::{Input, Summary, SummaryError};
use longhand_testkit::{filler, rng::Rng};

const SHORT: u64 = 100;
const LONG: u64 = 100_000;
/// Rounds that are folded at a time while a session is built.
const BUILD_ROUNDS: u64 = 1_000;
const SAMPLES: usize = 100;

fn main() {
    let long = env::var("LONGHAND_BENCH_ROUNDS").map_or(LONG, |rounds| rounds.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let paths = [long, SHORT].map(|rounds| {
        let path = folder.path().join(format!("{rounds}.db"));
        build(&path, rounds);
        path
    });
    let cold = (0..20).map(|_| {
        timed(|| {
            let mut session = open(&paths[0]);
            session.window("What is next?", &Prompt::default(), 0).unwrap();
        })
    });
    let cold = median(cold.collect());
    let mut sessions = paths.map(|path| open(&path));
    let warm = (0..SAMPLES)
        .map(|_| timed(|| _ = sessions[0].window("What is next?", &Prompt::default(), 0).unwrap()));
    let warm = median(warm.collect());
    let mut times: [Vec<Duration>; 2] = Default::default();
    for number in 0..2 * SAMPLES {
        let (turn, round) = (number % 2, round(1_000_000 + number as u64));
        times[turn].push(timed(|| {
            sessions[turn].record(&round).unwrap();
            sessions[turn].window("What is next?", &Prompt::default(), 0).unwrap();
        }));
    }
    let [at_long, at_short] = times.map(median);
    println!("a session of {long} rounds of 6 KB");
    println!("window, warm: p50           {:>8.3} ms (<= 1)", ms(warm));
    println!("window after a cold open    {:>8.3} ms (<= 20)", ms(cold));
    println!("record and window: p50      {:>8.3} ms", ms(at_long));
    println!("the same at {SHORT} rounds      {:>8.3} ms", ms(at_short));
    println!("long / short                {:>8.2}    (<= 1.2)", ms(at_long) / ms(at_short));
    let [slow, instant] = slow_and_instant(folder.path());
    println!("record p99, summariser of 30 s / instant: {:.2} (<= 1.5)", ms(slow) / ms(instant));
}

/// Says little: at once, or after its time.
struct Terse(Duration);

impl Summariser for Terse {
    fn name(&self) -> &'static str {
        "terse"
    }

    fn is_instant(&self) -> bool {
        self.0.is_zero()
    }

    fn summarise(&self, _: &Input, _: Tokens, _: &Scale) -> Result<Summary, SummaryError> {
        std::thread::sleep(self.0);
        Ok(Summary { text: "They worked.".to_owned(), ..Summary::default() })
    }
}

/// The p99 of recording with a summariser that takes 30 s, and with one that takes none, in turn.
fn slow_and_instant(folder: &Path) -> [Duration; 2] {
    let mut sessions = [30, 0].map(|seconds| {
        let archive = Arc::new(SqliteArchive::open(folder.join(format!("{seconds}s.db"))).unwrap());
        let terse: Arc<dyn Summariser> = Arc::new(Terse(Duration::from_secs(seconds)));
        let settings = SessionSettings {
            summarisers: vec![terse],
            recall_percent: 0,
            ..SessionSettings::new().unwrap()
        };
        Session::open_with(archive, "s", settings).unwrap()
    });
    let mut times: [Vec<Duration>; 2] = Default::default();
    for number in 0..8 * SAMPLES {
        let (turn, round) = (number % 2, round(number as u64));
        sessions[turn].window("What is next?", &Prompt::default(), 0).unwrap();
        times[turn].push(timed(|| _ = sessions[turn].record(&round).unwrap()));
    }
    times.map(|mut times| {
        times.sort_unstable();
        times[times.len() * 99 / 100]
    })
}

fn build(path: &Path, rounds: u64) {
    let archive = Arc::new(SqliteArchive::open(path).unwrap());
    let mut session = Session::open(archive.clone(), "s").unwrap();
    for start in (0..rounds).step_by(BUILD_ROUNDS as usize) {
        let numbers = start..rounds.min(start + BUILD_ROUNDS);
        let entries: Vec<NewEntry> = numbers.flat_map(|number| round(number).entries()).collect();
        let id = SessionId::named(Owner::LOCAL, "s");
        archive.begin(id, &NewSession { name: "s".to_owned(), ..NewSession::default() }).unwrap();
        archive.append(id, After::Newest, &entries).unwrap();
        session.window("What is next?", &Prompt::default(), 0).unwrap();
    }
    assert!(session.verbatim().count() <= 30);
    // What is still to be done for the index would be done while something else is measured.
    archive.index().unwrap();
}

fn open(path: &Path) -> Session {
    let archive = Arc::new(SqliteArchive::open(path).unwrap());
    // What recall costs has a bench of its own.
    let settings = SessionSettings { recall_percent: 0, ..SessionSettings::new().unwrap() };
    Session::open_with(archive, "s", settings).unwrap()
}

/// A round of 6 KB: a question, and an answer with a path, a figure and now and then a decision.
fn round(number: u64) -> Round {
    let mut rng = Rng::new(number);
    let mut sentences = |count: usize| {
        let sentence = |_| format!("{}.", filler::words(14, rng.next_u64()));
        (0..count).map(sentence).collect::<Vec<_>>().join(" ")
    };
    let (question, body) = (sentences(10), sentences(62));
    let decision = if number.is_multiple_of(10) { " Decision: keep it as it is." } else { "" };
    let answer = format!("src/part{}.rs took {number} ms. {body}{decision}", number % 97);
    Round::new(&question, &answer, 0)
}

fn timed(action: impl FnOnce()) -> Duration {
    let start = Instant::now();
    action();
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}
