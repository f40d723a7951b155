//! Conversations that are found again.

use longhand_core::Link;
use longhand_core::Seq;
use rusqlite::Connection;

use super::fault::Fault;
use super::session::{self, Session, signed};
use super::tree::{self, Node};
use crate::{Found, Owner};

/// Of each path, entries with a depth that is a multiple of this are in the index.
const STRIDE: usize = 8;

/// See [`crate::Archive::find_path`].
///
/// A link stands for everything before it, so that whoever knows one knows all before it. Silent entries
/// do not count for the depth, so that a link has the same depth wherever it is. The newest indexed one
/// that is known is found by halving, and from there the paths are followed child by child.
pub(super) fn find(db: &Connection, owner: Owner, links: &[Link]) -> Result<Option<Found>, Fault> {
    let mut best: Vec<(Session, Node)> = Vec::new();
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
    let mut found = Vec::new();
    for (session, node) in best {
        let (ends, known) = follow(db, &session, node, &links[depth..])?;
        let known = depth + known;
        for end in ends {
            let order = row_of(db, &session, &end)?;
            found.push((order, Found { session: session.id, seq: Seq(end.seq), known }));
        }
    }
    let best = found.into_iter().max_by_key(|(order, found)| (found.known, *order));
    Ok(best.map(|(_, found)| found))
}

/// Follows paths from the entry with the first link; returns the last entries and how many links they have.
///
/// Paths that differ only in silent entries have the same links.
fn follow(
    db: &Connection,
    session: &Session,
    from: Node,
    links: &[Link],
) -> Result<(Vec<Node>, usize), Fault> {
    let mut ends = vec![from];
    let mut known = 1;
    for link in &links[1..] {
        let mut next = Vec::new();
        for end in &ends {
            match tree::children(db, session, Some(end.seq), *link) {
                Ok(children) => next.extend(children),
                Err(Fault::Damage(_)) => {}
                Err(fault) => return Err(fault),
            }
        }
        if next.is_empty() {
            break;
        }
        ends = next;
        known += 1;
    }
    Ok((ends, known))
}

/// The sound entries with a link in sound sessions of an owner; only links in the index are found.
fn by_link(db: &Connection, owner: Owner, link: Link) -> Result<Vec<(Session, Node)>, Fault> {
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

/// The row of an entry, which tells the order of arrival.
fn row_of(db: &Connection, session: &Session, node: &Node) -> Result<i64, Fault> {
    let mut select = db.prepare_cached("SELECT id FROM entry WHERE session = ?1 AND seq = ?2")?;
    Ok(select.query_row((session.row, signed(node.seq)), |row| row.get(0))?)
}
