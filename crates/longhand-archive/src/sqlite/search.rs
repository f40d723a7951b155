//! Finding entries by their text.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use longhand_core::Seq;
use longhand_recall::{Query, Strictness, readable, snippet};
use rusqlite::{Connection, OptionalExtension as _, Row};

use super::SqliteFile;
use super::entry::{self, StoredEntry};
use super::fault::Fault;
use super::index::{self, Blocks, Conditions, Finding};
use super::session::{self, StoredSession};
use crate::{
    ArchiveError, Candidate, Candidates, Cursor, Damage, Hit, Owner, SearchFilter, SearchQuery,
    SearchScope, SearchStatistics,
};

/// How many entries are read at a time; between pages the log can be emptied.
const PAGE: i64 = 256;
/// How many entries are compared in vain before a search says that it did not look at all: those that are not in the
/// index yet, and those of which it cannot say whether they have what is looked for.
pub(super) const VAIN_MAX: usize = 4_096;

/// See [`crate::Storage::candidates`].
///
/// Damaged entries are skipped; the first one is reported.
pub(super) fn search(
    archive: &SqliteFile,
    wanted: &SearchQuery,
) -> Result<Candidates, ArchiveError> {
    let Some(query) = Query::parse(&wanted.query) else { return Ok(Candidates::default()) };
    let Some(reach) = archive.read(|db| Reach::of(db, &wanted.within))? else {
        return Ok(Candidates::default());
    };
    let mut search = Search {
        archive,
        reach,
        query,
        strictness: wanted.strictness,
        filter: wanted.filter,
        limit: wanted.limit,
        hits: Vec::new(),
        known: HashMap::new(),
        damage: None,
        last: 0,
        vain: 0,
    };
    let (newest, indexed) = archive.read(|db| Ok((index::newest(db)?, index::indexed(db)?)))?;
    let end = wanted.after.map_or(newest, |after| after.major.cast_signed() - 1);
    search.scan(indexed, end)?;
    let mut is_partial = search.vain >= VAIN_MAX;
    let indexed = indexed.min(end);
    let mut statistics = SearchStatistics::default();
    if !search.is_full() && indexed > 0 {
        search.vain = 0;
        let before = search.hits.len();
        if let Ok(counted) = archive.read(|db| search.look_up(db, indexed)) {
            statistics = counted;
        } else {
            // A damaged index is made anew; until then, the entries themselves are searched.
            search.hits.truncate(before);
            archive.reindex_later();
            search.scan(0, indexed)?;
        }
        is_partial |= search.vain >= VAIN_MAX;
    }
    let next = search.is_full().then(|| Cursor::number(search.last.cast_unsigned()));
    Ok(Candidates { hits: search.hits, statistics, is_partial, next, damage: search.damage })
}

/// A search scope with its sessions looked up.
pub(super) enum Reach {
    All,
    Owner(Owner),
    Sessions(Vec<StoredSession>),
}

/// Tells one reach from another.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReachKey {
    All,
    Owner(Owner),
    Sessions(Vec<i64>),
}

impl Reach {
    pub(super) fn key(&self) -> ReachKey {
        match self {
            Reach::All => ReachKey::All,
            Reach::Owner(owner) => ReachKey::Owner(*owner),
            Reach::Sessions(sessions) => {
                ReachKey::Sessions(sessions.iter().map(|session| session.row).collect())
            }
        }
    }

    /// `None` if there is no such session.
    pub(super) fn of(db: &Connection, within: &SearchScope) -> Result<Option<Self>, Fault> {
        Ok(Some(match within {
            SearchScope::All => Self::All,
            SearchScope::Owner(owner) => Self::Owner(*owner),
            SearchScope::Sessions(ids) => {
                let mut sessions = Vec::new();
                for id in ids {
                    sessions.extend(session::find(db, *id)?);
                }
                if sessions.is_empty() {
                    return Ok(None);
                }
                Self::Sessions(sessions)
            }
        }))
    }

