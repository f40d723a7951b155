//! Earlier messages that a window brings back for a new one.
//!
//! They follow the newest entry and stay there, so that what was sent before them stays a prefix. They take room that is
//! free: nothing is folded for them.

use longhand_archive::{After, wait};
use longhand_core::{Batch, Part, Role, Scale, Seq, Tokens};

use super::request::SessionRequest;
use super::{Session, SessionError, ShownContent};
use crate::driver::BatchCommit;
use crate::memory::{Cue, RecalledTurn, line_start, quoted, recollect};
use crate::prompt::{Placement, Prompt, Window};
use crate::receipt::{Receipt, ReceiptCause};

/// With less room, nothing is brought back.
const TOKENS_MIN: Tokens = Tokens(120);
/// What a message takes besides its text.
const FRAMING: Tokens = Tokens(16);
/// What is worth less than this share of the best is not brought back.
const WORTH_MIN: f32 = 0.6;
/// So many of the newest messages tell what a short message is about.
const BEFORE: usize = 2;

impl Session {
    /// The same window with earlier messages that matter for the new one, in the room that is left. With a time they are
    /// committed: later windows have them in the same place.
    pub(super) fn remembering(
        &mut self,
        message: &str,
        prompt: &Prompt,
        window: Window,
        commit_at: Option<i64>,
    ) -> Result<Window, SessionError> {
        let Some((head, turns)) = self.remembered(message, prompt, &window)? else {
            return Ok(window);
        };
        let room = prompt.budget.unwrap_or(self.settings.budget);
        let batch = Batch::inserting(head, quoted(self.id, &turns));
        self.live.push(batch.clone());
        let request = SessionRequest::of(self, Some(message), prompt);
        let written = request.write(&self.live, prompt, &*self.settings.meter);
        self.live.pop();
        let written = written?;
        if written.tokens > room {
            return Ok(window);
        }
        if let Some(now_ms) = commit_at {
            let receipt = Receipt {
                tokens_before: Some(window.tokens.0),
                ..Receipt::of(ReceiptCause::Recall, Some(room))
            };
            let commit = BatchCommit {
                after: self.newest_batch,
                batch: batch.clone(),
                receipt,
                aside: false,
            };
            let Some(number) = self.driver.commit(commit, now_ms)? else {
                // Another writer was first; the window is right without them.
                self.reload()?;
                return Ok(window);
            };
            self.newest_batch = number;
            self.weighed = None;
            self.live.push(batch);
        }
        Ok(written)
    }

    /// What is worth bringing back, and after which entry.
    fn remembered(
        &self,
        message: &str,
        prompt: &Prompt,
        window: &Window,
    ) -> Result<Option<(Seq, Vec<RecalledTurn>)>, SessionError> {
        let room = prompt.budget.unwrap_or(self.settings.budget);
        let scale = Scale::new(&*self.settings.meter);
        let share = Tokens(room.0 / 100 * self.settings.recall_percent.min(100));
        let recalled: Tokens =
            self.live.iter().flat_map(Batch::inserted).map(|text| scale.text(text)).sum();
        // What comes back now leaves room for what later messages need.
        let limit = Tokens(share.saturating_sub(recalled).0 / 2);
        let limit = limit.min(room.saturating_sub(window.tokens + FRAMING));
        let head = match self.place {
            After::Entry(last) => last,
            After::Newest => self.entries.checked_sub(1).map(Seq),
        };
        let Some(head) = head.filter(|_| limit >= TOKENS_MIN && !message.trim().is_empty()) else {
            return Ok(None);
        };
        let is_asked = prompt.placement == Placement::User && !self.is_undone;
        if !is_asked || !self.live.iter().any(Batch::hides_any) {
            return Ok(None);
        }
        let live = &self.live;
        let hidden = |seq: Seq| live.iter().any(|batch| batch.hides(seq));
        let before: Vec<String> = self.before();
        let before: Vec<&str> = before.iter().map(String::as_str).collect();
        let cue = Cue { message, before: &before, worth_min: WORTH_MIN };
        let path = (self.id, Some(head));
        let turns = recollect(&*self.archive, path, cue, &scale, limit, &hidden);
        let mut turns = wait(turns)?;
        turns.retain(|turn| !self.stands_already(turn));
        Ok((!turns.is_empty()).then_some((head, turns)))
    }

    /// What was said last.
    fn before(&self) -> Vec<String> {
        let said = self.shown.iter().rev().filter_map(|entry| match &entry.content {
            ShownContent::Message(_, message) if message.role != Role::System => {
                message.parts.iter().find_map(Part::text).map(|text| text.decode().into_owned())
            }
            _ => None,
        });
        said.take(BEFORE).collect()
    }

    /// Whether the window has it: in the fold, or brought back earlier.
    fn stands_already(&self, turn: &RecalledTurn) -> bool {
        let start = format!("\n{}", line_start(turn.seq, &turn.speaker));
        let is_recalled =
            self.live.iter().flat_map(Batch::inserted).any(|text| text.contains(&start));
        is_recalled || self.summary().is_some_and(|block| block.contains(&turn.text))
    }
}
