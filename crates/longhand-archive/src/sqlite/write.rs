//! Writes to sessions, each made completely or not at all.

use longhand_core::session::Version;
use rusqlite::Connection;

use super::entry::{ReadyEntry, Statements};
use super::fault::Fault;
use super::request::RequestLog;
use super::session::{self, StoredSession};
use super::transaction::attempt;
use super::{batch, derived, note, preamble};
use crate::{ArchiveError, Conflict, Write};

/// A write with all that can be worked out before the file is locked.
#[derive(Debug)]
pub(super) struct ReadyWrite {
    write: Write,
    entries: Vec<ReadyEntry>,
}

impl ReadyWrite {
    pub(super) fn new(mut write: Write) -> Self {
        let entries = std::mem::take(&mut write.entries).into_iter().map(ReadyEntry::new).collect();
        Self { write, entries }
    }

    fn make(&self, db: &Connection, statements: &mut Statements) -> Result<Version, Fault> {
        let Write { begin, expected, batches, undos, pins, preambles, requests, .. } = &self.write;
        let Write { notes, derived, opening, imported, .. } = &self.write;
        let id = self.write.session;
        let found = session::find(db, id)?;
        let version = found.as_ref().map_or(Version::default(), StoredSession::version);
        if expected.is_some_and(|expected| expected != version) {
            let conflict = Conflict::Version;
            return Err(match found {
                None => ArchiveError::UnknownSession { session: id },
                Some(_) => ArchiveError::Conflict { session: id, conflict },
            }
            .into());
        }
        let mut session = match (found, begin) {
            (Some(_), Some(_)) => {
                let conflict = Conflict::Version;
                return Err(ArchiveError::Conflict { session: id, conflict }.into());
            }
            (Some(session), None) => session,
            (None, Some(new)) => session::begin(db, None, id, new)?,
            (None, None) => return Err(ArchiveError::UnknownSession { session: id }.into()),
        };
        statements.append(&mut session, &self.entries)?;
        for record in batches {
            batch::insert(db, &mut session, record)?;
        }
        for number in undos {
            batch::insert_undo(db, &mut session, *number)?;
        }
        if let Some(pins) = pins {
            session::set_pins(db, &mut session, pins)?;
        }
        for preamble in preambles {
            preamble::keep(db, session.owner, preamble)?;
        }
        let mut log = RequestLog::new(db)?;
        for request in requests {
            log.add(&mut session, request)?;
        }
        for note in notes {
            note::add(db, &mut session, note)?;
        }
        log.count_edits(&session, batches, notes)?;
        for (key, value) in derived {
            derived::put(db, &session, key, value)?;
        }
        if let Some(opening) = opening.as_ref().filter(|_| session.totals.opening.is_empty()) {
            session.totals.opening.clone_from(opening);
        }
        session.totals.imported = imported.unwrap_or(session.totals.imported);
        if let Some(name) = &self.write.name {
            session::rename(db, &session, name)?;
        }
        session::save(db, &session)?;
        Ok(session.version())
    }
}

/// Makes several writes, each completely or not at all; the outer error means that the transaction was rolled back.
pub(super) fn make_all(
    db: &Connection,
    writes: &[ReadyWrite],
) -> Result<Vec<Result<Version, Fault>>, Fault> {
    // Nearly always all of them can be made.
    if let Ok(all) = attempt(db, |db| make_together(db, writes))? {
        return Ok(all.into_iter().map(Ok).collect());
    }
    let mut outcomes = Vec::with_capacity(writes.len());
    for write in writes {
        outcomes.push(attempt(db, |db| write.make(db, &mut Statements::new(db)?))?);
    }
    Ok(outcomes)
}

fn make_together(db: &Connection, writes: &[ReadyWrite]) -> Result<Vec<Version>, Fault> {
    let mut statements = Statements::new(db)?;
    writes.iter().map(|write| write.make(db, &mut statements)).collect()
}
