//! Writes: each all or nothing, many in one transaction, and only to the version that was seen.

use longhand_archive::{
    Archive, ArchiveError, Conflict, Ledger, Owner, Page, PreambleId, RequestRecord, Scope,
    Version, Write, wait,
};
use longhand_core::Seq;
use longhand_core::session::SessionState;

use super::samples::{
    append_to, append_write, begin, commit_to, id, named, record, reply, silent, stub_handle,
    stubs, user, write_one,
};

/// A session as it is now.
fn ledger(archive: &dyn Archive, name: &str) -> Ledger {
    wait(Ledger::open(archive, id(name))).unwrap().unwrap()
}

/// A write with some of everything, which begins the session "s".
fn full(archive: &dyn Archive) -> Write {
    let new = named(Owner::LOCAL, "s");
    let mut ledger = wait(Ledger::open_or_begin(archive, id("s"), &new)).unwrap();
    let mut write = ledger.write();
    let after = ledger.state.live(ledger.state.tree().newest()).last().copied().unwrap_or(0);
    let parent = ledger.state.tree().newest();
    let seqs = append_to(&mut ledger.state, &mut write, parent, &[user("needle"), reply("1")]);
    let head = seqs.unwrap()[1].0;
    commit_to(&mut ledger.state, &mut write, &stubs(after, head, &[head - 1]));
    write.pins = Some(vec![Seq(head)]);
    write.preambles.push("tools".to_owned());
    write.requests.push(request());
    write.derived.push(("story".to_owned(), "once".to_owned()));
    write
}

fn request() -> RequestRecord {
    let preamble = Some(PreambleId::of("tools"));
    RequestRecord { answer: Some("answer".to_owned()), preamble, ..RequestRecord::default() }
}

/// All that a write to the session "s" could change.
fn state(archive: &dyn Archive) -> String {
    let id = id("s");
    format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        archive.session(id).unwrap(),
        archive.head(id).unwrap(),
        archive.entries(id, 0..99).unwrap(),
        archive.batches(id, Page::ALL).unwrap(),
        archive.requests(id, Page::ALL).unwrap(),
        archive.preamble(Owner::LOCAL, PreambleId::of("tools")).unwrap(),
        archive.answer(Owner::LOCAL, "answer").unwrap(),
        archive.reference(&Scope::All, stub_handle(0)).unwrap(),
        archive.derived(id, "story").unwrap(),
        archive.search(&Scope::All, "needle", 9).unwrap(),
    )
}

fn assert_conflict(outcome: &Result<Version, ArchiveError>, name: &str) {
    let Err(ArchiveError::Conflict { session, conflict }) = outcome else { panic!("{outcome:?}") };
    assert_eq!((*session, *conflict), (id(name), Conflict::Version));
}

fn assert_unknown(outcome: &Result<Version, ArchiveError>, name: &str) {
    match outcome {
        Err(ArchiveError::UnknownSession { session }) => assert_eq!(*session, id(name)),
        other => panic!("{other:?}"),
    }
}

pub(super) fn all_of_a_write_is_made(archive: &dyn Archive) {
    let version = write_one(archive, full(archive)).unwrap();
    assert_ne!(version.birth, 0);
    assert_eq!((version.entries, version.batches, version.undos), (2, 1, 0));
    let tools = PreambleId::of("tools");
    assert_eq!(archive.preamble(Owner::LOCAL, tools).unwrap().as_deref(), Some("tools"));
    assert_eq!(archive.preamble(Owner::of("key"), tools).unwrap(), None);
    assert_eq!(archive.requests(id("s"), Page::ALL).unwrap().items, [request()]);
    let found = archive.answer(Owner::LOCAL, "answer").unwrap();
    assert_eq!(found, Some((id("s"), request())));
    assert_eq!(archive.live(id("s"), None).unwrap().len(), 1);
    assert_eq!(archive.head(id("s")).unwrap().unwrap().pins, [Seq(1)]);
    assert!(archive.reference(&Scope::All, stub_handle(0)).unwrap().is_some());
    assert_eq!(archive.search(&Scope::All, "needle", 9).unwrap().len(), 1);
    assert_eq!(archive.derived(id("s"), "story").unwrap().as_deref(), Some("once"));
    // The version is that of the session, and what follows it can be written.
    assert_eq!(ledger(archive, "s").state.written(), version);
    let undo = Write { undos: vec![1], pins: Some(Vec::new()), ..Write::to(id("s"), version) };
    let undone = write_one(archive, undo).unwrap();
    assert_eq!((undone.birth, undone.undos), (version.birth, 1));
    assert_ne!(undone.pins, version.pins);
    assert_eq!(archive.live(id("s"), None).unwrap(), []);
    assert_eq!(archive.head(id("s")).unwrap().unwrap().pins, []);
}

