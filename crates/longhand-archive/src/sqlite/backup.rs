//! A copy of an archive that is in use.
//!
//! SQLite's own backup begins again whenever another process writes, and would never end beside a busy proxy. So
//! a read transaction is held open while the pages are copied: they are all of one state, and writers go on in the
//! log. Since that cannot be shortened meanwhile, it grows by what is written.

use std::fs;
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use super::fault::Fault;
use super::{FileError, open, stamp, verify};
use crate::ArchiveError;

/// How many pages are copied at a time.
const PAGES_AT_A_TIME: i32 = 1_024;
/// How long to wait before retrying while another program locks the file.
const POLL: Duration = Duration::from_millis(10);

/// See [`crate::SqliteArchive::backup`].
pub(super) fn backup(
    source: &Path,
    target: &Path,
    wait_max: Duration,
    mut progress: impl FnMut(u64, u64),
) -> Result<(), ArchiveError> {
    let name = target.display().to_string();
    let exists = || ArchiveError::from(FileError::Exists { path: name.clone() });
    if fs::symlink_metadata(target).is_ok() {
        return Err(exists());
    }
    let unwritable = open::unwritable(&name);
    let draft = open::draft_of(target);
    open::create_private(&draft, false).map_err(&unwritable)?;
    let outcome = (|| {
        copy(source, &draft, wait_max, &mut progress)
            .map_err(|fault| fault.into_error(&source.display().to_string(), wait_max))?;
        check(&draft).map_err(|fault| fault.into_error(&name, wait_max))?;
        match open::put_in_place(&draft, target, &open::folder_of(target)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(exists()),
            placed => placed.map_err(&unwritable),
        }
    })();
    // The copy is at its target now, or incomplete.
    let _ = fs::remove_file(&draft);
    outcome
}

fn copy(
    source: &Path,
    draft: &Path,
    wait_max: Duration,
    progress: &mut impl FnMut(u64, u64),
) -> Result<(), Fault> {
    let from = open::connect(source, wait_max)?;
    let snapshot = from.unchecked_transaction()?;
    // Reading is what begins it.
    from.query_row("SELECT count(*) FROM state", [], |_| Ok(()))?;
    let mut to = Connection::open(draft)?;
    // A copy that breaks off is thrown away.
    to.query_row("PRAGMA journal_mode = OFF", [], |_| Ok(()))?;
    to.pragma_update(None, "synchronous", "OFF")?;
    let mut deadline = Instant::now() + wait_max;
    {
        let backup = Backup::new(&from, &mut to)?;
        loop {
            match backup.step(PAGES_AT_A_TIME)? {
                StepResult::Done => break,
                StepResult::More => deadline = Instant::now() + wait_max,
                _ if Instant::now() < deadline => thread::sleep(POLL),
                _ => return Err(busy()),
            }
            let pages = backup.progress();
            let number = |pages: i32| u64::try_from(pages).unwrap_or(0);
            progress(number(pages.pagecount - pages.remaining), number(pages.pagecount));
        }
    }
    to.close().map_err(|(_, error)| error)?;
    snapshot.finish()?;
    Ok(())
}

fn busy() -> Fault {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
    Fault::Sqlite(rusqlite::Error::SqliteFailure(code, None))
}

/// Reads the whole copy.
fn check(draft: &Path) -> Result<(), Fault> {
    let damages = verify::verify_in(stamp::connect_immutable(draft)?, None)?;
    damages.into_iter().next().map_or(Ok(()), |damage| Err(Fault::Damage(damage)))
}
