//! Layers: all that is written passes them.

use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use longhand_archive::{
    After, Answer, Archive, ArchiveError, Key, Layer, Owner, Page, PreambleId, Record,
    RequestRecord, SessionId, Storage, Version, Wish, Write,
};
use longhand_core::Seq;

use super::samples::{begin, id, named, record, reply, stubs, user};

/// A layer that leaves everything to the storage beneath it.
pub struct PassThrough<S>(pub S);

impl<S: Storage> Layer for PassThrough<S> {
    fn beneath(&self) -> &dyn Storage {
        &self.0
    }
}

/// Stands for every key that all share: their names are the archive's own matter.
const SHARED: Key = Key::Shared(String::new());

/// Counts what is written through it, or refuses it.
struct Watch<'a> {
    beneath: &'a dyn Archive,
    is_closed: bool,
    passed: Mutex<Passed>,
}

/// How much was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Passed {
    begun: usize,
    entries: usize,
    batches: usize,
    undos: usize,
    pins: usize,
    preambles: usize,
    requests: usize,
    derived: usize,
    puts: Vec<Key>,
    erased: Vec<SessionId>,
}

impl<'a> Watch<'a> {
    fn new(beneath: &'a dyn Archive, is_closed: bool) -> Self {
        Self { beneath, is_closed, passed: Mutex::default() }
    }

    /// What was written since this was last asked for.
    fn take(&self) -> Passed {
        std::mem::take(&mut *self.passed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes note of a write and makes it, or does neither.
    fn pass<'f, T: Send + 'f>(
        &'f self,
        note: impl FnOnce(&mut Passed),
        make: impl FnOnce(&'f dyn Archive) -> Answer<'f, T>,
    ) -> Answer<'f, T> {
        if self.is_closed {
            let closed = ArchiveError::Closed { archive: "watch".to_owned() };
            return Box::pin(std::future::ready(Err(closed)));
        }
        note(&mut self.passed.lock().unwrap_or_else(PoisonError::into_inner));
        make(self.beneath)
    }
}

impl Layer for Watch<'_> {
    fn beneath(&self) -> &dyn Storage {
        self.beneath
    }

    fn write(&self, writes: Vec<Write>) -> Answer<'_, Vec<Result<Version, ArchiveError>>> {
        let seen = writes.clone();
        let count = move |passed: &mut Passed| {
            for write in seen {
                passed.begun += usize::from(write.begin.is_some());
                passed.entries += write.entries.len();
                passed.batches += write.batches.len();
                passed.undos += write.undos.len();
                passed.pins += write.pins.map_or(0, |pins| pins.len());
                passed.preambles += write.preambles.len();
                passed.requests += write.requests.len();
                passed.derived += write.derived.len();
            }
        };
        self.pass(count, |beneath| beneath.write(writes))
    }

    fn put(&self, key: Key, expected: Option<String>, value: String) -> Answer<'_, bool> {
        let noted = if matches!(key, Key::Shared(_)) { SHARED } else { key.clone() };
        let note = |passed: &mut Passed| passed.puts.push(noted);
        self.pass(note, |beneath| beneath.put(key, expected, value))
    }

    fn erase(&self, id: SessionId) -> Answer<'_, bool> {
        self.pass(|passed| passed.erased.push(id), |beneath| beneath.erase(id))
    }
}

/// A call that writes, and what passes a layer of it.
struct Call {
    name: &'static str,
    make: fn(&dyn Archive) -> Result<(), ArchiveError>,
    passes: Passed,
}

impl Call {
    fn new(
        name: &'static str,
        make: fn(&dyn Archive) -> Result<(), ArchiveError>,
        passes: Passed,
    ) -> Self {
        Self { name, make, passes }
    }
}

