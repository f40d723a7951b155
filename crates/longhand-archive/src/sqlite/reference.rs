//! What handles stand for: parts and folds that batches name, and texts that the proxy keeps.

use longhand_core::Handle;
use rusqlite::{Connection, OptionalExtension as _, Row};

use super::batch;
use super::fault::{Fault, illegible_as};
use super::seal::{Seal, Sealer};
use super::session::{self, Session, signed, unsigned};
use crate::codec::{self, Target, letters};
use crate::{DamagedPart, Form, Owner, Reference, Scope, SessionId};

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
    let mut select = db.prepare_cached(
        "SELECT session FROM reference WHERE handle = ?1 \
         UNION SELECT session FROM kept WHERE handle = ?1 ORDER BY 1",
    )?;
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
    let Some(number) = number.optional()? else { return in_kept(db, session, handle) };
    let damaged = || damaged(session, &handle.to_string(), "failed its checksum");
    let batch = batch::by_number(db, session, number)?.decoded(true).ok_or_else(damaged)?;
    let session = session.id;
    Ok(Some(match codec::target(&batch.batch, handle).ok_or_else(damaged)? {
        Target::Part(place) => Reference::Part { session, place },
        Target::Fold(fold) => Reference::Fold { session, batch: number, fold },
    }))
}

pub(super) fn damaged(session: &Session, handle: &str, detail: &str) -> Fault {
    session.damage(DamagedPart::Reference(handle.to_owned()), detail)
}

// What follows is the proxy's own, until its edits are batches.

/// See [`crate::Archive::keep`].
pub(super) fn keep(
    db: &Connection,
    id: SessionId,
    originals: &[(Handle, String, Form)],
) -> Result<usize, Fault> {
    let session = session::require(db, id)?;
    let mut refused = 0;
    for (handle, text, form) in originals {
        let kept = StoredText { form: form_number(*form), text: text.clone() };
        let seal = kept.right_seal(session.id, &letters(*handle));
        let inserted = db
            .prepare_cached(
                "INSERT OR IGNORE INTO kept (session, handle, form, seal, text) \
                 VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute((session.row, letters(*handle), kept.form, seal, text))?;
        let is_kept = inserted > 0
            || in_kept(db, &session, *handle)?.is_some_and(|known| {
                matches!(known, Reference::Kept { form: known_form, text: known_text, .. }
                    if known_form == *form && known_text == *text)
            });
        refused += usize::from(!is_kept);
    }
    Ok(refused)
}

fn in_kept(db: &Connection, session: &Session, handle: Handle) -> Result<Option<Reference>, Fault> {
    let mut select =
        db.prepare_cached("SELECT form, seal, text FROM kept WHERE handle = ?1 AND session = ?2")?;
    let damaged = || damaged(session, &handle.to_string(), "failed its checksum");
    let found = select.query_row((letters(handle), session.row), StoredText::read).optional();
    let found = found.map_err(illegible_as(damaged))?;
    let Some((kept, seal)) = found else { return Ok(None) };
    if kept.right_seal(session.id, &letters(handle)) != seal {
        return Err(damaged());
    }
    let form = match kept.form {
        0 => Form::Text,
        1 => Form::Json,
        _ => return Err(damaged()),
    };
    Ok(Some(Reference::Kept { session: session.id, form, text: kept.text }))
}

/// A kept text as it is stored.
pub(super) struct StoredText {
    form: i64,
    text: String,
}

impl StoredText {
    pub(super) fn read(row: &Row<'_>) -> Result<(Self, Seal), rusqlite::Error> {
        Ok((Self { form: row.get(0)?, text: row.get(2)? }, row.get(1)?))
    }

    pub(super) fn right_seal(&self, session: SessionId, handle: &str) -> Seal {
        Sealer::new("kept")
            .bytes(&session.to_bytes())
            .bytes(handle.as_bytes())
            .time(self.form)
            .bytes(self.text.as_bytes())
            .seal()
    }
}

fn form_number(form: Form) -> i64 {
    match form {
        Form::Text => 0,
        Form::Json => 1,
    }
}
