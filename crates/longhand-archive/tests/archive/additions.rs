//! What goes into a session in one step: entries with their batch, preamble and request.

use longhand_archive::{
    Addition, After, Appended, Archive, ArchiveError, Conflict, Entry, Expected, NewBatch,
    NewEntry, Node, Owner, Page, PreambleId, Reference, RequestRecord, Scope, SqliteArchive,
};
use longhand_core::{Handle, Link, Original, Seq};

use crate::common::{
    batch, begin, check, fork, fresh, id, links, named, numbers, record, reply, silent,
    stub_handle, stubs, user, with_variants,
};

/// Makes an addition alone.
fn add(archive: &dyn Archive, addition: &Addition) -> Result<Appended, ArchiveError> {
    archive.append_all(std::slice::from_ref(addition)).unwrap().remove(0)
}

/// An addition to the session "s", which begins it.
fn addition(after: After, entries: &[NewEntry]) -> Addition {
    Addition {
        session: id("s"),
        begin: Some(named(Owner::LOCAL, "s")),
        after,
        entries: entries.to_vec(),
        ..Addition::default()
    }
}

fn expecting(addition: &Addition, first: u64, before: Option<Link>) -> Addition {
    Addition { expected: Some(Expected { first: Seq(first), before }), ..addition.clone() }
}

fn with_batch(addition: &Addition, batch: NewBatch) -> Addition {
    Addition { batch: Some(batch), ..addition.clone() }
}

/// An addition with some of everything.
fn full(addition: &Addition, batch: NewBatch) -> Addition {
    let request = RequestRecord { answer: Some("answer".to_owned()), ..RequestRecord::default() };
    Addition {
        preamble: Some("tools".to_owned()),
        request: Some(request),
        ..with_batch(addition, batch)
    }
}

/// All that an addition to the session "s" could change.
fn state(archive: &dyn Archive) -> String {
    let id = id("s");
    format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        archive.session(id).unwrap(),
        archive.head(id).unwrap(),
        archive.entries(id, 0..99).unwrap(),
        archive.batches(id, Page::ALL).unwrap(),
        archive.requests(id, Page::ALL).unwrap(),
        archive.preamble(Owner::LOCAL, PreambleId::of("tools")).unwrap(),
        archive.answer(Owner::LOCAL, "answer").unwrap(),
        archive.reference(&Scope::All, stub_handle(0)).unwrap(),
    )
}

#[test]
fn an_addition_that_expects_another_place_is_refused() {
    check(|archive| {
        let told = [user("0"), reply("1"), user("2")];
        record(archive, "s", &told);
        let chain = links(Owner::LOCAL, &told);
        let before = state(archive);
        let refused = |addition: &Addition, first| {
            let addition = full(addition, stubs(0, 3, &[0]));
            let outcome = add(archive, &addition);
            let Err(ArchiveError::Conflict { session, conflict }) = outcome else {
                panic!("{outcome:?}")
            };
            let expected = Conflict::Entries { expected: first, entries: 3 };
            assert_eq!((session, conflict), (id("s"), expected));
            assert_eq!(state(archive), before);
        };
        let newest = addition(After::Newest, &[reply("3")]);
        let after_one = addition(After::Entry(Some(Seq(1))), &[reply("3")]);
        let root = addition(After::Entry(None), &[reply("3")]);
        for first in [0, 2, 4, u64::MAX] {
            refused(&expecting(&newest, first, Some(chain[2])), first);
        }
        // As many entries, but not those.
        for wrong in [None, Some(chain[1]), Some(Owner::LOCAL.root())] {
            refused(&expecting(&newest, 3, wrong), 3);
        }
        refused(&expecting(&after_one, 3, Some(chain[2])), 3);
        refused(&expecting(&root, 3, Some(chain[2])), 3);
        // The session was shorter, or begun anew, since the caller looked.
        let beyond = addition(After::Entry(Some(Seq(7))), &[reply("3")]);
        refused(&expecting(&beyond, 8, Some(chain[2])), 8);
        let nowhere = add(archive, &expecting(&beyond, 3, Some(chain[2])));
        assert!(matches!(nowhere, Err(ArchiveError::NoSuchEntries { .. })), "{nowhere:?}");
        assert_eq!(state(archive), before);

        let appended = add(archive, &expecting(&newest, 3, Some(chain[2]))).unwrap();
        assert_eq!(numbers(&appended.seqs), [3]);
        let appended = add(archive, &expecting(&after_one, 4, Some(chain[1]))).unwrap();
        assert_eq!(numbers(&appended.seqs), [4]);
        let appended = add(archive, &expecting(&root, 5, None)).unwrap();
        assert_eq!(numbers(&appended.seqs), [5]);
    });
}

