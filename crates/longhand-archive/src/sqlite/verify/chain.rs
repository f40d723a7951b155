//! Whether every link of a chain follows from the one before.

use rusqlite::{Connection, Row};

use crate::sqlite::batch;
use crate::sqlite::entry;
use crate::sqlite::fault::Fault;
use crate::sqlite::seal::Seal;
use crate::sqlite::session::{Session, signed};
use crate::{Damage, DamagedPart};

/// How many entries are read at a time; between pages the log can be emptied.
const PAGE: u64 = 1_000;

/// Checks all entries that the session's head knows of.
pub(super) fn entries(db: &Connection, session: &Session) -> Result<Vec<Damage>, Fault> {
    let mut chain = Chain::new(session.first_link());
    let end = session.state.entries;
    while chain.next < end {
        let page_end = chain.next.saturating_add(PAGE).min(end);
        let mut select = db.prepare_cached(entry::SELECT_RANGE)?;
        let mut rows = select.query((session.id, signed(chain.next), signed(page_end)))?;
        let mut is_empty = true;
        while let Some(row) = rows.next()? {
            is_empty = false;
            let link =
                |before: &Seal| entry::stored(row).map(|stored| stored.link_after(before)).ok();
            chain.add(number(row, 1)?, row.get(4).ok(), link);
        }
        if end < u64::MAX {
            chain.skip_to(page_end);
        } else if is_empty {
            break;
        }
    }
    if end < u64::MAX {
        chain.end_with(end, &session.state.link);
    }
    Ok(chain.damages(session, DamagedPart::Entry))
}

/// Checks all batches that the session's head knows of, and what they cite.
pub(super) fn batches(db: &Connection, session: &Session) -> Result<Vec<Damage>, Fault> {
    let is_known = session.state.entries < u64::MAX;
    let mut chain = Chain::new(session.first_batch_link());
    chain.next = 1;
    let mut select = db.prepare_cached(batch::SELECT_ALL)?;
    let mut rows = select.query([session.id])?;
    while let Some(row) = rows.next()? {
        let stored = batch::stored(row).ok();
        let number = number(row, 0)?;
        let link = |before: &Seal| stored.as_ref().map(|(stored, _)| batch::link(before, stored));
        chain.add(number, row.get(5).ok(), link);
        if stored.is_some_and(|(batch, _)| batch.entries.end > session.state.entries) {
            chain.faults.push((number, "cites entries that are not there".to_owned()));
        }
    }
    if is_known {
        chain.end_with(session.state.batches + 1, &session.state.batch_link);
    }
    Ok(chain.damages(session, DamagedPart::Batch))
}

fn number(row: &Row<'_>, column: usize) -> Result<u64, Fault> {
    Ok(row.get::<_, i64>(column)?.cast_unsigned())
}

/// A chain as far as it was checked.
struct Chain {
    /// The place that comes next.
    next: u64,
    /// What the next link may follow from: when one link is wrong, both what it says and what it
    /// should say, so that the damage of one is not taken for that of the next.
    before: Vec<Seal>,
    faults: Vec<(u64, String)>,
}

impl Chain {
    fn new(first: Seal) -> Self {
        Self { next: 0, before: vec![first], faults: Vec::new() }
    }

    fn add(&mut self, place: u64, found: Option<Seal>, link: impl Fn(&Seal) -> Option<Seal>) {
        if place < self.next {
            self.faults.push((place, "is there twice".to_owned()));
            return;
        }
        self.skip_to(place);
        let right: Vec<Seal> = self.before.iter().filter_map(link).collect();
        self.next = place.saturating_add(1);
        self.before.clear();
        self.before.extend(found);
        if found.is_none_or(|found| !right.contains(&found)) {
            self.faults.push((place, "failed its checksum".to_owned()));
            self.before.extend(right);
        }
    }

    /// Notes that everything before `place` is missing.
    fn skip_to(&mut self, place: u64) {
        match place.saturating_sub(self.next) {
            0 => return,
            1 => self.faults.push((self.next, "is missing".to_owned())),
            count => {
                self.faults
                    .push((self.next, format!("and the {} after it are missing", count - 1)));
            }
        }
        self.next = place;
        self.before.clear();
    }

    fn end_with(&mut self, end: u64, link: &Seal) {
        self.skip_to(end);
        let last = end.saturating_sub(1);
        let is_named = self.faults.iter().any(|(place, _)| *place == last);
        if !self.before.is_empty() && !is_named && !self.before.contains(link) {
            self.faults.push((last, "is not the one that was last".to_owned()));
        }
    }

    fn damages(self, session: &Session, part: impl Fn(u64) -> DamagedPart) -> Vec<Damage> {
        let damage = |(place, detail)| Damage {
            session: Some(session.name.clone()),
            part: part(place),
            detail,
        };
        self.faults.into_iter().map(damage).collect()
    }
}
