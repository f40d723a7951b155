//! What every archive promises.

use std::thread;

use longhand_archive::{
    Addition, After, Appended, ArchiveError, Conflict, Entry, Head, KnownPath, LoggedBatch,
    NewEntry, NewSession, Owner, Page, PreambleId, Reference, RequestRecord, Scope, SessionId,
    SessionInfo,
};
use longhand_core::Handle;
use longhand_core::{Edit, Original, Place, Seq};

use crate::common::{
    batch, begin, check, fold, folds, fork, id, links, named, numbers, record, reply, seqs,
    stub_handle, stubs, user, with_variants,
};

fn numbers_of(batches: &[LoggedBatch]) -> Vec<u64> {
    batches.iter().map(|batch| batch.number).collect()
}

#[test]
fn entries_come_back_byte_for_byte() {
    check(|archive| {
        let odd = NewEntry {
            opens_round: false,
            form: String::new(),
            raw: "{\"a\" : 1.0,\t\"b\":\"\\u00e9\u{1f600}\\ud83d\",\"\":\0 \u{feff}\r\n".to_owned(),
            text: "\0odd".to_owned(),
            at_ms: i64::MIN,
            ..user("odd")
        };
        let empty =
            NewEntry { raw: String::new(), text: String::new(), at_ms: i64::MAX, ..odd.clone() };
        let new = [user("hello"), odd, empty];
        let appended = record(archive, "s", &new);
        let expected = vec![Seq(0), Seq(1), Seq(2)];
        assert_eq!(appended, Appended { seqs: expected, new: 3, round: 0, batch: None });
        let links = links(Owner::LOCAL, &new);
        for entries in [
            archive.entries(id("s"), 0..u64::MAX).unwrap(),
            archive.path(id("s"), None, 0..u64::MAX).unwrap(),
        ] {
            assert_eq!(entries.len(), new.len());
            for (at, (entry, new)) in entries.into_iter().zip(&new).enumerate() {
                let NewEntry { form, raw, at_ms, .. } = new.clone();
                let seq = Seq(at as u64);
                let parent = at.checked_sub(1).map(|at| Seq(at as u64));
                let expected = Entry { seq, parent, link: links[at], round: 0, form, raw, at_ms };
                assert_eq!(entry, expected);
            }
        }
    });
}

#[test]
fn ranges_give_what_is_there() {
    check(|archive| {
        record(archive, "s", &(0..10).map(|n| user(&n.to_string())).collect::<Vec<_>>());
        let check_range = |range: std::ops::Range<u64>, expected: &[u64]| {
            assert_eq!(seqs(&archive.entries(id("s"), range.clone()).unwrap()), expected);
            assert_eq!(seqs(&archive.path(id("s"), None, range).unwrap()), expected);
        };
        check_range(3..5, &[3, 4]);
        check_range(8..99, &[8, 9]);
        check_range(10..99, &[]);
        check_range(0..0, &[]);
        check_range(u64::MAX - 1..u64::MAX, &[]);
        #[expect(clippy::reversed_empty_ranges, reason = "callers may get it wrong")]
        check_range(5..3, &[]);
        assert_eq!(archive.entries(id("other"), 0..5).unwrap(), []);
        assert_eq!(archive.path(id("other"), None, 0..5).unwrap(), []);
    });
}

#[test]
fn a_session_begins_once_and_has_one_owner() {
    check(|archive| {
        let unknown = archive.append(id("s"), After::Newest, &[user("one")]);
        assert!(matches!(unknown, Err(ArchiveError::UnknownSession { .. })), "{unknown:?}");
        let new = NewSession {
            continues: Some(id("r")),
            group: Some(u64::MAX),
            ..named(Owner::LOCAL, "s")
        };
        archive.begin(id("s"), &new).unwrap();
        archive.begin(id("s"), &NewSession { name: "other".to_owned(), ..new.clone() }).unwrap();
        let taken = archive.begin(id("s"), &NewSession { owner: Owner::of("key"), ..new.clone() });
        assert!(matches!(taken, Err(ArchiveError::NotTheOwner { .. })), "{taken:?}");
        let info = SessionInfo {
            id: id("s"),
            owner: Owner::LOCAL,
            dialect: "chat".to_owned(),
            name: "s".to_owned(),
            continues: Some(id("r")),
            group: Some(u64::MAX),
            begun_ms: 5,
            ..SessionInfo::default()
        };
        assert_eq!(archive.session(id("s")).unwrap(), Some(info));
        assert_eq!(archive.session(id("r")).unwrap(), None);
        assert_eq!(archive.head(id("s")).unwrap(), Some(Head::default()));
        assert_eq!(archive.head(id("r")).unwrap(), None);
        assert_eq!(archive.path(id("s"), None, 0..9).unwrap(), []);
    });
}

