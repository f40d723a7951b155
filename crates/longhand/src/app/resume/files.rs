//! Session files that no archive has: the likely ones are imported into memory, and searched there.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use longhand_archive::MemoryArchive;
use memchr::memmem;

use super::{ResumableSession, ResumeReport, ResumeRequest, words_of};
use crate::agent_files::{AgentContent, AgentFile};
use crate::app::{App, AppError, ImportRequest, Timestamp};

/// How many files are read message by message.
const FILES_MAX: usize = 24;
/// How many bytes these may have together.
const BYTES_MAX: usize = 96 << 20;

/// A file that may have what is looked for.
struct LikelyFile<'f> {
    file: &'f AgentFile,
    /// How many of the words it has.
    words: usize,
    bytes: usize,
}

/// Finds the sessions that fit a query among files.
pub(super) fn search(
    files: &[AgentFile],
    request: &ResumeRequest,
) -> Result<ResumeReport, AppError> {
    let mut is_partial = false;
    let mut likely = likely(files, request, &mut is_partial);
    // The files come oldest first, and sorting keeps that order.
    likely.sort_by_key(|found| found.words);
    let memory = App::new(Arc::new(MemoryArchive::default()));
    let import = ImportRequest {
        bytes_max: request.bytes_max,
        now_ms: request.now_ms,
        ..ImportRequest::default()
    };
    let mut bytes = 0;
    let mut imported = Vec::new();
    for found in likely.iter().rev() {
        if imported.len() >= FILES_MAX || (bytes > 0 && bytes + found.bytes > BYTES_MAX) {
            is_partial = true;
            break;
        }
        bytes += found.bytes;
        match memory.import_agent_file(found.file, &import) {
            Ok(_) => imported.push(found.file.clone()),
            Err(AppError::NothingToImport) => {}
            // It is named when it is imported.
            Err(_) => is_partial = true,
        }
    }
    let mut report = memory.hits_of(request, &imported)?;
    report.is_partial |= is_partial;
    for session in &mut report.sessions {
        session.session = None;
    }
    Ok(report)
}

/// The files that have the most words of the query; one that cannot be read makes the search partial.
fn likely<'f>(
    files: &'f [AgentFile],
    request: &ResumeRequest,
    is_partial: &mut bool,
) -> Vec<LikelyFile<'f>> {
    let words = words_of(&request.query);
    let finders: Vec<_> = words.iter().map(|word| memmem::Finder::new(word.as_bytes())).collect();
    let mut found = Vec::new();
    for file in files {
        let mut bytes = match file.content(request.bytes_max) {
            Ok(AgentContent::Lines { text, .. }) => text.into_bytes(),
            Ok(AgentContent::Told(told)) => told.as_list().into_bytes(),
            Err(_) => {
                *is_partial = true;
                continue;
            }
        };
        bytes.make_ascii_lowercase();
        let words = finders.iter().filter(|finder| finder.find(&bytes).is_some()).count();
        if words > 0 {
            found.push(LikelyFile { file, words, bytes: bytes.len() });
        }
    }
    let most = found.iter().map(|found| found.words).max().unwrap_or(0);
    found.retain(|found| found.words * 2 >= most);
    found
}

/// A session as its file's name and place tell of it.
pub(super) fn unread(file: &AgentFile) -> ResumableSession {
    let since = file.modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let ms = since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
    let mut session = ResumableSession { last: Timestamp(ms), ..ResumableSession::default() };
    session.set_file(file);
    session.task = file.opening().unwrap_or_default();
    if session.name.is_empty() {
        session.name = file.path.display().to_string();
    }
    session
}
