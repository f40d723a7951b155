//! The request log.

use longhand_core::Seq;
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Row, params};

use super::fault::{Fault, illegible_as};
use super::seal::{Seal, Sealer};
use super::session::{self, StoredSession, signed, unsigned};
use crate::usage::{self, NO_MODEL, day_of};
use crate::{
    BatchRecord, Cursor, DamagedPart, EditSums, Listing, Note, Owner, Page, PreambleId,
    RequestRecord, RequestSums, SessionId, UsageLine,
};

/// Adds lines to the log, with a statement that is prepared once for many.
pub(super) struct RequestLog<'d> {
    insert: CachedStatement<'d>,
    read_sums: CachedStatement<'d>,
    write_sums: CachedStatement<'d>,
}

impl<'d> RequestLog<'d> {
    pub(super) fn new(db: &'d Connection) -> Result<Self, Fault> {
        let insert = db.prepare_cached(
            "INSERT INTO request (session, number, at_ms, preamble, head, batch, before, sent, \
             cached, output, cost, edits, seal, model, answer, cut, agent, most, shown, aside, \
             bypassed) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, \
             ?16, ?17, ?18, ?19, ?20, ?21)",
        )?;
        let read_sums = db.prepare_cached(
            "SELECT sums FROM usage WHERE session = ?1 AND day = ?2 AND model = ?3",
        )?;
        let write_sums =
            db.prepare_cached("INSERT OR REPLACE INTO usage VALUES (?1, ?2, ?3, ?4)")?;
        Ok(Self { insert, read_sums, write_sums })
    }

    /// Adds a line; the session is still to be saved.
    pub(super) fn add(
        &mut self,
        session: &mut StoredSession,
        request: &RequestRecord,
    ) -> Result<(), Fault> {
        session.totals.requests += 1;
        let number = session.totals.requests;
        // The numbers are kept as given, however large, so their bits are.
        self.insert.execute(params![
            session.row,
            signed(number),
            request.at_ms,
            request.preamble.map(PreambleId::to_bytes),
            request.head.map(|head| head.0.cast_signed()),
            request.batch.cast_signed(),
            request.before.cast_signed(),
            request.sent.cast_signed(),
            request.cached.cast_signed(),
            request.output.cast_signed(),
            request.cost_micros.map(u64::cast_signed),
            request.edits.cast_signed(),
            right_seal(session.id, number, request),
            request.model,
            request.answer,
            request.is_cut,
            request.agent,
            request.limit.cast_signed(),
            request.window.cast_signed(),
            request.is_aside,
            request.is_bypassed,
        ])?;
        self.count(session, request)
    }

    /// Adds a line to the sums.
    fn count(&mut self, session: &mut StoredSession, request: &RequestRecord) -> Result<(), Fault> {
        let usage = &mut session.totals.usage;
        let key = (session.row, day_of(request.at_ms), request.model.as_str());
        self.change(key, |sums, _| usage.count(request, sums))
    }

    /// Adds what batches and notes say of edits to the sums of their days.
    pub(super) fn count_edits(
        &mut self,
        session: &StoredSession,
        batches: &[BatchRecord],
        notes: &[Note],
    ) -> Result<(), Fault> {
        let batches = batches.iter().map(|record| (record.at_ms, &record.batch));
        for (day, new) in EditSums::of(batches, notes) {
            self.change((session.row, day, NO_MODEL), |_, edits| edits.add(&new))?;
        }
        Ok(())
    }

    /// Changes the sums of a session on a day and with a model.
    fn change(
        &mut self,
        key: (i64, i64, &str),
        change: impl FnOnce(&mut RequestSums, &mut EditSums),
    ) -> Result<(), Fault> {
        let sums = self.read_sums.query_row(key, |row| Ok(read_sums(row, 0))).optional()?;
        // What is illegible begins anew; the requests say what is right.
        let (mut sums, mut edits) = sums.flatten().unwrap_or_default();
        change(&mut sums, &mut edits);
        let (row, day, model) = key;
        self.write_sums.execute((row, day, model, usage::encode_line(&sums, &edits)))?;
        Ok(())
    }
}

/// Reads sums; `None` if they are illegible.
pub(super) fn read_sums(row: &Row<'_>, column: usize) -> Option<(RequestSums, EditSums)> {
    usage::decode_line(row.get_ref(column).ok()?.as_blob().ok()?)
}

/// See [`crate::Storage::usage`].
pub(super) fn usage(db: &Connection, since_ms: i64) -> Result<Vec<UsageLine>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT session.key, usage.day, usage.model, usage.sums FROM usage \
         CROSS JOIN session ON session.id = usage.session AND session.key IS NOT NULL \
         WHERE usage.day >= ?1",
    )?;
    let mut rows = select.query([day_of(since_ms)])?;
    let mut lines = Vec::new();
    while let Some(row) = rows.next()? {
        let session = row.get(0).map(SessionId::from_bytes).unwrap_or_default();
        let bad = || Fault::damage(session, DamagedPart::Usage, "cannot be read");
        let (sums, edits) = read_sums(row, 3).ok_or_else(bad)?;
        lines.push(UsageLine { session, day: row.get(1)?, model: row.get(2)?, sums, edits });
    }
    Ok(lines)
}

