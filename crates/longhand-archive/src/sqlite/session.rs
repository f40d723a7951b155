//! Sessions: the row that never changes, and the totals that do.

use longhand_core::session::{News, Version};
use longhand_core::{Link, Seq};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::fault::{Fault, illegible_as, is_illegible};
use super::seal::{Seal, Sealer};
use super::tree::{self, StoredNode};
use super::{batch, preamble};
use crate::{DamagedPart, NewSession, Opened, Origin, Owner, SessionId, SessionInfo, SessionUsage};

/// A session whose row and totals have passed their checksums.
#[derive(Clone, Debug)]
pub(super) struct StoredSession {
    /// The id of its row.
    pub(super) row: i64,
    pub(super) id: SessionId,
    pub(super) owner: Owner,
    pub(super) totals: SessionTotals,
}

/// The counts, times and seals that change with every entry and batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SessionTotals {
    pub(super) entries: u64,
    pub(super) bytes: u64,
    pub(super) first_ms: i64,
    pub(super) last_ms: i64,
    /// The row of the entry appended last, which tells the order of activity.
    pub(super) newest_row: i64,
    /// The entry appended last; meaningless if there are no entries.
    newest: StoredNode,
    pub(super) batches: u64,
    /// The seal of the newest batch in the log, live or not.
    pub(super) batch_seal: Seal,
    pub(super) undos: u64,
    pub(super) undo_seal: Seal,
    pub(super) requests: u64,
    pub(super) notes: u64,
    /// How many bytes of the file that it comes from are in it.
    pub(super) imported: u64,
    pub(super) pins: Seal,
    /// What its requests took.
    pub(super) usage: SessionUsage,
    /// The user's first words.
    pub(super) opening: String,
}

impl SessionTotals {
    pub(super) fn new(id: SessionId) -> Self {
        Self {
            entries: 0,
            bytes: 0,
            first_ms: 0,
            last_ms: 0,
            newest_row: 0,
            newest: StoredNode {
                seq: 0,
                parent: None,
                depth: 0,
                round: 0,
                link: Link(0),
                seal: first_seal(id, "entries"),
            },
            batches: 0,
            batch_seal: first_seal(id, "batches"),
            undos: 0,
            undo_seal: first_seal(id, "undos"),
            requests: 0,
            notes: 0,
            imported: 0,
            pins: seal_of_pins(&[]),
            usage: SessionUsage::default(),
            opening: String::new(),
        }
    }

    /// The entry appended last.
    pub(super) fn newest(&self) -> Option<&StoredNode> {
        (self.entries > 0).then_some(&self.newest)
    }

    /// Takes note of an entry that was appended.
    pub(super) fn add(&mut self, node: StoredNode, row: i64, bytes: usize, at_ms: i64) {
        if self.entries == 0 {
            self.first_ms = at_ms;
        }
        self.entries += 1;
        self.bytes += bytes as u64;
        self.last_ms = at_ms;
        self.newest_row = row;
        self.newest = node;
    }

    fn rounds(&self) -> u64 {
        self.newest().map_or(0, |newest| newest.round + 1)
    }

    fn seal(&self, id: SessionId, owner: Owner) -> Seal {
        Sealer::new("head")
            .bytes(&id.to_bytes())
            .bytes(&owner.to_bytes())
            .number(self.entries)
            .number(self.bytes)
            .time(self.first_ms)
            .time(self.last_ms)
            .time(self.newest_row)
            .optional(self.newest.parent)
            .number(self.newest.depth)
            .number(self.newest.round)
            .bytes(&self.newest.link.0.to_be_bytes())
            .bytes(&self.newest.seal)
            .number(self.batches)
            .bytes(&self.batch_seal)
            .number(self.undos)
            .bytes(&self.undo_seal)
            .number(self.requests)
            .number(self.notes)
            .number(self.imported)
            .bytes(&self.pins)
            .bytes(&self.usage.encode())
            .bytes(self.opening.as_bytes())
            .seal()
    }
}

/// The seal that the first entry, batch or undo of a session is chained to.
pub(super) fn first_seal(id: SessionId, things: &str) -> Seal {
    Sealer::new(things).bytes(&id.to_bytes()).seal()
}

impl StoredSession {
    pub(super) fn damage(&self, part: DamagedPart, detail: &str) -> Fault {
        Fault::damage(self.id, part, detail)
    }

