//! Preambles, requests, what was derived, and money.

use longhand_archive::{
    Archive, ArchiveError, EditSums, EditedSums, NewBatch, Note, NoteContent, NoteFilter, Owner,
    Page, PreambleId, RegretNote, Regretted, RequestRecord, RequestSums, Reserved, SessionUsage,
    UsageLine, Wish, Write, wait,
};
use longhand_core::{Batch, Handle, Seq};

use super::samples::{begin, id, named, record, stubs, user, write_one};

pub(super) fn preambles_are_kept_once_for_each_owner(archive: &dyn Archive) {
    let (local, other) = (Owner::LOCAL, Owner::of("key"));
    let tools = archive.keep_preamble(local, "tools").unwrap();
    assert_eq!(archive.keep_preamble(local, "tools").unwrap(), tools);
    assert_eq!(tools, PreambleId::of("tools"));
    assert_eq!(archive.preamble(local, tools).unwrap().as_deref(), Some("tools"));
    assert_eq!(archive.preamble(other, tools).unwrap(), None);
    assert_eq!(archive.preamble(local, PreambleId::of("none")).unwrap(), None);
    // One that nobody else asks with goes along with its session.
    let shared = archive.keep_preamble(local, "shared").unwrap();
    let unused = archive.keep_preamble(local, "unused").unwrap();
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
    assert_eq!(archive.preamble(local, tools).unwrap(), None);
    for kept in [shared, unused] {
        assert!(archive.preamble(local, kept).unwrap().is_some());
    }
    assert!(archive.preamble(other, tools).unwrap().is_some());
}

pub(super) fn notes_are_kept_beside_their_requests(archive: &dyn Archive) {
    let note = |at_ms, handle: &str, content| Note { at_ms, handle: Handle::of([handle]), content };
    let regret = |batch, how| {
        let by = (how != Regretted::AskedAgain).then_some(Seq(batch));
        let (tokens, again) = by.map_or((0, false), |by| (by.0 / 3, batch > 0));
        NoteContent::Regret(RegretNote { batch, how, by, tokens, again })
    };
    let noted = [
        note(5, "a", NoteContent::Unread("\0 half an \u{1f600} answer".repeat(40))),
        note(-5, "b", regret(u64::MAX, Regretted::Recalled)),
        note(5, "a", regret(0, Regretted::ReadAgain)),
        note(i64::MIN, "c", regret(1, Regretted::AskedAgain)),
        note(5, "d", NoteContent::Unread(String::new())),
    ];
    let write = |name, notes: &[Note]| {
        write_one(archive, Write { session: id(name), notes: notes.to_vec(), ..Write::default() })
    };
    let read = |of| wait(archive.notes(of)).unwrap();
    assert!(matches!(write("s", &noted), Err(ArchiveError::UnknownSession { .. })));
    for name in ["s", "t"] {
        begin(archive, name);
    }
    let version = write("s", &noted[..2]).unwrap();
    assert_eq!(write("s", &noted[2..]).unwrap(), version, "it is still the same state");
    write("t", &noted[..1]).unwrap();
    let of = |name: &str, notes: &[Note]| -> Vec<_> {
        notes.iter().map(|note| (id(name), note.clone())).collect()
    };
    assert_eq!(read(NoteFilter::Session(id("s"))), of("s", &noted));
    assert_eq!(read(NoteFilter::Session(id("unknown"))), []);
    let with_handle = read(NoteFilter::Handle(Handle::of(["a"])));
    let expected = [of("s", &[noted[0].clone(), noted[2].clone()]), of("t", &noted[..1])];
    assert_eq!(with_handle, expected.concat());
    assert_eq!(read(NoteFilter::Handle(Handle::of(["nobody's"]))), []);
    assert_eq!(archive.verify(None).unwrap(), []);
    archive.remove(id("s")).unwrap();
    assert_eq!(read(NoteFilter::Handle(Handle::of(["a"]))), of("t", &noted[..1]));
}

