//! Writes to sessions, each made completely or not at all: two round trips for all of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use longhand_core::session::Version;
use tokio::time::timeout;
use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};

use super::entry::StoredEntry;
use super::fault::Fault;
use super::log::{LineSums, SumsKey};
use super::server::{Asked, Patience, Pipeline, Server, both, rolled_back};
use super::session::{self, StoredSession, array};
use super::{ServerError, batch, entry, log, value};
use crate::{
    ArchiveError, BatchRecord, Conflict, EditSums, NewSession, Note, Owner, RequestRecord,
    SessionId, Write,
};

type Outcome = Result<Version, ArchiveError>;

/// A write with all that can be worked out before the session is locked.
pub(super) struct ReadyWrite {
    write: Write,
    entries: Vec<StoredEntry>,
    entry_bytes: Vec<u64>,
}

impl ReadyWrite {
    pub(super) fn new(mut write: Write) -> Self {
        let records = std::mem::take(&mut write.entries);
        let entry_bytes = records.iter().map(|record| record.entry.raw.len() as u64).collect();
        let session = write.session;
        let entries = records.iter().map(|record| StoredEntry::new(session, record)).collect();
        Self { write, entries, entry_bytes }
    }
}

/// Why writes were not made.
enum Unmade {
    Fault(Fault),
    /// The connection was lost while the transaction with this id was committed.
    Uncertain(String, Vec<Outcome>),
}

impl From<Fault> for Unmade {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<tokio_postgres::Error> for Unmade {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Fault(error.into())
    }
}

/// See [`crate::Storage::write`].
pub(super) async fn make_all(
    server: &Server,
    begin: &Arc<str>,
    writes: &Arc<[ReadyWrite]>,
) -> Result<Vec<Outcome>, Fault> {
    let mut patience = Patience::new(server.settings.wait_max);
    loop {
        let statement_max = server.settings.statement_max;
        let made = server.unbounded(|db| -> Asked<'_, Result<Vec<Outcome>, Unmade>> {
            let (begin, writes) = (Arc::clone(begin), Arc::clone(writes));
            Box::pin(async move {
                match Box::pin(attempt(db, &begin, &writes, statement_max)).await {
                    // A connection that is lost is not used again.
                    Err(Unmade::Fault(fault)) => rolled_back(db, fault).await,
                    outcome => Ok(outcome),
                }
            })
        });
        let fault = match made.await {
            Ok(Ok(outcomes)) => return Ok(outcomes),
            Ok(Err(Unmade::Uncertain(transaction, outcomes))) => {
                let is_made = is_committed(server, &transaction).await?
                    && is_there(server, writes, &outcomes).await?;
                if is_made {
                    return Ok(outcomes);
                }
                continue;
            }
            Ok(Err(Unmade::Fault(fault))) | Err(fault) => fault,
        };
        if !patience.bears(&fault) {
            return Err(fault);
        }
        patience.pause().await;
    }
}

/// Asks what became of a transaction, of which nobody knows because the connection was lost.
async fn is_committed(server: &Server, transaction: &str) -> Result<bool, Fault> {
    let mut patience = Patience::new(server.settings.wait_max.saturating_mul(3));
    loop {
        let asked = server.once(|db| -> Asked<'_, Option<String>> {
            let transaction = transaction.to_owned();
            Box::pin(async move {
                // A number that was not given out yet is of a transaction that a crash took. What a snapshot calls its end
                // would not tell: the newest transaction lies beyond it while it is still under way.
                let sql = "SELECT CASE WHEN $1::text::xid8 < pg_current_xact_id() \
                           THEN pg_xact_status($1::text::xid8) ELSE 'aborted' END";
                let row = db.query_typed_one(sql, &[(&transaction, Type::TEXT)]).await?;
                Ok(row.get(0))
            })
        });
        match asked.await {
            Ok(Some(status)) if status == "committed" => return Ok(true),
            Ok(Some(status)) if status == "aborted" => return Ok(false),
            // It is still under way: the server has not noticed yet that nobody waits for it.
            Ok(_) if patience.bears(&Fault::Late) => patience.pause().await,
            Err(fault) if patience.bears(&fault) => patience.pause().await,
            Ok(_) | Err(_) => {
                let archive = server.name.clone();
                return Err(ArchiveError::from(ServerError::Uncertain { archive }).into());
            }
        }
    }
}

