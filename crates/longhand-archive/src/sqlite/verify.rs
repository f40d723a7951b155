//! Checking everything.

mod chain;
mod words;

use std::path::Path;
use std::time::Duration;

use longhand_core::Handle;
use rusqlite::{Connection, OptionalExtension as _};

use super::fault::Fault;
use super::session::{self, Session, State};
use super::{open, original};
use crate::{ArchiveError, Damage, DamagedPart};

/// See [`crate::Archive::verify`].
pub(super) fn verify(
    path: &Path,
    wait_max: Duration,
    session: Option<&str>,
) -> Result<Vec<Damage>, ArchiveError> {
    // A connection of its own sees the file, and not what another one has cached.
    let damages = open::connect(path, wait_max).and_then(|db| {
        let mut check = Check { db, damages: Vec::new() };
        match session {
            Some(name) => check.one_session(name)?,
            None => check.everything(),
        }
        Ok(check.told_once())
    });
    damages.map_err(|fault| fault.into_error(path, wait_max))
}

/// A check on its way, with what it has found.
struct Check {
    db: Connection,
    damages: Vec<Damage>,
}

impl Check {
    /// One damage may be met on several ways.
    fn told_once(self) -> Vec<Damage> {
        let mut told: Vec<Damage> = Vec::with_capacity(self.damages.len());
        for damage in self.damages {
            // The same damage is met in one session, and so close by.
            if !told.iter().rev().take(8).any(|other| *other == damage) {
                told.push(damage);
            }
        }
        told
    }

    fn one_session(&mut self, name: &str) -> Result<(), Fault> {
        let key = session::key_of(name);
        let select = "SELECT id FROM session WHERE key = ?1";
        let id = self.db.query_row(select, [&key[..]], |row| row.get(0)).optional()?;
        let unknown = || ArchiveError::UnknownSession { session: name.to_owned() };
        let id = id.ok_or_else(unknown)?;
        self.session(id, &key, name.as_bytes());
        self.attempt(None, DamagedPart::Index, |check| words::check_session(&check.db, id));
        Ok(())
    }

    fn everything(&mut self) {
        self.attempt(None, DamagedPart::File, |check| structure(&check.db));
        for (id, key, name) in sessions(&self.db).unwrap_or_default() {
            self.session(id, &key, &name);
        }
        self.attempt(None, DamagedPart::File, |check| strays(&check.db));
        self.attempt(None, DamagedPart::Index, |check| words::check_all(&check.db));
    }

    fn session(&mut self, id: i64, key: &[u8], name: &[u8]) {
        let damages_before = self.damages.len();
        let name = String::from_utf8_lossy(name).into_owned();
        let part = DamagedPart::Session;
        // One state of all that belongs together; the entries are many, and only grow.
        let _ = self.db.execute_batch("BEGIN");
        let (session, is_sound) = known(&self.db, id, key, &name);
        if !is_sound {
            self.damages.push(damage(Some(&name), part.clone(), "failed its checksum"));
        }
        self.attempt(Some(&name), part.clone(), |check| chain::batches(&check.db, &session));
        self.attempt(Some(&name), part.clone(), |check| pins(&check.db, &session));
        self.attempt(Some(&name), part.clone(), |check| originals(&check.db, id, Some(&name)));
        let _ = self.db.execute_batch("COMMIT");
        self.attempt(Some(&name), part, |check| chain::entries(&check.db, &session));
        let select = "SELECT 1 FROM session WHERE id = ?1 AND key IS NOT NULL";
        if let Ok(None) = self.db.query_row(select, [id], |_| Ok(())).optional() {
            // It was removed meanwhile, and what seemed missing was being wiped.
            self.damages.truncate(damages_before);
        }
    }

    /// Notes what a part of the check finds, or that it could not be made.
    fn attempt(
        &mut self,
        session: Option<&str>,
        part: DamagedPart,
        action: impl FnOnce(&Self) -> Result<Vec<Damage>, Fault>,
    ) {
        match action(self) {
            Ok(damages) => self.damages.extend(damages),
            Err(Fault::Damage(damage)) => self.damages.push(damage),
            Err(Fault::Sqlite(error)) => {
                self.damages.push(damage(session, part, &format!("cannot be read: {error}")));
            }
            Err(Fault::Refused(error)) => {
                self.damages.push(damage(session, part, &format!("cannot be read: {error}")));
            }
        }
    }
}

