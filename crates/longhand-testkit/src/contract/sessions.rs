//! Sessions: their entries byte for byte, their list, their end.

use std::thread;

use longhand_archive::{
    After, Appended, Archive, ArchiveError, Entry, Head, NewEntry, NewSession, Origin, Owner, Page,
    Reference, RequestRecord, Scope, SessionFilter, SessionId, SessionInfo, Version, Write, wait,
};
use longhand_core::{Handle, Original, Seq};

use super::samples::{
    begin, id, links, named, record, reply, seqs, stub_handle, stubs, user, with_variants,
    write_one,
};

pub(super) fn entries_come_back_byte_for_byte(archive: &dyn Archive) {
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
    assert_eq!(appended, Appended { seqs: expected, new: 3, round: 0 });
    let links = links(Owner::LOCAL, &new);
    for entries in [
        archive.entries(id("s"), 0..u64::MAX).unwrap(),
        archive.path(id("s"), None, 0..u64::MAX).unwrap(),
    ] {
        assert_eq!(entries.len(), new.len());
        for (at, (entry, new)) in entries.into_iter().zip(&new).enumerate() {
            let NewEntry { form, raw, at_ms, source_ms, .. } = new.clone();
            let seq = Seq(at as u64);
            let parent = at.checked_sub(1).map(|at| Seq(at as u64));
            let expected =
                Entry { seq, parent, link: links[at], round: 0, form, raw, at_ms, source_ms };
            assert_eq!(entry, expected);
        }
    }
}

pub(super) fn ranges_give_what_is_there(archive: &dyn Archive) {
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
}

pub(super) fn a_session_begins_once_and_has_one_owner(archive: &dyn Archive) {
    let unknown = archive.append(id("s"), After::Newest, &[user("one")]);
    assert!(matches!(unknown, Err(ArchiveError::UnknownSession { .. })), "{unknown:?}");
    let new =
        NewSession { continues: Some(id("r")), group: Some(u64::MAX), ..named(Owner::LOCAL, "s") };
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
}

pub(super) fn a_session_that_is_renamed_keeps_its_id_and_all_it_has(archive: &dyn Archive) {
    record(archive, "s", &[user("one"), reply("two")]);
    record(archive, "t", &[user("one")]);
    let before = archive.session(id("s")).unwrap().unwrap();
    let opened = || wait(archive.open(id("s"), Version::default())).unwrap().unwrap().news;
    let news = opened();
    archive.rename(id("s"), "a new \u{202e}name").unwrap();
    let after = archive.session(id("s")).unwrap().unwrap();
    assert_eq!(after, SessionInfo { name: "a new \u{202e}name".to_owned(), ..before });
    assert_eq!(archive.session(id("t")).unwrap().unwrap().name, "t");
    assert_eq!(archive.entries(id("s"), 0..9).unwrap().len(), 2);
    // Who has the session open goes on: nothing of it is another version.
    assert_eq!(opened(), news);
    record(archive, "s", &[user("three")]);
    assert_eq!(archive.session(id("s")).unwrap().unwrap().name, after.name);
    let unknown = archive.rename(id("nobody"), "x");
    assert!(matches!(unknown, Err(ArchiveError::UnknownSession { .. })), "{unknown:?}");
    assert_eq!(archive.verify(None).unwrap(), []);
}

pub(super) fn sessions_are_listed_by_activity(archive: &dyn Archive) {
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
    let (local, _) = names(Some(Owner::LOCAL), Page::ALL);
    assert_eq!(local, ["c", "e", "d", "b", "a", "empty too", "empty"]);
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
    let found = archive.session(id("a")).unwrap().unwrap();
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
        activity: found.activity,
        is_damaged: false,
        ..SessionInfo::default()
    };
    assert_eq!(found, info);
    let activity = |name: &str| archive.session(id(name)).unwrap().unwrap().activity;
    assert!(activity("b") > activity("c") && activity("c") > activity("a"));
    assert_eq!(activity("empty"), 0);
}

