//! Sessions as JSON Lines.
//!
//! An export is all that an archive keeps of a conversation: a first line with the version, a line for each record of each of
//! its sessions, and a last line with their number and a checksum. What was imported from it is exported as the same
//! bytes again.

mod copy;
mod import;
mod line;
mod read;

use std::io::{self, Write};
use std::ops::ControlFlow;

use longhand_archive::{Archive, ArchiveError, Record, SessionId};
use serde_json::{Value, json};

pub use self::copy::{CopiedSession, copy};
pub use self::import::{ExportedSession, Imported, ImportedSession, check, import, messages};
pub use self::read::{Exported, ExportedMessage, header_version};

/// The version of what is written here.
pub const VERSION: u64 = 4;

/// What the first line of an export begins with, as an object.
const HEADER: &str = "longhand";

/// Why an export or an import failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The archive says so.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The file cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// There is no such session.
    #[error("session {0} is not in the archive")]
    UnknownSession(SessionId),
    /// A line is not one of an export.
    #[error("line {line}: {what}")]
    Line {
        /// Its number, from 1.
        line: u64,
        /// What is wrong with it.
        what: String,
    },
    /// A line is longer than it may be.
    #[error("line {line} has more than {max} bytes")]
    LongLine {
        /// Its number, from 1.
        line: u64,
        /// The most bytes that it may have.
        max: u64,
    },
    /// The file ends too early.
    #[error("the export is cut off after line {lines}{}", expected.map_or(String::new(), |count| format!(": it should have {count} entries")))]
    Cut {
        /// How many lines it has.
        lines: u64,
        /// How many entries its first line promises, if it does.
        expected: Option<u64>,
    },
    /// The counts or the checksum of the last line say that something is missing or was changed.
    #[error("the export was changed: {0}")]
    Changed(String),
    /// It was written by another release.
    #[error("the export has version {found}, and this release reads versions up to {VERSION}")]
    OtherVersion {
        /// Its version.
        found: u64,
    },
    /// The archive has a session of that id that says something else.
    #[error("session {name:?} ({session}) is in the archive with other content: {what}")]
    Differs {
        /// The session.
        session: SessionId,
        /// Its name.
        name: String,
        /// The first difference.
        what: String,
    },
}

/// Writes sessions to an export; returns how many entries they have.
///
/// `name` is what the conversation is called in the first line.
pub fn export(
    archive: &dyn Archive,
    sessions: &[SessionId],
    name: &str,
    out: &mut dyn Write,
) -> Result<u64, TransferError> {
    let mut writer = LineWriter { out, hasher: blake3::Hasher::new(), lines: 0, entries: 0 };
    let header =
        json!({HEADER: "session", "version": VERSION, "id": name, "sessions": sessions.len()});
    writer.write(&header)?;
    for id in sessions {
        writer.session(archive, *id)?;
    }
    let LineWriter { hasher, lines, entries, out } = writer;
    let checksum = hasher.finalize().to_hex();
    let end = json!({"lines": lines, "entries": entries, "blake3": checksum.as_str()});
    writeln!(out, "{}", json!({"end": end}))?;
    out.flush()?;
    Ok(entries)
}

struct LineWriter<'o> {
    out: &'o mut dyn Write,
    hasher: blake3::Hasher,
    lines: u64,
    entries: u64,
}

impl LineWriter<'_> {
    fn session(&mut self, archive: &dyn Archive, id: SessionId) -> Result<(), TransferError> {
        let mut failure = None;
        let is_there = archive.export(id, &mut |record| {
            self.entries += u64::from(matches!(record, Record::Entry { .. }));
            match self.write(&line::written(id, record)) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failure = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        match failure {
            Some(error) => Err(error.into()),
            None if is_there => Ok(()),
            None => Err(TransferError::UnknownSession(id)),
        }
    }

    fn write(&mut self, line: &Value) -> io::Result<()> {
        self.lines += 1;
        let mut hashed = Hashed { out: &mut *self.out, hasher: &mut self.hasher };
        serde_json::to_writer(&mut hashed, line)?;
        hashed.write_all(b"\n")
    }
}

/// Passes on what is written, and hashes it.
struct Hashed<'o> {
    out: &'o mut dyn Write,
    hasher: &'o mut blake3::Hasher,
}

impl Write for Hashed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.hasher.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
