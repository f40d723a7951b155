//! What it costs to bring earlier messages back into a window.
//!
//! `LONGHAND_BENCH_ROUNDS` is the length of the session, 10,000 if not given.
#![expect(clippy::unwrap_used, reason = "a bench that cannot run stops")]

use std::env;
use std::sync::Arc;
use std::time::{Duration, Instant};

use longhand::{Archive, Owner, Prompt, Round, Session, SessionId, SessionSettings, SqliteArchive};
use longhand_archive::{After, NewSession};
use longhand_testkit::{filler, rng::Rng};

const ROUNDS: u64 = 10_000;
const WRITTEN_TOGETHER: u64 = 1_000;
const QUESTIONS: u64 = 60;

fn main() {
    let rounds = env::var("LONGHAND_BENCH_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let archive: Arc<dyn Archive> =
        Arc::new(SqliteArchive::open(folder.path().join("a.db")).unwrap());
    let id = SessionId::named(Owner::LOCAL, "s");
    let new = NewSession { owner: Owner::LOCAL, name: "s".to_owned(), ..NewSession::default() };
    archive.begin(id, &new).unwrap();
    let mut number = 0;
    while number < rounds {
        let part = number..(number + WRITTEN_TOGETHER).min(rounds);
        number = part.end;
        let entries: Vec<_> = part.flat_map(|number| round(number).entries()).collect();
        archive.append(id, After::Newest, &entries).unwrap();
    }
    let mut session = open(&archive, SessionSettings::RECALL_PERCENT);
    session.window("And now?", &Prompt::default(), 0).unwrap();
    // The index is made in the background.
    ask(&mut session, 0);
    std::thread::sleep(Duration::from_secs(5));
    let with = median((0..QUESTIONS).map(|number| ask(&mut session, number)).collect());
    session.set_recall(0);
    let without = median((0..QUESTIONS).map(|number| ask(&mut session, number)).collect());
    let ms = |time: Duration| time.as_secs_f64() * 1_000.0;
    println!("a session of {rounds} rounds, a question about one of them");
    println!("window without recall: p50  {:>8.3} ms", ms(without));
    println!("window with recall: p50     {:>8.3} ms", ms(with));
    println!("recall: p50                 {:>8.3} ms", ms(with.saturating_sub(without)));
}

fn open(archive: &Arc<dyn Archive>, recall_percent: u64) -> Session {
    let settings = SessionSettings { recall_percent, ..SessionSettings::new().unwrap() };
    Session::open_with(Arc::clone(archive), "s", settings).unwrap()
}

fn round(number: u64) -> Round {
    let mut rng = Rng::new(number);
    let user = format!("What about item {number}? {}", filler::words(rng.range(5..40), number));
    Round::new(&user, &filler::words(rng.range(20..120), number + 1), number.cast_signed() * 60_000)
}

/// A window that is not kept, so that each question finds the same.
fn ask(session: &mut Session, number: u64) -> Duration {
    let message = format!("What did we say of item {}? {}", number * 37, filler::words(6, number));
    let begun = Instant::now();
    session.preview(&message, &Prompt::default()).unwrap();
    begun.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
