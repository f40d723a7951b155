//! Bringing back what a window left out.

use std::ops::Range;

use longhand_archive::ask::RoundEntries;
use longhand_archive::{
    Archive, ArchiveError, Entry, Page, Reference, Scope, SessionFilter, SessionId, ask, wait,
};
use longhand_core::json::quote;
use longhand_core::{Fold, Handle, Message, Original, Place, Seq, content, find_fold};
use longhand_dialect::{Conversation, Dialect};
use rustc_hash::FxHashMap;

use crate::SessionError;
pub use crate::app::for_models::UNREADABLE;
pub use crate::app::past::{Past, RecallAnswer, RecallKind, RecallOutcome, RecallReach, TOOL};
use crate::entry::{Form, messages};
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
    Ok(wait(open_async(archive, scope, handle))?)
}

/// The same for whoever must not wait.
pub async fn open_async(
    archive: &dyn Archive,
    scope: &Scope,
    handle: Handle,
) -> Result<Option<Recalled>, ArchiveError> {
    let recalled = match ask::reference(archive, scope, handle).await? {
        None => return Ok(None),
        Some(Reference::Variant { session, original }) => {
            Some(Recalled { session, original, dialect: None, entries: Vec::new() })
        }
        Some(Reference::Part { session, place }) => {
            let part = read_part(archive, session, place).await?;
            part.map(|(dialect, original)| Recalled {
                session,
                original,
                dialect: Some(dialect),
                entries: Vec::new(),
            })
        }
        Some(Reference::Fold { session, fold, .. }) => Some(folded(archive, session, &fold).await?),
    };
    Ok(recalled.filter(|recalled| names(handle, recalled)))
}

/// Reads one round of a fold, and nothing else of it; `None` if nothing within the scope has the handle, or what has it is
/// no fold.
pub fn open_round(
    archive: &dyn Archive,
    scope: &Scope,
    handle: Handle,
    round: u64,
) -> Result<Option<RoundEntries>, SessionError> {
    let Some(Reference::Fold { session, fold, .. }) = wait(ask::reference(archive, scope, handle))?
    else {
        return Ok(None);
    };
    let mut found: Option<RoundEntries> = None;
    for span in &fold.spans {
        let range = span.first.0..span.last.0 + 1;
        let of_span = wait(ask::round(archive, session, span.last, range, round))?;
        found = match (found, of_span) {
            (Some(before), Some(after)) => Some(RoundEntries {
                entries: [before.entries, after.entries].concat(),
                rounds: *before.rounds.start()..=*after.rounds.end(),
            }),
            (before, after) => before.or(after),
        };
    }
    Ok(found)
}

/// Reads a part of an entry; `None` if there is no such part.
pub fn part(
    archive: &dyn Archive,
    session: SessionId,
    place: Place,
) -> Result<Option<(Dialect, Original)>, SessionError> {
    Ok(wait(read_part(archive, session, place))?)
}

async fn read_part(
    archive: &dyn Archive,
    session: SessionId,
    place: Place,
) -> Result<Option<(Dialect, Original)>, ArchiveError> {
    let found = read_messages(archive, session, &[place.entry]).await?.remove(&place.entry);
    Ok(found.and_then(|(dialect, message)| {
        Some((dialect, content(&message.parts[message.part_index(place.part)?])))
    }))
}

/// Messages of entries, with their formats.
pub type EntryMessages = FxHashMap<Seq, (Dialect, Message)>;

/// Reads the messages of entries in one call; those that there are.
pub fn messages_of(
    archive: &dyn Archive,
    session: SessionId,
    entries: &[Seq],
) -> Result<EntryMessages, SessionError> {
    Ok(wait(read_messages(archive, session, entries))?)
}

/// The same for whoever must not wait.
pub async fn read_messages(
    archive: &dyn Archive,
    session: SessionId,
    entries: &[Seq],
) -> Result<EntryMessages, ArchiveError> {
    if entries.is_empty() {
        return Ok(FxHashMap::default());
    }
    let found = archive.list_sessions(SessionFilter::Session(session), Page::first(1)).await?;
    let count = found.items.first().map_or(0, |session| session.entries);
    let mut seqs: Vec<Range<u64>> =
        entries.iter().map(|seq| seq.0..seq.0 + 1).filter(|range| range.end <= count).collect();
    seqs.sort_unstable_by_key(|range| range.start);
    seqs.dedup();
    let records = archive.bodies(session, seqs).await?;
    let messages = records.iter().map(|record| Some((record.entry.seq, said(&record.entry)?)));
    Ok(messages.flatten().collect())
}

/// The message that an entry is; `None` if it is something else.
pub fn said(entry: &Entry) -> Option<(Dialect, Message)> {
    let Form::Message(dialect) = Form::parse(&entry.form)? else { return None };
    Some((dialect, messages(dialect, &entry.raw).into_iter().next()?))
}

/// Reads what a fold replaced: earlier blocks first, then its entries, a line each.
async fn folded(
    archive: &dyn Archive,
    session: SessionId,
    fold: &Fold,
) -> Result<Recalled, ArchiveError> {
    let mut lines = Vec::new();
    for place in &fold.blocks {
        let block = read_part(archive, session, *place).await?;
        lines.extend(block.map(|(_, block)| quote(block.as_str())));
    }
    let mut entries = Vec::new();
    for span in &fold.spans {
        let range = span.first.0..span.last.0 + 1;
        entries.extend(ask::path(archive, session, Some(span.last), range).await?);
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
