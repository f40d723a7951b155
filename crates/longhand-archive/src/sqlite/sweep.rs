//! Wiping what removed sessions leave behind.
//!
//! Removing a session takes its key away, and from then on nobody sees it. Its content is wiped in small steps, each a
//! transaction of its own, so that writers never wait long. What is left to do can be read from the tables: whoever
//! opens the archive next goes on where a process was killed.
//! A text goes with the last entry that has it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension as _};

use super::fault::Fault;
use super::index::Forgetting;
use super::indexable::{self, IndexableEntry, Marks};
use super::seal::Seal;
use super::{body, index};

/// How many entries are read at a time.
const PORTION_ENTRIES: i64 = 128;
/// How much of their text is read at a time.
const PORTION_BYTES: usize = 1 << 20;
/// How many rows of other tables are deleted by one statement.
const ROWS_AT_A_TIME: i64 = 64;
/// How long a transaction goes on with small parts of the work.
pub(super) const STEP: Duration = Duration::from_millis(10);

/// The name of a removed session of which nothing is left but what the log has. Before that it is empty.
const WIPED: &str = "wiped";

/// What is left of removed sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    Nothing,
    /// The log may still have pages with their texts.
    Log,
    /// Rows, or words in the index.
    Content,
}

/// Looks at what is left of removed sessions.
pub(super) fn left(db: &Connection) -> Result<Left, Fault> {
    let mut select =
        db.prepare_cached("SELECT name <> ?1 FROM session WHERE key IS NULL ORDER BY 1 DESC")?;
    let has_content = select.query_row([WIPED], |row| row.get(0)).optional()?;
    Ok(match has_content {
        None => Left::Nothing,
        Some(false) => Left::Log,
        Some(true) => Left::Content,
    })
}

/// Forgets the removed sessions of which only the log had something left.
pub(super) fn forget_wiped(db: &Connection) -> Result<(), Fault> {
    db.prepare_cached("DELETE FROM session WHERE key IS NULL AND name = ?1")?.execute([WIPED])?;
    Ok(())
}

/// Progress of the wiping that cannot be read from the tables.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    /// The entries that are on their way out of the index.
    leaving: Vec<EntryKey>,
    forgetting: Forgetting,
    /// Those of which it has nothing any more.
    forgotten: BTreeSet<EntryKey>,
}

/// What the next step is about, worked out before the file is locked for it.
#[derive(Debug)]
pub(super) enum Portion {
    /// Entries of a session, with what the index has of them.
    Entries { session: i64, entries: Vec<DoomedEntry> },
    /// The other rows of a session.
    Rows(i64),
    /// What is left of sessions of which all else is gone.
    Names,
}

#[derive(Debug)]
pub(super) struct DoomedEntry {
    id: i64,
    /// The row that has its bytes, and their name.
    body: i64,
    hash: Option<Seal>,
    seal: Option<Seal>,
    /// What the index may have of it.
    marks: Vec<Vec<u8>>,
    text: String,
}

/// Which entry it is: ids are used again.
type EntryKey = (i64, Option<Seal>);

impl DoomedEntry {
    fn key(&self) -> EntryKey {
        (self.id, self.seal)
    }
}

const SELECT_ENTRY: &str = indexable::select!("entry.id = ?1");

impl Sweep {
    /// Reads what the next step needs; `None` if there is nothing to wipe.
    pub(super) fn prepare(db: &Connection) -> Result<Option<Portion>, Fault> {
        let transaction = db.unchecked_transaction()?;
        let portion = Self::next_portion(db);
        transaction.finish()?;
        portion
    }

    fn next_portion(db: &Connection) -> Result<Option<Portion>, Fault> {
        let mut select =
            db.prepare_cached("SELECT id FROM session WHERE key IS NULL AND name <> ?1")?;
        let rows = select.query_map([WIPED], |row| row.get(0))?;
        let sessions: Vec<i64> = rows.collect::<Result<_, _>>()?;
        if sessions.is_empty() {
            return Ok(None);
        }
        for session in sessions.iter().copied() {
            let entries = doomed(db, session)?;
            if !entries.is_empty() {
                return Ok(Some(Portion::Entries { session, entries }));
            }
        }
        for session in sessions {
            if has_rows(db, session)? {
                return Ok(Some(Portion::Rows(session)));
            }
        }
        Ok(Some(Portion::Names))
    }

