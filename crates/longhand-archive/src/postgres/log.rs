//! Request logs, their sums, and what is noted beside requests.

use longhand_core::{Handle, Seq};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use super::fault::Fault;
use super::session::{self, StoredSession, array, hash, number, text};
use crate::number::{push_number, take_number};
use crate::seal::{Seal, Sealer};
use crate::usage::{NO_MODEL, day_of, decode_line, encode_line};
use crate::{
    Cursor, DamagedPart, EditSums, Listing, Note, Owner, Page, PreambleId, RequestRecord,
    RequestSums, SessionId, UsageLine, codec,
};

type Value<'v> = (&'v (dyn ToSql + Sync), Type);

/// What a line has besides its time, its preamble and the name of its answer.
fn encode(request: &RequestRecord) -> Vec<u8> {
    let mut bytes = Vec::new();
    for optional in [request.head.map(|head| head.0), request.cost_micros] {
        push_number(&mut bytes, u64::from(optional.is_some()));
        push_number(&mut bytes, optional.unwrap_or_default());
    }
    let flags = [request.is_cut, request.is_aside, request.is_bypassed];
    let flags = flags.iter().rev().fold(0, |flags, flag| flags << 1 | u64::from(*flag));
    for number in [
        request.batch,
        request.limit,
        request.before,
        request.window,
        request.sent,
        request.cached,
        request.output,
        request.edits,
        flags,
        request.model.len() as u64,
    ] {
        push_number(&mut bytes, number);
    }
    bytes.extend_from_slice(request.model.as_bytes());
    bytes.extend_from_slice(request.agent.as_bytes());
    bytes
}

fn decode(mut bytes: &[u8]) -> Option<RequestRecord> {
    let mut number = || take_number(&mut bytes);
    let mut optional = || Some((number()? != 0, number()?)).map(|(is, value)| is.then_some(value));
    let (head, cost_micros) = (optional()?.map(Seq), optional()?);
    let [batch, limit, before, window, sent] =
        [number()?, number()?, number()?, number()?, number()?];
    let [cached, output, edits, flags, length] =
        [number()?, number()?, number()?, number()?, number()?];
    let (model, agent) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
    let read = |bytes: &[u8]| Some(str::from_utf8(bytes).ok()?.to_owned());
    Some(RequestRecord {
        head,
        batch,
        model: read(model)?,
        agent: read(agent)?,
        limit,
        before,
        window,
        sent,
        cached,
        output,
        cost_micros,
        edits,
        is_cut: flags & 1 != 0,
        is_aside: flags & 2 != 0,
        is_bypassed: flags & 4 != 0,
        ..RequestRecord::default()
    })
}

fn seal_of_request(of: SessionId, number: u64, request: &RequestRecord) -> Seal {
    let preamble = request.preamble.map(PreambleId::to_bytes);
    Sealer::new("request row")
        .bytes(&of.to_bytes())
        .number(number)
        .time(request.at_ms)
        .bytes(preamble.as_ref().map_or(&[], |id| &id[..]))
        .optional(request.answer.as_ref().map(|_| 1))
        .bytes(request.answer.as_deref().unwrap_or_default().as_bytes())
        .bytes(&encode(request))
        .seal()
}

/// Writes a line of a request log.
pub(super) async fn insert_request(
    db: &Client,
    session: i64,
    of: SessionId,
    at: u64,
    request: &RequestRecord,
) -> Result<(), tokio_postgres::Error> {
    let preamble = request.preamble.map(PreambleId::to_bytes);
    let sql = "INSERT INTO longhand.request (session, number, id, at_ms, preamble, answer, seal, line) \
               VALUES ($1, $2, nextval('longhand.request_id'), $3, $4, $5, $6, $7)";
    db.execute_typed(
        sql,
        &[
            (&session, Type::INT8),
            (&number(at), Type::INT8),
            (&request.at_ms, Type::INT8),
            (&preamble.as_ref().map(|id| &id[..]), Type::BYTEA),
            (&request.answer.as_ref().map(String::as_bytes), Type::BYTEA),
            (&&seal_of_request(of, at, request)[..], Type::BYTEA),
            (&encode(request), Type::BYTEA),
        ],
    )
    .await
    .map(drop)
}

