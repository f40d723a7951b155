//! Entries that say nothing, which clients send back or do not.

use longhand_archive::{After, Archive, KnownPath, NewEntry, Owner, Scope};
use longhand_core::Seq;

use super::samples::{
    begin, fork, id, links, numbers, record, reply, said, seqs, silent, stubs, user,
};

/// Where a conversation is known to.
fn found(archive: &dyn Archive, entries: &[NewEntry]) -> Option<(u64, usize)> {
    let found = archive.find_path(Owner::LOCAL, &said(Owner::LOCAL, entries)).unwrap();
    found.map(|KnownPath { session, seq, known }| {
        assert_eq!(session, id("s"));
        (seq.0, known)
    })
}

/// Sends a conversation from its beginning; returns the entries that it is, and how many were new.
fn send(archive: &dyn Archive, entries: &[NewEntry]) -> (Vec<u64>, u64) {
    let appended = archive.append(begin(archive, "s"), After::Entry(None), entries).unwrap();
    (numbers(&appended.seqs), appended.new)
}

fn path(archive: &dyn Archive, head: u64) -> Vec<u64> {
    seqs(&archive.path(id("s"), Some(Seq(head)), 0..999).unwrap())
}

pub(super) fn what_follows_a_silent_entry_is_found_without_it(archive: &dyn Archive) {
    let (first, thought, answer, next) =
        (user("first"), silent("thought"), reply("answer"), user("next"));
    record(archive, "s", &[first.clone(), thought.clone(), answer.clone()]);
    let without = [first.clone(), answer.clone()];
    assert_eq!(send(archive, &without), (vec![0, 2], 0));
    assert_eq!(archive.head(id("s")).unwrap().unwrap().entries, 3);
    // With it, it is there as well.
    let with = [first.clone(), thought, answer.clone()];
    assert_eq!(send(archive, &with), (vec![0, 1, 2], 0));
    assert_eq!(found(archive, &without), Some((2, 2)));
    assert_eq!(found(archive, &[first.clone(), answer.clone(), next.clone()]), Some((2, 2)));
    assert_eq!(send(archive, &[first.clone(), answer.clone(), next.clone()]), (vec![0, 2, 3], 1));
    assert_eq!(path(archive, 3), [0, 1, 2, 3]);
    assert_eq!(found(archive, &[first, answer, next]), Some((3, 3)));
}

pub(super) fn the_links_are_those_of_the_conversation_without_silent_entries(
    archive: &dyn Archive,
) {
    let with = [user("0"), silent("1"), silent("2"), reply("3"), silent("4"), user("5")];
    record(archive, "s", &with);
    let stored: Vec<_> = archive.tree(id("s")).unwrap().iter().map(|node| node.link).collect();
    assert_eq!(stored, links(Owner::LOCAL, &with));
    let without = links(Owner::LOCAL, &[user("0"), reply("3"), user("5")]);
    assert_eq!([stored[0], stored[3], stored[5]], without[..]);
    assert!([1, 2, 4].iter().all(|at| stored[*at].is_silent()));
    // They are entries like others in all else.
    assert_eq!(archive.search(&Scope::All, "2", 9).unwrap()[0].seq, Seq(2));
    archive.commit(id("s"), &stubs(0, 5, &[1, 3])).unwrap();
    archive.pin(id("s"), Seq(4), true).unwrap();
}

pub(super) fn a_silent_entry_is_found_again_in_its_place_only(archive: &dyn Archive) {
    record(archive, "s", &[user("0"), silent("1"), silent("2"), reply("3")]);
    // Another thought, and one that came second there, are other paths.
    assert_eq!(send(archive, &[user("0"), silent("other"), reply("3")]), (vec![0, 4, 5], 2));
    assert_eq!(send(archive, &[user("0"), silent("2"), reply("3")]), (vec![0, 6, 7], 2));
    assert_eq!(send(archive, &[user("0"), silent("1"), reply("3")]), (vec![0, 1, 3], 0));
    // Of paths that differ only in silence, the newest one is found.
    assert_eq!(found(archive, &[user("0"), reply("3"), user("4")]), Some((7, 2)));
    assert_eq!(path(archive, 7), [0, 6, 7]);
}

