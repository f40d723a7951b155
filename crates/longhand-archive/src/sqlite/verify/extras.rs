//! What belongs to a session besides its entries and batches.

use std::collections::HashMap;

use rusqlite::Connection;

use super::ledger::{Numbered, number};
use super::{Subject, damage};
use crate::sqlite::fault::Fault;
use crate::sqlite::seal::Seal;
use crate::sqlite::{batch, derived, note, preamble, request, session};
use crate::usage::day_of;
use crate::{BatchRecord, Damage, DamagedPart, PreambleId, RequestSums, SessionUsage, codec};

pub(super) fn undos(db: &Connection, subject: &Subject) -> Result<Vec<Damage>, Fault> {
    if subject.has_totals {
        batch::undone(db, &subject.session)?;
    }
    Ok(Vec::new())
}

pub(super) fn pins(db: &Connection, subject: &Subject) -> Result<Vec<Damage>, Fault> {
    if !subject.has_totals {
        return Ok(Vec::new());
    }
    let pins = session::pins(db, &subject.session)?;
    let is_stray = pins.iter().any(|seq| *seq >= subject.session.totals.entries);
    let stray = subject.damage(DamagedPart::Pins, "names entries that are not there");
    Ok(Vec::from_iter(is_stray.then_some(stray)))
}

/// Checks that the references are those of the batches; `is_complete` says that all batches are known.
pub(super) fn references(
    db: &Connection,
    subject: &Subject,
    batches: &[(u64, BatchRecord)],
    is_complete: bool,
) -> Result<Vec<Damage>, Fault> {
    let mut wanted: HashMap<String, u64> = HashMap::new();
    for (number, record) in batches {
        for handle in codec::handles(&record.batch) {
            wanted.entry(codec::letters(handle)).or_insert(*number);
        }
    }
    let report = |letters: &str, detail| {
        subject.damage(DamagedPart::Reference(format!("h:{letters}")), detail)
    };
    let mut select = db.prepare_cached("SELECT handle, batch FROM reference WHERE session = ?1")?;
    let mut rows = select.query([subject.session.row])?;
    let mut damages = Vec::new();
    while let Some(row) = rows.next()? {
        let letters: String = row.get(0).unwrap_or_default();
        match wanted.remove(&letters) {
            Some(batch) if is_complete && Some(batch) != number(row, 1).ok() => {
                damages.push(report(&letters, "names another batch"));
            }
            None if is_complete => damages.push(report(&letters, "belongs to no batch")),
            _ => {}
        }
    }
    let mut missing: Vec<&String> = wanted.keys().collect();
    missing.sort_unstable();
    damages.extend(missing.into_iter().map(|letters| report(letters, "is missing")));
    Ok(damages)
}

pub(super) fn requests(db: &Connection, subject: &Subject) -> Result<Vec<Damage>, Fault> {
    let mut select = db.prepare_cached(request::SELECT_ALL)?;
    let mut rows = select.query([subject.session.row])?;
    let mut check = Numbered::from(1);
    let mut damages = Vec::new();
    let (mut usage, mut lines) = (SessionUsage::default(), Sums::new());
    while let Some(row) = rows.next()? {
        let found = number(row, 0)?;
        check.skip_to(found);
        check.next = found.saturating_add(1);
        match request::checked(&subject.session, found, row) {
            Ok(request) => {
                let key = (day_of(request.at_ms), request.model.clone());
                usage.count(&request, lines.entry(key).or_default());
            }
            Err(Fault::Damage(damage)) => damages.push(damage),
            Err(fault) => return Err(fault),
        }
    }
    if subject.has_totals {
        check.skip_to(subject.session.totals.requests + 1);
    }
    damages.extend(check.damages(subject, DamagedPart::Request));
    if damages.is_empty() && subject.has_totals {
        let is_same = usage == subject.session.totals.usage && lines == sums(db, subject)?;
        let wrong = || subject.damage(DamagedPart::Usage, "are not what they took");
        damages.extend((!is_same).then(wrong));
    }
    Ok(damages)
}

/// Sums of requests by day and model.
type Sums = HashMap<(i64, String), RequestSums>;

