//! Which session of an owner has a name.

use longhand_archive::{Archive, ArchiveError, Owner, Page, SessionFilter, SessionId, wait};

/// The session that has a name now, or else the id of a new one.
///
/// Several may have it, if an archive was put together from others: then the one that began with it, or that was spoken
/// in last.
pub(crate) fn called(
    archive: &dyn Archive,
    owner: Owner,
    name: &str,
) -> Result<SessionId, ArchiveError> {
    let filter = SessionFilter::Named(name.to_owned());
    let mut found = wait(archive.list_sessions(filter, Page::ALL))?.items;
    found.retain(|info| info.owner == owner);
    let first = SessionId::named(owner, name);
    let began_so = found.iter().find(|info| info.id == first);
    match began_so.or_else(|| found.first()) {
        Some(info) => Ok(info.id),
        None => free_id(archive, owner, name),
    }
}

/// The id of a new session with a name that no session has.
///
/// It follows from the name, so that processes that begin the session at the same time begin one. If a session that was
/// renamed has that id, a number behind the name makes another.
pub(crate) fn free_id(
    archive: &dyn Archive,
    owner: Owner,
    name: &str,
) -> Result<SessionId, ArchiveError> {
    let mut id = SessionId::named(owner, name);
    let mut number = 1;
    while archive.session(id)?.is_some_and(|info| info.name != name) {
        number += 1;
        id = SessionId::named(owner, &format!("{name}\n{number}"));
    }
    Ok(id)
}
