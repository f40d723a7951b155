//! What storage itself promises, below the rules that the archive has.

use longhand_archive::{
    Archive, ArchiveError, BatchRecord, Entry, EntryRecord, FoldStates, Key, KnownPath, Ledger,
    NewBatch, Node, Owner, PreambleId, SessionId, Version, wait,
};
use longhand_core::session::{News, SessionState};
use longhand_core::{Link, Seq};

use super::samples::{
    begin, folds, fork, id, named, record, reply, said, silent, stub_handle, stubs, user,
};

/// The news of a session since a version.
fn news(archive: &dyn Archive, since: Version) -> News {
    wait(archive.open(id("s"), since)).unwrap().unwrap().news
}

/// A state with some news.
fn applied(mut state: SessionState, news: News) -> SessionState {
    state.apply(news).unwrap();
    state
}

/// Asserts that two states are the same session.
fn assert_same(one: &SessionState, other: &SessionState, name: &str) {
    assert_eq!(one.written(), other.written(), "{name}");
    assert_eq!((one.tree(), one.log()), (other.tree(), other.log()), "{name}");
    assert_eq!(one.pins(), other.pins(), "{name}");
}

/// Changes the session "s" in one way after the other; one that was never begun is begun first.
fn change(archive: &dyn Archive, step: u64) {
    let entries = archive.head(id("s")).unwrap().map_or(0, |head| head.entries);
    let newest = |head: u64| {
        let live = archive.live(id("s"), Some(Seq(head))).unwrap();
        live.last().map_or(0, |batch| batch.number)
    };
    match step % 8 {
        0 => drop(record(archive, "s", &[user(&format!("{step}")), silent("x"), reply("y")])),
        1 => drop(fork(archive, "s", Some(entries / 2), &[user(&format!("fork {step}"))])),
        2 => drop(archive.commit(id("s"), &stubs(newest(entries - 1), entries - 1, &[0]))),
        3 => drop(record(archive, "s", &[reply(&format!("{step}"))])),
        4 => archive.pin(id("s"), Seq(step % entries), true).unwrap(),
        5 => drop(fork(archive, "s", None, &[silent(&format!("{step}")), user("root")])),
        6 => drop(archive.commit(id("s"), &folds(newest(entries - 1), entries - 1, 0, 0))),
        _ => drop(archive.undo(id("s"), None).unwrap()),
    }
}

pub(super) fn since_an_older_version_a_session_opens_with_exactly_its_news(archive: &dyn Archive) {
    begin(archive, "s");
    let empty = SessionState::new(Owner::LOCAL.root());
    let mut states = vec![applied(empty.clone(), news(archive, Version::default()))];
    for step in 0..24 {
        change(archive, step);
        states.push(applied(empty.clone(), news(archive, Version::default())));
    }
    let latest = states.last().unwrap().clone();
    let now = latest.written();
    for (index, state) in states.iter().enumerate() {
        let name = format!("since state {index}");
        let since = state.written();
        let news = news(archive, since);
        assert_eq!(news.version, now, "{name}");
        assert!(news.forks.iter().all(|fork| fork.first.0 >= since.entries), "{name}: {news:?}");
        assert_eq!(news.batches.len() as u64, now.batches - since.batches, "{name}");
        assert_eq!(news.undone.len() as u64, now.undos - since.undos, "{name}");
        assert_eq!(news.newest.map(|node| node.seq), latest.tree().newest(), "{name}");
        assert_same(&applied(state.clone(), news), &latest, &name);
    }
    // A session without news has none.
    let none = news(archive, now);
    assert!(none.forks.is_empty() && none.batches.is_empty() && none.undone.is_empty());
    assert_eq!(wait(archive.open(id("t"), Version::default())).unwrap(), None);
}