/// Selects lines of request logs.
macro_rules! select {
    ($rest:literal) => {
        concat!("SELECT r.number, r.at_ms, r.preamble, r.answer, r.seal, r.line FROM longhand.request r ", $rest)
    };
}
pub(super) use select;

use super::log;

/// Reads a line that should have this number.
pub(super) fn read_request(of: SessionId, at: u64, row: &Row) -> Result<RequestRecord, Fault> {
    let bad = |detail: &str| Fault::damage(of, DamagedPart::Request(at), detail);
    if row.get::<_, i64>(0).cast_unsigned() != at {
        return Err(bad("is missing"));
    }
    let request = decode(row.get(5)).ok_or_else(|| bad("failed its checksum"))?;
    let request = RequestRecord {
        at_ms: row.get(1),
        preamble: row.get::<_, Option<&[u8]>>(2).map(|id| PreambleId::from_bytes(array(id))),
        answer: row.get::<_, Option<&[u8]>>(3).map(text),
        ..request
    };
    if seal_of_request(of, at, &request)[..] != *row.get::<_, &[u8]>(4) {
        return Err(bad("failed its checksum"));
    }
    Ok(request)
}

/// The lines of a session, newest first.
pub(super) async fn requests(
    db: &Client,
    id: SessionId,
    page: Page,
) -> Result<Listing<(SessionId, RequestRecord)>, Fault> {
    let Some(session) = session::find(db, id).await? else { return Ok(Listing::empty()) };
    let numbers = page.take((1..=session.requests).rev(), |number| Cursor::number(*number));
    let (Some(newest), Some(oldest)) = (numbers.items.first(), numbers.items.last()) else {
        return Ok(Listing::empty());
    };
    let sql =
        log::select!("WHERE r.session = $1 AND r.number BETWEEN $2 AND $3 ORDER BY r.number DESC");
    let values: [Value<'_>; 3] = [
        (&session.number, Type::INT8),
        (&number(*oldest), Type::INT8),
        (&number(*newest), Type::INT8),
    ];
    let rows = db.query_typed(sql, &values).await?;
    let mut rows = rows.iter();
    let mut items = Vec::new();
    for at in &numbers.items {
        let missing = || session.damage(DamagedPart::Request(*at), "is missing");
        items.push((id, read_request(id, *at, rows.next().ok_or_else(missing)?)?));
    }
    Ok(Listing { items, next: numbers.next })
}

/// The newest line of an owner's sessions whose answer has this name.
pub(super) async fn answer(
    db: &Client,
    owner: Owner,
    answer: &str,
) -> Result<Listing<(SessionId, RequestRecord)>, Fault> {
    let sql = "SELECT r.number, r.at_ms, r.preamble, r.answer, r.seal, r.line, s.id FROM longhand.request r \
               JOIN longhand.session s ON s.number = r.session AND s.owner = $2 \
               WHERE substr(r.answer, 1, 64) = substr($1, 1, 64) AND r.answer = $1 ORDER BY r.id DESC LIMIT 1";
    let values: [Value<'_>; 2] =
        [(&answer.as_bytes(), Type::BYTEA), (&&owner.to_bytes()[..], Type::BYTEA)];
    let found = db.query_typed_opt(sql, &values).await?;
    let read = |row: Row| {
        let id = SessionId::from_bytes(array(row.get(6)));
        read_request(id, row.get::<_, i64>(0).cast_unsigned(), &row).map(|request| (id, request))
    };
    Ok(Listing { items: Vec::from_iter(found.map(read).transpose()?), next: None })
}

/// The sums of a session's requests to a model on a day.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SumsKey {
    pub(super) session: SessionId,
    pub(super) day: i64,
    pub(super) model: String,
}

impl SumsKey {
    pub(super) fn of(session: SessionId, request: &RequestRecord) -> Self {
        Self { session, day: day_of(request.at_ms), model: request.model.clone() }
    }

    /// The line that has the edits of a day.
    pub(super) fn of_edits(session: SessionId, day: i64) -> Self {
        Self { session, day, model: NO_MODEL.to_owned() }
    }
}

/// What the requests and the edits of a line come to.
pub(super) type LineSums = (RequestSums, EditSums);

