//! Entries without their bodies.

use std::ops::Range;

use longhand_core::session::Fork;
use longhand_core::{Link, Seq};
use rusqlite::{Connection, OptionalExtension as _};

use super::entry::{self, StoredEntry};
use super::fault::{Fault, illegible_as};
use super::seal::Seal;
use super::session::{StoredSession, optional, signed, unsigned};

/// An entry's place in the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredNode {
    pub(super) seq: u64,
    pub(super) parent: Option<u64>,
    /// How many entries are before it on its path, without the silent ones: however many of those a client
    /// sends back, a link has one depth.
    pub(super) depth: u64,
    pub(super) round: u64,
    pub(super) link: Link,
    pub(super) seal: Seal,
}

impl From<&StoredNode> for crate::Node {
    fn from(node: &StoredNode) -> Self {
        let (seq, parent) = (Seq(node.seq), node.parent.map(Seq));
        Self { seq, parent, link: node.link, round: node.round }
    }
}

/// Reads an entry's place, checked; its body is not read.
pub(super) fn node(
    db: &Connection,
    session: &StoredSession,
    seq: u64,
) -> Result<StoredNode, Fault> {
    let mut select = db.prepare_cached(entry::SELECT_WITHOUT_RAW)?;
    let found = select.query_row((session.row, signed(seq)), StoredEntry::read).optional();
    let stored = found
        .map_err(illegible_as(|| entry::damaged(session, seq)))?
        .ok_or_else(|| entry::missing(session, seq))?;
    if !stored.has_right_seal(session) || stored.node.seq != seq {
        return Err(entry::damaged(session, seq));
    }
    Ok(stored.node)
}

/// See [`crate::Storage::nodes`].
pub(super) fn nodes(
    db: &Connection,
    session: &StoredSession,
    seqs: &[Range<u64>],
) -> Result<Vec<crate::Node>, Fault> {
    let mut nodes = Vec::new();
    entry::each(db, session, entry::SELECT_RANGE_WITHOUT_RAW, seqs, |seq, stored| {
        if !stored.has_right_seal(session) {
            return Err(entry::damaged(session, seq));
        }
        nodes.push(crate::Node::from(&stored.node));
        Ok(())
    })?;
    Ok(nodes)
}

/// The entries from a number on that do not follow the one with the number before.
pub(super) fn forks(
    db: &Connection,
    session: &StoredSession,
    since: u64,
) -> Result<Vec<Fork>, Fault> {
    let sql = "SELECT seq, parent, link FROM entry INDEXED BY entry_fork \
               WHERE session = ?1 AND parent IS NOT seq - 1 AND seq >= ?2 ORDER BY seq";
    let mut select = db.prepare_cached(sql)?;
    let mut rows = select.query((session.row, signed(since)))?;
    let mut forks = Vec::new();
    while let Some(row) = rows.next()? {
        let read = || {
            let (first, parent) = (Seq(unsigned(row, 0)?), optional(row, 1)?.map(Seq));
            Ok(Fork { first, parent, link: Link(u128::from_be_bytes(row.get(2)?)) })
        };
        forks.push(read().map_err(illegible_as(|| entry::damaged(session, since)))?);
    }
    Ok(forks)
}

/// The depth of an entry that follows `parent`.
pub(super) fn depth_after(parent: &StoredNode) -> u64 {
    parent.depth + u64::from(!parent.link.is_silent())
}