    /// Wipes a portion: a small part of it at least, and then as much as there is time for.
    pub(super) fn wipe(
        &mut self,
        db: &Connection,
        portion: &Portion,
        deadline: Instant,
    ) -> Result<(), Fault> {
        match portion {
            Portion::Entries { session, entries } => {
                let is_forgotten = |entry: &&DoomedEntry| self.forgotten.contains(&entry.key());
                let mut forgotten: Vec<&DoomedEntry> =
                    entries.iter().filter(is_forgotten).collect();
                // These are wiped first: the others leave the index together.
                if forgotten.is_empty() {
                    if !self.forget(db, *session, entries, deadline)? {
                        return Ok(());
                    }
                    forgotten = entries.iter().collect();
                }
                let wiped = wipe_entries(db, *session, &forgotten, deadline)?;
                for entry in &forgotten[..wiped] {
                    self.forgotten.remove(&entry.key());
                }
                Ok(())
            }
            Portion::Rows(session) => wipe_rows(db, *session, deadline),
            Portion::Names => self.forget_names(db),
        }
    }

    /// Takes entries out of the index; returns whether that is done.
    fn forget(
        &mut self,
        db: &Connection,
        session: i64,
        entries: &[DoomedEntry],
        deadline: Instant,
    ) -> Result<bool, Fault> {
        let mut there = Vec::new();
        for entry in entries {
            if is_there(db, session, entry)? {
                there.push(entry);
            }
        }
        there.sort_unstable_by_key(|entry| entry.id);
        let keys: Vec<EntryKey> = there.iter().map(|entry| entry.key()).collect();
        if keys != self.leaving {
            self.forgetting = Forgetting::default();
            self.leaving = keys;
            for entry in &there {
                self.forgetting.add(entry.id, &entry.marks, &entry.text);
            }
        }
        if !self.forgetting.go_on(db, deadline)? {
            return Ok(false);
        }
        self.forgotten.extend(self.leaving.drain(..));
        self.forgetting = Forgetting::default();
        Ok(true)
    }

    /// Notes of which sessions nothing is left but what the log has.
    fn forget_names(&mut self, db: &Connection) -> Result<(), Fault> {
        let update = "UPDATE session SET name = ?1 WHERE key IS NULL \
             AND NOT EXISTS (SELECT 1 FROM entry WHERE entry.session = session.id) \
             AND NOT EXISTS (SELECT 1 FROM head WHERE head.session = session.id)";
        db.execute(update, [WIPED])?;
        *self = Self::default();
        Ok(())
    }
}

/// Reads the first entries of a session, with what the index has of them.
fn doomed(db: &Connection, session: i64) -> Result<Vec<DoomedEntry>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT id, coalesce(body, id) FROM entry WHERE session = ?1 ORDER BY seq LIMIT ?2",
    )?;
    let mut rows = select.query((session, PORTION_ENTRIES))?;
    let mut select_entry = db.prepare_cached(SELECT_ENTRY)?;
    let mut marks = Marks::new(db);
    let mut entries = Vec::new();
    let mut bytes = 0;
    while bytes < PORTION_BYTES
        && let Some(row) = rows.next()?
    {
        let (id, body) = (row.get(0)?, row.get(1)?);
        let entry = select_entry.query_row([id], IndexableEntry::read)?;
        let marks = marks.of(&entry)?;
        let IndexableEntry { seal, hash, text, .. } = entry;
        let text = text.unwrap_or_default();
        bytes += text.len();
        entries.push(DoomedEntry { id, body, hash, seal, marks, text });
    }
    Ok(entries)
}

