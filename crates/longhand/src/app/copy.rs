//! All sessions on their way from one archive to another.

use std::collections::HashMap;

use longhand_archive::{
    Archive, ArchiveError, Page, SessionFilter, SessionId, SessionInfo, Upkeep, wait,
};
use serde::{Deserialize, Serialize};

use super::{App, AppError, short_id};
use crate::transfer::{self, CopiedSession, TransferError};

/// How often the sessions are looked through for what was written meanwhile.
const PASSES_MAX: usize = 8;

/// Why a session is not counted as copied that is not there any more.
const REMOVED: &str = "it was removed meanwhile; what was copied of it stays in the other archive";

/// How many sessions are listed at a time.
const PAGE: usize = 1_024;

/// How far a copy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyProgress {
    /// How often the sessions were looked through; more than once if some were written to meanwhile.
    pub pass: usize,
    /// How many sessions of this pass are done.
    pub done: usize,
    /// How many sessions this pass has.
    pub sessions: usize,
    /// How many bytes of messages were new there.
    pub bytes: u64,
}

/// What was copied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CopyReport {
    /// How many sessions the other archive has now as this one has them, each read there again and compared.
    pub sessions: u64,
    /// How many entries these have.
    pub entries: u64,
    /// How many of the entries were new there.
    pub new_entries: u64,
    /// How many bytes the messages of the new entries have.
    pub new_bytes: u64,
    /// The sessions that could not be copied, or not to their end.
    pub uncopied: Vec<UncopiedSession>,
}

/// A session that could not be copied to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UncopiedSession {
    /// Its name.
    pub name: String,
    /// Its short id.
    pub id: String,
    /// Why.
    pub reason: String,
}

impl CopyReport {
    /// Whether the other archive has everything.
    pub fn is_complete(&self) -> bool {
        self.uncopied.is_empty()
    }
}

impl App {
    /// Copies all sessions of all owners to another archive, with everything that is kept of them, and compares each one with
    /// what can be read there afterwards.
    ///
    /// Sessions that the other archive has already must be the same there, or a beginning: what was interrupted goes on when
    /// it is asked for again. What is written meanwhile is copied by another pass; sessions that are still written to after
    /// the last one are named, and so are those that are damaged or say something else there. Whatever else the other archive
    /// has stays.
    pub fn copy_to(
        &self,
        to: &App,
        mut tell: impl FnMut(&CopyProgress),
    ) -> Result<CopyReport, AppError> {
        let (from, to) = (&**self.archive(), &**to.archive());
        let mut copy = ArchiveCopy { from, to, copied: HashMap::new(), failed: HashMap::new() };
        let mut progress = CopyProgress { pass: 0, done: 0, sessions: 0, bytes: 0 };
        let stale = loop {
            let mut stale = copy.stale()?;
            if stale.is_empty() || progress.pass >= PASSES_MAX {
                break stale;
            }
            progress = CopyProgress {
                pass: progress.pass + 1,
                done: 0,
                sessions: stale.len(),
                ..progress
            };
            for session in stale.drain(..) {
                tell(&progress);
                progress.bytes += copy.one(session)?;
                progress.done += 1;
            }
        };
        copy.leave_out(stale, "it is written to all the time; copy again to get the rest");
        copy.name_removed()?;
        // What waits for the search index there is put into it: nobody may write there for long.
        wait(to.maintain(Upkeep::Index))?;
        Ok(copy.report())
    }
}

struct ArchiveCopy<'a> {
    from: &'a dyn Archive,
    to: &'a dyn Archive,
    /// What was copied of sessions, each with a hash of what a list showed of it before.
    copied: HashMap<SessionId, (blake3::Hash, CopiedSession)>,
    /// The sessions that cannot be copied as a list showed them.
    failed: HashMap<SessionId, (blake3::Hash, UncopiedSession)>,
}

impl ArchiveCopy<'_> {
    /// The sessions that were written to since they were copied; the one that was spoken in last comes last, so that lists
    /// of the other archive have the same order.
    fn stale(&self) -> Result<Vec<SessionInfo>, ArchiveError> {
        let mut stale = Vec::new();
        let mut page = Page::first(PAGE);
        loop {
            let listing = wait(self.from.list_sessions(SessionFilter::All, page))?;
            stale.extend(listing.items.into_iter().filter(|session| self.is_stale(session)));
            match listing.next {
                Some(next) => page.after = Some(next),
                None => break,
            }
        }
        stale.reverse();
        Ok(stale)
    }

    fn is_stale(&self, session: &SessionInfo) -> bool {
        let copied = self.copied.get(&session.id).map(|(seen, _)| seen);
        let seen = copied.or_else(|| self.failed.get(&session.id).map(|(seen, _)| seen));
        seen != Some(&shown(session))
    }

    /// Copies a session as far as it goes; returns how many bytes were new. Fails only if an archive does.
    fn one(&mut self, session: SessionInfo) -> Result<u64, AppError> {
        let id = session.id;
        let before = self.copied.remove(&id).map(|(_, before)| before).unwrap_or_default();
        self.failed.remove(&id);
        let reason = if session.is_damaged {
            "it is damaged".to_owned()
        } else {
            match transfer::copy(self.from, self.to, id) {
                Ok(Some(copied)) => {
                    let sum = CopiedSession {
                        entries: before.entries + copied.entries,
                        bytes: before.bytes + copied.bytes,
                        total: copied.total,
                    };
                    self.copied.insert(id, (shown(&session), sum));
                    return Ok(copied.bytes);
                }
                Ok(None) => REMOVED.to_owned(),
                Err(TransferError::Differs { what, .. }) => {
                    format!("the other archive has something else in it: {what}")
                }
                Err(TransferError::Archive(
                    error @ (ArchiveError::Damaged { .. }
                    | ArchiveError::NotTheOwner { .. }
                    | ArchiveError::Unfit { .. }
                    | ArchiveError::Conflict { .. }
                    | ArchiveError::UnknownSession { .. }),
                )) => error.to_string(),
                Err(error) => return Err(error.into()),
            }
        };
        self.leave_out(vec![session], &reason);
        Ok(0)
    }

    fn leave_out(&mut self, sessions: Vec<SessionInfo>, reason: &str) {
        for session in sessions {
            self.copied.remove(&session.id);
            let seen = shown(&session);
            let id = short_id(&session.id.to_string()).to_owned();
            let uncopied = UncopiedSession { id, name: session.name, reason: reason.to_owned() };
            self.failed.insert(session.id, (seen, uncopied));
        }
    }

    /// Names the sessions that were removed after they were copied.
    fn name_removed(&mut self) -> Result<(), ArchiveError> {
        let copied: Vec<SessionId> = self.copied.keys().copied().collect();
        for id in copied {
            if self.from.session(id)?.is_none()
                && let Some(session) = self.to.session(id)?
            {
                self.leave_out(vec![session], REMOVED);
            }
        }
        Ok(())
    }

    fn report(self) -> CopyReport {
        let mut report = CopyReport { sessions: self.copied.len() as u64, ..CopyReport::default() };
        for (_, copied) in self.copied.values() {
            report.entries += copied.total;
            report.new_entries += copied.entries;
            report.new_bytes += copied.bytes;
        }
        report.uncopied = self.failed.into_values().map(|(_, uncopied)| uncopied).collect();
        report.uncopied.sort_by(|one, other| (&one.name, &one.id).cmp(&(&other.name, &other.id)));
        report
    }
}

/// All that a list shows of a session.
fn shown(session: &SessionInfo) -> blake3::Hash {
    blake3::hash(format!("{session:?}").as_bytes())
}
