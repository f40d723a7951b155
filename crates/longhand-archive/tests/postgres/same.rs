//! Search finds the same on PostgreSQL, SQLite and in memory, whether entries are in the index or wait for it.

use longhand_archive::{
    After, Archive, MemoryArchive, NewEntry, NewSession, Owner, Scope, SearchFilter, SessionId,
    SqliteArchive, Storage as _, Upkeep, ask, wait,
};
use longhand_core::{Meaning, Role};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::server::server;

const WORDS: &[&str] = &[
    "exporter",
    "exporters",
    "crash",
    "crashed",
    "queue",
    "the",
    "of",
    "full",
    "OrderSerializer",
    "order_serializer",
    "serializer",
    "数据库",
    "数学",
    "conf",
    "configuration",
    "GB/s",
    "naïve",
    "4d8461b77aa1",
    "part3",
    "a\0b",
    "🚀",
    "needle",
    "needles",
    "don't",
];
const QUERIES: &[&str] = &[
    "exporter queue",
    "crashing exporters",
    "serializer",
    "数据库",
    "conf*",
    "\"queue full\"",
    "4d8461b",
    "",
    "needle",
    "concurent nedle",
    "the of",
    "OrderSerializer",
    "figur",
    "GB/s",
    "a\0b",
    "🚀",
    "unheardof exporter",
];

#[derive(Clone, Debug)]
struct Said {
    session: u8,
    words: Vec<usize>,
    is_reply: bool,
    at_ms: i64,
}

fn said() -> impl Strategy<Value = Vec<Said>> {
    let one = (0..3_u8, prop::collection::vec(0..WORDS.len(), 0..8), any::<bool>(), 0..100_i64);
    let one =
        one.prop_map(|(session, words, is_reply, at_ms)| Said { session, words, is_reply, at_ms });
    prop::collection::vec(one, 1..24)
}

fn owner(session: u8) -> Owner {
    if session == 2 { Owner::of("other") } else { Owner::LOCAL }
}

fn id(session: u8) -> SessionId {
    SessionId::named(owner(session), &session.to_string())
}

fn record(archive: &dyn Archive, said: &Said, number: usize) {
    let text: Vec<&str> = said.words.iter().map(|word| WORDS[*word]).collect();
    let text = text.join(" ");
    let role = if said.is_reply { "assistant" } else { "user" };
    let raw = format!(r#"{{"role":"{role}","content":"{text}"}}"#);
    let new = NewSession { owner: owner(said.session), ..NewSession::default() };
    archive.begin(id(said.session), &new).unwrap();
    let entry = NewEntry {
        meaning: Meaning::of_content(&format!("{number} {text}")),
        opens_round: !said.is_reply,
        form: "chat".to_owned(),
        raw,
        text,
        at_ms: said.at_ms,
        source_ms: None,
    };
    archive.append(id(said.session), After::Newest, &[entry]).unwrap();
}

/// All that searches of an archive find.
fn found(archive: &dyn Archive) -> Vec<String> {
    let scopes =
        [Scope::All, Scope::Owner(Owner::LOCAL), Scope::Session(id(0)), Scope::Session(id(2))];
    let filters = [
        SearchFilter::default(),
        SearchFilter { role: Some(Role::Assistant), ..SearchFilter::default() },
        SearchFilter { since_ms: Some(30), before_ms: Some(70), ..SearchFilter::default() },
    ];
    let mut lines = Vec::new();
    // Each filter within each scope, for some of the queries each.
    let pairs: Vec<_> = scopes
        .iter()
        .flat_map(|scope| filters.iter().map(move |filter| (*scope, *filter)))
        .collect();
    for (at, query) in QUERIES.iter().enumerate() {
        for (scope, filter) in pairs.iter().skip(at % 3).step_by(3) {
            {
                let (scope, filter) = (*scope, *filter);
                let ranked =
                    wait(ask::ranked(archive, &[scope], query, filter, 5, &|_, _| true)).unwrap();
                let hits = ranked
                    .hits
                    .iter()
                    .map(|hit| (hit.session, hit.entry.seq.0, hit.score, hit.repeats));
                lines.push(format!(
                    "{query:?} {scope:?} {filter:?}: {:?}",
                    hits.collect::<Vec<_>>()
                ));
                let plain = archive.search_filtered(&scope, query, filter, 5).unwrap();
                lines.push(format!("plain: {plain:?}"));
            }
        }
    }
    lines
}

fn assert_same(one: &[String], other: &[String], what: &str) {
    for (one, other) in one.iter().zip(other) {
        assert_eq!(one, other, "{what}");
    }
    assert_eq!(one.len(), other.len());
}

#[test]
fn search_finds_what_it_finds_in_a_file() {
    let Some(server) = server() else { return };
    let mut runner =
        TestRunner::new(Config { cases: 2, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&(said(), 0..24_usize), |(said, indexed)| {
        let folder = tempfile::tempdir().unwrap();
        let file = SqliteArchive::open(folder.path().join("archive.db")).unwrap();
        let memory = MemoryArchive::new();
        let postgres = server.open(&server.database(), true);
        for (number, said) in said.iter().enumerate() {
            for archive in [&file as &dyn Archive, &memory, &postgres] {
                record(archive, said, number);
            }
            if number % 7 == indexed % 7 {
                // Some slices, and some that waits.
                wait(postgres.maintain(Upkeep::Index)).unwrap();
            }
        }
        let expected = found(&file);
        assert_same(&found(&memory), &expected, "in memory");
        assert_same(&found(&postgres), &expected, "some in the index");
        wait(postgres.maintain(Upkeep::Index)).unwrap();
        assert_same(&found(&postgres), &expected, "all in the index");
        // What a removed session had is no longer counted.
        for archive in [&file as &dyn Archive, &memory, &postgres] {
            archive.remove(id(0)).unwrap();
        }
        assert_same(&found(&postgres), &found(&memory), "after a removal");
        assert_eq!(postgres.verify(None).unwrap(), []);
        Ok(())
    });
    outcome.unwrap();
}

/// A message of some megabytes, with NUL, and text of every kind.
#[test]
fn a_long_message_is_kept_and_found() {
    let Some(server) = server() else { return };
    let archive = server.open(&server.database(), true);
    let text =
        format!("{}\0 数据库 needle {}", "lorem ipsum ".repeat(400_000), "x".repeat(1 << 20));
    let new = NewSession::default();
    archive.begin(id(0), &new).unwrap();
    let entry = NewEntry {
        meaning: Meaning::of_content(&text),
        opens_round: true,
        form: "text".to_owned(),
        raw: text.clone(),
        text: text.clone(),
        at_ms: 0,
        source_ms: None,
    };
    archive.append(id(0), After::Newest, &[entry]).unwrap();
    for _ in 0..2 {
        assert_eq!(archive.entries(id(0), 0..1).unwrap()[0].raw, text);
        for query in ["needle", "数据库", "\"needle x*\""] {
            assert_eq!(archive.search(&Scope::All, query, 9).unwrap().len(), 1, "{query}");
        }
        wait(archive.maintain(Upkeep::Index)).unwrap();
    }
}
