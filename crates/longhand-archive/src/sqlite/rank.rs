//! Finding the entries that fit a query best.
//!
//! Entries that are not in the index yet are read, up to a bound; the index tells about all others, and only the best are
//! read.

use std::collections::{HashMap, HashSet};

use longhand_recall::{Best, KnownTerm, Ranker, Totals};
use rusqlite::Connection;

use super::SqliteFile;
use super::fault::Fault;
use super::index::{self, Blocks, Walking};
use super::search::{Compared, Reach, by_id, known};
use super::session::StoredSession;
use super::tail::Tail;
use crate::{
    ArchiveError, BestEntries, BestQuery, EntryRecord, ScoredEntry, SearchFilter, SearchScope,
    SessionId, Vocabulary, VocabularyQuery,
};

/// With more sessions than these, it is looked up which session an entry is of, instead of asking the index.
const MARKED_SESSIONS_MAX: usize = 16;

/// See [`crate::Storage::vocabulary`].
pub(super) fn vocabulary(
    archive: &SqliteFile,
    wanted: &VocabularyQuery,
) -> Result<Vocabulary, ArchiveError> {
    let counted = wanted.within.counted_sessions();
    let within =
        counted.map_or(SearchScope::All, |sessions| SearchScope::Sessions(sessions.to_vec()));
    let Some(reach) = archive.read(|db| Reach::of(db, &within))? else {
        return Ok(Vocabulary {
            terms: vec![Vec::new(); wanted.sought.len()],
            ..Vocabulary::default()
        });
    };
    with_index(archive, |db, indexed| {
        let tail = Tail::known_or_read(archive, db, indexed, &reach)?;
        let segments = if indexed > 0 { index::live(db)? } else { Vec::new() };
        let mut blocks = Blocks::new(db);
        let marks = reach.marks();
        let mut terms = Vec::new();
        for sought in &wanted.sought {
            let known = index::known(&mut blocks, &segments, sought, marks.as_deref())?;
            terms.push(KnownTerm::joined(known, tail.texts.known(sought, |_| true)));
        }
        let (entries, words) = match &marks {
            None => index::totals(&segments),
            Some(marks) => index::totals_of(&mut blocks, &segments, marks)?,
        };
        let of_tail = tail.texts.totals(|_| true);
        let totals = Totals { entries: entries + of_tail.entries, words: words + of_tail.words };
        Ok(Vocabulary { terms, totals })
    })
}

/// See [`crate::Storage::best`].
///
/// Damaged entries are skipped; the first one is reported.
pub(super) fn best(archive: &SqliteFile, wanted: &BestQuery) -> Result<BestEntries, ArchiveError> {
    let Some(reach) = archive.read(|db| Reach::of(db, &wanted.within))? else {
        return Ok(BestEntries::default());
    };
    with_index(archive, |db, indexed| {
        let tail = Tail::known_or_read(archive, db, indexed, &reach)?;
        let mut best = Best::new(wanted.limit);
        tail.score(wanted, &mut best);
        if indexed > 0 {
            walk(db, &reach, wanted, indexed, &mut best)?;
        }
        let mut found = BestEntries { is_partial: tail.is_partial, ..BestEntries::default() };
        let mut sessions = HashMap::new();
        for (score, id) in best.into_sorted() {
            let Some(entry) = by_id(db, id.cast_signed())? else { continue };
            match read(db, &mut sessions, &reach, &wanted.filter, entry) {
                Ok(Some((session, record))) => {
                    found.entries.push(ScoredEntry { session, record, score });
                }
                Ok(None) => {}
                Err(Fault::Damage(damage)) => _ = found.damage.get_or_insert(damage),
                Err(fault) => return Err(fault),
            }
        }
        Ok(found)
    })
}

/// Works with the index, or without one if it is damaged; then it is made anew.
fn with_index<T>(
    archive: &SqliteFile,
    mut work: impl FnMut(&Connection, i64) -> Result<T, Fault>,
) -> Result<T, ArchiveError> {
    let worked = archive.read(|db| {
        let indexed = index::indexed(db)?;
        work(db, indexed)
    });
    worked.or_else(|_| {
        let worked = archive.read(|db| work(db, 0))?;
        archive.reindex_later();
        Ok(worked)
    })
}

/// Scores what the index says of the entries on the ranker's walks.
fn walk(
    db: &Connection,
    reach: &Reach,
    wanted: &BestQuery,
    newest: i64,
    best: &mut Best,
) -> Result<(), Fault> {
    let ranker: &Ranker = &wanted.ranker;
    let segments = index::live(db)?;
    let mut blocks = Blocks::new(db);
    let rows = match reach {
        Reach::Sessions(sessions) if sessions.len() > MARKED_SESSIONS_MAX => {
            Some(sessions.iter().map(|session| session.row).collect::<HashSet<i64>>())
        }
        _ => None,
    };
    let conditions = match rows {
        Some(_) => Reach::All.conditions(&wanted.filter, newest),
        None => reach.conditions(&wanted.filter, newest),
    };
    let counts: Vec<Vec<u64>> = segments
        .iter()
        .map(|segment| index::term_counts(&mut blocks, segment, ranker))
        .collect::<Result<_, _>>()?;
    let mut select = db.prepare_cached("SELECT session FROM entry WHERE id = ?1")?;
    let mut is_within = |id: i64| match &rows {
        Some(rows) => Ok::<bool, Fault>(rows.contains(&select.query_row([id], |row| row.get(0))?)),
        None => Ok(true),
    };
    let mut seen = HashSet::new();
    for walk in ranker.walks(wanted.limit) {
        let mut left = walk.entries_max;
        for (segment, counts) in segments.iter().zip(&counts) {
            let walking = Walking::new(segment, ranker, counts, &walk, &conditions);
            let Some(mut walking) = walking else { continue };
            while left > 0
                && let Some(id) = walking.next(&mut blocks)?
            {
                left -= 1;
                if !seen.insert(id) {
                    continue;
                }
                let score = ranker.score(&walking.measure(&mut blocks, id)?);
                if best.takes(score, id.cast_unsigned()) && is_within(id)? {
                    best.add(score, id.cast_unsigned());
                }
            }
        }
    }
    Ok(())
}

fn read(
    db: &Connection,
    sessions: &mut HashMap<i64, Option<StoredSession>>,
    reach: &Reach,
    filter: &SearchFilter,
    entry: Compared,
) -> Result<Option<(SessionId, EntryRecord)>, Fault> {
    let Some(session) =
        known(sessions, db, entry.session)?.filter(|session| reach.contains(session))
    else {
        return Ok(None);
    };
    let damaged = || super::entry::damaged(session, entry.seq.cast_unsigned());
    let record = entry.stored.and_then(|stored| stored.checked(session)).ok_or_else(damaged)?;
    Ok(filter.accepts(&record.entry).then_some((session.id, record)))
}
