//! Named values that all sessions share.

use rusqlite::{Connection, OptionalExtension as _};

use super::fault::Fault;

/// Finds a value.
pub(super) fn find(db: &Connection, name: &str) -> Result<Option<String>, Fault> {
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
    if !expected(find(db, name)?) {
        return Ok(false);
    }
    db.prepare_cached("INSERT OR REPLACE INTO value VALUES (?1, ?2)")?.execute((name, value))?;
    Ok(true)
}