    /// The session, if there is one only.
    fn session(&self) -> Option<&StoredSession> {
        match self {
            Reach::Sessions(sessions) if sessions.len() == 1 => sessions.first(),
            _ => None,
        }
    }

    /// Whether the entries of a session are searched.
    pub(super) fn contains(&self, of: &StoredSession) -> bool {
        match self {
            Reach::All => true,
            Reach::Owner(owner) => of.owner == *owner,
            Reach::Sessions(sessions) => sessions.iter().any(|session| session.row == of.row),
        }
    }

    /// The marks of the entries that are searched, if they have some.
    pub(super) fn marks(&self) -> Option<Vec<Vec<u8>>> {
        match self {
            Reach::All => None,
            Reach::Owner(owner) => Some(vec![index::owner_mark(*owner)]),
            Reach::Sessions(sessions) => {
                Some(sessions.iter().map(|session| index::session_mark(session.row)).collect())
            }
        }
    }

    /// What the index is asked for besides words, of the entries up to the newest one.
    pub(super) fn conditions(&self, filter: &SearchFilter, newest: i64) -> Conditions {
        let role = filter.role.map(|role| vec![index::role_mark(role)]);
        Conditions {
            marks: self.marks().into_iter().chain(role).collect(),
            is_narrow: matches!(self, Reach::Sessions(_)) || filter.role.is_some(),
            newest,
            since_ms: filter.since_ms,
            before_ms: filter.before_ms,
        }
    }
}

struct Search<'a> {
    archive: &'a SqliteFile,
    reach: Reach,
    query: Query,
    strictness: Strictness,
    filter: SearchFilter,
    limit: usize,
    hits: Vec<Candidate>,
    /// Sessions by row; `None` for those that are removed.
    known: HashMap<i64, Option<StoredSession>>,
    /// The first entry that could not be read.
    damage: Option<Damage>,
    /// The id of the entry that was compared last.
    last: i64,
    /// How many entries were compared in vain.
    vain: usize,
}

/// An entry to be compared with the query.
pub(super) struct Compared {
    pub(super) id: i64,
    pub(super) seq: i64,
    pub(super) session: i64,
    /// `None` if it is not even legible.
    pub(super) stored: Option<StoredEntry>,
}

