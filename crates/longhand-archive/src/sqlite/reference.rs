//! What handles stand for: parts and folds that batches name.

use longhand_core::Handle;
use rusqlite::{Connection, OptionalExtension as _};

use super::batch;
use super::fault::Fault;
use super::session::{self, Session, signed, unsigned};
use crate::codec::{self, Target, letters};
use crate::{DamagedPart, Owner, Reference, Scope};

/// Notes that a batch has a handle, unless an earlier one of the session has it.
pub(super) fn add(
    db: &Connection,
    session: &Session,
    handle: Handle,
    batch: u64,
) -> Result<(), Fault> {
    db.prepare_cached("INSERT OR IGNORE INTO reference VALUES (?1, ?2, ?3)")?.execute((
        letters(handle),
        session.row,
        signed(batch),
    ))?;
    Ok(())
}

/// See [`crate::Archive::reference`].
pub(super) fn find(
    db: &Connection,
    scope: &Scope,
    handle: Handle,
) -> Result<Option<Reference>, Fault> {
    let (first, owner) = match scope {
        Scope::All => (None, None),
        Scope::Owner(owner) => (None, Some(*owner)),
        Scope::Session(id) | Scope::Path { session: id, .. } => {
            let Some(session) = session::find(db, *id)? else { return Ok(None) };
            let owner = session.owner;
            (Some(session), Some(owner))
        }
    };
    if let Some(session) = &first
        && let Some(reference) = in_session(db, session, handle)?
    {
        return Ok(Some(reference));
    }
    let mut fault = None;
    for row in rows_with(db, handle)? {
        match in_row(db, row, owner, handle) {
            Ok(None) => {}
            Ok(found) => return Ok(found),
            Err(other) => fault = Some(other),
        }
    }
    // Damage in one session is of no concern to another.
    match fault {
        Some(fault) if first.is_none() => Err(fault),
        _ => Ok(None),
    }
}

/// The sessions that have a handle, oldest first.
fn rows_with(db: &Connection, handle: Handle) -> Result<Vec<i64>, Fault> {
    let mut select =
        db.prepare_cached("SELECT session FROM reference WHERE handle = ?1 ORDER BY 1")?;
    let rows = select.query_map([letters(handle)], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn in_row(
    db: &Connection,
    row: i64,
    owner: Option<Owner>,
    handle: Handle,
) -> Result<Option<Reference>, Fault> {
    match session::by_row(db, row)? {
        Some(session) if owner.is_none_or(|owner| session.owner == owner) => {
            in_session(db, &session, handle)
        }
        _ => Ok(None),
    }
}

fn in_session(
    db: &Connection,
    session: &Session,
    handle: Handle,
) -> Result<Option<Reference>, Fault> {
    let mut select =
        db.prepare_cached("SELECT batch FROM reference WHERE handle = ?1 AND session = ?2")?;
    let number = select.query_row((letters(handle), session.row), |row| unsigned(row, 0));
    let Some(number) = number.optional()? else { return Ok(None) };
    let damaged = || damaged(session, &handle.to_string(), "failed its checksum");
    let batch = batch::by_number(db, session, number)?.decoded(true).ok_or_else(damaged)?;
    let session = session.id;
    Ok(Some(match codec::target(&batch.batch, handle).ok_or_else(damaged)? {
        Target::Part(place) => Reference::Part { session, place },
        Target::Fold(fold) => Reference::Fold { session, batch: number, fold },
        Target::Variant(original) => Reference::Variant { session, original },
    }))
}

pub(super) fn damaged(session: &Session, handle: &str, detail: &str) -> Fault {
    session.damage(DamagedPart::Reference(handle.to_owned()), detail)
}
