//! Searching with an index and without.

use longhand_archive::{
    Archive, NewEntry, Owner, RankedFound, Scope, SearchFilter, SqliteArchive, ask, wait,
};
use rusqlite::Connection;

use crate::common::{fresh, id, record, user};

fn ranked(archive: &SqliteArchive, scope: Scope, query: &str, limit: usize) -> RankedFound {
    let filter = SearchFilter::default();
    wait(ask::ranked(archive, &[scope], query, filter, limit, &|_, _| true)).unwrap()
}

/// An index that an earlier release made has other words: it is made anew, and meanwhile messages are read.
#[test]
fn the_words_of_an_earlier_index_are_forgotten() {
    let (folder, archive) = fresh();
    let call = |n: usize| {
        let text = format!(r#"write {{"path":"/src/{n}.py","text":"\nimport os{n}"}}"#);
        NewEntry { raw: text.clone(), ..user(&text) }
    };
    record(&archive, "a", &(0..600).map(call).collect::<Vec<_>>());
    archive.index().unwrap();
    drop(archive);
    let path = folder.path().join("archive.db");
    let number = |sql: &str| -> i64 {
        Connection::open(&path).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
    };
    let blocks = number("SELECT count(*) FROM index_block");
    Connection::open(&path).unwrap().execute("UPDATE index_state SET version = 1", []).unwrap();
    let archive = SqliteArchive::open(&path).unwrap();
    let before = ranked(&archive, Scope::All, "import os17", 5);
    assert_eq!(before.hits[0].entry.seq.0, 17);
    assert!(before.hits[0].snippet.contains("text: import os17"), "{}", before.hits[0].snippet);
    archive.index().unwrap();
    assert_eq!(ranked(&archive, Scope::All, "import os17", 5), before);
    assert_eq!(archive.verify(None).unwrap(), []);
    drop(archive);
    assert_eq!(number("SELECT version FROM index_state"), 2);
    assert!(number("SELECT count(*) FROM index_block") < 2 * blocks);
}

/// The tail of an archive is not in the index yet, and both must look the same.
#[test]
fn the_index_changes_nothing_but_time() {
    let (_folder, archive) = fresh();
    let said =
        |n: usize| format!("round {n}: the word{} is in src/part_{}.rs, 第{n}回", n % 7, n % 11);
    for n in 0..700 {
        let session = if n % 3 == 0 { "b" } else { "a" };
        record(&archive, session, &[user(&said(n))]);
    }
    for query in [
        "word3",
        "wrd3 parts",
        "part_5.rs",
        "\"is in src\"",
        "\"in is\"",
        "第12回",
        "ord3",
        "word3 part_5",
    ] {
        for scope in [Scope::All, Scope::Session(id("a")), Scope::Owner(Owner::LOCAL)] {
            archive.reindex().unwrap();
            let before = archive.search(&scope, query, 1_000).unwrap();
            let ranked_before = ranked(&archive, scope, query, 20);
            archive.index().unwrap();
            assert_eq!(ranked(&archive, scope, query, 20), ranked_before, "{query}");
            assert_eq!(archive.search(&scope, query, 1_000).unwrap(), before, "{query}");
        }
    }
    assert_eq!(archive.search(&Scope::All, "word3", 1_000).unwrap().len(), 100);
    assert_eq!(archive.search(&Scope::All, "\"in is\"", 1_000).unwrap(), []);
    assert_eq!(archive.verify(None).unwrap(), []);
}