    /// The version: how many entries, batches and undos it has, and a hash of its pins.
    pub(super) fn version(&self) -> Version {
        let totals = &self.totals;
        let pins = if totals.pins == seal_of_pins(&[]) { 0 } else { short(&totals.pins) };
        Version {
            birth: self.row.cast_unsigned(),
            entries: totals.entries,
            batches: totals.batches,
            undos: totals.undos,
            pins,
        }
    }
}

/// The first bytes of a seal, which hardly ever equal those of another one.
fn short(seal: &Seal) -> u64 {
    seal.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// A session's own row; only its name may change.
pub(super) struct SessionRow {
    pub(super) row: i64,
    pub(super) id: SessionId,
    pub(super) new: NewSession,
    seal: Seal,
}

impl SessionRow {
    pub(super) fn is_sound(&self) -> bool {
        seal_of_row(self.id, &self.new) == self.seal
    }
}

fn seal_of_row(id: SessionId, new: &NewSession) -> Seal {
    Sealer::new("session")
        .bytes(&id.to_bytes())
        .bytes(&new.owner.to_bytes())
        .bytes(new.continues.map(SessionId::to_bytes).as_ref().map_or(&[], |bytes| &bytes[..]))
        .optional(new.group)
        .time(new.begun_ms)
        .bytes(new.dialect.as_bytes())
        .bytes(new.name.as_bytes())
        .bytes(new.origin.project.as_bytes())
        .bytes(new.origin.agent.as_bytes())
        .bytes(new.origin.file.as_bytes())
        .seal()
}

const SELECT_BY_KEY: &str = "SELECT id, key, owner, continues, begun_ms, seal, dialect, name, \
                             kin, project, agent, file FROM session WHERE key = ?1";
const SELECT_BY_ROW: &str = "SELECT id, key, owner, continues, begun_ms, seal, dialect, name, \
                             kin, project, agent, file FROM session WHERE id = ?1";

fn row(row: &Row<'_>) -> Result<SessionRow, rusqlite::Error> {
    let continues: Option<[u8; 16]> = row.get(3)?;
    let origin =
        Origin { project: row.get(9)?, agent: row.get(10)?, file: row.get(11)?, offset: 0 };
    let new = NewSession {
        owner: Owner::from_bytes(row.get(2)?),
        dialect: row.get(6)?,
        name: row.get(7)?,
        continues: continues.map(SessionId::from_bytes),
        group: row.get::<_, Option<i64>>(8)?.map(i64::cast_unsigned),
        begun_ms: row.get(4)?,
        origin,
        // What is learned later is in the totals.
        opening: String::new(),
    };
    Ok(SessionRow {
        row: row.get(0)?,
        id: SessionId::from_bytes(row.get(1)?),
        new,
        seal: row.get(5)?,
    })
}

/// Finds a session's own row, which may be damaged.
pub(super) fn find_row(
    db: &Connection,
    id: SessionId,
) -> Result<Option<SessionRow>, rusqlite::Error> {
    db.prepare_cached(SELECT_BY_KEY)?.query_row([id.to_bytes()], row).optional()
}

/// Finds a session.
pub(super) fn find(db: &Connection, id: SessionId) -> Result<Option<StoredSession>, Fault> {
    let damaged = || Fault::damage(id, DamagedPart::Session, "failed its checksum");
    let Some(found) = find_row(db, id).map_err(illegible_as(damaged))? else {
        return Ok(None);
    };
    if !found.is_sound() {
        return Err(damaged());
    }
    let totals = totals(db, found.row, id)?.ok_or_else(damaged)?;
    Ok(Some(StoredSession { row: found.row, id, owner: found.new.owner, totals }))
}

/// Finds a session by its row; `None` if it is not there any more.
pub(super) fn by_row(db: &Connection, row: i64) -> Result<Option<StoredSession>, Fault> {
    let mut select =
        db.prepare_cached("SELECT key FROM session WHERE id = ?1 AND key IS NOT NULL")?;
    let key: Option<[u8; 16]> = select.query_row([row], |row| row.get(0)).optional()?;
    match key {
        Some(key) => find(db, SessionId::from_bytes(key)),
        None => Ok(None),
    }
}

/// Begins a session, which is still to be saved.
/// `row` is the id of its row, if that is not to be the next one.
pub(super) fn begin(
    db: &Connection,
    row: Option<i64>,
    id: SessionId,
    new: &NewSession,
) -> Result<StoredSession, Fault> {
    let mut insert = db.prepare_cached(
        "INSERT INTO session (id, key, owner, continues, begun_ms, seal, dialect, name, kin, project, \
         agent, file) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
    )?;
    insert.execute((
        row,
        id.to_bytes(),
        new.owner.to_bytes(),
        new.continues.map(SessionId::to_bytes),
        new.begun_ms,
        seal_of_row(id, new),
        &new.dialect,
        &new.name,
        new.group.map(u64::cast_signed),
        &new.origin.project,
        &new.origin.agent,
        &new.origin.file,
    ))?;
    let row = db.last_insert_rowid();
    let totals = SessionTotals {
        imported: new.origin.offset,
        opening: new.opening.clone(),
        ..SessionTotals::new(id)
    };
    Ok(StoredSession { row, id, owner: new.owner, totals })
}

/// Gives a session another name.
pub(super) fn rename(db: &Connection, session: &StoredSession, name: &str) -> Result<(), Fault> {
    let Some(mut found) = find_row(db, session.id)? else { return Ok(()) };
    name.clone_into(&mut found.new.name);
    let mut update = db.prepare_cached("UPDATE session SET name = ?1, seal = ?2 WHERE id = ?3")?;
    update.execute((name, seal_of_row(session.id, &found.new), found.row))?;
    Ok(())
}

/// Writes the session's totals.
pub(super) fn save(db: &Connection, session: &StoredSession) -> Result<(), Fault> {
    let totals = &session.totals;
    let mut replace = db.prepare_cached(
        "INSERT OR REPLACE INTO head VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, \
         ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23)",
    )?;
    replace.execute(params![
        session.row,
        session.owner.to_bytes(),
        totals.newest_row,
        signed(totals.entries),
        signed(totals.bytes),
        totals.first_ms,
        totals.last_ms,
        totals.newest.parent.map(signed),
        signed(totals.newest.depth),
        signed(totals.newest.round),
        totals.newest.link.0.to_be_bytes(),
        totals.newest.seal,
        signed(totals.batches),
        totals.batch_seal,
        signed(totals.undos),
        totals.undo_seal,
        signed(totals.requests),
        signed(totals.notes),
        signed(totals.imported),
        totals.pins,
        totals.seal(session.id, session.owner),
        totals.usage.encode(),
        totals.opening,
    ])?;
    Ok(())
}

/// Reads a session's totals; `None` if the row is gone or is not what was written.
pub(super) fn totals(
    db: &Connection,
    row: i64,
    id: SessionId,
) -> Result<Option<SessionTotals>, Fault> {
    let mut select = db.prepare_cached("SELECT * FROM head WHERE session = ?1")?;
    match select.query_row([row], totals_and_seal).optional() {
        Ok(found) => {
            let found = found.filter(|(totals, owner, seal)| totals.seal(id, *owner) == *seal);
            Ok(found.map(|(totals, ..)| totals))
        }
        Err(error) if is_illegible(&error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn totals_and_seal(row: &Row<'_>) -> Result<(SessionTotals, Owner, Seal), rusqlite::Error> {
    let entries = unsigned(row, 3)?;
    let newest = StoredNode {
        seq: entries.saturating_sub(1),
        parent: optional(row, 7)?,
        depth: unsigned(row, 8)?,
        round: unsigned(row, 9)?,
        link: Link(u128::from_be_bytes(row.get(10)?)),
        seal: row.get(11)?,
    };
    let usage = SessionUsage::decode(row.get_ref(21)?.as_blob()?);
    let totals = SessionTotals {
        entries,
        bytes: unsigned(row, 4)?,
        first_ms: row.get(5)?,
        last_ms: row.get(6)?,
        newest_row: row.get(2)?,
        newest,
        batches: unsigned(row, 12)?,
        batch_seal: row.get(13)?,
        undos: unsigned(row, 14)?,
        undo_seal: row.get(15)?,
        requests: unsigned(row, 16)?,
        notes: unsigned(row, 17)?,
        imported: unsigned(row, 18)?,
        pins: row.get(19)?,
        usage: usage.unwrap_or_default(),
        opening: row.get(22)?,
    };
    Ok((totals, Owner::from_bytes(row.get(1)?), row.get(20)?))
}

/// See [`crate::Storage::open`].
pub(super) fn open(
    db: &Connection,
    id: SessionId,
    since: Version,
) -> Result<Option<Opened>, Fault> {
    let Some(session) = find(db, id)? else { return Ok(None) };
    let version = session.version();
    let is_earlier = since.birth == version.birth
        && since.entries <= version.entries
        && since.batches <= version.batches
        && since.undos <= version.undos;
    let since = if is_earlier { since } else { Version::default() };
    let has_undone = since.undos < version.undos;
    let undone = if has_undone { batch::undo_log(db, &session)? } else { Vec::new() };
    let forks = if since.entries < version.entries {
        tree::forks(db, &session, since.entries)?
    } else {
        Vec::new()
    };
    let news = News {
        version,
        newest: session.totals.newest().map(Into::into),
        forks,
        batches: batch::lines(db, &session, since.batches)?,
        undone: undone.into_iter().skip(since.undos as usize).collect(),
        pins: pins(db, &session)?.into_iter().map(Seq).collect(),
    };
    let requests = session.totals.requests;
    let session = info_of_row(db, session.row, id)?;
    Ok(Some(Opened { session, news, nodes: Vec::new(), requests }))
}

/// Returns what is legible of a session, whatever is damaged.
pub(super) fn info_of_row(
    db: &Connection,
    row_id: i64,
    id: SessionId,
) -> Result<SessionInfo, Fault> {
    let mut select = db.prepare_cached(SELECT_BY_ROW)?;
    let damaged = SessionInfo { id, is_damaged: true, ..SessionInfo::default() };
    let found = match select.query_row([row_id], row) {
        Ok(found) => found,
        Err(error) if is_illegible(&error) => return Ok(damaged),
        Err(error) => return Err(error.into()),
    };
    let totals = totals(db, row_id, id)?.filter(|_| found.is_sound());
    let NewSession { owner, dialect, name, continues, group, begun_ms, origin, .. } = found.new;
    let info = SessionInfo { owner, dialect, name, continues, group, begun_ms, origin, ..damaged };
    Ok(match totals {
        None => info,
        Some(totals) => SessionInfo {
            entries: totals.entries,
            rounds: totals.rounds(),
            batches: totals.batches,
            bytes: totals.bytes,
            first_ms: totals.first_ms,
            last_ms: totals.last_ms,
            activity: totals.newest_row.cast_unsigned(),
            origin: Origin { offset: totals.imported, ..info.origin },
            opening: totals.opening,
            usage: totals.usage,
            is_damaged: false,
            ..info
        },
    })
}

/// Writes the session's pins, which are in order; the session is still to be saved.
pub(super) fn set_pins(
    db: &Connection,
    session: &mut StoredSession,
    pins: &[Seq],
) -> Result<(), Fault> {
    let seqs: Vec<u8> = pins.iter().flat_map(|seq| seq.0.to_le_bytes()).collect();
    db.prepare_cached("INSERT OR REPLACE INTO pins VALUES (?1, ?2)")?
        .execute((session.row, &seqs))?;
    session.totals.pins = seal_of_pins(&seqs);
    Ok(())
}

/// The session's pins, in order.
pub(super) fn pins(db: &Connection, session: &StoredSession) -> Result<Vec<u64>, Fault> {
    let mut select = db.prepare_cached("SELECT seqs FROM pins WHERE session = ?1")?;
    let seqs: Option<Vec<u8>> = select.query_row([session.row], |row| row.get(0)).optional()?;
    let seqs = seqs.unwrap_or_default();
    if seal_of_pins(&seqs) != session.totals.pins {
        return Err(session.damage(DamagedPart::Pins, "failed its checksum"));
    }
    let (seqs, _) = seqs.as_chunks();
    Ok(seqs.iter().map(|seq| u64::from_le_bytes(*seq)).collect())
}

fn seal_of_pins(seqs: &[u8]) -> Seal {
    Sealer::new("pins").bytes(seqs).seal()
}

/// Hides a session; [`super::sweep`] wipes it.
pub(super) fn remove(db: &Connection, id: SessionId) -> Result<bool, Fault> {
    let mut select = db.prepare_cached("SELECT id, owner FROM session WHERE key = ?1")?;
    let found = select.query_row([id.to_bytes()], |row| Ok((row.get(0)?, row.get(1)?)));
    let Some((row, owner)) = found.optional()? else { return Ok(false) };
    db.prepare_cached(
        "UPDATE session SET key = NULL, dialect = '', name = '', project = '', agent = '', \
         file = '' WHERE id = ?1",
    )?
    .execute([row])?;
    preamble::remove_unused(db, row, owner)?;
    Ok(true)
}

/// SQLite's integers have a sign; no count gets near the limit.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Reads a count.
pub(super) fn unsigned(row: &Row<'_>, column: usize) -> Result<u64, rusqlite::Error> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, number))
}

/// Reads a count that may be missing.
pub(super) fn optional(row: &Row<'_>, column: usize) -> Result<Option<u64>, rusqlite::Error> {
    match row.get::<_, Option<i64>>(column)? {
        None => Ok(None),
        Some(_) => unsigned(row, column).map(Some),
    }
}