pub(super) fn nothing_of_a_write_is_made_that_expects_another_version(archive: &dyn Archive) {
    record(archive, "s", &[user("0"), silent("1"), user("2")]);
    let stale = full(archive);
    record(archive, "s", &[reply("3")]);
    let before = state(archive);
    assert_conflict(&write_one(archive, stale), "s");
    assert_eq!(state(archive), before);
    // Each number of a version counts.
    let write = full(archive);
    let right = write.expected.unwrap();
    for wrong in [
        Version::default(),
        Version { birth: right.birth + 1, ..right },
        Version { entries: right.entries + 1, ..right },
        Version { entries: right.entries - 1, ..right },
        Version { entries: u64::MAX, ..right },
        Version { batches: right.batches + 1, ..right },
        Version { undos: right.undos + 1, ..right },
        Version { pins: right.pins + 1, ..right },
    ] {
        let outcome = write_one(archive, Write { expected: Some(wrong), ..write.clone() });
        assert_conflict(&outcome, "s");
        assert_eq!(state(archive), before);
    }
    // What was refused leaves no gap.
    let version = write_one(archive, write).unwrap();
    assert_eq!((version.entries, version.batches), (6, 1));
    assert_eq!(archive.search(&Scope::All, "needle", 9).unwrap().len(), 1);
}

/// Whatever is written makes another version, so that whoever has not seen it is refused.
pub(super) fn every_change_of_the_state_makes_another_version(archive: &dyn Archive) {
    record(archive, "s", &[user("0"), reply("1")]);
    let version = || ledger(archive, "s").state.written();
    let mut versions = vec![version()];
    record(archive, "s", &[user("2")]);
    versions.push(version());
    archive.commit(id("s"), &stubs(0, 2, &[0])).unwrap();
    versions.push(version());
    archive.undo(id("s"), None).unwrap();
    versions.push(version());
    archive.pin(id("s"), Seq(1), true).unwrap();
    versions.push(version());
    archive.pin(id("s"), Seq(2), true).unwrap();
    versions.push(version());
    archive.pin(id("s"), Seq(1), false).unwrap();
    versions.push(version());
    for (index, version) in versions.iter().enumerate() {
        assert!(!versions[..index].contains(version), "{versions:?}");
    }
    // What the state does not depend on leaves the version as it is.
    archive.log_request(id("s"), &RequestRecord::default()).unwrap();
    archive.put_derived(id("s"), "story", "once").unwrap();
    archive.keep_preamble(Owner::LOCAL, "tools").unwrap();
    record(archive, "other", &[user("0")]);
    assert_eq!(Some(&version()), versions.last());
}

pub(super) fn many_sessions_are_written_to_in_one_transaction(archive: &dyn Archive) {
    let names: Vec<String> = (0..20).map(|number| format!("session {number}")).collect();
    for round in 1..=3 {
        let said = |name: &str| [user(&format!("{name} says {round}")), reply("yes")];
        let writes = names.iter().map(|name| append_write(archive, name, &said(name))).collect();
        let versions = wait(archive.write(writes)).unwrap();
        assert_eq!(versions.len(), names.len());
        for (name, version) in names.iter().zip(versions) {
            assert_eq!(version.unwrap(), ledger(archive, name).state.written());
            let entries = archive.entries(id(name), 0..99).unwrap();
            assert_eq!(entries.len(), 2 * round);
            assert_eq!(entries[2 * round - 2].raw, said(name)[0].raw);
        }
    }
    assert_eq!(wait(archive.write(Vec::new())).unwrap().len(), 0);
}

pub(super) fn one_that_is_refused_fails_alone(archive: &dyn Archive) {
    for name in ["a", "late", "z"] {
        record(archive, name, &[user("0")]);
    }
    let late = append_write(archive, "late", &[user("too late")]);
    record(archive, "late", &[user("first")]);
    let unknown = Write { requests: vec![request()], session: id("unknown"), ..Write::default() };
    let theirs = Write { begin: Some(named(Owner::LOCAL, "z")), ..append_write(archive, "y", &[]) };
    let taken = Write { session: id("z"), ..theirs };
    let writes = vec![
        append_write(archive, "a", &[user("1")]),
        late,
        append_write(archive, "new", &[user("0"), reply("1")]),
        unknown,
        taken,
        append_write(archive, "last", &[user("0")]),
    ];
    let outcomes = wait(archive.write(writes)).unwrap();
    assert_eq!(outcomes[0].as_ref().unwrap().entries, 2);
    assert_conflict(&outcomes[1], "late");
    assert_eq!(outcomes[2].as_ref().unwrap().entries, 2);
    assert_unknown(&outcomes[3], "unknown");
    assert_conflict(&outcomes[4], "z");
    assert_eq!(outcomes[5].as_ref().unwrap().entries, 1);
    assert_eq!(archive.head(id("unknown")).unwrap(), None);
    assert_eq!(archive.search(&Scope::All, "too late", 9).unwrap(), []);
    for (name, entries) in [("a", 2), ("late", 2), ("new", 2), ("z", 1), ("last", 1)] {
        assert_eq!(archive.head(id(name)).unwrap().unwrap().entries, entries, "{name}");
    }
}