pub(super) fn since_a_foreign_birth_a_session_opens_with_everything(archive: &dyn Archive) {
    for step in 0..8 {
        change(archive, step);
    }
    let old = news(archive, Version::default()).version;
    archive.remove(id("s")).unwrap();
    assert_eq!(wait(archive.open(id("s"), old)).unwrap(), None);
    for step in 0..16 {
        change(archive, step);
    }
    let everything = news(archive, Version::default());
    assert_eq!(news(archive, old), everything);
    let now = everything.version;
    for foreign in [
        Version { birth: old.birth, ..now },
        Version { birth: now.birth + 1, ..now },
        Version { birth: u64::MAX, ..Version::default() },
    ] {
        assert_eq!(news(archive, foreign), everything, "{foreign:?}");
    }
}

pub(super) fn an_opened_session_says_how_much_it_has(archive: &dyn Archive) {
    record(archive, "a", &[user("0")]);
    for step in 0..8 {
        change(archive, step);
    }
    archive.log_request(id("s"), &longhand_archive::RequestRecord::default()).unwrap();
    let open = |name: &str| wait(archive.open(id(name), Version::default())).unwrap().unwrap();
    let opened = open("s");
    assert_eq!(Some(&opened.session), archive.session(id("s")).unwrap().as_ref());
    assert_eq!(opened.requests, 1);
    assert!(opened.session.activity > open("a").session.activity);
    record(archive, "a", &[user("1")]);
    assert!(open("a").session.activity > open("s").session.activity);
    let tree = archive.tree(id("s")).unwrap();
    assert_eq!(opened.news.newest.as_ref(), tree.last());
}

pub(super) fn entries_are_read_by_lists_of_ranges(archive: &dyn Archive) {
    let said: Vec<_> = (0..40).map(|number| user(&format!("number {number}"))).collect();
    record(archive, "s", &said);
    fork(archive, "s", Some(7), &[reply("fork"), silent("thought"), user("last")]);
    record(archive, "other", &[user("other")]);
    let entries = archive.entries(id("s"), 0..99).unwrap();
    let check = |ranges: &[std::ops::Range<u64>]| {
        let expected: Vec<&Entry> =
            ranges.iter().cloned().flatten().map(|seq| &entries[seq as usize]).collect();
        let nodes = wait(archive.nodes(id("s"), ranges.to_vec())).unwrap();
        let expected_nodes = expected.iter().map(|entry| {
            let Entry { seq, parent, link, round, .. } = **entry;
            Node { seq, parent, link, round }
        });
        assert_eq!(nodes, expected_nodes.collect::<Vec<_>>(), "{ranges:?}");
        let bodies = wait(archive.bodies(id("s"), ranges.to_vec())).unwrap();
        assert!(bodies.iter().map(|record| &record.entry).eq(expected), "{ranges:?}");
        for EntryRecord { entry, text } in &bodies {
            assert!(entry.raw.contains(text.as_str()), "{entry:?} {text}");
        }
    };
    check(&[]);
    check(&[0..43]);
    check(&[5..9, 12..13, 40..43]);
    // In the order of the ranges, some of them twice or empty.
    check(&[30..32, 3..3, 0..2, 1..4, 42..43, 42..43]);
    let one = |seq: u64| seq..seq + 1;
    check(&(0..43).rev().map(one).collect::<Vec<_>>());
    for beyond in [vec![0..44], vec![2..3, 43..44], vec![0..u64::MAX]] {
        let nodes = wait(archive.nodes(id("s"), beyond.clone()));
        assert!(matches!(nodes, Err(ArchiveError::NoSuchEntries { .. })), "{beyond:?}: {nodes:?}");
        let bodies = wait(archive.bodies(id("s"), beyond.clone()));
        assert!(matches!(bodies, Err(ArchiveError::NoSuchEntries { .. })), "{beyond:?}");
    }
    assert_eq!(wait(archive.nodes(id("t"), vec![0..3])).unwrap(), []);
    assert_eq!(wait(archive.bodies(id("t"), vec![0..3])).unwrap(), []);
}