#[test]
fn rounds_begin_where_they_are_opened() {
    check(|archive| {
        assert_eq!(record(archive, "s", &[]), Appended::default());
        record(archive, "s", &[reply("system"), user("one"), reply("two")]);
        let appended = record(archive, "s", &[reply("three"), user("four")]);
        assert_eq!(
            appended,
            Appended { seqs: vec![Seq(3), Seq(4)], new: 2, round: 1, batch: None }
        );
        assert_eq!(record(archive, "s", &[]), Appended { round: 2, ..Appended::default() });
        let entries = archive.entries(id("s"), 0..9).unwrap();
        assert_eq!(entries.iter().map(|entry| entry.round).collect::<Vec<_>>(), [0, 1, 1, 1, 2]);
        let head = archive.head(id("s")).unwrap().unwrap();
        assert_eq!((head.entries, head.rounds, head.head), (5, 3, Some(Seq(4))));
        // A fork goes on from the round of its parent, and is the newest path then.
        fork(archive, "s", Some(0), &[user("other")]);
        let head = archive.head(id("s")).unwrap().unwrap();
        assert_eq!((head.entries, head.rounds, head.head), (6, 2, Some(Seq(5))));
    });
}

#[test]
fn forks_share_what_is_before_them() {
    check(|archive| {
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
    });
}

#[test]
fn equal_words_said_twice_are_two_entries() {
    check(|archive| {
        for _ in 0..3 {
            record(archive, "s", &[user("yes"), user("yes")]);
        }
        assert_eq!(archive.path(id("s"), None, 0..9).unwrap().len(), 6);
    });
}

#[test]
fn a_conversation_is_found_again_by_its_chain() {
    check(|archive| {
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
    });
}

#[test]
fn one_bad_addition_fails_alone() {
    check(|archive| {
        begin(archive, "s");
        let add = |name: &str, begin: bool, after, entries: &[NewEntry]| Addition {
            session: id(name),
            begin: begin.then(|| named(Owner::LOCAL, name)),
            after,
            entries: entries.to_vec(),
            ..Addition::default()
        };
        let outcomes = archive
            .append_all(&[
                add("s", false, After::Newest, &[user("one")]),
                add("unknown", false, After::Newest, &[user("one")]),
                add("new", true, After::Newest, &[user("one"), reply("two")]),
                add("bad", true, After::Entry(Some(Seq(7))), &[user("one")]),
                add("s", true, After::Entry(Some(Seq(0))), &[reply("two")]),
            ])
            .unwrap();
        let told: Vec<Option<Vec<u64>>> = outcomes
            .iter()
            .map(|outcome| outcome.as_ref().ok().map(|appended| numbers(&appended.seqs)))
            .collect();
        assert_eq!(told, [Some(vec![0]), None, Some(vec![0, 1]), None, Some(vec![1])]);
        assert!(matches!(outcomes[1], Err(ArchiveError::UnknownSession { .. })));
        assert!(matches!(outcomes[3], Err(ArchiveError::NoSuchEntries { .. })));
        assert_eq!(archive.head(id("bad")).unwrap(), None);
        assert_eq!(archive.head(id("s")).unwrap().unwrap().entries, 2);
        assert_eq!(archive.append_all(&[]).unwrap().len(), 0);
    });
}

