//! Writes the archive of a file of format 1 to a file of this format, and puts that into its place.
//!
//! The new file is written aside and checked. Until then the old one is only read, and locked so that nobody else can use
//! it; a migration that breaks off leaves a draft, which the next one replaces. In the end the old file gets a second
//! name, and the new one takes the first: at every moment there is a complete archive under it.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use longhand_core::Handle;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::entry::{ReadyEntry, Statements};
use super::fault::Fault;
use super::format1::{self, OldSession};
use super::request::{self, RequestLog};
use super::session::StoredSession;
use super::{
    FileError, SqliteSettings, batch, body, derived, mount, note, open, place, preamble, schema,
    session, stamp, verify,
};
use crate::{ArchiveError, Damage, Note, NoteContent, SessionId};

/// How a file is migrated.
#[expect(missing_debug_implementations, reason = "functions have nothing to print")]
pub struct MigrationSettings<'m> {
    /// How long to wait for other processes, and how large the new file may become.
    pub file: SqliteSettings,
    /// Whether sessions that are damaged are left out; otherwise, nothing is migrated if one is.
    pub leaves_damaged: bool,
    /// Tells the user's first words in an entry, by its form and bytes.
    pub opening: &'m dyn Fn(&str, &str) -> Option<String>,
    /// Told how many entries are written, and of how many. When all are, the file is checked.
    pub progress: Box<dyn FnMut(u64, u64) + 'm>,
}

/// A file that was migrated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// The file as it was, under another name.
    pub kept: PathBuf,
    /// How many sessions there are.
    pub sessions: u64,
    /// How many entries there are.
    pub entries: u64,
    /// What is damaged in the sessions that were left out.
    pub left_out: Vec<Damage>,
}

/// How many of the first entries of a session are looked through for the user's words.
const OPENING_ENTRIES: u64 = 12;
/// After how many entries progress is told.
const PROGRESS_ENTRIES: u64 = 256;
/// How long another process may keep the file locked.
const LOCK_WAIT: Duration = Duration::from_millis(500);

/// See [`crate::SqliteArchive::migrate`].
pub(super) fn migrate(
    path: &Path,
    settings: MigrationSettings<'_>,
) -> Result<Option<Migrated>, ArchiveError> {
    let archive = path.display().to_string();
    let unwritable = open::unwritable(&archive);
    // What a link leads to is migrated, and the link stays.
    let path = &fs::canonicalize(path).map_err(&unwritable)?;
    if let Some(kind) = mount::network_kind(&open::folder_of(path)) {
        return Err(FileError::Network { archive: archive.clone(), kind }.into());
    }
    open::check_beginning(path)?;
    place::check_beside(path)?;
    let Some(old) = open_locked(path, &archive)? else { return Ok(None) };
    let draft = beside(path, ".migrating");
    let wait_max = settings.file.wait_max;
    let mut migration = Migration { old: &old, settings, left_out: Vec::new() };
    let outcome = (|| {
        let (sessions, entries) = migration
            .write(&draft)
            .and_then(|counts| check(&draft).map(|()| counts))
            .map_err(|fault| fault.into_error(&archive, wait_max))?;
        let kept = swap(path, &draft).map_err(&unwritable)?;
        let left_out = std::mem::take(&mut migration.left_out);
        Ok(Some(Migrated { kept, sessions, entries, left_out }))
    })();
    if outcome.is_ok() {
        // Closing it would remove the log under its name, which may be that of the new file by now.
        let _ = old.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    } else {
        let _ = fs::remove_file(&draft);
    }
    outcome
}

/// Opens a file of format 1 so that nobody else can; `None` if it has this format already.
fn open_locked(path: &Path, archive: &str) -> Result<Option<Connection>, ArchiveError> {
    let faulty = |fault: Fault| {
        if fault.is_busy() {
            return FileError::InUse { archive: archive.to_owned() }.into();
        }
        fault.into_error(archive, LOCK_WAIT)
    };
    let open = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(path, flags)?;
        db.busy_timeout(LOCK_WAIT)?;
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        db.pragma_update(None, "cell_size_check", true)?;
        db.pragma_update(None, "synchronous", "FULL")?;
        // From the first look on, and until it is closed.
        db.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        let format: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        let id: i64 = db.query_row("PRAGMA application_id", [], |row| row.get(0))?;
        db.execute_batch("BEGIN IMMEDIATE; COMMIT")?;
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok((db, id, format))
    };
    let (db, id, format) = open().map_err(faulty)?;
    match format {
        _ if id != schema::APPLICATION_ID => {
            let reason = "it is a database of another program".to_owned();
            Err(ArchiveError::NotAnArchive { archive: archive.to_owned(), reason })
        }
        format1::FORMAT => Ok(Some(db)),
        schema::FORMAT => Ok(None),
        found => {
            let (archive, known) = (archive.to_owned(), schema::FORMAT);
            Err(ArchiveError::OtherFormat { archive, found, known })
        }
    }
}

