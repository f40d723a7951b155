//! Finding entries by their text.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use longhand_core::Seq;
use rusqlite::{Connection, OptionalExtension as _, Row};

use super::entry::{self, StoredEntry};
use super::fault::Fault;
use super::session::{self, Session};
use super::tree::{self, Node};
use super::{SqliteArchive, index};
use crate::query::{Query, Strictness, snippet};
use crate::terms::term;
use crate::{ArchiveError, Damage, Hit, Owner, Scope};

/// How many entries are read at a time; between pages the log can be emptied.
const PAGE: i64 = 256;
/// How many words of a query are looked up; the rest is compared in the entries found.
const TERMS_MAX: usize = 32;

/// See [`crate::Archive::search`].
///
/// Damaged entries are passed over. Of one session, nothing is only the answer if everything could be
/// read; among many, one that is damaged is of no concern to the others.
pub(super) fn search(
    archive: &SqliteArchive,
    scope: &Scope,
    query: &str,
    limit: usize,
) -> Result<Vec<Hit>, ArchiveError> {
    let Some(reach) = archive.read(|db| Reach::of(db, scope))? else { return Ok(Vec::new()) };
    let Some(query) = Query::parse(query) else { return Ok(Vec::new()) };
    let is_one_session = matches!(reach, Reach::Session(_) | Reach::Path { .. });
    let mut search = Search {
        archive,
        reach,
        query,
        limit,
        hits: Vec::new(),
        known: HashMap::new(),
        damage: None,
    };
    let (newest, indexed) = archive.read(|db| Ok((index::newest(db)?, index::indexed(db)?)))?;
    for strictness in [Strictness::Words, Strictness::Substrings] {
        search.scan(indexed, newest, strictness)?;
        if !search.look_up(indexed, strictness)? {
            search.scan(0, indexed, strictness)?;
        }
        if !search.hits.is_empty() || (is_one_session && search.damage.is_some()) {
            break;
        }
    }
    match search.damage {
        Some(damage) if search.hits.is_empty() && is_one_session => {
            archive.read(|_| Err(Fault::Damage(damage)))
        }
        _ => Ok(search.hits),
    }
}

/// A scope, looked up.
enum Reach {
    All,
    Owner(Owner),
    Session(Session),
    Path {
        session: Session,
        /// The path's last entry.
        end: Node,
        /// An entry of the path that is not before the one that was compared last: entries are compared
        /// newest first, so the way to the next is short.
        at: Node,
    },
}

impl Reach {
    /// Looks a scope up; `None` if it holds nothing.
    fn of(db: &Connection, scope: &Scope) -> Result<Option<Self>, Fault> {
        Ok(match scope {
            Scope::All => Some(Reach::All),
            Scope::Owner(owner) => Some(Reach::Owner(*owner)),
            Scope::Session(id) => session::find(db, *id)?.map(Reach::Session),
            Scope::Path { session: id, head } => match session::find(db, *id)? {
                None => None,
                Some(session) => session.path_end(db, *head)?.map(|end| Reach::Path {
                    session,
                    at: end.clone(),
                    end,
                }),
            },
        })
    }

    fn session(&self) -> Option<&Session> {
        match self {
            Reach::All | Reach::Owner(_) => None,
            Reach::Session(session) | Reach::Path { session, .. } => Some(session),
        }
    }

    /// Whether an entry of a session lies within.
    fn contains(&mut self, db: &Connection, of: &Session, seq: u64) -> Result<bool, Fault> {
        Ok(match self {
            Reach::All => true,
            Reach::Owner(owner) => of.owner == *owner,
            Reach::Session(session) => of.row == session.row,
            Reach::Path { session, end, at } => {
                let from = if seq <= at.seq { &*at } else { &*end };
                match tree::ancestor(db, session, from, seq)? {
                    Some(found) => {
                        *at = found;
                        of.row == session.row && at.seq == seq
                    }
                    None => false,
                }
            }
        })
    }
}

struct Search<'a> {
    archive: &'a SqliteArchive,
    reach: Reach,
    query: Query,
    limit: usize,
    hits: Vec<Hit>,
    /// Sessions by row; `None` for those that are removed.
    known: HashMap<i64, Option<Session>>,
    /// The first entry that could not be read.
    damage: Option<Damage>,
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

    /// Goes through the entries up to `high` that the index names; `false` if it cannot tell.
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

    /// The index is damaged. It can be made anew from the entries, which also answer for it now.
    fn give_up_index(&mut self, hits_before: usize) -> bool {
        self.hits.truncate(hits_before);
        let _ = self.archive.reindex();
        false
    }

    /// What the index is asked: for entries with all of the words. Every word in it is quoted, and
    /// none contains a quote. `None` if that would not narrow it down.
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
            Reach::Session(session) | Reach::Path { session, .. } => {
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
        if !self.reach.contains(db, session, seq)? {
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
    known: &'k mut HashMap<i64, Option<Session>>,
    db: &Connection,
    id: i64,
) -> Result<Option<&'k Session>, Fault> {
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

/// The same of one session, by its own numbers: its ids lie far apart.
fn page_of_session(
    db: &Connection,
    session: &Session,
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
