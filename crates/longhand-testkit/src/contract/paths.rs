//! Forks, rounds, and conversations that are found again.

use longhand_archive::{
    After, Appended, Archive, ArchiveError, Entry, KnownPath, NewEntry, Node, Owner,
};
use longhand_core::Seq;

use super::samples::{begin, fork, id, links, named, numbers, record, reply, seqs, silent, user};

pub(super) fn rounds_begin_where_they_are_opened(archive: &dyn Archive) {
    assert_eq!(record(archive, "s", &[]), Appended::default());
    record(archive, "s", &[reply("system"), user("one"), reply("two")]);
    let appended = record(archive, "s", &[reply("three"), user("four")]);
    assert_eq!(appended, Appended { seqs: vec![Seq(3), Seq(4)], new: 2, round: 1 });
    assert_eq!(record(archive, "s", &[]), Appended { round: 2, ..Appended::default() });
    let entries = archive.entries(id("s"), 0..9).unwrap();
    assert_eq!(entries.iter().map(|entry| entry.round).collect::<Vec<_>>(), [0, 1, 1, 1, 2]);
    let head = archive.head(id("s")).unwrap().unwrap();
    assert_eq!((head.entries, head.rounds, head.head), (5, 3, Some(Seq(4))));
    // A fork goes on from the round of its parent, and is the newest path then.
    fork(archive, "s", Some(0), &[user("other")]);
    let head = archive.head(id("s")).unwrap().unwrap();
    assert_eq!((head.entries, head.rounds, head.head), (6, 2, Some(Seq(5))));
}

pub(super) fn forks_share_what_is_before_them(archive: &dyn Archive) {
    record(archive, "s", &[user("one"), reply("two"), user("three"), reply("four")]);
    // The third message is edited and sent again, with all that is before it.
    let edited = [user("one"), reply("two"), user("3"), reply("four")];
    let appended = archive.append(id("s"), After::Entry(None), &edited).unwrap();
    assert_eq!((numbers(&appended.seqs), appended.new), (vec![0, 1, 4, 5], 2));
    // Sent once more, it is all there.
    let again = archive.append(id("s"), After::Entry(None), &edited).unwrap();
    assert_eq!((numbers(&again.seqs), again.new), (vec![0, 1, 4, 5], 0));
    assert_eq!(fork(archive, "s", Some(1), &[user("3"), reply("five")]), [4, 6]);
    assert_eq!(fork(archive, "s", None, &[user("another root")]), [7]);
    let path = |head: Option<u64>, range: std::ops::Range<u64>| {
        seqs(&archive.path(id("s"), head.map(Seq), range).unwrap())
    };
    assert_eq!(path(Some(3), 0..99), [0, 1, 2, 3]);
    assert_eq!(path(Some(5), 0..99), [0, 1, 4, 5]);
    assert_eq!(path(Some(6), 0..99), [0, 1, 4, 6]);
    assert_eq!(path(Some(6), 1..5), [1, 4]);
    assert_eq!(path(Some(6), 2..4).len(), 0);
    assert_eq!(path(None, 0..99), [7]);
    let unknown = archive.path(id("s"), Some(Seq(8)), 0..9);
    assert!(matches!(unknown, Err(ArchiveError::NoSuchEntries { entries: 8, .. })));
    let unknown = archive.append(id("s"), After::Entry(Some(Seq(8))), &[]);
    assert!(matches!(unknown, Err(ArchiveError::NoSuchEntries { entries: 8, .. })));
    // Finding entries again does not move the head.
    fork(archive, "s", None, &[user("one")]);
    assert_eq!(archive.head(id("s")).unwrap().unwrap().head, Some(Seq(7)));
}

pub(super) fn equal_words_said_twice_are_two_entries(archive: &dyn Archive) {
    for _ in 0..3 {
        record(archive, "s", &[user("yes"), user("yes")]);
    }
    assert_eq!(archive.path(id("s"), None, 0..9).unwrap().len(), 6);
}

pub(super) fn a_conversation_is_found_again_by_its_chain(archive: &dyn Archive) {
    let said: Vec<NewEntry> = (0..9).map(|n| user(&n.to_string())).collect();
    record(archive, "s", &said[..6]);
    let chain = links(Owner::LOCAL, &said);
    let found = |owner, links: &[_]| archive.find_path(owner, links).unwrap();
    let expected = KnownPath { session: id("s"), seq: Seq(5), known: 6 };
    assert_eq!(found(Owner::LOCAL, &chain), Some(expected));
    for known in 1..6 {
        let expected = KnownPath { session: id("s"), seq: Seq(known as u64 - 1), known };
        assert_eq!(found(Owner::LOCAL, &chain[..known]), Some(expected));
    }
    assert_eq!(found(Owner::LOCAL, &[]), None);
    // Owners do not find what belongs to others, even if they say the same.
    let other = Owner::of("key");
    assert_eq!(found(other, &chain), None);
    assert_eq!(found(other, &links(other, &said)), None);
    archive.begin(id("theirs"), &named(other, "theirs")).unwrap();
    archive.append(id("theirs"), After::Newest, &said[..2]).unwrap();
    let expected = KnownPath { session: id("theirs"), seq: Seq(1), known: 2 };
    assert_eq!(found(other, &links(other, &said)), Some(expected));
    // Of two that have it, the one that got it last.
    record(archive, "t", &said[..6]);
    assert_eq!(found(Owner::LOCAL, &chain).unwrap().session, id("t"));
    fork(archive, "s", Some(5), &said[6..7]);
    let expected = KnownPath { session: id("s"), seq: Seq(6), known: 7 };
    assert_eq!(found(Owner::LOCAL, &chain), Some(expected));
    archive.remove(id("s")).unwrap();
    assert_eq!(found(Owner::LOCAL, &chain).unwrap().session, id("t"));
    archive.remove(id("t")).unwrap();
    assert_eq!(found(Owner::LOCAL, &chain), None);
}

pub(super) fn the_tree_is_that_of_the_entries(archive: &dyn Archive) {
    assert_eq!(archive.tree(id("s")).unwrap(), []);
    begin(archive, "s");
    assert_eq!(archive.tree(id("s")).unwrap(), []);
    record(archive, "s", &[user("0"), silent("1"), reply("2"), user("3")]);
    fork(archive, "s", Some(0), &[reply("4"), silent("5"), user("6")]);
    fork(archive, "s", None, &[silent("7"), user("8")]);
    record(archive, "other", &[user("0")]);
    let entries = archive.entries(id("s"), 0..99).unwrap();
    assert_eq!(entries.len(), 9);
    let nodes = entries.iter().map(|entry| {
        let Entry { seq, parent, link, round, .. } = *entry;
        Node { seq, parent, link, round }
    });
    assert_eq!(archive.tree(id("s")).unwrap(), nodes.collect::<Vec<_>>());
}
