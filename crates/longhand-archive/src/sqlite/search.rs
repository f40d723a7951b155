//! Finding entries by their text.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use rusqlite::{Connection, OptionalExtension as _, Row};

use super::entry::{self, StoredEntry};
use super::fault::Fault;
use super::session::{self, Session};
use super::{SqliteArchive, index};
use crate::query::{Query, Strictness, snippet};
use crate::{ArchiveError, Damage, DamagedPart, Hit};

/// How many entries are read at a time; between pages the log can be emptied.
const PAGE: i64 = 256;
/// How many words of a query are looked up; the rest is compared in the entries found.
const TERMS_MAX: usize = 32;

/// See [`crate::Archive::search`].
///
/// Damaged entries are passed over as long as others match.
pub(super) fn search(
    archive: &SqliteArchive,
    session: Option<&str>,
    query: &str,
    limit: usize,
) -> Result<Vec<Hit>, ArchiveError> {
    let Some(query) = Query::parse(query) else { return Ok(Vec::new()) };
    let scope = match session {
        None => None,
        Some(name) => match archive.read(|db| session::find(db, name))? {
            None => return Ok(Vec::new()),
            found => found,
        },
    };
    let mut search = Search {
        archive,
        scope,
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
        if !search.hits.is_empty() || search.damage.is_some() {
            break;
        }
    }
    match search.damage {
        // Nothing is only the answer if everything could be read.
        Some(damage) if search.hits.is_empty() => archive.read(|_| Err(Fault::Damage(damage))),
        _ => Ok(search.hits),
    }
}

struct Search<'a> {
    archive: &'a SqliteArchive,
    scope: Option<Session>,
    query: Query,
    limit: usize,
    hits: Vec<Hit>,
    /// Sessions by number; `None` for those that are removed.
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
                let page = match &self.scope {
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
        let nobody = index::mark(0);
        let mut asked: Vec<String> = match strictness {
            Strictness::Words => words.iter().map(|word| quoted(index::term(word))).collect(),
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
        if let Some(session) = &self.scope {
            asked.push(quoted(&index::mark(session.id)));
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
        let damaged = || session.damage(DamagedPart::Entry(seq), "failed its checksum");
        let stored = candidate.stored.as_ref().ok_or_else(damaged)?;
        if stored.link_after(&entry::link_before(db, session, seq)?) != stored.link {
            return Err(damaged());
        }
        let text = stored.text().ok_or_else(damaged)?;
        Ok(self.query.find(&text, strictness).map(|place| Hit {
            session: session.name.clone(),
            seq,
            round: stored.entry.round,
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
        Entry::Vacant(gap) => gap.insert(session::by_id(db, id)?),
    }
    .as_ref())
}

/// Entries after `low` up to `high`, newest first.
fn page(db: &Connection, low: i64, high: i64) -> Result<Vec<Candidate>, Fault> {
    let sql = format!(
        "SELECT {}, session FROM entry WHERE id > ?1 AND id <= ?2 ORDER BY id DESC LIMIT {PAGE}",
        entry::COLUMNS,
    );
    let mut select = db.prepare_cached(&sql)?;
    let rows = select.query_map((low, high), read)?;
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
    let sql = format!(
        "SELECT {}, session FROM entry WHERE session = ?1 AND seq < ?2 AND id > ?3 AND id <= ?4 \
         ORDER BY seq DESC LIMIT {PAGE}",
        entry::COLUMNS,
    );
    let mut select = db.prepare_cached(&sql)?;
    let rows = select.query_map((session.id, seqs_end, low, high), read)?;
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
    let sql = format!("SELECT {}, session FROM entry WHERE id = ?1", entry::COLUMNS);
    Ok(db.prepare_cached(&sql)?.query_row([id], read).optional()?)
}

fn read(row: &Row<'_>) -> Result<Candidate, rusqlite::Error> {
    let (id, seq, session) = (row.get(0)?, row.get(1)?, row.get(8)?);
    Ok(Candidate { id, seq, session, stored: entry::stored(row).ok() })
}
