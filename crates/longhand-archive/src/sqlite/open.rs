//! Opening a file, and making sure that it is an archive.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::fault::Fault;
use super::place::SeenFiles;
use super::{FileError, SqliteSettings, body, index, mount, place, schema, stamp};
use crate::ArchiveError;

/// Before it, a race in resetting the log could damage a file with several writers.
const SQLITE_LEAST: (i32, &str) = (3_051_003, "3.51.3");

const PAGE_BYTES: u32 = 4096;
/// The log is cut back to this size after a burst.
pub(super) const LOG_BYTES_KEPT: u64 = 16 << 20;
const STATEMENTS_CACHED: usize = 64;

/// Opens an archive for writing; creates it if there is nothing at `path`. Also returns which files were checked for that.
pub(super) fn open(
    path: &Path,
    settings: &SqliteSettings,
) -> Result<(Connection, SeenFiles), ArchiveError> {
    let archive = path.display().to_string();
    refuse_address(&archive)?;
    check_sqlite(&archive, rusqlite::version_number(), rusqlite::version())?;
    let unwritable = unwritable(&archive);
    let folder = folder_of(path);
    create_folder(&folder).map_err(&unwritable)?;
    if let Some(kind) = mount::network_kind(&folder) {
        return Err(FileError::Network { archive: archive.clone(), kind }.into());
    }
    if !path.try_exists().map_err(&unwritable)? {
        create(path, &folder, settings.wait_max)?;
    }
    check_beginning(path)?;
    let seen = place::check_beside(path)?;
    let faulty = |fault: Fault| fault.into_error(&archive, settings.wait_max);
    let connection = connect(path, settings.wait_max).map_err(faulty)?;
    prepare(&connection, &archive, settings).map_err(faulty)?;
    Ok((connection, seen))
}

/// `postgres://…` is no path, and must not become a folder named `postgres:`.
fn refuse_address(archive: &str) -> Result<(), ArchiveError> {
    let is_scheme_letter = |letter: char| letter.is_ascii_alphanumeric() || "+-.".contains(letter);
    match archive.split_once("://") {
        Some((scheme, _)) if !scheme.is_empty() && scheme.chars().all(is_scheme_letter) => {
            Err(FileError::UnsupportedAddress { address: without_secret(archive) }.into())
        }
        _ => Ok(()),
    }
}

/// An address without the password that may be in it.
fn without_secret(address: &str) -> String {
    match (address.split_once("://"), address.rfind('@')) {
        (Some((scheme, _)), Some(at)) => format!("{scheme}://…{}", &address[at..]),
        _ => address.to_owned(),
    }
}

pub(super) fn unwritable(archive: &str) -> impl Fn(io::Error) -> ArchiveError {
    |source| ArchiveError::Unwritable { archive: archive.to_owned(), source: source.into() }
}

fn check_sqlite(archive: &str, number: i32, found: &str) -> Result<(), ArchiveError> {
    if number >= SQLITE_LEAST.0 {
        return Ok(());
    }
    let reason = format!("SQLite {found} is linked, and {} or later is needed", SQLITE_LEAST.1);
    Err(FileError::Unsafe { archive: archive.to_owned(), reason }.into())
}

pub(super) fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn create_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Makes an empty archive aside and moves it into place, so that no one ever sees half of one:
/// an empty file is always one that lost its content.
fn create(path: &Path, folder: &Path, wait_max: Duration) -> Result<(), ArchiveError> {
    let archive = path.display().to_string();
    let unwritable = unwritable(&archive);
    let draft = draft_of(path);
    let outcome = (|| {
        create_private(&draft, true).map_err(&unwritable)?;
        fill(&draft).map_err(|fault| fault.into_error(&archive, wait_max))?;
        match put_in_place(&draft, path, folder) {
            // Another process was faster, and its archive is as good.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            placed => placed.map_err(&unwritable),
        }
    })();
    let _ = fs::remove_file(&draft);
    outcome
}

/// Where a file is made before it is moved to its path.
pub(super) fn draft_of(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".new-{}-{:?}", std::process::id(), std::thread::current().id()));
    folder_of(path).join(name)
}

/// Makes an empty file that only its owner can read.
pub(super) fn create_private(path: &Path, may_exist: bool) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(may_exist).create_new(!may_exist).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}

/// Moves a complete file to its path, unless there is something; what is there is on disk then.
pub(super) fn put_in_place(draft: &Path, path: &Path, folder: &Path) -> io::Result<()> {
    File::open(draft)?.sync_all()?;
    match fs::hard_link(draft, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
        // Not every file system has links.
        Err(_) if fs::symlink_metadata(path).is_err() => fs::rename(draft, path)?,
        Err(error) => return Err(error),
        Ok(()) => {}
    }
    sync_folder(folder)
}

