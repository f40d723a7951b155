//! What the tests share.

use longhand_archive::{Archive, MemoryArchive, NewBatch, NewEntry, SqliteArchive};
use tempfile::TempDir;

/// Runs a test on a fresh archive of every kind.
pub(crate) fn check(test: impl Fn(&dyn Archive)) {
    test(&MemoryArchive::new());
    let (_folder, archive) = fresh();
    test(&archive);
    assert_eq!(archive.verify(None).unwrap(), []);
}

/// An archive in a folder that goes away.
pub(crate) fn fresh() -> (TempDir, SqliteArchive) {
    let folder = tempfile::tempdir().unwrap();
    let archive = SqliteArchive::open(folder.path().join("archive.db")).unwrap();
    (folder, archive)
}

/// A folder in memory where there is one: for tests with many writes and nothing to prove about
/// disks.
pub(crate) fn quick_folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// An entry that opens a round.
pub(crate) fn user(text: &str) -> NewEntry {
    NewEntry {
        opens_round: true,
        form: "chat".to_owned(),
        raw: format!(r#"{{"role":"user","content":{}}}"#, quoted(text)),
        text: text.to_owned(),
        at_ms: 1_700_000_000_000,
    }
}

/// An entry that belongs to the round before it.
pub(crate) fn reply(text: &str) -> NewEntry {
    NewEntry { opens_round: false, at_ms: 1_700_000_000_500, ..user(text) }
}

pub(crate) fn batch(after: u64, end: u64) -> NewBatch {
    NewBatch {
        after,
        at_ms: 7,
        entries: 0..end,
        text: format!("[{end} entries are folded]"),
        receipt: format!(r#"{{"after":{after}}}"#),
    }
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '\n' => quoted.push_str("\\n"),
            letter if letter.is_control() => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(letter)));
            }
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}
