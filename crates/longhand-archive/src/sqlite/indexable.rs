//! What the index is made from: less than an entry has, since most entries are read for it.

use rusqlite::{Connection, OptionalExtension as _, Row};
use rustc_hash::FxHashMap;

use super::fault::Fault;
use super::index;
use super::pack;
use super::seal::Seal;
use crate::{Owner, excerpt, terms};

/// Selects what [`IndexableEntry::read`] reads.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT entry.id, entry.session, entry.seal, entry.hash, entry.excerpt, \
             (SELECT content FROM body WHERE body.id = coalesce(entry.body, entry.id)) \
             FROM entry WHERE ",
            $rest
        )
    };
}
pub(super) use select;

/// An entry as the index sees it; what is not legible of a damaged one is `None`.
pub(super) struct IndexableEntry {
    pub(super) id: i64,
    /// The row of its session.
    pub(super) session: i64,
    pub(super) seal: Option<Seal>,
    /// The name of its body.
    pub(super) hash: Option<Seal>,
    /// What search sees of it.
    pub(super) text: Option<String>,
}

impl IndexableEntry {
    pub(super) fn read(row: &Row<'_>) -> Result<Self, rusqlite::Error> {
        let excerpt = row.get_ref(4)?.as_blob().ok();
        let raw = row.get_ref(5)?.as_blob().ok().and_then(pack::unpack_text);
        Ok(Self {
            id: row.get(0)?,
            session: row.get(1)?,
            seal: row.get(2).ok(),
            hash: row.get(3).ok(),
            text: excerpt.zip(raw).and_then(|(excerpt, raw)| excerpt::decode(excerpt, &raw)),
        })
    }
}

/// The marks of sessions, cached.
pub(super) struct Marks<'d> {
    db: &'d Connection,
    known: FxHashMap<i64, String>,
}

impl<'d> Marks<'d> {
    pub(super) fn new(db: &'d Connection) -> Self {
        Self { db, known: FxHashMap::default() }
    }

    /// The terms and marks that the index has of an entry.
    pub(super) fn terms(&mut self, session: i64, text: &str) -> Result<String, Fault> {
        if let Some(marks) = self.known.get(&session) {
            return Ok(terms::terms(marks, text));
        }
        let marks = index::marks(session, owner(self.db, session)?);
        let terms = terms::terms(&marks, text);
        self.known.insert(session, marks);
        Ok(terms)
    }
}

/// The owner of a session; the default owner if the row is illegible.
fn owner(db: &Connection, session: i64) -> Result<Owner, Fault> {
    let mut select = db.prepare_cached("SELECT owner FROM session WHERE id = ?1")?;
    let owner: Option<Option<[u8; 16]>> =
        select.query_row([session], |row| Ok(row.get(0).ok())).optional()?;
    Ok(owner.flatten().map(Owner::from_bytes).unwrap_or_default())
}