/// Wipes entries, and the bytes that no other entry has; returns how many of them.
fn wipe_entries(
    db: &Connection,
    session: i64,
    entries: &[&DoomedEntry],
    deadline: Instant,
) -> Result<usize, Fault> {
    let indexed = index::indexed(db)?;
    let mut wiped = 0;
    for entry in entries {
        if is_there(db, session, entry)? {
            db.prepare_cached("DELETE FROM entry WHERE id = ?1")?.execute([entry.id])?;
            body::release(db, entry.body, entry.hash.as_ref())?;
        }
        wiped += 1;
        if Instant::now() >= deadline {
            break;
        }
    }
    // Ids are used again from the newest entry on, and what gets them is not in the index yet.
    let newest = index::newest(db)?;
    if newest < indexed {
        index::cut(db, newest)?;
    }
    Ok(wiped)
}

/// Whether an entry is still there: another process may have wiped it, and its id may be that of another one now.
fn is_there(db: &Connection, session: i64, entry: &DoomedEntry) -> Result<bool, Fault> {
    let mut select = db.prepare_cached("SELECT seal FROM entry WHERE id = ?1 AND session = ?2")?;
    let seal = |row: &rusqlite::Row<'_>| Ok(row.get(0).ok());
    let found: Option<Option<Seal>> = select.query_row((entry.id, session), seal).optional()?;
    Ok(found == Some(entry.seal))
}

/// The tables that have rows of a session besides its entries, and what tells these rows apart.
const TABLES: [(&str, &str); 9] = [
    ("batch", "id"),
    ("undo", "id"),
    ("request", "id"),
    ("note", "id"),
    ("usage", "day"),
    ("derived", "id"),
    ("reference", "handle"),
    ("pins", "session"),
    // The last one: as long as it is there, others may be.
    ("head", "session"),
];

