//! Where a search looks: slices, and the entries that wait.

use std::collections::BTreeMap;

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use super::Value;
use super::slice::{self, Doc, Posting, owner_mark, session_mark};
use crate::postgres::entry::{self, StoredEntry};
use crate::postgres::fault::Fault;
use crate::postgres::log::of_numbers;
use crate::postgres::session::{self, StoredSession};
use crate::storage::{SearchFilter, SearchScope};
use crate::{ArchiveError, Damage, DamagedPart, EntryRecord, Owner, SessionId};

/// How many entries that are not in the index yet are read, and how many are compared in vain, before a search says that
/// it did not look at all.
pub(super) const VAIN_MAX: usize = 4_096;

/// A search scope with its sessions looked up.
pub(super) enum Reach {
    All,
    Owner(Owner),
    Sessions(Vec<i64>),
}

impl Reach {
    /// `None` if there is no such session.
    pub(super) async fn of(db: &Client, within: &SearchScope) -> Result<Option<Self>, Fault> {
        let ids = match within {
            SearchScope::All => return Ok(Some(Self::All)),
            SearchScope::Owner(owner) => return Ok(Some(Self::Owner(*owner))),
            SearchScope::Sessions(ids) => ids,
        };
        let ids: Vec<Vec<u8>> = ids.iter().map(|id| id.to_bytes().to_vec()).collect();
        let sql = session::select!("WHERE id = ANY($1)");
        let rows = db.query_typed(sql, &[(&ids, Type::BYTEA_ARRAY)]).await?;
        let mut numbers = Vec::new();
        for row in &rows {
            numbers.push(StoredSession::read(row).checked()?.number);
        }
        Ok((!numbers.is_empty()).then_some(Self::Sessions(numbers)))
    }

    pub(super) fn contains(&self, session: i64, owner: Owner) -> bool {
        match self {
            Self::All => true,
            Self::Owner(wanted) => owner == *wanted,
            Self::Sessions(sessions) => sessions.contains(&session),
        }
    }

    /// Whether an entry of a slice is wanted.
    pub(super) fn takes(&self, doc: &Doc, filter: &SearchFilter) -> bool {
        self.contains(doc.session, doc.owner)
            && filter.role.is_none_or(|role| doc.may_have(role))
            && filter.since_ms.is_none_or(|since| doc.said_ms >= since)
            && filter.before_ms.is_none_or(|before| doc.said_ms < before)
    }

    /// Whether few entries are wanted, as a rule.
    pub(super) fn is_narrow(&self, filter: &SearchFilter) -> bool {
        matches!(self, Self::Sessions(_)) || filter.role.is_some()
    }

    fn marks(&self) -> Option<Vec<Vec<u8>>> {
        match self {
            Self::All => None,
            Self::Owner(owner) => Some(vec![owner_mark(*owner)]),
            Self::Sessions(sessions) => Some(sessions.iter().copied().map(session_mark).collect()),
        }
    }

    /// The slices that have something within reach, those with the newest entries first.
    pub(super) async fn slices(
        &self,
        db: &Client,
        filter: &SearchFilter,
    ) -> Result<Vec<Slice>, Fault> {
        let since = filter.since_ms.unwrap_or(i64::MIN);
        let before = filter.before_ms.unwrap_or(i64::MAX);
        let times: [Value<'_>; 2] = [(&since, Type::INT8), (&before, Type::INT8)];
        let rows = match self.marks() {
            None => {
                let sql = "SELECT id, last, entries FROM longhand.slice \
                           WHERE newest_ms >= $1 AND oldest_ms <= $2 ORDER BY last DESC";
                db.query_typed(sql, &times).await?
            }
            Some(marks) => {
                let sql = "SELECT id, last, entries FROM longhand.slice \
                           WHERE newest_ms >= $1 AND oldest_ms <= $2 \
                           AND id IN (SELECT slice FROM longhand.posting WHERE term = ANY($3)) ORDER BY last DESC";
                let [one, two] = times;
                db.query_typed(sql, &[one, two, (&marks, Type::BYTEA_ARRAY)]).await?
            }
        };
        let read = |row: &Row| Slice { id: row.get(0), last: row.get(1), entries: row.get(2) };
        Ok(rows.iter().map(read).collect())
    }
}

/// A slice of the index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slice {
    pub(super) id: i64,
    /// Its newest entry.
    pub(super) last: i64,
    pub(super) entries: i64,
}

/// A slice with what it has of some terms.
#[derive(Debug, Default)]
pub(super) struct ReadSlice {
    pub(super) docs: Vec<Doc>,
    pub(super) terms: BTreeMap<String, Vec<Posting>>,
}

/// An index that makes no sense; it can be made anew.
pub(super) fn damaged() -> Fault {
    let detail = "is not legible".to_owned();
    let damage = Damage { session: None, part: DamagedPart::Index, detail };
    let archive = "the archive".to_owned();
    ArchiveError::Damaged { archive, damage: Box::new(damage) }.into()
}

