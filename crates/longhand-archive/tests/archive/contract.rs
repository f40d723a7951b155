//! What every archive promises.

use std::thread;

use longhand_archive::{
    Addition, Appended, ArchiveError, Batch, Content, Entry, Form, Head, NewEntry, Original,
    SessionInfo, fold_handle,
};
use longhand_core::Handle;

use crate::common::{batch, check, reply, user};

#[test]
fn entries_come_back_byte_for_byte() {
    check(|archive| {
        let odd = NewEntry {
            opens_round: false,
            form: String::new(),
            raw: "{\"a\" : 1.0,\t\"b\":\"\\u00e9\u{1f600}\\ud83d\",\"\":\0 \u{feff}\r\n".to_owned(),
            text: "\0odd".to_owned(),
            at_ms: i64::MIN,
        };
        let empty =
            NewEntry { raw: String::new(), text: String::new(), at_ms: i64::MAX, ..odd.clone() };
        let new = [user("hello"), odd, empty];
        assert_eq!(archive.append("s", &new).unwrap(), Appended { first: 0, round: 0 });
        let entries = archive.entries("s", 0..u64::MAX).unwrap();
        assert_eq!(entries.len(), new.len());
        for (at, (entry, new)) in entries.into_iter().zip(new).enumerate() {
            let NewEntry { form, raw, at_ms, .. } = new;
            assert_eq!(entry, Entry { seq: at as u64, round: 0, form, raw, at_ms });
        }
    });
}

#[test]
fn ranges_give_what_is_there() {
    check(|archive| {
        archive.append("s", &(0..10).map(|n| user(&n.to_string())).collect::<Vec<_>>()).unwrap();
        let seqs = |range| {
            let entries = archive.entries("s", range).unwrap();
            entries.iter().map(|entry| entry.seq).collect::<Vec<_>>()
        };
        assert_eq!(seqs(3..5), [3, 4]);
        assert_eq!(seqs(8..99), [8, 9]);
        assert_eq!(seqs(10..99).len(), 0);
        assert_eq!(seqs(u64::MAX - 1..u64::MAX).len(), 0);
        #[expect(clippy::reversed_empty_ranges, reason = "callers may get it wrong")]
        let backwards = 5..3;
        assert_eq!(seqs(backwards).len(), 0);
        assert_eq!(archive.entries("other", 0..5).unwrap(), []);
    });
}

#[test]
fn entries_are_appended_at_their_place_or_not_at_all() {
    check(|archive| {
        let add = |session: &str, first: u64, entries: &[NewEntry]| Addition {
            session: session.to_owned(),
            first,
            entries: entries.to_vec(),
        };
        let first = add("s", 0, &[user("one"), reply("two")]);
        assert_eq!(archive.append_at(&[first]).unwrap(), 1);
        for late in [add("s", 0, &[user("x")]), add("s", 3, &[user("x")]), add("other", 1, &[])] {
            // What comes after one that is out of place is not tried.
            assert_eq!(archive.append_at(&[late, add("new", 0, &[user("one")])]).unwrap(), 0);
        }
        assert_eq!(archive.head("other").unwrap(), None);
        assert_eq!(archive.head("new").unwrap(), None);
        // Each stands after the one before.
        let more = [add("s", 2, &[user("three")]), add("s", 3, &[reply("four")])];
        assert_eq!(archive.append_at(&more).unwrap(), 2);
        let more = [add("new", 0, &[user("one")]), add("s", 9, &[user("x")])];
        assert_eq!(archive.append_at(&more).unwrap(), 1);
        assert_eq!(archive.head("new").unwrap().unwrap().entries, 1);
        let raws: Vec<String> =
            archive.entries("s", 0..9).unwrap().into_iter().map(|entry| entry.raw).collect();
        assert_eq!(
            raws,
            [user("one"), reply("two"), user("three"), reply("four")].map(|own| own.raw)
        );
        assert_eq!(archive.verify(None).unwrap(), []);
    });
}

