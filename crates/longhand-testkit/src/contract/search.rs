//! Finding entries by their text.

use longhand_archive::{
    After, Archive, Hit, NewEntry, Owner, RankedHit, Scope, SearchFilter, ask, wait,
};
use longhand_core::{Role, Seq};

use super::samples::{fork, id, named, record, reply, user};
use crate::texts::{mixed, shifted};

fn seqs(hits: &[Hit]) -> Vec<u64> {
    hits.iter().map(|hit| hit.seq.0).collect()
}

pub(super) fn the_newest_comes_first(archive: &dyn Archive) {
    record(archive, "a", &[user("needle one"), reply("hay"), user("needle two")]);
    record(archive, "b", &[user("a NEEDLE in b")]);
    record(archive, "a", &[user("needle three")]);
    let hits = archive.search(&Scope::All, "needle", 9).unwrap();
    let places: Vec<_> = hits.iter().map(|hit| (hit.session, hit.seq.0)).collect();
    assert_eq!(places, [(id("a"), 3), (id("b"), 0), (id("a"), 2), (id("a"), 0)]);
    assert_eq!(hits[0].round, 2);
    assert_eq!(hits[1].snippet, "a NEEDLE in b");
    assert_eq!(seqs(&archive.search(&Scope::Session(id("a")), "needle", 2).unwrap()), [3, 2]);
    assert_eq!(archive.search(&Scope::Session(id("c")), "needle", 2).unwrap(), []);
    assert_eq!(archive.search(&Scope::All, "needle", 0).unwrap(), []);
    assert_eq!(archive.search(&Scope::All, " ", 9).unwrap(), []);
}

pub(super) fn a_star_finds_words_that_begin_so(archive: &dyn Archive) {
    let said =
        [user("the configuration"), reply("unconfigured"), user("conf"), reply("confirm it")];
    record(archive, "a", &said);
    let found = |query: &str| seqs(&archive.search(&Scope::All, query, 9).unwrap());
    assert_eq!(found("conf*"), [3, 2, 0]);
    assert_eq!(found("conf"), [2]);
    assert_eq!(found("\"the conf*\""), [0]);
    assert_eq!(found("it conf*"), [3]);
}

pub(super) fn parts_of_words_are_found_if_nothing_else_is(archive: &dyn Archive) {
    record(archive, "s", &[user("fn expandhandle()"), user("4d8461b77aa1 is the commit")]);
    let found = |query: &str| seqs(&archive.search(&Scope::All, query, 9).unwrap());
    assert_eq!(found("handle"), [0]);
    assert_eq!(found("4d8461b"), [1]);
    record(archive, "s", &[user("a handle")]);
    assert_eq!(found("handle"), [2]);
}

pub(super) fn names_are_found_whole_and_in_parts(archive: &dyn Archive) {
    let said = [
        user("fn OrderSerializer()"),
        reply("an order, a serializer"),
        user("an order_serializer"),
    ];
    record(archive, "s", &said);
    let found = |query: &str| seqs(&archive.search(&Scope::All, query, 9).unwrap());
    assert_eq!(found("serializer"), [2, 1, 0]);
    assert_eq!(found("orderserializer"), [0]);
    assert_eq!(found("OrderSerializer"), [2, 0]);
    assert_eq!(found("\"fn order\""), [0]);
    assert_eq!(found("\"serializer order\""), [0; 0]);
}