#[test]
fn what_is_expected_is_the_entry_before_even_a_silent_one() {
    check(|archive| {
        let told = [user("0"), silent("1")];
        record(archive, "s", &told);
        let chain = links(Owner::LOCAL, &told);
        let next = addition(After::Newest, &[reply("2")]);
        let wrong = add(archive, &expecting(&next, 2, Some(chain[0])));
        assert!(matches!(wrong, Err(ArchiveError::Conflict { .. })), "{wrong:?}");
        add(archive, &expecting(&next, 2, Some(chain[1]))).unwrap();
    });
}

#[test]
fn of_two_that_expect_one_place_the_first_gets_it() {
    check(|archive| {
        let start = expecting(&addition(After::Newest, &[user("0")]), 0, None);
        let both = archive.append_all(&[start.clone(), start]).unwrap();
        assert_eq!(numbers(&both[0].as_ref().unwrap().seqs), [0]);
        assert!(matches!(both[1], Err(ArchiveError::Conflict { .. })), "{:?}", both[1]);
        assert_eq!(archive.head(id("s")).unwrap().unwrap().entries, 1);
    });
}

#[test]
fn entries_and_their_batch_are_written_together_or_not_at_all() {
    check(|archive| {
        let start = expecting(&addition(After::Newest, &[user("0"), reply("1")]), 0, None);
        let bad = add(archive, &with_batch(&start, stubs(0, 5, &[0])));
        assert!(matches!(bad, Err(ArchiveError::NoSuchEntries { .. })), "{bad:?}");
        assert_eq!(archive.head(id("s")).unwrap(), None);
        let appended = add(archive, &with_batch(&start, stubs(0, 1, &[0]))).unwrap();
        assert_eq!((numbers(&appended.seqs), appended.batch), (vec![0, 1], Some(1)));
        // Another writer came first.
        record(archive, "s", &[user("2")]);
        let more = addition(After::Entry(Some(Seq(1))), &[user("3")]);
        let before = Some(links(Owner::LOCAL, &[user("0"), reply("1")])[1]);
        let late = expecting(&more, 2, before);
        let late = add(archive, &with_batch(&late, stubs(1, 2, &[2])));
        let Err(ArchiveError::Conflict { conflict, .. }) = late else { panic!("{late:?}") };
        assert_eq!(conflict, Conflict::Entries { expected: 2, entries: 3 });
        let more = expecting(&more, 3, before);
        let stale = add(archive, &with_batch(&more, stubs(0, 3, &[3])));
        assert!(matches!(stale, Err(ArchiveError::Conflict { .. })), "{stale:?}");
        assert_eq!(archive.head(id("s")).unwrap().unwrap().entries, 3);
        assert_eq!(archive.search(&Scope::All, "3", 9).unwrap(), []);
        let appended = add(archive, &with_batch(&more, stubs(1, 3, &[3]))).unwrap();
        assert_eq!((numbers(&appended.seqs), appended.batch), (vec![3], Some(2)));
    });
}

#[test]
fn all_of_an_addition_is_made() {
    check(|archive| {
        let start = addition(After::Newest, &[user("needle"), reply("1")]);
        let appended = add(archive, &full(&start, stubs(0, 1, &[0]))).unwrap();
        let seqs = vec![Seq(0), Seq(1)];
        assert_eq!(appended, Appended { seqs, new: 2, round: 0, batch: Some(1) });
        let tools = archive.preamble(Owner::LOCAL, PreambleId::of("tools")).unwrap();
        assert_eq!(tools.as_deref(), Some("tools"));
        assert_eq!(archive.preamble(Owner::of("key"), PreambleId::of("tools")).unwrap(), None);
        let request =
            RequestRecord { answer: Some("answer".to_owned()), ..RequestRecord::default() };
        let requests = archive.requests(id("s"), Page::ALL).unwrap().items;
        assert_eq!(requests, std::slice::from_ref(&request));
        let found = archive.answer(Owner::LOCAL, "answer").unwrap();
        assert_eq!(found, Some((id("s"), request)));
        assert_eq!(archive.live(id("s"), None).unwrap().len(), 1);
        assert!(archive.reference(&Scope::All, stub_handle(0)).unwrap().is_some());
        assert_eq!(archive.search(&Scope::All, "needle", 9).unwrap().len(), 1);
        // Without entries it is an addition, too.
        let rest = full(&addition(After::Newest, &[]), stubs(1, 1, &[1]));
        let appended = add(archive, &rest).unwrap();
        assert_eq!((appended.seqs, appended.new, appended.batch), (vec![], 0, Some(2)));
        assert_eq!(archive.requests(id("s"), Page::ALL).unwrap().items.len(), 2);
    });
}

