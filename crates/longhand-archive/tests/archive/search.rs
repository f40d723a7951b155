//! Finding entries by their text.

use longhand_archive::{Archive, Hit};

use crate::common::{check, fresh, reply, user};

fn seqs(hits: &[Hit]) -> Vec<u64> {
    hits.iter().map(|hit| hit.seq).collect()
}

#[test]
fn the_newest_comes_first() {
    check(|archive| {
        archive.append("a", &[user("needle one"), reply("hay"), user("needle two")]).unwrap();
        archive.append("b", &[user("a NEEDLE in b")]).unwrap();
        archive.append("a", &[user("needle three")]).unwrap();
        let hits = archive.search(None, "needle", 9).unwrap();
        let places: Vec<_> = hits.iter().map(|hit| (hit.session.as_str(), hit.seq)).collect();
        assert_eq!(places, [("a", 3), ("b", 0), ("a", 2), ("a", 0)]);
        assert_eq!(hits[0].round, 2);
        assert_eq!(hits[1].snippet, "a NEEDLE in b");
        assert_eq!(seqs(&archive.search(Some("a"), "needle", 2).unwrap()), [3, 2]);
        assert_eq!(archive.search(Some("c"), "needle", 2).unwrap(), []);
        assert_eq!(archive.search(None, "needle", 0).unwrap(), []);
        assert_eq!(archive.search(None, " ", 9).unwrap(), []);
    });
}

#[test]
fn any_string_is_a_query() {
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
        "a*",
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
    check(|archive| {
        for query in QUERIES {
            let said = format!("before {query} after");
            archive.append("s", &[user(&said), user("nothing of the kind")]).unwrap();
        }
        for (at, query) in QUERIES.iter().enumerate() {
            let hits = archive.search(Some("s"), query, 100).unwrap();
            assert!(seqs(&hits).contains(&(2 * at as u64)), "{query}: {hits:?}");
            assert!(hits.len() < 10, "{query}: {hits:?}");
        }
        let long = "long ".repeat(50_000);
        assert_eq!(archive.search(None, &long, 9).unwrap(), []);
    });
}

#[test]
fn parts_of_words_are_found_if_nothing_else_is() {
    check(|archive| {
        archive
            .append("s", &[user("fn expandHandle()"), user("4d8461b77aa1 is the commit")])
            .unwrap();
        assert_eq!(seqs(&archive.search(None, "handle", 9).unwrap()), [0]);
        assert_eq!(seqs(&archive.search(None, "4d8461b", 9).unwrap()), [1]);
        archive.append("s", &[user("a handle")]).unwrap();
        assert_eq!(seqs(&archive.search(None, "handle", 9).unwrap()), [2]);
    });
}

/// The tail of an archive is not in the index yet, and both must look the same.
#[test]
fn the_index_changes_nothing_but_time() {
    let (_folder, archive) = fresh();
    let said =
        |n: usize| format!("round {n}: the word{} is in src/part_{}.rs, 第{n}回", n % 7, n % 11);
    for n in 0..700 {
        let session = if n % 3 == 0 { "b" } else { "a" };
        archive.append(session, &[user(&said(n))]).unwrap();
    }
    for query in
        ["word3", "part_5.rs", "\"is in src\"", "\"in is\"", "第12回", "ord3", "word3 part_5"]
    {
        for session in [None, Some("a"), Some("b")] {
            let before = archive.search(session, query, 1_000).unwrap();
            archive.reindex().unwrap();
            assert_eq!(archive.search(session, query, 1_000).unwrap(), before, "{query}");
        }
    }
    assert_eq!(archive.search(None, "word3", 1_000).unwrap().len(), 100);
    assert_eq!(archive.search(None, "\"in is\"", 1_000).unwrap(), []);
    assert_eq!(archive.verify(None).unwrap(), []);
}