pub(super) fn a_conversation_may_begin_with_a_silent_entry(archive: &dyn Archive) {
    let with = [silent("0"), silent("1"), user("2"), reply("3")];
    record(archive, "s", &with);
    assert_eq!(send(archive, &with), (vec![0, 1, 2, 3], 0));
    assert_eq!(send(archive, &[user("2"), reply("3")]), (vec![2, 3], 0));
    assert_eq!(send(archive, &[silent("0"), user("2")]), (vec![0, 2], 0));
    assert_eq!(found(archive, &[user("2"), reply("3"), user("4")]), Some((3, 2)));
    assert_eq!(path(archive, 3), [0, 1, 2, 3]);
    // Alone it is nothing to be found by.
    assert_eq!(found(archive, &[silent("0")]), None);
    assert_eq!(fork(archive, "s", None, &[silent("other"), user("2")]), [4, 5]);
    assert_eq!(found(archive, &[user("2")]), Some((5, 1)));
}

pub(super) fn a_path_with_many_silent_entries_is_found(archive: &dyn Archive) {
    let mut with = Vec::new();
    for n in 0..40 {
        with.push(user(&n.to_string()));
        // Ten in a row here and there, so that no index by depth alone would do.
        let count = if n % 7 == 3 { 10 } else { n % 3 };
        with.extend((0..count).map(|thought| silent(&format!("{n} {thought}"))));
    }
    record(archive, "s", &with);
    let is_said = |entry: &&NewEntry| !entry.meaning.is_silent();
    let without: Vec<NewEntry> = with.iter().filter(is_said).cloned().collect();
    let places: Vec<u64> =
        (0..).zip(&with).filter(|(_, entry)| is_said(entry)).map(|(at, _)| at).collect();
    assert_eq!(without.len(), 40);
    for known in 1..=40 {
        let mut sent = without[..known].to_vec();
        assert_eq!(found(archive, &sent), Some((places[known - 1], known)));
        sent.push(user("unheard of"));
        assert_eq!(found(archive, &sent), Some((places[known - 1], known)));
    }
    assert_eq!(send(archive, &without), (places, 0));
    assert_eq!(send(archive, &with).1, 0);
    // Long ways up are the same as ever.
    let head = with.len() as u64 - 1;
    assert_eq!(path(archive, head).len(), with.len());
    for seq in 0..=head {
        let batches = archive.head(id("s")).unwrap().unwrap().batches;
        archive.commit(id("s"), &stubs(batches, head, &[seq])).unwrap();
        assert_eq!(seqs(&archive.path(id("s"), None, seq..seq + 1).unwrap()), [seq]);
    }
}

pub(super) fn of_paths_that_differ_only_in_silence_the_longest_is_found(archive: &dyn Archive) {
    let round = |n: usize| user(&n.to_string());
    let plain: Vec<NewEntry> = (0..20).map(round).collect();
    // The other one thinks once at the start, and goes on for longer.
    let mut thoughtful: Vec<NewEntry> = (0..23).map(round).collect();
    thoughtful.insert(1, silent("thought"));
    assert_eq!(send(archive, &plain).1, 20);
    assert_eq!(send(archive, &thoughtful).1, 23);
    let sent: Vec<NewEntry> = (0..30).map(round).collect();
    for known in 1..=23 {
        let seq = if known == 1 { 0 } else { known as u64 + 19 };
        assert_eq!(found(archive, &sent[..known]), Some((seq, known)), "{known}");
    }
    assert_eq!(found(archive, &sent), Some((42, 23)));
    // The first one goes on, and is the longest then, though the other branch is as near.
    fork(archive, "s", Some(19), &sent[20..25]);
    assert_eq!(found(archive, &sent), Some((47, 25)));
    assert_eq!(found(archive, &sent[..23]), Some((45, 23)));
    // The same in another session.
    record(archive, "t", &[&[silent("x"), silent("y"), silent("z")], &sent[..26]].concat());
    let chain = said(Owner::LOCAL, &sent);
    let other = archive.find_path(Owner::LOCAL, &chain).unwrap();
    assert_eq!(other, Some(KnownPath { session: id("t"), seq: Seq(28), known: 26 }));
    archive.remove(id("t")).unwrap();
    assert_eq!(found(archive, &sent), Some((47, 25)));
}
