//! Finding entries by their text.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use longhand_core::Seq;
use rusqlite::{Connection, OptionalExtension as _, Row};

use super::entry::{self, StoredEntry};
use super::fault::Fault;
use super::session::{self, StoredSession};
use super::{SqliteFile, index};
use crate::query::{Query, Strictness, snippet};
use crate::terms::term;
use crate::{ArchiveError, Candidates, Cursor, Damage, Hit, Owner, SearchQuery, SearchScope};

/// How many entries are read at a time; between pages the log can be emptied.
const PAGE: i64 = 256;
/// How many words of a query are looked up; the rest is compared in the entries found.
const TERMS_MAX: usize = 32;

/// See [`crate::Storage::candidates`].
///
/// Damaged entries are skipped; the first one is reported.
pub(super) fn search(
    archive: &SqliteFile,
    wanted: &SearchQuery,
) -> Result<Candidates, ArchiveError> {
    let Some(query) = Query::parse(&wanted.query) else { return Ok(Candidates::default()) };
    let reach = match wanted.within {
        SearchScope::All => Reach::All,
        SearchScope::Owner(owner) => Reach::Owner(owner),
        SearchScope::Session(id) => match archive.read(|db| session::find(db, id))? {
            Some(session) => Reach::Session(Box::new(session)),
            None => return Ok(Candidates::default()),
        },
    };
    let mut search = Search {
        archive,
        reach,
        query,
        limit: wanted.limit,
        hits: Vec::new(),
        known: HashMap::new(),
        damage: None,
        last: 0,
    };
    let (newest, indexed) = archive.read(|db| Ok((index::newest(db)?, index::indexed(db)?)))?;
    let end = wanted.after.map_or(newest, |after| after.major.cast_signed() - 1);
    search.scan(indexed, end, wanted.strictness)?;
    let indexed = indexed.min(end);
    if !search.look_up(indexed, wanted.strictness)? {
        search.scan(0, indexed, wanted.strictness)?;
    }
    let next = search.is_full().then(|| Cursor::number(search.last.cast_unsigned()));
    Ok(Candidates { hits: search.hits, next, damage: search.damage })
}

/// A search scope with its session looked up.
enum Reach {
    All,
    Owner(Owner),
    Session(Box<StoredSession>),
}

impl Reach {
    fn session(&self) -> Option<&StoredSession> {
        match self {
            Reach::All | Reach::Owner(_) => None,
            Reach::Session(session) => Some(session),
        }
    }

    /// Whether the entries of a session are searched.
    fn contains(&self, of: &StoredSession) -> bool {
        match self {
            Reach::All => true,
            Reach::Owner(owner) => of.owner == *owner,
            Reach::Session(session) => of.row == session.row,
        }
    }
}

struct Search<'a> {
    archive: &'a SqliteFile,
    reach: Reach,
    query: Query,
    limit: usize,
    hits: Vec<Hit>,
    /// Sessions by row; `None` for those that are removed.
    known: HashMap<i64, Option<StoredSession>>,
    /// The first entry that could not be read.
    damage: Option<Damage>,
    /// The id of the entry that was compared last.
    last: i64,
}

/// An entry to be compared with the query.
struct Candidate {
    id: i64,
    seq: i64,
    session: i64,
    /// `None` if it is not even legible.
    stored: Option<StoredEntry>,
}

