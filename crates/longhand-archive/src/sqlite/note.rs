//! What is noted beside requests.

use longhand_core::Handle;
use rusqlite::{Connection, Row};

use super::fault::{Fault, illegible_as};
use super::pack;
use super::seal::{Seal, Sealer};
use super::session::{self, StoredSession, signed, unsigned};
use crate::{DamagedPart, Note, SessionId, codec};

/// Adds a note; the session is still to be saved.
pub(super) fn add(db: &Connection, session: &mut StoredSession, note: &Note) -> Result<(), Fault> {
    session.totals.notes += 1;
    let number = session.totals.notes;
    let content = codec::encode_note(&note.content);
    let mut insert = db.prepare_cached(
        "INSERT INTO note (session, number, at_ms, handle, seal, content) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    insert.execute((
        session.row,
        signed(number),
        note.at_ms,
        codec::letters(note.handle),
        right_seal(session.id, number, note.at_ms, note.handle, &content),
        pack::pack(&content),
    ))?;
    Ok(())
}

pub(super) const SELECT_ALL: &str = "SELECT number, at_ms, handle, seal, content FROM note \
                                     WHERE session = ?1 ORDER BY number";

/// The notes of a session, in the order in which they were made.
pub(super) fn of_session(db: &Connection, id: SessionId) -> Result<Vec<(SessionId, Note)>, Fault> {
    let Some(session) = session::find(db, id)? else { return Ok(Vec::new()) };
    let mut select = db.prepare_cached(SELECT_ALL)?;
    let mut rows = select.query([session.row])?;
    let mut notes = Vec::new();
    for number in 1..=session.totals.notes {
        let Some(row) = rows.next()? else { return Err(damaged(&session, number, "is missing")) };
        notes.push((id, checked(&session, number, row)?));
    }
    Ok(notes)
}

/// The notes of all sessions that have a handle. Damaged sessions are skipped.
pub(super) fn with_handle(
    db: &Connection,
    handle: Handle,
) -> Result<Vec<(SessionId, Note)>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT number, at_ms, handle, seal, content, session FROM note WHERE handle = ?1 \
         ORDER BY session, number",
    )?;
    let mut rows = select.query([codec::letters(handle)])?;
    let mut notes = Vec::new();
    while let Some(row) = rows.next()? {
        match session::by_row(db, row.get(5)?) {
            Ok(Some(session)) => {
                notes.push((session.id, checked(&session, unsigned(row, 0)?, row)?));
            }
            Ok(None) | Err(Fault::Damage(_)) => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(notes)
}

/// Reads a note that should have this number.
pub(super) fn checked(session: &StoredSession, number: u64, row: &Row<'_>) -> Result<Note, Fault> {
    let bad = || damaged(session, number, "failed its checksum");
    let read = || {
        let letters: String = row.get(2)?;
        let content = pack::unpack(row.get_ref(4)?.as_blob()?);
        Ok((unsigned(row, 0)?, row.get(1)?, Handle::parse(&letters), row.get(3)?, content))
    };
    let read: (u64, i64, Option<Handle>, Seal, Option<Vec<u8>>) =
        read().map_err(illegible_as(bad))?;
    let (found, at_ms, Some(handle), seal, Some(content)) = read else { return Err(bad()) };
    if found != number {
        return Err(damaged(session, number, "is missing"));
    }
    if right_seal(session.id, number, at_ms, handle, &content) != seal {
        return Err(bad());
    }
    let content = codec::decode_note(&content).ok_or_else(bad)?;
    Ok(Note { at_ms, handle, content })
}

fn right_seal(session: SessionId, number: u64, at_ms: i64, handle: Handle, content: &[u8]) -> Seal {
    Sealer::new("note")
        .bytes(&session.to_bytes())
        .number(number)
        .time(at_ms)
        .bytes(codec::letters(handle).as_bytes())
        .bytes(content)
        .seal()
}

fn damaged(session: &StoredSession, number: u64, detail: &str) -> Fault {
    session.damage(DamagedPart::Note(number), detail)
}
