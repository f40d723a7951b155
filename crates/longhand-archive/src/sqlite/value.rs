//! Named values that all sessions share.

use rusqlite::{Connection, OptionalExtension as _};

use super::fault::Fault;

/// The table is made when it is first needed; a file without it is valid.
const TABLE: &str =
    "CREATE TABLE IF NOT EXISTS value (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT";

/// Finds a value.
pub(super) fn find(db: &Connection, name: &str) -> Result<Option<String>, Fault> {
    let sql = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'value'";
    if !db.prepare_cached(sql)?.exists([])? {
        return Ok(None);
    }
    let mut select = db.prepare_cached("SELECT value FROM value WHERE name = ?1")?;
    Ok(select.query_row([name], |row| row.get(0)).optional()?)
}

/// Replaces a value if the present one is as expected; returns whether it was.
pub(super) fn put(
    db: &Connection,
    name: &str,
    expected: &impl Fn(Option<String>) -> bool,
    value: &str,
) -> Result<bool, Fault> {
    db.execute(TABLE, [])?;
    if !expected(find(db, name)?) {
        return Ok(false);
    }
    db.prepare_cached("INSERT OR REPLACE INTO value VALUES (?1, ?2)")?.execute((name, value))?;
    Ok(true)
}
