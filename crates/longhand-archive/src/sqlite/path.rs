//! Conversations that are found again.

use longhand_core::Link;
use longhand_core::edit::Seq;
use rusqlite::Connection;

use super::fault::Fault;
use super::{session, tree};
use crate::{Found, Owner};

/// See [`crate::Archive::find_path`].
///
/// A link stands for everything before it, so that whoever knows one knows all before it.
pub(super) fn find(db: &Connection, owner: Owner, links: &[Link]) -> Result<Option<Found>, Fault> {
    let mut best = None;
    let (mut known, mut unknown) = (0, links.len() + 1);
    // The last link is the first guess: most conversations go on where they ended, or are new.
    let mut guess = links.len();
    while known + 1 < unknown {
        match by_link(db, owner, links[guess - 1])? {
            Some((session, seq)) => {
                known = guess;
                best = Some(Found { session, seq, known });
            }
            None => unknown = guess,
        }
        guess = known.midpoint(unknown);
    }
    Ok(best)
}

/// The newest sound entry with a link in a sound session of an owner.
fn by_link(
    db: &Connection,
    owner: Owner,
    link: Link,
) -> Result<Option<(crate::SessionId, Seq)>, Fault> {
    let mut select =
        db.prepare_cached("SELECT session FROM entry WHERE link = ?1 ORDER BY id DESC")?;
    let mut rows = select.query([link.0.to_be_bytes()])?;
    while let Some(row) = rows.next()? {
        let found = session::by_row(db, row.get(0)?).and_then(|session| match session {
            Some(session) if session.owner == owner => {
                let node = tree::by_link(db, &session, link)?;
                Ok(node.map(|node| (session.id, Seq(node.seq))))
            }
            _ => Ok(None),
        });
        match found {
            Ok(None) | Err(Fault::Damage(_)) => {}
            found => return found,
        }
    }
    Ok(None)
}