#[test]
fn rounds_begin_where_they_are_opened() {
    check(|archive| {
        assert_eq!(archive.append("s", &[]).unwrap(), Appended { first: 0, round: 0 });
        assert_eq!(archive.head("s").unwrap(), None);
        archive.append("s", &[reply("system"), user("one"), reply("two")]).unwrap();
        let appended = archive.append("s", &[reply("three"), user("four")]).unwrap();
        assert_eq!(appended, Appended { first: 3, round: 1 });
        assert_eq!(archive.append("s", &[]).unwrap(), Appended { first: 5, round: 2 });
        let entries = archive.entries("s", 0..9).unwrap();
        assert_eq!(entries.iter().map(|entry| entry.round).collect::<Vec<_>>(), [0, 1, 1, 1, 2]);
        let head = Head { entries: 5, rounds: 3, batch: None, undone: false, pins: vec![] };
        assert_eq!(archive.head("s").unwrap(), Some(head));
    });
}

#[test]
fn any_string_is_a_session_of_its_own() {
    check(|archive| {
        let long = "x".repeat(1_000_000);
        let longer = format!("{long}y");
        let ids = [
            "", " ", "a/b", "a_b", "a\\b", "A/B", "../x", "a\0b", "a\0", "a", "é", "e\u{301}",
            "'; --", "%", &long, &longer,
        ];
        for id in ids {
            archive.append(id, &[user(id), user(id)]).unwrap();
        }
        for id in ids {
            assert_eq!(archive.head(id).unwrap().unwrap().entries, 2, "{id:.20}");
            assert!(archive.entries(id, 0..1).unwrap()[0].raw.len() > id.len());
        }
        let mut sorted = ids.to_vec();
        sorted.sort_unstable();
        let listed = archive.sessions().unwrap();
        assert_eq!(listed.iter().map(|info| info.id.as_str()).collect::<Vec<_>>(), sorted);
        assert_eq!(archive.head("b").unwrap(), None);
    });
}

#[test]
fn sessions_are_listed_with_their_sizes() {
    check(|archive| {
        let early = NewEntry { at_ms: -5, ..user("early") };
        let bytes = (early.raw.len() + reply("late").raw.len()) as u64;
        archive.append("s", &[early, reply("late")]).unwrap();
        archive.commit("s", &batch(0, 1)).unwrap();
        archive.undo("s").unwrap();
        let info = SessionInfo {
            id: "s".to_owned(),
            entries: 2,
            rounds: 1,
            batches: 1,
            bytes,
            first_ms: -5,
            last_ms: 1_700_000_000_500,
            damaged: false,
        };
        assert_eq!(archive.sessions().unwrap(), [info]);
    });
}

#[test]
fn what_a_batch_folds_can_be_brought_back() {
    check(|archive| {
        archive.append("s", &[user("one"), reply("two"), user("three")]).unwrap();
        archive.commit("s", &batch(0, 2)).unwrap();
        let original = archive.expand(fold_handle("s", &(0..2))).unwrap().unwrap();
        let raws = [user("one").raw, reply("two").raw].join("\n");
        assert_eq!(archive.text_of(&original).unwrap(), raws);
        assert!(!archive.head("s").unwrap().unwrap().undone);
        archive.undo("s").unwrap();
        assert!(archive.head("s").unwrap().unwrap().undone);
        archive.commit("s", &batch(0, 2)).unwrap();
        assert!(!archive.head("s").unwrap().unwrap().undone);
        archive.remove("s").unwrap();
        assert_eq!(archive.expand(fold_handle("s", &(0..2))).unwrap(), None);
    });
}

