//! Checking everything.

use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};

use super::fault::Fault;
use super::session::{StoredSession, array, number, text};
use super::{batch, entry, index, log, session, value};
use crate::storage::FoldStates;
use crate::{ArchiveError, Cursor, Damage, DamagedPart, Page, PreambleId, SessionId, pack};

type Value<'v> = (&'v (dyn ToSql + Sync), Type);

/// How many rows are read at a time.
const PAGE: u64 = 512;

/// The ids of sessions after a number, with their numbers.
pub(super) async fn sessions(db: &Client, after: i64) -> Result<Vec<(i64, SessionId)>, Fault> {
    let sql = "SELECT number, id FROM longhand.session WHERE number > $1 ORDER BY number LIMIT $2";
    let values: [Value<'_>; 2] = [(&after, Type::INT8), (&number(PAGE), Type::INT8)];
    let rows = db.query_typed(sql, &values).await?;
    Ok(rows.iter().map(|row| (row.get(0), SessionId::from_bytes(array(row.get(1))))).collect())
}

/// Checks all that belongs to a session, in one state of it.
pub(super) async fn session(db: &Client, id: SessionId) -> Result<Vec<Damage>, Fault> {
    let sql = session::select!("WHERE id = $1");
    let found = db.query_typed_opt(sql, &[(&&id.to_bytes()[..], Type::BYTEA)]).await?;
    let Some(row) = found else {
        return Err(ArchiveError::UnknownSession { session: id }.into());
    };
    let found = match StoredSession::read(&row).checked() {
        Ok(found) => found,
        Err(Fault::Damage(damage)) => return Ok(vec![damage]),
        Err(fault) => return Err(fault),
    };
    let mut damages = Damages(Vec::new());
    // Of a page with damage, each is looked at alone.
    let mut at = 0;
    while at < found.info.entries {
        let end = found.info.entries.min(at + PAGE);
        if !Damages::is_sound(entry::bodies(db, id, &[at..end]).await)? {
            for seq in at..end {
                damages.note(entry::bodies(db, id, &[seq..seq + 1]).await)?;
            }
        }
        at = end;
    }
    for number in 1..=found.info.batches {
        damages.note(batch::batches(db, id, &[number], FoldStates::All).await)?;
    }
    let lines = batch::lines(db, id, 0).await?;
    damages.note(batch::checked_lines(&found, 0, lines))?;
    for request in 1..=found.requests {
        let page = Page { after: Some(Cursor::number(request + 1)), limit: 1 };
        if request % PAGE == 1 {
            let end = found.requests.min(request + PAGE - 1);
            let page = Page { after: Some(Cursor::number(end + 1)), limit: PAGE as usize };
            if Damages::is_sound(log::requests(db, id, page).await)? && end == found.requests {
                break;
            }
        }
        damages.note(log::requests(db, id, page).await)?;
    }
    damages.note(log::notes(db, id).await)?;
    damages.0.extend(derived(db, &found).await?);
    damages.0.extend(strays(db, &found).await?);
    Ok(damages.0)
}

/// What is damaged, each once.
struct Damages(Vec<Damage>);

impl Damages {
    /// Whether something could be read; the damage is found again.
    fn is_sound<T>(outcome: Result<T, Fault>) -> Result<bool, Fault> {
        match outcome {
            Ok(_) => Ok(true),
            Err(Fault::Damage(_)) => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    fn note<T>(&mut self, outcome: Result<T, Fault>) -> Result<(), Fault> {
        match outcome {
            Ok(_) => Ok(()),
            Err(Fault::Damage(damage)) => {
                if !self.0.contains(&damage) {
                    self.0.push(damage);
                }
                Ok(())
            }
            Err(fault) => Err(fault),
        }
    }
}

async fn derived(db: &Client, of: &StoredSession) -> Result<Vec<Damage>, Fault> {
    let sql = "SELECT key, seal, value FROM longhand.derived WHERE session = $1";
    let rows = db.query_typed(sql, &[(&of.number, Type::INT8)]).await?;
    let bad = rows.iter().filter_map(|row| {
        let key = text(row.get(0));
        let value = pack::unpack_text(row.get(2));
        let seal = value.map(|value| value::seal_of_derived(of.id(), &key, &value));
        let is_right = seal.is_some_and(|seal| seal[..] == *row.get::<_, &[u8]>(1));
        let part = DamagedPart::Derived(key);
        let detail = "failed its checksum".to_owned();
        (!is_right).then_some(Damage { session: Some(of.id()), part, detail })
    });
    Ok(bad.collect())
}

/// Rows beyond what the session says that it has.
async fn strays(db: &Client, of: &StoredSession) -> Result<Vec<Damage>, Fault> {
    let sql = "SELECT (SELECT count(*) FROM longhand.entry WHERE session = $1), \
               (SELECT count(*) FROM longhand.batch WHERE session = $1), \
               (SELECT count(*) FROM longhand.request WHERE session = $1), \
               (SELECT count(*) FROM longhand.note WHERE session = $1)";
    let row = db.query_typed_one(sql, &[(&of.number, Type::INT8)]).await?;
    let expected = [
        (of.info.entries, DamagedPart::Entry(of.info.entries)),
        (of.info.batches, DamagedPart::Batch(of.info.batches + 1)),
        (of.requests, DamagedPart::Request(of.requests + 1)),
        (of.notes, DamagedPart::Note(of.notes + 1)),
    ];
    let strays = expected.into_iter().enumerate().filter_map(|(column, (expected, part))| {
        let found: i64 = row.get(column);
        let detail = "is not known to the session".to_owned();
        (found.cast_unsigned() > expected).then_some(Damage {
            session: Some(of.id()),
            part,
            detail,
        })
    });
    Ok(strays.collect())
}

/// Checks what belongs to no session.
pub(super) async fn shared(db: &Client) -> Result<Vec<Damage>, Fault> {
    let mut damages = Vec::new();
    let mut after: (Vec<u8>, Vec<u8>) = (Vec::new(), Vec::new());
    loop {
        let sql = "SELECT owner, id, content FROM longhand.preamble WHERE (owner, id) > ($1, $2) \
                   ORDER BY owner, id LIMIT 64";
        let values: [Value<'_>; 2] = [(&after.0, Type::BYTEA), (&after.1, Type::BYTEA)];
        let rows = db.query_typed(sql, &values).await?;
        let Some(last) = rows.last() else { break };
        after = (last.get(0), last.get(1));
        for row in &rows {
            let id = PreambleId::from_bytes(array(row.get(1)));
            let content = pack::unpack_text(row.get(2));
            if content.is_none_or(|content| PreambleId::of(&content) != id) {
                damages.push(value::damaged_preamble(id));
            }
        }
    }
    if !index::is_sound(db).await? {
        let detail = "does not fit the entries".to_owned();
        damages.push(Damage { session: None, part: DamagedPart::Index, detail });
    }
    Ok(damages)
}
