//! Stamps, which tell which state of a file a log continues.
//!
//! SQLite finds the log of a file by its name alone, and would apply whatever lies there. So every
//! transaction leaves a random stamp, together with the stamp of the transaction before it: the log
//! of a file has the stamp that the file has.

use std::path::Path;

use memchr::memmem;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _};

use super::fault::Fault;

/// What a stamp is made of, and how many bytes of it must agree: a disk that fails in the middle of
/// a write may leave a part of one stamp and the rest of the next.
const BYTES: usize = 16;
const AGREEING_MIN: usize = BYTES / 2;

/// What comes right before the stamps in a page, which is searched for it.
const MARK: &[u8; 16] = b"longhand stamp\0\x01";

/// The table is made when a file is first written to; a file without it is valid, but cannot be told from others.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS stamp (id INTEGER PRIMARY KEY CHECK (id = 1), \
    mark BLOB NOT NULL, before BLOB NOT NULL, now BLOB NOT NULL) STRICT";

/// The random stamp of one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp([u8; BYTES]);

impl Stamp {
    pub(super) fn agrees(self, other: Stamp) -> bool {
        self.0.iter().zip(other.0).filter(|(ours, theirs)| **ours == *theirs).count()
            >= AGREEING_MIN
    }
}

/// Gives a file its first stamp if it has none.
pub(super) fn create(db: &Connection) -> Result<(), Fault> {
    db.execute(TABLE, [])?;
    db.execute(
        "INSERT OR IGNORE INTO stamp VALUES (1, ?1, randomblob(16), randomblob(16))",
        [MARK],
    )?;
    Ok(())
}

/// Stamps the open transaction.
pub(super) fn advance(db: &Connection) -> Result<(), Fault> {
    db.prepare_cached("UPDATE stamp SET before = now, now = randomblob(16)")?.execute([])?;
    Ok(())
}

/// The stamp of the newest transaction, as far as a connection sees it.
pub(super) fn newest(db: &Connection) -> Result<Option<Stamp>, Fault> {
    let mut select = db.prepare_cached("SELECT now FROM stamp")?;
    Ok(select.query_row([], |row| row.get(0).map(Stamp)).optional()?)
}

/// A stamp and its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileStamp {
    /// The page that has the stamp, in the file as in its log.
    pub(super) page: u32,
    pub(super) now: Stamp,
}

/// Reads the stamp that a connection sees; `None` if there is none.
pub(super) fn of(db: &Connection) -> Result<Option<FileStamp>, Fault> {
    let select = "SELECT rootpage FROM sqlite_schema WHERE name = 'stamp'";
    let page: Option<u32> = db.query_row(select, [], |row| row.get(0)).optional()?;
    let Some(page) = page else { return Ok(None) };
    Ok(newest(db)?.map(|now| FileStamp { page, now }))
}

/// Reads the stamp of a file without its log; `None` if it has none.
pub(super) fn of_file(path: &Path) -> Result<Option<FileStamp>, Fault> {
    of(&connect_immutable(path)?)
}

/// Opens a file as it is, without its log; nobody may write to it meanwhile.
pub(super) fn connect_immutable(path: &Path) -> Result<Connection, rusqlite::Error> {
    // SQLite takes an immutable file as it is: it opens no log, and locks nothing. Opening the file
    // ourselves would be worse, for closing it would drop the locks of every connection in this process.
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(immutable(path), flags)
}

fn immutable(path: &Path) -> String {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'\\' if cfg!(windows) => uri.push('/'),
            b'?' | b'#' | b'%' | 0x80.. => uri.push_str(&format!("%{byte:02x}")),
            byte => uri.push(char::from(*byte)),
        }
    }
    uri.push_str("?immutable=1");
    uri
}

/// Finds the stamps in a page: of the transaction before, and of the one that wrote it.
pub(super) fn in_page(page: &[u8]) -> Option<[Stamp; 2]> {
    let start = memmem::find(page, MARK)? + MARK.len();
    let stamp = |start: usize| {
        let bytes = page.get(start..start + BYTES)?;
        bytes.try_into().ok().map(Stamp)
    };
    Some([stamp(start)?, stamp(start + BYTES)?])
}