#[test]
fn sessions_are_listed_by_activity() {
    check(|archive| {
        let early = NewEntry { at_ms: -5, ..user("early") };
        let bytes = (early.raw.len() + reply("late").raw.len()) as u64;
        record(archive, "a", &[early, reply("late")]);
        archive.commit(id("a"), &stubs(0, 0, &[0])).unwrap();
        archive.undo(id("a"), None).unwrap();
        for name in ["b", "c", "d", "e"] {
            record(archive, name, &[user(name)]);
        }
        begin(archive, "empty");
        begin(archive, "empty too");
        record(archive, "c", &[user("again")]);
        archive.begin(id("theirs"), &named(Owner::of("key"), "theirs")).unwrap();
        let names = |owner, page: Page| {
            let listing = archive.sessions(owner, page).unwrap();
            let names: Vec<String> = listing.items.into_iter().map(|info| info.name).collect();
            (names, listing.next)
        };
        let all = ["c", "e", "d", "b", "a", "theirs", "empty too", "empty"];
        assert_eq!(names(None, Page::ALL), (all.map(str::to_owned).to_vec(), None));
        let (own, _) = names(Some(Owner::LOCAL), Page::ALL);
        assert_eq!(own, ["c", "e", "d", "b", "a", "empty too", "empty"]);
        assert_eq!(names(Some(Owner::of("key")), Page::ALL).0, ["theirs"]);
        assert_eq!(names(Some(Owner::of("nobody")), Page::ALL).0.len(), 0);
        // What moves to the front meanwhile disturbs no later page.
        let (first, next) = names(None, Page::first(2));
        assert_eq!(first, ["c", "e"]);
        record(archive, "b", &[user("meanwhile")]);
        let (second, next) = names(None, Page { after: next, limit: 3 });
        assert_eq!(second, ["d", "a", "theirs"]);
        let (third, next) = names(None, Page { after: next, limit: 9 });
        assert_eq!((third.len(), next), (2, None));
        let info = SessionInfo {
            id: id("a"),
            owner: Owner::LOCAL,
            dialect: "chat".to_owned(),
            name: "a".to_owned(),
            continues: None,
            group: None,
            begun_ms: 5,
            entries: 2,
            rounds: 1,
            batches: 1,
            bytes,
            first_ms: -5,
            last_ms: 1_700_000_000_500,
            is_damaged: false,
        };
        assert_eq!(archive.session(id("a")).unwrap(), Some(info));
    });
}

/// Entries 0 to 3 in a line, then 4 and 5 after 1, and 6 after 3.
fn tree(archive: &dyn longhand_archive::Archive) {
    record(archive, "s", &[user("0"), reply("1"), user("2"), reply("3")]);
    assert_eq!(fork(archive, "s", Some(1), &[user("4"), reply("5")]), [4, 5]);
    assert_eq!(fork(archive, "s", Some(3), &[user("6")]), [6]);
}

#[test]
fn a_batch_applies_to_every_path_that_holds_what_it_edits() {
    check(|archive| {
        tree(archive);
        let live = |head: u64| numbers_of(&archive.live(id("s"), Some(Seq(head))).unwrap());
        let commit = |batch| archive.commit(id("s"), &batch);
        // Made for one path, within what both share: its head need not be on a path.
        assert_eq!(commit(stubs(0, 3, &[0])).unwrap(), 1);
        assert_eq!(commit(stubs(1, 5, &[1, 4])).unwrap(), 2);
        assert_eq!(commit(folds(1, 3, 0, 2)).unwrap(), 3);
        for (head, expected) in [
            (0, &[1][..]),
            (1, &[1]),
            (2, &[1, 3]),
            (3, &[1, 3]),
            (4, &[1, 2]),
            (5, &[1, 2]),
            (6, &[1, 3]),
        ] {
            assert_eq!(live(head), expected, "{head}");
        }
        assert_eq!(numbers_of(&archive.live(id("s"), None).unwrap()), [1, 3]);
        assert_eq!(archive.live(id("other"), None).unwrap(), []);
        let batch = &archive.live(id("s"), Some(Seq(5))).unwrap()[1];
        let new = stubs(1, 5, &[1, 4]);
        assert_eq!((batch.after, batch.at_ms, batch.is_live), (1, 7, true));
        assert_eq!((&batch.batch, &batch.receipt), (&new.batch, &new.receipt));
        let unknown = archive.live(id("s"), Some(Seq(7)));
        assert!(matches!(unknown, Err(ArchiveError::NoSuchEntries { .. })));
    });
}