#[test]
fn batches_build_on_one_another() {
    check(|archive| {
        let unknown = archive.commit("s", &batch(0, 0));
        assert!(matches!(unknown, Err(ArchiveError::UnknownSession { .. })), "{unknown:?}");
        archive.append("s", &[user("one"), reply("two"), user("three")]).unwrap();
        assert_eq!(archive.commit("s", &batch(0, 1)).unwrap(), 1);
        assert_eq!(archive.commit("s", &batch(1, 2)).unwrap(), 2);
        let stale = archive.commit("s", &batch(1, 3));
        assert!(matches!(stale, Err(ArchiveError::Conflict { after: 1, newest: 2, .. })));
        let beyond = archive.commit("s", &batch(2, 4));
        assert!(matches!(beyond, Err(ArchiveError::NoSuchEntries { entries: 3, .. })));
        assert_eq!(archive.batches("s").unwrap().len(), 2);
        assert_eq!(archive.batches("other").unwrap(), []);
    });
}

#[test]
fn undo_takes_back_the_newest_batch_and_the_log_keeps_it() {
    check(|archive| {
        assert_eq!(archive.undo("s").unwrap(), None);
        archive.append("s", &[user("one"), reply("two"), user("three")]).unwrap();
        archive.commit("s", &batch(0, 1)).unwrap();
        archive.commit("s", &batch(1, 2)).unwrap();
        let undone = archive.undo("s").unwrap().unwrap();
        assert_eq!((undone.number, undone.undone), (2, true));
        assert_eq!(archive.commit("s", &batch(1, 3)).unwrap(), 3);
        let log = |batches: Vec<Batch>| {
            batches
                .iter()
                .map(|batch| (batch.number, batch.after, batch.undone))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            log(archive.batches("s").unwrap()),
            [(1, 0, false), (2, 1, true), (3, 1, false)]
        );
        assert_eq!(archive.undo("s").unwrap().unwrap().number, 3);
        let head = archive.head("s").unwrap().unwrap().batch.unwrap();
        assert_eq!((head.number, head.entries, head.undone), (1, 0..1, false));
        assert_eq!(head.text, "[1 entries are folded]");
        assert_eq!(archive.undo("s").unwrap().unwrap().number, 1);
        assert_eq!(archive.undo("s").unwrap(), None);
        assert_eq!(archive.head("s").unwrap().unwrap().batch, None);
        assert_eq!(archive.commit("s", &batch(0, 3)).unwrap(), 4);
        assert!(archive.batches("s").unwrap()[..3].iter().all(|batch| batch.undone));
    });
}

#[test]
fn pins_are_kept_in_order() {
    check(|archive| {
        assert!(matches!(archive.pin("s", 0, true), Err(ArchiveError::UnknownSession { .. })));
        archive.append("s", &[user("one"), user("two"), user("three")]).unwrap();
        for (seq, pinned) in [(2, true), (0, true), (1, false), (2, true), (1, true), (0, false)] {
            archive.pin("s", seq, pinned).unwrap();
        }
        assert_eq!(archive.head("s").unwrap().unwrap().pins, [1, 2]);
        for beyond in [3, u64::MAX] {
            let refused = archive.pin("s", beyond, true);
            assert!(matches!(refused, Err(ArchiveError::NoSuchEntries { .. })), "{refused:?}");
        }
        archive.append("s", &[user("four")]).unwrap();
        assert_eq!(archive.head("s").unwrap().unwrap().pins, [1, 2]);
    });
}

fn text(session: Option<&str>, text: &str) -> Original {
    let session = session.map(str::to_owned);
    Original { session, form: Form::Text, content: Content::Text(text.to_owned()) }
}

fn fold(session: &str, end: u64) -> Original {
    let session = Some(session.to_owned());
    Original { session, form: Form::Json, content: Content::Entries(0..end) }
}

