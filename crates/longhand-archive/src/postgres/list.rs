//! Sessions at a glance, and where conversations and handles are.

use longhand_core::{Handle, Link, Seq};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use super::fault::Fault;
use super::log::of_numbers;
use super::session::{self, StoredSession, array};
use crate::storage::Referenced;
use crate::{
    Cursor, KnownPath, Listing, Owner, Page, SessionFilter, SessionId, SessionInfo, codec,
};

type Value<'v> = (&'v (dyn ToSql + Sync), Type);

/// See [`crate::Storage::list_sessions`].
pub(super) async fn sessions(
    db: &Client,
    of: &SessionFilter,
    page: Page,
) -> Result<Listing<SessionInfo>, Fault> {
    let after = page.after.map_or((i64::MAX, i64::MAX), |after| {
        (after.major.cast_signed(), after.minor.cast_signed())
    });
    let limit = i64::try_from(page.limit).unwrap_or(i64::MAX).saturating_add(1);
    let bytes;
    // What begins with a prefix is less than this.
    let mut end: Option<Vec<u8>> = None;
    let (condition, value): (&str, Value<'_>) = match of {
        SessionFilter::All => ("true OR $1", (&true, Type::BOOL)),
        SessionFilter::Owner(owner) => {
            bytes = owner.to_bytes().to_vec();
            ("owner = $1", (&bytes, Type::BYTEA))
        }
        SessionFilter::Session(id) | SessionFilter::Continuing(id) => {
            bytes = id.to_bytes().to_vec();
            let is_itself = matches!(of, SessionFilter::Session(_));
            (if is_itself { "id = $1" } else { "continues = $1" }, (&bytes, Type::BYTEA))
        }
        SessionFilter::Named(name) => {
            bytes = name.as_bytes().to_vec();
            ("substr(name, 1, 64) = substr($1, 1, 64) AND name = $1", (&bytes, Type::BYTEA))
        }
        SessionFilter::NamePrefix(prefix) => {
            bytes = prefix.as_bytes().to_vec();
            end = successor(&bytes[..bytes.len().min(64)]);
            let condition = "substr(name, 1, 64) >= substr($1, 1, 64) \
                             AND ($5::bytea IS NULL OR substr(name, 1, 64) < $5) AND substr(name, 1, length($1)) = $1";
            (condition, (&bytes, Type::BYTEA))
        }
        SessionFilter::IdPrefix(digits) => {
            if !digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')) {
                return Ok(Listing::empty());
            }
            bytes = digits.as_bytes().to_vec();
            // All ids that begin with the whole bytes among the digits lie together.
            let prefix: Option<Vec<u8>> = (0..bytes.len() / 2)
                .map(|at| u8::from_str_radix(digits.get(at * 2..at * 2 + 2)?, 16).ok())
                .collect();
            end = prefix.and_then(|prefix| successor(&prefix));
            let condition = "id >= decode(left(convert_from($1, 'SQL_ASCII'), length($1) / 2 * 2), 'hex') \
                             AND ($5::bytea IS NULL OR id < $5) \
                             AND left(encode(id, 'hex'), length($1)) = convert_from($1, 'SQL_ASCII')";
            (condition, (&bytes, Type::BYTEA))
        }
        SessionFilter::Group(group) => {
            bytes = group.cast_signed().to_be_bytes().to_vec();
            // The same parameter type for all conditions but the first one.
            ("kin = ('x' || encode($1, 'hex'))::bit(64)::int8", (&bytes, Type::BYTEA))
        }
    };
    let sql = format!(
        "{} WHERE ({condition}) AND newest <= $2 AND (newest, number) < ($2, $3) \
         ORDER BY newest DESC, number DESC LIMIT $4",
        session::select!("")
    );
    let mut values: Vec<Value<'_>> =
        vec![value, (&after.0, Type::INT8), (&after.1, Type::INT8), (&limit, Type::INT8)];
    if sql.contains("$5") {
        values.push((&end, Type::BYTEA));
    }
    let rows = db.query_typed(&sql, &values).await?;
    let place = |stored: &StoredSession| Cursor {
        major: stored.info.activity,
        minor: stored.number.cast_unsigned(),
    };
    let listing = page.take(rows.iter().map(StoredSession::read), place);
    let items = listing.items.into_iter().map(StoredSession::listed).collect();
    Ok(Listing { items, next: listing.next })
}

/// The first bytes that come after all that begin with a prefix; `None` if nothing does.
fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let kept = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut next = prefix[..=kept].to_vec();
    next[kept] += 1;
    Some(next)
}

/// See [`crate::Storage::owners`]. Each is found by one look into the index.
pub(super) async fn owners(db: &Client) -> Result<Vec<Owner>, Fault> {
    let sql = "WITH RECURSIVE owners AS (\
               (SELECT owner FROM longhand.session ORDER BY owner LIMIT 1) UNION ALL \
               SELECT (SELECT s.owner FROM longhand.session s WHERE s.owner > owners.owner ORDER BY s.owner LIMIT 1) \
               FROM owners WHERE owners.owner IS NOT NULL) SELECT owner FROM owners WHERE owner IS NOT NULL";
    let rows = db.query_typed(sql, &[]).await?;
    Ok(rows.iter().map(|row| Owner::from_bytes(array(row.get(0)))).collect())
}

/// So many links are looked up at a time.
const PROBES: usize = 64;

