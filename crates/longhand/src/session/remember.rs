//! Earlier messages that a session's window brings back for a new one.

use longhand_archive::wait;
use longhand_core::{Batch, Message, Seq, Tokens};

use super::request::SessionRequest;
use super::{CommitWhen, Session, SessionError, ShownContent};
use crate::driver::{BatchCommit, NewWords, RecallRoom};
use crate::prompt::{Prompt, Window};
use crate::receipt::{Receipt, ReceiptCause};

impl Session {
    /// The same window with earlier messages that matter for the new one, in the room that is left. If they are committed,
    /// later windows have them in the same place.
    pub(super) fn remembering(
        &mut self,
        message: Option<&str>,
        prompt: &Prompt,
        window: Window,
        commit: CommitWhen,
    ) -> Result<Window, SessionError> {
        let room = prompt.budget.unwrap_or(self.settings.budget);
        let share = self.settings.recall(room);
        let has_room = share > Tokens::ZERO && window.shortfall == Tokens::ZERO;
        let Some(words) = message.filter(|_| has_room).and_then(|said| self.new_words(said)) else {
            return Ok(window);
        };
        let recall = RecallRoom { share, free: room.saturating_sub(window.tokens) };
        let (live, meter) = (&self.live, &*self.settings.meter);
        let remembered = words.remembered(&*self.archive, self.id, live, meter, recall);
        let Some(batch) = wait(remembered)? else { return Ok(window) };
        let request = SessionRequest::of(self, message, prompt);
        self.live.push(batch.clone());
        let written = request.write(&self.live, prompt, &*self.settings.meter);
        self.live.pop();
        let written = written?;
        if written.tokens > room {
            return Ok(window);
        }
        if let CommitWhen::At(now_ms) = commit {
            let is_committed = self.commit_recalled(batch, window.tokens, room, now_ms)?;
            // If another writer was first, the window is right without them.
            return Ok(if is_committed { written } else { window });
        }
        Ok(written)
    }

    fn commit_recalled(
        &mut self,
        batch: Batch,
        before: Tokens,
        room: Tokens,
        now_ms: i64,
    ) -> Result<bool, SessionError> {
        let receipt = Receipt {
            tokens_before: Some(before.0),
            ..Receipt::of(ReceiptCause::Recall, Some(room))
        };
        let (after, aside) = (self.newest_batch, false);
        let commit = BatchCommit { after, batch: batch.clone(), receipt, aside };
        let Some(number) = self.driver.commit(commit, now_ms)? else {
            self.reload()?;
            return Ok(false);
        };
        self.newest_batch = number;
        self.weighed = None;
        self.live.push(batch);
        Ok(true)
    }

    /// What a new message says after the newest entry that is seen.
    fn new_words(&self, said: &str) -> Option<NewWords> {
        if self.is_undone {
            return None;
        }
        let after = self.last().or_else(|| self.entries.checked_sub(1).map(Seq))?;
        let messages = self.shown.iter().filter_map(|entry| match &entry.content {
            ShownContent::Message(_, message) => Some(message.clone()),
            _ => None,
        });
        let mut newest: Vec<Message> = messages.rev().take(NewWords::BEFORE).collect();
        newest.reverse();
        NewWords::new(after, said.to_owned(), &newest)
    }
}