#[test]
fn nothing_of_an_addition_is_made_if_a_part_of_it_is_refused() {
    check(|archive| {
        let nothing = state(archive);
        let start = addition(After::Newest, &[user("0"), reply("1")]);
        let stale = stubs(7, 1, &[0]);
        let beyond = stubs(0, 2, &[0]);
        let off_path = stubs(0, 0, &[1]);
        for bad in [&stale, &beyond, &off_path] {
            add(archive, &full(&start, bad.clone())).unwrap_err();
            assert_eq!(state(archive), nothing);
            assert_eq!(archive.sessions(None, Page::ALL).unwrap().items, []);
        }
        begin(archive, "s");
        let empty = state(archive);
        for bad in [&stale, &beyond, &off_path] {
            add(archive, &full(&start, bad.clone())).unwrap_err();
            assert_eq!(state(archive), empty);
        }
        record(archive, "s", &[user("first")]);
        let one = state(archive);
        add(archive, &full(&start, stale)).unwrap_err();
        let theirs = Some(named(Owner::of("key"), "s"));
        let theirs = Addition { begin: theirs, ..full(&start, stubs(0, 1, &[0])) };
        let refused = add(archive, &theirs);
        assert!(matches!(refused, Err(ArchiveError::NotTheOwner { .. })), "{refused:?}");
        assert_eq!(state(archive), one);
        // What was refused leaves no gap.
        assert_eq!(numbers(&add(archive, &start).unwrap().seqs), [1, 2]);
        assert_eq!(archive.search(&Scope::All, "0", 9).unwrap().len(), 1);
    });
}

fn text(text: &str) -> Original {
    Original::Text(text.to_owned())
}