/// See [`crate::Storage::links`].
///
/// A link is a hash of everything before it: if one is known, all before it are. The first look takes the last links,
/// since most conversations go on where they ended, and some before them, ever farther apart.
pub(super) async fn links(
    db: &Client,
    owner: Owner,
    links: &[Link],
) -> Result<Vec<KnownPath>, Fault> {
    // All links before `known` are known, those from `unknown` on are not.
    let (mut known, mut unknown) = (0, links.len());
    let mut best = Vec::new();
    let mut is_first = true;
    while known < unknown {
        let probes = if is_first { newest(links.len()) } else { spread(known, unknown) };
        is_first = false;
        let found = known_links(db, owner, links, &probes).await?;
        let last =
            probes.iter().rposition(|probe| found.iter().any(|path| path.known == probe + 1));
        match last {
            None => unknown = probes[0],
            Some(at) => {
                known = probes[at] + 1;
                unknown = probes.get(at + 1).copied().unwrap_or(unknown);
                best = found.into_iter().filter(|path| path.known == known).collect();
            }
        }
    }
    Ok(best)
}

/// The last places of a list, the last ones side by side.
fn newest(length: usize) -> Vec<usize> {
    let mut probes: Vec<usize> = (0..length).rev().take(PROBES / 2).collect();
    let mut step = 2;
    while let Some(before) = probes.last().and_then(|last| last.checked_sub(step)) {
        probes.push(before);
        step *= 2;
    }
    probes.reverse();
    probes
}

/// Some places of a range, evenly apart.
fn spread(low: usize, high: usize) -> Vec<usize> {
    let step = (high - low).div_ceil(PROBES).max(1);
    (low..high).step_by(step).collect()
}

async fn known_links(
    db: &Client,
    owner: Owner,
    links: &[Link],
    probes: &[usize],
) -> Result<Vec<KnownPath>, Fault> {
    let wanted: Vec<Vec<u8>> =
        probes.iter().map(|probe| links[*probe].0.to_be_bytes().to_vec()).collect();
    let sql = "SELECT s.id, e.seq, w.place FROM unnest($1::bytea[]) WITH ORDINALITY w(link, place) \
               JOIN longhand.entry e ON e.link = w.link \
               JOIN longhand.session s ON s.number = e.session AND s.owner = $2 ORDER BY e.id";
    let values: [Value<'_>; 2] =
        [(&wanted, Type::BYTEA_ARRAY), (&&owner.to_bytes()[..], Type::BYTEA)];
    let rows = db.query_typed(sql, &values).await?;
    let read = |row: &Row| KnownPath {
        session: SessionId::from_bytes(array(row.get(0))),
        seq: Seq(row.get::<_, i64>(1).cast_unsigned()),
        known: probes[(row.get::<_, i64>(2) - 1) as usize] + 1,
    };
    Ok(rows.iter().map(read).collect())
}

/// See [`crate::Storage::references`]. Damaged sessions are skipped, since their owner is uncertain.
pub(super) async fn references(db: &Client, handle: Handle) -> Result<Vec<Referenced>, Fault> {
    let sql = "SELECT session, batch FROM longhand.reference WHERE handle = $1 ORDER BY session";
    let letters = codec::letters(handle).into_bytes();
    let rows = db.query_typed(sql, &[(&letters, Type::BYTEA)]).await?;
    let numbers: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    let sessions = of_numbers(db, &numbers).await?;
    let found = rows.iter().filter_map(|row| {
        let number: i64 = row.get(0);
        let session = sessions.iter().find(|session| session.number == number)?;
        let batch = row.get::<_, i64>(1).cast_unsigned();
        let (session, owner) =
            (!session.info.is_damaged).then(|| (session.id(), session.owner()))?;
        Some(Referenced { session, owner, batch })
    });
    Ok(found.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_with_a_prefix_lies_before_its_successor() {
        assert_eq!(successor(b"abc"), Some(b"abd".to_vec()));
        assert_eq!(successor(&[1, 255, 255]), Some(vec![2]));
        assert_eq!((successor(&[255]), successor(b"")), (None, None));
    }

    /// Which links are asked for until the last known one of a conversation is found.
    fn looks(length: usize, known_in_all: usize) -> usize {
        let (mut known, mut unknown, mut looks) = (0, length, 0);
        while known < unknown {
            let probes = if looks == 0 { newest(length) } else { spread(known, unknown) };
            looks += 1;
            match probes.iter().rposition(|probe| *probe < known_in_all) {
                None => unknown = probes[0],
                Some(at) => {
                    known = probes[at] + 1;
                    unknown = probes.get(at + 1).copied().unwrap_or(unknown);
                }
            }
        }
        assert_eq!(known, known_in_all);
        looks
    }

    #[test]
    fn the_known_beginning_of_a_conversation_is_found_in_few_looks() {
        for length in [0_usize, 1, 2, 31, 32, 33, 100, 1_000, 100_000] {
            for known in [
                0,
                1,
                length / 3,
                length / 2,
                length.saturating_sub(40),
                length.saturating_sub(1),
                length,
            ] {
                let known = known.min(length);
                assert!(looks(length, known) <= 5, "{known} of {length}");
            }
            assert!(looks(length, length) <= 1);
            assert!(looks(length, length.saturating_sub(3)) <= 1);
        }
    }
}