#[test]
fn a_batch_edits_its_own_path() {
    check(|archive| {
        let unknown = archive.commit(id("s"), &stubs(0, 0, &[]));
        assert!(matches!(unknown, Err(ArchiveError::UnknownSession { .. })), "{unknown:?}");
        begin(archive, "s");
        let unknown = archive.commit(id("s"), &stubs(0, 0, &[]));
        assert!(matches!(unknown, Err(ArchiveError::NoSuchEntries { .. })), "{unknown:?}");
        tree(archive);
        for off_path in [
            stubs(0, 3, &[0, 4]),
            stubs(0, 3, &[6]),
            stubs(0, 3, &[99]),
            folds(0, 5, 0, 2),
            batch(0, 5, vec![Edit::Insert { after: Seq(3), text: String::new() }]),
        ] {
            let refused = archive.commit(id("s"), &off_path);
            assert!(matches!(refused, Err(ArchiveError::NotOnPath { .. })), "{refused:?}");
        }
        assert_eq!(archive.head(id("s")).unwrap().unwrap().batches, 0);
        assert_eq!(archive.reference(&Scope::All, stub_handle(0)).unwrap(), None);
    });
}

#[test]
fn a_batch_builds_on_the_newest_one_of_its_path() {
    check(|archive| {
        tree(archive);
        let commit = |batch| archive.commit(id("s"), &batch);
        let conflict = |batch| match commit(batch) {
            Err(ArchiveError::Conflict { conflict: Conflict::Batch { after, newest }, .. }) => {
                (after, newest)
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(conflict(stubs(1, 3, &[0])), (1, 0));
        assert_eq!(commit(stubs(0, 3, &[2])).unwrap(), 1);
        // The same path and a longer one have it.
        for head in [3, 6] {
            assert_eq!(conflict(stubs(0, head, &[0])), (0, 1), "{head}");
        }
        // Another one that the batch does not apply to knows nothing of it.
        assert_eq!(conflict(stubs(1, 5, &[4])), (1, 0));
        assert_eq!(commit(stubs(0, 5, &[4])).unwrap(), 2);
        assert_eq!(commit(stubs(1, 6, &[6])).unwrap(), 3);
        assert_eq!(conflict(stubs(0, 5, &[0])), (0, 2));
        // One for a shorter path holds there, and changes nothing for those that have others.
        assert_eq!(commit(stubs(0, 1, &[0])).unwrap(), 4);
        let live = |head| numbers_of(&archive.live(id("s"), Some(Seq(head))).unwrap());
        assert_eq!((live(1), live(3), live(6), live(5)), (vec![4], vec![1], vec![1, 3], vec![2]));
        assert_eq!(archive.head(id("s")).unwrap().unwrap().batches, 4);
    });
}

#[test]
fn undo_takes_back_the_newest_batch_of_a_path_and_the_log_keeps_it() {
    check(|archive| {
        assert_eq!(archive.undo(id("s"), None).unwrap(), None);
        tree(archive);
        assert_eq!(archive.undo(id("s"), None).unwrap(), None);
        for batch in [stubs(0, 3, &[0]), stubs(1, 5, &[4]), stubs(1, 6, &[3]), folds(3, 6, 0, 3)] {
            archive.commit(id("s"), &batch).unwrap();
        }
        let undo = |head: Option<u64>| {
            let batch = archive.undo(id("s"), head.map(Seq)).unwrap()?;
            assert!(!batch.is_live);
            Some(batch.number)
        };
        let log = || {
            let batches = archive.batches(id("s"), Page::ALL).unwrap().items;
            batches.iter().rev().map(|batch| (batch.number, batch.is_live)).collect::<Vec<_>>()
        };
        assert_eq!(undo(None), Some(4));
        assert_eq!(log(), [(1, true), (2, true), (3, true), (4, false)]);
        // Done again, it is another batch.
        assert_eq!(archive.commit(id("s"), &folds(3, 6, 0, 3)).unwrap(), 5);
        assert_eq!(undo(Some(6)), Some(5));
        assert_eq!(undo(Some(5)), Some(2));
        assert_eq!(undo(Some(2)), Some(1));
        // Batch 3 was built on it.
        assert_eq!(log(), [(1, false), (2, false), (3, false), (4, false), (5, false)]);
        assert_eq!(archive.live(id("s"), None).unwrap(), []);
        assert_eq!(undo(None), None);
        assert_eq!(archive.commit(id("s"), &stubs(0, 6, &[0])).unwrap(), 6);
        assert_eq!(numbers_of(&archive.live(id("s"), Some(Seq(5))).unwrap()), [6]);
    });
}

#[test]
fn the_log_is_read_in_pages() {
    check(|archive| {
        record(archive, "s", &[user("one"), reply("two")]);
        for after in 0..7 {
            archive.commit(id("s"), &stubs(after, 1, &[0])).unwrap();
        }
        let first = archive.batches(id("s"), Page::first(3)).unwrap();
        assert_eq!(numbers_of(&first.items), [7, 6, 5]);
        archive.commit(id("s"), &stubs(7, 1, &[0])).unwrap();
        let second = archive.batches(id("s"), Page { after: first.next, limit: 3 }).unwrap();
        assert_eq!(numbers_of(&second.items), [4, 3, 2]);
        let third = archive.batches(id("s"), Page { after: second.next, limit: 3 }).unwrap();
        assert_eq!((numbers_of(&third.items), third.next), (vec![1], None));
        assert_eq!(archive.batches(id("other"), Page::ALL).unwrap().items, []);
    });
}

#[test]
fn pins_are_kept_in_order() {
    check(|archive| {
        let pin = |seq, pinned| archive.pin(id("s"), Seq(seq), pinned);
        assert!(matches!(pin(0, true), Err(ArchiveError::UnknownSession { .. })));
        record(archive, "s", &[user("one"), user("two"), user("three")]);
        for (seq, pinned) in [(2, true), (0, true), (1, false), (2, true), (1, true), (0, false)] {
            pin(seq, pinned).unwrap();
        }
        let pins = || archive.head(id("s")).unwrap().unwrap().pins;
        assert_eq!(pins(), [Seq(1), Seq(2)]);
        for beyond in [3, u64::MAX] {
            let refused = pin(beyond, true);
            assert!(matches!(refused, Err(ArchiveError::NoSuchEntries { .. })), "{refused:?}");
        }
        record(archive, "s", &[user("four")]);
        assert_eq!(pins(), [Seq(1), Seq(2)]);
    });
}

#[test]
fn handles_lead_to_what_was_edited() {
    check(|archive| {
        tree(archive);
        archive.commit(id("s"), &stubs(0, 3, &[0, 2])).unwrap();
        archive.commit(id("s"), &folds(1, 3, 0, 2)).unwrap();
        let find = |handle| archive.reference(&Scope::Session(id("s")), handle).unwrap();
        let part = |entry| Reference::Part {
            session: id("s"),
            place: Place { entry: Seq(entry), part: 0 },
        };
        assert_eq!(find(stub_handle(2)), Some(part(2)));
        let folded = Reference::Fold { session: id("s"), batch: 2, fold: fold(0, 2) };
        assert_eq!(find(fold(0, 2).handle()), Some(folded.clone()));
        assert_eq!(find(stub_handle(1)), None);
        // The first one counts, and an undone batch still tells what its handles stand for.
        let same = Edit::Clip {
            at: Place { entry: Seq(1), part: 3 },
            handle: stub_handle(2),
            text: String::new(),
        };
        archive.commit(id("s"), &batch(2, 3, vec![same])).unwrap();
        while archive.undo(id("s"), Some(Seq(3))).unwrap().is_some() {}
        assert_eq!(find(stub_handle(2)), Some(part(2)));
        assert_eq!(find(fold(0, 2).handle()), Some(folded));
    });
}

#[test]
fn handles_are_looked_up_at_home_first_and_never_at_strangers() {
    check(|archive| {
        for name in ["a", "b"] {
            record(archive, name, &[user("one"), reply("two")]);
        }
        let other = Owner::of("key");
        archive.begin(id("theirs"), &named(other, "theirs")).unwrap();
        archive.append(id("theirs"), After::Newest, &[user("one")]).unwrap();
        for (name, part) in [("b", 1), ("a", 0), ("theirs", 2)] {
            let at = Place { entry: Seq(0), part };
            let stub = Edit::Stub { at, handle: stub_handle(0), text: String::new() };
            archive.commit(id(name), &batch(0, 0, vec![stub])).unwrap();
        }
        archive.commit(id("b"), &stubs(1, 1, &[1])).unwrap();
        let find = |scope: Scope, handle| match archive.reference(&scope, handle).unwrap() {
            Some(Reference::Part { session, place }) => Some((session, place.part)),
            None => None,
            other => panic!("{other:?}"),
        };
        let shared = stub_handle(0);
        for (name, part) in [("a", 0), ("b", 1), ("theirs", 2)] {
            let found = Some((id(name), part));
            assert_eq!(find(Scope::Session(id(name)), shared), found);
            assert_eq!(find(Scope::Path { session: id(name), head: None }, shared), found);
        }
        assert_eq!(find(Scope::Session(id("a")), stub_handle(1)), Some((id("b"), 0)));
        assert_eq!(find(Scope::Session(id("theirs")), stub_handle(1)), None);
        assert_eq!(find(Scope::Owner(other), stub_handle(1)), None);
        assert_eq!(find(Scope::Owner(other), shared), Some((id("theirs"), 2)));
        assert_eq!(find(Scope::Owner(Owner::LOCAL), shared), Some((id("a"), 0)));
        assert_eq!(find(Scope::All, shared), Some((id("a"), 0)));
        assert_eq!(find(Scope::Session(id("unknown")), shared), None);
        archive.remove(id("a")).unwrap();
        assert_eq!(find(Scope::Owner(Owner::LOCAL), shared), Some((id("b"), 1)));
        assert_eq!(find(Scope::Session(id("a")), shared), None);
    });
}

#[test]
fn preambles_are_kept_once_for_each_owner() {
    check(|archive| {
        let (own, other) = (Owner::LOCAL, Owner::of("key"));
        let tools = archive.keep_preamble(own, "tools").unwrap();
        assert_eq!(archive.keep_preamble(own, "tools").unwrap(), tools);
        assert_eq!(tools, PreambleId::of("tools"));
        assert_eq!(archive.preamble(own, tools).unwrap().as_deref(), Some("tools"));
        assert_eq!(archive.preamble(other, tools).unwrap(), None);
        assert_eq!(archive.preamble(own, PreambleId::of("none")).unwrap(), None);
        // One that nobody else asks with goes along with its session.
        let shared = archive.keep_preamble(own, "shared").unwrap();
        let unused = archive.keep_preamble(own, "unused").unwrap();
        archive.keep_preamble(other, "tools").unwrap();
        begin(archive, "a");
        begin(archive, "b");
        let log = |name, preamble| {
            let request = RequestRecord { preamble: Some(preamble), ..RequestRecord::default() };
            archive.log_request(id(name), &request).unwrap();
        };
        log("a", tools);
        log("a", shared);
        log("b", shared);
        archive.remove(id("a")).unwrap();
        assert_eq!(archive.preamble(own, tools).unwrap(), None);
        for kept in [shared, unused] {
            assert!(archive.preamble(own, kept).unwrap().is_some());
        }
        assert!(archive.preamble(other, tools).unwrap().is_some());
    });
}

#[test]
fn requests_are_logged_as_they_are() {
    check(|archive| {
        let unknown = archive.log_request(id("s"), &RequestRecord::default());
        assert!(matches!(unknown, Err(ArchiveError::UnknownSession { .. })), "{unknown:?}");
        record(archive, "s", &[user("one")]);
        let request = |n: u64| RequestRecord {
            at_ms: -7,
            preamble: n.is_multiple_of(2).then(|| PreambleId::of("tools")),
            head: n.is_multiple_of(3).then_some(Seq(n)),
            batch: n,
            model: format!("model {n}"),
            agent: format!("agent {n}"),
            limit: n + 4,
            before: u64::MAX,
            window: n + 5,
            sent: n,
            cached: n + 1,
            output: n + 2,
            cost_micros: n.is_multiple_of(2).then_some(u64::MAX - n),
            edits: n + 3,
            answer: n.is_multiple_of(3).then(|| format!("answer {n}")),
            is_cut: n % 2 == 1,
            is_aside: n % 3 == 1,
            is_bypassed: n % 4 == 1,
        };
        for n in 0..5 {
            archive.log_request(id("s"), &request(n)).unwrap();
        }
        let all = archive.requests(id("s"), Page::ALL).unwrap();
        assert_eq!((all.items, all.next), ((0..5).rev().map(request).collect(), None));
        let first = archive.requests(id("s"), Page::first(2)).unwrap();
        archive.log_request(id("s"), &request(9)).unwrap();
        let second = archive.requests(id("s"), Page { after: first.next, limit: 3 }).unwrap();
        assert_eq!((second.items, second.next), ((0..3).rev().map(request).collect(), None));
        assert_eq!(archive.requests(id("other"), Page::ALL).unwrap().items, []);
    });
}

#[test]
fn derived_data_is_replaced() {
    check(|archive| {
        let unknown = archive.put_derived(id("s"), "story 1", "x");
        assert!(matches!(unknown, Err(ArchiveError::UnknownSession { .. })), "{unknown:?}");
        begin(archive, "s");
        assert_eq!(archive.derived(id("s"), "story 1").unwrap(), None);
        for value in ["once", "twice"] {
            archive.put_derived(id("s"), "story 1", value).unwrap();
            assert_eq!(archive.derived(id("s"), "story 1").unwrap().as_deref(), Some(value));
        }
        assert_eq!(archive.derived(id("s"), "story 2").unwrap(), None);
        assert_eq!(archive.derived(id("t"), "story 1").unwrap(), None);
    });
}

#[test]
fn what_is_kept_under_a_key_is_found_by_the_beginning_of_it_and_goes_with_its_session() {
    check(|archive| {
        record(archive, "s", &[user("one")]);
        let request = RequestRecord { at_ms: 7, ..RequestRecord::default() };
        for key in ["answer/2", "answer/1", "answers", "Answer/0", "a%/1"] {
            let derived = Some((key.to_owned(), format!("value of {key}")));
            let request = Some(request.clone());
            let addition = Addition { session: id("s"), request, derived, ..Addition::default() };
            archive.append_all(&[addition]).unwrap().remove(0).unwrap();
        }
        let keys = |prefix: &str| archive.derived_keys(id("s"), prefix).unwrap();
        assert_eq!(keys("answer/"), ["answer/1", "answer/2"]);
        assert_eq!(keys("a%"), ["a%/1"]);
        assert_eq!(keys("b"), [""; 0]);
        assert_eq!(archive.derived_keys(id("t"), "").unwrap(), [""; 0]);
        let value = archive.derived(id("s"), "answer/2").unwrap();
        assert_eq!(value.as_deref(), Some("value of answer/2"));
        assert_eq!(archive.requests(id("s"), Page::ALL).unwrap().items.len(), 5);
        assert_eq!(archive.verify(None).unwrap(), []);
        // It is refused with the rest of its addition.
        let derived = Some(("answer/3".to_owned(), String::new()));
        let after = After::Entry(Some(Seq(9)));
        let entries = vec![user("lost")];
        let addition =
            Addition { session: id("s"), after, entries, derived, ..Addition::default() };
        assert!(archive.append_all(&[addition]).unwrap().remove(0).is_err());
        assert_eq!(keys("answer/").len(), 2);
        archive.remove(id("s")).unwrap();
        assert_eq!(archive.derived_keys(id("s"), "").unwrap(), [""; 0]);
    });
}

#[test]
fn a_removed_session_takes_along_what_was_its_own() {
    check(|archive| {
        for name in ["keep", "drop"] {
            record(archive, name, &[user("needle"), reply("two")]);
            let variant = (Handle::of([name]), Original::Text(name.to_owned()));
            archive.commit(id(name), &with_variants(stubs(0, 1, &[0]), &[variant])).unwrap();
            archive.pin(id(name), Seq(0), true).unwrap();
            let request =
                RequestRecord { answer: Some(name.to_owned()), ..RequestRecord::default() };
            archive.log_request(id(name), &request).unwrap();
            archive.put_derived(id(name), "story", name).unwrap();
        }
        assert!(archive.remove(id("drop")).unwrap());
        assert!(!archive.remove(id("drop")).unwrap());
        assert_eq!(archive.head(id("drop")).unwrap(), None);
        assert_eq!(archive.session(id("drop")).unwrap(), None);
        assert_eq!(archive.reference(&Scope::All, Handle::of(["drop"])).unwrap(), None);
        assert!(archive.reference(&Scope::All, Handle::of(["keep"])).unwrap().is_some());
        assert_eq!(archive.answer(Owner::LOCAL, "drop").unwrap(), None);
        assert!(archive.answer(Owner::LOCAL, "keep").unwrap().is_some());
        assert_eq!(archive.tree(id("drop")).unwrap(), []);
        let found = archive.reference(&Scope::All, stub_handle(0)).unwrap();
        assert!(matches!(found, Some(Reference::Part { session, .. }) if session == id("keep")));
        assert_eq!(archive.search(&Scope::All, "needle", 9).unwrap().len(), 1);
        assert_eq!(archive.search(&Scope::Session(id("drop")), "needle", 9).unwrap(), []);
        // Its name is free again.
        assert_eq!(record(archive, "drop", &[user("new")]).seqs, [Seq(0)]);
        let head = archive.head(id("drop")).unwrap().unwrap();
        assert_eq!((head.entries, head.batches, head.pins), (1, 0, vec![]));
        assert_eq!(archive.batches(id("drop"), Page::ALL).unwrap().items, []);
        assert_eq!(archive.requests(id("drop"), Page::ALL).unwrap().items, []);
        assert_eq!(archive.derived(id("drop"), "story").unwrap(), None);
        // What was said in both is still there.
        assert_eq!(archive.entries(id("keep"), 0..9).unwrap()[0].raw, user("needle").raw);
        assert_eq!(archive.head(id("keep")).unwrap().unwrap().pins, [Seq(0)]);
        assert_eq!(archive.requests(id("keep"), Page::ALL).unwrap().items.len(), 1);
        assert_eq!(archive.derived(id("keep"), "story").unwrap().as_deref(), Some("keep"));
    });
}

#[test]
fn a_session_that_is_not_there_cannot_be_verified() {
    check(|archive| {
        record(archive, "s", &[user("one")]);
        assert_eq!(archive.verify(Some(id("s"))).unwrap(), []);
        let refused = archive.verify(Some(id("t")));
        assert!(matches!(refused, Err(ArchiveError::UnknownSession { .. })), "{refused:?}");
    });
}

#[test]
fn any_name_is_a_session_of_its_own() {
    check(|archive| {
        let long = "x".repeat(1_000_000);
        let longer = format!("{long}y");
        let names = ["", " ", "a/b", "a_b", "../x", "a\0b", "a\0", "é", "e\u{301}", &long, &longer];
        for name in names {
            record(archive, name, &[user(name), user(name)]);
        }
        for name in names {
            assert_eq!(archive.session(id(name)).unwrap().unwrap().name, name);
            assert_eq!(archive.head(id(name)).unwrap().unwrap().entries, 2, "{name:.20}");
        }
        assert_eq!(archive.sessions(None, Page::ALL).unwrap().items.len(), names.len());
    });
}

#[test]
fn threads_that_write_at_once_all_get_their_place() {
    check(|archive| {
        begin(archive, "shared");
        thread::scope(|scope| {
            for writer in 0..8 {
                scope.spawn(move || {
                    let own = format!("own {writer}");
                    for count in 0..20 {
                        let said = format!("{writer} {count}");
                        let entries = [user(&said), reply(&said)];
                        let appended = record(archive, "shared", &entries);
                        let first = appended.seqs[0].0;
                        assert_eq!(first % 2, 0);
                        let there = archive.entries(id("shared"), first..first + 2).unwrap();
                        assert!(there.iter().all(|entry| entry.raw.contains(&said)));
                        assert_eq!(record(archive, &own, &entries[..1]).seqs, [Seq(count)]);
                        // A neighbour that fails in the same transaction harms nobody.
                        archive.commit(id("shared"), &stubs(99, 0, &[0])).unwrap_err();
                    }
                });
            }
        });
        let head = archive.head(id("shared")).unwrap().unwrap();
        assert_eq!((head.entries, head.rounds), (320, 160));
        let entries = archive.path(id("shared"), None, 0..320).unwrap();
        assert_eq!(entries.len(), 320);
        for writer in 0..8 {
            let is_own = |raw: &&str| raw.contains(&format!("\"{writer} "));
            let found = entries.iter().map(|entry| entry.raw.as_str()).filter(is_own);
            let said = (0..40).map(|half| user(&format!("{writer} {}", half / 2)).raw);
            assert!(found.eq(said), "writer {writer}");
        }
    });
}

#[test]
fn ids_without_a_session_are_only_ids() {
    check(|archive| {
        assert_eq!(archive.head(SessionId(7)).unwrap(), None);
        assert!(!archive.remove(SessionId(7)).unwrap());
    });
}
