//! The bytes of messages, stored once for each owner.
//!
//! The first entry with certain bytes brings a row for them, which has the id of the entry, and later entries refer to
//! it. The row stays as long as any of them does. What the newest entries brought is known to the connection that wrote
//! them; the rest is in the table `content`, which follows along with the search index. A body that is not found there is
//! stored again, which only costs space.

use rusqlite::{CachedStatement, Connection, OptionalExtension as _};

use super::fault::Fault;
use super::pack;
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
    /// Which body may have them: the recent ones, then all others.
    places: [CachedStatement<'d>; 2],
    read: CachedStatement<'d>,
    insert: CachedStatement<'d>,
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
            read: db.prepare_cached("SELECT content FROM body WHERE id = ?1")?,
            insert: db.prepare_cached("INSERT INTO body (id, content) VALUES (?1, ?2)")?,
            remember: db.prepare_cached("INSERT OR REPLACE INTO temp.recent VALUES (?1, ?2)")?,
        })
    }

    /// Finds the body that has these bytes, of which `packed` is how they would be stored.
    ///
    /// One that has them damaged gets them anew: an entry that is about to be acknowledged must not
    /// refer to what cannot be read.
    pub(super) fn find(
        &mut self,
        hash: &Seal,
        raw: &str,
        packed: &[u8],
    ) -> Result<Option<i64>, Fault> {
        for place in &mut self.places {
            let body: Option<i64> = place.query_row([key(hash)], |row| row.get(0)).optional()?;
            let Some(body) = body else { continue };
            let is_same = |row: &rusqlite::Row<'_>| {
                let stored = row.get_ref(0)?.as_blob().unwrap_or_default();
                let is_same = || pack::unpack(stored).is_some_and(|plain| plain == raw.as_bytes());
                Ok(stored == packed || is_same())
            };
            match self.read.query_row([body], is_same).optional()? {
                Some(true) => return Ok(Some(body)),
                Some(false) if is_named(self.db, body, hash)? => {
                    self.db
                        .prepare_cached("UPDATE body SET content = ?2 WHERE id = ?1")?
                        .execute((body, packed))?;
                    return Ok(Some(body));
                }
                // It is gone, or other bytes have an equal key.
                None | Some(false) => {}
            }
        }
        Ok(None)
    }

    /// Stores the bytes that an entry brings.
    pub(super) fn add(&mut self, hash: &Seal, entry: i64, packed: &[u8]) -> Result<(), Fault> {
        self.insert.execute((entry, packed))?;
        self.remember(hash, entry)
    }

    /// Stores the bytes that an entry brought to another file, unless they are there.
    pub(super) fn restore(&mut self, body: i64, packed: &[u8]) -> Result<(), Fault> {
        let insert = "INSERT OR IGNORE INTO body (id, content) VALUES (?1, ?2)";
        self.db.prepare_cached(insert)?.execute((body, packed))?;
        Ok(())
    }

    fn remember(&mut self, hash: &Seal, entry: i64) -> Result<(), Fault> {
        self.remember.execute((key(hash), entry))?;
        Ok(())
    }
}

/// Whether an entry that has this body says that its bytes have this hash.
fn is_named(db: &Connection, body: i64, hash: &Seal) -> Result<bool, Fault> {
    let mut select = db.prepare_cached(
        "SELECT 1 FROM entry WHERE id = ?1 AND body IS NULL AND hash = ?2 \
         UNION ALL SELECT 1 FROM entry WHERE body = ?1 AND hash = ?2",
    )?;
    Ok(select.exists((body, hash))?)
}

/// Writes to the table `content` which bytes entries brought.
pub(super) struct Notes<'d> {
    select: CachedStatement<'d>,
    insert: CachedStatement<'d>,
}

impl<'d> Notes<'d> {
    pub(super) fn new(db: &'d Connection) -> Result<Self, Fault> {
        // One statement for both would make the search index write what it has gathered after every entry.
        Ok(Self {
            select: db.prepare_cached("SELECT 1 FROM body WHERE id = ?1")?,
            insert: db.prepare_cached("INSERT OR IGNORE INTO content VALUES (?1, ?2)")?,
        })
    }

    pub(super) fn add(&mut self, hash: &Seal, entry: i64) -> Result<(), Fault> {
        if self.select.exists([entry])? {
            self.insert.execute((key(hash), entry))?;
        }
        Ok(())
    }
}

/// Forgets the entries up to one, which are in the table `content` by now.
pub(super) fn forget_recent(db: &Connection, entry: i64) -> Result<(), Fault> {
    db.prepare_cached("DELETE FROM temp.recent WHERE entry <= ?1")?.execute([entry])?;
    Ok(())
}

/// Wipes the bytes that an entry had, which is gone, unless another entry has them, too.
pub(super) fn release(db: &Connection, body: i64, hash: Option<&Seal>) -> Result<(), Fault> {
    let mut select = db.prepare_cached(
        "SELECT 1 FROM entry WHERE id = ?1 AND body IS NULL UNION ALL SELECT 1 FROM entry WHERE body = ?1",
    )?;
    if select.exists([body])? {
        return Ok(());
    }
    db.prepare_cached("DELETE FROM body WHERE id = ?1")?.execute([body])?;
    let Some(hash) = hash else { return Ok(()) };
    for table in [
        "DELETE FROM content WHERE key = ?1 AND entry = ?2",
        "DELETE FROM temp.recent WHERE key = ?1 AND entry = ?2",
    ] {
        db.prepare_cached(table)?.execute((key(hash), body))?;
    }
    Ok(())
}

/// A part of the hash that makes a good key.
fn key(hash: &Seal) -> i64 {
    let [key, _] = hash.as_chunks().0 else { return 0 };
    i64::from_le_bytes(*key)
}
