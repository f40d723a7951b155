//! The tables.

use rusqlite::Connection;

use super::fault::Fault;
use crate::ArchiveError;

/// Marks a file as ours: "LONG".
pub(super) const APPLICATION_ID: i64 = 0x4c4f_4e47;

/// The format that is written. It is frozen: a change here gets a new number and a migration from this
/// one, and `tests/archive/frozen` keeps a file of each.
pub(super) const FORMAT: i64 = 2;

/// What is the truth. Long columns are last: what comes before them is read without them. What is called packed is
/// stored as `pack` makes it.
const LEDGER_TABLES: &str = concat!(
    // A session's key is its id, and NULL once it is removed and waits to be wiped. What changes with
    // every entry is in `head`.
    "CREATE TABLE session (id INTEGER PRIMARY KEY AUTOINCREMENT, key BLOB UNIQUE, \
     owner BLOB NOT NULL, continues BLOB, kin INTEGER, begun_ms INTEGER NOT NULL, seal BLOB NOT NULL, \
     dialect TEXT NOT NULL, name TEXT NOT NULL, project TEXT NOT NULL, agent TEXT NOT NULL, \
     file TEXT NOT NULL) STRICT;",
    "CREATE INDEX session_name ON session (name) WHERE key IS NOT NULL;",
    "CREATE INDEX session_kin ON session (kin) WHERE kin IS NOT NULL;",
    "CREATE INDEX session_continues ON session (continues) WHERE continues IS NOT NULL;",
    // All that a list shows of a session. `owner` is that of the session, and `newest` its entry that was
    // appended last: sessions are listed by activity.
    "CREATE TABLE head (session INTEGER PRIMARY KEY REFERENCES session, owner BLOB NOT NULL, \
     newest INTEGER NOT NULL, entries INTEGER NOT NULL, bytes INTEGER NOT NULL, \
     first_ms INTEGER NOT NULL, last_ms INTEGER NOT NULL, parent INTEGER, depth INTEGER NOT NULL, \
     round INTEGER NOT NULL, link BLOB NOT NULL, entry_seal BLOB NOT NULL, \
     batches INTEGER NOT NULL, batch_seal BLOB NOT NULL, undos INTEGER NOT NULL, \
     undo_seal BLOB NOT NULL, requests INTEGER NOT NULL, notes INTEGER NOT NULL, \
     imported INTEGER NOT NULL, pins BLOB NOT NULL, seal BLOB NOT NULL, usage BLOB NOT NULL, \
     opening TEXT NOT NULL) STRICT;",
    "CREATE INDEX head_activity ON head (owner, newest);",
    // Ids grow in the order of arrival, so that pages fill up and the index is written in order. `hash` is
    // over the owner and the bytes of the message, which are stored once for each owner: `body` is the row
    // of `body` that has them, and NULL if that has the id of the entry.
    "CREATE TABLE entry (id INTEGER PRIMARY KEY, session INTEGER NOT NULL REFERENCES session, \
     seq INTEGER NOT NULL, parent INTEGER, depth INTEGER NOT NULL, round INTEGER NOT NULL, \
     at_ms INTEGER NOT NULL, source_ms INTEGER, body INTEGER, link BLOB NOT NULL, \
     seal BLOB NOT NULL, hash BLOB NOT NULL, form TEXT NOT NULL, excerpt BLOB NOT NULL, \
     UNIQUE (session, seq)) STRICT;",
    // Packed bytes of messages, apart from the entries so that these are close together.
    "CREATE TABLE body (id INTEGER PRIMARY KEY, content BLOB NOT NULL) STRICT;",
    // An index in the order of a hash costs every append a page for each entry, so this holds few: the
    // links of every eighth entry of a path, for which silent ones do not count.
    "CREATE INDEX entry_link ON entry (link) WHERE depth % 8 = 0;",
    // All that is needed of the entries that do not come right after their parents.
    "CREATE INDEX entry_fork ON entry (session, seq, parent, link) WHERE parent IS NOT seq - 1;",
    "CREATE INDEX entry_body ON entry (body) WHERE body IS NOT NULL;",
    // Which row of `body` has the bytes with a hash, by a part of it; filled along with the search index.
    // A row that is missing or wrong only means that bytes are stored twice.
    "CREATE TABLE content (key INTEGER PRIMARY KEY, entry INTEGER NOT NULL) STRICT;",
    // `reach` is the newest entry that the batch or one before it edits. Receipt, edits and the state of the
    // fold are packed; of many batches, one state is read.
    "CREATE TABLE batch (id INTEGER PRIMARY KEY, session INTEGER NOT NULL REFERENCES session, \
     number INTEGER NOT NULL, after INTEGER NOT NULL, reach INTEGER, at_ms INTEGER NOT NULL, \
     seal BLOB NOT NULL, state_seal BLOB, receipt BLOB NOT NULL, edits BLOB NOT NULL, state BLOB) STRICT;",
    // All that is needed to tell which batches are live on a path.
    "CREATE UNIQUE INDEX batch_number ON batch (session, number, after, reach);",
    "CREATE TABLE undo (id INTEGER PRIMARY KEY, session INTEGER NOT NULL REFERENCES session, \
     number INTEGER NOT NULL, batch INTEGER NOT NULL, seal BLOB NOT NULL, \
     UNIQUE (session, number)) STRICT;",
    "CREATE TABLE pins (session INTEGER PRIMARY KEY REFERENCES session, seqs BLOB NOT NULL) STRICT;",
    // Which batch had a handle first; the batch says what the handle stands for.
    "CREATE TABLE reference (handle TEXT NOT NULL, session INTEGER NOT NULL REFERENCES session, \
     batch INTEGER NOT NULL, PRIMARY KEY (handle, session)) STRICT, WITHOUT ROWID;",
    "CREATE INDEX reference_session ON reference (session);",
    // The content is packed.
    "CREATE TABLE preamble (id INTEGER PRIMARY KEY, key BLOB NOT NULL, owner BLOB NOT NULL, \
     content BLOB NOT NULL, UNIQUE (key, owner)) STRICT;",
    "CREATE TABLE request (id INTEGER PRIMARY KEY, session INTEGER NOT NULL REFERENCES session, \
     number INTEGER NOT NULL, at_ms INTEGER NOT NULL, preamble BLOB, head INTEGER, \
     batch INTEGER NOT NULL, most INTEGER NOT NULL, before INTEGER NOT NULL, \
     shown INTEGER NOT NULL, sent INTEGER NOT NULL, cached INTEGER NOT NULL, output INTEGER NOT NULL, cost INTEGER, edits INTEGER NOT NULL, \
     seal BLOB NOT NULL, model TEXT NOT NULL, agent TEXT NOT NULL, answer TEXT, \
     cut INTEGER NOT NULL, aside INTEGER NOT NULL, bypassed INTEGER NOT NULL, UNIQUE (session, number)) STRICT;",
    "CREATE INDEX request_preamble ON request (preamble) WHERE preamble IS NOT NULL;",
    "CREATE INDEX request_answer ON request (answer) WHERE answer IS NOT NULL;",
    // What the requests of a session to a model on a day took, added up.
    "CREATE TABLE usage (session INTEGER NOT NULL REFERENCES session, day INTEGER NOT NULL, \
     model TEXT NOT NULL, sums BLOB NOT NULL, PRIMARY KEY (session, day, model)) STRICT, WITHOUT ROWID;",
    // What is noted beside requests. The content is packed.
    "CREATE TABLE note (id INTEGER PRIMARY KEY, session INTEGER NOT NULL REFERENCES session, \
     number INTEGER NOT NULL, at_ms INTEGER NOT NULL, handle TEXT NOT NULL, seal BLOB NOT NULL, \
     content BLOB NOT NULL, UNIQUE (session, number)) STRICT;",
    "CREATE INDEX note_handle ON note (handle);",
    // The value is packed.
    "CREATE TABLE derived (id INTEGER PRIMARY KEY, session INTEGER NOT NULL REFERENCES session, \
     key TEXT NOT NULL, seal BLOB NOT NULL, value BLOB NOT NULL, UNIQUE (session, key)) STRICT;",
    // Values that all sessions share.
    "CREATE TABLE value (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;",
    // Entries up to `indexed` are in the search index, whose tables `index::ready` makes.
    "CREATE TABLE state (id INTEGER PRIMARY KEY CHECK (id = 1), indexed INTEGER NOT NULL) STRICT;",
    "INSERT INTO state VALUES (1, 0);",
);