#[test]
fn variants_are_opened_by_their_handles() {
    check(|archive| {
        for name in ["a", "b"] {
            record(archive, name, &[user("one"), reply("two")]);
        }
        let (stub, alone) = (stub_handle(0), Handle::of(["alone"]));
        let json = Original::Json(r#"{"x":"\ud800"}"#.to_owned());
        let variants = [(stub, text("x")), (alone, json.clone())];
        archive.commit(id("a"), &with_variants(stubs(0, 1, &[0, 1]), &variants)).unwrap();
        let find =
            |name: &str, handle| archive.reference(&Scope::Session(id(name)), handle).unwrap();
        let variant = |name: &str, original: &Original| {
            Some(Reference::Variant { session: id(name), original: original.clone() })
        };
        // The content of the variant goes before the part that its stub stands for.
        assert_eq!(find("a", stub), variant("a", &text("x")));
        assert_eq!(find("a", alone), variant("a", &json));
        assert!(matches!(find("a", stub_handle(1)), Some(Reference::Part { .. })));
        // In another session the same handle may stand for something else.
        assert_eq!(find("b", stub), variant("a", &text("x")));
        archive.commit(id("b"), &with_variants(batch(0, 1, vec![]), &[(stub, text("y"))])).unwrap();
        assert_eq!(find("b", stub), variant("b", &text("y")));
        assert_eq!(find("a", stub), variant("a", &text("x")));
        // The first one counts, and an undone batch still tells what its handles stand for.
        archive.commit(id("a"), &with_variants(stubs(1, 1, &[0]), &[(stub, text("z"))])).unwrap();
        while archive.undo(id("a"), None).unwrap().is_some() {}
        assert_eq!(find("a", stub), variant("a", &text("x")));
        archive.begin(id("theirs"), &named(Owner::of("key"), "theirs")).unwrap();
        assert_eq!(find("theirs", alone), None);
        archive.remove(id("a")).unwrap();
        assert_eq!(find("b", alone), None);
        assert_eq!(find("b", stub), variant("b", &text("y")));
    });
}

#[test]
fn variants_come_back_after_reopening() {
    let (_folder, archive) = fresh();
    let variants = [
        (stub_handle(0), text("as it was sent \0 \u{1f600}")),
        (stub_handle(1), Original::Json(String::new())),
    ];
    let start = addition(After::Newest, &[user("0"), reply("1")]);
    let new = with_variants(stubs(0, 1, &[0]), &variants);
    add(&archive, &with_batch(&start, new.clone())).unwrap();
    let path = archive.file().to_owned();
    drop(archive);
    let archive = SqliteArchive::open(path).unwrap();
    for (handle, original) in variants {
        let found = archive.reference(&Scope::Owner(Owner::LOCAL), handle).unwrap();
        assert_eq!(found, Some(Reference::Variant { session: id("s"), original }));
    }
    assert_eq!(archive.live(id("s"), None).unwrap()[0].batch, new.batch);
    assert_eq!(archive.verify(None).unwrap(), []);
}

#[test]
fn answers_are_found_by_owner_and_the_newest_counts() {
    check(|archive| {
        let other = Owner::of("key");
        for name in ["a", "b", "c"] {
            begin(archive, name);
        }
        archive.begin(id("theirs"), &named(other, "theirs")).unwrap();
        let log = |name: &str, answer: Option<&str>, sent, at_ms| {
            let answer = answer.map(str::to_owned);
            let request = RequestRecord { answer, sent, at_ms, ..RequestRecord::default() };
            archive.log_request(id(name), &request).unwrap();
        };
        let find = |owner, answer: &str| {
            let found = archive.answer(owner, answer).unwrap();
            found.map(|(session, request)| {
                assert_eq!(request.answer.as_deref(), Some(answer));
                (session, request.sent)
            })
        };
        assert_eq!(find(Owner::LOCAL, "one"), None);
        // Times are kept as given and tell nothing about the order.
        log("b", Some("one"), 1, 900);
        log("b", None, 2, 0);
        log("c", Some("two"), 3, 0);
        assert_eq!(find(Owner::LOCAL, "one"), Some((id("b"), 1)));
        log("a", Some("one"), 4, -5);
        assert_eq!(find(Owner::LOCAL, "one"), Some((id("a"), 4)));
        log("b", Some("one"), 5, -9);
        assert_eq!(find(Owner::LOCAL, "one"), Some((id("b"), 5)));
        log("theirs", Some("one"), 6, 999);
        log("theirs", Some("three"), 7, 999);
        assert_eq!(find(Owner::LOCAL, "one"), Some((id("b"), 5)));
        assert_eq!(find(Owner::LOCAL, "three"), None);
        assert_eq!(find(other, "one"), Some((id("theirs"), 6)));
        assert_eq!(find(other, "two"), None);
        assert_eq!(find(Owner::of("nobody"), "one"), None);
        for unknown in ["", "on", "one "] {
            assert_eq!(find(Owner::LOCAL, unknown), None);
        }
        log("c", Some(""), 8, 0);
        assert_eq!(find(Owner::LOCAL, ""), Some((id("c"), 8)));
        archive.remove(id("b")).unwrap();
        assert_eq!(find(Owner::LOCAL, "one"), Some((id("a"), 4)));
    });
}

#[test]
fn the_tree_is_that_of_the_entries() {
    check(|archive| {
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
    });
}

#[test]
fn the_head_counts_what_was_undone() {
    check(|archive| {
        record(archive, "s", &[user("0"), reply("1")]);
        let counts = || {
            let head = archive.head(id("s")).unwrap().unwrap();
            (head.batches, head.undos)
        };
        assert_eq!(counts(), (0, 0));
        archive.undo(id("s"), None).unwrap();
        assert_eq!(counts(), (0, 0));
        archive.commit(id("s"), &stubs(0, 1, &[0])).unwrap();
        archive.commit(id("s"), &stubs(1, 1, &[1])).unwrap();
        archive.undo(id("s"), None).unwrap();
        assert_eq!(counts(), (2, 1));
        archive.commit(id("s"), &stubs(1, 1, &[1])).unwrap();
        archive.undo(id("s"), None).unwrap();
        archive.undo(id("s"), None).unwrap();
        archive.undo(id("s"), None).unwrap();
        assert_eq!(counts(), (3, 3));
    });
}
