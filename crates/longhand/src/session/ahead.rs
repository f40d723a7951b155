//! Folding ahead: a window of a long session is made without reading all of it.
//!
//! What no window could show is folded some megabytes at a time, without a text and without a batch. A window makes its own
//! fold on top of that, which holds by itself. While a session grows, such folds are kept beside it as *logs*: they are
//! derived from its entries, take nothing out of sight, and save the first window from reading what they cover.

mod kept;

use std::collections::VecDeque;
use std::sync::Arc;

use longhand_archive::{After, Archive, NewEntry, SessionId, Write, wait};
use longhand_core::{Batch, Fold, History, Seq, Size, Tokens, Wire, fold_ahead};

use self::kept::{KeptLog, LogList};
use super::request::SessionRequest;
use super::{Session, SessionError, SessionSettings, ShownContent, ShownEntry};
use crate::prompt::Prompt;

/// How many bytes of messages are folded at a time.
const PORTION_BYTES: u64 = 4 << 20;
/// How many bytes of messages stay for each token of a window, and at the least.
const BYTES_PER_TOKEN: u64 = 16;
const BYTES_MIN: u64 = 2 << 20;
/// Shorter conversations are read.
const ENTRIES_MIN: u64 = 256;
/// After how many bytes that were recorded it is looked whether a log is due.
const LOOK_BYTES: usize = 1 << 20;
/// How many logs are made before the older ones are forgotten again.
const LOGS_MAX: usize = 8;

/// What is folded ahead of the next batch.
pub(super) struct FoldedAhead {
    batch: Batch,
    /// About how many bytes its messages have.
    bytes: u64,
}

/// Keeps logs of what a session got since it was looked at last, if that is much. A window works out what it lacks.
pub fn keep_logs(archive: &Arc<dyn Archive>, id: SessionId) -> Result<(), SessionError> {
    if archive.session(id)?.is_none_or(|info| info.bytes < PORTION_BYTES) {
        return Ok(());
    }
    keep_logs_with(archive, id, &SessionSettings::new()?)
}

fn keep_logs_with(
    archive: &Arc<dyn Archive>,
    id: SessionId,
    settings: &SessionSettings,
) -> Result<(), SessionError> {
    let bytes = archive.session(id)?.map_or(0, |info| info.bytes);
    if bytes < PORTION_BYTES {
        return Ok(());
    }
    let list = LogList::parse(archive.derived(id, LogList::KEY)?.as_deref());
    if bytes < list.bytes + PORTION_BYTES {
        return Ok(());
    }
    let mut session = Session::open_id(Arc::clone(archive), id, "", settings.clone())?;
    session.keep_logs(list, bytes)
}

impl Session {
    /// Keeps a log of what was recorded, if so much was recorded since.
    pub(super) fn keep_logs_of(&mut self, entries: &[NewEntry]) -> Result<(), SessionError> {
        let bytes: usize = entries.iter().map(|entry| entry.raw.len()).sum();
        self.log_due = self.log_due.saturating_sub(bytes);
        if self.log_due > 0 || self.settings.summarisers.is_empty() {
            return Ok(());
        }
        self.log_due = LOOK_BYTES;
        keep_logs_with(&self.archive, self.id, &self.settings)
    }

    /// Reads all entries that no batch folds.
    pub(super) fn read_unfolded(&mut self) -> Result<(), SessionError> {
        if self.ahead.is_some() {
            self.reload()?;
        }
        self.read_all()
    }

    fn keep_logs(&mut self, mut list: LogList, bytes: u64) -> Result<(), SessionError> {
        let base = self.live_fold().map_or(0, |fold| fold.sum);
        if let Some((_, log)) = self.kept_log(&list, |_| true)? {
            self.begin_after(log.batch, 0);
        }
        // With each log, how many bytes were read until it was made.
        let (mut logs, mut read, mut stayed) = (VecDeque::new(), 0, 0);
        loop {
            self.read_some(PORTION_BYTES as usize)?;
            let shown = self.shown_bytes();
            read += shown - stayed;
            let last = self.shown.last().map(|entry| entry.seq);
            let is_enough = shown - stayed >= PORTION_BYTES;
            let Some((last, batch)) = last.zip(is_enough.then(|| self.fold_of_shown()).flatten())
            else {
                break;
            };
            logs.push_back((last, batch.clone(), read));
            if logs.len() > LOGS_MAX {
                logs.pop_front();
            }
            self.go_on_after(batch);
            stayed = self.shown_bytes();
        }
        list.bytes = bytes;
        let mut derived = Vec::new();
        for (last, batch, read_until) in logs {
            let Some(link) = self.driver.link(last)? else { continue };
            let log = KeptLog { last, link, base, batch };
            derived.push((list.add(bytes.saturating_sub(read - read_until)), log.write()));
        }
        derived.push((LogList::KEY.to_owned(), list.write()));
        let write = Write { session: self.id, derived, ..Write::default() };
        Ok(wait(self.archive.write(vec![write]))?
            .into_iter()
            .try_for_each(|done| done.map(drop))?)
    }

