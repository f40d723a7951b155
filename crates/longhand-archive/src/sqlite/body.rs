//! The bytes of messages, stored once for each owner.
//!
//! The first entry with certain bytes holds them, and later ones refer to it. What the newest entries
//! hold is known to the connection that wrote them; the rest is in the table `content`, which follows
//! along with the search index. A body that is not found there is stored again, which only costs space.

use std::time::Instant;

use rusqlite::{CachedStatement, Connection, OptionalExtension as _};

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
    let mut bodies = Bodies::new(db)?;
    while let Some(row) = rows.next()? {
        // A damaged entry is not worth referring to.
        if let Ok(hash) = row.get(0) {
            bodies.remember(&hash, row.get(1)?)?;
        }
    }
    Ok(())
}

/// The statements that entries need for their bytes, prepared once for many.
pub(super) struct Bodies<'d> {
    db: &'d Connection,
    /// Where an entry may be that holds them: the recent ones, then all others.
    places: [CachedStatement<'d>; 2],
    compare: CachedStatement<'d>,
    remember: CachedStatement<'d>,
}

impl<'d> Bodies<'d> {
    pub(super) fn new(db: &'d Connection) -> Result<Self, Fault> {
        Ok(Self {
            db,
            places: [
                db.prepare_cached("SELECT entry FROM temp.recent WHERE key = ?1")?,
                db.prepare_cached("SELECT entry FROM content WHERE key = ?1")?,
            ],
            compare: db.prepare_cached(
                "SELECT raw = ?3 FROM entry WHERE id = ?1 AND hash = ?2 AND body IS NULL",
            )?,
            remember: db.prepare_cached("INSERT OR REPLACE INTO temp.recent VALUES (?1, ?2)")?,
        })
    }

    /// Finds the entry that holds these bytes.
    ///
    /// One that holds them damaged gets them anew: an entry that is about to be acknowledged must not
    /// refer to what cannot be read.
    pub(super) fn find(&mut self, hash: &Seal, raw: &str) -> Result<Option<i64>, Fault> {
        for place in &mut self.places {
            let entry: Option<i64> = place.query_row([key(hash)], |row| row.get(0)).optional()?;
            let Some(entry) = entry else { continue };
            let is_same: Option<Option<bool>> =
                self.compare.query_row((entry, hash, raw), |row| row.get(0)).optional()?;
            match is_same {
                None => {}
                Some(Some(true)) => return Ok(Some(entry)),
                Some(_) => {
                    self.db
                        .prepare_cached("UPDATE entry SET raw = ?2 WHERE id = ?1")?
                        .execute((entry, raw))?;
                    return Ok(Some(entry));
                }
            }
        }
        Ok(None)
    }

    /// Remembers that an entry that was just written holds bytes.
    pub(super) fn remember(&mut self, hash: &Seal, entry: i64) -> Result<(), Fault> {
        self.remember.execute((key(hash), entry))?;
        Ok(())
    }
}

/// Writes to the table `content` which bytes entries hold.
pub(super) struct Notes<'d>(CachedStatement<'d>);

impl<'d> Notes<'d> {
    pub(super) fn new(db: &'d Connection) -> Result<Self, Fault> {
        Ok(Self(db.prepare_cached("INSERT OR IGNORE INTO content VALUES (?1, ?2)")?))
    }

    pub(super) fn add(&mut self, hash: &Seal, entry: i64) -> Result<(), Fault> {
        self.0.execute((key(hash), entry))?;
        Ok(())
    }
}

/// Forgets the entries up to one, which are in the table `content` by now.
pub(super) fn forget_recent(db: &Connection, entry: i64) -> Result<(), Fault> {
    db.prepare_cached("DELETE FROM temp.recent WHERE entry <= ?1")?.execute([entry])?;
    Ok(())
}

/// How many references to moved bytes are updated at a time.
const HEIRS_AT_A_TIME: i64 = 64;

/// Moves the bytes that an entry holds to one of those that refer to it, and updates the other references. Returns
/// whether that is done: with many references, the next call continues.
pub(super) fn hand_over(db: &Connection, entry: i64, deadline: Instant) -> Result<bool, Fault> {
    let mut select = db.prepare_cached("SELECT hash FROM entry WHERE id = ?1 AND body IS NULL")?;
    let hash: Option<Vec<u8>> = select.query_row([entry], |row| row.get(0)).optional()?;
    let Some(hash) = hash else { return Ok(true) };
    let hash = Seal::try_from(hash).ok();
    let mut select = db.prepare_cached("SELECT 1 FROM entry WHERE body = ?1")?;
    if !select.exists([entry])? {
        return forget(db, hash.as_ref(), entry).map(|()| true);
    }
    let heir = match heir_of_before(db, hash.as_ref(), entry)? {
        Some(heir) => heir,
        None => appoint_heir(db, hash.as_ref(), entry)?,
    };
    let mut tell = db.prepare_cached(
        "UPDATE entry SET body = ?2 WHERE id IN (SELECT id FROM entry WHERE body = ?1 LIMIT ?3)",
    )?;
    while tell.execute((entry, heir, HEIRS_AT_A_TIME))? > 0 {
        if Instant::now() >= deadline {
            return Ok(!select.exists([entry])?);
        }
    }
    Ok(true)
}

/// The entry that an earlier call gave the bytes to.
fn heir_of_before(db: &Connection, hash: Option<&Seal>, entry: i64) -> Result<Option<i64>, Fault> {
    let Some(hash) = hash else { return Ok(None) };
    let mut select = db.prepare_cached(
        "SELECT entry.id FROM content JOIN entry ON entry.id = content.entry \
         WHERE content.key = ?1 AND entry.id <> ?2 AND entry.hash = ?3 AND entry.body IS NULL",
    )?;
    Ok(select.query_row((key(hash), entry, hash), |row| row.get(0)).optional()?)
}

/// Gives the bytes to an entry of a session that stays, if there is one.
fn appoint_heir(db: &Connection, hash: Option<&Seal>, entry: i64) -> Result<i64, Fault> {
    let mut select = db.prepare_cached(
        "SELECT entry.id FROM entry JOIN session ON session.id = entry.session \
         WHERE entry.body = ?1 ORDER BY session.key IS NULL, entry.id LIMIT 1",
    )?;
    let heir = select.query_row([entry], |row| row.get(0))?;
    db.prepare_cached(
        "UPDATE entry SET body = NULL, raw = (SELECT raw FROM entry WHERE id = ?1) WHERE id = ?2",
    )?
    .execute((entry, heir))?;
    forget(db, hash, entry)?;
    hash.map_or(Ok(()), |hash| Notes::new(db)?.add(hash, heir))?;
    Ok(heir)
}

/// Forgets that an entry holds bytes.
fn forget(db: &Connection, hash: Option<&Seal>, entry: i64) -> Result<(), Fault> {
    let Some(hash) = hash else { return Ok(()) };
    for table in [
        "DELETE FROM content WHERE key = ?1 AND entry = ?2",
        "DELETE FROM temp.recent WHERE key = ?1 AND entry = ?2",
    ] {
        db.prepare_cached(table)?.execute((key(hash), entry))?;
    }
    Ok(())
}

/// A part of the hash that makes a good key.
fn key(hash: &Seal) -> i64 {
    let [key, _] = hash.as_chunks().0 else { return 0 };
    i64::from_le_bytes(*key)
}