/// Opens an empty file and makes the tables in it.
pub(super) fn create_tables(draft: &Path) -> Result<Connection, Fault> {
    let db = Connection::open_with_flags(draft, flags())?;
    db.pragma_update(None, "page_size", PAGE_BYTES)?;
    db.pragma_update(None, "synchronous", "FULL")?;
    schema::create(&db)?;
    stamp::create(&db)?;
    index::ready(&db)?;
    Ok(db)
}

fn fill(draft: &Path) -> Result<(), Fault> {
    let db = create_tables(draft)?;
    // The mode is kept in the file. Nothing is in the log yet, so closing leaves one whole file.
    db.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    db.close().map_err(|(_, error)| error)?;
    Ok(())
}

#[cfg(unix)]
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(not(unix))]
pub(super) fn sync_folder(_folder: &Path) -> io::Result<()> {
    Ok(())
}

/// SQLite would take an empty file for a new database, and would read others before refusing them.
pub(super) fn check_beginning(path: &Path) -> Result<(), ArchiveError> {
    let archive = path.display().to_string();
    let unwritable = unwritable(&archive);
    let mut beginning = Vec::new();
    let file = File::open(path).map_err(&unwritable)?;
    let bytes = file.metadata().map_err(&unwritable)?.len();
    file.take(16).read_to_end(&mut beginning).map_err(&unwritable)?;
    let reason = match &beginning[..] {
        [] => "it is empty",
        b"SQLite format 3\0" => return check_end(path, bytes),
        _ => "it does not begin like a database",
    };
    Err(ArchiveError::NotAnArchive { archive: archive.clone(), reason: reason.to_owned() })
}

/// A file that ends within a page was cut, and SQLite would not notice it. While there is a log, its pages are still to
/// be written.
fn check_end(path: &Path, bytes: u64) -> Result<(), ArchiveError> {
    let has_log = fs::metadata(place::log_of(path)).is_ok_and(|log| log.len() > 0);
    if has_log || bytes.is_multiple_of(u64::from(PAGE_BYTES)) {
        return Ok(());
    }
    let source = io::Error::other("it ends in the middle of a page");
    Err(ArchiveError::Corrupt { archive: path.display().to_string(), source: source.into() })
}

fn flags() -> OpenFlags {
    OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX
}

/// Opens a connection with what every connection needs.
///
/// Closing it leaves the log alone: by default, the last connection copies the log into whatever file is at the path
/// by then, and deletes the log that is there.
pub(super) fn connect(path: &Path, wait_max: Duration) -> Result<Connection, Fault> {
    let db = Connection::open_with_flags(path, flags())?;
    db.busy_timeout(wait_max)?;
    db.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    // Otherwise a statement with a range is prepared again whenever the range is another one.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    db.pragma_update(None, "cell_size_check", true)?;
    db.pragma_update(None, "foreign_keys", true)?;
    Ok(db)
}

/// Makes a connection the one that writes.
fn prepare(db: &Connection, archive: &str, settings: &SqliteSettings) -> Result<(), Fault> {
    let id: i64 = db.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    if id != schema::APPLICATION_ID {
        let reason = "it is a database of another program".to_owned();
        return Err(ArchiveError::NotAnArchive { archive: archive.to_owned(), reason }.into());
    }
    schema::check(db, archive)?;
    if db.is_readonly("main")? {
        let source = io::Error::from(io::ErrorKind::PermissionDenied);
        return Err(unwritable(archive)(source).into());
    }
    db.pragma_update(None, "synchronous", "FULL")?;
    db.pragma_update(None, "fullfsync", true)?;
    // What is removed is overwritten. Little else is ever deleted.
    db.pragma_update(None, "secure_delete", true)?;
    db.pragma_update(None, "checkpoint_fullfsync", true)?;
    db.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    db.query_row(&format!("PRAGMA journal_size_limit = {LOG_BYTES_KEPT}"), [], |_| Ok(()))?;
    if stamp::of(db)?.is_none() {
        stamp::create(db)?;
    }
    index::ready(db)?;
    body::prepare(db)?;
    if let Some(bytes) = settings.file_bytes_max {
        limit_size(db, bytes)?;
    }
    Ok(())
}

/// Lets a file grow no larger than this.
pub(super) fn limit_size(db: &Connection, bytes: u64) -> Result<(), Fault> {
    let pages = (bytes / u64::from(PAGE_BYTES)).max(1);
    Ok(db.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))?)
}