#[test]
fn handles_bring_back_what_they_stand_for() {
    check(|archive| {
        archive.append("s", &[user("one"), reply("two")]).unwrap();
        let raws: Vec<String> =
            archive.entries("s", 0..2).unwrap().into_iter().map(|entry| entry.raw).collect();
        let folded = raws.join("\n");
        let (stub, whole) = (Handle::of(["body"]), Handle::of([folded.as_str()]));
        let kept = [(stub, text(None, "body")), (whole, fold("s", 2))];
        archive.keep(&kept).unwrap();
        archive.keep(&kept).unwrap();
        assert_eq!(archive.expand(stub).unwrap(), Some(text(None, "body")));
        let original = archive.expand(whole).unwrap().unwrap();
        assert_eq!(original, fold("s", 2));
        assert_eq!(archive.text_of(&original).unwrap(), folded);
        assert_eq!(archive.text_of(&text(None, "body")).unwrap(), "body");
        assert_eq!(archive.expand(Handle::of(["other"])).unwrap(), None);
        // The same content from elsewhere is the same content.
        let same = Original { form: Form::Json, ..text(Some("s"), &folded) };
        archive.keep(&[(whole, same)]).unwrap();
    });
}

#[test]
fn a_session_brings_back_only_its_own() {
    check(|archive| {
        for session in ["s", "t"] {
            archive.append(session, &[user("one"), reply("two")]).unwrap();
        }
        let (own, shared, nobodys) = (Handle::of(["a"]), Handle::of(["b"]), Handle::of(["c"]));
        let kept = [
            (own, text(Some("s"), "a")),
            (shared, text(Some("s"), "b")),
            (shared, text(Some("t"), "b")),
            (nobodys, text(None, "c")),
        ];
        archive.keep(&kept).unwrap();
        assert_eq!(archive.expand_in("s", own).unwrap(), Some(text(Some("s"), "a")));
        assert_eq!(archive.expand_in("t", own).unwrap(), None);
        for session in ["s", "t"] {
            let original = text(Some(session), "b");
            assert_eq!(archive.expand_in(session, shared).unwrap(), Some(original));
            assert_eq!(archive.expand_in(session, nobodys).unwrap(), None);
        }
        assert_eq!(archive.expand_in("nobody", own).unwrap(), None);
        archive.remove("s").unwrap();
        assert_eq!(archive.expand_in("s", own).unwrap(), None);
        assert_eq!(archive.expand_in("t", shared).unwrap(), Some(text(Some("t"), "b")));
    });
}

#[test]
fn a_handle_stands_for_one_content() {
    check(|archive| {
        archive.append("s", &[user("one"), reply("two")]).unwrap();
        let (handle, other) = (Handle::of(["body"]), Handle::of(["another"]));
        archive.keep(&[(handle, text(Some("s"), "body"))]).unwrap();
        let json = Original { form: Form::Json, ..text(Some("s"), "body") };
        for wrong in [text(Some("s"), "other"), text(None, "other"), json, fold("s", 1)] {
            let refused = archive.keep(&[(other, text(None, "another")), (handle, wrong)]);
            assert!(matches!(refused, Err(ArchiveError::HandleTaken { .. })), "{refused:?}");
        }
        assert_eq!(archive.expand(other).unwrap(), None);
        let twice = archive.keep(&[(other, text(None, "one")), (other, text(None, "two"))]);
        assert!(matches!(twice, Err(ArchiveError::HandleTaken { .. })), "{twice:?}");
        assert_eq!(archive.expand(handle).unwrap(), Some(text(Some("s"), "body")));
    });
}

#[test]
fn an_original_cites_what_exists() {
    check(|archive| {
        let handle = Handle::of(["x"]);
        let refused = archive.keep(&[(handle, fold("s", 0))]);
        assert!(matches!(refused, Err(ArchiveError::UnknownSession { .. })), "{refused:?}");
        archive.append("s", &[user("one")]).unwrap();
        let refused = archive.keep(&[(handle, fold("s", 2))]);
        assert!(matches!(refused, Err(ArchiveError::NoSuchEntries { .. })), "{refused:?}");
        let refused = archive.keep(&[(handle, Original { session: None, ..fold("s", 1) })]);
        assert!(matches!(refused, Err(ArchiveError::NoSession { .. })), "{refused:?}");
        archive.keep(&[(handle, fold("s", 0))]).unwrap();
        assert_eq!(archive.text_of(&fold("s", 0)).unwrap(), "");
        let gone = archive.text_of(&fold("s", 2));
        assert!(matches!(gone, Err(ArchiveError::NoSuchEntries { .. })), "{gone:?}");
    });
}