pub(super) fn batches_are_read_by_their_numbers(archive: &dyn Archive) {
    record(archive, "s", &[user("0"), reply("1"), user("2")]);
    let batches = [stubs(0, 2, &[0]), folds(1, 2, 0, 1), stubs(2, 2, &[2])];
    for batch in &batches {
        archive.commit(id("s"), batch).unwrap();
    }
    let numbers = [3, 1, 2, 1];
    let read = wait(archive.read_batches(id("s"), numbers.to_vec(), FoldStates::All)).unwrap();
    assert_eq!(read.len(), numbers.len());
    for (number, record) in numbers.into_iter().zip(read) {
        let index = number as usize - 1;
        let new = &batches[index];
        assert_eq!((&record.batch, &record.receipt), (&new.batch, &new.receipt));
        assert_eq!((record.line.after, record.at_ms), (new.after, new.at_ms));
        let reach = [Seq(0), Seq(1), Seq(2)][index];
        assert_eq!(record.line.reach, Some(reach));
    }
    assert_eq!(wait(archive.read_batches(id("s"), Vec::new(), FoldStates::All)).unwrap(), []);
    assert_eq!(wait(archive.read_batches(id("t"), vec![1], FoldStates::All)).unwrap(), []);
}

pub(super) fn states_come_with_the_batches_that_they_are_asked_of(archive: &dyn Archive) {
    record(archive, "s", &[user("0"), reply("1"), user("2"), user("3")]);
    let commit = |mut batch: NewBatch, state: &str| {
        batch.batch.state = state.repeat(100);
        archive.commit(id("s"), &batch).unwrap();
    };
    commit(folds(0, 3, 0, 1), "one");
    commit(folds(1, 3, 0, 2), "two");
    commit(stubs(2, 3, &[3]), "");
    let states = |numbers: &[u64], states| {
        let read = wait(archive.read_batches(id("s"), numbers.to_vec(), states)).unwrap();
        assert!(read.iter().all(|record| !record.batch.edits.is_empty()));
        let state = |record: &BatchRecord| record.batch.state.get(..3).unwrap_or("").to_owned();
        read.iter().map(state).collect::<Vec<_>>()
    };
    assert_eq!(states(&[1, 2, 3], FoldStates::All), ["one", "two", ""]);
    assert_eq!(states(&[1, 2, 3], FoldStates::Last), ["", "two", ""]);
    assert_eq!(states(&[1, 3], FoldStates::Last), ["one", ""]);
    assert_eq!(states(&[2, 1], FoldStates::Last), ["", "one"]);
    assert_eq!(states(&[3], FoldStates::Last), [""]);
    assert_eq!(states(&[1, 2], FoldStates::None), ["", ""]);
    let live = archive.live(id("s"), None).unwrap();
    assert_eq!(live[0].batch.state, "one".repeat(100));
    assert_eq!(archive.verify(None).unwrap(), []);
}

pub(super) fn a_conversation_is_found_by_one_of_its_last_eight_links(archive: &dyn Archive) {
    let told: Vec<_> = (0..40).map(|number| user(&format!("{number}"))).collect();
    let links = said(Owner::LOCAL, &told);
    let mut thoughtful = told[..20].to_vec();
    thoughtful.insert(3, silent("thought"));
    record(archive, "long", &told[..31]);
    record(archive, "short", &thoughtful);
    archive.begin(id("theirs"), &named(Owner::of("key"), "theirs")).unwrap();
    let find = |owner, links: &[Link]| wait(archive.links(owner, links.to_vec())).unwrap();
    for count in 0..=links.len() {
        let found = find(Owner::LOCAL, &links[..count]);
        let known_last = count.min(31);
        let expected: &[SessionId] = match known_last {
            0 => &[],
            1..=20 => &[id("long"), id("short")],
            _ => &[id("long")],
        };
        for session in expected {
            assert!(found.iter().any(|found| found.session == *session), "{count}: {found:?}");
        }
        for KnownPath { session, seq, known } in found {
            assert!((1..=known_last).contains(&known), "{count}: {known}");
            assert!(known + 7 >= known_last, "{count}: {known} is too far from the last");
            let node = wait(archive.nodes(session, vec![seq.0..seq.0 + 1])).unwrap();
            assert_eq!(node[0].link, links[known - 1], "{count}");
        }
    }
    assert_eq!(find(Owner::of("key"), &links), []);
    let strangers = said(Owner::of("key"), &told);
    assert_eq!(find(Owner::LOCAL, &strangers), []);
}

