//! Files of every format that was ever released are opened as they are.

use std::fs;

use longhand_archive::{Archive, SqliteArchive, fold_handle};
use longhand_core::Handle;

#[test]
fn an_archive_of_format_1_is_read_and_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("archive.db");
    let old = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/archives/v1/archive.db");
    fs::write(&path, fs::read(old).unwrap()).unwrap();
    let archive = SqliteArchive::open(&path).unwrap();
    assert_eq!(archive.verify(None).unwrap(), []);

    let ids: Vec<String> = archive.sessions().unwrap().into_iter().map(|info| info.id).collect();
    assert_eq!(ids, ["a/b", "demo"]);
    let head = archive.head("demo").unwrap().unwrap();
    assert_eq!((head.entries, head.rounds, head.pins.as_slice()), (36, 12, [0].as_slice()));
    assert!(head.undone, "its newest fold was taken back");
    let batch = head.batch.unwrap();
    assert_eq!((batch.number, batch.entries.clone()), (1, 0..3));
    let original = archive.expand(fold_handle("demo", &batch.entries)).unwrap().unwrap();
    assert!(archive.text_of(&original).unwrap().contains("Question 0"));
    let stub = Handle::parse("h:9xthzcaqa08r").unwrap();
    let original = archive.expand(stub).unwrap().unwrap();
    assert!(archive.text_of(&original).unwrap().starts_with("file 0 "));
    assert_eq!(archive.search(Some("demo"), "part7.rs", 5).unwrap()[0].round, 7);

    let appended = archive.append("demo", &[crate::common::user("goes on")]).unwrap();
    assert_eq!((appended.first, appended.round), (36, 12));
    assert_eq!(archive.verify(None).unwrap(), []);
}