pub(super) fn what_requests_take_is_added_up(archive: &dyn Archive) {
    const DAY_MS: i64 = 86_400_000;
    let log = |name: &str, at_ms, model: &str, sent| {
        let (model, agent) = (model.to_owned(), "an agent".to_owned());
        let is_aside = model == "small";
        let cost_micros = (sent % 2 == 0).then_some(sent * 3);
        let tokens = RequestRecord {
            before: sent * 2,
            window: sent,
            sent,
            cached: 1,
            output: 2,
            ..Default::default()
        };
        let request =
            RequestRecord { at_ms, model, agent, is_aside, cost_micros, edits: 1, ..tokens };
        archive.log_request(id(name), &request).unwrap();
    };
    for name in ["s", "t", "gone"] {
        record(archive, name, &[user("one")]);
        log(name, 5, "large", 10);
    }
    log("s", 6, "large", 20);
    log("s", 7, "small", 5);
    log("s", DAY_MS, "large", 40);
    log("t", -1, "large", 1);
    archive.remove(id("gone")).unwrap();
    let lines = |since_ms| {
        let mut lines = wait(archive.usage(since_ms)).unwrap();
        lines.sort_by_key(|line| (line.session != id("s"), line.day, line.model.clone()));
        let figures = |line: &UsageLine| {
            let sums = line.sums;
            (line.session, line.day, line.model.clone(), sums.requests, sums.sent, sums.cost_micros)
        };
        lines.iter().map(figures).collect::<Vec<_>>()
    };
    let line = |name, day, model: &str, requests, sent, cost| {
        (id(name), day, model.to_owned(), requests, sent, cost)
    };
    let (s, t) = (line("s", 0, "large", 2, 30, 90), line("t", 0, "large", 1, 10, 30));
    let (small, later) = (line("s", 0, "small", 1, 5, 0), line("s", 1, "large", 1, 40, 120));
    let all = [s, small, later.clone(), line("t", -1, "large", 1, 1, 0), t];
    assert_eq!(lines(i64::MIN), all);
    assert_eq!(lines(DAY_MS - 1).len(), 4, "of the whole day");
    assert_eq!(lines(DAY_MS), [later]);
    let usage = archive.session(id("s")).unwrap().unwrap().usage;
    let sums = RequestSums {
        requests: 4,
        before: 150,
        window: 75,
        saved: 75,
        sent: 75,
        cached: 4,
        output: 8,
        edits: 4,
        cost_micros: 210,
        unpriced: 1,
        edited: EditedSums { cost_micros: 210, unedited: 140, repeated: 30, output: 6 },
        bypassed: 0,
    };
    let (model, agent) = ("large".to_owned(), "an agent".to_owned());
    assert_eq!(usage, SessionUsage { sums, model, agent, before: 80, window: 40, unedited: 80 });
    assert_eq!(archive.verify(None).unwrap(), []);
}

