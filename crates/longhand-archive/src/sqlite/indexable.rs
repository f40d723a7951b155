//! What the index is made from: less than an entry has, since most entries are read for it.

use std::borrow::Cow;
use std::collections::hash_map::Entry;

use longhand_recall::readable;
use rusqlite::{Connection, OptionalExtension as _, Row};
use rustc_hash::FxHashMap;

use super::fault::Fault;
use super::index;
use super::pack;
use super::seal::Seal;
use crate::{Owner, excerpt};

/// Selects what [`IndexableEntry::read`] reads.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT entry.id, entry.session, entry.seal, entry.hash, entry.excerpt, \
             (SELECT content FROM body WHERE body.id = coalesce(entry.body, entry.id)), \
             coalesce(entry.source_ms, entry.at_ms), entry.form FROM entry WHERE ",
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
    /// When it was said.
    pub(super) said_ms: i64,
    /// The terms of the roles that it may have.
    roles: Vec<Vec<u8>>,
}

impl IndexableEntry {
    pub(super) fn read(row: &Row<'_>) -> Result<Self, rusqlite::Error> {
        let excerpt = row.get_ref(4)?.as_blob().ok();
        let raw = row.get_ref(5)?.as_blob().ok().and_then(pack::unpack_text);
        let form = row.get_ref(7)?.as_str().ok();
        let roles =
            form.zip(raw.as_deref()).map(|(form, raw)| index::role_marks(form, raw).collect());
        Ok(Self {
            id: row.get(0)?,
            session: row.get(1)?,
            seal: row.get(2).ok(),
            hash: row.get(3).ok(),
            text: excerpt.zip(raw).and_then(|(excerpt, raw)| searched(excerpt, &raw)),
            said_ms: row.get(6).unwrap_or(0),
            roles: roles.unwrap_or_default(),
        })
    }
}

fn searched(excerpt: &[u8], raw: &str) -> Option<String> {
    let text = excerpt::decode(excerpt, raw)?;
    Some(match readable(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(readable) => readable,
    })
}

/// What the index needs to know of sessions, cached.
pub(super) struct Marks<'d> {
    db: &'d Connection,
    known: FxHashMap<i64, SessionMarks>,
}

struct SessionMarks {
    marks: [Vec<u8>; 2],
    is_removed: bool,
}

impl<'d> Marks<'d> {
    pub(super) fn new(db: &'d Connection) -> Self {
        Self { db, known: FxHashMap::default() }
    }

    /// The terms that say where an entry belongs.
    pub(super) fn of(&mut self, entry: &IndexableEntry) -> Result<Vec<Vec<u8>>, Fault> {
        let of_session = self.of_session(entry.session)?;
        Ok(of_session.marks.iter().chain(&entry.roles).cloned().collect())
    }

    /// Whether an entry waits to be wiped: it does not get into the index any more.
    pub(super) fn is_removed(&mut self, entry: &IndexableEntry) -> Result<bool, Fault> {
        Ok(self.of_session(entry.session)?.is_removed)
    }

    fn of_session(&mut self, session: i64) -> Result<&SessionMarks, Fault> {
        Ok(match self.known.entry(session) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(gap) => gap.insert(SessionMarks::read(self.db, session)?),
        })
    }
}

impl SessionMarks {
    /// Where the row is illegible, the owner is the default one.
    fn read(db: &Connection, session: i64) -> Result<Self, Fault> {
        let mut select =
            db.prepare_cached("SELECT owner, key IS NULL FROM session WHERE id = ?1")?;
        let read = |row: &Row<'_>| Ok((row.get::<_, [u8; 16]>(0).ok(), row.get(1)?));
        let (owner, is_removed) = select.query_row([session], read).optional()?.unwrap_or_default();
        let owner = owner.map(Owner::from_bytes).unwrap_or_default();
        Ok(Self { marks: [index::session_mark(session), index::owner_mark(owner)], is_removed })
    }
}
