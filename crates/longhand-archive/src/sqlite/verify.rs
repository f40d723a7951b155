//! Checking everything.

mod extras;
mod ledger;
mod words;

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _};

use super::fault::Fault;
use super::open;
use super::session::{self, SessionTotals, StoredSession};
use crate::{ArchiveError, Damage, DamagedPart, SessionId};

/// See [`crate::Storage::check`].
pub(super) fn verify(
    path: &Path,
    wait_max: Duration,
    session: Option<SessionId>,
) -> Result<Vec<Damage>, ArchiveError> {
    // A connection of its own sees the file, and not what another one has cached.
    let damages = open::connect(path, wait_max).and_then(|db| verify_in(db, session));
    damages.map_err(|fault| fault.into_error(&path.display().to_string(), wait_max))
}

/// Checks all that a connection sees.
pub(super) fn verify_in(db: Connection, session: Option<SessionId>) -> Result<Vec<Damage>, Fault> {
    let mut check = Check { db, damages: Vec::new() };
    match session {
        Some(id) => check.one_session(id)?,
        None => check.everything(),
    }
    Ok(check.told_once())
}

/// A session that is checked.
struct Subject {
    session: StoredSession,
    /// Whether the totals are sound; if not, they are ignored.
    has_totals: bool,
}

impl Subject {
    fn damage(&self, part: DamagedPart, detail: &str) -> Damage {
        damage(Some(self.session.id), part, detail)
    }
}

/// Checks one thing that belongs to a session.
type PartCheck = fn(&Connection, &Subject) -> Result<Vec<Damage>, Fault>;

/// A running check, and the damage found so far.
struct Check {
    db: Connection,
    damages: Vec<Damage>,
}

impl Check {
    /// Returns each damage once: several checks may find the same.
    fn told_once(self) -> Vec<Damage> {
        let mut told: Vec<Damage> = Vec::with_capacity(self.damages.len());
        for damage in self.damages {
            // Repeated findings are of one session, so they are close together.
            if !told.iter().rev().take(8).any(|other| *other == damage) {
                told.push(damage);
            }
        }
        told
    }

    fn one_session(&mut self, id: SessionId) -> Result<(), Fault> {
        let select = "SELECT id FROM session WHERE key = ?1";
        let row = self.db.query_row(select, [id.to_bytes()], |row| row.get(0)).optional()?;
        let row = row.ok_or(ArchiveError::UnknownSession { session: id })?;
        self.session(row, id);
        self.attempt(None, DamagedPart::Index, |check| words::check_session(&check.db, row));
        Ok(())
    }

    fn everything(&mut self) {
        self.attempt(None, DamagedPart::File, |check| structure(&check.db));
        match sessions(&self.db) {
            Ok(sessions) => sessions.into_iter().for_each(|(row, id)| self.session(row, id)),
            Err(fault) => self.attempt(None, DamagedPart::File, |_| Err(fault)),
        }
        self.attempt(None, DamagedPart::File, |check| extras::preambles(&check.db));
        self.attempt(None, DamagedPart::File, |check| extras::strays(&check.db));
        self.attempt(None, DamagedPart::File, |check| extras::stray_bodies(&check.db));
        self.attempt(None, DamagedPart::Index, |check| words::check_all(&check.db));
    }

    fn session(&mut self, row: i64, id: SessionId) {
        let damages_before = self.damages.len();
        // One state of all that belongs together; the entries are many, and only grow.
        let _ = self.db.execute_batch("BEGIN");
        let subject = self.subject(row, id);
        if let Some(subject) = &subject {
            self.all_but_entries(subject);
        }
        let _ = self.db.execute_batch("COMMIT");
        if let Some(subject) = &subject {
            self.attempt(Some(id), DamagedPart::Session, |check| {
                ledger::entries(&check.db, subject)
            });
        }
        let select = "SELECT 1 FROM session WHERE id = ?1 AND key IS NOT NULL";
        if let Ok(None) = self.db.query_row(select, [row], |_| Ok(())).optional() {
            // It was removed meanwhile: what seemed to be missing was being wiped.
            self.damages.truncate(damages_before);
        }
    }

    /// Reads the session's own records; `None` if its identity is uncertain, for then nothing else can be checked.
    fn subject(&mut self, row: i64, id: SessionId) -> Option<Subject> {
        let found = session::find_row(&self.db, id).ok().flatten();
        let found = found.filter(|found| found.row == row && found.is_sound());
        let totals = session::totals(&self.db, row, id).ok().flatten();
        let has_totals = totals.is_some();
        if found.is_none() || !has_totals {
            let part = DamagedPart::Session;
            self.damages.push(damage(Some(id), part, "failed its checksum"));
        }
        let totals = totals.unwrap_or_else(|| SessionTotals::new(id));
        let owner = found?.new.owner;
        Some(Subject { session: StoredSession { row, id, owner, totals }, has_totals })
    }

    fn all_but_entries(&mut self, subject: &Subject) {
        let id = Some(subject.session.id);
        let part = DamagedPart::Session;
        let mut batches = Vec::new();
        let damages_before = self.damages.len();
        self.attempt(id, part.clone(), |check| {
            let (sound, damages) = ledger::batches(&check.db, subject)?;
            batches = sound;
            Ok(damages)
        });
        let is_complete = self.damages.len() == damages_before;
        self.attempt(id, part.clone(), |check| {
            extras::references(&check.db, subject, &batches, is_complete)
        });
        let parts: [PartCheck; 5] =
            [extras::undos, extras::pins, extras::requests, extras::notes, extras::derived];
        for check_part in parts {
            self.attempt(id, part.clone(), |check| check_part(&check.db, subject));
        }
    }

    /// Notes what a part of the check finds, or that it could not be made.
    fn attempt(
        &mut self,
        session: Option<SessionId>,
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

fn damage(session: Option<SessionId>, part: DamagedPart, detail: &str) -> Damage {
    Damage { session, part, detail: detail.to_owned() }
}

/// The structure of the file, as SQLite sees it.
fn structure(db: &Connection) -> Result<Vec<Damage>, Fault> {
    let mut select = db.prepare("PRAGMA integrity_check")?;
    let rows = select.query_map([], |row| row.get(0))?;
    let lines: Vec<String> = rows.collect::<Result<_, _>>()?;
    let faults = lines
        .iter()
        .filter(|line| *line != "ok")
        .map(|line| damage(None, DamagedPart::File, &format!("is not sound: {line}")));
    Ok(faults.collect())
}

/// The rows and ids of all sessions; an id that is illegible is one that no session has.
fn sessions(db: &Connection) -> Result<Vec<(i64, SessionId)>, Fault> {
    let mut select = db.prepare("SELECT id, key FROM session WHERE key IS NOT NULL")?;
    let rows = select.query_map([], |row| {
        Ok((row.get(0)?, row.get(1).map(SessionId::from_bytes).unwrap_or_default()))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