/// Reads the sums that requests are added to. What is illegible begins anew; the requests say what is right.
pub(super) async fn sums(
    db: &Client,
    keys: &[SumsKey],
) -> Result<Vec<(SumsKey, LineSums)>, tokio_postgres::Error> {
    let ids: Vec<Vec<u8>> = keys.iter().map(|key| key.session.to_bytes().to_vec()).collect();
    let days: Vec<i64> = keys.iter().map(|key| key.day).collect();
    let hashes: Vec<Vec<u8>> = keys.iter().map(|key| hash(&key.model).to_vec()).collect();
    let sql = "SELECT s.id, u.day, u.model, u.sums FROM unnest($1::bytea[], $2::int8[], $3::bytea[]) w(id, day, hash) \
               JOIN longhand.session s ON s.id = w.id \
               JOIN longhand.usage u ON u.session = s.number AND u.day = w.day AND u.hash = w.hash";
    let values: [Value<'_>; 3] =
        [(&ids, Type::BYTEA_ARRAY), (&days, Type::INT8_ARRAY), (&hashes, Type::BYTEA_ARRAY)];
    let rows = db.query_typed(sql, &values).await?;
    let read = |row: &Row| {
        let session = SessionId::from_bytes(array(row.get(0)));
        let key = SumsKey { session, day: row.get(1), model: text(row.get(2)) };
        (key, decode_line(row.get(3)).unwrap_or_default())
    };
    Ok(rows.iter().map(read).collect())
}

pub(super) async fn save_sums(
    db: &Client,
    session: i64,
    key: &SumsKey,
    (requests, edits): &LineSums,
) -> Result<(), tokio_postgres::Error> {
    let sql = "INSERT INTO longhand.usage (session, day, hash, model, sums) VALUES ($1, $2, $3, $4, $5) \
               ON CONFLICT (session, day, hash) DO UPDATE SET sums = excluded.sums";
    let values: [Value<'_>; 5] = [
        (&session, Type::INT8),
        (&key.day, Type::INT8),
        (&&hash(&key.model)[..], Type::BYTEA),
        (&key.model.as_bytes(), Type::BYTEA),
        (&encode_line(requests, edits), Type::BYTEA),
    ];
    db.execute_typed(sql, &values).await.map(drop)
}

/// See [`crate::Storage::usage`].
pub(super) async fn usage(db: &Client, since_ms: i64) -> Result<Vec<UsageLine>, Fault> {
    let sql = "SELECT s.id, u.day, u.model, u.sums FROM longhand.usage u \
               JOIN longhand.session s ON s.number = u.session WHERE u.day >= $1";
    let rows = db.query_typed(sql, &[(&day_of(since_ms), Type::INT8)]).await?;
    let read = |row: &Row| {
        let session = SessionId::from_bytes(array(row.get(0)));
        let bad = || Fault::damage(session, DamagedPart::Usage, "cannot be read");
        let (sums, edits) = decode_line(row.get(3)).ok_or_else(bad)?;
        Ok(UsageLine { session, day: row.get(1), model: text(row.get(2)), sums, edits })
    };
    rows.iter().map(read).collect()
}

fn seal_of_note(of: SessionId, number: u64, at_ms: i64, handle: &[u8], content: &[u8]) -> Seal {
    Sealer::new("note row")
        .bytes(&of.to_bytes())
        .number(number)
        .time(at_ms)
        .bytes(handle)
        .bytes(content)
        .seal()
}

pub(super) async fn insert_note(
    db: &Client,
    session: i64,
    of: SessionId,
    at: u64,
    note: &Note,
) -> Result<(), tokio_postgres::Error> {
    let handle = codec::letters(note.handle).into_bytes();
    let content = codec::encode_note(&note.content);
    let seal = seal_of_note(of, at, note.at_ms, &handle, &content);
    let sql = "INSERT INTO longhand.note (session, number, at_ms, handle, seal, content) \
               VALUES ($1, $2, $3, $4, $5, $6)";
    let values: [Value<'_>; 6] = [
        (&session, Type::INT8),
        (&number(at), Type::INT8),
        (&note.at_ms, Type::INT8),
        (&handle, Type::BYTEA),
        (&&seal[..], Type::BYTEA),
        (&crate::pack::pack(&content), Type::BYTEA),
    ];
    db.execute_typed(sql, &values).await.map(drop)
}

/// The notes of a session, in the order in which they were noted.
pub(super) async fn notes(db: &Client, id: SessionId) -> Result<Vec<(SessionId, Note)>, Fault> {
    let Some(session) = session::find(db, id).await? else { return Ok(Vec::new()) };
    let sql = "SELECT number, at_ms, handle, seal, content FROM longhand.note \
               WHERE session = $1 AND number <= $2 ORDER BY number";
    let values: [Value<'_>; 2] =
        [(&session.number, Type::INT8), (&number(session.notes), Type::INT8)];
    let rows = db.query_typed(sql, &values).await?;
    let mut rows = rows.iter();
    let mut notes = Vec::new();
    for at in 1..=session.notes {
        let missing = || session.damage(DamagedPart::Note(at), "is missing");
        notes.push((id, read_note(&session, at, rows.next().ok_or_else(missing)?)?));
    }
    Ok(notes)
}

/// The notes of all sessions that have a handle. Damaged sessions are skipped.
pub(super) async fn notes_with(
    db: &Client,
    handle: Handle,
) -> Result<Vec<(SessionId, Note)>, Fault> {
    let sql = "SELECT number, at_ms, handle, seal, content, session FROM longhand.note \
               WHERE handle = $1 ORDER BY session, number";
    let letters = codec::letters(handle).into_bytes();
    let rows = db.query_typed(sql, &[(&letters, Type::BYTEA)]).await?;
    let numbers: Vec<i64> = rows.iter().map(|row| row.get(5)).collect();
    let sessions = of_numbers(db, &numbers).await?;
    let mut notes = Vec::new();
    for row in &rows {
        let number: i64 = row.get(5);
        let session = sessions.iter().find(|session| session.number == number);
        let Some(session) = session.filter(|session| !session.info.is_damaged) else { continue };
        let at = row.get::<_, i64>(0).cast_unsigned();
        notes.push((session.id(), read_note(session, at, row)?));
    }
    Ok(notes)
}

/// Finds sessions by their numbers; some may be damaged.
pub(super) async fn of_numbers(db: &Client, numbers: &[i64]) -> Result<Vec<StoredSession>, Fault> {
    if numbers.is_empty() {
        return Ok(Vec::new());
    }
    let sql = session::select!("WHERE number = ANY($1)");
    let rows = db.query_typed(sql, &[(&numbers, Type::INT8_ARRAY)]).await?;
    Ok(rows.iter().map(StoredSession::read).collect())
}

pub(super) fn read_note(session: &StoredSession, at: u64, row: &Row) -> Result<Note, Fault> {
    let bad = |detail: &str| session.damage(DamagedPart::Note(at), detail);
    if row.get::<_, i64>(0).cast_unsigned() != at {
        return Err(bad("is missing"));
    }
    let read = || {
        let letters: &[u8] = row.get(2);
        let content = crate::pack::unpack(row.get(4))?;
        let at_ms = row.get(1);
        let seal = seal_of_note(session.id(), at, at_ms, letters, &content);
        (seal[..] == *row.get::<_, &[u8]>(3)).then_some(())?;
        let handle = Handle::parse(str::from_utf8(letters).ok()?)?;
        Some(Note { at_ms, handle, content: codec::decode_note(&content)? })
    };
    read().ok_or_else(|| bad("failed its checksum"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_line_of_a_request_log_comes_back() {
        for request in [
            RequestRecord::default(),
            RequestRecord {
                head: Some(Seq(u64::MAX)),
                batch: 7,
                model: "large\0".to_owned(),
                agent: "a".to_owned(),
                limit: u64::MAX,
                before: 2,
                window: 3,
                sent: 4,
                cached: 5,
                output: 6,
                cost_micros: Some(u64::MAX),
                edits: 8,
                is_cut: true,
                is_bypassed: true,
                ..RequestRecord::default()
            },
            RequestRecord { is_aside: true, ..RequestRecord::default() },
        ] {
            let bytes = encode(&request);
            assert_eq!(decode(&bytes), Some(request));
            assert_eq!(decode(&bytes[..8]), None);
        }
    }
}