    /// Folds what no window of `room` tokens could show, if much is unread: by the newest log that leaves enough, and
    /// then a portion at a time.
    pub(super) fn fold_ahead(&mut self, room: Tokens) -> Result<(), SessionError> {
        if self.place != After::Newest || self.reads_all || self.unread_entries() < ENTRIES_MIN {
            return Ok(());
        }
        let needed = BYTES_MIN.max(room.0.saturating_mul(BYTES_PER_TOKEN));
        if self.ahead.is_none() && !self.settings.summarisers.is_empty() {
            let bytes = self.archive.session(self.id)?.map_or(0, |info| info.bytes);
            let list = LogList::parse(self.archive.derived(self.id, LogList::KEY)?.as_deref());
            let leaves_enough = |until: u64| bytes >= until.saturating_add(needed);
            if let Some((until, log)) = self.kept_log(&list, leaves_enough)? {
                self.begin_after(log.batch, until);
            }
        }
        loop {
            self.read_some(PORTION_BYTES as usize)?;
            let (bytes, entries) = (self.shown_bytes(), self.shown.len() as u64);
            // How long the rest is, is told by the length of what was read.
            let left = self.unread_entries().saturating_mul(bytes / entries.max(1));
            if left < needed {
                return Ok(());
            }
            let Some(batch) = self.fold_of_shown() else { return Ok(()) };
            self.go_on_after(batch);
        }
    }

    /// The batches that a plan goes on from: the live ones, and what was folded ahead.
    pub(super) fn planned_on(&self) -> Vec<Batch> {
        let ahead = self.ahead.iter().map(|ahead| &ahead.batch);
        let mut batches: Vec<Batch> = self.live.iter().chain(ahead).cloned().collect();
        super::reading::keep_newest_state(&mut batches);
        batches
    }

    /// The fold after which entries are read: what was folded ahead, or else the live one.
    pub(super) fn read_after(&self) -> Option<&Fold> {
        self.ahead.as_ref().map_or_else(|| self.live_fold(), |ahead| ahead.batch.fold())
    }

    /// About how many bytes of messages were folded ahead.
    pub(super) fn ahead_bytes(&self) -> u64 {
        self.ahead.as_ref().map_or(0, |ahead| ahead.bytes)
    }

    fn live_fold(&self) -> Option<&Fold> {
        self.live.iter().rev().find_map(Batch::fold)
    }

    /// The newest log that ends where it is wanted and holds for the conversation as it is now, and where it ends.
    fn kept_log(
        &self,
        list: &LogList,
        is_wanted: impl Fn(u64) -> bool,
    ) -> Result<Option<(u64, KeptLog)>, SessionError> {
        let base = self.live_fold().map_or(0, |fold| fold.sum);
        for (key, until) in list.newest_first().filter(|(_, until)| is_wanted(*until)) {
            let value = self.archive.derived(self.id, &key)?;
            let Some(log) = value.as_deref().and_then(KeptLog::parse) else { continue };
            let hides_a_pin = self.pins.iter().any(|pin| self.hides(&log, *pin));
            if log.base == base
                && !hides_a_pin
                && self.driver.is_on_path(log.last)
                && self.driver.link(log.last)? == Some(log.link)
            {
                return Ok(Some((until, log)));
            }
        }
        Ok(None)
    }

    /// Whether a log takes an entry out of sight that the live batches show.
    fn hides(&self, log: &KeptLog, seq: Seq) -> bool {
        log.batch.fold().is_some_and(|fold| fold.contains(seq))
            && !self.live_fold().is_some_and(|fold| fold.contains(seq))
    }

    /// Folds what was read, without a text; `None` if nothing of it can be folded.
    fn fold_of_shown(&self) -> Option<Batch> {
        let request = SessionRequest::of(self, None, &Prompt::default());
        let (live, path) = (self.planned_on(), request.path());
        let (pins, fixed, wire) = (&*self.pins, Size::ZERO, Wire::default());
        let history = History { path, live: &live, pins, fixed, wire };
        let digest = self.digest();
        fold_ahead(&history, &*self.settings.meter, |folded, scale| digest.state(folded, scale))
    }

    /// Reads from the end of a fold on.
    fn begin_after(&mut self, batch: Batch, bytes: u64) {
        self.ahead = Some(FoldedAhead { batch, bytes });
        self.shown.clear();
        self.weighed = None;
        self.unread = self.gaps().into();
    }

    /// Leaves out what was read and is folded now.
    fn go_on_after(&mut self, batch: Batch) {
        let before = self.shown_bytes();
        if let Some(fold) = batch.fold() {
            self.shown.retain(|entry| !fold.contains(entry.seq));
        }
        let bytes = self.ahead_bytes() + before - self.shown_bytes();
        self.ahead = Some(FoldedAhead { batch, bytes });
        self.weighed = None;
    }

    fn unread_entries(&self) -> u64 {
        self.unread.iter().map(|range| range.end - range.start).sum()
    }

    /// How many bytes the messages have that were read.
    fn shown_bytes(&self) -> u64 {
        let bytes = self.shown.iter().map(|ShownEntry { content, .. }| match content {
            ShownContent::Message(_, message) => message.raw.raw_len() as u64,
            ShownContent::Trace(name, summary) => (name.len() + summary.len()) as u64,
            ShownContent::Aside => 0,
        });
        bytes.sum()
    }
}
