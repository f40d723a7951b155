//! The bytes of messages, stored once for each owner.
//!
//! The first entry with certain bytes holds them, and later ones refer to it. What the newest entries
//! hold is known to the connection that wrote them; the rest is in the table `content`, which follows
//! along with the search index. To miss one only costs space.

use rusqlite::{Connection, OptionalExtension as _};

use super::fault::Fault;
use super::seal::{Seal, Sealer};
use crate::Owner;

/// How many entries are looked at when an archive is opened.
const RECENT_MAX: i64 = 4_096;

/// The hash of a message's bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawHash([u8; 32]);

impl RawHash {
    pub(super) fn of(raw: &str) -> Self {
        Self(*blake3::hash(raw.as_bytes()).as_bytes())
    }

    /// The name of the body: equal bytes of two owners are two bodies.
    pub(super) fn for_owner(self, owner: Owner) -> Seal {
        Sealer::new("body").bytes(&owner.to_bytes()).bytes(&self.0).seal()
    }
}

/// Lets a connection remember what it writes, and what was written since the index was extended.
pub(super) fn prepare(db: &Connection) -> Result<(), Fault> {
    db.execute_batch(
        "PRAGMA temp_store = MEMORY; \
         CREATE TEMP TABLE recent (key INTEGER PRIMARY KEY, entry INTEGER NOT NULL) STRICT;",
    )?;
    let mut select = db.prepare(
        "SELECT hash, id FROM entry WHERE id > (SELECT indexed FROM state) AND body IS NULL \
         ORDER BY id LIMIT ?1",
    )?;
    let mut rows = select.query([RECENT_MAX])?;
    while let Some(row) = rows.next()? {
        // A damaged entry is not worth referring to.
        if let Ok(hash) = row.get(0) {
            remember(db, &hash, row.get(1)?)?;
        }
    }
    Ok(())
}

/// Finds the entry that holds these bytes.
///
/// One that holds them damaged gets them anew: an entry that is about to be acknowledged must not refer
/// to what cannot be read.
pub(super) fn find(db: &Connection, hash: &Seal, raw: &str) -> Result<Option<i64>, Fault> {
    for table in
        ["SELECT entry FROM temp.recent WHERE key = ?1", "SELECT entry FROM content WHERE key = ?1"]
    {
        let mut select = db.prepare_cached(table)?;
        let entry: Option<i64> = select.query_row([key(hash)], |row| row.get(0)).optional()?;
        let Some(entry) = entry else { continue };
        let mut select = db.prepare_cached(
            "SELECT raw = ?3 FROM entry WHERE id = ?1 AND hash = ?2 AND body IS NULL",
        )?;
        let is_same: Option<Option<bool>> =
            select.query_row((entry, hash, raw), |row| row.get(0)).optional()?;
        match is_same {
            None => {}
            Some(Some(true)) => return Ok(Some(entry)),
            Some(_) => {
                db.prepare_cached("UPDATE entry SET raw = ?2 WHERE id = ?1")?
                    .execute((entry, raw))?;
                return Ok(Some(entry));
            }
        }
    }
    Ok(None)
}

/// Remembers that an entry that was just written holds bytes.
pub(super) fn remember(db: &Connection, hash: &Seal, entry: i64) -> Result<(), Fault> {
    db.prepare_cached("INSERT OR REPLACE INTO temp.recent VALUES (?1, ?2)")?
        .execute((key(hash), entry))?;
    Ok(())
}

/// Notes for good what entries hold.
pub(super) fn index(db: &Connection, hash: &Seal, entry: i64) -> Result<(), Fault> {
    db.prepare_cached("INSERT OR IGNORE INTO content VALUES (?1, ?2)")?
        .execute((key(hash), entry))?;
    Ok(())
}

/// Forgets the entries up to one, which are noted for good.
pub(super) fn forget_recent(db: &Connection, entry: i64) -> Result<(), Fault> {
    db.prepare_cached("DELETE FROM temp.recent WHERE entry <= ?1")?.execute([entry])?;
    Ok(())
}

/// Moves the bytes that an entry holds to another that refers to it, if there is one.
pub(super) fn hand_over(db: &Connection, entry: i64) -> Result<(), Fault> {
    let mut select = db.prepare_cached("SELECT hash FROM entry WHERE id = ?1 AND body IS NULL")?;
    let hash: Option<Vec<u8>> = select.query_row([entry], |row| row.get(0)).optional()?;
    let Some(hash) = hash else { return Ok(()) };
    let mut select = db.prepare_cached("SELECT min(id) FROM entry WHERE body = ?1")?;
    let heir: Option<i64> = select.query_row([entry], |row| row.get(0))?;
    if let Some(heir) = heir {
        db.prepare_cached(
            "UPDATE entry SET body = NULL, raw = (SELECT raw FROM entry WHERE id = ?1) \
             WHERE id = ?2",
        )?
        .execute((entry, heir))?;
        db.prepare_cached("UPDATE entry SET body = ?2 WHERE body = ?1")?.execute((entry, heir))?;
    }
    let Ok(hash) = Seal::try_from(hash) else { return Ok(()) };
    for table in [
        "DELETE FROM content WHERE key = ?1 AND entry = ?2",
        "DELETE FROM temp.recent WHERE key = ?1 AND entry = ?2",
    ] {
        db.prepare_cached(table)?.execute((key(&hash), entry))?;
    }
    heir.map_or(Ok(()), |heir| index(db, &hash, heir))
}

/// A part of the hash that makes a good key.
fn key(hash: &Seal) -> i64 {
    let [key, _] = hash.as_chunks().0 else { return 0 };
    i64::from_le_bytes(*key)
}
