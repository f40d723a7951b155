//! The file is linear in its text.

use std::fs;
use std::path::Path;

use longhand_archive::{After, Archive, NewEntry, SqliteArchive};
use longhand_core::{Edit, Fold, Place, Seq, Span};
use longhand_core::{Handle, content_hash};
use longhand_testkit::filler;
use rusqlite::Connection;

use crate::common::{batch, begin, id, quick_folder, record, reply, user};

const ROUNDS: u64 = 1_000;
const ROUND_BYTES: usize = 6_000;

fn round(number: u64) -> [NewEntry; 2] {
    let text = |bytes: usize, seed: u64| {
        let mut text = format!("{seed} {}", filler::words(bytes / 4, seed));
        text.truncate(text.floor_char_boundary(bytes));
        text
    };
    [user(&text(ROUND_BYTES / 5, 2 * number)), reply(&text(ROUND_BYTES * 4 / 5, 2 * number + 1))]
}

fn text_of(edit: &Edit) -> usize {
    match edit {
        Edit::Stub { text, .. } | Edit::Clip { text, .. } | Edit::Insert { text, .. } => text.len(),
        Edit::Fold(fold) => fold.text.len(),
    }
}

/// How many bytes a file has more than an empty archive.
fn file_bytes(path: &Path) -> f64 {
    // Closing brings the index up to date and empties the log.
    drop(SqliteArchive::open(path).unwrap());
    let empty = quick_folder();
    let empty = empty.path().join("empty.db");
    drop(SqliteArchive::open(&empty).unwrap());
    let bytes = |path: &Path| fs::metadata(path).unwrap().len();
    (bytes(path) - bytes(&empty)) as f64
}

#[test]
fn a_file_is_little_larger_than_its_text() {
    let folder = quick_folder();
    let path = folder.path().join("archive.db");
    let archive = SqliteArchive::open(&path).unwrap();
    let mut text = 0;
    for first in (0..ROUNDS).step_by(100) {
        let entries: Vec<NewEntry> = (first..first + 100).flat_map(round).collect();
        text += entries.iter().map(|entry| entry.raw.len()).sum::<usize>();
        record(&archive, "s", &entries);
    }
    drop(archive);
    let plain = file_bytes(&path) / text as f64;
    assert!((6_000_000..6_200_000).contains(&text), "{text}");

    // Every batch stubs ten parts, and folds all that is before them. What stands there now is text, too.
    let mut edited_text = text;
    let archive = SqliteArchive::open(&path).unwrap();
    for number in 1..=200_u64 {
        let first = 10 * (number - 1);
        let mut edits = vec![Edit::Fold(Fold {
            spans: vec![Span { first: Seq(0), last: Seq(first) }],
            blocks: vec![],
            sum: u128::from(number),
            text: filler::words(300, number),
        })];
        edits.extend((first..first + 10).map(|entry| Edit::Stub {
            at: Place { entry: Seq(entry), part: 0 },
            handle: Handle::of_sum(content_hash(&entry.to_string())),
            text: format!("[{entry}: 4,800 characters of output, h:0123456789ab]"),
        }));
        edited_text += edits.iter().map(text_of).sum::<usize>();
        archive.commit(id("s"), &batch(number - 1, 2 * ROUNDS - 1, edits)).unwrap();
    }
    drop(archive);
    let edited = file_bytes(&path) / edited_text as f64;
    println!("file / text: {plain:.3}; after 200 batches {edited:.3}");
    assert!(plain <= 1.0, "{plain}");
    assert!(edited <= 1.0, "{edited}");
}

#[test]
fn forks_copy_nothing() {
    let folder = quick_folder();
    let path = folder.path().join("archive.db");
    let archive = SqliteArchive::open(&path).unwrap();
    let prefix: Vec<NewEntry> = (0..1_000_000 / ROUND_BYTES as u64).flat_map(round).collect();
    let text: usize = prefix.iter().map(|entry| entry.raw.len()).sum();
    begin(&archive, "s");
    let mut fork_bytes = 0;
    for fork in 0..20 {
        // Sent as clients do: the whole conversation, again and again.
        let newest = round(1_000_000 + fork);
        fork_bytes += newest.iter().map(|entry| entry.raw.len()).sum::<usize>();
        let sent = [&prefix[..], &newest[..]].concat();
        let appended = archive.append(id("s"), After::Entry(None), &sent).unwrap();
        assert_eq!(appended.new, if fork == 0 { sent.len() as u64 } else { 2 });
    }
    drop(archive);
    let forked = file_bytes(&path) / (text + fork_bytes) as f64;
    assert!(forked <= 1.0, "{forked}");
    let bodies = || {
        let db = Connection::open(&path).unwrap();
        let sum = "SELECT count(*), sum(length(content)) FROM body";
        db.query_row(sum, [], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))).unwrap()
    };
    let (count, bytes) = bodies();
    // A client that rewrites its first message says all the rest again: other entries, which the index knows by
    // themselves, and the same bodies.
    let archive = SqliteArchive::open(&path).unwrap();
    let resent = [&[user("rewritten")], &prefix[1..]].concat();
    archive.append(id("s"), After::Entry(None), &resent).unwrap();
    drop(archive);
    let rewritten = file_bytes(&path) / (text + fork_bytes) as f64;
    println!(
        "20 forks of {text} bytes: file / text {forked:.3}; rewritten from the start {rewritten:.3}"
    );
    assert!(rewritten <= 1.6, "{rewritten}");
    let (count_after, bytes_after) = bodies();
    assert!(count_after <= count + 1, "{count_after} bodies, {count} before");
    assert!(bytes_after <= bytes + 200, "{bytes_after} bytes of bodies, {bytes} before");
}