/// Whether the first entry that was written is there, and so all that was written with it.
///
/// A server that crashed may give the number of a lost transaction to another one, which then is committed.
async fn is_there(
    server: &Server,
    writes: &[ReadyWrite],
    outcomes: &[Outcome],
) -> Result<bool, Fault> {
    let made = writes.iter().zip(outcomes).filter(|(_, outcome)| outcome.is_ok());
    let first = |ready: &ReadyWrite| {
        let entry = ready.entries.first()?;
        Some((ready.write.session, entry.node.seq, entry.seal().to_vec()))
    };
    let Some((session, seq, seal)) = made.map(|(ready, _)| ready).find_map(first) else {
        return Ok(true);
    };
    let mut patience = Patience::new(server.settings.wait_max.saturating_mul(3));
    loop {
        let asked = server.once(|db| -> Asked<'_, bool> {
            let (id, seq, seal) = (session.to_bytes().to_vec(), session::number(seq.0), seal.clone());
            Box::pin(async move {
                let sql = "SELECT EXISTS (SELECT FROM longhand.session s JOIN longhand.entry e ON e.session = s.number \
                           WHERE s.id = $1 AND e.seq = $2 AND e.seal = $3)";
                let values: [(&(dyn ToSql + Sync), Type); 3] =
                    [(&id, Type::BYTEA), (&seq, Type::INT8), (&seal, Type::BYTEA)];
                Ok(db.query_typed_one(sql, &values).await?.get(0))
            })
        });
        match asked.await {
            Ok(is_there) => return Ok(is_there),
            Err(fault) if patience.bears(&fault) => patience.pause().await,
            Err(_) => {
                let archive = server.name.clone();
                return Err(ArchiveError::from(ServerError::Uncertain { archive }).into());
            }
        }
    }
}

/// What is read before anything is decided.
struct Known {
    transaction: String,
    sessions: Vec<StoredSession>,
    sums: Vec<(SumsKey, LineSums)>,
    /// The numbers of sessions that may begin, and the ids of entries.
    numbers: Vec<i64>,
    ids: Vec<i64>,
}

impl Known {
    /// The sums of a line, as they are before it is changed for the first time.
    fn line<'s>(
        &self,
        changed: &'s mut BTreeMap<SumsKey, LineSums>,
        key: SumsKey,
    ) -> &'s mut LineSums {
        let known = self.sums.iter().find(|(other, _)| *other == key);
        let before = known.map(|(_, sums)| *sums).unwrap_or_default();
        changed.entry(key).or_insert(before)
    }
}

/// What a write says of edits, by day.
fn edits_of(write: &Write) -> BTreeMap<i64, EditSums> {
    let batches = write.batches.iter().map(|record| (record.at_ms, &record.batch));
    EditSums::of(batches, &write.notes)
}

async fn attempt(
    db: &Client,
    begin: &str,
    writes: &[ReadyWrite],
    statement_max: Duration,
) -> Result<Vec<Outcome>, Unmade> {
    let looking = timeout(statement_max, Box::pin(look(db, begin, writes))).await;
    let mut known = looking.unwrap_or(Err(Fault::Late))?;
    let mut outcomes = Vec::with_capacity(writes.len());
    let mut plans: Vec<Plan<'_>> = Vec::new();
    for ready in writes {
        match Plan::make(ready, &mut known) {
            Ok(plan) => {
                outcomes.push(Ok(plan.session.version()));
                plans.push(plan);
            }
            Err(Fault::Refused(error)) => outcomes.push(Err(error)),
            Err(Fault::Damage(damage)) => {
                let archive = "the archive".to_owned();
                outcomes.push(Err(ArchiveError::Damaged { archive, damage: Box::new(damage) }));
            }
            Err(fault) => return Err(fault.into()),
        }
    }
    let mut pipeline = Pipeline::default();
    let mut preambles: Vec<(Owner, &str)> = plans.iter().flat_map(Plan::preambles).collect();
    // In one order, so that no two transactions wait for each other.
    preambles.sort_unstable();
    preambles.dedup();
    if !preambles.is_empty() {
        let owners = preambles.iter().map(|(owner, _)| *owner);
        pipeline.add(lock_preambles(db, owners.map(preamble_lock).collect()));
    }
    for (owner, content) in preambles {
        pipeline.add(value::keep_preamble(db, owner, content));
    }
    for plan in &plans {
        plan.add_to(&mut pipeline, db);
    }
    let committing = both(pipeline.run(), db.batch_execute("COMMIT"));
    let Ok((made, committed)) = timeout(statement_max, committing).await else {
        return Err(Unmade::Uncertain(known.transaction, outcomes));
    };
    // The commit is on its way with the rest: a server that was lost may have made it.
    match made.and(committed).map_err(Fault::from) {
        Ok(()) => Ok(outcomes),
        Err(fault) if fault.is_lost() => Err(Unmade::Uncertain(known.transaction, outcomes)),
        Err(fault) => Err(fault.into()),
    }
}