fn damage(session: Option<&str>, part: DamagedPart, detail: &str) -> Damage {
    Damage { session: session.map(str::to_owned), part, detail: detail.to_owned() }
}

/// The structure of the file, as SQLite sees it.
fn structure(db: &Connection) -> Result<Vec<Damage>, Fault> {
    let mut select = db.prepare("PRAGMA integrity_check")?;
    let rows = select.query_map([], |row| row.get(0))?;
    let lines: Vec<String> = rows.collect::<Result<_, _>>()?;
    let faults = lines.iter().filter(|line| *line != "ok").map(|line| {
        let is_index = line.contains("FTS5");
        let part = if is_index { DamagedPart::Index } else { DamagedPart::File };
        damage(None, part, &format!("is not sound: {line}"))
    });
    Ok(faults.collect())
}

type SessionRow = (i64, Vec<u8>, Vec<u8>);

fn sessions(db: &Connection) -> Result<Vec<SessionRow>, Fault> {
    let select = "SELECT id, key, CAST(name AS BLOB) FROM session WHERE key IS NOT NULL";
    let mut select = db.prepare(select)?;
    let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// What is known of a session, and whether its own record is sound.
fn known(db: &Connection, id: i64, key: &[u8], name: &str) -> (Session, bool) {
    let key_by_name = session::key_of(name);
    let is_named_right = key_by_name[..] == *key;
    let key = key.try_into().unwrap_or(key_by_name);
    let state_by = |key| session::state(db, id, key).ok().flatten();
    // Either of name and key may be the damaged one.
    let (key, state) = match state_by(&key_by_name) {
        Some(state) => (key_by_name, Some(state)),
        None => (key, state_by(&key)),
    };
    let is_sound = is_named_right && state.is_some();
    let state = state.unwrap_or_else(|| State { entries: u64::MAX, ..State::new(&key) });
    (Session { id, name: name.to_owned(), key, state }, is_sound)
}

fn pins(db: &Connection, session: &Session) -> Result<Vec<Damage>, Fault> {
    if session.state.entries == u64::MAX {
        return Ok(Vec::new());
    }
    let pins = session::pins(db, session)?;
    let strays = pins.iter().filter(|seq| **seq >= session.state.entries).count();
    let stray = damage(Some(&session.name), DamagedPart::Pins, "names entries that are not there");
    Ok(Vec::from_iter((strays > 0).then_some(stray)))
}

/// The originals of one session, or with 0 those of nobody.
fn originals(db: &Connection, owner: i64, name: Option<&str>) -> Result<Vec<Damage>, Fault> {
    let mut select = db.prepare(
        "SELECT session, form, first, end, seal, text, handle FROM original WHERE session = ?1",
    )?;
    let mut rows = select.query([owner])?;
    let mut damages = Vec::new();
    while let Some(row) = rows.next()? {
        let quoted = row.get::<_, String>(6).unwrap_or_default();
        let bad = || damage(name, DamagedPart::Original(quoted.clone()), "failed its checksum");
        let (Some(handle), Ok(kept)) = (Handle::parse(&quoted), original::stored(row)) else {
            damages.push(bad());
            continue;
        };
        match original::opened(db, handle, &kept) {
            Ok(_) => {}
            Err(Fault::Damage(damage)) => damages.push(damage),
            Err(_) => damages.push(bad()),
        }
    }
    Ok(damages)
}

/// Rows that belong to no session, and originals that never did.
fn strays(db: &Connection) -> Result<Vec<Damage>, Fault> {
    let mut damages = originals(db, 0, None)?;
    for table in ["head", "entry", "batch", "pins", "original"] {
        let count: i64 = db.query_row(
            &format!(
                "SELECT count(*) FROM {table} WHERE session <> 0 \
                 AND session NOT IN (SELECT id FROM session)"
            ),
            [],
            |row| row.get(0),
        )?;
        if count > 0 {
            let detail = format!("has {count} rows of `{table}` that belong to no session");
            damages.push(damage(None, DamagedPart::File, &detail));
        }
    }
    Ok(damages)
}