impl Search<'_> {
    /// Goes through the entries after `low` up to `high`, newest first.
    fn scan(
        &mut self,
        low: i64,
        mut high: i64,
        strictness: Strictness,
    ) -> Result<(), ArchiveError> {
        let archive = self.archive;
        let mut seqs_end = i64::MAX;
        while !self.is_full() && high > low {
            (high, seqs_end) = archive.read(|db| {
                let page = match self.reach.session() {
                    Some(session) => page_of_session(db, session, low, high, seqs_end)?,
                    None => page(db, low, high)?,
                };
                self.compare(db, &page, strictness)?;
                Ok(page.last().map_or((low, 0), |oldest| (oldest.id - 1, oldest.seq)))
            })?;
        }
        Ok(())
    }

    /// Compares the entries up to `high` that the index names; returns `false` if the index cannot answer.
    fn look_up(&mut self, mut high: i64, strictness: Strictness) -> Result<bool, ArchiveError> {
        let archive = self.archive;
        let hits_before = self.hits.len();
        let pattern = match archive.read(|db| Ok(self.pattern(db, strictness)))? {
            Ok(Some(pattern)) => pattern,
            Ok(None) => return Ok(false),
            Err(_) => return Ok(self.give_up_index(hits_before)),
        };
        while !self.is_full() && high > 0 {
            let rest = archive.read(|db| {
                let Ok(ids) = matches(db, &pattern, high) else { return Ok(None) };
                let page = ids.iter().filter_map(|id| candidate(db, *id).transpose());
                let page = page.collect::<Result<Vec<_>, _>>()?;
                self.compare(db, &page, strictness)?;
                Ok(Some(ids.last().map_or(0, |id| id - 1)))
            })?;
            match rest {
                Some(rest) => high = rest,
                None => return Ok(self.give_up_index(hits_before)),
            }
        }
        Ok(true)
    }

    /// Has a damaged index rebuilt; until then, the entries themselves are searched.
    fn give_up_index(&mut self, hits_before: usize) -> bool {
        self.hits.truncate(hits_before);
        self.archive.reindex_later();
        false
    }

    /// The FTS5 query for entries with all of the words; `None` if it would not narrow the search.
    ///
    /// Every word is quoted, and none contains a quote.
    fn pattern(&self, db: &Connection, strictness: Strictness) -> Result<Option<String>, Fault> {
        let words: Vec<&str> = self.query.words().into_iter().take(TERMS_MAX).collect();
        let quoted = |term: &str| format!("\"{term}\"");
        // No entry has this.
        let nobody = index::session_mark(0);
        let mut asked: Vec<String> = match strictness {
            Strictness::Words => {
                let terms = self.query.terms().into_iter().take(TERMS_MAX);
                let asked = |(word, is_prefix): (&str, bool)| {
                    let mark = if is_prefix { "*" } else { "" };
                    format!("{}{mark}", quoted(term(word)))
                };
                terms.map(asked).collect()
            }
            Strictness::Substrings => {
                let around = index::terms_around(db, &words)?.into_iter().flatten();
                let any_of = |terms: Vec<String>| {
                    let terms: Vec<String> = terms.iter().map(|term| quoted(term)).collect();
                    if terms.is_empty() {
                        quoted(&nobody)
                    } else {
                        format!("({})", terms.join(" OR "))
                    }
                };
                around.map(any_of).collect()
            }
        };
        if asked.is_empty() {
            return Ok(None);
        }
        match &self.reach {
            Reach::All => {}
            Reach::Owner(owner) => asked.push(quoted(&index::owner_mark(*owner))),
            Reach::Session(session) => {
                asked.push(quoted(&index::session_mark(session.row)));
            }
        }
        Ok(Some(asked.join(" AND ")))
    }

    fn compare(
        &mut self,
        db: &Connection,
        page: &[Candidate],
        strictness: Strictness,
    ) -> Result<(), Fault> {
        for candidate in page {
            if self.is_full() {
                break;
            }
            self.last = candidate.id;
            match self.hit(db, candidate, strictness) {
                Ok(hit) => self.hits.extend(hit),
                Err(Fault::Damage(damage)) => {
                    self.damage.get_or_insert(damage);
                }
                Err(fault) => return Err(fault),
            }
        }
        Ok(())
    }

    fn hit(
        &mut self,
        db: &Connection,
        candidate: &Candidate,
        strictness: Strictness,
    ) -> Result<Option<Hit>, Fault> {
        let Some(session) = known(&mut self.known, db, candidate.session)? else { return Ok(None) };
        let seq = candidate.seq.cast_unsigned();
        if !self.reach.contains(session) {
            return Ok(None);
        }
        let damaged = || entry::damaged(session, seq);
        let stored = candidate.stored.as_ref().ok_or_else(damaged)?;
        if !stored.is_right(session) {
            return Err(damaged());
        }
        let text = stored.text().ok_or_else(damaged)?;
        Ok(self.query.find(&text, strictness).map(|place| Hit {
            session: session.id,
            seq: Seq(seq),
            round: stored.node.round,
            snippet: snippet(&text, &place),
        }))
    }

    fn is_full(&self) -> bool {
        self.hits.len() >= self.limit
    }
}

fn known<'k>(
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
fn page(db: &Connection, low: i64, high: i64) -> Result<Vec<Candidate>, Fault> {
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
) -> Result<Vec<Candidate>, Fault> {
    let mut select = db.prepare_cached(SELECT_PAGE_OF_SESSION)?;
    let rows = select.query_map((session.row, seqs_end, low, high, PAGE), read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn matches(db: &Connection, pattern: &str, high: i64) -> Result<Vec<i64>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT rowid FROM word WHERE word MATCH ?1 AND rowid <= ?2 ORDER BY rowid DESC LIMIT ?3",
    )?;
    let rows = select.query_map((pattern, high, PAGE), |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn candidate(db: &Connection, id: i64) -> Result<Option<Candidate>, Fault> {
    Ok(db.prepare_cached(SELECT_BY_ID)?.query_row([id], read).optional()?)
}

fn read(row: &Row<'_>) -> Result<Candidate, rusqlite::Error> {
    let (id, session, seq) = (row.get(0)?, row.get(1)?, row.get(2)?);
    Ok(Candidate { id, seq, session, stored: StoredEntry::read(row).ok() })
}