/// Begins the transaction, locks the sessions and reads them: one round trip.
async fn look(db: &Client, begin: &str, writes: &[ReadyWrite]) -> Result<Known, Fault> {
    let mut ids: Vec<Vec<u8>> =
        writes.iter().map(|ready| ready.write.session.to_bytes().to_vec()).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut keys: Vec<SumsKey> = writes
        .iter()
        .flat_map(|ready| {
            let session = ready.write.session;
            let requests = ready.write.requests.iter();
            let days = edits_of(&ready.write).into_keys();
            let of_edits = days.map(move |day| SumsKey::of_edits(session, day));
            requests.map(move |request| SumsKey::of(session, request)).chain(of_edits)
        })
        .collect();
    keys.sort_unstable();
    keys.dedup();
    let entries = session::number(writes.iter().map(|ready| ready.entries.len() as u64).sum());
    let new = writes.iter().filter(|ready| ready.write.begin.is_some()).count() as u64;
    let new = session::number(new);
    let locking = async {
        // A lock on each, in one order.
        let sql = session::select!("WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE");
        db.query_typed(sql, &[(&ids, Type::BYTEA_ARRAY)]).await
    };
    // What follows is read after the sessions are locked.
    let summing =
        async { if keys.is_empty() { Ok(Vec::new()) } else { log::sums(db, &keys).await } };
    let numbering = async {
        let sql = "SELECT pg_current_xact_id()::text, \
                   ARRAY(SELECT nextval('longhand.entry_id') FROM generate_series(1, $1)), \
                   ARRAY(SELECT nextval(pg_get_serial_sequence('longhand.session', 'number')) \
                   FROM generate_series(1, $2))";
        db.query_typed_one(sql, &[(&entries, Type::INT8), (&new, Type::INT8)]).await
    };
    let rest = both(summing, numbering);
    let (begin, (sessions, (sums, numbers))) =
        Box::pin(both(db.batch_execute(begin), both(locking, rest))).await;
    begin?;
    let sessions = sessions?.iter().map(StoredSession::read).collect();
    let numbers = numbers?;
    let known = Known {
        transaction: numbers.get(0),
        sessions,
        sums: sums?,
        ids: numbers.get(1),
        numbers: numbers.get(2),
    };
    Ok(known)
}