/// The lines of a session, newest first.
pub(super) fn requests(
    db: &Connection,
    id: SessionId,
    page: Page,
) -> Result<Listing<(SessionId, RequestRecord)>, Fault> {
    let Some(session) = session::find(db, id)? else { return Ok(Listing::empty()) };
    let numbers = page.take((1..=session.totals.requests).rev(), |number| Cursor::number(*number));
    let (Some(newest), Some(oldest)) = (numbers.items.first(), numbers.items.last()) else {
        return Ok(Listing::empty());
    };
    let mut select = db.prepare_cached(
        "SELECT number, at_ms, preamble, head, batch, before, sent, cached, output, cost, edits, \
         seal, model, answer, cut, agent, most, shown, aside, bypassed FROM request \
         WHERE session = ?1 AND number BETWEEN ?2 AND ?3 ORDER BY number DESC",
    )?;
    let mut rows = select.query((session.row, signed(*oldest), signed(*newest)))?;
    let mut items = Vec::new();
    for number in &numbers.items {
        let Some(row) = rows.next()? else { return Err(damaged(&session, *number, "is missing")) };
        items.push((session.id, checked(&session, *number, row)?));
    }
    Ok(Listing { items, next: numbers.next })
}

/// The newest line of an owner's sessions whose answer has this name.
pub(super) fn answer(
    db: &Connection,
    owner: Owner,
    answer: &str,
) -> Result<Option<(SessionId, RequestRecord)>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT number, at_ms, preamble, head, batch, before, sent, cached, output, cost, edits, \
         seal, model, answer, cut, agent, most, shown, aside, bypassed, session FROM request \
         WHERE answer = ?1 ORDER BY id DESC",
    )?;
    let mut rows = select.query([answer])?;
    while let Some(row) = rows.next()? {
        let session = match session::by_row(db, row.get(20)?) {
            Ok(Some(session)) if session.owner == owner => session,
            // The owner of a damaged session is uncertain.
            Ok(_) | Err(Fault::Damage(_)) => continue,
            Err(fault) => return Err(fault),
        };
        let number = unsigned(row, 0)?;
        return checked(&session, number, row).map(|request| Some((session.id, request)));
    }
    Ok(None)
}

pub(super) const SELECT_ALL: &str = "SELECT number, at_ms, preamble, head, batch, before, sent, \
                                     cached, output, cost, edits, seal, model, answer, cut, \
                                     agent, most, shown, aside, bypassed FROM request WHERE session = ?1 ORDER BY number";

/// All lines of all sessions in the order in which they were added, with the rows of their sessions.
pub(super) const SELECT_EVERY: &str = "SELECT number, at_ms, preamble, head, batch, before, sent, \
                                       cached, output, cost, edits, seal, model, answer, cut, \
                                       agent, most, shown, aside, bypassed, session FROM request ORDER BY id";

/// Reads a line that should have this number.
pub(super) fn checked(
    session: &StoredSession,
    number: u64,
    row: &Row<'_>,
) -> Result<RequestRecord, Fault> {
    let bad = || damaged(session, number, "failed its checksum");
    let (found, request, seal) = read(row).map_err(illegible_as(bad))?;
    if found != number {
        return Err(damaged(session, number, "is missing"));
    }
    if right_seal(session.id, number, &request) != seal {
        return Err(bad());
    }
    Ok(request)
}

fn read(row: &Row<'_>) -> Result<(u64, RequestRecord, Seal), rusqlite::Error> {
    let preamble: Option<[u8; 16]> = row.get(2)?;
    let bits = |column| row.get(column).map(i64::cast_unsigned);
    let optional_bits = |column| {
        let found: Option<i64> = row.get(column)?;
        Ok::<_, rusqlite::Error>(found.map(i64::cast_unsigned))
    };
    let request = RequestRecord {
        at_ms: row.get(1)?,
        preamble: preamble.map(PreambleId::from_bytes),
        head: optional_bits(3)?.map(Seq),
        batch: bits(4)?,
        model: row.get(12)?,
        before: bits(5)?,
        sent: bits(6)?,
        cached: bits(7)?,
        output: bits(8)?,
        cost_micros: optional_bits(9)?,
        edits: bits(10)?,
        answer: row.get(13)?,
        is_cut: row.get(14)?,
        agent: row.get(15)?,
        limit: bits(16)?,
        window: bits(17)?,
        is_aside: row.get(18)?,
        is_bypassed: row.get(19)?,
    };
    Ok((unsigned(row, 0)?, request, row.get(11)?))
}

fn right_seal(session: SessionId, number: u64, request: &RequestRecord) -> Seal {
    let preamble = request.preamble.map(PreambleId::to_bytes);
    Sealer::new("request")
        .bytes(&session.to_bytes())
        .number(number)
        .time(request.at_ms)
        .bytes(preamble.as_ref().map_or(&[], |id| &id[..]))
        .optional(request.head.map(|head| head.0))
        .number(request.batch)
        .bytes(request.model.as_bytes())
        .number(request.before)
        .number(request.sent)
        .number(request.cached)
        .number(request.output)
        .optional(request.cost_micros)
        .number(request.edits)
        .number(u64::from(request.answer.is_some()))
        .bytes(request.answer.as_deref().unwrap_or_default().as_bytes())
        .number(u64::from(request.is_cut))
        .bytes(request.agent.as_bytes())
        .number(request.limit)
        .number(request.window)
        .number(u64::from(request.is_aside))
        .number(u64::from(request.is_bypassed))
        .seal()
}

pub(super) fn damaged(session: &StoredSession, number: u64, detail: &str) -> Fault {
    session.damage(DamagedPart::Request(number), detail)
}
