//! What the index is made from: less than an entry has, since most entries are read for it.

use rusqlite::{Connection, OptionalExtension as _, Row};
use rustc_hash::FxHashMap;

use super::fault::Fault;
use super::index;
use super::seal::Seal;
use crate::{Owner, excerpt};

/// Selects what [`IndexableEntry::read`] reads.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT entry.id, entry.session, entry.seal, entry.hash, entry.excerpt, \
             coalesce(entry.raw, (SELECT holder.raw FROM entry AS holder WHERE holder.id = entry.body)), \
             entry.at_ms, entry.form FROM entry WHERE ",
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
    pub(super) at_ms: i64,
    /// The terms of the roles that it may have.
    roles: Vec<Vec<u8>>,
}

impl IndexableEntry {
    pub(super) fn read(row: &Row<'_>) -> Result<Self, rusqlite::Error> {
        let excerpt = row.get_ref(4)?.as_blob().ok();
        let raw = row.get_ref(5)?.as_str().ok();
        let form = row.get_ref(7)?.as_str().ok();
        let roles = form.zip(raw).map(|(form, raw)| index::role_marks(form, raw).collect());
        Ok(Self {
            id: row.get(0)?,
            session: row.get(1)?,
            seal: row.get(2).ok(),
            hash: row.get(3).ok(),
            text: excerpt.zip(raw).and_then(|(excerpt, raw)| excerpt::decode(excerpt, raw)),
            at_ms: row.get(6).unwrap_or(0),
            roles: roles.unwrap_or_default(),
        })
    }
}

/// The marks of sessions, cached.
pub(super) struct Marks<'d> {
    db: &'d Connection,
    known: FxHashMap<i64, [Vec<u8>; 2]>,
}

impl<'d> Marks<'d> {
    pub(super) fn new(db: &'d Connection) -> Self {
        Self { db, known: FxHashMap::default() }
    }

    /// The terms that say where an entry belongs.
    pub(super) fn of(&mut self, entry: &IndexableEntry) -> Result<Vec<Vec<u8>>, Fault> {
        let mut marks = self.of_session(entry.session)?.to_vec();
        marks.extend_from_slice(&entry.roles);
        Ok(marks)
    }

    fn of_session(&mut self, session: i64) -> Result<[Vec<u8>; 2], Fault> {
        if let Some(marks) = self.known.get(&session) {
            return Ok(marks.clone());
        }
        let owner = owner(self.db, session)?;
        let marks = [index::session_mark(session), index::owner_mark(owner)];
        self.known.insert(session, marks.clone());
        Ok(marks)
    }
}

/// The owner of a session; the default owner if the row is illegible.
fn owner(db: &Connection, session: i64) -> Result<Owner, Fault> {
    let mut select = db.prepare_cached("SELECT owner FROM session WHERE id = ?1")?;
    let owner: Option<Option<[u8; 16]>> =
        select.query_row([session], |row| Ok(row.get(0).ok())).optional()?;
    Ok(owner.flatten().map(Owner::from_bytes).unwrap_or_default())
}