/// Reads slices with what they have of terms, by their ids.
pub(super) async fn read(
    db: &Client,
    slices: &[i64],
    terms: &[&str],
) -> Result<BTreeMap<i64, ReadSlice>, Fault> {
    let mut found: BTreeMap<i64, ReadSlice> = BTreeMap::new();
    if slices.is_empty() {
        return Ok(found);
    }
    let sql = "SELECT id, docs FROM longhand.slice WHERE id = ANY($1)";
    for row in db.query_typed(sql, &[(&slices, Type::INT8_ARRAY)]).await? {
        let docs = slice::docs(row.get(1)).ok_or_else(damaged)?;
        found.insert(row.get(0), ReadSlice { docs, terms: BTreeMap::new() });
    }
    let terms: Vec<&[u8]> = terms.iter().map(|term| term.as_bytes()).collect();
    let sql =
        "SELECT slice, term, data FROM longhand.posting WHERE term = ANY($1) AND slice = ANY($2)";
    let values: [Value<'_>; 2] = [(&terms, Type::BYTEA_ARRAY), (&slices, Type::INT8_ARRAY)];
    for row in db.query_typed(sql, &values).await? {
        let Some(slice) = found.get_mut(&row.get(0)) else { continue };
        let postings = slice::postings(row.get(2)).ok_or_else(damaged)?;
        if postings.iter().any(|posting| posting.doc >= slice.docs.len()) {
            return Err(damaged());
        }
        slice.terms.insert(session::text(row.get(1)), postings);
    }
    Ok(found)
}

/// The newest entries within reach that wait for the index.
#[derive(Debug, Default)]
pub(super) struct Tail {
    /// With their ids, the oldest first.
    pub(super) entries: Vec<(i64, SessionId, EntryRecord)>,
    pub(super) is_partial: bool,
    /// An entry that could not be read.
    pub(super) damage: Option<Damage>,
}

impl Tail {
    pub(super) async fn read(db: &Client, reach: &Reach) -> Result<Self, Fault> {
        let limit = session::number(VAIN_MAX as u64 + 1);
        let rows = match reach {
            Reach::All => {
                let sql = entry::select!(
                    "JOIN longhand.pending p ON p.entry = e.id ORDER BY p.entry DESC LIMIT $1"
                );
                db.query_typed(sql, &[(&limit, Type::INT8)]).await?
            }
            Reach::Owner(owner) => {
                let sql = entry::select!(
                    "JOIN longhand.pending p ON p.entry = e.id JOIN longhand.session s ON s.number = e.session \
                     WHERE s.owner = $2 ORDER BY p.entry DESC LIMIT $1"
                );
                let values: [Value<'_>; 2] =
                    [(&limit, Type::INT8), (&&owner.to_bytes()[..], Type::BYTEA)];
                db.query_typed(sql, &values).await?
            }
            Reach::Sessions(sessions) => {
                let sql = entry::select!(
                    "JOIN longhand.pending p ON p.entry = e.id WHERE e.session = ANY($2) \
                     ORDER BY p.entry DESC LIMIT $1"
                );
                let values: [Value<'_>; 2] = [(&limit, Type::INT8), (sessions, Type::INT8_ARRAY)];
                db.query_typed(sql, &values).await?
            }
        };
        let is_partial = rows.len() > VAIN_MAX;
        let newest_first: Vec<StoredEntry> =
            rows.iter().take(VAIN_MAX).map(StoredEntry::read).collect();
        let ReadEntries { mut entries, damage } = checked(db, newest_first).await?;
        entries.reverse();
        Ok(Self { entries, is_partial, damage })
    }
}

/// Entries that were read, with the first one that could not be.
#[derive(Debug, Default)]
pub(super) struct ReadEntries {
    pub(super) entries: Vec<(i64, SessionId, EntryRecord)>,
    pub(super) damage: Option<Damage>,
}

/// Reads entries by their ids, in no order.
pub(super) async fn by_ids(db: &Client, ids: &[i64]) -> Result<ReadEntries, Fault> {
    if ids.is_empty() {
        return Ok(ReadEntries::default());
    }
    let sql = entry::select!("WHERE e.id = ANY($1)");
    let rows = db.query_typed(sql, &[(&ids, Type::INT8_ARRAY)]).await?;
    checked(db, rows.iter().map(StoredEntry::read).collect()).await
}

async fn checked(db: &Client, stored: Vec<StoredEntry>) -> Result<ReadEntries, Fault> {
    let mut numbers: Vec<i64> = stored.iter().map(|entry| entry.session).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let sessions = of_numbers(db, &numbers).await?;
    let mut read = ReadEntries::default();
    for entry in stored {
        let session = sessions.iter().find(|session| session.number == entry.session);
        let Some(session) = session else { continue };
        let id = entry.id;
        let outcome = session.clone().checked().and_then(|session| entry.checked(&session));
        match outcome {
            Ok(record) => read.entries.push((id, session.id(), record)),
            Err(Fault::Damage(damage)) => _ = read.damage.get_or_insert(damage),
            Err(fault) => return Err(fault),
        }
    }
    Ok(read)
}