fn has_rows(db: &Connection, session: i64) -> Result<bool, Fault> {
    for (table, _) in TABLES {
        let select = format!("SELECT 1 FROM {table} WHERE session = ?1");
        if db.prepare_cached(&select)?.exists([session])? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn wipe_rows(db: &Connection, session: i64, deadline: Instant) -> Result<(), Fault> {
    for (table, key) in TABLES {
        let delete = format!(
            "DELETE FROM {table} WHERE session = ?1 AND {key} IN \
             (SELECT {key} FROM {table} WHERE session = ?1 LIMIT ?2)"
        );
        while db.prepare_cached(&delete)?.execute((session, ROWS_AT_A_TIME))? > 0 {
            if Instant::now() >= deadline {
                return Ok(());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use longhand_core::Meaning;

    use super::*;
    use crate::sqlite::transaction::Transaction;
    use crate::sqlite::{SqliteSettings, open, session};
    use crate::{After, Archive as _, NewEntry, NewSession, SessionId, SqliteArchive};

    fn remove(db: &Connection, id: SessionId) {
        let transaction = Transaction::begin(db, Duration::from_mins(1)).unwrap();
        assert!(session::remove(db, id).unwrap());
        transaction.commit().unwrap();
    }

    /// Begins sessions that all say the same, and removes the first; returns how many rows were touched, and the
    /// most in one step.
    fn cost_of_removing(sessions: u64, equal_texts: u64) -> (u64, u64) {
        let folder = tempfile::tempdir().unwrap();
        let archive = SqliteArchive::open(folder.path().join("archive.db")).unwrap();
        for session in 0..sessions {
            archive.begin(SessionId(session.into()), &NewSession::default()).unwrap();
            let entries: Vec<NewEntry> = (0..equal_texts)
                .map(|_| NewEntry {
                    meaning: Meaning::of_content("same"),
                    opens_round: true,
                    form: "text".to_owned(),
                    raw: "the same words again".to_owned(),
                    text: "the same words again".to_owned(),
                    at_ms: 0,
                    source_ms: None,
                })
                .collect();
            archive.append(SessionId(session.into()), After::Newest, &entries).unwrap();
        }
        // An open archive sweeps in the background, and its share would not be counted.
        drop(archive);
        let path = folder.path().join("archive.db");
        let db = open::open(&path, &SqliteSettings::default()).unwrap().0;
        remove(&db, SessionId(0));
        let mut sweep = Sweep::default();
        let (mut rows, mut most) = (0, 0);
        while let Some(portion) = Sweep::prepare(&db).unwrap() {
            let before = db.total_changes();
            let transaction = Transaction::begin(&db, Duration::from_mins(1)).unwrap();
            // No time at all: each step does the least that it can.
            sweep.wipe(&db, &portion, Instant::now()).unwrap();
            transaction.commit().unwrap();
            rows += db.total_changes() - before;
            most = most.max(db.total_changes() - before);
        }
        assert_eq!(left(&db).unwrap(), Left::Log);
        drop(db);
        let archive = SqliteArchive::open(&path).unwrap();
        assert_eq!(archive.verify(None).unwrap(), []);
        let rest = archive.entries(SessionId(1), 0..u64::MAX).unwrap();
        assert!(rest.iter().all(|entry| entry.raw == "the same words again"));
        (rows, most)
    }

    #[test]
    fn the_cost_of_a_removal_grows_with_what_it_touches() {
        let (once, _) = cost_of_removing(4, 200);
        let (longer, most) = cost_of_removing(4, 400);
        let (wider, _) = cost_of_removing(8, 200);
        // Were each of the equal texts handed on to the next one, this would be 4.
        assert!(longer < once * 5 / 2, "{longer} rows for twice the texts, {once} before");
        assert!(wider < once * 3, "{wider} rows for twice the sessions, {once} before");
        assert!(most < 200, "{most} rows in one transaction");
    }

    /// A kill leaves the transactions that were made.
    #[test]
    fn a_removal_that_breaks_off_is_invisible_and_finished_by_the_next_one() {
        for steps in [0, 1, 3, 40, 90] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("archive.db");
            let archive = SqliteArchive::open(&path).unwrap();
            let (removed, kept) = (SessionId(1), SessionId(2));
            for session in [removed, kept] {
                archive.begin(session, &NewSession::default()).unwrap();
                let entries: Vec<NewEntry> = (0..40)
                    .map(|number| {
                        let owner = if number % 2 == 0 { "both" } else { &session.to_string() };
                        let said = format!("canarykey {} of {owner}", number / 4);
                        NewEntry {
                            meaning: Meaning::of_content(&format!("{said} {number}")),
                            opens_round: true,
                            form: "text".to_owned(),
                            raw: said.clone(),
                            text: said,
                            at_ms: 0,
                            source_ms: None,
                        }
                    })
                    .collect();
                archive.append(session, After::Newest, &entries).unwrap();
            }
            let before = archive.entries(kept, 0..99).unwrap();
            drop(archive);
            let db = open::open(&path, &SqliteSettings::default()).unwrap().0;
            remove(&db, removed);
            let mut sweep = Sweep::default();
            for _ in 0..steps {
                let Some(portion) = Sweep::prepare(&db).unwrap() else { break };
                let transaction = Transaction::begin(&db, Duration::from_mins(1)).unwrap();
                sweep.wipe(&db, &portion, Instant::now()).unwrap();
                transaction.commit().unwrap();
            }
            drop(db);
            let archive = SqliteArchive::open(&path).unwrap();
            assert_eq!(archive.verify(None).unwrap(), [], "{steps}");
            assert_eq!(archive.session(removed).unwrap(), None, "{steps}");
            assert_eq!(archive.entries(kept, 0..99).unwrap(), before, "{steps}");
            let unwiped = archive.wipe(Duration::from_mins(1)).unwrap();
            assert_eq!(unwiped, crate::Unwiped::Nothing, "{steps}");
            assert_eq!(archive.entries(kept, 0..99).unwrap(), before, "{steps}");
            assert_eq!(archive.verify(None).unwrap(), [], "{steps}");
            let text = removed.to_string();
            for ending in ["", "-wal"] {
                let bytes = std::fs::read(format!("{}{ending}", path.display())).unwrap();
                assert!(memchr::memmem::find(&bytes, text.as_bytes()).is_none(), "{steps}");
            }
        }
    }
}
