//! The tree of a session's entries, and the way from an entry to those before it.
//!
//! Besides its parent every entry knows one ancestor farther up, its *jump*. The lengths of the jumps
//! depend on the depth alone and follow the skew binary numbers (Myers, "An applicative random-access
//! stack", 1983), so that any ancestor is reached in a number of steps that grows with the logarithm of
//! the depth. Any ancestor would do for a jump; a short one only costs time.

use longhand_core::{Link, Seq};
use rusqlite::{Connection, OptionalExtension as _};

use super::entry::{self, StoredEntry};
use super::fault::{Fault, illegible_as};
use super::seal::Seal;
use super::session::{self, Session, signed, unsigned};
use crate::SessionId;

/// An entry's place in the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) seq: u64,
    pub(super) parent: Option<u64>,
    pub(super) jump: Option<u64>,
    /// How many entries are before it on its path, without the silent ones: however many of those a client
    /// sends back, a link has one depth.
    pub(super) depth: u64,
    pub(super) round: u64,
    pub(super) link: Link,
    pub(super) seal: Seal,
}

/// Reads an entry's place, checked; its body is not read.
pub(super) fn node(db: &Connection, session: &Session, seq: u64) -> Result<Node, Fault> {
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

/// The link that what follows an entry goes on from: that of the newest entry that is not silent.
pub(super) fn chained(
    db: &Connection,
    session: &Session,
    entry: Option<&Node>,
) -> Result<Link, Fault> {
    let mut at = entry.cloned();
    while let Some(own) = &at {
        if !own.link.is_silent() {
            return Ok(own.link);
        }
        at = own.parent.map(|parent| node(db, session, parent)).transpose()?;
    }
    Ok(session.owner.root())
}

/// Finds the entry with a link that follows another one, or only silent ones after it.
pub(super) fn child(
    db: &Connection,
    session: &Session,
    parent: Option<u64>,
    link: Link,
) -> Result<Option<Node>, Fault> {
    match direct_child(db, session, parent, link)? {
        None => Ok(children(db, session, parent, link)?.into_iter().next()),
        found => Ok(found),
    }
}

/// Finds all entries with a link that follow another one, or only silent ones after it.
///
/// The direct child comes first, then what follows the oldest silent one.
pub(super) fn children(
    db: &Connection,
    session: &Session,
    parent: Option<u64>,
    link: Link,
) -> Result<Vec<Node>, Fault> {
    let mut found = Vec::new();
    let mut parents = vec![parent];
    while let Some(parent) = parents.pop() {
        found.extend(direct_child(db, session, parent, link)?);
        if !link.is_silent() {
            parents.extend(silent_children(db, session, parent)?.into_iter().map(Some));
        }
    }
    Ok(found)
}

/// The silent entries that follow another one, newest first.
fn silent_children(
    db: &Connection,
    session: &Session,
    parent: Option<u64>,
) -> Result<Vec<u64>, Fault> {
    // The lowest bit of a link marks what is silent.
    let mut select = db.prepare_cached(
        "SELECT seq FROM entry WHERE session = ?1 AND seq = ?2 AND parent IS ?3 \
         AND substr(hex(link), 32) IN ('1', '3', '5', '7', '9', 'B', 'D', 'F') \
         UNION ALL SELECT seq FROM entry WHERE session = ?1 AND parent IS ?3 \
         AND parent IS NOT seq - 1 \
         AND substr(hex(link), 32) IN ('1', '3', '5', '7', '9', 'B', 'D', 'F')",
    )?;
    let next = parent.map_or(0, |parent| parent + 1);
    let rows = select
        .query_map((session.row, signed(next), parent.map(signed)), |row| unsigned(row, 0))?;
    let mut silent: Vec<u64> = rows.collect::<Result<_, _>>()?;
    silent.sort_unstable_by(|one, other| other.cmp(one));
    // The first root is found both ways.
    silent.dedup();
    Ok(silent)
}

/// Finds the child of an entry, or the root, that has a link.
fn direct_child(
    db: &Connection,
    session: &Session,
    parent: Option<u64>,
    link: Link,
) -> Result<Option<Node>, Fault> {
    // Nearly always it comes right after its parent.
    let mut select = db.prepare_cached(
        "SELECT seq FROM entry WHERE session = ?1 AND seq = ?2 AND parent IS ?3 AND link = ?4 \
         UNION ALL SELECT seq FROM entry WHERE session = ?1 AND parent IS ?3 AND link = ?4 \
         AND parent IS NOT seq - 1 LIMIT 1",
    )?;
    let next = parent.map_or(0, |parent| parent + 1);
    let found = select
        .query_row((session.row, signed(next), parent.map(signed), link.0.to_be_bytes()), |row| {
            unsigned(row, 0)
        });
    found.optional()?.map(|seq| node(db, session, seq)).transpose()
}

/// The newest entry up to `limit` on the path to a node.
pub(super) fn ancestor(
    db: &Connection,
    session: &Session,
    from: &Node,
    limit: u64,
) -> Result<Option<Node>, Fault> {
    let mut at = from.clone();
    while at.seq > limit {
        let next = match (at.jump, at.parent) {
            (Some(jump), _) if jump >= limit => jump,
            (_, Some(parent)) => parent,
            (_, None) => return Ok(None),
        };
        at = node(db, session, next)?;
    }
    Ok(Some(at))
}

/// See [`crate::Archive::tree`].
pub(super) fn all(db: &Connection, id: SessionId) -> Result<Vec<crate::Node>, Fault> {
    let Some(session) = session::find(db, id)? else { return Ok(Vec::new()) };
    let entries = session.state.entries;
    let mut select = db.prepare_cached(entry::SELECT_ALL_WITHOUT_RAW)?;
    let mut rows = select.query((session.row, signed(entries)))?;
    let mut nodes = Vec::new();
    for seq in 0..entries {
        let row = rows.next()?.ok_or_else(|| entry::missing(&session, seq))?;
        let damaged = || entry::damaged(&session, seq);
        let stored = StoredEntry::read(row).map_err(illegible_as(damaged))?;
        if stored.node.seq != seq {
            return Err(entry::missing(&session, seq));
        }
        if !stored.has_right_seal(&session) {
            return Err(damaged());
        }
        let Node { parent, link, .. } = stored.node;
        nodes.push(crate::Node { seq: Seq(seq), parent: parent.map(Seq), link });
    }
    Ok(nodes)
}

/// The depth of an entry that follows `parent`.
pub(super) fn depth_after(parent: &Node) -> u64 {
    parent.depth + u64::from(!parent.link.is_silent())
}

/// The jump of an entry that follows `parent`.
pub(super) fn jump_after(db: &Connection, session: &Session, parent: &Node) -> u64 {
    if parent.link.is_silent() {
        // Both have the same depth.
        return parent.jump.unwrap_or(parent.seq);
    }
    let length = jump_length(parent.depth + 1);
    if length == 1 {
        return parent.seq;
    }
    // As many entries before it as there are numbers: its path is all of them, in their order.
    if parent.seq == parent.depth {
        return parent.seq + 1 - length;
    }
    // An old entry that is damaged must not keep new ones from being appended.
    let far = parent.jump.and_then(|jump| node(db, session, jump).ok());
    far.and_then(|far| far.jump).unwrap_or(parent.seq)
}

/// The smallest summand of a depth written with as few numbers of the form 2ⁿ − 1 as possible.
fn jump_length(depth: u64) -> u64 {
    let mut rest = depth;
    loop {
        let summand = (1 << (rest + 1).ilog2()) - 1;
        rest -= summand;
        if rest == 0 {
            return summand;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The jump of an entry whose length is more than 1 is the jump of the jump of its parent.
    #[test]
    fn jumps_join_two_of_the_same_length() {
        for depth in 1..5_000_u64 {
            let length = jump_length(depth);
            if length > 1 {
                let parent = depth - 1;
                let far = parent - jump_length(parent);
                assert_eq!(far - jump_length(far), depth - length, "{depth}");
            }
        }
    }

    #[test]
    fn every_ancestor_is_near() {
        let steps = |mut depth: u64, goal: u64| {
            let mut count = 0;
            while depth > goal {
                let jump = depth - jump_length(depth);
                depth = if jump >= goal { jump } else { depth - 1 };
                count += 1;
            }
            count
        };
        let farthest = (0..100_000).step_by(37).map(|goal| steps(100_000, goal)).max();
        assert!(farthest <= Some(3 * 17), "{farthest:?}");
    }
}