#[test]
fn a_removed_session_takes_along_what_was_its_own() {
    check(|archive| {
        let (own, shared) = (Handle::of(["own"]), Handle::of(["shared"]));
        for id in ["keep", "drop"] {
            archive.append(id, &[user("needle"), reply("two")]).unwrap();
            archive.commit(id, &batch(0, 1)).unwrap();
            archive.pin(id, 0, true).unwrap();
            archive.keep(&[(shared, text(Some(id), "shared"))]).unwrap();
        }
        archive.keep(&[(own, text(Some("drop"), "own"))]).unwrap();
        assert!(archive.remove("drop").unwrap());
        assert!(!archive.remove("drop").unwrap());
        assert_eq!(archive.head("drop").unwrap(), None);
        assert_eq!(archive.expand(own).unwrap(), None);
        assert_eq!(archive.expand(shared).unwrap(), Some(text(Some("keep"), "shared")));
        assert_eq!(archive.search(None, "needle", 9).unwrap().len(), 1);
        assert_eq!(archive.search(Some("drop"), "needle", 9).unwrap(), []);
        // Its name and its handles are free again.
        assert_eq!(archive.append("drop", &[user("new")]).unwrap().first, 0);
        archive.keep(&[(own, text(Some("drop"), "else"))]).unwrap();
        let head = archive.head("drop").unwrap().unwrap();
        assert_eq!((head.entries, head.batch, head.pins), (1, None, vec![]));
        assert_eq!(archive.head("keep").unwrap().unwrap().pins, [0]);
    });
}

#[test]
fn a_session_that_is_not_there_cannot_be_verified() {
    check(|archive| {
        archive.append("s", &[user("one")]).unwrap();
        assert_eq!(archive.verify(Some("s")).unwrap(), []);
        let refused = archive.verify(Some("t"));
        assert!(matches!(refused, Err(ArchiveError::UnknownSession { .. })), "{refused:?}");
    });
}

#[test]
fn threads_that_write_at_once_all_get_their_place() {
    check(|archive| {
        thread::scope(|scope| {
            for writer in 0..8 {
                scope.spawn(move || {
                    let own = format!("own {writer}");
                    for count in 0..20 {
                        let said = format!("{writer} {count}");
                        let entries = [user(&said), reply(&said)];
                        let appended = archive.append("shared", &entries).unwrap();
                        assert_eq!(appended.first % 2, 0);
                        let there = archive.entries("shared", appended.first..appended.first + 2);
                        assert!(there.unwrap().iter().all(|entry| entry.raw.contains(&said)));
                        assert_eq!(archive.append(&own, &entries[..1]).unwrap().first, count);
                        // A neighbour that fails in the same transaction harms nobody.
                        archive.commit("shared", &batch(99, 0)).unwrap_err();
                    }
                });
            }
        });
        let head = archive.head("shared").unwrap().unwrap();
        assert_eq!((head.entries, head.rounds), (320, 160));
        let entries = archive.entries("shared", 0..320).unwrap();
        for writer in 0..8 {
            let is_own = |raw: &&str| raw.contains(&format!("\"{writer} "));
            let found = entries.iter().map(|entry| entry.raw.as_str()).filter(is_own);
            let said = (0..40).map(|half| user(&format!("{writer} {}", half / 2)).raw);
            assert!(found.eq(said), "writer {writer}");
        }
    });
}
