//! Sessions: who they are and where they stand.

use rusqlite::{Connection, OptionalExtension as _, Row};

use super::batch;
use super::fault::Fault;
use super::seal::{Seal, Sealer};
use crate::{ArchiveError, DamagedPart, Head, SessionInfo};

/// A session's row, checked.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) id: i64,
    pub(super) name: String,
    pub(super) key: [u8; 32],
    pub(super) state: State,
}

/// What changes with every entry and batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) entries: u64,
    pub(super) rounds: u64,
    pub(super) bytes: u64,
    pub(super) first_ms: i64,
    pub(super) last_ms: i64,
    /// The link of the newest entry in the chain.
    pub(super) link: Seal,
    pub(super) batches: u64,
    /// The newest live batch; 0 if there is none.
    pub(super) batch: u64,
    /// The link of the newest batch in the log, live or not.
    pub(super) batch_link: Seal,
    pub(super) pins: Seal,
}

/// The hash under which a session is found: names may be long.
pub(super) fn key_of(name: &str) -> [u8; 32] {
    *blake3::hash(name.as_bytes()).as_bytes()
}

impl State {
    pub(super) fn new(key: &[u8; 32]) -> Self {
        Self {
            entries: 0,
            rounds: 0,
            bytes: 0,
            first_ms: 0,
            last_ms: 0,
            link: Sealer::new("entries").bytes(key).seal(),
            batches: 0,
            batch: 0,
            batch_link: Sealer::new("batches").bytes(key).seal(),
            pins: seal_of_pins(&[]),
        }
    }

    fn seal(&self, key: &[u8; 32]) -> Seal {
        Sealer::new("head")
            .bytes(key)
            .number(self.entries)
            .number(self.rounds)
            .number(self.bytes)
            .time(self.first_ms)
            .time(self.last_ms)
            .bytes(&self.link)
            .number(self.batches)
            .number(self.batch)
            .bytes(&self.batch_link)
            .bytes(&self.pins)
            .seal()
    }
}

impl Session {
    /// The link before the first entry.
    pub(super) fn first_link(&self) -> Seal {
        State::new(&self.key).link
    }

    /// The link before the first batch.
    pub(super) fn first_batch_link(&self) -> Seal {
        State::new(&self.key).batch_link
    }

    pub(super) fn damage(&self, part: DamagedPart, detail: &str) -> Fault {
        Fault::damage(&self.name, part, detail)
    }

    pub(super) fn require(&self, range: &std::ops::Range<u64>) -> Result<(), Fault> {
        let entries = self.state.entries;
        if range.start <= range.end && range.end <= entries {
            return Ok(());
        }
        let session = self.name.clone();
        Err(ArchiveError::NoSuchEntries { session, range: range.clone(), entries }.into())
    }
}

/// Finds a session.
pub(super) fn find(db: &Connection, name: &str) -> Result<Option<Session>, Fault> {
    let key = key_of(name);
    let mut select = db.prepare_cached("SELECT id FROM session WHERE key = ?1")?;
    let id: Option<i64> = select.query_row([&key[..]], |row| row.get(0)).optional()?;
    let Some(id) = id else { return Ok(None) };
    let state = state(db, id, &key)?;
    let missing = || Fault::damage(name, DamagedPart::Session, "failed its checksum");
    let state = state.ok_or_else(missing)?;
    Ok(Some(Session { id, name: name.to_owned(), key, state }))
}

/// Finds a session that must be there.
pub(super) fn require(db: &Connection, name: &str) -> Result<Session, Fault> {
    find(db, name)?.ok_or_else(|| ArchiveError::UnknownSession { session: name.to_owned() }.into())
}

/// Finds a session or begins it.
pub(super) fn find_or_create(db: &Connection, name: &str) -> Result<Session, Fault> {
    if let Some(session) = find(db, name)? {
        return Ok(session);
    }
    let key = key_of(name);
    db.prepare_cached("INSERT INTO session (key, name) VALUES (?1, ?2)")?
        .execute((&key[..], name))?;
    let id = db.last_insert_rowid();
    Ok(Session { id, name: name.to_owned(), key, state: State::new(&key) })
}

/// Finds a session by its number; `None` if it is not there any more.
pub(super) fn by_id(db: &Connection, id: i64) -> Result<Option<Session>, Fault> {
    let mut select =
        db.prepare_cached("SELECT name FROM session WHERE id = ?1 AND key IS NOT NULL")?;
    let name: Option<String> = select.query_row([id], |row| row.get(0)).optional()?;
    match name {
        Some(name) => find(db, &name),
        None => Ok(None),
    }
}

/// Writes where the session stands now.
pub(super) fn save(db: &Connection, session: &Session) -> Result<(), Fault> {
    let state = &session.state;
    let mut replace = db.prepare_cached(
        "INSERT OR REPLACE INTO head VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
    )?;
    replace.execute((
        session.id,
        signed(state.entries),
        signed(state.rounds),
        signed(state.bytes),
        state.first_ms,
        state.last_ms,
        state.link,
        signed(state.batches),
        signed(state.batch),
        state.batch_link,
        state.pins,
        state.seal(&session.key),
    ))?;
    Ok(())
}

