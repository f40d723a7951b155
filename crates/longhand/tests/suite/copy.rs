//! Copies of archives: everything arrives, also what is written meanwhile, and what cannot be copied is named.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use longhand::app::{App, CopyReport};
use longhand::{Archive, MemoryArchive, Owner, SessionId, SqliteArchive};
use longhand_archive::{
    After, Answer, EntryRecord, Layer, NewSession, Page, SessionFilter, Storage, wait,
};
use longhand_testkit::contract::samples::{id, record, reply, user};
use proptest::prelude::*;

use crate::transfer::{TransferStep, exported, play, session, steps};

fn copied(from: &Arc<impl Archive + 'static>, to: &Arc<impl Archive + 'static>) -> CopyReport {
    let (from, to): (Arc<dyn Archive>, Arc<dyn Archive>) = (from.clone(), to.clone());
    App::new(from).copy_to(&App::new(to), |_| {}).unwrap()
}

fn names(archive: &dyn Archive) -> Vec<String> {
    let listed = wait(archive.list_sessions(SessionFilter::All, Page::ALL)).unwrap();
    listed.items.into_iter().map(|session| session.name).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn a_copy_is_the_same_and_goes_on(
        steps in steps(),
        owner in 0..2_usize,
        cut in any::<prop::sample::Index>(),
    ) {
        let (id, new) = session(["", "key"][owner]);
        // A session that was removed and made anew is another one; it is named.
        let mut steps = steps;
        steps.retain(|step| !matches!(step, TransferStep::RemoveNeighbour));
        let cut = if steps.is_empty() { 0 } else { cut.index(steps.len()) };
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let file = Arc::new(SqliteArchive::open(folder.path().join("archive.db")).unwrap());
        let (from, memory) = (Arc::new(MemoryArchive::new()), Arc::new(MemoryArchive::new()));
        for steps in [&steps[..cut], &steps[cut..]] {
            play(&*from, id, &new, steps);
            from.rename(id, &format!("after {}", steps.len())).unwrap();
            let listed = names(&*from);
            for report in [copied(&from, &file), copied(&from, &memory)] {
                prop_assert_eq!(&report.uncopied, &[]);
                prop_assert_eq!(report.sessions, listed.len() as u64);
            }
            for to in [&*file as &dyn Archive, &*memory] {
                for session in wait(from.list_sessions(SessionFilter::All, Page::ALL)).unwrap().items {
                    prop_assert!(exported(to, session.id) == exported(&*from, session.id));
                }
                prop_assert_eq!(to.verify(None).unwrap(), []);
            }
            let again = copied(&from, &file);
            prop_assert_eq!((again.new_entries, again.new_bytes), (0, 0));
        }
    }
}

/// An archive into which somebody writes while it is read: the first time that a session is, or every time.
struct Written {
    beneath: Arc<MemoryArchive>,
    left: AtomicU64,
}

impl Layer for Written {
    fn beneath(&self) -> &dyn Storage {
        &*self.beneath
    }

    fn bodies(
        &self,
        id: SessionId,
        seqs: Vec<std::ops::Range<u64>>,
    ) -> Answer<'_, Vec<EntryRecord>> {
        let may_write = |left: u64| left.checked_sub(1);
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, may_write).is_ok() {
            self.beneath.append(id, After::Newest, &[user("meanwhile")]).unwrap();
            let new = NewSession { name: "new".to_owned(), ..NewSession::default() };
            let new_id = SessionId::named(Owner::LOCAL, "new");
            self.beneath.begin(new_id, &new).unwrap();
            self.beneath.append(new_id, After::Newest, &[user("a new session")]).unwrap();
        }
        self.beneath.bodies(id, seqs)
    }
}

#[test]
fn what_is_written_meanwhile_is_copied_by_another_pass() {
    let beneath = Arc::new(MemoryArchive::new());
    for name in ["a", "b"] {
        record(&*beneath, name, &[user("one"), reply("two")]);
    }
    let from = Arc::new(Written { beneath, left: AtomicU64::new(3) });
    let to = Arc::new(MemoryArchive::new());
    let report = copied(&from, &to);
    assert!(report.is_complete(), "{report:?}");
    assert_eq!(report.sessions, 3);
    for id in [id("a"), id("b"), SessionId::named(Owner::LOCAL, "new")] {
        assert_eq!(exported(&*to, id), exported(&*from.beneath, id));
    }
    assert_eq!(report.entries, report.new_entries);
}

#[test]
fn lists_of_a_copy_have_the_same_order() {
    let (from, to) = (Arc::new(MemoryArchive::new()), Arc::new(MemoryArchive::new()));
    for name in ["a", "b", "c", "a"] {
        record(&*from, name, &[user(name)]);
    }
    assert!(copied(&from, &to).is_complete());
    assert_eq!(names(&*to), ["a", "c", "b"]);
    record(&*from, "b", &[user("once more")]);
    assert!(copied(&from, &to).is_complete());
    assert_eq!(names(&*to), ["b", "a", "c"]);
}

#[test]
fn a_session_that_is_written_to_all_the_time_is_named() {
    let beneath = Arc::new(MemoryArchive::new());
    record(&*beneath, "a", &[user("one")]);
    let from = Arc::new(Written { beneath, left: AtomicU64::new(u64::MAX) });
    let to = Arc::new(MemoryArchive::new());
    let report = copied(&from, &to);
    let mut left: Vec<&str> = report.uncopied.iter().map(|left| left.name.as_str()).collect();
    left.sort_unstable();
    assert_eq!(left, ["a", "new"], "{report:?}");
    assert!(report.uncopied[0].reason.contains("copy again"), "{report:?}");
    // Run again once it is quiet, the rest arrives.
    from.left.store(0, Ordering::Relaxed);
    assert!(copied(&from, &to).is_complete());
    assert_eq!(exported(&*to, id("a")), exported(&*from.beneath, id("a")));
}

#[test]
fn a_session_that_says_something_else_there_is_named_and_stays() {
    let (from, to) = (Arc::new(MemoryArchive::new()), Arc::new(MemoryArchive::new()));
    for archive in [&from, &to] {
        record(&**archive, "further", &[user("same")]);
        record(&**archive, "other", &[user("same")]);
    }
    record(&*from, "other", &[user("delete the wrong folder")]);
    record(&*to, "other", &[user("delete the right folder")]);
    // It went on there.
    record(&*to, "further", &[reply("more")]);
    from.rename(id("further"), "renamed here").unwrap();
    record(&*from, "plain", &[user("only here")]);
    record(&*to, "theirs", &[user("only there")]);
    let before = [id("further"), id("other"), id("theirs")].map(|id| exported(&*to, id));
    let report = copied(&from, &to);
    assert_eq!((report.sessions, report.uncopied.len()), (1, 2), "{report:?}");
    for left in &report.uncopied {
        assert!(left.reason.ends_with("something else in it: its entries"), "{left:?}");
    }
    assert_eq!([id("further"), id("other"), id("theirs")].map(|id| exported(&*to, id)), before);
    assert_eq!(exported(&*to, id("plain")), exported(&*from, id("plain")));
}
