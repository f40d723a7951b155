//! Bringing back what a window left out.

use longhand_archive::{Archive, Entry, Reference, Scope, SessionId};
use longhand_core::json::quote;
use longhand_core::{Arguments, Fold, Handle, Message, Original, Place, Seq, content, find_fold};
use longhand_dialect::{Conversation, Dialect};

use crate::SessionError;
use crate::entry::{Form, messages};
pub use crate::past::{
    Past, RecallAnswer, RecallAnswer as Found, RecallKind, RecallOutcome, UNREADABLE,
};
pub use crate::quote::role;

/// What a handle stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recalled {
    /// The session that has it.
    pub session: SessionId,
    /// The content.
    pub original: Original,
    /// The format of the messages in it, where it is messages.
    pub dialect: Option<Dialect>,
    /// The entries of a fold; empty for a part of an entry.
    pub entries: Vec<Entry>,
}

/// Opens a handle in an archive; `None` if nothing within the scope has it.
///
/// A handle has few bits, so what is found is checked to be what the handle names.
pub fn open(
    archive: &dyn Archive,
    scope: &Scope,
    handle: Handle,
) -> Result<Option<Recalled>, SessionError> {
    let recalled = match archive.reference(scope, handle)? {
        None => return Ok(None),
        Some(Reference::Variant { session, original }) => {
            Some(Recalled { session, original, dialect: None, entries: Vec::new() })
        }
        Some(Reference::Part { session, place }) => {
            let part = part(archive, session, place)?;
            part.map(|(dialect, original)| Recalled {
                session,
                original,
                dialect: Some(dialect),
                entries: Vec::new(),
            })
        }
        Some(Reference::Fold { session, fold, .. }) => Some(folded(archive, session, &fold)?),
    };
    Ok(recalled.filter(|recalled| names(handle, recalled)))
}

/// Reads a part of an entry; `None` if there is no such part.
pub fn part(
    archive: &dyn Archive,
    session: SessionId,
    place: Place,
) -> Result<Option<(Dialect, Original)>, SessionError> {
    let found = message(archive, session, place.entry)?;
    Ok(found.and_then(|(dialect, message)| {
        Some((dialect, content(&message.parts[message.part_index(place.part)?])))
    }))
}

/// The arguments of an entry's calls, to compare with what a client sends back; `None` if they cannot be read.
pub fn arguments(archive: &dyn Archive, session: SessionId, entry: Seq) -> Option<Arguments> {
    let (_, message) = message(archive, session, entry).ok().flatten()?;
    Some(Arguments::of(&message))
}

/// Reads the message of an entry.
fn message(
    archive: &dyn Archive,
    session: SessionId,
    entry: Seq,
) -> Result<Option<(Dialect, Message)>, SessionError> {
    let entries = archive.entries(session, entry.0..entry.0 + 1)?;
    Ok(entries.first().and_then(|entry| {
        let Form::Message(dialect) = Form::parse(&entry.form)? else { return None };
        Some((dialect, messages(dialect, &entry.raw).into_iter().next()?))
    }))
}

/// Reads what a fold replaced: earlier blocks first, then its entries, a line each.
fn folded(
    archive: &dyn Archive,
    session: SessionId,
    fold: &Fold,
) -> Result<Recalled, SessionError> {
    let mut lines = Vec::new();
    for place in &fold.blocks {
        let block = part(archive, session, *place)?;
        lines.extend(block.map(|(_, block)| quote(block.as_str())));
    }
    let mut entries = Vec::new();
    for span in &fold.spans {
        let range = span.first.0..span.last.0 + 1;
        entries.extend(archive.path(session, Some(span.last), range)?);
    }
    let is_message = |entry: &Entry| matches!(Form::parse(&entry.form), Some(Form::Message(_)));
    lines.extend(entries.iter().filter(|entry| is_message(entry)).map(|entry| entry.raw.clone()));
    let dialect = entries.iter().find_map(|entry| entry.form.parse().ok());
    Ok(Recalled { session, original: Original::Json(lines.join("\n")), dialect, entries })
}

/// Whether a content is what a handle names.
fn names(handle: Handle, recalled: &Recalled) -> bool {
    let of_part = Handle::of([recalled.original.as_str()]) == handle;
    of_part || !recalled.entries.is_empty()
}

/// Opens a handle in the conversation that a window was made from.
///
/// A handle of a part is the hash of its content, and that of a fold the sum of those of its messages.
pub fn open_from(conversation: &Conversation, handle: Handle) -> Option<Original> {
    let path = conversation.path();
    for message in path.messages {
        for part in &message.parts {
            let original = content(part);
            if Handle::of([original.as_str()]) == handle {
                return Some(original);
            }
        }
    }
    let (blocks, folded) = find_fold(&path, conversation.wire(), handle)?;
    let blocks = blocks.iter().map(|(at, part)| &path.messages[*at].parts[*part]);
    let blocks = blocks.map(|part| quote(content(part).as_str()));
    let raws = folded.iter().map(|at| path.messages[*at].raw.raw().to_owned());
    let lines: Vec<String> = blocks.chain(raws).collect();
    Some(Original::Json(lines.join("\n")))
}
