//! The tables, and how older files get them.

use rusqlite::Connection;

use super::fault::Fault;
use super::session::signed;
use crate::ArchiveError;

/// Marks a file as ours: "LONG".
pub(super) const APPLICATION_ID: i64 = 0x4c4f_4e47;

/// What brings a file from one format to the next; format n has had the first n steps.
///
/// Steps are never changed once released.
pub(super) const STEPS: &[&str] = &[concat!(
    // A session's name may be long; what changes with every entry is in `head`. The key is a hash
    // of the name, and NULL once the session is removed and waits to be wiped.
    "CREATE TABLE session (id INTEGER PRIMARY KEY AUTOINCREMENT, key BLOB UNIQUE, \
     name TEXT NOT NULL) STRICT;",
    "CREATE TABLE head (session INTEGER PRIMARY KEY REFERENCES session, entries INTEGER NOT NULL, \
     rounds INTEGER NOT NULL, bytes INTEGER NOT NULL, first_ms INTEGER NOT NULL, \
     last_ms INTEGER NOT NULL, link BLOB NOT NULL, batches INTEGER NOT NULL, \
     batch INTEGER NOT NULL, batch_link BLOB NOT NULL, pins BLOB NOT NULL, seal BLOB NOT NULL) \
     STRICT;",
    // Ids grow in the order of arrival, so that pages fill up and the index is written in order.
    // The long column is last: what comes before it is read without it.
    "CREATE TABLE entry (id INTEGER PRIMARY KEY, session INTEGER NOT NULL REFERENCES session, \
     seq INTEGER NOT NULL, round INTEGER NOT NULL, at_ms INTEGER NOT NULL, link BLOB NOT NULL, \
     form TEXT NOT NULL, excerpt BLOB NOT NULL, raw TEXT NOT NULL, UNIQUE (session, seq)) STRICT;",
    "CREATE TABLE batch (id INTEGER PRIMARY KEY, session INTEGER NOT NULL REFERENCES session, \
     number INTEGER NOT NULL, after INTEGER NOT NULL, at_ms INTEGER NOT NULL, \
     first INTEGER NOT NULL, end INTEGER NOT NULL, link BLOB NOT NULL, text TEXT NOT NULL, \
     receipt TEXT NOT NULL, UNIQUE (session, number)) STRICT;",
    "CREATE TABLE pins (session INTEGER PRIMARY KEY REFERENCES session, seqs BLOB NOT NULL) STRICT;",
    // Either `text`, or entries `first` to `end` of the session. Session 0 is nobody.
    "CREATE TABLE original (id INTEGER PRIMARY KEY, handle TEXT NOT NULL, \
     session INTEGER NOT NULL, form INTEGER NOT NULL, first INTEGER, end INTEGER, \
     seal BLOB NOT NULL, text TEXT, UNIQUE (handle, session)) STRICT;",
    "CREATE INDEX original_session ON original (session);",
    // The rows are ids of entries. Words are found by us, and the index only needs to know which
    // entries have them; all else is read from the entries.
    "CREATE VIRTUAL TABLE word USING fts5 (words, content='', detail=none, columnsize=0, \
     tokenize='ascii');",
    // Entries up to `indexed` are in the index.
    "CREATE TABLE state (id INTEGER PRIMARY KEY CHECK (id = 1), indexed INTEGER NOT NULL) STRICT;",
    "INSERT INTO state VALUES (1, 0);",
)];

/// Brings a file to the newest format, all or nothing.
pub(super) fn migrate(db: &Connection, steps: &[&str]) -> Result<(), Fault> {
    if version(db)? == newest(steps) {
        return Ok(());
    }
    db.execute_batch("BEGIN IMMEDIATE")?;
    let outcome = migrate_in_transaction(db, steps);
    db.execute_batch(if outcome.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
    outcome
}

fn migrate_in_transaction(db: &Connection, steps: &[&str]) -> Result<(), Fault> {
    // Another process may have done it while we waited.
    for step in &steps[(version(db)?.max(0) as usize).min(steps.len())..] {
        db.execute_batch(step)?;
    }
    db.pragma_update(None, "application_id", APPLICATION_ID)?;
    db.pragma_update(None, "user_version", newest(steps))?;
    Ok(())
}

fn newest(steps: &[&str]) -> i64 {
    signed(steps.len() as u64)
}

pub(super) fn version(db: &Connection) -> Result<i64, rusqlite::Error> {
    db.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Checks that the tables are what this release knows: a changed definition would change what
/// every row means.
pub(super) fn check(db: &Connection) -> Result<(), Fault> {
    let mut select = db.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")?;
    let found: Vec<String> =
        select.query_map([], |row| row.get(0))?.collect::<Result<_, rusqlite::Error>>()?;
    let statements = STEPS.iter().flat_map(|step| step.split(';')).map(str::trim);
    let mut wanted = statements.filter(|statement| statement.starts_with("CREATE"));
    if wanted.all(|statement| found.iter().any(|sql| sql == statement)) {
        return Ok(());
    }
    Err(Fault::Sqlite(rusqlite::Error::SqliteFailure(
        rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT),
        Some("a table is not defined as it was created".to_owned()),
    )))
}

/// Refuses files of later releases.
pub(super) fn refuse_newer(db: &Connection, path: &std::path::Path) -> Result<(), Fault> {
    let (found, known) = (version(db)?, newest(STEPS));
    if found <= known {
        return Ok(());
    }
    Err(ArchiveError::Newer { path: path.to_owned(), found, known }.into())
}