/// A file beside an archive.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Reads the whole new file.
fn check(draft: &Path) -> Result<(), Fault> {
    let damages = verify::verify_in(stamp::connect_immutable(draft)?, None)?;
    damages.into_iter().next().map_or(Ok(()), |damage| Err(Fault::Damage(damage)))
}

/// Gives the old file another name and the new one its name; returns where the old one is.
///
/// If it breaks off between the two, the old file has both names, and the next migration goes on from there.
fn swap(path: &Path, draft: &Path) -> io::Result<PathBuf> {
    let folder = open::folder_of(path);
    File::open(draft)?.sync_all()?;
    let kept = kept_name(path);
    if !place::is_same_file(path, &kept) && fs::hard_link(path, &kept).is_err() {
        // Not every file system has links.
        let copy = beside(&kept, ".new");
        open::create_private(&copy, true)?;
        fs::copy(path, &copy)?;
        File::open(&copy)?.sync_all()?;
        fs::rename(&copy, &kept)?;
    }
    open::sync_folder(&folder)?;
    // It is empty, and would be taken for the log of the new file.
    for log in [place::log_of(path), beside(path, "-shm")] {
        match fs::remove_file(log) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::rename(draft, path)?;
    open::sync_folder(&folder)?;
    Ok(kept)
}

/// A name for the old file that no other file has.
fn kept_name(path: &Path) -> PathBuf {
    let is_free =
        |name: &PathBuf| fs::symlink_metadata(name).is_err() || place::is_same_file(path, name);
    let first = beside(path, ".format1");
    let others = (2..).map(|number| beside(path, &format!(".format1-{number}")));
    std::iter::once(first).chain(others).find(is_free).unwrap_or_default()
}

/// A migration that is under way.
struct Migration<'a, 'm> {
    old: &'a Connection,
    settings: MigrationSettings<'m>,
    /// What is damaged in sessions that are left out.
    left_out: Vec<Damage>,
}

impl Migration<'_, '_> {
    /// Writes the new file; returns how many sessions and entries it has.
    fn write(&mut self, draft: &Path) -> Result<(u64, u64), Fault> {
        loop {
            match self.try_write(draft) {
                Err(Fault::Damage(damage)) if self.may_leave_out(&damage) => {
                    self.left_out.push(damage);
                }
                outcome => return outcome,
            }
        }
    }

    /// Whether a session can be left out that is not yet.
    fn may_leave_out(&self, damage: &Damage) -> bool {
        let is_left_out = self.left_out.iter().any(|other| other.session == damage.session);
        self.settings.leaves_damaged && damage.session.is_some() && !is_left_out
    }

    fn try_write(&mut self, draft: &Path) -> Result<(u64, u64), Fault> {
        let name = draft.display().to_string();
        open::create_private(draft, true).map_err(open::unwritable(&name))?;
        let new = open::create_tables(draft)?;
        // A file that is incomplete is thrown away.
        new.query_row("PRAGMA journal_mode = OFF", [], |_| Ok(()))?;
        new.pragma_update(None, "synchronous", "OFF")?;
        new.pragma_update(None, "cache_size", -65_536)?;
        if let Some(bytes) = self.settings.file.file_bytes_max {
            open::limit_size(&new, bytes)?;
        }
        body::prepare(&new)?;
        new.execute_batch("BEGIN")?;
        let counts = self.copy(&new)?;
        new.execute_batch("COMMIT")?;
        new.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
        new.close().map_err(|(_, error)| error)?;
        Ok(counts)
    }

    fn copy(&mut self, new: &Connection) -> Result<(u64, u64), Fault> {
        let left_out: BTreeSet<SessionId> =
            self.left_out.iter().filter_map(|damage| damage.session).collect();
        let mut sessions = HashMap::new();
        for (row, id) in format1::session_rows(self.old)? {
            if left_out.contains(&id) {
                continue;
            }
            let old = format1::session(self.old, row, id)?;
            let stored = session::begin(new, Some(row), id, &old.new)?;
            // The entries refer to it.
            session::save(new, &stored)?;
            sessions.insert(row, MigratedSession { old, stored });
        }
        let entries = self.copy_entries(new, &mut sessions)?;
        self.copy_requests(new, &mut sessions)?;
        let mut rows: Vec<i64> = sessions.keys().copied().collect();
        rows.sort_unstable();
        for row in &rows {
            if let Some(session) = sessions.get_mut(row) {
                session.copy_rest(self.old, new)?;
            }
        }
        self.copy_preambles(new)?;
        self.copy_values(new)?;
        Ok((rows.len() as u64, entries))
    }

    /// Copies the entries of all sessions in the order of their arrival.
    fn copy_entries(
        &mut self,
        new: &Connection,
        sessions: &mut HashMap<i64, MigratedSession>,
    ) -> Result<u64, Fault> {
        let all = sessions.values().map(|session| session.old.totals.entries).sum();
        let mut select = self.old.prepare(format1::SELECT_ENTRIES)?;
        let mut rows = select.query([])?;
        let mut statements = Statements::new(new)?;
        let mut done = 0;
        while let Some(row) = rows.next()? {
            // Those of removed sessions are not copied.
            let Some(session) = sessions.get_mut(&row.get(1)?) else { continue };
            let stored = &mut session.stored;
            let entry = format1::entry(&session.old, stored.totals.entries, row)?;
            if stored.totals.opening.is_empty() && stored.totals.entries < OPENING_ENTRIES {
                let said = &entry.record.entry;
                stored.totals.opening =
                    (self.settings.opening)(&said.form, &said.raw).unwrap_or_default();
            }
            let ready = ReadyEntry::new(entry.record);
            statements.restore(stored, entry.id, entry.body, &ready)?;
            done += 1;
            if done % PROGRESS_ENTRIES == 0 {
                (self.settings.progress)(done, all);
            }
        }
        for session in sessions.values() {
            let (found, wanted) = (session.stored.totals.entries, session.old.totals.entries);
            if found < wanted {
                let part = crate::DamagedPart::Entry(found);
                return Err(session.old.damage(part, "is missing"));
            }
        }
        (self.settings.progress)(done, all);
        Ok(done)
    }

    /// Copies the request logs of all sessions, in the order of the requests.
    fn copy_requests(
        &self,
        new: &Connection,
        sessions: &mut HashMap<i64, MigratedSession>,
    ) -> Result<(), Fault> {
        let mut select = self.old.prepare(request::SELECT_EVERY)?;
        let mut rows = select.query([])?;
        let mut log = RequestLog::new(new)?;
        while let Some(row) = rows.next()? {
            let Some(session) = sessions.get_mut(&row.get(20)?) else { continue };
            let number = session.stored.totals.requests + 1;
            let request = request::checked(&session.stored, number, row)?;
            log.add(&mut session.stored, &request)?;
        }
        for session in sessions.values() {
            let (found, wanted) = (session.stored.totals.requests, session.old.totals.requests);
            if found < wanted {
                return Err(request::damaged(&session.stored, found + 1, "is missing"));
            }
        }
        Ok(())
    }

    /// Copies the preambles; one that is damaged is of no use to anybody.
    fn copy_preambles(&mut self, new: &Connection) -> Result<(), Fault> {
        let mut select =
            self.old.prepare("SELECT key, owner, content FROM preamble ORDER BY id")?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            match format1::preamble(row) {
                Ok((owner, content)) => _ = preamble::keep(new, owner, &content)?,
                Err(Fault::Damage(damage)) if self.settings.leaves_damaged => {
                    self.left_out.push(damage);
                }
                Err(fault) => return Err(fault),
            }
        }
        Ok(())
    }

    /// Copies the values that all sessions share, and how many sessions there have been.
    fn copy_values(&self, new: &Connection) -> Result<(), Fault> {
        let exists = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'value'";
        if self.old.prepare(exists)?.exists([])? {
            let mut select = self.old.prepare("SELECT name, value FROM value")?;
            let mut rows = select.query([])?;
            while let Some(row) = rows.next()? {
                let (name, value): (String, String) = (row.get(0)?, row.get(1)?);
                new.execute("INSERT INTO value VALUES (?1, ?2)", (name, value))?;
            }
        }
        let select = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'session'";
        let begun: i64 = self.old.query_row(select, [], |row| row.get(0))?;
        // An id is used once, so that another session of the same name is told from the one before.
        new.execute("UPDATE sqlite_sequence SET seq = ?1 WHERE name = 'session'", [begun])?;
        Ok(())
    }
}