/// What a write comes to.
struct Plan<'w> {
    session: StoredSession,
    is_new: bool,
    write: &'w Write,
    entries: Vec<StoredEntry>,
    batches: Vec<(u64, &'w BatchRecord)>,
    requests: Vec<(u64, &'w RequestRecord)>,
    notes: Vec<(u64, &'w Note)>,
    sums: BTreeMap<SumsKey, LineSums>,
}

impl<'w> Plan<'w> {
    fn make(ready: &'w ReadyWrite, known: &mut Known) -> Result<Self, Fault> {
        let write = &ready.write;
        let id = write.session;
        let found = known.sessions.iter().find(|session| session.id() == id).cloned();
        let found = found.map(StoredSession::checked).transpose()?;
        let version = found.as_ref().map_or(Version::default(), StoredSession::version);
        let conflict = || ArchiveError::Conflict { session: id, conflict: Conflict::Version };
        if write.expected.is_some_and(|expected| expected != version) {
            return Err(match found {
                None => ArchiveError::UnknownSession { session: id },
                Some(_) => conflict(),
            }
            .into());
        }
        let (session, is_new) = match (found, &write.begin) {
            (Some(_), Some(_)) => return Err(conflict().into()),
            (Some(session), None) => (session, false),
            (None, Some(new)) => (begun(id, new, known)?, true),
            (None, None) => return Err(ArchiveError::UnknownSession { session: id }.into()),
        };
        let mut plan = Self {
            session,
            is_new,
            write,
            entries: Vec::new(),
            batches: Vec::new(),
            requests: Vec::new(),
            notes: Vec::new(),
            sums: BTreeMap::new(),
        };
        plan.append(ready, known)?;
        plan.take_in(known);
        Ok(plan)
    }

    fn append(&mut self, ready: &ReadyWrite, known: &mut Known) -> Result<(), Fault> {
        let session = &mut self.session;
        let ids = known.ids.split_off(known.ids.len().saturating_sub(ready.entries.len()));
        for ((entry, id), bytes) in ready.entries.iter().zip(ids).zip(&ready.entry_bytes) {
            let node = entry.node;
            if node.seq.0 != session.info.entries
                || node.parent.is_some_and(|parent| parent >= node.seq)
            {
                let record = format!("entry {}", node.seq.0);
                return Err(ArchiveError::Unfit { session: session.id(), record }.into());
            }
            if session.info.entries == 0 {
                session.info.first_ms = entry.at_ms;
            }
            session.info.entries += 1;
            session.info.bytes += bytes;
            session.info.last_ms = entry.at_ms;
            session.info.activity = id.cast_unsigned();
            session.info.rounds = node.round + 1;
            session.parent = node.parent.map(|parent| parent.0);
            session.link = node.link;
            let mut entry = entry.clone();
            (entry.id, entry.session) = (id, session.number);
            self.entries.push(entry);
        }
        Ok(())
    }

    fn take_in(&mut self, known: &Known) {
        let (session, write) = (&mut self.session, self.write);
        for record in &write.batches {
            session.info.batches += 1;
            self.batches.push((session.info.batches, record));
        }
        session.undone.extend(&write.undos);
        if let Some(pins) = &write.pins {
            session.pins.clone_from(pins);
        }
        for request in &write.requests {
            session.requests += 1;
            self.requests.push((session.requests, request));
            let key = SumsKey::of(session.info.id, request);
            let (requests, _) = known.line(&mut self.sums, key);
            session.info.usage.count(request, requests);
        }
        for (day, new) in edits_of(write) {
            let key = SumsKey::of_edits(session.info.id, day);
            known.line(&mut self.sums, key).1.add(&new);
        }
        for note in &write.notes {
            session.notes += 1;
            self.notes.push((session.notes, note));
        }
        if let Some(opening) = write.opening.as_ref().filter(|_| session.info.opening.is_empty()) {
            session.info.opening.clone_from(opening);
        }
        session.info.origin.offset = write.imported.unwrap_or(session.info.origin.offset);
        if let Some(name) = &write.name {
            session.info.name.clone_from(name);
        }
    }

    fn preambles(&self) -> impl Iterator<Item = (Owner, &'w str)> + use<'w> {
        let owner = self.session.owner();
        self.write.preambles.iter().map(move |content| (owner, content.as_str()))
    }

    /// Adds the statements; nothing refers to what comes later.
    fn add_to<'p>(&'p self, pipeline: &mut Pipeline<'p>, db: &'p Client) {
        let (number, id) = (self.session.number, self.session.id());
        pipeline.add(self.session.save(db, self.is_new));
        for entries in entry::statements(&self.entries) {
            pipeline.add(entry::insert(db, entries));
        }
        for (at, record) in &self.batches {
            pipeline.add(batch::insert(db, number, id, *at, record));
        }
        for (at, request) in &self.requests {
            pipeline.add(log::insert_request(db, number, id, *at, request));
        }
        for (key, sums) in &self.sums {
            pipeline.add(log::save_sums(db, number, key, sums));
        }
        for (at, note) in &self.notes {
            pipeline.add(log::insert_note(db, number, id, *at, note));
        }
        for (key, content) in &self.write.derived {
            pipeline.add(value::keep_derived(db, number, id, key, content));
        }
    }
}

fn begun(id: SessionId, new: &NewSession, known: &mut Known) -> Result<StoredSession, Fault> {
    let missing = || Fault::NoConnection("the server gave no number".into());
    let number = known.numbers.pop().ok_or_else(missing)?;
    Ok(StoredSession { number, ..StoredSession::begin(id, new) })
}

/// Keeps others from removing preambles of owners until the transaction ends.
async fn lock_preambles(db: &Client, mut locks: Vec<i64>) -> Result<(), tokio_postgres::Error> {
    locks.sort_unstable();
    locks.dedup();
    let sql = "SELECT pg_advisory_xact_lock_shared(lock) FROM unnest($1::int8[]) lock";
    db.execute_typed(sql, &[(&locks, Type::INT8_ARRAY)]).await.map(drop)
}

/// The lock of an owner's preambles, for whoever removes some.
pub(super) fn preamble_lock(owner: Owner) -> i64 {
    i64::from_le_bytes(array(&blake3::hash(&owner.to_bytes()).as_bytes()[..8]))
}
