//! Reading a session as far as it is needed.

use std::ops::Range;

use longhand_archive::{After, Entry};
use longhand_core::{Batch, Seq};

use super::{Session, SessionError, ShownContent, ShownEntry};
use crate::entry::{Form, messages, trace};

/// How many entries are read from the archive at a time.
const READ_AT_A_TIME: u64 = 256;

impl Session {
    /// Reads the state of the conversation from the archive. Entries are read when they are needed, folded ones never.
    pub fn reload(&mut self) -> Result<(), SessionError> {
        self.driver.refresh()?;
        let last = self.last();
        self.shown = Vec::new();
        self.unread.clear();
        self.ahead = None;
        self.weighed = None;
        self.live.clear();
        self.newest_batch = 0;
        self.read_counts();
        if self.place == After::Entry(None) {
            return Ok(());
        }
        let live = self.driver.live(last)?;
        self.newest_batch = live.last().map_or(0, |live| live.number);
        self.live = live.iter().map(|live| live.batch().clone()).collect();
        keep_newest_state(&mut self.live);
        self.unread = self.gaps().into();
        // Where the verbatim rounds begin is known from the first of them.
        while self.unread.len() > 1 {
            self.read_some(1)?;
        }
        self.read_some(1)
    }

    /// The entry after which nothing is seen; `None` for the newest.
    pub(super) fn last(&self) -> Option<Seq> {
        match self.place {
            After::Newest => None,
            After::Entry(last) => last,
        }
    }

    /// Reads entries until there are so many bytes of them more, or no more.
    pub(super) fn read_some(&mut self, bytes: usize) -> Result<(), SessionError> {
        let last = self.last();
        let mut read = 0;
        while read < bytes
            && let Some(gap) = self.unread.front_mut()
        {
            let end = gap.end.min(gap.start + READ_AT_A_TIME);
            let range = gap.start..end;
            let entries = self.driver.entries(last, range)?;
            read += entries.iter().map(|entry| entry.raw.len()).sum::<usize>();
            self.shown.extend(entries.iter().map(shown));
            if end == gap.end {
                self.unread.pop_front();
            } else {
                gap.start = end;
            }
        }
        Ok(())
    }

    /// Reads all entries that are not folded.
    pub(super) fn read_all(&mut self) -> Result<(), SessionError> {
        self.read_some(usize::MAX)
    }

    /// Takes note of how much the session has.
    pub(super) fn read_counts(&mut self) {
        self.is_undone = self.driver.live.is_undone();
        let memory = self.driver.live.lock();
        let tree = memory.state.tree();
        self.entries = tree.len();
        let newest = tree.newest().and_then(|newest| memory.state.round(newest).ok());
        self.rounds = newest.map_or(0, |round| round + 1);
        self.pins = memory.state.pins().to_vec();
    }

    /// The numbers of entries that are not folded.
    pub(super) fn gaps(&self) -> Vec<Range<u64>> {
        let spans = self.read_after().map(|fold| fold.spans.clone()).unwrap_or_default();
        let mut gaps = Vec::new();
        let mut start = 0;
        for span in spans {
            gaps.push(start..span.first.0);
            start = span.last.0 + 1;
        }
        gaps.push(start..self.entries);
        gaps.retain(|gap| gap.start < gap.end);
        gaps
    }
}

fn shown(entry: &Entry) -> ShownEntry {
    let content = match Form::parse(&entry.form) {
        Some(Form::Message(dialect)) => match messages(dialect, &entry.raw).into_iter().next() {
            Some(message) => ShownContent::Message(dialect, message),
            None => ShownContent::Aside,
        },
        Some(Form::Trace) => match trace(&entry.raw) {
            Some((name, summary)) => ShownContent::Trace(name, summary),
            None => ShownContent::Aside,
        },
        Some(Form::Call) | None => ShownContent::Aside,
    };
    ShownEntry { seq: entry.seq, round: entry.round, at_ms: entry.at_ms, content }
}

/// Forgets the states of all folds but the newest, which is the only one that is read again.
///
/// The archive has them all: an undo reads them from there.
pub(super) fn keep_newest_state(live: &mut [Batch]) {
    let newest = live.iter().rposition(|batch| batch.fold().is_some()).unwrap_or(0);
    for batch in &mut live[..newest] {
        batch.state = String::new();
    }
}