pub(super) fn sessions_are_looked_up(archive: &dyn Archive) {
    let stranger = Owner::of("key");
    let kin = |group, continues| NewSession { group, continues, ..named(Owner::LOCAL, "") };
    let sessions = [
        ("work", NewSession { name: "work".to_owned(), ..kin(Some(7), None) }),
        ("works", NewSession { name: "works".to_owned(), ..kin(Some(7), Some(id("work"))) }),
        ("worm", NewSession { name: "worm".to_owned(), ..kin(Some(u64::MAX), Some(id("work"))) }),
        ("theirs", named(stranger, "work")),
        ("w\u{10ffff}", named(stranger, "w\u{10ffff}")),
        ("gone", NewSession { name: "work".to_owned(), ..kin(Some(7), Some(id("work"))) }),
    ];
    for (name, new) in &sessions {
        archive.begin(id(name), new).unwrap();
    }
    record(archive, "work", &[user("one")]);
    archive.remove(id("gone")).unwrap();
    let look_up = |of: SessionFilter, page: Page| {
        let listing = wait(archive.list_sessions(of, page)).unwrap();
        (listing.items.into_iter().map(|info| info.id).collect::<Vec<_>>(), listing.next)
    };
    let found = |of, expected: &[&str]| {
        let expected: Vec<SessionId> = expected.iter().map(|name| id(name)).collect();
        assert_eq!(look_up(of, Page::ALL), (expected, None));
    };
    let named = |name: &str| SessionFilter::Named(name.to_owned());
    // The one that was spoken in comes first, then the one that began last.
    found(named("work"), &["work", "theirs"]);
    found(named("wor"), &[]);
    found(named("gone"), &[]);
    let begin = |name: &str| SessionFilter::NamePrefix(name.to_owned());
    found(begin("work"), &["work", "theirs", "works"]);
    found(begin("w"), &["work", "w\u{10ffff}", "theirs", "worm", "works"]);
    found(begin("w\u{10ffff}"), &["w\u{10ffff}"]);
    found(begin("x"), &[]);
    found(SessionFilter::Group(7), &["work", "works"]);
    found(SessionFilter::Group(u64::MAX), &["worm"]);
    found(SessionFilter::Group(8), &[]);
    found(SessionFilter::Continuing(id("work")), &["worm", "works"]);
    found(SessionFilter::Continuing(id("gone")), &[]);
    let digits = id("worm").to_string();
    for length in [8, 31, 32] {
        found(SessionFilter::IdPrefix(digits[..length].to_owned()), &["worm"]);
    }
    found(SessionFilter::IdPrefix(format!("{digits}0")), &[]);
    found(SessionFilter::IdPrefix("no digits".to_owned()), &[]);
    found(
        SessionFilter::IdPrefix(String::new()),
        &["work", "w\u{10ffff}", "theirs", "worm", "works"],
    );
    let mut owners = vec![Owner::LOCAL, stranger];
    owners.sort_unstable();
    assert_eq!(wait(archive.owners()).unwrap(), owners);
    // Any list comes in pages.
    let (first, next) = look_up(begin("work"), Page::first(2));
    let (second, next) = look_up(begin("work"), Page { after: next, limit: 2 });
    assert_eq!((first.len(), second, next), (2, vec![id("works")], None));
}

pub(super) fn where_a_session_comes_from_is_kept(archive: &dyn Archive) {
    let origin = Origin {
        project: "/home/me/wörk".to_owned(),
        agent: "an agent".to_owned(),
        file: "a file.jsonl".to_owned(),
        offset: 7,
    };
    let new = NewSession { origin: origin.clone(), ..named(Owner::LOCAL, "s") };
    archive.begin(id("s"), &new).unwrap();
    let info = || archive.session(id("s")).unwrap().unwrap();
    assert_eq!((info().origin, info().opening), (origin.clone(), String::new()));
    let learn = |opening: &str, imported| {
        let opening = Some(opening.to_owned());
        write_one(archive, Write { session: id("s"), opening, imported, ..Write::default() })
    };
    let version = learn("Mend the lease.", None).unwrap();
    // The first words stay what they are.
    assert_eq!(learn("Something else.", Some(u64::MAX >> 1)).unwrap(), version);
    let learned = Origin { offset: u64::MAX >> 1, ..origin };
    assert_eq!((info().origin, info().opening.as_str()), (learned, "Mend the lease."));
    assert!(info().as_new().is_same(&new));
    let moved = Origin { project: String::new(), ..new.origin.clone() };
    assert!(!info().as_new().is_same(&NewSession { origin: moved, ..new }));
    let told = NewSession { opening: "Go on.".to_owned(), ..named(Owner::LOCAL, "t") };
    archive.begin(id("t"), &told).unwrap();
    assert_eq!(archive.session(id("t")).unwrap().unwrap().opening, "Go on.");
}

pub(super) fn a_removed_session_takes_along_what_was_its_own(archive: &dyn Archive) {
    for name in ["keep", "drop"] {
        record(archive, name, &[user("needle"), reply("two")]);
        let variant = (Handle::of([name]), Original::Text(name.to_owned()));
        archive.commit(id(name), &with_variants(stubs(0, 1, &[0]), &[variant])).unwrap();
        archive.pin(id(name), Seq(0), true).unwrap();
        let request = RequestRecord { answer: Some(name.to_owned()), ..RequestRecord::default() };
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
}

pub(super) fn a_session_that_is_not_there_cannot_be_verified(archive: &dyn Archive) {
    record(archive, "s", &[user("one")]);
    assert_eq!(archive.verify(Some(id("s"))).unwrap(), []);
    let refused = archive.verify(Some(id("t")));
    assert!(matches!(refused, Err(ArchiveError::UnknownSession { .. })), "{refused:?}");
}

pub(super) fn any_name_is_a_session_of_its_own(archive: &dyn Archive) {
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
}

pub(super) fn ids_without_a_session_are_only_ids(archive: &dyn Archive) {
    assert_eq!(archive.head(SessionId(7)).unwrap(), None);
    assert!(!archive.remove(SessionId(7)).unwrap());
}

pub(super) fn threads_that_write_at_once_all_get_their_place(archive: &dyn Archive) {
    begin(archive, "shared");
    thread::scope(|scope| {
        for writer in 0..8 {
            scope.spawn(move || {
                let private = format!("own {writer}");
                for count in 0..20 {
                    let said = format!("{writer} {count}");
                    let entries = [user(&said), reply(&said)];
                    let appended = record(archive, "shared", &entries);
                    let first = appended.seqs[0].0;
                    assert_eq!(first % 2, 0);
                    let there = archive.entries(id("shared"), first..first + 2).unwrap();
                    assert!(there.iter().all(|entry| entry.raw.contains(&said)));
                    assert_eq!(record(archive, &private, &entries[..1]).seqs, [Seq(count)]);
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
}
