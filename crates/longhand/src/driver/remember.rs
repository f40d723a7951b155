//! Earlier messages that a window brings back for a new one.
//!
//! They stand before the new message and stay there, so that what was sent before is still a prefix. They take room that
//! is free: nothing is folded for them. A window that shows everything brings nothing back.

use longhand_archive::{Archive, ArchiveError, SessionId};
use longhand_core::{Batch, InView, Message, Meter, Part, Path, Role, Scale, Seq, Tokens};

use crate::embeddings::Embeddings;
use crate::entry::words_of;
use crate::memory::{Cue, Recollection, quoted};

/// With less room, nothing is brought back.
const TOKENS_MIN: Tokens = Tokens(100);
/// Room for a few messages.
const ENOUGH: Tokens = Tokens(400);
/// Of the room that is free, one in so many tokens: what is brought back must not make the next message one too many.
const FREE_SHARE: u64 = 2;
/// What is worth less than this share of the best is not brought back.
const WORTH_MIN: f32 = 0.6;
/// What the user says now, and what was said just before.
pub(crate) struct NewWords {
    /// The entry that the quotes follow.
    pub(crate) after: Seq,
    message: String,
    before: Vec<String>,
}

/// How much room there is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecallRoom {
    /// For all that is brought back and in view together.
    pub(crate) share: Tokens,
    /// In the window as it is.
    pub(crate) free: Tokens,
}

impl NewWords {
    /// So many of the newest messages tell what a short message is about.
    pub(crate) const BEFORE: usize = 2;

    /// What the user says in the newest messages of a path; `None` if the user says nothing there.
    pub(crate) fn of(path: &Path<'_>) -> Option<Self> {
        let is_told = |message: &Message| {
            message.role == Role::Assistant || message.results().next().is_some()
        };
        let last = path.messages.iter().rposition(is_told)?;
        let said: Vec<String> = path.messages[last + 1..]
            .iter()
            .filter(|message| message.is_user_turn())
            .flat_map(words_of)
            .collect();
        let after = path.seq(last)?;
        Self::new(after, said.join("\n"), &path.messages[..=last])
    }

    /// The same of a message that has no entry yet and follows these.
    pub(crate) fn new(after: Seq, message: String, before: &[Message]) -> Option<Self> {
        let is_open = before.last()?.calls().next().is_some();
        let said = before.iter().rev().filter(|message| message.role != Role::System);
        let said = said.filter_map(|message| message.parts.iter().find_map(Part::text));
        let before = said.take(Self::BEFORE).map(|text| text.decode().into_owned()).collect();
        let is_said = !message.trim().is_empty() && !is_open;
        is_said.then_some(Self { after, message, before })
    }

    /// A batch that has the earlier messages follow that matter now; `None` if there are none, or no room.
    pub(crate) async fn remembered(
        &self,
        archive: &dyn Archive,
        session: SessionId,
        live: &[Batch],
        meter: &dyn Meter,
        room: RecallRoom,
        embeddings: Option<&Embeddings>,
    ) -> Result<Option<Batch>, ArchiveError> {
        let view = InView::of(live);
        if view.is_complete() || view.is_folded(self.after) {
            return Ok(None);
        }
        let scale = Scale::new(meter);
        let recalled: Tokens = view.inserts().map(|(_, text)| scale.text(text)).sum();
        // What comes back now leaves room for what later messages need, unless there is little.
        let left = room.share.saturating_sub(recalled);
        let limit = Tokens(left.0 / 2).max(left.min(ENOUGH));
        let limit = limit.min(Tokens(room.free.0 / FREE_SHARE));
        if limit < TOKENS_MIN {
            return Ok(None);
        }
        let before: Vec<&str> = self.before.iter().map(String::as_str).collect();
        let cue = Cue { message: &self.message, before: &before, worth_min: WORTH_MIN };
        let likeness = match embeddings {
            Some(embeddings) => embeddings.likeness(session, &self.message).await,
            None => None,
        };
        let likeness = likeness.as_ref();
        let path = (session, Some(self.after));
        let view = Some(&view);
        let share = room.share;
        let recollection = Recollection { path, cue, scale: &scale, limit, share, view, likeness };
        let turns = recollection.turns(archive).await?;
        Ok((!turns.is_empty()).then(|| Batch::inserting(self.after, quoted(session, &turns))))
    }
}