pub(super) fn of_two_that_saw_one_version_the_first_is_made(archive: &dyn Archive) {
    let (one, other) = (append_write(archive, "s", &[user("0")]), full(archive));
    assert_eq!(write_one(archive, one).unwrap().entries, 1);
    assert_conflict(&write_one(archive, other), "s");
    let (one, other) = (full(archive), append_write(archive, "s", &[user("0")]));
    assert_eq!(write_one(archive, one).unwrap().entries, 3);
    assert_conflict(&write_one(archive, other), "s");
    assert_eq!(archive.head(id("s")).unwrap().unwrap().entries, 3);
}

pub(super) fn what_begins_a_session_that_is_there_is_refused(archive: &dyn Archive) {
    let begin_only = append_write(archive, "s", &[]);
    assert_eq!(begin_only.expected, Some(Version::default()));
    let version = write_one(archive, begin_only.clone()).unwrap();
    assert_eq!(version, Version { birth: version.birth, ..Version::default() });
    assert_ne!(version.birth, 0);
    assert_conflict(&write_one(archive, begin_only.clone()), "s");
    record(archive, "s", &[user("0")]);
    let before = state(archive);
    let theirs = Some(named(Owner::of("key"), "s"));
    for write in [begin_only.clone(), Write { begin: theirs, ..begin_only }] {
        assert_conflict(&write_one(archive, write), "s");
        assert_eq!(state(archive), before);
    }
}

pub(super) fn a_session_that_was_begun_anew_is_another_one(archive: &dyn Archive) {
    record(archive, "s", &[user("0")]);
    archive.pin(id("s"), Seq(0), true).unwrap();
    let (old, late) = (ledger(archive, "s"), full(archive));
    archive.remove(id("s")).unwrap();
    assert_unknown(&write_one(archive, late.clone()), "s");
    assert_eq!(archive.head(id("s")).unwrap(), None);
    assert_eq!(archive.preamble(Owner::LOCAL, PreambleId::of("tools")).unwrap(), None);
    // As many of everything, but not those.
    record(archive, "s", &[user("0")]);
    archive.pin(id("s"), Seq(0), true).unwrap();
    let new = ledger(archive, "s");
    assert_ne!(new.state.written().birth, old.state.written().birth);
    let before = state(archive);
    assert_conflict(&write_one(archive, late), "s");
    assert_eq!(state(archive), before);
    // Births are never used again, not even that of a session that nobody has seen.
    let mut births = vec![old.state.written().birth, new.state.written().birth];
    for _ in 0..3 {
        archive.remove(id("s")).unwrap();
        begin(archive, "s");
        let birth = ledger(archive, "s").state.written().birth;
        assert!(!births.contains(&birth), "{birth} in {births:?}");
        births.push(birth);
    }
}

pub(super) fn without_an_expected_version_the_session_must_be_there(archive: &dyn Archive) {
    let write = Write {
        session: id("s"),
        preambles: vec!["tools".to_owned()],
        requests: vec![request()],
        derived: vec![("story".to_owned(), "once".to_owned())],
        ..Write::default()
    };
    let nothing = state(archive);
    assert_unknown(&write_one(archive, write.clone()), "s");
    assert_eq!(state(archive), nothing);
    record(archive, "s", &[user("0")]);
    let version = ledger(archive, "s").state.written();
    for count in 1..3 {
        assert_eq!(write_one(archive, write.clone()).unwrap(), version);
        assert_eq!(archive.requests(id("s"), Page::ALL).unwrap().items.len(), count);
    }
    assert_eq!(archive.derived(id("s"), "story").unwrap().as_deref(), Some("once"));
}

/// Two states of one session, of which one hears of the other's writes only by being refused.
pub(super) fn a_ledger_that_was_late_decides_anew(archive: &dyn Archive) {
    let new = named(Owner::LOCAL, "s");
    let mut one = wait(Ledger::open_or_begin(archive, id("s"), &new)).unwrap();
    let mut other = one.clone();
    for count in 0..20_u64 {
        let (writer, name) = if count % 2 == 0 { (&mut one, "one") } else { (&mut other, "other") };
        let entries = [user(&format!("{name} {count}"))];
        let decide = |state: &mut SessionState, write: &mut Write| {
            let parent = state.tree().newest();
            let seqs = append_to(state, write, parent, &entries)?;
            let after = state.live(parent).last().copied().unwrap_or(0);
            Ok((commit_to(state, write, &stubs(after, seqs[0].0, &[seqs[0].0])), seqs))
        };
        let (batch, seqs) = wait(writer.change(archive, decide)).unwrap();
        assert_eq!((batch, seqs), (count + 1, vec![Seq(count)]));
    }
    assert_eq!(archive.live(id("s"), None).unwrap().len(), 20);
    assert_eq!(archive.path(id("s"), None, 0..99).unwrap().len(), 20);
}
