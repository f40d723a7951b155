//! Money that calls of models may cost, shared by processes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use longhand_archive::{Archive, Reserved, SqliteArchive, Wish};

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