/// A session in both files.
struct MigratedSession {
    old: OldSession,
    stored: StoredSession,
}

impl MigratedSession {
    /// Copies what a session has besides its entries and requests, and completes it.
    fn copy_rest(&mut self, old: &Connection, new: &Connection) -> Result<(), Fault> {
        let batches = format1::batches(old, &self.old)?;
        for record in &batches {
            batch::insert(new, &mut self.stored, record)?;
        }
        RequestLog::new(new)?.count_edits(&self.stored, &batches, &[])?;
        for number in format1::undos(old, &self.old)? {
            batch::insert_undo(new, &mut self.stored, number)?;
        }
        let pins = format1::pins(old, &self.old)?;
        if !pins.is_empty() {
            session::set_pins(new, &mut self.stored, &pins)?;
        }
        for (key, value) in format1::derived(old, &self.old)? {
            match unread_answer(&key, &value) {
                Some(unread) => note::add(new, &mut self.stored, &unread)?,
                None => derived::put(new, &self.stored, &key, &value)?,
            }
        }
        session::save(new, &self.stored)
    }
}

/// Answers that could not be read were among what is derived: the key has the time of the request and the handle.
fn unread_answer(key: &str, value: &str) -> Option<Note> {
    let (at_ms, handle) = key.strip_prefix("unread-answer/")?.split_once('/')?;
    let content = NoteContent::Unread(value.to_owned());
    Some(Note { at_ms: at_ms.parse().ok()?, handle: Handle::parse(handle)?, content })
}

#[cfg(test)]
mod tests;
