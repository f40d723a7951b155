//! Sessions at a glance, listed by activity or looked up.

use rusqlite::{Connection, params};

use super::fault::Fault;
use super::session;
use crate::{Cursor, Listing, Owner, Page, SessionFilter, SessionId, SessionInfo};

/// See [`crate::Storage::list_sessions`].
pub(super) fn sessions(
    db: &Connection,
    of: &SessionFilter,
    page: Page,
) -> Result<Listing<SessionInfo>, Fault> {
    let places = match of {
        SessionFilter::All => {
            let mut places = Vec::new();
            for owner in owners(db)? {
                places.extend(by_activity(db, owner.to_bytes(), page)?);
            }
            with_headless(db, None, page, places)?
        }
        SessionFilter::Owner(owner) => {
            let places = by_activity(db, owner.to_bytes(), page)?;
            with_headless(db, Some(*owner), page, places)?
        }
        SessionFilter::Session(id) => {
            found(db, "session.key = ?1", params![id.to_bytes()], |_| true)?
        }
        SessionFilter::Named(name) => {
            found(db, "session.key IS NOT NULL AND session.name = ?1", params![name], |_| true)?
        }
        SessionFilter::NamePrefix(prefix) => {
            let sql = "session.key IS NOT NULL AND session.name >= ?1 ORDER BY session.name";
            found(db, sql, params![prefix], |name| name.starts_with(prefix.as_str()))?
        }
        SessionFilter::IdPrefix(digits) => match ids(digits) {
            None => Vec::new(),
            Some([first, last]) => {
                let sql = "session.key >= ?1 AND session.key <= ?2";
                found(db, sql, params![first.to_bytes(), last.to_bytes()], |_| true)?
            }
        },
        SessionFilter::Group(group) => {
            let sql = "session.key IS NOT NULL AND session.kin = ?1";
            found(db, sql, params![group.cast_signed()], |_| true)?
        }
        SessionFilter::Continuing(id) => {
            let sql = "session.key IS NOT NULL AND session.continues = ?1";
            found(db, sql, params![id.to_bytes()], |_| true)?
        }
    };
    listed(db, places, page)
}

/// Where a session stands in a list, with its row and its id.
type Place = (Cursor, i64, SessionId);

fn listed(
    db: &Connection,
    mut places: Vec<Place>,
    page: Page,
) -> Result<Listing<SessionInfo>, Fault> {
    places.sort_unstable_by_key(|(place, ..)| std::cmp::Reverse(*place));
    let listing = page.take(places, |(place, ..)| *place);
    let items = listing.items.into_iter().map(|(_, row, id)| session::info_of_row(db, row, id));
    Ok(Listing { items: items.collect::<Result<_, _>>()?, next: listing.next })
}

/// See [`crate::Storage::owners`]. Each is found by one look into the index.
pub(super) fn owners(db: &Connection) -> Result<Vec<Owner>, Fault> {
    let mut select = db.prepare_cached("SELECT min(owner) FROM head WHERE owner > ?1")?;
    let mut owners = Vec::new();
    let mut last: Vec<u8> = Vec::new();
    while let Some(owner) = select.query_row([&last], |row| row.get::<_, Option<Vec<u8>>>(0))? {
        // What is illegible belongs to a damaged session; it is found as one without a head.
        if let Ok(owner) = owner.as_slice().try_into() {
            owners.push(Owner::from_bytes(owner));
        }
        last = owner;
    }
    Ok(owners)
}

/// The sessions of an owner from the beginning of a page on, one more than the page has.
fn by_activity(db: &Connection, owner: [u8; 16], page: Page) -> Result<Vec<Place>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT head.session, session.key, head.newest FROM head \
         CROSS JOIN session ON session.id = head.session AND session.key IS NOT NULL \
         WHERE head.owner = ?1 AND head.newest <= ?2 AND (head.newest, head.session) < (?2, ?3) \
         ORDER BY head.newest DESC, head.session DESC LIMIT ?4",
    )?;
    let after = page.after.map_or((i64::MAX, i64::MAX), |after| {
        (after.major.cast_signed(), after.minor.cast_signed())
    });
    let limit = i64::try_from(page.limit).unwrap_or(i64::MAX).saturating_add(1);
    let rows = select.query_map((owner, after.0, after.1, limit), |row| Ok(place(row)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Adds the sessions whose head is gone or illegible, which come last, if the page gets that far.
fn with_headless(
    db: &Connection,
    owner: Option<Owner>,
    page: Page,
    mut places: Vec<Place>,
) -> Result<Vec<Place>, Fault> {
    if places.len() > page.limit {
        return Ok(places);
    }
    let mut select = db.prepare_cached(
        "SELECT session.id, session.key, 0 FROM session \
         WHERE session.key IS NOT NULL AND (?1 IS NULL OR session.owner = ?1) AND NOT EXISTS \
         (SELECT 1 FROM head WHERE head.session = session.id AND length(head.owner) = 16)",
    )?;
    let rows = select.query_map([owner.map(Owner::to_bytes)], |row| Ok(place(row)))?;
    places.extend(rows.collect::<Result<Vec<Place>, _>>()?);
    Ok(places)
}

/// The sessions that a condition finds, in the order of an index, as far as their names are wanted.
fn found(
    db: &Connection,
    condition: &str,
    parameters: impl rusqlite::Params,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Vec<Place>, Fault> {
    let mut select = db.prepare_cached(&format!(
        "SELECT session.id, session.key, \
         coalesce((SELECT newest FROM head WHERE head.session = session.id), 0), session.name \
         FROM session WHERE {condition}"
    ))?;
    let mut rows = select.query(parameters)?;
    let mut places = Vec::new();
    while let Some(row) = rows.next()? {
        if !is_wanted(row.get_ref(3)?.as_str().unwrap_or_default()) {
            break;
        }
        places.push(place(row));
    }
    Ok(places)
}

fn place(row: &rusqlite::Row<'_>) -> Place {
    let id: i64 = row.get(0).unwrap_or_default();
    // What is not legible any more gets an id that no session has.
    let key: [u8; 16] = row.get(1).unwrap_or_default();
    let newest: i64 = row.get(2).unwrap_or_default();
    let place = Cursor { major: newest.cast_unsigned(), minor: id.cast_unsigned() };
    (place, id, SessionId::from_bytes(key))
}

/// The first and the last id that begin with these digits; `None` if no id does.
fn ids(digits: &str) -> Option<[SessionId; 2]> {
    if digits.len() > 32 || !digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
    {
        return None;
    }
    let filled = |filler: &str| {
        let rest = filler.repeat(32 - digits.len());
        format!("{digits}{rest}").parse().ok()
    };
    Some([filled("0")?, filled("f")?])
}