impl Search<'_> {
    /// Goes through the entries after `low` up to `high`, newest first.
    fn scan(&mut self, low: i64, mut high: i64) -> Result<(), ArchiveError> {
        let archive = self.archive;
        let mut seqs_end = i64::MAX;
        while !self.is_over() && high > low {
            (high, seqs_end) = archive.read(|db| {
                let page = match self.reach.session() {
                    Some(session) => page_of_session(db, session, low, high, seqs_end)?,
                    None => page(db, low, high)?,
                };
                for entry in &page {
                    if !self.is_over() {
                        self.compare(db, entry)?;
                    }
                }
                Ok(page.last().map_or((low, 0), |oldest| (oldest.id - 1, oldest.seq)))
            })?;
        }
        Ok(())
    }

    /// Compares the entries up to `high` that the index names.
    fn look_up(&mut self, db: &Connection, high: i64) -> Result<SearchStatistics, Fault> {
        let segments = index::live(db)?;
        let mut blocks = Blocks::new(db);
        let conditions = self.reach.conditions(&self.filter, high);
        for segment in &segments {
            if self.is_over() {
                break;
            }
            let finding =
                Finding::new(&mut blocks, segment, &self.query, self.strictness, &conditions)?;
            let Some(mut finding) = finding else { continue };
            while !self.is_over()
                && let Some(id) = finding.next(&mut blocks)?
            {
                if let Some(entry) = by_id(db, id)? {
                    self.compare(db, &entry)?;
                }
            }
        }
        let words: Vec<&str> = self.query.words().into_iter().collect();
        let entries_with = index::counts(&mut blocks, &segments, &words)?;
        let (entries, length) = index::totals(&segments);
        let words = words.into_iter().map(str::to_owned).collect();
        Ok(SearchStatistics { words, entries_with, entries, length })
    }

    fn compare(&mut self, db: &Connection, entry: &Compared) -> Result<(), Fault> {
        self.last = entry.id;
        match self.candidate(db, entry) {
            Ok(Some(candidate)) => self.hits.push(candidate),
            Ok(None) => self.vain += 1,
            Err(Fault::Damage(damage)) => {
                self.damage.get_or_insert(damage);
            }
            Err(fault) => return Err(fault),
        }
        Ok(())
    }

    fn candidate(&mut self, db: &Connection, entry: &Compared) -> Result<Option<Candidate>, Fault> {
        let Some(session) = known(&mut self.known, db, entry.session)? else { return Ok(None) };
        let seq = entry.seq.cast_unsigned();
        if !self.reach.contains(session) {
            return Ok(None);
        }
        let damaged = || entry::damaged(session, seq);
        let stored = entry.stored.as_ref().ok_or_else(damaged)?;
        if !stored.is_right(session) {
            return Err(damaged());
        }
        let raw = stored.raw.as_deref().unwrap_or_default();
        if !self.filter.accepts_parts(&stored.form, raw, stored.said_ms()) {
            return Ok(None);
        }
        let text = stored.text().ok_or_else(damaged)?;
        let text = readable(&text);
        let Some(place) = self.query.find(&text, self.strictness) else { return Ok(None) };
        let (frequencies, length) = self.query.frequencies(&text);
        let hit = Hit {
            session: session.id,
            seq: Seq(seq),
            round: stored.node.round,
            snippet: snippet(&text, &place),
        };
        Ok(Some(Candidate { hit, frequencies, length }))
    }

    fn is_full(&self) -> bool {
        self.hits.len() >= self.limit
    }

    /// Whether there is enough, or nothing to be hoped for.
    fn is_over(&self) -> bool {
        self.is_full() || self.vain >= VAIN_MAX
    }
}

pub(super) fn known<'k>(
    known: &'k mut HashMap<i64, Option<StoredSession>>,
    db: &Connection,
    id: i64,
) -> Result<Option<&'k StoredSession>, Fault> {
    Ok(match known.entry(id) {
        Entry::Occupied(found) => found.into_mut(),
        Entry::Vacant(gap) => gap.insert(session::by_row(db, id)?),
    }
    .as_ref())
}

const SELECT_PAGE: &str =
    entry::select!(raw, "entry.id > ?1 AND entry.id <= ?2 ORDER BY entry.id DESC LIMIT ?3");
const SELECT_PAGE_OF_SESSION: &str = entry::select!(
    raw,
    "entry.session = ?1 AND entry.seq < ?2 AND entry.id > ?3 AND entry.id <= ?4 \
     ORDER BY entry.seq DESC LIMIT ?5"
);
const SELECT_BY_ID: &str = entry::select!(raw, "entry.id = ?1");

/// Entries after `low` up to `high`, newest first.
pub(super) fn page(db: &Connection, low: i64, high: i64) -> Result<Vec<Compared>, Fault> {
    let mut select = db.prepare_cached(SELECT_PAGE)?;
    let rows = select.query_map((low, high, PAGE), read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Entries of one session, newest first; selected by their numbers, since their ids lie far apart.
fn page_of_session(
    db: &Connection,
    session: &StoredSession,
    low: i64,
    high: i64,
    seqs_end: i64,
) -> Result<Vec<Compared>, Fault> {
    let mut select = db.prepare_cached(SELECT_PAGE_OF_SESSION)?;
    let rows = select.query_map((session.row, seqs_end, low, high, PAGE), read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn by_id(db: &Connection, id: i64) -> Result<Option<Compared>, Fault> {
    Ok(db.prepare_cached(SELECT_BY_ID)?.query_row([id], read).optional()?)
}

fn read(row: &Row<'_>) -> Result<Compared, rusqlite::Error> {
    let (id, session, seq) = (row.get(0)?, row.get(1)?, row.get(2)?);
    Ok(Compared { id, seq, session, stored: StoredEntry::read(row).ok() })
}
