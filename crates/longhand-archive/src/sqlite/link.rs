//! Finds the known beginning of a conversation by its links.

use longhand_core::Link;
use longhand_core::Seq;
use rusqlite::Connection;

use super::fault::Fault;
use super::session::{self, StoredSession};
use super::tree::{self, StoredNode};
use crate::{KnownPath, Owner};

/// Of each path, entries with a depth that is a multiple of this are in the index.
const STRIDE: usize = 8;

/// See [`crate::Storage::links`].
///
/// A link is a hash of everything before it: if one is known, all before it are. Silent entries do not count for
/// the depth, so a link has the same depth in every session. A binary search finds the last indexed link that is
/// known.
pub(super) fn find(db: &Connection, owner: Owner, links: &[Link]) -> Result<Vec<KnownPath>, Fault> {
    let mut best: Vec<(StoredSession, StoredNode)> = Vec::new();
    let mut depth = 0;
    let (mut known, mut unknown) = (0, links.len().div_ceil(STRIDE) + 1);
    // The last one is the first guess: most conversations go on where they ended.
    let mut guess = unknown - 1;
    while known + 1 < unknown {
        let guessed_depth = (guess - 1) * STRIDE;
        let found = by_link(db, owner, links[guessed_depth])?;
        if found.is_empty() {
            unknown = guess;
        } else {
            known = guess;
            depth = guessed_depth;
            best = found;
        }
        guess = known.midpoint(unknown);
    }
    let found = |(session, node): (StoredSession, StoredNode)| KnownPath {
        session: session.id,
        seq: Seq(node.seq),
        known: depth + 1,
    };
    Ok(best.into_iter().map(found).collect())
}

/// The sound entries with a link in sound sessions of an owner; only links in the index are found.
fn by_link(
    db: &Connection,
    owner: Owner,
    link: Link,
) -> Result<Vec<(StoredSession, StoredNode)>, Fault> {
    let mut select =
        db.prepare_cached("SELECT session, seq FROM entry WHERE link = ?1 AND depth % 8 = 0")?;
    let mut rows = select.query([link.0.to_be_bytes()])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let seq: i64 = row.get(1)?;
        let entry = session::by_row(db, row.get(0)?).and_then(|session| match session {
            Some(session) if session.owner == owner => {
                let node = tree::node(db, &session, seq.cast_unsigned())?;
                Ok(Some((session, node)))
            }
            _ => Ok(None),
        });
        match entry {
            Ok(entry) => found.extend(entry),
            Err(Fault::Damage(_)) => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(found)
}
