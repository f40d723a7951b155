//! A message of 50 MB with characters that databases dislike is the same in memory, in a file and on a server.

use longhand_archive::{
    After, Archive, MemoryArchive, NewEntry, Scope, SqliteArchive, Upkeep, wait,
};
use longhand_testkit::contract::samples::{id, named, user};

use crate::server::server;

const BYTES: usize = 50 << 20;

#[test]
fn a_message_of_50_mb_is_the_same_everywhere() {
    let Some(server) = server() else { return };
    let mut text = String::with_capacity(BYTES + 100);
    text.push_str("begins\0with NUL 数据库 ");
    while text.len() < BYTES {
        text.push_str("the exporter of 数学 wrote \0 into 🚀 the queue\n");
    }
    text.push_str("the needle at the end: 終わり");
    let entry = NewEntry { raw: text.clone(), text, ..user("large") };
    let folder = tempfile::tempdir().unwrap();
    let file = SqliteArchive::open(folder.path().join("archive.db")).unwrap();
    let database = server.database();
    let (memory, one) = (MemoryArchive::new(), server.open(&database, true));
    let archives: [&dyn Archive; 3] = [&memory, &file, &one];
    let found = archives.map(|archive| {
        let owner = longhand_archive::Owner::LOCAL;
        archive.begin(id("s"), &named(owner, "s")).unwrap();
        archive.append(id("s"), After::Newest, &[user("small"), entry.clone()]).unwrap();
        let read = archive.entries(id("s"), 1..2).unwrap();
        assert!(read[0].raw == entry.raw, "it was changed");
        wait(archive.maintain(Upkeep::Index)).unwrap();
        let queries = ["needle", "数据库", "数学 queue", "終わり", "nothing of this"];
        queries.map(|query| {
            let hits = archive.search(&Scope::All, query, 9).unwrap();
            hits.into_iter().map(|hit| (hit.seq.0, hit.snippet)).collect::<Vec<_>>()
        })
    });
    assert_eq!(found[0], found[1]);
    assert_eq!(found[0], found[2]);
    let counts = found[2].each_ref().map(Vec::len);
    assert_eq!(counts, [1, 1, 1, 1, 0]);
    // Another node reads the same, and every checksum is right.
    assert!(server.open(&database, false).entries(id("s"), 1..2).unwrap()[0].raw == entry.raw);
    assert_eq!(one.verify(None).unwrap(), []);
}