pub(super) fn a_search_is_filtered_where_it_is_made(archive: &dyn Archive) {
    let at = |text: &str, role: &str, at_ms: i64| {
        let raw = format!(r#"{{"role":"{role}","content":"{text}"}}"#);
        NewEntry { raw, form: "chat".to_owned(), at_ms, ..user(text) }
    };
    let said = [
        at("needle 0", "user", 500),
        at("needle 1", "assistant", 100),
        at("needle 2", "system", 300),
        at("needle 3", "user", 200),
        // Imported: it was said earlier than it was recorded.
        NewEntry { source_ms: Some(150), ..at("needle 4", "assistant", 900) },
    ];
    record(archive, "s", &said);
    let found = |role: Option<Role>, since_ms: Option<i64>, before_ms: Option<i64>| {
        let filter = SearchFilter { role, since_ms, before_ms };
        let found = archive.search_filtered(&Scope::All, "needle", filter, 9).unwrap();
        assert!(!found.is_partial);
        seqs(&found.hits)
    };
    assert_eq!(found(None, None, None), [4, 3, 2, 1, 0]);
    assert_eq!(found(Some(Role::System), None, None), [2]);
    assert_eq!(found(Some(Role::User), None, None), [3, 0]);
    assert_eq!(found(Some(Role::Tool), None, None), [0; 0]);
    assert_eq!(found(None, Some(200), None), [3, 2, 0]);
    assert_eq!(found(None, Some(200), Some(500)), [3, 2]);
    assert_eq!(found(Some(Role::User), Some(201), None), [0]);
    assert_eq!(found(None, Some(501), None), [0; 0]);
    assert_eq!(found(None, Some(100), Some(200)), [4, 1]);
    let filter = SearchFilter { since_ms: Some(100), before_ms: Some(200), role: None };
    let ranked = ask::ranked(archive, &[Scope::All], "needle", filter, 9, &|_, _| true);
    let mut found: Vec<u64> =
        wait(ranked).unwrap().hits.iter().map(|hit| hit.entry.seq.0).collect();
    found.sort_unstable();
    assert_eq!(found, [1, 4]);
}

pub(super) fn calls_are_searched_by_what_they_say(archive: &dyn Archive) {
    let call = |text: &str| NewEntry { raw: text.to_owned(), ..reply(text) };
    let said = [
        call(r#"write {"path":"/src/a.py","text":"\nimport os\nprint(\"caf\u00e9\")"}"#),
        user(r"where is C:\new\table?"),
    ];
    record(archive, "s", &said);
    let found = |query: &str| {
        let filter = SearchFilter::default();
        let found = ask::ranked(archive, &[Scope::All], query, filter, 9, &|_, _| true);
        let hits = wait(found).unwrap().hits;
        let seqs = |hit: &RankedHit| (hit.entry.seq.0, hit.snippet.clone());
        hits.iter().map(seqs).collect::<Vec<_>>()
    };
    let snippet = r#"write path: /src/a.py text: import os print("café")"#;
    assert_eq!(found("import"), [(0, snippet.to_owned())]);
    assert_eq!(found("\"import os print\""), [(0, snippet.to_owned())]);
    assert_eq!(found("nimport"), []);
    assert_eq!(found("café")[0].0, 0);
    assert_eq!(found("table")[0].0, 1);
    let hits = archive.search(&Scope::All, "import os", 9).unwrap();
    assert_eq!(hits.iter().map(|hit| hit.snippet.as_str()).collect::<Vec<_>>(), [snippet]);
}

pub(super) fn a_search_keeps_to_its_scope(archive: &dyn Archive) {
    record(archive, "s", &[user("needle 0"), reply("hay"), user("needle 2")]);
    fork(archive, "s", Some(1), &[user("needle 3"), reply("needle 4")]);
    fork(archive, "s", Some(2), &[reply("needle 5")]);
    let other = Owner::of("key");
    archive.begin(id("theirs"), &named(other, "theirs")).unwrap();
    archive.append(id("theirs"), After::Newest, &[user("their needle")]).unwrap();
    let found = |scope| seqs(&archive.search(&scope, "needle", 9).unwrap());
    let path = |head: Option<u64>| Scope::Path { session: id("s"), head: head.map(Seq) };
    assert_eq!(found(path(Some(4))), [4, 3, 0]);
    assert_eq!(found(path(Some(2))), [2, 0]);
    assert_eq!(found(path(Some(1))), [0]);
    assert_eq!(found(path(None)), [5, 2, 0]);
    assert_eq!(found(Scope::Session(id("s"))), [5, 4, 3, 2, 0]);
    assert_eq!(found(Scope::Owner(Owner::LOCAL)), [5, 4, 3, 2, 0]);
    assert_eq!(found(Scope::Owner(other)), [0]);
    assert_eq!(found(Scope::Owner(Owner::of("nobody"))).len(), 0);
    assert_eq!(found(Scope::All).len(), 6);
    assert!(archive.search(&path(Some(9)), "needle", 9).is_err());
}

/// Strings that mean something to one search engine or another.
const QUERIES: &[&str] = &[
    "GB/s",
    "don't",
    "a-b",
    "\"",
    "NEAR",
    "*",
    "AND",
    "OR NOT",
    "数据库",
    "据",
    "🚀",
    "a:b",
    "(x",
    "x)",
    "^start",
    "{col}",
    "words:",
    "--",
    "';DROP TABLE entry;--",
    "h:0123456789ab",
    "\\",
    "%",
    "_",
    "qz*",
    "\"open",
    "g-1234",
    "src/main.rs:42",
    "0xFF",
    "naïve",
    "Straße",
    "ไทย",
    "서버",
    "💥\u{fe0f}",
    "a\0b",
    "e\u{301}",
];

pub(super) fn any_string_is_a_query(archive: &dyn Archive) {
    for query in QUERIES {
        let said = format!("before {query} after");
        record(archive, "s", &[user(&said), user("nothing of the kind")]);
    }
    for (at, query) in QUERIES.iter().enumerate() {
        let hits = archive.search(&Scope::Session(id("s")), query, 100).unwrap();
        assert!(seqs(&hits).contains(&(2 * at as u64)), "{query}: {hits:?}");
        assert!(hits.len() < 10, "{query}: {hits:?}");
    }
    let long = "long ".repeat(50_000);
    assert_eq!(archive.search(&Scope::All, &long, 9).unwrap(), []);
}

pub(super) fn any_text_is_stored_and_found(archive: &dyn Archive) {
    let texts: Vec<String> = (0..60).map(mixed).chain(shifted().step_by(3)).collect();
    for text in &texts {
        record(archive, "a", &[user(text), reply(&format!("{text} needle {text}"))]);
    }
    // Storage without an index reads all of them for each.
    let queries = texts.iter().step_by(4).map(String::as_str);
    for query in queries.chain(["needle", "error", "→", "\u{3000}", "é"]) {
        archive.search(&Scope::All, query, 9).unwrap();
    }
    // What surrounds a hit is cut on both sides.
    assert_eq!(archive.search(&Scope::All, "needle", 500).unwrap().len(), texts.len());
}

pub(super) fn a_hit_after_a_wide_space_is_quoted_from_the_word_after_it(archive: &dyn Archive) {
    for (space, name) in
        ["\u{3000}", "\u{a0}", "\u{2028}", " "].into_iter().zip(["a", "b", "c", "d"])
    {
        let text = format!("{}{space}needle", "→".repeat(30));
        record(archive, name, &[user(&text)]);
        let hits = archive.search(&Scope::Session(id(name)), "needle", 9).unwrap();
        assert_eq!(hits[0].snippet, "…needle");
    }
}

fn ranked(archive: &dyn Archive, scope: Scope, query: &str, limit: usize) -> Vec<RankedHit> {
    let filter = SearchFilter::default();
    wait(ask::ranked(archive, &[scope], query, filter, limit, &|_, _| true)).unwrap().hits
}

pub(super) fn what_fits_best_comes_first(archive: &dyn Archive) {
    let said = [
        user("why did the exporter crash?"),
        reply("The exporter crashed because the queue was full."),
        user("the queue of the printer"),
        reply("fn OrderSerializer() uses processed_events"),
        user("concurrent sessions are warned about"),
        user("nothing of the kind, but long enough to be something else"),
        reply("数据库连接池因此耗尽"),
        user("数学库"),
    ];
    record(archive, "s", &said);
    let found = |query: &str| -> Vec<u64> {
        let hits = ranked(archive, Scope::All, query, 9);
        assert!(hits.windows(2).all(|pair| pair[0].score >= pair[1].score), "{query}: {hits:?}");
        hits.iter().map(|hit| hit.entry.seq.0).collect()
    };
    for (query, first) in [
        ("exporter queue", 1),
        ("crashing exporters", 0),
        ("serializer", 3),
        ("processed events", 3),
        ("concurent sesion", 4),
        ("warnings", 4),
        ("\"queue of\"", 2),
        ("print*", 2),
        ("数据库", 6),
        ("exporter unheardof", 0),
    ] {
        assert_eq!(found(query).first(), Some(&first), "{query}");
    }
    assert_eq!(found("exporter queue"), [1, 2, 0]);
    assert_eq!(found("zzzz"), [0; 0]);
    assert_eq!(found(""), [7, 6, 5, 4, 3, 2, 1, 0]);
    assert_eq!(found("queue was full")[0], 1);
}

pub(super) fn a_repeat_is_counted(archive: &dyn Archive) {
    let said = [user("the needle"), reply("hay"), user("the needle"), user("a needle, and more")];
    record(archive, "s", &said);
    let hits = ranked(archive, Scope::Session(id("s")), "needle", 9);
    let mut counts: Vec<(u64, u64)> =
        hits.iter().map(|hit| (hit.entry.seq.0, hit.repeats)).collect();
    counts.sort_unstable();
    assert_eq!(counts, [(2, 2), (3, 1)]);
}

pub(super) fn a_ranked_search_keeps_to_its_scope(archive: &dyn Archive) {
    record(archive, "s", &[user("needle 0"), reply("hay"), user("needle 2")]);
    fork(archive, "s", Some(1), &[user("needle 3"), reply("needle 4")]);
    let other = Owner::of("key");
    archive.begin(id("theirs"), &named(other, "theirs")).unwrap();
    archive.append(id("theirs"), After::Newest, &[user("their needle")]).unwrap();
    let found = |scope| {
        let hits = ranked(archive, scope, "needle", 9);
        let mut seqs: Vec<u64> = hits.iter().map(|hit| hit.entry.seq.0).collect();
        seqs.sort_unstable();
        seqs
    };
    let path = |head: Option<u64>| Scope::Path { session: id("s"), head: head.map(Seq) };
    assert_eq!(found(path(Some(4))), [0, 3, 4]);
    assert_eq!(found(path(Some(2))), [0, 2]);
    assert_eq!(found(Scope::Session(id("s"))), [0, 2, 3, 4]);
    assert_eq!(found(Scope::Owner(Owner::LOCAL)), [0, 2, 3, 4]);
    assert_eq!(found(Scope::Owner(other)), [0]);
    assert_eq!(found(Scope::Owner(Owner::of("nobody"))), [0; 0]);
    assert_eq!(found(Scope::Session(id("nowhere"))), [0; 0]);
    assert_eq!(found(Scope::All).len(), 5);
}

pub(super) fn any_string_is_ranked(archive: &dyn Archive) {
    for query in QUERIES {
        let said = format!("before {query} after");
        record(archive, "s", &[user(&said), user("nothing of the kind")]);
    }
    for (at, query) in QUERIES.iter().enumerate() {
        let hits = ranked(archive, Scope::Session(id("s")), query, 100);
        let is_found = hits.iter().any(|hit| hit.entry.seq.0 == 2 * at as u64);
        assert!(is_found, "{query}: {hits:?}");
    }
    for hostile in ["\" ( ) * OR ".repeat(1_000), "word ".repeat(3_000), "a\"b*".repeat(2_000)] {
        ranked(archive, Scope::All, &hostile, 9);
    }
}
