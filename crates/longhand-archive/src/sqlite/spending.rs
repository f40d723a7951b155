//! Money reserved and spent by calls of models.

use rusqlite::Connection;

use super::fault::Fault;
use crate::{Reserved, Wish};

/// Made when it is first needed: a file without it is whole.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS spending (id INTEGER PRIMARY KEY AUTOINCREMENT, \
    at_ms INTEGER NOT NULL, micros INTEGER NOT NULL) STRICT";

/// See [`crate::Archive::reserve`].
pub(super) fn reserve(db: &Connection, wish: &Wish) -> Result<Reserved, Fault> {
    db.execute(TABLE, [])?;
    db.prepare_cached("UPDATE spending SET at_ms = ?1 WHERE at_ms > ?1")?.execute([wish.at_ms])?;
    db.prepare_cached("DELETE FROM spending WHERE at_ms <= ?1")?.execute([wish.since_ms()])?;
    let mut select = db.prepare_cached("SELECT at_ms, micros FROM spending ORDER BY at_ms, id")?;
    let row = |row: &rusqlite::Row| Ok((row.get(0)?, row.get::<_, i64>(1)?));
    let rows = select.query_map([], row)?;
    let spent = rows.map(|row| row.map(|(at_ms, micros)| (at_ms, unsigned(micros))));
    let spent = spent.collect::<Result<Vec<(i64, u64)>, _>>()?;
    if let Err(until_ms) = wish.fits(&spent) {
        return Ok(Reserved::Full { until_ms });
    }
    db.prepare_cached("INSERT INTO spending (at_ms, micros) VALUES (?1, ?2)")?
        .execute((wish.at_ms, signed(wish.micros)))?;
    Ok(Reserved::Granted(unsigned(db.last_insert_rowid())))
}

/// No call costs more than SQLite can count.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// See [`crate::Archive::settle`].
pub(super) fn settle(db: &Connection, reservation: u64, micros: u64) -> Result<(), Fault> {
    db.execute(TABLE, [])?;
    db.prepare_cached("UPDATE spending SET micros = ?2 WHERE id = ?1")?
        .execute((signed(reservation), signed(micros)))?;
    Ok(())
}