/// Every call of an archive that writes, each after those before it.
fn calls() -> Vec<Call> {
    let none = Passed::default;
    let puts = |key: Key| Passed { puts: vec![key], ..none() };
    let tools = Key::Preamble(Owner::LOCAL, PreambleId::of("tools"));
    let all = Passed { begun: 1, entries: 2, batches: 1, undos: 1, pins: 1, derived: 1, ..none() };
    vec![
        Call::new(
            "begin",
            |archive| archive.begin(id("s"), &named(Owner::LOCAL, "s")),
            Passed { begun: 1, ..none() },
        ),
        Call::new(
            "append",
            |archive| archive.append(id("s"), After::Newest, &[user("0"), reply("1")]).map(drop),
            Passed { entries: 2, ..none() },
        ),
        Call::new(
            "commit",
            |archive| archive.commit(id("s"), &stubs(0, 1, &[0])).map(drop),
            Passed { batches: 1, ..none() },
        ),
        Call::new(
            "undo",
            |archive| archive.undo(id("s"), None).map(drop),
            Passed { undos: 1, ..none() },
        ),
        Call::new(
            "pin",
            |archive| archive.pin(id("s"), Seq(1), true),
            Passed { pins: 1, ..none() },
        ),
        Call::new(
            "keep_preamble",
            |archive| archive.keep_preamble(Owner::LOCAL, "tools").map(drop),
            puts(tools),
        ),
        Call::new(
            "log_request",
            |archive| archive.log_request(id("s"), &RequestRecord::default()),
            Passed { requests: 1, ..none() },
        ),
        Call::new(
            "put_derived",
            |archive| archive.put_derived(id("s"), "story", "once"),
            Passed { derived: 1, ..none() },
        ),
        Call::new("restore", |archive| archive.restore(id("restored"), &exported()), all),
        Call::new(
            "reserve",
            |archive| archive.reserve(&Wish { at_ms: 1, micros: 7, cap_micros: 100 }).map(drop),
            puts(SHARED),
        ),
        Call::new("settle", |archive| archive.settle(1, 3), puts(SHARED)),
        Call::new(
            "remove",
            |archive| archive.remove(id("restored")).map(drop),
            Passed { erased: vec![id("restored")], ..none() },
        ),
    ]
}

/// All that an archive has.
fn state(archive: &dyn Archive) -> String {
    let sessions = archive.sessions(None, Page::ALL).unwrap().items;
    let mut state = format!("{sessions:?}");
    for session in sessions {
        let mut take = |record: Record| {
            state += &format!("\n{record:?}");
            ControlFlow::Continue(())
        };
        archive.export(session.id, &mut take).unwrap();
    }
    state += &format!("\n{:?}", archive.preamble(Owner::LOCAL, PreambleId::of("tools")).unwrap());
    state += &format!("\n{:?}", archive.derived(id("s"), "story").unwrap());
    state
}

/// The session that is restored from another archive.
fn exported() -> Vec<Record> {
    let archive = longhand_archive::MemoryArchive::new();
    record(&archive, "restored", &[user("0"), reply("1")]);
    archive.commit(id("restored"), &stubs(0, 1, &[0])).unwrap();
    archive.undo(id("restored"), None).unwrap();
    archive.pin(id("restored"), Seq(1), true).unwrap();
    archive.put_derived(id("restored"), "story", "once").unwrap();
    let mut records = Vec::new();
    let mut take = |record: Record| {
        records.push(record);
        ControlFlow::Continue(())
    };
    archive.export(id("restored"), &mut take).unwrap();
    records
}

pub(super) fn every_write_passes_a_layer(archive: &dyn Archive) {
    let (open, closed) = (Watch::new(archive, false), Watch::new(archive, true));
    for Call { name, make, passes } in calls() {
        // Where nothing passes, nothing is written.
        let before = state(archive);
        let refused = make(&closed);
        assert!(matches!(refused, Err(ArchiveError::Closed { .. })), "{name}: {refused:?}");
        assert_eq!(state(archive), before, "{name}");
        make(&open).unwrap();
        assert_eq!(open.take(), passes, "{name}");
        if !passes.puts.contains(&SHARED) {
            assert_ne!(state(archive), before, "{name}");
        }
        // Both see what was written.
        assert_eq!(state(&open), state(archive));
        assert_eq!(state(&closed), state(archive));
    }
    // What changes nothing is not written.
    begin(&open, "s");
    open.pin(id("s"), Seq(1), true).unwrap();
    open.undo(id("s"), None).unwrap();
    open.keep_preamble(Owner::LOCAL, "tools").unwrap();
    open.append(id("s"), After::Entry(None), &[user("0"), reply("1")]).unwrap();
    assert_eq!(open.take(), Passed::default());
}