/// Reads where a session stands; `None` if the row is gone or is not what was written.
pub(super) fn state(db: &Connection, id: i64, key: &[u8; 32]) -> Result<Option<State>, Fault> {
    let mut select = db.prepare_cached("SELECT * FROM head WHERE session = ?1")?;
    let found = select.query_row([id], state_and_seal).optional()?;
    Ok(found.filter(|(state, seal)| state.seal(key) == *seal).map(|(state, _)| state))
}

fn state_and_seal(row: &Row<'_>) -> Result<(State, Seal), rusqlite::Error> {
    let state = State {
        entries: unsigned(row, 1)?,
        rounds: unsigned(row, 2)?,
        bytes: unsigned(row, 3)?,
        first_ms: row.get(4)?,
        last_ms: row.get(5)?,
        link: row.get(6)?,
        batches: unsigned(row, 7)?,
        batch: unsigned(row, 8)?,
        batch_link: row.get(9)?,
        pins: row.get(10)?,
    };
    Ok((state, row.get(11)?))
}

/// See [`crate::Archive::head`].
pub(super) fn head(db: &Connection, name: &str) -> Result<Option<Head>, Fault> {
    let Some(session) = find(db, name)? else { return Ok(None) };
    let batch = match session.state.batch {
        0 => None,
        number => Some(batch::newest_live(db, &session, number)?),
    };
    let pins = pins(db, &session)?;
    let State { entries, rounds, batches, batch: live, .. } = session.state;
    Ok(Some(Head { entries, rounds, batch, undone: live < batches, pins }))
}

/// See [`crate::Archive::sessions`].
pub(super) fn sessions(db: &Connection) -> Result<Vec<SessionInfo>, Fault> {
    let mut select =
        db.prepare_cached("SELECT id, CAST(name AS BLOB), key FROM session WHERE key IS NOT NULL")?;
    let mut rows = select.query([])?;
    let mut infos = Vec::new();
    while let Some(row) = rows.next()? {
        let (number, name, key): (i64, Vec<u8>, Vec<u8>) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let id = String::from_utf8_lossy(&name).into_owned();
        let is_sound = key_of(&id)[..] == key[..];
        let state = if is_sound { state(db, number, &key_of(&id))? } else { None };
        infos.push(match state {
            Some(state) => SessionInfo {
                id,
                entries: state.entries,
                rounds: state.rounds,
                batches: state.batches,
                bytes: state.bytes,
                first_ms: state.first_ms,
                last_ms: state.last_ms,
                damaged: false,
            },
            None => SessionInfo { id, damaged: true, ..SessionInfo::default() },
        });
    }
    infos.sort_unstable_by(|one, other| one.id.cmp(&other.id));
    Ok(infos)
}

/// See [`crate::Archive::pin`].
pub(super) fn pin(db: &Connection, name: &str, seq: u64, pinned: bool) -> Result<(), Fault> {
    let mut session = require(db, name)?;
    session.require(&(seq..seq.saturating_add(1)))?;
    let mut pins = pins(db, &session)?;
    match (pins.binary_search(&seq), pinned) {
        (Err(at), true) => pins.insert(at, seq),
        (Ok(at), false) => {
            pins.remove(at);
        }
        _ => return Ok(()),
    }
    let seqs: Vec<u8> = pins.iter().flat_map(|seq| seq.to_le_bytes()).collect();
    db.prepare_cached("INSERT OR REPLACE INTO pins VALUES (?1, ?2)")?
        .execute((session.id, &seqs))?;
    session.state.pins = seal_of_pins(&seqs);
    save(db, &session)
}

/// The session's pins, in order.
pub(super) fn pins(db: &Connection, session: &Session) -> Result<Vec<u64>, Fault> {
    let mut select = db.prepare_cached("SELECT seqs FROM pins WHERE session = ?1")?;
    let seqs: Option<Vec<u8>> = select.query_row([session.id], |row| row.get(0)).optional()?;
    let seqs = seqs.unwrap_or_default();
    if seal_of_pins(&seqs) != session.state.pins {
        return Err(session.damage(DamagedPart::Pins, "failed its checksum"));
    }
    let (seqs, _) = seqs.as_chunks();
    Ok(seqs.iter().map(|seq| u64::from_le_bytes(*seq)).collect())
}

fn seal_of_pins(seqs: &[u8]) -> Seal {
    Sealer::new("pins").bytes(seqs).seal()
}

/// Hides a session; [`super::sweep`] wipes it.
pub(super) fn remove(db: &Connection, name: &str) -> Result<bool, Fault> {
    let mut update =
        db.prepare_cached("UPDATE session SET key = NULL, name = '' WHERE key = ?1")?;
    Ok(update.execute([&key_of(name)[..]])? > 0)
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
