//! Earlier messages that a session's window brings back for a new one.

use longhand_archive::wait;
use longhand_core::{Batch, Message, Seq, Tokens};

use super::request::SessionRequest;
use super::{Session, SessionError, ShownContent};
use crate::driver::{BatchCommit, NewWords, RecallRoom};
use crate::prompt::{Placement, Prompt, Window};
use crate::receipt::{EditReceipt, Receipt, ReceiptCause};

/// A window with what came back, and the batch that has it.
pub(super) struct RecalledWindow {
    pub(super) window: Window,
    pub(super) batch: Batch,
}

impl Session {
    /// The same window with earlier messages that matter for the new one, in the room that is left; `planned` is to be
    /// committed with them. `None` if there are none.
    pub(super) fn recalled(
        &self,
        message: &str,
        prompt: &Prompt,
        request: &SessionRequest,
        live: &[Batch],
        planned: &Batch,
        window: &Window,
    ) -> Result<Option<RecalledWindow>, SessionError> {
        let room = prompt.budget.unwrap_or(self.settings.budget);
        let share = self.settings.recall(room);
        // Where all that is recalled stands in the system message, the rounds are sent as they were.
        let has_room = share > Tokens::ZERO
            && window.shortfall == Tokens::ZERO
            && prompt.placement == Placement::User;
        let Some(words) = has_room.then(|| self.new_words(message)).flatten() else {
            return Ok(None);
        };
        let recall = RecallRoom { share, free: room.saturating_sub(window.tokens) };
        let planned = Some(planned).filter(|batch| !batch.edits.is_empty());
        let mut live: Vec<Batch> = live.iter().chain(planned).cloned().collect();
        let meter = &*self.settings.meter;
        let embeddings = self.settings.embeddings.as_deref();
        let remembered =
            words.remembered(&*self.archive, self.id, &live, meter, recall, embeddings);
        let Some(batch) = wait(remembered)? else { return Ok(None) };
        live.push(batch.clone());
        let window = request.write(&live, prompt, meter)?;
        Ok((window.tokens <= room).then_some(RecalledWindow { window, batch }))
    }

    /// Commits a batch that only brings something back; says whether no other writer was first.
    pub(super) fn commit_recalled(
        &mut self,
        batch: Batch,
        tokens: Tokens,
        room: Tokens,
        now_ms: i64,
    ) -> Result<bool, SessionError> {
        let receipt = Receipt {
            edits: vec![EditReceipt::recalled(batch.head)],
            tokens_after: Some(tokens.0),
            ..Receipt::of(ReceiptCause::Recall, Some(room))
        };
        if !self.commit_batch(&batch, receipt, now_ms)? {
            return Ok(false);
        }
        self.live.push(batch);
        Ok(true)
    }

    /// Commits a batch on top of the newest one. If another writer was first, what it wrote is read instead.
    pub(super) fn commit_batch(
        &mut self,
        batch: &Batch,
        receipt: Receipt,
        now_ms: i64,
    ) -> Result<bool, SessionError> {
        let (after, aside) = (self.newest_batch, false);
        let commit = BatchCommit { after, batch: batch.clone(), receipt, aside };
        let Some(number) = self.driver.commit(commit, now_ms)? else {
            self.reload()?;
            return Ok(false);
        };
        self.newest_batch = number;
        self.weighed = None;
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