/// The sums that are kept of a session's requests.
fn sums(db: &Connection, subject: &Subject) -> Result<Sums, Fault> {
    let mut select = db.prepare_cached("SELECT day, model, sums FROM usage WHERE session = ?1")?;
    let mut rows = select.query([subject.session.row])?;
    let mut sums = HashMap::new();
    while let Some(row) = rows.next()? {
        let (found, _) = request::read_sums(row, 2).unwrap_or_default();
        // A line may be there for edits alone.
        if found != RequestSums::default() {
            sums.insert((row.get(0)?, row.get(1)?), found);
        }
    }
    Ok(sums)
}

pub(super) fn notes(db: &Connection, subject: &Subject) -> Result<Vec<Damage>, Fault> {
    let mut select = db.prepare_cached(note::SELECT_ALL)?;
    let mut rows = select.query([subject.session.row])?;
    let mut check = Numbered::from(1);
    let mut damages = Vec::new();
    while let Some(row) = rows.next()? {
        let found = number(row, 0)?;
        check.skip_to(found);
        check.next = found.saturating_add(1);
        if let Err(Fault::Damage(damage)) = note::checked(&subject.session, found, row) {
            damages.push(damage);
        }
    }
    if subject.has_totals {
        check.skip_to(subject.session.totals.notes + 1);
    }
    damages.extend(check.damages(subject, DamagedPart::Note));
    Ok(damages)
}

/// Bodies that no entry has.
pub(super) fn stray_bodies(db: &Connection) -> Result<Vec<Damage>, Fault> {
    let count: i64 = db.query_row(
        "SELECT count(*) FROM body WHERE NOT EXISTS (SELECT 1 FROM entry WHERE entry.id = body.id) \
         AND NOT EXISTS (SELECT 1 FROM entry WHERE entry.body = body.id)",
        [],
        |row| row.get(0),
    )?;
    let detail = format!("has {count} texts that belong to no entry");
    Ok(Vec::from_iter((count > 0).then(|| damage(None, DamagedPart::File, &detail))))
}

pub(super) fn derived(db: &Connection, subject: &Subject) -> Result<Vec<Damage>, Fault> {
    let mut select =
        db.prepare_cached("SELECT key, seal, value FROM derived WHERE session = ?1")?;
    let mut rows = select.query([subject.session.row])?;
    let mut damages = Vec::new();
    while let Some(row) = rows.next()? {
        let key: String = row.get(0).unwrap_or_default();
        let seal: Option<Seal> = row.get(1).ok();
        let value = derived::unpacked(row, 2).ok().flatten();
        let right = value.map(|value| derived::right_seal(subject.session.id, &key, &value));
        if seal.is_none() || seal != right {
            damages.push(subject.damage(DamagedPart::Derived(key), "failed its checksum"));
        }
    }
    Ok(damages)
}

/// All preambles, of all owners.
pub(super) fn preambles(db: &Connection) -> Result<Vec<Damage>, Fault> {
    let mut select = db.prepare("SELECT key, content FROM preamble")?;
    let mut rows = select.query([])?;
    let mut damages = Vec::new();
    while let Some(row) = rows.next()? {
        let id = row.get(0).map(PreambleId::from_bytes).unwrap_or_default();
        let content = derived::unpacked(row, 1).ok().flatten();
        if content.is_none_or(|content| PreambleId::of(&content) != id) {
            damages.push(preamble::damage(id));
        }
    }
    Ok(damages)
}

/// Rows that belong to no session.
pub(super) fn strays(db: &Connection) -> Result<Vec<Damage>, Fault> {
    let mut damages = Vec::new();
    let mut count = |sql: &str, what: &str| -> Result<(), Fault> {
        let count: i64 = db.query_row(sql, [], |row| row.get(0))?;
        if count > 0 {
            damages.push(damage(None, DamagedPart::File, &format!("has {count} {what}")));
        }
        Ok(())
    };
    let tables = [
        "head",
        "entry",
        "batch",
        "undo",
        "pins",
        "reference",
        "request",
        "usage",
        "note",
        "derived",
    ];
    for table in tables {
        count(
            &format!("SELECT count(*) FROM {table} WHERE session NOT IN (SELECT id FROM session)"),
            &format!("rows of `{table}` that belong to no session"),
        )?;
    }
    Ok(damages)
}
