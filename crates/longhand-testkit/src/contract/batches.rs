//! Batches, undo, pins, and what handles stand for.

use longhand_archive::{
    After, Archive, ArchiveError, Conflict, LoggedBatch, Owner, Page, Reference, Scope,
};
use longhand_core::{Edit, Handle, Original, Place, Seq};

use super::samples::{
    batch, begin, fold, folds, fork, id, named, record, reply, stub_handle, stubs, user,
    with_variants,
};

fn numbers_of(batches: &[LoggedBatch]) -> Vec<u64> {
    batches.iter().map(|batch| batch.number).collect()
}

/// Entries 0 to 3 in a line, then 4 and 5 after 1, and 6 after 3.
fn tree(archive: &dyn Archive) {
    record(archive, "s", &[user("0"), reply("1"), user("2"), reply("3")]);
    assert_eq!(fork(archive, "s", Some(1), &[user("4"), reply("5")]), [4, 5]);
    assert_eq!(fork(archive, "s", Some(3), &[user("6")]), [6]);
}

pub(super) fn a_batch_applies_to_every_path_that_holds_what_it_edits(archive: &dyn Archive) {
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
}

pub(super) fn a_batch_edits_its_own_path(archive: &dyn Archive) {
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
}

pub(super) fn a_batch_builds_on_the_newest_one_of_its_path(archive: &dyn Archive) {
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
}

pub(super) fn undo_takes_back_the_newest_batch_of_a_path_and_the_log_keeps_it(
    archive: &dyn Archive,
) {
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
}

pub(super) fn the_log_is_read_in_pages(archive: &dyn Archive) {
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
}

pub(super) fn the_head_counts_what_was_undone(archive: &dyn Archive) {
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
}

pub(super) fn pins_are_kept_in_order(archive: &dyn Archive) {
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
}

pub(super) fn handles_lead_to_what_was_edited(archive: &dyn Archive) {
    tree(archive);
    archive.commit(id("s"), &stubs(0, 3, &[0, 2])).unwrap();
    archive.commit(id("s"), &folds(1, 3, 0, 2)).unwrap();
    let find = |handle| archive.reference(&Scope::Session(id("s")), handle).unwrap();
    let part =
        |entry| Reference::Part { session: id("s"), place: Place { entry: Seq(entry), part: 0 } };
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
}

pub(super) fn handles_are_looked_up_at_home_first_and_never_at_strangers(archive: &dyn Archive) {
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
}

fn text(text: &str) -> Original {
    Original::Text(text.to_owned())
}

pub(super) fn variants_are_opened_by_their_handles(archive: &dyn Archive) {
    for name in ["a", "b"] {
        record(archive, name, &[user("one"), reply("two")]);
    }
    let (stub, alone) = (stub_handle(0), Handle::of(["alone"]));
    let json = Original::Json(r#"{"x":"\ud800"}"#.to_owned());
    let variants = [(stub, text("x")), (alone, json.clone())];
    archive.commit(id("a"), &with_variants(stubs(0, 1, &[0, 1]), &variants)).unwrap();
    let find = |name: &str, handle| archive.reference(&Scope::Session(id(name)), handle).unwrap();
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
}
