//! Whether every entry and batch follows from what it is chained to.

use std::collections::HashMap;

use rusqlite::{Connection, Row};

use super::Subject;
use crate::sqlite::batch::{self, StoredBatch};
use crate::sqlite::derived;
use crate::sqlite::entry::{self, StoredEntry};
use crate::sqlite::fault::Fault;
use crate::sqlite::seal::Seal;
use crate::sqlite::session::{first_seal, signed};
use crate::{BatchRecord, Damage, DamagedPart};

/// How many entries are read at a time; between pages the log can be emptied.
const PAGE: u64 = 1_000;

/// Checks all entries that the session's totals count.
pub(super) fn entries(db: &Connection, subject: &Subject) -> Result<Vec<Damage>, Fault> {
    let session = &subject.session;
    let mut check = Numbered::from(0);
    let mut seals: HashMap<u64, Seals> = HashMap::new();
    let first = vec![first_seal(session.id, "entries")];
    let end = if subject.has_totals { session.totals.entries } else { u64::MAX };
    while check.next < end {
        let page_end = check.next.saturating_add(PAGE).min(end);
        let mut select = db.prepare_cached(entry::SELECT_RANGE)?;
        let mut rows = select.query((session.row, signed(check.next), signed(page_end)))?;
        let mut is_empty = true;
        while let Some(row) = rows.next()? {
            is_empty = false;
            let seq = number(row, 2)?;
            let stored = StoredEntry::read(row).ok();
            let right = match &stored {
                Some(stored) if stored.has_right_body(session) => {
                    let parents = match stored.node.parent {
                        None => Some(&first),
                        Some(parent) => seals.get(&parent),
                    };
                    let parents = parents.into_iter().flatten();
                    parents.map(|seal| stored.right_seal(session.id, Some(seal))).collect()
                }
                _ => Vec::new(),
            };
            seals.insert(seq, check.add(seq, row.get(9).ok(), right));
        }
        if subject.has_totals {
            check.skip_to(page_end);
        } else if is_empty {
            break;
        }
    }
    if let (true, Some(newest)) = (subject.has_totals, session.totals.newest()) {
        let found = seals.get(&newest.seq);
        check.end_with(end, &newest.seal, found.map_or(&[], |seals| &seals[..]));
    }
    Ok(check.damages(subject, DamagedPart::Entry))
}

/// Batches with their numbers.
type NumberedBatches = Vec<(u64, BatchRecord)>;

/// Checks all batches that the session's totals count, and what they edit; returns those that are sound.
pub(super) fn batches(
    db: &Connection,
    subject: &Subject,
) -> Result<(NumberedBatches, Vec<Damage>), Fault> {
    let session = &subject.session;
    let mut check = Numbered::from(1);
    let mut before = vec![first_seal(session.id, "batches")];
    let mut sound = Vec::new();
    let mut select = db.prepare_cached(batch::SELECT_ALL)?;
    let mut rows = select.query([session.row])?;
    while let Some(row) = rows.next()? {
        let stored = StoredBatch::read(row).ok().map(|(stored, _)| stored);
        let number = number(row, 0)?;
        if number > check.next {
            before.clear();
        }
        let right =
            stored.iter().flat_map(|stored| before.iter().map(|seal| stored.right_seal(seal)));
        let right = right.collect();
        let faults_before = check.faults.len();
        before = check.add(number, row.get(4).ok(), right);
        let Some(stored) = stored.filter(|_| check.faults.len() == faults_before) else { continue };
        let reach = stored.reach;
        let state = row.get_ref(8)?.as_blob().ok().map(|_| derived::unpacked(row, 8));
        let state = state.transpose().ok().flatten();
        if !stored.has_state(state.as_ref().map(|state| state.as_deref().unwrap_or_default())) {
            check.faults.push((number, "failed its checksum".to_owned()));
            continue;
        }
        match stored.decoded() {
            None => check.faults.push((number, "cannot be read".to_owned())),
            Some(batch) => {
                let edited = batch.batch.edited();
                let newest = edited.first().map(|entry| entry.0).max(reach);
                if subject.has_totals && newest.is_some_and(|seq| seq >= session.totals.entries) {
                    check.faults.push((number, "edits entries that are not there".to_owned()));
                }
                sound.push((number, batch));
            }
        }
    }
    if subject.has_totals {
        check.end_with(session.totals.batches + 1, &session.totals.batch_seal, &before);
    }
    Ok((sound, check.damages(subject, DamagedPart::Batch)))
}

pub(super) fn number(row: &Row<'_>, column: usize) -> Result<u64, Fault> {
    Ok(row.get::<_, i64>(column)?.cast_unsigned())
}

/// What others may be chained to. When a seal is wrong, both what it says and what it should say, so that
/// the damage of one is not taken for that of those after it.
type Seals = Vec<Seal>;

/// A numbered list as far as it was checked.
pub(super) struct Numbered {
    /// The number that comes next.
    pub(super) next: u64,
    faults: Vec<(u64, String)>,
}

impl Numbered {
    pub(super) fn from(next: u64) -> Self {
        Self { next, faults: Vec::new() }
    }

    /// Adds what was found under a number, and returns what others may be chained to.
    fn add(&mut self, number: u64, found: Option<Seal>, right: Seals) -> Seals {
        if number < self.next {
            self.faults.push((number, "is there twice".to_owned()));
            return right;
        }
        self.skip_to(number);
        self.next = number.saturating_add(1);
        let mut seals = Vec::from_iter(found);
        if found.is_none_or(|found| !right.contains(&found)) {
            self.faults.push((number, "failed its checksum".to_owned()));
            seals.extend(right);
        }
        seals
    }

    /// Notes that everything before a number is missing.
    pub(super) fn skip_to(&mut self, number: u64) {
        match number.saturating_sub(self.next) {
            0 => return,
            1 => self.faults.push((self.next, "is missing".to_owned())),
            count => {
                self.faults
                    .push((self.next, format!("and the {} after it are missing", count - 1)));
            }
        }
        self.next = number;
    }

    /// Notes what is missing at the end, or that the last is not the one with this seal.
    fn end_with(&mut self, end: u64, seal: &Seal, last_seals: &[Seal]) {
        let is_complete = self.next == end;
        self.skip_to(end);
        let last = end.saturating_sub(1);
        let is_named = self.faults.iter().any(|(number, _)| *number == last);
        if is_complete && !is_named && !last_seals.contains(seal) {
            self.faults.push((last, "is not the one that was last".to_owned()));
        }
    }

    pub(super) fn damages(
        self,
        subject: &Subject,
        part: impl Fn(u64) -> DamagedPart,
    ) -> Vec<Damage> {
        let damage = |(number, detail)| Damage {
            session: Some(subject.session.id),
            part: part(number),
            detail,
        };
        self.faults.into_iter().map(damage).collect()
    }
}
