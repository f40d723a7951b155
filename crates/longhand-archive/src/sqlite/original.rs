//! Originals: what handles stand for.

use longhand_core::Handle;
use rusqlite::{Connection, Row};

use super::entry;
use super::fault::Fault;
use super::seal::{Seal, Sealer};
use super::session::{self, Session, signed};
use crate::{ArchiveError, Content, Damage, DamagedPart, Form, Original};

/// Stands for no session.
const NOBODY: i64 = 0;

/// See [`crate::Archive::keep`].
pub(super) fn keep(db: &Connection, originals: &[(Handle, Original)]) -> Result<(), Fault> {
    for (handle, original) in originals {
        keep_one(db, *handle, original)?;
    }
    Ok(())
}

pub(super) fn keep_one(db: &Connection, handle: Handle, original: &Original) -> Result<(), Fault> {
    let owner = match &original.session {
        Some(name) => Some(session::require(db, name)?),
        None => None,
    };
    if let Content::Entries(range) = &original.content {
        owner.as_ref().ok_or(ArchiveError::NoSession { handle })?.require(range)?;
    }
    let kept = kept(db, handle)?;
    for other in &kept {
        let other = opened(db, handle, other)?;
        if other.form != original.form || !is_same(db, original, &other)? {
            return Err(ArchiveError::HandleTaken { handle }.into());
        }
    }
    let owner_id = owner.as_ref().map_or(NOBODY, |owner| owner.id);
    if kept.iter().any(|other| other.owner == owner_id) {
        return Ok(());
    }
    let (range, text) = match &original.content {
        Content::Text(text) => (None, Some(text)),
        Content::Entries(range) => (Some(range), None),
    };
    let mut insert = db.prepare_cached(
        "INSERT INTO original (handle, session, form, first, end, seal, text) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    insert.execute((
        handle.to_string(),
        owner_id,
        form_number(original.form),
        range.map(|range| signed(range.start)),
        range.map(|range| signed(range.end)),
        seal(db, handle, owner.as_ref(), original.form, &original.content)?,
        text,
    ))?;
    Ok(())
}

/// See [`crate::Archive::expand`].
pub(super) fn expand(db: &Connection, handle: Handle) -> Result<Option<Original>, Fault> {
    let mut fault = None;
    for row in kept(db, handle)? {
        match opened(db, handle, &row) {
            Ok(original) => return Ok(Some(original)),
            Err(other) => fault = Some(other),
        }
    }
    fault.map_or(Ok(None), Err)
}

/// See [`crate::Archive::expand_in`].
pub(super) fn expand_in(
    db: &Connection,
    session: &str,
    handle: Handle,
) -> Result<Option<Original>, Fault> {
    for row in kept(db, handle)? {
        if session::by_id(db, row.owner)?.is_some_and(|owner| owner.name == session) {
            return opened(db, handle, &row).map(Some);
        }
    }
    Ok(None)
}

/// An original as it is stored.
pub(super) struct Kept {
    pub(super) owner: i64,
    form: i64,
    content: Option<Content>,
    seal: Seal,
}

/// The rows under a handle, oldest first; those of removed sessions are none.
fn kept(db: &Connection, handle: Handle) -> Result<Vec<Kept>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT session, form, first, end, seal, text FROM original WHERE handle = ?1 AND \
         (session = 0 OR EXISTS (SELECT 1 FROM session AS owner WHERE owner.id = \
         original.session AND owner.key IS NOT NULL)) ORDER BY original.id",
    )?;
    let rows = select.query_map([handle.to_string()], stored)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn stored(row: &Row<'_>) -> Result<Kept, rusqlite::Error> {
    let (first, end): (Option<i64>, Option<i64>) = (row.get(2)?, row.get(3)?);
    let content = match (row.get(5)?, first, end) {
        (Some(text), None, None) => Some(Content::Text(text)),
        (None, Some(first), Some(end)) if 0 <= first && first <= end => {
            Some(Content::Entries(first.cast_unsigned()..end.cast_unsigned()))
        }
        _ => None,
    };
    Ok(Kept { owner: row.get(0)?, form: row.get(1)?, content, seal: row.get(4)? })
}

/// Checks a stored original and gives it back.
pub(super) fn opened(db: &Connection, handle: Handle, kept: &Kept) -> Result<Original, Fault> {
    let owner = match kept.owner {
        NOBODY => None,
        id => session::by_id(db, id)?,
    };
    let name = owner.as_ref().map(|owner| owner.name.clone());
    let damaged = |detail: &str| {
        let part = DamagedPart::Original(handle.to_string());
        Fault::Damage(Damage { session: name.clone(), part, detail: detail.to_owned() })
    };
    let form = match kept.form {
        0 => Form::Text,
        1 => Form::Json,
        _ => return Err(damaged("failed its checksum")),
    };
    if kept.owner != NOBODY && owner.is_none() {
        return Err(damaged("belongs to no session"));
    }
    let content = kept.content.clone().ok_or_else(|| damaged("failed its checksum"))?;
    if let (Content::Entries(range), Some(owner)) = (&content, &owner)
        && range.end > owner.state.entries
    {
        return Err(damaged("cites entries that are not there"));
    }
    if seal(db, handle, owner.as_ref(), form, &content)? != kept.seal {
        return Err(damaged("failed its checksum"));
    }
    Ok(Original { session: name.clone(), form, content })
}

/// For entries, the link before the last one's successor stands for all of them.
fn seal(
    db: &Connection,
    handle: Handle,
    owner: Option<&Session>,
    form: Form,
    content: &Content,
) -> Result<Seal, Fault> {
    let sealer = Sealer::new("original")
        .bytes(handle.to_string().as_bytes())
        .bytes(owner.map_or(&[], |owner| &owner.key[..]))
        .number(form_number(form).cast_unsigned());
    Ok(match (content, owner) {
        (Content::Text(text), _) => sealer.number(0).bytes(text.as_bytes()).seal(),
        (Content::Entries(_), None) => return Err(ArchiveError::NoSession { handle }.into()),
        (Content::Entries(range), Some(owner)) => sealer
            .number(1)
            .number(range.start)
            .number(range.end)
            .bytes(&entry::link_before(db, owner, range.end)?)
            .seal(),
    })
}

/// Says whether two originals have the same text.
fn is_same(db: &Connection, one: &Original, other: &Original) -> Result<bool, Fault> {
    if let (Content::Entries(range), Content::Entries(other_range)) = (&one.content, &other.content)
        && one.session == other.session
        && range == other_range
    {
        return Ok(true);
    }
    Ok(text(db, one)? == text(db, other)?)
}

fn text(db: &Connection, original: &Original) -> Result<String, Fault> {
    match (&original.content, &original.session) {
        (Content::Text(text), _) => Ok(text.clone()),
        (Content::Entries(range), Some(session)) => {
            let entries = entry::entries(db, session, range.clone())?;
            let raws: Vec<&str> = entries.iter().map(|entry| entry.raw.as_str()).collect();
            Ok(raws.join("\n"))
        }
        (Content::Entries(_), None) => Ok(String::new()),
    }
}

fn form_number(form: Form) -> i64 {
    match form {
        Form::Text => 0,
        Form::Json => 1,
    }
}
