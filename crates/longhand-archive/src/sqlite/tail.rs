//! The newest entries, which are not in the index yet.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use longhand_recall::{Best, Texts};
use rusqlite::Connection;

use super::SqliteFile;
use super::fault::Fault;
use super::index;
use super::search::{Reach, ReachKey, VAIN_MAX, known, page};
use super::stamp::{self, Stamp};
use crate::{BestQuery, EntryRecord};

/// A tail with more text is read anew for each step, since a process may keep what it knows for long.
const KEPT_BYTES_MAX: usize = 2 << 20;

/// The newest entries within a reach, which are not in the index yet.
#[derive(Debug)]
pub(super) struct Tail {
    pub(super) texts: Texts,
    /// The id of each, and what it is.
    entries: Vec<(i64, EntryRecord)>,
    pub(super) is_partial: bool,
    /// How much text it has.
    bytes: usize,
}

/// The tail that was read last, for the next step of the same search.
#[derive(Debug, Default)]
pub(super) struct KnownTail(Mutex<Option<(TailKey, Arc<Tail>)>>);

/// What a tail is of: nothing else was written if the newest transaction is the same.
#[derive(Debug, PartialEq, Eq)]
struct TailKey {
    newest: Stamp,
    indexed: i64,
    reach: ReachKey,
}

impl KnownTail {
    fn get(&self, key: &TailKey) -> Option<Arc<Tail>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().filter(|(of, _)| of == key).map(|(_, tail)| Arc::clone(tail))
    }

    fn set(&self, key: TailKey, tail: &Arc<Tail>) {
        let is_small = tail.bytes <= KEPT_BYTES_MAX;
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *known = is_small.then(|| (key, Arc::clone(tail)));
    }
}

impl Tail {
    /// The tail as a connection sees it.
    pub(super) fn known_or_read(
        archive: &SqliteFile,
        db: &Connection,
        indexed: i64,
        reach: &Reach,
    ) -> Result<Arc<Self>, Fault> {
        let newest = stamp::newest(db)?;
        let key = newest.map(|newest| TailKey { newest, indexed, reach: reach.key() });
        if let Some(tail) = key.as_ref().and_then(|key| archive.tail.get(key)) {
            return Ok(tail);
        }
        let tail = Arc::new(Self::read(db, indexed, reach)?);
        if let Some(key) = key {
            archive.tail.set(key, &tail);
        }
        Ok(tail)
    }

    fn read(db: &Connection, indexed: i64, reach: &Reach) -> Result<Self, Fault> {
        let mut high = index::newest(db)?;
        let mut sessions = HashMap::new();
        let mut entries: Vec<(i64, EntryRecord)> = Vec::new();
        let mut left = VAIN_MAX;
        while high > indexed && left > 0 {
            let page = page(db, indexed, high)?;
            high = page.last().map_or(indexed, |oldest| oldest.id - 1);
            for entry in page.into_iter().take(left) {
                left -= 1;
                let (id, of) = (entry.id, entry.session);
                // A damaged entry has no words; searching for it elsewhere reports it.
                let Some(session) = known(&mut sessions, db, of)? else { continue };
                if reach.contains(session) {
                    let record = entry.stored.and_then(|stored| stored.checked(session));
                    entries.extend(record.map(|record| (id, record)));
                }
            }
        }
        entries.reverse();
        let mut texts = Texts::default();
        for (_, record) in &entries {
            texts.add(&record.searched());
        }
        let bytes = entries.iter().map(|(_, record)| record.entry.raw.len()).sum();
        Ok(Self { texts, entries, is_partial: high > indexed, bytes })
    }

    /// Adds its entries that are on the ranker's walks.
    pub(super) fn score(&self, wanted: &BestQuery, best: &mut Best) {
        let is_wanted = |number: usize| wanted.filter.accepts(&self.entries[number].1.entry);
        for (number, measure) in self.texts.walked(&wanted.ranker, wanted.limit, is_wanted) {
            best.add(wanted.ranker.score(&measure), self.entries[number].0.cast_unsigned());
        }
    }
}
