//! Fills an archive with many sessions, or with one very long one, for `cargo xtask scale`.
//!
//! ```text
//! many ARCHIVE sessions FIRST END    the sessions with these numbers, each the same whenever it is made
//! many ARCHIVE rounds COUNT          one session of so many rounds, `long`
//! many FILE messages NUMBER          the messages of a session, as a file that can be imported
//! ```

#![expect(clippy::unwrap_used, reason = "a bench that cannot run stops")]

mod author;

use std::env;
use std::fs;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use longhand::driver::{keep_logs, new_entry, opening_of};
use longhand::{Archive, Owner, SessionId, SqliteArchive};
use longhand_archive::{After, NewEntry, NewSession, RequestRecord, Storage as _, Write, wait};

use crate::author::{Author, SaidMessage, Vocabulary};

/// Requests of a session that are in its log.
const REQUESTS: usize = 40;
/// Rounds of the long session that go into one transaction.
const ROUNDS_AT_A_TIME: u64 = 500;
/// How long before today the first of the sessions was.
const FIRST_MS_AGO: i64 = 400 * 24 * 3_600_000;
/// From one session to the next.
const SESSION_MS: i64 = 3_000_000;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).filter(|word| word != "--bench").collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let vocabulary = Vocabulary::new();
    match words.as_slice() {
        [path, "sessions", first, end] => {
            let archive = SqliteArchive::open(path).unwrap();
            let numbers = first.parse().unwrap()..end.parse().unwrap();
            let bytes: u64 = numbers.map(|number| add(&archive, &vocabulary, number)).sum();
            println!("{bytes}");
        }
        [path, "rounds", count] => add_long(path, &vocabulary, count.parse().unwrap()),
        [path, "messages", number] => {
            let author = Author::new(&vocabulary, number.parse().unwrap());
            let said: Vec<String> = author.session().map(|said| said.raw).collect();
            fs::write(path, format!("{{\"messages\":[{}]}}", said.join(","))).unwrap();
        }
        _ => println!("`cargo xtask scale` runs this"),
    }
}

/// Adds a session; returns how much text it has.
fn add(archive: &SqliteArchive, vocabulary: &Vocabulary, number: u64) -> u64 {
    let name = format!("work-{number:06}");
    let id = SessionId::named(Owner::LOCAL, &name);
    let begun_ms = now_ms() - FIRST_MS_AGO + number.cast_signed() * SESSION_MS;
    let said = Author::new(vocabulary, number).session();
    let entries: Vec<NewEntry> = said
        .enumerate()
        .map(|(at, said)| entry(said, begun_ms + at.cast_signed() as i64 * 10_000))
        .collect();
    let dialect = "chat".to_owned();
    let opening = entries.iter().find_map(|entry| opening_of(&entry.form, &entry.raw)).unwrap();
    let new = NewSession { dialect, name, begun_ms, opening, ..NewSession::default() };
    archive.begin(id, &new).unwrap();
    archive.append(id, After::Newest, &entries).unwrap();
    let request = |at: usize| RequestRecord {
        at_ms: begun_ms + at.cast_signed() as i64 * 30_000,
        model: if number.is_multiple_of(3) { "gpt-4.1" } else { "claude-sonnet-4-5" }.to_owned(),
        before: 4_000 + 1_000 * at as u64,
        window: 4_000 + 500 * at as u64,
        sent: 4_000 + 500 * at as u64,
        output: 300,
        ..RequestRecord::default()
    };
    let requests = (0..REQUESTS).map(request).collect();
    let write = Write { session: id, requests, ..Write::default() };
    wait(archive.write(vec![write])).unwrap().remove(0).unwrap();
    entries.iter().map(|entry| entry.text.len() as u64).sum()
}

fn add_long(path: &str, vocabulary: &Vocabulary, rounds: u64) {
    let file = Arc::new(SqliteArchive::open(path).unwrap());
    let archive: Arc<dyn Archive> = Arc::clone(&file) as _;
    let id = SessionId::named(Owner::LOCAL, "long");
    let (dialect, name) = ("chat".to_owned(), "long".to_owned());
    archive.begin(id, &NewSession { dialect, name, ..NewSession::default() }).unwrap();
    let begun_ms = now_ms() - FIRST_MS_AGO;
    for first in (0..rounds).step_by(ROUNDS_AT_A_TIME as usize) {
        let mut author = Author::new(vocabulary, first);
        let said = (first..rounds.min(first + ROUNDS_AT_A_TIME)).flat_map(|_| author.short_round());
        let entries: Vec<NewEntry> = said.map(|said| entry(said, begun_ms)).collect();
        archive.append(id, After::Newest, &entries).unwrap();
        // As whoever records rounds does.
        keep_logs(&archive, id).unwrap();
    }
    // Otherwise the window would be measured with the work that is left of the search index, which was never idle.
    file.index().unwrap();
}

fn entry(said: SaidMessage, at_ms: i64) -> NewEntry {
    new_entry("chat", said.raw, said.opens_round, at_ms).unwrap()
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}