pub(super) fn edits_and_regrets_are_added_up_by_day(archive: &dyn Archive) {
    const DAY_MS: i64 = 86_400_000;
    record(archive, "s", &[user("one"), user("two")]);
    let commit = |after, at_ms, edits: &[u64]| {
        let new = NewBatch { at_ms, ..stubs(after, 1, edits) };
        archive.commit(id("s"), &new).unwrap();
    };
    commit(0, 5, &[0, 1]);
    commit(1, DAY_MS, &[0]);
    // What is inserted hides nothing.
    let batch = Batch::inserting(Seq(1), "text".to_owned());
    archive.commit(id("s"), &NewBatch { after: 2, batch, ..NewBatch::default() }).unwrap();
    let note = |at_ms, batch, again| {
        let (how, by) = (Regretted::ReadAgain, Some(Seq(1)));
        let regret = RegretNote { batch, how, by, tokens: 100, again };
        Note { at_ms, handle: Handle::of(["a"]), content: NoteContent::Regret(regret) }
    };
    let unread = NoteContent::Unread("half".to_owned());
    let unread = Note { at_ms: 6, handle: Handle::of(["b"]), content: unread };
    for notes in [vec![note(6, 1, false), unread], vec![note(7, 1, true), note(-1, 1, false)]] {
        let write = Write { session: id("s"), notes, ..Write::default() };
        wait(archive.write(vec![write])).unwrap().remove(0).unwrap();
    }
    // A request whose model is not known has the same line.
    let request = RequestRecord { at_ms: 8, sent: 3, ..RequestRecord::default() };
    archive.log_request(id("s"), &request).unwrap();
    let mut lines = wait(archive.usage(i64::MIN)).unwrap();
    lines.sort_by_key(|line| line.day);
    let edits =
        |made, regretted, regrets| EditSums { made, regretted, regrets, tokens: regrets * 100 };
    let figures = |line: &UsageLine| (line.day, line.model.clone(), line.sums.sent, line.edits);
    let expected = [(-1, 0, edits(0, 1, 1)), (0, 3, edits(2, 1, 2)), (1, 0, edits(1, 0, 0))];
    let expected = expected.map(|(day, sent, edits)| (day, String::new(), sent, edits));
    assert_eq!(lines.iter().map(figures).collect::<Vec<_>>(), expected);
    assert_eq!(archive.verify(None).unwrap(), []);
}

pub(super) fn requests_are_logged_as_they_are(archive: &dyn Archive) {
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
}

pub(super) fn answers_are_found_by_owner_and_the_newest_counts(archive: &dyn Archive) {
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
}

pub(super) fn derived_data_is_replaced(archive: &dyn Archive) {
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
}

pub(super) fn what_is_kept_under_a_key_is_found_by_the_beginning_of_it_and_goes_with_its_session(
    archive: &dyn Archive,
) {
    record(archive, "s", &[user("one")]);
    let request = RequestRecord { at_ms: 7, ..RequestRecord::default() };
    for key in ["answer/2", "answer/1", "answers", "Answer/0", "a%/1"] {
        let derived = vec![(key.to_owned(), format!("value of {key}"))];
        let requests = vec![request.clone()];
        let write = Write { session: id("s"), requests, derived, ..Write::default() };
        write_one(archive, write).unwrap();
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
    archive.remove(id("s")).unwrap();
    assert_eq!(archive.derived_keys(id("s"), "").unwrap(), [""; 0]);
}

pub(super) fn money_is_reserved_within_a_cap_and_settled(archive: &dyn Archive) {
    let minutes = |minutes: i64| minutes * 60_000;
    let wish = |at: i64, micros: u64| {
        archive.reserve(&Wish { at_ms: minutes(at), micros, cap_micros: 100 }).unwrap()
    };
    let granted = |reserved: Reserved| match reserved {
        Reserved::Granted(number) => number,
        other @ Reserved::Full { .. } => panic!("{other:?}"),
    };
    let full = |until: i64| Reserved::Full { until_ms: Some(minutes(until)) };
    let first = granted(wish(1_000, 60));
    assert_eq!(wish(1_001, 60), full(1_060), "what is reserved is not there for others");
    archive.settle(first, 40).unwrap();
    let second = granted(wish(1_010, 60));
    assert_ne!(first, second);
    assert_eq!(wish(1_011, 1), full(1_060), "one that is never settled counts as it was reserved");
    assert_eq!(wish(1_011, 50), full(1_070), "it takes the end of both");
    assert_eq!(wish(1_011, 101), Reserved::Full { until_ms: None }, "never");
    archive.settle(second, 0).unwrap();
    archive.settle(9_999, 100).unwrap();
    granted(wish(1_012, 60));
    // The clock runs backwards: nothing is free for that, and nothing is taken for ever.
    assert_eq!(wish(500, 30), full(560));
    granted(wish(561, 100));
}