/// Makes the tables in an empty file.
pub(super) fn create(db: &Connection) -> Result<(), Fault> {
    db.execute_batch(&format!("BEGIN IMMEDIATE; {LEDGER_TABLES} COMMIT"))?;
    db.pragma_update(None, "application_id", APPLICATION_ID)?;
    db.pragma_update(None, "user_version", FORMAT)?;
    Ok(())
}

/// Refuses files of other formats, and files whose tables are not what they were created as: a changed
/// definition would change what every row means.
pub(super) fn check(db: &Connection, archive: &str) -> Result<(), Fault> {
    let found: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if found != FORMAT {
        let archive = archive.to_owned();
        return Err(ArchiveError::OtherFormat { archive, found, known: FORMAT }.into());
    }
    let mut select = db.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")?;
    let found: Vec<String> =
        select.query_map([], |row| row.get(0))?.collect::<Result<_, rusqlite::Error>>()?;
    let mut wanted =
        LEDGER_TABLES.split(';').map(str::trim).filter(|sql| sql.starts_with("CREATE"));
    if wanted.all(|statement| found.iter().any(|sql| sql == statement)) {
        return Ok(());
    }
    Err(Fault::Sqlite(rusqlite::Error::SqliteFailure(
        rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT),
        Some("a table is not defined as it was created".to_owned()),
    )))
}