pub(super) fn a_value_is_put_in_the_place_of_the_one_that_was_expected(archive: &dyn Archive) {
    begin(archive, "s");
    let put = |key: &Key, expected: Option<&str>, value: &str| {
        wait(archive.put(key.clone(), expected.map(str::to_owned), value.to_owned()))
    };
    let get = |key: &Key| wait(archive.get(vec![key.clone()])).unwrap().remove(0);
    for key in [Key::Shared("name".to_owned()), Key::Derived(id("s"), "story".to_owned())] {
        assert_eq!(get(&key), None);
        assert!(!put(&key, Some("a"), "b").unwrap());
        assert_eq!(get(&key), None);
        assert!(put(&key, None, "a").unwrap());
        for wrong in [None, Some(""), Some("b"), Some("a ")] {
            assert!(!put(&key, wrong, "c").unwrap(), "{key:?} {wrong:?}");
        }
        assert_eq!(get(&key).as_deref(), Some("a"));
        assert!(put(&key, Some("a"), "").unwrap());
        assert!(put(&key, Some(""), "b").unwrap());
        assert_eq!(get(&key).as_deref(), Some("b"));
    }
    let unknown = put(&Key::Derived(id("t"), "story".to_owned()), None, "a");
    assert!(matches!(unknown, Err(ArchiveError::UnknownSession { .. })), "{unknown:?}");
    let tools = Key::Preamble(Owner::LOCAL, PreambleId::of("tools"));
    assert!(put(&tools, None, "tools").unwrap());
    assert!(!put(&tools, None, "tools").unwrap());
    // Many keys have their values in that order.
    let keys = vec![
        tools,
        Key::Shared("nobody".to_owned()),
        Key::Derived(id("s"), "story".to_owned()),
        Key::Preamble(Owner::of("key"), PreambleId::of("tools")),
        Key::Derived(id("t"), "story".to_owned()),
        Key::Shared("name".to_owned()),
    ];
    let values = wait(archive.get(keys)).unwrap();
    let values: Vec<Option<&str>> = values.iter().map(Option::as_deref).collect();
    assert_eq!(values, [Some("tools"), None, Some("b"), None, None, Some("b")]);
}

pub(super) fn a_handle_leads_to_the_first_batch_of_each_session(archive: &dyn Archive) {
    for name in ["b", "a", "c"] {
        record(archive, name, &[user("0"), reply("1")]);
    }
    archive.commit(id("a"), &stubs(0, 1, &[1])).unwrap();
    for (name, after) in [("a", 1), ("b", 0), ("a", 2), ("b", 1)] {
        archive.commit(id(name), &stubs(after, 1, &[0])).unwrap();
    }
    let found = wait(archive.references(stub_handle(0))).unwrap();
    let found: Vec<(SessionId, u64)> =
        found.iter().map(|found| (found.session, found.batch)).collect();
    assert_eq!(found, [(id("b"), 1), (id("a"), 2)], "the oldest session first");
    assert_eq!(wait(archive.references(stub_handle(9))).unwrap(), []);
}

/// A state that was opened long ago and one that is opened now go on alike.
pub(super) fn a_refreshed_ledger_is_one_that_is_opened(archive: &dyn Archive) {
    begin(archive, "s");
    let mut ledger = wait(Ledger::open(archive, id("s"))).unwrap().unwrap();
    for step in 0..30 {
        change(archive, step);
        if step % 3 == 2 {
            assert!(wait(ledger.refresh(archive)).unwrap());
            let opened = wait(Ledger::open(archive, id("s"))).unwrap().unwrap();
            assert_same(&ledger.state, &opened.state, &format!("step {step}"));
            assert_eq!(ledger.opened, opened.opened);
        }
    }
    archive.remove(id("s")).unwrap();
    assert!(!wait(ledger.refresh(archive)).unwrap());
    change(archive, 0);
    assert!(wait(ledger.refresh(archive)).unwrap());
    let opened = wait(Ledger::open(archive, id("s"))).unwrap().unwrap();
    assert_same(&ledger.state, &opened.state, "begun anew");
}
