//! Money that calls of models may cost.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use longhand_archive::{Archive, Reserved, SqliteArchive, Wish};

use crate::common::check;

#[test]
fn money_is_reserved_within_a_cap_and_settled() {
    check(|archive| {
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
        assert_eq!(
            wish(1_011, 1),
            full(1_060),
            "one that is never settled counts as it was reserved"
        );
        assert_eq!(wish(1_011, 50), full(1_070), "it takes the end of both");
        assert_eq!(wish(1_011, 101), Reserved::Full { until_ms: None }, "never");
        archive.settle(second, 0).unwrap();
        archive.settle(9_999, 100).unwrap();
        granted(wish(1_012, 60));
        // The clock runs backwards: nothing is free for that, and nothing is taken for ever.
        assert_eq!(wish(500, 30), full(560));
        granted(wish(561, 100));
    });
}

#[test]
fn processes_share_one_cap_and_a_restart_forgets_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("archive.db");
    let wish = Wish { at_ms: 1_000_000, micros: 7, cap_micros: 100 };
    let granted = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                // Each has connections of its own, as another process has.
                let archive = SqliteArchive::open(&path).unwrap();
                for _ in 0..4 {
                    if let Reserved::Granted(_) = archive.reserve(&wish).unwrap() {
                        granted.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(granted.into_inner(), 14, "14 times 7 are 98");
    let archive = SqliteArchive::open(&path).unwrap();
    let again = archive.reserve(&wish).unwrap();
    assert!(matches!(again, Reserved::Full { .. }), "{again:?}");
    assert!(archive.verify(None).unwrap().is_empty());
}
